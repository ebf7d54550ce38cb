/*-------------------------------------------------------------------------
 *
 * worker.h
 *		The background worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_WORKER_H
#define SNOWFLAKE_WORKER_H

#pragma GCC visibility push(hidden)

extern void worker_register(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_WORKER_H */
