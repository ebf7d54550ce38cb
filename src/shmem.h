/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		What the processes of a server share, and who may touch it when.
 *
 * After a crash of a backend the server makes its shared memory anew: all
 * slots are free, every word is 0, and nothing is reserved.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SHMEM_H
#define SNOWFLAKE_SHMEM_H

#include "access/xlogdefs.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#pragma GCC visibility push(hidden)

/* For what many CPUs write: begins a cache line that holds nothing else. */
#define CACHE_LINE_ALIGNED	pg_attribute_aligned(PG_CACHE_LINE_SIZE)

/* A worker slot: a worker number and the counter behind it. */
typedef struct Slot
{
	/*
	 * time << sequence bits | sequence of the last ID drawn: one counter,
	 * which only ever goes up, whoever has the slot.  Changed by
	 * compare-and-swap only, by any backend, with no lock; read by anyone.
	 *
	 * The mark writer puts it to the last ID below the floor before anyone
	 * may draw, and at shutdown to SLOT_CLOSED, above which there is nothing.
	 */
	CACHE_LINE_ALIGNED pg_atomic_uint64 word;

	/*
	 * IDs drawn from this slot, but for what backends have drawn and not yet
	 * counted.  Only ever added to, with no lock.
	 */
	pg_atomic_uint64 issued;

	/*
	 * How many had been drawn when the statistics were reset, and how many
	 * backends have this slot.  Protected by SharedState.lock.
	 */
	uint64		issued_at_reset;
	uint32		nbackends;
} Slot;

#define SLOT_CLOSED	PG_UINT64_MAX

/* All backends begin to draw from this one.  Each is given another, too. */
#define SHARED_SLOT	0

/*
 * The transaction of a process that has drawn IDs, by its local number, and the
 * time unit of the first.
 */
typedef struct OpenNote
{
	pg_atomic_uint32 lxid;
	pg_atomic_uint64 unit;
} OpenNote;

#define NOTE_OWN			0
#define NOTE_OF_WORKERS		1
#define OPEN_NOTES			2

/* A backend that draws IDs, at its process number. */
typedef struct BackendEntry
{
	/* Protected by SharedState.lock. */
	CACHE_LINE_ALIGNED int pid; /* 0 means that the entry is free */
	int			slot;			/* it was given */

	/*
	 * "drawn": IDs that this backend, and those that had the entry before,
	 * have drawn.  "counted": how many of them are in the "issued" of a slot.
	 * "drawn_from": the slot that the others were drawn from.  Written by the
	 * backend alone, with no lock; read by anyone, maybe a moment late.  The
	 * first two only ever go up, so the sum of all "drawn" is always exact.
	 */
	pg_atomic_uint64 drawn;
	pg_atomic_uint64 counted;
	pg_atomic_uint32 drawn_from;

	/*
	 * What its transaction has drawn; see open_draws.c.  Its own note is
	 * written by the backend alone, with no lock, that of its parallel
	 * workers by these, under SharedState.lock.  Read with no lock.
	 */
	OpenNote	notes[OPEN_NOTES];
} BackendEntry;

/*
 * The time unit of the first ID of a transaction that is prepared, or
 * PG_UINT64_MAX if it has drawn none.  The transaction ID stays when it has
 * ended, until that of another one takes the place by compare-and-swap; then
 * the process of that one writes the time unit, before it is prepared.  Read by
 * anyone, with no lock.
 */
typedef struct PreparedNote
{
	pg_atomic_uint32 xid;
	pg_atomic_uint64 unit;
} PreparedNote;

#define WORKER_ERROR_SIZE 512

/* A background worker, as other processes see it; see worker.c. */
typedef struct Worker
{
	/* Its process number or -1.  Written by itself, read by anyone, no lock. */
	pg_atomic_uint32 proc;

	/*
	 * Something is asked of it.  Set by anyone, with no lock, once what is
	 * asked is written; whoever sets it wakes this process, which clears it
	 * before it looks what is asked.  And when it was last set, by the steady
	 * clock.
	 */
	pg_atomic_uint32 requested;
	pg_atomic_uint64 requested_at_us;

	/* Broadcast by itself when it has done something, or failed. */
	ConditionVariable changed;

	/* Written by itself, read by anyone. */
	bool		started;		/* such a process was there before */
	bool		connecting;		/* it has begun to, and not come through */

	/*
	 * What it failed with, its SQLSTATE and its hint; '' and 0 after it did
	 * not fail.  Written by itself alone, protected by SharedState.lock;
	 * sessions that wait look at the SQLSTATE without it, and may see it a
	 * moment late.
	 */
	int			error_sqlstate;
	int			error_encoding; /* of the texts, also of last_error */
	char		error[WORKER_ERROR_SIZE];
	char		hint[WORKER_ERROR_SIZE];

	/* The same, also after it did not fail.  Protected by SharedState.lock. */
	TimestampTz last_error_at;	/* 0 for never */
	char		last_error[WORKER_ERROR_SIZE];
} Worker;

/* Bits of Mark.to_record. */
#define RECORD_LOOK		1
#define RECORD_CONFIRM	2
#define RECORD_FAILED	4

/*
 * Who says so of a floor: anyone; a superuser, of a dump, whose IDs are below;
 * who may call snowflake_advance(), of all IDs of this server.  The last one
 * stands for a mark that is lost, the second for one that never was.
 */
typedef enum MarkFloor
{
	FLOOR_ANYONES,
	FLOOR_OF_DUMP,
	FLOOR_OF_SERVER
} MarkFloor;

#define MARK_FLOORS		(FLOOR_OF_SERVER + 1)

/*
 * The durable mark as the processes of the server know it; see mark.c.  What
 * ends in _unit is a time in time units since the epoch.  Where nothing else is
 * said, written by the mark writer alone and read by anyone, with no lock.
 *
 * Invariant: every time at which an ID was issued < limit <= durable mark.
 */
typedef struct Mark
{
	/*
	 * The limit: IDs are issued only at times below.  0 when nothing is
	 * reserved: the mark has not been read yet, or the server is shutting
	 * down.  Written only after the mark is durable.  Never goes down but at
	 * shutdown, to 0, after which the words are closed.
	 */
	pg_atomic_uint64 limit_unit;

	/* Sessions that draw at this time or later ask for more. */
	pg_atomic_uint64 renew_unit;

	/*
	 * Since server start no ID is issued below this time: the mark as it was
	 * read, or what snowflake_advance() made of it.  Kept by the words; here
	 * for readers of them.  Only goes up.
	 */
	pg_atomic_uint64 floor_unit;

	/*
	 * What snowflake_advance() made of it, durably.  Not the floor: a mark
	 * that was read may not be on the synchronous standbys.  Only goes up.
	 */
	pg_atomic_uint64 advanced_unit;

	/*
	 * What is asked of the mark writer: a time to draw at; a floor, as
	 * MarkFloor has it; 1 to accept the configured layout.  Raised by anyone,
	 * set back to 0 by the mark writer when it begins to do it.
	 */
	pg_atomic_uint64 wanted_unit;
	pg_atomic_uint64 advance_to_unit[MARK_FLOORS];
	pg_atomic_uint64 accept;

	/*
	 * The database in which the mark was found, else 0.  The workers connect
	 * to it again whatever its name is by then.
	 */
	Oid			home;

	/*
	 * Has the mark writer looked for the mark since the server started, and
	 * published it if it is there?
	 */
	bool		is_read;

	/*
	 * What the services are to do about what is recorded, RECORD_* above: to
	 * look at it, set by the mark writer when it has read the mark and what
	 * it wrote is committed; to confirm the node number, set by anyone; that
	 * they failed to, set by them.  Cleared when they have done it.
	 */
	pg_atomic_uint32 to_record;

	/*
	 * The timeline on which the node number was last confirmed, where this
	 * server was promoted since and draws with it; else 0.  Written before
	 * the limit, later by the services.
	 */
	pg_atomic_uint32 confirmed_before;

	/*
	 * The mark that was last read or made durable, in microseconds since
	 * 1970, 0 when none was.
	 */
	pg_atomic_uint64 mark_us;

	/*
	 * When the mark writer last warned that the layout's time ends, 0 for
	 * never.  Touched by it alone.
	 */
	uint64		warned_unit;
} Mark;

/* What was seen of the registry that gives node numbers. */
typedef struct RegistrySeen
{
	char		timeline[64];	/* "system identifier/timeline", '' for
								 * nothing */
	int64		changes;		/* the most that it has told of, -1 for none */
	int64		renewals;		/* of the lease when last granted, -1 for none */
} RegistrySeen;

#define LEASE_TOKEN_SIZE	37
#define LEASE_ERROR_SIZE	2048

/*
 * The lease of the node number; see lease.c.  Where nothing else is said,
 * written by the services alone and read by anyone, with no lock.
 */
typedef struct Lease
{
	/*
	 * Does it take the registry to draw, by the settings of now?  Those of a
	 * statement are of when it began.  Written by the mark writer.
	 */
	pg_atomic_uint32 is_used;

	/*
	 * (uint32) -1 for none.  Written by the mark writer alone; read after the
	 * limit.
	 */
	pg_atomic_uint32 node;

	/*
	 * Until when it may be used, in microseconds of the steady clock; 0 when
	 * it may not, PG_INT64_MAX when it is registered.  Read before the limit.
	 */
	pg_atomic_uint64 deadline_us;

	/*
	 * The mark below which IDs may be issued with it, in microseconds since
	 * 1970, PG_INT64_MAX when it is registered.  The limit of the server is
	 * never above it.  Written by the mark writer together with the number,
	 * raised by the services while nothing is offered.
	 */
	pg_atomic_uint64 mark_us;

	/*
	 * A number that the mark writer is to go on with.  "offered" and "taken"
	 * count offers.  While they differ, the mark writer alone reads the
	 * offer, and nobody changes it, until it sets "taken" to what "offered"
	 * is.  While they are the same, the services alone write the offer.
	 */
	pg_atomic_uint32 offered;
	pg_atomic_uint32 taken;
	struct
	{
		int			node;
		int64		floor_us;
		int64		mark_us;
	}			offer;

	/*
	 * From when the number was given, in microseconds since 1970.  Written by
	 * the mark writer before the number; read by the services while nothing
	 * is offered.
	 */
	int64		floor_us;

	/*
	 * The server's clock minus the registry's, in microseconds, as last
	 * measured; and whether it was.
	 */
	pg_atomic_uint64 clock_offset_us;
	bool		has_clock_offset;

	/* Numbers that nobody had when last asked, (uint32) -1 for not known. */
	pg_atomic_uint32 free_numbers;

	/*
	 * What was seen of the registry.  Written by the services and by
	 * snowflake_forget_registry(), protected by SharedState.lock.
	 */
	RegistrySeen seen;
	bool		seen_forgotten; /* on demand, since it was remembered */
	bool		to_retry;		/* so, and the services have not asked again */

	/*
	 * Why there is no number, or the registry cannot be asked, and what to
	 * do; and what its last answer said of other servers with this number.
	 * In UTF-8, '' when all is well.  Protected by SharedState.lock.
	 */
	char		error[LEASE_ERROR_SIZE];
	char		hint[LEASE_ERROR_SIZE];
	char		warning[LEASE_ERROR_SIZE];

	/*
	 * Somebody has to mend that.  Protected by SharedState.lock; sessions
	 * that wait look at it without, and may see it a moment late.
	 */
	bool		is_refused;

	/* Touched by the services alone from here on, which may start again. */
	char		token[LEASE_TOKEN_SIZE];	/* of this start or of the
											 * registration, '' before */
	char		known_token[LEASE_TOKEN_SIZE];	/* to the registry; that of an
												 * earlier start until it has
												 * answered */

	/* What was remembered in the home database before this start. */
	bool		recalled;
	int			recalled_node;	/* -1 for none */
	int64		recalled_floor_us;
	char		recalled_token[LEASE_TOKEN_SIZE];

	/* The timeline that this server is known by, see lease.c. */
	TimeLineID	origin;

	/* What is remembered there now. */
	int			remembered_node;
	int64		remembered_deadline_us;
	uint64		remembered_last_unit;	/* of the latest ID then */
	char		remembered_token[LEASE_TOKEN_SIZE];
	char		remembered_registry[64];	/* its timeline */
} Lease;

/* Asks the services for sequence numbers of a stretch of the past. */
typedef struct BackfillRequest
{
	uint64		stretch;
	uint64		count;			/* 0 means that the entry is free */
} BackfillRequest;

#define BACKFILL_REQUESTS 8

/*
 * What snowflake_backfill() needs; see backfill.c.  All is protected by the
 * lock, and so is what the tables hold.
 */
typedef struct Backfill
{
	LWLock	   *lock;			/* itself set at server start */

	/* Dynamic shared memory, DSM_HANDLE_INVALID before it is needed. */
	dsm_handle	tables;

	/* Taken out by the services once they have done it, or have failed to. */
	BackfillRequest requests[BACKFILL_REQUESTS];

	/*
	 * No number below may be drawn in any stretch: what is asked for, 0 for
	 * nothing, and what the services have made durable.
	 */
	uint64		advance_to;
	uint64		advanced;
} Backfill;

#define SEGMENT_TAG_SIZE		64
#define SEGMENT_INCARNATION_SIZE 37
#define SEGMENT_REPORTER_SIZE	37
#define SEGMENT_PLACE_SIZE		128
#define SEGMENT_ERROR_SIZE		256

/* A segment as numbers are taken from it: "first", "first" + delta and so on. */
typedef struct SegmentBuffer
{
	int64		first;
	uint32		count;
	uint32		ask_at;			/* when so many are gone, ask for the next one */
} SegmentBuffer;

typedef enum SegmentState
{
	SEGMENT_FREE,				/* the entry has no tag */
	SEGMENT_NEW,				/* the registry has not said anything of it */
	SEGMENT_OPEN,
	SEGMENT_ENDED,				/* the registry has no numbers left */
	SEGMENT_MISSING				/* there is no such tag */
} SegmentState;

/*
 * A tag that this server draws numbers of; see segment.c.  What numbers are
 * taken from is in its first cache line.
 */
typedef struct Segment
{
	/*
	 * The generation of the buffer in use, in the upper 32 bits, and how many
	 * numbers of it are gone, in the lower; SEGMENT_CLOSED there for no
	 * buffer in use.  Taking a number changes it by compare-and-swap, with no
	 * lock; a new generation is put there under the lock.  The generation
	 * only ever goes up, whatever tag the entry has.
	 */
	CACHE_LINE_ALIGNED pg_atomic_uint64 word;

	/*
	 * The buffer of a generation is the one of its lowest bit.  Written under
	 * the lock, and only that which is not in use; read after the word, and
	 * good when the word has not changed since.
	 */
	SegmentBuffer buffers[2];
	int32		delta;			/* of both */

	/*
	 * Counts the tags that the entry has had.  Written under the lock while
	 * the word is closed; read after the word.
	 */
	pg_atomic_uint32 serial;

	/*
	 * Another segment is wanted.  Set by anyone, with no lock; cleared by the
	 * services when they ask for one.
	 */
	pg_atomic_uint32 asked;

	/* Protected by Segments.lock from here on. */
	SegmentState state;
	bool		has_next;		/* the buffer that is not in use is ready */
	bool		in_flight;		/* it was asked for, and there is no answer */
	uint32		answers;		/* counts them */
	char		tag[SEGMENT_TAG_SIZE];	/* in UTF-8 */
	char		incarnation[SEGMENT_INCARNATION_SIZE];	/* the registry's UUID,
														 * '' for not known */

	/* As the registry has it. */
	int32		step;
	int32		remainder;
	int64		max_value;

	/* The spans of the buffers, as the registry gave them. */
	int64		from[2];
	int64		to[2];
	int64		seen;			/* the highest "to" so far */

	/* How long a span to ask for, in turn with how long they last. */
	int64		length;
	TimestampTz fetched_at;		/* the last one, 0 for never */
	uint64		fetches;		/* of this incarnation */

	/* Statistics since the reset. */
	uint64		fetches_at_reset;
	uint64		issued;			/* of buffers that are used up */
	uint64		issued_at_reset;	/* of all */
	uint64		fetch_us;		/* that the last fetch took */
	uint64		waits;
	uint64		wait_us;
	bool		is_failing;		/* no segment came when last asked for */
	bool		is_doubted;		/* it is asked for alone; see segment_fetch.c */
	int64		not_before;		/* it is asked for again, steady clock; 0 for
								 * at once */
	bool		error_passes;	/* by itself; see waits.h */
	char		error[SEGMENT_ERROR_SIZE];	/* the last one */
	TimestampTz error_at;		/* 0 for never */
} Segment;

#define SEGMENT_CLOSED	PG_UINT32_MAX

#define SEGMENT_DESCRIPTION_SIZE 1024
#define SEGMENT_MESSAGE_SIZE	512

typedef enum SegmentCommandKind
{
	SEGMENT_CREATE,
	SEGMENT_ALTER,
	SEGMENT_DROP
} SegmentCommandKind;

/*
 * What is to be changed by SEGMENT_ALTER, and is given with SEGMENT_CREATE.  A
 * start, step or maximum value of 0 stands for none.
 */
typedef struct SegmentOptions
{
	bool		has_description;
	int64		start;
	int32		step;
	int32		delta;
	int32		remainder;
	int64		max_value;
	bool		forget;			/* for SEGMENT_DROP */
	char		description[SEGMENT_DESCRIPTION_SIZE];	/* in UTF-8 */
} SegmentOptions;

/* What came of it. */
typedef struct SegmentResult
{
	bool		found;			/* there was such a tag */
	bool		changed;
	int64		max_id;
	int32		delta;

	/* Where the registry has raised an error; '' else. */
	int			sqlstate;
	char		message[SEGMENT_MESSAGE_SIZE];
	char		detail[SEGMENT_MESSAGE_SIZE];
	char		hint[SEGMENT_MESSAGE_SIZE];
} SegmentResult;

/*
 * One session at a time has the services create, alter or drop a tag; see
 * segment_funcs.c.  Protected by Segments.lock.
 */
typedef struct SegmentCommand
{
	enum
	{
		COMMAND_FREE,
		COMMAND_ASKED,			/* by a session */
		COMMAND_SENT,			/* the services are at it */
		COMMAND_DONE			/* the session may read the result */
	}			state;
	bool		is_abandoned;	/* nobody waits for the result */
	SegmentCommandKind kind;
	char		tag[SEGMENT_TAG_SIZE];	/* in UTF-8 */
	SegmentOptions options;
	SegmentResult result;
} SegmentCommand;

/* The segments of this server. */
typedef struct Segments
{
	LWLock	   *lock;			/* itself set at server start */

	/*
	 * Until when numbers may be taken, in microseconds of the steady clock:
	 * SEGMENTS_ALWAYS where the home database gives them.  Written by the
	 * services alone, read by anyone.
	 */
	pg_atomic_uint64 valid_until_us;

	/*
	 * Something is asked for.  Set by anyone, with no lock, before they wake
	 * the services, which clear it before they look what it is.
	 */
	pg_atomic_uint32 requested;

	/* Broadcast when there is an answer. */
	ConditionVariable changed;

	/*
	 * Protected by the lock.  The services may look without it at "used", and
	 * at a command that they have sent.
	 */
	int			used;			/* entries from here on never had a tag */
	SegmentCommand command;
	char		error[SEGMENT_MESSAGE_SIZE];	/* the registry cannot be
												 * asked; '' else */
	bool		error_passes;	/* by itself */

	/*
	 * The place of the registry: its system and timeline, and when it was
	 * last closed; '' for not known.  And how many reports of this server it
	 * has written down, 0 for none.
	 */
	char		place[SEGMENT_PLACE_SIZE];
	int64		reports;

	/* Tells this start of the server from others.  The services' own. */
	char		reporter[SEGMENT_REPORTER_SIZE];	/* '' before */
} Segments;

#define SEGMENTS_ALWAYS	PG_UINT64_MAX

/* From the steady clock to the server's timestamps; see clock.c. */
typedef struct Clock
{
	/* Set at server start, and read only from then on. */
	int64		offset_us;

	/*
	 * As it was last seen: it changes when the server's clock is set, see
	 * clock_watch_steps().  Changed by anyone, with no lock, by
	 * compare-and-swap from what was read before the clock was read, so that
	 * a step is seen once.
	 */
	pg_atomic_uint64 offset_seen_us;
} Clock;

/* What a session that wants an ID may have to wait for; see waits.c. */
typedef enum WaitKind
{
	WAIT_MARK,					/* the durable mark to be raised */
	WAIT_CLOCK,					/* the clock, which was set back */
	WAIT_UNIT,					/* a time unit with sequence numbers left */
	WAIT_NODE,					/* a node number from the registry */
	WAIT_SEGMENT				/* a segment of numbers, which are no IDs */
} WaitKind;

#define WAIT_KINDS		(WAIT_SEGMENT + 1)
#define ID_WAIT_KINDS	WAIT_SEGMENT	/* those before */

/*
 * Counters since the statistics were reset.  Added to, raised and set to 0 by
 * anyone with no lock; none is touched on the fast path to an ID.  Durations
 * are in microseconds.  Nothing but counters, so that all can be gone through
 * as an array.
 */
typedef struct Stats
{
	pg_atomic_uint64 backfilled;	/* IDs of snowflake_backfill() */
	pg_atomic_uint64 hops;		/* to a higher slot in the same time unit */
	pg_atomic_uint64 waits[WAIT_KINDS];
	pg_atomic_uint64 wait_us[WAIT_KINDS];
	pg_atomic_uint64 timeouts;	/* waits that ended with an ERROR */
	pg_atomic_uint64 drift_max_us;	/* of an ID's time, ahead of the clock */
	pg_atomic_uint64 regressions;	/* the server's clock was set back */
	pg_atomic_uint64 regression_max_us;
	pg_atomic_uint64 jumps;		/* it was set forward */
	pg_atomic_uint64 jump_max_us;
} Stats;

#define STATS_COUNTERS	(sizeof(Stats) / sizeof(pg_atomic_uint64))

/* Since when they count, and what had been issued.  Protected by the lock. */
typedef struct StatsReset
{
	TimestampTz at;
	uint64		issued;
} StatsReset;

/* Lines for the log, of each kind one a minute at most; see clock.c. */
typedef enum LogKind
{
	LOG_OF_WAIT,					/* of each WaitKind */
	LOG_OF_CLOCK_BACK = LOG_OF_WAIT + WAIT_KINDS,
	LOG_OF_CLOCK_FORWARD,
	LOG_OF_WORKER,
	LOG_OF_BACKFILL,
	LOG_OF_RECORD,
	LOG_OF_REGISTRY,
	LOG_OF_SKEW,
	LOG_OF_NUMBER,
	LOG_OF_SEGMENT
} LogKind;

#define LOG_KINDS (LOG_OF_SEGMENT + 1)

typedef struct LogThrottle
{
	/*
	 * When there was one, in microseconds of the steady clock, 0 for never;
	 * and how many were left out since.  Changed by anyone, with no lock.
	 */
	pg_atomic_uint64 at;
	pg_atomic_uint64 left_out;
} LogThrottle;

/*
 * The structs follow the rules above, and so does what the pointers point to.
 * The lock, the counts and the pointers are set at server start, and read only
 * from then on.  Other fields have their rule here.
 */
typedef struct SharedState
{
	Worker		mark_writer;
	Worker		services;
	Mark		mark;
	Lease		lease;
	Backfill	backfill;
	Segments	segments;
	Clock		clock;
	StatsReset	stats_reset;
	LogThrottle log_throttles[LOG_KINDS];
	LWLock	   *lock;			/* guards who has which slot, errors, the
								 * reset, the notes of parallel workers, and
								 * what was seen of the registry */
	int			nslots;
	int			nbackends;		/* entries, one for each backend possible */
	int			nsegments;		/* entries, one for each tag possible */
	int			nprepared;		/* notes, one for each prepared transaction
								 * and one for each backend possible */
	Slot	   *slots;
	BackendEntry *backends;
	Segment    *segment_entries;
	PreparedNote *prepared;

	/*
	 * The timeline on which this data directory was that of a primary when
	 * the server was started, 0 for none; see instance.c.  Written by the
	 * postmaster before there are other processes, read only from then on.
	 */
	TimeLineID	primary_timeline;

	/* Has snowflake_horizon() been called?  Set by anyone, with no lock. */
	bool		horizon_is_used;

	/*
	 * The latest time unit that a backend has gone to, to draw there; with
	 * the logical clock at least that of server start.  Raised by anyone
	 * before an ID is taken there, read by anyone for each ID, with no lock.
	 */
	CACHE_LINE_ALIGNED pg_atomic_uint64 latest_unit;

	CACHE_LINE_ALIGNED Stats stats;
} SharedState;

/* NULL when the library was not preloaded. */
extern SharedState *shared;

#define SLOT(i)		(&shared->slots[i])
#define BACKEND(i)	(&shared->backends[i])
#define SEGMENT(i)	(&shared->segment_entries[i])

/* Set a counter to a value unless it is higher. */
static inline void
shmem_raise(pg_atomic_uint64 *counter, uint64 value)
{
	uint64		old = pg_atomic_read_u64(counter);

	while (old < value &&
		   !pg_atomic_compare_exchange_u64(counter, &old, value))
		;
}

extern void shmem_request(void);
extern bool shmem_make(void);
extern void shmem_require(const char *purpose);

/* What it says of that: full sentences, for a DETAIL and a HINT. */
extern char *preload_detail(void);
extern char *preload_hint(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SHMEM_H */
