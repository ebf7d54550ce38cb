/*-------------------------------------------------------------------------
 *
 * parse.h
 *		What the functions that take an ID share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PARSE_H
#define SNOWFLAKE_PARSE_H

#pragma GCC visibility push(hidden)

/* The ID, or an ERROR when it is none of this server's layout. */
extern int64 parse_check(int64 id);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PARSE_H */
