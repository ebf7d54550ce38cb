/*-------------------------------------------------------------------------
 *
 * utf8.h
 *		Texts that processes share: in UTF-8, as each database has an encoding;
 *		and what the caller may see of them.
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

/* The same of a text in any encoding. */
extern const char *utf8_any_to_server(const char *text, int encoding);

/* May the caller see what other processes do and say? */
extern bool may_read_all_stats(void);

/*
 * What the caller may see of a text that says what is wrong, and after a colon
 * where, or what another program says of it: if not all, what is wrong.
 */
extern const char *text_shown(const char *text);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_UTF8_H */
