/*-------------------------------------------------------------------------
 *
 * slots.c
 *		Give worker slots to backends and take them back.
 *
 * A backend is given a slot when it first draws an ID and keeps it until it
 * exits.  It is for when it is busy; the shared slot is given to nobody, unless
 * there is no other.  With more backends than slots, several have the same:
 * nothing but speed depends on who has which, since every ID is taken by
 * compare-and-swap.
 *
 * Locking: the table of who has which slot is under shared->lock, taken once
 * at the first ID and once at exit.  Nothing that can fail is done under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "compat.h"
#include "slots.h"

static void slots_release(int code, Datum arg);

/*
 * The i-th slot to try.
 *
 * A busy backend goes on into the slots above its own (generator.c), so first
 * come those with the most room before the next one given out: for 31 slots
 * the shared one, 16, 8, 24, 4, ...  That is i with its bits reversed.  There
 * are as many slots as worker numbers, a power of 2, or one less; that one would
 * be last.
 */
static int
slot_by_preference(int i)
{
	int			slot = 0;

	for (int bit = (shared->nslots + 1) >> 1; bit > 0; bit >>= 1, i >>= 1)
	{
		if (i & 1)
			slot |= bit;
	}
	return slot;
}

/*
 * Give this backend a slot: a free one, else one with the fewest backends.
 * Returns its number, which is the worker number.  Call once a backend.
 */
int
slots_acquire(void)
{
	BackendEntry *me = BACKEND(MyProcNumber);
	int			best;

	Assert(MyProcNumber >= 0 && MyProcNumber < shared->nbackends);

	/* Before the slot is taken, so that it cannot be left behind. */
	before_shmem_exit(slots_release, (Datum) 0);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	best = shared->nslots == 1 ? SHARED_SLOT : slot_by_preference(1);
	for (int i = 2; i < shared->nslots && SLOT(best)->nbackends > 0; i++)
	{
		int			slot = slot_by_preference(i);

		if (SLOT(slot)->nbackends < SLOT(best)->nbackends)
			best = slot;
	}
	SLOT(best)->nbackends++;
	pg_atomic_write_u32(&me->drawn_from, best);
	me->slot = best;
	me->pid = MyProcPid;
	LWLockRelease(shared->lock);

	return best;
}

/*
 * Count what a backend has drawn for the slot that it was drawn from.  By the
 * backend itself, when it goes to another slot or exits.
 */
void
slots_count_drawn(BackendEntry *me)
{
	uint64		drawn = pg_atomic_read_u64(&me->drawn);

	pg_atomic_fetch_add_u64(&SLOT(pg_atomic_read_u32(&me->drawn_from))->issued,
							drawn - pg_atomic_read_u64(&me->counted));
	pg_atomic_write_u64(&me->counted, drawn);
}

/*
 * Give the slot back, with what was drawn counted.  The slot's word stays, so
 * that the next owner starts above it.
 */
static void
slots_release(int code, Datum arg)
{
	BackendEntry *me = BACKEND(MyProcNumber);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (me->pid == MyProcPid)
	{
		slots_count_drawn(me);
		SLOT(me->slot)->nbackends--;
		me->pid = 0;
	}
	LWLockRelease(shared->lock);
}
