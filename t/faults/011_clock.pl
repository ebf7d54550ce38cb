# A clock that steps while backends draw: within max_drift they go on, beyond
# it they wait, beyond max_wait they get an error; and whatever the clock does,
# no ID comes twice, those of a backend ascend, and none is more than max_drift
# below one that was drawn before.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use SnowflakeTest;

my $hour = 3600;
my $day = 24 * $hour;

# Draws an ID, with the clock and a number in the order of all backends before and
# after.
my $look = "nextval('moment'), clock_timestamp(), snowflake_nextval(), clock_timestamp(), nextval('moment')";

# A server with a clock of its own and with what the backends draw by.  They
# keep their IDs with the clock before and after, in the order drawn.
sub clock_node
{
	my ($name, $conf, $clock) = @_;
	my $node = snowflake_node(
		$name, <<CONF . ($conf // ''),
autovacuum = off
log_statement = none
CONF
		clock => $clock // 0);

	$node->safe_psql('postgres', <<SQL);
CREATE SEQUENCE moment;
CREATE UNLOGGED TABLE drawn (
    source int, ord int, began bigint, before timestamptz, id bigint, after timestamptz, ended bigint,
    PRIMARY KEY (source, ord));
CREATE TABLE control AS SELECT false AS stop;
CREATE TABLE mark (source int, ord int);

CREATE PROCEDURE draw(source int) LANGUAGE plpgsql AS \$\$
DECLARE
    ord int := 0;
BEGIN
    LOOP
        INSERT INTO drawn
        SELECT source, ord + g, $look
        FROM generate_series(1, 20) AS g;
        ord := ord + 20;
        COMMIT;
        EXIT WHEN (SELECT stop FROM control);
    END LOOP;
END
\$\$;
SQL
	return $node;
}

# Backends that draw until they are stopped.
sub start_drawing
{
	my ($node, $count) = @_;
	$node->safe_psql('postgres',
		'TRUNCATE drawn; UPDATE control SET stop = false');
	my @psqls = map { start_sql($node, "CALL draw($_)") } 1 .. $count;
	await_progress($node, $count) or die 'the backends do not draw';
	return @psqls;
}

# Each of them has drawn since: at least one whole statement.
sub await_progress
{
	my ($node, $count) = @_;
	$node->safe_psql('postgres', <<SQL);
TRUNCATE mark;
INSERT INTO mark
SELECT s, coalesce((SELECT max(ord) FROM drawn WHERE source = s), 0)
FROM generate_series(1, $count) AS s;
SQL
	return $node->poll_query_until('postgres', <<SQL);
SELECT count(*) = $count FROM mark
WHERE EXISTS (SELECT FROM drawn AS d
              WHERE d.source = mark.source AND d.ord = mark.ord + 40)
SQL
}

sub await_waiting
{
	my ($node, $count) = @_;
	return $node->poll_query_until('postgres', <<SQL);
SELECT count(*) = $count FROM pg_stat_activity
WHERE backend_type = 'client backend' AND wait_event_type = 'Extension'
SQL
}

# Returns what the backends said, which is nothing when all went well.
sub stop_drawing
{
	my ($node, @psqls) = @_;
	$node->safe_psql('postgres', 'UPDATE control SET stop = true');
	return join "\n", grep { $_ ne '' } map { (finish_sql($_))[1] } @psqls;
}

# Unique, ascending, never further ahead than max_drift, nor further below what
# any backend had drawn before.  Where the clock stepped back between the two looks
# at it, nothing can be said of the third.
sub check_drawn
{
	my ($node, $drift, $what) = @_;
	my ($count, $distinct, $falling, $late, $ahead) = split /\|/,
	  $node->safe_psql('postgres', <<SQL);
SELECT count(*), count(DISTINCT id),
       count(*) FILTER (WHERE id <= previous),
       count(*) FILTER (WHERE ahead > interval '$drift ms'),
       ceil(extract(epoch FROM max(ahead)) * 1000)
FROM (SELECT id, lag(id) OVER (PARTITION BY source ORDER BY ord) AS previous,
             CASE WHEN after >= before
                  THEN snowflake_timestamp(id) - after END AS ahead
      FROM drawn) AS d
SQL
	note "$what: $count IDs, at most $ahead ms ahead of the clock";
	is($distinct, $count, "$what: unique");
	is($falling, 0, "$what: each backend's IDs ascend");
	is($late, 0, "$what: no ID is more than $drift ms ahead");
	my ($low, $below) = split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT count(*) FILTER (WHERE below > interval '$drift ms'),
       coalesce(ceil(extract(epoch FROM max(below)) * 1000), 0)
FROM (SELECT is_drawn, max(ts) FILTER (WHERE is_drawn) OVER (ORDER BY moment) - ts AS below
      FROM (SELECT ended AS moment, true AS is_drawn, snowflake_timestamp(id) AS ts FROM drawn
            UNION ALL
            SELECT began, false, snowflake_timestamp(id) FROM drawn) AS m) AS d
WHERE NOT is_drawn
SQL
	is($low, 0, "$what: nor below an ID that was drawn before");
	note "$what: at most $below ms below";
	return ($count, $ahead);
}

# What a session answers, which goes on after an error: the result and the error.
sub ask
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	my $result = $session->query($sql);
	my $error = psql_error($session->{stderr});
	$session->{stderr} = '';
	return ($result, $error);
}

# An ID and the error that was raised in its place.
sub draw_one { return ask($_[0], 'SELECT snowflake_nextval()'); }

# It is the clock that is in the way, and not the durable mark.
sub is_behind
{
	my ($error, $name) = @_;
	return is(
		"$error->{sqlstate}: $error->{message}",
		'55P03: cannot generate a snowflake ID: the clock is behind the last ID',
		$name);
}

sub set_configuration
{
	my ($node, $name, $value, @sessions) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	reload_node($node);
	$node->poll_query_until('postgres',
		"SELECT current_setting('$name') = '$value'")
	  or die "$name was not set";
	foreach my $session (@sessions)
	{
		1 until (ask($session, "SHOW $name"))[0] eq $value;
	}
	return;
}

sub ms_ahead
{
	my ($error) = @_;
	return $error->{detail} =~ /which is (\d+) ms ahead/ ? $1 : -1;
}

#
# Steps within max_drift: go on.  With no time to wait, waiting would show as
# an error.  The mark is kept so far ahead that nobody waits for it but the
# first.
#
my $node = clock_node('clock', <<'CONF');
snowflake.max_drift = 60s
snowflake.reserve_window = 10min
CONF
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_configuration($node, 'snowflake.max_wait', '0');

my $clock = 'SELECT extract(epoch FROM clock_timestamp())';
cmp_ok(abs($node->safe_psql('postgres', $clock) - time),
	'<', 60, 'the server has the real time');
set_clock($node, -$day);
cmp_ok(abs($node->safe_psql('postgres', $clock) - time + $day),
	'<', 60, 'and then another');
set_clock($node, 0);

{
	my @psqls = start_drawing($node, 6);
	my $new = 100;

	# a backend may see a step before another one does, so all are within 60 s
	for my $seconds (-20, -40, 0, -30, 5, -45, -50, 5)
	{
		set_clock($node, $seconds);
		ok(await_progress($node, 6),
			"clock at $seconds s: all backends go on");
		$node->safe_psql('postgres', <<SQL);
INSERT INTO drawn
SELECT $new, 1, $look
SQL
		$new++;
	}
	is(stop_drawing($node, @psqls), '', 'and none has an error');
	my (undef, $ahead) = check_drawn($node, 60_000, 'steps within max_drift');
	cmp_ok($ahead, '>', 10_000, 'IDs were ahead of the clock');
	set_clock($node, 0);
}

#
# A step beyond max_drift: wait, and go on when the clock is near enough.
#
set_configuration($node, 'snowflake.max_drift', '500ms');
set_configuration($node, 'snowflake.max_wait', '10min');
{
	my @psqls = start_drawing($node, 6);

	set_clock($node, -$hour);
	ok(await_waiting($node, 6), 'an hour back: all backends wait');
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM drawn');
	ok(await_waiting($node, 6), 'and go on waiting') for 1 .. 3;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM drawn'),
		$count, 'and draw nothing');

	# Set forward, but not far enough yet: the rest they wait out.
	my $last = $node->safe_psql('postgres', 'SELECT max(after) FROM drawn');
	my $behind = $node->safe_psql('postgres',
		"SELECT extract(epoch FROM clock_timestamp() - '$last')");
	set_clock($node, -$hour - $behind - 2);
	ok(await_progress($node, 6), 'two seconds back: all backends go on');

	set_clock($node, -$hour);
	ok(await_waiting($node, 6), 'again back: all backends wait again');
	set_clock($node, 0);
	ok(await_progress($node, 6), 'set right: all backends go on at once');

	is(stop_drawing($node, @psqls), '', 'and none has an error');
	check_drawn($node, 500, 'steps beyond max_drift');
}

#
# Past max_wait: an error; and the session can draw again when the clock is
# right.
#
{
	my $session = session($node);
	my (@ids, $id, $error, $begin);

	push @ids, (draw_one($session))[0];
	ask($session, "SET snowflake.max_wait = '300ms'");
	set_clock($node, -$hour);
	$begin = clock_gettime(CLOCK_MONOTONIC);
	($id, $error) = draw_one($session);
	my $waited = clock_gettime(CLOCK_MONOTONIC) - $begin;

	is($id, '', 'an hour back, past max_wait: no ID');
	is($error->{sqlstate}, '55P03', 'but an error');
	is( $error->{message},
		'cannot generate a snowflake ID: the clock is behind the last ID',
		'which says what is wrong');
	like(
		$error->{detail},
		qr/^The clock shows \d{4}-.*\+00\. The latest ID is of \d{4}-.*\+00, which is \d+ ms ahead; "snowflake\.max_drift" allows 500 ms\. Waited for "snowflake\.max_wait", 300 ms\.$/,
		'and how far');
	cmp_ok(abs(ms_ahead($error) - $hour * 1000),
		'<', 100_000, 'which is an hour');
	is( $error->{hint},
		q{Set the server's clock. If it is right, wait until it has caught up, or raise "snowflake.max_drift" to go on ahead of it.},
		'and what to do');
	cmp_ok($waited, '>=', 0.3, 'after max_wait');
	note sprintf 'the error came after %.0f ms', $waited * 1000;

	set_clock($node, 0);
	push @ids, (draw_one($session))[0] for 1 .. 3;

	# no wait at all
	ask($session, 'SET snowflake.max_wait = 0');
	set_clock($node, -$hour);
	($id, $error) = draw_one($session);
	is_behind($error, 'max_wait = 0: an error');
	like($error->{detail}, qr/Waited for "snowflake\.max_wait", 0 ms\.$/,
		'with no wait');
	($id, $error) = ask($session, 'SELECT count(*) FROM snowflake_nextval(10)');
	is_behind($error, 'also for a batch');
	set_clock($node, 0);
	push @ids, (draw_one($session))[0];

	# no drift at all
	set_configuration($node, 'snowflake.max_drift', '0', $session);
	push @ids, (draw_one($session))[0];
	is( (ask($session, <<'SQL'))[0],
SELECT count(*) || ' ' || count(*) FILTER (WHERE snowflake_timestamp(id) > now)
FROM (SELECT snowflake_nextval() AS id, clock_timestamp() AS now
      FROM generate_series(1, 20000) OFFSET 0) AS d
SQL
		'20000 0',
		'max_drift = 0: IDs come, none of them ahead of the clock');
	push @ids, (draw_one($session))[0];
	set_clock($node, -10);
	($id, $error) = draw_one($session);
	is_behind($error, 'ten seconds back: an error');
	like($error->{detail}, qr/"snowflake\.max_drift" allows 0 ms\./,
		'which names max_drift');
	set_clock($node, 0);
	push @ids, (draw_one($session))[0];

	is(scalar(grep { /^\d+$/ } @ids), 8, 'with the clock right again IDs come');
	is_deeply(\@ids, [ sort { $a <=> $b } @ids ], 'in ascending order');
	$session->quit;
	set_configuration($node, 'snowflake.max_drift', '500ms');
}

#
# Waits can be ended
#
{
	my $lock = $node->background_psql('postgres');
	$lock->query_safe('SELECT pg_advisory_lock(1)');

	# Each has drawn an ID before the clock is set back.
	my $script = <<'SQL';
SELECT snowflake_nextval();
SELECT pg_advisory_lock_shared(1);
SET snowflake.max_wait = '1h';
SQL
	my %psql = (
		timeout => start_sql($node, "$script
SET statement_timeout = '300ms';
SELECT snowflake_nextval(), 'timeout'"),
		error => start_sql($node, "SET application_name = 'error';
$script
SET snowflake.max_wait = '2s';
\\timing on
SELECT snowflake_nextval(), 'error'"),
		map {
			$_ => start_sql($node, "$script
SELECT snowflake_nextval(), '$_'")
		} qw(cancel terminate shutdown));

	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 5 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
		),
		'five backends have drawn an ID');
	set_clock($node, -$hour);
	$lock->quit;

	# One waits for max_wait.  That is not measured by the clock that steps,
	# which would have it that the time is over.
	$node->poll_query_until('postgres', <<'SQL');
SELECT NOT EXISTS (SELECT FROM pg_stat_activity
                   WHERE application_name = 'error'
                     AND wait_event_type IS DISTINCT FROM 'Extension')
SQL
	set_clock($node, -$hour / 2);
	my ($time, $error) = finish_sql($psql{error});
	is(psql_error($error)->{sqlstate}, '55P03', 'max_wait ends a wait');
	my ($ms) = $time =~ /Time: ([\d.]+) ms/;
	note "it waited for $ms ms";

	# psql and the server read two clocks, which need not agree to the millisecond.
	cmp_ok($ms, '>=', 1990, 'not earlier than it should');

	$error = psql_error((finish_sql($psql{timeout}))[1]);
	is($error->{sqlstate}, '57014', 'statement_timeout ends a wait');
	is( $error->{message},
		'canceling statement due to statement timeout',
		'as itself');

	ok(await_waiting($node, 3), 'the others wait');
	my $select = sub {
		return "SELECT $_[0](pid) FROM pg_stat_activity"
		  . " WHERE query LIKE '%, ''$_[1]''%' AND pid <> pg_backend_pid()";
	};
	is( $node->safe_psql('postgres', $select->('pg_cancel_backend', 'cancel')),
		't', 'pg_cancel_backend is sent');
	is(psql_error((finish_sql($psql{cancel}))[1])->{sqlstate},
		'57014', 'it ends a wait');
	is( $node->safe_psql('postgres',
			$select->('pg_terminate_backend', 'terminate')),
		't', 'pg_terminate_backend is sent');
	is(psql_error((finish_sql($psql{terminate}))[1])->{sqlstate},
		'57P01', 'it ends a wait');

	ok(await_waiting($node, 1), 'one waits');
	$node->stop('fast');
	is(psql_error((finish_sql($psql{shutdown}))[1])->{sqlstate},
		'57P01', 'a fast shutdown ends a wait');
}

#
# A restart with the clock set back, after a clean stop and after a crash:
# nothing is drawn before the clock has come to where it was.
#
foreach my $how (qw(fast immediate))
{
	set_clock($node, 0);
	start_node($node);
	my $last = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my $drawn_at = time;
	$node->stop($how);

	set_clock($node, -$hour / 2);
	start_node($node);
	my $session = session($node);
	ask($session, "SET snowflake.max_wait = '2s'");
	my ($id, $error);
	foreach (1 .. 50)
	{
		# the worker reads the mark a moment after the start
		($id, $error) = draw_one($session);
		last if $error->{message} !~ /could not be raised/;
	}
	is_behind($error, "restarted ($how) half an hour back: an error");
	# after a crash, the ten minutes that were reserved count too
	my $ahead = ($hour / 2 - (time - $drawn_at)) * 1000 + ($how eq 'fast' ? 0 : 600_000);
	cmp_ok(abs(ms_ahead($error) - $ahead), '<', 30_000, 'which says how far');
	is( $node->safe_psql('postgres', <<'SQL'),
SELECT count(*), count(last_id), count(last_ts), sum(issued)
FROM pg_stat_snowflake_slots
SQL
		'31|0|0|0',
		'and nothing is shown as drawn');

	set_clock($node, $how eq 'fast' ? 0 : 600);
	ask($session, "SET snowflake.max_wait = '1min'");
	($id) = draw_one($session);
	cmp_ok($id, '>', $last, 'the clock set right: IDs go on');
	$session->quit;
	$node->stop;
}

#
# Forward by a day, and back: all wait for tomorrow, with worker numbers or
# without, also a backend that begins now.
#
foreach my $layout ('time:41 node:5 worker:5 sequence:12',
	'time:41 node:10 sequence:12')
{
	$node = clock_node('day' . length $layout, <<CONF);
snowflake.layout = '$layout'
CONF
	my $session = session($node);
	my (@ids, $id, $error);

	note "layout $layout";
	push @ids, (draw_one($session))[0];
	set_clock($node, $day);
	push @ids, (draw_one($session))[0];
	my $drawn_at = time;
	# that far the mark is ahead now: from here on no wait is for it
	set_configuration($node, 'snowflake.max_wait', '0', $session);
	is( (ask($session, <<SQL))[0],
SELECT snowflake_timestamp($ids[1]) - snowflake_timestamp($ids[0]) >= '1 day'
SQL
		't',
		'a day forward: the next ID is of tomorrow');

	set_clock($node, 0);
	($id, $error) = draw_one($session);
	is_behind($error, 'and back: an error, not an earlier ID');
	cmp_ok(abs(ms_ahead($error) - ($day - (time - $drawn_at)) * 1000),
		'<', 100_000, 'which says that the clock is a day behind');

	# another backend with the same slot
	$session->quit;
	ok( $node->poll_query_until('postgres',
			'SELECT sum(cardinality(pids)) = 0 FROM pg_stat_snowflake_slots'),
		'the backend exits');
	$session = session($node);
	($id, $error) = draw_one($session);
	is_behind($error, 'the next backend: an error');

	set_clock($node, $day + 1);
	ask($session, "SET snowflake.max_wait = '1min'");
	push @ids, (draw_one($session))[0];
	is(scalar(grep { /^\d+$/ } @ids), 3, 'forward again: IDs come');
	is_deeply(\@ids, [ sort { $a <=> $b } @ids ], 'in ascending order');
	$node->stop;
}

#
# Before the epoch
#
my $epoch = 1577836800;    # 2020-01-01 00:00:00+00
$node = clock_node('epoch', '', $epoch - 3000 - time);
{
	my $session = session($node);
	my (@ids, $id, $error);

	($id, $error) = draw_one($session);
	is($error->{sqlstate}, '55000', 'before the epoch: an error');
	is($error->{message}, 'cannot generate snowflake IDs before their epoch',
		'which says so');
	like(
		$error->{detail},
		qr/^The clock shows 2019-12-31 23:\S+\+00, "snowflake\.epoch" is 2020-01-01 00:00:00\+00\.$/,
		'and which clock and epoch');
	is($error->{hint}, q{Set the server's clock. If it is right, set "snowflake.epoch" to an instant that is past, and restart the server.}, 'and what to do');

	set_clock($node, $epoch + 3 - time);
	push @ids, (draw_one($session))[0];
	like($ids[0], qr/^\d+$/, 'after it: an ID');
	is( (ask($session, <<SQL))[0],
SELECT snowflake_timestamp($ids[0]) < '2020-01-01 01:00+00'
SQL
		't',
		'of the first hour');

	set_clock($node, $epoch - $hour - time);
	($id, $error) = draw_one($session);
	is($error->{message}, 'cannot generate snowflake IDs before their epoch',
		'back before the epoch: an error');
	$session->quit;
	$node->stop;
}

#
# Past the lifetime.  With 63 bits in use the next ID would be negative.
#
my $end = $epoch + 2**24;
$node = clock_node('lifetime', <<'CONF', $end - 1000 - time);
snowflake.layout = 'time:24@1s node:31 worker:2 sequence:6'
snowflake.node_id = 2147483647
snowflake.sequence_start = zero
snowflake.max_drift = 60s
snowflake.max_wait = 60s
CONF
{
	my ($id, $error);

	# The backends borrow all that is left.
	my @psqls = start_drawing($node, 3);
	set_clock($node, $end - 58 - time);
	ok( $node->poll_query_until('postgres', <<'SQL'),
SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'CALL%'
SQL
		'the backends come to an end');
	$node->safe_psql('postgres', 'UPDATE control SET stop = true');
	foreach my $psql (@psqls)
	{
		$error = psql_error((finish_sql($psql))[1]);
		is($error->{sqlstate}, '2200H',
			'at the end of the lifetime: an error');
	}
	is( $node->safe_psql('postgres',
			'SELECT max(last_id) FROM pg_stat_snowflake_slots'),
		'9223372036854775743',
		'after the last ID that there is but for those of worker 3');
	is( $error->{message},
		'the lifetime of the snowflake layout has ended',
		'which says so');
	like(
		$error->{detail},
		qr/^The layout "time:24\@1s node:31 worker:2 sequence:6" with epoch 2020-01-01 00:00:00\+00 ends at 2020-07-13 04:20:16\+00\. The clock shows 2020-07-13 04:19:\S+\+00\.$/,
		'and when');
	is( $error->{hint},
		q{If the clock is right, set a later "snowflake.epoch": IDs begin anew. If they go to tables with old IDs, also set a "snowflake.node_id" that no server has had. Then restart the server and call snowflake_accept_layout().},
		'and what to do');

	check_drawn($node, 60_000, 'up to the end');
	is($node->safe_psql('postgres', 'SELECT min(id) > 0 FROM drawn'),
		't', 'none of the IDs is negative');

	my $session = session($node);
	($id, $error) = draw_one($session);
	is($error->{sqlstate}, '2200H', 'a new backend: an error');
	ask($session, 'SET snowflake.max_wait = 0');
	foreach my $seconds (0, 40 * 365 * $day, -50)
	{
		set_clock($node, $end + $seconds - time);
		($id, $error) = draw_one($session);
		is($error->{sqlstate}, '2200H',
			"clock at the end and $seconds s: an error");
	}

	# The clock is what is wrong here, or the end is: either will do.
	set_clock($node, $end - 1000 - time);
	($id, $error) = draw_one($session);
	like($error->{sqlstate}, qr/^(55P03|2200H)$/,
		'back before the end: an error, not an earlier ID');
	$session->quit;
	$node->stop;
}

#
# Drawing faster than the layout allows
#
$node = clock_node('rate', <<'CONF');
snowflake.layout = 'time:41 node:5 worker:0 sequence:2'
snowflake.max_drift = 100ms
snowflake.reserve_window = 10min
CONF
{
	my @psqls = start_drawing($node, 4);
	ok($node->poll_query_until('postgres',
			'SELECT count(*) > 12000 FROM drawn'), 'IDs come at 4 a millisecond');
	is(stop_drawing($node, @psqls), '', 'with no error');
	my ($count, $ahead) = check_drawn($node, 100, 'too fast');
	cmp_ok($ahead, '>', 50, 'the backends borrow from the future');
	my $ms = $node->safe_psql('postgres', <<'SQL');
SELECT extract(epoch FROM snowflake_timestamp(max(id))
                          - snowflake_timestamp(min(id))) * 1000 + 1
FROM drawn
SQL
	note sprintf '%.2f IDs a millisecond', $count / $ms;

	my ($session) = session($node);
	my ($result, $error);
	ask($session, 'SET snowflake.max_wait = 0');
	($result, $error) =
	  ask($session, 'SELECT count(*) FROM snowflake_nextval(100000)');
	is($error->{sqlstate}, '55P03', 'max_wait = 0: an error');
	is( $error->{message},
		'cannot generate a snowflake ID: all sequence numbers are in use',
		'which says what is wrong');
	is(ms_ahead($error), 101, 'and how far');
	is( $error->{hint},
		'Draw fewer IDs at a time. A new server can have a layout with more sequence or worker bits.',
		'and what to do');

	# With no drift, each millisecond is waited for.
	set_configuration($node, 'snowflake.max_drift', '0', $session);
	ask($session, "SET snowflake.max_wait = '10min'");
	($result) = ask($session, <<'SQL');
SELECT count(*), count(DISTINCT id >> 7),
       count(*) FILTER (WHERE snowflake_timestamp(id) > now)
FROM (SELECT snowflake_nextval(4000) AS id, clock_timestamp() AS now) AS d
SQL
	my ($ids, $units, $late) = split /\|/, $result;
	is($ids, 4000, 'max_drift = 0: IDs come');
	is($late, 0, 'none ahead of the clock');
	cmp_ok($units, '>=', 1000, 'four a millisecond');
	note "$ids IDs in $units milliseconds";
	$session->quit;
	$node->stop;
}

#
# The same time again: each backend lives through the milliseconds in which the
# one before it drew, and exited
#
foreach my $layout ('time:41 node:5 worker:2 sequence:4',
	'time:41 node:5 sequence:4')
{
	$node = clock_node('again' . length $layout, <<CONF);
snowflake.layout = '$layout'
snowflake.max_drift = 0
snowflake.max_wait = 10min
CONF
	my $seconds = 0;
	for my $source (1 .. 6)
	{
		$node->safe_psql('postgres', <<SQL);
INSERT INTO drawn
SELECT $source, g, $look
FROM generate_series(1, 3000) AS g
SQL
		$seconds -= $node->safe_psql('postgres', <<SQL);
SELECT extract(epoch FROM clock_timestamp() - min(before))
FROM drawn WHERE source = $source
SQL
		set_clock($node, $seconds);
	}
	check_drawn($node, 0, "the same time again, $layout");
	note sprintf 'the clock is %.3f s behind', -$seconds;
	$node->stop;
}

#
# Back and forth, by anything
#
$node = clock_node('random', <<'CONF');
snowflake.layout = 'time:41 node:5 worker:2 sequence:8'
snowflake.max_drift = 300ms
snowflake.max_wait = 10min
CONF
{
	my $seed = srand;
	my @psqls = start_drawing($node, 8);
	my ($seconds, $waits, $new) = (0, 0, 100);

	note "random seed $seed";
	for my $step (1 .. 20)
	{
		my $by = 0.1 + rand($step % 2 ? 0.2 : 1.5);
		$by = -$by if rand() < 0.5;
		$by = -$by if abs($seconds + $by) > 2;
		$seconds += $by;
		set_clock($node, $seconds);
		$waits++ if $by < -0.3;
		if (!await_progress($node, 8))
		{
			fail(sprintf 'all go on after a step by %+.3f s to %+.3f s',
				$by, $seconds);
			last;
		}
		# a backend that comes and goes
		$node->safe_psql('postgres', <<SQL);
INSERT INTO drawn
SELECT $new, 1, $look
SQL
		$new++;
	}
	is(stop_drawing($node, @psqls), '', 'all steps: no errors');
	my ($count) = check_drawn($node, 300, 'back and forth');
	note "$waits of the steps were back by more than max_drift";
	is( $node->safe_psql('postgres',
			'SELECT sum(issued) FROM pg_stat_snowflake_slots'),
		$count, 'all IDs that were drawn are there');
	$node->stop;
}

done_testing();
