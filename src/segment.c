/*-------------------------------------------------------------------------
 *
 * segment.c
 *		Numbers of a tag, out of two buffers in shared memory.
 *
 * The registry hands out segments: spans of numbers, each to one server and
 * once only.  Without a registry the home database does.  The services fetch
 * the segments (segment_fetch.c); here any backend takes numbers from them,
 * one by one.
 *
 * A tag has two buffers.  One is in use: its generation and how many of its
 * numbers are gone are in one word, and taking a number is
 *
 *		read the word; number = buffer.first + gone * delta; word + 1
 *
 * by compare-and-swap.  Buffers change only when they are not in use, so that
 * what was read of the buffer is of that generation if the word is still the
 * same.  When a tenth is gone, whoever took that number asks the services for
 * the next segment, which goes to the other buffer.  When all is gone, whoever
 * notices it first makes that the one in use, under the lock.
 *
 * A crash or a shutdown loses what is in the buffers, and nothing else: what the
 * registry has given out, durably before it gets here, it gives to nobody again.
 *
 * A server that does not hear from the registry for lease_ttl takes no more
 * numbers.  So a registry that was promoted, and may have lost the last
 * segments that it gave out, waits for lease_ttl: by then each server has
 * either told it of its segments, or stopped to take numbers.  The registry
 * cannot know of two cases: numbers that a server had taken when it crashed
 * before it could tell; and numbers that a backend takes which was suspended
 * after it had looked at the time.  See the script of snowflake_registry.
 *
 * Locking: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_subscription.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/hsearch.h"

#include "clock.h"
#include "other_extensions.h"
#include "segment.h"
#include "utf8.h"
#include "waits.h"
#include "worker.h"

/* One of this many numbers is gone when the next segment is asked for. */
#define ASK_PART	10

#define GENERATION(word)	((uint32) ((word) >> 32))
#define GONE(word)			((uint32) (word))
#define MAKE_WORD(generation, gone) ((uint64) (generation) << 32 | (gone))

/*
 * Entries
 */

Segment *
segment_find(const char *utf8)
{
	for (int i = 0; i < shared->segments.used; i++)
	{
		if (SEGMENT(i)->state != SEGMENT_FREE && strcmp(SEGMENT(i)->tag, utf8) == 0)
			return SEGMENT(i);
	}
	return NULL;
}

/*
 * Can the entry be given to another tag?  So when its tag does not exist, or
 * when no session asks for it any more and the registry could not be asked.
 */
static bool
is_spare(Segment *segment)
{
	return segment->state == SEGMENT_MISSING ||
		(segment->state == SEGMENT_NEW && segment->is_failing &&
		 !segment->in_flight && pg_atomic_read_u32(&segment->asked) == 0);
}

/*
 * An entry for a new tag: a free one, else one that can be given away.  NULL
 * when there is none.
 */
static Segment *
make_entry(const char *utf8)
{
	Segments   *segments = &shared->segments;
	Segment    *entry = NULL;

	for (int i = 0; i < segments->used; i++)
	{
		if (SEGMENT(i)->state == SEGMENT_FREE ||
			(entry == NULL && is_spare(SEGMENT(i))))
			entry = SEGMENT(i);
	}
	if (segments->used < shared->nsegments &&
		(entry == NULL || entry->state != SEGMENT_FREE))
		entry = SEGMENT(segments->used++);
	if (entry == NULL)
		return NULL;

	segment_forget(entry, SEGMENT_NEW);
	pg_write_barrier();
	pg_atomic_fetch_add_u32(&entry->serial, 1);
	pg_atomic_write_u32(&entry->asked, 0);

	/* all that the lock protects */
	memset(&entry->state, 0, sizeof(Segment) - offsetof(Segment, state));
	entry->state = SEGMENT_NEW;
	strlcpy(entry->tag, utf8, sizeof(entry->tag));
	return entry;
}

void
segment_forget(Segment *segment, SegmentState state)
{
	/* the generation changes under the lock only */
	uint32		generation = GENERATION(pg_atomic_read_u64(&segment->word));
	uint64		word = pg_atomic_exchange_u64(&segment->word,
											  MAKE_WORD(generation + 1, SEGMENT_CLOSED));

	if (GONE(word) != SEGMENT_CLOSED)
		segment->issued += GONE(word);
	segment->has_next = false;
	segment->state = state;
	segment->incarnation[0] = '\0';
	segment->step = 0;
	segment->length = 0;
	segment->seen = 0;
	segment->fetched_at = 0;
	segment->fetches = segment->fetches_at_reset = 0;
	segment->fetch_us = 0;
}

void
segment_init_shmem(void)
{
	pg_atomic_init_u64(&shared->segments.valid_until_us, 0);
	pg_atomic_init_u32(&shared->segments.requested, 0);
	ConditionVariableInit(&shared->segments.changed);
	for (int i = 0; i < shared->nsegments; i++)
	{
		pg_atomic_init_u64(&SEGMENT(i)->word, SEGMENT_CLOSED);
		pg_atomic_init_u32(&SEGMENT(i)->serial, 0);
		pg_atomic_init_u32(&SEGMENT(i)->asked, 0);
	}
}

/*
 * Buffers
 */

static bool
is_exhausted(Segment *segment, uint64 word)
{
	return GONE(word) >= segment->buffers[GENERATION(word) & 1].count;
}

void
segment_copy(int index, Segment *copy)
{
	LWLockAcquire(shared->segments.lock, LW_SHARED);
	*copy = *SEGMENT(index);

	/* without atomic operations of 64 bits it has a spinlock, which may be taken */
	pg_atomic_init_u64(&copy->word, pg_atomic_read_u64(&SEGMENT(index)->word));
	LWLockRelease(shared->segments.lock);
}

int
segment_spare(Segment *segment)
{
	return ~GENERATION(pg_atomic_read_u64(&segment->word)) & 1;
}

bool
segment_runs_out(Segment *segment)
{
	uint64		word = pg_atomic_read_u64(&segment->word);

	return !segment->has_next &&
		GONE(word) >= segment->buffers[GENERATION(word) & 1].ask_at;
}

bool
segment_used(Segment *segment, uint32 *used)
{
	*used = GONE(pg_atomic_read_u64(&segment->word));
	return *used != SEGMENT_CLOSED;
}

bool
segment_has_numbers(Segment *segment)
{
	return segment->has_next || !is_exhausted(segment, pg_atomic_read_u64(&segment->word));
}

uint64
segment_issued(Segment *segment)
{
	uint32		used;

	return segment->issued + (segment_used(segment, &used) ? used : 0);
}

/*
 * Where the buffer in use has no numbers left, use the other one.
 */
static void
advance(Segment *segment)
{
	uint64		word = pg_atomic_read_u64(&segment->word);

	if (!segment->has_next || !is_exhausted(segment, word))
		return;
	segment->issued = segment_issued(segment);
	segment->has_next = false;
	pg_write_barrier();

	/* nobody takes from one without numbers, so the word is still the same */
	pg_atomic_write_u64(&segment->word, MAKE_WORD(GENERATION(word) + 1, 0));
}

void
segment_put(Segment *segment, int64 from, int64 to)
{
	int			spare = segment_spare(segment);
	SegmentBuffer *buffer = &segment->buffers[spare];
	int64		ahead = segment->remainder - from % segment->delta;

	if (ahead < 0)
		ahead += segment->delta;

	segment->from[spare] = from;
	segment->to[spare] = to;
	segment->seen = Max(segment->seen, to);
	if (ahead > to - from)
		return;					/* none in it that fits */

	buffer->first = from + ahead;
	buffer->count = (uint32) ((to - buffer->first) / segment->delta + 1);
	buffer->ask_at = (buffer->count + ASK_PART - 1) / ASK_PART;
	segment->has_next = true;
	advance(segment);
}

/*
 * Taking
 */

bool
segment_is_valid(void)
{
	uint64		until = pg_atomic_read_u64(&shared->segments.valid_until_us);

	return until == SEGMENTS_ALWAYS || (uint64) clock_read_steady() < until;
}

void
segment_ask_services(void)
{
	/*
	 * Services that see this must also see what is asked for, before: they
	 * forget this first, and then look.
	 */
	pg_write_barrier();
	pg_atomic_write_u32(&shared->segments.requested, 1);
	worker_ask(&shared->services);
}

void
segment_forget_registry(void)
{
	Segments   *segments = &shared->segments;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	segments->place[0] = '\0';
	segments->reports = 0;
	LWLockRelease(segments->lock);
}

static void
ask(Segment *segment)
{
	pg_atomic_write_u32(&segment->asked, 1);
	segment_ask_services();
}

/*
 * Take up to want numbers.  Returns how many; 0 when the buffer in use has
 * none, or the entry is another tag's by now.
 */
static inline uint64
take(SegmentHandle *handle, uint64 want, int64 *first, int64 *delta)
{
	Segment    *segment = handle->segment;
	uint64		word = pg_atomic_read_u64(&segment->word);
	SegmentBuffer *buffer;
	uint32		gone;
	uint64		count;

	do
	{
		pg_read_barrier();
		if (pg_atomic_read_u32(&segment->serial) != handle->serial)
			return 0;
		buffer = &segment->buffers[GENERATION(word) & 1];
		gone = GONE(word);
		if (gone >= buffer->count)
			return 0;
		count = Min(want, buffer->count - gone);
		*delta = segment->delta;
		*first = buffer->first + gone * *delta;
	} while (!pg_atomic_compare_exchange_u64(&segment->word, &word, word + count));

	if (unlikely(gone < buffer->ask_at && gone + count >= buffer->ask_at))
		ask(segment);
	return count;
}

/*
 * A tag that this backend has drawn numbers of.  With it a new statement need
 * not look for the entry under the lock.
 */
typedef struct KnownTag
{
	char		tag[SEGMENT_TAG_SIZE];	/* in UTF-8 */
	Segment    *segment;
	uint32		serial;
} KnownTag;

static KnownTag *
known_tag(const char *utf8, HASHACTION action)
{
	static HTAB *known = NULL;
	HASHCTL		info = {.keysize = SEGMENT_TAG_SIZE,.entrysize = sizeof(KnownTag)};

	if (known == NULL)
		known = hash_create("snowflake segment tags", 32, &info, HASH_ELEM | HASH_STRINGS);
	return hash_search(known, utf8, action, NULL);
}

const char *
segment_tag_to_utf8(const char *tag, int length)
{
	const char *utf8 = pg_server_to_any(tag, length, PG_UTF8);
	int			size = utf8 == tag ? length : (int) strlen(utf8);

	if (size == 0 || size >= SEGMENT_TAG_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid segment tag"),
				 errdetail("A tag has from 1 to %d bytes in UTF-8; this one has %d.",
						   SEGMENT_TAG_SIZE - 1, size)));
	return pnstrdup(utf8, size);
}

void
segment_require(void)
{
	shmem_require("draw numbers from segments");

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot use segments during recovery"),
				 errdetail("The background worker, which fetches them, runs on a primary server only."),
				 errhint("Draw numbers on the primary server.")));

	if (!IsUnderPostmaster || IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot use segments in this mode"),
				 errdetail("In single-user mode and in pg_upgrade there is no background worker to fetch them.")));
}

void
segment_report_missing(const char *utf8)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("segment tag \"%s\" does not exist", utf8_to_server(utf8)),
			 snowflake_registry[0] != '\0' ?
			 errdetail("The registry does not have it.") :
			 errdetail("The home database does not have it."),
			 segment_is_apart() ?
			 errhint("To share its numbers with other servers, set \"snowflake.registry\" on all of them, and create the tag with a start above the numbers in use. Without a registry, each server counts for itself.") :
			 errhint("Create it with snowflake_segment_create(). If the tag existed before, here or elsewhere, give it a start above the numbers in use.")));
}

bool
segment_is_apart(void)
{
	return snowflake_registry[0] == '\0' &&
		(citus_is_here() ||
		 CountDBSubscriptions(MyDatabaseId) > 0);
}

/* What is found when there are no numbers at once. */
typedef struct Look
{
	enum
	{
		LOOK_TAKE,				/* there are some now */
		LOOK_WAIT,
		LOOK_MISSING,
		LOOK_ENDED
	}			found;
	int64		max_value;
	char		error[SEGMENT_MESSAGE_SIZE];
	bool		error_passes;

	/*
	 * The number of the first answer that was asked for after the call, with
	 * the entry that the handle says.
	 */
	uint32		answer;
} Look;

/*
 * See what there is of a tag, and ask for what there is not.  The handle is of
 * the look before, or empty.
 */
static void
look_at(const char *utf8, SegmentHandle *handle, Look *look)
{
	Segments   *segments = &shared->segments;
	Segment    *segment;
	uint32		serial;
	bool		is_answered;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	segment = segment_find(utf8);
	if (segment == NULL)
		segment = make_entry(utf8);
	if (segment == NULL)
	{
		LWLockRelease(segments->lock);
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot draw a number of segment tag \"%s\": too many tags are in use",
						utf8_to_server(utf8)),
				 errdetail("This server has memory for \"snowflake.max_segment_tags\", %d.",
						   shared->nsegments),
				 errhint("Raise that setting and restart the server.")));
	}

	serial = pg_atomic_read_u32(&segment->serial);
	if (handle->segment != segment || handle->serial != serial)
	{
		handle->segment = segment;
		handle->serial = serial;
		look->answer = segment->answers + 1 + segment->in_flight;
	}

	advance(segment);
	look->max_value = segment->max_value;
	strlcpy(look->error, segments->error[0] != '\0' ? segments->error :
			segment->is_failing ? segment->error : "", sizeof(look->error));
	look->error_passes = segments->error[0] != '\0' ? segments->error_passes :
		segment->error_passes;
	is_answered = (int32) (segment->answers - look->answer) >= 0;
	look->found = !is_exhausted(segment, pg_atomic_read_u64(&segment->word)) ? LOOK_TAKE :
		is_answered && segment->state == SEGMENT_MISSING ? LOOK_MISSING :
		is_answered && segment->state == SEGMENT_ENDED ? LOOK_ENDED : LOOK_WAIT;
	LWLockRelease(segments->lock);

	if (look->found == LOOK_WAIT)
		ask(segment);
}

static void
count_wait(const SegmentHandle *handle, uint64 wait_us)
{
	LWLockAcquire(shared->segments.lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&handle->segment->serial) == handle->serial)
	{
		handle->segment->waits++;
		handle->segment->wait_us += wait_us;
	}
	LWLockRelease(shared->segments.lock);
}

/*
 * Why is there none yet, and does that pass by itself?
 */
static const char *
wait_detail(const Look *look, bool *passes)
{
	WorkerState state;
	char	   *detail;
	char	   *hint;

	*passes = look->error_passes;
	if (look->error[0] != '\0')
		return utf8_to_server(look->error);
	state = worker_describe(&shared->services, &detail, &hint);
	*passes = state < WORKER_ABSENT;
	return state >= WORKER_HANGS ? detail : "The background worker has not fetched one yet.";
}

/*
 * Sleep until the services have an answer, or for a while.
 */
static void
wait_for_segment(const char *utf8, const SegmentHandle *handle, const Look *look, Wait *wait)
{
	int64		left_ms = wait_left_ms(wait);
	bool		passes;

	CHECK_FOR_INTERRUPTS();
	if (left_ms <= 0)
	{
		const char *detail = wait_detail(look, &passes);

		count_wait(handle, snowflake_max_wait * UINT64CONST(1000));
		ereport(ERROR,
				(errcode(wait_sqlstate(passes)),
				 errmsg("cannot draw a number of segment tag \"%s\": no segment came in time",
						utf8_to_server(utf8)),
				 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.",
						   text_shown(detail), snowflake_max_wait),
				 errdetail_log("%s", detail),
				 errhint("The background worker goes on trying. See the view pg_stat_snowflake_segments.")));
	}

	if (wait_is_long(wait, WAIT_SEGMENT))
		wait_log(wait, psprintf("a segment of tag \"%s\"", utf8_to_server(utf8)),
				 wait_detail(look, &passes), NULL);

	wait_sleep(wait, WAIT_SEGMENT, &shared->segments.changed, left_ms);
}

/*
 * When the handle of the previous call is no good: look for the tag, wait for
 * a segment.
 */
static pg_noinline uint64
take_slowly(SegmentHandle *handle, const char *tag, int length, uint64 want,
			int64 *first, int64 *delta)
{
	Wait		wait = {0};
	Look		look = {0};
	const char *utf8;
	KnownTag   *known;
	uint64		count = 0;

	/* the handle is of no tag until this has succeeded */
	handle->length = -1;
	segment_require();
	utf8 = segment_tag_to_utf8(tag, length);

	known = known_tag(utf8, HASH_FIND);
	if (known != NULL && segment_is_valid())
	{
		handle->segment = known->segment;
		handle->serial = known->serial;
		count = take(handle, want, first, delta);
	}
	if (count == 0)
	{
		handle->segment = NULL;
		ConditionVariablePrepareToSleep(&shared->segments.changed);
		for (;;)
		{
			look_at(utf8, handle, &look);
			if (look.found == LOOK_TAKE)
			{
				if (segment_is_valid())
				{
					count = take(handle, want, first, delta);
					if (count > 0)
						break;
					continue;
				}
				segment_ask_services();
			}
			if (look.found == LOOK_MISSING)
				segment_report_missing(utf8);
			if (look.found == LOOK_ENDED)
				ereport(ERROR,
						(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
						 errmsg("segment tag \"%s\" has no numbers left",
								utf8_to_server(utf8)),
						 errdetail("All numbers up to its maximum value, " INT64_FORMAT ", were given out to servers.",
								   look.max_value),
						 errhint("%s", SEGMENT_ENDED_HINT(look.max_value))));
			wait_for_segment(utf8, handle, &look, &wait);
		}
		ConditionVariableCancelSleep();
		if (wait.counted[WAIT_SEGMENT])
			count_wait(handle, snowflake_max_wait * UINT64CONST(1000) - wait_left_us(&wait));
		known = known_tag(utf8, HASH_ENTER);
		known->segment = handle->segment;
		known->serial = handle->serial;
	}

	/* for the next call */
	handle->length = length;
	if (length <= (int) sizeof(handle->tag))
		memcpy(handle->tag, tag, length);
	return count;
}

uint64
segment_take(SegmentHandle *handle, const char *tag, int length, uint64 want,
			 int64 *first, int64 *delta)
{
	if (likely(handle->segment != NULL && handle->length == length &&
			   length <= (int) sizeof(handle->tag) &&
			   memcmp(handle->tag, tag, length) == 0 && segment_is_valid()))
	{
		uint64		count = take(handle, want, first, delta);

		if (likely(count > 0))
			return count;
	}
	return take_slowly(handle, tag, length, want, first, delta);
}
