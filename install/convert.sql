--
-- Existing tables
--
-- "table" and "column" are keywords, so they need their quotes in a call by
-- name too.
--

CREATE FUNCTION snowflake_convert(
    "table" regclass,
    "column" name,
    dry_run boolean DEFAULT true,
    target text DEFAULT 'snowflake',
    force boolean DEFAULT false,
    OUT step integer,
    OUT kind text,
    OUT command text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_convert'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_convert(regclass, name, boolean, text, boolean) IS
'let an existing column draw snowflake IDs, or a sequence''s numbers again: show the statements for it and what stands in the way, or, without dry_run, run them';
