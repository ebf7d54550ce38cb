/*-------------------------------------------------------------------------
 *
 * check_standby.c
 *		snowflake_check() on a standby: what would happen if it was promoted
 *		now.
 *
 * A standby draws no IDs.  After a promotion it replays what it has received,
 * reads the durable mark there, and draws no ID below the mark, by its own
 * clock.  So a standby can know before: the mark that it has replayed, in the
 * database that has it; how much it has received and not replayed; and, in
 * each database, how far its clock is from the clock of the server that sends
 * the WAL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/sequence.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "replication/walreceiver.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "check_rows.h"
#include "clock.h"
#include "home.h"
#include "record.h"
#include "settings.h"

/*
 * The time that the primary's last message was sent at, by the primary's
 * clock; and how far the clock was behind that when it came.  Returns false
 * when there is no connection.
 */
static bool
clock_behind_sender(CheckState *state, TimestampTz *sent, int64 *behind_us)
{
	TimestampTz received;

	if (!WalRcvStreaming())
		return false;
	SpinLockAcquire(&WalRcv->mutex);
	*sent = WalRcv->lastMsgSendTime;
	received = WalRcv->lastMsgReceiptTime;
	SpinLockRelease(&WalRcv->mutex);

	*behind_us = *sent - received;

	/* what has come has the time of the server's clock */
	if (!clock_can_step())
		*behind_us += GetCurrentTimestamp() - state->now;
	return true;
}

char *
check_standby_node(void)
{
	int			nestlevel = check_begin();
	char	   *node = NULL;

	if (check_query(psprintf("SELECT substring(says, ' as node ([0-9]+)')"
							 " FROM (%s) AS p (datname, says, is_own, is_home) WHERE is_own AND is_home",
							 record_pointers())) > 0)
		node = check_value(0, 1);
	check_end(nestlevel);
	return node;
}

/* Unless it has another number then, a leased one. */
#define AND_THEN \
	(settings_need_lease() ? "" : ", and might then repeat the last IDs of its primary, if it has not received them")

void
check_standby_clock(CheckState *state)
{
	TimestampTz sent;
	int64		behind_us;
	char	   *detail = psprintf("The %s shows %s.", clock_name(), clock_show(state->now));

	if (clock_behind_sender(state, &sent, &behind_us) &&
		behind_us > check_mark_bound_us())
		check_say(state, "warning", "%s It was " INT64_FORMAT " ms behind the clock of the server that sends WAL, by its last message, at %s. After a promotion this server would draw no ID until its clock has caught up%s. Set the server's clock%s.",
				  detail, check_in_ms(behind_us), clock_show(sent), AND_THEN,
				  clock_can_step() ? "" : " and restart the server");
	else
		check_row(state, "ok", detail);
}

/*
 * The durable mark as it is replayed, without a look at rights: a view shows
 * it to everybody once the server draws IDs.  Returns false where there is
 * none, or it is locked.
 */
static bool
read_mark(int64 *mark)
{
	Oid			schema = get_namespace_oid(HOME_EXTENSION, true);
	Oid			relid = OidIsValid(schema) ?
		get_relname_relid("mark", schema) : InvalidOid;
	Relation	relation;
	Buffer		buffer;
	Page		page;
	bool		found = false;

	if (!OidIsValid(relid) ||
		!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	relation = try_relation_open(relid, NoLock);
	if (relation == NULL)
		return false;
	if (relation->rd_rel->relkind == RELKIND_SEQUENCE)
	{
		buffer = ReadBuffer(relation, 0);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		if (PageGetMaxOffsetNumber(page) >= FirstOffsetNumber)
		{
			HeapTupleHeader tuple = (HeapTupleHeader)
				PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));

			*mark = ((Form_pg_sequence_data)
					 ((char *) tuple + tuple->t_hoff))->last_value;
			found = *mark > 0;
		}
		UnlockReleaseBuffer(buffer);
	}
	relation_close(relation, AccessShareLock);
	return found;
}

/*
 * Add what is known of the mark.  Returns whether IDs would have to wait for
 * it longer than after a crash of the primary; in other databases than the
 * mark's, "unknown".
 */
static const char *
describe_mark(CheckState *state, StringInfo detail)
{
	const char *database = get_database_name(MyDatabaseId);
	int64		mark;
	TimestampTz reserved;
	int64		ahead_us;

	if (database == NULL || strcmp(database, snowflake_database) != 0)
	{
		appendStringInfo(detail, " To see whether it could draw IDs after a promotion, run snowflake_check() in database \"%s\", which has the durable mark.",
						 snowflake_database);
		return "unknown";
	}
	if (!read_mark(&mark))
	{
		appendStringInfoString(detail, " It has not received a durable mark.");
		return "ok";
	}
	reserved = mark - UNIX_EPOCH_US;
	if (!IS_VALID_TIMESTAMP(reserved))
		reserved = DT_NOEND;
	ahead_us = reserved - state->now;
	appendStringInfo(detail, " The durable mark that it has received and replayed is %s, which is " INT64_FORMAT " ms %s the clock.",
					 clock_show(reserved),
					 check_in_ms(ahead_us > 0 ? ahead_us : -ahead_us),
					 ahead_us > 0 ? "ahead of" : "behind");
	if (ahead_us <= check_mark_bound_us())
		return "ok";
	appendStringInfo(detail, " After a promotion this server would draw no ID for " INT64_FORMAT " ms, until its clock plus \"snowflake.max_drift\" has reached the mark%s. If the clock is wrong, set it%s.",
					 check_in_ms(ahead_us - MAX_DRIFT_US), AND_THEN,
					 clock_can_step() ? "" : " and restart the server");
	return "warning";
}

/*
 * Add how much is received and not replayed, where that is more than a little
 * or on purpose.  Returns whether it is so much that it takes a while.
 */
static bool
describe_replay(StringInfo detail)
{
	int			nestlevel = check_begin();
	bool		is_much = false;

	/* what is received is not known without a connection so far */
	if (check_query("SELECT pg_size_pretty(d), d > wal.size, d > max.size,"
					  " CASE WHEN pg_get_wal_replay_pause_state() <> 'not paused' THEN ', as the replay is paused'"
					  " WHEN current_setting('recovery_min_apply_delay') <> '0'"
					  " THEN format(', as \"recovery_min_apply_delay\" is %s', current_setting('recovery_min_apply_delay')) END"
					  " FROM pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) d,"
					  " pg_size_bytes(current_setting('wal_segment_size')) wal (size),"
					  " pg_size_bytes(current_setting('max_wal_size')) max (size)"
					  " WHERE d > 0") > 0 &&
		(check_value_bool(0, 2) || check_value(0, 4) != NULL))
	{
		appendStringInfo(detail, " It has received WAL and not replayed it yet: %s%s. A promotion replays it first, which may raise the mark.",
						 check_value(0, 1), check_value(0, 4) ? check_value(0, 4) : "");
		is_much = check_value_bool(0, 3);
		if (is_much)
			appendStringInfoString(detail, " This WAL is larger than \"max_wal_size\". Until it is replayed, no ID is drawn.");
	}
	check_end(nestlevel);
	return is_much;
}

void
check_standby_mark(CheckState *state)
{
	StringInfoData detail;
	const char *status;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "This is a standby, which draws no IDs.");
	status = describe_mark(state, &detail);
	if (describe_replay(&detail))
		status = "warning";
	check_row(state, status, detail.data);
}
