# Dumps and other ways of a database to a new server, with what each does to the
# mark: all options of pg_dump, pg_dumpall and pg_restore that matter, home
# databases that differ, databases in either order, and restores before the
# library is preloaded.  The old server's clock is an hour ahead, so a mark that
# is lost shows in the first ID.  docs/backup.md has the table.
#
# Every case ends with a first ID above the largest of the dump: at once, or by
# what the texts say and by nothing else.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $hour = 3600;

# Who draws in a millisecond of another server draws its IDs.
my $conf = <<'CONF';
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
snowflake.max_drift = '1d'
snowflake.max_wait = '20s'
shared_buffers = 16MB
autovacuum = off
fsync = off
CONF
my $preload = <<'CONF';
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
CONF
my $table = <<'SQL';
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE SCHEMA other;
CREATE TABLE other.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
SQL
my $pointer = "SELECT count(*) = 1 FROM pg_db_role_setting s, pg_control_system() c"
  . " WHERE s.setconfig::text LIKE '%snowflake.recorded=%on system ' || c.system_identifier || '\"%'";
my $dir = PostgreSQL::Test::Utils::tempdir('dumps');
my %taken;    # what the cases found, by line of the page's table
my $servers = 0;

sub new_server
{
	my ($name, $more, %opts) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name . '_' . ++$servers);

	$node->init(%{ $opts{init} // {} });
	$node->append_conf('postgresql.conf', $conf . $more);
	set_clock($node, $opts{clock} // 0);
	start_node($node);
	return $node;
}

# Run a program in the real time.  Returns its exit status and all that it said.
sub run_program
{
	my ($node, @command) = @_;
	my $said = '';

	$command[0] = $node->installed_command($command[0]);
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
	IPC::Run::run(\@command, '<', '/dev/null', '>&', \$said,
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	note join(' ', @command), "\n$said" if $said ne '';
	return ($? >> 8, $said);
}

sub dump_it
{
	my ($node, $program, @options) = @_;
	my ($status, $said) = run_program($node, $program, @options);

	is("$status$said", '0', join ' ', 'dumped:', $program, @options);
	return;
}

sub largest
{
	my ($node, $dbname) = @_;

	my $max = '(SELECT max(id) FROM %s)';

	return $node->safe_psql($dbname, 'SELECT greatest(' . join(', ', map { sprintf $max, $_ } split /\n/,
			$node->safe_psql($dbname, "SELECT oid::regclass FROM pg_class WHERE relname = 't'")) . ')');
}

# The old servers: their home database is their only database beside "app" or
# "zoo", or "postgres".  Both have the number of the new ones.
my (%source, %largest);
foreach my $case ([ plain => 'postgres', 'app' ], [ late => 'postgres', 'zoo' ], [ shop => 'shop', 'shop' ])
{
	my ($name, $home, $dbname) = @{$case};
	my $node = new_server($name, "$preload\nsnowflake.database = '$home'\n",
		clock => $hour, init => { force_initdb => 1 });

	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	# a home database that did not exist is tried again when an ID is asked for
	$node->safe_psql($dbname, "CREATE EXTENSION snowflake; $table;"
		  . "INSERT INTO t SELECT FROM generate_series(1, 100); INSERT INTO other.t SELECT FROM generate_series(1, 100)");
	$node->poll_query_until('postgres', $pointer) or die 'no pointer';
	$source{$name} = { node => $node, db => $dbname, home => $home };
	$largest{$name} = largest($node, $dbname);
}

# What the texts say to do, done: by the doctor's row, or by the HINT of an error.
sub follow
{
	my ($node, $dbname, $text, $largest) = @_;

	if ($text =~ /Run SELECT (\S+\.snowflake_advance\([^)]*\))/)
	{
		$node->safe_psql($dbname, "SET client_min_messages = error; SELECT $1");
	}
	else
	{
		like($text, qr/call snowflake_advance\(\) with the largest ID/i, 'the text says what to do');
		$node->safe_psql($dbname, "SET client_min_messages = error; SELECT snowflake_advance($largest)");
	}
	return;
}

sub doctor
{
	my ($node, $dbname) = @_;

	return $node->safe_psql($dbname, q(SELECT detail FROM snowflake_check() WHERE status = 'error' AND name = 'tables'));
}

# With the clock of the old server likewise: whether the mark is lost does not
# depend on the clock.
sub sees_at_any_time
{
	my ($node, $dbname, $name) = @_;

	set_clock($node, 2 * $hour);
	isnt(doctor($node, $dbname), '', "$name: the doctor sees it with the clock ahead, too");
	set_clock($node, 0);
	return;
}

# The first ID on the new server, in the database that came.  Returns "taken",
# "seen" where the doctor's error had to be followed, or "refused" where the
# server's had to.
sub outcome
{
	my ($node, $dbname, $largest, $name) = @_;
	my $outcome = 'taken';
	my $row = doctor($node, $dbname);
	my ($status, $id, $stderr);

	if ($row ne '')
	{
		$outcome = 'seen';
		$largest = largest($node, $dbname);    # not of what was left out
		sees_at_any_time($node, $dbname, $name);
		follow($node, $dbname, $row, $largest);
		# one row a table
		$row = doctor($node, $dbname);
		follow($node, $dbname, $row, $largest) if $row ne '';
	}
	($status, $id, $stderr) = $node->psql($dbname, 'SET client_min_messages = error; SELECT snowflake_nextval()');
	if ($status != 0)
	{
		$outcome = 'refused';
		note $stderr;
		follow($node, $dbname, $stderr, $largest);
		$id = $node->safe_psql($dbname, 'SET client_min_messages = error; SELECT snowflake_nextval()');
	}
	cmp_ok($id, '>', $largest, "$name: the first ID is above the largest");
	is(doctor($node, $dbname), '', "$name: and no ID that is there will come again");
	return $outcome;
}

#
# The options.  A line of the page, the old server, what is run there and here.
# In these, DB is the database that comes, FILE the dump; "psql" reads it.
#
my @restore = ('pg_restore', '-d', 'DB', 'FILE');
my @psql = ('psql', '-Xq', '-d', 'DB', '-f', 'FILE');
my @options = (
	[ '`pg_dump` in all formats', 'taken', [ 'pg_dump', '-Fp' ], \@psql ],
	[ '', 'taken', [ 'pg_dump', '-Fc' ], \@restore ],
	[ '', 'taken', [ 'pg_dump', '-Ft' ], \@restore ],
	[ '`-j`', 'taken', [ 'pg_dump', '-Fd', '-j', '2' ], [ @restore, '-j', '2' ] ],
	[ '`--inserts`, `--column-inserts`', 'taken', [ 'pg_dump', '--column-inserts' ], \@psql ],
	[ '`--clean --if-exists`', 'taken', [ 'pg_dump', '-Fc' ], [ @restore, '--clean', '--if-exists' ] ],
	[ '', 'taken', [ 'pg_dump', '--clean', '--if-exists' ], \@psql ],
	[ 'each `--section`', 'taken', [ 'pg_dump', '-Fc' ],
		[ @restore, '--section=pre-data' ], [ @restore, '--section=data' ], [ @restore, '--section=post-data' ] ],
	[ '`--schema-only`, then `--data-only`', 'taken', [ 'pg_dump', '-Fc' ], [ @restore, '-s' ], [ @restore, '-a' ] ],
	[ '`--single-transaction`', 'taken', [ 'pg_dump', '-Fc' ], [ @restore, '-1' ] ],
	[ '`--no-owner`, `--no-privileges`', 'taken', [ 'pg_dump', '-Fc', '-O', '-x' ], [ @restore, '-O', '-x' ] ],
	[ '`--exclude-table-data` of your tables', 'taken', [ 'pg_dump', '-Fc', '--exclude-table-data=public.*' ], \@restore ],
	[ '`-n`, `-t` with `--extension=snowflake`', 'taken', [ 'pg_dump', '-Fc', '-n', 'public', '-n', 'other', '--extension=snowflake' ],
		[ 'psql', '-Xq', '-d', 'DB', '-c', 'DROP SCHEMA public' ], \@restore ],
	[ '', 'taken', [ 'pg_dump', '-Fc', '-t', 't', '--extension=snowflake' ], \@restore ],
	[ '`pg_dump -n`, `-t` without `--extension`', 'seen', [ 'pg_dump', '-Fc', '-n', 'public', '-n', 'other' ],
		[ 'psql', '-Xq', '-d', 'DB', '-c', 'DROP SCHEMA public; CREATE SCHEMA public; CREATE EXTENSION snowflake' ], \@restore ],
	[ '', 'seen', [ 'pg_dump', '-Fc', '-t', 't' ], [ 'psql', '-Xq', '-d', 'DB', '-c', 'CREATE EXTENSION snowflake' ], \@restore ],
	[ '`pg_restore -n`', 'seen', [ 'pg_dump', '-Fc' ],
		[ 'psql', '-Xq', '-d', 'DB', '-c', 'CREATE EXTENSION snowflake' ], [ @restore, '-n', 'public' ] ],
	[ '`--exclude-table-data` of all tables, rows by your `COPY`', 'seen', [ 'pg_dump', '-Fc', '--exclude-table-data=*.*' ], \@restore, 'rows' ],
	[ '`--schema-only`, rows by your `COPY`', 'seen', [ 'pg_dump', '-s' ], \@psql, 'rows' ],
	[ '`--disable-triggers`', 'seen', [ 'pg_dump', '-Fc' ], [ @restore, '-s' ], [ @restore, '-a', '--disable-triggers' ] ]);

# Run what a case has on a server.
sub restore
{
	my ($node, $dbname, $file, @steps) = @_;

	local $ENV{PGOPTIONS} = '-c snowflake.max_wait=1min';
	foreach my $step (@steps)
	{
		if ($step eq 'rows')
		{
			$node->safe_psql($dbname, "COPY $_ FROM '$dir/rows.$_'") foreach 't', 'other.t';
			next;
		}
		run_program($node, map { $_ eq 'DB' ? $dbname : $_ eq 'FILE' ? $file : $_ } @{$step});
	}
	return;
}

{
	my ($old, $dbname) = @{ $source{plain} }{ 'node', 'db' };
	$old->safe_psql($dbname, "COPY $_ TO '$dir/rows.$_'") foreach 't', 'other.t';
}
my $line;
my $n = 0;
foreach my $case (@options)
{
	my ($label, $expected, $dump, @steps) = @{$case};
	my ($old, $dbname) = @{ $source{plain} }{ 'node', 'db' };
	my $file = "$dir/" . ++$n;
	my $name = join ', ', map { ref ? join ' ', grep { !/^(DB|FILE|-d|-Xq)$/ } @{$_} : $_ } $dump, @steps;

	$line = $label if $label ne '';
	dump_it($old, @{$dump}, '-d', $dbname, '-f', $file);
	foreach my $preloaded ($expected eq 'taken' ? (1, 0) : 1)
	{
		my $node = new_server('new', $preloaded ? $preload : '');
		my $here = $name . ($preloaded ? '' : ', not preloaded');

		# not into the home database, where a restore in one transaction fails
		$node->safe_psql('postgres', 'CREATE DATABASE app');
		restore($node, 'app', $file, @steps);
		if (!$preloaded)
		{
			$node->append_conf('postgresql.conf', $preload);
			$node->stop;
			start_node($node);
		}
		my $outcome = outcome($node, 'app', $largest{plain}, $here);
		is($outcome, $expected, "$here: $expected");
		$taken{$line} = $expected;
		$node->stop;
	}
}

#
# Whole servers, and databases with their settings: the old server, the home
# database of the new one, the dump, what is run here.
#
my @all = ('psql', '-Xq', '-d', 'template1', '-f', 'FILE');
my @create = ('pg_restore', '-C', '-d', 'postgres', 'FILE');
my @wholes = (
	[ '`pg_dumpall`', 'taken', 'plain', 'postgres', ['pg_dumpall'], \@all ],
	[ '', 'taken', 'late', 'postgres', ['pg_dumpall'], \@all ],
	[ '', 'taken', 'shop', 'shop', ['pg_dumpall'], \@all ],
	[ '', 'taken', 'shop', 'postgres', ['pg_dumpall'], \@all ],
	[ '`pg_dumpall --clean --if-exists`', 'taken', 'plain', 'postgres', [ 'pg_dumpall', '--clean', '--if-exists' ], \@all ],
	[ '', 'taken', 'late', 'postgres', [ 'pg_dumpall', '--clean', '--if-exists' ], \@all ],
	[ '', 'taken', 'shop', 'shop', [ 'pg_dumpall', '--clean', '--if-exists' ], \@all ],
	[ '', 'taken', 'shop', 'postgres', [ 'pg_dumpall', '--clean', '--if-exists' ], \@all ],
	[ '`pg_dump -C`, `pg_restore -C`', 'taken', 'shop', 'shop', [ 'pg_dump', '-Fc' ], \@create ],
	[ '', 'taken', 'shop', 'postgres', [ 'pg_dump', '-Fc' ], \@create ],
	[ '', 'taken', 'late', 'postgres', [ 'pg_dump', '-C' ], [ 'psql', '-Xq', '-d', 'template1', '-f', 'FILE' ] ],
	[ '', 'taken', 'shop', 'shop', [ 'pg_dump', '-Fc' ], [ @create, '-j', '2' ] ],
	[ '`-C` into another home database, without the mark', 'refused', 'shop', 'postgres', [ 'pg_dump', '-Fc' ], [ @create, '-n', 'public', '-n', 'other' ] ]);

foreach my $case (@wholes)
{
	my ($label, $expected, $from, $home, $dump, @steps) = @{$case};
	my ($old, $dbname) = @{ $source{$from} }{ 'node', 'db' };
	my $file = "$dir/" . ++$n;
	my @database = $dump->[0] eq 'pg_dump' ? ('-d', $dbname) : ();
	my $name = join ' ', @{$dump}, "of $from into home $home:", @{ $steps[0] };

	$line = $label if $label ne '';
	dump_it($old, @{$dump}, @database, '-f', $file);
	foreach my $preloaded (1, 0)
	{
		my $here = $name . ($preloaded ? '' : ', not preloaded');
		my $node = new_server('new', ($preloaded ? $preload : '') . "snowflake.database = '$home'\n");

		restore($node, $dbname, $file, @steps);
		if (!$preloaded)
		{
			$node->append_conf('postgresql.conf', $preload);
			$node->stop;
			start_node($node);
		}
		# where the extension was not restored, there is none
		$node->safe_psql($dbname, 'CREATE EXTENSION IF NOT EXISTS snowflake');
		# the refusal is also that of a session which does not look at the doctor
		my $outcome = $expected eq 'refused' ? refused($node, $dbname, $largest{$from}, $here) :
		  outcome($node, $dbname, $largest{$from}, $here);
		is($outcome, $expected, "$here: $expected");
		$taken{$line} = $expected;

		# After a restart, which mends what the dump has overwritten since the first ID.
		# Nothing is left of it.
		$node->stop;
		start_node($node);
		cmp_ok($node->safe_psql($dbname, 'SET client_min_messages = error; SELECT snowflake_nextval()'), '>', $largest{$from}, "$here: likewise after a restart");
		ok($node->poll_query_until('postgres', $pointer), "$here: it is recorded where the mark is");
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text LIKE '%restored=%'"), '0',
			"$here: and nothing is left to take");
		is($node->safe_psql($dbname, q(SELECT status FROM snowflake_check() WHERE name = 'layout')), 'ok', "$here: and nothing is to be done");
		$node->stop;
	}
}

sub refused
{
	my ($node, $dbname, $largest, $name) = @_;
	my ($status, undef, $stderr) = $node->psql($dbname, 'SELECT snowflake_nextval()');

	isnt($status, 0, "$name: refused");
	like($stderr, qr/says that it holds the durable mark of another server/, "$name: by that error");
	follow($node, $dbname, $stderr, $largest);
	cmp_ok($node->safe_psql($dbname, 'SET client_min_messages = error; SELECT snowflake_nextval()'), '>', $largest, "$name: the first ID is above the largest");
	return 'refused';
}

#
# Into a server that has drawn, and back into the old one
#
{
	my $node = new_server('used', $preload);
	my $file = "$dir/used";

	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake; SELECT snowflake_nextval(); CREATE DATABASE app');
	dump_it($source{plain}{node}, 'pg_dump', '-Fc', '-d', 'app', '-f', $file);
	restore($node, 'app', $file, \@restore);
	is(outcome($node, 'app', $largest{plain}, 'into a server that has drawn'), 'taken', 'into a server that has drawn: taken');
	$node->stop;

	my $old = $source{plain}{node};
	$old->safe_psql('postgres', 'DROP DATABASE app; CREATE DATABASE app');
	set_clock($old, 0);
	restore($old, 'app', $file, \@restore);
	is(outcome($old, 'app', $largest{plain}, 'back into the old server'), 'taken', 'back into the old server: taken');

	# the home database is not dropped while it has the mark
	$old = $source{shop}{node};
	my ($status, $said) = run_program($old, 'psql', '-Xq', '-d', 'postgres', '-c', 'DROP DATABASE shop WITH (FORCE)');
	like($said, qr/it holds the durable mark/, 'a home database: refused');
	$_->{node}->stop foreach values %source;
}

#
# The same databases under another system identifier: the tables of the home
# database count, and a wrong home database is noticed.
#
sub has_other_identifier
{
	my ($node, $largest, $name) = @_;

	set_clock($node, 0);
	$node->append_conf('postgresql.conf', "snowflake.database = 'postgres'");
	start_node($node);
	my ($status, undef, $stderr) = $node->psql('shop', 'SELECT snowflake_nextval()');
	like($stderr, qr/says that it holds the durable mark of another server/, "$name, another home database: refused");
	like($stderr, qr/set "snowflake\.database" to "shop" and restart it/, "$name, another home database: with that hint");
	$node->append_conf('postgresql.conf', "snowflake.database = 'shop'");
	$node->stop;
	start_node($node);
	is(outcome($node, 'shop', $largest, $name), 'taken', "$name: taken");
	ok($node->poll_query_until('postgres', $pointer), "$name: the pointer is of this system");
	$node->stop;
	return;
}

{
	my $old = $source{shop}{node};
	my $new = PostgreSQL::Test::Cluster->new('upgraded');
	my $tmp = PostgreSQL::Test::Utils::tempdir_short();
	my $bin = $old->config_data('--bindir');

	$new->init(force_initdb => 1);
	$new->append_conf('postgresql.conf', $conf . $preload);
	IPC::Run::run(
		[
			$new->installed_command('pg_upgrade'), '--no-sync', '-b', $bin, '-B', $bin,
			'-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port, '-s', $tmp
		],
		'<', '/dev/null', '>&', \my $said, init => sub { chdir $tmp or die "$tmp: $!" });
	is($?, 0, 'pg_upgrade: done') or diag $said;
	has_other_identifier($new, $largest{shop}, 'pg_upgrade');
}

if ($source{shop}{node}->pg_version >= 17)
{
	my $primary = new_server('publisher', "${preload}snowflake.database = 'shop'\n",
		clock => $hour, init => { force_initdb => 1, allows_streaming => 'logical' });
	my $standby = PostgreSQL::Test::Cluster->new('subscriber');

	$primary->safe_psql('postgres', 'CREATE DATABASE shop');
	$primary->safe_psql('shop', "CREATE EXTENSION snowflake; $table; INSERT INTO t SELECT FROM generate_series(1, 100)");
	$primary->poll_query_until('postgres', $pointer) or die 'no pointer';
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	my ($status, $said) = run_program($primary, 'pg_createsubscriber', '-D', $standby->data_dir,
		'-P', $primary->connstr('shop'), '-d', 'shop', '-p', $standby->port, '-s', $standby->host);
	is($status, 0, 'pg_createsubscriber: done') or diag $said;
	has_other_identifier($standby, largest($primary, 'shop'), 'pg_createsubscriber');
	$primary->stop;
}

#
# The table of the page: a row for each outcome, with all that have it
#
{
	my $page = slurp_file('docs/backup.md');
	my %says = (
		taken => 'is taken',
		seen => 'is lost; [`snowflake_check()`](#dumps-without-the-mark) says so',
		refused => 'is lost; the server refuses to draw');

	foreach my $outcome (sort keys %says)
	{
		my @found = grep { $taken{$_} eq $outcome } sort keys %taken;
		my ($row) = $page =~ /^\| (.*) \| \Q$says{$outcome}\E \|$/m;

		note "$outcome: ", join '; ', @found;
		is_deeply([ sort split /; /, $row // '' ], \@found, "the page has what is $outcome");
	}
}

done_testing();
