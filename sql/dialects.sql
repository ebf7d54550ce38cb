-- Reading the IDs of other generators.
SET timezone = 'UTC';
SET datestyle = 'ISO';

SELECT name, layout, epoch, last_ts, is_unsigned FROM snowflake_dialects();
SELECT name, time_bits, node_bits, worker_bits, sequence_bits, time_unit FROM snowflake_dialects();
SELECT name, description FROM snowflake_dialects();

-- What the originals say of themselves: the epoch in ms since 1970, the time
-- unit in ms, and of each field its lowest bit and its width.  (The time of
-- unsigned originals is one bit wider than what fits a bigint.)
CREATE TEMP TABLE original (
    name text, epoch_ms bigint, unit_ms int, is_unsigned boolean,
    time_at int, time_bits int, node_at int, node_bits int,
    worker_at int, worker_bits int, sequence_at int, sequence_bits int);
INSERT INTO original VALUES
    ('twitter',        1288834974657,    1, false, 22, 41, 17,  5, 12, 5,  0, 12),
    ('discord',        1420070400000,    1, true,  22, 42, 17,  5, 12, 5,  0, 12),
    ('instagram',      1314220021721,    1, true,  23, 41, 10, 13,  0, 0,  0, 10),
    ('mastodon',       0,                1, true,  16, 48,  0,  0,  0, 0,  0, 16),
    ('seata',          1588435200000,    1, false, 12, 41, 53, 10,  0, 0,  0, 12),
    ('newlife',        1577836800000,    1, false, 22, 41, 12, 10,  0, 0,  0, 12),
    ('shardingsphere', 1477958400000,    1, false, 22, 41, 12, 10,  0, 0,  0, 12),
    ('leaf',           1288834974657,    1, false, 22, 41, 12, 10,  0, 0,  0, 12),
    ('baidu',          1463673600000, 1000, false, 35, 28, 13, 22,  0, 0,  0, 13),
    ('sonyflake',      1735689600000,   10, false, 24, 39,  0, 16,  0, 0, 16,  8),
    ('yitter',         1582136402000,    1, false, 12, 51,  6,  6,  0, 0,  0,  6),
    ('pgedge',         1672531200000,    1, false, 22, 41, 12, 10,  0, 0,  0, 12),
    ('js53',           1577836800000,    1, false, 12, 41,  8,  4,  0, 0,  0,  8);
SELECT * FROM snowflake_dialects() d FULL JOIN original o USING (name)
WHERE (d.time_bits + d.is_unsigned::int, d.node_bits, d.worker_bits, d.sequence_bits, d.is_unsigned,
       extract(epoch FROM d.epoch) * 1000, extract(epoch FROM d.time_unit) * 1000)
      IS DISTINCT FROM
      (o.time_bits, o.node_bits, o.worker_bits, o.sequence_bits, o.is_unsigned, o.epoch_ms, o.unit_ms);

-- random IDs, read by shifts and masks in SQL and by name
WITH ids AS MATERIALIZED (
    SELECT o.*, (((random() * 2147483647)::bigint << 32) | (random() * 4294967295)::bigint)
                >> 63 + is_unsigned::int - time_bits - node_bits - worker_bits - sequence_bits AS id
    FROM original o, generate_series(1, 1000))
SELECT count(*) AS ids, count(DISTINCT name) AS dialects, count(DISTINCT id) > 12000 AS random,
       count(*) FILTER (WHERE extract(epoch FROM ts) * 1000
                              <> epoch_ms + ((id >> time_at) & ((1::bigint << time_bits) - 1))::numeric * unit_ms) AS wrong_ts,
       count(*) FILTER (WHERE node <> ((id >> node_at) & ((1 << node_bits) - 1))) AS wrong_node,
       count(*) FILTER (WHERE worker <> ((id >> worker_at) & ((1 << worker_bits) - 1))) AS wrong_worker,
       count(*) FILTER (WHERE sequence <> ((id >> sequence_at) & ((1 << sequence_bits) - 1))) AS wrong_sequence
FROM ids, snowflake_parse(id, name);
-- by name, and by what the view has for it
SELECT count(*) AS ids, count(*) FILTER (WHERE snowflake_parse(id, name) IS DISTINCT FROM snowflake_parse(id, layout, epoch)) AS different
FROM snowflake_dialects(), generate_series(0, 9007199254740991, 9007199254740) id;

-- the first and the last ID of each
SELECT d.name, first.ts = d.epoch AND (first.node, first.worker, first.sequence) = (0, 0, 0) AS first,
       last_id, last.ts = d.last_ts AS last, last.node, last.worker, last.sequence
FROM snowflake_dialects() d,
     LATERAL (SELECT 9223372036854775807 >> 63 - time_bits - node_bits - worker_bits - sequence_bits) l(last_id),
     snowflake_parse(0, d.name) first, snowflake_parse(last_id, d.name) last;

--
-- Published IDs
--

-- The Tweet of Twitter's API documentation (data dictionary), with
-- "created_at": "Wed Oct 10 20:19:24 +0000 2018".
SELECT * FROM snowflake_parse(1050118621198921728, 'twitter');

-- Discord's documentation (reference, snowflakes): 2016-04-30 11:18:25.796
-- UTC, internal worker 1, internal process 0, increment 7.
SELECT * FROM snowflake_parse(175928847299117063, 'discord');
-- the examples of two libraries for Discord: twilight-util with
-- 2015-10-19T01:58:38.546, discord-snowflake with 1441609061949 ms since 1970,
-- worker 0, process 3, increment 0
SELECT * FROM snowflake_parse(105484726235607040, 'discord');
SELECT *, extract(epoch FROM ts) * 1000 AS ms FROM snowflake_parse(90339695967350784, 'discord');

-- "Sharding & IDs at Instagram": 1387263000 ms after the epoch, user 31341 on
-- shard 31341 % 2000, the table's ID 5001 % 1024.
SELECT p.*, (extract(epoch FROM p.ts) - extract(epoch FROM d.epoch)) * 1000 AS ms
FROM snowflake_parse((1387263000::bigint << (64 - 41)) | (1341 << (64 - 41 - 13)) | (5001 % 1024), 'instagram') p,
     snowflake_dialects() d
WHERE d.name = 'instagram';
-- drawn by its PL/pgSQL function with shard 5 (dba.stackexchange.com, question
-- 193287, of December 2017)
SELECT * FROM snowflake_parse(1671372309237077023, 'instagram');

-- The status of Mastodon's documentation (entities, Status), with "created_at":
-- "2019-12-08T03:48:33.901Z".  The ID is that of the moment before it is saved.
SELECT * FROM snowflake_parse(103270115826048975, 'mastodon');

-- A transaction of Seata 2.2 (its issue 7204).  The log has 15:03:31.147 (+08) for
-- it.  The time in the ID is behind, since Seata reads the clock once, when a
-- server starts, and from there on counts.
SELECT * FROM snowflake_parse(2207391485099498761, 'seata');
-- Seata's former IDs had the time first.  Its issue 4898 shows this one with
-- "beginTime":1661951863312.
SELECT *, extract(epoch FROM ts) * 1000 AS ms
FROM snowflake_parse(308351234998353920, 'time:41 node:10 sequence:12', '2020-05-03 00:00+08');

-- NewLife, the worked example: 36257524056 ms after 2020, node 782 and sequence
-- 3418; with 5 bits each for node and worker, 24 and 14.
SELECT * FROM snowflake_parse(152075078181383514, 'newlife');
SELECT * FROM snowflake_parse(152075078181383514, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00');

-- ShardingSphere's own test (SnowflakeKeyGenerateAlgorithmTest) has a clock that
-- begins at the epoch, two IDs a millisecond, worker 0; the sequence begins with 0
-- and 1 in turns: 0, 4194305, 4194306, 8388608, 8388609, 12582913.
SELECT id, p.* FROM unnest('{0, 4194305, 4194306, 8388608, 8388609, 12582913}'::bigint[]) id,
                    snowflake_parse(id, 'shardingsphere') p;
-- the same from a JVM with the time zone of Shanghai
SELECT * FROM snowflake_parse(12582913, 'time:41 node:10 sequence:12', '2016-11-01 00:00+08');

-- Leaf, by hand: a day is 86400000 ms.  Leaf's own decoder adds 1288834974657 to
-- ID >> 22, takes 10 bits above 12 as the worker, and 12 as the sequence.
SELECT * FROM snowflake_parse((86400000::bigint << 22) | (1023 << 12) | 99, 'leaf');

-- The UID in the README of UidGenerator is "2017-01-19 12:15:46", worker 4,
-- sequence 9, with the widths and the epoch of that configuration.
SELECT ts AT TIME ZONE 'Asia/Shanghai' AS ts, node, sequence
FROM snowflake_parse(180363646902239241, 'time:29@1s node:21 sequence:13', '2016-09-20 00:00+08');
-- The defaults, by hand: 180363646902239241 >> 35 is 5249273, which is 60 days
-- 18:07:53 after 2016-05-20 +08.
SELECT ts AT TIME ZONE 'Asia/Shanghai' AS ts, node, sequence FROM snowflake_parse(180363646902239241, 'baidu');

-- Sonyflake, by hand: an hour is 360000 units of 10 ms; machine 258 is the end
-- of an address that ends in .1.2.
SELECT * FROM snowflake_parse((360000::bigint << 24) | (255 << 16) | 258, 'sonyflake');
-- version 1
SELECT * FROM snowflake_parse((360000::bigint << 24) | (255 << 16) | 258, 'time:39@10ms sequence:8 node:16', '2014-09-01 00:00+00');

-- The README of Yitter's IdGenerator shows what its IDs are after 1, 3 and 5 years.
SELECT id, p.*, ts - '2020-02-19 18:20:02+00' AS after
FROM unnest('{129053495681099, 387750301904971, 646093214093387}'::bigint[]) id, snowflake_parse(id, 'yitter') p;
-- and that 2^53 is reached after 70
SELECT ts, ts - '2020-02-19 18:20:02+00' AS after FROM snowflake_parse(9007199254740992, 'yitter');
-- That of the TypeScript variant, committed 2021-10-25 13:50:36 +08, has these of
-- worker 1, whose epoch is 2020; 5 is the first number of the sequence.
SELECT id, p.* FROM unnest('{234712552579141, 234712552587333, 234712552587334}'::bigint[]) id,
                    snowflake_parse(id, 'time:51 node:6 sequence:6', '2020-01-01 00:00+00') p;

-- The ID in pgEdge's documentation (functions): 1704996539.845 s after 1970, node
-- 1, count 0.  It was drawn by a release before 1.2, with the count above the node.
SELECT ts, extract(epoch FROM ts) AS s FROM snowflake_parse(136169504773242881, 'pgedge');
SELECT * FROM snowflake_parse(136169504773242881, 'time:41 sequence:12 node:10', '2023-01-01 00:00+00');
-- with the node above the count, by hand: a second, node 1, count 3
SELECT * FROM snowflake_parse((1000::bigint << 22) | (1 << 12) | 3, 'pgedge');

-- js53, by hand, and all of it is below 2^53
SELECT * FROM snowflake_parse((1000::bigint << 12) | (15 << 8) | 255, 'js53');

--
-- It is no matter what is set here, which row came before, and who asks
--
SELECT current_setting('snowflake.epoch') AS epoch, (snowflake_parse(0)).ts AS own, (snowflake_parse(0, 'discord')).ts AS discord;
SELECT n, dialect, (snowflake_parse(152075078181383514, dialect)).*
FROM (VALUES (1, 'twitter'), (2, 'discord'), (3, 'leaf'), (4, 'leaf'), (5, NULL), (6, 'twitter')) v(n, dialect) ORDER BY n;
SELECT n, (snowflake_parse(4097, layout, '2020-01-01 00:00+00')).*
FROM (VALUES (1, 'time:41 sequence:12'), (2, 'time:41 sequence:13'), (3, 'time:41 sequence:1'), (4, 'time:41 sequence:12')) v(n, layout) ORDER BY n;

CREATE TABLE tweets (id bigint PRIMARY KEY, at timestamptz GENERATED ALWAYS AS ((snowflake_parse(id, 'twitter')).ts) STORED);
CREATE INDEX tweets_ts ON tweets (((snowflake_parse(id, 'twitter')).ts));
CREATE INDEX tweets_layout_ts ON tweets (((snowflake_parse(id, 'time:41 node:10 sequence:12', '2010-11-04 01:42:54.657+00')).ts));
INSERT INTO tweets SELECT 1050118621198921728 + n * 4194304000 FROM generate_series(0, 999) n;
ANALYZE tweets;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM tweets WHERE (snowflake_parse(id, 'twitter')).ts < '2018-10-10 20:19:26+00';
SELECT id, at FROM tweets WHERE (snowflake_parse(id, 'twitter')).ts < '2018-10-10 20:19:26+00' ORDER BY id;
RESET enable_seqscan;
-- but not with what depends on settings
SELECT state, message FROM error_of('CREATE INDEX ON tweets (((snowflake_parse(id)).ts))');
DROP TABLE tweets;

CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT count(*) FROM snowflake_dialects();
SELECT * FROM snowflake_parse(0, 'mastodon');
RESET ROLE;
DROP ROLE regress_snowflake_user;

--
-- What is wrong
--
SELECT snowflake_parse(NULL, 'twitter') IS NULL AS id, snowflake_parse(0, NULL) IS NULL AS dialect,
       snowflake_parse(NULL, 'time:41', now()) IS NULL AS id, snowflake_parse(0, NULL, now()) IS NULL AS layout,
       snowflake_parse(0, 'time:41', NULL) IS NULL AS epoch;

SELECT call, e.* FROM
    (VALUES ('0, ''twiter'''),
            ('0, ''Twitter'''),
            ('0, '' twitter'''),
            ('0, '''''),
            ('0, ''time:41 sequence:12'''),
            ('0, ''twiter'', ''2020-01-01+00'''),
            ('0, ''time:64'', ''2020-01-01+00'''),
            ('0, '''', ''2020-01-01+00'''),
            ('0, ''time:41'', ''infinity'''),
            ('0, ''time:41'', ''-infinity'''),
            ('-1, ''twitter'''),
            ('-1, ''discord'''),
            ('-9223372036854775808, ''instagram'''),
            ('-1, ''mastodon'''),
            ('9007199254740992, ''js53'''),
            ('-1, ''time:41'', ''2020-01-01+00'''),
            ('2199023255552, ''time:41'', ''2020-01-01+00'''),
            ('2147483648, ''time:1 sequence:32'', ''2020-01-01+00'''),
            ('9223372036854775807, ''time:63'', ''2020-01-01+00'''),
            ('1, ''time:1@2147483647s'', ''294276-12-31 23:59:59+00''')) v(call),
    LATERAL error_of('SELECT snowflake_parse(' || call || ')') e \gx
-- just before each of the last
SELECT snowflake_parse(9007199254740991, 'js53') AS js53, snowflake_parse(2147483647, 'time:1 sequence:32', '2020-01-01+00') AS integer,
       snowflake_parse(0, 'time:1@2147483647s', '294276-12-31 23:59:59+00') AS timestamp;
-- an error of one row leaves nothing behind for the next
SELECT d, e.message, e.state FROM (VALUES ('twitter'), ('nobody'), ('twitter')) v(d), error_of('SELECT snowflake_parse(0, ' || quote_literal(d) || ')') e;
