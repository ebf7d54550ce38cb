/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The clock that IDs take their time from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "utils/timestamp.h"

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Microseconds since 2000-01-01 UTC, as the server counts them. */
static inline TimestampTz
clock_read(void)
{
	return GetCurrentTimestamp();
}

/* An instant given as milliseconds since 1970-01-01 UTC. */
static inline TimestampTz
clock_of_unix_ms(int64 ms)
{
	return ms * 1000 -
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

extern int64 clock_since_epoch(TimestampTz ts);
extern bool clock_unit_start(const Layout *layout, TimestampTz epoch,
							 uint64 unit, TimestampTz *ts);
extern bool clock_timestamp_of_unit(uint64 unit, TimestampTz *ts);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CLOCK_H */
