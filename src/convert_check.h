/*-------------------------------------------------------------------------
 *
 * convert_check.h
 *		snowflake_convert(): what stands in the way.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_CHECK_H
#define SNOWFLAKE_CONVERT_CHECK_H

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/*
 * Add errors for objects that keep the server from changing the type of a
 * column because they depend on it.  Views that use such a view are among
 * them, since they have to be dropped and created with it.
 */
extern void find_dependents(Conversion *plan);

/* Add errors and warnings for the members themselves. */
extern void check_members(Conversion *plan);

/*
 * SET DEFAULT on a table sets it on its descendants, too.  Add a row for each
 * descendant that has another default now.
 */
extern void check_descendants(Conversion *plan);

/*
 * Add a warning for a table of an extension: pg_dump does not dump its
 * definition.
 */
extern void check_extension(Conversion *plan);

/*
 * Add errors for what Citus would refuse, where the table or one connected with
 * it is one of its tables.
 */
extern void check_citus(Conversion *plan);

/* Add errors for what keeps this server from issuing IDs. */
extern void check_server(Conversion *plan);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_CHECK_H */
