-- What bench/run.sh needs in its server: the loops that are timed, and the
-- table of what they took.

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
    SELECT to_char(number, CASE WHEN number = 0 OR number >= 1000 THEN 'FM999,999,999,990'
                                WHEN number >= 10 THEN 'FM990.0'
                                ELSE 'FM990.000' END)
$$;

CREATE SEQUENCE a_sequence;

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

-- What to time in a section: figure, query, and how many calls or IDs it makes.
CREATE FUNCTION candidates(section text, nrows integer)
RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS $$
    SELECT call || ', ns a call', calls_query(call, nrows), 25 * nrows
    FROM unnest(ARRAY['empty_call()', 'clock_timestamp()', 'snowflake_nextval()',
                      'nextval(''a_sequence'')', 'gen_random_uuid()']) AS call
    WHERE section = 'calls'
    UNION ALL
    SELECT 'uuidv7(), ns a call', calls_query('uuidv7()', nrows), 25 * nrows
    WHERE section = 'calls' AND to_regproc('uuidv7') IS NOT NULL
    UNION ALL
    SELECT format('%s, %s a row, ns an ID', call, ncolumns),
           calls_query(call, nrows / ids, ncolumns), nrows / ids * ids * ncolumns
    FROM (VALUES ('snowflake_nextval()', 1), ('snowflake_nextval(1000)', 1000)) AS c (call, ids),
         unnest(ARRAY[25, 1]) AS ncolumns
    WHERE section = 'batch'
$$;

-- Nanoseconds a call.  In each round all candidates in turn, in another order
-- each time; round 0 warms up and is not noted.
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

-- Nanoseconds a call, the better of three times in a row.
CREATE FUNCTION time_calls(call text, nrows integer) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    best    float8 := 'infinity';
    began   timestamptz;
BEGIN
    FOR i IN 1 .. 3 LOOP
        began := clock_timestamp();
        EXECUTE calls_query(call, nrows);
        best := least(best, 1e9 * extract(epoch FROM clock_timestamp() - began) / nrows / 25);
    END LOOP;
    RETURN best;
END
$$;

-- Million calls a second of this backend, one of "backends" that do the same
-- from an instant on.  25 calls a row; in the same loop the last snowflake ID
-- of each row is compared with the clock, read right after it was drawn.
CREATE PROCEDURE measure_rate(call text, backends integer, round integer,
                              begin_at timestamptz, seconds float8)
LANGUAGE plpgsql AS $$
DECLARE
    nrows   constant integer := 10000;
    figure  constant text := format('%s, %s backend%s', call, backends,
                                    CASE WHEN backends > 1 THEN 's' END);
    query   text := calls_query(call, nrows);
    loops   integer := 0;
    ahead   bigint := 0;
    n       bigint;
    began   timestamptz;
    ended   timestamptz;
BEGIN
    IF call = 'snowflake_nextval()' THEN
        query := replace(query, ' FROM generate_series',
            ', snowflake_timestamp(snowflake_currval()) > clock_timestamp() AS ahead FROM generate_series');
        query := replace(query, 'count(*)', 'count(*) FILTER (WHERE ahead)');
    END IF;

    EXECUTE calls_query(call, 1);       -- the first call does more
    PERFORM pg_sleep(extract(epoch FROM begin_at - clock_timestamp()));
    began := clock_timestamp();
    LOOP
        EXECUTE query INTO n;
        ahead := ahead + n;
        loops := loops + 1;
        ended := clock_timestamp();
        EXIT WHEN ended >= begin_at + seconds * interval '1 s';
    END LOOP;

    INSERT INTO sample VALUES
        ('parallel', figure || ', million a second', round,
         25e-6 * nrows * loops / extract(epoch FROM ended - began));
    IF call = 'snowflake_nextval()' THEN
        INSERT INTO sample VALUES
            ('parallel', figure || ', IDs looked at', 1, nrows::float8 * loops),
            ('parallel', figure || ', of these ahead of the clock', 1, ahead);
    END IF;
END
$$;
