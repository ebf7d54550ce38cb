/*-------------------------------------------------------------------------
 *
 * key_funcs.c
 *		The SQL functions of business keys: make, read, route.
 *
 * A key shows one snowflake ID, as a rule one that was drawn for it: its time is
 * the start of the ID's time unit, its node is the ID's node, and its sequence
 * number is the ID's worker and sequence as one number.  The rest of a key
 * depends on its format and route.  So keys are unique because IDs are, and a
 * key tells which ID it was made of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "args.h"
#include "clock.h"
#include "compat.h"
#include "generator.h"
#include "key_formats.h"
#include "settings.h"
#include "utf8.h"

PG_FUNCTION_INFO_V1(snowflake_route_number);
PG_FUNCTION_INFO_V1(snowflake_route_text);
PG_FUNCTION_INFO_V1(snowflake_key_number);
PG_FUNCTION_INFO_V1(snowflake_key_text);
PG_FUNCTION_INFO_V1(snowflake_key_number_id);
PG_FUNCTION_INFO_V1(snowflake_key_text_id);
PG_FUNCTION_INFO_V1(snowflake_key_parse);

/*
 * A key in the numbers that it shows, and the ID that it was made from: -1 where
 * the layout has none at its time, as that is before the epoch.
 */
typedef struct ReadKey
{
	Key			key;
	TimestampTz ts;
	int64		id;
} ReadKey;

/*
 * Routes
 */

/* The table that a number routes to. */
static int64
route_number(int64 route, int64 tables)
{
	if (route < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("route " INT64_FORMAT " is out of range", route),
				 errdetail("A route must not be negative.")));
	return route % tables;
}

/*
 * The table that a text routes to: the same in each database, whatever its
 * encoding.  In one without an encoding the bytes must be UTF-8.
 */
static int64
route_text(const char *str, int len, int64 tables, bool by_hash)
{
	int64		table;
	KeyError	error;

	if (key_is_number(str, len))
		return key_route_number(str, len, tables);
	if (by_hash && len > 0)
	{
		const char *utf8 = pg_server_to_any(str, len, PG_UTF8);

		return (int64) (key_hash(utf8, utf8 == str ? (size_t) len : strlen(utf8)) %
						(uint64) tables);
	}
	if (!key_route_codes(str, len, tables, &table, &error))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid route: \"%s\"", text_cut(str, len)),
				 errdetail("%s", error.message),
				 len > 0 ?
				 errhint("Route by a number, or by the method \"hash\", which takes any character.") : 0));
	return table;
}

static int64
getarg_count(FunctionCallInfo fcinfo, int argno, const char *name)
{
	int64		count;

	require_not_null(fcinfo, argno, name);
	count = PG_GETARG_INT64(argno);
	if (count < 1 || count > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s " INT64_FORMAT " is out of range", name, count),
				 errdetail("It must be from 1 to %d.", PG_INT32_MAX)));
	return count;
}

/* The arguments db_count and tables_per_db of both: how many tables. */
static int64
getarg_tables(FunctionCallInfo fcinfo)
{
	int64		tables = getarg_count(fcinfo, 1, "db_count") *
		getarg_count(fcinfo, 2, "tables_per_db");

	if (tables > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("too many tables"),
				 errdetail("All databases together can have at most %d.", PG_INT32_MAX)));
	return tables;
}

/* The result of both: database and table. */
static Datum
make_route(FunctionCallInfo fcinfo, int64 table)
{
	Datum		values[] = {
		Int32GetDatum((int32) (table / PG_GETARG_INT64(2))),
		Int32GetDatum((int32) table)
	};
	bool		nulls[] = {false, false};

	return make_record(fcinfo, values, nulls);
}

/* snowflake_route(route bigint, db_count, tables_per_db) */
Datum
snowflake_route_number(PG_FUNCTION_ARGS)
{
	int64		tables = getarg_tables(fcinfo);

	require_not_null(fcinfo, 0, "route");
	PG_RETURN_DATUM(make_route(fcinfo, route_number(PG_GETARG_INT64(0), tables)));
}

/* snowflake_route(route text, db_count, tables_per_db, method) */
Datum
snowflake_route_text(PG_FUNCTION_ARGS)
{
	int64		tables = getarg_tables(fcinfo);
	text	   *route;
	char	   *method;
	bool		by_hash;

	require_not_null(fcinfo, 0, "route");
	require_not_null(fcinfo, 3, "method");
	route = PG_GETARG_TEXT_PP(0);
	method = text_to_cstring(PG_GETARG_TEXT_PP(3));
	by_hash = strcmp(method, "hash") == 0;
	if (!by_hash && strcmp(method, "codes") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown method \"%s\"", text_cut(method, strlen(method))),
				 errhint("The methods are \"codes\" and \"hash\".")));

	PG_RETURN_DATUM(make_route(fcinfo,
							   route_text(VARDATA_ANY(route), VARSIZE_ANY_EXHDR(route),
										  tables, by_hash)));
}

/*
 * Reading
 */

static void
report_invalid(const char *str, int len, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid snowflake key: \"%s\"", text_cut(str, len)),
			 errdetail("%s", detail)));
}

/*
 * The format that a text is to be read by: that of its prefix and version.  If
 * there is none of that version, any of that prefix; and NULL if of neither.
 */
static const FormatRow *
find_format_of(const List *formats, const char *str, int len)
{
	size_t		prefix_len = key_prefix_length(str, len);
	const FormatRow *found = NULL;
	ListCell   *lc;

	foreach(lc, formats)
	{
		const FormatRow *format = lfirst(lc);
		int64		version;

		if (strlen(format->key.prefix) != prefix_len ||
			memcmp(format->key.prefix, str, prefix_len) != 0)
			continue;
		found = format;
		if (key_read_version(&format->key, str, len, &version) &&
			version == format->key.max[KEY_VERSION])
			break;
	}
	return found;
}

/*
 * The instants of a local time, in order: one, none where the clock was set
 * forward, two where it was set back.  Its offsets are those that apply a day
 * before and after, see key_formats.c.
 */
static int
find_instants(const FormatRow *format, int64 local_ms, TimestampTz found[2])
{
	TimestampTz local = local_ms * 1000;
	int			n = 0;

	for (int side = -1; side <= 1; side += 2)
	{
		TimestampTz ts = local -
			format_offset(format, local + side * USECS_PER_DAY) * USECS_PER_SEC;

		if (ts + format_offset(format, ts) * USECS_PER_SEC == local &&
			(n == 0 || found[0] != ts))
			found[n++] = ts;
	}
	return n;
}

/* The time of an instant in keys of a format; rounds down. */
static int64
local_time(const FormatRow *format, TimestampTz ts, bool *is_again)
{
	int64		local = ts + format_offset(format, ts) * USECS_PER_SEC;
	TimestampTz found[2];

	*is_again = false;
	if (local < 0)
		return -1;
	local /= 1000;
	if (format->key.has_folds && local <= KEY_MAX_TIME)
		*is_again = find_instants(format, local, found) == 2 && ts >= found[1];
	return local;
}

/* Read a key of a format, or raise an ERROR. */
static void
read_key(const FormatRow *format, const char *str, int len, ReadKey *read)
{
	Key		   *key = &read->key;
	uint64		low;
	int64		unit;
	TimestampTz ts;
	int64		version;
	TimestampTz found[2];
	int			nfound;
	KeyError	error;

	format_require_usable(format);
	if (key_read_version(&format->key, str, len, &version) &&
		version != format->key.max[KEY_VERSION])
		report_invalid(str, len,
					   psprintf("No format with the prefix \"%s\" has the version " INT64_FORMAT ", which is at position %d.",
								format->key.prefix, version,
								(int) key_field_position(&format->key, KEY_VERSION)));
	if (!key_read(&format->key, str, len, key, &error))
		report_invalid(str, len, error.message);
	nfound = find_instants(format, key->number[KEY_TIME], found);
	if (nfound <= (int) key->is_again)
		report_invalid(str, len,
					   psprintf(nfound == 0 ?
								"There was no such time in the time zone \"%s\"." :
								"That time did not come twice in the time zone \"%s\".",
								format->zone_name));
	read->ts = found[key->is_again];

	/* the unit whose start is in that millisecond */
	unit = layout_unit_ceil(&snowflake_layout, clock_since_epoch(read->ts));
	read->id = -1;
	if (unit < 0 || (uint64) unit > snowflake_layout.max[FIELD_TIME] ||
		!clock_timestamp_of_unit((uint64) unit, &ts) || ts >= read->ts + 1000)
		return;
	read->ts = ts;

	low = (uint64) key->number[KEY_SEQUENCE];
	read->id = layout_pack(&snowflake_layout, (uint64) unit,
						   (uint64) key->number[KEY_NODE],
						   low >> snowflake_layout.bits[FIELD_SEQUENCE],
						   low & snowflake_layout.max[FIELD_SEQUENCE]);
}

/* snowflake_key_parse(key) */
Datum
snowflake_key_parse(PG_FUNCTION_ARGS)
{
	text	   *arg = PG_GETARG_TEXT_PP(0);
	const char *str = VARDATA_ANY(arg);
	int			len = VARSIZE_ANY_EXHDR(arg);
	const FormatRow *format = find_format_of(formats_read(), str, len);
	ReadKey		read;
	const int64 *number = read.key.number;
	Datum		values[9];
	bool		nulls[9] = {false};

	if (format == NULL)
		report_invalid(str, len,
					   psprintf("No format has the prefix \"%.*s\" that it begins with.",
								(int) Min(key_prefix_length(str, len), KEY_MAX_PREFIX + 1), str));
	read_key(format, str, len, &read);

	values[0] = CStringGetTextDatum(format->name);
	values[1] = CStringGetTextDatum(format->key.prefix);
	values[2] = Int32GetDatum((int32) number[KEY_DATABASE]);
	values[3] = Int32GetDatum((int32) number[KEY_TABLE]);
	values[4] = Int32GetDatum((int32) number[KEY_VERSION]);
	values[5] = TimestampTzGetDatum(read.ts);
	values[6] = Int32GetDatum((int32) number[KEY_NODE]);
	values[7] = Int64GetDatum(number[KEY_SEQUENCE]);
	values[8] = Int64GetDatum(read.id);
	nulls[8] = read.id < 0;
	PG_RETURN_DATUM(make_record(fcinfo, values, nulls));
}

/*
 * Making
 */

/* Show an ID as a key. */
static Datum
make_key(const FormatRow *format, int64 table, int64 id)
{
	Key			key = {0};
	char		str[KEY_MAX_LENGTH];
	TimestampTz ts = clock_unit_or_end(layout_unpack(&snowflake_layout, id, FIELD_TIME));

	if (ts != DT_NOEND)
		key.number[KEY_TIME] = local_time(format, ts, &key.is_again);
	if (ts == DT_NOEND || key.number[KEY_TIME] < 0 || key.number[KEY_TIME] > KEY_MAX_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("snowflake keys have years from 2000 to 2099"),
				 errdetail("The time of ID " INT64_FORMAT " is %s.",
						   id, timestamptz_to_str(ts))));

	key.number[KEY_DATABASE] = table / format->key.tables_per_db;
	key.number[KEY_TABLE] = table;
	key.number[KEY_VERSION] = format->key.max[KEY_VERSION];
	key.number[KEY_NODE] = (int64) layout_unpack(&snowflake_layout, id, FIELD_NODE);
	key.number[KEY_SEQUENCE] =
		(int64) (layout_unpack(&snowflake_layout, id, FIELD_WORKER) << snowflake_layout.bits[FIELD_SEQUENCE] |
				 layout_unpack(&snowflake_layout, id, FIELD_SEQUENCE));
	if (key.number[KEY_SEQUENCE] > format->key.max[KEY_SEQUENCE])
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("ID " INT64_FORMAT " does not fit into keys of format \"%s\"",
						id, format->name),
				 errdetail("The field \"sequence\" has a width of %d, for numbers up to " INT64_FORMAT ". The worker and sequence of the ID make " INT64_FORMAT ".",
						   format->key.width[KEY_SEQUENCE],
						   format->key.max[KEY_SEQUENCE], key.number[KEY_SEQUENCE]),
				 errhint("Use a format with a larger sequence_width.")));
	for (KeyField f = KEY_DATABASE; f < KEY_FIELDS; f++)
		Assert(f == KEY_TIME || key.number[f] <= format->key.max[f]);
	return PointerGetDatum(cstring_to_text_with_len(str, key_write(&format->key, &key, str)));
}

/* Show the ID that is the third argument, or draw one where there is none. */
static Datum
make_key_of_arg(FunctionCallInfo fcinfo, const FormatRow *format, int64 table)
{
	int64		id;

	if (PG_NARGS() == 3)
	{
		require_not_null(fcinfo, 2, "id");
		return make_key(format, table, parse_check(PG_GETARG_INT64(2)));
	}
	generator_stay_below(format->workers);
	(void) generator_take(1, &id);
	generator_set_current(id, true);
	return make_key(format, table, id);
}

static const FormatRow *
getarg_format(FunctionCallInfo fcinfo, const List *formats)
{
	text	   *name;

	require_not_null(fcinfo, 0, "format");
	name = PG_GETARG_TEXT_PP(0);
	return formats_find(formats, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

/* snowflake_key(format, route bigint) */
Datum
snowflake_key_number(PG_FUNCTION_ARGS)
{
	const FormatRow *format = getarg_format(fcinfo, formats_read());

	require_not_null(fcinfo, 1, "route");
	return make_key_of_arg(fcinfo, format,
						   route_number(PG_GETARG_INT64(1), format->tables));
}

/* snowflake_key(format, route bigint, id) */
Datum
snowflake_key_number_id(PG_FUNCTION_ARGS)
{
	return snowflake_key_number(fcinfo);
}

/*
 * The table that the argument "route" of type text leads to.  A text that has
 * the prefix and the length of keys is one, and must be right in all of its
 * fields: with a digit lost it would else lead to any shard.  It leads to its own
 * table where tables are counted alike, else to the one that its ID routes to.
 */
static int64
getarg_route_text(FunctionCallInfo fcinfo, const List *formats, const FormatRow *format)
{
	const FormatRow *route_format;
	text	   *route;
	const char *str;
	int			len;
	ReadKey		read;

	require_not_null(fcinfo, 1, "route");
	route = PG_GETARG_TEXT_PP(1);
	str = VARDATA_ANY(route);
	len = VARSIZE_ANY_EXHDR(route);
	route_format = find_format_of(formats, str, len);
	if (route_format == NULL || key_length(&route_format->key) != (size_t) len)
		return route_text(str, len, format->tables, format->by_hash);

	read_key(route_format, str, len, &read);
	if (route_format->tables == format->tables &&
		route_format->key.tables_per_db == format->key.tables_per_db)
		return read.key.number[KEY_TABLE];
	if (read.id < 0)
		report_invalid(str, len,
					   psprintf("Its ID is the route, and no ID of the layout \"%s\", which begins at %s, has its time.",
								snowflake_layout_text, clock_show(snowflake_epoch)));
	return route_number(read.id, format->tables);
}

/* snowflake_key(format, route text) */
Datum
snowflake_key_text(PG_FUNCTION_ARGS)
{
	const List *formats = formats_read();
	const FormatRow *format = getarg_format(fcinfo, formats);

	return make_key_of_arg(fcinfo, format, getarg_route_text(fcinfo, formats, format));
}

/* snowflake_key(format, route text, id) */
Datum
snowflake_key_text_id(PG_FUNCTION_ARGS)
{
	return snowflake_key_text(fcinfo);
}
