
# A server that leases its node number from a registry, fault by fault: the
# registry goes away in each of the ways it can, the server crashes, is copied,
# loses its number, has a wrong clock, a wrong setting.  All the while IDs are
# drawn.  Where there is no lease there are no IDs but errors that say why, and
# no ID comes twice.

use strict;
use warnings FATAL => 'all';

use List::Util qw(min max uniqnum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $none = 'cannot generate a snowflake ID: this server has no node number at the moment';

#
# Servers, with what was drawn there
#

# A running one, with a proxy of its own before the registry unless it is to
# have none.  Options: conf, proxy => 0, dbname of the registry, and those of
# leasing_node().
sub new_server
{
	my ($registry, $name, %opts) = @_;
	my $conf = delete $opts{conf};
	my %where = $opts{dbname} ? (dbname => delete $opts{dbname}) : ();
	my $proxy = delete $opts{proxy} // 1 ? start_proxy($registry) : undef;
	my $clock = $opts{clock};

	# Up to PostgreSQL 15 the worker that starts with the server has the real
	# clock whatever libfaketime is told.  The next one has not.  They are not
	# answered, but soon enough that the log has nothing to say of that.
	if (defined $clock)
	{
		set_proxy($proxy, 'hold');
		$opts{clock} = 0;
	}
	my $node = leasing_node($name,
		$proxy ? proxy_conninfo($proxy, %where) : registry_conninfo($registry, %where),
		$conf, %opts);
	if (defined $clock)
	{
		my $services = services_pid($node);
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($services)");
		services_pid($node, $services);
		set_clock($node, $clock);
		set_proxy($proxy, 'pass');
	}
	return server($name, $node, $proxy);
}

sub server
{
	my ($name, $node, $proxy) = @_;

	return {
		name => $name,
		node => $node,
		proxy => $proxy,
		draws => [],
		ids => [],    # one by one
		numbers => {}    # those it had
	};
}

# Its number, which is another one than $not.
sub number
{
	my ($server, $not) = @_;
	my $number = wait_number($server->{node}, $not);

	$server->{numbers}{$number} = 1;
	return $number;
}

# Draw there until check(), or all_ids().
sub draw_on
{
	my ($server, %opts) = @_;
	my $draw = start_draw($server->{node}, sessions => 2, delay => 20, %opts);

	push @{ $server->{draws} }, $draw;
	return $draw;
}

# One ID in a session of its own, or '', and the error.
sub call
{
	my ($server, $sql) = @_;
	my (undef, $id, $stderr) = eval {
		$server->{node}->psql('postgres',
			"\\set VERBOSITY verbose\n" . ($sql // 'SELECT snowflake_nextval()'));
	};

	$id //= '';
	push @{ $server->{ids} }, $id if !defined $sql && $id ne '';
	return ($id, psql_error($stderr // ''));
}

# It stops to issue IDs, with an error that says so, and why.  55P03 where it may
# pass by itself, 55000 where somebody has to mend it.
sub stops
{
	my ($server, $sqlstate, $name, $detail, $message) = @_;
	my ($id, $error, $after);

	poll(
		sub {
			($id, $error) = call($server);
			return $id eq '' && $error->{detail} =~ $detail;
		});
	is("$error->{sqlstate}: $error->{message}", "$sqlstate: " . ($message // $none), "$name: no IDs, an error");
	like($error->{detail}, $detail, "$name: which says why");
	isnt($error->{hint}, '', "$name: and what to do");
	return $error;
}

# IDs flow, by themselves.
sub flows
{
	my ($server, $name) = @_;
	my $id;

	ok(poll(sub { ($id) = call($server); return $id ne '' }), "$name: IDs flow");
	return $id;
}

sub lease_end
{
	my ($server) = @_;

	return $server->{node}->safe_psql('postgres', 'SELECT extract(epoch FROM lease_end) FROM pg_stat_snowflake');
}

sub node_waits
{
	return join ' ', map { $_->{node}->safe_psql('postgres', 'SELECT node_waits FROM pg_stat_snowflake') } @_;
}

sub claimed_at
{
	my ($registry, $number) = @_;

	return $registry->safe_psql('postgres', "SELECT claimed_at FROM snowflake_nodes WHERE node = $number");
}

sub wait_log
{
	my ($server, $pattern, $from) = @_;

	return wait_for(sub { slurp_file($server->{node}->logfile, $from // 0) =~ $pattern });
}

sub log_size { return -s $_[0]{node}->logfile; }

sub alter_system
{
	my ($node, $setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM $setting");
	reload_node($node);
	return;
}

# All IDs of a server so far.  Stops its draws.
sub all_ids
{
	my ($server) = @_;

	return [ @{ $server->{ids} },
		map { map { @{$_} } values %{ ids_by_number($_) } } @{ $server->{draws} } ];
}

# At the end: no ID came twice on any of them, in no session one before another,
# and each server had only numbers that it held.
sub check
{
	my ($faults, @servers) = @_;
	my $ledger = new_ledger();
	my %other;

	foreach my $server (@servers)
	{
		foreach my $draw (@{ $server->{draws} })
		{
			$ledger->add($draw);
			$other{$_} = 1 foreach grep { !/^(55000|55P03|57P0[123])$/ } keys %{ stop_draw($draw)->{errors} };
		}
		$ledger->add_ids($server->{name}, sort { $a <=> $b } @{ $server->{ids} });
		is(join(' ', grep { !$server->{numbers}{$_} } keys %{ ids_by_number(all_ids($server), $server->{bits}) }),
			'', "$server->{name} issued with its own numbers only");
	}
	is($ledger->duplicates, 0, 'no ID came twice');
	is($ledger->disorder, 0, 'the IDs of a session increase');
	is(join(' ', sort keys %other), '', 'no other errors');
	cmp_ok($ledger->count, '>', 1000, 'enough to tell');
	$ledger->report($faults);
	return;
}

#
# One server, two, and the number changes
#
sub test_start
{
	my $registry = new_registry('registry_start');
	my $one = new_server($registry, 'one', proxy => 0);

	is(number($one), 0, 'the first server has number 0');

	my $two = new_server($registry, 'two', proxy => 0);
	my @servers = ($one, $two);

	is(number($two), 1, 'the second one number 1');
	is_deeply(holders($registry), { 0 => $one->{node}->port, 1 => $two->{node}->port }, 'the registry knows');
	is( $registry->safe_psql('postgres', <<'SQL'),
SELECT count(*), count(DISTINCT system_identifier), min(layout), bool_and(host <> ''),
       bool_and(expires_at - renewed_at = '10 s' AND renewed_at > now() - interval '1 min' AND claimed_at <= renewed_at),
       bool_and(abs(extract(epoch FROM clock_offset)) < 5), bool_and(issues_until > now() - interval '1 min')
FROM snowflake_nodes
SQL
		"2|2|$LeaseTest::layout since 2020-01-01 00:00:00+00|t|t|t|t", 'and shows more of them');
	is( $two->{node}->safe_psql('postgres', <<'SQL'),
SELECT node, lease_end > now() AND lease_end <= clock_timestamp() + interval '10 s', registry_offset BETWEEN '-5 s' AND '5 s', last_error
FROM pg_stat_snowflake
SQL
		'1|t|t|', 'so does the server');
	ok(wait_log($two, qr/LOG:  this server has leased the snowflake node number 1\n/), 'it is in the log');

	# idle: renewals write nothing here
	my $idle = new_server($registry, 'idle', proxy => 0, conf => "checkpoint_timeout = 1h\n");
	is(number($idle), 2, 'a third one');
	flows($idle, 'for once');
	my $end = lease_end($idle);
	poll(sub { lease_end($idle) > $end + 5 });    # it is remembered once after that
	$idle->{node}->safe_psql('postgres', 'CHECKPOINT');
	my $position = 'SELECT pg_current_wal_insert_lsn()';
	my $wal = $idle->{node}->safe_psql('postgres', $position);
	$end = lease_end($idle);
	ok(poll(sub { lease_end($idle) > $end + 8 }), 'an idle server renews its lease');
	is($idle->{node}->safe_psql('postgres', $position), $wal, 'and writes no WAL');

	# The number changes under load, again and again.
	my $draw = draw_on($one, sessions => 8, delay => 0);
	my $number = number($one);
	my @had = ($number);    # one that is free again may be had twice
	foreach (1 .. 3)
	{
		wait_drawn($draw, 1000);
		is($registry->safe_psql('postgres', "SELECT snowflake_release_node($number)"), 't', "number $number is released");
		$number = number($one, $number);
		push @had, $number;
		wait_drawn($draw, 1000);
		ok(wait_log($one, qr/LOG:  this server has leased the snowflake node number $number and is no longer node $had[-2]\n/),
			"the log says that it is node $number");
	}
	stop_draw($draw);
	is_deeply([ sort { $a <=> $b } keys %{ ids_by_number($draw) } ], [ uniqnum(sort { $a <=> $b } @had) ], 'IDs with all of these numbers');
	is(stop_draw($draw)->{lost}, 0, 'in sessions that went on');

	# A mark that cannot be written leaves the lease alone.
	$draw = draw_on($two);
	wait_drawn($draw, 100);
	$two->{node}->safe_psql('postgres', FREEZE_MARK);
	stops($two, '55000', 'no mark', qr/setval: value \d+ is out of bounds/,
		'cannot generate a snowflake ID: the durable mark could not be raised');
	$end = lease_end($two);
	ok(poll(sub { lease_end($two) > $end + 5 }), 'no mark: the lease is renewed');
	stops($two, '55000', 'still no mark', qr/setval: value \d+ is out of bounds/,
		'cannot generate a snowflake ID: the durable mark could not be raised');
	$two->{node}->safe_psql('postgres', THAW_MARK);
	flows($two, 'a mark again');

	# nor does a cache that cannot be written stop its renewal
	$two->{node}->safe_psql('postgres', 'ALTER TABLE snowflake_home.lease ADD CHECK (node < 0) NOT VALID');
	$end = lease_end($two);
	ok(poll(sub { lease_end($two) > $end + 5 }), 'no cache: the lease is renewed');
	flows($two, 'no cache');
	ok(wait_log($two, qr/violates check constraint/), 'it could not be written');
	is(number($two), 1, 'all with the same number');

	# A clock that goes past the mark while the lease goes on.
	my $late = new_server($registry, 'late', clock => 0, conf => "snowflake.lease_ttl = '10min'\n");
	$number = number($late);
	set_proxy($late->{proxy}, 'hole');
	flows($late, 'before the mark');
	set_clock($late->{node}, 1200);
	stops($late, '55P03', 'past the mark', qr/^This server is node $number until /,
		'cannot generate a snowflake ID: the clock is past the end of the lease of the node number');
	set_clock($late->{node}, 0);
	set_proxy($late->{proxy}, 'pass');
	flows($late, 'before the mark again');

	check(8, @servers, $idle, $late);
	$_->{node}->stop foreach @servers, $idle, $late;
	return;
}

#
# The registry is away
#
sub test_away
{
	my $registry = new_registry('registry_away');
	$registry->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');

	# What happens to each server, and what it says of it.
	my @ways = (
		[ 'a black hole', qr/no (?:answer|connection) in 5000 ms/, 'hole' ],
		[ 'refused', qr/Connection refused/, 'refuse' ],
		[ 'cut in the middle of an answer', qr/server closed the connection unexpectedly/, 'cut 30' ],
		[ 'cut later', qr/server closed the connection unexpectedly/, 'cut 600' ],
		[ 'late', qr/no (?:answer|connection) in 5000 ms/, 'hold' ],
		[ 'answers lost', qr/no (?:answer|connection) in 5000 ms/, 'hold answers' ],
		[ 'a role without rights', qr/role "nobody" may not execute function public\.snowflake_lease_node\(\) in database "postgres"/, undef, user => 'nobody' ],
		[ 'a database without the extension', qr/there is no extension "snowflake_registry" in database "template1"/, undef, dbname => 'template1' ],
		[ 'a clock set back', qr/no (?:answer|connection) in 5000 ms/, 'hole' ]);
	my @servers;

	foreach my $i (0 .. $#ways)
	{
		# long enough for the mark to be renewed after the cut on a busy machine
		my $server = new_server($registry, "away$i", conf => "snowflake.lease_ttl = '30s'\n", $i == $#ways ? (clock => 0) : ());

		is(number($server), $i, "server $i");
		@{$server}{qw(what why mode)} = @{ $ways[$i] };
		$server->{change} = [ @{ $ways[$i] }[ 3 .. $#{ $ways[$i] } ] ];
		push @servers, $server;
	}

	# Each in its way, all at once.
	foreach my $server (@servers)
	{
		# (not to give up in the millisecond when the clock has caught up, nor before the first
		# answer that a setting is wrong)
		$server->{draw} = draw_on($server, !$server->{mode} ? (max_wait => '1min') : $server->{what} eq 'a clock set back' ? (max_wait => '5s') : ());
		wait_drawn($server->{draw}, 10);
		$server->{cut_at} = time();
		if ($server->{mode})
		{
			set_proxy($server->{proxy}, $server->{mode});
		}
		else
		{
			alter_system($server->{node}, sprintf(q(SET snowflake.registry = '%s'), registry_conninfo($registry, @{ $server->{change} })));
		}
		set_clock($server->{node}, -4) if $server->{what} eq 'a clock set back';
		$server->{reserved} = $server->{node}->safe_psql('postgres', 'SELECT reserved_until FROM pg_stat_snowflake');
	}
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		ok($server->{node}->poll_query_until('postgres', "SELECT reserved_until > '$server->{reserved}' FROM pg_stat_snowflake"),
			"$name: the durable mark is renewed");
	}
	foreach my $server (@servers)
	{
		my $name = $server->{what};
		my ($number) = keys %{ $server->{numbers} };

		my $error = stops($server, $server->{mode} ? '55P03' : '55000', $name,
			qr/^The lease of node number $number ended at \S+ \S+\. The registry could not be asked: .*$server->{why}/s);
		$server->{end} = lease_end($server);
		$server->{count} = drawn_before($server->{node}, $server->{draw});
		ok(wait_log($server, qr/WARNING:  could not renew the lease of the snowflake node number $number\n.*DETAIL:  The registry could not be asked: .*$server->{why}/s),
			"$name: the log says so too")
		  # which has said another thing less than a minute ago
		  unless $name eq 'a clock set back';
	}
	sleep 2;
	foreach my $server (@servers)
	{
		my $name = $server->{what};
		my $ids;

		is(drawn_before($server->{node}, $server->{draw}), $server->{count}, "$name: nothing is issued");
		is(sqlstates($server->{draw}), $server->{mode} ? '55P03' : '55000', "$name: but errors");
		next if $name eq 'a clock set back';
		$ids = [ map { @{$_} } values %{ ids_by_number($server->{draw}) } ];
		my $last = max map { time_of_id($_) } @{$ids};

		# Who draws has looked at the lease, and may be kept from going on.
		cmp_ok($last, '<', $server->{end} + 0.1, "$name: no ID past the deadline");
		cmp_ok($last, '>', $server->{end} - 4, "$name: up to it");
	}

	# and back
	foreach my $server (@servers)
	{
		set_clock($server->{node}, 0) if $server->{what} eq 'a clock set back';
		$server->{mode} ? set_proxy($server->{proxy}, 'pass') :
		  alter_system($server->{node}, 'RESET snowflake.registry');
	}
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		is(number($server), (keys %{ $server->{numbers} })[0], "$name: back, with the same number");
		flows($server, $name);
		$server->{draw} = draw_on($server);
	}

	# Restarted, and stopped for less than the lease, however slow the machine is: nobody
	# notices.  (Not before all that, as the log says once a minute what is wrong.)
	my $set_ttl = sub {
		my ($setting, $is_done) = @_;

		alter_system($_->{node}, $setting) foreach @servers;
		foreach my $server (@servers)
		{
			poll(sub { $is_done->(lease_end($server) - time()) }) or die "no lease as after $setting\n";
		}
	};
	$set_ttl->(q(SET snowflake.lease_ttl = '2min'), sub { $_[0] > 90 });
	foreach my $server (@servers)
	{
		$server->{patient} = draw_on($server, max_wait => '1min');
		wait_drawn($server->{patient}, 100);
	}
	my $waits = node_waits(@servers);
	$registry->restart;
	wait_drawn($_->{patient}, 100) foreach @servers;
	my %end = map { $_->{name} => lease_end($_) } @servers;
	foreach my $server (@servers)
	{
		poll(sub { lease_end($server) > $end{ $server->{name} } + 1 }) or die "no renewal";
	}
	is(join(' ', map { keys %{ stop_draw($_->{patient})->{errors} } } @servers), '', 'the registry is restarted: nobody notices');
	is(node_waits(@servers), $waits, 'the registry is restarted: nobody waits for a number');
	$set_ttl->('RESET snowflake.lease_ttl', sub { $_[0] < 31 });

	# Stopped in the middle of what it does, for longer than the lease, then
	# killed, and started again.
	kill 'STOP', server_processes($registry);
	stops($_, '55P03', 'a stopped registry', qr/The lease of node number \d+ ended at .* The registry could not be asked: no (?:answer|connection) in 5000 ms/)
	  foreach @servers;
	kill9_postmaster($registry, all => 1);
	$registry->start;
	foreach my $i (0 .. $#servers)
	{
		is(number($servers[$i]), $i, "the registry is back, and server $i has its number");
		flows($servers[$i], 'the registry is back');
	}

	check(2 + @ways, @servers);
	$_->{node}->stop foreach @servers, { node => $registry };
	return;
}

#
# Restarts of the server while the registry is away
#
sub test_restart
{
	my $registry = new_registry('registry_restart');
	my %ways = (
		'kill -9' => sub { kill9_postmaster($_[0], all => 1); start_node($_[0]) },
		'an immediate shutdown' => sub { $_[0]->stop('immediate'); $_[0]->start },
		'a fast shutdown' => sub { $_[0]->stop('fast'); $_[0]->start },
		# the registry hears of neither start
		'fast shutdowns, two' => sub {
			foreach my $n (1, 2)
			{
				$_[0]->stop('fast');
				$_[0]->start;
				$_[0]->poll_query_until('postgres', 'SELECT node IS NOT NULL FROM pg_stat_snowflake');
			}
		},
		'kill -9 of a backend' => sub {
			my ($node) = @_;
			my $from = -s $node->logfile;
			kill 'KILL', $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE application_name = 'draw' LIMIT 1));
			wait_for(sub { slurp_file($node->logfile, $from) =~ /database system is ready to accept connections/ })
			  or die "it does not start again\n";
		},
		# the registry does not know that it is the same
		'reboot' => sub {
			$_[0]->safe_psql('postgres', "UPDATE snowflake_home.lease SET instance = 'boot ' || gen_random_uuid() || substr(instance, 42)");
			kill9_postmaster($_[0], all => 1);
			start_node($_[0]);
		});
	my @servers;
	my $seconds = 120;

	foreach my $way (sort keys %ways)    # the reboot last
	{
		# long enough for a start on a busy machine
		my $server = new_server($registry, 'restart' . @servers, conf => "snowflake.lease_ttl = '$seconds s'\n");

		$server->{what} = $way;
		$server->{number} = number($server);
		$server->{claimed_at} = claimed_at($registry, $server->{number});
		$server->{draw} = draw_on($server);
		push @servers, $server;
	}
	wait_drawn($_->{draw}, 1000) foreach @servers;

	foreach my $server (@servers)
	{
		my $name = $server->{what};

		# Let what is remembered be older than the last renewal, as it mostly is.
		my $end = lease_end($server);
		poll(sub { lease_end($server) > $end + 1 }) or die "no renewal\n";
		set_proxy($server->{proxy}, 'hole');
		$server->{end} = lease_end($server);

		$ways{$name}->($server->{node});
		if ($name eq 'reboot')
		{
			stops($server, '55P03', $name, qr/^The registry has not answered the background worker yet\.|^The registry could not be asked: no (?:answer|connection) in 5000 ms/);
			$server->{draw} = draw_on($server);
			stops($server, '55P03', $name, qr/^The registry could not be asked: no (?:answer|connection) in 5000 ms/);
			is(drawn($server->{draw}) + @{ $server->{ids} }, 0, "$name: nothing is issued");
			next;
		}
		flows($server, $name);
		$server->{draw} = draw_on($server) unless $name =~ /backend/;
		is(number_of($server->{node}), $server->{number}, "$name: the number is the same");
		cmp_ok(lease_end($server), '<', $server->{end} + 0.1, "$name: and its lease no longer than before");
		cmp_ok(lease_end($server), '>', $server->{end} - 0.1, "$name: nor shorter") if $name eq 'a fast shutdown';
	}
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		next if $name eq 'reboot';
		stops($server, '55P03', "$name, then", qr/^The lease of node number \d+ ended at \S+ \S+\. The registry could not be asked: no (?:answer|connection) in 5000 ms/);
		my $last = max map { time_of_id($_) } @{ all_ids($server) };
		cmp_ok($last, '<', $server->{end} + 0.1, "$name: no ID past the deadline");
	}

	# Then the registry is there again.
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		set_proxy($server->{proxy}, 'pass');
		my $number = number($server);
		is($number, $server->{number}, "$name: back with the same number") unless $name eq 'reboot';
		is(claimed_at($registry, $number), $server->{claimed_at}, "$name: which is renewed, not claimed anew") unless $name eq 'reboot';
		flows($server, "$name: back");
		wait_drawn(draw_on($server), 100);
	}

	check(scalar(@servers), @servers);

	# A layout that has no room for the number that is remembered: in its place
	# an ID would have another server's.
	my ($narrow) = grep { $_->{number} == 4 } @servers;
	set_proxy($narrow->{proxy}, 'hole');
	$narrow->{node}->stop;
	$narrow->{node}->append_conf('postgresql.conf', "snowflake.layout = 'time:41 node:2 worker:2 sequence:6'\n");
	$narrow->{node}->start;
	$narrow->{node}->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
	stops($narrow, '55P03', 'fewer node bits', qr/^The registry has not answered the background worker yet\.|^The registry could not be asked: /);

	$_->{node}->stop foreach @servers;
	return;
}

#
# Copies of a server
#

# A server from the files of another one, with the registry behind a proxy of
# its own.
sub new_copy
{
	my ($name, $registry, $copy) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $proxy = start_proxy($registry);

	$copy->($node);
	$node->append_conf('postgresql.conf', sprintf("port = %d\nsnowflake.registry = '%s'\n", $node->port, proxy_conninfo($proxy)));
	return server($name, $node, $proxy);
}

sub test_copies
{
	my $registry = new_registry('registry_copies');

	# so long that no lease ends by itself
	my %long = (conf => "snowflake.lease_ttl = '300s'\n");
	my $one = new_server($registry, 'a', %long, allows_streaming => 1);
	my $two = new_server($registry, 'b', %long, allows_streaming => 1);
	my @all = ($one, $two);

	number($_) foreach @all;
	my @draws = map { draw_on($_) } @all;
	wait_drawn($_, 100) foreach @draws;

	# of long ago
	$one->{node}->backup('old');
	wait_drawn($draws[0], 1000);

	# Clones of a running server: one that never reaches the registry.
	$one->{node}->backup('new');
	my %copies;
	foreach ([ 'clone', 'new' ], [ 'clone alone', 'new' ], [ 'restored', 'old' ])
	{
		my ($what, $backup) = @{$_};
		my $copy = new_copy($what =~ s/ /_/r, $registry, sub { $_[0]->init_from_backup($one->{node}, $backup) });

		set_proxy($copy->{proxy}, 'hole') if $what eq 'clone alone';
		$copy->{node}->start;
		$copies{$what} = $copy;
	}

	# Standbys: one is promoted while the primary goes on, the other when that
	# was killed, which comes back.
	foreach my $primary ($one, $two)
	{
		my $what = "standby of $primary->{name}";

		$primary->{node}->backup('standby') if $primary == $two;
		my $copy = new_copy("standby_$primary->{name}", $registry,
			sub { $_[0]->init_from_backup($primary->{node}, $primary == $two ? 'standby' : 'new', has_streaming => 1) });
		$copy->{node}->start;
		$primary->{node}->wait_for_catchup($copy->{node}, 'replay');
		$copies{$what} = $copy;
	}
	is((call($_))[1]{sqlstate}, '25006', "$_->{name}: nothing is issued in recovery") foreach @copies{ 'standby of a', 'standby of b' };
	number($_) foreach @copies{qw(clone restored)};
	is(scalar(keys %{ holders($registry) }), 4, 'nor does it take a number');
	kill9_postmaster($two->{node}, all => 1);
	$copies{$_}{node}->promote foreach 'standby of a', 'standby of b';
	start_node($two->{node});

	# A copy of a server that was stopped.
	my $three = new_server($registry, 'c', %long);
	number($three);
	flows($three, 'c');
	$three->{node}->stop;
	$copies{'copy'} = new_copy('copy', $registry,
		sub {
			PostgreSQL::Test::RecursiveCopy::copypath($three->{node}->data_dir, $_[0]->data_dir);
			chmod 0700, $_[0]->data_dir;
		});
	$copies{'copy'}{node}->start;
	start_node($three->{node});
	push @all, $three, values %copies;

	my $alone = delete $copies{'clone alone'};
	foreach my $server ($one, $two, $three, values %copies)
	{
		number($server);
		draw_on($server);
	}
	my @numbers = map { keys %{ $_->{numbers} } } $one, $two, $three, values %copies;
	is(scalar(@numbers), 8, 'eight servers with one number each');
	is(join(' ', sort { $a <=> $b } @numbers), '0 1 2 3 4 5 6 7', 'all different');
	wait_drawn($_->{draws}[-1], 1000) foreach $one, $two, $three, values %copies;
	stops($alone, '55P03', 'a clone that does not reach the registry', qr/^The registry could not be asked: no (?:answer|connection) in 5000 ms/);
	is(@{ all_ids($alone) }, 0, 'it has issued nothing');
	set_proxy($alone->{proxy}, 'pass');
	is(number($alone), 8, 'it has another number when it does');
	flows($alone, 'clone alone');

	check(6, @all);
	$_->{node}->stop foreach @all;
	return;
}

#
# Numbers run out, and another server has the number meanwhile
#
sub test_taken
{
	my $registry = new_registry('registry_taken');
	my %two = (conf => <<'CONF');
snowflake.layout = 'time:41 node:1 worker:2 sequence:6'
snowflake.max_clock_skew = -1
snowflake.lease_ttl = 30s
max_connections = 20
CONF
	my $one = new_server($registry, 'first', %two, clock => 0);
	is(number($one), 0, 'the first of two numbers');
	my $two = new_server($registry, 'second', %two);
	my $time = sub { return time_of_id($_[0], 1); };

	$_->{bits} = 1 foreach $one, $two;
	is(number($two), 1, 'the second');
	draw_on($_) foreach $one, $two;
	wait_drawn($_->{draws}[0], 1000) foreach $one, $two;

	my $three = new_server($registry, 'third', %two);
	$three->{bits} = 1;
	my $error = stops($three, '55000', 'all taken', qr/^The registry gives no node number, as all 2 node numbers are taken: The holders are /);
	my $seen = qr/last seen \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/;
	like($error->{detail}, qr/: The holders are|The holders are \S+:@{[ $one->{node}->port ]} \(node 0, $seen\), \S+:@{[ $two->{node}->port ]} \(node 1, $seen\)\./, 'and by whom');
	like($error->{hint}, qr/snowflake_release_node\(node, issued_until\), with the value of "snowflake\.issued_until" on that server\.$/, 'and the way out');
	ok(wait_log($three, qr/WARNING:  could not lease a snowflake node number\n.*all 2 node numbers are taken/), 'so does the log');

	# The first one sleeps past its deadline, with sessions that draw.
	my @asleep = server_processes($one->{node});
	kill 'STOP', @asleep;
	my $mark = $registry->safe_psql('postgres', 'SELECT extract(epoch FROM issues_until) FROM snowflake_nodes WHERE node = 0');
	is(number($three), 0, 'its number is given to another');
	my $draw = draw_on($three);
	wait_drawn($draw, 5000);
	kill 'CONT', @asleep;
	$error = stops($one, '55000', 'awake', qr/all 2 node numbers are taken/);
	stop_draw($one->{draws}[0]);
	my $others = ids_by_number(all_ids($three), 1)->{0};
	cmp_ok($time->(min @{$others}), '>=', $mark, 'the other one began where the first could go on to');
	is(scalar(grep { $time->($_) >= $mark } @{ ids_by_number(all_ids($one), 1)->{0} }), 0, 'which the first one did not pass');

	# Its number is free again, and it gets that, with a clock that then goes
	# back to when the other one had it.
	my $ends = $registry->safe_psql('postgres', 'SELECT extract(epoch FROM issues_until) FROM snowflake_nodes WHERE node = 0');
	sleep 3;
	stop_draw($draw);
	$others = ids_by_number(all_ids($three), 1)->{0};
	$three->{node}->stop('immediate');
	is(number($one), 0, 'it has its number back');
	my $middle = $time->($others->[ @{$others} / 2 ]);
	set_clock($one->{node}, $middle - time());
	$error = stops($one, '55P03', 'the clock goes back to when another had the number', qr/ms ahead/,
		'cannot generate a snowflake ID: the clock is behind the last ID');
	set_clock($one->{node}, 0);
	flows($one, 'the clock is right again');
	my $again = draw_on($one);
	wait_drawn($again, 1000);
	stop_draw($again);
	cmp_ok(min(map { $time->($_) } @{ ids_by_number($again, 1)->{0} }), '>', $ends, 'IDs are above those of the other one');

	check(3, $one, $two, $three);
	$_->{node}->stop foreach $one, $two;
	return;
}

#
# A registry that has forgotten who had a number before: a server that was given
# it remembers where it may begin, and so does a copy of that server.
#
sub test_forgotten
{
	my $registry = new_registry('registry_forgotten');
	my %conf = (conf => "snowflake.max_clock_skew = -1\n");
	my $first = new_server($registry, 'holder', %conf);

	is(number($first), 0, 'a number');
	my $draw = draw_on($first);
	wait_drawn($draw, 1000);
	stop_draw($draw);
	my @times = sort { $a <=> $b } map { time_of_id($_) } @{ all_ids($first) };
	$first->{node}->stop;
	poll(sub { $registry->safe_psql('postgres', 'SELECT free_from < now() FROM snowflake_nodes WHERE node = 0') eq 't' })
	  or die "the number is not free\n";
	my $second = new_server($registry, 'heir', %conf);
	is(number($second), 0, 'it is given to another, which draws nothing');
	my $floor = $second->{node}->safe_psql('postgres', 'SELECT floor / 1e6 FROM snowflake_home.lease');
	cmp_ok($floor, '>', $times[-1], 'nor could it, at times of the first');
	$second->{node}->stop;

	make_registry($registry, 'anew');
	my $copy = new_copy('heir_copy', $registry,
		sub {
			PostgreSQL::Test::RecursiveCopy::copypath($second->{node}->data_dir, $_[0]->data_dir);
			chmod 0700, $_[0]->data_dir;
		});
	my $conninfo = proxy_conninfo($copy->{proxy}, dbname => 'anew');
	$copy->{node}->append_conf('postgresql.conf', "snowflake.registry = '$conninfo'\n");
	# it may take a minute to start
	set_clock($copy->{node}, $times[0] - 600 - time());
	start_node($copy->{node});
	is(number($copy), 0, 'a copy of it, before the times of the first, has the number');
	stops($copy, '55P03', 'the registry knows of no floor', qr/ms ahead/,
		'cannot generate a snowflake ID: the clock is behind the last ID');
	set_clock($copy->{node}, 0);
	my $id = flows($copy, 'the clock is right');
	cmp_ok(time_of_id($id), '>=', $floor, 'IDs are above those of the first');

	check(1, $first, $copy);
	$copy->{node}->stop;
	return;
}

#
# A registry that was set back: a plain base backup of it, without recovery.signal,
# so that its timeline is the same
#
sub test_set_back
{
	my $registry = new_registry('registry_set_back', '', allows_streaming => 1);
	my %conf = (conf => "snowflake.lease_ttl = '10min'\n");
	my $told = new_server($registry, 'told', %conf);

	is(number($told), 0, 'a number of before the backup');
	$registry->backup('before');
	my $lost = new_server($registry, 'lost', %conf);
	is(number($lost), 1, 'and one of after it');
	my $renewals = q(SELECT renewals FROM snowflake_node_lease WHERE node = 0);
	my $before = $registry->safe_psql('postgres', $renewals);
	poll(sub { return $registry->safe_psql('postgres', $renewals) >= $before + 2 })
	  or die "the first server does not renew\n";

	# that server is cut off, but has its number for ten minutes
	set_proxy($lost->{proxy}, 'refuse');
	draw_on($lost);
	$registry->stop('immediate');
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $registry->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($registry->backup_dir . '/before', $registry->data_dir);
	chmod 0700, $registry->data_dir;
	$registry->start;

	my $new = new_server($registry, 'new', %conf);
	stops($new, '55P03', 'set back', qr/^The registry gives no node number, as the registry gives out no node numbers until/);
	ok(poll(sub { return $registry->safe_psql('postgres', 'SELECT closed_until > now() FROM snowflake_registry_place') eq 't' }),
		'it has closed');
	flows($told, 'who has been told of more');
	flows($lost, 'who is not known any more');
	is(number_of($new->{node}), '', 'nobody else has a number');
	set_proxy($lost->{proxy}, 'pass');
	ok(poll(sub { return $registry->safe_psql('postgres', q(SELECT port FROM snowflake_nodes WHERE node = 1 AND state = 'live')) eq $lost->{node}->port }),
		'it learns of the one that it had forgotten');
	is(number($lost), 1, 'which keeps its number');

	check(1, $told, $lost, $new);
	$_->{node}->stop foreach $told, $lost, $new;
	return;
}

#
# Clocks that are off at the start
#
my $skew = qr/"snowflake\.max_clock_skew" allows 5000 ms\./;

sub test_skew
{
	my $registry = new_registry('registry_skew');
	make_registry($registry, 'peers');

	# It does not begin.
	my $ahead = new_server($registry, 'ahead', clock => 8);
	my $behind = new_server($registry, 'behind', clock => -600);
	my $any = new_server($registry, 'any', clock => 8, conf => "snowflake.max_clock_skew = -1\n");
	my $far = new_server($registry, 'far', clock => 600, conf => "snowflake.max_clock_skew = -1\n");
	my $error = stops($ahead, '55000', '8 s ahead', qr/^The clock of this server is (?:80|79)\d\d ms ahead of the clock of the registry; $skew/);
	like($error->{hint}, qr/^Set the server's clock, or "snowflake\.max_clock_skew"\./, 'which is to be set');
	stops($behind, '55000', '10 min behind', qr/^The clock of this server is (?:600\d|599\d)\d\d ms behind the clock of the registry; $skew/);
	ok(wait_log($behind, qr/WARNING:  could not lease a snowflake node number\n.*is \d+ ms behind the clock of the registry/), 'so says the log');
	# a lost lease of its might outlast what the registry closes for
	$error = stops($far, '55000', '10 min ahead', qr/^The registry gives no node number, as the server is too far ahead of the registry's clock to get a node number: The server's clock is (?:600|599)\.\d s ahead of the registry's; at most 10 s are allowed\./);
	is($error->{hint}, 'Set the clocks of the server and of the registry right.', 'whatever skew is allowed');
	is(number_of($_->{node}), '', "$_->{name}: has no number") foreach $ahead, $behind, $far;
	is(@{ all_ids($_) }, 0, "$_->{name}: has issued nothing") foreach $ahead, $behind, $far;
	number($any);
	flows($any, 'any skew allowed');
	ok(poll(sub { $any->{node}->safe_psql('postgres', 'SELECT registry_offset FROM pg_stat_snowflake') =~ /^00:00:0(?:8|7\.9)/ }),
		'which the view shows');
	set_clock($_->{node}, 0) foreach $ahead, $far;
	alter_system($behind->{node}, 'SET snowflake.max_clock_skew = -1');
	foreach my $server ($ahead, $behind, $far)
	{
		number($server);
		flows($server, "$server->{name}: set right");
	}

	# Each within what is allowed, but not from each other.
	my @peers = map { new_server($registry, "peer$_", dbname => 'peers', clock => -4, conf => "snowflake.lease_ttl = '10min'\n") } 1, 2;
	foreach (@peers) { number($_); flows($_, $_->{name}); }
	my $third = new_server($registry, 'peer3', dbname => 'peers', clock => 4);
	stops($third, '55000', 'off from its peers', qr/^The clock of this server is (?:80|79)\d\d ms ahead of the median of 2 other servers; $skew/);
	is(@{ all_ids($third) }, 0, 'off from its peers: has issued nothing');
	set_clock($third->{node}, -4);
	number($third);
	flows($third, 'off from its peers no more');

	$_->{node}->stop foreach $ahead, $behind, $any, $far, @peers, $third;
	return;
}

#
# Clocks that go off while the server runs, and those that do not
#
sub test_clocks
{
	my $registry = new_registry('registry_clocks');
	make_registry($registry, $_) foreach qw(warn stop steady units);

	# where the lease lasts longer than the clock goes forward
	my $warn = new_server($registry, 'warn', dbname => 'warn', clock => 0, conf => "snowflake.lease_ttl = '2min'\n");
	my $stop = new_server($registry, 'stop', dbname => 'stop', clock => 0, conf => "snowflake.clock_skew_action = stop\n");
	foreach ($warn, $stop) { number($_); draw_on($_, max_wait => '1min'); wait_drawn($_->{draws}[0], 1000); }
	my $waits = node_waits($warn);
	my $off_since = time();
	set_clock($_->{node}, 8) foreach $warn, $stop;
	ok(wait_log($warn, qr/WARNING:  the server's clock differs too much from others\n.*DETAIL:  The clock of this server is \d+ ms ahead of the clock of the registry; $skew/),
		'a clock that goes off: a warning');
	# measured anew each time, exactly where nobody was slow
	ok(poll(sub { $warn->{node}->safe_psql('postgres', q(SELECT registry_offset BETWEEN '7.9 s' AND '8.1 s' FROM pg_stat_snowflake)) eq 't' }),
		'a clock that goes off: by how much');
	my $end = lease_end($warn);
	stops($stop, '55000', 'a clock that goes off', qr/^The clock of this server is (?:80|79)\d\d ms ahead of the clock of the registry; $skew/);
	ok(wait_log($stop, qr/WARNING:  this server no longer issues snowflake IDs as node 0\n/), 'and in the log');
	ok(poll(sub { lease_end($warn) > $end + 7 }), 'a warning: the lease is renewed');
	is(sqlstates($warn->{draws}[0]), '', 'a warning: IDs go on');
	is(node_waits($warn), $waits, 'a warning: nobody waits for a number');
	my $warnings = () = slurp_file($warn->{node}->logfile) =~ /differs too much from others/g;
	cmp_ok($warnings, '<=', 1 + int((time() - $off_since) / 60), 'a warning: once a minute');
	set_clock($_->{node}, 0) foreach $warn, $stop;
	number($stop);
	flows($stop, 'a clock that is right again');

	# Clocks that do not step do not go off.  Past the deadline nothing is
	# issued, though the time unit does not end.
	my %steady;
	foreach my $clock (qw(monotonic logical))
	{
		$steady{$clock} = new_server($registry, $clock, dbname => 'steady', clock => 0, conf => "snowflake.clock = $clock\n");
		number($steady{$clock});
		draw_on($steady{$clock});
		wait_drawn($steady{$clock}{draws}[0], 100);
		set_clock($steady{$clock}{node}, 3600);
	}
	foreach my $server (values %steady)
	{
		my $end = lease_end($server);
		poll(sub { lease_end($server) > $end + 3 }) or die 'no renewal';
		is($server->{node}->safe_psql('postgres', q(SELECT abs(extract(epoch FROM registry_offset)) < 5 FROM pg_stat_snowflake)), 't',
			"$server->{name} clock: not off when the server's is set");
		unlike(slurp_file($server->{node}->logfile), qr/differs too much/, "$server->{name} clock: no warning");
	}

	# Another layout has no place there.
	my $units = new_server($registry, 'units', dbname => 'steady', conf => "snowflake.layout = 'time:31\@60s node:5 worker:2 sequence:20'\n");
	my $error = stops($units, '55000', 'another layout',
		qr/^The registry gives no node number, as servers with another layout have node numbers of the registry: The holders are .*"$LeaseTest::layout since /);
	like($error->{hint}, qr/^Give all servers of a registry the same layout and epoch\./, 'another layout: the way out');
	alter_system($units->{node}, sprintf(q(SET snowflake.registry = '%s'), proxy_conninfo($units->{proxy}, dbname => 'units')));
	my @said;
	poll(sub { my ($id, $error) = call($units); push @said, $error->{detail}; return $id ne '' });
	unlike(join("\n", @said), qr/too far ahead/, 'in another registry it has a number, at once');
	is(number($units), 0, 'which is free there');
	draw_on($units);
	wait_drawn($units->{draws}[0], 100);

	my @last = ($units, values %steady);
	set_proxy($_->{proxy}, 'hole') foreach @last;
	foreach my $server (@last)
	{
		stops($server, '55P03', "$server->{name}, past the deadline", qr/^The lease of node number \d+ ended at /);
		$server->{count} = drawn_before($server->{node}, $server->{draws}[0]);
	}
	sleep 2;
	foreach my $server (@last)
	{
		is(drawn_before($server->{node}, $server->{draws}[0]), $server->{count}, "$server->{name}, past the deadline: nothing is issued");
		is(sqlstates($server->{draws}[0]), '55P03', "$server->{name}, past the deadline: errors");
	}

	# for each registry
	stop_draw($units->{draws}[0]);
	check(1, $warn);
	check(1, $stop);
	check(2, values %steady);
	$_->{node}->stop foreach $warn, $stop, @last;
	return;
}

#
# Settings
#
sub test_settings
{
	my $registry = new_registry('registry_settings');
	my $server = new_server($registry, 'server', proxy => 0);
	my $node = $server->{node};
	my $conninfo = registry_conninfo($registry);
	my $secret = 'hunter2';
	my $start = sub {
		my ($setting) = @_;
		my $from = -s $node->logfile;

		$node->append_conf('postgresql.conf', $setting);
		my $started = $node->start(fail_ok => 1);
		return ($started, slurp_file($node->logfile, $from));
	};
	my ($started, $log);

	number($server);
	$node->stop;
	foreach (
		[ q(snowflake.registry = 'the one over there'), qr/FATAL:.*invalid value for parameter "snowflake\.registry".*DETAIL:.*It is not a connection string: missing "=" after "\.\.\.".*HINT:.*Write it as for psql/s ],
		[ qq(snowflake.registry = 'host=db $secret'), qr/FATAL:.*invalid value for parameter "snowflake\.registry".*DETAIL:.*It is not a connection string: missing "=" after "\.\.\."/s ],
		[ qq(snowflake.registry = '$conninfo password=$secret'), qr/FATAL:.*DETAIL:.*It has the option "password", which everybody.*HINT:.*"passfile".*"service"/s ],
		[ qq(snowflake.registry = 'postgresql://snowflake_server:$secret\@db/postgres'), qr/FATAL:.*DETAIL:.*It has the option "password"/s ],
		[ qq(snowflake.registry = '$conninfo sslpassword=$secret'), qr/FATAL:.*DETAIL:.*It has the option "sslpassword"/s ],
		[ q(snowflake.lease_ttl = '9999ms'), qr/FATAL:.*outside the valid range for parameter "snowflake\.lease_ttl"/ ],
		[ q(snowflake.lease_ttl = '86401s'), qr/FATAL:.*outside the valid range for parameter "snowflake\.lease_ttl"/ ],
		[ q(snowflake.max_clock_skew = -2), qr/FATAL:.*outside the valid range for parameter "snowflake\.max_clock_skew"/ ],
		[ q(snowflake.clock_skew_action = 'panic'), qr/FATAL:.*"snowflake\.clock_skew_action": "panic".*Available values: warn, stop/s ])
	{
		my ($setting, $pattern) = @{$_};

		($started, $log) = $start->("$setting\n");
		is($started, 0, "refused: $setting");
		like($log, $pattern, 'and says why');
		$node->append_conf('postgresql.conf', "snowflake.registry = '$conninfo'\nsnowflake.lease_ttl = 10s\nsnowflake.max_clock_skew = -1\nsnowflake.clock_skew_action = warn\n");
	}
	unlike(slurp_file($node->logfile), qr/$secret/, 'no secret in the log');

	# a number set beside it: nothing is leased, but that is registered
	($started, $log) = $start->("snowflake.node_id = 7\n");
	is($started, 1, 'a number and a registry');
	$server->{numbers}{7} = 1;
	is(flows($server, 'a number and a registry') >> 8 & 31, 7, 'the number counts');
	is($node->safe_psql('postgres', 'SELECT node, lease_end FROM pg_stat_snowflake'), '7|infinity', 'there is no lease, but a registration');
	is($registry->safe_psql('postgres', 'SELECT expires_at FROM snowflake_nodes WHERE node = 7'), 'infinity', 'in the registry, too');
	$node->stop;

	# neither: two ways out
	($started, $log) = $start->("snowflake.node_id = -1\nsnowflake.registry = ''\n");
	like($log, qr/WARNING:.*"snowflake\.node_id" is not set/, 'neither: a warning');
	like($log, qr/HINT:.*"snowflake\.registry"/, 'neither: with both ways out');
	my $error = stops($server, '55000', 'neither', qr/Without a number of its own, this server could issue the same IDs as another server\./, '"snowflake.node_id" is not set');
	like($error->{hint}, qr/Set "snowflake\.node_id" to a number .* To lease a number instead, set "snowflake\.registry"\./, 'neither: both ways out');
	# what is only read does not need a number, and no worse than an error comes of the rest
	is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_stat_snowflake_slots WHERE last_id IS NOT NULL)), '0', 'neither: the views can be read');

	# set while the server runs, and a password that is wrong
	$registry->safe_psql('postgres', "CREATE ROLE secret LOGIN PASSWORD '$secret' IN ROLE snowflake_server");
	$registry->append_conf('pg_hba.conf', '');
	my $hba = slurp_file($registry->data_dir . '/pg_hba.conf');
	open my $fh, '>', $registry->data_dir . '/pg_hba.conf' or die $!;
	print $fh "local all secret scram-sha-256\n$hba";
	close $fh;
	reload_node($registry);
	my $passfile = PostgreSQL::Test::Utils::tempdir() . '/pass';
	my $password = sub {
		open my $fh, '>', $passfile or die $!;
		print $fh "*:*:*:*:$_[0]\n";
		close $fh;
		chmod 0600, $passfile;
	};
	$password->("not-$secret");
	alter_system($node, sprintf(q(SET snowflake.registry = '%s'), registry_conninfo($registry, user => 'secret', passfile => $passfile)));
	stops($server, '55000', 'a wrong password', qr/The registry could not be asked: .*password authentication failed for user "secret"/);
	ok(wait_log($server, qr/WARNING:  could not (?:lease a|renew the lease of the) snowflake node number.*\n.*password authentication failed for user "secret"/), 'which is in the log');
	my $convert = 'CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY); INSERT INTO t SELECT FROM generate_series(1, 10);';
	$node->safe_psql('postgres', $convert);
	unlike($node->safe_psql('postgres', q(SELECT * FROM snowflake_convert('t', 'id'))), qr/node_id/, 'no number yet: a conversion can be planned');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM snowflake_check() WHERE status IS NULL)), '0', 'no number yet: snowflake_check() answers');
	my $its_number = q(SELECT status, detail FROM snowflake_check() WHERE name = 'node_id');
	is($node->safe_psql('postgres', $its_number), 'warning|This server has no number now. The check "registry" says why.', 'that there is none');
	$password->($secret);
	my $number = number($server);
	flows($server, 'the right password');
	is($node->safe_psql('postgres', $its_number), "ok|This server is node $number, leased from the registry.", 'and which one');
	unlike(slurp_file($node->logfile) . $node->safe_psql('postgres', 'SELECT * FROM pg_settings; SELECT * FROM pg_stat_snowflake; SELECT * FROM pg_stat_activity; SELECT * FROM snowflake_check()')
		  . $registry->safe_psql('postgres', 'SELECT * FROM snowflake_nodes'),
		qr/$secret/, 'in no log and no view');
	$node->safe_psql('postgres', 'CREATE ROLE somebody LOGIN');
	my (undef, undef, $stderr) = $node->psql('postgres', 'SHOW snowflake.registry', extra_params => [ '-U', 'somebody' ]);
	like($stderr, qr/permission denied|must be superuser|pg_read_all_settings/, 'not everybody is shown where it is');

	# no number for the past
	(undef, $error) = call($server, q(SELECT snowflake_backfill('2021-02-23')));
	is("$error->{sqlstate}: $error->{message}", '0A000: cannot backfill snowflake IDs with a node number from a registry', 'no backfilling');
	like($error->{hint}, qr/^Build the IDs with snowflake_id\(\), or backfill on a server with a "snowflake\.node_id" that no other server has or can lease\.$/, 'nor with a configured number beside it');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM snowflake_convert('t', 'id', false) WHERE kind = 'error')), '0', 'a table is converted');
	my $id = $node->safe_psql('postgres', "SET snowflake.max_wait = '30s'; INSERT INTO t DEFAULT VALUES RETURNING id");
	push @{ $server->{ids} }, $id;
	is($node->safe_psql('postgres', q(SELECT count(*) FROM snowflake_check() WHERE status = 'error')), '0', 'snowflake_check() finds nothing wrong');

	# A function that only has this name, and gives a number that is none.
	$registry->safe_psql('postgres', 'CREATE DATABASE nonsense');
	$registry->safe_psql('nonsense', <<'SQL');
CREATE EXTENSION snowflake_registry;
SELECT format('ALTER FUNCTION %s RENAME TO the_real_one', oid::regprocedure)
FROM pg_proc WHERE proname = 'snowflake_lease_node' \gexec
CREATE FUNCTION snowflake_lease_node(protocol integer, token uuid, number integer, held integer, held_token uuid, remaining interval, instance text,
    max_node integer, lease_ttl interval, mark bigint, clock timestamptz, clock_offset interval, layout text,
    host text, port integer, system_identifier bigint, seen bigint, renewals bigint, wants_peers boolean)
RETURNS snowflake_node_answer LANGUAGE sql AS $$ SELECT 1, max_node + 1, 0::bigint, mark, lease_ttl, clock, 0, NULL::interval, '1/00000001', 100000::bigint, 1::bigint, 0, NULL::text, NULL::text, NULL::boolean, NULL::text, NULL::text $$;
SQL
	alter_system($node, sprintf(q(SET snowflake.registry = '%s'), registry_conninfo($registry, dbname => 'nonsense')));
	stops($server, '55P03', 'nonsense', qr/The registry could not be asked: it gives node number 32, which this server cannot have\./);

	# What is not in ASCII is shown in the encoding of each database.
	my $name = "gr\xc3\xb6\xc3\x9fe";
	$node->safe_psql('postgres', q(CREATE DATABASE latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	$node->safe_psql('latin1', 'CREATE EXTENSION snowflake');
	alter_system($node, sprintf(q(SET snowflake.registry = '%s'), registry_conninfo($registry, dbname => $name)));
	ok(poll(sub {
			(undef, undef, $stderr) = $node->psql('latin1', q(SET client_encoding = 'UTF8'; SELECT snowflake_nextval()));
			return $stderr =~ /^DETAIL:.*database "$name" does not exist/m;
		}), 'an error in another encoding') or diag($stderr);

	alter_system($node, sprintf(q(SET snowflake.registry = '%s'), $conninfo));
	number($server);
	flows($server, 'no more nonsense');

	# Taken away while sessions draw.
	my $draw = draw_on($server, max_wait => '1min');
	my $session = session($node);
	wait_drawn($draw, 100);
	wait_for(sub { ($id) = draw_one($session); return $id ne '' }) or die "no IDs\n";
	push @{ $server->{ids} }, $id;
	alter_system($node, q(SET snowflake.registry = ''));
	wait_for(sub { $session->query_safe('SHOW snowflake.registry') eq '' }) or die;
	($id, $error) = draw_one($session);
	push @{ $server->{ids} }, $id if $id ne '';
	is("$id$error->{message}", '"snowflake.node_id" is not set', 'no registry any more: no IDs');
	stops($server, '55000', 'no registry any more', qr/Without a number/, '"snowflake.node_id" is not set');
	wait_statements($node, $draw);
	is(sqlstates($draw), '55000', 'no registry any more: an error in all sessions');
	is(number_of($node), '', 'no registry any more: no lease is shown');
	alter_system($node, sprintf(q(SET snowflake.registry = '%s'), $conninfo));
	number($server);
	flows($server, 'a registry again');
	wait_drawn(draw_on($server), 1500);
	$session->quit;

	check(2, $server);
	$node->stop;
	return;
}

#
# The registry fails over to its own standby
#
sub test_failover
{
	my $registry = new_registry('registry_primary', '', allows_streaming => 1);
	my $standby = PostgreSQL::Test::Cluster->new('registry_standby');

	$registry->backup('standby');
	$standby->init_from_backup($registry, 'standby', has_streaming => 1);
	$standby->start;

	# the first host of three never answers
	my $proxy = start_proxy($registry);
	set_proxy($proxy, 'hole');
	my $where = LeaseTest::conninfo(
		host => join(',', $proxy->{host}, $registry->host, $standby->host),
		port => join(',', $proxy->{port}, $registry->port, $standby->port));
	my $seconds = 90;
	my $make = sub {
		my $server = server($_[0], leasing_node($_[0], $_[1] // $where, "snowflake.lease_ttl = ${seconds}s\n"));
		return $server;
	};
	my @servers = map { $make->("failover$_") } 0, 1;

	# one that is new there comes later
	my $new = $make->('failover2', 'host=/nowhere');

	foreach (@servers)
	{
		number($_);
		draw_on($_, max_wait => '1min');
		wait_drawn($_->{draws}[0], 100);
	}
	is(join(' ', sort map { keys %{ $_->{numbers} } } @servers), '0 1', 'a first host that never answers, and then the registry');
	$registry->wait_for_catchup($standby, 'replay');
	kill9_postmaster($registry, all => 1);
	my $waits = node_waits(@servers);
	my @ends = map { lease_end($_) } @servers;
	$standby->promote;

	# What it may have lost was given to others.
	alter_system($new->{node}, "SET snowflake.registry = '$where'");
	my $error = stops($new, '55P03', 'a new server', qr/^The registry gives no node number, as the registry gives out no node numbers until \S+ \S+ UTC: It was promoted or restored, /);
	like($error->{hint}, qr/^Wait until then\./, 'a new server has to wait');
	ok(poll(sub { lease_end($servers[$_]) > $ends[$_] + 1 }), "the standby is promoted: server $_ has renewed its lease there") foreach 0, 1;
	is(number($new), 2, 'until that is certain');
	wait_drawn(draw_on($new), 1000);
	wait_drawn($_->{draws}[0], 1000) foreach @servers;
	is(sqlstates($_->{draws}[0]), '', "$_->{name}: the failover was not noticed") foreach @servers;
	is(node_waits(@servers), $waits, 'nobody waited for a number');
	is_deeply(
		holders($standby),
		{ map { (keys %{ $_->{numbers} })[0] => $_->{node}->port } @servers, $new },
		'the new registry knows them all');

	check(2, @servers, $new);
	$_->{node}->stop foreach @servers, $new;
	return;
}

#
# A reserve window that is longer than leases
#
sub test_window
{
	my $registry = new_registry('registry_window');
	my $server = new_server($registry, 'window', conf => "snowflake.reserve_window = '1h'\n");
	my $mark = 'SELECT last_value FROM snowflake_home.mark';

	number($server);
	my $draw = draw_on($server);
	wait_drawn($draw, 100);
	my $before = $server->{node}->safe_psql('postgres', $mark);
	wait_drawn($draw, 2000);
	is($server->{node}->safe_psql('postgres', $mark), $before, 'the mark is written once, though leases end before it');

	check(0, $server);
	$_->{node}->stop foreach $server, { node => $registry };
	return;
}

# SNOWFLAKE_LEASE_TESTS='copies,settings' runs some only.
my %tests = (
	'start' => \&test_start,
	'away' => \&test_away,
	'restarts' => \&test_restart,
	'copies' => \&test_copies,
	'taken' => \&test_taken,
	'forgotten' => \&test_forgotten,
	'set back' => \&test_set_back,
	'skew' => \&test_skew,
	'clocks' => \&test_clocks,
	'settings' => \&test_settings,
	'window' => \&test_window,
	'failover' => \&test_failover);
in_parallel(
	map { $_ => $tests{$_} // die "there is no test $_\n" }
	  split /,/, $ENV{SNOWFLAKE_LEASE_TESTS} // join ',', sort keys %tests);
done_testing();
