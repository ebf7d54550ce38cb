-- The section "ranges" of bench/parts.sh: time predicates on IDs beside the
-- condition on bigint that a person would write.  psql variable "rows": how
-- many, spread evenly over 100 days up to now, in a partition a day.

CREATE TABLE event (id bigint PRIMARY KEY, n integer NOT NULL) PARTITION BY RANGE (id);

CREATE TABLE day AS
SELECT n, date_trunc('day', now()) - (99 - n) * interval '1 day' AS begins FROM generate_series(0, 99) AS n;

SELECT format('CREATE TABLE event_%s PARTITION OF event FOR VALUES FROM (%s) TO (%s)',
              n, lower(r), upper(r))
FROM day, id_range_for(begins, begins + interval '1 day') AS r \gexec

SELECT format('INSERT INTO event SELECT %s + i * %s::bigint, i FROM generate_series(0, %s - 1) AS i',
              lower(r), (upper(r) - lower(r)) / (:rows / 100), :rows / 100)
FROM day, id_range_for(begins, begins + interval '1 day') AS r \gexec

-- 24 hours of the days before
CREATE TABLE shift AS
SELECT n, begins + interval '12 hours' AS begins, begins + interval '12 hours 5 minutes' AS ends
FROM day WHERE n >= 76;

VACUUM ANALYZE;

-- Each query twice: with snowflake_in(), and by hand.  "known" are bounds that
-- are constants; in the others they are functions of the period.
CREATE FUNCTION range_queries()
RETURNS TABLE (shape text, ours text, hand text, known boolean, setup text) LANGUAGE sql AS $$
    SELECT shape,
           replace(query, 'IN_PERIOD', format('snowflake_in(id, %s)', p)),
           replace(query, 'IN_PERIOD',
                   CASE WHEN q.known THEN format('id >= %s AND id < %s', lower(r), upper(r))
                        ELSE format('id >= lower(id_range_for(%1$s)) AND id < upper(id_range_for(%1$s))', p) END),
           q.known, setup
    FROM (SELECT begins AS b FROM day WHERE n = 50) AS d,
         LATERAL (VALUES
        ('1 row of a minute', 'SELECT id FROM event WHERE IN_PERIOD LIMIT 1',
         format('%L, %L', b + interval '9 hours', b + interval '9 hours 1 minute'), true, NULL,
         id_range_for(b + interval '9 hours', b + interval '9 hours 1 minute')),
        ('an hour, count(*)', 'SELECT count(*) FROM event WHERE IN_PERIOD',
         format('%L, %L', b + interval '9 hours', b + interval '10 hours'), true, NULL,
         id_range_for(b + interval '9 hours', b + interval '10 hours')),
        ('an hour, sum(n)', 'SELECT sum(n) FROM event WHERE IN_PERIOD',
         format('%L, %L', b + interval '9 hours', b + interval '10 hours'), true, NULL,
         id_range_for(b + interval '9 hours', b + interval '10 hours')),
        ('three days and a half, sum(n)', 'SELECT sum(n) FROM event WHERE IN_PERIOD',
         format('%L, %L', b + interval '9 hours', b + interval '93 hours'), true, NULL,
         id_range_for(b + interval '9 hours', b + interval '93 hours')),
        ('the last day up to now(), sum(n)', 'SELECT sum(n) FROM event WHERE IN_PERIOD',
         'now() - interval ''1 day'', now()', false, NULL, NULL),
        ('generic plan, an hour, sum(n)', 'SELECT sum(n) FROM event WHERE IN_PERIOD',
         '$1, $2', false, format('(%L, %L)', b + interval '9 hours', b + interval '10 hours'), NULL),
        ('join with 24 periods, count(*)', 'SELECT count(*) FROM shift JOIN event ON IN_PERIOD',
         'begins, ends', false, NULL, NULL)
    ) AS q (shape, query, p, known, setup, r)
$$;

-- Milliseconds a query, planning included, the two forms taking turns.
CREATE PROCEDURE measure_ranges(rounds integer, budget float8) LANGUAGE plpgsql AS $$
DECLARE
    q       record;
    ours    text;
    hand    text;
    began   timestamptz;
    middle  timestamptz;
    ended   timestamptz;
    ms      float8[];
    times   integer;
BEGIN
    SET LOCAL plan_cache_mode = force_generic_plan;
    FOR q IN SELECT * FROM range_queries() LOOP
        ours := q.ours;
        hand := q.hand;
        IF q.setup IS NOT NULL THEN
            EXECUTE 'PREPARE ours (timestamptz, timestamptz) AS ' || ours;
            EXECUTE 'PREPARE hand (timestamptz, timestamptz) AS ' || hand;
            ours := 'EXECUTE ours' || q.setup;
            hand := 'EXECUTE hand' || q.setup;
        END IF;
        FOR round IN 0 .. rounds LOOP
            ms := '{0,0}';
            times := 0;
            WHILE ms[1] + ms[2] < budget LOOP
                IF times % 2 = 0 THEN
                    began := clock_timestamp();
                    EXECUTE ours;
                    middle := clock_timestamp();
                    EXECUTE hand;
                    ended := clock_timestamp();
                    ms := ARRAY[ms[1] + 1e3 * extract(epoch FROM middle - began),
                                ms[2] + 1e3 * extract(epoch FROM ended - middle)];
                ELSE
                    began := clock_timestamp();
                    EXECUTE hand;
                    middle := clock_timestamp();
                    EXECUTE ours;
                    ended := clock_timestamp();
                    ms := ARRAY[ms[1] + 1e3 * extract(epoch FROM ended - middle),
                                ms[2] + 1e3 * extract(epoch FROM middle - began)];
                END IF;
                times := times + 1;
            END LOOP;
            IF round > 0 THEN
                INSERT INTO sample VALUES
                    ('ranges', q.shape || ', snowflake_in(), ms', round, ms[1] / times),
                    ('ranges', q.shape || ', by hand, ms', round, ms[2] / times);
            END IF;
        END LOOP;
        IF q.setup IS NOT NULL THEN
            DEALLOCATE ours;
            DEALLOCATE hand;
        END IF;
    END LOOP;
END
$$;
