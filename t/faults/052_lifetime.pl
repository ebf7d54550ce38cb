# The end of the layout's time: IDs up to the last one, then an error, whatever
# the clock does afterwards; never a negative ID, nor one that was there.  In the
# year before, a WARNING in the log once a day; snowflake_check() says it too.

use strict;
use warnings FATAL => 'all';

use POSIX qw(strftime);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $day = 24 * 3600;

# as t/faults/050_layouts.pl has it: the highest worker number is kept for backfilling
my $reserved_workers = 1;

my $node;

sub new_server
{
	my ($name) = @_;

	$node = snowflake_node($name, <<'CONF', clock => 0, allows_streaming => 1);
autovacuum = off
snowflake.sequence_start = zero
include_if_exists 'test.conf'
CONF
	return;
}

# Start with these settings, and the clock at an instant.
sub start_with
{
	my ($at, $conf) = @_;

	append_to_file($node->data_dir . '/test.conf.new', $conf);
	rename $node->data_dir . '/test.conf.new', $node->data_dir . '/test.conf'
	  or die $!;
	clock_at($at);
	start_node($node);
	return;
}

sub clock_at
{
	my ($at) = @_;
	set_clock($node, $at - time);
	return;
}

# What the doctor says: its status, and the detail.
sub check
{
	my ($check) = @_;
	return split /\|/, $node->safe_psql('postgres',
		qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check')), 2;
}

sub is_ended
{
	my ($error, $layout, $at, $name) = @_;
	my $clock = strftime('%Y-%m-%d %H:', gmtime($at));

	is("$error->{sqlstate}: $error->{message}",
		'2200H: the lifetime of the snowflake layout has ended', $name);
	like(
		$error->{detail},
		qr/^$layout->{detail} The clock shows $clock\S+\+00\.$/,
		'which says when');
	is($error->{hint}, $layout->{hint},
		'and what to do');
	return;
}

# What a session gets, until it gets an error, which is returned.
sub draw_some
{
	my ($ledger, $session, $name) = @_;
	my ($id, $error, @ids);

	foreach (1 .. 10)
	{
		($id, $error) = draw_one($session);
		last if $error->{sqlstate} ne '';
		push @ids, $id;
	}
	$ledger->add_ids($name, @ids);
	return $error;
}

# How many of a draw's IDs are not from 0 to the last one.
sub outside
{
	my ($draw, $last) = @_;

	return scalar grep { $_ < 0 || $_ > $last }
	  map { (split / /)[1] } split /\n/, slurp_file($draw->{ids});
}

my $more_bits =
  'If the clock is right, give the time field more bits, up to %d, restart the server and call snowflake_accept_layout(). Existing IDs keep their meaning, and new ones are larger.';
my $new_epoch =
  'If the clock is right, set a later "snowflake.epoch": IDs begin anew. If they go to tables with old IDs, also set a "snowflake.node_id" that no server has had. Then restart the server and call snowflake_accept_layout().';

# "ids" is how many a time unit has, "last" the last one of the node.  The short
# ones have 2^16 units of 10 ms from 2080-01-01 00:00:00+00, 3471292800.  (Not in
# the past: the postmaster has the real clock at times, and would not start the
# worker again.)
my $short_end = 3471292800 + 655.36;
my @layouts = (
	{
		layout => 'time:16@10ms node:10 sequence:8',
		node => 1023,
		ids => 256,
		last => 2**34 - 1,
		shift => 18,
		end => $short_end,
		hint => sprintf($more_bits, 45),
		next => "snowflake.layout = 'time:45\@10ms node:10 sequence:8'",
		larger => 1
	},
	{
		layout => 'time:16@10ms node:39 worker:4 sequence:4',
		node => 2147483647,
		ids => 16 * (16 - $reserved_workers),
		last => (65535 << 47) + (2147483647 << 8) + 255 - 16 * $reserved_workers,
		shift => 47,
		end => $short_end,
		hint => $new_epoch,
		next =>
		  "snowflake.epoch = '2080-01-01 00:10:00+00'\nsnowflake.node_id = 7"
	},
	{
		layout => 'node:10 time:16@10ms sequence:8',
		node => 1023,
		ids => 256,
		last => 2**34 - 1,
		shift => 8,
		end => $short_end,
		hint => $new_epoch,
		next =>
		  "snowflake.epoch = '2080-01-01 00:10:00+00'\nsnowflake.node_id = 7"
	},
	{
		layout => 'time:41 node:5 worker:5 sequence:12',
		epoch => '2020-01-01 00:00:00+00',
		node => 31,
		ids => 4096 * (32 - $reserved_workers),
		last => 9223372036854775807 - 4096 * $reserved_workers,
		shift => 22,
		end => 1577836800 + 2199023255.552,
		ends => '2089-09-06 15:47:35.552+00',
		hint => $new_epoch,
		next =>
		  "snowflake.epoch = '2089-09-06 15:46:00+00'\nsnowflake.node_id = 7"
	});

sub test_layout
{
	my ($layout) = @_;
	my ($name, $end) = @{$layout}{qw(layout end)};
	my $epoch = $layout->{epoch} // '2080-01-01 00:00:00+00';
	my $ends = $layout->{ends} // '2080-01-01 00:10:55.36+00';
	my $ledger = new_ledger();
	my $conf = <<CONF;
snowflake.layout = '$name'
snowflake.epoch = '$epoch'
snowflake.node_id = $layout->{node}
snowflake.max_wait = 1s
CONF
	$layout->{detail} =
	  qr/The layout "\Q$name\E" with epoch \Q$epoch\E ends at \Q$ends\E\./;

	#
	# Until the clock is there
	#
	forget_mark($node);
	$node->stop;
	start_with($end - 600, $conf);
	my $session = session($node);
	$session->query_safe("SET snowflake.max_wait = '1min'");
	draw_some($ledger, $session, 'stays');
	is_deeply(
		[ check('lifetime') ],
		[
			'warning',
			"The layout \"$name\" with epoch $epoch ends at $ends. Days left: 0. $layout->{hint}"
		],
		"$name: in the last minutes snowflake_check() warns");

	my $draw = start_draw($node, sessions => 4, max_wait => '1min');
	wait_drawn($draw, 1000);
	clock_at($end - 2);
	my $error;
	ok( wait_for(
			sub {
				$error = draw_some($ledger, $session, 'stays');
				return $error->{sqlstate} ne '';
			}),
		'then there is an error');
	is_ended($error, $layout, $end, 'of the end');
	$session->query_safe('RESET snowflake.max_wait');
	clock_at($end + 1);
	wait_statements($node, $draw);
	is(sqlstates($draw), '2200H', 'all sessions get it');
	is(outside($draw, $layout->{last}), 0, 'no ID is negative, or past the end');
	$ledger->add($draw);
	is_deeply(
		[ check('lifetime') ],
		[
			'error',
			"The lifetime has ended. The layout \"$name\" with epoch $epoch ends at $ends. $layout->{hint}"
		],
		'snowflake_check() says it');

	#
	# Whatever the clock does after that
	#
	foreach my $seconds (40 * 365 * $day, -30, 0, -300)
	{
		clock_at($end + $seconds);
		$error = draw_some($ledger, $session, 'stays');
		$seconds < 0
		  ? like($error->{sqlstate}, qr/^(2200H|55P03)$/,
			"the clock back by $seconds s: no earlier ID in that session")
		  : is_ended($error, $layout, $end + $seconds,
			"$seconds s after the end");
		my $other = session($node);
		draw_some($ledger, $other, "$seconds s");
		$other->quit;
	}
	$session->quit;
	foreach my $how (qw(fast immediate))
	{
		foreach my $seconds (10, -20)
		{
			$node->stop($how);
			start_with($end + $seconds, $conf);
			$session = session($node);
			$session->query_safe("SET snowflake.max_wait = '1min'");
			$error = draw_some($ledger, $session, "$how, $seconds s");
			is_ended($error, $layout, $end + $seconds,
				"restarted ($how) $seconds s after the end: an error")
			  if $seconds > 0;
			$session->quit;
		}
	}
	is($ledger->duplicates, 0, "$name: unique");
	is($ledger->disorder, 0, "$name: each session's IDs ascend");

	#
	# Borrowing: the last three time units, and no more
	#
	forget_mark($node);
	$node->stop;
	start_with($end - 300, "$conf\nsnowflake.max_drift = 1h");
	my ($unit, $above) = ($layout->{shift}, $layout->{last} + 1);
	my $fourth = $layout->{last} - (3 << $unit);
	$node->safe_psql('postgres',
		"SET client_min_messages = error; SET snowflake.max_wait = '1min'; SELECT snowflake_advance($fourth)");
	my $last = new_ledger();
	$draw = start_draw($node,
		sessions => 1,
		max_wait => '10s',
		sql => 'SELECT snowflake_nextval(1000000)');
	# it may have drawn all of them by now
	ok(wait_for(sub { drawn($draw) >= 3 * $layout->{ids} }), "$name: the last IDs are drawn");
	$session = session($node);
	$error = draw_some($last, $session, 'another session');
	$session->quit;
	is_ended($error, $layout, $end - 300, 'borrowed to the end: an error');
	is(sqlstates($draw), '2200H', 'in the middle of a batch');
	$last->add($draw);
	is($last->count, 3 * $layout->{ids}, 'after all IDs that were left');
	is($last->duplicates, 0, 'unique');
	is(outside($draw, $layout->{last}), 0, 'none negative, or past the end');
	is( $node->safe_psql('postgres',
			'SELECT max(last_id) FROM pg_stat_snowflake_slots'),
		$layout->{last},
		'up to the last one');
	is((check('lifetime'))[0], 'warning', 'by the clock there is time left');

	#
	# What helps
	#
	my $old = $node->safe_psql('postgres', "SELECT snowflake_parse($fourth)");
	$node->stop;
	start_with($end + 1, "$conf$layout->{next}");
	$session = session($node);
	$session->query_safe("SET snowflake.max_wait = '1min'");
	$error = draw_some($last, $session, 'refused');
	$session->quit;
	is($error->{sqlstate}, '55000', 'another layout or epoch: an error');
	# (not at the moment when the worker tries again)
	my ($status, $detail);
	wait_for(sub { ($status, $detail) = check('mark'); return $status eq 'error' });
	is($status, 'error', 'snowflake_check() has it');
	like($detail, qr/this server has issued IDs with layout "\Q$name\E"/,
		'as the background worker says it');
	$node->safe_psql('postgres',
		"SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
	ok(wait_for(sub { (check('mark'))[0] eq 'ok' }), 'accepted');
	$draw = start_draw($node, sessions => 4, max_wait => '10s');
	wait_drawn($draw, 20000);
	is(sqlstates($draw), '', 'and IDs are drawn');
	$ledger->add($draw);
	is($ledger->duplicates, 0, 'none of them again');
	if ($layout->{larger})
	{
		is( $node->safe_psql('postgres', "SELECT snowflake_parse($fourth)"),
			$old, 'old ones read as before');
		is( $node->safe_psql('postgres',
				"SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() >= $above"),
			't', 'new ones are larger');
	}
	return;
}

#
# A year ahead
#
my $default = $layouts[-1];
my $year_ahead = $default->{end} - 365 * $day;
my $warning = 'the lifetime of the snowflake layout ends in less than a year';

# Draw at this time, for which the mark must be raised.  Returns how many
# warnings there were since the server's start.
my $log_start;

sub warnings_at
{
	my ($at) = @_;
	clock_at($at);
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	return warnings();
}

sub warnings
{
	my $log = slurp_file($node->logfile, $log_start);
	return scalar(() = $log =~ /WARNING:  $warning/g);
}

sub test_year
{
	forget_mark($node);
	$node->stop;
	$log_start = -s $node->logfile;
	start_with($year_ahead - $day, "snowflake.max_wait = 1min\n");
	is(warnings_at($year_ahead - $day), 0, '366 days left: no warning');
	is_deeply(
		[ check('lifetime') ],
		[
			'ok',
			"The layout \"$default->{layout}\" with epoch 2020-01-01 00:00:00+00 ends at $default->{ends}. Days left: 365."
		],
		'nor from snowflake_check()');
	is(warnings_at($year_ahead + 60), 1, 'less than 365: a warning');
	is((check('lifetime'))[0], 'warning', 'from snowflake_check() too');
	like(
		slurp_file($node->logfile, $log_start),
		qr/WARNING:  $warning\n.*DETAIL:  The layout "\Q$default->{layout}\E" with epoch 2020-01-01 00:00:00\+00 ends at \Q$default->{ends}\E\. Days left: 364\. After that no ID can be drawn\.\n.*HINT:  \Q$new_epoch\E\n/,
		'that says all');
	is(warnings_at($year_ahead + 60 + $_ * 3600), 1, "$_ hours later: no other")
	  for 1, 6, 23;

	# an idle server, and a worker that starts again
	clock_at($year_ahead + 30 * $day);
	check('lifetime');
	is(warnings(), 1, 'a month later, nobody draws: nothing');
	clock_at($year_ahead + 60 + 23.5 * 3600);
	my $worker = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
	ok($node->poll_query_until('postgres', "SELECT mark_writer_pid <> $worker FROM pg_stat_snowflake"),
		'the worker is terminated, and another one comes');
	ok(wait_for(sub { (check('mark'))[0] eq 'ok' }), 'with which all is well, though nobody has asked it for anything');
	is(warnings_at($year_ahead + 60 + 23.6 * 3600), 1, 'a new worker: no other');
	ok(wait_for(sub { (check('mark'))[0] eq 'ok' }), 'which does its work');

	is(warnings_at($year_ahead + 120 + 24 * 3600), 2, 'the next day: one more');
	is(warnings_at($year_ahead + 240 + 48 * 3600), 3, 'the day after: one more');
	$node->stop;
	start_node($node);
	is(warnings_at($year_ahead + 300 + 48 * 3600), 4, 'a restart: one more');
	is(warnings_at($year_ahead + 300 + 49 * 3600), 4, 'and then no other');

	#
	# What snowflake_check() says of a mark that is not raised
	#
	$node->safe_psql('postgres',
		q(ALTER SYSTEM SET synchronous_standby_names = 'nobody'));
	reload_node($node);
	$node->safe_psql('postgres', 'CHECKPOINT');    # whose process tells the others
	clock_at($year_ahead + 300 + 50 * 3600);
	my $psql = start_sql($node,
		"SET snowflake.max_wait = '1h'; SELECT snowflake_nextval() > 0;");
	my @check;
	ok( wait_for(
			sub {
				@check = check('mark');
				return $check[0] ne 'ok' && $check[1] =~ /IPC:SyncRep/;
			}),
		'no synchronous standby: snowflake_check() says so, where that lasts');
	like(
		$check[1],
		qr/^The background worker "snowflake mark writer", PID \d+, has not reacted for \d+ s and waits for IPC:SyncRep\./,
		'and what keeps it');
	$node->safe_psql('postgres',
		q(ALTER SYSTEM RESET synchronous_standby_names));
	reload_node($node);
	is(join('', finish_sql($psql)), 't', 'without one: IDs are drawn');
	ok(wait_for(sub { (check('mark'))[0] eq 'ok' }), 'and all is well');

	#
	# What snowflake_check() says of the clock
	#
	my ($status, $detail) = check('clock');
	is($status, 'ok', 'the clock is right');
	like($detail, qr/^The clock shows 2088-09-\S+ \S+\+00\.$/, 'and shown');
	clock_at($year_ahead + 300 + 49 * 3600);
	($status, $detail) = check('drift');
	is($status, 'error', 'an hour back');
	like($detail,
		qr/^IDs may have been issued with times up to .*, which is 3\d{6} ms ahead of the clock; "snowflake\.max_drift" allows 1000 ms\. Set the server's clock/,
		'and how far');
	clock_at(1577836800 - 10 * $day);
	($status, $detail) = check('clock');
	is($status, 'error', 'before the epoch');
	like($detail,
		qr/^The clock shows 2019-12-22 .*, which is before "snowflake\.epoch", 2020-01-01 00:00:00\+00\. Set the server's clock\.$/,
		'and what to do');

	#
	# Time units of a day: the last one is counted too
	#
	forget_mark($node);
	$node->stop;
	$log_start = -s $node->logfile;
	my $last_day = 3471292800 + 4095 * $day;
	start_with($last_day - $day + 1000, <<'CONF');
snowflake.layout = 'time:12@86400s node:5 sequence:10'
snowflake.epoch = '2080-01-01 00:00:00+00'
snowflake.max_wait = 10s
CONF
	is(warnings_at($last_day - $day + 1000), 1, 'units of a day: a warning');
	like((check('lifetime'))[1], qr/Days left: 2\./, 'two days before the end');
	is(warnings_at($last_day + 1000), 2, 'and on the next day');
	like((check('lifetime'))[1], qr/Days left: 1\./, 'the last one');

	$node->stop;
	return;
}

in_parallel(
	(map {
		my @group = @{$_};
		"layouts @group" => sub {
			new_server("layouts_$group[0]");
			test_layout($layouts[$_]) foreach @group;
			$node->stop;
		}
	} [ 0, 1 ], [ 2, 3 ]),
	'a year ahead' => sub {
		new_server('year');
		test_year();
	});
done_testing();
