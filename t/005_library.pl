
# The library itself: loaded by a session, where it reads IDs by settings that a
# reload changes; and preloaded from another place than the server's own.

use strict;
use warnings FATAL => 'all';

use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $node = PostgreSQL::Test::Cluster->new('library');
$node->init;

# Settings beside those of the test itself
sub configure
{
	my ($conf) = @_;
	open(my $file, '>', $node->data_dir . '/test.conf') or die $!;
	print $file $conf;
	close($file);
	return;
}
$node->append_conf('postgresql.conf', "timezone = 'UTC'\nfsync = off\ninclude 'test.conf'\n");
configure('');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');

#
# Wrong settings: an error in each call, until they are right
#
foreach my $case (
	[ 'epoch', 'now', '2021-01-01 00:00:00+00', qr/^It must be a date and time written out in numbers\.$/, qr/^Write the instant of time 0 with its zone/ ],
	[ 'layout', 'time:41 node:5 worker:5 sequence:13', 'time:41 node:10 sequence:12', qr/add up to 64 bits/, qr/^A layout lists its fields/ ])
{
	my ($name, $wrong, $right, $detail, $hint) = @{$case};

	configure("snowflake.$name = '$wrong'\n");
	reload_node($node);
	my $session = session($node);
	my $error = session_error($session, 'SELECT snowflake_timestamp(0)');
	is("$error->{sqlstate} $error->{message}", qq(22023 invalid value for parameter "snowflake.$name": "$wrong"), "$name: an error");
	like($error->{detail}, $detail, "$name: why");
	like($error->{hint}, $hint, "$name: what is right");
	is_deeply(session_error($session, 'SELECT snowflake_timestamp(0)'), $error, "$name: and again");
	is_deeply(session_error($session, "SELECT id_range_for('2024-01-01'::timestamptz)"), $error, "$name: and again, with another function");
	configure("snowflake.$name = '$right'\n");
	reload_node($node);
	ok(wait_for(sub { session_error($session, 'SELECT snowflake_timestamp(0)')->{sqlstate} eq '' }), "$name: no more when it is right");
	is($session->query("SHOW snowflake.$name"), $right, "$name: that is what counts");
	$session->quit;
}

# which matters for reading alone
configure("snowflake.max_wait = 'never'\nsnowflake.node_id = 99\n");
reload_node($node);
my $session = session($node);
foreach ('first', 'second')
{
	is($session->query('SELECT snowflake_timestamp(0)'), '2020-01-01 00:00:00+00', "another setting is wrong: the $_ call reads");
}
like($session->{stderr}, qr/WARNING:  22023: invalid value for parameter "snowflake\.max_wait": "never"/, 'with a warning');
$session->{stderr} = '';
$session->quit;

#
# A reload changes what a function returns: in plans made before it, with constants
# and with parameters, as in new ones and in a new session
#
configure("snowflake.layout = 'time:41 node:5 worker:5 sequence:12'\nsnowflake.epoch = '2020-01-01 00:00:00+00'\n");
reload_node($node);
$session = session($node);
my ($some_id, $some_ts) = (551380687257600000, '2024-03-01 12:00:00+00');
my @calls = (
	'snowflake_timestamp($1)', 'snowflake_parse($1)', 'snowflake_explain($1)',
	'id_range_for($2)', q(id_range_for($2, $2 + interval '1 day')), q(snowflake_in($1, $2, $2 + interval '1 day')),
	q(snowflake_in($1, tstzrange($2, $2 + interval '1 day'))),
	'snowflake_compose($2, 1, 2, 3)', 'snowflake_id($2, 7)');
my @constant = map { s/\$1/'$some_id'::bigint/gr =~ s/\$2/'$some_ts'::timestamptz/gr } @calls;
my @values;
foreach my $n (0 .. $#calls)
{
	$session->query_safe("PREPARE c$n AS SELECT $constant[$n]");
	$session->query_safe("PREPARE p$n (bigint, timestamptz) AS SELECT $calls[$n] WHERE \$1 IS NOT NULL AND \$2 IS NOT NULL");
}

# What the plans made before return, by name of the plan
sub executed
{
	my ($n) = @_;

	return (
		constants => $session->query_safe("EXECUTE c$n"),
		map { ($_ => $session->query_safe("SET plan_cache_mode = force_${_}_plan; EXECUTE p$n ($some_id, '$some_ts')")) } qw(custom generic));
}
foreach my $conf (
	[ 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00:00+00' ],
	[ 'time:41 node:5 worker:5 sequence:12', '2020-02-01 00:00:00+00' ],
	[ 'time:40 node:5 worker:5 sequence:13', '2020-02-01 00:00:00+00' ],
	[ 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00:00+00' ])
{
	my ($layout, $epoch) = @$conf;

	configure("snowflake.layout = '$layout'\nsnowflake.epoch = '$epoch'\n");
	reload_node($node);
	ok(wait_for(sub { $session->query_safe("SHOW snowflake.layout") eq $layout && $session->query_safe("SHOW snowflake.epoch") eq $epoch }),
		"reloaded: $layout since $epoch");
	foreach my $n (0 .. $#calls)
	{
		my %executed = executed($n);
		my $fresh = $node->safe_psql('postgres', "SELECT $constant[$n]");

		is($executed{$_}, $fresh, "$calls[$n]: a plan made before ($_) returns what a new session does") foreach sort keys %executed;
		is($session->query_safe("SELECT $constant[$n]"), $fresh, "$calls[$n]: and so does a new plan");
		$values[$n]{$fresh} = 1;
	}
}
is(scalar keys %{ $values[$_] }, $calls[$_] =~ /^snowflake_in/ ? 2 : 3, "$calls[$_]: each time another value") foreach 0 .. $#calls;
$session->quit;

#
# A reload changes what a prepared statement finds
#
configure('');
reload_node($node);
$session = session($node);
$session->query_safe(<<'SQL');
CREATE TABLE t (id bigint PRIMARY KEY);
INSERT INTO t SELECT snowflake_compose('2024-01-01+00'::timestamptz + n * interval '1 hour', 0, 0, 0) FROM generate_series(0, 10000) n;
ANALYZE t;
SQL
my @statements = (
	"SELECT count(*), min(id) FROM t WHERE snowflake_in(id, '[2024-03-01,2024-03-02)')",
	"SELECT count(*), min(id) FROM t WHERE snowflake_in(id, '2024-03-01', '2024-03-02')",
	"SELECT count(*), min(id) FROM t WHERE id <@ id_range_for('2024-03-01+00', '2024-03-02+00')",
	"SELECT count(*), min(id) FROM t WHERE id <@ id_range_for('2024-03-01')",
	"SELECT count(*), min(id) FROM t WHERE id >= snowflake_compose('2024-03-01+00', 0, 0, 0)",
	'SELECT snowflake_timestamp(152075078181383514)');
$session->query_safe("PREPARE s$_ AS $statements[$_]") foreach 0 .. $#statements;
my @before = map { $session->query_safe("EXECUTE s$_") } 0 .. $#statements;
is($before[0] =~ s/\|.*//r, 24, 'a day of rows');
foreach my $conf ("snowflake.epoch = '2020-02-01 00:00:00+00'", "snowflake.layout = 'time:40 node:5 worker:5 sequence:13'")
{
	configure("$conf\n");
	reload_node($node);
	my ($name) = $conf =~ /^(\S+)/;
	ok(wait_for(sub { index($conf, $session->query_safe("SHOW $name")) > 0 }), "reloaded: $conf");
	foreach my $n (0 .. $#statements)
	{
		my $fresh = $session->query_safe($statements[$n]);

		is($session->query_safe("EXECUTE s$n"), $fresh, "the prepared statement finds what a new one does: $statements[$n]");
		isnt($fresh, $before[$n], 'which is something else than before');
	}
}
foreach my $n (0, 1)
{
	like($session->query_safe("EXPLAIN (COSTS OFF) EXECUTE s$n"), qr/Index Cond: .*snowflake_first_id\(.*snowflake_last_id\(/,
		"by index: $statements[$n]");
}
$session->quit;
$node->stop;

#
# Preloaded from another place: the worker runs that copy, and so does who draws.
#
my ($library) = map { "$_/snowflake.so" } $ENV{SNOWFLAKE_IMAGE} ? "$ENV{SNOWFLAKE_IMAGE}/lib" : $node->config_data('--pkglibdir');
my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $copy = "$folder/snowflake.so";
copy($library, $copy) or die "$copy: $!";

# The libraries of ours that a process has
sub has
{
	my ($pid) = @_;
	my %has = map { $_ => 1 } slurp_file("/proc/$pid/maps") =~ m{(/\S*snowflake[^/\s]*\.so)}g;

	return join ' ', sort keys %has;
}
sub preload
{
	configure("shared_preload_libraries = '$_[0]'\nsnowflake.node_id = 1\nsnowflake.max_wait = '1min'\n");
	return;
}

# The extension of the home database has a function in the server's own one.
preload('snowflake');
$node->start;
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), qr/^\d+$/, 'preloaded by name: IDs flow');
$node->stop;

foreach my $path ("$folder/snowflake", $copy)
{
	preload($path);
	$node->start;
	$node->safe_psql('postgres', "CREATE OR REPLACE FUNCTION draw() RETURNS bigint AS '$copy', 'snowflake_next' LANGUAGE C");
	like($node->safe_psql('postgres', 'SELECT draw()'), qr/^\d+$/, "preloaded as $path: IDs flow");
	is(has(worker_pid($node)), $copy, "preloaded as $path: the worker runs it");

	# after its end as well; the next one begins when it is needed
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until('postgres',
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer' AND pid <> $pid) FROM draw()"),
		"preloaded as $path: the worker is started again");
	is(has(worker_pid($node)), $copy, "preloaded as $path: and runs that copy");

	# in one process there is only one
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_nextval()");
	my $error = psql_error($stderr);
	is("$error->{sqlstate} $error->{message}", '55000 another copy of the library "snowflake" is loaded', "preloaded as $path: the server's own is not loaded beside it");
	like($error->{hint}, qr/"shared_preload_libraries"/, "preloaded as $path: with a hint");
	$node->stop;
}

# nor both at once
my $offset = -s $node->logfile;
preload("snowflake,$copy");
ok(!$node->start(fail_ok => 1), 'two copies are preloaded: no start');
like(slurp_file($node->logfile, $offset), qr/FATAL:  another copy of the library "snowflake" is loaded/, 'two copies are preloaded: says why');

# A long path, for which older servers have no room
my $deep = $folder . '/' . 'long' x 25;
mkdir $deep or die "$deep: $!";
copy($library, "$deep/snowflake.so") or die "$deep: $!";
$offset = -s $node->logfile;
preload("$deep/snowflake");
if ($node->pg_version < 17)
{
	ok(!$node->start(fail_ok => 1), 'a long path: no start');
	like(slurp_file($node->logfile, $offset), qr/FATAL:  path of library is too long: "\Q$deep\E\/snowflake\.so"/, 'a long path: says why');
}
else
{
	$node->start;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake mark writer'"),
		'a long path: starts');
	is(has(worker_pid($node)), "$deep/snowflake.so", 'a long path: the worker runs it');
	$node->stop;
}

# As ever
preload('snowflake');
$node->start;
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), qr/^\d+$/, 'preloaded by name again: IDs flow');
is(has(worker_pid($node)), $library, "preloaded by name: from the server's folder");
$node->stop;
done_testing();
