/*-------------------------------------------------------------------------
 *
 * mark_funcs.c
 *		The SQL functions that raise the durable mark or change what is
 *		recorded with it: snowflake_advance(), snowflake_accept_layout(),
 *		snowflake_confirm_node(), snowflake_forget_registry(), the trigger that
 *		restores the mark of a dump; and require_layout(), which looks at both.
 *
 * They check whether the caller may do this, and report what it means.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "args.h"
#include "backfill.h"
#include "clock.h"
#include "dialect.h"
#include "lease.h"
#include "mark.h"
#include "record.h"
#include "segment.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_accept_layout);
PG_FUNCTION_INFO_V1(snowflake_confirm_node);
PG_FUNCTION_INFO_V1(snowflake_forget_registry);
PG_FUNCTION_INFO_V1(snowflake_restore_mark);
PG_FUNCTION_INFO_V1(snowflake_require_layout);

/*
 * Raise an ERROR where the mark cannot be changed: without shared memory, on a
 * standby, and in a read-only transaction.
 */
static void
require_mark(const char *function)
{
	shmem_require("keep a durable mark");
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
}

/*
 * Let no ID be issued below a time unit, with a WARNING when it is in the
 * future.  Returns when the unit begins.
 */
static TimestampTz
advance_to(uint64 floor, MarkFloor kind)
{
	TimestampTz now;
	TimestampTz ts;

	if (!clock_timestamp_of_unit(floor, &ts))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));

	mark_advance(floor, kind);

	now = clock_read();
	if (ts > now)
		ereport(WARNING,
				(errmsg("the durable mark is ahead of the clock"),
				 errdetail("The %s shows %s, and no ID will have a time before %s. \"snowflake.max_drift\" allows %d ms ahead of the clock.",
						   clock_name(),
						   clock_show(now), clock_show(ts),
						   snowflake_max_drift)));
	return ts;
}

/*
 * An ID that is further ahead of the clock is rather of another generator than
 * of a clock that was wrong, and stops the server until then.
 */
static void
require_near(int64 id)
{
	TimestampTz now = clock_read();
	TimestampTz ts;

	if (clock_timestamp_of_unit(layout_unpack(&snowflake_layout, id, FIELD_TIME), &ts) &&
		ts > now + MARK_MAX_AHEAD_US)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("snowflake ID " INT64_FORMAT " is of %s, more than a day ahead of the clock",
						id, clock_show(ts)),
				 errdetail("The %s shows %s. No ID could be drawn until the clock has come to that time. The ID may be of another generator, or of another layout or epoch.",
						   clock_name(), clock_show(now)),
				 errhint("Advance to the largest ID that this server has drawn. If it is this one, call snowflake_advance(" INT64_FORMAT ", force => true).",
						 id)));
}

/* snowflake_advance(id, force) */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	int64		id = parse_check(PG_GETARG_INT64(0));
	uint64		unit;

	require_mark("snowflake_advance()");

	if (layout_unpack(&snowflake_layout, id, FIELD_TIME) >=
		snowflake_layout.max[FIELD_TIME])
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("cannot advance to snowflake ID " INT64_FORMAT, id),
				 errdetail("The ID is of the last time unit of the layout \"%s\": no ID is left above it.",
						   snowflake_layout_text)));
	if (!layout_unit_above(&snowflake_layout, (uint64) Max(lease_node(), 0), id, &unit))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot advance to snowflake ID " INT64_FORMAT, id),
				 errdetail("In the layout \"%s\" a field above the time makes it larger than later IDs of this server.",
						   snowflake_layout_text)));

	if (!PG_GETARG_BOOL(1))
		require_near(id);

	PG_RETURN_TIMESTAMPTZ(advance_to(unit, FLOOR_OF_SERVER));
}

/* snowflake_accept_layout() */
Datum
snowflake_accept_layout(PG_FUNCTION_ARGS)
{
	require_mark("snowflake_accept_layout()");
	if (!mark_accept())
		ereport(NOTICE,
				(errmsg("nothing to accept: layout and epoch are as recorded with the durable mark")));
	else if (pg_atomic_read_u64(&shared->mark.floor_unit) <= 1)
		ereport(WARNING,
				(errmsg("the durable mark is empty, so IDs go on from the clock"),
				 errhint(RECORD_LOST_HINT)));
	PG_RETURN_VOID();
}

/* snowflake_confirm_node() */
Datum
snowflake_confirm_node(PG_FUNCTION_ARGS)
{
	require_mark("snowflake_confirm_node()");
	if (pg_atomic_read_u32(&shared->mark.confirmed_before) == 0)
		ereport(NOTICE,
				(errmsg("nothing to confirm: this server was not promoted, or its node number has changed since")));
	else
		record_confirm();
	PG_RETURN_VOID();
}

/* snowflake_forget_registry() */
Datum
snowflake_forget_registry(PG_FUNCTION_ARGS)
{
	require_mark("snowflake_forget_registry()");
	segment_forget_registry();
	lease_forget_seen();
	PG_RETURN_VOID();
}

/*
 * require_layout(): may IDs be taken for times to create and drop partitions?
 * A standby cannot ask, and only shows what it would drop.
 */
Datum
snowflake_require_layout(PG_FUNCTION_ARGS)
{
	if (!RecoveryInProgress())
	{
		shmem_require("tell the times of partitions");
		mark_require_layout();
	}
	PG_RETURN_VOID();
}

/*
 * Is the dump of this layout and epoch, be the time longer or shorter?
 * Otherwise its IDs cannot be compared with those of this server, nor their
 * times: warn.
 */
static bool
has_this_layout(const char *text, TimestampTz epoch)
{
	Layout		layout;
	LayoutError error;

	if (dialect_or_layout_parse(text, &layout, &error) &&
		layout_same_ids(&layout, &snowflake_layout) &&
		layout.unit_us == snowflake_layout.unit_us && epoch == snowflake_epoch)
		return true;

	ereport(WARNING,
			(errmsg("the durable mark of this dump is not restored, as its IDs are of another layout or epoch"),
			 errdetail("The dump has layout \"%s\" and epoch %s, this server has layout \"%s\" and epoch %s.",
					   text, clock_show(epoch),
					   snowflake_layout_text, clock_show(snowflake_epoch)),
			 errhint("IDs that this server draws may equal IDs of the dump.")));
	return false;
}

/*
 * The dump has backfilled IDs, whose sequence numbers are below the one in the
 * row; their times are not known.  So this server gives up all sequence
 * numbers below it, at all times, for backfilling.  None may be left after
 * that, so only a superuser may do it.
 */
static void
restore_backfilled(int64 backfilled)
{
	if (backfilled <= 0)
		return;
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to use up sequence numbers for backfilling"),
				 errdetail("The dump has backfilled IDs, up to " INT64_FORMAT " in a time unit.",
						   backfilled),
				 errhint("Restore the table \"snowflake_catalog.dumped_mark\" as a superuser. Otherwise do not call snowflake_backfill() on this server for times in which the dump has backfilled IDs.")));
	backfill_advance((uint64) backfilled);
}

/*
 * Trigger on snowflake_catalog.dumped_mark: a dump is being restored, and its
 * IDs are below the mark in the row.  Raise this server's mark, so that it
 * issues none of them.  No row is stored.  Where there is no mark writer, the
 * row is left to the next trigger.
 */
Datum
snowflake_restore_mark(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	TupleDesc	tupdesc;
	Datum		row[4];
	bool		isnull[4];
	char	   *layout;
	TimestampTz mark;
	int64		floor;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_catalog.restore_mark must be called as a BEFORE INSERT FOR EACH ROW trigger")));

	tupdesc = RelationGetDescr(trigdata->tg_relation);
	if (tupdesc->natts != 4 ||
		SPI_gettypeid(tupdesc, 1) != TIMESTAMPTZOID ||
		SPI_gettypeid(tupdesc, 3) != TIMESTAMPTZOID ||
		SPI_gettypeid(tupdesc, 4) != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("snowflake_catalog.restore_mark must be a trigger on snowflake_catalog.dumped_mark")));

	heap_deform_tuple(trigdata->tg_trigtuple, tupdesc, row, isnull);
	mark = isnull[0] ? DT_NOBEGIN : DatumGetTimestampTz(row[0]);
	if (TIMESTAMP_NOT_FINITE(mark))
		return PointerGetDatum(NULL);

	/* for the next trigger, see install/dump.sql */
	if (shared == NULL)
		return PointerGetDatum(trigdata->tg_trigtuple);
	layout = SPI_getvalue(trigdata->tg_trigtuple, tupdesc, 2);
	if (layout != NULL && !isnull[2] &&
		!has_this_layout(layout, DatumGetTimestampTz(row[2])))
		return PointerGetDatum(NULL);

	/*
	 * Every caller may raise the mark up to the clock: taking an ID does
	 * that, too.  A mark ahead of the clock stops the whole server from
	 * issuing IDs for a while, so only a superuser may set one.
	 */
	floor = layout_unit_ceil(&snowflake_layout, clock_since_epoch(mark));
	if (floor <= 0)
		return PointerGetDatum(NULL);
	if (clock_unit_or_end((uint64) floor) > clock_read() && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to put the durable mark ahead of the clock"),
				 errdetail("The dump was made with the mark at %s.",
						   clock_show(mark)),
				 errhint("Restore it as a superuser, or set the server's clock if it is wrong%s.",
						 clock_can_step() ? "" : ", and restart the server")));

	/* the mark first: it stays raised if the other step is not permitted */
	(void) advance_to(Min((uint64) floor, snowflake_layout.max[FIELD_TIME]),
					  superuser() ? FLOOR_OF_DUMP : FLOOR_ANYONES);
	restore_backfilled(isnull[3] ? 0 : DatumGetInt64(row[3]));
	return PointerGetDatum(NULL);
}
