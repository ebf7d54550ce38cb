/*-------------------------------------------------------------------------
 *
 * segment_request.c
 *		What the registry is asked about segments, and what it answers.
 *
 * A request is a statement with its parameters as text, an answer is rows.  The
 * home database gets the same requests, as it has the same functions, and gives
 * the same answers, by SPI.  Pure functions of their arguments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "mb/pg_wchar.h"

#include "segment_request.h"

const char	segment_take_sql[] =
	"SELECT asked, incarnation, first, last, step, delta, remainder,"
	" max_value, max_id, closed_until, is_guarded, place, reports, protocol,"
	" (extract(epoch FROM hold) OPERATOR(pg_catalog.*) 1000000)::bigint"
	" FROM %ssnowflake_take_segments("
	"protocol => " CppAsString2(LINK_PROTOCOL) ", tags => $1::text[], incarnations => $2::uuid[], seen => $3::bigint[],"
	" lengths => $4::bigint[],"
	" hold => $5::bigint OPERATOR(pg_catalog.*) interval '1 us',"
	" reporter => $6::uuid, reports => $7::bigint, place => $8::text)";

static const char *const command_sql[] = {
	[SEGMENT_CREATE] =
	("SELECT NOT made, made, max_id, NULL FROM %ssnowflake_create_tag("
	 "tag => $1::text, start => $2::bigint, step => $3::integer,"
	 " delta => $4::integer, remainder => $5::integer,"
	 " max_value => $6::bigint, description => $7::text)"),
	[SEGMENT_ALTER] =
	("SELECT known, changed, max_id, delta FROM %ssnowflake_alter_tag("
	 "tag => $1::text, start => $2::bigint, step => $3::integer,"
	 " max_value => $4::bigint, description => $5::text)"),
	[SEGMENT_DROP] =
	("SELECT removed, removed, NULL, NULL FROM %ssnowflake_drop_tag("
	 "tag => $1::text, forget => $2::boolean)")
};

/*
 * Requests
 */

void
segment_array_add(StringInfo array, const char *value)
{
	appendStringInfoChar(array, array->len == 0 ? '{' : ',');
	if (value == NULL)
	{
		appendStringInfoString(array, "NULL");
		return;
	}
	appendStringInfoChar(array, '"');
	for (const char *c = value; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\')
			appendStringInfoChar(array, '\\');
		appendStringInfoChar(array, *c);
	}
	appendStringInfoChar(array, '"');
}

char *
segment_array_end(StringInfo array)
{
	appendStringInfoString(array, array->len == 0 ? "{}" : "}");
	return array->data;
}

static char *
number_text(int64 value)
{
	return psprintf(INT64_FORMAT, value);
}

/* The same where 0 stands for none. */
static char *
number_or_null(int64 value)
{
	return value == 0 ? NULL : number_text(value);
}

void
segment_request_take(LinkRequest *take, const SegmentAsk *asks, int nasks, int64 hold,
					 const char *reporter, int64 reports, const char *place)
{
	StringInfoData arrays[4];
	int			n = 0;

	for (int i = 0; i < (int) lengthof(arrays); i++)
		initStringInfo(&arrays[i]);
	for (int i = 0; i < nasks; i++)
	{
		const SegmentAsk *ask = &asks[i];

		segment_array_add(&arrays[0], ask->tag);
		segment_array_add(&arrays[1], ask->incarnation[0] == '\0' ? NULL : ask->incarnation);
		segment_array_add(&arrays[2], number_text(ask->seen));
		segment_array_add(&arrays[3], number_text(ask->length));
	}

	take->sql = segment_take_sql;
	take->nparams = SEGMENT_TAKE_PARAMS;
	for (; n < (int) lengthof(arrays); n++)
		take->values[n] = segment_array_end(&arrays[n]);
	take->values[n++] = number_text(hold);
	take->values[n++] = reporter;
	take->values[n++] = number_or_null(reports);
	take->values[n++] = place;
}

void
segment_request_command(LinkRequest *sent, const SegmentCommand *command)
{
	const SegmentOptions *options = &command->options;
	const char **values = sent->values;
	int			n = 0;

	values[n++] = pstrdup(command->tag);
	if (command->kind == SEGMENT_DROP)
		values[n++] = options->forget ? "true" : "false";
	else
	{
		values[n++] = number_or_null(options->start);
		values[n++] = number_or_null(options->step);
		if (command->kind == SEGMENT_CREATE)
		{
			values[n++] = number_text(options->delta);
			values[n++] = number_text(options->remainder);
		}
		values[n++] = number_or_null(options->max_value);
		values[n++] = options->has_description ? pstrdup(options->description) : NULL;
	}
	sent->sql = command_sql[command->kind];
	sent->nparams = n;
}

/*
 * Answers
 */

/* A value of an answer, in UTF-8; NULL for null. */
static char *
value_of(const PGresult *answer, int row, int column)
{
	char	   *value;

	if (answer != NULL)
		return PQgetisnull(answer, row, column) ? NULL :
			pstrdup(PQgetvalue(answer, row, column));
	value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column + 1);
	return value == NULL ? NULL :
		pg_server_to_any(value, (int) strlen(value), PG_UTF8);
}

static bool
truth_of(const PGresult *answer, int row, int column)
{
	char	   *value = value_of(answer, row, column);

	return value != NULL && *value == 't';
}

static int64
number_of(const PGresult *answer, int row, int column)
{
	char	   *value = value_of(answer, row, column);

	return value == NULL ? 0 : strtoll(value, NULL, 10);
}

static int
compare_rows(const void *a, const void *b)
{
	return strcmp(((const SegmentRow *) a)->tag, ((const SegmentRow *) b)->tag);
}

SegmentRow *
segment_find_row(SegmentRow *rows, int nrows, const char *tag)
{
	SegmentRow	key = {.tag = tag};

	return bsearch(&key, rows, nrows, sizeof(SegmentRow), compare_rows);
}

SegmentRow *
segment_read_rows(const PGresult *answer, int nrows)
{
	SegmentRow *rows = palloc0(sizeof(SegmentRow) * Max(nrows, 1));

	for (int i = 0; i < nrows; i++)
	{
		SegmentRow *row = &rows[i];

		row->tag = value_of(answer, i, 0);
		if (row->tag == NULL)
			row->tag = "";
		row->incarnation = value_of(answer, i, 1);
		row->is_given = value_of(answer, i, 2) != NULL;
		row->from = number_of(answer, i, 2);
		row->to = number_of(answer, i, 3);
		row->step = (int32) number_of(answer, i, 4);
		row->delta = (int32) number_of(answer, i, 5);
		row->remainder = (int32) number_of(answer, i, 6);
		row->max_value = value_of(answer, i, 7) == NULL ? PG_INT64_MAX :
			number_of(answer, i, 7);
		row->max_id = number_of(answer, i, 8);
		row->closed_until = value_of(answer, i, 9);
		row->is_guarded = truth_of(answer, i, 10);
		row->place = value_of(answer, i, 11);
		row->reports = number_of(answer, i, 12);
		row->protocol = number_of(answer, i, 13);
		row->hold = number_of(answer, i, 14);
	}
	qsort(rows, nrows, sizeof(SegmentRow), compare_rows);
	return rows;
}

/*
 * Is it what the registry can say of a tag?  Not so where functions only have
 * these names; and then this server is to be none the worse for it.
 */
bool
segment_row_is_sound(const SegmentRow *row)
{
	if (row->tag[0] == '\0' || row->place == NULL)
		return false;
	if (row->incarnation == NULL)
		return true;
	return row->delta >= 1 && row->remainder >= 0 && row->remainder < row->delta &&
		(!row->is_given || (row->from >= 1 && row->to >= row->from &&
							row->to - row->from < PG_INT32_MAX));
}

SegmentResult *
segment_read_result(const PGresult *answer)
{
	SegmentResult *result = palloc0(sizeof(SegmentResult));

	result->found = truth_of(answer, 0, 0);
	result->changed = truth_of(answer, 0, 1);
	result->max_id = number_of(answer, 0, 2);
	result->delta = (int32) number_of(answer, 0, 3);
	return result;
}
