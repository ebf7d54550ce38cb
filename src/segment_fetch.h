/*-------------------------------------------------------------------------
 *
 * segment_fetch.h
 *		Segments, as the services fetch them.  Texts are in UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_FETCH_H
#define SNOWFLAKE_SEGMENT_FETCH_H

#include "segment_request.h"
#include "settings.h"

#pragma GCC visibility push(hidden)

/* What the request that is under way is about. */
typedef enum SegmentFetchKind
{
	FETCH_NOTHING,				/* there is none */
	FETCH_TAKE,					/* segments of tags */
	FETCH_COMMAND				/* what a session has asked for */
} SegmentFetchKind;

/* Does the home database give segments, since there is no registry? */
static inline bool
segment_is_at_home(void)
{
	return snowflake_registry[0] == '\0';
}

/* When to ask next, on the steady clock; PG_INT64_MAX for not at all. */
extern int64 segment_fetch_due(void);

/*
 * Choose and build the next request, which is sent at this time.  is_first:
 * the first one on a connection to the registry.  At home there may be
 * nothing to ask.
 */
extern SegmentFetchKind segment_fetch_build(LinkRequest *sent, int64 sent_at,
											bool is_first);

/* The answer to FETCH_TAKE: no rows at home where no tag was created yet. */
extern void segment_fetch_handle_rows(SegmentRow *rows, int nrows);

/*
 * Find the rows of the registry that are news to this server: of an incarnation
 * that is not known here, or its first segment.  The home database may have given
 * out numbers of these tags before.  Returns how many.
 */
extern int	segment_fetch_find_news(SegmentRow *rows, int nrows);

/*
 * Why rows from the registry are no answer to the request, as a sentence for
 * registry_link_give_up(); NULL when they are one.
 */
extern const char *segment_fetch_objection(const SegmentRow *rows, int nrows);

/* The answer to FETCH_COMMAND: the session that has asked may read it. */
extern void segment_fetch_handle_result(const SegmentResult *result);

/* The answer is an error of the database.  Its texts may be NULL. */
extern void segment_fetch_note_error(int sqlstate, const char *message,
									 const char *detail, const char *hint);

/* There is no answer.  The error is a sentence, and may pass by itself. */
extern void segment_fetch_note_no_answer(const char *error, bool passes);

/* The setting snowflake.registry may have changed. */
extern void segment_leave_home(void);

/* In services that begin: those before may have ended at any point. */
extern void segment_begin(void);

/*
 * segment_send.c: how it is sent
 */

/* The connection to the registry for segments. */
extern RegistryLink segment_link;

/*
 * When the home database is to be asked for something, on the steady clock;
 * PG_INT64_MAX for not at all.  And ask it.
 */
extern int64 segment_due_at_home(void);
extern void segment_serve_at_home(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_FETCH_H */
