/*-------------------------------------------------------------------------
 *
 * worker.h
 *		What the two background workers share: the mark writer (mark_writer.c)
 *		and the services (services.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_WORKER_H
#define SNOWFLAKE_WORKER_H

#include <signal.h>

#include "shmem.h"
#include "waits.h"

#pragma GCC visibility push(hidden)

#define MARK_WRITER_NAME	"snowflake mark writer"
#define SERVICES_NAME		"snowflake services"

/*
 * For sessions
 */

/*
 * Tell a worker that something is asked of it, and wake it, unless another
 * session has just done so; if one has ended, have it started again.  What is
 * asked must be written before.
 */
extern void worker_ask(Worker *worker);

/*
 * Ask a worker and sleep until it changed something, for a while at most: to
 * be called again and again, by a backend that is prepared to sleep on
 * worker->changed.  Can be interrupted.  Raises an ERROR with that message and
 * the worker's reason when max_wait has passed since the first of these calls.
 */
extern void worker_await(Worker *worker, Wait *wait, const char *failure);
extern void worker_report(Worker *worker, const char *failure); /* that ERROR */

/*
 * What it does at the moment, and the text for a DETAIL and a HINT that say so
 * to sessions that wait for it.
 */
typedef enum WorkerState
{
	WORKER_SLEEPS,				/* has nothing to do, or is about to begin */
	WORKER_WORKS,
	WORKER_HANGS,				/* has not reacted for a while */
	WORKER_STARTS,				/* is not there, and will be */
	WORKER_HINDERED,			/* has failed last, by what passes by itself */
	WORKER_ABSENT,				/* was never there, though it is needed; from
								 * here on somebody has to mend something */
	WORKER_FAILS				/* has failed last */
} WorkerState;

extern WorkerState worker_describe(Worker *worker, char **detail, char **hint);

/* Has it failed so that waiting for it is of no use? */
extern bool worker_is_refusing(const Worker *worker);

/* Is "max_worker_processes" too small, so that there is not one of each? */
extern bool worker_is_left_out(void);

/*
 * In the postmaster: the first values in shared memory of one, and have one
 * started with the server.
 */
extern void worker_init_shmem(Worker *worker);
extern void worker_register(const char *name, const char *function);

/*
 * For the workers themselves
 */

/*
 * At its start.  Returns 0, or, if the worker before could not connect, when
 * to try again at the earliest, by the steady clock.
 */
extern int64 worker_begin(Worker *worker);

/* Connect to the home database.  Where that fails the process ends. */
extern void worker_connect(Worker *worker);

/* Is something asked of it?  After that "no", until it is asked again. */
extern bool worker_take_request(Worker *worker);

/* Wake one that nothing is asked of. */
extern void worker_wake(Worker *worker);

/*
 * Do something.  Where that fails, say so in the log, once a minute if it is
 * the same again, and leave things as they were.  Sessions learn of it as an
 * error of that worker, unless NULL.  Returns the error, NULL for none.
 */
extern ErrorData *worker_attempt(Worker *worker, LogKind alarm, void (*task) (void *), void *arg);

/* It does not fail any more. */
extern void worker_clear_error(Worker *worker);

/*
 * What every process has to do after a sleep.  Returns whether the
 * configuration was read again.
 */
extern bool worker_after_sleep(void);

/* Told to end by the postmaster, as the server stops and has no more clients. */
extern volatile sig_atomic_t worker_ends_with_server;

/* May the server want to stop, and wait for the end of that process's session? */
extern bool worker_holds_up_stop(int pid);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_WORKER_H */
