/*-------------------------------------------------------------------------
 *
 * ranges_support.c
 *		What the planner is told about the functions: planner support.
 *
 * "snowflake_in(id, period)" is not something an index, a partition or a
 * histogram knows.  So the planner is given in its place what they all know,
 *
 *		id >= first AND id < end		where the period is known,
 *		id >= snowflake_first_id(period) AND id <= snowflake_last_id(period)
 *										where it is not yet,
 *
 * and from there on plans it like any such condition.  A period is a tstzrange,
 * or two instants.
 *
 * The functions that read the epoch and the layout are STABLE, but where the
 * library is preloaded these do not change in a running server, so no plan
 * outlives them: calls with constant arguments are evaluated when planned.
 * Where it is not, a reload may change them under a prepared statement; then
 * no period counts as known, and calls are evaluated when the query starts.
 *
 * All this is for plans only ("root" is set).  An index or a generated column
 * would outlive the server's settings; for these the functions stay what they
 * are labelled, and the server refuses them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "ranges.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_in_support);
PG_FUNCTION_INFO_V1(snowflake_settings_support);

/* id OP value, by one of the operators of bigint that an index knows */
static Expr *
compare_id(Expr *id, StrategyNumber strategy, Expr *value)
{
	Oid			opno = get_opfamily_member(INTEGER_BTREE_FAM_OID,
										   INT8OID, INT8OID, strategy);
	Expr	   *expr;

	if (!OidIsValid(opno))
		elog(ERROR, "missing operator %d of bigint", strategy);
	expr = make_opclause(opno, BOOLOID, false, copyObject(id), value,
						 InvalidOid, InvalidOid);
	set_opfuncid((OpExpr *) expr);
	return expr;
}

static Expr *
id_constant(uint64 id)
{
	return (Expr *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
							  Int64GetDatum((int64) id), false,
							  FLOAT8PASSBYVAL);
}

/* the IDs of a period that is all constants */
static IdRange
ids_of_constants(List *period)
{
	Datum		first = ((Const *) linitial(period))->constvalue;
	RangeType  *range;

	if (list_length(period) == 2)
		return ids_between(DatumGetTimestampTz(first),
						   DatumGetTimestampTz(((Const *) lsecond(period))->constvalue));

	range = DatumGetRangeTypeP(first);
	return ids_of_period(lookup_type_cache(RangeTypeGetOid(range),
										   TYPECACHE_RANGE_INFO),
						 range);
}

/*
 * snowflake_in() for known IDs.  It is NULL for an id that is, also where it is
 * false for all others.
 */
static Expr *
in_known_ids(Expr *id, IdRange ids)
{
	Expr	   *from;

	if (ids_empty(ids))
	{
		NullTest   *is_null = makeNode(NullTest);

		is_null->arg = copyObject(id);
		is_null->nulltesttype = IS_NULL;
		is_null->argisrow = false;
		is_null->location = -1;
		return make_andclause(list_make2(is_null,
										 makeBoolConst(false, true)));
	}

	from = compare_id(id, BTGreaterEqualStrategyNumber, id_constant(ids.first));
	if (ids_unbounded(ids))
		return from;
	return make_andclause(list_make2(from,
									 compare_id(id, BTLessStrategyNumber,
												id_constant(ids.end))));
}

/*
 * Call one of the functions beside snowflake_in(), in whatever schema the
 * extension is, with the same kind of period.
 */
static Expr *
call_with_period(Oid beside, const char *name, List *period)
{
	Oid		   *argtypes;
	int			nargs;
	oidvector  *periodtypes;
	Oid			funcid;

	get_func_signature(beside, &argtypes, &nargs);
	periodtypes = buildoidvector(argtypes + 1, nargs - 1);
	funcid = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							 CStringGetDatum(name),
							 PointerGetDatum(periodtypes),
							 ObjectIdGetDatum(get_func_namespace(beside)));
	if (!OidIsValid(funcid))
		elog(ERROR, "missing function %s beside function %u", name, beside);
	return (Expr *) makeFuncExpr(funcid, INT8OID, copyObject(period),
								 InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/*
 * May an expression be evaluated twice?  Not if that could give two results.
 * Nor if it costs so much that one call of snowflake_in() is cheaper; an
 * uncorrelated subquery does not, since it is run once for all rows.
 */
static bool
may_be_doubled(PlannerInfo *root, Expr *expr)
{
	QualCost	cost;

	if (contain_volatile_functions((Node *) expr))
		return false;
	if (contain_subplans((Node *) expr))
		return !contain_vars_of_level((Node *) expr, 0);
	cost_qual_eval_node(&cost, (Node *) expr, root);
	return cost.startup + cost.per_tuple <= 10 * cpu_operator_cost;
}

/* snowflake_in() in other words, or NULL to leave it */
static Expr *
simplify_in(PlannerInfo *root, FuncExpr *call)
{
	Expr	   *id = linitial(call->args);
	List	   *period = list_copy_tail(call->args, 1);
	bool		known = snowflake_settings_fixed;
	ListCell   *lc;

	if (!may_be_doubled(root, id))
		return NULL;
	foreach(lc, period)
	{
		Expr	   *arg = lfirst(lc);

		/* a NULL is the server's to simplify: the function is STRICT */
		if (IsA(arg, Const) && ((Const *) arg)->constisnull)
			return NULL;
		if (!IsA(arg, Const))
			known = false;
	}
	if (known)
		return in_known_ids(id, ids_of_constants(period));

	foreach(lc, period)
	{
		if (!may_be_doubled(root, lfirst(lc)))
			return NULL;
	}
	return make_andclause(list_make2(compare_id(id, BTGreaterEqualStrategyNumber,
												call_with_period(call->funcid,
																 "snowflake_first_id",
																 period)),
									 compare_id(id, BTLessEqualStrategyNumber,
												call_with_period(call->funcid,
																 "snowflake_last_id",
																 period))));
}

/* Planner support for snowflake_in(). */
Datum
snowflake_in_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Expr	   *result = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *req = (SupportRequestSimplify *) request;

		if (req->root != NULL)
			result = simplify_in(req->root, req->fcall);
	}
	PG_RETURN_POINTER(result);
}

/*
 * Planner support for functions whose result depends on their arguments and on
 * settings that are fixed at server start, where the library is preloaded.
 */
Datum
snowflake_settings_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Expr	   *result = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *req = (SupportRequestSimplify *) request;
		FuncExpr   *call = req->fcall;
		bool		known = req->root != NULL && snowflake_settings_fixed;
		ListCell   *lc;

		foreach(lc, call->args)
		{
			if (!IsA(lfirst(lc), Const))
				known = false;
		}
		if (known)
			result = evaluate_expr((Expr *) copyObject(call),
								   call->funcresulttype, -1,
								   call->funccollid);
	}
	PG_RETURN_POINTER(result);
}
