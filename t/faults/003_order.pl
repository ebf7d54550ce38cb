
# The order in which a backend looks for an ID: the shared slot, the higher slots
# of the node in the same time unit, the next time units up to max_drift, a
# wait up to max_wait, an error.  And the order of all: where the clock was set back,
# no backend draws far below what another one drew.
#
# Time units of a minute and fields of a few bits make each step visible
# without racing the clock.  The server has a clock of its own, so that a minute
# begins when the test needs one.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use SnowflakeTest;

my $node = snowflake_node('order', "autovacuum = off\nsnowflake.sequence_start = zero",
	clock => -3600);

# Of its clock, in seconds.  Always behind the real one: where it is ahead, and
# libfaketime does not reach the beginning of a backend, a timer that was set
# there seems to be due, and those of statements are not set.
my $ahead = -3600;

# When set_second() had it, and how many seconds from there hold() set it last.
my ($began, $offset);

# Set the clock forward, to so many seconds after the next minute has begun; back
# it would be behind what was drawn.
sub set_second
{
	my ($second) = @_;
	my $now = time() + $ahead;

	$ahead += 60 - $now + 60 * int($now / 60) + $second;
	$began = time() + $ahead;
	hold(0);
	return;
}

# Set it so many seconds from there, or where it was set last, so that a time unit
# does not end before a slow step does.
sub hold
{
	my ($seconds) = @_;

	$offset = $seconds // $offset;
	$ahead = $began - time();
	set_clock($node, $ahead + $offset);
	return;
}

# As a new server, whose first time unit is that of the clock: a minute that has
# just begun, and in which all is counted.
sub restart_with
{
	my ($conf) = @_;
	forget_mark($node);
	open(my $file, '>', $node->data_dir . '/test.conf') or die $!;
	print $file $conf;
	close($file);
	$node->stop;
	set_second(1);
	start_node($node);
	return;
}
$node->append_conf('postgresql.conf', "include_if_exists 'test.conf'");

# worker and sequence of what a session draws, and units ahead of the clock
sub fields
{
	my ($count) = @_;
	return "SELECT worker || ':' || sequence || '+' || extract(epoch FROM ts - date_trunc('minute', clock_timestamp()))::int / 60 FROM snowflake_nextval($count) id, snowflake_parse(id)";
}

sub draw
{
	my ($session, $count) = @_;

	hold();
	return join ' ', split /\n/, $session->query_safe(fields($count));
}

# three slots: worker 3 is for snowflake_backfill()
my $minutes = "snowflake.layout = 'time:31\@60s node:5 worker:2 sequence:1'\n";

#
# Shared slot, hop, borrow
#
restart_with($minutes . "snowflake.max_drift = '10min'\n");
my $a = session($node);
is(draw($a, 2), '0:0+0 0:1+0', 'the shared slot, until its sequence numbers are gone');
is(draw($a, 4), '1:0+0 1:1+0 2:0+0 2:1+0', 'then the higher slots, in the same unit');
is(draw($a, 3), '0:0+1 0:1+1 1:0+1', 'then the next unit, from the shared slot again');
is(draw($a, 5), '1:1+1 2:0+1 2:1+1 0:0+2 0:1+2', 'and so on; no ID has worker 3');

# more backends go on where the first one is
my $b = session($node);
is(draw($b, 1), '1:0+2', 'another backend is not sent back before what is taken');
my $c = session($node);
is(draw($c, 2), '1:1+2 2:0+2', 'nor is a third');
is(draw($a, 3), '2:1+2 0:0+3 0:1+3', 'the first goes on above what is taken');
is(draw($c, 1), '1:0+3', 'and so on');
is($node->safe_psql('postgres', "SELECT string_agg(worker || ':' || issued, ' ' ORDER BY worker) FROM pg_stat_snowflake_slots"),
	'0:8 1:7 2:6', 'IDs are counted at the slot they are from');
is($node->safe_psql('postgres', "SELECT string_agg(cardinality(pids)::text, ' ' ORDER BY worker) FROM pg_stat_snowflake_slots"),
	'0 1 2', 'the shared slot is given to nobody');
$_->quit foreach $a, $b, $c;

#
# The clock set back, with backends that drew before and some that did not, more
# than there are slots.  Nobody draws more than max_drift below the latest ID: each
# waits, and gets the same error.
#
restart_with($minutes . "snowflake.max_drift = '10min'\nsnowflake.reserve_window = '2h'\n");
my @all = map { session($node) } 1 .. 6;
my ($idle, $busy, @new) = @all;
is(draw($busy, 2), '0:0+0 0:1+0', 'one draws from the shared slot');
is(draw($idle, 1), '1:0+0', 'and one from another, that nobody takes further');
hold(3600);
is(draw($busy, 1), '0:0+0', 'the first one again, an hour later');
$_->query_safe('SET snowflake.max_wait = 0') foreach @all;
# back into the very time unit that the idle one drew in last
hold(0);
foreach my $i (0 .. $#all)
{
	my $error = session_error($all[$i], 'SELECT snowflake_nextval()');
	is("$error->{sqlstate}: $error->{message}",
		'55P03: cannot generate a snowflake ID: the clock is behind the last ID', "backend $i draws nothing");
	like($error->{detail}, qr/The clock shows .* The latest ID is of .*, which is \d+ ms ahead; "snowflake.max_drift" allows 600000 ms\. Waited for "snowflake.max_wait", 0 ms\./, 'which names both settings');
	like($error->{hint}, qr/^Set the server's clock\. If it is right, wait until it has caught up, or raise "snowflake.max_drift"/, 'and what to do');
}
is($node->safe_psql('postgres', "SELECT status FROM snowflake_check() WHERE name = 'drift'"), 'error', 'the doctor says so');
# nor where an ID max_drift below the latest would be near enough
hold(2700);
is(join(' ', map { session_error($_, 'SELECT snowflake_nextval()')->{sqlstate} } @all), join(' ', ('55P03') x 6), 'a quarter of an hour is too far');
# 5 minutes behind is within max_drift; the shared slot is ahead, so that there are
# four numbers in a time unit
hold(3300);
is(join(' ', map { draw($_, 1) =~ s/^\d+:\d+\+//r } @all), '0 5 0 0 0 1',
	'near enough, all draw: at the time of the clock, or where they were');
is($node->safe_psql('postgres', "SELECT status FROM snowflake_check() WHERE name = 'drift'"), 'ok', 'and all is well');
$_->quit foreach @all;

#
# A time unit longer than max_drift: from where one has drawn ahead of the clock, the
# others do not draw in the unit before.
#
restart_with($minutes . "snowflake.max_drift = '30s'\nsnowflake.reserve_window = '2h'\n");
@all = map { session($node) } 1 .. 3;
is(draw($all[0], 3), '0:0+0 0:1+0 1:0+0', 'one draws');
hold(60);
is(draw($all[1], 1), '0:0+0', 'another does, a minute later');
# at 36 s the next minute is near enough
hold(35);
is(join(' ', map { draw($_, 1) } @all), '0:1+1 1:0+1 1:1+1', 'with the clock set back, all draw where that one did');
$_->quit foreach @all;

#
# What a parallel query draws: the IDs of one process ascend, those of a session
# may not, and it does not know them.  All rows are in one page, which one worker
# reads.  (By the logical clock, as the server's own does not reach the worker.)
#
restart_with("snowflake.layout = 'time:31\@60s node:5 sequence:1 worker:2'\nsnowflake.max_drift = '10min'\nsnowflake.clock = logical\n");
$a = session($node);
$a->query_safe(<<'SQL');
CREATE TABLE many WITH (parallel_workers = 2) AS SELECT generate_series(1, 4);
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SQL
my $first = $a->query_safe('SELECT snowflake_nextval()');
my $most = $a->query_safe('SELECT max(snowflake_nextval()) FROM many');
is($a->query_safe('SELECT snowflake_currval()'), $first, 'what a parallel query draws is of another process');
my $next = $a->query_safe('SELECT snowflake_nextval()');
cmp_ok($next, '<', $most, 'so the next ID of the session may be below');
cmp_ok($next, '>', $first, 'but is above those that its own process drew');
$a->quit;

#
# Batches: one step takes what a slot has in a unit.
#
restart_with("snowflake.layout = 'time:31\@60s node:5 worker:2 sequence:15'\nsnowflake.max_drift = 0\n");
is( $node->safe_psql('postgres', <<'SQL'),
SELECT count(*), count(DISTINCT id), max(id) - min(id) FROM snowflake_nextval(98304) id
SQL
	'98304|98304|98303', 'a batch takes all of the slots');
hold();
my ($ret, $stdout, $stderr) =
  $node->psql('postgres', "SET snowflake.max_wait = 0;\n\\set VERBOSITY verbose\nSELECT snowflake_nextval();");
my $error = psql_error($stderr);
is($error->{sqlstate}, '55P03', 'and leaves none');
like($error->{message}, qr/all sequence numbers are in use/, 'the error says so');
like($error->{detail}, qr/The clock shows .* The next unused time unit begins at .*; "snowflake.max_drift" allows 0 ms\. Waited for "snowflake.max_wait", 0 ms\./, 'and how far');
like($error->{hint}, qr/Draw fewer IDs at a time/, 'and what to do');

# a batch that comes to the end in the middle: an error, and what was drawn
# before is not drawn again
restart_with($minutes . "snowflake.max_drift = 0\n");
$a = session($node);
$a->query_safe('CREATE TABLE drawn (id bigint PRIMARY KEY)');
# of the six there are, one now: from here on no wait is for the worker
is(draw($a, 1), '0:0+0', 'the first');
$a->query_safe('SET snowflake.max_wait = 0');
hold();
is(session_error($a, 'INSERT INTO drawn SELECT snowflake_nextval(6)')->{sqlstate}, '55P03', 'six are more than there are left');
is($a->query_safe('SELECT count(*) FROM drawn'), '0', 'so none is stored');
is($node->safe_psql('postgres', 'SELECT sum(issued) FROM pg_stat_snowflake_slots'), '6', 'the rest was drawn');
$a->quit;

#
# Waits can be ended, and end by themselves.
#
restart_with($minutes . "snowflake.max_drift = 0\nsnowflake.max_wait = '1h'\n");
$node->safe_psql('postgres', 'SELECT snowflake_nextval(6)');

hold();
my $waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%snowflake_nextval()%' AND pid <> pg_backend_pid()";

($ret, $stdout, $stderr) =
  $node->psql('postgres', "SET statement_timeout = '100ms';\n\\set VERBOSITY verbose\nSELECT snowflake_nextval();");
is(psql_error($stderr)->{sqlstate}, '57014', 'statement_timeout ends a wait');

foreach my $how ('cancel', 'terminate')
{
	hold();
	my $psql = start_sql($node, 'SELECT snowflake_nextval();');
	ok($node->poll_query_until('postgres', $waiting, '1'), 'a backend waits');
	hold();
	$node->safe_psql('postgres',
		"SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE query LIKE '%snowflake_nextval()%' AND pid <> pg_backend_pid()");
	($stdout, $stderr) = finish_sql($psql);
	is(psql_error($stderr)->{sqlstate}, $how eq 'cancel' ? '57014' : '57P01', "pg_${how}_backend ends a wait");
}
ok($node->poll_query_until('postgres', 'SELECT sum(cardinality(pids)) = 0 FROM pg_stat_snowflake_slots'),
	'with their slots given back');

# the next minute brings new ones, to one who waits
hold();
my $psql = start_sql($node, 'SELECT snowflake_nextval() > 0;');
ok($node->poll_query_until('postgres', $waiting, '1'), 'a backend waits');
set_clock($node, $ahead += 57 - (time() + $ahead) % 60);
($stdout, $stderr) = finish_sql($psql);
is("$stdout$stderr", 't', 'and has its ID with the next time unit');

# max_wait is of a session, and counts on a clock of its own
restart_with($minutes . "snowflake.max_drift = 0\n");
$node->safe_psql('postgres', 'SELECT snowflake_nextval(6)');
hold();
($ret, $stdout, $stderr) = $node->psql('postgres', <<'SQL', on_error_stop => 0);
\set VERBOSITY verbose
SET snowflake.max_wait = '300ms';
SELECT clock_timestamp() AS since \gset
SELECT snowflake_nextval();
SELECT clock_timestamp() - :'since' BETWEEN '300ms' AND '20s';
SQL
is(psql_error($stderr)->{sqlstate}, '55P03', 'max_wait ends a wait');
is($stdout, 't', 'not before its time');

$node->stop;
done_testing();
