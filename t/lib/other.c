/*
 * A stand-in for the library of another extension named snowflake, with the
 * functions and the setting that pgEdge's has.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static int	node;

#define FUNCTION(name) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_INT64(PG_NARGS() == 1 ? node : -1); \
	}

FUNCTION(snowflake_nextval)
FUNCTION(snowflake_currval)
FUNCTION(snowflake_get_epoch)
FUNCTION(snowflake_get_count)
FUNCTION(snowflake_get_node)

void
_PG_init(void)
{
	DefineCustomIntVariable("snowflake.node", "A number.", NULL, &node,
							0, 0, 1023, PGC_USERSET, 0, NULL, NULL, NULL);
}
