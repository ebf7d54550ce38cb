/*-------------------------------------------------------------------------
 *
 * segment.h
 *		Short, dense numbers, out of segments that the registry gives.
 *
 * Leaf's segment mode, with TinyID's delta and remainder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_H
#define SNOWFLAKE_SEGMENT_H

#include "settings.h"
#include "shmem.h"

#pragma GCC visibility push(hidden)

/*
 * For sessions that draw numbers
 */

/* What a call of the SQL function remembers for the next one, zeroed before. */
typedef struct SegmentHandle
{
	Segment    *segment;		/* NULL for nothing */
	uint32		serial;
	int			length;
	char		tag[SEGMENT_TAG_SIZE];	/* as it was given */
} SegmentHandle;

/*
 * Take up to "want" numbers of a tag, which is given in the encoding of the
 * database.  Returns how many, the first, and what there is from one to the
 * next.  May wait for the services, up to max_wait, and can be interrupted.
 * Raises an ERROR when there is no such tag, when it has no numbers left, or
 * when none came in time.
 */
extern uint64 segment_take(SegmentHandle *handle, const char *tag, int length,
						   uint64 want, int64 *first, int64 *delta);

/*
 * A tag in UTF-8, as shared memory and the registry have it; an ERROR when it
 * is too long or empty.
 */
extern const char *segment_tag_to_utf8(const char *tag, int length);

/* An ERROR where no segment can be had from this server. */
extern void segment_require(void);

/* What to do where a tag has no numbers left: a HINT. */
#define SEGMENT_ENDED_HINT(max_value) \
	((max_value) == PG_INT64_MAX ? "No larger number fits into a bigint. Create another tag." : \
	 "Raise max_value with snowflake_segment_alter().")

/* Raise the ERROR that there is no such tag. */
extern void segment_report_missing(const char *utf8);

/*
 * Is there no registry, while this database shares rows with other servers, by
 * Citus or a subscription?  Their tags count for themselves then.
 */
extern bool segment_is_apart(void);

/* May numbers be taken now, if there are any? */
extern bool segment_is_valid(void);

/*
 * For the services and the statistics, with Segments.lock held.
 */

/* The entry of a tag, in UTF-8; NULL for none. */
extern Segment *segment_find(const char *utf8);

/* A copy of the entry with this index, for what follows; takes the lock itself. */
extern void segment_copy(int index, Segment *copy);

/* How many numbers of the buffer in use are gone; false when none is in use. */
extern bool segment_used(Segment *segment, uint32 *used);

/* Are there numbers to take? */
extern bool segment_has_numbers(Segment *segment);

/* The buffer that is not in use. */
extern int	segment_spare(Segment *segment);

/* Is it time for another segment? */
extern bool segment_runs_out(Segment *segment);

/* Numbers may be taken out of this span, from the next buffer on. */
extern void segment_put(Segment *segment, int64 from, int64 to);

/* No session takes from it any more, and nothing is known of its incarnation. */
extern void segment_forget(Segment *segment, SegmentState state);

/* All numbers that were taken of it since the server's start. */
extern uint64 segment_issued(Segment *segment);

/* Have the services look what is asked for. */
extern void segment_ask_services(void);

/*
 * Forget where the registry was and what it has told, so that one that knows
 * less than that is believed again.  For snowflake_forget_registry(); takes
 * Segments.lock.
 */
extern void segment_forget_registry(void);

/* The first values in shared memory. */
extern void segment_init_shmem(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_H */
