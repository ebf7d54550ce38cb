
# A standby generates nothing, and everything once it is promoted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $primary = snowflake_node('primary', '', allows_streaming => 1);
$primary->safe_psql('postgres',
	'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int); INSERT INTO t (n) SELECT generate_series(1, 100)');
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

my $session = session($standby);
foreach my $call ('snowflake_nextval()', 'snowflake_nextval(1)')
{
	my ($ret, $stdout, $stderr) =
	  $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call;");
	my $error = psql_error($stderr);
	is($error->{sqlstate}, '25006', "$call on a standby");
	like($error->{message}, qr/during recovery/, 'is an error that says so');
	like($error->{hint}, qr/on the primary/, 'with a hint');
}
is(session_error($session, 'SELECT snowflake_nextval()')->{sqlstate}, '25006', 'in a session that stays');

# reading works there
is($standby->safe_psql('postgres', <<'SQL'), '100|t|0', 'a standby reads IDs');
SELECT (SELECT count(*) FROM t WHERE id <@ id_range_for(now() - interval '1 hour', now() + interval '1 hour')),
	(SELECT bool_and(node = 1) FROM t, snowflake_parse(id)),
	(SELECT sum(cardinality(pids)) FROM pg_stat_snowflake_slots)
SQL

is($standby->safe_psql('postgres', q(SELECT "check", status, detail FROM snowflake_check() WHERE "check" IN ('preload', 'node_id', 'worker', 'mark'))),
	<<'ROWS' =~ s/\n\z//r, 'snowflake_check() finds nothing wrong with it');
preload|ok|snowflake is loaded via "shared_preload_libraries".
node_id|ok|This server is node 1, of 0 to 31.
worker|ok|This is a standby: its background worker starts when it is promoted.
mark|ok|This is a standby, which draws no IDs. It receives the durable mark of its primary.
ROWS
is($standby->safe_psql('postgres', q(SELECT string_agg("check", ', ') FROM snowflake_check() WHERE status <> 'ok' AND "check" <> 'time_sync')),
	'', 'in any of its checks');

# promoted, it generates, in sessions that are already there too
my $last = $primary->safe_psql('postgres', 'SELECT max(id) FROM t');
$primary->stop;
$standby->promote;
cmp_ok($session->query_safe('SELECT snowflake_nextval()'),
	'>', $last, 'a session that was there draws after the promotion');
$standby->safe_psql('postgres', 'INSERT INTO t (n) SELECT generate_series(1, 100)');
is($standby->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM t'), '200', 'no ID twice');
is($standby->safe_psql('postgres', q(SELECT detail FROM snowflake_check() WHERE "check" = 'worker')),
	'The background worker is running.', 'and has a background worker of its own');
$session->quit;

$standby->stop;
done_testing();
