/*-------------------------------------------------------------------------
 *
 * segment_fetch.c
 *		The worker's part of segments: fetch them, and do what sessions ask
 *		for, in the registry or at home.
 *
 * Where snowflake.registry is set, it is asked over a connection of its own, so
 * that a tag that somebody has locked there does not hold up the lease of the
 * node number.  Else the home database is asked, in a transaction; it gets the
 * extension snowflake_segments when the first tag is created.  Both have the
 * same functions, and the same answers go to shared memory.
 *
 * One request can be for many tags.  A tag that the registry has never heard of
 * can have characters that it cannot store, and then the whole request fails;
 * after that, such tags are asked for one at a time.
 *
 * Every POLL_MS all tags are reported to the registry, which so learns what was
 * given out, and tells what was altered or dropped elsewhere.  Home is not:
 * nobody else is there.
 *
 * Locking: Segments.lock, held to look at the entries, or to write what is known
 * by then; nothing that can fail is done under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "alarm.h"
#include "clock.h"
#include "compat.h"
#include "home.h"
#include "link.h"
#include "segment.h"
#include "utf8.h"
#include "waits.h"

#define POLL_MS		3000
#define RETRY_MS	1000

/* How long a server that stops takes to give back what is left. */
#define KEEP_MS		2000

/* A segment that lasts less than the first makes the next one larger. */
#define SHORT_LIFE_US	(15 * USECS_PER_MINUTE)
#define LONG_LIFE_US	(30 * USECS_PER_MINUTE)
#define MAX_LENGTH		1000000

#define EXTENSION	"snowflake_segments"

/* Names of functions come after their schema, or as the registry finds them. */
#define TAKE \
	"SELECT asked, incarnation, first, last, step, delta, remainder," \
	" max_value, max_id, closed_until, place" \
	" FROM %ssnowflake_take_segments(" \
	"tags => $1::text[], incarnations => $2::uuid[], seen => $3::bigint[]," \
	" lengths => $4::bigint[], holder => $5::text," \
	" hold => $6::bigint OPERATOR(pg_catalog.*) interval '1 us')"

#define KEEP \
	"SELECT %ssnowflake_keep_segments(holder => $1::text," \
	" hold => $2::bigint OPERATOR(pg_catalog.*) interval '1 us', incarnations => $3::uuid[]," \
	" firsts => $4::bigint[], lasts => $5::bigint[], place => $6::text)"

#define CREATE \
	"SELECT NOT made, made, max_id, NULL FROM %ssnowflake_make_segment(" \
	"tag => $1::text, start => $2::bigint, step => $3::integer," \
	" delta => $4::integer, remainder => $5::integer," \
	" max_value => $6::bigint, description => $7::text)"

#define ALTER \
	"SELECT found, changed, max_id, delta FROM %ssnowflake_change_segment(" \
	"tag => $1::text, start => $2::bigint, step => $3::integer," \
	" max_value => $4::bigint, description => $5::text)"

#define DROP \
	"SELECT removed, removed, NULL, NULL FROM %ssnowflake_remove_segment(" \
	"tag => $1::text, forget => $2::boolean)"

/* An entry that a request is about. */
typedef struct Asked
{
	Segment    *segment;
	uint32		serial;
	int64		length;			/* of the segment wanted, 0 for none */
	char		tag[SEGMENT_TAG_SIZE];
} Asked;

/* What the registry says of a tag. */
typedef struct Row
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
	char	   *place;
} Row;

/* The request that is under way.  The worker's own. */
static struct
{
	enum
	{
		NOTHING,
		TAKING,
		COMMANDING,
		KEEPING
	}			what;
	Asked	   *asked;			/* one for each entry possible */
	int			nasked;
	int			nnew;			/* of these, tags that are not known yet */
	int64		sent_at;		/* steady clock */
	int64		hold;			/* microseconds */

	bool		is_alone;		/* new tags are asked for one at a time ... */
	int			next_alone;		/* ... beginning with this entry, ... */
	bool		was_alone;		/* ... in turn with the others */
	bool		is_full;		/* all tags are in it that are known */
	int64		reported_at;	/* the last such one, steady clock; 0 when the
								 * next one has to be */
	int64		retry_at;		/* not before */
	const LinkRequest *keep;	/* at exit, what is to be kept */
	bool		is_kept;		/* that is done, or cannot be */
	int			failures;		/* of the link */
	bool		has_begun;		/* segment_begin() was called */
}			request;

static bool
is_at_home(void)
{
	return snowflake_registry[0] == '\0';
}

/*
 * Composing
 */

static void
append_element(StringInfo array, const char *value)
{
	appendStringInfoChar(array, array->len == 0 ? '{' : ',');
	if (value == NULL)
	{
		appendStringInfoString(array, "NULL");
		return;
	}
	appendStringInfoChar(array, '"');
	for (const char *c = value; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\')
			appendStringInfoChar(array, '\\');
		appendStringInfoChar(array, *c);
	}
	appendStringInfoChar(array, '"');
}

static void
append_number(StringInfo array, int64 value)
{
	appendStringInfo(array, "%c" INT64_FORMAT, array->len == 0 ? '{' : ',', value);
}

static char *
finish_array(StringInfo array)
{
	appendStringInfoString(array, array->len == 0 ? "{}" : "}");
	return array->data;
}

static char *
number_text(int64 value)
{
	return psprintf(INT64_FORMAT, value);
}

/*
 * How long a span to ask for next.  The first two are no measure: they are
 * fetched one soon after the other.
 */
static int64
wanted_length(Segment *segment, TimestampTz now)
{
	int64		length = Max(segment->length, segment->step);

	if (segment->fetches < 2)
		return Max(segment->step, 1);
	if (now - segment->fetched_at < SHORT_LIFE_US)
		length = Max(Min(length * 2, MAX_LENGTH), segment->step);
	else if (now - segment->fetched_at >= LONG_LIFE_US)
		length = Max(length / 2, segment->step);
	return length;
}

static bool
is_new_and_asked(Segment *segment)
{
	return segment->state != SEGMENT_FREE && segment->incarnation[0] == '\0' &&
		pg_atomic_read_u32(&segment->asked) != 0;
}

/*
 * Ask for what sessions want, and with is_full report all other tags too.
 */
static void
compose_take(LinkRequest *take, bool is_full)
{
	Segments   *segments = &shared->segments;
	TimestampTz now = GetCurrentTimestamp();
	StringInfoData tags;
	StringInfoData incarnations;
	StringInfoData seen;
	StringInfoData lengths;
	char		(*incarnation)[SEGMENT_INCARNATION_SIZE];
	int64	   *known_to;
	Segment    *alone = NULL;
	bool		is_skipped = false;

	if (request.asked == NULL)
		request.asked = MemoryContextAllocZero(TopMemoryContext,
											   sizeof(Asked) * Max(shared->nsegments, 1));
	incarnation = palloc(SEGMENT_INCARNATION_SIZE * Max(shared->nsegments, 1));
	known_to = palloc(sizeof(int64) * Max(shared->nsegments, 1));

	request.what = TAKING;
	request.is_full = is_full;
	request.nasked = request.nnew = 0;
	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	for (int n = 0; request.is_alone && !request.was_alone && !is_full && n < segments->used; n++)
	{
		int			i = (n + request.next_alone) % segments->used;

		if (!is_new_and_asked(SEGMENT(i)))
			continue;
		alone = SEGMENT(i);
		request.next_alone = i + 1;
		break;
	}
	request.was_alone = alone != NULL;

	for (int i = 0; i < segments->used; i++)
	{
		Segment    *segment = SEGMENT(i);
		bool		is_new = segment->incarnation[0] == '\0';
		bool		is_asked = pg_atomic_read_u32(&segment->asked) != 0;
		Asked	   *asked;

		if (segment->state == SEGMENT_FREE || (!is_asked && (is_new || !is_full)))
			continue;
		if (alone != NULL ? segment != alone : request.is_alone && is_new)
		{
			is_skipped |= is_asked;
			continue;
		}
		if (is_asked)
			pg_atomic_write_u32(&segment->asked, 0);

		asked = &request.asked[request.nasked];
		asked->segment = segment;
		asked->serial = pg_atomic_read_u32(&segment->serial);
		asked->length = is_asked && !segment->has_next ? wanted_length(segment, now) : 0;
		strlcpy(asked->tag, segment->tag, sizeof(asked->tag));
		strlcpy(incarnation[request.nasked], segment->incarnation, SEGMENT_INCARNATION_SIZE);
		known_to[request.nasked] = segment->seen;
		segment->in_flight = true;
		request.nasked++;
		request.nnew += is_new;
	}
	LWLockRelease(segments->lock);
	if (is_skipped)
		pg_atomic_write_u32(&segments->requested, 1);
	else if (request.nnew == 0)
		request.is_alone = false;

	initStringInfo(&tags);
	initStringInfo(&incarnations);
	initStringInfo(&seen);
	initStringInfo(&lengths);
	for (int i = 0; i < request.nasked; i++)
	{
		append_element(&tags, request.asked[i].tag);
		append_element(&incarnations, incarnation[i][0] == '\0' ? NULL : incarnation[i]);
		append_number(&seen, known_to[i]);
		append_number(&lengths, request.asked[i].length);
	}
	request.hold = is_at_home() ? 0 : LEASE_TTL_US;

	take->sql = TAKE;
	take->nparams = 6;
	take->values[0] = finish_array(&tags);
	take->values[1] = finish_array(&incarnations);
	take->values[2] = finish_array(&seen);
	take->values[3] = finish_array(&lengths);
	take->values[4] = number_text((int64) GetSystemIdentifier());
	take->values[5] = number_text(request.hold);
}

/*
 * What a session has asked for.  Returns false when none has.
 */
static bool
compose_command(LinkRequest *sent)
{
	Segments   *segments = &shared->segments;
	SegmentCommand command;
	SegmentOptions *options = &command.options;
	const char *description;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	if (segments->command.state != COMMAND_ASKED)
	{
		LWLockRelease(segments->lock);
		return false;
	}
	segments->command.state = COMMAND_SENT;
	command = segments->command;
	LWLockRelease(segments->lock);

	request.what = COMMANDING;
	description = options->has_description ? pstrdup(options->description) : NULL;
	sent->values[0] = pstrdup(command.tag);
	switch (command.kind)
	{
		case SEGMENT_CREATE:
			sent->sql = CREATE;
			sent->nparams = 7;
			sent->values[1] = number_text(options->start);
			sent->values[2] = number_text(options->step);
			sent->values[3] = number_text(options->delta);
			sent->values[4] = number_text(options->remainder);
			sent->values[5] = number_text(options->max_value);
			sent->values[6] = description;
			break;
		case SEGMENT_ALTER:
			sent->sql = ALTER;
			sent->nparams = 5;
			sent->values[1] = options->has_start ? number_text(options->start) : NULL;
			sent->values[2] = options->has_step ? number_text(options->step) : NULL;
			sent->values[3] = options->has_max_value ? number_text(options->max_value) : NULL;
			sent->values[4] = description;
			break;
		case SEGMENT_DROP:
			sent->sql = DROP;
			sent->nparams = 2;
			sent->values[1] = options->forget ? "true" : "false";
			break;
	}
	return true;
}

/*
 * Let nobody take any more, and compose what is left.  Returns false when that
 * is nothing, or is not to be kept, or may be another server's by now.
 */
static bool
compose_keep(LinkRequest *keep)
{
	Segments   *segments = &shared->segments;
	StringInfoData incarnations;
	StringInfoData firsts;
	StringInfoData lasts;

	initStringInfo(&incarnations);
	initStringInfo(&firsts);
	initStringInfo(&lasts);
	for (int i = 0; i < shared->nsegments; i++)
	{
		Segment    *segment = SEGMENT(i);
		SegmentBuffer buffer;
		int64		from[2];
		int64		to[2];
		bool		is_left[2];
		char		incarnation[SEGMENT_INCARNATION_SIZE];
		uint32		used;

		LWLockAcquire(segments->lock, LW_EXCLUSIVE);
		segments->is_closing = true;
		(void) segment_used(segment, &buffer, &from[0], &to[0], &used);
		is_left[1] = segment->has_next;
		from[1] = segment->from[segment_spare(segment)];
		to[1] = segment->to[segment_spare(segment)];
		is_left[0] = segment_close(segment, &used) && used < buffer.count;
		from[0] = buffer.first + used * (int64) segment->delta;
		strlcpy(incarnation, segment->incarnation, sizeof(incarnation));
		LWLockRelease(segments->lock);

		for (int j = 0; j < 2; j++)
		{
			if (!is_left[j])
				continue;
			append_element(&incarnations, incarnation);
			append_number(&firsts, from[j]);
			append_number(&lasts, to[j]);
		}
	}
	ConditionVariableBroadcast(&segments->changed);
	if (firsts.len == 0 || !snowflake_keep_segments || !segment_is_valid())
		return false;

	keep->sql = KEEP;
	keep->nparams = 6;
	keep->values[0] = number_text((int64) GetSystemIdentifier());
	keep->values[1] = number_text(is_at_home() ? 0 : LEASE_TTL_US);
	keep->values[2] = finish_array(&incarnations);
	keep->values[3] = finish_array(&firsts);
	keep->values[4] = finish_array(&lasts);
	keep->values[5] = segments->place;
	return true;
}

/*
 * Heeding
 */

/*
 * An answer: over the link, or at home where that is NULL.  A value of it is in
 * UTF-8, NULL for null.
 */
static char *
value_of(const PGresult *answer, int row, int column)
{
	char	   *value;

	if (answer != NULL)
		return PQgetisnull(answer, row, column) ? NULL :
			pstrdup(PQgetvalue(answer, row, column));
	value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column + 1);
	return value == NULL ? NULL :
		pg_server_to_any(value, (int) strlen(value), PG_UTF8);
}

static int64
number_of(const PGresult *answer, int row, int column)
{
	char	   *value = value_of(answer, row, column);

	return value == NULL ? 0 : strtoll(value, NULL, 10);
}

static Row *
read_rows(const PGresult *answer, int nrows)
{
	Row		   *rows = palloc0(sizeof(Row) * Max(nrows, 1));

	for (int i = 0; i < nrows; i++)
	{
		Row		   *row = &rows[i];

		row->tag = value_of(answer, i, 0);
		row->incarnation = value_of(answer, i, 1);
		row->is_given = value_of(answer, i, 2) != NULL;
		row->from = number_of(answer, i, 2);
		row->to = number_of(answer, i, 3);
		row->step = (int32) number_of(answer, i, 4);
		row->delta = (int32) number_of(answer, i, 5);
		row->remainder = (int32) number_of(answer, i, 6);
		row->max_value = value_of(answer, i, 7) == NULL ? PG_INT64_MAX :
			number_of(answer, i, 7);
		row->max_id = number_of(answer, i, 8);
		row->closed_until = value_of(answer, i, 9);
		row->place = value_of(answer, i, 10);
	}
	return rows;
}

/*
 * Is it what the registry can say of a tag?  Not so of another version, or of
 * functions that only have these names; and then this server is to be none the
 * worse for it.
 */
static bool
is_sound(const Row *row)
{
	if (row->tag == NULL || row->place == NULL)
		return false;
	if (row->incarnation == NULL)
		return true;
	return row->delta >= 1 && row->remainder >= 0 && row->remainder < row->delta &&
		(!row->is_given || (row->from >= 1 && row->to >= row->from &&
							row->to - row->from < PG_INT32_MAX));
}

static bool
are_sound(const Row *rows, int nrows)
{
	for (int i = 0; i < nrows; i++)
	{
		if (!is_sound(&rows[i]))
			return false;
	}
	return true;
}

static SegmentResult
read_result(const PGresult *answer)
{
	SegmentResult result = {0};
	char	   *found = value_of(answer, 0, 0);
	char	   *changed = value_of(answer, 0, 1);

	result.found = found != NULL && *found == 't';
	result.changed = changed != NULL && *changed == 't';
	result.max_id = number_of(answer, 0, 2);
	result.delta = (int32) number_of(answer, 0, 3);
	return result;
}

static int
compare_rows(const void *a, const void *b)
{
	return strcmp(((const Row *) a)->tag, ((const Row *) b)->tag);
}

/*
 * Another segment, or the news that there is none.
 */
static void
apply_row(const Asked *asked, const Row *row, TimestampTz now, uint64 fetch_us)
{
	Segment    *segment = asked->segment;

	segment->in_flight = false;
	segment->is_failing = false;
	segment->answers++;
	if (row->incarnation == NULL)
	{
		segment_forget(segment, SEGMENT_MISSING);
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
		segment->length = asked->length;

		/* who waited for it has asked again meanwhile */
		pg_atomic_write_u32(&segment->asked, 0);
		segment_put(segment, row->from, row->to);
	}
	segment->state = row->max_id >= row->max_value ? SEGMENT_ENDED : SEGMENT_OPEN;
	if (row->is_given || asked->length == 0)
		return;

	/* what was asked for with an earlier incarnation */
	if (row->closed_until == NULL && segment->state == SEGMENT_OPEN)
	{
		pg_atomic_write_u32(&segment->asked, 1);
		pg_atomic_write_u32(&shared->segments.requested, 1);
	}
	else if (row->closed_until != NULL)
	{
		snprintf(segment->error, sizeof(segment->error),
				 "The registry was promoted or restored, and gives out no segments until %s.",
				 row->closed_until);
		segment->error_at = now;
		segment->is_failing = true;
		pg_atomic_write_u32(&segment->asked, 1);
	}
}

static void
heed_take(Row *rows, int nrows)
{
	Segments   *segments = &shared->segments;
	int64		steady = clock_read_steady();
	TimestampTz now = GetCurrentTimestamp();
	uint64		until = pg_atomic_read_u64(&segments->valid_until);
	const char *place = nrows > 0 ? rows[0].place : NULL;
	bool		is_closed = false;

	qsort(rows, nrows, sizeof(Row), compare_rows);

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	if (segments->is_closing)
	{
		LWLockRelease(segments->lock);
		return;
	}

	/*
	 * Of a registry that lost its last segments, and was not told of those
	 * that are here while it was waiting for that.
	 */
	if (place != NULL && segments->place[0] != '\0' &&
		strcmp(place, segments->place) != 0 && (uint64) steady >= until)
	{
		for (int i = 0; i < segments->used; i++)
		{
			if (SEGMENT(i)->state != SEGMENT_FREE)
				segment_forget(SEGMENT(i), SEGMENT_NEW);
		}
	}
	if (place != NULL)
		strlcpy(segments->place, place, sizeof(segments->place));

	for (int i = 0; i < request.nasked; i++)
	{
		Asked	   *asked = &request.asked[i];
		Row			key = {.tag = asked->tag};
		Row		   *row = bsearch(&key, rows, nrows, sizeof(Row), compare_rows);

		if (pg_atomic_read_u32(&asked->segment->serial) != asked->serial ||
			asked->segment->state == SEGMENT_FREE)
			continue;			/* it was dropped meanwhile */
		if (row == NULL)
			asked->segment->in_flight = false;
		else
		{
			apply_row(asked, row, now, (uint64) (steady - request.sent_at));
			is_closed |= row->closed_until != NULL;
		}
	}
	segments->error[0] = '\0';
	LWLockRelease(segments->lock);

	if (nrows > 0)
		pg_atomic_write_u64(&segments->valid_until,
							is_at_home() ? SEGMENTS_ALWAYS :
							(uint64) (request.sent_at + request.hold));
	if (request.is_full)
		request.reported_at = request.sent_at;
	request.retry_at = is_closed ? steady + RETRY_MS * 1000 : 0;
	request.what = NOTHING;
	ConditionVariableBroadcast(&segments->changed);
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
	if (command->kind == SEGMENT_DROP)
	{
		segment_forget(segment, SEGMENT_FREE);
		segment->in_flight = false;
	}
	else if (command->kind == SEGMENT_ALTER)
	{
		if (options->has_step)
			segment->step = options->step;
		if (options->has_max_value)
			segment->max_value = options->max_value;
		if (segment->state == SEGMENT_ENDED)
			segment->state = SEGMENT_OPEN;
	}
}

/*
 * The session that has asked may read what came of it.
 */
static void
finish_command(const SegmentResult *result)
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
	request.what = NOTHING;
	ConditionVariableBroadcast(&segments->changed);
}

/*
 * An ERROR has ended the command that was under way, or the setting has changed:
 * nobody waits for the answer any more.
 */
static void
finish_lost_command(void)
{
	SegmentResult result = {
		.sqlstate = ERRCODE_CONNECTION_FAILURE,
		.message = "the background worker has stopped to wait for the answer",
		.hint = "It may have been done all the same."
	};

	if (request.what == COMMANDING)
		finish_command(&result);
}

/*
 * A request for segments did not work.  The error is a sentence in UTF-8.
 */
static void
take_failed(const char *error)
{
	Segments   *segments = &shared->segments;
	TimestampTz now = GetCurrentTimestamp();

	request.what = NOTHING;
	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	for (int i = 0; i < request.nasked; i++)
	{
		Asked	   *asked = &request.asked[i];
		Segment    *segment = asked->segment;

		if (pg_atomic_read_u32(&segment->serial) != asked->serial)
			continue;
		segment->in_flight = false;
		if (asked->length == 0)
			continue;
		utf8_copy(segment->error, sizeof(segment->error), error);
		segment->error_at = now;
		segment->is_failing = true;

		/* who waits for a tag that may not be possible asks again */
		if (!request.was_alone)
			pg_atomic_write_u32(&segment->asked, 1);
	}
	LWLockRelease(segments->lock);
	pg_atomic_write_u32(&segments->requested, 1);

	/* perhaps it is for the sake of one of them, and works without */
	request.is_alone = request.is_alone || request.nnew > 0;
	request.retry_at = request.nnew > 0 ? 0 :
		clock_read_steady() + RETRY_MS * 1000;
}

/*
 * The registry, or the home database, has raised an error.
 */
static void
note_error(int sqlstate, const char *message, const char *detail, const char *hint)
{
	if (sqlstate == ERRCODE_UNDEFINED_FUNCTION)
	{
		message = "the extension \"" EXTENSION "\" is not in the registry";
		detail = "";
		hint = "Create it there, with CREATE EXTENSION " EXTENSION ", where the role of \"snowflake.registry\" finds it.";
	}

	if (request.what == COMMANDING)
	{
		SegmentResult result = {.sqlstate = sqlstate};

		utf8_copy(result.message, sizeof(result.message), message);
		utf8_copy(result.detail, sizeof(result.detail), detail);
		utf8_copy(result.hint, sizeof(result.hint), hint);
		finish_command(&result);
	}
	else if (request.what == TAKING)
	{
		char	   *error = psprintf(is_at_home() ? "The home database cannot give segments: %s." :
									 "The registry cannot give segments: %s.", message);
		uint64		left_out;

		take_failed(error);
		if (!is_at_home() && alarm_is_due(ALARM_SEGMENT, &left_out))
			ereport(WARNING,
					(errmsg("could not fetch segments of numbers"),
					 errdetail("%s%s", error, alarm_left_out(left_out)),
					 *hint != '\0' ? errhint("%s", hint) : 0));
	}
}

/*
 * Over the link
 */

static bool
is_anything_used(void)
{
	bool		used;

	LWLockAcquire(shared->segments.lock, LW_SHARED);
	used = shared->segments.used > 0 || shared->segments.command.state != COMMAND_FREE;
	LWLockRelease(shared->segments.lock);
	return used;
}

static bool
link_is_used(void)
{
	bool		used;
	bool		was_requested = false;

	if (is_at_home())
		return false;

	/*
	 * while "requested" stays, nobody wakes the worker; see
	 * wait_wake_worker()
	 */
	while (!(used = is_anything_used()) &&
		   pg_atomic_exchange_u32(&shared->segments.requested, 0) != 0)
		was_requested = true;
	if (used && was_requested)
		pg_atomic_write_u32(&shared->segments.requested, 1);
	return used;
}

static int64
link_due(void)
{
	int64		due = PG_INT64_MAX;

	if (request.keep != NULL)
		return 0;
	if (pg_atomic_read_u32(&shared->segments.requested) != 0 ||
		request.what == COMMANDING)
		due = 0;
	else if (shared->segments.used > 0)
		due = request.reported_at + POLL_MS * INT64CONST(1000);
	return Max(due, request.retry_at);
}

static void
link_compose(Link *link, LinkRequest *sent, bool is_first)
{
	finish_lost_command();
	request.sent_at = link->sent_at;
	pg_atomic_exchange_u32(&shared->segments.requested, 0);

	/* it may be another registry by now: report before anything is taken */
	if (is_first)
		request.reported_at = 0;

	if (request.keep != NULL)
	{
		*sent = *request.keep;
		request.what = KEEPING;
	}
	else if (is_first)
	{
		/* and before a command: only this answer says where it is */
		compose_take(sent, true);
		pg_atomic_write_u32(&shared->segments.requested, 1);
	}
	else if (compose_command(sent))
		pg_atomic_write_u32(&shared->segments.requested, 1);
	else
		compose_take(sent, link->sent_at >= request.reported_at + POLL_MS * INT64CONST(1000));
	sent->sql = psprintf(sent->sql, "");
}

static void
link_heed(Link *link, const PGresult *answer)
{
	if (request.what == KEEPING)
	{
		request.is_kept = true;
		if (PQresultStatus(answer) != PGRES_TUPLES_OK)
			ereport(LOG,
					(errmsg("what is left of segments of numbers was not kept"),
					 errdetail("%s", PQresultErrorMessage(answer))));
	}
	else if (PQresultStatus(answer) != PGRES_TUPLES_OK)
	{
		const char *sqlstate = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
		const char *message = PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);
		const char *detail = PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL);
		const char *hint = PQresultErrorField(answer, PG_DIAG_MESSAGE_HINT);

		note_error(sqlstate == NULL || strlen(sqlstate) != 5 ? ERRCODE_CONNECTION_FAILURE :
				   MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
								 sqlstate[3], sqlstate[4]),
				   message != NULL ? message : "unknown error",
				   detail != NULL ? detail : "", hint != NULL ? hint : "");
	}
	else if (request.what == COMMANDING)
	{
		SegmentResult result = read_result(answer);

		finish_command(&result);
	}
	else if (request.what == TAKING)
	{
		int			nrows = PQntuples(answer);
		Row		   *rows = read_rows(answer, nrows);

		if (nrows != request.nasked || !are_sound(rows, nrows))
			link_give_up(link, "it did not understand what was asked");
		else if (nrows > 0 && link_is_outdated(shared->segments.place, rows[0].place))
			link_give_up(link, psprintf("it is at %s, and was at %s before",
										rows[0].place, shared->segments.place));
		else if (nrows > 0 && !request.is_full && shared->segments.place[0] != '\0' &&
				 strcmp(shared->segments.place, rows[0].place) != 0)
			/* a new connection begins with a report of all */
			link_give_up(link, "it has moved to another place");
		else
			heed_take(rows, nrows);
	}
}

static void
link_failed(const char *reason)
{
	Segments   *segments = &shared->segments;
	char	   *error = psprintf("The registry could not be asked: %s.", reason);
	uint64		left_out;

	request.failures++;
	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	utf8_copy(segments->error, sizeof(segments->error), error);
	LWLockRelease(segments->lock);

	if (request.what == COMMANDING)
	{
		SegmentResult result = {.sqlstate = ERRCODE_CONNECTION_FAILURE};

		utf8_copy(result.message, sizeof(result.message), "the registry did not answer");
		utf8_copy(result.detail, sizeof(result.detail), error);
		utf8_copy(result.hint, sizeof(result.hint), "It may have been done all the same.");
		finish_command(&result);
	}
	else if (request.what == TAKING)
		take_failed(error);

	if (alarm_is_due(ALARM_SEGMENT, &left_out))
		ereport(WARNING,
				(errmsg("could not fetch segments of numbers"),
				 errdetail("%s%s", error, alarm_left_out(left_out)),
				 errhint("Numbers go on as long as there are some in memory, and for no longer than \"snowflake.lease_ttl\".")));
}

static const LinkClient client = {
	.is_used = link_is_used,
	.due = link_due,
	.compose = link_compose,
	.heed = link_heed,
	.failed = link_failed
};

Link		segment_link = {.client = &client};

/*
 * At home
 */

/*
 * The schema with the functions, to be put before a name; NULL where there is
 * none.
 */
static char *
find_schema(bool create)
{
#define FIND_SCHEMA \
	"SELECT pg_catalog.quote_ident(n.nspname), r.rolsuper" \
	" FROM pg_catalog.pg_extension e" \
	" JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace" \
	" JOIN pg_catalog.pg_roles r ON r.oid = e.extowner" \
	" WHERE e.extname = '" EXTENSION "'"

	if (home_run_plain(FIND_SCHEMA) == 0)
	{
		if (!create)
			return NULL;
		home_run_plain("CREATE SCHEMA " EXTENSION);

		/* for whoever dumps the database */
		home_run_plain("GRANT USAGE ON SCHEMA " EXTENSION " TO PUBLIC");
		home_run_plain("CREATE EXTENSION " EXTENSION " SCHEMA " EXTENSION);
		ereport(LOG,
				(errmsg("created extension \"" EXTENSION "\" in the home database, for segments of numbers")));
		(void) home_run_plain(FIND_SCHEMA);
	}

	/* the worker is one, and would run what its owner has put there */
	if (!DatumGetBool(home_result(2)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("extension \"" EXTENSION "\" in the home database does not belong to a superuser"),
				 errhint("Drop it, and let the background worker create it.")));
	return psprintf("%s.", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
}

/*
 * Returns the number of rows.
 */
static int
run_at_home(const LinkRequest *sent, const char *schema)
{
	const char *values[LINK_MAX_PARAMS];

	for (int i = 0; i < sent->nparams; i++)
		values[i] = sent->values[i] == NULL ? NULL :
			pg_any_to_server(sent->values[i], (int) strlen(sent->values[i]), PG_UTF8);
	return (int) home_run_texts(psprintf(sent->sql, schema), sent->nparams, values);
}

/*
 * The durable mark must not have to wait for this.  The timeout comes by SIGINT,
 * which the worker ignores, or a commit could be cancelled.
 */
static void
limit_lock_waits(void)
{
	pqsignal(SIGINT, StatementCancelHandler);
	home_run_plain("SET LOCAL lock_timeout = '500ms'");
}

static void
unlimit_lock_waits(void)
{
	pqsignal(SIGINT, PG_SIG_IGN);
	QueryCancelPending = false;
}

/*
 * Does a session wait for what a worker has begun that has ended since?
 */
static bool
is_left_over(void)
{
	bool		is_sent;

	if (request.has_begun)
		return false;
	LWLockAcquire(shared->segments.lock, LW_SHARED);
	is_sent = shared->segments.command.state == COMMAND_SENT;
	LWLockRelease(shared->segments.lock);
	return is_sent;
}

int64
segment_due_at_home(void)
{
	if (!is_at_home() ||
		(pg_atomic_read_u32(&shared->segments.requested) == 0 &&
		 request.what != COMMANDING && !is_left_over()))
		return PG_INT64_MAX;
	return request.retry_at;
}

static void
serve_at_home(void)
{
	LinkRequest sent = {0};
	MemoryContext caller = CurrentMemoryContext;
	SegmentResult result = {0};
	Row		   *rows = NULL;
	int			nrows = 0;
	bool		is_command;
	char	   *schema;

	finish_lost_command();
	request.sent_at = clock_read_steady();
	pg_atomic_exchange_u32(&shared->segments.requested, 0);
	is_command = compose_command(&sent);
	if (is_command)
	{
		/* what else is asked for comes after it */
		pg_atomic_write_u32(&shared->segments.requested, 1);
	}
	else
	{
		compose_take(&sent, pg_atomic_read_u64(&shared->segments.valid_until) != SEGMENTS_ALWAYS);
		if (request.nasked == 0)
		{
			request.what = NOTHING;
			return;
		}
	}

	home_begin("serving segments of numbers");
	limit_lock_waits();
	schema = find_schema(is_command &&
						 shared->segments.command.kind == SEGMENT_CREATE);
	if (schema != NULL)
	{
		nrows = run_at_home(&sent, schema);
		MemoryContextSwitchTo(caller);
		if (is_command)
			result = read_result(NULL);
		else
			rows = read_rows(NULL, nrows);
	}
	unlimit_lock_waits();
	home_commit();

	MemoryContextSwitchTo(caller);
	if (is_command)
	{
		finish_command(&result);
		return;
	}
	if (schema == NULL)
	{
		/* no tag was created yet */
		nrows = request.nasked;
		rows = palloc0(sizeof(Row) * Max(nrows, 1));
		for (int i = 0; i < nrows; i++)
			rows[i].tag = request.asked[i].tag;
	}
	heed_take(rows, nrows);
}

void
segment_serve_at_home(void)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		serve_at_home();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		unlimit_lock_waits();
		MemoryContextSwitchTo(caller);
		edata = CopyErrorData();
		note_error(edata->sqlerrcode, edata->message,
				   edata->detail ? edata->detail : "",
				   edata->hint ? edata->hint : "");
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Beginning and ending
 */

void
segment_begin(void)
{
	Segments   *segments = &shared->segments;
	SegmentResult result = {
		.sqlstate = ERRCODE_ADMIN_SHUTDOWN,
		.message = "the background worker has ended",
		.hint = "It may have been done all the same."
	};

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
	finish_command(&result);
	pg_atomic_write_u32(&segments->requested, 1);
	request.has_begun = true;
}

/*
 * In the home database.  The server waits for it, and nothing can interrupt it
 * any more.  What is not kept is lost, and no harm is done.  So it waits neither
 * for a lock, which is an ERROR, nor for the disk or a standby.
 */
static void
keep_at_home(const LinkRequest *keep)
{
	char	   *schema;

	AbortOutOfAnyTransaction();
	home_begin("keeping segments of numbers");
	schema = find_schema(false);
	if (schema != NULL)
	{
		home_run_plain(psprintf("LOCK TABLE %ssnowflake_segment, %ssnowflake_segment_kept,"
								" %ssnowflake_segment_place IN ROW EXCLUSIVE MODE NOWAIT",
								schema, schema, schema));
		home_run_texts(psprintf("SELECT FROM %ssnowflake_segment"
								" WHERE incarnation = ANY ($1::uuid[]) FOR UPDATE NOWAIT",
								schema), 1, &keep->values[2]);
		(void) run_at_home(keep, schema);
		home_run_plain("SET LOCAL synchronous_commit = off");
	}
	home_commit();
}

static void
keep_over_link(const LinkRequest *keep)
{
	int64		deadline = clock_read_steady() + KEEP_MS * INT64CONST(1000);
	int			failures = request.failures;
	bool		is_reset = false;

	request.keep = keep;
	while (!request.is_kept)
	{
		LinkWait	wait;
		int64		left_ms = (deadline - clock_read_steady()) / 1000;
		int			events;

		if (left_ms <= 0)
			break;
		link_serve(&segment_link);

		/* the connection may have been a dead one: try another, once */
		if (request.is_kept || request.failures > failures + 1)
			break;
		if (request.failures > failures && !is_reset)
		{
			link_reset(&segment_link);
			is_reset = true;
		}
		link_wait(&segment_link, &wait);
		if (wait.timeout_ms >= 0)
			left_ms = Min(left_ms, wait.timeout_ms);
		events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH | wait.events,
								   wait.socket, left_ms, wait_event_worker());
		ResetLatch(MyLatch);
		if (events & WL_POSTMASTER_DEATH)
			break;
		if (events & WL_SOCKET_MASK)
			link_is_ready(&segment_link);
	}
	if (!request.is_kept)
		ereport(LOG,
				(errmsg("what is left of segments of numbers was not kept"),
				 errdetail("The registry has not answered.")));
	request.keep = NULL;
}

void
segment_keep_at_exit(void)
{
	static LinkRequest keep;

	MemoryContextSwitchTo(TopMemoryContext);
	if (!compose_keep(&keep))
		return;
	if (is_at_home())
		keep_at_home(&keep);
	else
		keep_over_link(&keep);
}
