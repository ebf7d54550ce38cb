/*-------------------------------------------------------------------------
 *
 * ranges.c
 *		The IDs of a period: arithmetic, and the SQL functions for it.
 *
 * How the planner sees these functions is in ranges_support.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#include "clock.h"
#include "compat.h"
#include "ranges.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(id_range_for_instant);
PG_FUNCTION_INFO_V1(id_range_for_bounds);
PG_FUNCTION_INFO_V1(id_range_for_period);
PG_FUNCTION_INFO_V1(snowflake_in);
PG_FUNCTION_INFO_V1(snowflake_first_id);
PG_FUNCTION_INFO_V1(snowflake_last_id);

void
ids_require_order(const char *hint)
{
	if (!layout_sorts_by_time(&snowflake_layout))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake IDs of this server do not sort by time"),
				 errdetail("In the layout \"%s\" the time is not the highest field, so the IDs of a period are not a range.",
						   snowflake_layout_text),
				 errhint("%s", hint)));
}

void
period_require_order(TimestampTz from, TimestampTz to)
{
	if (from > to)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the start of a period must not be after its end"),
				 errdetail("The period is from %s to %s.",
						   pstrdup(timestamptz_to_str(from)),
						   pstrdup(timestamptz_to_str(to)))));
}

IdRange
ids_of_units(int64 from, int64 to)
{
	IdRange		ids;

	ids_require_order("Compare snowflake_timestamp(id) instead.");
	ids.first = layout_unit_first_id(&snowflake_layout, from);
	ids.end = layout_unit_first_id(&snowflake_layout, to);
	return ids;
}

int64
unit_from(TimestampTz ts)
{
	return layout_unit_ceil(&snowflake_layout, clock_since_epoch(ts));
}

int64
unit_after(TimestampTz ts)
{
	return layout_unit_floor(&snowflake_layout, clock_since_epoch(ts)) + 1;
}

/* where the IDs of a period begin at a bound of it, or end */
static int64
unit_at(RangeBound bound)
{
	TimestampTz ts = DatumGetTimestampTz(bound.val);

	if (bound.infinite)
		return bound.lower ? PG_INT64_MIN : PG_INT64_MAX;
	return bound.inclusive == bound.lower ? unit_from(ts) : unit_after(ts);
}

IdRange
ids_of_period(TypeCacheEntry *typcache, const RangeType *period)
{
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	range_deserialize(typcache, period, &lower, &upper, &empty);
	if (empty)
		return ids_of_units(0, 0);
	return ids_of_units(unit_at(lower), unit_at(upper));
}

/* as an int8range, without an upper bound where bigint cannot say it */
static Datum
make_id_range(IdRange ids)
{
	RangeBound	lower = {0};
	RangeBound	upper = {0};

	lower.lower = true;
	lower.inclusive = true;
	lower.val = Int64GetDatum((int64) ids.first);
	upper.infinite = ids_unbounded(ids);
	upper.val = Int64GetDatum((int64) ids.end);

	return RangeTypePGetDatum(make_range(lookup_type_cache(INT8RANGEOID,
														   TYPECACHE_RANGE_INFO),
										 &lower, &upper, ids_empty(ids), NULL));
}

/* id_range_for(ts): the time unit that holds an instant */
Datum
id_range_for_instant(PG_FUNCTION_ARGS)
{
	int64		unit = layout_unit_floor(&snowflake_layout,
										 clock_since_epoch(PG_GETARG_TIMESTAMPTZ(0)));

	PG_RETURN_DATUM(make_id_range(ids_of_units(unit, unit + 1)));
}

/* id_range_for(from_ts, to_ts): [from_ts, to_ts) */
Datum
id_range_for_bounds(PG_FUNCTION_ARGS)
{
	TimestampTz from = PG_GETARG_TIMESTAMPTZ(0);
	TimestampTz to = PG_GETARG_TIMESTAMPTZ(1);

	period_require_order(from, to);
	PG_RETURN_DATUM(make_id_range(ids_of_units(unit_from(from),
											   unit_from(to))));
}

/* the IDs of an argument that is a period */
static IdRange
getarg_period(FunctionCallInfo fcinfo, int argno)
{
	RangeType  *period = PG_GETARG_RANGE_P(argno);

	return ids_of_period(range_get_typcache(fcinfo, RangeTypeGetOid(period)),
						 period);
}

/* id_range_for(period): with the period's own bounds */
Datum
id_range_for_period(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(make_id_range(getarg_period(fcinfo, 0)));
}

/* snowflake_in(id, period), and the operator id <@ period */
Datum
snowflake_in(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	IdRange		ids = getarg_period(fcinfo, 1);

	PG_RETURN_BOOL(id >= 0 &&
				   (uint64) id >= ids.first && (uint64) id < ids.end);
}

/*
 * snowflake_first_id(period), snowflake_last_id(period): what the planner
 * compares with where it does not know the period.  The last one and not the
 * end, which may be no bigint.  With no ID in the period, 0 and -1.
 */
Datum
snowflake_first_id(PG_FUNCTION_ARGS)
{
	IdRange		ids = getarg_period(fcinfo, 0);

	PG_RETURN_INT64(ids_empty(ids) ? 0 : (int64) ids.first);
}

Datum
snowflake_last_id(PG_FUNCTION_ARGS)
{
	IdRange		ids = getarg_period(fcinfo, 0);

	PG_RETURN_INT64(ids_empty(ids) ? -1 : (int64) (ids.end - 1));
}
