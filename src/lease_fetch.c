/*-------------------------------------------------------------------------
 *
 * lease_fetch.c
 *		Asking the registry for a node number, again and again.
 *
 * The registry is a database whose snowflake_lease_node() leases and renews
 * numbers, and registers configured ones.  The services ask it every RENEW_MS,
 * over a link of its own (registry_link.c).  The answers go to lease.c.
 *
 * The state is the process's own.  The next one begins anew, with the same
 * token.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "postmaster/postmaster.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "instance.h"
#include "lease.h"
#include "registry_link.h"

#define RENEW_MS	3000
#define OFFER_MS	100
#define PEERS_MS	120000

/*
 * All of a request in one statement, and so in one transaction: what it
 * answers counts when that is committed.  Times go as microseconds since 1970.
 */
static const char request_sql[] =
	"SELECT protocol, node, floor, granted,"
	" (extract(epoch FROM lease_ttl) OPERATOR(pg_catalog.*) 1000000)::bigint,"
	" (extract(epoch FROM registry_clock) OPERATOR(pg_catalog.*) 1000000)::bigint,"
	" peers, (extract(epoch FROM peers_offset) OPERATOR(pg_catalog.*) 1000000)::bigint,"
	" timeline, changes, renewals, free, warning,"
	" refusal, refusal_passes, refusal_detail, refusal_hint"
	" FROM %ssnowflake_lease_node("
	"protocol => " CppAsString2(LINK_PROTOCOL) ", token => $1::uuid, number => $2::integer,"
	" held => $3::integer, held_token => $4::uuid,"
	" remaining => $5::bigint OPERATOR(pg_catalog.*) interval '1 us',"
	" instance => $6::text, max_node => $7::integer,"
	" lease_ttl => $8::bigint OPERATOR(pg_catalog.*) interval '1 us',"
	" mark => $9::bigint, clock => $10::timestamptz,"
	" clock_offset => $11::bigint OPERATOR(pg_catalog.*) interval '1 us',"
	" layout => $12::text, host => $13::text, port => $14::integer,"
	" system_identifier => $15::bigint, seen => $16::bigint,"
	" renewals => $17::bigint, wants_peers => $18::boolean)";

#define REQUEST_PARAMS	18

/* The columns of the answer. */
enum
{
	COL_PROTOCOL, COL_NODE, COL_FLOOR, COL_GRANTED, COL_LEASE_TTL, COL_CLOCK,
	COL_PEERS, COL_PEERS_OFFSET, COL_TIMELINE, COL_CHANGES, COL_RENEWALS,
	COL_FREE, COL_WARNING, COL_REFUSAL, COL_PASSES, COL_DETAIL, COL_HINT
};

static struct
{
	int64		ask_at;			/* steady clock, on this connection */

	/* For how long it was asked, and until when the lease was. */
	int64		lease_ttl;		/* in microseconds */
	int64		valid_until;	/* steady clock, 0 when there was none */

	/* The other servers, which are looked at from time to time. */
	int64		peers_at;		/* when next, by the steady clock */
	int64		peers;			/* how many */
	int64		peers_offset;	/* the median of theirs, in microseconds */
}			registry;

/*
 * At once on a new connection, else some time after the last answer.  Not
 * while it is not known which number this server has.
 */
static int64
due(void)
{
	if (lease_is_offered())
		return clock_read_steady() + OFFER_MS * 1000;
	return lease_link.has_asked ? registry.ask_at : 0;
}

/* The lease goes on for as long as it lasts. */
static const char *
failed(const LinkFailure *failure, const char **hint)
{
	const char *what = failure->hint != NULL ? failure->hint : "";

	lease_note_error(failure->sentence, what, !failure->passes);
	if (lease_is_valid())
		*hint = psprintf("%s%s%s", what, *what != '\0' ? " " : "", lease_is_registration() ?
						 "The server goes on issuing IDs, as it is registered." :
						 psprintf("The server can go on issuing IDs until %s.",
								  timestamptz_to_str(lease_ends_at())));
	else if (failure->hint == NULL)
		*hint = "The server issues no ID until the registry gives it a number, or registers the configured one.";
	if (lease_is_registration())
		return psprintf(lease_is_valid() ? "could not confirm the snowflake node number %d" :
						"could not register the snowflake node number %d", lease_node());
	return lease_is_valid() ?
		psprintf("could not renew the lease of the snowflake node number %d", lease_node()) :
		"could not lease a snowflake node number";
}

static bool
build_request(RegistryLink *link, LinkRequest *request, bool is_first)
{
	const char **values = request->values;
	const char *held_token;
	int			held = lease_held(&held_token);
	int			n = 0;
	char		layout[LAYOUT_TEXT_SIZE];
	RegistrySeen seen = lease_seen();

	registry.valid_until = lease_is_valid() ?
		(int64) pg_atomic_read_u64(&shared->lease.deadline_us) : 0;
	registry.lease_ttl = LEASE_TTL_US;

	values[n++] = lease_token();
	values[n++] = lease_is_registration() ? psprintf("%d", lease_node()) : NULL;
	values[n++] = held < 0 ? NULL : psprintf("%d", held);
	values[n++] = held_token[0] == '\0' ? NULL : held_token;
	values[n++] = psprintf(INT64_FORMAT, registry.valid_until == PG_INT64_MAX ? registry.lease_ttl :
						   Max(registry.valid_until - link->sent_at - LINK_ATTEMPT_MS * 1000, 0));
	values[n++] = lease_instance();
	values[n++] = psprintf("%d", (int) Min(snowflake_layout.max[FIELD_NODE], PG_INT32_MAX));
	values[n++] = psprintf(INT64_FORMAT, registry.lease_ttl);
	values[n++] = psprintf(INT64_FORMAT, lease_wanted_mark());
	values[n++] = clock_show(clock_read());
	values[n++] = shared->lease.has_clock_offset ?
		psprintf(INT64_FORMAT, (int64) pg_atomic_read_u64(&shared->lease.clock_offset_us)) : NULL;
	values[n++] = psprintf("%s since %s", layout_format(&snowflake_layout, layout),
						   timestamptz_to_str(snowflake_epoch));
	values[n++] = instance_host();
	values[n++] = psprintf("%d", PostPortNumber);
	values[n++] = psprintf(INT64_FORMAT, (int64) GetSystemIdentifier());
	values[n++] = seen.changes < 0 ? NULL : psprintf(INT64_FORMAT, seen.changes);
	values[n++] = seen.renewals < 0 ? NULL : psprintf(INT64_FORMAT, seen.renewals);
	values[n++] = is_first || registry.valid_until == 0 || link->sent_at >= registry.peers_at ?
		"true" : "false";
	request->sql = request_sql;
	request->nparams = REQUEST_PARAMS;
	return true;
}

static bool
has_value(const PGresult *answer, int column)
{
	return !PQgetisnull(answer, 0, column);
}

static int64
int_value(const PGresult *answer, int column)
{
	return has_value(answer, column) ? strtoll(PQgetvalue(answer, 0, column), NULL, 10) : 0;
}

/* '' for null */
static char *
text_value(const PGresult *answer, int column)
{
	return PQgetvalue(answer, 0, column);
}

/*
 * How far is the server's clock from the registry's, and from the others'?  In
 * half the round trip the answer may have been made, so that much is not
 * counted.  Returns what is to be said, NULL when all is well.
 */
static char *
check_skew(int64 offset, int64 round_trip)
{
	int64		max_us = snowflake_max_clock_skew * INT64CONST(1000) + round_trip / 2;
	char	   *others = "clock of the registry";

	if (snowflake_max_clock_skew == CLOCK_SKEW_ANY)
		return NULL;
	if (llabs(offset) <= max_us)
	{
		offset -= registry.peers_offset;
		if (registry.peers <= 0 || llabs(offset) <= max_us)
			return NULL;
		others = psprintf("median of " INT64_FORMAT " other servers", registry.peers);
	}
	return psprintf("The %s of this server is " INT64_FORMAT " ms %s the %s; \"snowflake.max_clock_skew\" allows %d ms.",
					clock_name(), (int64) llabs(offset) / 1000,
					offset > 0 ? "ahead of" : "behind", others, snowflake_max_clock_skew);
}

/*
 * Is it an answer of the registry that was asked before, as far as can be
 * told?  Not that of a primary that another was promoted in place of, nor one
 * that knows less than this server has told it of.
 *
 * Only what gives a number is remembered.  A refusal gives nothing that could
 * get lost, so the registry may go back to before it: as where the primary that
 * made it was one for a moment only.
 */
static bool
compare_with_seen(RegistryLink *link, const PGresult *answer)
{
	const char *hint = "If the former registry is gone for good and no server uses it, close the present one, as docs/registry.md says under \"Backups\". Then call snowflake_forget_registry() on this server. In any other case two servers may get the same number.";
	char	   *timeline = text_value(answer, COL_TIMELINE);
	int64		changes = int_value(answer, COL_CHANGES);
	char	   *reason = NULL;
	RegistrySeen seen = lease_seen();

	if (registry_link_is_outdated(seen.timeline, timeline))
		reason = psprintf("it is on timeline %s, and was on %s before", timeline, seen.timeline);
	else if (changes < seen.changes)
		reason = psprintf("it has made " INT64_FORMAT " changes, and had made " INT64_FORMAT " before",
						  changes, seen.changes);
	if (reason != NULL)
	{
		registry_link_give_up(link, reason, hint);
		return false;
	}
	if (has_value(answer, COL_NODE))
		lease_note_seen(timeline, changes, int_value(answer, COL_RENEWALS));
	return true;
}

static void
handle_row(RegistryLink *link, const PGresult *answer, int64 now)
{
	TimestampTz clock = clock_read();
	bool		was_valid = lease_is_valid();
	int64		round_trip = now - link->sent_at;
	int64		offset = clock + UNIX_EPOCH_US - round_trip / 2 - int_value(answer, COL_CLOCK);
	char	   *skew;
	uint64		left_out;
	Grant		grant;

	/*
	 * The registry may have given the number back because its lease was said
	 * not to have run out.  If it has meanwhile, ask again, without that.  A
	 * registration has no end, so that an answer may not be old.
	 */
	if (registry.valid_until == 0 ? lease_is_registration() && round_trip > LINK_ATTEMPT_MS * 1000 :
		now >= registry.valid_until)
		return;

	if (!compare_with_seen(link, answer))
		return;

	/* where it was asked for them */
	if (has_value(answer, COL_PEERS))
	{
		registry.peers = int_value(answer, COL_PEERS);
		registry.peers_offset = int_value(answer, COL_PEERS_OFFSET);
		registry.peers_at = now + PEERS_MS * 1000;
		pg_atomic_write_u32(&shared->lease.free_numbers,
							(uint32) Min(int_value(answer, COL_FREE), PG_INT32_MAX));
	}
	pg_atomic_write_u64(&shared->lease.clock_offset_us, (uint64) offset);
	shared->lease.has_clock_offset = true;
	lease_note_warning(text_value(answer, COL_WARNING));

	if (!has_value(answer, COL_NODE))
	{
		/* the holders are not for everybody, see text_shown() */
		lease_lose(psprintf("%s, as %s%s%s", lease_is_registration() ?
							psprintf("The registry does not let this server be node %d", lease_node()) :
							"The registry gives no node number",
							text_value(answer, COL_REFUSAL),
							has_value(answer, COL_DETAIL) ? ": " : ".",
							text_value(answer, COL_DETAIL)),
				   text_value(answer, COL_HINT),
				   text_value(answer, COL_PASSES)[0] == 't');
		return;
	}

	skew = check_skew(offset, round_trip);
	if (skew != NULL && (!was_valid || snowflake_clock_skew_action == SKEW_STOP))
	{
		lease_lose(skew, "Set the server's clock, or \"snowflake.max_clock_skew\".", false);
		return;
	}

	if (!lease_fits(int_value(answer, COL_NODE)))
	{
		registry_link_give_up(link, psprintf("it gives node number " INT64_FORMAT ", which this server cannot have",
											 int_value(answer, COL_NODE)), NULL);
		return;
	}
	grant.node = (int) int_value(answer, COL_NODE);
	grant.token = lease_token();
	grant.floor_us = int_value(answer, COL_FLOOR);
	grant.mark_us = lease_is_registration() ? PG_INT64_MAX : int_value(answer, COL_GRANTED);
	grant.deadline_us = lease_is_registration() ? PG_INT64_MAX :
		link->sent_at + Min(registry.lease_ttl, int_value(answer, COL_LEASE_TTL));
	lease_take(&grant);
	lease_remember();

	if (skew != NULL && log_is_due(LOG_OF_SKEW, &left_out))
		ereport(WARNING,
				(errmsg("the server's clock differs too much from others"),
				 errdetail("%s%s", skew, log_left_out(left_out)),
				 errhint("Set the server's clock. The server goes on issuing snowflake IDs, since \"snowflake.clock_skew_action\" is \"warn\".")));
}

static void
handle_answer(RegistryLink *link, const PGresult *answer)
{
	int64		now = clock_read_steady();

	if (PQresultStatus(answer) != PGRES_TUPLES_OK)
	{
		registry_link_give_up_with_error(link);
		return;
	}
	if (!registry_link_understands(link, PQntuples(answer) == 1 ? int_value(answer, COL_PROTOCOL) : 0))
		return;
	handle_row(link, answer, now);

	/* not when that has failed: then it asks again as soon as it may */
	registry.ask_at = now + registry_link_jitter(RENEW_MS * 1000);
	lease_remember_seen();
}

static void
prepare(void)
{
	if (lease_retry())
		registry_link_retry(&lease_link);

	/* where that has failed, not again without a pause */
	if (lease_link.state != LINK_RESTING || lease_link.until <= clock_read_steady())
		lease_recall();
}

static const LinkClient client = {
	.purpose = "lease",
	.function = "snowflake_lease_node",
	.nargs = REQUEST_PARAMS + 1,	/* and the protocol */
	.statement = request_sql,
	.is_used = lease_is_used,
	.prepare = prepare,
	.due = due,
	.build = build_request,
	.handle = handle_answer,
	.failed = failed,
	.log_kind = LOG_OF_REGISTRY
};

RegistryLink lease_link = {.client = &client};
