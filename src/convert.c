/*-------------------------------------------------------------------------
 *
 * convert.c
 *		snowflake_convert(): give an existing column snowflake IDs by default,
 *		or the numbers of a sequence again.
 *
 * First it makes a plan: the statements, and what was found, in rows.  That
 * only reads, and is all that a dry run does.  The real run locks the tables
 * of the plan and then makes the plan again, since something may have changed
 * before they were locked.  When the new plan needs the same lock, it is run.
 *
 * The statements are what a person would write.  No catalog is updated, and
 * the statements run with the rights of the caller.
 *
 * The statements are planned here, and run by convert_run.c.  What they are
 * planned from is read by convert_columns.c, convert_check.c, convert_refuse.c,
 * convert_cost.c and convert_ids.c; convert_plan.c has the plan, which all of
 * them share.
 *
 * Locking: ACCESS EXCLUSIVE on all tables concerned, by one LOCK TABLE, parents
 * before children as other statements do, and otherwise by OID.  Nothing is
 * locked while the plan is made for that, and what a LOCK TABLE has locked is
 * given back before another one, so that two conversions do not wait for each
 * other.  Neither does a dry run wait for a table while it has another one:
 * what it takes is ACCESS SHARE, to read the IDs, and to measure tables that
 * nobody else has locked.  (The server locks what a view reads to show its
 * definition.  Then the view is in the way, and the call fails.)
 *
 * The durable mark is raised with these locks held, by the background worker.
 * That needs none of them: it writes the sequence in the home database only.
 * The wait for it is bounded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"

#include "compat.h"
#include "convert_check.h"
#include "convert_columns.h"
#include "convert_cost.h"
#include "convert_ids.h"
#include "convert_plan.h"
#include "convert_refuse.h"
#include "convert_run.h"
#include "ddl.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_convert);

/*
 * The statements
 */

/*
 * Does LOCK TABLE reach it from its parent?
 */
static bool
locked_with_parent(Conversion *plan, Member *m)
{
	if (!OidIsValid(m->parent) || m->relid == plan->relid)
		return false;
	for (int i = 0; i < plan->nmembers; i++)
	{
		if (plan->members[i].relid == m->parent &&
			is_touched(plan, &plan->members[i]))
			return true;
	}
	return false;
}

/*
 * The OIDs from a member's topmost ancestor down to itself.
 */
static List *
path_to(Conversion *plan, Member *m)
{
	List	   *path = NIL;

	while (m != NULL)
	{
		path = lcons_oid(m->relid, path);
		m = OidIsValid(m->parent) ? find_member(plan, m->parent, m->column) : NULL;
	}
	return path;
}

/*
 * In which order two tables are locked, of which these are the paths: as all
 * tables would be if each topmost ancestor was locked with its descendants,
 * level by level.  So it does not matter whether the ancestors are among those
 * that one conversion locks, and not among those of another one.
 */
static int
path_cmp(const ListCell *a, const ListCell *b)
{
	List	   *path_a = lfirst(a);
	List	   *path_b = lfirst(b);

	if (linitial_oid(path_a) == linitial_oid(path_b) &&
		list_length(path_a) != list_length(path_b))
		return list_length(path_a) - list_length(path_b);
	for (int i = 0; i < list_length(path_a); i++)
	{
		Oid			oid_a = list_nth_oid(path_a, i);
		Oid			oid_b = list_nth_oid(path_b, i);

		if (oid_a != oid_b)
			return oid_a < oid_b ? -1 : 1;
	}
	return 0;
}

/*
 * One LOCK for all tables that are touched.  LOCK locks their descendants, too.
 */
static void
plan_lock(Conversion *plan)
{
	StringInfoData lock;
	List	   *covered = NIL;
	List	   *paths = NIL;
	bool		below = false;	/* does it lock descendants? */

	for (int i = 0; i < plan->nmembers; i++)
	{
		Member	   *m = &plan->members[i];

		if (!is_touched(plan, m) || list_member_oid(covered, m->relid))
			continue;
		if (locked_with_parent(plan, m))
		{
			below = true;
			continue;
		}
		covered = lappend_oid(covered, m->relid);
		paths = lappend(paths, path_to(plan, m));
	}
	list_sort(paths, path_cmp);

	initStringInfo(&lock);
	for (int i = 0; i < list_length(paths); i++)
		appendStringInfo(&lock, "%s%s", i > 0 ? ", " : "",
						 ddl_name(llast_oid((List *) list_nth(paths, i))));
	plan->lock = psprintf("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", lock.data);
	add_statement(plan, plan->lock,
				  psprintf("ACCESS EXCLUSIVE lock on %s%s: no other session can read or write it until the transaction ends",
						   lock.data,
						   below ? " and all tables below" : ""));
}

/*
 * The ALTER TABLE statements: first of the table itself, then of the others.
 * There is one for each table, so that it is rewritten only once.
 */
static void
plan_alter(Conversion *plan, const char *new_default)
{
	List	   *done = NIL;

	for (int i = -1; i < plan->nmembers; i++)
	{
		Oid			relid = i < 0 ? plan->relid : plan->members[i].relid;
		char	   *detail;
		Rewrite		cost = {0};
		Row		   *row;
		StringInfoData alter;
		StringInfoData columns; /* that change their type */

		if (list_member_oid(done, relid))
			continue;
		done = lappend_oid(done, relid);

		initStringInfo(&alter);
		initStringInfo(&columns);
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
			appendStringInfo(&columns, "%s%s", columns.len > 0 ? ", " : "",
							 quote_literal_cstr(m->column));
		}
		if (relid == plan->relid && new_default)
			appendStringInfo(&alter, ", ALTER COLUMN %s SET DEFAULT %s",
							 quote_identifier(plan->column), new_default);
		if (alter.len == 0)
			continue;
		detail = cost_of_alter(plan, relid, columns.len > 0 ? columns.data : NULL, &cost);
		if (relid == plan->relid && new_default && plan->source == SOURCE_IDENTITY)
			detail = psprintf("%s; drops the sequence of the identity column", detail);
		row = add_statement(plan,
							psprintf("ALTER TABLE %s %s", ddl_name(relid), alter.data + 2),
							detail);
		row->table = ddl_name(relid);
		row->cost = cost;
	}
}

/*
 * The objects that use a sequence, as a list in words, without the defaults of
 * this column in the table and its descendants.  NULL when there are none.
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
 * DROP IDENTITY drops the column's sequence.  Does anything else use that?
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
 * Drop the sequence that the column's default used, if the column owns it and
 * nothing else uses it.
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

	/*
	 * pgEdge's conversion function drops the identity property of a column,
	 * but not its sequence.
	 */
	else if (internal)
		add_row(plan, ROW_WARNING,
				psprintf("sequence %s stays: it is left over from an identity column, cannot be dropped before the column, and pg_dump writes it in a way that cannot be restored; see docs/converting.md, under \"Former identity columns\"",
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
 * The column may own more sequences, which its default does not use: such as the
 * one of its serial, where the default was changed since.  Something may draw from
 * them all the same, so they stay.
 */
static void
note_other_sequences(Conversion *plan)
{
	List	   *sequences = NIL;
	ListCell   *lc;
	uint64		n;

	n = ddl_query(psprintf("SELECT d.objid FROM pg_depend d"
						   " JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'"
						   " WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'a'"
						   " AND d.refclassid = 'pg_class'::regclass AND d.refobjid = %u AND d.refobjsubid = %d"
						   " AND d.objid <> %u ORDER BY c.relname",
						   plan->relid, plan->attnum, plan->sequence));
	for (uint64 i = 0; i < n; i++)
		sequences = lappend_oid(sequences, ddl_value_oid(i, 1));

	foreach(lc, sequences)
	{
		char	   *name = ddl_name(lfirst_oid(lc));
		char	   *users = sequence_users(plan, lfirst_oid(lc));

		add_row(plan, ROW_NOTE,
				users != NULL ? psprintf("sequence %s stays: used by %s", name, users) :
				psprintf("sequence %s stays: column %s owns it, but its default does not use it; if no function or client uses it by name, run DROP SEQUENCE %s",
						 name, column_name(plan->relid, plan->column), name));
	}
}

/*
 * Plan the way to snowflake IDs.
 */
static void
plan_to_snowflake(Conversion *plan)
{
	char	   *new_default = psprintf("%s()",
									   quote_qualified_identifier(get_namespace_name(plan->schema),
																  "snowflake_nextval"));
	uint64		n;

	check_members(plan);
	if (plan->source != SOURCE_SNOWFLAKE || plan->retype)
		check_citus(plan);
	if (plan->source != SOURCE_SNOWFLAKE)
		check_descendants(plan);
	if (plan->retype)
		find_dependents(plan);
	check_identity_sequence(plan);
	if (plan->source != SOURCE_SNOWFLAKE || plan->retype)
		find_refusals(plan);

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
	note_other_sequences(plan);
	if (!new_default && !plan->retype)
		return;
	plan_estimate(plan);

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
						 convert_show(convert_unit_start(layout_unpack(&snowflake_layout, plan->max_id, FIELD_TIME))),
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
 * Is there a way back to a sequence?  If not, say why.
 */
static bool
can_go_back(Conversion *plan)
{
	char	   *name = column_name(plan->relid, plan->column);

	if (plan->source == SOURCE_IDENTITY || plan->source == SOURCE_SEQUENCE)
	{
		add_row(plan, ROW_NOTE,
				psprintf("column %s draws from a sequence already: nothing to do", name));
		return false;
	}
	if (plan->source == SOURCE_OTHER || plan->source == SOURCE_PGEDGE)
	{
		add_error(plan, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				  psprintf("column %s does not draw snowflake IDs of this extension", name))->definition =
			psprintf("Its default is %s.", plan->expression);
		return false;
	}
	if (plan->type != INT8OID)
	{
		add_error(plan, ERRCODE_DATATYPE_MISMATCH,
				  psprintf("column %s is of type %s, not bigint",
						   name, format_type_be_qualified(plan->type)));
		return false;
	}
	return true;
}

/*
 * May the caller, and the table's owner, have a sequence in its schema?
 */
static void
check_sequence_schema(Conversion *plan, Oid namespace, Oid owner)
{
	char	   *schema = get_namespace_name_or_temp(namespace);

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
}

/*
 * The statements that make the sequence, which then belongs to the table's
 * owner and to the column.
 */
static void
plan_create_sequence(Conversion *plan, const char *name, Oid owner,
					 char persistence, int64 start)
{
	char	   *owned_by = column_name(plan->relid, plan->column);

	if (owner == GetUserId())
		add_statement(plan,
					  psprintf("CREATE %sSEQUENCE %s AS bigint START WITH " INT64_FORMAT " OWNED BY %s",
							   persistence == RELPERSISTENCE_TEMP ? "TEMPORARY " :
							   persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
							   name, start, owned_by),
					  "makes the sequence, which goes on above the largest ID; no rewrite");
	else
	{
		add_statement(plan,
					  psprintf("CREATE %sSEQUENCE %s AS bigint START WITH " INT64_FORMAT,
							   persistence == RELPERSISTENCE_TEMP ? "TEMPORARY " :
							   persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
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
}

/*
 * Roles that may insert rows need USAGE on the sequence: nextval() checks the
 * rights of its caller, which snowflake_nextval() does not.
 */
static void
plan_grant_usage(Conversion *plan, const char *name, Oid owner)
{
	StringInfoData roles;
	uint64		n;

	n = ddl_query(psprintf("SELECT DISTINCT g.grantee = 0, quote_ident(pg_get_userbyid(g.grantee))"
						   " FROM (SELECT relacl FROM pg_class WHERE oid = ANY (%s)"
						   "  UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = ANY (%s)) AS a (acl),"
						   " aclexplode(a.acl) AS g"
						   " WHERE g.privilege_type = 'INSERT' AND g.grantee <> %u ORDER BY 1, 2",
						   oid_array(plan->tree), oid_array(plan->tree), owner));
	if (n == 0)
		return;

	initStringInfo(&roles);
	for (uint64 i = 0; i < n; i++)
		appendStringInfo(&roles, "%s%s", i > 0 ? ", " : "",
						 ddl_value_bool(i, 1) ? "PUBLIC" : ddl_value(i, 2));
	add_statement(plan,
				  psprintf("GRANT USAGE ON SEQUENCE %s TO %s", name, roles.data),
				  "let the roles that may insert rows draw from the sequence");
}

/*
 * Plan the way back to a sequence.
 */
static void
plan_to_sequence(Conversion *plan)
{
	Oid			namespace = get_rel_namespace(plan->relid);
	char	   *name;
	char		persistence;
	Oid			owner;
	int64		start;
	Rewrite		cost = {0};

	if (!can_go_back(plan))
		return;

	check_members(plan);
	check_citus(plan);
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
	persistence = ddl_value(0, 2)[0];
	check_sequence_schema(plan, namespace, owner);

	name = ChooseRelationName(get_rel_name(plan->relid), plan->column, "seq",
							  namespace, false);
	name = quote_qualified_identifier(get_namespace_name_or_temp(namespace), name);
	plan_create_sequence(plan, name, owner, persistence, start);
	plan_grant_usage(plan, name, owner);

	add_statement(plan,
				  psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT nextval(%s::regclass)",
						   plan->table, quote_identifier(plan->column), quote_literal_cstr(name)),
				  cost_of_alter(plan, plan->relid, NULL, &cost));
	plan_estimate(plan);
	add_row(plan, ROW_NOTE,
			"IDs of the sequence are unique in this table only, and have no time in them");
	if (plan->source == SOURCE_SNOWFLAKE)
		add_row(plan, ROW_WARNING,
				"snowflake_currval() no longer returns the IDs of this column: use RETURNING, or currval()");
}

/*
 * Make the plan from the catalogs, and from the IDs if with_ids is set.
 */
static void
make_plan(Conversion *plan, bool with_ids)
{
	for (int kind = 0; kind < (int) lengthof(plan->rows); kind++)
		plan->rows[kind] = NIL;
	plan->lock = NULL;
	memset(&plan->cost, 0, sizeof(Rewrite));
	plan->measured = NIL;
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

/*
 * Make the plan while others may drop what it is about.
 */
static bool
plan_unlocked(Conversion *plan)
{
	make_plan(plan, false);
	return true;
}

/*
 * Take the lock that the plan needs, and make the plan again.  False if the new
 * plan needs another lock.
 */
static bool
lock_and_plan(Conversion *plan)
{
	char	   *lock = plan->lock;

	convert_run(lock);
	make_plan(plan, true);
	raise_errors(plan);
	return plan->lock == NULL || strcmp(plan->lock, lock) == 0;
}

/*
 * Do one of these in a subtransaction, of which nothing is left if it was false or
 * raised an error, which is returned then.
 */
static ErrorData *
try_plan(Conversion *plan, bool (*make) (Conversion *plan), bool *fits)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;
	volatile bool result = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		result = make(plan);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	if (result)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	*fits = result;
	return error;
}

/*
 * Did something go away between two looks at it?
 */
static bool
is_of_change(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_UNDEFINED_TABLE ||
		error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT ||
		error->sqlerrcode == ERRCODE_INTERNAL_ERROR;	/* cache lookup failed */
}

#define PLAN_ATTEMPTS 5

/*
 * Make a plan that holds, with all tables locked that it touches.
 */
static void
make_locked_plan(Conversion *plan)
{
	int			failures = 0;
	bool		fits = false;

	while (!fits)
	{
		ErrorData  *error = try_plan(plan, plan_unlocked, &fits);

		if (error != NULL)
		{
			if (!is_of_change(error) || ++failures == PLAN_ATTEMPTS)
				ReThrowError(error);
			continue;
		}
		raise_errors(plan);
		if (plan->lock == NULL)
			break;
		error = try_plan(plan, lock_and_plan, &fits);
		if (error != NULL)
			ReThrowError(error);
	}
}

/*
 * snowflake_convert("table", "column", dry_run, target, force): step, kind, command,
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

	plan->relid = PG_GETARG_OID(0);
	plan->column = pstrdup(NameStr(*PG_GETARG_NAME(1)));
	plan->schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	plan->force = PG_GETARG_BOOL(4);
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
		make_locked_plan(plan);
		execute_plan(plan);
	}
	ddl_end(nestlevel);
	MemoryContextSwitchTo(caller);

	return_rows(plan, rsinfo);
	return (Datum) 0;
}
