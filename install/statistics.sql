--
-- Statistics
--

CREATE FUNCTION pg_stat_get_snowflake(
    OUT node integer, OUT lease_end timestamptz, OUT registry_offset interval, OUT layout text,
    OUT epoch timestamptz, OUT clock text, OUT clock_ts timestamptz, OUT wall_ts timestamptz,
    OUT drift interval, OUT drift_max interval, OUT last_ts timestamptz,
    OUT oldest_open_ts timestamptz, OUT issued bigint, OUT backfilled bigint, OUT hops bigint,
    OUT waits bigint, OUT wait_time double precision, OUT mark_waits bigint,
    OUT mark_wait_time double precision, OUT clock_waits bigint,
    OUT clock_wait_time double precision, OUT unit_waits bigint,
    OUT unit_wait_time double precision, OUT node_waits bigint, OUT node_wait_time double precision,
    OUT timeouts bigint, OUT clock_regressions bigint, OUT clock_regression_max interval,
    OUT clock_jumps bigint, OUT clock_jump_max interval, OUT reserved_until timestamptz,
    OUT backends integer, OUT slots_used integer, OUT mark_writer_pid integer, OUT last_error text,
    OUT last_error_ts timestamptz, OUT lifetime_end timestamptz, OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_stat_get_snowflake() IS
'statistics: the generator; use the view pg_stat_snowflake';

CREATE VIEW pg_stat_snowflake AS
    SELECT * FROM pg_stat_get_snowflake();
COMMENT ON VIEW pg_stat_snowflake IS
'one row: the state of the generator, how many IDs it drew, and what sessions waited for';
COMMENT ON COLUMN pg_stat_snowflake.node IS 'node number of this server; null when it has none';
COMMENT ON COLUMN pg_stat_snowflake.lease_end IS
'end of the node number''s lease unless renewed; infinity if registered, null without a registry';
COMMENT ON COLUMN pg_stat_snowflake.registry_offset IS
'this server''s clock minus the registry''s clock';
COMMENT ON COLUMN pg_stat_snowflake.layout IS 'layout of the IDs, as configured';
COMMENT ON COLUMN pg_stat_snowflake.epoch IS
'instant at which the time in the IDs begins, as configured';
COMMENT ON COLUMN pg_stat_snowflake.clock IS
'clock that the time in the IDs is taken from: system, monotonic or logical';
COMMENT ON COLUMN pg_stat_snowflake.clock_ts IS 'what that clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.wall_ts IS 'what the server''s system clock shows now';
COMMENT ON COLUMN pg_stat_snowflake.drift IS
'how far an ID drawn now can be ahead of the system clock; negative if it is behind';
COMMENT ON COLUMN pg_stat_snowflake.drift_max IS
'how far an ID has been ahead of the system clock at most, since the last reset';
COMMENT ON COLUMN pg_stat_snowflake.last_ts IS
'latest time of an ID drawn since server start or the last snowflake_advance(); null if none';
COMMENT ON COLUMN pg_stat_snowflake.oldest_open_ts IS
'time of the oldest ID of an open transaction, in any database; it holds readers back';
COMMENT ON COLUMN pg_stat_snowflake.issued IS 'number of IDs drawn by snowflake_nextval()';
COMMENT ON COLUMN pg_stat_snowflake.backfilled IS 'number of IDs drawn by snowflake_backfill()';
COMMENT ON COLUMN pg_stat_snowflake.hops IS
'how often a session went on to another worker slot because its own was used up in a time unit';
COMMENT ON COLUMN pg_stat_snowflake.waits IS 'how often a session waited for an ID, for any reason';
COMMENT ON COLUMN pg_stat_snowflake.wait_time IS 'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.mark_waits IS 'waits for the durable mark to be raised';
COMMENT ON COLUMN pg_stat_snowflake.mark_wait_time IS
'time spent in waits for the durable mark, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.clock_waits IS 'waits for a clock that was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_wait_time IS
'time spent in waits for the clock, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.unit_waits IS
'waits for a time unit with free numbers, when IDs are drawn faster than the layout allows';
COMMENT ON COLUMN pg_stat_snowflake.unit_wait_time IS
'time spent in waits for a time unit, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.node_waits IS 'waits for a node number from the registry';
COMMENT ON COLUMN pg_stat_snowflake.node_wait_time IS
'time spent in waits for a node number, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake.timeouts IS
'draws that failed after snowflake.max_wait, or at once if waiting cannot help';
COMMENT ON COLUMN pg_stat_snowflake.clock_regressions IS
'how often the system clock was set back by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_regression_max IS
'largest step by which the system clock was set back';
COMMENT ON COLUMN pg_stat_snowflake.clock_jumps IS
'how often the system clock was set forward by a millisecond or more';
COMMENT ON COLUMN pg_stat_snowflake.clock_jump_max IS
'largest step by which the system clock was set forward';
COMMENT ON COLUMN pg_stat_snowflake.reserved_until IS
'sessions draw IDs below this time without asking for more; null when nothing is reserved';
COMMENT ON COLUMN pg_stat_snowflake.backends IS
'number of sessions that have drawn IDs and are still connected';
COMMENT ON COLUMN pg_stat_snowflake.slots_used IS 'number of worker slots that these sessions have';
COMMENT ON COLUMN pg_stat_snowflake.mark_writer_pid IS
'process ID of the mark writer; null if none runs, or without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake.last_error IS
'last error of a background worker; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake.last_error_ts IS 'when that error occurred';
COMMENT ON COLUMN pg_stat_snowflake.lifetime_end IS 'when the times of the layout come to an end';
COMMENT ON COLUMN pg_stat_snowflake.stats_reset IS
'when counting began: at server start, after a crash of a backend, or at the last reset';

CREATE FUNCTION pg_stat_get_snowflake_slots(
    OUT worker integer, OUT backends integer, OUT pids integer[], OUT last_ts timestamptz,
    OUT last_id bigint, OUT issued bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_slots'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 32;
COMMENT ON FUNCTION pg_stat_get_snowflake_slots() IS
'statistics: the worker slots; use the view pg_stat_snowflake_slots';

CREATE VIEW pg_stat_snowflake_slots AS
    SELECT * FROM pg_stat_get_snowflake_slots();
COMMENT ON VIEW pg_stat_snowflake_slots IS
'one row for each worker slot: its sessions, the last ID drawn from it, and how many';
COMMENT ON COLUMN pg_stat_snowflake_slots.worker IS 'worker number of the slot';
COMMENT ON COLUMN pg_stat_snowflake_slots.backends IS
'number of sessions that have this slot as their own; all sessions share worker 0 besides';
COMMENT ON COLUMN pg_stat_snowflake_slots.pids IS
'process IDs of these sessions; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_ts IS 'time of last_id';
COMMENT ON COLUMN pg_stat_snowflake_slots.last_id IS
'last ID drawn from the slot since server start or the last snowflake_advance(), or passed over';
COMMENT ON COLUMN pg_stat_snowflake_slots.issued IS
'number of IDs drawn from the slot; may lag while a session goes from slot to slot';

CREATE FUNCTION pg_stat_snowflake_reset()
RETURNS void AS 'MODULE_PATHNAME', 'pg_stat_snowflake_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_stat_snowflake_reset() IS
'statistics: reset the counters of the pg_stat_snowflake views';
REVOKE ALL ON FUNCTION pg_stat_snowflake_reset() FROM PUBLIC;

CREATE FUNCTION pg_stat_get_snowflake_segments(
    OUT tag text, OUT state text, OUT step bigint, OUT min_step integer, OUT delta integer,
    OUT remainder integer, OUT max_value bigint, OUT first bigint, OUT last bigint, OUT used bigint,
    OUT unused bigint, OUT next_first bigint, OUT next_last bigint, OUT issued bigint,
    OUT fetches bigint, OUT waits bigint, OUT wait_time double precision,
    OUT last_fetch_ts timestamptz, OUT last_fetch_time double precision, OUT last_error text,
    OUT last_error_ts timestamptz)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'pg_stat_get_snowflake_segments'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 20;
COMMENT ON FUNCTION pg_stat_get_snowflake_segments() IS
'statistics: the segments of numbers; use the view pg_stat_snowflake_segments';

CREATE VIEW pg_stat_snowflake_segments AS
    SELECT * FROM pg_stat_get_snowflake_segments();
COMMENT ON VIEW pg_stat_snowflake_segments IS
'one row for each segment tag that this server has drawn from: its segments, counts and waits';
COMMENT ON COLUMN pg_stat_snowflake_segments.tag IS 'name of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.state IS
'asked: the registry has not answered yet; open; ended: all numbers are given out to servers';
COMMENT ON COLUMN pg_stat_snowflake_segments.step IS
'how many numbers the next segment spans, which goes with the rate of drawing';
COMMENT ON COLUMN pg_stat_snowflake_segments.min_step IS
'smallest step, as the tag was created or altered';
COMMENT ON COLUMN pg_stat_snowflake_segments.delta IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.remainder IS
'servers take the numbers n with n % delta = remainder';
COMMENT ON COLUMN pg_stat_snowflake_segments.max_value IS 'last number of the tag';
COMMENT ON COLUMN pg_stat_snowflake_segments.first IS 'first number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.last IS 'last number of the segment in use';
COMMENT ON COLUMN pg_stat_snowflake_segments.used IS
'how many numbers of the segment in use have been drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.unused IS
'how many numbers of the segment in use are left';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_first IS
'first number of the next segment; null if it has not been fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.next_last IS
'last number of the next segment; null if it has not been fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.issued IS 'number of numbers drawn';
COMMENT ON COLUMN pg_stat_snowflake_segments.fetches IS 'number of segments fetched';
COMMENT ON COLUMN pg_stat_snowflake_segments.waits IS 'how often a session waited for a segment';
COMMENT ON COLUMN pg_stat_snowflake_segments.wait_time IS
'time spent in these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_ts IS 'when the last segment arrived';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_fetch_time IS
'how long fetching the last segment took, in milliseconds';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error IS
'last reason why no segment could be fetched; null without the rights of pg_read_all_stats';
COMMENT ON COLUMN pg_stat_snowflake_segments.last_error_ts IS 'when that was';
