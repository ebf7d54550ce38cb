/*-------------------------------------------------------------------------
 *
 * mark_writer.h
 *		The background worker that alone writes the durable mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MARK_WRITER_H
#define SNOWFLAKE_MARK_WRITER_H

#pragma GCC visibility push(hidden)

extern void mark_writer_register(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_MARK_WRITER_H */
