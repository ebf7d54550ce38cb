/*-------------------------------------------------------------------------
 *
 * convert_run.h
 *		snowflake_convert(): run the plan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_RUN_H
#define SNOWFLAKE_CONVERT_RUN_H

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/* Run a statement, in the memory context of the caller. */
extern void convert_run(const char *command);

/* Run the plan's statements, but for the LOCK, and say how far it is. */
extern void execute_plan(Conversion *plan);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_RUN_H */
