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
                -- satisfies_hash_partition() calls functions in the key of any table
                AND strpos(k.conbin::text, ':funcid 5028 ') = 0
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
