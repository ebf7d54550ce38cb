/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What a person sees of the generator: the functions under the views.
 *
 * Readers of shared memory only, but for the reset.  The sum of all IDs drawn
 * is exact at any time.  Those of the slots may miss what a backend is moving
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
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "lease.h"
#include "mark.h"
#include "segment.h"
#include "settings.h"
#include "shmem.h"
#include "utf8.h"

PG_FUNCTION_INFO_V1(pg_stat_get_snowflake);
PG_FUNCTION_INFO_V1(pg_stat_get_snowflake_slots);
PG_FUNCTION_INFO_V1(pg_stat_get_snowflake_segments);
PG_FUNCTION_INFO_V1(pg_stat_snowflake_reset);

/* What there is to say of one slot. */
typedef struct SlotStats
{
	uint64		issued;			/* since shared memory was made */
	uint64		issued_at_reset;
	int			npids;
	Datum	   *pids;
} SlotStats;

/* A copy of what changes with the backends, all of it from one moment. */
typedef struct StatsSnapshot
{
	uint64		issued;			/* by all, since shared memory was made */
	StatsReset	reset;
	int			nbackends;
	SlotStats  *slots;
	TimestampTz last_error_at;
	char		last_error[WORKER_ERROR_SIZE];
	int			last_error_encoding;
} StatsSnapshot;

/*
 * What the backends' entries and the slots say.  Called with the lock held, so
 * it may not fail.
 */
static void
count_issued(uint64 *total, uint64 *of_slot)
{
	*total = 0;

	/* The slots' own counts first: a count on its way is missed, not doubled */
	for (int i = 0; i < shared->nslots; i++)
		of_slot[i] = pg_atomic_read_u64(&SLOT(i)->issued);
	pg_memory_barrier();

	for (int i = 0; i < shared->nbackends; i++)
	{
		BackendEntry *entry = BACKEND(i);
		uint64		counted = pg_atomic_read_u64(&entry->counted);
		uint64		drawn;

		pg_read_barrier();
		drawn = pg_atomic_read_u64(&entry->drawn);
		*total += drawn;
		of_slot[pg_atomic_read_u32(&entry->drawn_from)] += drawn - counted;
	}
}

static StatsSnapshot *
take_snapshot(void)
{
	/* All the memory first: nothing may fail under the lock. */
	StatsSnapshot *result = palloc0(sizeof(StatsSnapshot));
	uint64	   *issued = palloc(sizeof(uint64) * shared->nslots);
	int		   *pid = palloc(sizeof(int) * shared->nbackends);
	int		   *slot = palloc(sizeof(int) * shared->nbackends);
	Worker	   *worker;

	result->slots = palloc0(sizeof(SlotStats) * shared->nslots);

	LWLockAcquire(shared->lock, LW_SHARED);
	count_issued(&result->issued, issued);
	for (int i = 0; i < shared->nbackends; i++)
	{
		if (BACKEND(i)->pid == 0)
			continue;
		pid[result->nbackends] = BACKEND(i)->pid;
		slot[result->nbackends++] = BACKEND(i)->slot;
	}
	for (int i = 0; i < shared->nslots; i++)
		result->slots[i].issued_at_reset = SLOT(i)->issued_at_reset;
	result->reset = shared->stats_reset;
	worker = shared->services.last_error_at > shared->mark_writer.last_error_at ?
		&shared->services : &shared->mark_writer;
	result->last_error_at = worker->last_error_at;
	strlcpy(result->last_error, worker->last_error, sizeof(result->last_error));
	result->last_error_encoding = worker->error_encoding;
	LWLockRelease(shared->lock);

	for (int i = 0; i < shared->nslots; i++)
		result->slots[i].issued = issued[i];
	for (int i = 0; i < result->nbackends; i++)
	{
		SlotStats  *of = &result->slots[slot[i]];

		if (of->pids == NULL)
			of->pids = palloc(sizeof(Datum) * result->nbackends);
		of->pids[of->npids++] = Int32GetDatum(pid[i]);
	}
	return result;
}

/*
 * How many there were since the reset.  What was on its way then may seem
 * negative for a moment.
 */
static Datum
since_reset(uint64 issued, uint64 at_reset)
{
	return Int64GetDatum((int64) (issued - Min(issued, at_reset)));
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

static Datum
counter_datum(pg_atomic_uint64 *counter)
{
	return Int64GetDatum((int64) pg_atomic_read_u64(counter));
}

/*
 * Milliseconds, as the server's own views have them.
 */
static Datum
ms_datum(uint64 us)
{
	return Float8GetDatum((double) us / 1000);
}

static Datum
interval_datum(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/*
 * How far the time of an ID drawn now would be ahead of the server's clock, at
 * most; negative when behind.
 */
static int64
drift_us(TimestampTz clock_ts, TimestampTz wall)
{
	TimestampTz ahead = clock_ts;
	TimestampTz last;
	uint64		unit;

	if (mark_last_unit(&unit) && clock_timestamp_of_unit(unit, &last))
		ahead = Max(ahead, last);
	return ahead - wall;
}

/*
 * The mark writer's PID; 0 when there is none.
 */
static int
mark_writer_pid(void)
{
	uint32		proc = pg_atomic_read_u32(&shared->mark_writer.proc);

	return proc == (uint32) -1 ? 0 : ProcGlobal->allProcs[proc].pid;
}

#define PG_STAT_SNOWFLAKE_COLS 37

/*
 * pg_stat_snowflake: one row.
 */
Datum
pg_stat_get_snowflake(PG_FUNCTION_ARGS)
{
	Stats	   *stats;
	TupleDesc	tupdesc;
	Datum		values[PG_STAT_SNOWFLAKE_COLS];
	bool		nulls[PG_STAT_SNOWFLAKE_COLS] = {false};
	int			i = 0;
	uint64		floor;
	uint64		limit;
	uint64		last = 0;
	uint64		waits = 0;
	uint64		wait_us = 0;
	int			slots_used = 0;
	int			pid;
	int			node = lease_node();
	TimestampTz lease_ends;
	StatsSnapshot *snapshot;
	TimestampTz clock_ts;
	TimestampTz wall;

	shmem_require("read its statistics");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	stats = &shared->stats;
	floor = pg_atomic_read_u64(&shared->mark.floor_unit);
	limit = pg_atomic_read_u64(&shared->mark.limit_unit);
	lease_ends = lease_ends_at();
	snapshot = take_snapshot();
	for (int slot = 0; slot < shared->nslots; slot++)
	{
		uint64		time;
		uint64		sequence;

		if (read_last(slot, floor, &time, &sequence))
			last = Max(last, time);
		slots_used += snapshot->slots[slot].npids > 0;
	}
	for (int kind = 0; kind < ID_WAIT_KINDS; kind++)
	{
		waits += pg_atomic_read_u64(&stats->waits[kind]);
		wait_us += pg_atomic_read_u64(&stats->wait_us[kind]);
	}
	pid = may_read_all_stats() ? mark_writer_pid() : 0;
	wall = GetCurrentTimestamp();
	clock_ts = clock_can_step() ? wall : clock_read_to_draw();

	nulls[i] = node < 0;
	values[i++] = Int32GetDatum(node);
	nulls[i] = TIMESTAMP_IS_NOBEGIN(lease_ends);
	values[i++] = TimestampTzGetDatum(lease_ends);
	nulls[i] = !lease_is_used() || !shared->lease.has_clock_offset;
	values[i++] = interval_datum((int64) pg_atomic_read_u64(&shared->lease.clock_offset_us));
	values[i++] = CStringGetTextDatum(snowflake_layout_text);
	values[i++] = TimestampTzGetDatum(snowflake_epoch);
	values[i++] = CStringGetTextDatum(GetConfigOption("snowflake.clock", false, false));
	values[i++] = TimestampTzGetDatum(clock_ts);
	values[i++] = TimestampTzGetDatum(wall);
	values[i++] = interval_datum(drift_us(clock_ts, wall));
	values[i++] = interval_datum((int64) pg_atomic_read_u64(&stats->drift_max_us));
	nulls[i] = last == 0;
	values[i++] = unit_datum(last);
	values[i++] = since_reset(snapshot->issued, snapshot->reset.issued);
	values[i++] = counter_datum(&stats->backfilled);
	values[i++] = counter_datum(&stats->hops);
	values[i++] = Int64GetDatum((int64) waits);
	values[i++] = ms_datum(wait_us);
	for (int kind = 0; kind < ID_WAIT_KINDS; kind++)
	{
		values[i++] = counter_datum(&stats->waits[kind]);
		values[i++] = ms_datum(pg_atomic_read_u64(&stats->wait_us[kind]));
	}
	values[i++] = counter_datum(&stats->timeouts);
	values[i++] = counter_datum(&stats->regressions);
	values[i++] = interval_datum((int64) pg_atomic_read_u64(&stats->regression_max_us));
	values[i++] = counter_datum(&stats->jumps);
	values[i++] = interval_datum((int64) pg_atomic_read_u64(&stats->jump_max_us));
	nulls[i] = limit == 0;
	values[i++] = unit_datum(limit);
	values[i++] = Int32GetDatum(snapshot->nbackends);
	values[i++] = Int32GetDatum(slots_used);
	nulls[i] = pid == 0;
	values[i++] = Int32GetDatum(pid);
	nulls[i] = snapshot->last_error_at == 0 || !may_read_all_stats();
	values[i++] = CStringGetTextDatum(utf8_any_to_server(snapshot->last_error,
														 snapshot->last_error_encoding));
	nulls[i] = nulls[i - 1];
	values[i++] = TimestampTzGetDatum(snapshot->last_error_at);
	values[i++] = unit_datum(snowflake_layout.max[FIELD_TIME] + 1);
	values[i++] = TimestampTzGetDatum(snapshot->reset.at);
	Assert(i == PG_STAT_SNOWFLAKE_COLS && i == tupdesc->natts);

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
	StatsSnapshot *snapshot;
	uint64		floor;
	bool		shows_pids = may_read_all_stats();
	int			node = lease_node();

	shmem_require("read its statistics");
	InitMaterializedSRF(fcinfo, 0);

	floor = pg_atomic_read_u64(&shared->mark.floor_unit);
	snapshot = take_snapshot();

	for (int i = 0; i < shared->nslots; i++)
	{
		SlotStats  *slot = &snapshot->slots[i];
		uint64		time;
		uint64		sequence;
		bool		drawn = read_last(i, floor, &time, &sequence);
		Datum		values[6] = {0};
		bool		nulls[6] = {false};

		values[0] = Int32GetDatum(i);
		values[1] = Int32GetDatum(slot->npids);
		nulls[2] = !shows_pids;
		if (shows_pids)
			values[2] = slot->npids == 0 ?
				PointerGetDatum(construct_empty_array(INT4OID)) :
				PointerGetDatum(construct_array(slot->pids, slot->npids,
												INT4OID, sizeof(int32), true,
												TYPALIGN_INT));
		nulls[3] = !drawn;
		nulls[4] = !drawn || node < 0;
		if (drawn)
		{
			values[3] = unit_datum(time);
			values[4] = Int64GetDatum(layout_pack(&snowflake_layout, time,
												  (uint64) node,
												  i, sequence));
		}
		values[5] = since_reset(slot->issued, slot->issued_at_reset);

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

#define PG_STAT_SNOWFLAKE_SEGMENTS_COLS 21

/*
 * pg_stat_snowflake_segments: one row a tag.
 */
Datum
pg_stat_get_snowflake_segments(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {
		[SEGMENT_NEW] = "asked",
		[SEGMENT_OPEN] = "open",
		[SEGMENT_ENDED] = "ended"
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		shows_errors = may_read_all_stats();

	shmem_require("read its statistics");
	InitMaterializedSRF(fcinfo, 0);

	for (int n = 0; n < shared->nsegments; n++)
	{
		Segment		segment;
		SegmentBuffer buffer;
		int			spare;
		int64		from;
		int64		to;
		uint32		used;
		bool		is_used;
		bool		is_known;
		Datum		values[PG_STAT_SNOWFLAKE_SEGMENTS_COLS] = {0};
		bool		nulls[PG_STAT_SNOWFLAKE_SEGMENTS_COLS] = {false};
		int			i = 0;

		LWLockAcquire(shared->segments.lock, LW_SHARED);
		segment = *SEGMENT(n);
		LWLockRelease(shared->segments.lock);
		if (segment.state == SEGMENT_FREE || segment.state == SEGMENT_MISSING)
			continue;

		/* of the copy */
		is_used = segment_used(&segment, &buffer, &from, &to, &used);
		spare = segment_spare(&segment);
		is_known = segment.incarnation[0] != '\0';

		values[i++] = CStringGetTextDatum(utf8_to_server(segment.tag));
		values[i++] = CStringGetTextDatum(states[segment.state]);
		nulls[i] = !is_known;
		values[i++] = Int64GetDatum(Max(segment.length, segment.step));
		nulls[i] = !is_known;
		values[i++] = Int32GetDatum(segment.step);
		nulls[i] = !is_known;
		values[i++] = Int32GetDatum(segment.delta);
		nulls[i] = !is_known;
		values[i++] = Int32GetDatum(segment.remainder);
		nulls[i] = !is_known;
		values[i++] = Int64GetDatum(segment.max_value);
		nulls[i] = !is_used;
		values[i++] = Int64GetDatum(from);
		nulls[i] = !is_used;
		values[i++] = Int64GetDatum(to);
		nulls[i] = !is_used;
		values[i++] = Int64GetDatum(used);
		nulls[i] = !is_used;
		values[i++] = Int64GetDatum((int64) buffer.count - used);
		nulls[i] = !segment.has_next;
		values[i++] = Int64GetDatum(segment.from[spare]);
		nulls[i] = !segment.has_next;
		values[i++] = Int64GetDatum(segment.to[spare]);
		values[i++] = since_reset(segment_issued(&segment), segment.issued_at_reset);
		values[i++] = since_reset(segment.fetches, segment.fetches_at_reset);
		values[i++] = Int64GetDatum((int64) segment.waits);
		values[i++] = ms_datum(segment.wait_us);
		nulls[i] = segment.fetched_at == 0;
		values[i++] = TimestampTzGetDatum(segment.fetched_at);
		nulls[i] = segment.fetched_at == 0;
		values[i++] = ms_datum(segment.fetch_us);
		nulls[i] = segment.error_at == 0 || !shows_errors;
		values[i++] = CStringGetTextDatum(utf8_to_server(segment.error));
		nulls[i] = nulls[i - 1];
		values[i++] = TimestampTzGetDatum(segment.error_at);
		Assert(i == PG_STAT_SNOWFLAKE_SEGMENTS_COLS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Let all counters begin anew.  Those of IDs go on, since backends add to them
 * with no lock, and it is noted how far they were.
 */
Datum
pg_stat_snowflake_reset(PG_FUNCTION_ARGS)
{
	pg_atomic_uint64 *counter;
	uint64	   *issued;
	TimestampTz now = GetCurrentTimestamp();

	shmem_require("reset its statistics");
	issued = palloc(sizeof(uint64) * shared->nslots);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	count_issued(&shared->stats_reset.issued, issued);
	for (int i = 0; i < shared->nslots; i++)
		SLOT(i)->issued_at_reset = issued[i];
	counter = (pg_atomic_uint64 *) &shared->stats;
	for (size_t i = 0; i < STATS_COUNTERS; i++)
		pg_atomic_write_u64(&counter[i], 0);
	shared->stats_reset.at = now;
	shared->mark_writer.last_error_at = shared->services.last_error_at = 0;
	shared->mark_writer.last_error[0] = shared->services.last_error[0] = '\0';
	LWLockRelease(shared->lock);

	LWLockAcquire(shared->segments.lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->segments.used; i++)
	{
		Segment    *segment = SEGMENT(i);

		segment->issued_at_reset = segment_issued(segment);
		segment->fetches_at_reset = segment->fetches;
		segment->waits = segment->wait_us = 0;
		segment->error_at = 0;
	}
	LWLockRelease(shared->segments.lock);
	PG_RETURN_VOID();
}
