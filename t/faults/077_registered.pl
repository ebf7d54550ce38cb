# Servers with a configured number and a registry, where the number is registered.
# Two servers with one number: only one draws, and each hears of the other.  One
# that is registered goes on without the registry, restarted, promoted, upgraded or
# restored; one that never was waits for it.  No ID comes twice, but where a copy of
# the whole server goes on beside it, which both say.

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $away = qr/The registry could not be asked: no (?:answer|connection) in 5000 ms/;
my $by_another = qr/ is not registered in the registry\. The registry does not let this server be node \d+, as node number \d+ is registered by another server: The holder is /;

# A running server with a number of its own, and all that it draws; a proxy of its
# own before the registry.
sub new_server
{
	my ($registry, $name, $number, %opts) = @_;
	my $conf = delete $opts{conf} // '';
	my $proxy = start_proxy($registry);

	set_proxy($proxy, delete $opts{mode} // 'pass');
	my $node = leasing_node($name, proxy_conninfo($proxy), "snowflake.node_id = $number\n$conf", %opts);
	return { name => $name, node => $node, proxy => $proxy, ids => [] };
}

# One that is made of the files of another one.
sub new_copy
{
	my ($registry, $name, $of, $backup, %opts) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $proxy = start_proxy($registry);

	set_proxy($proxy, delete $opts{mode} // 'pass');
	$node->init_from_backup($of->{node}, $backup, %opts);
	$node->append_conf('postgresql.conf', sprintf("port = %d\nsnowflake.registry = '%s'\n", $node->port, proxy_conninfo($proxy)));
	$node->start;
	return { name => $name, node => $node, proxy => $proxy, ids => [] };
}

# A thousand IDs, or none; and the error.
sub take
{
	my ($server, $sql) = @_;
	my (undef, $ids, $stderr) = eval {
		$server->{node}->psql('postgres', "\\set VERBOSITY verbose\n" . ($sql // 'SELECT snowflake_nextval(1000)'));
	};
	my @ids = split /\n/, $ids // '';

	push @{ $server->{ids} }, @ids;
	return (scalar(@ids), psql_error($stderr // ''));
}

sub flows
{
	my ($server, $name) = @_;

	return ok(poll(sub { (take($server))[0] }), "$name: IDs flow");
}

# It draws nothing, with an error that says why.
sub stops
{
	my ($server, $name, $number, $sqlstate, $detail) = @_;
	my ($n, $error);

	ok(poll(sub { ($n, $error) = take($server); return !$n && $error->{detail} =~ $detail; }), "$name: no IDs, and why")
	  or diag("$n $error->{message} $error->{detail}");
	is("$error->{sqlstate}: $error->{message}", "$sqlstate: cannot generate a snowflake ID: node number $number is not registered", "$name: an error");
	return $error;
}

# Of snowflake_check().
sub row_of
{
	my ($server, $check) = @_;

	return try_sql($server->{node}, qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check')) // '';
}

sub says
{
	my ($server, $check, $pattern, $name) = @_;
	my $row;

	return ok(poll(sub { ($row = row_of($server, $check)) =~ $pattern }), $name) || diag($row);
}

sub logs
{
	my ($server, $pattern, $name) = @_;

	return ok(wait_for(sub { slurp_file($server->{node}->logfile) =~ $pattern }), $name);
}

# What the registry has of a number.
sub row
{
	my ($registry, $columns, $number) = @_;

	return $registry->safe_psql('postgres', "SELECT $columns FROM snowflake_nodes WHERE node = $number");
}

sub set_number
{
	my ($server, $number) = @_;

	$server->{node}->append_conf('postgresql.conf', "snowflake.node_id = $number\n");
	$server->{node}->restart;
	return;
}

sub port { return $_[0]{node}->port; }

# At the end: no ID came twice.
sub check
{
	my ($faults, @servers) = @_;
	my $ledger = new_ledger();

	$ledger->add_ids($_->{name}, sort { $a <=> $b } @{ $_->{ids} }) foreach @servers;
	is($ledger->duplicates, 0, 'no ID came twice');
	cmp_ok($ledger->count, '>', 1000, 'enough to tell');
	$ledger->report($faults);
	$_->{node}->stop foreach @servers;
	return;
}

#
# Two servers with one number
#
sub test_twice
{
	my $registry = new_registry('registry_twice');
	my $one = new_server($registry, 'one', 7);

	flows($one, 'the first');
	is($one->{node}->safe_psql('postgres', 'SELECT node, lease_end FROM pg_stat_snowflake'), '7|infinity', 'it is registered');
	is(row($registry, 'state, port, expires_at', 7), 'registered|' . port($one) . '|infinity', 'as the registry has it');
	logs($one, qr/LOG:  this server is registered as snowflake node 7\n/, 'and the log');
	says($one, 'registry', qr/^ok\|This server is node 7, as registered in the registry\.$/m, 'and the doctor');
	says($one, 'node_id', qr/^ok\|This server is node 7, of 0 to 31\.$/, 'who finds nothing wrong');
	is($one->{node}->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_backfill('2021-02-23') > 0)), 't', 'it backfills');

	my $two = new_server($registry, 'two', 7);
	my $error = stops($two, 'a second', 7, '55000', qr/^Node number 7 of this server$by_another\S+:@{[ port($one) ]} \(node 7, last seen .* UTC\)\. Waited/);
	like($error->{hint}, qr/^Give this server another "snowflake\.node_id"\. .*snowflake_release_node\(/, 'a second: what to do');
	logs($two, qr/WARNING:  could not register the snowflake node number 7\n.*DETAIL:  The registry does not let .* registered by another server: The holder is \S+:@{[ port($one) ]} /, 'a second: so does its log');
	says($two, 'registry', qr/^error\|Node number 7 of this server$by_another.*snowflake_release_node/, 'a second: and its doctor');
	is((take($two, q(SET snowflake.max_wait = 0; SELECT snowflake_backfill('2021-02-23'))))[1]{message}, 'cannot generate a snowflake ID: node number 7 is not registered', 'a second: nor are there IDs of the past');
	like($two->{node}->safe_psql('postgres', 'SELECT can_draw, reason FROM snowflake_can_draw()'), qr/^f\|Node number 7 of this server is not registered/, 'a second: it cannot draw');
	is(@{ $two->{ids} }, 0, 'a second: it has drawn nothing');

	my $other = qr/The server \S+:@{[ port($two) ]} is configured with this server's node number, and asks for it, last at/;
	logs($one, qr/WARNING:  another server has, or asks for, the snowflake node number 7\n.*DETAIL:  $other/, 'the log of the first names the second');
	says($one, 'node_id', qr/^warning\|The registry warns of node number 7: $other .*Each server needs a number of its own/, 'and so does its doctor');
	$one->{node}->safe_psql('postgres', 'CREATE ROLE somebody LOGIN');
	is(($one->{node}->psql('postgres', q(SELECT detail FROM snowflake_check() WHERE name = 'node_id'), extra_params => [ '-U', 'somebody' ]))[1],
		'The registry warns of node number 7. Each server needs a number of its own: change "snowflake.node_id" of one of them and restart it, or stop it.', 'which names no host to everybody');
	flows($one, 'the first goes on');

	# Refused, it waits after a restart as well, though the registry is away; and is
	# still the first one's clone to nobody.
	set_proxy($two->{proxy}, 'hole');
	$two->{node}->restart;
	stops($two, 'a second, restarted', 7, '55P03', qr/^Node number 7 of this server is not registered in the registry\. $away/);
	set_proxy($two->{proxy}, 'pass');
	stops($two, 'a second, again', 7, '55000', $by_another);

	# another number
	set_number($two, 8);
	flows($two, 'another number');
	is(row($registry, 'port', 8), port($two), 'another number: registered');
	says($one, 'node_id', qr/^ok\|/, 'and the first hears of no other, after a minute');

	# The number is changed: the former one stays registered, also to the server that
	# had it, until somebody releases it.
	set_number($one, 9);
	flows($one, 'a changed number');
	is($registry->safe_psql('postgres', q(SELECT string_agg(node || ' ' || port, ', ' ORDER BY node) FROM snowflake_nodes WHERE state = 'registered')),
		join(', ', '7 ' . port($one), '8 ' . port($two), '9 ' . port($one)), 'a changed number: both are registered');
	set_number($two, 7);
	stops($two, 'the former number', 7, '55000', $by_another);

	# The next one begins above all that the last mark allowed.
	my $mark = row($registry, 'extract(epoch FROM issues_until)', 7);
	is($registry->safe_psql('postgres', 'SELECT snowflake_release_node(7)'), 't', 'it is released');
	my $kept = @{ $two->{ids} };
	flows($two, 'released');
	cmp_ok(min(map { time_of_id($_) } @{ $two->{ids} }[ $kept .. $#{ $two->{ids} } ]), '>=', $mark - 0.001, 'released: the next one begins where the last mark ends');
	is(row($registry, 'port', 7), port($two), 'released: it is registered');

	# A number of a lease counts as well.
	my $three = { name => 'three', ids => [], node => leasing_node('three', registry_conninfo($registry)) };
	is(wait_number($three->{node}), 0, 'another server leases a number');
	flows($three, 'leased');
	set_number($one, 0);
	stops($one, 'leased', 0, '55000', qr/as node number 0 is leased by another server: The holder is \S+:@{[ $three->{node}->port ]} /);

	# Released while it runs: it draws no more before it is registered again, also
	# when it is started again meanwhile.  The 10 s for which nobody gets the number
	# are made an hour, however slow the machine is.
	$registry->safe_psql('postgres', <<'SQL');
BEGIN;
SELECT snowflake_release_node(7);
UPDATE snowflake_node_lease SET mark = mark + 3600000000 WHERE node = 7 AND to_timestamp(mark / 1e6) >= now() + interval '10 s';
COMMIT;
SQL
	stops($two, 'released while it runs', 7, '55P03', qr/as node number 7 is not free until/);
	logs($two, qr/WARNING:  this server no longer issues snowflake IDs as node 7\n/, 'released while it runs: as the log says');
	set_proxy($two->{proxy}, 'hole');
	$two->{node}->restart;
	stops($two, 'released while it runs, restarted', 7, '55P03', qr/^Node number 7 of this server is not registered in the registry\. $away/);
	$registry->safe_psql('postgres', 'SELECT snowflake_release_node(7, now())');
	set_proxy($two->{proxy}, 'pass');
	flows($two, 'released while it runs, later');

	# Refused twice, with nobody having had the number, while none draws.
	my $token = $registry->safe_psql('postgres', 'SELECT token FROM snowflake_node_lease WHERE node = 7');
	foreach my $time ('once', 'twice')
	{
		$registry->safe_psql('postgres', 'UPDATE snowflake_node_lease SET token = gen_random_uuid() WHERE node = 7');
		says($two, 'registry', qr/^error\|Node number 7 of this server$by_another/, "refused $time");
		$registry->safe_psql('postgres', "UPDATE snowflake_node_lease SET token = '$token' WHERE node = 7");
		says($two, 'registry', qr/^ok\|This server is node 7, as registered/, "refused $time, and no longer");
	}
	poll(sub { $two->{node}->safe_psql('postgres', 'SELECT deadline <> 0 FROM snowflake_home.lease') eq 't' })
	  or die 'it is not written down';
	set_proxy($two->{proxy}, 'hole');
	kill9_postmaster($two->{node}, all => 1);
	start_node($two->{node});
	flows($two, 'registered again, restarted while the registry is away');

	# A registry is named while a statement draws, which keeps the settings of its start.
	my $four = leasing_node('four', '', "snowflake.node_id = 7\nsnowflake.max_wait = '10s'\n");
	my $draw = start_sql($four, 'SELECT snowflake_nextval(), pg_sleep(0.01) FROM generate_series(1, 3000)');
	wait_for(sub { $four->safe_psql('postgres', 'SELECT issued > 0 FROM pg_stat_snowflake') eq 't' });
	$four->safe_psql('postgres', sprintf q(ALTER SYSTEM SET snowflake.registry = '%s'), registry_conninfo($registry));
	reload_node($four);
	like((finish_sql($draw))[1], qr/ERROR:  55(?:000|P03): cannot generate a snowflake ID: node number 7 is not registered\n/, 'a statement that runs when the registry is named ends');
	$four->safe_psql('postgres', q(ALTER SYSTEM SET snowflake.registry = ''));
	reload_node($four);
	ok(poll(sub { try_sql($four, 'SELECT snowflake_nextval()') }), 'and no registry once more');
	$four->stop;
	check(6, $one, $two, $three);
	return;
}

#
# The registry is away
#
sub test_away
{
	my $registry = new_registry('registry_away');
	my %ways = (
		'fast shutdown' => sub { $_[0]->restart },
		'immediate shutdown' => sub { $_[0]->stop('immediate'); $_[0]->start },
		'kill -9' => sub { kill9_postmaster($_[0], all => 1); start_node($_[0]) },
		'reboot' => sub {
			$_[0]->safe_psql('postgres', "UPDATE snowflake_home.lease SET instance = 'boot ' || gen_random_uuid() || substr(instance, 42)");
			kill9_postmaster($_[0], all => 1);
			start_node($_[0]);
		});
	my @servers;

	foreach my $way (sort keys %ways)
	{
		my $server = new_server($registry, 'away' . @servers, scalar(@servers));

		flows($server, $way);
		push @servers, { %{$server}, way => $way };
	}
	set_proxy($_->{proxy}, 'hole') foreach @servers;
	my $never = new_server($registry, 'never', 20, mode => 'hole');
	stops($never, 'never registered', 20, '55P03', qr/^Node number 20 of this server is not registered in the registry\. $away/);
	is(row_of($never, 'node_id'), 'warning|This server has no number now. The check "registry" says why.', 'never registered: no number yet');
	says($never, 'registry', qr/^error\|Node number 20 of this server is not registered in the registry\. $away/, 'never registered: the doctor says so');
	logs($never, qr/WARNING:  could not register the snowflake node number 20\n.*DETAIL:  $away.*\n.*HINT:  The server issues no ID until the registry gives it a number, or registers the configured one\./, 'never registered: and the log');

	# neither when it is started again: what it is not is not remembered as if it were
	$never->{node}->restart;
	stops($never, 'never registered, restarted', 20, '55P03', $away);
	is(@{ $never->{ids} }, 0, 'never registered: it has drawn nothing');

	foreach my $server (@servers)
	{
		my $name = $server->{way};

		# without the registry for longer than a lease
		says($server, 'registry', qr/^warning\|This server is node \d+, as registered in the registry\. $away/, "$name: the registry is away");
		flows($server, "$name: the registry is away");
		$ways{$name}->($server->{node});
		flows($server, "$name, while it is away");
		logs($server, qr/WARNING:  could not confirm the snowflake node number \d+\n.*DETAIL:  $away.*\n.*HINT:  The server goes on issuing IDs, as it is registered\./, "$name: as the log says");
	}

	# what it is cannot be written down at first
	$servers[0]{node}->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE public.tries;
CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('public.tries'); RAISE 'no room'; END$$;
CREATE TRIGGER is_full BEFORE INSERT ON snowflake_home.lease FOR EACH ROW EXECUTE FUNCTION is_full();
ALTER TABLE snowflake_home.lease ENABLE ALWAYS TRIGGER is_full;
SQL
	$servers[0]{node}->restart;
	stops($servers[0], 'its number cannot be written down', 0, '55P03', qr/./);
	ok(wait_for(sub { slurp_file($servers[0]{node}->logfile) =~ /no room/ }), 'its number cannot be written down: as the log says');

	# each pause takes half a second at least, on any machine
	my $tries = sub { $servers[0]{node}->safe_psql('postgres', 'SELECT last_value FROM tries') };
	my ($began_at, $tried) = (time(), $tries->());
	poll(sub { $tries->() >= $tried + 6 }) or die 'it is not tried again';
	cmp_ok(time() - $began_at, '>', 2, 'its number cannot be written down: it is tried with pauses');
	my $services = services_pid($servers[0]{node});
	$servers[0]{node}->safe_psql('postgres', "SELECT pg_terminate_backend($services)");
	services_pid($servers[0]{node}, $services);
	$servers[0]{node}->safe_psql('postgres', 'DROP FUNCTION is_full() CASCADE; DROP SEQUENCE tries');
	flows($servers[0], 'its number is written down');

	set_proxy($_->{proxy}, 'pass') foreach @servers, $never;
	flows($never, 'never registered, the registry is there');
	foreach my $number (0 .. $#servers)
	{
		says($servers[$number], 'registry', qr/^ok\|This server is node $number, as registered in the registry\.$/m, "$servers[$number]{way}: the registry is there");
		is(row($registry, 'port', $number), port($servers[$number]), "$servers[$number]{way}: and has its number");
		is(row_of($servers[$number], 'node_id'), "ok|This server is node $number, of 0 to 31.", "$servers[$number]{way}: of no other server");
	}

	# The registry has lost track and is closed: who is registered goes on.
	my $began = $registry->safe_psql('postgres', q(UPDATE snowflake_registry_place SET place = 'elsewhere' RETURNING now()));

	# once it has closed, for all that follows, however slow the machine is
	ok(poll(sub { $registry->safe_psql('postgres', "UPDATE snowflake_registry_place SET closed_until = now() + interval '1 hour' WHERE closed_until > '$began' RETURNING true") eq 't' }), 'a closed registry: it closes');
	foreach my $number (0 .. $#servers)
	{
		ok(poll(sub { row($registry, "renewed_at > '$began'", $number) eq 't' && row_of($servers[$number], 'registry') =~ /^ok/m; }), 'a closed registry: who is registered goes on');
	}
	is($registry->safe_psql('postgres', 'SELECT state FROM snowflake_registry'), 'closed', 'a closed registry: it is closed');
	is(join('', map { slurp_file($_->{node}->logfile) =~ /(no longer issues.*)/ ? $1 : '' } @servers), '', 'a closed registry: nobody notices');

	# One is registered when it opens, and does not come to know.  What it was
	# registered by is not lost with a crash.
	my $late = new_server($registry, 'late', 21);
	stops($late, 'a closed registry, never registered', 21, '55P03', qr/the registry gives out no node numbers until/);
	my $locker = session($registry, 'postgres');

	# its request has come, and was not given up yet, so that only the answer is held
	my $asks = sprintf q(FROM pg_stat_activity WHERE application_name LIKE 'snowflake lease %%:%d %%' AND wait_event_type = 'Lock'), port($late);
	poll(
		sub {
			set_proxy($late->{proxy}, 'pass');
			$locker->query_safe('BEGIN; LOCK snowflake_registry_place');
			$registry->poll_query_until('postgres', "SELECT count(*) > 0 $asks") or die 'it asks no more';
			set_proxy($late->{proxy}, 'hold answers');
			return $locker->query_safe("SELECT count(snowflake_open_registry()) FROM (SELECT $asks LIMIT 1) AS asks; COMMIT") eq '1';
		}) or die 'it gives up each time';
	$locker->quit;
	ok(poll(sub { row($registry, 'state', 21) eq 'registered' }), 'an answer is lost: the registry has registered it');
	is((take($late))[0], 0, 'an answer is lost: it draws nothing');
	kill9_postmaster($late->{node}, all => 1);
	start_node($late->{node});
	is((take($late))[0], 0, 'an answer is lost, started again: it draws nothing');
	set_proxy($late->{proxy}, 'pass');
	flows($late, 'an answer was lost');

	# A registry is set, and taken away, while sessions draw.
	my $set = new_server($registry, 'set', 0, conf => "snowflake.registry = ''\n");
	my $set_registry = sub {
		$set->{node}->safe_psql('postgres', "ALTER SYSTEM SET snowflake.registry = '$_[0]'");
		reload_node($set->{node});
	};
	is((take($set, q(SET snowflake.max_wait = '1min'; SELECT NULL; SELECT snowflake_nextval() IS NOT NULL)))[0], 2, 'no registry: it draws with a number that another server has');
	is(row_of($set, 'registry'), 'ok|"snowflake.registry" is not set.', 'no registry: nothing is said of it');
	$set->{ids} = [];
	$set_registry->(proxy_conninfo($set->{proxy}));
	stops($set, 'a registry is set', 0, '55000', $by_another);
	$set_registry->('');
	ok(poll(sub { try_sql($set->{node}, 'SELECT snowflake_nextval()') }), 'no registry again: it draws');
	$set->{node}->stop;

	# No node field: nothing to register.
	my $narrow = new_server($registry, 'narrow', -1, conf => "snowflake.layout = 'time:41 worker:2 sequence:6'\n");
	flows($narrow, 'no node field');
	is($narrow->{node}->safe_psql('postgres', 'SELECT node, lease_end FROM pg_stat_snowflake'), '0|', 'no node field: no lease');
	is(row_of($narrow, 'registry'), 'ok|The layout has no node field, so the registry gives no node number.', 'no node field: the doctor says so');
	is($registry->safe_psql('postgres', 'SELECT count(*) FROM snowflake_nodes WHERE port = ' . port($narrow)), '0', 'no node field: nothing is registered');
	$narrow->{node}->stop;

	check(2 + @servers, @servers, $never, $late);
	return;
}

#
# Promoted, restored, upgraded, copied
#
sub test_copies
{
	my $registry = new_registry('registry_copies');
	my %streams = (allows_streaming => 1);
	my $primary = new_server($registry, 'primary', 1, %streams);
	my $restored = new_server($registry, 'restored', 2, %streams);
	my $cloned = new_server($registry, 'cloned', 3, %streams);
	my $upgraded = new_server($registry, 'upgraded', 4);

	foreach ($primary, $restored, $cloned)
	{
		flows($_, $_->{name});
		$_->{node}->backup('backup');
		flows($_, "$_->{name}, after the backup");
	}
	flows($upgraded, 'upgraded');

	# A standby is promoted while the registry is away, in place of its primary.
	my $standby = new_copy($registry, 'standby', $primary, 'backup', has_streaming => 1, mode => 'hole');
	says($standby, 'registry', qr/^ok\|This is a standby: it asks the registry when it is promoted\.$/, 'a standby registers nothing');
	$primary->{node}->wait_for_catchup($standby->{node}, 'replay');
	kill9_postmaster($primary->{node}, all => 1);
	$standby->{node}->promote;
	flows($standby, 'promoted, without the registry');
	says($standby, 'node_id', qr/^warning\|This server was promoted/, 'promoted: that it is to be confirmed is said as ever');
	set_proxy($standby->{proxy}, 'pass');
	ok(poll(sub { row($registry, 'port', 1) eq port($standby) }), 'promoted: the registry knows it');
	unlike(row_of($standby, 'node_id'), qr/The registry warns/, 'promoted: no other server has its number');

	# A restored backup, in place of the server that it is of.
	$restored->{node}->stop;
	my $copy = new_copy($registry, 'copy', $restored, 'backup', mode => 'hole');
	set_clock_of_ids($copy, $restored);
	flows($copy, 'restored, without the registry');
	set_proxy($copy->{proxy}, 'pass');
	ok(poll(sub { row($registry, 'port', 2) eq port($copy) }), 'restored: the registry knows it');
	unlike(row_of($copy, 'node_id'), qr/The registry warns/, 'restored: no other server has its number');

	# pg_upgrade
	my $new = PostgreSQL::Test::Cluster->new('new');
	my $tmp = PostgreSQL::Test::Utils::tempdir_short();
	my $bin = $upgraded->{node}->config_data('--bindir');
	$upgraded->{node}->stop;
	$new->init(force_initdb => 1);
	IPC::Run::run(
		[
			$new->installed_command('pg_upgrade'), '--no-sync', '-b', $bin, '-B', $bin,
			'-d', $upgraded->{node}->data_dir, '-D', $new->data_dir, '-p', port($upgraded), '-P', $new->port, '-s', $tmp
		],
		'<', '/dev/null', '>&', \my $said, init => sub { chdir $tmp or die "$tmp: $!" });
	is($?, 0, 'pg_upgrade: done') or diag $said;
	set_proxy($upgraded->{proxy}, 'hole');
	$new->append_conf('postgresql.conf', $LeaseTest::conf . sprintf(<<'CONF', proxy_conninfo($upgraded->{proxy})));
shared_preload_libraries = 'snowflake'
snowflake.node_id = 4
snowflake.registry = '%s'
CONF
	$new->start;
	$upgraded->{node} = $new;
	flows($upgraded, 'pg_upgrade, without the registry');
	set_proxy($upgraded->{proxy}, 'pass');
	ok(poll(sub { row($registry, 'port', 4) eq port($upgraded) }), 'pg_upgrade: the registry knows it');

	# A copy of the whole server beside it: nothing tells which of the two is right.
	my $clone = new_copy($registry, 'clone', $cloned, 'backup');
	foreach my $server ($cloned, $clone)
	{
		my $turns = qr/The server \S+:\d+.* and the server \S+:\d+ take turns as one: both draw IDs with this number, last at /;

		says($server, 'node_id', qr/^warning\|The registry warns of node number 3: $turns/, "$server->{name}: the doctor says of a copy");
		logs($server, qr/WARNING:  another server has, or asks for, the snowflake node number 3\n.*DETAIL:  $turns/, "$server->{name}: and the log");
		flows($server, $server->{name});
	}
	$clone->{ids} = [];    # they may be the other one's
	set_number($clone, 5);
	flows($clone, 'the clone has a number of its own');
	says($cloned, 'node_id', qr/^ok\|This server is node 3, of 0 to 31\.$/, 'the clone has a number of its own: nothing more is said, after a minute');

	check(5, $standby, $copy, $upgraded, $cloned, $clone);
	return;
}

# What a restored backup lacks may come again: wait until it cannot.
sub set_clock_of_ids
{
	my ($copy, $of) = @_;
	my $last = max(map { time_of_id($_) } @{ $of->{ids} });

	wait_for(sub { time() > $last + 1 });
	$copy->{ids} = [ @{ $of->{ids} } ];
	return;
}

# A backfill that waits for the registration, and then for sequence numbers, which
# somebody's lock holds up, waits for max_wait in all.
sub test_in_all
{
	my $registry = new_registry('registry_in_all');
	my $server = new_server($registry, 'in_all', 2, mode => 'hold');
	my $blocker = session($server->{node});

	poll(sub { try_sql($server->{node}, "SELECT to_regclass('snowflake_home.backfill')") }) or die "there is no home\n";
	$blocker->query_safe('BEGIN; LOCK TABLE snowflake_home.backfill');
	my $waiter = start_sql($server->{node}, <<'SQL');
SET snowflake.max_wait = '60s';
DO $$
DECLARE
	begun timestamptz := clock_timestamp();
BEGIN
	PERFORM snowflake_backfill('2021-02-23');
EXCEPTION WHEN lock_not_available THEN
	RAISE WARNING '% after % s', sqlerrm, round(extract(epoch FROM clock_timestamp() - begun));
END $$;
SQL
	my $asked = time();
	ok(poll(sub { try_sql($server->{node}, q(SELECT node_waits > 0 FROM pg_stat_snowflake)) eq 't' }), 'in all: a backfill waits for the registration');
	wait_for(sub { time() > $asked + 25 });
	set_proxy($server->{proxy}, 'pass');
	my (undef, $said) = finish_sql($waiter);
	my ($why, $after) = $said =~ /WARNING: .*?: (cannot .*) after (\d+) s/;
	is($why, 'cannot backfill a snowflake ID: its sequence number could not be made durable', 'in all: then for numbers');
	cmp_ok($after, '>=', 60, 'in all: for max_wait');
	cmp_ok($after, '<', 80, 'in all: and not once more for it');
	$blocker->quit;
	$server->{node}->stop;
	return;
}

# SNOWFLAKE_REGISTERED_TESTS='away,copies' runs some only.
my %tests = (
	'in_all' => \&test_in_all,
	'twice' => \&test_twice,
	'away' => \&test_away,
	'copies' => \&test_copies);
in_parallel(
	map { $_ => $tests{$_} // die "there is no test $_\n" }
	  split /,/, $ENV{SNOWFLAKE_REGISTERED_TESTS} // join ',', sort keys %tests);
done_testing();
