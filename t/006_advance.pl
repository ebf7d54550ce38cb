
# The mark is raised by hand and by restored dumps: a call that was terminated
# has no effect later, what the mark covers costs no commit, and what is said to
# be done is durable.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

# What is reserved lasts for the whole test.
my $node = snowflake_node('advance', <<'CONF', allows_streaming => 1, clock => 0);
snowflake.reserve_window = '1h'
snowflake.max_wait = '1min'
snowflake.max_drift = '1min'
autovacuum = off
timezone = 'UTC'
CONF
$node->safe_psql('postgres', 'CREATE DATABASE app; CREATE ROLE nobody');
$node->safe_psql('app', 'CREATE EXTENSION snowflake');

sub sql
{
	my ($sql) = @_;

	return $node->safe_psql('app', $sql);
}

sub insert
{
	my ($mark, $backfilled) = @_;

	return 'INSERT INTO snowflake_catalog.dumped_mark VALUES (' . join(', ', $mark, "current_setting('snowflake.layout')",
		"current_setting('snowflake.epoch')::timestamptz", $backfilled // 'NULL') . ')';
}

# The next transaction ID: a commit of the worker has used one, before anybody is
# told of it.  (Statistics count commits later.)  Nobody else writes anything.
sub next_xid
{
	return sql('SELECT pg_snapshot_xmax(pg_current_snapshot())');
}

sub mark
{
	return $node->safe_psql('postgres', 'SELECT last_value FROM snowflake_home.mark');
}

#
# Below what is reserved
#
my $id = sql('SELECT snowflake_nextval()');
# in other databases they see where the mark is: another commit
await_pointer($node);
my $before = next_xid();
sql('SET ROLE nobody; DO $$ BEGIN FOR i IN 1 .. 300 LOOP ' . insert(q(clock_timestamp() - interval '10 ms')) . '; END LOOP; END $$');
is(next_xid(), $before, 'many rows of any role: no commit of the worker');

# but no ID below: drawn half a minute after an ID, and then the clock goes back
set_clock($node, 30);
my $floor = sql('SELECT clock_timestamp()');
$before = next_xid();
sql(insert("'$floor'"));
is(next_xid(), $before, 'a row: no commit');
set_clock($node, 0);
is(sql("SELECT snowflake_timestamp(snowflake_nextval()) >= '$floor'"), 't', 'no ID below the time of the row');

# The time of snowflake_advance() is reserved with as much above it as a draw is.
my $ahead = sql("SELECT snowflake_compose(clock_timestamp() + interval '40 s', 1, 0, 0)");
$before = next_xid();
sql("SET client_min_messages = error; SELECT snowflake_advance($ahead)");
is(next_xid(), $before, 'snowflake_advance(), covered by what is reserved: no commit');
is(sql("SELECT snowflake_nextval() > $ahead"), 't', 'all later IDs are larger');

#
# Terminated: it has no effect when the worker goes on.
#
my @stopped;

sub stop_workers
{
	@stopped = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'snowflake%'");
	kill 'STOP', @stopped;
	return;
}

# When the worker has failed last
sub last_failure
{
	return sql('SELECT last_error_ts FROM pg_stat_snowflake');
}

# Call, wait until the call waits, end it, and let the workers go on.
# Returns when one had failed last.
sub terminated
{
	my ($name, $call) = @_;

	stop_workers();
	my $psql = start_sql($node, "SET application_name = 'caller'; $call", 'app');
	ok($node->poll_query_until('app',
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'caller' AND wait_event_type = 'Extension'"),
		"$name: waits");
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'caller'");
	my (undef, $stderr) = finish_sql($psql);
	is(psql_error($stderr)->{sqlstate}, '57P01', "$name: terminated");
	my $failed = last_failure();
	kill 'CONT', @stopped;
	return $failed;
}

# The workers have done what they were asked for when this has returned.
sub ask_again
{
	sql("SET client_min_messages = error; SELECT snowflake_advance(snowflake_compose(clock_timestamp() + interval '50 s', 1, 0, 0))");
	return;
}

my $tomorrow = sql("SELECT snowflake_compose(clock_timestamp() + interval '1 day', 1, 0, 0)");
$before = mark();
terminated('snowflake_advance()', "SELECT snowflake_advance($tomorrow)");
ask_again();
is(mark(), $before, 'snowflake_advance(), terminated: the mark is what it was');
is(try_sql($node, "SELECT snowflake_nextval() < $tomorrow", 'app'), 't', 'snowflake_advance(), terminated: so are IDs');

# (the mark of this row needs nothing)
my $backfilled = "SELECT coalesce(max(used), 0) FROM snowflake_home.backfill";
terminated('backfilled numbers of a dump', insert("'2021-01-01+00'", 1000));
ask_again();
sql("SELECT snowflake_backfill('2022-01-01+00')");
is($node->safe_psql('postgres', $backfilled), '1', 'backfilled numbers of a dump, terminated: they are not used up');
sql(insert("'2021-01-01+00'", 1000));
is($node->safe_psql('postgres', $backfilled), '1000', 'backfilled numbers of a dump: they are');

#
# What is said to be done is durable.  After a start the mark that was read may
# not be on the synchronous standbys.
#
my $error;
$node->stop('immediate');
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
start_node($node);
my (undef, undef, $stderr) = $node->psql('app', "\\set VERBOSITY verbose\nSET snowflake.max_wait = '500ms'; " . insert("'2021-01-01+00'"));
$error = psql_error($stderr);
is("$error->{sqlstate} $error->{message}", '55P03 the durable mark could not be changed', 'no standby: not done');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
reload_node($node);
sql(insert("'2021-01-01+00'"));
pass('done without one');
$before = next_xid();
sql(insert("'2021-01-02+00'"));
is(next_xid(), $before, 'once');

#
# Another epoch: the worker stopped, and nothing accepted.  (After the start above
# IDs begin where the mark was, an hour ahead.)
#
$node->stop;
set_clock($node, 2 * 3600);
$node->append_conf('postgresql.conf', "snowflake.epoch = '2020-01-02 00:00:00+00'\n");
start_node($node);
sub refused
{
	my (undef, undef, $stderr) = $node->psql('app', "\\set VERBOSITY verbose\nSELECT snowflake_nextval()");

	return psql_error($stderr)->{detail};
}
like(refused(), qr/is now configured with layout/, 'another epoch: no IDs');
my $failed = terminated('snowflake_accept_layout()', 'SELECT snowflake_accept_layout()');
ok(wait_for(sub { refused() eq '' || last_failure() ne $failed }), 'snowflake_accept_layout(), terminated: the worker has done what it was asked for');
like(refused(), qr/is now configured with layout/, 'snowflake_accept_layout(), terminated: no IDs');
sql('SELECT snowflake_accept_layout()');
cmp_ok(sql('SELECT snowflake_nextval()'), '>', 0, 'snowflake_accept_layout(): IDs flow');

#
# Far ahead of the clock: only by force; the doctor says so; and taken back, as
# docs/backup.md has it
#
my $drawn = sql('SELECT snowflake_nextval()');
my $foreign = sql("SELECT snowflake_compose(clock_timestamp() + interval '30 years', 1, 0, 0)");
(undef, undef, $stderr) = $node->psql('app', "\\set VERBOSITY verbose\nSELECT snowflake_advance($foreign)");
$error = psql_error($stderr);
is($error->{sqlstate}, '22003', 'an ID of another generator: refused');
like($error->{message}, qr/^snowflake ID $foreign is of \d{4}-.*, more than a day ahead of the clock$/, 'which names its time');
like($error->{detail}, qr/The ID may be of another generator/, 'and what it may be');
like($error->{hint}, qr/snowflake_advance\($foreign, force => true\)/, 'and the way to do it');
cmp_ok(sql('SELECT snowflake_nextval()'), '>', $drawn, 'IDs flow');
$drawn = sql('SELECT snowflake_nextval()');
sql("SET client_min_messages = error; SELECT snowflake_advance($foreign, force => true)");
is(sql(q(SELECT status FROM snowflake_check() WHERE name = 'drift')), 'error', 'by force: an error, until the clock has come there');
is(try_sql($node, "SET snowflake.max_wait = '100ms'; SELECT snowflake_nextval()", 'app'), undef, 'as no ID can be drawn');
my $page = slurp_file('docs/backup.md');
my ($says) = $page =~ /^   (SELECT ceil\(.*?;)$/ms or die 'the page says something else';
$says =~ s/152075078181383514/$drawn/ or die 'the page has another ID';
my ($sets) = $page =~ /`(SELECT setval\('snowflake_home\.mark', 16\d+\))`/ or die 'the page says something else';
$node->safe_psql('postgres', $sets =~ s/16\d+/sql($says)/er);
$node->stop;
start_node($node);
my $next = sql('SELECT snowflake_nextval()');
cmp_ok($next, '>', $drawn, 'taken back: the next ID is above what was drawn');
cmp_ok($next, '<', $foreign, 'and far below the other');

# The doctor's statement is one that works, whatever max_drift is.
$node->append_conf('postgresql.conf', "snowflake.max_drift = '1d'");
reload_node($node);
sql("CREATE TABLE ahead (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
foreach my $case ([ '23 hours', '::bigint, false' ], [ '36 hours', '::bigint, true' ])
{
	my ($ahead, $force) = @{$case};
	my $id = sql("INSERT INTO ahead SELECT snowflake_compose(clock_timestamp() + interval '$ahead', 1, 0, 0) RETURNING id");
	my ($call) = sql(q(SELECT detail FROM snowflake_check() WHERE name = 'tables' AND status = 'error')) =~ /Run SELECT (\S+\.snowflake_advance\([^)]*\))/;

	is($call, "public.snowflake_advance($id$force)", "$ahead ahead: the doctor's statement");
	sql("SET client_min_messages = error; SELECT $call");
}
$node->stop;
done_testing();
