/*-------------------------------------------------------------------------
 *
 * table_funcs.c
 *		What the functions in PL/pgSQL that change tables of their caller cannot
 *		do in SQL: lock a table by its OID; and for snowflake_convert(), whether
 *		an expression is immutable, what this server draws with, and what it
 *		needs before new IDs are above an existing one.
 *
 * Everybody may call these functions, and none is SECURITY DEFINER.  They read
 * the atomic fields of the mark in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "args.h"
#include "clock.h"
#include "compat.h"
#include "lease.h"
#include "mark.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_lock_table);
PG_FUNCTION_INFO_V1(snowflake_is_locked);
PG_FUNCTION_INFO_V1(snowflake_is_immutable);
PG_FUNCTION_INFO_V1(snowflake_drawing);
PG_FUNCTION_INFO_V1(snowflake_raise_mark);

/* Raise an ERROR unless the caller owns the table, which may be gone. */
static void
require_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * lock_table(table, mode), until the end of the transaction or subtransaction;
 * without a mode the owner is checked, and no lock taken.
 *
 * LOCK TABLE goes by a name, which may belong to another table by then, and
 * asks for other rights than DDL, which asks for those of the owner.  This lets
 * only the owner lock: a session that waits for a lock makes later ones wait,
 * and only the owner may cause that.  It gives nobody a lock that the caller's
 * own DDL would not take.
 */
Datum
snowflake_lock_table(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	LOCKMODE	mode = PG_GETARG_INT32(1);

	if (mode < NoLock || mode > MaxLockMode)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no lock mode %d", mode)));
	require_owner(relid);
	if (mode != NoLock)
	{
		LockRelationOid(relid, mode);
		require_owner(relid);	/* it may have changed before the lock */
	}
	PG_RETURN_VOID();
}

/*
 * is_locked(table): would this session wait to read it?  A wait of even a
 * millisecond can make the deadlock detector of another session, which waits
 * for this one, end that.
 */
Datum
snowflake_is_locked(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		PG_RETURN_BOOL(true);
	UnlockRelationOid(relid, AccessShareLock);
	PG_RETURN_BOOL(false);
}

/* Of an expression in a catalog: a user cannot make a pg_node_tree. */
Datum
snowflake_is_immutable(PG_FUNCTION_ARGS)
{
	char	   *expression = TextDatumGetCString(PG_GETARG_DATUM(0));

	PG_RETURN_BOOL(!contain_mutable_functions(stringToNode(expression)));
}

/*
 * What new IDs need to be above one, in a word, or NULL; and the first time unit
 * above it.  Every caller may raise the mark up to the clock, or up to the latest
 * time issued: taking an ID does that, too.  A mark ahead of both stops the whole
 * server from issuing IDs for a while.
 */
static const char *
find_need(int64 id, uint64 node, uint64 *unit, TimestampTz *ts)
{
	const Layout *layout = &snowflake_layout;
	TimestampTz now = clock_read();
	uint64		floor;

	if (shared == NULL || RecoveryInProgress() || id < 0 || id > layout_max_id(layout))
		return NULL;

	/* While the floor was not read yet, 1 is taken for it. */
	floor = Max(pg_atomic_read_u64(&shared->mark.floor_unit), 1);
	if (layout_pack(layout, Min(floor, layout->max[FIELD_TIME]), node, 0, 0) > id)
		return NULL;
	if (!layout_unit_above(layout, node, id, unit))
		return *unit > layout->max[FIELD_TIME] ? "last" : "field";
	if (!clock_timestamp_of_unit(*unit, ts))
		*ts = DT_NOEND;
	if (*ts > now + MAX_DRIFT_US)
		return "clock";
	return *ts <= now || (mark_is_open() && *ts <= mark_issued_until()) ? "raise" : "advance";
}

/* drawing(id) */
Datum
snowflake_drawing(PG_FUNCTION_ARGS)
{
	Datum		values[8] = {0};
	bool		nulls[8] = {false};
	int64		id = PG_GETARG_INT64(0);
	uint64		node = (uint64) Max(lease_node(), 0);
	uint64		unit;
	TimestampTz above = 0;
	const char *need = find_need(id, node, &unit, &above);

	nulls[0] = shared != NULL;
	values[0] = nulls[0] ? 0 : CStringGetTextDatum(preload_hint());
	nulls[1] = !settings_need_lease() || lease_is_used();
	values[1] = nulls[1] ? 0 : CStringGetTextDatum(settings_node_id_hint());
	values[2] = Int32GetDatum((int32) node);
	values[3] = CStringGetTextDatum(clock_name());
	values[4] = TimestampTzGetDatum(clock_read());
	nulls[5] = id < 0 || id > layout_max_id(&snowflake_layout);
	values[5] = TimestampTzGetDatum(clock_unit_or_end(layout_unpack(&snowflake_layout, id,
																	FIELD_TIME)));
	nulls[6] = need == NULL;
	values[6] = nulls[6] ? 0 : CStringGetTextDatum(need);
	nulls[7] = above == 0;
	values[7] = TimestampTzGetDatum(above);
	PG_RETURN_DATUM(make_record(fcinfo, values, nulls));
}

/* raise_mark(id): let new IDs be above it, as far as everybody may. */
Datum
snowflake_raise_mark(PG_FUNCTION_ARGS)
{
	uint64		unit;
	TimestampTz ts;
	const char *need;

	shmem_require("keep a durable mark");
	PreventCommandDuringRecovery("snowflake_convert()");
	PreventCommandIfReadOnly("snowflake_convert()");
	need = find_need(PG_GETARG_INT64(0), (uint64) Max(lease_node(), 0), &unit, &ts);
	if (need != NULL && strcmp(need, "raise") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to put the durable mark ahead of the clock")));
	if (need != NULL)
		mark_advance(unit, FLOOR_ANYONES);
	PG_RETURN_VOID();
}
