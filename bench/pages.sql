-- What bench/pages.sh needs in its server: the keys that it compares, and
-- what it notes about the pages of their index.

CREATE EXTENSION snowflake;
CREATE EXTENSION pgstattuple;
CREATE EXTENSION pageinspect;
CREATE EXTENSION pg_walinspect;

-- A UUIDv7 by RFC 9562: milliseconds in the first 48 bits, the version, 12 bits
-- given, the rest random.
CREATE FUNCTION uuidv7_of(us bigint, bits integer) RETURNS uuid LANGUAGE sql AS $$
    SELECT encode(int8send(((us / 1000) << 16) | (7 << 12) | bits)
                  || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
$$;

CREATE FUNCTION clock_us() RETURNS bigint LANGUAGE sql AS $$
    SELECT (1000000 * extract(epoch FROM clock_timestamp()))::bigint
$$;

-- The 12 bits random: the simplest form.
CREATE FUNCTION uuidv7_ms() RETURNS uuid LANGUAGE sql AS $$
    SELECT uuidv7_of(clock_us(), floor(4096 * random())::integer)
$$;

-- The 12 bits the fraction of the millisecond: as uuidv7() of PostgreSQL 18.
CREATE FUNCTION uuidv7_fraction() RETURNS uuid LANGUAGE sql AS $$
    SELECT uuidv7_of(us, (us % 1000 * 4096 / 1000)::integer) FROM clock_us() AS us
$$;

-- IDs as an application with a generator of its own would draw them: an ID of
-- this server in time:41 node:10 sequence:12, with another node number.  No
-- (time, sequence) comes twice here, so none does with the number either.
CREATE FUNCTION at_node(id bigint, node integer) RETURNS bigint LANGUAGE sql AS $$
    SELECT (id & ~(1023::bigint << 12)) | (node::bigint << 12)
$$;

-- The same as node:10 time:41 sequence:12.
CREATE FUNCTION at_node_first(id bigint, node integer) RETURNS bigint LANGUAGE sql AS $$
    SELECT (node::bigint << 53) | ((id >> 22) << 12) | (id & 4095)
$$;

DO $$
DECLARE
    ms  constant bigint := 36257524056;
    id  constant bigint := (ms << 22) | (782 << 12) | 3418;
BEGIN
    ASSERT at_node(id, 5) = (ms << 22) | (5 << 12) | 3418;
    ASSERT at_node_first(id, 5) = (5::bigint << 53) | (ms << 12) | 3418;
END
$$;

-- The keys.  "draw" is what an application draws IDs with before it inserts
-- them; without it they are the column's default.  "sections" says in which
-- sections of bench/pages.sh they are.
CREATE TABLE key (
    ord     serial,
    name    text PRIMARY KEY,
    layout  text NOT NULL DEFAULT 'time:41 node:10 sequence:12',
    columns text NOT NULL,
    draw    text,
    sections   text[] NOT NULL);

INSERT INTO key (name, columns, sections) VALUES
    ('bigserial', 'id bigserial PRIMARY KEY', '{inserts,queue,random}'),
    ('bigserial CACHE 100', 'id bigint PRIMARY KEY DEFAULT nextval(''cached'')', '{inserts}'),
    ('UUIDv4', 'id uuid PRIMARY KEY DEFAULT gen_random_uuid()', '{inserts,queue,random}'),
    ('UUIDv7', 'id uuid PRIMARY KEY DEFAULT uuidv7_ms()', '{inserts,slow,queue,random}'),
    ('UUIDv7 fraction', 'id uuid PRIMARY KEY DEFAULT '
                        || CASE WHEN to_regprocedure('uuidv7()') IS NULL THEN 'uuidv7_fraction()' ELSE 'uuidv7()' END,
     '{inserts}');
INSERT INTO key (name, layout, columns, sections)
SELECT name, layout, 'id bigint PRIMARY KEY DEFAULT snowflake_nextval()', sections::text[]
FROM (VALUES ('time node worker', 'time:41 node:5 worker:5 sequence:12', '{inserts,slow,queue,random}'),
             ('time node', 'time:41 node:10 sequence:12', '{inserts,queue,random}'),
             ('node time', 'node:10 time:41 sequence:12', '{inserts}'),
             ('node worker time', 'node:5 worker:5 time:41 sequence:12', '{inserts}')) AS k (name, layout, sections);
INSERT INTO key (name, columns, draw, sections) VALUES
    ('many: UUIDv7', 'id uuid PRIMARY KEY', 'uuidv7_ms()', '{inserts}'),
    ('many: time node', 'id bigint PRIMARY KEY', 'at_node(snowflake_nextval(), :client_id)',
     '{inserts,slow,queue,random}'),
    ('many: time node 20ms', 'id bigint PRIMARY KEY',
     'at_node(snowflake_nextval(), :client_id) - (37 * :client_id % 21::bigint << 22)', '{inserts,slow}'),
    ('many: node time', 'id bigint PRIMARY KEY', 'at_node_first(snowflake_nextval(), :client_id)',
     '{inserts,queue,random}'),
    ('many: (node,id)',
     'id bigint NOT NULL, node smallint GENERATED ALWAYS AS ((id >> 53)::smallint) STORED, PRIMARY KEY (node, id)',
     'at_node_first(snowflake_nextval(), :client_id)', '{inserts,queue,random}');

CREATE SEQUENCE cached CACHE 100;

-- One transaction of a writer, for pgbench.
CREATE FUNCTION writer_script(key key, nrows integer, n integer) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN key.draw IS NULL
                THEN format('INSERT INTO fill (n) SELECT %s FROM generate_series(1, %s);', n, nrows)
                ELSE format(E'SELECT array_agg(%s) AS ids FROM generate_series(1, %s) \\gset\n'
                            'INSERT INTO fill (id, n) SELECT unnest(:ids::%s[]), %s;',
                            key.draw, nrows, split_part(key.columns, ' ', 2), n) END
$$;

-- What was measured after a fill, or after each cycle of one with deletes.
-- Counts from the WAL, rows inserted and seconds are those of the cycle.
CREATE TABLE page_sample (
    section     text NOT NULL,      -- 'inserts', 'slow', 'queue' or 'random'
    name        text NOT NULL REFERENCES key,
    writers     integer NOT NULL,
    nrows       integer NOT NULL,   -- a transaction
    round       integer NOT NULL,
    cycle       integer NOT NULL,
    inserted    float8 NOT NULL,
    seconds     float8 NOT NULL,
    live        float8 NOT NULL,
    pages       float8 NOT NULL,    -- of the index, without the first
    density     float8 NOT NULL,    -- of its leaf pages, %: by pgstatindex
    fragments   float8 NOT NULL,    -- leaf fragmentation, %
    density_too float8 NOT NULL,    -- as density: by pageinspect
    leaves      float8 NOT NULL,
    half        float8 NOT NULL,    -- of these up to 60% full
    most        float8 NOT NULL,    -- 60 to 80%
    splits      float8 NOT NULL,
    roots       float8 NOT NULL,    -- new roots; the first page is one
    reused      float8 NOT NULL,
    wal         float8 NOT NULL,    -- bytes
    index_wal   float8 NOT NULL,
    PRIMARY KEY (section, name, writers, nrows, round, cycle));

SET check_function_bodies = off;    -- the table "fill" comes later

CREATE PROCEDURE note(section text, name text, writers integer, nrows integer, round integer,
                      cycle integer, inserted integer, began timestamptz, from_lsn pg_lsn)
LANGUAGE sql AS $$
    INSERT INTO page_sample
    SELECT $1, $2, $3, $4, $5, $6, $7, extract(epoch FROM clock_timestamp() - began), live, pages,
           avg_leaf_density, leaf_fragmentation, leaf.*, wal.*
    FROM (SELECT count(*) AS live FROM fill) AS f,
         pgstatindex('fill_pkey'),
         LATERAL (SELECT index_size / current_setting('block_size')::integer - 1 AS pages) AS p,
         LATERAL (SELECT 100 * sum(used) / sum(room), count(*), count(*) FILTER (WHERE used <= 0.6 * room),
                         count(*) FILTER (WHERE used > 0.6 * room AND used <= 0.8 * room)
                  FROM (SELECT page_size - free_size - 40.0 AS used, page_size - 40.0 AS room
                        FROM generate_series(1, pages) AS block, bt_page_stats('fill_pkey', block)
                        WHERE type = 'l') AS page) AS leaf,
         LATERAL (SELECT coalesce(sum(count) FILTER (WHERE type ~ '^Btree/SPLIT'), 0),
                         coalesce(sum(count) FILTER (WHERE type = 'Btree/NEWROOT'), 0),
                         coalesce(sum(count) FILTER (WHERE type = 'Btree/REUSE_PAGE'), 0),
                         sum(size), sum(size) FILTER (WHERE type ~ '^Btree/')
                  FROM pg_get_wal_stats(from_lsn, pg_current_wal_flush_lsn(), true)
                       AS s (type, count, count_share, size)) AS wal
$$;

-- Each fill's figures.  With deletes, sizes are those after the last cycle,
-- and splits those of the cycles after the third: what it has come to.
CREATE VIEW figure AS
SELECT section, ord, name, writers, nrows, round, measure, value
FROM page_sample AS last
     JOIN key USING (name)
     CROSS JOIN LATERAL (SELECT sum(splits) AS splits, sum(inserted) AS inserted
                         FROM page_sample AS s
                         WHERE (s.section, s.name, s.writers, s.nrows, s.round)
                               = (last.section, last.name, last.writers, last.nrows, last.round)
                           AND (s.section IN ('inserts', 'slow') OR s.cycle > 3)) AS late
     CROSS JOIN LATERAL (VALUES ('splits', 1000 * late.splits / late.inserted),
                                ('bytes', (pages + 1) * current_setting('block_size')::integer / live),
                                ('density', density),
                                ('fragmentation', fragments),
                                ('half', 100 * half / leaves),
                                ('most', 100 * most / leaves),
                                ('full', 100 * (leaves - half - most) / leaves),
                                ('index WAL', index_wal / last.inserted),
                                ('WAL', wal / last.inserted),
                                ('rows a second', last.inserted / seconds)) AS m (measure, value)
WHERE cycle = (SELECT max(cycle) FROM page_sample AS s WHERE s.section = last.section);

-- Over the rounds: medians, and the spread where it is more than 2% of them.
CREATE VIEW result AS
SELECT section, ord, name, writers, nrows, measure, value, least, most,
       to_char(value, format) || CASE WHEN most - least > 0.02 * value AND to_char(least, format) <> to_char(most, format)
                                      THEN format(' (%s-%s)', to_char(least, format), to_char(most, format))
                                      ELSE '' END AS shown
FROM (SELECT section, ord, name, writers, nrows, measure, min(value) AS least, max(value) AS most,
             percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS value
      FROM figure
      GROUP BY 1, 2, 3, 4, 5, 6) AS f,
     LATERAL (SELECT CASE WHEN value >= 1000 THEN 'FM999,999,990' WHEN value < 10 AND measure = 'splits' THEN 'FM0.00'
                          ELSE 'FM990.0' END AS format) AS x;

-- What was measured in one way must agree with what follows from another:
-- pages with what the WAL says, density by pgstatindex with that by
-- pageinspect, and with the number of rows by the size of their tuples (20 or
-- 28 bytes with the line pointer; each page but the last has a high key of
-- the same size; what one line pointer takes does not count as free).
CREATE FUNCTION disagreements() RETURNS TABLE (what text, fill text) LANGUAGE sql AS $$
    SELECT 'pages and WAL', format('%s, %s, %s writers, %s rows, round %s', section, name, writers, nrows, round)
    FROM page_sample
    GROUP BY section, name, writers, nrows, round
    HAVING sum(splits + roots - reused) <> (array_agg(pages ORDER BY cycle DESC))[1]
    UNION ALL
    SELECT 'density', format('%s, %s, %s writers, %s rows, round %s', section, name, writers, nrows, round)
    FROM page_sample JOIN key USING (name),
         LATERAL (SELECT CASE split_part(columns, ' ', 2) WHEN 'uuid' THEN 28 ELSE 20 END AS tuple) AS t
    WHERE abs(density - density_too) > 0.01
       OR section IN ('inserts', 'slow') AND columns !~ 'node'
          AND abs(density - 100 * (tuple * (live + leaves - 1) + 4 * leaves)
                            / ((current_setting('block_size')::integer - 40) * leaves)) > 0.01
$$;
