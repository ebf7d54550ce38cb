/*-------------------------------------------------------------------------
 *
 * segment_command.c
 *		Creating, altering and dropping segment tags, as a session asks for it.
 *
 * The worker alone talks to the registry, so it is asked to do it; one session
 * at a time.  What it has done is committed in the registry, whatever becomes
 * of the session's transaction.
 *
 * Locking: what a session asks for, and what came of it, is under
 * Segments.lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "segment.h"
#include "utf8.h"
#include "waits.h"
#include "worker.h"

static const char *const names[] = {
	[SEGMENT_CREATE] = "create",
	[SEGMENT_ALTER] = "alter",
	[SEGMENT_DROP] = "drop"
};

/* Has this session asked?  Only then it may touch what is there. */
static bool is_mine = false;

/*
 * This session does not wait for its command any more.
 */
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
 * Put it where the worker sees it, when nothing else is there.
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
		memset(&command->result, 0, sizeof(command->result));
		is_mine = true;
	}
	LWLockRelease(segments->lock);

	if (is_mine)
		segment_ask_services();
	return is_mine;
}

/*
 * Take the result when it is there.
 */
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
 * Sleep on Segments.changed, for a while.  Raises an ERROR when there is no time
 * left.
 */
static void
wait_for_worker(SegmentCommandKind kind, const char *utf8, Wait *wait)
{
	int64		left_ms = (wait_left_us(wait) + 999) / 1000;
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
		wait_begin(wait, WAIT_SEGMENT);
		(void) ConditionVariableTimedSleep(&shared->segments.changed,
										   Min(left_ms, WAIT_SLICE_MS),
										   wait_event(WAIT_SEGMENT));
		wait_end(wait, WAIT_SEGMENT);
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
		/* from here on the worker will not begin with it */
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
					names[kind], utf8_to_server(utf8)),
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
report_registry_error(SegmentCommandKind kind, const char *utf8,
					  const SegmentResult *result)
{
	const char *detail = utf8_to_server(result->detail);
	const char *shown = result->sqlstate == ERRCODE_CONNECTION_FAILURE ?
		text_shown(detail) : detail;

	ereport(ERROR,
			(errcode(result->sqlstate),
			 errmsg("could not %s segment tag \"%s\": %s", names[kind],
					utf8_to_server(utf8), utf8_to_server(result->message)),
			 detail[0] != '\0' ? errdetail("%s", shown) : 0,
			 detail[0] != '\0' ? errdetail_log("%s", detail) : 0,
			 result->hint[0] != '\0' ?
			 errhint("%s", utf8_to_server(result->hint)) : 0));
}

static void
report_not_altered(const char *utf8, const SegmentOptions *options,
				   const SegmentResult *result)
{
	utf8 = utf8_to_server(utf8);
	if (options->has_start && options->start <= result->max_id)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment tag \"%s\" cannot start at " INT64_FORMAT, utf8, options->start),
				 errdetail("Numbers up to " INT64_FORMAT " were given out to servers.", result->max_id)));
	if (options->has_step && options->step < result->delta)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step %d is less than delta %d", options->step, result->delta),
				 errdetail("There could be segments without a number.")));
	if (!options->has_max_value)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment tag \"%s\" cannot start at " INT64_FORMAT, utf8, options->start),
				 errdetail("Its maximum value is lower."),
				 errhint("Raise max_value in the same call.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("segment tag \"%s\" cannot have the maximum value " INT64_FORMAT,
					utf8, options->max_value),
			 errdetail("Numbers up to " INT64_FORMAT " were given out to servers.",
					   options->has_start ? options->start - 1 : result->max_id)));
}

void
segment_command(SegmentCommandKind kind, const char *tag, int length,
				const SegmentOptions *options)
{
	Wait		wait = {0};
	SegmentResult result;
	const char *utf8;

	segment_require();
	utf8 = segment_tag_to_utf8(tag, length);

	ConditionVariablePrepareToSleep(&shared->segments.changed);
	PG_ENSURE_ERROR_CLEANUP(abandon, (Datum) 0);
	{
		while (!try_to_ask(kind, utf8, options))
			wait_for_worker(kind, utf8, &wait);
		while (!try_to_finish(&result))
			wait_for_worker(kind, utf8, &wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(abandon, (Datum) 0);
	ConditionVariableCancelSleep();

	if (result.message[0] != '\0')
		report_registry_error(kind, utf8, &result);
	if (kind == SEGMENT_CREATE && !result.changed)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("segment tag \"%s\" already exists", utf8_to_server(utf8))));
	if (kind == SEGMENT_CREATE && result.max_id >= options->start)
		ereport(NOTICE,
				(errmsg("segment tag \"%s\" goes on at " INT64_FORMAT,
						utf8_to_server(utf8), result.max_id + 1),
				 errdetail("There was a tag of this name before, and servers may still have its numbers."),
				 errhint("If no server can have them, snowflake_segment_drop(tag, forget => true) lets a new tag of this name begin anywhere.")));
	if (kind != SEGMENT_CREATE && !result.found)
		segment_report_missing(utf8);
	if (kind == SEGMENT_ALTER && !result.changed)
		report_not_altered(utf8, options, &result);
}
