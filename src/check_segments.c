/*-------------------------------------------------------------------------
 *
 * check_segments.c
 *		The doctor's look at the segments of numbers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "check_rows.h"
#include "segment.h"
#include "utf8.h"

/* This share of what there is, in percent, is worth a warning. */
#define NEARLY_ALL	90

static bool
is_nearly_all(int64 part, int64 all)
{
	return (double) part >= (double) all * NEARLY_ALL / 100;
}

/*
 * What there is to say against a tag; NULL when all is well.
 */
static char *
describe(Segment *segment, const char **status)
{
	SegmentBuffer buffer;
	int64		from;
	int64		to;
	uint32		used;
	bool		has_numbers = segment->has_next ||
		(segment_used(segment, &buffer, &from, &to, &used) && used < buffer.count);
	char	   *tag = pstrdup(utf8_to_server(segment->tag));

	*status = has_numbers ? "warning" : "error";
	if (segment->state == SEGMENT_ENDED)
		return psprintf("All numbers of tag \"%s\" up to its maximum value, " INT64_FORMAT ", have been given out to servers%s. Raise max_value with snowflake_segment_alter().",
						tag, segment->max_value, has_numbers ? "" : ", and this server has none left");
	if (segment->is_failing)
		return psprintf("No segment of tag \"%s\" could be fetched. %s", tag,
						text_shown(utf8_to_server(segment->error)));
	*status = "warning";
	if (segment->state == SEGMENT_OPEN && is_nearly_all(segment->seen, segment->max_value))
		return psprintf("Numbers of tag \"%s\" up to " INT64_FORMAT " of " INT64_FORMAT " have been given out to servers.",
						tag, segment->seen, segment->max_value);
	return NULL;
}

void
check_segments(CheckState *state)
{
	Segments   *segments;
	int			ntags = 0;
	char		error[SEGMENT_MESSAGE_SIZE];

	if (shared == NULL)
	{
		check_row(state, "ok", "There are no segments, as snowflake is not preloaded.");
		return;
	}

	segments = &shared->segments;
	for (int i = 0; i < shared->nsegments; i++)
	{
		Segment		segment;
		const char *status;
		char	   *detail;

		LWLockAcquire(segments->lock, LW_SHARED);
		segment = *SEGMENT(i);
		LWLockRelease(segments->lock);
		if (segment.state == SEGMENT_FREE || segment.state == SEGMENT_MISSING)
			continue;
		ntags++;
		detail = describe(&segment, &status);
		if (detail != NULL)
			check_row(state, status, detail);
	}

	if (ntags == 0)
	{
		check_row(state, "ok", "No numbers were drawn from segments since the server was started.");
		return;
	}

	LWLockAcquire(segments->lock, LW_SHARED);
	strlcpy(error, segments->error, sizeof(error));
	LWLockRelease(segments->lock);
	if (snowflake_registry[0] != '\0' && !segment_is_valid())
		check_row(state, "error",
				  psprintf("Sessions cannot draw numbers, as the registry has not answered for \"snowflake.lease_ttl\". %s",
						   text_shown(utf8_to_server(error))));
	else if (error[0] != '\0')
		check_row(state, "warning", text_shown(utf8_to_server(error)));
	if (segment_is_apart())
		check_row(state, "warning",
				  "This database shares rows with other servers, by Citus or a subscription, and \"snowflake.registry\" is not set: tags of the same name on other servers give out the same numbers. Set it on all of them, and create the tags there.");
	if (is_nearly_all(ntags, shared->nsegments))
		check_row(state, "warning",
				  psprintf("Tags in use: %d. \"snowflake.max_segment_tags\" allows %d.",
						   ntags, shared->nsegments));
	if (state->nrows == 0)
		check_row(state, "ok", psprintf("Tags in use: %d.", ntags));
}
