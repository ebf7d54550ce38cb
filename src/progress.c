/*-------------------------------------------------------------------------
 *
 * progress.c
 *		Tell the caller of a function that takes long how far it is.
 *
 * A function that loops over tables or partitions asks progress_due() after
 * each, and then raises a NOTICE of its own.  client_min_messages silences it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "progress.h"

#define INTERVAL_SECONDS 5

static double
elapsed(Progress *progress)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, progress->start);
	return INSTR_TIME_GET_DOUBLE(now);
}

void
progress_start(Progress *progress)
{
	INSTR_TIME_SET_CURRENT(progress->start);
	progress->told = 0;
}

bool
progress_due(Progress *progress)
{
	double		now = elapsed(progress);

	if (now < progress->told + INTERVAL_SECONDS)
		return false;
	progress->told = now;
	return true;
}

char *
progress_left(Progress *progress, int64 done, int64 total)
{
	return progress_duration(elapsed(progress) * (total - done) / Max(done, 1));
}

char *
progress_duration(double seconds)
{
	if (seconds < 100)
		return psprintf("%.0f s", ceil(seconds));
	if (seconds < 100 * 60)
		return psprintf("%.0f min", ceil(seconds / 60));
	return psprintf("%.0f h", ceil(seconds / 3600));
}
