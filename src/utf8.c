/*-------------------------------------------------------------------------
 *
 * utf8.c
 *		Texts that processes share: in UTF-8, as each database has an encoding.
 *
 * What comes from the registry is in UTF-8, see registry_link.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"

#include "utf8.h"

void
utf8_copy(char *to, Size size, const char *utf8)
{
	int			length = pg_encoding_mbcliplen(PG_UTF8, utf8, (int) strlen(utf8),
											   (int) size - 1);

	memcpy(to, utf8, length);
	to[length] = '\0';
}

/*
 * What the encoding of this database does not have becomes a question mark: a
 * message or a view is not to fail for it.
 */
const char *
utf8_to_server(const char *utf8)
{
	int			length = (int) strlen(utf8);
	int			encoding = GetDatabaseEncoding();
	Oid			conversion;
	unsigned char *result;

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return utf8;
	conversion = FindDefaultConversionProc(PG_UTF8, encoding);
	result = palloc((Size) length * MAX_CONVERSION_GROWTH + 1);
	if (OidIsValid(conversion) &&
		pg_do_encoding_conversion_buf(conversion, PG_UTF8, encoding,
									  (unsigned char *) unconstify(char *, utf8), length,
									  result, length * MAX_CONVERSION_GROWTH + 1,
									  true) == length)
		return (char *) result;

	strcpy((char *) result, utf8);
	for (int i = 0; i < length; i++)
	{
		if (IS_HIGHBIT_SET(result[i]))
			result[i] = '?';
	}
	return (char *) result;
}
