/*-------------------------------------------------------------------------
 *
 * convert_funcs.c
 *		What snowflake_convert() cannot ask in SQL: whether an expression is
 *		immutable, what this server draws with, and where IDs above an existing
 *		one begin.  And it raises the durable mark for callers who may not
 *		execute snowflake_advance().
 *
 * Everybody may call these.  The plan itself is made in install/convert.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "tcop/utility.h"
#include "utils/builtins.h"

#include "clock.h"
#include "lease.h"
#include "mark.h"
#include "preload.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_is_immutable);
PG_FUNCTION_INFO_V1(snowflake_drawing);
PG_FUNCTION_INFO_V1(snowflake_raise_mark);

/* Of an expression in a catalog: users cannot make a pg_node_tree. */
Datum
snowflake_is_immutable(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!contain_mutable_functions(stringToNode(TextDatumGetCString(PG_GETARG_DATUM(0)))));
}

static uint64
own_node(void)
{
	return (uint64) Max(lease_node(), 0);
}

/*
 * Every caller may raise the mark up to the clock, or up to the latest time
 * issued: taking an ID does that, too.  A mark ahead of both stops the whole
 * server from issuing IDs for a while.
 */
static bool
may_be_raised(TimestampTz ts)
{
	return ts <= clock_read() || (mark_is_open() && ts <= mark_issued_until());
}

/*
 * What keeps IDs above one from being drawn at once, in a word; NULL if nothing
 * does.  The time unit is the first that is above it.
 */
static const char *
find_need(int64 id, uint64 *unit, TimestampTz *ts)
{
	uint64		floor;

	if (shared == NULL || RecoveryInProgress() ||
		id < 0 || id > layout_max_id(&snowflake_layout))
		return NULL;

	/* While the floor was not read yet, 1 is taken for it. */
	floor = Max(pg_atomic_read_u64(&shared->mark.floor), 1);
	floor = Min(floor, snowflake_layout.max[FIELD_TIME]);
	if (layout_pack(&snowflake_layout, floor, own_node(), 0, 0) > id)
		return NULL;
	if (!layout_unit_above(&snowflake_layout, own_node(), id, unit))
		return *unit > snowflake_layout.max[FIELD_TIME] ? "last" : "field";
	if (!clock_timestamp_of_unit(*unit, ts))
		*ts = DT_NOEND;
	if (*ts > clock_read() + MAX_DRIFT_US)
		return "clock";
	return may_be_raised(*ts) ? "raise" : "advance";
}

/* drawing(id): see the script */
Datum
snowflake_drawing(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[8] = {0};
	bool		nulls[8] = {false};
	int64		id = PG_GETARG_INT64(0);
	uint64		unit;
	TimestampTz ts;
	TimestampTz above = 0;
	const char *need = find_need(id, &unit, &above);

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	nulls[0] = shared != NULL;
	if (!nulls[0])
		values[0] = CStringGetTextDatum(preload_hint());
	nulls[1] = !settings_need_lease() || lease_is_used();
	if (!nulls[1])
		values[1] = CStringGetTextDatum(settings_node_id_hint());
	values[2] = Int32GetDatum((int32) own_node());
	values[3] = CStringGetTextDatum(clock_name());
	values[4] = TimestampTzGetDatum(clock_read());
	nulls[5] = id < 0 || id > layout_max_id(&snowflake_layout);
	if (!clock_timestamp_of_unit(layout_unpack(&snowflake_layout, id, FIELD_TIME), &ts))
		ts = DT_NOEND;
	values[5] = TimestampTzGetDatum(ts);
	nulls[6] = need == NULL;
	if (!nulls[6])
		values[6] = CStringGetTextDatum(need);
	nulls[7] = above == 0;
	values[7] = TimestampTzGetDatum(above);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}

/* raise_mark(id): let new IDs be above it, as far as everybody may. */
Datum
snowflake_raise_mark(PG_FUNCTION_ARGS)
{
	uint64		unit;
	TimestampTz ts;
	const char *need;

	shmem_require("keep a durable mark");
	PreventCommandDuringRecovery("snowflake_convert()");
	PreventCommandIfReadOnly("snowflake_convert()");
	need = find_need(PG_GETARG_INT64(0), &unit, &ts);
	if (need != NULL && strcmp(need, "raise") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to put the durable mark ahead of the clock")));
	if (need != NULL)
		mark_advance(unit);
	PG_RETURN_VOID();
}
