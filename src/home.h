/*-------------------------------------------------------------------------
 *
 * home.h
 *		Transactions of the background workers in the home database, and what
 *		keeps its objects out of logical replication.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_HOME_H
#define SNOWFLAKE_HOME_H

#pragma GCC visibility push(hidden)

/* The extension with what is kept there, and its schema. */
#define HOME_EXTENSION "snowflake_home"

/* Connect; once.  Ends the process where that fails. */
extern void home_connect(void);

/*
 * Begin a transaction; the activity is for pg_stat_activity.  Commit it, and
 * wait until that is durable wherever it has to be.  From the first to the
 * second is bounded in time, else ERROR.  worker_attempt() calls home_abort()
 * after an error.
 */
extern void home_begin(const char *activity);
extern void home_commit(void);
extern void home_abort(void);

/*
 * The same at the end of the process, for what need not succeed: it waits
 * neither for the disk, nor for a standby, nor for a lock on the table.  False
 * where that is locked, or missing; to be ended all the same.
 */
extern bool home_begin_at_exit(const char *activity, const char *table);
extern void home_end_at_exit(void);

/* Is the extension there?  Create it, if not. */
extern bool home_exists(void);
extern void home_create(void);

/*
 * Run a statement, as a format: for numbers, and texts that are quoted.
 * Returns the number of rows.
 */
#define home_run(...) home_run_plain(psprintf(__VA_ARGS__))
#define home_run_plain(sql) home_run_texts(sql, 0, NULL)

/* Run a statement whose parameters are all of type text; NULL for null. */
extern uint64 home_run_texts(const char *sql, int nparams, const char *const *values);

/* Run a statement that event triggers have no part in. */
extern void home_run_ddl(const char *sql);

/* A column of the first row, by its number or name; an ERROR when it is null. */
extern Datum home_result(int column);
extern Datum home_value(const char *column);

/* Has a table its triggers, in the state that they are created in?  SQL. */
#define HOME_GUARD_IS_ON(oid) \
	"(SELECT count(*) = 2 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid" \
	" WHERE t.tgrelid = " oid " AND p.prosrc = 'snowflake_home_discard'" \
	" AND t.tgenabled = CASE t.tgname WHEN 'discard_replicated' THEN 'R'::\"char\" ELSE 'A' END)"

/*
 * Give the tables of an extension their triggers, where they lack them.  Its
 * script cannot, as it is also used where this library is not.  The schema is
 * to be put before names.
 */
extern void home_guard_extension(const char *extension, const char *schema);

/* Let no subscription write a sequence.  Its value stays as it is. */
extern void home_guard_sequence(const char *name);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_HOME_H */
