/*-------------------------------------------------------------------------
 *
 * reading.c
 *		The SQL-callable functions that read IDs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

#include "clock.h"
#include "reading.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_parse);
PG_FUNCTION_INFO_V1(snowflake_timestamp);

int64
reading_check(int64 id)
{
	if (id < 0 || id > layout_max_id(&snowflake_layout))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg(INT64_FORMAT " is not a snowflake ID", id),
				 errdetail("IDs of the layout \"%s\" are from 0 to " INT64_FORMAT ".",
						   snowflake_layout_text,
						   layout_max_id(&snowflake_layout))));
	return id;
}

/*
 * The instant at which an ID's time unit begins.
 */
static TimestampTz
id_timestamp(int64 id)
{
	uint64		unit = layout_unpack(&snowflake_layout, id, FIELD_TIME);
	TimestampTz ts;

	if (!clock_timestamp_of_unit(unit, &ts))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range"),
				 errdetail("The time in snowflake ID " INT64_FORMAT " is " UINT64_FORMAT " units after the epoch.",
						   id, unit)));
	return ts;
}

/*
 * A field of an ID as an SQL integer.
 */
static Datum
id_field(int64 id, LayoutField field)
{
	uint64		number = layout_unpack(&snowflake_layout, id, field);

	if (number > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range"),
				 errdetail("The field \"%s\" of snowflake ID " INT64_FORMAT " holds " UINT64_FORMAT ".",
						   layout_field_name(field), id, number)));
	return Int32GetDatum((int32) number);
}

/* snowflake_parse(id): ts, node, worker, sequence */
Datum
snowflake_parse(PG_FUNCTION_ARGS)
{
	int64		id = reading_check(PG_GETARG_INT64(0));
	TupleDesc	tupdesc;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = TimestampTzGetDatum(id_timestamp(id));
	values[1] = id_field(id, FIELD_NODE);
	values[2] = id_field(id, FIELD_WORKER);
	values[3] = id_field(id, FIELD_SEQUENCE);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}

/* snowflake_timestamp(id) */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(id_timestamp(reading_check(PG_GETARG_INT64(0))));
}
