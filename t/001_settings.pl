
# The server's start: wrong settings stop it and say why; without preload the
# reading functions work and nothing is generated; what is not set is not
# guessed.  How single values are checked is in sql/settings.sql.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Page;
use SnowflakeTest;

my $node = snowflake_node('settings', "timezone = 'UTC'\n");

# Set these for the next start, and only these.
sub configure
{
	my ($conf) = @_;
	open(my $file, '>', $node->data_dir . '/test.conf') or die $!;
	print $file $conf;
	close($file);
	return;
}
configure('');
$node->append_conf('postgresql.conf', "include 'test.conf'");

sub refused
{
	my ($conf, @messages) = @_;
	my $offset = -s $node->logfile;

	configure($conf);
	ok(!$node->start(fail_ok => 1), "does not start with $conf");
	my $log = slurp_file($node->logfile, $offset);
	like($log, $_, 'and says why') foreach @messages;
	return;
}

# As a new server, which has not drawn IDs by other settings yet.
sub restart_with
{
	my ($conf) = @_;
	configure($conf);
	forget_mark($node);
	$node->restart;
	return;
}

# The SQLSTATE and the whole text of what a statement fails with.
sub error_of
{
	my ($sql) = @_;
	my ($ret, $stdout, $stderr) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	$stderr =~ s/^.*?(?=ERROR|FATAL)//s;
	return $stderr;
}

# What snowflake_check() says of something.
sub check
{
	my ($check) = @_;
	return $node->safe_psql('postgres',
		qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check'));
}

#
# Wrong values
#
$node->stop;
refused(
	"snowflake.layout = 'time:41 node:5 worker:5 sequence:13'",
	qr/FATAL:.*invalid value for parameter "snowflake.layout"/,
	qr/DETAIL:.*add up to 64 bits, but an ID has 63/);
refused(
	"snowflake.layout = 'time:41 shard:5'",
	qr/FATAL:.*"snowflake.layout"/,
	qr/DETAIL:.*Unknown field in "shard:5"/);
refused(
	"snowflake.layout = 'twiter'",
	qr/FATAL:.*invalid value for parameter "snowflake.layout": "twiter"/,
	qr/HINT:.*or is the name of a dialect, as in "twitter"/);
refused(
	"snowflake.epoch = '2020-01-01 00:00:00'",
	qr/FATAL:.*"snowflake.epoch"/,
	qr/DETAIL:.*no time zone/);
refused("snowflake.epoch = 'now'", qr/DETAIL:.*written out in numbers/);
refused("snowflake.epoch = '02/01/2020 00:00:00+00'", qr/DETAIL:.*day and month could be mistaken/);
refused("datestyle = 'ISO, DMY'\nsnowflake.epoch = '2020-13-01 00:00:00+00'", qr/DETAIL:.*not a date and time/);
refused("snowflake.epoch = '2020-01-01 00:00:00 Nowhere/Land'", qr/FATAL/);
refused(
	'snowflake.node_id = 32',
	qr/FATAL:.*"snowflake.node_id": 32/,
	qr/DETAIL:.*has 5 bits, so the largest number is 31/);
refused('snowflake.node_id = -2', qr/FATAL:.*-2 is outside the valid range/);
refused("snowflake.node_id = 'one'", qr/FATAL:.*"snowflake.node_id": "one"/);
refused(
	"snowflake.layout = 'time:41 sequence:12'\nsnowflake.node_id = 1",
	qr/FATAL:.*"snowflake.node_id": 1/,
	qr/DETAIL:.*has 0 bits, so the largest number is 0/);
refused(
	"snowflake.clock = 'sundial'",
	qr/FATAL:.*"snowflake.clock": "sundial"/,
	qr/HINT:.*Available values: system, monotonic, logical/);
refused("snowflake.clock = ''", qr/FATAL:.*"snowflake.clock": ""/);
refused('snowflake.max_drift = -1', qr/FATAL:.*"snowflake.max_drift"/);
refused("snowflake.max_wait = 'never'", qr/FATAL:.*"snowflake.max_wait"/);
refused("snowflake.sequence_start = 'one'",
	qr/FATAL:.*"snowflake.sequence_start": "one"/);
refused(
	"snowflake.layout = 'time:41 node:5 sequence:4'\nsnowflake.sequence_start_max = 16",
	qr/FATAL:.*"snowflake.sequence_start_max": 16/);
refused(
	"snowflake.database = ''",
	qr/FATAL:.*invalid value for parameter "snowflake.database": ""/,
	qr/DETAIL:.*The durable mark needs a database/);
my $longest = 'd' x 63;
refused(
	"snowflake.database = '${longest}d'",
	qr/FATAL:.*invalid value for parameter "snowflake.database": "${longest}d"/,
	qr/DETAIL:.*The name of a database has at most 63 bytes/);
refused(
	'snowflake.reserve_window = 99',
	qr/FATAL:.*99( ms)? is outside the valid range for parameter "snowflake.reserve_window"/);
refused("snowflake.reserve_window = '1441min'",
	qr/FATAL:.*"snowflake.reserve_window"/);
refused("snowflake.reserve_window = 'soon'",
	qr/FATAL:.*"snowflake.reserve_window": "soon"/);

# ... and nothing of it sticks
configure('');
$node->start;
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'),
	qr/^\d+$/, 'starts and generates with the values right again');

# A reload leaves what is fixed as it is, and says so.
configure("snowflake.layout = 'time:50'\nsnowflake.node_id = 2\nsnowflake.clock = logical\nsnowflake.max_drift = '3s'");
reload_node($node);
ok( $node->poll_query_until(
		'postgres', "SHOW snowflake.max_drift", '3s'),
	'max_drift is changed by a reload');
is( $node->safe_psql('postgres', 'SHOW snowflake.layout'),
	'time:41 node:5 worker:5 sequence:12',
	'layout is not');
is($node->safe_psql('postgres', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	'1', 'node is not');
is($node->safe_psql('postgres', 'SHOW snowflake.clock'), 'system', 'clock is not');
foreach my $clock (qw(monotonic LOGICAL))
{
	restart_with("snowflake.clock = $clock");
	is($node->safe_psql('postgres', 'SHOW snowflake.clock'), lc $clock, "clock = $clock");
	is($node->safe_psql('postgres', 'SELECT clock FROM pg_stat_snowflake'), lc $clock, 'which the view shows');
}

#
# Not set
#
restart_with('snowflake.node_id = -1');
is($node->safe_psql('postgres', 'SELECT node IS NULL FROM pg_stat_snowflake'), 't', 'no node number is shown');
my $error = error_of('SELECT snowflake_nextval()');
like($error, qr/ERROR:  55000: "snowflake.node_id" is not set/, 'no node number, no IDs');
like($error, qr/DETAIL:.*\nHINT:  Set "snowflake.node_id" to a number from 0 to 31/, 'with a hint');
is(check('node_id'), 'error|"snowflake.node_id" is not set. Set "snowflake.node_id" to a number from 0 to 31 that no other server has, and restart the server. To lease a number instead, set "snowflake.registry".',
	'snowflake_check() says so too');
like(error_of('SELECT snowflake_nextval(10)'), qr/55000/, 'nor many');
is($node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_nextval(0)'), '0', 'none is none');
is($node->safe_psql('postgres', 'SELECT worker FROM snowflake_parse(152075078181383514)'),
	'14', 'reading works');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake_slots WHERE pids <> \'{}\''),
	'0', 'and no slot was taken');

# 0 is a number like any other
restart_with('snowflake.node_id = 0');
is($node->safe_psql('postgres', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	'0', 'node 0');
restart_with('snowflake.node_id = 31');
is($node->safe_psql('postgres', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	'31', 'the highest node');

# no node field, nothing to set
restart_with("snowflake.node_id = -1\nsnowflake.layout = 'time:48 sequence:15'");
is($node->safe_psql('postgres', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	'0', 'a layout without nodes');
is(check('node_id'), 'ok|The layout has no node field, so there is no number to set.',
	'which lacks none');
is($node->safe_psql('postgres', 'SELECT node FROM pg_stat_snowflake'), '0', 'which the view shows');

#
# Layouts: what is drawn carries what is configured, whatever the order.
#
my @layouts = (
	'time:41 node:10 sequence:12',
	'node:10 time:41 sequence:12',
	'time:39@10ms sequence:8 node:16',
	'time:28@1s node:22 sequence:13',
	'worker:5 node:5 time:41 sequence:12',
	'node:5 worker:5 time:41 sequence:12',
	'sequence:12 worker:5 node:5 time:41',
	'time:41 sequence:12 worker:5 node:5',
	'time:42 node:1 worker:20',
	'time:41 node:1',
	'time:63@1ms',
	'time:37 node:6 worker:2 sequence:6');

foreach my $layout (@layouts)
{
	my $node_id = $layout =~ /node/ ? 1 : -1;

	restart_with("snowflake.layout = '$layout'\nsnowflake.node_id = $node_id\nsnowflake.epoch = '2024-02-29 12:00:00+02'");

	my $result = $node->safe_psql('postgres', <<'SQL');
CREATE TEMP TABLE drawn (n serial, id bigint DEFAULT snowflake_nextval(), at timestamptz DEFAULT clock_timestamp());
INSERT INTO drawn (n) SELECT generate_series(1, 100);
WITH batch AS MATERIALIZED (SELECT snowflake_nextval(100) AS id) INSERT INTO drawn (id) SELECT id FROM batch;
SELECT count(*), count(DISTINCT id),
	bool_and(id = snowflake_compose(ts, node, worker, sequence)),
	bool_and(node = greatest(current_setting('snowflake.node_id')::int, 0)),
	bool_and(ts <= at + current_setting('snowflake.max_drift')::interval),
	bool_and(ts > at - (SELECT time_unit FROM snowflake_layout()) - interval '10s'),
	bool_and(id BETWEEN 0 AND (SELECT max_id FROM snowflake_layout()))
FROM drawn, snowflake_parse(id);
SQL
	is($result, '200|200|t|t|t|t|t', "layout $layout");

	# P2 needs the sequence below the time
	next if $layout =~ /^sequence/;
	is( $node->safe_psql('postgres', <<'SQL'), 't', 'increasing');
SELECT bool_and(id > previous) FROM (
	SELECT id, lag(id, 1, -1::bigint) OVER (ORDER BY n) AS previous
	FROM (SELECT n, snowflake_nextval() AS id FROM generate_series(1, 100) n OFFSET 0) d) c
SQL
}

# a layout that scatters IDs is taken, with a warning
my $offset = -s $node->logfile;
restart_with("snowflake.layout = 'sequence:12 node:10 time:41'");
like(slurp_file($node->logfile, $offset),
	qr/WARNING:.*snowflake IDs of a session will not increase/,
	'a warning for the sequence above the time');

$offset = -s $node->logfile;
restart_with("snowflake.layout = 'node:5 worker:5 time:41 sequence:12'\nsnowflake.node_id = -1\nsnowflake.registry = 'host=/nowhere'");
like(slurp_file($node->logfile, $offset),
	qr/WARNING:.*snowflake IDs of a session will not increase\n.*DETAIL:.*leases its number, which can change/,
	'a warning for a leased node number above the time');

# where the time is not the highest field, a period is no range
restart_with("snowflake.layout = 'node:5 worker:5 time:41 sequence:12'");
foreach my $call ("id_range_for(now())", "id_range_for(now(), now())",
	"id_range_for('today')", "id_range_for(current_date)", "snowflake_first_id(tstzrange(now(), NULL))",
	"snowflake_in(1, now(), now())")
{
	$error = error_of("SELECT $call");
	like($error, qr/ERROR:  55000: snowflake IDs of this server do not sort by time/, $call);
	like($error, qr/HINT:  Compare snowflake_timestamp/, 'with a hint');
}
is($node->safe_psql('postgres', "SELECT id_range_for(NULL::timestamptz) IS NULL"), 't', 'NULL stays NULL');
# nor can IDs be made to go on above one of a higher node or worker
foreach my $fields ('2, 0', '1, 1', '31, 31')
{
	$error = error_of("SELECT snowflake_advance(snowflake_compose('2021-01-01', $fields, 0))");
	like($error, qr/ERROR:  0A000: cannot advance to snowflake ID \d+/, "advance to node, worker $fields");
	like($error, qr/DETAIL:  In the layout .* a field above the time makes it larger/, 'and why not');
}
is($node->safe_psql('postgres', "SELECT snowflake_advance(snowflake_compose('2021-01-01+00', 1, 0, 4095)) = '2021-01-01 00:00:00.001+00'"),
	't', 'but above one of its own first worker');
# with no bits above it, the time is the highest
restart_with("snowflake.layout = 'node:0 worker:0 time:41 sequence:12'\nsnowflake.node_id = -1");
is($node->safe_psql('postgres', "SELECT id_range_for('2020-01-01 00:00:00.001+00'::timestamptz)"),
	'[4096,8192)', 'fields of 0 bits do not count');

# numbers too large for an SQL integer are an error, not another number
restart_with("snowflake.layout = 'time:20 sequence:40'\nsnowflake.node_id = -1");
is($node->safe_psql('postgres', 'SELECT (snowflake_parse(2147483647)).sequence'), '2147483647', 'largest integer');
like(error_of('SELECT snowflake_parse(2147483648)'),
	qr/ERROR:  22003: integer out of range\nDETAIL:.*"sequence".*2147483648/, 'one more');
like(error_of('SELECT snowflake_parse(1152921504606846976)'), qr/22003.*is not a snowflake ID/,
	'past the layout');
like(error_of('SELECT snowflake_advance(1152921504606846976)'), qr/22003.*is not a snowflake ID/,
	'nothing to advance to');
like(error_of('SELECT snowflake_advance(1152921504606846975)'),
	qr/22003: cannot advance to .*\nDETAIL:  The ID is of the last time unit .* no ID is left above it/, 'nor the last time unit');
# a lifetime that a timestamp cannot say
$offset = -s $node->logfile;
restart_with("snowflake.layout = 'time:63'\nsnowflake.node_id = -1");
is($node->safe_psql('postgres', 'SELECT lifetime_end FROM pg_stat_snowflake'),
	'infinity', 'no end is shown');
is($node->safe_psql('postgres', 'SELECT last_ts, time_units FROM snowflake_layout()'),
	'infinity|9223372036854775808', 'longer than timestamps');
is(check('lifetime'), 'ok|The layout "time:63" with epoch 2020-01-01 00:00:00+00 ends at infinity.',
	'snowflake_check() counts no days');
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
unlike(slurp_file($node->logfile, $offset), qr/lifetime .* ends/, 'and nobody is warned');
like(error_of('SELECT snowflake_timestamp(9223372036854775807)'),
	qr/ERROR:  22008: timestamp out of range/, 'an ID from after that');
like(error_of('SELECT snowflake_advance(9223372036854775806)'),
	qr/ERROR:  22008: timestamp out of range/, 'nor to advance to');
like(error_of('SELECT snowflake_advance(9223372036854775807)'),
	qr/ERROR:  22003: cannot advance to .*\nDETAIL:  The ID is of the last time unit/, 'the last one');

# widest worker field: only so many slots
restart_with("snowflake.layout = 'time:1\@2147483647s worker:62'\nsnowflake.node_id = -1");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake_slots'), '4096', 'slots at most');
is($node->safe_psql('postgres', 'SELECT workers FROM snowflake_layout()'), '4611686018427387904', 'of many');

# the longest time there is
restart_with("snowflake.layout = 'time:63\@2147483647s'\nsnowflake.node_id = -1");
is(check('lifetime'), 'ok|The layout "time:63@2147483647s" with epoch 2020-01-01 00:00:00+00 ends at infinity.',
	'no end');

#
# Another layout or epoch than IDs were drawn with: refused, until it is accepted
#
restart_with("snowflake.layout = 'time:41 node:5 worker:5 sequence:12'");
my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');

# Restart as it is, with all that the server has recorded.
sub go_on_with
{
	my ($conf) = @_;
	configure($conf);
	$node->restart;
	return;
}

# the same one, in other words
go_on_with("snowflake.layout = ' time:41\@1ms  node:5 worker:5 sequence:12 '\nsnowflake.epoch = '2020-01-01 08:00:00+08'");
my $next = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
cmp_ok($next, '>', $id, 'the same layout and epoch in other words: IDs go on');
is($node->safe_psql('postgres', 'SELECT snowflake_accept_layout()'),
	'', 'nothing to accept');

$node->safe_psql('postgres', 'CREATE ROLE nobody');
foreach my $other (
	"snowflake.layout = 'time:41 node:5 worker:4 sequence:13'",
	"snowflake.layout = 'time:41 worker:5 node:5 sequence:12'",
	"snowflake.layout = 'time:41\@2ms node:5 worker:5 sequence:12'",
	"snowflake.epoch = '2020-01-01 00:00:00.001+00'")
{
	go_on_with($other);
	$error = error_of("SET snowflake.max_wait = '1h'; SELECT snowflake_nextval()");
	like($error, qr/ERROR:  55000: cannot generate a snowflake ID: the durable mark could not be raised/,
		"refuses $other");
	my $stored = 'this server has issued IDs with layout ".*time:41.* sequence:12.*" and epoch 2020-01-01 00:00:00\+00, and is now configured with';
	like($error, qr/DETAIL:  .*"postgres": $stored/, 'and says why');
	like($error, qr/HINT:  Set snowflake\.layout = 'time:41 node:5 worker:5 sequence:12' and snowflake\.epoch = '\S+ \S+' in postgresql\.conf and restart.*snowflake_accept_layout\(\)/, 'and what to do');
	like(error_of('SELECT snowflake_nextval(10)'), qr/55000/, 'for many too');
	like(error_of('SET ROLE nobody; SELECT snowflake_accept_layout()'),
		qr/42501: permission denied for function snowflake_accept_layout/,
		'not everybody may accept it');
}
# which was the epoch
is($node->safe_psql('postgres', 'SELECT snowflake_accept_layout()'),
	'', 'the epoch is accepted');
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'),
	'>', $next, 'and IDs go on');
go_on_with("snowflake.epoch = '2020-01-01 00:00:00.001+00'");
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'),
	qr/^\d+$/, 'after a restart too');
go_on_with('');
like(error_of('SELECT snowflake_nextval()'), qr/55000/,
	'and the former one is refused');

# A worker that is refused tries again and again: it would write what
# restart_with() forgets.
$node->safe_psql('postgres', 'SELECT snowflake_accept_layout(), snowflake_nextval()');

#
# A dialect as the layout: its fields and, where none is set, its epoch
#
restart_with("snowflake.layout = 'twitter'");
is( $node->safe_psql('postgres', <<'SQL'), "twitter|2010-11-04 01:42:54.657+00|2010-11-04 01:42:54.657+00|t|t", 'layout and epoch of a dialect');
SELECT current_setting('snowflake.layout'), current_setting('snowflake.epoch'), s.boot_val,
	first_ts = s.setting::timestamptz, layout = 'time:41 node:5 worker:5 sequence:12'
FROM snowflake_layout(), pg_settings s WHERE name = 'snowflake.epoch'
SQL
my $tweet = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');

# the same by its fields
my $twitter = "snowflake.layout = 'time:41 node:5 worker:5 sequence:12'\nsnowflake.epoch = '2010-11-04 01:42:54.657+00'";
is($node->safe_psql('postgres', 'SELECT layout, epoch FROM snowflake_home.recorded'),
	'time:41 node:5 worker:5 sequence:12|2010-11-04 01:42:54.657+00', 'what is recorded has no name');
foreach my $same ($twitter, "snowflake.layout = 'twitter'")
{
	go_on_with($same);
	my $later = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	cmp_ok($later, '>', $tweet, "IDs go on with $same");
	$tweet = $later;
	is($node->safe_psql('postgres', 'SELECT snowflake_accept_layout()'),
		'', 'nothing to accept');

	# a dump of a server with the name, or with the fields
	foreach my $dumped ('twitter', 'time:41 node:5 worker:5 sequence:12', 'leaf', 'nobody')
	{
		my ($ret, $stdout, $stderr) = $node->psql('postgres',
			"INSERT INTO snowflake_catalog.dumped_mark VALUES ('2020-01-02+00', '$dumped', '2010-11-04 01:42:54.657+00')");
		is($ret, 0, "restores a mark of the layout $dumped");
		is($stderr =~ /WARNING:  the durable mark of this dump is not restored/ ? 1 : 0,
			$dumped =~ /^(leaf|nobody)$/ ? 1 : 0, 'and warns if it is another');
	}
}

# the same fields with another epoch, and other fields with the same epoch
foreach my $other ("snowflake.layout = 'discord'", "snowflake.layout = 'leaf'",
	"snowflake.layout = 'twitter'\nsnowflake.epoch = '2015-01-01 00:00:00+00'")
{
	go_on_with($other);
	my $layout = $other =~ /leaf/ ? 'time:41 node:10 sequence:12' : 'time:41 node:5 worker:5 sequence:12';
	my $epoch = $other =~ /leaf/ ? '2010-11-04 01:42:54.657\+00' : '2015-01-01 00:00:00\+00';
	like(error_of("SET snowflake.max_wait = '1h'; SELECT snowflake_nextval()"),
		qr/DETAIL:  .* issued IDs with layout "time:41 node:5 worker:5 sequence:12" and epoch 2010-11-04 01:42:54.657\+00, and is now configured with layout "$layout" and epoch $epoch/,
		"refuses $other");
}

# Each of them: what is drawn is what its reader reads, whatever is set.
go_on_with('');
my $dialects = $node->safe_psql('postgres',
	"SELECT name, node_bits > 0, last_ts < now() FROM snowflake_dialects()");
foreach my $dialect (split /\n/, $dialects)
{
	my ($name, $has_node, $ended) = split /\|/, $dialect;

	restart_with("snowflake.layout = '$name'\nsnowflake.node_id = " . ($has_node eq 't' ? 11 : -1));
	is($node->safe_psql('postgres', "SELECT d.layout = l.layout AND d.epoch = current_setting('snowflake.epoch')::timestamptz AND d.last_ts = l.last_ts FROM snowflake_dialects() d, snowflake_layout() l WHERE name = '$name'"),
		't', "the layout $name");
	is($node->safe_psql('postgres', "SELECT ts, node, worker, sequence FROM snowflake_parse(175928847299117063, 'discord')"),
		'2016-04-30 11:18:25.796+00|1|0|7', 'reads an ID of Discord');
	if ($ended eq 't')
	{
		like(error_of('SELECT snowflake_nextval()'), qr/ERROR:  2200H: .*lifetime/, 'its lifetime is over');
		next;
	}
	is($node->safe_psql('postgres', <<SQL), 't|t|t', 'draws its IDs');
SELECT bool_and(p = snowflake_parse(id)), bool_and(p.node = greatest(current_setting('snowflake.node_id')::int, 0)),
	bool_and(p.ts BETWEEN now() - interval '10s' AND now() + interval '10s')
FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 100) OFFSET 0) drawn, snowflake_parse(id, '$name') p
SQL
}
restart_with("snowflake.node_id = 1");
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');

#
# Over to an older epoch, as docs/history.md has it
#
my $history = Page->new('docs/history.md');
my $layout = "'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00:00+00'";
$node->safe_psql('postgres', <<SQL);
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
CREATE TABLE lines (order_id bigint REFERENCES orders ON UPDATE CASCADE);
INSERT INTO orders (item) SELECT 'drawn' FROM generate_series(1, 1000);
INSERT INTO orders SELECT snowflake_backfill('2024-05-01+00'), 'backfilled' FROM generate_series(1, 10);
INSERT INTO lines SELECT id FROM orders;
CREATE TABLE before AS SELECT orders.id AS old_id, p.* FROM orders, snowflake_parse(id) p;
SQL
go_on_with($history->example(qr/^snowflake\.epoch = /m));
like(error_of('INSERT INTO orders DEFAULT VALUES'), qr/55000: .*could not be raised/, 'an older epoch is refused');
is($node->safe_psql('postgres', $history->example(qr/snowflake_accept_layout/)), "t\n", 'accepted: its IDs are above');
is($node->safe_psql('postgres', <<SQL), 't|t', 'then old IDs read too early, but not with the former epoch');
SELECT bool_and(snowflake_timestamp(old_id) = ts - (timestamptz '2020-01-01+00' - '2010-01-01+00')),
	bool_and(snowflake_parse(old_id, $layout)::text = ROW(ts, node, worker, sequence)::text) FROM before
SQL

# what is backfilled into the milliseconds as which old IDs read
is($node->safe_psql('postgres', <<SQL), '0', 'what is backfilled is none of the old IDs');
WITH drawn AS (SELECT snowflake_backfill(snowflake_timestamp(old_id)) AS id FROM before)
SELECT count(*) FROM drawn WHERE id IN (SELECT old_id FROM before)
SQL
$node->safe_psql('postgres', $history->example(qr/^UPDATE orders/m));
is($node->safe_psql('postgres', <<SQL), 't|1010|1010', 'moved: they read as before, and what refers to them is moved too');
SELECT array_agg(p::text ORDER BY id) = (SELECT array_agg(ROW(ts, node, worker, sequence)::text ORDER BY old_id) FROM before),
	count(*), (SELECT count(*) FROM lines JOIN orders ON id = order_id)
FROM orders, snowflake_parse(id) p
SQL
is($node->safe_psql('postgres', <<SQL), 't|t|2014-05-01 00:00:00+00', 'new IDs are above, and older history can be loaded');
SELECT max(id) AS old FROM orders \\gset
INSERT INTO orders SELECT snowflake_backfill('2014-05-01+00'), 'history';
INSERT INTO orders (item) VALUES ('new');
SELECT bool_and(id > :old) FILTER (WHERE item = 'new'), bool_and(id < :old) FILTER (WHERE item = 'history'),
	max(snowflake_timestamp(id)) FILTER (WHERE item = 'history') FROM orders
SQL
$node->safe_psql('postgres', 'DROP TABLE orders, lines, before');
restart_with("snowflake.node_id = 1");
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');

#
# The home database
#
ok(await_pointer($node), 'where the mark is, can be seen in all databases');
go_on_with("snowflake.database = '$longest'\nsnowflake.max_wait = '100ms'");

# either worker is the one whose last_error is shown; this is the mark writer's
ok( $node->poll_query_until(
		'postgres', "SELECT last_error LIKE '%could not connect%' FROM pg_stat_snowflake"),
	'the worker finds no such database');
ok( $node->poll_query_until(
		'postgres', q(SELECT detail LIKE '%could not connect%' FROM snowflake_check() WHERE name = 'mark')),
	'and the check says so');
like(
	error_of('SELECT snowflake_nextval()'),
	qr/ERROR:  55000: .*\nDETAIL:  .* failed in database "$longest": It could not connect\. Waited for "snowflake.max_wait", 100 ms\./,
	'no such database, no IDs');
$node->safe_psql('postgres', 'CREATE DATABASE home');
go_on_with('snowflake.database = home');
like(
	error_of('SELECT snowflake_nextval()'),
	qr/ERROR:  55000: .*\nDETAIL:  .* failed in database "home": the durable mark of this server is in database "postgres", and "snowflake.database" is "home"\.\nHINT:  Set "snowflake.database" to "postgres" and restart/,
	'nor does another database replace the one that has the mark');
is($node->safe_psql('home', "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_home'"),
	'0', 'where nothing is made');

#
# Without preload
#
configure('');
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION snowflake');
foreach my $call ('snowflake_nextval()', 'snowflake_nextval(1)')
{
	$error = error_of("SELECT $call");
	like($error, qr/ERROR:  55000: snowflake must be loaded via "shared_preload_libraries" to generate IDs/, "$call without preload");
	like($error, qr/HINT:  Write shared_preload_libraries = 'snowflake' into postgresql\.conf, and restart the server\.$/m, 'with a hint');
}
foreach my $view ('pg_stat_snowflake', 'pg_stat_snowflake_slots')
{
	like(error_of("SELECT * FROM $view"),
		qr/ERROR:  55000: snowflake must be loaded .* to read its statistics/, "$view without preload");
}
like(error_of('SELECT snowflake_currval()'), qr/ERROR:  55000: snowflake_currval is not yet defined/, 'currval');
is($node->safe_psql('other', q(SELECT string_agg(name, ', ') FROM snowflake_check() WHERE status = 'error')),
	'preload, worker, mark', 'snowflake_check()');
like(check('preload'), qr/not loaded via "shared_preload_libraries": IDs can be read, but not drawn\. "shared_preload_libraries" is empty\. Write shared_preload_libraries = 'snowflake' into/, 'says what is missing');
is($node->safe_psql('other', 'SELECT node, worker, sequence FROM snowflake_parse(152075078181383514)'),
	'24|14|3418', 'reading works');
is($node->safe_psql('other', "SELECT id_range_for('2021-02-23+00', '2021-02-24+00')"),
	'[151840515686400000,152202903552000000)', 'ranges work');
is($node->safe_psql('other', "SELECT snowflake_compose('2021-02-23 15:32:04.056+00', 24, 14, 3418)"),
	'152075078181383514', 'putting together works');
# by the server's configured layout and epoch
my $keys = session($node, 'other');
$keys->query_safe("SELECT $_") foreach "snowflake_key_format_create('X', 'X', 4, 8)", "snowflake_key('X', 42, 152075078181383514)";
configure("snowflake.layout = 'time:41 node:10 sequence:12'\nsnowflake.epoch = '2020-01-01 00:00:00+00'");
reload_node($node);
ok($node->poll_query_until('postgres', 'SELECT (snowflake_parse(152075078181383514)).node', '782'),
	'the configured layout counts without preload');
is(session_error($keys, "SELECT snowflake_key('X', 42, 152075078181383514)")->{message}, 'key format "X" cannot be used', 'also for a format of keys that a session knows');
$keys->quit;
# a dialect too, whatever else is read; but in a session that has the library
# the epoch's default stays
my $session = session($node);
is($session->query('SELECT (snowflake_parse(0)).ts'), '2020-01-01 00:00:00+00', 'a session');
configure("snowflake.layout = 'discord'");
reload_node($node);
ok($node->poll_query_until('postgres', 'SELECT (snowflake_parse(175928847299117063)).ts', '2016-04-30 11:18:25.796+00'),
	'a dialect without preload, with its epoch');
is($node->safe_psql('postgres', "SELECT node, worker FROM snowflake_parse(152075078181383514, 'pgedge')"), '782|0',
	'reading another');
is($session->query('SELECT node, worker, ts FROM snowflake_parse(175928847299117063)'), '1|0|2021-04-30 11:18:25.796+00',
	'the session has the layout, and the former default of the epoch');
$session->quit;
# and any clock will do
configure("snowflake.layout = 'discord'\nsnowflake.clock = logical");
reload_node($node);
ok($node->poll_query_until('postgres', "SHOW snowflake.clock", 'logical'), 'another clock without preload');
like(error_of('SELECT snowflake_nextval()'), qr/ERROR:  55000: snowflake must be loaded/, 'which is not read');
like(error_of("SELECT snowflake_backfill('2021-01-01+00')"), qr/ERROR:  55000: snowflake must be loaded/, 'nor here');
$node->safe_psql('other', "CREATE TABLE numbered (id bigserial); SELECT count(*) FROM snowflake_convert('numbered', 'id')");
# which must be right there too
configure("snowflake.layout = 'time:99'");
reload_node($node);
ok($node->poll_query_until('postgres', "SELECT current_setting('snowflake.layout', true)", 'time:99'), 'a wrong one');
like(error_of('SELECT snowflake_parse(1)'), qr/ERROR:  22023: invalid value for parameter "snowflake.layout"/,
	'is an error and not another layout');

$node->stop;
done_testing();
