# Other generators' layouts, each at full speed: eight sessions draw for ten
# seconds.  No ID comes twice, all are what the layout says, and there are as many
# as it allows, no more.  snowflake_layout() says what was computed by hand.

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min sum0);
use POSIX qw(strftime);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use Time::Local qw(timegm);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $sessions = 8;
my $seconds = 10;
my $max_drift = 1;

# The numbers of a worker field that are drawn from: all but the highest, which
# is kept for backfilling, and 4096 at most.
my $reserved_workers = 1;
my $most_workers = 4096;

# With its original epoch Baidu's layout has ended: 2^28 seconds from this year.
my $year = (gmtime)[5] + 1900;
my $baidu_epoch = "$year-01-01 00:00:00+00";
my $baidu_last = strftime('%Y-%m-%d %H:%M:%S+00',
	gmtime(timegm(0, 0, 0, 1, 0, $year) + 268435455));

# Fields are time, node, worker and sequence, each with its bits and its lowest
# bit's place; "capacities" is how many numbers they have.  "rate" is that of a
# worker, in IDs a second.  "slow" is a layout that any machine is faster than.
# Layouts of one group follow each other, and the groups run at the same time,
# but for the last, whose rate most machines reach only alone.
my @layouts = (
	{
		name => 'baidu',
		group => 1,
		layout => 'time:28@1s node:22 sequence:13',
		epoch => $baidu_epoch,
		node => 4194303,
		fields => [ [ 28, 35 ], [ 22, 13 ], [ 0, 0 ], [ 13, 0 ] ],
		unit => 1,
		capacities => '268435456|4194304|1|8192',
		last => $baidu_last,
		max_id => '9223372036854775807',
		rate => 8192,
		slow => 1
	},
	{
		name => 'worker numbers of 22 bits',
		group => 3,
		layout => 'time:28@1s worker:22 sequence:13',
		epoch => $baidu_epoch,
		node => 0,
		fields => [ [ 28, 35 ], [ 0, 0 ], [ 22, 13 ], [ 13, 0 ] ],
		unit => 1,
		capacities => '268435456|1|4194304|8192',
		last => $baidu_last,
		max_id => '9223372036854775807',
		rate => 8192
	},
	{
		name => 'sonyflake',
		group => 1,
		layout => 'time:39@10ms sequence:8 node:16',
		epoch => '2025-01-01 00:00:00+00',
		node => 43981,
		fields => [ [ 39, 24 ], [ 16, 0 ], [ 0, 0 ], [ 8, 16 ] ],
		unit => 0.01,
		capacities => '549755813888|65536|1|256',
		last => '2199-03-19 03:28:58.87+00',
		max_id => '9223372036854775807',
		rate => 25600,
		slow => 1
	},
	{
		name => 'seata',
		group => 1,
		layout => 'node:10 time:41 sequence:12',
		epoch => '2020-05-03 00:00:00+08',
		first => '2020-05-02 16:00:00+00',
		node => 1023,
		fields => [ [ 41, 12 ], [ 10, 53 ], [ 0, 0 ], [ 12, 0 ] ],
		unit => 0.001,
		capacities => '2199023255552|1024|1|4096',
		last => '2090-01-07 07:47:35.551+00',
		max_id => '9223372036854775807',
		rate => 4096000
	},
	{
		name => 'js53',
		group => 4,
		layout => 'time:41 node:4 sequence:8',
		epoch => '2020-01-01 00:00:00+00',
		node => 15,
		fields => [ [ 41, 12 ], [ 4, 8 ], [ 0, 0 ], [ 8, 0 ] ],
		unit => 0.001,
		capacities => '2199023255552|16|1|256',
		last => '2089-09-06 15:47:35.551+00',
		max_id => '9007199254740991',    # 2^53 - 1
		rate => 256000,
		slow => 1
	},
	{
		name => 'no worker numbers',
		group => 3,
		layout => 'time:41 node:10 sequence:12',
		epoch => '2020-01-01 00:00:00+00',
		node => 1023,
		fields => [ [ 41, 22 ], [ 10, 12 ], [ 0, 0 ], [ 12, 0 ] ],
		unit => 0.001,
		capacities => '2199023255552|1024|1|4096',
		last => '2089-09-06 15:47:35.551+00',
		max_id => '9223372036854775807',
		rate => 4096000
	},
	{
		name => 'one bit of sequence',
		group => 2,
		layout => 'time:41 node:5 worker:5 sequence:1',
		epoch => '2020-01-01 00:00:00+00',
		node => 31,
		fields => [ [ 41, 11 ], [ 5, 6 ], [ 5, 1 ], [ 1, 0 ] ],
		unit => 0.001,
		capacities => '2199023255552|32|32|2',
		last => '2089-09-06 15:47:35.551+00',
		max_id => '4503599627370495',    # 52 bits
		rate => 2000,
		slow => 1
	});

# To not wait for the durable mark; and a session that is not lucky for a while
# must not give up.
my $conf = <<CONF;
autovacuum = off
log_statement = none
snowflake.max_drift = ${max_drift}s
snowflake.max_wait = 1min
include_if_exists 'test.conf'
CONF

sub clock
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		'SELECT extract(epoch FROM clock_timestamp() - '
		  . "current_setting('snowflake.epoch')::timestamptz)");
}

sub test_layout
{
	my ($node, $layout) = @_;
	my ($name, $unit) = @{$layout}{qw(name unit)};
	my ($time, $node_field, $worker, $sequence) = @{ $layout->{fields} };
	my $workers =
	  $worker->[0] == 0
	  ? 1
	  : min(2**$worker->[0] - $reserved_workers, $most_workers);

	# as a new server
	forget_mark($node);
	open my $file, '>', $node->data_dir . '/test.conf' or die $!;
	print $file <<CONF;
snowflake.layout = '$layout->{layout}'
snowflake.epoch = '$layout->{epoch}'
snowflake.node_id = $layout->{node}
CONF
	close $file;
	$node->restart;

	is( $node->safe_psql('postgres', <<'SQL'),
SELECT layout, time_bits, node_bits, worker_bits, sequence_bits,
       extract(epoch FROM time_unit)::float8, time_units, nodes, workers, sequences,
       first_ts, last_ts, max_id, ids_per_second_worker, ids_per_second_node
FROM snowflake_layout()
SQL
		join('|',
			$layout->{layout},
			(map { $_->[0] } @{ $layout->{fields} }),
			$unit,
			$layout->{capacities},
			$layout->{first} // $layout->{epoch},
			@{$layout}{qw(last max_id rate)},
			$layout->{rate} * $workers),
		"$name: snowflake_layout()");

	# taking turns
	my $ledger = new_ledger();
	if ($worker->[0] == 0)
	{
		my @stay = map { session($node) } 1 .. 3;
		$ledger->add_ids('all sessions', map { (draw_one($_))[0] } (@stay) x 20);
		$_->quit foreach @stay;
		is($ledger->disorder, 0, "$name: ascending over all sessions");
	}

	# All at once.  From a layout with more numbers than the test could check,
	# batches that exceed a millisecond, with pauses.  What is more than
	# max_drift ahead of the clock is no ID.
	my ($ids, $delay) =
	  $layout->{slow}
	  ? ('snowflake_nextval() AS id FROM generate_series(1, 1000)', 0)
	  : ('snowflake_nextval(5000) AS id', 200);
	my $begin = clock($node);
	my $draw = start_draw(
		$node,
		sessions => $sessions,
		delay => $delay,
		sql => <<SQL);
SELECT CASE WHEN snowflake_timestamp(id) <= clock_timestamp() + interval '$max_drift s'
            THEN id ELSE -1 END
FROM (SELECT $ids OFFSET 0) AS drawn
SQL
	usleep($seconds * 1_000_000);
	is(sqlstates($draw), '', "$name: no errors");
	my $end = clock($node);
	$ledger->add($draw);
	is($ledger->duplicates, 0, "$name: unique");
	is($ledger->disorder, 0, "$name: each session's IDs ascend");

	my ($count, $bad, $other_node, %in_unit, %worker) = (0, 0, 0);
	my ($max_id, $node_number) = @{$layout}{qw(max_id node)};
	my ($time_shift, $node_shift, $worker_shift) =
	  map { $_->[1] } $time, $node_field, $worker;
	my ($time_mask, $node_mask, $worker_mask) =
	  map { (1 << $_->[0]) - 1 } $time, $node_field, $worker;
	open my $fh, '<', $draw->{ids} or die $!;
	while (<$fh>)
	{
		my $id = substr($_, index($_, ' ') + 1) + 0;
		$count++;
		$bad++ if $id < 0 || $id > $max_id;
		$other_node++ if (($id >> $node_shift) & $node_mask) != $node_number;
		$in_unit{ ($id >> $time_shift) & $time_mask }++;
		$worker{ ($id >> $worker_shift) & $worker_mask } = 1;
	}
	close $fh;
	is($bad, 0,
		"$name: none is negative, above max_id, or more than max_drift ahead");
	is($other_node, 0, "$name: all have this server's node number");
	is(scalar(grep { $_ >= $workers } keys %worker),
		0, "$name: and a worker number in use");

	# the rate
	my ($first, $last) = (min(keys %in_unit), max(keys %in_unit));
	my $in_a_unit = 2**$sequence->[0] * $workers;
	cmp_ok($first, '>=', int($begin / $unit),
		"$name: the first time unit is not before the beginning");
	cmp_ok($last, '<=', int(($end + $max_drift) / $unit),
		"$name: the last one is not after the end and max_drift");
	cmp_ok(max(values %in_unit), '<=', $in_a_unit,
		"$name: no more IDs in a time unit than it has");
	my $share = $count / ($in_a_unit * ($last - $first + 1));
	note sprintf "%s: %d IDs, %.0f a second, %d worker numbers, %.1f%% of what the layout has",
	  $name, $count, $count / ($end - $begin), scalar(keys %worker), 100 * $share;
	return if !$layout->{slow};

	# somewhere: a session may have the processor for moments only
	my $row = min(16, $last - $first + 1);
	is(max(values %in_unit), $in_a_unit, "$name: a time unit is used to its end");
	cmp_ok(max(map { my $unit = $_; sum0(map { $in_unit{ $unit + $_ } // 0 } 0 .. $row - 1) } keys %in_unit),
		'>=', 0.5 * $row * $in_a_unit, "$name: at least half of $row in a row are used");
	return;
}

sub test_group
{
	my ($group) = @_;
	my $node = snowflake_node("layouts_$group", $conf);

	test_layout($node, $_) foreach grep { $_->{group} == $group } @layouts;
	$node->stop;
	return;
}

in_parallel(map { my $group = $_; "group $group" => sub { test_group($group) } } 1 .. 3);
test_group(4);
done_testing();
