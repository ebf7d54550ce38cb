/*-------------------------------------------------------------------------
 *
 * args.h
 *		Arguments of SQL-callable functions, and their result where it is a row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ARGS_H
#define SNOWFLAKE_ARGS_H

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

static inline void
require_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

/* How many a set is to have. */
static inline uint64
getarg_set_size(FunctionCallInfo fcinfo, int argno)
{
	int64		count = PG_GETARG_INT64(argno);

	if (count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must not be negative"),
				 errdetail("The number asked for is " INT64_FORMAT ".", count)));
	return (uint64) count;
}

/* A record of the columns that the function returns. */
static inline Datum
make_record(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls));
}

#endif							/* SNOWFLAKE_ARGS_H */
