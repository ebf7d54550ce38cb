/*-------------------------------------------------------------------------
 *
 * table_lock.c
 *		The SQL functions snowflake_catalog.lock_table() and is_locked(), for
 *		functions in PL/pgSQL that change tables of their caller.
 *
 * LOCK TABLE goes by a name, which may belong to another table by then, and
 * asks for other rights than DDL, which asks for those of the owner.  This
 * function goes by the OID, and lets only the owner lock: a session that waits
 * for a lock makes later ones wait, and only the owner may cause that.  It is
 * not SECURITY DEFINER, and gives nobody a lock that the caller's own DDL
 * would not take.
 *
 * Locking: takes the lock that it is asked for, until the end of the
 * transaction or subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(snowflake_lock_table);
PG_FUNCTION_INFO_V1(snowflake_is_locked);

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
 * lock_table(table, mode): without a mode the owner is checked, and no lock
 * taken.
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
