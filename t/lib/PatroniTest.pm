# What the tests share that run Patroni: clusters of three members with etcd, and ways
# to hit them.  SNOWFLAKE_PATRONI is the folder with the unpacked packages.

package PatroniTest;

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(basename dirname);
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;

use FaultTest;
use SnowflakeTest;

our @EXPORT = qw(
  new_cluster
  stop_cluster
  start_patroni
  start_unpacked
  client
  members
  leader
  promoted
  asks
  roles
  settle
  switch_to
  patronictl
  connstr
  sql
  postmaster
  with_children
  kill_server
  kill_leader
  set_member_clock
  said_by
);

my $home = $ENV{SNOWFLAKE_PATRONI} // '';
my $ttl = 20;    # seconds, the least that Patroni takes, which has to be loop_wait + 2 * retry_timeout at least
my $client;
my @clusters;

die "Patroni is missing: set SNOWFLAKE_PATRONI to a folder with the packages patroni, etcd-server and haproxy, unpacked\n"
  if grep { !-x "$home/$_" } qw(usr/bin/patroni usr/bin/etcd usr/sbin/haproxy);

# Patroni waits for its servers, which nobody else may adopt: also no process that
# this one is a child of.
adopt_orphans(0);

# A node that is never started, for its programs
sub client { return $client //= PostgreSQL::Test::Cluster->new('client'); }

sub port { return PostgreSQL::Test::Cluster::get_free_port(); }

sub unpacked_env
{
	return (
		PYTHONPATH => "$home/usr/lib/python3/dist-packages",
		LD_LIBRARY_PATH => join(':', glob "$home/usr/lib/*-linux-gnu"));
}

# Start a program of the unpacked packages; see start_process().
sub start_unpacked
{
	my ($files, $program, @args) = @_;
	local %ENV = (%ENV, unpacked_env());

	return start_process($files, ref $program ? @$program : "$home/$program", @args);
}

# A cluster: etcd, and members by name, each with the process of its Patroni.
#	settings	those of the servers, in the dynamic configuration
#	dcs			the rest of that
#	clocks		true: each server has a clock of its own, see set_member_clock()
#	hook		defined: Patroni calls packaging/patroni_hook.py, with these options, in which AT
#				is where the database is, and OTHERS the hosts of the other members
#	bare		true: the library is not preloaded, and the extension not created
sub new_cluster
{
	my ($name, %opts) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir($name);
	my ($clients, $peers) = map { 'http://127.0.0.1:' . port() } 1 .. 2;
	my $cluster = { name => $name, dir => $dir, clocks => $opts{clocks}, is_synchronous => exists $opts{dcs}{synchronous_mode} };
	my $hook = '/usr/bin/python3 ' . abs_path(dirname(__FILE__) . '/../../packaging/patroni_hook.py');
	my %library = $opts{bare} ? () : (shared_preload_libraries => 'snowflake');

	adopt_orphans(0);
	push @clusters, $cluster;
	$cluster->{etcd} = start_unpacked("$dir/etcd", 'usr/bin/etcd',
		'--name' => 'etcd', '--data-dir' => "$dir/etcd.data", '--initial-cluster' => "etcd=$peers",
		map({ ("--$_" => $clients) } qw(listen-client-urls advertise-client-urls)),
		map({ ("--$_" => $peers) } qw(listen-peer-urls initial-advertise-peer-urls)));

	# each at an address of its own, as on machines of their own
	my ($rest, $port) = (port(), port());
	@{$cluster}{qw(rest port)} = ($rest, $port);
	foreach my $n (1 .. 3)
	{
		my ($member, $host) = ("$name$n", "127.0.0.$n");
		my %user = (username => 'postgres', password => 'none');
		my $at = "host=$host port=$port user=postgres dbname=postgres";
		my $call = "$hook --dbname '$at' " . ($opts{hook} // '') =~ s/AT/'$at'/r =~ s/OTHERS/join ',', map { "127.0.0.$_" } grep { $_ != $n } 1 .. 3/er;

		PostgreSQL::Test::Utils::append_to_file("$dir/$member.yml", encode_json({
			scope => $name,
			name => $member,
			restapi => { listen => "$host:$rest", connect_address => "$host:$rest" },
			etcd3 => { host => $clients =~ s/^.*\/\///r },
			bootstrap => {
				dcs => {
					ttl => $ttl, loop_wait => 1, retry_timeout => 9, master_start_timeout => 0, primary_start_timeout => 0, maximum_lag_on_failover => 1 << 40, %{ $opts{dcs} // {} },
					postgresql => {
						use_pg_rewind => JSON::PP::true,
						parameters => { max_connections => 60, wal_log_hints => 'on', %library, %{ $opts{settings} // {} } } } },
				initdb => [ { encoding => 'UTF8' }, { locale => 'C' }, { username => 'postgres' } ],
				pg_hba => [ 'host all all 127.0.0.0/8 trust', 'host replication all 127.0.0.0/8 trust' ] },
			postgresql => {
				listen => "$host:$port", connect_address => "$host:$port",
				data_dir => "$dir/$member.data", bin_dir => programs($cluster, $member), pgpass => "$dir/$member.pgpass",
				parameters => { unix_socket_directories => '', fsync => 'off', shared_buffers => '16MB', autovacuum => 'off', log_statement => 'none' },
				authentication => { superuser => \%user, replication => \%user, rewind => \%user },
				(defined $opts{hook} ? (pre_promote => "$call pre_promote", callbacks => { on_role_change => $call }) : ()) } }));
		$cluster->{members}{$member} = { host => $host, yml => "$dir/$member.yml", data => "$dir/$member.data", hook => $call };
		start_patroni($cluster, $member);
	}
	settle($cluster);
	sql($cluster, leader($cluster), 'CREATE EXTENSION snowflake') unless $opts{bare};
	return $cluster;
}

sub members { return sort keys %{ $_[0]{members} }; }

sub start_patroni
{
	my ($cluster, $member) = @_;
	my $own = $cluster->{members}{$member};

	$own->{starts}++;
	$own->{files} = "$cluster->{dir}/$member.$own->{starts}";
	$own->{patroni} = start_unpacked($own->{files}, [ '/usr/bin/python3', "$home/usr/bin/patroni" ], $own->{yml});
	return;
}

# The programs of a member: its server has a clock of its own, but not its Patroni, of
# which libfaketime breaks the sleep.
sub programs
{
	my ($cluster, $member) = @_;
	my $bindir = client()->config_data('--bindir');
	my $dir = "$cluster->{dir}/$member.bin";
	my $file = "$cluster->{dir}/$member.clock";
	my %clock = $cluster->{clocks} ? clock_env($file) : return $bindir;

	set_member_clock($cluster, $member, 0);
	mkdir $dir or die "$dir: $!";
	symlink $_, "$dir/" . basename($_) foreach grep { !/\/postgres$/ } glob "$bindir/*";
	PostgreSQL::Test::Utils::append_to_file("$dir/postgres",
		join ' ', "#!/bin/sh\nexec env", map({ "'$_=$clock{$_}'" } sort keys %clock), "$bindir/postgres", '"$@"');
	chmod 0755, "$dir/postgres";
	return $dir;
}

# The clock of a member's server, so many seconds from the real one.  Patroni does not
# know a server again that was started with a clock more than 3 s off.
sub set_member_clock
{
	my ($cluster, $member, $seconds) = @_;

	write_clock("$cluster->{dir}/$member.clock", $seconds);
	return;
}

# What a member's Patroni and server have logged since its last start
sub said_by
{
	my ($cluster, $member) = @_;

	return join '', map { PostgreSQL::Test::Utils::slurp_file("$cluster->{members}{$member}{files}.$_") } qw(out err);
}

# The command, again where etcd does not answer within its second.  Dies if it fails.
sub patronictl
{
	my ($cluster, @args) = @_;
	my ($yml) = map { $cluster->{members}{$_}{yml} } members($cluster);
	my ($out, $is_done);

	local %ENV = (%ENV, unpacked_env());
	wait_for(
		sub {
			$out = '';
			$is_done = IPC::Run::run([ '/usr/bin/python3', "$home/usr/bin/patronictl", '-c', $yml, @args ], '<', \undef, '>&', \$out);
			return $is_done || $out !~ /Read timed out/;
		});
	die "patronictl @args: $out" unless $is_done;
	note "patronictl @args: $out";
	return $out;
}

sub url { return "http://$_[0]{members}{$_[1]}{host}:$_[0]{rest}"; }

# Patroni's REST interface: the status code, or what is sent
sub ask
{
	my ($cluster, $member, $path) = @_;

	return HTTP::Tiny->new(timeout => 2)->get(url($cluster, $member) . "/$path");
}

sub asks { return ask(@_)->{status}; }

# Another leader, by a switchover or a failover; see Patroni's REST API.
sub switch_to
{
	my ($cluster, $how, $asked, %content) = @_;
	my $response = HTTP::Tiny->new(timeout => 60)->post(url($cluster, $asked) . "/$how",
		{ content => encode_json(\%content) });

	die "$how: $response->{status} $response->{content}" unless $response->{status} == 200;
	return;
}

# The leader, another one than the given member; waits for it.
sub leader
{
	my ($cluster, $not) = @_;
	my $leader;

	wait_for(sub { ($leader) = grep { $_ ne ($not // '') && asks($cluster, $_, 'primary') == 200 } members($cluster); defined $leader })
	  or die "$cluster->{name}: no leader" . (defined $not ? " but $not" : '') . "\n" . state_of($cluster);
	return $leader;
}

# The same, and its server is a primary: Patroni calls it so a moment before, and one
# may give up yet.
sub promoted
{
	my ($cluster, $not) = @_;
	my $leader;

	wait_for(
		sub {
			$leader = leader($cluster, $not);
			return (eval { sql($cluster, $leader, 'SELECT pg_is_in_recovery()') } // '') eq 'f';
		}) or die "$leader is not promoted";
	return $leader;
}

# Of those that run: role => [ member, ... ]
sub roles
{
	my ($cluster) = @_;
	my $response = ask($cluster, leader($cluster), 'cluster');
	my %roles;

	return {} unless $response->{status} == 200;
	push @{ $roles{ $_->{role} } }, $_->{name}
	  foreach grep { $_->{state} =~ /^(?:running|streaming)$/ } @{ decode_json($response->{content})->{members} };
	return \%roles;
}

# The standbys that receive WAL, which not all versions of Patroni say
sub followers
{
	my ($cluster) = @_;

	return split /\n/, eval { sql($cluster, leader($cluster), q(SELECT application_name FROM pg_stat_replication WHERE state = 'streaming')) } // '';
}

# All is back: a leader and two that follow it, one of them synchronously if that is
# asked for.  A member that was ahead of the new leader may not come back by itself:
# Patroni 3 waits for it to start, and where pg_rewind fails it runs and receives
# nothing.  And a Patroni that was stopped may have written last who the synchronous
# standby is, which the one of Patroni 3.0 that leads leaves alone.  Then do what an
# operator does: the member is made anew, the synchronous mode is turned off and on.
sub settle
{
	my ($cluster) = @_;
	my $patience = time + 60;
	# two base backups by turns, on a machine that is busy with others
	local $PostgreSQL::Test::Utils::timeout_default = 5 * $PostgreSQL::Test::Utils::timeout_default;
	my $wanted = $cluster->{is_synchronous} ? 'leader replica sync_standby' : 'leader replica replica';
	my $roles = '';

	wait_for(
		sub {
			my $now = roles($cluster);
			my %follows = map { $_ => 1 } followers($cluster);

			$roles = join ' ', map { ($_) x @{ $now->{$_} } } sort keys %$now;
			return 1 if $roles eq $wanted && keys %follows == 2;
			if (time > $patience)
			{
				note "$cluster->{name}: $roles\n", state_of($cluster);
				eval { patronictl($cluster, 'reinit', $cluster->{name}, $_, '--force'); 1 } or note $@
				  foreach grep { !$follows{$_} && $_ ne leader($cluster) } members($cluster);
				if ($cluster->{is_synchronous} && keys %follows == 2)
				{
					set_synchronous($cluster, JSON::PP::false);
					# which the leader's Patroni has done once it has taken the key away
					wait_for(sub { (eval { sql($cluster, leader($cluster), 'SHOW synchronous_standby_names') } // 'unknown') eq '' })
					  or die "$cluster->{name}: the synchronous mode is not turned off\n";
					set_synchronous($cluster, JSON::PP::true);
				}
				$patience = time + 60;
			}
			return 0;
		}) or die "$cluster->{name}: a member does not come back: $roles\n" . state_of($cluster);
	return;
}

sub set_synchronous
{
	my ($cluster, $mode) = @_;
	my $response = HTTP::Tiny->new(timeout => 10)->request('PATCH', url($cluster, leader($cluster)) . '/config',
		{ content => encode_json({ synchronous_mode => $mode }) });

	note "synchronous_mode $mode: $response->{status}";
	return;
}

# What whoever reads of a failure needs: the standbys that the leader has, and the last
# words of each member
sub state_of
{
	my ($cluster) = @_;
	my ($leader) = grep { asks($cluster, $_, 'primary') == 200 } members($cluster);
	my $standbys = eval {
		sql($cluster, $leader // die("no leader\n"), q(SELECT current_setting('synchronous_standby_names'), s.application_name, s.state, s.sync_state, s.sent_lsn, s.flush_lsn,
			pg_current_wal_flush_lsn() FROM pg_stat_replication s));
	} // $@;

	return join "\n", $standbys, map { ("$_:", tail_of(said_by($cluster, $_))) } members($cluster);
}

sub tail_of { return length $_[0] > 1000 ? substr $_[0], -1000 : $_[0]; }

sub connstr { return "host=$_[0]{members}{$_[1]}{host} port=$_[0]{port} dbname=postgres user=postgres connect_timeout=2"; }

sub sql
{
	my ($cluster, $member, $sql) = @_;
	my ($status, $out, $error);

	# once more where the server has not answered within the 2 seconds: not for long, as it may hang
	for (my $end = time + 60;;)
	{
		($status, $out, $error) = client()->psql('postgres', $sql, connstr => connstr($cluster, $member));
		last if $status == 0 || $error !~ /timeout expired/ || time > $end;
	}

	die "$member: $sql: $error" if $status != 0;
	return $out;
}

sub postmaster
{
	my ($cluster, $member) = @_;
	my ($pid) = PostgreSQL::Test::Utils::slurp_file("$cluster->{dir}/$member.data/postmaster.pid") =~ /^(\d+)/;

	return $pid;
}

# A process and its children
sub with_children
{
	my ($pid) = @_;

	return ($pid, grep { /^\d+$/ } split /\n/, PostgreSQL::Test::Utils::run_command([ 'pgrep', '-P', $pid ]) // '');
}

# As if the machine had failed, with its Patroni if that is asked for
sub kill_server
{
	my ($cluster, $member, $patroni_too) = @_;
	my $patroni = $cluster->{members}{$member}{patroni};

	kill 'KILL', ($patroni_too ? $patroni->{pid} : ()), with_children(postmaster($cluster, $member));
	!$patroni_too || wait_for(sub { FaultTest::process_ended($patroni) }) or die "$member: Patroni goes on";
	return;
}

# The leader's, until another member is the leader, which is returned: where Patroni
# knows of none at that moment that could be, it starts the same one again.
sub kill_leader
{
	my ($cluster, $leader) = @_;
	my $new;

	kill_server($cluster, $leader);
	wait_for(
		sub {
			($new) = grep { $_ ne $leader && asks($cluster, $_, 'primary') == 200 } members($cluster);
			kill_server($cluster, $leader) if !defined $new && (eval { sql($cluster, $leader, 'SELECT pg_is_in_recovery()') } // '') eq 'f';
			return defined $new;
		}) or die "$cluster->{name}: no leader but $leader\n" . state_of($cluster);
	return $new;
}

# Whatever happens, no server is left.
END
{
	my $status = $?;

	kill 'QUIT', map { (split /\n/, PostgreSQL::Test::Utils::slurp_file($_))[0] } map { glob "$_->{dir}/*.data/postmaster.pid" } @clusters;
	$? = $status;
}

# Its leader last: a member that is stopped while it is being promoted hangs.  With little
# processor time Patroni may hang after it has stopped its server.
sub stop_cluster
{
	my ($cluster) = @_;
	my $leader = promoted($cluster);

	foreach my $member ((grep { $_ ne $leader } members($cluster)), $leader)
	{
		next if eval { stop_process($cluster->{members}{$member}{patroni}); 1 };
		die $@ if -e "$cluster->{dir}/$member.data/postmaster.pid";
		note $@;
	}
	stop_process($cluster->{etcd});
	return;
}

1;
