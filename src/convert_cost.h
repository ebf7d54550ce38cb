/*-------------------------------------------------------------------------
 *
 * convert_cost.h
 *		snowflake_convert(): what it costs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_COST_H
#define SNOWFLAKE_CONVERT_COST_H

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/*
 * Say for a statement of the plan, an ALTER TABLE, what it locks, and what it
 * rewrites, where columns change their type.  These are given as a list of
 * literals, or NULL.  The sizes are added up in the plan.
 */
extern char *cost_of_alter(Conversion *plan, Oid relid, const char *columns,
						   Rewrite *cost);

/* Add a note with an estimate of time and disk for the whole plan. */
extern void plan_estimate(Conversion *plan);

/* A size, for a message. */
extern char *cost_size(int64 bytes);

/* How long it takes to write so much, for a message; is that long? */
extern char *cost_time(int64 bytes);
extern bool cost_is_long(int64 bytes);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_COST_H */
