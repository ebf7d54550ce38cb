-- The registry of node numbers at times and in places that are arguments: what
-- it does at the very end of a lease, of a guard and of a closing, and what it
-- makes of what servers have seen.  All else of it is in registry.sql.
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
CREATE SCHEMA nodes;
CREATE EXTENSION snowflake_registry SCHEMA nodes;
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

-- A registry that is new.
CREATE FUNCTION anew() RETURNS void LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM snowflake_node_lease;
    DELETE FROM snowflake_registry_place;
    INSERT INTO snowflake_registry_place (place, started_at) SELECT place, t(started) FROM world;
END;
SELECT anew();

-- Server number "server" asks at a time.  Its clock is ahead by so much, and its
-- lease of 60 s.
CREATE FUNCTION ask(server integer, at numeric, held integer DEFAULT NULL, remaining numeric DEFAULT NULL,
                    seen bigint DEFAULT NULL, renewals bigint DEFAULT NULL, held_token integer DEFAULT NULL,
                    ahead numeric DEFAULT 0, lease_ttl numeric DEFAULT 60, number integer DEFAULT NULL, machine integer DEFAULT NULL, max_node integer DEFAULT 3, mark numeric DEFAULT NULL,
                    wants_peers boolean DEFAULT NULL)
RETURNS snowflake_node_answer
RETURN snowflake_nodes_serve(t(at), (SELECT place FROM world), t((SELECT started FROM world)), ROW(1,
    lpad(server::text, 32, '0')::uuid, number, held, lpad(held_token::text, 32, '0')::uuid, remaining * interval '1 s',
    'machine ' || coalesce(machine, server % 10), max_node, lease_ttl * interval '1 s',
    (extract(epoch FROM t(coalesce(mark, at + ahead + lease_ttl))) * 1000000)::bigint, t(at + ahead), NULL, 'layout A', 'server' || server, 5432, 1,
    seen, renewals, wants_peers)::snowflake_node_request);
-- What it is told: the number and what it has to remember, or why not.
CREATE FUNCTION told(snowflake_node_answer) RETURNS text
RETURN CASE WHEN ($1).node IS NULL
            THEN format('%s%s (%s changes)', CASE WHEN ($1).refusal_passes THEN 'not yet: ' ELSE 'no: ' END, ($1).refusal, ($1).changes)
            ELSE format('%s: floor %s, granted %s, %s changes, %s renewals', ($1).node, s(($1).floor), s(($1).granted), ($1).changes, ($1).renewals) END;
CREATE VIEW state AS
    SELECT s(closed_until) AS closed_until, s(guarded_until) AS guarded_until, is_proved, changes, place, s(started_at) AS started
    FROM snowflake_registry_place;

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
SELECT anew();

--
-- How far ahead
--
SELECT told(ask(1, 0, ahead => 10.000001));
SELECT a.refusal, a.free FROM ask(1, 0, ahead => 10.000001, max_node => 2147483647, wants_peers => true) AS a;
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
-- what it was told of another number says nothing of this one, also where the answer
-- to its claim was lost
SELECT anew();
SELECT told(ask(1, 0));
SELECT told(ask(2, 1, held => 0, seen => 1, renewals => 50));
SELECT told(ask(2, 2, held => 0, seen => 1, renewals => 50));
SELECT closed_until FROM state;
-- a clock that no server may have does not make a mark past
SELECT told(ask(3, 3, number => 2));
SELECT told(ask(3, 4, number => 2, mark => 1000000));
SELECT snowflake_nodes_release(t(5), 2, 'infinity');
SELECT told(ask(4, 100, held => 2, number => 2, ahead => 2000000, mark => 100)), (ask(4, 100, number => 2, ahead => 2000000, mark => 100)).refusal_detail;
SELECT told(ask(4, 100, held => 2, ahead => 2000000, mark => 100));
SELECT snowflake_nodes_release(t(101), 2, t(100)), told(ask(5, 102, held => 2));

--
-- Started again: on its guard
--
SELECT anew();
-- a registry that has given nothing has nothing to lose
SELECT snowflake_registry_open(t(0), '7000/00000001/5/6', t(0), NULL);
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
SELECT snowflake_registry_open(t(160), '7000/00000001/5/6', t(155), NULL);
-- a number that a server still holds, and that is not known here
SELECT snowflake_nodes_release(t(161), 3, '-infinity');
DELETE FROM snowflake_node_lease WHERE node = 3;
UPDATE world SET started = 162;
SELECT told(ask(6, 163, held => 3));
SELECT told(ask(6, 163, held => 3, remaining => 0));
SELECT told(ask(6, 163, held => 1, remaining => 5));
SELECT told(ask(6, 163, held => 3, remaining => 0.000001));

-- nobody proves anything: until the end, as if it had been closed
SELECT anew();
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
SELECT anew();
SELECT told(ask(1, 100));
SELECT told(ask(2, 100));
UPDATE world SET started = -1000;
SELECT told(ask(1, -999, seen => 2, renewals => 1, held => 0, remaining => 50));
SELECT told(ask(3, -998));
SELECT guarded_until, is_proved FROM state;
SELECT told(ask(2, -997));
SELECT told(ask(3, -996));
-- a proof does not outlive the next start: a claim that was made after it is lost
SELECT anew();
UPDATE world SET started = -1000;
SELECT told(ask(1, -1000));
UPDATE world SET started = -990;
SELECT told(ask(1, -989, seen => 1, renewals => 1, held => 0, remaining => 50));
SELECT guarded_until, is_proved FROM state;
BEGIN;
SELECT told(ask(2, -988));
ROLLBACK;
UPDATE world SET started = -980;
SELECT told(ask(1, -979));
SELECT told(ask(3, -978));
SELECT guarded_until, is_proved FROM state;
SELECT snowflake_registry_open(t(-970), '7000/00000001/5/6', t(-980), NULL);
-- in a transaction that is rolled back nothing was noticed
UPDATE world SET started = -995;
BEGIN;
SELECT told(ask(4, -995));
ROLLBACK;
SELECT guarded_until, changes FROM state;
SELECT told(ask(4, -995));
SELECT guarded_until, changes FROM state;
-- the operator knows
SELECT snowflake_registry_open(t(-994), '7000/00000001/5/6', t(-995), NULL);
SELECT snowflake_registry_open(t(-994), '7000/00000001/5/6', t(-995), NULL);
SELECT guarded_until, closed_until FROM state;
-- also when the registry itself has not noticed yet
UPDATE world SET started = -900;
SELECT snowflake_registry_open(t(-899), '7000/00000001/5/6', t(-900), NULL);
SELECT told(ask(5, -898, max_node => 9));

--
-- A server that has seen more
--
SELECT anew();
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
SELECT anew();
SELECT told(ask(1, 0, seen => 1, renewals => 1));
SELECT closed_until, changes FROM state;
-- also on its guard, and then no proof ends that
SELECT told(ask(1, 3660));
UPDATE world SET started = 3661;
SELECT told(ask(1, 3662, seen => 5, renewals => 1));
SELECT told(ask(1, 3663, seen => 5, renewals => 1));
SELECT told(ask(1, 3663, seen => 5, renewals => 1, held => 0, remaining => 1));
SELECT told(ask(2, 3664));
SELECT * FROM state;
-- more than any loss can explain changes nothing
SELECT told(ask(1, 3665, seen => 9223372036854775807, renewals => 1, held => 0, remaining => 1));
SELECT told(ask(1, 3665, seen => 6, renewals => 9223372036854775807, held => 0, remaining => 1));
SELECT told(ask(9, 3665, seen => 1000000007));
SELECT (ask(9, 3665, seen => 1000000007)).refusal_detail;
SELECT * FROM state;
SELECT told(ask(9, 3665, seen => 1000000006));
SELECT changes FROM state;
SELECT told(ask(1, 3665, seen => 6, renewals => 1000000003, held => 0, remaining => 1));
SELECT told(ask(1, 3665, seen => 6, renewals => 1000000002, held => 0, remaining => 1));
SELECT (ask(2, 131, seen => -1)).refusal_detail;
SELECT (ask(2, 131, renewals => -1)).refusal_detail;

--
-- Another place: closed, but where nothing is ever lost
--
SELECT anew();
UPDATE world SET started = 0;
SELECT told(ask(1, 0));
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(1, 1, seen => 1, renewals => 1));
SELECT * FROM state;
SELECT snowflake_registry_open(t(2), '7000/00000002/5/6', t(0), true), loses_nothing FROM snowflake_registry_place;
SELECT snowflake_registry_open(t(2), '7000/00000002/5/6', t(0), NULL), loses_nothing FROM snowflake_registry_place;
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
SELECT snowflake_registry_open(t(8), '7000/00000004/5/6', t(6), NULL);
-- another system identifier, database or table
UPDATE world SET place = '7001/00000004/5/6';
SELECT told(ask(2, 9));
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_registry_open(t(9), '7001/00000004/7/6', t(6), NULL);
UPDATE world SET place = '7001/00000004/5/6';
SELECT told(ask(2, 10));
SELECT closed_until, guarded_until FROM state;
SELECT snowflake_registry_open(t(11), '7001/00000004/5/8', t(6), false), loses_nothing FROM snowflake_registry_place;
UPDATE world SET place = '7001/00000005/5/8';
SELECT told(ask(2, 12));
SELECT closed_until, guarded_until FROM state;
-- stated of a registry that is new
UPDATE world SET place = '7000/00000001/5/6', started = 0;
SELECT anew();
SELECT snowflake_registry_open(t(0), '7000/00000001/5/6', t(0), true);
SELECT loses_nothing, closed_until, guarded_until FROM snowflake_registry_place;

--
-- What was given first is lost with the primary: the place shows it, which was noted
-- when the registry was created
--
SELECT anew();
UPDATE world SET place = '7000/00000002/5/6', started = 50;
SELECT told(ask(2, 51));
SELECT told(ask(1, 52, seen => 1, renewals => 1, held => 0, remaining => 20));
SELECT told(ask(2, 3651));

-- for as long as any lease may be that nothing is known of, and a stranger cannot make
-- that shorter
SELECT anew();
UPDATE world SET place = '7000/00000003/5/6';
SELECT count(*) FROM world, snowflake_segments_serve(t(0), place, t(started), ROW(1, '{}', '{}', '{}', '{}', '10 s', NULL, NULL, NULL)::snowflake_segment_request);
SELECT told(ask(2, 1));
SELECT closed_until FROM state;

--
-- How long it closes: for the longest of what ran at the end of the record, which is
-- not what a server that is gone had, and never for more than the longest lease
--
UPDATE world SET place = '7000/00000001/5/6', started = 0;
SELECT anew();
SELECT told(ask(1, 0, lease_ttl => 3600));
SELECT told(ask(2, 0));
SELECT told(ask(2, 3601));
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(2, 3602));
SELECT s(closed_until) - 3602 AS closed_for FROM snowflake_registry_place;
-- the record is an old one: what ran at its end does now
UPDATE world SET place = '7000/00000001/5/6';
SELECT anew();
SELECT told(ask(1, 0, lease_ttl => 600));
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(2, 700000));
SELECT s(closed_until) - 700000 AS closed_for FROM snowflake_registry_place;
-- or of a clock that was ahead
UPDATE world SET place = '7000/00000001/5/6';
SELECT anew();
SELECT told(ask(1, 100000, lease_ttl => 600)), told(ask(2, 100000.5));
UPDATE snowflake_node_lease SET renewed_at = t(200000), expires_at = t(200060) WHERE node = 1;
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(3, 100002));
SELECT s(closed_until) - 100002 AS closed_for FROM snowflake_registry_place;
-- a stranger
SELECT anew();
SELECT told(ask(9, 0, seen => 1000, lease_ttl => 86400));
SELECT closed_until, changes FROM state;
SELECT told(ask(9, 1, seen => 2000, lease_ttl => 86400));
SELECT closed_until, changes FROM state;
-- repaired
SELECT snowflake_registry_open(t(2), '7000/00000002/5/6', t(0), NULL);
SELECT told(ask(1, 3, seen => 2001));
SELECT (ask(2, 3, lease_ttl => 86400)).lease_ttl;
UPDATE snowflake_registry_place SET longest_lease = '10 s';
SELECT told(ask(3, 3)), (ask(3, 3)).lease_ttl;

--
-- A server that still has a number that is not on record, and too late a time: the
-- number is not another's before that time
--
UPDATE world SET place = '7000/00000001/5/6';
SELECT anew();
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(1, 1, held => 0, remaining => 0, ahead => 3600, seen => 1, renewals => 1));
SELECT count(*) FROM snowflake_node_lease;
SELECT told(ask(1, 1, held => 0, remaining => 30, ahead => 3600, seen => 1, renewals => 1));
SELECT node, s(expires_at) AS expires, s(mark) AS mark, renewals FROM snowflake_node_lease;
SELECT told(ask(2, 3602));
SELECT told(ask(3, 3652, ahead => 10, lease_ttl => 10, mark => 3662, max_node => 0));
SELECT told(ask(3, 3652, max_node => 0));
-- likewise what is left of a lease whose last renewal is lost
UPDATE world SET place = '7000/00000001/5/6';
SELECT anew();
SELECT told(ask(1, 3600));
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(1, 4, held => 0, remaining => 50, ahead => 3600, seen => 1, renewals => 2));
SELECT told(ask(1, 5, held => 0, remaining => 50, ahead => 3600, seen => 1, renewals => 3));
-- likewise with another layout
SELECT anew();
SELECT told(ask(1, 1));
UPDATE snowflake_node_lease SET layout = 'layout B';
UPDATE world SET place = '7000/00000003/5/6';
SELECT told(ask(2, 2, held => 1, remaining => 30));
SELECT node, layout, s(mark) AS mark FROM snowflake_node_lease ORDER BY node;
-- it stays refused: that is nobody's lease
SELECT told(ask(2, 3, held => 1, remaining => 29)), told(ask(2, 3, held => 1));
SELECT node, state, renewed_at, s(expires_at) AS expires FROM snowflake_nodes WHERE node = 1;
-- and the number stays its own where it is configured, also when the others have stopped
UPDATE snowflake_node_lease SET layout = 'layout B', expires_at = t(200) WHERE node = 0;
SELECT told(ask(3, 4, number => 3, held => 3, remaining => 30));
SELECT told(ask(3, 5, number => 3, held => 3, remaining => 29)), told(ask(3, 100, number => 3)), told(ask(4, 100, number => 3));
SELECT (ask(4, 100, number => 3)).refusal_detail;
SELECT told(ask(3, 200, number => 3)), told(ask(3, 200.000001, number => 3));

--
-- Another layout, when a lease has run out or the registered server was away
--
SELECT anew();
SELECT told(ask(1, 0)), told(ask(2, 0, number => 1)), told(ask(3, 0));
UPDATE snowflake_node_lease SET layout = 'layout B', expires_at = t(1000) WHERE node = 2;
SELECT told(ask(1, 60)), told(ask(2, 60, number => 1));
SELECT told(ask(1, 120.000001)), told(ask(2, 120.000001, number => 1));
SELECT told(ask(1, 1000)), told(ask(2, 1000, number => 1));
SELECT told(ask(1, 1000.000001)), told(ask(2, 1000.000001, number => 1));

--
-- Clocks of those that have renewed lately
--
SELECT anew();
SELECT told(ask(1, 0, ahead => 9)), told(ask(2, 0));
SELECT peers, peers_offset FROM ask(3, 29.999, wants_peers => true);
SELECT peers, peers_offset FROM ask(2, 30, wants_peers => true);
SELECT peers, peers_offset FROM ask(2, 30.000001, wants_peers => true);
-- also while the request was served, which is of before
SELECT peers, peers_offset FROM ask(1, 0.000001, wants_peers => true);
SELECT peers, peers_offset FROM ask(1, 0, wants_peers => true);

--
-- Numbers that servers are configured with
--
UPDATE world SET place = '7000/00000001/5/6', started = 0;
SELECT anew();
SELECT told(ask(1, 0, number => 2));
SELECT node, s(expires_at) AS expires, expires_at FROM snowflake_node_lease;
-- its own, also years later, and as another instance
SELECT told(ask(1, 100000000, number => 2));
SELECT told(ask(1, 100000001, number => 2, machine => 5));
-- nobody else's, who is told whose it is, as the holder is told who asks; tests may
-- connect by TCP
CREATE FUNCTION no_address(text) RETURNS text RETURN regexp_replace($1, ', from [^,]*,', '');
SELECT told(ask(2, 100000002, number => 2));
SELECT a.refusal_detail, a.refusal_hint FROM ask(2, 100000002, number => 2) AS a \gx
SELECT no_address(warning) AS warning FROM ask(1, 100000061.999999, number => 2, machine => 5);
SELECT no_address(warning) AS warning FROM ask(1, 100000062.000001, number => 2, machine => 5);
-- nor after the clock was set back, or of who asked for the number before it was its own
BEGIN;
SELECT warning FROM ask(1, 99999900, number => 2, machine => 5);
UPDATE snowflake_node_lease SET claimed_at = t(100000003);
SELECT warning FROM ask(1, 100000004, number => 2, machine => 5);
ROLLBACK;
SELECT told(ask(2, 100000063, number => 2, held => 2, remaining => 60));
SELECT told(ask(3, 100000063, held => 2, remaining => 60));
SELECT told(ask(4, 100000063)), told(ask(5, 100000063)), told(ask(6, 100000063));
-- nor one that is leased, before it is free
SELECT told(ask(2, 100000064, number => 1));
SELECT no_address(warning) AS warning FROM ask(4, 100000065);
SELECT no_address(warning) AS warning FROM ask(5, 100000065);
SELECT told(ask(2, 100000200, number => 1));
-- there is no such number
SELECT told(ask(2, 100000200, number => 4)), (ask(2, 100000200, number => -1)).refusal_detail;
-- another one of the same server; its token has one
SELECT told(ask(1, 100000201, number => 0));
-- released: another's once the time of its IDs is over, and not below that
SELECT snowflake_nodes_release(t(100000202), 2, t(100000300));
SELECT told(ask(7, 100000202, number => 2)), (ask(7, 100000202, number => 2)).refusal_detail;
SELECT told(ask(7, 100000301, number => 2));
SELECT told(ask(1, 100000302, number => 2));
-- one that was stopped, but had not been seen for long; who releases it may know better
BEGIN;
SELECT snowflake_nodes_release(t(100009000), 2, 'infinity');
SELECT s(mark) AS mark, expires_at = t(100009000) AS expired FROM snowflake_node_lease WHERE node = 2;
ROLLBACK;
BEGIN;
-- its clock was a minute ahead, or behind
SELECT told(ask(7, 100000302, number => 2, ahead => 60));
SELECT snowflake_nodes_release(t(100009000), 2, 'infinity');
SELECT s(mark) AS mark FROM snowflake_node_lease WHERE node = 2;
ROLLBACK;
BEGIN;
SELECT told(ask(7, 100000302, number => 2, ahead => -60));
SELECT snowflake_nodes_release(t(100009000), 2, 'infinity');
SELECT s(mark) AS mark FROM snowflake_node_lease WHERE node = 2;
ROLLBACK;
BEGIN;
SELECT snowflake_nodes_release(t(100009000), 2, t(100008000));
SELECT s(mark) AS mark FROM snowflake_node_lease WHERE node = 2;
ROLLBACK;
BEGIN;
SELECT snowflake_nodes_release(t(100009000), 2, '9999-01-01');
SELECT mark FROM snowflake_node_lease WHERE node = 2;
-- once more, by who knows better now
SELECT snowflake_nodes_release(t(100009001), 2, t(100008000)), snowflake_nodes_release(t(100009001), 2, t(100008000));
SELECT s(mark) AS mark FROM snowflake_node_lease WHERE node = 2;
ROLLBACK;
-- two servers with one token take turns
SELECT no_address(warning) AS warning FROM ask(7, 100000303, number => 2);
SELECT no_address(warning) AS warning FROM ask(7, 100000304, number => 2, machine => 6);
SELECT no_address(warning) AS warning FROM ask(7, 100000305, number => 2, machine => 7);
SELECT no_address(warning) AS warning FROM ask(7, 100000306, number => 2, machine => 6);
SELECT no_address(warning) AS warning FROM ask(7, 100000307, number => 2, machine => 8);
SELECT no_address(warning) AS warning FROM ask(7, 100000400, number => 2, machine => 8);
-- closed: it has its own still, and an unknown one only if it was registered
UPDATE world SET place = '7000/00000002/5/6';
SELECT told(ask(7, 100000401, number => 2, machine => 8, held => 2, remaining => 60));
DELETE FROM snowflake_node_lease WHERE node = 2;
SELECT told(ask(7, 100000402, number => 2));
SELECT told(ask(7, 100000402, number => 2, held => 2, remaining => 60));
-- all with another layout, one after the other
UPDATE snowflake_node_lease SET layout = 'layout B', renewed_at = t(100000300), expires_at = least(expires_at, t(100000360)) WHERE node <> 2;
UPDATE snowflake_node_lease SET expires_at = 'infinity' WHERE node = 0;
SELECT told(ask(7, 100000403, number => 2, held => 2, remaining => 60));
UPDATE snowflake_node_lease SET layout = 'layout B' WHERE node = 2;
SELECT told(ask(7, 100000403, number => 2, held => 2, remaining => 60));
UPDATE snowflake_node_lease SET layout = 'layout B', renewed_at = t(100000400) WHERE node = 2;
UPDATE snowflake_node_lease SET renewed_at = t(100000344) WHERE node = 0;
SELECT told(ask(7, 100000404, number => 2, held => 2, remaining => 60));
UPDATE snowflake_node_lease SET renewed_at = t(100000343.999999) WHERE node = 0;
SELECT told(ask(7, 100000404, number => 2, held => 2, remaining => 60));
-- one that leases again gets another: this one ends only by a release
SELECT told(ask(8, 100000600, machine => 7, held => 2, held_token => 7, remaining => 60, max_node => 9));
SELECT expires_at, instance FROM snowflake_node_lease WHERE node = 2;
-- one that is away does not keep a guard for more than a lease
UPDATE world SET started = 100001000, place = '7000/00000001/5/6';
SELECT anew();
SELECT told(ask(1, 100001000, number => 0)), told(ask(2, 100001000)), told(ask(3, 100001070, number => 2));
UPDATE world SET started = 100001061;
SELECT told(ask(3, 100001071, number => 2, seen => 3, renewals => 1, held => 2, remaining => 60));
SELECT told(ask(4, 100001072, number => 3));
SELECT guarded_until FROM state;
-- nor does it prove anything then: what was lost came after it was heard
UPDATE world SET started = 100009000;
SELECT told(ask(3, 100009001, number => 2, seen => 4, renewals => 2, held => 2, remaining => 60));
SELECT told(ask(5, 100009002));
-- its mark is what it says, as nothing bounds it
SELECT told(ask(3, 100009003, number => 2, held => 2, remaining => 60, ahead => 3600));

--
-- Nothing to a version that it does not know, and nothing in a home database
--
SELECT message, hint FROM error_of($$SELECT snowflake_nodes_serve(t(0), 'here', t(0), ROW(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::snowflake_node_request)$$) \gx
BEGIN;
CREATE EXTENSION snowflake_home;
SELECT regexp_replace(message, '".*"', '"HERE"') AS message, hint FROM error_of('SELECT ask(9, 0)') \gx
SELECT message FROM error_of($$SELECT snowflake_take_segments(1, '{}', '{}', '{}', '{}', '1 us')$$);
SELECT count(*) FROM snowflake_take_segments(1, '{a}', '{NULL}', '{0}', '{1}', '0');
ROLLBACK;

--
-- Counts
--
SELECT anew();
SELECT * FROM snowflake_node_counts;
BEGIN;
INSERT INTO snowflake_node_lease
SELECT n, gen_random_uuid(), n, NULL, 'server' || n, 5432, NULL, n, 'layout A', now(), now() + n * interval '1 s', now() + more, '1 min', 0,
       (extract(epoch FROM now() + more + over) * 1000000)::bigint, '0', 1, CASE n WHEN 5 THEN 31 ELSE 7 END, now()
FROM (VALUES (0, interval '1 hour', interval '10 s'), (1, '2 hours', '0'), (2, '-1 hour', '30 min'), (3, '-1 hour', '90 min'), (5, '3 hours', '0'), (40, '10 minutes', '0'))
     AS l (n, more, over);
UPDATE snowflake_node_lease SET renewed_at = now() WHERE node = 40;
SELECT total, live, expired, free, next_free_at = now() + '30 min' AS next_free_at FROM snowflake_node_counts;
SAVEPOINT s;
SELECT snowflake_release_node(0, '-infinity');
SELECT total, live, expired, free FROM snowflake_node_counts;
ROLLBACK TO s;
-- one row, until when and why it is not open
SELECT state, until, reason, place, changes, longest_lease, loses_nothing FROM snowflake_registry;
UPDATE snowflake_registry_place SET closed_until = now() + interval '1 hour', guarded_until = now() + interval '2 hours';
SELECT state, until - now() AS until, reason FROM snowflake_registry;
UPDATE snowflake_registry_place SET closed_until = now() - interval '1 hour';
SELECT state, until - now() AS until, reason FROM snowflake_registry;
UPDATE snowflake_registry_place SET guarded_until = now() - interval '2 hours';
SELECT state, until, reason FROM snowflake_registry;
DELETE FROM snowflake_node_lease WHERE node IN (2, 3);
UPDATE snowflake_node_lease SET expires_at = now() - interval '1 s', mark = 0;
SELECT total, live, expired, free, next_free_at FROM snowflake_node_counts;
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA nodes CASCADE;
RESET client_min_messages;
RESET search_path;
RESET intervalstyle;
