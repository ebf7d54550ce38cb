/*-------------------------------------------------------------------------
 *
 * parse.h
 *		What the functions that take an ID share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PARSE_H
#define SNOWFLAKE_PARSE_H

#include "fmgr.h"
#include "utils/timestamp.h"

#include "dialect.h"
#include "layout.h"

#pragma GCC visibility push(hidden)

/* The ID, or an ERROR when it is none of this server's layout. */
extern int64 parse_check(int64 id);

/* What the bits of an ID mean. */
typedef struct Meaning
{
	const Layout *layout;
	const char *layout_text;
	TimestampTz epoch;
	const Dialect *dialect;		/* NULL when it is not read by a name */
} Meaning;

/* As this server's, and as those of a dialect, whose layout was parsed. */
extern Meaning parse_own(void);
extern Meaning parse_by_dialect(const Dialect *dialect, const Layout *layout);

/* Raise an ERROR for an ID that is none of the layout. */
extern void parse_check_by(const Meaning *meaning, int64 id);

/*
 * What arguments say: the dialect of a name, a layout, an epoch; or an ERROR
 * that has all the names, or the reason.
 */
extern const Dialect *parse_dialect(const char *name);
extern void parse_layout(const char *layout_text, Layout *layout);
extern TimestampTz parse_epoch(FunctionCallInfo fcinfo, int argno);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PARSE_H */
