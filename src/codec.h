/*-------------------------------------------------------------------------
 *
 * codec.h
 *		IDs as short texts: base32, base58, base62.
 *
 * Pure C, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CODEC_H
#define SNOWFLAKE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef struct Codec
{
	const char *name;
	const char *digits;			/* in the order of their values */
	int			base;			/* how many */
	size_t		min_length;		/* of a text, in characters */
	size_t		max_length;
	bool		ignore_case;
} Codec;

/* The longest max_length. */
#define CODEC_MAX_LENGTH 13

/* What codec_decode() found. */
typedef enum CodecResult
{
	CODEC_OK,
	CODEC_NOT_A_DIGIT,
	CODEC_LEADING_ZERO,
	CODEC_TOO_LARGE,			/* past 2^63 - 1 */
	CODEC_TOO_SHORT,
	CODEC_TOO_LONG
} CodecResult;

/* The codec of a name, NULL when there is none. */
extern const Codec *codec_find(const char *name, size_t len);

/*
 * Write an ID, which must not be negative, as a text, without a terminating
 * zero.  Returns the length.
 */
extern size_t codec_encode(const Codec *codec, int64_t id, char str[CODEC_MAX_LENGTH]);

/*
 * Read a text, which may have any bytes.  *offset is where it goes wrong: all
 * before it are digits, so it counts characters as well as bytes.
 */
extern CodecResult codec_decode(const Codec *codec, const char *str,
								size_t len, int64_t *id, size_t *offset);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CODEC_H */
