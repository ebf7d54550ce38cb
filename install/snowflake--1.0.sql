/* snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

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
            MESSAGE = 'the library "MODULE_PATHNAME" is not that of this extension "snowflake"',
            DETAIL = SQLERRM,
            HINT = 'It is that of another extension of the same name, such as pgEdge''s. Remove the package it came with, install this one again, and restart the server.';
END
$do$;

COMMENT ON FUNCTION snowflake_nextval() IS
'draw a snowflake ID: unique, and above every ID that this session drew before';

CREATE FUNCTION snowflake_copy_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_copy_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_copy_support(internal) IS
'planner support: lets COPY write rows in groups where it leaves out the key';

ALTER FUNCTION snowflake_nextval() SUPPORT snowflake_copy_support;

-- Only the support function can make its argument.  The server asks for the
-- right to execute it when COPY begins, so everybody has it.
CREATE FUNCTION snowflake_copy_nextval(internal)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_copy_nextval'
LANGUAGE C STABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_copy_nextval(internal) IS
'what COPY calls in place of snowflake_nextval(); cannot be called by name';

CREATE FUNCTION snowflake_nextval(count integer)
RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval(integer) IS
'draw a number of snowflake IDs, in ascending order';

-- what it returns is known only to the backend itself, like currval()
CREATE FUNCTION snowflake_currval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_current'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION snowflake_currval() IS
'the last snowflake ID that this session drew';

-- STABLE and not IMMUTABLE, here and below, where the result depends on
-- snowflake.epoch and snowflake.layout.  Where the library is preloaded, these
-- are fixed while a server runs, so the planner may evaluate the calls all the
-- same; it learns so from the support function.
CREATE FUNCTION snowflake_settings_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_settings_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_settings_support(internal) IS
'planner support: evaluate calls with constant arguments when planned';

CREATE FUNCTION snowflake_compose(
    ts timestamptz,
    node integer,
    worker integer,
    sequence integer)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer) IS
'put a snowflake ID together from its fields, the inverse of snowflake_parse';

CREATE FUNCTION snowflake_id(
    ts timestamptz,
    discriminator bigint)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_id(timestamptz, bigint) IS
'put a snowflake ID together from a time and the caller''s own key in place of all other fields; the same for the same arguments';

CREATE FUNCTION snowflake_backfill(ts timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_backfill'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_backfill(timestamptz) IS
'draw a snowflake ID of a time in the past, to load history: unique, also beside the IDs that were drawn at that time';

-- there are few in each time unit, and they are used up for all databases
REVOKE ALL ON FUNCTION snowflake_backfill(timestamptz) FROM PUBLIC;

--
-- Reading
--

CREATE FUNCTION snowflake_parse(
    id bigint,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint) IS
'the fields of a snowflake ID';

-- With a layout and epoch that do not depend on settings: IMMUTABLE.
CREATE FUNCTION snowflake_parse(
    id bigint,
    dialect text,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse_dialect'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint, text) IS
'the fields of an ID of another generator, one of the view snowflake_dialects';

CREATE FUNCTION snowflake_parse(
    id bigint,
    layout text,
    epoch timestamptz,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse_layout'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint, text, timestamptz) IS
'the fields of an ID with any layout and epoch';

CREATE FUNCTION snowflake_timestamp(id bigint)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'the time in a snowflake ID: the start of the time unit in which it was drawn';

CREATE FUNCTION snowflake_explain(id bigint)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint) IS
'a drawing of the bits of a snowflake ID, with its fields and what they mean';

CREATE FUNCTION snowflake_explain(id bigint, dialect text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain_dialect'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
'a drawing of the bits of an ID of another generator, one of the view snowflake_dialects';

CREATE FUNCTION snowflake_explain(id bigint, layout text, epoch timestamptz)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain_layout'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint, text, timestamptz) IS
'a drawing of the bits of an ID with any layout and epoch';

-- IMMUTABLE: text forms depend on no setting
CREATE FUNCTION snowflake_encode(id bigint, base text DEFAULT 'base32')
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_encode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_encode(bigint, text) IS
'a snowflake ID as a short text, in base32 (Crockford''s, sorts as the IDs do), base58 or base62';

CREATE FUNCTION snowflake_decode(code text, base text DEFAULT 'base32')
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_decode(text, text) IS
'the snowflake ID of a text in base32, base58 or base62, the inverse of snowflake_encode';

CREATE FUNCTION snowflake_dialects(
    OUT name text,
    OUT layout text,
    OUT epoch timestamptz,
    OUT time_bits integer,
    OUT node_bits integer,
    OUT worker_bits integer,
    OUT sequence_bits integer,
    OUT time_unit interval,
    OUT last_ts timestamptz,
    OUT is_unsigned boolean,
    OUT description text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_dialects'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 13;

COMMENT ON FUNCTION snowflake_dialects() IS
'the layouts that have a name; use the view snowflake_dialects';

CREATE VIEW snowflake_dialects AS
    SELECT d.name, d.layout, d.epoch, d.time_bits, d.node_bits, d.worker_bits,
        d.sequence_bits, d.time_unit, d.last_ts, d.is_unsigned, d.description
    FROM snowflake_dialects() AS d;

COMMENT ON VIEW snowflake_dialects IS
'one row for each snowflake generator whose layout has a name: its fields and epoch, the last time that a bigint holds, and whether the original has unsigned numbers';

COMMENT ON COLUMN snowflake_dialects.name IS
'name of the dialect, for snowflake_parse(), snowflake_explain() and snowflake.layout';
COMMENT ON COLUMN snowflake_dialects.layout IS
'fields from the highest bit to the lowest, each with its width in bits';
COMMENT ON COLUMN snowflake_dialects.epoch IS
'instant of time 0';
COMMENT ON COLUMN snowflake_dialects.time_bits IS
'width of the time, in bits';
COMMENT ON COLUMN snowflake_dialects.node_bits IS
'width of the node number, in bits';
COMMENT ON COLUMN snowflake_dialects.worker_bits IS
'width of the worker number, in bits';
COMMENT ON COLUMN snowflake_dialects.sequence_bits IS
'width of the sequence number, in bits';
COMMENT ON COLUMN snowflake_dialects.time_unit IS
'length of a time unit';
COMMENT ON COLUMN snowflake_dialects.last_ts IS
'last time that a bigint holds';
COMMENT ON COLUMN snowflake_dialects.is_unsigned IS
'whether the original generator has unsigned numbers';
COMMENT ON COLUMN snowflake_dialects.description IS
'the generator, and where its scheme comes from';

GRANT SELECT ON snowflake_dialects TO PUBLIC;

--
-- Periods
--

CREATE FUNCTION id_range_for(ts timestamptz)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_instant'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION id_range_for(timestamptz) IS
'all snowflake IDs of the time unit that holds an instant';

CREATE FUNCTION id_range_for(from_ts timestamptz, to_ts timestamptz)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION id_range_for(timestamptz, timestamptz) IS
'all snowflake IDs with a time from from_ts to before to_ts';

-- The result of these two depends on the session's time zone, so it is not the
-- planner's to know.
CREATE FUNCTION id_range_for(day date)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_day'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION id_range_for(date) IS
'all snowflake IDs of a day in the time zone of the session';

CREATE FUNCTION id_range_for(day_or_ts text)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_text'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION id_range_for(text) IS
'all snowflake IDs of a day, or of the time unit that holds an instant where the text has a time of day';

CREATE FUNCTION snowflake_first_id(period tstzrange)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_first_id(tstzrange) IS
'the smallest snowflake ID with a time in a period; 0 when none can be';

CREATE FUNCTION snowflake_first_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_first_id(timestamptz, timestamptz) IS
'the smallest snowflake ID with a time from from_ts to before to_ts; 0 when none can be';

CREATE FUNCTION snowflake_last_id(period tstzrange)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_last_id(tstzrange) IS
'the largest snowflake ID with a time in a period; -1 when none can be';

CREATE FUNCTION snowflake_last_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_last_id(timestamptz, timestamptz) IS
'the largest snowflake ID with a time from from_ts to before to_ts; -1 when none can be';

CREATE FUNCTION snowflake_in_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_in_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_in_support(internal) IS
'planner support: see snowflake_in(id, period) as id >= first AND id < end';

CREATE FUNCTION snowflake_in(id bigint, period tstzrange)
RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;

COMMENT ON FUNCTION snowflake_in(bigint, tstzrange) IS
'is the time of a snowflake ID in a period?';

CREATE FUNCTION snowflake_in(id bigint, from_ts timestamptz, to_ts timestamptz)
RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_in_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;

COMMENT ON FUNCTION snowflake_in(bigint, timestamptz, timestamptz) IS
'is the time of a snowflake ID from from_ts to before to_ts?';

--
-- Partitions by time
--
-- What they do to tables is checked as the caller's, who must be the owner.
--

CREATE FUNCTION snowflake_create_partitions(
    parent regclass,
    from_ts timestamptz,
    to_ts timestamptz,
    step interval,
    time_zone text DEFAULT pg_catalog.current_setting('TimeZone'),
    OUT partition regclass,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT created boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_create_partitions'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_create_partitions(regclass, timestamptz, timestamptz, interval, text) IS
'create the range partitions that hold all snowflake IDs of a period, one for each step of time; those that are there stay';

-- restricted: temporary tables, and statistics of this session
CREATE FUNCTION snowflake_partitions(
    parent regclass,
    exact boolean DEFAULT false,
    OUT partition regclass,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT from_id bigint,
    OUT to_id bigint,
    OUT rows bigint,
    OUT bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_partitions'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION snowflake_partitions(regclass, boolean) IS
'the partitions of a table with their bounds as times and as snowflake IDs, their rows (estimated, or counted) and size';

CREATE FUNCTION snowflake_drop_partitions(
    parent regclass,
    before_ts timestamptz,
    dry_run boolean DEFAULT false,
    concurrently boolean DEFAULT false,
    OUT partition text,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT command text,
    OUT done boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_drop_partitions'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, boolean) IS
'drop the partitions that have only snowflake IDs from before a time, or show the commands for it';

--
-- Existing tables
--
-- "table" and "column" are keywords, so they need their quotes in a call by
-- name too.
--

CREATE FUNCTION snowflake_convert(
    "table" regclass,
    "column" name,
    dry_run boolean DEFAULT true,
    target text DEFAULT 'snowflake',
    force boolean DEFAULT false,
    OUT step integer,
    OUT kind text,
    OUT command text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_convert'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_convert(regclass, name, boolean, text, boolean) IS
'let an existing column draw snowflake IDs, or a sequence''s numbers again: show the statements for it and what stands in the way, or, without dry_run, run them';

--
-- Short, dense numbers, out of segments that the registry hands out, or the
-- home database where there is no registry (extension snowflake_segments)
--

CREATE FUNCTION snowflake_segment_nextval(tag text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_segment_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
'draw the next number of a segment tag: short, dense, and unique over all servers of the registry';

CREATE FUNCTION snowflake_segment_nextval(tag text, count integer)
RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_segment_nextval(text, integer) IS
'draw some numbers of a segment tag, in ascending order';

-- as with a sequence, whose numbers may come to an end
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text, integer) FROM PUBLIC;

-- not undone by a rollback, and known to all servers of the registry
CREATE FUNCTION snowflake_segment_create(
    tag text,
    start bigint DEFAULT 1,
    step integer DEFAULT 1000,
    delta integer DEFAULT 1,
    remainder integer DEFAULT 0,
    max_value bigint DEFAULT 9223372036854775807,
    description text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_segment_create'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_segment_create(text, bigint, integer, integer, integer, bigint, text) IS
'create a segment tag, whose numbers snowflake_segment_nextval() draws';

REVOKE ALL ON FUNCTION snowflake_segment_create(text, bigint, integer, integer, integer, bigint, text) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_alter(
    tag text,
    step integer DEFAULT NULL,
    max_value bigint DEFAULT NULL,
    description text DEFAULT NULL,
    start bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_segment_alter'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_segment_alter(text, integer, bigint, text, bigint) IS
'change a segment tag: its step, its last number, its description, or where its next segment begins; a null argument changes nothing';

REVOKE ALL ON FUNCTION snowflake_segment_alter(text, integer, bigint, text, bigint) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_drop(
    tag text,
    forget boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_segment_drop'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_segment_drop(text, boolean) IS
'drop a segment tag; a later tag of the same name goes on above its numbers, unless they are forgotten';

REVOKE ALL ON FUNCTION snowflake_segment_drop(text, boolean) FROM PUBLIC;

--
-- Business keys: readable texts that show the shard and the time of an ID
--

CREATE TABLE snowflake_key_formats (
    name text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    prefix text COLLATE "C" NOT NULL CHECK (prefix ~ '^[A-Za-z]{1,16}$'),
    db_count integer NOT NULL CHECK (db_count >= 1),
    tables_per_db integer NOT NULL CHECK (tables_per_db >= 1),
    version integer NOT NULL DEFAULT 1 CHECK (version >= 0),
    time_zone text COLLATE "C" NOT NULL DEFAULT 'UTC',
    text_route text COLLATE "C" NOT NULL DEFAULT 'codes' CHECK (text_route IN ('codes', 'hash')),
    database_width integer NOT NULL DEFAULT 2 CHECK (database_width BETWEEN 0 AND 9),
    table_width integer NOT NULL DEFAULT 4 CHECK (table_width BETWEEN 0 AND 9),
    version_width integer NOT NULL DEFAULT 2 CHECK (version_width BETWEEN 0 AND 9),
    node_width integer NOT NULL DEFAULT 2 CHECK (node_width BETWEEN 0 AND 9),
    sequence_width integer NOT NULL DEFAULT 5 CHECK (sequence_width BETWEEN 0 AND 18),
    UNIQUE (prefix, version)
);

COMMENT ON TABLE snowflake_key_formats IS
'formats of the keys that snowflake_key() draws: their prefix, the shards they route to, their time zone, and the widths of their fields';

COMMENT ON COLUMN snowflake_key_formats.name IS
'name of the format, the first argument of snowflake_key()';
COMMENT ON COLUMN snowflake_key_formats.prefix IS
'letters that its keys begin with';
COMMENT ON COLUMN snowflake_key_formats.db_count IS
'number of databases that keys are routed to';
COMMENT ON COLUMN snowflake_key_formats.tables_per_db IS
'number of tables in each of these databases';
COMMENT ON COLUMN snowflake_key_formats.version IS
'version of the format, in each key';
COMMENT ON COLUMN snowflake_key_formats.time_zone IS
'time zone of the time in its keys';
COMMENT ON COLUMN snowflake_key_formats.text_route IS
'which characters a text that is routed may have: ASCII (codes) or any (hash)';
COMMENT ON COLUMN snowflake_key_formats.database_width IS
'digits of the database number; 0 leaves it out';
COMMENT ON COLUMN snowflake_key_formats.table_width IS
'digits of the table number; 0 leaves it out';
COMMENT ON COLUMN snowflake_key_formats.version_width IS
'digits of the version; 0 leaves it out';
COMMENT ON COLUMN snowflake_key_formats.node_width IS
'digits of the node number; 0 leaves it out';
COMMENT ON COLUMN snowflake_key_formats.sequence_width IS
'digits of the worker and the sequence number together';

GRANT SELECT ON snowflake_key_formats TO PUBLIC;

-- a trusted extension's objects are not its owner's
GRANT INSERT, UPDATE, DELETE, TRUNCATE ON snowflake_key_formats TO @extowner@;

SELECT pg_catalog.pg_extension_config_dump('snowflake_key_formats', '');

CREATE FUNCTION snowflake_key_formats_trigger()
RETURNS trigger
AS 'MODULE_PATHNAME', 'snowflake_key_formats_trigger'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_key_formats_trigger() IS
'trigger: refuse a format of keys that could be equal, and let all sessions know of a change';

REVOKE ALL ON FUNCTION snowflake_key_formats_trigger() FROM PUBLIC;

CREATE TRIGGER check_format AFTER INSERT OR UPDATE ON snowflake_key_formats
    FOR EACH ROW EXECUTE FUNCTION snowflake_key_formats_trigger();
CREATE TRIGGER tell_of_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON snowflake_key_formats
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_key_formats_trigger();

ALTER TABLE snowflake_key_formats ENABLE ALWAYS TRIGGER check_format;
ALTER TABLE snowflake_key_formats ENABLE ALWAYS TRIGGER tell_of_change;

-- not STRICT: a null route would make a null key
CREATE FUNCTION snowflake_key(format text, route bigint)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_key_number'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_key(text, bigint) IS
'draw a key of a format: a snowflake ID as a readable text, with the shard that a number routes to';

CREATE FUNCTION snowflake_key(format text, route text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_key_text'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_key(text, text) IS
'draw a key of a format: a snowflake ID as a readable text, with the shard that a text routes to, or that of another key';

CREATE FUNCTION snowflake_key_parse(
    key text,
    OUT format text,
    OUT prefix text,
    OUT database integer,
    OUT "table" integer,
    OUT version integer,
    OUT ts timestamptz,
    OUT node integer,
    OUT sequence bigint,
    OUT id bigint)
AS 'MODULE_PATHNAME', 'snowflake_key_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_key_parse(text) IS
'the fields of a key, and the snowflake ID that it was made from';

-- IMMUTABLE: they depend on no setting, and on no format
CREATE FUNCTION snowflake_route(
    route bigint,
    db_count integer,
    tables_per_db integer,
    OUT database integer,
    OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_number'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_route(bigint, integer, integer) IS
'the shard of a number: its table, counted over all databases, and the database that has it';

CREATE FUNCTION snowflake_route(
    route text,
    db_count integer,
    tables_per_db integer,
    method text DEFAULT 'codes',
    OUT database integer,
    OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_text'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_route(text, integer, integer, text) IS
'the shard of a text, by a hash of its characters; of digits, that of the number that they are';

--
-- Running it
--

CREATE FUNCTION pg_stat_get_snowflake(
    OUT node integer,
    OUT lease_end timestamptz,
    OUT registry_offset interval,
    OUT layout text,
    OUT epoch timestamptz,
    OUT clock text,
    OUT clock_ts timestamptz,
    OUT wall_ts timestamptz,
    OUT drift interval,
    OUT drift_max interval,
    OUT last_ts timestamptz,
    OUT issued bigint,
    OUT backfilled bigint,
    OUT hops bigint,
    OUT waits bigint,
    OUT wait_time double precision,
    OUT mark_waits bigint,
    OUT mark_wait_time double precision,
    OUT clock_waits bigint,
    OUT clock_wait_time double precision,
    OUT unit_waits bigint,
    OUT unit_wait_time double precision,
    OUT node_waits bigint,
    OUT node_wait_time double precision,
    OUT timeouts bigint,
    OUT clock_regressions bigint,
    OUT clock_regression_max interval,
    OUT clock_jumps bigint,
    OUT clock_jump_max interval,
    OUT reserved_until timestamptz,
    OUT backends integer,
    OUT slots_used integer,
    OUT mark_writer_pid integer,
    OUT last_error text,
    OUT last_error_ts timestamptz,
    OUT lifetime_end timestamptz,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_get_snowflake() IS
'statistics: the generator; use the view pg_stat_snowflake';

CREATE VIEW pg_stat_snowflake AS
    SELECT s.node, s.lease_end, s.registry_offset, s.layout, s.epoch, s.clock, s.clock_ts, s.wall_ts, s.drift,
           s.drift_max, s.last_ts, s.issued, s.backfilled, s.hops, s.waits,
           s.wait_time, s.mark_waits, s.mark_wait_time, s.clock_waits,
           s.clock_wait_time, s.unit_waits, s.unit_wait_time, s.node_waits, s.node_wait_time, s.timeouts,
           s.clock_regressions, s.clock_regression_max, s.clock_jumps,
           s.clock_jump_max, s.reserved_until, s.backends, s.slots_used,
           s.mark_writer_pid, s.last_error, s.last_error_ts, s.lifetime_end,
           s.stats_reset
    FROM pg_stat_get_snowflake() AS s;

COMMENT ON VIEW pg_stat_snowflake IS
'one row: what IDs are made of, the clock they are drawn by, how many were drawn, and what that had to wait for';

COMMENT ON COLUMN pg_stat_snowflake.node IS
'node number of this server; null when it has none';
COMMENT ON COLUMN pg_stat_snowflake.lease_end IS
'with a leased node number: when the lease runs out unless it is renewed';
COMMENT ON COLUMN pg_stat_snowflake.registry_offset IS
'this server''s clock minus the registry''s clock';
COMMENT ON COLUMN pg_stat_snowflake.layout IS
'layout of the IDs, as configured';
COMMENT ON COLUMN pg_stat_snowflake.epoch IS
'instant of time 0 in the IDs, as configured';
COMMENT ON COLUMN pg_stat_snowflake.clock IS
'clock that the time in the IDs is taken from: system, monotonic or logical';
COMMENT ON COLUMN pg_stat_snowflake.clock_ts IS
'what that clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.wall_ts IS
'what the server''s system clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.drift IS
'how far the time of an ID drawn now is ahead of the system clock at most; negative when it is behind';
COMMENT ON COLUMN pg_stat_snowflake.drift_max IS
'how far the time of an ID was ahead of the system clock at most, since the last reset';
COMMENT ON COLUMN pg_stat_snowflake.last_ts IS
'latest time of an ID drawn since server start or the last snowflake_advance(); null when none was drawn';
COMMENT ON COLUMN pg_stat_snowflake.issued IS
'number of IDs drawn by snowflake_nextval()';
COMMENT ON COLUMN pg_stat_snowflake.backfilled IS
'number of IDs drawn by snowflake_backfill()';
COMMENT ON COLUMN pg_stat_snowflake.hops IS
'how often a session went on to another worker slot because its own had no number left in a time unit';
COMMENT ON COLUMN pg_stat_snowflake.waits IS
'how often a session waited for an ID, for whatever reason';
COMMENT ON COLUMN pg_stat_snowflake.wait_time IS
'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.mark_waits IS
'waits for the durable mark to be raised';
COMMENT ON COLUMN pg_stat_snowflake.mark_wait_time IS
'time spent in waits for the durable mark, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.clock_waits IS
'waits for a clock that was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_wait_time IS
'time spent in waits for the clock, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.unit_waits IS
'waits for a time unit with numbers left, as more IDs were asked for than the layout has';
COMMENT ON COLUMN pg_stat_snowflake.unit_wait_time IS
'time spent in waits for a time unit, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.node_waits IS
'waits for a node number from the registry';
COMMENT ON COLUMN pg_stat_snowflake.node_wait_time IS
'time spent in waits for a node number, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.timeouts IS
'draws that ended with an error after snowflake.max_wait, or at once where waiting is of no use';
COMMENT ON COLUMN pg_stat_snowflake.clock_regressions IS
'how often the system clock was set back by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_regression_max IS
'farthest that the system clock was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_jumps IS
'how often the system clock was set forward by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_jump_max IS
'farthest that the system clock was set forward';
COMMENT ON COLUMN pg_stat_snowflake.reserved_until IS
'sessions draw IDs below this time without asking for more; null when nothing is reserved';
COMMENT ON COLUMN pg_stat_snowflake.backends IS
'number of sessions that have drawn IDs and are still connected';
COMMENT ON COLUMN pg_stat_snowflake.slots_used IS
'number of worker slots that these sessions have';
COMMENT ON COLUMN pg_stat_snowflake.mark_writer_pid IS
'process ID of the background worker that writes the durable mark; null when it is not running, and for roles that may not read all statistics';
COMMENT ON COLUMN pg_stat_snowflake.last_error IS
'last error of a background worker, which stays when it works again; null for roles that may not read all statistics';
COMMENT ON COLUMN pg_stat_snowflake.last_error_ts IS
'when that error occurred';
COMMENT ON COLUMN pg_stat_snowflake.lifetime_end IS
'when the layout has no more times';
COMMENT ON COLUMN pg_stat_snowflake.stats_reset IS
'when counting began: at server start, after a crash of a backend, or at the last reset';

GRANT SELECT ON pg_stat_snowflake TO PUBLIC;

CREATE FUNCTION pg_stat_get_snowflake_slots(
    OUT worker integer,
    OUT backends integer,
    OUT pids integer[],
    OUT last_ts timestamptz,
    OUT last_id bigint,
    OUT issued bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_slots'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 32;

COMMENT ON FUNCTION pg_stat_get_snowflake_slots() IS
'statistics: the worker slots; use the view pg_stat_snowflake_slots';

CREATE VIEW pg_stat_snowflake_slots AS
    SELECT s.worker, s.backends, s.pids, s.last_ts, s.last_id, s.issued
    FROM pg_stat_get_snowflake_slots() AS s;

COMMENT ON VIEW pg_stat_snowflake_slots IS
'one row for each worker slot: the processes that have it, the last ID drawn from it, and how many IDs were';

COMMENT ON COLUMN pg_stat_snowflake_slots.worker IS
'worker number of the slot';
COMMENT ON COLUMN pg_stat_snowflake_slots.backends IS
'number of sessions that were given this slot for when they are busy; all draw from worker 0';
COMMENT ON COLUMN pg_stat_snowflake_slots.pids IS
'process IDs of these sessions; null for roles that may not read all statistics';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_ts IS
'time of the last ID drawn from the slot since server start or the last snowflake_advance(); null when none was drawn';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_id IS
'last ID drawn from the slot since then';
COMMENT ON COLUMN pg_stat_snowflake_slots.issued IS
'number of IDs drawn from the slot; may lag by what a session has drawn since it came to its slot';

GRANT SELECT ON pg_stat_snowflake_slots TO PUBLIC;

CREATE FUNCTION pg_stat_snowflake_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'pg_stat_snowflake_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_snowflake_reset() IS
'statistics: let all counters of pg_stat_snowflake and pg_stat_snowflake_slots begin anew';

REVOKE ALL ON FUNCTION pg_stat_snowflake_reset() FROM PUBLIC;

CREATE FUNCTION pg_stat_get_snowflake_segments(
    OUT tag text,
    OUT state text,
    OUT step bigint,
    OUT min_step integer,
    OUT delta integer,
    OUT remainder integer,
    OUT max_value bigint,
    OUT first bigint,
    OUT last bigint,
    OUT used bigint,
    OUT unused bigint,
    OUT next_first bigint,
    OUT next_last bigint,
    OUT issued bigint,
    OUT fetches bigint,
    OUT waits bigint,
    OUT wait_time double precision,
    OUT last_fetch_ts timestamptz,
    OUT last_fetch_time double precision,
    OUT last_error text,
    OUT last_error_ts timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_segments'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 20;

COMMENT ON FUNCTION pg_stat_get_snowflake_segments() IS
'statistics: the segments of numbers; use the view pg_stat_snowflake_segments';

CREATE VIEW pg_stat_snowflake_segments AS
    SELECT s.tag, s.state, s.step, s.min_step, s.delta, s.remainder, s.max_value,
           s.first, s.last, s.used, s.unused, s.next_first, s.next_last,
           s.issued, s.fetches, s.waits, s.wait_time, s.last_fetch_ts,
           s.last_fetch_time, s.last_error, s.last_error_ts
    FROM pg_stat_get_snowflake_segments() AS s;

COMMENT ON VIEW pg_stat_snowflake_segments IS
'one row for each segment tag that this server has drawn numbers of: its two buffers, how large the next segment will be, and how fetching went';

COMMENT ON COLUMN pg_stat_snowflake_segments.tag IS
'name of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.state IS
'asked: the registry has not answered yet; open; ended: all numbers of the tag are given to servers';
COMMENT ON COLUMN pg_stat_snowflake_segments.step IS
'how many numbers the next segment spans: the step as adapted to the rate of drawing';
COMMENT ON COLUMN pg_stat_snowflake_segments.min_step IS
'smallest step, as the tag was created or altered';
COMMENT ON COLUMN pg_stat_snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.max_value IS
'last number of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.first IS
'first number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.last IS
'last number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.used IS
'how many numbers of the segment in use are drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.unused IS
'how many numbers of the segment in use are left';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_first IS
'first number of the segment that comes next; null when it is not here yet';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_last IS
'last number of the segment that comes next; null when it is not here yet';
COMMENT ON COLUMN pg_stat_snowflake_segments.issued IS
'number of numbers drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.fetches IS
'number of segments fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.waits IS
'how often a session waited for a segment';
COMMENT ON COLUMN pg_stat_snowflake_segments.wait_time IS
'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_ts IS
'when the last segment came';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_time IS
'how long fetching the last segment took, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error IS
'why a segment could not be fetched, the last time; null for roles that may not read all statistics';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error_ts IS
'when that was';

GRANT SELECT ON pg_stat_snowflake_segments TO PUBLIC;

CREATE FUNCTION snowflake_layout(
    OUT layout text,
    OUT time_bits integer,
    OUT node_bits integer,
    OUT worker_bits integer,
    OUT sequence_bits integer,
    OUT time_unit interval,
    OUT time_units numeric,
    OUT nodes numeric,
    OUT workers numeric,
    OUT sequences numeric,
    OUT first_ts timestamptz,
    OUT last_ts timestamptz,
    OUT max_id bigint,
    OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision,
    OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_layout() IS
'the fields of this server''s snowflake IDs with their widths and capacities, the first and last time, and how many IDs a second they allow';

CREATE FUNCTION snowflake_check(
    OUT "check" text,
    OUT status text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_check'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 16;

COMMENT ON FUNCTION snowflake_check() IS
'a doctor: what keeps this server from drawing snowflake IDs, now or soon; status is ok, warning or error';

CREATE FUNCTION snowflake_can_draw(
    OUT can_draw boolean,
    OUT reason text)
AS 'MODULE_PATHNAME', 'snowflake_can_draw'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_can_draw() IS
'can this server draw snowflake IDs now, and if not, why not; draws none, for health checks';

CREATE FUNCTION snowflake_advance(id bigint)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_advance(bigint) IS
'make every later snowflake ID of this server, but backfilled ones, larger than an ID; returns the earliest time they may have';

REVOKE ALL ON FUNCTION snowflake_advance(bigint) FROM PUBLIC;

CREATE FUNCTION snowflake_accept_layout()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_accept_layout'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_accept_layout() IS
'go on with the configured layout and epoch, though IDs were issued with others';

REVOKE ALL ON FUNCTION snowflake_accept_layout() FROM PUBLIC;

CREATE FUNCTION snowflake_confirm_node()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_confirm_node'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_confirm_node() IS
'state that no other server draws IDs with the node number of this one, which was promoted; ends the warning of snowflake_check()';

REVOKE ALL ON FUNCTION snowflake_confirm_node() FROM PUBLIC;

CREATE FUNCTION snowflake_forget_registry()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_forget_registry'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_forget_registry() IS
'accept a registry on an older timeline, or that knows less than before; call it only if the one used before is gone for good, else two registries give out the same numbers';

REVOKE ALL ON FUNCTION snowflake_forget_registry() FROM PUBLIC;

--
-- pg_dump takes the durable mark along, so that a server into which the dump
-- is restored issues none of the IDs in it.  The table has no rows: what is
-- dumped is added by the filter, which pg_dump puts after FROM, and restoring
-- it fires the trigger.  The filter names nothing of this extension, whose
-- schema may change.  Where the trigger was disabled, the constraint says so.
--

CREATE TABLE snowflake_dumped_mark (
    mark timestamptz,
    layout text,
    epoch timestamptz,
    backfilled bigint,
    CONSTRAINT restore_with_triggers_enabled CHECK (false)
);

COMMENT ON TABLE snowflake_dumped_mark IS
'always empty; by means of it pg_dump saves the durable mark of this server''s snowflake IDs, and how many were backfilled';

GRANT SELECT, INSERT ON snowflake_dumped_mark TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('snowflake_dumped_mark', $filter$
WHERE false UNION ALL
SELECT mark::pg_catalog.timestamptz,
  pg_catalog.current_setting('snowflake.layout'),
  pg_catalog.current_setting('snowflake.epoch')::pg_catalog.timestamptz,
  (SELECT pg_catalog.max(pg_catalog.substring(c, '^snowflake[.]backfilled=([0-9]+)$')::pg_catalog.int8)
   FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) AS c)
FROM pg_catalog.current_setting('snowflake.issued_until', true) AS mark
WHERE mark OPERATOR(pg_catalog.<>) ''
$filter$);

CREATE FUNCTION snowflake_restore_mark()
RETURNS trigger
AS 'MODULE_PATHNAME', 'snowflake_restore_mark'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_restore_mark() IS
'trigger: raise the durable mark to that of a dump being restored';

REVOKE ALL ON FUNCTION snowflake_restore_mark() FROM PUBLIC;

CREATE TRIGGER restore_mark BEFORE INSERT ON snowflake_dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_restore_mark();

ALTER TABLE snowflake_dumped_mark ENABLE ALWAYS TRIGGER restore_mark;

--
-- Say what is still missing, before the first ID is wanted.  No NOTICE, as
-- CREATE EXTENSION hides these.
--

DO $do$
DECLARE
    missing text;
BEGIN
    SELECT detail INTO missing FROM snowflake_check()
    WHERE "check" IN ('preload', 'node_id') AND status = 'error' LIMIT 1;
    IF FOUND THEN
        RAISE WARNING USING MESSAGE = 'this server cannot draw snowflake IDs yet', DETAIL = missing;
    END IF;
END
$do$;
