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
        WHERE e.extname OPERATOR(pg_catalog.=) '@extension@'::name
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
        WHERE e.extname OPERATOR(pg_catalog.=) '@extension@'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND a.grantee OPERATOR(pg_catalog.<>) m.owner
          AND (m.kind OPERATOR(pg_catalog.<>) 'FUNCTION'::text
               OR a.grantee OPERATOR(pg_catalog.<>) 0::oid)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s', r.kind, r.name, r.role);
    END LOOP;
END $$;
