/*-------------------------------------------------------------------------
 *
 * key.c
 *		Write a business key, and read it; route by texts.
 *
 * A key is
 *
 *		prefix | database | table | version | yyMMddHHmmssSSS | node | sequence
 *
 * with letters in the prefix and digits everywhere else, so that it is plain
 * where the prefix ends.  The table counts over all databases: it is what a
 * route's number leaves when divided by how many tables there are, and the
 * database is the table divided by how many tables each database has.  (Divided
 * by how many databases there are, as once published, some would stay empty.)
 *
 * Years are 2000 to 2099, all leap years that four divides, so that days count
 * in cycles of four years.
 *
 * Pure C, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#include "key.h"

#include <stdio.h>
#include <string.h>

#define DAYS_PER_CYCLE	1461	/* four years, of which the first is a leap
								 * year */

/* By KeyField. */
static const char *const field_names[] = {
	"prefix", "database", "table", "version", "time", "node", "sequence"
};

/* The parts of the time, each of so many digits. */
static const struct
{
	const char *name;
	int			width;
	int			min;
	int			max;
}			time_parts[] = {
	{"year", 2, 0, 99},
	{"month", 2, 1, 12},
	{"day", 2, 1, 31},
	{"hour", 2, 0, 23},
	{"minute", 2, 0, 59},
	{"second", 2, 0, 59},
	{"millisecond", 3, 0, 999},
};

#define HOURS	24

enum
{
	YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, MILLISECOND, TIME_PARTS
};

/* Say what is wrong, and where. */
#define fail(error, ...) \
	(snprintf((error)->message, sizeof((error)->message), __VA_ARGS__), false)
#define fail_at(error, at, ...) \
	((error)->position = (at), fail(error, __VA_ARGS__))

static bool
is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* How many numbers so many digits have. */
static int64_t
power_of_10(int width)
{
	int64_t		power = 1;

	while (width-- > 0)
		power *= 10;
	return power;
}

bool
key_format_is_valid(const KeyFormat *format, KeyError *error)
{
	size_t		prefix_len = strlen(format->prefix);

	if (prefix_len == 0 || prefix_len != (size_t) format->width[KEY_PREFIX] ||
		key_prefix_length(format->prefix, prefix_len) != prefix_len)
		return fail(error, "The prefix must be 1 to %d letters, from A to Z and from a to z.",
					KEY_MAX_PREFIX);

	for (KeyField f = KEY_DATABASE; f < KEY_FIELDS; f++)
	{
		int			width = format->width[f];
		int			max_width = f == KEY_SEQUENCE ? KEY_MAX_SEQUENCE_WIDTH :
			KEY_MAX_NUMBER_WIDTH;

		if (f == KEY_TIME)
			continue;
		if (width < 0 || width > max_width)
			return fail(error, "The width of the field \"%s\" is %d; it may be from 0 to %d.",
						field_names[f], width, max_width);
		if (format->max[f] < 0 || format->max[f] >= power_of_10(width))
			return fail(error, "The field \"%s\" has a width of %d, for numbers up to %lld, and must hold numbers up to %lld.",
						field_names[f], width, (long long) power_of_10(width) - 1,
						(long long) format->max[f]);
	}
	return true;
}

size_t
key_field_position(const KeyFormat *format, KeyField field)
{
	size_t		position = 1;

	for (KeyField f = 0; f < field; f++)
		position += format->width[f];
	return position;
}

size_t
key_length(const KeyFormat *format)
{
	return key_field_position(format, KEY_FIELDS) - 1;
}

size_t
key_prefix_length(const char *str, size_t len)
{
	size_t		i = 0;

	while (i < len && is_letter(str[i]))
		i++;
	return i;
}

/*
 * Times
 */

static int
days_of_month(int year, int month)
{
	static const signed char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return days[month - 1] + (month == 2 && year % 4 == 0);
}

static void
time_to_parts(int64_t time, int parts[TIME_PARTS])
{
	int			ms = (int) (time % KEY_MS_PER_DAY);
	int			days = (int) (time / KEY_MS_PER_DAY);

	parts[YEAR] = days / DAYS_PER_CYCLE * 4;
	days %= DAYS_PER_CYCLE;
	if (days >= 366)
	{
		parts[YEAR] += 1 + (days - 366) / 365;
		days = (days - 366) % 365;
	}
	for (parts[MONTH] = 1;
		 days >= days_of_month(parts[YEAR], parts[MONTH]);
		 parts[MONTH]++)
		days -= days_of_month(parts[YEAR], parts[MONTH]);
	parts[DAY] = days + 1;

	parts[MILLISECOND] = ms % 1000;
	parts[SECOND] = ms / 1000 % 60;
	parts[MINUTE] = ms / 60000 % 60;
	parts[HOUR] = ms / 3600000;
}

static int64_t
time_of_parts(const int parts[TIME_PARTS])
{
	int64_t		days = parts[YEAR] * 365 + (parts[YEAR] + 3) / 4;

	for (int month = 1; month < parts[MONTH]; month++)
		days += days_of_month(parts[YEAR], month);
	days += parts[DAY] - 1;

	return (((days * 24 + parts[HOUR]) * 60 + parts[MINUTE]) * 60 +
			parts[SECOND]) * 1000 + parts[MILLISECOND];
}

/*
 * Writing
 */

static char *
write_number(char *str, int width, int64_t number)
{
	for (int i = width - 1; i >= 0; i--)
	{
		str[i] = (char) ('0' + number % 10);
		number /= 10;
	}
	return str + width;
}

size_t
key_write(const KeyFormat *format, const Key *key, char str[KEY_MAX_LENGTH])
{
	char	   *end = str;

	memcpy(end, format->prefix, format->width[KEY_PREFIX]);
	end += format->width[KEY_PREFIX];

	for (KeyField f = KEY_DATABASE; f < KEY_FIELDS; f++)
	{
		int			parts[TIME_PARTS];

		if (f != KEY_TIME)
		{
			end = write_number(end, format->width[f], key->number[f]);
			continue;
		}
		time_to_parts(key->number[f], parts);
		if (key->is_again)
			parts[HOUR] += HOURS;
		for (int i = 0; i < TIME_PARTS; i++)
			end = write_number(end, time_parts[i].width, parts[i]);
	}
	return end - str;
}

/*
 * Reading
 */

/* A text that is being read. */
typedef struct Reader
{
	const KeyFormat *format;
	const char *str;
	size_t		len;
	size_t		pos;			/* what was read of it */
	KeyError   *error;
} Reader;

/* Read the digits of a field, or of a part of it. */
static bool
read_number(Reader *reader, KeyField field, int width, int64_t *number)
{
	*number = 0;
	for (int i = 0; i < width; i++, reader->pos++)
	{
		if (reader->pos >= reader->len)
			return fail_at(reader->error, reader->pos + 1, "It ends before position %zu, in the field \"%s\"; keys of this format have %zu characters.",
						   reader->pos + 1, field_names[field],
						   key_length(reader->format));
		if (!is_digit(reader->str[reader->pos]))
			return fail_at(reader->error, reader->pos + 1, "The character at position %zu, in the field \"%s\", is not a digit.",
						   reader->pos + 1, field_names[field]);
		*number = *number * 10 + (reader->str[reader->pos] - '0');
	}
	return true;
}

/* A number that was just read is not one that may be there. */
static bool
refuse(Reader *reader, const char *name, int width, int64_t number,
	   int64_t min, int64_t max)
{
	size_t		at = reader->pos - width + 1;

	if (min == max)
		return fail_at(reader->error, at, "The %s at position %zu is %lld, and must be %lld.",
					   name, at, (long long) number, (long long) max);
	return fail_at(reader->error, at, "The %s at position %zu is %lld, and must be from %lld to %lld.",
				   name, at, (long long) number, (long long) min, (long long) max);
}

static bool
read_time(Reader *reader, int64_t *time, bool *is_again)
{
	int			parts[TIME_PARTS];

	for (int i = 0; i < TIME_PARTS; i++)
	{
		int			width = time_parts[i].width;
		int			max = i == DAY ? days_of_month(parts[YEAR], parts[MONTH]) :
			i == HOUR && reader->format->has_folds ? 2 * HOURS - 1 :
			time_parts[i].max;
		int64_t		number;

		if (!read_number(reader, KEY_TIME, width, &number))
			return false;
		if (number < time_parts[i].min || number > max)
			return refuse(reader, time_parts[i].name, width, number,
						  time_parts[i].min, max);
		parts[i] = (int) number;
	}
	*is_again = parts[HOUR] >= HOURS;
	if (*is_again)
		parts[HOUR] -= HOURS;
	*time = time_of_parts(parts);
	return true;
}

bool
key_read_version(const KeyFormat *format, const char *str, size_t len, int64_t *version)
{
	KeyError	error;
	Reader		reader = {format, str, len, format->width[KEY_PREFIX], &error};

	for (KeyField f = KEY_DATABASE; f <= KEY_VERSION; f++)
	{
		if (!read_number(&reader, f, format->width[f], version))
			return false;
	}
	return true;
}

bool
key_read(const KeyFormat *format, const char *str, size_t len, Key *key, KeyError *error)
{
	Reader		reader = {format, str, len, 0, error};

	memset(key, 0, sizeof(*key));
	for (; reader.pos < (size_t) format->width[KEY_PREFIX]; reader.pos++)
	{
		if (reader.pos == len || str[reader.pos] != format->prefix[reader.pos])
			return fail_at(error, reader.pos + 1, "It does not have the prefix \"%s\" of this format.",
						   format->prefix);
	}

	for (KeyField f = KEY_DATABASE; f < KEY_FIELDS; f++)
	{
		int			width = format->width[f];
		int64_t		number;

		if (f == KEY_TIME)
		{
			if (!read_time(&reader, &key->number[f], &key->is_again))
				return false;
			continue;
		}

		if (!read_number(&reader, f, width, &number))
			return false;
		if (number > format->max[f] ||
			(f == KEY_VERSION && number != format->max[f]))
			return refuse(&reader, field_names[f], width, number,
						  f == KEY_VERSION ? format->max[f] : 0,
						  format->max[f]);
		key->number[f] = number;

		if (f == KEY_TABLE &&
			key->number[KEY_DATABASE] != number / format->tables_per_db)
			return fail_at(error, key_field_position(format, KEY_DATABASE), "The database at position %zu is %lld, but the table %lld is in the database %lld.",
						   error->position, (long long) key->number[KEY_DATABASE],
						   (long long) number,
						   (long long) (number / format->tables_per_db));
	}

	if (reader.pos < len)
		return fail_at(error, reader.pos + 1, "It goes on at position %zu; keys of this format have %zu characters.",
					   reader.pos + 1, reader.pos);
	return true;
}

/*
 * Routes
 */

bool
key_is_number(const char *str, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if (!is_digit(str[i]))
			return false;
	}
	return len > 0;
}

/* The same table as of the number that the digits are, however many. */
int64_t
key_route_number(const char *str, size_t len, int64_t tables)
{
	int64_t		rest = 0;

	for (size_t i = 0; i < len; i++)
		rest = (rest * 10 + (str[i] - '0')) % tables;
	return rest;
}

/*
 * The 64-bit FNV-1a hash of the bytes, which a few lines calculate anywhere,
 * with its upper half folded into the lower.  Unfolded, its lower bits are those
 * of the lower bits of the bytes alone: of texts like 17-17, in which each
 * character comes twice, half of the tables would get none.  Not the sum of the
 * bytes, which leaves most tables empty when there are many, nor a hash as plain
 * as Java's, which texts like C1, C2, C3 do not spread evenly.  Routes depend on
 * it, so it is never to be changed.
 */
uint64_t
key_hash(const char *str, size_t len)
{
	uint64_t	hash = UINT64_C(0xCBF29CE484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char) str[i]) * UINT64_C(0x100000001B3);
	return hash ^ (hash >> 32);
}

bool
key_route_codes(const char *str, size_t len, int64_t tables, int64_t *table,
				KeyError *error)
{
	if (len == 0)
		return fail_at(error, 1, "It is empty.");
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) str[i] >= 0x80)
			return fail_at(error, i + 1, "The character at position %zu is not in ASCII.", i + 1);
	}
	*table = (int64_t) (key_hash(str, len) % (uint64_t) tables);
	return true;
}
