/*-------------------------------------------------------------------------
 *
 * other_extensions.c
 *		Other extensions in the same database: pgEdge's, which has the name of
 *		this one, and Citus.
 *
 * pgEdge's extension has the library "snowflake" too.  So installing one of
 * them takes the other away from the databases that have it, and the functions
 * here say what happened.  (The other way round, the install script says it.)
 *
 * The rows of a table that Citus has are in shards: tables of other names, on
 * any of its servers.  The table itself is empty, and what is read from it
 * other than by a query says nothing.  So it is for distributed and reference
 * tables, and for local ones that Citus knows.  Nothing of Citus is needed to
 * build this: what it knows is in a catalog.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "parser/parse_func.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "other_extensions.h"

#define HOW_TO_MOVE \
	"The steps are in docs/converting.md, under \"Coming from pgEdge's extension of the same name\"."

/*
 * Is the extension "snowflake" of this database pgEdge's?  It has a function
 * that ours, which goes by longer names, has not.
 */
static bool
is_installed(void)
{
	Oid			extension = get_extension_oid("snowflake", true);
	Oid			argtype = REGCLASSOID;
	Oid			function;

	if (!OidIsValid(extension))
		return false;
	function = LookupFuncName(list_make2(makeString("snowflake"), makeString("nextval")),
							  1, &argtype, true);
	return getExtensionOfObject(ProcedureRelationId, function) == extension;
}

void
pgedge_check_statement(Node *statement)
{
	const char *extension = NULL;

	if (IsA(statement, CreateExtensionStmt))
		extension = ((CreateExtensionStmt *) statement)->extname;
	else if (IsA(statement, AlterExtensionStmt))
		extension = ((AlterExtensionStmt *) statement)->extname;

	if (extension != NULL && strcmp(extension, "snowflake") == 0 &&
		is_installed())
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("this database has another extension \"snowflake\", pgEdge's"),
				 errdetail("It is not an older version of the one that is installed on this server, and its library is gone."),
				 errhint(HOW_TO_MOVE)));
}

void
pgedge_check_setting(void)
{
	if (GetConfigOption("snowflake.node", true, false) != NULL)
		ereport(WARNING,
				(errmsg("\"snowflake.node\" is a setting of pgEdge's extension of the same name, and is not read"),
				 errhint("Remove it, and set this server's number with \"snowflake.node_id\".")));
}

/*
 * The functions in pgEdge's library.  None of ours may have their names: they
 * would be called with other arguments.
 */
#define PGEDGE_FUNCTION(name) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		ereport(ERROR, \
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), \
				 errmsg("function %s is of pgEdge's extension \"snowflake\", whose library is gone", \
						format_procedure(fcinfo->flinfo->fn_oid)), \
				 errdetail("This server has another extension of the same name."), \
				 errhint(HOW_TO_MOVE))); \
		PG_RETURN_NULL(); \
	}

PGEDGE_FUNCTION(snowflake_nextval)
PGEDGE_FUNCTION(snowflake_currval)
PGEDGE_FUNCTION(snowflake_get_epoch)
PGEDGE_FUNCTION(snowflake_get_count)
PGEDGE_FUNCTION(snowflake_get_node)

bool
citus_is_here(void)
{
	return OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE));
}
