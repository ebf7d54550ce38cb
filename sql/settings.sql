-- The settings: each checked when it is set.
-- Those fixed at server start are tried with ALTER SYSTEM, which checks a
-- value and stores it; nothing is restarted here.  What a server does that is
-- started with a wrong value is in t/001_settings.pl.

SELECT name, unit, context, vartype, min_val, max_val, enumvals, boot_val
FROM pg_settings WHERE name LIKE 'snowflake.%' ORDER BY name;

-- fixed while the server runs
SET snowflake.layout = 'time:41';
SET snowflake.epoch = '2020-01-01 00:00:00+00';
SET snowflake.node_id = 1;
SET snowflake.clock = 'logical';
SET snowflake.database = 'postgres';
-- of the server, not of a session
SET snowflake.max_drift = '1s';
SET snowflake.sequence_start = 'zero';
SET snowflake.sequence_start_max = 1;
SET snowflake.reserve_window = '1s';
-- of a session
SET snowflake.max_wait = '1min';
SHOW snowflake.max_wait;
SET snowflake.max_wait = 0;
\set VERBOSITY sqlstate
SET snowflake.max_wait = -1;
\set VERBOSITY default
SET snowflake.max_wait = 2147483647;
SET snowflake.max_wait = 2147483648;
SET snowflake.max_wait = 'long';
SELECT state IN ('42601', '22023') AS no_null FROM error_of('SET snowflake.max_wait = NULL');
RESET snowflake.max_wait;

-- a name that does not exist
SET snowflake.node = 1;

-- layouts: any order, any widths, any whole unit
ALTER SYSTEM SET snowflake.layout = 'time:41 node:5 worker:5 sequence:12';
ALTER SYSTEM SET snowflake.layout = 'time:41 node:10 sequence:12';
ALTER SYSTEM SET snowflake.layout = 'time:42 node:5 worker:5 sequence:11';
ALTER SYSTEM SET snowflake.layout = 'node:10 time:41 sequence:12';
ALTER SYSTEM SET snowflake.layout = 'time:39@10ms sequence:8 node:16';
ALTER SYSTEM SET snowflake.layout = 'time:28@1s node:22 sequence:13';
ALTER SYSTEM SET snowflake.layout = 'time:48 sequence:15';
ALTER SYSTEM SET snowflake.layout = 'sequence:12 worker:5 node:5 time:41';
ALTER SYSTEM SET snowflake.layout = 'worker:1 sequence:1 time:1 node:1';
ALTER SYSTEM SET snowflake.layout = 'time:1';
ALTER SYSTEM SET snowflake.layout = 'time:63';
ALTER SYSTEM SET snowflake.layout = 'time:1 sequence:62';
ALTER SYSTEM SET snowflake.layout = 'time:1 node:62';
ALTER SYSTEM SET snowflake.layout = 'time:1 worker:62';
ALTER SYSTEM SET snowflake.layout = 'time:41 worker:0 node:0 sequence:0';
ALTER SYSTEM SET snowflake.layout = '  time:41	sequence:12  ';
ALTER SYSTEM SET snowflake.layout = 'time:41@1ms';
ALTER SYSTEM SET snowflake.layout = 'time:41@2147483647ms';
ALTER SYSTEM SET snowflake.layout = 'time:41@2147483647s';
ALTER SYSTEM RESET snowflake.layout;

-- not layouts, each with what is wrong
ALTER SYSTEM SET snowflake.layout = '';
ALTER SYSTEM SET snowflake.layout = '  ';
ALTER SYSTEM SET snowflake.layout = 'node:5 sequence:12';
ALTER SYSTEM SET snowflake.layout = 'time';
ALTER SYSTEM SET snowflake.layout = 'time:';
ALTER SYSTEM SET snowflake.layout = 'time:0';
ALTER SYSTEM SET snowflake.layout = 'time:-1';
ALTER SYSTEM SET snowflake.layout = 'time:+41';
ALTER SYSTEM SET snowflake.layout = 'time:64';
ALTER SYSTEM SET snowflake.layout = 'time:99999999999999999999';
ALTER SYSTEM SET snowflake.layout = 'time:41 node:5 worker:5 sequence:13';
ALTER SYSTEM SET snowflake.layout = 'time:63 sequence:1';
ALTER SYSTEM SET snowflake.layout = 'time:41 time:1';
ALTER SYSTEM SET snowflake.layout = 'time:41 sequence:12 sequence:0';
ALTER SYSTEM SET snowflake.layout = 'Time:41';
ALTER SYSTEM SET snowflake.layout = 'time:41 shard:5';
ALTER SYSTEM SET snowflake.layout = 'time:41 größe:4';
ALTER SYSTEM SET snowflake.layout = 'time:41,sequence:12';
ALTER SYSTEM SET snowflake.layout = 'time:41 :5';
ALTER SYSTEM SET snowflake.layout = 'time: 41';
ALTER SYSTEM SET snowflake.layout = 'time:41x';
ALTER SYSTEM SET snowflake.layout = 'time:4 1';
ALTER SYSTEM SET snowflake.layout = 'time:41@';
ALTER SYSTEM SET snowflake.layout = 'time:41@ms';
ALTER SYSTEM SET snowflake.layout = 'time:41@0ms';
ALTER SYSTEM SET snowflake.layout = 'time:41@-1ms';
ALTER SYSTEM SET snowflake.layout = 'time:41@1';
ALTER SYSTEM SET snowflake.layout = 'time:41@1us';
ALTER SYSTEM SET snowflake.layout = 'time:41@1.5s';
ALTER SYSTEM SET snowflake.layout = 'time:41@1min';
ALTER SYSTEM SET snowflake.layout = 'time:41@2147483648s';
ALTER SYSTEM SET snowflake.layout = 'time:41@1ms5';
ALTER SYSTEM SET snowflake.layout = 'time:41 node:5@1ms';
ALTER SYSTEM SET snowflake.layout = 'time:41 sequence:x';
ALTER SYSTEM RESET snowflake.layout;

\echo :LAST_ERROR_SQLSTATE
SELECT 'ALTER SYSTEM SET snowflake.layout = ' || quote_literal('time:41 ' || repeat('x', 60)) AS long \gset
:long;

-- epochs: instants that carry a zone
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 00:00:00+00';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01T00:00:00Z';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 00:00:00 UTC';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 08:00:00+08';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 08:00:00 Asia/Shanghai';
ALTER SYSTEM SET snowflake.epoch = '2010-11-04 01:42:54.657+00';
ALTER SYSTEM SET snowflake.epoch = '1970-01-01 00:00:00+00';
ALTER SYSTEM SET snowflake.epoch = '2999-12-31 23:59:59.999999+14:00';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01+00';
ALTER SYSTEM RESET snowflake.epoch;

-- not epochs
ALTER SYSTEM SET snowflake.epoch = '';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 00:00:00';
ALTER SYSTEM SET snowflake.epoch = 'now';
ALTER SYSTEM SET snowflake.epoch = 'today';
ALTER SYSTEM SET snowflake.epoch = 'tomorrow+00';
ALTER SYSTEM SET snowflake.epoch = 'infinity';
ALTER SYSTEM SET snowflake.epoch = '-infinity';
ALTER SYSTEM SET snowflake.epoch = 'epoch';
ALTER SYSTEM SET snowflake.epoch = '2020-13-01 00:00:00+00';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 25:00:00+00';
ALTER SYSTEM SET snowflake.epoch = '2020-01-01 00:00:00+99';
ALTER SYSTEM SET snowflake.epoch = '1969-12-31 23:59:59.999999+00';
ALTER SYSTEM SET snowflake.epoch = '4713-01-01 00:00:00+00 BC';
ALTER SYSTEM SET snowflake.epoch = '00:00:00+00';
ALTER SYSTEM SET snowflake.epoch = '1577836800000';
ALTER SYSTEM SET snowflake.epoch = 'long ago';
ALTER SYSTEM RESET snowflake.epoch;

-- nothing longer than the server's parser takes
SELECT 'ALTER SYSTEM SET snowflake.epoch = ' || quote_literal(repeat('2020-01-01 ', 20)) AS long \gset
:long;

-- node numbers: those of the field, or not set
ALTER SYSTEM SET snowflake.node_id = 0;
ALTER SYSTEM SET snowflake.node_id = 31;
ALTER SYSTEM SET snowflake.node_id = -1;
ALTER SYSTEM RESET snowflake.node_id;

-- not node numbers
ALTER SYSTEM SET snowflake.node_id = 32;
ALTER SYSTEM SET snowflake.node_id = -2;
ALTER SYSTEM SET snowflake.node_id = 2147483647;
ALTER SYSTEM SET snowflake.node_id = 2147483648;
ALTER SYSTEM SET snowflake.node_id = 'five';
ALTER SYSTEM SET snowflake.node_id = 1.5;
ALTER SYSTEM SET snowflake.node_id = '';
ALTER SYSTEM RESET snowflake.node_id;

\echo :LAST_ERROR_SQLSTATE

-- segment tags
ALTER SYSTEM SET snowflake.max_segment_tags = 0;
ALTER SYSTEM SET snowflake.max_segment_tags = 10000;
ALTER SYSTEM SET snowflake.max_segment_tags = -1;
ALTER SYSTEM SET snowflake.max_segment_tags = 10001;
ALTER SYSTEM SET snowflake.max_segment_tags = 2147483648;
ALTER SYSTEM SET snowflake.max_segment_tags = 'many';
ALTER SYSTEM RESET snowflake.max_segment_tags;
SET snowflake.max_segment_tags = 10;

-- drift
ALTER SYSTEM SET snowflake.max_drift = 0;
ALTER SYSTEM SET snowflake.max_drift = '1min';
ALTER SYSTEM SET snowflake.max_drift = 2147483647;
ALTER SYSTEM RESET snowflake.max_drift;

\set VERBOSITY sqlstate
ALTER SYSTEM SET snowflake.max_drift = -1;
\set VERBOSITY default
-- not a drift
ALTER SYSTEM SET snowflake.max_drift = 2147483648;
ALTER SYSTEM SET snowflake.max_drift = '1 fortnight';
ALTER SYSTEM SET snowflake.max_drift = 'infinity';
ALTER SYSTEM RESET snowflake.max_drift;

-- sequence start
ALTER SYSTEM SET snowflake.sequence_start = zero;
ALTER SYSTEM SET snowflake.sequence_start = continue;
ALTER SYSTEM SET snowflake.sequence_start = random;
ALTER SYSTEM RESET snowflake.sequence_start;

-- not a sequence start
ALTER SYSTEM SET snowflake.sequence_start = one;
ALTER SYSTEM SET snowflake.sequence_start = '';
ALTER SYSTEM RESET snowflake.sequence_start;

-- sequence numbers of the field
ALTER SYSTEM SET snowflake.sequence_start_max = 0;
ALTER SYSTEM SET snowflake.sequence_start_max = -1;
ALTER SYSTEM SET snowflake.sequence_start_max = 99;
ALTER SYSTEM SET snowflake.sequence_start_max = 4095;
ALTER SYSTEM RESET snowflake.sequence_start_max;

-- not sequence numbers of the field
ALTER SYSTEM SET snowflake.sequence_start_max = 4096;
ALTER SYSTEM SET snowflake.sequence_start_max = -2;
ALTER SYSTEM SET snowflake.sequence_start_max = 'all';
ALTER SYSTEM RESET snowflake.sequence_start_max;

-- home databases: names, which need not exist yet
ALTER SYSTEM SET snowflake.database = 'x';
ALTER SYSTEM SET snowflake.database = 'with "quotes", spaces und Größe';
ALTER SYSTEM SET snowflake.database = 'a23456789b23456789c23456789d23456789e23456789f23456789g23456789';
ALTER SYSTEM SET snowflake.database = 'ü23456789b23456789c23456789d23456789e23456789f23456789g2345678';
ALTER SYSTEM RESET snowflake.database;

-- not home databases
ALTER SYSTEM SET snowflake.database = '';
ALTER SYSTEM SET snowflake.database = 'a23456789b23456789c23456789d23456789e23456789f23456789g234567890';
ALTER SYSTEM SET snowflake.database = 'ü23456789b23456789c23456789d23456789e23456789f23456789g23456789';
ALTER SYSTEM SET snowflake.database = one, two;
ALTER SYSTEM RESET snowflake.database;

-- reserve window
ALTER SYSTEM SET snowflake.reserve_window = 100;
ALTER SYSTEM SET snowflake.reserve_window = '0.1s';
ALTER SYSTEM SET snowflake.reserve_window = '3s';
ALTER SYSTEM SET snowflake.reserve_window = '1d';
ALTER SYSTEM SET snowflake.reserve_window = 86400000;
ALTER SYSTEM RESET snowflake.reserve_window;

\set VERBOSITY sqlstate
ALTER SYSTEM SET snowflake.reserve_window = 99;
ALTER SYSTEM SET snowflake.reserve_window = 0;
ALTER SYSTEM SET snowflake.reserve_window = -1;
ALTER SYSTEM SET snowflake.reserve_window = 86400001;
ALTER SYSTEM SET snowflake.reserve_window = '25h';
\set VERBOSITY default
-- not a window
ALTER SYSTEM SET snowflake.reserve_window = 2147483648;
ALTER SYSTEM SET snowflake.reserve_window = 'soon';
ALTER SYSTEM SET snowflake.reserve_window = '1 fortnight';
ALTER SYSTEM SET snowflake.reserve_window = 'infinity';
ALTER SYSTEM SET snowflake.reserve_window = '';
ALTER SYSTEM RESET snowflake.reserve_window;

-- what the server says, and nobody sets
SELECT snowflake_nextval() AS id \gset
SELECT current_setting('snowflake.issued_until')::timestamptz > snowflake_timestamp(:id) AS after_id,
       current_setting('snowflake.issued_until')::timestamptz
           <= clock_timestamp() + current_setting('snowflake.max_drift')::interval + '1ms' AS not_far;
SET snowflake.issued_until = '2020-01-01 00:00:00+00';
SET snowflake.issued_until = DEFAULT;
RESET snowflake.issued_until;
ALTER SYSTEM SET snowflake.issued_until = '2020-01-01 00:00:00+00';
ALTER DATABASE postgres SET snowflake.issued_until = '2020-01-01 00:00:00+00';
SELECT set_config('snowflake.issued_until', '', false);

-- what the background worker sets, on the home database only
SHOW snowflake.recorded;
ALTER SYSTEM SET snowflake.recorded = 'time:41 since 2020-01-01 00:00:00+00';
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SET snowflake.recorded = 'time:41 since 2020-01-01 00:00:00+00';
RESET ROLE;
ALTER ROLE regress_snowflake_user SET snowflake.max_wait = '1s';
SET ROLE regress_snowflake_user;
ALTER ROLE regress_snowflake_user SET snowflake.recorded = 'time:41';
ALTER ROLE regress_snowflake_user SET snowflake.reserve_window = '1s';
ALTER ROLE regress_snowflake_user SET snowflake.database = 'x';
RESET ROLE;
DROP ROLE regress_snowflake_user;
