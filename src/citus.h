/*-------------------------------------------------------------------------
 *
 * citus.h
 *		What to know of tables that Citus has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CITUS_H
#define SNOWFLAKE_CITUS_H

#pragma GCC visibility push(hidden)

/* Is Citus in this database? */
extern bool citus_is_here(void);

/* A condition of SQL: Citus has the table with this OID, and its rows elsewhere. */
extern const char *citus_condition(const char *oid);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CITUS_H */
