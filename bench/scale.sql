-- What bench/scale.sh needs in its server beside bench/setup.sql.

-- What was measured, with how much work there was.
CREATE TABLE grown (section text, size integer, what text, round integer, value float8);

-- The conditions that are planned, in each of their forms.  "until now" is
-- known only when the query starts.
CREATE FUNCTION conditions(tab text, first_day timestamptz, days integer)
RETURNS TABLE (shape text, form text, query text) LANGUAGE sql AS $$
    SELECT shape, form, format('SELECT * FROM %I WHERE %s', tab, condition)
    FROM (VALUES ('an hour', format('%L::timestamptz, %L::timestamptz', first_day + interval '9 hours', first_day + interval '10 hours'),
                  id_range_for(first_day + interval '9 hours', first_day + interval '10 hours')),
                 ('all days', format('%L::timestamptz, %L::timestamptz', first_day, first_day + days * interval '1 day'),
                  id_range_for(first_day, first_day + days * interval '1 day')),
                 ('until now', 'now() - interval ''1 hour'', now()', NULL)) AS s (shape, p, r),
         LATERAL (VALUES ('snowflake_in', format('snowflake_in(id, %s)', p)),
                         ('functions', format('id >= lower(id_range_for(%1$s)) AND id < upper(id_range_for(%1$s))', p)),
                         ('constants', 'id >= ' || lower(r) || ' AND id < ' || upper(r))) AS f (form, condition)
    WHERE condition IS NOT NULL
$$;

CREATE FUNCTION planning_ms(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    plan    json;
BEGIN
    EXECUTE 'EXPLAIN (SUMMARY, FORMAT JSON) ' || query INTO plan;
    RETURN (plan -> 0 ->> 'Planning Time')::float8;
END
$$;

-- In a session that has planned all of them before, in changing order.
CREATE PROCEDURE measure_planning(tab text, first_day timestamptz, days integer, rounds integer, most_ms float8)
LANGUAGE plpgsql AS $$
DECLARE
    s       record;
    c       record;
    ms      float8;
    ended   timestamptz;
BEGIN
    FOR s IN SELECT DISTINCT shape FROM conditions(tab, first_day, days) LOOP
        ended := clock_timestamp() + most_ms * interval '1 ms';
        FOR round IN 0 .. rounds LOOP
            EXIT WHEN round > 10 AND clock_timestamp() > ended;
            FOR c IN SELECT * FROM conditions(tab, first_day, days) AS q WHERE q.shape = s.shape ORDER BY random() LOOP
                ms := planning_ms(c.query);
                IF round > 0 THEN
                    INSERT INTO grown VALUES ('planning', days, s.shape || ', ' || c.form, round, ms);
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;

-- Tables that draw IDs by default, with so many rows each.
CREATE PROCEDURE make_tables(tables integer, nrows integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. tables LOOP
        EXECUTE format('CREATE TABLE drawing_%s (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)', i);
        EXECUTE format('INSERT INTO drawing_%s (n) SELECT generate_series(1, %s)', i, nrows);
        IF i % 500 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END
$$;

CREATE SEQUENCE one;

-- Calls, with the clock before and after.
CREATE TABLE called (begun timestamptz, number bigint, done timestamptz);

-- The log of pgbench
CREATE TABLE latency (client integer, n integer, us bigint, script integer, epoch bigint, epoch_us integer, lag bigint DEFAULT 0);

-- A cell of a table: the median of what was measured.
CREATE FUNCTION figure(section text, size integer, what text) RETURNS text LANGUAGE sql AS $$
    SELECT readable(percentile_cont(0.5) WITHIN GROUP (ORDER BY value))
    FROM grown AS g WHERE g.section = $1 AND g.size = $2 AND g.what = $3
$$;
