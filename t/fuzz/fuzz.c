/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *		What is pure C (layout.c, dialect.c, codec.c, key.c), with inputs made by
 *		libFuzzer.
 *
 * Built and run for ten minutes by
 *
 *		make fuzz && ./fuzz -max_total_time=600
 *
 * It ends with how often each of the targets below ran.  An input that breaks
 * an assertion, or is reported by a sanitizer, is kept in a file "crash-...";
 * "./fuzz crash-..." runs it again.  The test 054_fuzz.pl does all that for
 * seconds, and with broken sources.
 *
 * The first byte of an input chooses the target.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec.h"
#include "dialect.h"
#include "key.h"
#include "layout.h"

#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: not true: %s\n", \
					__FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* What is left of the input. */
typedef struct Input
{
	const uint8_t *data;
	size_t		size;
} Input;

/* A number of so many bytes, those past the end being 0. */
static uint64_t
take(Input *in, size_t bytes)
{
	uint64_t	number = 0;

	while (bytes-- > 0)
	{
		number <<= 8;
		if (in->size > 0)
		{
			number |= *in->data++;
			in->size--;
		}
	}
	return number;
}

/*
 * Layouts
 */

/* The fields share out the bits without gap or overlap. */
static void
check_fields(const Layout *layout)
{
	uint64_t	used = 0;
	int			total = 0;

	CHECK(layout->bits[FIELD_TIME] > 0);
	CHECK(layout->unit_us > 0 && layout->unit_us % 1000 == 0);
	for (int f = 0; f < LAYOUT_FIELDS; f++)
	{
		uint64_t	mask = layout->max[f] << layout->shift[f];

		CHECK(layout->bits[f] >= 0);
		CHECK(layout->max[f] == (UINT64_C(1) << layout->bits[f]) - 1);
		CHECK(layout->bits[f] > 0 || layout->shift[f] == 0);
		CHECK((used & mask) == 0);
		used |= mask;
		total += layout->bits[f];

		for (int g = 0; g < LAYOUT_FIELDS; g++)
			CHECK(layout_is_above(layout, f, g) + layout_is_above(layout, g, f) ==
				  (f != g && layout->bits[f] > 0 && layout->bits[g] > 0));
	}
	CHECK(total == layout->total_bits && total <= LAYOUT_MAX_BITS);
	CHECK((int64_t) used == layout_max_id(layout));
	CHECK(layout_sorts_by_time(layout) ==
		  (layout->max[FIELD_TIME] << layout->shift[FIELD_TIME] > used / 2));
}

/* A layout as a text. */
static void
print_layout(const Layout *layout, char *str, size_t size)
{
	bool		seconds = layout->unit_us % 1000000 == 0;
	size_t		len = 0;

	for (int shift = LAYOUT_MAX_BITS; shift >= 0; shift--)
	{
		for (int f = 0; f < LAYOUT_FIELDS; f++)
		{
			if (layout->shift[f] != shift || layout->bits[f] == 0)
				continue;
			len += snprintf(str + len, size - len, "%s:%d ",
							layout_field_name(f), layout->bits[f]);
			if (f == FIELD_TIME)
				len += snprintf(str + len - 1, size - len + 1, "@%lld%s ",
								(long long) layout->unit_us / (seconds ? 1000000 : 1000),
								seconds ? "s" : "ms") - 1;
		}
	}
	CHECK(len < size);
}

/*
 * A layout with any part of it replaced by any text: one that reads the same
 * when it is written, or a reason.
 */
static bool
layout_text(Input *in)
{
	static const char whole[] = "time:41@10ms node:5 worker:5 sequence:12";
	size_t		from = take(in, 1) % sizeof(whole);
	size_t		cut = take(in, 1) % (sizeof(whole) - from);
	char	   *str = malloc(sizeof(whole) - cut + in->size);
	Layout		layout;
	Layout		again;
	LayoutError error;
	char		printed[200];
	bool		valid;

	memcpy(str, whole, from);
	memcpy(str + from, in->data, in->size);
	strcpy(str + from + in->size, whole + from + cut);
	valid = layout_parse(str, &layout, &error);
	free(str);

	if (!valid)
	{
		CHECK(memchr(error.message, '\0', sizeof(error.message)) != NULL);
		CHECK(error.message[0] != '\0');
		for (const char *c = error.message; *c != '\0'; c++)
			CHECK((unsigned char) *c < 0x80);
		return false;
	}

	check_fields(&layout);
	print_layout(&layout, printed, sizeof(printed));
	CHECK(layout_parse(printed, &again, &error));
	CHECK(layout_equal(&layout, &again));
	again.bits[FIELD_NODE]++;
	CHECK(!layout_equal(&layout, &again));
	return true;
}

/* A layout of any fields, and whether it is one. */
static bool
take_layout(Input *in, Layout *layout)
{
	LayoutField order[LAYOUT_FIELDS];
	int			bits[LAYOUT_FIELDS] = {0};
	bool		seen[LAYOUT_FIELDS] = {false};
	int			nfields = take(in, 1) % (LAYOUT_FIELDS + 1);
	int			total = 0;
	bool		twice = false;
	int64_t		unit_us = 1000;
	char		str[200];
	size_t		len = 0;
	LayoutError error;
	bool		valid;

	str[0] = '\0';
	for (int i = 0; i < nfields; i++)
	{
		LayoutField field = take(in, 1) % LAYOUT_FIELDS;

		order[i] = field;
		twice |= seen[field];
		seen[field] = true;
		bits[field] = take(in, 1) % (LAYOUT_MAX_BITS + 1);
		total += bits[field];
		len += snprintf(str + len, sizeof(str) - len, " %s:%d",
						layout_field_name(field), bits[field]);
		if (field == FIELD_TIME && take(in, 1) % 2)
		{
			bool		seconds = take(in, 1) % 2;
			int64_t		number = take(in, 4) % INT32_MAX + 1;

			unit_us = number * (seconds ? 1000000 : 1000);
			len += snprintf(str + len, sizeof(str) - len, "@%lld%s",
							(long long) number, seconds ? "s" : "ms");
		}
	}
	CHECK(len < sizeof(str));

	valid = layout_parse(str, layout, &error);
	CHECK(valid == (bits[FIELD_TIME] > 0 && !twice && total <= LAYOUT_MAX_BITS));
	if (!valid)
		return false;

	CHECK(layout->total_bits == total);
	CHECK(layout->unit_us == unit_us);
	for (int i = 0; i < nfields; i++)
	{
		LayoutField field = order[i];

		total -= bits[field];
		CHECK(layout->bits[field] == bits[field]);
		CHECK(layout->shift[field] == (bits[field] > 0 ? total : 0));
	}
	check_fields(layout);
	return true;
}

/* An ID of a layout, of any fields, which must be what it is made of. */
static int64_t
take_id(Input *in, const Layout *layout)
{
	uint64_t	number[LAYOUT_FIELDS];
	int64_t		id;

	for (int f = 0; f < LAYOUT_FIELDS; f++)
		number[f] = take(in, 8) & layout->max[f];
	id = layout_pack(layout, number[FIELD_TIME], number[FIELD_NODE],
					 number[FIELD_WORKER], number[FIELD_SEQUENCE]);
	CHECK(id >= 0 && id <= layout_max_id(layout));
	for (int f = 0; f < LAYOUT_FIELDS; f++)
		CHECK(layout_unpack(layout, id, f) == number[f]);
	return id;
}

/* Instants, units and IDs of any layout. */
static bool
layout_units(Input *in)
{
	Layout		layout;
	int64_t		id;
	int64_t		time;
	int64_t		max_time;
	int64_t		since;
	__int128	unit_us;
	__int128	floor;
	__int128	ceil;
	uint64_t	node;
	uint64_t	above;

	if (!take_layout(in, &layout))
		return false;

	/* any number up to the largest ID is one */
	id = (int64_t) take(in, 8) & layout_max_id(&layout);
	CHECK(layout_pack(&layout,
					  layout_unpack(&layout, id, FIELD_TIME),
					  layout_unpack(&layout, id, FIELD_NODE),
					  layout_unpack(&layout, id, FIELD_WORKER),
					  layout_unpack(&layout, id, FIELD_SEQUENCE)) == id);

	/* the unit of an instant, and the first from it on */
	since = (int64_t) take(in, 8);
	unit_us = layout.unit_us;
	floor = layout_unit_floor(&layout, since);
	ceil = layout_unit_ceil(&layout, since);
	CHECK(floor * unit_us <= since && since < (floor + 1) * unit_us);
	CHECK((ceil - 1) * unit_us < since && since <= ceil * unit_us);

	/* those of a unit and later are the IDs from its first one on */
	id = take_id(in, &layout);
	time = (int64_t) layout_unpack(&layout, id, FIELD_TIME);
	max_time = (int64_t) layout.max[FIELD_TIME];
	if (layout_sorts_by_time(&layout))
	{
		int64_t		unit = (int64_t) take(in, 8);

		CHECK((layout_unit_first_id(&layout, unit) <= (uint64_t) id) ==
			  (unit <= time));
		CHECK(layout_unit_first_id(&layout, time) <= (uint64_t) id);
		if (time < INT64_MAX)
			CHECK(layout_unit_first_id(&layout, time + 1) > (uint64_t) id);
	}

	/* from the next unit on all IDs of a node are above, or never all */
	node = take(in, 8) & layout.max[FIELD_NODE];
	if (layout_unit_above(&layout, node, id, &above))
	{
		uint64_t	left = layout.max[FIELD_TIME] - above;
		uint64_t	later = above + take(in, 8) % (left + 1);

		CHECK(above == (uint64_t) time + 1 && time < max_time);
		CHECK(layout_pack(&layout, later, node,
						  take(in, 8) & layout.max[FIELD_WORKER],
						  take(in, 8) & layout.max[FIELD_SEQUENCE]) > id);
	}
	else
		CHECK(time == max_time ||
			  layout_pack(&layout, max_time, node, 0, 0) < id);
	return true;
}

/* Any text: the name of a dialect, whose layout is one, or a layout itself. */
static bool
dialect_name(Input *in)
{
	char	   *str = malloc(in->size + 1);
	const Dialect *dialect;
	Layout		layout;
	Layout		expected;
	LayoutError error;
	bool		valid;

	memcpy(str, in->data, in->size);
	str[in->size] = '\0';
	dialect = dialect_find(str);
	valid = dialect_or_layout_parse(str, &layout, &error);

	CHECK(dialect == NULL || (valid && strcmp(dialect->name, str) == 0));
	CHECK(layout_parse(dialect ? dialect->layout : str, &expected, &error) == valid);
	if (valid)
	{
		check_fields(&layout);
		CHECK(layout_equal(&layout, &expected));
		CHECK(!dialect || !dialect->is_unsigned || layout.total_bits == LAYOUT_MAX_BITS);
	}
	free(str);
	return dialect != NULL;
}

/*
 * Codecs
 */

static const char *const codec_names[] = {"base32", "base58", "base62"};

static const Codec *
take_codec(Input *in)
{
	const char *name = codec_names[take(in, 1) % lengthof(codec_names)];
	const Codec *codec = codec_find(name, strlen(name));

	CHECK(codec != NULL && strcmp(codec->name, name) == 0);
	return codec;
}

/* The digit that is meant, as it is written. */
static char
fold_digit(const Codec *codec, char c)
{
	if (strcmp(codec->name, "base32") != 0)
		return c;
	c = toupper((unsigned char) c);
	return c == 'I' || c == 'L' ? '1' : c == 'O' ? '0' : c;
}

/* Any text: an ID that has this text, or the place where it is wrong. */
static bool
codec_text(Input *in)
{
	const Codec *codec = take_codec(in);
	bool		fixed = codec->min_length == codec->max_length;
	const char *str = (const char *) in->data;
	size_t		len = in->size;
	char		canonical[CODEC_MAX_LENGTH];
	int64_t		id = -1;
	size_t		offset;
	size_t		digits;
	CodecResult result;
	CodecResult expected;
	unsigned __int128 number = 0;

	result = codec_decode(codec, str, len, &id, &offset);

	for (digits = 0; digits < len && digits < codec->max_length; digits++)
	{
		char		c = fold_digit(codec, str[digits]);
		const char *digit = c != '\0' ? strchr(codec->digits, c) : NULL;

		if (digit == NULL)
			break;
		number = number * codec->base + (digit - codec->digits);
	}

	if (!fixed && len > 1 && str[0] == codec->digits[0])
	{
		expected = CODEC_LEADING_ZERO;
		CHECK(offset == 0);
	}
	else if (number > INT64_MAX)
	{
		expected = CODEC_TOO_LARGE;
		codec_encode(codec, INT64_MAX, canonical);
		CHECK(offset < digits);
		CHECK(fold_digit(codec, str[offset]) > canonical[offset]);
		for (size_t i = 0; i < offset; i++)
			CHECK(fold_digit(codec, str[i]) == canonical[i]);
	}
	else
	{
		expected = digits == codec->max_length && len > digits ? CODEC_TOO_LONG :
			digits < len ? CODEC_NOT_A_DIGIT :
			digits < codec->min_length ? CODEC_TOO_SHORT : CODEC_OK;
		CHECK(offset == digits);
	}
	CHECK(result == expected);

	if (result == CODEC_OK)
	{
		CHECK((unsigned __int128) id == number);
		CHECK(codec_encode(codec, id, canonical) == len);
		for (size_t i = 0; i < len; i++)
			CHECK(fold_digit(codec, str[i]) == canonical[i]);
	}
	return result == CODEC_OK;
}

/* Any two IDs: different texts, from which they are read, in order. */
static bool
codec_id(Input *in)
{
	const Codec *codec = take_codec(in);
	int64_t		id[2];
	char		str[2][CODEC_MAX_LENGTH];
	size_t		len[2];
	int			order;

	for (int i = 0; i < 2; i++)
	{
		int64_t		decoded;
		size_t		offset;

		id[i] = (int64_t) (take(in, 8) & INT64_MAX);
		len[i] = codec_encode(codec, id[i], str[i]);
		CHECK(len[i] >= codec->min_length && len[i] <= codec->max_length);
		CHECK(codec_decode(codec, str[i], len[i], &decoded, &offset) == CODEC_OK);
		CHECK(decoded == id[i]);
	}

	/* base32 is always of one length */
	order = len[0] != len[1] ? (len[0] > len[1]) - (len[0] < len[1]) :
		memcmp(str[0], str[1], len[0]);
	CHECK((order > 0) == (id[0] > id[1]));
	CHECK((order < 0) == (id[0] < id[1]));
	CHECK(strcmp(codec->name, "base32") != 0 || (len[0] == 13 && len[1] == 13));
	return true;
}

/* Any name of a codec. */
static bool
codec_name(Input *in)
{
	size_t		len = in->size;
	const Codec *codec = codec_find((const char *) in->data, len);
	bool		known = false;

	for (size_t i = 0; i < lengthof(codec_names); i++)
		known |= len == strlen(codec_names[i]) &&
			memcmp(in->data, codec_names[i], len) == 0;
	CHECK((codec != NULL) == known);
	return known;
}

/*
 * Business keys
 */

static int64_t
largest_of_width(int width)
{
	int64_t		power = 1;

	while (width-- > 0)
		power *= 10;
	return power - 1;
}

/* A format of any fields, and whether it is one. */
static bool
take_key_format(Input *in, KeyFormat *format)
{
	size_t		prefix_len = take(in, 1) % (KEY_MAX_PREFIX + 1);
	bool		fits = prefix_len > 0;
	KeyError	error;
	bool		valid;

	memset(format, 0, sizeof(*format));
	for (size_t i = 0; i < prefix_len; i++)
	{
		format->prefix[i] = "UDabzZ9-"[take(in, 1) % 8];
		fits &= isalpha((unsigned char) format->prefix[i]) != 0;
	}
	for (int f = 0; f < KEY_FIELDS; f++)
	{
		int			widest = f == KEY_SEQUENCE ? 18 : 9;
		int			width = (int) (take(in, 1) % (widest + 2));

		if (f == KEY_PREFIX)
			width = (int) prefix_len;
		else if (f == KEY_TIME)
			width = KEY_TIME_WIDTH;
		else
		{
			format->max[f] = (int64_t) take(in, 4);
			if (width <= widest && take(in, 1) % 16 > 0)
				format->max[f] %= largest_of_width(width) + 1;
			fits &= width <= widest && format->max[f] <= largest_of_width(width);
		}
		format->width[f] = width;
	}
	format->tables_per_db = (int64_t) take(in, 2) + 1;
	format->has_folds = take(in, 1) % 2 != 0;

	valid = key_format_is_valid(format, &error);
	CHECK(valid == fits);
	CHECK(valid || memchr(error.message, '\0', sizeof(error.message)) != NULL);

	/* as the databases are as many as the tables are in */
	format->max[KEY_DATABASE] = format->max[KEY_TABLE] / format->tables_per_db;
	return valid && key_format_is_valid(format, &error);
}

/* A key of any numbers, as a text. */
static size_t
take_key(Input *in, const KeyFormat *format, Key *key, char str[KEY_MAX_LENGTH])
{
	size_t		len;

	memset(key, 0, sizeof(*key));
	for (int f = KEY_DATABASE; f < KEY_FIELDS; f++)
		key->number[f] = (int64_t) (take(in, 8) % ((uint64_t) format->max[f] + 1));
	key->number[KEY_VERSION] = format->max[KEY_VERSION];
	key->number[KEY_TIME] = (int64_t) (take(in, 8) % (KEY_MAX_TIME + 1));
	key->number[KEY_DATABASE] = key->number[KEY_TABLE] / format->tables_per_db;
	key->is_again = format->has_folds && take(in, 1) % 2 != 0;

	len = key_write(format, key, str);
	CHECK(len == key_length(format) && len <= KEY_MAX_LENGTH);
	return len;
}

/* The calendar of the C library. */
static void
print_key_time(int64_t time, bool is_again, char str[64])
{
	time_t		seconds = 946684800 + time / 1000;
	struct tm	tm;

	CHECK(gmtime_r(&seconds, &tm) != NULL);
	snprintf(str, 64, "%02d%02d%02d%02d%02d%02d%03d", tm.tm_year % 100,
			 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour + (is_again ? 24 : 0), tm.tm_min, tm.tm_sec,
			 (int) (time % 1000));
}

/*
 * An order number as it was published, with two tables in each database so that
 * the route does not matter; hashes of FNV's authors.
 */
static void
check_published(void)
{
	static const char published[] = "UD000000011902261230103345300002";
	static const struct
	{
		const char *text;
		uint64_t	fnv1a;
	}			hashes[] = {
		{"", UINT64_C(0xCBF29CE484222325)},
		{"a", UINT64_C(0xAF63DC4C8601EC8C)},
		{"foobar", UINT64_C(0x85944171F73967E8)}
	};
	KeyFormat	format = {
		.prefix = "UD",
		.width = {2, 2, 4, 2, 15, 2, 5},
		.max = {0, 1, 3, 1, 0, 99, 99999},
		.tables_per_db = 2
	};
	Key			key = {{0, 0, 0, 1, 0, 53, 2}};
	KeyError	error;
	char		str[KEY_MAX_LENGTH];
	int64_t		table;

	/* 2019-02-26 12:30:10.334 */
	key.number[KEY_TIME] = (INT64_C(1551184210) - 946684800) * 1000 + 334;
	CHECK(key_format_is_valid(&format, &error));
	CHECK(key_write(&format, &key, str) == strlen(published));
	CHECK(memcmp(str, published, strlen(published)) == 0);

	for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++)
	{
		const char *text = hashes[i].text;
		uint64_t	hash = hashes[i].fnv1a ^ (hashes[i].fnv1a >> 32);

		CHECK(key_hash(text, strlen(text)) == hash);
		CHECK(key_route_codes(text, strlen(text), INT64_C(1) << 31, &table, &error) == (*text != '\0'));
		if (*text != '\0')
			CHECK(table == (int64_t) (hash & INT32_MAX));
	}
}

/* The numbers of any key: printed one after the other, and read from that. */
static bool
key_numbers(Input *in)
{
	KeyFormat	format;
	Key			key;
	Key			again;
	KeyError	error;
	char		str[KEY_MAX_LENGTH];
	char		expected[KEY_MAX_LENGTH + 1];
	size_t		len;
	size_t		end;
	int64_t		version;

	if (!take_key_format(in, &format))
		return false;
	len = take_key(in, &format, &key, str);

	end = (size_t) sprintf(expected, "%s", format.prefix);
	for (int f = KEY_DATABASE; f < KEY_FIELDS; f++)
	{
		char		digits[64];

		if (f == KEY_TIME)
			print_key_time(key.number[f], key.is_again, digits);
		else if (format.width[f] > 0)
			snprintf(digits, sizeof(digits), "%0*lld", format.width[f],
					 (long long) key.number[f]);
		else
			digits[0] = '\0';
		CHECK(strlen(digits) == (size_t) format.width[f]);
		end += (size_t) sprintf(expected + end, "%s", digits);
	}
	CHECK(end == len && memcmp(expected, str, len) == 0);

	CHECK(key_prefix_length(str, len) == strlen(format.prefix));
	CHECK(key_read_version(&format, str, len, &version));
	CHECK(version == format.max[KEY_VERSION]);
	CHECK(key_read(&format, str, len, &again, &error));
	CHECK(memcmp(&again, &key, sizeof(key)) == 0);
	return true;
}

/* Is a text a key, by all that is asked of one?  It is of the right length. */
static bool
is_key(const KeyFormat *format, const char *str, size_t len)
{
	int64_t		number[KEY_FIELDS] = {0};
	size_t		pos = strlen(format->prefix);

	if (memcmp(str, format->prefix, pos) != 0 ||
		!key_is_number(str + pos, len - pos))
		return false;
	for (int f = KEY_DATABASE; f < KEY_FIELDS; f++)
	{
		char		digits[64] = "0";

		memcpy(digits, str + pos, format->width[f]);
		pos += format->width[f];
		number[f] = strtoll(digits, NULL, 10);
		if (f == KEY_TIME)
		{
			struct tm	tm = {0};
			char		again[64];
			bool		is_again;
			int			ms;

			CHECK(sscanf(digits, "%2d%2d%2d%2d%2d%2d%3d", &tm.tm_year, &tm.tm_mon,
						 &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms) == 7);
			tm.tm_year += 100;
			tm.tm_mon -= 1;
			is_again = format->has_folds && tm.tm_hour >= 24;
			if (is_again)
				tm.tm_hour -= 24;
			number[f] = ((int64_t) timegm(&tm) - 946684800) * 1000 + ms;
			if (number[f] < 0 || number[f] > KEY_MAX_TIME)
				return false;
			print_key_time(number[f], is_again, again);
			if (strcmp(digits, again) != 0)
				return false;
		}
		else if (number[f] > format->max[f])
			return false;
	}
	return number[KEY_VERSION] == format->max[KEY_VERSION] &&
		number[KEY_DATABASE] == number[KEY_TABLE] / format->tables_per_db;
}

/*
 * A key with any part of it replaced by any text: one that is written the same
 * when it is read, or a place that is wrong, and none before it.
 */
static bool
key_text(Input *in)
{
	KeyFormat	format;
	Key			key;
	KeyError	error;
	char		whole[KEY_MAX_LENGTH];
	char		again[KEY_MAX_LENGTH];
	size_t		whole_len;
	size_t		from;
	size_t		cut;
	size_t		len;
	size_t		right;
	char	   *str;
	bool		valid;
	int64_t		version;

	if (!take_key_format(in, &format))
		return false;
	whole_len = take_key(in, &format, &key, whole);
	from = take(in, 1) % (whole_len + 1);
	cut = take(in, 1) % (whole_len - from + 1);
	if (take(in, 1) % 2 && cut > in->size)
		cut = in->size;			/* mostly of the same length */
	len = whole_len - cut + in->size;
	str = malloc(len > 0 ? len : 1);
	memcpy(str, whole, from);
	memcpy(str + from, in->data, in->size);
	memcpy(str + from + in->size, whole + from + cut, whole_len - from - cut);

	valid = key_read(&format, str, len, &key, &error);
	CHECK(valid == (len == whole_len && is_key(&format, str, len)));
	if (valid)
	{
		CHECK(key_write(&format, &key, again) == len);
		CHECK(memcmp(again, str, len) == 0);
		CHECK(key_read_version(&format, str, len, &version));
		CHECK(version == format.max[KEY_VERSION]);
	}
	else
	{
		CHECK(memchr(error.message, '\0', sizeof(error.message)) != NULL);
		CHECK(error.message[0] != '\0');

		/* the first character that cannot be there is not before it */
		for (right = 0; right < len && right < whole_len; right++)
		{
			if (right < strlen(format.prefix) ? str[right] != format.prefix[right] :
				str[right] < '0' || str[right] > '9')
				break;
		}
		CHECK(error.position >= 1 && error.position <= right + 1);
		CHECK(right >= strlen(format.prefix) +
			  format.width[KEY_DATABASE] + format.width[KEY_TABLE] +
			  format.width[KEY_VERSION] ||
			  right < strlen(format.prefix) ||
			  !key_read_version(&format, str, len, &version));

		/* what follows the fault does not matter */
		if (error.position < len && error.position > right)
		{
			size_t		position = error.position;

			CHECK(!key_read(&format, str, position, &key, &error));
			CHECK(error.position == position);
		}
	}
	free(str);
	return valid;
}

/* Any text as a route. */
static bool
key_route(Input *in)
{
	int64_t		tables = (int64_t) (take(in, 4) % INT32_MAX) + 1;
	const char *str = (const char *) in->data;
	size_t		len = in->size;
	int64_t		table = -1;
	KeyError	error;
	size_t		digits = 0;
	size_t		ascii = 0;
	bool		valid;
	unsigned __int128 number = 0;

	for (; digits < len && str[digits] >= '0' && str[digits] <= '9'; digits++)
		number = number * 10 + (str[digits] - '0');
	CHECK(key_is_number(str, len) == (len > 0 && digits == len));
	if (len > 0 && digits == len && len <= 38)
		CHECK(key_route_number(str, len, tables) == (int64_t) (number % tables));

	while (ascii < len && in->data[ascii] < 0x80)
		ascii++;
	valid = key_route_codes(str, len, tables, &table, &error);
	CHECK(valid == (len > 0 && ascii == len));
	if (valid)
		CHECK(table == (int64_t) (key_hash(str, len) % (uint64_t) tables));
	else
		CHECK(error.position == ascii + 1);
	return valid;
}

/*
 * libFuzzer's entry points
 */

static const struct
{
	const char *name;
	bool		(*run) (Input *in); /* was the input a valid one? */
}			targets[] = {
	{"layout_text", layout_text},
	{"layout_units", layout_units},
	{"dialect_name", dialect_name},
	{"codec_text", codec_text},
	{"codec_id", codec_id},
	{"codec_name", codec_name},
	{"key_numbers", key_numbers},
	{"key_text", key_text},
	{"key_route", key_route},
};

static unsigned long runs[lengthof(targets)];
static unsigned long valid[lengthof(targets)];

static void
report(void)
{
	for (size_t i = 0; i < lengthof(targets); i++)
		fprintf(stderr, "%s: %lu runs, %lu valid\n", targets[i].name,
				runs[i], valid[i]);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
	check_published();
	return atexit(report);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input		in = {data, size};
	size_t		i = take(&in, 1) % lengthof(targets);

	runs[i]++;
	valid[i] += targets[i].run(&in);
	return 0;
}
