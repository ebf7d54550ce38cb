/*-------------------------------------------------------------------------
 *
 * open_draws.c
 *		The transactions that have drawn IDs and have not ended.
 *
 * Before a transaction takes its first ID, its process notes in its entry the
 * time unit and the transaction, by the local number that each process gives
 * its transactions.  The note stays after the transaction has ended, but it
 * counts only while the process's current transaction has that number.  A
 * process loses the number at the moment when its transaction leaves the array
 * of running ones.  So once a note does not count, each snapshot that is taken
 * later sees the transaction as ended, committed or not.
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
 * transactions.  So a note of which the reader does not see all is of a
 * compare-and-swap that fails at its raised word.  t/models/horizon.pml is a
 * model of that.
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

#define NO_UNIT		PG_UINT64_MAX

void
open_draws_init_shmem(void)
{
	for (int i = 0; i < shared->nbackends; i++)
	{
		for (int j = 0; j < OPEN_NOTES; j++)
		{
			pg_atomic_init_u64(&BACKEND(i)->notes[j].unit, 0);
			pg_atomic_init_u32(&BACKEND(i)->notes[j].lxid, InvalidLocalTransactionId);
		}
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

/* The unit that is noted for the process's current transaction, or none. */
static uint64
noted_unit(OpenNote *note, PGPROC *proc)
{
	uint64		unit = pg_atomic_read_u64(&note->unit);
	LocalTransactionId lxid = pg_atomic_read_u32(&note->lxid);

	return LocalTransactionIdIsValid(lxid) && lxid == PROC_LXID(proc) ? unit : NO_UNIT;
}

void
open_draws_note(uint64 unit)
{
	OpenNote   *note = &BACKEND(MyProcNumber)->notes[NOTE_OWN];

	pg_atomic_write_u32(&note->lxid, PROC_LXID(MyProc));
	pg_atomic_write_u64(&note->unit, unit);
	if (IsParallelWorker())
	{
		PGPROC	   *leader = MyProc->lockGroupLeader;

		/* beside other workers */
		note = &BACKEND(GetNumberFromPGProc(leader))->notes[NOTE_OF_WORKERS];
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		if (unit < noted_unit(note, leader))
		{
			pg_atomic_write_u32(&note->lxid, PROC_LXID(leader));
			pg_atomic_write_u64(&note->unit, unit);
		}
		LWLockRelease(shared->lock);
	}
}

/*
 * Where its note may be: from the place that its ID says, since a look at each that
 * is taken costs as much as the server has processes.
 */
static PreparedNote *
prepared_place(TransactionId xid, int i)
{
	return &shared->prepared[(xid % shared->nprepared + i) % shared->nprepared];
}

/*
 * Keep what this transaction has noted, as it is about to be prepared.  There is
 * a place for it, if transactions can be prepared at all.
 */
static void
keep_note(XactEvent event, void *arg)
{
	TransactionId xid;
	uint64		unit = NO_UNIT;

	if (event != XACT_EVENT_PRE_PREPARE || shared == NULL)
		return;

	xid = GetTopTransactionId();
	for (int i = 0; i < OPEN_NOTES; i++)
		unit = Min(unit, noted_unit(&BACKEND(MyProcNumber)->notes[i], MyProc));

	for (int i = 0; i < shared->nprepared; i++)
	{
		PreparedNote *note = prepared_place(xid, i);
		uint32		old = pg_atomic_read_u32(&note->xid);

		if ((old == xid || !is_open(old)) &&
			pg_atomic_compare_exchange_u32(&note->xid, &old, xid))
		{
			pg_atomic_write_u64(&note->unit, unit);
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
		PreparedNote *note = prepared_place(xid, i);

		if (pg_atomic_read_u32(&note->xid) == xid)
			return pg_atomic_read_u64(&note->unit);
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
		PGPROC	   *proc = GetPGProcByNumber(i);

		if (i == MyProcNumber ||
			(OidIsValid(database) && proc->databaseId != database))
			continue;
		for (int j = 0; j < OPEN_NOTES; j++)
		{
			uint64		unit = noted_unit(&BACKEND(i)->notes[j], proc);

			if (unit < below)
			{
				found = true;
				*oldest = (OpenDraw) {.unit = below = unit,.pid = proc->pid};
			}
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
