/*-------------------------------------------------------------------------
 *
 * explain.c
 *		snowflake_explain(): a drawing of the bits of an ID, for people.
 *
 * As in
 *
 *		0 0000001000 ... 00 11000 01110 110101011010
 *		^ ^---- ...  ------ ^---- ^---- ^-----------
 *		| time 36257524056  |     |     sequence 3418
 *		sign 0              |     worker 14
 *							node 24
 *
 * Nothing in it depends on the session: times are shown in UTC, as ISO has
 * them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"

#include "clock.h"
#include "codec.h"
#include "parse.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_explain);
PG_FUNCTION_INFO_V1(snowflake_explain_dialect);
PG_FUNCTION_INFO_V1(snowflake_explain_layout);

/* The fields, the sign bit, and what is unused below it. */
#define MAX_SPANS (LAYOUT_FIELDS + 2)

/*
 * Bits of an ID that belong together.
 */
typedef struct Span
{
	const char *name;
	int			field;			/* a LayoutField, or -1 */
	int			bits;
	int			shift;
	uint64		value;
	char	   *label;			/* below the bits */
	int			column;			/* of the first bit, and of the label */
	int			line;			/* of the label, from 0 */
} Span;

static void
add_span(Span *spans, int *nspans, const char *name, int field, int bits,
		 int shift, uint64 value)
{
	Span	   *span = &spans[(*nspans)++];

	span->name = name;
	span->field = field;
	span->bits = bits;
	span->shift = shift;
	span->value = value;
	span->label = psprintf("%s " UINT64_FORMAT, name, value);
}

/*
 * All bits of an ID from the highest down.  Returns how many spans these are.
 */
static int
get_spans(const Layout *layout, int64 id, Span spans[MAX_SPANS])
{
	int			nspans = 0;
	int			top = layout->total_bits;	/* what is above is done */

	add_span(spans, &nspans, "sign", -1, 1, LAYOUT_MAX_BITS, 0);
	if (top < LAYOUT_MAX_BITS)
		add_span(spans, &nspans, "unused", -1, LAYOUT_MAX_BITS - top, top, 0);

	while (top > 0)
	{
		for (int field = 0; field < LAYOUT_FIELDS; field++)
		{
			int			bits = layout->bits[field];
			int			shift = layout->shift[field];

			if (bits > 0 && shift + bits == top)
			{
				add_span(spans, &nspans, layout_field_name(field), field,
						 bits, shift, layout_unpack(layout, id, field));
				top = shift;
			}
		}
	}
	return nspans;
}

/*
 * Give each label the highest line in which it meets neither a label nor the
 * mark that connects a label further down with its bits.
 */
static void
place_labels(Span *spans, int nspans)
{
	int			column = 0;

	for (int i = 0; i < nspans; i++)
	{
		spans[i].column = column;
		column += spans[i].bits + 1;
	}

	for (int i = nspans - 1; i >= 0; i--)
	{
		int			end = spans[i].column + (int) strlen(spans[i].label);

		spans[i].line = 0;
		for (int right = i + 1; right < nspans; right++)
		{
			if (spans[right].column <= end)
				spans[i].line = Max(spans[i].line, spans[right].line + 1);
		}
	}
}

/*
 * The bits, the marks below them, and the labels.
 */
static void
draw(StringInfo out, const Span *spans, int nspans, int64 id)
{
	int			nlines = 0;

	for (int i = 0; i < nspans; i++)
	{
		if (i > 0)
			appendStringInfoChar(out, ' ');
		for (int bit = spans[i].bits - 1; bit >= 0; bit--)
			appendStringInfoChar(out, '0' + ((id >> (spans[i].shift + bit)) & 1));
		nlines = Max(nlines, spans[i].line + 1);
	}
	appendStringInfoChar(out, '\n');

	for (int i = 0; i < nspans; i++)
	{
		appendStringInfoString(out, i > 0 ? " ^" : "^");
		for (int bit = 1; bit < spans[i].bits; bit++)
			appendStringInfoChar(out, '-');
	}
	appendStringInfoChar(out, '\n');

	for (int line = 0; line < nlines; line++)
	{
		int			start = out->len;

		for (int i = 0; i < nspans; i++)
		{
			if (spans[i].line < line)
				continue;
			appendStringInfoSpaces(out, start + spans[i].column - out->len);
			appendStringInfoString(out, spans[i].line == line ?
								   spans[i].label : "|");
		}
		appendStringInfoChar(out, '\n');
	}
}

/*
 * An instant, in UTC.
 */
static char *
utc_to_str(TimestampTz ts)
{
	char	   *str = palloc(MAXDATELEN + 1);
	struct pg_tm tm;
	fsec_t		fsec;

	if (timestamp2tm(ts, NULL, &tm, &fsec, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));
	tm.tm_isdst = 0;			/* or it would not show the zone */
	EncodeDateTime(&tm, fsec, true, 0, NULL, USE_ISO_DATES, str);
	return str;
}

/*
 * What the value of a span says.  Where backfill_worker is not 0, that worker
 * number is only drawn from by snowflake_backfill().
 */
static const char *
meaning_of(const Span *span, const Meaning *meaning, uint64 backfill_worker)
{
	TimestampTz ts;

	if (span->field == FIELD_TIME)
		return clock_unit_start(meaning->layout, meaning->epoch, span->value,
								&ts) ?
			utc_to_str(ts) : "later than a timestamp can be";
	if (span->field >= 0)
		return psprintf("of 0 to " UINT64_FORMAT "%s",
						meaning->layout->max[span->field],
						span->field == FIELD_WORKER && backfill_worker != 0 &&
						span->value == backfill_worker ?
						", drawn by snowflake_backfill()" : "");
	if (span->shift < LAYOUT_MAX_BITS)
		return "not in the layout";
	return meaning->dialect != NULL && meaning->dialect->is_unsigned ?
		"part of the time in the original" : "IDs are not negative";
}

/*
 * One line for each span.
 */
static void
list(StringInfo out, const Span *spans, int nspans, const Meaning *meaning,
	 uint64 backfill_worker)
{
	int			width = strlen("value");

	for (int i = 0; i < nspans; i++)
		width = Max(width, snprintf(NULL, 0, UINT64_FORMAT, spans[i].value));

	appendStringInfo(out, "field     width    bits  %*s  meaning\n",
					 width, "value");
	for (int i = 0; i < nspans; i++)
	{
		const Span *span = &spans[i];
		char	   *from = psprintf("%d..", span->shift + span->bits - 1);

		appendStringInfo(out, "%-8s  %5d  %4s%-2d  %*s  %s\n", span->name,
						 span->bits, span->bits > 1 ? from : "", span->shift,
						 width, psprintf(UINT64_FORMAT, span->value),
						 meaning_of(span, meaning, backfill_worker));
	}
}

/*
 * How the time and the ID are made of the values.  The latter is SQL, too:
 * where the server would shift an integer out of its bits, it is told not to.
 */
static void
compute(StringInfo out, const Span *spans, int nspans, const Layout *layout,
		int64 id)
{
	int64		unit_ms = layout->unit_us / 1000;
	bool		first = true;

	appendStringInfo(out, "time = epoch + " UINT64_FORMAT " * " INT64_FORMAT " %s\n",
					 (uint64) layout_unpack(layout, id, FIELD_TIME),
					 unit_ms % 1000 == 0 ? unit_ms / 1000 : unit_ms,
					 unit_ms % 1000 == 0 ? "s" : "ms");

	appendStringInfoString(out, "ID = ");
	for (int i = 0; i < nspans; i++)
	{
		const Span *span = &spans[i];

		if (span->field < 0)
			continue;
		if (!first)
			appendStringInfoString(out, " | ");
		first = false;
		if (span->shift == 0)
			appendStringInfo(out, UINT64_FORMAT, span->value);
		else
			appendStringInfo(out, "(" UINT64_FORMAT "%s << %d)", span->value,
							 span->value <= PG_INT32_MAX &&
							 span->value << span->shift > PG_INT32_MAX ?
							 "::bigint" : "", span->shift);
	}
}

static Datum
explain(int64 id, const Meaning *meaning, uint64 backfill_worker)
{
	const Codec *base32 = codec_find("base32", strlen("base32"));
	char		code[CODEC_MAX_LENGTH];
	StringInfoData out;
	Span		spans[MAX_SPANS];
	int			nspans;

	parse_check_by(meaning, id);
	nspans = get_spans(meaning->layout, id, spans);
	place_labels(spans, nspans);

	initStringInfo(&out);
	appendStringInfo(&out, "ID       " INT64_FORMAT "\n", id);
	appendStringInfo(&out, "hex      0x%016llx\n", (unsigned long long) id);
	appendStringInfo(&out, "base32   %.*s\n",
					 (int) codec_encode(base32, id, code), code);
	if (meaning->dialect != NULL)
		appendStringInfo(&out, "dialect  %s\n", meaning->dialect->name);
	appendStringInfo(&out, "layout   %s\n", meaning->layout_text);
	appendStringInfo(&out, "epoch    %s\n\n", utc_to_str(meaning->epoch));
	draw(&out, spans, nspans, id);
	appendStringInfoChar(&out, '\n');
	list(&out, spans, nspans, meaning, backfill_worker);
	appendStringInfoChar(&out, '\n');
	compute(&out, spans, nspans, meaning->layout, id);

	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

/* snowflake_explain(id) */
Datum
snowflake_explain(PG_FUNCTION_ARGS)
{
	Meaning		own = parse_own();

	return explain(PG_GETARG_INT64(0), &own, settings_backfill_worker());
}

/* snowflake_explain(id, dialect) */
Datum
snowflake_explain_dialect(PG_FUNCTION_ARGS)
{
	const Dialect *dialect =
		parse_dialect(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	Layout		layout;
	Meaning		meaning;

	parse_layout(dialect->layout, &layout);
	meaning = parse_by_dialect(dialect, &layout);
	return explain(PG_GETARG_INT64(0), &meaning, 0);
}

/* snowflake_explain(id, layout, epoch) */
Datum
snowflake_explain_layout(PG_FUNCTION_ARGS)
{
	Layout		layout;
	Meaning		meaning = {
		.layout = &layout,
		.layout_text = text_to_cstring(PG_GETARG_TEXT_PP(1)),
		.epoch = parse_epoch(fcinfo, 2),
	};

	parse_layout(meaning.layout_text, &layout);
	return explain(PG_GETARG_INT64(0), &meaning, 0);
}
