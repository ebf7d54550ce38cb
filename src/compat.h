/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Every difference between server versions, under the name and with the
 *		signature of the newest one.
 *
 * No other file may look at PG_VERSION_NUM.  Supported: PostgreSQL 15 and up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_COMPAT_H
#define SNOWFLAKE_COMPAT_H

#include <signal.h>

#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "lib/ilist.h"
#include "postmaster/bgworker_internals.h"
#include "replication/origin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/rangetypes.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "snowflake needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 160000

/* The extra value of a GUC is freed by free() before 16. */
static inline void *
guc_malloc(int elevel, size_t size)
{
	void	   *data = malloc(size == 0 ? 1 : size);

	if (data == NULL)
		ereport(elevel,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return data;
}

typedef struct DateTimeErrorExtra
{
	const char *dtee_timezone;
	const char *dtee_abbrev;
} DateTimeErrorExtra;

static inline int
compat_DecodeDateTime(char **field, int *ftype, int nf, int *dtype,
					  struct pg_tm *tm, fsec_t *fsec, int *tzp,
					  DateTimeErrorExtra *extra)
{
	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tzp);
}
#define DecodeDateTime compat_DecodeDateTime

static inline RangeType *
compat_make_range(TypeCacheEntry *typcache, RangeBound *lower,
				  RangeBound *upper, bool empty, struct Node *escontext)
{
	return make_range(typcache, lower, upper, empty);
}
#define make_range compat_make_range

/* Only for functions, which is what it is asked for here. */
static inline AclResult
object_aclcheck(Oid classid, Oid objectid, Oid roleid, AclMode mode)
{
	Assert(classid == ProcedureRelationId);
	return pg_proc_aclcheck(objectid, roleid, mode);
}

/* Only for relations, which is what it is asked for here. */
static inline bool
object_ownercheck(Oid classid, Oid objectid, Oid roleid)
{
	Assert(classid == RelationRelationId);
	return pg_class_ownercheck(objectid, roleid);
}

#endif							/* PG_VERSION_NUM < 160000 */

#if PG_VERSION_NUM < 170000

/* This process's place in the array of all PGPROCs, and that of another one. */
#define MyProcNumber (MyProc->pgprocno)
#define GetNumberFromPGProc(proc) ((proc)->pgprocno)

/* The local number of its current transaction */
#define PROC_LXID(proc) ((proc)->lxid)

/* Wait events of extensions have no names before 17. */
static inline uint32
WaitEventExtensionNew(const char *wait_event_name)
{
	return PG_WAIT_EXTENSION;
}

/* Such a set has no owner before 17, but is of a memory context. */
static inline WaitEventSet *
compat_CreateWaitEventSet(ResourceOwner resowner, int nevents)
{
	return CreateWaitEventSet(CurrentMemoryContext, nevents);
}
#define CreateWaitEventSet compat_CreateWaitEventSet

#else
#define PROC_LXID(proc) ((proc)->vxid.lxid)
#endif							/* PG_VERSION_NUM < 170000 */

/* Does this session replay changes of another server? */
static inline bool
session_has_origin(void)
{
#if PG_VERSION_NUM < 190000
	return replorigin_session_origin != InvalidRepOriginId;
#else
	return replorigin_xact_state.origin != InvalidReplOriginId;
#endif
}

/* Can a publication have sequences, and a subscription write them? */
#define HAVE_PUBLISHED_SEQUENCES (PG_VERSION_NUM >= 190000)

/*
 * How many background workers are registered, in the postmaster; its list has
 * links in one direction only before 18.
 */
static inline int
compat_background_workers(void)
{
	int			n = 0;
#if PG_VERSION_NUM < 180000
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
#else
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
#endif
		n++;
	return n;
}

/*
 * Was the value of a setting changed in the configuration, so that only a
 * restart makes it count?
 */
static inline bool
setting_awaits_restart(const char *name)
{
#if PG_VERSION_NUM < 160000
	struct config_generic **all = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
	{
		if (strcmp(all[i]->name, name) == 0)
			return (all[i]->status & GUC_PENDING_RESTART) != 0;
	}
	return false;
#else
	struct config_generic *setting = find_option(name, false, true, 0);

	return setting != NULL && (setting->status & GUC_PENDING_RESTART) != 0;
#endif
}

#if PG_VERSION_NUM < 190000
#define PG_SIG_IGN SIG_IGN
#endif

/*
 * die() in a handler that is told who sent the signal, which those of servers
 * before 19 are not.
 */
static inline void
die_by(int signo, const siginfo_t *info)
{
#if PG_VERSION_NUM < 190000
	die(signo);
#else
	pg_signal_info sender = {info->si_pid, info->si_uid};

	die(signo, &sender);
#endif
}

#endif							/* SNOWFLAKE_COMPAT_H */
