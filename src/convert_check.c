/*-------------------------------------------------------------------------
 *
 * convert_check.c
 *		What stands in the way of a conversion, and what its user should know
 *		before.
 *
 * What is found is added to the plan's rows, so that a dry run shows all of it
 * at once.  Everything is read from the catalogs with ddl_query(); nothing is
 * changed, and only those queries take locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "convert_check.h"
#include "convert_columns.h"
#include "ddl.h"
#include "lease.h"
#include "other_extensions.h"
#include "settings.h"
#include "shmem.h"

/*
 * Views, rules, triggers, policies, generated columns and other objects that
 * use a column whose type changes.  Views that use such a view are found too.
 */
static void
find_using_objects(Conversion *plan)
{
	uint64		n;

	n = ddl_query(psprintf(
						   "WITH RECURSIVE dep (classid, objid, rel, att) AS ("
						   "  SELECT d.classid, d.objid, m.rel, m.att FROM %s"
						   "  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass"
						   "   AND d.refobjid = m.rel AND d.refobjsubid = m.att"
						   "  WHERE d.classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass,"
						   "   'pg_publication_rel'::regclass, 'pg_proc'::regclass)"
						   "   OR d.classid = 'pg_trigger'::regclass AND EXISTS"
						   "    (SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgparentid = 0)"
						   "   OR d.classid = 'pg_attrdef'::regclass AND EXISTS"
						   "    (SELECT FROM pg_attrdef x WHERE x.oid = d.objid AND (x.adrelid, x.adnum) <> (m.rel, m.att))"
						   "), views (rule, view, level) AS ("
						   "  SELECT r.oid, r.ev_class, 0 FROM pg_rewrite r"
						   "  WHERE r.oid IN (SELECT objid FROM dep WHERE classid = 'pg_rewrite'::regclass)"
						   "  UNION"
						   "  SELECT r.oid, r.ev_class, v.level + 1 FROM views v"
						   "  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = v.view"
						   "   AND d.classid = 'pg_rewrite'::regclass"
						   "  JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> v.view"
						   "  WHERE v.level < 100"
						   "), found (classid, objid, level, uses) AS ("
						   "  SELECT classid, objid, 0,"
						   "   string_agg(DISTINCT format('%%s.%%I', rel::regclass, attname), ', ')"
						   "  FROM dep JOIN pg_attribute ON attrelid = rel AND attnum = att"
						   "  GROUP BY classid, objid"
						   "  UNION ALL"
						   "  SELECT 'pg_rewrite'::regclass, rule, max(level), NULL FROM views"
						   "  GROUP BY rule HAVING min(level) > 0"
						   ")"
						   " SELECT CASE WHEN c.relkind IN ('v', 'm')"
						   "   THEN pg_describe_object('pg_class'::regclass, c.oid, 0)"
						   "   WHEN f.classid = 'pg_attrdef'::regclass"
						   "   THEN 'generated ' || pg_describe_object('pg_class'::regclass, x.adrelid, x.adnum)"
						   "   ELSE pg_describe_object(f.classid, f.objid, 0) END,"
						   "  f.uses,"
						   "  CASE f.classid"
						   "   WHEN 'pg_rewrite'::regclass THEN CASE c.relkind"
						   "    WHEN 'v' THEN format('CREATE VIEW %%s%%s AS%%s%%s', c.oid::regclass,"
						   "     ' WITH (' || array_to_string(c.reloptions, ', ') || ')', chr(10), pg_get_viewdef(c.oid))"
						   "    WHEN 'm' THEN format('CREATE MATERIALIZED VIEW %%s AS%%s%%s', c.oid::regclass, chr(10), pg_get_viewdef(c.oid))"
						   "    ELSE pg_get_ruledef(f.objid) END"
						   "   WHEN 'pg_trigger'::regclass THEN pg_get_triggerdef(f.objid)"
						   "   WHEN 'pg_attrdef'::regclass THEN format('GENERATED ALWAYS AS (%%s)', pg_get_expr(x.adbin, x.adrelid))"
						   "   WHEN 'pg_proc'::regclass THEN pg_get_functiondef(f.objid)"
						   "   WHEN 'pg_publication_rel'::regclass THEN"
						   "    (SELECT format('ALTER PUBLICATION %%I ADD TABLE ONLY %%s%%s%%s', b.pubname, p.prrelid::regclass,"
						   "      (SELECT ' (' || string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) || ')'"
						   "       FROM pg_attribute a WHERE a.attrelid = p.prrelid AND a.attnum = ANY (p.prattrs)),"
						   "      ' WHERE ' || pg_get_expr(p.prqual, p.prrelid))"
						   "     FROM pg_publication_rel p JOIN pg_publication b ON b.oid = p.prpubid WHERE p.oid = f.objid)"
						   "   ELSE (SELECT concat_ws(' ', 'USING (' || pg_get_expr(p.polqual, p.polrelid) || ')',"
						   "     'WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')"
						   "    FROM pg_policy p WHERE p.oid = f.objid)"
						   "  END"
						   " FROM found f"
						   " LEFT JOIN pg_rewrite r ON f.classid = 'pg_rewrite'::regclass AND r.oid = f.objid"
						   " LEFT JOIN pg_class c ON c.oid = r.ev_class"
						   " LEFT JOIN pg_attrdef x ON f.classid = 'pg_attrdef'::regclass AND x.oid = f.objid"
						   " ORDER BY f.level, 1, 2",
						   plan->changing));
	for (uint64 i = 0; i < n; i++)
	{
		char	   *uses = ddl_value(i, 2);
		Row		   *row;

		row = add_error(plan, ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
						uses ?
						psprintf("%s uses %s, whose type must change", ddl_value(i, 1), uses) :
						psprintf("%s uses a view that stands in the way", ddl_value(i, 1)));
		row->definition = ddl_value(i, 3);
		row->hint = "In one transaction, drop what is in the way, convert the column, and create it again.";
	}
}

/*
 * Columns that hold whole rows of a table whose column changes its type.
 */
static void
find_row_columns(Conversion *plan)
{
	uint64		n;

	n = ddl_query(psprintf(
						   "WITH RECURSIVE used (type) AS ("
						   "  SELECT c.reltype FROM %s JOIN pg_class c ON c.oid = m.rel AND c.reltype <> 0"
						   "  UNION"
						   "  SELECT d.objid FROM used u JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass"
						   "   AND d.refobjid = u.type AND d.classid = 'pg_type'::regclass"
						   ")"
						   " SELECT DISTINCT format('%%s.%%I', a.attrelid::regclass, a.attname), format_type(u.type, NULL)"
						   " FROM used u JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = u.type"
						   "  AND d.classid = 'pg_class'::regclass"
						   " JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'm', 'p')"
						   " JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid"
						   " ORDER BY 1",
						   plan->changing));
	for (uint64 i = 0; i < n; i++)
		add_error(plan, ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
				  psprintf("column %s has rows of a table whose column must change, as type %s",
						   ddl_value(i, 1), ddl_value(i, 2)));
}

/*
 * Columns in a partition key whose type changes.
 */
static void
find_partition_keys(Conversion *plan)
{
	uint64		n;

	n = ddl_query(psprintf(
						   "SELECT format('%%s.%%I', m.rel::regclass, a.attname), pg_get_partkeydef(m.rel)"
						   " FROM %s JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.att"
						   " WHERE EXISTS (SELECT FROM pg_depend d"
						   "  WHERE d.classid = 'pg_class'::regclass AND d.objid = m.rel AND d.objsubid = m.att"
						   "  AND d.refclassid = 'pg_class'::regclass AND d.refobjid = m.rel AND d.refobjsubid = 0"
						   "  AND d.deptype = 'i')"
						   " ORDER BY 1",
						   plan->changing));
	for (uint64 i = 0; i < n; i++)
	{
		Row		   *row = add_error(plan, ERRCODE_FEATURE_NOT_SUPPORTED,
									psprintf("column %s, whose type must change, is in the partition key",
											 ddl_value(i, 1)));

		row->definition = psprintf("PARTITION BY %s", ddl_value(i, 2));
		row->hint = "Make a new partitioned table with a bigint column, and move the rows.";
	}
}

void
find_dependents(Conversion *plan)
{
	find_using_objects(plan);
	find_row_columns(plan);
	find_partition_keys(plan);
}

void
check_members(Conversion *plan)
{
	List	   *checked = NIL;	/* OIDs of tables whose owner was checked */

	for (int i = 0; i < plan->nmembers; i++)
	{
		Member	   *m = &plan->members[i];
		char	   *name = column_name(m->relid, m->column);
		bool		is_target = m->relid == plan->relid && m->attnum == plan->attnum;

		if (!plan->to_sequence && !is_target &&
			getBaseType(m->type) != m->type &&
			is_small(getBaseType(m->type)))
			add_error(plan, ERRCODE_DATATYPE_MISMATCH,
					  psprintf("column %s, which a foreign key connects with the IDs, is of the domain %s over %s",
							   name, format_type_be_qualified(m->type),
							   format_type_be(getBaseType(m->type))));

		if (is_touched(plan, m) && !list_member_oid(checked, m->relid) &&
			!object_ownercheck(RelationRelationId, m->relid, GetUserId()))
			add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
					  psprintf("must be owner of table %s", ddl_name(m->relid)));
		checked = lappend_oid(checked, m->relid);

		if (!is_changing(plan, m))
			continue;

		if (m->typed)
			add_error(plan, ERRCODE_WRONG_OBJECT_TYPE,
					  psprintf("%s is a typed table, so the type of its column %s cannot change",
							   ddl_name(m->relid), quote_identifier(m->column)));
		if (m->nparents > 1)
			add_error(plan, ERRCODE_INVALID_TABLE_DEFINITION,
					  psprintf("column %s, whose type must change, is inherited from more than one table", name));
		if (m->relkind == RELKIND_FOREIGN_TABLE)
			add_row(plan, ROW_WARNING,
					psprintf("%s is a foreign table: the column must become bigint on the other server, too",
							 ddl_name(m->relid)));
		if (is_target && m->nparents > 0)
			add_error(plan, ERRCODE_INVALID_TABLE_DEFINITION,
					  psprintf("column %s, whose type must change, is inherited from %s",
							   name, ddl_name(m->parent)))->hint =
				psprintf("Convert column %s of %s.",
						 quote_identifier(m->column), ddl_name(m->parent));
	}
}

void
check_descendants(Conversion *plan)
{
	uint64		n;
	Member	   *target = find_member(plan, plan->relid, plan->column);

	if (target == NULL)
		elog(ERROR, "column not found");

	if (target->nparents > 0)
	{
		AttrNumber	attnum = get_attnum(target->parent, plan->column);
		bool		identity = ddl_query(psprintf("SELECT FROM pg_attribute WHERE attrelid = %u AND attnum = %d AND attidentity <> ''",
												  target->parent, attnum)) > 0;

		if (plan->source == SOURCE_IDENTITY && identity &&
			get_rel_relispartition(plan->relid))
			add_error(plan, ERRCODE_INVALID_TABLE_DEFINITION,
					  psprintf("column %s is an identity column by its partitioned table %s",
							   column_name(plan->relid, plan->column), ddl_name(target->parent)))->hint =
				psprintf("Convert column %s of %s.",
						 quote_identifier(plan->column), ddl_name(target->parent));
		else if (!is_small(plan->type))
			add_row(plan, ROW_NOTE,
					psprintf("only the default of %s changes, and not that of %s, from which it inherits the column%s",
							 plan->table, ddl_name(target->parent),
							 get_rel_relispartition(plan->relid) ?
							 ": rows inserted there have the other one" : ""));
	}

	n = ddl_query(psprintf(
						   "SELECT format('%%s.%%I', c.oid::regclass, a.attname),"
						   " a.attidentity <> '' AND (NOT c.relispartition OR p.attidentity = ''),"
						   " a.attidentity = '' AND pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(pd.adbin, pd.adrelid),"
						   " coalesce(pg_get_expr(d.adbin, d.adrelid), 'none')"
						   " FROM pg_class c"
						   " JOIN pg_attribute p ON p.attrelid = %u AND p.attnum = %d"
						   " LEFT JOIN pg_attrdef pd ON pd.adrelid = p.attrelid AND pd.adnum = p.attnum"
						   " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = p.attname"
						   " LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
						   " WHERE c.oid = ANY (%s) AND c.oid <> %u ORDER BY 1",
						   plan->relid, plan->attnum, oid_array(plan->tree), plan->relid));
	for (uint64 i = 0; i < n; i++)
	{
		if (ddl_value_bool(i, 2))
			add_error(plan, ERRCODE_INVALID_TABLE_DEFINITION,
					  psprintf("column %s is an identity column of its own", ddl_value(i, 1)))->hint =
				"Convert that table first.";
		else if (ddl_value_bool(i, 3) && strcmp(ddl_value(i, 4), "none") != 0)
			add_row(plan, ROW_WARNING,
					psprintf("the default of %s goes too: %s", ddl_value(i, 1), ddl_value(i, 4)));
	}
}

void
check_extension(Conversion *plan)
{
	Oid			extension = getExtensionOfObject(RelationRelationId, plan->relid);

	if (OidIsValid(extension))
		add_row(plan, ROW_WARNING,
				psprintf("%s belongs to extension %s: pg_dump does not take the change along",
						 plan->table, quote_identifier(get_extension_name(extension))));
}

/*
 * Why Citus would not alter a member's column as planned; NULL where it would.
 * The key is the column by which it distributes the rows.
 */
static const char *
refused_by_citus(Conversion *plan, Member *m, AttrNumber key)
{
	if (m->relid == plan->relid && m->attnum == plan->attnum)
	{
		if (plan->to_sequence)
			return "gives no sequence to a distributed table";
		if (plan->source == SOURCE_IDENTITY)
			return "alters no identity column";
		if (is_changing(plan, m) && plan->source == SOURCE_SEQUENCE)
			return "does not change the type of a column that draws from a sequence";
	}
	else if (!is_changing(plan, m))
		return NULL;
	return m->attnum == key ? "distributes the rows by it" : NULL;
}

void
check_citus(Conversion *plan)
{
	if (!citus_is_here())
		return;
	for (int i = 0; i < plan->nmembers; i++)
	{
		Member	   *m = &plan->members[i];
		char	   *table = ddl_name(m->relid);
		const char *reason;

		if (m->nparents > 0 ||
			ddl_query(psprintf("SELECT coalesce(substring(partkey, ':varattno (\\d+)'), '0')"
							   " FROM pg_catalog.pg_dist_partition WHERE logicalrelid = %u",
							   m->relid)) == 0)
			continue;
		reason = refused_by_citus(plan, m, (AttrNumber) atoi(ddl_value(0, 1)));
		if (reason != NULL)
			add_error(plan, ERRCODE_FEATURE_NOT_SUPPORTED,
					  psprintf("column %s cannot be altered: Citus %s",
							   column_name(m->relid, m->column), reason))->hint =
				plan->source == SOURCE_IDENTITY && m->relid == plan->relid ?
				"Distribute a new table whose column has the default snowflake_nextval(), and move the rows." :
				psprintf("Run SELECT undistribute_table(%s, cascade_via_foreign_keys => true), convert the column, and distribute the table again.",
						 quote_literal_cstr(table));
		else if (is_changing(plan, m))
			add_row(plan, ROW_WARNING,
					psprintf("Citus has the rows of %s: the estimate does not count them", table));
	}
}

void
check_server(Conversion *plan)
{
	if (RecoveryInProgress())
		add_error(plan, ERRCODE_READ_ONLY_SQL_TRANSACTION,
				  "this server is a standby");
	if (plan->to_sequence)
		return;
	if (shared == NULL)
		add_error(plan, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				  "snowflake is not loaded via \"shared_preload_libraries\", so no ID could be drawn")->hint =
			preload_hint();
	if (settings_need_lease() && !lease_is_used())
		add_error(plan, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				  "\"snowflake.node_id\" is not set, so no ID could be drawn")->hint =
			settings_node_id_hint();
}
