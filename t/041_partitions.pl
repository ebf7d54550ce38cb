# Partitions by time: beside other sessions, dumped and restored, with other
# layouts, on a standby.

use strict;
use warnings FATAL => 'all';

use Page;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = snowflake_node('main', "timezone = 'UTC'\n", allows_streaming => 1);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Partitions as "name from to" lines.
my $list = "SELECT partition, from_id, to_id FROM snowflake_partitions('t')";
my $names = "SELECT partition FROM snowflake_partitions('t')";

sub create
{
	my ($from, $to) = @_;
	return "SELECT partition, created FROM snowflake_create_partitions('t', '$from+00', '$to+00', '1 day')";
}

# Wait until a session waits for a lock.
sub poll_lock
{
	$node->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)")
	  or die 'nobody waits';
	return;
}

#
# Creating locks nobody out who reads and writes
#
sql("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int) PARTITION BY RANGE (id);"
	  . create('2026-11-01', '2026-11-02'));
my $other = session($node);
my $mine = session($node);
$other->query_safe("BEGIN; INSERT INTO t (id) SELECT snowflake_compose('2026-11-01+00', 0, 0, 0)");
$mine->query_safe("SET lock_timeout = '10s'; BEGIN");
is($mine->query_safe(create('2026-11-02', '2026-11-03')), 't_2026_11_02|t',
	'creates beside an open transaction that has inserted');
$other->query_safe('COMMIT');
is(sql("SET lock_timeout = '10s'; INSERT INTO t (id) SELECT snowflake_compose('2026-11-01+00', 1, 0, 0); SELECT count(*) FROM t"),
	'2', 'others write and read before it is committed');

#
# Two who create take turns, and both succeed
#
$other->query_until(qr/waits/, "\\echo waits\n" . create('2026-11-02', '2026-11-04') . ";\n");
poll_lock();
$mine->query_safe('COMMIT');
is($other->query_safe($names), "t_2026_11_02|f\nt_2026_11_03|t\nt_2026_11_01\nt_2026_11_02\nt_2026_11_03",
	'creates what the other did not');

# so do two who drop
$mine->query_safe('BEGIN');
is($mine->query_safe("SELECT partition FROM snowflake_drop_partitions('t', '2026-11-02+00')"),
	'public.t_2026_11_01', 'drops');
$other->query_until(qr/waits/, "\\echo waits\nSELECT partition FROM snowflake_drop_partitions('t', '2026-11-03+00');\n");
poll_lock();
$mine->query_safe('COMMIT');
is($other->query_safe($names), "public.t_2026_11_02\nt_2026_11_03", 'drops what the other did not');

# two who both have something to drop, at the same time
sql(create('2026-11-01', '2026-11-10'));
my @both = map { start_sql($node, "SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-09+00');") } 1 .. 4;
my @results = map { [ finish_sql($_) ] } @both;
is(join(',', map { $_->[1] } @results), ',,,', 'no deadlock of four who drop');
is(join(',', sort map { $_->[0] } @results), '0,0,0,8', 'one of them has dropped');
is(sql("SELECT partition FROM snowflake_drop_partitions('t', '2026-11-01+00')"), '', 'nothing more to drop');

# a table that is dropped meanwhile
sql('CREATE TABLE gone (id bigint) PARTITION BY RANGE (id)');
$mine->query_safe('BEGIN; DROP TABLE gone');
my $late = start_sql($node, "SELECT snowflake_create_partitions('gone', '2026-11-01+00', '2026-11-02+00', '1 day')");
$node->poll_query_until('postgres', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die 'nobody waits';
$mine->query_safe('COMMIT');
is(psql_error((finish_sql($late))[1])->{sqlstate}, '42P01', 'a table that is dropped meanwhile');

# a lock that nobody else gets meanwhile is taken only to drop
$mine->query_safe('BEGIN; SELECT count(*) FROM t');
is(sql("SET lock_timeout = '10s'; SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-01+00')"),
	'0', 'no lock where there is nothing to drop');
is(sql("SET lock_timeout = '10s'; SELECT count(*) FROM snowflake_drop_partitions('t', '2026-11-10+00', dry_run => true)"),
	'1', 'nor for a dry run');

#
# DETACH CONCURRENTLY, by way of \gexec
#
sql(create('2026-11-01', '2026-11-04'));
my $gexec = "SELECT command FROM snowflake_drop_partitions('t', '2026-11-03+00', dry_run => true, concurrently => true) \\gexec\n";
my $psql = start_sql($node, $gexec);
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_inherits WHERE inhdetachpending')
  or die 'nothing is detached';
is(sql("SET lock_timeout = '10s'; INSERT INTO t (id) SELECT snowflake_compose('2026-11-03+00', 1, 0, 0); SELECT count(*) FROM t"),
	'1', 'others write and read while a partition is being detached');
is(sql("SELECT partition, rows FROM snowflake_partitions('t', exact => true)"),
	"t_2026_11_01|\nt_2026_11_02|0\nt_2026_11_03|1\nt_2026_11_09|0", 'which is still listed');
my (undef, undef, $stderr) = $node->psql('postgres', '\set VERBOSITY verbose' . "\n" . create('2026-11-01', '2026-11-02'));
my $error = psql_error($stderr);
is($error->{sqlstate}, '42P17', 'its bounds are not free yet');
like($error->{hint}, qr/"t_2026_11_01" is being detached.*FINALIZE/, 'and the error says why');
$mine->query_safe('COMMIT');
is(join('|', finish_sql($psql)), '|', 'detached and dropped');
is(sql($names), "t_2026_11_03\nt_2026_11_09", 'those that ended before');

# one that was interrupted is finished
sub interrupt
{
	my ($from, $to) = @_;

	sql(create($from, $to));
	$mine->query_safe('BEGIN; SELECT count(*) FROM t');
	my $psql = start_sql($node, $gexec);
	$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_inherits WHERE inhdetachpending')
	  or die 'nothing is detached';
	sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%CONCURRENTLY'");
	$mine->query_safe('COMMIT');
	my (undef, $stderr) = finish_sql($psql);
	like($stderr, qr/canceling statement/, 'interrupted');
	return;
}
interrupt('2026-11-01', '2026-11-02');
is(sql("SELECT command FROM snowflake_drop_partitions('t', '2026-11-03+00', dry_run => true, concurrently => true)"),
	"ALTER TABLE public.t DETACH PARTITION public.t_2026_11_01 FINALIZE\nDROP TABLE public.t_2026_11_01",
	'one that was interrupted is finished');
is(join('|', finish_sql(start_sql($node, $gexec))), '|', 'by the same command');
is(sql($names), "t_2026_11_03\nt_2026_11_09", 'and dropped');
interrupt('2026-11-02', '2026-11-03');
is(sql("SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-03+00')"),
	'public.t_2026_11_02|t', 'or dropped without');
is(sql($names), "t_2026_11_03\nt_2026_11_09", 'and gone');

#
# What takes long says how far it is, after some seconds
#
sql(<<'SQL');
CREATE TABLE held (id bigint PRIMARY KEY);
CREATE TABLE made (id bigint REFERENCES held) PARTITION BY RANGE (id);
CREATE TABLE gone (id bigint) PARTITION BY RANGE (id);
CREATE TABLE counted (id bigint) PARTITION BY RANGE (id);
CREATE TABLE silent (id bigint REFERENCES held) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions(t, '2026-11-01+00', '2026-11-04+00', '1 day') FROM unnest('{gone,counted}'::regclass[]) t;
CREATE TABLE counted_rest PARTITION OF counted DEFAULT;
INSERT INTO counted SELECT id FROM snowflake_compose('2026-11-02+00', 1, 0, 0) id UNION ALL SELECT -7 UNION ALL SELECT NULL UNION ALL SELECT 9223372036854775807;
SQL
$mine->query_safe('BEGIN; INSERT INTO held VALUES (1); LOCK TABLE gone_2026_11_01 IN ACCESS SHARE MODE; LOCK TABLE counted_2026_11_01');
my $period = "'2026-11-01+00', '2026-11-04+00', '1 day'";
my @slow = map { start_sql($node, "SET application_name = 'slow'; $_") } (
	"SELECT count(*) FROM snowflake_create_partitions('made', $period)",
	"SELECT count(*) FROM snowflake_drop_partitions('gone', '2026-11-04+00')",
	"SELECT string_agg(rows::text, ' ') FROM snowflake_partitions('counted', exact => true)",
	"SET client_min_messages = warning; SELECT count(*) FROM snowflake_create_partitions('silent', $period)");
outlast($node, 'slow', 4);
$mine->query_safe('COMMIT');
my @said = map { [ finish_sql($_) ] } @slow;
is(join('|', map { $_->[0] } @said), '3|3|0 1 0 3|3', 'all of them are done');
my @notices = map { my @found = $_->[1] =~ /^psql:\S+ NOTICE:  00000: (.*)$/mg; join ', ', @found } @said;
like($notices[0], qr/^created 1 of 3 partitions$/, 'creating says how far it is');
like($notices[1], qr/^dropped 1 of 3 partitions$/, 'so does dropping');
like($notices[2], qr/^counted the rows of 1 of 4 partitions$/, 'and counting');
is($said[3][1], '', 'client_min_messages silences it');
sql('DROP TABLE made, gone, counted, silent, held');

#
# How far ahead they reach, by the query of docs/partitions.md
#
my $ahead = Page->new('docs/partitions.md')->example(qr/range_agg/) =~ s/\{events\}/{events,gap,open,past,rest}/r
  =~ s/;\n\z//r;
sql(<<'SQL');
CREATE TABLE events (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE gap (LIKE events) PARTITION BY RANGE (id);
CREATE TABLE open (LIKE events) PARTITION BY RANGE (id);
CREATE TABLE past (LIKE events) PARTITION BY RANGE (id);
CREATE TABLE rest (LIKE events) PARTITION BY RANGE (id);
CREATE TABLE reach AS SELECT 'events' AS name, max(ends) AS ts
FROM snowflake_create_partitions('events', now() - interval '2 days', now() + interval '7 days', '1 day');
INSERT INTO reach SELECT 'gap', max(ends) FROM snowflake_create_partitions('gap', now(), now() + interval '1 day', '1 day');
SELECT snowflake_create_partitions('gap', ts + interval '1 day', ts + interval '5 days', '1 day') FROM reach WHERE name = 'gap';
INSERT INTO reach SELECT 'open', max(ends) FROM snowflake_create_partitions('open', now(), now() + interval '2 days', '1 day');
SELECT format('CREATE TABLE open_end PARTITION OF open FOR VALUES FROM (%s) TO (MAXVALUE)', max(to_id)) FROM snowflake_partitions('open') \gexec
SELECT snowflake_create_partitions('past', now() - interval '9 days', now() - interval '3 days', '1 day');
CREATE TABLE rest_default PARTITION OF rest DEFAULT;
SQL
is(sql(<<SQL), "events|t\ngap|t\nopen|t\npast|now\nrest|now", 'how far ahead partitions reach without a gap');
SELECT "table", CASE WHEN ahead = '0' THEN 'now' ELSE left((now() + ahead = ts)::text, 1) END FROM ($ahead) AS a
LEFT JOIN reach ON name = "table"::text ORDER BY "table"::text
SQL
sql('DROP TABLE events, gap, open, past, rest, reach');

# Temporary tables of other sessions are theirs to look after.
my $elsewhere = session($node);
my $lacking = q(SELECT count(*) FROM snowflake_check() WHERE name = 'partitions' AND detail LIKE '%.temporary %');
$elsewhere->query('CREATE TEMP TABLE temporary (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)');
is($elsewhere->query_safe($lacking), 1, 'a temporary table without partitions');
is(sql($lacking), 0, 'which says nothing in other sessions');
$elsewhere->quit;

#
# A dump brings the partitions, and creating goes on there
#
sql('SELECT snowflake_nextval(); CREATE DATABASE restored');
sql("INSERT INTO t (id) SELECT snowflake_compose(ts, 0, 0, 0) FROM generate_series(timestamptz '2026-11-03+00', '2026-11-03 23:00+00', '1 hour') ts");
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restored');
is($node->safe_psql('restored', $list), sql($list), 'same partitions, same bounds');
is($node->safe_psql('restored', create('2026-11-03', '2026-11-05')), "t_2026_11_03|f\nt_2026_11_04|t",
	'creating goes on there');
is($node->safe_psql('restored', "SELECT rows FROM snowflake_partitions('t', exact => true) LIMIT 1"), '25', 'with the rows');

#
# A standby
#
$_->quit foreach ($mine, $other);
$node->stop;
$node->append_conf('standby.signal', '');
$node->start;
foreach my $call ("snowflake_create_partitions('t', '2026-11-01+00', '2026-11-02+00', '1 day')",
	"snowflake_drop_partitions('t', '2027-01-01+00')")
{
	(undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	is(psql_error($stderr)->{sqlstate}, '25006', 'not on a standby');
}
is(sql("SELECT partition, rows FROM snowflake_partitions('t', exact => true)"), "t_2026_11_03|25\nt_2026_11_09|0",
	'a standby lists and counts');
is(sql("SELECT partition, done FROM snowflake_drop_partitions('t', '2026-11-04+00', dry_run => true)"), 'public.t_2026_11_03|f',
	'a standby shows what would be dropped');
$node->stop;

#
# Another layout: not all bits, a time unit that no edge in time falls on, an
# epoch before days that were skipped
#
$node = snowflake_node('other', <<'CONF');
timezone = 'UTC'
snowflake.layout = 'time:38@7ms node:8 sequence:8'
snowflake.epoch = '2010-01-01 00:00:00.005+00'
include_if_exists 'test.conf'
CONF

sub edges
{
	my ($from, $to, $step, $zone) = @_;

	return sql(<<SQL);
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT partition, created FROM snowflake_create_partitions('t', '$from', '$to', '$step', '$zone');
-- each begins with the first ID of its period and ends before that of the next
SELECT from_id = lag(to_id) OVER (ORDER BY from_id),
  starts = date_trunc('days', starts AT TIME ZONE '$zone') AT TIME ZONE '$zone'
  OR snowflake_timestamp(from_id - 1) < date_trunc('days', starts AT TIME ZONE '$zone') AT TIME ZONE '$zone'
FROM snowflake_partitions('t');
DROP TABLE t;
SQL
}

is(edges('2018-11-03 12:00-03', '2018-11-05 12:00-02', '1 day', 'America/Sao_Paulo'), <<'END' =~ s/\n\z//r, 'midnight does not exist');
t_2018_11_03|t
t_2018_11_04|t
t_2018_11_05|t
|t
t|t
t|t
END
is(edges('2011-12-29 12:00-10', '2012-01-01 00:00+14', '1 day', 'Pacific/Apia'), <<'END' =~ s/\n\z//r, 'a day does not exist');
t_2011_12_29|t
t_2011_12_31|t
|t
t|t
END

# again, when the start of a partition is not quite its edge
my @again;
foreach my $day (1 .. 7)
{
	push @again, split /\n/, sql(<<SQL);
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
SELECT partition FROM snowflake_create_partitions('t', '2026-11-0$day 08:00+00', '2026-11-0$day 09:00+00', '3 days');
SELECT partition, created FROM snowflake_create_partitions('t', timestamptz '2026-11-0$day 08:00+00' + interval '2 days',
  timestamptz '2026-11-0$day 09:00+00' + interval '2 days', '3 days');
DROP TABLE t;
SQL
}
is_deeply(\@again, [ map { ("t_2026_11_0$_", "t_2026_11_0$_|f") } 1 .. 7 ], 'steps of days, begun in any part of a time unit');
sql('CREATE TABLE t (id bigint) PARTITION BY RANGE (id)');
my $week = "SELECT partition, created FROM snowflake_create_partitions('t', '%s+00', '%s+00', '7 days', 'Europe/Berlin')";
is(sql(sprintf $week, '2026-10-20 08:00', '2026-10-21'), 't_2026_10_20|t', 'a week from now');
is(sql(sprintf $week, '2026-10-26 22:59', '2026-10-26 23:00'), 't_2026_10_20|f', 'holds its last hour');
is(sql(sprintf $week, '2026-10-26 22:59', '2026-11-04 08:00'), "t_2026_10_20|f\nt_2026_10_27|t\nt_2026_11_03|t",
	'the next ones follow');
is(sql("SELECT starts, ends, int8range(from_id, to_id) = id_range_for('2026-10-27 00:00+01', '2026-11-03 00:00+01') FROM snowflake_partitions('t') OFFSET 1 LIMIT 1"),
	'2026-10-26 23:00:00.006+00|2026-11-02 23:00:00.006+00|t', 'bounds are the first IDs of the period');

# the end of the ID space is a bigint
is(sql("SELECT created, ends = (SELECT last_ts + time_unit FROM snowflake_layout()) FROM snowflake_create_partitions('t', '2070-12-10+00', '2070-12-11+00', '1 month')"),
	't|t', 'the last partition');
is(sql("SELECT partition, done FROM snowflake_drop_partitions('t', '2071-01-01+00') OFFSET 3"), 'public.t_2070_12|t', 'is dropped after it');

# Not while the server itself refuses the epoch, or does not know it: bounds would be other
# times.  That of the table's owner, who may not see why, is the same error.
sub refused
{
	my ($role, $name, %expected) = @_;

	foreach my $call ("snowflake_create_partitions('t', '2026-11-01', '2026-11-02', '1 day')",
		"snowflake_drop_partitions('t', '2100-01-01')", "snowflake_drop_partitions('t', '2100-01-01', dry_run => true)")
	{
		my $error;

		# before the worker has come so far, there is another reason
		foreach (1 .. 30)
		{
			my (undef, undef, $stderr) = $node->psql('postgres',
				"\\set VERBOSITY verbose\nSET snowflake.max_wait = '2s'; SET ROLE $role; SELECT $call");
			$error = psql_error($stderr);
			last if !grep { $error->{$_} !~ $expected{$_} } keys %expected;
		}
		like($error->{$_}, $expected{$_}, "$name, as $role: $_") foreach sort keys %expected;
	}
	return;
}
my $superuser = sql('SELECT current_user');
sql('CREATE ROLE app; ALTER TABLE t OWNER TO app; GRANT CREATE ON SCHEMA public TO app');
is(sql('SET ROLE app; ' . sprintf $week, '2026-10-26 22:59', '2026-11-04 08:00'), "t_2026_10_26|t\nt_2026_11_02|t", 'before the first ID');
sql('SELECT snowflake_nextval()');
restart_with_conf($node, "snowflake.epoch = '1990-01-01 00:00:00.005+00'\n");
refused($superuser, 'another epoch', sqlstate => qr/^55000$/, message => qr/^cannot tell the times of partitions/,
	detail => qr/has issued IDs with layout .* and epoch 2010-.*, and is now configured with/, hint => qr/^Set snowflake\.layout = /);
refused('app', 'another epoch', sqlstate => qr/^55000$/, detail => qr/worker failed/, hint => qr/^The server's log says why/);
is(sql('SELECT count(*) FROM snowflake_partitions($$t$$)'), '2', 'it lists them, and nothing is dropped');
sql('SELECT snowflake_accept_layout()');
is(sql("SELECT count(*) FROM snowflake_drop_partitions('t', '2100-01-01', dry_run => true)"), '2', 'another epoch that is accepted');
restart_with_conf($node, "max_prepared_transactions = 1\n");
sql('SELECT snowflake_accept_layout(); BEGIN; LOCK TABLE snowflake_home.recorded; PREPARE TRANSACTION $$holder$$');
$node->restart;
refused($superuser, 'what is recorded cannot be read', sqlstate => qr/^55P03$/, detail => qr/lock/);
sql('ROLLBACK PREPARED $$holder$$');
is(sql("SELECT count(*) FROM snowflake_drop_partitions('t', '2100-01-01', dry_run => true)"), '2', 'it can');
restart_with_conf($node, "shared_preload_libraries = ''\nsnowflake.node_id = -1\n");
refused($_, 'not preloaded', sqlstate => qr/^55000$/, message => qr/^snowflake must be loaded/, detail => qr/./, hint => qr/^Write /)
  foreach $superuser, 'app';

# a time unit longer than a step of days
$node->append_conf('postgresql.conf', "snowflake.layout = 'time:30\@90000s node:8'\n");
$node->restart;
(undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . create('2026-10-01', '2026-11-01'));
$error = psql_error($stderr);
is($error->{sqlstate}, '22023', 'a step smaller than the time unit');
like($error->{detail}, qr/The time unit .* is 25:00:00/, 'and the error says so');

# a layout that does not sort by time
$node->append_conf('postgresql.conf', "snowflake.layout = 'node:10 time:41 sequence:12'\n");
$node->restart;
foreach my $call ("snowflake_create_partitions('t', '2026-11-01', '2026-11-02', '1 day')",
	"snowflake_partitions('t')", "snowflake_drop_partitions('t', '2026-11-02')")
{
	(undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	$error = psql_error($stderr);
	is($error->{sqlstate}, '55000', 'not with a layout that does not sort by time');
	like($error->{message}, qr/do not sort by time/, 'and the error says so');
}
$node->stop;

done_testing();
