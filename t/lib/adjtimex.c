/*-------------------------------------------------------------------------
 *
 * adjtimex.c
 *		Preloaded by a server, tells it what the kernel says of its clock.
 *
 * The file ADJTIMEX_FILE has what adjtimex() returns, and the status in
 * numbers; -1 is that the call is refused.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timex.h>
#include <unistd.h>

int
adjtimex(struct timex *timex)
{
	char		text[32] = "";
	int			result;
	int			fd = open(getenv("ADJTIMEX_FILE"), O_RDONLY);

	if (timex->modes != 0 || fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 ||
		sscanf(text, "%d %d", &result, &timex->status) != 2)
		abort();
	close(fd);
	errno = EPERM;
	return result;
}
