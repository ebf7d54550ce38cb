/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Make the shared memory: sizes and first values.
 *
 * What is in it and how it is locked is said in shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "preload.h"
#include "settings.h"
#include "shmem.h"

#define LWLOCK_TRANCHE_NAME "snowflake"

SharedState *shared = NULL;

static Size
header_size(void)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SharedState));
}

static Size
shmem_size(void)
{
	Size		size = header_size();

	size = add_size(size, mul_size(settings_slots(), sizeof(SlotPadded)));
	size = add_size(size, mul_size(MaxBackends, sizeof(BackendEntryPadded)));
	size = add_size(size, mul_size(snowflake_max_segment_tags, sizeof(SegmentPadded)));

	/* to begin on a cache line of our own */
	return add_size(size, PG_CACHE_LINE_SIZE);
}

void
shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche(LWLOCK_TRANCHE_NAME, 3);
}

static void
init_stats(void)
{
	pg_atomic_uint64 *counter = (pg_atomic_uint64 *) &shared->stats;

	for (size_t i = 0; i < STATS_COUNTERS; i++)
		pg_atomic_init_u64(&counter[i], 0);
	shared->stats_reset.at = GetCurrentTimestamp();
	shared->stats_reset.issued = 0;
}

static void
init_worker(Worker *worker)
{
	memset(worker, 0, sizeof(Worker));
	pg_atomic_init_u32(&worker->proc, (uint32) -1);
	pg_atomic_init_u32(&worker->requested, 0);
	pg_atomic_init_u64(&worker->requested_at, 0);
	ConditionVariableInit(&worker->changed);
}

void
shmem_startup(void)
{
	char	   *base;
	bool		found;

	/* in case this is a restart within the postmaster */
	shared = NULL;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	base = ShmemInitStruct("snowflake", shmem_size(), &found);
	base = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, base);
	shared = (SharedState *) base;

	if (!found)
	{
		Mark	   *mark = &shared->mark;
		LWLockPadded *locks;

		memset(mark, 0, sizeof(Mark));
		pg_atomic_init_u64(&mark->limit, 0);
		pg_atomic_init_u64(&mark->renew_at, 0);
		pg_atomic_init_u64(&mark->floor, 0);
		pg_atomic_init_u64(&mark->advanced, 0);
		pg_atomic_init_u64(&mark->mark, 0);
		pg_atomic_init_u64(&mark->wanted, 0);
		pg_atomic_init_u64(&mark->advance_to, 0);
		pg_atomic_init_u32(&mark->accept, 0);
		pg_atomic_init_u32(&mark->to_record, 0);
		pg_atomic_init_u32(&mark->confirmed_before, 0);
		init_worker(&shared->mark_writer);
		init_worker(&shared->services);

		memset(&shared->lease, 0, sizeof(Lease));
		pg_atomic_init_u32(&shared->lease.node, (uint32) -1);
		pg_atomic_init_u64(&shared->lease.deadline, 0);
		pg_atomic_init_u64(&shared->lease.mark, 0);
		pg_atomic_init_u32(&shared->lease.offered, 0);
		pg_atomic_init_u32(&shared->lease.taken, 0);
		pg_atomic_init_u64(&shared->lease.clock_offset, 0);
		pg_atomic_init_u32(&shared->lease.free_numbers, (uint32) -1);
		shared->lease.seen.changes = -1;
		shared->lease.seen.renewals = -1;
		shared->lease.recalled_node = -1;
		shared->lease.remembered_node = -1;

		memset(&shared->backfill, 0, sizeof(Backfill));
		shared->backfill.segment = DSM_HANDLE_INVALID;

		memset(&shared->segments, 0, sizeof(Segments));
		pg_atomic_init_u64(&shared->segments.valid_until, 0);
		pg_atomic_init_u32(&shared->segments.requested, 0);
		ConditionVariableInit(&shared->segments.changed);

		shared->clock.offset = 0;
		pg_atomic_init_u64(&shared->clock.offset_seen, 0);
		pg_atomic_init_u64(&shared->latest, 0);

		init_stats();
		for (int i = 0; i < ALARM_KINDS; i++)
		{
			pg_atomic_init_u64(&shared->alarms[i].at, 0);
			pg_atomic_init_u64(&shared->alarms[i].left_out, 0);
		}

		locks = GetNamedLWLockTranche(LWLOCK_TRANCHE_NAME);
		shared->lock = &locks[0].lock;
		shared->backfill.lock = &locks[1].lock;
		shared->segments.lock = &locks[2].lock;
		shared->nslots = settings_slots();
		shared->nbackends = MaxBackends;
		shared->nsegments = snowflake_max_segment_tags;
		shared->slots = (SlotPadded *) (base + header_size());
		shared->backends = (BackendEntryPadded *) (shared->slots + shared->nslots);
		shared->segment_entries = (SegmentPadded *) (shared->backends + shared->nbackends);

		for (int i = 0; i < shared->nslots; i++)
		{
			pg_atomic_init_u64(&SLOT(i)->word, 0);
			pg_atomic_init_u64(&SLOT(i)->issued, 0);
			SLOT(i)->issued_at_reset = 0;
			SLOT(i)->nbackends = 0;
		}
		for (int i = 0; i < shared->nbackends; i++)
		{
			BACKEND(i)->pid = 0;
			BACKEND(i)->slot = 0;
			pg_atomic_init_u64(&BACKEND(i)->drawn, 0);
			pg_atomic_init_u64(&BACKEND(i)->counted, 0);
			pg_atomic_init_u32(&BACKEND(i)->drawn_from, 0);
		}
		for (int i = 0; i < shared->nsegments; i++)
		{
			memset(SEGMENT(i), 0, sizeof(Segment));
			pg_atomic_init_u64(&SEGMENT(i)->word, SEGMENT_CLOSED);
			pg_atomic_init_u32(&SEGMENT(i)->serial, 0);
			pg_atomic_init_u32(&SEGMENT(i)->asked, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Raise an ERROR where the library was not preloaded.  The purpose completes
 * "must be loaded ... to".
 */
void
shmem_require(const char *purpose)
{
	if (shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake must be loaded via \"shared_preload_libraries\" to %s",
						purpose),
				 errdetail("%s", preload_detail()),
				 errhint("%s", preload_hint())));
}
