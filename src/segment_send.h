/*-------------------------------------------------------------------------
 *
 * segment_send.h
 *		Sends requests for segments to the registry, or to the home database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SEGMENT_SEND_H
#define SNOWFLAKE_SEGMENT_SEND_H

#include "registry_link.h"

#pragma GCC visibility push(hidden)

/* The connection to the registry for segments. */
extern RegistryLink segment_link;

/*
 * When the home database is to be asked for something, on the steady clock;
 * PG_INT64_MAX for not at all.
 */
extern int64 segment_due_at_home(void);

/*
 * Ask it.  Raises an ERROR when that fails, after having told the sessions
 * that wait.
 */
extern void segment_serve_at_home(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SEGMENT_SEND_H */
