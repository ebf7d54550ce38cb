/*-------------------------------------------------------------------------
 *
 * instance.h
 *		Tells this server from copies of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_INSTANCE_H
#define SNOWFLAKE_INSTANCE_H

#pragma GCC visibility push(hidden)

extern const char *instance_text(void);
extern int64 instance_number(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_INSTANCE_H */
