--
-- Segments: spans of the number line, each given to one server, which gives
-- the numbers out one by one.
--
-- An extension of its own, in pure SQL, in the database that the setting
-- snowflake.registry names, or else in the server's home database.  It has no
-- secrets, so that a role that may dump the database can dump it too.  It
-- belongs to the role that creates it, superuser or not.
--
-- The fence that keeps two servers from the same numbers is max_id of a tag,
-- the highest number given to any server: it only grows, and a server uses a
-- segment only once the commit that raised it was confirmed.  What it has not used
-- when it stops is given to nobody.
--
-- A registry that was restored, promoted, or started again may know less than it
-- once did: then max_id may be too low.  But the servers know what they were
-- told, and report it: the highest numbers, and how many of their reports were
-- written down.  So the registry is in one of three states:
--
--   open     segments are given out
--   guarded  it was started again.  It opens when a server has reported what it
--            was told, and that is not lost, and all that had numbers then have
--            reported; else after the longest time that servers go on without
--            reports ("hold"), as if it had closed
--   closed   it is in another place than before, or a server was told more than
--            is known here: until all servers that may have numbers that are not
--            known here have reported them, or give out none any more
--
-- While guarded or closed, reports raise max_id, and nothing is given out.
--
-- The functions that are called from outside are SECURITY DEFINER, so that a
-- role which may call them needs no rights to the tables, and they alone look at
-- a clock: "now" is statement_timestamp(), when the request arrived, never
-- before it was sent.  The others take the time ("at"), the place ("here") and
-- when the server was started as arguments, so that tests can be at any time and
-- in any place.
--
-- In all functions search_path is pg_catalog, whatever the caller has, and what
-- is of this extension has the schema with it.  So it cannot be moved.
--
-- Being VOLATILE, the functions take a new snapshot for each statement: what is
-- below a lock sees what was committed while waiting for it.  (In a transaction
-- that is REPEATABLE READ it does not, and ends with a serialization failure.)
--
-- Locks are taken in this order: the row of snowflake_segment_place, if it is to
-- change; rows of tags, in the order of the tags, so that servers that ask for
-- the same tags wait for each other, and do not end in a deadlock; the row of the
-- server.  A report without news locks nothing.
--

CREATE TABLE snowflake_segment_tag (
    tag text PRIMARY KEY
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
    CONSTRAINT snowflake_segment_tag_delta_check CHECK (delta BETWEEN 1 AND step),
    CONSTRAINT snowflake_segment_tag_remainder_check CHECK (remainder >= 0 AND remainder < delta)
);
COMMENT ON TABLE snowflake_segment_tag IS
'one row for each tag, also for those dropped: the highest number given to any server, and how the '
'next are given; use the view snowflake_segments';

CREATE TABLE snowflake_segment_place (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place text NOT NULL,
    hold interval NOT NULL,
    closed_until timestamptz NOT NULL CHECK (closed_until < timestamptz 'infinity'),
    started_at timestamptz NOT NULL DEFAULT '-infinity',
    guarded_from timestamptz NOT NULL DEFAULT '-infinity',
    guarded_until timestamptz NOT NULL DEFAULT '-infinity'
        CHECK (guarded_until < timestamptz 'infinity'),
    is_proved boolean NOT NULL DEFAULT false,
    loses_nothing boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE snowflake_segment_place IS
'the place that the segments were last given out in, and until when none are because they came '
'there from another or were started again; that is for the time "hold"';

CREATE TABLE snowflake_segment_server (
    -- made at random by each start of a server, and no secret
    reporter uuid PRIMARY KEY,
    -- how often this row was written
    reports bigint NOT NULL,
    reported_at timestamptz NOT NULL,
    hold interval NOT NULL,
    -- of the registry, as of the last report: tells what was reported since it
    -- was started, also when its clock was set back
    started_at timestamptz NOT NULL
) WITH (fillfactor = 50);       -- reports are HOT updates
COMMENT ON TABLE snowflake_segment_server IS
'one row for each start of a server that has reported lately: what it was told of that shows '
'whether the registry has lost something since';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_tag', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_place', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_server', '');

GRANT SELECT ON snowflake_segment_tag, snowflake_segment_place, snowflake_segment_server TO PUBLIC;

-- The arguments and the answer of snowflake_take_segments(), which see.
CREATE TYPE snowflake_segment_request AS (
    tags text[],
    incarnations uuid[],
    seen bigint[],
    lengths bigint[],
    hold interval,
    reporter uuid,
    reports bigint,
    place text
);
COMMENT ON TYPE snowflake_segment_request IS
'what a server says when it reports, and asks for segments';

CREATE TYPE snowflake_segment_answer AS (
    asked text,
    incarnation uuid,
    first bigint,
    last bigint,
    step integer,
    delta integer,
    remainder integer,
    max_value bigint,
    max_id bigint,
    closed_until timestamptz,
    is_guarded boolean,
    place text,
    reports bigint
);
COMMENT ON TYPE snowflake_segment_answer IS 'what a server is told of a tag';

-- System identifier, timeline, database, table.  Fails on a standby, as all
-- here does.
CREATE FUNCTION snowflake_segments_here()
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT concat_ws('/', c.system_identifier,
                       left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid,
                       '@extschema@.snowflake_segment_tag'::regclass::oid)
            FROM pg_control_system() AS c, pg_database AS d
            WHERE d.datname = current_database());
END $$;
COMMENT ON FUNCTION snowflake_segments_here() IS
'where these segments are: the same only in the same database on the same timeline';
REVOKE ALL ON FUNCTION snowflake_segments_here() FROM PUBLIC;

-- What servers are told: a place, and when it was last closed, or was on a guard
-- that ran out.  So they notice each time after which others may have their
-- numbers.  This one is SQL, so that it becomes part of what calls it.
CREATE FUNCTION snowflake_segments_stay(here text, closed_until timestamptz)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.concat_ws('/', here,
    CASE WHEN closed_until = timestamptz '-infinity' THEN 0
         ELSE (extract(epoch FROM closed_until) * 1000000.0)::bigint END);
COMMENT ON FUNCTION snowflake_segments_stay(text, timestamptz) IS
'where these segments are, and since when: another one after each closing';
REVOKE ALL ON FUNCTION snowflake_segments_stay(text, timestamptz) FROM PUBLIC;

CREATE FUNCTION snowflake_segments_valid(ask snowflake_segment_request)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce(cardinality(ask.tags) = cardinality(ask.incarnations)
        AND cardinality(ask.tags) = cardinality(ask.seen)
        AND cardinality(ask.tags) = cardinality(ask.lengths)
        -- neither null nor twice
        AND cardinality(ask.tags) = (SELECT count(DISTINCT t.tag) FROM unnest(ask.tags) AS t (tag))
        AND 0 <= ALL (ask.seen)
        AND coalesce(ask.reports, 0) >= 0
        AND ask.hold BETWEEN interval '0' AND interval '1000 years', false);
END $$;
COMMENT ON FUNCTION snowflake_segments_valid(snowflake_segment_request) IS
'whether the arguments of snowflake_take_segments are in their bounds';
REVOKE ALL ON FUNCTION snowflake_segments_valid(snowflake_segment_request) FROM PUBLIC;

-- Where nothing is noted, nothing was given out yet, or somebody has deleted the
-- note: then that is another place, too.
CREATE FUNCTION snowflake_segments_note(here text, started timestamptz)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO @extschema@.snowflake_segment_place (place, hold, closed_until, started_at)
    SELECT CASE WHEN EXISTS (SELECT FROM @extschema@.snowflake_segment_tag AS s WHERE s.fetches > 0)
                THEN '' ELSE here END,
           interval '0', timestamptz '-infinity', started
    WHERE NOT EXISTS (SELECT FROM @extschema@.snowflake_segment_place)
    ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION snowflake_segments_note(text, timestamptz) IS
'notes where these segments are when nothing is noted';
REVOKE ALL ON FUNCTION snowflake_segments_note(text, timestamptz) FROM PUBLIC;

--
-- Come to a place, or be started again, or stay, which is so by far the most
-- often: then the row "r", as the caller has read it, is returned.  Else the row
-- is locked.
--
-- In another place than before, after a promotion or a restore, the last
-- segments given out may be missing, so the registry closes, for as long as any
-- server said ("hold"), but for another timeline where its operator says that
-- promotions lose nothing.  Started again in the same place, it is on its guard,
-- if there are tags: the first segments given out of them may be lost as well.
-- With a hold of 0, as in a home database, there is neither.
--
CREATE FUNCTION snowflake_segments_arrive(
    at timestamptz, here text, started timestamptz, hold interval, r snowflake_segment_place)
RETURNS snowflake_segment_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    until timestamptz;
    moved boolean;
BEGIN
    IF r.place = here AND r.started_at = started AND r.hold >= hold
       AND (r.guarded_until = '-infinity' OR r.guarded_until > at) THEN
        RETURN r;
    END IF;

    PERFORM @extschema@.snowflake_segments_note(here, started);
    SELECT p.* INTO STRICT r FROM @extschema@.snowflake_segment_place AS p FOR UPDATE;

    r.hold := greatest(r.hold, hold);
    until := at + r.hold;

    -- a guard that nobody ended: what was lost may be in use, or was
    IF r.guarded_until > '-infinity' AND r.guarded_until <= at THEN
        r.closed_until := greatest(r.closed_until, r.guarded_until);
        r.guarded_until := '-infinity';
    END IF;

    IF r.place <> here OR r.started_at <> started THEN
        moved := r.place <> here
            AND NOT (r.loses_nothing
                AND regexp_replace(r.place, '/[^/]*', '') = regexp_replace(here, '/[^/]*', ''));
        IF moved THEN
            r.closed_until := greatest(r.closed_until, until);
            r.guarded_until := '-infinity';
        ELSIF r.place = here AND until > at
              AND EXISTS (SELECT FROM @extschema@.snowflake_segment_tag) THEN
            r.guarded_from := least(started, at,
                                    CASE WHEN r.guarded_until > at THEN r.guarded_from END);
            r.guarded_until := greatest(r.guarded_until, until);
        END IF;
        r.is_proved := false;
        r.place := here;
        r.started_at := started;
    END IF;

    UPDATE @extschema@.snowflake_segment_place AS p
    SET place = r.place, hold = r.hold, closed_until = r.closed_until, started_at = r.started_at,
        guarded_from = r.guarded_from, guarded_until = r.guarded_until, is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_segments_arrive(timestamptz, text, timestamptz, interval,
    snowflake_segment_place) IS
'closes the registry in another place, and puts it on its guard when it was started again';
REVOKE ALL ON FUNCTION snowflake_segments_arrive(timestamptz, text, timestamptz, interval,
    snowflake_segment_place) FROM PUBLIC;

--
-- Compare what the server was told with the record: "own", its row.  One that
-- was told more ("is_ahead") shows that the record has lost something: close.
-- That is not for longer than a guard, or a closing, which lasts already: what
-- was lost was given out before that began.
--
-- One that has numbers, and was told no more, shows that the record has lost
-- nothing up to its last report that was written.  (Of its last report it may not
-- know whether that was written: so one more is fine.)  What it sends was told
-- before the guard began, see snowflake_segments_report().
--
-- The guard ends early when all others that may have had numbers at the start
-- have reported, too.  Where one has not, it may be the one that was told more:
-- then the guard lasts for its full time.
--
CREATE FUNCTION snowflake_segments_compare(
    at timestamptz, ask snowflake_segment_request, own snowflake_segment_server, is_ahead boolean,
    r snowflake_segment_place)
RETURNS snowflake_segment_place LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_proof boolean := coalesce(
        own.started_at <> r.started_at AND own.reports - ask.reports BETWEEN 0 AND 1, false);
BEGIN
    -- most often nothing is to change
    IF r.hold = interval '0' OR NOT is_ahead AND r.guarded_until <= at THEN
        RETURN r;
    ELSIF NOT is_ahead AND (r.is_proved OR NOT is_proof) THEN
        IF NOT r.is_proved OR @extschema@.snowflake_segments_awaited(r, ask.reporter) THEN
            RETURN r;
        END IF;
    END IF;

    SELECT p.* INTO STRICT r FROM @extschema@.snowflake_segment_place AS p FOR UPDATE;
    IF is_ahead THEN
        r.closed_until := greatest(r.closed_until,
                                   CASE WHEN r.guarded_until > at THEN r.guarded_until
                                        WHEN r.closed_until <= at THEN at + r.hold END);
        r.guarded_until := '-infinity';
    ELSIF r.guarded_until > at THEN
        r.is_proved := r.is_proved OR is_proof;
        IF r.is_proved AND NOT @extschema@.snowflake_segments_awaited(r, ask.reporter) THEN
            r.guarded_until := '-infinity';
        END IF;
    END IF;

    UPDATE @extschema@.snowflake_segment_place AS p
    SET closed_until = r.closed_until, guarded_until = r.guarded_until, is_proved = r.is_proved;
    RETURN r;
END $$;
COMMENT ON FUNCTION snowflake_segments_compare(timestamptz, snowflake_segment_request,
    snowflake_segment_server, boolean, snowflake_segment_place) IS
'closes the registry when a server was told more, and ends its guard when it has lost nothing';
REVOKE ALL ON FUNCTION snowflake_segments_compare(timestamptz, snowflake_segment_request,
    snowflake_segment_server, boolean, snowflake_segment_place) FROM PUBLIC;

-- A server gives out numbers for "hold" after a report, and each report is
-- written that is a twentieth of that after the last.  "except" is the one that
-- reports now.
CREATE FUNCTION snowflake_segments_awaited(r snowflake_segment_place, except_of uuid)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @extschema@.snowflake_segment_server AS s
                   WHERE s.started_at <> r.started_at AND s.reporter IS DISTINCT FROM except_of
                     AND s.reported_at + s.hold + s.hold / 20 >= r.guarded_from);
END $$;
COMMENT ON FUNCTION snowflake_segments_awaited(snowflake_segment_place, uuid) IS
'whether a server that may have numbers has not reported since the registry was started';
REVOKE ALL ON FUNCTION snowflake_segments_awaited(snowflake_segment_place, uuid) FROM PUBLIC;

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
    r snowflake_segment_place)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ask.reports IS NULL AND r.guarded_until > at THEN
        RETURN NULL;
    ELSIF ask.reporter IS NULL
       OR own.reporter IS NULL AND cardinality(ask.tags) = 0 AND ask.reports IS NULL
       OR own.started_at = r.started_at AND own.hold = ask.hold AND NOT takes
          AND own.reports >= coalesce(ask.reports, 0)
          AND own.reported_at BETWEEN at - ask.hold / 20 AND at THEN
        RETURN own.reports;
    END IF;

    -- those that were stopped some time ago; not while one may be waited for
    IF own.reporter IS NULL AND r.guarded_until <= at THEN
        DELETE FROM @extschema@.snowflake_segment_server AS s
        WHERE s.reporter IN (SELECT o.reporter FROM @extschema@.snowflake_segment_server AS o
                             WHERE o.reported_at + 2 * o.hold < at
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
    snowflake_segment_server, boolean, snowflake_segment_place) IS
'writes down that a server has reported, when that is due';
REVOKE ALL ON FUNCTION snowflake_segments_report(timestamptz, snowflake_segment_request,
    snowflake_segment_server, boolean, snowflake_segment_place) FROM PUBLIC;

-- Which tags of a request are to change, by their places in it, as is known before
-- they are locked: "told" are those of which the server has seen more than is on
-- record, "wanted" others of which it can be given something.
CREATE FUNCTION snowflake_segments_due(
    ask snowflake_segment_request, OUT told integer[], OUT wanted integer[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT coalesce(array_agg(c.n) FILTER (WHERE c.is_told), '{}'),
           coalesce(array_agg(c.n) FILTER (WHERE c.is_wanted AND NOT c.is_told), '{}')
    INTO told, wanted
    FROM (SELECT a.n,
                 coalesce(a.incarnation = s.incarnation, false) AND a.seen > s.max_id AS is_told,
                 a.length > 0 AND coalesce(a.incarnation = s.incarnation, true)
                 AND s.max_id < coalesce(s.max_value, 9223372036854775807) AS is_wanted
          FROM ROWS FROM (unnest(ask.tags), unnest(ask.incarnations), unnest(ask.seen),
                          unnest(ask.lengths))
               WITH ORDINALITY AS a (tag, incarnation, seen, length, n)
          JOIN @extschema@.snowflake_segment_tag AS s ON s.tag = a.tag AND s.dropped_at IS NULL
          OFFSET 0) AS c;
END $$;
COMMENT ON FUNCTION snowflake_segments_due(snowflake_segment_request) IS
'which tags snowflake_take_segments has to change';
REVOKE ALL ON FUNCTION snowflake_segments_due(snowflake_segment_request) FROM PUBLIC;

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
    boolean) IS
'gives a server numbers of a tag';
REVOKE ALL ON FUNCTION snowflake_segments_give(timestamptz, snowflake_segment_request, integer,
    boolean) FROM PUBLIC;

--
-- The whole of a request, whatever the state.
--
CREATE FUNCTION snowflake_segments_serve(
    at timestamptz, here text, started timestamptz, ask snowflake_segment_request)
RETURNS SETOF snowflake_segment_answer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_segment_place;
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
    IF NOT @extschema@.snowflake_segments_valid(ask) THEN
        RETURN;
    END IF;
    IF ask.hold = interval '0' THEN
        ask.reporter := NULL;
    END IF;
    -- what another registry has told says nothing of this one
    IF ask.reporter IS NULL
       OR starts_with(regexp_replace(ask.place, '/[^/]*', ''),
                      regexp_replace(here, '/[^/]*', '') || '/') IS NOT TRUE THEN
        ask.reports := NULL;
    END IF;

    SELECT p.* INTO r FROM @extschema@.snowflake_segment_place AS p;
    SELECT s.* INTO own FROM @extschema@.snowflake_segment_server AS s
    WHERE s.reporter = ask.reporter;
    due := @extschema@.snowflake_segments_due(ask);
    r := @extschema@.snowflake_segments_arrive(at, here, started, ask.hold, r);
    r := @extschema@.snowflake_segments_compare(at, ask, own,
             due.told <> '{}' OR coalesce(ask.reports > coalesce(own.reports, -1), false), r);

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
    SELECT a.tag, s.incarnation, firsts[a.n], lasts[a.n], s.step, s.delta, s.remainder,
           s.max_value, s.max_id,
           CASE WHEN NOT is_open THEN greatest(r.closed_until, r.guarded_until) END,
           NOT is_open AND r.closed_until <= at,
           @extschema@.snowflake_segments_stay(here, r.closed_until), reports
    FROM unnest(ask.tags) WITH ORDINALITY AS a (tag, n)
    LEFT JOIN @extschema@.snowflake_segment_tag AS s ON s.tag = a.tag AND s.dropped_at IS NULL
    ORDER BY a.n;
END $$;
COMMENT ON FUNCTION snowflake_segments_serve(timestamptz, text, timestamptz,
    snowflake_segment_request) IS
'what snowflake_take_segments does, at a time and in a place';
REVOKE ALL ON FUNCTION snowflake_segments_serve(timestamptz, text, timestamptz,
    snowflake_segment_request) FROM PUBLIC;

--
-- Report what a server has of tags, and take a segment of each that it wants
-- one of.  The server that calls this counts the answer only when the commit
-- was confirmed; what it was given when it was not is lost.  A report that
-- changes nothing mostly writes nothing.
--
-- The arrays go together, with one element for each tag:
--
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
--                 answer; 0: no other server is there
--   reporter      tells this start of the server from others; null: it takes no
--                 part in showing what this registry has lost
--   reports       of the last answer that counted; null: none, or its numbers
--                 are not valid any more
--   place         of the same answer
--
-- The answer is one row for each tag, in their order.  There is none where an
-- argument is out of its bounds.
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
--   place         where this is, and since when it runs
--   reports       how many reports of the server were written down
--
CREATE FUNCTION snowflake_take_segments(
    tags text[], incarnations uuid[], seen bigint[], lengths bigint[], hold interval,
    reporter uuid DEFAULT NULL, reports bigint DEFAULT NULL, place text DEFAULT NULL)
RETURNS SETOF snowflake_segment_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- planning would cost more than all else
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    -- what is told counts once it is committed, so that has to be durable
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN QUERY
    SELECT a.* FROM @extschema@.snowflake_segments_serve(
        statement_timestamp(), @extschema@.snowflake_segments_here(), pg_postmaster_start_time(),
        ROW(tags, incarnations, seen, lengths, hold, reporter, reports,
            place)::@extschema@.snowflake_segment_request) AS a;
END $$;
COMMENT ON FUNCTION snowflake_take_segments(text[], uuid[], bigint[], bigint[], interval, uuid,
    bigint, text) IS
'called by a server to report what it has of tags, and to take segments of them';
REVOKE ALL ON FUNCTION snowflake_take_segments(text[], uuid[], bigint[], bigint[], interval, uuid,
    bigint, text) FROM PUBLIC;

-- For where the registry was promoted and has lost nothing, as only synchronous
-- standbys are promoted: it need not close.
CREATE FUNCTION snowflake_segments_open(
    at timestamptz, here text, started timestamptz, always boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r @extschema@.snowflake_segment_place :=
        @extschema@.snowflake_segments_arrive(at, here, started, interval '0', NULL);
BEGIN
    UPDATE @extschema@.snowflake_segment_place AS p
    SET closed_until = least(p.closed_until, at),
        guarded_until = '-infinity',
        loses_nothing = coalesce(always, p.loses_nothing);
    RETURN r.closed_until > at OR r.guarded_until > at;
END $$;
COMMENT ON FUNCTION snowflake_segments_open(timestamptz, text, timestamptz, boolean) IS
'what snowflake_open_segments does, at a time and in a place';
REVOKE ALL ON FUNCTION snowflake_segments_open(timestamptz, text, timestamptz, boolean) FROM PUBLIC;

CREATE FUNCTION snowflake_open_segments(always boolean DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- what is told counts once it is committed, so that has to be durable
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN @extschema@.snowflake_segments_open(statement_timestamp(),
        @extschema@.snowflake_segments_here(), pg_postmaster_start_time(), always);
END $$;
COMMENT ON FUNCTION snowflake_open_segments(boolean) IS
'after a promotion or a restart that has lost no transaction: give out segments at once; with '
'true, also do not close after promotions to come, with false do; if a segment was lost after all, '
'two servers can give out the same numbers; false when the registry was open already';
REVOKE ALL ON FUNCTION snowflake_open_segments(boolean) FROM PUBLIC;

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
--   made          false: there is one already
--   max_id        the first segment begins above it.  That is start - 1, but
--                 more where the tag was dropped before: servers may still
--                 have its numbers
--
-- Arguments out of bounds fail by the constraints of the table.  The place is
-- noted now: if the first segments given out are lost, their tag shows that.
--
CREATE FUNCTION snowflake_create_tag(
    tag text, start bigint, step integer, delta integer, remainder integer, max_value bigint,
    description text, OUT made boolean, OUT max_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.snowflake_segments_note(
        @extschema@.snowflake_segments_here(), pg_postmaster_start_time());

    INSERT INTO @extschema@.snowflake_segment_tag AS s (tag, incarnation, max_id, step, delta,
        remainder, max_value, description, created_at)
    VALUES (tag, gen_random_uuid(), start - 1, step, delta, remainder, max_value, description,
        statement_timestamp())
    ON CONFLICT ON CONSTRAINT snowflake_segment_tag_pkey DO UPDATE
        SET (incarnation, max_id, step, delta, remainder, max_value, description, created_at,
             fetched_at, fetches, dropped_at)
            = (excluded.incarnation, greatest(s.max_id, excluded.max_id), excluded.step,
               excluded.delta, excluded.remainder, excluded.max_value, excluded.description,
               excluded.created_at, NULL, 0, NULL)
        WHERE s.dropped_at IS NOT NULL
    RETURNING s.max_id INTO max_id;
    made := FOUND;
END $$;
COMMENT ON FUNCTION snowflake_create_tag(text, bigint, integer, integer, integer, bigint, text) IS
'called by a server for snowflake_segment_create(): make a tag, of which segments are given out';
REVOKE ALL ON FUNCTION snowflake_create_tag(text, bigint, integer, integer, integer, bigint, text)
    FROM PUBLIC;

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
'called by a server for snowflake_segment_alter(): change where the next segment of a tag begins, '
'its step, its end, or its description';
REVOKE ALL ON FUNCTION snowflake_alter_tag(text, bigint, integer, bigint, text) FROM PUBLIC;

-- Servers that have numbers of the tag learn of it when they report next, and
-- then give out no more of them.  So its row stays, and a tag of the same name
-- goes on above them.  With "forget" also the row goes, and what was dropped
-- before: then a new tag may begin anywhere.  False when there is nothing to
-- remove.
CREATE FUNCTION snowflake_drop_tag(tag text, forget boolean, OUT removed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t @extschema@.snowflake_segment_tag;
BEGIN
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
'called by a server for snowflake_segment_drop(): drop a tag, and with true also forget which of '
'its numbers were given out; false when there is none';
REVOKE ALL ON FUNCTION snowflake_drop_tag(text, boolean) FROM PUBLIC;

CREATE VIEW snowflake_segments AS
    SELECT s.tag, s.max_id, s.step, s.delta, s.remainder, s.max_value,
           pg_catalog.round(s.max_id::numeric / s.max_value::numeric, 4) AS used_fraction,
           s.fetches, s.fetched_at, s.created_at, s.description
    FROM snowflake_segment_tag AS s
    WHERE s.dropped_at IS NULL;
COMMENT ON VIEW snowflake_segments IS
'one row for each tag: the highest number given to any server, how segments are given out, and '
'which share of all its numbers that is';
COMMENT ON COLUMN snowflake_segments.tag IS 'name of the tag';
COMMENT ON COLUMN snowflake_segments.max_id IS 'highest number given to any server';
COMMENT ON COLUMN snowflake_segments.step IS 'how many numbers a segment spans at least';
COMMENT ON COLUMN snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.max_value IS
'last number of the tag; null when it is that of bigint';
COMMENT ON COLUMN snowflake_segments.used_fraction IS
'share of all numbers that is given to servers, from 0 to 1; null without max_value';
COMMENT ON COLUMN snowflake_segments.fetches IS 'number of segments given to servers';
COMMENT ON COLUMN snowflake_segments.fetched_at IS 'when the last segment was given to a server';
COMMENT ON COLUMN snowflake_segments.created_at IS 'when the tag was created';
COMMENT ON COLUMN snowflake_segments.description IS 'description of the tag, for people';

GRANT SELECT ON snowflake_segments TO PUBLIC;
