/*-------------------------------------------------------------------------
 *
 * segment_funcs.c
 *		The SQL functions of segments: draw numbers, make and change tags.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"

#include "args.h"
#include "segment.h"

PG_FUNCTION_INFO_V1(snowflake_segment_nextval);
PG_FUNCTION_INFO_V1(snowflake_segment_nextval_count);
PG_FUNCTION_INFO_V1(snowflake_segment_create);
PG_FUNCTION_INFO_V1(snowflake_segment_alter);
PG_FUNCTION_INFO_V1(snowflake_segment_drop);

/*
 * Numbers taken at once for a set: fast, and little is lost where the set is
 * not read to its end.
 */
#define SEGMENT_BATCH	100

/* snowflake_segment_nextval(tag) */
Datum
snowflake_segment_nextval(PG_FUNCTION_ARGS)
{
	text	   *tag = PG_GETARG_TEXT_PP(0);
	SegmentHandle *handle = fcinfo->flinfo->fn_extra;
	int64		number;
	int64		delta;

	if (handle == NULL)
		handle = fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(SegmentHandle));
	(void) segment_take(handle, VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag),
						1, &number, &delta);
	PG_RETURN_INT64(number);
}

/* A set of numbers that is being read. */
typedef struct SegmentSet
{
	SegmentHandle handle;
	text	   *tag;
	uint64		wanted;			/* not yet taken */
	uint64		taken;			/* taken, not yet returned */
	int64		next;			/* the first of these */
	int64		delta;			/* from one to the next */
} SegmentSet;

/* snowflake_segment_nextval(tag, count) */
Datum
snowflake_segment_nextval_count(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	SegmentSet *set;
	int64		number;

	if (SRF_IS_FIRSTCALL())
	{
		int32		count = PG_GETARG_INT32(1);
		MemoryContext caller;

		if (count < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("count must not be negative"),
					 errdetail("The number asked for is %d.", count)));

		funcctx = SRF_FIRSTCALL_INIT();
		caller = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		set = palloc0(sizeof(SegmentSet));
		set->tag = PG_GETARG_TEXT_P_COPY(0);
		set->wanted = (uint64) count;
		funcctx->user_fctx = set;
		MemoryContextSwitchTo(caller);
	}

	funcctx = SRF_PERCALL_SETUP();
	set = funcctx->user_fctx;
	if (set->taken == 0)
	{
		if (set->wanted == 0)
			SRF_RETURN_DONE(funcctx);
		set->taken = segment_take(&set->handle, VARDATA_ANY(set->tag),
								  VARSIZE_ANY_EXHDR(set->tag),
								  Min(set->wanted, SEGMENT_BATCH),
								  &set->next, &set->delta);
		set->wanted -= set->taken;
	}
	number = set->next;
	if (--set->taken > 0)
		set->next += set->delta;	/* past the last it may not fit */
	SRF_RETURN_NEXT(funcctx, Int64GetDatum(number));
}

static void
check_start(int64 start)
{
	if (start < 1)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("start " INT64_FORMAT " is out of range", start),
				 errdetail("Numbers of segments begin at 1 or above.")));
}

static void
check_step(int32 step)
{
	if (step < 1)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("step %d is out of range", step),
				 errdetail("A segment has to span at least one number.")));
}

static void
check_max_value(int64 max_value)
{
	if (max_value < 1)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("max_value " INT64_FORMAT " is out of range", max_value),
				 errdetail("Numbers of segments begin at 1 or above.")));
}

static void
getarg_description(FunctionCallInfo fcinfo, int argno, SegmentOptions *options)
{
	text	   *description;
	char	   *utf8;

	if (PG_ARGISNULL(argno))
		return;
	description = PG_GETARG_TEXT_PP(argno);
	utf8 = text_to_cstring(description);
	utf8 = pg_server_to_any(utf8, (int) strlen(utf8), PG_UTF8);
	if (strlen(utf8) >= sizeof(options->description))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("description is too long"),
				 errdetail("It has %d bytes in UTF-8, and may have %d.",
						   (int) strlen(utf8), (int) sizeof(options->description) - 1)));
	options->has_description = true;
	strcpy(options->description, utf8);
}

static void
run_segment_command(FunctionCallInfo fcinfo, SegmentCommandKind kind,
					const SegmentOptions *options)
{
	text	   *tag = PG_GETARG_TEXT_PP(0);

	segment_command(kind, VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag), options);
}

/*
 * snowflake_segment_create(tag, start, step, delta, remainder, max_value,
 * description)
 */
Datum
snowflake_segment_create(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"tag", "start", "step", "delta", "remainder", "max_value"};
	SegmentOptions options = {0};

	for (int i = 0; i < (int) lengthof(names); i++)
		require_not_null(fcinfo, i, names[i]);
	PreventCommandIfReadOnly("snowflake_segment_create()");

	options.start = PG_GETARG_INT64(1);
	options.step = PG_GETARG_INT32(2);
	options.delta = PG_GETARG_INT32(3);
	options.remainder = PG_GETARG_INT32(4);
	options.max_value = PG_GETARG_INT64(5);
	getarg_description(fcinfo, 6, &options);

	check_start(options.start);
	check_step(options.step);
	check_max_value(options.max_value);
	if (options.delta < 1 || options.delta > options.step)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("delta %d is out of range", options.delta),
				 errdetail("It must be from 1 to step, %d, so that each segment has a number.",
						   options.step)));
	if (options.remainder < 0 || options.remainder >= options.delta)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("remainder %d is out of range", options.remainder),
				 errdetail("The remainder of a division by delta is from 0 to %d.",
						   options.delta - 1)));
	if (options.start > options.max_value)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("start " INT64_FORMAT " is above max_value " INT64_FORMAT,
						options.start, options.max_value)));

	run_segment_command(fcinfo, SEGMENT_CREATE, &options);
	PG_RETURN_VOID();
}

/* snowflake_segment_alter(tag, step, max_value, description, start) */
Datum
snowflake_segment_alter(PG_FUNCTION_ARGS)
{
	SegmentOptions options = {0};

	require_not_null(fcinfo, 0, "tag");
	PreventCommandIfReadOnly("snowflake_segment_alter()");

	options.has_step = !PG_ARGISNULL(1);
	options.has_max_value = !PG_ARGISNULL(2);
	options.has_start = !PG_ARGISNULL(4);
	if (options.has_step)
		check_step(options.step = PG_GETARG_INT32(1));
	if (options.has_max_value)
		check_max_value(options.max_value = PG_GETARG_INT64(2));
	getarg_description(fcinfo, 3, &options);
	if (options.has_start)
		check_start(options.start = PG_GETARG_INT64(4));

	run_segment_command(fcinfo, SEGMENT_ALTER, &options);
	PG_RETURN_VOID();
}

/* snowflake_segment_drop(tag, forget) */
Datum
snowflake_segment_drop(PG_FUNCTION_ARGS)
{
	SegmentOptions options = {0};

	require_not_null(fcinfo, 0, "tag");
	require_not_null(fcinfo, 1, "forget");
	PreventCommandIfReadOnly("snowflake_segment_drop()");

	options.forget = PG_GETARG_BOOL(1);
	run_segment_command(fcinfo, SEGMENT_DROP, &options);
	PG_RETURN_VOID();
}
