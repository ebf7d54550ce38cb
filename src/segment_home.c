/*-------------------------------------------------------------------------
 *
 * segment_home.c
 *		Asks the home database for segments.
 *
 * Where snowflake.registry is not set.  It is asked in a transaction of the
 * worker, and gets the extension snowflake_segments when the first tag is
 * created.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "clock.h"
#include "compat.h"
#include "home.h"
#include "home_guard.h"
#include "segment.h"
#include "segment_fetch.h"

/*
 * The schema with the functions, to be put before a name; NULL where there is
 * none.
 */
static char *
find_schema(bool create)
{
#define FIND_SCHEMA \
	"SELECT pg_catalog.quote_ident(n.nspname), r.rolsuper" \
	" FROM pg_catalog.pg_extension e" \
	" JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace" \
	" JOIN pg_catalog.pg_roles r ON r.oid = e.extowner" \
	" WHERE e.extname = '" SEGMENT_EXTENSION "'"

	if (home_run_plain(FIND_SCHEMA) == 0)
	{
		if (!create)
			return NULL;
		home_run_ddl("CREATE SCHEMA " SEGMENT_EXTENSION);

		/* for roles that dump the database */
		home_run_ddl("GRANT USAGE ON SCHEMA " SEGMENT_EXTENSION " TO PUBLIC");
		home_run_ddl("CREATE EXTENSION " SEGMENT_EXTENSION " SCHEMA " SEGMENT_EXTENSION);
		ereport(LOG,
				(errmsg("created extension \"" SEGMENT_EXTENSION "\" in the home database, for segments of numbers")));
		(void) home_run_plain(FIND_SCHEMA);
	}

	/* the worker is a superuser, and would run what its owner put there */
	if (!DatumGetBool(home_result(2)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("extension \"" SEGMENT_EXTENSION "\" in the home database does not belong to a superuser"),
				 errhint("Drop it, and let the background worker create it.")));
	return psprintf("%s.", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
}

/*
 * Returns the number of rows.
 */
static int
run_at_home(const LinkRequest *sent, const char *schema)
{
	const char *values[LINK_MAX_PARAMS];

	for (int i = 0; i < sent->nparams; i++)
		values[i] = sent->values[i] == NULL ? NULL :
			pg_any_to_server(sent->values[i], (int) strlen(sent->values[i]), PG_UTF8);
	return (int) home_run_texts(psprintf(sent->sql, schema), sent->nparams, values);
}

int64
segment_due_at_home(void)
{
	return segment_is_at_home() ? segment_fetch_due() : PG_INT64_MAX;
}

static void
serve_at_home(void)
{
	LinkRequest sent = {0};
	MemoryContext caller = CurrentMemoryContext;
	SegmentResult result = {0};
	SegmentRow *rows = NULL;
	int			nrows = 0;
	SegmentFetchKind kind;
	char	   *schema;

	kind = segment_fetch_build(&sent, clock_read_steady(), false);
	if (kind == FETCH_NOTHING)
		return;

	home_begin("serving segments of numbers");
	schema = find_schema(kind == FETCH_COMMAND &&
						 shared->segments.command.kind == SEGMENT_CREATE);
	if (schema != NULL)
	{
		home_guard_extension(SEGMENT_EXTENSION, schema);
		nrows = run_at_home(&sent, schema);
		MemoryContextSwitchTo(caller);
		if (kind == FETCH_COMMAND)
			result = segment_read_result(NULL);
		else
			rows = segment_read_rows(NULL, nrows);
	}
	home_commit();

	MemoryContextSwitchTo(caller);
	if (kind == FETCH_COMMAND)
		segment_fetch_handle_result(&result);
	else if (schema == NULL)
		segment_fetch_handle_no_tags();
	else
		segment_fetch_handle_rows(rows, nrows);
}

void
segment_serve_at_home(void)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		serve_at_home();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(caller);
		edata = CopyErrorData();
		segment_fetch_note_error(edata->sqlerrcode, edata->message,
								 edata->detail ? edata->detail : "",
								 edata->hint ? edata->hint : "");
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * The server waits for this, and nothing can interrupt it any more.  Numbers
 * that are not kept are lost, which does no harm.  So it waits neither for a
 * lock, which is an ERROR, nor for the disk or a standby.
 */
void
segment_keep_at_home(const LinkRequest *keep)
{
	char	   *schema;

	AbortOutOfAnyTransaction();
	home_begin("keeping segments of numbers");
	schema = find_schema(false);
	if (schema != NULL)
	{
		home_run_plain(psprintf("LOCK TABLE %ssnowflake_segment_tag, %ssnowflake_segment_kept,"
								" %ssnowflake_segment_place IN ROW EXCLUSIVE MODE NOWAIT",
								schema, schema, schema));
		home_run_texts(psprintf("SELECT FROM %ssnowflake_segment_tag"
								" WHERE incarnation = ANY ($1::uuid[]) FOR UPDATE NOWAIT",
								schema), 1, &keep->values[2]);
		(void) run_at_home(keep, schema);
		home_run_plain("SET LOCAL synchronous_commit = off");
	}
	home_commit();
}
