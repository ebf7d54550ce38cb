-- The durable mark: advance it, restore it from a dump, and do not lose it.
-- What it is for, restarts and crashes, is in t/.
SET timezone = 'UTC';
CREATE ROLE regress_snowflake_user;
SELECT snowflake_nextval() AS id \gset

-- an ID of the past: nothing to do; returned is the next time unit
SELECT snowflake_advance(0), snowflake_advance(4194303), snowflake_advance(152075078181383514);
SELECT snowflake_advance(NULL) IS NULL AS is_null;
SELECT snowflake_nextval() > :id AS goes_on;

-- the ID drawn last
SET client_min_messages = error;    -- its time unit may not have ended yet
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_advance(:id) = snowflake_timestamp(:id) + '1ms' AS next_unit;
RESET client_min_messages;
SELECT snowflake_nextval() AS id_above \gset
SELECT :id_above > :id AS above, snowflake_timestamp(:id_above) > snowflake_timestamp(:id) AS later;

-- an ID of the near future: later ones are above, of all sessions, also when
-- the transaction is rolled back
\set VERBOSITY terse
BEGIN;
SELECT id AS future, snowflake_advance(id) = snowflake_timestamp(id) + '1ms' AS next_unit
FROM snowflake_compose(clock_timestamp() + '3500ms', 31, 31, 4095) AS id \gset
SELECT :'next_unit' AS next_unit;
ROLLBACK;
\set VERBOSITY default
SELECT bool_and(id > :future) AS above FROM snowflake_nextval(100) AS id;
\c
SET timezone = 'UTC';
SELECT snowflake_nextval() > :future AS above;
-- what is in the future is not seen as drawn
SELECT DISTINCT last_id > :future AS drawn, last_ts > snowflake_timestamp(:future) AS drawn_later
FROM pg_stat_snowflake_slots WHERE last_id IS NOT NULL OR last_ts IS NOT NULL;
SELECT current_setting('snowflake.issued_until')::timestamptz > snowflake_timestamp(:future) AS after_it;

-- not an ID, or the last time unit
SELECT * FROM error_of('SELECT snowflake_advance(-1)') \gx
SELECT * FROM error_of('SELECT snowflake_advance(-9223372036854775808)') \gx
SELECT * FROM error_of('SELECT snowflake_advance(9223372036854775807)') \gx
SELECT * FROM error_of('SELECT snowflake_advance(9223372036850581504)') \gx
SELECT state, message FROM error_of('SELECT snowflake_advance(9223372036854775808)') \gx
-- more than a day ahead, which is rather a mistake
\set VERBOSITY terse
BEGIN;
SET LOCAL client_min_messages = error;
SELECT regexp_replace(message, '\d+ is of .*, more', '... is of ..., more') AS message, state, hint IS NOT NULL AS has_hint
FROM error_of(format('SELECT snowflake_advance(%s)', snowflake_compose(clock_timestamp() + '1 day 1min', 31, 0, 0)));
SELECT state FROM error_of(format('SELECT snowflake_advance(%s, NULL)', snowflake_compose(clock_timestamp(), 31, 0, 0)));
COMMIT;
\set VERBOSITY default
SELECT snowflake_nextval() > :future AS goes_on;

-- the layout is the one that IDs were drawn with
SELECT snowflake_accept_layout();

-- the server was not promoted
SELECT snowflake_confirm_node();

-- not in a READ ONLY transaction
BEGIN READ ONLY;
SELECT * FROM error_of('SELECT snowflake_advance(0)') \gx
SELECT * FROM error_of('SELECT snowflake_accept_layout()') \gx
SELECT * FROM error_of('SELECT snowflake_confirm_node()') \gx
SELECT * FROM error_of('INSERT INTO snowflake_catalog.dumped_mark DEFAULT VALUES') \gx
COMMIT;

-- nobody but a superuser, and whom it is granted to
SELECT f AS function, has_function_privilege('regress_snowflake_user', f, 'EXECUTE') AS granted
FROM unnest(ARRAY['snowflake_advance(bigint,boolean)', 'snowflake_accept_layout()', 'snowflake_nextval()']) f;
SET ROLE regress_snowflake_user;
SELECT * FROM error_of('SELECT snowflake_advance(0)') \gx
SELECT * FROM error_of('SELECT snowflake_accept_layout()') \gx
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_advance, snowflake_accept_layout TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_advance(0);
SELECT snowflake_accept_layout();
RESET ROLE;

--
-- What a dump takes along, and a restore
--
SELECT count(*), bool_and(mark > snowflake_timestamp(:future)) AS after_it,
       bool_and(layout = current_setting('snowflake.layout')) AS layout,
       bool_and(epoch = current_setting('snowflake.epoch')::timestamptz) AS epoch
FROM (SELECT format('SELECT * FROM snowflake_catalog.dumped_mark %s', extcondition[array_position(extconfig, 'snowflake_catalog.dumped_mark'::regclass)]) AS dumped
      FROM pg_extension WHERE extname = 'snowflake') AS e,
     query_to_xml(dumped, true, false, '') AS x,
     XMLTABLE('/table/row' PASSING x COLUMNS mark timestamptz, layout text, epoch timestamptz);

-- anyone may restore a mark of the past; it is not kept as a row
SET ROLE regress_snowflake_user;
INSERT INTO snowflake_catalog.dumped_mark
VALUES ('2020-01-02 00:00:00+00', current_setting('snowflake.layout'), current_setting('snowflake.epoch')::timestamptz),
       ('2020-01-01 00:00:00+00', NULL, NULL), ('2019-12-31 00:00:00+00', NULL, NULL), ('4713-01-01 00:00:00+00 BC', NULL, NULL);
COPY snowflake_catalog.dumped_mark (mark, layout, epoch) FROM stdin;
2021-02-23 15:32:04.056001+00	time:41 node:5 worker:5 sequence:12	2020-01-01 08:00:00+08
2021-02-23 15:32:04.056001+00	time:40 node:5 worker:5 sequence:12	2020-01-01 00:00:00+00
\.
INSERT INTO snowflake_catalog.dumped_mark SELECT clock_timestamp() - interval '1ms' FROM generate_series(1, 10) RETURNING *;
-- nothing to restore
INSERT INTO snowflake_catalog.dumped_mark VALUES (NULL), ('infinity'), ('-infinity');
INSERT INTO snowflake_catalog.dumped_mark DEFAULT VALUES;
SELECT snowflake_nextval() > :future AS goes_on;

-- but not one of the future
SELECT * FROM error_of($$INSERT INTO snowflake_catalog.dumped_mark VALUES ('2080-01-01 00:00:00+00')$$) \gx
SELECT * FROM error_of($$INSERT INTO snowflake_catalog.dumped_mark VALUES ('294276-12-31 00:00:00+00')$$) \gx
SELECT * FROM error_of($$INSERT INTO snowflake_catalog.dumped_mark SELECT clock_timestamp() + '1 day'$$ ) AS e(state) \gset
SELECT :'state' AS state;
SELECT snowflake_nextval() > :future AS goes_on;
-- and nothing else
SELECT * FROM error_of('UPDATE snowflake_catalog.dumped_mark SET mark = now()') \gx
SELECT * FROM error_of('DELETE FROM snowflake_catalog.dumped_mark') \gx
SELECT * FROM error_of('TRUNCATE snowflake_catalog.dumped_mark') \gx
RESET ROLE;

-- a superuser may
SET client_min_messages = error;
SELECT clock_timestamp() + '900ms' AS mark \gset
INSERT INTO snowflake_catalog.dumped_mark VALUES (:'mark');
RESET client_min_messages;
SELECT bool_and(snowflake_timestamp(id) >= :'mark') AS above FROM snowflake_nextval(100) AS id;

-- IDs of another layout or epoch: restored, with a warning
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', 'time:41 node:10 sequence:12', '2020-01-01 00:00:00+00');
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', 'time:41 node:5 worker:5 sequence:12', '2010-11-04 01:42:54.657+00');
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', 'not a layout', '2020-01-01 00:00:00+00');
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', '', '-infinity');
-- what does not say which, or says it in other words: none
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', NULL, '2020-01-01 00:00:00+00');
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', 'time:41 node:10 sequence:12', NULL);
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00', '  time:41@1ms node:5	worker:5 sequence:12', '2020-01-01 08:00:00+08');

-- also where triggers are not for users
SET session_replication_role = replica;
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00');
RESET session_replication_role;
SELECT count(*) FROM snowflake_catalog.dumped_mark;

-- and where the trigger was disabled, it is noticed
BEGIN;
ALTER TABLE snowflake_catalog.dumped_mark DISABLE TRIGGER ALL;
INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02 00:00:00+00');
ROLLBACK;

-- the trigger is for its table
SELECT has_function_privilege('regress_snowflake_user', 'snowflake_catalog.restore_mark()', 'EXECUTE') AS anyones;
SELECT * FROM error_of('SELECT snowflake_catalog.restore_mark()') \gx
CREATE TABLE other (mark timestamptz);
CREATE TRIGGER t AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.restore_mark();
SELECT * FROM error_of('INSERT INTO other VALUES (now())') \gx
DROP TRIGGER t ON other;
CREATE TRIGGER t BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION snowflake_catalog.restore_mark();
SELECT * FROM error_of('INSERT INTO other VALUES (now())') \gx
DROP TABLE other;

--
-- Not to be lost
--
SELECT current_setting('snowflake.database') AS home, current_database() AS here \gset
SELECT :'home' <> :'here' AS elsewhere;
DROP DATABASE :home;
DROP DATABASE :home WITH (FORCE);
SELECT snowflake_nextval() AS id \gset
SELECT extract(epoch FROM snowflake_timestamp(:id)) * 1000000 AS us \gset
\c :home
DROP EXTENSION snowflake_home;
DROP EXTENSION snowflake_home CASCADE;
DROP SCHEMA snowflake_home CASCADE;
DROP SEQUENCE snowflake_home.mark;
-- to be read by superusers only
SELECT has_schema_privilege('regress_snowflake_user', 'snowflake_home', 'USAGE') AS schema,
       has_sequence_privilege('regress_snowflake_user', 'snowflake_home.mark', 'SELECT, USAGE, UPDATE') AS sequence;
-- and each of its objects has a comment
SELECT pg_describe_object(classid, objid, objsubid) AS object,
       obj_description(objid, classid::regclass::name) IS NOT NULL AS has_comment
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_home')
  AND deptype = 'e' AND classid <> 'pg_type'::regclass
ORDER BY 1;

-- the mark is above what was drawn, and says with what
SELECT last_value > :us AS above FROM snowflake_home.mark;
SELECT current_setting('snowflake.recorded') = format('%s since %s as node 24 on system %s',
    'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00:00+00', system_identifier) AS says_so
FROM pg_control_system();

-- extension "snowflake" does not matter: it may be made and dropped here too
\set ON_ERROR_STOP on
CREATE EXTENSION snowflake;
\unset ON_ERROR_STOP
SELECT snowflake_timestamp(snowflake_nextval()) >= snowflake_timestamp(:id) AS drawn,
       snowflake_currval() AS id \gset
SELECT :'drawn' AS drawn;
DROP EXTENSION snowflake;
\c :here
SELECT snowflake_timestamp(snowflake_nextval()) >= snowflake_timestamp(:id) AS goes_on;

REVOKE ALL ON FUNCTION snowflake_advance, snowflake_accept_layout FROM regress_snowflake_user;
DROP ROLE regress_snowflake_user;

-- let the clock catch up, for the tests that come next
SELECT pg_sleep(extract(epoch FROM timestamptz :'mark' - clock_timestamp()) + 0.01);
