
# The steps of docs/operations.md that move the mark to another database, and that
# take a server out of service: each is done here as the page has it, and nothing
# is drawn in between that could come twice.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $hour = 3600;

#
# The mark moves to another database, while sessions try to draw all the time, and
# the clock is set back so far that all that was drawn could come again.
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
	my $draw = start_draw($node, sessions => 4, dbname => 'app');

	wait_statements($node, $draw);
	is(sqlstates($draw), '55000', "$name: all draws fail");
	is(stop_draw($draw)->{ids}, 0, "$name: nothing is drawn");
	$ledger->add($draw);
	my $said;
	wait_for(sub { ($said = error_of('SELECT snowflake_nextval()')->{detail}) =~ $reason });
	like($said, $reason, "$name: and it is said why");
	return;
}

# 1. the restart
$node->stop;
set_clock($node, -$hour);
append_to_file($node->data_dir . '/test.conf', "snowflake.database = 'marks'\n");
start_node($node);
draws_nothing(qr/the durable mark of this server is in database "postgres", and "snowflake\.database" is "marks"/, 'restarted');

# 2. and 3. the mark, as it stands
my $mark = $node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark');
$node->safe_psql('marks', "CREATE EXTENSION snowflake_home; SELECT setval('snowflake_home.mark', $mark)");
draws_nothing(qr/the durable mark of this server is in database "postgres"/, 'the mark is in both');

# 4. what shows where it was
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET snowflake.recorded');
draws_nothing(qr/there is a durable mark in database "marks", but layout and epoch are not recorded with it/, 'only the new one counts');

# 5. IDs flow, once the clock is right; the old place is empty
$node->safe_psql('app', "SET snowflake.max_wait = '1min'; SELECT snowflake_accept_layout()");
is(error_of('SELECT snowflake_nextval()')->{message}, 'cannot generate a snowflake ID: the clock is behind the last ID', 'accepted: not below the mark');
$node->safe_psql('postgres', 'DROP EXTENSION snowflake_home');
$node->append_conf('postgresql.conf', "snowflake.max_drift = '2h'");
reload_node($node);
$draw = start_draw($node, sessions => 4, dbname => 'app');
wait_drawn($draw, 5000);
stop_draw($draw);
$ledger->add($draw);
is($ledger->duplicates, 0, 'moved: no ID came twice');
$node->poll_query_until('app', q(SELECT count(*) = 1 FROM snowflake_check() WHERE "check" = 'layout' AND status = 'ok' AND detail ~ 'as recorded in database "marks"'))
  or fail('the mark is recorded in the new place');
$node->stop;

done_testing();
