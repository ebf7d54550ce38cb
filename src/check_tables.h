/*-------------------------------------------------------------------------
 *
 * check_tables.h
 *		snowflake_check(): the columns that draw IDs by default, and the IDs in
 *		them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CHECK_TABLES_H
#define SNOWFLAKE_CHECK_TABLES_H

#include "check_rows.h"

#pragma GCC visibility push(hidden)

extern void check_tables(CheckState *state);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CHECK_TABLES_H */
