/*-------------------------------------------------------------------------
 *
 * codec_funcs.c
 *		The SQL functions that write IDs as base32, base58 and base62, and read
 *		these texts: snowflake_encode() and snowflake_decode().
 *
 * The codecs are in codec.c; here are the arguments and the errors.  These
 * functions depend on no setting, so they are IMMUTABLE.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "codec.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(snowflake_encode);
PG_FUNCTION_INFO_V1(snowflake_decode);

/* How much of a malformed text to show, in bytes. */
#define SHOWN_TEXT	40

/* The argument "base". */
static const Codec *
getarg_codec(FunctionCallInfo fcinfo, int argno)
{
	text	   *name = PG_GETARG_TEXT_PP(argno);
	const Codec *codec = codec_find(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));

	if (codec == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown base \"%s\"", text_to_cstring(name)),
				 errhint("There are \"base32\", \"base58\" and \"base62\".")));
	return codec;
}

/* snowflake_encode(id, base) */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Codec *codec = getarg_codec(fcinfo, 1);
	char		str[CODEC_MAX_LENGTH];

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg(INT64_FORMAT " is not a snowflake ID", id),
				 errdetail("Snowflake IDs are not negative.")));

	PG_RETURN_TEXT_P(cstring_to_text_with_len(str,
											  codec_encode(codec, id, str)));
}

/*
 * Say what is wrong with a text in a DETAIL, and in a HINT where that helps.
 */
static int
errdetail_decode(const Codec *codec, CodecResult result,
				 const char *str, int len, int offset)
{
	int			position = offset + 1;
	int			char_len = pg_mbcharcliplen(str + offset, len - offset, 1);
	const char *character = pnstrdup(str + offset, char_len);
	char		max[CODEC_MAX_LENGTH];

	switch (result)
	{
		case CODEC_NOT_A_DIGIT:
			errhint("The digits are \"%s\"%s.", codec->digits,
					codec->ignore_case ?
					", in either case; I and L are read as 1, and O as 0" : "");
			return errdetail("\"%s\" at position %d is not a digit of %s.",
							 character, position, codec->name);
		case CODEC_LEADING_ZERO:
			return errdetail("\"%s\" at position %d is a leading zero; an ID in %s has none.",
							 character, position, codec->name);
		case CODEC_TOO_LARGE:
			return errdetail("\"%s\" at position %d makes it larger than the largest ID, \"%.*s\".",
							 character, position,
							 (int) codec_encode(codec, PG_INT64_MAX, max), max);
		case CODEC_TOO_SHORT:
			if (len == 0)
				return errdetail("It is empty.");
			return errdetail("It ends after position %d; an ID in %s has %d characters.",
							 offset, codec->name, (int) codec->min_length);
		case CODEC_TOO_LONG:
			return errdetail("It goes on at position %d; an ID in %s has no more than %d characters.",
							 position, codec->name, (int) codec->max_length);
		case CODEC_OK:
			break;
	}
	return 0;
}

/* snowflake_decode(code, base) */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	text	   *arg = PG_GETARG_TEXT_PP(0);
	const Codec *codec = getarg_codec(fcinfo, 1);
	const char *str = VARDATA_ANY(arg);
	int			len = VARSIZE_ANY_EXHDR(arg);
	int64		id;
	size_t		offset;
	CodecResult result;

	result = codec_decode(codec, str, len, &id, &offset);
	if (result != CODEC_OK)
	{
		int			shown = pg_mbcliplen(str, len, SHOWN_TEXT);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid %s text for a snowflake ID: \"%.*s%s\"",
						codec->name, shown, str, shown < len ? "..." : ""),
				 errdetail_decode(codec, result, str, len, (int) offset)));
	}
	PG_RETURN_INT64(id);
}
