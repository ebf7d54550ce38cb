-- Reading IDs and putting them together.
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC.
SET timezone = 'UTC';

SELECT * FROM snowflake_layout() \gx

-- the worked example: 36257524056 ms after the epoch
SELECT * FROM snowflake_parse(152075078181383514);
SELECT 152075078181383514 >> 22 AS ms, snowflake_timestamp(152075078181383514);
SELECT snowflake_compose('2021-02-23 15:32:04.056+00', 24, 14, 3418);
-- in another zone it is the same instant
SET timezone = 'Asia/Shanghai';
SELECT * FROM snowflake_parse(152075078181383514);
SELECT snowflake_compose('2021-02-23 23:32:04.056+08', 24, 14, 3418);
SET timezone = 'UTC';

-- each field alone, and the ends of the ID space
SELECT id, (snowflake_parse(id)).*
FROM (VALUES (0), (1), (4095), (4096), (31 << 12), (1 << 17), (31 << 17), (1 << 22),
             (9223372036854775807 - 4095), (9223372036854775807)) v(id);
SELECT snowflake_compose('2020-01-01 00:00:00+00', 0, 0, 0) AS lowest,
       snowflake_compose('2089-09-06 15:47:35.551+00', 31, 31, 4095) AS highest;

-- microseconds are cut off: an ID's time is the start of its unit
SELECT snowflake_compose('2020-01-01 00:00:00.000999+00', 0, 0, 0) AS unit_0,
       snowflake_compose('2020-01-01 00:00:00.001+00', 0, 0, 0) AS unit_1;

-- the inverse of each other
SELECT count(*) AS ids, count(*) FILTER (WHERE id = snowflake_compose(ts, node, worker, sequence)) AS same
FROM (SELECT n * 92233720368547 + n * n AS id FROM generate_series(0::bigint, 99990) n) ids,
     snowflake_parse(id);

-- a timestamp and a date, by the server's casts
SELECT snowflake_compose(timestamp '2021-02-23 15:32:04.056', 24, 14, 3418),
       (snowflake_parse(snowflake_compose(date '2021-02-23', 1, 2, 3))).*;

-- NULL in, NULL out
SELECT snowflake_timestamp(NULL) IS NULL AS ts, (snowflake_parse(NULL)) IS NULL AS parse,
       snowflake_compose(NULL, 0, 0, 0) IS NULL AS c1, snowflake_compose(now(), NULL, 0, 0) IS NULL AS c2,
       snowflake_compose(now(), 0, NULL, 0) IS NULL AS c3, snowflake_compose(now(), 0, 0, NULL) IS NULL AS c4;

-- not an ID
SELECT * FROM error_of('SELECT snowflake_parse(-1)') \gx
SELECT * FROM error_of('SELECT snowflake_timestamp(-9223372036854775808)') \gx
SELECT state, message FROM error_of('SELECT snowflake_parse(9223372036854775808)') \gx

-- fields out of range, below and above
SELECT call, e.* FROM
    (VALUES ('snowflake_compose(''2021-01-01+00'', -1, 0, 0)'),
            ('snowflake_compose(''2021-01-01+00'', 32, 0, 0)'),
            ('snowflake_compose(''2021-01-01+00'', 0, -1, 0)'),
            ('snowflake_compose(''2021-01-01+00'', 0, 32, 0)'),
            ('snowflake_compose(''2021-01-01+00'', 0, 0, -1)'),
            ('snowflake_compose(''2021-01-01+00'', 0, 0, 4096)'),
            ('snowflake_compose(''2021-01-01+00'', 9223372036854775807, 0, 0)'),
            ('snowflake_compose(''2021-01-01+00'', -9223372036854775808, 0, 0)'),
            ('snowflake_compose(''2021-01-01+00'', 4294967296, 0, 0)'),
            ('snowflake_compose(''2019-12-31 23:59:59.999999+00'', 0, 0, 0)'),
            ('snowflake_compose(''2089-09-06 15:47:35.552+00'', 0, 0, 0)'),
            ('snowflake_compose(''294276-12-31 23:59:59.999999+00'', 0, 0, 0)'),
            ('snowflake_compose(''infinity'', 0, 0, 0)'),
            ('snowflake_compose(''-infinity'', 0, 0, 0)')) v(call),
    LATERAL error_of('SELECT ' || call) e \gx

-- with a layout and epoch: what snowflake_parse() reads, in any order of the fields
SELECT count(*) AS ids, count(DISTINCT layout) AS layouts,
       count(*) FILTER (WHERE snowflake_timestamp(id, layout, epoch) = (snowflake_parse(id, layout, epoch)).ts) AS same,
       count(*) FILTER (WHERE snowflake_timestamp(id, layout, epoch) = epoch + (id >> shift & (1::bigint << bits) - 1) * unit) AS right
FROM (VALUES ('time:41 node:5 worker:5 sequence:12', 22, 41, interval '1 ms'), ('node:10 time:41 sequence:12', 12, 41, '1 ms'),
             ('node:22 sequence:13 time:28@1s', 0, 28, '1 s'), ('sequence:8 node:16 time:39@10ms', 0, 39, '10 ms')) l(layout, shift, bits, unit),
     (VALUES (timestamptz '2020-01-01 00:00+00'), ('1969-07-20 20:17:40.000001+00')) e(epoch),
     (VALUES (0), (1), (152075078181383514), (9223372036854775807)) i(id);
-- of this server
SELECT snowflake_timestamp(152075078181383514, layout, first_ts) = snowflake_timestamp(152075078181383514) AS own FROM snowflake_layout();

-- the name of a dialect stands for its layout, with the epoch that is given: Sonyflake, version 1
SELECT snowflake_timestamp(6039814471938, 'sonyflake', '2014-09-01 00:00+00') AS ts, (snowflake_parse(6039814471938, 'sonyflake', '2014-09-01 00:00+00')).*,
       (snowflake_parse(6039814471938, 'sonyflake')).ts AS version_2;
SELECT bool_and((snowflake_parse(152075078181383, name, epoch)) = (snowflake_parse(152075078181383, name))) AS same,
       bool_and((snowflake_parse(152075078181383, name, '2020-01-01 00:00+00')) = (snowflake_parse(152075078181383, layout, '2020-01-01 00:00+00'))) AS same
FROM snowflake_dialects();
-- a name and its layout, another layout and an epoch take turns in one call
SELECT n, snowflake_timestamp(4294967296, layout, epoch), (snowflake_parse(4294967296, layout, epoch)).node
FROM (VALUES (1, 'sonyflake', timestamptz '2014-09-01 00:00+00'), (2, 'sonyflake', '2025-01-01 00:00+00'), (3, 'time:39@10ms sequence:8 node:16', '2014-09-01 00:00+00'),
             (4, 'twitter', '2014-09-01 00:00+00'), (5, NULL, '2014-09-01 00:00+00'), (6, 'sonyflake', NULL), (7, 'sonyflake', '2014-09-01 00:00+00')) v(n, layout, epoch) ORDER BY n;
SELECT num_nulls(snowflake_timestamp(NULL, 'time:63', now()), snowflake_timestamp(1, NULL, now()), snowflake_timestamp(1, 'time:63', NULL)) AS nulls;

-- the errors are those of snowflake_parse()
SELECT call, e.*, e = p AS same
FROM (VALUES ('(-1, ''time:41 node:22'', ''2020-01-01'')'), ('(-1, ''discord'', ''2020-01-01 00:00+00'')'), ('(9007199254740992, ''js53'', ''2020-01-01'')'),
             ('(1, ''nobody'', ''2020-01-01'')'), ('(1, ''Twitter'', ''2020-01-01'')'), ('(1, '''', ''2020-01-01'')'), ('(1, ''time:64'', ''2020-01-01'')'),
             ('(1, ''node:5'', ''2020-01-01'')'), ('(1, ''time:41'', ''infinity'')'), ('(9223372036854775807, ''time:63'', ''2020-01-01'')')) v(call),
     error_of('SELECT snowflake_timestamp' || call) e, error_of('SELECT snowflake_parse' || call) p \gx

-- IMMUTABLE: a day as a generated column, in an index, and as the key of partitions
CREATE TABLE parse_days (
    id bigint PRIMARY KEY,
    day date GENERATED ALWAYS AS ((snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date) STORED);
CREATE INDEX parse_days_day ON parse_days (((snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date), id);
INSERT INTO parse_days SELECT snowflake_compose(t, 1, 2, 3) FROM generate_series(timestamptz '2021-02-22 00:00+00', '2021-02-24 23:59+00', '1 minute') t;
SET timezone = 'Asia/Shanghai';
SELECT day, count(*), min(snowflake_timestamp(id)), bool_and(day = (snowflake_timestamp(id) AT TIME ZONE 'UTC')::date) AS right FROM parse_days GROUP BY day ORDER BY day;
SET timezone = 'UTC';
VACUUM ANALYZE parse_days;
-- (another session may keep VACUUM from marking pages as visible to all)
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parse_days
WHERE (snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date = '2021-02-23';
RESET enable_bitmapscan;
SELECT count(*) FROM parse_days
WHERE (snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date = '2021-02-23';
CREATE TABLE parse_parts (id bigint)
    PARTITION BY LIST (((snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date));
CREATE TABLE parse_part PARTITION OF parse_parts FOR VALUES IN ('2021-02-23');
INSERT INTO parse_parts SELECT id FROM parse_days WHERE day = '2021-02-23';
SELECT count(*) FROM parse_part;
SELECT state, message FROM error_of('INSERT INTO parse_parts SELECT max(id) FROM parse_days');
-- of an expression the planner knows how many values there are only by statistics, as of an index
CREATE FUNCTION parse_day(id bigint) RETURNS date IMMUTABLE PARALLEL SAFE
RETURN (snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00') AT TIME ZONE 'UTC')::date;
CREATE FUNCTION parse_groups() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) SELECT parse_day(id), count(*) FROM parse_ids GROUP BY 1' INTO plan;
    RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
CREATE TABLE parse_ids AS SELECT id FROM parse_days;
ANALYZE parse_ids;
SELECT parse_groups() > 400 AS many;
CREATE STATISTICS parse_ids_day ON parse_day(id) FROM parse_ids;
ANALYZE parse_ids;
SELECT parse_groups();
DROP TABLE parse_days, parse_parts, parse_ids;
DROP FUNCTION parse_groups, parse_day;
-- that of the server's layout is not
SELECT state, message FROM error_of('CREATE TABLE parse_days (id bigint, ts timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED)');
