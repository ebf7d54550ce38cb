/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Make the shared memory, and say what to do if there is none because the
 *		library is not preloaded.
 *
 * That is the first thing that a new user meets.  So the error names all that
 * is missing: the value as it is, and the lines with which one restart is
 * enough.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "compat.h"
#include "settings.h"
#include "shmem.h"

#define LWLOCK_TRANCHE_NAME "snowflake"

SharedState *shared = NULL;

/*
 * For those that are prepared, and in each process one that is about to be,
 * which may find that others were before it.
 */
static int
prepared_notes(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

static Size
shmem_size(void)
{
	Size		size = sizeof(SharedState);

	size = add_size(size, mul_size(settings_slots(), sizeof(Slot)));
	size = add_size(size, mul_size(MaxBackends, sizeof(BackendEntry)));
	size = add_size(size, mul_size(snowflake_max_segment_tags, sizeof(Segment)));
	size = add_size(size, mul_size(prepared_notes(), sizeof(PreparedNote)));

	/* to begin on a cache line of our own */
	return add_size(size, PG_CACHE_LINE_SIZE);
}

void
shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche(LWLOCK_TRANCHE_NAME, 3);
}

/*
 * Make it, in the postmaster, or find it.  Returns whether it is new: then
 * each module has to give its part the first values.  AddinShmemInitLock is
 * held.
 */
bool
shmem_make(void)
{
	bool		found;
	LWLockPadded *locks;
	pg_atomic_uint64 *counters;

	/* in case this is a restart within the postmaster */
	shared = NULL;

	shared = (SharedState *)
		TYPEALIGN(PG_CACHE_LINE_SIZE, ShmemInitStruct("snowflake", shmem_size(), &found));
	if (found)
		return false;

	memset(shared, 0, shmem_size() - PG_CACHE_LINE_SIZE);
	locks = GetNamedLWLockTranche(LWLOCK_TRANCHE_NAME);
	shared->lock = &locks[0].lock;
	shared->backfill.lock = &locks[1].lock;
	shared->segments.lock = &locks[2].lock;
	shared->nslots = settings_slots();
	shared->nbackends = MaxBackends;
	shared->nsegments = snowflake_max_segment_tags;
	shared->nprepared = prepared_notes();
	shared->slots = (Slot *) (shared + 1);
	shared->backends = (BackendEntry *) (shared->slots + shared->nslots);
	shared->segment_entries = (Segment *) (shared->backends + shared->nbackends);
	shared->prepared = (PreparedNote *) (shared->segment_entries + shared->nsegments);

	shared->backfill.tables = DSM_HANDLE_INVALID;
	counters = (pg_atomic_uint64 *) &shared->stats;
	for (size_t i = 0; i < STATS_COUNTERS; i++)
		pg_atomic_init_u64(&counters[i], 0);
	shared->stats_reset.at = GetCurrentTimestamp();
	return true;
}

/*
 * Raise an ERROR where the library was not preloaded.  The purpose completes
 * "must be loaded ... to".
 */
void
shmem_require(const char *purpose)
{
	if (shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake must be loaded via \"shared_preload_libraries\" to %s",
						purpose),
				 errdetail("%s", preload_detail()),
				 errhint("%s", preload_hint())));
}

#define PRELOAD	"shared_preload_libraries"

/*
 * What is preloaded, or NULL for a caller who may not see it.  In the script
 * of an extension one has another's rights.
 */
static const char *
preloaded(void)
{
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS) ||
		!has_privs_of_role(GetOuterUserId(), ROLE_PG_READ_ALL_SETTINGS))
		return NULL;
	return GetConfigOption(PRELOAD, false, false);
}

char *
preload_detail(void)
{
	const char *value = preloaded();
	const char *was = value == NULL ? "does not name \"snowflake\"" :
		value[0] == '\0' ? "is empty" : psprintf("is \"%s\"", value);

	if (setting_awaits_restart(PRELOAD))
		return psprintf("The running server's \"" PRELOAD "\" %s. The configuration has another value, which takes effect at a restart.",
						was);
	return psprintf("\"" PRELOAD "\" %s.", was);
}

char *
preload_hint(void)
{
	const char *value = preloaded();
	char	   *lines;
	char	   *number = "";

	if (value != NULL && value[0] != '\0')
		lines = psprintf(PRELOAD " = %s", quote_literal_cstr(psprintf("%s, snowflake", value)));
	else
		lines = PRELOAD " = 'snowflake'";
	if (value == NULL)
		lines = psprintf("%s (after the libraries that it has already)", lines);
	if (settings_need_lease() && snowflake_registry[0] == '\0')
	{
		lines = psprintf("%s and snowflake.node_id = 1", lines);
		number = psprintf(", with a number from 0 to " UINT64_FORMAT " that no other server has",
						  (uint64) snowflake_layout.max[FIELD_NODE]);
	}

	if (setting_awaits_restart(PRELOAD))
		return psprintf("Restart the server: a reload is not enough. postgresql.conf needs %s%s.",
						lines, number);
	return psprintf("Write %s into postgresql.conf%s, and restart the server.",
					lines, number);
}
