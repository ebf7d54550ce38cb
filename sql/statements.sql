-- The default in all kinds of tables, statements and functions.  IDs are shown
-- as whether they are there, distinct and in order.
SET timezone = 'UTC';
SET client_min_messages = warning;

-- how many rows, how many IDs, and whether they were drawn by this server
CREATE FUNCTION ids_of(query text, OUT rows bigint, OUT ids bigint, OUT drawn_here boolean)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*), count(DISTINCT id), bool_and((snowflake_parse(id)).node = current_setting(''snowflake.node_id'')::integer
        AND snowflake_timestamp(id) BETWEEN now() - interval ''1 hour'' AND clock_timestamp()) FROM (%s) q (id)', query)
    INTO rows, ids, drawn_here;
END $$;

--
-- COPY
--
CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text, n integer);
COPY item (name, n) FROM stdin;
a	1
b	2
c	3
\.
COPY item (n, name) FROM stdin (FORMAT csv, HEADER);
n,name
4,d
5,e
\.
SELECT * FROM ids_of('SELECT id FROM item');
SELECT string_agg(name, '' ORDER BY id) AS in_order FROM item;
-- out and in again, in the binary format: other IDs
\copy (SELECT name, n FROM item ORDER BY id) to 'results/statements.bin' (FORMAT binary)
\copy item (name, n) from 'results/statements.bin' (FORMAT binary)
SELECT * FROM ids_of('SELECT id FROM item');
-- a row that is refused, in the middle: nothing is there, and the next are others
\set VERBOSITY sqlstate
COPY item (name, n) FROM stdin;
f	6
g	not a number
\.
\set VERBOSITY default
SELECT count(*) FROM item WHERE name IN ('f', 'g');
-- where rows are frozen, and where they are filtered
BEGIN;
TRUNCATE item;
COPY item (name, n) FROM stdin (FREEZE);
a	1
b	2
\.
COPY item (name, n) FROM stdin WHERE n > 2;
b	2
c	3
\.
COMMIT;
SELECT * FROM ids_of('SELECT id FROM item');
-- an ID that is given is taken
COPY item (id, name) FROM stdin;
17	given
\.
SELECT name FROM item WHERE id = 17;
DELETE FROM item WHERE id = 17;

--
-- INSERT
--
-- the default in all its ways
INSERT INTO item DEFAULT VALUES RETURNING id = snowflake_currval() AS returned;
INSERT INTO item VALUES (DEFAULT, 'default'), (DEFAULT, 'default') RETURNING name;
-- a key that is given replaces it
INSERT INTO item (id, name) OVERRIDING SYSTEM VALUE VALUES (18, 'given') RETURNING id;
DELETE FROM item WHERE id = 18;
-- RETURNING gives them in the order of the rows
WITH made AS (
    INSERT INTO item (name, n) SELECT 'made', n FROM generate_series(1, 1000) n RETURNING id, n
)
SELECT count(*), bool_and(id > previous) AS in_order
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS previous FROM made) s;
-- and a sort comes before them
INSERT INTO item (name, n) SELECT 'sorted', n FROM generate_series(1, 1000) n ORDER BY n DESC;
SELECT bool_and(n < previous) AS in_order
FROM (SELECT n, lag(n, 1, 1001) OVER (ORDER BY id) AS previous FROM item WHERE name = 'sorted') s;
-- two statements with IDs in one
WITH parent AS (INSERT INTO item (name) VALUES ('parent') RETURNING id),
     child AS (INSERT INTO item (name, n) SELECT 'child', 1 FROM parent RETURNING id)
SELECT parent.id <> child.id AS two FROM parent, child;
-- UPDATE takes a new one; what it was is gone
SELECT id AS old_id FROM item WHERE name = 'parent' \gset
UPDATE item SET id = DEFAULT WHERE name = 'parent' RETURNING id > :old_id AS above;
SELECT count(*) FROM item WHERE id = :old_id;

-- conflicts: the ID of a row that is not inserted is left out, not given again
CREATE TABLE tag (id bigint DEFAULT snowflake_nextval(), name text PRIMARY KEY, seen integer DEFAULT 1);
INSERT INTO tag (name) VALUES ('a') RETURNING id AS first \gset
INSERT INTO tag (name) VALUES ('a') ON CONFLICT DO NOTHING RETURNING id;
SELECT snowflake_currval() > :first AS drawn_for_nothing, snowflake_currval() AS skipped \gset
INSERT INTO tag (name) VALUES ('a'), ('b') ON CONFLICT (name) DO UPDATE SET seen = tag.seen + 1
RETURNING name, seen, id = :first AS kept, id > :skipped AS above;
SELECT :'drawn_for_nothing' AS drawn_for_nothing, count(*) FILTER (WHERE id = :skipped) AS skipped FROM tag;
-- and an update can take the drawn one
INSERT INTO tag (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET id = excluded.id RETURNING id > :skipped AS above;
SELECT * FROM ids_of('SELECT id FROM tag');

-- MERGE: rows that it inserts have IDs of their own, others keep theirs
MERGE INTO tag USING (SELECT chr(n) AS name FROM generate_series(97, 101) n) s ON tag.name = s.name
WHEN MATCHED AND s.name = 'b' THEN DELETE
WHEN MATCHED THEN UPDATE SET seen = tag.seen + 1
WHEN NOT MATCHED THEN INSERT (name) VALUES (s.name);
MERGE INTO tag USING (VALUES ('f')) s (name) ON tag.name = s.name
WHEN NOT MATCHED THEN INSERT VALUES (DEFAULT, s.name);
SELECT string_agg(name || seen, ' ' ORDER BY name) AS tags FROM tag;
SELECT * FROM ids_of('SELECT id FROM tag');
-- with RETURNING from 17 on
DO $$
DECLARE
	new_id bigint;
BEGIN
	IF current_setting('server_version_num')::int >= 170000 THEN
		EXECUTE 'MERGE INTO tag USING (VALUES (''g'')) s (name) ON tag.name = s.name
			WHEN NOT MATCHED THEN INSERT (name) VALUES (s.name) RETURNING id' INTO STRICT new_id;
		ASSERT new_id = snowflake_currval();
		ASSERT new_id = (SELECT id FROM tag WHERE name = 'g');
	END IF;
END
$$;
DROP TABLE tag;

--
-- Queries: one for each row, and never folded into one
--
SELECT count(DISTINCT id) FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000)) s;
SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 1000);
SELECT count(DISTINCT id) FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000) LIMIT 10) s;
WITH drawn AS (SELECT snowflake_nextval() AS id FROM generate_series(1, 10))
SELECT count(DISTINCT a.id) FROM drawn a JOIN drawn b USING (id);
-- a subquery that does not depend on the row is one ID, one that does is many
SELECT count(DISTINCT id) FROM (SELECT (SELECT snowflake_nextval()) AS id FROM generate_series(1, 10)) s;
SELECT count(DISTINCT id) FROM (SELECT (SELECT snowflake_nextval() + 0 * n) AS id FROM generate_series(1, 10) n) s;
SELECT count(DISTINCT id) FROM generate_series(1, 10) n, LATERAL (SELECT n, snowflake_nextval() AS id OFFSET 0) s;
-- in WHERE it is drawn for each row, so no index can be searched for it
EXPLAIN (COSTS OFF) SELECT FROM item WHERE id = snowflake_nextval();
SELECT count(*) FROM item WHERE id >= snowflake_nextval();

-- in a query with workers: drawn in them
CREATE TABLE source (n integer);
INSERT INTO source SELECT generate_series(1, 20000);
ANALYZE source;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
EXPLAIN (COSTS OFF, VERBOSE) SELECT n, snowflake_nextval() FROM source;
SELECT count(*), count(DISTINCT id) FROM (SELECT snowflake_nextval() AS id FROM source OFFSET 0) s;
CREATE TABLE copied (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
INSERT INTO copied (n) SELECT n FROM source;
SELECT * FROM ids_of('SELECT id FROM copied');
CREATE TABLE made AS SELECT snowflake_nextval() AS id, n FROM source;
SELECT * FROM ids_of('SELECT id FROM made');
-- what a session alone knows stays in the leader
EXPLAIN (COSTS OFF, VERBOSE) SELECT n, snowflake_currval() FROM source;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
RESET parallel_leader_participation;
DROP TABLE source, copied, made;

-- prepared: a custom and a generic plan draw at each execution
PREPARE add(text) AS INSERT INTO item (name) VALUES ($1) RETURNING id = snowflake_currval() AS current;
PREPARE draw AS SELECT snowflake_nextval() AS id;
SET plan_cache_mode = force_generic_plan;
EXECUTE add('prepared');
EXECUTE add('prepared');
EXECUTE draw \gset generic_
EXECUTE draw \gset again_
SET plan_cache_mode = force_custom_plan;
EXECUTE add('prepared');
EXECUTE draw \gset custom_
RESET plan_cache_mode;
SELECT :again_id > :generic_id AS again, :custom_id > :again_id AS custom;
SELECT * FROM ids_of($$SELECT id FROM item WHERE name = 'prepared'$$);
DEALLOCATE ALL;

-- a cursor draws when a row is fetched, and for one that is fetched again once
-- more: as with all volatile functions, use WITH HOLD or a table to scroll
BEGIN;
DECLARE forth CURSOR FOR SELECT snowflake_nextval() AS id FROM generate_series(1, 3);
FETCH forth \gset a_
SELECT snowflake_nextval() AS id \gset b_
FETCH forth \gset c_
SELECT :a_id < :b_id AND :b_id < :c_id AS in_order;
DECLARE back SCROLL CURSOR FOR SELECT snowflake_nextval() AS id FROM generate_series(1, 3);
FETCH back \gset a_
FETCH back \gset b_
FETCH PRIOR back \gset c_
SELECT :a_id < :b_id AND :b_id < :c_id AS in_order;
COMMIT;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM item ORDER BY id;
INSERT INTO item (name) VALUES ('after') RETURNING id AS after_id \gset
COMMIT;
MOVE LAST held;
FETCH PRIOR held \gset
SELECT :id < :after_id AS not_there;
CLOSE held;

--
-- Functions
--
CREATE FUNCTION new_item(name text, id bigint DEFAULT snowflake_nextval()) RETURNS bigint
BEGIN ATOMIC
    INSERT INTO item (id, name) VALUES (id, name) RETURNING id;
END;
CREATE FUNCTION sql_item(name text) RETURNS bigint LANGUAGE sql
AS 'INSERT INTO item (name) VALUES (name) RETURNING id';
CREATE FUNCTION sql_id() RETURNS bigint LANGUAGE sql VOLATILE RETURN snowflake_nextval();
CREATE FUNCTION plpgsql_items(name text, n integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    first bigint := snowflake_nextval();
    new_id bigint;
BEGIN
    FOR i IN 1..n LOOP
        BEGIN
            INSERT INTO item (name, n) VALUES (name, i) RETURNING id INTO new_id;
            -- rolled back: its ID does not come again
            IF i % 2 = 0 THEN
                RAISE 'even';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            new_id := NULL;
        END;
        ASSERT new_id > first AND new_id = snowflake_currval() OR new_id IS NULL;
        RETURN NEXT new_id;
    END LOOP;
END $$;
SELECT * FROM ids_of($$SELECT new_item('function') FROM generate_series(1, 3)$$);
SELECT new_item('function', 19);
SELECT * FROM ids_of($$SELECT sql_item('function') FROM generate_series(1, 3)$$);
SELECT * FROM ids_of($$SELECT sql_id() FROM generate_series(1, 3)$$);
SELECT * FROM ids_of($$SELECT id FROM plpgsql_items('function', 6) id WHERE id IS NOT NULL$$);
DO $$
DECLARE
    id bigint := snowflake_nextval();
    next_id bigint;
BEGIN
    next_id := snowflake_nextval();
    ASSERT next_id > id, 'not in order';
    PERFORM snowflake_nextval();
    EXECUTE 'SELECT snowflake_nextval()' INTO id;
    ASSERT id > next_id, 'not in order';
END $$;
-- a procedure that commits in between
CREATE PROCEDURE add_items(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..n LOOP
        INSERT INTO item (name, n) VALUES ('procedure', i);
        COMMIT;
    END LOOP;
END $$;
CALL add_items(5);
SELECT bool_and(id > previous) AS in_order
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS previous FROM item WHERE name = 'procedure') s;
DROP PROCEDURE add_items;
DROP FUNCTION new_item, sql_item, sql_id, plpgsql_items;
DELETE FROM item WHERE id = 19;

-- triggers: the ID is there before, and a trigger may draw others
CREATE TABLE log (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item bigint REFERENCES item, op text);
CREATE FUNCTION log_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_WHEN = 'BEFORE' THEN
        NEW.n := CASE WHEN NEW.id = snowflake_currval() THEN 1 ELSE 0 END;
    ELSE
        INSERT INTO log (item, op) VALUES (NEW.id, TG_OP);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER before_row BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION log_item();
CREATE TRIGGER after_row AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION log_item();
INSERT INTO item (name) VALUES ('trigger'), ('trigger') RETURNING n AS was_there;
SELECT i.name, l.op, l.id > i.id AS later FROM item i JOIN log l ON l.item = i.id ORDER BY i.id;
DROP TRIGGER before_row ON item;
DROP TRIGGER after_row ON item;

-- a foreign key to it, in the same transaction and by a default of its own
\set VERBOSITY sqlstate
INSERT INTO log (item) VALUES (snowflake_nextval());
\set VERBOSITY default
WITH i AS (INSERT INTO item (name) VALUES ('referenced') RETURNING id)
INSERT INTO log (item) SELECT id FROM i RETURNING id > item AS later;
DROP TABLE log;
DROP FUNCTION log_item;

--
-- Kinds of tables
--
-- partitions by ranges of the ID: rows go where their time says; the default is
-- the parent's, also of a partition that is attached
CREATE TABLE event (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text) PARTITION BY RANGE (id);
SELECT lower(r) AS today, upper(r) AS tomorrow FROM id_range_for(date_trunc('day', now()), date_trunc('day', now()) + interval '2 days') r \gset
CREATE TABLE event_past PARTITION OF event FOR VALUES FROM (MINVALUE) TO (:today);
CREATE TABLE event_now (LIKE event INCLUDING ALL);
ALTER TABLE event ATTACH PARTITION event_now FOR VALUES FROM (:today) TO (:tomorrow);
INSERT INTO event (name) SELECT 'parent' FROM generate_series(1, 10);
INSERT INTO event_now (name) SELECT 'partition' FROM generate_series(1, 10);
COPY event (name) FROM stdin;
copied
copied
\.
SELECT tableoid::regclass AS table, count(*), count(DISTINCT id) FROM event GROUP BY 1;
-- without a default of its own, a row inserted into the partition itself has none
ALTER TABLE event_now ALTER COLUMN id DROP DEFAULT;
\set VERBOSITY sqlstate
INSERT INTO event_now (name) VALUES ('none');
INSERT INTO event_past (name) VALUES ('not its time');
\set VERBOSITY default
INSERT INTO event (name) VALUES ('parent') RETURNING tableoid::regclass AS table;
-- an ID that moves a row
UPDATE event SET id = 17 WHERE name = 'copied' AND id = (SELECT min(id) FROM event WHERE name = 'copied');
SELECT tableoid::regclass AS table, name FROM event WHERE id = 17;
DROP TABLE event;

-- partitions by hash: all of them get rows
CREATE TABLE event (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text) PARTITION BY HASH (id);
SELECT format('CREATE TABLE event_%s PARTITION OF event FOR VALUES WITH (MODULUS 4, REMAINDER %s)', n, n) FROM generate_series(0, 3) n \gexec
INSERT INTO event (name) SELECT 'hash' FROM generate_series(1, 1000);
SELECT tableoid::regclass AS table, count(*) BETWEEN 100 AND 500 AS filled FROM event GROUP BY 1 ORDER BY 1;
SELECT * FROM ids_of('SELECT id FROM event');
DROP TABLE event;

-- inherited: the child has the default, and IDs are unique over all of them
CREATE TABLE animal (id bigint DEFAULT snowflake_nextval(), name text);
CREATE TABLE dog (breed text) INHERITS (animal);
CREATE TABLE cat (id bigint DEFAULT 0) INHERITS (animal);
INSERT INTO animal (name) SELECT 'animal' FROM generate_series(1, 10);
INSERT INTO dog (name) SELECT 'dog' FROM generate_series(1, 10);
SELECT * FROM ids_of('SELECT id FROM animal');
-- unless it has another one
INSERT INTO cat (name) VALUES ('cat') RETURNING id;
DROP TABLE animal, dog, cat;

-- temporary, unlogged, typed, and made LIKE others
CREATE TEMP TABLE short (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO short (n) VALUES (1), (2);
SELECT * FROM ids_of('SELECT id FROM short');
COMMIT;
CREATE UNLOGGED TABLE unlogged (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
INSERT INTO unlogged (n) VALUES (1), (2);
SELECT * FROM ids_of('SELECT id FROM unlogged');
ALTER TABLE unlogged SET LOGGED;
INSERT INTO unlogged (n) VALUES (3);
SELECT * FROM ids_of('SELECT id FROM unlogged');
CREATE TYPE row_type AS (id bigint, n integer);
CREATE TABLE typed OF row_type (id DEFAULT snowflake_nextval());
INSERT INTO typed (n) VALUES (1), (2);
SELECT * FROM ids_of('SELECT id FROM typed');
CREATE TABLE without (LIKE item);
CREATE TABLE alike (LIKE item INCLUDING DEFAULTS);
INSERT INTO without (name) VALUES ('none') RETURNING id;
INSERT INTO alike (name) VALUES ('a'), ('b');
SELECT * FROM ids_of('SELECT id FROM alike');
DROP TABLE short, unlogged, typed, without, alike;
DROP TYPE row_type;

-- a column that is added: each row there gets its own
CREATE TABLE late (n integer);
INSERT INTO late SELECT generate_series(1, 1000);
ALTER TABLE late ADD COLUMN id bigint DEFAULT snowflake_nextval();
SELECT * FROM ids_of('SELECT id FROM late');
DROP TABLE late;

-- identity and serial, replaced by hand: rows stay, new ones have IDs
CREATE TABLE was_identity (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
CREATE TABLE was_serial (id bigserial PRIMARY KEY, n integer);
INSERT INTO was_identity (n) VALUES (1), (2);
INSERT INTO was_serial (n) VALUES (1), (2);
ALTER TABLE was_identity ALTER COLUMN id DROP IDENTITY, ALTER COLUMN id SET DEFAULT snowflake_nextval();
ALTER TABLE was_serial ALTER COLUMN id SET DEFAULT snowflake_nextval();
DROP SEQUENCE was_serial_id_seq;
INSERT INTO was_identity (n) VALUES (3), (4);
INSERT INTO was_serial (n) VALUES (3), (4);
SELECT n, CASE WHEN id < 10 THEN id END AS id FROM was_identity ORDER BY id;
SELECT n, CASE WHEN id < 10 THEN id END AS id FROM was_serial ORDER BY id;
DROP TABLE was_identity, was_serial;
-- an identity column has no other default
SELECT state FROM error_of('CREATE TABLE two (id bigint GENERATED ALWAYS AS IDENTITY DEFAULT snowflake_nextval())');

-- what must be the same at each evaluation refuses it
SELECT * FROM error_of('CREATE TABLE stored (n integer, id bigint GENERATED ALWAYS AS (snowflake_nextval()) STORED)') \gx
SELECT * FROM error_of('CREATE INDEX ON item ((snowflake_nextval()))') \gx
-- but what reads an ID with a layout of its own may be stored
CREATE TABLE stored (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    node integer GENERATED ALWAYS AS ((snowflake_parse(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00')).node) STORED
);
INSERT INTO stored DEFAULT VALUES RETURNING node;
DROP TABLE stored;

-- a domain: its default, and its check
CREATE DOMAIN order_id AS bigint DEFAULT snowflake_nextval() CHECK (VALUE > 0);
CREATE TABLE purchase (id order_id PRIMARY KEY, n integer);
INSERT INTO purchase (n) VALUES (1), (2), (3);
SELECT * FROM ids_of('SELECT id FROM purchase');
DROP TABLE purchase;
DROP DOMAIN order_id;
-- a smaller type has no room for it
CREATE TABLE small (id integer DEFAULT snowflake_nextval(), n integer);
SELECT state, message FROM error_of('INSERT INTO small (n) VALUES (1)');
DROP TABLE small;

-- views: one that can be inserted into uses the table's default, or its own
CREATE VIEW some_items AS SELECT id, name FROM item WHERE name = 'view' WITH CHECK OPTION;
INSERT INTO some_items (name) VALUES ('view') RETURNING id = snowflake_currval() AS drawn;
ALTER VIEW some_items ALTER COLUMN id SET DEFAULT 20;
INSERT INTO some_items (name) VALUES ('view') RETURNING id;
ALTER VIEW some_items ALTER COLUMN id SET DEFAULT snowflake_nextval();
INSERT INTO some_items (name) VALUES ('view') RETURNING id = snowflake_currval() AS drawn;
DELETE FROM item WHERE id = 20;
DROP VIEW some_items;
-- one that calls it gives others at each look, one that is materialized does not
CREATE VIEW draws AS SELECT n, snowflake_nextval() AS id FROM generate_series(1, 3) n;
SELECT max(id) AS max FROM draws \gset
SELECT min(id) > :max AS others FROM draws;
CREATE MATERIALIZED VIEW drawn AS SELECT * FROM draws;
SELECT count(*) AS same FROM drawn a JOIN drawn b USING (id);
DROP MATERIALIZED VIEW drawn;
DROP VIEW draws;

-- rules: what they add is run again with the expression, so it is another ID
CREATE TABLE audit (item bigint);
CREATE RULE audit AS ON INSERT TO item DO ALSO INSERT INTO audit VALUES (NEW.id);
INSERT INTO item (name) VALUES ('rule') RETURNING id AS rule_id \gset
SELECT count(*), bool_or(item = :rule_id) AS same FROM audit;
DROP RULE audit ON item;
DROP TABLE audit;

SELECT * FROM ids_of('SELECT id FROM item');
DROP TABLE item;
DROP FUNCTION ids_of;
