/*-------------------------------------------------------------------------
 *
 * settings.h
 *		The settings of the extension (GUCs, prefix "snowflake.").
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SETTINGS_H
#define SNOWFLAKE_SETTINGS_H

#include "datatype/timestamp.h"

#include "layout.h"

#pragma GCC visibility push(hidden)

/* What an ID's time goes by; see clock.c. */
typedef enum ClockMode
{
	CLOCK_MODE_SYSTEM,
	CLOCK_MODE_MONOTONIC,		/* its steps never show; NewLife */
	CLOCK_MODE_LOGICAL			/* driven by the IDs drawn; Seata */
} ClockMode;

/* The first sequence number of a new time unit. */
typedef enum SequenceStart
{
	SEQUENCE_START_ZERO,
	SEQUENCE_START_CONTINUE,	/* one past the last; NewLife */
	SEQUENCE_START_RANDOM		/* 0 to sequence_start_max; Leaf */
} SequenceStart;

/* What to do where the server's clock differs too much from the others'. */
typedef enum SkewAction
{
	SKEW_WARN,
	SKEW_STOP
} SkewAction;

#define NODE_ID_UNSET			(-1)
#define CLOCK_SKEW_ANY			(-1)	/* no matter how much */
#define SEQUENCE_START_MAX_AUTO	(-1)	/* by the sequence field */

extern int	snowflake_node_id;	/* NODE_ID_UNSET, or within the node field */
extern TimestampTz snowflake_epoch;
extern Layout snowflake_layout;
extern const char *snowflake_layout_text;	/* as the user wrote it, or as its
											 * dialect has it */
extern int	snowflake_clock;	/* a ClockMode */
extern int	snowflake_max_drift;	/* ms */
extern int	snowflake_max_wait; /* ms */
extern int	snowflake_sequence_start;	/* a SequenceStart */
extern int	snowflake_sequence_start_max;	/* SEQUENCE_START_MAX_AUTO, or a
											 * sequence number */
extern char *snowflake_database;
extern int	snowflake_reserve_window;	/* ms */
extern char *snowflake_registry;	/* conninfo, '' for none */
extern int	snowflake_lease_ttl;	/* ms */
extern int	snowflake_max_clock_skew;	/* ms, CLOCK_SKEW_ANY */
extern int	snowflake_clock_skew_action;	/* a SkewAction */
extern int	snowflake_max_segment_tags;

/*
 * Was the library preloaded?  Then layout, epoch and others are what they are
 * until the server stops; else a reload changes them in a running session.
 */
extern bool snowflake_settings_fixed;

/*
 * From the server's timestamps to microseconds since 1970-01-01 UTC, as marks
 * and dialects have them.
 */
#define UNIX_EPOCH_US	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* What is asked of them most. */
#define SEQUENCE_BITS	(snowflake_layout.bits[FIELD_SEQUENCE])
#define SEQUENCE_MASK	(snowflake_layout.max[FIELD_SEQUENCE])
#define MAX_TIME		(snowflake_layout.max[FIELD_TIME])
#define MAX_DRIFT_US	(snowflake_max_drift * INT64CONST(1000))
#define LEASE_TTL_US	(snowflake_lease_ttl * INT64CONST(1000))

extern void settings_define(void);

/* What to do where the server has no number: a HINT. */
extern char *settings_node_id_hint(void);

/*
 * Why the server would not start with what the files have now: ErrorData, with
 * file and line in the message, a hint, and perhaps a detail.  Only of a server
 * that has the library preloaded.
 */
extern struct List *settings_file_errors(void);

/* Write them to the server's log. */
extern void settings_file_log(void);

/* Is the node number not configured, and so one that only a lease can give? */
static inline bool
settings_need_lease(void)
{
	return snowflake_node_id == NODE_ID_UNSET &&
		snowflake_layout.bits[FIELD_NODE] > 0;
}

/*
 * Worker numbers in use at most.  A wider worker field is allowed; numbers
 * from here on are never drawn.  Each takes a cache line.
 */
#define MAX_SLOTS 4096

/*
 * The worker number that is not for drawing: it is for snowflake_backfill()
 * (backfill.c).  Only where there is a worker field.
 */
static inline uint64
settings_backfill_worker(void)
{
	return snowflake_layout.max[FIELD_WORKER];
}

/* Worker numbers in use, from 0, one slot each: all but that one. */
static inline int
settings_slots(void)
{
	uint64		backfill_worker = settings_backfill_worker();

	if (backfill_worker == 0)
		return 1;				/* no worker field */
	return backfill_worker < MAX_SLOTS ? (int) backfill_worker : MAX_SLOTS;
}

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SETTINGS_H */
