/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What a person sees of the generator: the functions under the views.
 *
 * Readers of shared memory only.  Counts may miss what a backend is moving
 * from its own count to the slot's at this moment; at rest they are exact.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "settings.h"
#include "shmem.h"

PG_FUNCTION_INFO_V1(pg_stat_get_snowflake_slots);

/* A copy of what the backends' entries say of one slot. */
typedef struct SlotBackends
{
	uint64		drawn;			/* not yet added to the slot's issued */
	int			npids;
	Datum	   *pids;
} SlotBackends;

/*
 * Copy, for each slot, who has it and what was drawn but not yet counted.
 */
static SlotBackends *
read_backends(uint64 *issued)
{
	SlotBackends *result = palloc0(sizeof(SlotBackends) * shared->nslots);

	/* All the memory first: nothing may fail under the lock. */
	int		   *pid = palloc(sizeof(int) * shared->nbackends);
	int		   *slot = palloc(sizeof(int) * shared->nbackends);
	int			n = 0;

	/* The slots' own counts first: a count on its way is missed, not doubled */
	for (int i = 0; i < shared->nslots; i++)
		issued[i] = pg_atomic_read_u64(&SLOT(i)->issued);
	pg_memory_barrier();

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->nbackends; i++)
	{
		BackendEntry *entry = BACKEND(i);

		if (entry->pid == 0)
			continue;
		pid[n] = entry->pid;
		slot[n++] = entry->slot;
		result[pg_atomic_read_u32(&entry->drawn_from)].drawn +=
			pg_atomic_read_u64(&entry->drawn);
	}
	LWLockRelease(shared->lock);

	for (int i = 0; i < n; i++)
	{
		SlotBackends *of = &result[slot[i]];

		if (of->pids == NULL)
			of->pids = palloc(sizeof(Datum) * n);
		of->pids[of->npids++] = Int32GetDatum(pid[i]);
	}
	return result;
}

/*
 * pg_stat_snowflake_slots: one row a slot.
 */
Datum
pg_stat_get_snowflake_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SlotBackends *backends;
	uint64	   *issued;
	uint64		floor;

	shmem_require("read its statistics");
	InitMaterializedSRF(fcinfo, 0);

	floor = pg_atomic_read_u64(&shared->reserve.floor);
	issued = palloc(sizeof(uint64) * shared->nslots);
	backends = read_backends(issued);

	for (int i = 0; i < shared->nslots; i++)
	{
		uint64		word = pg_atomic_read_u64(&SLOT(i)->word);
		uint64		time = word >> snowflake_layout.bits[FIELD_SEQUENCE];
		uint64		sequence = word & snowflake_layout.max[FIELD_SEQUENCE];
		bool		drawn = time >= floor && word != 0 && word != SLOT_CLOSED;
		TimestampTz ts;
		Datum		values[5] = {0};
		bool		nulls[5] = {false};

		values[0] = Int32GetDatum(i);
		values[1] = backends[i].npids == 0 ?
			PointerGetDatum(construct_empty_array(INT4OID)) :
			PointerGetDatum(construct_array(backends[i].pids,
											backends[i].npids,
											INT4OID, sizeof(int32), true,
											TYPALIGN_INT));
		if (drawn && clock_timestamp_of_unit(time, &ts))
			values[2] = TimestampTzGetDatum(ts);
		else
			nulls[2] = true;
		if (drawn)
			values[3] = Int64GetDatum(layout_pack(&snowflake_layout, time,
												  settings_node_number(),
												  i, sequence));
		else
			nulls[3] = true;
		values[4] = Int64GetDatum((int64) (issued[i] + backends[i].drawn));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
