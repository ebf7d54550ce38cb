/*-------------------------------------------------------------------------
 *
 * parse.c
 *		The SQL functions that read IDs, with this server's layout and epoch or
 *		with those of another generator; that write IDs as short texts and read
 *		them; and that list layouts.
 *
 * snowflake_encode() and snowflake_decode() depend on no setting, so they are
 * IMMUTABLE.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/tuplestore.h"

#include "args.h"
#include "clock.h"
#include "codec.h"
#include "compat.h"
#include "dialect.h"
#include "settings.h"
#include "utf8.h"

PG_FUNCTION_INFO_V1(snowflake_parse);
PG_FUNCTION_INFO_V1(snowflake_timestamp);
PG_FUNCTION_INFO_V1(snowflake_dialects);

/* What the bits of an ID mean. */
typedef struct Meaning
{
	const Layout *layout;
	const char *layout_text;
	TimestampTz epoch;
	const Dialect *dialect;		/* NULL when it is not read by a name */
} Meaning;

/*
 * What a function keeps from call to call, since it takes longer to make than
 * an ID takes to read.
 */
typedef struct Cache
{
	TupleDesc	tupdesc;		/* the result's, where it is a row */
	char	   *source;			/* the argument that the rest is made of */
	Layout		layout;
	Meaning		meaning;
} Cache;

static Meaning
parse_own(void)
{
	Meaning		own = {
		.layout = &snowflake_layout,
		.layout_text = snowflake_layout_text,
		.epoch = snowflake_epoch,
	};

	return own;
}

/* The instant at which an ID's time unit begins. */
static TimestampTz
id_timestamp(const Meaning *meaning, int64 id)
{
	uint64		unit = layout_unpack(meaning->layout, id, FIELD_TIME);
	TimestampTz ts;

	if (!clock_unit_start(meaning->layout, meaning->epoch, unit, &ts))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range"),
				 errdetail("The time in snowflake ID " INT64_FORMAT " is " UINT64_FORMAT " units after the epoch.",
						   id, unit)));
	return ts;
}

/* A field of an ID as an SQL integer. */
static Datum
id_field(const Meaning *meaning, int64 id, LayoutField field)
{
	uint64		number = layout_unpack(meaning->layout, id, field);

	if (number > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range"),
				 errdetail("The field \"%s\" of snowflake ID " INT64_FORMAT " holds " UINT64_FORMAT ".",
						   layout_field_name(field), id, number)));
	return Int32GetDatum((int32) number);
}

static void
parse_check_by(const Meaning *meaning, int64 id)
{
	int64		max_id = layout_max_id(meaning->layout);

	if (id >= 0 && id <= max_id)
		return;

	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg(INT64_FORMAT " is not a snowflake ID", id),
			 meaning->dialect != NULL && meaning->dialect->is_unsigned ?
			 errdetail("IDs of the dialect \"%s\" are unsigned numbers of 64 bits. IDs from 2^63 on, with times after %s, do not fit into a bigint.",
					   meaning->dialect->name,
					   timestamptz_to_str(id_timestamp(meaning, max_id))) :
			 errdetail("IDs of the layout \"%s\" are from 0 to " INT64_FORMAT ".",
					   text_cut(meaning->layout_text, strlen(meaning->layout_text)),
					   max_id)));
}

int64
parse_check(int64 id)
{
	Meaning		own = parse_own();

	parse_check_by(&own, id);
	return id;
}

static Cache *
get_cache(FunctionCallInfo fcinfo)
{
	Cache	   *cache = fcinfo->flinfo->fn_extra;

	if (cache == NULL)
	{
		TupleDesc	tupdesc;
		MemoryContext old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		cache = palloc0(sizeof(Cache));
		if (get_call_result_type(fcinfo, NULL, &tupdesc) == TYPEFUNC_COMPOSITE)
			cache->tupdesc = BlessTupleDesc(CreateTupleDescCopy(tupdesc));
		MemoryContextSwitchTo(old);
		fcinfo->flinfo->fn_extra = cache;
	}
	return cache;
}

/* Is what the cache has of this text? */
static bool
is_cached(const Cache *cache, const text *arg)
{
	size_t		len = VARSIZE_ANY_EXHDR(arg);

	return cache->source != NULL && strlen(cache->source) == len &&
		memcmp(cache->source, VARDATA_ANY(arg), len) == 0;
}

static void
error_unknown_dialect(const char *name)
{
	StringInfoData names;

	initStringInfo(&names);
	for (const Dialect *dialect = dialects; dialect->name != NULL; dialect++)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 dialect->name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown snowflake dialect \"%s\"", text_cut(name, strlen(name))),
			 strchr(name, ':') != NULL ?
			 errhint("A layout needs its epoch, as a third argument. The dialects are: %s.",
					 names.data) :
			 errhint("The dialects are: %s.", names.data)));
}

/* Put what IDs mean by a text into the cache, or raise an ERROR. */
static void
fill_cache(FunctionCallInfo fcinfo, Cache *cache, const char *text)
{
	const Dialect *dialect = dialect_find(text);
	Layout		layout;
	LayoutError error;
	char	   *source;

	if (dialect == NULL && PG_NARGS() == 2)
		error_unknown_dialect(text);
	if (!dialect_or_layout_parse(text, &layout, &error))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid snowflake layout \"%s\"",
						text_cut(text, strlen(text))),
				 errdetail("%s", error.message)));

	source = MemoryContextStrdup(fcinfo->flinfo->fn_mcxt, text);
	if (cache->source != NULL)
		pfree(cache->source);
	cache->source = source;
	cache->layout = layout;
	cache->meaning.layout = &cache->layout;
	cache->meaning.layout_text = dialect ? dialect->layout : source;
	cache->meaning.dialect = dialect;
}

/*
 * What the bits of an ID mean by the arguments after it: by none, by a dialect,
 * or by an epoch and a layout, which may be that of a dialect, by its name.
 */
static Meaning
getarg_meaning(FunctionCallInfo fcinfo)
{
	Cache	   *cache;
	Meaning		meaning;

	if (PG_NARGS() == 1)
		return parse_own();

	cache = get_cache(fcinfo);
	if (!is_cached(cache, PG_GETARG_TEXT_PP(1)))
		fill_cache(fcinfo, cache, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	meaning = cache->meaning;
	meaning.epoch = PG_NARGS() == 2 ?
		clock_of_unix_ms(meaning.dialect->epoch_ms) : PG_GETARG_TIMESTAMPTZ(2);
	if (TIMESTAMP_NOT_FINITE(meaning.epoch))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch must be finite")));
	return meaning;
}

/* snowflake_timestamp(id), (id, layout, epoch) */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	Meaning		meaning = getarg_meaning(fcinfo);

	parse_check_by(&meaning, id);
	PG_RETURN_TIMESTAMPTZ(id_timestamp(&meaning, id));
}

/*
 * snowflake_parse(id), (id, dialect), (id, layout, epoch): ts, node, worker,
 * sequence
 */
Datum
snowflake_parse(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	Meaning		meaning = getarg_meaning(fcinfo);
	Datum		values[4];
	bool		nulls[4] = {false};

	parse_check_by(&meaning, id);
	values[0] = TimestampTzGetDatum(id_timestamp(&meaning, id));
	values[1] = id_field(&meaning, id, FIELD_NODE);
	values[2] = id_field(&meaning, id, FIELD_WORKER);
	values[3] = id_field(&meaning, id, FIELD_SEQUENCE);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(get_cache(fcinfo)->tupdesc,
													  values, nulls)));
}

/* snowflake_dialects(): one row a dialect */
Datum
snowflake_dialects(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);

	for (const Dialect *dialect = dialects; dialect->name != NULL; dialect++)
	{
		TimestampTz epoch = clock_of_unix_ms(dialect->epoch_ms);
		Interval	unit = {0};
		TimestampTz last;
		Layout		layout;
		LayoutError error;
		Datum		values[11];
		bool		nulls[11] = {false};
		int			i = 0;

		if (!layout_parse(dialect->layout, &layout, &error))
			elog(ERROR, "dialect \"%s\": %s", dialect->name, error.message);
		unit.time = layout.unit_us;
		if (!clock_unit_start(&layout, epoch, layout.max[FIELD_TIME], &last))
			last = DT_NOEND;

		values[i++] = CStringGetTextDatum(dialect->name);
		values[i++] = CStringGetTextDatum(dialect->layout);
		values[i++] = TimestampTzGetDatum(epoch);
		for (int field = 0; field < LAYOUT_FIELDS; field++)
			values[i++] = Int32GetDatum(layout.bits[field]);
		values[i++] = IntervalPGetDatum(&unit);
		values[i++] = TimestampTzGetDatum(last);
		values[i++] = BoolGetDatum(dialect->is_unsigned);
		values[i++] = CStringGetTextDatum(dialect->description);
		Assert(i == lengthof(values) && i == rsinfo->setDesc->natts);

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * IDs as texts
 */

PG_FUNCTION_INFO_V1(snowflake_encode);
PG_FUNCTION_INFO_V1(snowflake_decode);

/* The argument "base". */
static const Codec *
getarg_codec(FunctionCallInfo fcinfo)
{
	text	   *name = PG_GETARG_TEXT_PP(1);
	const Codec *codec = codec_find(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));

	if (codec == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown base \"%s\"",
						text_cut(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name))),
				 errhint("The bases are \"base32\", \"base58\" and \"base62\".")));
	return codec;
}

/* snowflake_encode(id, base) */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Codec *codec = getarg_codec(fcinfo);
	char		str[CODEC_MAX_LENGTH];

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg(INT64_FORMAT " is not a snowflake ID", id),
				 errdetail("Snowflake IDs are not negative.")));

	PG_RETURN_TEXT_P(cstring_to_text_with_len(str, codec_encode(codec, id, str)));
}

/* Say what is wrong with a text. */
static int
errdetail_decode(const Codec *codec, CodecResult result,
				 const char *str, int len, int offset)
{
	int			position = offset + 1;
	int			char_len = pg_mbcharcliplen(str + offset, len - offset, 1);
	const char *character = pnstrdup(str + offset, char_len);
	char		max[CODEC_MAX_LENGTH];

	errhint("%sName another form as the second argument: \"base32\", \"base58\" or \"base62\".",
			result != CODEC_NOT_A_DIGIT ? "" :
			psprintf("The digits are \"%s\"%s. ", codec->digits, codec->ignore_case ?
					 ", in either case; I and L are read as 1, and O as 0" : ""));
	switch (result)
	{
		case CODEC_NOT_A_DIGIT:
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

/* snowflake_decode(code, base), with what copying a text puts around it */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	text	   *arg = PG_GETARG_TEXT_PP(0);
	const Codec *codec = getarg_codec(fcinfo);
	const char *str = VARDATA_ANY(arg);
	int			len = VARSIZE_ANY_EXHDR(arg);
	int64		id;
	size_t		offset;
	CodecResult result;

	for (; len > 0 && scanner_isspace(str[0]); str++)
		len--;
	while (len > 0 && scanner_isspace(str[len - 1]))
		len--;
	result = codec_decode(codec, str, len, &id, &offset);
	if (result != CODEC_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid %s text for a snowflake ID: \"%s\"",
						codec->name, text_cut(str, len)),
				 errdetail_decode(codec, result, str, len, (int) offset)));
	PG_RETURN_INT64(id);
}

/*
 * The layout of this server
 */

PG_FUNCTION_INFO_V1(snowflake_layout_info);

/* snowflake_layout() */
Datum
snowflake_layout_info(PG_FUNCTION_ARGS)
{
	const Layout *layout = &snowflake_layout;
	Datum		values[16];
	bool		nulls[16] = {false};
	int			i = 0;
	Interval	unit = {0};
	double		per_worker = ((double) layout->max[FIELD_SEQUENCE] + 1) *
		USECS_PER_SEC / layout->unit_us;

	unit.time = layout->unit_us;
	values[i++] = CStringGetTextDatum(snowflake_layout_text);
	for (LayoutField field = 0; field < LAYOUT_FIELDS; field++)
		values[i++] = Int32GetDatum(layout->bits[field]);
	values[i++] = IntervalPGetDatum(&unit);
	/* how many numbers each has: 2^63 is not a bigint */
	for (LayoutField field = 0; field < LAYOUT_FIELDS; field++)
		values[i++] = DirectFunctionCall1(numeric_inc,
										  NumericGetDatum(int64_to_numeric((int64) layout->max[field])));
	values[i++] = TimestampTzGetDatum(snowflake_epoch);
	values[i++] = TimestampTzGetDatum(clock_unit_or_end(layout->max[FIELD_TIME]));
	values[i++] = Int64GetDatum(layout_max_id(layout));
	values[i++] = Float8GetDatum(per_worker);
	values[i++] = Float8GetDatum(per_worker * settings_slots());
	nulls[i] = settings_backfill_worker() == 0;
	values[i++] = Int64GetDatum((int64) settings_backfill_worker());
	Assert(i == lengthof(values));
	PG_RETURN_DATUM(make_record(fcinfo, values, nulls));
}
