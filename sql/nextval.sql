-- Drawing IDs.
SET timezone = 'UTC';

-- nothing drawn yet
SELECT * FROM error_of('SELECT snowflake_currval()') \gx

-- an ID, and what is in it: this server's node, a time that is now
SELECT clock_timestamp() AS before \gset
SELECT snowflake_nextval() AS id \gset
SELECT node = current_setting('snowflake.node_id')::integer AS node_ok,
       worker BETWEEN 0 AND 31 AS worker_ok,
       sequence BETWEEN 0 AND 4095 AS sequence_ok,
       ts BETWEEN date_trunc('milliseconds', :'before'::timestamptz)
              AND clock_timestamp() AS ts_ok
FROM snowflake_parse(:id);
SELECT snowflake_currval() = :id AS current;

-- strictly increasing
SELECT count(*) AS ids, count(DISTINCT id) AS distinct_ids,
       bool_and(id > previous) AS increasing
FROM (SELECT id, lag(id, 1, :id) OVER (ORDER BY n) AS previous
      FROM (SELECT n, snowflake_nextval() AS id
            FROM generate_series(1, 100000) n OFFSET 0) drawn) compared;

-- many at once
SELECT snowflake_currval() AS last_id \gset
SELECT count(*) AS ids, bool_and(id > previous) AS increasing,
       max(id) = snowflake_currval() AS current
FROM (SELECT id, lag(id, 1, :last_id) OVER (ORDER BY n) AS previous
      FROM snowflake_nextval(100000) WITH ORDINALITY AS drawn(id, n)) compared;
SELECT count(*) FROM snowflake_nextval(1);
SELECT count(*) FROM snowflake_nextval(0);
SELECT count(*) FROM snowflake_nextval(NULL);
SELECT * FROM error_of('SELECT snowflake_nextval(-1)') \gx
SELECT * FROM error_of('SELECT snowflake_nextval(-2147483648)') \gx
SELECT * FROM error_of('SELECT snowflake_nextval(-9223372036854775808)') \gx
SELECT count(*) FROM (SELECT snowflake_nextval(9223372036854775807) LIMIT 2) s;
SELECT state, message FROM error_of('SELECT snowflake_nextval(9223372036854775808)') \gx
-- numbers of any type, and a parameter without one
SELECT count(*) FROM snowflake_nextval(2::smallint) a, snowflake_nextval((SELECT count(*) FROM (VALUES (1), (2)) v)) b;
PREPARE of_no_type AS SELECT count(*) FROM snowflake_nextval($1);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'of_no_type';
EXECUTE of_no_type(3);
DEALLOCATE of_no_type;

-- the other name
SELECT snowflake_nextval() AS first, snowflake_next() AS second \gset
SELECT :first < :second AS ascends, snowflake_currval() = :second AS current,
       snowflake_next() - snowflake_nextval() < 0 AS goes_on;

-- 0 and NULL draw nothing
SELECT snowflake_currval() AS last_id \gset
SELECT snowflake_nextval(0), snowflake_nextval(NULL);
SELECT snowflake_currval() = :last_id AS unchanged;

-- the current one is the last that came out, though more were taken
SELECT id AS second_id FROM (SELECT snowflake_nextval(5) AS id LIMIT 2) s
ORDER BY id DESC LIMIT 1 \gset
SELECT snowflake_currval() = :second_id AS current;

-- a set and single calls in one row: still each ID is above the one before,
-- row by row and from left to right
CREATE TEMP TABLE mixed AS
SELECT row_number() OVER () AS n, a, b
FROM (SELECT snowflake_nextval(10000) AS a, snowflake_nextval() AS b) s;
SELECT count(*), count(DISTINCT id), bool_and(id > previous) AS increasing
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n, field) AS previous
      FROM mixed, LATERAL (VALUES (1, a), (2, b)) v(field, id)) compared;
DROP TABLE mixed;

-- two sets in one row: each ascends by itself, and they share no ID
CREATE TEMP TABLE pairs AS
SELECT row_number() OVER () AS n, a, b
FROM (SELECT snowflake_nextval(10000) AS a, snowflake_nextval(10000) AS b) s;
SELECT count(DISTINCT id) FROM pairs, LATERAL (VALUES (a), (b)) v(id);
SELECT bool_and(a > previous_a AND b > previous_b) AS increasing
FROM (SELECT a, b, lag(a, 1, 0::bigint) OVER w AS previous_a, lag(b, 1, 0::bigint) OVER w AS previous_b
      FROM pairs WINDOW w AS (ORDER BY n)) compared;
DROP TABLE pairs;

-- and so are those of a set that is read bit by bit
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_nextval(1000) AS id;
FETCH 1 FROM c \gset first_
SELECT snowflake_nextval() AS single \gset
FETCH 1 FROM c \gset second_
SELECT :single > :first_id AND :second_id > :single AS increasing, snowflake_currval() = :second_id AS current;
MOVE ALL FROM c;
COMMIT;

-- rescanned, a set begins anew
SELECT count(*), count(DISTINCT id)
FROM generate_series(1, 3) n, LATERAL (SELECT n, snowflake_nextval(2) AS id LIMIT 1) s;

-- a batch in a cursor, left half read
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_nextval(1000000) > 0 AS drawn;
FETCH 2 FROM c;
CLOSE c;
COMMIT;

-- ten million stream: no temporary file, and a timeout ends it
SET temp_file_limit = 0;
SELECT count(*) FROM (SELECT snowflake_nextval(10000000)) s;
RESET temp_file_limit;
SET statement_timeout = '50ms';
SELECT count(*) FROM (SELECT snowflake_nextval(2000000000)) s;
RESET statement_timeout;

-- as a key: INSERT, COPY, multi-row, RETURNING, conflicts
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
INSERT INTO orders (item) VALUES ('a'), ('b'), ('c');
COPY orders (item) FROM stdin;
d
e
\.
INSERT INTO orders (item) SELECT 'f' FROM generate_series(1, 1000);
INSERT INTO orders (item) VALUES ('g') RETURNING id = snowflake_currval() AS current;
INSERT INTO orders (id, item) VALUES (snowflake_currval(), 'h')
    ON CONFLICT (id) DO UPDATE SET item = excluded.item RETURNING item;
SELECT count(*), count(DISTINCT id),
       string_agg(item, '' ORDER BY id) = 'abcde' || repeat('f', 1000) || 'h' AS in_order
FROM orders;

-- a rollback gives nothing back
SELECT snowflake_nextval() AS before \gset
BEGIN;
SELECT snowflake_nextval() AS lost \gset
ROLLBACK;
SELECT snowflake_nextval() > :lost AND :lost > :before AS above,
       snowflake_currval() > :lost AS current;

-- in a read-only transaction
BEGIN READ ONLY;
SELECT snowflake_nextval() > :lost AS drawn;
COMMIT;

-- an order and its items drawn in turn, each order in a time unit of its own: id % n
-- is even (with "continue" all orders would be in one class), and the unit has most
-- of its numbers left
CREATE TEMP TABLE first_drawn (items integer, id bigint);
DO $$
BEGIN
    FOR items IN 1 .. 3 BY 2 LOOP
        FOR i IN 1 .. 400 LOOP
            WHILE clock_timestamp() < snowflake_timestamp(snowflake_currval()) + '1 ms' LOOP
            END LOOP;
            INSERT INTO first_drawn VALUES (items, snowflake_nextval());
            PERFORM snowflake_nextval() FROM generate_series(1, items);
        END LOOP;
    END LOOP;
END
$$;
SELECT items, count(*) AS classes, min(orders) > 200 / (items + 1) AND max(orders) < 600 / (items + 1) AS even
FROM (SELECT items, id % (items + 1), count(*) AS orders FROM first_drawn GROUP BY 1, 2) AS c
GROUP BY items ORDER BY items;
SELECT count(DISTINCT sequence) > 400 AS spread, max(sequence) < 1024 AS room_left
FROM first_drawn, snowflake_parse(id);

-- DISCARD: what another user of a pooled connection must not see
SELECT snowflake_nextval() AS last_id \gset
DISCARD PLANS;
SELECT snowflake_currval() = :last_id AS still_there;
DISCARD ALL;
SELECT * FROM error_of('SELECT snowflake_currval()') \gx
SELECT snowflake_nextval() > :last_id AS goes_on;
DISCARD SEQUENCES;
SELECT * FROM error_of('SELECT snowflake_currval()') \gx

-- anyone may draw, and look at the slots
SET timezone = 'UTC';
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_nextval() > :last_id AS drawn;
SELECT count(*) AS slots FROM pg_stat_snowflake_slots;
RESET ROLE;
DROP ROLE regress_snowflake_user;

-- the slots view: this backend has one for when it is busy, and draws from the
-- shared one, or above it
SELECT snowflake_nextval() AS last_id \gset
SELECT worker > 0 AS own, cardinality(pids) AS backends
FROM pg_stat_snowflake_slots WHERE pg_backend_pid() = ANY (pids);
SELECT last_id = :last_id AS last_id, last_ts = snowflake_timestamp(:last_id) AS last_ts,
       issued > 0 AS issued
FROM pg_stat_snowflake_slots WHERE worker = (snowflake_parse(:last_id)).worker;
-- and counts exactly, over whichever slots were used
SELECT sum(issued) AS issued FROM pg_stat_snowflake_slots \gset
SELECT count(snowflake_nextval()) FROM generate_series(1, 50000);
SELECT count(*) FROM snowflake_nextval(250000);
SELECT sum(issued) - :issued AS newly_issued FROM pg_stat_snowflake_slots;
-- a slot nobody used
SELECT DISTINCT last_id, last_ts, issued, pids FROM pg_stat_snowflake_slots
WHERE last_id IS NULL OR issued = 0 ORDER BY 1 LIMIT 1;

DROP TABLE orders;
