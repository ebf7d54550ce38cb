-- What bench/segments.sh needs in its servers, after setup.sql: what numbers
-- are drawn from, what of that is timed, and what is noted.

-- What is compared, and how a number is drawn from it.
CREATE TABLE source (ord serial, name text, draw text);

INSERT INTO source (name, draw) VALUES
    ('segments', 'snowflake_segment_nextval(''bench'')'),
    ('CACHE 1', 'nextval(''cache_1'')'),
    ('CACHE 32', 'nextval(''cache_32'')'),
    ('CACHE 1000', 'nextval(''cache_1000'')'),
    ('snowflake', 'snowflake_nextval()');

CREATE SEQUENCE cache_1;
CREATE SEQUENCE cache_32 CACHE 32;
CREATE SEQUENCE cache_1000 CACHE 1000;
SELECT snowflake_segment_create('bench', step => 1000);

-- Let it begin at 1 again, as if it were new.
CREATE PROCEDURE begin_again(name text) LANGUAGE plpgsql AS $$
BEGIN
    IF name = 'segments' THEN
        PERFORM snowflake_segment_drop('bench', true);
        PERFORM snowflake_segment_create('bench', step => 1000);
    ELSIF name LIKE 'CACHE %' THEN
        EXECUTE format('ALTER SEQUENCE %s RESTART', lower(replace(name, ' ', '_')));
    END IF;
END
$$;

-- For measure_calls().
CREATE FUNCTION candidates(section text, nrows integer)
RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS $$
    SELECT call || ', ns a call', calls_query(call, nrows), 25 * nrows
    FROM unnest(ARRAY['empty_call()', 'clock_timestamp()'] || (SELECT array_agg(draw) FROM source)) AS call
    UNION ALL
    SELECT call || ', ns a number', calls_query(call, nrows / 1000), 25 * (nrows / 1000 * 1000)
    FROM (VALUES ('snowflake_segment_nextval(''bench'', 1000)')) AS c (call)
$$;

-- Numbers that clients have drawn, with the clock before and after.
CREATE TABLE drawn (begun timestamptz, number bigint, done timestamptz);

-- One that is lower than another whose draw was done before its own began is
-- out of order: the share of these, in %, and how far they are behind.
CREATE FUNCTION disorder(OUT share float8, OUT furthest bigint) LANGUAGE sql AS $$
    WITH event AS (
        SELECT begun AS at, false AS is_end, number FROM drawn
        UNION ALL
        SELECT done, true, number FROM drawn),
    seen AS (
        SELECT is_end, number,
               max(number) FILTER (WHERE is_end) OVER (ORDER BY at, is_end ROWS UNBOUNDED PRECEDING) AS highest
        FROM event)
    SELECT 100.0 * count(*) FILTER (WHERE highest > number) / count(*),
           greatest(max(highest - number), 0)
    FROM seen
    WHERE NOT is_end
$$;

-- The log of pgbench with a rate: "us" are from when a transaction was due.
CREATE TABLE latency (client integer, n integer, us bigint, script integer, epoch bigint, epoch_us integer, lag bigint);

-- A cell of a table: the median, and between what it was.
CREATE FUNCTION cell(VARIADIC "values" float8[]) RETURNS text LANGUAGE sql AS $$
    SELECT readable(percentile_cont(0.5) WITHIN GROUP (ORDER BY v))
           || CASE WHEN min(v) < max(v) THEN format(' (%s - %s)', readable(min(v)), readable(max(v))) ELSE '' END
    FROM unnest("values") AS v
$$;
