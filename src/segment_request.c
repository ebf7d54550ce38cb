/*-------------------------------------------------------------------------
 *
 * segment_request.c
 *		What the registry is asked about segments, and what it answers.
 *
 * A request is a statement with its parameters as text, an answer is rows.
 * The home database has the same functions, so it gets the same requests and
 * gives the same answers, as a result of SPI.
 *
 * Pure functions of their arguments: segment_fetch.c knows which request is
 * under way.
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

#define CREATE \
	"SELECT NOT made, made, max_id, NULL FROM %ssnowflake_create_tag(" \
	"tag => $1::text, start => $2::bigint, step => $3::integer," \
	" delta => $4::integer, remainder => $5::integer," \
	" max_value => $6::bigint, description => $7::text)"

#define ALTER \
	"SELECT known, changed, max_id, delta FROM %ssnowflake_alter_tag(" \
	"tag => $1::text, start => $2::bigint, step => $3::integer," \
	" max_value => $4::bigint, description => $5::text)"

#define DROP \
	"SELECT removed, removed, NULL, NULL FROM %ssnowflake_drop_tag(" \
	"tag => $1::text, forget => $2::boolean)"

/*
 * Requests
 */

static void
append_element(StringInfo array, const char *value)
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

static void
append_number(StringInfo array, int64 value)
{
	appendStringInfo(array, "%c" INT64_FORMAT, array->len == 0 ? '{' : ',', value);
}

static char *
finish_array(StringInfo array)
{
	appendStringInfoString(array, array->len == 0 ? "{}" : "}");
	return array->data;
}

static char *
number_text(int64 value)
{
	return psprintf(INT64_FORMAT, value);
}

void
segment_request_take(LinkRequest *take, const SegmentAsk *asks, int nasks, int64 hold,
					 const SegmentReporter *reporter)
{
	StringInfoData tags;
	StringInfoData incarnations;
	StringInfoData seen;
	StringInfoData lengths;

	initStringInfo(&tags);
	initStringInfo(&incarnations);
	initStringInfo(&seen);
	initStringInfo(&lengths);
	for (int i = 0; i < nasks; i++)
	{
		const SegmentAsk *ask = &asks[i];

		append_element(&tags, ask->tag);
		append_element(&incarnations, ask->incarnation[0] == '\0' ? NULL : ask->incarnation);
		append_number(&seen, ask->seen);
		append_number(&lengths, ask->length);
	}

	take->sql = segment_take_sql;
	take->nparams = SEGMENT_TAKE_PARAMS;
	take->values[0] = finish_array(&tags);
	take->values[1] = finish_array(&incarnations);
	take->values[2] = finish_array(&seen);
	take->values[3] = finish_array(&lengths);
	take->values[4] = number_text(hold);
	take->values[5] = reporter == NULL ? NULL : pstrdup(reporter->id);
	take->values[6] = reporter == NULL || reporter->reports == 0 ? NULL :
		number_text(reporter->reports);
	take->values[7] = reporter == NULL ? NULL : pstrdup(reporter->place);
}

void
segment_request_command(LinkRequest *sent, const SegmentCommand *command)
{
	const SegmentOptions *options = &command->options;
	const char *description = options->has_description ?
		pstrdup(options->description) : NULL;

	sent->values[0] = pstrdup(command->tag);
	switch (command->kind)
	{
		case SEGMENT_CREATE:
			sent->sql = CREATE;
			sent->nparams = 7;
			sent->values[1] = number_text(options->start);
			sent->values[2] = number_text(options->step);
			sent->values[3] = number_text(options->delta);
			sent->values[4] = number_text(options->remainder);
			sent->values[5] = number_text(options->max_value);
			sent->values[6] = description;
			break;
		case SEGMENT_ALTER:
			sent->sql = ALTER;
			sent->nparams = 5;
			sent->values[1] = options->has_start ? number_text(options->start) : NULL;
			sent->values[2] = options->has_step ? number_text(options->step) : NULL;
			sent->values[3] = options->has_max_value ? number_text(options->max_value) : NULL;
			sent->values[4] = description;
			break;
		case SEGMENT_DROP:
			sent->sql = DROP;
			sent->nparams = 2;
			sent->values[1] = options->forget ? "true" : "false";
			break;
	}
}

/*
 * Answers
 */

/*
 * An answer: over the link, or at home where that is NULL.  A value of it is
 * in UTF-8, NULL for null.
 */
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

SegmentRow *
segment_read_rows(const PGresult *answer, int nrows)
{
	SegmentRow *rows = palloc0(sizeof(SegmentRow) * Max(nrows, 1));

	for (int i = 0; i < nrows; i++)
	{
		SegmentRow *row = &rows[i];

		row->tag = value_of(answer, i, 0);
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
	return rows;
}

/*
 * Is it what the registry can say of a tag?  Not so of another version, or of
 * functions that only have these names; and then this server is to be none the
 * worse for it.
 */
static bool
is_sound(const SegmentRow *row)
{
	if (row->tag == NULL || row->place == NULL)
		return false;
	if (row->incarnation == NULL)
		return true;
	return row->delta >= 1 && row->remainder >= 0 && row->remainder < row->delta &&
		(!row->is_given || (row->from >= 1 && row->to >= row->from &&
							row->to - row->from < PG_INT32_MAX));
}

bool
segment_rows_are_sound(const SegmentRow *rows, int nrows)
{
	for (int i = 0; i < nrows; i++)
	{
		if (!is_sound(&rows[i]))
			return false;
	}
	return true;
}

SegmentResult
segment_read_result(const PGresult *answer)
{
	SegmentResult result = {0};

	result.found = truth_of(answer, 0, 0);
	result.changed = truth_of(answer, 0, 1);
	result.max_id = number_of(answer, 0, 2);
	result.delta = (int32) number_of(answer, 0, 3);
	return result;
}
