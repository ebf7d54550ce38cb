/* snowflake_segments--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_segments" to load this file. \quit

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
-- segment only once the commit that raised it was confirmed.  Where the last
-- commits were lost, in a promotion or by a restore, max_id may be too low.
-- So the database then gives out nothing for a while, in which the servers
-- report the highest numbers that they know of.
--
-- The functions are SECURITY DEFINER, so that a role which may call them needs
-- no rights to the tables.  Names in their bodies are bound when they are
-- created, whatever search_path the caller has.  "Now" in them is
-- statement_timestamp(), when the request arrived: the same in all statements
-- of a call, and never before it was sent.
--
-- Being VOLATILE, they take a new snapshot for each statement: what is below
-- a lock sees what was committed while waiting for it.  (In a transaction that
-- is REPEATABLE READ they do not, and end with a serialization failure.)  They
-- lock rows of snowflake_segment_tag in the order of the tags, so that servers that
-- ask for the same tags wait for each other, and do not end in a deadlock.
--

CREATE TABLE snowflake_segment_tag (
    tag text PRIMARY KEY CHECK (pg_catalog.octet_length(pg_catalog.convert_to(tag, 'UTF8')) BETWEEN 1 AND 63),
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
'one row for each tag, also for those dropped: the highest number given to any server, and how the next are given; use the view snowflake_segments';

CREATE TABLE snowflake_segment_kept (
    incarnation uuid,
    holder text CHECK (holder <> ''),
    first bigint CHECK (first >= 1),
    last bigint NOT NULL CHECK (last >= first),
    kept_at timestamptz NOT NULL,
    PRIMARY KEY (incarnation, holder, first)
);

COMMENT ON TABLE snowflake_segment_kept IS
'the numbers of segments that servers had not used when they were shut down, for the same servers when they start again';

CREATE TABLE snowflake_segment_place (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place text NOT NULL,
    hold interval NOT NULL,
    closed_until timestamptz NOT NULL CHECK (closed_until < timestamptz 'infinity')
);

COMMENT ON TABLE snowflake_segment_place IS
'the place that the segments were last given out in, and until when none are because they came there from another; that is for the time "hold"';

-- pg_dump takes them along.  Where they are restored is another place.
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_tag', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_kept', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_segment_place', '');

GRANT SELECT ON snowflake_segment_tag, snowflake_segment_kept, snowflake_segment_place TO PUBLIC;

-- Fails on a standby, as all that uses it does.
CREATE FUNCTION snowflake_segments_here()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT pg_catalog.concat_ws('/', c.system_identifier,
                   pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
                   d.oid, 'snowflake_segment_tag'::pg_catalog.regclass::oid)
        FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
        WHERE d.datname = pg_catalog.current_database());

COMMENT ON FUNCTION snowflake_segments_here() IS
'where these segments are: the same only in the same database on the same timeline';

REVOKE ALL ON FUNCTION snowflake_segments_here() FROM PUBLIC;

-- In another place than before, after a promotion or a restore, the last
-- segments given out may be missing, and kept ones may have been given out.
-- Close for as long as any server said; "hold" is for how long this one says,
-- null for a caller that is none.  Where nothing is noted, nothing was given
-- out yet, or somebody has deleted the note: then that is another place, too.
CREATE FUNCTION snowflake_segments_arrive(hold interval)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO snowflake_segment_place (place, hold, closed_until)
    SELECT CASE WHEN EXISTS (SELECT FROM snowflake_segment_tag AS s WHERE s.fetches > 0)
                THEN '' ELSE snowflake_segments_here() END,
        interval '0', timestamptz '-infinity'
    WHERE NOT EXISTS (SELECT FROM snowflake_segment_place)
    ON CONFLICT DO NOTHING;

    WITH moved AS (
        UPDATE snowflake_segment_place AS r
        SET place = h.place,
            closed_until = greatest(r.closed_until,
                pg_catalog.statement_timestamp() + greatest(r.hold, snowflake_segments_arrive.hold))
        FROM (SELECT snowflake_segments_here()) AS h (place)
        WHERE r.place <> h.place
          AND snowflake_segments_arrive.hold BETWEEN interval '0' AND interval '1000 years'
        RETURNING r.place)
    DELETE FROM snowflake_segment_kept
    WHERE EXISTS (SELECT FROM moved);

    UPDATE snowflake_segment_place AS r
    SET hold = snowflake_segments_arrive.hold
    WHERE r.hold < snowflake_segments_arrive.hold
      AND snowflake_segments_arrive.hold <= interval '1000 years';
END;

COMMENT ON FUNCTION snowflake_segments_arrive(interval) IS
'close when this is another place than before';

REVOKE ALL ON FUNCTION snowflake_segments_arrive(interval) FROM PUBLIC;

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
    tag text,
    start bigint,
    step integer,
    delta integer,
    remainder integer,
    max_value bigint,
    description text,
    OUT made boolean,
    OUT max_id bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT snowflake_segments_arrive(NULL::interval);

    WITH made AS (
        INSERT INTO snowflake_segment_tag AS s (tag, incarnation, max_id, step, delta, remainder, max_value,
            description, created_at)
        VALUES (snowflake_create_tag.tag, pg_catalog.gen_random_uuid(), start - 1,
            snowflake_create_tag.step, snowflake_create_tag.delta, snowflake_create_tag.remainder,
            snowflake_create_tag.max_value, snowflake_create_tag.description,
            pg_catalog.statement_timestamp())
        ON CONFLICT (tag) DO UPDATE
            SET (incarnation, max_id, step, delta, remainder, max_value, description, created_at,
                 fetched_at, fetches, dropped_at)
                = (excluded.incarnation, greatest(s.max_id, excluded.max_id), excluded.step,
                   excluded.delta, excluded.remainder, excluded.max_value, excluded.description,
                   excluded.created_at, NULL, 0, NULL)
            WHERE s.dropped_at IS NOT NULL
        RETURNING s.max_id)
    SELECT EXISTS (SELECT FROM made), (SELECT m.max_id FROM made AS m);
END;

COMMENT ON FUNCTION snowflake_create_tag(text, bigint, integer, integer, integer, bigint, text) IS
'called by a server for snowflake_segment_create(): make a tag, of which segments are given out';

REVOKE ALL ON FUNCTION snowflake_create_tag(text, bigint, integer, integer, integer, bigint, text) FROM PUBLIC;

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
--   found         false: there is no such tag
--   changed       false: an argument is out of these bounds
--   max_id, delta  as they are now
--
CREATE FUNCTION snowflake_alter_tag(
    tag text,
    start bigint,
    step integer,
    max_value bigint,
    description text,
    OUT found boolean,
    OUT changed boolean,
    OUT max_id bigint,
    OUT delta integer)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT FROM snowflake_segment_tag AS s
    WHERE s.tag = snowflake_alter_tag.tag
    FOR UPDATE;

    WITH changed AS (
        UPDATE snowflake_segment_tag AS s
        SET max_id = coalesce(start - 1, s.max_id),
            step = coalesce(snowflake_alter_tag.step, s.step),
            max_value = coalesce(snowflake_alter_tag.max_value, s.max_value),
            description = coalesce(snowflake_alter_tag.description, s.description)
        WHERE s.tag = snowflake_alter_tag.tag
          AND s.dropped_at IS NULL
          AND coalesce(start > s.max_id, true)
          AND coalesce(snowflake_alter_tag.step >= s.delta, true)
          -- a report may have raised max_id above max_value
          AND (pg_catalog.num_nonnulls(start, snowflake_alter_tag.max_value) = 0
               OR coalesce(snowflake_alter_tag.max_value, s.max_value, 9223372036854775807)
                  >= greatest(s.max_id, greatest(start, 2::bigint) - 1))
        RETURNING s.max_id)
    SELECT s.tag IS NOT NULL, EXISTS (SELECT FROM changed),
        coalesce((SELECT c.max_id FROM changed AS c), s.max_id), s.delta
    FROM (SELECT) AS one
    LEFT JOIN snowflake_segment_tag AS s
         ON s.tag = snowflake_alter_tag.tag AND s.dropped_at IS NULL;
END;

COMMENT ON FUNCTION snowflake_alter_tag(text, bigint, integer, bigint, text) IS
'called by a server for snowflake_segment_alter(): change where the next segment of a tag begins, its step, its end, or its description';

REVOKE ALL ON FUNCTION snowflake_alter_tag(text, bigint, integer, bigint, text) FROM PUBLIC;

-- Servers that have numbers of the tag learn of it when they report next, and
-- then give out no more of them.  So its row stays, and a tag of the same name
-- goes on above them.  With "forget" also the row goes, and what was dropped
-- before: then a new tag may begin anywhere.  False when there is nothing to
-- remove.
CREATE FUNCTION snowflake_drop_tag(
    tag text,
    forget boolean,
    OUT removed boolean)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT FROM snowflake_segment_tag AS s
    WHERE s.tag = snowflake_drop_tag.tag
    FOR UPDATE;

    DELETE FROM snowflake_segment_kept AS k
    USING snowflake_segment_tag AS s
    WHERE s.tag = snowflake_drop_tag.tag AND k.incarnation = s.incarnation;

    WITH dropped AS (
        UPDATE snowflake_segment_tag AS s
        SET dropped_at = pg_catalog.statement_timestamp()
        WHERE s.tag = snowflake_drop_tag.tag AND s.dropped_at IS NULL AND forget IS NOT TRUE
        RETURNING s.tag),
    forgotten AS (
        DELETE FROM snowflake_segment_tag AS s
        WHERE s.tag = snowflake_drop_tag.tag AND forget
        RETURNING s.tag)
    SELECT EXISTS (SELECT FROM dropped) OR EXISTS (SELECT FROM forgotten);
END;

COMMENT ON FUNCTION snowflake_drop_tag(text, boolean) IS
'called by a server for snowflake_segment_drop(): drop a tag, and with true also forget which of its numbers were given out; false when there is none';

REVOKE ALL ON FUNCTION snowflake_drop_tag(text, boolean) FROM PUBLIC;

CREATE FUNCTION snowflake_segments_valid(
    tags text[],
    incarnations uuid[],
    seen bigint[],
    lengths bigint[],
    hold interval)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(pg_catalog.cardinality(tags) = pg_catalog.cardinality(incarnations)
    AND pg_catalog.cardinality(tags) = pg_catalog.cardinality(seen)
    AND pg_catalog.cardinality(tags) = pg_catalog.cardinality(lengths)
    -- neither null nor twice
    AND pg_catalog.cardinality(tags)
        = (SELECT pg_catalog.count(DISTINCT t.tag) FROM pg_catalog.unnest(tags) AS t (tag))
    AND 0 <= ALL (seen)
    AND hold BETWEEN interval '0' AND interval '1000 years', false);

COMMENT ON FUNCTION snowflake_segments_valid(text[], uuid[], bigint[], bigint[], interval) IS
'whether the arguments of snowflake_take_segments are in their bounds';

REVOKE ALL ON FUNCTION snowflake_segments_valid(text[], uuid[], bigint[], bigint[], interval) FROM PUBLIC;

-- What snowflake_take_segments has to do for each tag that it is asked for, as
-- the caller's snapshot has it: "known" is what the server has seen of this
-- incarnation, "kept" the beginning of the kept rest that it gets, and "span"
-- how many new numbers it gets, above max_id and known.
CREATE FUNCTION snowflake_segments_due(
    tags text[],
    incarnations uuid[],
    seen bigint[],
    lengths bigint[],
    holder text,
    hold interval)
RETURNS TABLE (
    n bigint,
    asked text,
    incarnation uuid,
    step integer,
    delta integer,
    remainder integer,
    max_value bigint,
    max_id bigint,
    known bigint,
    kept bigint,
    span bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT a.n, a.tag, s.incarnation, s.step, s.delta, s.remainder, s.max_value, s.max_id, w.known, k.first,
        CASE WHEN w.wanted AND k.first IS NULL
             THEN greatest(0, least(greatest(a.length, s.step), greatest(s.step, 1000000),
                      coalesce(s.max_value, 9223372036854775807) - greatest(s.max_id, w.known)))
             ELSE 0 END
    FROM ROWS FROM (pg_catalog.unnest(tags), pg_catalog.unnest(incarnations), pg_catalog.unnest(seen),
                    pg_catalog.unnest(lengths)) WITH ORDINALITY AS a (tag, incarnation, seen, length, n)
    LEFT JOIN snowflake_segment_tag AS s ON s.tag = a.tag AND s.dropped_at IS NULL
    CROSS JOIN LATERAL
         (SELECT CASE WHEN a.incarnation = s.incarnation THEN a.seen ELSE 0 END,
              a.length > 0 AND s.tag IS NOT NULL
              AND coalesce(a.incarnation = s.incarnation, true)
              AND EXISTS (SELECT FROM snowflake_segment_place AS r
                          WHERE r.closed_until <= pg_catalog.statement_timestamp())) AS w (known, wanted)
    CROSS JOIN LATERAL
         (SELECT pg_catalog.min(k.first)
          FROM snowflake_segment_kept AS k
          WHERE w.wanted AND k.incarnation = s.incarnation AND k.holder = snowflake_segments_due.holder
            AND k.first > w.known) AS k (first)
    WHERE snowflake_segments_valid(tags, incarnations, snowflake_segments_due.seen, lengths, hold);
END;

COMMENT ON FUNCTION snowflake_segments_due(text[], uuid[], bigint[], bigint[], text, interval) IS
'what snowflake_take_segments has to do for each tag that it is asked for';

REVOKE ALL ON FUNCTION snowflake_segments_due(text[], uuid[], bigint[], bigint[], text, interval) FROM PUBLIC;

--
-- Report what a server has of tags, and take a segment of each that it wants
-- one of.  The server that calls this counts the answer only when the commit
-- was confirmed; what it was given when it was not is lost.  A report that
-- changes nothing writes nothing.
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
--   holder        tells the server from others, over its starts; null or ''
--                 for unknown, and then it gets nothing of what was kept
--   hold          after a promotion or a restore, give out nothing for so
--                 long: in that time the server, if it goes on to give out
--                 numbers, reports here
--
-- The answer is one row for each tag, in their order.  There is none where an
-- argument is out of its bounds.
--
--   asked         the tag
--   incarnation   the current one; null: there is no such tag
--   first, last   the segment, both included; null: none, as none was wanted,
--                 or the server has numbers of another incarnation, or max_id
--                 has come to max_value, or closed_until says why, or another
--                 request came first: ask again
--   step, delta, remainder, max_value, max_id  of the tag, as they are now
--   closed_until  no segments are given out until then; null when they are
--   place         where this is
--
CREATE FUNCTION snowflake_take_segments(
    tags text[],
    incarnations uuid[],
    seen bigint[],
    lengths bigint[],
    holder text,
    hold interval)
RETURNS TABLE (
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
    place text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    -- An answer counts once it is committed, so that has to be durable.
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local');

    SELECT snowflake_segments_arrive(hold)
    WHERE snowflake_segments_valid(tags, incarnations, seen, lengths, hold);

    -- only those that are to change
    SELECT FROM snowflake_segment_tag AS s
    WHERE s.tag IN (SELECT d.asked
                    FROM snowflake_segments_due(tags, incarnations, seen, lengths, holder, hold) AS d
                    WHERE d.span > 0 OR d.known > d.max_id)
    ORDER BY s.tag
    FOR UPDATE;

    -- What the server has seen numbers of, or above, it has used or lost.
    DELETE FROM snowflake_segment_kept AS k
    USING snowflake_segments_due(tags, incarnations, seen, lengths, snowflake_take_segments.holder, hold) AS d
    WHERE k.incarnation = d.incarnation AND k.holder = snowflake_take_segments.holder AND k.first <= d.known;

    -- A tag that has become due only since the locks were taken may be changing
    -- now: then max_id is not the same, and it has to be asked for again.
    WITH due AS MATERIALIZED (
        SELECT d.*, greatest(d.max_id, d.known) AS above
        FROM snowflake_segments_due(tags, incarnations, seen, lengths, holder, hold) AS d),
    kept AS (
        DELETE FROM snowflake_segment_kept AS k
        USING due AS d
        WHERE k.incarnation = d.incarnation AND k.holder = snowflake_take_segments.holder AND k.first = d.kept
        RETURNING d.n, k.first, k.last),
    raised AS (
        UPDATE snowflake_segment_tag AS s
        SET max_id = d.above + d.span,
            fetched_at = CASE WHEN d.span > 0 THEN pg_catalog.statement_timestamp() ELSE s.fetched_at END,
            fetches = s.fetches + least(d.span, 1)
        FROM due AS d
        WHERE s.tag = d.asked AND s.incarnation = d.incarnation AND s.max_id = d.max_id
          AND d.above + d.span > d.max_id
        RETURNING d.n, s.max_id,
            CASE WHEN d.span > 0 THEN d.above + 1 END AS first,
            CASE WHEN d.span > 0 THEN s.max_id END AS last)
    SELECT d.asked, d.incarnation, coalesce(k.first, r.first), coalesce(k.last, r.last),
        d.step, d.delta, d.remainder, d.max_value, coalesce(r.max_id, d.max_id),
        CASE WHEN p.closed_until > pg_catalog.statement_timestamp() THEN p.closed_until END, p.place
    FROM due AS d
    LEFT JOIN kept AS k ON k.n = d.n
    LEFT JOIN raised AS r ON r.n = d.n
    CROSS JOIN snowflake_segment_place AS p
    ORDER BY d.n;
END;

COMMENT ON FUNCTION snowflake_take_segments(text[], uuid[], bigint[], bigint[], text, interval) IS
'called by a server to report what it has of tags, and to take segments of them';

REVOKE ALL ON FUNCTION snowflake_take_segments(text[], uuid[], bigint[], bigint[], text, interval) FROM PUBLIC;

--
-- Keep what a server has not used of its segments, when it is shut down, for
-- the one that calls snowflake_take_segments with the same holder.  The server
-- must not use it any more once it has sent this.  The arguments are as there,
-- with firsts and lasts both included, and the place that last answered there.
-- Returns how many were kept: those of a tag that was dropped, or that are kept
-- already, are not, and none where the holder is not known, or the place is
-- another one by now, which may have given them to others.
--
CREATE FUNCTION snowflake_keep_segments(
    holder text,
    hold interval,
    incarnations uuid[],
    firsts bigint[],
    lasts bigint[],
    place text DEFAULT snowflake_segments_here())
RETURNS integer
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local');

    SELECT snowflake_segments_arrive(hold);

    SELECT FROM snowflake_segment_tag AS s
    WHERE s.incarnation = ANY (incarnations)
    ORDER BY s.tag
    FOR UPDATE;

    UPDATE snowflake_segment_tag AS s
    SET max_id = g.last
    FROM (SELECT g.incarnation, pg_catalog.max(g.last)
          FROM ROWS FROM (pg_catalog.unnest(incarnations), pg_catalog.unnest(firsts),
                          pg_catalog.unnest(lasts)) AS g (incarnation, first, last)
          WHERE g.first BETWEEN 1 AND g.last
          GROUP BY g.incarnation) AS g (incarnation, last)
    WHERE s.incarnation = g.incarnation AND s.dropped_at IS NULL AND s.max_id < g.last;

    WITH kept AS (
        INSERT INTO snowflake_segment_kept (incarnation, holder, first, last, kept_at)
        SELECT g.incarnation, snowflake_keep_segments.holder, g.first, g.last, pg_catalog.statement_timestamp()
        FROM ROWS FROM (pg_catalog.unnest(incarnations), pg_catalog.unnest(firsts),
                        pg_catalog.unnest(lasts)) AS g (incarnation, first, last)
        JOIN snowflake_segment_tag AS s ON s.incarnation = g.incarnation AND s.dropped_at IS NULL
        WHERE g.first BETWEEN 1 AND g.last AND snowflake_keep_segments.holder <> ''
          AND snowflake_keep_segments.place = snowflake_segments_here()
        ON CONFLICT DO NOTHING
        RETURNING 1)
    SELECT pg_catalog.count(*)::integer FROM kept;
END;

COMMENT ON FUNCTION snowflake_keep_segments(text, interval, uuid[], bigint[], bigint[], text) IS
'called by a server that is shut down to give back the unused numbers of its segments, for its next start';

REVOKE ALL ON FUNCTION snowflake_keep_segments(text, interval, uuid[], bigint[], bigint[], text) FROM PUBLIC;

-- For where the database was promoted and has lost nothing, as only
-- synchronous standbys are promoted: it need not close.
CREATE FUNCTION snowflake_open_segments()
RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
    WITH opened AS (
        UPDATE snowflake_segment_place AS r
        SET place = h.place,
            closed_until = least(r.closed_until, pg_catalog.statement_timestamp())
        FROM (SELECT snowflake_segments_here()) AS h (place)
        WHERE r.place <> h.place OR r.closed_until > pg_catalog.statement_timestamp()
        RETURNING r.place)
    SELECT EXISTS (SELECT FROM opened);
END;

COMMENT ON FUNCTION snowflake_open_segments() IS
'after a promotion that has lost no transaction: give out segments at once; false when the registry does so already';

REVOKE ALL ON FUNCTION snowflake_open_segments() FROM PUBLIC;

CREATE VIEW snowflake_segments AS
    SELECT s.tag, s.max_id, s.step, s.delta, s.remainder, s.max_value,
           pg_catalog.round(s.max_id::numeric / s.max_value::numeric, 4) AS used_fraction,
           s.fetches, s.fetched_at, s.created_at, s.description
    FROM snowflake_segment_tag AS s
    WHERE s.dropped_at IS NULL;

COMMENT ON VIEW snowflake_segments IS
'one row for each tag: the highest number given to any server, how segments are given out, and which share of all its numbers that is';

COMMENT ON COLUMN snowflake_segments.tag IS
'name of the tag';
COMMENT ON COLUMN snowflake_segments.max_id IS
'highest number given to any server';
COMMENT ON COLUMN snowflake_segments.step IS
'how many numbers a segment spans at least';
COMMENT ON COLUMN snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN snowflake_segments.max_value IS
'last number of the tag; null when it is that of bigint';
COMMENT ON COLUMN snowflake_segments.used_fraction IS
'share of all numbers that is given to servers, from 0 to 1; null without max_value';
COMMENT ON COLUMN snowflake_segments.fetches IS
'number of segments given to servers';
COMMENT ON COLUMN snowflake_segments.fetched_at IS
'when the last segment was given to a server';
COMMENT ON COLUMN snowflake_segments.created_at IS
'when the tag was created';
COMMENT ON COLUMN snowflake_segments.description IS
'description of the tag, for people';

GRANT SELECT ON snowflake_segments TO PUBLIC;
