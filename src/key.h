/*-------------------------------------------------------------------------
 *
 * key.h
 *		Business keys: readable texts of a prefix and numbers of fixed widths.
 *
 * Pure C, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_KEY_H
#define SNOWFLAKE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The fields of a key, in their order. */
typedef enum KeyField
{
	KEY_PREFIX,
	KEY_DATABASE,
	KEY_TABLE,
	KEY_VERSION,
	KEY_TIME,
	KEY_NODE,
	KEY_SEQUENCE
} KeyField;

#define KEY_FIELDS (KEY_SEQUENCE + 1)

/* Widths: of yyMMddHHmmssSSS, and the largest of the others. */
#define KEY_TIME_WIDTH			15
#define KEY_MAX_PREFIX			16
#define KEY_MAX_NUMBER_WIDTH	9
#define KEY_MAX_SEQUENCE_WIDTH	18

#define KEY_MAX_LENGTH \
	(KEY_MAX_PREFIX + 4 * KEY_MAX_NUMBER_WIDTH + KEY_TIME_WIDTH + \
	 KEY_MAX_SEQUENCE_WIDTH)

/* The times of a key: milliseconds since 2000, of one century. */
#define KEY_MS_PER_DAY	INT64_C(86400000)
#define KEY_MAX_TIME	(36525 * KEY_MS_PER_DAY - 1)

/*
 * A field of width 0 holds the number 0 only.  The version is the same in all
 * keys of a format.
 *
 * Where a clock is set back, local times come twice.  With has_folds the second
 * time has its hour 24 higher in the key: 26 is 2 o'clock again.
 */
typedef struct KeyFormat
{
	char		prefix[KEY_MAX_PREFIX + 1];
	int			width[KEY_FIELDS];
	int64_t		max[KEY_FIELDS];	/* the largest number; not of the prefix */
	int64_t		tables_per_db;
	bool		has_folds;
} KeyFormat;

/* The numbers of a key; that of the prefix is not used. */
typedef struct Key
{
	int64_t		number[KEY_FIELDS];
	bool		is_again;		/* the second time with has_folds */
} Key;

/* What is wrong: a full sentence, for a DETAIL, and where, from 1. */
typedef struct KeyError
{
	size_t		position;
	char		message[160];
} KeyError;

/* Can keys of the format be written and read?  The error has no position. */
extern bool key_format_is_valid(const KeyFormat *format, KeyError *error);

/* Where a field begins in keys, from 1, and how many characters these have. */
extern size_t key_field_position(const KeyFormat *format, KeyField field);
extern size_t key_length(const KeyFormat *format);

/* How many letters a text begins with. */
extern size_t key_prefix_length(const char *str, size_t len);

/*
 * Write a key, without a terminating zero.  Each number must be from 0 to the
 * format's largest.  Returns the length.
 */
extern size_t key_write(const KeyFormat *format, const Key *key, char str[KEY_MAX_LENGTH]);

/*
 * Read the version of a text, which may have any bytes, before it is known of
 * which of several formats with the same prefix and widths it is.  False where
 * it has none, or something else than digits between the prefix and that.
 */
extern bool key_read_version(const KeyFormat *format, const char *str,
							 size_t len, int64_t *version);

/* Read a text, which may have any bytes. */
extern bool key_read(const KeyFormat *format, const char *str, size_t len,
					 Key *key, KeyError *error);

/*
 * The table, from 0 to before tables, that a text routes to: one of digits only
 * as the number that they are; any other by the hash of its bytes.  With codes
 * these must be ASCII, and at least one.
 */
extern bool key_is_number(const char *str, size_t len);
extern int64_t key_route_number(const char *str, size_t len, int64_t tables);
extern uint64_t key_hash(const char *str, size_t len);
extern bool key_route_codes(const char *str, size_t len, int64_t tables,
							int64_t *table, KeyError *error);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_KEY_H */
