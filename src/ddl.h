/*-------------------------------------------------------------------------
 *
 * ddl.h
 *		Run catalog queries and DDL on behalf of the caller.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_DDL_H
#define SNOWFLAKE_DDL_H

#include "nodes/primnodes.h"

#pragma GCC visibility push(hidden)

/*
 * Between ddl_begin() and ddl_end() there is an SPI connection, and the
 * search path is the catalog and the temporary schema only, so that nothing
 * that others have put elsewhere is found by a name; statements qualify all
 * names.  An error cleans up both, with the transaction.
 */
extern int	ddl_begin(void);
extern void ddl_end(int nestlevel);

/* Run a statement, or raise its error.  For DDL. */
extern void ddl_run(const char *statement);

/*
 * Run a query that only reads.  It sees what was committed by now, whatever
 * the isolation level.  Returns the number of rows.
 */
extern uint64 ddl_query(const char *sql);

/*
 * A column, from 1, of a row of its result, from 0: as text, NULL where it is
 * null; as an OID, InvalidOid where it is; as a boolean, false where it is.
 */
extern char *ddl_value(uint64 row, int column);
extern Oid	ddl_value_oid(uint64 row, int column);
extern bool ddl_value_bool(uint64 row, int column);

/*
 * The function call that a default is, NULL when it is something else.  In a
 * smallint or integer column, or one of a domain, there is a cast around it.
 */
extern FuncExpr *ddl_default_call(Node *node);

/*
 * A relation's name: for a message, and for a statement, with its schema and
 * quotes.  An ERROR when there is no such relation (any more).
 */
extern char *ddl_plain_name(Oid relid);
extern char *ddl_name(Oid relid);

/*
 * Raise an ERROR unless the caller owns the relation, as its owner, as a
 * member of that role, or as a superuser.  To be called before the relation
 * is locked.
 */
extern void ddl_require_owner(Oid relid);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_DDL_H */
