/*-------------------------------------------------------------------------
 *
 * check_rows.h
 *		snowflake_check(): what its parts share, and those that have a file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CHECK_ROWS_H
#define SNOWFLAKE_CHECK_ROWS_H

#include "nodes/execnodes.h"
#include "utils/timestamp.h"

#pragma GCC visibility push(hidden)

/*
 * What the checks go by, read once, so that they agree; and where their rows
 * go: into a result, or of those with the status "error" the first one here.
 */
typedef struct CheckState
{
	ReturnSetInfo *rsinfo;		/* the result, or NULL: */
	const char *error;			/* then the error's detail, NULL for none */
	Oid			schema;			/* of this extension */
	const char *check;			/* the one at work */
	int			nrows;			/* that it has added */
	TimestampTz now;			/* the clock */
	int64		unit;			/* its time unit, also out of the lifetime */
	uint64		earliest;		/* no ID is drawn before this unit */
} CheckState;

/* Microseconds as milliseconds, rounded up. */
static inline int64
check_in_ms(int64 us)
{
	return us > 0 ? (us - 1) / 1000 + 1 : us / 1000;
}

/* How far the durable mark is ahead of the clock at most, in microseconds. */
extern int64 check_mark_bound_us(void);

/*
 * Add a row to the result; the second one with a format.  The detail must last
 * as long as the result.
 */
extern void check_row(CheckState *state, const char *status, const char *detail);
#define check_say(state, status, ...) check_row(state, status, psprintf(__VA_ARGS__))

/*
 * Call a function with an argument.  Returns what it failed with, NULL when
 * it did not.  To be cancelled, or out of memory, remains an ERROR.
 */
extern char *check_try(void (*function) (CheckState *state, void *arg),
					   CheckState *state, void *arg);

/*
 * Between check_begin() and check_end() there is an SPI connection, and the
 * search path is the catalog and the temporary schema only, so that nothing
 * that others have put elsewhere is found by a name.  An error cleans up both,
 * with the transaction.  The memory context stays the caller's.
 *
 * check_query() sees what was committed by now, whatever the isolation level.
 * Returns the number of rows.  A value is of a row, from 0, and a column, from
 * 1: as text, NULL where it is null; as a boolean, false where it is.
 */
extern int	check_begin(void);
extern void check_end(int nestlevel);
extern int	check_query(const char *sql);
extern char *check_value(int row, int column);
extern bool check_value_bool(int row, int column);

/*
 * Query a function of install/check.sql.  It runs with the caller's rights, so
 * it must be the extension's: where that is not, others can have made one.
 */
extern int	check_query_own(const char *columns, const char *call);

/* Add the rows of a check that is such a function. */
extern void check_call(CheckState *state, const char *call);

/* The columns that draw IDs by default, and the last IDs in them. */
extern void check_tables(CheckState *state);

/*
 * On a standby, the checks "clock" and "mark"; and the number that its primary
 * has drawn with, as text, NULL for none.
 */
extern void check_standby_clock(CheckState *state);
extern void check_standby_mark(CheckState *state);
extern char *check_standby_node(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CHECK_ROWS_H */
