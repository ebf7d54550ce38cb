/*-------------------------------------------------------------------------
 *
 * check_standby.h
 *		snowflake_check() on a standby: what would happen if it was promoted
 *		now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CHECK_STANDBY_H
#define SNOWFLAKE_CHECK_STANDBY_H

#include "check_rows.h"

#pragma GCC visibility push(hidden)

/* The number that its primary has drawn with, as text, NULL for none. */
extern char *check_standby_node(void);

/* The checks "clock" and "mark". */
extern void check_standby_clock(CheckState *state);
extern void check_standby_mark(CheckState *state);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CHECK_STANDBY_H */
