/*-------------------------------------------------------------------------
 *
 * key_formats.c
 *		The formats of business keys: the table, and what each backend keeps of
 *		it.
 *
 * Each backend keeps the rows of the table snowflake_catalog.key_formats as it
 * keeps the server's catalogs: it reads them by the same snapshot, and forgets
 * them with the table's entry in the relation cache.  When a row changes, a
 * trigger invalidates that entry, in all backends at commit.
 *
 * What makes two IDs equal keys, or one key that of two formats, is refused
 * when a row is written:
 *
 *	- fields that do not hold the server's nodes, or the sequence numbers of
 *	  one worker.  Of the workers, keys are drawn from as many as the sequence
 *	  field holds;
 *	- a time zone whose clock is set twice within two days, so that more than
 *	  two instants could have one local time.  Where two have, the key says
 *	  which one it is, see key.h;
 *	- formats with the same prefix and other widths, where it is not plain
 *	  which one a key is of; and
 *	- another prefix, version or time zone for a format that has had one.  A
 *	  format with the former ones and another time zone could write its keys.
 *
 * As the layout may change after that, a row is tested again when it is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "clock.h"
#include "compat.h"
#include "key_formats.h"
#include "settings.h"
#include "utf8.h"

PG_FUNCTION_INFO_V1(snowflake_check_key_format);
PG_FUNCTION_INFO_V1(snowflake_require_key_format);

#define SCHEMA "snowflake_catalog"
#define TABLE "key_formats"

/* The table's columns. */
enum
{
	COLUMN_NAME,
	COLUMN_PREFIX,
	COLUMN_DB_COUNT,
	COLUMN_TABLES_PER_DB,
	COLUMN_VERSION,
	COLUMN_TIME_ZONE,
	COLUMN_TEXT_ROUTE,
	COLUMN_DATABASE_WIDTH,
	COLUMN_TABLE_WIDTH,
	COLUMN_VERSION_WIDTH,
	COLUMN_NODE_WIDTH,
	COLUMN_SEQUENCE_WIDTH,
	COLUMNS
};

/* What is kept, if anything is, and whether it still is what the table has. */
static MemoryContext kept_context = NULL;
static List *kept;
static Oid	kept_relid = InvalidOid;
static bool kept_is_valid = false;

/* The settings they were read with, which change only where it is not preloaded. */
static Layout kept_layout;
static TimestampTz kept_epoch;

/*
 * Rows
 */

int64
format_offset(const FormatRow *format, TimestampTz ts)
{
	pg_time_t	seconds;

	if (format->zone == NULL)
		return 0;
	seconds = timestamptz_to_time_t(ts);
	return pg_localtime(&seconds, format->zone)->tm_gmtoff;
}

/*
 * Two changes of a clock have to be so far apart for keys, in seconds, and the
 * clock so near to UTC: local times are looked for a day before and after.
 */
#define MIN_CHANGE_DISTANCE (2 * SECS_PER_DAY)
#define MAX_UTC_OFFSET		SECS_PER_DAY

/*
 * Look at all changes of a time zone's clock while the layout lasts, or the
 * times that a key can have.  Is it ever set back, so that local times come
 * twice?  Returns false when changes are so close to each other, or so far from
 * UTC, that they could come more often.
 */
static bool
find_folds(pg_tz *zone, bool *has_folds, TimestampTz *too_close)
{
	TimestampTz last;
	pg_time_t	time = timestamptz_to_time_t(snowflake_epoch) - SECS_PER_DAY;
	pg_time_t	end;
	pg_time_t	former = PG_INT64_MIN / 2;
	long int	before;
	long int	after;
	int			before_isdst;
	int			after_isdst;
	pg_time_t	boundary;

	end = timestamptz_to_time_t(KEY_MAX_TIME * 1000) + SECS_PER_DAY;
	if (clock_timestamp_of_unit(snowflake_layout.max[FIELD_TIME], &last))
		end = Min(end, timestamptz_to_time_t(last) + SECS_PER_DAY);

	*has_folds = false;
	while (pg_next_dst_boundary(&time, &before, &before_isdst, &boundary,
								&after, &after_isdst, zone) == 1 &&
		   boundary <= end)
	{
		if (boundary - former < MIN_CHANGE_DISTANCE || labs(after) > MAX_UTC_OFFSET)
		{
			*too_close = time_t_to_timestamptz(boundary);
			return false;
		}
		*has_folds |= after < before;
		former = time = boundary;
	}
	return true;
}

static const char *
zone_problem(FormatRow *format)
{
	TimestampTz too_close;

	if (pg_strcasecmp(format->zone_name, "UTC") == 0)
		return NULL;
	format->zone = pg_tzset(format->zone_name);
	if (format->zone == NULL || !pg_tz_acceptable(format->zone))
		return psprintf("There is no time zone \"%s\".", format->zone_name);
	if (!find_folds(format->zone, &format->key.has_folds, &too_close))
		return psprintf("In the time zone \"%s\" the clock is set at %s, within two days of another change or more than a day from UTC. Local times could come more than twice.",
						format->zone_name, timestamptz_to_str(too_close));
	return NULL;
}

/*
 * What is to be in the fields, and why this server cannot use that.
 */
static const char *
field_problem(FormatRow *format)
{
	KeyFormat  *key = &format->key;
	KeyError	error;
	int64		sequences = (int64) snowflake_layout.max[FIELD_SEQUENCE] + 1;
	int64		numbers = 1;

	/* one worker at least, before it is asked how many there is room for */
	key->max[KEY_NODE] = (int64) snowflake_layout.max[FIELD_NODE];
	key->max[KEY_SEQUENCE] = sequences - 1;
	if (!key_format_is_valid(key, &error))
		return pstrdup(error.message);

	for (int i = 0; i < key->width[KEY_SEQUENCE]; i++)
		numbers *= 10;
	format->workers = (int) Min(numbers / sequences, settings_slots());

	/* keys of other IDs may have more workers, that of backfilling too */
	key->max[KEY_SEQUENCE] = Min(numbers / sequences,
								 (int64) snowflake_layout.max[FIELD_WORKER] + 1) * sequences - 1;

	if (format->workers < settings_slots() &&
		layout_is_above(&snowflake_layout, FIELD_WORKER, FIELD_TIME))
		return psprintf("The field \"sequence\" has a width of %d, for %d of %d worker numbers, and in the layout \"%s\" the worker is above the time. The field must then hold all worker numbers.",
						key->width[KEY_SEQUENCE], format->workers,
						settings_slots(), snowflake_layout_text);
	return NULL;
}

/*
 * Take a row apart.
 */
static FormatRow *
read_row(Relation rel, HeapTuple tuple)
{
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
	FormatRow  *format = palloc0(sizeof(FormatRow));
	KeyFormat  *key = &format->key;
	char	   *prefix;

	if (RelationGetNumberOfAttributes(rel) != COLUMNS)
		elog(ERROR, "table \"%s\" has other columns than it was made with",
			 RelationGetRelationName(rel));
	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	for (int i = 0; i < COLUMNS; i++)
	{
		if (nulls[i])
			elog(ERROR, "null in table \"%s\"", RelationGetRelationName(rel));
	}

	format->name = TextDatumGetCString(values[COLUMN_NAME]);
	format->zone_name = TextDatumGetCString(values[COLUMN_TIME_ZONE]);
	format->by_hash = strcmp(TextDatumGetCString(values[COLUMN_TEXT_ROUTE]), "hash") == 0;

	prefix = TextDatumGetCString(values[COLUMN_PREFIX]);
	key->width[KEY_PREFIX] = (int) strlen(prefix);
	strlcpy(key->prefix, prefix, sizeof(key->prefix));
	key->width[KEY_DATABASE] = DatumGetInt32(values[COLUMN_DATABASE_WIDTH]);
	key->width[KEY_TABLE] = DatumGetInt32(values[COLUMN_TABLE_WIDTH]);
	key->width[KEY_VERSION] = DatumGetInt32(values[COLUMN_VERSION_WIDTH]);
	key->width[KEY_TIME] = KEY_TIME_WIDTH;
	key->width[KEY_NODE] = DatumGetInt32(values[COLUMN_NODE_WIDTH]);
	key->width[KEY_SEQUENCE] = DatumGetInt32(values[COLUMN_SEQUENCE_WIDTH]);

	key->tables_per_db = DatumGetInt32(values[COLUMN_TABLES_PER_DB]);
	format->tables = key->tables_per_db * DatumGetInt32(values[COLUMN_DB_COUNT]);
	key->max[KEY_DATABASE] = DatumGetInt32(values[COLUMN_DB_COUNT]) - 1;
	key->max[KEY_TABLE] = format->tables - 1;
	key->max[KEY_VERSION] = DatumGetInt32(values[COLUMN_VERSION]);

	format->problem = field_problem(format);
	if (format->problem == NULL)
		format->problem = zone_problem(format);
	return format;
}

void
format_require_usable(const FormatRow *format)
{
	if (format->problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key format \"%s\" cannot be used", format->name),
				 errdetail("%s", format->problem)));
}

/*
 * All rows, in the current memory context.
 */
static List *
read_rows(Relation rel)
{
	List	   *formats = NIL;
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		formats = lappend(formats, read_row(rel, tuple));
	systable_endscan(scan);
	return formats;
}

/*
 * What is kept
 */

static void
forget(Datum arg, Oid relid)
{
	if (relid == kept_relid || relid == InvalidOid)
		kept_is_valid = false;
}

/*
 * Read them again.
 */
static void
keep_rows(void)
{
	static bool registered = false;
	Relation	rel;
	MemoryContext context;
	MemoryContext caller;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
		registered = true;
	}

	kept_relid = get_relname_relid(TABLE, get_namespace_oid(SCHEMA, false));
	if (!OidIsValid(kept_relid))
		elog(ERROR, "table \"%s.%s\" is missing", SCHEMA, TABLE);
	rel = table_open(kept_relid, AccessShareLock);

	/* from here on a change may come at any time, and must not be missed */
	kept_is_valid = true;
	kept_layout = snowflake_layout;
	kept_epoch = snowflake_epoch;
	if (kept_context != NULL)
		MemoryContextDelete(kept_context);
	kept_context = NULL;

	/* until all rows are read, it is the caller's, and goes with an error */
	context = AllocSetContextCreate(CurrentMemoryContext, "snowflake key formats",
									ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	kept = read_rows(rel);
	MemoryContextSwitchTo(caller);
	MemoryContextSetParent(context, TopMemoryContext);
	kept_context = context;
	table_close(rel, AccessShareLock);
}

const List *
formats_read(void)
{
	/* what was committed is seen within a transaction, too */
	AcceptInvalidationMessages();
	if (unlikely(kept_context == NULL || !kept_is_valid || kept_epoch != snowflake_epoch ||
				 !layout_equal(&kept_layout, &snowflake_layout)))
		keep_rows();
	return kept;
}

const FormatRow *
formats_find(const List *formats, const char *name, int len)
{
	ListCell   *lc;

	foreach(lc, formats)
	{
		const FormatRow *format = lfirst(lc);

		if (strlen(format->name) == len && memcmp(format->name, name, len) == 0)
		{
			format_require_usable(format);
			return format;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("key format \"%s\" does not exist", text_cut(name, len)),
			 errhint("snowflake_key_formats() lists the formats, and snowflake_key_format_create() makes one.")));
}

/*
 * Changes
 */

/*
 * Keys of one prefix are told apart by their versions, which must be at the
 * same place.
 */
static void
require_same_widths(Relation rel, const FormatRow *format)
{
	ListCell   *lc;

	/*
	 * Two that do not see each other must not both add a format of the same
	 * prefix.  The rows are read by a snapshot taken now.
	 */
	LockDatabaseObject(RelationRelationId, RelationGetRelid(rel), 0,
					   ExclusiveLock);
	CommandCounterIncrement();
	foreach(lc, read_rows(rel))
	{
		const FormatRow *other = lfirst(lc);

		if (strcmp(other->key.prefix, format->key.prefix) == 0 &&
			memcmp(other->key.width, format->key.width, sizeof(format->key.width)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("key formats \"%s\" and \"%s\" have the same prefix but different widths",
							format->name, other->name),
					 errdetail("The position of the version in keys with the prefix \"%s\" would depend on the format.",
							   format->key.prefix),
					 errhint("Give it another prefix.")));
	}
}

/*
 * Trigger on the table, AFTER INSERT OR UPDATE OR DELETE: check the row, and let
 * all backends read the rows again.  For each row, as logical replication fires
 * no trigger for statements.
 *
 * A row that is restored is kept, also where it cannot be used: its layout may
 * be another one, and the other rows come with it.
 */
Datum
snowflake_check_key_format(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	Relation	rel;
	HeapTuple	tuple;
	FormatRow  *format;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_AFTER(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_catalog.check_key_format must be called as an AFTER trigger FOR EACH ROW")));

	rel = trigdata->tg_relation;
	CacheInvalidateRelcache(rel);
	if (TRIGGER_FIRED_BY_DELETE(trigdata->tg_event))
		return PointerGetDatum(NULL);

	tuple = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event) ?
		trigdata->tg_newtuple : trigdata->tg_trigtuple;
	format = read_row(rel, tuple);
	require_same_widths(rel, format);

	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
	{
		const FormatRow *old = read_row(rel, trigdata->tg_trigtuple);

		if (memcmp(&old->key, &format->key, sizeof(KeyFormat)) != 0 ||
			old->by_hash != format->by_hash ||
			strcmp(old->zone_name, format->zone_name) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("key format \"%s\" cannot be changed, only renamed", old->name),
					 errdetail("New keys could equal keys that were drawn before, or those could no longer be read."),
					 errhint("Create another format, with another version if the prefix is the same.")));
	}
	return PointerGetDatum(NULL);
}

/* require_key_format(name): may keys of the format be drawn and read? */
Datum
snowflake_require_key_format(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	(void) formats_find(formats_read(), VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	PG_RETURN_VOID();
}
