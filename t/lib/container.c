/*-------------------------------------------------------------------------
 *
 * container.c
 *		Preloaded by a server, lets it believe that it is in a container.
 *
 * CONTAINER_HOST is the name of its host.  What Linux counts the disk as that
 * its data is on, is in the file CONTAINER_DISK: that is a partition of it.  The
 * number of its file system is CONTAINER_FSID.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

int
gethostname(char *name, size_t size)
{
	strncpy(name, getenv("CONTAINER_HOST"), size);
	return 0;
}

FILE *
fopen(const char *path, const char *mode)
{
	FILE	   *(*next) (const char *, const char *) = dlsym(RTLD_NEXT, "fopen");

	if (strncmp(path, "/sys/dev/block/", 15) != 0)
		return next(path, mode);
	if (strstr(path, "/../diskseq") != NULL)
		return next(getenv("CONTAINER_DISK"), mode);
	errno = ENOENT;
	return NULL;
}

int
statvfs(const char *restrict path, struct statvfs *restrict fs)
{
	int			(*next) (const char *, struct statvfs *) = dlsym(RTLD_NEXT, "statvfs");
	int			result = next(path, fs);

	fs->f_fsid = strtoul(getenv("CONTAINER_FSID"), NULL, 10);
	return result;
}
