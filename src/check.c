/*-------------------------------------------------------------------------
 *
 * check.c
 *		snowflake_check(): the problems that stop this server from drawing IDs,
 *		now, soon or after a promotion.  snowflake_can_draw(): the same for a
 *		health check, but only the problems of now.
 *
 * It reads the settings, the clock, the catalogs and shared memory.  It never
 * fails, also without preload and on a standby, and it draws no ID, so it can
 * be called at any time.  It asks nothing of the workers; only
 * snowflake_can_draw() asks for another attempt if the last one failed.
 *
 * Each check is a subtransaction, so what it fails with becomes a row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef __linux__
#include <sys/timex.h>
#endif

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "args.h"
#include "check_rows.h"
#include "clock.h"
#include "lease.h"
#include "mark.h"
#include "open_draws.h"
#include "record.h"
#include "segment.h"
#include "settings.h"
#include "shmem.h"
#include "utf8.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(snowflake_check);
PG_FUNCTION_INFO_V1(snowflake_can_draw);

/* Sharing slots is not worth a warning up to so many connections a slot. */
#define BACKENDS_PER_SLOT 32

#define HOW_TO_MOVE "as docs/operations.md says under \"Move the mark\""

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
		check_say(state, "error", "snowflake is not loaded via \"shared_preload_libraries\": IDs can be read, but not drawn. %s %s",
				  preload_detail(), preload_hint());
	else
		check_row(state, "ok", "snowflake is loaded via \"shared_preload_libraries\".");
}

/* Do the extension's objects here belong to the library? */
static void
check_own_extension(CheckState *state)
{
	if (OidIsValid(get_extension_oid("snowflake", true)))
		check_call(state, "check_extension('" SNOWFLAKE_VERSION "')");
	else
		check_row(state, "warning", "The extension is not in this database: its functions were created by hand. Run CREATE EXTENSION snowflake.");
}

/* Will the server start with what its configuration files have now? */
static void
check_settings(CheckState *state)
{
	ListCell   *cell;

	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
	{
		check_row(state, "ok", "The configuration files are only read for roles with the privileges of pg_read_all_settings.");
		return;
	}
	foreach(cell, settings_file_errors())
	{
		const ErrorData *wrong = lfirst(cell);

		check_say(state, "error", "The server will not start again: %s. %s%s%s",
				  wrong->message, wrong->detail ? wrong->detail : "", wrong->detail ? " " : "",
				  wrong->hint);
	}
	if (state->nrows == 0)
		check_row(state, "ok", "The server will start with its present configuration files.");
}

static void
check_leased_number(CheckState *state)
{
	if (RecoveryInProgress())
		check_row(state, "ok", "This standby leases a number when it is promoted.");
	else if (lease_node() >= 0 && lease_is_valid())
		check_say(state, "ok", "This server is node %d, leased from the registry.", lease_node());
	else
		check_row(state, "warning", "This server has no number now. The check \"registry\" says why.");
}

/* Has this server a number? */
static void
check_node_id(CheckState *state)
{
	uint64		max = snowflake_layout.max[FIELD_NODE];
	TimeLineID	before = shared == NULL ? 0 :
		pg_atomic_read_u32(&shared->mark.confirmed_before);
	const char *warning = shared == NULL ? "" : lease_warning();
	char	   *primary;

	if (warning[0] != '\0')
		check_say(state, "warning", "%s %s",
				  text_shown(psprintf("The registry warns of node number %d: %s", lease_node(), warning)),
				  LEASE_WARNING_HINT);
	if (before != 0)
		check_say(state, "warning", "This server was promoted, and continues the IDs of the server that it was copied from. %s %s",
				  record_promoted_detail(before), RECORD_PROMOTED_HINT);
	else if (max == 0)
		check_row(state, "ok", "The layout has no node field, so there is no number to set.");
	else if (lease_is_used() && (settings_need_lease() ||
								 (shared != NULL && !RecoveryInProgress() && !lease_is_valid())))
		check_leased_number(state);
	else if (snowflake_node_id == NODE_ID_UNSET)
		check_say(state, "error", "\"snowflake.node_id\" is not set. %s",
				  settings_node_id_hint());
	else if (RecoveryInProgress() &&
			 (primary = check_standby_node()) != NULL &&
			 strcmp(primary, psprintf("%d", snowflake_node_id)) != 0)
		check_say(state, "warning", "This standby is node %d, and its primary has drawn IDs as node %s. After a promotion it would draw as node %d. This is safe only if no other server is node %d. To give it the number of its primary, set \"snowflake.node_id\" to %s and restart the server.",
				  snowflake_node_id, primary, snowflake_node_id, snowflake_node_id, primary);
	else if (warning[0] == '\0')
		check_say(state, "ok", "This server is node %d, of 0 to " UINT64_FORMAT ".",
				  snowflake_node_id, max);
}

/* Are there node numbers left for other servers, and for a failover? */
static void
check_free_numbers(CheckState *state)
{
	uint32		free_numbers = pg_atomic_read_u32(&shared->lease.free_numbers);
	uint64		total = snowflake_layout.max[FIELD_NODE] + 1;

	if (free_numbers != (uint32) -1 && (free_numbers < 2 || free_numbers <= total / 10))
		check_say(state, "warning", "%u of the " UINT64_FORMAT " node numbers of the layout are free. A server that is promoted, cloned or restored takes another number. Look into the view snowflake_nodes in the registry, and stop servers that are not needed.",
				  free_numbers, total);
}

/* Does the registry give this server a number, or register that which it has? */
static void
check_registry(CheckState *state)
{
	char	   *detail;
	char	   *hint;

	if (!lease_is_used())
		check_row(state, "ok", snowflake_registry[0] == '\0' ?
				  "\"snowflake.registry\" is not set." :
				  "The layout has no node field, so the registry gives no node number.");
	else if (shared == NULL)
		check_row(state, "error", "There is no background worker to ask the registry, as snowflake is not preloaded.");
	else if (RecoveryInProgress())
		check_row(state, "ok", "This is a standby: it asks the registry when it is promoted.");
	else
	{
		bool		fails = lease_describe(&detail, &hint);

		if (!lease_is_valid())
			check_say(state, "error", "%s %s", text_shown(detail), hint);
		else if (fails)
			check_say(state, "warning", "%s %s", text_shown(detail), hint);
		else
			check_row(state, "ok", detail);
		if (settings_need_lease())
			check_free_numbers(state);
	}
}

/*
 * Are layout and epoch those recorded with the durable mark?  By what all
 * databases can see of it, see record.c.
 */
static void
check_layout(CheckState *state)
{
	int			nestlevel = check_begin();
	char	   *configured = psprintf("layout \"%s\" and epoch %s",
									  snowflake_layout_text,
									  clock_show(snowflake_epoch));

	/* looked at first, as the services write it before they say so */
	uint32		to_record = shared == NULL ? 0 :
		pg_atomic_read_u32(&shared->mark.to_record);
	bool		is_open = shared != NULL && mark_is_open();

	/* what counts most, taken apart */
	bool		has_pointer = check_query(psprintf("SELECT datname, is_own, is_home,"
												   " split_part(says, ' since ', 1),"
												   " split_part(split_part(split_part(says, ' since ', 2), ' as node ', 1), ' on system ', 1)"
												   " FROM (%s) AS p (datname, says, is_own, is_home)",
												   record_pointers())) > 0;
	bool		is_own = has_pointer && check_value_bool(0, 2);
	bool		is_home = has_pointer && check_value_bool(0, 3);
	char	   *database = has_pointer ? check_value(0, 1) : NULL;

	if (is_own && !is_home)
		check_say(state, "error", "The durable mark of this server is in database \"%s\", and \"snowflake.database\" is \"%s\". Set \"snowflake.database\" to \"%s\" and restart the server. Or move the mark, " HOW_TO_MOVE ".",
				  database, snowflake_database, database);
	else if (is_own)
	{
		char	   *layout_text = check_value(0, 4);
		TimestampTz epoch = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
																	CStringGetDatum(check_value(0, 5)),
																	ObjectIdGetDatum(InvalidOid),
																	Int32GetDatum(-1)));
		Layout		layout;
		LayoutError error;

		if (epoch != snowflake_epoch ||
			!layout_parse(layout_text, &layout, &error) ||
			!layout_equal(&layout, &snowflake_layout))
			check_say(state, "error", "This server has issued IDs with layout \"%s\" and epoch %s, as recorded in database \"%s\", and is now configured with %s. %s",
					  layout_text, clock_show(epoch), database, configured,
					  record_hint(layout_text, clock_show(epoch)));
		else
			check_say(state, "ok", "IDs are drawn with %s, as recorded in database \"%s\".",
					  configured, database);
	}
	else if (to_record & RECORD_FAILED)
		check_row(state, "warning", "The server could not record for other databases where the durable mark is. The server's log says why. Mend the cause; the background worker tries again every 10 seconds.");
	else if (to_record != 0)
		check_row(state, "ok", "The server is about to record for other databases where the durable mark is.");
	else if (is_open)
		check_say(state, "warning", "Somebody has removed \"snowflake.recorded\", which shows other databases where the durable mark is. Restart the server, or run ALTER DATABASE %s SET snowflake.recorded = %s.",
				  quote_identifier(snowflake_database),
				  quote_literal_cstr(record_pointer_text()));
	else
		check_say(state, "ok", "Nothing is recorded: the first ID records %s.", configured);
	check_end(nestlevel);
}

/* How far is the end of the layout's time? */
static void
check_lifetime(CheckState *state)
{
	int64		left = lifetime_left(earliest_time(state));
	int			days = (int) (left / USECS_PER_DAY);
	char	   *detail = lifetime_detail();

	if (left == 0)
		check_say(state, "error", "The lifetime has ended. %s %s", detail, lifetime_hint());
	else if (left < LIFETIME_WARNING_US)
		check_say(state, "warning", "%s Days left: %d. %s", detail, days, lifetime_hint());
	else
		check_row(state, "ok",
				  left == PG_INT64_MAX ? detail :
				  psprintf("%s Days left: %d.", detail, days));
}

/* Is the clock where IDs can be drawn? */
static void
check_clock(CheckState *state)
{
	char	   *now = clock_show(state->now);

	if (state->unit < 0)
		check_say(state, "error", "The %s shows %s, which is before \"snowflake.epoch\", %s. Set the server's clock%s.",
				  clock_name(), now, clock_show(snowflake_epoch),
				  clock_can_step() ? "" : " and restart the server");
	else if (RecoveryInProgress())
		check_standby_clock(state);
	else
		check_say(state, "ok", "The %s shows %s.", clock_name(), now);
}

/* how often the clock was set, and by how much; "" for never */
static char *
steps(uint64 n, const char *what, uint64 max_us)
{
	char	   *max = psprintf(INT64_FORMAT " ms", check_in_ms((int64) max_us));

	return n == 0 ? "" : n == 1 ? psprintf("%s once, by %s", what, max) :
		psprintf("%s " UINT64_FORMAT " times, by up to %s", what, n, max);
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

	back = pg_atomic_read_u64(&shared->stats.regressions);
	forward = pg_atomic_read_u64(&shared->stats.jumps);
	LWLockAcquire(shared->lock, LW_SHARED);
	reset = shared->stats_reset.at;
	LWLockRelease(shared->lock);
	since = clock_show(reset);

	if (back == 0 && forward == 0)
	{
		check_say(state, "ok", "No step of the server's clock has been seen since %s.", since);
		return;
	}
	detail = psprintf("Since %s the server's clock was %s%s%s.", since,
					  steps(back, "set back", pg_atomic_read_u64(&shared->stats.regression_max_us)),
					  back > 0 && forward > 0 ? ", and " : "",
					  steps(forward, "set forward", pg_atomic_read_u64(&shared->stats.jump_max_us)));
	if (back > 0)
		check_say(state, "warning", "%s Let a time server slew the clock instead, or set \"snowflake.clock\" to \"monotonic\". To clear this warning, call pg_stat_snowflake_reset().",
				  detail);
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
	TimestampTz earliest = DT_NOBEGIN;
	int64		behind_us = 0;
	char	   *detail;

	if (RecoveryInProgress())
	{
		check_row(state, "ok", "This is a standby, which draws no IDs. The checks \"clock\" and \"mark\" say what it would draw after a promotion.");
		return;
	}
	if (state->earliest != 0 && clock_timestamp_of_unit(state->earliest, &earliest))
	{
		behind_us = earliest - state->now;
		drift_us = Max(drift_us, earliest - wall);
	}

	if (behind_us > MAX_DRIFT_US / 2)
		detail = psprintf("IDs may have been issued with times up to %s, which is " INT64_FORMAT " ms ahead of the %s; \"snowflake.max_drift\" allows %d ms.",
						  clock_show(earliest), check_in_ms(behind_us), clock_name(),
						  snowflake_max_drift);
	else
		detail = psprintf("The time in IDs is " INT64_FORMAT " ms %s the server's clock; \"snowflake.max_drift\" is %d ms.",
						  check_in_ms(drift_us > 0 ? drift_us : -drift_us),
						  drift_us > 0 ? "ahead of" : "behind",
						  snowflake_max_drift);

	if (behind_us > MAX_DRIFT_US)
		check_say(state, "error", "%s %s", detail, mark_behind_hint());
	else if (behind_us > MAX_DRIFT_US / 2)
		check_say(state, "warning", "%s The clock was set back, or IDs are drawn faster than the layout allows. Set the clock, or draw fewer IDs at a time.",
				  detail);
	else if (drift_us > MAX_DRIFT_US / 2)
		check_say(state, "warning", "%s The clock was set back, and IDs follow it only after a restart. If the clock is right, restart the server%s.",
				  detail, drift_us <= MAX_DRIFT_US ? "" :
				  psprintf(" at a time when it can do without IDs for " INT64_FORMAT " ms",
						   check_in_ms(drift_us - MAX_DRIFT_US)));
	else
		check_row(state, "ok", clock_can_step() && drift_us <= 0 ?
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
		check_say(state, "ok", "The kernel does not tell whether the clock is synchronised: %m.");
	else if (result == TIME_ERROR || timex.status & STA_UNSYNC)
		check_row(state, "warning", "The kernel says that the clock is not synchronised. Start chronyd, ntpd or systemd-timesyncd.");
	else if (result == TIME_INS || result == TIME_OOP)
	{
		/* the last second of the day comes twice */
		if (clock_can_step() && MAX_DRIFT_US < USECS_PER_SEC)
			check_say(state, "warning", "A leap second comes at the end of the day, in UTC: the clock goes back by a second, and \"snowflake.max_drift\" allows %d ms. Set it to 1s, or let the time server smear the leap second.",
					  snowflake_max_drift);
		else
			check_row(state, "ok", "The kernel says that the clock is synchronised. A leap second comes at the end of the day, in UTC. IDs do not wait for it.");
	}
	else
		check_row(state, "ok", "The kernel says that the clock is synchronised.");
#else
	check_row(state, "ok", "The kernel does not tell whether the clock is synchronised.");
#endif
}

/* Is a background worker there, and does it what it is asked? */
static void
check_one_worker(CheckState *state, Worker *worker, const char *name)
{
	char	   *detail;
	char	   *hint;

	if (pg_atomic_read_u32(&worker->proc) == (uint32) -1)
		check_say(state, "error", "The background worker \"%s\" is not running. The server starts it again a second after it has ended. If it does not, see the server's log.",
				  name);
	else if (worker_describe(worker, &detail, &hint) == WORKER_HANGS)
		check_say(state, "warning", "%s %s", detail, hint);
}

static void
check_worker(CheckState *state)
{
	if (worker_is_left_out())
		check_say(state, "error", "\"max_worker_processes\" is %d, which leaves no place for the two background workers of snowflake. Raise it by 2, on standbys first, and restart the server.",
				  max_worker_processes);
	else if (RecoveryInProgress())
		check_row(state, "ok", "This is a standby: its background workers start when it is promoted.");
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
	WorkerState works;
	bool		covers;
	uint64		limit;
	TimestampTz reserved;
	int64		ahead_us;
	char	   *detail;
	char	   *hint;

	if (RecoveryInProgress())
	{
		check_standby_mark(state);
		return;
	}

	works = worker_describe(&shared->mark_writer, &detail, &hint);
	covers = mark_covers(earliest_time(state));
	if (works == WORKER_HINDERED || works == WORKER_FAILS)
	{
		check_say(state, "error", "%s %s", text_shown(detail), hint);

		/* where a health check keeps sessions away, nobody else asks */
		if (state->rsinfo == NULL && !worker_is_refusing(&shared->mark_writer))
			mark_ask(earliest_time(state));
		return;
	}

	/* work takes a moment; where sessions wait for it longer, it hangs */
	if (works == WORKER_HANGS || (works == WORKER_WORKS && !covers))
	{
		check_say(state, works == WORKER_WORKS ? "ok" : covers ? "warning" : "error", "%s %s",
				  detail, hint);
		return;
	}
	if ((works == WORKER_STARTS || works == WORKER_ABSENT) && !covers)
	{
		check_row(state, "warning", "The durable mark cannot be raised without the background worker.");
		return;
	}

	limit = pg_atomic_read_u64(&shared->mark.limit_unit);
	if (limit == 0)
	{
		check_say(state, "ok", "Nothing is reserved. The durable mark is in database \"%s\", or will be with the first ID.",
				  snowflake_database);
		return;
	}
	reserved = clock_unit_or_end(limit);
	ahead_us = reserved - state->now;
	detail = psprintf("The durable mark in database \"%s\" reserves IDs up to %s, which is " INT64_FORMAT " ms %s the clock; \"snowflake.reserve_window\" is %d ms.",
					  snowflake_database, clock_show(reserved),
					  check_in_ms(ahead_us > 0 ? ahead_us : -ahead_us),
					  ahead_us > 0 ? "ahead of" : "behind",
					  snowflake_reserve_window);

	/* IDs that are ahead take the mark with them; that is check_drift()'s */
	if (clock_timestamp_of_unit(state->earliest, &reserved))
		ahead_us = Min(ahead_us, ahead_us + state->now - reserved);
	if (ahead_us > check_mark_bound_us())
		check_say(state, "warning", "%s The setting was higher before, or somebody has changed the mark. After a crash no ID could be drawn before that time; a clean restart of the server lowers the mark.",
				  detail);
	else if (ahead_us <= 0)
		check_say(state, "ok", "%s The next ID raises it.", detail);
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
		check_row(state, "ok", "The layout has no worker field, so all backends share one slot.");
		return;
	}
	if (MaxConnections > (int64) nslots * BACKENDS_PER_SLOT)
		check_say(state, "warning", "%s More than %d backends may share a slot, and slow each other down when they draw at once. Set \"max_connections\" lower, on a primary before its standbys, and use a connection pooler.",
				  detail, BACKENDS_PER_SLOT);
	else
		check_row(state, "ok",
				  MaxConnections <= nslots ? detail :
				  psprintf("%s Backends that share one are safe, and a little slower.",
						   detail));
}

/* This share of what there is, in percent, is worth a warning. */
#define NEARLY_ALL	90

static bool
is_nearly_all(int64 part, int64 all)
{
	return (double) part >= (double) all * NEARLY_ALL / 100;
}

/*
 * What there is to say against a tag; NULL when all is well.
 */
static char *
describe_segment(Segment *segment, const char **status)
{
	bool		has_numbers = segment_has_numbers(segment);
	char	   *tag = pstrdup(utf8_to_server(segment->tag));

	*status = has_numbers ? "warning" : "error";
	if (segment->state == SEGMENT_ENDED)
		return psprintf("All numbers of tag \"%s\" up to its maximum value, " INT64_FORMAT ", have been given out to servers%s. %s",
						tag, segment->max_value, has_numbers ? "" : ", and this server has none left",
						SEGMENT_ENDED_HINT(segment->max_value));
	if (segment->is_failing)
		return psprintf("No segment of tag \"%s\" could be fetched. %s", tag,
						text_shown(utf8_to_server(segment->error)));
	*status = "warning";
	if (segment->state == SEGMENT_OPEN && is_nearly_all(segment->seen, segment->max_value))
		return psprintf("Numbers of tag \"%s\" up to " INT64_FORMAT " of " INT64_FORMAT " have been given out to servers.",
						tag, segment->seen, segment->max_value);
	return NULL;
}

/* Are there numbers to draw from segments? */
static void
check_segments(CheckState *state)
{
	Segments   *segments = &shared->segments;
	int			ntags = 0;
	char		error[SEGMENT_MESSAGE_SIZE];

	for (int i = 0; i < shared->nsegments; i++)
	{
		Segment		segment;
		const char *status;
		char	   *detail;

		segment_copy(i, &segment);
		if (segment.state == SEGMENT_FREE || segment.state == SEGMENT_MISSING)
			continue;
		ntags++;
		detail = describe_segment(&segment, &status);
		if (detail != NULL)
			check_row(state, status, detail);
	}

	if (ntags == 0)
	{
		check_row(state, "ok", "No numbers were drawn from segments since the server was started.");
		return;
	}

	LWLockAcquire(segments->lock, LW_SHARED);
	strlcpy(error, segments->error, sizeof(error));
	LWLockRelease(segments->lock);
	if (snowflake_registry[0] != '\0' && !segment_is_valid())
		check_say(state, "error", "Sessions cannot draw numbers: the registry has not answered for longer than \"snowflake.lease_ttl\", or than its own maximum. %s",
				  text_shown(utf8_to_server(error)));
	else if (error[0] != '\0')
		check_row(state, "warning", text_shown(utf8_to_server(error)));
	if (segment_is_apart())
		check_row(state, "warning", "This database shares rows with other servers, by Citus or a subscription, and \"snowflake.registry\" is not set. Tags of the same name on other servers give out the same numbers. Set \"snowflake.registry\" on all servers, and create the tags again, with a start above the numbers in use.");
	if (is_nearly_all(ntags, shared->nsegments))
		check_say(state, "warning", "Tags in use: %d. \"snowflake.max_segment_tags\" allows %d.",
				  ntags, shared->nsegments);
	if (state->nrows == 0)
		check_say(state, "ok", "Tags in use: %d.%s", ntags,
				  snowflake_registry[0] != '\0' ? "" :
				  " Their numbers are unique on this server only, as \"snowflake.registry\" is not set.");
}

/* Who holds snowflake_horizon() back, where somebody asks for it? */
static void
check_horizon(CheckState *state)
{
	OpenDraw	oldest;
	int			nestlevel;
	char	   *who;
	int64		age_us = 0;

	if (RecoveryInProgress() || !shared->horizon_is_used)
	{
		check_row(state, "ok", "Nobody has called snowflake_horizon() since the server was started.");
		return;
	}
	if (open_draws_oldest(MyDatabaseId, MAX_TIME + 1, &oldest))
		age_us = clock_read() - clock_unit_or_end(oldest.unit);
	if (age_us < USECS_PER_MINUTE)
	{
		check_row(state, "ok", "No transaction of this database holds snowflake_horizon() back for a minute or more.");
		return;
	}

	nestlevel = check_begin();
	if (oldest.pid != 0)
		who = psprintf("the process with PID %d", oldest.pid);
	else if (check_query(psprintf("SELECT gid FROM pg_prepared_xacts WHERE transaction = '%u'", oldest.xid)) > 0)
		who = psprintf("the prepared transaction %s", quote_literal_cstr(check_value(0, 1)));
	else
		who = pstrdup("a prepared transaction");
	if (oldest.unit == 0)
		check_say(state, "warning", "snowflake_horizon() is 0, and readers see no rows, because of %s. It was prepared before the server was started, and may have drawn any ID. Run COMMIT PREPARED or ROLLBACK PREPARED.",
				  who);
	else
		check_say(state, "warning", "snowflake_horizon() stays at %s, and readers see no later rows, because of %s. It drew an ID then, and its transaction has not ended.",
				  clock_show(clock_unit_or_end(oldest.unit)), who);
	check_end(nestlevel);
}

/* What do publications and subscriptions do in the home database? */
static void
check_replication(CheckState *state)
{
	check_call(state, psprintf("check_replication(%s, %s, '" HOW_TO_MOVE "')",
							   quote_literal_cstr(snowflake_database),
							   snowflake_registry[0] == '\0' ? "false" : "true"));
}

/* Is there an extension of the same name, such as pgEdge's, or what it left? */
static void
check_other_extension(CheckState *state)
{
	check_call(state, "check_other_extension('" SNOWFLAKE_VERSION "')");
}

/* Do partitions by time take the IDs of now, and of what comes next? */
static void
check_partitions(CheckState *state)
{
	uint64		id = layout_unit_first_id(&snowflake_layout, state->unit);

	if (layout_sorts_by_time(&snowflake_layout))
		check_call(state, psprintf("check_partitions(" UINT64_FORMAT ")",
								   Min(id, (uint64) layout_max_id(&snowflake_layout))));
	else
		check_row(state, "ok", "The time is not the highest field of the layout, so there are no partitions by time.");
}

/*
 * In the order of the rows.  "of_drawing": an error there keeps IDs from being
 * drawn.  "unloaded": the row where the library is not preloaded, an error if
 * the check is of drawing, or of the workers; NULL to look nevertheless.
 */
static const struct
{
	const char *name;
	void		(*function) (CheckState *state);
	bool		of_drawing;
	const char *unloaded;
}			checks[] =

{
	{"preload", check_preload, true},
	{"settings", check_settings, false, "They are checked when snowflake is preloaded."},
	{"extension", check_own_extension},
	{"node_id", check_node_id, true},
	{"registry", check_registry, true},
	{"layout", check_layout},
	{"lifetime", check_lifetime, true},
	{"clock", check_clock, true},
	{"steps", check_steps, false, "The server does not watch its clock, as snowflake is not preloaded."},
	{"drift", check_drift, true},
	{"time_sync", check_time_sync},
	{"worker", check_worker, false, "There are no background workers, as snowflake is not preloaded."},
	{"mark", check_mark, true, "There is no background worker to keep the durable mark, as snowflake is not preloaded."},
	{"slots", check_slots},
	{"horizon", check_horizon, false, "There is no horizon, as snowflake is not preloaded."},
	{"segments", check_segments, false, "There are no segments, as snowflake is not preloaded."},
	{"replication", check_replication},
	{"other_extension", check_other_extension},
	{"tables", check_tables},
	{"partitions", check_partitions}
};

static void
run_check(CheckState *state, void *arg)
{
	int			i = *(int *) arg;

	if (shared != NULL || checks[i].unloaded == NULL)
		checks[i].function(state);
	else
		check_row(state, checks[i].of_drawing || checks[i].function == check_worker ? "error" : "ok",
				  checks[i].unloaded);
}

/* All checks; without a result those of drawing, until there is an error. */
static void
run_checks(CheckState *state)
{
	/* before the clock: what is drawn meanwhile must not look ahead of it */
	if (shared != NULL && mark_last_unit(&state->earliest))
		state->earliest = Max(state->earliest,
							  pg_atomic_read_u64(&shared->mark.floor_unit));
	else
		state->earliest = 0;
	state->now = clock_read();
	state->unit = layout_unit_floor(&snowflake_layout, clock_since_epoch(state->now));

	for (int i = 0; i < (int) lengthof(checks); i++)
	{
		char	   *failure;

		if (state->rsinfo == NULL && (!checks[i].of_drawing || state->error != NULL))
			continue;
		state->check = checks[i].name;
		state->nrows = 0;
		failure = check_try(run_check, state, &i);
		if (failure != NULL)
			check_say(state, "error", "The check failed: %s.", failure);
	}
}

Datum
snowflake_check(PG_FUNCTION_ARGS)
{
	CheckState	state = {
		.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo,
		.schema = get_func_namespace(fcinfo->flinfo->fn_oid),
	};

	InitMaterializedSRF(fcinfo, 0);
	run_checks(&state);
	return (Datum) 0;
}

Datum
snowflake_can_draw(PG_FUNCTION_ARGS)
{
	CheckState	state = {0};
	Datum		values[2] = {BoolGetDatum(true)};
	bool		nulls[2] = {false, true};

	run_checks(&state);
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
	PG_RETURN_DATUM(make_record(fcinfo, values, nulls));
}
