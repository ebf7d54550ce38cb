
# What a call takes goes with what it looks at: the memory of its session, and
# the rows of catalogs that it reads.  The time goes with these.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $tables = 2000;
my $partitions = 500;
my $others = 500;

my $node = snowflake_node('many', <<'CONF');
autovacuum = off
jit = off
max_locks_per_transaction = 512
CONF

# of a process, in kB: VmSize, the memory that it has; VmPeak, the most it had
sub memory
{
	my ($pid, $name) = @_;

	my ($size) = slurp_file("/proc/$pid/status") =~ /^$name:\s+(\d+) kB$/m or die "no $name";
	return $size;
}

# Run a statement in a new session: its result, and by how many kB the memory
# of the session has grown meanwhile.
sub run
{
	my ($sql, $dbname) = @_;
	my $session = session($node, $dbname);
	my $pid = $session->query_safe('SELECT pg_backend_pid() FROM (SELECT count(*) FROM pg_class) s');
	my $before = memory($pid, 'VmSize');
	my $result = $session->query_safe($sql);
	my $grown = memory($pid, 'VmPeak') - $before;

	$session->quit;
	return ($result, $grown);
}

# Many tables that draw IDs by default
$node->safe_psql('postgres', <<SQL);
DO \$\$
BEGIN
	FOR i IN 1 .. $tables LOOP
		EXECUTE format('CREATE TABLE t%s (id bigint DEFAULT snowflake_nextval())', i);
	END LOOP;
END
\$\$
SQL
my ($detail, $grown) = run(q(SELECT detail FROM snowflake_check() WHERE name = 'tables'));
like($detail, qr/^Columns of this database that draw snowflake IDs by default: $tables\./, "snowflake_check(), $tables tables");
cmp_ok($grown, '<', 20 * $tables, "and its memory: $grown kB");

# Many IDs
(my $count, $grown) = run('SELECT count(*) FROM (SELECT snowflake_nextval(1000000)) s');
is($count, 1000000, 'a million IDs in one call');
cmp_ok($grown, '<', 10000, "and their memory: $grown kB");

# Many partitions
$node->safe_psql('postgres', 'CREATE DATABASE partitions');
$node->safe_psql('partitions', <<SQL);
CREATE EXTENSION snowflake;
CREATE TABLE days (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT FROM snowflake_create_partitions('days', '2024-01-01', timestamptz '2024-01-01' + interval '$partitions days', '1 day');
SQL
my ($result) = run(<<SQL, 'partitions');
BEGIN;
SELECT detail FROM snowflake_check() WHERE name = 'tables';
SELECT sum(seq_scan + idx_scan + seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_sys_tables;
COMMIT;
SQL
($detail, my $read) = split /\n/, $result;
like($detail, qr/default: 1\./, "snowflake_check(), $partitions partitions");
cmp_ok($read, '<', 300 * $partitions, "and what it reads of catalogs: $read");

# Many tables that refer to one, and many that inherit from one
$node->safe_psql('postgres', 'CREATE DATABASE others');
$node->safe_psql('others', <<SQL);
CREATE EXTENSION snowflake;
CREATE TABLE customers (id serial PRIMARY KEY);
CREATE TABLE parent (id serial);
DO \$\$
BEGIN
	FOR i IN 1 .. $others LOOP
		EXECUTE format('CREATE TABLE orders%s (customer integer REFERENCES customers)', i);
		EXECUTE format('CREATE TABLE child%s () INHERITS (parent)', i);
	END LOOP;
END
\$\$
SQL
foreach ([ customers => $others + 1 ], [ parent => 1 ])
{
	my ($table, $statements) = @{$_};

	($result, $grown) = run(<<SQL, 'others');
BEGIN;
SELECT count(*) FROM snowflake_convert('$table', 'id') WHERE command ~ '^ALTER TABLE';
SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_sys_tables;
COMMIT;
SQL
	(my $altered, $read) = split /\n/, $result;
	is($altered, $statements, "snowflake_convert(), $others tables with $table");
	cmp_ok($read, '<', 300 * $others, "and the rows of catalogs that it reads: $read");
	cmp_ok($grown, '<', 60 * $others, "and its memory: $grown kB");
}

$node->stop;
done_testing();
