/*-------------------------------------------------------------------------
 *
 * generator_funcs.c
 *		The SQL functions that take the next IDs: snowflake_nextval(), and
 *		snowflake_currval().
 *
 * How an ID is made is in generator.c, the only file that these call.  Between
 * two calls, snowflake_nextval(count) keeps the IDs that it has taken and not
 * yet returned.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"

#include "generator.h"

PG_FUNCTION_INFO_V1(snowflake_next);
PG_FUNCTION_INFO_V1(snowflake_nextval_count);
PG_FUNCTION_INFO_V1(snowflake_current);

/* snowflake_nextval(); another extension has a C function of that name */
Datum
snowflake_next(PG_FUNCTION_ARGS)
{
	int64		id;

	(void) generator_take(1, &id);
	generator_set_current(id, true);
	PG_RETURN_INT64(id);
}

/* IDs taken and not yet returned by snowflake_nextval(count) */
typedef struct Batch
{
	uint64		wanted;			/* not yet taken */
	uint64		at_once;		/* how many to take in one step */
	uint64		taken;			/* taken, not yet returned */
	int64		next;			/* the first of these */
	int64		step;			/* from one to the next */
} Batch;

/*
 * snowflake_nextval(count): takes as many as a slot has in a time unit at
 * once, and returns them one by one.
 */
Datum
snowflake_nextval_count(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Batch	   *batch;
	int64		id;

	if (SRF_IS_FIRSTCALL())
	{
		int32		count = PG_GETARG_INT32(0);

		if (count < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("count must not be negative"),
					 errdetail("The number asked for is %d.", count)));

		funcctx = SRF_FIRSTCALL_INIT();
		batch = MemoryContextAllocZero(funcctx->multi_call_memory_ctx,
									   sizeof(Batch));
		batch->wanted = (uint64) count;
		batch->at_once = (uint64) count;
		batch->step = generator_step();
		funcctx->user_fctx = batch;
	}

	funcctx = SRF_PERCALL_SETUP();
	batch = funcctx->user_fctx;

	/*
	 * If snowflake_nextval() was called since these IDs were taken, the
	 * session has a larger ID already.  IDs of a session must not descend, so
	 * these are given up.  The two calls seem to take turns, so from now on
	 * take one ID at a time.  Two sets that are read at the same time do not
	 * do this to each other: each ascends by itself.
	 */
	if (batch->taken > 0 && generator_has_passed(batch->next))
	{
		batch->wanted += batch->taken;
		batch->taken = 0;
		batch->at_once = 1;
	}

	if (batch->taken == 0)
	{
		if (batch->wanted == 0)
			SRF_RETURN_DONE(funcctx);
		batch->taken = generator_take(Min(batch->wanted, batch->at_once),
									  &batch->next);
		batch->wanted -= batch->taken;
	}

	id = batch->next;
	batch->next += batch->step;
	batch->taken--;
	generator_set_current(id, false);
	SRF_RETURN_NEXT(funcctx, Int64GetDatum(id));
}

/* snowflake_currval() */
Datum
snowflake_current(PG_FUNCTION_ARGS)
{
	int64		id;

	if (!generator_get_current(&id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_currval is not yet defined in this session"),
				 errhint("Call snowflake_nextval() first.")));
	PG_RETURN_INT64(id);
}
