/*-------------------------------------------------------------------------
 *
 * dialect.h
 *		Named layouts of well-known generators.
 *
 * Pure C, as layout.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_DIALECT_H
#define SNOWFLAKE_DIALECT_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/*
 * An original with unsigned numbers of 64 bits has one bit more in its time
 * field, the topmost; a bigint holds its IDs as long as that is 0.
 */
typedef struct Dialect
{
	const char *name;
	const char *layout;			/* for layout_parse() */
	int64_t		epoch_ms;		/* since 1970-01-01 UTC */
	bool		is_unsigned;
	const char *description;
} Dialect;

/* All of them; the last has no name. */
extern const Dialect dialects[];

/* The one with a name, or NULL. */
extern const Dialect *dialect_find(const char *name);

/* As layout_parse(), of a text that may also be the name of a dialect. */
extern bool dialect_or_layout_parse(const char *str, Layout *layout,
									LayoutError *error);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_DIALECT_H */
