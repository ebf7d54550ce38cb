# What the tests share that break something while IDs are drawn: many sessions
# that draw and record (draw.c), a ledger that finds what came twice or out of
# order, and ways to hit the server.

package FaultTest;

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use IPC::Run;
use List::Util qw(max sum0);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);

our @EXPORT = qw(
  adopt_orphans
  FREEZE_MARK
  THAW_MARK
  start_draw
  stop_draw
  drawn
  wait_drawn
  drawn_before
  wait_statements
  sqlstates
  draw_one
  issues_nothing
  new_ledger
  try_sql
  busy_backend
  at_rest
  services_pid
  stop_asleep
  worker_pid
  hostile_settings
  postmaster_pid
  server_processes
  kill9_postmaster
  start_process
  process_ended
  stop_process
  signal_as
  start_pooler
  compile
  wait_for
);

my %running;    # processes by pid
my $program;    # the compiled draw.c
my $draws = 0;

# Standard error goes to a log file.  What a test dies of is to be seen, as
# newer servers' PostgreSQL::Test::Utils has it too.
$SIG{__DIE__} //= sub {
	print { Test::More->builder->failure_output } $_[0]
	  if defined $^S && !$^S;
};

# A postmaster is an orphan, and a killed orphan is there until the system has
# taken note, which may take seconds.  Let orphans be children of the test, so
# that kill9_postmaster() can take note at once, and a server can start so soon
# that its IDs would meet those of before.  Not so (0) where another program waits for
# servers that are not its children.  36 is PR_SET_CHILD_SUBREAPER.
sub adopt_orphans
{
	my ($adopt) = @_;

	eval {
		require 'syscall.ph';
		syscall(SYS_prctl(), 36, $adopt, 0, 0, 0) == 0 or die "prctl: $!\n";
	} or note "kill9_postmaster() may take longer: $@";
	return;
}

adopt_orphans(1);

# Send a signal that seems to come from another process.  A siginfo_t with the code
# of sigqueue(), -1, may have any sender.
sub signal_as
{
	my ($sender, $signal, $pid) = @_;
	my $info = pack 'l3 x4 l L x104', $signal, 0, -1, $sender, $>;

	require 'syscall.ph';
	syscall(SYS_rt_sigqueueinfo(), $pid + 0, $signal + 0, $info) == 0 or die "rt_sigqueueinfo: $!\n";
	return;
}

#
# Processes beside the servers.  They end with the test, however it ends.
#

# Start a program.  What it prints goes to the files "$files.out" and
# "$files.err".  Its standard input ends at stop_process(), or with the test.
sub start_process
{
	my ($files, @command) = @_;

	# Perl closes both ends in other programs that it starts.
	pipe(my $stdin, my $hold) or die "pipe: $!";
	open my $out, '>', "$files.out" or die "$files.out: $!";
	open my $err, '>', "$files.err" or die "$files.err: $!";

	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		# of a server's own clock
		delete @ENV{ grep { /^(LD_PRELOAD|FAKETIME.*)$/ } keys %ENV };
		POSIX::dup2(fileno($stdin), 0);
		POSIX::dup2(fileno($out), 1);
		POSIX::dup2(fileno($err), 2);
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	my $process =
	  { pid => $pid, owner => $$, stdin => $hold, files => $files };
	$running{$pid} = $process;
	return $process;
}

# Has it ended by itself?
sub process_ended
{
	my ($process) = @_;

	if (!defined $process->{status}
		&& waitpid($process->{pid}, POSIX::WNOHANG) != 0)
	{
		$process->{status} = $?;
		delete $running{ $process->{pid} };
	}
	return defined $process->{status};
}

# End its input, send it a signal, wait for it.  Returns its wait status.
sub stop_process
{
	my ($process, $signal) = @_;

	close delete $process->{stdin} if $process->{stdin};
	kill $signal // 'TERM', $process->{pid} unless process_ended($process);
	if (!wait_for(sub { process_ended($process) }))
	{
		kill 'KILL', $process->{pid};
		waitpid $process->{pid}, 0;
		delete $running{ $process->{pid} };
		die "process $process->{pid} did not stop: " . said($process);
	}
	return $process->{status};
}

# Start a pgbouncer in front of a server.  It listens on a socket of its own
# only, at the server's port, unless $settings has others, and logs in as
# $settings{user}.  Returns its process and the socket's folder.
sub start_pooler
{
	my ($server, %settings) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $user = delete $settings{user}
	  // $server->safe_psql('postgres', 'SELECT current_user');
	my ($host, $port) = ($server->host, $server->port);

	%settings = (
		listen_addr => '',
		listen_port => $port,
		unix_socket_dir => $dir,
		auth_type => 'any',
		pool_mode => 'transaction',
		server_login_retry => 1,
		log_connections => 0,
		log_disconnections => 0,
		log_pooler_errors => 0,
		%settings);
	PostgreSQL::Test::Utils::append_to_file(
		"$dir/pgbouncer.ini",
		join "\n",
		'[databases]',
		"* = host=$host port=$port user=$user",
		'[pgbouncer]',
		map({ "$_ = $settings{$_}" } sort keys %settings),
		'');

	my $process =
	  start_process("$dir/pgbouncer", find_pgbouncer(), "$dir/pgbouncer.ini");
	my @try = ('postgres', 'SELECT 1',
		connstr => "host=$dir port=$settings{listen_port} dbname=postgres");

	# a psql that ends before it reads its input may end this
	return ($process, $dir)
	  if wait_for(sub { (eval { ($server->psql(@try))[1] } // '') eq '1' });
	die 'pgbouncer does not start: ' . said($process);
}

# scripts/test.sh says where it is.
sub find_pgbouncer
{
	my ($found) = grep { $_ ne '' && -x } $ENV{SNOWFLAKE_PGBOUNCER} // '',
	  map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';

	die "pgbouncer is missing: set SNOWFLAKE_PGBOUNCER to the program, "
	  . "or install the package pgbouncer\n"
	  unless defined $found;
	return $found;
}

# What it has printed as errors.
sub said
{
	my ($process) = @_;
	my $said = PostgreSQL::Test::Utils::slurp_file("$process->{files}.err");

	return $said eq '' ? "it said nothing\n" : $said;
}

END
{
	my $status = $?;
	my @mine = grep { $running{$_}{owner} == $$ } keys %running;

	kill 'KILL', @mine;
	waitpid $_, 0 foreach @mine;
	$? = $status;
}

# Wait until the function returns true, and return that; or false if it does
# not in time.
sub wait_for
{
	my ($function) = @_;
	my $begin = clock_gettime(CLOCK_MONOTONIC);

	while (1)
	{
		my $asked = clock_gettime(CLOCK_MONOTONIC);
		my $result = $function->();
		my $now = clock_gettime(CLOCK_MONOTONIC);

		return $result if $result;
		return 0
		  if $now - $begin > $PostgreSQL::Test::Utils::timeout_default;

		# half of the processor is for what it waits for
		usleep(1_000_000 * max(0.01, $now - $asked));
	}
}

#
# Drawing
#

# Draw IDs in many sessions at once, over and over, from now to stop_draw().
# Options:
#	sessions	how many, else 10
#	ids			IDs a statement, else 10
#	sql			another statement, whose first column is the ID
#	delay		pause of a session between two statements, in ms, else 3: sessions
#				that do not pause take the processor from all else
#	dbname		database, else "postgres"
#	connstr		where to connect to instead, as for a pooler
#	max_wait	the setting, else that of the server: longer where there are to be
#				no errors, as the worker may be slow on a busy machine
#	finish		how long statements that are under way at the end have, else 1000 ms:
#				longer where it matters what they draw
#	by_statement	true: order is checked within a statement only, as where
#					statements of a session go to different backends
sub start_draw
{
	my ($node, %opts) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir('draw') . '/draw';
	my %default = (sessions => 10, ids => 10, delay => 3, finish => 1000);
	my $connstr = delete $opts{connstr}
	  // $node->connstr($opts{dbname} // 'postgres');
	my $sql = delete $opts{sql};
	my $by_statement = delete $opts{by_statement};
	my $max_wait = delete $opts{max_wait};

	$connstr .= " options='-c snowflake.max_wait=$max_wait'" if defined $max_wait;
	delete $opts{dbname};
	%opts = (%default, %opts);
	foreach my $name (keys %opts)
	{
		die "start_draw has no option $name" unless exists $default{$name};
	}
	my @args = ('-c', $opts{sessions}, '-n', $opts{ids}, '-d', $opts{delay},
		'-w', $opts{finish});
	push @args, '-q', $sql if defined $sql;
	push @args, '-s' if $by_statement;
	push @args, '-f', "$file.ids", $connstr;

	my $handle = start_process($file, draw_program($node), @args);
	$handle->{name} = 'draw ' . ++$draws;
	$handle->{ids} = "$file.ids";
	$handle->{drawn} = 0;
	$handle->{sessions} = $opts{sessions};
	return $handle;
}

# Compile it, once.
sub draw_program
{
	my ($node) = @_;
	my ($includedir, $libdir) =
	  map { $node->config_data($_) } qw(--includedir --libdir);

	$program //= compile($node, 'draw.c', "-I$includedir", "-L$libdir",
		"-Wl,-rpath,$libdir", '-lpq');
	return $program;
}

# Compile a source that is beside this file.  Returns what it was made.
sub compile
{
	my ($node, $source, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir('compiled') . '/compiled';
	my @command = split ' ', $ENV{CC} // $node->config_data('--cc');
	my $output;

	push @command, qw(-std=gnu11 -O2 -Wall -Wextra), '-o', $file;
	push @command, dirname(abs_path(__FILE__)) . "/$source", @options;
	IPC::Run::run(\@command, '>&', \$output)
	  or die "$source cannot be compiled, is libpq-dev there?\n$output";
	diag $output if $output ne '';
	return $file;
}

# How many IDs it has recorded up to now.
sub drawn
{
	my ($handle) = @_;

	return $handle->{report}{ids} if $handle->{report};
	if (process_ended($handle))
	{
		die "$handle->{name} has ended: " . said($handle);
	}
	if (!$handle->{fh})
	{
		open my $fh, '<', $handle->{ids} or return 0;
		$handle->{fh} = $fh;
	}

	# only what is new
	while (sysread $handle->{fh}, my $lines, 1 << 20)
	{
		$handle->{drawn} += $lines =~ tr/\n//;
	}
	return $handle->{drawn};
}

# Wait for so many more IDs.
sub wait_drawn
{
	my ($handle, $more) = @_;
	my $wanted = drawn($handle) + $more;

	return if wait_for(sub { drawn($handle) >= $wanted });

	my $got = $more - ($wanted - drawn($handle));
	die "$handle->{name} got $got IDs, not $more, in "
	  . "$PostgreSQL::Test::Utils::timeout_default s\n"
	  . describe_draw(stop_draw($handle));
}

# How many IDs were drawn on a server by statements that began before now: waits
# until each session has begun another one, as it may be long, where the machine
# is busy, until what was drawn is recorded.  So two calls that return the same
# show that nothing was drawn by a statement that began between them; and each
# session has begun one then, or waits for a standby, and has not got what it
# drew.  All sessions of the server that draw have to be in the list.
sub drawn_before
{
	my ($node, @draws) = @_;
	my $sessions = sum0 map { $_->{sessions} } @draws;
	my $now = $node->safe_psql('postgres', 'SELECT clock_timestamp()');

	wait_for(
		sub {
			my $begun = try_sql($node, <<SQL) // '';
SELECT count(*) FILTER (WHERE is_new OR is_held) >= $sessions
   AND count(*) FILTER (WHERE NOT is_new AND NOT is_held) = 0
FROM (SELECT coalesce(query_start > '$now', false) AS is_new, wait_event IS NOT DISTINCT FROM 'SyncRep' AS is_held
      FROM pg_stat_activity WHERE application_name = 'draw') AS session
SQL
			usleep(100_000) if $begun ne 't';
			return $begun eq 't';
		}) or die "sessions that draw begin no statement\n";
	return sum0 map { drawn($_) } @draws;
}

# Wait until each of these sessions has been through a statement that began after
# now: such as meets the error that is to be met.  See drawn_before().
sub wait_statements
{
	my ($node, @draws) = @_;

	# they have begun one, and then it has ended
	drawn_before($node, @draws) foreach 1, 2;
	return;
}

# Stop drawing.  Statements under way may finish, within a second.  Returns a
# hash:
#	ids			IDs recorded
#	statements	statements that ended well
#	unfinished	statements that were under way at the end
#	connects	connections made
#	lost		connections made and lost
#	refused		connections not made
#	errors		errors sent by the server: SQLSTATE => [ count, first message ]
#	lost_message, refused_message	what libpq said at the first of these
sub stop_draw
{
	my ($handle) = @_;

	return $handle->{report} if $handle->{report};

	# it has its signal handler when it has made its file
	wait_for(sub { -e $handle->{ids} || !kill 0, $handle->{pid} })
	  if exists $handle->{ids};
	my $status = stop_process($handle);
	die "$handle->{name} failed ($status): " . said($handle) if $status != 0;

	my %report = (errors => {});
	my $text = PostgreSQL::Test::Utils::slurp_file("$handle->{files}.out");
	foreach my $line (split /\n/, $text)
	{
		if ($line =~ /^error (\w{5}) (\d+) (.*)$/)
		{
			$report{errors}{$1} = [ $2, $3 ];
		}
		elsif ($line =~ /^(lost|refused) (\d+) (.*)$/)
		{
			@report{ $1, "$1_message" } = ($2, $3);
		}
		elsif ($line =~ /^(ids|statements|unfinished|connects) (\d+)$/)
		{
			$report{$1} = $2;
		}
		else
		{
			die "$handle->{name} reported: $line";
		}
	}
	close delete $handle->{fh} if $handle->{fh};
	$handle->{report} = \%report;
	return \%report;
}

# The SQLSTATEs of the errors that a draw has met, once it is stopped.
sub sqlstates
{
	my ($handle) = @_;

	return join ' ', sort keys %{ stop_draw($handle)->{errors} };
}

# Draw one ID.  Returns it, or '', and the error.
sub draw_one
{
	my ($session) = @_;

	$session->{stderr} = '';
	my $id = $session->query('SELECT snowflake_nextval()');
	my $error = psql_error($session->{stderr});
	$session->{stderr} = '';
	return ($id, $error);
}

# The clock is behind the mark: nobody gets an ID, neither in this session nor in
# others, of that database.
sub issues_nothing
{
	my ($node, $session, $ledger, $name, $dbname) = @_;
	my ($id, $error, @ids);

	# the worker reads the mark a moment after the start
	foreach (1 .. 50)
	{
		($id, $error) = draw_one($session);
		push @ids, $id if $id ne '';
		last if $error->{message} !~ /could not be raised/;
	}

	my $now = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	my $draw = start_draw($node, sessions => 4, dbname => $dbname // 'postgres');
	$node->poll_query_until('postgres', "SELECT count(*) >= 4 FROM pg_stat_activity WHERE application_name = 'draw' AND backend_start > '$now'")
	  or die 'nobody draws';
	foreach (1 .. 3)
	{
		($id, $error) = draw_one($session);
		push @ids, $id if $id ne '';
	}
	wait_statements($node, $draw);
	is("$error->{sqlstate}: $error->{message}",
		'55P03: cannot generate a snowflake ID: the clock is behind the last ID',
		"$name: an error");
	like(
		$error->{detail},
		qr/^The (?:monotonic )?clock shows .*\. (?:The latest ID is of|The next unused time unit begins at) .*, which is \d+ ms ahead; "snowflake\.max_drift" allows 100 ms\./,
		"$name: that shows both times");
	is(sqlstates($draw), '55P03', "$name: that all get");
	is(stop_draw($draw)->{ids} + @ids, 0, "$name: nothing is issued");

	# if anything was
	$ledger->add($draw);
	$ledger->add_ids("$name, too early", @ids);
	return;
}

# The same, to read.
sub describe_draw
{
	my ($report) = @_;
	my %errors = %{ $report->{errors} };

	return join "\n",
	  (map { "$_: $report->{$_}" } qw(ids statements unfinished connects)),
	  (map { "$_: $report->{$_} $report->{ $_ . '_message' }" }
		  qw(lost refused)),
	  (map { "error $_: $errors{$_}[0] $errors{$_}[1]" } sort keys %errors),
	  '';
}

#
# The server
#

# The result of a query, or undef when it could not be had, since the server
# is down, or starts, or lost the connection.
sub try_sql
{
	my ($node, $sql, $dbname) = @_;
	my ($ret, $stdout) = eval {
		$node->psql($dbname // 'postgres', $sql,
			timeout => $PostgreSQL::Test::Utils::timeout_default);
	};

	return defined $ret && $ret == 0 ? $stdout : undef;
}

# Wait for a query to return a row.  What is to be done before each look is done.
sub wait_sql
{
	my ($node, $what, $sql, $before) = @_;

	return wait_for(
		sub {
			$before->() if $before;
			my $result = try_sql($node, $sql);
			return defined $result && $result ne '' ? $result : 0;
		})
	  || die "there is no $what: " . (try_sql($node, <<'SQL') // 'no answer') . "\n";
SELECT string_agg(concat_ws(' ', pid, application_name, state, wait_event), ', ') FROM pg_stat_activity
SQL
}

# The process of a backend, any of them, that runs a statement of draw now.
# Waits for one: short statements are seen by the server only, which looks often.
# Who begins what ends by itself does so in $before.
sub busy_backend
{
	my ($node, $application_name, $before) = @_;

	$application_name //= 'draw';
	return wait_sql($node, "busy backend of $application_name", <<SQL, $before);
DO \$\$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        PERFORM pg_stat_clear_snapshot();
        PERFORM set_config('test.pid', pid::text, false) FROM (
            SELECT pid FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND state = 'active'
              AND application_name = '$application_name'
            ORDER BY random() LIMIT 1) AS busy;
        EXIT WHEN FOUND;
        PERFORM pg_sleep(0.001);
    END LOOP;
END \$\$;
SELECT current_setting('test.pid', true);
SQL
}

# In the home database: the durable mark cannot be raised, and can again.  The
# worker raises it all the time, so the first ALTER is there for its lock, which
# lasts until the second one has been done.
use constant FREEZE_MARK => <<'SQL';
DO $$
BEGIN
	ALTER SEQUENCE snowflake_home.mark NO MAXVALUE;
	EXECUTE format('ALTER SEQUENCE snowflake_home.mark MAXVALUE %s', (SELECT last_value FROM snowflake_home.mark));
END
$$
SQL
use constant THAW_MARK => 'ALTER SEQUENCE snowflake_home.mark NO MAXVALUE';

# The process that writes the mark, and the one of the services; when $not is
# given, another one than that.  Waits for it.
sub pid_of
{
	my ($node, $type, $not) = @_;

	$not //= 0;
	return wait_sql($node, $type, <<SQL);
SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' AND pid <> $not
SQL
}

sub worker_pid { return pid_of($_[0], 'snowflake mark writer', $_[1]); }

sub services_pid { return pid_of($_[0], 'snowflake services', $_[1]); }

# Stop a process of the extension while it sleeps.  At work it may hold a lock of
# the server, such as that of who writes WAL, and then nobody at all gets on.
sub stop_asleep
{
	my ($node, $pid) = @_;

	foreach (1 .. 1000)
	{
		kill 'STOP', $pid;
		return
		  if (try_sql($node, "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid") // '') eq 't';
		kill 'CONT', $pid;
		usleep(10_000);
	}
	die "process $pid is never asleep\n";
}

# Settings that a database or a role may have, and that statements of ours would
# mean or do something else with, as pairs; those that this server knows.
my @settings = (
	[ search_path => 'hostile, pg_temp, pg_catalog' ],
	[ default_transaction_read_only => 'on' ],
	[ default_transaction_isolation => 'serializable' ],
	[ default_transaction_deferrable => 'on' ],
	[ lock_timeout => 1 ],
	[ statement_timeout => 1 ],
	[ transaction_timeout => 1 ],
	[ idle_in_transaction_session_timeout => 1 ],
	[ idle_session_timeout => 1 ],
	[ session_replication_role => 'replica' ],
	[ row_security => 'off' ],
	[ event_triggers => 'off' ],
	[ synchronous_commit => 'off' ],
	[ commit_delay => 100_000 ],
	[ commit_siblings => 0 ],
	[ exit_on_error => 'on' ],
	[ client_encoding => 'sjis' ],
	[ timezone => 'Asia/Kathmandu' ],
	[ datestyle => 'SQL, DMY' ],
	[ intervalstyle => 'sql_standard' ],
	[ extra_float_digits => -15 ],
	[ bytea_output => 'escape' ],
	[ standard_conforming_strings => 'off' ],
	[ backslash_quote => 'off' ],
	[ quote_all_identifiers => 'on' ],
	[ array_nulls => 'off' ],
	[ transform_null_equals => 'on' ],
	[ check_function_bodies => 'off' ],
	[ restrict_nonsystem_relation_kind => 'view, foreign-table' ],
	[ work_mem => 64 ],
	[ temp_file_limit => 0 ],
	[ max_stack_depth => 100 ],
	[ plan_cache_mode => 'force_generic_plan' ],
	[ enable_indexscan => 'off' ],
	[ enable_seqscan => 'off' ],
	[ force_parallel_mode => 'on' ],
	[ debug_parallel_query => 'on' ],
	[ jit_above_cost => 0 ],
	[ log_min_messages => 'panic' ],
	[ log_statement => 'all' ],
	[ track_activities => 'off' ],
	[ 'plpgsql.extra_errors' => 'all' ],
	[ 'plpgsql.variable_conflict' => 'use_variable' ],
	[ 'snowflake.max_wait' => 1 ]);

sub hostile_settings
{
	my ($node) = @_;
	my %known = map { $_ => 1 } split /\n/,
	  $node->safe_psql('postgres', q(LOAD 'plpgsql'; SELECT lower(name) FROM pg_settings));

	# which 19 has for its name only
	delete $known{standard_conforming_strings}
	  if $node->safe_psql('postgres', 'SHOW server_version_num') >= 190000;
	return grep { $known{ $_->[0] } } @settings;
}

# What a function returns once that stays the same for longer than a worker's
# statements may take: the timer for that wakes it up once more after the last.
sub at_rest
{
	my ($look) = @_;
	my $last = $look->();
	my $same = 0;

	foreach (1 .. 60)
	{
		sleep 1;
		my $now = $look->();
		$same = $now eq $last ? $same + 1 : 0;
		$last = $now;
		return $last if $same > 11;
	}
	die "no rest: $last\n";
}

sub postmaster_pid
{
	my ($node) = @_;
	my $file = $node->data_dir . '/postmaster.pid';

	return $node->{_pid} if defined $node->{_pid};
	my ($pid) = PostgreSQL::Test::Utils::slurp_file($file) =~ /^(\d+)$/m;
	return $pid;
}

# All processes of a server, the postmaster among them: they work in its data
# directory.  Those of a dead postmaster too.
sub server_processes
{
	my ($node) = @_;
	my $data_dir = abs_path($node->data_dir);

	return sort { $a <=> $b }
	  map { m{^/proc/(\d+)/cwd$} }
	  grep { (readlink($_) // '') eq $data_dir } glob '/proc/[0-9]*/cwd';
}

# Kill the postmaster so that it has no chance to clean up, and wait until its
# children have noticed and are gone, so that start_node() can follow.  Use
# this, not $node->kill9, after which a server may refuse to start.  Children
# notice when they wait for something, so a statement that computes for an hour
# goes on for an hour, and this dies; with all => 1 the children are killed
# too, as if the machine had failed.
sub kill9_postmaster
{
	my ($node, %opts) = @_;
	my $pid = postmaster_pid($node);

	$node->kill9;

	# A killed process counts as there until its parent has seen that.
	my @left;
	my $gone = sub {
		@left = server_processes($node);
		kill 'KILL', @left if $opts{all};
		waitpid $pid, POSIX::WNOHANG;
		push @left, $pid if kill 0, $pid;
		return !@left;
	};
	wait_for($gone)
	  or die 'after kill -9 of the postmaster these go on: '
	  . `ps -o pid,stat,args -p @{[ join ',', @left ]}`;

	# Another process may have this PID when the server is started again, which
	# would take that for another server.
	unlink $node->data_dir . '/postmaster.pid',
	  $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

#
# The ledger
#

# All IDs of a test, from any number of draws.  Methods:
#
#	add($handle)			those of a draw; stops it if need be
#	add_ids($name, @ids)	others, in the order drawn; more may follow with the
#							same name, which is that of a session
#	count					how many
#	duplicates				how many of them came before
#	disorder				how many are not above the one before of their session
#	examples				lines that say which these were, up to 5 of each kind
#	report($faults)			print it as a line in the log
#
# duplicates and disorder print the examples too.
sub new_ledger
{
	my $file = PostgreSQL::Test::Utils::tempdir('ledger') . '/ids';

	open my $fh, '>', $file or die "$file: $!";
	return bless {
		file => $file,          # all IDs
		fh => $fh,
		count => 0,
		sources => [],          # draws: name, file
		named => {},            # others: name => IDs
		disorder => 0,
		disorder_examples => [],
		duplicates => undef,    # not known
		duplicate_examples => [],
		shown => 0
	  },
	  'FaultTest::Ledger';
}

package FaultTest::Ledger;

use constant EXAMPLES => 5;

sub add
{
	my ($self, $handle) = @_;
	my $report = FaultTest::stop_draw($handle);
	my ($name, $file, $out) = (@{$handle}{qw(name ids)}, $self->{fh});
	my ($count, @last) = (0);

	die "$name was added before\n"
	  if grep { $_->{file} eq $file } @{ $self->{sources} };

	open my $fh, '<', $file or die "$file: $!";
	while (my $line = <$fh>)
	{
		my ($session, $text) = split / /, $line;
		my $id = $text + 0;
		$self->note_disorder("$name session $session", $last[$session], $id)
		  if defined $last[$session] && $id <= $last[$session];
		$last[$session] = $id;
		print $out $text;
		$count++;
	}
	close $fh;
	die "$name recorded $count IDs, and says $report->{ids}\n"
	  if $count != $report->{ids};

	push @{ $self->{sources} }, { name => $name, file => $file };
	$self->{count} += $count;
	$self->{duplicates} = undef;
	return;
}

sub add_ids
{
	my ($self, $name, @ids) = @_;
	my $all = $self->{named}{$name} //= [];
	my $out = $self->{fh};

	foreach my $id (@ids)
	{
		die "$name: not an ID: $id\n" unless $id =~ /^-?\d+\z/;
		$self->note_disorder($name, $all->[-1], $id)
		  if @{$all} && $id <= $all->[-1];
		push @{$all}, $id;
		print $out "$id\n";
	}
	$self->{count} += @ids;
	$self->{duplicates} = undef;
	return;
}

sub note_disorder
{
	my ($self, $session, $before, $id) = @_;
	my $examples = $self->{disorder_examples};

	$self->{disorder}++;
	$self->{shown} = 0;
	push @{$examples}, "$session: $id after $before"
	  if @{$examples} < EXAMPLES;
	return;
}

sub count
{
	my ($self) = @_;
	return $self->{count};
}

sub disorder
{
	my ($self) = @_;

	$self->show;
	return $self->{disorder};
}

sub duplicates
{
	my ($self) = @_;

	$self->find_duplicates;
	$self->show;
	return $self->{duplicates};
}

# Sort them: there may be many millions.
sub find_duplicates
{
	my ($self) = @_;
	my ($file, $found) = ($self->{file}, 0);
	my @examples;

	return if defined $self->{duplicates};

	local $ENV{LC_ALL} = 'C';
	$self->{fh}->flush or die "$file: $!";
	system('sort', '-T', File::Basename::dirname($file),
		'-o', "$file.sorted", $file) == 0
	  or die "sort failed\n";
	open my $uniq, '-|', 'uniq', '-cd', "$file.sorted" or die "uniq: $!";
	while (my $line = <$uniq>)
	{
		my ($times, $id) = $line =~ /^\s*(\d+) (-?\d+)$/ or die "uniq: $line";
		$found += $times - 1;
		push @examples, $id if @examples < EXAMPLES;
	}
	close $uniq or die "uniq failed\n";
	unlink "$file.sorted";

	$self->{duplicates} = $found;
	$self->{duplicate_examples} = [ $self->who_drew(@examples) ];
	$self->{shown} = 0 if $found > 0;
	return;
}

# A line for each of the IDs.
sub who_drew
{
	my ($self, @ids) = @_;
	my %who = map { $_ => [] } @ids;

	return unless @ids;
	foreach my $source (@{ $self->{sources} })
	{
		open my $fh, '<', $source->{file} or die "$source->{file}: $!";
		while (my $line = <$fh>)
		{
			chomp $line;
			my ($session, $id) = split / /, $line;
			push @{ $who{$id} }, "$source->{name} session $session"
			  if exists $who{$id};
		}
		close $fh;
	}
	foreach my $name (sort keys %{ $self->{named} })
	{
		exists $who{$_} && push @{ $who{$_} }, $name
		  foreach @{ $self->{named}{$name} };
	}
	return map {
		my @who = @{ $who{$_} };
		"$_ drawn " . @who . ' times, by ' . join ', ',
		  @who > EXAMPLES
		  ? (@who[ 0 .. EXAMPLES - 1 ], '...')
		  : @who
	} @ids;
}

sub examples
{
	my ($self) = @_;

	$self->find_duplicates;
	return (@{ $self->{duplicate_examples} },
		@{ $self->{disorder_examples} });
}

# Print the examples, once.
sub show
{
	my ($self) = @_;

	return if $self->{shown};
	my @examples = $self->examples;
	$self->{shown} = 1;
	Test::More::diag($_) foreach @examples;
	return;
}

sub report
{
	my ($self, $faults) = @_;
	my $line = sprintf '%d IDs drawn, %d faults survived, %d duplicates',
	  $self->count, $faults, $self->duplicates;

	$line .= sprintf ', %d out of order', $self->disorder if $self->disorder;
	if ($self->duplicates || $self->disorder)
	{
		Test::More::diag($line);
	}
	else
	{
		Test::More::note($line);
	}
	return;
}

1;
