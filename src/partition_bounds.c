/*-------------------------------------------------------------------------
 *
 * partition_bounds.c
 *		Bounds of range partitions on an ID column, and the partitions that a
 *		table has.
 *
 * A partition's bounds are the first IDs of time units.  Computing with them
 * needs the layout and the epoch only.  The partitions of a table, and their
 * bounds, are read from the catalogs.  Nothing is changed here.
 *
 * Locks: partitions_open_parent() takes the one that its caller asks for, and
 * keeps it.  The partitions themselves are not locked, so any of them may have
 * been dropped when a caller looks at it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "partition_bounds.h"
#include "ranges.h"
#include "settings.h"

/*
 * Bounds
 */

int
bound_cmp(Bound a, Bound b)
{
	if (a.kind != b.kind)
		return a.kind < b.kind ? -1 : 1;
	if (a.kind != PARTITION_RANGE_DATUM_VALUE || a.id == b.id)
		return 0;
	return a.id < b.id ? -1 : 1;
}

bool
bound_equal(Bound a, Bound b)
{
	return bound_cmp(a, b) == 0;
}

Bound
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

Bound
bound_at(TimestampTz ts)
{
	return bound_of_unit(unit_from(ts));
}

bool
bound_time(Bound bound, TimestampTz *ts)
{
	if (bound.kind != PARTITION_RANGE_DATUM_VALUE || bound.id < 0 ||
		bound_cmp(bound, bound_of_unit(PG_INT64_MAX)) > 0)
		return false;

	/* this may be the unit after the last one, which has a time, too */
	return clock_timestamp_of_unit((uint64) bound.id >> snowflake_layout.shift[FIELD_TIME],
								   ts);
}

void
bound_time_column(Bound bound, Datum *value, bool *isnull)
{
	TimestampTz ts = 0;

	*isnull = !bound_time(bound, &ts);
	*value = TimestampTzGetDatum(ts);
}

void
bound_id_column(Bound bound, Datum *value, bool *isnull)
{
	*isnull = bound.kind != PARTITION_RANGE_DATUM_VALUE;
	*value = Int64GetDatum(bound.id);
}

const char *
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

char *
time_str(TimestampTz ts)
{
	return pstrdup(timestamptz_to_str(ts));
}

const char *
bound_str(Bound bound)
{
	TimestampTz ts;

	return bound_time(bound, &ts) ? time_str(ts) : bound_sql(bound);
}

/*
 * The partitions of a table
 */

/*
 * Raise an ERROR unless the relation is a partitioned table.  This is checked
 * before it is locked, since relations of some kinds cannot be locked.
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

Relation
partitions_open_parent(Oid relid, LOCKMODE lockmode)
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

	/* with operators that order it otherwise, bounds mean something else */
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

Partition *
partitions_read(Relation parent, int *npartitions)
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

		/* skip a partition that was detached or dropped by now */
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

	/* not above: this reads a catalog, and desc may change meanwhile */
	if (desc->detached_exist)
	{
		for (int i = 0; i < n; i++)
			partitions[i].detaching = PartitionHasPendingDetach(partitions[i].relid);
	}

	*npartitions = n;
	return partitions;
}

Partition *
partitions_find(Partition *partitions, int npartitions, Bound bound)
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
