/*-------------------------------------------------------------------------
 *
 * check_catalogs.h
 *		The checks of snowflake_check() that ask the catalogs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CHECK_CATALOGS_H
#define SNOWFLAKE_CHECK_CATALOGS_H

#include "check_rows.h"

#pragma GCC visibility push(hidden)

/* Do the extension's objects here belong to the library? */
extern void check_own_extension(CheckState *state);

/* Are layout and epoch those recorded with the durable mark? */
extern void check_layout(CheckState *state);

/* Do partitions by time take the IDs of now, and of what comes next? */
extern void check_partitions(CheckState *state);

/* What do publications and subscriptions do in the home database? */
extern void check_replication(CheckState *state);

/* Is there an extension of the same name, such as pgEdge's, or what it left? */
extern void check_other_extension(CheckState *state);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CHECK_CATALOGS_H */
