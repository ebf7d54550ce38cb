/*-------------------------------------------------------------------------
 *
 * convert_columns.c
 *		The column to be converted, and the columns connected with it, as the
 *		catalogs have them.
 *
 * The columns that change their type are those connected by foreign keys and
 * inheritance, in both directions and over any number of steps; they are
 * called "members".
 *
 * Everything is read with ddl_query(); nothing is changed, and no table is
 * locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "convert_columns.h"
#include "ddl.h"

char *
oid_array(List *oids)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "'{");
	foreach(lc, oids)
		appendStringInfo(&buf, "%s%u", buf.len > 2 ? "," : "", lfirst_oid(lc));
	appendStringInfoString(&buf, "}'::oid[]");
	return buf.data;
}

void
check_target(Conversion *plan)
{
	char		relkind = get_rel_relkind(plan->relid);
	char	   *name = ddl_plain_name(plan->relid);

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name)));
	if (IsCatalogRelationOid(plan->relid) ||
		IsCatalogNamespace(get_rel_namespace(plan->relid)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", name)));
	ddl_require_owner(plan->relid);
	if (isOtherTempNamespace(get_rel_namespace(plan->relid)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot convert temporary tables of other sessions")));

	plan->attnum = get_attnum(plan->relid, plan->column);
	if (plan->attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						plan->column, name)));
	if (plan->attnum < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot alter system column \"%s\"", plan->column)));
	plan->table = ddl_name(plan->relid);
}

char *
column_name(Oid relid, const char *column)
{
	return psprintf("%s.%s", ddl_name(relid), quote_identifier(column));
}

/*
 * Recognize the default: a call of snowflake_nextval(), or of nextval() with a
 * sequence, or something else.
 */
static void
recognize_default(Conversion *plan, Node *node)
{
	List	   *names = list_make2(makeString(get_namespace_name(plan->schema)),
								   makeString(pstrdup("snowflake_nextval")));
	FuncExpr   *func;
	Const	   *arg;

	plan->source = SOURCE_OTHER;
	func = ddl_default_call(node);
	if (func == NULL)
		return;
	if (func->args == NIL &&
		func->funcid == LookupFuncName(names, 0, NULL, false))
	{
		plan->source = SOURCE_SNOWFLAKE;
		return;
	}

	if (func->args != NIL &&
		(list_length(func->args) != 1 ||
		 exprType(linitial(func->args)) != REGCLASSOID))
		return;

	if (func->funcid == F_NEXTVAL)
		plan->source = SOURCE_SEQUENCE;
	else
	{
		char	   *name = get_func_name(func->funcid);
		char	   *schema = get_namespace_name(get_func_namespace(func->funcid));

		if (name == NULL || strcmp(name, "nextval") != 0 ||
			schema == NULL || strcmp(schema, "snowflake") != 0 ||
			get_func_nargs(func->funcid) != 1)
			return;
		plan->source = SOURCE_PGEDGE;

		/* without an argument, of a sequence of that extension */
		if (func->args == NIL)
			return;
	}

	arg = linitial(func->args);
	if (IsA(arg, Const) && !arg->constisnull &&
		get_rel_relkind(DatumGetObjectId(arg->constvalue)) == RELKIND_SEQUENCE)
		plan->sequence = DatumGetObjectId(arg->constvalue);
	else if (plan->source == SOURCE_SEQUENCE)
		plan->source = SOURCE_OTHER;
}

bool
is_small(Oid type)
{
	return type == INT2OID || type == INT4OID;
}

void
read_column(Conversion *plan)
{
	char	   *identity;

	if (ddl_query(psprintf("SELECT a.atttypid, a.attidentity, a.attgenerated <> '',"
						   " pg_get_expr(d.adbin, d.adrelid), d.adbin"
						   " FROM pg_attribute a LEFT JOIN pg_attrdef d"
						   " ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
						   " WHERE a.attrelid = %u AND a.attnum = %d",
						   plan->relid, plan->attnum)) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s was dropped concurrently", plan->table)));

	plan->type = ddl_value_oid(0, 1);
	identity = ddl_value(0, 2);
	plan->expression = ddl_value(0, 4);
	plan->sequence = InvalidOid;
	plan->tree = find_all_inheritors(plan->relid, NoLock, NULL);

	if (ddl_value_bool(0, 3))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("column %s is a generated column",
						column_name(plan->relid, plan->column)),
				 errdetail("GENERATED ALWAYS AS (%s)", plan->expression)));
	if (plan->type != INT8OID && !is_small(plan->type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column %s is of type %s, not smallint, integer or bigint",
						column_name(plan->relid, plan->column),
						format_type_be_qualified(plan->type))));

	if (identity[0] != '\0')
	{
		plan->source = SOURCE_IDENTITY;
		plan->expression = psprintf("GENERATED %s AS IDENTITY",
									identity[0] == 'a' ? "ALWAYS" : "BY DEFAULT");
	}
	else if (plan->expression != NULL)
		recognize_default(plan, stringToNode(ddl_value(0, 5)));
	else
		plan->source = SOURCE_NONE;
}

/*
 * What foreign keys connect a member m with, as a FROM item.  They are found by
 * what they depend on, as that has an index in both directions.
 */
#define LINKS \
	"(SELECT o.torel, o.toatt FROM pg_depend d" \
	" JOIN pg_constraint c ON c.oid = d.objid AND c.contype = 'f' AND c.conparentid = 0," \
	" unnest(c.conkey, c.confkey) AS k (att, confatt)," \
	" LATERAL (VALUES (c.conrelid, k.att, c.confrelid, k.confatt)," \
	"  (c.confrelid, k.confatt, c.conrelid, k.att)) AS o (rel, att, torel, toatt)" \
	" WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = m.rel AND d.refobjsubid = m.att" \
	" AND d.classid = 'pg_constraint'::regclass AND o.rel = m.rel AND o.att = m.att) AS link"

/*
 * The time for this goes with their number, and not with its square.  So only
 * where there are children are they looked for: the planner may do that by the
 * column's name alone.
 */
void
read_members(Conversion *plan)
{
	StringInfoData changing;
	uint64		n;

	n = ddl_query(psprintf(
						   "WITH RECURSIVE member (rel, att) AS ("
						   "  SELECT %u::oid, %d::int2"
						   "  UNION"
						   "  SELECT l.torel, l.toatt FROM member m CROSS JOIN LATERAL ("
						   "    SELECT torel, toatt FROM " LINKS
						   "    UNION ALL"
						   "    SELECT p.attrelid, p.attnum FROM pg_attribute c"
						   "    JOIN pg_inherits i ON i.inhrelid = c.attrelid"
						   "    JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = c.attname"
						   "    WHERE c.attrelid = m.rel AND c.attnum = m.att AND c.attinhcount > 0"
						   "    UNION ALL"
						   "    SELECT c.attrelid, c.attnum FROM pg_attribute p"
						   "    JOIN pg_inherits i ON i.inhparent = p.attrelid"
						   "    JOIN pg_attribute c ON c.attrelid = i.inhrelid AND c.attname = p.attname"
						   "    WHERE p.attrelid = m.rel AND p.attnum = m.att AND c.attinhcount > 0"
						   "     AND (SELECT t.relhassubclass FROM pg_class t WHERE t.oid = m.rel)"
						   "  ) AS l"
						   ")"
						   " SELECT m.rel, m.att, a.attname, a.atttypid, a.attinhcount,"
						   "  (SELECT min(i.inhparent::int8) FROM pg_inherits i WHERE i.inhrelid = m.rel AND a.attinhcount > 0"
						   "   AND EXISTS (SELECT FROM pg_attribute p WHERE p.attrelid = i.inhparent AND p.attname = a.attname)),"
						   "  c.relkind, c.reloftype <> 0,"
						   "  EXISTS (SELECT FROM " LINKS " JOIN pg_attribute t ON t.attrelid = torel AND t.attnum = toatt"
						   "          WHERE t.atttypid IN (%u, %u))"
						   " FROM member m JOIN pg_class c ON c.oid = m.rel"
						   " JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.att"
						   " ORDER BY a.attinhcount > 0, m.rel, m.att",
						   plan->relid, plan->attnum, INT2OID, INT4OID));

	plan->members = palloc0(sizeof(Member) * n);
	plan->nmembers = (int) n;
	plan->retype = false;
	initStringInfo(&changing);
	for (uint64 i = 0; i < n; i++)
	{
		Member	   *m = &plan->members[i];

		m->relid = ddl_value_oid(i, 1);
		m->attnum = (AttrNumber) atoi(ddl_value(i, 2));
		m->column = ddl_value(i, 3);
		m->type = ddl_value_oid(i, 4);
		m->nparents = atoi(ddl_value(i, 5));
		m->parent = ddl_value_oid(i, 6);
		m->relkind = ddl_value(i, 7)[0];
		m->typed = ddl_value_bool(i, 8);
		m->adjacent = ddl_value_bool(i, 9);
		if (is_small(m->type))
		{
			appendStringInfo(&changing, "%s(%u::oid, %d::int2)",
							 plan->retype ? ", " : "(VALUES ",
							 m->relid, m->attnum);
			plan->retype = true;
		}
	}
	appendStringInfoString(&changing, ") AS m (rel, att)");
	plan->changing = changing.data;

	/* on the way back to a sequence no type changes */
	if (plan->to_sequence)
		plan->retype = false;
}

Member *
find_member(Conversion *plan, Oid relid, const char *column)
{
	for (int i = 0; i < plan->nmembers; i++)
	{
		if (plan->members[i].relid == relid &&
			strcmp(plan->members[i].column, column) == 0)
			return &plan->members[i];
	}
	return NULL;
}

bool
is_changing(Conversion *plan, Member *m)
{
	return plan->retype && is_small(m->type);
}

bool
is_touched(Conversion *plan, Member *m)
{
	return is_changing(plan, m) || (plan->retype && m->adjacent) ||
		list_member_oid(plan->tree, m->relid);
}
