/*-------------------------------------------------------------------------
 *
 * other_extensions.h
 *		Other extensions in the same database: pgEdge's of the same name, and
 *		Citus.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_OTHER_EXTENSIONS_H
#define SNOWFLAKE_OTHER_EXTENSIONS_H

#include "nodes/nodes.h"

#pragma GCC visibility push(hidden)

/*
 * ERROR where a statement is to create or update the extension "snowflake" and
 * the database has pgEdge's.
 */
extern void pgedge_check_statement(Node *statement);

/* WARNING where its setting is configured; before the prefix is reserved. */
extern void pgedge_check_setting(void);

/* Is Citus in this database? */
extern bool citus_is_here(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_OTHER_EXTENSIONS_H */
