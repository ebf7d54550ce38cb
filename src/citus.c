/*-------------------------------------------------------------------------
 *
 * citus.c
 *		What to know of tables that Citus has: distributed and reference tables,
 *		and local ones that it knows.
 *
 * The rows of such a table are in shards, which are tables of other names, on
 * any of its servers.  The table itself is empty, and what is read from it
 * other than by a query says nothing.
 *
 * Nothing of Citus is needed to build this: what it knows is in a catalog.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_namespace.h"
#include "utils/lsyscache.h"

#include "citus.h"

bool
citus_is_here(void)
{
	return OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE));
}

const char *
citus_condition(const char *oid)
{
	return citus_is_here() ?
		psprintf("EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = %s)", oid) :
		"false";
}
