# The registry of node numbers, asked by many at once, with its clock set, and
# promoted, restored, crashed: no number is given to two.  Here the servers are
# only their requests.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use SnowflakeTest;

my $conf = <<'CONF';
fsync = off
autovacuum = off
max_connections = 120
CONF

# A database that is only a registry: nothing is preloaded.
sub new_registry
{
	my ($name, $clock, %init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%init, force_initdb => 1);
	$node->append_conf('postgresql.conf', $conf);
	set_clock($node, $clock) if defined $clock;
	start_node($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake_registry');
	return $node;
}

# The token that the tests know a server by.
sub token { return sprintf '00000000-0000-0000-0000-%012d', $_[0]; }

# How server number $server asks.  In %opts: number, held, remaining (seconds),
# max_node, ttl, clock (so many seconds from the real time), token (an expression).
sub request
{
	my ($server, %opts) = @_;
	my $ttl = $opts{ttl} // 600;
	my $clock = time() + ($opts{clock} // 0);

	return sprintf 'snowflake_lease_node(protocol => 1, token => %s, number => %s, held => %s, held_token => NULL, remaining => %s,'
	  . q{ instance => '', max_node => %d, lease_ttl => '%d s', mark => %.0f, clock => to_timestamp(%.6f),}
	  . q{ clock_offset => NULL, layout => 'L', host => 'server%d', port => 5432, system_identifier => 1)},
	  $opts{token} // "'" . token($server) . "'", $opts{number} // 'NULL', $opts{held} // 'NULL',
	  defined $opts{remaining} ? "'$opts{remaining} s'" : 'NULL',
	  $opts{max_node} // 1023, $ttl, ($clock + $ttl) * 1e6, $clock, $server;
}

sub ask_sql
{
	my ($columns, @request) = @_;

	return "SELECT $columns FROM " . request(@request);
}

# Its number, or why not.
my $number = 'coalesce(node::text, refusal)';
my $closed = qr/^the registry gives out no node numbers until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$/;

sub ask
{
	my ($node, @request) = @_;

	return $node->safe_psql('postgres', ask_sql($number, @request));
}

# Let a lease run out, also by the clocks of others.
sub expire
{
	my ($node, $number) = @_;

	$node->safe_psql('postgres', <<"SQL");
UPDATE snowflake_node_lease
SET expires_at = expires_at - interval '1 hour', renewed_at = renewed_at - interval '1 hour', mark = mark - 3600000000
WHERE node = $number;
SQL
	return;
}

sub forget_all
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
TRUNCATE snowflake_node_lease;
UPDATE snowflake_registry_place
SET place = snowflake_registry_here(), started_at = pg_postmaster_start_time(), changes = 0,
    closed_until = '-infinity', guarded_until = '-infinity'
SQL
	return;
}

# Somebody waits for a lock.
sub wait_for_waiter
{
	my ($node, $name) = @_;

	ok( $node->poll_query_until('postgres',
			q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock')),
		"$name: waits");
	return;
}

# This one has the real clock: a server that waits for locks may crash under
# libfaketime, in malloc(), as its signal handlers look at the clock as well.
my $registry = new_registry('registry');

#
# More claims at once than there are numbers
#
$registry->safe_psql('postgres', 'CREATE TABLE claims (token uuid, node integer, refusal text, refusal_detail text)');

# A file for pgbench: a claim, with what it is told going to the table.
sub claim_file
{
	my ($token) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/claim.sql';

	append_to_file($file,
		"INSERT INTO claims SELECT t.token, a.node, a.refusal, a.refusal_detail FROM (SELECT $token AS token) AS t, "
		  . request(0, token => 't.token') . " AS a;\n");
	return $file;
}

sub pgbench
{
	my ($file, @options) = @_;

	return IPC::Run::start(
		[ $registry->installed_command('pgbench'), '-n', @options, '-f', $file, $registry->connstr('postgres') ],
		'<', '/dev/null', '>&', "$file.log");
}

my $claims = claim_file('gen_random_uuid()');
my $renewals = PostgreSQL::Test::Utils::tempdir() . '/renewals.sql';
append_to_file($renewals,
	"\\set n random(0, 1023)\nSELECT 1 / (a.node = c.node)::integer FROM claims AS c, "
	  . request(0, token => 'c.token') . " AS a WHERE c.node = :n;\n");

my @loads = map { pgbench($claims, '-M', $_, '-c', 22, '-t', 25) } qw(extended prepared);
ok($_->finish, 'claims at once') foreach @loads;
is($registry->safe_psql('postgres', 'SELECT count(*), count(node), count(DISTINCT node), min(node), max(node) FROM claims'),
	'1100|1024|1024|0|1023', '1,100 claims at once: each of 1,024 numbers is given once');
is( $registry->safe_psql('postgres', <<'SQL'),
SELECT refusal, count(*), count(*) FILTER (WHERE refusal_detail ~ '^The holders are server0:5432 .node 0, .* and 1004 more[.]$')
FROM claims WHERE node IS NULL GROUP BY 1
SQL
	'all 1024 node numbers are taken|76|76', 'the others are told who has them');
is( $registry->safe_psql('postgres', 'SELECT count(*) FROM claims JOIN snowflake_node_lease USING (token, node)'),
	'1024', 'and each has the number that it was told');

# all of them renew at once
ok(pgbench($renewals, '-c', 20, '-t', 100)->finish, 'renewals at once: each keeps its number');

#
# One after the other, and who waits for whom.  That a claim sees what was
# committed while it waited is so with each protocol.
#
forget_all($registry);
my $one = session($registry);
is(ask($registry, 100), '0', 'a first server');
is(ask($registry, 101), '1', 'another');
my $n = 2;
foreach my $protocol (qw(simple extended prepared))
{
	$one->query_safe('BEGIN');
	is($one->query_safe(ask_sql($number, $n)), $n, "$protocol: a claim");
	my $run = pgbench(claim_file("'" . token(10 + $n) . "'::uuid"), '-M', $protocol, '-t', 1);
	wait_for_waiter($registry, "$protocol: another claim");

	# who renews does not wait, neither for claims nor for each other
	my $renewer = session($registry);
	$renewer->query_safe("SET lock_timeout = '1s'");
	$renewer->query_safe('BEGIN');
	is($renewer->query_safe(ask_sql($number, 100, held => 0)), '0', "$protocol: a renewal does not wait");
	is( $registry->safe_psql('postgres', "SET lock_timeout = '1s'; " . ask_sql($number, 101, held => 1)),
		'1', "$protocol: nor does another beside it");
	$renewer->query_safe('COMMIT');
	$renewer->quit;

	$one->query_safe('COMMIT');
	ok($run->finish, "$protocol: then it goes on");
	is( $registry->safe_psql('postgres', "SELECT node, refusal FROM claims WHERE token = '" . token(10 + $n) . "'"),
		($n + 1) . '|', "$protocol: and sees that the number is taken");
	$n += 2;
}

#
# Nobody can make the holder of a number wait, by asking for it in a transaction
# that stays open: not by a lease, not by a registration
#
forget_all($registry);
is(ask($registry, 1), '0', 'a lease');
is(ask($registry, 2, number => 1, max_node => 1), '1', 'a registration');
foreach my $holder ([ 1, held => 0 ], [ 2, number => 1 ])
{
	my ($server, @held) = @{$holder};
	my $node = $server - 1;

	$one->query_safe('BEGIN');
	is($one->query_safe(ask_sql($number, 9, %{$_}, max_node => 1)), $_->{refused}, "held by server $server: $_->{refused}")
	  foreach { number => $node, refused => "node number $node is " . ($node ? 'registered' : 'leased') . ' by another server' },
	  { refused => 'all 2 node numbers are taken' };
	is($registry->safe_psql('postgres', "SET lock_timeout = '1s'; " . ask_sql($number, $server, @held)), $node, 'it does not wait');
	$one->query_safe('COMMIT');
	like($registry->safe_psql('postgres', ask_sql('warning', $server, @held)), qr/^The server server9:5432/, 'but hears of it');
}

# Start a request that waits for what the session $one does, and let that end.
# Returns the answer.
sub answer_after
{
	my ($end, $name, @request) = @_;
	my $psql = start_sql($registry, ask_sql($number, @request));

	wait_for_waiter($registry, $name);
	$one->query_safe($end);
	my ($stdout, $stderr) = finish_sql($psql);
	return $stdout . psql_error($stderr)->{sqlstate};
}

# $one asks, in a transaction that stays open.
sub ask_in_transaction
{
	my (@request) = @_;

	$one->query_safe('BEGIN');
	return $one->query_safe(ask_sql($number, @request));
}

#
# Nothing is given by what is rolled back
#
forget_all($registry);
is(ask_in_transaction(1), '0', 'a claim');
is(answer_after('ROLLBACK', 'a claim behind one that is rolled back', 2), '0', 'gets that number');
ask_in_transaction(1);
my $pid = $one->query_safe('SELECT pg_backend_pid()');
$registry->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 10000)");
is(ask($registry, 3), '1', 'nor by what is terminated');
$one->{run}->finish;
$one = session($registry);

#
# The same token at once: an answer got lost, the request did not
#
is(ask_in_transaction(4), '2', 'a claim');
is(answer_after('COMMIT', 'the same server again', 4), '2', 'waits for it, and is given the same number');
is(ask($registry, 4), '2', 'also later');
is($registry->safe_psql('postgres', "SELECT count(*) FROM snowflake_nodes WHERE host = 'server4'"), '1', 'and no other');

#
# A lease has run out: its server renews it, another one claims the number.
# Whoever commits first has it.
#
foreach my $end (qw(COMMIT ROLLBACK))
{
	my $wins = $end eq 'COMMIT';

	forget_all($registry);
	ask($registry, 1);
	expire($registry, 0);
	is(ask_in_transaction(1), '0', "renewal, $end: the renewal");
	is( answer_after($end, "renewal, $end: a claim", 2),
		$wins ? '1' : '0',
		"renewal, $end: the claim");
	is(ask($registry, 2), $wins ? '1' : '0', "renewal, $end: next time");
	is(ask($registry, 1), $wins ? '0' : '1', "renewal, $end: next time, the other");

	forget_all($registry);
	ask($registry, 1);
	expire($registry, 0);
	is(ask_in_transaction(2), '0', "claim, $end: the claim");
	is(answer_after($end, "claim, $end: a renewal", 1), $wins ? '1' : '0', "claim, $end: the renewal");
	is(ask($registry, 2), $wins ? '0' : '1', "claim, $end: next time");

	forget_all($registry);
	ask($registry, 1);
	$one->query_safe('BEGIN');
	$one->query_safe('SELECT snowflake_release_node(0)');
	is(answer_after($end, "release, $end: a renewal", 1, held => 0), $wins ? '1' : '0', "release, $end: the renewal");
}

#
# Other isolation levels: correct, or a clean failure, and then again
#
foreach my $level ('repeatable read', 'serializable')
{
	forget_all($registry);
	ask($registry, 50);
	expire($registry, 0);
	$registry->safe_psql('postgres', "ALTER DATABASE postgres SET default_transaction_isolation = '$level'");
	is(ask_in_transaction(1), '0', "$level: a claim");
	is(answer_after('COMMIT', "$level: a claim", 2), '40001', "$level: fails");
	is(ask($registry, 2), '1', "$level: but not again");
	ask($registry, $_) foreach 3 .. 20;
	$registry->safe_psql('postgres', 'TRUNCATE claims');
	ok(pgbench($claims, '-c', 8, '-t', 10, '--max-tries', 1000)->finish, "$level: many claims");
	is( $registry->safe_psql('postgres', 'SELECT count(node), count(DISTINCT node), min(node) FROM claims'),
		'80|80|20', "$level: each gets another number");
	$registry->safe_psql('postgres', 'ALTER DATABASE postgres RESET default_transaction_isolation');
}
$registry->safe_psql('postgres', 'ALTER DATABASE postgres SET default_transaction_read_only = on');
my (undef, undef, $stderr) = $registry->psql('postgres', ask_sql($number, 1), extra_params => [ '-v', 'VERBOSITY=verbose' ]);
is(psql_error($stderr)->{sqlstate}, '25006', 'read only: nothing is given');
$registry->safe_psql('postgres', 'SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only');

$one->quit;
$registry->stop;

#
# The clock of the registry is set.  Leases seem to have run out: that the
# claimant's clock is not past the mark keeps the numbers from being given.
#
$registry = new_registry('clock', 0, allows_streaming => 1);
my $asked_at = time();
ask($registry, $_, max_node => 1) foreach 1, 2;
set_clock($registry, 3600);
is($registry->safe_psql('postgres', "SELECT DISTINCT state FROM snowflake_nodes"), 'expired', 'clock set forward: all leases have run out');
is(ask($registry, 3, max_node => 1), 'all 2 node numbers are taken', 'no number is given');
is(ask($registry, 1, max_node => 1), '0', 'who has one goes on');
is(ask($registry, 3, max_node => 1, clock => 3600), '1', 'two clocks that agree are believed');
is($registry->safe_psql('postgres', ask_sql('floor >= ' . int(($asked_at + 600) * 1e6), 3, held => 1)), 't', 'it begins where the other ends');
# back again: those that it gave meanwhile last longer
set_clock($registry, 0);
is($registry->safe_psql('postgres', "SELECT count(*) FROM snowflake_nodes WHERE expires_at > clock_timestamp() + interval '1 hour'"), '2', 'clock set back: leases last longer');
is(ask($registry, 4, max_node => 1, clock => 1800), 'the server is too far ahead of the registry\'s clock to get a node number', 'no number is given');
is(ask($registry, 1, max_node => 1, held => 0), '0', 'who has one goes on');

#
# Servers that come and go, while time passes and the registry's clock and theirs
# are set at random: who gets a number issues only where no other has with it.
#
sub random_schedule
{
	my ($steps) = @_;
	my $session = session($registry);
	my (@servers, %granted, %holder);
	my %count = map { $_ => 0 } qw(claims reused renewals refused);
	my $time = 0;
	my $wrong = sub { return int(rand 60) - 30 };

	forget_all($registry);
	foreach my $step (1 .. $steps)
	{
		my $what = rand;

		$time += rand 2;
		set_clock($registry, $time + $wrong->()) if $what < 0.2;
		push @servers, { id => 1000 + $step, clock => $wrong->() } if $what > 0.95 || !@servers;
		splice @servers, rand @servers, 1 if @servers > 10;

		my $s = $servers[ rand @servers ];
		$s->{clock} = $wrong->() if rand() < 0.1;
		my ($node, $floor, $granted) = split /\|/, $session->query_safe(
			ask_sql('node, floor, granted', $s->{id},
				max_node => 5, ttl => 10 + int(rand 20), clock => $time + $s->{clock}, held => $s->{held}));

		$s->{held} = undef;
		if (!$granted)
		{
			$count{refused}++;
			next;
		}
		$s->{held} = $node if rand() < 0.5;
		if (($holder{$node} // 0) == $s->{id})
		{
			$count{renewals}++;
		}
		else
		{
			$count{claims}++;
			$count{reused}++ if exists $holder{$node};
			return "step $step: number $node is given from $floor on, which another has until $granted{$node}"
			  if $floor < ($granted{$node} // 0);
			$holder{$node} = $s->{id};
		}
		return "step $step: the mark of number $node falls"
		  if $granted < ($granted{$node} // 0);
		$granted{$node} = $granted;
	}
	$session->quit;
	set_clock($registry, 0);
	note join ', ', map { "$count{$_} $_" } sort keys %count;
	return (grep { $_ < 20 } values %count) ? 'too little happened' : '';
}
is(random_schedule(1500), '', 'clocks set at random: nobody gets what another may still issue');

#
# An answer counts once it is committed: so that is durable, also where commits
# are not
#
forget_all($registry);
$registry->append_conf('postgresql.conf', "synchronous_commit = off\nwal_writer_delay = 10s");
reload_node($registry);
$registry->poll_query_until('postgres', 'SHOW synchronous_commit', 'off');
$registry->poll_query_until('postgres', 'SHOW wal_writer_delay', '10s');
$registry->safe_psql('postgres', 'CREATE TABLE lost AS SELECT 1; CHECKPOINT');
is(ask($registry, 1), '0', 'a claim');
kill9_postmaster($registry);
start_node($registry);
is($registry->safe_psql('postgres', 'SELECT host FROM snowflake_nodes'), 'server1', 'is still there after a crash');
$registry->safe_psql('postgres', 'SELECT snowflake_release_node(0)');
kill9_postmaster($registry);
start_node($registry);
is($registry->safe_psql('postgres', 'SELECT state FROM snowflake_nodes'), 'released', 'and so is a release');
like(ask($registry, 2), $closed, 'started again, it gives nothing until it is known what was lost');
is($registry->safe_psql('postgres', 'SELECT snowflake_open_registry()'), 't', 'nothing was, as the operator knows');
is(ask($registry, 2), '1', 'and it gives numbers again');
$registry->append_conf('postgresql.conf', 'synchronous_commit = on');
reload_node($registry);
$registry->poll_query_until('postgres', 'SHOW synchronous_commit', 'on');

#
# The registry is lost, and its asynchronous standby promoted, which has not
# got the last claims: of a number that nobody had before, and of one whose
# lease had run out
#
forget_all($registry);
$registry->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($registry, 'standby', has_streaming => 1);
set_clock($standby, 0);
start_node($standby);
is(ask($registry, $_), $_, "server $_ claims") foreach 0 .. 2;
expire($registry, 1);
$registry->wait_for_catchup($standby, 'replay');
(undef, undef, $stderr) = $standby->psql('postgres', ask_sql($number, 3), extra_params => [ '-v', 'VERBOSITY=verbose' ]);
is(psql_error($stderr)->{sqlstate}, '55000', 'a standby gives nothing');
$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
reload_node($standby);
$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver');
is(ask($registry, 11), '1', 'a claim that gets lost, of a number that another had');
is(ask($registry, 12), '3', 'a claim that gets lost, of a new number');
my $timeline = $registry->safe_psql('postgres', ask_sql('timeline', 0, held => 0));
kill9_postmaster($registry);
$standby->promote;

my $first_at = time();
like(ask($standby, 20), $closed, 'promoted: others are told until when');
cmp_ok($standby->safe_psql('postgres', ask_sql('timeline', 20)), 'gt', $timeline, 'and the timeline is a later one');
is(ask($standby, 0, held => 0, remaining => 1), '0', 'who has a number goes on');
like(ask($standby, 1, held => 1, remaining => 0), $closed, 'whose lease had run out does not: another may have got the number');
is(ask($standby, 11, held => 1, remaining => 1), '1', 'as one did, and goes on');
is(ask($standby, 12, held => 3, remaining => 1), '3', 'and so does the one with the new number');
like(ask($standby, 1, held => 1, remaining => 1), $closed, 'who has a number is not pushed aside');
is($standby->safe_psql('postgres', 'SELECT string_agg(node || host, $$ $$ ORDER BY node) FROM snowflake_nodes'),
	'0server0 1server11 2server2 3server12', 'all are known again');

# where it is known that nothing was lost
my $open = 'SELECT snowflake_open_registry()';
$standby->safe_psql('postgres', 'BEGIN; CREATE TABLE saved AS TABLE snowflake_registry_place; CREATE TABLE leases AS TABLE snowflake_node_lease; COMMIT');
is($standby->safe_psql('postgres', $open), 't', 'opened by hand');
is(ask($standby, 20), '4', 'numbers are given at once');
is($standby->safe_psql('postgres', $open), 'f', 'it was open');
$standby->safe_psql('postgres', "UPDATE snowflake_registry_place SET place = 'another'");
is($standby->safe_psql('postgres', $open), 't', 'opened before anybody has asked');
is(ask($standby, 21), '5', 'it does not close');
$standby->safe_psql('postgres', 'BEGIN; TRUNCATE snowflake_registry_place, snowflake_node_lease; INSERT INTO snowflake_registry_place TABLE saved; INSERT INTO snowflake_node_lease TABLE leases; COMMIT');

# another one that was lost, and is not heard of before the registry opens
set_clock($standby, $first_at + 590 - time());
like(ask($standby, 20), $closed, 'it stays so as long as leases last');
set_clock($standby, 605);
is(ask($standby, 20, clock => 0), '4', 'then numbers are given again');
my $floor = $standby->safe_psql('postgres', ask_sql('floor', 20, held => 4));
cmp_ok($floor, '>=', ($first_at + 610) * 1e6, 'from where no lost lease can have been used');
$standby->stop;

#
# Ahead of a promotion, a stranger has begun what asks first after it: it does so
# at the time of the request, and the registry closes from then on
#
my $primary = new_registry('primary', undef, allows_streaming => 1);
$primary->backup('asked');
my $asked = PostgreSQL::Test::Cluster->new('asked');
$asked->init_from_backup($primary, 'asked', has_streaming => 1);
start_node($asked);
my $stranger = start_sql($asked, 'DO $$ BEGIN WHILE pg_is_in_recovery() LOOP PERFORM pg_sleep(0.01); COMMIT; END LOOP; PERFORM '
	  . ask_sql('node', 1) =~ s/^SELECT//r . '; END $$');
$asked->poll_query_until('postgres', q(SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'DO %'));
my $begins = $asked->safe_psql('postgres', 'SELECT clock_timestamp()');
$asked->promote;
finish_sql($stranger);
is($asked->safe_psql('postgres', "SELECT closed_until >= timestamptz '$begins' + interval '1 hour' FROM snowflake_registry_place"), 't', 'asked in a statement of before the promotion: closed from the promotion on');
like(ask($asked, 2), $closed, 'to others as well');
$_->stop foreach $asked, $primary;

#
# Dump and restore
#
start_node($registry);
forget_all($registry);
$registry->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE ROLE server LOGIN');
$registry->safe_psql('postgres', 'CREATE DATABASE registry OWNER owner; CREATE DATABASE restored OWNER owner');
my @owner = (extra_params => [ '-U', 'owner' ]);
$registry->safe_psql('registry', 'CREATE EXTENSION snowflake_registry; GRANT EXECUTE ON FUNCTION snowflake_lease_node TO server', @owner);
is($registry->safe_psql('registry', ask_sql($number, 1), extra_params => [ '-U', 'server' ]), '0', 'a registry of a role that is no superuser');
$registry->safe_psql('registry', q(UPDATE snowflake_registry_place SET closed_until = now() + interval '1 day'));
my $dump = $registry->basedir . '/registry.dump';
$registry->command_ok([ 'pg_dump', '-U', 'owner', '-Fc', '-f', $dump, '-d', $registry->connstr('registry') ], 'its owner dumps it');
$registry->command_ok([ 'pg_restore', '-U', 'owner', '--exit-on-error', '-d', $registry->connstr('restored'), $dump ], 'and restores it');
$registry->safe_psql('registry', q(UPDATE snowflake_registry_place SET closed_until = '-infinity'));
my $leases = 'SELECT string_agg(l::text, $$ $$) FROM snowflake_node_lease AS l';
is($registry->safe_psql('restored', $leases), $registry->safe_psql('registry', $leases), 'with its leases');
like($registry->safe_psql('restored', ask_sql($number, 2), extra_params => [ '-U', 'server' ]), $closed, 'it is closed at first');
is($registry->safe_psql('restored', ask_sql($number, 1, held => 0, remaining => 1), extra_params => [ '-U', 'server' ]), '0', 'but who has a number goes on');
is($registry->safe_psql('restored', q(SELECT closed_until > now() + interval '23 hours' FROM snowflake_registry_place)), 't', 'not for less time than the one that was dumped was');
is($registry->safe_psql('registry', ask_sql($number, 2)), '1', 'the one that was dumped is not closed');

# into the same database anew
$registry->safe_psql('registry', 'DROP EXTENSION snowflake_registry', @owner);
$registry->command_ok([ 'pg_restore', '-U', 'owner', '--exit-on-error', '-d', $registry->connstr('registry'), $dump ], 'restored in place');
like($registry->safe_psql('registry', ask_sql($number, 3)), $closed, 'it is closed at first, too');

# a copy of the database
$registry->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE restored');
$registry->safe_psql('copy', q(UPDATE snowflake_registry_place SET closed_until = '-infinity'));
like($registry->safe_psql('copy', ask_sql($number, 4)), $closed, 'and so is a copy');

$registry->stop;
done_testing();
