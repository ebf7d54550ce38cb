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

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "settings.h"
#include "shmem.h"

PG_FUNCTION_INFO_V1(pg_stat_get_snowflake);
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
 * The last ID drawn from a slot: its time and sequence.  False when there was
 * none since server start.
 */
static bool
read_last(int slot, uint64 floor, uint64 *time, uint64 *sequence)
{
	uint64		word = pg_atomic_read_u64(&SLOT(slot)->word);

	*time = word >> snowflake_layout.bits[FIELD_SEQUENCE];
	*sequence = word & snowflake_layout.max[FIELD_SEQUENCE];
	return *time >= floor && word != 0 && word != SLOT_CLOSED;
}

/*
 * The instant at which a time unit begins.
 */
static Datum
unit_datum(uint64 unit)
{
	TimestampTz ts;

	return TimestampTzGetDatum(clock_timestamp_of_unit(unit, &ts) ?
							   ts : DT_NOEND);
}

/*
 * pg_stat_snowflake: one row.
 */
Datum
pg_stat_get_snowflake(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[11];
	bool		nulls[11] = {false};
	int			i = 0;
	uint64		floor;
	uint64		limit;
	uint64		last = 0;
	uint64	   *slot_issued;
	uint64		issued = 0;
	SlotBackends *backends;
	Interval   *drift = palloc0(sizeof(Interval));
	TimestampTz wall;

	shmem_require("read its statistics");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	floor = pg_atomic_read_u64(&shared->reserve.floor);
	limit = pg_atomic_read_u64(&shared->reserve.limit);
	slot_issued = palloc(sizeof(uint64) * shared->nslots);
	backends = read_backends(slot_issued);
	for (int slot = 0; slot < shared->nslots; slot++)
	{
		uint64		time;
		uint64		sequence;

		if (read_last(slot, floor, &time, &sequence))
			last = Max(last, time);
		issued += slot_issued[slot] + backends[slot].drawn;
	}
	drift->time = clock_drift_us(&wall);

	nulls[i] = snowflake_node_id == NODE_ID_UNSET &&
		snowflake_layout.bits[FIELD_NODE] > 0;
	values[i++] = Int32GetDatum((int32) settings_node_number());
	values[i++] = CStringGetTextDatum(snowflake_layout_text);
	values[i++] = TimestampTzGetDatum(snowflake_epoch);
	values[i++] = CStringGetTextDatum(GetConfigOption("snowflake.clock", false, false));
	values[i++] = TimestampTzGetDatum(wall + drift->time);
	values[i++] = TimestampTzGetDatum(wall);
	values[i++] = IntervalPGetDatum(drift);
	nulls[i] = last == 0;
	values[i++] = unit_datum(last);
	values[i++] = Int64GetDatum((int64) issued);
	nulls[i] = limit == 0;
	values[i++] = unit_datum(limit);
	values[i++] = unit_datum(snowflake_layout.max[FIELD_TIME] + 1);
	Assert(i == lengthof(values) && i == tupdesc->natts);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
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
		uint64		time;
		uint64		sequence;
		bool		drawn = read_last(i, floor, &time, &sequence);
		Datum		values[5] = {0};
		bool		nulls[5] = {false};

		values[0] = Int32GetDatum(i);
		values[1] = backends[i].npids == 0 ?
			PointerGetDatum(construct_empty_array(INT4OID)) :
			PointerGetDatum(construct_array(backends[i].pids,
											backends[i].npids,
											INT4OID, sizeof(int32), true,
											TYPALIGN_INT));
		nulls[2] = nulls[3] = !drawn;
		if (drawn)
		{
			values[2] = unit_datum(time);
			values[3] = Int64GetDatum(layout_pack(&snowflake_layout, time,
												  settings_node_number(),
												  i, sequence));
		}
		values[4] = Int64GetDatum((int64) (issued[i] + backends[i].drawn));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
