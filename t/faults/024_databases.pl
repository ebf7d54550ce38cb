
# The extension in several databases, made, moved and dropped while others
# draw; the home database among them; layouts that change; snowflake_advance().
# Nothing is issued twice, and nothing hangs.  In three groups at the same time, as
# they mostly wait.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my ($node, $ledger);
my $faults = 0;

# A server without the extension in any database.
sub bare_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', <<CONF . ($conf // ''));
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.max_wait = '1min'
CONF
	$node->start;
	return $node;
}

sub error_of
{
	my ($node, $sql, $dbname) = @_;
	my (undef, undef, $stderr) =
	  $node->psql($dbname // 'postgres', "\\set VERBOSITY verbose\n$sql");

	return psql_error($stderr);
}

#
# The first ID, by ways that have nothing prepared
#
sub test_first
{
	my $node = bare_node('first');
	my $no_home = "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_home'";

	$node->safe_psql('postgres', 'CREATE DATABASE app');
	is($node->safe_psql('postgres', $no_home), '0', 'nothing is set up before it is needed');
	$node->safe_psql('app', 'CREATE EXTENSION snowflake');
	is($node->safe_psql('app', 'SELECT snowflake_nextval() > 0'), 't', 'the first ID, drawn in another database');
	is($node->safe_psql('app', $no_home), '0', 'which is not the home database');
	is($node->safe_psql('postgres', $no_home), '1', 'that was set up by itself');
	like(slurp_file($node->logfile), qr/LOG:  snowflake keeps its durable mark in database "postgres" from now on/,
		'as the log says');
	is( $node->safe_psql('postgres', 'SELECT * FROM snowflake_home.recorded'),
		't|time:41 node:5 worker:5 sequence:12|2020-01-01 00:00:00+00|1|1', 'layout and epoch are recorded');
	ok( $node->poll_query_until('postgres', q(SELECT setconfig::text = '{"snowflake.recorded=time:41 node:5 worker:5 sequence:12 since 2020-01-01 00:00:00+00 as node 1 on system ' || system_identifier || '"}' FROM pg_db_role_setting, pg_control_system())),
		'where other databases see it, too');
	$node->stop;

	# The services look around before what the first ID records is committed.
	$node = bare_node('early', "wal_level = replica\nmax_wal_senders = 5\n");
	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	$node->restart;
	my $first = start_sql($node, "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() > 0");
	$node->poll_query_until('postgres',
		"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'")
	  or die 'the first ID waits for no standby';
	error_of($node, "SET snowflake.max_wait = '5s'; SELECT snowflake_segment_nextval('none')");
	$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
	$node->reload;
	finish_sql($first);
	ok(await_pointer($node), 'what other databases see of it comes when it is there');
	$node->stop;

	# all in one transaction of the home database
	$node = bare_node('at_once');
	is($node->safe_psql('postgres', 'BEGIN; CREATE EXTENSION snowflake; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int); INSERT INTO t (n) VALUES (1), (2); SELECT count(*) FROM t; ROLLBACK'),
		'2', 'the first IDs, in the transaction that creates the extension, in the home database');
	is($node->safe_psql('postgres', 'CREATE EXTENSION snowflake; SELECT snowflake_nextval() > 0'), 't',
		'and again, after that was rolled back');

	# neither in single-user mode, which has no worker
	$node->stop;
	my $stderr = '';
	IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
		'<', \"SELECT snowflake_nextval()\n", '>', \my $stdout, '2>', \$stderr);
	like($stderr, qr/ERROR:  cannot generate snowflake IDs in this mode/, 'single-user mode issues none');
	return;
}

# A server with the extension in further databases.
sub new_server
{
	my ($name, @databases) = @_;

	$node = snowflake_node($name, <<'CONF', clock => 0);
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
snowflake.reserve_window = '500ms'
CONF
	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach @databases;
	$node->safe_psql($_, 'CREATE EXTENSION snowflake') foreach @databases;
	return;
}

# Draw, and do not wait for long where an error is to come.
my $try = "SET snowflake.max_wait = '1s'; SELECT snowflake_nextval()";

#
# CREATE, ALTER, DROP while others draw
#
sub test_create
{
	my %draw = map { $_ => start_draw($node, sessions => 3, dbname => $_, delay => 1) } qw(app other third postgres);
	wait_drawn($_, 200) foreach values %draw;

	# in one database and in the home database: the others do not notice
	foreach my $dbname ('other', 'postgres')
	{
		$node->safe_psql($dbname, 'DROP EXTENSION snowflake');
		wait_drawn($draw{app}, 1000);
		is(error_of($node, 'SELECT snowflake_nextval()', $dbname)->{sqlstate}, '42883', "dropped in $dbname");
		$node->safe_psql($dbname, 'CREATE EXTENSION snowflake');
		wait_drawn($draw{$dbname}, 100);
		$faults++;
	}

	# with its schema, and made anew in another
	$node->safe_psql('postgres', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public; CREATE EXTENSION snowflake');
	is(error_of($node, 'ALTER EXTENSION snowflake SET SCHEMA elsewhere', 'app')->{sqlstate}, '3F000', 'not moved: there is no such schema');
	$node->safe_psql('app', 'CREATE SCHEMA elsewhere');
	is(error_of($node, 'ALTER EXTENSION snowflake SET SCHEMA elsewhere', 'app')->{sqlstate}, '0A000', 'nor to one that is there');
	$node->safe_psql('app', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake SCHEMA elsewhere; SELECT elsewhere.snowflake_nextval()');
	wait_drawn($draw{third}, 1000);
	$node->safe_psql('app', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake');
	wait_drawn($draw{app}, 100);
	$faults += 3;

	# a database, under those who draw in it
	$node->safe_psql('postgres', 'DROP DATABASE third WITH (FORCE)');
	wait_drawn($draw{app}, 1000);
	$faults++;

	# but not the mark
	my $error = error_of($node, 'DROP DATABASE postgres WITH (FORCE)', 'app');
	is($error->{sqlstate}, '55006', 'the home database is not dropped');
	like($error->{message}, qr/it holds the durable mark/, 'which it says');
	foreach my $sql ('DROP EXTENSION snowflake_home', 'DROP EXTENSION snowflake_home CASCADE',
		'DROP EXTENSION snowflake, snowflake_home')
	{
		is(error_of($node, $sql)->{sqlstate}, '55006', "not done: $sql");
	}
	is(error_of($node, $_)->{sqlstate}, '2BP01', "not done: $_")
	  foreach ('DROP SCHEMA snowflake_home CASCADE', 'DROP SEQUENCE snowflake_home.mark');
	$node->safe_psql('other', 'CREATE EXTENSION snowflake_home; DROP EXTENSION snowflake_home');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_extension WHERE extname ~ '^snowflake'"), '2',
		'all is there');

	my %result = map { $_ => stop_draw($draw{$_}) } keys %draw;
	is_deeply([ grep { /^55/ } keys %{ $result{app}{errors} } ], [], 'those elsewhere have had no error but that of the missing function');
	is($result{app}{lost}, 0, 'and no connection lost');
	$ledger->add($_) foreach values %draw;
	return;
}

#
# Someone holds a lock that the worker needs
#
sub test_lock
{
	my $draw = start_draw($node, sessions => 2, dbname => 'app');
	my $session = session($node);

	$session->query_safe('BEGIN; ALTER SEQUENCE snowflake_home.mark INCREMENT 1');
	my $error;
	ok(wait_for(sub { $error = error_of($node, $try); $error->{detail} =~ /Lock:relation|lock timeout/ }),
		'a lock on the mark');
	is($error->{sqlstate}, '55P03', 'is an error after a while');
	like($error->{detail}, qr/waits for Lock:relation|canceling statement due to lock timeout/, 'that says why');

	# the server can be stopped nevertheless
	$session->query_safe('ROLLBACK');
	wait_drawn($draw, 100);
	$session->query_safe('BEGIN; ALTER SEQUENCE snowflake_home.mark INCREMENT 1');
	$node->stop('fast');
	start_node($node);
	eval { $session->quit };
	wait_drawn($draw, 100);
	stop_draw($draw);
	$ledger->add($draw);
	$faults += 2;
	return;
}

#
# snowflake_advance()
#
sub test_advance
{
	my $draw = start_draw($node, sessions => 3, dbname => 'app', delay => 1);
	my $rounds = 5;

	wait_drawn($draw, 100);
	foreach my $round (1 .. $rounds)
	{
		# half a second ahead: within max_drift, so they go on
		my $id = $node->safe_psql('app', "SELECT snowflake_compose(clock_timestamp() + '500ms', 31, 3, 63)");
		my $earliest = $node->safe_psql('app', "SELECT extract(epoch FROM snowflake_advance($id))");
		my @ids = split /\n/, $node->safe_psql('app', 'SELECT snowflake_nextval() FROM generate_series(1, 300)');
		is(scalar(grep { $_ <= $id } @ids), 0, "advanced $round: all later IDs are above");
		$ledger->add_ids("advanced $round", @ids);
		cmp_ok($node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark'),
			'>=', $earliest * 1e6, 'and the mark is');

		# durable when it has returned
		$id = $node->safe_psql('app', "SELECT snowflake_compose(clock_timestamp() + '1h', 0, 0, 0)")
		  if $round == $rounds;
		my ($ret, $stdout, $stderr) = $node->psql('app', "SELECT snowflake_advance($id)");
		like($stderr, qr/WARNING:  the durable mark is ahead of the clock/, 'advanced an hour ahead: a warning')
		  if $round == $rounds;
		kill9_postmaster($node);
		start_node($node);
		if ($round == $rounds)
		{
			# (the worker reads the mark a moment after the start)
			my $error;
			wait_for(sub { ($error = error_of($node, $try, 'app'))->{message} !~ /could not be raised/ });
			is($error->{sqlstate}, '55P03', 'nothing is issued before that time');
			like($error->{message}, qr/the clock is behind the last ID/, 'as the error says');
			set_clock($node, 3600);
		}
		ok($node->poll_query_until('app', "SELECT snowflake_nextval() > $id"), 'later IDs are above, after a crash too');
		$faults++;
	}
	stop_draw($draw);
	$ledger->add($draw);
	return;
}

# Nothing is issued: what the worker says of that, which tries again and again.
sub last_error
{
	my ($server) = @_;
	my $error;

	wait_for(sub { ($error = error_of($server, 'SELECT snowflake_nextval()', 'app'))->{detail} !~ /is at work on it/ });
	return $error;
}

#
# Another layout or epoch
#
sub test_layouts
{
	foreach my $change ("snowflake.layout = 'time:41 node:5 worker:3 sequence:6'",
		"snowflake.epoch = '2020-01-01 00:00:01+00'",
		"snowflake.layout = 'time:40\@2ms node:5 worker:2 sequence:6'")
	{
		my $conf = $node->data_dir . '/postgresql.conf';
		my $before = slurp_file($conf);
		my ($setting) = $change =~ /^snowflake\.(\w+)/;

		$node->append_conf('postgresql.conf', $change);
		$node->stop;
		start_node($node);
		my $error = last_error($node);
		is($error->{sqlstate}, '55000', "$change: nothing is issued");
		like($error->{detail}, qr/this server has issued IDs with layout "time:41 node:5 worker:2 sequence:6" and epoch 2020-01-01 00:00:00\+00, and is now configured with layout "time:4/,
			'what is recorded and what is configured');
		like($error->{hint}, qr/snowflake_accept_layout\(\)/, 'and the way out');
		is($node->safe_psql('app', 'SELECT snowflake_layout() IS NOT NULL'), 't', 'reading works');
		is(error_of($node, 'DROP EXTENSION snowflake_home')->{sqlstate}, '55006', 'the mark is protected as ever');

		# changed back: as before
		open my $file, '>', $conf or die "$conf: $!";
		print $file $before;
		close $file;
		$node->stop;
		start_node($node);
		my @ids = split /\n/, $node->safe_psql('app', 'SELECT snowflake_nextval() FROM generate_series(1, 100)');
		is(scalar(@ids), 100, "$change changed back");
		$ledger->add_ids($change, @ids);
		$faults++;
	}

	# the same layout in other words is the same
	$node->append_conf('postgresql.conf',
		"snowflake.layout = 'time:41\@1ms  node:5 worker:2 sequence:6'\nsnowflake.epoch = '2020-01-01 01:00:00+01'");
	$node->stop;
	start_node($node);
	$ledger->add_ids('other words', split /\n/, $node->safe_psql('app', 'SELECT snowflake_nextval() FROM generate_series(1, 100)'));

	# accepted, by who may
	$node->append_conf('postgresql.conf', "snowflake.layout = 'time:41 node:5 worker:3 sequence:6'");
	$node->stop;
	start_node($node);
	$node->safe_psql('app', 'CREATE ROLE someone LOGIN');
	is(error_of($node, 'SET ROLE someone; SELECT snowflake_accept_layout()', 'app')->{sqlstate}, '42501', 'not by anyone');
	is($node->safe_psql('app', 'SELECT snowflake_accept_layout()'), '', 'accepted');
	is($node->safe_psql('app', 'SELECT snowflake_nextval() > 0'), 't', 'IDs flow again');
	is($node->safe_psql('postgres', 'SELECT layout FROM snowflake_home.recorded'),
		'time:41 node:5 worker:3 sequence:6', 'and it is recorded');
	$node->stop;
	start_node($node);
	is($node->safe_psql('app', 'SELECT snowflake_nextval() > 0'), 't', 'for good');
	return;
}

#
# What is recorded was removed, by who did not know
#
sub test_reset
{
	my $last = $node->safe_psql('app', 'SELECT snowflake_nextval()');

	# what other databases see of it comes back
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET ALL');
	$node->stop;
	start_node($node);
	cmp_ok($node->safe_psql('app', 'SELECT snowflake_nextval()'), '>', $last, 'RESET ALL: IDs flow');
	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM pg_db_role_setting WHERE setconfig::text LIKE '%time:41 node:5 worker:3 sequence:6 since%'"),
		'and it is recorded again');

	$node->safe_psql('postgres', 'DELETE FROM snowflake_home.recorded');
	$node->stop;
	start_node($node);
	my $error = last_error($node);
	like($error->{detail}, qr/there is a durable mark in database "postgres", but layout and epoch are not recorded with it/,
		'removed: nothing is issued');
	like($error->{hint}, qr/call snowflake_accept_layout\(\)/, 'and the way out');
	$node->safe_psql('app', 'SELECT snowflake_accept_layout()');
	cmp_ok($node->safe_psql('app', 'SELECT snowflake_nextval()'), '>', $last, 'taken');

	# another sequence in place of the mark
	$node->safe_psql('postgres', <<'SQL');
ALTER EXTENSION snowflake_home DROP SEQUENCE snowflake_home.mark;
DROP SEQUENCE snowflake_home.mark;
CREATE SEQUENCE snowflake_home.mark AS bigint MINVALUE 0 START 0;
ALTER EXTENSION snowflake_home ADD SEQUENCE snowflake_home.mark;
SQL
	$node->stop('immediate');
	start_node($node);
	$error = last_error($node);
	like($error->{detail}, qr/the durable mark is lost: the sequence "snowflake_home\.mark" in database "postgres" is another one/,
		'another sequence: nothing is issued');
	$node->safe_psql('app', "SELECT snowflake_accept_layout(); SELECT snowflake_advance($last)");
	cmp_ok($node->safe_psql('app', 'SELECT snowflake_nextval()'), '>', $last, 'and the way out');
	$faults++;
	return;
}

# The shutdown comes to its end, and after a restart IDs go on from the last.
sub ends_and_goes_on
{
	my ($last) = @_;

	ok(wait_for(sub { !-e $node->data_dir . '/postmaster.pid' }), 'the server has stopped');
	$node->{_pid} = undef;
	start_node($node);
	my $next = $node->safe_psql('app', "SELECT (extract(epoch FROM snowflake_timestamp($last)) * 1000000)::bigint + 1000");
	is($node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark'), $next,
		'and the mark was lowered to the next millisecond');
	my $id = $node->safe_psql('app', 'SELECT snowflake_nextval()');
	cmp_ok($id, '>', $last, 'and IDs flow after the restart');
	is($node->safe_psql('app', "SELECT snowflake_timestamp($id) - snowflake_timestamp($last) < '1 min'"), 't',
		'with the right time');
	return;
}

#
# A smart shutdown waits for a session, and the worker fails meanwhile: it comes
# back, and the session has its IDs.
#
sub test_shutdown
{
	my $session = session($node, 'app');
	my $last = $session->query_safe('SELECT snowflake_nextval()');
	my $home = session($node);
	$session->query_safe("SET snowflake.max_wait = '1s'");

	is(system('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', 'stop'), 0, 'a smart shutdown');
	$home->query_safe(FREEZE_MARK);
	ok(wait_for(sub { session_error($session, 'SELECT snowflake_nextval()')->{sqlstate} eq '55000' }),
		'the worker fails');
	$home->query_safe(THAW_MARK);
	ok(wait_for(sub { session_error($session, 'SELECT snowflake_nextval()')->{sqlstate} eq '' }),
		'IDs flow again');
	$session->query_safe('RESET snowflake.max_wait');
	$last = $session->query_safe('SELECT snowflake_nextval()');
	$_->quit foreach $session, $home;
	ends_and_goes_on($last);
	$faults++;
	return;
}

#
# A smart shutdown waits for the session, and the workers are ended meanwhile: they
# are started again, the session has its IDs, and at the end the mark is lowered to
# the last one.
#
sub test_shutdown_without_worker
{
	my $session = session($node, 'app');
	my $first = $session->query_safe('SELECT snowflake_nextval()');
	my $pid = "SELECT pid FROM pg_stat_activity WHERE backend_type";
	my $day = 0;

	is(system('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', 'stop'), 0, 'a smart shutdown');
	ok(wait_for(sub { (slurp_file($node->data_dir . '/postmaster.pid') =~ /stopping/) }), 'which waits for the session');
	foreach my $name ('mark writer', 'mark writer', 'services')
	{
		my $worker = $session->query_safe("$pid = 'snowflake $name'");
		my $error;

		$session->query_safe("SELECT pg_terminate_backend($worker)");
		ok(wait_for(sub {
			# what is drawn for a day asks the services
			$day++;
			$error = session_error($session,
				"SELECT snowflake_nextval(), snowflake_backfill(timestamptz '2021-01-01 UTC' + interval '$day days')");
			return $error->{sqlstate} ne '' || $session->query_safe("$pid = 'snowflake $name' AND pid <> $worker") ne '';
		}), "$name: it is ended and started again");
		is("$error->{sqlstate} $error->{detail}", ' ', "$name: and IDs flow all the while");
	}

	# for which the mark writer must be up
	$session->query_safe("SELECT snowflake_advance($first)");
	my $last = $session->query_safe('SELECT snowflake_nextval()');
	$session->quit;
	ends_and_goes_on($last);
	$faults++;
	return;
}

#
# What the worker says is in the encoding of its database, and is read in others
#
sub test_encodings
{
	my $word = "gr\xc3\xb6\xc3\x9fe";    # in UTF-8
	my %of = (latin1 => "gr\xf6\xdfe", utf8 => $word);
	my @databases = qw(postgres latin1 euc_jp ascii);
	my $node = PostgreSQL::Test::Cluster->new('encodings');

	$node->init(extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
	$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.max_wait = '200ms'
fsync = off
CONF
	$node->start;
	$node->safe_psql('postgres', "CREATE DATABASE $_->[0] ENCODING '$_->[1]' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	  foreach [ 'latin1', 'LATIN1' ], [ 'euc_jp', 'EUC_JP' ], [ 'ascii', 'SQL_ASCII' ];
	$node->safe_psql($_, 'CREATE EXTENSION snowflake') foreach @databases;

	# From each database: what a session that draws is told, and the checks say,
	# and the view, if it has the word too.
	my $all_say = sub {
		my ($said, $views, $name) = @_;

		foreach my $dbname (@databases)
		{
			my @said = map {
				my $sql = $_;
				my $said;

				# the worker may be at it once more
				wait_for(sub {
					my (undef, $stdout, $stderr) = $node->psql($dbname, ($dbname eq 'ascii' ? '' : 'SET client_encoding = UTF8; ') . $sql);
					my ($word_said) = "$stdout$stderr" =~ /"((?:gr|\?)[^" ]*e)"/;
					$said = $word_said // "$stdout$stderr";
					return defined $word_said;
				});
				$said;
			} ('SELECT snowflake_nextval()', q(SELECT detail FROM snowflake_check() WHERE name = 'mark'), 'SELECT last_error FROM pg_stat_snowflake')[ 0 .. 1 + $views ];
			my $expected = $said->($dbname);

			is(join(' ', @said), join(' ', ($expected) x (2 + $views)), "$name: seen from $dbname");
		}
		return;
	};
	my $fails = sub {
		return $node->poll_query_until('postgres', 'SELECT last_error IS NOT NULL FROM pg_stat_snowflake');
	};

	# not connected, so it has the name as the configuration has it
	foreach my $encoding (qw(utf8 latin1))
	{
		$node->append_conf('postgresql.conf', "snowflake.database = '$of{$encoding}'");
		$node->restart;
		ok($fails->(), "$encoding: no such database");
		$all_say->(
			sub { return $_[0] eq 'ascii' ? $of{$encoding} : $encoding eq 'latin1' ? 'gr??e' : $word; },
			0, "a name in $encoding");
	}

	# connected to a database in LATIN1: what is recorded there is in LATIN1
	$node->append_conf('postgresql.conf', "snowflake.database = 'latin1'\nsnowflake.max_wait = '1min'");
	$node->restart;
	$node->safe_psql('latin1', 'SELECT snowflake_nextval()');

	# whatever its clients are to speak, which has no conversion
	$node->safe_psql('postgres', "ALTER DATABASE latin1 SET client_encoding = 'sjis'");
	$node->restart;
	like(join('', $node->psql('postgres', 'SELECT snowflake_nextval()')), qr/^0\d+$/, 'an encoding for clients that is not possible: IDs flow');
	$node->safe_psql('postgres', 'ALTER DATABASE latin1 RESET client_encoding');

	$node->safe_psql('latin1', "SET client_encoding = UTF8; UPDATE snowflake_home.recorded SET layout = '$word'");
	$node->append_conf('postgresql.conf', "snowflake.max_wait = '200ms'");
	$node->restart;
	ok($fails->(), 'no layout');
	$all_say->(sub { return $word; }, 1, 'a home database in LATIN1');
	$node->stop;
	return;
}

#
# Another database takes the name of the home database, while the workers that
# are connected to that are ended
#
sub test_renamed
{
	my $node = bare_node('renamed', "snowflake.reserve_window = '100ms'\n");
	my $mark_of = sub { return $node->safe_psql($_[0], 'SELECT last_value FROM snowflake_home.mark'); };
	my $swap = <<SQL;
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'postgres';
ALTER DATABASE postgres RENAME TO home;
ALTER DATABASE other RENAME TO postgres;
SQL

	$node->safe_psql('postgres', 'CREATE DATABASE app; CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION snowflake_home');
	$node->safe_psql('app', 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()');
	ok(poll(sub { ($node->psql('app', $swap, on_error_stop => 1))[0] == 0 }), 'another database has the name of the home database');
	my ($home, $other) = map { $mark_of->($_) } qw(home postgres);
	ok(poll(sub { try_sql($node, 'SELECT snowflake_nextval()', 'app'); return $mark_of->('home') > $home; }), 'the mark is raised where it was');
	is($mark_of->('postgres'), $other, 'and not in the other one');
	is(error_of($node, 'DROP DATABASE home WITH (FORCE)', 'app')->{sqlstate}, '55006', 'which may be dropped, but not the home database');
	$node->safe_psql('app', 'DROP DATABASE postgres WITH (FORCE)');
	is($node->safe_psql('app', 'SELECT snowflake_nextval() > 0'), 't', 'and it is');
	$node->stop;
	return;
}

in_parallel(
	encodings => \&test_encodings,
	renamed => \&test_renamed,
	first => \&test_first,
	databases => sub {
		new_server('databases', qw(app other third));
		$ledger = new_ledger();
		test_create();
		test_lock();
		test_advance();
		test_layouts();
		test_reset();
		$node->stop;
		is($ledger->duplicates, 0, 'no ID came twice');
		is($ledger->disorder, 0, 'the IDs of a session increase');
		$ledger->report($faults);
	},
	shutdown => sub {
		new_server('shutdown', 'app');
		test_shutdown();
		test_shutdown_without_worker();
		$node->stop;
	});
done_testing();
