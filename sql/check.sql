-- snowflake_check(), where all is well, and what it says of tables.  What it says
-- of a server, a clock, a lifetime, a worker and a standby that are not well is in
-- t/faults/060_check.pl and t/faults/052_lifetime.pl.

SET timezone = 'UTC';
SELECT snowflake_nextval() > 0 AS drawn, snowflake_horizon() >= 0 AS asked;
-- the durable mark is raised, where that was due
DO $$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        EXIT WHEN (SELECT reserved_until > clock_timestamp() + interval '1 s' FROM pg_stat_snowflake);
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
-- whether the clock of this machine is kept right, and was set, is not ours to say
SELECT name, CASE WHEN name NOT IN ('time_sync', 'steps') THEN status END AS status,
       CASE WHEN name NOT IN ('time_sync', 'steps') THEN
         regexp_replace(regexp_replace(regexp_replace(detail, '(shows|left:|up to) \d[-0-9:.+ ]*', '\1 ...', 'g'),
                        '\d+ ms (ahead of|behind)', '... ms from'), 'version [\d.]+', 'version ...') END AS detail
FROM snowflake_check();

-- rows like any others
SELECT count(*) AS not_ok FROM snowflake_check() WHERE status <> 'ok' AND name NOT IN ('time_sync', 'steps');
SELECT DISTINCT (snowflake_check()).status ~ '^(ok|warning|error)$' AS known;

-- it draws nothing, in a READ ONLY transaction too
SELECT sum(issued) AS issued FROM pg_stat_snowflake_slots \gset
BEGIN READ ONLY;
SELECT count(*) FROM snowflake_check();
COMMIT;
SELECT sum(issued) = :issued AS none_drawn FROM pg_stat_snowflake_slots;

-- in the middle of a transaction, of any isolation
BEGIN ISOLATION LEVEL SERIALIZABLE;
CREATE TABLE mine (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
SAVEPOINT a;
INSERT INTO mine VALUES (snowflake_compose('2080-01-01 00:00+00', 24, 0, 0));
SELECT status, detail ~ '^public.mine.id ' AS mine FROM snowflake_check() WHERE name = 'tables';
ROLLBACK TO a;
SELECT status FROM snowflake_check() WHERE name = 'tables';
ROLLBACK;

-- for everyone
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT count(*) FROM snowflake_check();
RESET ROLE;

-- who may draw under one name only
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO regress_snowflake_user;
REVOKE EXECUTE ON FUNCTION snowflake_next() FROM PUBLIC;
SELECT status, detail FROM snowflake_check() WHERE name = 'extension' OFFSET 1;
GRANT EXECUTE ON FUNCTION snowflake_next() TO PUBLIC, regress_snowflake_user;
SELECT count(*) FROM snowflake_check() WHERE name = 'extension';
-- as pg_restore --disable-triggers leaves them
BEGIN;
ALTER TABLE snowflake_catalog.key_formats DISABLE TRIGGER ALL, ENABLE TRIGGER ALL;
ALTER TABLE snowflake_catalog.dumped_mark ENABLE TRIGGER restore_2_keep;
SELECT regexp_replace(status || ': ' || detail, 'Run .*', '') AS says,
       regexp_replace(detail, '.*Run (.*)\.', '\1') AS statements
FROM snowflake_check() WHERE name = 'extension' OFFSET 1 \gset
\echo :says
\echo :statements
:statements;
SELECT count(*) FROM snowflake_check() WHERE name = 'extension';
ROLLBACK;
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_next() FROM regress_snowflake_user;

--
-- Tables
--
CREATE VIEW found AS
SELECT status, regexp_replace(detail, 'shows [-0-9:. ]+\+00', 'shows ...') AS detail
FROM snowflake_check() WHERE name = 'tables';

-- too small
CREATE DOMAIN small AS integer;
CREATE FOREIGN DATA WRAPPER regress_nothing;
CREATE SERVER regress_nowhere FOREIGN DATA WRAPPER regress_nothing;
CREATE TABLE "My table" (
    gone int,
    "Id" int DEFAULT snowflake_nextval(),
    two smallint DEFAULT snowflake_next(),
    domain small DEFAULT snowflake_nextval(),
    computed int DEFAULT snowflake_nextval() % 100,
    other int DEFAULT 1
);
ALTER TABLE "My table" DROP gone;
CREATE FOREIGN TABLE far (id int DEFAULT snowflake_nextval(), ok bigint DEFAULT snowflake_nextval())
    SERVER regress_nowhere;
CREATE VIEW small_view AS SELECT 1 AS id, 2::bigint AS ok;
ALTER VIEW small_view ALTER id SET DEFAULT snowflake_nextval();
ALTER VIEW small_view ALTER ok SET DEFAULT snowflake_nextval();
CREATE TABLE small_parts (id int DEFAULT snowflake_nextval()) PARTITION BY LIST (id);
CREATE TABLE small_part PARTITION OF small_parts FOR VALUES IN (1);
SELECT * FROM found;
DROP VIEW small_view;
DROP FOREIGN TABLE far;
DROP SERVER regress_nowhere;
DROP FOREIGN DATA WRAPPER regress_nothing;
DROP TABLE "My table", small_parts;
DROP DOMAIN small;

-- IDs: past ones of this node are as they should be
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next());
CREATE FUNCTION id_of(node int, ts timestamptz DEFAULT '2021-02-23 00:00+00', sequence int DEFAULT 0)
RETURNS bigint LANGUAGE sql AS 'SELECT snowflake_compose(ts, node, 0, sequence)';
INSERT INTO t SELECT id_of(24, sequence => i) FROM generate_series(1, 300) i;
INSERT INTO t DEFAULT VALUES;
SELECT * FROM found;

-- of this node and above the mark
INSERT INTO t VALUES (id_of(24, '2080-01-01 00:00+00'));
SELECT * FROM found;
TRUNCATE t;
-- of the future, of another node
INSERT INTO t VALUES (id_of(3, '2080-01-01 00:00+00'));
SELECT * FROM found;
TRUNCATE t;
-- of others, among the last hundred
INSERT INTO t SELECT id_of(3) UNION ALL SELECT id_of(7, sequence => i) FROM generate_series(0, 99) i;
SELECT * FROM found;
TRUNCATE t;
-- of no node and layout
INSERT INTO t VALUES (-1), (-2);
SELECT * FROM found;
TRUNCATE t;

-- numbers of a sequence, before there are enough IDs, read as IDs of other nodes
CREATE TABLE converted (id serial PRIMARY KEY);
INSERT INTO converted SELECT i * 100000 FROM generate_series(1, 300) i;
SET client_min_messages = warning;	-- whether the mark has to be raised depends on the clock
SELECT count(*) > 0 AS done FROM snowflake_convert('converted', 'id', dry_run => false);
RESET client_min_messages;
INSERT INTO converted DEFAULT VALUES;
SELECT count(DISTINCT p.node) > 5 AS nodes FROM converted, snowflake_parse(id) p;
SELECT * FROM found;
INSERT INTO converted VALUES (-1);
TRUNCATE t;
INSERT INTO converted SELECT id_of(7);
SELECT * FROM found WHERE status <> 'ok';
DELETE FROM converted WHERE id > 0;
SELECT * FROM found WHERE status <> 'ok';
DROP TABLE converted;

-- an index the other way round, with NULLs first; of more columns
CREATE TABLE nulls (a int, id bigint DEFAULT snowflake_nextval());
CREATE INDEX ON nulls (id DESC, a);
INSERT INTO nulls SELECT 1, NULL FROM generate_series(1, 300);
INSERT INTO nulls SELECT 1, id_of(node) FROM generate_series(1, 3) node;
-- partitions are one column, and so are children
CREATE TABLE parts (id bigint DEFAULT snowflake_nextval(), node int, PRIMARY KEY (id, node)) PARTITION BY LIST (node);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE part_2 (node int NOT NULL, id bigint NOT NULL);
ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES IN (2);
CREATE TABLE part_3 PARTITION OF parts FOR VALUES IN (3) PARTITION BY LIST (node);
CREATE TABLE part_3_3 PARTITION OF part_3 FOR VALUES IN (3);
INSERT INTO parts SELECT id_of(node), node FROM generate_series(1, 3) node;
CREATE TABLE children (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (children);
INSERT INTO child VALUES (id_of(9));
-- the default of a domain
CREATE DOMAIN snowflake_id AS bigint DEFAULT snowflake_nextval();
CREATE TABLE by_domain (id snowflake_id PRIMARY KEY, other snowflake_id DEFAULT 0);
INSERT INTO by_domain VALUES (id_of(30));
SELECT * FROM found;
DROP TABLE nulls, parts, children, child, by_domain;
DROP DOMAIN snowflake_id;

-- whatever the size of the table, so many rows are read
CREATE TABLE long (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE long_desc (id bigint DEFAULT snowflake_nextval());
CREATE INDEX ON long_desc (id DESC);
INSERT INTO long SELECT id_of(24, sequence => i) FROM generate_series(1, 1000) i;
INSERT INTO long_desc SELECT id_of(24, sequence => i) FROM generate_series(1, 1000) i;
BEGIN;
SELECT count(*) AS tables FROM snowflake_check() WHERE name = 'tables';
SELECT relname, idx_tup_fetch, seq_tup_read FROM pg_stat_xact_user_tables
WHERE relname LIKE 'long%' ORDER BY relname;
COMMIT;
DROP TABLE long, long_desc;

-- what is not looked at
CREATE TABLE no_index (id bigint DEFAULT snowflake_nextval());
CREATE TABLE second (a int, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (a, id));
CREATE TABLE hashed (id bigint DEFAULT snowflake_nextval());
CREATE INDEX ON hashed USING hash (id);
CREATE TABLE partial (id bigint DEFAULT snowflake_nextval());
CREATE INDEX ON partial (id) WHERE id > 0;
CREATE TABLE expression (id bigint DEFAULT snowflake_nextval());
CREATE INDEX ON expression ((-id));
CREATE TABLE numbers (id numeric PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE more (id bigint PRIMARY KEY DEFAULT snowflake_nextval() | 1);
SELECT * FROM found;
DROP TABLE no_index, second, hashed, partial, expression, numbers, more;

-- a role reads what it may read, and what row-level security does not hide
CREATE FUNCTION fails(id bigint) RETURNS boolean LANGUAGE plpgsql AS
'BEGIN RAISE EXCEPTION ''called''; END';
CREATE TABLE hidden (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON hidden USING (fails(id));
CREATE TABLE granted (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), other text);
CREATE SCHEMA closed;
CREATE TABLE closed.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO granted VALUES (id_of(3));
INSERT INTO hidden VALUES (id_of(4));
GRANT SELECT ON hidden, closed.t, found TO regress_snowflake_user;
GRANT SELECT (id) ON granted TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT status, detail FROM snowflake_check() WHERE name = 'tables';
SET row_security = off;
SELECT count(*) FROM snowflake_check() WHERE name = 'tables';
RESET ROLE;
SELECT * FROM found;
RESET row_security;
DROP SCHEMA closed CASCADE;
DROP TABLE hidden, granted;
DROP FUNCTION fails;
DROP OWNED BY regress_snowflake_user;
DROP ROLE regress_snowflake_user;

-- names that mean something else to the caller
CREATE SCHEMA hostile;
CREATE TABLE hostile.pg_depend AS SELECT 1 AS objid;
CREATE TABLE hostile.pg_db_role_setting AS SELECT 1 AS setdatabase;
CREATE FUNCTION hostile.format(text, VARIADIC name[]) RETURNS text LANGUAGE sql AS 'SELECT (1/0)::text';
CREATE FUNCTION hostile.differ(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 > 0';
CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = text, FUNCTION = hostile.differ);
INSERT INTO t VALUES (id_of(3, '2080-01-01 00:00+00'));
SET search_path = hostile, public, pg_catalog;
SELECT name, status, left(detail, 40) AS detail FROM snowflake_check()
WHERE status OPERATOR(pg_catalog.<>) 'ok' AND name OPERATOR(pg_catalog.<>) 'time_sync';
RESET search_path;
DROP SCHEMA hostile CASCADE;

-- more than a row each
CREATE PROCEDURE many(statement text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 21 LOOP
        EXECUTE format(statement, to_char(i, 'FM00'));
    END LOOP;
END $$;
CALL many('CREATE TABLE many_%s (id int DEFAULT snowflake_nextval())');
SELECT status, count(*) FROM found WHERE detail ~ '^public.many_\d\d.id is of type' GROUP BY status;
SELECT * FROM found WHERE detail !~ 'public.many_';
DROP TABLE many_21;
SELECT * FROM found WHERE detail !~ 'public.many_';
CREATE TABLE many_21 ();
CALL many('DROP TABLE many_%s');
DROP PROCEDURE many;
TRUNCATE t;

--
-- The extension, and others
--
BEGIN;
UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'snowflake';
SELECT status, regexp_replace(detail, 'loaded version [\d.]+ ', 'loaded version ... ') AS detail
FROM snowflake_check() WHERE name = 'extension';
ROLLBACK;

-- without the rest of it
BEGIN;
ALTER EXTENSION snowflake DROP FUNCTION snowflake_check();
SET LOCAL client_min_messages = error;
DROP EXTENSION snowflake CASCADE;
SELECT * FROM snowflake_check() WHERE name IN ('extension', 'tables');
-- nor is anything called that others have put there
CREATE SCHEMA snowflake_catalog;
CREATE FUNCTION snowflake_catalog.check_replication(text, boolean, text, OUT status text, OUT detail text)
LANGUAGE sql AS $$SELECT 'ok', 'called'$$;
SELECT status, detail FROM snowflake_check() WHERE name = 'replication';
ROLLBACK;

CREATE SCHEMA snowflake;
CREATE FUNCTION snowflake.nextval(regclass DEFAULT NULL) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
SELECT * FROM snowflake_check() WHERE name = 'other_extension';
DROP SCHEMA snowflake CASCADE;

DROP VIEW found;
DROP FUNCTION id_of;
DROP TABLE t;

--
-- Partitions by time
--
CREATE FUNCTION part(name text, from_ts timestamptz, to_ts timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I PARTITION OF parts FOR VALUES FROM (%s) TO (%s)', name,
        coalesce(snowflake_first_id(from_ts, 'infinity')::text, 'MINVALUE'),
        coalesce(snowflake_first_id(to_ts, 'infinity')::text, 'MAXVALUE'));
END $$;
CREATE VIEW found AS
SELECT status, regexp_replace(detail, '\d+-\d+-\d+ \S+\+00', '...') AS detail FROM snowflake_check() WHERE name = 'partitions';
CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT * FROM found;
SELECT message FROM error_of('INSERT INTO parts DEFAULT VALUES');
SELECT count(*) FROM snowflake_create_partitions('parts', now() - interval '3 days', now() - interval '1 day', '1 day');
SELECT * FROM found;
SELECT count(*) FROM snowflake_create_partitions('parts', now() - interval '1 day', now() + interval '2 days', '1 day');
SELECT * FROM found;
DROP TABLE parts;
CREATE FUNCTION found_of(parts interval[]) RETURNS SETOF found LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE parts (id bigint DEFAULT snowflake_next()) PARTITION BY RANGE (id);
    FOR i IN 1 .. cardinality(parts) - 1 BY 2 LOOP
        PERFORM part('part' || i, now() + parts[i], now() + parts[i + 1]);
    END LOOP;
    RETURN QUERY SELECT * FROM found ORDER BY status = 'ok' LIMIT 1;
    DROP TABLE parts;
END $$;
-- from a quarter of the last one's span on, but not less than an hour, nor more than a day; a
-- day where it begins at no time
SELECT p, f.status FROM unnest('{
    "-30 h, 9 h", "-30 h, 11 h", "-1000 h, 23 h", "-1000 h, 25 h", "-1 min, 59 min", "-1 min, 61 min",
    "NULL, 23 h", "NULL, 25 h", "-30 h, NULL", "1 min, 99 h", "-30 h, -1 min",
    "-30 h, 9 h, 9 h, 50 h", "-30 h, 9 h, 9 h, 10 h, 10 h, 11 h", "-30 h, 9 h, 10 h, 50 h"}'::text[]) p,
    found_of(('{' || p || '}')::interval[]) f;
-- a default partition takes all
CREATE TABLE parts (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
SELECT status FROM found;
DROP TABLE parts;
-- below a list; by a domain's default; not by another default; nor one that is itself of some time only
CREATE DOMAIN drawn AS bigint DEFAULT snowflake_nextval();
CREATE TABLE by_region (region text, id drawn) PARTITION BY LIST (region);
CREATE SCHEMA "My app";
CREATE TABLE "My app"."Eu" PARTITION OF by_region FOR VALUES IN ('eu') PARTITION BY RANGE (id);
CREATE TABLE computed (id bigint DEFAULT snowflake_nextval() / 2) PARTITION BY RANGE (id);
CREATE TABLE given (id bigint) PARTITION BY RANGE (id);
CREATE TABLE parts (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT part('part', now() - interval '1 s', now() + interval '99 h');
CREATE TABLE later PARTITION OF parts FOR VALUES FROM (9000000000000000000) TO (MAXVALUE) PARTITION BY RANGE (id);
SELECT * FROM found;
DROP TABLE by_region, computed, given, parts;
DROP SCHEMA "My app";
DROP DOMAIN drawn;
DROP VIEW found CASCADE;
DROP FUNCTION part;
