/*-------------------------------------------------------------------------
 *
 * segment_send.c
 *		Sends requests for segments to the registry, or to the home database.
 *
 * If snowflake.registry is set, the services ask the registry, over another
 * connection than the lease's.  So a tag that somebody has locked in the
 * registry does not hold up the lease of the node number.
 *
 * Else the home database is asked, in a transaction of the services.  It gets
 * the extension snowflake_registry when the first tag is created.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"

#include "clock.h"
#include "compat.h"
#include "home.h"
#include "segment.h"
#include "segment_fetch.h"
#include "segment_send.h"

/*
 * The registry
 */

static bool
link_is_used(void)
{
	bool		used;

	LWLockAcquire(shared->segments.lock, LW_SHARED);
	used = shared->segments.used > 0 || shared->segments.command.state != COMMAND_FREE;
	LWLockRelease(shared->segments.lock);
	return used && !segment_is_at_home();
}

static void
link_build(RegistryLink *link, LinkRequest *sent, bool is_first)
{
	(void) segment_fetch_build(sent, link->sent_at, is_first);
}

static void
handle_error(const PGresult *answer)
{
	int			sqlstate = registry_link_sqlstate(answer);
	const char *message = PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(answer, PG_DIAG_MESSAGE_HINT);

	segment_fetch_note_error(sqlstate == 0 ? ERRCODE_CONNECTION_FAILURE : sqlstate,
							 message != NULL ? message : "unknown error",
							 detail != NULL ? detail : "", hint != NULL ? hint : "");
}

static void
link_handle(RegistryLink *link, const PGresult *answer)
{
	if (PQresultStatus(answer) != PGRES_TUPLES_OK)
		handle_error(answer);
	else if (segment_fetch_kind() == FETCH_COMMAND)
	{
		SegmentResult result = segment_read_result(answer);

		segment_fetch_handle_result(&result);
	}
	else if (segment_fetch_kind() == FETCH_TAKE)
	{
		int			nrows = PQntuples(answer);
		SegmentRow *rows = segment_read_rows(answer, nrows);
		const char *objection;

		if (nrows > 0 && !registry_link_understands(link, rows[0].protocol))
			return;
		objection = segment_fetch_objection(rows, nrows);
		if (objection != NULL)
			registry_link_give_up(link, objection);
		else
			segment_fetch_handle_rows(rows, nrows);
	}
}

static const char *
link_failed(const LinkFailure *failure, const char **hint)
{
	segment_fetch_note_no_answer(failure->sentence, failure->passes);
	if (failure->hint == NULL)
		*hint = "Sessions can draw the numbers in memory, for \"snowflake.lease_ttl\" at most.";
	return "could not fetch segments of numbers";
}

static const LinkClient client = {
	.purpose = "segments",
	.function = "snowflake_take_segments",
	.nargs = SEGMENT_TAKE_PARAMS + 1,	/* and the protocol */
	.statement = segment_take_sql,
	.is_used = link_is_used,
	.due = segment_fetch_due,
	.build = link_build,
	.handle = link_handle,
	.failed = link_failed,
	.log_kind = LOG_OF_SEGMENT
};

RegistryLink segment_link = {.client = &client};

/*
 * The home database
 */

#define TABLE(name)	REGISTRY_EXTENSION "." name

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
	" WHERE e.extname = '" REGISTRY_EXTENSION "'"

	if (home_run(FIND_SCHEMA) == 0)
	{
		if (!create)
			return NULL;
		/* DROP EXTENSION leaves it, and it is not taken with something in it */
		home_run_ddl("DROP SCHEMA IF EXISTS " REGISTRY_EXTENSION "; CREATE SCHEMA " REGISTRY_EXTENSION);
		home_run_ddl("CREATE EXTENSION " REGISTRY_EXTENSION " SCHEMA " REGISTRY_EXTENSION);

		/*
		 * For roles that dump the database.  It gives no leases, so there are no
		 * tokens in it.
		 */
		home_run_ddl("GRANT USAGE ON SCHEMA " REGISTRY_EXTENSION " TO PUBLIC;"
					 " GRANT SELECT ON " TABLE("snowflake_registry_place") ", " TABLE("snowflake_node_lease")
					 ", " TABLE("snowflake_segment_tag") ", " TABLE("snowflake_segment_server") " TO PUBLIC");
		ereport(LOG,
				(errmsg("created extension \"" REGISTRY_EXTENSION "\" in the home database, for segments of numbers")));
		(void) home_run(FIND_SCHEMA);
	}

	/* this process is a superuser, and would run what its owner put there */
	if (!DatumGetBool(home_result(2)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("extension \"" REGISTRY_EXTENSION "\" in the home database does not belong to a superuser"),
				 errhint("If it has tags, the database is a registry: name it in \"snowflake.registry\". If it has none, drop the extension, and the background worker creates it.")));
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
		/* by which the functions tell a home database from a registry */
		home_create();
		home_guard_extension(REGISTRY_EXTENSION, schema);
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
