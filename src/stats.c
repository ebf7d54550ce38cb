/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What people see of the generator: the functions under the views.
 *
 * They only read shared memory, except for the reset.  The sum of all IDs
 * drawn is exact at any time.  The counts of slots may miss IDs that a backend
 * is moving from its own count to the slot's at this moment; at rest they are
 * exact.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "lease.h"
#include "mark.h"
#include "open_draws.h"
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
	Datum	   *pids;			/* in one array of all slots */
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
	Datum	   *pids = palloc(sizeof(Datum) * shared->nbackends);
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

	for (int i = 0; i < result->nbackends; i++)
		result->slots[slot[i]].npids++;
	for (int i = 0; i < shared->nslots; i++)
	{
		SlotStats  *of = &result->slots[i];

		of->issued = issued[i];
		of->pids = pids;
		pids += of->npids;
		of->npids = 0;
	}
	for (int i = 0; i < result->nbackends; i++)
	{
		SlotStats  *of = &result->slots[slot[i]];

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
 * The last ID drawn from a slot, or given up for a horizon since: its time and
 * sequence.  False when none was drawn since server start.
 */
static bool
read_last(int slot, uint64 issued, uint64 floor_unit, uint64 *unit, uint64 *sequence)
{
	uint64		word = pg_atomic_read_u64(&SLOT(slot)->word);

	*unit = word >> SEQUENCE_BITS;
	*sequence = word & SEQUENCE_MASK;
	return issued > 0 && *unit >= floor_unit && word != 0 && word != SLOT_CLOSED;
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
 * A row whose columns are set by name: the order is the script's.  What is not
 * set is null.
 */
typedef struct Row
{
	TupleDesc	tupdesc;
	Datum	   *values;
	bool	   *nulls;
} Row;

static Row
begin_row(TupleDesc tupdesc)
{
	Row			row = {tupdesc};

	row.values = palloc0(sizeof(Datum) * tupdesc->natts);
	row.nulls = palloc(sizeof(bool) * tupdesc->natts);
	memset(row.nulls, true, sizeof(bool) * tupdesc->natts);
	return row;
}

static void
set(Row *row, const char *column, Datum value)
{
	for (int i = 0; i < row->tupdesc->natts; i++)
	{
		if (strcmp(NameStr(TupleDescAttr(row->tupdesc, i)->attname), column) != 0)
			continue;
		row->values[i] = value;
		row->nulls[i] = false;
		return;
	}
	elog(ERROR, "there is no column \"%s\"", column);
}

/* The columns of pg_stat_snowflake that are counters of Stats. */
static const struct
{
	const char *column;
	enum
	{
		COUNT, DURATION, INTERVAL
	}			kind;
	size_t		offset;
}			counters[] =

{
	{"drift_max", INTERVAL, offsetof(Stats, drift_max_us)},
	{"backfilled", COUNT, offsetof(Stats, backfilled)},
	{"hops", COUNT, offsetof(Stats, hops)},
	{"mark_waits", COUNT, offsetof(Stats, waits[WAIT_MARK])},
	{"mark_wait_time", DURATION, offsetof(Stats, wait_us[WAIT_MARK])},
	{"clock_waits", COUNT, offsetof(Stats, waits[WAIT_CLOCK])},
	{"clock_wait_time", DURATION, offsetof(Stats, wait_us[WAIT_CLOCK])},
	{"unit_waits", COUNT, offsetof(Stats, waits[WAIT_UNIT])},
	{"unit_wait_time", DURATION, offsetof(Stats, wait_us[WAIT_UNIT])},
	{"node_waits", COUNT, offsetof(Stats, waits[WAIT_NODE])},
	{"node_wait_time", DURATION, offsetof(Stats, wait_us[WAIT_NODE])},
	{"timeouts", COUNT, offsetof(Stats, timeouts)},
	{"clock_regressions", COUNT, offsetof(Stats, regressions)},
	{"clock_regression_max", INTERVAL, offsetof(Stats, regression_max_us)},
	{"clock_jumps", COUNT, offsetof(Stats, jumps)},
	{"clock_jump_max", INTERVAL, offsetof(Stats, jump_max_us)}
};

static void
set_counters(Row *row)
{
	for (int i = 0; i < (int) lengthof(counters); i++)
	{
		uint64		n = pg_atomic_read_u64((pg_atomic_uint64 *)
										   ((char *) &shared->stats + counters[i].offset));

		set(row, counters[i].column,
			counters[i].kind == COUNT ? Int64GetDatum((int64) n) :
			counters[i].kind == DURATION ? ms_datum(n) : interval_datum((int64) n));
	}
}

/*
 * pg_stat_snowflake: one row.
 */
Datum
pg_stat_get_snowflake(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Row			row;
	uint64		floor_unit;
	uint64		limit_unit;
	uint64		last_unit;
	uint64		waits = 0;
	uint64		wait_us = 0;
	int			slots_used = 0;
	uint32		writer;
	int			node = lease_node();
	TimestampTz lease_ends;
	StatsSnapshot *snapshot;
	OpenDraw	oldest;
	TimestampTz clock_ts;
	TimestampTz wall;

	shmem_require("read its statistics");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	row = begin_row(BlessTupleDesc(tupdesc));

	floor_unit = pg_atomic_read_u64(&shared->mark.floor_unit);
	limit_unit = pg_atomic_read_u64(&shared->mark.limit_unit);
	last_unit = pg_atomic_read_u64(&shared->latest_unit);
	lease_ends = lease_ends_at();
	snapshot = take_snapshot();
	for (int slot = 0; slot < shared->nslots; slot++)
		slots_used += snapshot->slots[slot].npids > 0;
	for (int kind = 0; kind < ID_WAIT_KINDS; kind++)
	{
		waits += pg_atomic_read_u64(&shared->stats.waits[kind]);
		wait_us += pg_atomic_read_u64(&shared->stats.wait_us[kind]);
	}
	wall = GetCurrentTimestamp();
	clock_ts = clock_can_step() ? wall : clock_read_to_draw();

	if (node >= 0)
		set(&row, "node", Int32GetDatum(node));
	if (!TIMESTAMP_IS_NOBEGIN(lease_ends))
		set(&row, "lease_end", TimestampTzGetDatum(lease_ends));
	if (lease_is_used() && shared->lease.has_clock_offset)
		set(&row, "registry_offset",
			interval_datum((int64) pg_atomic_read_u64(&shared->lease.clock_offset_us)));
	set(&row, "layout", CStringGetTextDatum(snowflake_layout_text));
	set(&row, "epoch", TimestampTzGetDatum(snowflake_epoch));
	set(&row, "clock", CStringGetTextDatum(GetConfigOption("snowflake.clock", false, false)));
	set(&row, "clock_ts", TimestampTzGetDatum(clock_ts));
	set(&row, "wall_ts", TimestampTzGetDatum(wall));
	set(&row, "drift", interval_datum(drift_us(clock_ts, wall)));
	if (snapshot->issued > 0 && last_unit >= floor_unit)
		set(&row, "last_ts", TimestampTzGetDatum(clock_unit_or_end(last_unit)));
	if (open_draws_oldest(InvalidOid, MAX_TIME + 1, &oldest))
		set(&row, "oldest_open_ts", TimestampTzGetDatum(clock_unit_or_end(oldest.unit)));
	set(&row, "issued", since_reset(snapshot->issued, snapshot->reset.issued));
	set(&row, "waits", Int64GetDatum((int64) waits));
	set(&row, "wait_time", ms_datum(wait_us));
	set_counters(&row);
	if (limit_unit != 0)
		set(&row, "reserved_until", TimestampTzGetDatum(clock_unit_or_end(limit_unit)));
	set(&row, "backends", Int32GetDatum(snapshot->nbackends));
	set(&row, "slots_used", Int32GetDatum(slots_used));
	writer = pg_atomic_read_u32(&shared->mark_writer.proc);
	if (may_read_all_stats() && writer != (uint32) -1)
		set(&row, "mark_writer_pid", Int32GetDatum(ProcGlobal->allProcs[writer].pid));
	if (may_read_all_stats() && snapshot->last_error_at != 0)
	{
		set(&row, "last_error", CStringGetTextDatum(utf8_any_to_server(snapshot->last_error,
																	   snapshot->last_error_encoding)));
		set(&row, "last_error_ts", TimestampTzGetDatum(snapshot->last_error_at));
	}
	set(&row, "lifetime_end", TimestampTzGetDatum(clock_unit_or_end(MAX_TIME + 1)));
	set(&row, "stats_reset", TimestampTzGetDatum(snapshot->reset.at));

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row.tupdesc, row.values, row.nulls)));
}

/*
 * pg_stat_snowflake_slots: one row a slot.
 */
Datum
pg_stat_get_snowflake_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StatsSnapshot *snapshot;
	uint64		floor_unit;
	int			node = lease_node();

	shmem_require("read its statistics");
	InitMaterializedSRF(fcinfo, 0);

	floor_unit = pg_atomic_read_u64(&shared->mark.floor_unit);
	snapshot = take_snapshot();
	for (int i = 0; i < shared->nslots; i++)
	{
		SlotStats  *slot = &snapshot->slots[i];
		Row			row = begin_row(rsinfo->setDesc);
		uint64		unit;
		uint64		sequence;
		bool		drawn = read_last(i, slot->issued, floor_unit, &unit, &sequence);

		set(&row, "worker", Int32GetDatum(i));
		set(&row, "backends", Int32GetDatum(slot->npids));
		if (may_read_all_stats())
			set(&row, "pids", PointerGetDatum(slot->npids == 0 ? construct_empty_array(INT4OID) :
											  construct_array(slot->pids, slot->npids, INT4OID,
															  sizeof(int32), true, TYPALIGN_INT)));
		if (drawn)
			set(&row, "last_ts", TimestampTzGetDatum(clock_unit_or_end(unit)));
		if (drawn && node >= 0)
			set(&row, "last_id", Int64GetDatum(layout_pack(&snowflake_layout, unit, (uint64) node,
														   i, sequence)));
		set(&row, "issued", since_reset(slot->issued, slot->issued_at_reset));
		tuplestore_putvalues(rsinfo->setResult, row.tupdesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

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

	shmem_require("read its statistics");
	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < shared->nsegments; i++)
	{
		Row			row;
		Segment		segment;
		int			spare;
		uint32		used;

		segment_copy(i, &segment);
		if (segment.state == SEGMENT_FREE || segment.state == SEGMENT_MISSING)
			continue;

		spare = segment_spare(&segment);
		row = begin_row(rsinfo->setDesc);
		set(&row, "tag", CStringGetTextDatum(utf8_to_server(segment.tag)));
		set(&row, "state", CStringGetTextDatum(states[segment.state]));
		if (segment.incarnation[0] != '\0')
		{
			set(&row, "step", Int64GetDatum(Max(segment.length, segment.step)));
			set(&row, "min_step", Int32GetDatum(segment.step));
			set(&row, "delta", Int32GetDatum(segment.delta));
			set(&row, "remainder", Int32GetDatum(segment.remainder));
			set(&row, "max_value", Int64GetDatum(segment.max_value));
		}
		if (segment_used(&segment, &used))
		{
			set(&row, "first", Int64GetDatum(segment.from[!spare]));
			set(&row, "last", Int64GetDatum(segment.to[!spare]));
			set(&row, "used", Int64GetDatum(used));
			set(&row, "unused", Int64GetDatum((int64) segment.buffers[!spare].count - used));
		}
		if (segment.has_next)
		{
			set(&row, "next_first", Int64GetDatum(segment.from[spare]));
			set(&row, "next_last", Int64GetDatum(segment.to[spare]));
		}
		set(&row, "issued", since_reset(segment_issued(&segment), segment.issued_at_reset));
		set(&row, "fetches", since_reset(segment.fetches, segment.fetches_at_reset));
		set(&row, "waits", Int64GetDatum((int64) segment.waits));
		set(&row, "wait_time", ms_datum(segment.wait_us));
		if (segment.fetched_at != 0)
		{
			set(&row, "last_fetch_ts", TimestampTzGetDatum(segment.fetched_at));
			set(&row, "last_fetch_time", ms_datum(segment.fetch_us));
		}
		if (segment.error_at != 0 && may_read_all_stats())
		{
			set(&row, "last_error", CStringGetTextDatum(utf8_to_server(segment.error)));
			set(&row, "last_error_ts", TimestampTzGetDatum(segment.error_at));
		}
		tuplestore_putvalues(rsinfo->setResult, row.tupdesc, row.values, row.nulls);
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
