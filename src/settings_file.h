/*-------------------------------------------------------------------------
 *
 * settings_file.h
 *		The settings as they stand in the configuration files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SETTINGS_FILE_H
#define SNOWFLAKE_SETTINGS_FILE_H

#include "nodes/pg_list.h"

#pragma GCC visibility push(hidden)

/* Why the server would not start with what the files have now. */
typedef struct WrongSetting
{
	char	   *what;			/* with the file and line */
	char	   *detail;			/* or NULL */
	char	   *hint;
} WrongSetting;

/*
 * Returns a list of these, in the current memory context.  Only of a server
 * that has the library preloaded.
 */
extern List *settings_file_errors(void);

/* Write them to the server's log. */
extern void settings_file_log(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_SETTINGS_FILE_H */
