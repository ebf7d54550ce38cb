/*-------------------------------------------------------------------------
 *
 * slots.h
 *		Give worker slots to backends and take them back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SLOTS_H
#define SNOWFLAKE_SLOTS_H

#include "shmem.h"

#pragma GCC visibility push(hidden)

extern int	slots_acquire(void);
extern void slots_count_drawn(BackendEntry *me);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SLOTS_H */
