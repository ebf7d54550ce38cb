/*-------------------------------------------------------------------------
 *
 * home_guard.h
 *		Keeps logical replication away from what is in the home database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_HOME_GUARD_H
#define SNOWFLAKE_HOME_GUARD_H

#pragma GCC visibility push(hidden)

/* Has a table its triggers, in the state that they are created in?  SQL. */
#define HOME_GUARD_IS_ON(oid) \
	"(SELECT count(*) = 2 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid" \
	" WHERE t.tgrelid = " oid " AND p.prosrc = 'snowflake_home_discard'" \
	" AND t.tgenabled = CASE t.tgname WHEN 'discard_replicated' THEN 'R'::\"char\" ELSE 'A' END)"

/*
 * Give the tables of an extension their triggers, where they lack them.  Its
 * script cannot, as it is also used where this library is not.  The schema is
 * to be put before names.  In a transaction of the worker.
 */
extern void home_guard_extension(const char *extension, const char *schema);

/* Let no subscription write a sequence.  Its value stays as it is. */
extern void home_guard_sequence(const char *name);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_HOME_GUARD_H */
