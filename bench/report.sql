-- The table of one section, psql variable "section": medians over the rounds.
-- A ratio is the median of the ratios within each round.

WITH line (section, figure, base, aim_of, op, aim) AS (
    VALUES
    ('calls', 'empty_call(), ns a call', NULL, NULL, NULL, NULL::float8),
    ('calls', 'clock_timestamp(), ns a call', NULL, NULL, NULL, NULL),
    ('calls', 'snowflake_nextval(), ns a call', 'clock_timestamp(), ns a call', 'ratio', '<=', 1.5),
    ('calls', 'nextval(''a_sequence''), ns a call', 'snowflake_nextval(), ns a call', 'ratio', '>=', 4),
    ('calls', 'gen_random_uuid(), ns a call', 'snowflake_nextval(), ns a call', 'ratio', '>=', 20),
    ('calls', 'uuidv7(), ns a call', 'snowflake_nextval(), ns a call', NULL, NULL, NULL),

    ('batch', 'snowflake_nextval(), 25 a row, ns an ID', NULL, NULL, NULL, NULL),
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
    (SELECT 'ranges', shape || form, CASE form WHEN ', <@, ms' THEN shape || ', by hand, ms' END,
            CASE form WHEN ', <@, ms' THEN 'ratio' END, '<=', 1.02
     FROM unnest(ARRAY['1 row of a minute', 'an hour, count(*)', 'an hour, sum(n)',
                       'three days and a half, sum(n)', 'the last day up to now(), sum(n)',
                       'generic plan, an hour, sum(n)', 'join with 24 periods, count(*)'])
              WITH ORDINALITY AS s (shape, ord),
          unnest(ARRAY[', by hand, ms', ', <@, ms']) WITH ORDINALITY AS f (form, by)
     ORDER BY s.ord, f.by)

    UNION ALL
    SELECT fill, key || ', ' || measure,
           CASE key WHEN 'bigserial' THEN NULL WHEN 'bigserial and created_at' THEN 'snowflake, ' ELSE 'bigserial, ' END || measure,
           CASE WHEN key = 'snowflake' THEN 'ratio' END, op, aim
    FROM unnest(ARRAY['insert', 'copy', 'pgbench 1', 'pgbench 100']) AS fill,
         (VALUES ('rows a second', '>=', 1.0), ('WAL bytes a row', '<=', 1.02),
                 ('index bytes a row', '<=', 1.02)) AS m (measure, op, aim),
         unnest(ARRAY['bigserial', 'snowflake', 'bigserial and created_at', 'gen_random_uuid()', 'uuidv7()']) AS key
    UNION ALL
    SELECT fill, key || ', leaf density, %', NULL, NULL, NULL, NULL
    FROM unnest(ARRAY['insert', 'copy', 'pgbench 1', 'pgbench 100']) AS fill,
         unnest(ARRAY['bigserial', 'snowflake', 'bigserial and created_at', 'gen_random_uuid()', 'uuidv7()']) AS key
),
asked AS (
    SELECT *, row_number() OVER () AS ord
    FROM line
    WHERE section = :'section'
),
value AS (
    SELECT figure, round, sum(value) AS value
    FROM sample
    WHERE section = :'section'
    GROUP BY figure, round
),
stat AS (
    SELECT a.ord, a.figure, a.base, a.aim_of, a.op, a.aim,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY v.value) AS value,
           min(v.value) AS value_min, max(v.value) AS value_max,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY v.value / b.value) AS ratio,
           min(v.value / b.value) AS ratio_min, max(v.value / b.value) AS ratio_max
    FROM asked AS a
         JOIN value AS v USING (figure)
         LEFT JOIN value AS b ON b.figure = a.base AND b.round = v.round
    GROUP BY 1, 2, 3, 4, 5, 6
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
