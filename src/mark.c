/*-------------------------------------------------------------------------
 *
 * mark.c
 *		The durable mark: the time below which IDs may have been issued.
 *
 * The words of the slots are lost when the server stops, and the clock may be
 * wrong when it starts again.  So a sequence in the home database, the mark,
 * keeps a time that is above all issued ones.  IDs are issued only below the
 * limit in shared memory, and
 *
 *		every issued time < limit <= durable mark.
 *
 * After a start, the mark is the floor: no ID is issued below it.
 *
 *	1. The mark writer (mark_writer.c) reads the mark, raises the words to the
 *	   floor, and publishes the floor as the limit: nothing can be issued yet.
 *	2. A backend that is about to draw at or near the limit asks for that time.
 *	   The mark writer writes a mark that is reserve_window above it, and
 *	   commits, with the synchronous standbys if there are any.
 *	3. Only after that the mark writer publishes the new limit, and wakes the
 *	   sessions that wait.
 *
 * A crash before the commit leaves the old mark or the new one, but no ID was
 * issued that needs the new one.  A crash after it loses up to reserve_window
 * of time that was not used.  An idle server writes nothing.
 *
 * The WAL record of the mark precedes those of all rows with IDs below it.
 * Hence whatever brings the rows to another place by way of the WAL (a
 * standby, point-in-time recovery) brings the mark as well.
 *
 * At a clean shutdown the words are closed, as a backend may still be about to
 * draw.  Then the mark is lowered to what was issued, so that IDs flow at once
 * after the start.
 *
 * The mark is the instant at which the limit begins, in microseconds since
 * 1970-01-01 UTC, so that it means the same with any layout and epoch.  These
 * are recorded beside it, see record.c.
 *
 * This file is the sessions' part.  Locking: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "clock.h"
#include "mark.h"
#include "settings.h"
#include "worker.h"

/* The two are the same when the mark was written with this layout and epoch. */
uint64
mark_to_unit(int64 mark_us, bool ceil)
{
	int64		us = clock_since_epoch(mark_us - UNIX_EPOCH_US);
	int64		unit = ceil ? layout_unit_ceil(&snowflake_layout, us) :
		layout_unit_floor(&snowflake_layout, us);

	return Min((uint64) Max(unit, 0), MAX_TIME + 1);
}

void
mark_init_shmem(void)
{
	Mark	   *mark = &shared->mark;

	pg_atomic_init_u64(&mark->limit_unit, 0);
	pg_atomic_init_u64(&mark->renew_unit, 0);
	pg_atomic_init_u64(&mark->floor_unit, 0);
	pg_atomic_init_u64(&mark->advanced_unit, 0);
	pg_atomic_init_u64(&mark->mark_us, 0);
	pg_atomic_init_u64(&mark->wanted_unit, 0);
	for (int i = 0; i < MARK_FLOORS; i++)
		pg_atomic_init_u64(&mark->advance_to_unit[i], 0);
	pg_atomic_init_u64(&mark->accept, 0);
	pg_atomic_init_u32(&mark->to_record, 0);
	pg_atomic_init_u32(&mark->confirmed_before, 0);
}

void
mark_ask(uint64 unit)
{
	shmem_raise(&shared->mark.wanted_unit, unit);
	worker_ask(&shared->mark_writer);
}

void
mark_wait(uint64 unit, Wait *wait)
{
	Worker	   *writer = &shared->mark_writer;
	int64		left_ms = wait_left_ms(wait);

	CHECK_FOR_INTERRUPTS();
	mark_ask(unit);
	if (left_ms <= 0 || worker_is_refusing(writer))
	{
		pg_atomic_fetch_add_u64(&shared->stats.timeouts, 1);
		worker_report(writer, "cannot generate a snowflake ID: the durable mark could not be raised");
	}

	if (wait_is_long(wait, WAIT_MARK))
	{
		char	   *detail;
		char	   *hint;

		(void) worker_describe(writer, &detail, &hint);
		wait_log(wait, "the durable mark, to draw a snowflake ID,", detail, hint);
	}

	ConditionVariablePrepareToSleep(&writer->changed);
	if (!mark_covers(unit))
		wait_sleep(wait, WAIT_MARK, &writer->changed, left_ms);
	ConditionVariableCancelSleep();
}

typedef struct Request
{
	pg_atomic_uint64 *asked;
	uint64		value;
} Request;

/* The request of a session that fails must not be carried out later. */
static void
take_back(int code, Datum arg)
{
	Request    *request = (Request *) DatumGetPointer(arg);
	uint64		value = request->value;

	(void) pg_atomic_compare_exchange_u64(request->asked, &value, 0);
}

/* Wait until "done" is as high as the value that is asked for. */
static void
request(pg_atomic_uint64 *asked, pg_atomic_uint64 *done, uint64 value)
{
	Request		mine = {asked, value};
	Wait		wait = {0};

	ConditionVariablePrepareToSleep(&shared->mark_writer.changed);
	PG_ENSURE_ERROR_CLEANUP(take_back, PointerGetDatum(&mine));
	{
		/* ask each time: another session that gives up takes the request back */
		while (pg_atomic_read_u64(done) < value)
		{
			shmem_raise(asked, value);
			worker_await(&shared->mark_writer, &wait,
						 "the durable mark could not be changed");
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(take_back, PointerGetDatum(&mine));
	take_back(0, PointerGetDatum(&mine));
	ConditionVariableCancelSleep();
}

void
mark_advance(uint64 floor_unit, MarkFloor kind)
{
	request(&shared->mark.advance_to_unit[kind], &shared->mark.advanced_unit, floor_unit);
}

bool
mark_accept(void)
{
	if (pg_atomic_read_u64(&shared->mark.limit_unit) != 0)
		return false;
	request(&shared->mark.accept, &shared->mark.limit_unit, 1);
	return true;
}

/*
 * All is well where nothing is recorded.  Where the mark writer refuses,
 * waiting is of no use; it looks again for the next caller.
 */
void
mark_require_layout(void)
{
	Worker	   *writer = &shared->mark_writer;
	const char *failure = "cannot tell the times of partitions: it is not known whether layout and epoch are as recorded";
	Wait		wait = {0};

	ConditionVariablePrepareToSleep(&writer->changed);
	while (!mark_is_open() && (!shared->mark.is_read || worker_is_refusing(writer)))
	{
		if (worker_is_refusing(writer))
		{
			worker_ask(writer);
			worker_report(writer, failure);
		}
		worker_await(writer, &wait, failure);
	}
	ConditionVariableCancelSleep();
}

/* The words are read first: a closed one is of no meaning. */
bool
mark_last_unit(uint64 *unit)
{
	*unit = 0;
	for (int i = 0; i < shared->nslots; i++)
		*unit = Max(*unit, pg_atomic_read_u64(&SLOT(i)->word) >> SEQUENCE_BITS);
	return mark_is_open();
}

/*
 * What a dump takes along.  The words say it exactly.  Where nothing is
 * issued, the mark does, and where that is not known either, as on a standby,
 * it goes by this machine's clock.
 */
TimestampTz
mark_issued_until(void)
{
	int64		mark_us = (int64) pg_atomic_read_u64(&shared->mark.mark_us);
	uint64		last;
	TimestampTz ts;

	if (!mark_last_unit(&last) || !clock_timestamp_of_unit(last + 1, &ts))
	{
		ts = mark_us - UNIX_EPOCH_US;
		if (mark_us == 0 || !IS_VALID_TIMESTAMP(ts))
			ts = GetCurrentTimestamp() + MAX_DRIFT_US;
	}
	return ts;
}

/*
 * A promoted server may lack the last WAL, and so the mark of IDs that clients
 * have.  Only the right clock, or who knows them, keeps them from coming again.
 */
char *
mark_behind_hint(void)
{
	return psprintf("Set the server's clock%s%s",
					clock_can_step() ? "" : " and restart the server",
					pg_atomic_read_u32(&shared->mark.confirmed_before) != 0 ?
					", or call snowflake_advance() with the largest ID that clients have seen. This server was promoted and is not confirmed. Do not wait, and do not raise \"snowflake.max_drift\": both repeat IDs that were lost with the server that it was copied from." :
					". If it is right, wait until it has caught up, or raise \"snowflake.max_drift\" to go on ahead of it.");
}
