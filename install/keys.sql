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
