
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

# promoted, it generates, in sessions that are already there too
my $last = $primary->safe_psql('postgres', 'SELECT max(id) FROM t');
$primary->stop;
$standby->promote;
cmp_ok($session->query_safe('SELECT snowflake_nextval()'),
	'>', $last, 'a session that was there draws after the promotion');
$standby->safe_psql('postgres', 'INSERT INTO t (n) SELECT generate_series(1, 100)');
is($standby->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM t'), '200', 'no ID twice');
$session->quit;

$standby->stop;
done_testing();
