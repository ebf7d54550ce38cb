/*-------------------------------------------------------------------------
 *
 * partitions.c
 *		Range partitions on an ID column, by time.
 *
 * The functions that create, list and drop them.  What bounds are is in
 * partition_bounds.c, and where they fall in partition_steps.c.
 *
 * Bounds are the first IDs of time units, so a row is in the partition of the
 * time at which its ID was drawn.  Where an edge in time is not the start of a
 * time unit, the bound is that of the next one, as in id_range_for():
 * partitions follow each other without gap.
 *
 * Locks: creating takes SHARE UPDATE EXCLUSIVE on the parent, so that other
 * sessions read and write meanwhile, and sessions that create partitions take
 * turns.  Dropping takes ACCESS EXCLUSIVE, as DROP TABLE does, once it is
 * known that there is something to drop.  The caller must own the parent; that
 * is checked before the lock is requested: a session that waits for it makes
 * later ones wait, and only the owner may cause that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "other_extensions.h"
#include "partition_bounds.h"
#include "partition_steps.h"
#include "progress.h"
#include "ranges.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_create_partitions);
PG_FUNCTION_INFO_V1(snowflake_partitions);
PG_FUNCTION_INFO_V1(snowflake_drop_partitions);

/* A call that asks for more than these has a mistake in its arguments. */
#define MAX_PARTITIONS 10000

/* A partition that is needed, whether it exists or not. */
typedef struct Wanted
{
	Oid			relid;			/* InvalidOid until it is created */
	char	   *name;			/* for a new one, without the schema */
	Bound		from;
	Bound		to;
} Wanted;

/* Properties of the parent that a new partition gets, too. */
typedef struct Parent
{
	Oid			relid;
	Oid			namespace;
	Oid			owner;
	Oid			tablespace;		/* InvalidOid: the default */
	Oid			access_method;	/* InvalidOid: the default */
	char	   *name;			/* for a statement */
} Parent;

static void
require_order(void)
{
	ids_require_order("Partitions by time need a layout that begins with \"time\".");
}

/*
 * Creating
 */

/*
 * Raise an ERROR unless the layout has IDs for some time from start to end.
 */
static void
require_lifetime(TimestampTz start, TimestampTz end)
{
	int64		from = unit_from(start);
	int64		to = unit_from(end);
	TimestampTz last;
	const char *where;

	if (to <= 0)
		where = "before the epoch";
	else if (from > 0 && (uint64) from > snowflake_layout.max[FIELD_TIME])
		where = "past the lifetime";
	else
		return;

	if (!clock_timestamp_of_unit(snowflake_layout.max[FIELD_TIME], &last))
		last = DT_NOEND;
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("partition from %s to %s is %s of snowflake IDs",
					time_str(start), time_str(end), where),
			 errdetail("The layout \"%s\" has times from %s to %s.",
					   snowflake_layout_text, time_str(snowflake_epoch),
					   time_str(last))));
}

/*
 * Plan the partitions that together hold all IDs of a period: a list of Wanted,
 * with names and bounds.
 */
static List *
plan_partitions(const Grid *grid, Oid parent, TimestampTz from, TimestampTz to)
{
	List	   *plan = NIL;
	TimestampTz start = grid_edge(grid, 0);

	for (int64 n = 0; start < to; n++)
	{
		TimestampTz end = grid_edge(grid, n + 1);
		Wanted	   *wanted;

		/* a grid that continues an existing partition may begin earlier */
		if (end > from && end > start)
		{
			require_lifetime(start, end);
			if (unit_from(start) >= unit_from(end))
				step_below_unit(&grid->step);
			if (list_length(plan) == MAX_PARTITIONS)
				ereport(ERROR,
						(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						 errmsg("more than %d partitions in one call",
								MAX_PARTITIONS),
						 errdetail("A step of %s makes more than that from %s to %s.",
								   step_str(&grid->step), time_str(from),
								   time_str(to))));

			wanted = palloc0(sizeof(Wanted));
			wanted->from = bound_at(start);
			wanted->to = bound_at(end);
			wanted->name = makeObjectName(get_rel_name(parent), NULL,
										  grid_suffix(grid, n));
			plan = lappend(plan, wanted);
		}

		/* a day that a time zone skipped has no length, and no partition */
		start = end;
	}
	return plan;
}

/*
 * Find the planned partitions that exist already.  Raise an ERROR where an
 * existing partition overlaps a planned one with other bounds.
 */
static void
match_partitions(List *plan, Partition *partitions, int npartitions)
{
	int			i = 0;
	ListCell   *lc;

	/* plan and partitions are in the order of bounds, the default one last */
	foreach(lc, plan)
	{
		Wanted	   *wanted = lfirst(lc);
		Partition  *there;

		while (i < npartitions && !partitions[i].is_default &&
			   bound_cmp(partitions[i].to, wanted->from) <= 0)
			i++;
		if (i == npartitions || partitions[i].is_default)
			break;
		there = &partitions[i];
		if (bound_cmp(wanted->to, there->from) <= 0)
			continue;

		if (!there->detaching && bound_equal(there->from, wanted->from) &&
			bound_equal(there->to, wanted->to))
		{
			wanted->relid = there->relid;
			continue;
		}
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("a partition from %s to %s would overlap partition \"%s\"",
						bound_str(wanted->from), bound_str(wanted->to),
						get_rel_name(there->relid)),
				 errdetail("Partition \"%s\" is from %s to %s. Its IDs are from %s to before %s, those of the new one would be from %s to before %s.",
						   get_rel_name(there->relid),
						   bound_str(there->from), bound_str(there->to),
						   bound_sql(there->from), bound_sql(there->to),
						   bound_sql(wanted->from), bound_sql(wanted->to)),
				 there->detaching ?
				 errhint("Partition \"%s\" is being detached. Complete it with ALTER TABLE ... DETACH PARTITION ... FINALIZE.",
						 get_rel_name(there->relid)) : 0));
	}
}

/*
 * Raise an ERROR where a new partition's name is not free.
 */
static void
require_names(List *plan, Oid namespace)
{
	ListCell   *lc;

	foreach(lc, plan)
	{
		Wanted	   *wanted = lfirst(lc);

		if (!OidIsValid(wanted->relid) &&
			OidIsValid(get_relname_relid(wanted->name, namespace)))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation \"%s\" already exists", wanted->name),
					 errdetail("It is not the partition from %s to %s, whose name that would be.",
							   bound_str(wanted->from), bound_str(wanted->to)),
					 errhint("Rename it, or attach it with these bounds.")));
	}
}

/*
 * Create a partition.  CREATE TABLE ... PARTITION OF would take ACCESS
 * EXCLUSIVE on the parent, so this makes a table with LIKE and attaches it.
 * ATTACH PARTITION adds what LIKE leaves out: indexes, keys, foreign keys,
 * triggers, identity.
 */
static void
create_partition(const Parent *parent, Wanted *wanted)
{
	char	   *schema = get_namespace_name_or_temp(parent->namespace);
	char	   *name = quote_qualified_identifier(schema, wanted->name);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS"
					 " INCLUDING GENERATED INCLUDING CONSTRAINTS"
					 " INCLUDING STORAGE INCLUDING COMPRESSION)",
					 name, parent->name);
	if (OidIsValid(parent->access_method))
		appendStringInfo(&sql, " USING %s",
						 quote_identifier(get_am_name(parent->access_method)));
	if (OidIsValid(parent->tablespace))
		appendStringInfo(&sql, " TABLESPACE %s",
						 quote_identifier(get_tablespace_name(parent->tablespace)));
	ddl_run(sql.data);

	if (parent->owner != GetUserId())
	{
		resetStringInfo(&sql);
		appendStringInfo(&sql, "ALTER TABLE %s OWNER TO %s", name,
						 quote_identifier(GetUserNameFromId(parent->owner, false)));
		ddl_run(sql.data);
	}

	resetStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s ATTACH PARTITION %s"
					 " FOR VALUES FROM (%s) TO (%s)",
					 parent->name, name,
					 bound_sql(wanted->from), bound_sql(wanted->to));
	ddl_run(sql.data);

	wanted->relid = get_relname_relid(wanted->name, parent->namespace);
}

/*
 * snowflake_create_partitions(parent, from_ts, to_ts, step, time_zone):
 * partition, starts, ends, created
 */
Datum
snowflake_create_partitions(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	TimestampTz from = PG_GETARG_TIMESTAMPTZ(1);
	TimestampTz to = PG_GETARG_TIMESTAMPTZ(2);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Grid		grid;
	Relation	rel;
	Parent		parent;
	Partition  *partitions;
	int			npartitions;
	List	   *plan = NIL;
	ListCell   *lc;
	int			todo = 0;
	int			done = 0;
	Progress	progress;
	int			nestlevel;

	PreventCommandDuringRecovery("snowflake_create_partitions()");
	PreventCommandIfReadOnly("snowflake_create_partitions()");

	/* errors that can be found without looking at the table */
	if (TIMESTAMP_NOT_FINITE(from) || TIMESTAMP_NOT_FINITE(to))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the period to create partitions for must be finite"),
				 errdetail("The period is from %s to %s.",
						   time_str(from), time_str(to))));
	require_order();
	period_require_order(from, to);
	grid_init(&grid, PG_GETARG_INTERVAL_P(3), PG_GETARG_DATUM(4));
	grid_anchor_cut(&grid, from);	/* an ERROR if there is no such zone */

	ddl_require_owner(relid);
	rel = partitions_open_parent(relid, ShareUpdateExclusiveLock);
	ddl_require_owner(relid);	/* it may have changed before the lock */

	parent.relid = relid;
	parent.namespace = RelationGetNamespace(rel);
	parent.owner = rel->rd_rel->relowner;
	parent.tablespace = rel->rd_rel->reltablespace;
	parent.access_method = rel->rd_rel->relam;
	parent.name = ddl_name(relid);

	partitions = partitions_read(rel, &npartitions);
	/* ALTER TABLE fails where this session still has the table open */
	relation_close(rel, NoLock);

	if (from < to)
	{
		grid_start(&grid, from, partitions, npartitions);
		plan = plan_partitions(&grid, relid, from, to);
		match_partitions(plan, partitions, npartitions);
		require_names(plan, parent.namespace);
	}
	foreach(lc, plan)
		todo += OidIsValid(((Wanted *) lfirst(lc))->relid) ? 0 : 1;

	InitMaterializedSRF(fcinfo, 0);
	progress_start(&progress);
	nestlevel = ddl_begin();
	foreach(lc, plan)
	{
		Wanted	   *wanted = lfirst(lc);
		bool		created = !OidIsValid(wanted->relid);
		Datum		values[4];
		bool		nulls[4] = {false};

		if (created)
		{
			create_partition(&parent, wanted);
			done++;
			if (done < todo && progress_due(&progress))
				ereport(NOTICE,
						(errmsg("created %d of %d partitions, about %s left",
								done, todo, progress_left(&progress, done, todo))));
		}

		values[0] = ObjectIdGetDatum(wanted->relid);
		bound_time_column(wanted->from, &values[1], &nulls[1]);
		bound_time_column(wanted->to, &values[2], &nulls[2]);
		values[3] = BoolGetDatum(created);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	ddl_end(nestlevel);

	return (Datum) 0;
}

/*
 * Listing
 */

/*
 * Add a condition for the IDs of a period, of which either end may be open.
 */
static void
add_period(StringInfo where, const char *column, Bound from, Bound to)
{
	appendStringInfo(where, "%s(%s IS NOT NULL", where->len > 0 ? " OR " : "", column);
	if (from.kind == PARTITION_RANGE_DATUM_VALUE)
		appendStringInfo(where, " AND %s OPERATOR(pg_catalog.>=) '%s'::pg_catalog.int8",
						 column, bound_sql(from));
	if (to.kind == PARTITION_RANGE_DATUM_VALUE)
		appendStringInfo(where, " AND %s OPERATOR(pg_catalog.<) '%s'::pg_catalog.int8",
						 column, bound_sql(to));
	appendStringInfoChar(where, ')');
}

/*
 * The condition for what is in the default partition: all between the others,
 * which are in the order of their bounds.
 */
static void
add_rest(StringInfo where, const char *column, const Partition *partitions,
		 int npartitions)
{
	Bound		from = {PARTITION_RANGE_DATUM_MINVALUE, 0};
	Bound		end = {PARTITION_RANGE_DATUM_MAXVALUE, 0};

	appendStringInfo(where, "%s IS NULL", column);
	for (int i = 0; i < npartitions && !partitions[i].is_default; i++)
	{
		if (bound_cmp(from, partitions[i].from) < 0)
			add_period(where, column, from, partitions[i].from);
		from = partitions[i].to;
	}
	if (bound_cmp(from, end) < 0)
		add_period(where, column, from, end);
}

/*
 * Count the rows of each partition.  The queries read the parent, so SELECT on
 * the parent is the only right that they need.  By its condition each reads
 * one partition.
 */
static void
count_rows(Relation parent, const Partition *partitions, int npartitions,
		   int64 *counts)
{
	char	   *name = ddl_name(RelationGetRelid(parent));
	AttrNumber	attnum = RelationGetPartitionKey(parent)->partattrs[0];
	char	   *column = pstrdup(quote_identifier(get_attname(RelationGetRelid(parent), attnum, false)));
	StringInfoData query;
	Progress	progress;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	progress_start(&progress);
	initStringInfo(&query);
	for (int i = 0; i < npartitions; i++)
	{
		StringInfoData where;
		bool		isnull;

		initStringInfo(&where);
		if (partitions[i].is_default)
			add_rest(&where, column, partitions, npartitions);
		else
			add_period(&where, column, partitions[i].from, partitions[i].to);
		resetStringInfo(&query);
		appendStringInfo(&query, "SELECT pg_catalog.count(*) FROM %s WHERE %s",
						 name, where.data);
		if (SPI_execute(query.data, true, 0) != SPI_OK_SELECT)
			elog(ERROR, "SPI_execute failed: %s", query.data);
		counts[i] = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
												SPI_tuptable->tupdesc, 1, &isnull));
		SPI_freetuptable(SPI_tuptable);
		pfree(where.data);

		if (i + 1 < npartitions && progress_due(&progress))
			ereport(NOTICE,
					(errmsg("counted the rows of %d of %d partitions, about %s left",
							i + 1, npartitions,
							progress_left(&progress, i + 1, npartitions))));
	}
	SPI_finish();
}

/* the OIDs of a partition and, if it is partitioned itself, all below it */
static List *
partition_tree(const Partition *partition)
{
	if (partition->relkind != RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(partition->relid);
	return find_all_inheritors(partition->relid, NoLock, NULL);
}

/*
 * Estimate the rows of a table without reading it, as the planner does: rows a
 * page at the last VACUUM or ANALYZE, times the pages that it has now.  Before
 * the first of these, the number in the cumulative statistics counts, which
 * lag behind a little.
 */
static int64
estimate_rows(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	double		rows = 0;

	if (rel == NULL)
		return 0;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
	{
		BlockNumber pages;
		double		visible;

		if (rel->rd_rel->reltuples < 0)
			rows = DatumGetInt64(OidFunctionCall1(F_PG_STAT_GET_LIVE_TUPLES,
												  ObjectIdGetDatum(relid)));
		if (rows == 0)
		{
			table_relation_estimate_size(rel, NULL, &pages, &rows, &visible);

			/* a table that was never vacuumed counts as 10 pages at least */
			if (pages > 0)
				rows *= (double) RelationGetNumberOfBlocks(rel) / pages;
		}
	}
	else if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		rows = Max(rel->rd_rel->reltuples, 0);	/* a foreign table */
	relation_close(rel, AccessShareLock);
	return (int64) rint(rows);
}

/* size on disk with indexes and TOAST; 0 for a table dropped by now */
static int64
relation_bytes(Oid relid)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(relid);
	fcinfo->args[0].isnull = false;
	result = pg_total_relation_size(fcinfo);
	return fcinfo->isnull ? 0 : DatumGetInt64(result);
}

/*
 * snowflake_partitions(parent, exact):
 * partition, starts, ends, from_id, to_id, rows, bytes
 */
Datum
snowflake_partitions(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	bool		exact = PG_GETARG_BOOL(1);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	Partition  *partitions;
	int			npartitions;
	int64	   *counts;
	int			nestlevel;
	bool		elsewhere;

	require_order();
	rel = partitions_open_parent(relid, AccessShareLock);
	partitions = partitions_read(rel, &npartitions);
	nestlevel = ddl_begin();
	elsewhere = ddl_query(psprintf("SELECT WHERE %s",
								   citus_condition(psprintf("%u", relid)))) > 0;
	ddl_end(nestlevel);
	counts = palloc0(sizeof(int64) * Max(npartitions, 1));
	if (exact)
		count_rows(rel, partitions, npartitions, counts);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < npartitions; i++)
	{
		Partition  *partition = &partitions[i];
		Datum		values[7];
		bool		nulls[7] = {false};
		int64		rows = counts[i];
		int64		bytes = 0;
		ListCell   *lc;

		foreach(lc, partition_tree(partition))
		{
			Oid			member = lfirst_oid(lc);

			if (!exact)
				rows += estimate_rows(member);
			bytes += relation_bytes(member);
			CHECK_FOR_INTERRUPTS();
		}

		values[0] = ObjectIdGetDatum(partition->relid);
		if (partition->is_default)
			nulls[1] = nulls[2] = nulls[3] = nulls[4] = true;
		else
		{
			bound_time_column(partition->from, &values[1], &nulls[1]);
			bound_time_column(partition->to, &values[2], &nulls[2]);
			bound_id_column(partition->from, &values[3], &nulls[3]);
			bound_id_column(partition->to, &values[4], &nulls[4]);
		}
		values[5] = Int64GetDatum(rows);
		/* a query on the parent reads no partition that is being detached */
		nulls[5] = exact ? partition->detaching : elsewhere;
		values[6] = Int64GetDatum(bytes);
		nulls[6] = elsewhere;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}

/*
 * Dropping
 */

/*
 * Reduce the array to the partitions that end at an instant or before it, and
 * return their number.  Partitions without an end in time are not among them:
 * the default partition, those up to MAXVALUE, and those of negative numbers,
 * which no snowflake ID is.
 */
static int
keep_ended(Partition *partitions, int npartitions, TimestampTz before)
{
	uint64		end = layout_unit_first_id(&snowflake_layout, unit_from(before));
	int			n = 0;

	for (int i = 0; i < npartitions; i++)
	{
		Partition  *partition = &partitions[i];

		if (!partition->is_default &&
			partition->to.kind == PARTITION_RANGE_DATUM_VALUE &&
			partition->to.id > 0 && (uint64) partition->to.id <= end)
			partitions[n++] = *partition;
	}
	return n;
}

/*
 * Run a command, unless it is a dry run, and add it to the result.
 */
static void
drop_step(ReturnSetInfo *rsinfo, const Partition *partition, char *name,
		  char *command, bool dry_run)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(name);
	bound_time_column(partition->from, &values[1], &nulls[1]);
	bound_time_column(partition->to, &values[2], &nulls[2]);
	values[3] = CStringGetTextDatum(command);
	values[4] = BoolGetDatum(!dry_run);

	if (!dry_run)
		ddl_run(command);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_drop_partitions(parent, before_ts, dry_run, concurrently):
 * partition, starts, ends, command, done
 */
Datum
snowflake_drop_partitions(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	TimestampTz before = PG_GETARG_TIMESTAMPTZ(1);
	bool		dry_run = PG_GETARG_BOOL(2);
	bool		concurrently = PG_GETARG_BOOL(3);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	Partition  *partitions;
	int			npartitions;
	Oid			default_relid = InvalidOid;
	char	   *parent;
	Progress	progress;
	int			nestlevel;

	if (!dry_run)
	{
		PreventCommandDuringRecovery("snowflake_drop_partitions()");
		PreventCommandIfReadOnly("snowflake_drop_partitions()");
	}

	if (concurrently && !dry_run)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("partitions cannot be detached concurrently from within a function"),
				 errhint("In psql, let each command run by itself: SELECT command FROM snowflake_drop_partitions(..., dry_run => true, concurrently => true) \\gexec")));
	if (TIMESTAMP_IS_NOEND(before))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("before_ts must not be infinity")));
	require_order();

	ddl_require_owner(relid);
	rel = partitions_open_parent(relid, AccessShareLock);
	partitions = partitions_read(rel, &npartitions);
	if (npartitions > 0 && partitions[npartitions - 1].is_default)
		default_relid = partitions[npartitions - 1].relid;
	npartitions = keep_ended(partitions, npartitions, before);
	parent = ddl_name(relid);

	/*
	 * Release this lock before taking the stronger one for dropping.  Two
	 * sessions that held this one and waited for that one would deadlock.
	 */
	relation_close(rel, AccessShareLock);

	if (!dry_run && npartitions > 0)
	{
		rel = partitions_open_parent(relid, AccessExclusiveLock);
		ddl_require_owner(relid);
		partitions = partitions_read(rel, &npartitions);
		npartitions = keep_ended(partitions, npartitions, before);
		relation_close(rel, NoLock);
	}

	if (concurrently && OidIsValid(default_relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partitions of \"%s\" cannot be detached concurrently",
						get_rel_name(relid)),
				 errdetail("It has a default partition, \"%s\".",
						   get_rel_name(default_relid)),
				 errhint("Drop them without concurrently => true, or detach the default partition first.")));

	InitMaterializedSRF(fcinfo, 0);
	progress_start(&progress);
	nestlevel = ddl_begin();
	for (int i = 0; i < npartitions; i++)
	{
		Partition  *partition = &partitions[i];
		char	   *name;

		if (i > 0 && !dry_run && progress_due(&progress))
			ereport(NOTICE,
					(errmsg("dropped %d of %d partitions, about %s left",
							i, npartitions, progress_left(&progress, i, npartitions))));

		/*
		 * DROP takes this lock, too; here it also keeps the name from
		 * changing
		 */
		if (!dry_run)
			LockRelationOid(partition->relid, AccessExclusiveLock);
		name = ddl_name(partition->relid);

		if (concurrently)
			drop_step(rsinfo, partition, name,
					  psprintf("ALTER TABLE %s DETACH PARTITION %s %s",
							   parent, name,
							   partition->detaching ? "FINALIZE" : "CONCURRENTLY"),
					  dry_run);
		drop_step(rsinfo, partition, name,
				  psprintf("DROP %s %s",
						   partition->relkind == RELKIND_FOREIGN_TABLE ?
						   "FOREIGN TABLE" : "TABLE", name),
				  dry_run);
	}
	ddl_end(nestlevel);

	return (Datum) 0;
}
