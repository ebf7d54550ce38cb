/*-------------------------------------------------------------------------
 *
 * convert_refuse.h
 *		snowflake_convert(): what would refuse the new IDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_REFUSE_H
#define SNOWFLAKE_CONVERT_REFUSE_H

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/*
 * Add errors for CHECK constraints, domains and partition keys that refuse new
 * IDs, in the column or in columns that reference it; warnings where the plan
 * is forced, or where other columns decide as well.
 */
extern void find_refusals(Conversion *plan);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_REFUSE_H */
