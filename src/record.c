/*-------------------------------------------------------------------------
 *
 * record.c
 *		Layout, epoch and node number as recorded beside the durable mark.
 *
 * With another layout or epoch an ID may equal one that was issued.  So a
 * table of the home database holds both.  The mark writer writes it at first
 * use and when another layout is accepted, and reads it before any ID is
 * issued.  The table also has the node number, as a change of it is logged.
 * And it has the timeline: a server that was promoted, be it a standby, a
 * clone or a restored backup, draws with the number of the server that it
 * comes from, which may still draw as well.  Only the operator can know, so
 * the log and snowflake_check() say so until the number is confirmed.
 *
 * That the mark is in this database has to be seen from another one, if
 * "snowflake.database" is changed.  Databases share one catalog that a
 * superuser can write to without changing it: that of the settings of
 * databases.  So there is also a pointer to the mark, as in "ALTER DATABASE
 * postgres SET snowflake.recorded = 'time:41 ... since 2020-01-01 00:00:00+00
 * as node 1 on system 7420000000000000000'".  It is written with the mark at
 * first use.  Later the services write it and the node number, since a
 * transaction that is left open can hold that up, and issuing IDs need not wait
 * for it.
 *
 * Dumps carry such settings to other servers, so the pointer ends with the
 * identifier of the system that it is of.  Another system's says nothing of
 * this server, as long as something is recorded here.  Where nothing is, and
 * the other system's mark was in another database, this may be that server,
 * whose identifier pg_upgrade or pg_createsubscriber has changed, with the
 * wrong home database.  So nothing is issued until a floor is known.
 *
 * A dump that is restored where the library is not preloaded leaves its mark
 * in the setting "snowflake.restored" of the database.  The mark writer takes
 * it at the next start, and the services remove it.
 *
 * Locking: none.  "to_record" and "confirmed_before" are atomic, see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "backfill.h"
#include "clock.h"
#include "home.h"
#include "mark.h"
#include "record.h"
#include "settings.h"
#include "worker.h"

#define TABLE		HOME_EXTENSION ".recorded"
#define POINTER		"snowflake.recorded"
#define RESTORED	"snowflake.restored"

/* How a pointer of this server ends. */
#define OF_SYSTEM	" on system " UINT64_FORMAT

char *
record_pointer_text(void)
{
	char	   *node = snowflake_node_id == NODE_ID_UNSET ? "" :
		psprintf(" as node %d", snowflake_node_id);

	return psprintf("%s since %s%s" OF_SYSTEM, snowflake_layout_text,
					clock_show(snowflake_epoch), node, GetSystemIdentifier());
}

char *
record_pointers(void)
{
	return psprintf("SELECT d.datname::text, substring(c, '=(.*)$'),"
					" c LIKE '%%" OF_SYSTEM "' AS is_own, d.datname = %s AS is_home"
					" FROM pg_database d"
					" JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0,"
					" unnest(s.setconfig) c"
					" WHERE c LIKE '" POINTER "=_%%'"
					" ORDER BY is_own DESC, is_home DESC, d.datname",
					GetSystemIdentifier(), quote_literal_cstr(snowflake_database));
}

bool
record_points_at(Oid database)
{
	char	   *own = psprintf(OF_SYSTEM, GetSystemIdentifier());
	Relation	rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key[0], Anum_pg_db_role_setting_setdatabase,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(database));
	ScanKeyInit(&key[1], Anum_pg_db_role_setting_setrole,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(InvalidOid));
	scan = systable_beginscan(rel, DbRoleSettingDatidRolidIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		config = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
										  RelationGetDescr(rel), &isnull);
		Datum	   *settings;
		int			n = 0;

		if (!isnull)
			deconstruct_array(DatumGetArrayTypeP(config), TEXTOID, -1, false,
							  TYPALIGN_INT, &settings, NULL, &n);
		for (int i = 0; i < n; i++)
		{
			const char *setting = TextDatumGetCString(settings[i]);
			const char *system = strstr(setting, own);

			if (strncmp(setting, POINTER "=", strlen(POINTER "=")) == 0 &&
				(!OidIsValid(shared->mark.home) ||
				 (system != NULL && strcmp(system, own) == 0)))
				found = true;
		}
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* What is recorded. */
typedef struct Recorded
{
	char	   *layout;
	TimestampTz epoch;
	int			node;			/* -1 for none */
	TimeLineID	timeline;
} Recorded;

/* Returns false when there is no row. */
static bool
read_row(Recorded *row)
{
	if (home_run("SELECT layout, epoch, coalesce(node, -1), timeline FROM " TABLE) == 0)
		return false;
	row->layout = TextDatumGetCString(home_result(1));
	row->epoch = DatumGetTimestampTz(home_result(2));
	row->node = DatumGetInt32(home_result(3));
	row->timeline = (TimeLineID) DatumGetInt64(home_result(4));
	return true;
}

static bool
is_other_node(const Recorded *row)
{
	return snowflake_node_id != NODE_ID_UNSET && snowflake_node_id != row->node;
}

/*
 * Was this server promoted since it was known that no other one draws with its
 * number?  Not where the number is another one now, which is a matter of the
 * configuration.  After pg_upgrade timelines begin anew.
 */
static bool
is_promoted(const Recorded *row)
{
	return !is_other_node(row) && row->timeline < GetWALInsertionTimeLine();
}

/* A leased number is this server's own. */
static TimeLineID
confirmed_before(const Recorded *row)
{
	return is_promoted(row) && !settings_need_lease() ? row->timeline : 0;
}

void
record_write(void)
{
	char	   *node = snowflake_node_id == NODE_ID_UNSET ? NULL :
		psprintf("%d", snowflake_node_id);
	const char *const values[] = {
		snowflake_layout_text, timestamptz_to_str(snowflake_epoch), node,
		psprintf("%u", GetWALInsertionTimeLine())
	};

	(void) home_run_texts("INSERT INTO " TABLE " (layout, epoch, node, timeline)"
						  " VALUES ($1, $2::timestamptz, $3::integer, $4::bigint)"
						  " ON CONFLICT (only_row) DO UPDATE SET layout = EXCLUDED.layout,"
						  " epoch = EXCLUDED.epoch, node = EXCLUDED.node",
						  lengthof(values), values);
}

void
record_point(void)
{
	if (home_run_plain(record_pointers()) == 0 ||
		strcmp(TextDatumGetCString(home_result(2)), record_pointer_text()) != 0)
		home_run("ALTER DATABASE %s SET " POINTER " = %s",
				 quote_identifier(get_database_name(MyDatabaseId)),
				 quote_literal_cstr(record_pointer_text()));
}

char *
record_hint(const char *layout, const char *epoch)
{
	return psprintf("Set snowflake.layout = '%s' and snowflake.epoch = '%s' in postgresql.conf and restart the server. Or, if no ID of the one can equal an ID of the other, call snowflake_accept_layout().",
					layout, epoch);
}

/* What it means that the configured layout and epoch replace those recorded. */
typedef struct Change
{
	bool		same_ids;		/* a time unit has the IDs that it had */
	bool		same_times;		/* and is at the time at which it was */
	bool		goes_up;		/* the next ID is above all of the recorded ones */
	uint64		end_unit;		/* from here on, no ID is among those */
} Change;

/* The first time unit of a layout and epoch that does not begin before a mark. */
static uint64
unit_of_mark(const Layout *layout, TimestampTz epoch, int64 mark_us)
{
	uint64		end = layout->max[FIELD_TIME] + 1;
	int64		us;
	int64		unit;

	if (pg_sub_s64_overflow(mark_us - UNIX_EPOCH_US, epoch, &us))
		return end;
	unit = layout_unit_ceil(layout, us);
	return unit < 0 ? 0 : Min((uint64) unit, end);
}

/* An empty mark says nothing of IDs that were issued. */
static Change
examine_change(const Recorded *row, int64 mark_us)
{
	Change		change = {.end_unit = MAX_TIME + 1};
	uint64		next = mark_to_unit(mark_us, true);
	Layout		former;
	LayoutError error;
	uint64		end;			/* of units, then of IDs */
	int			bits = snowflake_layout.shift[FIELD_TIME];

	if (!layout_parse(row->layout, &former, &error))
		return change;
	change.same_ids = layout_same_ids(&former, &snowflake_layout);
	change.same_times = change.same_ids && row->epoch == snowflake_epoch &&
		former.unit_us == snowflake_layout.unit_us;
	if (mark_us == 0)
		return change;

	end = unit_of_mark(&former, row->epoch, mark_us);
	if (change.same_ids)
	{
		/*
		 * Those backfilled have a worker number of their own; but IDs of
		 * another epoch from before may be noted there, too.
		 */
		change.end_unit = Min(Max(end, backfill_end()), change.end_unit);
		change.goes_up = next >= (change.same_times ? end : change.end_unit);
	}
	else if (layout_sorts_by_time(&former) && layout_sorts_by_time(&snowflake_layout))
	{
		end = Max(end, backfill_end());
		end = end > former.max[FIELD_TIME] ? UINT64CONST(1) << former.total_bits :
			end << former.shift[FIELD_TIME];
		end = (end + (UINT64CONST(1) << bits) - 1) >> bits;
		change.goes_up = next >= end;
		change.end_unit = Min(end, change.end_unit);
	}
	return change;
}

/* A DETAIL. */
static char *
describe_change(const Change *change)
{
	const char *next = change->goes_up ? "New IDs are larger than all former ones." :
		change->same_ids ? "New IDs could equal former ones of the same node number." :
		"New IDs could equal former ones.";

	if (change->same_times)
		return pstrdup(next);
	return psprintf("%s IDs that snowflake_compose() or snowflake_id() make for times before %s could equal former ones.",
					next, clock_show(clock_unit_or_end(change->end_unit)));
}

/*
 * Nothing is recorded here.  Raise an ERROR if a mark was nevertheless, and the
 * floor does not stand for it.  "database" is that of the first pointer, or NULL.
 */
static void
check_unrecorded(bool has_home, int64 mark_us, const char *database, bool is_own,
				 bool is_home, MarkFloor floor)
{
	if (mark_us > 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("there is a durable mark in database \"%s\", but layout and epoch are not recorded with it",
						snowflake_database),
				 errhint("If the mark is of this server, and layout and epoch are what they were, call snowflake_accept_layout().")));
	if (is_own && floor != FLOOR_OF_SERVER)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 has_home ?
				 errmsg("the durable mark is lost: database \"%s\" had it, and now has an empty one",
						snowflake_database) :
				 errmsg("the durable mark is lost: database \"%s\" had it, and now has no extension \"" HOME_EXTENSION "\"",
						snowflake_database),
				 errhint(RECORD_LOST_HINT)));
	if (database != NULL && !is_home && floor == FLOOR_ANYONES)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("database \"%s\" says that it holds the durable mark of another server, and no mark is in database \"%s\"",
						database, snowflake_database),
				 errdetail("This happens after pg_upgrade, or when a dump of that database was restored without its mark."),
				 errhint("If this server is to continue the IDs of the other one, set \"snowflake.database\" to \"%s\" and restart it. Otherwise call snowflake_advance() with the largest ID of the restored tables: IDs go on above it.",
						 database)));
}

bool
record_check(bool has_home, int64 mark_us, bool accept, MarkFloor floor)
{
	bool		has_pointer = home_run_plain(record_pointers()) > 0;
	char	   *database = has_pointer ? TextDatumGetCString(home_result(1)) : NULL;
	bool		is_own = has_pointer && DatumGetBool(home_result(3));
	bool		is_home = has_pointer && DatumGetBool(home_result(4));
	Recorded	row;
	Change		change;
	Layout		layout;
	LayoutError error;

	if (is_own && !is_home)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the durable mark of this server is in database \"%s\", and \"snowflake.database\" is \"%s\"",
						database, snowflake_database),
				 errhint("Set \"snowflake.database\" to \"%s\" and restart the server. Or move the mark, as docs/operations.md says under \"Move the mark\".",
						 database)));
	if (!has_home || !read_row(&row))
	{
		if (!accept)
			check_unrecorded(has_home, mark_us, database, is_own, is_home, floor);
		return false;
	}

	shared->mark.home = MyDatabaseId;

	/* before anyone may draw; the services look again */
	pg_atomic_write_u32(&shared->mark.confirmed_before, confirmed_before(&row));
	if (row.epoch == snowflake_epoch &&
		layout_parse(row.layout, &layout, &error) &&
		layout_equal(&layout, &snowflake_layout))
		return true;

	change = examine_change(&row, mark_us);
	if (!accept)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("this server has issued IDs with layout \"%s\" and epoch %s, and is now configured with layout \"%s\" and epoch %s",
						row.layout,
						clock_show(row.epoch),
						snowflake_layout_text,
						clock_show(snowflake_epoch)),
				 errdetail("%s", describe_change(&change)),
				 errhint("%s", record_hint(row.layout, clock_show(row.epoch)))));

	record_write();
	backfill_accept(change.end_unit, change.same_ids);
	ereport(LOG,
			(errmsg("snowflake goes on with layout \"%s\" and epoch %s",
					snowflake_layout_text,
					timestamptz_to_str(snowflake_epoch)),
			 errdetail("%s", describe_change(&change))));
	return true;
}

int64
record_restored(void)
{
	(void) home_run("SELECT coalesce(max(substring(c, '^" RESTORED "=([0-9]{1,18})$')::bigint), 0)"
					" FROM pg_db_role_setting, unnest(setconfig) c WHERE setrole = 0");
	return DatumGetInt64(home_result(1));
}

/* Remove what the mark writer has taken. */
static void
remove_restored(void)
{
	char	   *statements;

	(void) home_run("SELECT coalesce(string_agg(format('ALTER DATABASE %%I RESET " RESTORED "', d.datname), ';'), '')"
					" FROM pg_database d"
					" JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0,"
					" unnest(s.setconfig) c"
					" WHERE c LIKE '" RESTORED "=%%'");
	statements = TextDatumGetCString(home_result(1));
	if (statements[0] != '\0')
		home_run_plain(statements);
}

int64
record_due(void)
{
	return pg_atomic_read_u32(&shared->mark.to_record) != 0 ? 0 : PG_INT64_MAX;
}

/*
 * The node number may have changed with the configuration.  That is fine,
 * unless another server has the number.
 */
void
record_serve(void)
{
	uint32		to_do = pg_atomic_read_u32(&shared->mark.to_record);
	bool		confirm = (to_do & RECORD_CONFIRM) != 0;
	TimeLineID	timeline = GetWALInsertionTimeLine();
	TimeLineID	before = 0;
	Recorded	row;
	bool		has_row;
	bool		is_other;

	home_begin("recording layout, epoch and node number");
	home_run("SET LOCAL synchronous_commit = local");
	has_row = home_exists() && read_row(&row);
	is_other = has_row && is_other_node(&row);
	if (is_other)
		home_run("UPDATE " TABLE " SET node = %d", snowflake_node_id);
	if (has_row && row.timeline != timeline && (confirm || !is_promoted(&row)))
		home_run("UPDATE " TABLE " SET timeline = %u", timeline);
	else if (has_row)
		before = confirmed_before(&row);
	if (has_row)
		record_point();
	if (to_do & RECORD_LOOK)
		remove_restored();
	home_commit();
	pg_atomic_write_u32(&shared->mark.confirmed_before, before);
	pg_atomic_fetch_and_u32(&shared->mark.to_record, ~to_do);
	ConditionVariableBroadcast(&shared->services.changed);

	if (is_other && row.node >= 0)
		ereport(LOG,
				(errmsg("this server has issued snowflake IDs as node %d, and is node %d from now on",
						row.node, snowflake_node_id),
				 errhint("Make sure that no other server is node %d.", snowflake_node_id)));
	else if (before != 0)
		ereport(LOG,
				(errmsg("this server was promoted, and continues the snowflake IDs of the server that it was copied from"),
				 errdetail("%s", record_promoted_detail(before)),
				 errhint(RECORD_PROMOTED_HINT)));
}

/*
 * For sessions
 */

char *
record_promoted_detail(TimeLineID before)
{
	return psprintf("The use of its node number was last confirmed on timeline %u, and the server is on timeline %u. If the server that it was copied from still runs, or another copy of it, IDs can come twice.",
					before, GetWALInsertionTimeLine());
}

static void
take_back_confirm(int code, Datum arg)
{
	pg_atomic_fetch_and_u32(&shared->mark.to_record, ~RECORD_CONFIRM);
}

void
record_confirm(void)
{
	Wait		wait = {0};

	ConditionVariablePrepareToSleep(&shared->services.changed);
	PG_ENSURE_ERROR_CLEANUP(take_back_confirm, (Datum) 0);
	{
		/* ask each time: another session that gives up takes the request back */
		while (pg_atomic_read_u32(&shared->mark.confirmed_before) != 0)
		{
			pg_atomic_fetch_or_u32(&shared->mark.to_record, RECORD_CONFIRM);
			worker_await(&shared->services, &wait, "the node number could not be confirmed");
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(take_back_confirm, (Datum) 0);
	take_back_confirm(0, (Datum) 0);
	ConditionVariableCancelSleep();
}
