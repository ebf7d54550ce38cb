
# Worker slots: given at the first call, in turn, given back however a backend
# ends, and the next owner goes on above the word that was left.  And who draws
# from which: all from the shared one, backends that get into each other's way from
# their own.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $node = snowflake_node('slots',
	"max_connections = 230\nautovacuum = off\nrestart_after_crash = on");

# What the view says, over all slots.
sub slots
{
	my ($what) = @_;
	return $node->safe_psql('postgres', "SELECT $what FROM pg_stat_snowflake_slots");
}

# The backends that have a slot, when as many as expected.
sub wait_for_backends
{
	my ($count, $name) = @_;
	ok( $node->poll_query_until(
			'postgres',
			'SELECT sum(cardinality(pids)) FROM pg_stat_snowflake_slots',
			"$count"),
		$name);
	return;
}

my $draw = 'SELECT snowflake_nextval()';

#
# One backend
#
is(slots('count(*), sum(cardinality(pids)), sum(issued), max(last_id), max(last_ts)'),
	'31|0|0||', 'at first 31 slots, all free and unused');
my $first = session($node);
my $pid = $first->query_safe('SELECT pg_backend_pid()');
is(slots('sum(cardinality(pids))'), '0', 'a backend that draws nothing has none');
my $id = $first->query_safe($draw);
is(slots("string_agg(pids::text, '') FILTER (WHERE pids <> '{}' AND worker > 0), sum(issued), max(last_id)"),
	"{$pid}|1|$id", 'the first call gives it one');
$first->query_safe($draw) for 1 .. 5;
is(slots('sum(cardinality(pids)), sum(issued), sum(issued) FILTER (WHERE worker = 0)'),
	'1|6|6', 'and no more later; it draws from the shared one');

#
# 200 backends, 30 slots to give
#
my @sessions = ($first, map { session($node) } 2 .. 200);
my @ids = map { $_->query_safe($draw) } @sessions;
is(slots('sum(cardinality(pids)), min(cardinality(pids)) FILTER (WHERE worker > 0), max(cardinality(pids))'),
	'200|6|7', '200 backends are shared out over 30 slots');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT pid) FROM pg_stat_snowflake_slots, unnest(pids) pid'),
	'200', 'each has one slot');

# each draws again and again, in turn and several at a time
my %previous;
@previous{ 0 .. 199 } = @ids;
my $increasing = 1;
foreach my $round (1 .. 3)
{
	foreach my $i (0 .. 199)
	{
		my @drawn = split /\n/, $sessions[$i]->query_safe('SELECT snowflake_nextval(10)');
		foreach my $drawn (@drawn)
		{
			$increasing = 0 if $drawn <= $previous{$i};
			$previous{$i} = $drawn;
		}
		push @ids, @drawn;
	}
}
my %seen;
$seen{$_}++ foreach @ids, $id;
is(scalar(keys %seen), 200 * 31 + 1, '200 backends, no ID twice');
ok($increasing, 'and those of each backend increase');
is(slots('sum(issued)'), 200 * 31 + 6, 'all are counted');

is(slots('sum(issued)'), slots('sum(issued) FILTER (WHERE worker < 4)'),
	'they draw from the shared slot, or the next ones where that is used up');

#
# Backends that do nothing but draw leave the shared slot where they meet, and
# come back afterwards.
#
my $cpus = `getconf _NPROCESSORS_ONLN`;
# slots that a session alone does not come to, and that some of them are given
my $own = slots('sum(issued) FILTER (WHERE worker >= 12)');
my ($at_once, $more) = (500_000, 0);
my $rounds = $cpus < 2 ? 1 : 40;
my ($met, %drawn);

# until they have met: on a busy machine they may run one after the other
while ($rounds-- > 0 && !$met)
{
	my @draws = map {
		start_sql($node, "SELECT count(*) FROM (SELECT snowflake_nextval() FROM generate_series(1, $at_once)) s") } 1 .. 4;
	$drawn{ (finish_sql($_))[0] } = 1 foreach @draws;
	$more += 4 * $at_once;
	$met = slots('sum(issued) FILTER (WHERE worker >= 12)') > $own;
}
is(join(' ', keys %drawn), $at_once, 'four draw at once');
SKIP:
{
	skip 'with one CPU, nobody is in the way', 1 if $cpus < 2;
	ok($met, 'from their own slots');
}
wait_for_backends(200, 'they end');
cmp_ok($first->query_safe('SELECT worker FROM snowflake_parse(snowflake_nextval())'), '<', 4, 'the next one draws from the shared slot');

#
# The ways out
#
$_->quit foreach splice @sessions, 100;
wait_for_backends(100, 'disconnecting gives the slot back');

my $victim = pop @sessions;
$pid = $victim->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
wait_for_backends(99, 'so does being terminated');

# terminated while it draws
my $busy = start_sql($node, 'SELECT pg_backend_pid(); SELECT count(*) FROM (SELECT snowflake_nextval(2000000000)) s;');
wait_for_backends(100, 'a busy backend');
$node->safe_psql('postgres',
	"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%2000000000)) s;' AND pid <> pg_backend_pid()");
my (undef, $stderr) = finish_sql($busy);
like($stderr, qr/57P01.*terminating connection/, 'is terminated while it draws');
wait_for_backends(99, 'and gives its slot back');

# an ERROR does not end a backend, and it keeps its slot
my ($last) = $sessions[0]->query_safe($draw);
is(session_error($sessions[0], 'SELECT snowflake_nextval() / 0')->{sqlstate}, '22012', 'an ERROR');
cmp_ok($sessions[0]->query_safe($draw), '>', $last, 'and the session goes on');
wait_for_backends(99, 'and the slot is kept');

# FATAL
my $offset = -s $node->logfile;
my $idle = session($node);
$idle->query_safe('BEGIN; SELECT snowflake_nextval()');
wait_for_backends(100, 'a session in a transaction');
# its end may come while psql is still at it
$idle->query("SET idle_in_transaction_session_timeout = '10ms'");
wait_for_backends(99, 'a FATAL error gives the slot back');
like(slurp_file($node->logfile, $offset),
	qr/FATAL:.*terminating connection due to idle-in-transaction timeout/, 'which was one');
eval { $idle->quit };

# the counts of those who left are kept
my $issued = slots('sum(issued)');
cmp_ok($issued, '>', 200 * 31 + 6 + $more, 'what they drew stays counted');

# all gone
$_->quit foreach @sessions;
wait_for_backends(0, 'all slots are free again');
is(slots('sum(issued)'), $issued, 'and nothing is counted twice');

#
# Slots that nobody has drawn from begin anywhere, not all at the same sequence
# number: in a long time unit one batch takes all.
#
$node->append_conf('postgresql.conf', "snowflake.layout = 'time:31\@60s node:5 worker:5 sequence:12'\nsnowflake.max_drift = 1h\n");
forget_mark($node);
$node->restart;
is($node->safe_psql('postgres', <<'SQL'), '31|t', 'all slots, each beginning anywhere');
SET snowflake.max_wait = '1min';
SELECT count(worker), count(DISTINCT first) > 24
FROM (SELECT DISTINCT ON (worker) worker, sequence AS first
      FROM snowflake_nextval(31 * 4096) WITH ORDINALITY AS d (id, n), snowflake_parse(id) ORDER BY worker, n) AS f
SQL

#
# The next owner of a slot goes on above the word that was left: one slot,
# whose owners follow each other within a time unit of a minute, and all have a
# number in it.
#
$node->append_conf('postgresql.conf', <<'CONF');
snowflake.layout = 'time:31@60s node:5 worker:0 sequence:20'
snowflake.sequence_start = zero
snowflake.max_drift = 1s
CONF
forget_mark($node);
$node->restart;
my @follow;
foreach my $owner (1 .. 20)
{
	push @follow, split /\n/, $node->safe_psql('postgres', 'SELECT snowflake_nextval(3)');
}
is(scalar(grep { $follow[$_] > $follow[ $_ - 1 ] } 1 .. $#follow), 59,
	'each owner of a slot starts above the last');
is(slots('count(*), sum(issued)'), '1|60', 'one slot has seen all');

# many backends on it at once, drawing in turn: with no worker field all IDs of
# the server increase in the order drawn
@sessions = map { session($node) } 1 .. 200;
my @in_turn = map { $_->query_safe($draw) } @sessions, reverse @sessions;
is(slots('count(*), sum(cardinality(pids))'), '1|200', '200 backends on the only slot');
is(scalar(grep { $in_turn[$_] > $in_turn[ $_ - 1 ] } 1 .. $#in_turn), 399,
	'IDs increase over all backends in the order drawn');
$_->quit foreach @sessions;
wait_for_backends(0, 'and give it back');

#
# With few sequence numbers a slot begins time units with any of them.  Where it
# has used up one, it begins the next with the first: none is skipped at full
# speed.
#
$node->append_conf('postgresql.conf', <<'CONF');
snowflake.layout = 'time:41 node:5 worker:0 sequence:4'
snowflake.sequence_start = random
CONF
forget_mark($node);
$node->restart;
is($node->safe_psql('postgres', <<'SQL'), 16, 'slowly drawn IDs have all sequence numbers');
SELECT count(DISTINCT id & 15)
FROM (SELECT snowflake_nextval() AS id, pg_sleep(0.001) FROM generate_series(1, 400) OFFSET 0) AS d
SQL
is($node->safe_psql('postgres', <<'SQL'), 't', 'at full speed time units are used up');
SELECT count(*) FILTER (WHERE ids = 16) > 200
FROM (SELECT count(*) AS ids FROM snowflake_nextval(256 * 16) AS id GROUP BY id >> 9) AS u
SQL

#
# A backend that is killed takes the server's shared memory along: all slots
# are free, the words begin anew at the durable mark, drawing goes on above.
#
$node->append_conf('postgresql.conf',
	"snowflake.layout = 'time:41 node:5 worker:5 sequence:12'");
forget_mark($node);
$node->restart;
my $survivor = session($node);
$survivor->query_safe($draw);
$victim = session($node);
$last = $victim->query_safe($draw);
$pid = $victim->query_safe('SELECT pg_backend_pid()');
is(system($node->installed_command('pg_ctl'), 'kill', 'KILL', $pid), 0, 'a backend is killed');
my $anew = "SELECT pg_postmaster_start_time() IS NOT NULL AND NOT pg_is_in_recovery() AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)";
wait_for(sub { (try_sql($node, $anew) // '') eq 't' });
ok($node->poll_query_until('postgres', 'SELECT sum(cardinality(pids)) = 0 FROM pg_stat_snowflake_slots'),
	'shared memory is made anew');
ok($node->poll_query_until('postgres', 'SELECT reserved_until IS NOT NULL FROM pg_stat_snowflake'),
	'and the worker has read the mark');
is(slots('count(*), count(last_id), count(last_ts)'), '31|0|0', 'with nothing drawn yet');
cmp_ok($node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; $draw"),
	'>', $last, 'and IDs are drawn again, above those before');
is(slots('count(last_id), sum(issued)'), '1|1', 'which shows');
eval { $survivor->{run}->kill_kill };
eval { $victim->{run}->kill_kill };

$node->stop;
done_testing();
