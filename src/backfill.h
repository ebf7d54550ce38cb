/*-------------------------------------------------------------------------
 *
 * backfill.h
 *		Unique IDs at past times.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_BACKFILL_H
#define SNOWFLAKE_BACKFILL_H

#pragma GCC visibility push(hidden)

/*
 * Draw an ID of a time unit, which must be within the layout's lifetime, from
 * the worker number that is kept for this.  Raises an ERROR when the unit has
 * none left, when the layout has no worker field, or when none may be issued.
 * May wait for the services, up to max_wait, and can be interrupted.
 */
extern int64 backfill_draw(uint64 unit);

/*
 * Draw no sequence number below this one any more, in any time unit, durably.
 * Waits for the services, up to max_wait, else ERROR.
 */
extern void backfill_advance(uint64 number);

/*
 * For who accepts another layout or epoch, in a transaction of the home database.
 * The time unit after all that have backfilled IDs, PG_UINT64_MAX where that is
 * not known.  And keep in mind that units of this layout before "end" may have
 * IDs of a former one: where these are not in the same units, backfill no such
 * unit any more.
 */
extern uint64 backfill_end(void);
extern void backfill_accept(uint64 end, bool same_ids);

/*
 * For the services: when to do what is asked for, 0 for now and PG_INT64_MAX
 * for nothing; do it, and forget it after that has failed.  Sessions that
 * still wait ask again.
 */
extern int64 backfill_due(void);
extern void backfill_serve(void);
extern void backfill_abandon(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_BACKFILL_H */
