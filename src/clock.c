/*-------------------------------------------------------------------------
 *
 * clock.c
 *		The clocks that snowflake.clock chooses from, the time since the epoch
 *		and its end; log lines that come at most once a minute; and steps of
 *		the server's clock.
 *
 * "system" is the wall clock, whatever it does.  The other clocks read it
 * once, when shared memory is made: at server start, and after a crash of a
 * backend.
 *
 * 	monotonic	goes on from there by a clock of the machine that nobody can
 * 				set (the steady clock), so that steps never show;
 * 	logical		goes on by drawing alone: to the next time unit when the
 * 				sequence numbers of one are used up.  It may stay behind as
 * 				far as it likes; how far ahead it may go is measured by the
 * 				monotonic one.
 *
 * That no ID comes twice does not depend on any of them.
 *
 * The server's clock and the steady one go on at the same rate, slewing
 * included.  So the difference changes when the clock is set, and only then.
 *
 * A failure often hits all backends at once, again and again until somebody
 * mends the cause.  So that this does not fill the log, one backend says it,
 * once a minute.
 *
 * Locking: none, see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "common/int.h"

#include "clock.h"

/* Goes on while the machine is suspended, where there is such a clock. */
#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

int64
clock_read_steady(void)
{
	struct timespec ts;

	if (clock_gettime(STEADY_CLOCK, &ts) != 0)
		elog(ERROR, "could not read the monotonic clock: %m");
	return ts.tv_sec * USECS_PER_SEC + ts.tv_nsec / 1000;
}

/*
 * From the steady clock to the server's timestamps: wrong by the least of some
 * times between two readings.
 */
static int64
measure_offset(void)
{
	int64		offset = 0;
	int64		least = PG_INT64_MAX;

	for (int i = 0; i < 10; i++)
	{
		int64		before = clock_read_steady();
		TimestampTz now = GetCurrentTimestamp();
		int64		after = clock_read_steady();

		if (after - before < least)
		{
			least = after - before;
			offset = now - after;
		}
	}
	return offset;
}

void
clock_init_shmem(void)
{
	int64		offset = measure_offset();
	TimestampTz now = offset + clock_read_steady();

	shared->clock.offset_us = offset;
	pg_atomic_init_u64(&shared->clock.offset_seen_us, (uint64) offset);
	for (int i = 0; i < LOG_KINDS; i++)
	{
		pg_atomic_init_u64(&shared->log_throttles[i].at, 0);
		pg_atomic_init_u64(&shared->log_throttles[i].left_out, 0);
	}

	/* with the clock before the epoch, nothing is drawn */
	if (snowflake_clock == CLOCK_MODE_LOGICAL)
		pg_atomic_write_u64(&shared->latest_unit,
							(uint64) layout_unit_floor(&snowflake_layout,
													   Max(now - snowflake_epoch, 0)));
}

/* Without shared memory nothing is drawn, and the wall clock is as good. */
TimestampTz
clock_read_monotonic(void)
{
	if (shared == NULL)
		return GetCurrentTimestamp();
	return shared->clock.offset_us + clock_read_steady();
}

TimestampTz
clock_read_logical(void)
{
	if (shared == NULL)
		return GetCurrentTimestamp();
	return snowflake_epoch +
		(int64) pg_atomic_read_u64(&shared->latest_unit) * snowflake_layout.unit_us;
}

int64
clock_since_epoch(TimestampTz ts)
{
	int64		us;

	if (TIMESTAMP_IS_NOBEGIN(ts))
		return PG_INT64_MIN;
	if (TIMESTAMP_IS_NOEND(ts))
		return PG_INT64_MAX;
	if (pg_sub_s64_overflow(ts, snowflake_epoch, &us))
		return ts < snowflake_epoch ? PG_INT64_MIN : PG_INT64_MAX;
	return us;
}

bool
clock_unit_start(const Layout *layout, TimestampTz epoch, uint64 unit, TimestampTz *ts)
{
	int64		us;

	return !pg_mul_s64_overflow((int64) unit, layout->unit_us, &us) &&
		!pg_add_s64_overflow(epoch, us, ts) &&
		IS_VALID_TIMESTAMP(*ts);
}

TimestampTz
clock_unit_or_end(uint64 unit)
{
	TimestampTz ts;

	return clock_timestamp_of_unit(unit, &ts) ? ts : DT_NOEND;
}

int64
lifetime_left(uint64 unit)
{
	uint64		units = unit > MAX_TIME ? 0 : MAX_TIME + 1 - unit;

	if (units > (uint64) (PG_INT64_MAX / snowflake_layout.unit_us))
		return PG_INT64_MAX;
	return (int64) units * snowflake_layout.unit_us;
}

char *
lifetime_detail(void)
{
	return psprintf("The layout \"%s\" with epoch %s ends at %s.",
					snowflake_layout_text, clock_show(snowflake_epoch),
					clock_show(clock_unit_or_end(MAX_TIME + 1)));
}

/*
 * More time bits on top of all others change no ID that there is, and none
 * that is drawn before the old end either.  Where there is no room for them,
 * there is none for larger IDs: with a later epoch the numbers come again.
 */
char *
lifetime_hint(void)
{
	int			spare = LAYOUT_MAX_BITS - snowflake_layout.total_bits;

	if (spare > 0 && layout_sorts_by_time(&snowflake_layout))
		return psprintf("If the clock is right, give the time field more bits, up to %d, restart the server and call snowflake_accept_layout(). Existing IDs keep their meaning, and new ones are larger.",
						snowflake_layout.bits[FIELD_TIME] + spare);
	return pstrdup("If the clock is right, set a later \"snowflake.epoch\": IDs begin anew. If they go to tables with old IDs, also set a \"snowflake.node_id\" that no server has had. Then restart the server and call snowflake_accept_layout().");
}

#define LOG_INTERVAL_US	(60 * USECS_PER_SEC)

bool
log_is_due(LogKind kind, uint64 *left_out)
{
	LogThrottle *throttle = &shared->log_throttles[kind];
	uint64		now = (uint64) clock_read_steady();
	uint64		last = pg_atomic_read_u64(&throttle->at);

	if ((last != 0 && now < last + LOG_INTERVAL_US) ||
		!pg_atomic_compare_exchange_u64(&throttle->at, &last, now))
	{
		pg_atomic_fetch_add_u64(&throttle->left_out, 1);
		*left_out = 0;
		return false;
	}
	*left_out = pg_atomic_exchange_u64(&throttle->left_out, 0);
	return true;
}

const char *
log_left_out(uint64 left_out)
{
	if (left_out == 0)
		return "";
	return psprintf(" Similar messages left out since the last one: " UINT64_FORMAT ".",
					left_out);
}

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
	pg_atomic_uint64 *largest = back ? &shared->stats.regression_max_us :
		&shared->stats.jump_max_us;
	bool		is_largest = us > pg_atomic_read_u64(largest);
	uint64		left_out;

	pg_atomic_fetch_add_u64(back ? &shared->stats.regressions :
							&shared->stats.jumps, 1);
	shmem_raise(largest, us);

	if (!log_is_due(back ? LOG_OF_CLOCK_BACK : LOG_OF_CLOCK_FORWARD, &left_out) &&
		!is_largest)
		return;
	ereport(LOG,
			(back ?
			 errmsg("the server's clock was set back by " UINT64_FORMAT ".%03d ms",
					us / 1000, (int) (us % 1000)) :
			 errmsg("the server's clock was set forward by " UINT64_FORMAT ".%03d ms",
					us / 1000, (int) (us % 1000)),
			 !clock_can_step() ?
			 errdetail("snowflake IDs do not follow the step before the next start. The clock now shows %s.%s",
					   clock_show(GetCurrentTimestamp()),
					   log_left_out(left_out)) :
			 errdetail("snowflake IDs follow this clock. It now shows %s.%s",
					   clock_show(GetCurrentTimestamp()),
					   log_left_out(left_out)),
			 back && clock_can_step() ?
			 errhint("No ID is issued twice. If this is more than \"snowflake.max_drift\", sessions wait for the clock.") : 0));
}

void
clock_watch_steps(void)
{
	pg_atomic_uint64 *offset_seen = &shared->clock.offset_seen_us;
	uint64		seen = pg_atomic_read_u64(offset_seen);
	int64		offset;

	/* time may pass between these two readings, so measure before saying so */
	offset = GetCurrentTimestamp() - clock_read_steady();
	if (likely(llabs(offset - (int64) seen) < MIN_STEP_US))
		return;
	offset = measure_offset();
	if (llabs(offset - (int64) seen) < MIN_STEP_US)
		return;

	if (pg_atomic_compare_exchange_u64(offset_seen, &seen, (uint64) offset))
		note_step(offset - (int64) seen);
}
