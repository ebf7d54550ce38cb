--
-- A drawing of the bits of an ID, for people, as in
--
--     0 0000001000 ... 00 11000 01110 110101011010
--     ^ ^---- ...  ------ ^---- ^---- ^-----------
--     | time 36257524056  |     |     sequence 3418
--     sign 0              |     worker 14
--                         node 24
--
-- Nothing in it depends on the session: times are shown in UTC, as ISO has them.
CREATE FUNCTION snowflake_catalog.explain(
    id bigint, layout text, epoch timestamptz, dialect text, is_unsigned boolean, backfill bigint)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
DECLARE
    -- of bits that belong together, from the highest down
    names text[];
    widths integer[];
    shifts integer[];
    numbers bigint[];
    starts integer[];   -- the columns in which the bits begin, and the labels
    lines integer[];    -- of the labels, from 0
    unit text; line text; result text;
BEGIN
    WITH field (nth, name, width) AS (
        SELECT r.nth, r.m[1], r.m[2]::integer
        FROM regexp_matches(layout, '([a-z]+):([0-9]+)', 'g') WITH ORDINALITY AS r (m, nth)
    ), span (nth, name, width) AS (
        VALUES (-1::bigint, 'sign', 1)
        UNION ALL SELECT 0, 'unused', 63 - sum(f.width)::integer FROM field f
        UNION ALL TABLE field
    ), placed AS (
        SELECT s.*, sum(s.width) OVER (ORDER BY s.nth DESC)::integer - s.width AS shift,
            sum(s.width + 1) OVER (ORDER BY s.nth)::integer - s.width - 1 AS start
        FROM span s WHERE s.width > 0
    )
    SELECT array_agg(p.name ORDER BY p.nth), array_agg(p.width ORDER BY p.nth),
        array_agg(p.shift ORDER BY p.nth), array_agg(p.start ORDER BY p.nth),
        array_agg(id >> p.shift & ~(-1::bigint << p.width) ORDER BY p.nth)
    INTO names, widths, shifts, starts, numbers FROM placed p;
    IF id < 0 OR names[2] = 'unused' AND numbers[2] <> 0 THEN   -- say so as snowflake_parse() does
        PERFORM snowflake_catalog.time_of(id, layout, epoch);
    END IF;

    -- Each label has the highest line in which it meets neither a label nor the
    -- mark that connects a label further down with its bits.
    lines := array_fill(0, ARRAY[cardinality(names)]);
    FOR i IN REVERSE cardinality(names) .. 1 LOOP
        FOR j IN i + 1 .. cardinality(names) LOOP
            IF starts[j] <= starts[i] + length(names[i] || ' ' || numbers[i]) THEN
                lines[i] := greatest(lines[i], lines[j] + 1);
            END IF;
        END LOOP;
    END LOOP;
    result := format(E'ID       %s\nhex      0x%s\nbase32   %s\n%slayout   %s\nepoch    %s\n\n',
            id, lpad(to_hex(id), 16, '0'), snowflake_catalog.encoded(id, 'base32'),
            'dialect  ' || dialect || E'\n', layout, epoch)
        || (SELECT string_agg(substr(id::bit(64)::text, 65 - s.shift - s.width, s.width), ' ')
                || E'\n' || string_agg('^' || repeat('-', s.width - 1), ' ') || E'\n'
            FROM unnest(widths, shifts) AS s (width, shift));
    FOR n IN 0 .. (SELECT max(l) FROM unnest(lines) AS l) LOOP
        line := '';
        FOR i IN 1 .. cardinality(names) LOOP
            IF lines[i] >= n THEN
                line := rpad(line, starts[i])
                    || CASE lines[i] WHEN n THEN names[i] || ' ' || numbers[i] ELSE '|' END;
            END IF;
        END LOOP;
        result := result || line || E'\n';
    END LOOP;

    unit := (SELECT CASE WHEN ms % 1000 = 0 THEN ms / 1000 || ' s' ELSE ms || ' ms' END
        FROM regexp_match(layout, 'time:[0-9]+(?:@([0-9]+)(m?s))?') AS m, LATERAL (SELECT
            coalesce(m[1], '1')::bigint * CASE m[2] WHEN 's' THEN 1000 ELSE 1 END) AS u (ms));
    WITH span AS (
        SELECT s.*, greatest(5, max(length(s.number::text)) OVER ()) AS digits,
            CASE WHEN s.name = 'sign' AND is_unsigned THEN 'part of the time in the original'
                WHEN s.name = 'sign' THEN 'IDs are not negative'
                WHEN s.name = 'unused' THEN 'not in the layout'
                WHEN s.name <> 'time' THEN format('of 0 to %s%s', ~(-1::bigint << s.width),
                    CASE WHEN s.name = 'worker' AND s.number = backfill
                        THEN ', drawn by snowflake_backfill()' END)
                -- in seconds since 1970, where timestamps end
                WHEN s.number > 0 AND extract(epoch FROM epoch) + s.number
                    * extract(epoch FROM unit::interval) >= 9224318016000
                    THEN 'later than a timestamp can be'
                ELSE snowflake_catalog.time_of(s.number << s.shift, layout, epoch)::text
            END AS meaning
        FROM unnest(names, widths, shifts, numbers) WITH ORDINALITY
            AS s (name, width, shift, number, nth)
    )
    SELECT format(E'%s\nfield     width    bits  %s  meaning\n%s\ntime = epoch + %s * %s\nID = %s',
        result, lpad('value', max(s.digits)),
        string_agg(format(E'%-8s  %5s  %4s%-2s  %s  %s\n', s.name, s.width,
            CASE WHEN s.width > 1 THEN s.shift + s.width - 1 || '..' END, s.shift,
            lpad(s.number::text, s.digits), s.meaning), '' ORDER BY s.nth),
        max(s.number) FILTER (WHERE s.name = 'time'), unit,
        string_agg(CASE WHEN s.shift = 0 THEN s.number::text
            -- it is SQL, too, where an integer would be shifted out of its bits
            ELSE format('(%s%s << %s)', s.number, CASE WHEN s.number < 2147483648
                AND s.number << s.shift > 2147483647 THEN '::bigint' END, s.shift) END,
            ' | ' ORDER BY s.nth) FILTER (WHERE s.name NOT IN ('sign', 'unused')))
    INTO result FROM span s;
    RETURN result;
END $$;
COMMENT ON FUNCTION snowflake_catalog.explain(bigint, text, timestamptz, text, boolean, bigint) IS
'build the text of snowflake_explain()';

CREATE FUNCTION snowflake_explain(id bigint)
RETURNS text LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    RETURN snowflake_catalog.explain(id, l.layout, l.first_ts, NULL, false, l.backfill_worker)
        FROM snowflake_catalog.layout() AS l;
END $$;
COMMENT ON FUNCTION snowflake_explain(bigint) IS
'a picture of the bits of a snowflake ID, with its fields and their meaning';

CREATE FUNCTION snowflake_explain(id bigint, dialect text)
RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT snowflake_parse(least(id, 0), dialect);      -- is there such a dialect?
    SELECT snowflake_catalog.explain(id, d.layout, d.epoch, d.name, d.is_unsigned, NULL)
        FROM snowflake_dialects() AS d WHERE d.name = dialect;
END;
COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
'a picture of the bits of an ID of another generator, by a name of snowflake_dialects()';

CREATE FUNCTION snowflake_explain(id bigint, layout text, epoch timestamptz)
RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT snowflake_parse(least(id, 0), layout, epoch);        -- what is wrong with these?
    SELECT snowflake_catalog.explain(
            id, coalesce(d.layout, $2), $3, d.name, coalesce(d.is_unsigned, false), NULL)
        FROM (SELECT) AS o LEFT JOIN snowflake_dialects() AS d ON d.name = $2;
END;
COMMENT ON FUNCTION snowflake_explain(bigint, text, timestamptz) IS
'a picture of the bits of an ID, with any layout or dialect name and any epoch';
