/* snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

--
-- Generating
--

CREATE FUNCTION snowflake_nextval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval() IS
'draw a snowflake ID: unique, and above every ID that this session drew before';

CREATE FUNCTION snowflake_nextval(count integer)
RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_count'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval(integer) IS
'draw a number of snowflake IDs, in ascending order';

CREATE FUNCTION snowflake_backfill(ts timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_backfill'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_backfill(timestamptz) IS
'draw a snowflake ID of a time in the past, to load history: unique, also beside the IDs that were drawn at that time';

-- what it returns is known only to the backend itself, like currval()
CREATE FUNCTION snowflake_currval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_currval'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION snowflake_currval() IS
'the last snowflake ID that this session drew';

--
-- Reading, and putting together
--
-- STABLE and not IMMUTABLE, since the result depends on snowflake.epoch and
-- snowflake.layout.  These are fixed while a server runs, so the planner may
-- evaluate them all the same; it learns so from the support function.
--

CREATE FUNCTION snowflake_settings_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_settings_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_settings_support(internal) IS
'planner support: evaluate calls with constant arguments when planned';

CREATE FUNCTION snowflake_compose(
    ts timestamptz,
    node integer,
    worker integer,
    sequence integer)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer) IS
'put a snowflake ID together from its fields, the inverse of snowflake_parse';

CREATE FUNCTION snowflake_id(
    ts timestamptz,
    discriminator bigint)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_id(timestamptz, bigint) IS
'put a snowflake ID together from a time and the caller''s own key in place of all other fields; the same for the same arguments';

CREATE FUNCTION snowflake_parse(
    id bigint,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint) IS
'the fields of a snowflake ID';

-- With a layout and epoch that do not depend on settings: IMMUTABLE.
CREATE FUNCTION snowflake_parse(
    id bigint,
    dialect text,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse_dialect'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint, text) IS
'the fields of an ID of another generator, one of the view snowflake_dialects';

CREATE FUNCTION snowflake_parse(
    id bigint,
    layout text,
    epoch timestamptz,
    OUT ts timestamptz,
    OUT node integer,
    OUT worker integer,
    OUT sequence integer)
AS 'MODULE_PATHNAME', 'snowflake_parse_layout'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_parse(bigint, text, timestamptz) IS
'the fields of an ID with any layout and epoch';

CREATE FUNCTION snowflake_explain(id bigint)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint) IS
'a drawing of the bits of a snowflake ID, with its fields and what they mean';

CREATE FUNCTION snowflake_explain(id bigint, dialect text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain_dialect'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
'a drawing of the bits of an ID of another generator, one of the view snowflake_dialects';

CREATE FUNCTION snowflake_explain(id bigint, layout text, epoch timestamptz)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_explain_layout'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_explain(bigint, text, timestamptz) IS
'a drawing of the bits of an ID with any layout and epoch';

CREATE FUNCTION snowflake_dialects(
    OUT name text,
    OUT layout text,
    OUT epoch timestamptz,
    OUT time_bits integer,
    OUT node_bits integer,
    OUT worker_bits integer,
    OUT sequence_bits integer,
    OUT time_unit interval,
    OUT last_ts timestamptz,
    OUT is_unsigned boolean,
    OUT description text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_dialects'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 13;

COMMENT ON FUNCTION snowflake_dialects() IS
'the layouts that have a name; use the view snowflake_dialects';

CREATE VIEW snowflake_dialects AS
    SELECT d.name, d.layout, d.epoch, d.time_bits, d.node_bits, d.worker_bits,
        d.sequence_bits, d.time_unit, d.last_ts, d.is_unsigned, d.description
    FROM snowflake_dialects() AS d;

COMMENT ON VIEW snowflake_dialects IS
'one row for each snowflake generator whose layout has a name: its fields and epoch, the last time that a bigint holds, and whether the original has unsigned numbers';

GRANT SELECT ON snowflake_dialects TO PUBLIC;

CREATE FUNCTION snowflake_timestamp(id bigint)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'the time in a snowflake ID: the start of the time unit in which it was drawn';

CREATE FUNCTION id_range_for(ts timestamptz)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_instant'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION id_range_for(timestamptz) IS
'all snowflake IDs of the time unit that holds an instant';

CREATE FUNCTION id_range_for(from_ts timestamptz, to_ts timestamptz)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_bounds'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION id_range_for(timestamptz, timestamptz) IS
'all snowflake IDs with a time from from_ts to before to_ts';

CREATE FUNCTION id_range_for(period tstzrange)
RETURNS int8range
AS 'MODULE_PATHNAME', 'id_range_for_period'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION id_range_for(tstzrange) IS
'all snowflake IDs with a time in a period';

CREATE FUNCTION snowflake_first_id(period tstzrange)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_first_id(tstzrange) IS
'the smallest snowflake ID with a time in a period; 0 when none can be';

CREATE FUNCTION snowflake_last_id(period tstzrange)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_settings_support;

COMMENT ON FUNCTION snowflake_last_id(tstzrange) IS
'the largest snowflake ID with a time in a period; -1 when none can be';

CREATE FUNCTION snowflake_in_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_in_support'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_in_support(internal) IS
'planner support: see id <@ period as id >= first AND id < end';

CREATE FUNCTION snowflake_in(id bigint, period tstzrange)
RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_in_support;

COMMENT ON FUNCTION snowflake_in(bigint, tstzrange) IS
'is the time of a snowflake ID in a period?';

-- No commutator: with an operator tstzrange @> bigint the server would read
-- the text in period @> '2026-11-21' as a bigint.
CREATE OPERATOR <@ (
    LEFTARG = bigint,
    RIGHTARG = tstzrange,
    FUNCTION = snowflake_in,
    RESTRICT = contsel,
    JOIN = contjoinsel
);

COMMENT ON OPERATOR <@ (bigint, tstzrange) IS
'is the time of a snowflake ID in a period?';

--
-- Text forms
--
-- IMMUTABLE: they depend on no setting.
--

CREATE FUNCTION snowflake_encode(id bigint, base text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_encode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_encode(bigint, text) IS
'a snowflake ID as a short text, in base32 (Crockford''s, sorts as the IDs do), base58 or base62';

CREATE FUNCTION snowflake_decode(code text, base text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_decode(text, text) IS
'the snowflake ID of a text in base32, base58 or base62, the inverse of snowflake_encode';

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

--
-- Running it
--

CREATE FUNCTION snowflake_layout(
    OUT layout text,
    OUT time_bits integer,
    OUT node_bits integer,
    OUT worker_bits integer,
    OUT sequence_bits integer,
    OUT time_unit interval,
    OUT time_units numeric,
    OUT nodes numeric,
    OUT workers numeric,
    OUT sequences numeric,
    OUT first_ts timestamptz,
    OUT last_ts timestamptz,
    OUT max_id bigint,
    OUT ids_per_second_worker double precision,
    OUT ids_per_second_node double precision,
    OUT backfill_worker bigint)
AS 'MODULE_PATHNAME', 'snowflake_layout_info'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_layout() IS
'the fields of this server''s snowflake IDs with their widths and capacities, the first and last time, and how many IDs a second they allow';

CREATE FUNCTION snowflake_check(
    OUT "check" text,
    OUT status text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_check'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 5;

COMMENT ON FUNCTION snowflake_check() IS
'a doctor: what keeps this server from drawing snowflake IDs, now or soon; status is ok, warning or error';

CREATE FUNCTION snowflake_advance(id bigint)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_advance(bigint) IS
'make every later snowflake ID of this server, but backfilled ones, larger than an ID; returns the earliest time they may have';

REVOKE ALL ON FUNCTION snowflake_advance(bigint) FROM PUBLIC;

CREATE FUNCTION snowflake_accept_layout()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_accept_layout'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_accept_layout() IS
'go on with the configured layout and epoch, though IDs were issued with others';

REVOKE ALL ON FUNCTION snowflake_accept_layout() FROM PUBLIC;

--
-- pg_dump takes the durable mark along, so that a server into which the dump
-- is restored issues none of the IDs in it.  The table has no rows: what is
-- dumped is added by the filter, which pg_dump puts after FROM, and restoring
-- it fires the trigger.  The filter names nothing of this extension, whose
-- schema may change.  Where the trigger was disabled, the constraint says so.
--

CREATE TABLE snowflake_dumped_mark (
    mark timestamptz,
    layout text,
    epoch timestamptz,
    backfilled bigint,
    CONSTRAINT restore_with_triggers_enabled CHECK (false)
);

COMMENT ON TABLE snowflake_dumped_mark IS
'always empty; by way of it pg_dump takes the durable mark of this server''s snowflake IDs along, and how many were backfilled';

GRANT SELECT, INSERT ON snowflake_dumped_mark TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('snowflake_dumped_mark', $filter$
WHERE false UNION ALL
SELECT mark::pg_catalog.timestamptz,
  pg_catalog.current_setting('snowflake.layout'),
  pg_catalog.current_setting('snowflake.epoch')::pg_catalog.timestamptz,
  (SELECT pg_catalog.max(pg_catalog.substring(c, '^snowflake[.]backfilled=([0-9]+)$')::pg_catalog.int8)
   FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) AS c)
FROM pg_catalog.current_setting('snowflake.issued_until', true) AS mark
WHERE mark OPERATOR(pg_catalog.<>) ''
$filter$);

CREATE FUNCTION snowflake_restore_mark()
RETURNS trigger
AS 'MODULE_PATHNAME', 'snowflake_restore_mark'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION snowflake_restore_mark() IS
'trigger: raise the durable mark to that of a dump being restored';

REVOKE ALL ON FUNCTION snowflake_restore_mark() FROM PUBLIC;

CREATE TRIGGER restore_mark BEFORE INSERT ON snowflake_dumped_mark
    FOR EACH ROW EXECUTE FUNCTION snowflake_restore_mark();

ALTER TABLE snowflake_dumped_mark ENABLE ALWAYS TRIGGER restore_mark;

CREATE FUNCTION pg_stat_get_snowflake(
    OUT node integer,
    OUT lease_end timestamptz,
    OUT registry_offset interval,
    OUT layout text,
    OUT epoch timestamptz,
    OUT clock text,
    OUT clock_ts timestamptz,
    OUT wall_ts timestamptz,
    OUT drift interval,
    OUT drift_max interval,
    OUT last_ts timestamptz,
    OUT issued bigint,
    OUT backfilled bigint,
    OUT hops bigint,
    OUT waits bigint,
    OUT wait_time double precision,
    OUT mark_waits bigint,
    OUT mark_wait_time double precision,
    OUT clock_waits bigint,
    OUT clock_wait_time double precision,
    OUT unit_waits bigint,
    OUT unit_wait_time double precision,
    OUT node_waits bigint,
    OUT node_wait_time double precision,
    OUT timeouts bigint,
    OUT clock_regressions bigint,
    OUT clock_regression_max interval,
    OUT clock_jumps bigint,
    OUT clock_jump_max interval,
    OUT reserved_until timestamptz,
    OUT backends integer,
    OUT slots_used integer,
    OUT worker_pid integer,
    OUT last_error text,
    OUT last_error_ts timestamptz,
    OUT lifetime_end timestamptz,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_get_snowflake() IS
'statistics: the generator; use the view pg_stat_snowflake';

CREATE VIEW pg_stat_snowflake AS
    SELECT s.node, s.lease_end, s.registry_offset, s.layout, s.epoch, s.clock, s.clock_ts, s.wall_ts, s.drift,
           s.drift_max, s.last_ts, s.issued, s.backfilled, s.hops, s.waits,
           s.wait_time, s.mark_waits, s.mark_wait_time, s.clock_waits,
           s.clock_wait_time, s.unit_waits, s.unit_wait_time, s.node_waits, s.node_wait_time, s.timeouts,
           s.clock_regressions, s.clock_regression_max, s.clock_jumps,
           s.clock_jump_max, s.reserved_until, s.backends, s.slots_used,
           s.worker_pid, s.last_error, s.last_error_ts, s.lifetime_end,
           s.stats_reset
    FROM pg_stat_get_snowflake() AS s;

COMMENT ON VIEW pg_stat_snowflake IS
'one row: what IDs are made of, the clock they are drawn by, how many were drawn, and what that had to wait for';

GRANT SELECT ON pg_stat_snowflake TO PUBLIC;

CREATE FUNCTION pg_stat_get_snowflake_slots(
    OUT worker integer,
    OUT backends integer,
    OUT pids integer[],
    OUT last_ts timestamptz,
    OUT last_id bigint,
    OUT issued bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_slots'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 32;

COMMENT ON FUNCTION pg_stat_get_snowflake_slots() IS
'statistics: the worker slots; use the view pg_stat_snowflake_slots';

CREATE VIEW pg_stat_snowflake_slots AS
    SELECT s.worker, s.backends, s.pids, s.last_ts, s.last_id, s.issued
    FROM pg_stat_get_snowflake_slots() AS s;

COMMENT ON VIEW pg_stat_snowflake_slots IS
'one row for each snowflake worker slot: who has it, the last ID drawn from it, and how many were';

GRANT SELECT ON pg_stat_snowflake_slots TO PUBLIC;

CREATE FUNCTION pg_stat_snowflake_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'pg_stat_snowflake_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_snowflake_reset() IS
'statistics: let all counters of pg_stat_snowflake and pg_stat_snowflake_slots begin anew';

REVOKE ALL ON FUNCTION pg_stat_snowflake_reset() FROM PUBLIC;

--
-- Registry
--
-- What is here serves other servers, in the database that their setting
-- snowflake.registry names, and needs no shared library: leases of node
-- numbers.  Two fences keep a number from being used by two servers.  One is
-- time as it passes: a server issues nothing once its lease has run out by
-- its own steady clock, counted from when it sent the request, and a number
-- is free once it has expired by the clock here, counted from when the
-- request arrived.  The other is the time in the IDs: a server issues only
-- below the mark that it was granted, and the next one with that number only
-- from there on.
--
-- The functions are SECURITY DEFINER, so that a role which may call them needs
-- no rights to the tables.  Names in their bodies are bound when they are
-- created, whatever search_path the caller has.  "Now" in them is
-- statement_timestamp(), when the request arrived: the same in all statements
-- of a call, and never before it was sent.
--

CREATE TABLE snowflake_registry (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    identity text NOT NULL,
    closed_until timestamptz NOT NULL CHECK (closed_until < timestamptz 'infinity')
);

COMMENT ON TABLE snowflake_registry IS
'the place that this registry was last used in, and until when it gives out no node numbers because it came there from another';

CREATE TABLE snowflake_lease (
    node integer PRIMARY KEY,
    token uuid UNIQUE,
    instance text NOT NULL,
    host text,
    port integer,
    address inet,
    system_identifier bigint,
    layout text NOT NULL,
    claimed_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    lease_ttl interval NOT NULL,
    floor bigint NOT NULL,
    mark bigint NOT NULL,
    clock_offset interval NOT NULL
) WITH (fillfactor = 50);       -- renewals are HOT updates

COMMENT ON TABLE snowflake_lease IS
'one row for each node number that was ever given out: the server that holds it, or the last one; use the view snowflake_nodes';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_registry', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_lease', '');

CREATE FUNCTION snowflake_lease_fault(
    token uuid,
    instance text,
    max_node integer,
    lease_ttl interval,
    mark bigint,
    clock timestamptz,
    clock_offset interval,
    layout text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN pg_catalog.num_nulls(token, instance, max_node, lease_ttl, mark, clock, layout) > 0
    THEN 'Of the arguments only held, held_token, remaining, clock_offset, host, port and system_identifier may be null.'
    WHEN max_node < 0
    THEN pg_catalog.format('max_node is %s, and must not be negative.', max_node)
    WHEN lease_ttl NOT BETWEEN interval '10 s' AND interval '1 day'
    THEN pg_catalog.format('lease_ttl is %s, and must be from 10 s to 1 day.', lease_ttl)
    WHEN mark < 0
    THEN pg_catalog.format('mark is %s, and must not be negative.', mark)
    WHEN clock NOT BETWEEN timestamptz '1970-01-01 00:00:00+00' AND timestamptz '3000-01-01 00:00:00+00'
    THEN 'clock is not between the years 1970 and 3000.'
    WHEN clock_offset NOT BETWEEN interval '-1000 years' AND interval '1000 years'
    THEN 'clock_offset is more than 1000 years.'
END;

COMMENT ON FUNCTION snowflake_lease_fault(uuid, text, integer, interval, bigint, timestamptz, interval, text) IS
'what is wrong with the arguments of snowflake_lease_node; null when nothing is';

REVOKE ALL ON FUNCTION snowflake_lease_fault(uuid, text, integer, interval, bigint, timestamptz, interval, text) FROM PUBLIC;

--
-- Renew the lease of a node number, or claim one.  The server that calls this
-- counts the answer only when the commit was confirmed, and calls again with
-- the same token when it was not: then it is told the same number.
--
--   token         secret of this start of the server
--   held          the number that it has, or had last; null for none
--   held_token    the token it got that with, if at an earlier start
--   remaining     of the lease of "held", by the server's steady clock when it
--                 sent this, less the longest that the request may take to
--                 get here; null or not above 0: it has run out
--   instance      tells the server from a copy of it
--   mark          the time, in microseconds since 1970-01-01 UTC, that the
--                 server wants to issue IDs below; as clock, not before its
--                 latest ID
--   clock         the server's clock when it sent this
--   clock_offset  that clock minus the one here, as last measured; null: not
--                 yet, so it is taken from "clock"
--
-- The answer:
--
--   node          the number; null when refused, and then three texts say why
--   renewed       true when that is "held" and nobody had it in between
--   floor         issue no ID with this number that has an earlier time
--   granted       nor one that is not below this, until the next answer
--   registry_clock  when the request arrived
--   peers, peers_offset  servers with live leases beside this one, and the
--                 mean of their clock_offset
--
-- Being VOLATILE, it takes a new snapshot for each statement: what is below
-- the lock sees what was committed while waiting for it.  (In a transaction
-- that is REPEATABLE READ it does not, and ends with a serialization failure.)
--
CREATE FUNCTION snowflake_lease_node(
    token uuid,
    held integer,
    held_token uuid,
    remaining interval,
    instance text,
    max_node integer,
    lease_ttl interval,
    mark bigint,
    clock timestamptz,
    clock_offset interval,
    layout text,
    host text,
    port integer,
    system_identifier bigint,
    OUT node integer,
    OUT renewed boolean,
    OUT floor bigint,
    OUT granted bigint,
    OUT registry_clock timestamptz,
    OUT peers integer,
    OUT peers_offset interval,
    OUT refusal text,
    OUT refusal_detail text,
    OUT refusal_hint text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    -- An answer counts once it is committed, so that has to be durable.
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local');

    -- In another place than before, after a promotion or a restore, the last
    -- claims may be missing.  Close until all leases that may have been given
    -- out have run out.
    INSERT INTO snowflake_registry AS r (identity, closed_until)
    SELECT i.identity,
        CASE WHEN EXISTS (SELECT FROM snowflake_lease) OR EXISTS (SELECT FROM snowflake_registry)
             THEN pg_catalog.statement_timestamp()
                  + greatest((SELECT pg_catalog.max(l.lease_ttl) FROM snowflake_lease AS l),
                             least(snowflake_lease_node.lease_ttl, interval '1 day'),
                             interval '10 s')
             ELSE timestamptz '-infinity' END
    FROM (SELECT pg_catalog.concat_ws('/', c.system_identifier,
                     pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
                     d.oid, 'snowflake_lease'::pg_catalog.regclass::oid)
          FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
          WHERE d.datname = pg_catalog.current_database()) AS i (identity)
    WHERE NOT EXISTS (SELECT FROM snowflake_registry AS r WHERE r.identity = i.identity)
    ON CONFLICT (only_row) DO UPDATE
        SET identity = excluded.identity,
            closed_until = greatest(r.closed_until, excluded.closed_until)
        WHERE r.identity <> excluded.identity;

    -- Renew, also what has expired but was not given to anybody else.  The
    -- token decides, and is looked at again when the row has changed while
    -- waiting for it.  While closed, somebody else may have got what expired,
    -- but not what still runs.
    UPDATE snowflake_lease AS l
    SET token = snowflake_lease_node.token,
        instance = snowflake_lease_node.instance,
        host = snowflake_lease_node.host,
        port = snowflake_lease_node.port,
        address = pg_catalog.inet_client_addr(),
        system_identifier = snowflake_lease_node.system_identifier,
        layout = snowflake_lease_node.layout,
        renewed_at = pg_catalog.statement_timestamp(),
        expires_at = greatest(l.expires_at, pg_catalog.statement_timestamp() + snowflake_lease_node.lease_ttl),
        lease_ttl = snowflake_lease_node.lease_ttl,
        -- a lost claim may have issued that far
        floor = CASE WHEN l.expires_at < pg_catalog.statement_timestamp()
                     THEN greatest(l.floor,
                         (SELECT (extract(epoch FROM r.closed_until + interval '10 s') * 1000000.0)::bigint
                          FROM snowflake_registry AS r
                          WHERE r.closed_until > timestamptz '-infinity'))
                     ELSE l.floor END,
        mark = greatest(l.mark, snowflake_lease_node.mark),
        clock_offset = coalesce(snowflake_lease_node.clock_offset, clock - pg_catalog.statement_timestamp())
    WHERE (l.token = snowflake_lease_node.token
           OR l.node = held AND l.token = held_token AND l.instance = snowflake_lease_node.instance)
      AND snowflake_lease_fault(snowflake_lease_node.token, snowflake_lease_node.instance, max_node,
              snowflake_lease_node.lease_ttl, snowflake_lease_node.mark, clock,
              snowflake_lease_node.clock_offset, snowflake_lease_node.layout) IS NULL
      AND l.node <= max_node
      AND (l.node = held AND remaining > interval '0'
           OR NOT EXISTS (SELECT FROM snowflake_registry AS r
                          WHERE r.closed_until > pg_catalog.statement_timestamp()))
      AND (l.layout = snowflake_lease_node.layout
           OR NOT EXISTS (SELECT FROM snowflake_lease AS p
                          WHERE p.node <> l.node AND p.token IS NOT NULL
                            AND p.expires_at >= pg_catalog.statement_timestamp()
                            AND p.layout <> snowflake_lease_node.layout));

    -- Claims come one after the other.  A row, as only these functions can
    -- lock it.
    SELECT FROM snowflake_registry
    WHERE NOT EXISTS (SELECT FROM snowflake_lease AS l WHERE l.token = snowflake_lease_node.token)
    FOR UPDATE;

    -- Claim: the number that it had last, else the lowest one, of those that
    -- nobody had yet, or that have expired here and whose mark is past by the
    -- clock of the claimant, so that two clocks have to agree.  While closed,
    -- only what still runs: the claim was lost.
    INSERT INTO snowflake_lease AS l (node, token, instance, host, port, address, system_identifier,
        layout, claimed_at, renewed_at, expires_at, lease_ttl, floor, mark, clock_offset)
    SELECT c.node, snowflake_lease_node.token, snowflake_lease_node.instance,
        snowflake_lease_node.host, snowflake_lease_node.port, pg_catalog.inet_client_addr(),
        snowflake_lease_node.system_identifier, snowflake_lease_node.layout,
        pg_catalog.statement_timestamp(), pg_catalog.statement_timestamp(),
        pg_catalog.statement_timestamp() + snowflake_lease_node.lease_ttl, snowflake_lease_node.lease_ttl,
        -- lost claims may have issued that far
        CASE WHEN r.closed_until > pg_catalog.statement_timestamp()
                  OR r.closed_until = timestamptz '-infinity'
             THEN 0::bigint
             ELSE (extract(epoch FROM r.closed_until + interval '10 s') * 1000000.0)::bigint END,
        snowflake_lease_node.mark,
        coalesce(snowflake_lease_node.clock_offset, clock - pg_catalog.statement_timestamp())
    FROM snowflake_registry AS r,
        (SELECT held
         UNION ALL
         SELECT pg_catalog.generate_series(0, (SELECT pg_catalog.count(*)::integer FROM snowflake_lease))) AS c (node)
    WHERE snowflake_lease_fault(snowflake_lease_node.token, snowflake_lease_node.instance, max_node,
              snowflake_lease_node.lease_ttl, snowflake_lease_node.mark, clock,
              snowflake_lease_node.clock_offset, snowflake_lease_node.layout) IS NULL
      AND c.node BETWEEN 0 AND max_node
      AND NOT EXISTS (SELECT FROM snowflake_lease AS p
                      WHERE p.token = snowflake_lease_node.token
                         OR p.token IS NOT NULL AND p.layout <> snowflake_lease_node.layout
                            AND p.expires_at >= pg_catalog.statement_timestamp())
      AND NOT EXISTS (SELECT FROM snowflake_lease AS p
                      WHERE p.node = c.node
                        AND (p.expires_at >= pg_catalog.statement_timestamp()
                             OR pg_catalog.to_timestamp(p.mark::float8 / 1000000::float8) > clock
                                AND r.closed_until <= pg_catalog.statement_timestamp()))
      AND (c.node = held AND remaining > interval '0'
           OR r.closed_until <= pg_catalog.statement_timestamp())
    ORDER BY c.node IS DISTINCT FROM held, c.node
    LIMIT 1
    ON CONFLICT (node) DO UPDATE
        SET (token, instance, host, port, address, system_identifier, layout, claimed_at,
             renewed_at, expires_at, lease_ttl, floor, mark, clock_offset)
            = (excluded.token, excluded.instance, excluded.host, excluded.port, excluded.address,
               excluded.system_identifier, excluded.layout, excluded.claimed_at, excluded.renewed_at,
               excluded.expires_at, excluded.lease_ttl, greatest(l.mark, excluded.floor),
               greatest(l.mark, excluded.mark), excluded.clock_offset)
        -- unless its holder has renewed it just now
        WHERE l.expires_at < pg_catalog.statement_timestamp();

    -- The answer: what this call has written, or why it has written nothing.
    SELECT l.node,
        coalesce(l.node = held AND (l.claimed_at < l.renewed_at OR r.closed), false),
        l.floor, l.mark, pg_catalog.statement_timestamp(), p.peers, p.peers_offset,
        CASE WHEN l.node IS NOT NULL THEN NULL
             WHEN r.fault IS NOT NULL THEN 'invalid request for a node number'
             WHEN r.closed THEN pg_catalog.format('the registry gives out no node numbers until %s',
                 pg_catalog.to_char(r.closed_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
             WHEN p.strangers > 0 THEN 'servers with another layout have node numbers of the registry'
             WHEN p.taken > max_node THEN pg_catalog.format('all %s node numbers are taken', p.taken)
             ELSE 'the free node number was renewed by its holder just now' END,
        CASE WHEN l.node IS NOT NULL THEN NULL
             WHEN r.fault IS NOT NULL THEN r.fault
             WHEN r.closed THEN 'It was promoted or restored, and may have lost the last leases that it gave out. Until then a server keeps its number only while its lease has not run out.'
             WHEN p.strangers > 0 OR p.taken > max_node THEN
                 (SELECT pg_catalog.format('The holders are %s%s.',
                      pg_catalog.string_agg(pg_catalog.format('%s:%s (node %s, %slast seen %s)',
                          coalesce(h.host, '?'), h.port, h.node,
                          CASE WHEN p.strangers > 0 THEN pg_catalog.format('"%s", ', h.layout) END,
                          pg_catalog.to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')),
                          ', '::text ORDER BY h.node) FILTER (WHERE h.place <= 20),
                      CASE WHEN pg_catalog.count(*) > 20
                           THEN pg_catalog.format(' and %s more', pg_catalog.count(*) - 20) END)
                  FROM (SELECT h.node, h.host, h.port, h.layout, h.renewed_at,
                            pg_catalog.row_number() OVER (ORDER BY h.node) AS place
                        FROM snowflake_lease AS h
                        WHERE CASE WHEN p.strangers > 0
                                   THEN h.layout <> snowflake_lease_node.layout AND h.token IS NOT NULL
                                        AND h.expires_at >= pg_catalog.statement_timestamp()
                                   ELSE h.node <= max_node END) AS h) END,
        CASE WHEN l.node IS NOT NULL OR r.fault IS NOT NULL THEN NULL
             WHEN r.closed THEN 'Wait until then.'
             WHEN p.strangers > 0 THEN 'Give all servers of a registry the same layout and epoch.'
             WHEN p.taken > max_node THEN 'Wait until a lease has run out, or call snowflake_release_node() in the registry with the number of a server that is stopped for good.'
             ELSE 'Ask again.' END
    FROM (SELECT r.closed_until, r.closed_until > pg_catalog.statement_timestamp(),
              snowflake_lease_fault(token, instance, max_node, lease_ttl, mark, clock, clock_offset, layout)
          FROM snowflake_registry AS r) AS r (closed_until, closed, fault)
    CROSS JOIN
         (SELECT pg_catalog.count(*) FILTER (WHERE p.peer)::integer,
              pg_catalog.avg(p.clock_offset) FILTER (WHERE p.peer),
              pg_catalog.count(*) FILTER (WHERE p.peer AND p.layout <> snowflake_lease_node.layout),
              pg_catalog.count(*) FILTER (WHERE p.taken)
          FROM (SELECT p.clock_offset, p.layout,
                    p.token <> snowflake_lease_node.token
                    AND p.expires_at >= pg_catalog.statement_timestamp() AS peer,
                    p.node <= max_node
                    AND (p.expires_at >= pg_catalog.statement_timestamp()
                         OR pg_catalog.to_timestamp(p.mark::float8 / 1000000::float8) > clock) AS taken
                FROM snowflake_lease AS p) AS p) AS p (peers, peers_offset, strangers, taken)
    LEFT JOIN snowflake_lease AS l
         ON l.token = snowflake_lease_node.token AND l.renewed_at = pg_catalog.statement_timestamp();
END;

COMMENT ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval, bigint, timestamptz, interval, text, text, integer, bigint) IS
'called by a server to renew the lease of its node number, or to claim one';

REVOKE ALL ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval, bigint, timestamptz, interval, text, text, integer, bigint) FROM PUBLIC;

-- A server that still runs learns of it when it renews next, within seconds,
-- and issues nothing more with the number.  Hence the least mark.
CREATE FUNCTION snowflake_release_node(node integer)
RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local');

    WITH released AS (
        UPDATE snowflake_lease AS l
        SET token = NULL,
            expires_at = least(l.expires_at, pg_catalog.statement_timestamp()),
            mark = least(l.mark,
                (extract(epoch FROM pg_catalog.statement_timestamp() + interval '10 s'
                         + greatest(l.clock_offset, interval '0')) * 1000000.0)::bigint)
        WHERE l.node = snowflake_release_node.node AND l.token IS NOT NULL
        RETURNING l.node)
    SELECT EXISTS (SELECT FROM released);
END;

COMMENT ON FUNCTION snowflake_release_node(integer) IS
'end the lease of a server that is stopped for good, so that its node number is free within seconds; false when the number is not leased';

REVOKE ALL ON FUNCTION snowflake_release_node(integer) FROM PUBLIC;

-- To be seen by those who may see pg_stat_replication in full.
CREATE VIEW snowflake_nodes AS
    SELECT l.node,
           CASE WHEN l.token IS NULL THEN 'released'
                WHEN l.expires_at >= pg_catalog.statement_timestamp() THEN 'live'
                ELSE 'expired' END AS state,
           l.host, l.port, l.address, l.system_identifier, l.layout,
           l.claimed_at, l.renewed_at, l.expires_at, l.clock_offset,
           m.issues_until, greatest(l.expires_at, m.issues_until) AS free_from
    FROM snowflake_lease AS l,
         pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) AS m (issues_until);

COMMENT ON VIEW snowflake_nodes IS
'one row for each node number that this registry has given out: to which server, since when, until when, and how far the clock of that server is from the one here';

GRANT SELECT ON snowflake_nodes TO pg_monitor;

--
-- Moving existing tables over
--
-- "table" and "column" are keywords, so they need their quotes in a call by
-- name too.
--

CREATE FUNCTION snowflake_convert(
    "table" regclass,
    "column" name,
    dry_run boolean DEFAULT true,
    target text DEFAULT 'snowflake',
    OUT step integer,
    OUT kind text,
    OUT command text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_convert'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION snowflake_convert(regclass, name, boolean, text) IS
'let an existing column draw snowflake IDs, or a sequence''s again: the statements that takes and what stands in the way, or, without dry_run, do it';
