-- The registry of node numbers, as one session can see it.  What comes at once,
-- clocks, and other servers are in t/faults/070_registry.pl.
SET timezone = 'UTC';
CREATE ROLE regress_snowflake_owner;
CREATE ROLE regress_snowflake_server;
CREATE ROLE regress_snowflake_operator;
GRANT pg_monitor TO regress_snowflake_operator;

-- it belongs to who creates it, who need not be a superuser
SELECT current_database() AS here \gset
GRANT CREATE ON DATABASE :here TO regress_snowflake_owner;
SET ROLE regress_snowflake_owner;
CREATE SCHEMA registry;
CREATE EXTENSION snowflake_registry SCHEMA registry;
GRANT USAGE ON SCHEMA registry TO regress_snowflake_server, regress_snowflake_operator;
GRANT EXECUTE ON FUNCTION registry.snowflake_lease_node TO regress_snowflake_server;
GRANT EXECUTE ON FUNCTION registry.snowflake_release_node TO regress_snowflake_operator;
RESET ROLE;
SET search_path = registry, public;

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
SELECT DISTINCT relowner::regrole FROM pg_class WHERE relnamespace = 'registry'::regnamespace;
-- as does each column of the view
SELECT count(*) FILTER (WHERE col_description(attrelid, attnum) IS NULL) AS without_comment
FROM pg_attribute WHERE attrelid IN ('snowflake_nodes'::regclass, 'snowflake_node_counts'::regclass, 'snowflake_registry'::regclass) AND attnum > 0;

-- As a server asks.  Tokens are made of one digit, and the mark is the clock
-- plus the lease.
CREATE FUNCTION ask(token integer, held integer DEFAULT NULL, held_token integer DEFAULT NULL,
                    max_node integer DEFAULT 3, lease_ttl interval DEFAULT '10 min',
                    ahead interval DEFAULT '0', layout text DEFAULT 'layout A',
                    instance text DEFAULT NULL, remaining interval DEFAULT NULL, OUT protocol integer, OUT node integer, OUT floor bigint, OUT granted bigint,
                    OUT granted_ttl interval, OUT registry_clock timestamptz, OUT peers integer, OUT peers_offset interval, OUT timeline text,
                    OUT changes bigint, OUT renewals bigint, OUT free integer, OUT warning text,
                    OUT refusal text, OUT refusal_passes boolean, OUT refusal_detail text, OUT refusal_hint text)
BEGIN ATOMIC
    SELECT a.*
    FROM (SELECT clock_timestamp() + ahead AS clock) AS c, snowflake_lease_node(
        protocol => 1, number => NULL, token => repeat(ask.token::text, 32)::uuid, held => held, held_token => repeat(ask.held_token::text, 32)::uuid,
        remaining => remaining, instance => coalesce(ask.instance, 'instance ' || ask.token), max_node => max_node,
        lease_ttl => ask.lease_ttl, mark => (extract(epoch FROM c.clock + ask.lease_ttl) * 1000000)::bigint,
        clock => c.clock, clock_offset => NULL, layout => ask.layout,
        host => 'server' || ask.token, port => 5432, system_identifier => 7000000000000000000 + ask.token,
        seen => NULL, renewals => NULL, wants_peers => true) AS a;
END;
-- times as they come to be here are not for comparing
CREATE FUNCTION seen(text) RETURNS text
RETURN regexp_replace($1, '20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC', 'TIME', 'g');

-- A registry that is new.
CREATE FUNCTION anew() RETURNS void LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM snowflake_node_lease;
    DELETE FROM snowflake_registry_place;
    INSERT INTO snowflake_registry_place (place, started_at) VALUES (snowflake_registry_here(), pg_postmaster_start_time());
END;

--
-- Claiming and renewing
--
SELECT node, floor, granted > extract(epoch FROM now()) * 1000000 AS granted, registry_clock >= now() AS clock,
       peers, peers_offset, timeline ~ '^\d+/[0-9A-F]{8}$' AS timeline, refusal
FROM ask(1) \gx
-- the answer was lost: the same again
SELECT node, floor, peers, refusal FROM ask(1);
SELECT node, floor, peers, refusal FROM ask(1, held => 0);
-- others get the lowest free number
SELECT node, floor, peers, peers_offset < '1 min' AS peers_offset, refusal FROM ask(2);
SELECT node, peers FROM ask(3, ahead => '4 s');
-- one clock that is far off does not count
SELECT node, peers, peers_offset < '1 s' AS median_of_three FROM ask(4);
-- all are taken
SELECT node, floor, granted, peers, refusal, seen(refusal_detail) AS refusal_detail, refusal_hint FROM ask(5) \gx
SELECT node, refusal FROM ask(4, held => 3, remaining => '1 s');

-- started anew: with the token of the start before, as the same instance only
SELECT node, refusal FROM ask(6, held => 2, held_token => 3);
SELECT node, refusal FROM ask(6, held_token => 3);
SELECT node, refusal FROM ask(6, held => 2, held_token => 2, instance => 'instance 3');
SELECT node, refusal FROM ask(6, held => 2, held_token => 3, instance => 'instance 3');
SELECT node, refusal FROM ask(3, held => 2);
SELECT node FROM ask(3, held => NULL, held_token => 6, instance => 'instance 3');
-- not where it is not known what instance it is
SELECT node FROM ask(3, instance => '');
SELECT node, refusal FROM ask(6, held => 2, held_token => 3, instance => '');
SELECT node FROM ask(3);

-- what is told of the servers, and what not
SELECT * FROM snowflake_nodes LIMIT 0;
SELECT node, state, host, port, address IS NOT DISTINCT FROM inet_client_addr() AS address, system_identifier, layout,
       claimed_at <= renewed_at AS times, expires_at = renewed_at + '10 min' AS expires,
       clock_offset BETWEEN '-5 s' AND '0' AS clock_offset,
       issues_until BETWEEN expires_at - '5 s'::interval AND expires_at + '5 s'::interval
           AND free_from = greatest(expires_at, issues_until) AS until
FROM snowflake_nodes ORDER BY node;

-- As if what was done for a number had been done earlier
CREATE FUNCTION age(node integer, by interval) RETURNS void
BEGIN ATOMIC
    UPDATE snowflake_node_lease AS l
    SET claimed_at = claimed_at - by, renewed_at = renewed_at - by, expires_at = expires_at - by,
        mark = mark - (extract(epoch FROM by) * 1000000)::bigint
    WHERE l.node = age.node;
END;

--
-- Releasing
--
SELECT snowflake_release_node(1, statement_timestamp() + '8 s'), snowflake_release_node(1),
       snowflake_release_node(4), snowflake_release_node(-1), snowflake_release_node(NULL),
       snowflake_release_node(0, NULL);
SELECT node, state, free_from - expires_at BETWEEN '7 s' AND '8 s' AS soon FROM snowflake_nodes WHERE state <> 'live';
SELECT node, refusal FROM ask(2, held => 1);
-- not free until the clock is past the mark of the server that had it
SELECT node, refusal FROM ask(5);
SELECT mark AS floor FROM snowflake_node_lease WHERE node = 1 \gset
SELECT node, floor = :floor AS floor, granted > :floor AS granted FROM ask(5, ahead => '9 s');
-- and so it remains, for as long as the server has it
SELECT node, floor = :floor AS floor FROM ask(5, held => 1, ahead => '9 s');
-- where nobody knows better, it may have issued up to its mark
SELECT snowflake_release_node(1);
SELECT free_from = issues_until AND free_from > expires_at + '10 min' AS at_mark FROM snowflake_nodes WHERE node = 1;
-- never below what its last holder but one has issued
SELECT age(1, '11 min');
SELECT node FROM ask(5, held => 1);
SELECT snowflake_release_node(1, '-infinity');
SELECT mark = floor AS at_floor FROM snowflake_node_lease WHERE node = 1;
SELECT node FROM ask(5);

--
-- Expiry
--
-- expired, and taken by nobody: as if it was not
SELECT age(0, '11 min');
SELECT node, state FROM snowflake_nodes ORDER BY node;
SELECT node, refusal FROM ask(1);
SELECT node, state FROM snowflake_nodes WHERE node = 0;
-- expired, and taken by another
SELECT age(0, '11 min');
SELECT mark AS floor FROM snowflake_node_lease WHERE node = 0 \gset
SELECT node, floor = :floor AS floor FROM ask(7);
SELECT node, refusal FROM ask(1, held => 0);
SELECT node, refusal FROM ask(7, held => 0);
-- also with a mark that is not
SELECT age(0, '11 min');
SELECT mark AS floor FROM snowflake_node_lease WHERE node = 0 \gset
SELECT node, floor = :floor AS floor, granted = :floor AS granted
FROM snowflake_lease_node(1, repeat('8', 32)::uuid, NULL, NULL, NULL, NULL, '', 3, '10 min', 1, now(), NULL, 'layout A', NULL, NULL, NULL, NULL, NULL, NULL);
-- the clock of the claimant has to be past the mark as well
SELECT age(2, '601 s');
SELECT node, refusal FROM ask(2, ahead => '-5 min');
SELECT node, state FROM snowflake_nodes WHERE node = 2;
SELECT node, refusal FROM ask(2, ahead => '5 s');
-- the mark and the end never come earlier
SELECT granted AS mark FROM ask(2, lease_ttl => '1 hour') \gset
SELECT granted = :mark AS granted FROM ask(2);
SELECT node, expires_at > now() + '59 min' AS expires FROM snowflake_nodes WHERE node = 2;

--
-- A list of holders has an end
--
TRUNCATE snowflake_node_lease;
INSERT INTO snowflake_node_lease
SELECT n, gen_random_uuid(), n, NULL, 'server' || n, 5432, NULL, n, 'layout A', now(), now(), now() + '1 min', '1 min', 0, 0, '0', 1, 1023, pg_postmaster_start_time()
FROM generate_series(0, 1023) AS n WHERE n <> 700;
SELECT node, floor FROM ask(1, max_node => 1023);
SELECT refusal, seen(refusal_detail) AS refusal_detail FROM ask(2, max_node => 1023) \gx (format=unaligned)
SELECT refusal, seen(refusal_detail) AS refusal_detail FROM ask(2, max_node => 20) \gx (format=unaligned)
SELECT refusal, seen(refusal_detail) AS refusal_detail FROM ask(2, max_node => 0) \gx
-- as many as there can be
SELECT node FROM ask(2, max_node => 2147483647);

--
-- Another layout
--
SELECT refusal, seen(refusal_detail) AS refusal_detail FROM ask(3, max_node => 2000, layout => 'layout B') \gx (format=unaligned)
DELETE FROM snowflake_node_lease WHERE node > 2;
SELECT node, seen(refusal) AS refusal, seen(refusal_detail) AS refusal_detail, refusal_hint FROM ask(3, layout => 'layout B') \gx
SELECT node FROM ask(3);
-- nor by way of a restart, unless it is alone
SELECT node, refusal FROM ask(4, held => 3, held_token => 3, instance => 'instance 3', layout => 'layout B');
DELETE FROM snowflake_node_lease WHERE node < 3;
SELECT node, refusal FROM ask(4, held => 3, held_token => 3, instance => 'instance 3', layout => 'layout B');
SELECT node, refusal FROM ask(4, layout => 'layout B');
-- with fewer numbers
SELECT node, refusal FROM ask(5, held => 3, held_token => 4, instance => 'instance 4', layout => 'layout B', max_node => 2);
-- those of expired leases do not count
SELECT age(3, '11 min'), age(0, '11 min');
SELECT node, refusal FROM ask(6);

--
-- Closed, as it came here from another place
--
TRUNCATE snowflake_node_lease;
SELECT node FROM ask(1);
SELECT node FROM ask(2);
SELECT node FROM ask(3);
SELECT age(2, '11 min');
SELECT count(*), max(closed_until) FROM snowflake_registry_place;
UPDATE snowflake_registry_place SET place = 'another';
SELECT node, seen(refusal) AS refusal, refusal_detail, refusal_hint FROM ask(4) \gx
SELECT closed_until - now() BETWEEN '9 min' AND '10 min' AS for_the_longest_lease FROM snowflake_registry_place;
-- a lease that has not run out goes on
SELECT node, seen(refusal) AS refusal FROM ask(1, held => 0, remaining => '1 us');
SELECT node, seen(refusal) AS refusal FROM ask(5, held => 0, remaining => '1 s', held_token => 1, instance => 'instance 1');
-- one that has run out does not, by the clock of the server or by the one here
SELECT node, seen(refusal) AS refusal FROM ask(2, held => 1);
SELECT node, seen(refusal) AS refusal FROM ask(2, held => 1, remaining => '0');
SELECT node, seen(refusal) AS refusal FROM ask(2, held => 1, remaining => '-1 s');
SELECT node, seen(refusal) AS refusal FROM ask(2, remaining => '1 s');
SELECT node, seen(refusal) AS refusal FROM ask(3, held => 2);
SELECT node, seen(refusal) AS refusal FROM ask(3, held => 2, held_token => 3);
SELECT node, seen(refusal) AS refusal FROM ask(6, held => 3);
-- a server that the number was given to, which is not known here
SELECT node, floor, seen(refusal) AS refusal FROM ask(6, held => 3, remaining => '1 s');
SELECT mark AS floor FROM snowflake_node_lease WHERE node = 2 \gset
SELECT node, floor = :floor AS floor, seen(refusal) AS refusal FROM ask(7, held => 2, remaining => '1 s');
SELECT node, seen(refusal) AS refusal FROM ask(3, held => 2, remaining => '1 s');
-- but not what another has, and what there is not
SELECT node, seen(refusal) AS refusal FROM ask(8, held => 1, remaining => '1 s');
SELECT node, seen(refusal) AS refusal FROM ask(8, held => 4, remaining => '1 s');
SELECT node, seen(refusal) AS refusal FROM ask(8, held => -1, remaining => '1 s');
SELECT node, host, state FROM snowflake_nodes ORDER BY node;
-- it does not begin anew with each call
SELECT closed_until AS until FROM snowflake_registry_place \gset
SELECT node FROM ask(1, held => NULL, lease_ttl => '1 hour');
SELECT closed_until = :'until' AS until FROM snowflake_registry_place;
-- then, new numbers are given above what lost claims may have issued
UPDATE snowflake_registry_place SET closed_until = now();
SELECT (extract(epoch FROM closed_until + '10 s') * 1000000)::bigint AS floor FROM snowflake_registry_place \gset
SELECT node, floor = :floor AS floor FROM ask(9, max_node => 9);
SELECT age(3, '11 min');
SELECT node, floor = :floor AS floor FROM ask(8, max_node => 9);
SELECT node, refusal FROM ask(2);
-- a longer lease, of any server; and no less than before
UPDATE snowflake_registry_place SET place = 'another', closed_until = now(), longest_lease = '1 day';
SELECT node FROM ask(1, lease_ttl => '2 hours');
SELECT closed_until - now() BETWEEN '119 min' AND '121 min' AS by_caller FROM snowflake_registry_place;
UPDATE snowflake_registry_place SET place = 'another', closed_until = now() + '3 hours';
SELECT node FROM ask(1);
SELECT closed_until - now() BETWEEN '179 min' AND '181 min' AS no_less FROM snowflake_registry_place;
-- also without a lease, and with leases but without a place
TRUNCATE snowflake_node_lease;
UPDATE snowflake_registry_place SET place = 'another', closed_until = '-infinity';
SELECT node, seen(refusal) AS refusal FROM ask(1);
UPDATE snowflake_registry_place SET closed_until = '-infinity';
SELECT node FROM ask(1);
DELETE FROM snowflake_registry_place;
SELECT node, seen(refusal) AS refusal FROM ask(2);
SELECT node, seen(refusal) AS refusal FROM ask(1, held => 0, remaining => '1 s');
-- nor with the row of a dump beside its own, whatever the settings are
INSERT INTO snowflake_registry_place (place) VALUES ('another');
SET plpgsql.extra_errors = 'all';
SELECT node, seen(refusal) AS refusal FROM ask(2);
RESET plpgsql.extra_errors;
SELECT count(*) FROM snowflake_registry_place;
-- as a whole it is new only where both are empty
SELECT anew();
SELECT node, floor FROM ask(2);
SELECT closed_until FROM snowflake_registry_place;

--
-- Bad arguments
--
PREPARE bad(uuid, text, integer, interval, bigint, timestamptz, interval, text) AS
SELECT node, refusal, refusal_detail FROM snowflake_lease_node(1, $1, NULL, NULL, NULL, NULL, $2, $3, $4, $5, $6, $7, $8, NULL, NULL, NULL, NULL, NULL, NULL);
\set one '''11111111-1111-1111-1111-111111111111'''
EXECUTE bad(NULL, 'i', 3, '10 min', 1, now(), NULL, 'l');
EXECUTE bad(:one, NULL, 3, '10 min', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', NULL, '10 min', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, NULL, 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', NULL, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, NULL, NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, now(), NULL, NULL);
EXECUTE bad(:one, 'i', -1, '10 min', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '9.999999 s', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '24:00:00.000001', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '-10 min', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '170000000 years', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', -1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 32503680000000001, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, 'infinity', NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, '-infinity', NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, '1969-12-31 23:59:59+00', NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, '3000-01-01 00:00:01+00', NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, now(), '170000000 years', 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, now(), '-8640000:00:00.000001', 'l');
-- as long as an hour, and over years ago, or years ahead; or by the calendar
EXECUTE bad(:one, 'i', 3, '-1000 mon 30000 days 1 hour', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '1000 mon -30000 days 1 hour', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '-12 mon 360 days 1 hour', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '1 day', 1, now(), NULL, 'l');
EXECUTE bad(:one, 'i', 3, '10 min', 1, now(), '71582788 mon -2147483640 days', 'l');
-- texts that servers would have to keep, and to log
EXECUTE bad(:one, 'i', 3, '10 min', 1, now(), NULL, repeat('l', 256));
EXECUTE bad(:one, repeat('i', 1001), 3, '10 min', 1, now(), NULL, 'l');
SELECT node, refusal_detail
FROM snowflake_lease_node(1, :one, NULL, NULL, NULL, NULL, 'i', 3, '10 min', 1, now(), NULL, 'l', repeat('h', 256), NULL, NULL, NULL, NULL, NULL);
-- nothing came of it
SELECT node, host FROM snowflake_nodes;
-- what is just good
SELECT snowflake_release_node(0);
EXECUTE bad(:one, '', 9, '10 s', 0, '3000-01-01 00:00:00+00', '8640000 hours', '');
EXECUTE bad('22222222-2222-2222-2222-222222222222', repeat('i', 1000), 9, '24 hours', 1, '1970-01-01 00:00:00+00', '-8640000 hours', '');
EXECUTE bad('33333333-3333-3333-3333-333333333333', 'i', 9, '10 min', 1, '3000-01-01 00:00:00+00', NULL, '');
SELECT node, state, host, port, clock_offset > '0' AS ahead FROM snowflake_nodes ORDER BY node;
SELECT peers, peers_offset IS NOT NULL AS peers_offset FROM ask(4, layout => '', max_node => 9);
SELECT snowflake_release_node(2);

--
-- The time is that of the request, however long ago its statement or transaction began
--
TRUNCATE snowflake_node_lease;
BEGIN;
DO $$
DECLARE
    began timestamptz := clock_timestamp();
    told timestamptz := (SELECT registry_clock FROM ask(1));
BEGIN
    RAISE NOTICE '% %', told >= began, (SELECT renewed_at = told FROM snowflake_nodes);
    began := clock_timestamp();
    PERFORM snowflake_release_node(0);
    RAISE NOTICE '%', (SELECT expires_at >= began FROM snowflake_nodes);
    UPDATE snowflake_registry_place SET place = 'another';
    began := clock_timestamp() - interval '10 s';
    PERFORM snowflake_open_registry();
    UPDATE snowflake_registry_place SET place = 'another';
    PERFORM ask(1);
    PERFORM snowflake_open_registry();
    RAISE NOTICE '%', (SELECT closed_until >= began FROM snowflake_registry_place);
END $$;
ROLLBACK;

--
-- In transactions
--
TRUNCATE snowflake_node_lease;
-- rolled back: nothing was given
BEGIN;
SELECT node FROM ask(1);
ROLLBACK;
SELECT node FROM ask(2);
BEGIN;
SAVEPOINT s;
SELECT node FROM ask(1);
ROLLBACK TO s;
COMMIT;
SELECT node FROM ask(3);
SELECT node, host FROM snowflake_nodes ORDER BY node;
BEGIN READ ONLY;
SELECT state, message FROM error_of('SELECT ask(1)');
SELECT state, message FROM error_of('SELECT snowflake_release_node(0)');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT node FROM ask(1);
COMMIT;
-- its commit is durable, whatever the caller has set, and only that one
SET synchronous_commit = off;
BEGIN;
SELECT node FROM ask(1);
SHOW synchronous_commit;
COMMIT;
SHOW synchronous_commit;
SET synchronous_commit = local;
BEGIN;
SELECT snowflake_release_node(9);
SHOW synchronous_commit;
COMMIT;
SET synchronous_commit = remote_apply;
BEGIN;
SELECT node FROM ask(1);
SHOW synchronous_commit;
COMMIT;
RESET synchronous_commit;

--
-- Who may do what
--
\set VERBOSITY terse
SET ROLE regress_snowflake_server;
SELECT node, refusal FROM snowflake_lease_node(
    1, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', NULL, NULL, NULL, NULL, 'i', 9, '10 min', 0, now(), NULL, 'layout A', 'h', 1, 1, NULL, NULL, NULL);
SELECT snowflake_release_node(0);
SELECT * FROM snowflake_node_lease;
SELECT token FROM snowflake_node_lease;
SELECT * FROM snowflake_registry_place;
SELECT * FROM snowflake_nodes;
SELECT snowflake_nodes_fault(NULL, NULL, NULL);
SELECT * FROM snowflake_node_counts;
SELECT * FROM snowflake_registry;
SELECT snowflake_registry_here();
SELECT snowflake_open_registry();
DELETE FROM snowflake_node_lease;
SET ROLE regress_snowflake_operator;
SELECT node, host, state FROM snowflake_nodes WHERE host = 'h';
SELECT snowflake_release_node(3);
SELECT snowflake_lease_node(1, NULL, NULL, NULL, NULL, NULL, NULL, 9, '10 min', 0, now(), NULL, 'layout A', 'h', 1, 1, NULL, NULL, NULL);
SELECT token FROM snowflake_node_lease;
SELECT * FROM snowflake_registry_place;
RESET ROLE;
\set VERBOSITY default

--
-- In another schema, and with others' functions in the way.  Which it is in
-- cannot be changed.
--
CREATE SCHEMA elsewhere;
ALTER EXTENSION snowflake_registry SET SCHEMA elsewhere;
SET client_min_messages = warning;
DROP EXTENSION snowflake_registry CASCADE;
RESET client_min_messages;
CREATE EXTENSION snowflake_registry SCHEMA elsewhere;
GRANT EXECUTE ON FUNCTION elsewhere.snowflake_lease_node TO regress_snowflake_server;
GRANT USAGE ON SCHEMA elsewhere TO regress_snowflake_server;
CREATE SCHEMA hostile;
GRANT USAGE, CREATE ON SCHEMA hostile TO regress_snowflake_server;
SET ROLE regress_snowflake_server;
CREATE TABLE hostile.snowflake_node_lease (LIKE pg_class);
CREATE TABLE hostile.snowflake_registry_place (place text);
CREATE FUNCTION hostile.format(text, VARIADIC text[]) RETURNS text RETURN 'hostile';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz RETURN '2000-01-01 00:00:00+00'::timestamptz;
CREATE FUNCTION hostile.lt(timestamptz, timestamptz) RETURNS boolean RETURN true;
CREATE OPERATOR hostile.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.lt);
SET search_path = hostile, pg_catalog;
SELECT node FROM elsewhere.snowflake_lease_node(
    1, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', NULL, NULL, NULL, NULL, 'i', 0, '10 min', 0, now(), NULL, 'layout A', 'h', 1, 1, NULL, NULL, NULL);
SELECT node, refusal, refusal_detail LIKE 'The holders are h:1 (node 0, last seen 20%' AS refusal_detail
FROM elsewhere.snowflake_lease_node(
    1, 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb', NULL, NULL, NULL, NULL, 'i', 0, '10 min', 0, now(), NULL, 'layout A', 'h', 1, 1, NULL, NULL, NULL);
RESET ROLE;
SET search_path = registry, public;
SELECT count(*) FROM elsewhere.snowflake_nodes;
SELECT count(*) FROM elsewhere.snowflake_registry_place WHERE closed_until > now();

SET client_min_messages = warning;
DROP SCHEMA registry, elsewhere, hostile CASCADE;
RESET client_min_messages;
RESET search_path;
REVOKE CREATE ON DATABASE :here FROM regress_snowflake_owner;
DROP ROLE regress_snowflake_owner, regress_snowflake_server, regress_snowflake_operator;
