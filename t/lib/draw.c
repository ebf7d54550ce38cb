/*-------------------------------------------------------------------------
 *
 * draw.c
 *		Draw IDs on many connections and record every ID that arrives.
 *
 *		draw [-s] [-c SESSIONS] [-n IDS | -q SQL] [-d DELAY_MS] -f FILE CONNINFO
 *
 * A client for tests that break things meanwhile: the server, its backends,
 * the way there.  All sessions are in one poll() loop.  Each connects, runs a
 * statement over and over (-q, else one that draws -n IDs) with a pause of
 * DELAY_MS, and connects anew when the connection is gone.  At first they wait
 * until each has connected, or failed to, so that all draw from the beginning.
 *
 * For each row a line "session ID" is added to FILE, the ID being the first
 * column.  A session has a new number each time that it connects, with -s for
 * each statement, so lines with the same number are in the order drawn.  Rows
 * are taken one by one, so those that came before an error count too.
 *
 * It ends at SIGTERM or at the end of its standard input, so that it does not
 * outlive who started it.  Statements that are under way have FINISH_MS, or
 * with -w MS another time, to finish.  Then standard output gets
 *
 *		ids N							rows recorded
 *		statements N					statements that ended well
 *		unfinished N					statements under way at the end
 *		connects N						connections made
 *		lost N [MESSAGE]				connections made and lost
 *		refused N [MESSAGE]				connections not made
 *		error SQLSTATE N MESSAGE		errors that the server sent
 *
 * where a message is that of the first of its kind.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#define ERROR_PAUSE_MS		10	/* after a statement that failed */
#define CONNECT_PAUSE_MS	20	/* after a connection that failed */
#define FINISH_MS			1000	/* for statements under way at the end */
#define LOOK_MS				100 /* longest time to not look for SIGTERM */

typedef enum SessionState
{
	SESSION_CLOSED,				/* connects at "due" */
	SESSION_CONNECTING,
	SESSION_IDLE,				/* sends the next statement at "due" */
	SESSION_BUSY				/* a statement is under way */
} SessionState;

typedef struct Session
{
	SessionState state;
	PGconn	   *conn;			/* NULL when closed */
	short		events;			/* what to wait for on its socket */
	int64_t		due;			/* when to go on, in ms */
	long		number;			/* of the connection or the statement */
	bool		failed;			/* this statement has met an error */
	bool		tried;			/* has connected once, or failed to */
} Session;

/* How often something happened, and what it said at first */
typedef struct Count
{
	char		sqlstate[6];
	long		count;
	char	   *message;
} Count;

/* options */
static int	nsessions = 1;
static bool number_statements = false;
static int	delay_ms = 0;
static int	finish_ms = FINISH_MS;
static const char *sql;
static const char *conninfo;
static const char *file_name;

static FILE *file;
static volatile sig_atomic_t terminated = false;
static bool stopping = false;
static long last_number = 0;
static int	ntried = 0;			/* sessions that have tried to connect */

/* what is reported */
static long ids = 0;
static long statements = 0;
static long unfinished = 0;
static long connects = 0;
static Count lost;
static Count refused;
static Count *errors = NULL;
static int	nerrors = 0;

static void die(const char *format,...)
			__attribute__((noreturn, format(printf, 1, 2)));

static void
die(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fputs("draw: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void
handle_sigterm(int signo)
{
	(void) signo;
	terminated = true;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Count one more, and keep the first message, as one line.
 */
static void
count(Count *what, const char *message)
{
	if (what->count++ > 0)
		return;

	what->message = strdup(message ? message : "");
	if (what->message == NULL)
		die("out of memory");
	for (char *c = what->message; *c; c++)
	{
		if (*c == '\n' || *c == '\t')
			*c = c[1] ? ' ' : '\0';
	}
}

/*
 * Count an error that the server sent.  Those of libpq itself, which have no
 * SQLSTATE, mean that the connection is gone, and are counted as that.
 */
static void
count_error(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	int			i;

	if (sqlstate == NULL)
		return;
	for (i = 0; i < nerrors && strcmp(errors[i].sqlstate, sqlstate) != 0; i++)
		;
	if (i == nerrors)
	{
		errors = realloc(errors, ++nerrors * sizeof(Count));
		if (errors == NULL)
			die("out of memory");
		memset(&errors[i], 0, sizeof(Count));
		snprintf(errors[i].sqlstate, sizeof(errors[i].sqlstate), "%s", sqlstate);
	}
	count(&errors[i], PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

/*
 * What arrives while no statement is under way is a notice to libpq, also a
 * FATAL error.
 */
static void
receive_notice(void *arg, const PGresult *result)
{
	const char *severity = PQresultErrorField(result,
											  PG_DIAG_SEVERITY_NONLOCALIZED);

	(void) arg;
	if (severity != NULL &&
		(strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		count_error(result);
}

static void
session_close(Session *session)
{
	PQfinish(session->conn);
	session->conn = NULL;
	session->state = SESSION_CLOSED;
	session->due = now_ms() + CONNECT_PAUSE_MS;
}

/*
 * Record a result: a row, or several, or the end of them, or an error.
 */
static void
session_record(Session *session, PGresult *result)
{
	switch (PQresultStatus(result))
	{
		case PGRES_SINGLE_TUPLE:
		case PGRES_TUPLES_OK:
			for (int row = 0; row < PQntuples(result); row++)
			{
				const char *id = PQgetvalue(result, row, 0);

				/* void or NULL: a row without an ID */
				if (id[0] == '\0')
					continue;
				if (id[strspn(id, "-0123456789")] != '\0')
					die("the first column is not an ID: \"%s\"", id);
				fprintf(file, "%ld %s\n", session->number, id);
				ids++;
			}
			break;

		case PGRES_COMMAND_OK:
		case PGRES_EMPTY_QUERY:
			break;

		case PGRES_FATAL_ERROR:
		case PGRES_BAD_RESPONSE:
			count_error(result);
			session->failed = true;
			break;

		default:
			die("unexpected result: %s", PQresStatus(PQresultStatus(result)));
	}
	PQclear(result);
}

/*
 * The connection is gone.  What has arrived before is still to be had.
 */
static void
session_lost(Session *session)
{
	PGresult   *result;

	if (PQstatus(session->conn) == CONNECTION_BAD)
	{
		while ((result = PQgetResult(session->conn)) != NULL)
			session_record(session, result);
	}
	count(&lost, PQerrorMessage(session->conn));
	session_close(session);
}

/*
 * The attempt to connect has ended, well or not.
 */
static void
session_tried(Session *session)
{
	if (!session->tried)
		ntried++;
	session->tried = true;
}

static void
session_refused(Session *session)
{
	session_tried(session);
	count(&refused, PQerrorMessage(session->conn));
	session_close(session);
}

static void
session_flush(Session *session)
{
	/* A failure shows when reading, after all that there is to read. */
	session->events = POLLIN;
	if (PQflush(session->conn) > 0)
		session->events |= POLLOUT;
}

static void
session_send(Session *session)
{
	if (number_statements)
		session->number = ++last_number;
	session->failed = false;
	if (!PQsendQuery(session->conn, sql))
	{
		session_lost(session);
		return;
	}
	if (!PQsetSingleRowMode(session->conn))
		die("could not set single-row mode");
	session->state = SESSION_BUSY;
	session_flush(session);
}

static void
session_connect_poll(Session *session)
{
	switch (PQconnectPoll(session->conn))
	{
		case PGRES_POLLING_READING:
			session->events = POLLIN;
			break;

		case PGRES_POLLING_WRITING:
			session->events = POLLOUT;
			break;

		case PGRES_POLLING_OK:
			if (PQsetnonblocking(session->conn, 1) != 0)
				die("could not set a connection to non-blocking");
			session_tried(session);
			connects++;
			session->number = ++last_number;
			session->state = SESSION_IDLE;
			session->events = POLLIN;
			session->due = 0;
			break;

		default:
			session_refused(session);
			break;
	}
}

static void
session_connect(Session *session)
{
	/* One that conninfo has takes the place of the first. */
	const char *const keywords[] = {"application_name", "dbname", NULL};
	const char *const values[] = {"draw", conninfo, NULL};

	session->conn = PQconnectStartParams(keywords, values, 1);
	if (session->conn == NULL)
		die("out of memory");
	PQsetNoticeReceiver(session->conn, receive_notice, NULL);
	if (PQstatus(session->conn) == CONNECTION_BAD)
	{
		session_refused(session);
		return;
	}
	session->state = SESSION_CONNECTING;
	session->events = POLLOUT;
}

/*
 * Read what has arrived.
 */
static void
session_read(Session *session)
{
	bool		alive = PQconsumeInput(session->conn);

	while (session->state == SESSION_BUSY && !PQisBusy(session->conn))
	{
		PGresult   *result = PQgetResult(session->conn);

		if (result != NULL)
		{
			session_record(session, result);
			continue;
		}

		/* the end of the statement */
		if (!session->failed)
			statements++;
		session->state = SESSION_IDLE;
		session->due = now_ms() +
			(session->failed ? ERROR_PAUSE_MS : delay_ms);
	}
	if (!alive || PQstatus(session->conn) == CONNECTION_BAD)
		session_lost(session);
}

/*
 * Its socket is ready.
 */
static void
session_ready(Session *session)
{
	if (session->state == SESSION_CONNECTING)
	{
		session_connect_poll(session);
		return;
	}
	if (session->events & POLLOUT)
		session_flush(session);
	session_read(session);
}

/*
 * Do what is due.
 */
static void
session_proceed(Session *session)
{
	if (session->state == SESSION_CLOSED)
		session_connect(session);
	else if (session->state == SESSION_IDLE && ntried == nsessions)
		session_send(session);
}

static bool
stdin_ended(void)
{
	char		buffer[256];
	ssize_t		n = read(STDIN_FILENO, buffer, sizeof(buffer));

	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static void
draw(void)
{
	Session    *sessions = calloc(nsessions, sizeof(Session));
	struct pollfd *fds = calloc(nsessions + 1, sizeof(struct pollfd));
	int64_t		stop_at = 0;

	if (sessions == NULL || fds == NULL)
		die("out of memory");

	for (;;)
	{
		int64_t		now = now_ms();
		int64_t		wake = now + LOOK_MS;
		int			nbusy = 0;

		if (terminated && !stopping)
		{
			stopping = true;
			stop_at = now + finish_ms;
		}

		for (int i = 0; i < nsessions; i++)
		{
			Session    *session = &sessions[i];

			if (!stopping && session->due <= now)
				session_proceed(session);
			if ((session->state == SESSION_CLOSED ||
				 (session->state == SESSION_IDLE && ntried == nsessions)) &&
				session->due < wake)
				wake = session->due;
			if (session->state == SESSION_BUSY)
				nbusy++;
			fds[i].fd = session->conn ? PQsocket(session->conn) : -1;
			fds[i].events = session->events;
			fds[i].revents = 0;
		}
		if (stopping)
		{
			if (nbusy == 0 || now >= stop_at)
				break;
			wake = stop_at;
		}
		fds[nsessions].fd = stopping ? -1 : STDIN_FILENO;
		fds[nsessions].events = POLLIN;
		fds[nsessions].revents = 0;

		if (poll(fds, nsessions + 1, wake > now ? wake - now : 0) < 0)
		{
			if (errno != EINTR)
				die("poll failed: %s", strerror(errno));
			continue;
		}
		for (int i = 0; i < nsessions; i++)
		{
			if (fds[i].revents != 0)
				session_ready(&sessions[i]);
		}
		if (fds[nsessions].revents != 0 && stdin_ended())
			terminated = true;

		/* Others may look at how far it is. */
		if (fflush(file) != 0)
			die("could not write to \"%s\": %s", file_name, strerror(errno));
	}

	for (int i = 0; i < nsessions; i++)
	{
		if (sessions[i].state == SESSION_BUSY)
			session_read(&sessions[i]);
		if (sessions[i].state == SESSION_BUSY)
			unfinished++;
		if (sessions[i].conn != NULL)
			PQfinish(sessions[i].conn);
	}
	free(sessions);
	free(fds);
}

static void
report(void)
{
	printf("ids %ld\n", ids);
	printf("statements %ld\n", statements);
	printf("unfinished %ld\n", unfinished);
	printf("connects %ld\n", connects);
	printf("lost %ld %s\n", lost.count, lost.message ? lost.message : "");
	printf("refused %ld %s\n", refused.count,
		   refused.message ? refused.message : "");
	for (int i = 0; i < nerrors; i++)
		printf("error %s %ld %s\n", errors[i].sqlstate, errors[i].count,
			   errors[i].message);
	if (fflush(stdout) != 0)
		die("could not write the report: %s", strerror(errno));
}

static int
number_option(int option)
{
	char	   *end;
	long		value = strtol(optarg, &end, 10);

	if (*optarg == '\0' || *end != '\0' || value < 0 || value > 1000000000)
		die("-%c takes a number, not \"%s\"", option, optarg);
	return (int) value;
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = handle_sigterm};
	struct rlimit limit;
	char		default_sql[100];
	int			nids = 10;
	int			option;

	while ((option = getopt(argc, argv, "c:d:f:n:q:sw:")) != -1)
	{
		switch (option)
		{
			case 'c':
				nsessions = number_option(option);
				break;
			case 'd':
				delay_ms = number_option(option);
				break;
			case 'f':
				file_name = optarg;
				break;
			case 'n':
				nids = number_option(option);
				break;
			case 'q':
				sql = optarg;
				break;
			case 's':
				number_statements = true;
				break;
			case 'w':
				finish_ms = number_option(option);
				break;
			default:
				exit(2);
		}
	}
	if (optind != argc - 1 || file_name == NULL)
		die("usage: draw [-s] [-c SESSIONS] [-n IDS | -q SQL] [-d DELAY_MS]"
			" [-w MS] -f FILE CONNINFO");
	conninfo = argv[optind];
	if (sql == NULL)
	{
		snprintf(default_sql, sizeof(default_sql),
				 "SELECT snowflake_nextval() FROM generate_series(1, %d)", nids);
		sql = default_sql;
	}

	/* As many files as there may be. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}

	/* No SA_RESTART, so that poll() ends. */
	sigaction(SIGTERM, &action, NULL);

	file = fopen(file_name, "w");
	if (file == NULL)
		die("could not create \"%s\": %s", file_name, strerror(errno));
	setvbuf(file, NULL, _IOFBF, 1 << 20);

	draw();
	if (fclose(file) != 0)
		die("could not write to \"%s\": %s", file_name, strerror(errno));
	report();
	return 0;
}
