-- Business keys: formats, routes, drawing, reading.
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

SELECT FROM (VALUES ('user', 'US', 4, 8), ('order', 'UD', 4, 8), ('refund', 'R', 2, 3)) AS v(name, prefix, dbs, tables),
    snowflake_key_format_create(v.name, prefix, dbs, tables);
SELECT snowflake_key_format_create('shanghai', 'SH', 4, 8, time_zone => 'Asia/Shanghai');
SELECT * FROM snowflake_key_formats();

-- an order number as it was published: this server's layout has no node 53, and begins in
-- 2020, so there is no ID to it
SELECT state, message, detail FROM error_of($$SELECT snowflake_key_parse('UD000000011902261230103345300002')$$);
SELECT * FROM snowflake_key_parse('UD000000011902261230103342400002') \gx
SELECT *, snowflake_compose(ts, node, 0, sequence::integer) = id AS same
FROM snowflake_key_parse('UD000000012102261230103342400002');
SELECT *, snowflake_compose(ts, node, 3, 4095) = id AS same
FROM snowflake_key_parse('SH030031012102261230103342416383');

--
-- Routes
--

-- a number modulo the tables is the table, and that divided by the tables of each database is the database;
-- with tables that are not databases squared, no database stays empty
SELECT count(*) FILTER (WHERE r."table" <> n % 32 OR r.database <> r."table" / 8) AS wrong,
       array_agg(DISTINCT r.database ORDER BY r.database) AS databases
FROM generate_series(0, 1000) AS n, snowflake_route(n, 4, 8) AS r;
SELECT n, r.* FROM (VALUES (0), (7), (8), (31), (32), (9223372036854775807)) v(n), snowflake_route(n, 4, 8) AS r;
SELECT * FROM snowflake_route(9223372036854775807, 1, 2147483647);

-- digits are a number, in a text too, and with any method
SELECT t, r.*, h."table" AS hash FROM
    (VALUES ('0'), ('42'), ('0042'), ('9223372036854775807'), ('18446744073709551617'), (repeat('9', 40))) v(t),
    snowflake_route(t, 4, 8) AS r, snowflake_route(t, 4, 8, 'hash') AS h;
SELECT snowflake_route('42', 4, 8) = snowflake_route(42, 4, 8) AS same;

-- texts: by FNV-1a, as its authors publish it, with the upper half folded into the lower; alike on all machines
SELECT t, r."table", h."table" AS hash, (upper::numeric * 4294967296 + (upper # lower)) % 2147483647 AS expected FROM
    (VALUES ('a', x'af63dc4c'::bigint, x'8601ec8c'::bigint),
            ('foobar', x'85944171'::bigint, x'f73967e8'::bigint)) v(t, upper, lower),
    snowflake_route(t, 1, 2147483647) AS r, snowflake_route(t, 1, 2147483647, 'hash') AS h;
SELECT t, r.* FROM (VALUES ('café'), ('日本'), ('ü')) v(t), snowflake_route(t, 4, 8, 'hash') AS r;
SELECT t, r.* FROM (VALUES ('alice'), ('Alice'), ('C-1001'), ('-1'), ('1.5'), (' 1'), (E'\x01~')) v(t),
    snowflake_route(t, 4, 8) AS r;
SELECT count(*), count(*) FILTER (WHERE snowflake_route(t, 3, 7) = snowflake_route(t, 3, 7, 'hash')) AS same
FROM (SELECT 'n' || i AS t FROM generate_series(1, 1000) AS i) AS texts;

-- even: chi-square within 5 standard deviations
CREATE FUNCTION is_even(kind text, tables integer, method text) RETURNS boolean LANGUAGE sql AS $$
    SELECT sum((coalesce(n, 0) - 20000.0 / tables) ^ 2 / (20000.0 / tables)) < tables - 1 + 5 * sqrt(2.0 * (tables - 1))
    FROM generate_series(0, tables - 1) AS t
    LEFT JOIN (SELECT (snowflake_route(CASE kind WHEN 'customers' THEN 'C' || i WHEN 'mails' THEN 'u' || i || '@example.com'
                                       WHEN 'names' THEN md5(i::text) WHEN 'pairs' THEN i || '-' || i WHEN 'accents' THEN 'né' || i
                                       ELSE i::text END, 1, tables, method))."table" AS t, count(*) AS n
               FROM generate_series(1, 20000) AS i GROUP BY 1) AS counts USING (t)
$$;
SELECT kind, method, array_agg(tables ORDER BY tables) AS even FROM
    (VALUES ('customers', 'codes'), ('mails', 'codes'), ('names', 'codes'), ('pairs', 'codes'), ('accents', 'hash'), ('numbers', 'hash')) k(kind, method),
    (VALUES (2), (7), (32), (100), (1024)) t(tables)
WHERE is_even(kind, tables, method) GROUP BY kind, method ORDER BY kind, method;
CREATE TEMP TABLE drawn AS SELECT (snowflake_route(id, 4, 8))."table" AS t FROM snowflake_nextval(32000) AS id;
SELECT count(DISTINCT t) AS tables, sum((n - 1000) ^ 2 / 1000) < 31 + 5 * sqrt(62) AS even
FROM (SELECT t, count(*) AS n FROM drawn GROUP BY t) AS counts;

-- not a route
SELECT call, e.* FROM
    (VALUES ('-1, 4, 8'), ('-9223372036854775808, 4, 8'), ('1, 0, 8'), ('1, 4, 0'), ('1, -4, 8'), ('1, 65536, 32768'),
            ('NULL::bigint, 4, 8'), ('1, NULL, 8'), ('1, 4, NULL'),
            ('NULL::text, 4, 8'), ('''''::text, 4, 8'), ('''''::text, 4, 8, ''hash'''), ('''café'', 4, 8'), ('''日本'', 4, 8'),
            ('''a'', 4, 8, ''HASH'''), ('''a'', 4, 8, NULL')) v(call),
    LATERAL error_of(format('SELECT snowflake_route(%s)', call)) e;

-- IMMUTABLE: a generated column of a table may be its shard
CREATE TABLE key_customers (
    id bigint PRIMARY KEY,
    shard integer GENERATED ALWAYS AS ((snowflake_route(id, 4, 8))."table") STORED,
    name text,
    name_shard integer GENERATED ALWAYS AS ((snowflake_route(name, 4, 8))."table") STORED
);
INSERT INTO key_customers (id, name) VALUES (42, 'alice'), (43, 'bob') RETURNING *;
DROP TABLE key_customers;

--
-- Drawing
--

-- the parse gives what the key was made from; the shard is the route's
CREATE TEMP TABLE keys AS
SELECT format, i, (CASE format WHEN 'refund' THEN snowflake_key(format, i::text) ELSE snowflake_key(format, i) END) AS key,
       snowflake_currval() AS id
FROM (VALUES ('user'), ('order'), ('refund'), ('shanghai')) f(format), generate_series(0, 9999) AS i;
SELECT k.format, count(*), count(DISTINCT key) AS keys, count(DISTINCT p.id) AS ids, min(length(key)), max(length(key)),
       bool_and(p.format = k.format AND p.id = k.id AND p.ts = snowflake_timestamp(k.id)
                AND p.node = (snowflake_parse(k.id)).node AND p.version = 1 AND key LIKE p.prefix || '%') AS as_drawn,
       bool_and((p.database, p."table") = CASE k.format WHEN 'refund' THEN snowflake_route(i, 2, 3) ELSE snowflake_route(i, 4, 8) END) AS routed,
       bool_and(substr(key, length(p.prefix) + 9, 15) =
                to_char(p.ts AT TIME ZONE CASE k.format WHEN 'shanghai' THEN 'Asia/Shanghai' ELSE 'UTC' END, 'YYMMDDHH24MISSMS')) AS timed,
       bool_and(p.sequence = (snowflake_parse(k.id)).worker * 4096 + (snowflake_parse(k.id)).sequence) AS numbered
FROM keys AS k, snowflake_key_parse(key) AS p GROUP BY k.format ORDER BY k.format;
SELECT count(DISTINCT key) FROM keys;

-- the session's own settings do not matter
BEGIN;
SET LOCAL timezone = 'America/New_York';
SET LOCAL datestyle = 'German';
SELECT bool_and(p.id = k.id) AS same FROM keys AS k, snowflake_key_parse(key) AS p WHERE k.format = 'shanghai';
ROLLBACK;

-- by name; and what number a literal is
SELECT substr(snowflake_key(format => 'order', route => 42), 1, 10) AS number,
       substr(snowflake_key('order', '42'), 1, 10) AS literal,
       substr(snowflake_key('order', 42::smallint), 1, 10) AS smallint,
       substr(snowflake_key('order', 'alice'), 1, 10) AS text, snowflake_route('alice', 4, 8) AS route;

-- texts of any characters, where the format says so
SELECT snowflake_key_format_create('guest', 'GS', 4, 8, text_route => 'hash');
SELECT t, (p.database, p."table") = snowflake_route(t, 4, 8, 'hash') AS hashed
FROM (VALUES ('alice'), ('café'), ('42')) v(t), snowflake_key('guest', t) AS key, snowflake_key_parse(key) AS p;

-- a key of another row is on its shard, where shards are counted alike; else its ID routes
SELECT snowflake_key_format_create('coupon', 'CP', 8, 4);
SELECT bool_and(substr(o, 3, 6) = substr(k.key, 3, 6)) AS same_shard FROM keys AS k, snowflake_key('order', k.key) AS o
WHERE format IN ('user', 'shanghai');
SELECT k.format, bool_and((p.database, p."table") = snowflake_route(k.id, 8, 4)) AS by_id
FROM keys AS k, snowflake_key('coupon', k.key) AS c, snowflake_key_parse(c) AS p WHERE i < 1000 GROUP BY k.format ORDER BY k.format;

-- what has the prefix and the length of a key must be one
SELECT key, e.state, e.message, e.detail FROM
    (VALUES ('US000000012113261230103342400002'), ('US0000000121022612301033424O0002'), ('US000000022102261230103342400002')) v(key),
    LATERAL error_of(format('SELECT snowflake_key(''order'', %L::text)', key)) e;
SELECT route, substr(snowflake_key('order', route), 1, 8) LIKE 'UD' || to_char((r).database, 'FM00') || to_char((r)."table", 'FM0000') AS by_codes
FROM (SELECT route, snowflake_route(route, 4, 8) AS r FROM
    (VALUES ('US1'), ('US00000001211326123010334240000'), ('us000000012113261230103342400002'), ('XX000000012113261230103342400002')) v(route)) AS routes;

-- neither a format nor a route
SELECT call, e.* FROM
    (VALUES ('''nothing'', 1'), ('''ORDER'', 1'), ('''order '', 1'), ('NULL, 1'), ('''order'', NULL::bigint'), ('''order'', NULL::text'),
            ('''order'', -1'), ('''order'', ''''::text'), ('''order'', ''café''')) v(call),
    LATERAL error_of(format('SELECT snowflake_key(%s)', call)) e;

-- the default of a column; ranges of the text are the shards, and the planner finds the one of a key
CREATE TABLE key_users (no text COLLATE "C" PRIMARY KEY DEFAULT snowflake_key('user', snowflake_nextval()), name text);
INSERT INTO key_users (name) VALUES ('alice'), ('bob');
SELECT count(*), bool_and((snowflake_key_parse(no)).format = 'user') AS keys FROM key_users;
CREATE TABLE key_orders (no text COLLATE "C" PRIMARY KEY, user_no text) PARTITION BY RANGE (no);
CREATE TABLE key_orders_0 PARTITION OF key_orders FOR VALUES FROM ('UD00') TO ('UD01');
CREATE TABLE key_orders_1 PARTITION OF key_orders FOR VALUES FROM ('UD01') TO ('UD02');
CREATE TABLE key_orders_2 PARTITION OF key_orders FOR VALUES FROM ('UD02') TO ('UD03');
CREATE TABLE key_orders_3 PARTITION OF key_orders FOR VALUES FROM ('UD03') TO ('UD04');
INSERT INTO key_orders SELECT snowflake_key('order', no), no FROM key_users, generate_series(1, 100);
SELECT bool_and(o.tableoid::regclass::text = 'key_orders_' || (snowflake_key_parse(user_no)).database) AS with_user FROM key_orders AS o;
EXPLAIN (COSTS OFF) SELECT * FROM key_orders WHERE no = 'UD030024012102261230103342400002';
DROP TABLE key_orders, key_users;

--
-- Reading
--

SELECT snowflake_key_parse(NULL) IS NULL AS null_is_null;
SELECT key, e.state, e.detail FROM
    (VALUES (''), ('U'), ('UD'), ('UD0'), ('UD00000001210226123010334240000'), ('UD0000000121022612301033424000023'),
            ('UD000000012102261230103342400002 '), (' UD000000012102261230103342400002'), ('ud000000012102261230103342400002'),
            ('UDX000000012102261230103342400002'), ('000000012102261230103342400002'), ('abcdefghijklmnopqrstuvwxyz1'), ('é1'),
            ('UDé00000012102261230103342400002'), ('UD00000001210226123010334é400002'), ('UD0000000121022612301033424000é2'),
            ('UD0O0000012102261230103342400002'), ('UD000000012102261230103342400-02'), ('UD00000001210226123010334240000٢'),
            ('UD040000012102261230103342400002'), ('UD000032012102261230103342400002'), ('UD010000012102261230103342400002'),
            ('UD000008012102261230103342400002'), ('UD000000002102261230103342400002'), ('UD000000022102261230103342400002'),
            ('UD000000012100261230103342400002'), ('UD000000012113261230103342400002'), ('UD000000012102001230103342400002'),
            ('UD000000012102291230103342400002'), ('UD000000012402301230103342400002'), ('UD000000012104311230103342400002'),
            ('UD000000012102262430103342400002'), ('UD000000012102261260103342400002'), ('UD000000012102261230603342400002'),
            ('UD000000012102261230103343200002'), ('UD000000012102261230103349999999'), ('UD000000012102261230103342498304')) v(key),
    LATERAL error_of(format('SELECT snowflake_key_parse(%L)', key)) e;
-- at the ends of the layout's time, and beyond
SELECT key, p.ts, p.sequence, p.id FROM
    (VALUES ('UD000000010001010000000000000000'), ('UD000000011912312359599992400002'), ('UD000000012001010000000000000000'),
            ('UD030031012402292359599993198303'), ('UD000000018909061547355513100000'), ('UD000000018909061547355523100000'),
            ('UD000000019912312359599993198303')) v(key),
    snowflake_key_parse(key) AS p;
SELECT e.* FROM error_of(format('SELECT snowflake_key_parse(%L)', repeat('é', 1000))) e;

-- a bijection: what is read is written the same, over the layout's lifetime
SELECT count(*), count(DISTINCT p.id) FROM
    (SELECT 'SH000000' || '01' || to_char(ts AT TIME ZONE 'Asia/Shanghai', 'YYMMDDHH24MISSMS') || '24' || '00007' AS key, ts
     FROM generate_series('2020-01-01 00:00+00'::timestamptz, '2089-09-06', '1 day 01:02:03.004') AS ts) AS k,
    snowflake_key_parse(key) AS p
WHERE p.ts = k.ts AND p.id = snowflake_compose(k.ts, 24, 0, 7);

--
-- Keys of IDs that there are
--

SELECT snowflake_key('order', 42, 912527159162177820), snowflake_key('order', '42', 912527159162177820),
    snowflake_key('order', 'UD000007012102261230103342400002', 912527159162177820),
    snowflake_key('shanghai', 42, 912527159162177820);
-- of a time in the past
SELECT snowflake_key('order', 42, snowflake_compose('2021-02-26 12:30:10.334+00', 24, 0, 2));
SELECT key, snowflake_key('refund', key, 912527159162177820) FROM
    (VALUES ('UD000000012102261230103342400002'), ('US030031012102261230103342400002')) v(key);
-- each reads as it was, over the layout's lifetime
SELECT count(*), count(DISTINCT key) FROM
    (SELECT id, snowflake_key('shanghai', id, id) AS key FROM snowflake_nextval(1000) AS id
     UNION ALL SELECT id, snowflake_key('shanghai', 'x' || id, id)
     FROM generate_series(0, 1000) AS n,
         snowflake_compose('2020-01-01+00'::timestamptz + n * interval '25 days 01:02:03.004', n % 32, n % 24, n * 4 % 4096) AS id) AS k,
    snowflake_key_parse(key) AS p
WHERE p.id = k.id;
SELECT (snowflake_key_parse(snowflake_key('order', 42))).id = snowflake_currval() AS same,
    snowflake_key('order', 42, snowflake_currval()) ~ '^UD01001001' AS again;
-- the worker number of backfilling needs six digits
SELECT snowflake_key_format_create('past', 'PA', 4, 8, sequence_width => 6);
SELECT snowflake_key('past', 42, id) AS key, id FROM snowflake_backfill('2021-02-26 12:30:10.334+00') AS id \gset
SELECT :'key' ~ '^PA0100100121022612301033424[0-9]{6}$' AS past, p.id = :id AS same, p.sequence / 4096 AS worker
FROM snowflake_key_parse(:'key') AS p;
SELECT snowflake_key_format_drop('past');
SELECT call, e.state, e.message, e.detail, e.hint FROM
    (VALUES ($$'order', 42, 4611686018427387904 + 23 * 4096 + 4095$$), ($$'order', 42, 4611686018427387904 + 24 * 4096$$),
            ($$'order', 42, 9223372036854775807$$), ($$'order', 42, -1$$), ($$'order', -1, 1$$), ($$'order', 42, NULL$$),
            ($$'order', NULL::bigint, 1$$), ($$'order', NULL::text, 1$$), ($$NULL, 42, 1$$), ($$'order', '', 1$$), ($$'nowhere', 42, 1$$), ($$'order', 'nö', 1$$),
            ($$'order', 'UD000000012113261230103342400002', 1$$), ($$'order', 42, 'nonsense'$$), ($$'order', 42, snowflake_compose('infinity', 0, 0, 0)$$),
            ($$'refund', 'UD000000011912312359599992400002', 1$$), ($$'refund', 'UD000000011912312359599992400002'$$)) v(call),
    LATERAL error_of(format('SELECT snowflake_key(%s)', call)) e;
-- a key from before the epoch leads to its own shard
SELECT snowflake_key('user', 'UD010010011903251430151230100001', 912527159162177820);
SELECT pronargs, provolatile, proisstrict, proparallel FROM pg_proc WHERE proname = 'snowflake_key' ORDER BY pronargs;

--
-- Formats
--

-- of which keys could be equal, or cannot be written
SELECT v.name, prefix, db_count AS dbs, tables_per_db AS tables, set, e.state, e.message, e.detail FROM
    (VALUES ('node', 'ND', 1, 1, 'node_width 1'), ('sequence', 'SQ', 1, 1, 'sequence_width 3'), ('sequence', 'SQ', 1, 1, 'sequence_width 0'),
            ('database', 'DB', 101, 1, NULL), ('database', 'DB', 2, 1, 'database_width 0'),
            ('table', 'TB', 100, 101, NULL), ('table', 'TB', 2147483647, 2147483647, NULL),
            ('version', 'VR', 1, 1, 'version 100'), ('version', 'VR', 1, 1, 'version_width 0'),
            ('zone', 'ZN', 1, 1, 'time_zone Asia/Nowhere'), ('zone', 'ZN', 1, 1, 'time_zone AAA0BBB,J100/0,J101/0'),
            ('zone', 'ZN', 1, 1, 'time_zone AAA-23BBB-24:00:01,M3.5.0,M10.5.0')) v(name, prefix, db_count, tables_per_db, set),
    LATERAL error_of(format('SELECT snowflake_key_format_create(%L, %L, %L, %L%s)',
        v.name, prefix, db_count, tables_per_db, ', ' || split_part(set, ' ', 1) || ' => ' || quote_literal(split_part(set, ' ', 2)))) AS e;
BEGIN;
SELECT snowflake_key_format_create('zone', 'ZN', 1, 1, time_zone => 'AAA24BBB-24,M3.5.0,M10.5.0');
ROLLBACK;
SELECT * FROM error_of($$SELECT snowflake_key_format_create('order2', 'UD', 1, 1, 2, table_width => 3)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_key_format_create('order2', 'UD', 1, 1, 2, sequence_width => 6)$$) \gx
SELECT state, message FROM error_of($$INSERT INTO snowflake_catalog.key_formats
    SELECT v.name, 'NEW', 1, 1, version, 'UTC', 'codes', 2, width, 2, 2, 5 FROM (VALUES ('new', 1, 3), ('new2', 2, 4)) v(name, version, width)$$);

-- no argument is null or out of bounds; the table itself refuses such a row too, as what is restored does not come by the function
CREATE FUNCTION pg_temp.try(argument text, value text, OUT state text, OUT message text, OUT detail text, OUT hint text, OUT "table" text)
LANGUAGE plpgsql AS $$
DECLARE
    f snowflake_catalog.key_formats := jsonb_populate_record(
        ('try', 'TRY', 1, 1, 1, 'UTC', 'codes', 2, 4, 2, 2, 5)::snowflake_catalog.key_formats, jsonb_build_object(argument, value));
BEGIN
    SELECT e.* INTO state, message, detail, hint
    FROM error_of(format('SELECT snowflake_key_format_create(%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)', f.name, f.prefix, f.db_count, f.tables_per_db,
        f.version, f.time_zone, f.text_route, f.database_width, f.table_width, f.version_width, f.node_width, f.sequence_width)) AS e;
    DELETE FROM snowflake_catalog.key_formats AS k WHERE k.prefix = f.prefix;
    SELECT e.state INTO "table"
    FROM error_of(format('INSERT INTO snowflake_catalog.key_formats VALUES (%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)', f.name, f.prefix, f.db_count, f.tables_per_db,
        f.version, f.time_zone, f.text_route, f.database_width, f.table_width, f.version_width, f.node_width, f.sequence_width)) AS e;
    DELETE FROM snowflake_catalog.key_formats AS k WHERE k.prefix = f.prefix;
END $$;
SELECT v.*, t.* FROM (VALUES ('name', 'order'), ('name', ''), ('name', NULL),
            ('prefix', ''), ('prefix', 'U1'), ('prefix', 'U-'), ('prefix', 'É'), ('prefix', E'U\n'), ('prefix', 'ABCDEFGHIJKLMNOP'),
            ('prefix', 'ABCDEFGHIJKLMNOPQ'), ('prefix', NULL),
            ('db_count', '-1'), ('db_count', '0'), ('db_count', '1'), ('db_count', '100'), ('db_count', '101'), ('db_count', '2147483647'), ('db_count', NULL),
            ('tables_per_db', '-2147483648'), ('tables_per_db', '0'), ('tables_per_db', '10000'), ('tables_per_db', '10001'), ('tables_per_db', NULL),
            ('version', '-1'), ('version', '0'), ('version', '99'), ('version', '100'), ('version', NULL),
            ('time_zone', ''), ('time_zone', 'nonsense'), ('time_zone', 'utc'), ('time_zone', NULL),
            ('text_route', ''), ('text_route', 'sum'), ('text_route', 'HASH'), ('text_route', 'hash'), ('text_route', NULL),
            ('database_width', '-1'), ('database_width', '0'), ('database_width', '9'), ('database_width', '10'), ('database_width', NULL),
            ('table_width', '-1'), ('table_width', '0'), ('table_width', '9'), ('table_width', '10'), ('table_width', NULL),
            ('version_width', '-1'), ('version_width', '1'), ('version_width', '9'), ('version_width', '10'), ('version_width', NULL),
            ('node_width', '-1'), ('node_width', '0'), ('node_width', '9'), ('node_width', '10'), ('node_width', NULL),
            ('sequence_width', '-1'), ('sequence_width', '4'), ('sequence_width', '18'), ('sequence_width', '19'), ('sequence_width', NULL)) v(argument, value),
    pg_temp.try(v.argument, v.value) AS t;
SELECT * FROM error_of($$SELECT snowflake_key_format_create('order2', 'UD', 1, 1)$$) \gx

-- the longest and the shortest
SELECT snowflake_key_format_create('long', 'abcdefghijklmnOP', 1000, 1000000, 999999999,
    database_width => 9, table_width => 9, version_width => 9, node_width => 9, sequence_width => 18);
SELECT snowflake_key_format_create('short', 's', 1, 1, 0, database_width => 0, table_width => 0, version_width => 0, sequence_width => 4);
SELECT length(key), p.format, p.prefix, p.database, p."table", p.version, p.id = snowflake_currval() AS same
FROM snowflake_key('long', 999999999) AS key, snowflake_key_parse(key) AS p;
SELECT length(key), p.format, p.prefix, p.database, p."table", p.version, p.id = snowflake_currval() AS same
FROM snowflake_key('short', 7) AS key, snowflake_key_parse(key) AS p;

-- Where a clock is set back, local times come twice, and keys have 24 more for the hour the second time.  For two hours before and
-- after each change, all keys are read as what they are, and no two are the same.
CREATE FUNCTION changes(zone text) RETURNS TABLE (at timestamptz, step interval) LANGUAGE sql AS $$
    SELECT ts, step FROM (SELECT day, day AT TIME ZONE zone - lag(day AT TIME ZONE zone) OVER (ORDER BY day) AS length
                          FROM generate_series('2030-01-01 00:00+00'::timestamptz, '2040-01-01', '1 day') AS day) AS days,
        LATERAL (SELECT ts, ts AT TIME ZONE zone - lag(ts AT TIME ZONE zone) OVER (ORDER BY ts) - '30 minutes' AS step
                 FROM generate_series(day - '1 day'::interval, day, '30 minutes') AS ts) AS steps
    WHERE length <> '1 day' AND step <> '0'
$$;
CREATE FUNCTION key_at(ts timestamptz, zone text) RETURNS text LANGUAGE sql AS $$
    SELECT 'Z000000' || '01' || to_char(ts AT TIME ZONE zone, 'YYMMDD')
        || lpad((to_char(ts AT TIME ZONE zone, 'HH24')::int
                 + CASE WHEN EXISTS (SELECT FROM unnest('{30,60,180}'::int[]) AS m
                                     WHERE (ts - m * interval '1 minute') AT TIME ZONE zone = ts AT TIME ZONE zone) THEN 24 ELSE 0 END)::text, 2, '0')
        || to_char(ts AT TIME ZONE zone, 'MISSMS') || '24' || '00007'
$$;
CREATE FUNCTION try_zone(zone text, OUT changes text, OUT keys text, OUT "distinct" boolean, OUT right_read boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM snowflake_key_format_create('zone', 'Z', 1, 1, time_zone => zone);
    SELECT CASE WHEN count(*) FILTER (WHERE step < '0') = 10 THEN 'each year' WHEN count(*) FILTER (WHERE step < '0') > 0 THEN 'some' ELSE 'none' END
    INTO changes FROM changes(zone);
    SELECT CASE WHEN count(*) > 500 THEN 'many' ELSE 'few' END, count(*) = count(DISTINCT key),
        bool_and(p.ts = k.ts AND p.id = snowflake_compose(k.ts, 24, 0, 7))
    INTO keys, "distinct", right_read
    FROM (SELECT ts, key_at(ts, zone) AS key FROM changes(zone), generate_series(at - '105 minutes'::interval, at + '105 minutes', '7 minutes 30 seconds') AS ts
          UNION ALL SELECT '2024-02-29 12:34:56.789+00', key_at('2024-02-29 12:34:56.789+00', zone)) AS k, snowflake_key_parse(key) AS p;
    PERFORM snowflake_key_format_drop('zone');
END $$;
SELECT zone, z.* FROM unnest('{UTC,utc,Etc/GMT-8,Asia/Shanghai,Asia/Kolkata,Europe/Berlin,America/New_York,Australia/Lord_Howe,"EST5EDT,M3.2.0,M11.1.0"}'::text[]) AS zone,
    try_zone(zone) AS z;
SELECT snowflake_key_format_create('berlin', 'Z', 1, 1, time_zone => 'Europe/Berlin');
SELECT key, p.ts FROM (VALUES ('Z000000012610250230000002400007'), ('Z000000012610252630000002400007'), ('Z000000012610250300000002400007')) v(key), snowflake_key_parse(key) AS p;
SELECT key, e.state, e.detail FROM
    (VALUES ('Z000000012610252700000002400007'), ('Z000000012610252559599992400007'), ('Z000000012606252630000002400007'),
            ('Z000000012610254800000002400007'), ('Z000000012603290230000002400007'), ('UD000000012610252630000002400007')) v(key),
    LATERAL error_of(format('SELECT snowflake_key_parse(%L)', key)) AS e;
SELECT snowflake_key_format_drop('berlin');

-- an hour that is left out when a clock is set forward
SELECT snowflake_key_format_create('yukon', 'YT', 1, 1, time_zone => 'America/Whitehorse');
SELECT key, p.ts FROM (VALUES ('YT000000012003080159599992400000'), ('YT000000012003080300000002400000')) v(key), snowflake_key_parse(key) AS p;
SELECT state, detail FROM error_of($$SELECT snowflake_key_parse('YT000000012003080230000002400000')$$);

-- versions: keys of both are read
SELECT snowflake_key_format_create('order2', 'UD', 8, 8, 2);
SELECT p.format, p.version, p.database, p."table"
FROM (VALUES ('UD000000012102261230103342400002'), ('UD070063022102261230103342400002')) v(key), snowflake_key_parse(key) AS p;
SELECT state, detail FROM error_of($$SELECT snowflake_key_parse('UD070063012102261230103342400002')$$);
SELECT state, detail FROM error_of($$SELECT snowflake_key_parse('UD000000032102261230103342400002')$$);

-- not even a superuser changes more than the name: another format could come to write the same keys
SELECT split_part(set, ' ', 1) AS changed, e.state, e.message
FROM unnest('{prefix = $$UX$$, db_count = 9, tables_per_db = 9, version = 3, time_zone = $$Asia/Shanghai$$, text_route = $$hash$$,
    database_width = 3, table_width = 5, version_width = 3, node_width = 3, sequence_width = 6}'::text[]) set,
    error_of(format('UPDATE snowflake_catalog.key_formats SET %s WHERE name = ''user''', set)) e;
SELECT * FROM error_of($$UPDATE snowflake_catalog.key_formats SET time_zone = 'Asia/Shanghai', name = 'users' WHERE name = 'user'$$) \gx
-- changes: seen at once, undone with their transaction
SELECT snowflake_key_format_rename('order2', 'order3');
SELECT p.format, p.version, p.database, p.ts = snowflake_timestamp(p.id) AS same_time FROM snowflake_key('order3', 15) AS key, snowflake_key_parse(key) AS p;
BEGIN;
SELECT snowflake_key_format_create('mine', 'MN', 1, 1);
SELECT length(snowflake_key('mine', 1));
SAVEPOINT s;
SELECT snowflake_key_format_rename('mine', 'yours');
SELECT length(snowflake_key('yours', 1));
ROLLBACK TO s;
SELECT length(snowflake_key('mine', 1));
ROLLBACK;
SELECT state, message FROM error_of($$SELECT snowflake_key('mine', 1)$$);
SELECT snowflake_key_format_drop('order3');
SELECT state, message FROM error_of($$SELECT snowflake_key('order3', 1)$$);
SELECT length(snowflake_key('order', 1));
SET session_replication_role = replica;
SELECT snowflake_key_format_drop('order');
RESET session_replication_role;
SELECT state, message FROM error_of($$SELECT snowflake_key('order', 1)$$);

-- rename changes the name alone; what is not there
SELECT snowflake_key_format_create('a', 'AA', 1, 2, 3, 'Asia/Tokyo', 'hash', 2, 4, 3, 3, 6);
SELECT snowflake_key_format_rename('a', 'b');
SELECT f.* FROM snowflake_key_formats() AS f WHERE name IN ('a', 'b');
SELECT call, e.* FROM
    (VALUES ($$rename('a', 'c')$$), ($$rename(NULL, 'c')$$), ($$rename('', 'c')$$), ($$rename('b', NULL)$$), ($$rename('b', '')$$),
            ($$rename('b', repeat('c', 101))$$), ($$rename('b', 'user')$$), ($$rename('b', 'b')$$), ($$drop('a')$$), ($$drop(NULL)$$), ($$drop('')$$)) v(call),
    LATERAL error_of('SELECT snowflake_key_format_' || call) AS e;
SELECT length(snowflake_key('b', 1));
SELECT snowflake_key_format_drop('b');

-- nobody truncates what is configured, not even a superuser, or one that empties all tables
SELECT * FROM error_of('TRUNCATE snowflake_catalog.key_formats') \gx
BEGIN;
SET LOCAL session_replication_role = replica;
SELECT state, message FROM error_of('TRUNCATE snowflake_catalog.dumped_mark CASCADE');
COMMIT;
CREATE TABLE key_test (id bigint);
SELECT state, message FROM error_of((SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ' ORDER BY relname)
    FROM pg_class WHERE relkind = 'r' AND (relname = 'key_test' OR relnamespace = 'snowflake_catalog'::regnamespace)));
DROP TABLE key_test;
SELECT length(snowflake_key('user', 1));

-- others than the owner may draw and look, and no more; whom the owner lets needs no right to the table
CREATE ROLE regress_key_reader;
SET ROLE regress_key_reader;
SELECT count(*) > 0 AS read, length(snowflake_key('user', 1)) AS drawn FROM snowflake_key_formats();
SELECT call, e.state, e.message FROM
    (VALUES ($$snowflake_key_format_create('x', 'X', 1, 1)$$), ($$snowflake_key_format_rename('user', 'users')$$), ($$snowflake_key_format_drop('user')$$),
            ($$snowflake_catalog.lock_key_format('user')$$), ('snowflake_catalog.write_key_format(NULL, NULL)'),
            ('snowflake_catalog.check_key_format()'), ('snowflake_catalog.refuse_truncate()')) v(call),
    LATERAL error_of('SELECT ' || call) AS e;
SELECT state, message FROM error_of('DELETE FROM snowflake_catalog.key_formats');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_key_format_create, snowflake_key_format_rename, snowflake_key_format_drop TO regress_key_reader;
SET ROLE regress_key_reader;
SELECT snowflake_key_format_create('x', 'X', 1, 1);
SELECT snowflake_key_format_rename('x', 'y');
SELECT snowflake_key_format_drop('y');
SELECT state, message FROM error_of('DELETE FROM snowflake_catalog.key_formats');
RESET ROLE;
DROP OWNED BY regress_key_reader;
DROP ROLE regress_key_reader;
SELECT state, message FROM error_of($$SELECT snowflake_catalog.check_key_format()$$);

-- a long list of formats
SELECT count(snowflake_key_format_create('f' || i, chr(65 + i / 26) || chr(65 + i % 26) || 'x', 1, 1)::text) FROM generate_series(0, 99) AS i;
SELECT count(DISTINCT (snowflake_key_parse(snowflake_key('f' || i, i))).format) FROM generate_series(0, 99) AS i;
SELECT count(snowflake_key_format_drop(name)::text) FROM snowflake_key_formats();

DROP FUNCTION is_even;
