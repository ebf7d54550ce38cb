/*-------------------------------------------------------------------------
 *
 * check_catalogs.c
 *		snowflake_check(): the checks that query the catalogs about the
 *		extension, the record beside the durable mark, replication, and other
 *		extensions.
 *
 * The queries run with the rights of the caller, and take only their own
 * locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "check_catalogs.h"
#include "check_rows.h"
#include "clock.h"
#include "home.h"
#include "mark.h"
#include "record.h"
#include "registry_link.h"
#include "settings.h"

void
check_own_extension(CheckState *state)
{
	int			nestlevel = check_begin();
	char	   *version;
	char	   *roles;
	char	   *triggers;

	if (check_query("SELECT extversion FROM pg_extension WHERE extname = 'snowflake'") == 0)
		check_row(state, "warning", "The extension is not in this database: its functions were created by hand. Run CREATE EXTENSION snowflake.");
	else
	{
		version = check_value(0, 1);
		if (strcmp(version, SNOWFLAKE_VERSION) != 0)
			check_say(state, "warning", "This database has version %s of the extension, and the server has loaded version " SNOWFLAKE_VERSION " of its library. If the library is newer, run ALTER EXTENSION snowflake UPDATE. If it is older, install the newer one and restart the server.",
					  version);
		else
			check_row(state, "ok", "The extension in this database and the server's library have version " SNOWFLAKE_VERSION ".");
	}

	/* two names for the same: who has only one of them was forgotten */
	check_query(psprintf("SELECT string_agg(CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee)::text END, ', ')"
						 " FROM (SELECT x.grantee"
						 "  FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x"
						 "  WHERE p.pronamespace = %u AND p.pronargs = 0 AND p.proname IN ('snowflake_nextval', 'snowflake_next')"
						 "  GROUP BY 1 HAVING count(DISTINCT p.proname) = 1 ORDER BY 1) u",
						 state->schema));
	roles = check_value(0, 1);
	if (roles != NULL)
		check_say(state, "warning", "These roles may call only one of snowflake_nextval() and snowflake_next(), which draw the same IDs: %s. GRANT or REVOKE both.",
				  roles);

	/* ENABLE TRIGGER ALL, as pg_restore has it, is not for replicated rows */
	(void) check_query("SELECT string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname), '; ' ORDER BY tgname)"
					   " FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'A'"
					   " AND tgrelid IN (to_regclass('snowflake_catalog.dumped_mark'), to_regclass('snowflake_catalog.key_formats'))");
	triggers = check_value(0, 1);
	if (triggers != NULL)
		check_say(state, "warning", "Triggers of this extension do not fire for replicated rows, so two keys of business formats can be equal. Run %s.",
				  triggers);
	check_end(nestlevel);
}

/*
 * By what all databases can see of it, see record.c.
 */
void
check_layout(CheckState *state)
{
	int			nestlevel = check_begin();
	char	   *configured = psprintf("layout \"%s\" and epoch %s",
									  snowflake_layout_text,
									  clock_show(snowflake_epoch));

	/* looked at first, as the services write it before they say so */
	uint32		to_record = shared == NULL ? 0 :
		pg_atomic_read_u32(&shared->mark.to_record);
	bool		is_open = shared != NULL && mark_is_open();

	/* what counts most, taken apart */
	bool		has_pointer = check_query(psprintf("SELECT datname, is_own, is_home,"
												   " split_part(says, ' since ', 1),"
												   " split_part(split_part(split_part(says, ' since ', 2), ' as node ', 1), ' on system ', 1)"
												   " FROM (%s) AS p (datname, says, is_own, is_home)",
												   record_pointers())) > 0;
	bool		is_own = has_pointer && check_value_bool(0, 2);
	bool		is_home = has_pointer && check_value_bool(0, 3);
	char	   *database = has_pointer ? check_value(0, 1) : NULL;

	if (is_own && !is_home)
		check_say(state, "error", "The durable mark of this server is in database \"%s\", and \"snowflake.database\" is \"%s\". Set \"snowflake.database\" to \"%s\" and restart the server. Or move the mark, as docs/operations.md says under \"Move the mark\".",
				  database, snowflake_database, database);
	else if (is_own)
	{
		char	   *layout_text = check_value(0, 4);
		TimestampTz epoch = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
																	CStringGetDatum(check_value(0, 5)),
																	ObjectIdGetDatum(InvalidOid),
																	Int32GetDatum(-1)));
		Layout		layout;
		LayoutError error;

		if (epoch != snowflake_epoch ||
			!layout_parse(layout_text, &layout, &error) ||
			!layout_equal(&layout, &snowflake_layout))
			check_say(state, "error", "This server has issued IDs with layout \"%s\" and epoch %s, as recorded in database \"%s\", and is now configured with %s. %s",
					  layout_text, clock_show(epoch), database, configured,
					  record_hint(layout_text, clock_show(epoch)));
		else
			check_say(state, "ok", "IDs are drawn with %s, as recorded in database \"%s\".",
					  configured, database);
	}
	else if (to_record & RECORD_FAILED)
		check_row(state, "warning", "The server could not record for other databases where the durable mark is. The server's log says why. Mend the cause; the background worker tries again every 10 seconds.");
	else if (to_record != 0)
		check_row(state, "ok", "The server is about to record for other databases where the durable mark is.");
	else if (is_open)
		check_say(state, "warning", "Somebody has removed \"snowflake.recorded\", which shows other databases where the durable mark is. Restart the server, or run ALTER DATABASE %s SET snowflake.recorded = %s.",
				  quote_identifier(snowflake_database),
				  quote_literal_cstr(record_pointer_text()));
	else
		check_say(state, "ok", "Nothing is recorded: the first ID records %s.", configured);
	check_end(nestlevel);
}

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
	int			n = (int) check_query(psprintf(KEPT
											 " SELECT k.oid::regclass, k.is_home FROM kept k"
											 " WHERE k.relkind = 'r' AND NOT " HOME_GUARD_IS_ON("k.oid")
											 " AND (k.is_home OR EXISTS"
											 "  (SELECT FROM pg_subscription_rel r WHERE r.srrelid = k.oid))"
											 " ORDER BY 1", segments));

	for (int i = 0; i < n; i++)
	{
		char	   *table = check_value(i, 1);

		if (check_value_bool(i, 2))
			check_say(state, "error", "The triggers of table %s were changed. A subscription can now change the state that this server keeps in it, and IDs can come twice. Run ALTER TABLE %s ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate.",
					  table, table);
		else
			check_say(state, "warning", "A subscription can change table %s until the background worker creates triggers on it. It does so before it next takes a segment.",
					  table);
	}
}

/* Names of a query's first column; NULL for none. */
static char *
names(const char *query, const char *segments)
{
	return check_query(psprintf(query, segments)) > 0 ? check_value(0, 1) : NULL;
}

static void
check_home(CheckState *state)
{
	/* in a registry, tables of segments are for all servers */
	const char *segments = snowflake_registry[0] == '\0' ? REGISTRY_EXTENSION : "";
	char	   *found;

	check_guards(state, segments);

#define SUBSCRIPTIONS(relkind) \
	KEPT " SELECT string_agg(DISTINCT quote_ident(s.subname), ', ') FROM kept k" \
	" JOIN pg_subscription_rel r ON r.srrelid = k.oid JOIN pg_subscription s ON s.oid = r.srsubid" \
	" WHERE k.relkind = '" relkind "'"

	found = names(SUBSCRIPTIONS("S"), segments);
	if (found != NULL)
		check_say(state, "warning", "A subscription includes the durable mark, the sequence " HOME_EXTENSION ".mark, and fails each time it synchronizes it: %s. Each server keeps a mark of its own. Move the mark of the publisher to a database without other tables, as docs/operations.md says under \"Move the mark\".",
				  found);
	if (state->nrows > 0)
		return;

	found = names(SUBSCRIPTIONS("r"), segments);
	if (found != NULL)
		check_say(state, "ok", "A subscription includes tables in which this server keeps its state: %s. The server discards the changes that arrive for them.",
				  found);

	/* pg_publication_tables locks each table; from 19 on all can have exceptions */
	found = names(KEPT " SELECT string_agg(DISTINCT quote_ident(p.pubname), ', ')"
				  " FROM pg_publication p CROSS JOIN kept k JOIN pg_class c ON c.oid = k.oid"
				  " LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = k.oid"
				  " LEFT JOIN pg_publication_namespace n ON n.pnpubid = p.oid AND n.pnnspid = c.relnamespace"
				  " WHERE k.relkind = 'r'"
				  " AND CASE WHEN p.puballtables THEN r.oid IS NULL ELSE num_nonnulls(r.oid, n.oid) > 0 END",
				  segments);
	if (found != NULL)
		check_say(state, "ok", "A publication includes tables in which this server keeps its state: %s. Subscribers need these tables, too, and discard the changes that arrive.",
				  found);
	if (state->nrows == 0)
		check_row(state, "ok", "No publication or subscription includes the state that this server keeps in its home database.");
}

void
check_replication(CheckState *state)
{
	char	   *database = get_database_name(MyDatabaseId);
	int			nestlevel;

	if (database == NULL || strcmp(database, snowflake_database) != 0)
	{
		check_say(state, "ok", "Publications and subscriptions of the home database, \"%s\", can be seen only there.",
				  snowflake_database);
		return;
	}
	nestlevel = check_begin();
	check_home(state);
	check_end(nestlevel);
}

void
check_partitions(CheckState *state)
{
	uint64		id = layout_unit_first_id(&snowflake_layout, state->unit);
	int			nestlevel;
	int			n;

	if (!layout_sorts_by_time(&snowflake_layout))
	{
		check_row(state, "ok", "The time is not the highest field of the layout, so there are no partitions by time.");
		return;
	}
	nestlevel = check_begin();
	n = (int) check_query(psprintf("SELECT status, detail FROM snowflake_catalog.check_partitions(" UINT64_FORMAT ")",
								 Min(id, (uint64) layout_max_id(&snowflake_layout))));
	for (int i = 0; i < n; i++)
		check_row(state, check_value(i, 1), check_value(i, 2));
	check_end(nestlevel);
}

void
check_other_extension(CheckState *state)
{
	int			nestlevel = check_begin();
	int			n;

	/* an older version of ours can be updated to this one */
	n = (int) check_query("SELECT string_agg(version, ', ' ORDER BY version)"
						" FROM pg_available_extension_versions"
						" WHERE name = 'snowflake' AND version <> '" SNOWFLAKE_VERSION "'"
						" AND NOT EXISTS (SELECT FROM pg_extension_update_paths('snowflake')"
						"  WHERE source = version AND target = '" SNOWFLAKE_VERSION "' AND path IS NOT NULL)"
						" HAVING count(*) > 0");
	if (n > 0)
		check_say(state, "warning", "There are scripts of an extension of the same name, or of other versions of this one: %s. ALTER EXTENSION snowflake UPDATE may run them. Remove the other package, and install this one again.",
				  check_value(0, 1));

	n = (int) check_query("SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
						" WHERE n.nspname = 'snowflake' AND p.proname = 'nextval'"
						" AND p.proargtypes[0] = 'regclass'::regtype AND p.pronargs = 1");
	if (n > 0)
		check_row(state, "warning", "This database has pgEdge's function snowflake.nextval(regclass). It may draw the same IDs as snowflake_nextval(). Let snowflake_convert() change the columns that call it, then run DROP FUNCTION snowflake.nextval(regclass).");

	n = (int) check_query("SELECT d.datname, r.rolname FROM pg_db_role_setting s"
						" LEFT JOIN pg_database d ON d.oid = s.setdatabase"
						" LEFT JOIN pg_roles r ON r.oid = s.setrole"
						" WHERE EXISTS (SELECT FROM unnest(s.setconfig) c WHERE c LIKE 'snowflake.node=%')"
						" ORDER BY 1, 2");
	for (int i = 0; i < n; i++)
	{
		char	   *database = check_value(i, 1);
		char	   *role = check_value(i, 2);

		check_say(state, "warning", "pgEdge's setting \"snowflake.node\" is set for %s%s%s%s, and is not read. The server's number is \"snowflake.node_id\".",
				  database ? "database " : "", database ? quote_identifier(database) : "",
				  database && role ? ", " : "",
				  role ? psprintf("role %s", quote_identifier(role)) : database ? "" : "all roles");
	}

	/* the files are shown to roles that may see them */
	check_query("SELECT has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')");
	if (check_value_bool(0, 1) &&
		check_query("SELECT sourcefile, sourceline FROM pg_file_settings"
				  " WHERE name = 'snowflake.node' ORDER BY seqno LIMIT 1") > 0)
		check_say(state, "warning", "pgEdge's setting \"snowflake.node\" is in %s, line %s, and is not read. Remove it there. The server's number is \"snowflake.node_id\".",
				  check_value(0, 1), check_value(0, 2));

	if (state->nrows == 0)
		check_row(state, "ok", "Nothing of another extension named snowflake is found.");
	check_end(nestlevel);
}
