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
#include "utils/builtins.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

#include "check_rows.h"
#include "clock.h"
#include "settings.h"

void
check_row(CheckState *state, const char *status, const char *detail)
{
	Datum		values[3];
	bool		nulls[3] = {false};

	state->nrows++;
	if (state->rsinfo == NULL)
	{
		/* the check may be within SPI, whose memory goes */
		if (state->error == NULL && strcmp(status, "error") == 0)
			state->error = MemoryContextStrdup(state->context, detail);
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
