/*-------------------------------------------------------------------------
 *
 * registry_link.c
 *		A connection to the registry, for one request at a time.
 *
 * The registry is the database that snowflake.registry names.  The link's
 * client decides what to ask and when, and what the answer means.
 *
 * All is asynchronous: registry_link_serve() does what can be done without
 * waiting, so that a registry that hangs keeps the services from nothing else.
 * (But for one thing: libpq looks host names up by the system's resolver,
 * which waits.)  An attempt that takes longer than LINK_ATTEMPT_MS is given
 * up.  Of several hosts each attempt takes the next one, which libpq does only
 * where one fails, and not where one hangs.
 *
 * A request that is given up may still wait in the registry: for a lock, or at
 * commit for a synchronous standby.  So a connection begins with a greeting.
 * It ends the sessions that this link has left in the registry, and waits
 * until they are gone.  So a link never has more than two sessions, and a
 * request that was given up is not committed after the next one is sent.  The
 * greeting finds these sessions by their name.  Settings of the session bound
 * locks and statements.
 *
 * The greeting also looks whether the registry has what the client needs.  So
 * this server can say what is missing and what to do, and the registry's log
 * has no ERROR of it.
 *
 * After a failure there is a pause.  It grows from one failure to the next,
 * once each host was tried.  It is not the same for all servers, so that they
 * do not all ask at once when a registry comes back.
 *
 * A link is LINK_RESTING whenever its client builds a request or handles an
 * answer, so an ERROR there leaves it with an idle connection or none.
 *
 * Locking: none.  A link is the services' own, and so is its connection, which
 * ends with them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "instance.h"
#include "registry_link.h"
#include "settings.h"
#include "waits.h"
#include "worker.h"

/* The pause after a failure: the first one, and the longest. */
#define FIRST_PAUSE_MS	1000
#define PASSING_PAUSE_MS	Min(15000, LEASE_TTL_US / 1000 / 8)
#define MENDING_PAUSE_MS	Min(60000, LEASE_TTL_US / 1000 / 4)

/*
 * What the registry may take for a request: less than LINK_ATTEMPT_MS, so that
 * it says what it waited for.  None of it bounds the wait for a synchronous
 * standby.
 */
#define STATEMENT_TIMEOUT	"4s"
#define LOCK_TIMEOUT	"3500ms"

/* How long to wait for the end of a session that was left. */
#define TERMINATE_MS	"2000"

#define PREPARED	"snowflake"

#define UPDATE_REGISTRY	"the registry's files, followed by ALTER EXTENSION " REGISTRY_EXTENSION " UPDATE in that database"
#define UPDATE_SERVER	"the files of this server, followed by a restart"

/*
 * All names have a schema, since the role may have any search_path.  If
 * pg_terminate_backend() waits in vain, it gives a warning, and the greeting
 * fails.  Warnings must be sent, as one may say that a commit is not durable.
 */
#define GREETING \
	"WITH me AS MATERIALIZED (SELECT pg_catalog.set_config('application_name', $1, false) AS name," \
	" pg_catalog.set_config('statement_timeout', '" STATEMENT_TIMEOUT "', false)," \
	" pg_catalog.set_config('lock_timeout', '" LOCK_TIMEOUT "', false)," \
	" pg_catalog.set_config('client_min_messages', 'warning', false))," \
	" left_over AS MATERIALIZED (SELECT pg_catalog.pg_terminate_backend(a.pid, " TERMINATE_MS ")" \
	" FROM me, pg_catalog.pg_stat_activity AS a" \
	" WHERE a.application_name OPERATOR(pg_catalog.=) me.name" \
	" AND a.usename OPERATOR(pg_catalog.=) current_user" \
	" AND a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid())" \
	" SELECT (SELECT pg_catalog.count(*) FROM left_over), pg_catalog.current_database(), current_user," \
	" e.extversion, pg_catalog.quote_ident(n.nspname)," \
	" pg_catalog.has_schema_privilege(n.oid, 'USAGE')," \
	" pg_catalog.has_function_privilege(p.oid, 'EXECUTE')" \
	" FROM me LEFT JOIN pg_catalog.pg_extension AS e ON e.extname OPERATOR(pg_catalog.=) '" REGISTRY_EXTENSION "'::pg_catalog.name" \
	" LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace" \
	" LEFT JOIN pg_catalog.pg_proc AS p ON p.pronamespace OPERATOR(pg_catalog.=) n.oid" \
	" AND p.proname OPERATOR(pg_catalog.=) $2::pg_catalog.name" \
	" AND p.pronargs OPERATOR(pg_catalog.=) $3::pg_catalog.int2" \
	" LIMIT 1"

/* Its columns. */
enum
{
	COL_LEFT_OVER, COL_DATABASE, COL_ROLE, COL_VERSION, COL_SCHEMA,
	COL_MAY_USE, COL_MAY_EXECUTE, GREETING_COLS
};

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

static int64
next_pause_ms(RegistryLink *link, bool passes)
{
	int			hosts = Max(link->hosts, 1);
	int			rounds = link->failures++ / hosts;
	int64		longest = passes ? PASSING_PAUSE_MS : MENDING_PAUSE_MS;
	int64		pause = FIRST_PAUSE_MS;

	/* there is another host to try in this round */
	if (link->failures % hosts == 0)
		pause = Min(pause << Min(rounds, 10), longest);
	return pause / 2 + (int64) (pg_prng_double(&pg_global_prng_state) * (pause / 2));
}

/*
 * It did not work this time.  libpq ends its messages with a newline.  The
 * reason may be the connection's.
 */
static void
fail(RegistryLink *link, const char *reason, LinkFailure *failure)
{
	int			length = strlen(reason);
	const char *message;
	const char *hint = failure->hint;
	uint64		left_out;

	while (length > 0 && strchr("\n.", reason[length - 1]) != NULL)
		length--;
	failure->sentence = psprintf("The registry could not be asked: %.*s.", length, reason);

	disconnect(link);
	rest(link, failure->is_quiet ? 0 : next_pause_ms(link, failure->passes));
	message = link->client->failed(failure, &hint);
	if (!failure->is_quiet && log_is_due(link->client->log_kind, &left_out))
		ereport(WARNING,
				(errmsg_internal("%s", message),
				 errdetail("%s%s", failure->sentence, log_left_out(left_out)),
				 errhint("%s", hint)));
}

int
registry_link_sqlstate(const PGresult *answer)
{
	const char *code = PQresultErrorField(answer, PG_DIAG_SQLSTATE);

	return code == NULL || strlen(code) != 5 ? 0 :
		MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

void
registry_link_give_up(RegistryLink *link, const char *reason, const char *hint)
{
	LinkFailure failure = {.hint = hint,.passes = hint == NULL};

	fail(link, reason, &failure);
}

bool
registry_link_understands(RegistryLink *link, int64 protocol)
{
	if (protocol == LINK_PROTOCOL)
		return true;
	registry_link_give_up(link,
						  psprintf("it speaks version " INT64_FORMAT " of the protocol, and this server version %d",
								   protocol, LINK_PROTOCOL),
						  psprintf("Update the older of the two: %s.",
								   protocol < LINK_PROTOCOL ? UPDATE_REGISTRY : UPDATE_SERVER));
	return false;
}

/*
 * There is no connection.  What the registry says of that has no SQLSTATE, and
 * may be in another language.
 */
static void
give_up_connecting(RegistryLink *link)
{
	static const char *const lasting[] = {
		"authentication failed", "no pg_hba.conf entry", "does not exist",
		"is not permitted to log in", "permission denied for database"
	};
	const char *message = PQerrorMessage(link->conn);
	const char *hint = NULL;

	for (int i = 0; i < (int) lengthof(lasting); i++)
	{
		if (strstr(message, "FATAL:") != NULL && strstr(message, lasting[i]) != NULL)
			hint = "Check host, dbname and user in \"snowflake.registry\", the password, and pg_hba.conf of the registry.";
	}
	if (PQconnectionNeedsPassword(link->conn) ||
		strstr(message, "no password supplied") != NULL)
		hint = "Put the password into the password file of the operating system user that runs this server (~/.pgpass of that user), or name another file with the option \"passfile\" of \"snowflake.registry\".";
	registry_link_give_up(link, message, hint);
}

/*
 * The n-th element of a list as libpq has them, a single one for all.
 */
static char *
list_element(const char *list, int n)
{
	if (strchr(list, ',') == NULL)
		return pstrdup(list);
	for (int i = 0; i < n; i++)
	{
		list += strcspn(list, ",");
		if (*list == ',')
			list++;
	}
	return pnstrdup(list, strcspn(list, ","));
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
 * The name of the link's sessions in the registry: the same for all of this
 * start of the server, and for those of no other one.  Names have 63
 * characters.
 */
static const char *
session_name(RegistryLink *link)
{
	char	   *start = psprintf(UINT64_FORMAT " %d " INT64_FORMAT " %s", GetSystemIdentifier(),
								 (int) PostmasterPid, (int64) PgStartTime, DataDir);

	return psprintf("snowflake %s %.28s:%d %08x", link->client->purpose, instance_host(),
					PostPortNumber, hash_bytes((unsigned char *) start, (int) strlen(start)));
}

/*
 * A notice has come.  A warning means that the answer cannot be relied on: for
 * example, that no synchronous standby has what was committed.  But where the
 * registry runs out of transaction IDs, each that is assigned gives a warning.
 */
static void
note_notice(void *arg, const PGresult *notice)
{
	RegistryLink *link = arg;
	const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
	const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

	if (severity != NULL &&
		(strcmp(severity, "NOTICE") == 0 || strcmp(severity, "INFO") == 0 ||
		 strcmp(severity, "LOG") == 0 || strncmp(severity, "DEBUG", 5) == 0))
		return;
	if (function != NULL && (strcmp(function, "GetNewTransactionId") == 0 ||
							 strcmp(function, "GetNewMultiXactId") == 0))
		return;
	if (link->warning[0] == '\0')
		strlcpy(link->warning, message != NULL ? message : "unknown warning",
				sizeof(link->warning));
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

	/* it was checked when it was set */
	PQconninfoOption *options = PQconninfoParse(snowflake_registry, NULL);

	if (options == NULL)
	{
		registry_link_give_up(link, "out of memory", NULL);
		return;
	}

	link->hosts = 1;
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val != NULL &&
			(strcmp(option->keyword, "host") == 0 ||
			 strcmp(option->keyword, "hostaddr") == 0))
			link->hosts = Max(link->hosts, count_elements(option->val));
	}

	keywords[n] = "target_session_attrs";
	values[n++] = "read-write";
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val == NULL || n >= (int) lengthof(keywords) - 3)
			continue;
		keywords[n] = option->keyword;
		if (strcmp(option->keyword, "host") == 0 ||
			strcmp(option->keyword, "hostaddr") == 0 ||
			strcmp(option->keyword, "port") == 0)
			values[n++] = list_element(option->val, link->attempt % link->hosts);
		else
			values[n++] = pstrdup(option->val);
	}

	/* the last one of a keyword counts */
	keywords[n] = "client_encoding";
	values[n++] = "UTF8";
	keywords[n] = "application_name";
	values[n++] = session_name(link);
	keywords[n] = NULL;
	values[n] = NULL;
	PQconninfoFree(options);

	link->attempt++;
	link->conn = PQconnectStartParams(keywords, values, 0);
	if (link->conn == NULL)
	{
		registry_link_give_up(link, "out of memory", NULL);
		return;
	}
	PQsetNoticeReceiver(link->conn, note_notice, link);
	if (PQstatus(link->conn) == CONNECTION_BAD)
	{
		give_up_connecting(link);
		return;
	}
	link->state = LINK_CONNECTING;
	link->polling = PGRES_POLLING_WRITING;
	link->until = clock_read_steady() + LINK_ATTEMPT_MS * 1000;
}

/*
 * Something is asked: what comes from now on is its answer.
 */
static void
await_answer(RegistryLink *link, LinkState state, int is_sent, int64 sent_at)
{
	if (is_sent == 0)
	{
		registry_link_give_up(link, PQerrorMessage(link->conn), NULL);
		return;
	}
	link->state = state;
	link->needs_flush = true;
	link->until = sent_at + LINK_ATTEMPT_MS * 1000;
}

static void
forget_answer(RegistryLink *link)
{
	PQclear(link->answer);
	link->answer = NULL;
	link->warning[0] = '\0';
}

static void
greet(RegistryLink *link)
{
	const LinkClient *client = link->client;
	const char *values[] = {
		session_name(link), client->function, psprintf("%d", client->nargs)
	};

	forget_answer(link);
	if (PQsetnonblocking(link->conn, 1) != 0)
	{
		registry_link_give_up(link, PQerrorMessage(link->conn), NULL);
		return;
	}
	await_answer(link, LINK_GREETING,
				 PQsendQueryParams(link->conn, GREETING, lengthof(values), NULL,
								   values, NULL, NULL, 0),
				 clock_read_steady());
}

/*
 * What the registry lacks, and a hint; NULL when it lacks nothing.  Its version
 * need not be this server's: what counts is the function, and the protocol of its
 * answers.  The hint names neither host nor role, as everybody may see it.
 */
static const char *
what_lacks(RegistryLink *link, const PGresult *answer, const char **hint)
{
	const LinkClient *client = link->client;
	const char *role = PQgetvalue(answer, 0, COL_ROLE);
	const char *schema = PQgetvalue(answer, 0, COL_SCHEMA);
	const char *version = PQgetvalue(answer, 0, COL_VERSION);
	char	   *where = psprintf("in database \"%s\" of host \"%s\"",
								 PQgetvalue(answer, 0, COL_DATABASE), PQhost(link->conn));

	if (PQgetisnull(answer, 0, COL_VERSION))
	{
		*hint = "Run CREATE EXTENSION " REGISTRY_EXTENSION " in that database.";
		return psprintf("there is no extension \"" REGISTRY_EXTENSION "\" %s", where);
	}
	if (PQgetisnull(answer, 0, COL_MAY_EXECUTE))
	{
		*hint = "Update the older of the two: " UPDATE_REGISTRY ", or " UPDATE_SERVER ".";
		return psprintf("extension \"" REGISTRY_EXTENSION "\" %s is of version %s, and has no function %s() with %d arguments, which this server calls",
						where, version, client->function, client->nargs);
	}
	if (PQgetvalue(answer, 0, COL_MAY_USE)[0] != 't')
	{
		*hint = psprintf("Run GRANT USAGE ON SCHEMA %s TO that role, in that database.", schema);
		return psprintf("role \"%s\" may not use schema %s %s", role, schema, where);
	}
	if (PQgetvalue(answer, 0, COL_MAY_EXECUTE)[0] != 't')
	{
		*hint = psprintf("Run GRANT EXECUTE ON FUNCTION %s.%s TO that role, in that database.",
						 schema, client->function);
		return psprintf("role \"%s\" may not execute function %s.%s() %s",
						role, schema, client->function, where);
	}
	return NULL;
}

static void
handle_greeting(RegistryLink *link, const PGresult *answer)
{
	const char *lack;
	const char *hint;

	if (PQntuples(answer) != 1 || PQnfields(answer) != GREETING_COLS)
		registry_link_give_up(link, "it did not understand the request", NULL);
	else if ((lack = what_lacks(link, answer, &hint)) != NULL)
		registry_link_give_up(link, lack, hint);
	else
	{
		snprintf(link->schema, sizeof(link->schema), "%s.",
				 PQgetvalue(answer, 0, COL_SCHEMA));
		forget_answer(link);
		await_answer(link, LINK_PREPARING,
					 PQsendPrepare(link->conn, PREPARED,
								   psprintf(link->client->statement, link->schema), 0, NULL),
					 clock_read_steady());
	}
}

static void
ask(RegistryLink *link)
{
	LinkRequest request = {0};
	int			is_sent;

	forget_answer(link);		/* that an ERROR kept from being handled */
	link->sent_at = clock_read_steady();
	if (!link->client->build(link, &request, !link->has_asked))
		return;
	Assert(request.nparams <= LINK_MAX_PARAMS);
	link->sent_statement = request.sql == link->client->statement;
	if (link->sent_statement)
		is_sent = PQsendQueryPrepared(link->conn, PREPARED, request.nparams,
									  request.values, NULL, NULL, 0);
	else
		is_sent = PQsendQueryParams(link->conn, psprintf(request.sql, link->schema),
									request.nparams, NULL, request.values, NULL, NULL, 0);
	link->has_asked = is_sent != 0;
	await_answer(link, LINK_ASKING, is_sent, link->sent_at);
}

/* For a link that rests. */
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
	if (link->conn == NULL)
		begin_to_connect(link);
	else if (worker_holds_up_stop(PQbackendPID(link->conn)))
		registry_link_give_up(link, "it is in this server, which shuts down", NULL);
	else
		ask(link);
}

/*
 * The registry has answered with an error.  If it does not pass by itself, it
 * may be due to a change in the registry, such as a right that was revoked.
 * Then the greeting of the next connection can say more, so this one is not
 * logged.
 */
void
registry_link_give_up_with_error(RegistryLink *link)
{
	int			sqlstate = registry_link_sqlstate(link->answer);
	const char *message = PQresultErrorField(link->answer, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(link->answer, PG_DIAG_MESSAGE_DETAIL);
	LinkFailure failure = {.passes = true};

	if (message == NULL || sqlstate == 0)
		message = PQresultErrorMessage(link->answer);
	else
		failure.passes = wait_error_passes(sqlstate);
	if (sqlstate == ERRCODE_DUPLICATE_PSTATEMENT || sqlstate == ERRCODE_UNDEFINED_PSTATEMENT)
		detail = "a pooler in between must be in session mode";
	failure.hint = PQresultErrorField(link->answer, PG_DIAG_MESSAGE_HINT);
	failure.is_quiet = !failure.passes && !link->is_doubted;
	link->is_doubted = !failure.passes;
	fail(link, detail == NULL ? message : psprintf("%s (%s)", message, detail), &failure);
}

/*
 * The connection was lost, or there is no more of an answer in time.  Where
 * the registry has said why, that is the reason.
 */
static void
give_up_asking(RegistryLink *link, const char *reason)
{
	if (link->answer != NULL && PQresultStatus(link->answer) == PGRES_FATAL_ERROR)
		registry_link_give_up_with_error(link);
	else
		registry_link_give_up(link, reason, NULL);
}

static void
finish(RegistryLink *link)
{
	LinkState	state = link->state;
	bool		is_error = PQresultStatus(link->answer) == PGRES_FATAL_ERROR;
	int			sqlstate = registry_link_sqlstate(link->answer);
	int			category = ERRCODE_TO_CATEGORY(sqlstate);

	/* of others the client can tell which of what it asked for they are about */
	if (is_error && (state != LINK_ASKING ||
					 (link->sent_statement &&
					  (sqlstate == 0 ||
					   category == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION ||
					   category == ERRCODE_FEATURE_NOT_SUPPORTED ||
					   category == ERRCODE_INVALID_SQL_STATEMENT_NAME))))
	{
		registry_link_give_up_with_error(link);
		return;
	}
	if (!is_error && state != LINK_PREPARING && link->warning[0] != '\0')
	{
		registry_link_give_up(link, psprintf("it does not confirm its answer, but says \"%s\"",
											 link->warning), NULL);
		return;
	}

	if (state == LINK_GREETING)
	{
		handle_greeting(link, link->answer);
		return;
	}
	rest(link, 0);
	if (state == LINK_PREPARING)
		return;

	link->client->handle(link, link->answer);
	forget_answer(link);
	if (link->conn != NULL)
	{
		link->failures = 0;
		link->is_doubted = false;
	}
}

static void
receive(RegistryLink *link)
{
	PGresult   *result;
	ExecStatusType status;
	int			flushed = link->needs_flush ? PQflush(link->conn) : 0;

	link->needs_flush = flushed > 0;
	if (flushed < 0 || PQconsumeInput(link->conn) == 0)
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
				give_up_asking(link, "no answer");
			else
				finish(link);
			return;
		}
		PQclear(link->answer);
		link->answer = result;

		/* of a COPY there would be no end */
		status = PQresultStatus(result);
		if (status != PGRES_FATAL_ERROR &&
			status != (link->state == LINK_PREPARING ? PGRES_COMMAND_OK : PGRES_TUPLES_OK))
		{
			registry_link_give_up(link, psprintf("it answered with %s", PQresStatus(status)), NULL);
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
				give_up_connecting(link);
			else if (link->polling == PGRES_POLLING_OK)
				greet(link);
			else if (now >= link->until)
				registry_link_give_up(link, psprintf("no connection in %d ms", LINK_ATTEMPT_MS),
									  NULL);
			break;

		case LINK_GREETING:
		case LINK_PREPARING:
		case LINK_ASKING:
			receive(link);
			if (link->state != LINK_RESTING && now >= link->until)
				give_up_asking(link, psprintf("no answer in %d ms", LINK_ATTEMPT_MS));
			break;
	}
}

long
registry_link_wait(RegistryLink *link, WaitEventSet *set)
{
	int64		until = link->until;

	if (!link->client->is_used())
		return -1;

	if (link->state == LINK_RESTING)
		until = goes_on_at(link);
	else if (PQsocket(link->conn) != PGINVALID_SOCKET)
	{
		int			events = WL_SOCKET_READABLE | (link->needs_flush ? WL_SOCKET_WRITEABLE : 0);

		if (link->state == LINK_CONNECTING)
			events = link->polling == PGRES_POLLING_READING ?
				WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
		AddWaitEventToSet(set, events, PQsocket(link->conn), NULL, link);
	}
	if (until == PG_INT64_MAX)
		return -1;
	return (long) Min(Max((until - clock_read_steady() + 999) / 1000, 0), PG_INT32_MAX);
}

void
registry_link_pause(RegistryLink *link)
{
	/* what was under way is not to be gone on with */
	if (link->state != LINK_RESTING)
		disconnect(link);
	rest(link, next_pause_ms(link, true));
}

void
registry_link_reset(RegistryLink *link)
{
	disconnect(link);
	rest(link, 0);
	link->failures = 0;
}

void
registry_link_retry(RegistryLink *link)
{
	if (link->state == LINK_RESTING)
		rest(link, 0);
}

int64
registry_link_jitter(int64 time)
{
	return time - time / 10 + (int64) (pg_prng_double(&pg_global_prng_state) * (time / 5));
}

bool
registry_link_is_outdated(const char *before, const char *now)
{
	size_t		system = strcspn(now, "/");

	return now[system] == '/' && strncmp(now, before, system + 1) == 0 &&
		strncmp(now + system + 1, before + system + 1, 8) < 0;
}
