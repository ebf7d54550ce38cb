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
#include "settings.h"

#pragma GCC visibility push(hidden)

/* For the two functions below. */
extern TimestampTz clock_read_monotonic(void);
extern TimestampTz clock_read_logical(void);

/*
 * The clock, which IDs may be ahead of by max_drift and no more: the system's,
 * or the monotonic one.  In microseconds since 2000-01-01 UTC, as the server
 * counts them.
 */
static inline TimestampTz
clock_read(void)
{
	if (likely(snowflake_clock == CLOCK_MODE_SYSTEM))
		return GetCurrentTimestamp();
	return clock_read_monotonic();
}

/*
 * The time that an ID is to have when it is drawn now: that of the clock, or
 * that of the logical one.
 */
static inline TimestampTz
clock_read_to_draw(void)
{
	if (likely(snowflake_clock == CLOCK_MODE_SYSTEM))
		return GetCurrentTimestamp();
	return snowflake_clock == CLOCK_MODE_LOGICAL ? clock_read_logical() :
		clock_read_monotonic();
}

/* Does it change when the server's clock is set? */
static inline bool
clock_steps(void)
{
	return snowflake_clock == CLOCK_MODE_SYSTEM;
}

/* What clock_read() reads, as in "The %s shows". */
static inline const char *
clock_name(void)
{
	return clock_steps() ? "clock" : "monotonic clock";
}

/* Microseconds since some moment, on a clock that nobody can set. */
extern int64 clock_read_steady(void);

/* From that to the server's timestamps. */
extern int64 clock_measure_offset(void);

/* In the postmaster, when shared memory was made. */
extern void clock_start(void);

/* An instant given as milliseconds since 1970-01-01 UTC. */
static inline TimestampTz
clock_of_unix_ms(int64 ms)
{
	return ms * 1000 - UNIX_EPOCH_US;
}

extern int64 clock_since_epoch(TimestampTz ts);
extern bool clock_unit_start(const Layout *layout, TimestampTz epoch,
							 uint64 unit, TimestampTz *ts);
extern bool clock_timestamp_of_unit(uint64 unit, TimestampTz *ts);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CLOCK_H */
