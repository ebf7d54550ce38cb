/*-------------------------------------------------------------------------
 *
 * generator.c
 *		The next ID.
 *
 * Each worker slot has one word in shared memory, time << sequence bits |
 * sequence of the last ID drawn from it.  Taking an ID is
 *
 *		word = max(word + 1, now << sequence bits)
 *
 * by compare-and-swap.  Since the word only goes up, whoever moved it from
 * one value to another is the only one ever to have the IDs in between:
 * that is all there is to uniqueness within a server, whatever the clock
 * does and however many backends share the slot.
 *
 * A backend draws, in this order,
 *
 *	1. from the shared slot, the lowest, in the time unit of the clock.  So
 *	   the IDs of all backends are in one order, and their index stays as dense
 *	   as with a sequence;
 *	2. from its own slot, for a while, when it loses many swaps to others there:
 *	   backends that do nothing but draw do not wait for each other;
 *	3. when the slot has no sequence number left, from the next higher slots in
 *	   the same time unit (it hops): one backend can use the rate of the node;
 *	4. from the next time units (it borrows), up to max_drift ahead;
 *	5. then it waits for the clock, up to max_wait; then it errors.
 *
 * A clock that was set back is the same case for all backends.  What counts is
 * the latest time unit that any of them has gone to (shared->latest_unit):
 * with that further ahead than max_drift, nobody draws, and nobody begins more
 * than max_drift below it.  It is raised before an ID is taken there, and
 * looked at after one is taken anywhere; an ID that was left behind meanwhile is
 * given up.  So no ID has a time more than max_drift below that of one that was
 * drawn before.  With the logical clock (clock.c), all backends draw in that
 * latest time unit, and the clock that 4. and 5. mean is the monotonic one.
 *
 * IDs are issued only at times that are reserved in the durable mark (mark.c).
 * That is looked at when the backend moves to a time unit: what is reserved
 * stays so.  The words begin at the floor, the mark as it was when the server
 * started, so that needs no test here.
 *
 * The IDs that one backend draws strictly increase: it goes on at its last
 * time unit or later, and within a time unit at its last slot or higher, where
 * the word is above everything drawn there before.  This needs the worker
 * field between time and sequence.  With other layouts the backend does not
 * hop, and changes slots only between time units, or never where the worker
 * field is above the time.
 *
 * Locking: none on the way to an ID.  The table of who has which slot is under
 * shared->lock, taken once at the first ID and once at exit, and by a parallel
 * worker at the first ID of a transaction; nothing that can fail is done under
 * it.  State of this backend is in "my"; nothing between taking an ID and noting
 * it there can fail or be interrupted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "compat.h"
#include "generator.h"
#include "lease.h"
#include "mark.h"
#include "open_draws.h"
#include "settings.h"
#include "waits.h"

/* A lease that ends within a shorter time unit counts to its end. */
#define LONG_UNIT_US	(100 * INT64CONST(1000))

/*
 * A backend goes to its own slot when it has lost more swaps than this in a
 * millisecond, and stays there for so long.  Backends that insert rows lose
 * fewer, and what they lose is time well spent: some 0.1 us a swap.  Those
 * that only draw lose them within microseconds.
 */
#define SWAPS_LOST		4
#define AWAY_US			(64 * INT64CONST(1000))

/* The state of a backend. */
typedef struct GeneratorState
{
	BackendEntry *entry;		/* in shared memory, NULL before the first ID */
	int			own;			/* the slot it was given */
	int			start;			/* the slot to begin a time unit with */
	int			nslots;			/* the slots it may draw from are below */
	bool		can_hop;		/* may it draw from higher slots? */
	bool		can_share;		/* and from the shared one at times? */
	uint32		swaps_lost;		/* in this time unit, which it began in the
								 * shared slot */
	uint64		away_until;		/* the time unit, until when it is not there */
	bool		looks_at_lease; /* for each ID, as a time unit may last longer
								 * than the lease */

	/*
	 * Where it draws: a slot and a time unit.  Never goes down, see above.
	 * What follows from them is kept too, to spare the way to an ID the
	 * arithmetic: a division costs as much as all the rest.
	 */
	uint64		time;
	int			slot;
	pg_atomic_uint64 *word;		/* of the slot */
	uint64		first_word;		/* the word's smallest value in the unit */
	uint64		node;			/* the number that the unit was reserved with */
	int64		first_id;		/* the smallest ID of slot and unit */
	TimestampTz unit_start;		/* when the unit begins */
	uint64		latest_unit;	/* the last one that others may be in */

	LocalTransactionId noted_lxid;	/* the transaction that is noted */
	LocalTransactionId *lxid;	/* the current one, in shared memory */

	bool		has_current;
	int64		current;		/* for snowflake_currval() */
	int64		last_alone;		/* last ID of snowflake_nextval() */
} GeneratorState;

static GeneratorState my = {
	.unit_start = PG_INT64_MAX	/* drawing nowhere yet */
};

/*
 * Slots
 *
 * A backend is given a slot when it first draws an ID and keeps it until it
 * exits; the shared slot only if there is no other.  With more backends than
 * slots, several have the same: nothing but speed depends on that.
 */

/*
 * The i-th slot to try.
 *
 * A busy backend hops into the slots above its own, so first come those with
 * the most room before the next one given out: for 31 slots the shared one,
 * 16, 8, 24, 4, ...  That is i with its bits reversed.  There are as many slots
 * as worker numbers, a power of 2, or one less; that one would be last.
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
 * Count what a backend has drawn for the slot that it was drawn from.  By the
 * backend itself, when it goes to another slot or exits.
 */
static void
count_for_slot(BackendEntry *me)
{
	uint64		drawn = pg_atomic_read_u64(&me->drawn);

	pg_atomic_fetch_add_u64(&SLOT(pg_atomic_read_u32(&me->drawn_from))->issued,
							drawn - pg_atomic_read_u64(&me->counted));
	pg_atomic_write_u64(&me->counted, drawn);
}

/* Give the slot back.  Its word stays, so the next owner starts above it. */
static void
release_slot(int code, Datum arg)
{
	BackendEntry *me = BACKEND(MyProcNumber);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (me->pid == MyProcPid)
	{
		count_for_slot(me);
		SLOT(me->slot)->nbackends--;
		me->pid = 0;
		pg_atomic_write_u32(&me->notes[NOTE_OWN].lxid, InvalidLocalTransactionId);
	}
	LWLockRelease(shared->lock);
}

/*
 * Give this backend a slot: a free one, else one with the fewest backends.
 * Returns its number, which is the worker number.
 */
static int
acquire_slot(void)
{
	BackendEntry *me = BACKEND(MyProcNumber);
	int			best;

	Assert(MyProcNumber >= 0 && MyProcNumber < shared->nbackends);

	/* Before the slot is taken, so that it cannot be left behind. */
	before_shmem_exit(release_slot, (Datum) 0);

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

void
generator_init_shmem(void)
{
	pg_atomic_init_u64(&shared->latest_unit, 0);
	for (int i = 0; i < shared->nslots; i++)
	{
		pg_atomic_init_u64(&SLOT(i)->word, 0);
		pg_atomic_init_u64(&SLOT(i)->issued, 0);
	}
	for (int i = 0; i < shared->nbackends; i++)
	{
		pg_atomic_init_u64(&BACKEND(i)->drawn, 0);
		pg_atomic_init_u64(&BACKEND(i)->counted, 0);
		pg_atomic_init_u32(&BACKEND(i)->drawn_from, 0);
	}
}

/*
 * Drawing
 */

/* With no node field there is one node number, 0, and nothing to set. */
static void
require_number(void)
{
	if (settings_need_lease() && !lease_is_used())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"snowflake.node_id\" is not set"),
				 errdetail("Without a number of its own, this server could issue the same IDs as another server."),
				 errhint("%s", settings_node_id_hint())));
}

void
generator_require(void)
{
	shmem_require("generate IDs");

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot generate snowflake IDs during recovery"),
				 errdetail("A standby would issue the same IDs as its primary."),
				 errhint("Generate IDs on the primary server. The connection option target_session_attrs=read-write finds it among several hosts.")));

	if (!IsUnderPostmaster || IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot generate snowflake IDs in this mode"),
				 errdetail("In single-user mode and in pg_upgrade there is no background worker to keep the durable mark.")));

	require_number();
}

/* First call in this backend: get a slot. */
static void
prepare(void)
{
	generator_require();

	my.can_share = layout_is_above(&snowflake_layout, FIELD_TIME, FIELD_WORKER);
	my.can_hop = my.can_share &&
		!layout_is_above(&snowflake_layout, FIELD_SEQUENCE, FIELD_WORKER);
	my.looks_at_lease = snowflake_layout.bits[FIELD_NODE] > 0 &&
		(snowflake_clock == CLOCK_MODE_LOGICAL ||
		 snowflake_layout.unit_us > LONG_UNIT_US);
	my.own = acquire_slot();
	my.start = my.slot = my.own;
	my.nslots = shared->nslots;
	my.entry = BACKEND(MyProcNumber);
	my.lxid = &PROC_LXID(MyProc);
}

/* The layout has no later time: never wrap around, never go negative. */
static void
report_end(TimestampTz now)
{
	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 errmsg("the lifetime of the snowflake layout has ended"),
			 errdetail("%s The %s shows %s.",
					   lifetime_detail(),
					   clock_name(),
					   clock_show(now)),
			 errhint("%s", lifetime_hint())));
}

/* The time unit of the clock. */
static uint64
unit_of(TimestampTz now)
{
	int64		unit = layout_unit_floor(&snowflake_layout, now - snowflake_epoch);

	if (unit < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot generate snowflake IDs before their epoch"),
				 errdetail("The %s shows %s, \"snowflake.epoch\" is %s.",
						   clock_name(),
						   clock_show(now),
						   clock_show(snowflake_epoch)),
				 errhint("Set the server's clock%s. If it is right, set \"snowflake.epoch\" to an instant that is past, and restart the server.",
						 clock_can_step() ? "" : " and restart the server")));
	if ((uint64) unit > MAX_TIME)
		report_end(now);

	return (uint64) unit;
}

/* The last time unit in which an ID may be drawn now, max_drift ahead. */
static uint64
latest_unit(TimestampTz now)
{
	int64		unit = layout_unit_floor(&snowflake_layout,
										 now - snowflake_epoch + MAX_DRIFT_US);

	return Min((uint64) unit, MAX_TIME);
}

/*
 * The sequence number that a slot begins a new time unit with.
 *
 * "random" spreads what is drawn in transactions of the same count, too, which
 * "continue" would put on the same few shards.  Its range leaves the unit most
 * of its numbers, and where the unit before was used up none is skipped: so
 * both never cost a busy session anything.
 */
static uint64
first_sequence(uint64 word, uint64 first_word)
{
	uint64		max = Max(SEQUENCE_MASK / 4, Min(SEQUENCE_MASK, 63));

	switch ((SequenceStart) snowflake_sequence_start)
	{
		case SEQUENCE_START_ZERO:
			return 0;
		case SEQUENCE_START_CONTINUE:
			if (word >> SEQUENCE_BITS >= pg_atomic_read_u64(&shared->mark.floor_unit))
				return (word + 1) & SEQUENCE_MASK;
			break;				/* a new slot has no last one */
		case SEQUENCE_START_RANDOM:
			if (word + 1 == first_word)
				return 0;
			if (snowflake_sequence_start_max != SEQUENCE_START_MAX_AUTO)
				max = (uint64) snowflake_sequence_start_max;
			break;
	}
	return pg_prng_uint64_range(&pg_global_prng_state, 0, max);
}

/*
 * Count what was drawn.  Only when the slot changes does this touch anything
 * that other backends write.
 */
static inline void
count_drawn(uint64 count)
{
	BackendEntry *entry = my.entry;

	if (pg_atomic_read_u32(&entry->drawn_from) != (uint32) my.slot)
	{
		count_for_slot(entry);
		pg_atomic_write_u32(&entry->drawn_from, my.slot);
	}
	pg_atomic_write_u64(&entry->drawn, pg_atomic_read_u64(&entry->drawn) + count);
}

/* Draw from this slot from now on, in the same time unit. */
static void
move_to_slot(int slot)
{
	my.slot = slot;
	my.word = &SLOT(slot)->word;
	my.first_id = layout_pack(&snowflake_layout, my.time, my.node, slot, 0);
}

/* Draw from this slot and time unit from now on. */
static void
move_to(int slot, uint64 time)
{
	my.time = time;
	my.node = (uint64) lease_node();
	move_to_slot(slot);
	my.first_word = time << SEQUENCE_BITS;
	my.unit_start = snowflake_epoch + (int64) time * snowflake_layout.unit_us;
	my.latest_unit = time + MAX_DRIFT_US / snowflake_layout.unit_us;
}

/* The slot to begin a time unit with. */
static int
first_slot(uint64 time)
{
	my.swaps_lost = 0;
	if (my.can_share && time >= my.away_until)
		my.start = SHARED_SLOT;

	/* next_to_try() may have begun lower: back up once that is enough */
	else if (my.slot == my.start ||
			 my.slot - my.start < my.nslots - 1 - my.own)
		my.start = my.own;
	return my.start;
}

/* Be in the own slot for a while. */
static void
leave_shared_slot(void)
{
	my.away_until = my.time + Max(AWAY_US / snowflake_layout.unit_us, 1);
	my.start = my.own;
}

/* This backend has lost so many compare-and-swaps to others. */
static pg_noinline void
note_swaps_lost(uint32 count)
{
	if (my.start != SHARED_SLOT || my.own == SHARED_SLOT)
		return;
	my.swaps_lost += count;
	if (my.swaps_lost <= SWAPS_LOST * Max(snowflake_layout.unit_us / 1000, 1))
		return;
	leave_shared_slot();

	/*
	 * If another number was leased meanwhile, take() finds nothing left in
	 * this unit.  If the registry is not set any more, there is no number.
	 */
	if (my.can_hop && my.slot < my.own)
		move_to_slot(my.own);
}

/*
 * Has anybody gone so far ahead that an ID taken here is too far below?  Looked
 * at after it is taken, as this backend may have been stopped at any time before.
 */
static inline bool
is_left_behind(void)
{
	return unlikely(pg_atomic_read_u64(&shared->latest_unit) > my.latest_unit);
}

/* Before the first ID of a transaction, for snowflake_horizon(). */
static pg_noinline void
note_draw(void)
{
	open_draws_note(my.time);
	my.noted_lxid = *my.lxid;
}

/*
 * Take up to want IDs from where the backend draws.  Returns how many, 0 when
 * that slot has nothing left in that time unit, or this backend was left behind.
 *
 * That my.time is reserved was seen before it moved there.  It still is when
 * the compare-and-swap succeeds, as a shutdown closes the words first.
 */
static inline uint64
take(uint64 want, int64 *first)
{
	uint64		word;
	uint64		sequence;
	uint64		count;
	uint32		swaps_lost = 0;

	if (unlikely(my.noted_lxid != *my.lxid))
		note_draw();

	word = pg_atomic_read_u64(my.word);
	for (;;)
	{
		if (word < my.first_word)
			sequence = first_sequence(word, my.first_word); /* its first here */
		else if (word - my.first_word < SEQUENCE_MASK)
			sequence = word - my.first_word + 1;
		else
			return 0;			/* all gone, or the word is ahead */
		count = Min(want, SEQUENCE_MASK - sequence + 1);
		if (likely(pg_atomic_compare_exchange_u64(my.word, &word,
												  my.first_word + sequence + count - 1)))
			break;
		swaps_lost++;
	}

	if (is_left_behind())
		return 0;

	*first = my.first_id +
		(int64) (sequence << snowflake_layout.shift[FIELD_SEQUENCE]);
	count_drawn(count);
	if (unlikely(swaps_lost > 0))
		note_swaps_lost(swaps_lost);
	return count;
}

/*
 * The earliest time unit, not before the given one, in which a slot has a
 * sequence number left.
 */
static uint64
earliest_unit(int slot, uint64 time)
{
	uint64		word = pg_atomic_read_u64(&SLOT(slot)->word);
	uint64		last = word >> SEQUENCE_BITS;

	if (last < time)
		return time;
	return (word & SEQUENCE_MASK) != SEQUENCE_MASK ? last : last + 1;
}

/*
 * A slot had nothing left in a time unit: where to try next?  That is the
 * first of the higher slots that has, else the earliest later unit.
 */
static void
next_to_try(uint64 *time, int *slot)
{
	uint64		earliest = PG_UINT64_MAX;

	if (!my.can_hop)
	{
		if (my.can_share && *slot != my.own)
			leave_shared_slot();
		*slot = my.own;
		*time = earliest_unit(my.own, *time + 1);
		return;
	}

	for (int i = *slot + 1; i < my.nslots; i++)
	{
		uint64		unit = earliest_unit(i, *time);

		if (unit == *time)
		{
			*slot = i;
			pg_atomic_fetch_add_u64(&shared->stats.hops, 1);
			return;
		}
		earliest = Min(earliest, unit);
	}

	/*
	 * Out of slots.  To have enough in the next units, begin them lower, as
	 * far as nobody else has drawn there of late.
	 */
	while (my.start > 0 &&
		   (pg_atomic_read_u64(&SLOT(my.start - 1)->word) >> SEQUENCE_BITS) + 1 < *time)
		my.start--;

	for (int i = my.start; i <= *slot; i++)
		earliest = Min(earliest, earliest_unit(i, *time + 1));
	*time = earliest;
	*slot = my.start;
}

/*
 * Is this unit the floor?  Those below were given up when the server was
 * started, or by snowflake_advance().
 */
static bool
is_floor(uint64 time)
{
	return time == pg_atomic_read_u64(&shared->mark.floor_unit);
}

/*
 * Why is there no ID at a time yet?  Either IDs were drawn faster than the
 * layout allows, and then the next free unit is just past max_drift; or the
 * clock was set back, and then it is further ahead.
 */
static WaitKind
why_wait_for(uint64 time, TimestampTz now)
{
	return is_floor(time) || time > latest_unit(now) + 1 ? WAIT_CLOCK : WAIT_UNIT;
}

/* Why the backend waits, for a DETAIL. */
static char *
wait_detail(uint64 time, TimestampTz now)
{
	TimestampTz ts = clock_unit_or_end(time);

	return psprintf("The %s shows %s. %s %s, which is " INT64_FORMAT " ms ahead; \"snowflake.max_drift\" allows %d ms.",
					clock_name(),
					clock_show(now),
					time <= pg_atomic_read_u64(&shared->latest_unit) ?
					"The latest ID is of" : "The next unused time unit begins at",
					clock_show(ts),
					(ts - now + 999) / 1000,
					snowflake_max_drift);
}

/* What to do about it, for a HINT. */
static const char *
wait_hint(WaitKind why)
{
	return why == WAIT_CLOCK ? mark_behind_hint() :
		"Draw fewer IDs at a time. A new server can have a layout with more sequence or worker bits.";
}

/* No ID came in max_wait. */
static void
report_timeout(uint64 time, TimestampTz now)
{
	WaitKind	why = why_wait_for(time, now);

	pg_atomic_fetch_add_u64(&shared->stats.timeouts, 1);
	ereport(ERROR,
			(errcode(wait_sqlstate(true)),
			 why == WAIT_CLOCK ?
			 errmsg("cannot generate a snowflake ID: the clock is behind the last ID") :
			 errmsg("cannot generate a snowflake ID: all sequence numbers are in use"),
			 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.%s",
					   wait_detail(time, now),
					   snowflake_max_wait,
					   is_floor(time) ? " Earlier times may have been used before the server was started, or snowflake_advance() has skipped them." : ""),
			 errhint("%s", wait_hint(why))));
}

/*
 * Sleep until the clock may have come close enough to a time unit, or for a
 * while.
 */
static void
wait_for_unit(uint64 time, TimestampTz now, Wait *wait)
{
	WaitKind	why = why_wait_for(time, now);
	int64		left_us = wait_left_us(wait);
	int64		need_us;

	CHECK_FOR_INTERRUPTS();

	if (left_us <= 0)
		report_timeout(time, now);

	if (wait_is_long(wait, why))
		wait_log(wait, why == WAIT_CLOCK ? "the clock, to draw a snowflake ID," :
				 "a free time unit, to draw a snowflake ID,",
				 wait_detail(time, now), wait_hint(why));

	/* in small units MAX_TIME may be past what int64 us can say */
	if (time > (uint64) (PG_INT64_MAX / snowflake_layout.unit_us))
		need_us = left_us;
	else
		need_us = (int64) time * snowflake_layout.unit_us -
			MAX_DRIFT_US - (now - snowflake_epoch);
	need_us = Min(Max(need_us, 1), left_us);

	/*
	 * The latch counts whole milliseconds, which would lose much of each time
	 * unit to oversleeping; a sleep shorter than that need not react to it.
	 */
	wait_begin(wait, why);
	if (need_us < 1000)
	{
		pgstat_report_wait_start(wait_event(why));
		pg_usleep(need_us);
		pgstat_report_wait_end();
	}
	else
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(need_us / 1000, WAIT_SLICE_MS),
						 wait_event(why));
		ResetLatch(MyLatch);
	}
	wait_end(wait, why);
	CHECK_FOR_INTERRUPTS();
}

/* How far IDs are ahead of the server's clock. */
static void
note_drift(TimestampTz now)
{
	TimestampTz wall = clock_can_step() ? now : GetCurrentTimestamp();
	int64		drift_us = my.unit_start - wall;

	if (drift_us > 0)
		shmem_raise(&shared->stats.drift_max_us, (uint64) drift_us);
}

/* The whole order: shared slot, own slot, hop, borrow, wait, error. */
static pg_noinline uint64
take_anywhere(uint64 want, int64 *first)
{
	Wait		wait = {0};

	if (my.entry == NULL)
		prepare();
	require_number();			/* the registry may not be set any more */

	clock_watch_steps();
	for (;;)
	{
		TimestampTz now;
		uint64		time;
		uint64		latest;
		uint64		last;
		int			slot;
		bool		left_behind = false;

		/* before the limit is looked at */
		if (unlikely(!lease_is_valid()))
		{
			lease_wait(0, &wait);
			continue;
		}
		pg_read_barrier();

		now = clock_read();
		time = unit_of(now);
		latest = latest_unit(now);
		if (snowflake_clock == CLOCK_MODE_LOGICAL)
			time = unit_of(clock_read_to_draw());
		last = pg_atomic_read_u64(&shared->latest_unit);

		/*
		 * Begin the clock's time unit, or go on where we are.  Nobody draws
		 * while the clock is too far behind the latest ID.  A clock may be
		 * near enough where the beginning of its unit, the time in an ID, is
		 * not: then begin a later one.
		 */
		time = Max(Max(time, my.time), last > latest ? last :
				   last - Min(last, MAX_DRIFT_US / snowflake_layout.unit_us));
		slot = time > my.time ? first_slot(time) : my.slot;

		while (time <= latest && mark_covers(time))
		{
			uint64		count;

			move_to(slot, time);
			shmem_raise(&shared->latest_unit, time);
			count = take(want, first);
			if (count > 0)
			{
				if (unlikely(mark_runs_out(time)))
					mark_ask(time);
				note_drift(now);
				if (my.looks_at_lease)
					my.unit_start = PG_INT64_MAX;
				return count;
			}
			left_behind = is_left_behind();
			if (left_behind)
				break;
			next_to_try(&time, &slot);
		}

		if (left_behind)
			CHECK_FOR_INTERRUPTS();
		else if (time <= latest || !mark_is_open())
		{
			if (lease_covers(Min(time, latest)))
				mark_wait(Min(time, latest), &wait);
			else
				lease_wait(Min(time, latest), &wait);
		}
		else if (time > MAX_TIME)
			report_end(now);
		else
			wait_for_unit(time, now, &wait);
	}
}

uint64
generator_take(uint64 want, int64 *first)
{
	TimestampTz now = clock_read_to_draw();

	/* Unsigned, so that a clock behind the time unit is "no" too. */
	if (likely((uint64) now - (uint64) my.unit_start < (uint64) snowflake_layout.unit_us))
	{
		uint64		count = take(want, first);

		if (likely(count > 0))
			return count;
	}
	return take_anywhere(want, first);
}

/*
 * The words go to where the first ID of the time unit is the next one, whether
 * it is drawn there or later: so sequences begin, or go on, as without this.
 */
uint64
generator_horizon(void)
{
	TimestampTz now = clock_read();
	uint64		limit = pg_atomic_read_u64(&shared->mark.limit_unit);
	uint64		last = pg_atomic_read_u64(&shared->latest_unit);
	uint64		time;
	uint64		first_word;

	if (snowflake_clock == CLOCK_MODE_LOGICAL)
		time = last + 1;
	else
		time = (uint64) Max(layout_unit_floor(&snowflake_layout, now - snowflake_epoch), 0);

	/* where the clock is so far back that nobody draws: all that was drawn */
	time = Max(time, pg_atomic_read_u64(&shared->mark.floor_unit));
	if (last > latest_unit(now))
		time = Max(time, last + 1);
	time = Min(Min(time, limit), MAX_TIME);
	if (time == 0)
		return 0;

	first_word = time << SEQUENCE_BITS;
	for (int i = 0; i < shared->nslots; i++)
	{
		uint64		word = pg_atomic_read_u64(&SLOT(i)->word);

		while (word < first_word - 1 &&
			   !pg_atomic_compare_exchange_u64(&SLOT(i)->word, &word,
											   first_word + first_sequence(word, first_word) - 1))
			;
		if (word == SLOT_CLOSED)
			return 0;			/* the mark may be lowered below that time */
	}
	return time;
}

void
generator_stay_below(int nslots)
{
	Assert(nslots > 0);
	if (my.entry == NULL)
		prepare();
	if (nslots >= my.nslots)
		return;

	/* several backends may get the same own slot, as with many backends */
	my.nslots = nslots;
	if (my.own >= nslots)
		my.own = nslots == 1 ? 0 : 1 + my.own % (nslots - 1);
	my.start = my.own;
	if (my.slot >= nslots)
	{
		/* only a new time unit allows a lower slot, even one ahead of the clock */
		my.time++;
		my.slot = first_slot(my.time);
		my.unit_start = PG_INT64_MAX;
	}
}

int64
generator_step(void)
{
	return INT64CONST(1) << snowflake_layout.shift[FIELD_SEQUENCE];
}

void
generator_set_current(int64 id, bool alone)
{
	my.current = id;
	if (alone)
		my.last_alone = id;
	my.has_current = true;
}

bool
generator_get_current(int64 *id)
{
	*id = my.current;
	return my.has_current;
}

bool
generator_has_passed(int64 id)
{
	return my.last_alone > id;
}

void
generator_forget_current(void)
{
	my.has_current = false;
}
