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
        WHERE e.extname OPERATOR(pg_catalog.=) '@extension@'::name
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
            DETAIL = 'The extension "@extension@" has a function of that name, '
                     'which calls of the other one could come to mean.',
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION @extension@ SCHEMA ext';
    END IF;
END $$;
