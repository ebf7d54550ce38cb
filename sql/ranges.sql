-- Time ranges over IDs.
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC.
SET timezone = 'UTC';

-- the worked examples: a millisecond, a day
SELECT id_range_for(timestamptz '2021-02-23 15:32:04.056+00');
SELECT id_range_for(timestamptz '2021-02-23 15:32:04.056999+00');
SELECT id_range_for('2021-02-23+00', '2021-02-24+00');
SELECT 152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.056+00') AS inside,
       152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.055+00') AS before,
       152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.057+00') AS after;

-- what a person types first, and with each type: a text without a time of day,
-- and a date, are a day in the session's time zone
SELECT id_range_for('2021-02-23') AS literal, id_range_for(date '2021-02-23') AS date,
       id_range_for('2021-02-23'::text) AS text, id_range_for('2021-02-23'::varchar) AS varchar,
       id_range_for('2021-02-23', '2021-02-24') AS literals, id_range_for(date '2021-02-23', '2021-02-24') AS dates \gx
SELECT id_range_for('2021-02-23 15:32:04.056') AS literal, id_range_for(timestamp '2021-02-23 15:32:04.056') AS timestamp,
       id_range_for('2021-02-23 00:00') AS midnight, id_range_for(timestamptz '2021-02-23') AS typed \gx
SET timezone = 'Asia/Shanghai';
SELECT id_range_for('2021-02-23') AS literal, id_range_for(date '2021-02-23') AS date, id_range_for('2021-02-23 +00') AS with_zone,
       id_range_for(date '2021-02-23', date '2021-02-24') AS dates, id_range_for('2021-02-23 23:32:04.056') AS instant \gx
SET timezone = 'UTC';

-- each text that the server reads is a day, where a time of day could be added,
-- or an instant
CREATE FUNCTION id_range_is(day_or_ts text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE id_range_for(day_or_ts)
           WHEN id_range_for(day_or_ts::timestamptz) THEN 'instant'
           WHEN id_range_for(date_trunc('day', day_or_ts::timestamptz), date_trunc('day', day_or_ts::timestamptz) + interval '1 day') THEN 'day'
           WHEN id_range_for(day_or_ts::timestamptz, day_or_ts::timestamptz + interval '1 day') THEN 'day of a zone'
           ELSE 'something else' END
$$;
BEGIN;
SELECT id_range_is(t), count(*), string_agg(t, ', ' ORDER BY n) AS texts
FROM unnest('{2026-11-20,20261120,261120,Nov 20 2026,20-Nov-2026 AD,"Friday, 20 November 2026",2026.324,J2461365,
              today,tomorrow,yesterday,"  today  ",TODAY,2026-11-20 UTC,2026-11-20 +00,2026-11-20Z,today +00,
              2026-11-20 +02,20261120+05:30,2026-11-20 America/New_York,2026-11-20 UTC+3,2026-07-20 CET,
              now,2026-11-20 00:00,20261120T000000,2026-11-20T00:00:00.000Z,2026-11-20 24:00,20261120 040506,2026-11-20 12:00 PM,
              J2461365.5,today allballs,tomorrow 00:00,2026-11-20 12:00:00.000+00:00,2026-11-20 AM,2026-11-20 PM}'::text[])
     WITH ORDINALITY AS v (t, n)
GROUP BY 1 ORDER BY min(n) \gx
COMMIT;
-- in each style of dates that is printed, too
CREATE FUNCTION id_range_of_printed(style text, OUT date text, OUT date_is text, OUT instant text, OUT instant_is text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('DateStyle', style, true);
    date := make_date(2026, 11, 20)::text;
    date_is := id_range_is(date);
    instant := make_timestamptz(2026, 11, 20, 0, 0, 0)::text;
    instant_is := id_range_is(instant);
END $$;
SELECT style, p.* FROM unnest('{"ISO, YMD","ISO, DMY","SQL, MDY","SQL, DMY","Postgres, MDY","Postgres, DMY","German, DMY"}'::text[]) style,
    id_range_of_printed(style) p;
SET DateStyle = 'SQL, DMY';
SELECT id_range_for('2/11/2026') = id_range_for(make_date(2026, 11, 2)) AS dmy;
SET DateStyle = 'SQL, MDY';
SELECT id_range_for('2/11/2026') = id_range_for(make_date(2026, 2, 11)) AS mdy;
RESET DateStyle;

-- a day is from one midnight to the next, where there are such: two of a year
-- have 23 and 25 hours, or begin at 1 o'clock; each begins where the last ended
CREATE FUNCTION days_of(zone text, from_day date, to_day date, OUT days bigint, OUT hours text, OUT seamless boolean, OUT texts boolean, OUT zoned boolean)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('TimeZone', zone, true);
    SELECT count(*), string_agg(DISTINCT trunc(extract(epoch FROM snowflake_timestamp(upper(r)) - snowflake_timestamp(lower(r))) / 3600, 1)::text, ', '),
           bool_and(upper(r) = lower(id_range_for(day + 1))), bool_and(r = id_range_for(day::text)), bool_and(r = id_range_for(day + time '00:00', day + 1 + time '00:00'))
    INTO days, hours, seamless, texts
    FROM (SELECT d::date AS day, id_range_for(d::date) AS r FROM generate_series(from_day::timestamp, to_day, '1 day') d) d;
    PERFORM set_config('TimeZone', 'UTC', true);
    SELECT bool_and(id_range_for(d::date || ' ' || zone) = (SELECT id_range_for(d::timestamp AT TIME ZONE zone, (d + interval '1 day') AT TIME ZONE zone)))
    INTO zoned FROM generate_series(from_day::timestamp, to_day, '1 day') d;
END $$;
SELECT zone, d.* FROM unnest('{UTC,Europe/Berlin,America/New_York,Australia/Lord_Howe,America/Havana,Asia/Beirut}'::text[]) zone,
    days_of(zone, '2021-01-01', '2021-12-31') d;
SET timezone = 'Europe/Berlin';
SELECT day, snowflake_timestamp(lower(r)) AS begins, snowflake_timestamp(upper(r)) AS ends
FROM (VALUES (date '2021-03-28'), ('2021-10-31')) v (day), id_range_for(day) r;
SET timezone = 'UTC';

-- a prepared statement goes by the session's settings when it runs
PREPARE day AS SELECT id_range_for('2026-11-02') AS literal, id_range_for(date '2026-11-02') AS date;
PREPARE days(text, date) AS SELECT id_range_for($1) AS literal, id_range_for($2) AS date;
SET plan_cache_mode = force_generic_plan;
EXECUTE day;
EXECUTE days('2/11/2026', '2026-11-02');
SET timezone = 'Europe/Berlin';
SET DateStyle = 'SQL, DMY';
EXECUTE day;
EXECUTE days('2/11/2026', '2026-11-02');
RESET plan_cache_mode;
EXECUTE day;
EXECUTE days('2/11/2026', '2026-11-02');
DEALLOCATE day;
DEALLOCATE days;
RESET DateStyle;
SET timezone = 'UTC';

-- out of the lifetime, out of all time
SELECT t, id_range_for(t) FROM unnest('{infinity,-infinity,epoch,1970-01-01,4713-11-25 BC,0044-03-15 BC,2019-12-31,2020-01-01,2089-09-06,2089-09-07,294276-12-31}'::text[]) t;
SELECT t, id_range_for(t) FROM unnest('{infinity,-infinity,1970-01-01,4713-11-25 BC,2019-12-31,2020-01-01,2089-09-06,2089-09-07,294276-12-31}'::date[]) t;
-- what the server does not read
SELECT t, e.state, e.message FROM unnest('{"",tea,2026-02-29,2026-11-20T,10:00,294277-01-01,2026-11-20 Mars/Olympus,2026-11-20 25:00,2026-11-20 10:00 11:00,"[2026-11-20,2026-11-21)"}'::text[]) t,
    error_of(format('SELECT id_range_for(%L)', t)) e;
SELECT * FROM error_of($$SELECT id_range_for(date '294277-01-01')$$) \gx
SELECT state, message FROM error_of($$SELECT id_range_for(tstzrange(now(), NULL))$$);
DROP FUNCTION id_range_of_printed, id_range_is, days_of;

-- the period's own bounds: each takes in exactly the IDs whose
-- snowflake_timestamp() is in the period
CREATE TEMP TABLE periods AS
SELECT tstzrange(b1, b2, kinds) AS period
FROM (VALUES (timestamptz '2020-01-01 00:00:00.002+00'), ('2020-01-01 00:00:00.0025+00'),
             ('2019-01-01+00'), ('-infinity'), (NULL)) lo(b1),
     (VALUES (timestamptz '2020-01-01 00:00:00.005+00'), ('2020-01-01 00:00:00.0055+00'),
             ('2089-09-06 15:47:35.551+00'), ('2100-01-01+00'), ('infinity'), (NULL)) hi(b2),
     (VALUES ('[)'), ('[]'), ('()'), ('(]')) k(kinds);
CREATE FUNCTION ids_of(period tstzrange, OUT first_id bigint, OUT last_id bigint) LANGUAGE sql AS
'SELECT snowflake_first_id(period), snowflake_last_id(period)';
SELECT period, i.* FROM periods, ids_of(period) i
WHERE lower(period) > '2020-01-01' AND upper(period) < '2021-01-01' ORDER BY 1;
SELECT i.*, count(*) FROM periods, ids_of(period) i
WHERE NOT (lower(period) > '2020-01-01' AND upper(period) < '2021-01-01') IS TRUE
GROUP BY 1, 2 ORDER BY 1, 2;

-- snowflake_in(id, period) says the same as snowflake_timestamp(id) <@ period, in each of the
-- ways in which it is evaluated: by the bounds of a period that is read, by
-- those of one that is known when planned, by a call of the function (an ID
-- that might be drawn is not looked at twice); with its negation and NULLs
CREATE TEMP TABLE ids AS
SELECT unit << 22 | low AS id
FROM unnest('{0,1,2,3,4,5,6,7,2199023255550,2199023255551}'::bigint[]) unit,
     unnest('{0,1,4194303}'::bigint[]) low
UNION ALL VALUES (NULL::bigint);
INSERT INTO periods VALUES ('empty'), (NULL);
SELECT count(*) AS compared,
       count(*) FILTER (WHERE snowflake_in(id, period) IS NOT DISTINCT FROM snowflake_timestamp(id) <@ period) AS read,
       count(*) FILTER (WHERE (NOT snowflake_in(id, period)) IS NOT DISTINCT FROM (NOT snowflake_timestamp(id) <@ period)) AS negated,
       count(*) FILTER (WHERE snowflake_in(id + trunc(random())::bigint, period)
                              IS NOT DISTINCT FROM snowflake_timestamp(id) <@ period) AS called
FROM periods, ids;
CREATE FUNCTION differ_when_known(condition text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    p record;
    found bigint;
    differ bigint = 0;
BEGIN
    -- the server's own <@ is given a period that it does not know: of a known one,
    -- 17 and up make something that is not NULL for some NULLs
    FOR p IN SELECT period FROM periods LOOP
        EXECUTE format('SELECT count(*) FROM ids, (SELECT %1$L::tstzrange AS read OFFSET 0) r
                        WHERE (' || condition || ') IS DISTINCT FROM (snowflake_timestamp(id) <@ read)', p.period) INTO found;
        differ := differ + found;
        -- as a condition too, not only as a value
        EXECUTE format('SELECT abs((SELECT count(*) FROM ids WHERE ' || condition || ')
                               - (SELECT count(*) FROM ids, (SELECT %1$L::tstzrange AS read OFFSET 0) r
                                  WHERE snowflake_timestamp(id) <@ read))', p.period) INTO found;
        differ := differ + found;
    END LOOP;
    RETURN differ;
END $$;
CREATE TEMP TABLE bounds (b1 timestamptz, b2 timestamptz);
CREATE FUNCTION different_in_bounds(condition text, b1 timestamptz, b2 timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ids, (SELECT %1$L::timestamptz AS b1, %2$L::timestamptz AS b2 OFFSET 0) b
                    WHERE (' || condition || ') IS DISTINCT FROM
                          (CASE WHEN num_nulls(id, b1, b2) = 0 THEN snowflake_timestamp(id) >= b1 AND snowflake_timestamp(id) < b2 END)', b1, b2) INTO found;
    RETURN found;
END $$;
SELECT differ_when_known('snowflake_in(id, %1$L)') AS known,
       differ_when_known('NOT NOT snowflake_in(id, %1$L)') AS negated,
       differ_when_known('snowflake_in(period => %1$L, id => id)') AS named,
       differ_when_known('id BETWEEN snowflake_first_id(%1$L) AND snowflake_last_id(%1$L)') AS between;
SELECT snowflake_first_id(period), snowflake_last_id(period), count(*) FROM periods GROUP BY 1, 2 ORDER BY 1, 2;
-- so does snowflake_in(id, from_ts, to_ts), with bounds that are read, known,
-- and half known
INSERT INTO bounds
SELECT b1, b2 FROM (VALUES (timestamptz '2020-01-01 00:00:00.002+00'), ('2020-01-01 00:00:00.0025+00'), ('2019-01-01+00'), ('-infinity'), (NULL)) lo(b1),
     (VALUES (timestamptz '2020-01-01 00:00:00.002+00'), ('2020-01-01 00:00:00.0055+00'), ('2089-09-06 15:47:35.551+00'), ('2100-01-01+00'), ('infinity'), (NULL)) hi(b2)
WHERE b1 <= b2 IS NOT FALSE;
SELECT count(*) AS compared,
       count(*) FILTER (WHERE snowflake_in(id, b1, b2) IS NOT DISTINCT FROM expected) AS read,
       count(*) FILTER (WHERE (NOT snowflake_in(id, b1, b2)) IS NOT DISTINCT FROM (NOT expected)) AS negated,
       count(*) FILTER (WHERE snowflake_in(id + trunc(random())::bigint, b1, b2) IS NOT DISTINCT FROM expected) AS called,
       count(*) FILTER (WHERE id BETWEEN snowflake_first_id(b1, b2) AND snowflake_last_id(b1, b2) IS NOT DISTINCT FROM expected) AS between,
       count(*) FILTER (WHERE id <@ id_range_for(b1, b2) IS NOT DISTINCT FROM expected) AS ranges
FROM bounds, ids, LATERAL (SELECT CASE WHEN num_nulls(id, b1, b2) = 0 THEN snowflake_timestamp(id) >= b1 AND snowflake_timestamp(id) < b2 END) e (expected);
SELECT sum(different) AS different, count(*) AS statements
FROM bounds, unnest('{"snowflake_in(id, %1$L, %2$L)","snowflake_in(to_ts => %2$L, from_ts => %1$L, id => id)","snowflake_in(id, %1$L, b2)","snowflake_in(id, b1, %2$L)"}'::text[]) condition,
    different_in_bounds(condition, b1, b2) different;
-- what is no ID is in no period
SELECT snowflake_in(-1, tstzrange(NULL, NULL)) AS known, snowflake_in(-1, period) AS read,
       snowflake_in(trunc(random())::bigint - 1, period) AS called, snowflake_in(-1, '-infinity', 'infinity') AS bounds
FROM (SELECT tstzrange(NULL, NULL) AS period OFFSET 0) p;
-- texts without a type are a period, or its bounds; days are written as dates
SELECT snowflake_in(id, '[2020-01-01 00:00:00.003+00,2020-01-01 00:00:00.004+00)') AS inside, count(*) FROM ids GROUP BY 1 ORDER BY 1;
SELECT snowflake_in(id, '2020-01-01 00:00:00.003+00', '2020-01-01 00:00:00.004+00') AS inside, count(*) FROM ids GROUP BY 1 ORDER BY 1;
SELECT snowflake_in(id, date '2020-01-01', date '2020-01-02') AS inside, count(*) FROM ids GROUP BY 1 ORDER BY 1;
SELECT * FROM error_of($$SELECT snowflake_in(1, '[1,5)')$$) \gx
DROP FUNCTION differ_when_known, different_in_bounds;
-- a parameter without a type is a period, two are its bounds, and to id_range_for() one is a text
PREPARE untyped AS SELECT snowflake_in(1, $1), snowflake_in(1, $2, $3), id_range_for($4), id_range_for($5, $6);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
DEALLOCATE untyped;
-- an end that is open, also by a parameter; but a NULL that is no period's bound is none
PREPARE open(timestamptz, timestamptz) AS
SELECT snowflake_in(1, tstzrange($1, $2)) AS period, snowflake_in(1, $1, $2) AS bounds, snowflake_in(1, coalesce($1, '-infinity'), coalesce($2, 'infinity')) AS infinity;
EXECUTE open('2020-01-01+00', NULL);
EXECUTE open(NULL, '2020-01-02+00');
EXECUTE open(NULL, NULL);
EXECUTE open('2020-01-01+00', 'infinity');
DEALLOCATE open;
-- periods of other types, cast by way of text: the same bounds, in any session
CREATE FUNCTION other_periods(zone text, style text, OUT periods bigint, OUT empty bigint, OUT different bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('TimeZone', zone, true), set_config('DateStyle', style, true);
    SELECT count(*), count(*) FILTER (WHERE isempty(ours)), count(*) FILTER (WHERE ours IS DISTINCT FROM tstzrange(a, b, kinds)
        OR days IS DISTINCT FROM CASE WHEN isempty(ours_days) THEN 'empty'
            ELSE tstzrange(lower(ours_days), upper(ours_days), CASE WHEN lower_inc(ours_days) THEN '[' ELSE '(' END || CASE WHEN upper_inc(ours_days) THEN ']' ELSE ')' END) END)
    INTO periods, empty, different
    FROM (SELECT a, b, kinds, tsrange(a, b, kinds)::text::tstzrange AS ours, daterange(a::date, b::date, kinds) AS ours_days, daterange(a::date, b::date, kinds)::text::tstzrange AS days
          FROM (VALUES (timestamp '2024-03-31 01:59:59.999999'), ('2021-10-31'), ('0044-03-15 BC'), ('-infinity'), (NULL)) lo(a),
               (VALUES (timestamp '2024-03-31 03:00'), ('2024-03-31 01:59:59.999999'), ('infinity'), (NULL)) hi(b), unnest('{[),[],(),(]}'::text[]) kinds) p;
END $$;
SELECT zone, style, o.* FROM unnest('{UTC,Europe/Berlin,America/New_York}'::text[]) zone, unnest('{"ISO, MDY","SQL, DMY","Postgres, MDY",German}'::text[]) style, other_periods(zone, style) o;
DROP FUNCTION other_periods;
SELECT state, message FROM error_of($$SELECT snowflake_in(1, '[2024-01-01,2024-02-01)'::daterange)$$);

-- periods that follow each other do not overlap, wherever they are cut
SELECT count(*) AS cuts, bool_and(upper(id_range_for(a, b)) = lower(id_range_for(b, c))) AS seamless
FROM (SELECT t AS a, t + interval '2 ms' + n * interval '100 us' AS b, t + interval '6 ms' AS c
      FROM (VALUES (timestamptz '2021-01-01+00')) v(t), generate_series(0, 30) n) cuts;

-- clamped at the ends of the ID space
SELECT ts, id_range_for(ts) FROM
    (VALUES (timestamptz '-infinity'), ('4713-01-01 BC'), ('2019-12-31 23:59:59.999999+00'),
            ('2020-01-01+00'), ('2089-09-06 15:47:35.551+00'), ('2089-09-06 15:47:35.551999+00'),
            ('2089-09-06 15:47:35.552+00'), ('294276-12-31 23:59:59.999999+00'), ('infinity')) v(ts);
SELECT id_range_for('-infinity', 'infinity') AS everything,
       id_range_for('2020-01-01+00', '2089-09-06 15:47:35.552+00') AS lifetime,
       id_range_for('2000-01-01+00', '2010-01-01+00') AS before,
       id_range_for('2100-01-01+00', '2110-01-01+00') AS after;
SELECT 9223372036854775807 <@ id_range_for('2020-01-01+00', 'infinity') AS the_last_id;

-- empty
SELECT id_range_for('2021-01-01+00', '2021-01-01+00'),
       id_range_for('infinity', 'infinity'), id_range_for('-infinity', '-infinity'),
       id_range_for('2021-01-01 00:00:00.0001+00', '2021-01-01 00:00:00.0009+00');

-- from after to
SELECT * FROM error_of($$SELECT id_range_for('2021-01-02+00', '2021-01-01+00')$$) \gx
SELECT * FROM error_of($$SELECT id_range_for('infinity', '-infinity')$$) \gx
SELECT statement, e.state, e.message FROM unnest(ARRAY[
    $$snowflake_in(1, '2021-01-02', '2021-01-01')$$, $$snowflake_in(1, now(), now() - interval '1 s')$$,
    $$snowflake_in(trunc(random())::bigint, now(), now() - interval '1 s')$$,
    $$snowflake_first_id('2021-01-02', '2021-01-01')$$, $$snowflake_last_id('2021-01-02', '2021-01-01')$$,
    $$snowflake_in(1, tstzrange('2021-01-02', '2021-01-01'))$$]) statement, error_of('SELECT ' || statement) e;

-- NULL in, NULL out
SELECT num_nulls(id_range_for(NULL), id_range_for(NULL::timestamptz), id_range_for(NULL::date), id_range_for(NULL::text),
                 id_range_for(NULL, now()), id_range_for(now(), NULL),
                 snowflake_in(NULL, now(), now()), snowflake_in(1, NULL, now()), snowflake_in(1, now(), NULL),
                 snowflake_in(NULL, '[,)'), snowflake_in(1, NULL),
                 snowflake_first_id(NULL), snowflake_first_id(NULL, now()), snowflake_first_id(now(), NULL),
                 snowflake_last_id(NULL), snowflake_last_id(NULL, now()), snowflake_last_id(now(), NULL)) AS nulls;

-- in groups of several sets: a total is of no group
CREATE TABLE grouped AS SELECT snowflake_compose(timestamptz '2025-06-01+00' + n * interval '1 day', 0, 0, 0) AS id FROM generate_series(0, 9) n;
SELECT snowflake_in(id, '2025-06-01+00', '2025-06-05+00') AS inside, count(*) FROM grouped
GROUP BY ROLLUP (snowflake_in(id, '2025-06-01+00', '2025-06-05+00')) HAVING snowflake_in(id, '2025-06-01+00', '2025-06-05+00');
SELECT NOT snowflake_in(id, '[2025-06-03 00:00+00,2025-06-05 00:00+00)') AS outside, count(*) FROM grouped
GROUP BY CUBE (snowflake_in(id, '[2025-06-03 00:00+00,2025-06-05 00:00+00)')) ORDER BY 2, 1;
CREATE FUNCTION in_june(id bigint) RETURNS boolean LANGUAGE sql STABLE
RETURN snowflake_in(id, '2025-06-01+00', '2025-06-05+00');
SELECT in_june(id) AS inside, count(*) FROM grouped GROUP BY ROLLUP (in_june(id)) HAVING in_june(id);
SELECT NOT in_june(id) AS outside, count(*) FROM grouped WHERE snowflake_timestamp(id) > '2025-06-05 12:00+00'
GROUP BY ROLLUP (NOT in_june(id)) HAVING NOT in_june(id) OR count(*) > 100;
DROP FUNCTION in_june;
DROP TABLE grouped;

-- it takes no right to functions that the query does not name
BEGIN;
CREATE ROLE regress_snowflake_in;
REVOKE EXECUTE ON FUNCTION snowflake_last_id(timestamptz, timestamptz) FROM PUBLIC;
SET LOCAL ROLE regress_snowflake_in;
SELECT count(*) FROM generate_series(1, 2) AS id WHERE snowflake_in(id, now() - interval '1 h', now());
ROLLBACK;

-- nor where one of them was moved alone
BEGIN;
CREATE SCHEMA elsewhere;
ALTER FUNCTION snowflake_in(bigint, timestamptz, timestamptz) SET SCHEMA elsewhere;
SELECT count(*) FROM generate_series(1, 2) AS id WHERE elsewhere.snowflake_in(id, now() - interval '1 h', now());
ROLLBACK;

-- what was drawn in a period is found by the primary key
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO events SELECT snowflake_compose(t, 1, 0, 0), row_number() OVER (ORDER BY t)
FROM generate_series(timestamptz '2024-01-01+00', '2024-01-31+00', '1 minute') t;
VACUUM ANALYZE events;
SELECT count(*), min(n), max(n) FROM events
WHERE id >= lower(id_range_for('2024-01-10+00', '2024-01-11+00'))
  AND id < upper(id_range_for('2024-01-10+00', '2024-01-11+00'));
-- (another session may keep VACUUM from marking pages as visible to all)
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM events
WHERE id >= lower(id_range_for('2024-01-10+00', '2024-01-11+00'))
  AND id < upper(id_range_for('2024-01-10+00', '2024-01-11+00'));
RESET enable_bitmapscan;
SELECT statement_timestamp() AS before \gset
INSERT INTO events (n) SELECT 0 FROM generate_series(1, 1000);
SELECT count(*) FROM events
WHERE id >= lower(id_range_for(date_trunc('milliseconds', :'before'::timestamptz), clock_timestamp() + interval '1 s'));
DROP TABLE events;
