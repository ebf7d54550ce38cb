-- Tables of Citus, as its catalog has them: a stand-in for that, in a transaction
-- that is rolled back.  What Citus itself does is in t/citus/085_citus.pl.
BEGIN;
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT partition FROM snowflake_create_partitions('events', '2026-10-15+00', '2026-12-01+00', '1 month');
INSERT INTO events SELECT snowflake_compose('2026-10-20+00', 24, 0, n) FROM generate_series(1, 10) AS n;
CREATE TABLE elsewhere (id bigserial PRIMARY KEY);
CREATE TABLE small (id serial PRIMARY KEY);
CREATE TABLE of_small (id integer, small integer REFERENCES small, plain integer);
CREATE TABLE of_identity (id bigint GENERATED ALWAYS AS IDENTITY);

-- before: rows and sizes are known, IDs are looked at, all is converted
CREATE VIEW listed AS SELECT partition, rows IS NOT NULL AS has_rows, bytes > 0 AS has_bytes FROM snowflake_partitions('events');
CREATE VIEW skipped AS SELECT substring(detail, 'public.events_2026_10.id \([^)]*\)') FROM snowflake_check() WHERE name = 'tables' AND status = 'ok';
CREATE FUNCTION errors(tab regclass, col name, target text DEFAULT 'snowflake') RETURNS text LANGUAGE sql
RETURN (SELECT string_agg(kind || ': ' || detail, E'\n' ORDER BY step) FROM snowflake_convert(tab, col, target => target)
        WHERE kind = 'error' OR detail ~ 'Citus');
SELECT * FROM listed;
SELECT * FROM skipped;
SELECT errors('elsewhere', 'id'), errors('small', 'id'), errors('of_identity', 'id'), errors('events', 'id', 'bigserial');

SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partkey text);
GRANT SELECT ON pg_catalog.pg_dist_partition TO PUBLIC;
RESET allow_system_table_mods;

-- with Citus in the database, and no table of it: as before
SELECT * FROM listed;
SELECT * FROM skipped;
SELECT errors('elsewhere', 'id'), errors('small', 'id'), errors('of_identity', 'id'), errors('events', 'id', 'bigserial');

-- the rows are elsewhere
INSERT INTO pg_catalog.pg_dist_partition
SELECT c, CASE c::text WHEN 'elsewhere' THEN '{VAR :varno 1 :varattno 1 :vartype 20}' WHEN 'of_small' THEN '{VAR :varno 1 :varattno 3 :vartype 23}' END
FROM unnest('{events, events_2026_10, events_2026_11, elsewhere, small, of_small, of_identity}'::regclass[]) AS c;
SELECT * FROM listed;
SELECT partition, rows, bytes FROM snowflake_partitions('events', exact => true);
SELECT * FROM skipped;
\pset format unaligned
\pset tuples_only on
-- what Citus distributes by; what has another default; identity; and back
SELECT errors('elsewhere', 'id');
SELECT errors('small', 'id');
SELECT errors('of_identity', 'id');
SELECT errors('events', 'id', 'bigserial');
SAVEPOINT a;
\set SHOW_CONTEXT never
SELECT snowflake_convert('elsewhere', 'id', dry_run => false);
ROLLBACK TO a;

-- what Citus does not refuse: a bigint that it does not distribute by, a type that
-- changes where no sequence is drawn from; but not the column that it distributes by
UPDATE pg_catalog.pg_dist_partition SET partkey = NULL WHERE logicalrelid = 'elsewhere'::regclass;
SELECT errors('elsewhere', 'id');
ALTER TABLE small ALTER COLUMN id DROP DEFAULT;
SELECT errors('small', 'id');
UPDATE pg_catalog.pg_dist_partition SET partkey = '{VAR :varno 1 :varattno 2 :vartype 23}' WHERE logicalrelid = 'of_small'::regclass;
SELECT errors('small', 'id');

-- it shares rows with others, so without a registry a tag is no answer
DO $$
DECLARE
    hint text;
BEGIN
    PERFORM snowflake_segment_nextval('no such tag');
EXCEPTION WHEN undefined_object THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '%', hint;
END $$;
ROLLBACK;
