/*-------------------------------------------------------------------------
 *
 * home.c
 *		Transactions of the background workers in the home database.
 *
 * Whoever owns that database, or may set something for it or for all roles,
 * must not be able to change what the statements of a worker mean, nor to hold
 * one up.  So the settings that could are overridden, and each statement has a
 * bound.  A commit has none, as it may wait for synchronous standbys, and one
 * whose wait was cancelled looks like any other.
 *
 * Called by the workers alone, with no lock of ours held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/ps_status.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "compat.h"
#include "home.h"
#include "settings.h"

/* For all statements of a transaction. */
#define STATEMENTS_MS	10000

/*
 * Of all settings that can be made for a database or for all roles, those that
 * change what a statement of ours means, whether it may be run, or whether it
 * ends.
 */
static const char *const settings[][2] = {
	{"role", "none"},
	{"search_path", "pg_catalog, pg_temp"},
	{"row_security", "off"},
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
			SetConfigOption(settings[i][0], settings[i][1],
							PGC_SUSET, PGC_S_OVERRIDE);
	}
	CommitTransactionCommand();
}

/*
 * Between transactions: nothing to do, for pg_stat_activity and ps.
 *
 * The wait for a lock or a standby may have reset the latch, so whoever asked
 * for something meanwhile would be slept over.  So look again.
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
	 * One that the database's has no conversion to would end the process.  No
	 * client reads what is said here.
	 */
	SetConfigOption("client_encoding", "SQL_ASCII", PGC_SUSET, PGC_S_OVERRIDE);

	/* also where no others may connect */
	BackgroundWorkerInitializeConnection(snowflake_database, NULL,
										 BGWORKER_BYPASS_ALLOWCONN);
	override_settings();
	idle();
}

/*
 * Both timeouts come as a SIGINT, like a request to cancel.  It is ignored
 * from here on, and what came before does not count.
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
	 * The wait for a synchronous standby is cut short when the worker is told
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
home_exists(void)
{
	return OidIsValid(get_extension_oid(HOME_EXTENSION, true));
}

static uint64
run(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	int			result = SPI_execute_with_args(sql, nargs, types, values, nulls,
											   false, 0);

	if (result < 0)
		elog(ERROR, "%s failed: %s", sql, SPI_result_code_string(result));
	return SPI_processed;
}

uint64
home_run(const char *sql, Oid type1, Datum value1, Oid type2, Datum value2)
{
	Oid			types[2] = {type1, type2};
	Datum		values[2] = {value1, value2};
	int			nargs = (type1 != InvalidOid) + (type2 != InvalidOid);

	return run(sql, nargs, types, values, NULL);
}

uint64
home_run_plain(const char *sql)
{
	return run(sql, 0, NULL, NULL, NULL);
}

uint64
home_run_texts(const char *sql, int nparams, const char *const *values)
{
	Oid		   *types = palloc(sizeof(Oid) * nparams);
	Datum	   *datums = palloc0(sizeof(Datum) * nparams);
	char	   *nulls = palloc(nparams);

	for (int i = 0; i < nparams; i++)
	{
		types[i] = TEXTOID;
		nulls[i] = values[i] == NULL ? 'n' : ' ';
		if (values[i] != NULL)
			datums[i] = CStringGetTextDatum(values[i]);
	}
	return run(sql, nparams, types, datums, nulls);
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
home_result(int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, column, &isnull);

	if (isnull)
		elog(ERROR, "unexpected null in the home database");
	return value;
}
