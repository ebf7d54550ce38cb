/*-------------------------------------------------------------------------
 *
 * convert_plan.h
 *		snowflake_convert(): the plan, which the files convert*.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONVERT_PLAN_H
#define SNOWFLAKE_CONVERT_PLAN_H

#include "access/attnum.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

#pragma GCC visibility push(hidden)

/* The kinds of rows, in the order of the result. */
typedef enum RowKind
{
	ROW_ERROR,
	ROW_STATEMENT,
	ROW_WARNING,
	ROW_NOTE
} RowKind;

#define NROW_KINDS	(ROW_NOTE + 1)

/* What is written anew. */
typedef struct Rewrite
{
	int			ntables;
	int			nindexes;
	int64		table_bytes;
	int64		index_bytes;
} Rewrite;

/* A table that is written anew. */
typedef struct Measured
{
	Oid			relid;
	int64		bytes;
} Measured;

/* A row of the result. */
typedef struct Row
{
	const char *command;		/* of a statement */
	const char *detail;
	const char *definition;		/* of what is in the way, or NULL */
	const char *hint;			/* or NULL */
	int			sqlerrcode;		/* of an error */
	bool		is_advance;		/* it raises the durable mark */
	const char *table;			/* that an ALTER TABLE names */
	Rewrite		cost;			/* of it */
} Row;

/* Where the column's values come from now. */
typedef enum Source
{
	SOURCE_NONE,
	SOURCE_IDENTITY,
	SOURCE_SEQUENCE,			/* nextval() of a sequence */
	SOURCE_PGEDGE,				/* snowflake.nextval() of a sequence */
	SOURCE_SNOWFLAKE,			/* snowflake_nextval() */
	SOURCE_OTHER
} Source;

/*
 * A column that foreign keys or inheritance connect with the one to be
 * converted, or that one itself.
 */
typedef struct Member
{
	Oid			relid;
	AttrNumber	attnum;
	char	   *column;
	Oid			type;
	Oid			parent;			/* a table from which it inherits the column */
	int			nparents;
	char		relkind;
	bool		typed;			/* of a typed table */
	bool		adjacent;		/* a foreign key connects it with one that
								 * changes its type */
} Member;

/* The plan. */
typedef struct Conversion
{
	Oid			relid;
	AttrNumber	attnum;
	char	   *column;
	char	   *table;			/* with schema and quotes */
	Oid			schema;			/* of this extension */
	bool		to_sequence;	/* back from snowflake IDs */
	bool		force;			/* also where new IDs would be refused */

	Oid			type;
	Source		source;
	char	   *expression;		/* the default, NULL if there is none */
	Oid			sequence;		/* that the default uses */
	List	   *tree;			/* OIDs: the table and its descendants */

	Member	   *members;
	int			nmembers;
	char	   *changing;		/* those of a smaller type, as a FROM item */
	bool		retype;			/* do any become bigint? */

	bool		with_ids;		/* look at the IDs? */
	bool		has_ids;
	int64		min_id;
	int64		max_id;
	uint64		advance_to;		/* 0, or a time unit */

	char	   *lock;			/* the LOCK statement */
	Rewrite		cost;			/* of all statements */
	List	   *measured;		/* the tables among these */
	List	   *rows[NROW_KINDS];
} Conversion;

/* Add a row to the plan. */
extern Row *add_row(Conversion *plan, RowKind kind, const char *detail);
extern Row *add_error(Conversion *plan, int sqlerrcode, const char *detail);
extern Row *add_statement(Conversion *plan, const char *command,
						  const char *detail);

/* Raise the plan's errors as one ERROR; if there are none, return. */
extern void raise_errors(Conversion *plan);

/* Return the rows as the result of the SQL function. */
extern void return_rows(Conversion *plan, ReturnSetInfo *rsinfo);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_CONVERT_PLAN_H */
