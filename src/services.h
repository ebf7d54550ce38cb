/*-------------------------------------------------------------------------
 *
 * services.h
 *		The background worker that serves what is not the mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SERVICES_H
#define SNOWFLAKE_SERVICES_H

#pragma GCC visibility push(hidden)

extern void services_register(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SERVICES_H */
