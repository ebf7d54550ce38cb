
# All that stands beside the mark fails, in each of the ways it can: the process
# that serves backfilling, leases, segments and records is stopped, terminated,
# kept waiting, kept out; its tables are locked, renamed, dropped; settings of the
# home database are against it.  In each case IDs flow, far past what was
# reserved, and no session meets an error; and what was asked of that process
# goes on by itself when the cause is gone.  Several servers at the same time, as
# they mostly wait.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $window = 100;    # ms: the mark has to be raised several times a second
my $windows = 5;     # that IDs have to flow for
my $faults = 0;

my $conf = <<CONF;
snowflake.database = 'home'
snowflake.reserve_window = '${window}ms'
max_connections = 30
max_prepared_transactions = 2
restart_after_crash = on
autovacuum = off
log_statement = none
CONF

# The server of this group; sessions that draw, and others that ask for what the
# other process has to do.
my ($node, $draw, @fillers, $ledger);

# A session in the home database, and one that draws in another: they are there
# where no new one may come in.
my ($home, $app);

sub new_server
{
	my ($name, %opts) = @_;

	$ledger = new_ledger();
	$node = snowflake_node($name, $conf . ($opts{conf} // ''));
	$node->safe_psql('postgres', 'CREATE DATABASE home');
	return;
}

sub begin_draws
{
	my (@sql) = @_;

	$draw = start_draw($node, sessions => 3, delay => 5, max_wait => '30s');
	wait_drawn($draw, 20);
	@fillers = map {
		start_draw($node, sessions => 2, ids => 1, delay => 5, max_wait => '300ms',
			by_statement => 1, sql => $_)
	} @sql;
	($home, $app) = map { session($node, $_) } 'home', 'postgres';
	$_->query_safe(q(SET client_min_messages = 'error')) foreach $home, $app;
	$app->query_safe(q(SET snowflake.max_wait = '30s'));
	served('at first');
	return;
}

# New stretches all the time, each of which has to be asked for; and segments so
# small that new ones have to be.
my $backfill = "SELECT snowflake_backfill(timestamptz '2020-06-01+00' + random() * interval '3 years')";
my $segment = "SELECT snowflake_segment_nextval('small')";

sub create_segment
{
	$node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_segment_create('small', step => 10)");
	return;
}

# Those who draw have not noticed anything.
sub end_draws
{
	my ($name) = @_;
	my $report = stop_draw($draw);

	$_->quit foreach $home, $app;
	is_deeply($report->{errors}, {}, "$name: no session met an error");
	is($report->{lost} + $report->{refused}, 0, "$name: nor lost its connection");
	$ledger->add($_) foreach $draw, @fillers;
	is($ledger->duplicates, 0, "$name: no ID came twice");
	is($ledger->disorder, 0, "$name: the IDs of a session increase");
	$ledger->report($faults);
	return;
}

# With the fault there: IDs go on, and the mark is raised for them.
sub flows
{
	my ($name) = @_;
	my $sql = 'SELECT last_value FROM snowflake_home.mark';
	my $began = $home->query_safe($sql);
	my $error;

	wait_for(
		sub {
			(undef, $error) = draw_one($app);
			usleep(50_000);
			return $error->{sqlstate} ne ''
			  || $home->query_safe($sql) > $began + $windows * $window * 1000;
		}) or die "$name: the mark is not raised\n";
	is("$error->{sqlstate}$error->{message}$error->{detail}", '', "$name: IDs flow");
	$faults++;
	return;
}

# Without it: what was asked for goes on by itself.
sub served
{
	my ($name) = @_;

	wait_drawn($_, 50) foreach @fillers;
	pass("$name: all is served");
	return;
}

sub wait_here
{
	my ($sql, $what) = @_;

	wait_for(sub { usleep(20_000); return $home->query_safe($sql) eq 't' })
	  or die "$what\n";
	return;
}

# The other process waits for a lock, or has given up.
sub is_kept_waiting
{
	wait_here(<<'SQL', 'it waits for no lock');
SELECT EXISTS (SELECT FROM pg_stat_activity
               WHERE backend_type = 'snowflake services' AND wait_event_type = 'Lock')
SQL
	return;
}

# Seen from a session that is there already.  With none running, it starts.
sub terminate
{
	my ($type) = @_;

	$home->query_safe("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = '$type'");
	return;
}

sub our_tables
{
	return split /\n/, $node->safe_psql('home', <<'SQL');
SELECT c.oid::regclass FROM pg_class AS c
WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('snowflake_home', 'snowflake_registry'))
  AND relkind IN ('r', 'p')
ORDER BY 1
SQL
}

sub drop_tables
{
	$home->query_safe('DROP EXTENSION IF EXISTS snowflake_registry CASCADE');
	$home->query_safe("ALTER EXTENSION snowflake_home DROP TABLE $_; DROP TABLE $_ CASCADE")
	  foreach our_tables();
	is(join(' ', our_tables()), '', 'the tables are dropped');
	return;
}

#
# The process is stopped, terminated, kept out
#
sub test_process
{
	new_server('process');
	create_segment();
	begin_draws($backfill, $segment);

	my $pid = services_pid($node);
	stop_asleep($node, $pid);
	flows('stopped');
	kill 'CONT', $pid;
	served('stopped');

	foreach (1 .. 5)
	{
		$pid = services_pid($node);
		terminate('snowflake services');
		flows('terminated');
		services_pid($node, $pid);
	}
	served('terminated');

	# both, one after the other
	$pid = worker_pid($node);
	terminate('snowflake services');
	terminate('snowflake mark writer');
	worker_pid($node, $pid);
	flows('both terminated');
	served('both terminated');

	# A crash of the process is one of the server.  Those who were connected
	# know of that, and all others draw.
	end_draws('process');
	$pid = services_pid($node);
	kill 'KILL', $pid;

	# which the server has to have seen: before that it still answers
	poll(
		sub {
			return (
				try_sql($node,
					"SELECT pid <> $pid AND snowflake_nextval() > 0 FROM pg_stat_activity WHERE backend_type = 'snowflake services'")
				  // '') eq 't';
		})
	  or die "the server does not start again\n";
	begin_draws($backfill, $segment);
	flows('killed');

	# A database that lets nobody else in
	$app->query_safe('ALTER DATABASE home ALLOW_CONNECTIONS false');
	terminate('snowflake services');
	flows('closed database');
	$app->query_safe('ALTER DATABASE home ALLOW_CONNECTIONS true');
	served('closed database');

	# All connections are used.
	my $others = start_draw($node, sessions => 40, ids => 1, delay => 100, sql => 'SELECT 1', by_statement => 1);
	wait_here("SELECT count(*) = current_setting('max_connections')::int FROM pg_stat_activity WHERE backend_type = 'client backend'",
		'connections are left');
	flows('no connections');
	terminate('snowflake services');
	flows('no connections, terminated');
	stop_draw($others);
	served('no connections');
	end_draws('process, after a crash');

	# There is no such process at all.
	$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 0");
	$node->restart;
	begin_draws();
	flows('never started');
	end_draws('never started');
	$node->stop;
	return;
}

#
# Its tables are locked, renamed, dropped, and refuse rows
#
sub test_tables
{
	new_server('tables');
	create_segment();
	begin_draws($backfill, $segment);

	my @tables = our_tables();
	cmp_ok(scalar(grep { /^snowflake_home\.backfill$/ } @tables), '==', 1, 'there are tables');

	my $locker = session($node, 'home');
	foreach my $table (@tables)
	{
		$locker->query_safe("BEGIN; LOCK TABLE $table");
		is_kept_waiting() if $table eq 'snowflake_home.backfill';
		flows("$table locked");
		terminate('snowflake services') if $table eq 'snowflake_home.backfill';
		flows("$table locked, terminated") if $table eq 'snowflake_home.backfill';
		$locker->query_safe('ROLLBACK');
	}
	served('locked');

	# The row of the database, which the largest number is noted at
	$locker->query_safe(q(BEGIN; ALTER DATABASE home SET work_mem = '5MB'));
	flows('ALTER DATABASE left open');
	terminate('snowflake services');
	flows('ALTER DATABASE left open, terminated');
	served('ALTER DATABASE left open');
	$locker->query_safe('COMMIT; ALTER DATABASE home RESET work_mem');
	dumps('ALTER DATABASE left open');

	# The same where many come and go
	foreach (1 .. 20)
	{
		$locker->query_safe(q(BEGIN; ALTER DATABASE home SET work_mem = '5MB'));
		wait_drawn($fillers[0], 1);
		$locker->query_safe('COMMIT');
	}
	$locker->query_safe('ALTER DATABASE home RESET work_mem');
	dumps('ALTER DATABASE again and again');
	flows('ALTER DATABASE again and again');

	# What was noted there is taken away.
	$app->query_safe('ALTER DATABASE home RESET ALL');
	flows('settings reset');
	dumps('settings reset');

	# Nobody gets a new lock there before this one.
	$locker->query_safe('BEGIN; LOCK TABLE pg_db_role_setting');
	flows('pg_db_role_setting locked');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	served('pg_db_role_setting locked');

	# A request that fails is tried again, and holds nobody up.
	$home->query_safe('ALTER TABLE snowflake_home.backfill ADD CONSTRAINT no_more CHECK (stretch < 0) NOT VALID');
	flows('backfilling fails');
	terminate('snowflake services');
	flows('backfilling fails, terminated');
	$home->query_safe('ALTER TABLE snowflake_home.backfill DROP CONSTRAINT no_more');
	served('backfilling fails');

	# One that hangs in somebody's trigger
	$home->query_safe(<<'SQL');
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN NEW; END';
CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON snowflake_home.backfill FOR EACH ROW EXECUTE FUNCTION hang();
ALTER TABLE snowflake_home.backfill ENABLE ALWAYS TRIGGER hang;
SQL
	flows('backfilling hangs');
	my $dropper = start_sql($node, 'DROP FUNCTION hang() CASCADE;', 'home');
	wait_for(
		sub {
			terminate('snowflake services');
			usleep(100_000);
			return !$dropper->{run}->pumpable;
		}) or die "the trigger cannot be dropped\n";
	is(join('', finish_sql($dropper)) =~ /ERROR/, '', 'backfilling hangs: mended');
	served('backfilling hangs');

	foreach my $table (@tables)
	{
		my $name = $table =~ s/.*\.//r;

		$home->query_safe("ALTER TABLE $table RENAME TO other");
		flows("$table renamed");
		$home->query_safe('ALTER TABLE ' . ($table =~ s/\..*//r) . ".other RENAME TO $name");
	}
	served('renamed');

	# with a new process, which knows nothing of before
	$home->query_safe('ALTER TABLE snowflake_home.backfill RENAME TO other');
	terminate('snowflake services');
	flows('renamed, terminated');
	$home->query_safe('ALTER TABLE snowflake_home.other RENAME TO backfill');
	served('renamed, terminated');

	drop_tables();
	flows('dropped');
	terminate('snowflake services');
	flows('dropped, terminated');
	end_draws('tables');
	$node->stop;
	return;
}

# A dump carries numbers above all that may be in IDs.
sub dumps
{
	my ($name) = @_;
	my $largest = $node->safe_psql('home', 'SELECT max(used) FROM snowflake_home.backfill');
	my $dumped;

	poll(
		sub {
			my ($dump) = run_command([ 'pg_dump', '-e', 'snowflake', '-d', $node->connstr('postgres') ]);
			($dumped) = $dump =~ /^COPY snowflake_catalog\.dumped_mark .*\n.*\t(\d+)$/m;
			return defined $dumped && $dumped >= $largest;
		}) or die "a dump has $dumped\n";
	cmp_ok($dumped, '>=', $largest, "$name: a dump knows what was backfilled");
	return;
}

#
# Settings of the home database and of the role, and what stays locked over a
# restart
#
sub test_settings
{
	new_server('settings');
	create_segment();
	begin_draws($backfill, $segment);

	# The owner of the database, who may set this
	$app->query_safe(<<'SQL');
CREATE ROLE landlord LOGIN;
ALTER DATABASE home OWNER TO landlord;
SQL
	foreach my $name ('role', 'session_authorization')
	{
		$app->query_safe("SET ROLE landlord; ALTER DATABASE home SET $name = landlord; RESET ROLE");
		new_processes();
		flows("$name set by the owner");
		served("$name set by the owner");
		$app->query_safe("ALTER DATABASE home RESET $name");
	}

	# Names that stand for other things there
	$home->query_safe(<<'SQL');
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.setval(regclass, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $2';
CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION hostile.split_part(text, text, int) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE AGGREGATE hostile.max(bigint) (SFUNC = int8smaller, STYPE = bigint);
CREATE FUNCTION hostile.no(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.no);
CREATE TABLE hostile.pg_extension AS SELECT FROM pg_catalog.pg_extension WHERE false;
CREATE TABLE hostile.pg_database AS SELECT FROM pg_catalog.pg_database WHERE false;
GRANT ALL ON SCHEMA hostile TO PUBLIC;
SQL
	my @known = hostile_settings($node);
	my $user = $app->query_safe('SELECT quote_ident(current_user)');
	my $of_role = 0;

	while (my @now = splice @known, 0, 6)
	{
		my $where = $of_role ? "ROLE $user IN DATABASE home" : 'DATABASE home';
		my $name = join ', ', map { $_->[0] } @now;

		foreach (@now)
		{
			my ($setting, $value) = @{$_};
			$value = "'$value'" unless $setting eq 'search_path';
			$app->query_safe("ALTER $where SET $setting = $value");
		}
		new_processes();
		flows($name);
		served($name);
		$app->query_safe("ALTER $where RESET $_->[0]") foreach @now;
		$of_role = !$of_role;
	}
	$home->query_safe('DROP SCHEMA hostile CASCADE');
	end_draws('settings');

	# Transactions that stay over a restart, with another node number, which is
	# to be recorded
	foreach my $sql (
		q(ALTER DATABASE home SET work_mem = '5MB'),
		'LOCK TABLE snowflake_home.backfill, snowflake_home.lease')
	{
		$node->safe_psql('home', "BEGIN; $sql; PREPARE TRANSACTION 'left'");
		$node->append_conf('postgresql.conf', 'snowflake.node_id = ' . (10 + $faults));
		$node->restart;
		begin_draws();
		flows("prepared and restarted: $sql");
		$node->safe_psql('home', q(ROLLBACK PREPARED 'left'));
		end_draws('prepared');
	}
	$node->stop;
	return;
}

sub new_processes
{
	my @pids = (worker_pid($node), services_pid($node));

	terminate("snowflake $_") foreach 'services', 'mark writer';
	worker_pid($node, $pids[0]);
	services_pid($node, $pids[1]);
	return;
}

#
# With a leased number IDs flow for as long as the lease holds.
#
sub test_lease
{
	my $registry = new_registry('registry', 'max_connections = 20');
	my $proxy = start_proxy($registry);

	$ledger = new_ledger();
	$node = snowflake_node('lease', $conf . <<CONF);
snowflake.node_id = -1
snowflake.registry = '@{[ proxy_conninfo($proxy) ]}'
snowflake.lease_ttl = '10min'
CONF
	$node->safe_psql('postgres', 'CREATE DATABASE home');
	$node->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_nextval()));
	create_segment();
	begin_draws($segment);
	my $number = wait_number($node);

	my $pid = services_pid($node);
	stop_asleep($node, $pid);
	flows('leased, stopped');
	kill 'CONT', $pid;
	served('leased, stopped');

	foreach (1 .. 5)
	{
		$pid = services_pid($node);
		terminate('snowflake services');
		flows('leased, terminated');
		services_pid($node, $pid);
	}
	served('leased, terminated');

	# both at any moment of a handover
	foreach (1 .. 10)
	{
		my @types = $_ % 2 ? ('services', 'mark writer') : ('mark writer', 'services');

		@types = ($types[0]) if $_ % 3 == 0;
		my @pids = map { pid_of($_) } @types;
		terminate("snowflake $_") foreach @types;
		pid_of($types[$_], $pids[$_]) foreach 0 .. $#types;
	}
	flows('leased, both terminated');
	served('leased, both terminated');

	# The registry does not answer, answers no more, lets nobody in.
	foreach my $mode ('hold', 'refuse')
	{
		set_proxy($proxy, $mode);
		terminate('snowflake services');
		flows("registry: $mode");
		set_proxy($proxy, 'pass');
		served("registry: $mode");
	}
	$registry->safe_psql('postgres', 'ALTER ROLE snowflake_server CONNECTION LIMIT 0');
	terminate('snowflake services');
	flows('registry: no connections');
	$registry->safe_psql('postgres', 'ALTER ROLE snowflake_server CONNECTION LIMIT -1');
	served('registry: no connections');

	my $locker = session($node, 'home');
	foreach my $table (our_tables())
	{
		$locker->query_safe("BEGIN; LOCK TABLE $table");
		terminate('snowflake services');
		flows("leased, $table locked");
		$locker->query_safe('ROLLBACK');
	}
	served('leased, locked');
	$locker->quit;
	is(wait_number($node), $number, 'it is the same number all the while');

	drop_tables();
	flows('leased, dropped');
	terminate('snowflake services');
	flows('leased, dropped, terminated');
	end_draws('lease');
	$node->stop;
	$registry->stop;
	return;
}

sub pid_of
{
	my ($type, $not) = @_;

	return $type eq 'services' ? services_pid($node, $not) : worker_pid($node, $not);
}

#
# A home database that cannot be reached, and nobody who asks any more: then no
# process is started over and over.
#
sub test_unreachable
{
	$node = snowflake_node('unreachable', $conf);

	my (undef, undef, $stderr) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSET snowflake.max_wait = '300ms'; SELECT snowflake_nextval()");
	my $error = psql_error($stderr);
	isnt($error->{sqlstate}, '', 'unreachable: an error');
	wait_for(sub { return slurp_file($node->logfile) =~ /database "home" does not exist/ })
	  or die "nobody has tried\n";

	# A second goes by before one that has ended is started again.
	ok( wait_for(
			sub {
				my @ages = ages_of_ours();

				usleep(200_000);
				return @ages == 2 && !grep { $_ < 4 } @ages;
			}),
		'unreachable: the processes are left alone when nobody asks');

	$node->safe_psql('postgres', 'CREATE DATABASE home');
	is($node->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() > 0)),
		't', 'reachable: IDs flow');
	is($node->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_backfill('2024-05-01+00') > 0)),
		't', 'reachable: all is served');

	test_asked_again($_) foreach 1 .. 3;
	$node->stop;
	return;
}

# A request fails, and nothing else is asked for.  The session asks again when the
# process is asleep already.
sub test_asked_again
{
	my ($number) = @_;
	my $locker = session($node, 'home');
	my $waits = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake services' AND wait_event_type = '%s'";

	$locker->query_safe('BEGIN; LOCK TABLE snowflake_home.backfill');
	my $waiter = start_sql($node, "SET snowflake.max_wait = '1min'; SELECT snowflake_backfill('202$number-05-01+00') > 0;");
	foreach my $type ('Lock', 'Extension', 'Lock')
	{
		$node->poll_query_until('postgres', sprintf $waits, $type) or die "it does not wait: $type\n";
	}
	my $session = $node->safe_psql('postgres', <<SQL);
SELECT pid FROM pg_stat_activity WHERE query LIKE '%202$number-05-01%' AND pid <> pg_backend_pid()
SQL
	kill 'STOP', $session;
	$node->poll_query_until('postgres', sprintf $waits, 'Extension') or die "it does not give up\n";
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	kill 'CONT', $session;
	is(join('', finish_sql($waiter)), 't', 'asked again by the only session that waits: it is served');
	return;
}

# For how many seconds each process of the extension has been running, connected
# or not.
sub ages_of_ours
{
	my ($ages) = run_command([ 'ps', '-o', 'etimes=,args=', '-p', join ',', server_processes($node) ]);

	return $ages =~ /^ *(\d+) .*snowflake (?:mark writer|services)/mg;
}

# Only the first ID needs one thing more than the mark: that the other databases
# can see where it is.  It does not need the services, which never start here.
sub test_first
{
	new_server('first', conf => "max_worker_processes = 1\nmax_logical_replication_workers = 0");
	$node->safe_psql('home', q(BEGIN; ALTER DATABASE home SET work_mem = '8MB'; PREPARE TRANSACTION 'held'));

	my $session = session($node, 'postgres');
	$session->query_safe(q(SET snowflake.max_wait = '4s'));
	my ($id, $error);
	# once more where the process had no database yet, or has not come as far as that
	wait_for(
		sub {
			($id, $error) = draw_one($session);
			return $error->{sqlstate} eq '' || $error->{detail} =~ /lock timeout/;
		});
	is($error->{sqlstate}, '55P03', 'ALTER DATABASE left open before the first ID: it waits');
	like($error->{detail}, qr/failed in database "home": canceling statement due to lock timeout/, 'and says what for');
	$node->safe_psql('home', q(ROLLBACK PREPARED 'held'));
	$session->query_safe(q(SET snowflake.max_wait = '1min'));
	($id, $error) = draw_one($session);
	is($error->{sqlstate}, '', 'the first ID');
	$session->quit;

	$node->append_conf('postgresql.conf', "snowflake.database = 'postgres'");
	$node->restart;
	$session = session($node, 'postgres');
	($id, $error) = draw_one($session);
	like($error->{detail}, qr/the durable mark of this server is in database "home", and "snowflake\.database" is "postgres"/,
		'another home database, with no services ever: nothing is issued');
	$session->quit;
	$node->stop;
	return;
}

in_parallel(
	process => \&test_process,
	first => \&test_first,
	tables => \&test_tables,
	settings => \&test_settings,
	lease => \&test_lease,
	unreachable => \&test_unreachable);

done_testing();
