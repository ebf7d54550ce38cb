-- pg_stat_snowflake.  The clocks are in t/051_clocks.pl.

SELECT attname, atttypid::regtype
FROM pg_attribute WHERE attrelid = 'pg_stat_snowflake'::regclass AND attnum > 0
ORDER BY attnum;

SELECT node, layout, epoch AT TIME ZONE 'UTC' AS epoch, clock,
       clock_ts = wall_ts AND wall_ts BETWEEN now() AND clock_timestamp() AS of_now,
       drift, lifetime_end AT TIME ZONE 'UTC' AS lifetime_end
FROM pg_stat_snowflake;

-- the last ID of all, and how many there were
SELECT issued FROM pg_stat_snowflake \gset
SELECT max(id) AS last FROM snowflake_nextval(1000) AS id \gset
SELECT issued - :issued AS newly_issued,
       last_ts = snowflake_timestamp(:last) AS is_last,
       reserved_until > last_ts AS reserved
FROM pg_stat_snowflake;
SELECT s.issued = sum(w.issued) AS same_issued, s.last_ts = max(w.last_ts) AS same_last
FROM pg_stat_snowflake AS s, pg_stat_snowflake_slots AS w GROUP BY s.issued, s.last_ts;

-- for anyone
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT count(*) FROM pg_stat_snowflake;
RESET ROLE;
DROP ROLE regress_reader;
