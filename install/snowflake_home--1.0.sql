/* snowflake_home--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_home" to load this file. \quit

--
-- Made and written by the background workers of snowflake, and by nobody else.
-- An extension of its own, so that it neither depends on whether the home
-- database uses snowflake, nor gets into a dump.
--

CREATE SCHEMA snowflake_home;
COMMENT ON SCHEMA snowflake_home IS
'what the background workers of snowflake keep for this server; do not change it';

CREATE SEQUENCE snowflake_home.mark AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_home.mark IS
'the durable mark: all IDs issued so far have times before it, in microseconds since 1970';

-- The node is NULL if it is leased, or the layout has none.  The timeline is the one on
-- which it is known that no other server draws as this node.
CREATE TABLE snowflake_home.recorded (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    layout text NOT NULL,
    epoch timestamptz NOT NULL,
    node integer,
    timeline bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.recorded IS
'layout, epoch and node number of this server''s snowflake IDs, to notice a change';

-- IDs of snowflake_backfill() in the time units of a stretch (2^22 units) may have sequence
-- numbers below "used"; -1 stands for any stretch, and -2 - n for any up to stretch n.
CREATE TABLE snowflake_home.backfill (
    stretch bigint PRIMARY KEY,
    used bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.backfill IS
'how many sequence numbers snowflake_backfill() may have used, by stretches of time';

-- The deadline is in microseconds of a clock that begins with the boot of the machine.  IDs
-- have times from the floor on and below the mark, in microseconds since 1970-01-01 UTC.  What
-- was seen of the registry is -1 for nothing.  A registered number has the largest mark, and
-- the largest deadline, or 0 while the registry has not registered it.
CREATE TABLE snowflake_home.lease (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    node integer NOT NULL,
    deadline bigint NOT NULL,
    mark bigint NOT NULL,
    floor bigint NOT NULL,
    token uuid NOT NULL,
    instance text NOT NULL,
    timeline bigint NOT NULL,
    origin bigint NOT NULL,
    registry text NOT NULL,
    changes bigint NOT NULL,
    renewals bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.lease IS
'the lease or registration of this server''s node number, as the registry last confirmed it';

--
-- A publication FOR ALL TABLES in the home database has these tables too.  So
-- each has a primary key, without which nothing could be deleted once it is
-- published; and two triggers, so that the rows of another server do not take
-- the place of this server's.
--
CREATE FUNCTION snowflake_home.discard()
RETURNS trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_home_discard';
COMMENT ON FUNCTION snowflake_home.discard() IS
'trigger: discard what logical replication writes, and refuse to truncate';
REVOKE ALL ON FUNCTION snowflake_home.discard() FROM PUBLIC;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.recorded
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.recorded
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.recorded
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.backfill
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.backfill
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.backfill
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.lease
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.lease
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.lease
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;

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
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_home'::name
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
            DETAIL = 'The extension "snowflake_home" has a function of that name, '
                     'which calls of the other one could come to mean.',
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION snowflake_home SCHEMA ext';
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
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_home'::name
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
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_home'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND a.grantee OPERATOR(pg_catalog.<>) m.owner
          AND (m.kind OPERATOR(pg_catalog.<>) 'FUNCTION'::text
               OR a.grantee OPERATOR(pg_catalog.<>) 0::oid)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s', r.kind, r.name, r.role);
    END LOOP;
END $$;
