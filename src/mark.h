/*-------------------------------------------------------------------------
 *
 * mark.h
 *		The durable mark: the time below which IDs may have been issued.
 *
 * Times are in time units since the epoch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

#include "portability/instr_time.h"
#include "utils/timestamp.h"

#include "shmem.h"
#include "waits.h"

#pragma GCC visibility push(hidden)

/*
 * For sessions that draw IDs
 */

/*
 * May IDs be issued at this time?  Once "yes", the answer stays for as long
 * as shared memory lives, but for a shutdown, which closes the words.
 */
static inline bool
mark_covers(uint64 time)
{
	return time < pg_atomic_read_u64(&shared->mark.limit);
}

/*
 * Is anything reserved at all?  Where not, what a closed word seems to say is
 * of no meaning.
 */
static inline bool
mark_is_open(void)
{
	pg_read_barrier();
	return pg_atomic_read_u64(&shared->mark.limit) != 0;
}

/* Is it time to ask for more? */
static inline bool
mark_runs_out(uint64 time)
{
	return time >= pg_atomic_read_u64(&shared->mark.renew_at);
}

/* Ask the mark writer for a reservation of this time and more; do not wait. */
extern void mark_ask(uint64 time);

/*
 * Ask for it and sleep until something changed, or for a while.  Can be
 * interrupted.  Raises an ERROR with its reason when there is no time
 * left to wait, or waiting is of no use.
 */
extern void mark_wait(uint64 time, Wait *wait);

/*
 * For the functions.  Both wait for the worker, up to max_wait, else ERROR.
 */

/* Issue no ID below this time any more, durably. */
extern void mark_advance(uint64 floor);

/* Take the configured layout and epoch for the recorded ones. */
extern bool mark_accept(void);

/* An instant after the time of all IDs issued so far. */
extern TimestampTz mark_issued_until(void);

/*
 * The latest time unit in which IDs were issued, or may have been before the
 * start.  Returns false when that is not known, as nothing is reserved.
 */
extern bool mark_last_time(uint64 *time);

/*
 * The time of a mark, in microseconds since 1970: the first that does not
 * begin before it (ceil), or the last that does not begin after it.
 */
extern uint64 mark_to_time(int64 mark, bool ceil);

/* Is the mark in this database? */
extern bool mark_is_home(Oid database);

/* The first values in shared memory. */
extern void mark_init_shmem(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_MARK_H */
