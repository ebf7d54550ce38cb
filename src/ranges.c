/*-------------------------------------------------------------------------
 *
 * ranges.c
 *		The IDs of a period: arithmetic, the SQL functions for it, and their
 *		planner support.
 *
 * No index, partition or histogram knows "snowflake_in(id, period)".  So the
 * planner gets in its place what they all know,
 *
 * 	id >= first AND id < end		where the period is known,
 * 	id >= snowflake_first_id(period) AND id <= snowflake_last_id(period)
 * 									where it is not yet,
 *
 * and from there on plans it like any such condition.  A period is a
 * tstzrange, or two instants.
 *
 * The functions that read the epoch and the layout are STABLE, but where the
 * library is preloaded these do not change in a running server, so no plan
 * outlives them: calls with constant arguments are evaluated when planned.
 * Where it is not, a reload may change them under a prepared statement; then
 * no period counts as known, and calls are evaluated when the query starts.
 *
 * Planner support changes plans only ("root" is set).  An index or a generated
 * column would outlive the server's settings; for these the functions stay
 * what they are labelled, and the server refuses them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "args.h"
#include "clock.h"
#include "compat.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(id_range_for_instant);
PG_FUNCTION_INFO_V1(id_range_for_bounds);
PG_FUNCTION_INFO_V1(id_range_for_day);
PG_FUNCTION_INFO_V1(id_range_for_text);
PG_FUNCTION_INFO_V1(snowflake_in);
PG_FUNCTION_INFO_V1(snowflake_in_bounds);
PG_FUNCTION_INFO_V1(snowflake_first_id);
PG_FUNCTION_INFO_V1(snowflake_first_id_bounds);
PG_FUNCTION_INFO_V1(snowflake_last_id);
PG_FUNCTION_INFO_V1(snowflake_last_id_bounds);

/*
 * IDs from "first" to before "end", which is 2^63 at most: more than a bigint
 * can say.  None when end is not above first.
 */
typedef struct IdRange
{
	uint64		first;
	uint64		end;
} IdRange;

static inline bool
ids_empty(IdRange ids)
{
	return ids.first >= ids.end;
}

/* Is the end beyond all of bigint? */
static inline bool
ids_unbounded(IdRange ids)
{
	return ids.end > (uint64) PG_INT64_MAX;
}

void
ids_require_order(const char *hint)
{
	if (!layout_sorts_by_time(&snowflake_layout))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake IDs of this server do not sort by time"),
				 errdetail("In the layout \"%s\" the time is not the highest field, so the IDs of a period are not a range.",
						   snowflake_layout_text),
				 errhint("%s", hint)));
}

static IdRange
ids_of_units(int64 from, int64 to)
{
	IdRange		ids;

	ids_require_order("Compare snowflake_timestamp(id) instead.");
	ids.first = layout_unit_first_id(&snowflake_layout, from);
	ids.end = layout_unit_first_id(&snowflake_layout, to);
	return ids;
}

static int64
unit_from(TimestampTz ts)
{
	return layout_unit_ceil(&snowflake_layout, clock_since_epoch(ts));
}

static IdRange
ids_between(TimestampTz from, TimestampTz to)
{
	if (from > to)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the start of a period must not be after its end"),
				 errdetail("The period is from %s to %s.",
						   clock_show(from),
						   clock_show(to))));
	return ids_of_units(unit_from(from), unit_from(to));
}

/* where the IDs of a period begin at a bound of it, or end */
static int64
unit_at(RangeBound bound)
{
	TimestampTz ts;

	if (bound.infinite)
		return bound.lower ? PG_INT64_MIN : PG_INT64_MAX;
	ts = DatumGetTimestampTz(bound.val);
	return bound.inclusive == bound.lower ? unit_from(ts) :
		layout_unit_floor(&snowflake_layout, clock_since_epoch(ts)) + 1;
}

static IdRange
ids_of_period(TypeCacheEntry *typcache, const RangeType *period)
{
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	range_deserialize(typcache, period, &lower, &upper, &empty);
	if (empty)
		return ids_of_units(0, 0);
	return ids_of_units(unit_at(lower), unit_at(upper));
}

/* as an int8range, without an upper bound where bigint cannot say it */
static Datum
make_id_range(IdRange ids)
{
	RangeBound	lower = {.val = Int64GetDatum((int64) ids.first),.inclusive = true,.lower = true};
	RangeBound	upper = {.val = Int64GetDatum((int64) ids.end),.infinite = ids_unbounded(ids)};

	return RangeTypePGetDatum(make_range(lookup_type_cache(INT8RANGEOID,
														   TYPECACHE_RANGE_INFO),
										 &lower, &upper, ids_empty(ids), NULL));
}

/* the IDs of an argument that is a period */
static IdRange
getarg_period(FunctionCallInfo fcinfo, int argno)
{
	RangeType  *period = PG_GETARG_RANGE_P(argno);

	return ids_of_period(range_get_typcache(fcinfo, RangeTypeGetOid(period)), period);
}

/* and of two that are its bounds */
static IdRange
getarg_bounds(FunctionCallInfo fcinfo, int argno)
{
	return ids_between(PG_GETARG_TIMESTAMPTZ(argno), PG_GETARG_TIMESTAMPTZ(argno + 1));
}

static IdRange
ids_of_instant(TimestampTz ts)
{
	int64		unit = layout_unit_floor(&snowflake_layout, clock_since_epoch(ts));

	return ids_of_units(unit, unit + 1);
}

/* id_range_for(ts): the time unit that holds an instant */
Datum
id_range_for_instant(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(make_id_range(ids_of_instant(PG_GETARG_TIMESTAMPTZ(0))));
}

/* id_range_for(from_ts, to_ts): [from_ts, to_ts) */
Datum
id_range_for_bounds(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(make_id_range(getarg_bounds(fcinfo, 0)));
}

/* the midnight with which a day begins in the session's time zone */
static TimestampTz
midnight(DateADT day)
{
	return DatumGetTimestampTz(DirectFunctionCall1(date_timestamptz, DateADTGetDatum(day)));
}

/*
 * id_range_for(day): from one midnight to the next.  Infinity is no day, and
 * has no IDs, as the instant has none.
 */
Datum
id_range_for_day(PG_FUNCTION_ARGS)
{
	DateADT		day = PG_GETARG_DATEADT(0);
	TimestampTz from = midnight(day);
	TimestampTz to = DT_NOEND;

	if (DATE_NOT_FINITE(day))
		PG_RETURN_DATUM(make_id_range(ids_of_instant(from)));

	/* after the last day that a timestamptz can be of, there is no next one */
	if (day + 1 < TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE)
		to = midnight(day + 1);
	PG_RETURN_DATUM(make_id_range(ids_between(from, to)));
}

/*
 * If a text that the server reads as an instant has a date and no time of day,
 * get the end of that day.
 *
 * The server's parser takes each field once.  So a time of day can be added to
 * such a text, and to no other: not to "now", "epoch" or "infinity", which are
 * instants, but to "today", and to a date with a time zone.  24:00 is the next
 * midnight in the zone of the text, or in that of the session, whatever hours
 * the day has.
 */
static bool
text_end_of_day(const char *str, TimestampTz *end)
{
	char		day_end[] = "24:00";
	char		workbuf[MAXDATELEN + MAXDATEFIELDS];
	char	   *field[MAXDATEFIELDS + 1];
	int			ftype[MAXDATEFIELDS + 1];
	int			nf;
	int			dtype;
	struct pg_tm tm;
	fsec_t		fsec;
	int			tz;
	DateTimeErrorExtra extra;

	if (ParseDateTime(str, workbuf, sizeof(workbuf), field, ftype, MAXDATEFIELDS, &nf) != 0)
		return false;
	field[nf] = day_end;
	ftype[nf] = DTK_TIME;
	nf++;
	if (DecodeDateTime(field, ftype, nf, &dtype, &tm, &fsec, &tz, &extra) != 0 ||
		dtype != DTK_DATE)
		return false;

	/* after the last day that a timestamptz can be of, there is no next one */
	if (tm2timestamp(&tm, fsec, &tz, end) != 0)
		*end = DT_NOEND;
	return true;
}

/*
 * id_range_for(text): a day or an instant.  Of all forms the server takes this
 * one for a literal or a parameter without a type, since it prefers texts.
 */
Datum
id_range_for_text(PG_FUNCTION_ARGS)
{
	char	   *str = text_to_cstring(PG_GETARG_TEXT_PP(0));
	TimestampTz from = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
															   CStringGetDatum(str),
															   ObjectIdGetDatum(InvalidOid),
															   Int32GetDatum(-1)));
	TimestampTz to;

	PG_RETURN_DATUM(make_id_range(text_end_of_day(str, &to) ?
								  ids_between(from, to) :
								  ids_of_instant(from)));
}

static bool
ids_contain(IdRange ids, int64 id)
{
	return id >= 0 && (uint64) id >= ids.first && (uint64) id < ids.end;
}

/* snowflake_in(id, period) */
Datum
snowflake_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ids_contain(getarg_period(fcinfo, 1), PG_GETARG_INT64(0)));
}

/* snowflake_in(id, from_ts, to_ts) */
Datum
snowflake_in_bounds(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ids_contain(getarg_bounds(fcinfo, 1), PG_GETARG_INT64(0)));
}

/*
 * The first and the last ID of a period: what the planner compares with where
 * it does not know the period.  The last one and not the end, which may be no
 * bigint.  With no ID in the period, 0 and -1.
 */
static int64
first_id(IdRange ids)
{
	return ids_empty(ids) ? 0 : (int64) ids.first;
}

static int64
last_id(IdRange ids)
{
	return ids_empty(ids) ? -1 : (int64) (ids.end - 1);
}

/* snowflake_first_id(period) */
Datum
snowflake_first_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(first_id(getarg_period(fcinfo, 0)));
}

/* snowflake_first_id(from_ts, to_ts) */
Datum
snowflake_first_id_bounds(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(first_id(getarg_bounds(fcinfo, 0)));
}

/* snowflake_last_id(period) */
Datum
snowflake_last_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(last_id(getarg_period(fcinfo, 0)));
}

/* snowflake_last_id(from_ts, to_ts) */
Datum
snowflake_last_id_bounds(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(last_id(getarg_bounds(fcinfo, 0)));
}

/*
 * Planner support
 */

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
 * snowflake_in() for known IDs.  It is NULL for an id that is, also where it
 * is false for all others.
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
		is_null->location = -1;
		return make_andclause(list_make2(is_null, makeBoolConst(false, true)));
	}

	from = compare_id(id, BTGreaterEqualStrategyNumber, id_constant(ids.first));
	if (ids_unbounded(ids))
		return from;
	return make_andclause(list_make2(from,
									 compare_id(id, BTLessStrategyNumber,
												id_constant(ids.end))));
}

bool
may_execute(Oid funcid)
{
	return object_aclcheck(ProcedureRelationId, funcid, GetUserId(),
						   ACL_EXECUTE) == ACLCHECK_OK;
}

Expr *
call_beside(Oid funcid, const char *name, oidvector *argtypes, List *args)
{
	Oid			other = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										CStringGetDatum(name),
										PointerGetDatum(argtypes),
										ObjectIdGetDatum(get_func_namespace(funcid)));

	if (!OidIsValid(other) || !may_execute(other))
		return NULL;
	return (Expr *) makeFuncExpr(other, INT8OID, args, InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/* Are rows equal that the order does not tell apart? */
static bool
is_sorted_by_all(List *targets, List *order)
{
	ListCell   *lc;

	foreach(lc, targets)
	{
		TargetEntry *target = lfirst(lc);

		if (!target->resjunk &&
			get_sortgroupref_clause_noerr(target->ressortgroupref, order) == NULL)
			return false;
	}
	return true;
}

/* Does an aggregate depend on the order of its rows, for all that is known? */
static bool
depends_on_order(const Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	bool		is_extreme = HeapTupleIsValid(tuple) &&
		OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return !is_extreme && aggref->aggfnoid != F_COUNT_ && aggref->aggfnoid != F_COUNT_ANY &&
		!is_sorted_by_all(aggref->args, aggref->aggorder);
}

/*
 * Could a subquery give another result when it is run once more, with the same
 * snapshot?  Which rows it takes may depend on locks, chance, or how it scans.
 */
static bool
may_vary(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && depends_on_order((Aggref *) node))
		return true;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->tablesample != NULL;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->rowMarks != NIL || query->hasDistinctOn || query->hasWindowFuncs ||
			((query->limitCount != NULL || query->limitOffset != NULL) &&
			 !is_sorted_by_all(query->targetList, query->sortClause)))
			return true;
		return query_tree_walker(query, may_vary, context, QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, may_vary, context);
}

/*
 * May an expression be evaluated twice?  Not if that could give two results.
 * Without a column it is a key of an index scan and saves all other rows, so
 * it may cost what it likes.  With one it is evaluated for each row: if it
 * costs much, one call of snowflake_in() is cheaper.
 */
static bool
may_be_doubled(PlannerInfo *root, Expr *expr)
{
	QualCost	cost;

	if (contain_volatile_functions((Node *) expr))
		return false;
	if (!contain_vars_of_level((Node *) expr, 0))
		return !may_vary((Node *) expr, NULL);
	if (contain_subplans((Node *) expr))
		return false;
	cost_qual_eval_node(&cost, (Node *) expr, root);
	return cost.startup + cost.per_tuple <= 10 * cpu_operator_cost;
}

static bool
has_condition(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcresulttype == BOOLOID)
		return true;
	return expression_tree_walker(node, has_condition, context);
}

/*
 * Do ROLLUP, CUBE or GROUPING SETS group by our calls?  Before PostgreSQL 18
 * the server finds them again in HAVING and the like by being equal, and does
 * not where it flattens the AND that stands for one.  Any function of a condition
 * may be an SQL function that becomes such a call.  There is no query where
 * TimescaleDB evaluates an expression.
 */
static bool
makes_sets(Query *query)
{
	ListCell   *lc;

	if (query == NULL || query->groupingSets == NIL)
		return false;
	foreach(lc, query->groupClause)
	{
		if (has_condition(get_sortgroupclause_expr(lfirst(lc), query->targetList), NULL))
			return true;
	}
	return false;
}

/* snowflake_in() in other words, or NULL to leave it */
static Expr *
simplify_in(PlannerInfo *root, FuncExpr *call)
{
	Expr	   *id = linitial(call->args);
	List	   *period = list_copy_tail(call->args, 1);
	bool		known = snowflake_settings_fixed;
	Oid		   *argtypes;
	int			nargs;
	oidvector  *periodtypes;
	Expr	   *first;
	Expr	   *last;
	ListCell   *lc;

	if (!may_be_doubled(root, id) || makes_sets(root->parse))
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
	get_func_signature(call->funcid, &argtypes, &nargs);
	periodtypes = buildoidvector(argtypes + 1, nargs - 1);
	first = call_beside(call->funcid, "snowflake_first_id", periodtypes, copyObject(period));
	last = call_beside(call->funcid, "snowflake_last_id", periodtypes, copyObject(period));
	if (first == NULL || last == NULL)
		return NULL;
	return make_andclause(list_make2(compare_id(id, BTGreaterEqualStrategyNumber, first),
									 compare_id(id, BTLessEqualStrategyNumber, last)));
}

/* Planner support for snowflake_in(). */
Datum
snowflake_in_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *req = getarg_simplify(fcinfo);

	PG_RETURN_POINTER(req != NULL && req->root != NULL ?
					  simplify_in(req->root, req->fcall) : NULL);
}

/*
 * Planner support for functions whose result depends on their arguments and on
 * settings that are fixed at server start, where the library is preloaded.
 */
Datum
snowflake_settings_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *req = getarg_simplify(fcinfo);
	ListCell   *lc;

	if (req == NULL || req->root == NULL || !snowflake_settings_fixed)
		PG_RETURN_POINTER(NULL);
	foreach(lc, req->fcall->args)
	{
		if (!IsA(lfirst(lc), Const))
			PG_RETURN_POINTER(NULL);
	}
	PG_RETURN_POINTER(evaluate_expr((Expr *) copyObject(req->fcall),
									req->fcall->funcresulttype, -1,
									req->fcall->funccollid));
}
