/*-------------------------------------------------------------------------
 *
 * registry_link.h
 *		A connection to the registry, for one request at a time.
 *
 * For the services.  Nothing here waits for the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_LINK_H
#define SNOWFLAKE_REGISTRY_LINK_H

#include "libpq-fe.h"

#include "storage/latch.h"

#include "shmem.h"

#pragma GCC visibility push(hidden)

/* An answer that takes longer is given up, even if it comes later. */
#define LINK_ATTEMPT_MS	5000

#define LINK_MAX_PARAMS	18

/*
 * The extension that the registry must have, of any version; and the version of
 * what this server and the registry say to each other.
 */
#define REGISTRY_EXTENSION	"snowflake_registry"
#define LINK_PROTOCOL		1

typedef struct LinkRequest
{
	/*
	 * One statement, and so one transaction.  Where it has "%s", that is for
	 * the schema of the registry's extension, with a dot after it.
	 */
	const char *sql;
	int			nparams;
	const char *values[LINK_MAX_PARAMS];	/* text, NULL for null */
} LinkRequest;

typedef struct RegistryLink RegistryLink;

/* Why it did not work, in UTF-8. */
typedef struct LinkFailure
{
	const char *sentence;		/* that says so */
	const char *hint;			/* what to do, a sentence; NULL for nothing
								 * special */
	bool		passes;			/* by itself; else somebody has to mend it */
	bool		is_quiet;		/* not for the log: the link tries again at
								 * once, and then knows more */
} LinkFailure;

/*
 * What uses a connection.  Only prepare(), build() and handle() may raise an
 * ERROR, after which registry_link_pause() is due.
 */
typedef struct LinkClient
{
	/* What it is for, in the name by which the registry knows the session. */
	const char *purpose;

	/* What the registry must have: a function with so many arguments. */
	const char *function;
	int			nargs;

	/*
	 * The statement that is sent again and again, see LinkRequest.  It is
	 * prepared on each connection, and known by this pointer.
	 */
	const char *statement;

	/* Is a connection needed at all?  When not, it is closed. */
	bool		(*is_used) (void);

	/*
	 * What has to be done before anything is asked, connected or not.  Called
	 * each time that the link is served.  NULL for nothing.
	 */
	void		(*prepare) (void);

	/*
	 * When to ask next, by the steady clock: 0 at once, PG_INT64_MAX not
	 * before it is woken.  After a failure some time passes whatever this
	 * says.
	 */
	int64		(*due) (void);

	/*
	 * What to ask; not for long, since link->sent_at is now.  is_first: the
	 * first time on this connection.  Returns false for nothing yet: then
	 * due() is later.
	 */
	bool		(*build) (RegistryLink *link, LinkRequest *request, bool is_first);

	/*
	 * The answer: committed when it is PGRES_TUPLES_OK, or else the error
	 * that the registry answered with.  May call registry_link_give_up().
	 */
	void		(*handle) (RegistryLink *link, const PGresult *answer);

	/*
	 * It did not work: no connection, no answer in time, a connection that
	 * was lost, a registry that lacks something, registry_link_give_up().  By
	 * now it is disconnected, and tries again later.  Returns the message for
	 * the log, and sets the hint there.
	 */
	const char *(*failed) (const LinkFailure *failure, const char **hint);
	LogKind		log_kind;
} LinkClient;

typedef enum LinkState
{
	LINK_RESTING,				/* not before "until"; a connection is idle */
	LINK_CONNECTING,			/* as "polling" says, until "until" */

	/* An answer is awaited, until "until": */
	LINK_GREETING,				/* to what is asked first on a connection */
	LINK_PREPARING,				/* to the preparing of the client's statement */
	LINK_ASKING					/* to a request */
} LinkState;

/*
 * All zero but for the client at first.  Written by registry_link.c alone, but
 * for what is said.
 */
struct RegistryLink
{
	const LinkClient *client;
	LinkState	state;
	int64		until;			/* steady clock */
	PGconn	   *conn;			/* NULL for none */
	PostgresPollingStatusType polling;
	bool		is_ready;		/* what is waited for has come: set by who
								 * waits */
	int			attempt;		/* counts them, to choose a host */
	int			hosts;			/* to choose from */
	int			failures;		/* since the last answer */
	bool		is_doubted;		/* the last error is to be followed by a
								 * greeting that may find the cause */
	char		schema[2 * NAMEDATALEN + 4];	/* as quoted, with a dot */
	bool		sent_statement; /* the client's, that is prepared */
	char		warning[256];	/* that came with the answer; '' for none */
	bool		has_asked;		/* on this connection */
	int64		sent_at;		/* steady clock, not after the last request */
	bool		needs_flush;	/* not all of the request was sent */
	PGresult   *answer;			/* until it is committed and handled */
};

/* Do what can be done now.  Raises an ERROR where its client does. */
extern void registry_link_serve(RegistryLink *link);

/*
 * What to wait for before that is to be called again: adds its socket to a set,
 * if there is one, with the link as user data.  Returns a time in ms, -1 for none.
 */
extern long registry_link_wait(RegistryLink *link, WaitEventSet *set);

/* Its client has raised an ERROR: let some time pass. */
extern void registry_link_pause(RegistryLink *link);

/* The setting has changed: disconnect, and try at once. */
extern void registry_link_reset(RegistryLink *link);

/* Somebody may have mended what is wrong: a pause after a failure is over. */
extern void registry_link_retry(RegistryLink *link);

/* A time that a thousand servers are not to have in common: 10% more or less. */
extern int64 registry_link_jitter(int64 time);

/*
 * Two answers of the registry say where it is, as "system identifier/timeline"
 * and more.  Is the later one of a primary that another was promoted in place
 * of?
 */
extern bool registry_link_is_outdated(const char *before, const char *now);

/* The SQLSTATE of an answer that is an error, 0 for none. */
extern int	registry_link_sqlstate(const PGresult *answer);

/* For handle(): is it of the protocol's version?  If not, it is given up. */
extern bool registry_link_understands(RegistryLink *link, int64 protocol);

/*
 * Likewise: what came is no answer.  Somebody has to mend it, as the hint says;
 * where that is NULL, it passes by itself.
 */
extern void registry_link_give_up(RegistryLink *link, const char *reason, const char *hint);

/* The same, where it is an error. */
extern void registry_link_give_up_with_error(RegistryLink *link);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_REGISTRY_LINK_H */
