/*-------------------------------------------------------------------------
 *
 * open_draws.c
 *		The transactions that have drawn IDs and have not ended.
 *
 * Before a transaction takes its first ID, its process notes in its entry in
 * which time unit that is, and in which transaction, by the local number that
 * each process gives its transactions.  The note stays when the transaction has
 * ended: it counts for as long as that is the number of the process's current
 * transaction.  A process loses that number in the moment in which its
 * transaction leaves the array of running ones; so what is no longer noted is
 * seen as ended, committed or not, by each snapshot that is taken later.
 *
 * The note of a parallel worker counts for its leader's transaction, and
 * outlasts the worker.
 *
 * A prepared transaction has left its process.  So before it is prepared, its
 * note is kept under its transaction ID.  Whether it is still there is asked of
 * the server when somebody wants to know it; that is also when a place for
 * another one is found.  One that was prepared before the server was started
 * has no note: it may have drawn any ID.
 *
 * Order: what a writer does is note, then compare-and-swap; what a reader does
 * is raise the words of all slots, then look at the notes, and then at prepared
 * transactions.  So a note that the reader does not see is of a
 * compare-and-swap that fails at its raised word.
 *
 * Locking: of each field, as declared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"

#include "compat.h"
#include "open_draws.h"

/* No transaction has this ID: the place is being written. */
#define BEING_WRITTEN	FrozenTransactionId

void
open_draws_init_shmem(void)
{
	for (int i = 0; i < shared->nbackends; i++)
	{
		pg_atomic_init_u64(&BACKEND(i)->noted_unit, 0);
		pg_atomic_init_u32(&BACKEND(i)->noted_lxid, InvalidLocalTransactionId);
		pg_atomic_init_u64(&BACKEND(i)->workers_unit, 0);
		pg_atomic_init_u32(&BACKEND(i)->workers_lxid, InvalidLocalTransactionId);
	}
	for (int i = 0; i < shared->nprepared; i++)
	{
		pg_atomic_init_u32(&shared->prepared[i].xid, InvalidTransactionId);
		pg_atomic_init_u64(&shared->prepared[i].unit, 0);
	}
}

/*
 * Is a transaction running or prepared?  The ID may be one of long ago, which
 * the server takes for one to come where it is far enough in the past.
 */
static bool
is_open(TransactionId xid)
{
	return TransactionIdIsNormal(xid) &&
		TransactionIdPrecedes(xid, ReadNextTransactionId()) &&
		TransactionIdIsInProgress(xid);
}

/* The note is of this transaction only once it has its time unit. */
static void
write_note(pg_atomic_uint64 *unit_field, pg_atomic_uint32 *lxid_field,
		   uint64 unit, LocalTransactionId lxid)
{
	pg_atomic_write_u64(unit_field, unit);
	pg_write_barrier();
	pg_atomic_write_u32(lxid_field, lxid);
}

static bool
is_noted(pg_atomic_uint64 *unit_field, pg_atomic_uint32 *lxid_field, PGPROC *proc,
		 uint64 below, uint64 *unit)
{
	LocalTransactionId lxid = pg_atomic_read_u32(lxid_field);

	pg_read_barrier();
	*unit = pg_atomic_read_u64(unit_field);
	return LocalTransactionIdIsValid(lxid) && *unit < below &&
		lxid == PROC_LXID(proc);
}

void
open_draws_note(uint64 unit)
{
	BackendEntry *me = BACKEND(MyProcNumber);

	write_note(&me->noted_unit, &me->noted_lxid, unit, PROC_LXID(MyProc));
	if (IsParallelWorker())
	{
		PGPROC	   *leader = MyProc->lockGroupLeader;
		BackendEntry *entry = BACKEND(GetNumberFromPGProc(leader));

		/* beside other workers */
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u32(&entry->workers_lxid) != PROC_LXID(leader) ||
			pg_atomic_read_u64(&entry->workers_unit) > unit)
			write_note(&entry->workers_unit, &entry->workers_lxid, unit, PROC_LXID(leader));
		LWLockRelease(shared->lock);
	}
}

/*
 * Keep what this transaction has noted, as it is about to be prepared.  There is
 * a place for it, if transactions can be prepared at all.
 */
static void
keep_note(XactEvent event, void *arg)
{
	BackendEntry *me;
	TransactionId xid;
	uint64		noted;
	uint64		unit = PG_UINT64_MAX;

	if (event != XACT_EVENT_PRE_PREPARE || shared == NULL)
		return;

	xid = GetTopTransactionId();
	me = BACKEND(MyProcNumber);
	if (is_noted(&me->noted_unit, &me->noted_lxid, MyProc, unit, &noted))
		unit = noted;
	if (is_noted(&me->workers_unit, &me->workers_lxid, MyProc, unit, &noted))
		unit = noted;

	for (int i = 0; i < shared->nprepared; i++)
	{
		PreparedNote *note = &shared->prepared[i];
		uint32		old = pg_atomic_read_u32(&note->xid);

		if (old != BEING_WRITTEN && (old == xid || !is_open(old)) &&
			pg_atomic_compare_exchange_u32(&note->xid, &old, BEING_WRITTEN))
		{
			pg_atomic_write_u64(&note->unit, unit);
			pg_write_barrier();
			pg_atomic_write_u32(&note->xid, xid);
			return;
		}
	}
}

void
open_draws_register(void)
{
	RegisterXactCallback(keep_note, NULL);
}

/* 0 where there is no note of it */
static uint64
prepared_unit(TransactionId xid)
{
	for (int i = 0; i < shared->nprepared; i++)
	{
		PreparedNote *note = &shared->prepared[i];

		if (pg_atomic_read_u32(&note->xid) == xid)
		{
			pg_read_barrier();
			return pg_atomic_read_u64(&note->unit);
		}
	}
	return 0;
}

bool
open_draws_oldest(Oid database, uint64 below, OpenDraw *oldest)
{
	bool		found = false;

	/* the words were raised before */
	pg_memory_barrier();
	for (int i = 0; i < shared->nbackends; i++)
	{
		BackendEntry *entry = BACKEND(i);
		PGPROC	   *proc = GetPGProcByNumber(i);
		uint64		unit;

		if (i == MyProcNumber ||
			(OidIsValid(database) && proc->databaseId != database))
			continue;
		if (is_noted(&entry->noted_unit, &entry->noted_lxid, proc, below, &unit))
		{
			found = true;
			*oldest = (OpenDraw) {.unit = below = unit,.pid = proc->pid};
		}
		if (is_noted(&entry->workers_unit, &entry->workers_lxid, proc, below, &unit))
		{
			found = true;
			*oldest = (OpenDraw) {.unit = below = unit,.pid = proc->pid};
		}
	}

	/* what was prepared meanwhile was seen above, or is seen here */
	pg_memory_barrier();
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		PGPROC	   *proc = &PreparedXactProcs[i];
		TransactionId xid = proc->xid;
		uint64		unit;

		if ((OidIsValid(database) && proc->databaseId != database) || !is_open(xid))
			continue;
		unit = prepared_unit(xid);
		if (unit < below)
		{
			found = true;
			*oldest = (OpenDraw) {.unit = below = unit,.xid = xid};
		}
	}
	return found;
}
