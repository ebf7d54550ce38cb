/*-------------------------------------------------------------------------
 *
 * ddl.c
 *		Run catalog queries and DDL on behalf of the caller.
 *
 * What the functions that change tables share.  They are not SECURITY DEFINER
 * and never change the user: the server's own checks are the caller's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ddl.h"

int
ddl_begin(void)
{
	int			nestlevel = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	return nestlevel;
}

void
ddl_end(int nestlevel)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(true, nestlevel);
}

void
ddl_run(const char *statement)
{
	int			result = SPI_execute(statement, false, 0);

	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s: %s",
			 SPI_result_code_string(result), statement);
}

uint64
ddl_query(const char *sql)
{
	MemoryContext caller = CurrentMemoryContext;
	int			result;

	PushActiveSnapshot(GetLatestSnapshot());
	result = SPI_execute(sql, true, 0);
	PopActiveSnapshot();
	MemoryContextSwitchTo(caller);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed: %s: %s",
			 SPI_result_code_string(result), sql);
	return SPI_processed;
}

char *
ddl_value(uint64 row, int column)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
}

Oid
ddl_value_oid(uint64 row, int column)
{
	char	   *str = ddl_value(row, column);

	return str ? atooid(str) : InvalidOid;
}

bool
ddl_value_bool(uint64 row, int column)
{
	char	   *str = ddl_value(row, column);

	return str && str[0] == 't';
}

FuncExpr *
ddl_default_call(Node *node)
{
	if (IsA(node, CoerceToDomain))
		node = (Node *) ((CoerceToDomain *) node)->arg;
	if (IsA(node, FuncExpr) &&
		(((FuncExpr *) node)->funcid == F_INT4_INT8 ||
		 ((FuncExpr *) node)->funcid == F_INT2_INT8))
		node = linitial(((FuncExpr *) node)->args);
	return IsA(node, FuncExpr) ? (FuncExpr *) node : NULL;
}

char *
ddl_plain_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return name;
}

char *
ddl_name(Oid relid)
{
	char	   *name = ddl_plain_name(relid);

	return quote_qualified_identifier(get_namespace_name_or_temp(get_rel_namespace(relid)),
									  name);
}

void
ddl_require_owner(Oid relid)
{
	char	   *name = ddl_plain_name(relid);

	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}
