# snowflake_can_draw(), for health checks: in each state of the server, what it says
# is what happens to the next draw.  It draws no ID itself, and keeps an idle server
# idle.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use FaultTest;
use SnowflakeTest;

my $node = snowflake_node('can', "autovacuum = off\nsnowflake.max_wait = '2s'\ninclude_if_exists 'test.conf'\n", clock => 0, allows_streaming => 1);

# The server says whether it can draw, perhaps a moment later, why not, and does.
sub can_draw
{
	my ($server, $can, $reason, $name) = @_;

	my ($said, $why);
	wait_for(sub {
		($said, $why) = split /\|/, $server->safe_psql('postgres', 'SELECT * FROM snowflake_can_draw()'), 2;
		return $said eq $can && $why =~ $reason;
	});
	my ($status, $id, $error) = $server->psql('postgres', 'SELECT snowflake_nextval()');

	is($said, $can, "$name: what it says");
	like($why, $reason, "$name: and why");
	is($status == 0 ? 't' : 'f', $can, "$name: a draw") or diag $error;
	return;
}

can_draw($node, 't', qr/^$/, 'before the first ID');
can_draw($node, 't', qr/^$/, 'after it');

# Nothing is drawn, reserved or written for it, also when nothing is reserved any
# more.
my $runs_out = 'SELECT reserved_until < clock_ts FROM pg_stat_snowflake';
$node->poll_query_until('postgres', $runs_out) or die 'what is reserved does not run out';
my $state = 'SELECT issued, reserved_until FROM pg_stat_snowflake';
my $before = $node->safe_psql('postgres', $state);
my $calls = $node->safe_psql('postgres', 'EXPLAIN (ANALYZE, WAL, TIMING off) SELECT count(can_draw) FROM generate_series(1, 1000), snowflake_can_draw()');
like($calls, qr/rows=1000/, '1000 calls');
unlike($calls, qr/WAL:/, 'they write no WAL');
is($node->safe_psql('postgres', $state), $before, 'and draw and reserve nothing');
can_draw($node, 't', qr/^$/, 'on an idle server');
is($node->safe_psql('postgres', 'CREATE ROLE haproxy; SET ROLE haproxy; SELECT can_draw FROM snowflake_can_draw()'), 't', 'any role may ask');
is($node->safe_psql('postgres', 'BEGIN READ ONLY; SELECT can_draw FROM snowflake_can_draw()'), "t", 'in a read-only transaction');

# The clock
set_clock($node, -3600);
can_draw($node, 'f', qr/ahead of the clock; "snowflake\.max_drift" allows 1000 ms\. Set the server's clock/, 'the clock is set back');
set_clock($node, 0);
can_draw($node, 't', qr/^$/, 'the clock is right again');

# The mark is held by another session, as an open transaction of an administrator may.
my $holder = session($node);
$holder->query_safe('BEGIN; LOCK TABLE snowflake_home.recorded; SELECT setval($$snowflake_home.mark$$, last_value) FROM snowflake_home.mark; ALTER SEQUENCE snowflake_home.mark CACHE 2');
$node->poll_query_until('postgres', $runs_out) or die 'what is reserved does not run out';
$node->psql('postgres', 'SELECT snowflake_nextval()');
can_draw($node, 'f', qr/lock/, 'the durable mark is locked');
my $drawing = start_sql($node, 'SELECT snowflake_nextval();' x 2);
is($node->safe_psql('postgres', 'SELECT bool_or(said) FROM (SELECT pg_sleep(0.02), (snowflake_can_draw()).can_draw AS said FROM generate_series(1, 150) OFFSET 0) s'),
	'f', 'it says so all the time, also while the next attempt is made');
finish_sql($drawing);
usleep(3_000_000);    # until nothing that a session asked for is left
$holder->query_safe('ROLLBACK');
$holder->quit;
can_draw($node, 't', qr/^$/, 'the lock is gone');

# The process that writes it is stopped.
my ($writer) = $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'));
stop_asleep($node, $writer);
$node->poll_query_until('postgres', $runs_out) or die 'what is reserved does not run out';
$node->psql('postgres', 'SELECT snowflake_nextval()');
can_draw($node, 'f', qr/has not reacted for \d+ s/, 'the process that writes the mark is stopped');
kill 'CONT', $writer;
can_draw($node, 't', qr/^$/, 'it goes on');

# The server is started, and the mark cannot be read yet: a prepared transaction
# holds it.
restart_with_conf($node, "max_prepared_transactions = 1\n");
$node->safe_psql('postgres', 'BEGIN; LOCK TABLE snowflake_home.recorded; PREPARE TRANSACTION $$holder$$');
$node->restart;
is($node->safe_psql('postgres', 'SELECT bool_or(said) FROM (SELECT pg_sleep(0.02), (snowflake_can_draw()).can_draw AS said FROM generate_series(1, 150) OFFSET 0) s'),
	'f', 'it says that it cannot draw from the start');
can_draw($node, 'f', qr/lock/, 'the mark cannot be read');
usleep(3_000_000);
$node->safe_psql('postgres', 'ROLLBACK PREPARED $$holder$$');
can_draw($node, 't', qr/^$/, 'it can');
restart_with_conf($node, '');

# A standby, and the server that it becomes
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
can_draw($standby, 'f', qr/^This is a standby, which draws no IDs\.$/, 'a standby');
$standby->stop;

# Settings
restart_with_conf($node, "snowflake.layout = 'time:41 node:5 worker:2 sequence:15'\n");
can_draw($node, 'f', qr/layout/, 'another layout than is recorded');
restart_with_conf($node, "snowflake.node_id = -1\n");
can_draw($node, 'f', qr/^"snowflake\.node_id" is not set\. Set "snowflake\.node_id"/, 'no number');
restart_with_conf($node, "snowflake.node_id = -1\nsnowflake.registry = 'host=127.0.0.1 port=1 dbname=registry'\n");
can_draw($node, 'f', qr/registry/, 'a registry that cannot be reached');
restart_with_conf($node, "shared_preload_libraries = ''\n");
can_draw($node, 'f', qr/^snowflake is not loaded via "shared_preload_libraries"/, 'not preloaded');
restart_with_conf($node, '');
can_draw($node, 't', qr/^$/, 'all is well again');

# Before and after the layout's time
$node->stop;
set_clock($node, -10 * 365 * 86400);
start_node($node);
can_draw($node, 'f', qr/^The clock shows .*, which is before "snowflake\.epoch"/, 'before the epoch');
$node->stop;
set_clock($node, 75 * 365 * 86400);
start_node($node);
can_draw($node, 'f', qr/^The lifetime has ended\./, 'after the lifetime');
$node->stop('immediate');

done_testing();
