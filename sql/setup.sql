-- What the other tests stand on.

-- the extension, and each of its objects has a comment
CREATE EXTENSION snowflake;
SELECT pg_describe_object(classid, objid, objsubid) AS without_comment
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
  AND deptype = 'e' AND classid <> 'pg_type'::regclass
  AND obj_description(objid, classid::regclass::name) IS NULL;

-- functions are STABLE, can run in parallel workers and give NULL for NULL, but for
-- these: i immutable, v volatile; parallel r restricted, u unsafe
SELECT p.oid::regprocedure AS function, provolatile, proparallel, proisstrict
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
  AND (provolatile <> 's' OR proparallel <> 's' OR NOT proisstrict)
ORDER BY p.oid::regprocedure::text COLLATE "C";

-- each column of a view has a comment
SELECT a.attrelid::regclass AS relation, a.attname
FROM pg_depend AS d
JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'v'
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE d.deptype = 'e' AND col_description(a.attrelid, a.attnum) IS NULL
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
ORDER BY a.attrelid, a.attnum;

-- in the schema where it is created it puts functions and statistics, and nothing else
SELECT c.oid::regclass AS relation, c.relkind
FROM pg_depend AS d
JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
  AND c.relnamespace <> 'snowflake_catalog'::regnamespace
ORDER BY c.relname;

-- it can be created in another schema, also where somebody has a table of a name of ours; stays there; and drops cleanly
DROP EXTENSION snowflake;
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.key_formats ();
-- with a function of a name of ours it says what to do, whatever its arguments are
\set SHOW_CONTEXT never
CREATE FUNCTION elsewhere.id_range_for(timestamptz, timestamptz) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE EXTENSION snowflake SCHEMA elsewhere;
DROP FUNCTION elsewhere.id_range_for;
CREATE FUNCTION elsewhere.id_range_for(date) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE EXTENSION snowflake SCHEMA elsewhere;
DROP FUNCTION elsewhere.id_range_for;
CREATE FUNCTION elsewhere.id_range_for(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE EXTENSION snowflake SCHEMA elsewhere;
DROP FUNCTION elsewhere.id_range_for;
\unset SHOW_CONTEXT
CREATE EXTENSION snowflake SCHEMA elsewhere;
ALTER EXTENSION snowflake SET SCHEMA public;
SELECT count(*) > 0 AS there FROM elsewhere.pg_stat_snowflake_slots;
SELECT elsewhere.snowflake_key_format_create('user', 'US', 4, 8);
SELECT length(elsewhere.snowflake_key('user', 1));
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
DROP SCHEMA elsewhere CASCADE;
SELECT nspname FROM pg_namespace WHERE nspname LIKE 'snowflake%' AND nspname <> 'snowflake_home';

-- what a statement fails with
CREATE FUNCTION error_of(statement text, OUT state text, OUT message text,
                         OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    message := 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
        message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;
