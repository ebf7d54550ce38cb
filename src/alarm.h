/*-------------------------------------------------------------------------
 *
 * alarm.h
 *		Lines for the server's log that must not fill it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ALARM_H
#define SNOWFLAKE_ALARM_H

#include "shmem.h"

#pragma GCC visibility push(hidden)

/*
 * May a line of this kind be written now?  True once a minute, over all
 * backends; then the caller has to write it.  Sets how many were left out
 * since the last one.
 */
extern bool alarm_is_due(AlarmKind kind, uint64 *left_out);

/* That as a sentence to follow another one; '' for none. */
extern const char *alarm_left_out(uint64 left_out);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_ALARM_H */
