/*-------------------------------------------------------------------------
 *
 * clock.c
 *		The clocks that there are to choose from, and time since the epoch.
 *
 * "system" is the wall clock, whatever it does.  The others read it once, when
 * shared memory is made: at server start, and after a crash of a backend.
 *
 *	monotonic	goes on from there by a clock of the machine that nobody can
 *				set (the steady clock), so that steps never show;
 *	logical		goes on by drawing alone: to the next time unit when the
 *				sequence numbers of one are used up.  It may stay behind as
 *				far as it likes; how far ahead it may go is measured by the
 *				monotonic one.
 *
 * That no ID comes twice does not depend on any of them.
 *
 * Locking: none, see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "common/int.h"

#include "clock.h"
#include "shmem.h"

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
 * Reads both at the same moment, or nearly: the least of some times between is
 * what it is wrong by.
 */
int64
clock_measure_offset(void)
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
clock_start(void)
{
	int64		offset = clock_measure_offset();
	TimestampTz now = offset + clock_read_steady();

	shared->clock.offset = offset;
	pg_atomic_write_u64(&shared->clock.offset_seen, (uint64) offset);

	/* with the clock before the epoch, nothing is drawn */
	if (snowflake_clock == CLOCK_MODE_LOGICAL)
		pg_atomic_write_u64(&shared->latest,
							(uint64) layout_unit_floor(&snowflake_layout,
													   Max(now - snowflake_epoch, 0)));
}

/*
 * Where the library was not preloaded nothing is drawn, and the wall clock is
 * as good.
 */
TimestampTz
clock_read_monotonic(void)
{
	if (shared == NULL)
		return GetCurrentTimestamp();
	return shared->clock.offset + clock_read_steady();
}

TimestampTz
clock_read_logical(void)
{
	if (shared == NULL)
		return GetCurrentTimestamp();
	return snowflake_epoch +
		(int64) pg_atomic_read_u64(&shared->latest) * snowflake_layout.unit_us;
}

/*
 * Microseconds from the epoch to an instant; infinity, and what is as good as
 * that, gives the ends of int64.
 */
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

/*
 * The instant at which a time unit of a layout and epoch begins.  False when a
 * timestamp cannot hold it.
 */
bool
clock_unit_start(const Layout *layout, TimestampTz epoch, uint64 unit,
				 TimestampTz *ts)
{
	int64		us;

	return !pg_mul_s64_overflow((int64) unit, layout->unit_us, &us) &&
		!pg_add_s64_overflow(epoch, us, ts) &&
		IS_VALID_TIMESTAMP(*ts);
}

/*
 * The same for this server's.
 */
bool
clock_timestamp_of_unit(uint64 unit, TimestampTz *ts)
{
	return clock_unit_start(&snowflake_layout, snowflake_epoch, unit, ts);
}
