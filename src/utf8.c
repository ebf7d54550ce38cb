/*-------------------------------------------------------------------------
 *
 * utf8.c
 *		Texts that processes share, in UTF-8 because each database has an
 *		encoding, and how much of them the caller may see.
 *
 * Texts from the registry are in UTF-8, see registry_link.c.  An error of the
 * worker is in the encoding of its database: it is noted at a point where
 * nothing can be looked up to convert it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"

#include "utf8.h"

/*
 * A character that the other encoding does not have makes all that is not
 * ASCII question marks: a message or a view is not to fail for it.
 */
static void
make_ascii(char *text)
{
	for (; *text != '\0'; text++)
	{
		if (IS_HIGHBIT_SET(*text))
			*text = '?';
	}
}

void
utf8_copy(char *to, Size size, const char *utf8)
{
	int			length = (int) strlen(utf8);

	/* the last character may be cut off in its midst */
	length = Min(length, pg_encoding_mbcliplen(PG_UTF8, utf8, length, (int) size - 1));
	memcpy(to, utf8, length);
	to[length] = '\0';
	if (!pg_verify_mbstr(PG_UTF8, to, length, true))
		make_ascii(to);
}

static const char *
convert(const char *text, int from, int to)
{
	int			length = (int) strlen(text);
	Oid			conversion = FindDefaultConversionProc(from, to);
	unsigned char *result = palloc((Size) length * MAX_CONVERSION_GROWTH + 1);

	if (OidIsValid(conversion) &&
		pg_do_encoding_conversion_buf(conversion, from, to,
									  (unsigned char *) unconstify(char *, text), length,
									  result, length * MAX_CONVERSION_GROWTH + 1,
									  true) == length)
		return (char *) result;

	strcpy((char *) result, text);
	make_ascii((char *) result);
	return (char *) result;
}

const char *
utf8_to_server(const char *utf8)
{
	int			encoding = GetDatabaseEncoding();

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return utf8;
	return convert(utf8, PG_UTF8, encoding);
}

const char *
utf8_any_to_server(const char *text, int encoding)
{
	if (encoding == GetDatabaseEncoding())
		return text;

	/* of no encoding: it is taken for UTF-8 if it can be that */
	if (encoding != PG_UTF8 &&
		(encoding != PG_SQL_ASCII ||
		 !pg_verify_mbstr(PG_UTF8, text, (int) strlen(text), true)))
		text = convert(text, encoding, PG_UTF8);

	return utf8_to_server(text);
}

bool
may_read_all_stats(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

const char *
text_shown(const char *text)
{
	const char *colon = strstr(text, ": ");

	if (colon == NULL || may_read_all_stats())
		return text;

	return psprintf("%.*s.", (int) (colon - text), text);
}

char *
text_cut(const char *text, int len)
{
	int			shown = pg_mbcliplen(text, len, 100);

	return psprintf("%.*s%s", shown, text, shown < len ? "..." : "");
}
