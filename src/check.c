/*-------------------------------------------------------------------------
 *
 * check.c
 *		snowflake_check(): what keeps this server from drawing IDs, now or soon.
 *
 * A reader of the settings, the clock and shared memory.  It fails nowhere,
 * also without preload and on a standby, and draws no ID and asks nothing of
 * the worker, so that it can be called as often as one likes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "lifetime.h"
#include "reserve.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_check);

/*
 * What the checks go by, read once, so that they agree; and where their rows
 * go.
 */
typedef struct CheckState
{
	ReturnSetInfo *rsinfo;
	TimestampTz now;			/* the clock */
	int64		unit;			/* its time unit, also out of the lifetime */
	uint64		earliest;		/* no ID is drawn before this unit */
} CheckState;

static void
add_row(CheckState *state, const char *check, const char *status,
		const char *detail)
{
	Datum		values[3];
	bool		nulls[3] = {false};

	values[0] = CStringGetTextDatum(check);
	values[1] = CStringGetTextDatum(status);
	values[2] = CStringGetTextDatum(detail);
	tuplestore_putvalues(state->rsinfo->setResult, state->rsinfo->setDesc,
						 values, nulls);
}

/* The time that the next ID has at least. */
static uint64
earliest_time(CheckState *state)
{
	return Max((uint64) Max(state->unit, 0), state->earliest);
}

/* Is the library preloaded? */
static void
check_preload(CheckState *state)
{
	if (shared == NULL)
		add_row(state, "preload", "error",
				"snowflake is not loaded via \"shared_preload_libraries\": IDs can be read, not drawn. Add it there and restart the server.");
	else
		add_row(state, "preload", "ok",
				"snowflake is loaded via \"shared_preload_libraries\".");
}

/* Has this server a number? */
static void
check_node_id(CheckState *state)
{
	uint64		max = snowflake_layout.max[FIELD_NODE];

	if (max == 0)
		add_row(state, "node_id", "ok",
				"The layout has no node field, so there is no number to set.");
	else if (snowflake_node_id == NODE_ID_UNSET)
		add_row(state, "node_id", "error",
				psprintf("\"snowflake.node_id\" is not set. Set it to a number from 0 to " UINT64_FORMAT " that no other server has, and restart the server.",
						 max));
	else
		add_row(state, "node_id", "ok",
				psprintf("This server is node %d, of 0 to " UINT64_FORMAT ".",
						 snowflake_node_id, max));
}

/* How far is the end of the layout's time? */
static void
check_lifetime(CheckState *state)
{
	int64		left = lifetime_left(earliest_time(state));
	int			days = (int) (left / USECS_PER_DAY);
	char	   *detail = lifetime_detail();

	if (left == 0)
		add_row(state, "lifetime", "error",
				psprintf("The lifetime has ended. %s %s", detail, lifetime_hint()));
	else if (left < LIFETIME_WARNING_US)
		add_row(state, "lifetime", "warning",
				psprintf("%s Days left: %d. %s", detail, days, lifetime_hint()));
	else
		add_row(state, "lifetime", "ok",
				left == PG_INT64_MAX ? detail :
				psprintf("%s Days left: %d.", detail, days));
}

/* Is the clock where IDs can be drawn? */
static void
check_clock(CheckState *state)
{
	char	   *now = pstrdup(timestamptz_to_str(state->now));
	const char *restart = clock_steps() ? "" : " and restart the server";
	TimestampTz earliest;
	int64		behind_us;
	char	   *detail;

	if (state->unit < 0)
	{
		add_row(state, "clock", "error",
				psprintf("The %s shows %s, which is before \"snowflake.epoch\", %s. Set the server's clock%s.",
						 clock_name(), now, timestamptz_to_str(snowflake_epoch),
						 restart));
		return;
	}

	if (!clock_timestamp_of_unit(state->earliest, &earliest))
		earliest = state->now;	/* cannot be: a mark is a timestamp */
	behind_us = earliest - state->now;
	detail = psprintf("The %s shows %s. IDs were issued, or may have been before the start, up to %s, which is " INT64_FORMAT " ms ahead; \"snowflake.max_drift\" allows %d ms.",
					  clock_name(), now, timestamptz_to_str(earliest),
					  (behind_us - 1) / 1000 + 1, snowflake_max_drift);

	if (behind_us <= 0)
		add_row(state, "clock", "ok", psprintf("The %s shows %s.", clock_name(), now));
	else if (behind_us <= snowflake_max_drift * INT64CONST(1000))
		add_row(state, "clock", "warning",
				psprintf("%s The clock was set back, or IDs are drawn faster than the layout allows.",
						 detail));
	else
		add_row(state, "clock", "error",
				psprintf("%s Set the server's clock%s, wait until it has caught up, or raise \"snowflake.max_drift\" to go on ahead of the clock.",
						 detail, restart));
}

/* Can the durable mark be raised? */
static void
check_mark(CheckState *state)
{
	char	   *detail;
	char	   *hint;

	if (shared == NULL)
	{
		add_row(state, "mark", "error",
				"There is no background worker to keep the durable mark, as snowflake is not preloaded.");
		return;
	}
	if (RecoveryInProgress())
	{
		add_row(state, "mark", "ok",
				"This is a standby, which draws no IDs. It receives the durable mark of its primary.");
		return;
	}

	switch (reserve_worker_state(&detail, &hint))
	{
		case WORKER_FAILS:
			add_row(state, "mark", "error", psprintf("%s %s", detail, hint));
			return;
		case WORKER_WORKS:
			/* somebody may wait for that, if it takes long */
			if (!reserve_covers(earliest_time(state)))
			{
				add_row(state, "mark", "warning",
						psprintf("%s %s", detail, hint));
				return;
			}
			break;
		case WORKER_SLEEPS:
			break;
	}
	add_row(state, "mark", "ok",
			psprintf("A background worker keeps the durable mark in database \"%s\".",
					 snowflake_database));
}

/* snowflake_check() */
Datum
snowflake_check(PG_FUNCTION_ARGS)
{
	CheckState	state = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};

	InitMaterializedSRF(fcinfo, 0);

	/* before the clock: what is drawn meanwhile must not look ahead of it */
	if (shared != NULL && reserve_last_time(&state.earliest))
		state.earliest = Max(state.earliest,
							 pg_atomic_read_u64(&shared->reserve.floor));
	else
		state.earliest = 0;
	state.now = clock_read();
	state.unit = layout_unit_floor(&snowflake_layout,
								   clock_since_epoch(state.now));

	check_preload(&state);
	check_node_id(&state);
	check_lifetime(&state);
	check_clock(&state);
	check_mark(&state);
	return (Datum) 0;
}
