/*-------------------------------------------------------------------------
 *
 * codec.c
 *		Write an ID as a text, and read it.
 *
 * base32 is Douglas Crockford's, with all 13 digits that 63 bits take, as in
 * TSIDs: texts sort as their IDs do.  Reading accepts either case, I and L for
 * 1, and O for 0; U is no digit.  base58 has Bitcoin's digits, base62 GMP's.
 * The digits of each are in the order of ASCII.
 *
 * There are no signs, spaces, hyphens and, but for the fixed width of base32,
 * leading zeros.  So in base58 and base62 an ID is read from one text only,
 * and the text can be a key as the ID can.
 *
 * Pure C, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#include "codec.h"

#include <string.h>

/* Name, digits and how many, shortest and longest text, is the case ignored */
static const Codec codecs[] = {
	{"base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 32, 13, 13, true},
	{"base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 58, 1, 11, false},
	{"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 62, 1, 11, false},
};

const Codec *
codec_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
	{
		if (strlen(codecs[i].name) == len &&
			memcmp(codecs[i].name, name, len) == 0)
			return &codecs[i];
	}
	return NULL;
}

size_t
codec_encode(const Codec *codec, int64_t id, char str[CODEC_MAX_LENGTH])
{
	char		digits[CODEC_MAX_LENGTH];	/* from the lowest up */
	uint64_t	rest = (uint64_t) id;
	size_t		len = 0;

	do
	{
		digits[len++] = codec->digits[rest % codec->base];
		rest /= codec->base;
	} while (rest > 0 || len < codec->min_length);

	for (size_t i = 0; i < len; i++)
		str[i] = digits[len - 1 - i];
	return len;
}

/* The value of a digit, -1 when it is none. */
static int
digit_value(const Codec *codec, char c)
{
	const char *digit;

	if (codec->ignore_case)
	{
		if (c >= 'a' && c <= 'z')
			c += 'A' - 'a';
		if (c == 'I' || c == 'L')
			c = '1';
		if (c == 'O')
			c = '0';
	}
	digit = memchr(codec->digits, c, codec->base);
	return digit ? (int) (digit - codec->digits) : -1;
}

/*
 * Of max_length digits that are too large a number, the first that is larger
 * than in the text of the largest ID.
 */
static size_t
first_difference_from_max(const Codec *codec, const char *str)
{
	char		max[CODEC_MAX_LENGTH];
	size_t		i = 0;

	codec_encode(codec, INT64_MAX, max);
	while (digit_value(codec, str[i]) == digit_value(codec, max[i]))
		i++;
	return i;
}

CodecResult
codec_decode(const Codec *codec, const char *str, size_t len, int64_t *id, size_t *offset)
{
	int64_t		number = 0;

	for (size_t i = 0; i < len; i++)
	{
		int			value;

		*offset = i;
		if (i == codec->max_length)
			return CODEC_TOO_LONG;
		value = digit_value(codec, str[i]);
		if (value < 0)
			return CODEC_NOT_A_DIGIT;
		if (value == 0 && i == 0 && len > 1 && codec->min_length == 1)
			return CODEC_LEADING_ZERO;
		if (number > (INT64_MAX - value) / codec->base)
		{
			*offset = first_difference_from_max(codec, str);
			return CODEC_TOO_LARGE;
		}
		number = number * codec->base + value;
	}

	*offset = len;
	if (len < codec->min_length)
		return CODEC_TOO_SHORT;
	*id = number;
	return CODEC_OK;
}
