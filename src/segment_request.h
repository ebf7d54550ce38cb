/*-------------------------------------------------------------------------
 *
 * segment_request.h
 *		What the registry is asked about segments, and what it answers.
 *
 * Texts are in UTF-8.  An answer comes over the link, or from the home
 * database, by SPI, where the result is NULL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_REQUEST_H
#define SNOWFLAKE_SEGMENT_REQUEST_H

#include "registry_link.h"
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
	char	   *tag;
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

/* Who asks, and what it was told last, as in Segments. */
typedef struct SegmentReporter
{
	char		id[SEGMENT_REPORTER_SIZE];
	int64		reports;		/* 0 where that does not count any more */
	char		place[SEGMENT_PLACE_SIZE];
} SegmentReporter;

/*
 * The requests.  In the statement, %s is the schema of the functions, and a dot.
 */

extern const char segment_take_sql[];
#define SEGMENT_TAKE_PARAMS	8

/*
 * Take segments for these tags, and hold them for so long (microseconds).  The
 * reporter is NULL at home.
 */
extern void segment_request_take(LinkRequest *take, const SegmentAsk *asks,
								 int nasks, int64 hold,
								 const SegmentReporter *reporter);

/* Create, alter or drop a tag. */
extern void segment_request_command(LinkRequest *sent, const SegmentCommand *command);

/*
 * The answers
 */
extern SegmentRow *segment_read_rows(const PGresult *answer, int nrows);

/* Are they what the registry can say of tags? */
extern bool segment_rows_are_sound(const SegmentRow *rows, int nrows);

/* What came of a command. */
extern SegmentResult segment_read_result(const PGresult *answer);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_REQUEST_H */
