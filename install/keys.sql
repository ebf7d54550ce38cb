--
-- Business keys: readable texts that show the shard and the time of an ID
--
-- The library reads the formats from the table, whatever rights the caller has.  It
-- relies on what the CHECKs say; write_key_format() says the same to people.
--

CREATE TABLE snowflake_catalog.key_formats (
    name text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    prefix text COLLATE "C" NOT NULL CHECK (prefix ~ '^[A-Za-z]{1,16}$'),
    db_count integer NOT NULL CHECK (db_count >= 1),
    tables_per_db integer NOT NULL CHECK (tables_per_db >= 1),
    version integer NOT NULL CHECK (version >= 0),
    time_zone text COLLATE "C" NOT NULL,
    text_route text COLLATE "C" NOT NULL CHECK (text_route IN ('codes', 'hash')),
    database_width integer NOT NULL CHECK (database_width BETWEEN 0 AND 9),
    table_width integer NOT NULL CHECK (table_width BETWEEN 0 AND 9),
    version_width integer NOT NULL CHECK (version_width BETWEEN 0 AND 9),
    node_width integer NOT NULL CHECK (node_width BETWEEN 0 AND 9),
    sequence_width integer NOT NULL CHECK (sequence_width BETWEEN 0 AND 18),
    UNIQUE (prefix, version)
);
COMMENT ON TABLE snowflake_catalog.key_formats IS
'formats of business keys; change them with snowflake_key_format_create(), _rename() and _drop()';

SELECT pg_catalog.pg_extension_config_dump('snowflake_catalog.key_formats', '');

CREATE FUNCTION snowflake_catalog.check_key_format()
RETURNS trigger AS 'MODULE_PATHNAME', 'snowflake_check_key_format'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.check_key_format() IS
'trigger: refuse formats whose keys could be equal, and tell all sessions of a change';
REVOKE ALL ON FUNCTION snowflake_catalog.check_key_format() FROM PUBLIC;

CREATE TRIGGER check_format AFTER INSERT OR UPDATE OR DELETE ON snowflake_catalog.key_formats
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.check_key_format();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_catalog.key_formats
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_catalog.refuse_truncate();

ALTER TABLE snowflake_catalog.key_formats
    ENABLE ALWAYS TRIGGER check_format, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE FUNCTION snowflake_key_formats()
RETURNS SETOF snowflake_catalog.key_formats LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT f.* FROM snowflake_catalog.key_formats AS f ORDER BY f.name;
END;
COMMENT ON FUNCTION snowflake_key_formats() IS
'one row for each format of business keys: prefix, shards, time zone and widths';

CREATE FUNCTION snowflake_catalog.write_key_format(old_name text, f snowflake_catalog.key_formats)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong record;
    duplicate text;
BEGIN
    SELECT v.* INTO wrong FROM (VALUES
        ('name', f.name, length(f.name) BETWEEN 1 AND 100, 'It must have 1 to 100 characters.'),
        ('prefix', f.prefix, f.prefix ~ '^[A-Za-z]{1,16}$',
         'It must be 1 to 16 letters from A to Z and a to z.'),
        ('db_count', f.db_count::text, f.db_count >= 1, 'It must be 1 or more.'),
        ('tables_per_db', f.tables_per_db::text, f.tables_per_db >= 1, 'It must be 1 or more.'),
        ('version', f.version::text, f.version >= 0, 'It must not be negative.'),
        ('time_zone', f.time_zone, length(f.time_zone) BETWEEN 1 AND 100,
         'It must be the name of a time zone.'),
        ('text_route', f.text_route, f.text_route IN ('codes', 'hash'),
         'It must be "codes" or "hash".'),
        ('database_width', f.database_width::text, f.database_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('table_width', f.table_width::text, f.table_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('version_width', f.version_width::text, f.version_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('node_width', f.node_width::text, f.node_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('sequence_width', f.sequence_width::text, f.sequence_width BETWEEN 0 AND 18,
         'It must be from 0 to 18.')) AS v (argument, value, is_right, rule)
    WHERE v.is_right IS NOT TRUE LIMIT 1;
    IF wrong.value IS NULL AND FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = format('%s must not be null', wrong.argument);
    ELSIF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid %s: "%s"', wrong.argument, left(wrong.value, 100)),
            DETAIL = wrong.rule;
    END IF;

    IF old_name IS NULL THEN
        INSERT INTO snowflake_catalog.key_formats VALUES (f.*);
    ELSE
        UPDATE snowflake_catalog.key_formats AS k SET name = f.name WHERE k.name = old_name;
    END IF;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS duplicate = PG_EXCEPTION_DETAIL;
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
            MESSAGE = format('key format "%s" duplicates another one', f.name),
            DETAIL = duplicate,
            HINT = 'Choose another name, or another version if the prefix is the same.';
END $$;
COMMENT ON FUNCTION snowflake_catalog.write_key_format(text, snowflake_catalog.key_formats) IS
'check a format of business keys, and insert it or rename an existing one';
REVOKE ALL ON FUNCTION snowflake_catalog.write_key_format(text, snowflake_catalog.key_formats)
    FROM PUBLIC;

CREATE FUNCTION snowflake_catalog.lock_key_format(name text)
RETURNS snowflake_catalog.key_formats
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats;
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = 'name must not be null';
    END IF;
    SELECT k.* INTO f FROM snowflake_catalog.key_formats AS k
    WHERE k.name = lock_key_format.name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('key format "%s" does not exist', left(name, 100)),
            HINT = 'snowflake_key_formats() lists the formats.';
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION snowflake_catalog.lock_key_format(text) IS
'lock and return a format of business keys; an error if it does not exist';
REVOKE ALL ON FUNCTION snowflake_catalog.lock_key_format(text) FROM PUBLIC;

CREATE FUNCTION snowflake_catalog.require_key_format(name text)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_require_key_format'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.require_key_format(text) IS
'an error if a format of business keys cannot be used with this layout';
REVOKE ALL ON FUNCTION snowflake_catalog.require_key_format(text) FROM PUBLIC;

-- These three run as the owner of the table.  The owner of a database who has
-- created the extension can call them.
CREATE FUNCTION snowflake_key_format_create(
    name text, prefix text, db_count integer, tables_per_db integer, version integer DEFAULT 1,
    time_zone text DEFAULT 'UTC', text_route text DEFAULT 'codes', database_width integer DEFAULT 2,
    table_width integer DEFAULT 4, version_width integer DEFAULT 2, node_width integer DEFAULT 2,
    sequence_width integer DEFAULT 5)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_catalog.write_key_format(NULL::text,
        ROW(name, prefix, db_count, tables_per_db, version, time_zone, text_route,
            database_width, table_width, version_width, node_width, sequence_width
        )::snowflake_catalog.key_formats);
    PERFORM snowflake_catalog.require_key_format(name);
END $$;
COMMENT ON FUNCTION snowflake_key_format_create(text, text, integer, integer, integer, text, text,
    integer, integer, integer, integer, integer) IS
'create a format of business keys, for snowflake_key()';
REVOKE ALL ON FUNCTION snowflake_key_format_create(text, text, integer, integer, integer, text,
    text, integer, integer, integer, integer, integer) FROM PUBLIC;

CREATE FUNCTION snowflake_key_format_rename(name text, new_name text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats := snowflake_catalog.lock_key_format(name);
BEGIN
    f.name := new_name;
    PERFORM snowflake_catalog.write_key_format(name, f);
END $$;
COMMENT ON FUNCTION snowflake_key_format_rename(text, text) IS
'rename a format of business keys; nothing else of it can change';
REVOKE ALL ON FUNCTION snowflake_key_format_rename(text, text) FROM PUBLIC;

CREATE FUNCTION snowflake_key_format_drop(name text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats := snowflake_catalog.lock_key_format(name);
BEGIN
    DELETE FROM snowflake_catalog.key_formats AS k WHERE k.name = f.name;
END $$;
COMMENT ON FUNCTION snowflake_key_format_drop(text) IS
'drop a format of business keys; its keys can then be neither drawn nor read';
REVOKE ALL ON FUNCTION snowflake_key_format_drop(text) FROM PUBLIC;

-- not STRICT: a null route would make a null key
CREATE FUNCTION snowflake_key(format text, route bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_number'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, bigint) IS
'draw a business key, a readable snowflake ID, on the shard of a number';

CREATE FUNCTION snowflake_key(format text, route text)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_text'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, text) IS
'draw a business key on the shard of a text, or of another key';

-- STABLE: they draw nothing, and read the formats
CREATE FUNCTION snowflake_key(format text, route bigint, id bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_number_id'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, bigint, bigint) IS
'the business key of a snowflake ID that there is, on the shard of a number';

CREATE FUNCTION snowflake_key(format text, route text, id bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_text_id'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, text, bigint) IS
'the business key of a snowflake ID that there is, on the shard of a text or of another key';

CREATE FUNCTION snowflake_key_parse(
    key text, OUT format text, OUT prefix text, OUT database integer, OUT "table" integer,
    OUT version integer, OUT ts timestamptz, OUT node integer, OUT sequence bigint, OUT id bigint)
AS 'MODULE_PATHNAME', 'snowflake_key_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key_parse(text) IS
'the fields of a business key, and its snowflake ID: null if the layout has no such time';

-- IMMUTABLE: they depend on no setting, and on no format
CREATE FUNCTION snowflake_route(
    route bigint, db_count bigint, tables_per_db bigint, OUT database integer,
    OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_number'
LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_route(bigint, bigint, bigint) IS
'the shard of a number: a table, counted over all databases, and its database';

CREATE FUNCTION snowflake_route(
    route text, db_count bigint, tables_per_db bigint, method text DEFAULT 'codes',
    OUT database integer, OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_text'
LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_route(text, bigint, bigint, text) IS
'the shard of a text; a text of digits has the shard of that number';
