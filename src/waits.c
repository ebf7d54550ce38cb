/*-------------------------------------------------------------------------
 *
 * waits.c
 *		The waits of a session that wants an ID: shown, counted and bounded.
 *
 * Locking: none.  Counters are atomic, see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "compat.h"
#include "settings.h"
#include "waits.h"

/* A wait of this length is worth a line in the log. */
#define LONG_WAIT_MS	1000

static int64
us_since(instr_time then)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, then);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

int64
wait_left_us(Wait *wait)
{
	if (INSTR_TIME_IS_ZERO(wait->since))
		INSTR_TIME_SET_CURRENT(wait->since);
	return snowflake_max_wait * INT64CONST(1000) - us_since(wait->since);
}

int64
wait_left_ms(Wait *wait)
{
	return (wait_left_us(wait) + 999) / 1000;
}

void
wait_begin(Wait *wait, WaitKind kind)
{
	if (!wait->counted[kind])
		pg_atomic_fetch_add_u64(&shared->stats.waits[kind], 1);
	wait->counted[kind] = true;
}

void
wait_end(Wait *wait, WaitKind kind)
{
	int64		us = us_since(wait->since);

	pg_atomic_fetch_add_u64(&shared->stats.wait_us[kind], (uint64) (us - wait->counted_us));
	wait->counted_us = us;
}

void
wait_sleep(Wait *wait, WaitKind kind, ConditionVariable *changed, int64 left_ms)
{
	wait_begin(wait, kind);
	(void) ConditionVariableTimedSleep(changed, Min(left_ms, WAIT_SLICE_MS), wait_event(kind));
	wait_end(wait, kind);
}

bool
wait_is_long(Wait *wait, WaitKind kind)
{
	if (wait->is_logged || us_since(wait->since) < LONG_WAIT_MS * INT64CONST(1000))
		return false;
	wait->is_logged = true;
	return log_is_due(LOG_OF_WAIT + kind, &wait->left_out);
}

void
wait_log(const Wait *wait, const char *what, const char *detail, const char *hint)
{
	ereport(LOG_SERVER_ONLY,
			(errmsg("process %d still waits for %s after " INT64_FORMAT " ms",
					MyProcPid, what, us_since(wait->since) / 1000),
			 errdetail("%s%s", detail, log_left_out(wait->left_out)),
			 hint != NULL ? errhint("%s", hint) : 0));
}

bool
wait_error_passes(int sqlstate)
{
	int			category = ERRCODE_TO_CATEGORY(sqlstate);

	return category == ERRCODE_CONNECTION_EXCEPTION ||
		category == ERRCODE_TRANSACTION_ROLLBACK ||
		category == ERRCODE_INSUFFICIENT_RESOURCES ||
		category == ERRCODE_OPERATOR_INTERVENTION ||
		sqlstate == ERRCODE_LOCK_NOT_AVAILABLE;
}

/* The wait events: those of sessions, then those of the two workers. */
static const char *const event_names[] = {
	[WAIT_MARK] = "SnowflakeMark",
	[WAIT_CLOCK] = "SnowflakeClock",
	[WAIT_UNIT] = "SnowflakeTimeUnit",
	[WAIT_NODE] = "SnowflakeNode",
	[WAIT_SEGMENT] = "SnowflakeSegment",
	"SnowflakeMarkWriterMain",
	"SnowflakeServicesMain"
};

/* Each process has to ask for its number once. */
static uint32
event(int i)
{
	static uint32 numbers[lengthof(event_names)];

	if (numbers[i] == 0)
		numbers[i] = WaitEventExtensionNew(event_names[i]);
	return numbers[i];
}

uint32
wait_event(WaitKind kind)
{
	return event(kind);
}

uint32
wait_event_worker(const Worker *worker)
{
	return event(worker == &shared->services ? WAIT_KINDS + 1 : WAIT_KINDS);
}
