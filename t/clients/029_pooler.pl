# Through a pooler: 500 clients share 30 backends of a pgbouncer in transaction
# mode, so each statement of a client may go to another backend, while backends
# are terminated and one is killed.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);

use FaultTest;
use SnowflakeTest;

my $clients = 500;
my $backends = 30;
my $seconds = 15;
my $faults = 50;    # at least

my $node = snowflake_node('pooler', <<'CONF');
max_connections = 60
restart_after_crash = on
autovacuum = off
log_statement = none
snowflake.max_wait = 1min
CONF
my ($pooler, $host) = start_pooler($node,
	default_pool_size => $backends,
	max_client_conn => 600);
my $connstr = "host=$host port=" . $node->port . ' dbname=postgres';

my $draw = start_draw(
	$node,
	sessions => $clients,
	connstr => $connstr,
	by_statement => 1);
wait_drawn($draw, 10 * $clients);

my $begin = clock_gettime(CLOCK_MONOTONIC);
my ($terminated, $killed, $now) = (0, 0, 0);
while ($now < $seconds
	|| $terminated < $faults
	&& $now < $PostgreSQL::Test::Utils::timeout_default)
{
	if (!$killed && $now > $seconds / 2)
	{
		$killed = kill 'KILL', busy_backend($node);

		# The server starts again, and the pooler connects to it.
		wait_drawn($draw, 100 * $clients);
	}

	# Nothing is returned while the server starts again.  It waits until the
	# backend has ended, which would not be there to be killed then.
	my $result = try_sql($node, <<'SQL');
SELECT pg_terminate_backend(pid, 60000)
FROM (SELECT pid FROM pg_stat_activity
      WHERE backend_type = 'client backend' AND application_name = 'draw'
      ORDER BY random() LIMIT 1) AS s
SQL
	$terminated++ if ($result // '') eq 't';
	usleep(50_000 + rand 50_000);
	$now = clock_gettime(CLOCK_MONOTONIC) - $begin;
}
wait_drawn($draw, 10 * $clients);
my $report = stop_draw($draw);

note "backends: $terminated terminated, $killed killed";
note "connections: $report->{connects} made, $report->{lost} lost, "
  . "$report->{refused} refused";
note "error $_: $report->{errors}{$_}[0] times: $report->{errors}{$_}[1]"
  foreach sort keys %{ $report->{errors} };
cmp_ok($terminated, '>=', $faults, 'backends were terminated');
is($killed, 1, 'and one was killed');
like(
	slurp_file($node->logfile),
	qr/terminated by signal 9: Killed.*database system is ready/s,
	'with it the server went down and up again');

# 57P01 and 57P02 are the server's when it ends a backend, 08P01 is
# pgbouncer's for whatever happens to a connection.
my @other = grep { !/^(57P0[123]|08...)$/ } sort keys %{ $report->{errors} };
is("@other", '', 'clients met no other errors');

my $ledger = new_ledger();
$ledger->add($draw);
cmp_ok($ledger->count, '>', 20 * $clients, 'IDs were drawn');
is($ledger->duplicates, 0, 'none came twice');
is($ledger->disorder, 0, 'those of each statement ascend');
$ledger->report($terminated + $killed);

#
# All backends give their slots back.
#
my $backends_now =
  'SELECT sum(cardinality(pids)) FROM pg_stat_snowflake_slots';
note $node->safe_psql('postgres', $backends_now)
  . ' backends have a slot, as the pooler keeps its connections';
stop_process($pooler);
ok($node->poll_query_until('postgres', "$backends_now", '0'),
	'without the pooler all slots are free');
note $node->safe_psql('postgres', <<'SQL');
SELECT count(*) || ' slots are free, ' || sum(issued) || ' IDs were drawn since the crash'
FROM pg_stat_snowflake_slots WHERE pids = '{}'
SQL

#
# A registry behind a pooler in this mode: the next connection finds the prepared
# statement of the one before, unless the pooler looks after them, as it can since 1.21.
#
my ($major, $minor) = `@{[FaultTest::find_pgbouncer()]} --version` =~ /PgBouncer (\d+)\.(\d+)/;
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init(force_initdb => 1);
$registry->start;
$registry->safe_psql('postgres', 'CREATE EXTENSION snowflake_registry');
($pooler, $host) = start_pooler($registry, default_pool_size => 1,
	$major > 1 || $minor >= 21 ? (max_prepared_statements => 0) : ());
$connstr = "host=$host port=" . $registry->port . ' dbname=postgres';
$registry->safe_psql('postgres', 'PREPARE snowflake AS SELECT 1', connstr => $connstr);
$node->append_conf('postgresql.conf', "snowflake.registry = '$connstr'");
$node->restart;
my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET snowflake.max_wait = '10s'; SELECT snowflake_segment_nextval('tag')");
my $error = psql_error($stderr);
like("$error->{message} $error->{detail}", qr/prepared statement "snowflake" already exists \(a pooler in between must be in session mode\)/,
	'a registry behind it: an error that names the pooler');
stop_process($pooler);
$registry->stop;

$node->stop;
done_testing();
