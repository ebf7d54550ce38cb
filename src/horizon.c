/*-------------------------------------------------------------------------
 *
 * horizon.c
 *		snowflake_horizon(), for readers that poll.
 *
 * Take a row of this database whose ID was drawn by this server, in the
 * transaction that inserted the row.  If the ID is below the horizon, each
 * snapshot taken after the call sees the row, or the row will never be there:
 *
 *	1. The words of all slots are raised to a time unit (generator.c).  No ID is
 *	   drawn below from then on, wherever a process was stopped and whatever the
 *	   clock does; nor after a crash, as the unit is not above the limit, and so
 *	   not above the durable mark.
 *	2. Then the transactions are looked at that have drawn below and have not
 *	   ended (open_draws.c); the horizon is the beginning of the earliest time
 *	   unit in which one of them did, if there are any.
 *
 * It draws nothing and writes nothing but the words.
 *
 * The snapshot has to be taken afterwards.  That of the statement in which the
 * function is called is older, and so is each one in a transaction with only
 * one snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "parser/parsetree.h"

#include "args.h"
#include "clock.h"
#include "generator.h"
#include "open_draws.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_horizon);
PG_FUNCTION_INFO_V1(snowflake_horizon_support);

#define TWO_STATEMENTS \
	"Run two statements in READ COMMITTED: SELECT snowflake_horizon(), and then SELECT ... WHERE id > $1 AND id < $2 ORDER BY id, with the last ID that was read and the horizon."

/* snowflake_horizon() */
Datum
snowflake_horizon(PG_FUNCTION_ARGS)
{
	OpenDraw	oldest;
	uint64		unit;

	shmem_require("know the horizon of IDs");
	ids_require_order("A horizon needs a layout that begins with the time. Read by another column.");
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby does not know the horizon of snowflake IDs"),
				 errdetail("Only the primary server knows which transactions have drawn IDs."),
				 errhint("Read from the primary server. The connection option target_session_attrs=read-write finds it among several hosts.")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("snowflake_horizon() needs the isolation level READ COMMITTED"),
				 errdetail("The snapshot of this transaction is older than the horizon, so rows below the horizon can be missing."),
				 errhint(TWO_STATEMENTS)));

	shared->horizon_is_used = true;
	unit = generator_horizon();
	if (open_draws_oldest(MyDatabaseId, unit, &oldest))
		unit = oldest.unit;
	PG_RETURN_INT64(layout_pack(&snowflake_layout, unit, 0, 0, 0));
}

/*
 * Find a table that is read, in all parts of a query.  What an INSERT writes
 * into is not, nor a view in front of it, nor the row that it proposes, EXCLUDED.
 */
static bool
find_table(Node *node, void *written)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && node != written &&
			rte->relkind != RELKIND_VIEW && rte->relkind != RELKIND_COMPOSITE_TYPE;
	}
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		return query_tree_walker(query, find_table,
								 query->commandType != CMD_INSERT ? NULL :
								 rt_fetch(query->resultRelation, query->rtable),
								 QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, find_table, written);
}

/* Does a query read a table, or one around it? */
static bool
reads_table(PlannerInfo *root)
{
	for (; root != NULL; root = root->parent_root)
	{
		if (find_table((Node *) root->parse, NULL))
			return true;
	}
	return false;
}

/*
 * Planner support for snowflake_horizon().  An argument of EXECUTE is planned
 * alone, and what is executed has the snapshot of before.
 */
Datum
snowflake_horizon_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *req = getarg_simplify(fcinfo);

	if (req != NULL && (req->root == NULL || reads_table(req->root)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("snowflake_horizon() cannot be called in a statement that reads a table"),
				 errdetail("The snapshot of this statement is older than the horizon, so rows below the horizon can be missing."),
				 errhint(TWO_STATEMENTS)));
	PG_RETURN_POINTER(NULL);
}
