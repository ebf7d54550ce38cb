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
-- A third thing is the record itself: a registry that was restored, promoted, or
-- started again may know less than it once did.  It counts what it does
-- (changes), each lease counts its renewals, and servers report what they were
-- told of both.  So the registry is in one of three states:
--
--   open     claims and renewals
--   guarded  it was started again: renewals of what runs, and numbers that are
--            still held.  It opens when a server has reported what it has seen,
--            and it is not lost, and all leases that ran have been renewed; else
--            after the longest lease, as if it had closed
--   closed   it is in another place than before, or a server has seen more than
--            is known here: numbers that are still held, until all leases that
--            may have been given out have run out
--
-- snowflake_lease_node(), snowflake_open_nodes() and snowflake_release_node() are
-- called from outside.  They are SECURITY DEFINER, so that a role which may call
-- them needs no rights to the tables, and they alone look at a clock: "now" is
-- statement_timestamp(), when the request arrived, never before it was sent.
-- The others take the time ("at"), the place ("here") and when the server was
-- started as arguments, so that tests can be at any time and in any place.
--
-- A thousand servers renew every 3 seconds.  So snowflake_lease_node() does what
-- nearly all requests want itself, in one statement, and has all else done by
-- snowflake_nodes_serve(), which could do that as well.
--
-- In all functions search_path is pg_catalog, whatever the caller has, and what
-- is of this extension has the schema with it.  So it cannot be moved.
--
-- Locks: who changes the row of snowflake_node_place, or claims, has the lock of
-- that row, and locks rows of leases after it.  A renewal locks the row of its
-- lease only.
--

CREATE TABLE snowflake_node_place (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place text NOT NULL,
    closed_until timestamptz NOT NULL CHECK (closed_until < timestamptz 'infinity'),
    changes bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT '-infinity',
    guarded_from timestamptz NOT NULL DEFAULT '-infinity',
    guarded_until timestamptz NOT NULL DEFAULT '-infinity'
        CHECK (guarded_until < timestamptz 'infinity'),
    is_proved boolean NOT NULL DEFAULT false,
    loses_nothing boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE snowflake_node_place IS
'the place that this registry was last used in, how many changes it has made, and until when it '
'gives out no node numbers because it came there from another or was started again';

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
    renewals bigint NOT NULL,
    max_node integer NOT NULL,
    -- of the registry, as of the last renewal: tells what was renewed since it
    -- was started, also when its clock was set back
    started_at timestamptz NOT NULL
) WITH (fillfactor = 50);       -- renewals are HOT updates
COMMENT ON TABLE snowflake_node_lease IS
'one row for each node number ever given out: who holds or last held it; use snowflake_nodes';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_node_place', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_node_lease', '');

-- The arguments and the answer of snowflake_lease_node(), which see.
CREATE TYPE snowflake_node_request AS (
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
    seen bigint,
    renewals bigint,
    wants_peers boolean
);
COMMENT ON TYPE snowflake_node_request IS 'what a server says when it asks for a node number';

CREATE TYPE snowflake_node_answer AS (
    node integer,
    floor bigint,
    granted bigint,
    registry_clock timestamptz,
    peers integer,
    peers_offset interval,
    timeline text,
    changes bigint,
    renewals bigint,
    free integer,
    refusal text,
    refusal_passes boolean,
    refusal_detail text,
    refusal_hint text
);
COMMENT ON TYPE snowflake_node_answer IS 'what a server is told when it asks for a node number';

-- System identifier, database, table, with a %s where the timeline goes.  A
-- session has the same of them all its life: its server cannot get another
-- system identifier while it runs, nor a session into another database, and the
-- table goes only together with this function.  So it is IMMUTABLE, and a
-- constant in the plans of a session, which are its own: it reads a file, which
-- would be a third of a renewal.
CREATE FUNCTION snowflake_nodes_site()
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT concat_ws('/', c.system_identifier, '%s', d.oid,
                       '@extschema@.snowflake_node_lease'::regclass::oid)
            FROM pg_control_system() AS c, pg_database AS d
            WHERE d.datname = current_database());
END $$;
COMMENT ON FUNCTION snowflake_nodes_site() IS
'where this registry is, but for the timeline: of the session';
REVOKE ALL ON FUNCTION snowflake_nodes_site() FROM PUBLIC;

-- A session can outlive a promotion, so the timeline is looked at each time.
-- Fails on a standby, as all here does.  This one and the next three are SQL,
-- so that they become part of what calls them.
CREATE FUNCTION snowflake_nodes_here()
RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN pg_catalog.format(snowflake_nodes_site(),
    pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8));
COMMENT ON FUNCTION snowflake_nodes_here() IS
'where this registry is: the same only in the same database on the same timeline';
REVOKE ALL ON FUNCTION snowflake_nodes_here() FROM PUBLIC;

CREATE FUNCTION snowflake_nodes_fault(ask snowflake_node_request)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN pg_catalog.num_nulls(ask.token, ask.instance, ask.max_node, ask.lease_ttl, ask.mark,
                              ask.clock, ask.layout) > 0
    THEN 'Only the arguments held, held_token, remaining, clock_offset, host, port, '
         'system_identifier, seen, renewals and wants_peers may be null.'
    WHEN ask.max_node < 0
    THEN pg_catalog.format('max_node is %s, and must not be negative.', ask.max_node)
    WHEN ask.lease_ttl NOT BETWEEN interval '10 s' AND interval '1 day'
    THEN pg_catalog.format('lease_ttl is %s s, and must be from 10 s to 1 day.',
                           extract(epoch FROM ask.lease_ttl))
    WHEN ask.mark < 0
    THEN pg_catalog.format('mark is %s, and must not be negative.', ask.mark)
    WHEN ask.clock NOT BETWEEN timestamptz '1970-01-01 00:00:00+00'
                           AND timestamptz '3000-01-01 00:00:00+00'
    THEN 'clock is not between the years 1970 and 3000.'
    WHEN ask.clock_offset NOT BETWEEN interval '-1000 years' AND interval '1000 years'
    THEN 'clock_offset is more than 1000 years.'
    WHEN ask.seen < 0 OR ask.renewals < 0
    THEN 'seen and renewals must not be negative.'
END;
COMMENT ON FUNCTION snowflake_nodes_fault(snowflake_node_request) IS
'what is wrong with the arguments of snowflake_lease_node; null when nothing is';
REVOKE ALL ON FUNCTION snowflake_nodes_fault(snowflake_node_request) FROM PUBLIC;

-- Times as in marks.  Two constants are here too: IDs that a lease allows have
-- times up to 10 s past its end, since no more is granted.  So what the registry
-- forgot is below the end of a closing plus 10 s.
CREATE FUNCTION snowflake_nodes_limit(until timestamptz)
RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN until = timestamptz '-infinity' THEN 0
            ELSE (extract(epoch FROM until + interval '10 s') * 1000000.0)::bigint END;
COMMENT ON FUNCTION snowflake_nodes_limit(timestamptz) IS
'the time, in microseconds since 1970, that IDs are below whose lease ends at the given time';
REVOKE ALL ON FUNCTION snowflake_nodes_limit(timestamptz) FROM PUBLIC;

-- For the answer: the servers with live leases beside the one that asks, the
-- median of how far their clocks are off, and the numbers that could be claimed.
CREATE FUNCTION snowflake_nodes_peers(at timestamptz, token uuid, max_node integer)
RETURNS TABLE (peers integer, peers_offset interval, free integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.count(*)
               FILTER (WHERE l.expires_at >= at AND l.token <> snowflake_nodes_peers.token),
           pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY l.clock_offset)
               FILTER (WHERE l.expires_at >= at AND l.token <> snowflake_nodes_peers.token),
           snowflake_nodes_peers.max_node::bigint + 1 - pg_catalog.count(*)
               FILTER (WHERE l.node <= snowflake_nodes_peers.max_node AND (l.expires_at >= at
                   OR pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) > at))
    FROM snowflake_node_lease AS l;
END;
COMMENT ON FUNCTION snowflake_nodes_peers(timestamptz, uuid, integer) IS
'what a server is told of the others';
REVOKE ALL ON FUNCTION snowflake_nodes_peers(timestamptz, uuid, integer) FROM PUBLIC;

-- How long the registry closes: all leases that may have been given out are over
-- by then.
CREATE FUNCTION snowflake_nodes_longest(lease_ttl interval)
RETURNS interval LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN greatest((SELECT max(l.lease_ttl) FROM @extschema@.snowflake_node_lease AS l),
                    least(snowflake_nodes_longest.lease_ttl, interval '1 day'),
                    interval '10 s');
END $$;
COMMENT ON FUNCTION snowflake_nodes_longest(interval) IS
'the longest of the given lease and of those on record';
REVOKE ALL ON FUNCTION snowflake_nodes_longest(interval) FROM PUBLIC;

--
-- Come to a place, or be started again, or stay.  Locks the row of the place.
-- In another place than before, after a promotion or a restore, the last claims
-- may be missing, so the registry closes, but for another timeline where its
-- operator says that promotions lose nothing.  Started again in the same place, it
-- is on its guard.  That is no change that is counted: it would make up for a lost one.
--
CREATE FUNCTION snowflake_nodes_arrive(
    at timestamptz, here text, started timestamptz, lease_ttl interval)
RETURNS snowflake_node_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_node_place;
    until timestamptz := at + @extschema@.snowflake_nodes_longest(lease_ttl);
    moved boolean;
BEGIN
    INSERT INTO @extschema@.snowflake_node_place AS p (place, closed_until, started_at)
    VALUES (here, CASE WHEN EXISTS (SELECT FROM @extschema@.snowflake_node_lease) THEN until
                       ELSE '-infinity' END, started)
    ON CONFLICT (only_row) DO NOTHING;

    SELECT p.* INTO STRICT r FROM @extschema@.snowflake_node_place AS p FOR UPDATE;

    -- a guard that nobody ended: lost claims may have issued that far
    IF r.guarded_until > '-infinity' AND r.guarded_until <= at THEN
        r.closed_until := greatest(r.closed_until, r.guarded_until);
        r.guarded_until := '-infinity';
    ELSIF r.place = here AND r.started_at = started THEN
        RETURN r;
    END IF;

    IF r.place <> here OR r.started_at <> started THEN
        moved := r.place <> here
            AND NOT (r.loses_nothing
                AND regexp_replace(r.place, '/[^/]*', '') = regexp_replace(here, '/[^/]*', ''));
        IF moved THEN
            r.closed_until := greatest(r.closed_until, until);
        ELSIF r.place = here
              AND (r.changes > 0 OR EXISTS (SELECT FROM @extschema@.snowflake_node_lease)) THEN
            r.guarded_from := least(started, at,
                                    CASE WHEN r.guarded_until > at THEN r.guarded_from END);
            r.guarded_until := greatest(r.guarded_until, until);
        END IF;
        r.is_proved := false;
        r.place := here;
        r.started_at := started;
    END IF;

    UPDATE @extschema@.snowflake_node_place AS p
    SET place = r.place, closed_until = r.closed_until, started_at = r.started_at,
        guarded_from = r.guarded_from, guarded_until = r.guarded_until, is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_nodes_arrive(timestamptz, text, timestamptz, interval) IS
'closes the registry in another place, and puts it on its guard when it was started again';
REVOKE ALL ON FUNCTION snowflake_nodes_arrive(timestamptz, text, timestamptz, interval) FROM PUBLIC;

-- The row of the server that asks: the token decides, or that of its start
-- before, as the same instance.
CREATE FUNCTION snowflake_nodes_own(ask snowflake_node_request)
RETURNS snowflake_node_lease LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l @extschema@.snowflake_node_lease;
BEGIN
    SELECT o.* INTO l FROM @extschema@.snowflake_node_lease AS o WHERE o.token = ask.token;
    IF NOT FOUND THEN
        SELECT o.* INTO l FROM @extschema@.snowflake_node_lease AS o
        WHERE o.token = ask.held_token AND o.instance = ask.instance AND o.instance <> '';
    END IF;
    RETURN l;
END $$;
COMMENT ON FUNCTION snowflake_nodes_own(snowflake_node_request) IS
'the lease of the server that asks, if it has one';
REVOKE ALL ON FUNCTION snowflake_nodes_own(snowflake_node_request) FROM PUBLIC;

--
-- Compare what the server was told with the record, whose row "r" is locked.  A
-- server that has seen more shows that the record has lost something: close.
-- One whose lease runs, and that has seen no more, shows that it has lost nothing
-- of what that server has seen.  It shows that only when it asks first after the
-- start, and when it says itself that its lease runs: else it may have been away
-- for long, and what was lost came after that.  (Of its last answer it may not
-- know: so one renewal more is fine.)
--
-- The guard ends early when each lease that ran at the start has been renewed.
-- Where one was not, its server may be the one that has seen more: then the guard
-- lasts for its full time.
--
CREATE FUNCTION snowflake_nodes_compare(
    at timestamptz, ask snowflake_node_request, r snowflake_node_place)
RETURNS snowflake_node_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l @extschema@.snowflake_node_lease := @extschema@.snowflake_nodes_own(ask);
BEGIN
    IF ask.seen > r.changes OR ask.renewals > l.renewals THEN
        r.closed_until := greatest(r.closed_until,
                                   at + @extschema@.snowflake_nodes_longest(ask.lease_ttl));
        r.guarded_until := '-infinity';
        r.changes := least(greatest(r.changes, ask.seen), 9223372036854775806) + 1;
        -- once for each that is ahead, and not at all its requests
        UPDATE @extschema@.snowflake_node_lease AS o
        SET renewals = ask.renewals
        WHERE o.node = l.node AND o.renewals < ask.renewals;
    ELSIF r.guarded_until > at AND NOT r.is_proved AND ask.seen IS NOT NULL
          AND ask.renewals <= l.renewals AND l.renewals - ask.renewals <= 1
          AND l.started_at <> r.started_at
          AND l.node = ask.held AND ask.remaining > interval '0' THEN
        r.is_proved := true;
    ELSIF r.guarded_until > at AND r.is_proved AND NOT @extschema@.snowflake_nodes_awaited(r) THEN
        r.guarded_until := '-infinity';
    ELSE
        RETURN r;
    END IF;

    UPDATE @extschema@.snowflake_node_place AS p
    SET closed_until = r.closed_until, changes = r.changes, guarded_until = r.guarded_until,
        is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_nodes_compare(timestamptz, snowflake_node_request,
    snowflake_node_place) IS
'closes the registry when a server has seen more, and ends its guard when it has lost nothing';
REVOKE ALL ON FUNCTION snowflake_nodes_compare(timestamptz, snowflake_node_request,
    snowflake_node_place) FROM PUBLIC;

CREATE FUNCTION snowflake_nodes_awaited(r snowflake_node_place)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS l
                   WHERE l.started_at <> r.started_at AND l.expires_at >= r.guarded_from);
END $$;
COMMENT ON FUNCTION snowflake_nodes_awaited(snowflake_node_place) IS
'whether a lease was not renewed since the registry was started that ran then, by the record';
REVOKE ALL ON FUNCTION snowflake_nodes_awaited(snowflake_node_place) FROM PUBLIC;

--
-- Renew: a new version of one row.  The token is looked at again when the row
-- has changed while waiting for it.
--
-- What has expired but was not given to anybody else is renewed too, under the
-- lock of claims ("is_locked").  While closed, somebody else may have got what
-- expired, but not what still runs by the clock of the server; after it, that
-- may have been and is over: then there is a floor.  While guarded, what runs by
-- the record is the server's as well.
--
CREATE FUNCTION snowflake_nodes_renew(
    at timestamptz, ask snowflake_node_request, r snowflake_node_place, is_locked boolean)
RETURNS snowflake_node_lease LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own @extschema@.snowflake_node_lease := @extschema@.snowflake_nodes_own(ask);
    l @extschema@.snowflake_node_lease;
    is_shut boolean := r.closed_until > at OR r.guarded_until > at;
    is_closed boolean := r.closed_until > at;
BEGIN
    IF own.node IS NULL OR own.layout <> ask.layout AND EXISTS (
           SELECT FROM @extschema@.snowflake_node_lease AS p
           WHERE p.node <> own.node AND p.expires_at >= at AND p.layout <> ask.layout) THEN
        RETURN NULL;
    END IF;

    UPDATE @extschema@.snowflake_node_lease AS o
    SET token = ask.token,
        instance = ask.instance,
        host = ask.host,
        port = ask.port,
        address = inet_client_addr(),
        system_identifier = ask.system_identifier,
        layout = ask.layout,
        renewed_at = at,
        expires_at = greatest(o.expires_at, at + ask.lease_ttl),
        lease_ttl = ask.lease_ttl,
        floor = CASE WHEN o.expires_at < at AND r.closed_until BETWEEN o.renewed_at AND at
                     THEN greatest(o.floor, @extschema@.snowflake_nodes_limit(r.closed_until))
                     ELSE o.floor END,
        mark = greatest(o.mark, least(ask.mark,
                                      @extschema@.snowflake_nodes_limit(at + ask.lease_ttl))),
        clock_offset = coalesce(ask.clock_offset, ask.clock - at),
        renewals = least(o.renewals, 9223372036854775806) + 1,
        max_node = ask.max_node,
        started_at = r.started_at
    WHERE o.node = own.node
      AND o.token = own.token
      AND o.node <= ask.max_node
      AND (ask.renewals IS NULL OR ask.renewals <= o.renewals)
      AND (o.expires_at >= at AND NOT is_closed
           OR o.node = ask.held AND ask.remaining > interval '0'
           OR is_locked AND NOT is_shut)
    RETURNING o.* INTO l;
    RETURN l;
END $$;
COMMENT ON FUNCTION snowflake_nodes_renew(timestamptz, snowflake_node_request,
    snowflake_node_place, boolean) IS
'renews the lease of the server that asks';
REVOKE ALL ON FUNCTION snowflake_nodes_renew(timestamptz, snowflake_node_request,
    snowflake_node_place, boolean) FROM PUBLIC;

--
-- Claim, under the lock of the row "r": so claims come one after the other.  A
-- number that nobody had yet, or whose lease has run out here and whose mark is
-- past by the clock of the claimant, so that two clocks have to agree: the one
-- that the server had last, else the lowest.  While closed or guarded only the
-- former, if its lease still runs: then the claim was lost.
--
CREATE FUNCTION snowflake_nodes_claim(
    at timestamptz, ask snowflake_node_request, r snowflake_node_place)
RETURNS snowflake_node_lease LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l @extschema@.snowflake_node_lease;
    is_shut boolean := r.closed_until > at OR r.guarded_until > at;
BEGIN
    IF ask.mark > @extschema@.snowflake_nodes_limit(at + ask.lease_ttl)
       OR EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
                  WHERE p.token = ask.token OR p.layout <> ask.layout AND p.expires_at >= at) THEN
        RETURN NULL;
    END IF;

    INSERT INTO @extschema@.snowflake_node_lease AS o (node, token, instance, host, port, address,
        system_identifier, layout, claimed_at, renewed_at, expires_at, lease_ttl, floor, mark,
        clock_offset, renewals, max_node, started_at)
    SELECT c.node, ask.token, ask.instance, ask.host, ask.port, inet_client_addr(),
        ask.system_identifier, ask.layout, at, at, at + ask.lease_ttl, ask.lease_ttl,
        -- lost claims may have issued that far
        CASE WHEN is_shut THEN 0 ELSE @extschema@.snowflake_nodes_limit(r.closed_until) END,
        ask.mark, coalesce(ask.clock_offset, ask.clock - at), 1, ask.max_node, r.started_at
    FROM (SELECT ask.held
          UNION ALL
          SELECT generate_series(0, (SELECT count(*)::integer
                                     FROM @extschema@.snowflake_node_lease))) AS c (node)
    WHERE c.node BETWEEN 0 AND ask.max_node
      AND NOT EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
                      WHERE p.node = c.node
                        AND (p.expires_at >= at
                             OR to_timestamp(p.mark / 1000000::float8) > ask.clock AND NOT is_shut))
      AND (c.node = ask.held AND ask.remaining > interval '0' OR NOT is_shut)
    ORDER BY c.node IS DISTINCT FROM ask.held, c.node
    LIMIT 1
    ON CONFLICT ON CONSTRAINT snowflake_node_lease_pkey DO UPDATE
        SET (token, instance, host, port, address, system_identifier, layout, claimed_at,
             renewed_at, expires_at, lease_ttl, floor, mark, clock_offset, renewals, max_node,
             started_at)
            = (excluded.token, excluded.instance, excluded.host, excluded.port, excluded.address,
               excluded.system_identifier, excluded.layout, excluded.claimed_at,
               excluded.renewed_at, excluded.expires_at, excluded.lease_ttl,
               greatest(o.mark, excluded.floor), greatest(o.mark, excluded.mark),
               excluded.clock_offset, least(o.renewals, 9223372036854775806) + 1,
               excluded.max_node, excluded.started_at)
        -- unless its holder has renewed it just now
        WHERE o.expires_at < at
    RETURNING o.* INTO l;

    IF FOUND THEN
        UPDATE @extschema@.snowflake_node_place AS p
        SET changes = least(p.changes, 9223372036854775806) + 1;
    END IF;
    RETURN l;
END $$;
COMMENT ON FUNCTION snowflake_nodes_claim(timestamptz, snowflake_node_request,
    snowflake_node_place) IS
'gives a node number to the server that asks';
REVOKE ALL ON FUNCTION snowflake_nodes_claim(timestamptz, snowflake_node_request,
    snowflake_node_place) FROM PUBLIC;

-- Who has the numbers that the server cannot have: of those with another layout,
-- or all.
CREATE FUNCTION snowflake_nodes_holders(
    at timestamptz, ask snowflake_node_request, strangers boolean)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('The holders are %s%s.',
                string_agg(format('%s:%s (node %s, %slast seen %s)', coalesce(h.host, '?'), h.port,
                        h.node, CASE WHEN strangers THEN format('"%s", ', h.layout) END,
                        to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')),
                    ', ' ORDER BY h.node) FILTER (WHERE h.place <= 20),
                CASE WHEN count(*) > 20 THEN format(' and %s more', count(*) - 20) END)
            FROM (SELECT l.*, row_number() OVER (ORDER BY l.node) AS place
                  FROM @extschema@.snowflake_node_lease AS l
                  WHERE CASE WHEN strangers THEN l.layout <> ask.layout AND l.expires_at >= at
                             ELSE l.node <= ask.max_node END) AS h);
END $$;
COMMENT ON FUNCTION snowflake_nodes_holders(timestamptz, snowflake_node_request, boolean) IS
'the servers that have the node numbers, for a message';
REVOKE ALL ON FUNCTION snowflake_nodes_holders(timestamptz, snowflake_node_request, boolean)
    FROM PUBLIC;

-- Why a server got nothing.
CREATE FUNCTION snowflake_nodes_refuse(
    at timestamptz, ask snowflake_node_request, r snowflake_node_place, OUT refusal text,
    OUT refusal_passes boolean, OUT refusal_detail text, OUT refusal_hint text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until timestamptz := greatest(r.closed_until, r.guarded_until);
    taken bigint;
BEGIN
    refusal_passes := false;
    refusal_detail := @extschema@.snowflake_nodes_fault(ask);
    IF refusal_detail IS NOT NULL THEN
        refusal := 'invalid request for a node number';
        RETURN;
    END IF;

    IF ask.mark > @extschema@.snowflake_nodes_limit(at + ask.lease_ttl)
       AND (@extschema@.snowflake_nodes_own(ask)).token IS DISTINCT FROM ask.token THEN
        refusal := 'the server is too far ahead of the registry''s clock to get a node number';
        IF ask.clock > at + interval '10 s' THEN
            refusal_detail := format('The server''s clock is %s s ahead of the registry''s; '
                'at most 10 s are allowed.', round(extract(epoch FROM ask.clock - at), 1));
            refusal_hint := 'Set the clocks of the server and of the registry right.';
        ELSE
            refusal_detail := format('The latest ID of the server is %s s ahead of the registry''s '
                'clock; at most 10 s are allowed.', round(extract(
                    epoch FROM to_timestamp(ask.mark / 1000000::float8) - ask.lease_ttl - at), 1));
            refusal_hint := 'Set the clocks of the server and of the registry right, '
                'or wait for that time to pass.';
        END IF;
        RETURN;
    END IF;

    IF until > at THEN
        refusal := format('the registry gives out no node numbers until %s',
                          to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'));
        refusal_passes := true;
        IF r.closed_until > at THEN
            refusal_detail := 'It was promoted or restored, and may have lost the last leases that '
                'it gave out. Until then a server keeps its number only while its lease has not '
                'run out.';
            refusal_hint := 'Wait until then.';
        ELSE
            refusal_detail := 'It was started again, and waits for the servers that hold numbers '
                'to show that it has lost nothing. Until then servers only keep the numbers that '
                'they have.';
            refusal_hint :=
                'Wait until then, or until all these servers have renewed their leases.';
        END IF;
        RETURN;
    END IF;

    IF EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
               WHERE p.token <> ask.token AND p.layout <> ask.layout AND p.expires_at >= at) THEN
        refusal := 'servers with another layout have node numbers of the registry';
        refusal_detail := @extschema@.snowflake_nodes_holders(at, ask, true);
        refusal_hint := 'Give all servers of a registry the same layout and epoch.';
        RETURN;
    END IF;

    taken := (SELECT count(*) FROM @extschema@.snowflake_node_lease AS p
              WHERE p.node <= ask.max_node
                AND (p.expires_at >= at OR to_timestamp(p.mark / 1000000::float8) > ask.clock));
    IF taken > ask.max_node THEN
        refusal := format('all %s node numbers are taken', taken);
        refusal_detail := @extschema@.snowflake_nodes_holders(at, ask, false);
        refusal_hint := 'Wait until a lease has run out. If a server is stopped for good, end its '
            'lease in the registry: snowflake_release_node(node, issued_until), with the value of '
            '"snowflake.issued_until" on that server.';
        RETURN;
    END IF;

    refusal := 'another request came first';
    refusal_passes := true;
    refusal_detail :=
        'The other request was by the holder of the free node number, or by this server itself.';
    refusal_hint := 'Ask again.';
END $$;
COMMENT ON FUNCTION snowflake_nodes_refuse(timestamptz, snowflake_node_request,
    snowflake_node_place) IS
'why a server was given no node number';
REVOKE ALL ON FUNCTION snowflake_nodes_refuse(timestamptz, snowflake_node_request,
    snowflake_node_place) FROM PUBLIC;

--
-- The whole of a request, whatever the state.  A server whose lease runs is
-- served without the lock of the place, when nothing is to be changed there.
-- Where the registry is open, snowflake_lease_node() has done that before.
--
CREATE FUNCTION snowflake_nodes_serve(
    at timestamptz, here text, started timestamptz, ask snowflake_node_request)
RETURNS snowflake_node_answer LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_node_place;
    l @extschema@.snowflake_node_lease;
    a @extschema@.snowflake_node_answer;
    is_valid boolean := @extschema@.snowflake_nodes_fault(ask) IS NULL;
BEGIN
    SELECT p.* INTO r FROM @extschema@.snowflake_node_place AS p;
    IF is_valid AND r.place = here AND r.started_at = started AND coalesce(ask.seen, 0) <= r.changes
       AND (r.guarded_until = '-infinity'
            OR r.guarded_until > at AND r.is_proved AND @extschema@.snowflake_nodes_awaited(r)) THEN
        l := @extschema@.snowflake_nodes_renew(at, ask, r, false);
    END IF;

    IF is_valid AND l.node IS NULL THEN
        r := @extschema@.snowflake_nodes_arrive(at, here, started, ask.lease_ttl);
        r := @extschema@.snowflake_nodes_compare(at, ask, r);
        l := @extschema@.snowflake_nodes_renew(at, ask, r, true);
        IF l.node IS NULL THEN
            l := @extschema@.snowflake_nodes_claim(at, ask, r);
        END IF;
        -- a claim counts as a change
        r.changes := (SELECT p.changes FROM @extschema@.snowflake_node_place AS p);
    END IF;

    a.node := l.node;
    a.floor := l.floor;
    a.granted := l.mark;
    a.registry_clock := at;
    a.timeline := substring(here FROM '^[^/]*/[^/]*');
    a.changes := r.changes;
    a.renewals := l.renewals;
    IF l.node IS NULL THEN
        SELECT f.* INTO a.refusal, a.refusal_passes, a.refusal_detail, a.refusal_hint
        FROM @extschema@.snowflake_nodes_refuse(at, ask, r) AS f;
    END IF;
    IF ask.wants_peers AND is_valid THEN
        SELECT p.* INTO a.peers, a.peers_offset, a.free
        FROM @extschema@.snowflake_nodes_peers(at, ask.token, ask.max_node) AS p;
    END IF;
    RETURN a;
END $$;
COMMENT ON FUNCTION snowflake_nodes_serve(timestamptz, text, timestamptz, snowflake_node_request) IS
'what snowflake_lease_node does, at a time and in a place';
REVOKE ALL ON FUNCTION snowflake_nodes_serve(timestamptz, text, timestamptz, snowflake_node_request)
    FROM PUBLIC;

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
--   seen          the most changes that this registry ever told it of; null:
--                 none
--   renewals      of the last answer that counted, for the row of one of the
--                 tokens; null: none
--   wants_peers   whether to look at all leases for the answer
--
-- The answer:
--
--   node          the number; null when refused, and then three texts say why
--   floor         issue no ID with this number that has an earlier time; it
--                 stays for as long as the server keeps the number
--   granted       the mark: nor one that is not below this.  At most the lease
--                 and 10 s from now, if no more was granted before
--   registry_clock  when the request arrived
--   peers, peers_offset  servers with live leases beside this one, and the
--                 median of their clock_offset: one clock that is far off
--                 would take the mean with it
--   timeline      the registry's system identifier and timeline
--   changes       claims, releases, and what servers had seen of more, up to now
--   renewals      of the lease
--   free          numbers that could be claimed now
--   refusal_passes  whether the reason goes away by itself
--
-- The renewal of a lease that runs, in an open registry, by a server whose layout
-- is the one on record, is a short cut: the same row and the same answer as by
-- snowflake_nodes_serve().  All that it takes for granted is in its WHERE.  What is
-- an argument has no table before it.
--
-- Being VOLATILE, the functions take a new snapshot for each statement: what is
-- below a lock sees what was committed while waiting for it.  (In a transaction
-- that is REPEATABLE READ it does not, and ends with a serialization failure.)
--
CREATE FUNCTION snowflake_lease_node(
    token uuid, held integer, held_token uuid, remaining interval, instance text, max_node integer,
    lease_ttl interval, mark bigint, clock timestamptz, clock_offset interval, layout text,
    host text, port integer, system_identifier bigint, seen bigint DEFAULT NULL,
    renewals bigint DEFAULT NULL, wants_peers boolean DEFAULT false)
RETURNS snowflake_node_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- planning would cost more than all else
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    here text := @extschema@.snowflake_nodes_here();
    a @extschema@.snowflake_node_answer;
BEGIN
    UPDATE @extschema@.snowflake_node_lease AS o
    SET instance = instance,
        host = host,
        port = port,
        address = inet_client_addr(),
        system_identifier = system_identifier,
        renewed_at = statement_timestamp(),
        expires_at = greatest(o.expires_at, statement_timestamp() + lease_ttl),
        lease_ttl = lease_ttl,
        mark = greatest(o.mark, least(mark, @extschema@.snowflake_nodes_limit(
                                                statement_timestamp() + lease_ttl))),
        clock_offset = coalesce(clock_offset, clock - statement_timestamp()),
        renewals = least(o.renewals, 9223372036854775806) + 1,
        max_node = max_node,
        started_at = p.started_at
    FROM @extschema@.snowflake_node_place AS p
    WHERE current_setting('synchronous_commit') NOT IN ('off', 'local')
      AND @extschema@.snowflake_nodes_fault(ROW(token, held, held_token, remaining, instance,
              max_node, lease_ttl, mark, clock, clock_offset, layout, host, port, system_identifier,
              seen, renewals, wants_peers)::@extschema@.snowflake_node_request) IS NULL
      AND p.place = here
      AND p.started_at = pg_postmaster_start_time()
      AND p.guarded_until = '-infinity'
      AND p.closed_until <= statement_timestamp()
      AND p.changes >= coalesce(seen, 0)
      AND o.token = token
      AND o.layout = layout
      AND o.node <= max_node
      AND o.expires_at >= statement_timestamp()
      AND o.renewals >= coalesce(renewals, 0)
    RETURNING o.node, o.floor, o.mark, o.renewed_at, substring(p.place FROM '^[^/]*/[^/]*'),
              p.changes, o.renewals
    INTO a.node, a.floor, a.granted, a.registry_clock, a.timeline, a.changes, a.renewals;

    IF NOT FOUND THEN
        -- what is told counts once it is committed, so that has to be durable
        IF current_setting('synchronous_commit') IN ('off', 'local') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        RETURN @extschema@.snowflake_nodes_serve(
            statement_timestamp(), here, pg_postmaster_start_time(),
            ROW(token, held, held_token, remaining, instance, max_node, lease_ttl, mark, clock,
                clock_offset, layout, host, port, system_identifier, seen, renewals,
                wants_peers)::@extschema@.snowflake_node_request);
    END IF;
    IF wants_peers THEN
        SELECT p.* INTO a.peers, a.peers_offset, a.free
        FROM @extschema@.snowflake_nodes_peers(statement_timestamp(), token, max_node) AS p;
    END IF;
    RETURN a;
END $$;
COMMENT ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval,
    bigint, timestamptz, interval, text, text, integer, bigint, bigint, bigint, boolean) IS
'called by a server to renew the lease of its node number, or to claim one';
REVOKE ALL ON FUNCTION snowflake_lease_node(uuid, integer, uuid, interval, text, integer, interval,
    bigint, timestamptz, interval, text, text, integer, bigint, bigint, bigint,
    boolean) FROM PUBLIC;

-- For where the registry was promoted and has lost nothing, as only
-- synchronous standbys are promoted: it need not close.
CREATE FUNCTION snowflake_nodes_open(at timestamptz, here text, started timestamptz, always boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_node_place :=
        @extschema@.snowflake_nodes_arrive(at, here, started, interval '10 s');
BEGIN
    UPDATE @extschema@.snowflake_node_place AS p
    SET closed_until = CASE WHEN p.closed_until > at THEN at - interval '10 s'
                            ELSE p.closed_until END,
        guarded_until = '-infinity',
        loses_nothing = coalesce(always, p.loses_nothing);
    RETURN r.closed_until > at OR r.guarded_until > at;
END $$;
COMMENT ON FUNCTION snowflake_nodes_open(timestamptz, text, timestamptz, boolean) IS
'what snowflake_open_nodes does, at a time and in a place';
REVOKE ALL ON FUNCTION snowflake_nodes_open(timestamptz, text, timestamptz, boolean) FROM PUBLIC;

CREATE FUNCTION snowflake_open_nodes(always boolean DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- what is told counts once it is committed, so that has to be durable
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN @extschema@.snowflake_nodes_open(statement_timestamp(),
        @extschema@.snowflake_nodes_here(), pg_postmaster_start_time(), always);
END $$;
COMMENT ON FUNCTION snowflake_open_nodes(boolean) IS
'after a promotion or a restart that has lost no transaction: give out node numbers at once; with '
'true, also do not close after promotions to come, with false do; if a lease was lost after all, '
'two servers can get the same number and issue the same IDs; false when the registry was open '
'already';
REVOKE ALL ON FUNCTION snowflake_open_nodes(boolean) FROM PUBLIC;

-- A server that still runs learns of it when it renews next, within seconds,
-- and issues nothing more with the number.  Until then, and when it does not
-- reach this registry, it may issue up to its mark.  So that stays, but when
-- the caller knows better.
CREATE FUNCTION snowflake_nodes_release(at timestamptz, node integer, issued_until timestamptz)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM @extschema@.snowflake_node_place AS p FOR UPDATE;
    UPDATE @extschema@.snowflake_node_lease AS l
    SET token = NULL,
        expires_at = least(l.expires_at, at),
        mark = CASE WHEN to_timestamp(l.mark / 1000000::float8) > issued_until
                    THEN greatest(l.floor, (extract(epoch FROM greatest(issued_until,
                             timestamptz '1970-01-01 00:00:00+00')) * 1000000.0)::bigint)
                    ELSE l.mark END
    WHERE l.node = snowflake_nodes_release.node AND l.token IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @extschema@.snowflake_node_place AS p
    SET changes = least(p.changes, 9223372036854775806) + 1;
    RETURN true;
END $$;
COMMENT ON FUNCTION snowflake_nodes_release(timestamptz, integer, timestamptz) IS
'what snowflake_release_node does, at a time';
REVOKE ALL ON FUNCTION snowflake_nodes_release(timestamptz, integer, timestamptz) FROM PUBLIC;

CREATE FUNCTION snowflake_release_node(node integer, issued_until timestamptz DEFAULT 'infinity')
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- what is told counts once it is committed, so that has to be durable
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN @extschema@.snowflake_nodes_release(statement_timestamp(), node, issued_until);
END $$;
COMMENT ON FUNCTION snowflake_release_node(integer, timestamptz) IS
'end the lease of a node number; it is free when the time that its IDs may have is past, which is '
'issued_until if the caller knows that they are not later; false when the number is not leased';
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
'one row for each node number that this registry has given out: to which server, since when, until '
'when, and how far the clock of that server is from the one here';
COMMENT ON COLUMN snowflake_nodes.node IS 'node number';
COMMENT ON COLUMN snowflake_nodes.state IS
'live; expired: the lease has run out; released: by snowflake_release_node()';
COMMENT ON COLUMN snowflake_nodes.host IS 'name of the host, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.port IS 'port of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.address IS
'address that the server connected from; null for a Unix socket';
COMMENT ON COLUMN snowflake_nodes.system_identifier IS
'system identifier of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.layout IS 'layout and epoch of the server';
COMMENT ON COLUMN snowflake_nodes.claimed_at IS 'when the server got the number';
COMMENT ON COLUMN snowflake_nodes.renewed_at IS 'when the server renewed its lease last';
COMMENT ON COLUMN snowflake_nodes.expires_at IS 'when the lease runs out';
COMMENT ON COLUMN snowflake_nodes.clock_offset IS 'the server''s clock minus the registry''s clock';
COMMENT ON COLUMN snowflake_nodes.issues_until IS
'the server''s IDs have times before this, by its own clock';
COMMENT ON COLUMN snowflake_nodes.free_from IS 'when another server can get the number';

GRANT SELECT ON snowflake_nodes TO pg_monitor;

-- For alerts: to be seen by the same.
CREATE VIEW snowflake_node_counts AS
    SELECT t.total,
           pg_catalog.count(*) FILTER (WHERE n.state = 'live') AS live,
           pg_catalog.count(*) FILTER (WHERE n.state = 'expired') AS expired,
           t.total - pg_catalog.count(*) FILTER (
               WHERE n.node < t.total AND n.free_from >= pg_catalog.statement_timestamp()) AS free,
           pg_catalog.min(n.free_from) FILTER (WHERE n.node < t.total
               AND n.free_from >= pg_catalog.statement_timestamp()) AS next_free_at,
           (SELECT pg_catalog.max(u.until)
            FROM snowflake_node_place AS p,
                 LATERAL (VALUES (p.closed_until), (p.guarded_until)) AS u (until)
            WHERE u.until > pg_catalog.statement_timestamp()) AS closed_until
    FROM (SELECT (SELECT l.max_node::bigint + 1 FROM snowflake_node_lease AS l
                  ORDER BY l.renewed_at DESC, l.node LIMIT 1)) AS t (total)
    LEFT JOIN snowflake_nodes AS n ON true
    GROUP BY t.total;
COMMENT ON VIEW snowflake_node_counts IS
'one row: how many node numbers there are, are held, and are free';
COMMENT ON COLUMN snowflake_node_counts.total IS
'node numbers that there are, in the layout of the server that renewed last; null before the first';
COMMENT ON COLUMN snowflake_node_counts.live IS 'numbers whose lease runs';
COMMENT ON COLUMN snowflake_node_counts.expired IS
'numbers whose lease has run out, and that nobody else has claimed';
COMMENT ON COLUMN snowflake_node_counts.free IS 'numbers that another server can get now';
COMMENT ON COLUMN snowflake_node_counts.next_free_at IS
'when the next number is free, if no lease is renewed; null when all are';
COMMENT ON COLUMN snowflake_node_counts.closed_until IS
'until when it gives out no numbers, as it was promoted, restored or started again; else null';

GRANT SELECT ON snowflake_node_counts TO pg_monitor;
