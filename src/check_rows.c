/*-------------------------------------------------------------------------
 *
 * check_rows.c
 *		What the parts of snowflake_check() have in common.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "check_rows.h"
#include "settings.h"

void
check_row(CheckState *state, const char *status, const char *detail)
{
	Datum		values[3];
	bool		nulls[3] = {false};

	state->nrows++;
	if (state->rsinfo == NULL)
	{
		if (state->error == NULL && strcmp(status, "error") == 0)
			state->error = detail;
		return;
	}

	values[0] = CStringGetTextDatum(state->check);
	values[1] = CStringGetTextDatum(status);
	values[2] = CStringGetTextDatum(detail);
	tuplestore_putvalues(state->rsinfo->setResult, state->rsinfo->setDesc, values, nulls);
}

char *
check_try(void (*function) (CheckState *state, void *arg), CheckState *state, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile failure = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		function(state, arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		failure = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (failure == NULL)
		return NULL;
	if (failure->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		failure->sqlerrcode == ERRCODE_OUT_OF_MEMORY)
		ReThrowError(failure);
	return failure->message;
}

/* With what IDs may be ahead by. */
int64
check_mark_bound_us(void)
{
	return snowflake_reserve_window * INT64CONST(1000) + MAX_DRIFT_US +
		2 * snowflake_layout.unit_us;
}

int
check_begin(void)
{
	MemoryContext caller = CurrentMemoryContext;
	int			nestlevel = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	MemoryContextSwitchTo(caller);	/* what is found outlives SPI */
	return nestlevel;
}

void
check_end(int nestlevel)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(true, nestlevel);
}

int
check_query(const char *sql)
{
	MemoryContext caller = CurrentMemoryContext;
	int			result;

	PushActiveSnapshot(GetLatestSnapshot());
	result = SPI_execute(sql, true, 0);
	PopActiveSnapshot();
	MemoryContextSwitchTo(caller);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed: %s: %s",
			 SPI_result_code_string(result), sql);
	return (int) SPI_processed;
}

char *
check_value(int row, int column)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
}

bool
check_value_bool(int row, int column)
{
	char	   *str = check_value(row, column);

	return str && str[0] == 't';
}

int
check_query_own(const char *columns, const char *call)
{
	Oid			extension = get_extension_oid("snowflake", true);
	Oid			schema = get_namespace_oid("snowflake_catalog", true);

	if (!OidIsValid(extension) || !OidIsValid(schema) ||
		getExtensionOfObject(NamespaceRelationId, schema) != extension)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("schema snowflake_catalog of this extension is not in this database")));
	return check_query(psprintf("SELECT %s FROM snowflake_catalog.%s", columns, call));
}

void
check_call(CheckState *state, const char *call)
{
	int			nestlevel = check_begin();
	int			n = check_query_own("status, detail", call);

	for (int i = 0; i < n; i++)
		check_row(state, check_value(i, 1), check_value(i, 2));
	check_end(nestlevel);
}
