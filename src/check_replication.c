/*-------------------------------------------------------------------------
 *
 * check_replication.c
 *		The doctor's look at publications and subscriptions of the home database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "check_rows.h"
#include "ddl.h"
#include "home.h"
#include "home_guard.h"
#include "segment_request.h"
#include "settings.h"

/* What the extension keeps here: "kept", with oid, relkind and is_home */
#define KEPT \
	"WITH kept AS (SELECT c.oid, c.relkind, e.extname = '" HOME_EXTENSION "' AS is_home" \
	" FROM pg_extension e" \
	" JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid" \
	"  AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass" \
	" JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'S')" \
	" WHERE e.extname IN ('" HOME_EXTENSION "', '%s'))"

/*
 * Tables whose triggers somebody has changed.  Those of segments get theirs
 * when they are first used.
 */
static void
check_guards(CheckState *state, const char *segments)
{
	int			n = (int) ddl_query(psprintf(KEPT
											 " SELECT k.oid::regclass, k.is_home FROM kept k"
											 " WHERE k.relkind = 'r' AND NOT " HOME_GUARD_IS_ON("k.oid")
											 " AND (k.is_home OR EXISTS"
											 "  (SELECT FROM pg_subscription_rel r WHERE r.srrelid = k.oid))"
											 " ORDER BY 1", segments));

	for (int i = 0; i < n; i++)
	{
		char	   *table = ddl_value(i, 1);

		if (ddl_value_bool(i, 2))
			check_row(state, "error",
					  psprintf("The triggers of table %s are not as they were created, so that a subscription can change what this server keeps in it, and IDs come twice. Run ALTER TABLE %s ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate.",
							   table, table));
		else
			check_row(state, "warning",
					  psprintf("A subscription can change table %s until the background worker has given it triggers, which it does before it next takes a segment.",
							   table));
	}
}

/* Names of a query's first column; NULL for none. */
static char *
names(const char *query, const char *segments)
{
	return ddl_query(psprintf(query, segments)) > 0 ? ddl_value(0, 1) : NULL;
}

static void
check_home(CheckState *state)
{
	/* in a registry, tables of segments are for all servers */
	const char *segments = snowflake_registry[0] == '\0' ? SEGMENT_EXTENSION : "";
	char	   *found;

	check_guards(state, segments);

#define SUBSCRIPTIONS(relkind) \
	KEPT " SELECT string_agg(DISTINCT quote_ident(s.subname), ', ') FROM kept k" \
	" JOIN pg_subscription_rel r ON r.srrelid = k.oid JOIN pg_subscription s ON s.oid = r.srsubid" \
	" WHERE k.relkind = '" relkind "'"

	found = names(SUBSCRIPTIONS("S"), segments);
	if (found != NULL)
		check_row(state, "warning",
				  psprintf("A subscription has the durable mark, the sequence " HOME_EXTENSION ".mark, and fails to synchronize it, with an error each time: %s. The mark is this server's alone. Let a database without other tables be the home database of the publisher, \"snowflake.database\".",
						   found));
	if (state->nrows > 0)
		return;

	found = names(SUBSCRIPTIONS("r"), segments);
	if (found != NULL)
		check_row(state, "ok",
				  psprintf("A subscription has tables that this server keeps its state in, and what it brings for them is discarded: %s.",
						   found));
	found = names(KEPT " SELECT string_agg(DISTINCT quote_ident(p.pubname), ', ')"
				  " FROM pg_publication p, pg_get_publication_tables(p.pubname) g"
				  " WHERE g.relid IN (SELECT oid FROM kept)", segments);
	if (found != NULL)
		check_row(state, "ok",
				  psprintf("A publication has tables that this server keeps its state in: %s. Subscribers need these tables, too, and discard what comes.",
						   found));
	if (state->nrows == 0)
		check_row(state, "ok",
				  "No publication or subscription has what this server keeps in its home database.");
}

void
check_replication(CheckState *state)
{
	char	   *database = get_database_name(MyDatabaseId);
	int			nestlevel;

	if (database == NULL || strcmp(database, snowflake_database) != 0)
	{
		check_row(state, "ok",
				  psprintf("Publications and subscriptions of the home database, \"%s\", can be seen only there.",
						   snowflake_database));
		return;
	}
	nestlevel = ddl_begin();
	check_home(state);
	ddl_end(nestlevel);
}
