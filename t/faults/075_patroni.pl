# Failover by Patroni: three servers in a cluster that Patroni runs, with etcd,
# while sessions draw wherever there is a primary.  Its processes and those of its
# servers are killed and stopped, clocks are set, and etcd is away.  No ID comes twice:
# with a fixed number that all members have, where the old primary is down; in
# synchronous mode and with leased numbers, also where Patroni itself is stopped and
# the old primary goes on beside the new one.  A fixed number that is registered goes
# with the cluster, whether the registry is up or down.
#
# SNOWFLAKE_PATRONI_ROUNDS is how often all faults are made, 1 if not given.

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use List::Util qw(sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use PatroniTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_PATRONI_ROUNDS} // 1;

#
# The faults.  Each is over when another member is the leader, or where etcd was away
# the same one, and IDs are drawn.
#
my %faults = (
	switchover => sub {
		my ($cluster, $leader) = @_;

		# once more where members have not answered Patroni in time
		my $new;
		wait_for(
			sub {
				eval { switch_to($cluster, 'switchover', $leader, leader => $leader); 1 } or note $@;
				($new) = grep { $_ ne $leader && asks($cluster, $_, 'primary') == 200 } members($cluster);
				return defined $new;
			});
		return $new // leader($cluster, $leader);
	},
	'kill -9 of the server' => sub {
		return kill_leader(@_[ 0, 1 ]);
	},
	'kill -9 of the server and its Patroni' => sub {
		my ($cluster, $leader) = @_;

		kill_server($cluster, $leader, 1);
		my $new = leader($cluster, $leader);
		start_patroni($cluster, $leader);
		return $new;
	},
	'etcd is away' => sub {
		my ($cluster, $leader) = @_;

		kill 'STOP', $cluster->{etcd}{pid};
		my $demoted = wait_for(sub { asks($cluster, $leader, 'primary') != 200 });
		kill 'CONT', $cluster->{etcd}{pid};
		die "$leader was not demoted" unless $demoted;
		return leader($cluster);
	},
	# IDs of the future, then a primary whose clock is far behind them
	'clocks are set, kill -9 of the server' => sub {
		my ($cluster, $leader, @draws) = @_;

		set_member_clock($cluster, $leader, 2);
		draws_on(@draws);
		set_member_clock($cluster, $_, -3600) foreach grep { $_ ne $leader } members($cluster);
		kill_leader($cluster, $leader);
		my $new = promoted($cluster, $leader);
		# once it has read the mark
		ok(wait_for(sub { sql($cluster, $new, 'SELECT can_draw FROM snowflake_can_draw()') eq 'f' }), "$cluster->{name}: no ID an hour back");
		set_member_clock($cluster, $_, 0) foreach members($cluster);
		return $new;
	},
	# two primaries: nobody tells the old one
	'Patroni is stopped, its server goes on' => sub {
		my ($cluster, $leader) = @_;
		my $patroni = $cluster->{members}{$leader}{patroni}{pid};

		kill 'STOP', $patroni;
		my $new = leader($cluster, $leader);
		my $beside = sql($cluster, $leader, 'SELECT pg_is_in_recovery()');
		sleep 3;
		kill 'CONT', $patroni;
		is($beside, 'f', "$cluster->{name}: two primaries are alive");
		return $new;
	});

# Wait for that many more IDs of all members.
sub draws_on
{
	my (@draws) = @_;
	my $wanted = sum(map { drawn($_) } @draws) + 1000;

	wait_for(sub { sum(map { drawn($_) } @draws) >= $wanted }) or die 'no IDs are drawn';
	return;
}

# Sessions draw on each member, whether it is a primary or not, so on two primaries
# at the same time where there are two.
sub survives
{
	my ($cluster, @which) = @_;
	my $ledger = new_ledger();
	my $name = $cluster->{name};
	my @draws = map { start_draw(client(), connstr => connstr($cluster, $_), sessions => 4, ids => 20, delay => 5) }
	  members($cluster);
	my ($faults, %errors) = (0);

	draws_on(@draws);
	foreach my $fault ((@which) x $rounds)
	{
		ok($faults{$fault}->($cluster, leader($cluster), @draws), "$name: $fault: there is a leader");
		draws_on(@draws);
		settle($cluster);
		$faults++;
	}
	foreach my $draw (@draws)
	{
		%errors = (%errors, %{ stop_draw($draw)->{errors} });
		$ledger->add($draw);
	}

	# a standby; no ID in time; the server stops or starts; no number for a clock far off
	delete $errors{55000} if $name eq 'leased' && ($errors{55000} // [ 0, '' ])->[1] =~ /: this server has no node number at the moment$/;
	my @wrong = grep { !/^(?:25006|55P03|57P0[123])$/ } sort keys %errors;
	is("@wrong", '', "$name: errors") or diag explain \%errors;
	is($ledger->duplicates, 0, "$name: no ID twice");
	is($ledger->disorder, 0, "$name: the IDs of each session ascend");
	$ledger->report($faults);
	stop_cluster($cluster);
	return;
}

sub while_away
{
	my ($registry, $fault) = @_;

	$faults{"the registry is away, $fault"} = sub {
		$registry->stop('immediate');
		my $new = $faults{$fault}->(@_);
		$registry->start;
		return $new;
	};
	return "the registry is away, $fault";
}

#
# The clusters
#

# 256 IDs a millisecond, that begin with the same ones: two servers with one number
# that draw in the same millisecond draw the same IDs.
my %settings = (
	'snowflake.layout' => $LeaseTest::layout,
	'snowflake.sequence_start' => 'zero',
	'snowflake.reserve_window' => '400ms',
	'snowflake.max_wait' => '2s');
my @down = ('switchover', 'kill -9 of the server', 'clocks are set, kill -9 of the server', 'kill -9 of the server and its Patroni', 'etcd is away');
my $two = 'Patroni is stopped, its server goes on';

client();    # one for all

# One after the other: three Patronis and etcd have enough to do on a slow machine.
my @groups = (
	'one number, asynchronous' => sub {
		survives(new_cluster('fixed', clocks => 1, settings => { %settings, 'snowflake.node_id' => 1 }), @down);
	},
	'one number, synchronous' => sub {
		survives(
			new_cluster('sync', clocks => 1, settings => { %settings, 'snowflake.node_id' => 1 }, dcs => { synchronous_mode => JSON::PP::true }),
			@down, $two);
	},
	'leased numbers' => sub {
		my $registry = new_registry('registry');

		survives(
			new_cluster('leased', clocks => 1, settings => { %settings, 'snowflake.registry' => registry_conninfo($registry), 'snowflake.lease_ttl' => '10s' }),
			@down, $two);
		$registry->stop;
	},
	'a registered number' => sub {
		my $registry = new_registry('registrar');
		my $cluster = new_cluster('registered', clocks => 1,
			settings => { %settings, 'snowflake.node_id' => 1, 'snowflake.registry' => registry_conninfo($registry) });

		survives($cluster, @down, map { while_away($registry, $_) } 'switchover', 'kill -9 of the server and its Patroni');
		is($registry->safe_psql('postgres', q(SELECT string_agg(node || ' ' || state, ', ') FROM snowflake_nodes)), '1 registered', 'registered: one number, as ever');
		$registry->stop;
	});
in_parallel(splice @groups, 0, 2) while @groups;

done_testing();
