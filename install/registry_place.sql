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
