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

#include "shmem.h"

#pragma GCC visibility push(hidden)

/*
 * For the mark writer, in its transaction.  Raise an ERROR when what is recorded
 * does not allow to issue IDs above a mark, 0 for an empty one.  With "accept",
 * record the configuration instead, and begin anew where nothing is recorded.  A
 * floor, of one kind or another, lets begin anew without a mark.  has_home: the
 * home database has its extension.  Returns whether it is recorded.
 */
extern bool record_check(bool has_home, int64 mark_us, bool accept, MarkFloor floor);

/*
 * SQL for what databases say of a durable mark: the database's name, what it
 * says, whether that is of this server, and whether the database is the home
 * database.  What counts most comes first.
 */
extern char *record_pointers(void);

/*
 * Does a database say that it has the mark of this server, or, while that was not
 * found, of any?
 */
extern bool record_points_at(Oid database);

/* What the home database says when the configuration is recorded there. */
extern char *record_pointer_text(void);

/*
 * The mark of dumps that were restored while the library was not preloaded, in
 * microseconds since 1970-01-01 UTC; 0 for none.
 */
extern int64 record_restored(void);

/* What to do where the mark is lost: a HINT. */
#define RECORD_LOST_HINT \
	"Call snowflake_advance() with the largest ID that this server has drawn: IDs go on above it."

/* What to do then, of what is recorded: a HINT. */
extern char *record_hint(const char *layout, const char *epoch);

/* Record the configuration. */
extern void record_write(void);

/* Let other databases see that the mark is here. */
extern void record_point(void);

/* For the services: bring up to date what issuing IDs need not wait for. */
extern int64 record_due(void);
extern void record_serve(void);

/* Where Mark.confirmed_before, "before", is set: DETAIL and HINT. */
extern char *record_promoted_detail(TimeLineID before);
#define RECORD_PROMOTED_HINT \
	"Make sure that no other server draws IDs with this node number, and that this server's clock is right. Then call snowflake_confirm_node()."

/*
 * Record, durably, that no other server draws with this number.  Waits for the
 * services, up to max_wait, else ERROR.
 */
extern void record_confirm(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_RECORD_H */
