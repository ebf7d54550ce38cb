/*-------------------------------------------------------------------------
 *
 * preload.c
 *		What to do where the library is not preloaded.
 *
 * The first thing that a new user meets, so it names all that is missing: the
 * value as it is, and the lines with which one restart is enough.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "compat.h"
#include "preload.h"
#include "settings.h"

#define PRELOAD	"shared_preload_libraries"

/*
 * What is preloaded, or NULL for a caller who may not see it.  In the script of
 * an extension one has another's rights.
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
		return psprintf("The running server's \"" PRELOAD "\" %s. The configuration has another value, which counts after a restart.",
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
