/*-------------------------------------------------------------------------
 *
 * ranges.h
 *		The IDs of a period.
 *
 * An ID stands for the instant at which its time unit begins, the one that
 * snowflake_timestamp() returns.  It is in a period when that instant is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_RANGES_H
#define SNOWFLAKE_RANGES_H

#include "datatype/timestamp.h"
#include "utils/rangetypes.h"

#pragma GCC visibility push(hidden)

/*
 * IDs from "first" to before "end", which is 2^63 at most: more than a bigint
 * can say.  None when end is not above first.
 */
typedef struct IdRange
{
	uint64		first;
	uint64		end;
} IdRange;

static inline bool
ids_empty(IdRange ids)
{
	return ids.first >= ids.end;
}

/* Is the end beyond all of bigint? */
static inline bool
ids_unbounded(IdRange ids)
{
	return ids.end > (uint64) PG_INT64_MAX;
}

/*
 * Raise an ERROR where the IDs of a period are not a range; with this hint.
 */
extern void ids_require_order(const char *hint);

/* Raise an ERROR where a period's start is after its end. */
extern void period_require_order(TimestampTz from, TimestampTz to);

/* The first time unit that begins at an instant or later; after it. */
extern int64 unit_from(TimestampTz ts);
extern int64 unit_after(TimestampTz ts);

/* The IDs whose time unit is from "from" to before "to". */
extern IdRange ids_of_units(int64 from, int64 to);

/* The IDs with a time from "from" to before "to", which is not before it. */
extern IdRange ids_between(TimestampTz from, TimestampTz to);

/* The IDs of a tstzrange, with its own bounds. */
extern IdRange ids_of_period(TypeCacheEntry *typcache, const RangeType *period);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_RANGES_H */
