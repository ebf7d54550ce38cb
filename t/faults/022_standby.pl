# A streaming standby is promoted while its clock is behind: by a second, a
# minute, an hour; synchronous, asynchronous, lagging; one after the other, so
# that each new primary was a standby before.  Nothing is issued until the
# clock is past the mark that the standby has received, and then no ID comes
# again.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX qw(WNOHANG);
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $minute = 60;
my $hour = 3600;
my $faults = 0;

# 256 IDs a millisecond, that begin with the same ones: whoever draws in a
# millisecond of another server draws its IDs.
my $conf = <<'CONF';
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
snowflake.reserve_window = 400ms
snowflake.max_wait = 300ms
snowflake.max_drift = 100ms
wal_keep_size = 1GB
max_connections = 50
shared_buffers = 16MB
autovacuum = off
log_statement = none
CONF

# Drawing that leaves rows, none of which is sent before it is committed: not
# even by who is told to end between the two.
my $insert = 'INSERT INTO t DEFAULT VALUES RETURNING id';
my $insert_and_commit = 'CALL insert_and_commit(NULL)';

sub new_primary
{
	my ($name) = @_;
	my $primary = snowflake_node(
		$name, $conf,
		allows_streaming => 1,
		clock => 0);

	$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE PROCEDURE insert_and_commit(INOUT id bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t DEFAULT VALUES RETURNING t.id INTO id;
    COMMIT;
END
$$;
SQL
	return $primary;
}

# A standby with a clock of its own, and a session there that stays.
sub new_standby
{
	my ($primary, $name, $clock) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$primary->backup($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	$standby->append_conf('postgresql.conf',
		"synchronous_standby_names = ''");
	set_clock($standby, $clock);
	start_node($standby);
	$primary->wait_for_catchup($standby);
	return ($standby, session($standby));
}

# Let all commits of a primary wait for its standby.
sub make_synchronous
{
	my ($primary) = @_;

	$primary->append_conf('postgresql.conf',
		"synchronous_standby_names = '*'");
	reload_node($primary);
	$primary->poll_query_until('postgres',
		"SELECT sync_state = 'sync' FROM pg_stat_replication")
	  or die 'the standby is not synchronous';
	return;
}

# Let a standby lose its primary, while that goes on.
sub disconnect
{
	my ($primary, @standbys) = @_;

	foreach my $standby (@standbys)
	{
		$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
		reload_node($standby);
		$standby->poll_query_until('postgres',
			'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
		  or die 'the standby is still connected';
	}
	return;
}

# Before its promotion a standby issues nothing.
sub is_in_recovery
{
	my ($session, $name) = @_;
	my ($id, $error) = draw_one($session);

	is( "$id$error->{sqlstate}: $error->{message}",
		'25006: cannot generate snowflake IDs during recovery',
		"$name: nothing is issued before the promotion");
	return;
}

# And snowflake_check() says before it how long there would be nothing.
sub foretells
{
	my ($standby, $name, $clock) = @_;
	my $ms = $clock == -$hour ? '3[56]\d{5}' : '[56]\d{4}';

	ok($standby->poll_query_until('postgres',
			qq(SELECT status = 'warning' AND detail ~ 'After a promotion this server would draw no ID for $ms ms, until ' FROM snowflake_check() WHERE name = 'mark')),
		"$name: snowflake_check() says so");
	return;
}

# Then IDs flow: in the session that was there before, and many in others,
# with rows and without.
sub flows
{
	my ($node, $session, $ledger, $name, %opts) = @_;
	my @draws = (
		start_draw($node, sessions => 4),
		start_draw($node, sessions => 4, sql => $insert));
	my $id = '';

	wait_drawn($draws[0], $opts{ids} // 10_000);
	wait_drawn($draws[1], 100);
	foreach (1 .. 50)
	{
		($id) = draw_one($session);
		last if $id ne '';
	}
	isnt($id, '', "$name: a session that was there before draws");
	$ledger->add_ids("$name, then", $id) if $id ne '';

	# Whoever came first may have waited too long.  Above all there must not be
	# 23505, unique_violation.
	like(join(' ', map { sqlstates($_) } @draws),
		qr/^(55P03| )*$/, "$name: IDs flow");
	$ledger->add($_) foreach @draws;
	return;
}

# Let a server go on although its clock is behind: from the mark on, with every
# ID that there is.
sub flows_ahead_of_clock
{
	my ($node, $session, $ledger, $name) = @_;

	set_max_drift($node, $session, '1d');
	flows($node, $session, $ledger, "$name, max_drift raised", ids => 30_000);
	set_max_drift($node, $session, '100ms');
	return;
}

sub set_max_drift
{
	my ($node, $session, $value) = @_;
	my $show = 'SHOW snowflake.max_drift';

	$node->safe_psql('postgres',
		"ALTER SYSTEM SET snowflake.max_drift = '$value'");
	reload_node($node);
	$node->poll_query_until('postgres', $show, $value)
	  && wait_for(sub { $session->query_safe($show) eq $value })
	  or die "max_drift is not $value";
	return;
}

# The rows whose IDs a client has received are all there.
sub has_rows
{
	my ($node, $draw, $name) = @_;
	my %there = map { $_ => 1 } rows($node);
	my @missing = grep { !$there{$_} } received($draw);

	is(scalar(@missing), 0, "$name: all old rows are there");
	diag("missing: $missing[0]") if @missing;
	return;
}

sub rows
{
	my ($node) = @_;

	return split /\n/, $node->safe_psql('postgres', 'SELECT id FROM t');
}

# The IDs that a draw has recorded up to now.
sub received
{
	my ($draw) = @_;

	return map { (split / /)[1] } split /\n/, slurp_file($draw->{ids});
}

# Without its synchronous standby a primary goes on to the limit at most.
sub stops_issuing
{
	my ($node, $session, $ledger, $name) = @_;
	my ($id, $error);

	foreach (1 .. 100)
	{
		($id, $error) = draw_one($session);
		$ledger->add_ids("$name, old primary", $id) if $id ne '';

		# the worker may not have come so far
		last if $error->{detail} =~ /SyncRep/;
		usleep(50_000);
	}
	is( "$error->{sqlstate}: $error->{message}",
		'55P03: cannot generate a snowflake ID: the durable mark could not be raised',
		"$name: without the standby the primary stops issuing");
	like($error->{detail}, qr/waits for IPC:SyncRep/, "$name: and says why");
	return;
}

sub kill_primary
{
	my ($node, $how) = @_;

	if ($how eq 'kill -9')
	{
		kill9_postmaster($node);
	}
	else
	{
		$node->stop($how);
	}
	$faults++;
	return;
}

# (1) Synchronous: the mark waits for the standby, so all IDs that a client
# has ever received are safe, at whatever moment the primary goes.
# (2) Asynchronous, but caught up: the same for what was drawn until then.
# (4) Each one's standby is the next one's primary.
# (6) Shut down cleanly, which lowers the mark, while sessions draw.
#
# The new primary has its clock behind by "clock" seconds, and nothing is
# issued.  Then it goes on by one of the ways out: its clock is not that much
# behind and it catches up; the clock is set to when the old primary began to
# draw, and catches up; max_drift is raised, so that it draws each ID from the
# mark on.  In the end the clock is set right.
my @rounds = (
	{ clock => -1, how => 'kill -9', way_out => 'wait' },
	{ clock => -$minute, how => 'immediate', way_out => 'again' },
	{ clock => -$hour, how => 'kill -9', way_out => 'ahead' },
	{ clock => -$hour, how => 'kill -9', lost => 1, way_out => 'ahead' },
	{ clock => -$minute, how => 'kill -9', caught_up => 1, way_out => 'again' },
	{ clock => -$hour, how => 'fast', async => 1, way_out => 'ahead' },
	{ clock => -1, how => 'immediate', way_out => 'wait' });

sub test_one_after_the_other
{
	my $ledger = new_ledger();
	my $primary = new_primary('server0');

	foreach my $i (1 .. @rounds)
	{
		my %round = %{ $rounds[ $i - 1 ] };
		my $name =
			($round{caught_up} || $round{async} ? 'asynchronous' : 'synchronous')
		  . ($round{lost} ? ', lost' : $round{caught_up} ? ', caught up' : '')
		  . ", $round{how}, clock $round{clock} s";
		my ($standby, $session) =
		  new_standby($primary, "server$i", $round{clock});

		note "server$i: $name";
		make_synchronous($primary) unless $round{caught_up} || $round{async};
		is_in_recovery($session, $name);

		my $began = time();
		my $rows = start_draw($primary, sessions => 4,
			sql => $round{how} eq 'kill -9' ? $insert : $insert_and_commit);
		my $draw = start_draw($primary, sessions => 4);
		wait_drawn($draw, 2000);
		wait_drawn($rows, 100);
		foretells($standby, $name, $round{clock}) if $round{clock} <= -$minute;
		# of a clock that is behind by a second, that is the time before
		wait_for(sub { time() - $began > 1.5 }) if $round{way_out} eq 'wait';
		usleep(rand 600_000);

		if ($round{lost})
		{
			# Who waits for a standby that does not answer must not go on, and has
			# to when it answers again.
			my $old_session = session($primary);
			my $receiver = $standby->safe_psql('postgres',
				'SELECT pid FROM pg_stat_wal_receiver');

			kill 'STOP', $receiver;
			stops_issuing($primary, $old_session, $ledger, "$name, at first slow");
			kill 'CONT', $receiver;
			ok( wait_for(
					sub {
						my ($id) = draw_one($old_session);
						$ledger->add_ids("$name, old primary", $id) if $id ne '';
						return $id ne '';
					}),
				"$name: IDs flow again by themselves");

			disconnect($primary, $standby);
			stops_issuing($primary, $old_session, $ledger, $name);
			$old_session->quit;
			$faults++;
		}
		if ($round{caught_up})
		{
			stop_draw($_) foreach $rows, $draw;
			$primary->wait_for_catchup($standby, 'flush');
		}

		if ($round{lost})
		{
			# The worker notices first, and must not take the end of its wait for
			# an answer: who then wakes up would draw what the standby draws too.
			my $worker = worker_pid($primary);
			my @asleep = split /\n/, $primary->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE application_name = 'draw'");
			my $count = drawn_before($primary, $draw, $rows);

			kill 'STOP', @asleep;
			kill 'KILL', postmaster_pid($primary);
			ok( wait_for(sub { waitpid $worker, WNOHANG; return !kill 0, $worker }),
				"$name: the worker ends");
			kill 'CONT', @asleep;
			kill_primary($primary, $round{how});
			is(drawn($draw) + drawn($rows), $count,
				"$name: no ID is drawn after the death of the postmaster");
		}
		else
		{
			kill_primary($primary, $round{how});
		}
		my $killed = time();

		# some that are there at the first moment
		my $early = start_draw($standby, sessions => 4);
		$standby->promote;
		note sprintf 'promoted %.1f s after the end of its primary',
		  time() - $killed;

		$ledger->add($_) foreach $rows, $draw;
		has_rows($standby, $rows, $name);
		if ($round{way_out} eq 'wait')
		{
			wait_drawn($early, 1000);
		}
		else
		{
			issues_nothing($standby, $session, $ledger, $name);
		}
		if ($round{way_out} eq 'again')
		{
			set_clock($standby, $began - time());
			flows($standby, $session, $ledger,
				"$name, the time when the old primary drew");
		}
		elsif ($round{way_out} eq 'ahead')
		{
			flows_ahead_of_clock($standby, $session, $ledger, $name);
			# what was drawn ahead of the clock is not drawn again either
			issues_nothing($standby, $session, $ledger,
				"$name, max_drift as before");
		}
		like(sqlstates($early), qr/^(25006 ?)?(55P03)?$/,
			"$name: no other errors");
		$ledger->add($early);

		set_clock($standby, 0);
		flows($standby, $session, $ledger, "$name, clock right");
		is($ledger->duplicates, 0, "$name: no ID came twice");

		$session->quit;
		$primary = $standby;
	}
	cmp_ok($ledger->disorder, '==', 0, 'the IDs of each session increase');
	$ledger->report($faults);
	$primary->stop;
	return;
}

# (3) Asynchronous and lagging, four of them: of one the replay is paused, three
# lose the primary at a moment.  It draws on, renews its mark, and is killed.
#
# What a standby has received counts, replayed or not, as it replays that
# before it is promoted.  So of the first, all IDs are asserted.  Of the other
# three, with the clock anywhere: all that were drawn before the moment, and
# those of all rows that are there.  IDs drawn after it, of which the standby
# knows nothing, it can draw again as soon as its clock allows times that the
# old primary has used, unless the clock is right: so of the second some do come
# again, as its clock allows; and of the others everything is asserted, as they do
# what the HINT says: the third sets its clock, and the fourth has the largest ID
# that a client has seen given up.
sub test_lagging
{
	my $primary = new_primary('lag');
	my ($paused, $paused_session) = new_standby($primary, 'paused', -$hour);
	my ($behind, $behind_session) = new_standby($primary, 'behind', -$hour);
	my ($right, $right_session) = new_standby($primary, 'right', -$hour);
	my ($told, $told_session) = new_standby($primary, 'told', -$hour);
	my %ledger = map { $_ => new_ledger() } qw(paused behind right told);

	my $before = start_draw($primary, sessions => 4);
	my $rows = start_draw($primary, sessions => 4, sql => $insert);
	wait_drawn($before, 3000);
	wait_drawn($rows, 100);
	stop_draw($before);
	$primary->wait_for_catchup($_, 'flush') foreach $paused, $behind, $right, $told;

	$paused->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$paused->poll_query_until('postgres',
		"SELECT pg_get_wal_replay_pause_state() = 'paused'")
	  or die 'the replay is not paused';
	disconnect($primary, $behind, $right, $told);
	my $moment = time();

	# several renewals later
	my $mark = 'SELECT last_value FROM snowflake_home.mark';
	my $after = start_draw($primary, sessions => 4);
	my @marks = $primary->safe_psql('postgres', $mark);
	while (@marks <= 8)
	{
		$primary->poll_query_until('postgres', "SELECT ($mark) > $marks[-1]")
		  or die 'the mark is not raised';
		push @marks, $primary->safe_psql('postgres', $mark);
	}
	wait_drawn($after, 1001);
	stop_draw($_) foreach $after, $rows;
	$primary->wait_for_catchup($paused, 'flush');
	cmp_ok($paused->safe_psql('postgres', $mark),
		'<', $marks[-1], 'paused: the mark is not replayed');
	like($paused->safe_psql('postgres', q(SELECT detail FROM snowflake_check() WHERE name = 'mark')),
		qr/ It has received WAL and not replayed it yet: \d+ \w+, as the replay is paused\./, 'paused: snowflake_check() says so');
	is_in_recovery($paused_session, 'paused');
	is_in_recovery($behind_session, 'lagging');
	kill_primary($primary, 'kill -9');

	# the first: all of it
	my $name = 'paused';
	$ledger{paused}->add($_) foreach $before, $after, $rows;
	$paused->promote;
	has_rows($paused, $rows, $name);
	issues_nothing($paused, $paused_session, $ledger{paused}, $name);
	flows_ahead_of_clock($paused, $paused_session, $ledger{paused}, $name);
	$paused_session->quit;
	$paused->stop;

	# the second: what was drawn before, and what is there
	$name = 'lagging';
	$behind->promote;
	my %there = map { $_ => 1 } rows($behind);
	my @lost = grep { !$there{$_} } received($rows), received($after);
	cmp_ok(scalar(@lost), '>', 1000, "$name: IDs are lost");
	$ledger{behind}->add($before);
	$ledger{behind}->add_ids('rows there', sort { $a <=> $b } keys %there);
	issues_nothing($behind, $behind_session, $ledger{behind}, $name);
	set_clock($behind, $moment - time());
	flows($behind, $behind_session, $ledger{behind},
		"$name, clock at that moment");

	my %lost = map { $_ => 1 } @lost;
	my $again = grep { $lost{$_} } rows($behind);
	cmp_ok($again, '>', 0, "$name: of " . @lost . ' IDs that the standby knew nothing of, some came again as IDs of rows, as this clock allows');
	$behind_session->quit;
	$behind->stop;

	# the third: all, as the clock is right
	$name = 'lagging, clock right';
	$ledger{right}->add($_) foreach $before, $after, $rows;
	$right->promote;
	issues_nothing($right, $right_session, $ledger{right}, $name);
	set_clock($right, 0);
	flows($right, $right_session, $ledger{right}, $name);
	$right_session->quit;
	$right->stop;

	# the fourth: all, as what was lost is given up, whatever the clock does then
	$name = 'lagging, told';
	$ledger{told}->add($_) foreach $before, $after, $rows;
	$told->promote;
	issues_nothing($told, $told_session, $ledger{told}, $name);
	like(session_error($told_session, 'SELECT snowflake_nextval()')->{hint},
		qr/or call snowflake_advance\(\) with the largest ID that clients have seen\. This server was promoted and is not confirmed\. .* repeat IDs that were lost/,
		"$name: the HINT");
	my ($largest) = sort { $b <=> $a } map { received($_) } $before, $after, $rows;
	$told->safe_psql('postgres', "SET client_min_messages = error; SET snowflake.max_wait = '1min'; SELECT snowflake_advance($largest)");
	set_clock($told, $moment - time());
	flows_ahead_of_clock($told, $told_session, $ledger{told}, $name);
	$told_session->quit;
	$told->stop;

	foreach my $standby (qw(paused behind right told))
	{
		is($ledger{$standby}->duplicates, 0, "$standby: no ID came twice");
		cmp_ok($ledger{$standby}->disorder,
			'==', 0, "$standby: the IDs of each session increase");
		$ledger{$standby}->report($faults);
	}
	return;
}

in_parallel(
	'one after the other' => \&test_one_after_the_other,
	'lagging' => \&test_lagging);
done_testing();
