/*-------------------------------------------------------------------------
 *
 * alarm.c
 *		Lines for the server's log that must not fill it.
 *
 * A failure often hits all backends at once, again and again until somebody
 * mends the cause.  One of the backends says so, once a minute.
 *
 * Locking: none, see shmem.h.  Of two backends at the same moment one wins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "alarm.h"
#include "clock.h"

#define ALARM_INTERVAL_US	(60 * USECS_PER_SEC)

bool
alarm_is_due(AlarmKind kind, uint64 *left_out)
{
	Alarm	   *alarm = &shared->alarms[kind];
	uint64		now = (uint64) clock_read_steady();
	uint64		last = pg_atomic_read_u64(&alarm->at);

	if ((last != 0 && now < last + ALARM_INTERVAL_US) ||
		!pg_atomic_compare_exchange_u64(&alarm->at, &last, now))
	{
		pg_atomic_fetch_add_u64(&alarm->left_out, 1);
		*left_out = 0;
		return false;
	}
	*left_out = pg_atomic_exchange_u64(&alarm->left_out, 0);
	return true;
}

const char *
alarm_left_out(uint64 left_out)
{
	if (left_out == 0)
		return "";
	return psprintf(" Not shown since the last message of this kind: " UINT64_FORMAT ".",
					left_out);
}
