/*-------------------------------------------------------------------------
 *
 * clock_steps.h
 *		Notice that the server's clock was set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_STEPS_H
#define SNOWFLAKE_CLOCK_STEPS_H

#pragma GCC visibility push(hidden)

/*
 * Has the server's clock been set since anybody looked?  Counts it, and says
 * so in the log.  Not for the fast path.
 */
extern void clock_steps_watch(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CLOCK_STEPS_H */
