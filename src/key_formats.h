/*-------------------------------------------------------------------------
 *
 * key_formats.h
 *		The formats of business keys, as the table has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_KEY_FORMATS_H
#define SNOWFLAKE_KEY_FORMATS_H

#include "nodes/pg_list.h"
#include "pgtime.h"
#include "utils/timestamp.h"

#include "key.h"

#pragma GCC visibility push(hidden)

/* A row. */
typedef struct FormatRow
{
	const char *name;
	KeyFormat	key;
	int64		tables;			/* over all databases */
	bool		by_hash;		/* how texts are routed */
	int			workers;		/* worker numbers below are drawn from */
	const char *zone_name;
	pg_tz	   *zone;			/* NULL for UTC */
	const char *problem;		/* why this server cannot use it, or NULL */
} FormatRow;

/* The rows of now: FormatRow.  They last until they are asked for again. */
extern const List *formats_read(void);

/* The row of a name, or an ERROR, also when this server cannot use it. */
extern const FormatRow *formats_find(const List *formats, const char *name, int len);

/* Raise an ERROR when this server cannot use it. */
extern void format_require_usable(const FormatRow *format);

/* How far a format's clock is ahead of UTC then, in seconds. */
extern int64 format_offset(const FormatRow *format, TimestampTz ts);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_KEY_FORMATS_H */
