-- Time ranges over IDs.
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC.
SET timezone = 'UTC';

-- the worked examples: a millisecond, a day
SELECT id_range_for(timestamptz '2021-02-23 15:32:04.056+00');
SELECT id_range_for(timestamptz '2021-02-23 15:32:04.056999+00');
SELECT id_range_for('2021-02-23+00', '2021-02-24+00');
SELECT id_range_for(tstzrange('2021-02-23+00', '2021-02-24+00'));
SELECT 152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.056+00') AS inside,
       152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.055+00') AS before,
       152075078181383514 <@ id_range_for(timestamptz '2021-02-23 15:32:04.057+00') AS after;

-- timestamp and date, by the server's casts
SELECT id_range_for(timestamp '2021-02-23 15:32:04.056');
SELECT id_range_for(date '2021-02-23');
SELECT id_range_for(date '2021-02-23', date '2021-02-24');
SET timezone = 'Asia/Shanghai';
SELECT id_range_for(date '2021-02-23', date '2021-02-24');
SET timezone = 'UTC';

-- the period's own bounds: each takes in exactly the IDs whose
-- snowflake_timestamp() is in the period
CREATE TEMP TABLE periods AS
SELECT tstzrange(b1, b2, kinds) AS period
FROM (VALUES (timestamptz '2020-01-01 00:00:00.002+00'), ('2020-01-01 00:00:00.0025+00'),
             ('2019-01-01+00'), ('-infinity'), (NULL)) lo(b1),
     (VALUES (timestamptz '2020-01-01 00:00:00.005+00'), ('2020-01-01 00:00:00.0055+00'),
             ('2089-09-06 15:47:35.551+00'), ('2100-01-01+00'), ('infinity'), (NULL)) hi(b2),
     (VALUES ('[)'), ('[]'), ('()'), ('(]')) k(kinds);
SELECT period, id_range_for(period) FROM periods
WHERE lower(period) > '2020-01-01' AND upper(period) < '2021-01-01' ORDER BY 1;
SELECT id_range_for(period), count(*) FROM periods
WHERE NOT (lower(period) > '2020-01-01' AND upper(period) < '2021-01-01') IS TRUE
GROUP BY 1 ORDER BY 1;
WITH ids AS (
    SELECT unit << 22 | low AS id
    FROM unnest('{0,1,2,3,4,5,6,7,2199023255550,2199023255551}'::bigint[]) unit,
         unnest('{0,1,4194303}'::bigint[]) low)
SELECT count(*) AS compared,
       count(*) FILTER (WHERE (id <@ id_range_for(period)) =
                              (snowflake_timestamp(id) <@ period)) AS same
FROM periods, ids;

-- id <@ period says the same as snowflake_timestamp(id) <@ period, in each of the
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
       count(*) FILTER (WHERE id <@ period IS NOT DISTINCT FROM snowflake_timestamp(id) <@ period) AS read,
       count(*) FILTER (WHERE (NOT id <@ period) IS NOT DISTINCT FROM (NOT snowflake_timestamp(id) <@ period)) AS negated,
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
SELECT differ_when_known('id <@ %1$L::tstzrange') AS known,
       differ_when_known('NOT NOT id <@ %1$L::tstzrange') AS negated,
       differ_when_known('snowflake_in(period => %1$L::tstzrange, id => id)') AS named,
       differ_when_known('id BETWEEN snowflake_first_id(%1$L) AND snowflake_last_id(%1$L)') AS between;
SELECT snowflake_first_id(period), snowflake_last_id(period), count(*) FROM periods GROUP BY 1, 2 ORDER BY 1, 2;
-- what is no ID is in no period
SELECT -1::bigint <@ tstzrange(NULL, NULL) AS known, -1::bigint <@ period AS read,
       snowflake_in(trunc(random())::bigint - 1, period) AS called
FROM (SELECT tstzrange(NULL, NULL) AS period OFFSET 0) p;
-- an untyped text beside a bigint is a period
SELECT id <@ '[2020-01-01 00:00:00.003+00,2020-01-01 00:00:00.004+00)' AS inside, count(*) FROM ids GROUP BY 1 ORDER BY 1;
SELECT 1::bigint <@ '[1,5)';
DROP FUNCTION differ_when_known;

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
SELECT id_range_for('2021-01-01+00', '2021-01-01+00'), id_range_for('empty'::tstzrange),
       id_range_for('infinity', 'infinity'), id_range_for('-infinity', '-infinity'),
       id_range_for('2021-01-01 00:00:00.0001+00', '2021-01-01 00:00:00.0009+00');

-- from after to
SELECT * FROM error_of($$SELECT id_range_for('2021-01-02+00', '2021-01-01+00')$$) \gx
SELECT * FROM error_of($$SELECT id_range_for('infinity', '-infinity')$$) \gx
SELECT state, message FROM error_of($$SELECT id_range_for(tstzrange('2021-01-02+00', '2021-01-01+00'))$$);

-- NULL in, NULL out
SELECT id_range_for(NULL::timestamptz) IS NULL AS r1, id_range_for(NULL::tstzrange) IS NULL AS r2,
       id_range_for(NULL, now()) IS NULL AS r3, id_range_for(now(), NULL) IS NULL AS r4;

-- what was drawn in a period is found by the primary key
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO events SELECT snowflake_compose(t, 1, 0, 0), row_number() OVER (ORDER BY t)
FROM generate_series(timestamptz '2024-01-01+00', '2024-01-31+00', '1 minute') t;
VACUUM ANALYZE events;
SELECT count(*), min(n), max(n) FROM events
WHERE id >= lower(id_range_for('2024-01-10+00', '2024-01-11+00'))
  AND id < upper(id_range_for('2024-01-10+00', '2024-01-11+00'));
EXPLAIN (COSTS OFF) SELECT count(*) FROM events
WHERE id >= lower(id_range_for('2024-01-10+00', '2024-01-11+00'))
  AND id < upper(id_range_for('2024-01-10+00', '2024-01-11+00'));
SELECT statement_timestamp() AS before \gset
INSERT INTO events (n) SELECT 0 FROM generate_series(1, 1000);
SELECT count(*) FROM events
WHERE id >= lower(id_range_for(date_trunc('milliseconds', :'before'::timestamptz), clock_timestamp() + interval '1 s'));
DROP TABLE events;
