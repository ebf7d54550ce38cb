/*-------------------------------------------------------------------------
 *
 * home.c
 *		Transactions of the background workers in the home database, and what
 *		keeps its objects out of logical replication.
 *
 * The owner of that database, and everybody who may set something for it or
 * for all roles, must not be able to change what the workers' statements mean,
 * nor to delay them.  So the workers override the settings that could, and
 * bound each statement.  A commit has no bound: it may wait for synchronous
 * standbys, and a commit whose wait was cancelled looks like any other.
 *
 * What the tables there hold is about this server alone.  A publication FOR
 * ALL TABLES sends it to subscribers nevertheless, where it would take the
 * place of theirs: numbers that were used would count as unused.  So each
 * table has two triggers with one function:
 *
 * 	discard_replicated	BEFORE INSERT OR UPDATE OR DELETE, for each row
 * 	refuse_truncate		BEFORE TRUNCATE, for each statement
 *
 * The first one fires where session_replication_role is "replica".  But that
 * can also be set by hand, for a background worker too; and ALTER TABLE ENABLE
 * TRIGGER ALL, as pg_restore has it, lets the trigger fire in all sessions.  So
 * the function looks for itself who writes.  A trigger cannot discard a
 * TRUNCATE.  So that none is sent, the second one fires always.
 *
 * The tables of snowflake_home have them from its script, and the home
 * database may have a subscription before it has anything else of ours.  Those
 * of snowflake_registry get them here.
 *
 * The mark is a sequence, which can be published from PostgreSQL 19 on, and
 * has no triggers.  But a subscription refuses to write a sequence whose
 * parameters are not those of the publisher's.  One of them is of no use
 * here, START.  So it tells this server from others.
 *
 * Called by the background workers alone, with no lock of ours held; but the
 * triggers' function is called by whoever writes to the tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "replication/logicalworker.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/ps_status.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "compat.h"
#include "home.h"
#include "instance.h"
#include "settings.h"
#include "shmem.h"

/* For all statements of a transaction. */
#define STATEMENTS_MS	10000

/*
 * Of all settings that can be made for a database or for all roles, those that
 * change what a statement of ours means, or whether it may be run or ends.
 */
static const char *const settings[][2] = {
	{"role", "none"},
	{"search_path", "pg_catalog, pg_temp"},
	{"row_security", "off"},
	{"restrict_nonsystem_relation_kind", ""},	/* from 15.8 on */
	{"session_replication_role", "origin"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"synchronous_commit", "on"},
	{"lock_timeout", "500ms"},
	{"statement_timeout", "0"}, /* see STATEMENTS_MS */
	{"transaction_timeout", "0"},	/* from 17 on */
	{"exit_on_error", "off"},
	{"default_tablespace", ""},
	{"default_table_access_method", "heap"},
	{"timezone", "UTC"},
	{"datestyle", "ISO, YMD"},
	{"intervalstyle", "postgres"},
	{"extra_float_digits", "1"},
	{"array_nulls", "on"},
	{"transform_null_equals", "off"},
	{"standard_conforming_strings", "on"},
	{"check_function_bodies", "on"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},
	{"citus.enable_ddl_propagation", "off"} /* of this server alone */
};

static void
override_settings(void)
{
	StartTransactionCommand();
	SetConfigOption("session_authorization",
					GetUserNameFromId(BOOTSTRAP_SUPERUSERID, false),
					PGC_SUSET, PGC_S_OVERRIDE);
	for (int i = 0; i < (int) lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	}
	CommitTransactionCommand();
}

/*
 * Between transactions: nothing to do, for pg_stat_activity and ps.  The wait
 * for a lock or a standby may have reset the latch, though something was asked.
 * So the process looks once more before it sleeps.
 */
static void
idle(void)
{
	SetLatch(MyLatch);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	set_ps_display("idle");
}

void
home_connect(void)
{
	/*
	 * An encoding that the database's cannot be converted to would end the
	 * process.  No client reads what this process says.
	 */
	SetConfigOption("client_encoding", "SQL_ASCII", PGC_SUSET, PGC_S_OVERRIDE);

	/* also where no others may connect; by name only before the mark is read */
	if (OidIsValid(shared->mark.home))
		BackgroundWorkerInitializeConnectionByOid(shared->mark.home, InvalidOid,
												  BGWORKER_BYPASS_ALLOWCONN);
	else
		BackgroundWorkerInitializeConnection(snowflake_database, NULL,
											 BGWORKER_BYPASS_ALLOWCONN);
	override_settings();
	idle();
}

/*
 * A timeout comes as a SIGINT, like a request to cancel.  From here on it is
 * ignored, and one that came already is forgotten.
 */
static void
end_bound(void)
{
	disable_all_timeouts(false);
	pqsignal(SIGINT, PG_SIG_IGN);
	QueryCancelPending = false;
}

void
home_begin(const char *activity)
{
	pgstat_report_activity(STATE_RUNNING, activity);
	set_ps_display(activity);
	SetCurrentStatementStartTimestamp();
	pqsignal(SIGINT, StatementCancelHandler);
	enable_timeout_after(STATEMENT_TIMEOUT, STATEMENTS_MS);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
}

void
home_commit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	end_bound();
	CommitTransactionCommand();

	/*
	 * The wait for a synchronous standby is cut short when the process is told
	 * to end, and when the postmaster dies, which sets ProcDiePending alone.
	 * Then it ends here: what is not durable is not published.
	 */
	if (ProcDiePending)
		InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
	idle();
}

void
home_abort(void)
{
	end_bound();
	AbortOutOfAnyTransaction();
	idle();
}

bool
home_begin_at_exit(const char *activity, const char *table)
{
	RangeVar   *name;

	AbortOutOfAnyTransaction();
	home_begin(activity);
	home_run("SET LOCAL synchronous_commit = off");
	name = makeRangeVar(pstrdup(HOME_EXTENSION), pstrdup(table), -1);
	return OidIsValid(RangeVarGetRelidExtended(name, RowExclusiveLock,
											   RVR_MISSING_OK | RVR_SKIP_LOCKED,
											   NULL, NULL));
}

void
home_end_at_exit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
}

bool
home_exists(void)
{
	return OidIsValid(get_extension_oid(HOME_EXTENSION, true));
}

void
home_create(void)
{
	if (home_exists())
		return;

	/* for one worker at a time; nobody else asks for this lock */
	LockDatabaseObject(ExtensionRelationId, InvalidOid, 0, ExclusiveLock);
	if (!home_exists())
		home_run_ddl("CREATE EXTENSION " HOME_EXTENSION);
}

uint64
home_run_texts(const char *sql, int nparams, const char *const *values)
{
	Oid		   *types = palloc(sizeof(Oid) * nparams);
	Datum	   *datums = palloc0(sizeof(Datum) * nparams);
	char	   *nulls = palloc(nparams);
	int			result;

	for (int i = 0; i < nparams; i++)
	{
		types[i] = TEXTOID;
		nulls[i] = values[i] == NULL ? 'n' : ' ';
		if (values[i] != NULL)
			datums[i] = CStringGetTextDatum(values[i]);
	}
	result = SPI_execute_with_args(sql, nparams, types, datums, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "%s failed: %s", sql, SPI_result_code_string(result));
	return SPI_processed;
}

/*
 * Event triggers of any owner of the database would be run by a superuser.
 * They can be switched off from 17 on; before, those that are not enabled
 * ALWAYS do not fire for what is being replicated.
 */
void
home_run_ddl(const char *sql)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("session_replication_role", "replica", PGC_SUSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (GetConfigOption("event_triggers", true, false) != NULL)
		(void) set_config_option("event_triggers", "off", PGC_SUSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	home_run_plain(sql);
	AtEOXact_GUC(true, level);
}

Datum
home_value(const char *column)
{
	return home_result(SPI_fnumber(SPI_tuptable->tupdesc, column));
}

Datum
home_result(int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, column, &isnull);

	if (isnull)
		elog(ERROR, "unexpected null in the home database");
	return value;
}

PG_FUNCTION_INFO_V1(snowflake_home_discard);

/*
 * Does this process apply the changes of another server?  Also one of other
 * software for replication, which tells the server of it in the same way.
 */
static bool
is_applying(void)
{
	return IsLogicalWorker() || session_has_origin();
}

/* The triggers' function, snowflake_home.discard() */
Datum
snowflake_home_discard(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ==
		TRIGGER_FIRED_BY_TRUNCATE(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_home.discard must be called as a BEFORE trigger, FOR EACH ROW or of TRUNCATE")));

	if (TRIGGER_FIRED_BY_TRUNCATE(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot truncate \"%s\"",
						RelationGetRelationName(trigdata->tg_relation)),
				 errdetail("The table is needed to keep this server's snowflake IDs and numbers unique."),
				 is_applying() ?
				 errhint("Remove the table from the publication. ALTER SUBSCRIPTION ... SKIP skips this transaction with all its changes.") : 0));

	if (is_applying())
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event) ?
						   trigdata->tg_newtuple : trigdata->tg_trigtuple);
}

/* The function is added to the extension, so that no dump has it. */
void
home_guard_extension(const char *extension, const char *schema)
{
	const char *names[2] = {extension, schema};
	char	   *tables;

	(void) home_run_texts("SELECT coalesce(string_agg(format("
						  "'DROP TRIGGER IF EXISTS discard_replicated ON %1$s;"
						  " DROP TRIGGER IF EXISTS refuse_truncate ON %1$s;"
						  " CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON %1$s"
						  "  FOR EACH ROW EXECUTE FUNCTION %2$s%3$I();"
						  " CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %1$s"
						  "  FOR EACH STATEMENT EXECUTE FUNCTION %2$s%3$I();"
						  " ALTER TABLE %1$s ENABLE REPLICA TRIGGER discard_replicated,"
						  "  ENABLE ALWAYS TRIGGER refuse_truncate;',"
						  " d.objid::regclass, $2, $1 || '_discard'), ' '), '')"
						  " FROM pg_extension e"
						  " JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass"
						  "  AND d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass"
						  " JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'r'"
						  " WHERE e.extname = $1"
						  " AND NOT " HOME_GUARD_IS_ON("c.oid"),
						  2, names);
	tables = TextDatumGetCString(home_result(1));
	if (tables[0] == '\0')
		return;

	if (home_run_texts("SELECT FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass"
					   "  AND d.objid = p.oid AND d.deptype = 'e'"
					   " JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass"
					   "  AND d.refobjid = e.oid"
					   " WHERE e.extname = $1 AND p.proname = $1 || '_discard'",
					   1, names) == 0)
		home_run_ddl(psprintf("CREATE FUNCTION %1$s%2$s_discard() RETURNS trigger"
							  " LANGUAGE c AS 'snowflake', 'snowflake_home_discard';"
							  " COMMENT ON FUNCTION %1$s%2$s_discard() IS"
							  " 'trigger that discards what logical replication writes to a table, and refuses to truncate it';"
							  " REVOKE ALL ON FUNCTION %1$s%2$s_discard() FROM PUBLIC;"
							  " ALTER EXTENSION %2$s ADD FUNCTION %1$s%2$s_discard()",
							  schema, extension));
	home_run_ddl(tables);
}

void
home_guard_sequence(const char *name)
{
	int64		start = instance_number();

	if (HAVE_PUBLISHED_SEQUENCES &&
		home_run("SELECT FROM pg_sequence WHERE seqrelid = %s::regclass AND seqstart <> " INT64_FORMAT,
				 quote_literal_cstr(name), start) > 0)
		home_run_ddl(psprintf("ALTER SEQUENCE %s START " INT64_FORMAT, name, start));
}
