# What docs/patroni.md says beside failovers: the settings given to a cluster that
# runs; what is done before a promotion, and a load balancer that asks whether IDs can
# be drawn; and a registry that Patroni runs, which goes on after a promotion that has
# lost nothing, and stays closed after one that may have.
#
# SNOWFLAKE_PATRONI_ROUNDS is how often the registry fails over, 1 if not given.

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use Page;
use PatroniTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_PATRONI_ROUNDS} // 1;
my $page = slurp_file('docs/patroni.md');

#
# A cluster that draws IDs
#

my $app = new_cluster('app', bare => 1, hook => '', clocks => 1);
my $leader = leader($app);

# What a query says on all members
sub everywhere
{
	my ($wanted, $sql, $name) = @_;
	my $said = '';

	poll(sub { $said = join ' ', map { sql($app, $_, $sql) } members($app); $said eq join ' ', ($wanted) x 3 })
	  or diag "$name: $said";
	ok($said eq join(' ', ($wanted) x 3), $name);
	return;
}

sub edit { return patronictl($app, 'edit-config', 'app', '--force', map { ('-p', $_) } @_); }

sub restart
{
	patronictl($app, 'restart', 'app', $_, '--force') foreach (grep { $_ ne $leader } members($app)), $leader;
	settle($app);
	# Patroni makes another one the leader where the start of this one takes a while
	$leader = promoted($app);
	return;
}

my $pending = q(SELECT count(*) FROM pg_settings WHERE name = '%s' AND pending_restart);
edit('shared_preload_libraries=snowflake', 'snowflake.node_id=1');
everywhere(1, sprintf($pending, 'shared_preload_libraries'), 'edit-config: a restart is pending');
restart();
sql($app, $leader, 'CREATE EXTENSION snowflake');
is(sql($app, $leader, q(SET snowflake.max_wait = '1min'; SELECT node FROM snowflake_parse(snowflake_nextval()))), 1, 'IDs with the number');

# pg_settings and pg_file_settings do not tell a wrong value from one that waits for a
# restart; the check does.
my $settings = q(SELECT status FROM snowflake_check() WHERE name = 'settings');
my $in_file = q(SELECT setting || ': ' || error FROM pg_file_settings WHERE name = 'snowflake.node_id');
edit('snowflake.node_id=32');
everywhere('32: setting could not be applied', $in_file, 'a wrong number');
everywhere('error', $settings, 'a wrong number: the check says so on each member');
everywhere(0, sprintf($pending, 'snowflake.node_id'), 'a wrong number: no restart is pending');
edit('snowflake.node_id=2');
everywhere('2: setting could not be applied', $in_file, 'a right number');
everywhere('ok', $settings, 'a right number: the check says so');
everywhere(1, sprintf($pending, 'snowflake.node_id'), 'a right number: a restart is pending');
edit('snowflake.node_id=1');

# A member whose clock is an hour back does not want to be the primary, once.
my ($behind) = grep { $_ ne $leader } members($app);
# (between the lines of the hook may be some of Patroni and of the server)
my $refused = qr/after a promotion this server could draw no ID: mark: .* no ID for \d+ ms.*\n(?:(?!snowflake:).*\n)*snowflake: this promotion is refused/;
set_member_clock($app, $behind, -3600);
sub switch_over
{
	my @to = @_;

	# what is not replicated would be missing
	$leader = leader($app);
	poll(sub { sql($app, $leader, 'SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()') == 2 })
	  or die 'the standbys do not catch up';

	# which fails where the candidate refuses; then the leader may be the same
	eval { switch_to($app, 'switchover', $leader, leader => $leader, @to); 1 } or note $@;
	return $leader = promoted($app);
}
# How often somebody has not answered the hook on a member in its seconds, or that member
# had not replayed in them
sub in_vain
{
	return scalar(() = said_by(@_) =~ /timed out after|: timed out|timeout expired|had received more/g);
}

# Once more where Patroni did not come to ask it; or where somebody did not answer the
# hook this time, with which it refuses nothing.
poll(
	sub {
		my $before = in_vain($app, $behind);

		return 1 if switch_over(candidate => $behind) ne $behind && said_by($app, $behind) =~ $refused;
		return 0 if $leader ne $behind;
		return 1 if said_by($app, $behind) =~ $refused || in_vain($app, $behind) == $before;
		set_member_clock($app, $behind, 0);
		settle($app);
		poll(sub { switch_over() ne $behind }) or die "$behind remains the leader";
		settle($app);
		set_member_clock($app, $behind, -3600);
		return 0;
	});
isnt($leader, $behind, 'pre_promote: it is not promoted');
like(said_by($app, $behind), $refused, 'and its log says why');
settle($app);
# once more where Patroni has not done it in time, but not if it was refused
poll(sub { switch_over(candidate => $behind) eq $behind || (() = said_by($app, $behind) =~ /this promotion is refused/g) > 1 });
is($leader, $behind, 'asked for again, it is promoted');
settle($app);

# A load balancer, as in the page: of the leader whose clock is back it makes no use.
my ($config) = $page =~ /^```haproxy\n(.*?)^```/ms or die 'the page has no configuration of haproxy';
my $balancer = PostgreSQL::Test::Cluster::get_free_port();
my $dir = PostgreSQL::Test::Utils::tempdir('haproxy');
$config =~ s/\b10\.0\.0\./127.0.0./g;
$config =~ s/\b5432\b/$app->{port}/g;
$config =~ s/\b8008\b/$app->{rest}/g;
$config =~ s/bind \K.*/127.0.0.1:$balancer/;
append_to_file("$dir/haproxy.cfg", "defaults\n    timeout connect 2s\n    timeout client 1m\n    timeout server 1m\n$config");
sql($app, $leader, 'CREATE ROLE haproxy LOGIN');
sql($app, $leader, 'CREATE DATABASE app');
is(client()->psql('app', 'CREATE EXTENSION snowflake', connstr => connstr($app, $leader) =~ s/dbname=\K\w+/app/r), 0, 'a database for the IDs');
start_unpacked("$dir/haproxy", 'usr/sbin/haproxy', '-f', "$dir/haproxy.cfg");

sub balanced
{
	my ($sql) = @_;

	# a psql that ends before it reads its input may end this
	my @said = eval { client()->psql('app', $sql, connstr => "host=127.0.0.1 port=$balancer dbname=app user=postgres connect_timeout=2") };
	return @said ? @said : (2, '', $@);
}
ok(poll(sub { (balanced('SELECT 1'))[2] =~ /server closed the connection/ }), 'haproxy lets nobody to a primary whose clock is back');
my $status;
poll(sub { ($status = asks($app, $leader, 'primary')) != 599 });    # which is no answer
is($status, 200, 'which is the leader for Patroni');
set_member_clock($app, $behind, 0);
ok(poll(sub { (balanced('SELECT snowflake_nextval()'))[0] == 0 }), 'and does when the clock is right');
settle($app);
switch_over();
ok(poll(sub { (balanced('SELECT snowflake_nextval()'))[0] == 0 }), 'and to the next leader');
stop_cluster($app);

#
# A registry that Patroni runs, in strict synchronous mode
#

my $registry = new_cluster('reg', bare => 1, hook => '--registry AT --others OTHERS', dcs => { synchronous_mode => JSON::PP::true, synchronous_mode_strict => JSON::PP::true });
my $conninfo = join ' ', 'host=' . join(',', map { $registry->{members}{$_}{host} } members($registry)),
  "port=$registry->{port} dbname=postgres user=snowflake_server target_session_attrs=read-write";
my $ledger = new_ledger();
my (@servers, @draws);

# A server that draws and has a number.  No lease ends by itself.
sub new_server
{
	my $node = leasing_node('server' . (@servers + 1), $conninfo, "snowflake.lease_ttl = '3600s'\n");

	push @servers, $node;
	push @draws, start_draw($node, sessions => 2, delay => 5);
	return $node;
}

sub on_registry { return sql($registry, leader($registry), $_[0]); }
my $state = 'SELECT state FROM snowflake_registry';

sub its_log_says
{
	my ($member, $wanted, $name) = @_;

	ok(poll(sub { said_by($registry, $member) =~ $wanted }), $name) or diag said_by($registry, $member);
	return;
}

# The hook's words on the registry after each promotion
sub hook_says
{
	my @said = said_by($registry, $_[0]) =~ /snowflake: (the registry .*)/g;

	return @said;
}

on_registry('CREATE ROLE snowflake_server LOGIN');
on_registry(MAKE_REGISTRY);
my $first = new_server();
my $number = wait_number($first);
# A try whose answer came too late has made the tag: then it is not made again.
poll(
	sub {
		try_sql($first, q(SELECT snowflake_segment_create('customer')));
		return defined try_sql($first, q(SELECT snowflake_segment_nextval('customer')));
	}) or die 'there are no numbers';

foreach my $round (1 .. $rounds)
{
	my $new;

	# Once more where the hook was in vain: then it leaves the registry closed.
	poll(
		sub {
			my $old = leader($registry);
			my %said = map { $_ => scalar hook_says($_) } members($registry);
			my %before = map { $_ => in_vain($registry, $_) } members($registry);

			kill_leader($registry, $old);
			$new = promoted($registry, $old);
			poll(sub { hook_says($new) > $said{$new} });
			return 1 if ((hook_says($new))[-1] // q()) !~ /opens by itself/ || in_vain($registry, $new) == $before{$new};
			settle($registry);
			on_registry('SELECT snowflake_open_registry()');
			return 0;
		});
	its_log_says($new, qr/snowflake: the registry is open: the promotion has lost nothing/, 'a synchronous failover');
	is(on_registry($state), 'open', 'the registry is open');
	wait_number(new_server());
	wait_drawn($_, 100) foreach @draws;
	settle($registry);
}
is(number_of($first), $number, 'the first server has its number all the time');

# Where all others have answered, a standby notes what it may open; where the hook
# was not told of any, it does not.  Meanwhile nobody renews a lease, as the primary is
# still there.
my @services = map { $_->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake services')) } @servers;
kill 'STOP', @services;
my ($standby) = grep { $_ ne leader($registry) } members($registry);
my ($hook, $data) = @{ $registry->{members}{$standby} }{qw(hook data)};
my $api = "--api http://$registry->{members}{$standby}{host}:$registry->{rest}";
foreach ([ $hook, qr/"open_on"/ ], [ $hook =~ s/--others \S+//r, qr/--others names no member/ ])
{
	my ($call, $notes) = @{$_};
	my $said;

	# once more if somebody has not answered within the hook's 2 seconds, or this member has not replayed
	poll(
		sub {
			$said = `$call $api pre_promote 2>&1`;
			$status = $?;
			return $said !~ /timed out|timeout expired/ && slurp_file("$data/pg_stat_tmp/patroni_hook.json") !~ /had received more/;
		});
	is($status, 0, 'pre_promote lets it be promoted') or diag $said;
	like(slurp_file("$data/pg_stat_tmp/patroni_hook.json"), $notes, 'and has noted what to open, or why not') or diag $said;
	unlink "$data/pg_stat_tmp/patroni_hook.json";
}
kill 'CONT', @services;

# A member that has lost a lease is promoted by hand, as all others are gone.
my $roles;
poll(sub { $roles = roles($registry); return keys %$roles == 3 }) or die 'a member is missing';
my ($old, $sync, $async) = map { $roles->{$_}[0] } qw(leader sync_standby replica);
my $receiver = sql($registry, $async, 'SELECT pid FROM pg_stat_wal_receiver');
kill 'STOP', $receiver;
my $lost = new_server();
$number = wait_number($lost);
kill_server($registry, $_, 1) foreach $sync, $old;
kill 'CONT', $receiver;
# once more where Patroni has not answered itself in time
poll(sub { eval { switch_to($registry, 'failover', $async, candidate => $async); 1 } || asks($registry, $async, 'primary') == 200 });
is(promoted($registry, $old), $async, 'a failover by hand');
its_log_says($async, qr/snowflake: the registry opens by itself: \S+, \S+ did not answer as streaming standbys/, 'that may have lost something');

# all commits wait for a standby
start_patroni($registry, $_) foreach $sync, $old;
settle($registry);
ok(poll(sub { on_registry($state) eq 'closed' }), 'the registry is closed');

my $waits = new_server();
$waits->poll_query_until('postgres', q(SELECT reason LIKE '%It was promoted or restored, and may have lost%' FROM snowflake_can_draw()))
  or diag $waits->safe_psql('postgres', 'SELECT * FROM snowflake_can_draw()');
is(number_of($waits), '', 'a new server has no number');
ok(poll(sub { on_registry("SELECT count(*) FROM snowflake_nodes WHERE node = $number AND state = 'live'") == 1 }), 'the lease that was lost is reported');
is(number_of($lost), $number, 'its server keeps its number');
on_registry('SELECT snowflake_open_registry()');
isnt(wait_number($waits), $number, 'an operator opens it, and the new server has another one');
wait_drawn($draws[-1], 100);

stop_draw($_), $ledger->add($_) foreach @draws;
is($ledger->duplicates, 0, 'no ID twice');
$ledger->report($rounds + 1);
$_->stop('immediate') foreach @servers;
stop_cluster($registry);

done_testing();
