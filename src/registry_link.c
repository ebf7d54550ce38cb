/*-------------------------------------------------------------------------
 *
 * registry_link.c
 *		A connection to the registry, over which one thing at a time is asked.
 *
 * The registry is the database that snowflake.registry says.  What is asked
 * there, when, and what the answer means is up to the link's client.
 *
 * All is asynchronous: registry_link_serve() does what can be done without waiting, so
 * that a registry that hangs keeps the worker from nothing else.  (But for one
 * thing: libpq looks host names up by the system's resolver, which waits.)  An
 * attempt that takes longer than LINK_ATTEMPT_MS is given up.  Of several
 * hosts each attempt takes the next one, which libpq does only where one
 * fails, and not where one hangs.
 *
 * A link is LINK_RESTING whenever its client builds a request or handles an
 * answer, so an ERROR there leaves it with an idle connection or none.
 *
 * Locking: none.  A link is the worker's own.  Where the worker ends, so does
 * the connection.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "clock.h"
#include "registry_link.h"
#include "settings.h"

#define RETRY_MS	1000

static void
rest(RegistryLink *link, int64 ms)
{
	link->state = LINK_RESTING;
	link->until = clock_read_steady() + ms * 1000;
}

static void
disconnect(RegistryLink *link)
{
	PQfinish(link->conn);
	link->conn = NULL;
	link->has_asked = false;
}

static void
forget_answer(RegistryLink *link)
{
	PQclear(link->answer);
	link->answer = NULL;
}

/*
 * It did not work this time.
 */
void
registry_link_give_up(RegistryLink *link, const char *reason)
{
	int			length = strlen(reason);
	char	   *copy;

	/* libpq ends its messages with a newline */
	while (length > 0 && strchr("\n.", reason[length - 1]) != NULL)
		length--;
	copy = pnstrdup(reason, length);

	disconnect(link);
	rest(link, RETRY_MS);
	link->client->failed(copy);
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
begin_to_connect(RegistryLink *link)
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
		registry_link_give_up(link, "\"snowflake.registry\" is not valid");
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
		if (option->val == NULL || n >= (int) lengthof(keywords) - 2)
			continue;
		keywords[n] = option->keyword;
		if (strcmp(option->keyword, "host") == 0 ||
			strcmp(option->keyword, "hostaddr") == 0 ||
			strcmp(option->keyword, "port") == 0)
			values[n++] = list_element(option->val, link->attempt % hosts);
		else
			values[n++] = pstrdup(option->val);
	}
	/* the last one of a keyword counts */
	keywords[n] = "client_encoding";
	values[n++] = "UTF8";
	keywords[n] = NULL;
	values[n] = NULL;
	PQconninfoFree(options);

	link->attempt++;
	link->conn = PQconnectStartParams(keywords, values, 0);
	if (link->conn == NULL)
	{
		registry_link_give_up(link, "out of memory");
		return;
	}
	if (PQstatus(link->conn) == CONNECTION_BAD)
	{
		registry_link_give_up(link, PQerrorMessage(link->conn));
		return;
	}
	link->state = LINK_CONNECTING;
	link->polling = PGRES_POLLING_WRITING;
	link->until = clock_read_steady() + LINK_ATTEMPT_MS * 1000;
}

static void
ignore_notice(void *arg, const char *message)
{
}

static void
ask(RegistryLink *link)
{
	LinkRequest request = {0};

	forget_answer(link);		/* that an ERROR kept from being handled */
	link->sent_at = clock_read_steady();
	link->client->build(link, &request, !link->has_asked);
	Assert(request.nparams <= LINK_MAX_PARAMS);
	if (PQsendQueryParams(link->conn, request.sql, request.nparams, NULL,
						  request.values, NULL, NULL, 0) == 0)
	{
		registry_link_give_up(link, PQerrorMessage(link->conn));
		return;
	}
	link->has_asked = true;
	link->state = LINK_ASKING;
	link->needs_flush = true;
	link->until = link->sent_at + LINK_ATTEMPT_MS * 1000;
}

/*
 * When a link that rests is to go on.
 */
static int64
goes_on_at(RegistryLink *link)
{
	return Max(link->until, link->client->due());
}

static void
go_on(RegistryLink *link)
{
	if (clock_read_steady() < goes_on_at(link))
		return;
	if (link->conn != NULL)
		ask(link);
	else
		begin_to_connect(link);
}

/*
 * The connection was lost, or there is no more of an answer in time.  Where
 * the registry has said why, that is the reason.
 */
static void
give_up_asking(RegistryLink *link, const char *reason)
{
	if (link->answer != NULL && PQresultStatus(link->answer) != PGRES_TUPLES_OK)
		reason = PQresultErrorMessage(link->answer);
	registry_link_give_up(link, reason);
}

/*
 * Read what has come.
 */
static void
receive(RegistryLink *link)
{
	PGresult   *result;
	ExecStatusType status;

	if (link->needs_flush)
	{
		int			flushed = PQflush(link->conn);

		if (flushed < 0)
		{
			give_up_asking(link, PQerrorMessage(link->conn));
			return;
		}
		link->needs_flush = flushed > 0;
	}
	if (PQconsumeInput(link->conn) == 0)
	{
		give_up_asking(link, PQerrorMessage(link->conn));
		return;
	}

	/* to the end, as only that says that it was committed */
	while (!PQisBusy(link->conn))
	{
		result = PQgetResult(link->conn);
		if (result == NULL)
		{
			if (link->answer == NULL || PQstatus(link->conn) == CONNECTION_BAD)
			{
				give_up_asking(link, "no answer");
				return;
			}
			rest(link, 0);
			link->client->handle(link, link->answer);
			forget_answer(link);
			return;
		}
		forget_answer(link);
		link->answer = result;

		/* of a COPY there would be no end */
		status = PQresultStatus(result);
		if (status != PGRES_TUPLES_OK && status != PGRES_FATAL_ERROR)
		{
			registry_link_give_up(link, psprintf("it answered with %s", PQresStatus(status)));
			return;
		}
	}
}

void
registry_link_serve(RegistryLink *link)
{
	const LinkClient *client = link->client;
	int64		now = clock_read_steady();
	bool		is_ready = link->is_ready;

	link->is_ready = false;
	if (!client->is_used())
	{
		if (link->state != LINK_RESTING)
			rest(link, 0);
		disconnect(link);
		return;
	}
	if (client->prepare != NULL)
		client->prepare();

	switch (link->state)
	{
		case LINK_RESTING:
			go_on(link);
			break;

		case LINK_CONNECTING:
			if (is_ready)
				link->polling = PQconnectPoll(link->conn);
			if (link->polling == PGRES_POLLING_FAILED)
				registry_link_give_up(link, PQerrorMessage(link->conn));
			else if (link->polling == PGRES_POLLING_OK)
			{
				PQsetNoticeProcessor(link->conn, ignore_notice, NULL);
				if (PQsetnonblocking(link->conn, 1) != 0)
					registry_link_give_up(link, PQerrorMessage(link->conn));
				else
				{
					rest(link, 0);
					go_on(link);
				}
			}
			else if (now >= link->until)
				registry_link_give_up(link, psprintf("no connection in %d ms", LINK_ATTEMPT_MS));
			break;

		case LINK_ASKING:
			receive(link);
			if (link->state == LINK_ASKING && now >= link->until)
				give_up_asking(link, psprintf("no answer in %d ms", LINK_ATTEMPT_MS));
			break;
	}
}

void
registry_link_wait(RegistryLink *link, LinkWait *wait)
{
	int64		until = link->until;

	wait->socket = PGINVALID_SOCKET;
	wait->events = 0;
	wait->timeout_ms = -1;
	if (!link->client->is_used())
		return;

	if (link->state == LINK_RESTING)
		until = goes_on_at(link);
	if (until != PG_INT64_MAX)
		wait->timeout_ms = (long) Min(Max((until - clock_read_steady() + 999) / 1000, 0),
									  PG_INT32_MAX);
	if (link->state == LINK_RESTING)
		return;

	wait->socket = PQsocket(link->conn);
	if (link->state == LINK_CONNECTING)
		wait->events = link->polling == PGRES_POLLING_READING ?
			WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
	else
		wait->events = WL_SOCKET_READABLE |
			(link->needs_flush ? WL_SOCKET_WRITEABLE : 0);
}

void
registry_link_is_ready(RegistryLink *link)
{
	link->is_ready = true;
}

void
registry_link_pause(RegistryLink *link)
{
	/* what was under way is not to be gone on with */
	if (link->state != LINK_RESTING)
		disconnect(link);
	rest(link, RETRY_MS);
}

void
registry_link_reset(RegistryLink *link)
{
	disconnect(link);
	rest(link, 0);
}

bool
registry_link_is_outdated(const char *before, const char *now)
{
	size_t		system = strcspn(now, "/");

	return now[system] == '/' && strncmp(now, before, system + 1) == 0 &&
		strncmp(now + system + 1, before + system + 1, 8) < 0;
}
