/*-------------------------------------------------------------------------
 *
 * check.c
 *		snowflake_check(): what keeps this server from drawing IDs, now or soon,
 *		or would after a promotion.  snowflake_can_draw(): the same for a health
 *		check, only what keeps it from that now.
 *
 * A reader of the settings, the clock, the catalogs and shared memory.  It
 * fails nowhere, also without preload and on a standby, and draws no ID, so that
 * it can be called as often as one likes.  It asks nothing of the workers, but
 * snowflake_can_draw() for another attempt where the last one failed.
 *
 * Each check is a subtransaction, so what it fails with becomes a row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef __linux__
#include <sys/timex.h>
#endif

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#include "check_rows.h"
#include "clock.h"
#include "ddl.h"
#include "lease.h"
#include "lifetime.h"
#include "mark.h"
#include "preload.h"
#include "record.h"
#include "settings.h"
#include "settings_file.h"
#include "utf8.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(snowflake_check);
PG_FUNCTION_INFO_V1(snowflake_can_draw);

/* Sharing slots is not worth a warning up to so many connections a slot. */
#define BACKENDS_PER_SLOT 32

/* The time that the next ID has at least. */
static uint64
earliest_time(CheckState *state)
{
	return Max((uint64) Max(state->unit, 0), state->earliest);
}

/* Is the library preloaded? */
static void
check_preload(CheckState *state)
{
	if (shared == NULL)
		check_row(state, "error",
				  psprintf("snowflake is not loaded via \"shared_preload_libraries\": IDs can be read, not drawn. %s %s",
						   preload_detail(), preload_hint()));
	else
		check_row(state, "ok",
				  "snowflake is loaded via \"shared_preload_libraries\".");
}

/* Will the server start with what its configuration files have now? */
static void
check_settings(CheckState *state)
{
	ListCell   *cell;

	if (shared == NULL)
	{
		check_row(state, "ok", "They are checked when snowflake is preloaded.");
		return;
	}
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
	{
		check_row(state, "ok", "The configuration files are only read for roles with the privileges of pg_read_all_settings.");
		return;
	}
	foreach(cell, settings_file_errors())
	{
		const WrongSetting *wrong = lfirst(cell);

		check_row(state, "error",
				  psprintf("The server will not start again: %s. %s%s%s",
						   wrong->what, wrong->detail ? wrong->detail : "",
						   wrong->detail ? " " : "", wrong->hint));
	}
	if (state->nrows == 0)
		check_row(state, "ok", "The server will start with what its configuration files have now.");
}

/* Do the extension's objects here belong to the library? */
static void
check_extension(CheckState *state)
{
	int			nestlevel = ddl_begin();
	char	   *version;

	if (ddl_query("SELECT extversion FROM pg_extension WHERE extname = 'snowflake'") == 0)
		check_row(state, "warning",
				  "The extension is not in this database: its functions were created by hand. Run CREATE EXTENSION snowflake.");
	else
	{
		version = ddl_value(0, 1);
		if (strcmp(version, SNOWFLAKE_VERSION) != 0)
			check_row(state, "warning",
					  psprintf("The extension is of version %s in this database, and the server's library of version " SNOWFLAKE_VERSION ". Run ALTER EXTENSION snowflake UPDATE, or restart the server when that has been done.",
							   version));
		else
			check_row(state, "ok",
					  "The extension is of version " SNOWFLAKE_VERSION " in this database, as is the server's library.");
	}
	ddl_end(nestlevel);
}

/* Has this server a number? */
static void
check_node_id(CheckState *state)
{
	uint64		max = snowflake_layout.max[FIELD_NODE];
	TimeLineID	before = shared == NULL ? 0 :
		pg_atomic_read_u32(&shared->mark.confirmed_before);
	char	   *primary;

	if (before != 0)
		check_row(state, "warning",
				  psprintf("This server was promoted, and goes on with the IDs of the server that it comes from. %s %s",
						   record_promoted_detail(before), record_promoted_hint()));
	else if (max == 0)
		check_row(state, "ok",
				  "The layout has no node field, so there is no number to set.");
	else if (lease_is_used())
		check_row(state, "ok",
				  "The number is leased from the registry.");
	else if (snowflake_node_id == NODE_ID_UNSET)
		check_row(state, "error",
				  psprintf("\"snowflake.node_id\" is not set. %s", settings_node_id_hint()));
	else if (RecoveryInProgress() &&
			 (primary = check_standby_node()) != NULL &&
			 strcmp(primary, psprintf("%d", snowflake_node_id)) != 0)
		check_row(state, "warning",
				  psprintf("This standby is node %d, and its primary has drawn IDs as node %s. Promoted, it would draw as node %d, which is safe only if no other server is node %d. If it is to go on as its primary, set \"snowflake.node_id\" to %s and restart the server.",
						   snowflake_node_id, primary, snowflake_node_id,
						   snowflake_node_id, primary));
	else
		check_row(state, "ok",
				  psprintf("This server is node %d, of 0 to " UINT64_FORMAT ".",
						   snowflake_node_id, max));
}

/* Are there node numbers left for other servers, and for a failover? */
static void
check_free_numbers(CheckState *state)
{
	uint32		free_numbers = pg_atomic_read_u32(&shared->lease.free_numbers);
	uint64		total = snowflake_layout.max[FIELD_NODE] + 1;

	if (free_numbers != (uint32) -1 && (free_numbers < 2 || free_numbers <= total / 10))
		check_row(state, "warning",
				  psprintf("%u of the " UINT64_FORMAT " node numbers of the layout are free. A server that is promoted, cloned or restored needs another number than before. Look into the view snowflake_nodes of the registry, and stop servers that need no number, or choose a layout with more bits for the node.",
						   free_numbers, total));
}

/* It is asked to keep segments at a shutdown, and cannot be then. */
static void
check_own_registry(CheckState *state)
{
	char	   *own = psprintf(UINT64_FORMAT "/", GetSystemIdentifier());
	bool		is_own;

	/* known once it was asked for segments */
	LWLockAcquire(shared->segments.lock, LW_SHARED);
	is_own = strncmp(shared->segments.place, own, strlen(own)) == 0;
	LWLockRelease(shared->segments.lock);
	if (is_own)
		check_row(state, "ok",
				  "The registry is a database of this server's own cluster, so it cannot be asked while this server stops: each clean restart loses the unused numbers of its segments.");
}

/* Does the registry give this server a number? */
static void
check_registry(CheckState *state)
{
	char	   *detail;
	char	   *hint;

	if (!lease_is_used())
		check_row(state, "ok", snowflake_registry[0] == '\0' ?
				  "\"snowflake.registry\" is not set." :
				  "The registry gives no node number, as \"snowflake.node_id\" is set.");
	else if (shared == NULL)
		check_row(state, "error",
				  "There is no background worker to ask the registry, as snowflake is not preloaded.");
	else if (RecoveryInProgress())
		check_row(state, "ok",
				  "This is a standby: it leases a node number when it is promoted.");
	else
	{
		bool		fails = lease_describe(&detail, &hint);

		if (!lease_is_valid())
			check_row(state, "error", psprintf("%s %s", text_shown(detail), hint));
		else if (fails)
			check_row(state, "warning", psprintf("%s %s", text_shown(detail), hint));
		else
			check_row(state, "ok", detail);
		check_free_numbers(state);
	}
	if (shared != NULL && snowflake_registry[0] != '\0')
		check_own_registry(state);
}

/*
 * The statement that takes back what a database, a role or both have set for
 * snowflake.recorded.
 */
static char *
reset_recorded(const char *database, const char *role)
{
	if (role == NULL && database != NULL)
		return psprintf("ALTER DATABASE %s RESET snowflake.recorded",
						quote_identifier(database));
	return psprintf("ALTER ROLE %s%s%s RESET snowflake.recorded",
					role ? quote_identifier(role) : "ALL",
					database ? " IN DATABASE " : "",
					database ? quote_identifier(database) : "");
}

/*
 * Are layout and epoch those recorded with the durable mark?  By what all
 * databases can see of it, see record.c.
 */
static void
check_layout(CheckState *state)
{
	int			nestlevel = ddl_begin();
	char	   *configured = psprintf("layout \"%s\" and epoch %s",
									  snowflake_layout_text,
									  check_show(snowflake_epoch));
	int			nrecorded;
	char	   *database = NULL;

	/* looked at first, as the services write it before they say so */
	bool		is_due = shared != NULL && record_is_due();

	/* the home database first, then others, and what is not of a database */
	nrecorded = (int) ddl_query(psprintf(
										 "SELECT d.datname, r.rolname, split_part(v, ' since ', 1),"
										 " split_part(split_part(v, ' since ', 2), ' as node ', 1)"
										 " FROM pg_db_role_setting s"
										 " LEFT JOIN pg_database d ON d.oid = s.setdatabase"
										 " LEFT JOIN pg_roles r ON r.oid = s.setrole,"
										 " unnest(s.setconfig) c,"
										 " substring(c, '^snowflake[.]recorded=(.+)$') v"
										 " WHERE v IS NOT NULL"
										 " ORDER BY s.setrole <> 0 OR s.setdatabase = 0,"
										 " d.datname IS DISTINCT FROM %s, d.datname, r.rolname",
										 quote_literal_cstr(snowflake_database)));

	if (nrecorded > 0 && ddl_value(0, 2) == NULL)
		database = ddl_value(0, 1);
	if (database == NULL)
	{
		if (shared != NULL && mark_is_open())
			check_row(state, "warning",
					  is_due ?
					  pstrdup("Layout and epoch are being recorded for other databases to see where the durable mark is. That takes a moment after the first ID; if it lasts, see the server's log.") :
					  psprintf("It is not recorded for other databases to see where the durable mark is, as \"snowflake.recorded\" was removed; a restart of the server brings it back. Run ALTER DATABASE %s SET snowflake.recorded = %s.",
							   quote_identifier(snowflake_database),
							   quote_literal_cstr(psprintf("%s since %s",
														   snowflake_layout_text,
														   check_show(snowflake_epoch)))));
	}
	else if (strcmp(database, snowflake_database) != 0)
		check_row(state, "error",
				  psprintf("The durable mark of this server is in database \"%s\", and \"snowflake.database\" is \"%s\". Set that to \"%s\" and restart the server. To begin anew in another database, run %s and call snowflake_advance() with the largest ID there is.",
						   database, snowflake_database, database,
						   reset_recorded(database, NULL)));
	else
	{
		char	   *layout_text = ddl_value(0, 3);
		TimestampTz epoch = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
																	CStringGetDatum(ddl_value(0, 4)),
																	ObjectIdGetDatum(InvalidOid),
																	Int32GetDatum(-1)));
		Layout		layout;
		LayoutError error;

		if (epoch != snowflake_epoch ||
			!layout_parse(layout_text, &layout, &error) ||
			!layout_equal(&layout, &snowflake_layout))
			check_row(state, "error",
					  psprintf("This server has issued IDs with layout \"%s\" and epoch %s, as recorded in database \"%s\", and is now configured with %s. %s",
							   layout_text, check_show(epoch), database, configured,
							   record_hint(layout_text, check_show(epoch))));
	}

	/*
	 * nobody reads these now, but the worker may, once the home database is
	 * gone
	 */
	for (int i = database == NULL ? 0 : 1; i < nrecorded; i++)
		check_row(state, "warning",
				  psprintf("Layout and epoch are recorded in another place than that of the durable mark, as after a restore of a database of another server. Run %s.",
						   reset_recorded(ddl_value(i, 1), ddl_value(i, 2))));

	if (state->nrows == 0 && database == NULL)
		check_row(state, "ok",
				  psprintf("Nothing is recorded: the first ID records %s.", configured));
	else if (state->nrows == 0)
		check_row(state, "ok",
				  psprintf("IDs are drawn with %s, as recorded in database \"%s\".",
						   configured, database));
	ddl_end(nestlevel);
}

/* How far is the end of the layout's time? */
static void
check_lifetime(CheckState *state)
{
	int64		left = lifetime_left(earliest_time(state));
	int			days = (int) (left / USECS_PER_DAY);
	char	   *detail = lifetime_detail();

	if (left == 0)
		check_row(state, "error",
				  psprintf("The lifetime has ended. %s %s", detail, lifetime_hint()));
	else if (left < LIFETIME_WARNING_US)
		check_row(state, "warning",
				  psprintf("%s Days left: %d. %s", detail, days, lifetime_hint()));
	else
		check_row(state, "ok",
				  left == PG_INT64_MAX ? detail :
				  psprintf("%s Days left: %d.", detail, days));
}

/* Is the clock where IDs can be drawn? */
static void
check_clock(CheckState *state)
{
	char	   *now = check_show(state->now);

	if (state->unit < 0)
		check_row(state, "error",
				  psprintf("The %s shows %s, which is before \"snowflake.epoch\", %s. Set the server's clock%s.",
						   clock_name(), now, check_show(snowflake_epoch),
						   clock_steps() ? "" : " and restart the server"));
	else if (RecoveryInProgress())
		check_standby_clock(state);
	else
		check_row(state, "ok", psprintf("The %s shows %s.", clock_name(), now));
}

/* how often the clock was set, and by how much; "" for never */
static char *
steps(uint64 n, const char *what, uint64 max_us)
{
	char	   *max = psprintf(INT64_FORMAT " ms", check_in_ms((int64) max_us));

	if (n == 0)
		return pstrdup("");
	if (n == 1)
		return psprintf("%s once, by %s", what, max);
	return psprintf("%s " UINT64_FORMAT " times, by up to %s", what, n, max);
}

/* Was the server's clock set? */
static void
check_steps(CheckState *state)
{
	uint64		back;
	uint64		forward;
	TimestampTz reset;
	char	   *since;
	char	   *detail;

	if (shared == NULL)
	{
		check_row(state, "ok", "The server does not watch its clock, as snowflake is not preloaded.");
		return;
	}
	back = pg_atomic_read_u64(&shared->stats.regressions);
	forward = pg_atomic_read_u64(&shared->stats.jumps);
	LWLockAcquire(shared->lock, LW_SHARED);
	reset = shared->stats_reset.at;
	LWLockRelease(shared->lock);
	since = check_show(reset);

	if (back == 0 && forward == 0)
	{
		check_row(state, "ok",
				  psprintf("The server's clock was not seen to be set since %s.", since));
		return;
	}
	detail = psprintf("Since %s the server's clock was %s%s%s.", since,
					  steps(back, "set back", pg_atomic_read_u64(&shared->stats.regression_max)),
					  back > 0 && forward > 0 ? ", and " : "",
					  steps(forward, "set forward", pg_atomic_read_u64(&shared->stats.jump_max)));
	if (back > 0)
		check_row(state, "warning",
				  psprintf("%s Let a time server slew the clock instead, or set \"snowflake.clock\" to \"monotonic\". To forget it, call pg_stat_snowflake_reset().",
						   detail));
	else
		check_row(state, "ok", detail);
}

/*
 * How far are IDs ahead: of the clock that they are drawn by, which they may
 * have to wait for, and of the server's, which their time may be compared to?
 */
static void
check_drift(CheckState *state)
{
	TimestampTz drawn_at = clock_read_to_draw();
	TimestampTz wall = GetCurrentTimestamp();
	int64		drift_us = drawn_at - wall;
	TimestampTz earliest;
	int64		behind_us;
	char	   *detail;

	if (RecoveryInProgress())
	{
		check_row(state, "ok",
				  "This is a standby, which draws no IDs. What it would draw after a promotion is said by the check \"mark\".");
		return;
	}
	if (state->earliest == 0 ||
		!clock_timestamp_of_unit(state->earliest, &earliest))
		earliest = DT_NOBEGIN;
	behind_us = earliest == DT_NOBEGIN ? 0 : earliest - state->now;
	if (earliest != DT_NOBEGIN)
		drift_us = Max(drift_us, earliest - wall);

	if (behind_us > MAX_DRIFT_US / 2)
		detail = psprintf("IDs were issued, or may have been before the start, up to %s, which is " INT64_FORMAT " ms ahead of the %s; \"snowflake.max_drift\" allows %d ms.",
						  check_show(earliest), check_in_ms(behind_us), clock_name(),
						  snowflake_max_drift);
	else
		detail = psprintf("The time in IDs is " INT64_FORMAT " ms %s the server's clock; \"snowflake.max_drift\" is %d ms.",
						  check_in_ms(drift_us > 0 ? drift_us : -drift_us),
						  drift_us > 0 ? "ahead of" : "behind",
						  snowflake_max_drift);

	if (behind_us > MAX_DRIFT_US)
		check_row(state, "error",
				  psprintf("%s Set the server's clock%s, wait until it has caught up, or raise \"snowflake.max_drift\" to go on ahead of the clock.",
						   detail, clock_steps() ? "" : " and restart the server"));
	else if (behind_us > MAX_DRIFT_US / 2)
		check_row(state, "warning",
				  psprintf("%s The clock was set back, or IDs are drawn faster than the layout allows. Set the clock, or choose a layout with more sequence or worker bits before the first ID is drawn.",
						   detail));
	else if (drift_us > MAX_DRIFT_US / 2)
		check_row(state, "warning",
				  psprintf("%s The clock was set back, which IDs do not follow before the next start of the server. If the clock is right, restart the server.",
						   detail));
	else
		check_row(state, "ok", clock_steps() && drift_us <= 0 ?
				  "IDs are not ahead of the server's clock." : detail);
}

/* Is the server's clock synchronised? */
static void
check_time_sync(CheckState *state)
{
#ifdef __linux__
	struct timex timex = {0};
	int			result = adjtimex(&timex);

	if (result < 0)
		check_row(state, "ok",
				  psprintf("The kernel does not tell whether the clock is synchronised: %m."));
	else if (result == TIME_ERROR || timex.status & STA_UNSYNC)
		check_row(state, "warning",
				  "The kernel says that the clock is not synchronised. Start chronyd, ntpd or systemd-timesyncd.");
	else if (result == TIME_INS || result == TIME_OOP)
	{
		/* the last second of the day comes twice */
		if (clock_steps() && MAX_DRIFT_US < USECS_PER_SEC)
			check_row(state, "warning",
					  psprintf("A leap second comes at the end of the day, in UTC: the clock goes back by a second, and \"snowflake.max_drift\" allows %d ms. Set it to 1s, or let the time server smear the leap second.",
							   snowflake_max_drift));
		else
			check_row(state, "ok",
					  "The kernel says that the clock is synchronised. A leap second comes at the end of the day, in UTC, which IDs do not wait for.");
	}
	else
		check_row(state, "ok", "The kernel says that the clock is synchronised.");
#else
	check_row(state, "ok",
			  "The kernel does not tell whether the clock is synchronised.");
#endif
}

/* Is a background worker there, and does it what it is asked? */
static void
check_one_worker(CheckState *state, Worker *worker, const char *name)
{
	char	   *detail;
	char	   *hint;

	if (pg_atomic_read_u32(&worker->proc) == (uint32) -1)
		check_row(state, "error",
				  psprintf("The background worker \"%s\" is not running. It is started again a second after it has ended. If it is not, see the server's log.",
						   name));
	else if (worker_describe(worker, &detail, &hint) == WORKER_HANGS)
		check_row(state, "warning", psprintf("%s %s", detail, hint));
}

static void
check_worker(CheckState *state)
{
	if (shared == NULL)
		check_row(state, "error",
				  "There are no background workers, as snowflake is not preloaded.");
	else if (worker_is_left_out())
		check_row(state, "error",
				  psprintf("\"max_worker_processes\" is %d, which leaves no place for the two background workers of snowflake. Raise it by 2 and restart the server.",
						   max_worker_processes));
	else if (RecoveryInProgress())
		check_row(state, "ok",
				  "This is a standby: its background workers start when it is promoted.");
	else
	{
		check_one_worker(state, &shared->mark_writer, MARK_WRITER_NAME);
		check_one_worker(state, &shared->services, SERVICES_NAME);
		if (state->nrows == 0)
			check_row(state, "ok", "The background workers are running.");
	}
}

/* Is the durable mark raised, and how far? */
static void
check_mark(CheckState *state)
{
	uint64		limit;
	TimestampTz reserved;
	int64		ahead_us;
	char	   *detail;
	char	   *hint;

	if (shared == NULL)
	{
		check_row(state, "error",
				  "There is no background worker to keep the durable mark, as snowflake is not preloaded.");
		return;
	}
	if (RecoveryInProgress())
	{
		check_standby_mark(state);
		return;
	}

	switch (worker_describe(&shared->mark_writer, &detail, &hint))
	{
		case WORKER_HINDERED:
		case WORKER_FAILS:
			check_row(state, "error", psprintf("%s %s", text_shown(detail), hint));

			/* where a health check keeps sessions away, nobody else asks */
			if (state->rsinfo == NULL && !worker_is_refusing(&shared->mark_writer))
				mark_ask(earliest_time(state));
			return;
		case WORKER_HANGS:
			check_row(state,
					  mark_covers(earliest_time(state)) ? "warning" : "error",
					  psprintf("%s %s", detail, hint));
			return;
		case WORKER_WORKS:
			/* sessions may wait for that, if it takes long */
			if (!mark_covers(earliest_time(state)))
			{
				check_row(state, "warning", psprintf("%s %s", detail, hint));
				return;
			}
			break;
		case WORKER_STARTS:
		case WORKER_ABSENT:
			if (!mark_covers(earliest_time(state)))
			{
				check_row(state, "warning",
						  "The durable mark cannot be raised without the background worker.");
				return;
			}
			break;
		case WORKER_SLEEPS:
			break;
	}

	limit = pg_atomic_read_u64(&shared->mark.limit);
	if (limit == 0)
	{
		check_row(state, "ok",
				  psprintf("Nothing is reserved. The durable mark is in database \"%s\", or will be with the first ID.",
						   snowflake_database));
		return;
	}
	if (!clock_timestamp_of_unit(limit, &reserved))
		reserved = DT_NOEND;
	ahead_us = reserved - state->now;
	detail = psprintf("The durable mark in database \"%s\" reserves IDs up to %s, which is " INT64_FORMAT " ms %s the clock; \"snowflake.reserve_window\" is %d ms.",
					  snowflake_database, check_show(reserved),
					  check_in_ms(ahead_us > 0 ? ahead_us : -ahead_us),
					  ahead_us > 0 ? "ahead of" : "behind",
					  snowflake_reserve_window);

	/* IDs that are ahead take the mark with them; that is check_drift()'s */
	if (clock_timestamp_of_unit(state->earliest, &reserved))
		ahead_us = Min(ahead_us, ahead_us + state->now - reserved);
	if (ahead_us > check_mark_bound_us())
		check_row(state, "warning",
				  psprintf("%s The setting was higher before, or somebody has changed the mark. After a crash no ID could be drawn before that time; a clean restart of the server lowers the mark.",
						   detail));
	else if (ahead_us <= 0)
		check_row(state, "ok", psprintf("%s The next ID raises it.", detail));
	else
		check_row(state, "ok", detail);
}

/* Do many backends share a slot? */
static void
check_slots(CheckState *state)
{
	int			nslots = settings_slots();
	char	   *detail = psprintf("Worker slots: %d. \"max_connections\" is %d.",
								  nslots, MaxConnections);

	if (snowflake_layout.bits[FIELD_WORKER] == 0)
	{
		check_row(state, "ok",
				  "The layout has no worker field, so that all backends share one slot.");
		return;
	}
	if (MaxConnections / BACKENDS_PER_SLOT > nslots ||
		(MaxConnections / BACKENDS_PER_SLOT == nslots &&
		 MaxConnections % BACKENDS_PER_SLOT > 0))
		check_row(state, "warning",
				  psprintf("%s So more than %d backends may share a slot, which slows them down when they draw IDs at once. Set \"max_connections\" lower and use a connection pooler, or choose a layout with more worker bits before the first ID is drawn.",
						   detail, BACKENDS_PER_SLOT));
	else
		check_row(state, "ok",
				  MaxConnections <= nslots ? detail :
				  psprintf("%s Backends that share one are safe, and a little slower.",
						   detail));
}

/* Is there an extension of the same name, such as pgEdge's, or what it left? */
static void
check_other_extension(CheckState *state)
{
	int			nestlevel = ddl_begin();
	int			n;

	n = (int) ddl_query("SELECT string_agg(version, ', ' ORDER BY version)"
						" FROM pg_available_extension_versions"
						" WHERE name = 'snowflake' AND version <> '" SNOWFLAKE_VERSION "'"
						" HAVING count(*) > 0");
	if (n > 0)
		check_row(state, "warning",
				  psprintf("There are scripts of an extension of the same name, or of other versions of this one: %s. ALTER EXTENSION snowflake UPDATE may run them. Remove the other package, and install this one again.",
						   ddl_value(0, 1)));

	n = (int) ddl_query("SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
						" WHERE n.nspname = 'snowflake' AND p.proname = 'nextval'"
						" AND p.proargtypes[0] = 'regclass'::regtype AND p.pronargs = 1");
	if (n > 0)
		check_row(state, "warning",
				  "This database has the function snowflake.nextval(regclass) of another extension, pgEdge's: IDs that it draws may equal those of snowflake_nextval(). Let snowflake_convert() change the columns that call it, then run DROP FUNCTION snowflake.nextval(regclass).");

	n = (int) ddl_query("SELECT d.datname, r.rolname FROM pg_db_role_setting s"
						" LEFT JOIN pg_database d ON d.oid = s.setdatabase"
						" LEFT JOIN pg_roles r ON r.oid = s.setrole"
						" WHERE EXISTS (SELECT FROM unnest(s.setconfig) c WHERE c LIKE 'snowflake.node=%')"
						" ORDER BY 1, 2");
	for (int i = 0; i < n; i++)
	{
		char	   *database = ddl_value(i, 1);
		char	   *role = ddl_value(i, 2);

		check_row(state, "warning",
				  psprintf("pgEdge's setting \"snowflake.node\" is set for %s%s%s%s, and is not read. The server's number is \"snowflake.node_id\".",
						   database ? "database " : "",
						   database ? quote_identifier(database) : "",
						   database && role ? ", " : "",
						   role ? psprintf("role %s", quote_identifier(role)) :
						   database ? "" : "all roles"));
	}

	/* the files are shown to roles that may see them */
	n = (int) ddl_query("SELECT has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')");
	if (ddl_value_bool(0, 1) &&
		ddl_query("SELECT sourcefile, sourceline FROM pg_file_settings"
				  " WHERE name = 'snowflake.node' ORDER BY seqno LIMIT 1") > 0)
		check_row(state, "warning",
				  psprintf("pgEdge's setting \"snowflake.node\" is in %s, line %s, and is not read. Remove it there. The server's number is \"snowflake.node_id\".",
						   ddl_value(0, 1), ddl_value(0, 2)));

	if (state->nrows == 0)
		check_row(state, "ok", "Nothing of another extension named snowflake is found.");
	ddl_end(nestlevel);
}

/* Do partitions by time take the IDs of now, and of what comes next? */
static void
check_partitions(CheckState *state)
{
	uint64		id = layout_unit_first_id(&snowflake_layout, state->unit);
	int			nestlevel;
	int			n;

	if (!layout_sorts_by_time(&snowflake_layout))
	{
		check_row(state, "ok", "The time is not the highest field of the layout, so there are no partitions by time.");
		return;
	}
	nestlevel = ddl_begin();
	n = (int) ddl_query(psprintf("SELECT status, detail FROM snowflake_catalog.check_partitions(" UINT64_FORMAT ")",
								 Min(id, (uint64) layout_max_id(&snowflake_layout))));
	for (int i = 0; i < n; i++)
		check_row(state, ddl_value(i, 1), ddl_value(i, 2));
	ddl_end(nestlevel);
}

/* In the order of the rows; whether an error there keeps IDs from being drawn. */
static const struct
{
	const char *name;
	void		(*function) (CheckState *state);
	bool		of_drawing;
}			checks[] =

{
	{"preload", check_preload, true},
	{"settings", check_settings},
	{"extension", check_extension},
	{"node_id", check_node_id, true},
	{"registry", check_registry, true},
	{"layout", check_layout},
	{"lifetime", check_lifetime, true},
	{"clock", check_clock, true},
	{"steps", check_steps},
	{"drift", check_drift, true},
	{"time_sync", check_time_sync},
	{"worker", check_worker},
	{"mark", check_mark, true},
	{"slots", check_slots},
	{"segments", check_segments},
	{"replication", check_replication},
	{"other_extension", check_other_extension},
	{"tables", check_tables},
	{"partitions", check_partitions}
};

static void
run_check(CheckState *state, void *arg)
{
	checks[*(int *) arg].function(state);
}

/* All checks, or those of drawing until there is an error. */
static void
run_checks(CheckState *state, bool of_drawing)
{
	/* before the clock: what is drawn meanwhile must not look ahead of it */
	if (shared != NULL && mark_last_time(&state->earliest))
		state->earliest = Max(state->earliest,
							  pg_atomic_read_u64(&shared->mark.floor));
	else
		state->earliest = 0;
	state->now = clock_read();
	state->unit = layout_unit_floor(&snowflake_layout,
									clock_since_epoch(state->now));

	for (int i = 0; i < (int) lengthof(checks); i++)
	{
		char	   *failure;

		if (of_drawing && (!checks[i].of_drawing || state->error != NULL))
			continue;
		state->check = checks[i].name;
		state->nrows = 0;
		failure = check_try(run_check, state, &i);
		if (failure != NULL)
			check_row(state, "error", psprintf("The check failed: %s.", failure));
	}
}

/* snowflake_check() */
Datum
snowflake_check(PG_FUNCTION_ARGS)
{
	CheckState	state = {
		.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo,
		.schema = get_func_namespace(fcinfo->flinfo->fn_oid),
	};

	InitMaterializedSRF(fcinfo, 0);
	run_checks(&state, false);
	return (Datum) 0;
}

/* snowflake_can_draw() */
Datum
snowflake_can_draw(PG_FUNCTION_ARGS)
{
	CheckState	state = {.context = CurrentMemoryContext};
	TupleDesc	tupdesc;
	Datum		values[2] = {BoolGetDatum(true)};
	bool		nulls[2] = {false, true};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	run_checks(&state, true);
	if (state.error == NULL && RecoveryInProgress())
		state.error = "This is a standby, which draws no IDs.";
	else if (state.error == NULL && !shared->mark.is_read)
		state.error = "The durable mark has not been read yet since the server started or was promoted.";
	if (state.error != NULL)
	{
		values[0] = BoolGetDatum(false);
		values[1] = CStringGetTextDatum(state.error);
		nulls[1] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}
