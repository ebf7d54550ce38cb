/*-------------------------------------------------------------------------
 *
 * waits.h
 *		The waits of a session that wants an ID: shown, counted and bounded.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_WAITS_H
#define SNOWFLAKE_WAITS_H

#include "portability/instr_time.h"

#include "shmem.h"

#pragma GCC visibility push(hidden)

/* A longer sleep looks again this often, since things may have changed. */
#define WAIT_SLICE_MS	100

/* The waits of one call, zeroed before the first. */
typedef struct Wait
{
	instr_time	since;			/* when it began to wait */
	int64		counted_us;		/* of its time, what the statistics have */
	bool		counted[WAIT_KINDS];
	bool		is_logged;		/* that it takes long */
	uint64		left_out;		/* other such lines, see clock.h */
} Wait;

/*
 * How long the caller may still wait: up to max_wait from the first of these
 * calls.  In ms it is rounded up.
 */
extern int64 wait_left_us(Wait *wait);
extern int64 wait_left_ms(Wait *wait);

/* Sleep on a condition variable for a while at most: to be called in a loop. */
extern void wait_sleep(Wait *wait, WaitKind kind, ConditionVariable *changed,
					   int64 left_ms);

/* Around other sleeps. */
extern void wait_begin(Wait *wait, WaitKind kind);
extern void wait_end(Wait *wait, WaitKind kind);

/*
 * Has this wait taken so long that the log is to say so, and is it this call
 * that says it?  Then wait_log() does: "what" completes "still waits for".
 * The hint may be NULL.
 */
extern bool wait_is_long(Wait *wait, WaitKind kind);
extern void wait_log(const Wait *wait, const char *what, const char *detail,
					 const char *hint);

/*
 * The SQLSTATE of a wait that has run out.  Where the cause passes by itself,
 * clients may try again, as after lock_timeout; else somebody has to mend it.
 */
static inline int
wait_sqlstate(bool passes)
{
	return passes ? ERRCODE_LOCK_NOT_AVAILABLE :
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
}

/* Does an error of a background worker, or of the registry, pass by itself? */
extern bool wait_error_passes(int sqlstate);

/* For pg_stat_activity, where they have names of their own from 17 on. */
extern uint32 wait_event(WaitKind kind);
extern uint32 wait_event_worker(const Worker *worker);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_WAITS_H */
