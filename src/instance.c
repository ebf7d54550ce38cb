/*-------------------------------------------------------------------------
 *
 * instance.c
 *		Tells this server from copies of it.
 *
 * For the background workers.  No locking: what is found is kept in the process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "instance.h"

/* How the kernel names this boot of the machine. */
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/*
 * What this server is: not the same for a copy of its data directory, nor
 * after the machine was booted, nor after a promotion or a recovery to an
 * earlier time.  '' where that cannot be known, which is the same as nothing.
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
								   psprintf("boot %s, device %llu, inode %llu, timeline %u, %s",
											boot_id,
											(unsigned long long) st.st_dev,
											(unsigned long long) st.st_ino,
											GetWALInsertionTimeLine(),
											DataDir));
	return instance;
}

/*
 * As a number of 48 bits, which is below any mark of our time.  Where the text is
 * not known, still the same for this cluster on this timeline alone.
 */
int64
instance_number(void)
{
	char	   *text = psprintf(UINT64_FORMAT ", timeline %u, %s", GetSystemIdentifier(),
								GetWALInsertionTimeLine(), instance_text());

	return (int64) (hash_bytes_extended((unsigned char *) text, (int) strlen(text), 0) &
					((INT64CONST(1) << 48) - 1));
}
