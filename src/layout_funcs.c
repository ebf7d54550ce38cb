/*-------------------------------------------------------------------------
 *
 * layout_funcs.c
 *		The SQL function snowflake_layout(): the layout and the epoch that are
 *		set, and how many IDs they have room for.
 *
 * It reads settings only.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "clock.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_layout_info);

/* How many numbers a field has, as a numeric: 2^63 is not a bigint. */
static Datum
field_capacity(LayoutField field)
{
	char	   *str = psprintf(UINT64_FORMAT,
							   (uint64) snowflake_layout.max[field] + 1);

	return DirectFunctionCall3(numeric_in, CStringGetDatum(str),
							   ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* snowflake_layout() */
Datum
snowflake_layout_info(PG_FUNCTION_ARGS)
{
	const Layout *layout = &snowflake_layout;
	TupleDesc	tupdesc;
	Datum		values[16];
	bool		nulls[16] = {false};
	int			i = 0;
	Interval   *unit = palloc0(sizeof(Interval));
	TimestampTz last;
	double		per_worker;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	unit->time = layout->unit_us;
	if (!clock_timestamp_of_unit(layout->max[FIELD_TIME], &last))
		last = DT_NOEND;
	per_worker = ((double) layout->max[FIELD_SEQUENCE] + 1) *
		USECS_PER_SEC / layout->unit_us;

	values[i++] = CStringGetTextDatum(snowflake_layout_text);
	values[i++] = Int32GetDatum(layout->bits[FIELD_TIME]);
	values[i++] = Int32GetDatum(layout->bits[FIELD_NODE]);
	values[i++] = Int32GetDatum(layout->bits[FIELD_WORKER]);
	values[i++] = Int32GetDatum(layout->bits[FIELD_SEQUENCE]);
	values[i++] = IntervalPGetDatum(unit);
	values[i++] = field_capacity(FIELD_TIME);
	values[i++] = field_capacity(FIELD_NODE);
	values[i++] = field_capacity(FIELD_WORKER);
	values[i++] = field_capacity(FIELD_SEQUENCE);
	values[i++] = TimestampTzGetDatum(snowflake_epoch);
	values[i++] = TimestampTzGetDatum(last);
	values[i++] = Int64GetDatum(layout_max_id(layout));
	values[i++] = Float8GetDatum(per_worker);
	values[i++] = Float8GetDatum(per_worker * settings_slots());
	nulls[i] = settings_backfill_worker() == 0;
	values[i++] = Int64GetDatum((int64) settings_backfill_worker());
	Assert(i == lengthof(values) && i == tupdesc->natts);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}
