/*-------------------------------------------------------------------------
 *
 * partition_bounds.h
 *		Bounds of range partitions on an ID column, and the partitions that a
 *		table has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PARTITION_BOUNDS_H
#define SNOWFLAKE_PARTITION_BOUNDS_H

#include "nodes/parsenodes.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#pragma GCC visibility push(hidden)

/* A bound of a partition. */
typedef struct Bound
{
	PartitionRangeDatumKind kind;	/* MINVALUE, an ID, or MAXVALUE */
	int64		id;
} Bound;

/* A partition that exists. */
typedef struct Partition
{
	Oid			relid;
	char		relkind;
	bool		is_default;		/* then it has no bounds */
	bool		detaching;		/* DETACH CONCURRENTLY is under way, or failed */
	Bound		from;			/* the first ID */
	Bound		to;				/* the first ID after the last */
} Partition;

/*
 * Bounds are ordered: MINVALUE, the IDs, MAXVALUE.
 */
extern int	bound_cmp(Bound a, Bound b);
extern bool bound_equal(Bound a, Bound b);

/* The first ID of a time unit; 2^63 is beyond all of bigint. */
extern Bound bound_of_unit(int64 unit);

/* The first ID of the first time unit that begins at an instant or after it. */
extern Bound bound_at(TimestampTz ts);

/*
 * When the time unit of a bound begins.  False where it has none.
 */
extern bool bound_time(Bound bound, TimestampTz *ts);

/* A bound as a column of a result: as its time, and as its ID. */
extern void bound_time_column(Bound bound, Datum *value, bool *isnull);
extern void bound_id_column(Bound bound, Datum *value, bool *isnull);

/* A bound for a statement. */
extern const char *bound_sql(Bound bound);

/* A time, and a bound, for a message. */
extern char *time_str(TimestampTz ts);
extern const char *bound_str(Bound bound);

/*
 * Open and lock a table, checked to be partitioned by ranges of one bigint
 * column.
 */
extern Relation partitions_open_parent(Oid relid, LOCKMODE lockmode);

/*
 * The partitions of a parent, by their bounds; the default partition comes
 * last.  Those being detached are among them, since their bounds still count.
 */
extern Partition *partitions_read(Relation parent, int *npartitions);

/* The partition in which an ID belongs; NULL where there is none. */
extern Partition *partitions_find(Partition *partitions, int npartitions,
								  Bound bound);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PARTITION_BOUNDS_H */
