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
