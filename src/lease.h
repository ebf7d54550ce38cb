/*-------------------------------------------------------------------------
 *
 * lease.h
 *		The node number of this server, leased from a registry or registered
 *		there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LEASE_H
#define SNOWFLAKE_LEASE_H

#include "settings.h"
#include "shmem.h"
#include "waits.h"

#pragma GCC visibility push(hidden)

/*
 * For sessions that draw IDs
 */

/*
 * Does it take the registry to draw?  It leases a number to this server, or
 * registers the configured one.
 */
static inline bool
lease_is_used(void)
{
	return snowflake_layout.bits[FIELD_NODE] > 0 && snowflake_registry[0] != '\0';
}

/*
 * Is what the registry gives a registration, and not a lease?  That has the
 * last deadline and the last mark there are.
 */
static inline bool
lease_is_registration(void)
{
	return snowflake_node_id != NODE_ID_UNSET;
}

/*
 * This server's number; -1 when it has none.
 *
 * For an ID, read it after it was seen that its time is reserved: so it is the
 * number that this was reserved with, or a later one.
 */
static inline int
lease_node(void)
{
	if (!lease_is_used() || lease_is_registration() || shared == NULL)
		return snowflake_layout.bits[FIELD_NODE] > 0 ? snowflake_node_id : 0;
	pg_read_barrier();
	return (int) pg_atomic_read_u32(&shared->lease.node);
}

/* May IDs be issued with the number that the server has? */
extern bool lease_is_valid(void);

/* Is this the time of an ID that the lease allows? */
extern bool lease_covers(uint64 unit);

/*
 * Sleep until IDs may be issued at a time, or for a while.  Can be
 * interrupted.  Raises an ERROR with the reason when there is no time left to
 * wait.
 */
extern void lease_wait(uint64 unit, Wait *wait);

/*
 * Why there is no number, or how long there is one, for a DETAIL and a HINT.
 * Returns whether something is wrong.
 */
extern bool lease_describe(char **detail, char **hint);

/*
 * Until when, by the server's clock; DT_NOBEGIN for none, DT_NOEND for a
 * registration.
 */
extern TimestampTz lease_ends_at(void);

/* What the registry says of other servers with this number; '' for nothing. */
extern const char *lease_warning(void);

#define LEASE_WARNING_HINT \
	"Each server needs a number of its own: change \"snowflake.node_id\" of one of them and restart it, or stop it."

/*
 * For the services
 */

/*
 * What the registry has granted: a number, and that IDs may be issued with it
 * from now until the deadline, by the steady clock, and only at times from the
 * floor on and below the mark, in microseconds since 1970.
 */
typedef struct Grant
{
	int			node;
	const char *token;			/* that the registry knows this server by */
	int64		deadline_us;
	int64		mark_us;
	int64		floor_us;
} Grant;

/* What this server says of itself: see lease.c. */
extern const char *lease_token(void);
extern const char *lease_instance(void);
extern int	lease_held(const char **token);

/* Is it a number that this server can have? */
extern bool lease_fits(int64 node);

/* The mark to ask for. */
extern int64 lease_wanted_mark(void);

/* Is a number offered to the mark writer that it has not taken yet? */
extern bool lease_is_offered(void);
extern void lease_settle(void);

extern void lease_recall(void);
extern void lease_take(const Grant *grant);
extern void lease_lose(const char *reason, const char *hint, bool passes);
extern void lease_remember(void);
extern void lease_remember_at_exit(void);

/*
 * What was seen of the registry.  It is written by what it says in its answers
 * alone, and in those only that give a number.
 */
extern RegistrySeen lease_seen(void);
extern void lease_note_seen(const char *timeline, int64 changes, int64 renewals);
extern void lease_remember_seen(void);

/* For a session: let another registry take its place. */
extern void lease_forget_seen(void);

/* Has it been, and is the registry to be asked at once? */
extern bool lease_retry(void);

extern void lease_note_error(const char *error, const char *hint, bool is_refused);
extern void lease_note_warning(const char *warning);

/* The connection to the registry: lease_fetch.c asks for a number, again and again. */
extern struct RegistryLink lease_link;

/* The first values in shared memory. */
extern void lease_init_shmem(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_LEASE_H */
