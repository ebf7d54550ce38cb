-- IDs as texts: base32, base58, base62.

-- texts that others made, from the documentation or tests of tsid-ts and
-- base32-crockford; of Bitcoin; of suminb's base62 and tsid-creator
SELECT base, id, snowflake_encode(id, base) AS encoded, code,
       snowflake_encode(id, base) = code AND snowflake_decode(code, base) = id AS same
FROM (VALUES ('base32', 501438102971408389, '0DXBQ9H279R05'),
             ('base32', 1234, '000000000016J'),
             ('base58', x'61'::bigint, '2g'),
             ('base58', x'626262'::bigint, 'a3gV'),
             ('base58', x'636363'::bigint, 'aPEr'),
             ('base58', x'516b6fcd0f'::bigint, 'ABnLTmg'),
             ('base58', x'572e4794'::bigint, '3EFU7m'),
             ('base58', x'10c8511e'::bigint, 'Rt5zm'),
             ('base58', x'271f359f'::bigint, 'zzzzz'),
             ('base58', x'271f35a0'::bigint, '211111'),
             ('base62', 34441886726, 'base62'),
             ('base62', x'4a1cbac7d969bc90'::bigint, '6MUquKBgQLo')) v(base, id, code);

-- the worked example, and the edges
SELECT id, snowflake_encode(id, 'base32') AS base32, snowflake_encode(id, 'base58') AS base58,
       snowflake_encode(id, 'base62') AS base62
FROM (VALUES (152075078181383514), (0), (1), (31), (32), (57), (58), (61), (62),
             ((1::bigint << 53) - 1), (1::bigint << 53), (9223372036854775806), (9223372036854775807)) v(id);
SELECT base, array_agg(id ORDER BY id) AS differ
FROM (VALUES ('base32'), ('base58'), ('base62')) b(base),
     (VALUES (152075078181383514), (0), (1), (31), (32), (57), (58), (61), (62),
             ((1::bigint << 53) - 1), (1::bigint << 53), (9223372036854775806), (9223372036854775807)) v(id)
WHERE snowflake_decode(snowflake_encode(id, base), base) <> id
GROUP BY base;

-- any IDs, of any length: the digits that division gives
CREATE TEMP TABLE digits AS
SELECT base, digits, length(digits) AS n, k, (length(digits)::numeric ^ k)::bigint AS power
FROM (VALUES ('base32', '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 12),
             ('base58', '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', 10),
             ('base62', '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', 10)) v(base, digits, highest),
     generate_series(0, highest) AS k;
CREATE TEMP TABLE ids AS
SELECT ((random() * 4294967295)::bigint << 31 | (random() * 2147483647)::bigint) >> (i % 63) AS id
FROM generate_series(1, 20000) AS i;
CREATE TEMP TABLE codes AS
SELECT id, base, CASE WHEN base = 'base32' THEN code
                 ELSE coalesce(nullif(ltrim(code, zero), ''), zero) END AS code
FROM ids, LATERAL (
    SELECT base, left(digits, 1) AS zero, string_agg(substr(digits, (id / power % n)::integer + 1, 1), '' ORDER BY k DESC) AS code
    FROM digits GROUP BY base, digits) AS c;
SELECT base, count(*), min(length(code)) AS shortest, max(length(code)) AS longest,
       count(*) FILTER (WHERE snowflake_encode(id, base) = code) AS encoded,
       count(*) FILTER (WHERE snowflake_decode(code, base) = id) AS decoded
FROM codes GROUP BY base ORDER BY base;

-- base32 sorts as the IDs do, also by the rules of English, where the server has them
CREATE FUNCTION out_of_order(rules name) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FILTER (WHERE id < before)
        FROM (SELECT id, lag(id) OVER (ORDER BY code COLLATE %I) AS before FROM codes WHERE base = ''base32'') AS c', rules)
    INTO n;
    RETURN n;
END $$;
SELECT out_of_order('C') AS c,
       out_of_order(coalesce((SELECT collname FROM pg_collation WHERE collname = 'en-x-icu'), 'C')) AS english;
DROP FUNCTION out_of_order;

-- base32 is read in either case, and with I, L and O
SELECT snowflake_decode('04727f9b31vat', 'base32') AS lower, snowflake_decode('O4727f9B3Ivat', 'base32') AS i_o,
       snowflake_decode('o4727F9b3lVAT', 'base32') AS l, snowflake_decode('o4727F9b3LVAT', 'base32') AS l,
       snowflake_decode('o4727F9b3iVAT', 'base32') AS i;

-- blanks and ends of lines around a text are not of it; other characters are
SELECT snowflake_decode(E' \t04727F9B31VAT\r\n\f') AS base32, snowflake_decode(E'\nMUW5RwFS8q ', 'base58') AS base58, snowflake_decode(E'BEVL20I09y\n', 'base62') AS base62;

-- NULL in, NULL out
SELECT snowflake_encode(NULL, 'base32') IS NULL AS e1, snowflake_encode(1, NULL) IS NULL AS e2,
       snowflake_decode(NULL, 'base32') IS NULL AS d1, snowflake_decode('1', NULL) IS NULL AS d2;

-- by name
SELECT snowflake_decode(code => snowflake_encode(id => 7, base => 'base62'), base => 'base62');
SELECT snowflake_encode(152075078181383514) AS base32, snowflake_decode('04727F9B31VAT') AS id;

-- not an ID; not a base
SELECT base, e.* FROM
    (VALUES ('base32'), ('base58'), ('base62')) v(base),
    LATERAL error_of(format('SELECT snowflake_encode(-1, %L)', base)) e;
SELECT state, message FROM error_of('SELECT snowflake_encode(-9223372036854775808, ''base32'')');
SELECT e.* FROM
    (VALUES ('base64'), ('BASE32'), ('base32 '), ('base'), ('')) v(base),
    LATERAL error_of(format('SELECT snowflake_decode(''1'', %L)', base)) e;
SELECT state, message FROM error_of('SELECT snowflake_encode(1, ''base64'')');

-- not a text of an ID
SELECT base, code, state, detail FROM
    (VALUES ('base32', 'U4727F9B31VAT'), ('base32', '04727Fu9B31VA'), ('base32', '04727F9B31VA*'),
            ('base32', ' 4727F9B31VAT'), ('base32', '04727F 9B31VA'), ('base32', E'04727F9B31VA\u00a0'),
            ('base32', '04727-F9B31VA'), ('base32', '-000000000001'), ('base32', E'04727F9B31VA\n'),
            ('base32', E'04727F9\x0131VAT'), ('base32', E'04727F9B31VA\x7f'),
            ('base32', ''), ('base32', '1'), ('base32', '04727F9B31VA'),
            ('base32', '04727F9B31VATX'), ('base32', '04727F9B31VAT '), ('base32', '00000000000001'),
            ('base32', '8000000000000'), ('base32', 'zzzzzzzzzzzzz'), ('base32', 'g'),
            ('base58', '0UW5RwFS8q'), ('base58', 'MUW5IRwFS8'), ('base58', 'MUW5RwFS8l'), ('base58', 'O'),
            ('base58', '+2'), ('base58', '-2'), ('base58', E'MUW5RwFS8q\u00a0'), ('base58', '2 2'),
            ('base58', ''), ('base58', '11'), ('base58', '1MUW5RwFS8q'), ('base58', '1!'),
            ('base58', 'NQm6nKp8qFD'), ('base58', 'NQm7111111i'), ('base58', 'P1111111111'),
            ('base58', 'zzzzzzzzzzz'), ('base58', 'NQm6nKp8qFC1'), ('base58', '222222222222'),
            ('base62', '!EVL20I09y'), ('base62', 'BEVL2_I09y'), ('base62', 'BEVL20I09='), ('base62', '1.5'),
            ('base62', ' '), ('base62', E'1\t1'), ('base62', ''), ('base62', '00'), ('base62', '01'),
            ('base62', 'AzL8n0Y58m8'), ('base62', 'AzL8n0Z0000'), ('base62', 'B0000000000'),
            ('base62', 'zzzzzzzzzzz'), ('base62', '100000000000')) v(base, code),
    LATERAL error_of(format('SELECT snowflake_decode(%L, %L)', code, base)) e;

-- all of an error; the text in it is cut at 40 bytes
SELECT e.* FROM
    (VALUES ('base32', '04727F9B31VAU'), ('base58', '0'), ('base62', '_'),
            ('base32', 'MUW5RwFS8q'), ('base62', E' \n'), ('base32', repeat('1', 100)), ('base32', repeat('1', 101)), ('base62', repeat('1', 1000000))) v(base, code),
    LATERAL error_of(format('SELECT snowflake_decode(%L, %L)', code, base)) e \gx

-- characters of several bytes, as the database's encoding has them
SELECT code, e.message, e.detail FROM
    (VALUES ('é4727F9B31VAT'), ('04727F9é31VAT'), ('04727F9B31VA日'), ('04727F9B31VA😀日'), ('04727F9B31VATé'),
            (repeat('é', 51)), ('1' || repeat('日', 34))) v(code),
    LATERAL error_of(format('SELECT snowflake_decode(%L, ''base32'')', code)) e \gx
SELECT current_database() AS database \gset
CREATE DATABASE codec_euc_jp TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C';
\c codec_euc_jp
SET client_encoding = 'UTF8';
CREATE EXTENSION snowflake;
SELECT snowflake_decode('0472日本31VAT', 'base32');
SELECT snowflake_decode('2345678本', 'base58');
SELECT snowflake_decode('BEVL2本I09y', 'base62');
\c :database
DROP DATABASE codec_euc_jp;

-- IMMUTABLE: generated columns, indexes and constraints may have them
CREATE TABLE codec_orders (
    id bigint PRIMARY KEY,
    code text COLLATE "C" GENERATED ALWAYS AS (snowflake_encode(id, 'base32')) STORED UNIQUE,
    short text CHECK (snowflake_decode(short, 'base62') = id)
);
CREATE INDEX codec_orders_base58 ON codec_orders (snowflake_encode(id, 'base58'));
INSERT INTO codec_orders (id, short) VALUES (152075078181383514, 'BEVL20I09y'), (1, NULL), (62, '10');
SELECT state, message FROM error_of('INSERT INTO codec_orders (id, short) VALUES (2, ''3'')');
SELECT state, message FROM error_of('INSERT INTO codec_orders (id, short) VALUES (2, ''02'')');
SELECT * FROM codec_orders ORDER BY code;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM codec_orders WHERE snowflake_encode(id, 'base58') = 'MUW5RwFS8q';
EXPLAIN (COSTS OFF) SELECT * FROM codec_orders WHERE id = snowflake_decode('MUW5RwFS8q', 'base58');
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT id FROM codec_orders WHERE snowflake_encode(id, 'base58') = 'MUW5RwFS8q';
DROP TABLE codec_orders;

-- a JSON number that JavaScript reads as another one, and texts, which it does not change
SELECT json_build_object('number', id, 'text', id::text, 'code', snowflake_encode(id, 'base32'))
FROM (VALUES (152075078181383514)) v(id);
