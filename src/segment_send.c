/*-------------------------------------------------------------------------
 *
 * segment_send.c
 *		Sends requests for segments to the registry, or to the home database.
 *
 * If snowflake.registry is set, the services ask the registry, over another
 * connection than the lease's, so that a tag that somebody has locked there does
 * not hold that up.  Else they ask the home database in a transaction.  It gets
 * the extension snowflake_registry when the first tag is created.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "clock.h"
#include "home.h"
#include "segment_fetch.h"
#include "waits.h"
#include "worker.h"

static void compare_with_home(SegmentRow *rows, int nrows);

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

static bool
link_build(RegistryLink *link, LinkRequest *sent, bool is_first)
{
	return segment_fetch_build(sent, link->sent_at, is_first) != FETCH_NOTHING;
}

static void
link_handle(RegistryLink *link, const PGresult *answer)
{
	if (PQresultStatus(answer) != PGRES_TUPLES_OK)
	{
		int			sqlstate = registry_link_sqlstate(answer);

		segment_fetch_note_error(sqlstate == 0 ? ERRCODE_CONNECTION_FAILURE : sqlstate,
								 PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY),
								 PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL),
								 PQresultErrorField(answer, PG_DIAG_MESSAGE_HINT));
	}
	else if (!link->sent_statement)
		segment_fetch_handle_result(segment_read_result(answer));
	else
	{
		int			nrows = PQntuples(answer);
		SegmentRow *rows = segment_read_rows(answer, nrows);
		const char *objection;

		if (nrows > 0 && !registry_link_understands(link, rows[0].protocol))
			return;
		objection = segment_fetch_objection(rows, nrows);
		if (objection != NULL)
			registry_link_give_up(link, objection, NULL);
		else
		{
			if (segment_fetch_find_news(rows, nrows) > 0)
				compare_with_home(rows, nrows);
			segment_fetch_handle_rows(rows, nrows);
		}
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

/* The schema with the functions, and whether its owner is a superuser. */
#define FIND_SCHEMA \
	"SELECT pg_catalog.quote_ident(n.nspname), r.rolsuper" \
	" FROM pg_catalog.pg_extension e" \
	" JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace" \
	" JOIN pg_catalog.pg_roles r ON r.oid = e.extowner" \
	" WHERE e.extname = '" REGISTRY_EXTENSION "'"

/*
 * The schema with the functions, to be put before a name; NULL where there is
 * none.
 */
static char *
find_schema(bool create)
{
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
	return psprintf("%s.", TextDatumGetCString(home_result(1)));
}

int64
segment_due_at_home(void)
{
	return segment_is_at_home() ? segment_fetch_due() : PG_INT64_MAX;
}

static void
serve_at_home(void *arg)
{
	LinkRequest sent = {0};
	MemoryContext caller = CurrentMemoryContext;
	SegmentResult *result = palloc0(sizeof(SegmentResult));
	SegmentRow *rows = NULL;
	int			nrows = 0;
	SegmentFetchKind kind = segment_fetch_build(&sent, clock_read_steady(), false);
	char	   *schema;

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
		for (int i = 0; i < sent.nparams; i++)
		{
			if (sent.values[i] != NULL)
				sent.values[i] = pg_any_to_server(sent.values[i], (int) strlen(sent.values[i]), PG_UTF8);
		}
		nrows = (int) home_run_texts(psprintf(sent.sql, schema), sent.nparams, sent.values);
		MemoryContextSwitchTo(caller);
		if (kind == FETCH_COMMAND)
			result = segment_read_result(NULL);
		else if (nrows > 0)
			rows = segment_read_rows(NULL, nrows);
		else
			elog(ERROR, "it did not understand the request");
	}
	home_commit();

	MemoryContextSwitchTo(caller);
	if (kind == FETCH_COMMAND)
		segment_fetch_handle_result(result);
	else
		segment_fetch_handle_rows(rows, nrows);
}

void
segment_serve_at_home(void)
{
	ErrorData  *error = worker_attempt(NULL, LOG_OF_SEGMENT, serve_at_home, NULL);

	if (error != NULL)
		segment_fetch_note_error(error->sqlerrcode, error->message, error->detail, error->hint);
}

/*
 * From the home database to a registry
 *
 * The home database may have given out numbers of a tag that now come from a
 * registry.  Those that are not above all of the home database's are not used.
 * And before the first ones are, its tag is dropped: without a registry it would
 * go on below them.  It is created there again only with a start, as nobody here
 * knows what the registry gave to all servers.
 *
 * Nothing of this where the home database is that registry.
 */

typedef struct HomeCompare
{
	SegmentRow *rows;
	int			nrows;
} HomeCompare;

/* Is the place of a registry this database? */
#define IS_HERE \
	"SELECT starts_with($1, concat_ws('/', c.system_identifier," \
	" left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid) || '/')" \
	" FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()"

/*
 * The numbers of a row begin above the second parameter.  The third is the last
 * one, null where it has none, so that nothing is written.  A tag is in
 * hexadecimal, as the database's encoding may lack its characters.  Whoever has
 * locked a row holds up no other, and what is refused needs no lock.
 *
 * The incarnation does not matter: a registry that was restored from a dump of
 * the home database has the same, and may be behind.
 */
#define COMPARE \
	"WITH known AS MATERIALIZED (" \
	" SELECT a.n, a.above, a.last, s.tag, s.max_id, s.max_id > a.above AS is_refused" \
	" FROM unnest($1::text[], $2::bigint[], $3::bigint[])" \
	"  WITH ORDINALITY AS a (tag, above, last, n)" \
	" JOIN %1$ssnowflake_segment_tag s ON convert_to(s.tag, 'UTF8') = decode(a.tag, 'hex'))," \
	" held AS MATERIALIZED (" \
	" SELECT k.n, k.last, s.tag" \
	" FROM known k JOIN %1$ssnowflake_segment_tag s USING (tag)" \
	" WHERE NOT k.is_refused AND s.max_id <= k.above" \
	" FOR UPDATE OF s SKIP LOCKED)," \
	" gone AS (" \
	" UPDATE %1$ssnowflake_segment_tag s" \
	" SET dropped_at = coalesce(s.dropped_at, statement_timestamp()), is_moved = true," \
	"  max_id = greatest(s.max_id, h.last)" \
	" FROM held h WHERE s.tag = h.tag AND h.last IS NOT NULL" \
	"  AND (NOT s.is_moved OR s.max_id < h.last))" \
	" SELECT k.n::integer, CASE WHEN k.is_refused THEN k.max_id END" \
	" FROM known k LEFT JOIN held h USING (n) WHERE h.n IS NULL"

static bool
is_here(const char *place)
{
	return home_run_texts(IS_HERE, 1, &place) > 0 && DatumGetBool(home_result(1));
}

/*
 * Returns the number of rows, which say which of the news are refused.
 */
static int
run_compare(SegmentRow *const *news, int nnews, const char *schema)
{
	StringInfoData arrays[3];
	const char *values[3];

	for (int i = 0; i < (int) lengthof(arrays); i++)
		initStringInfo(&arrays[i]);
	for (int i = 0; i < nnews; i++)
	{
		const SegmentRow *row = news[i];
		char		hex[2 * SEGMENT_TAG_SIZE];

		hex[hex_encode(row->tag, strlen(row->tag), hex)] = '\0';
		segment_array_add(&arrays[0], hex);
		segment_array_add(&arrays[1],
						  psprintf(INT64_FORMAT, row->is_given ? row->from - 1 : row->max_id));
		segment_array_add(&arrays[2], row->is_given ? psprintf(INT64_FORMAT, row->to) : NULL);
	}
	for (int i = 0; i < (int) lengthof(arrays); i++)
		values[i] = segment_array_end(&arrays[i]);
	return (int) home_run_texts(psprintf(COMPARE, schema), lengthof(values), values);
}

#define HOME_CANNOT_SAY "The home database cannot say which numbers it has given out: "

/*
 * The statement is for this server, which sends it to the registry.
 */
static void
refuse(SegmentRow *row, int64 max_id)
{
	const char *cure = max_id == PG_INT64_MAX ? "Create another tag." :
		psprintf("Run SELECT snowflake_segment_alter(%s, start => " INT64_FORMAT ").",
				 quote_literal_cstr(row->tag), max_id + 1);

	row->refusal = psprintf("The home database gave numbers up to " INT64_FORMAT ", and the registry goes on at " INT64_FORMAT ". %s",
							max_id, row->is_given ? row->from : row->max_id + 1, cure);
}

static void
compare(void *arg)
{
	HomeCompare *all = arg;
	MemoryContext caller = CurrentMemoryContext;
	SegmentRow **news = palloc(sizeof(SegmentRow *) * all->nrows);
	int			nnews = 0;
	char	   *schema;

	for (int i = 0; i < all->nrows; i++)
	{
		if (all->rows[i].is_news)
			news[nnews++] = &all->rows[i];
	}

	home_begin("comparing segments of numbers");
	if (!is_here(news[0]->place) && (schema = find_schema(false)) != NULL)
	{
		int			nrefused = run_compare(news, nnews, schema);

		for (int i = 0; i < nrefused; i++)
		{
			HeapTuple	tuple = SPI_tuptable->vals[i];
			TupleDesc	desc = SPI_tuptable->tupdesc;
			bool		isnull;
			int			n = DatumGetInt32(SPI_getbinval(tuple, desc, 1, &isnull));
			Datum		max_id = SPI_getbinval(tuple, desc, 2, &isnull);
			MemoryContext old = MemoryContextSwitchTo(caller);

			if (isnull)
			{
				news[n - 1]->refusal = HOME_CANNOT_SAY "the tag is locked there.";
				news[n - 1]->refusal_passes = true;
			}
			else
				refuse(news[n - 1], DatumGetInt64(max_id));
			MemoryContextSwitchTo(old);
		}
	}
	home_commit();
}

/*
 * An error is that of the news alone, as this process has other tags, and the
 * lease.
 */
static void
compare_with_home(SegmentRow *rows, int nrows)
{
	HomeCompare all = {.rows = rows,.nrows = nrows};
	ErrorData  *error = worker_attempt(NULL, LOG_OF_SEGMENT, compare, &all);
	uint64		left_out;

	for (int i = 0; i < nrows; i++)
	{
		SegmentRow *row = &rows[i];

		if (error != NULL && row->is_news)
		{
			row->refusal = psprintf(HOME_CANNOT_SAY "%s.", error->message);
			row->refusal_passes = wait_error_passes(error->sqlerrcode);
		}
		else if (row->refusal != NULL && log_is_due(LOG_OF_SEGMENT, &left_out))
			ereport(WARNING,
					(errmsg("could not fetch segments of numbers"),
					 errdetail("%s%s", row->refusal, log_left_out(left_out))));
	}
}
