/*-------------------------------------------------------------------------
 *
 * lease.c
 *		The node number of this server, if a registry leases or registers it.
 *
 * A lease is a number until a deadline by the steady clock, and a mark: IDs
 * with this number may be issued only at times below the mark.  lease_fetch.c
 * gets both from the registry; this file applies them to this server.
 *
 * There are two fences.  Past the deadline this server issues nothing.  And it
 * issues nothing at or above the mark, while the server that gets the number
 * next issues nothing below that mark (its floor).  The second fence alone
 * keeps IDs unique, even if a backend sleeps for an hour between looking at
 * the deadline and taking an ID, or if a clock is wrong.
 *
 * The published limit (mark.c) is never above the mark.  So a backend that
 * obeys the limit obeys the mark.  Backends read the limit first and then the
 * number.  When the number changes,
 *
 *	1. the services remember it with its floor in the home database, and commit;
 *	2. they offer it to the mark writer, which raises the words to the limit so
 *	   far, and to the floor: then no ID with the old number can be issued any
 *	   more;
 *	3. the mark writer publishes the number with its floor and mark, and after
 *	   it a limit for it;
 *	4. when it has taken the offer, the services set the new deadline.
 *
 * So no ID has the old number and a time above the old limit, nor the new
 * number and a time below.
 *
 * The lease is remembered in the home database, so that a restart can go on
 * with it while the registry is away: on the same boot of the same machine, as
 * the deadline means nothing on another, and in the same data directory, as a
 * copy must not go on with the number of the original.
 *
 * A configured number is registered: that is a lease without an end.  It
 * belongs to a token, which is written into the home database before the
 * registry is told of it, and which every later start presents, also on another
 * machine and after a promotion.  Such a server waits for the registry until it
 * was registered once, and after a refusal, which is remembered as a deadline
 * of 0, until it is registered again; else not.
 *
 * What this server has seen of the registry is remembered too.  By it the
 * server recognizes an old primary of the registry, in whose place another one
 * was promoted; and the registry learns whether it has lost something.
 *
 * Locking: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "home.h"
#include "instance.h"
#include "lease.h"
#include "mark.h"
#include "utf8.h"
#include "worker.h"

/* Half of what the registry lets marks be ahead of the deadline. */
#define MARK_ROUNDING_US	(5 * USECS_PER_SEC)

#define TABLE		HOME_EXTENSION ".lease"
#define COLUMNS		"node, deadline, mark, floor, token, instance, timeline, origin, registry, changes, renewals"

/*
 * Of the number that is offered to the mark writer: the deadline once it is
 * taken, 0 for none; and the number so far, for the log.  Not in shared
 * memory, as the next process could not tell whether the offer was made.
 */
static struct
{
	int64		deadline_us;
	int			before;
}			offered;

static const RegistrySeen nothing_seen = {.changes = -1,.renewals = -1};

void
lease_init_shmem(void)
{
	Lease	   *lease = &shared->lease;

	pg_atomic_init_u32(&lease->is_used, 0);
	pg_atomic_init_u32(&lease->node, (uint32) -1);
	pg_atomic_init_u64(&lease->deadline_us, 0);
	pg_atomic_init_u64(&lease->mark_us, 0);
	pg_atomic_init_u32(&lease->offered, 0);
	pg_atomic_init_u32(&lease->taken, 0);
	pg_atomic_init_u64(&lease->clock_offset_us, 0);
	pg_atomic_init_u32(&lease->free_numbers, (uint32) -1);
	lease->seen = nothing_seen;
	lease->recalled_node = -1;
	lease->remembered_node = -1;
}

bool
lease_is_valid(void)
{
	uint64		deadline;

	if (!settings_need_lease() && !lease_is_used() &&
		pg_atomic_read_u32(&shared->lease.is_used) == 0)
		return true;
	deadline = pg_atomic_read_u64(&shared->lease.deadline_us);
	return deadline != 0 && (uint64) clock_read_steady() < deadline;
}

bool
lease_covers(uint64 unit)
{
	return !settings_need_lease() ||
		unit < mark_to_unit((int64) pg_atomic_read_u64(&shared->lease.mark_us), false);
}

TimestampTz
lease_ends_at(void)
{
	uint64		deadline = pg_atomic_read_u64(&shared->lease.deadline_us);

	if (!lease_is_used() || deadline == 0)
		return DT_NOBEGIN;
	if (deadline == PG_INT64_MAX)
		return DT_NOEND;
	return GetCurrentTimestamp() + ((int64) deadline - clock_read_steady());
}

/* A text of the lease, in the encoding of the database. */
static const char *
read_text(const char *text)
{
	char		copy[LEASE_ERROR_SIZE];

	LWLockAcquire(shared->lock, LW_SHARED);
	strlcpy(copy, text, sizeof(copy));
	LWLockRelease(shared->lock);
	return pstrdup(utf8_to_server(copy));
}

const char *
lease_warning(void)
{
	return lease_is_used() ? read_text(shared->lease.warning) : "";
}

bool
lease_describe(char **detail, char **hint)
{
	const char *error = read_text(shared->lease.error);
	const char *error_hint = read_text(shared->lease.hint);
	const char *none = "The registry has not answered the background worker yet.";
	int			node = lease_node();
	TimestampTz ends = lease_ends_at();

	if (lease_is_registration())
		*detail = psprintf(lease_is_valid() ? "This server is node %d, as registered in the registry." :
						   "Node number %d of this server is not registered in the registry.", node);
	else if (lease_is_valid())
		*detail = psprintf("This server is node %d until %s, as leased from the registry.",
						   node, timestamptz_to_str(ends));
	else if (node >= 0 && !TIMESTAMP_IS_NOBEGIN(ends))
		*detail = psprintf("The lease of node number %d ended at %s.",
						   node, timestamptz_to_str(ends));
	else
		*detail = NULL;
	if (error[0] != '\0' || *detail == NULL)
		*detail = psprintf("%s%s%s", *detail ? *detail : "", *detail ? " " : "",
						   error[0] != '\0' ? error : none);
	*hint = pstrdup(error_hint[0] != '\0' ? error_hint :
					"The background worker goes on asking the registry, \"snowflake.registry\".");
	return error[0] != '\0';
}

void
lease_wait(uint64 unit, Wait *wait)
{
	int64		left_ms = wait_left_ms(wait);
	char	   *detail;
	char	   *hint;

	CHECK_FOR_INTERRUPTS();
	if (left_ms <= 0)
	{
		bool		is_refused = shared->lease.is_refused;

		pg_atomic_fetch_add_u64(&shared->stats.timeouts, 1);
		(void) lease_describe(&detail, &hint);
		ereport(ERROR,
				(errcode(wait_sqlstate(!is_refused)),
				 lease_is_valid() ?
				 errmsg("cannot generate a snowflake ID: the clock is past the end of the lease of the node number") :
				 lease_is_registration() ?
				 errmsg("cannot generate a snowflake ID: node number %d is not registered", lease_node()) :
				 errmsg("cannot generate a snowflake ID: this server has no node number at the moment"),
				 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.",
						   text_shown(detail), snowflake_max_wait),
				 errdetail_log("%s", detail),
				 errhint("%s", hint)));
	}

	if (wait_is_long(wait, WAIT_NODE))
	{
		(void) lease_describe(&detail, &hint);
		wait_log(wait, "a node number, to draw a snowflake ID,", detail, hint);
	}

	ConditionVariablePrepareToSleep(&shared->mark_writer.changed);
	if (!lease_is_valid() || !lease_covers(unit))
		wait_sleep(wait, WAIT_NODE, &shared->mark_writer.changed, left_ms);
	ConditionVariableCancelSleep();
}

/*
 * The services' part
 */

/*
 * The secret by which the registry knows this start of the server, or the
 * registration.
 */
const char *
lease_token(void)
{
	Lease	   *lease = &shared->lease;

	instance_name_start(lease->token, sizeof(lease->token));
	return lease->token;
}

/*
 * The number that the server has, or had before it stopped, -1 for none; and
 * the token that it had it with before this start, '' for none.
 */
int
lease_held(const char **token)
{
	Lease	   *lease = &shared->lease;
	int			node = (int) pg_atomic_read_u32(&lease->node);

	*token = lease->recalled_token;
	return node >= 0 ? node : lease->recalled_node;
}

/*
 * By this text the registry knows the server again after a restart, and gives
 * it the same number.  A server that has lost something may not go on with
 * that number, so its text must be another one.  The timeline in it, of when
 * this server first had that text, sees to that.
 */
const char *
lease_instance(void)
{
	const char *instance = instance_text();

	return instance[0] == '\0' ? "" :
		psprintf("%s, timeline %u", instance, shared->lease.origin);
}

bool
lease_fits(int64 node)
{
	return node >= 0 && (uint64) node <= snowflake_layout.max[FIELD_NODE] &&
		(!lease_is_registration() || node == snowflake_node_id);
}

/*
 * Ahead of all IDs that can be issued until the deadline, in whole units unless
 * they are so long that the registry would find that too far ahead; not before
 * the mark that it has, which the registry may have lost.
 */
int64
lease_wanted_mark(void)
{
	int64		mark = lease_is_registration() || !lease_is_valid() ? 0 :
		(int64) pg_atomic_read_u64(&shared->lease.mark_us);
	TimestampTz from = clock_read();
	TimestampTz until;
	TimestampTz ts;
	uint64		unit;

	if (mark_last_unit(&unit) && clock_timestamp_of_unit(unit, &ts))
		from = Max(from, ts);
	until = from + LEASE_TTL_US;
	unit = mark_to_unit(until + UNIX_EPOCH_US, true);
	if (clock_timestamp_of_unit(unit, &ts))
		until = Max(until, Min(ts, until + MARK_ROUNDING_US));
	return Max(until + UNIX_EPOCH_US, mark);
}

static void
begin(const char *activity)
{
	home_begin(activity);

	/* it is for this server only */
	home_run("SET LOCAL synchronous_commit = local");
}

static void
write_row(const Grant *grant)
{
	RegistrySeen seen = lease_seen();
	const char *row[] = {
		psprintf("%d", grant->node),
		psprintf(INT64_FORMAT, grant->deadline_us),
		psprintf(INT64_FORMAT, grant->mark_us),
		psprintf(INT64_FORMAT, grant->floor_us),
		grant->token,
		instance_text(),
		psprintf("%u", GetWALInsertionTimeLine()),
		psprintf("%u", shared->lease.origin),
		seen.timeline,
		psprintf(INT64_FORMAT, seen.changes),
		psprintf(INT64_FORMAT, seen.renewals)
	};

	home_create();
	if (home_run_texts("INSERT INTO " TABLE " (" COLUMNS ")"
					   " VALUES ($1::integer, $2::bigint, $3::bigint, $4::bigint, $5::uuid, $6,"
					   "  $7::bigint, $8::bigint, $9, $10::bigint, $11::bigint)"
					   " ON CONFLICT (only_row) DO UPDATE SET (" COLUMNS ") ="
					   "  (SELECT " COLUMNS " FROM (SELECT EXCLUDED.*) AS new)",
					   lengthof(row), row) != 1)
		elog(ERROR, "could not write to " TABLE);
}

/*
 * Remember the lease in the home database.  Not each renewal, which would let
 * an idle server write: when the token or the number is a new one, when a
 * quarter of the time is gone and IDs were drawn since, and at a shutdown.  And
 * what a registration begins and ends with.
 */
static void
remember(const Grant *grant)
{
	Lease	   *lease = &shared->lease;
	RegistrySeen seen = lease_seen();

	begin("remembering the lease of the node number");
	write_row(grant);
	home_commit();
	lease->remembered_node = grant->node;
	lease->remembered_deadline_us = grant->deadline_us;
	strlcpy(lease->remembered_token, grant->token, sizeof(lease->remembered_token));
	strlcpy(lease->remembered_registry, seen.timeline, sizeof(lease->remembered_registry));
}

static Grant
current_grant(void)
{
	Lease	   *lease = &shared->lease;

	return (Grant) {
		.node = (int) pg_atomic_read_u32(&lease->node),
		.token = lease->known_token,
		.deadline_us = (int64) pg_atomic_read_u64(&lease->deadline_us),
		.mark_us = (int64) pg_atomic_read_u64(&lease->mark_us),
		.floor_us = lease->floor_us
	};
}

void
lease_remember(void)
{
	Lease	   *lease = &shared->lease;
	Grant		grant = current_grant();
	uint64		last;

	(void) mark_last_unit(&last);
	if (grant.node < 0 || grant.deadline_us == 0 ||
		(grant.node == lease->remembered_node && lease->remembered_deadline_us != 0 &&
		 strcmp(lease->remembered_token, lease->known_token) == 0 &&
		 (last == lease->remembered_last_unit ||
		  grant.deadline_us - lease->remembered_deadline_us <
		  (grant.deadline_us - clock_read_steady()) / 4)))
		return;

	remember(&grant);
	lease->remembered_last_unit = last;
}

/*
 * A lock on the row can be held by a prepared transaction alone: of a superuser,
 * who writes to it by hand.
 */
void
lease_remember_at_exit(void)
{
	Grant		grant = current_grant();

	if (grant.node < 0 || grant.deadline_us == 0)
		return;

	if (home_begin_at_exit("remembering the lease of the node number", "lease"))
		write_row(&grant);
	home_end_at_exit();
}

/*
 * Where none is, number, floor and mark stay until one is.
 */
bool
lease_is_offered(void)
{
	bool		is_offered = pg_atomic_read_u32(&shared->lease.offered) !=
		pg_atomic_read_u32(&shared->lease.taken);

	pg_memory_barrier();
	return is_offered;
}

/*
 * The mark writer goes on with another number.  Called while nothing is
 * offered.
 */
static void
offer(const Grant *grant)
{
	Lease	   *lease = &shared->lease;

	lease->offer.node = grant->node;
	lease->offer.floor_us = grant->floor_us;
	lease->offer.mark_us = grant->mark_us;
	offered.before = (int) pg_atomic_read_u32(&lease->node);
	offered.deadline_us = grant->deadline_us;
	pg_write_barrier();
	pg_atomic_write_u32(&lease->offered, pg_atomic_read_u32(&lease->offered) + 1);
	worker_wake(&shared->mark_writer);
}

/*
 * Has the mark writer taken what was offered?  Then IDs may be issued with it.
 */
void
lease_settle(void)
{
	int64		deadline = offered.deadline_us;
	int			node;

	if (deadline == 0 || lease_is_offered())
		return;
	offered.deadline_us = 0;
	pg_atomic_write_u64(&shared->lease.deadline_us, (uint64) deadline);
	ConditionVariableBroadcast(&shared->mark_writer.changed);
	node = lease_node();
	ereport(LOG,
			(lease_is_registration() ?
			 errmsg("this server is registered as snowflake node %d", node) :
			 offered.before < 0 || offered.before == node ?
			 errmsg("this server has leased the snowflake node number %d", node) :
			 errmsg("this server has leased the snowflake node number %d and is no longer node %d",
					node, offered.before)));
}

/*
 * Go on with what was granted.  The same number with a higher floor is as good
 * as another number: another server had it in between.
 */
void
lease_take(const Grant *grant)
{
	Lease	   *lease = &shared->lease;

	lease_settle();
	if (lease_is_offered())
		return;					/* it will be granted again */

	lease_note_error("", "", false);
	strlcpy(lease->known_token, grant->token, sizeof(lease->known_token));
	if (grant->node != (int) pg_atomic_read_u32(&lease->node) ||
		grant->floor_us > lease->floor_us)
	{
		Grant		taken = *grant;

		/* with the number so far it is over, whatever fails from here on */
		pg_atomic_write_u64(&lease->deadline_us, 0);

		/* the floor of the number is that from when it was given */
		if (grant->node == lease->recalled_node)
			taken.floor_us = Max(taken.floor_us, lease->recalled_floor_us);

		remember(&taken);
		offer(&taken);
	}
	else
	{
		shmem_raise(&lease->mark_us, (uint64) grant->mark_us);
		worker_wake(&shared->mark_writer);
		pg_atomic_write_u64(&lease->deadline_us, (uint64) grant->deadline_us);
		ConditionVariableBroadcast(&shared->mark_writer.changed);
	}
}

void
lease_lose(const char *reason, const char *hint, bool passes)
{
	bool		had = lease_is_valid();
	bool		is_due;
	uint64		left_out;

	pg_atomic_write_u64(&shared->lease.deadline_us, 0);
	offered.deadline_us = 0;
	lease_note_error(reason, hint, !passes);

	is_due = log_is_due(LOG_OF_REGISTRY, &left_out);
	if (had || is_due)
		ereport(WARNING,
				(had ?
				 errmsg("this server no longer issues snowflake IDs as node %d", lease_node()) :
				 lease_is_registration() ?
				 errmsg("could not register the snowflake node number %d", lease_node()) :
				 errmsg("could not lease a snowflake node number"),
				 errdetail("%s%s", reason, log_left_out(left_out)),
				 hint[0] != '\0' ? errhint("%s", hint) : 0));

	/* the next start is not to go on with it either */
	if (lease_is_registration() && shared->lease.remembered_deadline_us != 0)
	{
		begin("remembering that the node number is not registered");
		home_run("UPDATE " TABLE " SET deadline = 0");
		home_commit();
		shared->lease.remembered_deadline_us = 0;
	}
}

void
lease_note_error(const char *error, const char *hint, bool is_refused)
{
	Lease	   *lease = &shared->lease;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	utf8_copy(lease->error, sizeof(lease->error), error);
	utf8_copy(lease->hint, sizeof(lease->hint), hint);
	lease->is_refused = is_refused;
	LWLockRelease(shared->lock);
}

void
lease_note_warning(const char *warning)
{
	uint64		left_out;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	utf8_copy(shared->lease.warning, sizeof(shared->lease.warning), warning);
	LWLockRelease(shared->lock);
	if (warning[0] != '\0' && log_is_due(LOG_OF_NUMBER, &left_out))
		ereport(WARNING,
				(errmsg("another server has, or asks for, the snowflake node number %d", lease_node()),
				 errdetail("%s%s", warning, log_left_out(left_out)),
				 errhint(LEASE_WARNING_HINT)));
}

RegistrySeen
lease_seen(void)
{
	RegistrySeen seen;

	LWLockAcquire(shared->lock, LW_SHARED);
	seen = shared->lease.seen;
	LWLockRelease(shared->lock);
	return seen;
}

void
lease_note_seen(const char *timeline, int64 changes, int64 renewals)
{
	RegistrySeen *seen = &shared->lease.seen;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	strlcpy(seen->timeline, timeline, sizeof(seen->timeline));
	seen->changes = changes;
	seen->renewals = renewals;
	LWLockRelease(shared->lock);
}

/*
 * The services overwrite what is remembered of it in the home database after
 * the next answer.  If the server crashes before that, call this again.
 */
void
lease_forget_seen(void)
{
	Lease	   *lease = &shared->lease;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	lease->seen = nothing_seen;
	lease->seen_forgotten = true;
	lease->to_retry = true;
	LWLockRelease(shared->lock);
	worker_wake(&shared->services);
}

bool
lease_retry(void)
{
	bool		to_retry;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	to_retry = shared->lease.to_retry;
	shared->lease.to_retry = false;
	LWLockRelease(shared->lock);
	return to_retry;
}

/*
 * With or without a lease: when the registry is on another timeline, or a
 * session had this server forget what it had seen.  All else is remembered
 * with the lease.
 */
void
lease_remember_seen(void)
{
	Lease	   *lease = &shared->lease;
	RegistrySeen seen;
	bool		was_forgotten;

	LWLockAcquire(shared->lock, LW_SHARED);
	seen = lease->seen;
	was_forgotten = lease->seen_forgotten;
	LWLockRelease(shared->lock);
	if (!was_forgotten && strcmp(seen.timeline, lease->remembered_registry) == 0)
		return;

	begin("remembering what was seen of the registry");
	if (home_exists())
		home_run("UPDATE " TABLE " SET (registry, changes, renewals) = ROW (%s, " INT64_FORMAT ", " INT64_FORMAT ")",
				 quote_literal_cstr(seen.timeline), seen.changes, seen.renewals);
	home_commit();
	strlcpy(lease->remembered_registry, seen.timeline, sizeof(lease->remembered_registry));
	if (was_forgotten)
	{
		/* not when it was forgotten once more meanwhile */
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		if (lease->seen.changes == seen.changes)
			lease->seen_forgotten = false;
		LWLockRelease(shared->lock);
	}
}

/* Of the row that was read from the home database. */
static void
recall_seen(void)
{
	Lease	   *lease = &shared->lease;
	RegistrySeen seen = {
		.changes = DatumGetInt64(home_value("changes")),
		.renewals = DatumGetInt64(home_value("renewals"))
	};

	strlcpy(seen.timeline, TextDatumGetCString(home_value("registry")), sizeof(seen.timeline));
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (!lease->seen_forgotten)
		lease->seen = seen;
	LWLockRelease(shared->lock);
	strlcpy(lease->remembered_registry, seen.timeline, sizeof(lease->remembered_registry));
}

/*
 * At start: go on with the lease that is remembered.  Only if it is of this
 * boot of this machine and of this data directory, which has lost nothing
 * since; if the number fits the layout, which may have changed; and if there
 * is time left.  Else the registry may still know this server by the token
 * that it had then.
 *
 * With a registration it goes on wherever that came from, if it is of the
 * configured number and stands.  Another number gets a token of its own, and
 * nothing is said of the former one: the registry has that until somebody
 * releases it.
 *
 * A row of another instance is marked as such.  Otherwise this server could
 * take it for its own at a later start, when its timeline is one on which it
 * was a primary.
 */
void
lease_recall(void)
{
	Lease	   *lease = &shared->lease;
	Grant		grant = {0};
	bool		is_ours = false;
	bool		goes_on = false;
	char		token[LEASE_TOKEN_SIZE] = "";
	TimeLineID	origin = GetWALInsertionTimeLine();

	if (lease->recalled)
		return;

	begin("reading the lease of the node number");
	if (home_exists() &&
		home_run("SELECT *, token::text AS token_text, instance = %s AS is_same FROM " TABLE,
				 quote_literal_cstr(instance_text())) > 0)
	{
		TimeLineID	timeline = (TimeLineID) DatumGetInt64(home_value("timeline"));

		grant.node = DatumGetInt32(home_value("node"));
		grant.deadline_us = DatumGetInt64(home_value("deadline"));
		grant.mark_us = DatumGetInt64(home_value("mark"));
		grant.floor_us = DatumGetInt64(home_value("floor"));
		grant.token = TextDatumGetCString(home_value("token_text"));
		is_ours = DatumGetBool(home_value("is_same")) && instance_text()[0] != '\0' &&
			instance_goes_on(timeline);
		if (is_ours)
			origin = (TimeLineID) DatumGetInt64(home_value("origin"));
		if (!lease_is_registration() || grant.node == snowflake_node_id)
		{
			lease->remembered_deadline_us = grant.deadline_us;
			lease->recalled_node = grant.node;
			lease->recalled_floor_us = grant.floor_us;
			strlcpy(lease->recalled_token, grant.token, sizeof(lease->recalled_token));
		}
		if (lease_fits(grant.node) && (grant.mark_us == PG_INT64_MAX) == lease_is_registration())
		{
			strlcpy(token, grant.token, sizeof(token));
			goes_on = lease_is_registration() ? grant.deadline_us != 0 :
				is_ours && clock_read_steady() < grant.deadline_us;
		}
		grant.token = lease->recalled_token;
		recall_seen();
		if (!is_ours)
			home_run("UPDATE " TABLE " SET instance = '' WHERE instance <> ''");
		else if (timeline != GetWALInsertionTimeLine())

			/* so that it is this server's after the next crash, too */
			home_run("UPDATE " TABLE " SET timeline = %u", GetWALInsertionTimeLine());
	}
	lease->origin = origin;
	if (lease_is_registration() && token[0] == '\0')
	{
		instance_name_start(token, sizeof(token));
		write_row(&(Grant) {snowflake_node_id, token, 0, PG_INT64_MAX, lease->recalled_floor_us});
	}
	home_commit();
	if (lease_is_registration())
		strlcpy(lease->token, token, sizeof(lease->token));

	/* the registry takes it from there: it knows that token */
	if (goes_on)
		lease_take(&grant);
	lease->recalled = true;
}
