-- What bench/keys.sh needs in its server, after setup.sql: formats of keys, the
-- same in PL/pgSQL, and what is timed.

SELECT snowflake_key_format_create('user', 'US', 4, 8);
SELECT snowflake_key_format_create('order', 'UD', 4, 8);
SELECT snowflake_key_format_create('shanghai', 'SH', 4, 8, time_zone => 'Asia/Shanghai');

-- snowflake_key(format, route), for an ID of any worker that 5 digits hold.
CREATE FUNCTION plpgsql_key(format text, route bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    f     snowflake_catalog.key_formats;
    id    record;
    shard bigint;
BEGIN
    SELECT * INTO STRICT f FROM snowflake_catalog.key_formats WHERE name = format;
    shard := route % (f.db_count * f.tables_per_db);
    LOOP
        SELECT * INTO id FROM snowflake_parse(snowflake_nextval());
        EXIT WHEN id.worker * 4096 + id.sequence < 100000;
    END LOOP;
    RETURN f.prefix
        || lpad((shard / f.tables_per_db)::text, f.database_width, '0')
        || lpad(shard::text, f.table_width, '0')
        || lpad(f.version::text, f.version_width, '0')
        || to_char(id.ts AT TIME ZONE f.time_zone, 'YYMMDDHH24MISSMS')
        || lpad(id.node::text, f.node_width, '0')
        || lpad((id.worker * 4096 + id.sequence)::text, f.sequence_width, '0');
END
$$;

-- For measure_calls().
CREATE FUNCTION candidates(section text, nrows integer)
RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS $$
    SELECT call || ', ns a call', calls_query(call, n), 25 * n
    FROM (VALUES ('empty_call()', nrows),
                 ('snowflake_nextval()', nrows),
                 ('snowflake_key(''order'',42)', nrows),
                 ('snowflake_key(''shanghai'',42)', nrows),
                 ('snowflake_key(''order'',''customer-42'')', nrows),
                 ('snowflake_key(''order'',''US010010012611212024268900100566'')', nrows),
                 ('plpgsql_key(''order'',42)', nrows / 20)) AS c (call, n)
$$;
