/*-------------------------------------------------------------------------
 *
 * convert_run.c
 *		Run the statements of a plan, and say how far it is.
 *
 * A single ALTER TABLE may rewrite a large table, or hundreds of partitions.
 * The server shows no progress of that, so this looks on from the inside: the
 * server makes a new table for each that it rewrites, swaps their files and
 * drops the one with the old file, which object_access_hook sees.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

#include "convert_cost.h"
#include "convert_run.h"
#include "ddl.h"
#include "mark.h"
#include "progress.h"

/* What a table takes beside its size, in bytes of a rewrite. */
#define TABLE_WEIGHT INT64CONST(1048576)

/* The rewrite that is under way, and how far it is */
static struct
{
	Progress	progress;
	Conversion *plan;
	int			ntables_done;
	int64		bytes_done;
}			rewrite;

static object_access_hook_type prev_object_access_hook = NULL;

/*
 * The old file of a table that was rewritten is dropped under the name that
 * make_new_heap() gives.
 */
static void
rewrite_object_access(ObjectAccessType access, Oid classId, Oid objectId,
					  int subId, void *arg)
{
	Conversion *plan = rewrite.plan;
	char	   *name;
	ListCell   *lc;

	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if (access != OAT_DROP || classId != RelationRelationId || subId != 0 ||
		get_rel_relkind(objectId) != RELKIND_RELATION)
		return;
	name = get_rel_name(objectId);
	if (name == NULL || strncmp(name, "pg_temp_", 8) != 0)
		return;

	foreach(lc, plan->measured)
	{
		Measured   *measured = lfirst(lc);

		if (measured->relid == atooid(name + 8))
			rewrite.bytes_done += measured->bytes;
	}
	rewrite.ntables_done++;
	if (rewrite.ntables_done >= plan->cost.ntables || !progress_due(&rewrite.progress))
		return;
	ereport(NOTICE,
			(errmsg("rewrote %d of %d tables, about %s left",
					rewrite.ntables_done, plan->cost.ntables,
					progress_left(&rewrite.progress,
								  rewrite.bytes_done + rewrite.ntables_done * TABLE_WEIGHT,
								  plan->cost.table_bytes + plan->cost.ntables * TABLE_WEIGHT))));
}

void
convert_run(const char *command)
{
	MemoryContext caller = CurrentMemoryContext;

	ddl_run(command);
	MemoryContextSwitchTo(caller);
}

static void
announce(Row *row)
{
	int64		bytes = row->cost.table_bytes + row->cost.index_bytes;

	if (!cost_is_long(bytes))
		return;
	ereport(NOTICE,
			(errmsg("rewriting %s, with %s of tables and indexes, takes roughly %s",
					row->table, cost_size(bytes), cost_time(bytes)),
			 errhint("Meanwhile pg_database_size(current_database()) grows by about this size.")));
}

static void
run_rows(List *rows, Conversion *plan)
{
	ListCell   *lc;

	foreach(lc, rows)
	{
		Row		   *row = lfirst(lc);

		if (row->is_advance)
			mark_advance(plan->advance_to);
		else if (row->command != plan->lock)
		{
			announce(row);
			convert_run(row->command);
		}
	}
}

void
execute_plan(Conversion *plan)
{
	/* an event trigger that converts another table meanwhile has no progress */
	if (object_access_hook == rewrite_object_access)
	{
		run_rows(plan->rows[ROW_STATEMENT], plan);
		return;
	}

	rewrite.plan = plan;
	rewrite.ntables_done = 0;
	rewrite.bytes_done = 0;
	progress_start(&rewrite.progress);

	prev_object_access_hook = object_access_hook;
	object_access_hook = rewrite_object_access;
	PG_TRY();
	{
		run_rows(plan->rows[ROW_STATEMENT], plan);
	}
	PG_FINALLY();
	{
		object_access_hook = prev_object_access_hook;
	}
	PG_END_TRY();
}
