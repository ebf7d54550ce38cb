/*-------------------------------------------------------------------------
 *
 * segment_keep.h
 *		A clean shutdown keeps the numbers that nobody has drawn.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_KEEP_H
#define SNOWFLAKE_SEGMENT_KEEP_H

#pragma GCC visibility push(hidden)

/* The server stops: give back the numbers that nobody has drawn. */
extern void segment_keep_at_exit(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_KEEP_H */
