/*-------------------------------------------------------------------------
 *
 * partitions.c
 *		Range partitions on an ID column, by time.
 *
 * A partition's bounds are the first IDs of time units, so what is told by
 * them is when its rows' IDs were drawn.  Where an edge in time is not the
 * start of a time unit, the bound is that of the next one, as in
 * id_range_for(): partitions follow each other without gap.
 *
 * Locks: creating takes SHARE UPDATE EXCLUSIVE on the parent, which lets
 * others read and write meanwhile and makes two who create take turns.
 * Dropping takes ACCESS EXCLUSIVE, as DROP TABLE does, once it is known that
 * there is something to drop.  The caller must own the parent; that is checked
 * before the lock, so that others cannot wait for it in the way of everybody.
 *
 * All arithmetic with months, days and time zones is the server's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "common/int.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "ranges.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_create_partitions);
PG_FUNCTION_INFO_V1(snowflake_partitions);
PG_FUNCTION_INFO_V1(snowflake_drop_partitions);

/* More in one call is a slip in the arguments. */
#define MAX_PARTITIONS 10000

/* A bound of a partition. */
typedef struct Bound
{
	PartitionRangeDatumKind kind;	/* MINVALUE, an ID, MAXVALUE: in order */
	int64		id;
} Bound;

/* A partition that there is. */
typedef struct Partition
{
	Oid			relid;
	char		relkind;
	bool		is_default;		/* has no bounds */
	bool		detaching;		/* DETACH CONCURRENTLY is under way, or failed */
	Bound		from;			/* the first ID */
	Bound		to;				/* the first ID after it */
} Partition;

/* A partition that there has to be. */
typedef struct Wanted
{
	Oid			relid;			/* InvalidOid while there is none */
	char	   *name;			/* without the schema, where there is none */
	Bound		from;
	Bound		to;
} Wanted;

/* What of the parent a new partition is created with. */
typedef struct Parent
{
	Oid			relid;
	Oid			namespace;
	Oid			owner;
	Oid			tablespace;		/* InvalidOid: the default */
	Oid			access_method;	/* InvalidOid: the default */
	char	   *name;			/* for a statement */
} Parent;

/*
 * The edges in time: anchor + n * step.
 */
typedef struct Grid
{
	Interval	step;			/* only one of its three fields is not 0 */
	bool		local;			/* months or days: anchor is a local time */
	const char *unit;			/* what the start is cut down to */
	Datum		zone;			/* text */
	int64		anchor;			/* a Timestamp when local, else a TimestampTz */
} Grid;

/*
 * Bounds
 */

static int
bound_cmp(Bound a, Bound b)
{
	if (a.kind != b.kind)
		return a.kind < b.kind ? -1 : 1;
	if (a.kind != PARTITION_RANGE_DATUM_VALUE || a.id == b.id)
		return 0;
	return a.id < b.id ? -1 : 1;
}

static bool
bound_equal(Bound a, Bound b)
{
	return bound_cmp(a, b) == 0;
}

/* the first ID of a time unit; 2^63 is beyond all of bigint */
static Bound
bound_of_unit(int64 unit)
{
	uint64		id = layout_unit_first_id(&snowflake_layout, unit);
	Bound		bound = {PARTITION_RANGE_DATUM_VALUE, (int64) id};

	if (id > (uint64) PG_INT64_MAX)
	{
		bound.kind = PARTITION_RANGE_DATUM_MAXVALUE;
		bound.id = 0;
	}
	return bound;
}

static Bound
bound_at(TimestampTz ts)
{
	return bound_of_unit(unit_from(ts));
}

/*
 * When the time unit of a bound begins.  False where it has none.
 */
static bool
bound_time(Bound bound, TimestampTz *ts)
{
	if (bound.kind != PARTITION_RANGE_DATUM_VALUE || bound.id < 0 ||
		bound_cmp(bound, bound_of_unit(PG_INT64_MAX)) > 0)
		return false;

	/* one more than the field holds, where the ID space ends below 2^63 */
	return clock_timestamp_of_unit((uint64) bound.id >> snowflake_layout.shift[FIELD_TIME],
								   ts);
}

/* as a column of a result */
static void
set_bound_time(Bound bound, Datum *value, bool *isnull)
{
	TimestampTz ts = 0;

	*isnull = !bound_time(bound, &ts);
	*value = TimestampTzGetDatum(ts);
}

static void
set_bound_id(Bound bound, Datum *value, bool *isnull)
{
	*isnull = bound.kind != PARTITION_RANGE_DATUM_VALUE;
	*value = Int64GetDatum(bound.id);
}

/* for a statement */
static const char *
bound_sql(Bound bound)
{
	switch (bound.kind)
	{
		case PARTITION_RANGE_DATUM_MINVALUE:
			return "MINVALUE";
		case PARTITION_RANGE_DATUM_MAXVALUE:
			return "MAXVALUE";
		case PARTITION_RANGE_DATUM_VALUE:
			break;
	}
	return psprintf(INT64_FORMAT, bound.id);
}

/* for a message */
static char *
time_str(TimestampTz ts)
{
	return pstrdup(timestamptz_to_str(ts));
}

static const char *
bound_str(Bound bound)
{
	TimestampTz ts;

	return bound_time(bound, &ts) ? time_str(ts) : bound_sql(bound);
}

/*
 * The parent and its partitions
 */

static void
require_order(void)
{
	ids_require_order("Partitions by time need a layout that begins with \"time\".");
}

/*
 * Raise an ERROR unless the relation is a partitioned table.  Before it is
 * locked, since not everything can be.
 */
static void
require_partitioned(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	char	   *name = ddl_plain_name(relid);

	if (relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a partitioned table", name),
				 errdetail_relkind_not_supported(relkind),
				 relkind == RELKIND_RELATION ?
				 errhint("Create it with PARTITION BY RANGE on its ID column.") : 0));
}

/* a partition key for a message, such as LIST (region) */
static char *
key_str(Oid relid)
{
	return TextDatumGetCString(DirectFunctionCall1(pg_get_partkeydef,
												   ObjectIdGetDatum(relid)));
}

/*
 * Open and lock the parent, checked to be partitioned by ranges of one bigint
 * column.
 */
static Relation
open_parent(Oid relid, LOCKMODE lockmode)
{
	Relation	parent;
	PartitionKey key;
	Oid			type;

	require_partitioned(relid);
	LockRelationOid(relid, lockmode);
	(void) ddl_plain_name(relid);	/* is it still there? */
	parent = relation_open(relid, NoLock);

	key = RelationGetPartitionKey(parent);
	if (key->strategy != PARTITION_STRATEGY_RANGE || key->partnatts != 1 ||
		key->partattrs[0] == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" is not partitioned by ranges of one column",
						RelationGetRelationName(parent)),
				 errdetail("Its partition key is %s.",
						   key_str(relid)),
				 errhint("Partitions by time need PARTITION BY RANGE on the ID column alone.")));

	type = getBaseType(key->parttypid[0]);
	if (type != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("table \"%s\" is not partitioned by a bigint column",
						RelationGetRelationName(parent)),
				 errdetail("Its partition key, column \"%s\", is of type %s.",
						   get_attname(relid, key->partattrs[0], false),
						   format_type_be(key->parttypid[0]))));

	/* where other operators order it, bounds are not what they seem */
	if (key->partopfamily[0] != INTEGER_BTREE_FAM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" is not partitioned by bigint's own order",
						RelationGetRelationName(parent)),
				 errdetail("Its partition key has another operator class: %s.",
						   key_str(relid))));
	return parent;
}

/*
 * Read a bound from the catalog.
 */
static Bound
read_bound(List *datums)
{
	PartitionRangeDatum *datum = linitial_node(PartitionRangeDatum, datums);
	Bound		bound = {datum->kind, 0};

	if (datum->kind == PARTITION_RANGE_DATUM_VALUE)
		bound.id = DatumGetInt64(castNode(Const, datum->value)->constvalue);
	return bound;
}

/*
 * The partitions of a parent, by their bounds; the default partition comes
 * last.  Those being detached are among them, since their bounds still count.
 */
static Partition *
read_partitions(Relation parent, int *npartitions)
{
	PartitionDesc desc = RelationGetPartitionDesc(parent, false);
	Partition  *partitions = palloc(sizeof(Partition) * Max(desc->nparts, 1));
	int			n = 0;

	for (int i = 0; i < desc->nparts; i++)
	{
		HeapTuple	tuple = SearchSysCache1(RELOID,
											ObjectIdGetDatum(desc->oids[i]));
		Partition  *partition = &partitions[n];
		PartitionBoundSpec *spec;
		Datum		datum;
		bool		isnull;

		/* one that has been detached concurrently by now is not there */
		if (!HeapTupleIsValid(tuple))
			continue;
		datum = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound,
								&isnull);
		if (!isnull)
		{
			spec = castNode(PartitionBoundSpec,
							stringToNode(TextDatumGetCString(datum)));
			memset(partition, 0, sizeof(Partition));
			partition->relid = desc->oids[i];
			partition->relkind = ((Form_pg_class) GETSTRUCT(tuple))->relkind;
			partition->is_default = spec->is_default;
			if (!spec->is_default)
			{
				partition->from = read_bound(spec->lowerdatums);
				partition->to = read_bound(spec->upperdatums);
			}
			n++;
		}
		ReleaseSysCache(tuple);
	}

	/* only now: reads a catalog, during which the description may change */
	if (desc->detached_exist)
	{
		for (int i = 0; i < n; i++)
			partitions[i].detaching = PartitionHasPendingDetach(partitions[i].relid);
	}

	*npartitions = n;
	return partitions;
}

/* that in which an ID belongs */
static Partition *
find_partition(Partition *partitions, int npartitions, Bound bound)
{
	for (int i = 0; i < npartitions; i++)
	{
		if (!partitions[i].is_default &&
			bound_cmp(partitions[i].from, bound) <= 0 &&
			bound_cmp(bound, partitions[i].to) < 0)
			return &partitions[i];
	}
	return NULL;
}

/*
 * The grid of edges
 */

static char *
step_str(const Interval *step)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(step)));
}

static void
step_below_unit(const Interval *step)
{
	Interval	unit = {0};

	unit.time = snowflake_layout.unit_us;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("step %s is smaller than the time unit of snowflake IDs",
					step_str(step)),
			 errdetail("The time unit of the layout \"%s\" is %s.",
					   snowflake_layout_text, step_str(&unit))));
}

/*
 * What a step is a whole number of.
 */
static void
grid_init(Grid *grid, const Interval *step, Datum zone)
{
	int			kinds = (step->month != 0) + (step->day != 0) + (step->time != 0);

	grid->step = *step;
	grid->zone = zone;
	grid->local = step->time == 0;
	grid->anchor = 0;

	if (INTERVAL_NOT_FINITE(step) || kinds == 0 ||
		(kinds == 1 && (step->month < 0 || step->day < 0 || step->time < 0)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be positive and finite"),
				 errdetail("The step is %s.", step_str(step))));
	if (kinds > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be whole months, whole days, or hours and smaller"),
				 errdetail("The step is %s.", step_str(step)),
				 errhint("Months and days have no fixed length, so they cannot be mixed with each other and with hours.")));

	if (step->month != 0)
		grid->unit = "month";
	else if (step->day != 0)
		grid->unit = "day";
	else if (step->time < snowflake_layout.unit_us)
		step_below_unit(step);
	else if (step->time % USECS_PER_HOUR == 0)
		grid->unit = "hour";
	else if (step->time % USECS_PER_MINUTE == 0)
		grid->unit = "minute";
	else if (step->time % USECS_PER_SEC == 0)
		grid->unit = "second";
	else if (step->time % 1000 == 0)
		grid->unit = "milliseconds";
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be a whole number of milliseconds"),
				 errdetail("The step is %s.", step_str(step))));
}

/* where a grid has its n-th edge, as a local time or an instant */
static int64
grid_point(const Grid *grid, int64 n)
{
	Interval	span = {0};
	int64		result;

	if (grid->local)
	{
		if (pg_mul_s64_overflow(n, grid->step.month + grid->step.day, &result) ||
			result != (int32) result)
			goto out_of_range;
		if (grid->step.month != 0)
			span.month = (int32) result;
		else
			span.day = (int32) result;
		return DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval,
													 TimestampGetDatum(grid->anchor),
													 IntervalPGetDatum(&span)));
	}

	if (!pg_mul_s64_overflow(n, grid->step.time, &result) &&
		!pg_add_s64_overflow(grid->anchor, result, &result) &&
		IS_VALID_TIMESTAMP(result))
		return result;

out_of_range:
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp out of range")));
	return 0;					/* not reached */
}

/* the instant of its n-th edge */
static TimestampTz
grid_edge(const Grid *grid, int64 n)
{
	int64		point = grid_point(grid, n);

	if (!grid->local)
		return point;
	return DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone, grid->zone,
												   TimestampGetDatum(point)));
}

/* put the anchor at an instant */
static void
grid_anchor(Grid *grid, TimestampTz ts)
{
	grid->anchor = ts;
	if (grid->local)
		grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamptz_zone,
															 grid->zone,
															 TimestampTzGetDatum(ts)));
}

/*
 * Put the anchor where the month, day, hour ... of an instant begins.
 */
static void
grid_anchor_cut(Grid *grid, TimestampTz ts)
{
	Datum		unit = CStringGetTextDatum(grid->unit);

	if (!grid->local)
	{
		grid->anchor = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_trunc_zone,
															   unit,
															   TimestampTzGetDatum(ts),
															   grid->zone));
		return;
	}

	grid_anchor(grid, ts);
	grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamp_trunc, unit,
														 TimestampGetDatum(grid->anchor)));

	/*
	 * Where midnight comes twice, or is skipped together with some time
	 * before it, the server takes a later instant.  Until then it is still
	 * the day before.
	 */
	if (grid_edge(grid, 0) > ts)
	{
		Interval	back = {0};

		if (grid->step.month != 0)
			back.month = -1;
		else
			back.day = -1;
		grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval,
															 TimestampGetDatum(grid->anchor),
															 IntervalPGetDatum(&back)));
	}
}

/* is a partition the step of the grid that begins at its anchor? */
static bool
grid_matches(const Grid *grid, const Partition *partition)
{
	return bound_equal(bound_at(grid_edge(grid, 0)), partition->from) &&
		bound_equal(bound_at(grid_edge(grid, 1)), partition->to);
}

/*
 * Let the grid go on from a partition there is, if that is one step long and
 * does not begin after an instant.
 */
static bool
grid_continue(Grid *grid, const Partition *partition, TimestampTz ts)
{
	Grid		try = *grid;
	TimestampTz start;

	if (partition == NULL || !bound_time(partition->from, &start) || start > ts)
		return false;

	/* its start as it was asked for may be inside of a time unit */
	grid_anchor_cut(&try, start);
	if (!grid_matches(&try, partition))
	{
		grid_anchor(&try, start);
		if (!grid_matches(&try, partition))
			return false;
	}
	*grid = try;
	return true;
}

/*
 * Put the grid where a period begins, in step with the partition that holds
 * its start or, where there is none, the start of its month, day, hour ...
 */
static void
grid_start(Grid *grid, TimestampTz ts, Partition *partitions, int npartitions)
{
	int64		unit = layout_unit_floor(&snowflake_layout,
										 clock_since_epoch(ts));
	Partition  *holder = find_partition(partitions, npartitions,
										bound_of_unit(unit));

	grid_anchor_cut(grid, ts);
	if (!grid_continue(grid, holder, ts))
	{
		holder = find_partition(partitions, npartitions,
								bound_at(grid_edge(grid, 0)));
		(void) grid_continue(grid, holder, ts);
	}
}

/*
 * What a new partition's name has after the parent's: its start.
 */
static char *
grid_suffix(const Grid *grid, int64 n)
{
	int64		point = grid_point(grid, n);
	struct pg_tm tm;
	fsec_t		fsec;

	/* an instant is read as UTC: local hours may come twice */
	if (timestamp2tm(point, NULL, &tm, &fsec, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));

	if (grid->step.month != 0)
	{
		if (grid->step.month % MONTHS_PER_YEAR == 0 && tm.tm_mon == 1)
			return psprintf("%04d", tm.tm_year);
		return psprintf("%04d_%02d", tm.tm_year, tm.tm_mon);
	}
	if (grid->step.day != 0)
		return psprintf("%04d_%02d_%02d", tm.tm_year, tm.tm_mon, tm.tm_mday);

	/* as much of it as all starts of this grid need */
	if (grid->step.time % USECS_PER_MINUTE == 0 &&
		grid->anchor % USECS_PER_MINUTE == 0)
		return psprintf("%04d_%02d_%02d_%02d%02dz", tm.tm_year, tm.tm_mon,
						tm.tm_mday, tm.tm_hour, tm.tm_min);
	if (grid->step.time % USECS_PER_SEC == 0 &&
		grid->anchor % USECS_PER_SEC == 0)
		return psprintf("%04d_%02d_%02d_%02d%02d%02dz", tm.tm_year, tm.tm_mon,
						tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return psprintf("%04d_%02d_%02d_%02d%02d%02d%03dz", tm.tm_year, tm.tm_mon,
					tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
					(int) (fsec / 1000));
}

/*
 * Creating
 */

/*
 * Raise an ERROR unless some of the layout's IDs are from start to end.
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
 * The partitions that hold all IDs of a period: the bounds only.
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

		/* a grid that goes on from a partition there is may begin earlier */
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
 * Find those that are there already.  Raise an ERROR where one that is there
 * has other bounds.
 */
static void
match_partitions(List *plan, Partition *partitions, int npartitions)
{
	int			i = 0;
	ListCell   *lc;

	/* both are in the order of their bounds, and the default one comes last */
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
 * Create a partition.  Not by PARTITION OF, which would lock the parent
 * against all others; what LIKE leaves out, ATTACH PARTITION brings: indexes,
 * keys, foreign keys, triggers, identity.
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
	int			nestlevel;

	PreventCommandDuringRecovery("snowflake_create_partitions()");
	PreventCommandIfReadOnly("snowflake_create_partitions()");

	/* what can be said without looking at the table */
	if (TIMESTAMP_NOT_FINITE(from) || TIMESTAMP_NOT_FINITE(to))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the period to create partitions for must be finite"),
				 errdetail("The period is from %s to %s.",
						   time_str(from), time_str(to))));
	require_order();
	period_require_order(from, to);
	grid_init(&grid, PG_GETARG_INTERVAL_P(3), PG_GETARG_DATUM(4));
	grid_anchor_cut(&grid, from);	/* knows the time zone, or not */

	ddl_require_owner(relid);
	rel = open_parent(relid, ShareUpdateExclusiveLock);
	ddl_require_owner(relid);	/* it may have changed before the lock */

	parent.relid = relid;
	parent.namespace = RelationGetNamespace(rel);
	parent.owner = rel->rd_rel->relowner;
	parent.tablespace = rel->rd_rel->reltablespace;
	parent.access_method = rel->rd_rel->relam;
	parent.name = ddl_name(relid);

	partitions = read_partitions(rel, &npartitions);
	/* ALTER TABLE wants nobody of this session to have it open */
	relation_close(rel, NoLock);

	if (from < to)
	{
		grid_start(&grid, from, partitions, npartitions);
		plan = plan_partitions(&grid, relid, from, to);
		match_partitions(plan, partitions, npartitions);
		require_names(plan, parent.namespace);
	}

	InitMaterializedSRF(fcinfo, 0);
	nestlevel = ddl_begin();
	foreach(lc, plan)
	{
		Wanted	   *wanted = lfirst(lc);
		bool		created = !OidIsValid(wanted->relid);
		Datum		values[4];
		bool		nulls[4] = {false};

		if (created)
			create_partition(&parent, wanted);

		values[0] = ObjectIdGetDatum(wanted->relid);
		set_bound_time(wanted->from, &values[1], &nulls[1]);
		set_bound_time(wanted->to, &values[2], &nulls[2]);
		values[3] = BoolGetDatum(created);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	ddl_end(nestlevel);

	return (Datum) 0;
}

/*
 * Listing
 */

/* What a table holds, as counted. */
typedef struct Count
{
	Oid			relid;			/* first, for oid_cmp() */
	int64		rows;
} Count;

/*
 * Count the rows of each leaf of a parent, by way of the parent: who may read
 * it may count.  Returns them by OID; those without rows are left out.
 */
static Count *
count_rows(Oid parent, int *ncounts)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *query = psprintf("SELECT tableoid, pg_catalog.count(*) FROM %s GROUP BY 1 ORDER BY 1",
								 ddl_name(parent));
	Count	   *counts;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed: %s", query);

	*ncounts = (int) SPI_processed;
	counts = MemoryContextAlloc(context, sizeof(Count) * Max(*ncounts, 1));
	for (int i = 0; i < *ncounts; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	tupdesc = SPI_tuptable->tupdesc;
		bool		isnull;

		counts[i].relid = DatumGetObjectId(SPI_getbinval(tuple, tupdesc, 1, &isnull));
		counts[i].rows = DatumGetInt64(SPI_getbinval(tuple, tupdesc, 2, &isnull));
	}
	SPI_finish();
	return counts;
}

/* a partition and, where it is partitioned itself, all below it */
static List *
partition_tree(const Partition *partition)
{
	if (partition->relkind != RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(partition->relid);
	return find_all_inheritors(partition->relid, NoLock, NULL);
}

/*
 * How many rows a table has, as far as is known without reading it: as the
 * planner estimates it, by rows a page as of the last VACUUM or ANALYZE, and
 * pages as of now.  Before the first one, what the statistics know, which may
 * not have heard of it yet.
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

			/* it takes one that was never vacuumed for 10 pages or more */
			if (pages > 0)
				rows *= (double) RelationGetNumberOfBlocks(rel) / pages;
		}
	}
	else if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		rows = Max(rel->rd_rel->reltuples, 0);	/* a foreign table */
	relation_close(rel, AccessShareLock);
	return (int64) rint(rows);
}

/* on disk, with indexes and TOAST; 0 for a table that is gone by now */
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
	Count	   *counts = NULL;
	int			ncounts = 0;

	require_order();
	rel = open_parent(relid, AccessShareLock);
	partitions = read_partitions(rel, &npartitions);
	if (exact)
		counts = count_rows(relid, &ncounts);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < npartitions; i++)
	{
		Partition  *partition = &partitions[i];
		Datum		values[7];
		bool		nulls[7] = {false};
		int64		rows = 0;
		int64		bytes = 0;
		ListCell   *lc;

		foreach(lc, partition_tree(partition))
		{
			Oid			member = lfirst_oid(lc);

			if (exact)
			{
				Count	   *count = ncounts == 0 ? NULL :
					bsearch(&member, counts, ncounts, sizeof(Count), oid_cmp);

				rows += count == NULL ? 0 : count->rows;
			}
			else
				rows += estimate_rows(member);
			bytes += relation_bytes(member);
			CHECK_FOR_INTERRUPTS();
		}

		values[0] = ObjectIdGetDatum(partition->relid);
		if (partition->is_default)
			nulls[1] = nulls[2] = nulls[3] = nulls[4] = true;
		else
		{
			set_bound_time(partition->from, &values[1], &nulls[1]);
			set_bound_time(partition->to, &values[2], &nulls[2]);
			set_bound_id(partition->from, &values[3], &nulls[3]);
			set_bound_id(partition->to, &values[4], &nulls[4]);
		}
		values[5] = Int64GetDatum(rows);
		/* the parent shows nothing of one that is being detached */
		nulls[5] = exact && partition->detaching;
		values[6] = Int64GetDatum(bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}

/*
 * Dropping
 */

/*
 * Leave only those that end at an instant or before it.  Returns how many.
 * Not those without an end in time: the default partition, those up to
 * MAXVALUE, and those of negative numbers, in which no snowflake ID can be.
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
 * Run a command, unless it is a dry run, and say so.
 */
static void
drop_step(ReturnSetInfo *rsinfo, const Partition *partition, char *name,
		  char *command, bool dry_run)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(name);
	set_bound_time(partition->from, &values[1], &nulls[1]);
	set_bound_time(partition->to, &values[2], &nulls[2]);
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
				 errmsg("the time before which partitions are dropped must not be infinity")));
	require_order();

	ddl_require_owner(relid);
	rel = open_parent(relid, AccessShareLock);
	partitions = read_partitions(rel, &npartitions);
	if (npartitions > 0 && partitions[npartitions - 1].is_default)
		default_relid = partitions[npartitions - 1].relid;
	npartitions = keep_ended(partitions, npartitions, before);
	parent = ddl_name(relid);

	/*
	 * Let go before the lock that dropping takes: two who hold this one and
	 * want that one would wait for each other.
	 */
	relation_close(rel, AccessShareLock);

	if (!dry_run && npartitions > 0)
	{
		rel = open_parent(relid, AccessExclusiveLock);
		ddl_require_owner(relid);
		partitions = read_partitions(rel, &npartitions);
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
	nestlevel = ddl_begin();
	for (int i = 0; i < npartitions; i++)
	{
		Partition  *partition = &partitions[i];
		char	   *name;

		/* as DROP does, but before the name is read, so that it stays */
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
