-- snowflake_horizon(): what it is, and where it cannot be called.  Whether readers
-- miss rows is in t/faults/055_horizon.pl.
CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
SELECT pg_get_function_result('snowflake_horizon()'::regprocedure);

-- above all that was drawn, once the time unit has passed
CREATE FUNCTION passes(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 60000 LOOP
        IF snowflake_horizon() > id THEN RETURN true; END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
    RETURN false;
END $$;
INSERT INTO outbox (n) SELECT generate_series(1, 10);
SELECT max(id) AS last FROM outbox \gset
SELECT passes(:last);
SELECT snowflake_horizon() AS horizon \gset
SELECT count(*) FROM outbox WHERE id < :horizon;
SELECT node, worker, sequence, ts <= clock_timestamp() AS honest FROM snowflake_parse(:horizon);
SELECT snowflake_nextval() > :horizon AS later_ids_are_above;
-- it draws nothing
SELECT snowflake_currval() AS current, (SELECT sum(issued) FROM pg_stat_snowflake_slots) AS issued \gset
SELECT snowflake_horizon() >= :horizon AS ascends;
SELECT snowflake_currval() = :current AS same, (SELECT sum(issued) FROM pg_stat_snowflake_slots) = :issued AS none_drawn;

-- the caller's own transaction does not hold it back
BEGIN;
INSERT INTO outbox (n) VALUES (11) RETURNING id \gset
SELECT passes(:id);
COMMIT;
BEGIN READ ONLY;
SELECT snowflake_horizon() > :id AS is_above;
COMMIT;

-- not in the statement that reads, in whatever part of it
CREATE VIEW horizon_view AS SELECT snowflake_horizon() AS h;
CREATE FUNCTION sql_horizon() RETURNS bigint LANGUAGE sql AS 'SELECT snowflake_horizon()';
SELECT statement, state FROM
    (VALUES ('SELECT count(*) FROM outbox WHERE id < snowflake_horizon()'),
            ('SELECT count(*) FROM outbox WHERE id < (SELECT snowflake_horizon())'),
            ('SELECT snowflake_horizon(), (SELECT count(*) FROM outbox)'),
            ('WITH h AS MATERIALIZED (SELECT snowflake_horizon() AS h) SELECT count(*) FROM outbox, h WHERE id < h'),
            ('SELECT count(*) FROM outbox, snowflake_horizon() AS h WHERE id < h'),
            ('INSERT INTO outbox SELECT snowflake_horizon() FROM outbox'),
            ('UPDATE outbox SET n = 1 WHERE id < snowflake_horizon()'),
            ('SELECT count(*) FROM outbox, horizon_view WHERE id < h'),
            ('SELECT count(*) FROM sql_horizon() AS h, outbox WHERE id < h'),
            ('WITH read AS MATERIALIZED (SELECT max(id) FROM outbox) SELECT snowflake_horizon(), read FROM read'),
            ('WITH gone AS (DELETE FROM outbox RETURNING id) SELECT snowflake_horizon(), count(*) FROM gone')) v (statement),
    error_of(statement) e;
SELECT * FROM error_of('SELECT count(*) FROM outbox WHERE id < snowflake_horizon()') \gx
DROP VIEW horizon_view;
DROP FUNCTION sql_horizon;
-- an argument of EXECUTE has the snapshot of what is executed
PREPARE horizon_query(bigint) AS SELECT count(*) FROM outbox WHERE id < $1;
SELECT state FROM error_of('EXECUTE horizon_query(snowflake_horizon())');
DEALLOCATE horizon_query;
-- by itself, or what is kept of it
SELECT snowflake_horizon() > 0 AS known;
CREATE TEMP TABLE kept (horizon bigint);
INSERT INTO kept VALUES (snowflake_horizon()) RETURNING horizon > 0 AS known;
CREATE UNIQUE INDEX ON kept ((1));
INSERT INTO kept VALUES (snowflake_horizon()) ON CONFLICT ((1)) DO UPDATE SET horizon = excluded.horizon RETURNING horizon > 0 AS known;
CREATE TEMP VIEW kept_view AS SELECT horizon FROM kept;
TRUNCATE kept;
INSERT INTO kept_view VALUES (snowflake_horizon()) RETURNING horizon > 0 AS known;
DROP VIEW kept_view;
DO $$ DECLARE h bigint := snowflake_horizon(); BEGIN PERFORM FROM outbox WHERE id < h; END $$;

-- one statement of the client: a VOLATILE function
CREATE FUNCTION after(last bigint, at_most int) RETURNS SETOF outbox LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    horizon bigint := snowflake_horizon();
BEGIN
    RETURN QUERY SELECT * FROM outbox WHERE id > last AND id < horizon ORDER BY id LIMIT at_most;
END $$;
SELECT array_agg(n) FROM after(0, 100);

-- where one snapshot is that of the transaction
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM error_of('SELECT snowflake_horizon()') \gx
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT state FROM error_of('SELECT snowflake_horizon()');
COMMIT;

-- for everyone
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_horizon() > :horizon AS known;
RESET ROLE;
DROP ROLE regress_snowflake_user;
DROP FUNCTION after, passes;
DROP TABLE outbox, kept;
