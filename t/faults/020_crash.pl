# Uniqueness through crashes.  Sessions draw IDs while the server, or a part of
# it, is killed or stopped at a random moment and starts again with the clock
# set back, by a second up to a day.  Whatever any client has received, in
# transactions that were committed or not, must not come again.
#
# A broken build shall fail by collision and not by luck.  So IDs have few bits
# below the time, each millisecond begins with the same sequence number, and
# after the restart the server lives once more through the milliseconds in which
# it drew before.  In the slow rounds a commit takes longer than what is reserved
# lasts, so that IDs above a mark that is not durable yet would be there when the
# server is killed.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many rounds, SNOWFLAKE_FAULT_SEED repeats
# their order.

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 96;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || int rand 2**31;

my $epoch = 1577836800;    # 2020-01-01 00:00:00+00
my $replayed = 0.3;        # how much of the time before a fault comes again, s
my $far = 10;              # from so many seconds on a clock is far back

# What is done to the server, with sessions at work, and whether it takes a
# start thereafter.
my %faults = (
	'kill -9 of a backend' =>
	  { do => sub { kill_child($_[0], busy_backend($_[0]), $_[2]) } },
	'kill -9 of the worker' =>
	  { do => sub { kill_child($_[0], worker_pid($_[0]), $_[2]) } },
	'kill -9 of the postmaster' => { do => \&kill_postmaster, start => 1 },
	'immediate shutdown' =>
	  { do => sub { $_[0]->stop('immediate') }, start => 1 },
	'fast shutdown' => { do => sub { $_[0]->stop('fast') }, start => 1 },
	'smart shutdown' => { do => \&stop_smart, start => 1 },
	'fast shutdown cut short' => { do => \&stop_cut_short, start => 1 },
	'worker terminated and crash' =>
	  { do => \&terminate_worker, start => 1 });

# What is done to the clock before the server starts again: set back so many
# seconds; or, while IDs are drawn, set forward, and then back to the old time.
my %steps = (
	'clock right' => 0,
	'1 s back' => 1,
	'1 min back' => 60,
	'1 h back' => 3600,
	'1 day back' => 86400,
	'forward and back' => undef);

# How IDs are drawn: options of start_draw(), some of them chosen anew each
# time.
my %modes = (
	calls => sub { return (ids => 10, delay => int rand 3) },
	'long statements' => sub {
		return (sessions => 10, ids => 500, delay => int rand 3);
	},
	batches => sub {
		return (
			sql => 'SELECT snowflake_nextval(20)',
			delay => 1 + int rand 3);
	},
	rows => sub {
		my ($node, $round) = @_;
		return (sql => insert($round), delay => int rand 3);
	},
	'rows, synchronous_commit off' => sub {
		my ($node, $round) = @_;
		return (
			sql => insert($round),
			delay => 1 + int rand 3,
			connstr => $node->connstr('postgres')
			  . " options='-c synchronous_commit=off'");
	});

my (%done, %errors, %received);
my ($lost, $refused, $round) = (0, 0, 0);

sub insert
{
	my ($number) = @_;
	return 'INSERT INTO orders (id, round) '
	  . "SELECT snowflake_nextval(), $number FROM generate_series(1, 5) "
	  . 'RETURNING id';
}

sub pick { return $_[ rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub pause { usleep(rand($_[0]) * 1_000_000); return; }

#
# A server, and what is known of it: its clock when that is right ("base"),
# which goes up where IDs were drawn in the future; how it is configured; all
# IDs of it.
#
sub new_server
{
	my ($name, $time_shift, $conf) = @_;
	my $node = snowflake_node(
		$name, <<CONF . $conf,
restart_after_crash = on
autovacuum = off
log_statement = none
max_connections = 40
commit_siblings = 0
CONF
		clock => 0);

	# No unique index: it would keep a duplicate out.
	$node->safe_psql('postgres', 'CREATE TABLE orders (id bigint, round int)');
	return {
		node => $node,
		shift => $time_shift,
		base => 0,
		slow => 0,
		ledger => new_ledger()
	};
}

sub time_of
{
	my ($server, $id) = @_;
	return $id >> $server->{shift};
}

sub reconfigure
{
	my ($server, @settings) = @_;

	$server->{node}->safe_psql('postgres',
		join ';', map { "ALTER SYSTEM $_" } @settings);
	reload_node($server->{node});
	return;
}

# A commit then waits, for this many microseconds, before it writes what it has
# to make durable.  It must be less than the window, or no reservation would be
# there before the clock is past it.
sub set_slow
{
	my ($server, $slow) = @_;

	return if $server->{slow} == $slow;
	reconfigure(
		$server, $slow
		? (
			'SET fsync = on',
			'SET commit_delay = 100000',
			q(SET snowflake.reserve_window = '150ms'))
		: (
			'RESET fsync',
			'RESET commit_delay',
			'RESET snowflake.reserve_window'));
	$server->{slow} = $slow;
	return;
}

#
# Drawing
#

# Sessions that draw.  Those of $after begin when the fault is over.
sub draw
{
	my ($server, $mode, $after) = @_;
	my %opts = (sessions => 6, $modes{$mode}->($server->{node}, $round));
	my $draw = start_draw($server->{node}, %opts);

	# A session that connects anew has a new number.
	$draw->{before} = $after ? 0 : $opts{sessions};
	$draw->{mode} = $mode;
	@{$draw}{qw(last_before first_after count_after unread)} =
	  (0, ~0 >> 1, 0, '');
	return $draw;
}

# Look at what it has recorded since the last look.
sub look
{
	my ($draw) = @_;
	my $received = $draw->{mode} =~ /^rows/ ? $received{$round} //= {} : undef;

	open $draw->{look}, '<', $draw->{ids} or return
	  unless $draw->{look};

	# It may write faster than this reads.
	my $left = (-s $draw->{look}) - sysseek $draw->{look}, 0, 1;
	while ($left > 0)
	{
		my $got = sysread $draw->{look}, $draw->{unread}, min($left, 1 << 20),
		  length $draw->{unread}
		  or die "$draw->{ids}: $!";
		my @lines = split /\n/, $draw->{unread}, -1;

		$left -= $got;

		$draw->{unread} = pop @lines;    # not whole yet
		foreach (@lines)
		{
			my ($session, $id) = split / /;

			if ($session > $draw->{before})
			{
				$draw->{first_after} = $id if $id < $draw->{first_after};
				$draw->{count_after}++;
			}
			elsif ($id > $draw->{last_before})
			{
				$draw->{last_before} = $id;
			}
			$received->{$id} = 1 if $received;
		}
	}
	return;
}

# The last ID that it has recorded, of any session.
sub newest
{
	my ($draw) = @_;
	my $size = -s $draw->{ids} or return 0;

	return slurp_file($draw->{ids}, max(0, $size - 100)) =~
	  /.* (\d+)\n/s ? $1 : 0;
}

# Stop it, and keep its IDs and errors.
sub keep
{
	my ($server, $draw) = @_;
	my $report = stop_draw($draw);

	look($draw);
	close delete $draw->{look};
	$server->{ledger}->add($draw);
	$lost += $report->{lost};
	$refused += $report->{refused};
	while (my ($sqlstate, $error) = each %{ $report->{errors} })
	{
		my $all = $errors{$sqlstate} //= [ 0, $error->[1] ];
		$all->[0] += $error->[0];
	}
	return;
}

# One call, by psql: the ID, or the error as psql_error() returns it.  Both are
# empty where the server did not answer.
sub call
{
	my ($server, $max_wait) = @_;
	my (undef, $id, $stderr) = eval {
		$server->{node}->psql('postgres', <<SQL);
\\set VERBOSITY verbose
SET snowflake.max_wait = '$max_wait';
SELECT snowflake_nextval()
SQL
	};

	$id //= '';
	$server->{ledger}->add_ids('psql ' . ++$server->{calls}, $id) if $id ne '';
	return ($id, psql_error($stderr // ''));
}

#
# Faults
#

# The postmaster, which starts all anew, notices when $meanwhile has been done.
sub kill_child
{
	my ($node, $pid, $meanwhile) = @_;
	my $postmaster = postmaster_pid($node);

	kill 'STOP', $postmaster;
	kill 'KILL', $pid;
	$meanwhile->();
	kill 'CONT', $postmaster;
	return;
}

sub kill_postmaster
{
	my ($node) = @_;

	# alone, or with all its children
	kill9_postmaster($node, all => chance(0.5));
	return;
}

# The sessions go on until they end of themselves, in some rounds with the
# worker gone.
sub stop_smart
{
	my ($node, $draw) = @_;
	my $worker = worker_pid($node);

	kill 'TERM', postmaster_pid($node);
	pause(0.1);
	kill 'TERM', $worker if chance(0.5);
	pause(0.2);
	stop_draw($draw);
	$node->stop('smart', fail_ok => 1);    # it may be gone
	wait_for(sub { !server_processes($node) })
	  or die "the smart shutdown does not end\n";
	return;
}

# After the worker has lowered the mark, before, or meanwhile.
sub stop_cut_short
{
	my ($node) = @_;

	kill 'INT', postmaster_pid($node);
	pause(0.03);
	kill9_postmaster($node, all => chance(0.5));
	return;
}

# The worker may be anywhere between writing the mark, its commit, and raising
# the limit.
sub terminate_worker
{
	my ($node) = @_;

	kill 'TERM', worker_pid($node);
	pause(0.005);
	if (chance(0.5))
	{
		$node->stop('immediate');
	}
	else
	{
		kill_postmaster($node);
	}
	return;
}

#
# One round: draw before, during and after.  Returns what was wrong.
#
sub run_round
{
	my ($server, $fault, $step, $mode) = @_;
	my $node = $server->{node};
	my $back = $steps{$step} // pick(3, 20, 60, 300);
	my $draw = draw($server, $mode);
	my @problems;
	my $replay_from;

	wait_drawn($draw, 100);
	pause(0.3);

	if ($step eq 'forward and back')
	{
		# IDs drawn in the future want a mark there, which is not far ahead of
		# them yet.
		$server->{base} += $back;
		my $future = (time() + $server->{base} - $back / 2 - $epoch) * 1000;
		set_clock($node, $server->{base});
		$replay_from = time();
		wait_for(sub { time_of($server, newest($draw)) > $future })
		  or die "no IDs with the clock set forward\n";
		pause(0.3) if chance(0.3);
	}
	my $set_back = sub { set_clock($node, $server->{base} - $back) };

	# The fault, and the clock is set before it or after it, and before the
	# server starts again.
	my $log = -s $node->logfile;
	my $later = $back == 0 || chance(0.7);

	$set_back->() unless $later;
	my $fault_at = time();
	$faults{$fault}{do}->($node, $draw, $later ? $set_back : sub { });
	$set_back->() if $later && $faults{$fault}{start};
	$done{$fault}++;
	$replay_from //= $fault_at - $replayed;

	my $after = $draw;
	if ($draw->{report})
	{
		# the sessions had to end for it
		$after = draw($server, $mode, 1);
	}
	if ($faults{$fault}{start})
	{
		start_node($node);
	}
	else
	{
		wait_for(
			sub {
				slurp_file($node->logfile, $log) =~
				  /database system is ready to accept connections/;
			}) or die "the server does not start again\n";
	}

	# Far behind what was drawn, nothing is issued.
	if ($back >= $far)
	{
		my ($id, $error);

		wait_for(
			sub {
				($id, $error) = call($server, '50ms');

				# none where the worker has not read the mark yet
				return $id ne '' || $error->{message} =~ /clock is behind/;
			}) or push @problems, "no error: $error->{message}";
		push @problems, "issued with the clock back: $id" if $id ne '';
		pause(0.2);
		look($after);
		push @problems,
		  "$after->{count_after} IDs drawn with the clock back"
		  if $after->{count_after} > 0;

		# One way out is to go on ahead of the clock.
		if (chance(0.4))
		{
			reconfigure($server, q(SET snowflake.max_drift = '3d'));
			wait_drawn($after, 100);
			reconfigure($server, 'RESET snowflake.max_drift');
		}
	}

	# Another is to wait.  The time in which IDs were drawn comes again, all of
	# it.
	if ($back >= $far || $step eq 'forward and back')
	{
		set_clock($node, $server->{base} - (time() - $replay_from));
	}
	look($draw);
	wait_for(
		sub {
			time_of($server, newest($after)) >
			  time_of($server, $draw->{last_before});
		}) or push @problems, 'no IDs above those drawn before';
	wait_drawn($after, 100);

	# The third is to mend the clock.
	set_clock($node, $server->{base});
	wait_drawn($after, 100);

	keep($server, $_) foreach $draw, $after != $draw ? $after : ();
	my ($last, $first) =
	  map { time_of($server, $_) }
	  ($draw->{last_before}, min($draw->{first_after}, $after->{first_after}));
	push @problems, 'no IDs before or after it'
	  if $last == 0 || !$after->{count_after};
	push @problems, "first time $first after it, last time $last before"
	  if $first <= $last;
	return @problems;
}

# All sessions leave, new ones come, and the clock goes back meanwhile.
sub change_sessions
{
	my ($server, $mode) = @_;
	my $draw;

	set_clock($server->{node}, $server->{base} - $replayed);
	$draw = draw($server, $mode, 1);
	wait_drawn($draw, 100);
	set_clock($server->{node}, $server->{base});
	keep($server, $draw);
	return;
}

sub run_rounds
{
	my ($server, @plan) = @_;

	foreach (@plan)
	{
		my ($fault, $step) = @{$_};
		my $mode =
		    $fault =~ /^fast/ && chance(0.5) ? 'long statements'
		  : pick(sort keys %modes);
		my $began = time();
		my $ids = $server->{ledger}->count;

		$round++;
		set_slow($server,
			$step eq 'forward and back' ? chance(0.8) : chance(0.4))
		  if $server->{may_be_slow};
		my @problems = run_round($server, $fault, $step, $mode);
		my $changed = chance(0.3);
		change_sessions($server, $mode) if $changed;

		is(join('; ', @problems),
			'', sprintf('round %d: %s, %s', $round, $fault, $step));
		note sprintf '%s%s%s: %d IDs, %.1f s', $mode,
		  $server->{slow} ? ', slow commits' : '',
		  $changed ? ', other sessions' : '',
		  $server->{ledger}->count - $ids, time() - $began;
	}
	return;
}

# At the end: none came twice, neither to clients nor in rows.
sub check_all
{
	my ($server, $name, $first_round) = @_;
	my ($node, $ledger) = @{$server}{qw(node ledger)};
	my ($count, $distinct) = split /\|/,
	  $node->safe_psql('postgres',
		'SELECT count(*), count(DISTINCT id) FROM orders');
	my @rows = split /\n/,
	  $node->safe_psql('postgres', 'SELECT round, id FROM orders ORDER BY id');
	my @untold;

	is($distinct, $count, "$name: the rows have IDs of their own");
	foreach (@rows)
	{
		my ($number, $id) = split /\|/;
		push @untold, $id unless $received{$number}{$id};
	}

	# committed, and the connection was lost before the client knew
	$ledger->add_ids('rows that no client was told of', @untold);
	note "$count rows, " . @untold . ' of which no client was told';

	is($ledger->duplicates, 0, "$name: no ID came twice");
	is($ledger->disorder, 0, "$name: the IDs of a session increase");
	$ledger->report($round - $first_round);
	return;
}

#
# With the test's settings
#
note "SNOWFLAKE_FAULT_SEED=$seed SNOWFLAKE_FAULT_ROUNDS=$rounds";
srand $seed;

# Each fault with each clock, in any order, over and over.
my @combinations = map {
	my $fault = $_;
	map { [ $fault, $_ ] } sort keys %steps
} sort keys %faults;
my @plan;

push @plan, shuffle @combinations while @plan < $rounds;
$#plan = $rounds - 1;

my $server = new_server('crash', 13, <<'CONF');
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
snowflake.reserve_window = '300ms'
snowflake.max_drift = '150ms'
snowflake.max_wait = '300ms'
CONF
$server->{may_be_slow} = 1;
run_rounds($server, @plan);
set_slow($server, 0);
check_all($server, 'all rounds', 0);

#
# A clean stop while nobody draws: the mark is just above what was issued.  Then
# what an error says, and each way out of it.
#
{
	my $node = $server->{node};

	$node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval(100)");
	$node->poll_query_until('postgres', <<'SQL')
SELECT state = 'idle' AND sum(cardinality(pids)) = 0
FROM pg_stat_activity, pg_stat_snowflake_slots
WHERE backend_type = 'snowflake mark writer' GROUP BY state
SQL
	  or die "somebody draws\n";
	my $last = $node->safe_psql('postgres', <<'SQL');
SELECT extract(epoch FROM max(last_ts)) * 1000000 FROM pg_stat_snowflake_slots
SQL
	$node->stop('fast');
	set_clock($node, $server->{base} - 3600);
	start_node($node);
	my $mark = $node->safe_psql('postgres',
		'SELECT last_value FROM snowflake_home.mark');
	cmp_ok($mark, '==', $last + 1000,
		'after a clean stop, IDs begin at the next millisecond');

	my ($id, $error);
	wait_for(
		sub {
			($id, $error) = call($server, '50ms');
			return $id ne '' || $error->{message} =~ /clock is behind/;
		});
	is($id, '', 'restarted an hour back: no ID');
	is($error->{sqlstate}, '55P03', 'but an error');
	is( $error->{message},
		'cannot generate a snowflake ID: the clock is behind the last ID',
		'which says what is wrong');
	my $ts = qr/(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00)/;
	like(
		$error->{detail},
		qr/^The clock shows $ts\. The next unused time unit begins at $ts, which is \d+ ms ahead; "snowflake\.max_drift" allows 150 ms\. Waited for "snowflake\.max_wait", 50 ms\. Earlier times may have been used before the server was started, or snowflake_advance\(\) has skipped them\.$/,
		'and the two times');
	my ($clock, $next, $ahead) =
	  $error->{detail} =~ /$ts.*$ts, which is (\d+) ms/
	  or die "no times\n";
	is( $node->safe_psql('postgres', <<SQL),
SELECT extract(epoch FROM timestamptz '$next') * 1000000 = $mark,
       ceil(extract(epoch FROM timestamptz '$next' - timestamptz '$clock') * 1000) = $ahead,
       abs($ahead - 3600000) < 60000
SQL
		't|t|t', 'which are those of the mark and of the clock');
	is( $error->{hint},
		q{Set the server's clock. If it is right, wait until it has caught up, or raise "snowflake.max_drift" to go on ahead of it.},
		'and the ways out');

	my @ids;
	reconfigure($server, q(SET snowflake.max_drift = '2h'));
	wait_for(sub { (($id) = call($server, '50ms'))[0] ne '' });
	push @ids, $id;
	reconfigure($server, 'RESET snowflake.max_drift');
	$node->poll_query_until('postgres', <<'SQL');
SELECT setting = '150' FROM pg_settings WHERE name = 'snowflake.max_drift'
SQL
	is((call($server, '50ms'))[0], '', 'max_drift not raised any more');
	set_clock($node, $mark / 1e6 - time() - 1);
	($id) = call($server, '1min');
	push @ids, $id;
	set_clock($node, $server->{base} - 3600);
	is((call($server, '50ms'))[0], '', 'an hour back again');
	set_clock($node, $server->{base});
	($id) = call($server, '1min');
	push @ids, $id;
	is(scalar(grep { /^\d+\z/ } @ids), 3, 'each way out leads to an ID');
	my $floor = $mark / 1000 - $epoch * 1000;    # whole milliseconds
	is(scalar(grep { time_of($server, $_) >= $floor } @ids),
		3, 'at or above the mark');
	is($server->{ledger}->duplicates, 0, 'none that was drawn before');
	$node->stop;
}

#
# With the settings that it comes with
#
my $first_round = $round;
my $default = new_server('default', 22, '');
run_rounds(
	$default,
	[ 'kill -9 of a backend', 'clock right' ],
	[ 'kill -9 of the postmaster', '1 min back' ],
	[ 'fast shutdown', '1 h back' ],
	[ 'immediate shutdown', 'forward and back' ]);
check_all($default, 'default settings', $first_round);
$default->{node}->stop;

#
# What happened, and to the clients
#
note "$round rounds";
note sprintf '%3d times %s', $done{$_}, $_ foreach sort keys %done;
note "$lost connections lost, $refused refused";
note "error $_: $errors{$_}[0] times: $errors{$_}[1]" foreach sort keys %errors;
note sprintf '%d IDs drawn, %d duplicates',
  map { my $what = $_; sum0 map { $_->{ledger}->$what } $server, $default }
  qw(count duplicates);

# 55P03 is for waits that were too long; nothing has to be mended.
my @other =
  grep { !/^(?:55P03|57P0[123]|08...)$/ } sort keys %errors;
is("@other", '', 'clients met no other errors');

done_testing();
