/*-------------------------------------------------------------------------
 *
 * preload.h
 *		What to do where the library is not preloaded.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PRELOAD_H
#define SNOWFLAKE_PRELOAD_H

#pragma GCC visibility push(hidden)

/* Full sentences, for a DETAIL and a HINT. */
extern char *preload_detail(void);
extern char *preload_hint(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PRELOAD_H */
