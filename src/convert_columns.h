/*-------------------------------------------------------------------------
 *
 * convert_columns.h
 *		snowflake_convert(): the column to be converted, and those
 *		connected with it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_COLUMNS_H
#define SNOWFLAKE_CONVERT_COLUMNS_H

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/* The OIDs of a list as an array constant, for a query. */
extern char *oid_array(List *oids);

/* The name table.column, with quotes. */
extern char *column_name(Oid relid, const char *column);

/* Is it a type that has to become bigint? */
extern bool is_small(Oid type);

/*
 * Find the table and the column of the call.  Raises an ERROR at once where
 * they cannot be converted at all.
 */
extern void check_target(Conversion *plan);

/*
 * Read the column's type and default.  Raises an ERROR at once for a column
 * that no statement could turn into one of IDs.
 */
extern void read_column(Conversion *plan);

/*
 * Find the members.  A foreign key that a partition has from its parent is
 * found by way of the parent.
 */
extern void read_members(Conversion *plan);

/* The member of this table and column; NULL where there is none. */
extern Member *find_member(Conversion *plan, Oid relid, const char *column);

/* Does the plan change the member's type? */
extern bool is_changing(Conversion *plan, Member *m);

/* Does the plan change or check anything in the member's table? */
extern bool is_touched(Conversion *plan, Member *m);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_COLUMNS_H */
