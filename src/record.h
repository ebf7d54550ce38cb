/*-------------------------------------------------------------------------
 *
 * record.h
 *		Layout, epoch and node number as recorded beside the durable mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_RECORD_H
#define SNOWFLAKE_RECORD_H

#include "access/xlogdefs.h"

#pragma GCC visibility push(hidden)

/*
 * For the mark writer, in its transaction.  has_home: the home database has
 * its extension.
 */

/*
 * Raise an ERROR when what is recorded does not allow to issue IDs; with
 * "accept", record the configuration instead.  Returns false when nothing is
 * recorded; sets whether other databases know of a mark here nevertheless.
 */
extern bool record_check(bool has_home, bool accept, bool *is_known);

/* What to do then, of what is recorded: a HINT. */
extern char *record_hint(const char *layout, const char *epoch);

/* Record the configuration. */
extern void record_write(void);

/* For the services: bring up to date what issuing IDs need not wait for. */
extern bool record_is_due(void);
extern void record_serve(void);

/*
 * This server was promoted, and has the number that it had before; "before" is
 * Mark.confirmed_before.  DETAIL and HINT.
 */
extern char *record_promoted_detail(TimeLineID before);
#define RECORD_PROMOTED_HINT \
	"Make sure that no such server draws IDs, or that it has another number, and that this server's clock is right. Then call snowflake_confirm_node()."

/*
 * Record, durably, that no other server draws with this number.  Waits for the
 * services, up to max_wait, else ERROR.
 */
extern void record_confirm(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_RECORD_H */
