-- What bench/run.sh needs in its server, after setup.sql: what it compares, what
-- it measures of each, and the tables of its report.

CREATE SEQUENCE cache_1;
CREATE SEQUENCE cache_32 CACHE 32;
CREATE SEQUENCE cache_1000 CACHE 1000;

-- The snowflake in PL/pgSQL that is well known from Instagram: milliseconds, 13
-- bits for the shard, 10 of a sequence.  Two sessions make the same ID when one
-- is held up between clock and sequence while 1024 others are made.
CREATE SEQUENCE shard_sequence;

CREATE FUNCTION plpgsql_snowflake() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
           | 5 << 10
           | nextval('shard_sequence') % 1024;
END
$$;

-- A UUIDv7 as it is usually made in SQL: a random UUID with the milliseconds put
-- over its first 48 bits, and two bits set for the version.  The planner inlines it.
CREATE FUNCTION uuidv7_at(ts timestamptz) RETURNS uuid LANGUAGE sql PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
                                          PLACING substring(int8send((extract(epoch FROM ts) * 1000)::bigint) FROM 3)
                                          FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- The lowest UUIDv7 of a time.
CREATE FUNCTION uuidv7_from(ts timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM ts) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

SELECT to_regprocedure('uuidv7()') IS NOT NULL AS built_in,
       EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_uuidv7') AS available \gset
\if :built_in
    SELECT 'built in' AS uuidv7_by, 'uuidv7()' AS uuidv7 \gset
\elif :available
    CREATE EXTENSION pg_uuidv7;
    SELECT 'pg_uuidv7' AS uuidv7_by, 'uuid_generate_v7()' AS uuidv7 \gset
\else
    SELECT 'SQL function' AS uuidv7_by, 'uuidv7_at(clock_timestamp())' AS uuidv7 \gset
\endif

-- What is compared, and in which sections of bench/run.sh.  "dearer": about so
-- many times fewer calls take as long as those of the others.
CREATE TABLE candidate (
    ord      serial,
    name     text PRIMARY KEY,
    type     text NOT NULL,
    call     text NOT NULL,
    dearer   integer NOT NULL DEFAULT 1,
    repeats  boolean NOT NULL DEFAULT false,    -- keys can come twice
    created  text,               -- access method of the index on created_at
    what     text NOT NULL,
    sections text[] NOT NULL);

INSERT INTO candidate (name, type, call, dearer, what, sections) VALUES
    ('snowflake', 'bigint', 'snowflake_nextval()', 1, '`snowflake_nextval()`', '{calls,clients,inserts,large,times}'),
    ('bigserial', 'bigint', 'nextval(''cache_1'')', 1, '`nextval()` of a sequence with `CACHE 1`',
     '{calls,clients,inserts,large}'),
    ('sequence CACHE 32', 'bigint', 'nextval(''cache_32'')', 1, '`nextval()` of a sequence; each session takes 32 numbers at a time',
     '{calls,clients,inserts}'),
    ('sequence CACHE 1000', 'bigint', 'nextval(''cache_1000'')', 1, 'the same with 1000 numbers',
     '{calls,clients,inserts,large}'),
    ('UUIDv4', 'uuid', 'gen_random_uuid()', 10, '`gen_random_uuid()`', '{calls,clients,inserts,large}'),
    ('UUIDv7 (' || :'uuidv7_by' || ')', 'uuid', :'uuidv7', 10,
     CASE :'uuidv7_by' WHEN 'SQL function' THEN 'this server has neither `uuidv7()` nor an extension for it, so this is the usual SQL '
                                                'function, which sets time and version in a `gen_random_uuid()`'
                       ELSE format('`%s`, %s', :'uuidv7', :'uuidv7_by') END || '; time ranges use bounds made by hand',
     '{calls,clients,inserts,large,times}'),
    ('plpgsql snowflake', 'bigint', 'plpgsql_snowflake()', 10,
     'the well-known function in PL/pgSQL: milliseconds, a shard number, `nextval() % 1024`', '{calls,clients,inserts}');
UPDATE candidate SET repeats = true WHERE name = 'plpgsql snowflake';
INSERT INTO candidate (name, type, call, created, what, sections) VALUES
    ('bigserial + created_at', 'bigint', 'nextval(''cache_1'')', 'btree',
     'the key and a column `created_at timestamptz DEFAULT now()` with an index', '{inserts,times}'),
    ('bigserial + created_at BRIN', 'bigint', 'nextval(''cache_1'')', 'brin', 'the same, with a BRIN index', '{inserts,times}'),
    ('UUIDv4 + created_at', 'uuid', 'gen_random_uuid()', 'btree', '`gen_random_uuid()` and a column `created_at` with an index',
     '{inserts,times}');
INSERT INTO candidate (ord, name, type, call, what, sections) VALUES
    (-1, 'empty_call()', 'integer', 'empty_call()', 'no key: a C function that does next to nothing, so this is the cost of the executor', '{calls}'),
    (0, 'clock_timestamp()', 'timestamptz', 'clock_timestamp()', 'no key: one read of the clock', '{calls}');

-- For measure_calls().
CREATE FUNCTION candidates(section text, nrows integer)
RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS $$
    SELECT name || ', ns a call', calls_query(call, nrows / dearer), 25 * (nrows / dearer)
    FROM candidate WHERE $1 = ANY (sections)
$$;

-- The columns of the report's tables.  A candidate's figure in "sample" is its
-- name and that of the measure.
CREATE TABLE measure (
    ord      serial,
    section  text NOT NULL,              -- the table of the report
    name     text NOT NULL,
    measured text NOT NULL,              -- in which section of bench/run.sh
    unit     text NOT NULL,
    better   text NOT NULL DEFAULT 'low',
    ratio    boolean NOT NULL DEFAULT false,    -- a table of ratios, too; never 0
    PRIMARY KEY (section, name));

INSERT INTO measure (section, name, measured, unit, ratio) VALUES
    ('calls', 'ns a call', 'calls', 'ns', true);
INSERT INTO measure (section, name, measured, unit, better, ratio)
SELECT 'clients', n, 'clients', 'million IDs a second', 'high', true
FROM regexp_split_to_table(:'clients', ' ') AS n;
INSERT INTO measure (section, name, measured, unit) VALUES
    ('ids', 'WAL bytes an ID', 'clients', 'bytes');
INSERT INTO measure (section, name, measured, unit, better, ratio)
SELECT 'rate', way, 'inserts', 'rows a second', 'high', true
FROM unnest(ARRAY['INSERT SELECT', 'COPY', '1 client', '8 clients', '8 clients x 100', '32 clients x 100']) AS way;
INSERT INTO measure (section, name, measured, unit)
SELECT 'wal', way, 'inserts', 'bytes a row'
FROM unnest(ARRAY['INSERT SELECT', 'COPY', '1 client', '8 clients', '8 clients x 100', '32 clients x 100',
                  'after a checkpoint']) AS way;
INSERT INTO measure (section, name, measured, unit, better) VALUES
    ('index', 'INSERT SELECT: bytes a row', 'inserts', 'bytes', 'low'),
    ('index', 'INSERT SELECT: density %', 'inserts', '%', 'high'),
    ('index', '8 clients x 100: bytes a row', 'inserts', 'bytes', 'low'),
    ('index', '8 clients x 100: density %', 'inserts', '%', 'high'),
    ('index', '32 clients x 100: bytes a row', 'inserts', 'bytes', 'low'),
    ('index', '32 clients x 100: density %', 'inserts', '%', 'high');
INSERT INTO measure (section, name, measured, unit) VALUES
    ('repeats', 'keys made twice', 'inserts', 'keys');
INSERT INTO measure (section, name, measured, unit, better, ratio) VALUES
    ('large', 'rows a second', 'large', 'rows a second', 'high', true),
    ('large', 'WAL bytes a row', 'large', 'bytes', 'low', false),
    ('large', 'blocks read a row', 'large', 'blocks', 'low', false),
    ('large', 'blocks written a row', 'large', 'blocks', 'low', false),
    ('large', 'index bytes a row', 'large', 'bytes', 'low', false),
    ('large', 'blocks read a lookup', 'large', 'blocks', 'low', false);
INSERT INTO measure (section, name, measured, unit, ratio) VALUES
    ('times', 'hour: ms', 'times', 'ms', true),
    ('times', 'day: ms', 'times', 'ms', true),
    ('times', 'hour: buffers', 'times', 'pages', false),
    ('times', 'day: buffers', 'times', 'pages', false),
    ('times', 'key bytes a row', 'times', 'bytes', false),
    ('times', 'created_at index bytes a row', 'times', 'bytes', false),
    ('times', 'table bytes a row', 'times', 'bytes', false);

-- What is missing of so many rounds, or is no number that can be: must be empty.
CREATE FUNCTION gaps(sections text[], rounds integer)
RETURNS TABLE (section text, figure text, round integer) LANGUAGE sql AS $$
    SELECT m.section, c.name || ', ' || m.name, r
    FROM measure AS m JOIN candidate AS c ON m.measured = ANY (c.sections),
         generate_series(1, $2) AS r
    WHERE m.measured = ANY ($1)
      AND NOT EXISTS (SELECT FROM sample AS s
                      WHERE s.section = m.section AND s.figure = c.name || ', ' || m.name AND s.round = r
                        AND s.value < 'infinity' AND (s.value > 0 OR s.value = 0 AND NOT m.ratio))
$$;

-- Each candidate's figures, beside those of snowflake.
CREATE VIEW summary AS
SELECT m.section, m.ord AS measure_ord, m.name AS measure, m.unit, m.better, c.ord, c.name AS candidate, o.*
FROM measure AS m
     JOIN candidate AS c ON m.measured = ANY (c.sections),
     over_rounds(m.section, c.name || ', ' || m.name, 'snowflake, ' || m.name) AS o
WHERE o.rounds > 0;

CREATE FUNCTION with_spread(number float8, low float8, high float8) RETURNS text LANGUAGE sql AS $$
    SELECT readable(number)
           || CASE WHEN readable(low) <> readable(high) THEN format(' (%s - %s)', readable(low), readable(high))
                   ELSE '' END
$$;

-- The query that makes a table of the report: of "values" or "ratios".  NULL
-- where there are none.
CREATE FUNCTION table_query(section text, what text) RETURNS text LANGUAGE sql AS $$
    SELECT 'SELECT candidate AS key, '
           || string_agg(format('max(%s) FILTER (WHERE measure = %L) AS %I',
                                CASE what WHEN 'ratios' THEN 'with_spread(ratio, ratio_min, ratio_max)'
                                          ELSE 'with_spread(value, value_min, value_max)' END,
                                name, name), ', ' ORDER BY ord)
           || format(' FROM summary WHERE section = %L GROUP BY ord, candidate ORDER BY ord', $1)
    FROM measure AS m
    WHERE m.section = $1 AND (ratio OR what = 'values')
$$;

-- For section "large": blocks of tables and indexes that all processes wrote since
-- the statistics were reset.  Before PostgreSQL 16 with those that backends added.
SELECT current_setting('server_version_num')::integer AS version \gset
SELECT CASE WHEN :version >= 180000 THEN 'SELECT sum(write_bytes)::float8 / 8192 FROM pg_stat_io WHERE object = ''relation'''
            WHEN :version >= 160000 THEN 'SELECT sum(writes)::float8 FROM pg_stat_io WHERE object = ''relation'''
            ELSE 'SELECT (buffers_checkpoint + buffers_clean + buffers_backend)::float8 FROM pg_stat_bgwriter' END AS written,
       format('SELECT pg_stat_reset(); SELECT pg_stat_reset_shared(%L)',
              CASE WHEN :version >= 160000 THEN 'io' ELSE 'bgwriter' END) AS reset \gset
CREATE FUNCTION reset_blocks() RETURNS void LANGUAGE sql AS :'reset';
CREATE FUNCTION blocks_written() RETURNS float8 LANGUAGE sql AS :'written';

-- Blocks of the table and its indexes that were not found in shared_buffers.
CREATE FUNCTION blocks_read() RETURNS float8 LANGUAGE sql AS $$
    SELECT (heap_blks_read + idx_blks_read)::float8 FROM pg_statio_user_tables WHERE relname = 'fill'
$$;


-- A backend hands in its statistics before it goes: wait until all are gone.
CREATE PROCEDURE wait_for_statistics() LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END
$$;

-- Why another key is better by its nature; LIKE patterns.
CREATE TABLE reason (section text, candidate text, measure text, why text);

INSERT INTO reason VALUES
    ('times', '%BRIN', 'day: %',
     'a BRIN has no entry for each row, but reads whole ranges of 128 pages: less work for a long period, more for a short one'),
    ('times', '%BRIN', '%bytes a row', 'a BRIN has one entry for 128 pages'),
    ('rate', 'sequence CACHE%', '% clients%',
     'each session fills its own leaf pages with the numbers of its cache, so sessions wait less for one page; in return the order of time is lost and the index is larger'),
    ('large', 'sequence CACHE%', 'rows a second',
     'each session fills its own leaf pages with the numbers of its cache, so sessions wait less for one page; in return the order of time is lost and the index is larger');

-- Where another key is better than snowflake in every round, and by 2% or more.
CREATE VIEW loss AS
SELECT s.section, s.measure, s.candidate, s.measure_ord, s.ord, s.value, base.value AS base, s.ratio,
       coalesce((SELECT string_agg(r.why, '; ') FROM reason AS r
                 WHERE s.section LIKE r.section AND s.candidate LIKE r.candidate AND s.measure LIKE r.measure),
                '**no reason known**') AS why
FROM summary AS s
     JOIN summary AS base ON (base.section, base.measure, base.candidate) = (s.section, s.measure, 'snowflake')
     JOIN candidate AS c ON c.name = s.candidate
WHERE c.sections <> '{calls}' AND s.section <> 'ids'
  AND CASE s.better WHEN 'low' THEN s.ratio_max < 1 AND s.ratio <= 0.98 ELSE s.ratio_min > 1 AND s.ratio >= 1.02 END;

-- The most important of all, in one table.
CREATE VIEW glance AS
SELECT candidate AS key,
       coalesce(max(readable(value)) FILTER (WHERE section = 'calls'), '-') AS "a call, ns",
       coalesce(max(readable(value)) FILTER (WHERE section = 'clients' AND measure = '8'), '-')
           AS "million IDs a second, 8 clients",
       max(readable(ratio)) FILTER (WHERE section = 'rate' AND measure = 'INSERT SELECT') AS "speed of INSERT SELECT",
       max(readable(ratio)) FILTER (WHERE section = 'rate' AND measure = '8 clients x 100')
           AS "speed of 8 clients x 100",
       max(readable(value)) FILTER (WHERE section = 'wal' AND measure = 'INSERT SELECT') AS "WAL bytes a row",
       max(readable(value)) FILTER (WHERE section = 'wal' AND measure = 'after a checkpoint') AS "WAL bytes after a checkpoint",
       max(readable(value)) FILTER (WHERE section = 'index' AND measure = 'INSERT SELECT: bytes a row')
           AS "index bytes a row",
       max(readable(value)) FILTER (WHERE section = 'index' AND measure = '32 clients x 100: bytes a row')
           AS "index bytes, 32 clients x 100",
       coalesce(max(readable(value)) FILTER (WHERE section = 'large' AND measure = 'blocks read a row'), '-')
           AS "blocks read a row, large table"
FROM summary
WHERE ord > 0
GROUP BY ord, candidate
ORDER BY ord;
