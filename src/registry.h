/*-------------------------------------------------------------------------
 *
 * registry.h
 *		Asking the registry for a node number, again and again.
 *
 * For the background worker.  Nothing here waits for the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

#include "storage/latch.h"

#pragma GCC visibility push(hidden)

/*
 * What to wait for before registry_serve() is to be called again: events of
 * a socket, PGINVALID_SOCKET for none, and a time in ms, -1 for none.
 */
typedef struct RegistryWait
{
	pgsocket	socket;
	int			events;
	long		timeout_ms;
} RegistryWait;

/* Do what can be done now.  Raises an ERROR when the home database fails. */
extern void registry_serve(void);

extern void registry_wait(RegistryWait *wait);

/* One of these events has come. */
extern void registry_is_ready(void);

/* It has failed with an ERROR: let some time pass. */
extern void registry_pause(void);

/* The setting has changed. */
extern void registry_reload(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_REGISTRY_H */
