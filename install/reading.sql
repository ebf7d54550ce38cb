--
-- Reading
--

CREATE FUNCTION snowflake_parse(
    id bigint, OUT ts timestamptz, OUT node integer, OUT worker integer, OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint) IS 'the fields of a snowflake ID';

-- With a layout and epoch that do not depend on settings: IMMUTABLE.
CREATE FUNCTION snowflake_parse(
    id bigint, dialect text, OUT ts timestamptz, OUT node integer, OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint, text) IS
'the fields of an ID of another generator, by a name of snowflake_dialects()';

CREATE FUNCTION snowflake_parse(
    id bigint, layout text, epoch timestamptz, OUT ts timestamptz, OUT node integer,
    OUT worker integer, OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint, text, timestamptz) IS
'the fields of an ID, with any layout or dialect name and any epoch';

CREATE FUNCTION snowflake_timestamp(id bigint)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'the time in a snowflake ID: the start of the time unit in which it was drawn';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text, epoch timestamptz)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_timestamp(bigint, text, timestamptz) IS
'the time in an ID, with any layout or dialect name and any epoch';

CREATE FUNCTION snowflake_horizon_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_horizon_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_horizon_support(internal) IS
'planner support: refuse snowflake_horizon() in a statement that reads a table';

CREATE FUNCTION snowflake_horizon()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_horizon'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
SUPPORT snowflake_horizon_support;
COMMENT ON FUNCTION snowflake_horizon() IS
'the ID below which readers miss no row whose ID this server drew for its insert';

-- IMMUTABLE: text forms depend on no setting
CREATE FUNCTION snowflake_encode(id bigint, base text DEFAULT 'base32')
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_encode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_encode(bigint, text) IS
'a snowflake ID as a short text: base32 (which sorts like the IDs), base58 or base62';

CREATE FUNCTION snowflake_decode(code text, base text DEFAULT 'base32')
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_decode(text, text) IS
'the snowflake ID of a text in base32, base58 or base62; the inverse of snowflake_encode()';

CREATE FUNCTION snowflake_dialects(
    OUT name text, OUT layout text, OUT epoch timestamptz, OUT time_bits integer,
    OUT node_bits integer, OUT worker_bits integer, OUT sequence_bits integer,
    OUT time_unit interval, OUT last_ts timestamptz, OUT is_unsigned boolean, OUT description text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'snowflake_dialects'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 13;
COMMENT ON FUNCTION snowflake_dialects() IS
'one row for each snowflake generator whose layout has a name: its fields, epoch and last time';
