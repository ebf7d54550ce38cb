-- IDs at times of the caller's: snowflake_id() and snowflake_backfill().
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC, node 24.
SET timezone = 'UTC';
SET datestyle = ISO;
\pset format unaligned
\pset tuples_only on

--
-- snowflake_id(): the time, and the caller's key below it
--

-- the worked example, whose lower 22 bits are (24 << 17) + (14 << 12) + 3418
SELECT snowflake_id('2021-02-23 15:32:04.056+00', (24 << 17) + (14 << 12) + 3418);
SELECT snowflake_id('2021-02-23 15:32:04.056+00', 17), (snowflake_parse(snowflake_id('2021-02-23 15:32:04.056+00', 17))).*;
-- the same instant in another zone, within the same millisecond
SELECT snowflake_id('2021-02-23 23:32:04.056999+08', 17) = snowflake_id('2021-02-23 15:32:04.056+00', 17) AS same;
-- the first and the last there are
SELECT snowflake_id('2020-01-01 00:00:00+00', 0), snowflake_id('2089-09-06 15:47:35.551+00', 4194303);
-- deterministic, so a second load of the same readings changes nothing
CREATE TEMP TABLE reading (id bigint PRIMARY KEY, value int);
INSERT INTO reading SELECT snowflake_id(timestamptz '2024-05-01 00:00+00' + g * interval '10 s', 5), g FROM generate_series(1, 100) g;
INSERT INTO reading SELECT snowflake_id(timestamptz '2024-05-01 00:00+00' + g * interval '10 s', 5), 0 FROM generate_series(51, 200) g
ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value;
SELECT count(*), count(*) FILTER (WHERE value > 0) AS untouched FROM reading;
SELECT count(*) FROM reading WHERE snowflake_in(id, '2024-05-01 00:10+00', '2024-05-01 00:20+00');
-- a call with constants is evaluated when planned
EXPLAIN (COSTS OFF) SELECT FROM reading WHERE id = snowflake_id('2024-05-01 00:00:10+00', 5);
-- it knows nothing of uniqueness, so it needs no server that can generate
SELECT provolatile, proisstrict, proparallel FROM pg_proc WHERE proname IN ('snowflake_id', 'snowflake_backfill') ORDER BY proname;

SELECT snowflake_id(NULL, 1) IS NULL AND snowflake_id(now(), NULL) IS NULL AS null_in_null_out;
SELECT ts, key, state, message, detail, hint FROM (VALUES
    ('2024-05-01+00', '-1'), ('2024-05-01+00', '4194304'), ('2024-05-01+00', '9223372036854775807'), ('2024-05-01+00', '-9223372036854775808'),
    ('2019-12-31 23:59:59.999999+00', '0'), ('2089-09-06 15:47:35.552+00', '0'), ('infinity', '0'), ('-infinity', '0'), ('294276-12-31+00', '0'), ('nonsense', '0')) v(ts, key),
    error_of(format('SELECT snowflake_id(%L, %s)', ts, key)) e;

--
-- snowflake_backfill()
--

-- at the time asked for, from the worker number that nobody else draws from
SELECT snowflake_backfill('2021-02-23 15:32:04.056789+00') AS id \gset
SELECT ts, node, worker, :id <@ id_range_for(timestamptz '2021-02-23 15:32:04.056+00') AS inside FROM snowflake_parse(:id);
SELECT backfill_worker FROM snowflake_layout();
SELECT count(*) FILTER (WHERE worker = 31) AS live FROM snowflake_nextval(300000) id, snowflake_parse(id);
SELECT count(*) FROM pg_stat_snowflake_slots;

-- a millisecond has 4096, of which one is gone
CREATE TEMP TABLE filled (id bigint PRIMARY KEY);
INSERT INTO filled VALUES (:id);
INSERT INTO filled SELECT snowflake_backfill('2021-02-23 15:32:04.056+00') FROM generate_series(1, 4095);
SELECT count(*), count(DISTINCT (snowflake_parse(id)).sequence), bool_and(snowflake_timestamp(id) = '2021-02-23 15:32:04.056+00') FROM filled;
-- then it is an error, again and again
SELECT * FROM error_of('SELECT snowflake_backfill(''2021-02-23 15:32:04.056+00'')');
SELECT state FROM error_of('INSERT INTO filled SELECT snowflake_backfill(''2021-02-23 15:32:04.056999+00'')');
-- that has lost nothing, also in the milliseconds beside it
INSERT INTO filled SELECT snowflake_backfill('2021-02-23 15:32:04.055+00') FROM generate_series(1, 4096);
INSERT INTO filled SELECT snowflake_backfill('2021-02-23 15:32:04.057+00') FROM generate_series(1, 4096);
SELECT count(*) FROM filled;

-- what is rolled back does not come again
BEGIN;
SELECT snowflake_backfill('2022-01-01+00') AS id \gset
ROLLBACK;
SELECT count(*) FILTER (WHERE id = :id) AS again FROM (SELECT snowflake_backfill('2022-01-01+00') AS id FROM generate_series(1, 4095)) s;

-- one ID in a millisecond each: they are spread over shards
SELECT n, min(count), max(count)
FROM unnest('{2,3,5,16,64}'::int[]) n, LATERAL (
    SELECT count(*)
    FROM (SELECT snowflake_backfill(timestamptz '2023-01-01+00' + n * interval '1 day' + g * interval '1 s') AS id FROM generate_series(1, 9600) g) s
    GROUP BY id % n) c
GROUP BY n HAVING count(*) <> n OR min(count) < 9600 / n * 0.9 OR max(count) > 9600 / n * 1.1;

-- the last ID of this session is still the one it drew as time went by
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_backfill('2022-01-01 00:00:01+00') > 0 AS drawn, snowflake_currval() = :id AS current;
-- and it works where snowflake_nextval() does
BEGIN READ ONLY;
SELECT snowflake_backfill('2022-01-01 00:00:02+00') > 0 AS drawn;
ROLLBACK;
-- by whom it is granted to
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT * FROM error_of($$SELECT snowflake_backfill('2022-01-01 00:00:02+00')$$) \gx
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_backfill TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_backfill('2022-01-01 00:00:02+00') > 0 AS drawn;
RESET ROLE;
REVOKE ALL ON FUNCTION snowflake_backfill FROM regress_snowflake_user;
DROP ROLE regress_snowflake_user;

-- the first millisecond there is
SELECT ts, worker FROM snowflake_backfill('2020-01-01+00') id, snowflake_parse(id);
SELECT snowflake_backfill(NULL) IS NULL AS null_in_null_out;
SELECT call, state, message, detail LIKE 'The layout "time:41 node:5 worker:5 sequence:12" has times from 2020-01-01 00:00:00+00 to 2089-09-06 15:47:35.551+00.' AS layout, detail LIKE 'The time is %, and the clock shows %.' AS clock, hint
FROM unnest('{2019-12-31 23:59:59.999999+00,2089-09-06 15:47:35.552+00,2089-09-06+00,-infinity,infinity,4713-01-01 BC,nonsense}'::text[]) call,
    error_of(format('SELECT snowflake_backfill(%L)', call)) e;
SELECT state, message FROM error_of('SELECT snowflake_backfill(clock_timestamp() + interval ''1 min'')');
-- now is not the future
SELECT snowflake_backfill(clock_timestamp()) > 0 AS drawn;

-- the most that any millisecond has used, for dumps
SELECT setting FROM pg_db_role_setting, unnest(setconfig) setting WHERE setting LIKE 'snowflake.backfilled=%';
