/*-------------------------------------------------------------------------
 *
 * home_guard.h
 *		Keeps logical replication away from the tables of the home database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_HOME_GUARD_H
#define SNOWFLAKE_HOME_GUARD_H

#pragma GCC visibility push(hidden)

/*
 * Give the tables of an extension their triggers, where they lack them.  Its
 * script cannot, as it is also used where this library is not.  The schema is
 * to be put before names.  In a transaction of the worker.
 */
extern void home_guard_extension(const char *extension, const char *schema);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_HOME_GUARD_H */
