--
-- Short, dense numbers, out of segments that the registry hands out, or the
-- home database where there is no registry (extension snowflake_segments)
--

CREATE FUNCTION snowflake_segment_nextval(tag text)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
'draw the next number of a segment tag: short, and unique on all servers of the registry';

CREATE FUNCTION snowflake_segment_next(tag text)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_next(text) IS
'the same as snowflake_segment_nextval(tag), for tools that take "nextval(" for a sequence';

CREATE FUNCTION snowflake_segment_nextval(tag text, count bigint)
RETURNS SETOF bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_nextval(text, bigint) IS
'draw several numbers of a segment tag, in ascending order';

-- as with a sequence, whose numbers may come to an end
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_segment_next(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text, bigint) FROM PUBLIC;

-- not undone by a rollback, and known to all servers of the registry
CREATE FUNCTION snowflake_segment_create(
    tag text, start bigint DEFAULT 1, step bigint DEFAULT 10, delta bigint DEFAULT 1,
    remainder bigint DEFAULT 0, max_value bigint DEFAULT 9223372036854775807,
    description text DEFAULT NULL)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_create'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_create(text, bigint, bigint, bigint, bigint, bigint,
    text) IS 'create a segment tag: a named supply of numbers for snowflake_segment_nextval()';
REVOKE ALL ON FUNCTION snowflake_segment_create(text, bigint, bigint, bigint, bigint, bigint,
    text) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_alter(
    tag text, start bigint DEFAULT NULL, step bigint DEFAULT NULL,
    max_value bigint DEFAULT NULL, description text DEFAULT NULL)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_alter'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_alter(text, bigint, bigint, bigint, text) IS
'change a segment tag, or where its next segment begins; a null argument changes nothing';
REVOKE ALL ON FUNCTION snowflake_segment_alter(text, bigint, bigint, bigint, text) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_drop(tag text, forget boolean DEFAULT false)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_drop'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_drop(text, boolean) IS
'drop a segment tag; a new one of its name continues above its numbers unless forget is true';
REVOKE ALL ON FUNCTION snowflake_segment_drop(text, boolean) FROM PUBLIC;
