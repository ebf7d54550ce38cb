/*-------------------------------------------------------------------------
 *
 * convert_ids.h
 *		snowflake_convert(): the IDs that there are, and the mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_IDS_H
#define SNOWFLAKE_CONVERT_IDS_H

#include "utils/timestamp.h"

#include "convert_plan.h"

#pragma GCC visibility push(hidden)

/* Read the smallest and the largest ID, descendants included. */
extern void read_ids(Conversion *plan);

/* When a time unit begins; infinity where no timestamp is that late. */
extern TimestampTz convert_unit_start(uint64 unit);

/* A time for a message. */
extern char *convert_show(TimestampTz ts);

/*
 * Plan to raise the durable mark, if that is necessary for new IDs to be above
 * the existing ones; add an error if it is not possible or not permitted.
 *
 * Every caller may raise it up to the clock, or up to the latest time issued:
 * taking an ID does that, too.  A mark ahead of both stops the whole server
 * from issuing IDs for a while, so for that the caller needs the right to
 * execute snowflake_advance().
 */
extern void plan_advance(Conversion *plan);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_IDS_H */
