-- Numbers out of segments, where the home database hands them out.  What comes
-- at once, and what breaks meanwhile, is in t/faults/080_segments.pl; what the home
-- database does is in sql/segments_registry.sql.
--
-- The second buffer of a tag is fetched in the background, so that max_id in
-- the table may be a segment higher a moment later.  Here it is shown before it
-- is asked for, or waited for.
SELECT current_database() AS here, current_setting('snowflake.database') AS home \gset
SET timezone = 'UTC';
ALTER ROLE CURRENT_USER SET snowflake.max_wait = '2min';
SET snowflake.max_wait = '2min';

CREATE PROCEDURE wait_until(condition text)
LANGUAGE plpgsql AS $$
DECLARE
    done boolean;
BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXECUTE 'SELECT ' || condition INTO done;
        EXIT WHEN done;
        PERFORM pg_sleep(0.01);
    END LOOP;
    IF done IS NOT TRUE THEN
        RAISE 'in vain: %', condition;
    END IF;
END $$;

-- nothing was created yet
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('order')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_alter('order', step => 5)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('order')$$) \gx
SELECT * FROM pg_stat_snowflake_segments;

-- in a database that gets rows from another server, which may have such a tag
SET client_min_messages = error;
CREATE SUBSCRIPTION elsewhere CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
SELECT hint FROM error_of($$SELECT snowflake_segment_nextval('order')$$) \gx

--
-- As Leaf has it: max_id 10000 and step 2000 hand out 10001..12000, and leave
-- max_id 12000.  The next segment is asked for when a tenth is gone.
--
SELECT snowflake_segment_create('order', 10001, 2000, description => 'numbers of orders');
\c :home
SELECT tag, max_id, step, delta, remainder, max_value, description, fetches, fetched_at FROM snowflake_registry.snowflake_segment_tag;
\c :here
SELECT snowflake_segment_nextval('order');
SELECT status, detail FROM snowflake_check() WHERE name = 'segments';
DROP SUBSCRIPTION elsewhere;
SELECT status, detail FROM snowflake_check() WHERE name = 'segments';
\c :home
SELECT max_id, fetches, fetched_at > created_at AS fetched FROM snowflake_registry.snowflake_segment_tag;
\c :here
SELECT snowflake_segment_nextval('order');
SELECT count(*), min(n), max(n) FROM snowflake_segment_nextval('order', 197) AS n;
SELECT tag, state, step, min_step, delta, remainder, max_value, first, last, used, unused, next_first, next_last, issued, fetches,
       waits, wait_time > 0 AS wait_time, last_fetch_ts BETWEEN now() - interval '10 min' AND now() AS last_fetch_ts,
       last_fetch_time > 0 AS last_fetch_time, last_error, last_error_ts
FROM pg_stat_snowflake_segments \gx
-- the tenth
SELECT snowflake_segment_nextval('order');
CALL wait_until($$next_first IS NOT NULL FROM pg_stat_snowflake_segments$$);
SELECT step, first, last, used, unused, next_first, next_last, issued, fetches FROM pg_stat_snowflake_segments;
\c :home
SELECT max_id, fetches FROM snowflake_registry.snowflake_segment_tag;
\c :here
-- over the end of the first segment, with none left out
SELECT count(*), count(DISTINCT n), min(n), max(n) FROM snowflake_segment_nextval('order', 1801) AS n;
SELECT first, last, used, issued FROM pg_stat_snowflake_segments;
SELECT snowflake_segment_nextval('order');
-- they double, since they do not last 15 minutes
SELECT count(*) FROM snowflake_segment_nextval('order', 198);
CALL wait_until($$next_first IS NOT NULL FROM pg_stat_snowflake_segments$$);
SELECT next_last - next_first + 1 AS numbers, fetches FROM pg_stat_snowflake_segments;

--
-- Batches
--
SELECT snowflake_segment_create('batch', step => 10);
SELECT n, ordinality FROM snowflake_segment_nextval('batch', 3) WITH ORDINALITY AS s (n);
SELECT count(*), count(DISTINCT n), min(n), max(n) FROM snowflake_segment_nextval('batch', 40) AS n;
SELECT count(*) FROM snowflake_segment_nextval('batch', 0::bigint);
SELECT count(*) FROM snowflake_segment_nextval('batch', NULL);
SELECT count(*) FROM snowflake_segment_nextval(NULL, 5);
SELECT snowflake_segment_nextval(NULL) IS NULL AS is_null;
SELECT snowflake_segment_nextval('batch');
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('batch', -1)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('batch', -2147483648)$$) \gx
SELECT state FROM error_of($$SELECT snowflake_segment_nextval('batch', 9223372036854775808)$$);
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('Batch', 3)$$) \gx
-- many, read bit by bit
SELECT count(*), count(DISTINCT n), min(n), max(n) FROM (SELECT snowflake_segment_nextval('batch', 100000) AS n) s;
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_segment_nextval('batch', 5) AS n;
FETCH 1 FROM c \gset first_
SELECT snowflake_segment_nextval('batch') AS single \gset
FETCH 1 FROM c \gset second_
-- what a set has taken is its own
SELECT :single > :first_n AS above, :single <> :second_n AS other;
COMMIT;
-- a tag that changes from row to row
SELECT snowflake_segment_create('pair' || n, n * 1000, 10) FROM generate_series(1, 2) n;
SELECT n, 'pair' || n % 2 + 1 AS tag, snowflake_segment_nextval('pair' || n % 2 + 1) FROM generate_series(1, 30) n;
-- also to one with the same beginning, or a shorter one
SELECT snowflake_segment_create(tag, start) FROM (VALUES ('p', 100), ('pa', 200), ('pair', 300)) v (tag, start);
SELECT tag, snowflake_segment_nextval(tag) FROM (VALUES ('p'), ('pa'), ('pair'), ('pair1'), ('pa'), ('p')) v (tag);

--
-- Delta and remainder, as TinyID has it: 1, 3, 5 and 2, 4, 6
--
SELECT snowflake_segment_create('odd', step => 10, delta => 2, remainder => 1);
SELECT snowflake_segment_create('even', step => 10, delta => 2, remainder => 0);
SELECT array_agg(n) AS odd FROM snowflake_segment_nextval('odd', 12) n;
SELECT array_agg(n) AS even FROM snowflake_segment_nextval('even', 12) n;
-- whatever the first number, and where no segment begins with one that fits
SELECT snowflake_segment_create('third' || r, start => 5, step => 4, delta => 3, remainder => r) FROM generate_series(0, 2) r;
SELECT r, array(SELECT snowflake_segment_nextval('third' || r, 9)) FROM generate_series(0, 2) r;
-- one number a segment
SELECT snowflake_segment_create('single', start => 12, step => 7, delta => 7, remainder => 6);
SELECT array(SELECT snowflake_segment_nextval('single', 5));

--
-- The end
--
SELECT snowflake_segment_create('end', step => 10, max_value => 15);
SELECT count(*), min(n), max(n) FROM snowflake_segment_nextval('end', 14) n;
SELECT snowflake_segment_nextval('end');
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('end')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('end', 2)$$) \gx
SELECT state, max_value, issued FROM pg_stat_snowflake_segments WHERE tag = 'end';
SELECT snowflake_segment_alter('end', max_value => 17);
SELECT snowflake_segment_nextval('end'), snowflake_segment_nextval('end');
SELECT state, message FROM error_of($$SELECT snowflake_segment_nextval('end')$$);
SELECT snowflake_segment_alter('end', max_value => 9223372036854775807);
SELECT count(*), min(n), max(n) FROM snowflake_segment_nextval('end', 100) n;
-- the last segment has no number that fits
SELECT snowflake_segment_create('misfit', step => 10, delta => 10, remainder => 5, max_value => 14);
SELECT snowflake_segment_nextval('misfit');
SELECT state, message FROM error_of($$SELECT snowflake_segment_nextval('misfit')$$);
-- of bigint
SELECT snowflake_segment_create('last', start => 9223372036854775804, step => 2147483647);
SELECT array(SELECT snowflake_segment_nextval('last', 4));
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('last')$$) \gx
SELECT snowflake_segment_create('last7', start => 9223372036854775800, step => 7, delta => 7, remainder => 6);
SELECT snowflake_segment_nextval('last7');
SELECT state, message FROM error_of($$SELECT snowflake_segment_nextval('last7')$$);
SELECT snowflake_segment_create('largest', step => 2147483647);
SELECT snowflake_segment_nextval('largest');
SELECT first, last, used, unused FROM pg_stat_snowflake_segments WHERE tag = 'largest';

--
-- Arguments: wrong ones create nothing
--
SELECT snowflake_segment_create('bounds', 1, 1, 1, 0, 1, '');
SELECT snowflake_segment_nextval('bounds');
SELECT state FROM error_of($$SELECT snowflake_segment_nextval('bounds')$$);
SELECT snowflake_segment_create('upper bounds', 9223372036854775807, 2147483647, 2147483647, 2147483646, 9223372036854775807, repeat('d', 1023));
SELECT arguments, e.*
FROM unnest(ARRAY[
    'NULL', '''''',
    '''wrong'', start => 0', '''wrong'', start => -9223372036854775808', '''wrong'', start => NULL',
    '''wrong'', step => 0', '''wrong'', step => -2147483648', '''wrong'', step => NULL',
    '''wrong'', delta => 0', '''wrong'', delta => -2147483648', '''wrong'', delta => 11', '''wrong'', step => 5, delta => 6', '''wrong'', delta => NULL',
    '''wrong'', remainder => -1', '''wrong'', remainder => -2147483648', '''wrong'', remainder => 1', '''wrong'', delta => 3, remainder => 3', '''wrong'', remainder => NULL',
    '''wrong'', max_value => 0', '''wrong'', max_value => -9223372036854775808', '''wrong'', start => 11, max_value => 10', '''wrong'', max_value => NULL',
    '''wrong'', description => repeat(''d'', 1024)', '''wrong'', description => repeat(U&''\00E9'', 512)'])
     WITH ORDINALITY AS a (arguments, n),
     error_of('SELECT snowflake_segment_create(' || arguments || ')') e
ORDER BY n \gx
SELECT arguments, state
FROM unnest(ARRAY['start => 9223372036854775808', 'step => 2147483648', 'delta => 4294967297', 'remainder => 4294967296', 'step => 9223372036854775808',
                  'max_value => 9223372036854775808', 'start => ''x''', 'step => 1.5', 'step => ''infinity''']) AS arguments,
     error_of('SELECT snowflake_segment_create(''wrong'', ' || arguments || ')') e;
SELECT state FROM error_of($$SELECT snowflake_segment_nextval('wrong')$$);

--
-- Tags: any text of 1 to 63 bytes in UTF-8
--
CREATE TABLE tags (n serial, tag text);
INSERT INTO tags (tag) VALUES
    (repeat('t', 63)), (U&'\00E9\4E2D\+01F600'), (repeat(U&'\4E2D', 21)), ('it''s'), ('"quoted"'), ('back\slash'), ('back\\slash'), ('\'), ('"'),
    ('{}'), ('{a,b}'), ('a,b'), (' '), ('  x '), (E'new\nline'), (E'tab\tstop'), ('NULL'), ('null'), ('%s'), ('$1'), (E'\x01'), ('t'), ('T'), ('--'), (';');
SELECT count(*) FROM tags, snowflake_segment_create(tag, n * 100, description => tag);
SELECT n, tag, snowflake_segment_nextval(tag), snowflake_segment_nextval(tag) FROM tags ORDER BY n;
SELECT tag, first FROM tags JOIN pg_stat_snowflake_segments s USING (tag) WHERE first <> n * 100;
SELECT string_agg(quote_literal(tag), ',' ORDER BY n) AS all_tags, count(*) FROM tags \gset
\c :home
SELECT count(*) = :count AS all_there FROM snowflake_registry.snowflake_segment_tag WHERE tag = description AND tag IN (:all_tags);
\c :here
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval(repeat('t', 64))$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval(repeat(U&'\4E2D', 21) || 't')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval(repeat('t', 100000))$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_create(repeat('t', 64))$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_alter(repeat('t', 64), step => 1)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop(repeat('t', 64))$$) \gx
-- the long one is still what it was
SELECT snowflake_segment_nextval(repeat('t', 63));
SELECT count(*) FROM tags, snowflake_segment_drop(tag, forget => true);
SELECT state, count(*) FROM tags, error_of(format('SELECT snowflake_segment_nextval(%L)', tag)) GROUP BY state;

--
-- Altering: each thing, and only that; what is here already is used up
--
SELECT snowflake_segment_create('alter', step => 10, delta => 2, remainder => 1, max_value => 1000, description => 'before');
SELECT snowflake_segment_nextval('alter');
CALL wait_until($$next_first IS NOT NULL FROM pg_stat_snowflake_segments WHERE tag = 'alter'$$);
SELECT snowflake_segment_alter('alter');
SELECT snowflake_segment_alter('alter', step => 20);
SELECT min_step, step, max_value FROM pg_stat_snowflake_segments WHERE tag = 'alter';
SELECT snowflake_segment_alter('alter', max_value => 2000);
SELECT min_step, step, max_value FROM pg_stat_snowflake_segments WHERE tag = 'alter';
\c :home
SELECT max_id, step, max_value, description FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'alter';
\c :here
SELECT snowflake_segment_alter('alter', description => 'after');
SELECT snowflake_segment_alter('alter', start => 1001);
\c :home
SELECT max_id, step, max_value, description FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'alter';
\c :here
SELECT array(SELECT snowflake_segment_nextval('alter', 11));
SELECT snowflake_segment_alter('alter', description => '');
SELECT snowflake_segment_alter('bounds', step => 2147483647, max_value => 9223372036854775807, start => 9223372036854775807);
SELECT snowflake_segment_nextval('bounds');
\c :home
SELECT tag, max_id, step, max_value, description FROM snowflake_registry.snowflake_segment_tag WHERE tag IN ('batch', 'bounds') AND description IS NOT NULL;
SELECT description = '' AS empty FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'alter';
\c :here
-- wrong ones alter nothing
SELECT snowflake_segment_create('as it is', start => 11, step => 10, delta => 2, remainder => 1, max_value => 1000, description => 'before');
SELECT arguments, e.*
FROM unnest(ARRAY[
    'NULL, step => 5', ''''', step => 5', '''missing'', step => 5',
    '''as it is'', step => 0, description => ''x''', '''as it is'', step => -2147483648', '''as it is'', step => 1, description => ''x''',
    '''as it is'', max_value => 0', '''as it is'', max_value => -9223372036854775808', '''as it is'', max_value => 9, description => ''x''',
    '''as it is'', start => 0', '''as it is'', start => -9223372036854775808', '''as it is'', start => 10, description => ''x''',
    '''as it is'', start => 1002, description => ''x''', '''as it is'', start => 100, max_value => 98',
    '''as it is'', description => repeat(''d'', 1024)'])
     WITH ORDINALITY AS a (arguments, n),
     error_of('SELECT snowflake_segment_alter(' || arguments || ')') e
ORDER BY n \gx
\c :home
SELECT max_id, step, max_value, description FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'as it is';
\c :here

--
-- Dropping: one of the same name goes on above, unless it is forgotten
--
SELECT snowflake_segment_create('drop', step => 10);
SELECT * FROM error_of($$SELECT snowflake_segment_create('drop', start => 5000)$$) \gx
SELECT snowflake_segment_nextval('drop');
CALL wait_until($$next_first IS NOT NULL FROM pg_stat_snowflake_segments WHERE tag = 'drop'$$);
SELECT snowflake_segment_drop('drop');
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('drop')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('drop')$$) \gx
SELECT * FROM pg_stat_snowflake_segments WHERE tag = 'drop';
SELECT snowflake_segment_create('drop', step => 10);
SELECT snowflake_segment_nextval('drop');
CALL wait_until($$next_first IS NOT NULL FROM pg_stat_snowflake_segments WHERE tag = 'drop'$$);
SELECT snowflake_segment_drop('drop', forget => false);
-- above them anyway
SELECT snowflake_segment_create('drop', start => 41, step => 10);
SELECT snowflake_segment_nextval('drop');
SELECT snowflake_segment_drop('drop', forget => true);
SELECT snowflake_segment_create('drop', step => 10);
SELECT snowflake_segment_nextval('drop');
-- dropped, and then forgotten
SELECT snowflake_segment_drop('drop');
SELECT snowflake_segment_drop('drop', forget => true);
SELECT snowflake_segment_create('drop', step => 10);
SELECT snowflake_segment_nextval('drop');
SELECT snowflake_segment_drop('drop', true);
SELECT * FROM error_of($$SELECT snowflake_segment_drop('drop', forget => true)$$) \gx
-- with no number above
SELECT snowflake_segment_create('drop', start => 9223372036854775807);
SELECT snowflake_segment_nextval('drop');
SELECT snowflake_segment_drop('drop');
SELECT snowflake_segment_create('drop');
SELECT snowflake_segment_drop('drop', forget => true);
-- another tag comes to its place in memory
SELECT snowflake_segment_create('leaves');
SELECT snowflake_segment_nextval('leaves');
SELECT snowflake_segment_drop('leaves');
SELECT snowflake_segment_create('comes', 7000);
SELECT snowflake_segment_nextval('comes');
SELECT state FROM error_of($$SELECT snowflake_segment_nextval('leaves')$$);
SELECT snowflake_segment_nextval('comes');
SELECT * FROM error_of($$SELECT snowflake_segment_drop(NULL)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('batch', NULL)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('')$$) \gx
SELECT snowflake_segment_nextval('batch') > 0 AS is_there;

--
-- In transactions, statements and plans
--
SELECT snowflake_segment_create('row');
BEGIN;
SELECT snowflake_segment_nextval('row');
SAVEPOINT s;
SELECT snowflake_segment_nextval('row');
ROLLBACK TO s;
SELECT snowflake_segment_nextval('row');
ROLLBACK;
SELECT snowflake_segment_nextval('row');
-- what is created, altered or dropped stays so
BEGIN;
SELECT snowflake_segment_create('rolled back', step => 7);
SELECT snowflake_segment_nextval('rolled back');
SELECT snowflake_segment_drop('pair1');
ROLLBACK;
SELECT snowflake_segment_nextval('rolled back');
SELECT state FROM error_of($$SELECT snowflake_segment_nextval('pair1')$$);
-- only numbers may be drawn in a transaction that reads only
BEGIN READ ONLY;
SELECT snowflake_segment_nextval('row');
SELECT array(SELECT snowflake_segment_nextval('row', 3));
SELECT * FROM error_of($$SELECT snowflake_segment_create('read only')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_alter('row', step => 5)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('row')$$) \gx
COMMIT;
-- a default
CREATE TABLE invoices (number bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('row'), customer text);
INSERT INTO invoices (customer) VALUES ('a'), ('b'), ('c') RETURNING number;
COPY invoices (customer) FROM stdin;
d
e
\.
SELECT * FROM invoices ORDER BY number;
DROP TABLE invoices;
PREPARE draw(text) AS SELECT snowflake_segment_nextval($1);
EXECUTE draw('row');
EXECUTE draw('even');
EXECUTE draw(NULL);
EXECUTE draw('row');
DEALLOCATE draw;
-- a prepared one, after its tag was dropped and created again
PREPARE draw AS SELECT snowflake_segment_nextval('row');
EXECUTE draw;
SELECT snowflake_segment_drop('row', true);
SELECT snowflake_segment_create('row', 501);
EXECUTE draw;
DISCARD ALL;
SELECT snowflake_segment_nextval('row');
-- in parallel workers
SET snowflake.max_wait = '2min';
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
EXPLAIN (COSTS OFF) SELECT snowflake_segment_nextval('row');
SELECT snowflake_segment_nextval('row');
SELECT array(SELECT snowflake_segment_nextval('row', 3));
RESET ALL;
SET snowflake.max_wait = '2min';
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE many AS SELECT g FROM generate_series(1, 50000) g;
ALTER TABLE many SET (parallel_workers = 2);
SELECT snowflake_segment_create('parallel', step => 10);
EXPLAIN (COSTS OFF) SELECT snowflake_segment_nextval('parallel') FROM many;
SELECT count(*), count(DISTINCT n), min(n), max(n) FROM (SELECT snowflake_segment_nextval('parallel') AS n FROM many OFFSET 0) s;
DROP TABLE many;

--
-- Privileges
--
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT count(*) > 0 AS seen FROM pg_stat_snowflake_segments;
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('row')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_nextval('row', 2)$$) \gx
SELECT message FROM error_of($$SELECT snowflake_segment_next('row')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_create('mine')$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_alter('row', step => 5)$$) \gx
SELECT * FROM error_of($$SELECT snowflake_segment_drop('row')$$) \gx
RESET ROLE;
-- who is granted it need have nothing else
GRANT EXECUTE ON FUNCTION snowflake_segment_create, snowflake_segment_alter, snowflake_segment_drop,
    snowflake_segment_nextval(text), snowflake_segment_next(text), snowflake_segment_nextval(text, bigint) TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_segment_create('mine', description => $$'); DROP TABLE snowflake_registry.snowflake_segment_tag; --$$);
SELECT snowflake_segment_alter('mine', step => 5);
SELECT snowflake_segment_nextval('mine'), snowflake_segment_next('mine');
SELECT count(*) FROM snowflake_segment_nextval('mine', 2);
SELECT snowflake_segment_drop('mine');
RESET ROLE;
REVOKE ALL ON FUNCTION snowflake_segment_create, snowflake_segment_alter, snowflake_segment_drop,
    snowflake_segment_nextval(text), snowflake_segment_next(text), snowflake_segment_nextval(text, bigint) FROM regress_snowflake_user;
DROP ROLE regress_snowflake_user;
-- whoever may dump the database can dump it
\c :home
SELECT e.extowner = 10 AS of_superuser, n.nspowner = 10 AS schema_of_superuser, n.nspname, has_schema_privilege(0, n.oid, 'usage') AS usage, has_schema_privilege(0, n.oid, 'create') AS create
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'snowflake_registry';
\c :here

--
-- The view
--
SELECT pg_stat_snowflake_reset();
SELECT state, first, last, used, issued, fetches, waits, wait_time, last_fetch_ts IS NOT NULL AS last_fetch_ts, last_error FROM pg_stat_snowflake_segments WHERE tag = 'row';
SELECT snowflake_segment_nextval('row') - used AS above FROM pg_stat_snowflake_segments WHERE tag = 'row';
SELECT issued FROM pg_stat_snowflake_segments WHERE tag = 'row';
-- misspelt ones are not shown
SELECT count(*) FROM pg_stat_snowflake_segments WHERE tag IN ('Batch', 'missing', 'wrong', 'drop', 'mine');

-- leave nothing
SELECT count(*) > 0 AS dropped FROM pg_stat_snowflake_segments, snowflake_segment_drop(tag, true);
SELECT count(*) FROM pg_stat_snowflake_segments;
ALTER ROLE CURRENT_USER RESET snowflake.max_wait;
DROP PROCEDURE wait_until(text);
DROP TABLE tags;
\c :home
DROP SCHEMA snowflake_registry CASCADE;
