/*-------------------------------------------------------------------------
 *
 * layout.c
 *		Parse a layout; arithmetic on its fields and time units.
 *
 * A layout is a list of fields from the highest bit to the lowest, such as
 * "time:41 node:5 worker:5 sequence:12" (Twitter's), in any order.  The time
 * field may name its unit: "time:39@10ms" (Sonyflake), "time:28@1s" (Baidu).
 *
 * Pure C, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#include "layout.h"

#include <stdio.h>
#include <string.h>

#define US_PER_MS	INT64_C(1000)
#define US_PER_S	INT64_C(1000000)

/* Keeps unit * 1s far from overflow: 2^31 - 1 units are 68 years. */
#define MAX_UNIT	INT32_MAX

#define SEPARATORS	" \t\r\n\f\v"

/* By LayoutField. */
static const char *const field_names[] = {"time", "node", "worker", "sequence"};

/* Say why it is no layout. */
#define fail(error, ...) \
	(snprintf((error)->message, sizeof((error)->message), __VA_ARGS__), false)

const char *
layout_field_name(LayoutField field)
{
	return field_names[field];
}

char *
layout_format(const Layout *layout, char buf[LAYOUT_TEXT_SIZE])
{
	int			len = 0;

	buf[0] = '\0';
	for (int shift = layout->total_bits - 1; shift >= 0; shift--)
	{
		for (LayoutField f = 0; f < LAYOUT_FIELDS; f++)
		{
			if (layout->bits[f] == 0 || layout->shift[f] != shift)
				continue;
			len += snprintf(buf + len, LAYOUT_TEXT_SIZE - len, "%s%s:%d",
							len > 0 ? " " : "", field_names[f], layout->bits[f]);
			if (f == FIELD_TIME && layout->unit_us != US_PER_MS)
				len += snprintf(buf + len, LAYOUT_TEXT_SIZE - len, "@%lldms",
								(long long) (layout->unit_us / US_PER_MS));
		}
	}
	return buf;
}

/*
 * Read decimal digits, at least one and no sign, up to a limit.  Returns the
 * number of characters read, 0 when there is no such number.
 */
static size_t
parse_number(const char *str, size_t len, int64_t limit, int64_t *number)
{
	size_t		i;

	*number = 0;
	for (i = 0; i < len && str[i] >= '0' && str[i] <= '9'; i++)
	{
		*number = *number * 10 + (str[i] - '0');
		if (*number > limit)
			return 0;
	}
	return i;
}

/*
 * How much of a text to show in a message: no more than fits, and nothing that
 * could be half a character.
 */
static int
clip(const char *str, size_t len)
{
	size_t		i;

	for (i = 0; i < len && i < 40; i++)
	{
		if ((unsigned char) str[i] >= 0x80)
			break;
	}
	return (int) i;
}

/*
 * Read one "name:bits" or "time:bits@unit", and put that field below those
 * that were read before.
 */
static bool
parse_field(const char *str, size_t len, Layout *layout, bool *seen, LayoutError *error)
{
	const char *colon = memchr(str, ':', len);
	size_t		name_len = colon ? (size_t) (colon - str) : len;
	const char *rest;
	size_t		rest_len;
	size_t		digits;
	int64_t		number;
	int			f;

	for (f = 0; f < LAYOUT_FIELDS; f++)
	{
		if (strlen(field_names[f]) == name_len &&
			memcmp(field_names[f], str, name_len) == 0)
			break;
	}
	if (f == LAYOUT_FIELDS)
		return fail(error, "Unknown field in \"%.*s\": the fields are \"time\", \"node\", \"worker\" and \"sequence\".",
					clip(str, len), str);

	if (seen[f])
		return fail(error, "Field \"%s\" is given twice.", field_names[f]);
	seen[f] = true;

	rest = str + name_len + 1;
	rest_len = colon ? len - name_len - 1 : 0;
	digits = parse_number(rest, rest_len, LAYOUT_MAX_BITS, &number);
	if (digits == 0 || (f == FIELD_TIME && number == 0))
		return fail(error, "Field \"%s\" needs a colon and its width in bits, a number from %d to %d.",
					field_names[f], f == FIELD_TIME ? 1 : 0, LAYOUT_MAX_BITS);
	for (LayoutField above = 0; above < LAYOUT_FIELDS; above++)
	{
		if (layout->bits[above] > 0)
			layout->shift[above] += (int) number;
	}
	layout->bits[f] = (int) number;
	layout->max[f] = (UINT64_C(1) << number) - 1;
	layout->total_bits += (int) number;
	rest += digits;
	rest_len -= digits;

	if (rest_len == 0)
		return true;

	/* Only the time field may have more: its unit. */
	if (rest[0] == '@' && f == FIELD_TIME)
	{
		digits = parse_number(rest + 1, rest_len - 1, MAX_UNIT, &number);
		rest += 1 + digits;
		rest_len -= 1 + digits;
		layout->unit_us = number *
			(rest_len == 2 && memcmp(rest, "ms", 2) == 0 ? US_PER_MS :
			 rest_len == 1 && rest[0] == 's' ? US_PER_S : 0);
		return layout->unit_us > 0 ||
			fail(error, "The time unit in \"%.*s\" must be a whole number, 1 or more, of \"ms\" or \"s\", such as \"@10ms\".",
				 clip(str, len), str);
	}

	if (rest[0] == '@')
		return fail(error, "Field \"%s\" has no unit: only the field \"time\" has one.",
					field_names[f]);
	return fail(error, "Nothing may follow the width in \"%.*s\".", clip(str, len), str);
}

bool
layout_parse(const char *str, Layout *layout, LayoutError *error)
{
	bool		seen[LAYOUT_FIELDS] = {false};

	memset(layout, 0, sizeof(*layout));
	layout->unit_us = US_PER_MS;

	for (str += strspn(str, SEPARATORS); *str != '\0';
		 str += strspn(str, SEPARATORS))
	{
		size_t		len = strcspn(str, SEPARATORS);

		if (!parse_field(str, len, layout, seen, error))
			return false;
		str += len;
	}

	if (!seen[FIELD_TIME])
		return fail(error, "Field \"time\" is missing.");
	if (layout->total_bits > LAYOUT_MAX_BITS)
		return fail(error, "The widths add up to %d bits, but an ID has %d.",
					layout->total_bits, LAYOUT_MAX_BITS);
	return true;
}

int64_t
layout_unit_floor(const Layout *layout, int64_t since_epoch_us)
{
	/* C rounds towards zero */
	return since_epoch_us / layout->unit_us - (since_epoch_us % layout->unit_us < 0);
}

int64_t
layout_unit_ceil(const Layout *layout, int64_t since_epoch_us)
{
	return since_epoch_us / layout->unit_us + (since_epoch_us % layout->unit_us > 0);
}

uint64_t
layout_unit_first_id(const Layout *layout, int64_t unit)
{
	if (unit <= 0)
		return 0;
	if ((uint64_t) unit > layout->max[FIELD_TIME])
		return UINT64_C(1) << layout->total_bits;
	return (uint64_t) unit << layout->shift[FIELD_TIME];
}

bool
layout_same_ids(const Layout *a, const Layout *b)
{
	for (int field = 0; field < LAYOUT_FIELDS; field++)
	{
		if (a->shift[field] != b->shift[field] ||
			(field != FIELD_TIME && a->bits[field] != b->bits[field]))
			return false;
	}
	return true;
}

bool
layout_equal(const Layout *a, const Layout *b)
{
	return layout_same_ids(a, b) && a->bits[FIELD_TIME] == b->bits[FIELD_TIME] &&
		a->unit_us == b->unit_us;
}

/*
 * All IDs of a node and a time unit, and later ones, are at or above the one
 * with worker and sequence 0, in any layout.
 */
bool
layout_unit_above(const Layout *layout, uint64_t node, int64_t id, uint64_t *unit)
{
	*unit = layout_unpack(layout, id, FIELD_TIME) + 1;
	return *unit <= layout->max[FIELD_TIME] &&
		layout_pack(layout, *unit, node, 0, 0) > id;
}
