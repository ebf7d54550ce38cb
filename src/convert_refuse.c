/*-------------------------------------------------------------------------
 *
 * convert_refuse.c
 *		What would refuse the new IDs, once the column draws them: CHECK
 *		constraints, domains, and partitioned tables without a partition for
 *		them.
 *
 * Some IDs are tried: of now, and for constraints also of later.  A constraint
 * is evaluated only if it looks at nothing but the ID, and if all of it is
 * immutable and PostgreSQL's own: a dry run runs no function of others.
 *
 * Locks: ACCESS SHARE on one partitioned table and those above it, for the
 * moment in which its partitions are looked at, if nobody else has them locked;
 * they are not waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "clock.h"
#include "convert_columns.h"
#include "convert_ids.h"
#include "convert_refuse.h"
#include "ddl.h"
#include "lease.h"
#include "settings.h"

/* IDs that are tried: of one time unit, and of some years later. */
#define NOW_IDS 64
#define LATER_IDS 2
#define YEAR_US (INT64CONST(31557600) * USECS_PER_SEC)

static const int later_years[LATER_IDS] = {1, 10};

static const char *const hint_constraint =
"Drop or replace the constraint first. With force => true the column is converted nevertheless, and inserts fail until you do so.";
static const char *const hint_parent =
"Convert the partitioned table instead. With force => true the column of this partition is converted nevertheless, and inserts into it fail.";
static const char *const hint_partition =
"Create the partition first, for example with snowflake_create_partitions(). With force => true the column is converted nevertheless, and inserts fail until you do so.";

/* A column that gets new IDs: the converted one, or one that references it. */
typedef struct Place
{
	Oid			relid;
	char	   *column;
	Oid			type;
	bool		below;			/* inherited from another place */
} Place;

typedef struct Trial
{
	int64		ids[NOW_IDS + LATER_IDS];
	int			nids;
	Place	   *places;
	int			nplaces;
	char	   *from;			/* the places as a FROM item */
} Trial;

/* What a table's partition key makes of an ID. */
typedef enum Way
{
	WAY_UNKNOWN,				/* locked by others, or dropped */
	WAY_ANY,					/* the column is not in the key */
	WAY_MIXED,					/* other columns are in the key, too */
	WAY_NONE,					/* there is no partition for it */
	WAY_FOUND
} Way;

static void
choose_ids(Trial *trial)
{
	int64		now = layout_unit_floor(&snowflake_layout, clock_since_epoch(clock_read()));
	int64		last = (int64) snowflake_layout.max[FIELD_TIME];
	uint64		node = (uint64) Max(lease_node(), 0);

	now = Min(Max(now, 0), last);
	trial->nids = 0;
	for (uint64 i = 0; i < NOW_IDS; i++)
		trial->ids[trial->nids++] =
			layout_pack(&snowflake_layout, now, node,
						i % (snowflake_layout.max[FIELD_WORKER] + 1),
						i % (snowflake_layout.max[FIELD_SEQUENCE] + 1));
	for (int i = 0; i < LATER_IDS; i++)
	{
		int64		later = now + later_years[i] * (YEAR_US / snowflake_layout.unit_us);

		if (later <= last)
			trial->ids[trial->nids++] = layout_pack(&snowflake_layout, later, node, 0, 0);
	}
}

/*
 * An ID for a message, with its time.
 */
static char *
show_id(int64 id)
{
	return psprintf(INT64_FORMAT " of %s", id,
					convert_show(convert_unit_start(layout_unpack(&snowflake_layout, id, FIELD_TIME))));
}

static void
refuse(Conversion *plan, const char *detail, const char *definition, const char *hint)
{
	Row		   *row;

	if (plan->force)
		row = add_row(plan, ROW_WARNING, detail);
	else
	{
		row = add_error(plan, ERRCODE_CHECK_VIOLATION, detail);
		row->hint = hint;
	}
	row->definition = definition;
}

static void
may_refuse(Conversion *plan, const char *detail, const char *definition)
{
	add_row(plan, ROW_WARNING, detail)->definition = definition;
}

/*
 * The places: foreign keys lead from the column to those that reference it,
 * and inheritance to the tables below.
 */
static void
read_places(Conversion *plan, Trial *trial)
{
	StringInfoData from;
	uint64		n;

	n = ddl_query(psprintf(
						   "WITH RECURSIVE place (rel, att, below) AS ("
						   "  SELECT %u::oid, %d::int2, false"
						   "  UNION"
						   "  SELECT l.rel, l.att, l.below FROM place p CROSS JOIN LATERAL ("
						   "    SELECT c.conrelid, k.att, false FROM pg_depend d"
						   "    JOIN pg_constraint c ON c.oid = d.objid AND c.contype = 'f' AND c.conparentid = 0,"
						   "    unnest(c.conkey, c.confkey) AS k (att, confatt)"
						   "    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = p.rel AND d.refobjsubid = p.att"
						   "     AND d.classid = 'pg_constraint'::regclass AND c.confrelid = p.rel AND k.confatt = p.att"
						   "    UNION ALL"
						   "    SELECT c.attrelid, c.attnum, true FROM pg_attribute a"
						   "    JOIN pg_inherits i ON i.inhparent = a.attrelid"
						   "    JOIN pg_attribute c ON c.attrelid = i.inhrelid AND c.attname = a.attname"
						   "    WHERE a.attrelid = p.rel AND a.attnum = p.att AND c.attinhcount > 0"
						   "     AND (SELECT t.relhassubclass FROM pg_class t WHERE t.oid = p.rel)"
						   "  ) AS l (rel, att, below)"
						   ")"
						   " SELECT p.rel, p.att, a.attname, a.atttypid, bool_or(p.below)"
						   " FROM place p JOIN pg_attribute a ON a.attrelid = p.rel AND a.attnum = p.att"
						   " GROUP BY 1, 2, 3, 4 ORDER BY p.rel = %u DESC, 1, 2",
						   plan->relid, plan->attnum, plan->relid));
	trial->places = palloc0(sizeof(Place) * Max(n, 1));
	trial->nplaces = (int) n;
	initStringInfo(&from);
	for (uint64 i = 0; i < n; i++)
	{
		Place	   *place = &trial->places[i];

		place->relid = ddl_value_oid(i, 1);
		place->column = ddl_value(i, 3);
		place->type = ddl_value_oid(i, 4);
		place->below = ddl_value_bool(i, 5);
		appendStringInfo(&from, "%s(%d, %u::oid, %s::int2, %s)", i > 0 ? ", " : "(VALUES ",
						 (int) i, place->relid, ddl_value(i, 2), place->below ? "true" : "false");
	}
	appendStringInfoString(&from, ") AS p (place, rel, att, below)");
	trial->from = from.data;
}

/*
 * Run a query that may fail, and return the first value of its first row, or
 * NULL if there is none.  Where it fails, its error is the result.
 */
static char *
try_query(const char *sql, char **error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile failure = NULL;
	char	   *volatile result = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		if (ddl_query(sql) > 0)
			result = ddl_value(0, 1);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		failure = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (failure != NULL && (failure->sqlerrcode == ERRCODE_QUERY_CANCELED ||
							failure->sqlerrcode == ERRCODE_OUT_OF_MEMORY))
		ReThrowError(failure);
	*error = failure == NULL ? NULL : failure->message;
	return result;
}

/*
 * Is the column in an expression of the partition key?
 */
static bool
in_expressions(PartitionKey key, AttrNumber attnum)
{
	Bitmapset  *attnums = NULL;

	pull_varattnos((Node *) key->partexprs, 1, &attnums);
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, attnums);
}

/*
 * In which partition an ID belongs, by the key of one column.
 */
static int
partition_index(PartitionKey key, PartitionBoundInfo bounds, int64 id)
{
	Datum		value = Int64GetDatum(id);
	bool		isnull = false;
	bool		equal = false;
	int			place;

	switch (key->strategy)
	{
		case PARTITION_STRATEGY_HASH:
			return bounds->indexes[compute_partition_hash_value(1, key->partsupfunc,
																key->partcollation,
																&value, &isnull) % bounds->nindexes];
		case PARTITION_STRATEGY_LIST:
			place = partition_list_bsearch(key->partsupfunc, key->partcollation,
										   bounds, value, &equal);
			if (place >= 0 && equal)
				return bounds->indexes[place];
			break;
		case PARTITION_STRATEGY_RANGE:
			place = partition_range_datum_bsearch(key->partsupfunc, key->partcollation,
												  bounds, 1, &value, &equal);
			if (bounds->indexes[place + 1] >= 0)
				return bounds->indexes[place + 1];
			break;
	}
	return bounds->default_index;
}

/*
 * In which partition of a partitioned table an ID belongs.
 */
static Way
find_way(Oid parent, const char *column, int64 id, Oid *child)
{
	AttrNumber	attnum = get_attnum(parent, column);
	Relation	rel;
	PartitionKey key;
	PartitionDesc desc;
	Way			way = WAY_ANY;

	if (!ConditionalLockRelationOid(parent, AccessShareLock))
		return WAY_UNKNOWN;
	rel = try_relation_open(parent, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(parent, AccessShareLock);
		return WAY_UNKNOWN;
	}
	key = RelationGetPartitionKey(rel);
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == attnum)
			way = key->partnatts == 1 && getBaseType(key->parttypid[0]) == INT8OID ?
				WAY_NONE : WAY_MIXED;
	}
	if (way == WAY_ANY && in_expressions(key, attnum))
		way = WAY_MIXED;
	if (way == WAY_NONE)
	{
		int			index = -1;

		desc = RelationGetPartitionDesc(rel, true);
		if (desc->nparts > 0)
			index = partition_index(key, desc->boundinfo, id);
		if (index >= 0)
		{
			*child = desc->oids[index];
			way = WAY_FOUND;
		}
	}
	relation_close(rel, AccessShareLock);
	return way;
}

/* What was found on the way of an ID through partitioned tables. */
typedef struct Stop
{
	Oid			relid;
	Way			way;			/* none, or mixed */
} Stop;

/*
 * Follow an ID down to its partition; where other columns decide, to each of
 * the partitions.  False where it does not get through for certain.
 */
static bool
follow(Oid relid, const char *column, int64 id, Stop *stop)
{
	Oid			child = InvalidOid;
	Way			way;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return true;
	way = find_way(relid, column, id, &child);
	if (way == WAY_UNKNOWN)
		return true;
	if (way == WAY_FOUND)
		return follow(child, column, id, stop);
	if (way == WAY_ANY)
	{
		ListCell   *lc;
		List	   *children;

		children = find_inheritance_children(relid, NoLock);
		foreach(lc, children)
		{
			if (!follow(lfirst_oid(lc), column, id, stop))
				return false;
		}
		return true;
	}
	stop->relid = relid;
	stop->way = way;
	return false;
}

/*
 * Is an ID one of those of the partition itself?
 */
static bool
belongs(Oid relid, const char *column, int64 id, Stop *stop)
{
	while (get_rel_relispartition(relid))
	{
		Oid			parent = get_partition_parent(relid, true);
		Oid			child = InvalidOid;
		Way			way = find_way(parent, column, id, &child);

		if (way == WAY_MIXED || way == WAY_NONE ||
			(way == WAY_FOUND && child != relid))
		{
			stop->relid = relid;
			stop->way = way == WAY_MIXED ? WAY_MIXED : WAY_NONE;
			return false;
		}
		relid = parent;
	}
	return true;
}

#define NO_IDS "'{}'::bigint[]"

/*
 * The IDs as an array, for a query; of a partition, those that may get there.
 */
static char *
id_array(Trial *trial, Place *place)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "'{");
	for (int i = 0; i < trial->nids; i++)
	{
		Stop		stop;

		if (belongs(place->relid, place->column, trial->ids[i], &stop) ||
			stop.way == WAY_MIXED)
			appendStringInfo(&buf, "%s" INT64_FORMAT, buf.len > 2 ? "," : "", trial->ids[i]);
	}
	appendStringInfoString(&buf, "}'::bigint[]");
	return buf.data;
}

/*
 * Try a constraint whose expression is given, with its name for a message.
 */
static void
try_check(Conversion *plan, Place *place, const char *ids, const char *expression,
		  const char *what, const char *definition)
{
	char	   *column = pstrdup(quote_identifier(place->column));
	char	   *error;
	char	   *id = try_query(psprintf("SELECT %s FROM unnest(%s) AS t (%s) WHERE (%s) IS FALSE LIMIT 1",
										column, ids, column, expression),
							   &error);

	if (error != NULL)
		refuse(plan, psprintf("%s fails with new IDs: %s", what, error),
			   definition, hint_constraint);
	else if (id != NULL)
		refuse(plan, psprintf("%s refuses new IDs, such as %s", what,
							  show_id(strtoll(id, NULL, 10))),
			   definition, hint_constraint);
}

/* What makes a constraint k one of PostgreSQL's own functions only */
#define BUILT_IN \
	"NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_constraint'::regclass AND d.objid = k.oid" \
	" AND NOT (d.refclassid = 'pg_class'::regclass AND d.refobjid = k.conrelid" \
	"  OR d.refclassid = 'pg_type'::regclass AND d.refobjid = k.contypid))"

/*
 * CHECK constraints.  One that a table has from another place is found there,
 * and one that is NOT ENFORCED (from PostgreSQL 18 on) refuses nothing.
 */
static void
find_checks(Conversion *plan, Trial *trial)
{
	uint64		n;
	char	  **values;

	n = ddl_query(psprintf("SELECT p.place, pg_get_expr(k.conbin, k.conrelid), k.conbin,"
						   " format('check constraint %%I of %%s', k.conname, k.conrelid::regclass),"
						   " format('CONSTRAINT %%I %%s', k.conname, pg_get_constraintdef(k.oid)),"
						   " k.conkey = ARRAY[p.att] AND " BUILT_IN
						   " FROM %s JOIN pg_constraint k ON k.conrelid = p.rel AND k.contype = 'c'"
						   "  AND p.att = ANY (k.conkey)"
						   " WHERE (k.coninhcount = 0 OR NOT p.below)"
						   " AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)"
						   " ORDER BY p.place, 4",
						   trial->from));
	values = palloc(sizeof(char *) * 6 * Max(n, 1));
	for (uint64 i = 0; i < n * 6; i++)
		values[i] = ddl_value(i / 6, i % 6 + 1);
	for (uint64 i = 0; i < n; i++)
	{
		char	  **row = &values[i * 6];
		Place	   *place = &trial->places[atoi(row[0])];
		char	   *ids = id_array(trial, place);

		if (strcmp(ids, NO_IDS) == 0)
			continue;
		if (row[5][0] == 't' && !contain_mutable_functions(stringToNode(row[2])))
			try_check(plan, place, ids, row[1], row[3], row[4]);
		else
			may_refuse(plan, psprintf("%s may refuse new IDs: it depends on more than the ID", row[3]),
					   row[4]);
	}
}

/*
 * Domains over bigint, of columns that reference the IDs.
 */
static void
find_domains(Conversion *plan, Trial *trial)
{
	for (int i = 0; i < trial->nplaces; i++)
	{
		Place	   *place = &trial->places[i];
		char	   *name = column_name(place->relid, place->column);
		char	   *domain = format_type_be_qualified(place->type);
		char	   *definition = NULL;
		char	   *error;
		bool		pure = true;
		uint64		n;

		if (place->below || getBaseType(place->type) == place->type)
			continue;
		n = ddl_query(psprintf("WITH RECURSIVE domain (oid) AS ("
							   "  SELECT %u::oid UNION"
							   "  SELECT t.typbasetype FROM domain d JOIN pg_type t ON t.oid = d.oid AND t.typtype = 'd')"
							   " SELECT k.conbin, format('CONSTRAINT %%I %%s', k.conname, pg_get_constraintdef(k.oid)), " BUILT_IN
							   " FROM domain JOIN pg_constraint k ON k.contypid = domain.oid AND k.contype = 'c'"
							   " ORDER BY k.conname",
							   place->type));
		for (uint64 j = 0; j < n; j++)
		{
			pure = pure && ddl_value_bool(j, 3) &&
				!contain_mutable_functions(stringToNode(ddl_value(j, 1)));
			definition = definition == NULL ? ddl_value(j, 2) :
				psprintf("%s\n%s", definition, ddl_value(j, 2));
		}
		if (definition == NULL)
			continue;
		if (!pure)
		{
			may_refuse(plan, psprintf("domain %s of column %s may refuse new IDs", domain, name),
					   definition);
			continue;
		}
		(void) try_query(psprintf("SELECT count(id::%s) FROM unnest(%s) AS t (id)",
								  domain, id_array(trial, place)), &error);
		if (error != NULL)
			refuse(plan, psprintf("domain %s of column %s refuses new IDs", domain, name),
				   definition, hint_constraint);
	}
}

/* the partition key of a table, for a message */
static char *
partition_by(Oid relid)
{
	if (ddl_query(psprintf("SELECT pg_get_partkeydef(%u)", relid)) != 1 ||
		ddl_value(0, 1) == NULL)
		return NULL;
	return psprintf("PARTITION BY %s", ddl_value(0, 1));
}

static void
find_partitions(Conversion *plan, Trial *trial)
{
	for (int i = 0; i < trial->nplaces; i++)
	{
		Place	   *place = &trial->places[i];
		Stop		stop = {InvalidOid, WAY_UNKNOWN};

		if (place->below)
			continue;
		for (int j = 0; j < NOW_IDS && !OidIsValid(stop.relid); j++)
		{
			int64		id = trial->ids[j];
			char	   *table;

			if (!belongs(place->relid, place->column, id, &stop))
			{
				table = ddl_name(stop.relid);
				if (stop.way == WAY_MIXED)
					may_refuse(plan, psprintf("partition %s may refuse new IDs: other columns are in the partition key, too", table),
							   partition_by(get_partition_parent(stop.relid, true)));
				else
					refuse(plan, psprintf("%s is not the partition for new IDs, such as %s", table, show_id(id)),
						   partition_by(get_partition_parent(stop.relid, true)), hint_parent);
			}
			else if (!follow(place->relid, place->column, id, &stop))
			{
				table = ddl_name(stop.relid);
				if (stop.way == WAY_MIXED)
					may_refuse(plan, psprintf("%s may have no partition for new IDs: other columns are in the partition key, too", table),
							   partition_by(stop.relid));
				else
					refuse(plan, psprintf("%s has no partition for new IDs, such as %s", table, show_id(id)),
						   partition_by(stop.relid), hint_partition);
			}
		}
	}
}

void
find_refusals(Conversion *plan)
{
	Trial		trial;

	choose_ids(&trial);
	read_places(plan, &trial);
	find_checks(plan, &trial);
	find_domains(plan, &trial);
	find_partitions(plan, &trial);
}
