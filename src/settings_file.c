/*-------------------------------------------------------------------------
 *
 * settings_file.c
 *		Will the server start with the settings that its files have now?
 *
 * At a reload the server checks a value and goes on with the one it has; with a
 * node number it does so by the layout in use, not by that of the next start.
 * So a wrong value is found out when the server does not start again, and with
 * a configuration that many servers share, all of them may stand still then.
 *
 * What is on the server's command line is not looked at.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "dialect.h"
#include "settings.h"
#include "settings_file.h"

/*
 * What the files have, in the order in which they are read: of two lines for a
 * setting the later one counts.
 */
static ConfigVariable *
read_files(void)
{
	ConfigVariable *head = NULL;
	ConfigVariable *tail = NULL;

	/* the server itself has logged what it cannot read */
	(void) ParseConfigFile(ConfigFileName, true, NULL, 0, 0, DEBUG5, &head, &tail);
	(void) ParseConfigFile(PG_AUTOCONF_FILENAME, false, NULL, 0, 0, DEBUG5, &head, &tail);
	return head;
}

static bool
is_overridden(const ConfigVariable *line)
{
	for (const ConfigVariable *later = line->next; later != NULL; later = later->next)
	{
		if (later->name != NULL && pg_strcasecmp(later->name, line->name) == 0)
			return true;
	}
	return false;
}

List *
settings_file_errors(void)
{
	ConfigVariable *lines = read_files();
	Layout		layout = snowflake_layout;
	List	   *errors = NIL;

	for (ConfigVariable *line = lines; line != NULL; line = line->next)
	{
		Layout		configured;
		LayoutError error;

		if (line->name != NULL && pg_strcasecmp(line->name, "snowflake.layout") == 0 &&
			dialect_or_layout_parse(line->value, &configured, &error))
			layout = configured;
	}

	for (ConfigVariable *line = lines; line != NULL; line = line->next)
	{
		const char *name = line->name != NULL ? settings_name(line->name) : NULL;
		ErrorData  *error;
		WrongSetting *wrong;

		if (name == NULL || is_overridden(line))
			continue;
		error = settings_try(name, line->value, &layout);
		if (error == NULL)
			continue;
		wrong = palloc(sizeof(WrongSetting));
		wrong->what = psprintf("%s, in file \"%s\", line %d",
							   error->message, line->filename, line->sourceline);
		wrong->detail = error->detail;
		wrong->hint = psprintf("Correct \"%s\" in that file before the next restart.%s%s",
							   name, error->hint ? " " : "", error->hint ? error->hint : "");
		errors = lappend(errors, wrong);
	}
	return errors;
}

void
settings_file_log(void)
{
	ListCell   *cell;

	foreach(cell, settings_file_errors())
	{
		const WrongSetting *wrong = lfirst(cell);

		ereport(WARNING,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the server will not start again: %s", wrong->what),
				 wrong->detail != NULL ? errdetail("%s", wrong->detail) : 0,
				 errhint("%s", wrong->hint)));
	}
}
