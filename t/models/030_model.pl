# The protocols of the durable mark, of leased node numbers, of segments, of the
# order of IDs, of the horizon and of waking a process, in all orders of their
# steps: the model checker spin goes through every state of mark.pml, lease.pml,
# segment.pml, registry.pml, order.pml, horizon.pml and wake.pml.  It must find no ID issued twice or
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
		IPC::Run::timeout(30 * $PostgreSQL::Test::Utils::timeout_default));
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
my @release = (@timed, 'RELEASE');
my @others = ('TIMED', 'TIMES=2', 'TTL=1', 'OTHERS');
holds('a lease and its deadline', @timed);
holds('a lease, its deadline, and a number that follows another', @others);
holds('a lease, and the registry\'s clock steps', 'TIMED', 'TIMES=3', 'AT_ONCE', 'STEPS');
holds('a lease, and snowflake_release_node() for a server that is gone', @release);

issues('by a cached lease', 'restarted[me]');
issues('with a number that the other server took', 'taken[1-me]');
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
# The registry
#
use_model('registry');

my @leases = ('LEASES', 'PROMOTION');
my @tags = ('SEGMENTS', 'PROMOTION');
my @clocks = ('LEASES', 'CLOCKS', 'TIMES=2');
my @members = (@clocks, 'PROMOTION', 'AHEAD=1');
my @released = (@clocks, 'REGISTERED=1', 'RELEASE');
my @leases_back = ('LEASES', 'RESTORE', 'TTL=2', 'TIMES=3');
my @tags_back = ('SEGMENTS', 'RESTORE', 'TIMES=3', 'NUMBERS=1');
my @tags_again = (@tags_back, 'AGAIN', 'AT_ONCE');
my @both_back = ('LEASES', 'SEGMENTS', 'RESTORE', 'TIMES=2', 'AT_ONCE', 'NUMBERS=1');
my @unnoticed = ('SEGMENTS', 'RESTORE', 'UNNOTICED', 'TIMES=4', 'AT_ONCE');
my @unseen = ('LEASES', 'RESTORE', 'UNNOTICED', 'TTL=2', 'TIMES=3');

holds('segments of two servers', 'SEGMENTS', 'TIMES=1', 'DROP', 'LATE');
holds('leases, and the registry is promoted', @leases);
holds('segments, and the registry is promoted', @tags, 'LATE');
holds('leases, the registry is promoted, and any clocks', @clocks, 'PROMOTION');
holds('leases, and the clocks of the registry\'s members differ', @members);
holds('a registered number, and any clocks', @clocks, 'PROMOTION', 'REGISTERED=1');
holds('a registered number, and snowflake_release_node()', @released);
holds('a registered number, and the registry is promoted', @leases, 'REGISTERED=1');
holds('two servers register a number', @leases, 'REGISTERED=2');
holds('a registered number, and the registry is restored', @leases_back, 'REGISTERED=1');
holds('leases, and the registry is restored and does not know', @leases_back);
holds('segments, and the registry is restored and does not know', @tags_back);
holds('segments, a restore, and requests that come late', 'SEGMENTS', 'RESTORE', 'TIMES=2', 'NUMBERS=1', 'LATE');
holds('leases, a restore, and the registry is started once more', @leases_back, 'AGAIN');
holds('segments, a restore, and the registry is started once more', @tags_again);
holds('leases and segments, and the registry is restored', @both_back);
holds('leases, and the registry does not see that it was restored', @unseen);
holds('segments, and the registry does not see that it was restored', @unnoticed);
holds('who cannot prove anything ends no guard', @tags_back, 'STALE', 'AT_ONCE');

issues('with a number after a promotion', 'lost', @leases);
issues('after a promotion, from a segment', 'lost', @tags);
issues('with a number after a restored registry has opened early', 'opened_early', @leases_back);
issues('from a segment after a restored registry has opened early', 'opened_early', @tags_back);
issues('from a segment after the guard of a restored registry has run out', 'ran_out', @tags_back);

# A broken protocol gives a number twice.
sub gives_twice
{
	my ($name, @macros) = @_;

	violates(qr/^!\((?:issued|\(S\[.*deadline>now)\)/, "rejected: $name", $name, @macros);
	return;
}

gives_twice('an answer counts before the commit', 'SEGMENTS', 'TIMES=1', 'EARLY_ANSWER');
gives_twice('a tag that is dropped leaves nothing', 'SEGMENTS', 'TIMES=1', 'DROP', 'NO_TOMBSTONE');
gives_twice('the place is not noted at creation, leases', @leases, 'NO_NOTE');
gives_twice('the place is not noted at creation, segments', @tags, 'NO_NOTE');
gives_twice('no closing after a promotion, leases', @leases, 'NO_CLOSING');
gives_twice('no closing after a promotion, segments', @tags, 'NO_CLOSING');
gives_twice('what has expired is renewed while closed', @leases, 'RENEW_WHILE_CLOSED');
gives_twice('a number is kept while closed without a live lease', @leases, 'TRUST_HELD');
gives_twice('a claim after closing has the old floor', @clocks, 'PROMOTION', 'OLD_FLOOR');
gives_twice('marks are granted as far ahead as asked for', @clocks, 'PROMOTION', 'NO_CAP');
gives_twice('a running holder that is too far ahead is forgotten', @members, 'FORGET_REFUSED');
gives_twice('a server reports a mark below the one that it has', @members, 'REPORTS_LESS');
gives_twice('servers do not report', @tags, 'NO_REPORT');
gives_twice('servers have no deadline', @tags, 'NO_DEADLINE');
gives_twice('the deadline counts from the answer', @tags, 'FROM_ANSWER');
gives_twice('a server that was away forgets nothing', @tags, 'NO_FORGET');
gives_twice('a server heeds another place that it did not tell all', @tags, 'HEED_ANYWHERE');

# Registered numbers
gives_twice('a registration expires', @leases, 'REGISTERED=1', 'REGISTERED_EXPIRES');
gives_twice('a registration counts however late', @leases, 'REGISTERED=1', 'REGISTER_LATE');
gives_twice('the mark of a registered number has a limit', @released, 'CAP_REGISTERED');
gives_twice('what is released leaves no mark', @released, 'NO_MARK');
gives_twice('who has registered proves, however long it was away', @leases_back, 'PROVED_BY_REGISTERED');

# A restored registry that takes itself for the same
foreach my $kind ([ 'leases', @leases_back ], [ 'segments', @tags_back ])
{
	my ($what, @macros) = @$kind;

	gives_twice("no guard after a restart, $what", @macros, 'NO_GUARD');
	gives_twice("the guard ends when nobody is awaited, $what", @macros, 'NO_PROOF');
	gives_twice("one server ends the guard, $what", @macros, 'NO_WAIT');
	gives_twice("counts are not compared, $what", @macros, 'SEEN_ALONE');
	gives_twice("the registry goes on when a server knows more, $what", @macros, 'AHEAD_GOES_ON');
	gives_twice("what is told after the start proves, $what", @macros, 'STALE', 'PROVED_AGAIN');
}
gives_twice('only leases are awaited', @both_back, 'WAIT_FOR_LEASES');
gives_twice('only servers with segments are awaited', @both_back, 'WAIT_FOR_SEGMENTS');
gives_twice('a server whose lease has run out ends the guard', @leases_back, 'PROVED_BY_ANY');
gives_twice('a proof of before the start counts', @leases_back, 'AGAIN', 'STILL_PROVED');
gives_twice('another start begins the guard anew', @tags_again, 'FROM_NOW');
gives_twice('the changes that servers have seen are not compared', @unseen, 'RENEWALS_ALONE');
gives_twice('the numbers that servers have seen are not compared', @unnoticed, 'REPORTS_ALONE');
gives_twice('who reports without a count is not awaited', @tags_back, 'EXCEPT_ANYWAY');
gives_twice('a request without a count writes a row while guarded', @tags_back, 'ROW_ANYWAY');
gives_twice('a request without a count is told one while guarded', @tags_back, 'TELL_ANYWAY');
gives_twice('a server that was away keeps its count', @tags_back, 'KEPT_COUNT');
gives_twice('rows are written only when something is taken', @tags_back, 'ROW_LEFT');
gives_twice('servers are told the same place after a closing', @tags_back, 'PLACE_ALONE');
gives_twice('a server that was away forgets nothing after a restore', @tags_back, 'NO_FORGET');
gives_twice('a server tells not all after a restart', 'SEGMENTS', 'RESTORE', 'TIMES=5', 'TTL=2', 'PARTIAL_FIRST');

# What the documentation says that it does not cover.
gives_twice('nobody who is asked knows of the lease that was lost', @leases_back, 'UNTOLD');
gives_twice('nobody who is asked knows of the segments that were lost', @tags_back, 'UNTOLD');
gives_twice('who asks first does not know what was lost', @unnoticed, 'UNTOLD');
gives_twice('who knows of it has crashed', @leases_back, 'FORGETS');
gives_twice('a server does not report that its registration was lost', @leases, 'REGISTERED=1', 'ISOLATED');
gives_twice('a server does not report its mark, and clocks differ', @members, 'ISOLATED');
gives_twice('a server that has drawn lost numbers does not report', @tags, 'ISOLATED');
gives_twice('a server that has drawn lost numbers does not report after a restore', @tags_back, 'ISOLATED');
gives_twice('a tag is dropped when the registry is promoted', @tags, 'DROP');

#
# One order for all sessions
#
use_model('order');

holds_and_reaches_all('no ID is far below one that was drawn before');
holds('nor where max_drift is half a unit', 'TICKS=2');
holds('nor where it is one and a half', 'TICKS=2', 'DRIFT=3');
fails_model("an ID is drawn below another one", qr/^!/, 'NEVER=is_below');
fails_model('sessions do not look at the latest time after the swap', qr/drawn/, 'NO_LOOK');
fails_model('the latest time is raised after the ID is taken', qr/drawn/, 'RAISE_LATE');

#
# The horizon of readers
#
use_model('horizon');

holds_and_reaches_all('no reader misses a row', 'TRANSACTIONS=1');
fails_model('the note is written after the ID is taken', qr/told/, 'TRANSACTIONS=1', 'NOTE_LATE');
fails_model('notes are looked at before the words are raised', qr/told/, 'TRANSACTIONS=1', 'LOOK_EARLY');
fails_model('the words are not raised', qr/told/, 'TRANSACTIONS=1', 'NO_RAISE');
fails_model('the horizon is above the mark, and the server crashes', qr/told/, 'TRANSACTIONS=1', 'NO_LIMIT');
fails_model('prepared transactions keep no note', qr/told/, 'TRANSACTIONS=1', 'NOT_KEPT');
fails_model('they keep it once they are prepared', qr/told/, 'TRANSACTIONS=1', 'KEPT_LATE');
fails_model('they are looked at first', qr/told/, 'TRANSACTIONS=1', 'PREPARED_FIRST');
fails_model('the snapshot is taken before the horizon', qr/committed/, 'TRANSACTIONS=1', 'SNAPSHOT_EARLY');
fails_model('a horizon is above what was drawn', qr/^!/, 'TRANSACTIONS=1', 'NEVER=is_high');

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
