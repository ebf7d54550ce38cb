GRANT USAGE ON SCHEMA snowflake_catalog TO PUBLIC;
GRANT SELECT, INSERT ON snowflake_catalog.dumped_mark TO PUBLIC;

-- Whoever dumps the database reads the formats of keys.  Whoever restores it, and so creates the
-- extension, inserts them, though a trusted extension's objects are not its owner's.
GRANT SELECT ON snowflake_catalog.key_formats TO PUBLIC;
GRANT INSERT ON snowflake_catalog.key_formats TO @extowner@;

GRANT EXECUTE ON FUNCTION snowflake_key_format_create(text, text, integer, integer, integer, text,
    text, integer, integer, integer, integer, integer) TO @extowner@ WITH GRANT OPTION;
GRANT EXECUTE ON FUNCTION snowflake_key_format_alter(text, text, integer, integer, integer, text,
    text, integer, integer, integer, integer, integer, text) TO @extowner@ WITH GRANT OPTION;
GRANT EXECUTE ON FUNCTION snowflake_key_format_drop(text) TO @extowner@ WITH GRANT OPTION;

GRANT SELECT ON pg_stat_snowflake TO PUBLIC;
GRANT SELECT ON pg_stat_snowflake_slots TO PUBLIC;
GRANT SELECT ON pg_stat_snowflake_segments TO PUBLIC;
