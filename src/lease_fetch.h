/*-------------------------------------------------------------------------
 *
 * lease_fetch.h
 *		Asking the registry for a node number, again and again.
 *
 * For the services.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LEASE_FETCH_H
#define SNOWFLAKE_LEASE_FETCH_H

#include "registry_link.h"

#pragma GCC visibility push(hidden)

extern RegistryLink lease_link;

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_LEASE_FETCH_H */
