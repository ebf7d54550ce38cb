-- The table of one section, psql variable "section": medians over the rounds.
-- A ratio is the median of the ratios within each round.

WITH line (section, figure, base, aim_of, op, aim) AS (
    VALUES
    ('batch', 'snowflake_nextval(), 25 a row, ns an ID', NULL, NULL, NULL, NULL::float8),
    ('batch', 'snowflake_nextval(1000), 25 a row, ns an ID', 'snowflake_nextval(), 25 a row, ns an ID', 'ratio', '<=', 0.5),
    ('batch', 'snowflake_nextval(), 1 a row, ns an ID', NULL, NULL, NULL, NULL),
    ('batch', 'snowflake_nextval(1000), 1 a row, ns an ID', 'snowflake_nextval(), 1 a row, ns an ID', NULL, NULL, NULL),

    ('limit', 'without the limit check, ns a call', NULL, NULL, NULL, NULL),
    ('limit', 'with the limit check, ns a call', 'without the limit check, ns a call', 'ratio', '<=', 1.03),

    ('parallel', 'snowflake_nextval(), 1 backend, million a second', NULL, 'value', '>', 9),
    ('parallel', 'snowflake_nextval(), 1 backend, IDs looked at', NULL, NULL, NULL, NULL),
    ('parallel', 'snowflake_nextval(), 1 backend, of these ahead of the clock', NULL, 'value', '=', 0),
    ('parallel', 'snowflake_nextval(), 2 backends, million a second', 'snowflake_nextval(), 1 backend, million a second', 'ratio', '>=', 1.8),
    ('parallel', 'snowflake_nextval(), 2 backends, IDs looked at', NULL, NULL, NULL, NULL),
    ('parallel', 'snowflake_nextval(), 2 backends, of these ahead of the clock', NULL, NULL, NULL, NULL),
    ('parallel', 'clock_timestamp(), 1 backend, million a second', NULL, NULL, NULL, NULL),
    ('parallel', 'clock_timestamp(), 2 backends, million a second', 'clock_timestamp(), 1 backend, million a second', NULL, NULL, NULL),
    ('parallel', 'nextval(''a_sequence''), 1 backend, million a second', NULL, NULL, NULL, NULL),
    ('parallel', 'nextval(''a_sequence''), 2 backends, million a second', 'nextval(''a_sequence''), 1 backend, million a second', NULL, NULL, NULL)

    UNION ALL
    (SELECT section, figure, base, aim_of, op, aim
     FROM unnest(ARRAY['home', 'registry']) AS section,
          (VALUES
           (1, 'empty_call(), ns a call', NULL, NULL, NULL, NULL::float8),
           (2, 'clock_timestamp(), ns a call', NULL, NULL, NULL, NULL),
           (3, 'snowflake_nextval(), ns a call', NULL, NULL, NULL, NULL),
           (4, 'snowflake_segment_nextval(''bench''), ns a call', 'snowflake_nextval(), ns a call', 'ratio', '<=', 2),
           (5, 'nextval(''cache_1''), ns a call', 'snowflake_segment_nextval(''bench''), ns a call', 'ratio', '>=', 2),
           (6, 'nextval(''cache_32''), ns a call', 'snowflake_segment_nextval(''bench''), ns a call', NULL, NULL, NULL),
           (7, 'nextval(''cache_1000''), ns a call', 'snowflake_segment_nextval(''bench''), ns a call', NULL, NULL, NULL),
           (8, 'snowflake_segment_nextval(''bench'', 1000), ns a number', 'snowflake_segment_nextval(''bench''), ns a call', NULL, NULL, NULL))
           AS l (ord, figure, base, aim_of, op, aim)
     ORDER BY section, ord)

    UNION ALL
    (SELECT 'keys', call || ', ns a call', base || ', ns a call', aim_of, op, aim
     FROM (VALUES
           (1, 'empty_call()', NULL, NULL, NULL, NULL::float8),
           (2, 'snowflake_nextval()', NULL, NULL, NULL, NULL),
           (3, 'snowflake_key(''order'',42)', 'snowflake_nextval()', 'value', '<=', 1000),
           (4, 'snowflake_key(''shanghai'',42)', 'snowflake_nextval()', 'value', '<=', 1000),
           (5, 'snowflake_key(''order'',''customer-42'')', 'snowflake_nextval()', 'value', '<=', 1000),
           (6, 'snowflake_key(''order'',''US010010012611212024268900100566'')', 'snowflake_nextval()', 'value', '<=', 1000),
           (7, 'plpgsql_key(''order'',42)', 'snowflake_key(''order'',42)', NULL, NULL, NULL))
           AS l (ord, call, base, aim_of, op, aim)
     ORDER BY ord)

    UNION ALL
    (SELECT 'ranges', shape || form, CASE form WHEN ', snowflake_in(), ms' THEN shape || ', by hand, ms' END,
            CASE form WHEN ', snowflake_in(), ms' THEN 'ratio' END, '<=', 1.02
     FROM unnest(ARRAY['1 row of a minute', 'an hour, count(*)', 'an hour, sum(n)',
                       'three days and a half, sum(n)', 'the last day up to now(), sum(n)',
                       'generic plan, an hour, sum(n)', 'join with 24 periods, count(*)'])
              WITH ORDINALITY AS s (shape, ord),
          unnest(ARRAY[', by hand, ms', ', snowflake_in(), ms']) WITH ORDINALITY AS f (form, by)
     ORDER BY s.ord, f.by)
),
asked AS (
    SELECT *, row_number() OVER () AS ord
    FROM line
    WHERE section = :'section'
),
stat AS (
    SELECT *
    FROM asked AS a, over_rounds(a.section, a.figure, a.base)
),
reached AS (
    SELECT *, CASE aim_of WHEN 'ratio' THEN ratio WHEN 'value' THEN value END AS reached
    FROM stat
)
SELECT figure AS "measure",
       readable(value) AS "value",
       CASE WHEN value_min < value_max THEN readable(value_min) || ' - ' || readable(value_max) END AS "min - max",
       readable(ratio) AS "ratio",
       CASE WHEN ratio_min < ratio_max THEN readable(ratio_min) || ' - ' || readable(ratio_max) END AS "min - max",
       CASE WHEN ratio IS NOT NULL THEN CASE WHEN base ~ ', by hand, ms$' THEN 'by hand' ELSE split_part(base, ', ', 1) END ||
            CASE WHEN base ~ ', 1 backend,' THEN ', 1 backend' ELSE '' END END AS "ratio to",
       aim_of || ' ' || op || ' ' || aim AS "aim",
       CASE CASE op WHEN '<=' THEN reached <= aim WHEN '>=' THEN reached >= aim
                    WHEN '>' THEN reached > aim WHEN '=' THEN reached = aim END
            WHEN true THEN 'met' WHEN false THEN 'MISSED' END AS "result"
FROM reached
ORDER BY ord;
