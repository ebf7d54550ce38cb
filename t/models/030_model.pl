# The protocols of the durable mark, of leased node numbers, of segments, of the
# order of IDs and of waking a process, in all orders of their steps: the model
# checker spin goes through every state of mark.pml, lease.pml, segment.pml,
# segment_registry.pml, order.pml and wake.pml.  It must find no ID issued twice or
# far below an earlier one, and nobody who sleeps for ever, and it must find one as
# soon as a protocol lacks any of its parts.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Storable qw(retrieve store);
use Test::More;

my $model;
my @checks;         # what is to be checked, in order
my $at_once = 2;    # so many at the same time

# How the search is compiled.  Better code takes longer to compile than it saves.
# A violation is found sooner, mostly, when what comes last in the model is tried
# first.
my @all_states = ('-O1');
my @soon_ended = ('-O0', '-DT_REVERSE');

# More steps than in any run without a loop; spin says when it was too few.
my $depth = 400_000;

# Not skipped: without this, nothing shows that the promise is kept.
my $version =
  eval { run_in(PostgreSQL::Test::Utils::tempdir(), 'spin', '-V') } // $@;
if ($version !~ /^Spin Version/)
{
	fail('the model checker "spin" is missing: install the package spin');
	diag($version);
	done_testing();
	exit 1;
}
note($version);

# Run a program in a directory.  Returns what it printed; dies when it cannot
# be started, not when it fails.
sub run_in
{
	my ($dir, @command) = @_;
	my $output = '';

	IPC::Run::run(
		\@command, '<', '/dev/null', '>', \$output, '2>&1',
		init => sub { chdir $dir or die "$dir: $!" },
		IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	return $output;
}

# Check the model with these macros, in its turn, and give what comes of it to a
# function.
sub check
{
	my ($report, $search, $name, @macros) = @_;

	push @checks,
	  {
		report => $report,
		search => $search,
		name => $name,
		macros => \@macros,
		model => $model,
		dir => PostgreSQL::Test::Utils::tempdir()
	  };
	return;
}

# Check all, several in processes of their own, and report in order.
sub check_all
{
	my $next = 0;
	my %running;

	foreach my $check (@checks)
	{
		while (!$check->{ended})
		{
			while (keys %running < $at_once && $next < @checks)
			{
				my $new = $checks[ $next++ ];

				$running{ start_check($new) } = $new;
			}
			my $ended = delete $running{ wait() } or next;

			die "$ended->{name} could not be checked\n" if $? != 0;
			$ended->{ended} = 1;
		}
		my $result = retrieve("$check->{dir}/result");

		note($result->{summary});
		$check->{report}->($result);
	}
	return;
}

# Returns the process that does it, and leaves the result in a file.
sub start_check
{
	my ($check) = @_;
	my $pid = fork // die "fork: $!";

	return $pid if $pid != 0;
	my $done = eval { store(run_check($check), "$check->{dir}/result") };
	print STDERR $@ unless $done;
	POSIX::_exit($done ? 0 : 1);
}

# Returns what came of it: a hash.
sub run_check
{
	my ($check) = @_;
	my ($name, $model, $dir) = @{$check}{qw(name model dir)};
	my @macros = @{ $check->{macros} };
	my @define = map { "-D$_" } @macros;
	my %result = (dir => $dir, define => \@define, model => $model);

	my $output = run_in($dir, 'spin', @define, '-a', $model);
	# all interleavings, none left out as equivalent; give up at 2 GB
	$output .= run_in($dir, $ENV{CC} // 'cc', @{ $check->{search} }, '-DSAFETY',
		'-DNOREDUCE', '-DMEMLIM=2000', '-o', 'pan', 'pan.c');
	$output .= run_in($dir, "$dir/pan", "-m$depth", '-w22')
	  if -x "$dir/pan";

	$result{output} = $output;
	($result{errors}) = $output =~ /, errors: (\d+)$/m;
	($result{assertion}) = $output =~ /^pan:\d+: assertion violated\s+(.*) \(at depth/m;
	# one that was cut short says so, in one of these ways
	$result{complete} = defined $result{errors} &&
	  $output !~ /not completed|max search depth too small|out of memory|MEMLIM|truncated|too large/;

	my ($states) = $output =~ /^\s*(\S+) states, stored/m;
	my ($memory) = $output =~ /^\s*(\S+)\s+total actual memory usage/m;
	my ($time) = $output =~ /elapsed time (\S+) seconds/;
	$result{summary} = sprintf '%s (%s): %s states, %s s, %s MB', $name,
	  join(' ', @macros), map { $_ // '?' } $states, $time, $memory;
	return \%result;
}

# Show why it did not run, or the steps that lead to an assertion that failed.
sub show
{
	my ($result) = @_;

	diag($result->{output});
	my ($trail) = glob "$result->{dir}/*.trail";
	return unless defined $trail;
	my $steps = run_in($result->{dir}, 'spin', @{ $result->{define} },
		'-t', '-p', '-k', $trail, $result->{model});
	foreach my $step (split /\n/, $steps)
	{
		next unless $step =~ /proc +(\d+) \((\w+).*?:(\d+) \(state.*\t\[(.*)\]/;
		my ($process, $name, $line, $statement) = ($1, $2, $3, $4);
		diag("line $line\t$name $process\t$statement")
		  unless $statement =~ /^(?:\(1\)|else|break|.*goto.*)$/;
	}
	return;
}

sub is_right
{
	my ($result, $name) = @_;

	ok($result->{complete} && $result->{errors} == 0, $name)
	  or show($result);
	return;
}

# All states, and in none anything is wrong.
sub holds
{
	my ($name, @macros) = @_;

	check(sub { is_right($_[0], $name) }, \@all_states, $name, @macros);
	return;
}

# The same, and each statement of the model is executed.
sub holds_and_reaches_all
{
	my ($name, @macros) = @_;
	my $report = sub {
		my ($result) = @_;
		my @unreached = grep { !/"-end-"/ } $result->{output} =~ /^\t(\S+:\d+, state \d+, .*)$/mg;

		is_right($result, $name);
		is("@unreached", '', 'every statement was executed');
	};

	check($report, \@all_states, $name, @macros);
	return;
}

# An assertion like this is violated, as the search finds soon.
sub violates
{
	my ($pattern, $test, $name, @macros) = @_;
	my $report = sub {
		my ($result) = @_;

		like($result->{assertion} // '', $pattern, $test) or show($result);
	};

	check($report, \@soon_ended, $name, @macros);
	return;
}

# A broken protocol lets an ID be issued twice.  Nothing else is asserted.
sub rejected
{
	my ($name, @macros) = @_;

	violates(qr/^!\(issued\)$/, "rejected: $name", $name, 'UNIQUE_ONLY', @macros);
	return;
}

# IDs are issued under a condition: what holds then does not hold for want of
# anything that happens.
sub issues
{
	my ($name, $condition, @macros) = @_;

	# the only assertion besides the one of uniqueness
	violates(qr/^!\((?!issued\))/, "IDs are issued $name", $name, 'UNIQUE_ONLY', "NEVER=$condition", @macros);
	return;
}

# Go on with this model.
sub use_model
{
	my ($name) = @_;

	$model = abs_path(dirname(__FILE__) . "/$name.pml");
	return;
}

#
# The durable mark
#
use_model('mark');

# Each with any clock, crashes, clean restarts, and a worker that ends alone.
#
holds('one slot', 'TIMES=4');
holds('two slots', 'SLOTS=2', 'SEQUENCES=1');
holds_and_reaches_all('two slots, and snowflake_advance()', 'TIMES=2', 'SLOTS=2', 'ADVANCE');
holds('synchronous standby, and snowflake_advance()', 'SYNC', 'ADVANCE');
holds('asynchronous standby', 'ASYNC');

#
# IDs are issued whatever happened before
#
issues('after a crash', 'started_by==crash');
issues('after a clean restart', 'started_by==stop');
issues('after promotion of a synchronous standby', 'started_by==promotion', 'SYNC');
issues('after promotion of an asynchronous standby', 'started_by==promotion', 'ASYNC');
issues('after snowflake_advance()', 'advanced', 'ADVANCE');
issues('after the worker alone ended', 'worker_ended');
issues('while the worker closes the words', 'limit==0');

#
# No part of it can be left out
#
rejected('the limit is published before the commit', 'PUBLISH_FIRST');
rejected('words are not raised to the floor', 'NO_FLOOR');
rejected('the word of a slot that is given back is reset', 'RESET_WORD');
rejected('words are not closed before the mark is lowered', 'NO_CLOSE');
rejected('the mark is lowered when it was not read yet', 'CLOSE_UNKNOWN');
rejected('closed words are left out when the mark is lowered', 'CLOSE_AGAIN');
rejected('the commit does not wait for the synchronous standby', 'SYNC', 'ASYNC_COMMIT');
rejected('snowflake_advance() does not raise the words', 'ADVANCE', 'NO_RAISE');
rejected('snowflake_advance() takes the floor for durable on the standby', 'SYNC', 'ADVANCE', 'TRUST_FLOOR');

#
# Leased node numbers
#
use_model('lease');

# With any clocks, and leases that expire at any time: the mark alone does it.
# One server does all in steps, and each of its two processes may end alone.
holds('a lease');
holds('a lease, cloned servers, and reboots', 'CLONE', 'REBOOT', 'AT_ONCE');
holds('a lease, and requests that come late', 'LATE', 'AT_ONCE');

# With right clocks, nor do two servers believe that they have one number.
my @timed = ('TIMED', 'TIMES=4', 'AT_ONCE');
my @promotion = (@timed, 'TTL=1', 'PROMOTION', 'BEHIND');
my @ahead = ('TIMED', 'TIMES=2', 'AT_ONCE', 'TTL=1', 'PROMOTION', 'ANY_CLOCK', 'MARGIN=1');
my @restore = ('TIMED', 'TIMES=3', 'AT_ONCE', 'RESTORE');
my @release = (@timed, 'RELEASE');
my @others = ('TIMED', 'TIMES=2', 'TTL=1', 'OTHERS');
holds('a lease and its deadline', @timed);
holds('a lease, its deadline, and a number that follows another', @others);
holds('a lease, and the registry\'s clock steps', 'TIMED', 'TIMES=3', 'AT_ONCE', 'STEPS');
holds('a lease, and the registry is promoted', @promotion);
holds('a lease, the registry is promoted, and clocks are ahead', @ahead);
holds('a lease, and the registry is restored and does not know', @restore);
holds('a lease, and snowflake_release_node() for a server that is gone', @release);

issues('by a cached lease', 'restarted[me]');
issues('with a number that the other server took', 'taken[1-me]');
issues('with a number after the registry was promoted', 'promoted', @promotion);
issues('after a restored registry has opened early', 'opened_early', @restore);
issues('while a number is on offer', 'my.offered');
issues('after the writer has ended within a handover', 'writer_ended');
issues('after services have ended within a handover', 'services_ended');

foreach my $rule (
	[ 'the floor is ignored', 'IGNORE_FLOOR' ],
	[ 'the floor is ignored where the number is the same', 'SAME_NUMBER' ],
	[ 'the floor is lost with the answer', 'LOST_FLOOR' ],
	[ 'the node number is read before the limit', 'NODE_FIRST' ],
	[ 'words are not raised when the number changes', 'NO_RAISE' ],
	[ 'a renewal lowers the limit', 'LOWER_LIMIT' ],
	[ 'the cached lease is not bound to the instance', 'CLONE', 'CACHE_ANY_INSTANCE' ],
	[ 'the registry renews for another instance', 'CLONE', 'RENEW_ANY_INSTANCE' ],
	[ 'the floor is not cached', 'CACHE_NO_FLOOR' ],
	[ 'the answer counts before the commit', 'EARLY_ANSWER' ],
	[ 'the mark is not raised with the renewal', 'NO_MARK_RAISE' ])
{
	my ($name, @macros) = @$rule;

	rejected($name, 'AT_ONCE', @macros);
}

# From services to the writer
rejected('the limit is published before the node number', 'LIMIT_FIRST');
rejected('services write the number, and the words are raised later', 'SERVICES_NUMBER');
rejected('an offer takes the place of one that is not taken yet', 'OVERWRITE');
rejected('an offer counts as taken before it is', 'TAKEN_EARLY');
rejected('services write the floor, and offer it later', 'FLOOR_EARLY');
rejected('a renewal looks for no offer', 'RENEW_LATE');

rejected('no closing after a promotion', @promotion, 'NO_CLOSING');
rejected('what has expired is renewed while closed', @promotion, 'RENEW_WHILE_CLOSED');
rejected('a number is kept while closed without a live lease', @promotion, 'TRUST_HELD');
rejected('what has expired is renewed after closing', @promotion, 'RENEW_EXPIRED');
rejected('a claim after closing has the old floor', @promotion, 'OLD_FLOOR');
rejected('marks are granted as far ahead as asked for', @ahead, 'NO_CAP');

# A restored registry that takes itself for the same
rejected('no guard after a restart', @restore, 'NO_GUARD');
rejected('the guard ends when no lease ran by the record', @restore, 'NO_PROOF');
rejected('one server ends the guard', @restore, 'NO_WAIT');
rejected('the guard ends when the leases by the record have run out', @restore, 'RUN_OUT');
rejected('a server whose lease has run out ends the guard', @restore, 'PROVED_BY_ANY');
rejected('renewals are not compared', @restore, 'SEEN_ALONE');
rejected('the registry goes on when a server knows more', @restore, 'AHEAD_GOES_ON');

# What the documentation says that it does not cover.
rejected('nobody who is asked knows of what was lost', @restore, 'UNTOLD');
rejected('who knows of it has no lease by the record', @restore, 'TOLD_WITHOUT_LEASE');

rejected('snowflake_release_node() for a server that runs', @release, 'STILL_RUNS');
rejected('snowflake_release_node(), and the server\'s clock was ahead', 'TIMED', 'TIMES=2', 'AT_ONCE', 'TTL=1', 'RELEASE', 'ANY_CLOCK');

# These keep two servers from believing that they have one number.  Without
# them IDs are unique all the same, by the mark.
foreach my $fence (
	[ 'the deadline is counted from the answer', 'TIMED', 'TIMES=3', 'AT_ONCE', 'FROM_ANSWER' ],
	[ 'a number is free before its mark has passed', 'TIMED', 'TIMES=3', 'AT_ONCE', 'STEPS', 'NO_MARK_CONDITION' ])
{
	my ($name, @macros) = @$fence;

	violates(qr/deadline/, "two holders: $name", $name, @macros);
	holds("unique: $name", @macros, 'UNIQUE_ONLY');
}

violates(qr/deadline/, 'two holders: the deadline is there before the number',
	'the deadline is there before the number', @others, 'DEADLINE_EARLY');

#
# Segments within a server
#
use_model('segment');

# A broken protocol shows by any assertion: of another tag, or who sleeps for
# ever.
sub fails_model
{
	my ($name, $pattern, @macros) = @_;

	violates($pattern, "rejected: $name", $name, @macros);
	return;
}

holds('segments within a server', 'GENERATIONS=2');
holds('segments, and the entry is another tag\'s', 'REUSE', 'SERIALS=2', 'GENERATIONS=2');
holds('segments, and who waits for them', 'WAKING', 'GENERATIONS=2');
rejected('a number is taken whatever the generation', 'GONE_ONLY');
fails_model('the word is not closed', qr/tag/, 'REUSE', 'SERIALS=2', 'GENERATIONS=2', 'NO_CLOSE');
fails_model('the serial is not looked at', qr/tag/, 'REUSE', 'SERIALS=2', 'GENERATIONS=3', 'NO_SERIAL');
fails_model('who asks does not exchange', qr/waits/, 'WAKING', 'GENERATIONS=2', 'WAKE_LATE');
fails_model('sleep is prepared after the look', qr/waits/, 'WAKING', 'GENERATIONS=2', 'PREPARE_LATE');
fails_model('the worker forgets what it has cleared', qr/waits/, 'WAKING', 'GENERATIONS=2', 'FORGET_CLEARED');
fails_model('a report clears what it has not seen', qr/asked/, 'WAKING', 'POLL', 'GENERATIONS=2', 'CLEAR_UNREAD');

#
# Segments of several servers
#
use_model('segment_registry');

my @promoted = ('PROMOTION=1', 'TIMES=4');
my @set_back = ('RESTORE', 'TIMES=3');
my @unnoticed = ('RESTORE', 'UNNOTICED', 'TIMES=4');
holds('segments of two servers', 'TIMES=1', 'DROP', 'LATE');
holds('segments, and the registry is promoted', @promoted, 'LATE');
holds('segments, and the registry is restored and does not know', @set_back, 'TIMES=4');
holds('segments, a restore, and requests that come late', @set_back, 'LATE');
holds('segments, a restore, and the registry is started once more', @set_back, 'AGAIN');
holds('segments, and the registry does not see that it was restored', @unnoticed);
issues('after a promotion, from a segment', 'promoted', @promoted);
issues('from a segment after a restored registry has opened early', 'opened_early', @set_back);
issues('from a segment after the guard of a restored registry has run out', 'ran_out', @set_back);

rejected('an answer counts before the commit', 'TIMES=1', 'EARLY_ANSWER');
rejected('a tag that is dropped leaves nothing', 'TIMES=1', 'DROP', 'NO_TOMBSTONE');
rejected('no closing after a promotion, segments', @promoted, 'NO_CLOSING');
rejected('servers do not report', @promoted, 'NO_REPORT');
rejected('servers have no deadline', @promoted, 'NO_DEADLINE');
rejected('the deadline counts from the answer', @promoted, 'FROM_ANSWER');
rejected('a server that was away forgets nothing', @promoted, 'NO_FORGET');
rejected('a server heeds another place that it did not tell all', @promoted, 'HEED_ANYWHERE');

# A restored registry that takes itself for the same
rejected('no guard after a restart, segments', @set_back, 'NO_GUARD');
rejected('the guard ends when no row is awaited', @set_back, 'NO_PROOF');
rejected('one server ends the guard, segments', @set_back, 'NO_WAIT');
rejected('another start begins the guard anew', @set_back, 'AGAIN', 'FROM_NOW');
rejected('counts are not compared', @set_back, 'SEEN_ALONE');
rejected('what servers have seen is not compared', @unnoticed, 'REPORTS_ALONE');
rejected('the registry goes on when a server knows more, segments', @set_back, 'AHEAD_GOES_ON');
rejected('a request without a count writes a row while guarded', @set_back, 'ROW_ANYWAY');
rejected('a request without a count is told one while guarded', @set_back, 'TELL_ANYWAY');
rejected('rows are written only when something is taken', @set_back, 'ROW_LEFT');
rejected('servers are told the same place after a closing', @set_back, 'PLACE_ALONE');
rejected('a server that was away forgets nothing after a restore', @set_back, 'NO_FORGET');
rejected('a server tells not all after a restart', 'RESTORE', 'TIMES=5', 'TTL=2', 'PARTIAL_FIRST');

# What the documentation says that it does not cover.
rejected('nobody who is asked knows of the segments that were lost', @set_back, 'UNTOLD');
rejected('who asks first does not know what was lost', @unnoticed, 'UNTOLD');
rejected('a server that has drawn lost numbers does not report after a restore', @set_back, 'ISOLATED');
rejected('a tag is dropped when the registry is promoted', @promoted, 'DROP');
rejected('a server that has drawn lost numbers does not report', @promoted, 'ISOLATED');

#
# One order for all sessions
#
use_model('order');

holds_and_reaches_all('no ID is far below one that was drawn before');
holds('nor where max_drift is half a unit', 'TICKS=2');
holds('nor where it is one and a half', 'TICKS=2', 'DRIFT=3');
fails_model("an ID is drawn below another one", qr/^!/, 'NEVER=is_below');
fails_model('sessions do not look at the latest time', qr/began/, 'NO_LOOK');
fails_model('sessions that stay where they are do not look', qr/began/, 'NO_FAST_LOOK');
fails_model('sessions do not follow the latest time, and max_drift is half a unit', qr/began/, 'TICKS=2', 'NO_FOLLOW');
fails_model('sessions do not follow it, and max_drift is one and a half', qr/began/, 'TICKS=2', 'DRIFT=3', 'NO_FOLLOW');
fails_model('the latest time is raised after the ID is taken', qr/began/, 'RAISE_LATE');

#
# Who wakes whom
#
use_model('wake');

my %way = ('who exchanges, and wakes if nobody has' => [], 'who writes, and wakes' => ['PLAIN']);

foreach my $way (sort keys %way)
{
	my @way = @{ $way{$way} };

	holds("$way: nobody sleeps for ever", @way);
	fails_model("$way, and has no barrier", qr/waits/, @way, 'NO_BARRIER');
	fails_model("$way: the worker has no barrier", qr/waits/, @way, 'NO_START_BARRIER');
	fails_model("$way: the worker looks before it can be woken", qr/waits/, @way, 'LOOK_FIRST');
}
fails_model('the latch is reset after the look', qr/waits/, 'RESET_LATE');

check_all();
done_testing();
