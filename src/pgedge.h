/*-------------------------------------------------------------------------
 *
 * pgedge.h
 *		The other extension of the same name, pgEdge's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PGEDGE_H
#define SNOWFLAKE_PGEDGE_H

#include "nodes/nodes.h"

#pragma GCC visibility push(hidden)

/*
 * ERROR where a statement is to create or update the extension "snowflake" and
 * the database has pgEdge's.
 */
extern void pgedge_check_statement(Node *statement);

/* WARNING where its setting is configured; before the prefix is reserved. */
extern void pgedge_check_setting(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_PGEDGE_H */
