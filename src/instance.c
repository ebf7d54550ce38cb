/*-------------------------------------------------------------------------
 *
 * instance.c
 *		Tells this server from copies of it.
 *
 * For the background workers, and at first for the postmaster.  No locking:
 * each process keeps what it found, and what the postmaster found does not
 * change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif
#include <unistd.h>

#include "access/timeline.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
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
 * A line that the kernel shows.  False where there is none.
 */
static bool
read_line(const char *path, char *line, size_t size)
{
	FILE	   *file = AllocateFile(path, "r");
	bool		is_read = file != NULL && fgets(line, (int) size, file) != NULL;

	if (file != NULL)
		FreeFile(file);
	if (is_read)
		line[strcspn(line, "\n")] = '\0';
	return is_read && line[0] != '\0';
}

/*
 * A disk that is attached gets the device number of one that was detached, and
 * may be its clone.  So since 5.15 Linux counts the disks of a boot.  The folder
 * of a partition is in that of its disk.  Btrfs, ZFS and network file systems are
 * not on a disk with that number; of the first two a clone has another fsid.
 */
static const char *
disk_count(dev_t device)
{
	const char *folder = psprintf("/sys/dev/block/%u:%u", (unsigned) major(device),
								  (unsigned) minor(device));
	char		count[64];

	if (!read_line(psprintf("%s/diskseq", folder), count, sizeof(count)) &&
		!read_line(psprintf("%s/../diskseq", folder), count, sizeof(count)))
		return "?";
	return pstrdup(count);
}

/*
 * When the control file was created, which is never renamed nor created anew by
 * a running server.  No copy of files keeps it, though one that is put in the
 * place of the data directory may get its inode.
 */
static const char *
created_at(void)
{
#ifdef STATX_BTIME
	struct statx stx;

	if (statx(AT_FDCWD, XLOG_CONTROL_FILE, 0, STATX_BTIME, &stx) == 0 &&
		(stx.stx_mask & STATX_BTIME) != 0)
		return psprintf(INT64_FORMAT ".%09u", (int64) stx.stx_btime.tv_sec,
						(unsigned) stx.stx_btime.tv_nsec);
#endif
	return "?";
}

const char *
instance_host(void)
{
	static char host[256];

	/* where a name is cut, its end may be missing */
	if (gethostname(host, sizeof(host) - 1) != 0)
		strlcpy(host, "?", sizeof(host));
	return host;
}

/*
 * A text that tells this server from a copy of its data directory, and from
 * itself before the machine was booted.  '' where that cannot be known; that
 * is to be taken as equal to nothing.
 *
 * All containers of a machine have one boot_id, and one path.  Names of
 * namespaces would not help: a container that is started again has others, and
 * the next one may have those of one that is gone.  The host name is that of the
 * container or pod.
 */
const char *
instance_text(void)
{
	static char *instance = NULL;
	const char *host = instance_host();
	char		boot_id[64];
	struct stat st;
	struct statvfs fs;

	if (instance != NULL)
		return instance;

	if (!read_line(BOOT_ID_FILE, boot_id, sizeof(boot_id)) || strcmp(host, "?") == 0 ||
		stat(DataDir, &st) != 0 || statvfs(DataDir, &fs) != 0)
		return "";

	instance = MemoryContextStrdup(TopMemoryContext,
								   psprintf("boot %s, host %s, device %llu, disk %s, file system %llx, inode %llu, created %s, %s",
											boot_id, host,
											(unsigned long long) st.st_dev,
											disk_count(st.st_dev),
											(unsigned long long) fs.f_fsid,
											(unsigned long long) st.st_ino,
											created_at(), DataDir));
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
