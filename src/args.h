/*-------------------------------------------------------------------------
 *
 * args.h
 *		What the files of SQL functions have in common: arguments, results that
 *		are rows, planner support; and what one of them does for others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ARGS_H
#define SNOWFLAKE_ARGS_H

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/supportnodes.h"

#pragma GCC visibility push(hidden)

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

/* What planner support is asked: to simplify a call, or NULL for anything else. */
static inline SupportRequestSimplify *
getarg_simplify(FunctionCallInfo fcinfo)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	return IsA(request, SupportRequestSimplify) ? (SupportRequestSimplify *) request : NULL;
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

/* ranges.c: an ERROR where the IDs of a period are not a range; with this hint. */
extern void ids_require_order(const char *hint);

/*
 * ranges.c, for planner support: may the user execute a function?  What stands
 * for a call of another one is not to need more.  And a call of the function of
 * a name beside that one, in whatever schema the extension is; NULL where the
 * user may not, or where one of the two was moved alone.
 */
extern bool may_execute(Oid funcid);
extern Expr *call_beside(Oid funcid, const char *name, oidvector *argtypes, List *args);

/* parse.c: the ID, or an ERROR when it is none of this server's layout. */
extern int64 parse_check(int64 id);

/*
 * generator_funcs.c, for hooks: a utility statement begins, which may be a COPY
 * FROM; and defaults are not those of that statement any more, as it has ended,
 * or another one has begun within it.
 */
extern void copy_default_begin(Node *stmt);
extern void copy_default_end(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_ARGS_H */
