-- The registry of node numbers at times and in places that are arguments: what
-- it does at the very end of a lease, of a guard and of a closing, and what it
-- makes of what servers have seen.  All else of it is in registry.sql.
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
CREATE SCHEMA nodes;
CREATE EXTENSION snowflake_nodes SCHEMA nodes;
SET search_path = nodes, public;

-- Seconds after the time when all begins, and back; marks as well.
CREATE FUNCTION t(s numeric) RETURNS timestamptz
RETURN timestamptz '2030-01-01 00:00:00+00' + s * interval '1 s';
CREATE FUNCTION s(timestamptz) RETURNS numeric
RETURN CASE WHEN isfinite($1) THEN trim_scale(extract(epoch FROM $1 - t(0))::numeric) END;
CREATE FUNCTION s(mark bigint) RETURNS numeric
RETURN CASE WHEN mark > 0 THEN trim_scale(mark / 1000000.0 - extract(epoch FROM t(0))::numeric) ELSE mark END;

-- Where the registry is, and when that was started.
CREATE TABLE world (place text, started numeric);
INSERT INTO world VALUES ('7000/00000001/5/6', 0);

-- snowflake_lease_node() at a time and in a place.  Also counts what is not a
-- mere renewal, even if that is rolled back.
CREATE SEQUENCE served;
CREATE FUNCTION serve(at timestamptz, here text, started timestamptz, ask snowflake_node_request) RETURNS snowflake_node_answer
LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('nodes.served'); RETURN nodes.snowflake_nodes_serve(at, here, started, ask); END $$;
DO $do$ BEGIN
    EXECUTE (SELECT replace(replace(replace(replace(replace(pg_get_functiondef(oid),
                 'FUNCTION nodes.snowflake_lease_node(', 'FUNCTION nodes.lease(at timestamptz, here text, started timestamptz, '),
                 'statement_timestamp()', 'at'), 'nodes.snowflake_nodes_here()', 'here'), 'pg_postmaster_start_time()', 'started'),
                 'nodes.snowflake_nodes_serve(', 'nodes.serve(')
             FROM pg_proc WHERE proname = 'snowflake_lease_node');
END $do$;

-- Server number "server" asks at a time.  Its clock is ahead by so much, and its
-- lease of 60 s.
CREATE FUNCTION ask(server integer, at numeric, held integer DEFAULT NULL, remaining numeric DEFAULT NULL,
                    seen bigint DEFAULT NULL, renewals bigint DEFAULT NULL, held_token integer DEFAULT NULL,
                    ahead numeric DEFAULT 0, lease_ttl numeric DEFAULT 60, max_node integer DEFAULT 3, mark numeric DEFAULT NULL,
                    wants_peers boolean DEFAULT NULL)
RETURNS snowflake_node_answer
RETURN lease(t(at), (SELECT place FROM world), t((SELECT started FROM world)),
    lpad(server::text, 32, '0')::uuid, held, lpad(held_token::text, 32, '0')::uuid, remaining * interval '1 s',
    'machine ' || server % 10, max_node, lease_ttl * interval '1 s',
    (extract(epoch FROM t(coalesce(mark, at + ahead + lease_ttl))) * 1000000)::bigint, t(at + ahead), NULL, 'layout A', 'server' || server, 5432, 1,
    seen, renewals, wants_peers);
-- What it is told: the number and what it has to remember, or why not.
CREATE FUNCTION told(snowflake_node_answer) RETURNS text
RETURN CASE WHEN ($1).node IS NULL
            THEN format('%s%s (%s changes)', CASE WHEN ($1).refusal_passes THEN 'not yet: ' ELSE 'no: ' END, ($1).refusal, ($1).changes)
            ELSE format('%s: floor %s, granted %s, %s changes, %s renewals', ($1).node, s(($1).floor), s(($1).granted), ($1).changes, ($1).renewals) END;
CREATE VIEW state AS
    SELECT s(closed_until) AS closed_until, s(guarded_until) AS guarded_until, is_proved, changes, place, s(started_at) AS started
    FROM snowflake_node_place;

--
-- Renewals and claims at the ends of leases
--
SELECT told(ask(1, 10));
SELECT told(ask(1, 20));
-- the last at which it runs; it is renewed later too, if nobody else has it
SELECT told(ask(1, 80));
SELECT told(ask(1, 140.000001));
SELECT told(ask(1, 300));
-- claimed as soon as it has run out, and not before
SELECT told(ask(2, 360, held => 0));
SELECT told(ask(3, 360, max_node => 0));
SELECT told(ask(3, 360.000001, max_node => 0));
SELECT told(ask(1, 361, held => 0, remaining => 9, renewals => 5, max_node => 0));
-- and not by a clock that is behind the mark
SELECT told(ask(4, 425, max_node => 0, ahead => -5));
SELECT told(ask(4, 425, max_node => 0, ahead => -4.999999));
TRUNCATE snowflake_node_place, snowflake_node_lease;

--
-- How far ahead
--
SELECT told(ask(1, 0, ahead => 10.000001));
SELECT (ask(1, 0, ahead => 11.56)).refusal_detail, (ask(1, 0, ahead => 11.56)).refusal_hint \gx
SELECT (ask(1, 0, mark => 90)).refusal_detail, (ask(1, 0, mark => 90)).refusal_hint \gx
SELECT told(ask(1, 0, ahead => 10));
-- a renewal gets no more than that
SELECT told(ask(1, 3, ahead => 100));
-- nor less than before
SELECT told(ask(1, 4, ahead => -100));
SELECT told(ask(1, 4, lease_ttl => 10));

--
-- What servers are told, and what is not written
--
SELECT a.* FROM ask(1, 5, wants_peers => true) AS a;
SELECT told(ask(2, 5));
SELECT a.peers, a.peers_offset, a.free FROM ask(2, 6, wants_peers => true) AS a;
-- a number whose lease is over, but not its mark, is not free
SELECT a.peers, a.free FROM ask(2, 66, wants_peers => true) AS a;
SELECT a.peers, a.free FROM ask(2, 73.999999, wants_peers => true) AS a;
SELECT a.peers, a.free FROM ask(2, 75, wants_peers => true) AS a;
SELECT a.free FROM ask(2, 75, max_node => 2147483647, wants_peers => true) AS a;
SELECT snowflake_nodes_release(t(76), 1, t(80)), snowflake_nodes_release(t(76), 1, t(80)), snowflake_nodes_release(t(76), 3, t(80));
SELECT changes FROM state;
SELECT told(ask(2, 77, seen => 3, renewals => 6));

--
-- Started again: on its guard
--
TRUNCATE snowflake_node_place, snowflake_node_lease;
-- a registry that has given nothing has nothing to lose
SELECT snowflake_nodes_open(t(0), '7000/00000001/5/6', t(0), NULL);
UPDATE world SET started = 1;
SELECT told(ask(1, 1));
SELECT * FROM state;
SELECT told(ask(2, 2));
SELECT told(ask(3, 3));
SELECT told(ask(1, 4, seen => 3, renewals => 1));
UPDATE world SET started = 5;
-- nobody claims, but renewals go on, by the record or by the clock of the server
SELECT told(ask(4, 10));
SELECT (ask(4, 10)).refusal_detail, (ask(4, 10)).refusal_hint \gx
SELECT * FROM state;
-- what proves nothing: nothing that was seen, of the registry or of the own
-- lease; a lease that has run out; too many renewals that it does not know of
BEGIN;
SELECT told(ask(1, 11, renewals => 2, held => 0, remaining => 50));
-- nor what it was told since
SELECT told(ask(1, 11, seen => 3, renewals => 3, held => 0, remaining => 50));
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
SELECT told(ask(1, 11, seen => 3, held => 0, remaining => 50));
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
SELECT told(ask(1, 11, seen => 3, renewals => 2));
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
SELECT told(ask(1, 11, seen => 3, renewals => 2, held => 0, remaining => 0));
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
SELECT told(ask(1, 11, seen => 3, renewals => 0, held => 0, remaining => 50));
SELECT is_proved FROM state;
ROLLBACK;
BEGIN;
SELECT told(ask(1, 11, seen => 3, renewals => 1, held => 0, remaining => 50));
SELECT is_proved FROM state;
ROLLBACK;
-- what does
SELECT told(ask(1, 13, seen => 3, renewals => 2, held => 0, remaining => 50));
SELECT is_proved FROM state;
SELECT told(ask(2, 14));
SELECT guarded_until FROM state;
-- the lease of the third ran until 63, and was not renewed: it may have known
-- more
SELECT told(ask(4, 63.000001));
SELECT told(ask(4, 69.999999));
SELECT told(ask(1, 69.999999));
SELECT told(ask(2, 69.999999));
SELECT told(ask(4, 70));
SELECT * FROM state;
-- they are all renewed; what had run out before the start is not waited for
UPDATE world SET started = 71;
SELECT told(ask(5, 72));
SELECT told(ask(1, 73, seen => 4, renewals => 4, held => 0, remaining => 50));
SELECT told(ask(4, 74));
SELECT told(ask(5, 74));
SELECT told(ask(2, 75));
SELECT told(ask(5, 76));
SELECT * FROM state;
-- started again during a guard: what had run at the first start counts
UPDATE world SET started = 100;
SELECT told(ask(1, 101, seen => 5, renewals => 5, held => 0, remaining => 30));
SELECT told(ask(2, 101));
SELECT told(ask(4, 101));
UPDATE world SET started = 155;
SELECT told(ask(1, 156, seen => 5, renewals => 6, held => 0, remaining => 3));
SELECT told(ask(2, 156));
SELECT told(ask(4, 156));
SELECT told(ask(1, 157));
SELECT guarded_until, is_proved FROM state;
SELECT told(ask(5, 158));
SELECT told(ask(1, 159));
SELECT guarded_until FROM state;
SELECT snowflake_nodes_open(t(160), '7000/00000001/5/6', t(155), NULL);
-- a number that a server still holds, and that is not known here
SELECT snowflake_nodes_release(t(161), 3, '-infinity');
DELETE FROM snowflake_node_lease WHERE node = 3;
UPDATE world SET started = 162;
SELECT told(ask(6, 163, held => 3));
SELECT told(ask(6, 163, held => 3, remaining => 0));
SELECT told(ask(6, 163, held => 1, remaining => 5));
SELECT told(ask(6, 163, held => 3, remaining => 0.000001));

-- nobody proves anything: until the end, as if it had been closed
TRUNCATE snowflake_node_place, snowflake_node_lease;
SELECT told(ask(1, 100, lease_ttl => 90));
SELECT told(ask(2, 100));
UPDATE world SET started = 200;
SELECT told(ask(3, 201));
SELECT guarded_until FROM state;
SELECT told(ask(1, 290.999999));
SELECT told(ask(3, 290.999999));
SELECT told(ask(3, 291));
SELECT told(ask(4, 292));
SELECT * FROM state;
SELECT told(ask(1, 292));
-- started again meanwhile: from then on, and proofs of before do not count
UPDATE world SET started = 293;
SELECT told(ask(3, 293, seen => 4, renewals => 1, held => 2, remaining => 50));
UPDATE world SET started = 300;
SELECT told(ask(5, 300, lease_ttl => 120));
SELECT guarded_until, is_proved, changes FROM state;
-- its clock was set back: what was renewed since is not told by times
TRUNCATE snowflake_node_place, snowflake_node_lease;
SELECT told(ask(1, 100));
SELECT told(ask(2, 100));
UPDATE world SET started = -1000;
SELECT told(ask(1, -999, seen => 2, renewals => 1, held => 0, remaining => 50));
SELECT told(ask(3, -998));
SELECT guarded_until, is_proved FROM state;
SELECT told(ask(2, -997));
SELECT told(ask(3, -996));
-- in a transaction that is rolled back nothing was noticed
UPDATE world SET started = -995;
BEGIN;
SELECT told(ask(4, -995));
ROLLBACK;
SELECT guarded_until, changes FROM state;
SELECT told(ask(4, -995));
SELECT guarded_until, changes FROM state;
-- the operator knows
SELECT snowflake_nodes_open(t(-994), '7000/00000001/5/6', t(-995), NULL);
SELECT snowflake_nodes_open(t(-994), '7000/00000001/5/6', t(-995), NULL);
SELECT guarded_until, closed_until FROM state;
-- also when the registry itself has not noticed yet
UPDATE world SET started = -900;
SELECT snowflake_nodes_open(t(-899), '7000/00000001/5/6', t(-900), NULL);
SELECT told(ask(5, -898, max_node => 9));

--
-- A server that has seen more
--
TRUNCATE snowflake_node_place, snowflake_node_lease;
UPDATE world SET started = 0;
SELECT told(ask(1, 0));
SELECT told(ask(2, 1));
-- changes
SELECT told(ask(1, 2, seen => 2, renewals => 1));
SELECT told(ask(1, 3, seen => 3, renewals => 2));
SELECT * FROM state;
SELECT told(ask(1, 4, seen => 3, renewals => 2, held => 0, remaining => 1));
SELECT told(ask(2, 4));
SELECT told(ask(3, 5));
SELECT (ask(3, 5)).refusal_detail, (ask(3, 5)).refusal_hint \gx
SELECT closed_until, changes FROM state;
SELECT told(ask(3, 62.999999));
SELECT told(ask(3, 63));
-- renewals: a server that goes on though it is not the one on record any more
-- has other ones
SELECT told(ask(1, 64, seen => 4, renewals => 3, held => 0, remaining => 1));
SELECT closed_until FROM state;
SELECT told(ask(1, 65, seen => 5, renewals => 5, held => 0, remaining => 1));
SELECT closed_until, changes FROM state;
SELECT told(ask(1, 66, seen => 6, renewals => 5, held => 0, remaining => 1));
SELECT closed_until, changes FROM state;
-- by the token of its start before
SELECT told(ask(11, 67, seen => 6, renewals => 8, held_token => 1));
SELECT closed_until, changes FROM state;
SELECT told(ask(11, 68, seen => 7, renewals => 8, held_token => 1, held => 0, remaining => 1));
-- one that has no lease, as an empty registry finds
TRUNCATE snowflake_node_place, snowflake_node_lease;
SELECT told(ask(1, 0, seen => 1, renewals => 1));
SELECT closed_until, changes FROM state;
-- also on its guard, and then no proof ends that
SELECT told(ask(1, 60));
UPDATE world SET started = 61;
SELECT told(ask(1, 62, seen => 5, renewals => 1));
SELECT told(ask(1, 63, seen => 5, renewals => 1));
SELECT told(ask(1, 63, seen => 5, renewals => 1, held => 0, remaining => 1));
SELECT told(ask(2, 64));
SELECT * FROM state;
-- the most that there can be
SELECT told(ask(1, 65, seen => 9223372036854775807, renewals => 9223372036854775807, held => 0, remaining => 1));
SELECT told(ask(1, 66, seen => 9223372036854775807, renewals => 9223372036854775807, held => 0, remaining => 1));
SELECT told(ask(2, 130, seen => 9223372036854775807));
SELECT (ask(2, 131, seen => -1)).refusal_detail;
SELECT (ask(2, 131, renewals => -1)).refusal_detail;

--
-- Another place: closed, but where nothing is ever lost
--
TRUNCATE snowflake_node_place, snowflake_node_lease;
UPDATE world SET started = 0;
SELECT told(ask(1, 0));
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(1, 1, seen => 1, renewals => 1));
SELECT * FROM state;
SELECT snowflake_nodes_open(t(2), '7000/00000002/5/6', t(0), true), loses_nothing FROM snowflake_node_place;
SELECT snowflake_nodes_open(t(2), '7000/00000002/5/6', t(0), NULL), loses_nothing FROM snowflake_node_place;
SELECT told(ask(1, 2, seen => 1, renewals => 1));
-- another timeline, in another server
UPDATE world SET place = '7000/00000003/5/6', started = 3;
SELECT told(ask(1, 4, seen => 1, renewals => 2, held => 0, remaining => 50));
SELECT told(ask(2, 5));
SELECT * FROM state;
-- it has lost something after all
UPDATE world SET place = '7000/00000004/5/6', started = 6;
SELECT told(ask(1, 7, seen => 3, renewals => 3));
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_nodes_open(t(8), '7000/00000004/5/6', t(6), NULL);
-- another system identifier, database or table
UPDATE world SET place = '7001/00000004/5/6';
SELECT told(ask(2, 9));
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_nodes_open(t(9), '7001/00000004/7/6', t(6), NULL);
UPDATE world SET place = '7001/00000004/5/6';
SELECT told(ask(2, 10));
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_nodes_open(t(11), '7001/00000004/5/8', t(6), false), loses_nothing FROM snowflake_node_place;
UPDATE world SET place = '7001/00000005/5/8';
SELECT told(ask(2, 12));
SELECT closed_until, guarded_until FROM state;
-- stated of a registry that is new
TRUNCATE snowflake_node_place, snowflake_node_lease;
SELECT snowflake_nodes_open(t(0), '7000/00000001/5/6', t(0), true);
SELECT loses_nothing, closed_until, guarded_until FROM snowflake_node_place;

--
-- A mere renewal is the same as by all of what there is: the same answer, the same
-- rows.  In all kinds of states, by all kinds of requests, most of which have
-- something that is not as usual.
--
CREATE FUNCTION one_of(usual anycompatible, VARIADIC others anycompatiblearray) RETURNS anycompatible
LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN random() < 0.9 THEN usual ELSE others[1 + floor(random() * cardinality(others))] END; END $$;
-- The state at 100, when it is asked.
CREATE PROCEDURE mix() LANGUAGE sql AS $$
    DELETE FROM nodes.snowflake_node_place;
    DELETE FROM nodes.snowflake_node_lease;
    INSERT INTO nodes.snowflake_node_place (place, closed_until, changes, started_at, guarded_from, guarded_until, is_proved, loses_nothing)
    VALUES (nodes.one_of('7000/00000001/5/6', 'another', '7001/00000001/5/6', '7000/00000002/5/6'),
            nodes.one_of(CASE WHEN random() < 0.5 THEN '-infinity' ELSE nodes.t(95) END, nodes.t(50), nodes.t(100), nodes.t(100.000001), nodes.t(100.000001), nodes.t(150)),
            5, nodes.one_of(nodes.t(0), nodes.t(-1), nodes.t(1)), nodes.one_of('-infinity', nodes.t(0)),
            nodes.one_of('-infinity', nodes.t(99), nodes.t(100), nodes.t(101)), random() < 0.5, random() < 0.5);
    INSERT INTO nodes.snowflake_node_lease
    SELECT node, CASE WHEN node < 9 THEN lpad(node::text, 32, '0')::uuid END, 'machine ' || node, 'server', 5432, NULL, 1,
        nodes.one_of('layout A', 'layout B'), nodes.t(0), nodes.one_of(nodes.t(90), nodes.t(49)),
        nodes.one_of(nodes.t(150), nodes.t(100), nodes.t(99.999999), nodes.t(40), nodes.t(400)), '1 min', 17,
        (extract(epoch FROM nodes.one_of(nodes.t(160), nodes.t(60), nodes.t(410))) * 1000000)::bigint, node * interval '1 s',
        nodes.one_of(7, 1, 9223372036854775806, 9223372036854775807), 3, nodes.one_of(nodes.t(0), nodes.t(-1))
    FROM unnest('{1,2,9}'::integer[]) AS node $$;
CREATE FUNCTION any_request() RETURNS snowflake_node_request LANGUAGE sql AS $$
    SELECT ROW(nodes.one_of(lpad('1', 32, '0'), lpad('2', 32, '0'), lpad('3', 32, '0'), NULL)::uuid, nodes.one_of(1, 0, 2, NULL),
        nodes.one_of(NULL, lpad('1', 32, '0'))::uuid, nodes.one_of(CASE WHEN random() < 0.5 THEN '50 s' END, '0')::interval,
        nodes.one_of('machine 1', 'machine 4', '', NULL), nodes.one_of(3, 1, 0, -1, 2147483647, NULL),
        nodes.one_of('1 min', '10 s', '9.999999 s', '1 day', '25 hours', '-1 min', '170000000 years', NULL)::interval,
        nodes.one_of((extract(epoch FROM nodes.t(160)) * 1000000)::bigint, (extract(epoch FROM nodes.t(1000)) * 1000000)::bigint, 0, -1, 9223372036854775807, NULL),
        nodes.one_of(nodes.t(100), nodes.t(99), nodes.t(111), '3001-01-01 00:00:00+00', 'infinity', '-infinity', NULL),
        nodes.one_of(NULL, '1 s', '-1 s', '1001 years', '-1001 years')::interval, nodes.one_of('layout A', 'layout B', NULL),
        nodes.one_of('server1', NULL), nodes.one_of(5433, NULL), nodes.one_of(2, NULL),
        nodes.one_of(5, 4, 6, -1, NULL), nodes.one_of(7, 0, 1, 2, 8, -1, 9223372036854775807, NULL),
        nodes.one_of(false, true, true, NULL))::nodes.snowflake_node_request $$;
-- What it is told, and what is there after it; or how it fails.
CREATE FUNCTION outcome(ask snowflake_node_request, in_full boolean) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    a nodes.snowflake_node_answer;
    outcome text[];
BEGIN
    IF in_full THEN
        a := nodes.snowflake_nodes_serve(nodes.t(100), '7000/00000001/5/6', nodes.t(0), ask);
    ELSE
        a := nodes.lease(nodes.t(100), '7000/00000001/5/6', nodes.t(0), ask.token, ask.held, ask.held_token, ask.remaining,
            ask.instance, ask.max_node, ask.lease_ttl, ask.mark, ask.clock, ask.clock_offset, ask.layout, ask.host, ask.port,
            ask.system_identifier, ask.seen, ask.renewals, ask.wants_peers);
    END IF;
    outcome := ARRAY[a::text, (SELECT p::text FROM nodes.snowflake_node_place AS p)]
               || ARRAY(SELECT l::text FROM nodes.snowflake_node_lease AS l ORDER BY l.node);
    RAISE transaction_rollback;
EXCEPTION
    WHEN transaction_rollback THEN RETURN outcome;
    WHEN others THEN RETURN ARRAY[SQLERRM];
END $$;
CREATE TABLE trial (place text, leases text, ask text, renewed boolean, outcome text[], in_full text[]);
DO $$
DECLARE
    ask nodes.snowflake_node_request;
    outcome text[];
    before bigint;
BEGIN
    PERFORM setseed(0.5);
    FOR i IN 1 .. 1000 LOOP
        CALL nodes.mix();
        ask := nodes.any_request();
        before := (SELECT last_value FROM nodes.served);
        outcome := nodes.outcome(ask, false);
        INSERT INTO nodes.trial
        VALUES ((SELECT p::text FROM nodes.snowflake_node_place AS p),
                (SELECT string_agg(l::text, '; ' ORDER BY l.node) FROM nodes.snowflake_node_lease AS l),
                ask::text, before = (SELECT last_value FROM nodes.served), outcome, nodes.outcome(ask, true));
    END LOOP;
END $$;
SELECT place, leases, ask, renewed, outcome, in_full FROM trial WHERE outcome <> in_full LIMIT 5;
SELECT count(*) FILTER (WHERE renewed) > 200 AS many_are_renewed, count(*) FILTER (WHERE NOT renewed) > 200 AS many_are_not,
       count(*) FILTER (WHERE cardinality(outcome) = 1) AS failed
FROM trial;
TRUNCATE snowflake_node_place, snowflake_node_lease;

--
-- Counts
--
TRUNCATE snowflake_node_place, snowflake_node_lease;
SELECT * FROM snowflake_node_counts;
BEGIN;
INSERT INTO snowflake_node_lease
SELECT n, gen_random_uuid(), n, 'server' || n, 5432, NULL, n, 'layout A', now(), now() + n * interval '1 s', now() + more, '1 min', 0,
       (extract(epoch FROM now() + more + over) * 1000000)::bigint, '0', 1, CASE n WHEN 5 THEN 31 ELSE 7 END, now()
FROM (VALUES (0, interval '1 hour', interval '10 s'), (1, '2 hours', '0'), (2, '-1 hour', '30 min'), (3, '-1 hour', '90 min'), (5, '3 hours', '0'), (40, '10 minutes', '0'))
     AS l (n, more, over);
UPDATE snowflake_node_lease SET renewed_at = now() WHERE node = 40;
SELECT total, live, expired, free, next_free_at = now() + '30 min' AS next_free_at, closed_until FROM snowflake_node_counts;
SAVEPOINT s;
SELECT snowflake_release_node(0, '-infinity');
SELECT total, live, expired, free FROM snowflake_node_counts;
ROLLBACK TO s;
INSERT INTO snowflake_node_place (place, closed_until, guarded_until) VALUES ('here', now() + interval '1 hour', now() + interval '2 hours');
SELECT closed_until = now() + interval '2 hours' AS guarded FROM snowflake_node_counts, (SELECT guarded_until FROM snowflake_node_place) AS p;
UPDATE snowflake_node_place SET guarded_until = now() - interval '1 hour';
SELECT closed_until = now() + interval '1 hour' AS closed FROM snowflake_node_counts;
UPDATE snowflake_node_place SET closed_until = now() - interval '2 hours';
SELECT closed_until FROM snowflake_node_counts;
DELETE FROM snowflake_node_lease WHERE node IN (2, 3);
UPDATE snowflake_node_lease SET expires_at = now() - interval '1 s', mark = 0;
SELECT total, live, expired, free, next_free_at FROM snowflake_node_counts;
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA nodes CASCADE;
RESET client_min_messages;
RESET search_path;
RESET intervalstyle;
