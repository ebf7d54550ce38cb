/*-------------------------------------------------------------------------
 *
 * registry.c
 *		Asking the registry for a node number, again and again.
 *
 * The registry is a database with the extension, whose snowflake_lease_node()
 * gives and renews numbers.  It is asked every RENEW_MS.  What it answers goes
 * to lease.c.
 *
 * All is asynchronous: registry_serve() does what can be done without waiting,
 * so that a registry that hangs keeps the worker from nothing else.  (But for
 * one thing: libpq looks host names up by the system's resolver, which waits.)
 * An attempt that takes longer than ATTEMPT_MS is given up.  Of several hosts
 * each attempt takes the next one, which libpq does only where one fails, and
 * not where one hangs.
 *
 * The state is the worker's own.  Where it ends, so does the connection, and
 * the next worker begins anew, with the same token.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "libpq-fe.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "alarm.h"
#include "clock.h"
#include "lease.h"
#include "registry.h"

#define RENEW_MS	3000
#define RETRY_MS	1000
#define ATTEMPT_MS	5000

/* From the server's timestamps to marks. */
#define UNIX_EPOCH_US	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/*
 * All of a request in one statement, and so in one transaction: what it
 * answers counts when that is committed.  Times go as microseconds since 1970.
 */
#define REQUEST \
	"SELECT node, floor, granted," \
	" (extract(epoch FROM registry_clock) * 1000000)::bigint," \
	" peers, (extract(epoch FROM peers_offset) * 1000000)::bigint," \
	" timeline, refusal, refusal_detail, refusal_hint" \
	" FROM snowflake_lease_node(" \
	"token => $1::uuid, held => $2::integer, held_token => $3::uuid," \
	" remaining => $4::bigint * interval '1 us'," \
	" instance => $5::text, max_node => $6::integer," \
	" lease_ttl => $7::bigint * interval '1 us'," \
	" mark => $8::bigint, clock => $9::timestamptz," \
	" clock_offset => $10::bigint * interval '1 us'," \
	" layout => $11::text, host => $12::text, port => $13::integer," \
	" system_identifier => $14::bigint)"

#define REQUEST_PARAMS	14

/* The columns of the answer. */
enum
{
	COL_NODE, COL_FLOOR, COL_GRANTED, COL_CLOCK, COL_PEERS, COL_PEERS_OFFSET,
	COL_TIMELINE, COL_REFUSAL, COL_DETAIL, COL_HINT
};

typedef enum RegistryState
{
	RESTING,					/* until "until" */
	CONNECTING,					/* as "polling" says, until "until" */
	ASKING						/* an answer is awaited, until "until" */
} RegistryState;

static struct
{
	RegistryState state;
	int64		until;			/* steady clock */
	PGconn	   *conn;			/* NULL for none */
	PostgresPollingStatusType polling;
	bool		is_ready;		/* what is waited for has come */
	int			attempt;		/* counts them, to choose a host */
	bool		needs_flush;	/* not all of the request was sent */
	PGresult   *result;			/* the answer, until it is committed */

	/* When the request was sent, for how long, and until when the lease was. */
	int64		sent_at;		/* steady clock */
	int64		lease_ttl;		/* in microseconds */
	int64		valid_until;	/* 0 when there was none */

	int64		round_trip;		/* of the last answer, in microseconds */
	char		timeline[64];	/* "system identifier/timeline", the latest */
} registry;

static void
rest(int64 ms)
{
	registry.state = RESTING;
	registry.until = clock_read_steady() + ms * 1000;
}

static void
disconnect(void)
{
	PQclear(registry.result);
	registry.result = NULL;
	PQfinish(registry.conn);
	registry.conn = NULL;
}

/*
 * It did not work this time.  The lease goes on for as long as it lasts.
 */
static void
give_up(const char *reason)
{
	int			length = strlen(reason);
	char	   *error;
	uint64		left_out;

	/* libpq ends its messages with a newline */
	while (length > 0 && strchr("\n.", reason[length - 1]) != NULL)
		length--;
	error = psprintf("The registry could not be asked: %.*s.", length, reason);

	disconnect();
	lease_note_error(error, "");
	rest(RETRY_MS);
	if (!alarm_is_due(ALARM_REGISTRY, &left_out))
		return;
	if (lease_is_valid())
		ereport(WARNING,
				(errmsg("could not renew the lease of the snowflake node number %d",
						lease_node()),
				 errdetail("%s%s", error, alarm_left_out(left_out)),
				 errhint("IDs go on until %s.", timestamptz_to_str(lease_ends_at()))));
	else
		ereport(WARNING,
				(errmsg("could not lease a snowflake node number"),
				 errdetail("%s%s", error, alarm_left_out(left_out)),
				 errhint("No ID is issued until the registry gives a number.")));
}

/*
 * The n-th element of a list as libpq has them, a single one for all.
 */
static char *
list_element(const char *list, int n)
{
	char	   *copy = pstrdup(list);
	char	   *element = copy;

	if (strchr(copy, ',') == NULL)
		return copy;
	for (int i = 0; i < n && element != NULL; i++)
	{
		element = strchr(element, ',');
		if (element != NULL)
			element++;
	}
	if (element == NULL)
		return pstrdup("");
	element[strcspn(element, ",")] = '\0';
	return element;
}

static int
count_elements(const char *list)
{
	int			length = 1;

	for (const char *c = list; *c != '\0'; c++)
		length += *c == ',';
	return length;
}

/*
 * Begin to connect: to the primary, if nothing else is said, with the next
 * one of the hosts.
 */
static void
begin_to_connect(void)
{
	const char *keywords[64];
	const char *values[64];
	int			n = 0;
	int			hosts = 1;
	char	   *error = NULL;
	PQconninfoOption *options = PQconninfoParse(snowflake_registry, &error);

	if (options == NULL)
	{
		/* cannot be: it was checked when it was set */
		PQfreemem(error);
		give_up("\"snowflake.registry\" is not valid");
		return;
	}

	keywords[n] = "target_session_attrs";
	values[n++] = "read-write";
	keywords[n] = "fallback_application_name";
	values[n++] = "snowflake";
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val != NULL &&
			(strcmp(option->keyword, "host") == 0 ||
			 strcmp(option->keyword, "hostaddr") == 0))
			hosts = Max(hosts, count_elements(option->val));
	}
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val == NULL || n >= (int) lengthof(keywords) - 1)
			continue;
		keywords[n] = option->keyword;
		if (strcmp(option->keyword, "host") == 0 ||
			strcmp(option->keyword, "hostaddr") == 0 ||
			strcmp(option->keyword, "port") == 0)
			values[n++] = list_element(option->val, registry.attempt % hosts);
		else
			values[n++] = pstrdup(option->val);
	}
	keywords[n] = NULL;
	values[n] = NULL;
	PQconninfoFree(options);

	registry.attempt++;
	registry.conn = PQconnectStartParams(keywords, values, 0);
	if (registry.conn == NULL)
	{
		give_up("out of memory");
		return;
	}
	if (PQstatus(registry.conn) == CONNECTION_BAD)
	{
		give_up(PQerrorMessage(registry.conn));
		return;
	}
	registry.state = CONNECTING;
	registry.polling = PGRES_POLLING_WRITING;
	registry.until = clock_read_steady() + ATTEMPT_MS * 1000;
}

static void
ignore_notice(void *arg, const char *message)
{
}

/*
 * Ask.
 */
static void
send_request(void)
{
	const char *values[REQUEST_PARAMS];
	const char *held_token;
	int			held = lease_held(&held_token);
	char		host[256];
	char		layout[LAYOUT_TEXT_SIZE];
	TimestampTz now;

	if (gethostname(host, sizeof(host)) != 0)
		strlcpy(host, "?", sizeof(host));
	host[sizeof(host) - 1] = '\0';

	registry.valid_until = lease_is_valid() ?
		(int64) pg_atomic_read_u64(&shared->lease.deadline) : 0;

	values[0] = lease_token();
	values[1] = held < 0 ? NULL : psprintf("%d", held);
	values[2] = held_token[0] == '\0' ? NULL : held_token;
	values[4] = lease_instance();
	values[5] = psprintf("%d", (int) Min(snowflake_layout.max[FIELD_NODE], PG_INT32_MAX));
	registry.lease_ttl = snowflake_lease_ttl * INT64CONST(1000);
	values[6] = psprintf(INT64_FORMAT, registry.lease_ttl);
	values[7] = psprintf(INT64_FORMAT, lease_wanted_mark());
	values[9] = shared->lease.has_clock_offset ?
		psprintf(INT64_FORMAT, (int64) pg_atomic_read_u64(&shared->lease.clock_offset)) : NULL;
	values[10] = psprintf("%s since %s", layout_format(&snowflake_layout, layout),
						  timestamptz_to_str(snowflake_epoch));
	values[11] = host;
	values[12] = psprintf("%d", PostPortNumber);
	values[13] = psprintf(INT64_FORMAT, (int64) GetSystemIdentifier());

	/* last, so that they are of this moment */
	now = clock_read();
	values[8] = timestamptz_to_str(now);
	registry.sent_at = clock_read_steady();
	values[3] = psprintf(INT64_FORMAT,
						 Max(registry.valid_until - registry.sent_at - ATTEMPT_MS * 1000, 0));
	if (PQsendQueryParams(registry.conn, REQUEST, REQUEST_PARAMS, NULL, values,
						  NULL, NULL, 0) == 0)
	{
		give_up(PQerrorMessage(registry.conn));
		return;
	}
	registry.state = ASKING;
	registry.needs_flush = true;
	registry.until = registry.sent_at + ATTEMPT_MS * 1000;
}

static bool
has_value(int column)
{
	return !PQgetisnull(registry.result, 0, column);
}

static int64
int_value(int column)
{
	return has_value(column) ? strtoll(PQgetvalue(registry.result, 0, column), NULL, 10) : 0;
}

static char *
text_value(int column)
{
	return pstrdup(PQgetvalue(registry.result, 0, column));
}

/*
 * How far is the server's clock from the others'?  In half the round trip the
 * answer may have been made, so that much is not counted.  Returns what is to
 * be said, NULL when all is well.
 */
static char *
check_skew(void)
{
	int64		max_us = snowflake_max_clock_skew * INT64CONST(1000);
	int64		offset = (int64) pg_atomic_read_u64(&shared->lease.clock_offset);
	int64		peers_offset = offset - int_value(COL_PEERS_OFFSET);
	int64		peers = int_value(COL_PEERS);

	if (snowflake_max_clock_skew == CLOCK_SKEW_ANY)
		return NULL;
	if (llabs(offset) - registry.round_trip / 2 > max_us)
		return psprintf("The %s of this server is " INT64_FORMAT " ms %s that of the registry; \"snowflake.max_clock_skew\" allows %d ms.",
						clock_name(), (int64) llabs(offset) / 1000,
						offset > 0 ? "ahead of" : "behind",
						snowflake_max_clock_skew);
	if (peers > 0 && llabs(peers_offset) - registry.round_trip / 2 > max_us)
		return psprintf("The %s of this server is " INT64_FORMAT " ms %s the median of " INT64_FORMAT " other servers; \"snowflake.max_clock_skew\" allows %d ms.",
						clock_name(), (int64) llabs(peers_offset) / 1000,
						peers_offset > 0 ? "ahead of" : "behind",
						peers, snowflake_max_clock_skew);
	return NULL;
}

/*
 * The answer is there, and committed.
 */
static void
heed_answer(void)
{
	int64		now = clock_read_steady();
	TimestampTz clock = clock_read();
	bool		was_valid = lease_is_valid();
	char	   *timeline;
	char	   *skew;
	Grant		grant;

	/*
	 * The registry may have given the number back because its lease was said
	 * not to have run out.  If it has meanwhile, ask again, without that.
	 */
	if (registry.valid_until != 0 && now >= registry.valid_until)
		return;

	/* of a primary that another was promoted in place of */
	timeline = text_value(COL_TIMELINE);
	if (strncmp(timeline, registry.timeline, strcspn(timeline, "/") + 1) == 0 &&
		strcmp(timeline, registry.timeline) < 0)
	{
		give_up(psprintf("it is on timeline %s, and was on %s before",
						 timeline, registry.timeline));
		return;
	}
	strlcpy(registry.timeline, timeline, sizeof(registry.timeline));

	registry.round_trip = now - registry.sent_at;
	pg_atomic_write_u64(&shared->lease.clock_offset,
						(uint64) (clock + UNIX_EPOCH_US - registry.round_trip / 2 -
								  int_value(COL_CLOCK)));
	shared->lease.has_clock_offset = true;

	if (!has_value(COL_NODE))
	{
		lease_lose(psprintf("The registry gives no node number: %s.%s%s",
							text_value(COL_REFUSAL),
							has_value(COL_DETAIL) ? " " : "",
							text_value(COL_DETAIL)),
				   text_value(COL_HINT));
		return;
	}

	skew = check_skew();
	if (skew != NULL && (!was_valid || snowflake_clock_skew_action == SKEW_STOP))
	{
		lease_lose(skew, "Set the server's clock, or \"snowflake.max_clock_skew\".");
		return;
	}

	grant.node = (int) int_value(COL_NODE);
	grant.token = lease_token();
	grant.floor = int_value(COL_FLOOR);
	grant.mark = int_value(COL_GRANTED);
	grant.deadline = registry.sent_at + registry.lease_ttl;
	lease_take(&grant);
	lease_remember();

	if (skew != NULL)
	{
		uint64		left_out;

		if (alarm_is_due(ALARM_SKEW, &left_out))
			ereport(WARNING,
					(errmsg("the server's clock differs too much from others"),
					 errdetail("%s%s", skew, alarm_left_out(left_out)),
					 errhint("Set the server's clock. Snowflake IDs go on, since \"snowflake.clock_skew_action\" is \"warn\".")));
	}
}

/*
 * Read what has come.
 */
static void
receive(void)
{
	PGresult   *result;

	if (registry.needs_flush)
	{
		int			flushed = PQflush(registry.conn);

		if (flushed < 0)
		{
			give_up(PQerrorMessage(registry.conn));
			return;
		}
		registry.needs_flush = flushed > 0;
	}
	if (PQconsumeInput(registry.conn) == 0)
	{
		give_up(PQerrorMessage(registry.conn));
		return;
	}

	/* to the end, as only that says that it was committed */
	while (!PQisBusy(registry.conn))
	{
		result = PQgetResult(registry.conn);
		if (result == NULL)
		{
			if (registry.result == NULL)
			{
				give_up("no answer");
				return;
			}
			rest(RENEW_MS);
			heed_answer();
			PQclear(registry.result);
			registry.result = NULL;
			return;
		}
		if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
		{
			char	   *error = pstrdup(PQresultErrorMessage(result));

			PQclear(result);
			give_up(error);
			return;
		}
		PQclear(registry.result);
		registry.result = result;
	}
}

void
registry_serve(void)
{
	int64		now = clock_read_steady();
	bool		is_ready = registry.is_ready;

	registry.is_ready = false;
	if (!lease_is_used())
	{
		if (registry.conn != NULL)
			disconnect();
		registry.state = RESTING;
		return;
	}
	lease_recall();

	switch (registry.state)
	{
		case RESTING:
			if (now < registry.until)
				break;
			if (registry.conn != NULL)
				send_request();
			else
				begin_to_connect();
			break;

		case CONNECTING:
			if (is_ready)
				registry.polling = PQconnectPoll(registry.conn);
			if (registry.polling == PGRES_POLLING_FAILED)
				give_up(PQerrorMessage(registry.conn));
			else if (registry.polling == PGRES_POLLING_OK)
			{
				PQsetNoticeProcessor(registry.conn, ignore_notice, NULL);
				if (PQsetnonblocking(registry.conn, 1) != 0)
					give_up(PQerrorMessage(registry.conn));
				else
					send_request();
			}
			else if (now >= registry.until)
				give_up(psprintf("no connection in %d ms", ATTEMPT_MS));
			break;

		case ASKING:
			receive();
			if (registry.state == ASKING && now >= registry.until)
				give_up(psprintf("no answer in %d ms", ATTEMPT_MS));
			break;
	}
}

void
registry_wait(RegistryWait *wait)
{
	wait->socket = PGINVALID_SOCKET;
	wait->events = 0;
	wait->timeout_ms = -1;
	if (!lease_is_used())
		return;

	wait->timeout_ms = (long) Max((registry.until - clock_read_steady() + 999) / 1000, 0);
	if (registry.state == RESTING || registry.conn == NULL)
		return;
	wait->socket = PQsocket(registry.conn);
	if (registry.state == CONNECTING)
		wait->events = registry.polling == PGRES_POLLING_READING ?
			WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
	else
		wait->events = WL_SOCKET_READABLE |
			(registry.needs_flush ? WL_SOCKET_WRITEABLE : 0);
}

void
registry_is_ready(void)
{
	registry.is_ready = true;
}

void
registry_pause(void)
{
	rest(RETRY_MS);
}

void
registry_reload(void)
{
	if (registry.conn != NULL)
		disconnect();
	rest(0);
}
