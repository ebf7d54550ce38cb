/*-------------------------------------------------------------------------
 *
 * mark_writer.c
 *		The background worker that alone writes the durable mark.
 *
 * See mark.c for what the mark is.  This process does nothing else, but that it
 * takes over the lease that the services offer in shared memory.  They
 * (services.c) keep all other durable state, and may fail, wait or hang without
 * harm to this process.
 *
 * It reads the mark at its start.  Where it could not connect, it tries again
 * when something is asked for, so that a home database that cannot be reached
 * does not fill the log of an idle server.
 *
 * Locking: see shmem.h.  No lock of ours is held while anything is read,
 * written or committed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "clock.h"
#include "home.h"
#include "mark.h"
#include "record.h"
#include "settings.h"
#include "waits.h"
#include "worker.h"

#define MARK		HOME_EXTENSION ".mark"
#define RETRY_S		1

PGDLLEXPORT void snowflake_mark_writer_main(Datum arg);

/*
 * The mark that has all times below the given one below it.  Past what a mark
 * can hold there are no more times, as the clock cannot show them.
 */
static int64
mark_of_unit(uint64 unit)
{
	int64		mark_us;

	if (pg_add_s64_overflow(clock_unit_or_end(unit), UNIX_EPOCH_US, &mark_us))
		return PG_INT64_MAX;
	return mark_us;
}

static uint64
window_units(void)
{
	return (uint64) layout_unit_ceil(&snowflake_layout,
									 snowflake_reserve_window * INT64CONST(1000));
}

/* An unlogged sequence is set back by a crash, and not replicated. */
#define IS_DURABLE	" WHERE (SELECT relpersistence FROM pg_class WHERE oid = '" MARK "'::regclass) = 'p'"

static void
require_durable(uint64 rows)
{
	if (rows != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the sequence " MARK " is not durable"),
				 errhint("Run ALTER SEQUENCE " MARK " SET LOGGED.")));
}

/* Raise the mark, unless it is higher already.  Returns what it is. */
static int64
write_mark(int64 mark_us)
{
	require_durable(home_run("SELECT setval('" MARK "', GREATEST(last_value, " INT64_FORMAT ")) FROM " MARK IS_DURABLE,
							 mark_us));
	return DatumGetInt64(home_result(1));
}

/* Sets whether it was ever written: at first use, if not since. */
static int64
read_mark(bool *written)
{
	require_durable(home_run("SELECT last_value, is_called FROM " MARK IS_DURABLE));
	*written = DatumGetBool(home_result(2));
	return DatumGetInt64(home_result(1));
}

/* Make this the home database. */
static void
set_up_home(void)
{
	home_create();
	record_write();
	record_point();
	ereport(LOG,
			(errmsg("snowflake keeps its durable mark in database \"%s\" from now on",
					snowflake_database),
			 errdetail("It is a sequence of the extension \"" HOME_EXTENSION "\" there.")));
}

/*
 * Let nothing be issued below a time: put every word to the last ID before
 * it.  There is no time before 0, so time 0 is not used.
 */
static void
raise_words(uint64 floor_unit)
{
	for (int i = 0; i < shared->nslots; i++)
		shmem_raise(&SLOT(i)->word, (floor_unit << SEQUENCE_BITS) - 1);
	shmem_raise(&shared->mark.floor_unit, floor_unit);
}

/*
 * The limit that a mark allows, which must be durable.  Where the node number
 * is leased, the mark of the lease bounds it, too.
 */
static uint64
limit_of(int64 mark_us)
{
	uint64		limit = mark_to_unit(mark_us, false);

	if (settings_need_lease())
		limit = Min(limit,
					mark_to_unit((int64) pg_atomic_read_u64(&shared->lease.mark_us),
								 false));
	return Max(Max(limit, pg_atomic_read_u64(&shared->mark.limit_unit)), 1);
}

static void
publish(int64 mark_us)
{
	Mark	   *state = &shared->mark;
	uint64		limit = limit_of(mark_us);
	uint64		unit = mark_to_unit(mark_us, false);

	pg_atomic_write_u64(&state->mark_us, (uint64) mark_us);

	/* where the lease is the limit, a higher mark would be of no use */
	pg_atomic_write_u64(&state->renew_unit,
						unit > MAX_TIME ? PG_UINT64_MAX :
						unit - Min(unit, window_units() / 2));
	pg_write_barrier();
	pg_atomic_write_u64(&state->limit_unit, limit);
	ConditionVariableBroadcast(&shared->mark_writer.changed);
}

/*
 * Take what lease.c offers: a higher mark for the same number; or another
 * number.  Then the words are raised above all that could be issued with the
 * old number, and above all that other servers may have issued with the new
 * one.  Nothing here can fail or wait.
 */
static void
take_lease(void)
{
	Mark	   *state = &shared->mark;
	Lease	   *lease = &shared->lease;
	int64		mark_us = (int64) pg_atomic_read_u64(&state->mark_us);
	uint32		offered = pg_atomic_read_u32(&lease->offered);

	if (offered != pg_atomic_read_u32(&lease->taken))
	{
		pg_read_barrier();
		raise_words(Max(Max(pg_atomic_read_u64(&state->limit_unit),
							mark_to_unit(lease->offer.floor_us, true)), 1));
		pg_memory_barrier();
		lease->floor_us = lease->offer.floor_us;
		pg_atomic_write_u64(&lease->mark_us, (uint64) lease->offer.mark_us);
		pg_atomic_write_u32(&lease->node, (uint32) lease->offer.node);
		pg_memory_barrier();
		if (mark_is_open())
			publish(mark_us);
		pg_memory_barrier();
		pg_atomic_write_u32(&lease->taken, offered);
		worker_wake(&shared->services);
	}
	else if (mark_is_open() && limit_of(mark_us) > pg_atomic_read_u64(&state->limit_unit))
		publish(mark_us);
}

/*
 * The layout's time is near its end: say so in the log once a day, by the time
 * at which a session draws, for which the mark is raised.
 */
static void
warn_of_end(uint64 unit)
{
	Mark	   *state = &shared->mark;
	int64		left = lifetime_left(unit);
	uint64		day = (uint64) layout_unit_ceil(&snowflake_layout, USECS_PER_DAY);

	if (left >= LIFETIME_WARNING_US ||
		(state->warned_unit != 0 && unit < state->warned_unit + day))
		return;

	state->warned_unit = unit;
	ereport(WARNING,
			(errmsg("the lifetime of the snowflake layout ends in less than a year"),
			 errdetail("%s Days left: %d. After that no ID can be drawn.",
					   lifetime_detail(), (int) (left / USECS_PER_DAY)),
			 errhint("%s", lifetime_hint())));
}

/*
 * Read the mark: the floor.  Returns false when there is none, and none is
 * asked for.  dump_unit and server_unit are floors, 0 for none, see MarkFloor.
 */
static bool
recover(bool asked, bool accept, uint64 dump_unit, uint64 server_unit)
{
	bool		found;
	bool		written = false;
	bool		recorded;
	int64		mark_us = 0;
	int64		floor_us;
	uint64		floor_unit = Max(dump_unit, server_unit);

	home_begin("reading the durable mark");
	found = home_exists();
	if (found)
	{
		mark_us = read_mark(&written);
		pg_atomic_write_u64(&shared->mark.mark_us, (uint64) mark_us);
	}
	floor_us = record_restored();
	if (floor_unit > 0)
		floor_us = Max(floor_us, mark_of_unit(floor_unit));
	recorded = record_check(found, mark_us, accept,
							server_unit > 0 ? FLOOR_OF_SERVER :
							floor_us > 0 ? FLOOR_OF_DUMP : FLOOR_ANYONES);
	if (recorded && !written && !accept && server_unit == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the durable mark is lost: the sequence \"" MARK "\" in database \"%s\" is another one",
						snowflake_database),
				 errhint(RECORD_LOST_HINT)));
	if (!recorded)
	{
		if (!asked && floor_us == 0)
		{
			home_commit();
			shared->mark.is_read = true;
			return false;
		}
		set_up_home();
	}
	if (!written || floor_us > mark_us)
		mark_us = write_mark(Max(mark_us, floor_us));
	home_guard_sequence(MARK);
	home_commit();
	shared->mark.home = MyDatabaseId;

	/* only now, as before the commit the services would have found nothing */
	pg_atomic_fetch_or_u32(&shared->mark.to_record, RECORD_LOOK);
	worker_ask(&shared->services);

	raise_words(Max(mark_to_unit(mark_us, true), 1));
	publish(mark_us);
	shared->mark.is_read = true;
	return true;
}

/*
 * Do what is asked for, if anything is.  Raises an ERROR when it cannot be
 * done; then sessions that still wait ask again.
 *
 * Everybody may call snowflake_advance() and restore a dump again and again.
 * So that writes nothing if the mark that this process has committed is high
 * enough.  The mark as it was read does not count: it may not be on the
 * synchronous standbys.
 */
static void
serve(void *is_asked)
{
	static uint64 committed_unit = 0;	/* by this process */
	Mark	   *state = &shared->mark;
	bool		asked = *(bool *) is_asked;
	bool		accept;
	uint64		wanted_unit;
	uint64		asked_unit[MARK_FLOORS];
	uint64		floor_unit = 0;

	wanted_unit = pg_atomic_exchange_u64(&state->wanted_unit, 0);
	for (int i = 0; i < MARK_FLOORS; i++)
	{
		asked_unit[i] = pg_atomic_exchange_u64(&state->advance_to_unit[i], 0);
		floor_unit = Max(floor_unit, asked_unit[i]);
	}
	accept = pg_atomic_exchange_u64(&state->accept, 0) != 0;

	/*
	 * Sessions do not wait while the mark writer refuses.  Something is asked
	 * again, so the cause may be mended: forget the refusal first.  Any other
	 * error stands until this has gone well.
	 */
	if (asked && worker_is_refusing(&shared->mark_writer))
		worker_clear_error(&shared->mark_writer);

	if (pg_atomic_read_u64(&state->limit_unit) == 0 &&
		!recover(asked, accept, asked_unit[FLOOR_OF_DUMP], asked_unit[FLOOR_OF_SERVER]))
		return;

	if ((wanted_unit > 0 && mark_runs_out(wanted_unit)) || floor_unit > committed_unit)
	{
		uint64		unit = Min(Max(wanted_unit, floor_unit) + window_units(), MAX_TIME + 1);
		int64		mark_us;

		home_begin("raising the durable mark");
		/* nor left below the limit, if somebody has lowered it */
		mark_us = write_mark(mark_of_unit(Max(unit, pg_atomic_read_u64(&state->limit_unit))));
		warn_of_end(wanted_unit);
		home_commit();
		committed_unit = mark_to_unit(mark_us, false);
		publish(mark_us);
	}

	if (floor_unit > pg_atomic_read_u64(&state->advanced_unit))
	{
		raise_words(floor_unit);
		pg_atomic_write_u64(&state->advanced_unit, floor_unit);
		ConditionVariableBroadcast(&shared->mark_writer.changed);
	}
}

/*
 * Before a clean shutdown: lower the mark to just above what was issued.  It
 * need not be durable, nor succeed: a higher mark is safe.
 */
static void
close_mark(int code, Datum arg)
{
	Mark	   *state = &shared->mark;
	uint64		last = 0;

	if (!worker_ends_with_server || pg_atomic_read_u64(&state->limit_unit) == 0)
		return;

	if (home_begin_at_exit("lowering the durable mark", "mark"))
	{
		/*
		 * From here on no backend draws: neither one that looks at the limit,
		 * nor one that has looked at it before, since no compare-and-swap
		 * expects a closed word.
		 */
		pg_atomic_write_u64(&state->limit_unit, 0);
		for (int i = 0; i < shared->nslots; i++)
		{
			uint64		word = pg_atomic_exchange_u64(&SLOT(i)->word, SLOT_CLOSED);

			last = Max(last, word >> SEQUENCE_BITS);
		}

		/* Unless it was raised by other means, which must have had a reason. */
		home_run("SELECT setval('" MARK "', " INT64_FORMAT ") FROM " MARK
				 " WHERE last_value = " INT64_FORMAT,
				 mark_of_unit(last + 1), (int64) pg_atomic_read_u64(&state->mark_us));
	}
	home_end_at_exit();
}

/* Tell sessions, which may be in a statement and have former settings. */
static void
note_registry(void)
{
	pg_atomic_write_u32(&shared->lease.is_used,
						snowflake_layout.bits[FIELD_NODE] > 0 && snowflake_registry[0] != '\0');
}

void
snowflake_mark_writer_main(Datum arg)
{
	Worker	   *me = &shared->mark_writer;
	int64		retry_at = worker_begin(me);	/* on the steady clock */
	bool		is_first = retry_at == 0;
	bool		is_connected = false;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "snowflake mark writer",
												  ALLOCSET_DEFAULT_SIZES);
	bool		asked = false;

	note_registry();
	for (;;)
	{
		long		pause_ms = -1;

		take_lease();
		asked |= worker_take_request(me);
		if ((asked || is_first) && clock_read_steady() >= retry_at)
		{
			if (!is_connected)
			{
				worker_connect(me);
				before_shmem_exit(close_mark, (Datum) 0);
				is_connected = true;
			}
			MemoryContextSwitchTo(context);
			if (worker_attempt(me, LOG_OF_WORKER, serve, &asked) == NULL)
				worker_clear_error(me);
			else
				retry_at = clock_read_steady() + RETRY_S * USECS_PER_SEC;
			MemoryContextReset(context);

			/* the latch may have been reset meanwhile, so look again */
			asked = is_first = false;
			pause_ms = 0;
		}
		else if (asked)
			pause_ms = (long) Max((retry_at - clock_read_steady() + 999) / 1000, 1);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
						 (pause_ms >= 0 ? WL_TIMEOUT : 0),
						 pause_ms, wait_event_worker(me));
		if (worker_after_sleep())
			note_registry();
	}
}
