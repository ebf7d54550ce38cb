/*-------------------------------------------------------------------------
 *
 * full.c
 *		Preloaded by a server, lets it believe that a disk is full.
 *
 * While the file FULL_FILE is there, no file in or below the folder FULL_DIR
 * can grow.  What is in them can be written over, as on a disk that is full.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool
is_too_much(int fd, off_t end)
{
	int			save_errno = errno;
	const char *dir = getenv("FULL_DIR");
	char		link[64];
	char		path[PATH_MAX];
	struct stat st;
	ssize_t		length = -1;
	bool		result;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (access(getenv("FULL_FILE"), F_OK) == 0)
		length = readlink(link, path, sizeof(path) - 1);
	result = length > (ssize_t) strlen(dir) &&
		strncmp(path, dir, strlen(dir)) == 0 &&
		fstat(fd, &st) == 0 && end > st.st_size;
	errno = result ? ENOSPC : save_errno;
	return result;
}

#define NEXT(name) \
	static __typeof__(&name) next; \
	if (next == NULL) \
		next = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

#define PWRITE(name) \
ssize_t \
name(int fd, const void *data, size_t size, off_t offset) \
{ \
	NEXT(name); \
	return is_too_much(fd, offset + (off_t) size) ? -1 : next(fd, data, size, offset); \
}

#define PWRITEV(name) \
ssize_t \
name(int fd, const struct iovec *parts, int n, off_t offset) \
{ \
	off_t		end = offset; \
	NEXT(name); \
	for (int i = 0; i < n; i++) \
		end += (off_t) parts[i].iov_len; \
	return is_too_much(fd, end) ? -1 : next(fd, parts, n, offset); \
}

/* returns the error, and does not set errno */
#define FALLOCATE(name) \
int \
name(int fd, off_t offset, off_t size) \
{ \
	NEXT(name); \
	return is_too_much(fd, offset + size) ? ENOSPC : next(fd, offset, size); \
}

int			posix_fallocate(int fd, off_t offset, off_t size);
int			posix_fallocate64(int fd, off_t offset, off_t size);

PWRITE(pwrite)
PWRITE(pwrite64)
PWRITEV(pwritev)
PWRITEV(pwritev64)
FALLOCATE(posix_fallocate)
FALLOCATE(posix_fallocate64)
