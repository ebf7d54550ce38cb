/* snowflake_nodes--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_nodes" to load this file. \quit

--
-- Leases of node numbers, for the servers whose setting snowflake.registry
-- names this database.
--
-- An extension of its own, in pure SQL.  Its tables have secrets and are
-- dumped, and a dump of any other database should need no rights to such.  It
-- belongs to the role that creates it, superuser or not.
--
-- Two fences keep two servers from issuing the same IDs.  One is time as it
-- passes: a server issues nothing once its lease has run out by its own steady
-- clock, counted from when it sent the request, and a number is free once its
-- lease has run out by the clock here, counted from when the request arrived.
-- The other is the time in the IDs: a server issues only below the mark that
-- it was granted, and the next one with that number only from there on.
--
-- The functions are SECURITY DEFINER, so that a role which may call them needs
-- no rights to the tables.  Names in their bodies are bound when they are
-- created, whatever search_path the caller has.  "Now" in them is
-- statement_timestamp(), when the request arrived: the same in all statements
-- of a call, and never before it was sent.
--

CREATE TABLE snowflake_node_place (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place text NOT NULL,
    closed_until timestamptz NOT NULL CHECK (closed_until < timestamptz 'infinity'),
    changes bigint NOT NULL DEFAULT 0
);

COMMENT ON TABLE snowflake_node_place IS
'the place that this registry was last used in, and until when it gives out no node numbers because it came there from another';

CREATE TABLE snowflake_node_lease (
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
    clock_offset interval NOT NULL,
    renewals bigint NOT NULL DEFAULT 1,
    max_node integer NOT NULL DEFAULT 31
) WITH (fillfactor = 50);       -- renewals are HOT updates

COMMENT ON TABLE snowflake_node_lease IS
'one row for each node number that was ever given out: the server that holds it, or the last one; use the view snowflake_nodes';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_node_place', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_node_lease', '');

-- Fails on a standby, as all here does.
CREATE FUNCTION snowflake_nodes_timeline()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT pg_catalog.concat_ws('/', c.system_identifier,
                   pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))
        FROM pg_catalog.pg_control_system() AS c);

COMMENT ON FUNCTION snowflake_nodes_timeline() IS
'system identifier and timeline, which a promotion or a restore changes';

REVOKE ALL ON FUNCTION snowflake_nodes_timeline() FROM PUBLIC;

CREATE FUNCTION snowflake_nodes_here()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT pg_catalog.concat_ws('/', snowflake_nodes_timeline(), d.oid,
                   'snowflake_node_lease'::pg_catalog.regclass::oid)
        FROM pg_catalog.pg_database AS d
        WHERE d.datname = pg_catalog.current_database());

COMMENT ON FUNCTION snowflake_nodes_here() IS
'where this registry is: the same only in the same database on the same timeline';

REVOKE ALL ON FUNCTION snowflake_nodes_here() FROM PUBLIC;

CREATE FUNCTION snowflake_nodes_fault(
    token uuid,
    instance text,
    max_node integer,
    lease_ttl interval,
    mark bigint,
    clock timestamptz,
    clock_offset interval,
    layout text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN pg_catalog.num_nulls(token, instance, max_node, lease_ttl, mark, clock, layout) > 0
    THEN 'Only the arguments held, held_token, remaining, clock_offset, host, port and system_identifier may be null.'
    WHEN max_node < 0
    THEN pg_catalog.format('max_node is %s, and must not be negative.', max_node)
    WHEN lease_ttl NOT BETWEEN interval '10 s' AND interval '1 day'
    THEN pg_catalog.format('lease_ttl is %s s, and must be from 10 s to 1 day.', extract(epoch FROM lease_ttl))
    WHEN mark < 0
    THEN pg_catalog.format('mark is %s, and must not be negative.', mark)
    WHEN clock NOT BETWEEN timestamptz '1970-01-01 00:00:00+00' AND timestamptz '3000-01-01 00:00:00+00'
    THEN 'clock is not between the years 1970 and 3000.'
    WHEN clock_offset NOT BETWEEN interval '-1000 years' AND interval '1000 years'
    THEN 'clock_offset is more than 1000 years.'
END;

COMMENT ON FUNCTION snowflake_nodes_fault(uuid, text, integer, interval, bigint, timestamptz, interval, text) IS
'what is wrong with the arguments of snowflake_lease_node; null when nothing is';

REVOKE ALL ON FUNCTION snowflake_nodes_fault(uuid, text, integer, interval, bigint, timestamptz, interval, text) FROM PUBLIC;

--
-- Renew the lease of a node number, or claim one.  The server that calls this
-- counts the answer only when the commit was confirmed, and calls again with
-- the same token when it was not: then it is told the same number.
--
--   token         secret of this start of the server
--   held          the number that it has, or had last; null for none
--   held_token    the token of the start before, if it had a number then
--   remaining     of the lease of "held", by the server's steady clock when it
--                 sent this, less the longest that the request may take to
--                 get here; null or not above 0: it has run out
--   instance      tells the server from a copy of it; '' for unknown
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
--   floor         issue no ID with this number that has an earlier time; it
--                 stays for as long as the server keeps the number
--   granted       the mark: nor one that is not below this
--   registry_clock  when the request arrived
--   peers, peers_offset  servers with live leases beside this one, and the
--                 median of their clock_offset: one clock that is far off
--                 would take the mean with it
--   timeline      the registry's system identifier and timeline
--
-- Being VOLATILE, it takes a new snapshot for each statement: what is below
-- the lock sees what was committed while waiting for it.  (In a transaction
-- that is REPEATABLE READ it does not, and ends with a serialization failure.)
-- That snowflake_node_place has but one row, the planner learns from LIMIT 1.
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
    seen bigint DEFAULT NULL,
    renewals bigint DEFAULT NULL,
    wants_peers boolean DEFAULT NULL,
    OUT node integer,
    OUT floor bigint,
    OUT granted bigint,
    OUT registry_clock timestamptz,
    OUT peers integer,
    OUT peers_offset interval,
    OUT timeline text,
    OUT changes bigint,
    OUT renewals bigint,
    OUT free integer,
    OUT refusal text,
    OUT refusal_passes boolean,
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
    INSERT INTO snowflake_node_place AS r (place, closed_until)
    SELECT p.place,
        CASE WHEN EXISTS (SELECT FROM snowflake_node_lease) OR EXISTS (SELECT FROM snowflake_node_place)
             THEN pg_catalog.statement_timestamp()
                  + greatest((SELECT pg_catalog.max(l.lease_ttl) FROM snowflake_node_lease AS l),
                             least(snowflake_lease_node.lease_ttl, interval '1 day'),
                             interval '10 s')
             ELSE timestamptz '-infinity' END
    FROM (SELECT snowflake_nodes_here()) AS p (place)
    WHERE NOT EXISTS (SELECT FROM snowflake_node_place AS r WHERE r.place = p.place)
    ON CONFLICT (only_row) DO UPDATE
        SET place = excluded.place,
            closed_until = greatest(r.closed_until, excluded.closed_until)
        WHERE r.place <> excluded.place;

    -- Renew, also what has expired but was not given to anybody else.  The
    -- token decides, and is looked at again when the row has changed while
    -- waiting for it.  While closed, somebody else may have got what expired,
    -- but not what still runs; after it, that may have been and is over.
    UPDATE snowflake_node_lease AS l
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
        floor = greatest(l.floor,
            (SELECT (extract(epoch FROM r.closed_until + interval '10 s') * 1000000.0)::bigint
             FROM snowflake_node_place AS r
             WHERE r.closed_until BETWEEN l.renewed_at AND pg_catalog.statement_timestamp()
               AND l.expires_at < pg_catalog.statement_timestamp())),
        mark = greatest(l.mark, snowflake_lease_node.mark),
        renewals = l.renewals + 1,
        clock_offset = coalesce(snowflake_lease_node.clock_offset, clock - pg_catalog.statement_timestamp())
    WHERE (l.token = snowflake_lease_node.token
           OR l.token = held_token AND l.instance = snowflake_lease_node.instance AND l.instance <> '')
      AND snowflake_nodes_fault(snowflake_lease_node.token, snowflake_lease_node.instance, snowflake_lease_node.max_node,
              snowflake_lease_node.lease_ttl, snowflake_lease_node.mark, clock,
              snowflake_lease_node.clock_offset, snowflake_lease_node.layout) IS NULL
      AND l.node <= snowflake_lease_node.max_node
      AND (l.node = held AND remaining > interval '0'
           OR NOT EXISTS (SELECT FROM snowflake_node_place AS r
                          WHERE r.closed_until > pg_catalog.statement_timestamp()))
      AND (l.layout = snowflake_lease_node.layout
           OR NOT EXISTS (SELECT FROM snowflake_node_lease AS p
                          WHERE p.node <> l.node
                            AND p.expires_at >= pg_catalog.statement_timestamp()
                            AND p.layout <> snowflake_lease_node.layout));

    -- Claims come one after the other, by a lock that nobody else can take.
    SELECT FROM snowflake_node_place
    WHERE NOT EXISTS (SELECT FROM snowflake_node_lease AS l WHERE l.token = snowflake_lease_node.token)
    FOR UPDATE;

    -- Claim a number that nobody had yet, or whose lease has run out here and
    -- whose mark is past by the clock of the claimant, so that two clocks have
    -- to agree: the one that the server had last, else the lowest.  While closed
    -- only the former, if its lease still runs: then the claim was lost.
    INSERT INTO snowflake_node_lease AS l (node, token, instance, host, port, address, system_identifier,
        layout, claimed_at, renewed_at, expires_at, lease_ttl, floor, mark, clock_offset, max_node)
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
        coalesce(snowflake_lease_node.clock_offset, clock - pg_catalog.statement_timestamp()), snowflake_lease_node.max_node
    FROM (SELECT r.closed_until FROM snowflake_node_place AS r LIMIT 1) AS r,
        (SELECT held
         UNION ALL
         SELECT pg_catalog.generate_series(0, (SELECT pg_catalog.count(*)::integer FROM snowflake_node_lease))) AS c (node)
    WHERE snowflake_nodes_fault(snowflake_lease_node.token, snowflake_lease_node.instance, snowflake_lease_node.max_node,
              snowflake_lease_node.lease_ttl, snowflake_lease_node.mark, clock,
              snowflake_lease_node.clock_offset, snowflake_lease_node.layout) IS NULL
      AND c.node BETWEEN 0 AND snowflake_lease_node.max_node
      AND NOT EXISTS (SELECT FROM snowflake_node_lease AS p
                      WHERE p.token = snowflake_lease_node.token
                         OR p.layout <> snowflake_lease_node.layout
                            AND p.expires_at >= pg_catalog.statement_timestamp())
      AND NOT EXISTS (SELECT FROM snowflake_node_lease AS p
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
             renewed_at, expires_at, lease_ttl, floor, mark, clock_offset, renewals, max_node)
            = (excluded.token, excluded.instance, excluded.host, excluded.port, excluded.address,
               excluded.system_identifier, excluded.layout, excluded.claimed_at, excluded.renewed_at,
               excluded.expires_at, excluded.lease_ttl, greatest(l.mark, excluded.floor),
               greatest(l.mark, excluded.mark), excluded.clock_offset, l.renewals + 1, excluded.max_node)
        -- unless its holder has renewed it just now
        WHERE l.expires_at < pg_catalog.statement_timestamp();

    UPDATE snowflake_node_place AS r SET changes = r.changes + 1
    WHERE EXISTS (SELECT FROM snowflake_node_lease AS l
                  WHERE l.token = snowflake_lease_node.token AND l.claimed_at = pg_catalog.statement_timestamp());

    -- The answer: what this call has written, or why it has written nothing.
    SELECT l.node, l.floor, l.mark, pg_catalog.statement_timestamp(),
        CASE WHEN wants_peers THEN p.peers END, CASE WHEN wants_peers THEN p.peers_offset END, r.timeline,
        r.changes, l.renewals,
        CASE WHEN wants_peers THEN greatest(snowflake_lease_node.max_node::bigint + 1 - p.taken, 0)::integer END,
        CASE WHEN l.node IS NOT NULL THEN NULL
             WHEN r.fault IS NOT NULL THEN 'invalid request for a node number'
             WHEN r.closed THEN pg_catalog.format('the registry gives out no node numbers until %s',
                 pg_catalog.to_char(r.closed_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
             WHEN p.strangers > 0 THEN 'servers with another layout have node numbers of the registry'
             WHEN p.taken > snowflake_lease_node.max_node THEN pg_catalog.format('all %s node numbers are taken', p.taken)
             ELSE 'another request came first' END,
        CASE WHEN l.node IS NULL
             THEN r.fault IS NULL AND (r.closed OR p.strangers = 0 AND p.taken <= snowflake_lease_node.max_node) END,
        CASE WHEN l.node IS NOT NULL THEN NULL
             WHEN r.fault IS NOT NULL THEN r.fault
             WHEN r.closed THEN 'It was promoted or restored, and may have lost the last leases that it gave out. Until then a server keeps its number only while its lease has not run out.'
             WHEN p.strangers > 0 OR p.taken > snowflake_lease_node.max_node THEN
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
                        FROM snowflake_node_lease AS h
                        WHERE CASE WHEN p.strangers > 0
                                   THEN h.layout <> snowflake_lease_node.layout
                                        AND h.expires_at >= pg_catalog.statement_timestamp()
                                   ELSE h.node <= snowflake_lease_node.max_node END) AS h)
             ELSE 'The other request was by the holder of the free node number, or by this server itself.' END,
        CASE WHEN l.node IS NOT NULL OR r.fault IS NOT NULL THEN NULL
             WHEN r.closed THEN 'Wait until then.'
             WHEN p.strangers > 0 THEN 'Give all servers of a registry the same layout and epoch.'
             WHEN p.taken > snowflake_lease_node.max_node THEN 'Wait until a lease has run out. If a server is stopped for good, end its lease with snowflake_release_node(node, issued_until) in the registry.'
             ELSE 'Ask again.' END
    FROM (SELECT r.changes, r.closed_until, r.closed_until > pg_catalog.statement_timestamp(),
              snowflake_nodes_fault(token, instance, snowflake_lease_node.max_node, lease_ttl, mark, clock, clock_offset, layout),
              snowflake_nodes_timeline()
          FROM snowflake_node_place AS r
          LIMIT 1) AS r (changes, closed_until, closed, fault, timeline)
    CROSS JOIN
         (SELECT pg_catalog.count(*) FILTER (WHERE p.peer)::integer,
              pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY p.clock_offset) FILTER (WHERE p.peer),
              pg_catalog.count(*) FILTER (WHERE p.peer AND p.layout <> snowflake_lease_node.layout),
              pg_catalog.count(*) FILTER (WHERE p.taken)
          FROM (SELECT p.clock_offset, p.layout,
                    p.token <> snowflake_lease_node.token
                    AND p.expires_at >= pg_catalog.statement_timestamp() AS peer,
                    p.node <= snowflake_lease_node.max_node
                    AND (p.expires_at >= pg_catalog.statement_timestamp()
                         OR pg_catalog.to_timestamp(p.mark::float8 / 1000000::float8) > clock) AS taken
                FROM snowflake_node_lease AS p) AS p) AS p (peers, peers_offset, strangers, taken)
    LEFT JOIN snowflake_node_lease AS l
         ON l.token = snowflake_lease_node.token AND l.renewed_at = pg_catalog.statement_timestamp();
END;

COMMENT ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval, bigint, timestamptz, interval, text, text, integer, bigint, bigint, bigint, boolean) IS
'called by a server to renew the lease of its node number, or to claim one';

REVOKE ALL ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval, bigint, timestamptz, interval, text, text, integer, bigint, bigint, bigint, boolean) FROM PUBLIC;

-- For where the registry was promoted and has lost nothing, as only
-- synchronous standbys are promoted: it need not close.
CREATE FUNCTION snowflake_open_nodes()
RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    WITH opened AS (
        UPDATE snowflake_node_place AS r
        SET place = p.place,
            closed_until = least(r.closed_until, pg_catalog.statement_timestamp() - interval '10 s')
        FROM (SELECT snowflake_nodes_here()) AS p (place)
        WHERE r.place <> p.place OR r.closed_until > pg_catalog.statement_timestamp()
        RETURNING r.place)
    SELECT EXISTS (SELECT FROM opened);
END;

COMMENT ON FUNCTION snowflake_open_nodes() IS
'after a promotion that has lost no transaction: give out node numbers at once; false when the registry does so already';

REVOKE ALL ON FUNCTION snowflake_open_nodes() FROM PUBLIC;

-- A server that still runs learns of it when it renews next, within seconds,
-- and issues nothing more with the number.  Until then, and when it does not
-- reach this registry, it may issue up to its mark.  So that stays, but when
-- the caller knows better.
CREATE FUNCTION snowflake_release_node(
    node integer,
    issued_until timestamptz DEFAULT 'infinity')
RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local');

    WITH released AS (
        UPDATE snowflake_node_lease AS l
        SET token = NULL,
            expires_at = least(l.expires_at, pg_catalog.statement_timestamp()),
            mark = CASE WHEN pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) > issued_until
                        THEN greatest((extract(epoch FROM greatest(issued_until, timestamptz '1970-01-01 00:00:00+00')) * 1000000.0)::bigint, l.floor)
                        ELSE l.mark END
        WHERE l.node = snowflake_release_node.node AND l.token IS NOT NULL
        RETURNING l.node)
    SELECT EXISTS (SELECT FROM released);
END;

COMMENT ON FUNCTION snowflake_release_node(integer, timestamptz) IS
'end the lease of a node number; it is free when the time that its IDs may have is past, which is issued_until if the caller knows that they are not later; false when the number is not leased';

REVOKE ALL ON FUNCTION snowflake_release_node(integer, timestamptz) FROM PUBLIC;

-- To be seen by those who may see pg_stat_replication in full.
CREATE VIEW snowflake_nodes AS
    SELECT l.node,
           CASE WHEN l.token IS NULL THEN 'released'
                WHEN l.expires_at >= pg_catalog.statement_timestamp() THEN 'live'
                ELSE 'expired' END AS state,
           l.host, l.port, l.address, l.system_identifier, l.layout,
           l.claimed_at, l.renewed_at, l.expires_at, l.clock_offset,
           m.issues_until, greatest(l.expires_at, m.issues_until) AS free_from
    FROM snowflake_node_lease AS l,
         pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) AS m (issues_until);

COMMENT ON VIEW snowflake_nodes IS
'one row for each node number that this registry has given out: to which server, since when, until when, and how far the clock of that server is from the one here';

COMMENT ON COLUMN snowflake_nodes.node IS
'node number';
COMMENT ON COLUMN snowflake_nodes.state IS
'live; expired: the lease has run out; released: by snowflake_release_node()';
COMMENT ON COLUMN snowflake_nodes.host IS
'name of the host, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.port IS
'port of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.address IS
'address that the server connected from; null for a Unix socket';
COMMENT ON COLUMN snowflake_nodes.system_identifier IS
'system identifier of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.layout IS
'layout and epoch of the server';
COMMENT ON COLUMN snowflake_nodes.claimed_at IS
'when the server got the number';
COMMENT ON COLUMN snowflake_nodes.renewed_at IS
'when the server renewed its lease last';
COMMENT ON COLUMN snowflake_nodes.expires_at IS
'when the lease runs out';
COMMENT ON COLUMN snowflake_nodes.clock_offset IS
'the server''s clock minus the registry''s clock';
COMMENT ON COLUMN snowflake_nodes.issues_until IS
'the server''s IDs have times before this, by its own clock';
COMMENT ON COLUMN snowflake_nodes.free_from IS
'when another server can get the number';

GRANT SELECT ON snowflake_nodes TO pg_monitor;
