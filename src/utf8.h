/*-------------------------------------------------------------------------
 *
 * utf8.h
 *		Texts that processes share, in UTF-8 because each database has an
 *		encoding, and how much of them the caller may see.
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

/* Has the caller the privileges of pg_read_all_stats? */
extern bool may_read_all_stats(void);

/*
 * The part of a message that the caller may see.  All of it with the
 * privilege; else only what comes before the first colon.  After that stands a
 * host, or what another program says.
 */
extern const char *text_shown(const char *text);

/* As much of an argument as a message quotes: "..." stands where it is cut. */
extern char *text_cut(const char *text, int len);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_UTF8_H */
