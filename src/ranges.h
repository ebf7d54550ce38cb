/*-------------------------------------------------------------------------
 *
 * ranges.h
 *		The IDs of a period.
 *
 * An ID stands for the instant at which its time unit begins, the one that
 * snowflake_timestamp() returns.  It is in a period when that instant is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_RANGES_H
#define SNOWFLAKE_RANGES_H

#pragma GCC visibility push(hidden)

/* Raise an ERROR where the IDs of a period are not a range; with this hint. */
extern void ids_require_order(const char *hint);

/*
 * For planner support: may the user execute a function?  What stands for a call
 * of another one is not to need more.
 */
extern bool may_execute(Oid funcid);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_RANGES_H */
