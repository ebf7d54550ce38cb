-- snowflake_check(), where all is well.  What it says of a clock, a lifetime, a
-- worker and a standby that are not is in t/.

SET timezone = 'UTC';
SELECT snowflake_nextval() > 0 AS drawn;
SELECT "check", status,
       regexp_replace(detail, '(shows|left:) \d[-0-9:.+ ]*', '\1 ...') AS detail
FROM snowflake_check();

-- rows like any others
SELECT count(*) AS not_ok FROM snowflake_check() WHERE status <> 'ok';
SELECT DISTINCT (snowflake_check()).status;

-- it draws nothing, in a READ ONLY transaction too
SELECT sum(issued) AS issued FROM pg_stat_snowflake_slots \gset
BEGIN READ ONLY;
SELECT count(*) FROM snowflake_check();
COMMIT;
SELECT sum(issued) = :issued AS none_drawn FROM pg_stat_snowflake_slots;

-- for everyone
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT count(*) FROM snowflake_check();
RESET ROLE;
DROP ROLE regress_snowflake_user;
