/* snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

--
-- Drawing
--

-- The first function: where the library is another extension's, say so.
DO $do$
BEGIN
    CREATE FUNCTION snowflake_nextval()
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_next'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
EXCEPTION
    WHEN undefined_function THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'the library "MODULE_PATHNAME" is not of this extension "snowflake"',
            DETAIL = SQLERRM,
            HINT = 'It belongs to another extension of the same name, such as pgEdge''s. Remove '
                   'its package, install this one again, and restart the server.';
END
$do$;
COMMENT ON FUNCTION snowflake_nextval() IS
'draw a snowflake ID: unique, and above every ID that the same process drew before';

CREATE FUNCTION snowflake_next()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_next'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_next() IS
'the same as snowflake_nextval(), for tools that take "nextval(" in a default for a sequence';

--
-- What is not for people: tables, and functions that others are made of.  In a
-- schema of the extension's own, so that tools that look at an application's
-- schema do not meet it.
--
CREATE SCHEMA snowflake_catalog;
COMMENT ON SCHEMA snowflake_catalog IS 'internal objects of the extension snowflake';

-- for test suites that empty all tables that they find
CREATE FUNCTION snowflake_catalog.refuse_truncate()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('cannot truncate "%s.%s"', TG_TABLE_SCHEMA, TG_TABLE_NAME),
        DETAIL = 'The table belongs to the extension "snowflake", not to an application.',
        HINT = 'Exclude the schema "snowflake_catalog" when you truncate tables. '
               'snowflake_key_format_drop() drops a format of keys.';
END $$;
COMMENT ON FUNCTION snowflake_catalog.refuse_truncate() IS
'trigger: refuse to truncate a table of the extension';
REVOKE ALL ON FUNCTION snowflake_catalog.refuse_truncate() FROM PUBLIC;

CREATE FUNCTION snowflake_copy_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_copy_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_copy_support(internal) IS
'planner support: let COPY insert rows in batches when it leaves out the ID';

ALTER FUNCTION snowflake_nextval() SUPPORT snowflake_copy_support;
ALTER FUNCTION snowflake_next() SUPPORT snowflake_copy_support;

-- Only the support function can make its argument.  The server asks for the
-- right to execute it when COPY begins, so everybody has it.
CREATE FUNCTION snowflake_copy_nextval(internal)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_copy_nextval'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_copy_nextval(internal) IS
'called by COPY in place of snowflake_nextval(); cannot be called in SQL';

CREATE FUNCTION snowflake_nextval(count bigint)
RETURNS SETOF bigint AS 'MODULE_PATHNAME', 'snowflake_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_nextval(bigint) IS 'draw several snowflake IDs, in ascending order';

-- what it returns is known only to the backend itself, like currval()
CREATE FUNCTION snowflake_currval()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_current'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_currval() IS
'the last snowflake ID that this session drew, not counting its parallel workers';

-- STABLE and not IMMUTABLE, here and below, where the result depends on
-- snowflake.epoch and snowflake.layout.  Where the library is preloaded, these
-- are fixed while a server runs, so the planner may evaluate the calls all the
-- same; it learns so from the support function.
CREATE FUNCTION snowflake_settings_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_settings_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_settings_support(internal) IS
'planner support: evaluate a call with constant arguments at planning time';

CREATE FUNCTION snowflake_compose(ts timestamptz, node bigint, worker bigint, sequence bigint)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_compose(timestamptz, bigint, bigint, bigint) IS
'build a snowflake ID from its fields; the inverse of snowflake_parse()';

CREATE FUNCTION snowflake_id(ts timestamptz, discriminator bigint)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_id(timestamptz, bigint) IS
'build a snowflake ID from a time and a number of yours; the same each time';

CREATE FUNCTION snowflake_backfill(ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_backfill'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_backfill(timestamptz) IS
'draw a unique snowflake ID with a time in the past, to load history';

-- there are few in each time unit, and they are used up for all databases
REVOKE ALL ON FUNCTION snowflake_backfill(timestamptz) FROM PUBLIC;

--
-- Reading
--

CREATE FUNCTION snowflake_parse(
    id bigint, OUT ts timestamptz, OUT node integer, OUT worker integer, OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint) IS 'the fields of a snowflake ID';

-- With a layout and epoch that do not depend on settings: IMMUTABLE.
CREATE FUNCTION snowflake_parse(
    id bigint, dialect text, OUT ts timestamptz, OUT node integer, OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint, text) IS
'the fields of an ID of another generator, by a name of snowflake_dialects()';

CREATE FUNCTION snowflake_parse(
    id bigint, layout text, epoch timestamptz, OUT ts timestamptz, OUT node integer,
    OUT worker integer, OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(bigint, text, timestamptz) IS
'the fields of an ID, with any layout or dialect name and any epoch';

CREATE FUNCTION snowflake_timestamp(id bigint)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'the time in a snowflake ID: the start of the time unit in which it was drawn';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text, epoch timestamptz)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_timestamp(bigint, text, timestamptz) IS
'the time in an ID, with any layout or dialect name and any epoch';

CREATE FUNCTION snowflake_horizon_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_horizon_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_horizon_support(internal) IS
'planner support: refuse snowflake_horizon() in a statement that reads a table';

CREATE FUNCTION snowflake_horizon()
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_horizon'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
SUPPORT snowflake_horizon_support;
COMMENT ON FUNCTION snowflake_horizon() IS
'the ID below which readers miss no row whose ID this server drew for its insert';

-- IMMUTABLE: text forms depend on no setting
CREATE FUNCTION snowflake_encode(id bigint, base text DEFAULT 'base32')
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_encode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_encode(bigint, text) IS
'a snowflake ID as a short text: base32 (which sorts like the IDs), base58 or base62';

CREATE FUNCTION snowflake_decode(code text, base text DEFAULT 'base32')
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_decode(text, text) IS
'the snowflake ID of a text in base32, base58 or base62; the inverse of snowflake_encode()';

CREATE FUNCTION snowflake_dialects(
    OUT name text, OUT layout text, OUT epoch timestamptz, OUT time_bits integer,
    OUT node_bits integer, OUT worker_bits integer, OUT sequence_bits integer,
    OUT time_unit interval, OUT last_ts timestamptz, OUT is_unsigned boolean, OUT description text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'snowflake_dialects'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 13;
COMMENT ON FUNCTION snowflake_dialects() IS
'one row for each snowflake generator whose layout has a name: its fields, epoch and last time';

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

--
-- Periods
--

-- The one name that others may have given to a function of theirs.  The result of those for a
-- day and a text depends on the session's time zone, so it is not the planner's to know.
DO $do$
BEGIN
    CREATE FUNCTION id_range_for(ts timestamptz)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_instant'
    LANGUAGE C STABLE STRICT PARALLEL SAFE
    SUPPORT snowflake_settings_support;

    CREATE FUNCTION id_range_for(from_ts timestamptz, to_ts timestamptz)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_bounds'
    LANGUAGE C STABLE STRICT PARALLEL SAFE
    SUPPORT snowflake_settings_support;

    CREATE FUNCTION id_range_for(day date)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_day'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;

    CREATE FUNCTION id_range_for(day_or_ts text)
    RETURNS int8range AS 'MODULE_PATHNAME', 'id_range_for_text'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
EXCEPTION
    WHEN duplicate_function THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_function',
            MESSAGE = SQLERRM,
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext';
END
$do$;
COMMENT ON FUNCTION id_range_for(timestamptz) IS
'all snowflake IDs of the time unit that holds an instant';
COMMENT ON FUNCTION id_range_for(timestamptz, timestamptz) IS
'all snowflake IDs with a time from from_ts to before to_ts';
COMMENT ON FUNCTION id_range_for(date) IS
'all snowflake IDs of a day in the time zone of the session';
COMMENT ON FUNCTION id_range_for(text) IS
'all snowflake IDs of a day, or, if the text has a time of day, of the time unit that holds it';

CREATE FUNCTION snowflake_first_id(period tstzrange)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_first_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_first_id(tstzrange) IS
'the smallest snowflake ID with a time in a period; 0 if there is none';

CREATE FUNCTION snowflake_first_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_first_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_first_id(timestamptz, timestamptz) IS
'the smallest snowflake ID with a time from from_ts to before to_ts; 0 if there is none';

CREATE FUNCTION snowflake_last_id(period tstzrange)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_last_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_last_id(tstzrange) IS
'the largest snowflake ID with a time in a period; -1 if there is none';

CREATE FUNCTION snowflake_last_id(from_ts timestamptz, to_ts timestamptz)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_last_id_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;
COMMENT ON FUNCTION snowflake_last_id(timestamptz, timestamptz) IS
'the largest snowflake ID with a time from from_ts to before to_ts; -1 if there is none';

CREATE FUNCTION snowflake_in_support(internal)
RETURNS internal AS 'MODULE_PATHNAME', 'snowflake_in_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_in_support(internal) IS
'planner support: plan snowflake_in() as id >= first AND id < end';

CREATE FUNCTION snowflake_in(id bigint, period tstzrange)
RETURNS boolean AS 'MODULE_PATHNAME', 'snowflake_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;
COMMENT ON FUNCTION snowflake_in(bigint, tstzrange) IS
'whether the time of a snowflake ID is in a period';

CREATE FUNCTION snowflake_in(id bigint, from_ts timestamptz, to_ts timestamptz)
RETURNS boolean AS 'MODULE_PATHNAME', 'snowflake_in_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;
COMMENT ON FUNCTION snowflake_in(bigint, timestamptz, timestamptz) IS
'whether the time of a snowflake ID is from from_ts to before to_ts';

--
-- Partitions by time
--
-- Bounds are the first IDs of time units, so a row is in the partition of the time at which
-- its ID was drawn.  Where an edge in time is not the start of a time unit, the bound is that
-- of the next one, as in id_range_for(): there are no gaps.
--
-- All is done with the rights of the caller, who must own the table.  Creating takes SHARE
-- UPDATE EXCLUSIVE on it, so that others read and write meanwhile, and sessions that create
-- take turns.  Dropping takes ACCESS EXCLUSIVE, once it is known that there is something to
-- drop.  What partitions there are is read after the lock, in a statement with a snapshot of
-- its own, as each one has in READ COMMITTED.
--
CREATE FUNCTION snowflake_catalog.lock_table("table" regclass, mode integer)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_lock_table'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.lock_table(regclass, integer) IS
'lock a table that the caller owns; the mode is a number, and 0 only checks the owner';

-- A detail or hint that is null is left out, where RAISE would take it for a mistake.
CREATE FUNCTION snowflake_catalog.refuse(state text, message text, detail text, hint text)
RETURNS void LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF hint IS NULL AND detail IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message;
    ELSIF hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail;
    ELSIF detail IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail, HINT = hint;
END $$;
COMMENT ON FUNCTION snowflake_catalog.refuse(text, text, text, text) IS
'raise an error; a null detail or hint is left out';

CREATE FUNCTION snowflake_catalog.require_change(what text)
RETURNS void LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    isolation text := current_setting('transaction_isolation');
BEGIN
    IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = format('cannot execute %s %s', what, CASE WHEN pg_is_in_recovery()
                THEN 'during recovery' ELSE 'in a read-only transaction' END);
    ELSIF isolation NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('cannot execute %s at isolation level "%s"', what, isolation),
            DETAIL = 'It would not see what other sessions commit while it waits for a lock.',
            HINT = 'Run it in a transaction that begins with BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_catalog.require_change(text) IS
'raise an error if a function cannot change tables in this transaction';

CREATE FUNCTION snowflake_catalog.require_layout()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_require_layout'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.require_layout() IS
'raise an error while layout and epoch may be others than this server has drawn IDs with';

CREATE FUNCTION snowflake_catalog.table_name("table" oid)
RETURNS text LANGUAGE plpgsql STABLE STRICT PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE c.relnamespace WHEN pg_my_temp_schema() THEN 'pg_temp'
            ELSE c.relnamespace::regnamespace::text END || '.' || quote_ident(c.relname)
        FROM pg_class c WHERE c.oid = "table";
END $$;
COMMENT ON FUNCTION snowflake_catalog.table_name(oid) IS
'the name of a table for a statement, with its schema and quotes';

-- A bound is an ID, or infinite for MINVALUE and MAXVALUE.
CREATE FUNCTION snowflake_catalog.bound_at(ts timestamptz)
RETURNS numeric LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN coalesce(lower(snowflake_catalog.id_range(ts, 'infinity')),
        (SELECT CASE l.max_id WHEN 9223372036854775807 THEN 'Infinity'
            ELSE l.max_id + 1::numeric END FROM snowflake_catalog.layout() AS l));
END $$;
COMMENT ON FUNCTION snowflake_catalog.bound_at(timestamptz) IS
'the first ID of the first time unit that begins at or after a time';

-- In the first hour after the epoch are numbers of a sequence, from before a conversion.
CREATE FUNCTION snowflake_catalog.bound_time(bound numeric)
RETURNS timestamptz LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE WHEN bound = 0 OR s.seconds >= 3600 AND bound <= l.max_id + 1::numeric
            -- or in seconds since 1970, where timestamps end
            AND (isfinite(l.last_ts) OR extract(epoch FROM l.first_ts) + s.seconds < 9224318016000)
            THEN snowflake_catalog.time_of(least(bound, l.max_id)::bigint)
                + CASE WHEN bound > l.max_id THEN l.time_unit ELSE '0' END END
        FROM snowflake_catalog.layout() AS l, LATERAL (
            SELECT extract(epoch FROM l.time_unit) * div(bound,
                2 ^ (l.node_bits + l.worker_bits + l.sequence_bits)::numeric)) AS s (seconds));
END $$;
COMMENT ON FUNCTION snowflake_catalog.bound_time(numeric) IS
'the start of the time unit of a bound; null if it is none, or a number of a sequence';

CREATE FUNCTION snowflake_catalog.bound_text(bound numeric, as_time boolean)
RETURNS text LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN coalesce(CASE WHEN as_time THEN snowflake_catalog.bound_time(bound)::text END,
        replace(replace(bound::text, '-Infinity', 'MINVALUE'), 'Infinity', 'MAXVALUE'));
END $$;
COMMENT ON FUNCTION snowflake_catalog.bound_text(numeric, boolean) IS
'a bound as text: for a statement, or as a time for a message';

-- Those being detached are among them, since their bounds still count.
CREATE FUNCTION snowflake_catalog.partitions(
    parent oid, OUT relid oid, OUT relname name, OUT relkind "char", OUT is_default boolean,
    OUT detaching boolean, OUT from_id numeric, OUT to_id numeric)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT c.oid, c.relname, c.relkind, b.ids IS NULL, i.inhdetachpending,
            b.ids[1], b.ids[2]
        -- of a table, pg_get_expr() locks it on some server versions
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, LATERAL (SELECT regexp_match(
            replace(replace(pg_get_expr(c.relpartbound, 0), 'MINVALUE', '-Infinity'), 'MAXVALUE',
            'Infinity'), 'FROM [(]''?([^'')]+)''?[)] TO [(]''?([^'')]+)')::numeric[]) AS b (ids)
        WHERE i.inhparent = parent AND c.relpartbound IS NOT NULL
        ORDER BY b.ids IS NULL, b.ids[1];
END $$;
COMMENT ON FUNCTION snowflake_catalog.partitions(oid) IS
'the partitions of a table by their bounds, the default one last';

CREATE FUNCTION snowflake_catalog.require_partitioned(parent regclass)
RETURNS void LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    layout text := l.layout FROM snowflake_catalog.layout() AS l;
    rel record;
    problem text[];
BEGIN
    SELECT c.relname, c.relkind,
        k.partstrat = 'r' AND k.partnatts = 1 AND k.partattrs[0] > 0 AS ranges,
        a.attname, format_type(a.atttypid, NULL) AS type, o.opcfamily, o.opcintype, o.opcname
    INTO rel FROM pg_class c LEFT JOIN pg_partitioned_table k ON k.partrelid = c.oid
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.partattrs[0]
        LEFT JOIN pg_opclass o ON o.oid = k.partclass[0]
    WHERE c.oid = parent;
    problem := CASE
        WHEN substring(layout, '([a-z]+):0*[1-9]') <> 'time' THEN ARRAY[
            'object_not_in_prerequisite_state', 'snowflake IDs of this server do not sort by time',
            format('In the layout "%s" the time is not the highest field, so the IDs of a period '
                'are not a range.', layout),
            'Partitions by time need a layout that begins with "time".']
        WHEN rel.relname IS NULL THEN ARRAY['undefined_table',
            format('relation with OID %s does not exist', parent::oid)]
        WHEN rel.relkind <> 'p' THEN ARRAY['wrong_object_type',
            format('"%s" is not a partitioned table', rel.relname),
            format('This operation is not supported for %s.', jsonb '{"r": "tables", "v": "views",
                "m": "materialized views", "f": "foreign tables", "i": "indexes", "S": "sequences",
                "I": "partitioned indexes", "t": "TOAST tables", "c": "composite types"}'
                ->> rel.relkind::text),
            CASE rel.relkind
                WHEN 'r' THEN 'Create it with PARTITION BY RANGE on its ID column.' END]
        WHEN NOT rel.ranges THEN ARRAY['wrong_object_type',
            format('table "%s" is not partitioned by ranges of one column', rel.relname),
            format('Its partition key is %s.', pg_get_partkeydef(parent)),  -- which locks it
            'Partitions by time need PARTITION BY RANGE on the ID column alone.']
        WHEN rel.opcintype <> 'bigint'::regtype THEN ARRAY['datatype_mismatch',
            format('table "%s" is not partitioned by a bigint column', rel.relname),
            format('Its partition key, column "%s", is of type %s.', rel.attname, rel.type)]
        -- other operators than those of integers may order otherwise
        WHEN rel.opcfamily <> 1976 THEN ARRAY['wrong_object_type',
            format('table "%s" is not partitioned by bigint''s own order', rel.relname),
            format('Its partition key has another operator class: RANGE (%I %I).', rel.attname,
                rel.opcname)] END;
    IF problem IS NOT NULL THEN
        PERFORM snowflake_catalog.refuse(problem[1], problem[2], problem[3], problem[4]);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_catalog.require_partitioned(regclass) IS
'raise an error unless a table is partitioned by ranges of one bigint column';

-- A local time for months and days, else UTC.
CREATE FUNCTION snowflake_catalog.start_of(unit text, ts timestamptz, time_zone text)
RETURNS timestamp LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    start timestamp := date_trunc(unit, ts AT TIME ZONE time_zone);
BEGIN
    IF unit NOT IN ('month', 'day') THEN
        RETURN date_trunc(unit, ts, time_zone) AT TIME ZONE 'UTC';
    END IF;
    -- On days when midnight comes twice, or is skipped together with some time before it, the
    -- server takes a later instant as their start.  An instant before is of the day before.
    RETURN start - CASE WHEN start AT TIME ZONE time_zone > ts
        THEN ('1 ' || unit)::interval ELSE '0' END;
END $$;
COMMENT ON FUNCTION snowflake_catalog.start_of(text, timestamptz, text) IS
'the start of the month, day, hour ... of a time, in a time zone';

-- Partitions of this zone would overlap them, leave a gap, or go on from them and miss the
-- changes of clocks.  Edges that are midnights of no zone are somebody's choice.
CREATE FUNCTION snowflake_catalog.require_midnights(
    parent regclass, from_ts timestamptz, to_ts timestamptz, time_zone text)
RETURNS void LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' AS $$
DECLARE
    most interval := l.time_unit - interval '1 us' FROM snowflake_catalog.layout() AS l;
    first_id numeric := snowflake_catalog.bound_at(from_ts - interval '1 day');
    last_id numeric := snowflake_catalog.bound_at(to_ts + interval '1 day');
    names name[]; edges timestamptz[];
    zone record;
BEGIN
    SELECT array_agg(p.relname ORDER BY p.from_id), array_agg(e.at ORDER BY p.from_id)
    INTO names, edges
    FROM snowflake_catalog.partitions(parent) AS p, snowflake_catalog.layout() AS l,
        LATERAL (VALUES (p.from_id, p.to_id), (p.to_id, p.from_id)) AS b (id, other_id),
        LATERAL snowflake_catalog.bound_time(b.id) AS e (at)
    WHERE (b.id BETWEEN first_id AND last_id OR b.other_id BETWEEN first_id AND last_id)
        AND e.at > l.first_ts AND e.at <= l.last_ts     -- not where the IDs begin and end
        AND e.at - date_trunc('day', e.at, time_zone) NOT BETWEEN '0' AND most
        -- zones differ by quarters of an hour, so others are midnights of none
        AND e.at - date_bin('15 min', e.at, '2000-01-01 00:00+00') BETWEEN '0' AND most;
    IF names IS NULL THEN
        RETURN;
    END IF;
    SELECT z.name, count(*) OVER () - 1 AS others INTO zone FROM pg_timezone_names z
    WHERE (z.name = 'UTC' OR z.name ~ '^(?!Etc)[A-Z][a-z]+/') AND NOT EXISTS (
        SELECT FROM unnest(edges) AS e (at)
        WHERE e.at - date_trunc('day', e.at, z.name) NOT BETWEEN '0' AND most)
    -- first the zones that somebody uses here
    ORDER BY 'timezone=' || lower(z.name) <> ALL (
            SELECT lower(s.t) FROM pg_db_role_setting d, unnest(d.setconfig) AS s (t)
            UNION ALL SELECT 'timezone=' || lower(current_setting('log_timezone'))),
        z.name <> 'UTC', z.name !~ '^(Europe|America|Asia|Australia)/', z.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format(
                'partitions of "%s" do not begin at midnight in time zone "%s"',
                (SELECT c.relname FROM pg_class c WHERE c.oid = parent), time_zone),
            DETAIL = format('Partition "%s" has an edge at %s, which is midnight in time zone '
                '"%s"%s.', names[1], edges[1], zone.name,
                CASE WHEN zone.others > 0 THEN format(' and %s others', zone.others) END),
            HINT = format('Pass the time zone that they were created with, as in time_zone => %L.',
                zone.name);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_catalog.require_midnights(regclass, timestamptz, timestamptz, text) IS
'raise an error if partitions in or beside a period begin at midnight in another time zone';

CREATE FUNCTION snowflake_create_partitions(
    parent regclass, from_ts timestamptz, to_ts timestamptz, step interval,
    time_zone text DEFAULT pg_catalog.current_setting('TimeZone'),
    OUT partition regclass, OUT starts timestamptz, OUT ends timestamptz, OUT created boolean)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' AS $$
DECLARE
    months integer; us numeric; kinds integer; unit text;
    -- the edges of a grid: the n-th one is anchor + n * step, in this zone
    zone text; anchor timestamp; n integer := 0; at timestamptz; next timestamptz;
    layout record; rel record; part record;
    -- the partitions that are needed, and which of them exist
    edges numeric[]; names text[] := '{}'; ids oid[];
    problem text; form text; name text; shown text[];
    done integer := 0; todo integer; said timestamptz := clock_timestamp();
BEGIN
    PERFORM snowflake_catalog.require_change('snowflake_create_partitions()');
    problem := CASE WHEN NOT isfinite(from_ts) OR NOT isfinite(to_ts)
            THEN 'the period to create partitions for must be finite'
        WHEN from_ts > to_ts THEN 'the start of a period must not be after its end' END;
    IF problem IS NOT NULL THEN
        PERFORM snowflake_catalog.refuse(CASE WHEN problem LIKE '%finite'
                THEN 'datetime_field_overflow' ELSE 'data_exception' END, problem,
            format('The period is from %s to %s.', from_ts, to_ts), NULL);
    END IF;
    SELECT * INTO layout FROM snowflake_catalog.layout();
    IF isfinite(step) THEN
        months := extract(year FROM step) * 12 + extract(month FROM step);
        us := 1000000 * extract(epoch FROM step - make_interval(months => months,
            days => extract(day FROM step)::integer));
        kinds := (months <> 0)::integer + (extract(day FROM step) <> 0)::integer
            + (us <> 0)::integer;
    END IF;
    problem := CASE
        WHEN kinds IS NULL OR kinds = 0 OR kinds = 1 AND step < '0'
            THEN 'step must be positive and finite'
        WHEN kinds > 1
            THEN 'step must be a number of months, of days, or of hours and smaller units'
        WHEN step < layout.time_unit
            THEN format('step %s is smaller than the time unit of snowflake IDs', step)
        WHEN us % 1000 <> 0 THEN 'step must be a whole number of milliseconds' END;
    IF problem IS NOT NULL THEN
        PERFORM snowflake_catalog.refuse('invalid_parameter_value', problem,
            CASE WHEN problem LIKE '%smaller than%' THEN format('The time unit of the layout "%s" '
                'is %s.', layout.layout, layout.time_unit) ELSE format('The step is %s.', step) END,
            CASE WHEN kinds > 1 THEN 'Months and days have no fixed length, so they cannot be '
                'mixed with each other or with hours.' END);
    END IF;
    zone := CASE WHEN us = 0 THEN time_zone ELSE 'UTC' END;
    unit := CASE WHEN months > 0 THEN 'month' WHEN us = 0 THEN 'day'
        WHEN us % 3600000000 = 0 THEN 'hour' WHEN us % 60000000 = 0 THEN 'minute'
        WHEN us % 1000000 = 0 THEN 'second' ELSE 'milliseconds' END;
    anchor := snowflake_catalog.start_of(unit, from_ts, time_zone);     -- is there such a zone?
    PERFORM snowflake_catalog.lock_table(parent, 0);
    PERFORM snowflake_catalog.require_partitioned(parent);
    PERFORM snowflake_catalog.require_layout();
    PERFORM snowflake_catalog.lock_table(parent, 4);    -- SHARE UPDATE EXCLUSIVE
    IF from_ts = to_ts THEN
        RETURN;
    END IF;

    -- In line with an existing partition of one step, which holds the start of the period, or
    -- of its month, day, hour ...  The time it was created for may have been within a time unit.
    anchor := coalesce((SELECT a.anchor
        FROM (VALUES (1, snowflake_catalog.bound_at(
                greatest(from_ts, layout.first_ts) - layout.time_unit + interval '1 us')),
            (2, snowflake_catalog.bound_at(anchor AT TIME ZONE zone))) AS h (nth, id)
        JOIN snowflake_catalog.partitions(parent) AS p ON p.from_id <= h.id AND h.id < p.to_id,
        LATERAL snowflake_catalog.bound_time(p.from_id) AS s (start),
        LATERAL (VALUES (1, snowflake_catalog.start_of(unit, s.start, time_zone)),
            (2, s.start AT TIME ZONE zone)) AS a (nth, anchor)
        WHERE s.start <= from_ts
            AND p.from_id = snowflake_catalog.bound_at(a.anchor AT TIME ZONE zone)
            AND p.to_id = snowflake_catalog.bound_at((a.anchor + step) AT TIME ZONE zone)
        ORDER BY h.nth, a.nth LIMIT 1), anchor);

    -- names have hours in UTC, since a local one may come twice, and as many digits as needed
    form := CASE WHEN months > 0 AND months % 12 = 0 AND extract(month FROM anchor) = 1 THEN '_YYYY'
        WHEN months > 0 THEN '_YYYY_MM' WHEN us = 0 THEN '_YYYY_MM_DD'
        WHEN us % 60000000 = 0 AND extract(second FROM anchor) = 0 THEN '_YYYY_MM_DD_HH24MI"z"'
        WHEN us % 1000000 = 0 AND extract(second FROM anchor) % 1 = 0
            THEN '_YYYY_MM_DD_HH24MISS"z"' ELSE '_YYYY_MM_DD_HH24MISSMS"z"' END;
    SELECT c.relname, c.relnamespace, pg_get_userbyid(c.relowner) AS owner,
        ' USING ' || quote_ident(m.amname) AS am, ' TABLESPACE ' || quote_ident(s.spcname) AS space
    INTO rel FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam
        LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE c.oid = parent;
    at := anchor AT TIME ZONE zone;
    WHILE at < to_ts LOOP
        next := (anchor + (n + 1) * step) AT TIME ZONE zone;
        -- one that is continued may begin earlier; a day that a zone skipped has no length
        IF next > from_ts AND next > at THEN
            problem := CASE WHEN next <= layout.first_ts THEN 'before the epoch'
                WHEN at > layout.last_ts THEN 'past the lifetime' END;
            IF problem IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow', MESSAGE = format(
                    'partition from %s to %s is %s of snowflake IDs', at, next, problem),
                    DETAIL = format('The layout "%s" has times from %s to %s.', layout.layout,
                        layout.first_ts, layout.last_ts);
            ELSIF cardinality(names) = 10000 THEN
                RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                    MESSAGE = 'more than 10000 partitions in one call', DETAIL = format(
                    'A step of %s makes more than that from %s to %s.', step, from_ts, to_ts);
            END IF;
            IF edges IS NULL THEN
                edges := ARRAY[snowflake_catalog.bound_at(at)];
            END IF;
            edges := edges || snowflake_catalog.bound_at(next);
            -- of the table's name the bytes that a name has room for beside the time
            name := to_char(anchor + n * step, form);
            names := names || (substr((repeat('x', length(name)) || rel.relname)::name::text,
                length(name) + 1) || name);
        END IF;
        at := next;
        n := n + 1;
    END LOOP;
    IF us = 0 THEN
        PERFORM snowflake_catalog.require_midnights(
            parent, snowflake_catalog.bound_time(edges[1]), at, time_zone);
    END IF;

    -- those that exist, in the order of bounds
    ids := array_fill(NULL::oid, ARRAY[cardinality(names)]);
    n := 1;
    FOR part IN SELECT p.* FROM snowflake_catalog.partitions(parent) AS p
        WHERE p.from_id < edges[cardinality(edges)] AND p.to_id > edges[1]
    LOOP
        WHILE edges[n + 1] <= part.from_id LOOP
            n := n + 1;
        END LOOP;
        IF part.from_id = edges[n] AND part.to_id = edges[n + 1] AND NOT part.detaching THEN
            ids[n] := part.relid;
            CONTINUE;
        END IF;
        shown := part.relname::text || ARRAY(SELECT snowflake_catalog.bound_text(b.id, t.as_time)
            FROM unnest('{t,f}'::boolean[]) WITH ORDINALITY AS t (as_time, nth),
                unnest(ARRAY[part.from_id, part.to_id, edges[n], edges[n + 1]])
                WITH ORDINALITY AS b (id, nth)
            ORDER BY t.nth, b.nth);
        PERFORM snowflake_catalog.refuse('invalid_object_definition',
            format('a partition from %4$s to %5$s would overlap partition "%1$s"', VARIADIC shown),
            format('Partition "%1$s" is from %2$s to %3$s. Its IDs are from %6$s to before %7$s, '
                'those of the new one would be from %8$s to before %9$s.', VARIADIC shown),
            CASE WHEN part.detaching THEN format('Partition "%1$s" is being detached. Complete it '
                'with ALTER TABLE ... DETACH PARTITION ... FINALIZE.', VARIADIC shown) END);
    END LOOP;
    SELECT w.name, w.n INTO name, n
    FROM unnest(names, ids) WITH ORDINALITY AS w (name, id, n)
    JOIN pg_class c ON c.relname = w.name::name AND c.relnamespace = rel.relnamespace
    WHERE w.id IS NULL ORDER BY w.n LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_table',
            MESSAGE = format('relation "%s" already exists', name),
            DETAIL = format('The partition from %s to %s would have the same name.',
                snowflake_catalog.bound_text(edges[n], true),
                snowflake_catalog.bound_text(edges[n + 1], true)),
            HINT = 'Rename that relation, or attach it with these bounds.';
    END IF;

    -- CREATE TABLE ... PARTITION OF would take ACCESS EXCLUSIVE on the table.  ATTACH PARTITION
    -- adds what LIKE leaves out: indexes, keys, foreign keys, triggers, identity.
    todo := count(*) FROM unnest(ids) AS i WHERE i IS NULL;
    FOR n IN 1 .. cardinality(names) LOOP
        created := ids[n] IS NULL;
        IF created THEN
            name := CASE rel.relnamespace WHEN pg_my_temp_schema() THEN 'pg_temp'
                ELSE rel.relnamespace::regnamespace::text END || '.' || quote_ident(names[n]);
            EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING GENERATED '
                'INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)%s%s',
                name, parent, rel.am, rel.space);
            IF rel.owner <> current_user THEN
                EXECUTE format('ALTER TABLE %s OWNER TO %I', name, rel.owner);
            END IF;
            EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)',
                parent, name, snowflake_catalog.bound_text(edges[n], false),
                snowflake_catalog.bound_text(edges[n + 1], false));
            ids[n] := to_regclass(name);
            done := done + 1;
            IF done < todo AND clock_timestamp() > said + interval '5 s' THEN
                RAISE NOTICE 'created % of % partitions', done, todo;
                said := clock_timestamp();
            END IF;
        END IF;
        partition := ids[n];
        starts := snowflake_catalog.bound_time(edges[n]);
        ends := snowflake_catalog.bound_time(edges[n + 1]);
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_create_partitions(
    regclass, timestamptz, timestamptz, interval, text) IS
'create the missing partitions for all snowflake IDs of a period, one for each step';

-- Bounds without a time zone of their own are of the one that is given.  The server takes an
-- untyped literal for text, also beside a timestamptz.
CREATE FUNCTION snowflake_catalog.instant(ts text, time_zone text)
RETURNS timestamptz LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    at timestamptz := ts;
BEGIN
    PERFORM set_config('timezone', '<+07>-07', true);
    IF at = ts::timestamptz THEN
        RETURN at;      -- the same in any time zone
    ELSIF ts ~* 'today|tomorrow|yesterday' AND EXISTS (SELECT FROM pg_timezone_names z
        WHERE lower(z.name) = lower(time_zone)) THEN
        PERFORM set_config('timezone', time_zone, true);
    END IF;
    RETURN ts::timestamp AT TIME ZONE time_zone;
END $$;
COMMENT ON FUNCTION snowflake_catalog.instant(text, text) IS
'the time of a text, read in time_zone if the text has no zone of its own';

DO $do$
DECLARE
    form text[];
BEGIN
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['text', 'text', 'snowflake_catalog.instant($2, $5)', 'snowflake_catalog.instant($3, $5)'],
        ['text', 'timestamptz', 'snowflake_catalog.instant($2, $5)', '$3'],
        ['timestamptz', 'text', '$2', 'snowflake_catalog.instant($3, $5)'],
        ['timestamp', 'timestamp', '$2 AT TIME ZONE $5', '$3 AT TIME ZONE $5'],
        ['date', 'date', '$2::timestamp AT TIME ZONE $5', '$3::timestamp AT TIME ZONE $5'],
        -- else a literal beside one of these would be read as one, and lose its time of day
        ['text', 'timestamp', 'snowflake_catalog.instant($2, $5)', '$3 AT TIME ZONE $5'],
        ['timestamp', 'text', '$2 AT TIME ZONE $5', 'snowflake_catalog.instant($3, $5)'],
        ['text', 'date', 'snowflake_catalog.instant($2, $5)',
            '$3::timestamp AT TIME ZONE $5'],
        ['date', 'text', '$2::timestamp AT TIME ZONE $5',
            'snowflake_catalog.instant($3, $5)']]
    LOOP
        EXECUTE pg_catalog.format($sql$
            CREATE FUNCTION snowflake_create_partitions(
                parent regclass, from_ts %1$s, to_ts %2$s, step interval,
                time_zone text DEFAULT pg_catalog.current_setting('TimeZone'),
                OUT partition regclass, OUT starts timestamptz, OUT ends timestamptz,
                OUT created boolean)
            RETURNS SETOF record LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
            BEGIN ATOMIC
                SELECT * FROM snowflake_create_partitions($1, %3$s, %4$s, $4, $5);
            END;
            COMMENT ON FUNCTION snowflake_create_partitions(regclass, %1$s, %2$s, interval, text) IS
            'the same, for bounds that are read in the time zone of the partitions'$sql$,
            VARIADIC form);
    END LOOP;
END
$do$;

-- restricted: temporary tables, and statistics of this session
CREATE FUNCTION snowflake_partitions(
    parent regclass, exact boolean DEFAULT false,
    OUT partition regclass, OUT starts timestamptz, OUT ends timestamptz,
    OUT from_id bigint, OUT to_id bigint, OUT rows bigint, OUT bytes bigint)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL RESTRICTED ROWS 100
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    elsewhere boolean := false;     -- Citus has the rows
    part record; key text; rest text; name text := snowflake_catalog.table_name(parent);
    ids text := '%s BETWEEN %L AND %L';
    lowest numeric := -9223372036854775808; highest numeric := 9223372036854775807;
    done integer := 0; said timestamptz := clock_timestamp();
BEGIN
    PERFORM snowflake_catalog.require_partitioned(parent);
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)'
            INTO elsewhere USING parent;
    END IF;
    key := quote_ident(a.attname) FROM pg_partitioned_table k JOIN pg_attribute a
        ON a.attrelid = k.partrelid AND a.attnum = k.partattrs[0] WHERE k.partrelid = parent;
    FOR part IN
        WITH RECURSIVE part AS (
            SELECT p.*, count(*) OVER () AS total, lag(p.to_id, 1, '-Infinity') OVER w AS after_id
            FROM snowflake_catalog.partitions(parent) AS p
            WINDOW w AS (ORDER BY p.is_default, p.from_id)
        ), tree (root, relid) AS (
            SELECT p.relid, p.relid FROM part p
            UNION ALL
            SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid
        )
        -- As the planner does: rows a page at the last VACUUM or ANALYZE, times the pages now.
        -- Before the first of these the number in the statistics counts.  They know nothing of
        -- Citus' columnar tables, nor after a crash: then it is not a number.
        SELECT p.*, s.* FROM part p JOIN (
            SELECT t.root, sum(pg_total_relation_size(c.oid)) AS bytes, sum(CASE
                WHEN c.relkind = 'p' THEN 0 WHEN c.relkind = 'f' THEN greatest(c.reltuples, 0)
                WHEN c.reltuples >= 0 AND c.relpages > 0 THEN c.reltuples / c.relpages
                    * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
                ELSE coalesce(nullif(pg_stat_get_live_tuples(c.oid)
                    + pg_stat_get_xact_tuples_inserted(c.oid), 0),
                    CASE WHEN pg_relation_size(c.oid) > 0 THEN 'NaN' ELSE 0::float8 END)
                END) AS rows
            FROM tree t LEFT JOIN pg_class c ON c.oid = t.relid GROUP BY 1) AS s
            ON s.root = p.relid
        ORDER BY p.is_default, p.from_id
    LOOP
        partition := part.relid;
        starts := snowflake_catalog.bound_time(part.from_id);
        ends := snowflake_catalog.bound_time(part.to_id);
        from_id := nullif(part.from_id, '-Infinity');
        to_id := nullif(part.to_id, 'Infinity');
        bytes := CASE WHEN NOT elsewhere THEN coalesce(part.bytes, 0) END;
        rows := CASE WHEN NOT elsewhere THEN round(nullif(coalesce(part.rows, 0), 'NaN')) END;
        IF exact THEN
            -- By the table, so that SELECT on it is the only right that is needed.  The condition
            -- lets the query read one partition; in the default one is what is between the others.
            IF part.after_id < coalesce(part.from_id, 'Infinity') THEN
                rest := concat_ws(' OR ', rest, format(ids, key, greatest(part.after_id, lowest),
                    least(part.from_id - 1, highest)));
            END IF;
            EXECUTE format('SELECT count(*) FROM %s WHERE %s', name, CASE WHEN part.is_default
                THEN concat_ws(' OR ', key || ' IS NULL', rest) ELSE format(ids, key,
                greatest(part.from_id, lowest), least(part.to_id - 1, highest)) END) INTO rows;
            rows := CASE WHEN NOT part.detaching THEN rows END;     -- it is not read any more
            done := done + 1;
            IF done < part.total AND clock_timestamp() > said + interval '5 s' THEN
                RAISE NOTICE 'counted the rows of % of % partitions', done, part.total;
                said := clock_timestamp();
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_partitions(regclass, boolean) IS
'the partitions of a table: their bounds as times and as snowflake IDs, rows and size';

CREATE FUNCTION snowflake_drop_partitions(
    parent regclass, before_ts timestamptz, dry_run boolean DEFAULT false,
    concurrently boolean DEFAULT false, OUT partition text, OUT starts timestamptz,
    OUT ends timestamptz, OUT command text, OUT done boolean)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound numeric; part record;
    n integer := 0; said timestamptz := clock_timestamp();
BEGIN
    IF NOT dry_run THEN
        PERFORM snowflake_catalog.require_change('snowflake_drop_partitions()');
    END IF;
    IF "concurrently" AND NOT dry_run THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = 'partitions cannot be detached concurrently from within a function',
            HINT = E'In psql, let each command run by itself: SELECT command FROM '
                'snowflake_drop_partitions(..., dry_run => true, concurrently => true) \\gexec';
    ELSIF before_ts = 'infinity' THEN
        RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow',
            MESSAGE = 'before_ts must not be infinity';
    END IF;
    PERFORM snowflake_catalog.lock_table(parent, 0);
    PERFORM snowflake_catalog.require_partitioned(parent);
    PERFORM snowflake_catalog.require_layout();
    SELECT p.relname, c.relname AS parent INTO part FROM snowflake_catalog.partitions(parent) AS p
        JOIN pg_class c ON c.oid = parent WHERE p.is_default AND "concurrently";
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('partitions of "%s" cannot be detached concurrently', part.parent),
            DETAIL = format('It has a default partition, "%s".', part.relname),
            HINT = 'Drop them without concurrently => true, or detach the default partition first.';
    END IF;
    -- Partitions without an end in time do not end before any, nor do those of numbers that no
    -- ID is.
    bound := snowflake_catalog.bound_at(before_ts);
    IF NOT dry_run THEN
        PERFORM FROM snowflake_catalog.partitions(parent) AS p
            WHERE p.to_id > 0 AND p.to_id <= bound
              AND snowflake_catalog.bound_time(p.to_id) IS NOT NULL;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        PERFORM snowflake_catalog.lock_table(parent, 8);    -- ACCESS EXCLUSIVE
    END IF;
    FOR part IN SELECT p.*, snowflake_catalog.table_name(p.relid) AS name, count(*) OVER () AS total
        FROM snowflake_catalog.partitions(parent) AS p
        WHERE p.to_id > 0 AND p.to_id <= bound
            AND snowflake_catalog.bound_time(p.to_id) IS NOT NULL ORDER BY p.from_id
    LOOP
        partition := part.name;
        starts := snowflake_catalog.bound_time(part.from_id);
        ends := snowflake_catalog.bound_time(part.to_id);
        done := NOT dry_run;
        IF "concurrently" THEN
            command := format('ALTER TABLE %s DETACH PARTITION %s %s',
                snowflake_catalog.table_name(parent), partition,
                CASE WHEN part.detaching THEN 'FINALIZE' ELSE 'CONCURRENTLY' END);
            RETURN NEXT;
        END IF;
        command := format('DROP %s %s',
            CASE part.relkind WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, partition);
        IF done THEN
            IF n > 0 AND clock_timestamp() > said + interval '5 s' THEN
                RAISE NOTICE 'dropped % of % partitions', n, part.total;
                said := clock_timestamp();
            END IF;
            EXECUTE command;
            n := n + 1;
            IF EXISTS (SELECT FROM pg_class c WHERE c.oid = part.relid) THEN
                RAISE EXCEPTION USING ERRCODE = 'object_in_use',     -- and another table stays
                    MESSAGE = format('partition %s was renamed meanwhile', partition);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, boolean) IS
'drop the partitions whose snowflake IDs are all older than a time, or show the commands';

-- For snowflake_check(), of the tables that draw their IDs by default, with an ID of now.
CREATE FUNCTION snowflake_catalog.check_partitions(id bigint, OUT status text, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' AS $$
DECLARE
    t record; part record;
    reach numeric; starts timestamptz; ends timestamptz;    -- of what follows now without a gap
    n integer := 0;
BEGIN
    FOR t IN SELECT c.oid, format('%s.%I', c.relnamespace::regnamespace, c.relname) AS name
        FROM pg_partitioned_table k JOIN pg_class c ON c.oid = k.partrelid
        JOIN pg_opclass o ON o.oid = k.partclass[0]
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.partattrs[0]
        JOIN pg_type y ON y.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        CROSS JOIN snowflake_catalog.functions() AS f
        WHERE k.partstrat = 'r' AND k.partnatts = 1 AND o.opcfamily = 1976
            AND o.opcintype = 'bigint'::regtype
            AND NOT pg_is_other_temp_schema(c.relnamespace)
            AND pg_get_expr(coalesce(d.adbin, y.typdefaultbin), 0)
                IN (f.nextval::text, f.next::text)
            AND NOT EXISTS (    -- which would give it the IDs of some time only
                SELECT FROM pg_partition_ancestors(c.oid) AS p JOIN pg_partitioned_table u
                ON u.partrelid = p.relid WHERE u.partstrat = 'r' AND p.relid <> c.oid)
        ORDER BY 2
    LOOP
        n := n + 1;
        reach := NULL;
        FOR part IN SELECT p.* FROM snowflake_catalog.partitions(t.oid) AS p
            WHERE p.is_default OR p.to_id > id AND NOT p.detaching
        LOOP
            IF part.is_default OR part.from_id = reach OR reach IS NULL AND part.from_id <= id THEN
                reach := CASE WHEN part.is_default THEN 'Infinity' ELSE part.to_id END;
                starts := snowflake_catalog.bound_time(part.from_id);
            END IF;
        END LOOP;
        ends := snowflake_catalog.bound_time(reach);
        IF reach IS NULL THEN
            status := 'error';
            detail := format('%s has no partition for IDs that are drawn now, so inserts fail. '
                'Create it with snowflake_create_partitions().', t.name);
            RETURN NEXT;
        ELSIF ends - snowflake_catalog.bound_time(id)
            < least(greatest(coalesce((ends - starts) / 4, '1 day'), '1 hour'), '1 day') THEN
            status := 'warning';
            detail := format('The partitions of %s end at %s. Inserts fail from then on. '
                'Create more with snowflake_create_partitions().', t.name, ends);
            RETURN NEXT;
        END IF;
    END LOOP;
    status := 'ok';
    detail := format('Tables that are partitioned by the IDs that they draw by default: %s.', n);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION snowflake_catalog.check_partitions(bigint) IS
'part of snowflake_check(): tables that lack a partition for new IDs, now or soon';

--
-- Existing tables
--
-- snowflake_convert() first makes a plan: rows of statements, and of what was found.  That
-- only reads, and evaluates only what is built in, and what the server does for any SELECT of
-- the tables: predicates of indexes.  It is all that a dry run does.  The real run locks the
-- tables of the plan and makes it again, as something may have changed before.  Once a plan
-- needs the lock that is held, it is run, with the rights of the caller.
-- "Members" are the columns that foreign keys and inheritance connect with the one to
-- convert, in both directions and over any number of steps.
--
-- Locks: ACCESS EXCLUSIVE on all tables concerned, by one LOCK TABLE, which are given back
-- before another one: two conversions do not wait for each other.  Neither does a plan wait
-- for a table while it has another one: IDs are read after all that may wait.  (To show the
-- definition of a view, the server locks what it reads.  The view is in the way, then.)
--

-- The kind: note, warning, an SQLSTATE, or that of a statement: lock, raise, rewrite, other.
-- What is in the way has its definition for a command.
CREATE TYPE snowflake_catalog.convert_row AS (kind text, detail text, command text, hint text);

-- Does it become bigint; does it get new IDs, as it references the column, and is it
-- inherited from one that does; is its table locked; and from its topmost ancestor down
CREATE TYPE snowflake_catalog.convert_member AS (rel oid, att smallint, name name, type oid,
    parents integer, parent oid, changes boolean, takes boolean, below boolean, touched boolean,
    path oid[]);

-- The table and those below it; its name and that of the column, for statements.  The
-- source: none, identity, sequence (nextval), pgedge (snowflake.nextval), snowflake
-- (snowflake_nextval or snowflake_next), or other.  Is it to be a sequence, and does any
-- member change?
CREATE TYPE snowflake_catalog.convert_column AS (rel oid, att smallint, name name, type oid,
    tree oid[], tab text, label text, source text, expression text, seq oid, back boolean,
    widen boolean, members snowflake_catalog.convert_member[]);

CREATE FUNCTION snowflake_catalog.show(ts timestamptz) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO' AS $$
BEGIN
    RETURN ts::text;
END $$;
COMMENT ON FUNCTION snowflake_catalog.show IS 'a time as text, for a message';

CREATE FUNCTION snowflake_catalog.descendants(relation oid) RETURNS oid[]
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN (SELECT c.relhassubclass FROM pg_class c WHERE c.oid = relation)
        THEN ARRAY(WITH RECURSIVE tree (rel) AS (SELECT relation UNION SELECT i.inhrelid
                FROM tree JOIN pg_inherits i ON i.inhparent = tree.rel AND NOT i.inhdetachpending)
            SELECT rel FROM tree) ELSE ARRAY[relation] END;
END $$;
COMMENT ON FUNCTION snowflake_catalog.descendants IS 'a table and all tables that inherit from it';

CREATE FUNCTION snowflake_catalog.domains(type oid) RETURNS oid[]
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE found oid[];
BEGIN
    WHILE type <> 0 LOOP
        found := found || type;
        type := (SELECT t.typbasetype FROM pg_type t WHERE t.oid = type);
    END LOOP;
    RETURN found;
END $$;
COMMENT ON FUNCTION snowflake_catalog.domains IS
'a type and, if it is a domain, the types that it is based on';

CREATE FUNCTION snowflake_catalog.is_locked(relation oid) RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_is_locked' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.is_locked IS
'whether another session has locked a table so that this one would wait to read it';

-- Of one that others have locked, at its last VACUUM or ANALYZE.  The timeout is for
-- others that lock it, or its TOAST table, just now.
CREATE FUNCTION snowflake_catalog.table_size(relation oid) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1ms' AS $$
BEGIN
    BEGIN
        IF NOT snowflake_catalog.is_locked(relation) THEN
            RETURN pg_table_size(relation::regclass);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
    END;
    RETURN (SELECT c.relpages * current_setting('block_size')::bigint FROM pg_class c
        WHERE c.oid = relation);
END $$;
COMMENT ON FUNCTION snowflake_catalog.table_size IS
'the size of a table, without waiting for a lock';

-- of one that others have locked, NULL
CREATE FUNCTION snowflake_catalog.partition_key(relation oid) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1ms' AS $$
BEGIN
    RETURN CASE WHEN NOT snowflake_catalog.is_locked(relation)
        THEN 'PARTITION BY ' || pg_get_partkeydef(relation) END;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_catalog.partition_key IS
'the partition key of a table, without waiting for a lock';

CREATE FUNCTION snowflake_catalog.is_immutable(expression pg_node_tree) RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_is_immutable' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.is_immutable IS
'whether an expression depends on its variables only';

-- What new IDs need to be above one: nothing (NULL), to raise the mark, to advance it,
-- which takes a right, or a later clock.  None are above where its time unit is the last
-- one, or a field is above the time.
CREATE FUNCTION snowflake_catalog.drawing(id bigint, OUT preload_hint text, OUT node_hint text,
    OUT node integer, OUT clock text, OUT clock_shows timestamptz, OUT id_time timestamptz,
    OUT need text, OUT above timestamptz)
AS 'MODULE_PATHNAME', 'snowflake_drawing' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.drawing IS
'what this server draws with, and what it needs to draw IDs above a given one';

CREATE FUNCTION snowflake_catalog.raise_mark(id bigint) RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_raise_mark' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.raise_mark IS
'raise the durable mark above an ID, but not ahead of the clock';

CREATE FUNCTION snowflake_catalog.convert_raise(plan snowflake_catalog.convert_row[]) RETURNS void
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e snowflake_catalog.convert_row[] := ARRAY(SELECT p FROM unnest(plan) p
        WHERE p.kind ~ '^[0-9A-Z]{5}$');
BEGIN
    PERFORM snowflake_catalog.refuse(e[1].kind, e[1].detail, string_agg(CASE x.n WHEN 1
        THEN x.command ELSE 'Also: ' || x.detail || coalesce(E':\n' || x.command, '') END, chr(10)
        ORDER BY x.n), e[1].hint)
    FROM unnest(e) WITH ORDINALITY AS x (kind, detail, command, hint, n) HAVING count(*) > 0;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_raise IS 'raise the errors of a plan as one error';

-- Foreign keys are found by what they depend on, which has an index in both directions, and
-- children where there are some: the time goes with the number of members, not its square.
-- A foreign key to a column that changes is made anew, so that both tables are locked.
CREATE FUNCTION snowflake_catalog.convert_members(tab oid, col smallint, tree oid[], back boolean)
RETURNS SETOF snowflake_catalog.convert_member
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE small oid[] := CASE WHEN NOT back THEN '{int2,int4}'::regtype[] END;
BEGIN
    RETURN QUERY WITH RECURSIVE member (rel, att, takes, below, touched) AS (
        SELECT tab, col, true, false, false
        UNION SELECT l.rel, l.att, m.takes AND l.down, l.below, l.touched
        FROM member m JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.att
        CROSS JOIN LATERAL (
            SELECT o.torel, o.toatt, o.down, false, a.atttypid = ANY (small) FROM pg_depend d
            JOIN pg_constraint c ON c.oid = d.objid AND c.contype = 'f' AND c.conparentid = 0
            CROSS JOIN unnest(c.conkey, c.confkey) AS k (att, confatt)
            CROSS JOIN LATERAL (VALUES (c.conrelid, k.att, c.confrelid, k.confatt, false),
                (c.confrelid, k.confatt, c.conrelid, k.att, true)) o (rel, att, torel, toatt, down)
            WHERE (d.classid, d.refclassid, d.refobjid, d.refobjsubid, o.rel, o.att)
                = ('pg_constraint'::regclass, 'pg_class'::regclass, m.rel, m.att, m.rel, m.att)
            UNION ALL SELECT p.attrelid, p.attnum, false, false, false FROM pg_inherits i
            JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname
            WHERE i.inhrelid = m.rel AND a.attinhcount > 0
            UNION ALL SELECT c.attrelid, c.attnum, true, m.takes, false FROM pg_inherits i
            JOIN pg_attribute c ON c.attrelid = i.inhrelid AND c.attname = a.attname
            WHERE i.inhparent = m.rel AND c.attinhcount > 0
              AND (SELECT t.relhassubclass FROM pg_class t WHERE t.oid = m.rel)
        ) AS l (rel, att, down, below, touched)
    ), known AS MATERIALIZED (
        SELECT m.*, a.attname AS name, a.atttypid AS type, a.attinhcount::integer AS parents,
            (SELECT min(i.inhparent::bigint)::oid FROM pg_inherits i
             JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname
             WHERE i.inhrelid = m.rel AND a.attinhcount > 0) AS parent,
            coalesce(a.atttypid = ANY (small), false) AS changes
        FROM (SELECT x.rel, x.att, bool_or(x.takes) AS takes, bool_or(x.takes AND x.below) AS below,
            bool_or(x.touched) AS touched FROM member x GROUP BY 1, 2) m
        JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.att
    ), path (rel, name, oids) AS (
        SELECT k.rel, k.name, ARRAY[k.rel] FROM known k WHERE k.parent IS NULL
        UNION ALL SELECT k.rel, k.name, p.oids || k.rel FROM path p
        JOIN known k ON k.parent = p.rel AND k.name = p.name
    )
    SELECT k.rel, k.att, k.name, k.type, k.parents, k.parent, k.changes, k.takes, k.below,
        k.changes OR k.touched OR k.rel = ANY (tree), p.oids
    FROM known k JOIN path p ON p.rel = k.rel AND p.name = k.name
    ORDER BY k.parents > 0, k.rel, k.att;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_members IS
'the columns that are connected with the one to convert';

CREATE FUNCTION snowflake_catalog.convert_column(tab oid, col name, back boolean)
RETURNS snowflake_catalog.convert_column
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off AS $$
DECLARE
    t snowflake_catalog.convert_column;
    r record;
    call text;
BEGIN
    SELECT c.*, a.*, f.*, d.oid AS default_oid, CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN
        pg_get_expr(d.adbin, tab) END AS expression, format_type(a.atttypid, NULL) AS type INTO r
    FROM snowflake_catalog.functions() f LEFT JOIN pg_class c ON c.oid = tab
    LEFT JOIN pg_attribute a ON a.attrelid = tab AND a.attname = col AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = tab AND d.adnum = a.attnum;
    t.tab := snowflake_catalog.table_name(tab);
    t.label := format('%s.%I', t.tab, col);
    -- what no statement could convert
    PERFORM snowflake_catalog.convert_raise(ARRAY(SELECT (k.kind, k.detail, k.command,
        NULL)::snowflake_catalog.convert_row FROM (VALUES
        (1, t.tab IS NULL, '42P01', format('relation with OID %s does not exist', tab), NULL),
        (2, r.relkind NOT IN ('r', 'p'), '42809', format('"%s" is not a table', r.relname), NULL),
        (3, tab < 12000 OR r.relnamespace = 'pg_catalog'::regnamespace, '42501',
            format('permission denied: "%s" is a system catalog', r.relname), NULL),
        (4, NOT pg_has_role(r.relowner, 'USAGE'), '42501',
            format('must be owner of table %s', r.relname), NULL),
        (5, pg_is_other_temp_schema(r.relnamespace), '0A000',
            'cannot convert temporary tables of other sessions', NULL),
        (6, r.attnum IS NULL, '42703', format('column "%s" of relation "%s" does not exist', col,
            r.relname), NULL),
        (7, r.attnum < 0, '0A000', format('cannot alter system column "%s"', col), NULL),
        (8, r.attgenerated <> '', '42809', format('column %s is a generated column', t.label),
            format('GENERATED ALWAYS AS (%s)', r.expression)),
        (9, r.type NOT IN ('smallint', 'integer', 'bigint'), '42804', format('column %s is of type '
            '%s, not smallint, integer or bigint', t.label, r.type), NULL)
        ) AS k (n, applies, kind, detail, command) WHERE k.applies ORDER BY k.n LIMIT 1));

    -- A default is a call, with a cast around it in a column of a smaller type.  It depends
    -- on its function, and on its sequence where that is a constant.
    call := coalesce(substring(r.expression, format('^[(](.*)[)]::%s$', nullif(r.type, 'bigint'))),
        r.expression);
    t.seq := (SELECT d.refobjid FROM pg_depend d JOIN pg_class s ON s.oid = d.refobjid
        WHERE (d.classid, d.objid, d.refclassid) = ('pg_attrdef'::regclass, r.default_oid,
            'pg_class'::regclass) AND s.relkind = 'S'
          AND call ~ '^(snowflake[.])?nextval[(]''.*''::regclass[)]$');
    t.source := CASE WHEN r.attidentity <> '' THEN 'identity' WHEN call IS NULL THEN 'none'
        WHEN call IN (r.nextval::text, r.next::text) THEN 'snowflake'
        WHEN call ~ '^nextval[(]' AND t.seq IS NOT NULL THEN 'sequence'
        WHEN call ~ '^snowflake[.]nextval[(]' AND EXISTS (SELECT FROM pg_depend d
            JOIN pg_proc p ON p.oid = d.refobjid
            WHERE (d.classid, d.objid, d.refclassid) = ('pg_attrdef'::regclass, r.default_oid,
                'pg_proc'::regclass) AND p.proname = 'nextval' AND p.pronargs = 1
              AND (call LIKE '%()' OR p.proargtypes[0] = 'regclass'::regtype)) THEN 'pgedge'
        ELSE 'other' END;
    SELECT tab, r.attnum, col, r.atttypid, snowflake_catalog.descendants(tab), t.tab, t.label,
        t.source, r.expression, t.seq, back, false, NULL INTO t;
    t.members := ARRAY(SELECT m FROM snowflake_catalog.convert_members(tab, t.att, t.tree, back) m);
    t.widen := (SELECT bool_or(m.changes) FROM unnest(t.members) m);
    RETURN t;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_column IS
'the column to convert; an error if no statement could convert it';

CREATE FUNCTION snowflake_catalog.convert_checks(t snowflake_catalog.convert_column)
RETURNS SETOF snowflake_catalog.convert_row
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off AS $$
BEGIN
    RETURN QUERY SELECT k.kind, k.detail, NULL, k.hint
    FROM (SELECT m.*, m.rel = t.rel AND m.att = t.att AS is_target, n AS tab,
            m.touched AND m.att = min(m.att) OVER (PARTITION BY m.rel, m.touched) AS is_first,
            format('%s.%I', n, m.name) AS label, snowflake_catalog.table_name(m.parent) AS above,
            (SELECT d FROM unnest(snowflake_catalog.domains(m.type)) d
             WHERE d IN ('int2'::regtype, 'int4'::regtype)) AS small
        FROM unnest(t.members) m, snowflake_catalog.table_name(m.rel) n) AS m
    JOIN pg_class c ON c.oid = m.rel CROSS JOIN LATERAL (VALUES
        (1, NOT t.back AND NOT m.is_target AND m.small <> m.type, '42804', format('column %s, '
            'which a foreign key connects with the IDs, is of the domain %s over %s', m.label,
            format_type(m.type, NULL), format_type(m.small, NULL)), NULL),
        (2, m.is_first AND NOT pg_has_role(c.relowner, 'USAGE'), '42501',
            format('must be owner of table %s', m.tab), NULL),
        (3, m.changes AND c.reloftype <> 0, '42809', format('%s is a typed table, so the type of '
            'its column %I cannot change', m.tab, m.name), NULL),
        (4, m.changes AND m.parents > 1, '42P16', format('column %s, whose type must change, is '
            'inherited from more than one table', m.label), NULL),
        (5, m.changes AND c.relkind = 'f', 'warning', format('%s is a foreign table: the column '
            'must become bigint on the other server, too', m.tab), NULL),
        (6, m.changes AND m.is_target AND m.parents > 0, '42P16', format('column %s, whose type '
            'must change, is inherited from %s', m.label, m.above),
            format('Convert column %I of %s.', m.name, m.above))
    ) AS k (n, applies, kind, detail, hint)
    WHERE k.applies ORDER BY m.parents > 0, m.rel, m.att, k.n;

    -- Citus has a catalog of the tables that it distributes, each by a column or none
    IF (t.source <> 'snowflake' OR t.widen OR t.back)
        AND to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        RETURN QUERY SELECT CASE WHEN r.reason IS NULL THEN 'warning' ELSE '0A000' END,
            coalesce(format('column %s.%I cannot be altered: Citus ', r.tab, m.name) || r.reason,
                format('Citus stores the rows of %s: the estimate does not count them', r.tab)),
            NULL, CASE WHEN r.reason IS NULL THEN NULL
                WHEN t.source = 'identity' AND m.rel = t.rel THEN 'Distribute a new table whose '
                    'column has the default snowflake_nextval(), and move the rows.'
                ELSE format('Run SELECT undistribute_table(%L, cascade_via_foreign_keys => true), '
                    'convert the column, and distribute the table again.', r.tab) END
        FROM unnest(t.members) m JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = m.rel
        CROSS JOIN LATERAL (SELECT m.rel = t.rel AND m.att = t.att) AS i (is_target)
        CROSS JOIN LATERAL (SELECT snowflake_catalog.table_name(m.rel), CASE
            WHEN i.is_target AND t.back THEN 'gives no sequence to a distributed table'
            WHEN i.is_target AND t.source = 'identity' THEN 'alters no identity column'
            WHEN i.is_target AND m.changes AND t.source = 'sequence'
                THEN 'does not change the type of a column that draws from a sequence'
            WHEN (i.is_target OR m.changes) AND substring(p.partkey, ':varattno ([0-9]+)')
                = m.att::text THEN 'distributes the rows by it' END) AS r (tab, reason)
        WHERE m.parents = 0 AND (m.changes OR r.reason IS NOT NULL) ORDER BY m.rel, m.att;
    END IF;

    -- parents and children, where the default changes
    RETURN QUERY SELECT k.kind, k.detail, NULL, k.hint
    FROM unnest(t.members) m JOIN pg_class c ON c.oid = m.rel
    JOIN pg_attribute p ON p.attrelid = m.parent AND p.attname = m.name
    CROSS JOIN LATERAL (SELECT snowflake_catalog.table_name(m.parent), t.source = 'identity'
        AND p.attidentity <> '' AND c.relispartition) AS i (parent, is_identity)
    CROSS JOIN LATERAL (VALUES (i.is_identity, '42P16', format('column %s is an identity column by '
            'its partitioned table %s', t.label, i.parent),
            format('Convert column %I of %s.', t.name, i.parent)),
        (NOT i.is_identity AND t.type = 'int8'::regtype, 'note', format('only the default of %s '
            'changes; %s, from which it inherits the column, keeps its own%s', t.tab, i.parent,
            CASE WHEN c.relispartition THEN ' for rows that are inserted there' END), NULL)
    ) AS k (applies, kind, detail, hint)
    WHERE m.rel = t.rel AND m.att = t.att AND (t.back OR t.source <> 'snowflake') AND k.applies
    UNION ALL
    (SELECT k.kind, k.detail, NULL, k.hint
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = t.name
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    CROSS JOIN LATERAL (VALUES
        (a.attidentity <> '' AND NOT (c.relispartition AND t.source = 'identity'), '42P16',
            format('column %s.%I is an identity column of its own', c.oid::regclass, t.name),
            'Convert that table first.'),
        (a.attidentity = '' AND pg_get_expr(d.adbin, c.oid) <> coalesce(t.expression, ''),
            'warning', format('the default of %s.%I is replaced, too: %s', c.oid::regclass, t.name,
            pg_get_expr(d.adbin, c.oid)), NULL)) AS k (applies, kind, detail, hint)
    WHERE c.oid = ANY (t.tree) AND c.oid <> t.rel AND (t.back OR t.source <> 'snowflake')
      AND k.applies ORDER BY 2);
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_checks IS
'what prevents a conversion in the tables concerned';

-- Views that use a view in the way have to be dropped, too.
CREATE FUNCTION snowflake_catalog.convert_blockers(members snowflake_catalog.convert_member[])
RETURNS SETOF snowflake_catalog.convert_row
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY WITH RECURSIVE dep (classid, objid, use) AS (
        SELECT d.classid, d.objid, format('%s.%I', m.rel::regclass, m.name) FROM unnest(members) m
        JOIN pg_depend d ON (d.refclassid, d.refobjid, d.refobjsubid)
            = ('pg_class'::regclass, m.rel, m.att)
        LEFT JOIN pg_trigger g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid
        LEFT JOIN pg_attrdef x ON d.classid = 'pg_attrdef'::regclass AND x.oid = d.objid
        WHERE m.changes AND (g.tgparentid = 0 OR (x.adrelid, x.adnum) <> (m.rel, m.att)
            OR d.classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass,
                'pg_publication_rel'::regclass, 'pg_proc'::regclass))
    ), views (rule, view, level) AS (
        SELECT r.oid, r.ev_class, 0 FROM pg_rewrite r
        WHERE r.oid IN (SELECT objid FROM dep WHERE classid = 'pg_rewrite'::regclass)
        UNION SELECT r.oid, r.ev_class, v.level + 1 FROM views v
        JOIN pg_depend d ON (d.refclassid, d.refobjid, d.classid)
            = ('pg_class'::regclass, v.view, 'pg_rewrite'::regclass)
        JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> v.view WHERE v.level < 100
    ), found (classid, objid, level, uses) AS (
        SELECT classid, objid, 0, string_agg(DISTINCT use, ', ') FROM dep GROUP BY classid, objid
        UNION ALL SELECT 'pg_rewrite'::regclass, rule, max(level), NULL FROM views
        GROUP BY rule HAVING min(level) > 0
    )
    SELECT '2BP01', o.object || coalesce(' uses ' || f.uses || ', whose type must change',
            ' uses a view that stands in the way'),
        CASE WHEN c.relkind = 'v' THEN format(E'CREATE VIEW %s%s AS\n%s', c.oid::regclass,
                ' WITH (' || array_to_string(c.reloptions, ', ') || ')', pg_get_viewdef(c.oid))
            WHEN c.relkind = 'm' THEN format(E'CREATE MATERIALIZED VIEW %s AS\n%s', c.oid::regclass,
                pg_get_viewdef(c.oid))
            WHEN r.oid IS NOT NULL THEN pg_get_ruledef(r.oid)
            WHEN x.oid IS NOT NULL
                THEN format('GENERATED ALWAYS AS (%s)', pg_get_expr(x.adbin, x.adrelid))
            WHEN p.oid IS NOT NULL
                THEN concat_ws(' ', 'USING (' || pg_get_expr(p.polqual, p.polrelid) || ')',
                    'WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')
            WHEN u.oid IS NOT NULL THEN format('ALTER PUBLICATION %I ADD TABLE ONLY %s%s%s',
                (SELECT b.pubname FROM pg_publication b WHERE b.oid = u.prpubid),
                u.prrelid::regclass, (SELECT ' (' || string_agg(quote_ident(a.attname), ', '
                    ORDER BY a.attnum) || ')' FROM pg_attribute a
                 WHERE a.attrelid = u.prrelid AND a.attnum = ANY (u.prattrs)),
                ' WHERE ' || pg_get_expr(u.prqual, u.prrelid))
            WHEN f.classid = 'pg_trigger'::regclass THEN pg_get_triggerdef(f.objid)
            ELSE pg_get_functiondef(f.objid) END,
        'In one transaction, drop what is in the way, convert the column, and create it again.'
    FROM found f
    LEFT JOIN pg_rewrite r ON f.classid = 'pg_rewrite'::regclass AND r.oid = f.objid
    LEFT JOIN pg_class c ON c.oid = r.ev_class
    LEFT JOIN pg_attrdef x ON f.classid = 'pg_attrdef'::regclass AND x.oid = f.objid
    LEFT JOIN pg_policy p ON f.classid = 'pg_policy'::regclass AND p.oid = f.objid
    LEFT JOIN pg_publication_rel u ON f.classid = 'pg_publication_rel'::regclass AND u.oid = f.objid
    CROSS JOIN LATERAL (SELECT CASE
        WHEN c.relkind IN ('v', 'm') THEN pg_describe_object('pg_class'::regclass, c.oid, 0)
        WHEN x.oid IS NOT NULL
            THEN 'generated ' || pg_describe_object('pg_class'::regclass, x.adrelid, x.adnum)
        ELSE pg_describe_object(f.classid, f.objid, 0) END) AS o (object)
    ORDER BY f.level, o.object, f.uses;

    RETURN QUERY WITH RECURSIVE used (type) AS (
        SELECT c.reltype FROM unnest(members) m JOIN pg_class c ON c.oid = m.rel
        WHERE m.changes AND c.reltype <> 0
        UNION SELECT d.objid FROM used u JOIN pg_depend d ON (d.refclassid, d.refobjid, d.classid)
            = ('pg_type'::regclass, u.type, 'pg_type'::regclass))
    SELECT DISTINCT '2BP01', format('column %s.%I has rows of a table whose column must change, as '
        'type %s', a.attrelid::regclass, a.attname, format_type(u.type, NULL)), NULL, NULL
    FROM used u JOIN pg_depend d ON (d.refclassid, d.refobjid, d.classid)
        = ('pg_type'::regclass, u.type, 'pg_class'::regclass)
    JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'm', 'p')
    JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid ORDER BY 2;

    -- a column in a partition key depends on its table
    RETURN QUERY
    SELECT '0A000', format('column %s.%I, whose type must change, is in the partition key',
            m.rel::regclass, m.name), 'PARTITION BY ' || pg_get_partkeydef(m.rel),
        'Make a new partitioned table with a bigint column, and move the rows.'
    FROM unnest(members) m WHERE m.changes AND EXISTS (SELECT FROM pg_depend d
        WHERE (d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid, d.refobjsubid, d.deptype)
            = ('pg_class'::regclass, m.rel, m.att, 'pg_class'::regclass, m.rel, 0, 'i'))
    ORDER BY 2;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_blockers IS
'views, rules and other objects that depend on columns that change';

-- In which partitions IDs belong, or whether in one of them.  The way: any (the column is not
-- in the partition key), mixed (it is not a bigint alone), or else the strategy of the key.  Bounds
-- are read, without a lock.  How an ID is hashed is the same in all versions of the server.
CREATE FUNCTION snowflake_catalog.convert_route(top oid, col name, ids bigint[], one oid)
RETURNS TABLE (way text, id bigint, child oid)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid, d.objsubid,
            d.refclassid, d.refobjid, d.refobjsubid, d.deptype) = ('pg_class'::regclass, top,
            a.attnum, 'pg_class'::regclass, top, 0, 'i')) THEN 'any'
        WHEN k.partnatts = 1 AND k.partattrs[0] = a.attnum AND o.oid < 12000
            AND o.opcintype = 'int8'::regtype THEN k.partstrat::text ELSE 'mixed' END INTO way
    FROM pg_partitioned_table k JOIN pg_attribute a ON a.attrelid = k.partrelid AND a.attname = col
    JOIN pg_opclass o ON o.oid = k.partclass[0] WHERE k.partrelid = top;
    RETURN QUERY WITH bound AS MATERIALIZED (
        SELECT i.inhrelid AS rel, d.def = 'DEFAULT' AS is_default,
            substring(d.def, 'FROM [(]''?(-?[0-9]+)')::bigint AS lower,
            substring(d.def, 'TO [(]''?(-?[0-9]+)')::bigint AS upper, string_to_array(translate(
                substring(d.def, 'IN [(](.*)[)]'), ''' ', ''), ',', 'NULL')::bigint[] AS list,
            substring(d.def, 'modulus ([0-9]+)')::numeric AS modulus,
            substring(d.def, 'remainder ([0-9]+)')::numeric AS remainder
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        CROSS JOIN LATERAL pg_get_expr(c.relpartbound, 0) AS d (def)
        WHERE i.inhparent = top AND NOT i.inhdetachpending AND way IN ('r', 'l', 'h')
          AND (one IS NULL OR c.oid = one OR 'DEFAULT' = (SELECT pg_get_expr(x.relpartbound, 0)
            FROM pg_class x WHERE x.oid = one)))
    SELECT way, t.id, (SELECT b.rel FROM bound b
        WHERE b.is_default OR CASE way WHEN 'l' THEN t.id = ANY (b.list)
            WHEN 'r' THEN coalesce(t.id >= b.lower, true) AND coalesce(t.id < b.upper, true)
            ELSE (hashint8extended(t.id, 8816678312871386365)::numeric + 23752253665144318179)
                % 18446744073709551616 % b.modulus = b.remainder END
        ORDER BY b.is_default LIMIT 1)
    FROM unnest(ids) WITH ORDINALITY AS t (id, n) WHERE way IS NOT NULL ORDER BY t.n;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_route IS
'the partition of a table that takes each ID';

-- From a partition upwards, for each ID: NULL where it gets there for certain
CREATE FUNCTION snowflake_catalog.convert_above(part oid, col name, ids bigint[])
RETURNS TABLE (id bigint, stop oid, mixed boolean)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT t.id, s.rel::oid, s.way = 'mixed'
    FROM unnest(ids) WITH ORDINALITY AS t (id, n) LEFT JOIN (
        SELECT DISTINCT ON (r.id) r.id, a.rel, r.way
        FROM pg_partition_ancestors(part) WITH ORDINALITY AS a (rel, n)
        JOIN pg_partition_ancestors(part) WITH ORDINALITY AS p (rel, n) ON p.n = a.n + 1
        CROSS JOIN LATERAL snowflake_catalog.convert_route(p.rel, col, ids, a.rel) r
        WHERE r.way = 'mixed' OR r.way <> 'any' AND r.child IS DISTINCT FROM a.rel
        ORDER BY r.id, a.n) s ON s.id = t.id ORDER BY t.n;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_above IS
'the bounds that keep IDs out of a partition';

CREATE FUNCTION snowflake_catalog.convert_below(top oid, col name, ids bigint[], OUT id bigint,
    OUT stop oid, OUT mixed boolean)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE g record;
BEGIN
    FOR g IN SELECT r.way, r.child, array_agg(r.id ORDER BY r.n) AS ids
        FROM snowflake_catalog.convert_route(top, col, ids, NULL) WITH ORDINALITY
            AS r (way, id, child, n) GROUP BY r.way, r.child ORDER BY min(r.n)
    LOOP
        IF g.way = 'mixed' OR g.way <> 'any' AND g.child IS NULL THEN
            SELECT g.ids[1], top, g.way = 'mixed' INTO id, stop, mixed;
        ELSE
            SELECT b.* INTO id, stop, mixed
            FROM (SELECT i.inhrelid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = top AND NOT i.inhdetachpending AND c.relkind = 'p'
                  AND (g.child IS NULL OR i.inhrelid = g.child) ORDER BY 1) AS c (oid)
            CROSS JOIN LATERAL snowflake_catalog.convert_below(c.oid, col, g.ids) b
            WHERE b.stop IS NOT NULL LIMIT 1;
        END IF;
        EXIT WHEN stop IS NOT NULL;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_below IS 'an ID for which a table has no partition';

-- Some IDs are tried, of now, and for constraints of later.  A constraint is evaluated only
-- if it looks at nothing but the ID, is immutable, and depends on nothing but its table or
-- domain: nothing is recorded to depend on what is built in.  What a table has from another
-- one is found there.  To read a constraint, the server locks the table: one that is not locked
-- for the conversion is not waited for.
CREATE FUNCTION snowflake_catalog.convert_refusals(t snowflake_catalog.convert_column,
    force boolean)
RETURNS SETOF snowflake_catalog.convert_row
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    refused text := CASE WHEN force THEN 'warning' ELSE '23514' END;
    tried bigint[];
    r record;
    bad bigint;
    failure text;
BEGIN
    SELECT array_agg(snowflake_catalog.compose(x.ts, d.node, (i % l.workers)::integer,
        (i % l.sequences)::integer) ORDER BY y.years, i) INTO tried
    FROM snowflake_catalog.drawing(-1) d CROSS JOIN snowflake_catalog.layout() l
    CROSS JOIN (VALUES (0, 63), (1, 0), (10, 0)) AS y (years, last)
    CROSS JOIN generate_series(0, y.last) i
    CROSS JOIN LATERAL (SELECT least(greatest(d.clock_shows, l.first_ts), l.last_ts)
        + y.years * interval '31557600 s') AS x (ts) WHERE x.ts <= l.last_ts;

    FOR r IN SELECT CASE WHEN NOT h.is_hidden THEN pg_get_expr(k.conbin, k.conrelid) END AS
            expression, h.is_hidden, k.what, k.conrelid = 0 AS of_domain,
            CASE k.conrelid WHEN 0 THEN 'value' ELSE m.name END AS name,
            ARRAY(SELECT a.id FROM snowflake_catalog.convert_above(m.rel, m.name, tried) a
                WHERE a.mixed IS NOT FALSE) AS ids,
            CASE WHEN NOT h.is_hidden THEN format('CONSTRAINT %I %s', k.conname,
                pg_get_constraintdef(k.oid)) END AS definition,
            (k.conrelid = 0 OR k.conkey = ARRAY[m.att]) AND snowflake_catalog.is_immutable(k.conbin)
                AND NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid)
                    = ('pg_constraint'::regclass, k.oid) AND (d.refclassid, d.refobjid) NOT IN
                    (('pg_class'::regclass, k.conrelid), ('pg_type'::regclass, k.contypid))) AS pure
        FROM unnest(t.members) m CROSS JOIN LATERAL (
            SELECT c.*, format('check constraint %I of %s', c.conname, c.conrelid::regclass) AS what
            FROM pg_constraint c WHERE c.conrelid = m.rel AND m.att = ANY (c.conkey)
              AND (c.coninhcount = 0 OR NOT m.below)
            UNION ALL SELECT c.*, format('domain %s of column %s.%I', format_type(m.type, NULL),
                snowflake_catalog.table_name(m.rel), m.name) FROM pg_constraint c
            WHERE c.contypid = ANY (snowflake_catalog.domains(m.type)) AND NOT m.below) AS k
        CROSS JOIN LATERAL (SELECT NOT m.touched AND k.conrelid <> 0
            AND snowflake_catalog.is_locked(m.rel)) AS h (is_hidden)
        WHERE m.takes AND k.contype = 'c'
          AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
        ORDER BY k.conrelid = 0, m.rel <> t.rel, m.rel, m.att, k.what, k.conname
    LOOP
        CONTINUE WHEN r.ids = '{}';
        bad := NULL;
        failure := NULL;
        BEGIN
            IF r.pure AND NOT r.is_hidden THEN
                EXECUTE format('SELECT %1$I FROM unnest($1) AS t (%1$I) WHERE (%2$s) IS FALSE '
                    'LIMIT 1', r.name, r.expression) INTO bad USING r.ids;
            END IF;
        EXCEPTION
            WHEN out_of_memory THEN RAISE;
            WHEN OTHERS THEN failure := SQLERRM;
        END;
        RETURN QUERY
        SELECT k.kind, k.detail, r.definition, CASE k.kind WHEN '23514' THEN 'Drop or '
            'replace the constraint first. With force => true the column is converted '
            'nevertheless, and inserts fail until you do so.' WHEN '55P03' THEN 'Try again.' END
        FROM (VALUES (r.is_hidden, CASE WHEN force THEN 'warning' ELSE '55P03' END, concat(r.what,
                ' may refuse new IDs: it cannot be read, as another session has locked the table')),
            (NOT r.pure AND NOT r.is_hidden, 'warning', concat(r.what, ' may refuse new IDs',
                CASE WHEN NOT r.of_domain THEN ': it depends on more than the ID' END)),
            (failure IS NOT NULL, refused, format('%s fails with new IDs: %s', r.what, failure)),
            (bad IS NOT NULL, refused, concat(r.what, ' refuses new IDs', CASE WHEN NOT r.of_domain
                THEN format(', such as %s of %s', bad, snowflake_catalog.show(
                    snowflake_catalog.time_of(bad))) END))) AS k (applies, kind, detail)
        WHERE k.applies;
    END LOOP;

    RETURN QUERY
    SELECT k.kind, concat(k.detail, CASE WHEN s.mixed THEN ': the partition key is not a '
            'bigint column alone' ELSE format(', such as %s of %s', s.id, snowflake_catalog.show(
            snowflake_catalog.time_of(s.id))) END),
        snowflake_catalog.partition_key(s.keyed), CASE k.kind WHEN '23514' THEN k.hint END
    FROM unnest(t.members) m CROSS JOIN LATERAL (
        SELECT x.*, i.inhparent FROM snowflake_catalog.convert_above(m.rel, m.name, tried[:64]) x
        JOIN pg_inherits i ON i.inhrelid = x.stop
        UNION ALL
        SELECT x.*, x.stop FROM snowflake_catalog.convert_below(m.rel, m.name, tried[:64]) x
        WHERE x.stop IS NOT NULL LIMIT 1) AS s (id, stop, mixed, keyed)
    CROSS JOIN LATERAL snowflake_catalog.table_name(s.stop) n
    CROSS JOIN LATERAL (VALUES
        (s.mixed, s.keyed <> s.stop, 'warning', format('partition %s may refuse new IDs', n), NULL),
        (s.mixed, s.keyed = s.stop, 'warning', format('%s may have no partition for new IDs', n),
            NULL),
        (NOT s.mixed, s.keyed <> s.stop, refused, format('%s is not the partition for new IDs', n),
            'Convert the partitioned table instead. With force => true the column of this '
            'partition is converted nevertheless, and inserts into it fail.'),
        (NOT s.mixed, s.keyed = s.stop, refused, format('%s has no partition for new IDs', n),
            'Create the partition first, for example with snowflake_create_partitions(). With '
            'force => true the column is converted nevertheless, and inserts fail until you do so.')
    ) AS k (applies, is_there, kind, detail, hint)
    WHERE m.takes AND NOT m.below AND k.applies AND k.is_there
    ORDER BY m.rel <> t.rel, m.rel, m.att;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_refusals IS
'constraints and bounds that refuse new IDs, or may refuse them';

-- The sequence belongs to the table's owner and to the column, and has the name that serial
-- would give it.  Roles that may insert rows need USAGE: nextval() checks the rights of its
-- caller, which snowflake_nextval() does not.
CREATE FUNCTION snowflake_catalog.convert_sequence(t snowflake_catalog.convert_column,
    highest bigint)
RETURNS SETOF snowflake_catalog.convert_row
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
    a text;
    b text := t.name;
    label text := 'seq';
    seq text;
BEGIN
    SELECT r.*, n.oid AS schema, pg_get_userbyid(r.relowner) AS owner, pg_get_userbyid(r.relowner)
        = current_user AS is_own, CASE n.oid WHEN pg_my_temp_schema() THEN 'pg_temp'
        ELSE n.nspname END AS nspname INTO c
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE r.oid = t.rel;
    a := c.relname;
    FOR tries IN 1 .. 2147483647 LOOP
        WHILE octet_length(a || b || label) > 61 LOOP
            IF octet_length(a) > octet_length(b) THEN
                a := left(a, -1);
            ELSE
                b := left(b, -1);
            END IF;
        END LOOP;
        seq := concat_ws('_', a, b, label);
        EXIT WHEN NOT EXISTS (SELECT FROM pg_class r
            WHERE r.relname = seq AND r.relnamespace = c.schema);
        label := 'seq' || tries;
    END LOOP;
    seq := format('%I.%I', c.nspname, seq);
    RETURN QUERY SELECT k.kind, k.detail, k.command, k.hint
    FROM (VALUES
        (highest = 9223372036854775807, '2200H', format('max(%I) is %s, the largest bigint: no '
            'number is left for a sequence', t.name, highest), NULL, NULL),
        (NOT has_schema_privilege(c.schema, 'CREATE'), '42501', format('permission denied to '
            'create a sequence in schema %I', c.nspname), NULL, NULL),
        (has_schema_privilege(c.schema, 'CREATE') AND NOT has_schema_privilege(c.relowner, c.schema,
            'CREATE') AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), '42501',
            format('the owner of table %s may not have a sequence in schema %I', t.tab, c.nspname),
            NULL, NULL),
        (highest <> 9223372036854775807, 'other',
            'creates the sequence, which continues above the largest ID; no rewrite',
            format('CREATE %sSEQUENCE %s AS bigint START WITH %s%s', CASE c.relpersistence
                WHEN 't' THEN 'TEMPORARY ' WHEN 'u' THEN 'UNLOGGED ' END, seq, CASE WHEN highest > 0
                AND highest < 9223372036854775807 THEN highest + 1 ELSE 1 END,
                CASE WHEN c.is_own THEN ' OWNED BY ' || t.label END), seq),
        (NOT c.is_own AND highest <> 9223372036854775807, 'other',
            'the sequence belongs to the owner of the table',
            format('ALTER SEQUENCE %s OWNER TO %I', seq, c.owner), NULL),
        (NOT c.is_own AND highest <> 9223372036854775807, 'other',
            'a drop of the column also drops the sequence',
            format('ALTER SEQUENCE %s OWNED BY %s', seq, t.label), NULL)
    ) AS k (applies, kind, detail, command, hint) WHERE k.applies
    UNION ALL
    SELECT 'other', 'let the roles that may insert rows draw from the sequence', format('GRANT '
        'USAGE ON SEQUENCE %s TO %s', seq, string_agg(g.role, ', ' ORDER BY g.is_all, g.role)), NULL
    FROM (SELECT DISTINCT g.grantee = 0, CASE g.grantee WHEN 0 THEN 'PUBLIC'
            ELSE quote_ident(pg_get_userbyid(g.grantee)) END
        FROM (SELECT r.relacl FROM pg_class r WHERE r.oid = ANY (t.tree) UNION ALL
            SELECT r.attacl FROM pg_attribute r WHERE r.attrelid = ANY (t.tree)) AS x (acl)
        CROSS JOIN LATERAL aclexplode(x.acl) g
        WHERE g.privilege_type = 'INSERT' AND g.grantee <> c.relowner) AS g (is_all, role)
    HAVING count(*) > 0;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_sequence IS
'the statements that create a sequence for a column';

CREATE FUNCTION snowflake_catalog.convert_plan(tab oid, col name, back boolean, force boolean,
    with_ids boolean)
RETURNS SETOF snowflake_catalog.convert_row
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t snowflake_catalog.convert_column := snowflake_catalog.convert_column(tab, col, back);
    is_new boolean := t.source <> 'snowflake' OR back;     -- does the default change?
    new_default text := f.nextval::text FROM snowflake_catalog.functions() AS f WHERE is_new;
    may_read boolean := has_table_privilege(tab, 'SELECT')
        OR has_column_privilege(tab, t.att, 'SELECT');
    reads boolean := with_ids AND (is_new OR t.type <> 'int8'::regtype);
    lowest bigint;
    highest bigint;
    max text;
    r record;
    tables bigint := 0;
    bytes bigint := 0;
BEGIN
    -- LOCK locks descendants, too.  In the order in which all tables would be locked if each
    -- topmost ancestor was, level by level.
    RETURN QUERY SELECT k.kind, k.detail, k.command, k.hint
    FROM (SELECT string_agg(snowflake_catalog.table_name(l.rel), ', '
            ORDER BY l.path[1], cardinality(l.path), l.path) FILTER (WHERE NOT l.is_below) AS names,
            bool_or(l.is_below) AS below
        FROM (SELECT DISTINCT ON (m.rel) m.rel, m.path,
                m.rel <> tab AND p.rel IS NOT NULL AS is_below
            FROM unnest(t.members) m LEFT JOIN (SELECT DISTINCT o.rel FROM unnest(t.members) o
                WHERE o.touched) p ON p.rel = m.parent
            WHERE m.touched ORDER BY m.rel, 3, m.att) l) l
    CROSS JOIN snowflake_catalog.drawing(-1) d
    LEFT JOIN (pg_depend e JOIN pg_extension x ON x.oid = e.refobjid) ON (e.classid, e.objid,
        e.objsubid, e.refclassid, e.deptype) = ('pg_class'::regclass, tab, 0,
        'pg_extension'::regclass, 'e')
    CROSS JOIN LATERAL (SELECT CASE WHEN NOT back THEN 'yes'
        WHEN t.source IN ('identity', 'sequence') THEN 'already'
        WHEN t.source IN ('other', 'pgedge') THEN 'other'
        WHEN t.type <> 'int8'::regtype THEN 'small' ELSE 'yes' END) AS g (goes)
    CROSS JOIN LATERAL (VALUES
        (pg_is_in_recovery(), '25006', 'this server is a standby', NULL, NULL),
        (NOT back AND d.preload_hint IS NOT NULL, '55000', 'snowflake is not loaded via '
            '"shared_preload_libraries", so no ID could be drawn', NULL, d.preload_hint),
        (NOT back AND d.node_hint IS NOT NULL, '55000', '"snowflake.node_id" is not set, so no ID '
            'could be drawn', NULL, d.node_hint),
        (x.oid IS NOT NULL, 'warning', format('%s belongs to extension %s: pg_dump does not save '
            'the change', t.tab, quote_ident(x.extname)), NULL, NULL),
        (g.goes = 'already', 'note', format('column %s draws from a sequence already: nothing to '
            'do', t.label), NULL, NULL),
        (g.goes = 'other', '55000', format('column %s does not draw snowflake IDs of this '
            'extension', t.label), format('Its default is %s.', t.expression), NULL),
        (g.goes = 'small', '42804', format('column %s is of type %s, not bigint', t.label,
            format_type(t.type, NULL)), NULL, (SELECT format('Run ALTER TABLE %s ALTER COLUMN %I '
            'TYPE bigint first.', snowflake_catalog.table_name(m.path[1]), col)
            FROM unnest(t.members) m WHERE m.rel = tab AND m.att = t.att)),
        (NOT is_new, 'note', format('column %s draws snowflake IDs already%s', t.label,
            CASE WHEN t.widen THEN '' ELSE ': nothing to do' END), NULL, NULL),
        (g.goes = 'yes' AND (is_new OR t.widen), 'lock', format('ACCESS EXCLUSIVE lock on %s%s: no '
            'other session can read or write it until the transaction ends', l.names,
            CASE WHEN l.below THEN ' and all tables below' END),
            format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', l.names), NULL)
    ) AS k (applies, kind, detail, command, hint) WHERE k.applies;
    IF back AND (t.source NOT IN ('none', 'snowflake') OR t.type <> 'int8'::regtype) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM snowflake_catalog.convert_checks(t);
    IF t.widen THEN
        RETURN QUERY SELECT * FROM snowflake_catalog.convert_blockers(t.members);
    END IF;
    IF NOT back AND (is_new OR t.widen) THEN
        RETURN QUERY SELECT * FROM snowflake_catalog.convert_refusals(t, force);
    END IF;

    -- new IDs must be above those that there are
    IF reads AND may_read AND NOT row_security_active(tab) THEN
        EXECUTE format('SELECT min(%1$I)::bigint, max(%1$I)::bigint FROM %2$s', col, t.tab)
            INTO lowest, highest;
    END IF;
    max := format('max(%I) = %s', col, highest);
    RETURN QUERY SELECT k.kind, k.detail, k.command, k.hint
    FROM snowflake_catalog.layout() l CROSS JOIN snowflake_catalog.functions() f
    CROSS JOIN snowflake_catalog.drawing(CASE WHEN back THEN -1 ELSE coalesce(highest, -1) END) d
    CROSS JOIN LATERAL (SELECT snowflake_catalog.show(d.id_time), snowflake_catalog.show(d.above),
        format('The %s shows %s.', d.clock, snowflake_catalog.show(d.clock_shows)), d.need
        = 'advance' AND NOT has_function_privilege(f.advance, 'EXECUTE'),
        CASE WHEN d.need = 'clock' AND isfinite(d.above) THEN l.first_ts - make_interval(secs =>
            extract(epoch FROM d.above - d.clock_shows)::float8) END
    ) AS x (id_time, above, clock, is_forbidden, epoch)
    CROSS JOIN LATERAL (VALUES
        (reads AND NOT may_read, '42501', format('permission denied to read the IDs of table %s',
            t.tab), NULL, NULL),
        (reads AND may_read AND row_security_active(tab), '42501', format('row-level security may '
            'hide IDs of table %s from role %I', t.tab, current_user), NULL, format('Run ALTER '
            'TABLE %s NO FORCE ROW LEVEL SECURITY for the conversion, or convert the column as a '
            'role that bypasses row-level security.', t.tab)),
        (lowest < 0 AND NOT back, 'warning', format('there are negative IDs (min(%I) = %s), which '
            'snowflake_parse() and snowflake_timestamp() cannot read', col, lowest), NULL, NULL),
        (highest > l.max_id AND NOT back, '22003', format('%s is above all IDs of the layout "%s", '
            'which end at %s', max, l.layout, l.max_id), NULL, NULL),
        (d.need = 'last', '22003', format('%s is in the last time unit of the layout "%s": no ID '
            'is left above it', max, l.layout), NULL, NULL),
        (d.need = 'field', '22003', format('%s is larger than later IDs of this '
            'server: the layout "%s" has a field above the time', max, l.layout), NULL, NULL),
        (d.need = 'clock', '22003', format('%s reads as an ID of %s, ahead of the clock: no ID '
            'above it could be drawn before', max, x.id_time), x.clock,
            CASE WHEN x.epoch > '1970-01-01 00:00:00+00' THEN format('If these IDs were drawn with '
                'another epoch, set "snowflake.epoch" to that epoch. New IDs are above them with '
                'an epoch before %s. You can set it as long as this server has drawn no ID.',
                snowflake_catalog.show(x.epoch)) END),
        (x.is_forbidden, '42501', format('permission denied to put the durable mark ahead of the '
            'clock, to %s', x.above), format('%s reads as an ID of %s. %s', max, x.id_time,
            x.clock), 'Wait until the clock has reached that, or convert the column as a role that '
            'may execute snowflake_advance().'),
        (d.need IN ('raise', 'advance') AND NOT x.is_forbidden, d.need, format('new IDs begin at '
            '%s, to be above %s; the durable mark stays there after a rollback, too', x.above, max),
            format('SELECT %s(%s::bigint, false)', f.advance::regproc, highest), NULL)
    ) AS k (applies, kind, detail, command, hint) WHERE k.applies;
    IF back THEN
        new_default := NULL;
        FOR r IN SELECT * FROM snowflake_catalog.convert_sequence(t, coalesce(highest, 0)) LOOP
            RETURN NEXT r;
            new_default := coalesce(new_default,
                'nextval(' || quote_literal(r.hint) || '::regclass)');
        END LOOP;
        IF new_default IS NULL THEN
            RETURN;
        END IF;
    END IF;

    -- one ALTER TABLE for each table, so that it is rewritten only once
    FOR r IN SELECT a.*, s.*
        FROM (SELECT m.rel, snowflake_catalog.table_name(m.rel) AS label, concat_ws(', ',
                CASE WHEN m.rel = tab AND t.source = 'identity'
                    THEN format('ALTER COLUMN %I DROP IDENTITY', col) END,
                string_agg(format('ALTER COLUMN %I TYPE bigint', m.name), ', ' ORDER BY m.att)
                    FILTER (WHERE m.changes AND m.parents = 0), CASE WHEN m.rel = tab
                    THEN format('ALTER COLUMN %I SET DEFAULT ', col) || new_default END) AS actions,
                bool_and(m.parents > 0) AS below, snowflake_catalog.descendants(m.rel) AS tree,
                bool_or(m.changes AND m.parents = 0) AS is_rewritten
            FROM unnest(t.members) m GROUP BY m.rel) a
        CROSS JOIN LATERAL (SELECT count(*) AS tables, coalesce(sum(CASE WHEN with_ids THEN
                snowflake_catalog.table_size(c.oid) END), 0)::bigint AS bytes
            FROM pg_class c WHERE c.oid = ANY (a.tree) AND c.relkind = 'r' AND a.is_rewritten) s
        WHERE a.actions <> '' ORDER BY a.rel <> tab, a.below, a.rel
    LOOP
        tables := tables + r.tables;
        bytes := bytes + r.bytes;
        RETURN QUERY VALUES (CASE WHEN r.is_rewritten THEN 'rewrite' ELSE 'other' END, concat(
            'ACCESS EXCLUSIVE lock on ', r.label, CASE WHEN cardinality(r.tree) > 1 THEN format(
                ' and the tables below, %s, to which it applies too', cardinality(r.tree) - 1) END,
            CASE WHEN r.is_rewritten THEN format('; rewrites %s (%s)', CASE r.tables WHEN 1
                THEN 'the table' ELSE r.tables || ' tables' END, pg_size_pretty(r.bytes))
                ELSE '; no rewrite' END, CASE WHEN r.rel = tab AND t.source = 'identity'
                THEN '; drops the sequence of the identity column' END),
            format('ALTER TABLE %s %s', r.label, r.actions), NULL);
    END LOOP;

    -- The sequence of the default, and others that the column owns: what uses them?  Not this
    -- default, and those below.  DROP IDENTITY drops the one of an identity column.
    RETURN QUERY SELECT k.kind, k.detail, k.command, NULL
    FROM (SELECT t.seq WHERE is_new UNION SELECT d.objid FROM pg_depend d
        WHERE (d.classid, d.refclassid, d.refobjid, d.refobjsubid) = ('pg_class'::regclass,
            'pg_class'::regclass, tab, t.att) AND d.deptype IN ('a', CASE t.source WHEN 'identity'
            THEN 'i' ELSE 'a' END)) AS q (oid) JOIN pg_class s ON s.oid = q.oid AND s.relkind = 'S'
    LEFT JOIN pg_depend o ON (o.classid, o.objid, o.refclassid) = ('pg_class'::regclass, s.oid,
        'pg_class'::regclass) AND o.deptype IN ('i', 'a')
    LEFT JOIN (pg_depend e JOIN pg_extension x ON x.oid = e.refobjid) ON (e.classid, e.objid,
        e.refclassid, e.deptype) = ('pg_class'::regclass, s.oid, 'pg_extension'::regclass, 'e')
    CROSS JOIN LATERAL (SELECT string_agg(DISTINCT n.object, ', ' ORDER BY n.object)
        FROM pg_depend d
        LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
        LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
        LEFT JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
        CROSS JOIN LATERAL (SELECT CASE WHEN w.oid IS NULL
            THEN pg_describe_object(d.classid, d.objid, d.objsubid)
            ELSE pg_describe_object('pg_class'::regclass, w.ev_class, 0) END) AS n (object)
        WHERE (d.refclassid, d.refobjid) = ('pg_class'::regclass, s.oid) AND d.deptype <> 'i'
          AND (a.attname = col AND f.adrelid = ANY (t.tree)) IS NOT TRUE) AS u (users)
    CROSS JOIN LATERAL (SELECT snowflake_catalog.table_name(s.oid), (o.refobjid, o.refobjsubid)
        = (tab, t.att), t.source = 'identity' AND o.deptype = 'i') AS y (name, is_own, goes)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN s.oid IS DISTINCT FROM t.seq THEN coalesce('used by ' || u.users, format('column %s '
            'owns it, but its default does not use it; if no function or client uses it by name, '
            'run DROP SEQUENCE %s', t.label, y.name))
        WHEN o.refobjid IS NULL THEN 'no column owns it'
        WHEN NOT y.is_own THEN format('it belongs to column %s.%s',
            snowflake_catalog.table_name(o.refobjid), (SELECT quote_ident(a.attname)
            FROM pg_attribute a WHERE a.attrelid = o.refobjid AND a.attnum = o.refobjsubid))
        WHEN o.deptype = 'i' THEN 'it is left over from an identity column, cannot be dropped '
            'before the column, and pg_dump writes it in a way that cannot be restored; see '
            'the documentation, under "Former identity columns"'
        WHEN x.oid IS NOT NULL THEN format('it belongs to extension %s', quote_ident(x.extname))
        ELSE 'used by ' || u.users END) AS z (stays)
    CROSS JOIN LATERAL (VALUES
        (y.goes AND u.users IS NOT NULL, '2BP01', format('sequence %s of the identity column is '
            'used by %s', y.name, u.users), NULL),
        (z.stays IS NULL, 'other', format('ACCESS EXCLUSIVE lock on %s; no other object of this '
            'database depends on it, but functions and clients may use it by name', y.name),
            format('DROP SEQUENCE %s', y.name)),
        (NOT y.goes AND z.stays IS NOT NULL, CASE WHEN o.deptype = 'i' AND y.is_own THEN 'warning'
            ELSE 'note' END, format('sequence %s stays: %s', y.name, z.stays), NULL)
    ) AS k (applies, kind, detail, command)
    WHERE NOT back AND k.applies ORDER BY s.oid IS DISTINCT FROM t.seq, s.relname;
    IF NOT is_new AND t.widen IS NOT TRUE THEN
        RETURN;
    END IF;

    RETURN QUERY SELECT k.kind, k.detail, NULL, NULL
    FROM snowflake_catalog.drawing(coalesce(highest, -1)) d CROSS JOIN LATERAL (
        SELECT DISTINCT 5, NOT back, 'warning', format('column %s references %s, which has no row '
            'for a new ID: inserts that use the default fail', t.label, c.confrelid::regclass)
        FROM pg_constraint c WHERE c.contype = 'f' AND c.conparentid = 0 AND c.conrelid = tab
          AND t.att = ANY (c.conkey)
        UNION ALL VALUES
        (1, with_ids, 'note', CASE WHEN tables > 0 THEN format('estimate: rewrites %s (%s) with '
            'all indexes, and checks foreign keys; needs as much disk for the new files until the '
            'transaction ends, and up to as much for WAL', CASE tables WHEN 1 THEN '1 table'
            ELSE tables || ' tables' END, pg_size_pretty(bytes))
            ELSE format('estimate: changes the catalogs only, without a rewrite; finds max(%I) by '
                'an index that begins with it, or reads the whole table', col) END),
        (2, back, 'note', 'IDs of the sequence are unique in this table only, and have no time in '
            'them'),
        (2, back AND t.source = 'snowflake', 'warning', 'snowflake_currval() no longer returns the '
            'IDs of this column: use RETURNING, or currval()'),
        (3, NOT back AND t.source = 'other', 'warning', format('the default %s is replaced',
            t.expression)),
        (4, NOT back AND t.source = 'pgedge', 'note', 'IDs of pgEdge''s extension are read by '
            'snowflake_parse(id, ''pgedge''); snowflake_parse(id) and snowflake_timestamp() read '
            'them right only where "snowflake.layout" is "pgedge"'),
        (4, NOT back AND is_new AND t.source <> 'pgedge' AND d.id_time IS NOT NULL, 'note', format(
            'existing IDs stay as they are, below all new ones; numbers from a sequence have no '
            'time in them: snowflake_timestamp() reads %s in %s',
            snowflake_catalog.show(d.id_time), max)),
        (6, NOT back AND t.source IN ('identity', 'sequence', 'pgedge'), 'warning', 'currval() and '
            'lastval() no longer return the IDs of this column: use RETURNING, or '
            'snowflake_currval()'),
        (7, t.widen, 'warning', 'clients must read the IDs as 64-bit integers, where 32 bits were '
            'enough; JavaScript''s numbers hold 53 bits'),
        (7, NOT back AND t.widen IS NOT TRUE, 'warning', 'new IDs have more than the 53 bits that '
            'JavaScript''s numbers hold: give JavaScript the IDs as text'),
        (8, t.widen, 'note', 'the columns that change their type have no planner statistics until '
            'the next ANALYZE')) AS k (n, applies, kind, detail)
    WHERE k.applies ORDER BY k.n, k.detail;
END $$;
COMMENT ON FUNCTION snowflake_catalog.convert_plan IS
'the statements of a conversion, and what was found';

-- "table" and "column" are keywords, so they need their quotes in a call by name, too.
CREATE FUNCTION snowflake_convert("table" regclass, "column" name, dry_run boolean DEFAULT true,
    target text DEFAULT 'snowflake', force boolean DEFAULT false,
    OUT step integer, OUT kind text, OUT command text, OUT detail text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    back boolean := target = 'bigserial';
    plan snowflake_catalog.convert_row[];
    lock text;
    failures integer := 0;
    r record;
BEGIN
    IF target NOT IN ('snowflake', 'bigserial') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('cannot convert to "%s"', left(target, 100)),
            HINT = 'Available targets: snowflake, bigserial.';
    ELSIF dry_run THEN
        plan := ARRAY(SELECT p FROM snowflake_catalog.convert_plan($1, $2, back, force, true) p);
    ELSE
        PERFORM snowflake_catalog.require_change('snowflake_convert()');
    END IF;

    -- what is dropped meanwhile is not found, or the server's own look-up fails
    WHILE plan IS NULL LOOP
        BEGIN
            plan := ARRAY(
                SELECT p FROM snowflake_catalog.convert_plan($1, $2, back, force, false) p);
            PERFORM snowflake_catalog.convert_raise(plan);
            lock := (SELECT p.command FROM unnest(plan) p WHERE p.kind = 'lock');
            EXIT WHEN lock IS NULL;
            EXECUTE lock;

            -- and the sequences that may be dropped at the end: whoever has drawn from one may
            -- wait for the table
            PERFORM snowflake_catalog.lock_table(s.oid, 8)
            FROM pg_attribute a JOIN pg_depend d ON (d.classid, d.refclassid, d.refobjid,
                d.refobjsubid) = ('pg_class'::regclass, 'pg_class'::regclass, a.attrelid, a.attnum)
            JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
            WHERE a.attrelid = $1 AND a.attname = $2 AND d.deptype IN ('a', 'i') AND NOT back;
            plan := ARRAY(
                SELECT p FROM snowflake_catalog.convert_plan($1, $2, back, force, true) p);
            PERFORM snowflake_catalog.convert_raise(plan);
            IF EXISTS (SELECT FROM unnest(plan) p WHERE p.kind = 'lock' AND p.command <> lock) THEN
                RAISE SQLSTATE 'SFLOC';     -- gives the locks back
            END IF;
        EXCEPTION
            WHEN SQLSTATE 'SFLOC' THEN plan := NULL;
            WHEN undefined_table OR undefined_object OR internal_error THEN
                plan := NULL;
                failures := failures + 1;
                IF failures = 5 THEN
                    RAISE;
                END IF;
        END;
    END LOOP;

    FOR r IN SELECT p.*, row_number() OVER w AS step, p.k = 2 AS is_statement,
            count(*) FILTER (WHERE p.k = 2) OVER () AS steps, lag(p.hint) OVER w AS last_hint
        FROM (SELECT o.*, CASE WHEN o.kind ~ '^[0-9A-Z]{5}$' THEN 1 WHEN o.kind = 'warning' THEN 3
                WHEN o.kind = 'note' THEN 4 ELSE 2 END AS k
            FROM unnest(plan) WITH ORDINALITY AS o (kind, detail, command, hint, n)) p
        WINDOW w AS (ORDER BY p.k, p.n)
    LOOP
        IF NOT dry_run AND r.is_statement AND r.kind <> 'lock' THEN
            IF r.kind = 'rewrite' THEN
                RAISE NOTICE 'step % of %: %', r.step, r.steps, r.command;
            END IF;
            IF r.kind = 'raise' THEN
                PERFORM snowflake_catalog.raise_mark(
                    substring(r.command, '([0-9]+)::bigint, false[)]$')::bigint);
            ELSE
                EXECUTE r.command;
            END IF;
        END IF;
        step := r.step;
        kind := ('{error,statement,warning,note}'::text[])[r.k];
        command := CASE WHEN r.is_statement THEN r.command END;
        detail := concat(r.detail, CASE WHEN NOT r.is_statement THEN E':\n' || r.command END,
            CASE WHEN NOT r.is_statement AND r.hint IS DISTINCT FROM r.last_hint
            THEN E'\nHint: ' || r.hint END);
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_convert(regclass, name, boolean, text, boolean) IS
'convert a column to snowflake IDs, or back to a sequence; by default only show the steps';

--
-- Short, dense numbers, out of segments that the registry hands out, or the
-- home database where there is no registry (extension snowflake_segments)
--

CREATE FUNCTION snowflake_segment_nextval(tag text)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
'draw the next number of a segment tag: short, and unique on all servers of the registry';

CREATE FUNCTION snowflake_segment_next(tag text)
RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_next(text) IS
'the same as snowflake_segment_nextval(tag), for tools that take "nextval(" for a sequence';

CREATE FUNCTION snowflake_segment_nextval(tag text, count bigint)
RETURNS SETOF bigint AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_segment_nextval(text, bigint) IS
'draw several numbers of a segment tag, in ascending order';

-- as with a sequence, whose numbers may come to an end
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_segment_next(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_segment_nextval(text, bigint) FROM PUBLIC;

-- not undone by a rollback, and known to all servers of the registry
CREATE FUNCTION snowflake_segment_create(
    tag text, start bigint DEFAULT 1, step bigint DEFAULT 10, delta bigint DEFAULT 1,
    remainder bigint DEFAULT 0, max_value bigint DEFAULT 9223372036854775807,
    description text DEFAULT NULL)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_create'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_create(text, bigint, bigint, bigint, bigint, bigint,
    text) IS 'create a segment tag: a named supply of numbers for snowflake_segment_nextval()';
REVOKE ALL ON FUNCTION snowflake_segment_create(text, bigint, bigint, bigint, bigint, bigint,
    text) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_alter(
    tag text, start bigint DEFAULT NULL, step bigint DEFAULT NULL,
    max_value bigint DEFAULT NULL, description text DEFAULT NULL)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_alter'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_alter(text, bigint, bigint, bigint, text) IS
'change a segment tag, or where its next segment begins; a null argument changes nothing';
REVOKE ALL ON FUNCTION snowflake_segment_alter(text, bigint, bigint, bigint, text) FROM PUBLIC;

CREATE FUNCTION snowflake_segment_drop(tag text, forget boolean DEFAULT false)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_segment_drop'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_segment_drop(text, boolean) IS
'drop a segment tag; a new one of its name continues above its numbers unless forget is true';
REVOKE ALL ON FUNCTION snowflake_segment_drop(text, boolean) FROM PUBLIC;

--
-- Business keys: readable texts that show the shard and the time of an ID
--
-- The library reads the formats from the table, whatever rights the caller has.  It
-- relies on what the CHECKs say; write_key_format() says the same to people.
--

CREATE TABLE snowflake_catalog.key_formats (
    name text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    prefix text COLLATE "C" NOT NULL CHECK (prefix ~ '^[A-Za-z]{1,16}$'),
    db_count integer NOT NULL CHECK (db_count >= 1),
    tables_per_db integer NOT NULL CHECK (tables_per_db >= 1),
    version integer NOT NULL CHECK (version >= 0),
    time_zone text COLLATE "C" NOT NULL,
    text_route text COLLATE "C" NOT NULL CHECK (text_route IN ('codes', 'hash')),
    database_width integer NOT NULL CHECK (database_width BETWEEN 0 AND 9),
    table_width integer NOT NULL CHECK (table_width BETWEEN 0 AND 9),
    version_width integer NOT NULL CHECK (version_width BETWEEN 0 AND 9),
    node_width integer NOT NULL CHECK (node_width BETWEEN 0 AND 9),
    sequence_width integer NOT NULL CHECK (sequence_width BETWEEN 0 AND 18),
    UNIQUE (prefix, version)
);
COMMENT ON TABLE snowflake_catalog.key_formats IS
'formats of business keys; change them with snowflake_key_format_create(), _rename() and _drop()';

SELECT pg_catalog.pg_extension_config_dump('snowflake_catalog.key_formats', '');

CREATE FUNCTION snowflake_catalog.check_key_format()
RETURNS trigger AS 'MODULE_PATHNAME', 'snowflake_check_key_format'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.check_key_format() IS
'trigger: refuse formats whose keys could be equal, and tell all sessions of a change';
REVOKE ALL ON FUNCTION snowflake_catalog.check_key_format() FROM PUBLIC;

CREATE TRIGGER check_format AFTER INSERT OR UPDATE OR DELETE ON snowflake_catalog.key_formats
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.check_key_format();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_catalog.key_formats
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_catalog.refuse_truncate();

ALTER TABLE snowflake_catalog.key_formats
    ENABLE ALWAYS TRIGGER check_format, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE FUNCTION snowflake_key_formats()
RETURNS SETOF snowflake_catalog.key_formats LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT f.* FROM snowflake_catalog.key_formats AS f ORDER BY f.name;
END;
COMMENT ON FUNCTION snowflake_key_formats() IS
'one row for each format of business keys: prefix, shards, time zone and widths';

CREATE FUNCTION snowflake_catalog.write_key_format(old_name text, f snowflake_catalog.key_formats)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong record;
    duplicate text;
BEGIN
    SELECT v.* INTO wrong FROM (VALUES
        ('name', f.name, length(f.name) BETWEEN 1 AND 100, 'It must have 1 to 100 characters.'),
        ('prefix', f.prefix, f.prefix ~ '^[A-Za-z]{1,16}$',
         'It must be 1 to 16 letters from A to Z and a to z.'),
        ('db_count', f.db_count::text, f.db_count >= 1, 'It must be 1 or more.'),
        ('tables_per_db', f.tables_per_db::text, f.tables_per_db >= 1, 'It must be 1 or more.'),
        ('version', f.version::text, f.version >= 0, 'It must not be negative.'),
        ('time_zone', f.time_zone, length(f.time_zone) BETWEEN 1 AND 100,
         'It must be the name of a time zone.'),
        ('text_route', f.text_route, f.text_route IN ('codes', 'hash'),
         'It must be "codes" or "hash".'),
        ('database_width', f.database_width::text, f.database_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('table_width', f.table_width::text, f.table_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('version_width', f.version_width::text, f.version_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('node_width', f.node_width::text, f.node_width BETWEEN 0 AND 9,
         'It must be from 0 to 9.'),
        ('sequence_width', f.sequence_width::text, f.sequence_width BETWEEN 0 AND 18,
         'It must be from 0 to 18.')) AS v (argument, value, is_right, rule)
    WHERE v.is_right IS NOT TRUE LIMIT 1;
    IF wrong.value IS NULL AND FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = format('%s must not be null', wrong.argument);
    ELSIF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid %s: "%s"', wrong.argument, left(wrong.value, 100)),
            DETAIL = wrong.rule;
    END IF;

    IF old_name IS NULL THEN
        INSERT INTO snowflake_catalog.key_formats VALUES (f.*);
    ELSE
        UPDATE snowflake_catalog.key_formats AS k SET name = f.name WHERE k.name = old_name;
    END IF;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS duplicate = PG_EXCEPTION_DETAIL;
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
            MESSAGE = format('key format "%s" duplicates another one', f.name),
            DETAIL = duplicate,
            HINT = 'Choose another name, or another version if the prefix is the same.';
END $$;
COMMENT ON FUNCTION snowflake_catalog.write_key_format(text, snowflake_catalog.key_formats) IS
'check a format of business keys, and insert it or rename an existing one';
REVOKE ALL ON FUNCTION snowflake_catalog.write_key_format(text, snowflake_catalog.key_formats)
    FROM PUBLIC;

CREATE FUNCTION snowflake_catalog.lock_key_format(name text)
RETURNS snowflake_catalog.key_formats
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats;
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = 'name must not be null';
    END IF;
    SELECT k.* INTO f FROM snowflake_catalog.key_formats AS k
    WHERE k.name = lock_key_format.name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('key format "%s" does not exist', left(name, 100)),
            HINT = 'snowflake_key_formats() lists the formats.';
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION snowflake_catalog.lock_key_format(text) IS
'lock and return a format of business keys; an error if it does not exist';
REVOKE ALL ON FUNCTION snowflake_catalog.lock_key_format(text) FROM PUBLIC;

CREATE FUNCTION snowflake_catalog.require_key_format(name text)
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_require_key_format'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.require_key_format(text) IS
'an error if a format of business keys cannot be used with this layout';
REVOKE ALL ON FUNCTION snowflake_catalog.require_key_format(text) FROM PUBLIC;

-- These three run as the owner of the table.  The owner of a database who has
-- created the extension can call them.
CREATE FUNCTION snowflake_key_format_create(
    name text, prefix text, db_count integer, tables_per_db integer, version integer DEFAULT 1,
    time_zone text DEFAULT 'UTC', text_route text DEFAULT 'codes', database_width integer DEFAULT 2,
    table_width integer DEFAULT 4, version_width integer DEFAULT 2, node_width integer DEFAULT 2,
    sequence_width integer DEFAULT 5)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_catalog.write_key_format(NULL::text,
        ROW(name, prefix, db_count, tables_per_db, version, time_zone, text_route,
            database_width, table_width, version_width, node_width, sequence_width
        )::snowflake_catalog.key_formats);
    PERFORM snowflake_catalog.require_key_format(name);
END $$;
COMMENT ON FUNCTION snowflake_key_format_create(text, text, integer, integer, integer, text, text,
    integer, integer, integer, integer, integer) IS
'create a format of business keys, for snowflake_key()';
REVOKE ALL ON FUNCTION snowflake_key_format_create(text, text, integer, integer, integer, text,
    text, integer, integer, integer, integer, integer) FROM PUBLIC;

CREATE FUNCTION snowflake_key_format_rename(name text, new_name text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats := snowflake_catalog.lock_key_format(name);
BEGIN
    f.name := new_name;
    PERFORM snowflake_catalog.write_key_format(name, f);
END $$;
COMMENT ON FUNCTION snowflake_key_format_rename(text, text) IS
'rename a format of business keys; nothing else of it can change';
REVOKE ALL ON FUNCTION snowflake_key_format_rename(text, text) FROM PUBLIC;

CREATE FUNCTION snowflake_key_format_drop(name text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f snowflake_catalog.key_formats := snowflake_catalog.lock_key_format(name);
BEGIN
    DELETE FROM snowflake_catalog.key_formats AS k WHERE k.name = f.name;
END $$;
COMMENT ON FUNCTION snowflake_key_format_drop(text) IS
'drop a format of business keys; its keys can then be neither drawn nor read';
REVOKE ALL ON FUNCTION snowflake_key_format_drop(text) FROM PUBLIC;

-- not STRICT: a null route would make a null key
CREATE FUNCTION snowflake_key(format text, route bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_number'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, bigint) IS
'draw a business key, a readable snowflake ID, on the shard of a number';

CREATE FUNCTION snowflake_key(format text, route text)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_text'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, text) IS
'draw a business key on the shard of a text, or of another key';

-- STABLE: they draw nothing, and read the formats
CREATE FUNCTION snowflake_key(format text, route bigint, id bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_number_id'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, bigint, bigint) IS
'the business key of a snowflake ID that there is, on the shard of a number';

CREATE FUNCTION snowflake_key(format text, route text, id bigint)
RETURNS text AS 'MODULE_PATHNAME', 'snowflake_key_text_id'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key(text, text, bigint) IS
'the business key of a snowflake ID that there is, on the shard of a text or of another key';

CREATE FUNCTION snowflake_key_parse(
    key text, OUT format text, OUT prefix text, OUT database integer, OUT "table" integer,
    OUT version integer, OUT ts timestamptz, OUT node integer, OUT sequence bigint, OUT id bigint)
AS 'MODULE_PATHNAME', 'snowflake_key_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_key_parse(text) IS
'the fields of a business key, and its snowflake ID: null if the layout has no such time';

-- IMMUTABLE: they depend on no setting, and on no format
CREATE FUNCTION snowflake_route(
    route bigint, db_count bigint, tables_per_db bigint, OUT database integer,
    OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_number'
LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_route(bigint, bigint, bigint) IS
'the shard of a number: a table, counted over all databases, and its database';

CREATE FUNCTION snowflake_route(
    route text, db_count bigint, tables_per_db bigint, method text DEFAULT 'codes',
    OUT database integer, OUT "table" integer)
AS 'MODULE_PATHNAME', 'snowflake_route_text'
LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_route(text, bigint, bigint, text) IS
'the shard of a text; a text of digits has the shard of that number';

--
-- pg_dump takes the durable mark along, so that a server into which the dump
-- is restored issues none of the IDs in it.  The table has no rows: what is
-- dumped is added by the filter, which pg_dump puts after FROM, and restoring
-- it fires the trigger.  Where that was disabled, the constraint says so.
--

CREATE TABLE snowflake_catalog.dumped_mark (
    mark timestamptz,
    layout text,
    epoch timestamptz,
    backfilled bigint,
    CONSTRAINT restore_with_triggers_enabled CHECK (false)
);
COMMENT ON TABLE snowflake_catalog.dumped_mark IS
'always empty; makes pg_dump save the durable mark and the count of backfilled IDs';

SELECT pg_catalog.pg_extension_config_dump('snowflake_catalog.dumped_mark', $filter$
WHERE false UNION ALL
SELECT mark::pg_catalog.timestamptz,
  pg_catalog.current_setting('snowflake.layout'),
  pg_catalog.current_setting('snowflake.epoch')::pg_catalog.timestamptz,
  (SELECT pg_catalog.max(pg_catalog.substring(c, '^snowflake[.]backfilled=([0-9]+)$')
                         ::pg_catalog.int8)
   FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) AS c)
FROM pg_catalog.current_setting('snowflake.issued_until', true) AS mark
WHERE mark OPERATOR(pg_catalog.<>) ''
$filter$);

CREATE FUNCTION snowflake_catalog.restore_mark()
RETURNS trigger AS 'MODULE_PATHNAME', 'snowflake_restore_mark'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_catalog.restore_mark() IS
'trigger: raise the durable mark to the mark in a dump that is being restored';
REVOKE ALL ON FUNCTION snowflake_catalog.restore_mark() FROM PUBLIC;

-- What the first one leaves, as there is no mark writer.  It is kept as settings of the database
-- until there is.  Layout and epoch may still be set then.
CREATE FUNCTION snowflake_catalog.keep_mark()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting record;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'permission denied to keep the durable mark of this dump',
            DETAIL = 'snowflake is not loaded via "shared_preload_libraries".',
            HINT = 'Preload it, or restore the table "snowflake_catalog.dumped_mark" as a '
                'superuser. Otherwise, before this server draws IDs, call snowflake_advance() with '
                'the largest ID of the restored tables.';
    END IF;
    FOR setting IN
        SELECT v.name, max(v.value) AS value
        FROM (VALUES ('restored', ceil(extract(epoch FROM NEW.mark) * 1000000)::bigint),
            ('backfilled', NEW.backfilled)) AS given (name, value)
        CROSS JOIN LATERAL (SELECT given.* UNION ALL
            SELECT given.name, substring(c, '=([0-9]{1,18})$')::bigint
            FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase,
                unnest(s.setconfig) c
            WHERE d.datname = current_database() AND s.setrole = 0
              AND starts_with(c, format('snowflake.%s=', given.name))) AS v
        WHERE given.value > 0 GROUP BY v.name
    LOOP
        EXECUTE format('ALTER DATABASE %I SET snowflake.%s = %L', current_database(),
            setting.name, setting.value);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_catalog.keep_mark() IS
'trigger: keep the mark of a dump that is being restored until the library is preloaded';
REVOKE ALL ON FUNCTION snowflake_catalog.keep_mark() FROM PUBLIC;

CREATE TRIGGER restore_1_mark BEFORE INSERT ON snowflake_catalog.dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.restore_mark();
CREATE TRIGGER restore_2_keep BEFORE INSERT ON snowflake_catalog.dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.keep_mark();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_catalog.dumped_mark
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_catalog.refuse_truncate();

ALTER TABLE snowflake_catalog.dumped_mark
    ENABLE ALWAYS TRIGGER restore_1_mark, ENABLE ALWAYS TRIGGER restore_2_keep,
    ENABLE ALWAYS TRIGGER refuse_truncate;

--
-- Statistics
--

CREATE FUNCTION pg_stat_get_snowflake(
    OUT node integer, OUT lease_end timestamptz, OUT registry_offset interval, OUT layout text,
    OUT epoch timestamptz, OUT clock text, OUT clock_ts timestamptz, OUT wall_ts timestamptz,
    OUT drift interval, OUT drift_max interval, OUT last_ts timestamptz,
    OUT oldest_open_ts timestamptz, OUT issued bigint, OUT backfilled bigint, OUT hops bigint,
    OUT waits bigint, OUT wait_time double precision, OUT mark_waits bigint,
    OUT mark_wait_time double precision, OUT clock_waits bigint,
    OUT clock_wait_time double precision, OUT unit_waits bigint,
    OUT unit_wait_time double precision, OUT node_waits bigint, OUT node_wait_time double precision,
    OUT timeouts bigint, OUT clock_regressions bigint, OUT clock_regression_max interval,
    OUT clock_jumps bigint, OUT clock_jump_max interval, OUT reserved_until timestamptz,
    OUT backends integer, OUT slots_used integer, OUT mark_writer_pid integer, OUT last_error text,
    OUT last_error_ts timestamptz, OUT lifetime_end timestamptz, OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_stat_get_snowflake() IS
'statistics: the generator; use the view pg_stat_snowflake';

CREATE VIEW pg_stat_snowflake AS
    SELECT * FROM pg_stat_get_snowflake();
COMMENT ON VIEW pg_stat_snowflake IS
'one row: the state of the generator, how many IDs it drew, and what sessions waited for';
COMMENT ON COLUMN pg_stat_snowflake.node IS 'node number of this server; null when it has none';
COMMENT ON COLUMN pg_stat_snowflake.lease_end IS
'end of the node number''s lease unless renewed; infinity if registered, null without a registry';
COMMENT ON COLUMN pg_stat_snowflake.registry_offset IS
'this server''s clock minus the registry''s clock';
COMMENT ON COLUMN pg_stat_snowflake.layout IS 'layout of the IDs, as configured';
COMMENT ON COLUMN pg_stat_snowflake.epoch IS
'instant at which the time in the IDs begins, as configured';
COMMENT ON COLUMN pg_stat_snowflake.clock IS
'clock that the time in the IDs is taken from: system, monotonic or logical';
COMMENT ON COLUMN pg_stat_snowflake.clock_ts IS 'what that clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.wall_ts IS 'what the server''s system clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.drift IS
'how far an ID drawn now can be ahead of the system clock; negative if it is behind';
COMMENT ON COLUMN pg_stat_snowflake.drift_max IS
'how far an ID has been ahead of the system clock at most, since the last reset';
COMMENT ON COLUMN pg_stat_snowflake.last_ts IS
'latest time of an ID drawn since server start or the last snowflake_advance(); null if none';
COMMENT ON COLUMN pg_stat_snowflake.oldest_open_ts IS
'time of the oldest ID of an open transaction, in any database; it holds readers back';
COMMENT ON COLUMN pg_stat_snowflake.issued IS 'number of IDs drawn by snowflake_nextval()';
COMMENT ON COLUMN pg_stat_snowflake.backfilled IS 'number of IDs drawn by snowflake_backfill()';
COMMENT ON COLUMN pg_stat_snowflake.hops IS
'how often a session went on to another worker slot because its own was used up in a time unit';
COMMENT ON COLUMN pg_stat_snowflake.waits IS 'how often a session waited for an ID, for any reason';
COMMENT ON COLUMN pg_stat_snowflake.wait_time IS 'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.mark_waits IS 'waits for the durable mark to be raised';
COMMENT ON COLUMN pg_stat_snowflake.mark_wait_time IS
'time spent in waits for the durable mark, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.clock_waits IS 'waits for a clock that was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_wait_time IS
'time spent in waits for the clock, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.unit_waits IS
'waits for a time unit with free numbers, when IDs are drawn faster than the layout allows';
COMMENT ON COLUMN pg_stat_snowflake.unit_wait_time IS
'time spent in waits for a time unit, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.node_waits IS 'waits for a node number from the registry';
COMMENT ON COLUMN pg_stat_snowflake.node_wait_time IS
'time spent in waits for a node number, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.timeouts IS
'draws that failed after snowflake.max_wait, or at once if waiting cannot help';
COMMENT ON COLUMN pg_stat_snowflake.clock_regressions IS
'how often the system clock was set back by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_regression_max IS
'largest step by which the system clock was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_jumps IS
'how often the system clock was set forward by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_jump_max IS
'largest step by which the system clock was set forward';
COMMENT ON COLUMN pg_stat_snowflake.reserved_until IS
'sessions draw IDs below this time without asking for more; null when nothing is reserved';
COMMENT ON COLUMN pg_stat_snowflake.backends IS
'number of sessions that have drawn IDs and are still connected';
COMMENT ON COLUMN pg_stat_snowflake.slots_used IS 'number of worker slots that these sessions have';
COMMENT ON COLUMN pg_stat_snowflake.mark_writer_pid IS
'process ID of the mark writer; null if none runs, or without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake.last_error IS
'last error of a background worker; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake.last_error_ts IS 'when that error occurred';
COMMENT ON COLUMN pg_stat_snowflake.lifetime_end IS 'when the times of the layout come to an end';
COMMENT ON COLUMN pg_stat_snowflake.stats_reset IS
'when counting began: at server start, after a crash of a backend, or at the last reset';

CREATE FUNCTION pg_stat_get_snowflake_slots(
    OUT worker integer, OUT backends integer, OUT pids integer[], OUT last_ts timestamptz,
    OUT last_id bigint, OUT issued bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_slots'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 32;
COMMENT ON FUNCTION pg_stat_get_snowflake_slots() IS
'statistics: the worker slots; use the view pg_stat_snowflake_slots';

CREATE VIEW pg_stat_snowflake_slots AS
    SELECT * FROM pg_stat_get_snowflake_slots();
COMMENT ON VIEW pg_stat_snowflake_slots IS
'one row for each worker slot: its sessions, the last ID drawn from it, and how many';
COMMENT ON COLUMN pg_stat_snowflake_slots.worker IS 'worker number of the slot';
COMMENT ON COLUMN pg_stat_snowflake_slots.backends IS
'number of sessions that have this slot as their own; all sessions share worker 0 besides';
COMMENT ON COLUMN pg_stat_snowflake_slots.pids IS
'process IDs of these sessions; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_ts IS 'time of last_id';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_id IS
'last ID drawn from the slot since server start or the last snowflake_advance(), or passed over';
COMMENT ON COLUMN pg_stat_snowflake_slots.issued IS
'number of IDs drawn from the slot; may lag while a session goes from slot to slot';

CREATE FUNCTION pg_stat_snowflake_reset()
RETURNS void AS 'MODULE_PATHNAME', 'pg_stat_snowflake_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_stat_snowflake_reset() IS
'statistics: reset the counters of the pg_stat_snowflake views';
REVOKE ALL ON FUNCTION pg_stat_snowflake_reset() FROM PUBLIC;

CREATE FUNCTION pg_stat_get_snowflake_segments(
    OUT tag text, OUT state text, OUT step bigint, OUT min_step integer, OUT delta integer,
    OUT remainder integer, OUT max_value bigint, OUT first bigint, OUT last bigint, OUT used bigint,
    OUT unused bigint, OUT next_first bigint, OUT next_last bigint, OUT issued bigint,
    OUT fetches bigint, OUT waits bigint, OUT wait_time double precision,
    OUT last_fetch_ts timestamptz, OUT last_fetch_time double precision, OUT last_error text,
    OUT last_error_ts timestamptz)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_segments'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 20;
COMMENT ON FUNCTION pg_stat_get_snowflake_segments() IS
'statistics: the segments of numbers; use the view pg_stat_snowflake_segments';

CREATE VIEW pg_stat_snowflake_segments AS
    SELECT * FROM pg_stat_get_snowflake_segments();
COMMENT ON VIEW pg_stat_snowflake_segments IS
'one row for each segment tag that this server has drawn from: its segments, counts and waits';
COMMENT ON COLUMN pg_stat_snowflake_segments.tag IS 'name of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.state IS
'asked: the registry has not answered yet; open; ended: all numbers are given out to servers';
COMMENT ON COLUMN pg_stat_snowflake_segments.step IS
'how many numbers the next segment spans, which goes with the rate of drawing';
COMMENT ON COLUMN pg_stat_snowflake_segments.min_step IS
'smallest step, as the tag was created or altered';
COMMENT ON COLUMN pg_stat_snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.max_value IS 'last number of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.first IS 'first number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.last IS 'last number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.used IS
'how many numbers of the segment in use have been drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.unused IS
'how many numbers of the segment in use are left';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_first IS
'first number of the next segment; null if it has not been fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_last IS
'last number of the next segment; null if it has not been fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.issued IS 'number of numbers drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.fetches IS 'number of segments fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.waits IS 'how often a session waited for a segment';
COMMENT ON COLUMN pg_stat_snowflake_segments.wait_time IS
'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_ts IS 'when the last segment arrived';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_time IS
'how long fetching the last segment took, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error IS
'last reason why no segment could be fetched; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error_ts IS 'when that was';

--
-- What snowflake_check() asks the catalogs
--
-- With the rights of the caller, and only with locks on catalogs.  A function whose name begins
-- with "check" gives the rows of that check.
--

-- Do the objects here belong to the library, which has this version?
CREATE FUNCTION snowflake_catalog.check_extension(library text, OUT status text, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    installed text := (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'snowflake');
BEGIN
    IF installed = library THEN
        status := 'ok';
        detail := format('The extension in this database and the server''s library have version '
            '%s.', library);
    ELSE
        status := 'warning';
        detail := format('This database has version %s of the extension, and the server has loaded '
            'version %s of its library. If the library is newer, run ALTER EXTENSION snowflake '
            'UPDATE. If it is older, install the newer one and restart the server.',
            installed, library);
    END IF;
    RETURN NEXT;

    -- Two names for the same: who has only one of them was forgotten.
    RETURN QUERY SELECT 'warning', format('These roles may call only one of snowflake_nextval() '
            'and snowflake_next(), which draw the same IDs: %s. GRANT or REVOKE both.',
            string_agg(CASE WHEN u.grantee = 0 THEN 'PUBLIC'
                ELSE pg_get_userbyid(u.grantee)::text END, ', '))
        FROM (
            SELECT x.grantee FROM snowflake_catalog.functions() AS f
            JOIN pg_proc p ON p.oid IN (f.nextval, f.next)
            CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS x
            GROUP BY 1 HAVING count(DISTINCT p.oid) = 1 ORDER BY 1) AS u
        HAVING count(*) > 0;

    -- ENABLE TRIGGER ALL, as pg_restore has it, is not for replicated rows.
    RETURN QUERY SELECT 'warning', format('Triggers of this extension do not fire for replicated '
            'rows, so two keys of business formats can be equal. Run %s.',
            string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I',
                t.tgrelid::regclass, t.tgname), '; ' ORDER BY t.tgname))
        FROM pg_trigger t WHERE NOT t.tgisinternal AND t.tgenabled <> 'A'
            AND t.tgrelid IN (to_regclass('snowflake_catalog.dumped_mark'),
                to_regclass('snowflake_catalog.key_formats'))
        HAVING count(*) > 0;
END $$;
COMMENT ON FUNCTION snowflake_catalog.check_extension(text) IS
'part of snowflake_check(): the version of the extension, rights and triggers that differ';

-- Is there an extension of the same name, such as pgEdge's, or what it left?  Scripts of ours that
-- can be updated to the library's version are not of another.
CREATE FUNCTION snowflake_catalog.check_other_extension(
    library text, OUT status text, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_found boolean;
BEGIN
    RETURN QUERY SELECT 'warning', format('There are scripts of an extension of the same name, or '
            'of other versions of this one: %s. ALTER EXTENSION snowflake UPDATE may run them. '
            'Remove the other package, and install this one again.',
            string_agg(v.version, ', ' ORDER BY v.version))
        FROM pg_available_extension_versions v
        WHERE v.name = 'snowflake' AND v.version <> library AND NOT EXISTS (
            SELECT FROM pg_extension_update_paths('snowflake') AS u
            WHERE u.source = v.version AND u.target = library AND u.path IS NOT NULL)
        HAVING count(*) > 0;
    is_found := FOUND;

    RETURN QUERY SELECT 'warning', 'This database has pgEdge''s function '
            'snowflake.nextval(regclass). It may draw the same IDs as snowflake_nextval(). Let '
            'snowflake_convert() change the columns that call it, then run DROP FUNCTION '
            'snowflake.nextval(regclass).'
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'snowflake' AND p.proname = 'nextval'
            AND p.proargtypes[0] = 'regclass'::regtype AND p.pronargs = 1;
    is_found := is_found OR FOUND;

    RETURN QUERY SELECT 'warning', format('pgEdge''s setting "snowflake.node" is set for %s, and '
            'is not read. The server''s number is "snowflake.node_id".',
            coalesce(nullif(concat_ws(', ', 'database ' || quote_ident(d.datname),
                'role ' || quote_ident(r.rolname)), ''), 'all roles'))
        FROM pg_db_role_setting s
        LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole
        WHERE EXISTS (SELECT FROM unnest(s.setconfig) AS c WHERE c LIKE 'snowflake.node=%')
        ORDER BY d.datname, r.rolname;
    is_found := is_found OR FOUND;

    -- The files are shown to roles that may see them.
    IF has_function_privilege('pg_show_all_file_settings()', 'EXECUTE') THEN
        RETURN QUERY SELECT 'warning', format('pgEdge''s setting "snowflake.node" is in %s, line '
                '%s, and is not read. Remove it there. The server''s number is '
                '"snowflake.node_id".',
                f.sourcefile, f.sourceline)
            FROM pg_file_settings f WHERE f.name = 'snowflake.node' ORDER BY f.seqno LIMIT 1;
        is_found := is_found OR FOUND;
    END IF;

    IF NOT is_found THEN
        status := 'ok';
        detail := 'Nothing of another extension named snowflake is found.';
        RETURN NEXT;
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_catalog.check_other_extension(text) IS
'part of snowflake_check(): what there is of another extension of the same name';

-- What do publications and subscriptions do to the state that the server keeps in its home
-- database?  That of segments is its own only where it asks no registry.
CREATE FUNCTION snowflake_catalog.check_replication(
    home text, asks_registry boolean, how_to_move text, OUT status text, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept oid[]; own oid[];    -- tables and sequences; those of the extension of the home database
    is_found boolean;
BEGIN
    IF current_database() <> home THEN
        status := 'ok';
        detail := format('Publications and subscriptions of the home database, "%s", can be seen '
            'only there.', home);
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT array_agg(c.oid), array_agg(c.oid) FILTER (WHERE e.extname = 'snowflake_home')
        INTO kept, own
        FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass
            AND d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'S')
        WHERE e.extname = 'snowflake_home'
            OR e.extname = 'snowflake_registry' AND NOT asks_registry;

    -- Tables that have not their triggers, in the state that the background worker gives them.
    -- Those of segments get theirs when they are first used.
    RETURN QUERY SELECT CASE WHEN o.is_own THEN 'error' ELSE 'warning' END,
            format(CASE WHEN o.is_own THEN 'The triggers of table %1$s were changed. A '
                'subscription can now change the state that this server keeps in it, and IDs can '
                'come twice. Run ALTER TABLE %1$s ENABLE REPLICA TRIGGER discard_replicated, '
                'ENABLE ALWAYS TRIGGER refuse_truncate.'
                ELSE 'A subscription can change table %1$s until the background worker creates '
                'triggers on it. It does so before it next takes a segment.' END, c.oid::regclass)
        FROM pg_class c CROSS JOIN LATERAL (SELECT c.oid = ANY (own)) AS o (is_own)
        WHERE c.oid = ANY (kept) AND c.relkind = 'r' AND 2 <> (
                SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                WHERE t.tgrelid = c.oid AND p.prosrc = 'snowflake_home_discard' AND t.tgenabled
                    = CASE t.tgname WHEN 'discard_replicated' THEN 'R'::"char" ELSE 'A' END)
            AND (o.is_own OR EXISTS (
                SELECT FROM pg_subscription_rel r WHERE r.srrelid = c.oid))
        ORDER BY c.oid;
    is_found := FOUND;

    RETURN QUERY SELECT 'warning', format('A subscription includes the durable mark, the sequence '
            'snowflake_home.mark, and fails each time it synchronizes it: %s. Each server keeps a '
            'mark of its own. Move the mark of the publisher to a database without other tables, '
            '%s.',
            string_agg(DISTINCT quote_ident(s.subname), ', '), how_to_move)
        FROM pg_class c JOIN pg_subscription_rel r ON r.srrelid = c.oid
        JOIN pg_subscription s ON s.oid = r.srsubid
        WHERE c.oid = ANY (kept) AND c.relkind = 'S' HAVING count(*) > 0;
    IF is_found OR FOUND THEN
        RETURN;
    END IF;

    RETURN QUERY SELECT 'ok', format('A subscription includes tables in which this server keeps '
            'its state: %s. The server discards the changes that arrive for them.',
            string_agg(DISTINCT quote_ident(s.subname), ', '))
        FROM pg_class c JOIN pg_subscription_rel r ON r.srrelid = c.oid
        JOIN pg_subscription s ON s.oid = r.srsubid
        WHERE c.oid = ANY (kept) AND c.relkind = 'r' HAVING count(*) > 0;
    is_found := FOUND;

    -- pg_publication_tables locks each table; from 19 on FOR ALL TABLES can have exceptions.
    RETURN QUERY SELECT 'ok', format('A publication includes tables in which this server keeps its '
            'state: %s. Subscribers need these tables, too, and discard the changes that arrive.',
            string_agg(DISTINCT quote_ident(p.pubname), ', '))
        FROM pg_publication p CROSS JOIN pg_class c
        LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
        LEFT JOIN pg_publication_namespace n ON n.pnpubid = p.oid AND n.pnnspid = c.relnamespace
        WHERE c.oid = ANY (kept) AND c.relkind = 'r'
            AND CASE WHEN p.puballtables THEN r.oid IS NULL ELSE num_nonnulls(r.oid, n.oid) > 0 END
        HAVING count(*) > 0;
    IF NOT (is_found OR FOUND) THEN
        status := 'ok';
        detail := 'No publication or subscription includes the state that this server keeps in its '
            'home database.';
        RETURN NEXT;
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_catalog.check_replication(text, boolean, text) IS
'part of snowflake_check(): publications and subscriptions of the home database';

-- The columns that draw IDs by default, which have a default, or a domain with one, that depends on
-- a function that draws.  A column has a row for each table that holds its values: its own one, and
-- partitions and children.  "skip" is why the values there are not looked at; "none" there are.
--
-- The planner takes the parts of the query for a row or two, whatever they are.  So they are not
-- joined with each other, which it would do by nested loops: a row looks up catalogs, or the hash
-- table that a NOT IN makes.  It makes that only below work_mem, by an estimate.
CREATE FUNCTION snowflake_catalog.drawing_columns(
    OUT table_name text, OUT column_name name, OUT kind "char", OUT type oid,
    OUT expression text, OUT holder text, OUT relid oid, OUT attnum smallint, OUT index oid,
    OUT skip text)
RETURNS SETOF record LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp SET work_mem = '1GB' AS $$
DECLARE
    draws oid[] := (SELECT ARRAY[f.nextval, f.next]::oid[] FROM snowflake_catalog.functions() AS f);
    distributed oid[];
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT array_agg(logicalrelid::oid) FROM pg_catalog.pg_dist_partition'
            INTO distributed;
    END IF;
    RETURN QUERY WITH RECURSIVE drawing AS MATERIALIZED (
            SELECT a.attrelid, a.attname, a.atttypid, d.adbin
            FROM pg_depend p JOIN pg_attrdef d ON d.oid = p.objid
            JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
            WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (draws)
                AND p.classid = 'pg_attrdef'::regclass
            UNION ALL
            SELECT a.attrelid, a.attname, a.atttypid, t.typdefaultbin
            FROM pg_depend p JOIN pg_type t ON t.oid = p.objid
            JOIN pg_attribute a ON a.atttypid = t.oid
            WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (draws)
                AND p.classid = 'pg_type'::regclass AND NOT a.attisdropped AND NOT a.atthasdef
        ), tree AS (    -- from those that have their default from no parent
            SELECT c.oid AS root, d.attname, d.atttypid, d.adbin::text, c.relkind, c.relname,
                n.nspname, c.oid AS rel
            FROM drawing d JOIN pg_class c ON c.oid = d.attrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p', 'f', 'v') AND (d.attrelid, d.attname) NOT IN (
                SELECT i.inhrelid, u.attname
                FROM pg_inherits i JOIN drawing u ON u.attrelid = i.inhparent)
            UNION
            SELECT t.root, t.attname, t.atttypid, t.adbin, t.relkind, t.relname, t.nspname,
                i.inhrelid
            FROM tree t JOIN pg_inherits i ON i.inhparent = t.rel)
        SELECT format('%I.%I', t.nspname, t.relname), t.attname, t.relkind, t.atttypid, t.adbin,
            format('%I.%I.%I', n.nspname, c.relname, a.attname), c.oid, a.attnum, x.indexrelid,
            CASE WHEN c.relkind = 'p' THEN 'none'
                WHEN c.oid = ANY (distributed) THEN 'distributed by Citus'
                WHEN c.relkind <> 'r' THEN 'foreign table'
                WHEN pg_is_other_temp_schema(c.relnamespace)
                    THEN 'temporary table of another session'
                WHEN pg_is_in_recovery() AND c.relpersistence <> 'p' THEN 'not there on a standby'
                WHEN NOT (has_schema_privilege(n.oid, 'USAGE')
                    AND has_column_privilege(c.oid, a.attnum, 'SELECT')) THEN 'permission denied'
                WHEN row_security_active(c.oid) THEN 'row-level security'
                WHEN x.indexrelid IS NULL THEN 'no index begins with it' END
        FROM tree t JOIN pg_class c ON c.oid = t.rel JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = t.attname AND NOT a.attisdropped
        LEFT JOIN LATERAL (
            SELECT i.indexrelid FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0]
            WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                AND i.indkey[0] = a.attnum AND o.opcfamily = 1976    -- integer_ops of btree
            ORDER BY i.indexrelid LIMIT 1) AS x ON true
        ORDER BY t.nspname, t.relname, t.attname, n.nspname, c.relname;
END $$;
COMMENT ON FUNCTION snowflake_catalog.drawing_columns() IS
'part of snowflake_check(): columns that draw IDs by default, and tables that hold their values';

--
-- Running it
--

CREATE FUNCTION snowflake_layout(
    OUT layout text, OUT time_bits integer, OUT node_bits integer, OUT worker_bits integer,
    OUT sequence_bits integer, OUT time_unit interval, OUT time_units numeric, OUT nodes numeric,
    OUT workers numeric, OUT sequences numeric, OUT first_ts timestamptz, OUT last_ts timestamptz,
    OUT max_id bigint, OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision, OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_layout() IS
'the layout of this server''s snowflake IDs: widths, capacities, first and last time, rates';

CREATE FUNCTION snowflake_check(OUT name text, OUT status text, OUT detail text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'snowflake_check'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 16;
COMMENT ON FUNCTION snowflake_check() IS
'a doctor: what keeps this server from drawing snowflake IDs, now or soon';

CREATE FUNCTION snowflake_can_draw(OUT can_draw boolean, OUT reason text)
AS 'MODULE_PATHNAME', 'snowflake_can_draw'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_can_draw() IS
'whether this server can draw snowflake IDs now, and why not; for health checks';

CREATE FUNCTION snowflake_advance(id bigint, force boolean DEFAULT false)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
'make all later snowflake IDs larger than an ID, and return the earliest time that they have';
REVOKE ALL ON FUNCTION snowflake_advance(bigint, boolean) FROM PUBLIC;

CREATE FUNCTION snowflake_accept_layout()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_accept_layout'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept_layout() IS
'go on with the configured layout and epoch, though IDs were issued with others';
REVOKE ALL ON FUNCTION snowflake_accept_layout() FROM PUBLIC;

CREATE FUNCTION snowflake_confirm_node()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_confirm_node'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_confirm_node() IS
'state, after a promotion, that no other server draws IDs with this server''s node number';
REVOKE ALL ON FUNCTION snowflake_confirm_node() FROM PUBLIC;

CREATE FUNCTION snowflake_forget_registry()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_forget_registry'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_forget_registry() IS
'accept a registry that knows less than before; only if the former one is gone for good';
REVOKE ALL ON FUNCTION snowflake_forget_registry() FROM PUBLIC;

--
-- PL/pgSQL looks a function up by its name each time, and the owner of the extension's schema
-- can rename that, and make another one of the former name.  So what is called there is found
-- in the schema whose name stays.
--

CREATE FUNCTION snowflake_catalog.layout(
    OUT layout text, OUT time_bits integer, OUT node_bits integer, OUT worker_bits integer,
    OUT sequence_bits integer, OUT time_unit interval, OUT time_units numeric, OUT nodes numeric,
    OUT workers numeric, OUT sequences numeric, OUT first_ts timestamptz, OUT last_ts timestamptz,
    OUT max_id bigint, OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision, OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.layout IS 'the same as snowflake_layout()';

CREATE FUNCTION snowflake_catalog.id_range(from_ts timestamptz, to_ts timestamptz) RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_bounds' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.id_range IS 'the same as id_range_for()';

CREATE FUNCTION snowflake_catalog.time_of(id bigint) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.time_of(bigint) IS 'the same as snowflake_timestamp()';

CREATE FUNCTION snowflake_catalog.time_of(id bigint, layout text, epoch timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.time_of(bigint, text, timestamptz) IS
'the same as snowflake_timestamp()';

CREATE FUNCTION snowflake_catalog.compose(
    ts timestamptz, node bigint, worker bigint, sequence bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.compose IS 'the same as snowflake_compose()';

CREATE FUNCTION snowflake_catalog.encoded(id bigint, base text) RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_encode' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.encoded IS 'the same as snowflake_encode()';

CREATE FUNCTION snowflake_catalog.functions(
    OUT nextval regprocedure, OUT next regprocedure, OUT advance regprocedure)
LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT 'snowflake_nextval()'::regprocedure, 'snowflake_next()'::regprocedure,
        'snowflake_advance(bigint, boolean)'::regprocedure;
END;
COMMENT ON FUNCTION snowflake_catalog.functions IS 'those that defaults and statements call';

--
-- Say what is still missing, before the first ID is wanted.  No NOTICE, as
-- CREATE EXTENSION hides these.
--

DO $do$
DECLARE
    missing text;
BEGIN
    SELECT detail INTO missing FROM snowflake_check()
    WHERE name IN ('preload', 'node_id') AND status = 'error' LIMIT 1;
    IF FOUND THEN
        RAISE WARNING USING MESSAGE = 'this server cannot draw snowflake IDs yet', DETAIL = missing;
    END IF;
END
$do$;

--
-- Names
--
-- A function of somebody's that has the name of one of these, with other arguments: a call of
-- it with literals without a type could come to mean this one.
DO $$
DECLARE
    theirs text := (SELECT pg_catalog.min(p.oid::regprocedure::text)
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        JOIN pg_catalog.pg_proc AS o ON o.oid OPERATOR(pg_catalog.=) d.objid
        JOIN pg_catalog.pg_proc AS p ON p.proname OPERATOR(pg_catalog.=) o.proname
            AND p.pronamespace OPERATOR(pg_catalog.=) o.pronamespace
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS m
              WHERE m.objid OPERATOR(pg_catalog.=) p.oid
                AND m.classid OPERATOR(pg_catalog.=) d.classid
                AND m.refobjid OPERATOR(pg_catalog.=) e.oid
                AND m.refclassid OPERATOR(pg_catalog.=) d.refclassid));
BEGIN
    IF theirs IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_function',
            MESSAGE = pg_catalog.format('function %s exists already', theirs),
            DETAIL = 'The extension "snowflake" has a function of that name, '
                     'which calls of the other one could come to mean.',
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext';
    END IF;
END $$;

--
-- Rights
--
-- Nobody but the owner has any from here on, whatever default privileges the role has that
-- creates the extension.  Everybody may call the functions that are not revoked above: the
-- server has noted the initial privileges of those that are.  With TRIGGER on a table that
-- SECURITY DEFINER functions or the workers write, a role could run its own code as the owner.
-- Somebody's operators may be in the schema.
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT p.oid::regprocedure::text AS name
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) d.objid
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
          AND NOT pg_catalog.has_function_privilege('public'::name, p.oid, 'EXECUTE'::text)
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_init_privs AS i
              WHERE i.objoid OPERATOR(pg_catalog.=) p.oid
                AND i.classoid OPERATOR(pg_catalog.=) d.classid)
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', r.name);
    END LOOP;
    FOR r IN SELECT m.kind, m.name, CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::oid THEN 'PUBLIC'
                    ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END AS role
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        CROSS JOIN LATERAL (
            SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname), n.nspacl, n.nspowner
            FROM pg_catalog.pg_namespace AS n
            WHERE n.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::regclass::oid
            UNION ALL
            SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S'::"char" THEN 'SEQUENCE'
                    ELSE 'TABLE' END, c.oid::regclass::text, c.relacl, c.relowner
            FROM pg_catalog.pg_class AS c
            WHERE c.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::regclass::oid
            UNION ALL
            SELECT 'FUNCTION', p.oid::regprocedure::text, p.proacl, p.proowner
            FROM pg_catalog.pg_proc AS p
            WHERE p.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
        ) AS m (kind, name, acl, owner)
        CROSS JOIN LATERAL pg_catalog.aclexplode(m.acl) AS a
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND a.grantee OPERATOR(pg_catalog.<>) m.owner
          AND (m.kind OPERATOR(pg_catalog.<>) 'FUNCTION'::text
               OR a.grantee OPERATOR(pg_catalog.<>) 0::oid)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s', r.kind, r.name, r.role);
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA snowflake_catalog TO PUBLIC;
GRANT SELECT, INSERT ON snowflake_catalog.dumped_mark TO PUBLIC;

-- Whoever dumps the database reads the formats of keys.  Whoever restores it, and so creates the
-- extension, inserts them, though a trusted extension's objects are not its owner's.  By the name
-- of the owner, as the server puts none with a quote or a dollar sign into a script.
GRANT SELECT ON snowflake_catalog.key_formats TO PUBLIC;
DO $$
DECLARE
    owner name := (SELECT pg_catalog.pg_get_userbyid(e.extowner) FROM pg_catalog.pg_extension AS e
                   WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake'::name);
BEGIN
    EXECUTE pg_catalog.format('GRANT INSERT ON snowflake_catalog.key_formats TO %I', owner);
    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION '
        'snowflake_key_format_create(text, text, integer, integer, integer, text, text, integer, '
        'integer, integer, integer, integer), '
        'snowflake_key_format_rename(text, text), snowflake_key_format_drop(text) TO %I', owner);
END $$;

GRANT SELECT ON pg_stat_snowflake TO PUBLIC;
GRANT SELECT ON pg_stat_snowflake_slots TO PUBLIC;
GRANT SELECT ON pg_stat_snowflake_segments TO PUBLIC;
