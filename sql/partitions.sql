-- Partitions by time.
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
\set SHOW_CONTEXT never

-- those of a table as the catalog has them
CREATE VIEW bounds AS
SELECT i.inhparent::regclass AS parent, c.relname,
       pg_get_expr(c.relpartbound, c.oid) AS bound
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE c.relkind <> 'i';

-- one call, and the table takes IDs
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)
PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('events', '2026-10-15+00', '2027-02-01+00', '1 month');
SELECT relname, bound FROM bounds WHERE parent = 'events'::regclass ORDER BY 1;

-- the bounds are those of id_range_for, and rows go where their time is
SELECT p.partition, int8range(from_id, to_id) = id_range_for(starts, ends) AS same
FROM snowflake_partitions('events') p;
INSERT INTO events (id) SELECT snowflake_compose(t, 24, 0, 0)
FROM generate_series(timestamptz '2026-10-01+00', '2027-01-31 23:59:59+00', '1 hour') t
UNION ALL SELECT snowflake_compose('2026-10-31 23:59:59.999+00', 31, 31, 4095);
SELECT tableoid::regclass, count(*), min(snowflake_timestamp(id)), max(snowflake_timestamp(id))
FROM events GROUP BY 1 ORDER BY 1;
INSERT INTO events (id) VALUES (snowflake_compose('2027-02-01+00', 0, 0, 0));

-- again, and further: only what is missing is created
SELECT * FROM snowflake_create_partitions('events', '2026-10-15+00', '2027-02-01+00', '1 month');
SELECT * FROM snowflake_create_partitions('events', '2027-01-31 23:59+00', '2027-02-01 00:00:00.000001+00', '1 month');
-- a period without time needs none; nor does NULL
SELECT * FROM snowflake_create_partitions('events', '2028-10-15+00', '2028-10-15+00', '1 month');
SELECT * FROM snowflake_create_partitions('events', '2028-10-15+00', NULL, '1 month');
-- in the target list
SELECT (snowflake_create_partitions('events', '2027-02-01+00', '2027-03-01+00', '1 month')).partition;

-- a partition that was there with these bounds keeps its name
ALTER TABLE events_2026_12 RENAME TO december;
SELECT * FROM snowflake_create_partitions('events', '2026-12-15+00', '2026-12-16+00', '1 month');
DROP TABLE events;

--
-- Edges
--

-- the partitions of a period
CREATE FUNCTION edges(from_ts timestamptz, to_ts timestamptz, step interval, zone text DEFAULT 'UTC',
                      OUT name text, OUT starts timestamptz, OUT ends timestamptz, OUT hours numeric)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
    RETURN QUERY
    SELECT c.partition::text, c.starts, c.ends, round(extract(epoch FROM c.ends - c.starts) / 3600, 3)
    FROM snowflake_create_partitions('t', from_ts, to_ts, step, zone) c;
    -- none has a gap before it, and all of the period is in them
    ASSERT (SELECT count(*) = 1 FROM (SELECT range_agg(int8range(from_id, to_id))
                                      FROM snowflake_partitions('t')) r (r), unnest(r)), 'a gap';
    ASSERT (SELECT min(p.starts) <= from_ts AND max(p.ends) >= to_ts FROM snowflake_partitions('t') p), 'too few';
    DROP TABLE t;
END $$;

SELECT step, e.* FROM unnest('{1 year, 12 months, 3 months, 1 month, 2 weeks, 1 day, 24 hours, 6 hours,
    1 hour, 90 minutes, 15 minutes, 30 seconds, 1 second, 250 milliseconds, 0.001 seconds}'::interval[]) step,
    edges('2027-01-31 13:47:58.123456+00', '2027-01-31 13:47:58.123456+00'::timestamptz + 1.1 * step, step) e;
-- in a zone that is off by half an hour
SELECT step, e.* FROM unnest('{1 month, 1 day, 1 hour}'::interval[]) step,
    edges('2027-01-31 13:47:58.123456+00', '2027-01-31 13:47:58.123456+00'::timestamptz + 1.1 * step, step, 'Asia/Kolkata') e;
-- zones by other names
SELECT zone, e.* FROM unnest('{CET,Europe/Berlin,<+02>-02,MSK}'::text[]) zone,
    edges('2025-06-15 13:00+00', '2025-06-15 14:00+00', '1 day', zone) e;

-- the anchor is cut down, and a step of several units goes on from there;
-- month ends and leap years
SELECT * FROM edges('2024-01-31+00', '2024-04-01+00', '1 month');
SELECT * FROM edges('2023-02-28+00', '2023-03-01 12:00+00', '1 day');
SELECT * FROM edges('2024-02-28+00', '2024-03-01 12:00+00', '1 day');
SELECT * FROM edges('2023-03-03+00', '2026-03-03+00', '1 year');
SELECT * FROM edges('2023-01-03+00', '2026-01-01+00', '2 years');

-- the session's time zone is the default
SET timezone = 'Europe/Berlin';
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('t', '2026-10-24', '2026-10-27', '1 day');
SELECT * FROM snowflake_partitions('t');
DROP TABLE t;
SET timezone = 'UTC';

-- days of 23 and 25 hours
SELECT * FROM edges('2026-03-28 12:00+01', '2026-03-30 12:00+02', '1 day', 'Europe/Berlin');
SELECT * FROM edges('2026-10-24 12:00+02', '2026-10-26 12:00+01', '1 day', 'Europe/Berlin');
-- hours are hours: the one that comes twice is two
SELECT * FROM edges('2026-10-25 01:30+02', '2026-10-25 03:30+01', '1 hour', 'Europe/Berlin');
SELECT * FROM edges('2026-03-29 01:30+01', '2026-03-29 03:30+02', '1 hour', 'Europe/Berlin');
-- a change by half an hour
SELECT * FROM edges('2026-04-04 14:30+00', '2026-04-04 16:00+00', '1 hour', 'Australia/Lord_Howe');
-- midnight does not exist: the day begins at 1:00
SELECT * FROM edges('2021-03-27 12:00+02', '2021-03-29 12:00+03', '1 day', 'Asia/Beirut');
SELECT * FROM edges('2021-03-28 01:00+03', '2021-03-28 02:00+03', '1 day', 'Asia/Beirut');
-- midnight comes twice: the day before has both
SELECT * FROM edges('2020-10-31 12:00-04', '2020-11-01 12:00-05', '1 day', 'America/Havana');
SELECT * FROM edges('2020-11-01 00:30-04', '2020-11-01 00:31-04', '1 day', 'America/Havana');
SELECT * FROM edges('2020-11-01 00:30-05', '2020-11-01 00:31-05', '1 day', 'America/Havana');
SELECT * FROM edges('2020-11-01 00:30-04', '2020-11-01 00:31-04', '1 month', 'America/Havana');
-- steps of days from an anchor before the change
SELECT * FROM edges('2026-10-20 12:00+02', '2026-11-03 12:00+01', '1 week', 'Europe/Berlin');

--
-- A step of several units goes on from what is there
--
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('t', '2026-11-02+00', '2026-11-16+00', '1 week');
SELECT * FROM snowflake_create_partitions('t', '2026-11-11+00', '2026-11-20+00', '1 week');
-- where the partition of now is missing, the step of its day's start counts
DROP TABLE t_2026_11_09;
SELECT * FROM snowflake_create_partitions('t', '2026-11-09 17:00+00', '2026-11-10+00', '1 week');
DROP TABLE t;
-- one made by hand, with edges of its own, in a zone with a change in it
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT lower(r) AS lo, upper(r) AS hi
FROM id_range_for('2026-10-20 12:00+02', '2026-10-27 12:00+01') r \gset
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (:lo) TO (:hi);
SELECT * FROM snowflake_create_partitions('t', '2026-10-27+00', '2026-11-01+00', '7 days', 'Europe/Berlin');
DROP TABLE t_2026_10_27;
SELECT * FROM snowflake_create_partitions('t', '2026-10-27 15:00+00', '2026-11-01+00', '7 days', 'Europe/Berlin');
-- from before it, it would be another step
SELECT * FROM error_of($$SELECT * FROM snowflake_create_partitions('t', '2026-10-18+00', '2026-11-01+00', '7 days', 'Europe/Berlin')$$) \gx
DROP TABLE t;

-- hours go on too where a zone changes by half of one
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('t', '2026-04-04 14:30+00', '2026-04-04 16:00+00', '1 hour', 'Australia/Lord_Howe');
SELECT * FROM snowflake_create_partitions('t', '2026-04-04 15:45+00', '2026-04-04 17:00+00', '1 hour', 'Australia/Lord_Howe');
DROP TABLE t;

--
-- Time zones
--

-- a bound without a zone of its own is read in that of the partitions, in all
-- forms; an untyped literal is a text
CREATE FUNCTION made(from_ts text, to_ts text, zone text DEFAULT 'Europe/Berlin') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    made text;
BEGIN
    CREATE TABLE made (id bigint) PARTITION BY RANGE (id);
    EXECUTE format($call$SELECT string_agg(replace(partition::text, 'made_2026_', ''), ' ')
        FROM snowflake_create_partitions('made', %s, %s, '1 month', %L)$call$, from_ts, to_ts, zone) INTO made;
    DROP TABLE made;
    RETURN made;
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate || ' ' || sqlerrm;
END $$;
SET timezone = 'UTC';
SELECT f, t, made(f, t) FROM (VALUES
    ($$'2026-09-01'$$, $$'2026-12-01'$$),
    ($$'2026-09-01'::text$$, $$'2026-12-01 00:00'::text$$),
    ($$date '2026-09-01'$$, $$date '2026-12-01'$$),
    ($$timestamp '2026-09-01'$$, $$timestamp '2026-12-01'$$),
    ($$'2026-09-01'$$, $$timestamptz '2026-12-01'$$),
    ($$timestamptz '2026-09-01'$$, $$'2026-12-01'$$),
    ($$timestamptz '2026-09-01'$$, $$timestamptz '2026-12-01'$$),
    ($$date '2026-09-01'$$, $$'2026-12-01'$$),
    ($$'2026-09-01'$$, $$timestamp '2026-12-01'$$),
    -- with a time of day, beside a date too
    ($$date '2026-09-01'$$, $$'2026-12-01 12:00'$$), ($$'2026-08-31 12:00'$$, $$date '2026-12-01'$$),
    ($$timestamp '2026-09-01'$$, $$'2026-12-01 00:00+00'$$), ($$'2026-09-01 00:00+03'$$, $$timestamp '2026-12-01'$$),
    -- with a zone of their own
    ($$'2026-09-01+00'$$, $$'2026-12-01+00'$$),
    ($$'2026-09-01 Asia/Tokyo'$$, $$'2026-12-01 00:00+01'$$),
    ($$'2026-09-01T00:00:00Z'$$, $$'2026-11-30T23:00:00Z'$$),
    -- when clocks change: 2:30 comes twice, and not at all
    ($$'2026-10-25 02:30'$$, $$'2026-10-25 02:30:00.001'$$),
    ($$'2026-03-29 02:30'$$, $$'2026-03-29 03:30:00.001'$$),
    -- no periods
    ($$'infinity'$$, $$'infinity'$$), ($$date '-infinity'$$, $$date '2026-12-01'$$),
    ($$timestamp '2026-12-01'$$, $$timestamp 'infinity'$$), ($$'2026-12-01'$$, $$'2026-11-30'$$),
    ($$NULL$$, $$'2026-12-01'$$), ($$NULL::date$$, $$NULL$$),
    ($$'2026-09-31'$$, $$'2026-12-01'$$), ($$'nonsense'$$, $$'2026-12-01'$$), ($$''$$, $$'2026-12-01'$$)) AS v (f, t);
-- whatever the session's zone is, and whatever form the other's name has
SELECT at, zone, made($$'2026-09-01'$$, $$'2026-12-01'$$, zone)
FROM unnest('{America/New_York,UTC,Asia/Kolkata}'::text[]) at,
    LATERAL (SELECT set_config('timezone', at, false) OFFSET 0) s,
    unnest('{Europe/Berlin,europe/berlin,CET,MSK,<+02>-02}'::text[]) zone;
SELECT made($$'2026-09-01'$$, $$'2026-12-01'$$, 'Europe/Atlantis');
SELECT current_setting('timezone') AS stays;
SET timezone = 'UTC';
-- today is that of the zone, now is now
SELECT zone, snowflake_catalog.instant('today', zone) = date_trunc('day', now(), zone) AS today,
    snowflake_catalog.instant('yesterday 12:00', zone) = (date_trunc('day', now() AT TIME ZONE zone) - interval '12 hours') AT TIME ZONE zone AS noon,
    snowflake_catalog.instant('now', zone) = now() AS now
FROM unnest('{Pacific/Kiritimati,Pacific/Pago_Pago,Europe/Berlin,UTC}'::text[]) zone;
-- the order of day and month is the session's, as in any text
SET datestyle = 'German';
SELECT made($$'01.09.2026'$$, $$'01.12.2026'$$);
SET datestyle = 'ISO, MDY';
DROP FUNCTION made;

-- continued in another zone, they would begin at other hours, under wrong
-- names: that is an error, which knows the zone
CREATE TABLE weeks (id bigint) PARTITION BY RANGE (id);
CREATE TABLE days (id bigint) PARTITION BY RANGE (id);
CREATE TABLE months (id bigint) PARTITION BY RANGE (id);
SELECT partition, starts FROM snowflake_create_partitions('weeks', '2026-10-05', '2026-10-26', '1 week', 'Europe/Berlin');
SELECT count(*) FROM snowflake_create_partitions('days', '2026-10-20', '2026-11-01', '1 day', 'Europe/Berlin');
SELECT count(*) FROM snowflake_create_partitions('months', '2026-09-01', '2026-12-01', '1 month', 'Europe/Berlin');
ALTER DATABASE :"DBNAME" SET timezone = 'Europe/Berlin';
SELECT call, state, message, detail ~ '^Partition "\w+" has an edge at [-0-9: ]+\+00, which is midnight in time zone "Europe/Berlin" and \d+ others\.$' AS detailed, hint
FROM unnest(ARRAY[
    $$'weeks', '2026-10-21', '2026-11-12', '1 week'$$,          -- goes on from one
    $$'weeks', '2026-10-26 00:00', '2026-11-12', '1 week'$$,    -- after the last: a gap of an hour
    $$'weeks', '2026-09-28', '2026-10-04 22:00', '7 days'$$,    -- before the first
    $$'days', '2026-10-30', '2026-11-04', '1 day'$$,
    $$'days', '2026-11-01', '2026-11-04', '1 day'$$,
    $$'days', '2026-10-18', '2026-10-19', '1 day'$$,            -- beside the first
    $$'months', '2026-11-15', '2027-02-01', '1 month'$$,
    $$'months', '2026-12-01', '2027-02-01', '1 month', 'Asia/Tokyo'$$,
    $$'months', '2026-12-01', '2027-02-01', '1 day'$$]) call,
    error_of(format('SELECT snowflake_create_partitions(%s)', call)) e \gx
-- with it, or away from them, all is well
SELECT partition, starts FROM snowflake_create_partitions('weeks', '2026-10-21', '2026-11-12', '1 week', 'Europe/Berlin');
SELECT partition, starts FROM snowflake_create_partitions('days', '2026-12-01', '2026-12-02', '1 day');
SELECT partition, starts FROM snowflake_create_partitions('days', '2026-11-01', '2026-11-02', '1 day', 'CET');
-- hours go on from what is there in any zone
SELECT partition FROM snowflake_create_partitions('days', '2026-11-01 23:00', '2026-11-02 00:00', '1 hour', 'UTC');
-- without a zone that is used here, one of several
ALTER DATABASE :"DBNAME" SET timezone = 'UTC';
SELECT hint ~ 'time_zone => ''\w+/\w+''\.$' AS zone FROM error_of($$SELECT snowflake_create_partitions('months', '2026-11-15', '2027-02-01', '1 month')$$);
ALTER DATABASE :"DBNAME" RESET timezone;
DROP TABLE weeks, days, months;
-- made in UTC, continued elsewhere
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01', '2026-11-05', '1 day', 'UTC');
SELECT hint FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-03', '2026-11-09', '1 day', 'Europe/Berlin')$$);
DROP TABLE t;
-- an edge that is midnight in no zone is somebody's choice
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT lower(id_range_for('2026-11-03 13:37:12+00', 'infinity')) AS old \gset
CREATE TABLE t_old PARTITION OF t FOR VALUES FROM (MINVALUE) TO (:old);
SELECT partition FROM snowflake_create_partitions('t', '2026-11-04', '2026-11-06', '1 day', 'Europe/Berlin');
DROP TABLE t;
-- so is where the IDs begin, and end
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT partition FROM snowflake_create_partitions('t', '2020-01-01+00', '2020-01-03+00', '1 day', 'Pacific/Chatham');
SELECT partition, created FROM snowflake_create_partitions('t', '2020-01-01+00', '2020-01-04+00', '1 day', 'Pacific/Chatham');
SELECT partition FROM snowflake_create_partitions('t', '2089-09-06 15:47+00', '2089-09-06 15:47:35.552+00', '1 day', 'Pacific/Chatham');
SELECT partition, created FROM snowflake_create_partitions('t', '2089-09-05+00', '2089-09-06 15:47:35.552+00', '1 day', 'Pacific/Chatham');
DROP TABLE t;
-- an error without a hint has none
\set VERBOSITY default
CREATE TABLE t (id int) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('t', '2026-11-01', '2026-11-01', '1 day');
DROP TABLE t;

-- what others committed since a transaction began is not seen in it
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day')$$) \gx
SELECT state, message FROM error_of($$SELECT snowflake_drop_partitions('t', '2026-11-01+00')$$);
SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-01+00', dry_run => true);
SELECT count(*) FROM snowflake_partitions('t');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day')$$);
ROLLBACK;
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day');
ROLLBACK;
DROP TABLE t;

--
-- The ends of the ID space
--
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('t', '2020-01-01+00', '2020-01-01 01:00+00', '1 day', 'America/New_York');
SELECT * FROM snowflake_create_partitions('t', '2089-08-15+00', '2089-09-06 15:47:35.552+00', '1 month');
SELECT * FROM snowflake_create_partitions('t', '2089-08-15+00', '2089-09-06 15:47:35.552+00', '1 month');
SELECT relname, bound FROM bounds WHERE parent = 't'::regclass ORDER BY 1;
SELECT * FROM snowflake_partitions('t');
INSERT INTO t VALUES (0), (9223372036854775807);
SELECT tableoid::regclass, id FROM t;
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2089-08-15+00', '2089-10-01 00:00:01+00', '1 month')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2019-11-15+00', '2020-02-01+00', '1 month')$$) \gx
-- also where the first partition of all is there
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2019-11-15+00', '2020-01-02+00', '1 day', 'America/New_York')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '4713-01-02 BC', '4712-01-01 BC', '1 ms')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '4713-01-02 BC', '294276-12-31', '1 day')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '294276-12-01', '294276-12-31', '1 month')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-12-01', '294276-12-31', '2147483647 days')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-12-01', '294276-12-31', '178000000 years')$$);
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-12-01', '294276-12-31', '2562047788 hours')$$);
DROP TABLE t;

--
-- Bad input: an ERROR, and nothing changed
--
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE TABLE plain (id bigint PRIMARY KEY);
CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
CREATE TABLE by_hash (id bigint) PARTITION BY HASH (id);
CREATE TABLE by_two (id bigint, n int) PARTITION BY RANGE (id, n);
CREATE TABLE by_expression (id bigint) PARTITION BY RANGE ((id / 2));
CREATE TABLE by_int (id int) PARTITION BY RANGE (id);
CREATE TABLE by_time (at timestamptz) PARTITION BY RANGE (at);
CREATE VIEW a_view AS SELECT 1 AS id;
CREATE SEQUENCE a_sequence;
CREATE OPERATOR CLASS downwards FOR TYPE bigint USING btree AS
    OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 btint8cmp(bigint, bigint);
CREATE TABLE by_class (id bigint) PARTITION BY RANGE (id downwards);
SELECT parent, e.* FROM unnest('{plain,plain_pkey,a_view,a_sequence,pg_class,by_list,by_hash,by_two,by_expression,by_int,by_time,by_class}'::text[]) parent,
    error_of(format($$SELECT snowflake_create_partitions(%L, '2026-11-01+00', '2026-12-01+00', '1 day')$$, parent)) e;
SELECT parent, count(*) AS same FROM unnest('{plain,plain_pkey,a_view,a_sequence,pg_class,by_list,by_hash,by_two,by_expression,by_int,by_time,by_class}'::text[]) parent,
    error_of(format($$SELECT snowflake_create_partitions(%L, '2026-11-01+00', '2026-12-01+00', '1 day')$$, parent)) e,
    LATERAL (SELECT * FROM error_of(format($$SELECT snowflake_partitions(%L)$$, parent))
             UNION ALL
             SELECT * FROM error_of(format($$SELECT snowflake_drop_partitions(%L, '2026-11-01+00')$$, parent))) f
WHERE (e.state, e.message, e.detail) IS NOT DISTINCT FROM (f.state, f.message, f.detail)
GROUP BY 1 HAVING count(*) <> 2;
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('no_such_table', '2026-11-01+00', '2026-12-01+00', '1 day')$$);
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions(1, '2026-11-01+00', '2026-12-01+00', '1 day')$$);
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions(0, '2026-11-01+00', '2026-12-01+00', '1 day')$$);
SELECT state, message FROM error_of($$SELECT snowflake_partitions(1)$$);
SELECT state, message FROM error_of($$SELECT snowflake_drop_partitions(1, '2026-12-01+00')$$);

SELECT step, e.* FROM unnest('{0 days, -1 day, -1 month, -1 hour, 1 month 1 day, 1 day 12 hours, 1 month -1 hour,
    0.5 ms, 1.5 ms, 0.000001 s}'::interval[]) step,
    error_of(format($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-12-01+00', %L)$$, step)) e;
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-12-01+00', '2026-11-01+00', '1 day')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-12-01+00', 'infinity', '1 day')$$) \gx
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('t', '-infinity', '2026-11-01+00', '1 day')$$);
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-01+00', '1 day', 'Europe/Atlantis')$$) \gx
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-01+00', '1 hour', 'Europe/Atlantis')$$);
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-01 00:00:10.001+00', '1 ms')$$) \gx
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2089-01-01', '1 ms')$$);
SELECT count(*) FROM bounds WHERE parent = 't'::regclass;

-- the step after the last free one is taken: none is created
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-10+00', '2026-11-12+00', '1 day');
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-10-01+00', '2026-12-01+00', '1 month')$$) \gx
SELECT count(*) FROM bounds WHERE parent = 't'::regclass;
-- one that ends where another begins is no overlap
SELECT * FROM snowflake_create_partitions('t', '2026-11-09+00', '2026-11-10+00', '1 day');
SELECT * FROM snowflake_create_partitions('t', '2026-11-12+00', '2026-11-13+00', '1 day');
-- nor is one without an end, unless it is in the way
CREATE TABLE t_older PARTITION OF t FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE t_newer PARTITION OF t FOR VALUES FROM (9000000000000000000) TO (MAXVALUE);
SELECT * FROM snowflake_create_partitions('t', '2026-11-13+00', '2026-11-14+00', '1 day');
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2089-01-01+00', '2089-01-02+00', '1 day')$$) \gx
-- a bound inside of a time unit
CREATE TABLE t_odd PARTITION OF t FOR VALUES FROM (926625772339200001) TO (926625772339200005);
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2027-01-01+00', '2027-01-02+00', '1 day')$$) \gx
SELECT * FROM snowflake_partitions('t');
DROP TABLE t;

-- a name is taken
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE VIEW t_2026_11_03 AS SELECT 1;
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-05+00', '1 day')$$) \gx
SELECT count(*) FROM bounds WHERE parent = 't'::regclass;
DROP VIEW t_2026_11_03;
-- the default partition has rows of the period: the server's own error
CREATE TABLE t_default PARTITION OF t DEFAULT;
INSERT INTO t SELECT snowflake_compose('2026-11-03+00', 0, 0, 0);
SELECT * FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-05+00', '1 day')$$) \gx
SELECT count(*) FROM bounds WHERE parent = 't'::regclass;
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-03+00', '1 day');
SELECT * FROM snowflake_partitions('t', exact => true);
DROP TABLE t;

-- read-only transactions
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
BEGIN READ ONLY;
SELECT snowflake_create_partitions('t', '2026-11-01+00', '2026-11-05+00', '1 day');
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM snowflake_drop_partitions('t', '2026-11-01+00', dry_run => true);
SELECT * FROM snowflake_partitions('t', exact => true);
SELECT snowflake_drop_partitions('t', '2026-11-01+00');
ROLLBACK;
-- locks on the table: creating lets others read and write; where nothing is
-- dropped, none is kept that two who drop could wait for
CREATE VIEW locks AS SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND pid = pg_backend_pid() ORDER BY 1;
BEGIN;
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-03+00', '1 day');
SELECT * FROM locks;
COMMIT;
BEGIN;
SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-03+00', dry_run => true);
SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-01+00');
SELECT * FROM locks;
SELECT count(*) FROM snowflake_partitions('t');
SELECT * FROM locks;
SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-03+00');
SELECT * FROM locks;
COMMIT;
DROP VIEW locks;
-- a partition that a cursor reads is not dropped
BEGIN;
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-03+00', '1 day');
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH c;
SELECT state, message FROM error_of($$SELECT snowflake_drop_partitions('t', '2026-11-03+00')$$);
ROLLBACK;
-- undone with the transaction
BEGIN;
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-05+00', '1 day');
ROLLBACK;
SELECT count(*) FROM bounds WHERE parent = 't'::regclass;
DROP TABLE t, plain, by_list, by_hash, by_two, by_expression, by_int, by_time, by_class;
DROP VIEW a_view;
DROP SEQUENCE a_sequence;
DROP OPERATOR FAMILY downwards USING btree;

--
-- What the partitions are like
--

-- all that PARTITION OF would give them, in the same form
CREATE TABLE referenced (n int PRIMARY KEY);
CREATE FUNCTION on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE DOMAIN id_type AS bigint;
CREATE SEQUENCE counter;
CREATE TABLE full_table (
    dropped int,
    id id_type NOT NULL DEFAULT snowflake_nextval(),
    n int REFERENCES referenced,
    "a Text" text COLLATE "C" NOT NULL DEFAULT 'x' CHECK ("a Text" <> ''),
    twice int GENERATED ALWAYS AS (n * 2) STORED,
    c int DEFAULT nextval('counter'),
    big text COMPRESSION pglz,
    PRIMARY KEY (id), UNIQUE (id, n)
) PARTITION BY RANGE (id);
ALTER TABLE full_table DROP COLUMN dropped;
ALTER TABLE full_table ALTER big SET STORAGE EXTERNAL;
CREATE INDEX ON full_table (n) WHERE n > 0;
CREATE TRIGGER on_row BEFORE INSERT ON full_table FOR EACH ROW EXECUTE FUNCTION on_row();
SELECT partition AS ours FROM snowflake_create_partitions('full_table', '2026-11-01+00', '2026-12-01+00', '1 month') \gset
SELECT to_id FROM snowflake_partitions('full_table') \gset
CREATE TABLE by_hand PARTITION OF full_table FOR VALUES FROM (:to_id) TO (MAXVALUE);
CREATE FUNCTION looks(t regclass) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', attname, atttypid, attcollation, attnotnull, attstorage, attcompression, attgenerated,
                     attidentity, attislocal, attinhcount, pg_get_expr(adbin, adrelid))
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = t AND attnum > 0
    UNION ALL
    SELECT concat_ws(' ', contype, pg_get_constraintdef(oid), conislocal, coninhcount, convalidated)
    FROM pg_constraint WHERE conrelid = t
    UNION ALL
    SELECT regexp_replace(pg_get_indexdef(indexrelid), ' INDEX \S+ ON \S+', '') FROM pg_index WHERE indrelid = t
    UNION ALL
    SELECT regexp_replace(pg_get_triggerdef(oid), ' ON \S+', '') FROM pg_trigger WHERE tgrelid = t AND NOT tgisinternal
$$;
SELECT count(*) > 12 AS enough FROM looks(:'ours');
(SELECT looks(:'ours') EXCEPT ALL SELECT looks('by_hand'))
UNION ALL
(SELECT looks('by_hand') EXCEPT ALL SELECT looks(:'ours'));
DROP TABLE full_table, referenced;
DROP FUNCTION on_row;
DROP SEQUENCE counter;

-- an identity column beside the ID: inserting through the parent numbers the rows
CREATE TABLE t (id bigint DEFAULT snowflake_nextval(), n int GENERATED ALWAYS AS IDENTITY) PARTITION BY RANGE (id);
SELECT count(*) FROM snowflake_create_partitions('t', now(), now() + interval '1 month', '1 month');
INSERT INTO t DEFAULT VALUES;
INSERT INTO t DEFAULT VALUES;
SELECT n FROM t ORDER BY id;
DROP TABLE t;

-- referenced by others
CREATE TABLE t (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE referencing (id bigint REFERENCES t);
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-03+00', '1 day');
INSERT INTO t SELECT snowflake_compose('2026-11-02+00', 0, 0, 0);
INSERT INTO referencing SELECT id FROM t;
SELECT state FROM error_of($$DELETE FROM t$$);
-- the server does not drop it, and then nothing is dropped
SELECT * FROM error_of($$SELECT snowflake_drop_partitions('t', '2026-11-03+00')$$) \gx
SELECT partition FROM snowflake_partitions('t');
DROP TABLE referencing;
CREATE VIEW on_second AS SELECT * FROM t_2026_11_02;
SELECT * FROM error_of($$SELECT snowflake_drop_partitions('t', '2026-11-03+00')$$) \gx
SELECT partition FROM snowflake_partitions('t');
DROP TABLE t CASCADE;

-- names: quoted, long, in another schema
CREATE SCHEMA "my Schema";
CREATE TABLE "my Schema"."My ""odd"" täble" (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('"my Schema"."My ""odd"" täble"', '2026-11-01+00', '2026-11-02+00', '1 day');
SELECT partition, command FROM snowflake_drop_partitions('"my Schema"."My ""odd"" täble"', '2026-11-02+00', dry_run => true, concurrently => true);
SELECT partition, command, done FROM snowflake_drop_partitions('"my Schema"."My ""odd"" täble"', '2026-11-02+00');
SELECT count(*) FROM snowflake_partitions('"my Schema"."My ""odd"" täble"');
CREATE TABLE a23456789_123456789_123456789_123456789_123456789_123456789_123 (id bigint) PARTITION BY RANGE (id);
CREATE TABLE a23456789_123456789_123456789_123456789_123456789_1234567890äöü (id bigint) PARTITION BY RANGE (id);
SELECT partition, length(partition::name) FROM snowflake_create_partitions('a23456789_123456789_123456789_123456789_123456789_123456789_123', '2026-11-01+00', '2026-11-03+00', '1 day');
SELECT partition, octet_length(partition::name) FROM snowflake_create_partitions('a23456789_123456789_123456789_123456789_123456789_1234567890äöü'::name::text, '2026-11-01+00', '2027-01-01+00', '1 year');
DROP TABLE a23456789_123456789_123456789_123456789_123456789_123456789_123, a23456789_123456789_123456789_123456789_123456789_1234567890äöü;

-- nothing is found by the search path
CREATE FUNCTION "my Schema".count(OUT bigint) LANGUAGE sql AS 'SELECT 99::bigint';
CREATE TABLE "my Schema".t (id bigint) PARTITION BY RANGE (id);
SET search_path = "my Schema", pg_catalog, public;
SELECT partition FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day');
SELECT partition, rows FROM snowflake_partitions('t', true);
RESET search_path;
DROP SCHEMA "my Schema" CASCADE;

-- temporary tables
CREATE TEMP TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day');
SELECT relpersistence, relnamespace = pg_my_temp_schema() AS temp FROM pg_class WHERE relname = 't_2026_11_01';
INSERT INTO t SELECT snowflake_compose('2026-11-01+00', 0, 0, 0);
SELECT partition, rows FROM snowflake_partitions('t', exact => true);
SELECT partition, command, done FROM snowflake_drop_partitions('t', '2026-11-02+00');
DROP TABLE t;

-- the parent's tablespace, with PARTITION OF too
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE "my Space" LOCATION '';
CREATE TABLE t (id bigint) PARTITION BY RANGE (id) TABLESPACE "my Space";
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day');
SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace WHERE relname = 't_2026_11_01';
DROP TABLE t;
DROP TABLESPACE "my Space";

-- a partition that is partitioned, and a parent that is a partition
CREATE TABLE by_region (region text, id bigint) PARTITION BY LIST (region);
CREATE TABLE t PARTITION OF by_region FOR VALUES IN ('eu') PARTITION BY RANGE (id);
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day');
SELECT lower(r) AS lo, upper(r) AS hi FROM id_range_for('2026-11-02+00', '2026-11-03+00') r \gset
CREATE TABLE parted PARTITION OF t FOR VALUES FROM (:lo) TO (:hi) PARTITION BY HASH (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_region SELECT 'eu', snowflake_compose('2026-11-01 23:00+00'::timestamptz + n * interval '1 min', 0, 0, 0)
FROM generate_series(1, 100) n;
SELECT partition, starts, ends, rows FROM snowflake_partitions('t', exact => true);
ANALYZE t;
SELECT partition, rows, bytes = (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(partition)) AS size FROM snowflake_partitions('t');
SELECT * FROM snowflake_create_partitions('t', '2026-11-02+00', '2026-11-03+00', '1 day');
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-03+00');
DROP TABLE by_region;

-- a foreign table
CREATE FOREIGN DATA WRAPPER dummy;
CREATE SERVER dummy FOREIGN DATA WRAPPER dummy;
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE far PARTITION OF t FOR VALUES FROM (0) TO (15099494400000) SERVER dummy;
SELECT * FROM snowflake_partitions('t');
SELECT command, done FROM snowflake_drop_partitions('t', '2020-01-02+00');
DROP TABLE t;
DROP FOREIGN DATA WRAPPER dummy CASCADE;

--
-- Listing and dropping
--
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE TABLE t_default PARTITION OF t DEFAULT;
CREATE TABLE t_negative PARTITION OF t FOR VALUES FROM (MINVALUE) TO (-5);
CREATE TABLE t_zero PARTITION OF t FOR VALUES FROM (-5) TO (0);
SELECT count(*) FROM snowflake_create_partitions('t', '2026-11-01+00', '2026-11-06+00', '1 day');
CREATE TABLE t_open PARTITION OF t FOR VALUES FROM (9000000000000000000) TO (MAXVALUE);
INSERT INTO t SELECT -7 UNION ALL SELECT -5 UNION ALL SELECT 0 UNION ALL SELECT snowflake_compose(ts, 0, 0, 0)
FROM generate_series(timestamptz '2026-11-02+00', '2026-11-05 23:00+00', '1 hour') ts;
SELECT partition, starts, ends, from_id, to_id, rows FROM snowflake_partitions('t', exact => true);
-- an estimate: what the statistics know, until it is analyzed
SELECT pg_stat_force_next_flush();
SELECT partition, rows FROM snowflake_partitions('t');
-- or do not know
SELECT pg_stat_reset_single_table_counters(t) AS reset FROM unnest('{t_zero,t_open}'::regclass[]) AS t;
SELECT partition, rows FROM snowflake_partitions('t');
ANALYZE t;
DELETE FROM t WHERE id < 0;
SELECT partition, rows FROM snowflake_partitions('t');

-- an estimate, also before the statistics know, and as the table grows
CREATE TABLE grows (id bigint) PARTITION BY RANGE (id);
SELECT partition, created FROM snowflake_create_partitions('grows', '2026-11-01+00', '2026-11-02+00', '1 day');
BEGIN;
INSERT INTO grows SELECT snowflake_compose('2026-11-01+00', 0, 0, 0) + n FROM generate_series(1, 10000) n;
SELECT rows BETWEEN 9000 AND 11000 AS estimated FROM snowflake_partitions('grows');
COMMIT;
ANALYZE grows;
INSERT INTO grows SELECT * FROM grows;
SELECT rows BETWEEN 19000 AND 21000 AS estimated FROM snowflake_partitions('grows');
DROP TABLE grows;

-- nothing ends before these; nor is it touched
SELECT before, d.* FROM unnest('{-infinity, 1999-01-01+00, 2020-01-01+00, 2026-11-01 23:59:59.999+00}'::timestamptz[]) before,
    snowflake_drop_partitions('t', before) d;
SELECT partition, starts, ends, command, done FROM snowflake_drop_partitions('t', '2026-11-02+00', dry_run => true);
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-02+00');
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-02+00');
-- up to a fraction of the time unit before the end
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-02 23:59:59.999+00', dry_run => true);
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-02 23:59:59.9995+00', dry_run => true);
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-04 12:00+00');
SELECT partition, starts, ends, rows FROM snowflake_partitions('t', exact => true);
-- the default partition, and those without IDs or without an end, stay whatever is asked
SELECT partition, done FROM snowflake_drop_partitions('t', '2200-01-01');
SELECT partition FROM snowflake_partitions('t');
SELECT * FROM snowflake_drop_partitions('t', NULL);
SELECT * FROM error_of($$SELECT snowflake_drop_partitions('t', 'infinity')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_drop_partitions('t', now(), concurrently => true)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_drop_partitions('t', now(), concurrently => true, dry_run => true)$$) \gx
DROP TABLE t;

-- numbers of a sequence, from before a conversion, are no times: up to an hour after the epoch
CREATE TABLE old (id bigserial) PARTITION BY RANGE (id);
CREATE TABLE old_1 PARTITION OF old FOR VALUES FROM (1) TO (1000000);
CREATE TABLE old_2 PARTITION OF old FOR VALUES FROM (1000000) TO (2000000);
CREATE TABLE old_3 PARTITION OF old FOR VALUES FROM (2000000) TO (15099494399999);
CREATE TABLE old_4 PARTITION OF old FOR VALUES FROM (15099494399999) TO (15099494400000);
SELECT * FROM snowflake_create_partitions('old', '2026-11-01+00', '2026-11-02+00', '1 day');
INSERT INTO old SELECT FROM generate_series(1, 1000);
SELECT partition, starts, ends, from_id, to_id, rows FROM snowflake_partitions('old', exact => true);
SELECT partition FROM snowflake_drop_partitions('old', '2026-11-03+00', dry_run => true);
SELECT partition, done FROM snowflake_drop_partitions('old', '2026-11-03+00');
SELECT partition, rows FROM snowflake_partitions('old', exact => true);
SELECT message, detail FROM error_of($$SELECT snowflake_create_partitions('old', '2020-01-01+00', '2020-01-02+00', '1 day')$$) \gx
DROP TABLE old;

-- from the lowest bigint on
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (-9223372036854775808) TO (0);
CREATE TABLE t_2 PARTITION OF t DEFAULT;
INSERT INTO t VALUES (-9223372036854775808), (0);
SELECT partition, rows FROM snowflake_partitions('t', exact => true);
DROP TABLE t;

-- a retention of three days and three days ahead, as run by a schedule
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT today, created, dropped
FROM generate_series(timestamptz '2026-11-01 04:00+00', '2026-11-06 04:00+00', '1 day') today,
    LATERAL (SELECT count(*) FILTER (WHERE c.created)
             FROM snowflake_create_partitions('t', today, today + interval '3 days', '1 day') c) c (created),
    LATERAL (SELECT count(*) FROM snowflake_drop_partitions('t', today - interval '3 days') d) d (dropped);
SELECT partition FROM snowflake_partitions('t');
DROP TABLE t;

--
-- Privileges
--
CREATE ROLE regress_snowflake_owner;
CREATE ROLE regress_snowflake_member IN ROLE regress_snowflake_owner;
CREATE ROLE regress_snowflake_stranger;
CREATE SCHEMA parts AUTHORIZATION regress_snowflake_owner;
GRANT USAGE ON SCHEMA parts TO PUBLIC;
SET ROLE regress_snowflake_owner;
CREATE TABLE parts.t (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('parts.t', '2026-11-01+00', '2026-11-02+00', '1 day');
SET ROLE regress_snowflake_member;
SELECT * FROM snowflake_create_partitions('parts.t', '2026-11-02+00', '2026-11-03+00', '1 day');
RESET ROLE;
SELECT * FROM snowflake_create_partitions('parts.t', '2026-11-03+00', '2026-11-04+00', '1 day');
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'parts'::regnamespace ORDER BY 1;
SET ROLE regress_snowflake_stranger;
SELECT * FROM error_of($$SELECT snowflake_create_partitions('parts.t', '2026-11-01+00', '2026-11-02+00', '1 day')$$) \gx
SELECT state, message FROM error_of($$SELECT snowflake_drop_partitions('parts.t', '2026-11-05+00')$$);
SELECT state, message FROM error_of($$SELECT snowflake_drop_partitions('parts.t', '2026-11-05+00', dry_run => true)$$);
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('pg_class', '2026-11-01+00', '2026-11-02+00', '1 day')$$);
SELECT partition, starts, rows FROM snowflake_partitions('parts.t');
SELECT state, message FROM error_of($$SELECT snowflake_partitions('parts.t', exact => true)$$);
RESET ROLE;
GRANT SELECT ON parts.t TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SELECT partition, rows FROM snowflake_partitions('parts.t', exact => true);
SET ROLE regress_snowflake_member;
SELECT partition, done FROM snowflake_drop_partitions('parts.t', '2026-11-02+00');
-- an owner who may not create in the schema
RESET ROLE;
ALTER SCHEMA parts OWNER TO CURRENT_USER;
SET ROLE regress_snowflake_owner;
SELECT state, message FROM error_of($$SELECT snowflake_create_partitions('parts.t', '2026-12-01+00', '2026-12-02+00', '1 day')$$);
RESET ROLE;
DROP SCHEMA parts CASCADE;
DROP ROLE regress_snowflake_owner, regress_snowflake_member, regress_snowflake_stranger;

DROP FUNCTION edges, looks;
DROP DOMAIN id_type;
DROP VIEW bounds;

-- Where a backslash in a literal is an escape, which 19 does not have: the same.  In a session of
-- its own, as functions are parsed once in each.
\c
DO $$ BEGIN SET standard_conforming_strings = off; EXCEPTION WHEN OTHERS THEN NULL; END $$;
SET timezone = 'UTC';
CREATE TABLE t (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE rest PARTITION OF t DEFAULT;
SELECT * FROM snowflake_create_partitions('t', '2026-11-01', '2026-11-03', '1 day');
SELECT created FROM snowflake_create_partitions('t', '2026-11-01', '2026-11-04', '1 day');
SELECT message FROM error_of($$SELECT snowflake_create_partitions('t', '2026-11-01', '2026-11-04', '1 month')$$);
SELECT partition, starts, ends, rows FROM snowflake_partitions('t', exact => true);
SELECT hint FROM error_of($$SELECT snowflake_drop_partitions('t', now(), concurrently => true)$$);
SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-02');
SELECT status, detail FROM snowflake_check() WHERE name = 'partitions';
DROP TABLE t;
