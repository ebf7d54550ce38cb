/*-------------------------------------------------------------------------
 *
 * mark.c
 *		The durable mark: the time below which IDs may have been issued.
 *
 * The words of the slots are lost when the server stops, and the clock may be
 * wrong when it starts again.  So a time that is above all issued ones is kept
 * in a sequence, the mark, in the home database.  IDs are issued only below
 * the limit in shared memory, and
 *
 *		every issued time < limit <= durable mark.
 *
 * After a start, the mark is the floor: no ID is issued below it.
 *
 *	1. mark_serve() reads the mark, raises the words to the floor, and
 *	   publishes it as the limit: nothing can be issued yet.
 *	2. A backend that is about to draw at or near the limit asks for that time.
 *	   The worker writes a mark reserve_window above it and commits, with the
 *	   synchronous standbys if there are any.
 *	3. Only after that it publishes the new limit and wakes the sessions that
 *	   wait.
 *
 * A crash before the commit leaves the old mark or the new one, but no ID was
 * issued that needs the new one.  A crash after it loses up to reserve_window
 * of time that was reserved and not used.  The mark is raised only when a
 * session asks for it: an idle server writes nothing.
 *
 * The WAL record of the mark precedes those of all rows with IDs below it.
 * Hence whatever brings the rows to another place by way of the WAL (a
 * standby, point-in-time recovery) brings the mark as well.
 *
 * At a clean shutdown the mark is lowered to what was issued, so that IDs flow
 * at once after the start.  A backend may still be about to draw then, so the
 * words are closed first.
 *
 * The mark is the instant at which the limit begins, in microseconds since
 * 1970-01-01 UTC, so that it means the same with any layout and epoch.  These
 * are recorded beside it: an ID of another layout may equal one of this.
 *
 * Locking: see shmem.h.  No lock of ours is held while the worker reads,
 * writes or commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "common/int.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "alarm.h"
#include "clock.h"
#include "compat.h"
#include "home.h"
#include "lifetime.h"
#include "mark.h"
#include "settings.h"
#include "utf8.h"

#define MARK		HOME_EXTENSION ".mark"
#define RECORDED	"snowflake.recorded"

#define MARK_FAILURE "the durable mark could not be changed"

/*
 * Between times and marks
 */

/*
 * The mark that has all times below the given one below it.  Past what a mark
 * can hold there are no more times, as the clock cannot show them.
 */
static int64
mark_of_time(uint64 time)
{
	TimestampTz ts;
	int64		mark;

	if (!clock_timestamp_of_unit(time, &ts) ||
		pg_add_s64_overflow(ts, UNIX_EPOCH_US, &mark))
		return PG_INT64_MAX;
	return mark;
}

/*
 * The first time that does not begin before a mark (ceil), or the last one
 * that does not begin after it.  They are the same when the mark was written
 * with this layout and epoch.
 */
uint64
mark_to_time(int64 mark, bool ceil)
{
	int64		us = clock_since_epoch(mark - UNIX_EPOCH_US);
	int64		unit;

	unit = ceil ? layout_unit_ceil(&snowflake_layout, us) :
		layout_unit_floor(&snowflake_layout, us);
	if (unit < 0)
		return 0;
	return Min((uint64) unit, MAX_TIME + 1);
}

static uint64
window_units(void)
{
	int64		us = snowflake_reserve_window * INT64CONST(1000);

	return (uint64) ((us + snowflake_layout.unit_us - 1) / snowflake_layout.unit_us);
}

/*
 * Asking and waiting
 */

static void
wake_worker(void)
{
	wait_wake_worker(&shared->mark.requested);
}

void
mark_ask(uint64 time)
{
	shmem_raise(&shared->mark.wanted, time);
	wake_worker();
}

WorkerState
mark_worker_state(char **detail, char **hint)
{
	Mark	   *state = &shared->mark;
	uint32		worker = pg_atomic_read_u32(&state->worker);
	char		error[WORKER_ERROR_SIZE];
	char		error_hint[WORKER_ERROR_SIZE];
	int			encoding;
	const char *home = utf8_any_to_server(snowflake_database, PG_SQL_ASCII);
	PGPROC	   *proc;
	uint32		wait;
	const char *type;

	LWLockAcquire(shared->lock, LW_SHARED);
	strlcpy(error, state->error, sizeof(error));
	strlcpy(error_hint, state->hint, sizeof(error_hint));
	encoding = state->error_encoding;
	LWLockRelease(shared->lock);

	if (error[0] != '\0')
	{
		*detail = psprintf("The background worker failed in database \"%s\": %s",
						   home, utf8_any_to_server(error, encoding));
		if (!text_is_shown())
			*hint = pstrdup("The server's log says why, and so does pg_stat_snowflake to roles with the privileges of pg_read_all_stats.");
		else if (error_hint[0] != '\0')
			*hint = pstrdup(utf8_any_to_server(error_hint, encoding));
		else
			*hint = pstrdup("Mend the cause. The background worker tries again when a session asks for an ID.");
		return WORKER_FAILS;
	}
	if (worker == (uint32) -1)
	{
		*detail = pstrdup("The background worker \"snowflake mark writer\" is not running.");
		*hint = pstrdup("See the server's log; \"max_worker_processes\" may be too small.");
		return WORKER_ABSENT;
	}

	proc = &ProcGlobal->allProcs[worker];
	wait = *(volatile uint32 *) &proc->wait_event_info;
	type = pgstat_get_wait_event_type(wait);
	*detail = type == NULL || wait == wait_event_worker() ?
		psprintf("The background worker, PID %d, is at work on it in database \"%s\".",
				 proc->pid, home) :
		psprintf("The background worker, PID %d, is at work on it in database \"%s\" and waits for %s:%s.",
				 proc->pid, home, type, pgstat_get_wait_event(wait));
	*hint = pstrdup("The background worker writes the mark, commits, and waits for the synchronous standbys, if there are any.");
	return wait == wait_event_worker() ? WORKER_SLEEPS : WORKER_WORKS;
}

/*
 * Say why nothing is reserved, as far as can be seen from here.
 */
static void
report(const char *message)
{
	bool		final = shared->mark.error_final;
	char	   *detail;
	char	   *hint;

	ConditionVariableCancelSleep();

	(void) mark_worker_state(&detail, &hint);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s", message),
			 final ?
			 errdetail("%s", text_shown(detail)) :
			 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.",
					   text_shown(detail), snowflake_max_wait),
			 errdetail_log("%s", detail),
			 errhint("%s", hint)));
}

void
mark_wait(uint64 time, Wait *wait)
{
	Mark	   *state = &shared->mark;
	int64		left_ms = (wait_left_us(wait) + 999) / 1000;
	int64		ms;
	uint64		left_out;

	CHECK_FOR_INTERRUPTS();
	mark_ask(time);
	if (left_ms <= 0 || state->error_final)
	{
		pg_atomic_fetch_add_u64(&shared->stats.timeouts, 1);
		report("cannot generate a snowflake ID: the durable mark could not be raised");
	}

	if (wait_is_long(wait, WAIT_MARK, &ms, &left_out))
	{
		char	   *detail;
		char	   *hint;

		(void) mark_worker_state(&detail, &hint);
		ereport(LOG_SERVER_ONLY,
				(errmsg("process %d still waits for the durable mark, to draw a snowflake ID, after " INT64_FORMAT " ms",
						MyProcPid, ms),
				 errdetail("%s%s", detail, alarm_left_out(left_out)),
				 errhint("%s", hint)));
	}

	wait_begin(wait, WAIT_MARK);
	ConditionVariablePrepareToSleep(&state->changed);
	if (!mark_covers(time))
		(void) ConditionVariableTimedSleep(&state->changed,
										   Min(left_ms, WAIT_SLICE_MS),
										   wait_event(WAIT_MARK));
	ConditionVariableCancelSleep();
	wait_end(wait, WAIT_MARK);
}

void
mark_wait_for_worker(instr_time since, const char *failure)
{
	instr_time	waited;
	int64		left_ms;

	INSTR_TIME_SET_CURRENT(waited);
	INSTR_TIME_SUBTRACT(waited, since);
	left_ms = snowflake_max_wait - (int64) INSTR_TIME_GET_MILLISEC(waited);
	wake_worker();
	if (left_ms <= 0)
		report(failure);
	(void) ConditionVariableTimedSleep(&shared->mark.changed,
									   Min(left_ms, WAIT_SLICE_MS),
									   wait_event(WAIT_MARK));
}

void
mark_advance(uint64 floor)
{
	Mark	   *state = &shared->mark;
	instr_time	since;

	INSTR_TIME_SET_CURRENT(since);
	ConditionVariablePrepareToSleep(&state->changed);
	PG_TRY();
	{
		while (pg_atomic_read_u64(&state->advanced) < floor)
		{
			shmem_raise(&state->advance_to, floor);
			mark_wait_for_worker(since, MARK_FAILURE);
		}
	}
	PG_FINALLY();
	{
		uint64		mine = floor;

		/* what failed, or was cancelled, is not to be done later */
		(void) pg_atomic_compare_exchange_u64(&state->advance_to, &mine, 0);
	}
	PG_END_TRY();
	ConditionVariableCancelSleep();
}

/*
 * Returns false when there was nothing to accept.
 */
bool
mark_accept(void)
{
	Mark	   *state = &shared->mark;
	instr_time	since;

	if (pg_atomic_read_u64(&state->limit) != 0)
		return false;

	INSTR_TIME_SET_CURRENT(since);
	ConditionVariablePrepareToSleep(&state->changed);
	PG_TRY();
	{
		while (pg_atomic_read_u64(&state->limit) == 0)
		{
			pg_atomic_write_u32(&state->accept, 1);
			mark_wait_for_worker(since, MARK_FAILURE);
		}
	}
	PG_FINALLY();
	{
		pg_atomic_write_u32(&state->accept, 0);
	}
	PG_END_TRY();
	ConditionVariableCancelSleep();
	return true;
}

/*
 * The words are read first: a closed one is of no meaning.
 */
bool
mark_last_time(uint64 *time)
{
	*time = 0;
	for (int i = 0; i < shared->nslots; i++)
		*time = Max(*time, pg_atomic_read_u64(&SLOT(i)->word) >> SEQUENCE_BITS);
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
	int64		mark = (int64) pg_atomic_read_u64(&shared->mark.mark);
	uint64		last;
	TimestampTz ts;

	if (!mark_last_time(&last) || !clock_timestamp_of_unit(last + 1, &ts))
	{
		ts = mark - UNIX_EPOCH_US;
		if (mark == 0 || !IS_VALID_TIMESTAMP(ts))
			ts = GetCurrentTimestamp() + MAX_DRIFT_US;
	}
	return ts;
}

bool
mark_is_home(Oid database)
{
	const char *name;

	if (shared == NULL || !shared->mark.mark_found)
		return false;
	name = get_database_name(database);
	return name != NULL && strcmp(name, snowflake_database) == 0;
}

/*
 * The worker's part
 */

bool
mark_note_error(const ErrorData *edata)
{
	Mark	   *state = &shared->mark;
	TimestampTz now = GetCurrentTimestamp();
	char		error[WORKER_ERROR_SIZE];
	char		hint[WORKER_ERROR_SIZE];
	bool		is_new;

	snprintf(error, sizeof(error), "%s.%s%s", edata->message,
			 edata->detail ? " " : "", edata->detail ? edata->detail : "");
	strlcpy(hint, edata->hint ? edata->hint : "", sizeof(hint));

	/* cut to whole characters: views show it */
	error[pg_mbcliplen(error, (int) strlen(error), sizeof(error) - 1)] = '\0';
	hint[pg_mbcliplen(hint, (int) strlen(hint), sizeof(hint) - 1)] = '\0';

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	strlcpy(state->error, error, sizeof(state->error));
	strlcpy(state->hint, hint, sizeof(state->hint));
	state->error_encoding = GetDatabaseEncoding();
	state->error_final = edata->sqlerrcode == ERRCODE_CONFIG_FILE_ERROR;
	is_new = strcmp(state->last_error, state->error) != 0;
	strlcpy(state->last_error, state->error, sizeof(state->last_error));
	state->last_error_at = now;
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&state->changed);
	return is_new;
}

static void
clear_error(void)
{
	Mark	   *state = &shared->mark;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	state->error[0] = '\0';
	state->error_final = false;
	LWLockRelease(shared->lock);
}

/*
 * Raise the mark, so that IDs may be issued below a time.  It is not lowered,
 * nor left below the limit, whoever may have done that.  Returns what it is.
 */
static int64
write_mark(uint64 time)
{
	int64		mark = mark_of_time(Max(time, pg_atomic_read_u64(&shared->mark.limit)));

	if (home_run("SELECT setval('" MARK "', GREATEST(last_value, $1)) FROM " MARK,
				 INT8OID, Int64GetDatum(mark), InvalidOid, (Datum) 0) != 1)
		elog(ERROR, "cannot read the sequence " MARK);
	return DatumGetInt64(home_result(1));
}

static int64
read_mark(void)
{
	if (home_run_plain("SELECT last_value FROM " MARK) != 1)
		elog(ERROR, "cannot read the sequence " MARK);
	return DatumGetInt64(home_result(1));
}

/*
 * Layout and epoch are recorded with the mark at first use.  With others, an
 * ID may equal one that was issued.  The node number may be another one, but
 * that is worth a line in the log.
 *
 * They are a setting of the home database, as in "ALTER DATABASE postgres SET
 * snowflake.recorded = 'time:41 ... since 2020-01-01 00:00:00+00 as node 1'".
 * That stands in a catalog that all databases share, so it also tells that
 * "snowflake.database" was changed; it goes with pg_upgrade; and unlike a table
 * it is in nobody's publication.
 */
static void
record(void)
{
	char	   *value = psprintf("%s since %s", snowflake_layout_text,
								 timestamptz_to_str(snowflake_epoch));

	if (snowflake_node_id != NODE_ID_UNSET)
		value = psprintf("%s as node %d", value, snowflake_node_id);

	home_run_plain(psprintf("ALTER DATABASE %s SET " RECORDED " = %s",
							quote_identifier(get_database_name(MyDatabaseId)),
							quote_literal_cstr(value)));
}

/*
 * The number that this server issues IDs with may have changed.  That is a
 * matter of the configuration, and fine, unless the number is another
 * server's.
 */
static void
note_node(const char *recorded)
{
	if (snowflake_node_id == NODE_ID_UNSET ||
		strcmp(recorded, psprintf("%d", snowflake_node_id)) == 0)
		return;

	record();
	if (recorded[0] != '\0')
		ereport(LOG,
				(errmsg("this server has issued snowflake IDs as node %s, and is node %d from now on",
						recorded, snowflake_node_id),
				 errhint("Make sure that no other server is node %d.", snowflake_node_id)));
}

/*
 * Raise an ERROR when what is recorded does not allow to issue IDs.  Returns
 * false when nothing is recorded.
 */
static bool
check_recorded(bool accept)
{
	char	   *database;
	char	   *layout_text;
	TimestampTz epoch;
	Layout		layout;
	LayoutError error;

	/* this database first */
	if (home_run("SELECT d.datname::text,"
				 " split_part(v, ' since ', 1),"
				 " split_part(split_part(v, ' since ', 2), ' as node ', 1)::timestamptz,"
				 " split_part(v, ' as node ', 2)"
				 " FROM pg_database d"
				 " JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0,"
				 " unnest(s.setconfig) c,"
				 " substring(c, '^" RECORDED "=(.+)$') v"
				 " WHERE v IS NOT NULL"
				 " ORDER BY d.oid <> $1",
				 OIDOID, ObjectIdGetDatum(MyDatabaseId), InvalidOid, (Datum) 0) == 0)
		return false;

	database = TextDatumGetCString(home_result(1));
	if (strcmp(database, get_database_name(MyDatabaseId)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the durable mark of this server is in database \"%s\", and \"snowflake.database\" is \"%s\"",
						database, snowflake_database),
				 errhint("Set \"snowflake.database\" to \"%s\" and restart the server. To begin anew in another database, run ALTER DATABASE %s RESET " RECORDED " and call snowflake_advance() with the largest ID there is.",
						 database, quote_identifier(database))));

	shared->mark.mark_found = true;
	layout_text = TextDatumGetCString(home_result(2));
	epoch = DatumGetTimestampTz(home_result(3));
	if (epoch == snowflake_epoch &&
		layout_parse(layout_text, &layout, &error) &&
		layout_equal(&layout, &snowflake_layout))
	{
		note_node(TextDatumGetCString(home_result(4)));
		return true;
	}

	if (!accept)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("this server has issued IDs with layout \"%s\" and epoch %s, and is now configured with layout \"%s\" and epoch %s",
						layout_text,
						pstrdup(timestamptz_to_str(epoch)),
						snowflake_layout_text,
						pstrdup(timestamptz_to_str(snowflake_epoch))),
				 errhint("Configure what is recorded and restart the server. Or, if no ID of the one can equal an ID of the other, call snowflake_accept_layout().")));

	record();
	ereport(LOG,
			(errmsg("snowflake goes on with layout \"%s\" and epoch %s",
					snowflake_layout_text,
					timestamptz_to_str(snowflake_epoch))));
	return true;
}

/*
 * Make this the home database.
 */
static void
set_up_home(void)
{
	if (!OidIsValid(get_extension_oid(HOME_EXTENSION, true)))
		home_run_plain("CREATE EXTENSION " HOME_EXTENSION);
	record();
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
raise_words(uint64 floor)
{
	for (int i = 0; i < shared->nslots; i++)
		shmem_raise(&SLOT(i)->word, (floor << SEQUENCE_BITS) - 1);
	shmem_raise(&shared->mark.floor, floor);
}

/*
 * Let IDs be issued below a mark, which must be durable; and below that of the
 * lease, where the node number is leased.
 */
static void
publish(int64 mark)
{
	Mark	   *state = &shared->mark;
	uint64		limit = mark_to_time(mark, false);

	if (settings_need_lease())
		limit = Min(limit,
					mark_to_time((int64) pg_atomic_read_u64(&shared->lease.mark),
								 false));
	limit = Max(Max(limit, pg_atomic_read_u64(&state->limit)), 1);

	pg_atomic_write_u64(&state->mark, (uint64) mark);
	pg_atomic_write_u64(&state->renew_at,
						limit > MAX_TIME ? PG_UINT64_MAX :
						limit - Min(limit, window_units() / 2));
	pg_write_barrier();
	pg_atomic_write_u64(&state->limit, limit);
	clear_error();
	ConditionVariableBroadcast(&state->changed);
}

/*
 * The mark of the lease has been raised.  Not where nothing is reserved, as
 * that is for recover() to begin.
 */
void
mark_publish_again(void)
{
	if (mark_is_open())
		publish((int64) pg_atomic_read_u64(&shared->mark.mark));
}

/*
 * The node number is about to change: let nothing be left of what could be
 * issued with the one before, nor of what others may have issued with the new
 * one.
 */
void
mark_begin_anew(int64 floor_mark)
{
	uint64		floor = Max(pg_atomic_read_u64(&shared->mark.limit),
							mark_to_time(floor_mark, true));

	raise_words(Max(floor, 1));
}

/*
 * The layout's time is near its end: say so in the log once a day.  By the
 * time that somebody draws at, as the mark is raised for it, so that this
 * process needs no clock.
 */
static void
warn_of_end(uint64 time)
{
	Mark	   *state = &shared->mark;
	int64		left = lifetime_left(time);
	int64		unit = snowflake_layout.unit_us;
	uint64		day = (uint64) ((USECS_PER_DAY + unit - 1) / unit);

	if (left >= LIFETIME_WARNING_US ||
		(state->warned != 0 && time < state->warned + day))
		return;

	state->warned = time;
	ereport(WARNING,
			(errmsg("the lifetime of the snowflake layout ends in less than a year"),
			 errdetail("%s Days left: %d. After that no ID can be drawn.",
					   lifetime_detail(), (int) (left / USECS_PER_DAY)),
			 errhint("%s", lifetime_hint())));
}

/*
 * Read the mark: the floor.  Returns false when there is none, and none is
 * asked for.
 */
static bool
recover(bool asked, bool accept)
{
	bool		found;
	bool		recorded;
	int64		mark = 0;
	uint64		floor;

	/* in a shutdown, which there is no way back from */
	if (pg_atomic_read_u64(&SLOT(0)->word) == SLOT_CLOSED)
		ereport(ERROR,
				(errcode(ERRCODE_CANNOT_CONNECT_NOW),
				 errmsg("the server is shutting down")));

	home_begin("reading the durable mark");
	found = OidIsValid(get_extension_oid(HOME_EXTENSION, true));
	if (found)
	{
		mark = read_mark();
		pg_atomic_write_u64(&shared->mark.mark, (uint64) mark);
	}
	recorded = check_recorded(accept);
	if (recorded && !found)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the durable mark is lost: database \"%s\" had it, and now has no extension \"" HOME_EXTENSION "\"",
						snowflake_database),
				 errhint("To begin anew, run ALTER DATABASE %s RESET " RECORDED " and call snowflake_advance() with the largest ID there is.",
						 quote_identifier(snowflake_database))));

	if (!recorded && mark > 0 && !accept)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("there is a durable mark in database \"%s\", but layout and epoch are not recorded with it",
						snowflake_database),
				 errhint("If the mark is of this server, and layout and epoch are what they were, call snowflake_accept_layout().")));
	if (!recorded)
	{
		if (!asked)
		{
			home_commit();
			return false;
		}
		set_up_home();
	}
	home_commit();
	shared->mark.mark_found = true;

	floor = Max(mark_to_time(mark, true), 1);
	raise_words(floor);
	publish(mark);
	return true;
}

bool
mark_is_asked(void)
{
	return pg_atomic_read_u32(&shared->mark.requested) != 0;
}

/*
 * Do what is asked for.  Raises an ERROR when it cannot be done; then
 * sessions that still wait ask again.
 */
void
mark_serve(void)
{
	Mark	   *state = &shared->mark;
	bool		asked;
	bool		accept;
	uint64		wanted;
	uint64		floor;
	int64		mark;

	/* first, so that what is asked from here on is not lost */
	asked = pg_atomic_exchange_u32(&state->requested, 0) != 0;
	wanted = pg_atomic_exchange_u64(&state->wanted, 0);
	floor = pg_atomic_exchange_u64(&state->advance_to, 0);
	accept = pg_atomic_exchange_u32(&state->accept, 0) != 0;

	if (asked)
		clear_error();

	if (pg_atomic_read_u64(&state->limit) == 0 && !recover(asked, accept))
		return;

	if (wanted > 0 && mark_runs_out(wanted))
	{
		home_begin("raising the durable mark");
		mark = write_mark(Min(wanted + Max(window_units(), 1), MAX_TIME + 1));
		warn_of_end(wanted);
		home_commit();
		publish(mark);
	}

	if (floor > pg_atomic_read_u64(&state->advanced))
	{
		home_begin("raising the durable mark for snowflake_advance()");
		mark = write_mark(floor);
		home_commit();
		raise_words(floor);
		pg_atomic_write_u64(&state->advanced, floor);
		publish(mark);
	}
}

/*
 * Before a clean shutdown: lower the mark to just above what was issued.
 *
 * It need not be durable, nor succeed: a higher mark is safe.  So it waits
 * neither for the disk, nor for a standby, nor for a lock.
 */
void
mark_close(void)
{
	Mark	   *state = &shared->mark;
	RangeVar   *name;
	uint64		last = 0;

	if (pg_atomic_read_u64(&state->limit) == 0)
		return;

	AbortOutOfAnyTransaction();
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	home_begin("lowering the durable mark");
	name = makeRangeVar(pstrdup(HOME_EXTENSION), pstrdup("mark"), -1);
	if (OidIsValid(RangeVarGetRelidExtended(name, RowExclusiveLock,
											RVR_MISSING_OK | RVR_SKIP_LOCKED,
											NULL, NULL)))
	{
		/*
		 * From here on no backend draws: neither one that looks at the limit,
		 * nor one that has looked at it before, since no compare-and-swap
		 * expects a closed word.
		 */
		pg_atomic_write_u64(&state->limit, 0);
		for (int i = 0; i < shared->nslots; i++)
		{
			uint64		word = pg_atomic_exchange_u64(&SLOT(i)->word, SLOT_CLOSED);

			last = Max(last, word >> SEQUENCE_BITS);
		}

		/* Unless it was raised by other means, which must have had a reason. */
		home_run("SELECT setval('" MARK "', $1) FROM " MARK
				 " WHERE last_value = $2",
				 INT8OID, Int64GetDatum(mark_of_time(last + 1)),
				 INT8OID, Int64GetDatum((int64) pg_atomic_read_u64(&state->mark)));
	}
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
}
