-- What the benchmarks need in their servers: the table of what was measured, its
-- statistics, and the loop that times calls.

CREATE EXTENSION snowflake;
CREATE EXTENSION pgstattuple;

-- What was measured.  Values of one figure and round add up: those of two
-- backends, and counts over all rounds, which are all noted as round 1.
CREATE TABLE sample (
    section text NOT NULL,
    figure  text NOT NULL,
    round   integer NOT NULL,
    value   float8 NOT NULL);

-- A number with as many decimals as are of interest.
CREATE FUNCTION readable(number float8) RETURNS text LANGUAGE sql AS $$
    SELECT to_char(number, CASE WHEN number >= 999.95 OR number = floor(number) THEN 'FM999,999,999,990'
                                WHEN number >= 10 THEN 'FM990.0'
                                ELSE 'FM990.000' END)
$$;

-- Over the rounds: the median, quartiles and bounds of a figure, and of its
-- ratio to another one, which is that within each round.
CREATE FUNCTION over_rounds(section text, figure text, base text,
    OUT rounds bigint, OUT value float8, OUT value_q1 float8, OUT value_q3 float8,
    OUT value_min float8, OUT value_max float8, OUT ratio float8, OUT ratio_q1 float8,
    OUT ratio_q3 float8, OUT ratio_min float8, OUT ratio_max float8) LANGUAGE sql STABLE AS $$
    WITH value AS (
        SELECT s.figure, s.round, sum(s.value) AS value
        FROM sample AS s
        WHERE s.section = $1 AND s.figure IN ($2, $3)
        GROUP BY 1, 2),
    pair AS (
        SELECT v.value, v.value / nullif(b.value, 0) AS ratio
        FROM value AS v LEFT JOIN value AS b ON b.figure = $3 AND b.round = v.round
        WHERE v.figure = $2)
    SELECT count(*), v[1], v[2], v[3], min(value), max(value), r[1], r[2], r[3], min(ratio), max(ratio)
    FROM pair,
         (SELECT percentile_cont(ARRAY[0.5, 0.25, 0.75]) WITHIN GROUP (ORDER BY value) AS v,
                 percentile_cont(ARRAY[0.5, 0.25, 0.75]) WITHIN GROUP (ORDER BY ratio) AS r
          FROM pair) AS p
    GROUP BY v, r
$$;

-- A C function that does next to nothing.  pg_backend_pid() itself is STABLE,
-- so the planner would drop the unused columns that call it.
CREATE FUNCTION empty_call() RETURNS integer
LANGUAGE internal VOLATILE PARALLEL SAFE AS 'pg_backend_pid';

-- A query that makes a call in each column of each row.
CREATE FUNCTION calls_query(call text, nrows integer, ncolumns integer DEFAULT 25)
RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT count(*) FROM (SELECT %s FROM generate_series(1, %s) OFFSET 0) AS s',
                  string_agg(call, ', '), nrows)
    FROM generate_series(1, ncolumns)
$$;

-- Nanoseconds a call.  In each round all candidates in turn, in another order
-- each time; round 0 warms up and is not noted.  The function candidates() of
-- the benchmark says what to time: figure, query, how many calls or IDs it makes.
CREATE PROCEDURE measure_calls(section text, rounds integer, nrows integer)
LANGUAGE plpgsql AS $$
DECLARE
    c       record;
    began   timestamptz;
    seconds float8;
BEGIN
    FOR round IN 0 .. rounds LOOP
        FOR c IN SELECT * FROM candidates(section, nrows) ORDER BY random() LOOP
            began := clock_timestamp();
            EXECUTE c.query;
            seconds := extract(epoch FROM clock_timestamp() - began);
            IF round > 0 THEN
                INSERT INTO sample VALUES (section, c.figure, round, 1e9 * seconds / c.calls);
            END IF;
        END LOOP;
    END LOOP;
END
$$;
