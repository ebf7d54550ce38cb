# No ID twice, and each backend's own IDs in ascending order, whatever draws
# them: single calls, batches, parallel workers, more backends than worker
# slots, and a backend that is terminated while it draws.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $speed = <<'CONF';
wal_level = minimal
max_wal_senders = 0
synchronous_commit = off
full_page_writes = off
autovacuum = off
log_statement = none
shared_buffers = 128MB
max_connections = 80
maintenance_work_mem = 256MB
CONF

# All IDs go into one table.  "source" is the backend that drew the ID,
# "statement" the number of its statement, "rising" whether the ID is above
# the one that the same statement drew before.
my $table = <<'SQL';
CREATE UNLOGGED TABLE ids (source int, statement int, rising bool, id bigint);
SQL

# Statements of one source.  Their rows come from a stream in the order in
# which the IDs are drawn, so lag() with no ORDER BY is the ID drawn before.
sub draw
{
	my ($source, @streams) = @_;
	my $statement = 1;

	return join '', map {
		"INSERT INTO ids SELECT $source, "
		  . $statement++
		  . ", coalesce(id > lag(id) OVER (), true), id FROM ($_) AS d;\n"
	} @streams;
}

sub singles
{
	my ($count) = @_;
	return 'SELECT snowflake_nextval() AS id'
	  . " FROM generate_series(1, $count) OFFSET 0";
}

# batches of 0, 1, ... 999 IDs, over and over
sub batches
{
	my ($count) = @_;
	return 'SELECT snowflake_nextval(g % 1000) AS id'
	  . " FROM generate_series(0, $count - 1) AS g";
}

# one large batch
sub batch { return "SELECT * FROM snowflake_nextval($_[0]) AS d(id)"; }

# A source that has a connection and a worker slot, and then waits for the
# others, so that all draw at the same time.
my $await_start = 'SELECT pg_advisory_lock_shared(1);';

sub source
{
	my ($source, @streams) = @_;
	return
		"INSERT INTO ids VALUES ($source, 0, true, snowflake_nextval());\n"
	  . "$await_start\n"
	  . draw($source, @streams);
}

# Hold the sources back, until the session that is returned ends.
sub hold_back
{
	my ($node) = @_;
	my $lock = $node->background_psql('postgres');
	$lock->query_safe('SELECT pg_advisory_lock(1)');
	return $lock;
}

# So many of them have a slot.
sub await_sources
{
	my ($node, $count) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(DISTINCT source) = $count FROM ids")
	  || BAIL_OUT('the sources did not start');
}

# Unique, ascending, counted.  Returns the number of IDs.
sub check_ids
{
	my ($node, $expected, $not_kept) = @_;
	my ($ret, $stdout, $stderr) =
	  $node->psql('postgres', 'CREATE UNIQUE INDEX ids_id ON ids (id)');
	is($stderr, '', 'unique: the unique index is built');

	is($node->safe_psql('postgres', 'SELECT count(*) FROM ids'),
		$expected, "all $expected IDs are there");

	is($node->safe_psql('postgres', 'SELECT count(*) FROM ids WHERE NOT rising'),
		0, 'ascending: each ID is above the one before in its statement');
	is( $node->safe_psql('postgres', <<'SQL'),
SELECT count(*)
FROM (SELECT first, lag(last) OVER (PARTITION BY source ORDER BY statement) AS previous
      FROM (SELECT source, statement, min(id) AS first, max(id) AS last
            FROM ids GROUP BY source, statement) AS s) AS s
WHERE first <= previous
SQL
		0,
		'ascending: each statement is above the one before of its backend');

	is( $node->safe_psql('postgres',
			'SELECT sum(issued) FROM pg_stat_snowflake_slots'),
		$expected + $not_kept,
		'pg_stat_snowflake_slots counts every ID drawn');
	return;
}

#
# 22 million IDs on a server as it comes
#
{
	my $node = snowflake_node('big', <<CONF);
$speed
max_worker_processes = 20
max_parallel_workers = 8
max_parallel_workers_per_gather = 4
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
synchronize_seqscans = off
CONF
	my $slots = $node->safe_psql('postgres',
		'SELECT count(*) FROM pg_stat_snowflake_slots');
	my $begin = $node->safe_psql('postgres', 'SELECT clock_timestamp()');

	# The parallel workers draw one ID for each row of this table.  Each reads
	# it in ascending order of n.
	my $parallel_rows = 1_000_000;
	$node->safe_psql(
		'postgres', <<SQL);
$table
CREATE UNLOGGED TABLE rows AS SELECT n FROM generate_series(1, $parallel_rows) AS n;
-- pg_backend_pid() that a parallel worker may call
CREATE FUNCTION worker_pid() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE
AS 'BEGIN RETURN pg_backend_pid(); END';
-- how many IDs the backend that is terminated has drawn: not rolled back
CREATE UNLOGGED SEQUENCE victim_draws;
SQL

	my $lock = hold_back($node);
	my $expected = 0;
	my $next_source = 1;
	my (@single_sources, @psqls);

	for (1 .. 7)
	{
		push @single_sources, $next_source;
		push @psqls,
		  start_sql($node, source($next_source++, (singles(400_000)) x 5));
		$expected += 1 + 5 * 400_000;
	}
	for (1 .. 2)
	{
		push @psqls,
		  start_sql($node, source($next_source++, (batches(1000)) x 4));
		$expected += 1 + 4 * 499_500;
	}
	push @psqls, start_sql($node, source($next_source++, batch(1_000_000)));
	$expected += 1 + 1_000_000;

	# With these there are more backends than slots.
	my $many = $slots + 8;
	for (1 .. $many)
	{
		push @psqls, start_sql($node, source($next_source++, singles(60_000)));
		$expected += 1 + 60_000;
	}

	my @parallel = map {
		start_sql($node, source($next_source++) . <<SQL);
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)
CREATE UNLOGGED TABLE parallel_$_ AS
SELECT worker_pid() AS pid, n, snowflake_nextval() AS id FROM rows;
SQL
	} 1 .. 2;
	$expected += @parallel * (1 + $parallel_rows);

	# What the victim has committed stays, all else was drawn and is lost.
	my $victim_source = $next_source++;
	my $victim = start_sql($node, <<SQL);
INSERT INTO ids VALUES ($victim_source, 0, true, snowflake_nextval());
$await_start
DO \$\$
BEGIN
    FOR i IN 1 .. 1000000000 LOOP
        INSERT INTO ids
        SELECT $victim_source, i, coalesce(id > lag(id) OVER (), true), id
        FROM (SELECT snowflake_nextval() AS id, nextval('victim_draws')
              FROM generate_series(1, 1000) OFFSET 0) AS d;
        COMMIT;
    END LOOP;
END
\$\$;
SQL
	$expected += 1;

	ok(await_sources($node, $next_source - 1), 'all backends have drawn an ID');
	my ($backends, $fullest) = split /\|/,
	  $node->safe_psql('postgres',
		'SELECT sum(cardinality(pids)), max(cardinality(pids)) FROM pg_stat_snowflake_slots'
	  );
	note "$backends backends on $slots slots, at most $fullest on one";
	is($backends, $next_source - 1, 'the view shows who has a slot');
	# one slot is given to nobody
	is($fullest, int(($backends + $slots - 2) / ($slots - 1)),
		'the others are given out evenly');

	$lock->quit;

	# Terminate the victim in the middle of a statement.
	ok( $node->poll_query_until('postgres',
			'SELECT last_value > 20000 FROM victim_draws'),
		'the victim draws');
	is( $node->safe_psql('postgres',
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO%'"
		),
		't', 'the victim is terminated');
	my (undef, $victim_stderr) = finish_sql($victim);
	is(psql_error($victim_stderr)->{sqlstate},
		'57P01', 'and ends by that');

	my $marker = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my $running = $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT%'");
	note "$running backends go on";

	# Look at how far ahead the IDs are while they are drawn.
	my ($looks, $ahead) = (0, 0);
	while ($node->safe_psql('postgres',
			"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT%'"
		) > 0)
	{
		my $ms = $node->safe_psql('postgres', <<'SQL');
SELECT ceil(extract(epoch FROM max(last_ts) - clock_timestamp()) * 1000)
FROM pg_stat_snowflake_slots
SQL
		$ahead = $ms if $ms > $ahead;
		$looks++;
	}
	note "at most $ahead ms ahead of the clock, in $looks looks";
	cmp_ok($ahead, '<=', 1000, 'no ID is more than max_drift ahead');

	my $errors = '';
	$errors .= (finish_sql($_))[1] for @psqls;
	is($errors, '', 'all others draw their IDs with no error');

	# What the parallel workers drew joins the rest.
	for my $i (1 .. @parallel)
	{
		my ($plan, $stderr) = finish_sql($parallel[ $i - 1 ]);
		my ($launched) = $plan =~ /Workers Launched: (\d+)/;
		is($stderr, '', "parallel query $i draws with no error");
		cmp_ok($launched // 0, '>', 0, 'with parallel workers');

		my ($pids, $workers) = split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT count(DISTINCT pid), count(DISTINCT (snowflake_parse(id)).worker)
FROM parallel_$i
SQL
		note "$launched workers launched, $pids processes drew IDs, "
		  . "with $workers worker numbers";
		cmp_ok($pids, '>', 1, 'more than one process draws');
		cmp_ok($workers, '>', 1, 'with more than one worker number');
		$node->safe_psql('postgres', <<SQL);
INSERT INTO ids
SELECT -(pid + $i * 10000000), 1,
       coalesce(id > lag(id) OVER (PARTITION BY pid ORDER BY n), true), id
FROM parallel_$i
SQL
	}

	my ($kept, $statements) = split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT count(*), max(statement) FROM ids
WHERE source = $victim_source AND statement > 0
SQL
	my $drawn =
	  $node->safe_psql('postgres', 'SELECT last_value FROM victim_draws');
	note "the victim drew $drawn IDs, $kept of them committed";
	is($kept, 1000 * $statements, 'what the victim committed is there');

	note $expected + $kept . ' IDs in all';
	cmp_ok($expected + $kept, '>=', 20_000_000, 'at least 20 million IDs');
	check_ids($node, $expected + $kept, $drawn - $kept + 1);

	my $went_on = $node->safe_psql('postgres', <<SQL);
SELECT count(DISTINCT source) FROM ids
WHERE id > $marker AND source IN (@{[ join ', ', @single_sources ]})
SQL
	is($went_on, scalar(@single_sources),
		'others drew on after the victim was terminated');

	is( $node->safe_psql('postgres', <<SQL),
SELECT snowflake_timestamp(min(id)) >= date_trunc('milliseconds', timestamptz '$begin'),
       snowflake_timestamp(max(id)) <= clock_timestamp()
FROM ids
SQL
		't|t',
		'all times are between the beginning and now');

	# With enough sequence numbers, the time is the millisecond of the call.
	my @timed = map {
		start_sql($node, <<SQL) } 1 .. 3;
CREATE UNLOGGED TABLE timed_$_ AS
SELECT clock_timestamp() AS before, snowflake_nextval() AS id, clock_timestamp() AS after
FROM generate_series(1, 200000);
SELECT count(*) FROM timed_$_
WHERE snowflake_timestamp(id) NOT BETWEEN date_trunc('milliseconds', before) AND after;
SQL
	is((finish_sql($_))[0], 0, 'each ID has the millisecond it was drawn in')
	  for @timed;

	$node->stop;
}

#
# Too few sequence numbers and slots: hopping, borrowing and waiting all the
# time, with the slots shared
#
{
	my $drift = 50;
	my $node = snowflake_node('small', <<CONF);
$speed
snowflake.layout = 'time:41 node:10 worker:3 sequence:6'
snowflake.max_drift = ${drift}ms
snowflake.max_wait = 600s
CONF
	$node->safe_psql('postgres', <<SQL);
$table
CREATE UNLOGGED TABLE timed (id bigint, after timestamptz);
SQL

	my $lock = hold_back($node);
	my $expected = 0;
	my @psqls;

	for my $source (1 .. 12)
	{
		push @psqls, start_sql($node,
			$source % 3 == 0
			? source($source, batches(200), batches(200))
			: source($source, (singles(20_000)) x 3));
		$expected += 1 + ($source % 3 == 0 ? 2 * 19_900 : 3 * 20_000);
	}
	push @psqls, start_sql($node, <<SQL);
$await_start
INSERT INTO timed
SELECT snowflake_nextval(), clock_timestamp() FROM generate_series(1, 50000);
SQL
	ok(await_sources($node, 12), 'all backends have drawn an ID');
	$lock->quit;

	my $errors = '';
	$errors .= (finish_sql($_))[1] for @psqls;
	is($errors, '', 'all draw their IDs with no error');

	$node->safe_psql('postgres',
		'INSERT INTO ids SELECT 13, 1, coalesce(id > lag(id) OVER (), true), id FROM timed'
	);
	check_ids($node, $expected + 50_000, 0);

	my ($ms, $late) = split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT ceil(extract(epoch FROM max(snowflake_timestamp(id) - after)) * 1000),
       count(*) FILTER (WHERE snowflake_timestamp(id) > after + interval '$drift ms')
FROM timed
SQL
	note "@{[ $expected + 50_000 ]} IDs, at most $ms ms ahead of the clock";
	is($late, 0, 'no ID is more than max_drift ahead');
	cmp_ok($ms, '>', 1, 'but some are ahead');

	my ($workers) = split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT min(workers)
FROM (SELECT count(DISTINCT (snowflake_parse(id)).worker) AS workers
      FROM ids WHERE statement > 0 GROUP BY source) AS s
SQL
	cmp_ok($workers, '>', 1, 'each backend draws with several worker numbers');

	$node->stop;
}

#
# Without worker numbers: ascending over all backends
#
{
	my $node = snowflake_node('one', <<CONF);
$speed
snowflake.layout = 'time:41 node:10 sequence:12'
CONF
	my $turns = 5000;

	# One backend draws at a time, and the one that waited longest is next.
	$node->safe_psql(
		'postgres', <<SQL);
$table
CREATE UNLOGGED TABLE turns (turn bigint, source int, id bigint);
CREATE UNLOGGED SEQUENCE turn;
CREATE PROCEDURE take_turns(source int, turns int, batch int) LANGUAGE plpgsql AS \$\$
BEGIN
    FOR i IN 1 .. turns LOOP
        PERFORM pg_advisory_lock(2);
        INSERT INTO turns VALUES (nextval('turn'), source, snowflake_nextval());
        IF batch > 0 THEN
            INSERT INTO turns SELECT nextval('turn'), source, id
            FROM (SELECT snowflake_nextval(batch) AS id) AS d;
        END IF;
        PERFORM pg_advisory_unlock(2);
    END LOOP;
END
\$\$;
SQL
	my $lock = hold_back($node);
	my @psqls = (
		map({
			start_sql($node, source($_) . "CALL take_turns($_, $turns, 0)") }
			1 .. 3),
		# more than a millisecond has: later IDs are ahead of the clock
		start_sql($node, source(4) . 'CALL take_turns(4, 100, 5000)'));
	ok(await_sources($node, 4), 'all backends have drawn an ID');

	# All of them stand in the queue before the first turn.
	my $turn = $node->background_psql('postgres');
	$turn->query_safe('SELECT pg_advisory_lock(2)');
	$lock->quit;
	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 4 FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND NOT granted"
		),
		'all backends wait for their turn');
	$turn->quit;

	my $errors = '';
	$errors .= (finish_sql($_))[1] for @psqls;
	is($errors, '', 'all draw their IDs with no error');

	my ($count, $falling, $changes) =
	  split /\|/, $node->safe_psql('postgres', <<SQL);
SELECT count(*),
       count(*) FILTER (WHERE id <= previous_id),
       count(*) FILTER (WHERE source <> previous_source)
FROM (SELECT id, source,
             lag(id) OVER (ORDER BY turn) AS previous_id,
             lag(source) OVER (ORDER BY turn) AS previous_source
      FROM turns) AS t
SQL
	is($count, 3 * $turns + 100 * 5001, 'all IDs drawn in turn are there');
	is($falling, 0, 'ascending in the order drawn, over all backends');
	note "$count IDs, the backend changed $changes times";
	cmp_ok($changes, '>', $turns / 5, 'the backends take turns');

	# Now all at once.
	$lock = hold_back($node);
	@psqls = map {
		start_sql($node, "$await_start\n" . draw($_, singles(100_000)))
	} 1 .. 4;
	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 4 FROM pg_stat_activity WHERE query = '$await_start'"
		),
		'all backends are ready');
	$lock->quit;
	$errors = '';
	$errors .= (finish_sql($_))[1] for @psqls;
	is($errors, '', 'all draw their IDs with no error');
	$node->safe_psql('postgres', <<'SQL');
UPDATE ids SET source = source + 100 WHERE statement = 0;
INSERT INTO ids SELECT source + 100, turn, true, id FROM turns;
SQL
	check_ids($node, 4 + $count + 4 * 100_000, 0);

	$node->stop;
}

done_testing();
