/*-------------------------------------------------------------------------
 *
 * segment_registry.c
 *		Asks the registry for segments.
 *
 * Where snowflake.registry is set.  The connection is another one than that of
 * the lease, so that a tag that somebody has locked in the registry does not
 * hold up the lease of the node number.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"

#include "alarm.h"
#include "clock.h"
#include "segment.h"
#include "segment_fetch.h"
#include "waits.h"

/* How long a server that stops takes to give back unused numbers. */
#define KEEP_MS		2000

/* The request of segment_keep_over_link().  The worker's own. */
static struct
{
	const LinkRequest *request; /* NULL for none */
	bool		is_sent;		/* it is what the link was last given */
	bool		is_done;		/* it is kept, or cannot be */
	int			failures;		/* of the link */
}			keeping;

static bool
is_anything_used(void)
{
	bool		used;

	LWLockAcquire(shared->segments.lock, LW_SHARED);
	used = shared->segments.used > 0 || shared->segments.command.state != COMMAND_FREE;
	LWLockRelease(shared->segments.lock);
	return used;
}

static bool
link_is_used(void)
{
	return !segment_is_at_home() && is_anything_used();
}

static int64
link_due(void)
{
	return keeping.request != NULL ? 0 : segment_fetch_due();
}

static void
link_build(RegistryLink *link, LinkRequest *sent, bool is_first)
{
	if (keeping.request != NULL)
	{
		segment_fetch_abandon();
		*sent = *keeping.request;
		keeping.is_sent = true;
	}
	else
		(void) segment_fetch_build(sent, link->sent_at, is_first);
}

static void
handle_kept(const PGresult *answer)
{
	keeping.is_done = true;
	if (PQresultStatus(answer) != PGRES_TUPLES_OK)
		ereport(LOG,
				(errmsg("could not keep the unused numbers of segments"),
				 errdetail("%s", PQresultErrorMessage(answer))));
}

static void
handle_error(const PGresult *answer)
{
	const char *sqlstate = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(answer, PG_DIAG_MESSAGE_HINT);

	segment_fetch_note_error(sqlstate == NULL || strlen(sqlstate) != 5 ?
							 ERRCODE_CONNECTION_FAILURE :
							 MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
										   sqlstate[3], sqlstate[4]),
							 message != NULL ? message : "unknown error",
							 detail != NULL ? detail : "", hint != NULL ? hint : "");
}

static void
link_handle(RegistryLink *link, const PGresult *answer)
{
	if (keeping.is_sent)
		handle_kept(answer);
	else if (PQresultStatus(answer) != PGRES_TUPLES_OK)
		handle_error(answer);
	else if (segment_fetch_kind() == FETCH_COMMAND)
	{
		SegmentResult result = segment_read_result(answer);

		segment_fetch_handle_result(&result);
	}
	else if (segment_fetch_kind() == FETCH_TAKE)
	{
		int			nrows = PQntuples(answer);
		SegmentRow *rows = segment_read_rows(answer, nrows);
		const char *objection = segment_fetch_objection(rows, nrows);

		if (objection != NULL)
			registry_link_give_up(link, objection);
		else
			segment_fetch_handle_rows(rows, nrows);
	}
}

static void
link_failed(const LinkFailure *failure)
{
	char	   *error = psprintf("The registry could not be asked: %s.", failure->reason);
	uint64		left_out;

	keeping.failures++;
	segment_fetch_note_no_answer(error, failure->passes);

	if (!failure->is_quiet && alarm_is_due(ALARM_SEGMENT, &left_out))
		ereport(WARNING,
				(errmsg("could not fetch segments of numbers"),
				 errdetail("%s%s", error, alarm_left_out(left_out)),
				 errhint("%s", failure->hint != NULL ? failure->hint :
						 "Sessions can draw the numbers in memory, for \"snowflake.lease_ttl\" at most.")));
}

static const LinkClient client = {
	.purpose = "segments",
	.extension = SEGMENT_EXTENSION,
	.function = "snowflake_take_segments",
	.nargs = SEGMENT_TAKE_PARAMS,
	.statement = segment_take_sql,
	.is_used = link_is_used,
	.due = link_due,
	.build = link_build,
	.handle = link_handle,
	.failed = link_failed
};

RegistryLink segment_link = {.client = &client};

/*
 * One attempt, whatever becomes of it.  A request that was lost with its answer
 * may have been done, and what it kept may have been given out again, to this
 * server's next start or to a copy of it.  A second one would keep it anew.  So
 * another connection is tried only before anything of it was sent.
 */
void
segment_keep_over_link(const LinkRequest *keep)
{
	int64		deadline = clock_read_steady() + KEEP_MS * INT64CONST(1000);
	int			failures = keeping.failures;
	bool		is_reset = false;

	registry_link_retry(&segment_link);
	keeping.request = keep;
	while (!keeping.is_done)
	{
		LinkWait	wait;
		int64		left_ms = (deadline - clock_read_steady()) / 1000;
		int			events;

		if (left_ms <= 0)
			break;
		registry_link_serve(&segment_link);

		if (keeping.is_done || keeping.failures > failures + 1 ||
			(keeping.failures > failures && keeping.is_sent))
			break;
		if (keeping.failures > failures && !is_reset)
		{
			registry_link_reset(&segment_link);
			is_reset = true;
		}
		registry_link_wait(&segment_link, &wait);
		if (wait.timeout_ms >= 0)
			left_ms = Min(left_ms, wait.timeout_ms);
		events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH | wait.events,
								   wait.socket, left_ms, wait_event_worker(&shared->services));
		ResetLatch(MyLatch);
		if (events & WL_POSTMASTER_DEATH)
			break;
		if (events & WL_SOCKET_MASK)
			registry_link_is_ready(&segment_link);
	}
	if (!keeping.is_done)
		ereport(LOG,
				(errmsg("could not keep the unused numbers of segments"),
				 errdetail("The registry did not answer.")));
	keeping.request = NULL;
}
