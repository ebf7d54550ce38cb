
# bench/run.sh: its statistics, against what was worked out by hand; that it finds
# gaps in its figures; and the command itself, as a smoke run.  How fast anything
# is does not matter here.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $node = snowflake_node('bench');

sub query { return $node->safe_psql('postgres', $_[0]); }

$node->safe_psql('postgres', 'DROP EXTENSION snowflake');
$node->command_ok(
	[
		'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-v', 'clients=1 8',
		'-f', 'bench/setup.sql', '-f', 'bench/compare.sql'
	],
	'what the benchmark needs is made');

#
# Four rounds by hand.  The ratios of bigserial to snowflake are 5, 2, 3 and 3;
# the ratio of the medians would be 2.8.  The last value of bigserial is a sum.
# clock_timestamp() has one round only, and no snowflake beside it.
#

query(<<'SQL');
INSERT INTO sample VALUES
	('calls', 'snowflake, ns a call', 1, 10), ('calls', 'snowflake, ns a call', 2, 20),
	('calls', 'snowflake, ns a call', 3, 30), ('calls', 'snowflake, ns a call', 4, 40),
	('calls', 'bigserial, ns a call', 1, 50), ('calls', 'bigserial, ns a call', 2, 40),
	('calls', 'bigserial, ns a call', 3, 90), ('calls', 'bigserial, ns a call', 4, 100),
	('calls', 'bigserial, ns a call', 4, 20),
	('calls', 'UUIDv4, ns a call', 1, 5), ('calls', 'UUIDv4, ns a call', 2, 19),
	('calls', 'UUIDv4, ns a call', 3, 15), ('calls', 'UUIDv4, ns a call', 4, 39),
	('calls', 'plpgsql snowflake, ns a call', 1, 1), ('calls', 'plpgsql snowflake, ns a call', 2, 1),
	('calls', 'plpgsql snowflake, ns a call', 3, 1), ('calls', 'plpgsql snowflake, ns a call', 4, 40),
	('calls', 'clock_timestamp(), ns a call', 9, 7);
SQL

is( query("SELECT * FROM over_rounds('calls', 'bigserial, ns a call', 'snowflake, ns a call')"),
	'4|70|47.5|97.5|40|120|3|2.75|3.5|2|5',
	'rounds; median, quartiles and bounds; those of the ratio');
is( query("SELECT * FROM over_rounds('calls', 'clock_timestamp(), ns a call', 'snowflake, ns a call')"),
	'1|7|7|7|7|7|||||',
	'one round without a base');
is( query("SELECT candidate, rounds, value, round(ratio::numeric, 3) FROM summary WHERE section = 'calls' ORDER BY ord"),
	<<'TEXT' =~ s/\n\z//r, 'the candidates in their order');
clock_timestamp()|1|7|
snowflake|4|25|1.000
bigserial|4|70|3.000
UUIDv4|4|17|0.725
plpgsql snowflake|4|1|0.075
TEXT
is(query('SELECT candidate, measure, value, base, ratio FROM loss'),
	'UUIDv4|ns a call|17|25|0.725', 'better in every round, which one that is so in three of four is not');

my $table = query("SELECT table_query('calls', 'values')");
is( query($table), <<'TEXT' =~ s/\n\z//r, 'as a table');
clock_timestamp()|7
snowflake|25 (10 - 40)
bigserial|70 (40 - 120)
UUIDv4|17 (5 - 39)
plpgsql snowflake|1 (1 - 40)
TEXT
is(query("SELECT table_query('index', 'ratios') IS NULL"), 't', 'no table where there are no ratios');

#
# Gaps
#

query(<<'SQL');
TRUNCATE sample;
INSERT INTO sample
SELECT m.section, c.name || ', ' || m.name, round, CASE WHEN m.ratio THEN 1 ELSE 0 END
FROM measure AS m JOIN candidate AS c ON m.measured = ANY (c.sections), generate_series(1, 2) AS round;
SQL
my $gaps = "SELECT * FROM gaps('{calls,clients,inserts,large,times}', 2)";
is(query($gaps), '', 'no gap');
is(query("SELECT count(*) FROM gaps('{calls}', 3)"),
	query("SELECT count(*) FROM candidate WHERE 'calls' = ANY (sections)"),
	'a round is missing');
query("UPDATE sample SET value = '$_->[1]' WHERE (section, figure, round) = ('$_->[0]', 'UUIDv4, $_->[2]', 2)")
  foreach (
	[ 'clients', 'NaN', '8' ], [ 'ids', 'Infinity', 'WAL bytes an ID' ],
	[ 'rate', '0', 'COPY' ], [ 'wal', '-1', 'COPY' ]);
query("DELETE FROM sample WHERE (section, figure, round) = ('calls', 'UUIDv4, ns a call', 1)");
is( query("$gaps ORDER BY section"), <<'TEXT' =~ s/\n\z//r, 'one missing, four that are no figures');
calls|UUIDv4, ns a call|1
clients|UUIDv4, 8|2
ids|UUIDv4, WAL bytes an ID|2
rate|UUIDv4, COPY|2
wal|UUIDv4, COPY|2
TEXT

$node->stop;

#
# The command
#

my ($version) = run_command([ 'pg_config', '--version' ]);
my ($major) = $version =~ /(\d+)/;

sub run_bench
{
	my ($out, $err);

	IPC::Run::run([ 'bench/run.sh', @_ ], '<', '/dev/null', '>', \$out, '2>', \$err,
		IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	return ($?, $out, $err);
}

SKIP:
{
	skip "bench/run.sh needs Debian's server", 1
	  unless -x "/usr/lib/postgresql/$major/bin/postgres";

	local %ENV = (%ENV, PG_MAJOR => $major, TMPDIR => PostgreSQL::Test::Utils::tempdir_short());
	my ($status, $out, $err) = run_bench('--only', 'nothing');
	isnt($status, 0, 'an unknown section');
	like($err, qr/--only needs one of/, 'is named');

	($status, $out, $err) = run_bench('--quick');
	is($status, 0, 'a smoke run') or diag($out, $err);
	is_deeply([ glob "$ENV{TMPDIR}/*" ], [], 'leaves nothing behind');

	my $report = slurp_file('bench/out/report.md');
	my ($section, %rows, @bad);
	foreach (split /\n/, $report)
	{
		$section = $1 if /^## (.*)/;
		next if !/^\|/ || /^\|-/ || /^\|\s*key /;
		my ($name, @cells) = split /\s*\|\s*/, s/^\|\s*//r;
		$rows{$section}++;
		next if $section eq 'Where another key is better';
		@cells = grep { $_ ne '-' } @cells if $section eq 'At a glance';
		push @bad, "$section, $name: $_" foreach grep { !/^[\d.,]+( \([\d.,]+ - [\d.,]+\))?$/ } @cells;
	}
	is_deeply(\@bad, [], 'there are numbers in the tables');
	delete $rows{'Where another key is better'};
	is_deeply(
		\%rows,
		{
			'At a glance' => 10,
			'Cost of a call' => 2 * 9,
			'Scaling over clients' => 2 * 7,
			'WAL of drawing an ID' => 7,
			'Inserting rows' => 2 * 10,
			'Keys made twice' => 10,
			'WAL of a row' => 10,
			'Index' => 10,
			'A table larger than shared_buffers' => 2 * 5,
			'Rows of a period' => 2 * 5,
		},
		'each table has each candidate');

	my @csv = split /\n/, slurp_file('bench/out/report.csv');
	is(scalar(@csv), 1 + 9 + 7 * 3 + 10 * 6 + 10 + 10 * 7 + 10 * 6 + 5 * 6 + 5 * 7, 'so has the CSV');
	is(scalar(grep { /,,.*,,/ && !/^(ids|repeats|times|large),/ } @csv), 0, 'without gaps');
	like(slurp_file("bench/out/report-$_.svg"), qr/\Q<svg\E.*>(snowflake|bigserial)<.*<\/svg>\s*\z/s, "plot $_")
	  foreach qw(calls clients rate index);
}

done_testing();
