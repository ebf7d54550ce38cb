# A database comes back from elsewhere, and the clock is behind: base backup,
# point-in-time recovery, dump and restore, pg_upgrade.  Nothing is issued
# until the clock is past the mark that came along, and then no ID comes again.
#
# SNOWFLAKE_OLD_BINDIR names the programs of an older server that has the
# extension, to upgrade from; without it, pg_upgrade goes from this version to
# itself.

use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $hour = 3600;
my $faults = 0;
my $drawn = 0;

# 256 IDs a millisecond, that begin with the same ones: whoever draws in a
# millisecond of another server draws its IDs.
my $layout = 'time:41 node:5 worker:2 sequence:6';
my $conf = <<"CONF";
snowflake.layout = '$layout'
snowflake.sequence_start = zero
snowflake.reserve_window = 400ms
snowflake.max_wait = 300ms
snowflake.max_drift = 100ms
max_connections = 50
shared_buffers = 16MB
autovacuum = off
log_statement = none
CONF
my $preload = <<'CONF';
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
CONF

my $table = 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), '
  . 'server text DEFAULT current_setting(\'cluster_name\'))';
my $insert = 'INSERT INTO t DEFAULT VALUES RETURNING id';
my $mark = 'SELECT last_value FROM snowflake_home.mark';
my $recorded = 'SELECT layout, epoch, node FROM snowflake_home.recorded';

#
# What the parts share
#

# A new server that has never heard of snowflake but for its configuration, and
# does not run yet.  Options: clock; init, for initdb; install_path.
sub new_cluster
{
	my ($name, $more, %opts) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name,
		$opts{install_path} ? (install_path => $opts{install_path}) : ());

	$node->init(%{ $opts{init} // {} });
	$node->append_conf('postgresql.conf', $conf . $more);
	set_clock($node, $opts{clock} // 0);
	return $node;
}

sub new_server
{
	my ($name, $clock, $more) = @_;
	my $node = new_cluster($name, $more // $preload, clock => $clock);

	start_node($node);
	return $node;
}

# IDs flow, into the table that was restored and elsewhere.
sub flows
{
	my ($node, $dbname, $ledger, $name, %opts) = @_;
	my @draws = (
		start_draw($node, sessions => 4, dbname => $dbname),
		start_draw($node, sessions => 4, dbname => $dbname, sql => $insert));

	wait_drawn($draws[0], $opts{ids} // 10_000);
	wait_drawn($draws[1], 100);

	# Whoever came first may have waited too long.  Above all there must not be
	# 23505, unique_violation.
	like(join(' ', map { sqlstates($_) } @draws),
		qr/^(55P03| )*$/, "$name: IDs flow");
	$ledger->add($_) foreach @draws;
	return;
}

# The ways out of a clock that is behind: set it right; set it to a moment and
# let it catch up; raise max_drift and so draw each ID from the mark on.
sub way_out
{
	my ($node, $dbname, $ledger, $name, $way, $moment) = @_;

	if ($way eq 'right')
	{
		set_clock($node, 0);
		flows($node, $dbname, $ledger, "$name, clock right");
	}
	elsif ($way eq 'again')
	{
		set_clock($node, $moment - time());
		flows($node, $dbname, $ledger, "$name, clock at that moment");
	}
	else
	{
		$node->safe_psql('postgres',
			"ALTER SYSTEM SET snowflake.max_drift = '1d'");
		reload_node($node);
		flows($node, $dbname, $ledger, "$name, max_drift raised",
			ids => 30_000);
	}
	return;
}

# The end of a ledger.
sub is_unique
{
	my ($ledger, $name) = @_;

	is($ledger->duplicates, 0, "$name: no ID came twice");
	is($ledger->disorder, 0, "$name: the IDs of each session increase");
	$drawn += $ledger->count;
	return;
}

# At the end of a part
sub summary
{
	note "$drawn IDs drawn, $faults faults survived, 0 duplicates"
	  if Test::More->builder->is_passing;
	return;
}

# A ledger that begins with these IDs.
sub ledger_of
{
	my ($name, @ids) = @_;
	my %ids = map { $_ => 1 } @ids;
	my $ledger = new_ledger();

	$ledger->add_ids($name, sort { $a <=> $b } keys %ids);
	return $ledger;
}

sub rows
{
	my ($node, $dbname) = @_;

	return split /\n/,
	  $node->safe_psql($dbname // 'postgres', 'SELECT id FROM t');
}

# The IDs that a draw has recorded up to now.
sub received
{
	my ($draw) = @_;

	return map { $_->[1] }
	  grep { @{$_} == 2 }
	  map { [ split / / ] } split /\n/, slurp_file($draw->{ids}) =~ s/[^\n]*\z//r;
}

# Wait until the mark has been raised so many times.
sub wait_renewals
{
	my ($node, $times) = @_;
	my $last = $node->safe_psql('postgres', $mark);

	foreach (1 .. $times)
	{
		$node->poll_query_until('postgres', "SELECT ($mark) > $last")
		  or die 'the mark is not raised';
		$last = $node->safe_psql('postgres', $mark);
	}
	return;
}

# Run a program.  Returns its exit status and what it said as errors.
sub run_program
{
	my ($node, @command) = @_;
	my ($output, $stderr) = ('', '');
	my $program = $node->installed_command(shift @command);

	local %ENV = %ENV;
	delete @ENV{ grep { /^(LD_PRELOAD|FAKETIME.*)$/ } keys %ENV };
	note join ' ', $program, @command;
	IPC::Run::run([ $program, @command ], '<', '/dev/null',
		'>', \$output, '2>', \$stderr,
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	my $status = $? >> 8;
	note "exit status $status\n$stderr" if $stderr ne '' || $status != 0;
	return ($status, $stderr);
}

#
# (1), (2) Base backup and point-in-time recovery
#
sub test_backup
{
	my $origin = snowflake_node(
		'origin', $conf,
		has_archiving => 1,
		allows_streaming => 1,
		clock => 0);
	$origin->safe_psql('postgres', $table);

	# All that is drawn at first is drawn before the end of the backup, which
	# is slow, and stopped for a while, for that.
	my @first = (
		start_draw($origin, sessions => 4),
		start_draw($origin, sessions => 4, sql => $insert));
	wait_drawn($_, 100) foreach @first;

	my $phase = 'SELECT phase FROM pg_stat_progress_basebackup';
	my $backup = IPC::Run::start(
		[
			'pg_basebackup', '-d', $origin->connstr('postgres'),
			'-D', $origin->backup_dir . '/base',
			'--checkpoint', 'fast', '--no-sync', '--max-rate', '1M'
		],
		'>', \my $output, '2>&1',
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	$origin->poll_query_until('postgres',
		"SELECT ($phase) = 'streaming database files'")
	  or die "no backup: $output";
	$backup->signal('STOP');
	wait_renewals($origin, 3);
	stop_draw($_) foreach @first;
	my $backed_up = time();
	is($origin->safe_psql('postgres', $phase),
		'streaming database files',
		'the backup goes on when these IDs have been drawn');
	$backup->signal('CONT');
	$backup->finish or die "pg_basebackup failed: $output";
	my @in_backup = map { received($_) } @first;
	my @rows_in_backup = received($first[1]);

	# The points to recover to, between renewals, while others draw.  IDs that
	# have been received before are drawn before.
	my @more = (
		start_draw($origin, sessions => 4),
		start_draw($origin, sessions => 4, sql => $insert));
	my %point;
	wait_drawn($_, 100) foreach @more;
	foreach my $name ('one', 'two', 'three')
	{
		wait_renewals($origin, 2) unless $name eq 'one';
		usleep(rand 300_000);
		my @ids = (@in_backup, map { received($_) } @more);
		my @rows = (@rows_in_backup, received($more[1]));
		my $lsn = $origin->safe_psql('postgres',
			"SELECT pg_create_restore_point('$name')");
		$point{$name} = { time => time(), ids => \@ids, rows => \@rows };
	}
	wait_renewals($origin, 3);
	stop_draw($_) foreach @more;
	my $wal = $origin->safe_psql('postgres',
		'SELECT pg_walfile_name(pg_switch_wal())');
	$origin->poll_query_until('postgres',
		"SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver")
	  or die "$wal is not archived";
	my %all = map { $_ => 1 } @in_backup, map { received($_) } @more;
	$origin->stop('immediate');
	$faults++;

	my $recover = sub {
		my ($name, $more, %opts) = @_;
		my $node = PostgreSQL::Test::Cluster->new($name);

		$node->init_from_backup($origin, 'base', standby => 0, %opts);
		$node->append_conf('postgresql.conf', "archive_mode = off\n$more");
		set_clock($node, -$hour);
		start_node($node);
		$faults++;
		return $node;
	};
	my $wait_promoted = sub {
		my ($node) = @_;

		$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
		  or die 'the recovery does not end';
		return;
	};

	# the backup alone
	foreach my $way ('again', 'ahead')
	{
		my $name = "base backup, $way";
		my $node = $recover->("backup_$way", '');
		my @rows = rows($node);
		my %there = map { $_ => 1 } @rows;
		my $ledger = ledger_of($name, @in_backup, @rows);

		is(scalar(grep { !$there{$_} } @rows_in_backup),
			0, "$name: the rows are there");
		issues_nothing($node, session($node), $ledger, $name);
		way_out($node, 'postgres', $ledger, $name, $way, $backed_up - 1);
		is_unique($ledger, $name);
		$node->stop;
	}

	# to a point: what was drawn before it, and what is there
	foreach my $case ([ one => 'again' ], [ two => 'ahead' ], [ three => 'right' ])
	{
		my ($point, $way) = @{$case};
		my $name = "recovered to point $point, $way";
		my $node = $recover->(
			"point_$point", <<CONF, has_restoring => 1);
recovery_target_name = '$point'
recovery_target_action = 'promote'
CONF
		$wait_promoted->($node);

		my @rows = rows($node);
		my %there = map { $_ => 1 } @rows;
		my @before = (@{ $point{$point}{ids} }, @rows);
		my %before = map { $_ => 1 } @before;
		my @after = grep { !$before{$_} } keys %all;
		# With the clock right, nothing comes again.
		my $ledger = ledger_of($name, @before, $way eq 'right' ? @after : ());

		is(scalar(grep { !$there{$_} } @{ $point{$point}{rows} }),
			0, "$name: the rows are there");
		cmp_ok(scalar(@after), '>', 1000, "$name: IDs were drawn after it");
		issues_nothing($node, session($node), $ledger, $name);
		way_out($node, 'postgres', $ledger, $name, $way,
			$point{$point}{time} - 1);
		is_unique($ledger, $name);

		# not asserted: these may come again
		if ($way ne 'right')
		{
			my %after = map { $_ => 1 } @after;
			my $again = grep { $after{$_} } rows($node);
			note "$name: of " . @after . " IDs drawn after the point, "
			  . "$again came again as IDs of rows, as this clock allows";
		}
		$node->stop;
	}

	# While it is in recovery: nothing is issued, and a dump would take the
	# clock for the mark.
	my $node = $recover->('paused', <<CONF, has_restoring => 1);
recovery_target_name = 'one'
recovery_target_action = 'pause'
CONF
	$node->poll_query_until('postgres',
		"SELECT pg_get_wal_replay_pause_state() = 'paused'")
	  or die 'the recovery is not paused';
	my $session = session($node);
	my ($id, $error) = draw_one($session);
	is( "$id$error->{sqlstate}: $error->{message}",
		'25006: cannot generate snowflake IDs during recovery',
		'recovery paused: nothing is issued');
	is($node->safe_psql('postgres', <<'SQL'),
SELECT issued_until BETWEEN statement_timestamp() + interval '100 ms' AND clock_timestamp() + interval '100 ms'
FROM (SELECT current_setting('snowflake.issued_until')::timestamptz AS issued_until OFFSET 0) AS s
SQL
		't', 'recovery paused: a dump would take the clock and max_drift');
	my $ledger = ledger_of('point one', @{ $point{one}{ids} });
	$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	$wait_promoted->($node);
	issues_nothing($node, session($node), $ledger, 'recovery resumed');
	set_clock($node, 0);
	ok( wait_for(sub {
			($id) = draw_one($session);
			return $id ne '';
		}),
		'recovery resumed: a session that was there before draws');
	$ledger->add_ids('resumed', $id) if $id ne '';
	is_unique($ledger, 'recovery resumed');
	$session->quit;
	$node->stop;
	return summary();
}

#
# (3) Dump and restore
#
my $dir = PostgreSQL::Test::Utils::tempdir('dumps');

# Dump a database of a node, with these options, into a file.
sub dump_database
{
	my ($node, $dbname, $file, @options) = @_;
	my ($status, $stderr) = run_program($node, 'pg_dump',
		'-d', $node->connstr($dbname), '-f', "$dir/$file", @options);

	is("$status$stderr", '0', "dump to $file");
	return;
}

# Restore a dump by psql or pg_restore, with this max_wait, else one that is long
# enough for a busy machine.  Returns the exit status and the messages.
sub restore
{
	my ($node, $dbname, $file, %opts) = @_;
	my @options = @{ $opts{options} // [] };
	my $connstr = $node->connstr($dbname);

	$connstr .= " user=$opts{user}" if $opts{user};
	local $ENV{PGOPTIONS} =
	  '-c snowflake.max_wait=' . ($opts{max_wait} // '1min');
	return run_program($node, 'psql', '-Xq', '-v', 'VERBOSITY=verbose',
		'-d', $connstr, '-f', "$dir/$file", @options)
	  if $file =~ /\.sql$/;
	return run_program($node, 'pg_restore', '-d', $connstr, @options,
		"$dir/$file");
}

# The messages of a kind in what a program said, or in a log.
sub messages
{
	my ($kind, $text) = @_;
	my @messages = $text =~ /\b$kind:  (.*)/g;

	return @messages;
}

# The row that says what the mark was is not stored, and is not to be seen.
sub no_row
{
	my ($node, $dbname, $name) = @_;

	is($node->safe_psql($dbname, 'SELECT count(*) FROM snowflake_catalog.dumped_mark'),
		'0', "$name: the row is not stored");
	return;
}

my $ahead = qr/^(01000: )?the durable mark is ahead of the clock$/;
sub test_dump
{
	my $source = new_server('source', 0);
	my $issued;
	foreach my $dbname ('postgres', 'app')
	{
		$source->safe_psql('postgres', 'CREATE DATABASE app') if $dbname eq 'app';
		$source->safe_psql($dbname, "CREATE EXTENSION snowflake; $table");
	}
	{
		# All the while rows are added, so that the dumps have some with IDs that
		# were drawn just before.
		my @draws = map {
			start_draw($source, sessions => 2, sql => $insert, dbname => $_, delay => 1)
		} 'postgres', 'app';
		wait_drawn($_, 300) foreach @draws;

		dump_database($source, 'app', 'app.sql');
		dump_database($source, 'app', 'app.dump', '-Fc');
		dump_database($source, 'app', 'app.inserts.sql', '--inserts');
		dump_database($source, 'app', 'app.dir', '-Fd', '-j', 2);
		dump_database($source, 'app', 'app.mine.sql', '--no-owner');
		dump_database($source, 'postgres', 'home.sql');
		dump_database($source, 'postgres', 'home.dump', '-Fc');
		my ($status, $stderr) = run_program($source, 'pg_dumpall', '-d',
			$source->connstr('postgres'), '-f', "$dir/all.sql");
		is("$status$stderr", '0', 'dump to all.sql');
		$issued = time();

		# into another database of the same server
		$source->safe_psql('postgres', 'CREATE DATABASE copied');
		($status, $stderr) = restore($source, 'copied', 'app.sql',
			options => [ '-v', 'ON_ERROR_STOP=1' ]);
		is("$status$stderr", '0', 'the same server: no warning, no error');
		no_row($source, 'copied', 'the same server');
		my $ledger = new_ledger();
		flows($source, 'copied', $ledger, 'the same server');
		$ledger->add($_) foreach @draws;
		is_unique($ledger, 'the same server');
		$source->safe_psql('postgres', 'DROP DATABASE copied');
		$source->stop;
	}

	# Into a new server whose clock is behind
	foreach my $case (
		[ 'app.sql', 'again' ],
		[ 'app.dump', 'ahead' ],
		[ 'app.inserts.sql', 'again' ],
		[ 'home.dump', 'again' ],
		[ 'app.dir', 'right' ],
		[ 'home.sql', 'ahead' ],
		[ 'all.sql', 'again' ])
	{
		my ($file, $way) = @{$case};
		my $dbname = $file =~ /^home/ ? 'postgres' : 'app';
		my $name = "$file, clock behind, $way";
		my $node = new_server('behind_' . $file =~ tr/./_/r, -$hour);

		$node->safe_psql('postgres', 'CREATE DATABASE app') if $file =~ /^app/;
		my ($status, $stderr) = restore(
			$node,
			$file eq 'all.sql' ? 'postgres' : $dbname,
			$file, options => $file eq 'app.dir' ? [ '-j', 2 ] : []);
		is($status, 0, "$name: restored");
		# pg_dumpall does not know that the user who restores is there
		is(join("\n", grep { !/role "\w+" already exists/ } messages('ERROR', $stderr)),
			'', "$name: no error");
		# pg_restore shows no warnings unless it is verbose, but the log has them
		my $log = slurp_file($node->logfile);
		foreach my $text ($log, $file =~ /sql$/ ? $stderr : ())
		{
			my @warnings = messages('WARNING', $text);
			is(scalar(grep { $_ =~ $ahead } @warnings),
				$file eq 'all.sql' ? 2 : 1, "$name: a warning");
			is(scalar(@warnings), $file eq 'all.sql' ? 2 : 1, "$name: and no other");
		}
		like($log,
			qr/DETAIL:  The clock shows .*, and no ID will have a time before .*\. "snowflake\.max_drift" allows 100 ms ahead of the clock\./,
			"$name: that shows both times");
		no_row($node, $dbname, $name);

		# the mark is durable when the restore has ended
		if ($file eq 'app.dump')
		{
			kill9_postmaster($node);
			$faults++;
			start_node($node);
		}

		my $ledger = ledger_of($name,
			map { rows($node, $_) } $file eq 'all.sql' ? ('postgres', 'app') : $dbname);
		issues_nothing($node, session($node, $dbname), $ledger, $name, $dbname);
		way_out($node, $dbname, $ledger, $name, $way, $issued - 2);
		is_unique($ledger, $name);
		$node->stop;
	}

	# Into a new server whose clock is right: that goes unnoticed
	{
		my $node = new_server('right', 0);

		# as one transaction, not into the home database: nobody has drawn an ID
		foreach my $dbname (qw(single app inserts parallel twice mine home))
		{
			$node->safe_psql('postgres', "CREATE DATABASE $dbname");
		}
		foreach my $case (
			[ 'app.dump', 'single', '--single-transaction' ],
			[ 'app.sql', 'app', '-v', 'ON_ERROR_STOP=1' ],
			[ 'app.inserts.sql', 'inserts', '--single-transaction', '-v', 'ON_ERROR_STOP=1' ],
			[ 'app.dir', 'parallel', '-j', 2 ],
			[ 'app.dump', 'twice' ],
			[ 'app.dump', 'twice', '--clean', '--if-exists' ],
			[ 'home.dump', 'home' ],
			[ 'home.dump', 'postgres', '--single-transaction' ])
		{
			my ($file, $dbname, @options) = @{$case};
			my $name = join ' ', $file, 'into', $dbname, @options;
			my ($status, $stderr) =
			  restore($node, $dbname, $file, options => \@options);

			is("$status$stderr", '0', "$name: no warning, no error");
			no_row($node, $dbname, $name);

			my $ledger = ledger_of($name, rows($node, $dbname));
			flows($node, $dbname, $ledger, $name);
			is_unique($ledger, $name);
		}

		# once more over what is there: all else is an error, but not this
		my ($status, $stderr) = restore($node, 'app', 'app.sql');
		is(join("\n", grep { !/already exists|duplicate key|multiple primary keys/ } messages('ERROR', $stderr)),
			'', 'over what is there: no error of ours');
		is(join("\n", messages('WARNING', $stderr)), '', 'over what is there: no warning');
		my $ledger = ledger_of('over what is there', rows($node, 'app'));
		flows($node, 'app', $ledger, 'over what is there');
		is_unique($ledger, 'over what is there');

		# without the trigger the mark is not raised, which must not go unnoticed
		$node->safe_psql('postgres', 'CREATE DATABASE disabled');
		($status, $stderr) = restore($node, 'disabled', 'app.dump',
			options => ['--schema-only']);
		is("$status$stderr", '0', 'schema only: no warning, no error');
		($status, $stderr) = restore($node, 'disabled', 'app.dump',
			options => [ '--data-only', '--disable-triggers' ]);
		is($status, 1, 'with --disable-triggers: fails');
		like(join("\n", messages('ERROR', $stderr)),
			qr/^new row for relation "dumped_mark" violates check constraint "restore_with_triggers_enabled"$/,
			'with --disable-triggers: with one error, for that table');
		no_row($node, 'disabled', 'with --disable-triggers');
		cmp_ok(scalar(rows($node, 'disabled')), '>', 100,
			'with --disable-triggers: the others are restored');

		# and when it was in two steps
		$node->safe_psql('disabled', 'TRUNCATE t');
		($status, $stderr) = restore($node, 'disabled', 'app.dump',
			options => ['--data-only']);
		is("$status$stderr", '0', 'data only: no warning, no error');
		no_row($node, 'disabled', 'data only');

		# by the owner of a database, who is not a superuser
		$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN; ALTER DATABASE mine OWNER TO bob');
		($status, $stderr) = restore($node, 'mine', 'app.mine.sql',
			user => 'bob', options => [ '-v', 'ON_ERROR_STOP=1' ]);
		is("$status$stderr", '0', 'by a database owner: no warning, no error');
		is($node->safe_psql('mine', "SELECT extowner::regrole FROM pg_extension WHERE extname = 'snowflake'"),
			'bob', 'by a database owner: it was');
		$ledger = ledger_of('by a database owner', rows($node, 'mine'));
		flows($node, 'mine', $ledger, 'by a database owner');
		is_unique($ledger, 'by a database owner');

		# with the clock behind, that takes a superuser
		is(join("\n", messages('WARNING', slurp_file($node->logfile))),
			'', 'clock right: no warning in the log');
		set_clock($node, -2 * $hour);
		$node->safe_psql('postgres', 'CREATE DATABASE behind OWNER bob');
		($status, $stderr) = restore($node, 'behind', 'app.mine.sql', user => 'bob');
		is(join("\n", messages('ERROR', $stderr)),
			'42501: permission denied to put the durable mark ahead of the clock',
			'by a database owner, clock behind: one error');
		like($stderr, qr/HINT:  Restore it as a superuser, or set the server's clock if it is wrong\./,
			'by a database owner, clock behind: with a hint');
		like($stderr, qr/CONTEXT:  COPY dumped_mark, line 1/,
			'by a database owner, clock behind: for that table');
		cmp_ok(scalar(rows($node, 'behind')), '>', 100,
			'by a database owner, clock behind: the others are restored');
		no_row($node, 'behind', 'by a database owner, clock behind');
		set_clock($node, 0);
		$node->stop;
	}

	# As one transaction into the home database of a new server: the worker waits
	# for that very transaction.  An error, in bounded time, until an ID was drawn.
	{
		my $node = new_server('single', 0);
		my ($status, $stderr) = restore($node, 'postgres', 'home.dump',
			max_wait => '300ms',
			options => ['--single-transaction']);

		is($status, 1, 'as one transaction into a new home: fails');
		like($stderr, qr/ERROR:  the durable mark could not be changed/,
			'as one transaction into a new home: with an error');
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't'"),
			'0', 'as one transaction into a new home: nothing is restored');

		$node->safe_psql('postgres', 'CREATE DATABASE app');
		$node->safe_psql('app', "CREATE EXTENSION snowflake; SET snowflake.max_wait = '1min'; SELECT snowflake_nextval()");
		($status, $stderr) = restore($node, 'postgres', 'home.dump',
			options => ['--single-transaction']);
		is("$status$stderr", '0', 'as one transaction, an ID was drawn: works');
		my $ledger = ledger_of('as one transaction', rows($node));
		flows($node, 'postgres', $ledger, 'as one transaction');
		is_unique($ledger, 'as one transaction');
		$node->stop;
	}

	# Not preloaded
	{
		my $node = new_server('not_preloaded', 0, '');
		my ($status, $stderr) = restore($node, 'postgres', 'home.sql',
			options => [ '-v', 'ON_ERROR_STOP=1' ]);

		is($status, 0, 'not preloaded: restored');
		is(join("\n", messages('ERROR', $stderr)), '', 'not preloaded: no error');
		is(join("\n", messages('WARNING', $stderr)), '01000: this server cannot draw snowflake IDs yet', 'not preloaded: a warning');
		no_row($node, 'postgres', 'not preloaded');

		# A dump of it has no mark.
		dump_database($node, 'postgres', 'no_mark.sql');
		like(slurp_file("$dir/no_mark.sql"),
			qr/^COPY snowflake_catalog\.dumped_mark .*\n\\\.$/m,
			'not preloaded: a dump has no mark');

		# not by others, who may not make such settings
		$node->safe_psql('postgres', 'CREATE ROLE ann LOGIN; CREATE DATABASE hers OWNER ann');
		($status, $stderr) = restore($node, 'hers', 'app.mine.sql', user => 'ann');
		is(join("\n", messages('ERROR', $stderr)),
			'42501: permission denied to keep the durable mark of this dump', 'not preloaded, by a database owner: an error');

		# It is kept for the start with the library.
		my @rows = rows($node);
		$node->append_conf('postgresql.conf', $preload);
		$node->stop;
		set_clock($node, $issued - 2 - time());
		start_node($node);
		my $ledger = ledger_of('not preloaded', @rows);
		flows($node, 'postgres', $ledger, 'not preloaded');
		is_unique($ledger, 'not preloaded');
		$node->stop;
	}

	# Of another epoch and of another layout
	{
		my $other = new_server('other', 0,
			$preload . "snowflake.epoch = '2021-01-01 00:00:00+00'\n");
		$other->safe_psql('postgres', "CREATE EXTENSION snowflake; SET snowflake.max_wait = '1min'; $table; $insert");
		dump_database($other, 'postgres', 'epoch.sql');
		$other->append_conf('postgresql.conf', <<'CONF');
snowflake.epoch = '2020-01-01 00:00:00+00'
snowflake.layout = 'time:41 node:10 sequence:12'
CONF
		$other->stop;
		start_node($other);
		# the worker has failed, and is started again after a second
		$other->safe_psql('postgres',
			"SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout(); $insert");
		dump_database($other, 'postgres', 'layout.sql');
		$other->stop;

		my $node = new_server('ours', 0);
		foreach my $case (
			[ epoch => $layout, '2021-01-01 00:00:00+00' ],
			[ layout => 'time:41 node:10 sequence:12', '2020-01-01 00:00:00+00' ])
		{
			my ($what, $its_layout, $its_epoch) = @{$case};

			$node->safe_psql('postgres', "CREATE DATABASE other_$what");
			my ($status, $stderr) = restore($node, "other_$what", "$what.sql",
				options => [ '-v', 'ON_ERROR_STOP=1' ]);
			is($status, 0, "another $what: restored");
			is(join("\n", messages('WARNING', $stderr)),
				'01000: the durable mark of this dump is not restored, as its IDs are of another layout or epoch',
				"another $what: a warning");
			like($stderr,
				qr/DETAIL:  The dump has layout "\Q$its_layout\E" and epoch \Q$its_epoch\E, this server has layout "\Q$layout\E" and epoch \Q2020-01-01 00:00:00+00\E\./,
				"another $what: that shows both");
			no_row($node, "other_$what", "another $what");
			my $ledger = new_ledger();
			flows($node, "other_$what", $ledger, "another $what");
			is_unique($ledger, "another $what");
		}
		$node->stop;
	}
	return summary();
}

#
# (4) pg_upgrade
#
sub test_upgrade
{
	my $old_bindir = $ENV{SNOWFLAKE_OLD_BINDIR} // '';
	my $old = new_cluster('old', $preload,
		$old_bindir ne '' ? (install_path => dirname($old_bindir)) : ());
	start_node($old);
	$old->safe_psql('postgres', "CREATE EXTENSION snowflake; $table; CREATE DATABASE app");
	$old->safe_psql('app', "CREATE EXTENSION snowflake; $table");

	my @draws = (
		start_draw($old, sessions => 4),
		start_draw($old, sessions => 4, sql => $insert, finish => 60_000),
		start_draw($old, sessions => 4, sql => $insert, finish => 60_000, dbname => 'app'));
	wait_drawn($_, 500) foreach @draws;
	stop_draw($_) foreach @draws;
	my @ids = map { received($_) } @draws;

	# An ID of one hour ahead, as if the clock had been there
	my $id = $old->safe_psql('postgres',
		"SELECT snowflake_compose(clock_timestamp() + interval '1 hour', 1, 0, 0)");
	my $advanced = $old->safe_psql('postgres', <<SQL);
SET snowflake.max_wait = '1min';
SELECT (extract(epoch FROM snowflake_advance($id)) * 1000000)::bigint
SQL
	my $was_recorded = $old->safe_psql('postgres', $recorded);
	cmp_ok($was_recorded, 'ne', '', 'the old server has recorded its layout');
	cmp_ok($old->safe_psql('postgres', $mark), '>=', $advanced, 'and its mark');
	$old->stop;

	foreach my $when ('before', 'after')
	{
		my $name = "upgraded, preloaded $when";
		my @init = ();
		# from 18 on, initdb turns them on
		push @init, '--no-data-checksums'
		  if $old->pg_version < 18
		  && PostgreSQL::Version->new(qx(pg_config --version)) >= 18;
		my $new = new_cluster(
			"new_$when",
			$when eq 'before' ? $preload : '',
			init => { extra => \@init });
		my ($old_bin, $new_bin) =
		  map { $_->config_data('--bindir') } $old, $new;
		my $tmp = PostgreSQL::Test::Utils::tempdir_short();
		my $output = '';

		note $old->pg_version . ' to ' . $new->pg_version;
		IPC::Run::run(
			[
				'pg_upgrade', '--no-sync',
				'-b', $old_bin, '-B', $new_bin,
				'-d', $old->data_dir, '-D', $new->data_dir,
				'-p', $old->port, '-P', $new->port, '-s', $tmp
			],
			'<', '/dev/null', '>&', \$output,
			init => sub { chdir $tmp or die "$tmp: $!" },
			IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
		is($?, 0, "$name: done") or diag $output;
		$faults++;

		start_node($new);
		is($new->safe_psql('postgres', $mark), $advanced, "$name: the mark is there");
		is($new->safe_psql('postgres', $recorded), $was_recorded,
			"$name: and layout and epoch");
		no_row($new, 'postgres', $name);
		if ($when eq 'after')
		{
			my (undef, undef, $stderr) = $new->psql('postgres',
				"\\set VERBOSITY verbose\nSELECT snowflake_nextval()");
			is(psql_error($stderr)->{sqlstate}, '55000', "$name: nothing is issued yet");
			$new->append_conf('postgresql.conf', $preload);
			$new->stop;
			start_node($new);
		}

		my @rows = map { rows($new, $_) } 'postgres', 'app';
		my $ledger = ledger_of($name, @ids, @rows, $id);
		is(scalar(@rows), stop_draw($draws[1])->{ids} + stop_draw($draws[2])->{ids},
			"$name: the rows are there");
		issues_nothing($new, session($new, 'app'), $ledger, $name, 'app');
		if ($when eq 'before')
		{
			way_out($new, 'app', $ledger, $name, 'ahead');
		}
		else
		{
			set_clock($new, $hour + 1);
			flows($new, 'postgres', $ledger, "$name, an hour later");
		}
		is_unique($ledger, $name);
		my @all = map { rows($new, $_) } 'postgres', 'app';
		my @new = grep { $_ > $id } @all;
		cmp_ok(scalar(@new), '>=', 100, "$name: new IDs are larger than all old ones");
		is(@new + @rows, scalar(@all), "$name: all of them");
		$new->stop;
	}
	return summary();
}

in_parallel(
	'backup' => \&test_backup,
	'dump' => \&test_dump,
	'upgrade' => \&test_upgrade);
done_testing();
