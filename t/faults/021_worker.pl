
# The background worker fails, in each of the ways it can: IDs go on to the
# limit, then every caller gets an error in time that says the cause, and when
# that goes they flow again by themselves.  All the while sessions draw, and no
# ID comes twice.  Three servers at the same time, as they mostly wait.

use strict;
use warnings FATAL => 'all';

use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my ($node, $draw, $ledger);
my $faults = 0;

sub new_server
{
	my ($name) = @_;

	$node = snowflake_node($name, <<'CONF', allows_streaming => 1);
snowflake.reserve_window = '400ms'
snowflake.max_wait = '700ms'
max_connections = 30
CONF
	$node->safe_psql('postgres', 'CREATE DATABASE app');
	$node->safe_psql('app', 'CREATE EXTENSION snowflake');
	return;
}

# Sessions that draw all the while.
sub begin_draw
{
	$ledger = new_ledger();
	$draw = start_draw($node, sessions => 4, delay => 2, dbname => 'app');
	wait_drawn($draw, 100);
	return;
}

# What happened to them: these errors and no others
sub end_draw
{
	my $result = stop_draw($draw);

	$ledger->add($draw);
	is_deeply([ grep { !/^55(?:000|P03)$/ } keys %{ $result->{errors} } ], [], 'no other errors');
	is($ledger->duplicates, 0, 'no ID came twice');
	is($ledger->disorder, 0, 'the IDs of a session increase');
	cmp_ok($ledger->count, '>', 1000, 'enough to tell');
	$ledger->report($faults);
	return;
}

sub alter_system
{
	my ($setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM $setting");
	reload_node($node);
	return;
}

# What a call fails with, or no error; and how long it took.
sub call
{
	my ($sql) = @_;
	my $began = time();
	my (undef, undef, $stderr) = $node->psql('postgres',
		"\\set VERBOSITY verbose\n" . ($sql // 'SELECT snowflake_nextval()'));

	return (psql_error($stderr), time() - $began);
}

# With the fault there: IDs stop, with an error that says why, in bounded time.
# 55P03 where it may pass by itself, 55000 where somebody has to mend it.
sub stops
{
	my ($sqlstate, $name, $detail, $hint) = @_;
	my ($error, $took);

	# what is reserved may still be drawn, the worker may still be ending, and
	# it is not known at once whether one will be started
	foreach (1 .. 100)
	{
		($error, $took) = call();
		last if $error->{detail} =~ $detail && $error->{sqlstate} eq $sqlstate;
		usleep(50_000);
	}
	is($error->{sqlstate}, $sqlstate, "$name: an error");
	is($error->{message}, 'cannot generate a snowflake ID: the durable mark could not be raised',
		"$name: the message");
	like($error->{detail}, $detail, "$name: says why");
	like($error->{hint}, $hint, "$name: says what to do") if defined $hint;
	cmp_ok($took, '<', 20, "$name: in bounded time");

	# waits can be ended before that
	($error, $took) = call("SET snowflake.max_wait = '1h'; SET statement_timeout = '200ms'; SELECT snowflake_nextval()");
	like($error->{sqlstate}, qr/^(57014|$sqlstate)$/, "$name: the wait can be cancelled");
	cmp_ok($took, '<', 20, "$name: at once");
	$faults++;
	return;
}

sub flows
{
	my ($name) = @_;

	ok($node->poll_query_until('postgres',
			"SELECT count(*) = 3 FROM (SELECT snowflake_nextval() FROM generate_series(1, 3)) s"),
		"$name: IDs flow again by themselves");
	return;
}

sub raised
{
	my ($name) = @_;
	my $reserved = $node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark');

	ok($node->poll_query_until('postgres', "SELECT last_value > $reserved FROM snowflake_home.mark"),
		"$name: the mark is raised");
	return;
}

#
# Terminated, again and again: what is reserved lasts until the next one
#
sub test_terminated
{
	new_server('terminated');
	begin_draw();

	# wide enough for the second until the worker is started again
	alter_system(q(SET snowflake.reserve_window = '5s'));
	my $reserved = "SELECT to_timestamp(last_value / 1e6) - clock_timestamp() > '3s' FROM snowflake_home.mark";
	$node->poll_query_until('postgres', $reserved);
	my $quiet = start_draw($node, sessions => 2, delay => 2, max_wait => '3s');
	wait_drawn($quiet, 20);

	foreach (1 .. 4)
	{
		$node->poll_query_until('postgres', $reserved);
		my $pid = worker_pid($node);
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$node->poll_query_until('postgres',
			"SELECT pid <> $pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'");
		wait_drawn($quiet, 100);
		$faults++;
	}
	my $result = stop_draw($quiet);
	is_deeply($result->{errors}, {}, 'terminated: nobody noticed');
	is($result->{lost}, 0, 'terminated: nor lost the connection');
	$ledger->add($quiet);

	# it cannot be cancelled: a commit whose wait was cancelled looks like any other
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	wait_drawn($draw, 100);
	is(worker_pid($node), $pid, 'a cancel is ignored');
	end_draw();
	test_closed();
	return;
}

#
# Ended by the postmaster, as the server stops, while a session is still there: it
# has closed the mark, and with it the words, as a session may have looked at the
# limit just before.
#
sub test_closed
{
	my $session = session($node);
	my $worker = worker_pid($node);
	my $error;

	# which would tell the session to end, too
	$session->query_safe('SELECT snowflake_nextval()');
	signal_as(postmaster_pid($node), POSIX::SIGTERM, $worker);
	wait_for(sub {
		$error = session_error($session, 'SELECT snowflake_nextval()');
		return $error->{detail} =~ /shutting down/;
	});
	is($error->{sqlstate}, '55P03', 'closed: a session that stays gets no ID');
	like($error->{detail}, qr/^The server is shutting down\. Waited for /, 'closed: says why');
	is($error->{hint}, 'Connect again when it has been started.', 'closed: says what to do');
	is($session->query_safe('SELECT count(*) FROM pg_stat_snowflake_slots WHERE last_ts IS NOT NULL'),
		'0', 'closed: from no slot could an ID be drawn');
	$session->quit;
	$node->stop;
	$faults++;
	return;
}

#
# A synchronous standby that is not there
#
sub test_standby
{
	# the worker must be waiting for the standby, not for this
	alter_system(q(SET synchronous_standby_names = 'nobody'));
	stops('55P03', 'synchronous standby', qr/The background worker "snowflake mark writer", PID \d+, (?:is at work on it in database "postgres"|has not reacted for \d+ s) and waits for IPC:SyncRep\. Waited for "snowflake\.max_wait", 700 ms\./,
		qr/synchronous standby/);

	# ended in the middle of that wait: what it wrote is not published
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$node->poll_query_until('postgres',
		"SELECT pid <> $pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'");
	stops('55P03', 'synchronous standby, a new worker', qr/SyncRep/);

	# nor with what is set for the database
	$node->safe_psql('postgres', "SET synchronous_commit = local; ALTER DATABASE postgres SET synchronous_commit = off");
	$pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$node->poll_query_until('postgres',
		"SELECT pid <> $pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'");
	stops('55P03', 'synchronous_commit off for the database', qr/SyncRep/);

	$node->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''");
	reload_node($node);
	flows('synchronous standby');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET synchronous_commit');
	alter_system(q(RESET synchronous_standby_names));
	return;
}

#
# A mark that cannot be written
#
sub test_not_written
{
	$node->safe_psql('postgres', FREEZE_MARK);
	stops('55000', 'rejected setval', qr/The background worker failed in database "postgres": setval: value \d+ is out of bounds for sequence "mark"/,
		qr/The background worker tries again when a session asks for an ID/);
	$node->safe_psql('postgres', THAW_MARK);
	flows('rejected setval');

	# the same where such an error is not for the log
	my $from = -s $node->logfile;
	alter_system('SET log_min_messages = fatal');
	raised('not logged') foreach 1, 2;    # it reads its settings in between
	$node->safe_psql('postgres', FREEZE_MARK);
	stops('55000', 'not logged', qr/The background worker failed in database "postgres": setval: value \d+ is out of bounds for sequence "mark"/);
	$node->safe_psql('postgres', THAW_MARK);
	flows('not logged');
	unlike(slurp_file($node->logfile, $from), qr/out of bounds/, 'not logged: it is not');
	alter_system('RESET log_min_messages');
	return;
}

#
# A home database that does not allow it
#
sub new_worker
{
	my $pid = worker_pid($node);

	$node->safe_psql('template1', "SELECT pg_terminate_backend($pid)");
	worker_pid($node, $pid);
	return;
}

sub test_read_only
{
	# not even that, unless the server cannot write
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET default_transaction_read_only = on');
	new_worker();
	raised('read-only');
	flows('read-only');
	$node->safe_psql('postgres', 'SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only');
	return;
}

#
# A mark that somebody has raised by hand: it is not lowered
#
sub test_raised
{
	my $far = $node->safe_psql('postgres',
		q(SELECT setval('snowflake_home.mark', last_value + 3600 * 1000000::bigint) FROM snowflake_home.mark));

	# the sessions that draw let the worker raise it
	ok($node->poll_query_until('postgres', <<SQL), 'raised by hand: the worker has seen it');
SELECT last_value <> $far OR reserved_until > clock_timestamp() + '30 min'
FROM snowflake_home.mark, pg_stat_snowflake
SQL
	is($node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark'), $far,
		'raised by hand: it stays');
	flows('raised by hand');
	return;
}

#
# A table of processes that is full: the worker cannot be started again
#
sub run_prlimit
{
	my ($pid, @options) = @_;

	my ($stdout) = run_command([ 'prlimit', '--pid', $pid, @options ]);
	return $stdout =~ s/\s//gr;
}

sub test_no_process
{
	my $postmaster = postmaster_pid($node);
	my $session = session($node);

	$session->query_safe("SET snowflake.max_wait = '1min'; SELECT snowflake_nextval(); RESET snowflake.max_wait");
	my $limit = run_prlimit($postmaster, '--nproc', '--output=SOFT', '--noheadings');
	is(system('prlimit', '--pid', $postmaster, '--nproc=1:'), 0, 'no more processes');
	$session->query_safe("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'");
	my $error;
	foreach (1 .. 100)
	{
		$error = session_error($session, 'SELECT snowflake_nextval()');
		last if $error->{detail} =~ /terminating background worker|is not running/;
		usleep(50_000);
	}
	is($error->{sqlstate}, '55P03', 'cannot fork: an error');
	ok(wait_for(sub { slurp_file($node->logfile) =~ /could not fork (background )?worker/ }),
		'cannot fork: it was that');
	like($error->{detail}, qr/The background worker failed in database "postgres": terminating background worker|is not running/,
		'cannot fork: says why');
	is(system('prlimit', '--pid', $postmaster, "--nproc=$limit:"), 0, 'processes again');
	$session->quit;
	flows('cannot fork');
	$faults++;
	return;
}

#
# The home database is elsewhere, missing; one that is closed is as good
#
sub test_home
{
	new_server('home');
	flows('at first');
	ok(await_pointer($node), 'where the mark is can be seen in all databases');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET snowflake.recorded');
	$node->append_conf('postgresql.conf', "snowflake.database = 'home of marks'\nsnowflake.registry = 'host=/nowhere'");
	$node->restart;

	# nothing is asked of a registry meanwhile, least of all without a pause
	my %ticks;
	wait_for(
		sub {
			foreach my $pid (server_processes($node))
			{
				my ($name, $stat) = map { eval { slurp_file("/proc/$pid/$_") } // '' } 'cmdline', 'stat';

				# user and system, of 10 ms
				$ticks{$pid} = $1 + $2 if $name =~ /snowflake services/ && $stat =~ /\) \S(?: -?\d+){10} (\d+) (\d+) /;
			}
			# it is there for a moment each time
			return %ticks && (() = slurp_file($node->logfile) =~ /FATAL:  database "home of marks" does not exist/g) >= 3;
		}) or die 'nobody tries to connect';
	cmp_ok(max(values %ticks), '<', 100, 'missing: the services process waits');
	$node->append_conf('postgresql.conf', "snowflake.registry = ''");
	reload_node($node);
	stops('55000', 'missing', qr/The background worker failed in database "home of marks": It could not connect\./,
		qr/The server's log says why\./);
	ok(wait_for(sub { slurp_file($node->logfile) =~ /FATAL:  database "home of marks" does not exist/ }),
		'missing: the log says why');
	$node->safe_psql('postgres', 'CREATE DATABASE "home of marks" ALLOW_CONNECTIONS false');
	flows('missing, then closed');
	$node->safe_psql('postgres', 'ALTER DATABASE "home of marks" ALLOW_CONNECTIONS true');
	is($node->safe_psql('home of marks', 'SELECT count(*) FROM snowflake_home.mark'), '1', 'it was set up');
	like(slurp_file($node->logfile), qr/LOG:  snowflake keeps its durable mark in database "home of marks" from now on/,
		'which the log says');

	ok(await_pointer($node), 'and where it is can be seen again');

	# and changed, with what was issued recorded in the other one: nothing is issued
	$node->append_conf('postgresql.conf', "snowflake.database = 'app'");
	$node->restart;
	my $patient = "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval()";
	my ($error, $took) = call($patient);
	like($error->{detail}, qr/the durable mark of this server is in database "home of marks", and "snowflake\.database" is "app"/,
		'another home: nothing is issued');
	like($error->{hint}, qr/Set "snowflake\.database" to "home of marks" and restart the server/, 'another home: the way out');
	$node->append_conf('postgresql.conf', "snowflake.database = 'home of marks'");
	$node->restart;
	flows('home again');

	# a mark that was lost is noticed
	my $above = $node->safe_psql('postgres', "SELECT snowflake_compose(now() + interval '10 s', 1, 0, 0)");
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	$node->restart;
	$node->safe_psql('home of marks', 'DROP EXTENSION snowflake_home');
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'snowflake'");
	$node->restart;
	($error) = call($patient);
	like($error->{detail}, qr/the durable mark is lost: database "home of marks" had it/, 'a lost mark: nothing is issued');
	is($error->{hint}, 'Call snowflake_advance() with the largest ID that this server has drawn: IDs go on above it.', 'a lost mark: the way out');

	# a dump's mark says nothing of what this server has drawn
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS snowflake');
	my $dumped = "now() + interval '5 s'";
	my $restored = 0;
	ok(wait_for(sub {
				# the mark writer tries each second, and may be at it when the wait ends
				($error) = call("SET snowflake.max_wait = '1500ms'; INSERT INTO snowflake_catalog.dumped_mark VALUES ($dumped, current_setting('snowflake.layout'), current_setting('snowflake.epoch')::timestamptz)");
				$restored++ if $error->{sqlstate} eq '';
				return $error->{detail} =~ /the durable mark is lost: database "home of marks" had it/;
			}), 'a lost mark: a dump does not make up for it');
	is($restored, 0, 'and restores none');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET snowflake.restored = ' . (1_000_000 * int(time() + 5)));
	$node->restart;
	($error) = call($patient);
	like($error->{detail}, qr/the durable mark is lost: database "home of marks" had it/, 'nor does one that was restored without the library');
	is($node->safe_psql('postgres', "SET client_min_messages = error; SET snowflake.max_wait = '1min'; SELECT id > $above FROM (SELECT snowflake_advance($above)) s, snowflake_nextval() id"),
		't', 'which is above all that was drawn, at once');
	flows('begun anew');

	# likewise one that is empty; or without a floor, which is warned of
	foreach my $sql ('SELECT setval($$snowflake_home.mark$$, 0, false); DELETE FROM snowflake_home.recorded',
		'SELECT setval($$snowflake_home.mark$$, 0, false)')
	{
		$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
		$node->restart;
		$node->safe_psql('home of marks', $sql);
		$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'snowflake'");
		$node->restart;
		($error) = call($patient);
		like($error->{detail}, qr/the durable mark is lost: /, "an empty mark: $sql");
		like($error->{hint}, qr/^Call snowflake_advance\(\) with the largest ID/, 'and the way out');
		my (undef, undef, $stderr) = $node->psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
		like($stderr, qr/WARNING:  the durable mark is empty, so IDs go on from the clock\nHINT:  Call snowflake_advance\(\)/, 'accepted nevertheless: a warning');
		flows('accepted');
	}

	# one whose layout is not known is not above, whatever the floor
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	$node->restart;
	$node->safe_psql('home of marks', 'DELETE FROM snowflake_home.recorded');
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'snowflake'");
	$node->restart;
	wait_for(sub { ($error) = call("SET snowflake.max_wait = '3s'; SELECT snowflake_advance($above)"); return $error->{detail} =~ /not recorded/; });
	like($error->{detail}, qr/there is a durable mark in database "home of marks", but layout and epoch are not recorded with it/, 'no record: refused');
	like($error->{hint}, qr/call snowflake_accept_layout\(\)/, 'and the way out');
	my (undef, undef, $said) = $node->psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
	is($said, '', 'accepted: no warning');
	flows('accepted with its mark');

	# one that a crash would set back is not drawn by
	$node->safe_psql('home of marks', 'ALTER SEQUENCE snowflake_home.mark SET UNLOGGED');
	my $in_vain = sub { ($error) = call("SET snowflake.max_wait = '100ms'; SELECT snowflake_nextval()"); return $error->{detail} =~ /the sequence snowflake_home\.mark is not durable/; };
	ok(wait_for($in_vain), 'an unlogged mark: nothing is issued');
	$node->restart;
	ok(wait_for($in_vain), 'nor after a restart');
	$node->safe_psql('home of marks', 'ALTER SEQUENCE snowflake_home.mark SET LOGGED');
	flows('logged again');

	# what another database says is of another server: nothing is drawn before the
	# floor is known
	ok(await_pointer($node), 'where it is can be seen');
	$node->safe_psql('postgres', q(ALTER DATABASE "home of marks" SET snowflake.recorded = 'of another'));
	$node->append_conf('postgresql.conf', "snowflake.database = 'app'");
	$node->restart;
	($error) = call($patient);
	like($error->{detail}, qr/database "home of marks" says that it holds the durable mark of another server, and no mark is in database "app"/,
		'of another server: nothing is issued');
	$above = $node->safe_psql('postgres', "SELECT snowflake_compose(now() + interval '10 s', 1, 0, 0)");
	is($node->safe_psql('postgres', "SET client_min_messages = error; SET snowflake.max_wait = '1min'; SELECT snowflake_advance($above) IS NOT NULL"), 't', 'of another server: snowflake_advance()');
	is($node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() > $above"), 't', 'of another server: the first ID is above');
	$node->append_conf('postgresql.conf', "snowflake.database = 'home of marks'");
	$node->restart;

	# no room for a worker at all
	$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
	$node->restart;
	stops('55000', 'no worker', qr/The background worker "snowflake mark writer" is not running\./, qr/max_worker_processes/);

	$node->stop;
	return;
}

#
# All who wait for the mark are woken when it is raised, and do not find out
# when they look again: here they never would.
#
sub test_woken
{
	new_server('woken');
	my $dir = $node->basedir . '/endless';
	my (@sessions, @files);

	mkdir $dir or die "$dir: $!";
	$node->stop;
	{
		local %ENV = (
			%ENV,
			LD_PRELOAD => compile($node, 'endless.c', qw(-shared -fPIC)),
			ENDLESS_DIR => $dir);
		$node->start;
	}
	ok($node->poll_query_until('postgres', <<'SQL'), 'woken: the worker is asleep');
SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'
SQL
	my $worker = worker_pid($node);

	# after a clean restart nothing is reserved
	kill 'STOP', $worker;
	foreach (1 .. 3)
	{
		my $session = session($node, 'app');
		my $pid = $session->query_safe(q(SET snowflake.max_wait = '1h'; SET statement_timeout = '2min'; SELECT pg_backend_pid()));

		append_to_file("$dir/$pid", '');
		$session->query_until(qr/draws/, "\\echo draws\nSELECT snowflake_nextval() > 0;\n");
		push @sessions, $session;
		push @files, "$dir/$pid.asleep";
	}
	ok(wait_for(sub { !grep { !-e } @files }), 'woken: three sessions wait for the mark');
	kill 'CONT', $worker;
	is($_->query_safe('SELECT 1'), "t\n1", 'woken: a session has its ID') foreach @sessions;
	$_->quit foreach @sessions;
	$node->stop;
	return;
}

in_parallel(
	woken => \&test_woken,
	terminated => \&test_terminated,
	failing => sub {
		new_server('failing');
		begin_draw();
		test_standby();
		test_not_written();
		test_read_only();
		test_no_process();
		test_raised();
		end_draw();
		$node->stop;
	},
	home => \&test_home);

done_testing();
