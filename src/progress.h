/*-------------------------------------------------------------------------
 *
 * progress.h
 *		Tell the caller of a function that takes long how far it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PROGRESS_H
#define SNOWFLAKE_PROGRESS_H

#include "portability/instr_time.h"

#pragma GCC visibility push(hidden)

typedef struct Progress
{
	instr_time	start;
	double		told;			/* seconds after the start */
} Progress;

extern void progress_start(Progress *progress);

/*
 * Is it time for a NOTICE?  That is every 5 seconds, the first time 5 seconds
 * after the start.
 */
extern bool progress_due(Progress *progress);

/* How much longer it takes, for a message, if it goes on as up to now. */
extern char *progress_left(Progress *progress, int64 done, int64 total);

/* A time in seconds, for a message. */
extern char *progress_duration(double seconds);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PROGRESS_H */
