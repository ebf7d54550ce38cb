-- pg_stat_snowflake.  The clocks are in t/faults/051_clocks.pl.

SELECT attname, atttypid::regtype
FROM pg_attribute WHERE attrelid = 'pg_stat_snowflake'::regclass AND attnum > 0
ORDER BY attnum;

SELECT node, layout, epoch AT TIME ZONE 'UTC' AS epoch, clock,
       clock_ts = wall_ts AND wall_ts BETWEEN now() AND clock_timestamp() AS of_now,
       drift, lifetime_end AT TIME ZONE 'UTC' AS lifetime_end,
       stats_reset < now() AS counts_since_before
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

-- this session has a slot
SELECT backends >= 1 AS backends, slots_used >= 1 AS slots_used,
       mark_writer_pid = (SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer') AS worker
FROM pg_stat_snowflake;
SELECT count(*) AS mine FROM pg_stat_snowflake_slots WHERE pg_backend_pid() = ANY (pids);

-- waits are the sum of their kinds
SELECT waits = mark_waits + clock_waits + unit_waits AS waits,
       abs(wait_time - mark_wait_time - clock_wait_time - unit_wait_time) < 0.01 AS wait_time
FROM pg_stat_snowflake;

-- begin anew; in a READ ONLY transaction too
BEGIN READ ONLY;
SELECT pg_stat_snowflake_reset();
COMMIT;
SELECT issued, hops, waits, wait_time, timeouts, drift_max, clock_regressions, clock_jumps, last_error,
       stats_reset > now() - interval '1 min' AS reset, last_ts IS NOT NULL AS last_stays
FROM pg_stat_snowflake;
SELECT count(*) FROM snowflake_nextval(17);
SELECT issued FROM pg_stat_snowflake;
SELECT sum(issued) FROM pg_stat_snowflake_slots;

-- for anyone, but for processes and the reset
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT count(*) FROM pg_stat_snowflake;
SELECT count(mark_writer_pid) AS mark_writer_pids FROM pg_stat_snowflake;
SELECT sum(backends) >= 1 AS backends, count(pids) AS pids FROM pg_stat_snowflake_slots;
SELECT pg_stat_snowflake_reset();
RESET ROLE;
GRANT pg_read_all_stats TO regress_reader;
SET ROLE regress_reader;
SELECT count(mark_writer_pid) AS mark_writer_pids FROM pg_stat_snowflake;
SELECT count(pids) AS pids FROM pg_stat_snowflake_slots;
RESET ROLE;
DROP ROLE regress_reader;
