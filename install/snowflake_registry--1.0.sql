/* snowflake_registry--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_registry" to load this file. \quit

--
-- The registry: node numbers and segments for the servers whose setting
-- snowflake.registry names this database, and segments for the server whose home
-- database this is.
--
-- In pure SQL.  It belongs to the role that creates it, superuser or not.
--
-- A registry that was restored, promoted, or started again may know less than it
-- once did.  But the servers know what they were told, and report it: how many
-- changes the registry had made (claims and releases of numbers), how often their
-- leases were renewed or their reports written down, and the highest number of each
-- tag.  So the registry is in one of three states:
--
--   open     it gives out numbers and segments
--   guarded  it was started again: renewals of what runs, and reports.  It opens
--            when a server has reported what it was told, and that is not lost, and
--            all that had something then have reported; else after the longest
--            lease, as if it had closed
--   closed   it is in another place than before, or a server was told more than is
--            known here: numbers that are still held, and reports, until all leases
--            and segments that may have been given out have run out
--
-- The functions that are called from outside are SECURITY DEFINER, so that a role
-- which may call them needs no rights to the tables, and they alone look at a clock,
-- once, when they know the place.  So "now" is neither before the request was sent nor
-- before a promotion, as the start of a statement or transaction can be.  They set the
-- time zone, by which a longest lease of '1 day' is added.  The others take the time
-- ("at"), the place ("here") and when the server was started as arguments, so that tests
-- can be at any time and in any place.
--
-- In all functions search_path is pg_catalog, whatever the caller has, and what is
-- of this extension has the schema with it.  So it cannot be moved.
--
-- Being VOLATILE, the functions take a new snapshot for each statement: what is
-- below a lock sees what was committed while waiting for it.  (In a transaction
-- that is REPEATABLE READ it does not, and ends with a serialization failure.)
--
-- Locks are taken in this order: the row of the place, if it is to change, and by
-- claims; rows of leases; rows of tags, in the order of the tags; the row of a
-- server that reports.  A renewal locks the row of its lease only, and a report
-- without news nothing.  So a tag holds up no lease.
--

-- One row.  Two where a dump was restored, until the first request after it.
CREATE TABLE snowflake_registry_place (
    place text PRIMARY KEY,
    changes bigint NOT NULL DEFAULT 0,
    closed_until timestamptz NOT NULL DEFAULT '-infinity'
        CHECK (closed_until < timestamptz 'infinity'),
    started_at timestamptz NOT NULL DEFAULT '-infinity',
    guarded_from timestamptz NOT NULL DEFAULT '-infinity',
    guarded_until timestamptz NOT NULL DEFAULT '-infinity'
        CHECK (guarded_until < timestamptz 'infinity'),
    is_proved boolean NOT NULL DEFAULT false,
    loses_nothing boolean NOT NULL DEFAULT false,
    longest_lease interval NOT NULL DEFAULT '1 h'
        CHECK (longest_lease BETWEEN interval '10 s' AND interval '1 day')
);
COMMENT ON TABLE snowflake_registry_place IS
'state of the registry, and its longest lease; use the view snowflake_registry';
COMMENT ON COLUMN snowflake_registry_place.longest_lease IS
'the longest lease that a server can get, from 10 s to 1 day';

CREATE TABLE snowflake_node_lease (
    node integer PRIMARY KEY,
    token uuid UNIQUE,
    instance text NOT NULL,
    -- of the same token, as of a copy of the server: this text was another one
    instance_before text,
    host text,
    port integer,
    address inet,
    system_identifier bigint,
    layout text NOT NULL,
    claimed_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    -- infinity: it is registered
    expires_at timestamptz NOT NULL,
    lease_ttl interval NOT NULL,
    floor bigint NOT NULL,
    mark bigint NOT NULL,
    clock_offset interval NOT NULL,
    renewals bigint NOT NULL,
    max_node integer NOT NULL,
    -- of the registry, as of the last renewal: tells what was renewed since it
    -- was started, also when its clock was set back
    started_at timestamptz NOT NULL,
    -- what its holder is to know of a copy of itself
    warning text,
    warned_at timestamptz
) WITH (fillfactor = 50);       -- renewals are HOT updates
COMMENT ON TABLE snowflake_node_lease IS
'one row for each node number ever given out; use the view snowflake_nodes';

-- Of servers that ask for the number of another one, which would have to wait for the
-- end of their transactions if this was in its lease.  Not dumped: it counts for a minute.
CREATE TABLE snowflake_node_warning (
    node integer PRIMARY KEY,
    warning text NOT NULL,
    warned_at timestamptz NOT NULL
);
COMMENT ON TABLE snowflake_node_warning IS
'which server last asked for the node number of another one';

CREATE TABLE snowflake_segment_server (
    -- made at random by each start of a server
    reporter uuid PRIMARY KEY,
    -- how often this row was written
    reports bigint NOT NULL,
    reported_at timestamptz NOT NULL,
    hold interval NOT NULL,
    -- as of a lease
    started_at timestamptz NOT NULL
) WITH (fillfactor = 50);       -- reports are HOT updates
COMMENT ON TABLE snowflake_segment_server IS
'starts of servers that have reported lately; they show whether the registry lost something';

CREATE TABLE snowflake_segment_tag (
    -- "C" is the same on all systems that a standby may run on
    tag text COLLATE "C" PRIMARY KEY
        CHECK (pg_catalog.octet_length(pg_catalog.convert_to(tag, 'UTF8')) BETWEEN 1 AND 63),
    incarnation uuid NOT NULL UNIQUE,
    max_id bigint NOT NULL CHECK (max_id >= 0),
    step integer NOT NULL CHECK (step >= 1),
    delta integer NOT NULL,
    remainder integer NOT NULL,
    max_value bigint CHECK (max_value >= 1),
    description text,
    created_at timestamptz NOT NULL,
    fetched_at timestamptz,
    fetches bigint NOT NULL DEFAULT 0,
    dropped_at timestamptz,
    -- in a home database: dropped as its numbers come from a registry
    is_moved boolean NOT NULL DEFAULT false,
    CONSTRAINT snowflake_segment_tag_delta_check CHECK (delta BETWEEN 1 AND step),
    CONSTRAINT snowflake_segment_tag_remainder_check CHECK (remainder >= 0 AND remainder < delta)
);
COMMENT ON TABLE snowflake_segment_tag IS
'one row for each tag, dropped ones too; use the view snowflake_segments';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_registry_place', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_node_lease', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_server', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_tag', '');

-- System identifier, database, table, with a %s where the timeline goes.  A
-- session has the same of them all its life: its server cannot get another
-- system identifier while it runs, nor a session into another database, and the
-- table goes only together with this function.  So it is IMMUTABLE, and a
-- constant in the plans of a session, which are its own: it reads a file, which
-- would be a third of a renewal.
CREATE FUNCTION snowflake_registry_site()
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT concat_ws('/', c.system_identifier, '%s', d.oid,
                       '@extschema@.snowflake_registry_place'::regclass::oid)
            FROM pg_control_system() AS c, pg_database AS d
            WHERE d.datname = current_database());
END $$;
COMMENT ON FUNCTION snowflake_registry_site() IS 'the place of this registry, without its timeline';

-- A session can outlive a promotion, so the timeline is looked at each time.
-- Fails on a standby, as all here does.  SQL functions as this one become part of
-- what calls them.
CREATE FUNCTION snowflake_registry_here()
RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN pg_catalog.format(snowflake_registry_site(),
    pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8));
COMMENT ON FUNCTION snowflake_registry_here() IS
'the place of this registry: another one in another database or on another timeline';

-- Who was told what: leases, and servers with segments.  A server gives out numbers
-- of segments for "hold" after a report, and each report is written that is a
-- twentieth of that after the last.
CREATE VIEW snowflake_registry_told AS
    SELECT l.token AS who, l.started_at, l.renewed_at AS told_at, l.lease_ttl AS span,
           CASE WHEN l.expires_at = timestamptz 'infinity' THEN l.renewed_at + l.lease_ttl
                ELSE l.expires_at END AS runs_until
    FROM snowflake_node_lease AS l
    UNION ALL
    SELECT s.reporter, s.started_at, s.reported_at, s.hold, 
           s.reported_at + s.hold + s.hold / 20::float8
    FROM snowflake_segment_server AS s;
COMMENT ON VIEW snowflake_registry_told IS
'until when servers may use the leases and segments that they were given';

-- How long all may last that was given out, by the record and what is asked for.  What
-- was over when the record ends does not count, by the clock of the record: that may
-- be an old one, or of another machine.  Where a loss is seen ("is_lost") and there is
-- no record, it is the longest that can be.  At home there is nobody else.
CREATE FUNCTION snowflake_registry_longest(at timestamptz, asked interval, is_lost boolean)
RETURNS interval LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN asked = interval '0' THEN asked
                ELSE greatest(asked, coalesce(
                    (SELECT max(t.span) FROM @extschema@.snowflake_registry_told AS t
                     WHERE t.runs_until >= least(at, (SELECT max(e.told_at)
                                                 FROM @extschema@.snowflake_registry_told AS e))),
                    (SELECT max(p.longest_lease) FROM @extschema@.snowflake_registry_place AS p
                     WHERE is_lost)))
           END;
END $$;
COMMENT ON FUNCTION snowflake_registry_longest(timestamptz, interval, boolean) IS
'the longest of the given lease and of those that may still run';

-- Intervals are compared with months of 30 days of 24 hours, but added by the calendar:
-- one with such parts can be short, and end years later or before.
CREATE FUNCTION snowflake_registry_exact(span interval)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.date_trunc('month', span) = interval '0' AND extract(day FROM span) = 0.0;
COMMENT ON FUNCTION snowflake_registry_exact(interval) IS
'whether an interval has no years, months and days';

CREATE FUNCTION snowflake_registry_awaited(r snowflake_registry_place, except_of uuid)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @extschema@.snowflake_registry_told AS t
                   WHERE t.started_at <> r.started_at AND t.who IS DISTINCT FROM except_of
                     AND t.runs_until >= r.guarded_from);
END $$;
COMMENT ON FUNCTION snowflake_registry_awaited(snowflake_registry_place, uuid) IS
'whether another server has yet to report since the registry was started';

-- Whom the registry serves at all.  With a span of 0 the server says that this is its
-- home database, where no other server is.
CREATE FUNCTION snowflake_registry_admit(protocol integer, span interval)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unlogged regclass;
BEGIN
    IF protocol IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'the registry speaks version 1 of the protocol, and the server version %',
                coalesce(protocol::text, 'null')
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Update the older one: the extension snowflake_registry in the '
                         'registry, or the package of the server.';
    ELSIF (span = interval '0') = (NOT EXISTS (SELECT FROM pg_extension AS e
                                               WHERE e.extname = 'snowflake_home')) THEN
        RAISE EXCEPTION 'database "%" is %', current_database(),
                CASE span WHEN interval '0' THEN 'a registry, and so no home database'
                          ELSE 'the home database of a server, and so no registry' END
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Create the extension snowflake_registry in a database of its own, and '
                         'name that in "snowflake.registry".';
    END IF;
    SELECT c.oid::regclass INTO unlogged
    FROM pg_extension AS e JOIN pg_class AS c ON c.oid = ANY (e.extconfig)
    WHERE e.extname = 'snowflake_registry' AND c.relpersistence <> 'p' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'table % of the registry is not durable', unlogged
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'A crash empties an unlogged table, and standbys do not have its rows.',
                  HINT = format('Run ALTER TABLE %s SET LOGGED.', unlogged);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry_admit(integer, interval) IS
'raise an error if this database cannot serve the server';

--
-- Come to a place, or be started again, or stay, which is so by far the most often:
-- then the row "r", as the caller has read it, is returned.  Else the row is locked.
--
-- In another place than before, after a promotion or a restore, what was given out
-- last may be missing, so the registry closes, but for another timeline where its
-- operator says that promotions lose nothing.  Started again in the same place, it
-- is on its guard.  That is no change that is counted: it would make up for a lost
-- one.  Where nobody was told anything, as in a home database, there is neither.
--
-- Without a row somebody has deleted it, and with several a dump was restored into
-- this database, whose row counts: that is another place, too.
--
CREATE FUNCTION snowflake_registry_arrive(
    at timestamptz, here text, started timestamptz, asked interval, r snowflake_registry_place)
RETURNS snowflake_registry_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rows integer := (SELECT count(*) FROM @extschema@.snowflake_registry_place);
    until timestamptz;
    is_moved boolean;
BEGIN
    IF rows = 1 AND r.place = here AND r.started_at = started
       AND (r.guarded_until = '-infinity' OR r.guarded_until > at) THEN
        RETURN r;
    END IF;

    IF rows <> 1 THEN
        LOCK TABLE @extschema@.snowflake_registry_place IN SHARE ROW EXCLUSIVE MODE;
        WITH old AS (DELETE FROM @extschema@.snowflake_registry_place AS p
                     WHERE (SELECT count(*) FROM @extschema@.snowflake_registry_place) <> 1
                     RETURNING p.*)
        INSERT INTO @extschema@.snowflake_registry_place (place, changes, closed_until,
            loses_nothing, longest_lease)
        SELECT '', coalesce(max(o.changes), 0),
               greatest(max(o.closed_until), max(o.guarded_until), '-infinity'),
               coalesce(bool_and(o.loses_nothing) FILTER (WHERE o.place <> here), false),
               coalesce(max(o.longest_lease) FILTER (WHERE o.place <> here), '1 h')
        FROM old AS o
        HAVING (SELECT count(*) FROM @extschema@.snowflake_registry_place) <> 1;
    END IF;
    SELECT p.* INTO STRICT r FROM @extschema@.snowflake_registry_place AS p FOR UPDATE;

    -- a guard that nobody ended: what was lost may be in use, or was
    IF r.guarded_until > '-infinity' AND r.guarded_until <= at THEN
        r.closed_until := greatest(r.closed_until, r.guarded_until);
        r.guarded_until := '-infinity';
    END IF;

    IF r.place <> here OR r.started_at <> started THEN
        is_moved := r.place <> here
            AND NOT (r.loses_nothing
                AND regexp_replace(r.place, '/[^/]*', '') = regexp_replace(here, '/[^/]*', ''));
        until := at + @extschema@.snowflake_registry_longest(at, asked, is_moved);
        IF is_moved AND until > at THEN
            r.closed_until := greatest(r.closed_until, r.guarded_until, until);
            r.guarded_until := '-infinity';
        ELSIF r.place = here AND until > at
              AND (r.changes > 0 OR EXISTS (SELECT FROM @extschema@.snowflake_segment_tag)
                   OR EXISTS (SELECT FROM @extschema@.snowflake_registry_told)) THEN
            r.guarded_from := least(started, at,
                                    CASE WHEN r.guarded_until > at THEN r.guarded_from END);
            r.guarded_until := greatest(r.guarded_until, until);
        END IF;
        r.is_proved := false;
        r.place := here;
        r.started_at := started;
    END IF;

    UPDATE @extschema@.snowflake_registry_place AS p
    SET place = r.place, closed_until = r.closed_until, started_at = r.started_at,
        guarded_from = r.guarded_from, guarded_until = r.guarded_until, is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_registry_arrive(timestamptz, text, timestamptz, interval,
    snowflake_registry_place) IS
'close the registry if it was moved, and guard it if it was started again';

--
-- Compare what a server was told with the record.  One that was told more
-- ("is_ahead") shows that the record has lost something: close.  That is not for
-- longer than a guard, or a closing, which lasts already: what was lost was given
-- out before that began.  With "seen" it says which changes it knows of.
--
-- One whose lease or segments run, and that was told no more ("is_proof"), shows that
-- the record has lost nothing up to what it was told last.
--
-- The guard ends early when all others that may have had something at the start have
-- reported, too.  Where one has not, it may be the one that was told more: then the
-- guard lasts for its full time.
--
CREATE FUNCTION snowflake_registry_compare(
    at timestamptz, r snowflake_registry_place, who uuid, asked interval, seen bigint,
    is_ahead boolean, is_proof boolean)
RETURNS snowflake_registry_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- most often nothing is to change
    IF NOT is_ahead
       AND (r.guarded_until <= at
            OR CASE WHEN r.is_proved THEN @extschema@.snowflake_registry_awaited(r, who)
                    ELSE NOT is_proof END) THEN
        RETURN r;
    END IF;

    SELECT p.* INTO STRICT r FROM @extschema@.snowflake_registry_place AS p FOR UPDATE;
    IF is_ahead THEN
        r.closed_until := greatest(r.closed_until,
            CASE WHEN r.guarded_until > at THEN r.guarded_until
                 WHEN r.closed_until <= at
                 THEN at + @extschema@.snowflake_registry_longest(at, asked, true) END);
        r.guarded_until := '-infinity';
        -- one more, so that all that have seen less notice; and no more than what may be
        -- true, as what a stranger says may be lost in turn, after others have seen it
        IF seen > r.changes THEN
            r.changes := least(seen, r.changes + 1000000) + 1;
        END IF;
    ELSIF r.guarded_until > at THEN
        r.is_proved := r.is_proved OR is_proof;
        IF r.is_proved AND NOT @extschema@.snowflake_registry_awaited(r, who) THEN
            r.guarded_until := '-infinity';
        END IF;
    END IF;

    UPDATE @extschema@.snowflake_registry_place AS p
    SET closed_until = r.closed_until, changes = r.changes, guarded_until = r.guarded_until,
        is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_registry_compare(timestamptz, snowflake_registry_place, uuid,
    interval, bigint, boolean, boolean) IS
'close the registry if a server knows more, and end its guard if nothing was lost';

-- For where the registry was promoted and has lost nothing, as only synchronous
-- standbys are promoted: it need not close.
CREATE FUNCTION snowflake_registry_open(
    at timestamptz, here text, started timestamptz, always boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_registry_place :=
        @extschema@.snowflake_registry_arrive(at, here, started, interval '10 s',
            NULL::@extschema@.snowflake_registry_place);
BEGIN
    UPDATE @extschema@.snowflake_registry_place AS p
    SET closed_until = CASE WHEN p.closed_until > at THEN at - interval '10 s'
                            ELSE p.closed_until END,
        guarded_until = '-infinity',
        loses_nothing = coalesce(always, p.loses_nothing);
    RETURN r.closed_until > at OR r.guarded_until > at;
END $$;
COMMENT ON FUNCTION snowflake_registry_open(timestamptz, text, timestamptz, boolean) IS
'do what snowflake_open_registry() does, at a given time and place';

CREATE FUNCTION snowflake_registry_durable()
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry_durable() IS
'make the commit of this transaction durable, whatever the session has set';

CREATE FUNCTION snowflake_open_registry(always boolean DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' AS $$
DECLARE
    here text := @extschema@.snowflake_registry_here();
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    RETURN @extschema@.snowflake_registry_open(clock_timestamp(), here,
        pg_postmaster_start_time(), always);
END $$;
COMMENT ON FUNCTION snowflake_open_registry(boolean) IS
'open the registry after a promotion or restart that lost nothing; false if it was open';

-- To be seen by those who may see pg_stat_replication in full.
CREATE VIEW snowflake_registry AS
    SELECT s.state, s.until,
           CASE s.state
               WHEN 'closed' THEN 'It was promoted or restored, or a server knows more than the '
                   'registry: it may have lost the last leases and segments that it gave out.'
               WHEN 'guarded' THEN 'It was started again, and waits for the servers to show that '
                   'it has lost nothing.'
           END AS reason,
           p.place, p.changes, p.longest_lease, p.loses_nothing
    FROM (SELECT pg_catalog.max(o.place) AS place, pg_catalog.max(o.changes) AS changes,
                 pg_catalog.max(o.closed_until) AS closed_until,
                 pg_catalog.max(o.guarded_until) AS guarded_until,
                 pg_catalog.max(o.longest_lease) AS longest_lease,
                 pg_catalog.bool_and(o.loses_nothing) AS loses_nothing
          FROM snowflake_registry_place AS o) AS p,
         LATERAL (SELECT CASE WHEN p.closed_until > n THEN 'closed'
                              WHEN p.guarded_until > n THEN 'guarded' ELSE 'open' END,
                         CASE WHEN p.closed_until > n THEN p.closed_until
                              WHEN p.guarded_until > n THEN p.guarded_until END
                  FROM pg_catalog.statement_timestamp() AS n) AS s (state, until);
COMMENT ON VIEW snowflake_registry IS
'one row: whether the registry gives out node numbers and segments, until when not, and why';
COMMENT ON COLUMN snowflake_registry.state IS
'open; guarded: it was started again; closed: it may have lost something';
COMMENT ON COLUMN snowflake_registry.until IS 'when it opens at the latest; null if it is open';
COMMENT ON COLUMN snowflake_registry.reason IS 'why it is not open; null if it is';
COMMENT ON COLUMN snowflake_registry.place IS
'where it is: system identifier, timeline, database and table';
COMMENT ON COLUMN snowflake_registry.changes IS 'how many claims and releases it has recorded';
COMMENT ON COLUMN snowflake_registry.longest_lease IS 'the longest lease that a server can get';
COMMENT ON COLUMN snowflake_registry.loses_nothing IS
'whether snowflake_open_registry(true) has stated that promotions lose nothing';

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
-- which they do every 3 s; the median of how far their clocks are off; and the
-- numbers that could be claimed.
CREATE FUNCTION snowflake_nodes_peers(at timestamptz, token uuid, max_node integer)
RETURNS TABLE (peers integer, peers_offset interval, free integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.count(*) FILTER (WHERE n.is_peer),
           pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY n.clock_offset)
               FILTER (WHERE n.is_peer),
           snowflake_nodes_peers.max_node::bigint + 1 - pg_catalog.count(*)
               FILTER (WHERE n.node <= snowflake_nodes_peers.max_node AND n.is_taken)
    FROM (SELECT l.node, l.clock_offset,
                 l.token <> snowflake_nodes_peers.token
                     AND l.renewed_at BETWEEN at - interval '30 s' AND at AS is_peer,
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
-- it has issued IDs up to its mark: "is_refused" is that it gets no number.
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
    SELECT c.node, ask.token, ask.instance, ask.host, ask.port, inet_client_addr(),
        ask.system_identifier, ask.layout, at, at,
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
                        to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')),
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
-- What has expired but was not given to anybody else is renewed too, under that lock.
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
                              WHEN o.expires_at = 'infinity' THEN at + ask.lease_ttl
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
          AND (o.layout = ask.layout
               OR NOT EXISTS (SELECT FROM @extschema@.snowflake_node_lease AS s
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
COMMENT ON COLUMN snowflake_nodes.renewed_at IS 'when the server last renewed its lease';
COMMENT ON COLUMN snowflake_nodes.expires_at IS
'end of the lease; infinity if the number is registered';
COMMENT ON COLUMN snowflake_nodes.clock_offset IS 'the server''s clock minus the registry''s clock';
COMMENT ON COLUMN snowflake_nodes.issues_until IS
'the server''s IDs have times before this, by its own clock';
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

--
-- Segments: spans of the number line, each given to one server, which gives
-- the numbers out one by one.
--
-- The fence that keeps two servers from the same numbers is max_id of a tag,
-- the highest number given to any server: it only grows, and a server uses a
-- segment only once the commit that raised it was confirmed.  What it has not used
-- when it stops is given to nobody.  While the registry is guarded or closed,
-- reports raise max_id, and nothing is given out.
--

-- The arguments and the answer of snowflake_take_segments(), which see.
CREATE TYPE snowflake_segment_request AS (
    protocol integer, tags text[], incarnations uuid[], seen bigint[], lengths bigint[],
    hold interval, reporter uuid, reports bigint, place text
);
COMMENT ON TYPE snowflake_segment_request IS
'a server''s report on its tags, and its request for segments';

CREATE TYPE snowflake_segment_answer AS (
    protocol integer, asked text, incarnation uuid, first bigint, last bigint, step integer,
    delta integer, remainder integer, max_value bigint, max_id bigint, closed_until timestamptz,
    is_guarded boolean, hold interval, place text, reports bigint
);
COMMENT ON TYPE snowflake_segment_answer IS 'the answer to a request for a segment of a tag';

-- What servers are told: a place, and when it was last closed, or was on a guard
-- that ran out.  So they notice each time after which others may have their
-- numbers.
CREATE FUNCTION snowflake_segments_stay(here text, closed_until timestamptz)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.concat_ws('/', here,
    CASE WHEN closed_until = timestamptz '-infinity' THEN 0
         ELSE (extract(epoch FROM closed_until) * 1000000.0)::bigint END);
COMMENT ON FUNCTION snowflake_segments_stay(text, timestamptz) IS
'the place of the segments, another one after each closing';

-- A count that is further ahead of the record than any loss can be is a mistake or a lie.
CREATE FUNCTION snowflake_segments_valid(
    ask snowflake_segment_request, own snowflake_segment_server)
RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce(num_nulls(ask.tags, ask.incarnations, ask.seen, ask.lengths) = 0
        -- counted from 1, and as many of each; a server has no more tags
        AND CASE cardinality(ask.tags) WHEN 0 THEN '' ELSE format('[1:%s]',
                                                               cardinality(ask.tags)) END
            = ALL (ARRAY[coalesce(array_dims(ask.tags), ''),
                         coalesce(array_dims(ask.incarnations), ''),
                         coalesce(array_dims(ask.seen), ''),
                         coalesce(array_dims(ask.lengths), '')])
        AND cardinality(ask.tags) <= 10000
        -- neither null nor too long nor twice
        AND cardinality(ask.tags) = (SELECT count(DISTINCT t.tag) FROM unnest(ask.tags) AS t (tag)
                                     WHERE octet_length(t.tag) <= 255)
        AND coalesce(octet_length(ask.place), 0) <= 255
        AND 0 <= ALL (ask.seen)
        AND coalesce(ask.reports, 0) >= 0
        AND coalesce(ask.reports, 0) - 1000000000 <= coalesce(own.reports, 0)
        AND (ask.hold BETWEEN interval '10 s' AND interval '1000 years'
             OR ask.hold = interval '0')
        AND @extschema@.snowflake_registry_exact(ask.hold), false);
END $$;
COMMENT ON FUNCTION snowflake_segments_valid(snowflake_segment_request, snowflake_segment_server) IS
'whether the arguments of snowflake_take_segments() are in their bounds';

-- Write the server's row, if that is due: "takes" is whether it is given numbers
-- now.  Of one without tags there is no row, as it is told nothing.  Returns how
-- often the row was written.
--
-- Of one that has forgotten what it was told nothing is written during a guard, and
-- nothing is told: its row from before stays, so that the guard waits for it, as it
-- may have been told more; and what it is told now would prove nothing, if the
-- registry was started once more.
CREATE FUNCTION snowflake_segments_report(
    at timestamptz, ask snowflake_segment_request, own snowflake_segment_server, takes boolean,
    r snowflake_registry_place)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ask.reports IS NULL AND r.guarded_until > at THEN
        RETURN NULL;
    ELSIF ask.reporter IS NULL
       OR own.reporter IS NULL AND cardinality(ask.tags) = 0 AND ask.reports IS NULL
       OR own.started_at = r.started_at AND own.hold = ask.hold AND NOT takes
          AND own.reports = coalesce(ask.reports, own.reports)
          AND own.reported_at BETWEEN at - ask.hold / 20 AND at THEN
        RETURN own.reports;
    END IF;

    -- those that were stopped some time ago; a guard waits for none then, see above.  Not
    -- sooner, as a report that the network holds would seem to know of something lost
    IF own.reporter IS NULL THEN
        DELETE FROM @extschema@.snowflake_segment_server AS s
        WHERE s.reporter IN (SELECT o.reporter FROM @extschema@.snowflake_segment_server AS o
                             WHERE o.reported_at + o.hold + interval '1 h' < at
                             FOR UPDATE SKIP LOCKED);
    END IF;

    INSERT INTO @extschema@.snowflake_segment_server AS s (reporter, reports, reported_at, hold,
        started_at)
    VALUES (ask.reporter, least(coalesce(ask.reports, 0), 9223372036854775806) + 1, at, ask.hold,
        r.started_at)
    ON CONFLICT ON CONSTRAINT snowflake_segment_server_pkey DO UPDATE
        SET (reports, reported_at, hold, started_at)
            = (greatest(excluded.reports, least(s.reports, 9223372036854775806) + 1),
               excluded.reported_at, excluded.hold, excluded.started_at)
    RETURNING s.* INTO own;
    RETURN own.reports;
END $$;
COMMENT ON FUNCTION snowflake_segments_report(timestamptz, snowflake_segment_request,
    snowflake_segment_server, boolean, snowflake_registry_place) IS
'write down that a server has reported, if that is due';

-- Which tags of a request are to change, by their places in it, as is known before
-- they are locked: "told" are those of which the server has seen more than is on
-- record, "wanted" others of which it can be given something.  An error where it has
-- seen more than any loss of segments can explain: a million of the longest ones.
CREATE FUNCTION snowflake_segments_due(
    ask snowflake_segment_request, OUT told integer[], OUT wanted integer[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange integer;
BEGIN
    SELECT coalesce(array_agg(c.n) FILTER (WHERE c.ahead > 0), '{}'),
           coalesce(array_agg(c.n) FILTER (WHERE c.is_wanted AND c.ahead <= 0), '{}'),
           min(c.n) FILTER (WHERE c.ahead > 1000000::bigint * greatest(c.step, 1000000))
    INTO told, wanted, strange
    FROM (SELECT a.n,
                 CASE WHEN a.incarnation = s.incarnation THEN a.seen - s.max_id ELSE 0 END AS ahead,
                 s.step,
                 a.length > 0 AND coalesce(a.incarnation = s.incarnation, true)
                 AND s.max_id < coalesce(s.max_value, 9223372036854775807) AS is_wanted
          FROM ROWS FROM (unnest(ask.tags), unnest(ask.incarnations), unnest(ask.seen),
                          unnest(ask.lengths))
               WITH ORDINALITY AS a (tag, incarnation, seen, length, n)
          JOIN @extschema@.snowflake_segment_tag AS s ON s.tag = a.tag AND s.dropped_at IS NULL
          OFFSET 0) AS c;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'the registry does not know of numbers up to % of segment tag "%"',
                ask.seen[strange], ask.tags[strange]
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('If they are in use, run this in the registry: SELECT '
                      'snowflake_alter_tag(%L, %s, NULL, NULL, NULL). If not, restart the server.',
                      ask.tags[strange], least(ask.seen[strange], 9223372036854775806) + 1);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_segments_due(snowflake_segment_request) IS
'the tags that a call of snowflake_take_segments() changes';

-- Write down what the server has seen of tag number "n" of its request, and give
-- it numbers, if it wants some and "is_open".
CREATE FUNCTION snowflake_segments_give(
    at timestamptz, ask snowflake_segment_request, n integer, is_open boolean, OUT first bigint,
    OUT last bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t @extschema@.snowflake_segment_tag;
    above bigint;
    span bigint := 0;
BEGIN
    SELECT s.* INTO t FROM @extschema@.snowflake_segment_tag AS s
    WHERE s.tag = ask.tags[n] AND s.dropped_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    above := greatest(t.max_id,
                      CASE WHEN ask.incarnations[n] = t.incarnation THEN ask.seen[n] END);

    -- one that has numbers of another incarnation first learns of that
    IF is_open AND ask.lengths[n] > 0 AND coalesce(ask.incarnations[n] = t.incarnation, true) THEN
        span := least(greatest(ask.lengths[n], t.step), greatest(t.step, 1000000),
                      coalesce(t.max_value, 9223372036854775807) - above);
        IF span > 0 THEN
            first := above + 1;
            last := above + span;
        END IF;
    END IF;

    IF span > 0 THEN
        UPDATE @extschema@.snowflake_segment_tag AS s
        SET max_id = snowflake_segments_give.last, fetched_at = at, fetches = s.fetches + 1
        WHERE s.tag = t.tag;
    ELSIF above > t.max_id THEN
        UPDATE @extschema@.snowflake_segment_tag AS s
        SET max_id = above
        WHERE s.tag = t.tag;
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_segments_give(timestamptz, snowflake_segment_request, integer,
    boolean) IS 'give a server numbers of a tag';

--
-- The whole of a request, whatever the state.  What a server says proves that the
-- record has lost nothing, when it asks first after the start, and has seen all of its
-- reports, or all but the last, of which it may not know whether that was written.  But
-- not where it was over with its numbers when the guard began, as then what it says was
-- held by the network: what was lost came after that.
--
CREATE FUNCTION snowflake_segments_serve(
    at timestamptz, here text, started timestamptz, ask snowflake_segment_request)
RETURNS SETOF snowflake_segment_answer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_registry_place;
    own @extschema@.snowflake_segment_server;
    due record;
    given record;
    n integer;
    todo integer[];
    firsts bigint[] := '{}';
    lasts bigint[] := '{}';
    is_open boolean;
    reports bigint;
BEGIN
    PERFORM @extschema@.snowflake_registry_admit(ask.protocol, ask.hold);
    IF ask.hold = interval '0' THEN
        ask.reporter := NULL;
    END IF;
    SELECT s.* INTO own FROM @extschema@.snowflake_segment_server AS s
    WHERE s.reporter = ask.reporter;
    IF NOT @extschema@.snowflake_segments_valid(ask, own) THEN
        RETURN;
    END IF;
    -- what another registry has told says nothing of this one
    IF ask.reporter IS NULL
       OR starts_with(regexp_replace(ask.place, '/[^/]*', ''),
                      regexp_replace(here, '/[^/]*', '') || '/') IS NOT TRUE THEN
        ask.reports := NULL;
    END IF;

    SELECT p.* INTO r FROM @extschema@.snowflake_registry_place AS p LIMIT 1;
    ask.hold := least(ask.hold, r.longest_lease);
    due := @extschema@.snowflake_segments_due(ask);
    r := @extschema@.snowflake_registry_arrive(at, here, started, ask.hold, r);
    IF ask.hold > interval '0' THEN
        r := @extschema@.snowflake_registry_compare(at, r,
            CASE WHEN ask.reports IS NOT NULL THEN ask.reporter END, ask.hold, NULL::bigint,
            due.told <> '{}' OR coalesce(ask.reports > coalesce(own.reports, -1), false),
            coalesce(own.started_at <> r.started_at AND own.reports - ask.reports BETWEEN 0 AND 1
                     AND own.reported_at + own.hold + own.hold / 20::float8 >= r.guarded_from,
                     false));
    END IF;

    is_open := r.closed_until <= at AND r.guarded_until <= at;
    todo := CASE WHEN is_open THEN due.told || due.wanted ELSE due.told END;
    IF todo <> '{}' THEN
        PERFORM FROM @extschema@.snowflake_segment_tag AS s
        WHERE s.tag IN (SELECT ask.tags[t.n] FROM unnest(todo) AS t (n))
        ORDER BY s.tag
        FOR UPDATE;
    END IF;
    FOREACH n IN ARRAY todo LOOP
        given := @extschema@.snowflake_segments_give(at, ask, n, is_open);
        firsts[n] := given.first;
        lasts[n] := given.last;
    END LOOP;
    reports := @extschema@.snowflake_segments_report(at, ask, own,
                   array_remove(firsts, NULL) <> '{}', r);

    RETURN QUERY
    SELECT 1, a.tag, s.incarnation, firsts[a.n], lasts[a.n], s.step, s.delta, s.remainder,
           s.max_value, s.max_id,
           CASE WHEN NOT is_open THEN greatest(r.closed_until, r.guarded_until) END,
           NOT is_open AND r.closed_until <= at, ask.hold,
           @extschema@.snowflake_segments_stay(here, r.closed_until), reports
    FROM unnest(ask.tags) WITH ORDINALITY AS a (tag, n)
    LEFT JOIN @extschema@.snowflake_segment_tag AS s ON s.tag = a.tag AND s.dropped_at IS NULL
    ORDER BY a.n;
END $$;
COMMENT ON FUNCTION snowflake_segments_serve(timestamptz, text, timestamptz,
    snowflake_segment_request) IS
'do what snowflake_take_segments() does, at a given time and place';

--
-- Report what a server has of tags, and take a segment of each that it wants
-- one of.  The server that calls this counts the answer only when the commit
-- was confirmed; what it was given when it was not is lost.  A report that
-- changes nothing mostly writes nothing.
--
-- The arrays go together, with one element for each tag:
--
--   protocol      1
--   tags          each once
--   incarnations  that the server has numbers of; null: it does not know the
--                 tag yet
--   seen          the highest number that it knows to be given out of that
--                 incarnation, to any server; 0 for none
--   lengths       how many numbers to span, at least step and at most the
--                 greater of step and 1000000; 0, less or null: none, it
--                 only reports
--
--   hold          for so long the server goes on to give out numbers after an
--                 answer, from 10 s; 0 at home, where no other server is, and only
--                 there
--   reporter      tells this start of the server from others; null: it takes no
--                 part in showing what this registry has lost
--   reports       of the last answer that counted; null: none, or its numbers
--                 are not valid any more
--   place         of the same answer
--
-- The answer is one row for each tag, in their order.  There is none where an
-- argument is out of its bounds; a number seen that is further above max_id than
-- what a loss can explain is an error.
--
--   asked         the tag
--   incarnation   the current one; null: there is no such tag
--   first, last   the segment, both included; null: none, as none was wanted,
--                 or the server has numbers of another incarnation, or max_id
--                 has come to max_value, or closed_until says why, or the tag
--                 was changed just now: ask again
--   step, delta, remainder, max_value, max_id  of the tag, as they are now
--   closed_until  no segments are given out until then; null when they are
--   is_guarded    that is as the registry was started again, and may end earlier
--   hold          as asked for, or the longest lease of this registry
--   place         where this is, and since when it runs
--   reports       how many reports of the server were written down
--
CREATE FUNCTION snowflake_take_segments(
    protocol integer, tags text[], incarnations uuid[], seen bigint[], lengths bigint[],
    hold interval, reporter uuid DEFAULT NULL, reports bigint DEFAULT NULL,
    place text DEFAULT NULL)
RETURNS SETOF snowflake_segment_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- planning would cost more than all else
SET plan_cache_mode = force_generic_plan SET timezone = 'UTC' AS $$
DECLARE
    here text := @extschema@.snowflake_registry_here();
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    RETURN QUERY
    SELECT a.* FROM @extschema@.snowflake_segments_serve(
        clock_timestamp(), here, pg_postmaster_start_time(),
        ROW(protocol, tags, incarnations, seen, lengths, hold, reporter, reports,
            place)::@extschema@.snowflake_segment_request) AS a;
END $$;
COMMENT ON FUNCTION snowflake_take_segments(integer, text[], uuid[], bigint[], bigint[], interval,
    uuid, bigint, text) IS 'called by a server to report on its tags and to take segments of them';

--
-- Make a tag.
--
--   tag           1 to 63 bytes in UTF-8
--   start         its numbers begin here, 1 or more
--   step          how many numbers a segment spans
--   delta, remainder  servers take only the numbers n with n % delta =
--                 remainder, so that others can take the rest
--   max_value     its numbers end here; null: at the end of bigint
--   description   for people; may be null
--
-- The answer:
--
--   made          false: there is one already; with max_id: its numbers came from
--                 a registry, and start has to be above that and all of them
--   max_id        the first segment begins above it.  That is start - 1, but
--                 more where the tag was dropped before: servers may still
--                 have its numbers
--
-- Arguments out of bounds fail by the constraints of the table.
--
CREATE FUNCTION snowflake_create_tag(
    tag text, start bigint, step integer, delta integer, remainder integer, max_value bigint,
    description text, OUT made boolean, OUT max_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    INSERT INTO @extschema@.snowflake_segment_tag AS s (tag, incarnation, max_id, step, delta,
        remainder, max_value, description, created_at)
    VALUES (tag, gen_random_uuid(), start - 1, step, delta, remainder, max_value, description,
        statement_timestamp())
    ON CONFLICT ON CONSTRAINT snowflake_segment_tag_pkey DO UPDATE
        SET (incarnation, max_id, step, delta, remainder, max_value, description, created_at,
             fetched_at, fetches, dropped_at, is_moved)
            = (excluded.incarnation, greatest(s.max_id, excluded.max_id), excluded.step,
               excluded.delta, excluded.remainder, excluded.max_value, excluded.description,
               excluded.created_at, NULL, 0, NULL, false)
        WHERE s.dropped_at IS NOT NULL AND (NOT s.is_moved OR excluded.max_id >= s.max_id)
    RETURNING s.max_id INTO max_id;
    made := FOUND;
    IF NOT made THEN
        SELECT s.max_id INTO max_id
        FROM @extschema@.snowflake_segment_tag AS s
        WHERE s.tag = snowflake_create_tag.tag AND s.dropped_at IS NOT NULL;
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_create_tag(text, bigint, integer, integer, integer, bigint, text) IS
'called by a server for snowflake_segment_create(); false if the tag exists';

--
-- Change a tag: all that is not null, or nothing.  What servers have of it
-- they use up.
--
--   start         the next segment begins here, above all that were given out
--   step          at least delta
--   max_value     at least the highest number given out, and start - 1
--
-- The answer:
--
--   known         false: there is no such tag
--   changed       false: an argument is out of these bounds
--   max_id, delta  as they are now
--
CREATE FUNCTION snowflake_alter_tag(
    tag text, start bigint, step integer, max_value bigint, description text, OUT known boolean,
    OUT changed boolean, OUT max_id bigint, OUT delta integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t @extschema@.snowflake_segment_tag;
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    SELECT s.* INTO t FROM @extschema@.snowflake_segment_tag AS s
    WHERE s.tag = snowflake_alter_tag.tag AND s.dropped_at IS NULL
    FOR UPDATE;
    known := t.tag IS NOT NULL;
    changed := known
               AND coalesce(start > t.max_id, true)
               AND coalesce(step >= t.delta, true)
               -- a report may have raised max_id above max_value
               AND (num_nonnulls(start, max_value) = 0
                    OR coalesce(max_value, t.max_value, 9223372036854775807)
                       >= greatest(t.max_id, greatest(start, 2::bigint) - 1));
    IF changed THEN
        UPDATE @extschema@.snowflake_segment_tag AS s
        SET max_id = coalesce(start - 1, s.max_id),
            step = coalesce(snowflake_alter_tag.step, s.step),
            max_value = coalesce(snowflake_alter_tag.max_value, s.max_value),
            description = coalesce(snowflake_alter_tag.description, s.description)
        WHERE s.tag = t.tag
        RETURNING s.* INTO t;
    END IF;
    max_id := t.max_id;
    delta := t.delta;
END $$;
COMMENT ON FUNCTION snowflake_alter_tag(text, bigint, integer, bigint, text) IS
'called by a server for snowflake_segment_alter()';

-- Servers that have numbers of the tag learn of it when they report next, and
-- then give out no more of them.  So its row stays, and a tag of the same name
-- goes on above them.  With "forget" also the row goes, and what was dropped
-- before: then a new tag may begin anywhere.  False when there is nothing to
-- remove.
--
-- Not while servers are to report what the registry has lost: what they have of a
-- dropped tag would not be written down, so that a new one could begin in it.  That
-- is also where this is the first call after a promotion or a restart.
CREATE FUNCTION snowflake_drop_tag(tag text, forget boolean, OUT removed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' AS $$
DECLARE
    here text := @extschema@.snowflake_registry_here();
    at timestamptz := clock_timestamp();
    r @extschema@.snowflake_registry_place;
    t @extschema@.snowflake_segment_tag;
BEGIN
    PERFORM @extschema@.snowflake_registry_durable();
    IF forget IS NOT TRUE THEN
        r := @extschema@.snowflake_registry_arrive(at, here, pg_postmaster_start_time(),
            CASE WHEN EXISTS (SELECT FROM pg_extension AS e WHERE e.extname = 'snowflake_home')
                 THEN interval '0' ELSE interval '10 s' END, r);
    END IF;
    IF greatest(r.closed_until, r.guarded_until) > at THEN
        RAISE EXCEPTION 'cannot drop a tag while the registry is not open'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Servers may have numbers of the tag that the registry does not '
                           'know of.',
                  HINT = 'Try again when the view snowflake_registry shows that it is open.';
    END IF;
    SELECT s.* INTO t FROM @extschema@.snowflake_segment_tag AS s
    WHERE s.tag = snowflake_drop_tag.tag
    FOR UPDATE;
    removed := t.tag IS NOT NULL AND (t.dropped_at IS NULL OR forget IS TRUE);

    IF forget THEN
        DELETE FROM @extschema@.snowflake_segment_tag AS s
        WHERE s.tag = t.tag;
    ELSIF removed THEN
        UPDATE @extschema@.snowflake_segment_tag AS s
        SET dropped_at = statement_timestamp()
        WHERE s.tag = t.tag;
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_drop_tag(text, boolean) IS
'called by a server for snowflake_segment_drop(); false if there is no such tag';

CREATE VIEW snowflake_segments AS
    SELECT s.tag, s.max_id, s.step, s.delta, s.remainder, e.max_value,
           pg_catalog.round(s.max_id::numeric / e.max_value::numeric, 4) AS used_fraction,
           s.fetches, s.fetched_at, s.created_at, s.description
    FROM snowflake_segment_tag AS s
    CROSS JOIN LATERAL (SELECT nullif(s.max_value, 9223372036854775807)) AS e (max_value)
    WHERE s.dropped_at IS NULL;
COMMENT ON VIEW snowflake_segments IS
'one row for each tag: how many of its numbers were given out, its step and its end';
COMMENT ON COLUMN snowflake_segments.tag IS 'name of the tag';
COMMENT ON COLUMN snowflake_segments.max_id IS 'highest number given to any server';
COMMENT ON COLUMN snowflake_segments.step IS 'how many numbers a segment spans at least';
COMMENT ON COLUMN snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.max_value IS
'last number of the tag; null if it is the largest bigint';
COMMENT ON COLUMN snowflake_segments.used_fraction IS
'max_id as a fraction of max_value; null without max_value';
COMMENT ON COLUMN snowflake_segments.fetches IS 'number of segments given to servers';
COMMENT ON COLUMN snowflake_segments.fetched_at IS 'when the last segment was given to a server';
COMMENT ON COLUMN snowflake_segments.created_at IS 'when the tag was created';
COMMENT ON COLUMN snowflake_segments.description IS 'description of the tag, for people';

-- For servers and the owner only.  Somebody's operators may be in the schema.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT d.objid FROM pg_catalog.pg_depend AS d, pg_catalog.pg_extension AS e
             WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry'::name
               AND d.refobjid OPERATOR(pg_catalog.=) e.oid
               AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
               AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$;

-- Now, so that a claim that is lost before any other is missed.
INSERT INTO snowflake_registry_place (place, started_at)
VALUES (snowflake_registry_here(), pg_catalog.pg_postmaster_start_time());

--
-- Names
--
-- A function of somebody's that has the name of one of these, with other arguments: a call of
-- it with literals without a type could come to mean this one.
DO $$
DECLARE
    theirs text := (SELECT pg_catalog.min(p.oid::regprocedure::text)
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        JOIN pg_catalog.pg_proc AS o ON o.oid OPERATOR(pg_catalog.=) d.objid
        JOIN pg_catalog.pg_proc AS p ON p.proname OPERATOR(pg_catalog.=) o.proname
            AND p.pronamespace OPERATOR(pg_catalog.=) o.pronamespace
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS m
              WHERE m.objid OPERATOR(pg_catalog.=) p.oid
                AND m.classid OPERATOR(pg_catalog.=) d.classid
                AND m.refobjid OPERATOR(pg_catalog.=) e.oid
                AND m.refclassid OPERATOR(pg_catalog.=) d.refclassid));
BEGIN
    IF theirs IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_function',
            MESSAGE = pg_catalog.format('function %s exists already', theirs),
            DETAIL = 'The extension "snowflake_registry" has a function of that name, '
                     'which calls of the other one could come to mean.',
            HINT = 'Rename that function, or create the extension in another schema: '
                   'CREATE SCHEMA ext; CREATE EXTENSION snowflake_registry SCHEMA ext';
    END IF;
END $$;

--
-- Rights
--
-- Nobody but the owner has any from here on, whatever default privileges the role has that
-- creates the extension.  Everybody may call the functions that are not revoked above: the
-- server has noted the initial privileges of those that are.  With TRIGGER on a table that
-- SECURITY DEFINER functions or the workers write, a role could run its own code as the owner.
-- Somebody's operators may be in the schema.
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT p.oid::regprocedure::text AS name
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) d.objid
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
          AND NOT pg_catalog.has_function_privilege('public'::name, p.oid, 'EXECUTE'::text)
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_init_privs AS i
              WHERE i.objoid OPERATOR(pg_catalog.=) p.oid
                AND i.classoid OPERATOR(pg_catalog.=) d.classid)
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', r.name);
    END LOOP;
    FOR r IN SELECT m.kind, m.name, CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::oid THEN 'PUBLIC'
                    ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END AS role
        FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid
        CROSS JOIN LATERAL (
            SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname), n.nspacl, n.nspowner
            FROM pg_catalog.pg_namespace AS n
            WHERE n.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::regclass::oid
            UNION ALL
            SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S'::"char" THEN 'SEQUENCE'
                    ELSE 'TABLE' END, c.oid::regclass::text, c.relacl, c.relowner
            FROM pg_catalog.pg_class AS c
            WHERE c.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::regclass::oid
            UNION ALL
            SELECT 'FUNCTION', p.oid::regprocedure::text, p.proacl, p.proowner
            FROM pg_catalog.pg_proc AS p
            WHERE p.oid OPERATOR(pg_catalog.=) d.objid
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid
        ) AS m (kind, name, acl, owner)
        CROSS JOIN LATERAL pg_catalog.aclexplode(m.acl) AS a
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry'::name
          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
          AND a.grantee OPERATOR(pg_catalog.<>) m.owner
          AND (m.kind OPERATOR(pg_catalog.<>) 'FUNCTION'::text
               OR a.grantee OPERATOR(pg_catalog.<>) 0::oid)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s', r.kind, r.name, r.role);
    END LOOP;
END $$;

GRANT SELECT ON snowflake_registry TO pg_monitor;
GRANT SELECT ON snowflake_nodes TO pg_monitor;
GRANT SELECT ON snowflake_node_counts TO pg_monitor;
GRANT SELECT ON snowflake_segments TO PUBLIC;
