/*-------------------------------------------------------------------------
 *
 * check_tables.c
 *		snowflake_check(): the columns of this database that draw IDs by
 *		default, and the last IDs in them.
 *
 * It reads the end of a btree index that begins with the column, so the size
 * of a table does not matter.  For a table with partitions or children, it
 * reads each of them.  If it cannot read one, or this role may not, the result
 * says so.
 *
 * The index is read directly, not by a query, as a query may wait for locks
 * on other indexes, and may run functions that the table's owner has put
 * there, with the rights of the caller.
 *
 * Locking: ACCESS SHARE on one table and its index at a time, released at
 * once.  It does not wait for a lock, as all other sessions would queue up
 * behind it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "check_rows.h"
#include "clock.h"
#include "lease.h"
#include "mark.h"
#include "settings.h"
#include "worker.h"

/* How many IDs of a column are looked at. */
#define SAMPLE 100

/* How many findings are a row each, and how many names a row has. */
#define MAX_FINDINGS 20
#define MAX_NAMES 10

/*
 * What the checks of all columns make.  IDs of other nodes are right where
 * rows come from other servers or the number was changed, and are not drawn
 * here: nobody has to act on them.
 */
typedef struct Findings
{
	List	   *errors;			/* details */
	List	   *warnings;
	List	   *skipped;		/* columns, with the reason */
	List	   *others;			/* columns, with other nodes of their IDs */
	int			ncolumns;
} Findings;

/* A table that holds a column's values: its own one, a partition, a child. */
typedef struct Holder
{
	char	   *name;			/* of the column there, with quotes */
	Oid			relid;
	AttrNumber	attnum;
	char	   *skip;			/* why it is not looked at, or NULL */
	Oid			index;
} Holder;

/* A column that draws IDs by default. */
typedef struct Column
{
	Findings   *findings;
	char	   *name;			/* with schema, table and quotes */
	char	   *table;
	char	   *column;			/* without quotes */
	char		relkind;
	Oid			type;
	bool		computed;		/* its default is more than the call */
	Holder	   *holders;
	int			nholders;

	/* the largest IDs that there are, descending */
	int64		ids[SAMPLE];
	int			nids;
} Column;

static char *
show_unit(uint64 unit)
{
	return clock_show(clock_unit_or_end(unit));
}

/* a function of this extension, for a statement */
static char *
function_name(CheckState *state, const char *name)
{
	return quote_qualified_identifier(get_namespace_name(state->schema), name);
}

static void
skip(Findings *findings, const char *name, const char *reason)
{
	findings->skipped = lappend(findings->skipped, makeString(psprintf("%s (%s)", name, reason)));
}

/*
 * Is a default the call of a function that draws, and no more than that, but
 * for casts to a smaller integer or a domain?  It depends on one that draws,
 * which has no arguments.
 */
static bool
is_mere_call(Node *node)
{
	if (IsA(node, CoerceToDomain))
		node = (Node *) ((CoerceToDomain *) node)->arg;
	if (IsA(node, FuncExpr) &&
		(((FuncExpr *) node)->funcid == F_INT4_INT8 ||
		 ((FuncExpr *) node)->funcid == F_INT2_INT8))
		node = linitial(((FuncExpr *) node)->args);
	return IsA(node, FuncExpr) && ((FuncExpr *) node)->args == NIL;
}

/*
 * The first names of a list.
 */
static char *
join(List *names)
{
	StringInfoData buf;
	int			n = list_length(names);

	initStringInfo(&buf);
	for (int i = 0; i < Min(n, MAX_NAMES); i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 strVal(list_nth(names, i)));
	if (n > MAX_NAMES)
		appendStringInfo(&buf, " and %d more", n - MAX_NAMES);
	return buf.data;
}

/*
 * Find the columns, each with its holders.  Returns their number.
 */
static int
find_columns(Findings *findings, Column **columns)
{
	Holder	   *holders;
	int			ncolumns = 0;
	int			n;

	n = check_query_own("table_name, column_name, kind, type, expression,"
						" holder, relid, attnum, index, skip", "drawing_columns()");
	*columns = palloc0(sizeof(Column) * n);
	holders = palloc0(sizeof(Holder) * n);
	for (int i = 0; i < n; i++)
	{
		Column	   *column = &(*columns)[Max(ncolumns - 1, 0)];
		char	   *table = check_value(i, 1);
		char	   *attname = check_value(i, 2);
		char	   *index = check_value(i, 9);
		Holder	   *holder = &holders[i];

		if (ncolumns == 0 || strcmp(column->table, table) != 0 ||
			strcmp(column->column, attname) != 0)
		{
			column = &(*columns)[ncolumns++];
			column->findings = findings;
			column->table = table;
			column->column = attname;
			column->name = psprintf("%s.%s", table, quote_identifier(attname));
			column->relkind = check_value(i, 3)[0];
			column->type = atooid(check_value(i, 4));
			column->computed = !is_mere_call(stringToNode(check_value(i, 5)));
			column->holders = holder;	/* and those that follow */
		}
		column->nholders++;
		holder->name = check_value(i, 6);
		holder->relid = atooid(check_value(i, 7));
		holder->attnum = (AttrNumber) atoi(check_value(i, 8));
		holder->index = index ? atooid(index) : InvalidOid;
		holder->skip = check_value(i, 10);
	}
	return ncolumns;
}

/*
 * The IDs
 */

/*
 * Keep an ID if it is among the largest.
 */
static bool
keep(Column *column, int64 id)
{
	int			pos = column->nids;

	while (pos > 0 && column->ids[pos - 1] < id)
		pos--;
	if (pos == SAMPLE)
		return false;
	if (column->nids < SAMPLE)
		column->nids++;
	memmove(&column->ids[pos + 1], &column->ids[pos],
			sizeof(int64) * (column->nids - pos - 1));
	column->ids[pos] = id;
	return true;
}

/*
 * Read the end of an index.
 */
static void
read_ids(Column *column, Holder *holder, Relation table, Relation index)
{
	ScanDirection direction =
		index->rd_indoption[0] & INDOPTION_DESC ? ForwardScanDirection : BackwardScanDirection;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData not_null;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyEntryInitialize(&not_null, SK_ISNULL | SK_SEARCHNOTNULL,
						   holder->attnum, InvalidStrategy, InvalidOid,
						   InvalidOid, InvalidOid, (Datum) 0);
	scan = systable_beginscan_ordered(table, index, snapshot, 1, &not_null);
	while ((tuple = systable_getnext_ordered(scan, direction)) != NULL)
	{
		bool		isnull;
		Datum		id = heap_getattr(tuple, holder->attnum,
									  RelationGetDescr(table), &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!keep(column, DatumGetInt64(id)))
			break;
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
}

/*
 * May the index be used by now?  It was chosen before the lock.
 */
static bool
is_usable(Relation index)
{
	return index->rd_index->indisvalid &&
		(!index->rd_index->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							   TransactionXmin));
}

static void
look_at(Column *column, Holder *holder)
{
	Relation	table;
	Relation	index;

	if (!ConditionalLockRelationOid(holder->relid, AccessShareLock))
	{
		skip(column->findings, holder->name, "locked");
		return;
	}
	table = try_table_open(holder->relid, NoLock);
	if (table == NULL)
	{
		UnlockRelationOid(holder->relid, AccessShareLock);
		return;					/* dropped */
	}

	if (!ConditionalLockRelationOid(holder->index, AccessShareLock))
		skip(column->findings, holder->name, "locked");
	else if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(holder->index)))
	{
		skip(column->findings, holder->name, "its index was dropped");
		UnlockRelationOid(holder->index, AccessShareLock);
	}
	else
	{
		index = index_open(holder->index, NoLock);
		if (is_usable(index))
			read_ids(column, holder, table, index);
		else
			skip(column->findings, holder->name, "its index is not usable yet");
		index_close(index, AccessShareLock);
	}
	table_close(table, AccessShareLock);
}

/*
 * The time that this server has drawn no ID at, nor later; 0 where it cannot
 * draw, as on a standby, or it is not known yet after the start.  Before the first ID that is the mark, or if it has
 * none, what is a time at all, and not a number from before a conversion.
 */
static uint64
limit_of_draws(void)
{
	uint64		limit;

	if (shared == NULL || RecoveryInProgress() ||
		(!shared->mark.is_read && !worker_is_refusing(&shared->mark_writer)))
		return 0;
	limit = pg_atomic_read_u64(&shared->mark.limit_unit);
	if (limit == 0)
		limit = Max(mark_to_unit((int64) pg_atomic_read_u64(&shared->mark.mark_us), true),
					(uint64) (USECS_PER_HOUR / snowflake_layout.unit_us));
	return limit;
}

/*
 * What do the IDs say?  By the clock and the mark as they are after the IDs
 * were read.
 */
static void
judge(CheckState *state, Column *column)
{
	Findings   *findings = column->findings;
	int			number = lease_node();	/* -1 for none, as no ID has */
	TimestampTz now = clock_read();
	uint64		limit = limit_of_draws();
	int64		latest = layout_unit_floor(&snowflake_layout,
										   clock_since_epoch(now + MAX_DRIFT_US));
	int64		stranger = 0;	/* what is negative can be no ID */
	int64		above = -1;		/* IDs, each the first of its kind */
	int64		future = -1;
	List	   *nodes = NIL;

	for (int i = 0; i < column->nids; i++)
	{
		int64		id = column->ids[i];
		uint64		time;
		uint64		node;

		if (id < 0 || id > layout_max_id(&snowflake_layout))
		{
			stranger = Max(stranger, id);
			continue;
		}
		time = layout_unpack(&snowflake_layout, id, FIELD_TIME);
		node = layout_unpack(&snowflake_layout, id, FIELD_NODE);
		if (limit != 0 && time >= limit && (int64) node == number)
		{
			if (above < 0)
				above = id;
		}
		else if ((int64) time > latest && future < 0)
			future = id;

		/* numbers from before a conversion are of no node */
		if (number >= 0 && (int64) node != number &&
			time >= USECS_PER_HOUR / snowflake_layout.unit_us)
			nodes = list_append_unique(nodes, makeString(psprintf(UINT64_FORMAT, node)));
	}

	if (above >= 0)
	{
		uint64		time = layout_unpack(&snowflake_layout, above, FIELD_TIME);

		findings->errors = lappend(findings->errors,
								   psprintf("%s has an ID of this server that is not below the durable mark: " INT64_FORMAT ", of %s. The server may draw it again. Run SELECT %s(" INT64_FORMAT "::bigint, %s).%s",
											column->name, above, show_unit(time),
											function_name(state, "snowflake_advance"), above,
											clock_unit_or_end(time) > now + MARK_MAX_AHEAD_US ?
											"true" : "false",
											(int64) time > latest ?
											" Then no ID can be drawn before that time; if the row is a mistake, delete it instead." : ""));
	}
	if (stranger > 0)
		findings->warnings = lappend(findings->warnings,
									 psprintf("%s has numbers that are no IDs of the layout \"%s\", such as " INT64_FORMAT ". If IDs were drawn with another layout, %s(id, layout, epoch) reads them.",
											  column->name, snowflake_layout_text, stranger,
											  function_name(state, "snowflake_parse")));
	if (future >= 0)
		findings->warnings = lappend(findings->warnings,
									 psprintf("%s has IDs of the future, such as " INT64_FORMAT " of node " UINT64_FORMAT ", of %s; the %s shows %s. Set the clock of that server, or of this one. If \"snowflake.layout\" or \"snowflake.epoch\" had another value when the ID was drawn, the time shown is wrong.",
											  column->name, future,
											  layout_unpack(&snowflake_layout, future, FIELD_NODE),
											  show_unit(layout_unpack(&snowflake_layout, future, FIELD_TIME)),
											  clock_name(), clock_show(now)));
	if (nodes != NIL)
		findings->others = lappend(findings->others,
								   makeString(psprintf("%s (%s)", column->name, join(nodes))));
}

/*
 * An integer has not enough bits, so inserts fail.
 */
static void
report_small(CheckState *state, Column *column)
{
	char	   *mend;

	if (column->relkind == RELKIND_VIEW)
		mend = pstrdup("Create the view anew over a bigint column");
	else if (column->relkind == RELKIND_FOREIGN_TABLE)
		mend = psprintf("Run ALTER FOREIGN TABLE %s ALTER COLUMN %s TYPE bigint",
						column->table, quote_identifier(column->column));
	else if (column->type != getBaseType(column->type))
		mend = psprintf("Run ALTER TABLE %s ALTER COLUMN %s TYPE bigint",
						column->table, quote_identifier(column->column));
	else
		mend = psprintf("To see what it takes to make it a bigint, run SELECT * FROM %s(%s, %s)",
						function_name(state, "snowflake_convert"),
						quote_literal_cstr(column->table),
						quote_literal_cstr(column->column));
	column->findings->errors = lappend(column->findings->errors,
									   psprintf("%s is of type %s, which is too small for an ID: inserts fail. %s.",
												column->name, format_type_be(column->type), mend));
}

static void
check_column(CheckState *state, void *arg)
{
	Column	   *column = arg;
	Oid			type = getBaseType(column->type);

	if ((type == INT4OID || type == INT2OID) && !column->computed)
	{
		report_small(state, column);
		return;
	}
	if (column->relkind == RELKIND_VIEW)
		return;					/* the IDs are elsewhere */

	column->findings->ncolumns++;
	if (type != INT8OID || column->computed)
	{
		skip(column->findings, column->name,
			 type == INT8OID || type == INT4OID || type == INT2OID ?
			 "its default is more than the ID" :
			 psprintf("of type %s", format_type_be(column->type)));
		return;
	}

	for (int i = 0; i < column->nholders; i++)
	{
		Holder	   *holder = &column->holders[i];

		if (holder->skip == NULL)
			look_at(column, holder);
		else if (strcmp(holder->skip, "none") != 0)
			skip(column->findings, holder->name, holder->skip);
	}
	judge(state, column);
}

void
check_tables(CheckState *state)
{
	Findings	findings = {0};
	Column	   *columns = NULL;
	int			nestlevel = check_begin();
	int			ncolumns = find_columns(&findings, &columns);
	int			nerrors;
	int			n;

	check_end(nestlevel);

	for (int i = 0; i < ncolumns; i++)
	{
		char	   *failure = check_try(check_column, state, &columns[i]);

		if (failure != NULL)
			findings.errors = lappend(findings.errors,
									  psprintf("%s cannot be looked at: %s.",
											   columns[i].name, failure));
	}

	nerrors = list_length(findings.errors);
	findings.errors = list_concat(findings.errors, findings.warnings);
	n = list_length(findings.errors);
	for (int i = 0; i < Min(n, MAX_FINDINGS); i++)
		check_row(state, i < nerrors ? "error" : "warning",
				  list_nth(findings.errors, i));
	if (n > MAX_FINDINGS)
		check_say(state, nerrors > MAX_FINDINGS ? "error" : "warning",
				  "More findings, shown when the ones above are mended: %d.", n - MAX_FINDINGS);

	check_row(state, "ok",
			  findings.ncolumns == 0 ?
			  "No bigint column of this database draws snowflake IDs by default." :
			  psprintf("Columns of this database that draw snowflake IDs by default: %d. The last %d IDs of each were looked at.%s%s",
					   findings.ncolumns, SAMPLE,
					   findings.others == NIL ? "" :
					   psprintf(" IDs of other nodes than this one, %d: %s.",
								lease_node(), join(findings.others)),
					   findings.skipped == NIL ? "" :
					   psprintf(" Not looked at: %s.", join(findings.skipped))));
}
