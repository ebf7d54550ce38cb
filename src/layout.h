/*-------------------------------------------------------------------------
 *
 * layout.h
 *		How an ID is divided into time, node, worker and sequence.
 *
 * Pure C: no server header, no server call, no global state.  Everything here
 * works on values handed in, so that it can be fuzzed outside a server.
 *
 * This and the other headers hide their symbols from other libraries: the
 * server loads all of them into one name space, and before version 16 says
 * nothing to the compiler about it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LAYOUT_H
#define SNOWFLAKE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A bigint without its sign bit. */
#define LAYOUT_MAX_BITS 63

typedef enum LayoutField
{
	FIELD_TIME,
	FIELD_NODE,
	FIELD_WORKER,
	FIELD_SEQUENCE
} LayoutField;

#define LAYOUT_FIELDS (FIELD_SEQUENCE + 1)

/* A field of 0 bits holds the number 0 only: max is 0, and so is its shift. */
typedef struct Layout
{
	int			bits[LAYOUT_FIELDS];	/* width of the field */
	int			shift[LAYOUT_FIELDS];	/* its lowest bit's place in the ID */
	uint64_t	max[LAYOUT_FIELDS]; /* its largest number, 2^bits - 1 */
	int			total_bits;		/* all widths, at most LAYOUT_MAX_BITS */
	int64_t		unit_us;		/* the time unit, in microseconds */
} Layout;

/* What layout_parse() found wrong. */
typedef struct LayoutError
{
	char		message[160];	/* a full sentence, for a DETAIL */
} LayoutError;

/* Without success *layout is undefined. */
extern bool layout_parse(const char *str, Layout *layout, LayoutError *error);
extern const char *layout_field_name(LayoutField field);

/*
 * The layout as a text that is the same for all layouts that are equal.
 * Returns its argument.
 */
#define LAYOUT_TEXT_SIZE 128

extern char *layout_format(const Layout *layout, char buf[LAYOUT_TEXT_SIZE]);

extern bool layout_equal(const Layout *a, const Layout *b);

/* Do the same numbers in the fields make the same ID? */
extern bool layout_same_ids(const Layout *a, const Layout *b);

/* Does an ID that is larger always have a time that is not smaller? */
static inline bool
layout_sorts_by_time(const Layout *layout)
{
	return layout->shift[FIELD_TIME] + layout->bits[FIELD_TIME] == layout->total_bits;
}

/* Is the field a above the field b?  A field of 0 bits is above nothing. */
static inline bool
layout_is_above(const Layout *layout, LayoutField a, LayoutField b)
{
	return layout->bits[a] > 0 && layout->bits[b] > 0 &&
		layout->shift[a] > layout->shift[b];
}

/* The largest ID of the layout. */
static inline int64_t
layout_max_id(const Layout *layout)
{
	return (int64_t) ((UINT64_C(1) << layout->total_bits) - 1);
}

/*
 * The time unit that holds an instant, given as microseconds since the epoch,
 * and the first unit that starts at or after it.  Both may lie outside the
 * layout's lifetime: below 0, or above max[FIELD_TIME].
 */
extern int64_t layout_unit_floor(const Layout *layout, int64_t since_epoch_us);
extern int64_t layout_unit_ceil(const Layout *layout, int64_t since_epoch_us);

/*
 * The smallest ID of a time unit, where units before the epoch have the start
 * of the ID space and units past the lifetime its end, 2^total_bits, which
 * is 2^63 at most.  Only for layouts that sort by time.
 */
extern uint64_t layout_unit_first_id(const Layout *layout, int64_t unit);

/*
 * The time unit after that of an ID, which must be one of the layout, if all
 * IDs of a node from there on are above it.  False when a field above the time
 * keeps some below, or the ID's was the last unit.
 */
extern bool layout_unit_above(const Layout *layout, uint64_t node, int64_t id,
							  uint64_t *unit);

/* Put an ID together; every number must be within its field. */
static inline int64_t
layout_pack(const Layout *layout, uint64_t time, uint64_t node,
			uint64_t worker, uint64_t sequence)
{
	return (int64_t) (time << layout->shift[FIELD_TIME] |
					  node << layout->shift[FIELD_NODE] |
					  worker << layout->shift[FIELD_WORKER] |
					  sequence << layout->shift[FIELD_SEQUENCE]);
}

/* One field of an ID, which must not be negative. */
static inline uint64_t
layout_unpack(const Layout *layout, int64_t id, LayoutField field)
{
	return ((uint64_t) id >> layout->shift[field]) & layout->max[field];
}

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_LAYOUT_H */
