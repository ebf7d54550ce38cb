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

extern int	slots_acquire(void);

#endif							/* SNOWFLAKE_SLOTS_H */
