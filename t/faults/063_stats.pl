# pg_stat_snowflake under load and trouble: counts are exact, whatever happens
# to the backends; waits are seen, by what for; the log says what is wrong, and
# not too often.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my ($node, $version);

sub new_node
{
	my ($name) = @_;

	$node = snowflake_node($name, <<'CONF', clock => 0, allows_streaming => 1);
max_connections = 100
max_worker_processes = 20
max_parallel_workers = 8
snowflake.max_drift = 200ms
CONF
	$version = $node->safe_psql('postgres', 'SHOW server_version_num');
	return;
}

sub stat_of
{
	my ($columns) = @_;

	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_snowflake");
}

sub slots_sum
{
	return $node->safe_psql('postgres',
		'SELECT sum(issued) FROM pg_stat_snowflake_slots');
}

# Those of the log, from a place on, that match.
sub log_lines
{
	my ($from, $pattern) = @_;

	return grep { /$pattern/ } split /\n/, slurp_file($node->logfile, $from);
}

sub log_size { return -s $node->logfile; }

# The wait event of a session that draws.
sub waits_for
{
	my ($event, $name) = @_;
	my $expected = $version >= 170000 ? $event : 'Extension';

	ok($node->poll_query_until('postgres',
			"SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event = '$expected' AND query LIKE '%snowflake_nextval(%' AND pid <> pg_backend_pid()"),
		"$name: pg_stat_activity shows it as $expected");
	return;
}

sub test_counts
{
	new_node('stats');

	#
	# Exact
	#
	{
		my $file = $node->basedir . '/draw.sql';

		append_to_file($file, <<'SQL');
SELECT count(snowflake_nextval()) FROM generate_series(1, 60);
SELECT count(*) FROM snowflake_nextval(40);
SQL
		my $load = IPC::Run::start(
			[
				$node->installed_command('pgbench'), '-n', '-c', 64, '-j', 2,
				'-t', 100, '-f', $file,
				'-h', $node->host, '-p', $node->port, 'postgres'
			],
			'<', '/dev/null', '>', '/dev/null', '2>&1');
		my ($last, $looks, $back) = (0, 0, 0);

		while ($last < 640_000 && $looks < 100_000)
		{
			my $issued = stat_of('issued');

			$back++ if $issued < $last;
			$last = $issued;
			$looks++;
		}
		$load->finish;
		is($back, 0, "64 backends: the count never goes back ($looks looks)");
		is(stat_of('issued'), 640_000, 'and is that of the IDs drawn');
		ok($node->poll_query_until('postgres', 'SELECT backends = 0 FROM pg_stat_snowflake'),
			'all have ended');
		is(slots_sum(), 640_000, 'so is the sum of the slots');
	}

	{
		$node->safe_psql('postgres', <<'SQL');
CREATE TABLE rows AS SELECT n FROM generate_series(1, 100000) AS n;
ALTER TABLE rows SET (parallel_workers = 4);
ANALYZE rows;
SQL
		my $settings = <<'SQL';
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 4;
SQL

		like($node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE) SELECT count(snowflake_nextval()) FROM rows"),
			qr/Workers Launched: [1-4]/, 'parallel workers draw');
		is(stat_of('issued'), 740_000, 'and are counted');
		is(slots_sum(), 740_000, 'in the slots too');
	}

	# backends that die
	{
		$node->poll_query_until('postgres', 'SELECT backends = 0 FROM pg_stat_snowflake')
		  or die "those that drew do not end\n";
		my $session = session($node);
		my $pid = $session->query_safe('SELECT pg_backend_pid()');

		$session->query_safe('SELECT count(*) FROM snowflake_nextval(1000)');
		is(stat_of('backends, slots_used'), '1|1', 'a session has a slot');
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		ok($node->poll_query_until('postgres', 'SELECT backends = 0 FROM pg_stat_snowflake'),
			'it is terminated');
		is(stat_of('issued, slots_used'), '741000|0', 'what it drew stays counted');
		is(slots_sum(), 741_000, 'in the slots too');
		eval { $session->quit };
	}

	# hops: one session draws more than a slot has in a millisecond
	my $hops = stat_of('hops');
	$node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_nextval(300000)');
	cmp_ok(stat_of('hops'), '>', $hops, 'a burst goes on to other slots, which is counted');
	is(slots_sum(), 1_041_000, 'what it drew from the others is theirs');

	# backfilling is counted apart
	$node->safe_psql('postgres', "SELECT snowflake_backfill('2024-05-01') FROM generate_series(1, 50)");
	is(stat_of('issued, backfilled'), '1041000|50', 'backfilled IDs are counted apart');

	#
	# Reset
	#
	my $reset_at = stat_of('stats_reset');
	$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
	is(stat_of("issued, backfilled, hops, waits, wait_time, timeouts, stats_reset > '$reset_at'"),
		'0|0|0|0|0|0|t', 'reset');
	is(slots_sum(), 0, 'in the slots too');
	$node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_nextval(123)');
	is(stat_of('issued'), 123, 'and it counts on');
	is(slots_sum(), 123, 'in the slots too');

	#
	# Who may read what
	#
	$node->safe_psql('postgres', 'CREATE ROLE somebody LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats');
	$node->poll_query_until('postgres', 'SELECT backends = 0 FROM pg_stat_snowflake')
	  or die "those that drew do not end\n";
	my $session = session($node);
	$session->query_safe('SELECT snowflake_nextval()');
	my $sees = q(SELECT s.issued > 0, s.backends, s.mark_writer_pid IS NULL, count(w.pids), sum(w.backends)
	FROM pg_stat_snowflake AS s, pg_stat_snowflake_slots AS w GROUP BY s.issued, s.backends, s.mark_writer_pid);
	is($node->safe_psql('postgres', $sees, extra_params => [ '-U', 'somebody' ]),
		't|1|t|0|1', 'anyone sees counts, and no processes');
	is($node->safe_psql('postgres', $sees, extra_params => [ '-U', 'watcher' ]),
		't|1|f|31|1', 'pg_read_all_stats sees processes');
	is($node->safe_psql('postgres', "SELECT mark_writer_pid = (SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer') FROM pg_stat_snowflake"),
		't', 'the worker is among the activity');
	foreach my $role (qw(somebody watcher))
	{
		my (undef, undef, $stderr) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSELECT pg_stat_snowflake_reset()", extra_params => [ '-U', $role ]);
		is(psql_error($stderr)->{sqlstate}, '42501', "$role may not reset");
	}
	$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_stat_snowflake_reset TO watcher');
	$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()', extra_params => [ '-U', 'watcher' ]);
	is(stat_of('issued'), 0, 'once granted, a role may');

	my $title = slurp_file('/proc/' . stat_of('mark_writer_pid') . '/cmdline');
	like($title, qr/snowflake mark writer idle/, "the worker's title");

	#
	# Waiting for the clock
	#
	# (which waits for the mark where the machine was slow to come here)
	$session->query_safe('SELECT snowflake_nextval()');
	$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
	my $from = log_size();
	set_clock($node, -3600);
	my $psql = start_sql($node, "SET snowflake.max_wait = '20s'; SELECT snowflake_nextval()");
	waits_for('SnowflakeClock', 'the clock set back');
	my (undef, $stderr) = finish_sql($psql);
	is(psql_error($stderr)->{sqlstate}, '55P03', 'the clock set back: an error');
	is(stat_of('clock_waits, clock_wait_time BETWEEN 19900 AND 60000, timeouts, mark_waits, unit_waits, waits'),
		'1|t|1|0|0|1', 'the wait is counted, and its end');
	is(stat_of(q(clock_regressions, clock_regression_max BETWEEN '0:59:59' AND '1:00:01', clock_jumps)),
		'1|t|0', 'so is the step');
	is(stat_of(q(drift BETWEEN '58 min' AND '1 h')), 't', 'IDs are ahead of the clock');
	my ($line) = log_lines($from, qr/set back/);
	like($line // '', qr/LOG:  the server's clock was set back by (3600\d{3}|3599\d{3})\.\d{3} ms$/, 'the log says by how much');
	($line) = log_lines($from, qr/still waits/);
	like($line // '', qr/LOG:  process \d+ still waits for the clock, to draw a snowflake ID, after 1\d{3} ms$/,
		'and that somebody waits');
	set_clock($node, 0);
	$session->query_safe('SELECT snowflake_nextval()');
	is(stat_of(q(clock_jumps, clock_jump_max BETWEEN '0:59:59' AND '1:00:01', drift BETWEEN '-1 ms' AND '1 ms')),
		'1|t|t', 'set right: that step is counted, and IDs are at the time of the clock');
	is(scalar(log_lines($from, qr/LOG:  the server's clock was set forward by 3\d{6}\.\d{3} ms$/)), 1, 'and in the log');

	# less than max_drift: nobody waits
	$node->safe_psql('postgres', "ALTER SYSTEM SET snowflake.max_drift = '1h'");
	reload_node($node);
	$session->query_safe('SELECT snowflake_nextval()');
	$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
	$from = log_size();
	set_clock($node, -1800);
	my $began = time();
	my $drawn_at = $session->query_safe('SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()))');
	my $ended = time();
	is(stat_of('waits, clock_regressions'), '0|1', 'a step of less: IDs go on ahead of the clock');

	# by the server's clock, which is 1800 s behind, and to a millisecond or two
	my $drift = stat_of('extract(epoch FROM drift_max)');
	cmp_ok($drift, '>', $drawn_at - ($ended - 1800) - 0.005, 'and the view says how far: no less');
	cmp_ok($drift, '<', $drawn_at - ($began - 1800) + 0.005, 'no more');
	# smaller ones, often: each is counted, and the log is not filled
	foreach my $n (1 .. 20)
	{
		set_clock($node, -1800 - $n / 200);
		$session->query_safe('SELECT snowflake_nextval()');
	}
	# (two are one where no ID was drawn at another time in between)
	is(stat_of('clock_regressions BETWEEN 11 AND 21'), 't', 'more small steps');
	is(scalar(log_lines($from, qr/set back/)), 1, 'are in the log once');
	set_clock($node, 0);
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET snowflake.max_drift');
	reload_node($node);
	$session->query_safe('SELECT snowflake_nextval()');

	#
	# Waiting for the mark.  The log says so once a minute, of the first who waits
	# since the start.
	#
	$session->quit;
	$node->stop;
	start_node($node);
	$node->poll_query_until('postgres', 'SELECT reserved_until IS NOT NULL FROM pg_stat_snowflake')
	  or die "no mark\n";
	$session = session($node);
	$from = log_size();
	$node->safe_psql('postgres', 'SELECT pg_stat_snowflake_reset()');
	my $worker = stat_of('mark_writer_pid');
	stop_asleep($node, $worker);
	$psql = start_sql($node, "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval(), pg_sleep(0.1) FROM generate_series(1, 60)");
	waits_for('SnowflakeMark', 'no mark');
	ok(wait_for(sub { log_lines($from, qr/still waits/) }), 'no mark for a while: the log says so');
	($line) = log_lines($from, qr/still waits/);
	like($line, qr/LOG:  process \d+ still waits for the durable mark, to draw a snowflake ID, after 1\d{3} ms$/, 'and what for');
	kill 'CONT', $worker;
	(undef, $stderr) = finish_sql($psql);
	is($stderr, '', 'and on it goes');
	is(stat_of('clock_waits, unit_waits, mark_waits BETWEEN 1 AND 3, mark_wait_time > 900, timeouts'), '0|0|t|t|0', 'counted');

	#
	# A crash of a backend: all begins anew
	#
	$reset_at = stat_of('stats_reset');
	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	reload_node($node);
	$session = session($node);
	kill 'KILL', $session->query_safe('SELECT pg_backend_pid()');
	ok(wait_for(sub { (try_sql($node, "SELECT stats_reset > '$reset_at' FROM pg_stat_snowflake") // '') eq 't' }),
		'after a crash: counters begin anew, and say since when');
	is(stat_of('issued, backends'), '0|0', 'at 0');

	#
	# Another node number
	#
	$from = log_size();
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	$node->append_conf('postgresql.conf', 'snowflake.node_id = 2');
	$node->stop;
	start_node($node);
	ok(wait_for(sub { log_lines($from, qr/LOG:  this server has issued snowflake IDs as node 1, and is node 2 from now on$/) }),
		'another node number: the log says so');
	$node->stop;
	$from = log_size();
	start_node($node);
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	is(scalar(log_lines($from, qr/has issued snowflake IDs as node/)), 0, 'once');
	$node->append_conf('postgresql.conf', 'snowflake.node_id = -1');
	$node->stop;
	$from = log_size();
	start_node($node);
	is(scalar(log_lines($from, qr/WARNING:  "snowflake.node_id" is not set$/)), 1, 'none: the log warns');
	is($node->safe_psql('postgres', 'SELECT node IS NULL FROM pg_stat_snowflake'), 't', 'and the view has none');

	#
	# Waiting for a time unit
	#
	$node->append_conf('postgresql.conf', <<'CONF');
snowflake.layout = 'time:41 sequence:1'
snowflake.max_drift = 0
CONF
	forget_mark($node);
	$node->stop;
	start_node($node);
	$psql = start_sql($node, "SET snowflake.max_wait = '1min'; SELECT count(*) FROM snowflake_nextval(20000)");
	waits_for('SnowflakeTimeUnit', 'a small layout');
	(my $stdout, $stderr) = finish_sql($psql);
	is("$stdout$stderr", '20000', 'the IDs come');
	is(stat_of('unit_waits > 100, unit_wait_time > 500, clock_waits, timeouts, hops, issued'), 't|t|0|0|0|20000', 'counted');

	$node->stop;
	return;
}

# That takes more than a minute, beside the rest.
sub test_failing
{
	new_node('failing');

	my $session = session($node);
	my $from = log_size();

	$node->safe_psql('postgres', 'CREATE ROLE somebody LOGIN');
	$session->query_safe('SELECT snowflake_nextval()');

	#
	# The mark writer fails: the cause is in the log once a minute, and in the view.
	#
	my $reason = 'relation "snowflake_home.mark" does not exist';
	my %failed;
	$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.mark RENAME TO other');
	$session->query_safe("SET snowflake.max_wait = '10ms'");
	ok( wait_for(
			sub {
				return session_error($session, 'SELECT snowflake_nextval()')->{detail} =~ /\Q$reason\E/;
			}),
		'the worker fails');
	ok( wait_for(
			sub {
				session_error($session, 'SELECT snowflake_nextval()');
				$failed{ $session->query_safe('SELECT last_error_ts FROM pg_stat_snowflake') } = 1;
				return log_lines($from, qr/ERROR:  \Q$reason\E/) >= 2;
			}),
		'for a minute: its reason is in the log again');
	cmp_ok(scalar keys %failed, '>', 10, 'it has failed over and over');
	is(log_lines($from, qr/ERROR:  \Q$reason\E/), 2, 'and said so once a minute');
	is($session->query_safe("SELECT starts_with(last_error, '$reason') AND last_error_ts > stats_reset FROM pg_stat_snowflake"),
		't', 'and in the view');
	is($session->query_safe('SELECT timeouts > 0 FROM pg_stat_snowflake'), 't', 'failures are counted');
	$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.other RENAME TO mark');
	ok( wait_for(
			sub {
				return session_error($session, 'SELECT snowflake_nextval()')->{sqlstate} eq '';
			}),
		'the cause is gone: so is the trouble');
	is($session->query_safe('SELECT last_error IS NOT NULL FROM pg_stat_snowflake'), 't', 'and the view tells of it still');
	is($node->safe_psql('postgres', 'SELECT last_error IS NULL AND last_error_ts IS NULL FROM pg_stat_snowflake', extra_params => [ '-U', 'somebody' ]),
		't', 'not to anyone');
	$session->quit;
	$node->stop;
	return;
}

in_parallel(counts => \&test_counts, failing => \&test_failing);
done_testing();
