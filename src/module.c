/*-------------------------------------------------------------------------
 *
 * module.c
 *		Load the library: settings, shared memory, hooks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "args.h"
#include "clock.h"
#include "generator.h"
#include "home.h"
#include "instance.h"
#include "lease.h"
#include "mark.h"
#include "open_draws.h"
#include "other_extensions.h"
#include "record.h"
#include "segment.h"
#include "settings.h"
#include "shmem.h"
#include "worker.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;
static ExecutorStart_hook_type prev_executor_start_hook = NULL;
static object_access_hook_type prev_object_access_hook = NULL;

static char *issued_until;

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
	bool		is_new;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	is_new = shmem_make();
	if (is_new)
	{
		worker_init_shmem(&shared->mark_writer);
		worker_init_shmem(&shared->services);
		mark_init_shmem();
		lease_init_shmem();
		generator_init_shmem();
		open_draws_init_shmem();
		segment_init_shmem();
		clock_init_shmem();
	}
	LWLockRelease(AddinShmemInitLock);
	if (is_new)
		instance_note_start();
}

/*
 * A statement that means the other extension of the same name is refused.
 *
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
	bool		forget = IsA(stmt, DiscardStmt) &&
		(((DiscardStmt *) stmt)->target == DISCARD_ALL ||
		 ((DiscardStmt *) stmt)->target == DISCARD_SEQUENCES);

	pgedge_check_statement(stmt);
	copy_default_begin(stmt);
	PG_TRY();
	{
		if (prev_process_utility_hook)
			prev_process_utility_hook(pstmt, queryString, readOnlyTree,
									  context, params, queryEnv, dest, qc);
		else
			standard_ProcessUtility(pstmt, queryString, readOnlyTree,
									context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		copy_default_end();
	}
	PG_END_TRY();

	if (forget)
		generator_forget_current();
}

static void
executor_start_hook(QueryDesc *queryDesc, int eflags)
{
	copy_default_end();
	if (prev_executor_start_hook)
		prev_executor_start_hook(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

#define DROP_HOME_HINT \
	"If this server is to draw more IDs, first move the mark to another database, as docs/operations.md says under \"Move the mark\". If not, first remove \"snowflake\" from \"shared_preload_libraries\" and restart the server."

static bool
has_mark(Oid database)
{
	return shared != NULL &&
		(database == shared->mark.home || record_points_at(database));
}

/*
 * The durable mark must not get lost: not with its extension, and not with
 * its database.  (The extension "snowflake" may be dropped anywhere.)
 */
static void
object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);

	if (access != OAT_DROP)
		return;
	if (classId == DatabaseRelationId && has_mark(objectId))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drop database \"%s\": it holds the durable mark of this server's snowflake IDs",
						get_database_name(objectId)),
				 errhint(DROP_HOME_HINT)));
	if (classId == ExtensionRelationId &&
		objectId == get_extension_oid(HOME_EXTENSION, true) && has_mark(MyDatabaseId))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drop extension \"" HOME_EXTENSION "\": it holds the durable mark of this server's snowflake IDs"),
				 errhint(DROP_HOME_HINT)));
}

/*
 * snowflake.issued_until; '' where nothing is generated.  A dump takes it
 * along, see install/dump.sql.
 */
static const char *
show_issued_until(void)
{
	return shared == NULL ? "" : timestamptz_to_str(mark_issued_until());
}

void
_PG_init(void)
{
	settings_define();
	DefineCustomStringVariable("snowflake.issued_until",
							   "Shows an instant after the time of all IDs issued so far.",
							   NULL,
							   &issued_until,
							   "",
							   PGC_INTERNAL,
							   GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE,
							   NULL, NULL, show_issued_until);

	/* Too late for shared memory: no IDs, but reading them works. */
	if (!process_shared_preload_libraries_in_progress)
		return;

	/* Allowed, to scatter IDs, but not by accident. */
	if (layout_is_above(&snowflake_layout, FIELD_SEQUENCE, FIELD_TIME))
		ereport(WARNING,
				(errmsg("snowflake IDs of a session will not increase"),
				 errdetail("In the layout \"%s\" the sequence is above the time.",
						   snowflake_layout_text)));

	if (layout_is_above(&snowflake_layout, FIELD_NODE, FIELD_TIME) &&
		settings_need_lease() && lease_is_used())
		ereport(WARNING,
				(errmsg("snowflake IDs of a session will not increase"),
				 errdetail("In the layout \"%s\" the node is above the time, and this server leases its number, which can change.",
						   snowflake_layout_text)));

	/* Allowed, as a server may be there to read IDs only. */
	if (settings_need_lease() && !lease_is_used())
		ereport(WARNING,
				(errmsg("\"snowflake.node_id\" is not set"),
				 errdetail("This server draws no snowflake IDs."),
				 errhint("%s", settings_node_id_hint())));

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_hook;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_hook;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility_hook;
	prev_executor_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = executor_start_hook;
	open_draws_register();
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_access;

	if (!IsBinaryUpgrade)
	{
		worker_register(MARK_WRITER_NAME, "snowflake_mark_writer_main");
		worker_register(SERVICES_NAME, "snowflake_services_main");
	}
}
