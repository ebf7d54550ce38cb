/*-------------------------------------------------------------------------
 *
 * suspend.c
 *		Preloaded by a server, lets it believe that its machine was suspended.
 *
 * What goes on meanwhile, the wall clock and CLOCK_BOOTTIME, is ahead by as
 * many seconds as the file SUSPENDED_FILE says.  CLOCK_MONOTONIC is as it is.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long
suspended(void)
{
	int			save_errno = errno;
	char		text[32] = "";
	int			fd = open(getenv("SUSPENDED_FILE"), O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	errno = save_errno;
	return atol(text);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			result = syscall(SYS_clock_gettime, clock, ts);

	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME))
		ts->tv_sec += suspended();
	return result;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	int			result = syscall(SYS_gettimeofday, tv, tz);

	if (result == 0)
		tv->tv_sec += suspended();
	return result;
}
