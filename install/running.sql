--
-- Running it
--

CREATE FUNCTION snowflake_layout(
    OUT layout text, OUT time_bits integer, OUT node_bits integer, OUT worker_bits integer,
    OUT sequence_bits integer, OUT time_unit interval, OUT time_units numeric, OUT nodes numeric,
    OUT workers numeric, OUT sequences numeric, OUT first_ts timestamptz, OUT last_ts timestamptz,
    OUT max_id bigint, OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision, OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_layout() IS
'the layout of this server''s snowflake IDs: widths, capacities, first and last time, rates';

CREATE FUNCTION snowflake_check(OUT name text, OUT status text, OUT detail text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'snowflake_check'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 16;
COMMENT ON FUNCTION snowflake_check() IS
'a doctor: what keeps this server from drawing snowflake IDs, now or soon';

CREATE FUNCTION snowflake_can_draw(OUT can_draw boolean, OUT reason text)
AS 'MODULE_PATHNAME', 'snowflake_can_draw'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_can_draw() IS
'whether this server can draw snowflake IDs now, and why not; for health checks';

CREATE FUNCTION snowflake_advance(id bigint, force boolean DEFAULT false)
RETURNS timestamptz AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
'make all later snowflake IDs larger than an ID, and return the earliest time that they have';
REVOKE ALL ON FUNCTION snowflake_advance(bigint, boolean) FROM PUBLIC;

CREATE FUNCTION snowflake_accept_layout()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_accept_layout'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept_layout() IS
'go on with the configured layout and epoch, though IDs were issued with others';
REVOKE ALL ON FUNCTION snowflake_accept_layout() FROM PUBLIC;

CREATE FUNCTION snowflake_confirm_node()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_confirm_node'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_confirm_node() IS
'state, after a promotion, that no other server draws IDs with this server''s node number';
REVOKE ALL ON FUNCTION snowflake_confirm_node() FROM PUBLIC;

CREATE FUNCTION snowflake_forget_registry()
RETURNS void AS 'MODULE_PATHNAME', 'snowflake_forget_registry'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_forget_registry() IS
'accept a registry that knows less than before; only if the former one is gone for good';
REVOKE ALL ON FUNCTION snowflake_forget_registry() FROM PUBLIC;

--
-- PL/pgSQL looks a function up by its name each time, and the owner of the extension's schema
-- can rename that, and make another one of the former name.  So what is called there is found
-- in the schema whose name stays.
--

CREATE FUNCTION snowflake_catalog.layout(
    OUT layout text, OUT time_bits integer, OUT node_bits integer, OUT worker_bits integer,
    OUT sequence_bits integer, OUT time_unit interval, OUT time_units numeric, OUT nodes numeric,
    OUT workers numeric, OUT sequences numeric, OUT first_ts timestamptz, OUT last_ts timestamptz,
    OUT max_id bigint, OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision, OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.layout IS 'the same as snowflake_layout()';

CREATE FUNCTION snowflake_catalog.id_range(from_ts timestamptz, to_ts timestamptz) RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_bounds' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.id_range IS 'the same as id_range_for()';

CREATE FUNCTION snowflake_catalog.time_of(id bigint) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.time_of(bigint) IS 'the same as snowflake_timestamp()';

CREATE FUNCTION snowflake_catalog.time_of(id bigint, layout text, epoch timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.time_of(bigint, text, timestamptz) IS
'the same as snowflake_timestamp()';

CREATE FUNCTION snowflake_catalog.compose(
    ts timestamptz, node bigint, worker bigint, sequence bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.compose IS 'the same as snowflake_compose()';

CREATE FUNCTION snowflake_catalog.encoded(id bigint, base text) RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_encode' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_catalog.encoded IS 'the same as snowflake_encode()';

CREATE FUNCTION snowflake_catalog.functions(
    OUT nextval regprocedure, OUT next regprocedure, OUT advance regprocedure)
LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT 'snowflake_nextval()'::regprocedure, 'snowflake_next()'::regprocedure,
        'snowflake_advance(bigint, boolean)'::regprocedure;
END;
COMMENT ON FUNCTION snowflake_catalog.functions IS 'those that defaults and statements call';

--
-- Say what is still missing, before the first ID is wanted.  No NOTICE, as
-- CREATE EXTENSION hides these.
--

DO $do$
DECLARE
    missing text;
BEGIN
    SELECT detail INTO missing FROM snowflake_check()
    WHERE name IN ('preload', 'node_id') AND status = 'error' LIMIT 1;
    IF FOUND THEN
        RAISE WARNING USING MESSAGE = 'this server cannot draw snowflake IDs yet', DETAIL = missing;
    END IF;
END
$do$;
