/*-------------------------------------------------------------------------
 *
 * lifetime.h
 *		The end of the layout's time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LIFETIME_H
#define SNOWFLAKE_LIFETIME_H

#include "datatype/timestamp.h"

#pragma GCC visibility push(hidden)

/* The log and snowflake_check() warn when less than this is left. */
#define LIFETIME_WARNING_US	(365 * USECS_PER_DAY)

/*
 * Microseconds from the beginning of a time unit to the end, 0 past it;
 * PG_INT64_MAX when they are more.
 */
extern int64 lifetime_left(uint64 time);

/* For a DETAIL: the layout and when it ends.  For a HINT: what to do. */
extern char *lifetime_detail(void);
extern char *lifetime_hint(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_LIFETIME_H */
