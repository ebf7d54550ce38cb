/*-------------------------------------------------------------------------
 *
 * args.h
 *		Arguments of SQL-callable functions that are not STRICT.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ARGS_H
#define SNOWFLAKE_ARGS_H

#include "fmgr.h"

static inline void
require_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

#endif							/* SNOWFLAKE_ARGS_H */
