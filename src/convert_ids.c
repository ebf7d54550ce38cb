/*-------------------------------------------------------------------------
 *
 * convert.c
 *		snowflake_convert(): let an existing column draw snowflake IDs, or a
 *		sequence's again.
 *
 * First it makes a plan: the statements, and what was found, in rows.  That
 * only reads, and is all that a dry run does.  The real run locks the tables
 * of the plan, makes it again, since things may have changed until then, and
 * when the lock is still the right one, runs it.
 *
 * The statements are what a person would write.  No catalog is updated, and
 * nobody else's rights are used.
 *
 * The columns that change their type are those connected by foreign keys and
 * inheritance, whichever way and however far; here they are "members".
 *
 * Locking: ACCESS EXCLUSIVE on all tables concerned, by one LOCK TABLE, parents
 * before children as everybody does, and otherwise by OID, so that two of
 * these do not wait for each other.  The durable mark is raised with these
 * locks held, by the background worker.  It needs none of them: it works on
 * the home database's sequence only.  The wait for it is bounded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "lease.h"
#include "reserve.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_convert);

typedef enum RowKind
{
	ROW_ERROR,
	ROW_STATEMENT,
	ROW_WARNING,
	ROW_NOTE
} RowKind;

static const char *const row_kinds[] = {"error", "statement", "warning", "note"};

/* A row of the result. */
typedef struct Row
{
	const char *command;		/* of a statement */
	const char *detail;
	const char *definition;		/* of what is in the way, or NULL */
	const char *hint;			/* or NULL */
	int			sqlerrcode;		/* of an error */
	bool		is_advance;		/* it raises the durable mark */
} Row;

/* Where the column's values come from now. */
typedef enum Source
{
	SOURCE_NONE,
	SOURCE_IDENTITY,
	SOURCE_SEQUENCE,			/* nextval() of a sequence */
	SOURCE_PGEDGE,				/* snowflake.nextval() of a sequence */
	SOURCE_SNOWFLAKE,			/* snowflake_nextval() */
	SOURCE_OTHER
} Source;

/* A column that is connected with the one to be converted, or is it. */
typedef struct Member
{
	Oid			relid;
	AttrNumber	attnum;
	char	   *column;
	Oid			type;
	Oid			parent;			/* a table that it inherits the column from */
	int			nparents;
	char		relkind;
	bool		typed;			/* of a typed table */
	bool		adjacent;		/* a foreign key connects it with one that
								 * changes its type */
} Member;

typedef struct Conversion
{
	Oid			relid;
	AttrNumber	attnum;
	char	   *column;
	char	   *table;			/* with schema and quotes */
	Oid			schema;			/* of this extension */
	bool		to_sequence;	/* the way back */

	Oid			type;
	Source		source;
	char	   *expression;		/* the default, NULL if there is none */
	Oid			sequence;		/* that it draws from */
	List	   *tree;			/* OIDs: the table and its descendants */

	Member	   *members;
	int			nmembers;
	char	   *changing;		/* those to become bigint, as a FROM item */
	bool		retype;			/* are there any? */

	bool		with_ids;		/* look at the IDs? */
	bool		has_ids;
	int64		min_id;
	int64		max_id;
	uint64		advance_to;		/* 0, or a time unit */

	char	   *lock;			/* the LOCK statement */
	List	   *rows[lengthof(row_kinds)];
} Conversion;

/*
 * Rows
 */

static Row *
add_row(Conversion *plan, RowKind kind, const char *detail)
{
	Row		   *row = palloc0(sizeof(Row));

	row->detail = detail;
	plan->rows[kind] = lappend(plan->rows[kind], row);
	return row;
}

static Row *
add_error(Conversion *plan, int sqlerrcode, const char *detail)
{
	Row		   *row = add_row(plan, ROW_ERROR, detail);

	row->sqlerrcode = sqlerrcode;
	return row;
}

static Row *
add_statement(Conversion *plan, const char *command, const char *detail)
{
	Row		   *row = add_row(plan, ROW_STATEMENT, detail);

	row->command = command;
	return row;
}

/*
 * What stands in the way as one ERROR.
 */
static void
raise_errors(Conversion *plan)
{
	StringInfoData detail;
	Row		   *first;

	if (plan->rows[ROW_ERROR] == NIL)
		return;

	first = linitial(plan->rows[ROW_ERROR]);
	initStringInfo(&detail);
	for (int i = 0; i < list_length(plan->rows[ROW_ERROR]); i++)
	{
		Row		   *row = list_nth(plan->rows[ROW_ERROR], i);

		if (i > 0)
			appendStringInfo(&detail, "%sAlso: %s", i > 1 || first->definition ? "\n" : "",
							 row->detail);
		if (row->definition)
			appendStringInfo(&detail, "%s%s", i > 0 ? ":\n" : "", row->definition);
	}

	ereport(ERROR,
			(errcode(first->sqlerrcode),
			 errmsg("%s", first->detail),
			 detail.len > 0 ? errdetail("%s", detail.data) : 0,
			 first->hint ? errhint("%s", first->hint) : 0));
}

/*
 * Reading the catalogs
 */

/* the OIDs of a list as an array constant */
static char *
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

/*
 * The table and column of the call.  What is no table to work on is an ERROR
 * at once.
 */
static void
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

	LockRelationOid(plan->relid, AccessShareLock);
	if (get_rel_relkind(plan->relid) != relkind)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" was dropped concurrently", name)));

	plan->attnum = get_attnum(plan->relid, plan->column);
	if (plan->attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						plan->column, get_rel_name(plan->relid))));
	if (plan->attnum < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot alter system column \"%s\"", plan->column)));
	plan->table = ddl_name(plan->relid);
}

/* table.column, with quotes */
static char *
column_name(Oid relid, const char *column)
{
	return psprintf("%s.%s", ddl_name(relid), quote_identifier(column));
}

/*
 * Take a default apart.
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
	if (func->args == NIL)
	{
		if (func->funcid == LookupFuncName(names, 0, NULL, false))
			plan->source = SOURCE_SNOWFLAKE;
		return;
	}

	if (list_length(func->args) != 1 ||
		exprType(linitial(func->args)) != REGCLASSOID)
		return;

	if (func->funcid == F_NEXTVAL)
		plan->source = SOURCE_SEQUENCE;
	else
	{
		char	   *name = get_func_name(func->funcid);
		char	   *schema = get_namespace_name(get_func_namespace(func->funcid));

		if (name == NULL || strcmp(name, "nextval") != 0 ||
			schema == NULL || strcmp(schema, "snowflake") != 0)
			return;
		plan->source = SOURCE_PGEDGE;
	}

	arg = linitial(func->args);
	if (IsA(arg, Const) && !arg->constisnull &&
		get_rel_relkind(DatumGetObjectId(arg->constvalue)) == RELKIND_SEQUENCE)
		plan->sequence = DatumGetObjectId(arg->constvalue);
	else if (plan->source == SOURCE_SEQUENCE)
		plan->source = SOURCE_OTHER;
}

/* Is it one that has to become bigint? */
static bool
is_small(Oid type)
{
	return type == INT2OID || type == INT4OID;
}

/*
 * What the column is.  What no statement could make an ID is an ERROR at once.
 */
static void
read_column(Conversion *plan)
{
	char	   *identity;

	if (ddl_query(psprintf("SELECT a.atttypid, a.attidentity, a.attgenerated <> '',"
						   " pg_get_expr(d.adbin, d.adrelid), d.adbin"
						   " FROM pg_attribute a LEFT JOIN pg_attrdef d"
						   " ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
						   " WHERE a.attrelid = %u AND a.attnum = %d",
						   plan->relid, plan->attnum)) != 1)
		elog(ERROR, "cannot read column %d of relation %u",
			 plan->attnum, plan->relid);

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
 * Find the members.  Foreign keys of partitions that come from the parent's
 * are found by way of the parent.
 */
static void
read_members(Conversion *plan)
{
	StringInfoData changing;
	uint64		n;

	n = ddl_query(psprintf(
						   "WITH RECURSIVE key AS ("
						   "  SELECT c.conrelid, c.confrelid, k.att, k.confatt"
						   "  FROM pg_constraint c, unnest(c.conkey, c.confkey) AS k (att, confatt)"
						   "  WHERE c.contype = 'f' AND c.conparentid = 0"
						   "), link AS MATERIALIZED ("
						   "  SELECT conrelid AS rel, att, confrelid AS torel, confatt AS toatt FROM key"
						   "  UNION"
						   "  SELECT confrelid, confatt, conrelid, att FROM key"
						   "), member (rel, att) AS ("
						   "  SELECT %u::oid, %d::int2"
						   "  UNION"
						   "  SELECT l.torel, l.toatt FROM member m CROSS JOIN LATERAL ("
						   "    SELECT torel, toatt FROM link WHERE link.rel = m.rel AND link.att = m.att"
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
						   "  ) AS l"
						   ")"
						   " SELECT m.rel, m.att, a.attname, a.atttypid, a.attinhcount,"
						   "  (SELECT min(i.inhparent::int8) FROM pg_inherits i WHERE i.inhrelid = m.rel AND a.attinhcount > 0"
						   "   AND EXISTS (SELECT FROM pg_attribute p WHERE p.attrelid = i.inhparent AND p.attname = a.attname)),"
						   "  c.relkind, c.reloftype <> 0,"
						   "  EXISTS (SELECT FROM link l JOIN pg_attribute t ON t.attrelid = l.torel AND t.attnum = l.toatt"
						   "          WHERE l.rel = m.rel AND l.att = m.att AND t.atttypid IN (%u, %u))"
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

	/* on the way back nothing does */
	if (plan->to_sequence)
		plan->retype = false;
}

/* Does the plan change the member's type? */
static bool
is_changing(Conversion *plan, Member *m)
{
	return plan->retype && is_small(m->type);
}

/* Does it do anything to the member's table? */
static bool
is_touched(Conversion *plan, Member *m)
{
	return is_changing(plan, m) || (plan->retype && m->adjacent) ||
		list_member_oid(plan->tree, m->relid);
}

/*
 * What stands in the way
 */

/*
 * The server does not change the type of a column that these depend on.  Views
 * that use such a view are shown too, as they have to go and come with it.
 */
static void
find_dependents(Conversion *plan)
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
						   "    (SELECT format('WHERE %%s', pg_get_expr(p.prqual, p.prrelid)) FROM pg_publication_rel p WHERE p.oid = f.objid)"
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
		row->hint = "Drop what is in the way, convert the column, and make it again, in one transaction.";
	}

	/* tables that have a whole row of such a table in a column */
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

/*
 * What is wrong with the members themselves.
 */
static void
check_members(Conversion *plan)
{
	List	   *checked = NIL;	/* OIDs: whose owner was looked at */

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

/*
 * SET DEFAULT on a table is one on its descendants.  What have these now?
 */
static void
check_descendants(Conversion *plan)
{
	uint64		n;
	Member	   *target = NULL;

	for (int i = 0; i < plan->nmembers; i++)
	{
		if (plan->members[i].relid == plan->relid &&
			plan->members[i].attnum == plan->attnum)
			target = &plan->members[i];
	}
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

/*
 * pg_dump leaves a table of an extension to its script.
 */
static void
check_extension(Conversion *plan)
{
	Oid			extension = getExtensionOfObject(RelationRelationId, plan->relid);

	if (OidIsValid(extension))
		add_row(plan, ROW_WARNING,
				psprintf("%s belongs to extension %s: pg_dump does not take the change along",
						 plan->table, quote_identifier(get_extension_name(extension))));
}

/*
 * Is the IDs' server able to draw any?
 */
static void
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
			"Add \"snowflake\" to \"shared_preload_libraries\" and restart the server.";
	if (settings_need_lease() && !lease_is_used())
		add_error(plan, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				  "\"snowflake.node_id\" is not set, so no ID could be drawn")->hint =
			"Set \"snowflake.node_id\" to a number that no other server has, and restart the server.";
}

/*
 * The IDs that there are
 */

/*
 * Read the smallest and the largest ID, descendants included.
 */
static void
read_ids(Conversion *plan)
{
	char	   *column = pstrdup(quote_identifier(plan->column));

	plan->has_ids = false;
	if (!plan->with_ids)
		return;

	if (pg_class_aclcheck(plan->relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck(plan->relid, plan->attnum, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
	{
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("permission denied to read the IDs of table %s", plan->table));
		return;
	}
	if (check_enable_rls(plan->relid, InvalidOid, true) == RLS_ENABLED)
	{
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("row-level security may hide IDs of table %s from role %s",
						   plan->table, quote_identifier(GetUserNameFromId(GetUserId(), false))))->hint =
			psprintf("Run ALTER TABLE %s NO FORCE ROW LEVEL SECURITY meanwhile, or convert it as a role that bypasses row-level security.",
					 plan->table);
		return;
	}

	if (ddl_query(psprintf("SELECT min(%s)::int8, max(%s)::int8 FROM %s",
						   column, column, plan->table)) != 1)
		elog(ERROR, "cannot read the IDs of %s", plan->table);
	if (ddl_value(0, 1) == NULL)
		return;
	plan->has_ids = true;
	plan->min_id = strtoll(ddl_value(0, 1), NULL, 10);
	plan->max_id = strtoll(ddl_value(0, 2), NULL, 10);
}

/*
 * When the time unit of an ID begins.
 */
static TimestampTz
unit_start(uint64 unit)
{
	TimestampTz ts;

	return clock_timestamp_of_unit(unit, &ts) ? ts : DT_NOEND;
}

static char *
show(TimestampTz ts)
{
	return pstrdup(timestamptz_to_str(ts));
}

/*
 * Must the durable mark be raised for new IDs to be above those that there
 * are, and may it be?
 *
 * Up to the clock, and up to what was issued, is where drawing an ID puts the
 * mark, too, which anyone may.  Ahead of that it keeps the whole server from
 * drawing, which takes the right to snowflake_advance().
 */
static void
plan_advance(Conversion *plan)
{
	char	   *maximum = psprintf("max(%s) = " INT64_FORMAT,
								   quote_identifier(plan->column), plan->max_id);
	char	   *advance = psprintf("%s(%s)",
								   quote_qualified_identifier(get_namespace_name(plan->schema), "snowflake_advance"),
								   psprintf(INT64_FORMAT, plan->max_id));
	uint64		node = (uint64) Max(lease_node(), 0);
	uint64		floor;
	uint64		unit;
	TimestampTz now = clock_read();
	TimestampTz ts;
	Row		   *row;

	plan->advance_to = 0;
	if (!plan->has_ids)
		return;

	if (plan->min_id < 0)
		add_row(plan, ROW_WARNING,
				psprintf("there are negative IDs (min(%s) = " INT64_FORMAT "), which snowflake_parse() and snowflake_timestamp() cannot read",
						 quote_identifier(plan->column), plan->min_id));
	if (plan->max_id < 0)
		return;

	if (plan->max_id > layout_max_id(&snowflake_layout))
	{
		add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
				  psprintf("%s is above all IDs of the layout \"%s\", which end at " INT64_FORMAT,
						   maximum, snowflake_layout_text,
						   layout_max_id(&snowflake_layout)));
		return;
	}
	if (shared == NULL || RecoveryInProgress())
		return;

	/* Below the floor no ID is issued.  Where it is not read yet, it is 1. */
	floor = Max(pg_atomic_read_u64(&shared->reserve.floor), 1);
	floor = Min(floor, snowflake_layout.max[FIELD_TIME]);
	if (layout_pack(&snowflake_layout, floor, node, 0, 0) > plan->max_id)
		return;

	if (!layout_unit_above(&snowflake_layout, node, plan->max_id, &unit))
	{
		add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
				  unit > snowflake_layout.max[FIELD_TIME] ?
				  psprintf("%s is in the last time unit of the layout \"%s\": no ID would be left above it",
						   maximum, snowflake_layout_text) :
				  psprintf("%s is above later IDs of this server, by a field above the time in the layout \"%s\"",
						   maximum, snowflake_layout_text));
		return;
	}

	ts = unit_start(unit);
	if (ts > now + MAX_DRIFT_US)
	{
		row = add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
						psprintf("%s reads as an ID of %s, ahead of the clock: no ID above it could be drawn before",
								 maximum, show(unit_start(unit - 1))));
		row->definition = psprintf("The %s shows %s.", clock_name(), show(now));

		/* how much earlier the epoch would have to be */
		if (ts != DT_NOEND && snowflake_epoch - (ts - now) > -UNIX_EPOCH_US)
			row->hint = psprintf("If these IDs were drawn with another epoch, set \"snowflake.epoch\" to it. New IDs are above them with an epoch before %s. It can be set as long as this server has drawn no ID.",
								 show(snowflake_epoch - (ts - now)));
		return;
	}

	if (ts > now && !(reserve_is_open() && ts <= reserve_issued_until()))
	{
		List	   *names = list_make2(makeString(get_namespace_name(plan->schema)),
									   makeString(pstrdup("snowflake_advance")));
		Oid			arg = INT8OID;

		if (ddl_query(psprintf("SELECT has_function_privilege(%u, 'EXECUTE')",
							   LookupFuncName(names, 1, &arg, false))) != 1 ||
			!ddl_value_bool(0, 1))
		{
			row = add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
							psprintf("permission denied to put the durable mark ahead of the clock, to %s", show(ts)));
			row->definition = psprintf("%s reads as an ID of %s. The %s shows %s.",
									   maximum, show(unit_start(unit - 1)),
									   clock_name(), show(now));
			row->hint = "Wait until the clock is there, or convert it as a role that may execute snowflake_advance().";
			return;
		}
	}

	plan->advance_to = unit;
	row = add_statement(plan, psprintf("SELECT %s", advance),
						psprintf("new IDs begin at %s, to be above %s; the durable mark stays there after a rollback, too",
								 show(ts), maximum));
	row->is_advance = true;
}

/*
 * The statements
 */

/*
 * One LOCK for all tables that are touched.  It takes their descendants along.
 */
static void
plan_lock(Conversion *plan)
{
	StringInfoData lock;
	List	   *covered = NIL;
	bool		below = false;	/* are there tables below these? */

	/* members come with the roots first */
	initStringInfo(&lock);
	for (int i = 0; i < plan->nmembers; i++)
	{
		Member	   *m = &plan->members[i];

		if (!is_touched(plan, m) || list_member_oid(covered, m->relid))
			continue;
		if (OidIsValid(m->parent) && m->relid != plan->relid)
		{
			bool		with_parent = false;

			for (int j = 0; j < plan->nmembers; j++)
			{
				if (plan->members[j].relid == m->parent &&
					is_touched(plan, &plan->members[j]))
					with_parent = true;
			}
			if (with_parent)
			{
				below = true;
				continue;
			}
		}
		covered = lappend_oid(covered, m->relid);
		appendStringInfo(&lock, "%s%s", lock.len > 0 ? ", " : "", ddl_name(m->relid));
	}
	plan->lock = psprintf("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", lock.data);
	add_statement(plan, plan->lock,
				  psprintf("ACCESS EXCLUSIVE lock on %s%s: nobody else reads or writes there until the end of the transaction",
						   lock.data,
						   below ? " and all tables below" : ""));
}

/*
 * What an ALTER TABLE costs.
 */
static char *
cost_of_alter(Conversion *plan, Oid relid, bool rewrite)
{
	List	   *tree = find_all_inheritors(relid, NoLock, NULL);
	char	   *array = oid_array(tree);
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "ACCESS EXCLUSIVE lock on %s", ddl_name(relid));
	if (list_length(tree) > 1)
		appendStringInfo(&buf, " and the tables below, %d, to which it applies too",
						 list_length(tree) - 1);
	if (!rewrite)
	{
		appendStringInfoString(&buf, "; no rewrite");
		return buf.data;
	}

	if (ddl_query(psprintf(
						   "SELECT count(*) FILTER (WHERE c.relkind = 'r'),"
						   " pg_size_pretty(coalesce(sum(pg_table_size(c.oid)) FILTER (WHERE c.relkind = 'r'), 0)),"
						   " (SELECT count(*) FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid"
						   "  WHERE t.relkind = 'r' AND t.oid = ANY (%s)),"
						   " (SELECT count(*) FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0"
						   "  AND EXISTS (SELECT FROM %s WHERE m.rel = ANY (%s) AND"
						   "   (k.conrelid = m.rel AND m.att = ANY (k.conkey) OR k.confrelid = m.rel AND m.att = ANY (k.confkey))))"
						   " FROM pg_class c WHERE c.oid = ANY (%s)",
						   array, plan->changing, array, array)) != 1)
		elog(ERROR, "cannot read pg_class");

	if (strcmp(ddl_value(0, 1), "1") == 0)
		appendStringInfo(&buf, "; rewrites the table (%s)", ddl_value(0, 2));
	else
		appendStringInfo(&buf, "; rewrites %s tables (%s)", ddl_value(0, 1), ddl_value(0, 2));
	if (strcmp(ddl_value(0, 3), "0") != 0)
		appendStringInfo(&buf, " and %s index%s", ddl_value(0, 3),
						 strcmp(ddl_value(0, 3), "1") == 0 ? "" : "es");
	if (strcmp(ddl_value(0, 4), "0") != 0)
		appendStringInfo(&buf, "; makes %s foreign key%s anew and checks %s", ddl_value(0, 4),
						 strcmp(ddl_value(0, 4), "1") == 0 ? "" : "s",
						 strcmp(ddl_value(0, 4), "1") == 0 ? "it" : "them");
	return buf.data;
}

/*
 * The ALTER TABLEs: the table itself, then the others.  A table is rewritten
 * once.
 */
static void
plan_alter(Conversion *plan, const char *new_default)
{
	List	   *done = NIL;

	for (int i = -1; i < plan->nmembers; i++)
	{
		Oid			relid = i < 0 ? plan->relid : plan->members[i].relid;
		bool		rewrite = false;
		char	   *cost;
		StringInfoData alter;

		if (list_member_oid(done, relid))
			continue;
		done = lappend_oid(done, relid);

		initStringInfo(&alter);
		if (relid == plan->relid && new_default && plan->source == SOURCE_IDENTITY)
			appendStringInfo(&alter, ", ALTER COLUMN %s DROP IDENTITY",
							 quote_identifier(plan->column));
		for (int j = 0; j < plan->nmembers; j++)
		{
			Member	   *m = &plan->members[j];

			if (m->relid != relid || !is_changing(plan, m) || m->nparents > 0)
				continue;
			appendStringInfo(&alter, ", ALTER COLUMN %s TYPE bigint",
							 quote_identifier(m->column));
			rewrite = true;
		}
		if (relid == plan->relid && new_default)
			appendStringInfo(&alter, ", ALTER COLUMN %s SET DEFAULT %s",
							 quote_identifier(plan->column), new_default);
		if (alter.len == 0)
			continue;
		cost = cost_of_alter(plan, relid, rewrite);
		if (relid == plan->relid && new_default && plan->source == SOURCE_IDENTITY)
			cost = psprintf("%s; drops the sequence of the identity column", cost);
		add_statement(plan,
					  psprintf("ALTER TABLE %s %s", ddl_name(relid), alter.data + 2),
					  cost);
	}
}

/*
 * What uses a sequence, but for this column's defaults, here and below, as a
 * list in words.  NULL when nothing does.
 */
static char *
sequence_users(Conversion *plan, Oid sequence)
{
	StringInfoData users;
	uint64		n;

	n = ddl_query(psprintf(
						   "SELECT DISTINCT CASE WHEN r.oid IS NULL THEN pg_describe_object(d.classid, d.objid, d.objsubid)"
						   "  ELSE pg_describe_object('pg_class'::regclass, r.ev_class, 0) END"
						   " FROM pg_depend d"
						   " LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid"
						   " LEFT JOIN pg_attrdef x ON d.classid = 'pg_attrdef'::regclass AND x.oid = d.objid"
						   " LEFT JOIN pg_attribute a ON a.attrelid = x.adrelid AND a.attnum = x.adnum"
						   " WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = %u"
						   " AND (a.attname = %s AND x.adrelid = ANY (%s)) IS NOT TRUE"
						   " AND d.deptype <> 'i'"
						   " ORDER BY 1",
						   sequence, quote_literal_cstr(plan->column),
						   oid_array(plan->tree)));
	if (n == 0)
		return NULL;

	initStringInfo(&users);
	for (uint64 i = 0; i < n; i++)
		appendStringInfo(&users, "%s%s", i > 0 ? ", " : "", ddl_value(i, 1));
	return users.data;
}

/*
 * The sequence of an identity column goes with that.  May it?
 */
static void
check_identity_sequence(Conversion *plan)
{
	Oid			sequence;
	char	   *users;

	if (plan->source != SOURCE_IDENTITY ||
		ddl_query(psprintf("SELECT d.objid FROM pg_depend d"
						   " JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'"
						   " WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'i'"
						   " AND d.refclassid = 'pg_class'::regclass AND d.refobjid = %u AND d.refobjsubid = %d",
						   plan->relid, plan->attnum)) != 1)
		return;
	sequence = ddl_value_oid(0, 1);
	users = sequence_users(plan, sequence);
	if (users)
		add_error(plan, ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
				  psprintf("sequence %s of the identity column is used by %s",
						   ddl_name(sequence), users));
}

/*
 * The sequence that the column drew from: drop it when it is the column's own
 * and nobody else's.
 */
static void
plan_drop_sequence(Conversion *plan)
{
	char	   *name;
	char	   *users;
	bool		internal;
	Oid			owner_table;
	int32		owner_column;

	if (!OidIsValid(plan->sequence))
		return;
	name = ddl_name(plan->sequence);

	internal = sequenceIsOwned(plan->sequence, DEPENDENCY_INTERNAL, &owner_table, &owner_column);
	if (!internal &&
		!sequenceIsOwned(plan->sequence, DEPENDENCY_AUTO, &owner_table, &owner_column))
		add_row(plan, ROW_NOTE,
				psprintf("sequence %s stays: no column owns it", name));
	else if (owner_table != plan->relid || owner_column != plan->attnum)
		add_row(plan, ROW_NOTE,
				psprintf("sequence %s stays: it belongs to column %s", name,
						 column_name(owner_table, get_attname(owner_table, owner_column, false))));

	/* pgEdge's function takes the identity from a column, and leaves this */
	else if (internal)
		add_row(plan, ROW_WARNING,
				psprintf("sequence %s stays, as what is left of an identity column: it cannot be dropped before the column, and pg_dump writes what cannot be restored; the README says how to mend that",
						 name));
	else if (OidIsValid(getExtensionOfObject(RelationRelationId, plan->sequence)))
		add_row(plan, ROW_NOTE,
				psprintf("sequence %s stays: it belongs to extension %s", name,
						 quote_identifier(get_extension_name(getExtensionOfObject(RelationRelationId, plan->sequence)))));
	else if ((users = sequence_users(plan, plan->sequence)) != NULL)
		add_row(plan, ROW_NOTE,
				psprintf("sequence %s stays: used by %s", name, users));
	else
		add_statement(plan, psprintf("DROP SEQUENCE %s", name),
					  psprintf("ACCESS EXCLUSIVE lock on %s; no other object of this database depends on it, but functions and clients may use it by name",
							   name));
}

/*
 * To snowflake_nextval().
 */
static void
plan_to_snowflake(Conversion *plan)
{
	char	   *new_default = psprintf("%s()",
									   quote_qualified_identifier(get_namespace_name(plan->schema),
																  "snowflake_nextval"));
	uint64		n;

	check_members(plan);
	if (plan->source != SOURCE_SNOWFLAKE)
		check_descendants(plan);
	if (plan->retype)
		find_dependents(plan);
	check_identity_sequence(plan);

	if (plan->source == SOURCE_SNOWFLAKE)
	{
		add_row(plan, ROW_NOTE,
				psprintf("column %s draws snowflake IDs already%s",
						 column_name(plan->relid, plan->column),
						 plan->retype ? "" : ": nothing to do"));
		new_default = NULL;
	}
	if (new_default || plan->retype)
	{
		plan_lock(plan);
		if (new_default || is_small(plan->type))
		{
			read_ids(plan);
			plan_advance(plan);
		}
		plan_alter(plan, new_default);
		if (new_default)
			plan_drop_sequence(plan);
	}
	if (!new_default && !plan->retype)
		return;

	if (plan->source == SOURCE_OTHER)
		add_row(plan, ROW_WARNING,
				psprintf("the default %s goes", plan->expression));
	if (plan->source == SOURCE_PGEDGE)
		add_row(plan, ROW_NOTE,
				"IDs of pgEdge's extension are read by snowflake_parse(id, 'pgedge'); snowflake_parse(id) and snowflake_timestamp() read them right only where \"snowflake.layout\" is \"pgedge\"");
	else if (new_default && plan->has_ids && plan->max_id >= 0 &&
			 plan->max_id <= layout_max_id(&snowflake_layout))
		add_row(plan, ROW_NOTE,
				psprintf("IDs up to now stay as they are, below all new ones; those that a sequence gave have no time in them: snowflake_timestamp() reads %s in max(%s) = " INT64_FORMAT,
						 show(unit_start(layout_unpack(&snowflake_layout, plan->max_id, FIELD_TIME))),
						 quote_identifier(plan->column), plan->max_id));

	n = ddl_query(psprintf("SELECT DISTINCT c.confrelid::regclass::text FROM pg_constraint c"
						   " WHERE c.contype = 'f' AND c.conparentid = 0 AND c.conrelid = %u AND %d = ANY (c.conkey)"
						   " ORDER BY 1",
						   plan->relid, plan->attnum));
	for (uint64 i = 0; i < n; i++)
		add_row(plan, ROW_WARNING,
				psprintf("column %s references %s, where a new ID is not found: inserts that take the default fail",
						 column_name(plan->relid, plan->column), ddl_value(i, 1)));

	if (plan->source == SOURCE_IDENTITY || plan->source == SOURCE_SEQUENCE ||
		plan->source == SOURCE_PGEDGE)
		add_row(plan, ROW_WARNING,
				"currval() and lastval() no longer return the IDs of this column: use RETURNING, or snowflake_currval()");
	add_row(plan, ROW_WARNING,
			plan->retype ?
			"clients must read the IDs as 64-bit integers, where 32 bits were enough; JavaScript's numbers hold 53 bits" :
			"new IDs have more than 53 bits, which is what JavaScript's numbers hold: give them the IDs as text");
	if (plan->retype)
		add_row(plan, ROW_NOTE,
				"the columns that change their type have no planner statistics until the next ANALYZE");
}

/*
 * Back to a sequence.
 */
static void
plan_to_sequence(Conversion *plan)
{
	Oid			namespace = get_rel_namespace(plan->relid);
	char	   *name = NULL;
	char	   *owned_by = column_name(plan->relid, plan->column);
	char	   *schema = get_namespace_name_or_temp(namespace);
	const char *persistence;
	Oid			owner;
	int64		start;
	uint64		n;

	if (plan->source == SOURCE_IDENTITY || plan->source == SOURCE_SEQUENCE)
	{
		add_row(plan, ROW_NOTE,
				psprintf("column %s draws from a sequence already: nothing to do", owned_by));
		return;
	}
	if (plan->source == SOURCE_OTHER || plan->source == SOURCE_PGEDGE)
	{
		add_error(plan, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				  psprintf("column %s does not draw snowflake IDs of this extension", owned_by))->definition =
			psprintf("Its default is %s.", plan->expression);
		return;
	}
	if (plan->type != INT8OID)
	{
		add_error(plan, ERRCODE_DATATYPE_MISMATCH,
				  psprintf("column %s is of type %s, not bigint",
						   owned_by, format_type_be_qualified(plan->type)));
		return;
	}

	check_members(plan);
	check_descendants(plan);

	plan_lock(plan);
	read_ids(plan);
	if (plan->has_ids && plan->max_id == PG_INT64_MAX)
	{
		add_error(plan, ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
				  psprintf("max(%s) is " INT64_FORMAT ", the largest bigint: no number is left for a sequence",
						   quote_identifier(plan->column), plan->max_id));
		return;
	}
	start = plan->has_ids ? Max(plan->max_id + 1, 1) : 1;

	if (ddl_query(psprintf("SELECT relowner, relpersistence FROM pg_class WHERE oid = %u",
						   plan->relid)) != 1)
		elog(ERROR, "cannot read pg_class");
	owner = ddl_value_oid(0, 1);
	persistence = ddl_value(0, 2);
	if (ddl_query(psprintf("SELECT has_schema_privilege(%u, 'CREATE'), has_schema_privilege(%u, %u, 'CREATE')",
						   namespace, owner, namespace)) != 1)
		elog(ERROR, "cannot read pg_namespace");
	if (!ddl_value_bool(0, 1))
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("permission denied to make a sequence in schema %s", quote_identifier(schema)));
	else if (!ddl_value_bool(0, 2) && !superuser())
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("the owner of table %s may not have a sequence in schema %s",
						   plan->table, quote_identifier(schema)));

	name = ChooseRelationName(get_rel_name(plan->relid), plan->column, "seq",
							  namespace, false);
	name = quote_qualified_identifier(schema, name);
	if (owner == GetUserId())
		add_statement(plan,
					  psprintf("CREATE %sSEQUENCE %s AS bigint START WITH " INT64_FORMAT " OWNED BY %s",
							   persistence[0] == RELPERSISTENCE_TEMP ? "TEMPORARY " :
							   persistence[0] == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
							   name, start, owned_by),
					  "makes the sequence, which goes on above the largest ID; no rewrite");
	else
	{
		add_statement(plan,
					  psprintf("CREATE %sSEQUENCE %s AS bigint START WITH " INT64_FORMAT,
							   persistence[0] == RELPERSISTENCE_TEMP ? "TEMPORARY " :
							   persistence[0] == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
							   name, start),
					  "makes the sequence, which goes on above the largest ID; no rewrite");
		add_statement(plan,
					  psprintf("ALTER SEQUENCE %s OWNER TO %s", name,
							   quote_identifier(GetUserNameFromId(owner, false))),
					  "the sequence belongs to the owner of the table");
		add_statement(plan,
					  psprintf("ALTER SEQUENCE %s OWNED BY %s", name, owned_by),
					  "it is dropped with the column");
	}

	/* as nextval() is checked, and snowflake_nextval() is not */
	n = ddl_query(psprintf("SELECT DISTINCT g.grantee = 0, quote_ident(pg_get_userbyid(g.grantee))"
						   " FROM (SELECT relacl FROM pg_class WHERE oid = ANY (%s)"
						   "  UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = ANY (%s)) AS a (acl),"
						   " aclexplode(a.acl) AS g"
						   " WHERE g.privilege_type = 'INSERT' AND g.grantee <> %u ORDER BY 1, 2",
						   oid_array(plan->tree), oid_array(plan->tree), owner));
	if (n > 0)
	{
		StringInfoData roles;

		initStringInfo(&roles);
		for (uint64 i = 0; i < n; i++)
			appendStringInfo(&roles, "%s%s", i > 0 ? ", " : "",
							 ddl_value_bool(i, 1) ? "PUBLIC" : ddl_value(i, 2));
		add_statement(plan,
					  psprintf("GRANT USAGE ON SEQUENCE %s TO %s", name, roles.data),
					  "who may insert rows may draw from the sequence");
	}

	add_statement(plan,
				  psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT nextval(%s::regclass)",
						   plan->table, quote_identifier(plan->column), quote_literal_cstr(name)),
				  cost_of_alter(plan, plan->relid, false));
	add_row(plan, ROW_NOTE,
			"IDs of the sequence are unique in this table only, and have no time in them");
	if (plan->source == SOURCE_SNOWFLAKE)
		add_row(plan, ROW_WARNING,
				"snowflake_currval() no longer returns the IDs of this column: use RETURNING, or currval()");
}

/*
 * Look at everything, and say what is to be done.
 */
static void
make_plan(Conversion *plan, bool with_ids)
{
	for (int kind = 0; kind < (int) lengthof(plan->rows); kind++)
		plan->rows[kind] = NIL;
	plan->lock = NULL;
	plan->with_ids = with_ids;
	check_target(plan);
	check_server(plan);
	check_extension(plan);
	read_column(plan);
	read_members(plan);
	if (plan->to_sequence)
		plan_to_sequence(plan);
	else
		plan_to_snowflake(plan);
}

static void
run(const char *command)
{
	MemoryContext caller = CurrentMemoryContext;

	ddl_run(command);
	MemoryContextSwitchTo(caller);
}

/*
 * Lock what the plan needs, until it is what a new plan needs too.
 */
static void
lock_and_plan(Conversion *plan)
{
	for (;;)
	{
		char	   *lock;

		make_plan(plan, false);
		raise_errors(plan);
		lock = plan->lock;
		if (lock == NULL)
			return;

		/* two who hold this one and want that one would wait for each other */
		UnlockRelationOid(plan->relid, AccessShareLock);
		run(lock);

		make_plan(plan, true);
		raise_errors(plan);
		if (plan->lock == NULL || strcmp(plan->lock, lock) == 0)
			return;
	}
}

static void
execute_plan(Conversion *plan)
{
	ListCell   *lc;

	foreach(lc, plan->rows[ROW_STATEMENT])
	{
		Row		   *row = lfirst(lc);

		if (row->is_advance)
			reserve_advance(plan->advance_to);
		else if (row->command != plan->lock)
			run(row->command);
	}
}

/*
 * snowflake_convert("table", "column", dry_run, target): step, kind, command,
 * detail
 */
Datum
snowflake_convert(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		dry_run = PG_GETARG_BOOL(2);
	char	   *target = text_to_cstring(PG_GETARG_TEXT_PP(3));
	MemoryContext caller = CurrentMemoryContext;
	Conversion *plan = palloc0(sizeof(Conversion));
	int			nestlevel;
	int			step = 0;
	const char *last_hint = NULL;

	plan->relid = PG_GETARG_OID(0);
	plan->column = pstrdup(NameStr(*PG_GETARG_NAME(1)));
	plan->schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	plan->to_sequence = strcmp(target, "bigserial") == 0;
	if (!plan->to_sequence && strcmp(target, "snowflake") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot convert to \"%s\"", target),
				 errhint("Available targets: snowflake, bigserial.")));
	if (!dry_run)
	{
		PreventCommandDuringRecovery("snowflake_convert()");
		PreventCommandIfReadOnly("snowflake_convert()");
	}

	InitMaterializedSRF(fcinfo, 0);

	nestlevel = ddl_begin();
	MemoryContextSwitchTo(caller);	/* the rows must outlive SPI */
	if (dry_run)
		make_plan(plan, true);
	else
	{
		lock_and_plan(plan);
		execute_plan(plan);
	}
	ddl_end(nestlevel);
	MemoryContextSwitchTo(caller);

	for (int kind = 0; kind < (int) lengthof(plan->rows); kind++)
	{
		ListCell   *lc;

		foreach(lc, plan->rows[kind])
		{
			Row		   *row = lfirst(lc);
			Datum		values[4];
			bool		nulls[4] = {false};
			const char *detail = row->detail;

			if (row->definition)
				detail = psprintf("%s:\n%s", detail, row->definition);
			if (row->hint && row->hint != last_hint)
				detail = psprintf("%s\nHint: %s", detail, row->hint);
			last_hint = row->hint;
			values[0] = Int32GetDatum(++step);
			values[1] = CStringGetTextDatum(row_kinds[kind]);
			nulls[2] = row->command == NULL;
			values[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(row->command);
			values[3] = CStringGetTextDatum(detail);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}
