/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		What the processes of a server share, and who may touch it when.
 *
 * After a crash of a backend the server makes its shared memory anew: all
 * slots are free and every word is 0.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SHMEM_H
#define SNOWFLAKE_SHMEM_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#pragma GCC visibility push(hidden)

/*
 * A worker slot: a worker number and the counter behind it.
 */
typedef struct Slot
{
	/*
	 * time << sequence bits | sequence of the last ID drawn, 0 when none was.
	 * Time and sequence are one counter, which only ever goes up.  Changed by
	 * compare-and-swap only, by any backend, with no lock; read by anyone.
	 * Never reset while the server runs, whoever has the slot.
	 */
	pg_atomic_uint64 word;

	/*
	 * IDs drawn from this slot and already counted here; the rest is in the
	 * backends' drawn.  Only ever added to, with no lock.
	 */
	pg_atomic_uint64 issued;

	/* Backends that have this slot.  Protected by SharedState.lock. */
	uint32		nbackends;
} Slot;

/*
 * A backend that draws IDs, at its process number.
 */
typedef struct BackendEntry
{
	/* 0 means that the entry is free.  Protected by SharedState.lock. */
	int			pid;

	/* The slot it was given.  Protected by SharedState.lock. */
	int			slot;

	/*
	 * IDs that the backend has drawn from the slot drawn_from and not yet
	 * added to that slot's issued.  Written by the backend alone, with no
	 * lock; read by anyone, with a result that may be a moment old.
	 */
	pg_atomic_uint64 drawn;
	pg_atomic_uint32 drawn_from;
} BackendEntry;

/* Each alone on its cache line, since each is written by another CPU. */
typedef union SlotPadded
{
	Slot		slot;
	char		pad[PG_CACHE_LINE_SIZE];
} SlotPadded;

typedef union BackendEntryPadded
{
	BackendEntry entry;
	char		pad[PG_CACHE_LINE_SIZE];
} BackendEntryPadded;

/*
 * All fields are set at server start and read only from then on; what they
 * point to follows the rules above.
 */
typedef struct SharedState
{
	LWLock	   *lock;			/* guards who has which slot */
	int			nslots;
	int			nbackends;		/* entries, one for each backend possible */
	SlotPadded *slots;
	BackendEntryPadded *backends;
} SharedState;

/* NULL when the library was not preloaded. */
extern SharedState *shared;

#define SLOT(i)		(&shared->slots[i].slot)
#define BACKEND(i)	(&shared->backends[i].entry)

extern void shmem_request(void);
extern void shmem_startup(void);
extern void shmem_require(const char *purpose);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SHMEM_H */
