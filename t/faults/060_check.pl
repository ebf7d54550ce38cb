# snowflake_check(), each of its checks made to fail: what it finds, and what it
# says that mends it.  Nothing makes the function itself fail but to be cancelled.
# The end of the layout's time is in t/faults/052_lifetime.pl, tables are in sql/check.sql.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use InstallTest;
use SnowflakeTest;

my $day = 24 * 3600;
my @checks = slurp_file('src/check.c') =~ /^\t\{"(\w+)", check_/mg;

# What it says of something: "status|detail", a row a line.
sub check
{
	my ($node, $check, $dbname) = @_;

	return $node->safe_psql($dbname // 'postgres',
		qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check'));
}

# That it says so, perhaps a moment later.
sub says
{
	my ($node, $check, $expected, $name) = @_;
	my $said;

	wait_for(sub { $said = check($node, $check); $said =~ $expected });
	like($said, $expected, $name);
	return;
}

sub with_settings
{
	my ($node, %settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_ = '$settings{$_}'")
	  foreach sort keys %settings;
	reload_node($node);
	foreach my $name (sort keys %settings)
	{
		$node->poll_query_until('postgres',
			"SELECT current_setting('$name') = '$settings{$name}'")
		  or die "$name was not set";
	}
	return;
}

#
# What is recorded with the durable mark
#
my $node = snowflake_node('check', <<'CONF', clock => 0, allows_streaming => 1);
timezone = 'UTC'
autovacuum = off
include_if_exists 'test.conf'
CONF

my $layout = 'layout "time:41 node:5 worker:5 sequence:12" and epoch 2020-01-01 00:00:00+00';
my $of_system = ' as node 1 on system ' . $node->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()');
my $recorded = "'time:41 node:5 worker:5 sequence:12 since 2020-01-01 00:00:00+00$of_system'";

is( $node->safe_psql('postgres', 'SELECT string_agg(name, \' \') FROM snowflake_check()'),
	"@checks", 'all checks');
is(check($node, 'layout'), "ok|Nothing is recorded: the first ID records $layout.", 'before the first ID');
says($node, 'mark', qr/^ok\|Nothing is reserved\. The durable mark is in database "postgres", or will be/,
	'and there is no mark');
my $services_pid = services_pid($node);
stop_asleep($node, $services_pid);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
is(check($node, 'layout'), qq(ok|IDs are drawn with $layout, as recorded in database "postgres".), 'at once after it');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET snowflake.recorded');
is(check($node, 'layout'), 'ok|The server is about to record for other databases where the durable mark is.', 'removed before the server has looked');
# only what lasts is worth a warning
my $blocker = session($node);
$blocker->query_safe('BEGIN; LOCK pg_db_role_setting IN EXCLUSIVE MODE');
kill 'CONT', $services_pid;
says($node, 'layout', qr/^warning\|The server could not record for other databases where the durable mark is\. The server's log says why\. Mend the cause; the background worker tries again every 10 seconds\.$/,
	'which it could not be');
$blocker->query_safe('ROLLBACK');
$blocker->quit;
await_pointer($node);
is(check($node, 'layout'), qq(ok|IDs are drawn with $layout, as recorded in database "postgres".), 'after it');

# as a restore of a whole database of another server, or a superuser, may leave it
$node->safe_psql('postgres', 'CREATE DATABASE "Other"; CREATE ROLE "Some"');
$node->safe_psql('Other', 'CREATE EXTENSION snowflake');
foreach my $what ('DATABASE "Other"', 'ROLE "Some"', 'ROLE ALL')
{
	$node->safe_psql('postgres', "ALTER $what SET snowflake.recorded = 'time:41 since 2020-01-01 00:00:00+00 as node 1 on system 1'");
	is(check($node, 'layout'), qq(ok|IDs are drawn with $layout, as recorded in database "postgres".), "recorded for $what");
}
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET snowflake.recorded');
is( check($node, 'layout'),
	qq(warning|Somebody has removed "snowflake.recorded", which shows other databases where the durable mark is. Restart the server, or run ALTER DATABASE postgres SET snowflake.recorded = $recorded.),
	'recorded nowhere');

$node->safe_psql('postgres', "ALTER $_ RESET snowflake.recorded") foreach 'DATABASE "Other"', 'ROLE "Some"', 'ROLE ALL';

# what it fails with is a row, and the rows after it are there
$node->safe_psql('postgres', "ALTER DATABASE postgres SET snowflake.recorded = 'time:41 since nonsense$of_system'");
is(check($node, 'layout'), 'error|The check failed: invalid input syntax for type timestamp with time zone: "nonsense".',
	'a check that fails');
is( $node->safe_psql('postgres', 'SELECT string_agg(name, \' \') FROM snowflake_check()'),
	"@checks", 'the others are there');
foreach my $other ('time:41 node:5 worker:5 sequence:11 since 2020-01-01 00:00:00+00',
	'time:41 node:5 worker:5 sequence:12 since 2020-01-01 00:00:01+00')
{
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET snowflake.recorded = '$other$of_system'");
	my ($text, $epoch) = split / since /, $other;
	is( check($node, 'layout', 'Other'),
		qq(error|This server has issued IDs with layout "$text" and epoch $epoch, as recorded in database "postgres", and is now configured with $layout. Set snowflake.layout = '$text' and snowflake.epoch = '$epoch' in postgresql.conf and restart the server. Or, if no ID of the one can equal an ID of the other, call snowflake_accept_layout().),
		"recorded: $other");
}
$node->safe_psql('postgres', "ALTER DATABASE postgres SET snowflake.recorded = $recorded");

restart_with_conf($node, qq(snowflake.database = 'Other'\n));
is( check($node, 'layout'),
	'error|The durable mark of this server is in database "postgres", and "snowflake.database" is "Other". Set "snowflake.database" to "postgres" and restart the server. Or move the mark, as docs/operations.md says under "Move the mark".',
	'another home database');

#
# Settings: slots, worker
#
restart_with_conf($node, <<'CONF');
snowflake.layout = 'time:41 node:5 worker:2 sequence:15'
max_connections = 97
max_worker_processes = 0
CONF
is( check($node, 'slots'),
	'warning|Worker slots: 3. "max_connections" is 97. More than 32 backends may share a slot, and slow each other down when they draw at once. Set "max_connections" lower, on a primary before its standbys, and use a connection pooler.',
	'more than 32 connections a slot');
my $no_place = 'which leaves no place for the two background workers of snowflake. Raise it by 2, on standbys first, and restart the server.';
is(check($node, 'worker'), qq(error|"max_worker_processes" is 0, $no_place), 'no background worker');
is(check($node, 'mark'), 'warning|The durable mark cannot be raised without the background worker.', 'nor a mark');
restart_with_conf($node, "snowflake.layout = 'time:41 node:5 worker:2 sequence:15'\nmax_connections = 96\n");
is(check($node, 'slots'), 'ok|Worker slots: 3. "max_connections" is 96. Backends that share one are safe, and a little slower.',
	'32 connections a slot');
restart_with_conf($node, "max_connections = 31\nautovacuum_max_workers = 1\nmax_wal_senders = 5\n");
is(check($node, 'slots'), 'ok|Worker slots: 31. "max_connections" is 31.', 'one connection a slot');
says($node, 'worker', qr/^ok\|The background workers are running\.$/, 'with a background worker');
says($node, 'mark', qr/^ok\|The durable mark /, 'which has read the mark');
forget_mark($node);
restart_with_conf($node, "snowflake.layout = 'js53'");
is(check($node, 'slots'), 'ok|The layout has no worker field, so all backends share one slot.', 'no worker field');
$node->safe_psql('postgres', 'CREATE TABLE strange (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO strange VALUES (1::bigint << 60), (-1)');
like(check($node, 'tables'), qr/^warning\|public\.strange\.id has numbers that are no IDs of the layout "time:41 node:4 sequence:8", such as 1152921504606846976\. If IDs were drawn with another layout, [^\n]* reads them\.\nok\|/,
	'numbers above all IDs of the layout');
$node->safe_psql('postgres', 'DROP TABLE strange');
forget_mark($node);
restart_with_conf($node, '');

#
# Segments; with a registry see t/faults/081_segment_registry.pl
#
restart_with_conf($node, 'snowflake.max_segment_tags = 2');
is(check($node, 'segments'), 'ok|No numbers were drawn from segments since the server was started.', 'no segments');
$node->safe_psql('postgres', <<'SQL');
SELECT snowflake_segment_create('a', step => 1000, max_value => 1111), snowflake_segment_create('b', step => 1);
SQL
$node->safe_psql('postgres', q|SELECT snowflake_segment_nextval('a')|);
is(check($node, 'segments'), 'warning|Numbers of tag "a" up to 1000 of 1111 have been given out to servers.', 'nine tenths of all numbers');
$node->safe_psql('postgres', q|SELECT snowflake_segment_alter('a', max_value => 1112), snowflake_segment_nextval('a')|);
is(check($node, 'segments'), 'ok|Tags in use: 1. Their numbers are unique on this server only, as "snowflake.registry" is not set.', 'less than that');
$node->safe_psql('postgres', q|SELECT snowflake_segment_nextval('b')|);
is(check($node, 'segments'), 'warning|Tags in use: 2. "snowflake.max_segment_tags" allows 2.', 'as many tags as can be');
$node->safe_psql('postgres', q|SELECT snowflake_segment_drop('b')|);
$node->safe_psql('postgres', q|SELECT count(*) FROM snowflake_segment_nextval('a', 110)|);
says($node, 'segments', qr/^warning\|All numbers of tag "a" up to its maximum value, 1112, have been given out to servers\. Raise max_value with snowflake_segment_alter\(\)\.$/,
	'none is left to fetch');
$node->safe_psql('postgres', q|SELECT count(*) FROM snowflake_segment_nextval('a', 1000)|);
is(check($node, 'segments'), 'error|All numbers of tag "a" up to its maximum value, 1112, have been given out to servers, and this server has none left. Raise max_value with snowflake_segment_alter().',
	'none is left');
$node->safe_psql('postgres', q|SELECT snowflake_segment_alter('a', max_value => 1000000, step => 1), snowflake_segment_nextval('a')|);
my $locker = session($node);
$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
$node->psql('postgres', q|SET snowflake.max_wait = '2s'; SELECT count(*) FROM snowflake_segment_nextval('a', 1000000)|);
says($node, 'segments', qr/^error\|No segment of tag "a" could be fetched\. The home database cannot give segments: canceling statement due to lock timeout\.$/,
	'a fetch that fails');
$locker->query_safe('ROLLBACK');
$node->safe_psql('postgres', q|SELECT snowflake_segment_nextval('a')|);
is(check($node, 'segments'), 'ok|Tags in use: 1. Their numbers are unique on this server only, as "snowflake.registry" is not set.', 'and does not any more');
restart_with_conf($node, '');

#
# The mark
#
my $ahead = qr/^ok\|The durable mark in database "postgres" reserves IDs up to \S+ \S+, which is \d+ ms ahead of the clock; "snowflake\.reserve_window" is 3000 ms\.$/;
my $mark;
wait_for(
	sub {
		$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
		return ($mark = check($node, 'mark')) =~ $ahead;
	});
like($mark, $ahead, 'a mark that is ahead');
says($node, 'mark', qr/^ok\|.* which is \d+ ms behind the clock; .*\. The next ID raises it\.$/,
	'nobody draws: a mark that the clock has passed');

# the worker is terminated, while nobody starts it again; nobody draws
my $pid = worker_pid($node);
my $watcher = session($node);
my $worker_check = q(SELECT status || '|' || detail FROM snowflake_check() WHERE name = 'worker');
my $said_of_it;
kill 'STOP', postmaster_pid($node);
$watcher->query_safe("SELECT pg_terminate_backend($pid)");
wait_for(sub { ($said_of_it = $watcher->query_safe($worker_check)) =~ /^error/ });
kill 'CONT', postmaster_pid($node);
is($said_of_it, q(error|The background worker "snowflake mark writer" is not running. The server starts it again a second after it has ended. If it does not, see the server's log.), 'a background worker that is not there');
$watcher->quit;
says($node, 'worker', qr/^ok\|The background workers are running\.$/, 'a new background worker');
says($node, 'mark', qr/^ok\|/, 'and all is well with the mark');

# a worker that does not do what it is asked: nothing of it is known until
# somebody asks
$node->safe_psql('postgres', "SELECT snowflake_nextval(), snowflake_segment_create('c')");
foreach my $stopped (
	[ 'snowflake mark writer', worker_pid($node), 'SELECT snowflake_nextval()' ],
	[ 'snowflake services', services_pid($node), "SELECT snowflake_segment_create('stopped')" ])
{
	my ($name, $stopped_pid, $sql) = @{$stopped};
	my $hangs = qr/The background worker "$name", PID $stopped_pid, has not reacted for \d+ s\./;
	my $error;

	stop_asleep($node, $stopped_pid);
	wait_for(sub {
		my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET snowflake.max_wait = '100ms'; $sql");
		$error = psql_error($stderr);
		return $error->{detail} =~ /has not reacted/;
	});
	like($error->{detail}, qr/^$hangs Waited for "snowflake\.max_wait", 100 ms\.$/, "$name, stopped: sessions that wait are told");
	like(check($node, 'worker'), qr/^warning\|$hangs Find out what blocks it: [^\n]*$/, "$name, stopped: a warning");
	like(check($node, 'mark'), $name eq 'snowflake services' ? qr/^ok\|/ : qr/^error\|$hangs Find out/, "$name, stopped: and of the mark");
	kill 'CONT', $stopped_pid;
	says($node, 'worker', qr/^ok\|The background workers are running\.$/, "$name goes on");
	says($node, 'mark', qr/^ok\|/, "$name goes on: and all is well with the mark");
}

# raised by hand, or with another window
$node->safe_psql('postgres', "SELECT setval('snowflake_home.mark', last_value + 3600 * 1000000::bigint) FROM snowflake_home.mark");
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
says($node, 'mark',
	qr/^warning\|The durable mark .* which is 3\d{6} ms ahead of the clock; "snowflake\.reserve_window" is 3000 ms\. The setting was higher before, or somebody has changed the mark\. After a crash no ID could be drawn before that time; a clean restart of the server lowers the mark\.$/,
	'a mark that is too far ahead');
is(check($node, 'drift'), "ok|IDs are not ahead of the server's clock.", 'as IDs are not');

# the clock is set
$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
like(check($node, 'steps'), qr/^ok\|No step of the server's clock has been seen since \d/, 'a clock that was not set');
foreach my $step (60, 0)
{
	set_clock($node, $step);
	$node->safe_psql('postgres', "SET snowflake.max_wait = '2min'; SELECT snowflake_nextval()") if $step > 0;
	$node->psql('postgres', 'SET snowflake.max_wait = 0; SELECT snowflake_nextval()');
	like(check($node, 'steps'),
		$step > 0 ? qr/^ok\|Since \S+ \S+ the server's clock was set forward once, by (60000|59999|60001) ms\.$/
		: qr/^warning\|Since \S+ \S+ the server's clock was set back once, by (60000|59999|60001) ms, and set forward once, by \d+ ms\. Let a time server slew the clock instead, or set "snowflake\.clock" to "monotonic"\. To clear this warning, call pg_stat_snowflake_reset\(\)\.$/,
		$step > 0 ? 'set forward' : 'and back');
}
$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
like(check($node, 'steps'), qr/^ok\|No step of the server's clock has been seen/, 'forgotten');
# it catches up
set_clock($node, 60);
with_settings($node, 'snowflake.reserve_window' => '1h');
like(check($node, 'mark'), qr/^ok\|/, 'not further than the window');
with_settings($node, 'snowflake.reserve_window' => '3s');
restart_with_conf($node, '');
says($node, 'mark', qr/^ok\|/, 'a clean restart lowers it');

# with IDs ahead, the mark has to be ahead of those; that is said once
$node->safe_psql('postgres', "SELECT snowflake_advance(snowflake_compose(now() + interval '1 h', 1, 0, 0))");
says($node, 'mark', qr/^ok\|/, 'snowflake_advance() into the future: the mark is where it should be');
like(check($node, 'drift'),
	qr/^error\|IDs may have been issued with times up to .*, which is 3[56]\d{5} ms ahead of the clock; "snowflake\.max_drift" allows 1000 ms\. Set the server's clock\. If it is right, wait until it has caught up, or raise "snowflake\.max_drift" to go on ahead of it\.$/,
	'and the drift is not');
set_clock($node, $day);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');

#
# Drift
#
with_settings($node, 'snowflake.max_drift' => '1h');
set_clock($node, $day - 4800);
like(check($node, 'drift'), qr/^error\|IDs may have been issued/, 'more than max_drift');
set_clock($node, $day - 2400);
like(check($node, 'drift'), qr/^warning\|IDs may have been issued .* ahead of the clock; "snowflake\.max_drift" allows 3600000 ms\. The clock was set back, or IDs are drawn faster/,
	'two thirds of max_drift');
set_clock($node, $day - 1200);
like(check($node, 'drift'), qr/^ok\|The time in IDs is 1[12]\d{5} ms ahead of the server's clock; "snowflake\.max_drift" is 3600000 ms\.$/,
	'one third of it');
like(check($node, 'clock'), qr/^ok\|The clock shows /, 'the clock itself shows nothing');
with_settings($node, 'snowflake.max_drift' => '0');
like(check($node, 'drift'), qr/^error\|/, 'with max_drift = 0 any is too much');
set_clock($node, $day);
says($node, 'drift', qr/^ok\|IDs are not ahead/, 'and none is well');
with_settings($node, 'snowflake.max_drift' => '1h');

foreach my $clock (qw(monotonic logical))
{
	restart_with_conf($node, "snowflake.clock = $clock\n");
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	like(check($node, 'drift'), qr/^ok\|The time in IDs is \d+ ms/, "$clock: no drift");
	set_clock($node, $day - 2400);
	says($node, 'drift',
		qr/^warning\|The time in IDs is 2[34]\d{5} ms ahead of the server's clock; "snowflake\.max_drift" is 3600000 ms\. The clock was set back, and IDs follow it only after a restart\. If the clock is right, restart the server\.$/,
		"$clock, set back by two thirds of max_drift");
	set_clock($node, $day - 4800);
	says($node, 'drift', qr/^warning\|The time in IDs is 4[78]\d{5} ms ahead of the server's clock; .* If the clock is right, restart the server at a time when it can do without IDs for 1[12]\d{5} ms\.$/, "$clock, by four thirds");
	restart_with_conf($node, "snowflake.clock = $clock\n");
	says($node, 'drift', qr/^error\|IDs may have been issued [^\n]*, which is 4[78]\d{5} ms ahead of the /, "$clock, restarted: it is so");
	set_clock($node, $day);
	restart_with_conf($node, "snowflake.clock = $clock\n");
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	like(check($node, 'clock'), qr/^ok\|The monotonic clock shows /, 'which the clock that IDs are drawn by does not show');
	set_clock($node, $day + 4800);
	says($node, 'drift', qr/^ok\|The time in IDs is 4[78]\d{5} ms behind the server's clock/, "$clock, set forward");
	set_clock($node, $day);
}
set_clock($node, 1577836800 - $day - time);
restart_with_conf($node, "snowflake.clock = monotonic\n");
like(check($node, 'clock'),
	qr/^error\|The monotonic clock shows 2019-12-3\S+ \S+, which is before "snowflake\.epoch", 2020-01-01 00:00:00\+00\. Set the server's clock and restart the server\.$/,
	'before the epoch');
set_clock($node, $day);
with_settings($node, 'snowflake.max_drift' => '1s');
restart_with_conf($node, '');

#
# Tables: what other sessions, and crashes, have to do with it
#
sub sql { return $node->safe_psql('postgres', $_[0]) }

sub not_looked_at
{
	my ($what, $name) = @_;

	is( check($node, 'tables'),
		"ok|Columns of this database that draw snowflake IDs by default: 1. The last 100 IDs of each were looked at. Not looked at: $what.",
		$name);
	return;
}

sql('CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO t DEFAULT VALUES');
my $session = session($node);
foreach my $lock ('LOCK t', 'REINDEX INDEX t_pkey')
{
	$session->query_safe("BEGIN; $lock");
	not_looked_at('public.t.id (locked)', "$lock: not waited for");
	$session->query_safe('ROLLBACK');
}

# no lock stays
$session->query_safe('BEGIN');
is( $session->query_safe(<<'SQL'),
SELECT count(*) FROM snowflake_check();
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('t'::regclass, 't_pkey'::regclass);
SQL
	@checks . "\n0", 'no lock is kept');
$session->query_safe('COMMIT');

$session->query_safe('CREATE TEMP TABLE own (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
like(check($node, 'tables'), qr/by default: 2\..* Not looked at: pg_temp_\d+\.own\.id \(temporary table of another session\)\.$/,
	'a temporary table of another session');
$session->query_safe('DROP TABLE own');

# an index that is not there yet
sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_pkey'::regclass");
not_looked_at('public.t.id (no index begins with it)', 'an invalid index');
sql("UPDATE pg_index SET indisvalid = true, indcheckxmin = true WHERE indexrelid = 't_pkey'::regclass");
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql("UPDATE pg_index SET indcheckxmin = true WHERE indexrelid = 't_pkey'::regclass");
like($session->query_safe(q(SELECT detail FROM snowflake_check() WHERE name = 'tables')),
	qr/Not looked at: public\.t\.id \(its index is not usable yet\)\.$/, 'an index that is too new');
$session->query_safe('COMMIT');
sql("UPDATE pg_index SET indcheckxmin = false WHERE indexrelid = 't_pkey'::regclass");

# an ID of this node between the mark and the clock: if the clock is set back,
# it may come again
says($node, 'mark', qr/^ok\|.* ms behind the clock/, 'the clock passes the mark');
sql("INSERT INTO t SELECT snowflake_compose(reserved_until, 1, 0, 0) FROM pg_stat_snowflake");
like(check($node, 'tables'),
	qr/^error\|public\.t\.id has an ID of this server that is not below the durable mark: (\d+), of \S+ \S+\. The server may draw it again\. Run SELECT public\.snowflake_advance\(\1::bigint, false\)\.\n/,
	'an ID at the mark');
sql('SELECT snowflake_advance(max(id)) FROM t');
like(check($node, 'tables'), qr/^ok\|/, 'which the mark is raised above');

# no number, so there are no other nodes
sql("INSERT INTO t SELECT snowflake_compose('2021-01-01+00', 7, 0, 0)");
is( check($node, 'tables'),
	'ok|Columns of this database that draw snowflake IDs by default: 1. The last 100 IDs of each were looked at. IDs of other nodes than this one, 1: public.t.id (7).',
	'of another node: right after a restore onto another number');
$session->quit;
restart_with_conf($node, "snowflake.node_id = -1\n");
like(check($node, 'tables'), qr/^ok\|/, 'without a number of its own');
restart_with_conf($node, '');
$session = session($node);

sql('TRUNCATE t');

# dropped by another session while it is under way, again and again
my $churn = start_draw($node, sessions => 1, delay => 0, sql =>
	'DROP TABLE IF EXISTS gone; CREATE TABLE gone (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO gone SELECT FROM generate_series(1, 9) RETURNING id');
my $bad = 0;
with_settings($node, 'snowflake.reserve_window' => '1min');
wait_drawn($churn, 100);
for (1 .. 300)
{
	$bad++ if $session->query(q(SELECT count(*) FROM snowflake_check() WHERE status <> 'ok' AND name <> 'time_sync')) ne '0';
}
wait_drawn($churn, 100);
stop_draw($churn);
with_settings($node, 'snowflake.reserve_window' => '3s');
is($bad, 0, 'beside a table that comes and goes');
is($session->{stderr}, '', 'without an error');
sql('DROP TABLE IF EXISTS gone');

# an index that is broken, of one of two tables
sql('INSERT INTO t DEFAULT VALUES; CREATE TABLE u (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); CHECKPOINT');
my $file = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('t_pkey')");
$session->quit;
$node->stop;
open my $fh, '+<', $file or die "$file: $!";
print $fh "\0" x 8192;
close $fh or die "$file: $!";
start_node($node);
like(check($node, 'tables'), qr/^error\|public\.t\.id cannot be looked at: index "t_pkey" [^\n]*\nok\|/, 'a broken index');
sql('REINDEX TABLE t');
like(check($node, 'tables'), qr/^ok\|/, 'mended');
sql('TRUNCATE t');

#
# A standby
#
sql(<<'SQL');
CREATE UNLOGGED TABLE unlogged (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO u SELECT snowflake_compose('2080-01-01+00', 1, 0, 0) UNION ALL SELECT snowflake_compose('2021-01-01+00', 9, 0, 0);
SQL
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);

# What would be if it was promoted now, as 022_standby.pl does it.  This server
# has the right time, which is a day behind that of its primary.
my $replayed = qr/This is a standby, which draws no IDs\. The durable mark that it has received and replayed is \S+ \S+, which is \d+ ms/;
foreach my $clock ('monotonic', 'system')
{
	my $shown = $clock eq 'system' ? 'clock' : 'monotonic clock';
	my $restart = $clock eq 'system' ? '' : ' and restart the server';
	my $day_ms = qr/86[34]\d{5}/;
	my $repeats = ', and might then repeat the last IDs of its primary, if it has not received them';

	$standby->append_conf('postgresql.conf', "snowflake.clock = $clock");
	$standby->start;
	wait_for(sub { sql('SELECT snowflake_nextval(), pg_switch_wal()'); return check($standby, 'clock') =~ /^warning/ });
	like(check($standby, 'clock'),
		qr/^warning\|The $shown shows \S+ \S+\. It was $day_ms ms behind the clock of the server that sends WAL, by its last message, at \S+ \S+\. After a promotion this server would draw no ID until its clock has caught up$repeats\. Set the server's clock$restart\.$/,
		"$clock: a clock that is behind the primary's");
	says($standby, 'mark',
		qr/^warning\|$replayed ahead of the clock\. After a promotion this server would draw no ID for $day_ms ms, until its clock plus "snowflake\.max_drift" has reached the mark$repeats\. If the clock is wrong, set it$restart\.$/,
		"$clock: and so behind the mark");
	is($standby->safe_psql('Other', q(SELECT string_agg(name, ' ') FROM snowflake_check() WHERE status <> 'ok' AND name !~ 'time_sync|tables')),
		'clock mark', "$clock: in a database that does not have the mark");
	is($standby->safe_psql('Other', q(SELECT status FROM snowflake_check() WHERE name = 'mark')), 'unknown', "$clock: where that is not known");
	$standby->stop;
}

# With its primary's time.  (PostgreSQL 15 may start the WAL receiver within a
# call of libfaketime, which then shows it the real time.)
set_clock($standby, $day);
start_node($standby);
is( $standby->safe_psql('postgres', q(SELECT string_agg(name || ' ' || status, ', ') FROM snowflake_check() WHERE name !~ 'time_sync|tables|^clock')),
	join(', ', map { "$_ ok" } grep { !/time_sync|tables|^clock/ } @checks), 'a standby is well');
says($standby, 'mark', qr/^ok\|$replayed (?:ahead of|behind) the clock\.$/, 'and its mark');
is(check($standby, 'worker'), 'ok|This is a standby: its background workers start when it is promoted.', 'without a worker');
my $tables = check($standby, 'tables');
like($tables, qr/^warning\|public\.u\.id has IDs of the future, such as \d+ of node 1, of 2080-01-01 00:00:00\+00; the clock shows [^\n]*\nok\|/,
	'it looks at the time of IDs, and not at whose they are');
like($tables, qr/Not looked at: public\.unlogged\.id \(not there on a standby\)\.$/, 'and not at unlogged tables');
$standby->stop;
sql('DROP TABLE t, u, unlogged');

#
# Something of another extension of this name
#
my $nothing = 'ok|Nothing of another extension named snowflake is found.';
is(check($node, 'other_extension'), $nothing, 'no other extension');
{
	# in a server tree of its own, as other tests look at the installed one
	my $tree = install_tree();
	my $other = tree_node('tree', $tree);

	$other->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.node_id = 1\n");
	$other->start;
	$other->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	is(check($other, 'other_extension'), $nothing, 'nor in another server tree');
	put_file("$tree->{extdir}/snowflake--2.4.sql", '');
	is(check($other, 'other_extension'),
		'warning|There are scripts of an extension of the same name, or of other versions of this one: 2.4. ALTER EXTENSION snowflake UPDATE may run them. Remove the other package, and install this one again.',
		'its scripts');
	$other->stop;
}

# settings can be left by a server without the library
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
start_node($node);
sql('ALTER DATABASE postgres SET snowflake.node = 3; ALTER ROLE "Some" IN DATABASE "Other" SET snowflake.node = 3; ALTER ROLE "Some" SET snowflake.node = 3; ALTER ROLE ALL SET snowflake.node = 3');
is( $node->safe_psql('Other', q(SELECT string_agg(name || ' ' || status, ', ') FROM snowflake_check() WHERE status = 'error')),
	'preload error, worker error, mark error', 'without preload');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'snowflake'");
restart_with_conf($node, "snowflake.node = 3\n");
my $said = check($node, 'other_extension', 'Other');
like($said, qr/^(?:warning\|pgEdge's setting "snowflake\.node" is set for [^\n]*, and is not read\. [^\n]*\n){4}warning\|pgEdge's setting "snowflake\.node" is in \S+\/test\.conf, line 1, and is not read\. Remove it there\. The server's number is "snowflake\.node_id"\.$/,
	'its setting');
is(join("\n", $said =~ /is set for (.*), and/g), qq(database "Other", role "Some"\ndatabase postgres\nrole "Some"\nall roles),
	'for whom');
is($node->safe_psql('Other', q(SET ROLE "Some"; SELECT count(*) FROM snowflake_check() WHERE name = 'other_extension')),
	'4', 'a role that may not see the files');
sql('ALTER DATABASE postgres RESET snowflake.node; ALTER ROLE "Some" IN DATABASE "Other" RESET snowflake.node; ALTER ROLE "Some" RESET snowflake.node; ALTER ROLE ALL RESET snowflake.node');
restart_with_conf($node, '');
is(check($node, 'other_extension'), $nothing, 'all gone');
$node->stop;

#
# What the kernel says of the clock
#
$file = $node->basedir . '/adjtimex';
my $kernel_says = sub {
	my ($result, $status) = @_;
	unlink $file;
	append_to_file($file, "$result $status");
};

$kernel_says->(0, 0);
{
	local %ENV = (
		%ENV,
		LD_PRELOAD => compile($node, 'adjtimex.c', qw(-shared -fPIC)),
		ADJTIMEX_FILE => $file);
	$node->start;
}

# TIME_INS 1, TIME_DEL 2, TIME_OOP 3, TIME_WAIT 4, TIME_ERROR 5; STA_UNSYNC 64
my $synchronised = 'ok|The kernel says that the clock is synchronised.';
my $unsynchronised = 'warning|The kernel says that the clock is not synchronised. Start chronyd, ntpd or systemd-timesyncd.';
my $leap = "$synchronised A leap second comes at the end of the day, in UTC. IDs do not wait for it.";
foreach my $case (
	[ 0, 0, $synchronised ],
	[ 5, 64, $unsynchronised ],
	[ 0, 64, $unsynchronised ],
	[ 5, 0, $unsynchronised ],
	[ 1, 16, $leap ],
	[ 3, 0, $leap ],
	[ 2, 32, $synchronised ],
	[ 4, 0, $synchronised ],
	[ -1, 0, 'ok|The kernel does not tell whether the clock is synchronised: Operation not permitted.' ])
{
	my ($result, $status, $expected) = @$case;
	$kernel_says->($result, $status);
	is(check($node, 'time_sync'), $expected, "adjtimex() returns $result, status $status");
}
with_settings($node, 'snowflake.max_drift' => '100ms');
$kernel_says->(1, 16);
is( check($node, 'time_sync'),
	'warning|A leap second comes at the end of the day, in UTC: the clock goes back by a second, and "snowflake.max_drift" allows 100 ms. Set it to 1s, or let the time server smear the leap second.',
	'a leap second that is longer than max_drift');

#
# To be cancelled is the one thing that ends it.  (Without libfaketime, which a
# signal handler must not call.)
#
my $many = join ' ', map { "CREATE TABLE many_$_ (id bigint PRIMARY KEY DEFAULT snowflake_nextval());" } 1 .. 200;
sql($many);
my $sqlstate = '';
for (1 .. 20)
{
	my (undef, undef, $stderr) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSET statement_timeout = '1ms'; SELECT * FROM snowflake_check()");
	$sqlstate = psql_error($stderr)->{sqlstate};
	last if $sqlstate ne '';
}
is($sqlstate, '57014', 'statement_timeout ends it');
like(check($node, 'tables'), qr/by default: 200\./, 'which does without');
sql("DO \$\$ BEGIN FOR i IN 1 .. 200 LOOP EXECUTE 'DROP TABLE many_' || i; END LOOP; END \$\$");
$node->stop;

done_testing();
