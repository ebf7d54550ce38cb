/*-------------------------------------------------------------------------
 *
 * copy_default.c
 *		snowflake_nextval() as the default of a column that COPY leaves out.
 *
 * COPY FROM writes rows in groups, which takes less time and WAL, unless a
 * default is volatile: such a function might read the table that is being
 * filled, and would miss the rows that are not written yet.  The server makes an
 * exception for nextval(), which reads no table, but it cannot know that of a
 * function of an extension.
 *
 * snowflake_nextval() does not read a table either.  So while COPY FROM prepares
 * its defaults, planner support puts snowflake_copy_nextval() in its place: the
 * same function, labelled STABLE.  COPY evaluates defaults once a row, whatever
 * their labels.
 *
 * A plan or an ALTER TABLE ... ADD COLUMN would evaluate it once for all rows.
 * So nothing else may get it:
 *
 * - It is put in only where there is no plan to be made ("root" is not set), and
 *   only from the start of a COPY FROM until something else begins: a statement
 *   within it, such as one of a trigger, or the first row.  An error ends that
 *   too.
 * - It cannot be called by name, as no SQL makes an argument of type internal.
 *   Where a superuser makes it a part of something else, an aggregate, it raises an
 *   error: the argument has to be the address of a variable here.
 * - Whoever may not execute both functions gets snowflake_nextval() as it is, and
 *   with it the server's own answer.
 *
 * What else the server prepares in that time has it too: the WHERE of the same
 * COPY, and the CHECK of a domain, which the session then keeps.  Both are
 * evaluated for each value, like any function in such a place.
 *
 * No locks; the only state is the backend's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "copy_default.h"
#include "generator.h"

PG_FUNCTION_INFO_V1(snowflake_copy_nextval);
PG_FUNCTION_INFO_V1(snowflake_copy_support);

/* Are defaults of a COPY FROM being prepared? */
static bool preparing = false;

/* Its address is the argument of snowflake_copy_nextval(). */
static const char by_support = 0;

void
copy_default_begin(Node *stmt)
{
	preparing = IsA(stmt, CopyStmt) && ((CopyStmt *) stmt)->is_from;
}

void
copy_default_end(void)
{
	preparing = false;
}

/* May the caller execute a function? */
static bool
may_execute(Oid funcid)
{
	return object_aclcheck(ProcedureRelationId, funcid, GetUserId(),
						   ACL_EXECUTE) == ACLCHECK_OK;
}

/*
 * A call of snowflake_copy_nextval(), which is in the schema of the given
 * snowflake_nextval(), or NULL to leave that.
 */
static Expr *
stable_call(Oid nextval)
{
	Oid			argtype = INTERNALOID;
	Oid			funcid;
	Const	   *arg;

	funcid = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							 CStringGetDatum("snowflake_copy_nextval"),
							 PointerGetDatum(buildoidvector(&argtype, 1)),
							 ObjectIdGetDatum(get_func_namespace(nextval)));
	if (!OidIsValid(funcid) || !may_execute(funcid) || !may_execute(nextval))
		return NULL;

	arg = makeConst(INTERNALOID, -1, InvalidOid, sizeof(Datum),
					PointerGetDatum(&by_support), false, true);
	return (Expr *) makeFuncExpr(funcid, INT8OID, list_make1(arg),
								 InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/* Planner support for snowflake_nextval(). */
Datum
snowflake_copy_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Expr	   *result = NULL;

	if (preparing && IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *req = (SupportRequestSimplify *) request;

		if (req->root == NULL)
			result = stable_call(req->fcall->funcid);
	}
	PG_RETURN_POINTER(result);
}

/* snowflake_copy_nextval(): see above */
Datum
snowflake_copy_nextval(PG_FUNCTION_ARGS)
{
	int64		id;

	if (PG_ARGISNULL(0) || PG_GETARG_POINTER(0) != &by_support)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("snowflake_copy_nextval() is called by COPY only"),
				 errhint("Call snowflake_nextval().")));

	copy_default_end();
	(void) generator_take(1, &id);
	generator_set_current(id, true);
	PG_RETURN_INT64(id);
}
