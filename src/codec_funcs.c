/*-------------------------------------------------------------------------
 *
 * funcs.c
 *		The SQL functions that draw IDs, put them together, raise the durable
 *		mark, and write IDs as texts: arguments in, result out.
 *
 * snowflake_nextval() is here; how it comes to an ID is in generator.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "backfill.h"
#include "clock.h"
#include "codec.h"
#include "compat.h"
#include "dialect.h"
#include "generator.h"
#include "lease.h"
#include "ranges.h"
#include "reading.h"
#include "reserve.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_next);
PG_FUNCTION_INFO_V1(snowflake_nextval_count);
PG_FUNCTION_INFO_V1(snowflake_current);
PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_id);
PG_FUNCTION_INFO_V1(snowflake_backfill);
PG_FUNCTION_INFO_V1(snowflake_layout_info);
PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_accept_layout);
PG_FUNCTION_INFO_V1(snowflake_restore_mark);
PG_FUNCTION_INFO_V1(snowflake_encode);
PG_FUNCTION_INFO_V1(snowflake_decode);

/*
 * Generating
 */

/* snowflake_nextval(); that name is taken, see pgedge.c */
Datum
snowflake_next(PG_FUNCTION_ARGS)
{
	int64		id;

	(void) generator_take(1, &id);
	generator_set_current(id, true);
	PG_RETURN_INT64(id);
}

/* IDs taken and not yet returned by snowflake_nextval(count) */
typedef struct Batch
{
	uint64		wanted;			/* not yet taken */
	uint64		at_once;		/* how many to take in one step */
	uint64		taken;			/* taken, not yet returned */
	int64		next;			/* the first of these */
	int64		step;			/* from one to the next */
} Batch;

/*
 * snowflake_nextval(count): takes as many as a slot has in a time unit at
 * once, and returns them one by one.
 */
Datum
snowflake_nextval_count(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Batch	   *batch;
	int64		id;

	if (SRF_IS_FIRSTCALL())
	{
		int32		count = PG_GETARG_INT32(0);

		if (count < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("number of snowflake IDs must not be negative"),
					 errdetail("The number asked for is %d.", count)));

		funcctx = SRF_FIRSTCALL_INIT();
		batch = MemoryContextAllocZero(funcctx->multi_call_memory_ctx,
									   sizeof(Batch));
		batch->wanted = (uint64) count;
		batch->at_once = (uint64) count;
		batch->step = generator_step();
		funcctx->user_fctx = batch;
	}

	funcctx = SRF_PERCALL_SETUP();
	batch = funcctx->user_fctx;

	/*
	 * A single call has drawn an ID since these were taken.  To return them
	 * now would be to go back, so they are lost; and since the two seem to
	 * take turns, go on one by one.  Sets that are read at the same time do
	 * not do this to each other: each ascends by itself.
	 */
	if (batch->taken > 0 && generator_has_passed(batch->next))
	{
		batch->wanted += batch->taken;
		batch->taken = 0;
		batch->at_once = 1;
	}

	if (batch->taken == 0)
	{
		if (batch->wanted == 0)
			SRF_RETURN_DONE(funcctx);
		batch->taken = generator_take(Min(batch->wanted, batch->at_once),
									  &batch->next);
		batch->wanted -= batch->taken;
	}

	id = batch->next;
	batch->next += batch->step;
	batch->taken--;
	generator_set_current(id, false);
	SRF_RETURN_NEXT(funcctx, Int64GetDatum(id));
}

/* snowflake_currval(); likewise */
Datum
snowflake_current(PG_FUNCTION_ARGS)
{
	int64		id;

	if (!generator_get_current(&id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_currval is not yet defined in this session"),
				 errhint("Call snowflake_nextval() first.")));
	PG_RETURN_INT64(id);
}

/*
 * Putting together
 */

/*
 * An argument that goes into a field, checked to fit.
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
 * snowflake_id(ts, discriminator): no generator's ID, so not known to be unique;
 * the caller's key says what it is.
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

/*
 * Looking at the settings
 */

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

/*
 * The durable mark
 */

/*
 * May the mark be changed from here?
 */
static void
require_mark(const char *function)
{
	shmem_require("keep a durable mark");
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
}

/*
 * Let no ID be issued below a time unit, and say so when that is in the
 * future.  Returns when the unit begins.
 */
static TimestampTz
advance_to(uint64 floor)
{
	TimestampTz now;
	TimestampTz ts;

	if (!clock_timestamp_of_unit(floor, &ts))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));

	reserve_advance(floor);

	now = clock_read();
	if (ts > now)
		ereport(WARNING,
				(errmsg("the durable mark is ahead of the clock"),
				 errdetail("The %s shows %s, and no ID will have a time before %s. \"snowflake.max_drift\" allows %d ms ahead of the clock.",
						   clock_name(),
						   pstrdup(timestamptz_to_str(now)),
						   pstrdup(timestamptz_to_str(ts)),
						   snowflake_max_drift)));
	return ts;
}

/* snowflake_advance(id) */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	int64		id = reading_check(PG_GETARG_INT64(0));
	uint64		unit;

	require_mark("snowflake_advance()");

	if (layout_unpack(&snowflake_layout, id, FIELD_TIME) >=
		snowflake_layout.max[FIELD_TIME])
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("cannot advance to snowflake ID " INT64_FORMAT, id),
				 errdetail("It is of the last time unit of the layout \"%s\": no ID would be left.",
						   snowflake_layout_text)));
	if (!layout_unit_above(&snowflake_layout, (uint64) Max(lease_node(), 0), id, &unit))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot advance to snowflake ID " INT64_FORMAT, id),
				 errdetail("In the layout \"%s\" a field above the time makes it larger than later IDs of this server.",
						   snowflake_layout_text)));

	PG_RETURN_TIMESTAMPTZ(advance_to(unit));
}

/* snowflake_accept_layout() */
Datum
snowflake_accept_layout(PG_FUNCTION_ARGS)
{
	require_mark("snowflake_accept_layout()");
	if (!reserve_accept())
		ereport(NOTICE,
				(errmsg("nothing to accept: layout and epoch are those recorded with the durable mark")));
	PG_RETURN_VOID();
}

/*
 * Where a dump was made with another layout or epoch, its IDs cannot be
 * compared with those of this server.
 */
static void
warn_of_other_layout(TriggerData *trigdata)
{
	TupleDesc	tupdesc = trigdata->tg_relation->rd_att;
	char	   *text = SPI_getvalue(trigdata->tg_trigtuple, tupdesc, 2);
	bool		isnull;
	Datum		epoch = SPI_getbinval(trigdata->tg_trigtuple, tupdesc, 3, &isnull);
	Layout		layout;
	LayoutError error;

	if (text == NULL || isnull ||
		(dialect_or_layout_parse(text, &layout, &error) &&
		 layout_equal(&layout, &snowflake_layout) &&
		 DatumGetTimestampTz(epoch) == snowflake_epoch))
		return;

	ereport(WARNING,
			(errmsg("the IDs of this dump are of another layout or epoch"),
			 errdetail("The dump has layout \"%s\" and epoch %s, this server layout \"%s\" and epoch %s.",
					   text,
					   pstrdup(timestamptz_to_str(DatumGetTimestampTz(epoch))),
					   snowflake_layout_text,
					   pstrdup(timestamptz_to_str(snowflake_epoch))),
			 errhint("IDs that this server draws may equal IDs of the dump.")));
}

/*
 * The dump has IDs that were backfilled, at times that it does not tell, with
 * sequence numbers below this one.  To give those up everywhere can use up
 * all there are, so that takes more than the right to restore a database, too.
 */
static void
restore_backfilled(TriggerData *trigdata)
{
	bool		isnull;
	int64		backfilled = DatumGetInt64(SPI_getbinval(trigdata->tg_trigtuple,
														 trigdata->tg_relation->rd_att,
														 4, &isnull));

	if (isnull || backfilled <= 0)
		return;
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to give up sequence numbers to backfill with"),
				 errdetail("The dump has backfilled IDs, of up to " INT64_FORMAT " in a time unit.",
						   backfilled),
				 errhint("Restore the table \"snowflake_dumped_mark\" as a superuser, or else call snowflake_backfill() on this server for no time in which the dump has such IDs.")));
	backfill_advance((uint64) backfilled);
}

/*
 * Trigger on snowflake_dumped_mark: a dump is being restored that has IDs below
 * this mark in it.  Issue none of them.  No row is stored.
 */
Datum
snowflake_restore_mark(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	TimestampTz mark;
	TimestampTz ts;
	bool		isnull;
	int64		floor;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_restore_mark must be called as a BEFORE INSERT FOR EACH ROW trigger")));

	if (RelationGetNumberOfAttributes(trigdata->tg_relation) != 4 ||
		SPI_gettypeid(trigdata->tg_relation->rd_att, 1) != TIMESTAMPTZOID ||
		SPI_gettypeid(trigdata->tg_relation->rd_att, 3) != TIMESTAMPTZOID ||
		SPI_gettypeid(trigdata->tg_relation->rd_att, 4) != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_restore_mark must be a trigger on snowflake_dumped_mark")));

	mark = DatumGetTimestampTz(SPI_getbinval(trigdata->tg_trigtuple,
											 trigdata->tg_relation->rd_att,
											 1, &isnull));
	if (isnull || TIMESTAMP_NOT_FINITE(mark))
		return PointerGetDatum(NULL);

	if (shared == NULL || IsBinaryUpgrade)
	{
		ereport(WARNING,
				(errmsg("the durable mark of this dump, %s, is not kept",
						timestamptz_to_str(mark)),
				 errdetail("snowflake is not loaded via \"shared_preload_libraries\"."),
				 errhint("Before this server draws IDs, call snowflake_advance() with the largest ID of the restored tables, or make sure that its clock is right.")));
		return PointerGetDatum(NULL);
	}

	/*
	 * Up to the clock is where drawing an ID would put the mark, too.  To put
	 * it ahead of the clock stops the generator of the whole server, so it
	 * takes more than the right to restore a database.
	 */
	floor = layout_unit_ceil(&snowflake_layout, clock_since_epoch(mark));
	if (floor <= 0)
		return PointerGetDatum(NULL);
	if (!clock_timestamp_of_unit((uint64) floor, &ts))
		ts = DT_NOEND;
	if (ts > clock_read() && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to put the durable mark ahead of the clock"),
				 errdetail("The dump was made with the mark at %s.",
						   timestamptz_to_str(mark)),
				 clock_steps() ?
				 errhint("Restore it as a superuser, or set the server's clock.") :
				 errhint("Restore it as a superuser, or set the server's clock and restart the server.")));

	warn_of_other_layout(trigdata);

	/* the mark first: it counts, whether the rest is permitted or not */
	(void) advance_to(Min((uint64) floor, snowflake_layout.max[FIELD_TIME]));
	restore_backfilled(trigdata);
	return PointerGetDatum(NULL);
}

/*
 * Text forms
 *
 * These depend on no setting.
 */

/* How much of a malformed text to show, in bytes. */
#define SHOWN_TEXT	40

/* The argument "base". */
static const Codec *
getarg_codec(FunctionCallInfo fcinfo, int argno)
{
	text	   *name = PG_GETARG_TEXT_PP(argno);
	const Codec *codec = codec_find(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));

	if (codec == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown base \"%s\"", text_to_cstring(name)),
				 errhint("There are \"base32\", \"base58\" and \"base62\".")));
	return codec;
}

/* snowflake_encode(id, base) */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Codec *codec = getarg_codec(fcinfo, 1);
	char		str[CODEC_MAX_LENGTH];

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg(INT64_FORMAT " is not a snowflake ID", id),
				 errdetail("Snowflake IDs are not negative.")));

	PG_RETURN_TEXT_P(cstring_to_text_with_len(str,
											  codec_encode(codec, id, str)));
}

/*
 * What is wrong with a text, as a DETAIL; and a HINT where that helps.
 */
static int
errdetail_decode(const Codec *codec, CodecResult result,
				 const char *str, int len, int offset)
{
	int			position = offset + 1;
	int			char_len = pg_mbcharcliplen(str + offset, len - offset, 1);
	const char *character = pnstrdup(str + offset, char_len);
	char		max[CODEC_MAX_LENGTH];

	switch (result)
	{
		case CODEC_NOT_A_DIGIT:
			errhint("The digits are \"%s\"%s.", codec->digits,
					codec->ignore_case ?
					", in either case; I and L are read as 1, and O as 0" : "");
			return errdetail("\"%s\" at position %d is not a digit of %s.",
							 character, position, codec->name);
		case CODEC_LEADING_ZERO:
			return errdetail("\"%s\" at position %d is a leading zero; an ID in %s has none.",
							 character, position, codec->name);
		case CODEC_TOO_LARGE:
			return errdetail("\"%s\" at position %d makes it larger than the largest ID, \"%.*s\".",
							 character, position,
							 (int) codec_encode(codec, PG_INT64_MAX, max), max);
		case CODEC_TOO_SHORT:
			if (len == 0)
				return errdetail("It is empty.");
			return errdetail("It ends after position %d; an ID in %s has %d characters.",
							 offset, codec->name, (int) codec->min_length);
		case CODEC_TOO_LONG:
			return errdetail("It goes on at position %d; an ID in %s has no more than %d characters.",
							 position, codec->name, (int) codec->max_length);
		case CODEC_OK:
			break;
	}
	return 0;
}

/* snowflake_decode(code, base) */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	text	   *arg = PG_GETARG_TEXT_PP(0);
	const Codec *codec = getarg_codec(fcinfo, 1);
	const char *str = VARDATA_ANY(arg);
	int			len = VARSIZE_ANY_EXHDR(arg);
	int64		id;
	size_t		offset;
	CodecResult result;

	result = codec_decode(codec, str, len, &id, &offset);
	if (result != CODEC_OK)
	{
		int			shown = pg_mbcliplen(str, len, SHOWN_TEXT);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid %s text for a snowflake ID: \"%.*s%s\"",
						codec->name, shown, str, shown < len ? "..." : ""),
				 errdetail_decode(codec, result, str, len, (int) offset)));
	}
	PG_RETURN_INT64(id);
}
