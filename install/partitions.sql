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
RETURNS timestamptz LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE  -- set_config()
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
            IF greatest(part.after_id, lowest) < coalesce(part.from_id, 'Infinity') THEN
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
