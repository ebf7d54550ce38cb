-- IDs drawn bit by bit, for people.
-- Server: layout time:41 node:5 worker:5 sequence:12, epoch 2020-01-01 UTC.

-- the worked example, and one that was backfilled
\pset format unaligned
\pset tuples_only on
SELECT snowflake_explain(152075078181383514);
SELECT snowflake_explain(snowflake_compose('2021-02-23 15:32:04.056+00', 0, 31, 0));

-- other systems: bits that are not in the layout, units of 10 ms, the node first, unsigned numbers
SELECT snowflake_explain(4100095, 'js53');
SELECT snowflake_explain(6039814471938, 'sonyflake');
SELECT snowflake_explain(6039814471938, 'sonyflake', '2014-09-01 00:00+00');
SELECT snowflake_explain(2207391485099498761, 'seata');
SELECT snowflake_explain(175928847299117063, 'discord');
SELECT snowflake_explain(180363646902239241, 'time:29@1s node:21 sequence:13', '2016-09-20 00:00+08');

-- fields narrower than their names, at either end
SELECT snowflake_explain(13, 'sequence:1 worker:1 node:1 time:1@90s', '2020-01-01 00:00+00');
SELECT snowflake_explain(9223372036854775807, 'node:1 sequence:1 worker:1 time:60', '2020-01-01 00:00+00');
SELECT snowflake_explain(5, 'node:0 time:61 worker:0 sequence:2', '0044-03-15 00:00+00 BC');
-- only a time, also one past the last timestamp
SELECT snowflake_explain(0, 'time:63', '2020-01-01 00:00+00');
SELECT snowflake_explain(9223372036854775807, 'time:63', '2020-01-01 00:00+00');
\pset format aligned
\pset tuples_only off

-- it looks the same in any session
SET timezone = 'Asia/Shanghai';
SET datestyle = 'German';
SET lc_messages = 'C';
SELECT count(DISTINCT explained), min(explained) ~ E'\nepoch +2020-01-01 00:00:00\\+00\n' AS utc
FROM (SELECT snowflake_explain(152075078181383514)
      UNION ALL
      SELECT snowflake_explain(152075078181383514, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00')) AS e(explained);
RESET timezone;
RESET datestyle;
RESET lc_messages;

-- Random IDs of all dialects, and of random layouts.  What is drawn is checked
-- in SQL.
CREATE FUNCTION evaluate(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE 'SELECT ' || expression INTO result;
    RETURN result;
END $$;
CREATE TEMP TABLE field AS
SELECT n, name, CASE name WHEN 'time' THEN 1 + (random() * 20)::int ELSE (random() * 14)::int END AS width, random() AS place
FROM generate_series(1, 300) n, unnest('{time,node,worker,sequence}'::text[]) name;
CREATE TEMP TABLE layout AS
SELECT layout AS fields, name AS dialect, time_bits + node_bits + worker_bits + sequence_bits AS width FROM snowflake_dialects()
UNION ALL
SELECT string_agg(name || ':' || width, ' ' ORDER BY place), NULL, sum(width) FROM field GROUP BY n;
CREATE TEMP TABLE id AS
SELECT row_number() OVER () AS n, fields, dialect,
       ((random() * 2147483647)::bigint << 32 | (random() * 4294967295)::bigint) >> 63 - width::int AS id
FROM layout, generate_series(1, 5);
CREATE TEMP TABLE drawing AS
SELECT n, fields, id, lines, array_position(lines, '') + 1 AS bits_at, array_position(lines, '', 10) + 1 AS list_at
FROM id, string_to_array(CASE WHEN dialect IS NULL THEN snowflake_explain(id, fields, '2020-01-01 00:00+00')
                              ELSE snowflake_explain(id, dialect) END, E'\n') lines;
SELECT count(*) AS drawings, count(DISTINCT fields) > 300 AS layouts, count(DISTINCT id) > 1200 AS random,
       count(*) FILTER (WHERE lines[1] IS DISTINCT FROM 'ID       ' || id) AS wrong_id,
       count(*) FILTER (WHERE lines[2] IS DISTINCT FROM 'hex      0x' || lpad(to_hex(id), 16, '0')) AS wrong_hex,
       count(*) FILTER (WHERE lines[3] IS DISTINCT FROM 'base32   ' || snowflake_encode(id, 'base32')) AS wrong_base32,
       count(*) FILTER (WHERE replace(lines[bits_at], ' ', '') IS DISTINCT FROM id::bit(64)::text) AS wrong_bits,
       count(*) FILTER (WHERE evaluate(split_part(lines[cardinality(lines)], ' = ', 2)) IS DISTINCT FROM id::text) AS wrong_sum
FROM drawing;
-- of each mark its column, the field it is for, and the line of the label,
-- which begins below it and has blanks at both sides
CREATE TEMP TABLE mark AS
SELECT n, fields, id, lines, bits_at, list_at, mark.*, name, bits, low, value,
       (SELECT min(i) FROM generate_series(bits_at + 2, list_at - 2) i
        WHERE substr(' ' || lines[i] || ' ', place, length(name || value) + 3) = ' ' || name || ' ' || value || ' ') AS label_at
FROM drawing,
     LATERAL (SELECT ordinality AS nth, mark, (1 + sum(length(mark) + 1) OVER (ORDER BY ordinality) - length(mark) - 1)::int AS place
              FROM string_to_table(lines[bits_at + 1], ' ') WITH ORDINALITY AS mark (mark)) mark,
     LATERAL (SELECT f[1] AS name, f[2]::int AS bits, f[3]::int AS low, f[4]::bigint AS value
              FROM regexp_match(lines[list_at + nth], '^(\w+) +(\d+) +(?:\d+\.\.)?(\d+) +(\d+)  \S') f) field;
SELECT count(DISTINCT n) AS drawings, count(DISTINCT name) AS names,
       count(*) FILTER (WHERE mark IS DISTINCT FROM '^' || repeat('-', bits - 1)) AS wrong_mark,
       count(*) FILTER (WHERE split_part(lines[bits_at], ' ', nth::int) IS DISTINCT FROM
                              substr(id::bit(64)::text, 64 - low - bits + 1, bits)) AS wrong_bits,
       count(*) FILTER (WHERE value::bit(64) IS DISTINCT FROM id::bit(64) << 64 - low - bits >> 64 - bits) AS wrong_value,
       count(*) FILTER (WHERE name NOT IN ('sign', 'unused') AND fields !~ ('\m' || name || ':' || bits || '\M')) AS wrong_width,
       count(*) FILTER (WHERE label_at IS NULL) AS no_label,
       count(*) FILTER (WHERE EXISTS (SELECT FROM generate_series(bits_at + 2, label_at - 1) i
                                      WHERE substr(lines[i], place, 1) <> '|')) AS not_connected
FROM mark;
-- labels and connections are all there is, and (but for the sum) it fits on a screen
SELECT count(*) FILTER (WHERE labels <> (SELECT sum(length(replace(line, ' ', ''))) FROM unnest(d.lines[d.bits_at + 2:d.list_at - 2]) line)) AS more,
       max((SELECT max(length(line)) FROM unnest(trim_array(d.lines, 1)) line)) <= 80 AS fits
FROM (SELECT n, sum(length(name || value) + label_at - bits_at - 2) AS labels FROM mark GROUP BY n) m JOIN drawing d USING (n);

-- NULL in, NULL out
SELECT snowflake_explain(NULL) IS NULL AS n1, snowflake_explain(NULL, 'twitter') IS NULL AS n2, snowflake_explain(1, NULL) IS NULL AS n3,
       snowflake_explain(1, 'time:63', NULL) IS NULL AS n4, snowflake_explain(1, NULL, now()) IS NULL AS n5;

-- the errors are those of snowflake_parse
SELECT call, e.message, e = p AS same
FROM (VALUES ('(-1)'), ('(-9223372036854775808)'),
             ('(-1, ''twitter'')'), ('(-1, ''discord'')'), ('(9007199254740992, ''js53'')'), ('(1, ''nobody'')'), ('(1, '''')'),
             ('(1, ''time:41 node:10 sequence:12'')'),
             ('(2, ''time:1'', ''2020-01-01'')'), ('(1, ''time'', ''2020-01-01'')'), ('(-1, ''discord'', ''2020-01-01 00:00+00'')'),
             ('(1, ''time:63'', ''infinity'')'), ('(1, ''time:63'', ''-infinity'')')) v(call),
     error_of('SELECT snowflake_explain' || call) e, error_of('SELECT snowflake_parse' || call) p \gx
DROP FUNCTION evaluate;

-- no error quotes a long argument whole
SELECT call, state, regexp_replace(message, 'x{9,}', 'xx') AS message, length(concat(message, detail, hint)) < 400 AS is_short
FROM (VALUES ('snowflake_explain(1, %s, ''2020-01-01'')'), ('snowflake_explain(1, %s)'), ('snowflake_parse(-1, ''time:1'' || repeat('' '', 1000000), ''2020-01-01'')'),
             ('snowflake_parse(1, %s, ''2020-01-01'')'), ('snowflake_parse(1, %s)'),
             ('snowflake_encode(1, %s)'), ('snowflake_decode(''1'', %s)'), ('snowflake_decode(%s, ''base62'')'),
             ('snowflake_key(%s, 1)'), ('snowflake_key_parse(%s)'), ('snowflake_route(''1'', 1, 1, %s)'), ('snowflake_route(%s || ''é'', 1, 1, ''codes'')'),
             ('snowflake_key_format_create(%s, ''UD'', 1, 1)'), ('snowflake_key_format_create(''a'', %s, 1, 1)'), ('snowflake_key_format_create(''a'', ''UD'', 1, 1, time_zone => %s)'),
             ('snowflake_key_format_rename(%s, ''x'')'), ('snowflake_key_format_drop(%s)'), ('snowflake_convert(''pg_class'', ''oid'', target => %s)'),
             ('snowflake_segment_nextval(%s)'), ('snowflake_segment_create(%s)')) v (call),
     error_of(format('SELECT ' || call, 'repeat(''x'', 1000000)')) \gx

-- Where a backslash in a literal is an escape, which 19 does not have: the same.  In a session of
-- its own, as functions are parsed once in each.
\c
DO $$ BEGIN SET standard_conforming_strings = off; EXCEPTION WHEN OTHERS THEN NULL; END $$;
\pset format unaligned
\pset tuples_only on
SELECT snowflake_explain(152075078181383514);
SELECT snowflake_explain(6039814471938, 'sonyflake');
SELECT snowflake_explain(180363646902239241, 'time:29@1s node:21 sequence:13', '2016-09-20 00:00+08');
