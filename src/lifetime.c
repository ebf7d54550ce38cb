/*-------------------------------------------------------------------------
 *
 * lifetime.c
 *		The end of the layout's time: how far it is, and what to say of it.
 *
 * Calls layout.c and clock.c, reads the settings, and nothing else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "clock.h"
#include "lifetime.h"
#include "settings.h"

int64
lifetime_left(uint64 time)
{
	uint64		units = time > MAX_TIME ? 0 : MAX_TIME + 1 - time;

	if (units > (uint64) (PG_INT64_MAX / snowflake_layout.unit_us))
		return PG_INT64_MAX;
	return (int64) units * snowflake_layout.unit_us;
}

char *
lifetime_detail(void)
{
	TimestampTz end;

	if (!clock_timestamp_of_unit(MAX_TIME + 1, &end))
		end = DT_NOEND;
	return psprintf("The layout \"%s\" with epoch %s ends at %s.",
					snowflake_layout_text,
					pstrdup(timestamptz_to_str(snowflake_epoch)),
					pstrdup(timestamptz_to_str(end)));
}

/*
 * More time bits on top of all others change no ID that there is, and none
 * that is drawn before the old end either.  Where there is no room for them,
 * there is none for larger IDs: with a later epoch the numbers come again.
 */
char *
lifetime_hint(void)
{
	int			spare = LAYOUT_MAX_BITS - snowflake_layout.total_bits;

	if (spare > 0 && layout_sorts_by_time(&snowflake_layout))
		return psprintf("Give the time field more bits, up to %d, restart the server and call snowflake_accept_layout(). Existing IDs keep their meaning, and new ones are larger.",
						snowflake_layout.bits[FIELD_TIME] + spare);
	return pstrdup("Set a later \"snowflake.epoch\", with which the IDs begin anew, and a \"snowflake.node_id\" that no server has had, unless the new IDs go to tables without old ones. Then restart the server and call snowflake_accept_layout().");
}
