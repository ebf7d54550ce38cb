/*-------------------------------------------------------------------------
 *
 * partition_steps.h
 *		Where partitions by time begin and end: at regular steps, such as months
 *		of a time zone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PARTITION_STEPS_H
#define SNOWFLAKE_PARTITION_STEPS_H

#include "utils/timestamp.h"

#include "partition_bounds.h"

#pragma GCC visibility push(hidden)

/*
 * A grid of times at which partitions begin and end, its edges: the n-th edge
 * is anchor + n * step.
 */
typedef struct Grid
{
	Interval	step;			/* one of its three fields is not 0 */
	bool		local;			/* step is months or days, anchor a local time */
	const char *unit;			/* the anchor is truncated to this unit */
	Datum		zone;			/* text */
	int64		anchor;			/* a Timestamp when local, else a TimestampTz */
} Grid;

/*
 * Make a grid of a step, without an anchor yet.  An ERROR unless the step is
 * a whole number of months, days, or of hours and smaller units.
 */
extern void grid_init(Grid *grid, const Interval *step, Datum zone);

/*
 * Put the anchor where the month, day, hour ... of an instant begins.  An
 * ERROR where the time zone does not exist.
 */
extern void grid_anchor_cut(Grid *grid, TimestampTz ts);

/*
 * Put the anchor where the partitions of a period that begins at an instant
 * have to begin: in line with the existing partition that holds the instant,
 * or else where its month, day, hour ... begins.
 */
extern void grid_start(Grid *grid, TimestampTz ts, Partition *partitions,
					   int npartitions);

/* The instant of the n-th edge. */
extern TimestampTz grid_edge(const Grid *grid, int64 n);

/*
 * The end of a new partition's name, after the parent's name: the time of the
 * n-th edge, at which the partition begins.
 */
extern char *grid_suffix(const Grid *grid, int64 n);

/* A step for a message. */
extern char *step_str(const Interval *step);

/* Raise the ERROR of a step that is smaller than the layout's time unit. */
extern void step_below_unit(const Interval *step);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PARTITION_STEPS_H */
