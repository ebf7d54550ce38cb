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
'always empty; by it pg_dump saves this server''s durable mark, and how many IDs were backfilled';

GRANT SELECT, INSERT ON snowflake_catalog.dumped_mark TO PUBLIC;

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
'trigger: raise the durable mark to that of a dump being restored';
REVOKE ALL ON FUNCTION snowflake_catalog.restore_mark() FROM PUBLIC;

CREATE TRIGGER restore_mark BEFORE INSERT ON snowflake_catalog.dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.restore_mark();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_catalog.dumped_mark
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_catalog.refuse_truncate();

ALTER TABLE snowflake_catalog.dumped_mark
    ENABLE ALWAYS TRIGGER restore_mark, ENABLE ALWAYS TRIGGER refuse_truncate;
