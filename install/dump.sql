--
-- pg_dump takes the durable mark along, so that a server into which the dump
-- is restored issues none of the IDs in it.  The table has no rows: what is
-- dumped is added by the filter, which pg_dump puts after FROM, and restoring
-- it fires the trigger.  Where that was disabled, the constraint says so.
--

CREATE TABLE snowflake_catalog.dumped_mark (
    mark timestamptz,
    layout text,
    epoch timestamptz,
    backfilled bigint,
    CONSTRAINT restore_with_triggers_enabled CHECK (false)
);
COMMENT ON TABLE snowflake_catalog.dumped_mark IS
'always empty; makes pg_dump save the durable mark and the count of backfilled IDs';

SELECT pg_catalog.pg_extension_config_dump('snowflake_catalog.dumped_mark', $filter$
WHERE false UNION ALL
SELECT mark::pg_catalog.timestamptz,
  pg_catalog.current_setting('snowflake.layout'),
  pg_catalog.current_setting('snowflake.epoch')::pg_catalog.timestamptz,
  (SELECT pg_catalog.max(pg_catalog.substring(c, '^snowflake[.]backfilled=([0-9]+)$')
                         ::pg_catalog.int8)
   FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) AS c)
FROM pg_catalog.current_setting('snowflake.issued_until', true) AS mark
WHERE mark OPERATOR(pg_catalog.<>) ''
$filter$);

CREATE FUNCTION snowflake_catalog.restore_mark()
RETURNS trigger AS 'MODULE_PATHNAME', 'snowflake_restore_mark'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.restore_mark() IS
'trigger: raise the durable mark to the mark in a dump that is being restored';
REVOKE ALL ON FUNCTION snowflake_catalog.restore_mark() FROM PUBLIC;

-- What the first one leaves, as there is no mark writer.  It is kept as settings of the database
-- until there is.  Layout and epoch may still be set then.
CREATE FUNCTION snowflake_catalog.keep_mark()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting record;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'permission denied to keep the durable mark of this dump',
            DETAIL = 'snowflake is not loaded via "shared_preload_libraries".',
            HINT = 'Preload it, or restore the table "snowflake_catalog.dumped_mark" as a '
                'superuser. Otherwise, before this server draws IDs, call snowflake_advance() with '
                'the largest ID of the restored tables.';
    END IF;
    FOR setting IN
        SELECT v.name, max(v.value) AS value
        FROM (VALUES ('restored', ceil(extract(epoch FROM NEW.mark) * 1000000)::bigint),
            ('backfilled', NEW.backfilled)) AS given (name, value)
        CROSS JOIN LATERAL (SELECT given.* UNION ALL
            SELECT given.name, substring(c, '=([0-9]{1,18})$')::bigint
            FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase,
                unnest(s.setconfig) c
            WHERE d.datname = current_database() AND s.setrole = 0
              AND starts_with(c, format('snowflake.%s=', given.name))) AS v
        WHERE given.value > 0 GROUP BY v.name
    LOOP
        EXECUTE format('ALTER DATABASE %I SET snowflake.%s = %L', current_database(),
            setting.name, setting.value);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_catalog.keep_mark() IS
'trigger: keep the mark of a dump that is being restored until the library is preloaded';
REVOKE ALL ON FUNCTION snowflake_catalog.keep_mark() FROM PUBLIC;

CREATE TRIGGER restore_1_mark BEFORE INSERT ON snowflake_catalog.dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.restore_mark();
CREATE TRIGGER restore_2_keep BEFORE INSERT ON snowflake_catalog.dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.keep_mark();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_catalog.dumped_mark
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_catalog.refuse_truncate();

ALTER TABLE snowflake_catalog.dumped_mark
    ENABLE ALWAYS TRIGGER restore_1_mark, ENABLE ALWAYS TRIGGER restore_2_keep,
    ENABLE ALWAYS TRIGGER refuse_truncate;
