--
-- Drawing
--

-- The first function: where the library is another extension's, say so.
DO $do$
BEGIN
    CREATE FUNCTION snowflake_nextval()
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_next'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
EXCEPTION
    WHEN undefined_function THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'the library "MODULE_PATHNAME" is not of this extension "snowflake"',
            DETAIL = SQLERRM,
            HINT = 'It belongs to another extension of the same name, such as pgEdge''s. Remove '
                   'its package, install this one again, and restart the server.';
END
$do$;
COMMENT ON FUNCTION snowflake_nextval() IS
'draw a snowflake ID: unique, and above every ID that the same process drew before';

CREATE FUNCTION snowflake_next()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_next'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_next() IS
'the same as snowflake_nextval(), for tools that take "nextval(" in a default for a sequence';

--
-- What is not for people: tables, and functions that others are made of.  In a
-- schema of the extension's own, so that tools that look at an application's
-- schema do not meet it.
--
CREATE SCHEMA snowflake_catalog;
COMMENT ON SCHEMA snowflake_catalog IS 'internal objects of the extension snowflake';

-- for test suites that empty all tables that they find
CREATE FUNCTION snowflake_catalog.refuse_truncate()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('cannot truncate "%s.%s"', TG_TABLE_SCHEMA, TG_TABLE_NAME),
        DETAIL = 'The table belongs to the extension "snowflake", not to an application.',
        HINT = 'Exclude the schema "snowflake_catalog" when you truncate tables. '
               'snowflake_key_format_drop() drops a format of keys.';
END $$;
COMMENT ON FUNCTION snowflake_catalog.refuse_truncate() IS
'trigger: refuse to truncate a table of the extension';
REVOKE ALL ON FUNCTION snowflake_catalog.refuse_truncate() FROM PUBLIC;

CREATE FUNCTION snowflake_copy_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_copy_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_copy_support(internal) IS
'planner support: let COPY insert rows in batches when it leaves out the ID';

ALTER FUNCTION snowflake_nextval() SUPPORT snowflake_copy_support;
ALTER FUNCTION snowflake_next() SUPPORT snowflake_copy_support;

-- Only the support function can make its argument.  The server asks for the
-- right to execute it when COPY begins, so everybody has it.
CREATE FUNCTION snowflake_copy_nextval(internal)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_copy_nextval'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_copy_nextval(internal) IS
'called by COPY in place of snowflake_nextval(); cannot be called in SQL';

CREATE FUNCTION snowflake_nextval(count bigint)
RETURNS SETOF bigint AS 'MODULE_PATHNAME', 'snowflake_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_nextval(bigint) IS 'draw several snowflake IDs, in ascending order';

-- what it returns is known only to the backend itself, like currval()
CREATE FUNCTION snowflake_currval()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_current'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_currval() IS
'the last snowflake ID that this session drew, not counting its parallel workers';

-- STABLE and not IMMUTABLE, here and below, where the result depends on
-- snowflake.epoch and snowflake.layout.  Where the library is preloaded, these
-- are fixed while a server runs, so the planner may evaluate the calls all the
-- same; it learns so from the support function.
CREATE FUNCTION snowflake_settings_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_settings_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_settings_support(internal) IS
'planner support: evaluate a call with constant arguments at planning time';

CREATE FUNCTION snowflake_compose(ts timestamptz, node bigint, worker bigint, sequence bigint)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_compose(timestamptz, bigint, bigint, bigint) IS
'build a snowflake ID from its fields; the inverse of snowflake_parse()';

CREATE FUNCTION snowflake_id(ts timestamptz, discriminator bigint)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_id(timestamptz, bigint) IS
'build a snowflake ID from a time and a number of yours; the same each time';

CREATE FUNCTION snowflake_backfill(ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_backfill'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_backfill(timestamptz) IS
'draw a unique snowflake ID with a time in the past, to load history';

-- there are few in each time unit, and they are used up for all databases
REVOKE ALL ON FUNCTION snowflake_backfill(timestamptz) FROM PUBLIC;
