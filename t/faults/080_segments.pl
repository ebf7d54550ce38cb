# Segments that the home database hands out, in many sessions, and while
# something breaks: no number comes twice; what is lost is at most what was in
# the two buffers, in a crash or a restart; who waits does so for no longer than it
# may.  What one session sees is in sql/segments.sql.
#
# The groups run at the same time.  SNOWFLAKE_SEGMENT_TESTS chooses some.

use strict;
use warnings FATAL => 'all';

use List::Util qw(uniqnum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $conf = <<'CONF';
autovacuum = off
log_statement = none
max_connections = 60
shared_buffers = 16MB
restart_after_crash = on
snowflake.max_wait = '60s'
CONF
my $minute = 60;

# Of what the home database has.
sub of_tag
{
	my ($node, $column, $tag) = @_;
	return $node->safe_psql('postgres',
		"SELECT $column FROM snowflake_registry.snowflake_segment_tag WHERE tag = '$tag'");
}

# Of what this server has.
sub stat_of
{
	my ($node, $columns, $tag) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_snowflake_segments WHERE tag = '$tag'");
}

sub create
{
	my ($node, $tag, $step) = @_;
	$node->safe_psql('postgres', "SELECT snowflake_segment_create('$tag', step => $step)");
	return;
}

# Draw some at once.  Returns them in the order drawn.
sub take
{
	my ($node, $tag, $count, $dbname) = @_;
	return split /\n/, $node->safe_psql($dbname // 'postgres', "SELECT snowflake_segment_nextval('$tag', $count)");
}

sub error_of
{
	my ($node, $sql, $dbname) = @_;
	my (undef, $stdout, $stderr) = $node->psql($dbname // 'postgres', "\\set VERBOSITY verbose\n$sql");

	# what a statement before the error has printed is not to be lost
	return { %{ psql_error($stderr) }, printed => $stdout };
}

sub draw_tag
{
	my ($node, $tag, %opts) = @_;
	return start_draw($node, sql => "SELECT snowflake_segment_nextval('$tag') FROM generate_series(1, 5)", %opts);
}

# All numbers that a draw has recorded, in ascending order.
sub numbers
{
	my ($draw) = @_;
	return sort { $a <=> $b } map { (split / /)[1] } split /\n/, slurp_file($draw->{ids}) =~ s/[^\n]*\z//r;
}

# Of ascending numbers, how many are left out.
sub left_out
{
	return $_[-1] - $_[0] + 1 - uniqnum(@_);
}

sub seen_in_activity
{
	my ($node, $count, $condition) = @_;
	$node->poll_query_until('postgres', "SELECT count(*) = $count FROM pg_stat_activity WHERE $condition")
	  or die "not $count sessions with $condition";
	return;
}

# End sessions as soon as the worker waits for a lock, which it does for half a
# second only: so it is the server that looks.  To be called before it begins.
sub terminate_at_lock
{
	my ($node, $condition) = @_;
	my $psql = start_sql($node, <<SQL);
SET application_name = 'terminator';
DO \$\$
BEGIN
    LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN EXISTS (SELECT FROM pg_stat_activity
                          WHERE backend_type = 'snowflake services' AND wait_event_type = 'Lock');
        ASSERT clock_timestamp() < now() + interval '3 min', 'the worker waits for no lock';
        PERFORM pg_sleep(0.01);
    END LOOP;
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE $condition;
END \$\$;
SQL

	seen_in_activity($node, 1, "application_name = 'terminator' AND wait_event = 'PgSleep'");
	return $psql;
}

# Make a tag, in a session of that name.  The worker may have waited for the lock
# before the terminator has looked: then it has to wait again.
sub start_create
{
	my ($node, $name) = @_;

	return start_sql($node, <<SQL);
SET application_name = '$name';
SET snowflake.max_wait = '60s';
DO \$\$
BEGIN
    FOR n IN 1 .. 100 LOOP
        BEGIN
            PERFORM snowflake_segment_create('$name');
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
        END;
    END LOOP;
END \$\$;
SQL
}

# Wait until the second buffer is there.
sub wait_next
{
	my ($node, $tag) = @_;
	$node->poll_query_until('postgres', "SELECT next_first IS NOT NULL FROM pg_stat_snowflake_segments WHERE tag = '$tag'")
	  or die "no second segment of $tag";
	return;
}

my %tests;

#
# Several sessions at once; the server is stopped and started
#
$tests{sessions} = sub {
	my $node = snowflake_node('sessions', $conf);

	# Twenty use a tag for the first time, at once: one has a lock that all wait
	# for.
	create($node, 'first', 10);
	my $gate = session($node);
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	my @running = map {
		start_sql($node, <<'SQL')
SELECT pg_advisory_lock_shared(1) \g /dev/null
SELECT snowflake_segment_nextval('first') FROM generate_series(1, 200);
SELECT snowflake_segment_nextval('first', 50);
SQL
	} 1 .. 20;
	seen_in_activity($node, 20, "wait_event = 'advisory'");
	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	my (@all, @unsorted);
	foreach (@running)
	{
		my ($out, $err) = finish_sql($_);
		my @numbers = split /\n/, $out;

		is($err, '', 'no error') if $err ne '';
		push @unsorted, grep { $numbers[$_] <= $numbers[ $_ - 1 ] } 1 .. $#numbers;
		push @all, @numbers;
	}
	is(scalar(@all), 5000, 'twenty sessions use a tag for the first time');
	is_deeply([ sort { $a <=> $b } @all ], [ 1 .. 5000 ], 'no number twice, and none left out');
	is(scalar(@unsorted), 0, 'in each session they ascend');
	is(stat_of($node, 'issued', 'first'), '5000', 'as the view counts them');

	# A restart loses what is in the two buffers: 19 numbers at most where nothing
	# else is said, and it begins with the configured step again.
	$node->safe_psql('postgres', "SELECT snowflake_segment_create('rare')");
	foreach my $mode (qw(fast smart immediate))
	{
		my ($number) = take($node, 'rare', 1);
		wait_next($node, 'rare');
		is(stat_of($node, 'unused + next_last - next_first + 1', 'rare'), '19', 'drawn once: 19 numbers are in memory');
		my $given = of_tag($node, 'max_id', 'rare');
		is($given, $number + 19, 'and no others are given out');
		$node->stop($mode);
		$node->start;
		is(of_tag($node, 'max_id', 'rare'), $given, "$mode shutdown: nothing is taken while it is down");
	}
	is(join(' ', take($node, 'rare', 1)), '61', 'a restart loses these, and no more');
	my @burst = take($node, 'rare', 1000);
	wait_next($node, 'rare');
	my $held = stat_of($node, 'unused + next_last - next_first + 1', 'rare');
	cmp_ok($held, '<=', 3 * 1001, "after a burst of 1001 numbers $held are in memory, at most three times as many");
	my $last = of_tag($node, 'max_id', 'rare');
	is($burst[-1] + $held, $last, 'which are all that were given out');
	$node->restart;
	is(join(' ', take($node, 'rare', 1)), $last + 1, 'these are lost');
	wait_next($node, 'rare');
	is(stat_of($node, 'last - first + 1, next_last - next_first + 1', 'rare'), '10|10', 'and it begins with the configured step');

	# stopped while sessions draw
	my $ledger = new_ledger();
	my $highest = 0;
	create($node, 'stopped', 100);
	foreach my $mode (qw(fast fast smart))
	{
		my $draw = draw_tag($node, 'stopped', sessions => 8);

		wait_drawn($draw, 2000);
		stop_draw($draw) if $mode eq 'smart';
		$node->stop($mode);
		$ledger->add($draw);
		my @numbers = numbers($draw);
		cmp_ok($numbers[0], '>', $highest, "$mode shutdown with sessions at work: all are above those of before");
		$highest = $numbers[-1];
		$node->start;
	}
	is($ledger->duplicates, 0, 'no number twice');
	is($ledger->disorder, 0, 'in each session they ascend');
	$gate->quit;
	$node->stop;
};

#
# Crashes
#
my %faults = (
	'kill -9 of the postmaster' => sub { kill9_postmaster($_[0]) },
	'kill -9 of all' => sub { kill9_postmaster($_[0], all => 1) },
	'immediate shutdown' => sub { $_[0]->stop('immediate') },
	'kill -9 of a backend' => sub { kill 'KILL', busy_backend($_[0]) },
	'kill -9 of the worker' => sub { kill 'KILL', services_pid($_[0]) },
	'the worker terminated' => sub {
		my $worker = services_pid($_[0]);
		kill 'TERM', $worker;
	});

$tests{crashes} = sub {
	my $node = snowflake_node('crashes', $conf . "commit_siblings = 0\nsnowflake.reserve_window = '1s'\n");
	my ($sessions, $step, $tag) = (6, 100, 'crash0');

	foreach my $slow (0, 1)
	{
		# A commit that takes long: whoever uses a segment too early is seen to.
		if ($slow)
		{
			$node->safe_psql('postgres', 'ALTER SYSTEM SET fsync = on');
			$node->safe_psql('postgres', 'ALTER SYSTEM SET commit_delay = 100000');
			$node->restart;
		}
		foreach my $name (sort keys %faults)
		{
			my $ledger = new_ledger();

			create($node, ++$tag, $step);
			my $draw = draw_tag($node, $tag, sessions => $sessions, delay => 5);

			# durable before it is used
			my $early = 0;
			foreach (1 .. 5)
			{
				wait_drawn($draw, 50);
				my @numbers = numbers($draw);
				$early++ if $numbers[-1] > of_tag($node, 'max_id', $tag);
			}
			is($early, 0, 'at all times max_id is not below a number that was issued');

			my $worker = services_pid($node);
			$faults{$name}->($node);
			my $lives = $name =~ /backend|worker/;
			if ($lives)
			{
				# no longer those from before
				services_pid($node, $worker);
				wait_drawn($draw, 200);
			}
			stop_draw($draw);
			start_node($node) unless $lives;
			$ledger->add($draw);

			my @numbers = numbers($draw);
			my ($max_id, $fetches) = split /\|/, of_tag($node, 'max_id, fetches', $tag);
			cmp_ok($max_id, '>=', $numbers[-1], ($slow ? 'fsync on: ' : '') . "$name: max_id is not below a number that was issued");

			# What is left out: at most the two last segments, which doubled from
			# the configured step, and what was on its way to the sessions.
			my $held = ($fetches < 3 ? $fetches : 3 * 2**($fetches - 3)) * $step + 5 * $sessions;
			cmp_ok(left_out(0, @numbers), '<=', $held, "no more is left out than two buffers, $held");
			my ($next) = take($node, $tag, 1);
			if ($name !~ /terminated|backend|worker/)
			{
				is($next, $max_id + 1, 'it goes on above that');
				cmp_ok($max_id - $numbers[-1], '<=', $held, "which is no more than two buffers above, $held");
			}
			$ledger->add_ids('after it', $next);
			is($ledger->duplicates, 0, 'no number twice');
			is($ledger->disorder, 0, 'in each session they ascend');
		}
	}
	$node->stop;
};

#
# Waits, commands, and how many tags there may be
#
$tests{waits} = sub {
	my $node = snowflake_node('waits', $conf . "snowflake.max_segment_tags = 3\nsnowflake.reserve_window = '300ms'\n");
	my $session = session($node);
	my $locker = session($node);
	my $draw = "SELECT snowflake_segment_nextval('locked')";

	# somebody has locked the row of a tag
	create($node, $_, 10) foreach qw(locked other third);
	take($node, 'other', 1);
	$locker->query_safe("BEGIN; SELECT FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'locked' FOR UPDATE");
	my $patient = start_sql($node, "SET snowflake.max_wait = '1h'; SET application_name = 'patient'; $draw;");
	$node->poll_query_until('postgres', "SELECT last_error LIKE '%lock timeout' || '.' FROM pg_stat_snowflake_segments WHERE tag = 'locked'")
	  or die 'no lock timeout';
	my $error = session_error($session, "SET snowflake.max_wait = '200ms'; $draw");
	is("$error->{sqlstate} $error->{message}", '55P03 cannot draw a number of segment tag "locked": no segment came in time', 'a tag is locked: an error');
	like($error->{detail}, qr/^The home database cannot give segments: .*lock timeout\. Waited for "snowflake\.max_wait", 200 ms\.$/, 'that says why');
	like($error->{hint}, qr/pg_stat_snowflake_segments/, 'and where to look');
	cmp_ok(stat_of($node, 'last_error_ts <= clock_timestamp()', 'locked'), 'eq', 't', 'which says when');
	is($session->query_safe("SET snowflake.max_wait = 0; SELECT 'on'"), 'on', 'the session goes on');
	$error = session_error($session, $draw);
	like($error->{detail}, qr/Waited for "snowflake\.max_wait", 0 ms\.$/, 'max_wait 0 does not wait');
	$session->query_safe("SET snowflake.max_wait = '1h'");
	$error = session_error($session, "SET statement_timeout = '300ms'; $draw");
	is($error->{sqlstate}, '57014', 'statement_timeout ends the wait');
	$session->query_safe('RESET statement_timeout');
	my $cancelled = start_sql($node, "SET snowflake.max_wait = '1h'; SET application_name = 'cancelled'; $draw;");
	my $terminated = start_sql($node, "SET snowflake.max_wait = '1h'; SET application_name = 'terminated'; $draw;");
	seen_in_activity($node, 3, "application_name IN ('cancelled', 'terminated', 'patient') AND wait_event_type = 'Extension'");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'cancelled'");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terminated'");
	is(psql_error((finish_sql($cancelled))[1])->{sqlstate}, '57014', 'it can be cancelled');
	is(psql_error((finish_sql($terminated))[1])->{sqlstate}, '57P01', 'and terminated');

	# Meanwhile the worker has other things to do.  A mark that has to wait for
	# the lock, comes late, but comes.
	my $ids = start_draw($node, sessions => 2, ids => 10, delay => 10);
	my $begin = $node->safe_psql('postgres', 'SHOW snowflake.issued_until');
	wait_drawn($ids, 500);
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.issued_until')::timestamptz > timestamptz '$begin' + interval '2 s'")
	  or die 'the mark is not raised';
	is(sqlstates($ids), '', 'the mark of snowflake IDs is raised meanwhile');

	# commands wait too; the one after them does what it should
	$error = session_error($session, "SET snowflake.max_wait = '100ms'; SELECT snowflake_segment_alter('locked', step => 20)");
	like("$error->{sqlstate} $error->{message}", qr/^55P03 (?:cannot alter segment tag "locked": no answer came in time|could not alter segment tag "locked": .*lock timeout)$/, 'a command that waits ends');
	like($error->{hint}, qr/^(?:The command may have been carried out, or may still be\.|The command was not carried out\.|)$/, 'and says what may come of it');
	$session->query_safe("SET snowflake.max_wait = '60s'");
	$error = session_error($session, "SELECT snowflake_segment_alter('locked', step => 30)");
	is($error->{sqlstate}, '55P03', 'with more time it hears why');
	like($error->{message}, qr/^could not alter segment tag "locked": .*lock timeout$/, 'that is');
	$locker->query_safe('COMMIT');
	is((finish_sql($patient))[0], '1', 'who still waits has the first number, and nobody has lost one');
	is($session->query_safe("SELECT snowflake_segment_alter('other', description => 'x')"), '', 'the next command works');
	is(of_tag($node, 'step, description', 'other'), '10|x', 'and it is that one that was done');
	is(of_tag($node, 'step', 'locked'), '10', 'not those before it');
	wait_next($node, $_) foreach qw(locked other);

	# The worker is away.
	my $worker = services_pid($node);
	my $hangs = qr/The background worker "snowflake services", PID $worker, has not reacted for \d+ s/;
	my $stopped = time();
	# what is said within 2 s, and what may be said later
	my $refused = sub { return time() - $stopped < 2 ? qr/^\Q$_[0]\E\. / : qr/^(?:\Q$_[0]\E|$hangs)\. /; };
	stop_asleep($node, $worker);
	foreach my $command ("create('away')", "alter('other', step => 99)", "drop('other')")
	{
		$error = session_error($session, "SET snowflake.max_wait = '200ms'; SELECT snowflake_segment_$command");
		like($error->{message}, qr/^cannot \w+ segment tag "\w+": no answer came in time$/, "no worker: $command ends");
		like($error->{detail}, $refused->('The background worker has not carried out the command yet'), 'and says why');
		like("$error->{sqlstate} $error->{detail} $error->{hint}", qr/^55P03 .*\. Waited for "snowflake\.max_wait", 200 ms\. The command was not carried out\.$/, 'and how');
	}
	my $first = start_sql($node, "SET application_name = 'first'; SELECT snowflake_segment_create('away', 77);");
	seen_in_activity($node, 1, "application_name = 'first' AND wait_event_type = 'Extension'");
	$error = session_error($session, "SELECT snowflake_segment_create('second')");
	like($error->{detail}, $refused->('The background worker is busy with the command of another session'), 'another one has to wait for the first');
	like("$error->{detail} $error->{hint}", qr/\. Waited for "snowflake\.max_wait", 200 ms\. The command was not carried out\.$/, 'and is not carried out');
	my $killed = start_sql($node, "SET application_name = 'killed'; SELECT snowflake_segment_create('never');");
	seen_in_activity($node, 1, "application_name = 'killed' AND wait_event_type = 'Extension'");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'killed'");
	finish_sql($killed);
	my @more = map { start_sql($node, "SET application_name = 'more'; SELECT snowflake_segment_create('more $_', $_);") } 1 .. 5;
	seen_in_activity($node, 5, "application_name = 'more' AND wait_event_type = 'Extension'");
	kill 'CONT', $worker;
	is((finish_sql($_))[1], '', 'the worker is back: done') foreach $first, @more;
	is($node->safe_psql('postgres', q(SELECT string_agg(tag || ' ' || max_id, ', ' ORDER BY tag) FROM snowflake_registry.snowflake_segment_tag)),
		'away 76, locked ' . of_tag($node, 'max_id', 'locked') . ', more 1 0, more 2 1, more 3 2, more 4 3, more 5 4, other ' . of_tag($node, 'max_id', 'other') . ', third 0',
		'each once, and nothing that was given up');

	# What it fails with is known, and SIGINT is ignored again, whatever is logged.
	$node->safe_psql('postgres', 'ALTER SYSTEM SET log_min_messages = panic');
	reload_node($node);
	$node->poll_query_until('postgres', "SELECT current_setting('log_min_messages') = 'panic'") or die 'no reload';
	$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
	$error = session_error($session, q|SET snowflake.max_wait = '1min'; SELECT snowflake_segment_alter('third', step => 20)|);
	like($error->{message}, qr/^could not alter segment tag "third": canceling statement due to lock timeout$/, 'an error that is not logged');
	ok(wait_for(sub { slurp_file("/proc/$worker/status") =~ /^SigIgn:\s*(\S+)$/m && hex(substr($1, -2)) & 2 }),
		'the worker cannot be cancelled after it');
	$locker->query_safe('COMMIT');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET log_min_messages');
	reload_node($node);

	# The worker is at it, when who has asked ends, and then when it ends itself.
	$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
	my $terminator = terminate_at_lock($node, "application_name = 'asker'");
	my $asker = start_create($node, 'asker');
	is((finish_sql($terminator))[1], '', 'the worker waits for a lock');
	is(psql_error((finish_sql($asker))[1])->{sqlstate}, '57P01', 'terminated in the middle of a create');
	$locker->query_safe('COMMIT');
	$session->query_safe("SET snowflake.max_wait = '60s'");
	is($session->query_safe("SELECT snowflake_segment_create('gone too', 5)"), '', 'the next one is not disturbed');
	is(of_tag($node, 'max_id', 'gone too'), '4', 'and gets its own answer');
	$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
	$terminator = terminate_at_lock($node, "pid = $worker");
	my $left_alone = start_create($node, 'left alone');
	is((finish_sql($terminator))[1], '', 'the worker waits for a lock again');
	$error = psql_error((finish_sql($left_alone))[1]);
	is("$error->{sqlstate} $error->{message} $error->{hint}", '57P01 could not create segment tag "left alone": the background worker has ended The command may have been carried out anyway.', 'the worker ends in the middle of it');
	$locker->query_safe('COMMIT');
	is($session->query_safe("SELECT snowflake_segment_create('after all')"), '', 'the next one is not disturbed');

	# Two of three are in use.  A thousand tags that there are not take none.
	is($session->query_safe(<<'SQL'), '1000 times 42704', 'a thousand misspelt tags');
CREATE TEMP TABLE states (state text);
DO $$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        BEGIN
            PERFORM snowflake_segment_nextval('lokced' || i);
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO states VALUES (SQLSTATE);
        END;
    END LOOP;
END $$;
SELECT count(*) || ' times ' || state FROM states GROUP BY state;
SQL
	is(join(' ', take($node, 'third', 2)), '1 2', 'leave room for a third');
	$error = session_error($session, "SELECT snowflake_segment_nextval('away')");
	is("$error->{sqlstate} $error->{message}", '53400 cannot draw a number of segment tag "away": too many tags are in use', 'but there is none for a fourth');
	is($error->{detail}, 'This server has memory for "snowflake.max_segment_tags", 3.', 'as it says');
	is(join(' ', take($node, 'third', 2)), '3 4', 'the others go on');
	$node->safe_psql('postgres', "SELECT snowflake_segment_drop('third')");
	is(join(' ', take($node, 'away', 2)), '77 78', 'when one is dropped, there is');
	is(session_error($session, "SELECT snowflake_segment_nextval('third')")->{sqlstate}, '53400', 'which is for one');
	is($session->query_safe(q(SELECT string_agg(tag, ' ' ORDER BY tag) FROM pg_stat_snowflake_segments)), 'away locked other', 'as the view shows');

	# None.
	$session->quit;
	$locker->quit;
	$node->append_conf('postgresql.conf', 'snowflake.max_segment_tags = 0');
	$node->restart;
	is(error_of($node, $draw)->{sqlstate}, '53400', 'max_segment_tags 0: nobody draws');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_snowflake_segments"), '0', 'the view is empty');
	is(error_of($node, "SELECT snowflake_segment_create('none', 5); SELECT snowflake_nextval() > 0; SELECT pg_stat_snowflake_reset()")->{sqlstate}, '', 'all else works');
	$node->restart;
	is(of_tag($node, 'max_id', 'none'), '4', 'there is a tag for when it is raised');
	$node->stop;
};

#
# A segment that does not last long makes the next one larger
#
$tests{steps} = sub {
	my $node = snowflake_node('steps', $conf, clock => 0);
	my $clock = 0;

	# Up to PostgreSQL 15 libfaketime does not reach the first worker.
	my $worker = services_pid($node);
	kill 'TERM', $worker;
	create($node, 'leaf', 100);
	isnt(services_pid($node), $worker, 'another worker');

	# Let the next segment be fetched so many seconds after the last one was there,
	# however long it takes to get to that: draw what is left of the buffer in use,
	# and a tenth of the other.  Returns how many numbers it spans.
	my $session = session($node);
	my %fetched;
	my $fetch_after = sub {
		my ($tag, $seconds) = @_;

		wait_next($node, $tag);
		$fetched{$tag} //= clock_gettime(CLOCK_MONOTONIC);
		my ($fetches, $last, $wanted) = split /\|/, stat_of($node, 'fetches, next_last, unused + (next_last - next_first + 10) / 10', $tag);
		set_clock($node, $clock += $seconds && $seconds - (clock_gettime(CLOCK_MONOTONIC) - $fetched{$tag}));
		$session->query_safe("SELECT count(*) FROM snowflake_segment_nextval('$tag', $wanted)");
		wait_next($node, $tag);
		$fetched{$tag} = clock_gettime(CLOCK_MONOTONIC);
		my ($now, $first, $next, $step, $min_step) = split /\|/, stat_of($node, 'fetches, next_first, next_last, step, min_step', $tag);
		die "$now fetches after $fetches" if $now != $fetches + 1;
		die "a gap after $last" if $first != $last + 1;
		die "the view says $step" if $step != $next - $first + 1;
		return $step;
	};
	my $steps = sub { my $tag = shift; return join ' ', map { $fetch_after->($tag, $_) } @_ };

	take($node, 'leaf', 10);
	wait_next($node, 'leaf');
	is(stat_of($node, 'step, next_last', 'leaf'), '100|200', 'the first two are of the configured step');
	is($steps->('leaf', 0, 14 * $minute + 50), '200 400', 'under 15 minutes it doubles');
	is($steps->('leaf', 15 * $minute, 29 * $minute + 50), '400 400', 'up to 30 minutes it stays');
	is($steps->('leaf', 30 * $minute), '200', 'from then on it halves');
	is($steps->('leaf', 1440 * $minute, 60 * $minute), '100 100', 'but not below the configured step');
	is($steps->('leaf', -60 * $minute), '200', 'the clock set back: it is not long ago');
	$node->safe_psql('postgres', "SELECT snowflake_segment_alter('leaf', step => 300)");
	is($steps->('leaf', 60 * $minute, 0, 60 * $minute), '300 600 300', 'and there is a new configured step');
	is(of_tag($node, 'step, max_id', 'leaf'), '300|' . stat_of($node, 'next_last', 'leaf'), 'the home database has that, and how far it is');

	create($node, 'large', 300000);
	take($node, 'large', 30000);
	is($steps->('large', 0, 0, 0), '600000 1000000 1000000', 'at most it is a million');
	is($steps->('large', 30 * $minute), '500000', 'of which half is less');
	create($node, 'larger', 1500000);
	take($node, 'larger', 150000);
	is($steps->('larger', 0), '1500000', 'or the configured step');
	is($steps->('larger', 30 * $minute), '1500000', 'that it stays at');

	# drawn some times an hour: no more than what a restart may lose
	$node->safe_psql('postgres', "SELECT snowflake_segment_create('rare')");
	take($node, 'rare', 1);
	is($steps->('rare', 0, 0, 0, 0), '20 40 80 160', 'a fast tag takes more');
	is($steps->('rare', (60 * $minute) x 6), '80 40 20 10 10 10', 'a slow one comes back to 10');
	is($steps->('rare', (29 * $minute) x 2), '10 10', 'and stays there');
	my ($unused, $last) = split /\|/, stat_of($node, 'unused + next_last - next_first + 1, next_last', 'rare');
	is($unused, 19, 'then 19 numbers are in memory');
	$session->quit;
	$node->stop;
	start_node($node);
	is(join(' ', take($node, 'rare', 1)), $last + 1, 'which a restart loses');
	$node->stop;
};

#
# Where others have a say: databases, encodings, roles, by hand
#
$tests{databases} = sub {
	my $node = snowflake_node('databases', $conf, extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
	my $like = "LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
	my ($e, $zhong) = ("\xc3\xa9", "\xe4\xb8\xad");

	$node->safe_psql('postgres', "CREATE DATABASE $_->[0] ENCODING $_->[1] $like")
	  foreach [ 'latin1', 'LATIN1' ], [ 'ascii', 'SQL_ASCII' ], [ 'euc_jp', 'EUC_JP' ], [ 'app', 'UTF8' ];
	$node->safe_psql($_, 'CREATE EXTENSION snowflake; CREATE FUNCTION nothing() RETURNS int LANGUAGE sql RETURN 1')
	  foreach qw(latin1 ascii euc_jp app);
	my $in = sub {
		my ($dbname, $sql) = @_;
		return "SET client_encoding = " . ($dbname eq 'ascii' ? 'SQL_ASCII' : 'UTF8') . "; $sql";
	};
	my $draw = sub {
		my ($dbname, $tag) = @_;
		return $node->safe_psql($dbname, $in->($dbname, "SELECT snowflake_segment_nextval('$tag')"));
	};

	# one tag, whatever the database
	$node->safe_psql('euc_jp', $in->('euc_jp', "SELECT snowflake_segment_create('$zhong', 100, description => '$zhong')"));
	$node->safe_psql('latin1', $in->('latin1', "SELECT snowflake_segment_create('$e', 200, description => '$e')"));
	is(join(' ', map { $draw->($_, $zhong) } qw(postgres ascii euc_jp app euc_jp)), '100 101 102 103 104', 'one tag, whatever the encoding');
	is(join(' ', map { $draw->($_, $e) } qw(latin1 postgres ascii latin1)), '200 201 202 203', 'and another');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM snowflake_registry.snowflake_segment_tag WHERE tag = description)), '2', 'as the home database has them');
	my $error = error_of($node, $in->('latin1', "SELECT snowflake_segment_create(repeat('$e', 32))"), 'latin1');
	is("$error->{sqlstate} $error->{detail}", '22023 A tag has from 1 to 63 bytes in UTF-8; this one has 64.', 'how long it is counts in UTF-8');
	is(error_of($node, "SELECT snowflake_segment_nextval(E'\\xe9')", 'ascii')->{sqlstate}, '22021', 'what is not UTF-8, is no tag');
	is($node->safe_psql('latin1', $in->('latin1', 'SELECT tag, description IS NULL FROM pg_stat_snowflake_segments, (SELECT NULL) AS d (description) ORDER BY first')), "???|t\n$e|t", 'the view has what the encoding has, and question marks');
	is($node->safe_psql('ascii', 'SELECT tag FROM pg_stat_snowflake_segments ORDER BY first'), "$zhong\n$e", 'or all bytes');

	# the database of the sessions gets another name
	$node->safe_psql('app', "SELECT snowflake_segment_create('renamed', step => 1000)");
	is(join(' ', take($node, 'renamed', 3, 'app')), '1 2 3', 'before');
	$node->safe_psql('postgres', 'ALTER DATABASE app RENAME TO app2');
	is(join(' ', take($node, 'renamed', 3, 'app2')), '4 5 6', 'and after the database is renamed');
	$node->safe_psql('postgres', 'DROP DATABASE app2');
	is(join(' ', take($node, 'renamed', 2)), '7 8', 'and dropped');

	# as a pooler does between clients
	my $session = session($node);
	is(join(' ', map { $session->query_safe("SELECT snowflake_segment_nextval('renamed'); DISCARD ALL") } 1 .. 3), '9 10 11', 'DISCARD ALL changes nothing');

	# An idle server.  What reads a catalog first may mark its pages.
	$node->safe_psql('postgres', 'SELECT FROM pg_stat_snowflake_segments; CHECKPOINT');
	my $worker = services_pid($node);
	my $look = sub {
		return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()') . ' ' . join ' ',
		  slurp_file("/proc/$worker/status") =~ /ctxt_switches:\s*(\d+)/g;
	};
	my $before = at_rest($look);
	$session->query_safe("SELECT snowflake_segment_nextval('renamed'); SELECT FROM pg_stat_snowflake_segments");
	sleep 7;
	is($look->(), $before, 'idle, and drawing from memory: no WAL, and the worker sleeps');

	# The home database belongs to somebody, who dumps it.
	$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; ALTER DATABASE postgres OWNER TO owner');
	$node->command_ok([ 'pg_dump', '-U', 'owner', '-d', $node->connstr('postgres'), '-f', $node->basedir . '/dump', '--extension', 'plpgsql' ], 'its owner dumps the home database, all that is not of extensions');
	$node->command_ok([ 'pg_dump', '-U', 'owner', '-d', $node->connstr('postgres'), '-f', $node->basedir . '/dump' ], 'its owner dumps the home database');

	# all of the server goes to another one
	take($node, 'renamed', 500);
	wait_next($node, 'renamed');
	my $all = $node->basedir . '/all';
	my $given = of_tag($node, 'max_id', 'renamed');
	$node->command_ok([ 'pg_dumpall', '-d', $node->connstr('postgres'), '-f', $all, '--no-sync' ], 'pg_dumpall');
	my $other = PostgreSQL::Test::Cluster->new('other');
	$other->init(extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
	$other->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.node_id = 1\nfsync = off\n$conf");
	$other->start;
	$other->safe_psql('postgres', "\\set ON_ERROR_STOP off\n\\i $all");
	is(join(' ', take($other, 'renamed', 2)), $given + 1 . ' ' . ($given + 2), 'restored on another server: above all that this one had');
	is($other->safe_psql('latin1', $in->('latin1', "SELECT snowflake_segment_nextval('$e') > 203")), 't', 'in all databases');
	$other->stop;

	# by hand
	my $function = $node->safe_psql('postgres', "SELECT pg_get_functiondef('snowflake_registry.snowflake_take_segments'::regproc)");
	$node->safe_psql('postgres', $function =~ s/(?<=AS \$function\$).*(?=\$function\$)/BEGIN END/sr);
	wait_for(sub { ($error = error_of($node, "SET snowflake.max_wait = '1s'; SELECT snowflake_segment_nextval('renamed', 100000)"))->{detail} =~ /understand/ });
	like("$error->{sqlstate} $error->{detail}", qr/^55000 The home database cannot give segments: it did not understand the request\./, 'an answer without rows does not say that there is no tag');
	is($node->safe_psql('postgres', "SELECT state FROM pg_stat_snowflake_segments WHERE tag = 'renamed'"), 'open', 'and the tag stays');
	$node->safe_psql('postgres', $function);
	take($node, 'renamed', 1);
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake_registry');
	$error = error_of($node, "SELECT count(*) FROM generate_series(1, 100), snowflake_segment_nextval('renamed', 100000)");
	is($error->{sqlstate}, '42704', 'the extension was dropped by hand: no more numbers');
	is(error_of($node, "SELECT snowflake_segment_nextval('renamed')")->{sqlstate}, '42704', 'for anybody');
	$node->safe_psql('postgres', "SELECT snowflake_segment_create('renamed', 1000000)");
	is(join(' ', take($node, 'renamed', 2)), '1000000 1000001', 'a create makes it anew, and its schema');
	$node->safe_psql('postgres', "DROP EXTENSION snowflake_registry; SELECT snowflake_segment_create('renamed', 2000000)");
	is(join(' ', take($node, 'renamed', 1)), '2000000', 'what the server had of the former tag is not of the new one');

	# Of somebody else, who could have the worker do what he wants.
	$node->safe_psql('postgres', 'DROP SCHEMA snowflake_registry CASCADE');
	$node->safe_psql('postgres', 'SET ROLE owner; CREATE SCHEMA snowflake_registry; CREATE EXTENSION snowflake_registry SCHEMA snowflake_registry');
	$error = error_of($node, "SELECT snowflake_segment_create('trap')");
	is("$error->{sqlstate} $error->{message}", '42501 could not create segment tag "trap": extension "snowflake_registry" in the home database does not belong to a superuser', 'an extension of another role is refused');
	like($error->{hint}, qr/^If it has tags, .* If it has none, drop the extension/, 'with what to do');
	wait_for(sub { ($error = error_of($node, "SET snowflake.max_wait = '3s'; SELECT snowflake_segment_nextval('trap')"))->{detail} =~ /superuser/ });
	like("$error->{sqlstate} $error->{detail}", qr/^55000 .*does not belong to a superuser/, 'also to draw');
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake_registry; SET ROLE owner; CREATE TABLE snowflake_registry.his()');
	is(error_of($node, "SELECT snowflake_segment_create('trap')")->{sqlstate}, '2BP01', 'nor is a schema taken that has something in it');
	$node->safe_psql('postgres', 'DROP TABLE snowflake_registry.his');
	is($node->safe_psql('postgres', "SELECT snowflake_segment_create('trap'); SELECT snowflake_segment_nextval('trap')"), "\n1", 'when it is dropped, the worker makes its own');
	$session->quit;
	$node->stop;
};

#
# A home database that has not all characters
#
$tests{latin1} = sub {
	my $node = PostgreSQL::Test::Cluster->new('latin1');
	my ($e, $zhong) = ("\xc3\xa9", "\xe4\xb8\xad");

	$node->init(extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
	$node->append_conf('postgresql.conf', <<CONF . $conf);
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
fsync = off
snowflake.database = 'home'
snowflake.max_segment_tags = 4
CONF
	$node->start;
	$node->safe_psql('postgres', "CREATE DATABASE home ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	$node->safe_psql('postgres', "SET client_encoding = UTF8; CREATE EXTENSION snowflake; SELECT snowflake_segment_create('$e', 50, description => '$e'); SELECT snowflake_segment_create('plain', step => 10)");
	is($node->safe_psql('postgres', "SET client_encoding = UTF8; SELECT snowflake_segment_nextval('$e')"), '50', 'a tag that the home database has');
	my $error = error_of($node, "SET client_encoding = UTF8; SELECT snowflake_segment_create('$zhong')");
	is($error->{sqlstate}, '22P05', 'not so: an error');
	like($error->{message}, qr/^could not create segment tag "$zhong": .* has no equivalent in encoding "LATIN1"$/, 'that says so');
	$error = error_of($node, "SET client_encoding = UTF8; SELECT snowflake_segment_alter('$e', description => '$zhong')");
	is($error->{sqlstate}, '22P05', 'nor a description');

	# others go on, while some ask for such tags
	my $futile = start_draw($node, sessions => 3, sql => "SELECT snowflake_segment_nextval('$zhong')", connstr => $node->connstr('postgres') . " options='-c client_encoding=utf8 -c snowflake.max_wait=100ms'");
	my $draw = draw_tag($node, 'plain', sessions => 3, delay => 5, finish => 60_000);
	wait_drawn($draw, 500);
	is($node->safe_psql('postgres', "SET client_encoding = UTF8; SELECT snowflake_segment_create('late'); SELECT snowflake_segment_nextval('late')"), "\n1", 'a new tag');
	wait_drawn($draw, 500);
	is(sqlstates($draw), '', 'others are not held up');
	like(sqlstates($futile), qr/^55000(?: 55P03)?$/, 'who asks for such a tag has an error');
	my @numbers = numbers($draw);
	is(left_out(1, @numbers), 0, 'and nobody loses a number');
	wait_for(sub { ($error = error_of($node, "SET client_encoding = UTF8; SET snowflake.max_wait = '1s'; SELECT snowflake_segment_nextval('$zhong')"))->{detail} =~ /no equivalent/ });
	like($error->{detail}, qr/^The home database cannot give segments: .* has no equivalent in encoding "LATIN1"\./, 'that says why');
	is($node->safe_psql('postgres', 'SET client_encoding = UTF8; SELECT tag FROM pg_stat_snowflake_segments WHERE first IS NOT NULL ORDER BY tag'), "late\nplain\n$e", 'the view shows them');

	# three are in use, and no other is kept from the fourth
	error_of($node, "SET client_encoding = UTF8; SET snowflake.max_wait = '200ms'; SELECT snowflake_segment_nextval('$zhong$_')") foreach 1 .. 4;
	$node->safe_psql('postgres', "SELECT snowflake_segment_create('fourth')");
	ok(wait_for(sub { try_sql($node, "SELECT snowflake_segment_nextval('fourth')") }), 'such tags do not use up what there is for others');

	# its messages are not in UTF-8
	$node->safe_psql('home', <<SQL);
SET client_encoding = UTF8;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refus$e'' USING HINT = ''none: $e''; END';
CREATE TRIGGER refuse BEFORE UPDATE ON snowflake_registry.snowflake_segment_tag FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE snowflake_registry.snowflake_segment_tag ENABLE ALWAYS TRIGGER refuse;
SQL
	$error = error_of($node, "SET client_encoding = UTF8; SELECT snowflake_segment_alter('plain', step => 5)");
	is("$error->{message}, $error->{hint}", 'could not alter segment tag "plain": refus?, none: ?', 'a message of the home database');
	$node->stop;
};

#
# The first request after a start fails.  Others are not kept from their numbers
# by it, nor the server from its end.
#
$tests{first} = sub {
	my $node = snowflake_node('first', $conf . "snowflake.database = 'home'\n", extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
	my $zhong = "\xe4\xb8\xad";
	my $restart = sub {
		my ($name) = @_;

		ok($node->stop('fast', fail_ok => 1), "$name: a fast shutdown ends")
		  or kill9_postmaster($node, all => 1);
		$node->start;
		return;
	};

	$node->safe_psql('postgres', "CREATE DATABASE home ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	create($node, 'good', 10);
	$node->restart;
	my $error;
	wait_for(sub { ($error = error_of($node, "SET client_encoding = UTF8; SET snowflake.max_wait = '2s'; SELECT snowflake_segment_nextval('$zhong')"))->{detail} =~ /no equivalent/ });
	like("$error->{sqlstate} $error->{detail}", qr/^55000 The home database cannot give segments: .* has no equivalent in encoding "LATIN1"\./, 'a tag that the home database cannot store: an error');
	is(error_of($node, "SELECT snowflake_segment_nextval('good')")->{printed}, '1', 'others have their numbers');
	$restart->('a tag that cannot be stored');

	my $locker = session($node, 'home');
	$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
	my $draw = start_sql($node, "SELECT snowflake_segment_nextval('good')");
	$node->poll_query_until('postgres', q(SELECT count(*) > 0 FROM pg_stat_snowflake_segments WHERE last_error LIKE '%lock timeout.'))
	  or die 'no lock timeout';
	$locker->query_safe('COMMIT');
	like(join('', finish_sql($draw)), qr/^[12]1$/, 'the tags were locked, and who waits has a number');
	$locker->quit;
	$restart->('a lock');

	# seen when the extension is created, and in the first request
	$node->safe_psql('home', 'DROP EXTENSION snowflake_registry');
	foreach my $setting (hostile_settings($node))
	{
		my ($name, $value) = @{$setting};
		$value = "'$value'" if $name ne 'search_path';
		$node->safe_psql('postgres', "ALTER DATABASE home SET $name = $value");
	}
	$restart->('dropped');
	is(error_of($node, "SELECT snowflake_segment_create('good', step => 10); SELECT snowflake_segment_nextval('good')")->{printed}, "\n1", 'settings of the home database: a tag is created');
	$restart->('settings');
	like(error_of($node, "SELECT snowflake_segment_nextval('good')")->{printed}, qr/^[12]1$/, 'and numbers are drawn');
	$restart->('settings, again');
	$node->stop;
};

#
# Two workers find no home database at the same time
#
$tests{two} = sub {
	my $node = snowflake_node('two', $conf . "snowflake.database = 'home'\n");

	$node->safe_psql('postgres', 'CREATE DATABASE home');
	my $session = session($node, 'home');
	$session->query_safe('BEGIN; CREATE EXTENSION snowflake_home');
	# they give up after half a second, and are asked again
	my @draws = map { start_draw($node, sessions => 1, delay => 10, sql => $_) } 'SELECT snowflake_nextval()', "SELECT count(snowflake_segment_create('tag'))";
	$session->query_safe(<<'SQL');
DO $$BEGIN
	WHILE 2 > (SELECT count(*) FROM pg_stat_activity
	           WHERE datname = 'home' AND backend_type LIKE 'snowflake%' AND wait_event_type = 'Lock') LOOP
		PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
	END LOOP;
END$$;
ROLLBACK
SQL
	ok(wait_for(sub { try_sql($node, "SELECT snowflake_segment_nextval('tag')") }), 'both have to wait, and then a tag is created');
	wait_drawn($draws[0], 1);
	stop_draw($_) foreach @draws;
	unlike(slurp_file($node->logfile), qr/duplicate key/, 'only one creates the extension');
	$session->quit;
	$node->stop;
};

#
# Tags that are locked harm no others, whether somebody asks for them or not
#
$tests{apart} = sub {
	my $node = snowflake_node('apart', $conf);
	my $patient = q(SET snowflake.max_wait = '20s');
	my $locker = session($node);
	my $worker = services_pid($node);
	my @tags = map { "tag$_" } 1 .. 9;

	# Tags that are asked for in one request: all numbers that there are of them
	# are drawn, while the worker is stopped.
	my $ask_together = sub {
		# a segment is asked for when a tenth of the one before is gone
		foreach (@_)
		{
			$node->poll_query_until('postgres', "SELECT CASE WHEN next_first IS NULL THEN snowflake_segment_nextval(tag) < 0 ELSE true END FROM pg_stat_snowflake_segments WHERE tag = '$_'")
			  or die "no second segment of $_";
		}
		stop_asleep($node, $worker);
		$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_snowflake_segments, snowflake_segment_nextval(tag, (unused + next_last - next_first + 1)::int) WHERE tag = '$_'")
		  foreach @_;
		return;
	};
	my $failed = sub {
		my ($tag, $since) = @_;

		$node->poll_query_until('postgres', "SELECT last_error LIKE '%lock timeout' || '.' AND last_error_ts > '$since' FROM pg_stat_snowflake_segments WHERE tag = '$tag'")
		  or die "no lock timeout of $tag";
		return;
	};

	foreach (qw(a c), @tags)
	{
		create($node, $_, 10);
		take($node, $_, 2);
	}
	$ask_together->('a', @tags);
	$locker->query_safe("BEGIN; SELECT FROM snowflake_registry.snowflake_segment_tag WHERE tag IN ('a', 'c') FOR UPDATE");
	my $since = $node->safe_psql('postgres', 'SELECT now()');
	kill 'CONT', $worker;
	$failed->('a', $since);
	ok(wait_for(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_snowflake_segments WHERE unused > 0 AND tag LIKE 'tag%'") == @tags }),
		'a tag is locked: those that were asked for with it have their numbers, when nobody asks again');
	is(error_of($node, "SET snowflake.max_wait = '100ms'; SELECT snowflake_segment_nextval('a')")->{sqlstate}, '55P03', 'not so the tag');
	my @asked;
	foreach (1 .. 5)
	{
		is(scalar(split /\n/, $node->safe_psql('postgres', "$patient; SELECT snowflake_segment_nextval('tag1', 200)")), 200, 'numbers flow of another tag');
		push @asked, stat_of($node, 'last_error_ts', 'a');
	}
	# what its session has left behind is done by the first
	is($asked[-1], $asked[1], 'and the locked one is not asked for again');

	# while sessions ask for two that are locked, all the time
	error_of($node, "SET snowflake.max_wait = '100ms'; SELECT snowflake_segment_nextval('c', 200)");
	my @draws = map { draw_tag($node, $_, sessions => 3, delay => 10, max_wait => '100ms', finish => 60_000) } qw(a c);
	$since = $node->safe_psql('postgres', 'SELECT now()');
	$failed->($_, $since) foreach qw(a c);
	foreach (@tags)
	{
		is(scalar(split /\n/, $node->safe_psql('postgres', "$patient; SELECT snowflake_segment_nextval('$_', 200)")), 200, 'and while sessions ask for locked ones');
	}
	$since = $node->safe_psql('postgres', 'SELECT now()');
	$failed->($_, $since) foreach qw(a c);
	$locker->query_safe('COMMIT');
	wait_drawn($_, 50) foreach @draws;
	is(sqlstates($_), '55P03', 'no more locked: numbers flow') foreach @draws;
	stop_draw($_) foreach @draws;
	my @numbers = numbers($draws[0]);
	is("$numbers[0] " . left_out(@numbers), '21 0', 'and nobody has lost one');

	# all in one request again
	$ask_together->(qw(a c), @tags);
	kill 'CONT', $worker;
	ok(wait_for(sub { $node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake_segments WHERE unused > 0') == 2 + @tags }), 'all have numbers again');
	is($node->safe_psql('postgres', 'SELECT count(DISTINCT fetched_at) FROM snowflake_registry.snowflake_segment_tag'), 1, 'of one request');
	$locker->quit;
	$node->stop;
};

#
# A standby
#
$tests{standby} = sub {
	my $primary = snowflake_node('primary', $conf, allows_streaming => 1);
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my $ledger = new_ledger();

	create($primary, 'moving', 10);
	$ledger->add_ids('primary', take($primary, 'moving', 7));
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	foreach my $call ("nextval('moving')", "nextval('moving', 2)", "create('standby')", "alter('moving', step => 5)", "drop('moving')")
	{
		is(error_of($standby, "SELECT * FROM snowflake_segment_$call")->{sqlstate}, '25006', "a standby: no $call");
	}
	my $error = error_of($standby, "SELECT snowflake_segment_nextval('moving')");
	is("$error->{message} $error->{hint}", 'cannot use segments during recovery Draw numbers on the primary server.', 'and why');
	is($standby->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake_segments'), '0', 'the view is empty');

	my $draw = draw_tag($primary, 'moving', sessions => 4, delay => 5);
	wait_drawn($draw, 200);
	stop_draw($draw);
	$primary->wait_for_catchup($standby);
	$primary->stop('immediate');
	$ledger->add($draw);
	my $session = session($standby);
	is(session_error($session, "SELECT snowflake_segment_nextval('moving')")->{sqlstate}, '25006', 'a session that stays');
	$standby->promote;
	my $given = of_tag($standby, 'max_id', 'moving');
	cmp_ok($given, '>=', (numbers($draw))[-1], 'nothing was given that it does not know of');
	my $first = $session->query_safe("SELECT snowflake_segment_nextval('moving')");
	is($first, $given + 1, 'draws when it is promoted');
	$ledger->add_ids('promoted', $first, take($standby, 'moving', 100));
	is($ledger->duplicates, 0, 'no number twice');

	$session->quit;
	$standby->stop;
};

in_parallel(
	map { $_ => $tests{$_} // die "there is no test $_\n" }
	  split /,/, $ENV{SNOWFLAKE_SEGMENT_TESTS} // join ',', sort keys %tests);
done_testing();
