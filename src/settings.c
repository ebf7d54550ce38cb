/*-------------------------------------------------------------------------
 *
 * settings.c
 *		Define the settings, check each value when it is set, and check whether
 *		the server could start with the values in its files.
 *
 * layout, epoch and node_id decide what an ID means, so they are fixed when
 * the server starts.  If the library is not preloaded, it draws nothing, and
 * they only serve the functions that read IDs.  The server then lets us define
 * nothing stricter than a setting of the configuration file, so a reload
 * changes them in a running session.
 *
 * The server starts with a WARNING and the default when a custom setting is
 * wrong.  IDs made with an unintended layout, epoch or node could be IDs of
 * another server, so here it does not start at all: see settings_define().
 * Nor is the library loaded into a session to read IDs in an unintended way.
 *
 * At a reload the server checks a value, a node number by the layout in use and
 * not by that of the next start, and goes on with the value that it has.  So a
 * wrong one would be found out when the server does not start again, perhaps all
 * servers that share a configuration.  So after each reload the files are read
 * once more, to warn of that.  The server's command line is not looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "libpq-fe.h"

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "dialect.h"
#include "other_extensions.h"
#include "settings.h"

int			snowflake_node_id = NODE_ID_UNSET;
TimestampTz snowflake_epoch;
Layout		snowflake_layout;
const char *snowflake_layout_text;
int			snowflake_clock = CLOCK_MODE_SYSTEM;
int			snowflake_max_drift;
int			snowflake_max_wait;
int			snowflake_sequence_start = SEQUENCE_START_RANDOM;
int			snowflake_sequence_start_max = SEQUENCE_START_MAX_AUTO;
char	   *snowflake_database;
int			snowflake_reserve_window;
char	   *snowflake_registry;
int			snowflake_lease_ttl;
int			snowflake_max_clock_skew;
int			snowflake_clock_skew_action = SKEW_WARN;
int			snowflake_max_segment_tags;

bool		snowflake_settings_fixed = false;

/* What numbers must fit: the layout in use, or that of the next start. */
static const Layout *layout_to_fit = &snowflake_layout;

static char *epoch_string;
static char *layout_string;
static char *recorded;
static char *restored;
static char *backfilled;

static const struct config_enum_entry clock_options[] = {
	{"system", CLOCK_MODE_SYSTEM, false},
	{"monotonic", CLOCK_MODE_MONOTONIC, false},
	{"logical", CLOCK_MODE_LOGICAL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry sequence_start_options[] = {
	{"zero", SEQUENCE_START_ZERO, false},
	{"continue", SEQUENCE_START_CONTINUE, false},
	{"random", SEQUENCE_START_RANDOM, false},
	{NULL, 0, false}
};

static const struct config_enum_entry clock_skew_action_options[] = {
	{"warn", SKEW_WARN, false},
	{"stop", SKEW_STOP, false},
	{NULL, 0, false}
};

static const char *const setting_names[] = {
	"snowflake.layout",
	"snowflake.epoch",
	"snowflake.node_id",
	"snowflake.clock",
	"snowflake.max_drift",
	"snowflake.max_wait",
	"snowflake.sequence_start",
	"snowflake.sequence_start_max",
	"snowflake.database",
	"snowflake.reserve_window",
	"snowflake.registry",
	"snowflake.lease_ttl",
	"snowflake.max_clock_skew",
	"snowflake.clock_skew_action",
	"snowflake.max_segment_tags",
};

static bool
check_layout(char **newval, void **extra, GucSource source)
{
	Layout		layout;
	LayoutError error;

	if (!dialect_or_layout_parse(*newval, &layout, &error))
	{
		GUC_check_errdetail("%s", error.message);
		GUC_check_errhint("A layout lists its fields from the highest bit to the lowest, as in \"time:41 node:5 worker:5 sequence:12\", or is the name of a dialect, as in \"twitter\".");
		return false;
	}
	return true;
}

static void
assign_layout(const char *newval, void *extra)
{
	const Dialect *dialect = dialect_find(newval);
	LayoutError error;

	/* it is one, as was checked */
	(void) dialect_or_layout_parse(newval, &snowflake_layout, &error);
	snowflake_layout_text = dialect ? dialect->layout : newval;
}

/*
 * Read an instant that means the same wherever and whenever it is read: it
 * carries a time zone and none of the words "now", "today" and so on.
 * Returns NULL, or the reason why not.
 */
static const char *
read_epoch_in_order(const char *str, TimestampTz *epoch)
{
	char		workbuf[MAXDATELEN + MAXDATEFIELDS];
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			nf;
	int			dtype;
	struct pg_tm tm;
	fsec_t		fsec;
	int			tz;
	DateTimeErrorExtra extra;

	if (ParseDateTime(str, workbuf, sizeof(workbuf), field, ftype, MAXDATEFIELDS, &nf) != 0)
		return "It is not a date and time.";

	for (int i = 0; i < nf; i++)
	{
		int			value;

		if ((ftype[i] == DTK_STRING || ftype[i] == DTK_SPECIAL) &&
			DecodeSpecial(i, field[i], &value) == RESERV)
			return "It must be a date and time written out in numbers.";
	}

	if (DecodeDateTime(field, ftype, nf, &dtype, &tm, &fsec, &tz, &extra) != 0 ||
		dtype != DTK_DATE || tm2timestamp(&tm, fsec, &tz, epoch) != 0)
		return "It is not a date and time.";

	/* The parser, told to accept no zone, fails where there is one. */
	if (ParseDateTime(str, workbuf, sizeof(workbuf), field, ftype,
					  MAXDATEFIELDS, &nf) != 0 ||
		DecodeDateTime(field, ftype, nf, &dtype, &tm, &fsec, NULL, &extra) == 0)
		return "It has no time zone, so it would be another instant on another server.";

	if (*epoch < SetEpochTimestamp())
		return "It is before 1970-01-01 00:00:00+00.";
	return NULL;
}

/* The same, in whatever order sessions write day and month (DateStyle). */
static const char *
read_epoch(const char *str, TimestampTz *epoch)
{
	const int	orders[] = {DATEORDER_YMD, DATEORDER_DMY, DATEORDER_MDY};
	const int	order = DateOrder;
	const char *reason = read_epoch_in_order(str, epoch);
	TimestampTz other;

	for (int i = 0; i < (int) lengthof(orders) && reason == NULL; i++)
	{
		DateOrder = orders[i];
		if (read_epoch_in_order(str, &other) != NULL || other != *epoch)
			reason = "Its day and month could be mistaken for each other.";
	}
	DateOrder = order;
	return reason;
}

static bool
check_epoch(char **newval, void **extra, GucSource source)
{
	TimestampTz epoch;
	const char *reason = read_epoch(*newval, &epoch);

	if (reason != NULL)
	{
		GUC_check_errdetail("%s", reason);
		GUC_check_errhint("Write the instant of time 0 with its zone, as in \"2020-01-01 00:00:00+00\".");
		return false;
	}

	*extra = guc_malloc(LOG, sizeof(TimestampTz));
	if (*extra == NULL)
		return false;
	memcpy(*extra, &epoch, sizeof(TimestampTz));
	return true;
}

static void
assign_epoch(const char *newval, void *extra)
{
	memcpy(&snowflake_epoch, extra, sizeof(TimestampTz));
}

/*
 * The epoch where none is set: that of the dialect that snowflake.layout names.
 * It stays as it is while the library is loaded.  So where that is not
 * preloaded, and the layout becomes another dialect by a reload, a session
 * that has the library reads with the former epoch until it ends; an epoch
 * that is set changes with the layout.
 */
static const char *
default_epoch(void)
{
	static char str[MAXDATELEN + 1];
	const Dialect *dialect = dialect_find(layout_string);
	struct pg_tm tm;
	fsec_t		fsec;

	if (dialect == NULL)
		return "2020-01-01 00:00:00+00";

	if (timestamp2tm(dialect->epoch_ms * 1000 - UNIX_EPOCH_US, NULL, &tm,
					 &fsec, NULL, NULL) != 0)
		elog(ERROR, "timestamp out of range");
	EncodeDateTime(&tm, fsec, false, 0, NULL, USE_ISO_DATES, str);
	strlcat(str, "+00", sizeof(str));
	return str;
}

/*
 * A number that goes into a field must fit it.  The layout is defined first,
 * so it is known here.
 */
static bool
check_field_number(const char *setting, int number, LayoutField field)
{
	const char *name = layout_field_name(field);
	uint64		max = layout_to_fit->max[field];

	if (number < 0 || (uint64) number <= max)
		return true;

	GUC_check_errdetail("The field \"%s\" of snowflake.layout has %d bits, so the largest number is " UINT64_FORMAT ".",
						name, layout_to_fit->bits[field], max);
	if (max == 0)
		GUC_check_errhint("Remove \"%s\", or first set \"snowflake.layout\" to a layout with the field \"%s\" and restart the server.",
						  setting, name);
	else
		GUC_check_errhint("Set \"%s\" to a number from 0 to " UINT64_FORMAT ". For a larger one, first set \"snowflake.layout\" to a layout with more bits for the field \"%s\", and restart the server.",
						  setting, max, name);
	return false;
}

static bool
check_node_id(int *newval, void **extra, GucSource source)
{
	return check_field_number("snowflake.node_id", *newval, FIELD_NODE);
}

static bool
check_sequence_start_max(int *newval, void **extra, GucSource source)
{
	return check_field_number("snowflake.sequence_start_max", *newval, FIELD_SEQUENCE);
}

static bool
check_database(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0')
	{
		GUC_check_errdetail("The durable mark needs a database.");
		return false;
	}
	if (strlen(*newval) >= NAMEDATALEN)
	{
		GUC_check_errdetail("The name of a database has at most %d bytes.",
							NAMEDATALEN - 1);
		return false;
	}
	return true;
}

/*
 * Is it the name of an option in a string that nobody has put a password into?
 */
static bool
is_option_name(const char *word, int length, const char *value)
{
	if (length == 0 || strstr(value, "password") != NULL)
		return false;
	for (const char *c = value; *c != '\0'; c++)
	{
		if (strncmp(c, word, length) == 0 && c[length] == '=' &&
			(c == value || strchr(" ?&", c[-1]) != NULL))
			return true;
	}
	return false;
}

/*
 * Why libpq does not understand a value, on one line.  It quotes parts of it,
 * which may be of a secret: from the first such to the last they are left out.
 */
static char *
reason_without_secrets(const char *error, const char *value)
{
	char	   *reason = pnstrdup(error, strcspn(error, "\n"));
	char	   *last = strrchr(reason, '"');
	char	   *quote = strchr(reason, '"');

	while (quote != NULL)
	{
		char	   *word = quote + 1;
		int			length = strcspn(word, "\"");

		if (length != 1 && !is_option_name(word, length, value))
			return psprintf("%.*s\"...%s", (int) (quote - reason), reason,
							last > quote ? last : "");
		quote = word[length] == '\0' ? NULL : strchr(word + length + 1, '"');
	}
	return reason;
}

/* A connection string, without a secret in it. */
static bool
check_registry(char **newval, void **extra, GucSource source)
{
	PQconninfoOption *options;
	char	   *error = NULL;
	const char *secret = NULL;

	if (**newval == '\0')
		return true;

	/* the server's own message shows the value, which may have a password */
	GUC_check_errmsg("invalid value for parameter \"snowflake.registry\"");
	options = PQconninfoParse(*newval, &error);
	if (options == NULL)
	{
		if (error == NULL)
			GUC_check_errdetail("It is not a connection string.");
		else
			GUC_check_errdetail("It is not a connection string: %s.",
								reason_without_secrets(error, *newval));
		GUC_check_errhint("Write it as for psql, as in \"host=registry.example dbname=registry user=snowflake\".");
		PQfreemem(error);
		return false;
	}

	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val != NULL && strchr(option->dispchar, '*') != NULL)
			secret = option->keyword;
	}
	if (secret != NULL)
	{
		GUC_check_errdetail("It has the option \"%s\", which everybody who can read the configuration could read.",
							secret);
		GUC_check_errhint("Put the password into a password file (option \"passfile\") or a service file (option \"service\").");
	}
	PQconninfoFree(options);
	return secret == NULL;
}

/* What an ID means.  The layout comes first, others depend on it. */
static void
define_ids(GucContext fixed)
{
	DefineCustomStringVariable("snowflake.layout",
							   "Fields of an ID from the highest bit to the lowest, each with its width in bits.",
							   "The time field may name its unit, as in \"time:39@10ms\"; the default is 1ms. The value may also be the name of a dialect, as in \"twitter\".",
							   &layout_string, "time:41 node:5 worker:5 sequence:12",
							   fixed, 0, check_layout, assign_layout, NULL);

	DefineCustomStringVariable("snowflake.epoch",
							   "Instant at which the time in IDs begins, with its time zone.",
							   "The default is the epoch of the dialect, if \"snowflake.layout\" names one.",
							   &epoch_string, default_epoch(),
							   fixed, 0, check_epoch, assign_epoch, NULL);

	DefineCustomIntVariable("snowflake.node_id",
							"Number of this server, which no other server may have; -1 means not set.", NULL,
							&snowflake_node_id, NODE_ID_UNSET, NODE_ID_UNSET, INT_MAX,
							fixed, 0, check_node_id, NULL, NULL);
}

/* How IDs are drawn: by which clock, how far ahead of it, beginning where. */
static void
define_drawing(GucContext fixed)
{
	DefineCustomEnumVariable("snowflake.clock",
							 "Clock that the time in an ID is taken from.",
							 "\"system\" follows the system's clock. \"monotonic\" and \"logical\" read it at server start; then monotonic counts elapsed time, and logical moves on as IDs are drawn.",
							 &snowflake_clock, CLOCK_MODE_SYSTEM, clock_options,
							 fixed, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("snowflake.max_drift",
							"How far the time in an ID may run ahead of the clock.",
							"It does so after the clock has stepped back, and when all sequence numbers of a time unit are used up.",
							&snowflake_max_drift, 1000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("snowflake.max_wait",
							"Longest wait for an ID before the error.", NULL,
							&snowflake_max_wait, 5000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomEnumVariable("snowflake.sequence_start",
							 "First sequence number of a new time unit.",
							 "It is 0, the one after the last number drawn, or a random one up to \"snowflake.sequence_start_max\".",
							 &snowflake_sequence_start, SEQUENCE_START_RANDOM, sequence_start_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("snowflake.sequence_start_max",
							"Largest first sequence number if \"snowflake.sequence_start\" is \"random\".",
							"-1 means a quarter of the layout's sequence numbers, or 64 if that is more.",
							&snowflake_sequence_start_max, SEQUENCE_START_MAX_AUTO, SEQUENCE_START_MAX_AUTO, INT_MAX,
							PGC_SIGHUP, 0, check_sequence_start_max, NULL, NULL);
}

/* The durable mark, and what is kept beside it. */
static void
define_mark(GucContext fixed)
{
	DefineCustomStringVariable("snowflake.database",
							   "Home database, in which the server keeps the durable mark.", NULL,
							   &snowflake_database, "postgres",
							   fixed, 0, check_database, NULL, NULL);

	DefineCustomIntVariable("snowflake.reserve_window",
							"How far ahead the durable mark is kept.",
							"After a crash, the server draws IDs again when its clock, plus \"snowflake.max_drift\", has reached the mark.",
							&snowflake_reserve_window, 3000, 100, 24 * 60 * 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	/* Nothing reads the variable; see record.c. */
	DefineCustomStringVariable("snowflake.recorded",
							   "Marks the database that holds the durable mark, and has its layout and epoch.",
							   "Set by the background workers.",
							   &recorded, "",
							   PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, NULL);

	/* Likewise, for the mark writer. */
	DefineCustomStringVariable("snowflake.restored",
							   "Durable mark of a dump that was restored into a database while the library was not preloaded.",
							   "Set by the restore, and removed by the background workers.",
							   &restored, "",
							   PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, NULL);

	/* Read by dumps, see install/dump.sql. */
	DefineCustomStringVariable("snowflake.backfilled",
							   "Largest number of sequence numbers that snowflake_backfill() has used in a time unit.",
							   "Set by the background workers.",
							   &backfilled, "",
							   PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, NULL);
}

/* The registry, the lease of a node number, and segments of numbers. */
static void
define_registry(GucContext fixed)
{
	DefineCustomStringVariable("snowflake.registry",
							   "Connection string of the registry, a database that gives this server its node number and segments of numbers.",
							   "It registers \"snowflake.node_id\", or leases a node number to the server if that is not set. A password belongs in a password file or a service file, not here.",
							   &snowflake_registry, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_registry, NULL, NULL);

	DefineCustomIntVariable("snowflake.lease_ttl",
							"How long the lease of a node number lasts if it is not renewed.",
							"A server can do without the registry for this time. The number of a stopped server stays reserved for this time.",
							&snowflake_lease_ttl, 10 * 60 * 1000, 10 * 1000, 24 * 60 * 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("snowflake.max_clock_skew",
							"How far this server's clock may be from the registry's, and from the median of the other servers'; -1 means any.",
							"A server that is further off does not start to issue IDs with a number from the registry.",
							&snowflake_max_clock_skew, 5000, CLOCK_SKEW_ANY, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomEnumVariable("snowflake.clock_skew_action",
							 "What a server that issues IDs does when its clock is further off than \"snowflake.max_clock_skew\".", NULL,
							 &snowflake_clock_skew_action, SKEW_WARN, clock_skew_action_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("snowflake.max_segment_tags",
							"How many segment tags this server can draw numbers from at the same time.",
							"Each takes about 1 kB of shared memory.",
							&snowflake_max_segment_tags, 500, 0, 10000,
							fixed, 0, NULL, NULL, NULL);
}

/*
 * In another copy of the library the settings are its own, and so is the
 * shared memory.
 */
static void
check_other_copy(void)
{
	if (GetConfigOption("snowflake.layout", true, false) != NULL &&
		(GetConfigOptionFlags("snowflake.layout", true) & GUC_CUSTOM_PLACEHOLDER) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("another copy of the library \"snowflake\" is loaded"),
				 errdetail("Only one copy can be in use on a server."),
				 errhint("Name the same file in \"shared_preload_libraries\" and in the functions of the extension.")));
}

/*
 * In a session that loads the library by itself: raise an ERROR when it could
 * not read IDs as configured.  The other settings are of no use there, and the
 * server warns of them.
 *
 * Before anything is defined, since definitions stay, and a second attempt in
 * the same session would fail because of them.  A value is a string then, which
 * may be empty when it was taken out of the configuration since the server's
 * start.
 */
static void
require_readable(const char *name, GucStringCheckHook check)
{
	char	   *value = (char *) GetConfigOption(name, true, false);
	void	   *extra = NULL;	/* a few bytes, once a session */

	GUC_check_errdetail_string = GUC_check_errhint_string = NULL;
	if (value == NULL || *value == '\0' || check(&value, &extra, PGC_S_FILE))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for parameter \"%s\": \"%s\"", name, value),
			 errdetail("%s", GUC_check_errdetail_string),
			 errhint("%s", GUC_check_errhint_string)));
}

/*
 * Define all settings.  At server start, a value in the configuration that is
 * not valid is an ERROR, which ends the server.
 */
void
settings_define(void)
{
	GucContext	fixed;
	char	   *configured[lengthof(setting_names)] = {NULL};

	check_other_copy();
	snowflake_settings_fixed = process_shared_preload_libraries_in_progress;
	fixed = snowflake_settings_fixed ? PGC_POSTMASTER : PGC_SIGHUP;
	if (!snowflake_settings_fixed)
	{
		require_readable("snowflake.layout", check_layout);
		require_readable("snowflake.epoch", check_epoch);
	}

	/* Before they are defined, the configured values are just strings. */
	for (int i = 0; snowflake_settings_fixed && i < (int) lengthof(setting_names); i++)
	{
		const char *value = GetConfigOption(setting_names[i], true, false);

		configured[i] = value ? pstrdup(value) : NULL;
	}

	define_ids(fixed);
	define_drawing(fixed);
	define_mark(fixed);
	define_registry(fixed);

	pgedge_check_setting();
	MarkGUCPrefixReserved("snowflake");

	/*
	 * Where a configured value is wrong, the server has by now said so in a
	 * WARNING and put the default in its place.  Check once more, to fail.
	 */
	for (int i = 0; i < (int) lengthof(setting_names); i++)
	{
		if (configured[i] != NULL)
			(void) set_config_option(setting_names[i], configured[i],
									 PGC_POSTMASTER, PGC_S_FILE,
									 GUC_ACTION_SET, false, ERROR, false);
	}
}

char *
settings_node_id_hint(void)
{
	if (setting_awaits_restart("snowflake.node_id"))
		return pstrdup("The configuration has a value, which takes effect at a restart. Restart the server: a reload is not enough.");
	return psprintf("Set \"snowflake.node_id\" to a number from 0 to " UINT64_FORMAT " that no other server has, and restart the server. To lease a number instead, set \"snowflake.registry\".",
					(uint64) snowflake_layout.max[FIELD_NODE]);
}

/*
 * The name of a setting that must be right when the server starts, in whatever
 * case it is written; NULL where it is none.
 */
static const char *
find_setting(const char *name)
{
	for (int i = 0; i < (int) lengthof(setting_names); i++)
	{
		if (pg_strcasecmp(name, setting_names[i]) == 0)
			return setting_names[i];
	}
	return NULL;
}

/*
 * Would the server start with a value of such a setting, with a layout?  It
 * stays as it is.  Returns the error with which it would not, or NULL.
 */
static ErrorData *
try_setting(const char *name, const char *value, const Layout *layout)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	/* nothing that it does has to be undone */
	layout_to_fit = layout;
	PG_TRY();
	{
		(void) set_config_option(name, value, PGC_POSTMASTER, PGC_S_FILE,
								 GUC_ACTION_SET, false, ERROR, false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	layout_to_fit = &snowflake_layout;
	return error;
}

/*
 * The settings as they stand in the configuration files
 */

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
		const char *name = line->name != NULL ? find_setting(line->name) : NULL;
		ErrorData  *error;

		if (name == NULL || is_overridden(line))
			continue;
		error = try_setting(name, line->value, &layout);
		if (error == NULL)
			continue;
		error->message = psprintf("%s, in file \"%s\", line %d",
								  error->message, line->filename, line->sourceline);
		error->hint = psprintf("Correct \"%s\" before the next restart. If a program such as Patroni writes the file, change the configuration of that program.%s%s",
							   name, error->hint ? " " : "", error->hint ? error->hint : "");
		errors = lappend(errors, error);
	}
	return errors;
}

void
settings_file_log(void)
{
	ListCell   *cell;

	foreach(cell, settings_file_errors())
	{
		const ErrorData *wrong = lfirst(cell);

		ereport(WARNING,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the server will not start again: %s", wrong->message),
				 wrong->detail != NULL ? errdetail("%s", wrong->detail) : 0,
				 errhint("%s", wrong->hint)));
	}
}
