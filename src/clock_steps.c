/*-------------------------------------------------------------------------
 *
 * clock_steps.c
 *		Notice that the server's clock was set.
 *
 * It is seen by the steady clock: both go on at the same rate, slewing
 * included, so the difference changes when the clock is set, and only then.
 *
 * Locking: none, see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "alarm.h"
#include "clock.h"
#include "clock_steps.h"
#include "shmem.h"

/* What is less is no step, but the time between reading two clocks. */
#define MIN_STEP_US	1000

/*
 * Count a step, and say so in the log: at most once a minute, but when it is
 * the largest so far.
 */
static void
note_step(int64 step_us)
{
	bool		back = step_us < 0;
	uint64		us = (uint64) (back ? -step_us : step_us);
	pg_atomic_uint64 *largest = back ? &shared->stats.regression_max :
		&shared->stats.jump_max;
	bool		is_largest = us > pg_atomic_read_u64(largest);
	uint64		left_out;

	pg_atomic_fetch_add_u64(back ? &shared->stats.regressions :
							&shared->stats.jumps, 1);
	shmem_raise(largest, us);

	if (!alarm_is_due(back ? ALARM_CLOCK_BACK : ALARM_CLOCK_FORWARD, &left_out) &&
		!is_largest)
		return;
	ereport(LOG,
			(back ?
			 errmsg("the server's clock was set back by " UINT64_FORMAT ".%03d ms",
					us / 1000, (int) (us % 1000)) :
			 errmsg("the server's clock was set forward by " UINT64_FORMAT ".%03d ms",
					us / 1000, (int) (us % 1000)),
			 !clock_steps() ?
			 errdetail("snowflake IDs go by the clock as it was when the server started. Now it shows %s.%s",
					   pstrdup(timestamptz_to_str(GetCurrentTimestamp())),
					   alarm_left_out(left_out)) :
			 errdetail("snowflake IDs go by this clock. Now it shows %s.%s",
					   pstrdup(timestamptz_to_str(GetCurrentTimestamp())),
					   alarm_left_out(left_out)),
			 back && clock_steps() ?
			 errhint("No ID is issued twice. If this is more than \"snowflake.max_drift\", sessions wait for the clock.") : 0));
}

void
clock_steps_watch(void)
{
	pg_atomic_uint64 *offset_seen = &shared->clock.offset_seen;
	uint64		seen = pg_atomic_read_u64(offset_seen);
	int64		offset;

	/* something may come between these two, so look again before saying so */
	offset = GetCurrentTimestamp() - clock_read_steady();
	if (likely(llabs(offset - (int64) seen) < MIN_STEP_US))
		return;
	offset = clock_measure_offset();
	if (llabs(offset - (int64) seen) < MIN_STEP_US)
		return;

	if (pg_atomic_compare_exchange_u64(offset_seen, &seen, (uint64) offset))
		note_step(offset - (int64) seen);
}
