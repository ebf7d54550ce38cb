/*-------------------------------------------------------------------------
 *
 * mark.h
 *		The durable mark: the time below which IDs may have been issued.
 *
 * A unit is a time in time units since the epoch.  Names that end in _us are
 * in microseconds: a mark since 1970-01-01 UTC, a deadline of the steady
 * clock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

#include "utils/timestamp.h"

#include "shmem.h"
#include "waits.h"

#pragma GCC visibility push(hidden)

/*
 * May IDs be issued in this time unit?  Once "yes", the answer stays for as
 * long as shared memory lives, but for a shutdown, which closes the words.
 */
static inline bool
mark_covers(uint64 unit)
{
	return unit < pg_atomic_read_u64(&shared->mark.limit_unit);
}

/* Is anything reserved at all?  Where not, a closed word is of no meaning. */
static inline bool
mark_is_open(void)
{
	pg_read_barrier();
	return pg_atomic_read_u64(&shared->mark.limit_unit) != 0;
}

/* Is it time to ask for more? */
static inline bool
mark_runs_out(uint64 unit)
{
	return unit >= pg_atomic_read_u64(&shared->mark.renew_unit);
}

/* Ask the mark writer to reserve this time unit and more; do not wait. */
extern void mark_ask(uint64 unit);

/*
 * Ask for it and sleep until something changed, or for a while.  Can be
 * interrupted.  Raises an ERROR with its reason when there is no time
 * left to wait, or waiting is of no use.
 */
extern void mark_wait(uint64 unit, Wait *wait);

/* The time of an ID for snowflake_advance() may be so far ahead of the clock. */
#define MARK_MAX_AHEAD_US	USECS_PER_DAY

/*
 * For the SQL functions.  They wait for the mark writer, up to max_wait, else
 * ERROR: issue no ID below this time unit any more, durably; take the configured
 * layout and epoch for the recorded ones, false when there was nothing to
 * accept; raise an ERROR while they are not known to be those.
 */
extern void mark_advance(uint64 floor_unit, MarkFloor kind);
extern bool mark_accept(void);
extern void mark_require_layout(void);

/* An instant after the time of all IDs issued so far. */
extern TimestampTz mark_issued_until(void);

/*
 * The latest time unit in which IDs were issued, or may have been before the
 * start.  Returns false when that is not known, as nothing is reserved.
 */
extern bool mark_last_unit(uint64 *unit);

/* What to do where the clock is too far behind that: a HINT. */
extern char *mark_behind_hint(void);

/*
 * The time unit of a mark: the first that does not begin before it (ceil), or
 * the last that does not begin after it.
 */
extern uint64 mark_to_unit(int64 mark_us, bool ceil);

/* The first values in shared memory. */
extern void mark_init_shmem(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_MARK_H */
