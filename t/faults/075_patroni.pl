# Failover by Patroni: three servers in a cluster that Patroni runs, with etcd,
# while sessions draw wherever there is a primary.  Its processes and those of its
# servers are killed and stopped, and etcd is away.  No ID comes twice: with a fixed
# number that all members have, where the old primary is down; in synchronous mode
# and with leased numbers, also where Patroni itself is stopped and the old primary
# goes on beside the new one.
#
# SNOWFLAKE_PATRONI_ROUNDS is how often all faults are made, 1 if not given.

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP;
use List::Util qw(sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $home = $ENV{SNOWFLAKE_PATRONI} // '';
die "Patroni is missing: set SNOWFLAKE_PATRONI to a folder with the packages patroni and etcd-server, unpacked\n"
  unless -x "$home/usr/bin/patroni" && -x "$home/usr/bin/etcd";
local %ENV = (
	%ENV,
	PYTHONPATH => "$home/usr/lib/python3/dist-packages",
	LD_LIBRARY_PATH => join(':', glob "$home/usr/lib/*-linux-gnu"));

adopt_orphans(0);
my $rounds = $ENV{SNOWFLAKE_PATRONI_ROUNDS} // 1;
my $ttl = 20;    # seconds, the least that Patroni takes
my $bindir;      # of the server
my @clusters;
my $client;      # a node that is never started, for its programs

sub port { return PostgreSQL::Test::Cluster::get_free_port(); }

#
# A cluster: etcd, and members by name, each with the process of its Patroni
#
sub new_cluster
{
	my ($name, $settings, %dcs) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir($name);
	my ($clients, $peers) = map { 'http://127.0.0.1:' . port() } 1 .. 2;
	my $cluster = { name => $name, dir => $dir, faults => 0, is_synchronous => exists $dcs{synchronous_mode} };

	push @clusters, $cluster;

	$cluster->{etcd} = start_process("$dir/etcd", "$home/usr/bin/etcd",
		'--name' => 'etcd', '--data-dir' => "$dir/etcd.data", '--initial-cluster' => "etcd=$peers",
		map({ ("--$_" => $clients) } qw(listen-client-urls advertise-client-urls)),
		map({ ("--$_" => $peers) } qw(listen-peer-urls initial-advertise-peer-urls)));

	foreach my $member (map { "$name$_" } 1 .. 3)
	{
		my ($rest, $port) = (port(), port());
		my %user = (username => 'postgres', password => 'none');

		PostgreSQL::Test::Utils::append_to_file("$dir/$member.yml", encode_json({
			scope => $name,
			name => $member,
			restapi => { listen => "127.0.0.1:$rest", connect_address => "127.0.0.1:$rest" },
			etcd3 => { host => $clients =~ s/^.*\/\///r },
			bootstrap => {
				dcs => {
					ttl => $ttl, loop_wait => 1, retry_timeout => 3, master_start_timeout => 0, primary_start_timeout => 0, maximum_lag_on_failover => 1 << 40, %dcs,
					postgresql => {
						use_pg_rewind => JSON::PP::true,
						parameters => { shared_preload_libraries => 'snowflake', max_connections => 60, wal_log_hints => 'on', %$settings } } },
				initdb => [ { encoding => 'UTF8' }, { locale => 'C' }, { username => 'postgres' } ],
				pg_hba => [ 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust' ] },
			postgresql => {
				listen => "127.0.0.1:$port", connect_address => "127.0.0.1:$port",
				data_dir => "$dir/$member.data", bin_dir => $bindir, pgpass => "$dir/$member.pgpass",
				parameters => { unix_socket_directories => '', fsync => 'off', shared_buffers => '16MB', autovacuum => 'off', log_statement => 'none' },
				authentication => { superuser => \%user, replication => \%user, rewind => \%user } } }));
		$cluster->{members}{$member} = { rest => "http://127.0.0.1:$rest", port => $port, yml => "$dir/$member.yml" };
		start_patroni($cluster, $member);
	}
	settle($cluster);
	sql($cluster, leader($cluster), 'CREATE EXTENSION snowflake');
	return $cluster;
}

sub start_patroni
{
	my ($cluster, $member) = @_;
	my $own = $cluster->{members}{$member};

	$own->{starts}++;
	$own->{patroni} = start_process("$cluster->{dir}/$member.$own->{starts}", '/usr/bin/python3', "$home/usr/bin/patroni", $own->{yml});
	return;
}

# What Patroni's REST interface says: the status code
sub asks
{
	my ($cluster, $member, $path) = @_;

	return HTTP::Tiny->new(timeout => 2)->get("$cluster->{members}{$member}{rest}/$path")->{status};
}

sub says_it_is
{
	my ($cluster, $what) = @_;

	return grep { asks($cluster, $_, $what) == 200 } sort keys %{ $cluster->{members} };
}

# The leader, another one than the given member; waits for it.
sub leader
{
	my ($cluster, $not) = @_;
	my $leader;

	wait_for(sub { ($leader) = grep { $_ ne ($not // '') } says_it_is($cluster, 'primary'); defined $leader });
	return $leader;
}

sub connstr { return "host=127.0.0.1 port=$_[0]{members}{$_[1]}{port} dbname=postgres user=postgres connect_timeout=2"; }

sub sql
{
	my ($cluster, $member, $sql) = @_;
	my ($status, $out, $error) = $client->psql('postgres', $sql, connstr => connstr($cluster, $member));

	die "$member: $sql: $error" if $status != 0;
	return $out;
}

sub postmaster
{
	my ($cluster, $member) = @_;
	my ($pid) = PostgreSQL::Test::Utils::slurp_file("$cluster->{dir}/$member.data/postmaster.pid") =~ /^(\d+)/;

	return $pid;
}

# A postmaster and its children
sub server
{
	my ($pid) = @_;

	return ($pid, grep { /^\d+$/ } split /\n/, PostgreSQL::Test::Utils::run_command([ 'pgrep', '-P', $pid ]) // '');
}

#
# The faults.  Each is over when another member is the leader, or the same one is
# it again, and IDs are drawn.
#
my %faults = (
	switchover => sub {
		my ($cluster, $leader) = @_;
		my $response = HTTP::Tiny->new(timeout => 60)->post("$cluster->{members}{$leader}{rest}/switchover",
			{ content => encode_json({ leader => $leader }) });

		die "switchover: $response->{status} $response->{content}" unless $response->{status} == 200;
		return leader($cluster, $leader);
	},
	'kill -9 of the server' => sub {
		my ($cluster, $leader) = @_;

		kill 'KILL', server(postmaster($cluster, $leader));
		return leader($cluster, $leader);
	},
	'kill -9 of the server and its Patroni' => sub {
		my ($cluster, $leader) = @_;
		my @server = server(postmaster($cluster, $leader));

		kill 'KILL', $cluster->{members}{$leader}{patroni}{pid}, @server;
		wait_for(sub { FaultTest::process_ended($cluster->{members}{$leader}{patroni}) });
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

# All is back: a leader and two that follow it, one of them synchronously if that is
# asked for.
sub settle
{
	my ($cluster) = @_;
	my $wanted = $cluster->{is_synchronous} ? 'leader replica sync_standby' : 'leader replica replica';
	my $roles = '';

	wait_for(
		sub {
			my $response = HTTP::Tiny->new(timeout => 2)->get("$cluster->{members}{ leader($cluster) }{rest}/cluster");

			$roles = join ' ', sort map { $_->{role} }
			  grep { $_->{state} =~ /^(?:running|streaming)$/ } @{ decode_json($response->{content})->{members} }
			  if $response->{status} == 200;
			return $roles eq $wanted;
		}) or die "$cluster->{name}: a member does not come back: $roles";
	return;
}

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
	my @draws = map { start_draw($client, connstr => connstr($cluster, $_), sessions => 4, ids => 20, delay => 5) }
	  sort keys %{ $cluster->{members} };
	my %errors;

	draws_on(@draws);
	foreach my $fault ((@which) x $rounds)
	{
		ok($faults{$fault}->($cluster, leader($cluster)), "$name: $fault: there is a leader");
		draws_on(@draws);
		settle($cluster);
		$cluster->{faults}++;
	}
	foreach my $draw (@draws)
	{
		%errors = (%errors, %{ stop_draw($draw)->{errors} });
		$ledger->add($draw);
	}

	# a standby; no ID in time; the server stops or starts
	my @wrong = grep { !/^(?:25006|55P03|57P0[123])$/ } sort keys %errors;
	is("@wrong", '', "$name: errors") or diag explain \%errors;
	is($ledger->duplicates, 0, "$name: no ID twice");
	is($ledger->disorder, 0, "$name: the IDs of each session ascend");
	$ledger->report($cluster->{faults});
	stop_cluster($cluster);
	return;
}

# Whatever happens, no server is left.
END
{
	my $status = $?;

	kill 'QUIT', map { (split /\n/, PostgreSQL::Test::Utils::slurp_file($_))[0] } map { glob "$_->{dir}/*.data/postmaster.pid" } @clusters;
	$? = $status;
}

sub stop_cluster
{
	my ($cluster) = @_;

	stop_process($_->{patroni}) foreach values %{ $cluster->{members} };
	stop_process($cluster->{etcd});
	return;
}

#
# The clusters, each of three members
#
$client = PostgreSQL::Test::Cluster->new('client');
$bindir = $client->config_data('--bindir');

# 256 IDs a millisecond, that begin with the same ones: two servers with one number
# that draw in the same millisecond draw the same IDs.
my %settings = (
	'snowflake.layout' => $LeaseTest::layout,
	'snowflake.sequence_start' => 'zero',
	'snowflake.reserve_window' => '400ms',
	'snowflake.max_wait' => '2s');
my @down = ('switchover', 'kill -9 of the server', 'kill -9 of the server and its Patroni', 'etcd is away');
my $two = 'Patroni is stopped, its server goes on';

survives(new_cluster('fixed', { %settings, 'snowflake.node_id' => 1 }), full_or_short(\@down, [ @down[ 0, 1 ] ])->@*);
survives(
	new_cluster('sync', { %settings, 'snowflake.node_id' => 1 }, synchronous_mode => JSON::PP::true),
	full_or_short([ @down, $two ], [ $two ])->@*);

my $registry = new_registry('registry');
survives(
	new_cluster('leased', { %settings, 'snowflake.registry' => registry_conninfo($registry), 'snowflake.lease_ttl' => '10s' }),
	full_or_short([ @down, $two ], [ $two ])->@*);
$registry->stop;

done_testing();
