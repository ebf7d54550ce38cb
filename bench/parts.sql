-- What bench/parts.sh needs in its server, after setup.sql.

CREATE SEQUENCE a_sequence;

-- For measure_calls().
CREATE FUNCTION candidates(section text, nrows integer)
RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS $$
    SELECT format('%s, %s a row, ns an ID', call, ncolumns),
           calls_query(call, nrows / ids, ncolumns), nrows / ids * ids * ncolumns
    FROM (VALUES ('snowflake_nextval()', 1), ('snowflake_nextval(1000)', 1000)) AS c (call, ids),
         unnest(ARRAY[25, 1]) AS ncolumns
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
