/*-------------------------------------------------------------------------
 *
 * module.c
 *		Load the library: settings, shared memory, hooks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "tcop/utility.h"

#include "generator.h"
#include "settings.h"
#include "shmem.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;

static void
request_hook(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	shmem_request();
}

static void
startup_hook(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	shmem_startup();
}

/*
 * snowflake_currval() is forgotten by DISCARD ALL and DISCARD SEQUENCES, as
 * currval() is: the next user of a pooled connection has not drawn an ID.
 */
static void
process_utility_hook(PlannedStmt *pstmt, const char *queryString,
					 bool readOnlyTree, ProcessUtilityContext context,
					 ParamListInfo params, QueryEnvironment *queryEnv,
					 DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		forget = false;

	if (IsA(stmt, DiscardStmt))
	{
		DiscardMode mode = ((DiscardStmt *) stmt)->target;

		forget = (mode == DISCARD_ALL || mode == DISCARD_SEQUENCES);
	}

	if (prev_process_utility_hook)
		prev_process_utility_hook(pstmt, queryString, readOnlyTree, context,
								  params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
								params, queryEnv, dest, qc);

	if (forget)
		generator_forget_current();
}

void
_PG_init(void)
{
	settings_define();

	/* Too late for shared memory: no IDs, but reading them works. */
	if (!process_shared_preload_libraries_in_progress)
		return;

	/* Allowed, for who wants to scatter IDs, but not by accident. */
	if (layout_is_above(&snowflake_layout, FIELD_SEQUENCE, FIELD_TIME))
		ereport(WARNING,
				(errmsg("snowflake IDs of a session will not increase"),
				 errdetail("In the layout \"%s\" the sequence is above the time.",
						   snowflake_layout_text)));

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_hook;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_hook;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility_hook;
}
