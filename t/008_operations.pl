
# The steps of docs/operations.md that move the mark to another database, and that
# take a server out of service: each is done here as the page has it, and nothing
# is drawn in between that could come twice.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

#
# The mark moves to another database, while sessions try to draw all the time, and
# the clock is set back to where all that was drawn could come again.
#
my $node = snowflake_node('moved', <<'CONF', clock => 0);
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
snowflake.max_wait = '300ms'
autovacuum = off
include_if_exists 'test.conf'
CONF
$node->safe_psql('postgres', 'CREATE DATABASE app; CREATE DATABASE marks');
$node->safe_psql('app', 'CREATE EXTENSION snowflake');

# which is why a database of its own is best
my ($status, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nCREATE DATABASE x TEMPLATE marks");
is($status, 0, 'a database that is not the home database is a template for others');
my $copy = start_sql($node, 'CREATE DATABASE y TEMPLATE postgres', 'marks');
like((finish_sql($copy))[1], qr/ERROR:  55006: source database "postgres" is being accessed by other users/,
	'the home database is none, as the background workers are connected to it');

my $ledger = new_ledger();
my $began = time();
my $draw = start_draw($node, sessions => 4, dbname => 'app');
wait_drawn($draw, 5000);
stop_draw($draw);
$ledger->add($draw);

sub error_of
{
	my ($sql, $dbname) = @_;
	my (undef, undef, $stderr) = $node->psql($dbname // 'app', "\\set VERBOSITY verbose\n$sql");

	return psql_error($stderr);
}

# What sessions draw meanwhile: nothing, for the reason given.
sub draws_nothing
{
	my ($reason, $name) = @_;
	my $draw = start_draw($node, sessions => 4, dbname => 'app', max_wait => '1min');

	wait_statements($node, $draw);
	is(sqlstates($draw), '55000', "$name: all draws fail");
	is(stop_draw($draw)->{ids}, 0, "$name: nothing is drawn");
	$ledger->add($draw);
	my $said;
	wait_for(sub { ($said = error_of('SELECT snowflake_nextval()')->{detail}) =~ $reason });
	like($said, $reason, "$name: and it is said why");
	return;
}

# 1. the restart; before the new one is there nothing can look for the mark
$node->stop;
set_clock($node, $began - 60 - time());
append_to_file($node->data_dir . '/test.conf', "snowflake.database = 'missing'\n");
start_node($node);
my (undef, undef, $unread) = $node->psql('marks', 'DROP DATABASE postgres WITH (FORCE)');
like($unread, qr/cannot drop database "postgres": it holds the durable mark/, 'a database that has a mark cannot be dropped before it is read');
$node->stop;
append_to_file($node->data_dir . '/test.conf', "snowflake.database = 'marks'\n");
start_node($node);
draws_nothing(qr/the durable mark of this server is in database "postgres", and "snowflake\.database" is "marks"/, 'restarted');

my (undef, undef, $dropped) = $node->psql('marks', 'DROP DATABASE postgres');
like($dropped, qr/cannot drop database "postgres": it holds the durable mark/, 'which cannot be dropped');

# 2. and 3. the mark, as it stands
my $mark = $node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark');
$node->safe_psql('marks', "CREATE EXTENSION snowflake_home; SELECT setval('snowflake_home.mark', $mark)");
draws_nothing(qr/the durable mark of this server is in database "postgres"/, 'the mark is in both');

# 4. what shows where it was
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET snowflake.recorded');
draws_nothing(qr/there is a durable mark in database "marks", but layout and epoch are not recorded with it/, 'only the new one counts');

# 5. IDs flow, once the clock is right; the old place is empty
$node->safe_psql('app', "SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
my $behind;
wait_for(sub { ($behind = error_of('SELECT snowflake_nextval()')->{message}) !~ /could not be raised/ });
is($behind, 'cannot generate a snowflake ID: the clock is behind the last ID', 'accepted: not below the mark');
$node->safe_psql('postgres', 'DROP EXTENSION snowflake_home');
$node->append_conf('postgresql.conf', "snowflake.max_drift = '2min'");
reload_node($node);
set_clock($node, $began - time());
$draw = start_draw($node, sessions => 4, dbname => 'app');
wait_drawn($draw, 5000);
stop_draw($draw);
$ledger->add($draw);
is($ledger->duplicates, 0, 'moved: no ID came twice');
$node->poll_query_until('app', q(SELECT count(*) = 1 FROM snowflake_check() WHERE name = 'layout' AND status = 'ok' AND detail ~ 'as recorded in database "marks"'))
  or fail('the mark is recorded in the new place');
$node->stop;

#
# A server is taken out of service, and a new one gets its number.  The clock of the
# new one is behind, and its IDs would be those of the old one.
#
sub new_server
{
	my ($name, $clock) = @_;

	return snowflake_node($name, <<'CONF', clock => $clock);
snowflake.node_id = 7
snowflake.layout = 'time:41 node:5 worker:2 sequence:6'
snowflake.sequence_start = zero
autovacuum = off
CONF
}

my $old = new_server('old', 0);
$ledger = new_ledger();
$old->safe_psql('postgres', "SELECT snowflake_segment_create('invoice'), snowflake_segment_nextval('invoice')");
$ledger->add_ids('old, backfilled', sort split /\n/, $old->safe_psql('postgres', "SELECT snowflake_backfill('2021-02-23 12:00+00') FROM generate_series(1, 3)"));
$began = time();
$draw = start_draw($old, sessions => 4);
wait_drawn($draw, 5000);
stop_draw($draw);
$ledger->add($draw);

# 1. what a new server with this number must know
my $until = $old->safe_psql('postgres', 'SHOW snowflake.issued_until');
my $used = $old->safe_psql('postgres', 'SELECT max(used) FROM snowflake_home.backfill');
my $max_id = $old->safe_psql('postgres', "SELECT max_id FROM snowflake_registry.snowflake_segments WHERE tag = 'invoice'");
is($old->safe_psql('postgres', "SELECT count(*) FROM pg_stat_snowflake_slots WHERE last_ts >= '$until'"), '0', 'no ID has a time from issued_until on');

# 2. it stops for good
$old->stop;

# 3. the new one is told
my $new = new_server('new', -60);
$new->safe_psql('postgres', "SET client_min_messages = error; SELECT snowflake_advance(snowflake_compose('$until', 7, 0, 0))");
# the services set something of this database now, which is an error for another who does
await_pointer($new);
$new->safe_psql('postgres', <<"SQL");
ALTER DATABASE postgres SET snowflake.backfilled = '$used';
SELECT snowflake_segment_create('invoice', start => $max_id + 1);
SQL
cmp_ok($new->safe_psql('postgres', "SELECT snowflake_segment_nextval('invoice')"), '>', $max_id, 'segments go on above those of the old server');
$ledger->add_ids('new, backfilled', sort split /\n/, $new->safe_psql('postgres', "SELECT snowflake_backfill('2021-02-23 12:00+00') FROM generate_series(1, 3)"));
$new->append_conf('postgresql.conf', "snowflake.max_drift = '2min'");
reload_node($new);
set_clock($new, $began - time());
$draw = start_draw($new, sessions => 4);
wait_drawn($draw, 5000);
stop_draw($draw);
$ledger->add($draw);
is($ledger->duplicates, 0, 'the number of a server out of service: no ID came twice');
$new->stop;

#
# The same with a lease: the registry knows the mark.
#
my $registry = new_registry('registry');
my $patient = "snowflake.lease_ttl = '10min'\nsnowflake.max_wait = '1min'\n";
my $leasing = leasing_node('leasing', registry_conninfo($registry), $patient);
wait_number($leasing);
my $number = number_of($leasing);
$ledger = new_ledger();
$ledger->add_ids('leased', split /\n/, $leasing->safe_psql('postgres', 'SELECT snowflake_nextval(1000)'));
$until = $leasing->safe_psql('postgres', 'SHOW snowflake.issued_until');
$leasing->stop;
is($registry->safe_psql('postgres', "SELECT state FROM snowflake_nodes WHERE node = $number"), 'live', 'a stopped server has its lease still');
is($registry->safe_psql('postgres', "SELECT snowflake_release_node($number, '$until')"), 't', 'the lease is ended');
my $next = leasing_node('next', registry_conninfo($registry), $patient);
wait_number($next);
is(number_of($next), $number, 'the number is another server\'s at once');
$ledger->add_ids('leased anew', split /\n/, $next->safe_psql('postgres', 'SELECT snowflake_nextval(1000)'));
is($ledger->duplicates, 0, 'the number of a lease that was ended: no ID came twice');
$_->stop foreach $next, $registry;

done_testing();
