/*-------------------------------------------------------------------------
 *
 * convert_cost.c
 *		What a conversion costs: locks, rewrites, time and disk.
 *
 * Tables and indexes are measured.  From their size follows a range of time,
 * by the rates of slow and of fast disks.
 *
 * Locks: ACCESS SHARE on a relation for the moment in which it is measured, if
 * nobody else has it locked; it is not waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

#include "convert_columns.h"
#include "convert_cost.h"
#include "ddl.h"
#include "progress.h"

/* Tables and indexes are written, and read, at so many MB a second. */
#define SLOW_RATE 20
#define FAST_RATE 100
#define MB (1024 * 1024)

/* What takes longer than this, at the slow rate, is announced. */
#define LONG_SECONDS 5

/*
 * The size of a table, with its TOAST, or of an index.  A relation that others
 * have locked is not waited for: then it is the size at the last VACUUM or
 * ANALYZE.
 */
static int64
relation_bytes(Oid relid)
{
	HeapTuple	tuple;
	int64		bytes = 0;

	if (ConditionalLockRelationOid(relid, AccessShareLock))
	{
		LOCAL_FCINFO(fcinfo, 1);
		Datum		size;

		InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
		fcinfo->args[0].value = ObjectIdGetDatum(relid);
		fcinfo->args[0].isnull = false;
		size = pg_table_size(fcinfo);
		UnlockRelationOid(relid, AccessShareLock);
		return fcinfo->isnull ? 0 : DatumGetInt64(size);
	}

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple))
	{
		bytes = (int64) Max(((Form_pg_class) GETSTRUCT(tuple))->relpages, 0) * BLCKSZ;
		ReleaseSysCache(tuple);
	}
	return bytes;
}

char *
cost_size(int64 bytes)
{
	return TextDatumGetCString(DirectFunctionCall1(pg_size_pretty, Int64GetDatum(bytes)));
}

bool
cost_is_long(int64 bytes)
{
	return (double) bytes / MB / SLOW_RATE >= LONG_SECONDS;
}

/*
 * How long it takes to write so much, for a message.
 */
char *
cost_time(int64 bytes)
{
	double		max = (double) bytes / MB / SLOW_RATE;

	if (max < 1)
		return pstrdup("less than 1 s");
	return psprintf("%s to %s", progress_duration((double) bytes / MB / FAST_RATE),
					progress_duration(max));
}

/*
 * A number of things, for a message.
 */
static char *
count_of(int n, const char *one, const char *many)
{
	return psprintf("%d %s", n, n == 1 ? one : many);
}

/*
 * Measure the tables, and their indexes, that are written anew.
 */
static void
measure(Conversion *plan, const char *tree, Rewrite *cost)
{
	List	   *relids = NIL;
	bool		has_index = false;

	cost->ntables = (int) ddl_query(psprintf("SELECT oid, relhasindex FROM pg_class WHERE oid = ANY (%s) AND relkind = 'r'",
											 tree));
	for (int i = 0; i < cost->ntables; i++)
	{
		relids = lappend_oid(relids, ddl_value_oid(i, 1));
		has_index = has_index || ddl_value_bool(i, 2);
	}
	if (has_index)
	{
		cost->nindexes = (int) ddl_query(psprintf("SELECT indexrelid FROM pg_index WHERE indrelid = ANY (%s)",
												  oid_array(relids)));
		for (int i = 0; i < cost->nindexes; i++)
			relids = lappend_oid(relids, ddl_value_oid(i, 1));
	}

	/* before there is a lock, only what is locked matters */
	if (!plan->with_ids)
		return;
	for (int i = 0; i < cost->ntables + cost->nindexes; i++)
	{
		Oid			relid = list_nth_oid(relids, i);
		int64		bytes = relation_bytes(relid);

		if (i < cost->ntables)
		{
			Measured   *measured = palloc(sizeof(Measured));

			measured->relid = relid;
			measured->bytes = bytes;
			plan->measured = lappend(plan->measured, measured);
			cost->table_bytes += bytes;
		}
		else
			cost->index_bytes += bytes;
	}
}

char *
cost_of_alter(Conversion *plan, Oid relid, const char *columns, Rewrite *cost)
{
	List	   *tree = find_all_inheritors(relid, NoLock, NULL);
	char	   *array = oid_array(tree);
	StringInfoData buf;
	int			nkeys;

	initStringInfo(&buf);
	appendStringInfo(&buf, "ACCESS EXCLUSIVE lock on %s", ddl_name(relid));
	if (list_length(tree) > 1)
		appendStringInfo(&buf, " and the tables below, %d, to which it applies too",
						 list_length(tree) - 1);
	if (columns == NULL)
	{
		appendStringInfoString(&buf, "; no rewrite");
		return buf.data;
	}

	measure(plan, array, cost);
	plan->cost.ntables += cost->ntables;
	plan->cost.nindexes += cost->nindexes;
	plan->cost.table_bytes += cost->table_bytes;
	plan->cost.index_bytes += cost->index_bytes;

	/* foreign keys are found by what they depend on, which has an index */
	if (ddl_query(psprintf("SELECT count(DISTINCT k.oid) FROM pg_attribute a"
						   " JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid"
						   "  AND d.refobjsubid = a.attnum AND d.classid = 'pg_constraint'::regclass"
						   " JOIN pg_constraint k ON k.oid = d.objid AND k.contype = 'f' AND k.conparentid = 0"
						   " WHERE a.attrelid = ANY (%s) AND a.attname IN (%s)",
						   array, columns)) != 1)
		elog(ERROR, "cannot read pg_constraint");
	nkeys = atoi(ddl_value(0, 1));

	if (cost->ntables == 1)
		appendStringInfo(&buf, "; rewrites the table (%s)", cost_size(cost->table_bytes));
	else
		appendStringInfo(&buf, "; rewrites %d tables (%s)", cost->ntables,
						 cost_size(cost->table_bytes));
	if (cost->nindexes > 0)
		appendStringInfo(&buf, " and %s", count_of(cost->nindexes, "index", "indexes"));
	if (nkeys > 0)
		appendStringInfo(&buf, "; makes %s anew and checks %s",
						 count_of(nkeys, "foreign key", "foreign keys"),
						 nkeys == 1 ? "it" : "them");
	return buf.data;
}

/*
 * The size of what is read to find max(id), for lack of an index.
 */
static int64
bytes_without_index(Conversion *plan)
{
	uint64		n;
	Oid		   *relids;
	int64		bytes = 0;

	n = ddl_query(psprintf("SELECT c.oid FROM pg_class c"
						   " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = %s"
						   " WHERE c.oid = ANY (%s) AND c.relkind = 'r' AND NOT EXISTS"
						   "  (SELECT FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0]"
						   "   JOIN pg_am m ON m.oid = o.opcmethod AND m.amname = 'btree'"
						   "   WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL"
						   "   AND i.indkey[0] = a.attnum)",
						   quote_literal_cstr(plan->column), oid_array(plan->tree)));
	relids = palloc(sizeof(Oid) * Max(n, 1));
	for (uint64 i = 0; i < n; i++)
		relids[i] = ddl_value_oid(i, 1);
	for (uint64 i = 0; i < n; i++)
		bytes += relation_bytes(relids[i]);
	return bytes;
}

void
plan_estimate(Conversion *plan)
{
	Rewrite    *cost = &plan->cost;
	int64		bytes = cost->table_bytes + cost->index_bytes;
	int64		read = 0;

	if (!plan->with_ids)
		return;
	if (cost->ntables > 0)
	{
		char	   *tables = psprintf("%s (%s)", count_of(cost->ntables, "table", "tables"),
									  cost_size(cost->table_bytes));

		if (cost->nindexes > 0)
			tables = psprintf("%s and %s (%s)", tables,
							  count_of(cost->nindexes, "index", "indexes"),
							  cost_size(cost->index_bytes));
		add_row(plan, ROW_NOTE,
				psprintf("estimate: rewrites %s; needs %s of disk for the new files until the transaction ends, and up to as much for WAL; holds the ACCESS EXCLUSIVE lock for %s, at %d to %d MB/s",
						 tables, cost_size(bytes), cost_time(bytes), SLOW_RATE, FAST_RATE));
		return;
	}
	read = bytes_without_index(plan);
	if (read == 0)
		add_row(plan, ROW_NOTE,
				"estimate: changes the catalogs only, without a rewrite; holds the ACCESS EXCLUSIVE lock for milliseconds, and needs no disk");
	else
		add_row(plan, ROW_NOTE,
				psprintf("estimate: changes the catalogs only, without a rewrite, and needs no disk; no index begins with column %s, so that PostgreSQL reads %s for max(%s); holds the ACCESS EXCLUSIVE lock for %s, at %d to %d MB/s",
						 quote_identifier(plan->column), cost_size(read),
						 quote_identifier(plan->column), cost_time(read),
						 SLOW_RATE, FAST_RATE));
}
