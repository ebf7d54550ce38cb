/*-------------------------------------------------------------------------
 *
 * instance.c
 *		Tells this server from copies of it.
 *
 * For the background workers, and at first for the postmaster.  No locking:
 * what is found is kept in the process, and what the postmaster found does not
 * change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/timeline.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "instance.h"
#include "shmem.h"

/* How the kernel names this boot of the machine. */
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/*
 * Before recovery changes it, pg_control says whether the server was a primary
 * when it stopped, in whatever way, and on which timeline.  Not after
 * pg_rewind, which makes it look like a standby; and a base backup has a
 * backup_label, whatever the directory was before.
 */
void
instance_note_start(void)
{
	ControlFileData *control;
	struct stat st;
	bool		crc_ok;

	shared->primary_timeline = 0;
	if (stat(BACKUP_LABEL_FILE, &st) == 0 || errno != ENOENT)
		return;

	control = get_controlfile(DataDir, &crc_ok);
	if (crc_ok &&
		(control->state == DB_IN_PRODUCTION ||
		 control->state == DB_SHUTDOWNED ||
		 control->state == DB_SHUTDOWNING ||
		 control->state == DB_IN_CRASH_RECOVERY))

		/* after a promotion the checkpoint is of before it for a while */
		shared->primary_timeline = Max(control->checkPointCopy.ThisTimeLineID,
									   control->minRecoveryPointTLI);
	pfree(control);
}

/*
 * A primary that is started again stays on its timeline.  The exception is one
 * that was started as a standby and promoted in place.  Then the next timeline
 * begins where the old one ended: at the end of all that this server had
 * written, if recovery had no target and followed no other timeline.
 */
bool
instance_goes_on(TimeLineID timeline)
{
	TimeLineID	current = GetWALInsertionTimeLine();
	List	   *history;

	if (timeline == 0 || timeline != shared->primary_timeline)
		return false;
	if (current == timeline)
		return true;
	history = readTimeLineHistory(current);
	return recoveryTarget == RECOVERY_TARGET_UNSET && list_length(history) > 1 &&
		((TimeLineHistoryEntry *) lsecond(history))->tli == timeline;
}

/*
 * A text that tells this server from a copy of its data directory, and from
 * itself before the machine was booted.  '' where that cannot be known; that
 * is to be taken as equal to nothing.
 */
const char *
instance_text(void)
{
	static char *instance = NULL;
	char		boot_id[64];
	struct stat st;
	FILE	   *file;

	if (instance != NULL)
		return instance;

	file = AllocateFile(BOOT_ID_FILE, "r");
	if (file == NULL)
		return "";
	if (fgets(boot_id, sizeof(boot_id), file) == NULL)
		boot_id[0] = '\0';
	FreeFile(file);
	boot_id[strcspn(boot_id, "\n")] = '\0';
	if (boot_id[0] == '\0' || stat(DataDir, &st) != 0)
		return "";

	instance = MemoryContextStrdup(TopMemoryContext,
								   psprintf("boot %s, device %llu, inode %llu, %s",
											boot_id,
											(unsigned long long) st.st_dev,
											(unsigned long long) st.st_ino,
											DataDir));
	return instance;
}

/*
 * The same as a number of 48 bits, which is below any mark of our time.  Where
 * the text is not known, the number still differs by cluster and timeline.
 */
int64
instance_number(void)
{
	char	   *text = psprintf(UINT64_FORMAT ", timeline %u, %s", GetSystemIdentifier(),
								GetWALInsertionTimeLine(), instance_text());

	return (int64) (hash_bytes_extended((unsigned char *) text, (int) strlen(text), 0) &
					((INT64CONST(1) << 48) - 1));
}

void
instance_name_start(char *name, size_t size)
{
	pg_uuid_t	uuid;

	if (name[0] != '\0')
		return;
	if (!pg_strong_random(uuid.data, UUID_LEN))
		elog(ERROR, "could not generate random values");
	strlcpy(name, DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&uuid))), size);
}
