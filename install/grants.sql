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
