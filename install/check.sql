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
    IF has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')
        AND has_table_privilege('pg_file_settings', 'SELECT') THEN
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
