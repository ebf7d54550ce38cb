-- Where segments are given out, as one session can see it.  What comes at once
-- is in specs/segment_race.spec.
CREATE ROLE regress_snowflake_owner;
CREATE ROLE regress_snowflake_server;

-- it belongs to who creates it, who need not be a superuser
SELECT current_database() AS here \gset
GRANT CREATE ON DATABASE :here TO regress_snowflake_owner;
\set SHOW_CONTEXT never
SET ROLE regress_snowflake_owner;
CREATE SCHEMA segments;
CREATE EXTENSION snowflake_registry SCHEMA segments;
GRANT USAGE ON SCHEMA segments TO regress_snowflake_server;
GRANT EXECUTE ON FUNCTION segments.snowflake_take_segments TO regress_snowflake_server;
RESET ROLE;
SET search_path = segments, public;

-- what is in it: each has a comment, and belongs to that role
SELECT pg_describe_object(classid, objid, objsubid) AS object,
       obj_description(objid, classid::regclass::name) IS NOT NULL AS has_comment,
       (SELECT concat(provolatile, proparallel, CASE WHEN prosecdef THEN ' definer' END)
        FROM pg_proc WHERE oid = objid) AS labels
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry')
  AND deptype = 'e' AND classid <> 'pg_type'::regclass
ORDER BY pg_describe_object(classid, objid, objsubid) COLLATE "C";
SELECT DISTINCT relowner::regrole FROM pg_class WHERE relnamespace = 'segments'::regnamespace;
-- as does each column of the view
SELECT count(*) FILTER (WHERE col_description(attrelid, attnum) IS NULL) AS without_comment
FROM pg_attribute WHERE attrelid = 'snowflake_segments'::regclass AND attnum > 0;
-- dumps have all rows
SELECT c.oid::regclass, c.condition
FROM pg_extension, unnest(extconfig::oid[], extcondition) AS c (oid, condition)
WHERE extname = 'snowflake_registry' ORDER BY c.oid;

-- As a server asks for one tag.  One that gives "seen" knows the tag; which is
-- of its current incarnation, unless it says which.  With a hold of 0 no other
-- server is there: what comes of one that has lost something is in
-- segments_state.sql.
CREATE FUNCTION ask(tag text, length bigint DEFAULT 1, seen bigint DEFAULT NULL, incarnation uuid DEFAULT NULL,
                    hold interval DEFAULT '0')
RETURNS TABLE (first bigint, last bigint, max_id bigint, closed boolean)
BEGIN ATOMIC
    SELECT t.first, t.last, t.max_id, t.closed_until IS NOT NULL
    FROM snowflake_take_segments(
        1, ARRAY[ask.tag],
        ARRAY[coalesce(ask.incarnation, (SELECT s.incarnation FROM snowflake_segment_tag AS s
                                         WHERE s.tag = ask.tag AND ask.seen IS NOT NULL))],
        ARRAY[coalesce(ask.seen, 0)], ARRAY[ask.length], ask.hold) AS t;
END;

--
-- Making, and taking segments
--
SELECT message, hint FROM error_of($$SELECT * FROM ask('nothing')$$) \gx
CREATE EXTENSION snowflake_home;
SELECT * FROM snowflake_create_tag('order', 10001, 2000, 1, 0, NULL, 'numbers of orders');
-- once
SELECT * FROM snowflake_create_tag('order', 1, 10, 1, 0, NULL, NULL);
SELECT * FROM snowflake_segments LIMIT 0;
-- tags are found wherever its files are moved
SELECT attcollation::regcollation FROM pg_attribute WHERE attrelid = 'snowflake_segment_tag'::regclass AND attname = 'tag';
SELECT tag, max_id, step, delta, remainder, max_value, used_fraction, fetches, fetched_at IS NULL AS never, created_at <= now() AS created_at, description FROM snowflake_segments;
-- as Leaf has it
SELECT asked, incarnation IS NOT NULL AS incarnation, first, last, step, delta, remainder, max_value, max_id, closed_until,
       is_guarded, place ~ '^\d+/[0-9A-F]{8}/\d+/\d+/\d+$' AS place, reports
FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{2000}', '0') \gx
SELECT max_id, fetches, fetched_at >= created_at AS fetched_at FROM snowflake_segments;
-- and the next one, whoever asks
SELECT * FROM ask('order');
SELECT * FROM ask('order', seen => 14000);
SELECT max_id, fetches FROM snowflake_segments;
-- with numbers of another registry in between, as TinyID has it
SELECT * FROM snowflake_create_tag('odd', 1, 10, 2, 1, 1000000, NULL);
SELECT asked, first, last, step, delta, remainder, max_value, max_id
FROM snowflake_take_segments(1, '{odd}', '{NULL}', '{0}', '{1}', '0');
-- one row for each tag, in their order; none of one that is only reported, and none of one that there is not
SELECT asked, incarnation IS NOT NULL AS incarnation, first, last, max_id
FROM snowflake_take_segments(1, '{order,nothing,odd,Order}', '{NULL,NULL,NULL,11111111-1111-1111-1111-111111111111}',
                             '{0,0,0,7}', '{0,1,1,1}', '0');
SELECT count(*) FROM snowflake_take_segments(1, '{}', '{}', '{}', '{}', '0');

-- lengths: at least the step, at most a million or the step
SELECT * FROM snowflake_create_tag('length', 1, 100, 1, 0, NULL, NULL);
SELECT length, t.* FROM unnest('{NULL,-1,0,1,99,100,101,999999,1000000,1000001,9223372036854775807,-9223372036854775808}'::bigint[]) AS length, ask('length', length) AS t;
SELECT * FROM snowflake_create_tag('long', 1, 2147483647, 2147483647, 2147483646, NULL, NULL);
SELECT * FROM ask('long');
SELECT * FROM ask('long', 9223372036854775807);

-- a server learns that its numbers are of another incarnation before it gets others
SELECT * FROM ask('order', seen => 50000, incarnation => '11111111-1111-1111-1111-111111111111');
SELECT max_id FROM snowflake_segments WHERE tag = 'order';

--
-- What the servers have seen
--
SELECT * FROM ask('order', 0, seen => 15999);
SELECT * FROM ask('order', 0, seen => 16000);
SELECT fetched_at AS before FROM snowflake_segments WHERE tag = 'order' \gset
SELECT * FROM ask('order', 0, seen => 16001);
SELECT fetches, fetched_at = :'before' AS fetched_before FROM snowflake_segments WHERE tag = 'order';
SELECT * FROM ask('order', 1, seen => 20000);
SELECT fetches, fetched_at > :'before' AS fetched FROM snowflake_segments WHERE tag = 'order';
-- which no one knows who does not know the incarnation
SELECT asked, first, last, max_id FROM snowflake_take_segments(1, '{order}', '{NULL}', '{90000}', '{0}', '0');

-- a report that changes nothing writes nothing, and neither does one that is given nothing
SELECT * FROM snowflake_create_tag('full', 10, 10, 1, 0, 9, NULL);
BEGIN;
SELECT asked, first, last, max_id FROM snowflake_take_segments(1, '{order,odd,nothing,full}', '{NULL,NULL,NULL,NULL}', '{0,0,0,0}', '{0,NULL,1,1}', '0');
SELECT * FROM ask('order', 0, seen => 22000);
SELECT * FROM ask('order', 1, seen => 1, incarnation => '11111111-1111-1111-1111-111111111111');
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_written_nothing;
SELECT * FROM ask('order', 0, seen => 22001);
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_written_nothing;
ROLLBACK;

--
-- The end
--
SELECT * FROM snowflake_create_tag('end', 1, 10, 3, 2, 25, NULL);
SELECT * FROM ask('end');
SELECT * FROM ask('end');
SELECT * FROM ask('end');
SELECT * FROM ask('end');
SELECT max_id, max_value, used_fraction, fetches FROM snowflake_segments WHERE tag = 'end';
-- reports may be beyond it
SELECT * FROM ask('end', seen => 30);
SELECT used_fraction FROM snowflake_segments WHERE tag = 'end';
-- a later one
SELECT * FROM snowflake_alter_tag('end', NULL, NULL, 32, NULL);
SELECT * FROM ask('end');
-- at the end of bigint
SELECT * FROM snowflake_create_tag('last', 9223372036854775798, 2147483647, 1, 0, NULL, NULL);
SELECT * FROM ask('last', 9223372036854775807);
SELECT * FROM ask('last', 9223372036854775807);
SELECT * FROM ask('last', 9223372036854775807, seen => 9223372036854775807);
SELECT * FROM snowflake_create_tag('max', 9223372036854775807, 1, 1, 0, 9223372036854775807, NULL);
SELECT * FROM ask('max');
SELECT * FROM ask('max');
SELECT * FROM snowflake_create_tag('raised', 1, 10, 1, 0, NULL, NULL);
SELECT * FROM ask('raised', seen => 9223372036854775807);
SELECT tag, max_value, used_fraction FROM snowflake_segments WHERE used_fraction IS NOT NULL ORDER BY tag COLLATE "C";

--
-- Changing
--
SELECT * FROM snowflake_create_tag('change', 1, 10, 2, 0, 1000, 'before');
SELECT * FROM ask('change');
\set shown 'SELECT max_id, step, max_value, description FROM snowflake_segments WHERE tag = ''change'''
SELECT * FROM snowflake_alter_tag('nothing', 1, 1, 1, '');
SELECT * FROM snowflake_alter_tag(NULL, 1, 1, 1, '');
-- nothing
SELECT * FROM snowflake_alter_tag('change', NULL, NULL, NULL, NULL);
:shown;
-- out of bounds: none of it
SELECT start, step, max_value, c.known, c.changed, c.max_id, c.delta
FROM (VALUES (10, 20, 2000), (0, 20, 2000), (-9223372036854775808, 20, 2000),
             (100, 1, 2000), (100, 0, 2000), (100, -2147483648, 2000),
             (100, 20, 98), (NULL, 20, 9), (NULL, 20, 0), (NULL, 20, -9223372036854775808),
             (1002, NULL, NULL)) AS v (start, step, max_value),
     snowflake_alter_tag('change', start, step, max_value, 'after') AS c;
:shown;
-- just in them
SELECT * FROM snowflake_alter_tag('change', 11, 2, 10, 'after');
:shown;
SELECT * FROM snowflake_alter_tag('change', 101, 2147483647, 9223372036854775807, '');
:shown;
SELECT * FROM ask('change');
SELECT * FROM snowflake_alter_tag('change', NULL, 10, NULL, NULL);
SELECT * FROM snowflake_alter_tag('change', 9223372036854775807, NULL, NULL, NULL);
SELECT * FROM ask('change');
-- the rest also where reports are beyond the end
SELECT * FROM snowflake_create_tag('beyond', 1, 10, 1, 0, 100, NULL);
SELECT * FROM ask('beyond', 0, seen => 200);
SELECT * FROM snowflake_alter_tag('beyond', NULL, 20, NULL, 'after');
SELECT * FROM snowflake_alter_tag('beyond', 201, NULL, NULL, NULL);
SELECT * FROM snowflake_alter_tag('beyond', NULL, NULL, 199, NULL);
SELECT * FROM snowflake_alter_tag('beyond', NULL, NULL, 200, NULL);

--
-- Bounds of a new tag
--
SELECT v.*, e.state, e.message
FROM (VALUES ('NULL, 1, 1, 1, 0, NULL'), ('$$$$, 1, 1, 1, 0, NULL'), ('repeat($$a$$, 64), 1, 1, 1, 0, NULL'),
             ('repeat($$a$$, 62) || chr(228), 1, 1, 1, 0, NULL'),
             ('$$a$$, NULL, 1, 1, 0, NULL'), ('$$a$$, 0, 1, 1, 0, NULL'), ('$$a$$, -9223372036854775808, 1, 1, 0, NULL'),
             ('$$a$$, 1, NULL, 1, 0, NULL'), ('$$a$$, 1, 0, 1, 0, NULL'), ('$$a$$, 1, -2147483648, 1, 0, NULL'),
             ('$$a$$, 1, 1, NULL, 0, NULL'), ('$$a$$, 1, 1, 0, 0, NULL'), ('$$a$$, 1, 1, 2, 0, NULL'), ('$$a$$, 1, 1, -1, -2, NULL'),
             ('$$a$$, 1, 5, 5, NULL, NULL'), ('$$a$$, 1, 5, 5, -1, NULL'), ('$$a$$, 1, 5, 5, 5, NULL'),
             ('$$a$$, 1, 1, 1, 0, 0'), ('$$a$$, 1, 1, 1, 0, -9223372036854775808')) AS v (arguments),
     error_of(format('SELECT snowflake_create_tag(%s, NULL)', v.arguments)) AS e;
SELECT tag, m.* FROM unnest(ARRAY['a', repeat('a', 63), repeat('a', 61) || chr(228)]) AS tag,
    snowflake_create_tag(tag, 1, 1, 1, 0, 1, '') AS m;
SELECT tag, max_id, step, delta, remainder, max_value FROM snowflake_segments WHERE tag LIKE 'a%' ORDER BY tag COLLATE "C";

--
-- Dropping, and making again
--
SELECT incarnation AS old FROM snowflake_segment_tag WHERE tag = 'order' \gset
SELECT snowflake_drop_tag('order', false), snowflake_drop_tag('order', false),
       snowflake_drop_tag('nothing', false), snowflake_drop_tag(NULL, false);
SELECT count(*) FROM snowflake_segments WHERE tag = 'order';
SELECT asked, incarnation, first, last, step, delta, remainder, max_value, max_id
FROM snowflake_take_segments(1, '{order,order2}', ARRAY[:'old', NULL]::uuid[], '{16000,0}', '{1,1}', '0');
SELECT * FROM snowflake_alter_tag('order', 30000, NULL, NULL, NULL);
-- goes on where it was
SELECT * FROM snowflake_create_tag('order', 1, 10, 5, 4, 50000, 'again');
SELECT incarnation <> :'old' AS another, max_id, step, delta, remainder, max_value, description, fetches, fetched_at, dropped_at
FROM snowflake_segment_tag WHERE tag = 'order';
SELECT * FROM ask('order', seen => 40000, incarnation => :'old');
SELECT * FROM ask('order');
-- or above it
SELECT snowflake_drop_tag('order', NULL);
SELECT * FROM snowflake_create_tag('order', 30001, 10, 1, 0, NULL, NULL);
-- or anywhere, if one wants that
SELECT snowflake_drop_tag('order', true), snowflake_drop_tag('order', true), snowflake_drop_tag('order', false);
SELECT * FROM snowflake_create_tag('order', 11, 10, 1, 0, NULL, NULL);
SELECT snowflake_drop_tag('order', false);
SELECT snowflake_drop_tag('order', true);
SELECT * FROM snowflake_create_tag('order', 1, 10, 1, 0, NULL, NULL);

--
-- Closed, as it came here from another place
--
-- (from now on, other servers are there)
DROP EXTENSION snowflake_home;
CREATE OR REPLACE FUNCTION ask(tag text, length bigint DEFAULT 1, seen bigint DEFAULT NULL, incarnation uuid DEFAULT NULL,
                    hold interval DEFAULT '1 min')
RETURNS TABLE (first bigint, last bigint, max_id bigint, closed boolean)
BEGIN ATOMIC
    SELECT t.first, t.last, t.max_id, t.closed_until IS NOT NULL
    FROM snowflake_take_segments(
        1, ARRAY[ask.tag],
        ARRAY[coalesce(ask.incarnation, (SELECT s.incarnation FROM snowflake_segment_tag AS s
                                         WHERE s.tag = ask.tag AND ask.seen IS NOT NULL))],
        ARRAY[coalesce(ask.seen, 0)], ARRAY[ask.length], ask.hold, repeat('1', 32)::uuid) AS t;
END;
SELECT * FROM snowflake_create_tag('order', 1, 10, 1, 0, NULL, NULL);
SELECT * FROM ask('order');
-- for the longest that any server says, which is no longer than the longest lease
SELECT closed FROM ask('order', 0, hold => '1 hour');
SELECT hold FROM snowflake_segment_server;
SELECT hold FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{0}', '8640000 hours');
BEGIN;
SELECT * FROM ask('order', 0, hold => '1 hour');
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_written_nothing;
COMMIT;
UPDATE snowflake_registry_place SET place = 'another';
SELECT * FROM ask('order');
SELECT closed_until - now() BETWEEN '59 min' AND '61 min' AS for_the_longest_hold FROM snowflake_registry_place;
-- reports are taken
SELECT closed_until AS until FROM snowflake_registry_place \gset
SELECT * FROM ask('order', seen => 55);
SELECT * FROM ask('order');
SELECT asked, first, max_id, closed_until = :'until' AS until FROM snowflake_take_segments(1, '{nothing,order}', '{NULL,NULL}', '{0,0}', '{1,1}', '1 min');
BEGIN;
SELECT * FROM ask('order', seen => 55);
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_written_nothing;
COMMIT;
SELECT * FROM snowflake_create_tag('new', 1, 10, 1, 0, NULL, NULL);
SELECT * FROM ask('new');
-- what servers have of a tag is not to be lost
SELECT * FROM error_of($$SELECT snowflake_drop_tag('new', false)$$) \gx
SELECT message FROM error_of($$SELECT snowflake_drop_tag('new', NULL)$$);
SELECT snowflake_create_tag('brief', 1, 10, 1, 0, NULL, NULL), snowflake_drop_tag('brief', true);
UPDATE snowflake_registry_place SET guarded_until = closed_until, closed_until = '-infinity';
SELECT message FROM error_of($$SELECT snowflake_drop_tag('order', false)$$);
UPDATE snowflake_registry_place SET closed_until = guarded_until, guarded_until = '-infinity';
-- then it goes on
UPDATE snowflake_registry_place SET closed_until = now();
SELECT * FROM ask('order');
SELECT * FROM ask('order');
SELECT * FROM ask('order');
-- a longer hold, of this server; and no less than before
UPDATE snowflake_registry_place SET place = 'another', closed_until = now();
UPDATE snowflake_registry_place SET longest_lease = '1 day';
SELECT * FROM ask('order', hold => '2 hours');
SELECT closed_until - now() BETWEEN '119 min' AND '121 min' AS by_caller FROM snowflake_registry_place;
UPDATE snowflake_registry_place SET place = 'another', closed_until = now() + '3 hours';
SELECT * FROM ask('order');
SELECT closed_until - now() BETWEEN '179 min' AND '181 min' AS no_less FROM snowflake_registry_place;
-- a day is a day, whatever time zone the server has
BEGIN;
DELETE FROM snowflake_segment_server;
UPDATE snowflake_registry_place SET place = 'another', closed_until = '-infinity';
-- one with summer time from the next hour on, by half a day
SELECT set_config('timezone', format('AAA0BBB-12,%s/%s:00:00,%s', extract(doy FROM t) - 1, extract(hour FROM t) + 1, (extract(doy FROM t)::integer + 180) % 365), true) <> '' AS set
FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC') AS c (t);
SELECT clock_timestamp() + '1 day' < clock_timestamp() + '23 hours' AS short;
SELECT closed FROM ask('order');
SELECT closed_until BETWEEN clock_timestamp() + '23 hours' AND clock_timestamp() + '24 hours' AS until FROM snowflake_registry_place;
ROLLBACK;
-- at the time of the request, however long ago its transaction began
BEGIN;
DO $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    UPDATE snowflake_registry_place SET place = 'another', closed_until = '-infinity';
    PERFORM ask('order', hold => '24 hours');
    RAISE NOTICE '%', (SELECT closed_until >= began + interval '24 hours' FROM snowflake_registry_place);
END $$;
ROLLBACK;
-- where nothing was lost
SELECT snowflake_open_registry(), snowflake_open_registry();
SELECT * FROM ask('order');
UPDATE snowflake_registry_place SET place = 'another';
SELECT snowflake_open_registry(), snowflake_open_registry();
SELECT * FROM ask('order');
-- to make or to change a tag is not to come there, and none is dropped before
UPDATE snowflake_registry_place SET place = 'another';
SELECT * FROM snowflake_create_tag('newer', 1, 10, 1, 0, NULL, NULL);
SELECT * FROM snowflake_alter_tag('newer', 11, NULL, NULL, NULL);
SELECT message FROM error_of($$SELECT snowflake_drop_tag('newer', false)$$);
SELECT place, closed_until <= now() AS open FROM snowflake_registry_place;
SELECT * FROM ask('order');
-- with a hold of 0, for no time at all
DELETE FROM snowflake_segment_server;
UPDATE snowflake_registry_place SET place = 'another', closed_until = '-infinity', longest_lease = '1 h';
CREATE EXTENSION snowflake_home;
SELECT * FROM ask('order', hold => '0');
SELECT place <> 'another' AS here, closed_until <= now() AS open FROM snowflake_registry_place;
DROP EXTENSION snowflake_home;
-- the note is gone, or the row of a dump has come to it: closed, that is of the dump
DELETE FROM snowflake_registry_place;
SELECT * FROM ask('order');
SELECT state, until - now() BETWEEN '59 min' AND '61 min' AS until, changes, longest_lease, loses_nothing FROM snowflake_registry;
SELECT snowflake_open_registry();
SELECT * FROM ask('order');
INSERT INTO snowflake_registry_place (place, changes, closed_until, longest_lease, loses_nothing)
VALUES ('another', 7, now() + '10 min', '2 h', true), ('', 5, now() + '5 min', '3 h', true);
SET plpgsql.extra_errors = 'all';
SELECT * FROM ask('order');
RESET plpgsql.extra_errors;
SELECT state, until - now() BETWEEN '9 min' AND '10 min' AS until, changes, longest_lease, loses_nothing FROM snowflake_registry;
SELECT count(*) FROM snowflake_registry_place;
SELECT snowflake_open_registry();
UPDATE snowflake_registry_place SET longest_lease = '1 h';
-- out of bounds
\set VERBOSITY terse
UPDATE snowflake_registry_place SET longest_lease = '9.999999 s';
UPDATE snowflake_registry_place SET longest_lease = '1 day 1 us';
UPDATE snowflake_registry_place SET longest_lease = NULL;
\set VERBOSITY default

--
-- Bad arguments: nothing comes of it
--
PREPARE bad(text[], uuid[], bigint[], bigint[], interval) AS
SELECT asked, first, last, max_id FROM snowflake_take_segments(1, $1, $2, $3, $4, $5);
UPDATE snowflake_registry_place SET place = 'another';
EXECUTE bad(NULL, '{NULL}', '{0}', '{1}', '1 min');
EXECUTE bad('{order}', NULL, '{0}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', NULL, '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{0}', NULL, '1 min');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', NULL);
EXECUTE bad('{order,new}', '{NULL}', '{0}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL,NULL}', '{0}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{0,0}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1,1}', '1 min');
EXECUTE bad('{order,NULL}', '{NULL,NULL}', '{0,0}', '{1,1}', '1 min');
EXECUTE bad('{order,order}', '{NULL,NULL}', '{0,0}', '{1,1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{NULL}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{-1}', '{1}', '1 min');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '-1 us');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '9.999999 s');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '8640000:00:00.000001');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '170000000 years');
-- as long as an hour, and over years ago, or years ahead; by the calendar; no time
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '-1000 mon 30000 days 1 hour');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '1000 mon -30000 days 1 hour');
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '1 day');
EXECUTE bad('{}', '{}', '{}', '{}', '3507001 mon -105210030 days 1 hour');
-- counted from another number than 1, or in two dimensions
EXECUTE bad('[0:0]={order}', '{NULL}', '{0}', '{1}', '1 min');
EXECUTE bad('{order}', '[2:2]={NULL}', '{0}', '{1}', '1 min');
EXECUTE bad('{order,new}', '{NULL,NULL}', '[0:1]={0,9223372036854775807}', '{1,0}', '1 min');
EXECUTE bad('{order,new}', '{NULL,NULL}', '{0,0}', '[-1:0]={1,0}', '1 min');
EXECUTE bad('{{order,new}}', '{{NULL,NULL}}', '{{0,0}}', '{{1,0}}', '1 min');
EXECUTE bad('{order}', '{}', '{0}', '{1}', '1 min');
EXECUTE bad('{}', '{}', '{}', '{1}', '1 min');
SELECT count(*) FROM snowflake_segment_tag AS s, snowflake_take_segments(1, ARRAY[s.tag, 'nothing'], ARRAY[s.incarnation, NULL], '[0:1]={0,9223372036854775807}', '{1,0}', '1 min')
WHERE s.tag = 'order';
-- more than any server has, and longer
PREPARE many(integer) AS
SELECT count(*) FROM (SELECT array_agg('tag ' || i) AS tags FROM generate_series(1, $1) AS i) AS a,
    snowflake_take_segments(1, tags, array_fill(NULL::uuid, ARRAY[$1]), array_fill(0::bigint, ARRAY[$1]), array_fill(0::bigint, ARRAY[$1]), '1 min');
EXECUTE many(10001);
EXECUTE bad(ARRAY[repeat('a', 256)], '{NULL}', '{0}', '{1}', '1 min');
SELECT count(*) FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min', NULL, NULL, repeat('p', 256));
SELECT place FROM snowflake_registry_place;
SELECT max_id FROM snowflake_segments WHERE tag = 'order';
-- more than any loss can explain
SELECT count(*) FROM snowflake_segment_tag AS s, snowflake_take_segments(1, ARRAY[s.tag, 'nothing'], ARRAY[s.incarnation, NULL], ARRAY[s.max_id + 1000000000001, 0], '{1,0}', '1 min')
WHERE s.tag = 'order';
SELECT place FROM snowflake_registry_place;
SELECT snowflake_open_registry();
SELECT count(*) FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min', repeat('2', 32)::uuid, 1000000001, (SELECT place || '/0' FROM snowflake_registry_place));
SELECT state FROM snowflake_registry;
-- what is just good
EXECUTE many(10000);
EXECUTE bad('{order}', '{NULL}', '{0}', '{1}', '10 s');
EXECUTE bad('{order}', '{NULL}', '{9223372036854775807}', '{1}', '8640000 hours');
SELECT t.max_id - s.max_id AS raised FROM snowflake_segment_tag AS s, snowflake_take_segments(1, ARRAY[s.tag], ARRAY[s.incarnation], ARRAY[s.max_id + 1000000000000], '{0}', '1 min') AS t
WHERE s.tag = 'order';
SELECT state, until - now() BETWEEN '0' AND '1 hour' AS until FROM snowflake_registry;
SELECT snowflake_open_registry();
SELECT count(*) FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min', repeat('2', 32)::uuid, 1000000000, (SELECT place || '/0' FROM snowflake_registry_place));
SELECT state FROM snowflake_registry;
SELECT snowflake_open_registry();
-- another version of the protocol
SELECT * FROM error_of($$SELECT snowflake_take_segments(2, '{order}', '{NULL}', '{0}', '{1}', '1 min')$$) \gx
SELECT message FROM error_of($$SELECT snowflake_take_segments(NULL, '{order}', '{NULL}', '{0}', '{1}', '1 min')$$);

-- a table that a crash would empty
BEGIN;
ALTER TABLE snowflake_node_lease SET UNLOGGED;
SELECT * FROM error_of($$SELECT snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min')$$) \gx
SELECT message FROM error_of($$SELECT snowflake_lease_node(
    1, 'cccccccc-cccc-cccc-cccc-cccccccccccc', NULL, NULL, NULL, NULL, 'i', 9, '10 min', 0, now(), NULL, 'layout A', 'h', 1, 1, NULL, NULL, NULL)$$);
ALTER TABLE snowflake_node_lease SET LOGGED;
SELECT message FROM error_of($$SELECT snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min')$$);
ROLLBACK;

--
-- In transactions
--
BEGIN;
SELECT * FROM ask('order');
ROLLBACK;
SELECT * FROM ask('order');
BEGIN READ ONLY;
SELECT state, message FROM error_of('SELECT ask(''order'')');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM ask('order');
COMMIT;
-- its commit is durable, whatever the caller has set, and only that one
SET synchronous_commit = off;
BEGIN;
SELECT * FROM ask('order');
SHOW synchronous_commit;
COMMIT;
SHOW synchronous_commit;
SET synchronous_commit = local;
BEGIN;
SELECT * FROM ask('order');
SHOW synchronous_commit;
COMMIT;
BEGIN;
SELECT snowflake_create_tag('durable', 1, 1, 1, 0, NULL, NULL);
SHOW synchronous_commit;
COMMIT;
BEGIN;
SELECT snowflake_alter_tag('durable', 2, NULL, NULL, NULL);
SHOW synchronous_commit;
COMMIT;
BEGIN;
SELECT snowflake_drop_tag('durable', true);
SHOW synchronous_commit;
COMMIT;
SET synchronous_commit = remote_apply;
BEGIN;
SELECT * FROM ask('order');
SHOW synchronous_commit;
COMMIT;
RESET synchronous_commit;

--
-- Who may do what
--
\set VERBOSITY terse
SET ROLE regress_snowflake_server;
SELECT asked, first, last FROM snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min');
SELECT tag, max_id FROM snowflake_segments ORDER BY tag;
SELECT tag, max_id FROM snowflake_segment_tag;
SELECT * FROM snowflake_registry;
SELECT count(*) FROM snowflake_registry_place;
SELECT count(*) FROM snowflake_segment_server;
SELECT snowflake_create_tag('a', 1, 1, 1, 0, NULL, NULL);
SELECT snowflake_alter_tag('order', NULL, NULL, NULL, NULL);
SELECT snowflake_drop_tag('order', true);
SELECT snowflake_open_registry();
SELECT snowflake_registry_here();
SELECT snowflake_segments_stay('here', now());
SELECT snowflake_registry_arrive(now(), 'here', now(), '1 min', NULL);
SELECT snowflake_registry_compare(now(), NULL, NULL, '1 min', NULL, true, true);
SELECT snowflake_registry_awaited(NULL, NULL);
SELECT snowflake_registry_longest(now(), NULL, true);
SELECT snowflake_registry_admit(1, NULL);
SELECT snowflake_segments_valid(NULL, NULL);
SELECT snowflake_segments_due(NULL);
SELECT snowflake_segments_give(now(), NULL, 1, true);
SELECT snowflake_segments_report(now(), NULL, NULL, true, NULL);
SELECT snowflake_segments_serve(now(), 'here', now(), NULL);
SELECT snowflake_registry_open(now(), 'here', now(), true);
UPDATE snowflake_segment_tag SET max_id = 0;
DELETE FROM snowflake_registry_place;
DELETE FROM snowflake_segment_server;
RESET ROLE;
\set VERBOSITY default

--
-- In another schema, and with others' functions in the way
--
CREATE SCHEMA elsewhere;
ALTER EXTENSION snowflake_registry SET SCHEMA elsewhere;
SET client_min_messages = warning;
DROP EXTENSION snowflake_registry CASCADE;
RESET client_min_messages;
CREATE EXTENSION snowflake_registry SCHEMA elsewhere;
SELECT * FROM elsewhere.snowflake_create_tag('order', 1, 10, 1, 0, NULL, NULL);
GRANT EXECUTE ON FUNCTION elsewhere.snowflake_take_segments TO regress_snowflake_server;
GRANT USAGE ON SCHEMA elsewhere TO regress_snowflake_server;
CREATE SCHEMA hostile;
GRANT USAGE, CREATE ON SCHEMA hostile TO regress_snowflake_server;
SET ROLE regress_snowflake_server;
CREATE TABLE hostile.snowflake_segment_tag (LIKE pg_class);
CREATE TABLE hostile.snowflake_registry_place (place text);
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz RETURN '2000-01-01 00:00:00+00'::timestamptz;
CREATE FUNCTION hostile.gt(bigint, bigint) RETURNS boolean RETURN false;
CREATE OPERATOR hostile.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.gt);
SET search_path = hostile, pg_catalog;
SELECT asked, first, last FROM elsewhere.snowflake_take_segments(1, '{order}', '{NULL}', '{0}', '{1}', '1 min');
RESET ROLE;
SET search_path = segments, public;
SELECT max_id, fetched_at > '2020-01-01' AS fetched_at FROM elsewhere.snowflake_segments;

SET client_min_messages = warning;
DROP SCHEMA segments, elsewhere, hostile CASCADE;
RESET client_min_messages;
RESET search_path;
REVOKE CREATE ON DATABASE :here FROM regress_snowflake_owner;
DROP ROLE regress_snowflake_owner, regress_snowflake_server;
