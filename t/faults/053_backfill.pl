# snowflake_backfill(): unique over backends, databases, parallel workers,
# crashes, promotion, dump and restore, and loads of the same period again;
# where a time unit has no ID left, an error.  Millions of rows, in time order
# and in random order.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use SnowflakeTest;

my $conf = <<'CONF';
snowflake.layout = 'time:41 node:5 worker:2 sequence:10'
snowflake.sequence_start = zero
snowflake.max_wait = 60s
max_connections = 60
restart_after_crash = on
shared_buffers = 64MB
autovacuum = off
log_statement = none
CONF
my $stretch = 2**22 / 1000;    # seconds

# A query that draws so many IDs at random times of a period.
sub load
{
	my ($count, $from, $seconds) = @_;

	return "SELECT snowflake_backfill(timestamptz '$from' + random() * interval '$seconds s') FROM generate_series(1, $count)";
}

# The most that any time unit of a stretch has used, durably; of that of a time.
sub used
{
	my ($node, $ts) = @_;

	return $node->safe_psql('postgres', <<SQL);
SELECT used FROM snowflake_home.backfill
WHERE stretch = (lower(id_range_for(timestamptz '$ts')) >> 17) >> 22
SQL
}

sub error_of
{
	my ($node, $sql, $dbname) = @_;
	my (undef, undef, $stderr) =
	  $node->psql($dbname // 'postgres', "\\set VERBOSITY verbose\n$sql;");

	return psql_error($stderr);
}

my $node = snowflake_node('backfill', $conf, allows_streaming => 1);
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION snowflake');

#
# Many backends of two databases load the same seconds, while the server is
# hit.  Whatever a client got counts, committed or not.  Some load what is now,
# beside those who draw as time goes by.
#
my $ledger = new_ledger();
my $faults = 0;
foreach my $fault (
	'none',
	'kill -9 of a backend',
	'the worker ends',
	'fast',
	'immediate',
	'kill -9 of the postmaster',
	'kill -9 of a backend', 'immediate')
{
	my @draws = (
		start_draw($node, sql => load(50, '2024-05-01 00:00+00', 30), delay => 10),
		start_draw($node, sql => load(50, '2024-05-01 00:00+00', 30), dbname => 'other', delay => 10),
		start_draw($node, sql => 'SELECT snowflake_backfill(clock_timestamp())', sessions => 4, delay => 1),
		start_draw($node, sessions => 4, delay => 1));

	wait_drawn($_, 2000) foreach @draws;
	if ($fault eq 'kill -9 of a backend')
	{
		kill 'KILL', busy_backend($node);
	}
	elsif ($fault eq 'the worker ends')
	{
		my $pid = services_pid($node);
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		services_pid($node, $pid);
	}
	elsif ($fault eq 'kill -9 of the postmaster')
	{
		kill9_postmaster($node, all => 1);
		start_node($node);
	}
	elsif ($fault ne 'none')
	{
		$node->stop($fault);
		start_node($node);
	}
	$faults++ if $fault ne 'none';
	wait_drawn($_, 2000) foreach @draws;
	stop_draw($_) foreach @draws;
	is(join(' ', sort grep { !/^(57P0[123]|08...)$/ } map { split / /, sqlstates($_) } @draws),
		'', "$fault: no errors but of the fault itself");
	$ledger->add($_) foreach @draws;
}
is($ledger->duplicates, 0, 'many backends, two databases, hit again and again: no ID came twice');
note $ledger->count . " IDs drawn, $faults faults survived, " . $ledger->duplicates . ' duplicates';
cmp_ok(used($node, '2024-05-01 00:00+00'), '<', 1024,
	'restarts do not use up a time unit');

# parallel workers
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE source AS SELECT timestamptz '2024-06-01+00' + random() * interval '1 s' AS ts FROM generate_series(1, 100000);
ALTER TABLE source SET (parallel_workers = 2);
ANALYZE source;
SQL
my $parallel = <<'SQL';
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;
SQL
like($node->safe_psql('postgres', "$parallel EXPLAIN (COSTS OFF) SELECT snowflake_backfill(ts) FROM source"),
	qr/Gather.*Workers Planned: 2/s, 'it runs in parallel workers');
is( $node->safe_psql('postgres', <<SQL),
$parallel
CREATE TABLE loaded AS SELECT ts, snowflake_backfill(ts) AS id FROM source;
SELECT count(DISTINCT id), bool_and(ts <\@ tstzrange(snowflake_timestamp(id), snowflake_timestamp(id) + '1 ms')) FROM loaded;
SQL
	'100000|t', 'which draw unique IDs of the right time');

#
# One millisecond: eight backends take all there is, at once.
#
$node->safe_psql('postgres', 'CREATE TABLE filled (id bigint PRIMARY KEY)');
my @psqls = map { start_sql($node, "INSERT INTO filled SELECT snowflake_backfill('2022-01-01+00') FROM generate_series(1, 128);") } 1 .. 8;
is(join('', map { finish_sql($_) } @psqls), '', 'eight backends fill a millisecond');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT (snowflake_parse(id)).sequence) FROM filled'),
	'1024|1024', 'with all the IDs that it has');
is(error_of($node, "SELECT snowflake_backfill('2022-01-01+00')")->{sqlstate}, '2200H', 'then it is an error');
$node->safe_psql('postgres', "INSERT INTO filled SELECT snowflake_backfill('2022-01-01 00:00:00.001+00') FROM generate_series(1, 512)");

# after a restart all of the stretch is counted as that full; not the next one
$node->restart;
my $error = error_of($node, "SELECT snowflake_backfill('2022-01-01 00:00:00.001+00')");
is($error->{sqlstate}, '2200H', 'after a restart in the milliseconds beside it, too');
is($error->{message}, 'no snowflake ID is left to backfill the time unit that begins at 2022-01-01 00:00:00.001+00', 'which says so');
like($error->{detail}, qr/has 1024 IDs to backfill\. After a restart .* a stretch of 4194304 to be as full/, 'and why');
is($node->safe_psql('postgres', "SELECT snowflake_backfill(timestamptz '2022-01-01+00' + interval '$stretch s') > 0"), 't', 'the next stretch is free');

# more stretches at once than requests fit into shared memory
@psqls = map { start_sql($node, "INSERT INTO filled SELECT snowflake_backfill(timestamptz '2023-01-01+00' + $_ * g * interval '$stretch s') FROM generate_series(1, 40) g;") } 1 .. 30;
is(join('', map { finish_sql($_) } @psqls), '', '30 backends ask for a stretch each, 40 times');
is($node->safe_psql('postgres', 'SELECT count(*) FROM filled'), 1024 + 512 + 30 * 40, 'and get it');

#
# The same period again, with a restart each time, until it is an error.
#
$node->safe_psql('postgres', 'CREATE TABLE again (id bigint PRIMARY KEY)');
# (at random, so that the fullest millisecond has no more than about this)
my ($rows, $fullest) = (5000, 16);
my $loads = 0;
my $now = 0;
while ($loads < 1100)
{
	my $insert = 'INSERT INTO again ' . load($rows, '2021-05-01 00:00+00', 2);
	$error = error_of($node, $insert);
	last if $error->{sqlstate} ne '';
	$loads++;
	my $before = $now;
	$now = used($node, '2021-05-01 00:00+00');
	die "it is $now after $before\n" if $now <= $before;
	$node->stop('immediate');
	$node->start;
}
is($error->{sqlstate}, '2200H', "loaded $loads times with a restart between: then an error");
cmp_ok($loads, '>=', 1024 / (2 * $fullest), 'each has cost twice what its fullest millisecond had, at most');
is($node->safe_psql('postgres', 'SELECT count(*) FROM again'), $rows * $loads, 'all that was loaded is there');

#
# The worker cannot: what is there goes on, all else waits, and can be ended.
#
my $blocker = session($node);
$node->safe_psql('postgres', "SELECT snowflake_backfill('2020-02-01+00') FROM generate_series(1, 3)");
my $restore = "INSERT INTO snowflake_catalog.dumped_mark (mark, backfilled) VALUES ('2020-01-02+00', %s)";
$node->safe_psql('postgres', sprintf $restore, 'NULL');
$blocker->query_safe('BEGIN; LOCK TABLE snowflake_home.backfill');
is($node->safe_psql('postgres', "SELECT snowflake_backfill('2020-02-01 00:00:01+00') > 0"), 't', 'the worker waits: other milliseconds go on');
my $waiter = start_sql($node, "SELECT snowflake_backfill('2020-03-01+00') > 0");
$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE backend_type = 'snowflake services'")
  or die "the worker waits for no lock\n";
# (it looks around now and then)
wait_for(sub {
	$error = error_of($node, "SET snowflake.max_wait = '200ms'; SELECT snowflake_backfill('2020-03-01+00')");
	return $error->{detail} =~ /waits for|lock timeout/;
});
is($error->{sqlstate}, '55P03', 'who needs more waits for max_wait');
is($error->{message}, 'cannot backfill a snowflake ID: its sequence number could not be made durable', 'and gets an error');
like($error->{detail}, qr/(?:PID \d+, (?:is at work on it in database "postgres"|has not reacted for \d+ s) and waits for Lock:relation|failed in database "postgres": canceling statement due to lock timeout)\. Waited for "snowflake.max_wait", 200 ms\./, 'that says what is waited for');
is(error_of($node, "SET statement_timeout = '100ms'; SELECT snowflake_backfill('2020-03-01+00')")->{sqlstate}, '57014', 'or is cancelled');
my $restorer = start_sql($node, "SET application_name = 'restorer'; " . sprintf "$restore;", 77);
my $watcher = session($node);
$watcher->query_safe(<<'SQL');    # when the worker has seen what it asks for
DO $$
BEGIN
	LOOP
		PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01);
		EXIT WHEN EXISTS (SELECT FROM pg_stat_activity r JOIN pg_stat_activity w ON w.xact_start > r.query_start
			WHERE r.application_name = 'restorer' AND r.wait_event_type = 'Extension'
			AND w.backend_type = 'snowflake services' AND w.wait_event_type = 'Lock');
	END LOOP;
	PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'restorer';
END $$
SQL
$watcher->quit;
is(psql_error((finish_sql($restorer))[1])->{sqlstate}, '57014', 'so is the restoring of a dump');
$blocker->query_safe('ROLLBACK');
$blocker->quit;
is(join('', finish_sql($waiter)), 't', 'the lock is gone: who waited gets his');
is($node->safe_psql('postgres', "SELECT snowflake_backfill('2020-03-01+00') > 0"), 't', 'and it goes on');
is($node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_home.backfill WHERE stretch = -1'), '0', 'and what was cancelled is not done');

# the worker fails
$node->safe_psql('postgres', 'ALTER TABLE snowflake_home.backfill ADD CONSTRAINT full_disk CHECK (stretch < 0) NOT VALID');
wait_for(
	sub {
		# which it tries again each second
		$error = error_of($node, "SET snowflake.max_wait = '1500ms'; SELECT snowflake_backfill('2020-04-01+00')");
		return $error->{detail} =~ /worker failed/;
	});
is($error->{sqlstate}, '55000', 'the worker fails: an error');
like($error->{detail}, qr/violates check constraint "full_disk"/, 'with its reason');
$node->safe_psql('postgres', 'ALTER TABLE snowflake_home.backfill DROP CONSTRAINT full_disk');
is($node->safe_psql('postgres', "SELECT snowflake_backfill('2020-04-01+00') > 0"), 't', 'mended: it goes on');

# the numbers are nobody else's
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN; CREATE DATABASE mine OWNER app');
is(error_of($node, 'SET ROLE app; DELETE FROM snowflake_home.backfill')->{sqlstate}, '42501', 'the numbers cannot be changed by anyone');

#
# A synchronous standby is promoted while a period is being loaded
#
$node->safe_psql('postgres', 'CREATE TABLE rows (id bigint PRIMARY KEY)');
$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$standby->start;
$node->wait_for_catchup($standby);
is(error_of($standby, "SELECT snowflake_backfill('2024-05-01+00')")->{sqlstate}, '25006', 'on a standby: an error');
$node->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
reload_node($node);
$node->safe_psql('postgres', 'CHECKPOINT');    # whose process tells the others
$node->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication")
  or die 'not synchronous';
my $promoted = new_ledger();
{
	my @draws = (
		start_draw($node, sql => load(20, '2024-07-01 00:00+00', 1)),
		start_draw($node, sql => 'INSERT INTO rows ' . load(20, '2024-07-01 00:00+00', 1) . ' RETURNING id'));

	wait_drawn($_, 3000) foreach @draws;
	$node->stop('immediate');
	$standby->promote;
	$promoted->add($_) foreach @draws;
	@draws = (
		start_draw($standby, sql => load(20, '2024-07-01 00:00+00', 1)),
		start_draw($standby, sql => 'INSERT INTO rows ' . load(20, '2024-07-01 00:00+00', 1) . ' RETURNING id'));
	wait_drawn($_, 3000) foreach @draws;
	is(join('', map { sqlstates($_) } @draws), '', 'promoted: the same second goes on being loaded');
	$promoted->add($_) foreach @draws;
}
is($promoted->duplicates, 0, 'no ID of the primary came again');
note $promoted->count . ' IDs drawn, 1 fault survived, ' . $promoted->duplicates . ' duplicates';
$node = $standby;

#
# A dump takes along what a time unit has used, from any database, to a server
# of the same number that knows nothing.
#
sub restored
{
	my ($node, $file, $user, $dbname) = @_;

	my $result = run_log(
		[
			$node->installed_command('psql'), '-XAtq', '-U', $user,
			'-v', 'VERBOSITY=verbose', '-d', $node->connstr($dbname), '-f', $file
		],
		'>', '/dev/null', '2>', "$file.err");
	return psql_error(slurp_file("$file.err"));
}

my $dir = PostgreSQL::Test::Utils::tempdir('dumps');
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');
$node->safe_psql('other', 'CREATE TABLE rows (id bigint PRIMARY KEY)');
my $same = 'INSERT INTO rows ' . load(2000, '2024-08-01 00:00+00', 0.2);
$node->safe_psql('other', $same);
foreach my $dbname ('other', 'postgres')
{
	command_ok([ 'pg_dump', '--no-owner', '-t', 'rows', '-e', 'snowflake', '-f', "$dir/$dbname.sql", $node->connstr($dbname) ],
		"dump of database $dbname");
}
my $backfilled = $node->safe_psql('postgres', 'SELECT max(used) FROM snowflake_home.backfill');
$node->stop;

my $new = snowflake_node('new', $conf, force_initdb => 1);
$new->safe_psql('postgres', "DROP EXTENSION snowflake; CREATE ROLE app LOGIN; CREATE DATABASE mine OWNER app; CREATE DATABASE other");
is(restored($new, "$dir/other.sql", $superuser, 'other')->{sqlstate}, '', 'restored');
is($new->safe_psql('postgres', 'SELECT stretch, used FROM snowflake_home.backfill'), "-1|$backfilled", 'a new server knows what was used');
is(error_of($new, $same, 'other')->{sqlstate}, $backfilled == 1024 ? '2200H' : '', 'so that an ID of the dump is not drawn again');
is(error_of($new, 'INSERT INTO rows ' . load(1, '2021-08-01+00', 1), 'other')->{sqlstate}, $backfilled == 1024 ? '2200H' : '', 'whatever the time');
$error = restored($new, "$dir/postgres.sql", 'app', 'mine');
is("$error->{sqlstate} $error->{message}", '42501 permission denied to use up sequence numbers for backfilling', 'who is no superuser cannot restore that');
like($error->{hint}, qr/as a superuser/, 'and is told so');
$new->stop;

#
# What is committed here alone is not durable with a synchronous standby, also if
# it was there before.
#
{
	my $alone = snowflake_node('alone', $conf, allows_streaming => 1, force_initdb => 1);
	$alone->safe_psql('postgres', sprintf $restore, 'NULL');
	$alone->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	$alone->reload;
	$alone->safe_psql('postgres', 'CHECKPOINT');
	my $pid = services_pid($alone);
	my $restorer = start_sql($alone, 'SET synchronous_commit = local; ' . sprintf "$restore;", 5);
	foreach my $services ('the services wait', 'so do the next ones')
	{
		ok($alone->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'SyncRep'"), "without a standby: $services");
		$alone->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$pid = services_pid($alone, $pid);
	}
	is($alone->safe_psql('postgres', 'SELECT used FROM snowflake_home.backfill'), '5', 'though it is there');
	$alone->append_conf('postgresql.conf', "synchronous_standby_names = ''");
	$alone->reload;
	is((finish_sql($restorer))[1], '', 'nobody is waited for: it is restored');
	$alone->stop;
}

#
# The same with a dump that leaves some, and tables that are in use
#
{
	my $source = snowflake_node('source', $conf, force_initdb => 1);
	my $target = snowflake_node('target', $conf, force_initdb => 1);
	foreach my $server ($source, $target)
	{
		$server->safe_psql('postgres', 'CREATE TABLE rows (id bigint PRIMARY KEY)');
		$server->safe_psql('postgres', $same) foreach 1 .. 3;
	}
	command_ok([ 'pg_dump', '--no-owner', '-t', 'rows', '-e', 'snowflake', '-f', "$dir/source.sql", $source->connstr('postgres') ], 'dump');
	my $used = $source->safe_psql('postgres', 'SELECT max(used) FROM snowflake_home.backfill');
	$target->safe_psql('postgres', 'ALTER TABLE rows RENAME TO own; ALTER INDEX rows_pkey RENAME TO own_pkey; DROP EXTENSION snowflake');
	is(restored($target, "$dir/source.sql", $superuser, 'postgres')->{sqlstate}, '', 'restored beside what was backfilled there');
	$target->safe_psql('postgres', $same) foreach 1 .. 3;
	is($target->safe_psql('postgres', 'SELECT count(*) FROM rows'), 12_000, 'the same second again: nothing comes twice');
	cmp_ok($target->safe_psql('postgres', 'SELECT min((snowflake_parse(id)).ts) > \'2024-01-01\' FROM rows'), 'eq', 't', 'at its time');
	cmp_ok($used, '<', 1024, 'with some left');
	$_->stop foreach $source, $target;
}

#
# The numbers are lost with their table, which the server notices
#
{
	my $server = snowflake_node('lost', $conf);

	$server->safe_psql('postgres', 'CREATE DATABASE home; CREATE TABLE rows (id bigint PRIMARY KEY)');
	$server->safe_psql('postgres', $same);
	my $used = $server->safe_psql('postgres', 'SELECT max(used) FROM snowflake_home.backfill');

	# in another home database
	$server->append_conf('postgresql.conf', "snowflake.database = 'home'");
	forget_mark($server);
	$server->restart;
	$server->safe_psql('postgres', $same);
	is($server->safe_psql('home', 'SELECT used FROM snowflake_home.backfill WHERE stretch = -1'), $used,
		'another home database begins above what was used');

	# in a home database that was one before
	await_pointer($server);
	my $more = $server->safe_psql('home', 'SELECT max(used) FROM snowflake_home.backfill');
	$server->safe_psql('home', 'ALTER DATABASE home RESET snowflake.recorded');
	$server->append_conf('postgresql.conf', "shared_preload_libraries = ''");
	$server->restart;
	$server->safe_psql('home', 'DROP EXTENSION snowflake_home');
	$server->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
	$server->restart;
	$server->safe_psql('postgres', $same);
	is($server->safe_psql('home', 'SELECT used FROM snowflake_home.backfill WHERE stretch = -1'), $more,
		'so does one whose extension was dropped');
	is($server->safe_psql('postgres', 'SELECT count(*) FROM rows'), 6000, 'nothing came twice');
	$server->stop;
}

#
# Other layouts
#
my $layouts = 0;
foreach my $case (
	[ 'time:41 node:5 worker:1 sequence:12', 4096 ],
	[ 'time:41 node:5 worker:5', 1 ],
	[ 'node:5 worker:5 time:41 sequence:6', 64 ],
	[ 'time:39@10ms sequence:4 worker:4 node:8', 16 ],
	[ 'time:30@1s node:2 worker:22 sequence:3', 8 ])
{
	my ($layout, $capacity) = @$case;
	my $server = snowflake_node('layout' . ++$layouts, "$conf\nsnowflake.layout = '$layout'\n");

	$server->safe_psql('postgres', "CREATE TABLE rows (id bigint PRIMARY KEY)");
	is(error_of($server, "INSERT INTO rows SELECT snowflake_backfill('2023-01-01+00') FROM generate_series(1, $capacity)")->{sqlstate},
		'', "$layout: $capacity in a time unit");
	is(error_of($server, "INSERT INTO rows SELECT snowflake_backfill('2023-01-01+00')")->{sqlstate}, '2200H', 'and no more');
	$server->safe_psql('postgres', "INSERT INTO rows SELECT snowflake_backfill(timestamptz '2023-01-02+00' + g * interval '1 s') FROM generate_series(1, 1000) g");
	is($server->safe_psql('postgres', "SELECT count(*), count(DISTINCT worker), min(worker) = (SELECT backfill_worker FROM snowflake_layout()), count(*) FILTER (WHERE ts >= '2023-01-02 00:00:01+00' AND ts <= '2023-01-02 00:16:40+00') FROM rows, snowflake_parse(id)"),
		$capacity + 1000 . '|1|t|1000', 'unique, at their times, from one worker number');
	$server->stop;
}
{
	my $server = snowflake_node('none', "$conf\nsnowflake.layout = 'time:41 node:10 sequence:12'\n");

	$error = error_of($server, "SELECT snowflake_backfill('2023-01-01+00')");
	is("$error->{sqlstate} $error->{message}", '0A000 cannot backfill snowflake IDs with this layout', 'no worker field: an error');
	like($error->{hint}, qr/^Build the IDs with snowflake_id\(\)\.$/, 'and what to do');
	is($server->safe_psql('postgres', 'SELECT backfill_worker IS NULL FROM snowflake_layout()'), 't', 'which snowflake_layout() shows');

	# node first: no room that is all the caller's
	$server->append_conf('postgresql.conf', "snowflake.layout = 'node:10 time:41 sequence:12'");
	forget_mark($server);
	$server->restart;
	is(error_of($server, "SELECT snowflake_id('2023-01-01+00', 1)")->{sqlstate}, '55000', 'snowflake_id() needs the time on top');
	$server->stop;
}

#
# Whatever the services do one after the other, they keep no memory of it.
#
{
	my $server = snowflake_node('memory', 'max_connections = 40');
	my @files = map { PostgreSQL::Test::Utils::tempdir_short() . "/$_.sql" } qw(backfill tag);

	append_to_file($files[0], <<'SQL');
\set stretch random(0, 40000)
SELECT snowflake_backfill(timestamptz '2020-02-01+00' + :stretch * interval '4195 s');
SQL
	append_to_file($files[1], <<'SQL');
SELECT snowflake_segment_create('tag' || :client_id);
SELECT snowflake_segment_drop('tag' || :client_id);
SQL
	my $used_after = sub {
		my $from = -s $server->logfile;

		$server->command_ok([ $server->installed_command('pgbench'), '-n', '-c', 12, '-t', $_[0], map { ('-f', $_) } @files ], 'backfilling and tags')
		  if $_[0] > 0;
		$server->safe_psql('postgres', 'SELECT pg_log_backend_memory_contexts(' . services_pid($server) . ')');
		return wait_for(sub { (slurp_file($server->logfile, $from) =~ /TopMemoryContext: .*; (\d+) used$/m)[0] });
	};
	$used_after->(5);
	my $before = $used_after->(0);
	cmp_ok($used_after->(50), '<', $before + 20_000, 'the services keep no memory of what they did');
	$server->stop;
}

#
# Millions of rows, with the layout that it comes with.  In random order, each
# millisecond of 40 minutes about twice, more of them than shared memory has
# room for.
#
{
	my $server = snowflake_node('history', "max_wal_size = 4GB\nwork_mem = 128MB\nmaintenance_work_mem = 512MB\nshared_buffers = 256MB\nautovacuum = off\nsnowflake.max_wait = 60s\n");

	my $rows = 0;

	foreach my $case (
		[ 'in time order, over three years', "timestamptz '2021-01-01+00' + g * interval '94.6 s'", 1_000_000 ],
		[ 'in random order, over three years', "timestamptz '2021-01-01+00' + random() * interval '3 years'", 2_500_000 ],
		[ 'in random order, over 40 minutes', "timestamptz '2024-01-01+00' + random() * interval '40 min'", 4_500_000 ])
	{
		my ($how, $ts, $count) = @$case;
		my $begin = time;

		$server->safe_psql('postgres', <<SQL);
CREATE UNLOGGED TABLE IF NOT EXISTS history (id bigint);
INSERT INTO history SELECT snowflake_backfill($ts) FROM generate_series(1, $count) g;
SQL
		$rows += $count;
		note sprintf '%d rows %s: %.1f s', $count, $how, time - $begin;
	}
	is($server->safe_psql('postgres', <<'SQL'), $rows, "$rows rows: no ID twice");
SET max_parallel_maintenance_workers = 0;
CREATE UNIQUE INDEX ON history (id);
SELECT count(*) FROM history;
SQL
	note $server->safe_psql('postgres', "SELECT count(*) || ' stretches, of which the fullest has used ' || max(used) || ' of 4096' FROM snowflake_home.backfill");
	$server->stop;
}

done_testing();
