
# A standby generates nothing, and everything once it is promoted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

# places for the two background workers, and for no other
my $primary = snowflake_node('primary', <<'CONF', allows_streaming => 1);
max_worker_processes = 2
max_prepared_transactions = 1
max_logical_replication_workers = 0
CONF
$primary->safe_psql('postgres',
	'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int); INSERT INTO t (n) SELECT generate_series(1, 100); CREATE ROLE nobody LOGIN; CREATE DATABASE app');
$primary->safe_psql('app', 'CREATE EXTENSION snowflake');
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
is(session_error($session, 'SELECT snowflake_horizon()')->{message}, 'a standby does not know the horizon of snowflake IDs', 'nor is there a horizon');

# reading works there
is($standby->safe_psql('postgres', <<'SQL'), '100|t|0', 'a standby reads IDs');
SELECT (SELECT count(*) FROM t WHERE id <@ id_range_for(now() - interval '1 hour', now() + interval '1 hour')),
	(SELECT bool_and(node = 1) FROM t, snowflake_parse(id)),
	(SELECT sum(cardinality(pids)) FROM pg_stat_snowflake_slots)
SQL

# What snowflake_check() says before a promotion.
sub check
{
	my ($check, %opts) = @_;

	return $standby->safe_psql($opts{dbname} // 'postgres', qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check'),
		extra_params => [ '-U', $opts{role} // $standby->safe_psql('postgres', 'SELECT current_user') ]);
}
my $mark = qr/This is a standby, which draws no IDs\. The durable mark that it has received and replayed is (\S+ \S+), which is \d+ ms (?:ahead of|behind) the clock\./;
is(check('preload'), 'ok|snowflake is loaded via "shared_preload_libraries".', 'snowflake_check(): preload');
is(check('node_id'), 'ok|This server is node 1, of 0 to 31.', 'node_id');
is(check('worker'), 'ok|This is a standby: its background workers start when it is promoted.', 'worker');
like(check('mark'), qr/^ok\|$mark$/, 'mark');
like(check('mark', role => 'nobody'), qr/^ok\|$mark$/, 'mark, as it is seen by others');
is(check('mark', dbname => 'app'), 'unknown|This is a standby, which draws no IDs. To see whether it could draw IDs after a promotion, run snowflake_check() in database "postgres", which has the durable mark.',
	'mark, in another database, which does not have it');
is(check('drift'), 'ok|This is a standby, which draws no IDs. The checks "clock" and "mark" say what it would draw after a promotion.', 'drift');
is($standby->safe_psql('postgres', q(SELECT string_agg(name, ', ') FROM snowflake_check() WHERE status <> 'ok' AND name <> 'time_sync')),
	'', 'in any of its checks');
is($standby->safe_psql('app', q(SELECT string_agg(name, ', ') FROM snowflake_check() WHERE status NOT IN ('ok', 'unknown') AND name <> 'time_sync')),
	'', 'nor in another database');

# with WAL that is not replayed
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$standby->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'") or die 'the replay is not paused';
$primary->safe_psql('postgres', 'CREATE TABLE u AS SELECT snowflake_nextval() FROM generate_series(1, 100)');
$primary->wait_for_catchup($standby, 'flush');
like(check('mark'), qr/^ok\|$mark It has received WAL and not replayed it yet: \d+ (?:bytes|kB), as the replay is paused\. A promotion replays it first, which may raise the mark\.$/,
	'mark, where the replay is paused');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$standby->safe_psql('postgres', "ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
$standby->reload;
$standby->poll_query_until('postgres', "SELECT current_setting('recovery_min_apply_delay') = '1h'") or die 'no delay';
$primary->wait_for_catchup($standby, 'replay');
$primary->safe_psql('postgres', 'CREATE TABLE v AS SELECT snowflake_nextval() FROM generate_series(1, 100)');
$primary->wait_for_catchup($standby, 'flush');
like(check('mark'), qr/^ok\|$mark It has received WAL and not replayed it yet: \d+ (?:bytes|kB), as "recovery_min_apply_delay" is 1h\. A promotion/, 'with a delay');

# with another number, which is as good, but may be another server's
sub restart_with
{
	my ($conf) = @_;

	$session->quit;
	$standby->append_conf('postgresql.conf', $conf);
	$standby->restart;
	$session = session($standby);
	return;
}
restart_with('snowflake.node_id = 2');
is(check('node_id'), 'warning|This standby is node 2, and its primary has drawn IDs as node 1. After a promotion it would draw as node 2. This is safe only if no other server is node 2. To give it the number of its primary, set "snowflake.node_id" to 1 and restart the server.',
	'another number than the primary');
is(check('node_id', dbname => 'app', role => 'nobody'), check('node_id'), 'which is seen in other databases');
restart_with("snowflake.node_id = 1\nmax_logical_replication_workers = 4");
is(check('node_id'), 'ok|This server is node 1, of 0 to 31.', 'the same number');
is(check('worker'), 'error|"max_worker_processes" is 2, which leaves no place for the two background workers of snowflake. Raise it by 2, on standbys first, and restart the server.',
	'without a place for a background worker');
restart_with('max_logical_replication_workers = 0');
is(check('worker'), 'ok|This is a standby: its background workers start when it is promoted.', 'with places for both');

# promoted, it generates, in sessions that are already there too
my $last = $primary->safe_psql('postgres', 'SELECT max(id) FROM t');
$primary->stop;
$standby->promote;
cmp_ok($session->query_safe('SELECT snowflake_nextval()'),
	'>', $last, 'a session that was there draws after the promotion');
$standby->safe_psql('postgres', 'INSERT INTO t (n) SELECT generate_series(1, 100)');
is($standby->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM t'), '200', 'no ID twice');
ok($standby->poll_query_until('postgres', q(SELECT detail FROM snowflake_check() WHERE name = 'worker'), 'The background workers are running.'),
	'and has a background worker of its own');
$session->quit;

# whether the server that it was copied from still draws with its number, nobody knows
# but the operator
my $promoted = sub {
	my ($before) = @_;

	return sprintf 'warning|This server was promoted, and continues the IDs of the server that it was copied from. The use of its node number was last confirmed on timeline %d, and the server is on timeline %d. If the server that it was copied from still runs, or another copy of it, IDs can come twice. Make sure that no other server draws IDs with this node number, and that this server\'s clock is right. Then call snowflake_confirm_node().',
	  $before, $before + 1;
};
my $said = qr/LOG: .*this server was promoted, and continues the snowflake IDs of the server that it was copied from/;
my $confirm = 'SELECT snowflake_confirm_node()';
$standby->wait_for_log($said);

sub error_on_standby
{
	my ($sql) = @_;
	my ($ret, $stdout, $stderr) = $standby->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return psql_error($stderr);
}

is(check('node_id'), $promoted->(1), 'a promoted server: node_id');
is(check('node_id', dbname => 'app', role => 'nobody'), $promoted->(1), 'in other databases, for everybody');
is($standby->safe_psql('postgres', 'SELECT can_draw FROM snowflake_can_draw()'), 't', 'it draws');
is(error_on_standby("SET ROLE nobody; $confirm")->{sqlstate}, '42501', 'not everybody may confirm it');
is(error_on_standby("BEGIN READ ONLY; $confirm")->{sqlstate}, '25006', 'not in a read-only transaction');

# what could not be recorded, within the worker's lock_timeout, is not confirmed later
my $locker = session($standby);
$locker->query_safe('BEGIN; LOCK snowflake_home.recorded');
my $beside = start_sql($standby, "SET snowflake.max_wait = '3s'; $confirm");
my $error = error_on_standby("SET snowflake.max_wait = '1500ms'; $confirm");
like((finish_sql($beside))[1], qr/55P03: the node number could not be confirmed/, 'nor for a session beside that waits longer');
is("$error->{sqlstate}: $error->{message}", '55P03: the node number could not be confirmed', 'not where it cannot be recorded');
$locker->query_safe('COMMIT');
$locker->quit;
my $services = $standby->safe_psql('postgres', q(SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake services'));
$standby->poll_query_until('postgres', sprintf(q(SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'snowflake services' AND state = 'idle' AND pid <> %d), $services =~ /^(\d+)/))
  or fail('the services do not start again');
is(check('node_id'), $promoted->(1), 'not confirmed, also by the worker of after it');
# (they have said so once more)
my $offset = -s $standby->logfile;
$standby->restart;
$offset = $standby->wait_for_log($said, $offset);
is(check('node_id'), $promoted->(1), 'nor after a restart');

# it is known before any ID is drawn, also where nothing can be recorded
$standby->safe_psql('postgres', "ALTER DATABASE postgres RESET snowflake.recorded; BEGIN; LOCK pg_db_role_setting IN EXCLUSIVE MODE; PREPARE TRANSACTION 'held'");
$standby->restart;
$standby->poll_query_until('postgres', 'SELECT can_draw FROM snowflake_can_draw()') or fail('it does not draw');
is(check('node_id'), $promoted->(1), 'nor where the services cannot record it');
$standby->safe_psql('postgres', "ROLLBACK PREPARED 'held'");

# With the clock behind the mark that came along, a wait would end in IDs that the
# old primary drew later and this server knows nothing of.
my $lost = q(Set the server's clock, or call snowflake_advance() with the largest ID that clients have seen. This server was promoted and is not confirmed. Do not wait, and do not raise "snowflake.max_drift": both repeat IDs that were lost with the server that it was copied from.);
my $nothing_lost = q(Set the server's clock. If it is right, wait until it has caught up, or raise "snowflake.max_drift" to go on ahead of it.);
$standby->safe_psql('postgres', "SELECT snowflake_advance(snowflake_compose(clock_timestamp() + interval '1 h', 1, 0, 0))");
foreach my $case ([ 'not confirmed', $lost ], [ 'confirmed', $nothing_lost ])
{
	my ($name, $hint) = @$case;

	# the services, which could not record it above, try again 10 seconds later
	$standby->safe_psql('postgres', "SET snowflake.max_wait = '1min'; $confirm") if $name eq 'confirmed';
	$error = error_on_standby('SET snowflake.max_wait = 0; SELECT snowflake_nextval()');
	is("$error->{sqlstate}: $error->{message}", '55P03: cannot generate a snowflake ID: the clock is behind the last ID', "$name, with the clock behind");
	is($error->{hint}, $hint, "$name: the HINT");
	like(check('drift'), qr/^error\|IDs may have been issued [^\n]* allows 1000 ms\. \Q$hint\E$/, "$name: drift");
}
$standby->append_conf('postgresql.conf', "snowflake.max_drift = '2h'");
$standby->reload;

is(check('node_id'), 'ok|This server is node 1, of 0 to 31.', 'confirmed');
is($standby->safe_psql('postgres', 'SELECT timeline FROM snowflake_home.recorded'), '2', 'and recorded');
$standby->restart;
$standby->safe_psql('postgres', 'SELECT snowflake_nextval()');
is(check('node_id'), 'ok|This server is node 1, of 0 to 31.', 'after a restart, too');

# again, with other numbers
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->set_standby_mode;
$standby->restart;
$offset = -s $standby->logfile;
$standby->promote;
$offset = $standby->wait_for_log($said, $offset);
is(check('node_id'), $promoted->(2), 'another promotion');
$session = session($standby);
restart_with('snowflake.node_id = 2');
$session->query_safe('SELECT snowflake_nextval()');
is(check('node_id'), 'ok|This server is node 2, of 0 to 31.', 'a number of its own needs no confirmation');
$standby->poll_query_until('postgres', 'SELECT node = 2 AND timeline = 3 FROM snowflake_home.recorded') or fail('the number is not recorded');
unlike(PostgreSQL::Test::Utils::slurp_file($standby->logfile, $offset), $said, 'nor a line in the log');
$session->quit;

$standby->stop;
done_testing();
