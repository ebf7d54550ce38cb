/*-------------------------------------------------------------------------
 *
 * segment_fetch.h
 *		Segments, as the services fetch them.  Texts are in UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_FETCH_H
#define SNOWFLAKE_SEGMENT_FETCH_H

#include "lib/stringinfo.h"

#include "registry_link.h"
#include "settings.h"
#include "shmem.h"

#pragma GCC visibility push(hidden)

/* A tag that a request asks about. */
typedef struct SegmentAsk
{
	Segment    *segment;
	uint32		serial;
	int64		length;			/* of the segment wanted, 0 for none */
	int64		seen;
	char		tag[SEGMENT_TAG_SIZE];
	char		incarnation[SEGMENT_INCARNATION_SIZE];
} SegmentAsk;

/* What the registry says of a tag. */
typedef struct SegmentRow
{
	const char *tag;			/* '' for none */
	char	   *incarnation;	/* NULL when there is no such tag */
	bool		is_given;		/* from and to are a segment */
	int64		from;
	int64		to;
	int32		step;
	int32		delta;
	int32		remainder;
	int64		max_value;
	int64		max_id;
	char	   *closed_until;	/* NULL when it is open */
	bool		is_guarded;		/* it may open earlier */
	char	   *place;
	int64		reports;		/* as in Segments */
	int64		protocol;
	int64		hold;			/* that the registry grants, microseconds */

	/* For segment_fetch_find_news() and what comes of it. */
	bool		is_news;
	char	   *refusal;		/* why it is not used, a sentence; NULL if it is */
	bool		refusal_passes; /* by itself */
} SegmentRow;

/*
 * segment_request.c: what the registry is asked, and what it answers
 */

extern const char segment_take_sql[];
#define SEGMENT_TAKE_PARAMS	8

/*
 * Take segments for these tags, and hold them for so long (microseconds).  And
 * who asks, and what it was told last, as in Segments: all null at home.
 */
extern void segment_request_take(LinkRequest *take, const SegmentAsk *asks, int nasks, int64 hold,
								 const char *reporter, int64 reports, const char *place);

/* Create, alter or drop a tag. */
extern void segment_request_command(LinkRequest *sent, const SegmentCommand *command);

/* An array as text: append an element, NULL for null; and end it. */
extern void segment_array_add(StringInfo array, const char *value);
extern char *segment_array_end(StringInfo array);

/*
 * An answer: over the link, or, where it is NULL, of the home database, by SPI.
 * The rows are sorted by tag, for segment_find_row().
 */
extern SegmentRow *segment_read_rows(const PGresult *answer, int nrows);
extern SegmentRow *segment_find_row(SegmentRow *rows, int nrows, const char *tag);

extern bool segment_row_is_sound(const SegmentRow *row);

/* Likewise: what came of a command. */
extern SegmentResult *segment_read_result(const PGresult *answer);

/*
 * segment_fetch.c: the request that is under way
 */

/* What it is about. */
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
