# What the TAP tests share.

package SnowflakeTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More ();

our @EXPORT = qw(
  snowflake_node
  start_node
  restart_with_conf
  reload_node
  set_clock
  write_clock
  clock_env
  forget_mark
  await_pointer
  has_extension
  need_extension
  start_sql
  finish_sql
  outlast
  psql_error
  session
  session_error
);

# From PostgreSQL 17 on PostgreSQL::Test::Utils catches SIGCHLD, so that a sleep
# would end early whenever a program that the test has started does.
INIT { $SIG{CHLD} = 'DEFAULT'; }

# The superuser of the tests' servers, whoever runs the tests: a name that no
# test gives to a role.
$ENV{PGUSER} = 'snowflake_tester';

# Have $node->init() make that superuser; and where scripts/test.sh made a data
# directory of a new server, copy that, since initdb takes longer.  From 17 on
# the server's own tests do the same.  But copies have one system identifier,
# by which servers and registries know each other: initdb runs for
# force_initdb => 1, and for all servers of a test that uses LeaseTest.
{
	my $init = \&PostgreSQL::Test::Cluster::init;

	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::init = sub {
		my ($self, %params) = @_;
		my $run = \&PostgreSQL::Test::Utils::system_or_bail;
		my $template = $ENV{SNOWFLAKE_TEMPLATE};

		undef $template
		  if $params{extra} || delete $params{force_initdb} || $INC{'LeaseTest.pm'};
		local *PostgreSQL::Test::Utils::system_or_bail = sub {
			return $run->(@_) if $_[0] ne 'initdb';
			return $run->(@_, '-U', $ENV{PGUSER}) if !defined $template;
			return $run->('cp', '-RPp', $template, $self->data_dir);
		};
		$self->$init(%params);
		# what only costs, in tests that are not about faults
		$self->append_conf('postgresql.conf', "autovacuum = off\n" . ($params{allows_streaming} ? '' : "max_logical_replication_workers = 0\n"))
		  if !$INC{'FaultTest.pm'};
		return;
	};
}

# Tell pg_ctl where the server is, since else it starts one to ask its version.
{
	my $run = \&PostgreSQL::Test::Utils::system_log;

	no warnings 'redefine';
	*PostgreSQL::Test::Utils::system_log = sub {
		my @command = @_;

		push @command, '-p', (grep { -x } map { "$_/postgres" } split(/:/, $ENV{PATH}))[0]
		  if $command[0] eq 'pg_ctl' && $command[-1] eq 'start';
		return $run->(@command);
	};
}

# A running server with the extension created in the database "postgres", in which
# sessions wait, as the machine may have much else to do.
# $conf is added to its configuration, %init goes to $node->init().  With
# clock => seconds in %init the server has a clock of its own, that far from
# the real one, which set_clock() sets.
sub snowflake_node
{
	my ($name, $conf, %init) = @_;
	my $clock = delete $init{clock};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%init);
	$node->append_conf('postgresql.conf', <<CONF . ($conf // ''));
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.max_wait = '1min'
fsync = off
CONF
	set_clock($node, $clock) if defined $clock;
	start_node($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	return $node;
}

# Start a node, with its own clock if it was given one.  Restart such a node
# by $node->stop and this, not by $node->restart.
sub start_node
{
	my ($node, %params) = @_;
	my $file = clock_file($node);

	return $node->start(%params) unless -e $file;
	local %ENV = (%ENV, clock_env($file));
	return $node->start(%params);
}

# What gives a program a clock that a file sets.  It reads the file at each look at
# the clock; all other clocks are left alone.  Where libfaketime can do without its
# semaphore (after 0.9.10) it does: a new process may wait for that forever.
sub clock_env
{
	my ($file) = @_;
	my ($library) = grep { -e }
	  glob '/usr/{lib,lib64,lib/*}/faketime/libfaketimeMT.so.1';

	die "libfaketime is missing: install the package faketime\n"
	  unless defined $library;
	return (
		LD_PRELOAD => join(' ', $library, $ENV{LD_PRELOAD} // ()),
		FAKETIME_TIMESTAMP_FILE => $file,
		FAKETIME_NO_CACHE => 1,
		FAKETIME_DISABLE_SHM => 1,
		FAKETIME_DONT_FAKE_MONOTONIC => 1,
		NO_FAKE_STAT => 1);
}

# Start such a node anew with these settings, in place of those of the call before:
# its configuration includes test.conf, if that exists.
sub restart_with_conf
{
	my ($node, $conf) = @_;
	my $file = $node->data_dir . '/test.conf';

	$node->stop;
	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, $conf);
	start_node($node);
	return;
}

# Have it read its settings, and wait until the postmaster has, which tells its
# processes before it starts another one.  Without that a shutdown that follows
# may overtake the signal.
sub reload_node
{
	my ($node) = @_;
	my $read_at = $node->safe_psql('postgres', 'SELECT pg_conf_load_time()');

	$node->reload;
	$node->poll_query_until('postgres', "SELECT pg_conf_load_time() <> '$read_at'")
	  or die $node->name . ' does not read its settings';
	return;
}

# Set a node's clock so many seconds, negative or positive, from the real one.
# It applies to all processes at once: the file is never seen half written.
sub set_clock
{
	my ($node, $seconds) = @_;

	return write_clock(clock_file($node), $seconds);
}

sub write_clock
{
	my ($file, $seconds) = @_;

	open my $fh, '>', "$file.new" or die "$file.new: $!";
	printf $fh "%+.6f\n", $seconds;
	close $fh or die "$file.new: $!";
	rename "$file.new", $file or die "$file: $!";
	return;
}

# Let the next start be like that of a new server, which may have another layout
# or epoch and draws in any time unit.  On the running server, just before it
# is stopped; nobody may draw IDs meanwhile.
sub forget_mark
{
	my ($node) = @_;

	# not before the services have written where the mark is: they would do it afterwards
	await_pointer($node)
	  if $node->safe_psql('postgres', <<'SQL') eq 't';
SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_home') AS found \gset
\if :found
SELECT is_called FROM snowflake_home.mark
\endif
SQL
	$node->safe_psql('postgres', <<'SQL');
SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_home') AS found \gset
\if :found
SELECT setval('snowflake_home.mark', 0, false);
DELETE FROM snowflake_home.recorded;
\endif
ALTER DATABASE postgres RESET snowflake.recorded;
SQL
	return;
}

# Other databases see where the mark is when the services have written so, which
# is soon after the first ID, not before it.
sub await_pointer
{
	my ($node) = @_;

	return $node->poll_query_until('postgres',
		q(SELECT count(*) = 1 FROM pg_db_role_setting WHERE setconfig::text LIKE '%snowflake.recorded=%'));
}

# Is there another extension, from Debian's package postgresql-MAJOR-$package?
# Without it the test fails, except where scripts/test.sh says that there is no
# such package.
sub has_extension
{
	my ($extension, $package) = @_;
	my ($share) = PostgreSQL::Test::Utils::run_command(
		[ 'pg_config', '--sharedir' ]);

	return 1 if -e "$share/extension/$extension.control";
	return 0 if grep { $_ eq $package } split(/ /, $ENV{SNOWFLAKE_NO_PACKAGE} // '');
	die "$extension is missing: install the package "
	  . "postgresql-MAJOR-$package of this server version\n";
}

# The test is about that extension.
sub need_extension
{
	my ($extension, $package) = @_;

	Test::More::plan(
		skip_all => "Debian has no package of $extension for this server")
	  if !has_extension($extension, $package);
	return;
}

sub clock_file { return $_[0]->basedir . '/clock'; }

# Run a script in a psql of its own and do not wait for it.  By way of files,
# since nobody may be here to fill and empty a pipe.
sub start_sql
{
	my ($node, $sql, $dbname) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/psql';

	open my $fh, '>', $file or die "$file: $!";
	print $fh $sql;
	close $fh or die "$file: $!";
	my $run = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq',
			'-v', 'ON_ERROR_STOP=1',
			'-v', 'VERBOSITY=verbose',
			'-d', $node->connstr($dbname // 'postgres'),
			'-f', $file
		],
		'<', '/dev/null', '>', "$file.out", '2>', "$file.err",
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	return { run => $run, file => $file };
}

# Wait for its end.  Returns what it printed as results and as errors.
sub finish_sql
{
	my ($psql) = @_;

	$psql->{run}->finish;
	return
	  map { s/\n\z//r }
	  map { PostgreSQL::Test::Utils::slurp_file("$psql->{file}.$_") }
	  qw(out err);
}

# Wait until so many others of this application_name wait for a lock, and then
# for longer than the interval at which a function says how far it is.
sub outlast
{
	my ($node, $name, $count) = @_;

	$node->poll_query_until('postgres',
		"SELECT count(*) = $count FROM pg_stat_activity WHERE application_name = '$name' AND wait_event_type = 'Lock'")
	  or die "$count do not wait";
	my $since = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	$node->poll_query_until('postgres', "SELECT clock_timestamp() > '$since'::timestamptz + interval '5.2 s'")
	  or die 'the clock stands still';
	return;
}

# Take the first error apart that a psql with VERBOSITY=verbose has printed.
# Returns a hash, whose sqlstate is '' when there was none.
sub psql_error
{
	my ($stderr) = @_;
	my %error = (sqlstate => '', message => '', detail => '', hint => '');

	if ($stderr =~ /^(?:psql:\S+ )?(?:ERROR|FATAL):  (\w{5}): (.*)$/m)
	{
		@error{qw(sqlstate message)} = ($1, $2);
		$error{detail} = $1 if $stderr =~ /^DETAIL:  (.*)$/m;
		$error{hint} = $1 if $stderr =~ /^HINT:  (.*)$/m;
	}
	return \%error;
}

# A psql that stays connected, for as long as it takes: a BackgroundPsql of
# PostgreSQL's own.
sub session
{
	my ($node, $dbname) = @_;
	my $session = $node->background_psql(
		$dbname // 'postgres',
		on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=verbose' ],
		timeout => 2 * $PostgreSQL::Test::Utils::timeout_default);

	# for each query, and for the end, however long it was idle before
	$session->set_query_timer_restart;
	return bless $session, 'SnowflakeTest::Session';
}

# Run a statement there that fails, and go on.  Returns as psql_error().
sub session_error
{
	my ($session, $sql) = @_;

	$session->query($sql);
	my $error = psql_error($session->{stderr});
	$session->{stderr} = '';
	return $error;
}

package SnowflakeTest::Session;

our @ISA = ('PostgreSQL::Test::BackgroundPsql');

sub quit
{
	my ($self) = @_;

	$self->{timeout}->start;
	return $self->SUPER::quit;
}

1;
