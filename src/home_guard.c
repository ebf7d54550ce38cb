/*-------------------------------------------------------------------------
 *
 * home_guard.c
 *		Keeps logical replication away from what is in the home database.
 *
 * What is in them is about this server alone.  A publication FOR ALL TABLES
 * sends it to subscribers nevertheless, where it would take the place of
 * theirs: numbers that were used would count as unused.  So each table has two
 * triggers with one function:
 *
 *	discard_replicated	BEFORE INSERT OR UPDATE OR DELETE, for each row
 *	refuse_truncate		BEFORE TRUNCATE, for each statement
 *
 * The first one fires in replicas, that is, where session_replication_role is
 * "replica".  But that can also be set by hand, for the worker too; and ALTER
 * TABLE ENABLE TRIGGER ALL, as pg_restore has it, lets the trigger fire in all
 * sessions.  So the function looks for itself who writes.
 *
 * A trigger cannot discard a TRUNCATE.  So that none is sent, the second
 * trigger fires always.
 *
 * The tables of snowflake_home have them from its script, and the home database
 * may have a subscription before it has anything else of ours.  Those of
 * snowflake_segments get them here.
 *
 * The mark is a sequence, which can be published from PostgreSQL 19 on, and
 * has no triggers.  But a subscription refuses to write a sequence whose
 * parameters are not those of the publisher's.  One of them is of no use
 * here, START.  So it tells this server from others.
 *
 * No locking: nothing is shared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "replication/logicalworker.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "compat.h"
#include "home.h"
#include "home_guard.h"
#include "instance.h"

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
				 errhint("Let the subscription skip this transaction, with ALTER SUBSCRIPTION ... SKIP.") : 0));

	if (is_applying())
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event) ?
						   trigdata->tg_newtuple : trigdata->tg_trigtuple);
}

/*
 * The function is added to the extension, so that no dump has it.
 */
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
							  " LANGUAGE c AS '$libdir/snowflake', 'snowflake_home_discard';"
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
		home_run("SELECT FROM pg_sequence WHERE seqrelid = $1::regclass AND seqstart <> $2",
				 TEXTOID, CStringGetTextDatum(name),
				 INT8OID, Int64GetDatum(start)) > 0)
		home_run_ddl(psprintf("ALTER SEQUENCE %s START " INT64_FORMAT, name, start));
}
