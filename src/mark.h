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

/* Ask the worker for a reservation of this time and more; do not wait. */
extern void mark_ask(uint64 time);

/*
 * Ask for it and sleep until something changed, or for a while.  Can be
 * interrupted.  Raises an ERROR with the worker's reason when there is no time
 * left to wait, or waiting is of no use.
 */
extern void mark_wait(uint64 time, Wait *wait);

/*
 * Wake the worker and sleep until it changed something, for a while at most:
 * to be called again and again, by a backend that is prepared to sleep on
 * shared->mark.changed.  Can be interrupted.  Raises an ERROR with that
 * message and the worker's reason when max_wait has passed "since".
 */
extern void mark_wait_for_worker(instr_time since, const char *failure);

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
 * What the worker does at the moment, and the text for a DETAIL and a HINT
 * that say so to sessions that need more than is reserved.
 */
typedef enum WorkerState
{
	WORKER_SLEEPS,				/* has nothing to do, or is about to begin */
	WORKER_WORKS,
	WORKER_ABSENT,				/* is not there */
	WORKER_FAILS				/* has failed last */
} WorkerState;

extern WorkerState mark_worker_state(char **detail, char **hint);

/*
 * The time of a mark, in microseconds since 1970: the first that does not
 * begin before it (ceil), or the last that does not begin after it.
 */
extern uint64 mark_to_time(int64 mark, bool ceil);

/* Is the mark in this database? */
extern bool mark_is_home(Oid database);

/*
 * For the worker, which alone writes the mark.
 */
extern bool mark_is_asked(void);
extern void mark_serve(void);
extern void mark_close(void);

/* For lease.c, in the worker, when the lease has changed. */
extern void mark_publish_again(void);
extern void mark_begin_anew(int64 floor_mark);

/* Returns whether it is another error than the last one. */
extern bool mark_note_error(const ErrorData *edata);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_MARK_H */
