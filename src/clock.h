/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The clock that IDs take their time from, and what depends on it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

#include "layout.h"
#include "settings.h"
#include "shmem.h"

#pragma GCC visibility push(hidden)

/* For the two functions below. */
extern TimestampTz clock_read_monotonic(void);
extern TimestampTz clock_read_logical(void);

/*
 * The clock, which IDs may be ahead of by max_drift and no more: the system's,
 * or the monotonic one.
 */
static inline TimestampTz
clock_read(void)
{
	if (likely(snowflake_clock == CLOCK_MODE_SYSTEM))
		return GetCurrentTimestamp();
	return clock_read_monotonic();
}

/* The time that an ID is to have when it is drawn now. */
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
clock_can_step(void)
{
	return snowflake_clock == CLOCK_MODE_SYSTEM;
}

/* What clock_read() reads, as in "The %s shows". */
static inline const char *
clock_name(void)
{
	return clock_can_step() ? "clock" : "monotonic clock";
}

/* Microseconds since some moment, on a clock that nobody can set. */
extern int64 clock_read_steady(void);

/* The first values in shared memory; after generator_init_shmem(). */
extern void clock_init_shmem(void);

/* An instant given as milliseconds since 1970-01-01 UTC. */
static inline TimestampTz
clock_of_unix_ms(int64 ms)
{
	return ms * 1000 - UNIX_EPOCH_US;
}

/*
 * Microseconds from the epoch to an instant; infinity, and what is as good as
 * that, gives the ends of int64.
 */
extern int64 clock_since_epoch(TimestampTz ts);

/*
 * The instant at which a time unit begins, of a layout and epoch or of this
 * server's.  False, or DT_NOEND, where a timestamp cannot hold it.
 */
extern bool clock_unit_start(const Layout *layout, TimestampTz epoch,
							 uint64 unit, TimestampTz *ts);
#define clock_timestamp_of_unit(unit, ts) \
	clock_unit_start(&snowflake_layout, snowflake_epoch, unit, ts)
extern TimestampTz clock_unit_or_end(uint64 unit);

/* An instant, for a message. */
static inline char *
clock_show(TimestampTz ts)
{
	return pstrdup(timestamptz_to_str(ts));
}

/* The log and snowflake_check() warn when less than this is left. */
#define LIFETIME_WARNING_US	(365 * USECS_PER_DAY)

/*
 * Microseconds from the beginning of a time unit to the end, 0 past it;
 * PG_INT64_MAX when they are more.
 */
extern int64 lifetime_left(uint64 unit);

/* For a DETAIL: the layout and when it ends.  For a HINT: what to do. */
extern char *lifetime_detail(void);
extern char *lifetime_hint(void);

/*
 * May a line of this kind be written now?  True once a minute, over all
 * backends; then the caller has to write it.  Sets how many were left out
 * since the last one.
 */
extern bool log_is_due(LogKind kind, uint64 *left_out);

/* That as a sentence to follow another one; '' for none. */
extern const char *log_left_out(uint64 left_out);

/*
 * Has the server's clock been set since anybody looked?  Counts it, and says
 * so in the log.  Not for the fast path.
 */
extern void clock_watch_steps(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CLOCK_H */
