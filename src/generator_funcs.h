/*-------------------------------------------------------------------------
 *
 * generator_funcs.h
 *		What the hooks tell the SQL functions that make IDs about COPY.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_FUNCS_H
#define SNOWFLAKE_GENERATOR_FUNCS_H

#include "nodes/nodes.h"

#pragma GCC visibility push(hidden)

/* A utility statement begins, which may be a COPY ... FROM. */
extern void copy_default_begin(Node *stmt);

/*
 * Defaults are not those of that statement any more: it has ended, or another
 * one has begun within it.
 */
extern void copy_default_end(void);

#pragma GCC visibility pop

#endif							/* SNOWFLAKE_GENERATOR_FUNCS_H */
