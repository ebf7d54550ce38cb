/*-------------------------------------------------------------------------
 *
 * instance.h
 *		Tells this server from copies of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_INSTANCE_H
#define SNOWFLAKE_INSTANCE_H

#include "access/xlogdefs.h"

#pragma GCC visibility push(hidden)

/* For the postmaster, before it starts the first process. */
extern void instance_note_start(void);

/*
 * Is this the data directory of a primary on this timeline, which has lost
 * nothing since?
 */
extern bool instance_goes_on(TimeLineID timeline);

extern const char *instance_text(void);
extern int64 instance_number(void);

/* The name of the machine, container or pod, "?" where that cannot be known. */
extern const char *instance_host(void);

/*
 * A random name for this start of the server, a uuid, where it has none yet:
 * the text there is ''.
 */
extern void instance_name_start(char *name, size_t size);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_INSTANCE_H */
