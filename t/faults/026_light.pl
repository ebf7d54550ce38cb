
# An idle server writes no WAL and does not wake the worker up; a busy one
# writes the mark twice a window at most.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use FaultTest;
use SnowflakeTest;

# seconds to look on
my $idle = 60;
my $busy = 10;

# as little as possible of what others do
my $node = snowflake_node('light', <<'CONF');
autovacuum = off
checkpoint_timeout = 1h
snowflake.reserve_window = '500ms'
CONF
my @workers = (worker_pid($node), services_pid($node));

sub wal_position
{
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
}

# What the workers have used: CPU time in ticks, and how often they were on the
# CPU.
sub worker_use
{
	my %use = (asleep => 1, ticks => 0, switches => 0);

	foreach my $pid (@workers)
	{
		my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //r;
		my @switches = slurp_file("/proc/$pid/status") =~ /ctxt_switches:\s*(\d+)/g;

		$use{asleep} = 0 unless $stat[0] eq 'S';
		$use{ticks} += $stat[11] + $stat[12];
		$use{switches} += $switches[0] + $switches[1];
	}
	return \%use;
}

# The same, once they have done what there was to do.
sub wait_idle
{
	at_rest(sub { return join ' ', @{ worker_use() }{qw(asleep switches)} });
	return worker_use();
}

# IDs were drawn, and then are no more
$node->safe_psql('postgres', 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)');
$node->safe_psql('postgres', 'CHECKPOINT');
my $use = wait_idle();
my $wal = wal_position();
note "idle: WAL at $wal, workers $use->{ticks} ticks, $use->{switches} switches";
sleep $idle;
my $after = worker_use();
is(wal_position(), $wal, "idle for $idle s: no WAL");
is($after->{ticks}, $use->{ticks}, 'no CPU time of the workers');
is($after->{switches}, $use->{switches}, 'which were not woken up');
is_deeply([ worker_pid($node), services_pid($node) ], \@workers, 'and are the same');

# idle in a session that has drawn an ID, and reads its statistics, too
my $session = session($node);
$session->query_safe('SELECT snowflake_nextval()');
my $reading = 'SELECT count(*) FROM pg_stat_snowflake_slots; SELECT snowflake_currval(); SELECT * FROM snowflake_layout(); SHOW snowflake.issued_until';
# a first time, since from 19 on who reads a catalog may mark its pages, with WAL
$session->query_safe($reading);
$use = wait_idle();
$wal = wal_position();
$session->query_safe($reading) foreach 1 .. 10;
sleep 3;
is(wal_position(), $wal, 'reading: no WAL');
is(worker_use()->{switches}, $use->{switches}, 'nor is the worker woken up');

# drawing as fast as can be
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $from = wal_position();
my $began = time();
my $issued = $session->query_safe(<<SQL);
DO \$\$BEGIN
	FOR i IN 0 .. 1000000 LOOP
		EXIT WHEN i > 10 AND clock_timestamp() > now() + interval '$busy s';
		PERFORM snowflake_nextval() FROM generate_series(1, 100000);
	END LOOP;
END\$\$;
SELECT sum(issued) FROM pg_stat_snowflake_slots;
SQL
my $took = time() - $began;
my $to = wal_position();
my ($records, $stderr) = run_command([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $from, '-e', $to ]);
my $n = () = $records =~ /^rmgr: Sequence/mg;
my $bytes = 0;
# all records, whoever writes them, but for images of pages
$bytes += $1 while $records =~ m{^rmgr: .*?\(rec/tot\): +(\d+)/ *\d+,}mg;
my $all = $node->safe_psql('postgres', "SELECT pg_wal_lsn_diff('$to', '$from')");
note "busy: $issued IDs in $took s, $n marks of $bytes bytes, $all bytes of WAL";
cmp_ok($issued, '>', 1_000_000, 'busy: many IDs');
cmp_ok($n, '>', 1, 'some marks');
cmp_ok($n, '<=', $took / 0.25 + 1, 'two a window at most');
cmp_ok($bytes / $n, '<', 500, 'which are small');
# The server writes the image of a catalog's page, now and then.
cmp_ok($all, '<', $issued / 10, 'and next to no other WAL');
$session->quit;

$node->stop;
done_testing();
