# snowflake_horizon(): a reader that polls by it misses no row, whatever writers do
# and whatever is done to them; one that polls by the largest ID does, or this test
# shows nothing.  First in single cases, with gdb, which holds a process where a
# machine would seldom stop it, and by crashes; then all at once.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many rounds of the second part, of some 5 s.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);

use FaultTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 6;
my $dir = PostgreSQL::Test::Utils::tempdir('horizon');
my $files = 0;

# A server with a clock of its own.  But on 15 processes that the postmaster starts in a
# signal handler, parallel workers among them, have the real one.
my ($node, $clock);

sub new_server
{
	my ($name, $conf) = @_;

	$clock = 0;
	$node = snowflake_node($name, <<CONF . $conf, clock => $clock);
restart_after_crash = on
autovacuum = off
log_statement = none
max_connections = 40
snowflake.max_wait = 60s
snowflake.reserve_window = 1s
CONF
	$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE beside;
CREATE TABLE outbox (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(), kind text, writer int DEFAULT pg_backend_pid(), drawer int);
CREATE TABLE orders (n int);
CREATE FUNCTION order_made() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN INSERT INTO outbox (kind) VALUES (TG_ARGV[0]); RETURN NULL; END';
CREATE TRIGGER made AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_made('trigger');
CREATE CONSTRAINT TRIGGER made_late AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION order_made('deferred');
CREATE TABLE source WITH (parallel_workers = 2, fillfactor = 10) AS SELECT n FROM generate_series(1, 100) AS n;
ANALYZE source;
-- pg_backend_pid() that a parallel worker may call
CREATE FUNCTION worker_pid() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE
AS 'BEGIN RETURN pg_backend_pid(); END';
-- for a client that sends one statement
CREATE FUNCTION outbox_after(last bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    horizon bigint := snowflake_horizon();
BEGIN
    RETURN QUERY SELECT o.id FROM outbox AS o WHERE o.id > last AND o.id < horizon ORDER BY o.id;
END $$;
CREATE PROCEDURE insert_many() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        INSERT INTO outbox (kind) SELECT 'many' FROM generate_series(1, i % 3);
        COMMIT;
        PERFORM pg_sleep(0.005);
    END LOOP;
END $$;
SQL
	$node->safe_psql('beside', 'CREATE EXTENSION snowflake');
	return;
}

# Workers draw, in a leader that draws nothing.
my $parallel = <<'SQL';
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL parallel_leader_participation = off;
CREATE TABLE drawn AS SELECT snowflake_nextval() AS id, worker_pid() AS pid FROM source;
SQL

# The horizon, in a time unit after all that were drawn before.
sub horizon
{
	usleep(5000);
	return $node->safe_psql('postgres', 'SELECT snowflake_horizon()');
}

# A transaction that is open holds it back, or does not.
sub holds { return cmp_ok(horizon(), '<=', $_[0], "$_[1] holds the horizon back"); }
sub passes { return cmp_ok(horizon(), '>', $_[0], $_[1]); }

# Draw in a session, where the result is only an ID.
sub id
{
	my ($session, $sql) = @_;
	my $id = $session->query_safe($sql // 'SELECT snowflake_nextval()');

	return $id =~ /^\d+\z/ ? $id : die "not an ID: $id\n";
}

sub doctor
{
	return $node->safe_psql('postgres', q(SELECT status || ': ' || detail FROM snowflake_check() WHERE name = 'horizon'));
}

#
# Who holds it back, and who does not
#
new_server('single', "max_prepared_transactions = 1\nsnowflake.max_drift = 60s\n");
{
	my $session = session($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $id;

	$session->query_safe('BEGIN');
	$id = id($session);
	holds($id, 'an ID that is not inserted yet');
	is($node->safe_psql('postgres', "SELECT snowflake_timestamp(snowflake_horizon()) = snowflake_timestamp($id)"), 't', 'to the time of that');
	cmp_ok($session->query_safe('SELECT snowflake_horizon()'), '>', $id, 'not for its own transaction');
	$session->query_safe("INSERT INTO outbox VALUES ($id, 'drawn before')");
	holds($id, 'and then inserted');
	$session->query_safe('COMMIT');
	passes($id, 'committed');

	$session->query_safe('BEGIN; SAVEPOINT s');
	$id = id($session);
	$session->query_safe('ROLLBACK TO s; SELECT snowflake_nextval()');
	holds($id, 'the first ID, of a subtransaction that was rolled back');
	$session->query_safe('ROLLBACK');
	passes($id, 'rolled back');

	my $beside = session($node, 'beside');
	$beside->query_safe('BEGIN');
	$id = id($beside);
	passes($id, 'another database has no part in it');
	$beside->quit;

	$session->query_safe("BEGIN; $parallel");
	is($session->query_safe('SELECT count(*) FROM drawn WHERE pid = pg_backend_pid()'), 0, 'workers draw, and not their leader');
	isnt($session->query_safe('SELECT count(DISTINCT pid) FROM drawn'), 0, 'at least one');
	$id = id($session, 'SELECT min(id) FROM drawn');
	holds($id, 'a worker that has ended');
	$session->query_safe("INSERT INTO outbox SELECT id, 'parallel' FROM drawn; DROP TABLE drawn; COMMIT");
	passes($id, 'the leader has ended');

	# It is also looked at which of the two drew first.
	$session->query_safe("BEGIN; $parallel");
	$id = id($session, 'SELECT min(id) FROM drawn');
	id($session);
	$session->query_safe("INSERT INTO outbox SELECT id, 'parallel' FROM drawn; DROP TABLE drawn; PREPARE TRANSACTION 'workers'");
	holds($id, 'a prepared transaction whose workers drew');

	$session->query_safe('BEGIN');
	my $later = id($session);
	is(session_error($session, "PREPARE TRANSACTION 'workers'")->{sqlstate}, '42710', 'a PREPARE fails');
	$session->query_safe("COMMIT PREPARED 'workers'");
	passes($later, 'both have ended');

	$session->query_safe('BEGIN');
	$id = id($session);
	like(doctor(), qr/^ok: No transaction/, 'the doctor does not mind yet');
	set_clock($node, $clock += 70);
	like(doctor(), qr/^warning: snowflake_horizon\(\) stays at .*, because of the process with PID $pid\. /, 'after a minute it names the process');
	$session->query_safe("INSERT INTO outbox VALUES ($id, 'prepared'); PREPARE TRANSACTION 'it''s'");
	like(doctor(), qr/^warning: .*, because of the prepared transaction 'it''s'\. It drew an ID then/, 'and the prepared transaction');
	holds($id, 'a prepared transaction');
	$session->quit;

	$node->stop;
	start_node($node);
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	is(horizon(), 0, 'prepared before the server was started: nothing is below the horizon');
	like(doctor(), qr/^warning: .* is 0, .* because of the prepared transaction 'it''s'\. It was prepared before/, 'and the doctor says so');
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'it''s'");
	passes($id, 'when it has ended, it is there again');
	like(doctor(), qr/^ok: No transaction/, 'and the doctor is content');

	my $idle = <<'SQL';
SELECT pg_current_wal_insert_lsn() AS lsn, (SELECT sum(issued) FROM pg_stat_snowflake_slots) AS issued \gset
DO 'BEGIN FOR i IN 1 .. 1000 LOOP PERFORM snowflake_horizon(); END LOOP; END';
SELECT pg_current_wal_insert_lsn() = :'lsn', sum(issued) = :issued FROM pg_stat_snowflake_slots;
SQL
	ok(wait_for(sub { $node->safe_psql('postgres', $idle) eq 't|t' }), '1000 calls write no WAL, when nobody else does, and draw nothing');
}

#
# After a restart with the clock set back, IDs go on above what it was.  The clock was
# at the end of what is reserved, or a little above the last ID.
#
foreach my $how (qw(kill stop))
{
	my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');

	set_clock($node, $clock - 3600);
	passes($id, 'a clock that was set back does not keep readers from what was drawn before');
	set_clock($node, $how eq 'kill' ? $clock + 3600 : $clock);
	my $horizon = horizon();
	$how eq 'kill' ? kill9_postmaster($node) : $node->stop;
	set_clock($node, $clock - 30);
	start_node($node);
	cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $horizon, "after a $how with the clock set back: the next ID is above the horizon that was");
	passes($horizon - 1, 'which is there again');
	set_clock($node, $clock += 5);
}

#
# Held by gdb: a session, in a statement, where it calls a function; or with 'finish',
# where that is to return.
#
sub hold
{
	my ($session, $sql, $function, @finish) = @_;
	my $name = "$dir/held" . ++$files;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $gdb = start_process($name, qw(gdb -nx -q -batch -p), $pid, map { ('-ex', $_) }
		  'handle SIGUSR1 SIGUSR2 SIGURG SIGALRM SIGPIPE nostop noprint pass',
		  "break $function", "shell touch $name.armed", 'continue', @finish,
		  "shell touch $name.held; while [ ! -e $name.go ]; do sleep 0.02; done",
		  'delete', 'detach');

	foreach my $file ("$name.armed", "$name.held")
	{
		wait_for(sub { -e $file || process_ended($gdb) });
		die 'gdb: ' . slurp_file("$name.out") . slurp_file("$name.err") unless -e $file;
		$session->query_until(qr/begun/, "\\echo begun\n$sql AS result \\gset\n") if $file =~ /armed/;
	}
	return { session => $session, name => $name, gdb => $gdb };
}

# Let it go on.  Returns the result of that statement.
sub release
{
	my ($held) = @_;

	append_to_file("$held->{name}.go", '');
	wait_for(sub { process_ended($held->{gdb}) }) or die 'gdb does not end';
	return $held->{session}->query('SELECT :result');
}

{
	my ($writer, $other, $reader) = map { session($node) } 1 .. 3;
	my ($held, $id);

	# between the choice of a time unit and the swap, before its note and after; and
	# between the swap and the end of the call
	foreach my $case ([ 'open_draws_note' ], [ 'open_draws_note', 'finish' ], [ 'generator_take', 'finish' ])
	{
		my $what = "a writer held at @$case";

		id($writer);
		$writer->query_safe('BEGIN');
		$held = hold($writer, 'SELECT snowflake_nextval()', @$case);
		my $horizon = horizon();
		id($other);
		$id = release($held);
		cmp_ok($id, '>=', $horizon, "$what: its ID is above the horizon, or holds it back");
		$writer->query_safe("INSERT INTO outbox VALUES ($id, 'held')");
		holds($id, "$what, when it has gone on,");
		$writer->query_safe('COMMIT');
		passes($id, 'until it has committed');
	}

	# a reader before the words are raised, and then before the entries are looked at
	foreach my $function (qw(generator_horizon open_draws_oldest))
	{
		$held = hold($reader, 'SELECT snowflake_horizon()', $function);
		$writer->query_safe('BEGIN');
		$id = id($writer);
		usleep(5000);
		cmp_ok(release($held), '<=', $id, "a reader held at $function: what is drawn meanwhile is above the horizon, or holds it back");
		$writer->query_safe('ROLLBACK');
	}

	# Two are prepared at once, where only one can be: it is the second.
	$_->query_safe('BEGIN') foreach $writer, $other;
	id($writer);
	$id = id($other);
	$held = hold($writer, "PREPARE TRANSACTION 'late'; SELECT 1", 'MarkAsPreparing');
	$other->query_safe("PREPARE TRANSACTION 'first'");
	is($node->safe_psql('postgres', "SELECT snowflake_timestamp(snowflake_horizon()) > snowflake_timestamp($id) - interval '1 min'"),
		't', 'the note of a transaction is kept, although another one was there before');
	release($held);
	$writer->{stderr} = '';
	$other->query_safe("ROLLBACK PREPARED 'first'");

	# A writer in a slot that no other draws from: it has drawn ahead of the clock there.
	# It does not see what others have drawn since it looked.
	id($writer);
	set_clock($node, $clock - 30);
	$id = id($writer, 'SELECT max(id) FROM snowflake_nextval(6000) AS id');
	isnt($writer->query_safe("SELECT worker FROM snowflake_parse($id)"), 0, 'a writer has gone to another slot');
	$held = hold($writer, 'SELECT snowflake_nextval()', 'open_draws_note');
	set_clock($node, $clock += 600);
	my $latest = id($other);
	$id = release($held);
	is($writer->query_safe("SELECT snowflake_timestamp($id) >= snowflake_timestamp($latest) - interval '60 s'"),
		't', 'held before its swap: its ID is not more than max_drift below one that was drawn meanwhile');
	$_->quit foreach $writer, $other, $reader;
	$node->stop;
}

#
# All at once.  A writer is a psql with a script of three transactions, which begins
# again when it has ended, or lost its connection.  WAIT is up to 2 s.
#
new_server('all', "max_prepared_transactions = 10\nsnowflake.max_drift = 300ms\n");
my $prepared = q(INSERT INTO outbox (kind) VALUES ('prepared'); WAIT; PREPARE TRANSACTION GID; WAIT; END PREPARED GID;);
my %writers = (
	default => q(INSERT INTO outbox (kind) VALUES ('default'), ('default'); WAIT; INSERT INTO outbox (kind) VALUES ('default'); END;),
	ahead => <<'SQL',
SELECT min(id) AS a, max(id) AS b FROM snowflake_nextval(5) AS id \gset
WAIT; INSERT INTO outbox VALUES (:a, 'ahead'); WAIT; INSERT INTO outbox VALUES (:b, 'ahead'); END;
SQL
	copy => "COPY outbox (kind) FROM STDIN;\ncopy\ncopy\n\\.\nWAIT; END;",
	savepoint => <<'SQL',
SAVEPOINT s;
INSERT INTO outbox (kind) VALUES ('gone') RETURNING id \gset
ROLLBACK TO s; WAIT; INSERT INTO outbox VALUES (:id, 'savepoint'); END;
SQL
	'prepared 1' => $prepared,
	'prepared 2' => $prepared,
	parallel => "$parallel WAIT; INSERT INTO outbox (id, kind, drawer) SELECT id, 'parallel', pid FROM drawn; DROP TABLE drawn; WAIT; END;",
	trigger => 'INSERT INTO orders VALUES (1); WAIT; END;',
	rollback => q(INSERT INTO outbox (kind) VALUES ('gone'), ('gone'); WAIT; ROLLBACK;),
	'many 1' => 'END; CALL insert_many();',
	'many 2' => 'END; CALL insert_many();',
	beside => 'SELECT snowflake_nextval(); WAIT; WAIT; END;');
my %running;

sub either { return rand() < 0.5 ? 'COMMIT' : 'ROLLBACK'; }
# What a writer that has ended has prepared and not ended
sub end_prepared
{
	my ($name) = @_;

	$node->safe_psql('postgres', either() . " PREPARED '$_'")
	  foreach split /\n/, $node->safe_psql('postgres', "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE '$name %'");
	return;
}

sub start_writer
{
	my ($name) = @_;
	my $file = "$dir/writer" . ++$files;

	end_prepared($name) if $name =~ /prepared/;
	append_to_file($file, "BEGIN;\n" . $writers{$name} =~ s/WAIT/SELECT pg_sleep(2 * random() ^ 2)/gr
		  =~ s/END (?=PREPARED)/either() . ' '/er =~ s/GID/'$name $files $_'/gr . "\n") foreach 1 .. 3;
	$running{$name} = start_process($file, $node->installed_command('psql'), qw(-XAtq -v ON_ERROR_STOP=1 -f), $file, '-d',
		$node->connstr($name eq 'beside' ? 'beside' : 'postgres') . ' application_name=writer');
	return;
}

my $two = <<'SQL';
SELECT snowflake_horizon() AS horizon \gset
SELECT id FROM outbox WHERE id > LAST AND id < :horizon ORDER BY id;
SQL

# Readers.  Where the file "stop" is, they poll once more.
my @polls = (
	[ 'by the horizon' => $two ],
	[ 'by the horizon, in a transaction' => "BEGIN READ ONLY;\n${two}COMMIT;" ],
	[ 'by a function' => 'SELECT * FROM outbox_after(LAST);' ],
	[ 'by the largest ID' => 'SELECT id FROM outbox WHERE id > LAST ORDER BY id;' ]);
my @readers = map {
	start_process("$dir/reader$_", $^X, abs_path($INC{'FaultTest.pm'} =~ s/FaultTest.pm/poll.pl/r), "$dir/ids$_", "$dir/stop",
		$polls[$_][1], $node->installed_command('psql'), qw(-XAtq -v ON_ERROR_STOP=1 -d), $node->connstr('postgres'))
} 0 .. $#polls;

# Writers that have ended begin again.
sub start_writers
{
	!$running{$_} || process_ended($running{$_}) and start_writer($_) foreach sort keys %writers;
	return;
}

sub busy_writer { return busy_backend($node, 'writer', \&start_writers); }

# For so long, one writer after the other is stopped for 0.3 s, anywhere.
my $stopped;
my $stops = 0;

sub go_on
{
	my ($seconds) = @_;
	my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds;

	while (clock_gettime(CLOCK_MONOTONIC) < $end)
	{
		start_writers();
		if (!$stopped || process_ended($stopped))
		{
			$stopped = start_process("$dir/stopped", 'sh', '-c', 'kill -STOP $0 && sleep 0.3; kill -CONT $0', busy_writer());
			$stops++;
		}
		usleep(50_000);
	}
	return;
}

sub writers_end { return wait_for(sub { !grep { !process_ended($_) } values %running, $stopped }) || die 'writers do not end'; }

# The clock goes so far from the right one, one after the other.
sub step { foreach my $step (@_, 0) { set_clock($node, $clock + $step); go_on(0.7); } return; }

my %faults = (
	'kill -9 of a backend' => sub {
		kill 'KILL', busy_writer();
		writers_end();
		wait_for(sub { defined try_sql($node, 'SELECT 1') });
	},
	'kill -9 of the server, clock set back' => sub {
		kill9_postmaster($node);
		set_clock($node, $clock - 2);
		start_node($node);
		go_on(2);
		set_clock($node, $clock);
	},
	'clock steps within max_drift' => sub { step(-0.2, 0, 0.15, -0.1, 0.2); },
	'clock steps beyond max_drift' => sub { step(2, 0, -2); });
my @order;

go_on(2);
foreach my $round (1 .. $rounds)
{
	@order = shuffle(sort keys %faults) if !@order;
	my $fault = shift @order;

	note "round $round: $fault";
	$faults{$fault}->();
	go_on(4);
}

# The end: all have ended, and the clock moves on.
writers_end();
end_prepared($_) foreach grep { /prepared/ } keys %writers;
set_clock($node, $clock += 10);
my @rows = map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', 'SELECT id, kind FROM outbox ORDER BY id');
passes($rows[-1][0], 'all is below the horizon');
append_to_file("$dir/stop", '');
wait_for(sub { !grep { !process_ended($_) } @readers }) or die 'readers do not end';

# How many of each kind
sub kinds
{
	my %kinds;

	$kinds{ $_->[1] }++ foreach @_;
	return join ', ', map { "$_ $kinds{$_}" } sort keys %kinds;
}

note scalar(@rows), " rows: ", kinds(@rows), "; $stops stops of writers";
is(kinds(@rows) =~ s/ \d+//gr, 'ahead, copy, default, deferred, many, parallel, prepared, savepoint, trigger', 'rows of all kinds are there');
cmp_ok($node->safe_psql('postgres', q(SELECT count(*) FROM outbox WHERE kind = 'parallel' AND drawer <> writer)), '>', 0, 'parallel workers drew some');
foreach my $i (0 .. $#polls)
{
	my $name = $polls[$i][0];
	my @read = split /\n/, slurp_file("$dir/ids$i");
	my %is_read = map { $_ => 1 } @read;
	my $missed = kinds(grep { !$is_read{ $_->[0] } } @rows);

	note "$name: read ", scalar(@read), ", missed: $missed";
	if ($name =~ /largest/)
	{
		isnt($missed, '', "$name: rows are missed");
		next;
	}
	is($missed, '', "$name: no row is missed");
	ok(join(' ', @read) eq join(' ', map { $_->[0] } @rows), "$name: each row once, in order");
}
$node->stop;

done_testing();
