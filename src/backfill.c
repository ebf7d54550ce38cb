/*-------------------------------------------------------------------------
 *
 * backfill.c
 *		Unique IDs at past times.
 *
 * History is loaded in any order, so the single word of a slot of the live
 * generator does not help: each time unit needs a counter of its own.  Making
 * all counters durable would take a row for each ID.  So the past is divided
 * into stretches of 2^STRETCH_BITS units (70 minutes, in milliseconds), and
 *
 *	- the home database keeps one number a stretch: sequence numbers below it
 *	  may have been used, in any unit of the stretch;
 *	- shared memory keeps the counters of the units.  They begin at what that
 *	  number was when the stretch was first asked for, and end at what it is.
 *
 * When the counter of a unit has come to the end, the session asks the
 * services.  They raise the number by as much as there was before, commit,
 * with the synchronous standbys if there are any, and only then publish the
 * new end.  So
 *
 *		every number issued in a stretch < its end <= its durable number.
 *
 * A crash or a restart loses the counters, and with them the numbers between,
 * once for each stretch that is used again.  So does clearing the tables in
 * shared memory when they are full.
 *
 * As with the durable mark, the WAL record of the number precedes those of the
 * rows with these IDs.
 *
 * The counter is not itself the sequence number in the ID: there it is rotated
 * by an amount that depends on the unit alone.  IDs that are the only ones of
 * their unit would otherwise all end in the same bits, and id % n would put
 * them on one shard.
 *
 * A stretch is a number of time units, whatever the epoch.  So with another epoch,
 * and the fields as they were, an ID that was backfilled does not come again; and
 * one that was drawn has another worker number.  With other fields both could:
 * then all units whose IDs could be among those of before count as used up.
 *
 * Locking: everything shared is under shared->backfill.lock, held for a
 * look-up in the tables, or to clear them; nothing that can fail is done under
 * it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "backfill.h"
#include "clock.h"
#include "generator.h"
#include "home.h"
#include "lease.h"
#include "mark.h"
#include "settings.h"
#include "worker.h"

#define STRETCH_BITS	22

#define DRAW_FAILURE "cannot backfill a snowflake ID: its sequence number could not be made durable"

/* Sizes are powers of 2; the tables are cleared when one is filled to FULL. */
#define UNITS_BITS		21
#define STRETCHES_BITS	16
#define FULL(bits)		(3U << ((bits) - 2))

/* What a stretch has had: base to before end, in each of its units. */
typedef struct Stretch
{
	uint64		key;			/* its number + 1, 0 where there is none */
	uint64		base;
	uint64		end;
} Stretch;

/* The tables in dynamic shared memory, hashed, with linear probing. */
typedef struct Tables
{
	uint32		nstretches;
	uint32		nunits;
	Stretch		stretches[1 << STRETCHES_BITS];

	/* (unit << sequence bits | last counter) + 1, 0 where there is none */
	uint64		units[1 << UNITS_BITS];
} Tables;

static Tables *tables = NULL;

/*
 * Spreads consecutive numbers evenly over 2^bits places: Fibonacci hashing.
 * IDs depend on it, so it is never to be changed.
 */
static uint64
spread(uint64 number, int bits)
{
	return bits == 0 ? 0 :
		(number * UINT64CONST(0x9E3779B97F4A7C15)) >> (64 - bits);
}

/* The entry of a stretch, or the empty one where it belongs. */
static Stretch *
find_stretch(uint64 number)
{
	uint64		i = spread(number, STRETCHES_BITS);

	while (tables->stretches[i].key != 0 &&
		   tables->stretches[i].key != number + 1)
		i = (i + 1) % lengthof(tables->stretches);
	return &tables->stretches[i];
}

/* The entry of a time unit, or the empty one where it belongs. */
static uint64 *
find_unit(uint64 unit)
{
	uint64		i = spread(unit, UNITS_BITS);

	while (tables->units[i] != 0 &&
		   (tables->units[i] - 1) >> SEQUENCE_BITS != unit)
		i = (i + 1) % lengthof(tables->units);
	return &tables->units[i];
}

/*
 * Both at once: a counter may be forgotten only together with the base that
 * it began at.
 */
static void
clear_tables(void)
{
	memset(tables, 0, sizeof(Tables));
}

/* Map the tables, and make them when nobody has. */
static void
attach(void)
{
	Backfill   *backfill = &shared->backfill;
	dsm_handle	handle;
	dsm_segment *memory;

	if (tables != NULL)
		return;

	LWLockAcquire(backfill->lock, LW_SHARED);
	handle = backfill->tables;
	LWLockRelease(backfill->lock);

	if (handle == DSM_HANDLE_INVALID)
	{
		dsm_handle	mine;

		memory = dsm_create(sizeof(Tables), 0);
		memset(dsm_segment_address(memory), 0, sizeof(Tables));
		mine = dsm_segment_handle(memory);

		/* to stay until the server stops, also when no session has it mapped */
		dsm_pin_segment(memory);

		LWLockAcquire(backfill->lock, LW_EXCLUSIVE);
		if (backfill->tables == DSM_HANDLE_INVALID)
			backfill->tables = mine;
		handle = backfill->tables;
		LWLockRelease(backfill->lock);

		if (handle != mine)
		{
			/* another was faster */
			dsm_detach(memory);
			dsm_unpin_segment(mine);
			memory = dsm_attach(handle);
		}
	}
	else
		memory = dsm_attach(handle);

	if (memory == NULL)
		elog(ERROR, "could not map the shared memory of snowflake_backfill()");
	dsm_pin_mapping(memory);
	tables = dsm_segment_address(memory);
}

/*
 * Ask the services for more numbers of a stretch.  When there are too many
 * that ask, try again later: they are served all at once.
 */
static void
request(uint64 stretch, uint64 count)
{
	BackfillRequest *free = NULL;

	for (int i = 0; i < BACKFILL_REQUESTS; i++)
	{
		BackfillRequest *entry = &shared->backfill.requests[i];

		if (entry->count == 0)
			free = entry;
		else if (entry->stretch == stretch)
			return;
	}
	if (free != NULL)
	{
		free->stretch = stretch;
		free->count = count;
	}
}

/* All numbers of a unit are gone. */
static void
report_exhausted(uint64 unit)
{
	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 errmsg("no snowflake ID is left to backfill the time unit that begins at %s",
					clock_show(clock_unit_or_end(unit))),
			 errdetail("A time unit of the layout \"%s\" has " UINT64_FORMAT " IDs to backfill. After a restart the server takes all units of a stretch of %d to be as full as the fullest of them. Units whose IDs could equal IDs of a former layout have none.",
					   snowflake_layout_text, (uint64) SEQUENCE_MASK + 1,
					   1 << STRETCH_BITS),
			 errhint("Give the row another time.")));
}

/*
 * Count a unit up.  False when there are no numbers for it now, and then they
 * are asked for.
 */
static bool
count_up(uint64 unit, uint64 *counter)
{
	Stretch    *stretch;
	uint64	   *word;
	uint64		next;
	bool		found;

	LWLockAcquire(shared->backfill.lock, LW_EXCLUSIVE);
	word = find_unit(unit);
	if (*word == 0 && tables->nunits >= FULL(UNITS_BITS))
	{
		clear_tables();
		word = find_unit(unit);
	}
	stretch = find_stretch(unit >> STRETCH_BITS);
	next = *word == 0 ? 0 : ((*word - 1) & SEQUENCE_MASK) + 1;
	next = Max(next, stretch->base);
	found = next < stretch->end;
	if (found)
	{
		if (*word == 0)
			tables->nunits++;
		*word = (unit << SEQUENCE_BITS | next) + 1;
	}
	else if (next <= SEQUENCE_MASK)
		request(unit >> STRETCH_BITS, Max(stretch->end - stretch->base, 1));
	LWLockRelease(shared->backfill.lock);

	if (next > SEQUENCE_MASK)
		report_exhausted(unit);
	*counter = next;
	return found;
}

/*
 * The services write nothing before it is known that layout and epoch are
 * those that the mark is of.
 */
static void
require_open_mark(Wait *wait)
{
	while (!mark_is_open())
		worker_await(&shared->mark_writer, wait, DRAW_FAILURE);
	ConditionVariableCancelSleep();
}

int64
backfill_draw(uint64 unit)
{
	uint64		counter;
	uint64		sequence;
	Wait		wait = {0};

	if (tables == NULL)
	{
		generator_require();
		if (settings_need_lease())
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot backfill snowflake IDs with a node number from a registry"),
					 errdetail("Another server may have had this number at that time, and may have backfilled with it."),
					 errhint("Build the IDs with snowflake_id(), or backfill on a server with a \"snowflake.node_id\" that no other server has or can lease.")));
		if (settings_backfill_worker() == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot backfill snowflake IDs with this layout"),
					 errdetail("The layout \"%s\" has no worker field, which would tell backfilled IDs from drawn ones.",
							   snowflake_layout_text),
					 errhint("Build the IDs with snowflake_id().")));
		attach();
	}
	while (!lease_is_valid())
		lease_wait(0, &wait);

	if (!count_up(unit, &counter))
	{
		require_open_mark(&wait);
		ConditionVariablePrepareToSleep(&shared->services.changed);
		while (!count_up(unit, &counter))
			worker_await(&shared->services, &wait, DRAW_FAILURE);
		ConditionVariableCancelSleep();
	}

	pg_atomic_fetch_add_u64(&shared->stats.backfilled, 1);
	sequence = (counter + spread(unit, SEQUENCE_BITS)) & SEQUENCE_MASK;
	return layout_pack(&snowflake_layout, unit, (uint64) lease_node(),
					   settings_backfill_worker(), sequence);
}

static bool
is_advanced(uint64 number)
{
	Backfill   *backfill = &shared->backfill;
	bool		done;

	LWLockAcquire(backfill->lock, LW_EXCLUSIVE);
	done = backfill->advanced >= number;
	if (!done)
		backfill->advance_to = Max(backfill->advance_to, number);
	LWLockRelease(backfill->lock);
	return done;
}

/* The request of a session that fails must not be carried out later. */
static void
take_back_advance(int code, Datum number)
{
	Backfill   *backfill = &shared->backfill;

	LWLockAcquire(backfill->lock, LW_EXCLUSIVE);
	if (backfill->advance_to == DatumGetUInt64(number))
		backfill->advance_to = 0;
	LWLockRelease(backfill->lock);
}

void
backfill_advance(uint64 number)
{
	Datum		mine = UInt64GetDatum(number);
	Wait		wait = {0};

	require_open_mark(&wait);
	ConditionVariablePrepareToSleep(&shared->services.changed);
	PG_ENSURE_ERROR_CLEANUP(take_back_advance, mine);
	{
		while (!is_advanced(number))
			worker_await(&shared->services, &wait, "could not reserve the sequence numbers to backfill with");
	}
	PG_END_ENSURE_ERROR_CLEANUP(take_back_advance, mine);
	take_back_advance(0, mine);
	ConditionVariableCancelSleep();
}

/*
 * The services' part
 */

#define TABLE HOME_EXTENSION ".backfill"

/* The row for all stretches, and the one for all up to a stretch. */
#define ANY_STRETCH (-1)
#define UP_TO_STRETCH(stretch) (-2 - (stretch))

/* What a stretch has used, durably. */
static uint64
read_used(int64 stretch)
{
	(void) home_run("SELECT coalesce(max(used), 0) FROM " TABLE
					" WHERE stretch IN (" INT64_FORMAT ", %d) OR stretch <= " INT64_FORMAT,
					stretch, ANY_STRETCH,
					stretch >= 0 ? UP_TO_STRETCH(stretch) : PG_INT64_MIN);
	return (uint64) DatumGetInt64(home_result(1));
}

/*
 * Raise it.  The largest of all is also a setting of the home database, where
 * a dump of any database finds it.  It is raised together with the number, as
 * a dump that is made in between would carry too small a one.
 */
static void
write_used(int64 stretch, uint64 used)
{
	(void) home_run("INSERT INTO " TABLE " VALUES (" INT64_FORMAT ", " UINT64_FORMAT ")"
					" ON CONFLICT (stretch) DO UPDATE SET used = EXCLUDED.used", stretch, used);

	/* not where a trigger or a rule of somebody's has made it something else */
	if (read_used(stretch) < used)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"" TABLE "\" did not keep the number that was written to it"),
				 errhint("Drop its triggers and rules that do not belong to extension \"" HOME_EXTENSION "\".")));
	if (home_run("SELECT FROM pg_db_role_setting, unnest(setconfig) c"
				 " WHERE setdatabase = %u AND setrole = 0"
				 " AND substring(c, '^snowflake[.]backfilled=([0-9]{1,18})$')::bigint >= " UINT64_FORMAT,
				 MyDatabaseId, used) > 0)
		return;

	/* it may have been reset */
	(void) home_run("SELECT max(used) FROM " TABLE);
	used = (uint64) DatumGetInt64(home_result(1));
	home_run("ALTER DATABASE %s SET snowflake.backfilled = '" UINT64_FORMAT "'",
			 quote_identifier(get_database_name(MyDatabaseId)), used);
}

/*
 * Where that setting says more than the table, here or in another database,
 * the table has been lost: with its extension, by itself, by a change of the
 * home database, or in a dump.  Then no stretch may have what is below.
 */
static void
make_good(void)
{
	uint64		lost;

	(void) home_run("SELECT coalesce(max(v), 0)"
					" FROM pg_db_role_setting, unnest(setconfig) c,"
					" LATERAL (SELECT substring(c, '^snowflake[.]backfilled=([0-9]{1,18})$')::bigint) s (v)"
					" WHERE setdatabase <> %u"
					" OR v > (SELECT coalesce(max(used), 0) FROM " TABLE ")", MyDatabaseId);
	lost = (uint64) DatumGetInt64(home_result(1));
	if (lost > read_used(ANY_STRETCH))
		write_used(ANY_STRETCH, lost);
}

uint64
backfill_end(void)
{
	int64		last;

	(void) home_run("SELECT coalesce(max(CASE WHEN stretch < 0 THEN %d - stretch ELSE stretch END), -1),"
					" coalesce(bool_or(stretch = %d), false) FROM " TABLE,
					UP_TO_STRETCH(0), ANY_STRETCH);
	last = DatumGetInt64(home_result(1));
	if (DatumGetBool(home_result(2)))
		return PG_UINT64_MAX;
	return (uint64) (last + 1) << STRETCH_BITS;
}

/*
 * The rows of stretches are kept: with the former fields again, they are of the
 * same IDs.  A number counts as used in the last stretch, so that there is a row
 * for it, and that a dump, which has the largest number only, says so too.
 */
void
backfill_accept(uint64 end, bool same_ids)
{
	int64		last = (int64) ((end - 1) >> STRETCH_BITS);

	if (end == 0)
		return;
	if (same_ids)
	{
		if (read_used(last) == 0)
			write_used(last, 1);
	}
	else if (end > MAX_TIME || home_run("SELECT FROM " TABLE " WHERE stretch < 0") > 0)
		/* of the layout before the last one it is not known either */
		write_used(ANY_STRETCH, SEQUENCE_MASK + 1);
	else
		write_used(UP_TO_STRETCH(last), SEQUENCE_MASK + 1);
}

/* Let a stretch have the numbers from base to before end: they are durable. */
static void
publish(uint64 number, uint64 base, uint64 end)
{
	Stretch    *stretch = find_stretch(number);

	if (stretch->key == 0 && tables->nstretches >= FULL(STRETCHES_BITS))
	{
		clear_tables();
		stretch = find_stretch(number);
	}
	if (stretch->key == 0)
	{
		tables->nstretches++;
		stretch->key = number + 1;
		stretch->base = base;
	}
	else if (base != stretch->end)
		stretch->base = base;
	stretch->end = end;
}

int64
backfill_due(void)
{
	Backfill   *backfill = &shared->backfill;
	bool		asked;

	/* only with the layout that the mark is of */
	if (!mark_is_open())
		return PG_INT64_MAX;

	LWLockAcquire(backfill->lock, LW_SHARED);
	asked = backfill->advance_to > 0;
	for (int i = 0; i < BACKFILL_REQUESTS; i++)
		asked |= backfill->requests[i].count > 0;
	LWLockRelease(backfill->lock);
	return asked ? 0 : PG_INT64_MAX;
}

void
backfill_abandon(void)
{
	Backfill   *backfill = &shared->backfill;

	LWLockAcquire(backfill->lock, LW_EXCLUSIVE);
	backfill->advance_to = 0;
	for (int i = 0; i < BACKFILL_REQUESTS; i++)
		backfill->requests[i].count = 0;
	LWLockRelease(backfill->lock);
}

void
backfill_serve(void)
{
	static Oid	good_file = InvalidOid; /* that is known to lack nothing */
	Backfill   *backfill = &shared->backfill;
	BackfillRequest requests[BACKFILL_REQUESTS];
	uint64		base[BACKFILL_REQUESTS];
	uint64		end[BACKFILL_REQUESTS];
	uint64		advance_to;
	uint64		any_used;
	Oid			file;
	bool		in_use;

	LWLockAcquire(backfill->lock, LW_SHARED);
	memcpy(requests, backfill->requests, sizeof(requests));
	in_use = backfill->tables != DSM_HANDLE_INVALID;
	LWLockRelease(backfill->lock);

	/*
	 * A session that asks for numbers has made the tables.  This may fail, so
	 * it comes before the commit, or numbers would be used up each time.
	 */
	if (in_use)
		attach();

	home_begin("reserving sequence numbers to backfill with");

	/* it is read first, so that it is locked, and stays the same one */
	any_used = read_used(ANY_STRETCH);
	(void) home_run("SELECT pg_relation_filenode('" TABLE "')");
	file = DatumGetObjectId(home_result(1));
	if (file != good_file)
		make_good();

	/* whoever gave up while the table was locked has taken this back */
	LWLockAcquire(backfill->lock, LW_SHARED);
	advance_to = backfill->advance_to;
	LWLockRelease(backfill->lock);

	/* also what is there already, which standbys that are waited for may lack */
	if (advance_to > 0)
		write_used(ANY_STRETCH, Max(any_used, advance_to));
	for (int i = 0; i < BACKFILL_REQUESTS; i++)
	{
		if (requests[i].count == 0)
			continue;
		base[i] = read_used((int64) requests[i].stretch);
		end[i] = Min(base[i] + requests[i].count, SEQUENCE_MASK + 1);
		if (end[i] > base[i])
			write_used((int64) requests[i].stretch, end[i]);
	}
	home_commit();
	good_file = file;

	LWLockAcquire(backfill->lock, LW_EXCLUSIVE);
	if (advance_to > 0)
	{
		if (tables != NULL)
			clear_tables();
		backfill->advanced = Max(backfill->advanced, advance_to);
		if (backfill->advance_to == advance_to)
			backfill->advance_to = 0;
	}
	for (int i = 0; i < BACKFILL_REQUESTS; i++)
	{
		if (requests[i].count == 0)
			continue;
		publish(requests[i].stretch, base[i], end[i]);
		backfill->requests[i].count = 0;
	}
	LWLockRelease(backfill->lock);
	ConditionVariableBroadcast(&shared->services.changed);
}
