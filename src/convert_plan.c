/*-------------------------------------------------------------------------
 *
 * convert_plan.c
 *		The rows of a plan: statements, warnings, notes, and errors.
 *
 * Rows are added while the plan is made.  They are returned as the result of
 * snowflake_convert() or, where there are errors, raised as one ERROR.  The
 * rest of the plan, see convert_plan.h, is filled in by convert_columns.c and
 * convert_ids.c.  This file looks at no table, and takes no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "convert_plan.h"

static const char *const row_kinds[] = {"error", "statement", "warning", "note"};

Row *
add_row(Conversion *plan, RowKind kind, const char *detail)
{
	Row		   *row = palloc0(sizeof(Row));

	row->detail = detail;
	plan->rows[kind] = lappend(plan->rows[kind], row);
	return row;
}

Row *
add_error(Conversion *plan, int sqlerrcode, const char *detail)
{
	Row		   *row = add_row(plan, ROW_ERROR, detail);

	row->sqlerrcode = sqlerrcode;
	return row;
}

Row *
add_statement(Conversion *plan, const char *command, const char *detail)
{
	Row		   *row = add_row(plan, ROW_STATEMENT, detail);

	row->command = command;
	return row;
}

void
raise_errors(Conversion *plan)
{
	StringInfoData detail;
	Row		   *first;

	if (plan->rows[ROW_ERROR] == NIL)
		return;

	first = linitial(plan->rows[ROW_ERROR]);
	initStringInfo(&detail);
	for (int i = 0; i < list_length(plan->rows[ROW_ERROR]); i++)
	{
		Row		   *row = list_nth(plan->rows[ROW_ERROR], i);

		if (i > 0)
			appendStringInfo(&detail, "%sAlso: %s", i > 1 || first->definition ? "\n" : "",
							 row->detail);
		if (row->definition)
			appendStringInfo(&detail, "%s%s", i > 0 ? ":\n" : "", row->definition);
	}

	ereport(ERROR,
			(errcode(first->sqlerrcode),
			 errmsg("%s", first->detail),
			 detail.len > 0 ? errdetail("%s", detail.data) : 0,
			 first->hint ? errhint("%s", first->hint) : 0));
}

void
return_rows(Conversion *plan, ReturnSetInfo *rsinfo)
{
	int			step = 0;
	const char *last_hint = NULL;

	for (int kind = 0; kind < (int) lengthof(plan->rows); kind++)
	{
		ListCell   *lc;

		foreach(lc, plan->rows[kind])
		{
			Row		   *row = lfirst(lc);
			Datum		values[4];
			bool		nulls[4] = {false};
			const char *detail = row->detail;

			if (row->definition)
				detail = psprintf("%s:\n%s", detail, row->definition);
			if (row->hint && row->hint != last_hint)
				detail = psprintf("%s\nHint: %s", detail, row->hint);
			last_hint = row->hint;
			values[0] = Int32GetDatum(++step);
			values[1] = CStringGetTextDatum(row_kinds[kind]);
			nulls[2] = row->command == NULL;
			values[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(row->command);
			values[3] = CStringGetTextDatum(detail);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
}
