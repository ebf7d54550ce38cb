/*-------------------------------------------------------------------------
 *
 * convert_ids.c
 *		The IDs that a table has before it is converted, and whether the durable
 *		mark must be raised for new IDs to be above them.
 *
 * The mark is only looked at here, by its atomic fields in shared memory; that
 * it must be raised is a statement of the plan, which convert.c executes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

#include "clock.h"
#include "compat.h"
#include "convert_ids.h"
#include "ddl.h"
#include "lease.h"
#include "mark.h"
#include "settings.h"

void
read_ids(Conversion *plan)
{
	char	   *column = pstrdup(quote_identifier(plan->column));

	plan->has_ids = false;
	if (!plan->with_ids)
		return;

	if (pg_class_aclcheck(plan->relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck(plan->relid, plan->attnum, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
	{
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("permission denied to read the IDs of table %s", plan->table));
		return;
	}
	if (check_enable_rls(plan->relid, InvalidOid, true) == RLS_ENABLED)
	{
		add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
				  psprintf("row-level security may hide IDs of table %s from role %s",
						   plan->table, quote_identifier(GetUserNameFromId(GetUserId(), false))))->hint =
			psprintf("Run ALTER TABLE %s NO FORCE ROW LEVEL SECURITY meanwhile, or convert it as a role that bypasses row-level security.",
					 plan->table);
		return;
	}

	if (ddl_query(psprintf("SELECT min(%s)::int8, max(%s)::int8 FROM %s",
						   column, column, plan->table)) != 1)
		elog(ERROR, "cannot read the IDs of %s", plan->table);
	if (ddl_value(0, 1) == NULL)
		return;
	plan->has_ids = true;
	plan->min_id = strtoll(ddl_value(0, 1), NULL, 10);
	plan->max_id = strtoll(ddl_value(0, 2), NULL, 10);
}

TimestampTz
convert_unit_start(uint64 unit)
{
	TimestampTz ts;

	return clock_timestamp_of_unit(unit, &ts) ? ts : DT_NOEND;
}

char *
convert_show(TimestampTz ts)
{
	return pstrdup(timestamptz_to_str(ts));
}

void
plan_advance(Conversion *plan)
{
	char	   *maximum = psprintf("max(%s) = " INT64_FORMAT,
								   quote_identifier(plan->column), plan->max_id);
	char	   *advance = psprintf("%s(%s)",
								   quote_qualified_identifier(get_namespace_name(plan->schema), "snowflake_advance"),
								   psprintf(INT64_FORMAT, plan->max_id));
	uint64		node = (uint64) Max(lease_node(), 0);
	uint64		floor;
	uint64		unit;
	TimestampTz now = clock_read();
	TimestampTz ts;
	Row		   *row;

	plan->advance_to = 0;
	if (!plan->has_ids)
		return;

	if (plan->min_id < 0)
		add_row(plan, ROW_WARNING,
				psprintf("there are negative IDs (min(%s) = " INT64_FORMAT "), which snowflake_parse() and snowflake_timestamp() cannot read",
						 quote_identifier(plan->column), plan->min_id));
	if (plan->max_id < 0)
		return;

	if (plan->max_id > layout_max_id(&snowflake_layout))
	{
		add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
				  psprintf("%s is above all IDs of the layout \"%s\", which end at " INT64_FORMAT,
						   maximum, snowflake_layout_text,
						   layout_max_id(&snowflake_layout)));
		return;
	}
	if (shared == NULL || RecoveryInProgress())
		return;

	/*
	 * No ID is issued below the floor.  While the floor was not read yet, 1
	 * is taken for it.
	 */
	floor = Max(pg_atomic_read_u64(&shared->mark.floor_unit), 1);
	floor = Min(floor, snowflake_layout.max[FIELD_TIME]);
	if (layout_pack(&snowflake_layout, floor, node, 0, 0) > plan->max_id)
		return;

	if (!layout_unit_above(&snowflake_layout, node, plan->max_id, &unit))
	{
		add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
				  unit > snowflake_layout.max[FIELD_TIME] ?
				  psprintf("%s is in the last time unit of the layout \"%s\": no ID is left above it",
						   maximum, snowflake_layout_text) :
				  psprintf("%s is above later IDs of this server, by a field above the time in the layout \"%s\"",
						   maximum, snowflake_layout_text));
		return;
	}

	ts = convert_unit_start(unit);
	if (ts > now + MAX_DRIFT_US)
	{
		row = add_error(plan, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
						psprintf("%s reads as an ID of %s, ahead of the clock: no ID above it could be drawn before",
								 maximum, convert_show(convert_unit_start(unit - 1))));
		row->definition = psprintf("The %s shows %s.", clock_name(), convert_show(now));

		/* name an epoch that is early enough for new IDs to be above */
		if (ts != DT_NOEND && snowflake_epoch - (ts - now) > -UNIX_EPOCH_US)
			row->hint = psprintf("If these IDs were drawn with another epoch, set \"snowflake.epoch\" to that epoch. New IDs are above them with an epoch before %s. You can set it as long as this server has drawn no ID.",
								 convert_show(snowflake_epoch - (ts - now)));
		return;
	}

	if (ts > now && !(mark_is_open() && ts <= mark_issued_until()))
	{
		List	   *names = list_make2(makeString(get_namespace_name(plan->schema)),
									   makeString(pstrdup("snowflake_advance")));
		Oid			arg = INT8OID;

		if (ddl_query(psprintf("SELECT has_function_privilege(%u, 'EXECUTE')",
							   LookupFuncName(names, 1, &arg, false))) != 1 ||
			!ddl_value_bool(0, 1))
		{
			row = add_error(plan, ERRCODE_INSUFFICIENT_PRIVILEGE,
							psprintf("permission denied to put the durable mark ahead of the clock, to %s", convert_show(ts)));
			row->definition = psprintf("%s reads as an ID of %s. The %s shows %s.",
									   maximum, convert_show(convert_unit_start(unit - 1)),
									   clock_name(), convert_show(now));
			row->hint = "Wait until the clock has come there, or convert the column as a role that may execute snowflake_advance().";
			return;
		}
	}

	plan->advance_to = unit;
	row = add_statement(plan, psprintf("SELECT %s", advance),
						psprintf("new IDs begin at %s, to be above %s; the durable mark stays there after a rollback, too",
								 convert_show(ts), maximum));
	row->is_advance = true;
}
