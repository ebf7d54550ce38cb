--
-- Node numbers: leased to servers, or registered by servers that have a configured
-- one.
--
-- Two fences keep two servers from issuing the same IDs.  One is time as it
-- passes: a server issues nothing once its lease has run out by its own steady
-- clock, counted from when it sent the request, and a number is free once its
-- lease has run out by the clock here, counted from when the request arrived.
-- The other is the time in the IDs: a server issues only below the mark that
-- it was granted, and the next one with that number only from there on.
--
-- A registration is a lease that does not run out.  It belongs to its token, which
-- a server keeps for as long as it has its data, and ends by
-- snowflake_release_node() only.  Such a server issues IDs whether the registry is
-- there or not, once it was registered.
--

-- The arguments and the answer of snowflake_lease_node(), which see.
CREATE TYPE snowflake_node_request AS (
    protocol integer, token uuid, number integer, held integer, held_token uuid,
    remaining interval, instance text, max_node integer, lease_ttl interval, mark bigint,
    clock timestamptz, clock_offset interval, layout text, host text, port integer,
    system_identifier bigint, seen bigint, renewals bigint, wants_peers boolean
);
COMMENT ON TYPE snowflake_node_request IS 'a server''s request for a node number';

CREATE TYPE snowflake_node_answer AS (
    protocol integer, node integer, floor bigint, granted bigint, lease_ttl interval,
    registry_clock timestamptz, peers integer, peers_offset interval, timeline text,
    changes bigint, renewals bigint, free integer, warning text, refusal text,
    refusal_passes boolean, refusal_detail text, refusal_hint text
);
COMMENT ON TYPE snowflake_node_answer IS 'the answer to a request for a node number';

-- A count that is further ahead of the record than any loss can be is a mistake or a lie.
CREATE FUNCTION snowflake_nodes_fault(
    ask snowflake_node_request, changes bigint, renewals bigint)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN pg_catalog.num_nulls(ask.token, ask.instance, ask.max_node, ask.lease_ttl, ask.mark,
                              ask.clock, ask.layout) > 0
    THEN 'The arguments token, instance, max_node, lease_ttl, mark, clock and layout must not be '
         'null.'
    WHEN ask.max_node < 0
    THEN pg_catalog.format('max_node is %s, and must not be negative.', ask.max_node)
    WHEN ask.number NOT BETWEEN 0 AND ask.max_node
    THEN pg_catalog.format('number is %s, and must be from 0 to %s.', ask.number, ask.max_node)
    WHEN ask.lease_ttl NOT BETWEEN interval '10 s' AND interval '1 day'
    THEN pg_catalog.format('lease_ttl is %s s, and must be from 10 s to 1 day.',
                           extract(epoch FROM ask.lease_ttl))
    WHEN NOT snowflake_registry_exact(ask.lease_ttl)
         OR NOT snowflake_registry_exact(ask.clock_offset)
    THEN 'lease_ttl and clock_offset must not have years, months or days.'
    WHEN ask.mark NOT BETWEEN 0 AND 32503680000000000
    THEN pg_catalog.format('mark is %s, and must not be negative, nor after the year 3000.',
                           ask.mark)
    WHEN ask.clock NOT BETWEEN timestamptz '1970-01-01 00:00:00+00'
                           AND timestamptz '3000-01-01 00:00:00+00'
    THEN 'clock is not between the years 1970 and 3000.'
    WHEN ask.clock_offset NOT BETWEEN interval '-1000 years' AND interval '1000 years'
    THEN 'clock_offset is more than 1000 years.'
    WHEN pg_catalog.octet_length(ask.host) > 255 OR pg_catalog.octet_length(ask.layout) > 255
         OR pg_catalog.octet_length(ask.instance) > 1000
    THEN 'host and layout must not be longer than 255 bytes, nor instance than 1000.'
    WHEN ask.seen < 0 OR ask.renewals < 0
    THEN 'seen and renewals must not be negative.'
    WHEN ask.seen - 1000000000 > COALESCE(changes, 0)
         OR ask.renewals - 1000000000 > COALESCE(renewals, 9223372036854775807)
    THEN 'seen and renewals must not be more than 1000000000 ahead of the record.'
END;
COMMENT ON FUNCTION snowflake_nodes_fault(snowflake_node_request, bigint, bigint) IS
'what is wrong with the arguments of snowflake_lease_node(); null if nothing is';

-- Times as in marks.  Two constants are here too: IDs that a lease allows have
-- times up to 10 s past its end, since no more is granted.  So what the registry
-- forgot is below the end of a closing plus 10 s.
CREATE FUNCTION snowflake_nodes_limit(until timestamptz)
RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN until = timestamptz '-infinity' THEN 0
            ELSE (extract(epoch FROM until + interval '10 s') * 1000000.0)::bigint END;
COMMENT ON FUNCTION snowflake_nodes_limit(timestamptz) IS
'the end of the times that IDs of a lease can have, in microseconds since 1970';

-- For the answer: the servers beside the one that asks that have renewed lately,
-- which they do every 3 s, also while its request was served; the median of how far
-- their clocks are off; and the numbers that could be claimed.
CREATE FUNCTION snowflake_nodes_peers(at timestamptz, token uuid, max_node integer)
RETURNS TABLE (peers integer, peers_offset interval, free integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.count(*) FILTER (WHERE n.is_peer),
           pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY n.clock_offset)
               FILTER (WHERE n.is_peer),
           least(snowflake_nodes_peers.max_node::bigint + 1 - pg_catalog.count(*)
               FILTER (WHERE n.node <= snowflake_nodes_peers.max_node AND n.is_taken), 2147483647)
    FROM (SELECT l.node, l.clock_offset,
                 l.token <> snowflake_nodes_peers.token
                     AND l.renewed_at BETWEEN at - interval '30 s' AND at + interval '30 s'
                     AS is_peer,
                 l.expires_at >= at
                     OR pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) > at AS is_taken
          FROM snowflake_node_lease AS l) AS n;
END;
COMMENT ON FUNCTION snowflake_nodes_peers(timestamptz, uuid, integer) IS
'what a server is told of the other servers';

-- A registration does not run out, but its server may have been started with another
-- layout since it was seen last.
CREATE FUNCTION snowflake_nodes_conflicts(
    at timestamptz, ask snowflake_node_request, l snowflake_node_lease)
RETURNS boolean LANGUAGE sql STABLE
RETURN l.layout <> ask.layout AND l.token <> ask.token
    AND CASE WHEN l.expires_at = timestamptz 'infinity' THEN l.renewed_at + l.lease_ttl
             ELSE l.expires_at END >= at;
COMMENT ON FUNCTION snowflake_nodes_conflicts(timestamptz, snowflake_node_request,
    snowflake_node_lease) IS
'whether another server issues IDs with another layout';

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

-- What the holder of a number is to know of the server that asks.
CREATE FUNCTION snowflake_nodes_stranger(at timestamptz, ask snowflake_node_request, does text)
RETURNS text LANGUAGE sql STABLE
RETURN pg_catalog.format('The server %s:%s%s %s, last at %s.', COALESCE(ask.host, '?'), ask.port,
    ', from ' || pg_catalog.host(pg_catalog.inet_client_addr()) || ',', does,
    pg_catalog.to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'));
COMMENT ON FUNCTION snowflake_nodes_stranger(timestamptz, snowflake_node_request, text) IS
'another server and what it does, for a message';

--
-- Claim, under the lock of the row "r": so claims come one after the other.  A
-- number that nobody had yet, or whose lease has run out here and whose mark is
-- past by the clock of the claimant, so that two clocks have to agree: the one
-- that it registers, or the one that it had last, else the lowest.  A clock that
-- no claimant may have does not count: its floor would be as far ahead.
--
-- While closed or guarded only a number that the server still has: then its claim
-- was lost.  That is written down whether the server goes on with it or not, as
-- it has issued IDs up to its mark: "is_refused" is that it gets no number.  Then
-- a lease has no token any more, and a registration counts as away.
--
CREATE FUNCTION snowflake_nodes_claim(
    at timestamptz, ask snowflake_node_request, r snowflake_registry_place)
RETURNS snowflake_node_lease LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l @extschema@.snowflake_node_lease;
    is_shut boolean := r.closed_until > at OR r.guarded_until > at;
    is_held boolean := coalesce(ask.held = coalesce(ask.number, ask.held)
                                AND ask.remaining > interval '0', false);
    is_refused boolean := ask.mark > @extschema@.snowflake_nodes_limit(at + ask.lease_ttl)
       OR EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
                  WHERE @extschema@.snowflake_nodes_conflicts(at, ask, p));
BEGIN
    -- what is on record of it may be from before it changed its number
    IF is_held AND is_shut THEN
        UPDATE @extschema@.snowflake_node_lease AS p SET token = NULL
        WHERE p.token = ask.token AND p.node <> ask.held AND p.expires_at < 'infinity';
    END IF;
    IF is_refused AND NOT is_held
       OR EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
                  WHERE p.token = ask.token) THEN
        RETURN NULL;
    END IF;

    INSERT INTO @extschema@.snowflake_node_lease AS o (node, token, instance, host, port, address,
        system_identifier, layout, claimed_at, renewed_at, expires_at, lease_ttl, floor, mark,
        clock_offset, renewals, max_node, started_at)
    SELECT c.node, CASE WHEN ask.number IS NOT NULL OR NOT is_refused THEN ask.token END,
        ask.instance, ask.host, ask.port, inet_client_addr(), ask.system_identifier, ask.layout,
        at, CASE WHEN is_refused THEN '-infinity' ELSE at END,
        CASE WHEN ask.number IS NULL THEN at + ask.lease_ttl ELSE 'infinity' END, ask.lease_ttl,
        -- lost claims may have issued that far
        CASE WHEN is_shut THEN 0 ELSE @extschema@.snowflake_nodes_limit(r.closed_until) END,
        ask.mark, coalesce(ask.clock_offset, ask.clock - at), 1, ask.max_node, r.started_at
    FROM (SELECT coalesce(ask.number, ask.held)
          UNION ALL
          SELECT generate_series(0, (SELECT count(*)::integer
                                     FROM @extschema@.snowflake_node_lease))
          WHERE ask.number IS NULL AND NOT is_refused) AS c (node)
    WHERE c.node BETWEEN 0 AND ask.max_node
      AND NOT EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS p
                      WHERE p.node = c.node
                        AND (p.expires_at >= at
                             OR to_timestamp(p.mark / 1000000::float8)
                                > least(ask.clock, at + interval '10 s') AND NOT is_shut))
      AND (c.node = ask.held AND is_held OR NOT is_shut)
    ORDER BY c.node IS DISTINCT FROM ask.held, c.node
    LIMIT 1
    ON CONFLICT ON CONSTRAINT snowflake_node_lease_pkey DO UPDATE
        SET (token, instance, instance_before, host, port, address, system_identifier, layout,
             claimed_at, renewed_at, expires_at, lease_ttl, floor, mark, clock_offset, renewals,
             max_node, started_at, warning, warned_at)
            = (excluded.token, excluded.instance, NULL, excluded.host, excluded.port,
               excluded.address, excluded.system_identifier, excluded.layout, excluded.claimed_at,
               excluded.renewed_at, excluded.expires_at, excluded.lease_ttl,
               greatest(o.mark, excluded.floor), greatest(o.mark, excluded.mark),
               excluded.clock_offset, least(o.renewals, 9223372036854775806) + 1,
               excluded.max_node, excluded.started_at, NULL, NULL)
        -- unless its holder has renewed it just now
        WHERE o.expires_at < at
    RETURNING o.* INTO l;

    IF FOUND THEN
        UPDATE @extschema@.snowflake_registry_place AS p
        SET changes = least(p.changes, 9223372036854775806) + 1;
    END IF;
    IF is_refused THEN
        RETURN NULL;
    END IF;
    RETURN l;
END $$;
COMMENT ON FUNCTION snowflake_nodes_claim(timestamptz, snowflake_node_request,
    snowflake_registry_place) IS 'give a node number to the server that asks';

-- Who has the numbers that the server cannot have: the one that it registers, those
-- of servers with another layout, or all.
CREATE FUNCTION snowflake_nodes_holders(
    at timestamptz, ask snowflake_node_request, strangers boolean)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('%s %s%s.', CASE WHEN count(*) = 1 THEN 'The holder is'
                                           ELSE 'The holders are' END,
                string_agg(format('%s:%s (node %s, %slast seen %s)', coalesce(h.host, '?'), h.port,
                        h.node, CASE WHEN strangers THEN format('"%s", ', h.layout) END,
                        to_char(greatest(h.claimed_at, h.renewed_at) AT TIME ZONE 'UTC',
                                'YYYY-MM-DD HH24:MI:SS "UTC"')),
                    ', ' ORDER BY h.node) FILTER (WHERE h.place <= 20),
                CASE WHEN count(*) > 20 THEN format(' and %s more', count(*) - 20) END)
            FROM (SELECT l.*, row_number() OVER (ORDER BY l.node) AS place
                  FROM @extschema@.snowflake_node_lease AS l
                  WHERE CASE WHEN strangers
                             THEN @extschema@.snowflake_nodes_conflicts(at, ask, l)
                             ELSE l.node <= ask.max_node
                                  AND l.node = coalesce(ask.number, l.node) END) AS h);
END $$;
COMMENT ON FUNCTION snowflake_nodes_holders(timestamptz, snowflake_node_request, boolean) IS
'the servers that hold the node numbers, for a message';

-- Why a server got nothing.
CREATE FUNCTION snowflake_nodes_refuse(
    at timestamptz, ask snowflake_node_request, r snowflake_registry_place,
    own snowflake_node_lease, OUT refusal text, OUT refusal_passes boolean,
    OUT refusal_detail text, OUT refusal_hint text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until timestamptz := greatest(r.closed_until, r.guarded_until);
    l @extschema@.snowflake_node_lease;
    taken bigint;
BEGIN
    refusal_passes := false;
    IF ask.mark > @extschema@.snowflake_nodes_limit(at + ask.lease_ttl)
       AND own.token IS DISTINCT FROM ask.token THEN
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

    SELECT o.* INTO l FROM @extschema@.snowflake_node_lease AS o
    WHERE o.node = ask.number AND o.token <> ask.token AND o.expires_at >= at;
    IF FOUND THEN
        refusal := format('node number %s is %s by another server', l.node,
                          CASE l.expires_at WHEN 'infinity' THEN 'registered' ELSE 'leased' END);
        refusal_detail := @extschema@.snowflake_nodes_holders(at, ask, false);
        refusal_hint := 'Give this server another "snowflake.node_id". If the other server is '
            'stopped for good, end its hold in the registry: snowflake_release_node(node, '
            'issued_until), with the value of "snowflake.issued_until" on that server.';
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
               WHERE @extschema@.snowflake_nodes_conflicts(at, ask, p)) THEN
        refusal := 'servers with another layout have node numbers of the registry';
        refusal_detail := @extschema@.snowflake_nodes_holders(at, ask, true);
        refusal_hint := 'Give all servers of a registry the same layout and epoch.';
        RETURN;
    END IF;

    SELECT o.* INTO l FROM @extschema@.snowflake_node_lease AS o
    WHERE o.node = ask.number
      AND to_timestamp(o.mark / 1000000::float8) > least(ask.clock, at + interval '10 s');
    IF FOUND THEN
        refusal := format('node number %s is not free until %s', l.node,
                          to_char(to_timestamp(l.mark / 1000000::float8) AT TIME ZONE 'UTC',
                                  'YYYY-MM-DD HH24:MI:SS "UTC"'));
        refusal_passes := true;
        refusal_detail := 'The server that had it may have issued IDs with times up to then.';
        refusal_hint := 'Wait until then.';
        RETURN;
    END IF;

    taken := (SELECT count(*) FROM @extschema@.snowflake_node_lease AS p
              WHERE p.node <= ask.max_node
                AND (p.expires_at >= at OR to_timestamp(p.mark / 1000000::float8)
                                           > least(ask.clock, at + interval '10 s')));
    IF ask.number IS NULL AND taken > ask.max_node THEN
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
    snowflake_registry_place, snowflake_node_lease) IS
'why a server was given no node number';

--
-- The whole of a request, whatever the state.
--
-- A renewal is a new version of one row.  A thousand servers renew every 3 s, so it is
-- tried at once; then after a look at the place; then under the lock of claims.
--
-- What has expired but was not given to anybody else is renewed too, under that lock,
-- unless servers with another layout have got numbers meanwhile.
-- While closed, somebody else may have got what expired, but not what still runs by
-- the clock of the server; after it, that may have been and is over: then there is a
-- floor.  While guarded, what runs by the record is the server's as well.
--
-- Of two copies of a server that have one token each finds that the other has renewed
-- before.  No server that goes on alone has a text ("instance") that it had before
-- another one.
--
-- What a server says proves that the record has lost nothing, when it asks first
-- after the start, and says itself that its lease runs: else it may have been away
-- for long, and what was lost came after that.  (Of its last answer it may not
-- know: so one renewal more is fine.)
--
CREATE FUNCTION snowflake_nodes_serve(
    at timestamptz, here text, started timestamptz, ask snowflake_node_request)
RETURNS snowflake_node_answer LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_registry_place;
    own @extschema@.snowflake_node_lease;
    l @extschema@.snowflake_node_lease;
    a @extschema@.snowflake_node_answer;
    fault text;
    is_ahead boolean;
BEGIN
    own.token := ask.token;
    FOR step IN 1 .. 3 LOOP
        IF step = 2 THEN
            PERFORM @extschema@.snowflake_registry_admit(ask.protocol, ask.lease_ttl);
            SELECT p.* INTO r FROM @extschema@.snowflake_registry_place AS p LIMIT 1;
            own := @extschema@.snowflake_nodes_own(ask);
            fault := @extschema@.snowflake_nodes_fault(ask, r.changes, own.renewals);
            EXIT WHEN fault IS NOT NULL;
            IF ask.lease_ttl > r.longest_lease THEN
                ask.mark := ask.mark
                    - (extract(epoch FROM ask.lease_ttl - r.longest_lease) * 1000000.0)::bigint;
                ask.lease_ttl := r.longest_lease;
            END IF;

            r := @extschema@.snowflake_registry_arrive(at, here, started, ask.lease_ttl, r);
            is_ahead := coalesce(ask.seen > r.changes, false)
                        OR coalesce(own.node = ask.held AND ask.renewals > own.renewals, false);
            r := @extschema@.snowflake_registry_compare(at, r, own.token, ask.lease_ttl, ask.seen,
                is_ahead,
                coalesce(ask.seen IS NOT NULL AND own.renewals - ask.renewals BETWEEN 0 AND 1
                    AND own.started_at <> r.started_at
                    AND own.node = ask.held AND ask.remaining > interval '0'
                    AND (own.expires_at < 'infinity'
                         OR own.renewed_at + own.lease_ttl >= r.guarded_from), false));
            IF is_ahead THEN
                -- once for each that is ahead, and not at all its requests; the mark that
                -- it was granted is lost as well
                UPDATE @extschema@.snowflake_node_lease AS o
                SET renewals = ask.renewals, mark = greatest(o.mark, ask.mark)
                WHERE o.node = own.node AND o.renewals < ask.renewals;
            END IF;
        ELSIF step = 3 THEN
            SELECT p.* INTO r FROM @extschema@.snowflake_registry_place AS p FOR UPDATE;
            own := @extschema@.snowflake_nodes_own(ask);
        END IF;

        -- the token is looked at again when the row has changed while waiting for it
        UPDATE @extschema@.snowflake_node_lease AS o
        SET token = ask.token,
            instance = ask.instance,
            instance_before = CASE WHEN o.instance <> ask.instance THEN o.instance
                                   ELSE o.instance_before END,
            host = ask.host,
            port = ask.port,
            address = inet_client_addr(),
            system_identifier = ask.system_identifier,
            layout = ask.layout,
            renewed_at = at,
            expires_at = CASE WHEN ask.number IS NOT NULL THEN 'infinity'
                              ELSE greatest(o.expires_at, at + ask.lease_ttl) END,
            lease_ttl = ask.lease_ttl,
            floor = CASE WHEN o.expires_at < at AND p.closed_until BETWEEN o.renewed_at AND at
                         THEN greatest(o.floor, @extschema@.snowflake_nodes_limit(p.closed_until))
                         ELSE o.floor END,
            mark = greatest(o.mark, CASE WHEN ask.number IS NOT NULL THEN ask.mark
                ELSE least(ask.mark, @extschema@.snowflake_nodes_limit(at + ask.lease_ttl)) END),
            clock_offset = coalesce(ask.clock_offset, ask.clock - at),
            renewals = least(o.renewals, 9223372036854775806) + 1,
            max_node = ask.max_node,
            started_at = p.started_at,
            warning = CASE WHEN o.token = ask.token AND o.instance_before = ask.instance
                                AND o.instance <> ask.instance
                           THEN @extschema@.snowflake_nodes_stranger(at, ask, 'and the server '
                               || coalesce(o.host, '?') || ':' || coalesce(o.port::text, '?')
                               || ' take turns as one: both draw IDs with this number')
                           WHEN o.warned_at > at - interval '1 min' THEN o.warning END,
            warned_at = CASE WHEN o.token = ask.token AND o.instance_before = ask.instance
                                  AND o.instance <> ask.instance
                             THEN at ELSE o.warned_at END
        FROM @extschema@.snowflake_registry_place AS p
        WHERE o.token = own.token
          AND o.node <= ask.max_node
          AND o.node = coalesce(ask.number, o.node)
          AND (ask.renewals IS NULL OR o.node IS DISTINCT FROM ask.held
               OR ask.renewals <= o.renewals)
          -- a registration ends by snowflake_release_node() only
          AND (ask.number IS NOT NULL OR o.expires_at < 'infinity')
          AND (o.layout = ask.layout AND o.renewed_at + o.lease_ttl >= at
               OR step = 3 AND NOT EXISTS (
                   SELECT FROM @extschema@.snowflake_node_lease AS s
                   WHERE s.node <> o.node
                     AND @extschema@.snowflake_nodes_conflicts(at, ask, s)))
          AND (o.expires_at >= at AND p.closed_until <= at
               OR o.node = ask.held AND ask.remaining > interval '0'
               OR step = 3 AND p.closed_until <= at AND p.guarded_until <= at)
          -- at once only what changes nothing else
          AND (step > 1
               OR p.place = here AND p.started_at = started AND p.guarded_until = '-infinity'
                  AND coalesce(ask.seen, 0) <= p.changes AND ask.lease_ttl <= p.longest_lease
                  AND ask.protocol = 1
                  AND @extschema@.snowflake_nodes_fault(ask, p.changes, o.renewals) IS NULL
                  AND (SELECT count(*) = 1 FROM @extschema@.snowflake_registry_place))
        RETURNING o.node, o.floor, o.mark, o.renewals, p.changes,
            coalesce(o.warning, (SELECT w.warning FROM @extschema@.snowflake_node_warning AS w
                                 WHERE w.node = o.node AND w.warned_at
                                     BETWEEN greatest(o.claimed_at, at - interval '1 min')
                                         AND at + interval '1 min'))
        INTO a.node, a.floor, a.granted, a.renewals, a.changes, a.warning;
        EXIT WHEN FOUND;
    END LOOP;

    a.protocol := 1;
    a.lease_ttl := ask.lease_ttl;
    a.registry_clock := at;
    a.timeline := substring(here FROM '^[^/]*/[^/]*');
    IF fault IS NOT NULL THEN
        a.changes := r.changes;
        a.refusal := 'invalid request for a node number';
        a.refusal_passes := false;
        a.refusal_detail := fault;
        RETURN a;
    ELSIF a.node IS NULL THEN
        l := @extschema@.snowflake_nodes_claim(at, ask, r);
        a.node := l.node;
        a.floor := l.floor;
        a.granted := l.mark;
        a.renewals := l.renewals;
        -- a claim counts as a change
        a.changes := (SELECT p.changes FROM @extschema@.snowflake_registry_place AS p);
    END IF;

    IF a.node IS NULL THEN
        SELECT f.* INTO a.refusal, a.refusal_passes, a.refusal_detail, a.refusal_hint
        FROM @extschema@.snowflake_nodes_refuse(at, ask, r, own) AS f;
        INSERT INTO @extschema@.snowflake_node_warning (node, warning, warned_at)
        SELECT o.node, @extschema@.snowflake_nodes_stranger(at, ask, 'is configured with this '
                           'server''s node number, and asks for it'), at
        FROM @extschema@.snowflake_node_lease AS o
        WHERE o.node = ask.number AND o.token <> ask.token AND o.expires_at >= at
        ON CONFLICT ON CONSTRAINT snowflake_node_warning_pkey DO UPDATE
            SET (warning, warned_at) = (excluded.warning, excluded.warned_at);
    END IF;
    IF ask.wants_peers THEN
        SELECT p.* INTO a.peers, a.peers_offset, a.free
        FROM @extschema@.snowflake_nodes_peers(at, ask.token, ask.max_node) AS p;
    END IF;
    RETURN a;
END $$;
COMMENT ON FUNCTION snowflake_nodes_serve(timestamptz, text, timestamptz, snowflake_node_request) IS
'do what snowflake_lease_node() does, at a given time and place';

--
-- Renew the lease of a node number, or claim one.  The server that calls this
-- counts the answer only when the commit was confirmed, and calls again with
-- the same token when it was not: then it is told the same number.
--
--   protocol      1
--   token         secret of this start of the server; of all its starts where it
--                 registers a number
--   number        the configured number, which it registers; null: it leases one
--   held          the number that it has, or had last; null for none
--   held_token    the token of the start before, if it had a number then
--   remaining     of the lease of "held", by the server's steady clock when it
--                 sent this, less the longest that the request may take to
--                 get here; null or not above 0: it has run out; lease_ttl for one
--                 that was registered
--   instance      tells the server from a copy of it; '' for unknown
--   lease_ttl     the lease that it wants, from 10 s to 24 h
--   mark          the time, in microseconds since 1970-01-01 UTC, that the
--                 server wants to issue IDs below: later by lease_ttl than its
--                 clock and its latest ID, and not before what it was granted
--   clock         the server's clock when it sent this
--   clock_offset  that clock minus the one here, as last measured; null: not
--                 yet, so it is taken from "clock"
--   seen          the most changes that this registry ever told it of; null:
--                 none
--   renewals      of the last answer that counted, which was for "held"; null: none
--   wants_peers   whether to look at all leases for the answer
--
-- The answer:
--
--   node          the number; null when refused, and then three texts say why
--   floor         issue no ID with this number that has an earlier time; it
--                 stays for as long as the server keeps the number
--   granted       the mark: nor one that is not below this.  At most the lease
--                 and 10 s from now, if no more was granted before.  Nothing to a
--                 server that has registered its number
--   lease_ttl     the lease that it has: what it wants, or the longest one here
--   registry_clock  the time here
--   peers, peers_offset  servers that have renewed lately beside this one, and the
--                 median of their clock_offset: one clock that is far off
--                 would take the mean with it
--   timeline      the registry's system identifier and timeline
--   changes       claims, releases, and what servers had seen of more, up to now
--   renewals      of the lease
--   free          numbers that could be claimed now
--   warning       of another server that has or wants this number; null: none
--   refusal_passes  whether the reason goes away by itself
--
CREATE FUNCTION snowflake_lease_node(
    protocol integer, token uuid, number integer, held integer, held_token uuid, remaining interval,
    instance text, max_node integer, lease_ttl interval, mark bigint, clock timestamptz,
    clock_offset interval, layout text, host text, port integer, system_identifier bigint,
    seen bigint DEFAULT NULL, renewals bigint DEFAULT NULL, wants_peers boolean DEFAULT false)
RETURNS snowflake_node_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- planning would cost more than all else
SET plan_cache_mode = force_generic_plan SET timezone = 'UTC' AS $$
DECLARE
    here text := @extschema@.snowflake_registry_here();
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    RETURN @extschema@.snowflake_nodes_serve(
        clock_timestamp(), here, pg_postmaster_start_time(),
        ROW(protocol, token, number, held, held_token, remaining, instance, max_node, lease_ttl,
            mark, clock, clock_offset, layout, host, port, system_identifier, seen, renewals,
            wants_peers)::@extschema@.snowflake_node_request);
END $$;
COMMENT ON FUNCTION snowflake_lease_node(integer, uuid, integer, integer, uuid, interval, text,
    integer, interval, bigint, timestamptz, interval, text, text, integer, bigint, bigint, bigint,
    boolean) IS 'called by a server to lease or register its node number, or to renew the lease';

-- A server that still runs learns of it when it renews next, within seconds,
-- and issues nothing more with the number.  Until then, and when it does not
-- reach this registry, it may issue up to its mark.  So that stays, but when
-- the caller knows better.  One that is registered may have issued IDs for long
-- without this registry, with a clock as far ahead as it was, and is stopped by now.
CREATE FUNCTION snowflake_nodes_release(at timestamptz, node integer, issued_until timestamptz)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM @extschema@.snowflake_registry_place AS p FOR UPDATE;
    UPDATE @extschema@.snowflake_node_lease AS l
    SET token = NULL,
        expires_at = least(l.expires_at, at),
        mark = CASE WHEN issued_until < 'infinity'
                         AND (l.expires_at = 'infinity'
                              OR to_timestamp(l.mark / 1000000::float8) > issued_until)
                    THEN greatest(l.floor, (extract(epoch FROM least(greatest(issued_until,
                             timestamptz '1970-01-01 00:00:00+00'),
                             timestamptz '3000-01-01 00:00:00+00')) * 1000000.0)::bigint)
                    WHEN l.expires_at = 'infinity'
                    THEN greatest(l.mark, @extschema@.snowflake_nodes_limit(
                             at + greatest(l.clock_offset, interval '0')))
                    ELSE l.mark END
    WHERE l.node = snowflake_nodes_release.node
      -- once more by who knows better now
      AND (l.token IS NOT NULL OR to_timestamp(l.mark / 1000000::float8) > issued_until);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @extschema@.snowflake_registry_place AS p
    SET changes = least(p.changes, 9223372036854775806) + 1;
    RETURN true;
END $$;
COMMENT ON FUNCTION snowflake_nodes_release(timestamptz, integer, timestamptz) IS
'do what snowflake_release_node() does, at a given time';

CREATE FUNCTION snowflake_release_node(node integer, issued_until timestamptz DEFAULT 'infinity')
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    RETURN @extschema@.snowflake_nodes_release(clock_timestamp(), node, issued_until);
END $$;
COMMENT ON FUNCTION snowflake_release_node(integer, timestamptz) IS
'end the lease or registration of a node number; false if no server holds it';

CREATE VIEW snowflake_nodes AS
    SELECT l.node,
           CASE WHEN l.token IS NULL THEN 'released'
                WHEN l.expires_at = timestamptz 'infinity' THEN 'registered'
                WHEN l.expires_at >= pg_catalog.statement_timestamp() THEN 'live'
                ELSE 'expired' END AS state,
           l.host, l.port, l.address, l.system_identifier, l.layout,
           l.claimed_at, l.renewed_at, l.expires_at, l.clock_offset,
           m.issues_until, greatest(l.expires_at, m.issues_until) AS free_from
    FROM snowflake_node_lease AS l,
         pg_catalog.to_timestamp(l.mark::float8 / 1000000::float8) AS m (issues_until);
COMMENT ON VIEW snowflake_nodes IS
'one row for each node number that was given out: its server, its lease and its clock';
COMMENT ON COLUMN snowflake_nodes.node IS 'node number';
COMMENT ON COLUMN snowflake_nodes.state IS
'live, registered, expired (the lease has run out) or released (by snowflake_release_node)';
COMMENT ON COLUMN snowflake_nodes.host IS 'name of the host, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.port IS 'port of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.address IS
'address that the server connected from; null for a Unix socket';
COMMENT ON COLUMN snowflake_nodes.system_identifier IS
'system identifier of the server, as the server gives it';
COMMENT ON COLUMN snowflake_nodes.layout IS 'layout and epoch of the server';
COMMENT ON COLUMN snowflake_nodes.claimed_at IS 'when the server got the number';
COMMENT ON COLUMN snowflake_nodes.renewed_at IS
'when the server last renewed its lease; -infinity if it was refused';
COMMENT ON COLUMN snowflake_nodes.expires_at IS
'end of the lease; infinity if the number is registered';
COMMENT ON COLUMN snowflake_nodes.clock_offset IS 'the server''s clock minus the registry''s clock';
COMMENT ON COLUMN snowflake_nodes.issues_until IS
'for a lease: the server''s IDs have times before this, by its own clock';
COMMENT ON COLUMN snowflake_nodes.free_from IS 'when another server can get the number';

-- For alerts: to be seen by the same.
CREATE VIEW snowflake_node_counts AS
    SELECT t.total,
           pg_catalog.count(*) FILTER (WHERE n.state IN ('live', 'registered')) AS live,
           pg_catalog.count(*) FILTER (WHERE n.state = 'expired') AS expired,
           t.total - pg_catalog.count(*) FILTER (
               WHERE n.node < t.total AND n.free_from >= pg_catalog.statement_timestamp()) AS free,
           pg_catalog.min(n.free_from) FILTER (WHERE n.node < t.total
               AND n.free_from >= pg_catalog.statement_timestamp()) AS next_free_at
    FROM (SELECT (SELECT l.max_node::bigint + 1 FROM snowflake_node_lease AS l
                  ORDER BY l.renewed_at DESC, l.node LIMIT 1)) AS t (total)
    LEFT JOIN snowflake_nodes AS n ON true
    GROUP BY t.total;
COMMENT ON VIEW snowflake_node_counts IS
'one row: how many node numbers exist, are held, and are free';
COMMENT ON COLUMN snowflake_node_counts.total IS
'node numbers in the layout of the server that renewed last; null before the first lease';
COMMENT ON COLUMN snowflake_node_counts.live IS 'numbers with a running lease or a registration';
COMMENT ON COLUMN snowflake_node_counts.expired IS
'numbers whose lease has run out, and that no other server has claimed';
COMMENT ON COLUMN snowflake_node_counts.free IS 'numbers that another server can get now';
COMMENT ON COLUMN snowflake_node_counts.next_free_at IS
'when the next number becomes free if no lease is renewed; null if none is taken';
