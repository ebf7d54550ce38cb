/*-------------------------------------------------------------------------
 *
 * clock.c
 *		Between the server's timestamps and time since the epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "clock.h"
#include "settings.h"

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
	if (TIMESTAMP_IS_NOEND(ts) ||
		pg_sub_s64_overflow(ts, snowflake_epoch, &us))
		return PG_INT64_MAX;
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
