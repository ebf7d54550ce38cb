/*-------------------------------------------------------------------------
 *
 * generator_funcs.c
 *		The SQL functions that make IDs: the next one, and those for a given
 *		time.
 *
 * COPY FROM writes rows in groups, which takes less time and WAL, unless a
 * default is volatile: such a function might read the table that is being
 * filled, and would miss the rows that are not written yet.  The server makes
 * an exception for nextval(), which reads no table, but it cannot know that of
 * snowflake_nextval().  So while COPY FROM prepares its defaults, planner
 * support puts snowflake_copy_nextval() in its place: the same function,
 * labelled STABLE.  COPY evaluates defaults once a row, whatever their labels.
 * A plan or an ALTER TABLE ... ADD COLUMN would evaluate it once for all rows.
 * So nothing else may get it:
 *
 * - It is put in only where there is no plan to be made ("root" is not set), and
 *   only from the start of a COPY FROM until something else begins: a statement
 *   within it, such as one of a trigger, or the first row.  An error ends that
 *   too.
 * - It cannot be called by name, as no SQL makes an argument of type internal.
 *   Where a superuser makes it a part of something else, such as an aggregate, it
 *   raises an error: the argument has to be the address of a variable here.
 * - A caller who may not execute both functions gets snowflake_nextval() as it is,
 *   and with it the server's own answer.
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

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "args.h"
#include "backfill.h"
#include "clock.h"
#include "generator.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_next);
PG_FUNCTION_INFO_V1(snowflake_nextval_count);
PG_FUNCTION_INFO_V1(snowflake_current);

/*
 * snowflake_nextval() and snowflake_next().  Another extension has a C function
 * of the first name.
 */
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
		uint64		count = getarg_set_size(fcinfo, 0);

		funcctx = SRF_FIRSTCALL_INIT();
		batch = MemoryContextAllocZero(funcctx->multi_call_memory_ctx, sizeof(Batch));
		batch->wanted = count;
		batch->at_once = count;
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
		batch->taken = generator_take(Min(batch->wanted, batch->at_once), &batch->next);
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

/*
 * The default of a column that COPY leaves out
 */

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

/* Planner support for snowflake_nextval() and snowflake_next(). */
Datum
snowflake_copy_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *req = getarg_simplify(fcinfo);
	Oid			argtype = INTERNALOID;
	Const	   *arg;

	if (!preparing || req == NULL || req->root != NULL || !may_execute(req->fcall->funcid))
		PG_RETURN_POINTER(NULL);

	arg = makeConst(INTERNALOID, -1, InvalidOid, sizeof(Datum),
					PointerGetDatum(&by_support), false, true);
	PG_RETURN_POINTER(call_beside(req->fcall->funcid, "snowflake_copy_nextval",
								  buildoidvector(&argtype, 1), list_make1(arg)));
}

/* snowflake_copy_nextval(): see above */
Datum
snowflake_copy_nextval(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_GETARG_POINTER(0) != &by_support)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("snowflake_copy_nextval() can be called by COPY only"),
				 errhint("Call snowflake_nextval().")));

	copy_default_end();
	return snowflake_next(fcinfo);
}

/*
 * IDs for a given time
 */

PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_id);
PG_FUNCTION_INFO_V1(snowflake_backfill);

/* An argument for a field of the ID, checked to fit. */
static uint64
getarg_field(FunctionCallInfo fcinfo, int argno, LayoutField field)
{
	int64		number = PG_GETARG_INT64(argno);

	if (number < 0 || (uint64) number > snowflake_layout.max[field])
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s " INT64_FORMAT " is out of range",
						layout_field_name(field), number),
				 errdetail("The layout \"%s\" allows numbers from 0 to " UINT64_FORMAT " in this field.",
						   snowflake_layout_text,
						   (uint64) snowflake_layout.max[field])));
	return (uint64) number;
}

/* Are there IDs of this layout and epoch, or may there be? */
static bool
has_drawn(void)
{
	return shared != NULL && (OidIsValid(shared->mark.home) || RecoveryInProgress());
}

/*
 * The time unit that holds the instant that is the first argument, checked to
 * be one of the layout.
 */
static uint64
getarg_unit(FunctionCallInfo fcinfo)
{
	TimestampTz ts = PG_GETARG_TIMESTAMPTZ(0);
	int64		unit = layout_unit_floor(&snowflake_layout, clock_since_epoch(ts));

	if (TIMESTAMP_NOT_FINITE(ts) || unit < 0 ||
		(uint64) unit > snowflake_layout.max[FIELD_TIME])
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("time %s is out of range", clock_show(ts)),
				 errdetail("The layout \"%s\" has times from %s to %s.",
						   snowflake_layout_text,
						   clock_show(snowflake_epoch),
						   clock_show(clock_unit_or_end(MAX_TIME))),
				 TIMESTAMP_NOT_FINITE(ts) || unit >= 0 ? 0 :
				 has_drawn() ?
				 errhint("If you set an older \"snowflake.epoch\", restart the server and call snowflake_accept_layout(), the IDs drawn so far are read as IDs of earlier times.") :
				 errhint("Set an older \"snowflake.epoch\" and restart the server, before it draws its first ID.")));
	return (uint64) unit;
}

/* snowflake_compose(ts, node, worker, sequence) */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo);

	PG_RETURN_INT64(layout_pack(&snowflake_layout, unit,
								getarg_field(fcinfo, 1, FIELD_NODE),
								getarg_field(fcinfo, 2, FIELD_WORKER),
								getarg_field(fcinfo, 3, FIELD_SEQUENCE)));
}

/*
 * snowflake_id(ts, discriminator): the caller's number in place of all fields
 * below the time.  Whether the ID is unique is up to the caller.
 */
Datum
snowflake_id(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo);
	int64		discriminator = PG_GETARG_INT64(1);
	int			bits = snowflake_layout.shift[FIELD_TIME];

	ids_require_order("Put the ID together with snowflake_compose(), field by field.");

	if (discriminator < 0 || discriminator >> bits != 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("discriminator " INT64_FORMAT " is out of range",
						discriminator),
				 errdetail("The layout \"%s\" has %d bits below the time, for numbers from 0 to " INT64_FORMAT ".",
						   snowflake_layout_text, bits,
						   (INT64CONST(1) << bits) - 1)));

	PG_RETURN_INT64((int64) (unit << bits) | discriminator);
}

/* snowflake_backfill(ts) */
Datum
snowflake_backfill(PG_FUNCTION_ARGS)
{
	uint64		unit = getarg_unit(fcinfo);
	TimestampTz now = GetCurrentTimestamp();

	if (PG_GETARG_TIMESTAMPTZ(0) > now)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("cannot backfill snowflake IDs of the future"),
				 errdetail("The time is %s, and the clock shows %s.",
						   clock_show(PG_GETARG_TIMESTAMPTZ(0)),
						   clock_show(now))));

	PG_RETURN_INT64(backfill_draw(unit));
}
