/*-------------------------------------------------------------------------
 *
 * home.c
 *		Transactions of the background worker in the home database.
 *
 * Called by the worker alone, with no lock of ours held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/ps_status.h"
#include "utils/snapmgr.h"

#include "home.h"

void
home_begin(const char *activity)
{
	pgstat_report_activity(STATE_RUNNING, activity);
	set_ps_display(activity);
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
}

void
home_commit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();

	/*
	 * The wait for a synchronous standby is cut short when the worker is told
	 * to end, and when the postmaster dies, which sets ProcDiePending alone.
	 * Then it ends here: what is not durable is not published.
	 */
	if (ProcDiePending)
		InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
	home_idle();
}

void
home_idle(void)
{
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	set_ps_display("idle");
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
