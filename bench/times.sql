-- The section "times" of bench/run.sh: the rows of a period, by the primary key
-- or by an index on created_at.  psql variable "rows": how many, spread evenly
-- over 30 days up to now, in the order of time.

SELECT date_trunc('second', now()) AS ends \gset

CREATE TABLE t_snowflake (id bigint PRIMARY KEY, n integer NOT NULL);
CREATE TABLE t_uuidv7 (id uuid PRIMARY KEY, n integer NOT NULL);
CREATE TABLE t_btree (id bigint PRIMARY KEY, n integer NOT NULL, created_at timestamptz NOT NULL);
CREATE TABLE t_brin (LIKE t_btree INCLUDING ALL);
CREATE TABLE t_uuidv4 (id uuid PRIMARY KEY, n integer NOT NULL, created_at timestamptz NOT NULL);
CREATE INDEX created_btree ON t_btree (created_at);
CREATE INDEX created_brin ON t_brin USING brin (created_at);
CREATE INDEX created_uuidv4 ON t_uuidv4 (created_at);

CREATE VIEW moment AS
SELECT i, :'ends'::timestamptz - interval '30 days' * ((:rows - i + 0.5) / :rows::float8) AS ts
FROM generate_series(1, :rows) AS i;

INSERT INTO t_snowflake SELECT snowflake_compose(ts, 1, 0, i % 4096), i FROM moment;
INSERT INTO t_uuidv7 SELECT uuidv7_at(ts), i FROM moment;
INSERT INTO t_btree SELECT i, i, ts FROM moment;
INSERT INTO t_brin SELECT * FROM t_btree;
INSERT INTO t_uuidv4 SELECT gen_random_uuid(), i, ts FROM moment;
VACUUM ANALYZE;

-- How each finds the rows from one time to another.
CREATE TABLE access AS
SELECT c.ord, c.name, a.tab, a.created, a.condition
FROM (VALUES ('snowflake', 't_snowflake', NULL, 'snowflake_in(id, %1$L, %2$L)'),
             ('UUIDv7 %', 't_uuidv7', NULL, 'id >= uuidv7_from(%1$L) AND id < uuidv7_from(%2$L)'),
             ('bigserial + created_at', 't_btree', 'created_btree', 'created_at >= %1$L AND created_at < %2$L'),
             ('bigserial + created_at BRIN', 't_brin', 'created_brin', 'created_at >= %1$L AND created_at < %2$L'),
             ('UUIDv4 + created_at', 't_uuidv4', 'created_uuidv4', 'created_at >= %1$L AND created_at < %2$L'))
         AS a (pattern, tab, created, condition)
     JOIN candidate AS c ON c.name LIKE a.pattern;

INSERT INTO sample
SELECT 'times', name || ', ' || measure, round, bytes::float8 / :rows
FROM access, generate_series(1, :rounds) AS round,
     LATERAL (VALUES ('key bytes a row', pg_relation_size(tab || '_pkey')),
                     ('created_at index bytes a row', coalesce(pg_relation_size(created::regclass), 0)),
                     ('table bytes a row', pg_relation_size(tab))) AS s (measure, bytes);

-- Milliseconds of execution, the median of so many times, and the pages that are
-- looked at.
CREATE PROCEDURE measure_times(ends timestamptz, rounds integer, times integer) LANGUAGE plpgsql AS $$
DECLARE
    a       access;
    period  text;
    query   text;
    plan    json;
    ms      float8[];
    nrows   bigint;
    first   bigint;
BEGIN
    FOR round IN 0 .. rounds LOOP
        FOREACH period IN ARRAY ARRAY['hour', 'day'] LOOP
            first := NULL;
            FOR a IN SELECT * FROM access ORDER BY (ord + round) % (SELECT count(*) FROM access) LOOP
                query := format('SELECT count(*), sum(n) FROM ' || a.tab || ' WHERE ' || a.condition,
                                ends - ('1 ' || period)::interval, ends);
                EXECUTE query INTO nrows;
                first := coalesce(first, nrows);
                ASSERT nrows = first, format('%s finds %s rows, not %s', a.name, nrows, first);
                ms := '{}';
                FOR i IN 1 .. times LOOP
                    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
                    ms := ms || (plan -> 0 ->> 'Execution Time')::float8;
                END LOOP;
                IF round > 0 THEN
                    INSERT INTO sample
                    SELECT 'times', a.name || ', ' || period || ': ms', round,
                           percentile_cont(0.5) WITHIN GROUP (ORDER BY m)
                    FROM unnest(ms) AS m
                    UNION ALL
                    SELECT 'times', a.name || ', ' || period || ': buffers', round,
                           (plan #>> '{0,Plan,Shared Hit Blocks}')::float8 + (plan #>> '{0,Plan,Shared Read Blocks}')::float8;
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;

CALL measure_times(:'ends', :rounds, 21);
