/*-------------------------------------------------------------------------
 *
 * partition_steps.c
 *		Where partitions by time begin and end: at regular steps, such as months
 *		of a time zone.
 *
 * The edges of a grid are instants.  Where an edge is not the start of a time
 * unit, the bound is that of the next one, see partition_bounds.c.
 *
 * All arithmetic with months, days and time zones is done by the server's own
 * functions.  This file reads the layout and the epoch, and is given the
 * partitions that the table has; it reads no catalog, and takes no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "clock.h"
#include "compat.h"
#include "partition_steps.h"
#include "settings.h"

char *
step_str(const Interval *step)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(step)));
}

void
step_below_unit(const Interval *step)
{
	Interval	unit = {0};

	unit.time = snowflake_layout.unit_us;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("step %s is smaller than the time unit of snowflake IDs",
					step_str(step)),
			 errdetail("The time unit of the layout \"%s\" is %s.",
					   snowflake_layout_text, step_str(&unit))));
}

void
grid_init(Grid *grid, const Interval *step, Datum zone)
{
	int			kinds = (step->month != 0) + (step->day != 0) + (step->time != 0);

	grid->step = *step;
	grid->zone = zone;
	grid->local = step->time == 0;
	grid->anchor = 0;

	if (INTERVAL_NOT_FINITE(step) || kinds == 0 ||
		(kinds == 1 && (step->month < 0 || step->day < 0 || step->time < 0)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be positive and finite"),
				 errdetail("The step is %s.", step_str(step))));
	if (kinds > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be whole months, whole days, or hours and smaller"),
				 errdetail("The step is %s.", step_str(step)),
				 errhint("Months and days have no fixed length, so they cannot be mixed with each other and with hours.")));

	if (step->month != 0)
		grid->unit = "month";
	else if (step->day != 0)
		grid->unit = "day";
	else if (step->time < snowflake_layout.unit_us)
		step_below_unit(step);
	else if (step->time % USECS_PER_HOUR == 0)
		grid->unit = "hour";
	else if (step->time % USECS_PER_MINUTE == 0)
		grid->unit = "minute";
	else if (step->time % USECS_PER_SEC == 0)
		grid->unit = "second";
	else if (step->time % 1000 == 0)
		grid->unit = "milliseconds";
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step must be a whole number of milliseconds"),
				 errdetail("The step is %s.", step_str(step))));
}

/* the n-th edge of a grid, as a local time or an instant */
static int64
grid_point(const Grid *grid, int64 n)
{
	Interval	span = {0};
	int64		result;

	if (grid->local)
	{
		if (pg_mul_s64_overflow(n, grid->step.month + grid->step.day, &result) ||
			result != (int32) result)
			goto out_of_range;
		if (grid->step.month != 0)
			span.month = (int32) result;
		else
			span.day = (int32) result;
		return DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval,
													 TimestampGetDatum(grid->anchor),
													 IntervalPGetDatum(&span)));
	}

	if (!pg_mul_s64_overflow(n, grid->step.time, &result) &&
		!pg_add_s64_overflow(grid->anchor, result, &result) &&
		IS_VALID_TIMESTAMP(result))
		return result;

out_of_range:
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp out of range")));
	return 0;					/* not reached */
}

TimestampTz
grid_edge(const Grid *grid, int64 n)
{
	int64		point = grid_point(grid, n);

	if (!grid->local)
		return point;
	return DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone, grid->zone,
												   TimestampGetDatum(point)));
}

/* put the anchor at an instant */
static void
grid_anchor(Grid *grid, TimestampTz ts)
{
	grid->anchor = ts;
	if (grid->local)
		grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamptz_zone,
															 grid->zone,
															 TimestampTzGetDatum(ts)));
}

void
grid_anchor_cut(Grid *grid, TimestampTz ts)
{
	Datum		unit = CStringGetTextDatum(grid->unit);

	if (!grid->local)
	{
		grid->anchor = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_trunc_zone,
															   unit,
															   TimestampTzGetDatum(ts),
															   grid->zone));
		return;
	}

	grid_anchor(grid, ts);
	grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamp_trunc, unit,
														 TimestampGetDatum(grid->anchor)));

	/*
	 * On days when midnight comes twice, or is skipped together with some
	 * time before it, the server takes a later instant as the start of the
	 * day.  An instant before that start belongs to the day before.
	 */
	if (grid_edge(grid, 0) > ts)
	{
		Interval	back = {0};

		if (grid->step.month != 0)
			back.month = -1;
		else
			back.day = -1;
		grid->anchor = DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval,
															 TimestampGetDatum(grid->anchor),
															 IntervalPGetDatum(&back)));
	}
}

/* does a partition have the bounds of the step that begins at the anchor? */
static bool
grid_matches(const Grid *grid, const Partition *partition)
{
	return bound_equal(bound_at(grid_edge(grid, 0)), partition->from) &&
		bound_equal(bound_at(grid_edge(grid, 1)), partition->to);
}

/*
 * Move the anchor to the start of an existing partition, so that new ones
 * continue from it, if that partition is one step long and does not begin
 * after an instant.  Returns whether it did.
 */
static bool
grid_continue(Grid *grid, const Partition *partition, TimestampTz ts)
{
	Grid		try = *grid;
	TimestampTz start;

	if (partition == NULL || !bound_time(partition->from, &start) || start > ts)
		return false;

	/* the start that the user gave may have been within a time unit */
	grid_anchor_cut(&try, start);
	if (!grid_matches(&try, partition))
	{
		grid_anchor(&try, start);
		if (!grid_matches(&try, partition))
			return false;
	}
	*grid = try;
	return true;
}

void
grid_start(Grid *grid, TimestampTz ts, Partition *partitions, int npartitions)
{
	int64		unit = layout_unit_floor(&snowflake_layout,
										 clock_since_epoch(ts));
	Partition  *holder = partitions_find(partitions, npartitions,
										 bound_of_unit(unit));

	grid_anchor_cut(grid, ts);
	if (!grid_continue(grid, holder, ts))
	{
		holder = partitions_find(partitions, npartitions,
								 bound_at(grid_edge(grid, 0)));
		(void) grid_continue(grid, holder, ts);
	}
}

char *
grid_suffix(const Grid *grid, int64 n)
{
	int64		point = grid_point(grid, n);
	struct pg_tm tm;
	fsec_t		fsec;

	/* hours are named in UTC, since a local hour may come twice */
	if (timestamp2tm(point, NULL, &tm, &fsec, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));

	if (grid->step.month != 0)
	{
		if (grid->step.month % MONTHS_PER_YEAR == 0 && tm.tm_mon == 1)
			return psprintf("%04d", tm.tm_year);
		return psprintf("%04d_%02d", tm.tm_year, tm.tm_mon);
	}
	if (grid->step.day != 0)
		return psprintf("%04d_%02d_%02d", tm.tm_year, tm.tm_mon, tm.tm_mday);

	/* as many digits as the starts in this grid need */
	if (grid->step.time % USECS_PER_MINUTE == 0 &&
		grid->anchor % USECS_PER_MINUTE == 0)
		return psprintf("%04d_%02d_%02d_%02d%02dz", tm.tm_year, tm.tm_mon,
						tm.tm_mday, tm.tm_hour, tm.tm_min);
	if (grid->step.time % USECS_PER_SEC == 0 &&
		grid->anchor % USECS_PER_SEC == 0)
		return psprintf("%04d_%02d_%02d_%02d%02d%02dz", tm.tm_year, tm.tm_mon,
						tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return psprintf("%04d_%02d_%02d_%02d%02d%02d%03dz", tm.tm_year, tm.tm_mon,
					tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
					(int) (fsec / 1000));
}
