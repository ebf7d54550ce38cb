/*-------------------------------------------------------------------------
 *
 * segment_request.h
 *		What the registry is asked about segments, and what it answers.  Texts
 *		are in UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_REQUEST_H
#define SNOWFLAKE_SEGMENT_REQUEST_H

#include "lib/stringinfo.h"

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

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_REQUEST_H */
