--
-- Partitions by time
--
-- What they do to tables is checked as the caller's, who must be the owner.
--

CREATE FUNCTION snowflake_create_partitions(
    parent regclass,
    from_ts timestamptz,
    to_ts timestamptz,
    step interval,
    time_zone text DEFAULT pg_catalog.current_setting('TimeZone'),
    OUT partition regclass,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT created boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_create_partitions'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_create_partitions(regclass, timestamptz, timestamptz, interval, text) IS
'create the range partitions that hold all snowflake IDs of a period, one for each step of time; those that are there stay';

-- restricted: temporary tables, and statistics of this session
CREATE FUNCTION snowflake_partitions(
    parent regclass,
    exact boolean DEFAULT false,
    OUT partition regclass,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT from_id bigint,
    OUT to_id bigint,
    OUT rows bigint,
    OUT bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_partitions'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION snowflake_partitions(regclass, boolean) IS
'the partitions of a table with their bounds as times and as snowflake IDs, their rows (estimated, or counted) and size';

CREATE FUNCTION snowflake_drop_partitions(
    parent regclass,
    before_ts timestamptz,
    dry_run boolean DEFAULT false,
    concurrently boolean DEFAULT false,
    OUT partition text,
    OUT starts timestamptz,
    OUT ends timestamptz,
    OUT command text,
    OUT done boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_drop_partitions'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, boolean) IS
'drop the partitions that have only snowflake IDs from before a time, or show the commands for it';
