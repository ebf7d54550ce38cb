/*-------------------------------------------------------------------------
 *
 * open_draws.h
 *		The transactions that have drawn IDs and have not ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_OPEN_DRAWS_H
#define SNOWFLAKE_OPEN_DRAWS_H

#include "shmem.h"

#pragma GCC visibility push(hidden)

/*
 * This transaction is about to draw its first ID, in this time unit or later.
 * Before the ID is taken by compare-and-swap.
 */
extern void open_draws_note(uint64 unit);

/* One of them */
typedef struct OpenDraw
{
	uint64		unit;			/* it has drawn no ID below; 0: not known */
	int			pid;			/* 0: it is prepared */
	TransactionId xid;			/* if prepared */
} OpenDraw;

/*
 * The one whose first ID may be the lowest: in a database, or in all if that is
 * InvalidOid, and not this process's own.  Returns false where there is none
 * that may have drawn below a time unit.
 */
extern bool open_draws_oldest(Oid database, uint64 below, OpenDraw *oldest);

extern void open_draws_init_shmem(void);

/* In the postmaster */
extern void open_draws_register(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_OPEN_DRAWS_H */
