/*-------------------------------------------------------------------------
 *
 * registry.h
 *		Asking the registry for a node number, again and again.
 *
 * For the background worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

#include "link.h"

#pragma GCC visibility push(hidden)

extern Link registry_link;

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_REGISTRY_H */
