# Business keys where one backend, and one layout, are not enough to see it: which
# worker numbers keys are drawn from, keys of many backends, other layouts, a dump.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $node = snowflake_node('keys', "autovacuum = off\ninclude_if_exists 'test.conf'\n");

# As a new server.
sub restart_with
{
	my ($conf) = @_;

	forget_mark($node);
	open my $file, '>', $node->data_dir . '/test.conf' or die $!;
	print $file $conf;
	close $file;
	$node->restart;
	return;
}

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub error_of
{
	my ($sql) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	return psql_error($stderr);
}

sub create_format
{
	my ($name, @options) = @_;

	return "SELECT snowflake_key_format_create(" . join(', ', "'$name'", "'$name'", 4, 8, @options) . ')';
}

sql(create_format('UD'));

#
# Many backends: with 31 slots, the fourth backend has one that 5 digits do not hold.
#
sql('CREATE TABLE drawn (pid integer, at serial, key text, id bigint)');
$node->command_ok(
	[
		$node->installed_command('pgbench'), '-n', '-c', 40, '-j', 2, '-t', 10,
		'-d', $node->connstr('postgres'), '-f', write_script()
	],
	'40 backends draw keys and IDs');

sub write_script
{
	my $file = $node->basedir . '/script';

	# an ID first, from any slot
	open my $fh, '>', $file or die $!;
	print $fh <<'SQL';
INSERT INTO drawn (pid, id) SELECT pg_backend_pid(), snowflake_nextval() FROM generate_series(1, 3);
INSERT INTO drawn (pid, key, id) SELECT pg_backend_pid(), snowflake_key('UD', i), snowflake_currval() FROM generate_series(1, 200) AS i;
SQL
	close $fh;
	return $file;
}

is(sql('SELECT count(*), count(DISTINCT id), count(DISTINCT key), count(DISTINCT pid) FROM drawn'),
	'81200|81200|80000|40', 'all IDs and all keys are different');
is(sql('SELECT count(*) FROM (SELECT id, lag(id) OVER (PARTITION BY pid ORDER BY at) AS before FROM drawn) AS d WHERE id <= before'),
	'0', 'those of a backend increase');
is(sql('SELECT count(*) FROM drawn, snowflake_key_parse(key) AS p WHERE p.id <> drawn.id'), '0', 'a key tells its ID');
cmp_ok(sql('SELECT max((snowflake_parse(id)).worker) FROM drawn WHERE key IS NOT NULL'), '<=', 23, 'keys are of the workers that 5 digits hold');

#
# In time units of a minute, with 7 slots of 4 numbers: one digit holds two of the slots.
#
sub fresh_minute
{
	ok( $node->poll_query_until('postgres',
			"SELECT extract(second FROM clock_timestamp()) BETWEEN 0 AND 10"),
		'there is time');
	return;
}

# worker and sequence of what a session draws, and units ahead of the clock
sub fields
{
	my ($session, $draw, $count) = @_;
	my $result = $session->query_safe(<<"SQL");
SELECT string_agg(worker || ':' || sequence || '+' || extract(epoch FROM ts - date_trunc('minute', clock_timestamp()))::int / 60, ' ' ORDER BY i)
FROM (SELECT i, $draw AS id FROM generate_series(1, $count) AS i OFFSET 0) AS ids, snowflake_parse(id)
SQL
	$result =~ s/\n//g;
	return $result;
}
my $key = "(SELECT p.id FROM snowflake_key_parse(snowflake_key('ONE', i)) AS p)";
my $id = 'snowflake_nextval() + i - i';

sql('SELECT snowflake_key_format_drop(name) FROM snowflake_key_formats()');
restart_with("snowflake.layout = 'time:31\@60s node:5 worker:3 sequence:2'\nsnowflake.sequence_start = zero\nsnowflake.max_drift = '4min'\n");
sql(create_format('ONE', 'sequence_width => 1'));
my $a = session($node);
my $b = session($node);
fresh_minute();
is(fields($a, $id, 1), '0:0+0', 'an ID is drawn from slot 0');
is(fields($b, $key, 1), '0:1+0', 'so is a key');
is(fields($a, $id, 6), '0:2+0 0:3+0 1:0+0 1:1+0 1:2+0 1:3+0', 'IDs go on in slot 1');
is(fields($a, $id, 1), '2:0+0', 'and in slot 2');
is(fields($b, $key, 1), '0:0+1', 'keys do not, but in the next unit');
is(fields($a, $key, 2), '0:1+1 0:2+1', 'nor where the backend was in slot 2');
is(fields($a, $id, 1), '0:3+1', 'then IDs are, too');
is(fields($b, $key, 13), '1:0+1 1:1+1 1:2+1 1:3+1 0:0+2 0:1+2 0:2+2 0:3+2 1:0+2 1:1+2 1:2+2 1:3+2 0:0+3', 'and so on');
fields($a, $key, 15);
$a->query_safe("SET snowflake.max_wait = '10ms'");
my $error = session_error($a, "SELECT snowflake_key('ONE', 1)");
is("$error->{sqlstate}: $error->{message}", '55P03: cannot generate a snowflake ID: all sequence numbers are in use', 'up to max_drift');
my $c = session($node);
is(fields($c, $id, 1), '2:1+0', 'there still are IDs');
$_->quit foreach $a, $b, $c;

#
# Other layouts: formats that were created with another are tested again
#
my $minute = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYMMDDHH24MI')");
is(sql("SELECT to_char(ts AT TIME ZONE 'UTC', 'SSMS'), id IS NULL FROM (VALUES ('00000'), ('01000')) v(ms), snowflake_key_parse('ONE00000001$minute' || ms || '010')"),
	"00000|f\n01000|t", 'a time between those of units: no ID');

restart_with("snowflake.layout = 'time:41 node:6 worker:4 sequence:12'\nsnowflake.epoch = '2019-01-01 00:00:00Z'\nsnowflake.node_id = 53\n");
$error = error_of("SELECT snowflake_key('ONE', 1)");
is("$error->{sqlstate}: $error->{message}", '22023: key format "ONE" cannot be used', 'a format of another layout');
is($error->{detail}, 'The field "sequence" has a width of 1, for numbers up to 9, and must hold numbers up to 4095.', 'and why');
sql('SELECT snowflake_key_format_drop(name) FROM snowflake_key_formats()');
sql(create_format('UD'));
is(sql("SET timezone = 'UTC'; SELECT p.*, snowflake_compose(ts, 53, 0, 2) = id FROM snowflake_key_parse('UD000000011902261230103345300002') AS p"),
	'UD|UD|0|0|1|2019-02-26 12:30:10.334+00|53|2|20482507501010946|t', 'the published order number');
like(sql("SELECT snowflake_key('UD', 0)"), qr/^UD00000001\d{15}53\d{5}$/, 'and one like it');

restart_with("snowflake.layout = 'time:41 node:10 sequence:12'\nsnowflake.node_id = 53\n");
$error = error_of("SELECT snowflake_key('UD', 0)");
is($error->{detail}, 'The field "node" has a width of 2, for numbers up to 99, and must hold numbers up to 1023.', 'more than 100 nodes');
$error = error_of(create_format('MD'));
is($error->{detail}, 'The field "node" has a width of 2, for numbers up to 99, and must hold numbers up to 1023.', 'not to be created');
sql(create_format('MD', 'node_width => 4'));
is(sql("SELECT key ~ '^MD00000001[0-9]{15}0053[0-9]{5}\$' AND id = snowflake_currval() FROM snowflake_key('MD', 0) AS key, snowflake_key_parse(key)"),
	't', 'with more digits');

# below a worker above the time there is no going down to another
restart_with("snowflake.layout = 'worker:5 time:41 node:5 sequence:12'\n");
$error = error_of(create_format('WD'));
is($error->{detail},
	'The field "sequence" has a width of 5, for 24 of 31 worker numbers, and in the layout "worker:5 time:41 node:5 sequence:12" the worker is above the time. The field must then hold all worker numbers.',
	'a worker above the time');
sql(create_format('WD', 'sequence_width => 6'));
is(sql("SELECT count(*) FROM generate_series(1, 1000) AS i, snowflake_key('WD', i) AS key, snowflake_key_parse(key) AS p WHERE (p.id, p.node) = (snowflake_currval(), 1)"),
	'1000', 'with more digits');

# fields in any order
restart_with("snowflake.layout = 'node:5 time:41\@10ms sequence:8 worker:2'\nsnowflake.node_id = 17\n");
sql(create_format('ND'));
is(sql("SELECT count(*), count(DISTINCT key) FROM generate_series(1, 1000) AS i, snowflake_key('ND', i) AS key, snowflake_key_parse(key) AS p WHERE (p.id, p.node) = (snowflake_currval(), 17)"),
	'1000|1000', 'other places and units');

#
# A dump takes formats along
#
sql('CREATE DATABASE copy');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('copy', slurp_file($dump));
my $rows = 'SELECT * FROM snowflake_key_formats()';
is($node->safe_psql('copy', $rows), sql($rows), 'the formats are restored');
like($node->safe_psql('copy', "SELECT snowflake_key('ND', 1)"), qr/^ND/, 'and are of use');

#
# Where a database's owner made the extension, the owner may change formats
#
sql('CREATE ROLE bob LOGIN; CREATE ROLE ann LOGIN; CREATE DATABASE mine OWNER bob');
sub as
{
	my ($user, $sql, $dbname) = @_;

	return scalar $node->psql($dbname // 'mine', $sql, connstr => $node->connstr($dbname // 'mine') . " user=$user");
}
is(as('bob', 'CREATE EXTENSION snowflake'), 0, 'the extension is bob\'s');
foreach my $change (
	create_format('BOB'),
	"SELECT snowflake_key_format_rename('BOB', 'mine')",
	"SELECT snowflake_key_format_drop('mine')")
{
	my ($function) = $change =~ /(snowflake_\w+)/;

	is(as('ann', $change), 3, "not to others: $function");
	is(as('bob', $change), 0, "to the extension's owner: $function");
	as('bob', "GRANT EXECUTE ON FUNCTION $function TO ann");
	is($node->safe_psql('mine', "SELECT has_function_privilege('ann', oid, 'EXECUTE') FROM pg_proc WHERE proname = '$function'"), 'f', "who cannot grant it: $function");
	$node->safe_psql('mine', "GRANT EXECUTE ON FUNCTION $function TO ann");
}
is(as('ann', create_format('ANN')), 0, 'to whom a superuser grants it');
is(as('bob', "DELETE FROM snowflake_catalog.key_formats"), 3, 'nor does anyone write the table');

# also one whose name is quoted
sql(q(CREATE ROLE "o'$wner"; CREATE DATABASE quoted OWNER "o'$wner"));
is($node->safe_psql('quoted', q(SET SESSION AUTHORIZATION "o'$wner"; CREATE EXTENSION snowflake; ) . create_format('X')), '', 'a name with a quote and a dollar sign');

# and restores them
sql('CREATE DATABASE mine_too OWNER bob');
$node->command_ok([ 'pg_dump', '-O', '-x', '-f', $dump, $node->connstr('mine') . ' user=bob' ], 'pg_dump as bob');
is(as('bob', slurp_file($dump), 'mine_too'), 0, 'restored by bob');
is($node->safe_psql('mine_too', $rows), $node->safe_psql('mine', $rows), 'the formats are there');
is(as('bob', "COPY snowflake_catalog.key_formats FROM stdin;\nN\tN\t1\t1\t1\tUTC\tcodes\t2\t4\t2\t1\t5\n\\.\n", 'mine_too'), 0, 'also one of another layout');
(undef, undef, my $wrong) = $node->psql('mine_too', "SELECT snowflake_key('N', 1)");
like($wrong, qr/key format "N" cannot be used\nDETAIL:  The field "node" has a width of 1/, 'which cannot be used here');
my $other = session($node, 'mine_too');
$other->query("SELECT snowflake_key('ANN', 1)");
is(as('bob', "COPY snowflake_catalog.key_formats FROM stdin;\nX\tX\t1\t1\t1\tUTC\tcodes\t2\t4\t2\t2\t5\n\\.\n", 'mine_too'), 0, 'restored while a session has formats');
is($other->query_safe("SELECT left(snowflake_key('X', 1), 1)"), "X", 'which knows of it');
$other->quit;

#
# Years have two digits
#
my $end_of_century = 4102444800 - time;
my $late = snowflake_node('late', "snowflake.layout = 'time:42 node:5 worker:5 sequence:11'\n", clock => $end_of_century - 3600);
$late->safe_psql('postgres', <<'SQL');
SELECT snowflake_key_format_create('UT', 'UT', 1, 1);
SELECT snowflake_key_format_create('SH', 'SH', 1, 1, time_zone => 'Asia/Shanghai');
SQL
like($late->safe_psql('postgres', "SELECT snowflake_key('UT', 0)"), qr/^UT0000000199123123/, 'the last hour of the century');
foreach my $name ('SH', 'UT')
{
	# where it is 8 hours later, and an hour later
	my (undef, undef, $stderr) = $late->psql('postgres', "SELECT snowflake_key('$name', 0)", extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	$error = psql_error($stderr);
	is("$error->{sqlstate}: $error->{message}", '22008: snowflake keys have years from 2000 to 2099', "$name: the next one");
	set_clock($late, $end_of_century + 60);
}

#
# Where the clock of a format's time zone is set back
#
my $fold = 1792888200;    # 2026-10-25 00:30:00 UTC, in Berlin half an hour before it is 2 o'clock again
my $berlin = snowflake_node('berlin', "snowflake.sequence_start = zero\n", clock => $fold - time);
$berlin->safe_psql('postgres', create_format('BE', q(time_zone => 'Europe/Berlin')));
foreach (
	[ 0, '61025023\d', 'the first time' ],
	[ 3600, '61025263\d', 'the second time' ],
	[ 5400, '6102503[0-9]{2}', 'after it' ])
{
	my ($later, $expected, $name) = @$_;

	set_clock($berlin, $fold + $later - time);
	my ($key, $right) = split /\|/, $berlin->safe_psql('postgres', <<'SQL');
SELECT key, p.ts = snowflake_timestamp(snowflake_currval()) AND p.id = snowflake_currval()
FROM (SELECT snowflake_key('BE', 1) AS key OFFSET 0) AS k, snowflake_key_parse(key) AS p
SQL
	like($key, qr/^BE00000101 2 $expected/x, "a key of $name");
	is($right, 't', "is read as what it is, $name");
}

#
# A text leads to the same shard in every database
#
foreach my $case ([ 'UTF8', 'é', '日' ], [ 'LATIN1', 'é' ], [ 'EUC_JP', '日' ], [ 'SQL_ASCII', 'é', '日' ])
{
	my ($encoding, @letters) = @$case;
	my %table = ('é' => 19, '日' => 10);

	$berlin->safe_psql('postgres', "CREATE DATABASE $encoding TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$berlin->safe_psql(lc $encoding, 'CREATE EXTENSION snowflake');
	foreach my $letter (@letters)
	{
		is($berlin->safe_psql(lc $encoding, "SET client_encoding = 'UTF8'; SELECT \"table\" FROM snowflake_route('caf$letter', 4, 8, 'hash')"),
			$table{$letter}, "the shard of caf$letter, with the encoding $encoding");
	}
}
my (undef, undef, $stderr) = $berlin->psql('sql_ascii', "SELECT snowflake_route(E'caf\\xe9', 4, 8, 'hash')", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
is(psql_error($stderr)->{sqlstate}, '22021', 'without an encoding, other bytes than UTF-8 have none');

done_testing();
