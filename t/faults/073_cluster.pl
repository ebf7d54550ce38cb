# Many servers and a registry, of which something fails all the time: five
# servers lease their node numbers and insert into tables that are merged into
# one by logical replication, while servers, their clocks, the network and the
# registry are hit by faults in random order, several at once, and copies of
# servers are started beside them or in their place.  No ID comes twice, the one
# table never sees a conflict, and no number is held by two servers at once.
#
# A broken build shall fail by more than luck.  Who drew when is known for every
# ID.  So two servers with one number are found where their times interleave,
# also when no ID of theirs is the same: the times of each lease of a number are
# in one piece.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many rounds, SNOWFLAKE_FAULT_SEED repeats
# their order.

use strict;
use warnings FATAL => 'all';

use File::Path qw(rmtree);
use List::Util qw(first shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 6;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || int rand 2**31;

my $ttl = $LeaseTest::ttl;
my $expired = $ttl + 0.7;    # after so many seconds a lease has run out
my $max_clones = 1;
my $small = [ '--wal-segsize', 1 ];    # what is copied

# The faults.  Each is applied to a server of its own choice, or to the
# registry, and returns for how many seconds it lasts, how it is healed, and
# what there is to do when all faults of the round are healed.
my %long = (
	'server stopped, its number taken' => \&stopped_for_long,
	'server frozen, its number taken' => \&frozen_for_long,
	'server cut off, its number taken' => \&cut_off_for_long,
	'server cut off with its clock ahead' => \&cut_off_ahead,
	'server cut off, its number back' => \&cut_off_and_back,
	'failover that loses leases' => \&failover_with_loss);
my %short = (
	'kill -9 of a server' => \&server_killed,
	'immediate shutdown of a server' =>
	  sub { return server_stopped('immediate') },
	'fast shutdown of a server' => sub { return server_stopped('fast') },
	'kill -9 of the worker' => \&worker_killed,
	'copy of a server beside it' => \&copied_cold,
	'backup of a server beside it' => \&copied_hot,
	'standby promoted beside its primary' => \&split_brain,
	'network cut' => sub { return network('refuse') },
	'network a black hole' => sub { return network('hole') },
	'network late' => sub { return network('hold') },
	'answers of the registry late' => sub { return network('delay 2500') },
	'answers of the registry lost' => sub { return network('hold answers') },
	'clock set forward' => \&clock_forward,
	'clock set back' => \&clock_back,
	'clock a minute back' => \&clock_far_back,
	'kill -9 of the registry' => \&registry_killed,
	'registry restarted' => \&registry_restarted,
	'registry frozen' => \&registry_frozen,
	'standby of the registry away' => \&registry_cannot_commit,
	'failover of the registry' => \&failover);

my $ledger = new_ledger();
my (@servers, @clones, %registry, %frozen);
my (%busy, %held, %errors, %done, @problems);
my $copies = 0;

sub pick { return $_[ rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub pause { usleep(rand($_[0]) * 1_000_000); return; }

#
# The registry: a primary and its synchronous standby.
#

sub add_standby
{
	my ($primary, $standby) = @_;
	my $backup = 'backup' . ++$copies;

	$primary->backup($backup);
	rmtree($standby->data_dir);
	$standby->init_from_backup($primary, $backup, has_streaming => 1);
	rmtree($primary->backup_dir . "/$backup");
	$standby->start;
	@registry{qw(primary standby)} = ($primary, $standby);
	set_synchronous(1);
	return;
}

sub set_synchronous
{
	my ($on) = @_;
	my $primary = $registry{primary};

	# not in a transaction that waits for a standby itself
	$primary->safe_psql('postgres',
		'SET synchronous_commit = local; ALTER SYSTEM '
		  . ($on ? q(SET synchronous_standby_names = '*')
			: 'RESET synchronous_standby_names'));
	reload_node($primary);
	$primary->poll_query_until('postgres',
		$on
		? q(SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync'))
		: q(SELECT NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync'))
	) or die "no synchronous standby, or still one\n";
	return;
}

# The standby takes over.  The primary is dead.
sub promote_standby
{
	my $standby = $registry{standby};

	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
	  or die "no promotion\n";
	@registry{qw(primary standby)} = @registry{qw(standby primary)};
	return;
}

#
# Servers.  Each is at a place, whose way to the registry can be cut.
#

sub new_place
{
	my @proxies = map { start_proxy($_) } @registry{qw(primary standby)};
	my %place = (proxies => \@proxies);

	$place{conninfo} = sprintf
	  'host=%s,%s port=%s,%s dbname=postgres user=snowflake_server',
	  (map { $_->{host} } @proxies), (map { $_->{port} } @proxies);
	return \%place;
}

sub set_network
{
	my ($server, $mode) = @_;

	set_proxy($_, $mode) foreach @{ $server->{place}{proxies} };
	return;
}

# The first one, running.  The others are copies of it.
sub new_server
{
	my $place = new_place();
	my $node = leasing_node(
		'server1', $place->{conninfo}, <<CONF,
restart_after_crash = on
wal_sender_timeout = 0
min_wal_size = '2MB'
max_wal_size = '16MB'
snowflake.max_clock_skew = '30s'
CONF
		allows_streaming => 'logical',
		extra => $small,
		clock => 0);

	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    server text NOT NULL);
CREATE PUBLICATION orders FOR TABLE orders;
SQL
	return server('server1', $node, $place, 0);
}

# A server: its name, node and place; its clock when that is right ("base").
sub server
{
	my ($name, $node, $place, $base) = @_;

	return {
		name => $name,
		node => $node,
		place => $place,
		base => $base,
		starts => 0,
		log => 0,
		drawing => []
	};
}

sub start_server
{
	my ($server) = @_;

	start_node($server->{node});
	begin_draws($server);
	return;
}

# One session inserts, the others only draw.
sub begin_draws
{
	my ($server) = @_;
	my $node = $server->{node};

	$server->{starts}++;
	$server->{drawing} = [
		start_draw($node, sessions => 2, ids => 10, delay => 15),
		(grep { $_ == $server } @clones) ? () : start_draw(
			$node,
			sessions => 1,
			delay => 20,
			sql => 'INSERT INTO orders (server) '
			  . "SELECT '$server->{name}' FROM generate_series(1, 4) RETURNING id")
	];
	return;
}

# When the server is down for good or for a while: what was drawn since it
# started, and how often it got which number, as it has logged.
sub end_draws
{
	my ($server) = @_;
	my $log = slurp_file($server->{node}->logfile, $server->{log});
	my $start = "$server->{name}.$server->{starts}";

	$server->{log} += length $log;
	$held{$start}{$1}++
	  while $log =~ /this server has leased the snowflake node number (\d+)/g;
	foreach my $draw (@{ $server->{drawing} })
	{
		my $report = stop_draw($draw);

		$ledger->add($draw);
		note_times($start, $draw->{ids});
		$errors{$_} //= $report->{errors}{$_}[1]
		  foreach keys %{ $report->{errors} };
	}
	$server->{drawing} = [];
	return;
}

# For each number the times of its IDs, by start of a server, to be looked at in
# the end: once each.
my $times = PostgreSQL::Test::Utils::tempdir('times') . '/times';
open my $times_fh, '>', $times or die "$times: $!";

sub note_times
{
	my ($start, $file) = @_;
	my $last = -1;

	open my $fh, '<', $file or die "$file: $!";
	while (<$fh>)
	{
		my $id = (split / /)[1];
		my ($time, $number) = ($id >> 13, $id >> 8 & 31);

		print $times_fh "$number $time $start\n" if $time != $last;
		$last = $time;
	}
	close $fh;
	return;
}

# IDs flow again.
sub wait_flow
{
	my ($server) = @_;

	foreach my $draw (@{ $server->{drawing} })
	{
		my $wanted = drawn($draw) + 20;

		wait_for(sub { sample(); return drawn($draw) >= $wanted })
		  or die "$server->{name} draws no IDs\n";
	}
	return;
}

#
# Who holds what, while it happens.  A server that has a lease of a number has
# it until that ends, so nobody else may have one before.
#

my (%holder, $sampled);
my $samples = 0;

# The number of a server and how many seconds are left of its lease, or nothing.
sub lease_of
{
	my ($node) = @_;

	return split /\|/, try_sql($node, <<'SQL') // '';
SELECT node, extract(epoch FROM lease_end - clock_timestamp())
FROM pg_stat_snowflake WHERE lease_end > clock_timestamp()
SQL
}

sub sample
{
	return if defined $sampled && time() < $sampled + 0.5;
	foreach my $server (@servers, @clones)
	{
		next if $frozen{ $server->{name} } || !@{ $server->{drawing} };
		my $before = time();
		my ($number, $left) = lease_of($server->{node});
		my $after = time();

		next unless defined $left;
		$samples++;
		my $other = $holder{$number};
		if ($other && $other->{name} ne $server->{name} && $other->{until} > $after)
		{
			push @problems,
			  sprintf '%s and %s both hold number %d', $other->{name},
			  $server->{name}, $number;
		}
		$holder{$number} = { name => $server->{name}, until => $before + $left };
	}
	$sampled = time();
	return;
}

sub watch
{
	my ($seconds) = @_;
	my $end = time() + $seconds;

	while (time() < $end)
	{
		sample();
		usleep(50_000);
	}
	return;
}

#
# Copies of servers
#

# A copy of the data directory of a server that is stopped, or a backup of one
# that runs, or a standby that follows it.
sub copy
{
	my ($server, $name, $place, %init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $original = $server->{node};

	if (@{ $server->{drawing} })
	{
		$original->backup($name);
	}
	else
	{
		$original->backup_fs_cold($name);
	}
	$node->init_from_backup($original, $name, %init);
	rmtree($original->backup_dir . "/$name");
	$node->append_conf('postgresql.conf',
		"snowflake.registry = '$place->{conninfo}'");
	return server($name, $node, $place, $server->{base});
}

# One that is to run beside the five, for some rounds.  It is started later.
sub clone
{
	my ($server, %init) = @_;
	my $name = sprintf 'copy%d_of_%s', ++$copies, $server->{name};
	my $clone = copy($server, $name, new_place(), %init);

	push @clones, $clone;
	$busy{$name} = 1;
	return $clone;
}

sub start_clone
{
	my ($clone, %opts) = @_;

	set_clock($clone->{node}, $clone->{base} + ($opts{ahead} // 0));
	start_node($clone->{node});
	return;
}

sub remove_clone
{
	my ($clone) = @_;

	@clones = grep { $_ != $clone } @clones;
	kill9_postmaster($clone->{node}, all => 1);
	end_draws($clone);
	$clone->{node}->clean_node;
	stop_process($_) foreach @{ $clone->{place}{proxies} };
	return;
}

# Let it get a number and draw.  Where a time is given, its clock goes back to
# that first: of the times from then on somebody else has used some, with that
# number.
sub let_draw
{
	my ($clone, $back_to) = @_;
	my $now;

	wait_for(sub { sample(); return number_of($clone->{node}) ne '' })
	  or die "$clone->{name} got no number\n";
	$now = time();
	set_clock($clone->{node}, $clone->{base} + ($back_to // $now) - $now);
	begin_draws($clone);
	watch(1);
	set_clock($clone->{node}, $clone->{base});
	return;
}

#
# Faults of servers.
#

# A server that has no other fault in this round.
sub choose
{
	my $server = pick(grep { !$busy{ $_->{name} } } @_ ? @_ : (@servers, @clones));

	$busy{ $server->{name} } = 1;
	push @{ $busy{names} }, $server->{name};
	return $server;
}

sub server_killed
{
	my $server = choose();

	kill9_postmaster($server->{node}, all => chance(0.5));
	end_draws($server);
	return (rand 1, sub { start_server($server) });
}

sub server_stopped
{
	my ($mode) = @_;
	my $server = choose();

	$server->{node}->stop($mode);
	end_draws($server);
	return (rand 1, sub { start_server($server) });
}

# The server starts anew by itself.
sub worker_killed
{
	my $server = choose();
	my $which = rand() < 0.5 ? \&worker_pid : \&services_pid;
	my $pid = $which->($server->{node});

	kill 'KILL', $pid;
	return (0, sub { $which->($server->{node}, $pid) });
}

# Both go on from the same lease, which has not run out, and one of them cannot
# ask the registry.
sub copied_cold
{
	my $server = choose(@servers);

	$server->{node}->stop(pick(qw(fast immediate)));
	end_draws($server);
	my $clone = clone($server);
	set_network($clone, 'refuse');
	return (
		0,
		sub {
			start_clone($clone);
			begin_draws($clone);
			start_server($server);
			watch(1);
			set_network($clone, 'pass');
		});
}

sub copied_hot
{
	my $server = choose(@servers);
	my $clone = clone($server);

	return (rand 2, sub { start_clone($clone) }, sub { let_draw($clone) });
}

sub split_brain
{
	my $server = choose(@servers);
	my $clone = clone($server, has_streaming => 1);

	start_clone($clone);
	return (
		rand 2,
		sub {
			$clone->{node}->promote;
			$clone->{node}->poll_query_until('postgres',
				'SELECT NOT pg_is_in_recovery()')
			  or die "no promotion\n";
		},
		sub { let_draw($clone) });
}

sub network
{
	my ($mode) = @_;
	my $server = choose();

	set_network($server, $mode);
	return (3 + rand 3, sub { set_network($server, 'pass') });
}

# It stays ahead.  Not so far that it never comes to an end.
sub clock_forward
{
	my $server = choose();

	$server->{base} += rand 3;
	$server->{base} = 5 if $server->{base} > 5;
	set_clock($server->{node}, $server->{base});
	return (0, sub { });
}

sub clock_back
{
	my ($seconds) = @_;
	my $server = choose();

	set_clock($server->{node}, $server->{base} - ($seconds // rand 3));
	return (rand 3, sub { set_clock($server->{node}, $server->{base}) });
}

sub clock_far_back { return clock_back(60); }

# For longer than its lease, and somebody else gets its number meanwhile, where
# that is free: a copy asks for it.
sub stopped_for_long
{
	my $server = choose(@servers);

	$server->{node}->stop(pick(qw(fast immediate)));
	end_draws($server);
	my $clone = clone($server);
	return (
		$expired,
		sub {
			start_clone($clone);
			start_server($server) if chance(0.5);
			let_draw($clone);
			start_server($server) unless @{ $server->{drawing} };
		});
}

# As a virtual machine that is paused.
sub frozen_for_long
{
	my $server = choose(@servers);
	my $clone = clone($server);

	freeze($server->{name}, $server->{node});
	return (
		$expired,
		sub {
			start_clone($clone);
			let_draw($clone);
			thaw($server->{name});
		});
}

sub freeze
{
	my ($name, $node) = @_;
	my @pids = server_processes($node);

	kill 'STOP', @pids;
	$frozen{$name} = \@pids;
	return;
}

sub thaw
{
	my ($name) = @_;

	kill 'CONT', @{ delete $frozen{$name} };
	return;
}

END
{
	thaw($_) foreach keys %frozen;
}

# Its clock is behind, so that it draws to the end of its lease, which comes
# before the mark.
sub cut_off_for_long
{
	my $server = choose(@servers);
	my $clone = clone($server);
	my $began = time();

	set_clock($server->{node}, $server->{base} - 5);
	set_network($server, pick('refuse', 'hole', 'hold', 'hold answers'));
	return (
		$expired,
		sub {
			draws_nothing($server);
			start_clone($clone, ahead => 1);
			let_draw($clone, $began + 0.5);
			set_clock($server->{node}, $server->{base});
			set_network($server, 'pass');
		});
}

sub draws_nothing
{
	my ($server) = @_;
	my @drawing = ($server->{node}, @{ $server->{drawing} });
	my (undef, $now) = $server->{node}->psql('postgres',
		'SET snowflake.max_wait = 0; SELECT snowflake_nextval();');

	push @problems, "$server->{name} draws $now after its lease has run out"
	  if $now ne '';
	my $before = drawn_before(@drawing);

	watch(0.5);
	my $more = drawn_before(@drawing) - $before;
	push @problems, "$server->{name} draws $more IDs after its lease has run out"
	  if $more != 0;
	return;
}

# It may issue no IDs of times in which somebody else may have its number.
sub cut_off_ahead
{
	my $server = choose(@servers);
	my $clone = clone($server);

	set_network($server, 'hole');
	pause(0.5);
	set_clock($server->{node}, $server->{base} + $ttl + 5);
	return (
		$expired,
		sub {
			set_clock($server->{node}, $server->{base});
			start_clone($clone);
			let_draw($clone);
			watch(6);
			set_network($server, 'pass');
		});
}

# Somebody had its number in between.
sub cut_off_and_back
{
	my $server = choose(@servers);
	my $clone = clone($server);
	my $number = wait_number($server->{node});

	set_network($server, 'refuse');
	return (
		$expired,
		sub {
			start_clone($clone);
			let_draw($clone);
			my $drawn = time() - 0.5;
			remove_clone($clone);
			watch($expired);
			set_network($server, 'pass');
			wait_number($server->{node});
			set_clock($server->{node}, $server->{base} + $drawn - time());
			watch(1.5);
			set_clock($server->{node}, $server->{base});
		});
}

#
# Faults of the registry
#

sub choose_registry
{
	$busy{registry} = 1;
	push @{ $busy{names} }, 'registry';
	return @registry{qw(primary standby)};
}

sub registry_killed
{
	my ($primary) = choose_registry();

	kill9_postmaster($primary, all => 1);
	return (rand 4, sub { $primary->start });
}

sub registry_restarted
{
	my ($primary) = choose_registry();

	$primary->stop(pick(qw(fast immediate)));
	return (rand 4, sub { $primary->start });
}

sub registry_frozen
{
	my ($primary) = choose_registry();

	freeze('registry', $primary);
	return (4 + rand 2, sub { thaw('registry') });
}

# What it answers waits for the standby.
sub registry_cannot_commit
{
	my (undef, $standby) = choose_registry();

	$standby->stop('immediate');
	return (4 + rand 2, sub { $standby->start });
}

sub failover
{
	my ($primary, $standby) = choose_registry();

	kill9_postmaster($primary, all => 1);
	return (
		rand 2,
		sub {
			promote_standby();
			watch(rand 3);
			add_standby($standby, $primary);
		});
}

# The standby was away, and not waited for, when a number was given to somebody
# else than before.  So the promoted standby does not know of that: it takes the
# number for that of the server which had it, and for free.
sub failover_with_loss
{
	my ($primary, $standby) = choose_registry();
	my $server = choose(@servers);
	my $clone = clone($server);
	my $is_back = chance(0.5);

	set_network($server, 'refuse');
	set_synchronous(0);
	return (
		$expired,
		sub {
			# Two that come anew, one before the failover and one after it.
			my $late = clone($server);

			$standby->stop('immediate');
			start_clone($clone);
			let_draw($clone);
			my $drawn = time() - 0.5;
			set_network($clone, 'refuse');
			set_network($late, 'refuse') if $is_back;
			kill9_postmaster($primary, all => 1);
			$standby->start;
			promote_standby();
			set_network($server, 'pass');
			start_clone($late);
			watch(3);
			set_network($clone, 'pass') unless $is_back;
			add_standby($standby, $primary);
			if ($is_back)
			{
				wait_number($server->{node});
				set_clock($server->{node}, $server->{base} + $drawn - time());
				watch(1.5);
				set_clock($server->{node}, $server->{base});
				set_network($_, 'pass') foreach $clone, $late;
			}
			let_draw($late);
		});
}

#
# One round: some faults at once.
#
sub run_round
{
	my ($round, @faults) = @_;
	my $began = time();
	my @applied;

	%busy = (names => []);
	foreach my $fault (@faults)
	{
		my ($seconds, $heal, $then) = ($long{$fault} // $short{$fault})->();

		push @applied, { lasts => $seconds, heal => $heal, then => $then };
		$done{$fault}++;
		pause(0.5);
	}

	# The long ones last.  Their healing may need the registry.
	my $all_at = time();
	foreach my $fault (sort { $a->{lasts} <=> $b->{lasts} } @applied)
	{
		watch($all_at + $fault->{lasts} - time());
		$fault->{heal}->();
	}
	$_->{then} && $_->{then}->() foreach @applied;
	wait_flow($_) foreach @servers, @clones;
	remove_clone($clones[0]) while @clones > $max_clones;

	is(join('; ', @problems),
		'', "round $round: " . join ', ', @faults);
	@problems = ();
	note sprintf '%s: %.1f s', join(', ', @{ $busy{names} }), time() - $began;
	return;
}

# The times of each number, in order, are those of one start of a server after
# the other.
sub check_times
{
	my ($last, $last_time, $last_start) = ('', -1, '');
	my (%pieces, @shared);

	close $times_fh;
	local $ENV{LC_ALL} = 'C';
	open my $sorted, '-|', 'sort', '-u', '-k1,1n', '-k2,2n', '-k3,3', $times
	  or die "sort: $!";
	while (<$sorted>)
	{
		my ($number, $time, $start) = split;

		push @shared, "number $number at time $time: $last_start, $start"
		  if $number eq $last && $time == $last_time;
		$pieces{$start}{$number}++
		  if $number ne $last || $start ne $last_start;
		($last, $last_time, $last_start) = ($number, $time, $start);
	}
	close $sorted or die "sort failed\n";

	is(scalar(@shared), 0, 'no number was used by two servers at one time')
	  or diag join "\n", @shared[ 0 .. ($#shared > 4 ? 4 : $#shared) ];
	my @broken;
	foreach my $start (sort keys %pieces)
	{
		foreach my $number (sort keys %{ $pieces{$start} })
		{
			my ($n, $leases) =
			  ($pieces{$start}{$number}, $held{$start}{$number} // 0);

			push @broken,
			  "start $start: $n pieces, $leases leases of number $number"
			  if $n > $leases;
		}
	}
	is(join("\n", @broken), '', 'the times of each lease are in one piece');
	note sprintf '%d starts of servers had %d leases of %d numbers',
	  scalar keys %held, sum0(map { values %{$_} } values %held),
	  scalar keys %{ { map { map { $_ => 1 } keys %{$_} } values %held } };
	return;
}

#
# The plan: several faults at once, in each second round long ones and others
# beside them
#
note "SNOWFLAKE_FAULT_SEED=$seed SNOWFLAKE_FAULT_ROUNDS=$rounds";
srand $seed;

my $of_registry = qr/registry|failover/;
my (%queue, @plan);

# The next fault; where the registry has one already, the next of another kind.
sub next_of
{
	my ($faults, $registry_has_one) = @_;
	my $queue = $queue{$faults} //= [];
	my $i;

	until (
		defined(
			$i = first { !$registry_has_one || $queue->[$_] !~ $of_registry }
			0 .. $#{$queue}))
	{
		push @{$queue}, shuffle sort keys %{$faults};
	}
	return splice @{$queue}, $i, 1;
}

foreach my $round (1 .. $rounds)
{
	my @faults;

	foreach ($round % 2 ? ((\%long) x 2, \%short, \%short) : (\%short) x 3)
	{
		push @faults, next_of($_, scalar grep { /$of_registry/ } @faults);
	}
	push @plan, \@faults;
}

#
# Set up
#
my $conf = <<CONF;
max_connections = 100
wal_sender_timeout = 0
wal_keep_size = '16MB'
log_statement = none
min_wal_size = '2MB'
max_wal_size = '16MB'
CONF
$registry{primary} = new_registry('registry_a', $conf,
	allows_streaming => 1,
	extra => $small);
$registry{standby} = PostgreSQL::Test::Cluster->new('registry_b');
add_standby(@registry{qw(primary standby)});

my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical');
$subscriber->append_conf('postgresql.conf', <<CONF);
log_statement = none
wal_receiver_timeout = 0
max_logical_replication_workers = 10
max_worker_processes = 20
CONF
$subscriber->start;
$subscriber->safe_psql('postgres',
	'CREATE TABLE orders (id bigint PRIMARY KEY, server text NOT NULL)');

my $first = new_server();
@servers = ($first);
$first->{node}->stop;
push @servers, copy($first, "server$_", new_place()) foreach 2 .. 5;
foreach my $server (@servers)
{
	$server->{base} = rand(2) - 1;
	set_clock($server->{node}, $server->{base});
	start_node($server->{node});
	$subscriber->safe_psql('postgres',
		"CREATE SUBSCRIPTION $server->{name} CONNECTION \$\$"
		  . $server->{node}->connstr('postgres')
		  . '$$ PUBLICATION orders');
}
begin_draws($_) foreach @servers;
wait_flow($_) foreach @servers;
is(scalar(keys %{ { map { number_of($_->{node}) => 1 } @servers } }),
	5, 'five servers have five numbers');

#
# The faults
#
run_round($_, @{ $plan[ $_ - 1 ] }) foreach 1 .. $rounds;

#
# A request counts for the lease_ttl that it asked for, also when that is another
# one by the time that the answer comes.
#
{
	my $server = $servers[0];
	my $node = $server->{node};
	my $too_long = '';

	set_network($server, 'hold answers');
	watch(3.2);    # until one is on its way
	$node->safe_psql('postgres', q(ALTER SYSTEM SET snowflake.lease_ttl = '1h'));
	reload_node($node);
	$node->poll_query_until('postgres',
		q(SELECT current_setting('snowflake.lease_ttl') = '1h'))
	  or die "not reloaded\n";
	set_network($server, 'pass');
	wait_for(
		sub {
			my $now = time();
			my ($number, $left) = lease_of($node);
			return 0 unless defined $left;
			my $expires = $registry{primary}->safe_psql('postgres',
				'SELECT extract(epoch FROM expires_at) FROM snowflake_nodes '
				  . "WHERE node = $number");

			$too_long = "$left s" if $now + $left > $expires + 0.5;
			return $too_long ne '' || $left > $ttl;
		}) or die "the lease does not become longer\n";
	is($too_long, '', 'no lease is longer than the registry knows');
}

#
# The end
#
remove_clone($_) foreach @clones;
foreach my $server (@servers)
{
	end_draws($server);
}
check_times();
is($ledger->duplicates, 0, 'no ID came twice');
is($ledger->disorder, 0, 'the IDs of a session increase');

# Rows that were committed before a client was told arrive as well.
$_->{node}->poll_query_until('postgres',
	q(SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'draw'))
  or die "statements do not end\n"
  foreach @servers;
my $rows = sum0
  map { $_->{node}->safe_psql('postgres', 'SELECT count(*) FROM orders') }
  @servers;
foreach my $server (@servers)
{
	$server->{node}->wait_for_catchup($server->{name});
}
is( $subscriber->safe_psql(
		'postgres', 'SELECT count(*), count(DISTINCT id) FROM orders'),
	"$rows|$rows",
	'all rows are in the one table');
unlike(slurp_file($subscriber->logfile),
	qr/duplicate key|conflict detected/,
	'which saw no conflict');
note "$rows rows";

note sprintf '%3d times %s', $done{$_}, $_ foreach sort keys %done;
note "error $_: $errors{$_}" foreach sort keys %errors;
$ledger->report(sum0 values %done);

# 55P03: no number yet, the clock is behind.  55000: the registry gives no
# number.  57P0x, 08...: the server is down.
my @other = grep { !/^(?:55P03|55000|57P0[123]|08...)$/ } sort keys %errors;
is("@other", '', 'clients met no other errors');
cmp_ok($samples, '>', $rounds * 5, 'who holds what was looked at');

done_testing();
