/*-------------------------------------------------------------------------
 *
 * utf8.h
 *		Texts that processes share: in UTF-8, as each database has an encoding.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_UTF8_H
#define SNOWFLAKE_UTF8_H

#pragma GCC visibility push(hidden)

/* As much as fits, in whole characters. */
extern void utf8_copy(char *to, Size size, const char *utf8);

/* In the encoding of this database, for a message or a view. */
extern const char *utf8_to_server(const char *utf8);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_UTF8_H */
