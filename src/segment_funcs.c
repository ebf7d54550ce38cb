/*-------------------------------------------------------------------------
 *
 * segment_funcs.c
 *		The SQL functions of segments: draw numbers; create, alter and drop
 *		tags.
 *
 * segment.c takes the numbers.  Only the services talk to the registry, so a
 * session asks them to create, alter or drop a tag; one session at a time.
 * What they have done is committed in the registry, whatever becomes of the
 * session's transaction.
 *
 * Locking: see SegmentCommand in shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/builtins.h"

#include "args.h"
#include "segment.h"
#include "utf8.h"
#include "waits.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(snowflake_segment_nextval);
PG_FUNCTION_INFO_V1(snowflake_segment_nextval_count);
PG_FUNCTION_INFO_V1(snowflake_segment_create);
PG_FUNCTION_INFO_V1(snowflake_segment_alter);
PG_FUNCTION_INFO_V1(snowflake_segment_drop);

/* Numbers taken at once for a set: little is lost where it is not read to its end. */
#define SEGMENT_BATCH	100

/* snowflake_segment_nextval(tag), snowflake_segment_next(tag) */
Datum
snowflake_segment_nextval(PG_FUNCTION_ARGS)
{
	text	   *tag = PG_GETARG_TEXT_PP(0);
	SegmentHandle *handle = fcinfo->flinfo->fn_extra;
	int64		number;
	int64		delta;

	if (handle == NULL)
		handle = fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(SegmentHandle));
	(void) segment_take(handle, VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag),
						1, &number, &delta);
	PG_RETURN_INT64(number);
}

/* A set of numbers that is being read. */
typedef struct SegmentSet
{
	SegmentHandle handle;
	text	   *tag;
	uint64		wanted;			/* not yet taken */
	uint64		taken;			/* taken, not yet returned */
	int64		next;			/* the first of these */
	int64		delta;			/* from one to the next */
} SegmentSet;

/* snowflake_segment_nextval(tag, count) */
Datum
snowflake_segment_nextval_count(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	SegmentSet *set;
	int64		number;

	if (SRF_IS_FIRSTCALL())
	{
		uint64		count = getarg_set_size(fcinfo, 1);
		MemoryContext caller;

		funcctx = SRF_FIRSTCALL_INIT();
		caller = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		set = palloc0(sizeof(SegmentSet));
		set->tag = PG_GETARG_TEXT_P_COPY(0);
		set->wanted = count;
		funcctx->user_fctx = set;
		MemoryContextSwitchTo(caller);
	}

	funcctx = SRF_PERCALL_SETUP();
	set = funcctx->user_fctx;
	if (set->taken == 0)
	{
		if (set->wanted == 0)
			SRF_RETURN_DONE(funcctx);
		set->taken = segment_take(&set->handle, VARDATA_ANY(set->tag),
								  VARSIZE_ANY_EXHDR(set->tag),
								  Min(set->wanted, SEGMENT_BATCH),
								  &set->next, &set->delta);
		set->wanted -= set->taken;
	}
	number = set->next;
	if (--set->taken > 0)
		set->next += set->delta;	/* past the last it may not fit */
	SRF_RETURN_NEXT(funcctx, Int64GetDatum(number));
}

/*
 * Commands: what is asked of the services
 */

static const char *const command_names[] = {
	[SEGMENT_CREATE] = "create",
	[SEGMENT_ALTER] = "alter",
	[SEGMENT_DROP] = "drop"
};

/* Has this session asked?  Only then it may touch what is there. */
static bool is_mine = false;

/* This session does not wait for its command any more. */
static void
abandon(int code, Datum arg)
{
	SegmentCommand *command = &shared->segments.command;

	if (!is_mine)
		return;
	is_mine = false;
	LWLockAcquire(shared->segments.lock, LW_EXCLUSIVE);
	if (command->state == COMMAND_SENT)
		command->is_abandoned = true;
	else
		command->state = COMMAND_FREE;
	LWLockRelease(shared->segments.lock);
	ConditionVariableBroadcast(&shared->segments.changed);
}

/*
 * Put it where the services see it, when nothing else is there.
 */
static bool
try_to_ask(SegmentCommandKind kind, const char *utf8, const SegmentOptions *options)
{
	Segments   *segments = &shared->segments;
	SegmentCommand *command = &segments->command;

	LWLockAcquire(segments->lock, LW_EXCLUSIVE);
	if (command->state == COMMAND_FREE)
	{
		command->state = COMMAND_ASKED;
		command->is_abandoned = false;
		command->kind = kind;
		strlcpy(command->tag, utf8, sizeof(command->tag));
		command->options = *options;
		is_mine = true;
	}
	LWLockRelease(segments->lock);

	if (is_mine)
		segment_ask_services();
	return is_mine;
}

static bool
try_to_finish(SegmentResult *result)
{
	SegmentCommand *command = &shared->segments.command;

	LWLockAcquire(shared->segments.lock, LW_EXCLUSIVE);
	if (command->state == COMMAND_DONE)
	{
		*result = command->result;
		command->state = COMMAND_FREE;
		is_mine = false;
	}
	LWLockRelease(shared->segments.lock);
	if (!is_mine)
		ConditionVariableBroadcast(&shared->segments.changed);
	return !is_mine;
}

/*
 * Sleep on Segments.changed, for a while.  Raises an ERROR when there is no
 * time left.
 */
static void
wait_for_services(SegmentCommandKind kind, const char *tag, Wait *wait)
{
	int64		left_ms = wait_left_ms(wait);
	SegmentCommand *command = &shared->segments.command;
	char		error[SEGMENT_MESSAGE_SIZE];
	char	   *detail;
	char	   *hint;
	bool		was_mine = is_mine;
	bool		is_sent;
	bool		passes;

	CHECK_FOR_INTERRUPTS();
	if (left_ms > 0)
	{
		wait_sleep(wait, WAIT_SEGMENT, &shared->segments.changed, left_ms);
		return;
	}

	LWLockAcquire(shared->segments.lock, LW_EXCLUSIVE);
	if (is_mine && command->state == COMMAND_DONE)
	{
		LWLockRelease(shared->segments.lock);
		return;
	}
	strlcpy(error, shared->segments.error, sizeof(error));
	passes = error[0] == '\0' || shared->segments.error_passes;
	is_sent = command->state == COMMAND_SENT;
	if (is_mine && !is_sent)
	{
		/* from here on the services will not begin with it */
		command->state = COMMAND_FREE;
		is_mine = false;
	}
	LWLockRelease(shared->segments.lock);

	if (error[0] != '\0')
		detail = pstrdup(utf8_to_server(error));
	else if (worker_describe(&shared->services, &detail, &hint) < WORKER_HANGS)
		detail = was_mine ? "The background worker has not carried out the command yet." :
			"The background worker is busy with the command of another session.";
	ereport(ERROR,
			(errcode(wait_sqlstate(passes)),
			 errmsg("cannot %s segment tag \"%s\": no answer came in time",
					command_names[kind], tag),
			 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.",
					   text_shown(detail), snowflake_max_wait),
			 errdetail_log("%s", detail),
			 was_mine && is_sent ?
			 errhint("The command may have been carried out, or may still be.") :
			 errhint("The command was not carried out.")));
}

/*
 * What the registry says, as it says it.  Where it says nothing, why: not to
 * everybody, as that names its host.
 */
static void
report_registry_error(SegmentCommandKind kind, const char *tag, const SegmentResult *result)
{
	const char *detail = utf8_to_server(result->detail);
	const char *shown = result->sqlstate == ERRCODE_CONNECTION_FAILURE ?
		text_shown(detail) : detail;

	ereport(ERROR,
			(errcode(result->sqlstate),
			 errmsg("could not %s segment tag \"%s\": %s", command_names[kind], tag,
					utf8_to_server(result->message)),
			 detail[0] != '\0' ? errdetail("%s", shown) : 0,
			 detail[0] != '\0' ? errdetail_log("%s", detail) : 0,
			 result->hint[0] != '\0' ? errhint("%s", utf8_to_server(result->hint)) : 0));
}

static void
report_not_altered(const char *tag, const SegmentOptions *options, const SegmentResult *result)
{
	if (options->start != 0 && options->start <= result->max_id)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment tag \"%s\" cannot start at " INT64_FORMAT, tag, options->start),
				 errdetail("Numbers up to " INT64_FORMAT " were given out to servers.", result->max_id)));
	if (options->step != 0 && options->step < result->delta)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step %d is less than delta %d", options->step, result->delta),
				 errdetail("There could be segments without a number.")));
	if (options->max_value == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment tag \"%s\" cannot start at " INT64_FORMAT, tag, options->start),
				 errdetail("Its maximum value is lower."),
				 errhint("Raise max_value in the same call.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("segment tag \"%s\" cannot have the maximum value " INT64_FORMAT,
					tag, options->max_value),
			 errdetail("Numbers up to " INT64_FORMAT " were given out to servers.",
					   options->start != 0 ? options->start - 1 : result->max_id)));
}

/*
 * Create, alter or drop the tag that is the first argument, by way of the
 * services.  May wait for them, up to max_wait, and can be interrupted.
 */
static void
run_command(FunctionCallInfo fcinfo, SegmentCommandKind kind, const SegmentOptions *options)
{
	const char *tag = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Wait		wait = {0};
	SegmentResult result;
	const char *utf8;

	segment_require();
	utf8 = segment_tag_to_utf8(tag, (int) strlen(tag));

	ConditionVariablePrepareToSleep(&shared->segments.changed);
	PG_ENSURE_ERROR_CLEANUP(abandon, (Datum) 0);
	{
		while (!try_to_ask(kind, utf8, options))
			wait_for_services(kind, tag, &wait);
		while (!try_to_finish(&result))
			wait_for_services(kind, tag, &wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(abandon, (Datum) 0);
	ConditionVariableCancelSleep();

	if (result.message[0] != '\0')
		report_registry_error(kind, tag, &result);
	if (kind == SEGMENT_CREATE && !result.changed && result.max_id > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("segment tag \"%s\" cannot start at " INT64_FORMAT, tag, options->start),
				 errdetail("A registry gave numbers of this tag."),
				 errhint("Set start above all that it gave, which the view snowflake_segments shows there.")));
	if (kind == SEGMENT_CREATE && !result.changed)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("segment tag \"%s\" already exists", tag)));
	if (kind == SEGMENT_CREATE && result.max_id >= options->start)
		ereport(NOTICE,
				(result.max_id == PG_INT64_MAX ?
				 errmsg("segment tag \"%s\" has no numbers left", tag) :
				 errmsg("segment tag \"%s\" goes on at " INT64_FORMAT, tag, result.max_id + 1),
				 errdetail("There was a tag of this name before, and servers may still have its numbers."),
				 errhint("If no server can have them, snowflake_segment_drop(tag, forget => true) lets a new tag of this name begin anywhere.")));
	if (kind != SEGMENT_CREATE && !result.found)
		segment_report_missing(utf8);
	if (kind == SEGMENT_ALTER && !result.changed)
		report_not_altered(tag, options, &result);
}

/*
 * Their functions
 */

/* For null these are 0, see SegmentOptions. */
static int64
getarg_number(FunctionCallInfo fcinfo, int argno, const char *name)
{
	int64		number = PG_ARGISNULL(argno) ? 0 : PG_GETARG_INT64(argno);

	if (number < 1 && !PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s " INT64_FORMAT " is out of range", name, number),
				 errdetail("Numbers of segments begin at 1 or above.")));
	return number;
}

static int32
getarg_step(FunctionCallInfo fcinfo, int argno)
{
	int64		step = PG_ARGISNULL(argno) ? 0 : PG_GETARG_INT64(argno);

	if ((step < 1 || step > PG_INT32_MAX) && !PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("step " INT64_FORMAT " is out of range", step),
				 errdetail("A segment spans from 1 to %d numbers.", PG_INT32_MAX)));
	return (int32) step;
}

static void
getarg_description(FunctionCallInfo fcinfo, int argno, SegmentOptions *options)
{
	char	   *utf8;

	if (PG_ARGISNULL(argno))
		return;
	utf8 = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	utf8 = pg_server_to_any(utf8, (int) strlen(utf8), PG_UTF8);
	if (strlen(utf8) >= sizeof(options->description))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("description is too long"),
				 errdetail("It has %d bytes in UTF-8, and may have %d.",
						   (int) strlen(utf8), (int) sizeof(options->description) - 1)));
	options->has_description = true;
	strcpy(options->description, utf8);
}

/*
 * snowflake_segment_create(tag, start, step, delta, remainder, max_value,
 * description)
 */
Datum
snowflake_segment_create(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"tag", "start", "step", "delta", "remainder", "max_value"};
	SegmentOptions options = {0};
	int64		delta;
	int64		remainder;

	for (int i = 0; i < (int) lengthof(names); i++)
		require_not_null(fcinfo, i, names[i]);
	PreventCommandIfReadOnly("snowflake_segment_create()");

	getarg_description(fcinfo, 6, &options);
	options.start = getarg_number(fcinfo, 1, "start");
	options.step = getarg_step(fcinfo, 2);
	delta = PG_GETARG_INT64(3);
	remainder = PG_GETARG_INT64(4);
	options.max_value = getarg_number(fcinfo, 5, "max_value");

	if (delta < 1 || delta > options.step)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("delta " INT64_FORMAT " is out of range", delta),
				 errdetail("It must be from 1 to step, %d, so that each segment has a number.",
						   options.step)));
	if (remainder < 0 || remainder >= delta)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("remainder " INT64_FORMAT " is out of range", remainder),
				 errdetail("The remainder of a division by delta is from 0 to " INT64_FORMAT ".",
						   delta - 1)));
	if (options.start > options.max_value)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("start " INT64_FORMAT " is above max_value " INT64_FORMAT,
						options.start, options.max_value)));

	options.delta = (int32) delta;
	options.remainder = (int32) remainder;
	run_command(fcinfo, SEGMENT_CREATE, &options);
	PG_RETURN_VOID();
}

/* snowflake_segment_alter(tag, start, step, max_value, description) */
Datum
snowflake_segment_alter(PG_FUNCTION_ARGS)
{
	SegmentOptions options = {0};

	require_not_null(fcinfo, 0, "tag");
	PreventCommandIfReadOnly("snowflake_segment_alter()");

	options.start = getarg_number(fcinfo, 1, "start");
	options.step = getarg_step(fcinfo, 2);
	options.max_value = getarg_number(fcinfo, 3, "max_value");
	getarg_description(fcinfo, 4, &options);

	run_command(fcinfo, SEGMENT_ALTER, &options);
	PG_RETURN_VOID();
}

/* snowflake_segment_drop(tag, forget) */
Datum
snowflake_segment_drop(PG_FUNCTION_ARGS)
{
	SegmentOptions options = {0};

	require_not_null(fcinfo, 0, "tag");
	require_not_null(fcinfo, 1, "forget");
	PreventCommandIfReadOnly("snowflake_segment_drop()");

	options.forget = PG_GETARG_BOOL(1);
	run_command(fcinfo, SEGMENT_DROP, &options);
	PG_RETURN_VOID();
}
