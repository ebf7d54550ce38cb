/*-------------------------------------------------------------------------
 *
 * segment_keep.c
 *		A clean shutdown keeps the numbers that nobody has drawn.
 *
 * The services give them back to the registry, or to the home database, which
 * has them for the next start of this server.  Where that fails, the numbers
 * are lost, and nothing else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "segment.h"
#include "segment_fetch.h"
#include "segment_keep.h"
#include "segment_send.h"

/*
 * Close the entry, so that nobody draws from it any more, and add the spans
 * that are left of it.  Returns how many.
 */
static int
close_entry(Segment *segment, SegmentSpan *spans)
{
	Segments   *segments = &shared->segments;
	SegmentBuffer buffer;
	SegmentSpan in_use;
	SegmentSpan next;
	bool		has_in_use;
	bool		has_next;
	uint32		used;
	int			n = 0;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	segments->is_closing = true;
	(void) segment_used(segment, &buffer, &in_use.first, &in_use.last, &used);
	has_next = segment->has_next;
	next.first = segment->from[segment_spare(segment)];
	next.last = segment->to[segment_spare(segment)];
	has_in_use = segment_close(segment, &used) && used < buffer.count;
	in_use.first = buffer.first + used * (int64) segment->delta;
	strlcpy(in_use.incarnation, segment->incarnation, sizeof(in_use.incarnation));
	strlcpy(next.incarnation, segment->incarnation, sizeof(next.incarnation));
	LWLockRelease(segments->lock);

	if (has_in_use)
		spans[n++] = in_use;
	if (has_next)
		spans[n++] = next;
	return n;
}

/*
 * Close all entries, and build the request that keeps what is left.  Returns
 * false when nothing is left, or it is not to be kept, or may be another
 * server's by now.
 */
static bool
build_keep(LinkRequest *keep)
{
	Segments   *segments = &shared->segments;
	SegmentSpan *spans = palloc(sizeof(SegmentSpan) * 2 * Max(shared->nsegments, 1));
	int			nspans = 0;
	char		place[sizeof(segments->place)];

	for (int i = 0; i < shared->nsegments; i++)
		nspans += close_entry(SEGMENT(i), &spans[nspans]);
	ConditionVariableBroadcast(&segments->changed);
	if (nspans == 0 || !snowflake_keep_segments || !segment_is_valid())
		return false;

	LWLockAcquire(segments->lock, LW_SHARED);
	strlcpy(place, segments->place, sizeof(place));
	LWLockRelease(segments->lock);
	segment_request_keep(keep, spans, nspans, pstrdup(place),
						 segment_is_at_home() ? 0 : LEASE_TTL_US);
	return true;
}

void
segment_keep_at_exit(void)
{
	static LinkRequest keep;

	MemoryContextSwitchTo(TopMemoryContext);
	if (!build_keep(&keep))
		return;
	if (segment_is_at_home())
		segment_keep_at_home(&keep);
	else
		segment_keep_over_link(&keep);
}
