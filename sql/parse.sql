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
