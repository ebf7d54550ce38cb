--
-- Periods
--

-- The one name that others may have given to a function of theirs.  The result of those for a
-- day and a text depends on the session's time zone, so it is not the planner's to know.
DO $do$
BEGIN
    CREATE FUNCTION id_range_for(ts timestamptz)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_instant'
    LANGUAGE C STABLE STRICT PARALLEL SAFE
    SUPPORT snowflake_settings_support;

    CREATE FUNCTION id_range_for(from_ts timestamptz, to_ts timestamptz)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_bounds'
    LANGUAGE C STABLE STRICT PARALLEL SAFE
    SUPPORT snowflake_settings_support;

    CREATE FUNCTION id_range_for(day date)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_day'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;

    CREATE FUNCTION id_range_for(day_or_ts text)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_text'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
EXCEPTION
    WHEN duplicate_function THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_function',
            MESSAGE = SQLERRM,
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext';
END
$do$;
COMMENT ON FUNCTION id_range_for(timestamptz) IS
'all snowflake IDs of the time unit that holds an instant';
COMMENT ON FUNCTION id_range_for(timestamptz, timestamptz) IS
'all snowflake IDs with a time from from_ts to before to_ts';
COMMENT ON FUNCTION id_range_for(date) IS
'all snowflake IDs of a day in the time zone of the session';
COMMENT ON FUNCTION id_range_for(text) IS
'all snowflake IDs of a day, or, if the text has a time of day, of the time unit that holds it';

CREATE FUNCTION snowflake_first_id(period tstzrange)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_first_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_first_id(tstzrange) IS
'the smallest snowflake ID with a time in a period; 0 if there is none';

CREATE FUNCTION snowflake_first_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_first_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_first_id(timestamptz, timestamptz) IS
'the smallest snowflake ID with a time from from_ts to before to_ts; 0 if there is none';

CREATE FUNCTION snowflake_last_id(period tstzrange)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_last_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_last_id(tstzrange) IS
'the largest snowflake ID with a time in a period; -1 if there is none';

CREATE FUNCTION snowflake_last_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_last_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_last_id(timestamptz, timestamptz) IS
'the largest snowflake ID with a time from from_ts to before to_ts; -1 if there is none';

CREATE FUNCTION snowflake_in_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_in_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_in_support(internal) IS
'planner support: plan snowflake_in() as id >= first AND id < end';

CREATE FUNCTION snowflake_in(id bigint, period tstzrange)
RETURNS boolean AS 'MODULE_PATHNAME', 'snowflake_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;
COMMENT ON FUNCTION snowflake_in(bigint, tstzrange) IS
'whether the time of a snowflake ID is in a period';

CREATE FUNCTION snowflake_in(id bigint, from_ts timestamptz, to_ts timestamptz)
RETURNS boolean AS 'MODULE_PATHNAME', 'snowflake_in_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;
COMMENT ON FUNCTION snowflake_in(bigint, timestamptz, timestamptz) IS
'whether the time of a snowflake ID is from from_ts to before to_ts';
