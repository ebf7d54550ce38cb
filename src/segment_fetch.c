/*-------------------------------------------------------------------------
 *
 * segment_fetch.c
 *		Which segments the services fetch, and what they do with the answers.
 *
 * One request is under way at a time: for segments of tags, or for a session
 * that creates, alters or drops a tag.  This file chooses the request and puts
 * the answer into shared memory.  segment_send.c sends it to the registry, or
 * to the home database if snowflake.registry is not set.
 *
 * One request can be for many tags, and fails as a whole.  A new tag may have
 * characters that the registry cannot store: after that, new tags are asked for
 * one at a time.  The row of a known tag may be locked: those that were wanted
 * then are doubted, and each is asked for by itself, in turn with the others,
 * until that succeeds.  One that fails by itself is asked for again only if a
 * session asks again, and every DOUBT_US if it has numbers left.
 *
 * Every POLL_MS all tags are reported to the registry.  So it learns what it
 * had given out, and answers what was altered or dropped by other servers.
 * The home database needs no reports, as no other server uses it.
 *
 * Locking: Segments.lock, held to look at the entries, or to write what is
 * known by then; nothing that can fail is done under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "instance.h"
#include "segment.h"
#include "segment_fetch.h"
#include "utf8.h"
#include "waits.h"

#define POLL_MS		3000
#define RETRY_MS	1000
#define DOUBT_US	USECS_PER_MINUTE

/*
 * A segment that lasts less than the first makes the next one larger; one that
 * lasts as long as the second, smaller.
 */
#define SHORT_LIFE_US	(15 * USECS_PER_MINUTE)
#define LONG_LIFE_US	(30 * USECS_PER_MINUTE)
#define MAX_LENGTH		1000000

/*
 * The incarnation of a tag whose numbers from the registry are not used.  It is
 * nobody's, so the registry says what it has, and gives out nothing in vain.
 */
#define REFUSED_INCARNATION "00000000-0000-0000-0000-000000000000"

/* The request that is under way.  Of this process alone. */
static struct
{
	SegmentFetchKind kind;
	SegmentAsk *asks;			/* room for each entry possible */
	int			nasks;
	int			nnew;			/* of these, tags that are not known yet */
	int			nwanted;		/* of these, tags that a segment is wanted of */
	int64		sent_at;		/* steady clock */
	int64		hold;			/* microseconds */

	bool		is_alone;		/* new tags are asked for one at a time, as
								 * doubted ones are, ... */
	int			next_alone;		/* ... beginning with this entry, ... */
	bool		was_alone;		/* ... in turn with the others */
	bool		has_failed;		/* the last one that wanted segments */
	bool		is_full;		/* all tags are in it that are known */
	char		place[SEGMENT_PLACE_SIZE];	/* of the last such one */
	int64		reported_at;	/* the last such one, steady clock; 0 when the
								 * next one has to be */
	int64		retry_at;		/* not before */
	int64		not_before;		/* the first of the tags that are to wait */
}			request;

/* Of a command that was sent, and is not known to have been answered. */
#define HINT_OF_COMMAND	"The command may have been carried out anyway."

/*
 * What a session has asked for did not work.  The texts are in UTF-8.
 */
static void
command_failed(int sqlstate, const char *message, const char *detail, const char *hint)
{
	SegmentResult result = {.sqlstate = sqlstate};

	utf8_copy(result.message, sizeof(result.message), message);
	utf8_copy(result.detail, sizeof(result.detail), detail);
	utf8_copy(result.hint, sizeof(result.hint), hint);
	segment_fetch_handle_result(&result);
}

/*
 * Choosing
 */

/*
 * How long a span to ask for next.  How long the first two last says nothing:
 * they fill both buffers, one soon after the other.
 */
static int64
wanted_length(Segment *segment, TimestampTz now)
{
	int64		length = Max(segment->length, segment->step);

	if (segment->fetches < 2)
		return Max(segment->step, 1);
	if (now - segment->fetched_at < SHORT_LIFE_US)
		length = Min(length * 2, MAX_LENGTH);
	else if (now - segment->fetched_at >= LONG_LIFE_US)
		length = length / 2;
	return Max(length, segment->step);
}

/*
 * Is a segment wanted now?  Numbers that were refused are asked for again after
 * RETRY_MS, and not without a pause by sessions that wait.
 */
static bool
is_asked_now(Segment *segment, int64 steady)
{
	return segment->state != SEGMENT_FREE && pg_atomic_read_u32(&segment->asked) != 0 &&
		segment->not_before <= steady;
}

/*
 * Is it kept out of requests for several tags?  Segments.lock is held.
 */
static bool
goes_alone(const Segment *segment)
{
	return segment->is_doubted ||
		(request.is_alone && segment->incarnation[0] == '\0');
}

/*
 * The tag to be asked for by itself now; NULL when this request is for the
 * others.  Segments.lock is held.
 */
static Segment *
choose_alone(bool is_full, int64 steady)
{
	Segments   *segments = &shared->segments;

	if (request.was_alone || is_full)
		return NULL;
	for (int n = 0; n < segments->used; n++)
	{
		int			i = (n + request.next_alone) % segments->used;

		if (!is_asked_now(SEGMENT(i), steady) || !goes_alone(SEGMENT(i)))
			continue;
		request.next_alone = i + 1;
		return SEGMENT(i);
	}
	return NULL;
}

/*
 * Add an entry to the request, only to report it where takes is not set.
 * Segments.lock is held.
 */
static void
add_ask(Segment *segment, TimestampTz now, bool takes)
{
	SegmentAsk *ask = &request.asks[request.nasks++];

	if (takes)
		pg_atomic_write_u32(&segment->asked, 0);
	ask->segment = segment;
	ask->serial = pg_atomic_read_u32(&segment->serial);
	ask->length = takes && !segment->has_next ? wanted_length(segment, now) : 0;
	ask->seen = segment->seen;
	strlcpy(ask->tag, segment->tag, sizeof(ask->tag));
	strlcpy(ask->incarnation, segment->incarnation, sizeof(ask->incarnation));
	segment->in_flight = true;
	if (segment->incarnation[0] == '\0')
		request.nnew++;
	if (ask->length > 0)
		request.nwanted++;
}

/*
 * Ask for what sessions want, if takes is set, and with is_full report all other
 * tags too.
 */
static void
build_take(LinkRequest *take, bool is_full, bool takes)
{
	Segments   *segments = &shared->segments;
	TimestampTz now = GetCurrentTimestamp();
	int64		steady = clock_read_steady();
	char	   *place = palloc(sizeof(segments->place));
	int64		reports;
	Segment    *alone;
	bool		is_skipped = false;

	if (request.asks == NULL)
		request.asks = MemoryContextAllocZero(TopMemoryContext,
											  sizeof(SegmentAsk) * Max(shared->nsegments, 1));

	request.kind = FETCH_TAKE;
	request.is_full = is_full;
	request.nasks = request.nnew = request.nwanted = 0;
	request.not_before = PG_INT64_MAX;
	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	alone = choose_alone(is_full, steady);
	if (takes)
		request.was_alone = alone != NULL;
	for (int i = 0; i < segments->used; i++)
	{
		Segment    *segment = SEGMENT(i);
		bool		is_asked = is_asked_now(segment, steady);
		bool		is_its_turn = alone != NULL ? segment == alone : !goes_alone(segment);
		bool		is_taken = is_asked && is_its_turn && takes;

		if (segment->state == SEGMENT_FREE)
			continue;
		if (pg_atomic_read_u32(&segment->asked) != 0 && !is_asked)
			request.not_before = Min(request.not_before, segment->not_before);
		is_skipped |= is_asked && !is_taken;
		if ((is_asked && is_its_turn) || (is_full && segment->incarnation[0] != '\0'))
			add_ask(segment, now, is_taken);
	}
	strlcpy(place, segments->place, sizeof(segments->place));
	reports = segments->reports;
	LWLockRelease(segments->lock);
	if (is_skipped)
		pg_atomic_write_u32(&segments->requested, 1);
	else if (request.nnew == 0)
		request.is_alone = false;

	request.hold = segment_is_at_home() ? 0 : LEASE_TTL_US;
	if (segment_is_at_home())
		segment_request_take(take, request.asks, request.nasks, 0, NULL, 0, NULL);
	else
	{
		/*
		 * What it was told counts while this server gives out numbers: one
		 * that does not has none that the registry could have lost.
		 */
		instance_name_start(segments->reporter, sizeof(segments->reporter));
		segment_request_take(take, request.asks, request.nasks, request.hold, segments->reporter,
							 segment_is_valid() ? reports : 0, place);
	}
}

/*
 * What a session has asked for.  Returns false when none has.
 */
static bool
build_command(LinkRequest *sent)
{
	Segments   *segments = &shared->segments;
	SegmentCommand command;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	if (segments->command.state != COMMAND_ASKED)
	{
		LWLockRelease(segments->lock);
		return false;
	}
	segments->command.state = COMMAND_SENT;
	command = segments->command;
	LWLockRelease(segments->lock);

	request.kind = FETCH_COMMAND;
	segment_request_command(sent, &command);
	return true;
}

int64
segment_fetch_due(void)
{
	if (pg_atomic_read_u32(&shared->segments.requested) != 0 ||
		request.kind == FETCH_COMMAND)
		return request.retry_at;
	if (!segment_is_at_home() && shared->segments.used > 0)
		return Max(Min(request.reported_at + POLL_MS * INT64CONST(1000), request.not_before),
				   request.retry_at);
	return PG_INT64_MAX;
}

SegmentFetchKind
segment_fetch_build(LinkRequest *sent, int64 sent_at, bool is_first)
{
	Segments   *segments = &shared->segments;

	/* an ERROR has ended the one under way, or the setting has changed */
	if (request.kind == FETCH_COMMAND)
		command_failed(ERRCODE_CONNECTION_FAILURE,
					   "the background worker no longer waits for the answer",
					   "", HINT_OF_COMMAND);
	request.kind = FETCH_NOTHING;
	request.sent_at = sent_at;
	pg_atomic_exchange_u32(&segments->requested, 0);

	if (is_first)
	{
		/*
		 * It may be another registry by now: report before anything is taken,
		 * and before a command, as only this answer says where it is.  Where
		 * no answer counts, each connection would take segments in vain.
		 */
		request.reported_at = 0;
		build_take(sent, true, false);
		pg_atomic_write_u32(&segments->requested, 1);
	}
	else if (build_command(sent))
	{
		/* segments that are asked for come after it */
		pg_atomic_write_u32(&segments->requested, 1);
	}
	else if (!segment_is_at_home())
	{
		bool		is_full = sent_at >= request.reported_at + POLL_MS * INT64CONST(1000);

		/* a report that takes nothing waits for no tag, and keeps numbers valid */
		build_take(sent, is_full, !is_full || !request.has_failed);
	}
	else
		build_take(sent, pg_atomic_read_u64(&segments->valid_until_us) != SEGMENTS_ALWAYS, true);

	/* nothing is known, or nothing else asked: a tag alone, if there is one */
	if (request.kind == FETCH_TAKE && request.nasks == 0 &&
		(!request.is_full || segment_is_at_home()))
	{
		build_take(sent, false, true);
		if (request.nasks == 0)
			request.kind = FETCH_NOTHING;
	}
	return request.kind;
}

/*
 * Handling
 */

/*
 * Numbers that the home database may have given out before.  Reports show when
 * others come, and sessions that wait ask again.
 */
static void
apply_refusal(Segment *segment, const SegmentRow *row, TimestampTz now)
{
	segment_forget(segment, SEGMENT_OPEN);
	strlcpy(segment->incarnation, REFUSED_INCARNATION, sizeof(segment->incarnation));
	utf8_copy(segment->error, sizeof(segment->error), row->refusal);
	segment->error_at = now;
	segment->is_failing = true;
	segment->error_passes = row->refusal_passes;
	segment->not_before = clock_read_steady() + RETRY_MS * INT64CONST(1000);
}

/*
 * Another segment, or the news that there is none.
 */
static void
apply_row(const SegmentAsk *ask, const SegmentRow *row, TimestampTz now, uint64 fetch_us)
{
	Segment    *segment = ask->segment;

	segment->in_flight = false;
	segment->is_failing = false;
	segment->not_before = 0;
	segment->answers++;
	if (row->incarnation == NULL)
	{
		segment_forget(segment, SEGMENT_MISSING);
		return;
	}
	if (row->refusal != NULL)
	{
		apply_refusal(segment, row, now);
		return;
	}
	if (strcmp(segment->incarnation, row->incarnation) != 0)
	{
		segment_forget(segment, SEGMENT_OPEN);
		strlcpy(segment->incarnation, row->incarnation, sizeof(segment->incarnation));
		segment->delta = row->delta;
		segment->remainder = row->remainder;
	}
	segment->step = row->step;
	segment->max_value = row->max_value;

	if (row->is_given)
	{
		segment->fetches++;
		segment->fetch_us = fetch_us;
		segment->fetched_at = now;
		segment->length = ask->length;

		/* sessions that waited for it have asked again meanwhile */
		pg_atomic_write_u32(&segment->asked, 0);
		segment_put(segment, row->from, row->to);
	}
	segment->state = row->max_id >= row->max_value ? SEGMENT_ENDED : SEGMENT_OPEN;
	if (row->is_given || ask->length == 0)
		return;

	/* no segment, as the tag was dropped and created anew meanwhile: ask again */
	if (row->closed_until == NULL && segment->state == SEGMENT_OPEN)
	{
		pg_atomic_write_u32(&segment->asked, 1);
		pg_atomic_write_u32(&shared->segments.requested, 1);
	}
	else if (row->closed_until != NULL)
	{
		snprintf(segment->error, sizeof(segment->error),
				 row->is_guarded ?
				 "The registry was started again, and gives out no segments until %s, or until all servers that had some have reported." :
				 "The registry was promoted or restored, and gives out no segments until %s.",
				 row->closed_until);
		segment->error_at = now;
		segment->is_failing = true;
		segment->error_passes = true;
		pg_atomic_write_u32(&segment->asked, 1);
	}
}

/*
 * The same, and what it means to a tag that is doubted: a report says nothing of
 * why it has no segment.
 */
static void
apply_answer(const SegmentAsk *ask, const SegmentRow *row, TimestampTz now, uint64 fetch_us)
{
	Segment    *segment = ask->segment;
	bool		is_failing = segment->is_doubted && segment->is_failing;

	apply_row(ask, row, now, fetch_us);
	if (ask->length > 0 || row->incarnation == NULL)
		segment->is_doubted = false;
	else
		segment->is_failing |= is_failing;
	if (segment->is_doubted && now - segment->error_at >= DOUBT_US && segment_runs_out(segment))
	{
		pg_atomic_write_u32(&segment->asked, 1);
		pg_atomic_write_u32(&shared->segments.requested, 1);
	}
}

int
segment_fetch_find_news(SegmentRow *rows, int nrows)
{
	int			found = 0;

	LWLockAcquire(shared->segments.lock, LW_SHARED);
	for (int i = 0; i < request.nasks; i++)
	{
		const SegmentAsk *ask = &request.asks[i];
		const Segment *segment = ask->segment;
		SegmentRow *row = segment_find_row(rows, nrows, ask->tag);

		if (row == NULL || row->incarnation == NULL ||
			pg_atomic_read_u32(&ask->segment->serial) != ask->serial)
			continue;
		row->is_news = strcmp(segment->incarnation, row->incarnation) != 0 ||
			(row->is_given && segment->fetches == 0);
		found += row->is_news;
	}
	LWLockRelease(shared->segments.lock);
	return found;
}

void
segment_fetch_handle_rows(SegmentRow *rows, int nrows)
{
	Segments   *segments = &shared->segments;
	int64		steady = clock_read_steady();
	TimestampTz now = GetCurrentTimestamp();
	uint64		until = pg_atomic_read_u64(&segments->valid_until_us);
	const char *place = nrows > 0 ? rows[0].place : NULL;
	bool		is_closed = false;
	bool		confirms = false;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);

	/*
	 * A registry that came to another place or was started again may have lost
	 * its record of the last segments, and waits for reports of them.  If this
	 * server has not reported in that time, others may have its numbers.
	 */
	if (place != NULL && strcmp(place, segments->place) != 0 && (uint64) steady >= until)
	{
		for (int i = 0; i < segments->used; i++)
		{
			if (SEGMENT(i)->state != SEGMENT_FREE)
				segment_forget(SEGMENT(i), SEGMENT_NEW);
		}
	}
	for (int i = 0; i < request.nasks; i++)
	{
		static const SegmentRow no_tag = {0};	/* the home database has none */
		SegmentAsk *ask = &request.asks[i];
		const SegmentRow *row = nrows == 0 ? &no_tag : segment_find_row(rows, nrows, ask->tag);

		if (pg_atomic_read_u32(&ask->segment->serial) != ask->serial ||
			ask->segment->state == SEGMENT_FREE)
			continue;			/* it was dropped meanwhile */
		if (row == NULL)
			ask->segment->in_flight = false;
		else
		{
			apply_answer(ask, row, now, (uint64) (steady - request.sent_at));
			is_closed |= row->closed_until != NULL;
			confirms |= row->closed_until == NULL || segment_has_numbers(ask->segment);
		}
	}

	/*
	 * What a closed registry says is remembered only where it confirms numbers,
	 * see compare_with_seen(); else what ran out shows nothing any more.
	 */
	if (place != NULL && confirms)
	{
		strlcpy(segments->place, place, sizeof(segments->place));
		segments->reports = rows[0].reports;
	}
	else if ((uint64) steady >= until)
		segments->reports = 0;
	segments->error[0] = '\0';
	LWLockRelease(segments->lock);

	if (request.nasks > 0)
		pg_atomic_write_u64(&segments->valid_until_us,
							segment_is_at_home() ? SEGMENTS_ALWAYS :
							(uint64) (request.sent_at + Min(request.hold, rows[0].hold)));
	if (request.is_full)
	{
		request.reported_at = request.sent_at;
		strlcpy(request.place, place != NULL ? place : "", sizeof(request.place));
	}
	request.has_failed = false;
	request.retry_at = is_closed ? steady + RETRY_MS * 1000 : 0;
	request.kind = FETCH_NOTHING;
	ConditionVariableBroadcast(&segments->changed);
}

const char *
segment_fetch_objection(const SegmentRow *rows, int nrows)
{
	char		place[sizeof(shared->segments.place)];
	bool		is_sound = nrows == request.nasks;

	LWLockAcquire(shared->segments.lock, LW_SHARED);
	strlcpy(place, shared->segments.place, sizeof(place));
	LWLockRelease(shared->segments.lock);

	for (int i = 0; i < nrows; i++)
		is_sound &= segment_row_is_sound(&rows[i]);
	if (!is_sound)
		return "it did not understand the request";
	if (nrows > 0 && registry_link_is_outdated(place, rows[0].place))
		return psprintf("it is at %s, and was at %s before", rows[0].place, place);

	/* a new connection begins with a report of all */
	if (nrows > 0 && !request.is_full && request.place[0] != '\0' &&
		strcmp(request.place, rows[0].place) != 0)
		return "it has moved to another place";
	return NULL;
}

/*
 * What a command means to the numbers that are here already.  Other servers
 * learn of it when they ask next.
 */
static void
apply_command(const SegmentCommand *command)
{
	const SegmentOptions *options = &command->options;
	Segment    *segment = segment_find(command->tag);

	if (segment == NULL || !command->result.changed)
		return;
	if (command->kind == SEGMENT_CREATE)
	{
		/* what is here is of a tag that went without a drop */
		segment_forget(segment, SEGMENT_NEW);
	}
	else if (command->kind == SEGMENT_DROP)
	{
		segment_forget(segment, SEGMENT_FREE);
		segment->in_flight = false;
	}
	else if (command->kind == SEGMENT_ALTER)
	{
		if (options->step != 0)
			segment->step = options->step;
		if (options->max_value != 0)
			segment->max_value = options->max_value;
		if (segment->state == SEGMENT_ENDED)
			segment->state = SEGMENT_OPEN;
	}
}

void
segment_fetch_handle_result(const SegmentResult *result)
{
	Segments   *segments = &shared->segments;
	SegmentCommand *command = &segments->command;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	if (command->state == COMMAND_SENT)
	{
		command->result = *result;
		apply_command(command);
		command->state = command->is_abandoned ? COMMAND_FREE : COMMAND_DONE;
		segments->error[0] = '\0';
	}
	LWLockRelease(segments->lock);
	request.kind = FETCH_NOTHING;
	ConditionVariableBroadcast(&segments->changed);
}

/*
 * Failing
 */

/*
 * A request for segments did not work: it was answered with an error, or not
 * answered.  The error is a sentence in UTF-8, and may pass by itself.
 */
static void
take_failed(const char *error, bool passes, bool is_answer)
{
	Segments   *segments = &shared->segments;
	TimestampTz now = GetCurrentTimestamp();

	request.kind = FETCH_NOTHING;
	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	for (int i = 0; i < request.nasks; i++)
	{
		SegmentAsk *ask = &request.asks[i];
		Segment    *segment = ask->segment;

		if (pg_atomic_read_u32(&segment->serial) != ask->serial)
			continue;
		segment->in_flight = false;
		if (ask->length == 0)
			continue;
		utf8_copy(segment->error, sizeof(segment->error), error);
		segment->error_at = now;
		segment->is_failing = true;
		segment->error_passes = passes;
		segment->is_doubted |= is_answer;

		/*
		 * The registry may be unable to store a tag, or its row be locked.  So
		 * one that was asked for alone is asked for again only if a session
		 * asks again.
		 */
		if (request.nwanted > 1 || (!is_answer && segment->incarnation[0] != '\0'))
			pg_atomic_write_u32(&segment->asked, 1);
	}
	LWLockRelease(segments->lock);
	pg_atomic_write_u32(&segments->requested, 1);

	/*
	 * One of the tags may be the cause: ask for each alone, at once.  After
	 * one that was alone, others wait no longer than it has.
	 */
	request.is_alone = request.is_alone || request.nnew > 0;
	request.has_failed = request.nwanted > 0;
	request.retry_at = request.nnew > 0 || request.nwanted > 1 ? 0 :
		request.sent_at + RETRY_MS * 1000;
}

void
segment_fetch_note_error(int sqlstate, const char *message, const char *detail,
						 const char *hint)
{
	message = message != NULL ? message : "unknown error";
	detail = detail != NULL ? detail : "";
	hint = hint != NULL ? hint : "";
	if (sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE && *hint == '\0' && !segment_is_at_home())
		hint = "In the registry, run GRANT EXECUTE ON FUNCTION snowflake_create_tag, snowflake_alter_tag, snowflake_drop_tag TO the role of \"snowflake.registry\".";

	if (request.kind == FETCH_COMMAND)
		command_failed(sqlstate, message, detail, hint);
	else if (request.kind == FETCH_TAKE)
	{
		char	   *error = psprintf(segment_is_at_home() ? "The home database cannot give segments: %s." :
									 "The registry cannot give segments: %s.", message);
		uint64		left_out;

		take_failed(error, wait_error_passes(sqlstate), true);
		if (!segment_is_at_home() && log_is_due(LOG_OF_SEGMENT, &left_out))
			ereport(WARNING,
					(errmsg("could not fetch segments of numbers"),
					 errdetail("%s%s", error, log_left_out(left_out)),
					 *hint != '\0' ? errhint("%s", hint) : 0));
	}
}

void
segment_fetch_note_no_answer(const char *error, bool passes)
{
	Segments   *segments = &shared->segments;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	utf8_copy(segments->error, sizeof(segments->error), error);
	segments->error_passes = passes;
	LWLockRelease(segments->lock);

	if (request.kind == FETCH_COMMAND)
		command_failed(ERRCODE_CONNECTION_FAILURE, "the registry did not answer", error,
					   HINT_OF_COMMAND);
	else if (request.kind == FETCH_TAKE)
		take_failed(error, passes, false);
}

/*
 * Numbers of the home database have no deadline, as nobody else has them.  Once
 * there is a registry, other servers may have them from there.
 */
void
segment_leave_home(void)
{
	if (!segment_is_at_home() &&
		pg_atomic_read_u64(&shared->segments.valid_until_us) == SEGMENTS_ALWAYS)
		pg_atomic_write_u64(&shared->segments.valid_until_us, 0);
}

void
segment_begin(void)
{
	Segments   *segments = &shared->segments;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	for (int i = 0; i < segments->used; i++)
	{
		if (!SEGMENT(i)->in_flight)
			continue;
		SEGMENT(i)->in_flight = false;
		if (segment_runs_out(SEGMENT(i)))
			pg_atomic_write_u32(&SEGMENT(i)->asked, 1);
	}
	LWLockRelease(segments->lock);
	segment_leave_home();
	command_failed(ERRCODE_ADMIN_SHUTDOWN, "the background worker has ended", "", HINT_OF_COMMAND);
	if (segments->used > 0)
		pg_atomic_write_u32(&segments->requested, 1);
}
