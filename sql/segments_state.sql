-- The registry of segments at times and in places that are arguments: what it
-- makes of a start, of another place, and of what servers were told before.  All
-- else of it is in segments_registry.sql.
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
CREATE SCHEMA segments;
CREATE EXTENSION snowflake_registry SCHEMA segments;
SET search_path = segments, public;

-- Seconds after the time when all begins, and back.
CREATE FUNCTION t(s numeric) RETURNS timestamptz
RETURN timestamptz '2030-01-01 00:00:00+00' + s * interval '1 s';
CREATE FUNCTION s(timestamptz) RETURNS numeric
RETURN CASE WHEN isfinite($1) THEN trim_scale(extract(epoch FROM $1 - t(0))::numeric) END;

-- Where the registry is, and when that was started.
CREATE TABLE world (place text, started numeric);
INSERT INTO world VALUES ('7000/00000001/5/6', 0);

-- What servers remember of the answers that came.
CREATE TABLE memory (server integer PRIMARY KEY, incarnation uuid, seen bigint, reports bigint, place text);

CREATE FUNCTION told(a snowflake_segment_answer) RETURNS text
RETURN format('%s, %s reports%s', CASE WHEN a.first IS NULL THEN 'up to ' || a.max_id ELSE format('%s to %s of %s', a.first, a.last, a.max_id) END,
              coalesce(a.reports::text, 'no'),
              CASE WHEN a.is_guarded THEN ', guarded until ' || s(a.closed_until) ELSE ', closed until ' || s(a.closed_until) END);

-- Server number "server" asks for so many numbers of the tag, and goes on for
-- "hold" seconds after an answer, which may be lost.  Its numbers may not be valid
-- any more.
CREATE FUNCTION ask(server integer, at numeric, length bigint DEFAULT 0, is_valid boolean DEFAULT true, is_lost boolean DEFAULT false,
                    hold numeric DEFAULT 60, tag text DEFAULT 'a')
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    m memory;
    a snowflake_segment_answer;
BEGIN
    SELECT o.* INTO m FROM memory AS o WHERE o.server = ask.server;
    SELECT s.* INTO a FROM world AS w,
        snowflake_segments_serve(t(at), w.place, t(w.started),
            ROW(1, array_remove(ARRAY[tag], NULL), CASE WHEN tag IS NULL THEN '{}' ELSE ARRAY[m.incarnation] END,
                CASE WHEN tag IS NULL THEN '{}' ELSE ARRAY[coalesce(m.seen, 0)] END, CASE WHEN tag IS NULL THEN '{}' ELSE ARRAY[length] END,
                hold * interval '1 s', lpad(server::text, 32, '0')::uuid,
                CASE WHEN is_valid THEN m.reports END, m.place)::snowflake_segment_request) AS s;
    IF NOT is_lost AND a.asked IS NOT NULL THEN
        INSERT INTO memory VALUES (server, a.incarnation, coalesce(a.last, 0), a.reports, a.place)
        ON CONFLICT ON CONSTRAINT memory_pkey DO UPDATE
            SET (incarnation, seen, reports, place)
                = (excluded.incarnation, greatest(memory.seen, excluded.seen), excluded.reports, excluded.place);
    END IF;
    RETURN told(a);
END $$;

CREATE VIEW state AS
    SELECT s(closed_until) AS closed_until, s(guarded_until) AS guarded_until, is_proved, place, s(started_at) AS started
    FROM snowflake_registry_place;
CREATE VIEW servers AS
    SELECT right(reporter::text, 2)::integer AS server, reports, s(reported_at) AS reported, hold, s(started_at) AS started
    FROM snowflake_segment_server ORDER BY 1;

-- A copy of the registry, and what puts that in its place.
CREATE TABLE tag_copy (LIKE snowflake_segment_tag);
CREATE TABLE place_copy (LIKE snowflake_registry_place);
CREATE TABLE server_copy (LIKE snowflake_segment_server);
CREATE FUNCTION copy() RETURNS void LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM tag_copy; DELETE FROM place_copy; DELETE FROM server_copy;
    INSERT INTO tag_copy SELECT * FROM snowflake_segment_tag;
    INSERT INTO place_copy SELECT * FROM snowflake_registry_place; INSERT INTO server_copy SELECT * FROM snowflake_segment_server;
END;
CREATE FUNCTION set_back() RETURNS void LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM snowflake_segment_tag; DELETE FROM snowflake_registry_place; DELETE FROM snowflake_segment_server;
    INSERT INTO snowflake_segment_tag SELECT * FROM tag_copy;
    INSERT INTO snowflake_registry_place SELECT * FROM place_copy; INSERT INTO snowflake_segment_server SELECT * FROM server_copy;
END;
-- A new one, with a tag of which nothing was given out.
CREATE FUNCTION anew() RETURNS void LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM snowflake_segment_tag; DELETE FROM snowflake_registry_place; DELETE FROM snowflake_segment_server;
    DELETE FROM memory;
    UPDATE world SET place = '7000/00000001/5/6', started = 0;
    INSERT INTO snowflake_registry_place (place, started_at) VALUES ('7000/00000001/5/6', t(0));
    INSERT INTO snowflake_segment_tag VALUES ('a', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', 0, 10, 1, 0, NULL, NULL, '2029-01-01');
END;

--
-- Reports: which are written
--
SELECT anew();
SELECT a.* FROM world, snowflake_segments_serve(t(9), place, t(started), ROW(1, '{a}', '{NULL}', '{0}', '{0}', '1 min', NULL, NULL, NULL)::snowflake_segment_request) AS a;
-- the first one
SELECT ask(1, 10);
SELECT * FROM servers;
-- one that is given something
SELECT ask(1, 10, 1);
-- none, before a twentieth of the hold is over, and the next
SELECT ask(1, 13);
SELECT ask(1, 13.000001);
SELECT ask(1, 15);
-- its clock was set back
SELECT ask(1, 13);
-- another hold
SELECT ask(1, 13.1, hold => 59);
SELECT ask(1, 13.2);
-- one that is given nothing though it asks
UPDATE snowflake_segment_tag SET max_value = 10;
SELECT ask(1, 13.3, 1);
UPDATE snowflake_segment_tag SET max_value = NULL;
-- one whose answer was lost
SELECT ask(1, 17, is_lost => true);
SELECT ask(1, 17.1);
-- without tags none, if there was none before
SELECT ask(2, 17.1, tag => NULL);
SELECT ask(1, 21, tag => NULL);
SELECT * FROM servers;
-- of one that is not known, or where no other server is, none
BEGIN;
CREATE EXTENSION snowflake_home;
SELECT ask(3, 21, hold => 0);
SELECT count(*) FROM servers;
ROLLBACK;
SELECT told(a) FROM world, snowflake_segments_serve(t(21), place, t(started), ROW(1, '{a}', '{NULL}', '{0}', '{1}', '1 min', NULL, 7, place || '/' || 0)::snowflake_segment_request) AS a;
SELECT count(*) FROM servers;
-- rows of servers that were stopped are removed an hour after that, when
-- there is a new one
SELECT ask(2, 22);
SELECT ask(1, 3681);
SELECT ask(3, 3682);
SELECT server FROM servers;
SELECT ask(1, 3682.000001);
SELECT ask(4, 3682.000001);
SELECT server FROM servers;
-- nothing is written by what has no news
BEGIN;
SELECT ask(4, 3682.1);
ROLLBACK;
BEGIN;
SELECT count(*) FROM world, snowflake_segments_serve(t(3682.1), place, t(started),
    ROW(1, '{a}', '{aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa}', '{20}', '{0}', '1 min', lpad('4', 32, '0')::uuid, 1, place || '/0')::snowflake_segment_request);
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_written_nothing;
ROLLBACK;
-- the most that there can be
UPDATE snowflake_segment_server SET reports = 9223372036854775807;
SELECT ask(4, 3690);

--
-- Started again: on its guard
--
SELECT anew();
-- without tags there is nothing to lose
DELETE FROM snowflake_segment_tag;
SELECT snowflake_registry_open(t(0), '7000/00000001/5/6', t(0), NULL);
UPDATE world SET started = 1;
SELECT ask(1, 1);
SELECT * FROM state;
-- but with one: what was given of it first may be lost
SELECT anew();
SELECT ask(1, 1);
UPDATE world SET started = 2;
SELECT ask(2, 2, 1);
SELECT snowflake_registry_open(t(2), '7000/00000001/5/6', t(2), NULL), snowflake_registry_open(t(2), '7000/00000001/5/6', t(2), NULL);
SELECT ask(1, 3, 1), ask(2, 3, 1), ask(3, 3, 1);
UPDATE world SET started = 4;
-- nothing is given out, but reports are taken
SELECT ask(5, 10, 1);
SELECT * FROM state;
-- what proves nothing: no reports, those of elsewhere, too many that it does not
-- know of, or of one that is not on record
BEGIN;
SELECT ask(1, 11, is_valid => false);
SELECT is_proved FROM state;
-- nor what it was told since
SELECT ask(1, 11);
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
UPDATE memory SET place = '7000/00000001/5/7/0';
SELECT ask(1, 11);
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
UPDATE snowflake_segment_server SET reports = reports + 2;
SELECT ask(1, 11);
SELECT is_proved FROM state;
ROLLBACK;
-- what does
BEGIN;
UPDATE snowflake_segment_server SET reports = reports + 1;
SELECT ask(1, 11);
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
UPDATE memory SET place = '7000/0000000F/5/6/0';
SELECT ask(1, 11);
SELECT is_proved FROM state;
ROLLBACK;
SELECT ask(1, 11, 1);
SELECT * FROM state;
SELECT ask(1, 12, 1);
-- the guard ends with the last of those that had numbers
SELECT ask(2, 13, 1);
SELECT guarded_until FROM state;
-- but not with one that has forgotten what it was told
BEGIN;
SELECT ask(3, 14, 1, is_valid => false);
SELECT * FROM state;
ROLLBACK;
SELECT ask(3, 14, 1);
SELECT * FROM state;
-- and it gives out segments
SELECT ask(5, 15, 1);
-- what had none at the start is not waited for: after the last report that was
-- written it goes on for the hold, and a twentieth of that
UPDATE world SET started = 77;
SELECT ask(1, 77);
SELECT ask(5, 78, 1);
UPDATE snowflake_segment_server SET reported_at = t(13.999999) WHERE reporter = lpad('2', 32, '0')::uuid;
SELECT * FROM servers;
SELECT ask(1, 79, 1);
UPDATE snowflake_segment_server SET reported_at = t(13.999999) WHERE reporter = lpad('3', 32, '0')::uuid;
SELECT ask(1, 79, 1);
-- one alone: with its first report, but not where that was held until it was over
-- with its numbers
SELECT anew();
SELECT ask(1, 0, 1);
BEGIN;
UPDATE world SET started = 63;
SELECT ask(1, 63, 1);
ROLLBACK;
BEGIN;
UPDATE world SET started = 63.000001;
SELECT ask(1, 63.000001, 1);
ROLLBACK;
UPDATE world SET started = 1;
SELECT ask(1, 1, 1);
-- it had no tags any more
SELECT ask(2, 1, 1);
UPDATE world SET started = 2;
SELECT ask(1, 2, 1);
SELECT ask(2, 3, tag => NULL);
SELECT ask(1, 4, 1);
-- started again during a guard: what had numbers at the first start counts, and
-- proofs of before do not
UPDATE world SET started = 50;
SELECT ask(1, 50);
SELECT is_proved FROM state;
UPDATE world SET started = 67;
SELECT ask(3, 67, 1);
SELECT is_proved, guarded_until FROM state;
SELECT ask(1, 68);
SELECT guarded_until FROM state;
SELECT ask(2, 69);
SELECT guarded_until FROM state;
-- rows are not removed meanwhile, when nobody asked for long
SELECT anew();
SELECT ask(1, 40, 1), ask(2, 40, 1);
UPDATE world SET started = 100;
SELECT ask(3, 160.5, 1);
SELECT ask(2, 161, 1);
SELECT ask(1, 162, 1);
-- nobody proves anything: until the end, as if it had been closed
SELECT anew();
SELECT ask(1, 0, 1), ask(2, 0, 1, hold => 90);
UPDATE world SET started = 100;
SELECT ask(11, 101, 1);
SELECT ask(1, 102, is_valid => false);
SELECT ask(2, 103, is_valid => false);
SELECT * FROM state;
SELECT ask(11, 190.999999, 1);
SELECT ask(11, 191, 1);
SELECT * FROM state;
-- its clock was set back: what was reported since is not told by times
SELECT anew();
SELECT ask(1, 0, 1), ask(2, 0, 1);
UPDATE world SET started = -1000;
SELECT ask(3, -999, 1);
SELECT ask(2, -998, 1);
SELECT ask(3, -997, 1);
SELECT ask(1, -997, 1);
-- in a transaction that is rolled back nothing was noticed
UPDATE world SET started = -995;
BEGIN;
SELECT ask(3, -995, 1);
ROLLBACK;
SELECT guarded_until FROM state;
SELECT ask(3, -995, 1);
SELECT guarded_until FROM state;
-- the operator knows, also when the registry itself has not noticed yet
SELECT snowflake_registry_open(t(-994), '7000/00000001/5/6', t(-995), NULL), snowflake_registry_open(t(-994), '7000/00000001/5/6', t(-995), NULL);
SELECT guarded_until FROM state;
UPDATE world SET started = -900;
SELECT snowflake_registry_open(t(-899), '7000/00000001/5/6', t(-900), NULL);
SELECT ask(3, -898, 1);
-- no other server is there, as at home: no guard, and open in another place
SELECT anew();
BEGIN;
CREATE EXTENSION snowflake_home;
SELECT ask(1, 0, 1, hold => 0);
UPDATE world SET started = 2;
SELECT ask(11, 2, 1, hold => 0);
SELECT * FROM state;
UPDATE world SET place = '7000/00000002/5/6';
SELECT ask(11, 3, 1, hold => 0);
SELECT * FROM state;
-- also with a clock that was set back
UPDATE world SET place = '7000/00000003/5/6', started = -10;
SELECT ask(11, -9, 1, hold => 0);
ROLLBACK;

--
-- Set back, and started: one server was given more
--
SELECT anew();
SELECT ask(1, 0, 1), ask(2, 0, 1);
SELECT copy();
SELECT ask(2, 1, 1);
SELECT set_back();
UPDATE world SET started = 2;
SELECT ask(3, 3, 1);
SELECT ask(1, 4, 1);
-- by its reports, even if nothing else shows it
BEGIN;
UPDATE memory SET seen = 0 WHERE server = 2;
SELECT ask(2, 5);
SELECT * FROM state;
ROLLBACK;
-- by what it has seen, even if it goes on no more
BEGIN;
SELECT ask(2, 5, is_valid => false);
SELECT * FROM state;
ROLLBACK;
-- but not by what another registry has told it
BEGIN;
UPDATE memory SET seen = 0, place = '7000/00000001/7/6/0' WHERE server = 2;
SELECT ask(2, 5);
SELECT * FROM state;
UPDATE memory SET incarnation = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb', seen = 1000;
SELECT ask(2, 6);
SELECT * FROM state;
ROLLBACK;
SELECT ask(2, 5, 1);
SELECT * FROM state;
SELECT * FROM servers;
-- no more for the same once more, nor for another
SELECT ask(2, 6, 1);
UPDATE memory SET reports = 7 WHERE server = 1;
SELECT ask(1, 7, 1);
SELECT * FROM state;
SELECT ask(3, 62.999999, 1);
SELECT ask(3, 63, 1);
SELECT * FROM state;
-- an answer that was lost changes nothing
UPDATE memory SET reports = 100 WHERE server = 1;
SELECT ask(1, 64, 1, is_lost => true);
SELECT * FROM state;
SELECT ask(1, 124, 1, is_lost => true);
SELECT ask(1, 125, 1);

-- the one with more is away: others have reported since
SELECT anew();
SELECT ask(1, 0, 1);
SELECT copy();
SELECT ask(2, 1, 1);
SELECT ask(1, 4);
SELECT set_back();
UPDATE world SET started = 5;
SELECT ask(3, 6, 1);
SELECT ask(1, 7, 1);
SELECT ask(3, 65.999999, 1);
SELECT ask(2, 65.999999);
SELECT ask(3, 66, 1);
-- it was not there yet, and no other has reported since: that is not noticed,
-- before it reports itself
SELECT anew();
SELECT ask(1, 0, 1);
SELECT copy();
SELECT ask(2, 1, 1);
SELECT set_back();
UPDATE world SET started = 5;
SELECT ask(1, 6, 1);
SELECT ask(2, 7);
SELECT * FROM state;
-- a proof does not end it while a server is awaited that was given more
SELECT anew();
SELECT ask(1, 0), ask(2, 0);
SELECT copy();
SELECT ask(2, 1, 1);
SELECT set_back();
UPDATE world SET started = 2;
SELECT ask(1, 2, 1);
SELECT is_proved FROM state;
SELECT ask(1, 3, 1);
SELECT ask(2, 4, 1);
SELECT ask(1, 4, 1);
-- nor does a report prove anything whose server has not had its last two answers: what
-- another was given since is lost
SELECT anew();
SELECT ask(1, 0, 1), ask(1, 4, is_lost => true), ask(1, 8, is_lost => true);
SELECT copy();
SELECT ask(2, 9, 1);
SELECT set_back();
UPDATE world SET started = 10;
SELECT ask(1, 11);
SELECT ask(3, 12, 1);
SELECT is_proved FROM state;
-- its row is gone: it was removed, or is lost
SELECT anew();
SELECT ask(1, 0);
DELETE FROM snowflake_segment_server;
SELECT ask(1, 1);
SELECT * FROM servers;
-- as it may be where its numbers are valid no more
SELECT ask(1, 61);
DELETE FROM snowflake_segment_server;
SELECT ask(1, 62, is_valid => false);

-- not started: the memory was set back as well
SELECT anew();
SELECT ask(1, 0, 1);
SELECT copy();
SELECT ask(1, 1, 1);
SELECT set_back();
SELECT ask(1, 2, 1);
SELECT * FROM state;
-- the most that can be, and more
UPDATE memory SET reports = 9223372036854775807;
SELECT ask(1, 3);
SELECT * FROM state;
UPDATE memory SET reports = 1000000000;
SELECT ask(1, 3);
SELECT ask(1, 62, 1);
SELECT ask(1, 63, 1);
-- bad ones
SELECT count(*) FROM world, snowflake_segments_serve(t(64), place, t(started), ROW(1, '{a}', '{NULL}', '{0}', '{0}', '1 min', gen_random_uuid(), -1, NULL)::snowflake_segment_request);

--
-- Another place: closed, but where nothing is ever lost
--
SELECT anew();
SELECT ask(1, 0, 1);
UPDATE world SET place = '7000/00000002/5/6';
SELECT ask(1, 1, 1);
SELECT * FROM state;
SELECT snowflake_registry_open(t(2), '7000/00000002/5/6', t(0), true), loses_nothing FROM snowflake_registry_place;
SELECT snowflake_registry_open(t(2), '7000/00000002/5/6', t(0), NULL), loses_nothing FROM snowflake_registry_place;
-- another timeline, in another server
UPDATE world SET place = '7000/00000003/5/6', started = 3;
SELECT ask(9, 4, 1);
SELECT * FROM state;
-- it has lost something after all
UPDATE world SET place = '7000/00000004/5/6', started = 6;
UPDATE memory SET reports = 10 WHERE server = 1;
SELECT ask(1, 7, 1);
SELECT * FROM state;
SELECT snowflake_registry_open(t(8), '7000/00000004/5/6', t(6), NULL);
-- another system identifier, database or table
UPDATE world SET place = '7001/00000004/5/6';
SELECT ask(1, 9, 1);
SELECT snowflake_registry_open(t(9), '7001/00000004/7/6', t(6), NULL);
UPDATE world SET place = '7001/00000004/5/6';
SELECT ask(1, 10, 1);
SELECT snowflake_registry_open(t(11), '7001/00000004/5/8', t(6), false), loses_nothing FROM snowflake_registry_place;
UPDATE world SET place = '7001/00000005/5/8';
SELECT ask(1, 12, 1);
-- during a guard, and during a closing started again
UPDATE world SET place = '7001/00000005/5/8', started = 13;
SELECT ask(1, 13, 1);
SELECT closed_until, guarded_until FROM state;
UPDATE memory SET reports = 1000;
SELECT ask(1, 14, 1);
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_registry_open(t(15), '7001/00000005/5/8', t(13), NULL);
UPDATE world SET started = 16;
SELECT ask(2, 16, 1);
UPDATE world SET place = '7001/00000006/5/8';
SELECT ask(2, 17, 1);
SELECT closed_until, guarded_until FROM state;
-- stated of a registry that is new
SELECT anew();
SELECT snowflake_registry_open(t(0), '7000/00000001/5/6', t(0), true);
SELECT loses_nothing, closed_until, guarded_until FROM snowflake_registry_place;

SET client_min_messages = warning;
DROP SCHEMA segments CASCADE;
RESET client_min_messages;
RESET search_path;
RESET intervalstyle;
