/*-------------------------------------------------------------------------
 *
 * compose_funcs.c
 *		The SQL functions that make an ID for a time that the caller gives:
 *		snowflake_compose(), snowflake_id() and snowflake_backfill().
 *
 * The first two only compute, by the settings.  backfill.c keeps the sequence
 * numbers that snowflake_backfill() takes, and has the lock for them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "backfill.h"
#include "clock.h"
#include "ranges.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_id);
PG_FUNCTION_INFO_V1(snowflake_backfill);

/*
 * An argument for a field of the ID, checked to fit.
 */
static uint64
getarg_field(FunctionCallInfo fcinfo, int argno, LayoutField field)
{
	int32		number = PG_GETARG_INT32(argno);

	if (number < 0 || (uint64) number > snowflake_layout.max[field])
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s %d is out of range",
						layout_field_name(field), number),
				 errdetail("The layout \"%s\" has numbers from 0 to " UINT64_FORMAT " there.",
						   snowflake_layout_text,
						   (uint64) snowflake_layout.max[field])));
	return (uint64) number;
}

/*
 * The time unit that holds an argument's instant, checked to be one of the
 * layout.
 */
static uint64
getarg_unit(FunctionCallInfo fcinfo, int argno)
{
	TimestampTz ts = PG_GETARG_TIMESTAMPTZ(argno);
	int64		unit = layout_unit_floor(&snowflake_layout,
										 clock_since_epoch(ts));

	if (TIMESTAMP_NOT_FINITE(ts) || unit < 0 ||
		(uint64) unit > snowflake_layout.max[FIELD_TIME])
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("time %s is out of range", pstrdup(timestamptz_to_str(ts))),
				 errdetail("The layout \"%s\" begins at %s and has " UINT64_FORMAT " time units.",
						   snowflake_layout_text,
						   pstrdup(timestamptz_to_str(snowflake_epoch)),
						   (uint64) snowflake_layout.max[FIELD_TIME] + 1)));
	return (uint64) unit;
}

/* snowflake_compose(ts, node, worker, sequence) */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo, 0);

	PG_RETURN_INT64(layout_pack(&snowflake_layout, unit,
								getarg_field(fcinfo, 1, FIELD_NODE),
								getarg_field(fcinfo, 2, FIELD_WORKER),
								getarg_field(fcinfo, 3, FIELD_SEQUENCE)));
}

/*
 * snowflake_id(ts, discriminator): the caller's number in place of all fields
 * below the time.  Whether the ID is unique is up to the caller.
 */
Datum
snowflake_id(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo, 0);
	int64		discriminator = PG_GETARG_INT64(1);
	int			bits = snowflake_layout.shift[FIELD_TIME];

	ids_require_order("Put the ID together with snowflake_compose(), field by field.");

	if (discriminator < 0 || discriminator >> bits != 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("discriminator " INT64_FORMAT " is out of range",
						discriminator),
				 errdetail("The layout \"%s\" has %d bits below the time, for numbers from 0 to " INT64_FORMAT ".",
						   snowflake_layout_text, bits,
						   (INT64CONST(1) << bits) - 1)));

	PG_RETURN_INT64((int64) (unit << bits) | discriminator);
}

/* snowflake_backfill(ts) */
Datum
snowflake_backfill(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo, 0);
	TimestampTz now = GetCurrentTimestamp();

	if (PG_GETARG_TIMESTAMPTZ(0) > now)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("cannot backfill snowflake IDs of the future"),
				 errdetail("The time is %s, and the clock shows %s.",
						   pstrdup(timestamptz_to_str(PG_GETARG_TIMESTAMPTZ(0))),
						   pstrdup(timestamptz_to_str(now)))));

	PG_RETURN_INT64(backfill_draw(unit));
}
