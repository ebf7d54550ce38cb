/*-------------------------------------------------------------------------
 *
 * generator.h
 *		Draw IDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

#pragma GCC visibility push(hidden)

/* Raise an ERROR unless this server may issue IDs at all. */
extern void generator_require(void);

/*
 * Take between 1 and want (at least 1) IDs in one step.  They are first,
 * first + generator_step(), and so on, all of one time unit and one worker;
 * returns how many.  Raises an ERROR when none may be issued.
 */
extern uint64 generator_take(uint64 want, int64 *first);
extern int64 generator_step(void);

/*
 * Let this backend draw from worker numbers below this only, from now on until
 * it ends.  Its IDs go on increasing, unless the worker field is above the
 * time in the layout.
 */
extern void generator_stay_below(int nslots);

/*
 * The last ID that this backend handed out; snowflake_currval().  "alone"
 * tells an ID of snowflake_nextval() from one of a set.
 */
extern void generator_set_current(int64 id, bool alone);
extern bool generator_get_current(int64 *id);
extern void generator_forget_current(void);

/* Has this backend already handed out an ID above this one, alone? */
extern bool generator_has_passed(int64 id);

/* The first values in shared memory. */
extern void generator_init_shmem(void);

/*
 * A time unit below which no ID is drawn from now on, whatever happens to the
 * server; 0 where nothing is reserved.  All that was drawn so far is below, but
 * for IDs of the present time unit and those ahead of the clock; with the
 * logical clock, all.
 */
extern uint64 generator_horizon(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_GENERATOR_H */
