# Beside Citus, a coordinator and two workers: what docs/citus.md says, and that no
# ID comes twice while all of them draw.
#
# scripts/citus.sh runs it, on a server with Citus; scripts/test.sh does not.

use strict;
use warnings FATAL => 'all';

use List::Util qw(uniq);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my ($share) = run_command([ 'pg_config', '--sharedir' ]);
die "Citus is missing: scripts/citus.sh runs this test\n" unless -e "$share/extension/citus.control";

# The database that Citus has.  What the servers keep is in another one, postgres.
my $db = 'app';

sub sql { return $_[0]->safe_psql($db, $_[1]); }

# The error of a statement, as psql_error() has it
sub fails
{
	my ($node, $sql) = @_;
	my $stderr = '';

	$node->psql($db, $sql, stderr => \$stderr, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return psql_error($stderr);
}

# A server that begins as node $number, before Citus knows of it
sub server
{
	my ($name, $number) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'citus,snowflake'
fsync = off
timezone = 'UTC'
shared_buffers = 32MB
max_connections = 200
max_prepared_transactions = 200
enable_seqscan = off
citus.enable_statistics_collection = off
citus.recover_2pc_interval = '1s'
citus.local_hostname = '@{[ $node->host ]}'
log_statement = none
CONF
	$node->append_conf('postgresql.conf', "snowflake.node_id = $number\n") if defined $number;
	return $node;
}

#
# Set up
#
my $wrong = server('wrong', 9);
$wrong->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake,citus'\n");
is($wrong->start(fail_ok => 1), 0, 'with Citus after snowflake the server does not start');
like(slurp_file($wrong->logfile), qr/Citus has to be loaded first/, 'as Citus has to be the first');

# Start a server, with Citus; the first one of a cluster is its coordinator.
sub add_node
{
	my ($to, $node) = @_;

	$node->start;
	$node->safe_psql('postgres', "CREATE DATABASE $db") if $db ne 'postgres';
	sql($node, 'CREATE EXTENSION citus');
	sql($to, sprintf "SELECT %s('%s', %d)", $to == $node ? 'citus_set_coordinator_host' : 'citus_add_node', $node->host, $node->port);
	return;
}

my @nodes = (server('coordinator', 1), server('worker1', 2), server('worker2'));
my ($coordinator, @workers) = @nodes;

add_node($coordinator, $_) foreach @nodes;
sql($coordinator, 'CREATE EXTENSION snowflake');

# What a query says on each node, in the order of nodes
sub everywhere
{
	my ($query) = @_;

	return split /\n/, sql($coordinator,
		"SELECT coalesce(nullif(result, ''), '-') FROM run_command_on_all_nodes(\$q\$$query\$q\$) ORDER BY nodeid");
}

sub numbers { return join ' ', everywhere('SELECT (snowflake_parse(snowflake_nextval())).node'); }

is(join(' ', everywhere(q{SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'})),
	'1 1 1', 'CREATE EXTENSION is made on all nodes');
is(numbers(), '1 2 ERROR:  "snowflake.node_id" is not set',
	'a worker without a number draws nothing');
$workers[1]->append_conf('postgresql.conf', 'snowflake.node_id = 3');
$workers[1]->restart;
is(numbers(), '1 2 3', 'each node has a number of its own');
is(scalar uniq(everywhere('SELECT (layout, first_ts) FROM snowflake_layout()')), 1, 'and the same layout and epoch');

is(fails($coordinator, 'SELECT snowflake_currval()')->{sqlstate}, '55000', 'a session that drew nothing has no current ID');

#
# Who draws
#
sql($coordinator, <<'SQL');
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
SELECT create_distributed_table('orders', 'id');
CREATE TABLE lines (customer integer, id bigint DEFAULT snowflake_nextval(), item text, PRIMARY KEY (customer, id));
SELECT create_distributed_table('lines', 'customer');
CREATE TABLE kinds (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
SELECT create_reference_table('kinds');
CREATE TABLE seeds (customer integer PRIMARY KEY);
SELECT create_distributed_table('seeds', 'customer');
INSERT INTO seeds SELECT generate_series(1, 200);
SQL

# The numbers of the nodes that drew the IDs of some items
sub drawers
{
	my ($table, $item) = @_;

	return sql($coordinator, "SELECT string_agg(DISTINCT (snowflake_parse(id)).node::text, ' ') FROM $table WHERE item = '$item'");
}

sql($coordinator, "INSERT INTO orders (item) SELECT 'many' FROM generate_series(1, 1000)");
is(drawers('orders', 'many'), '1', 'INSERT: the node that one is connected to draws');
sql($workers[0], "INSERT INTO orders (item) VALUES ('one'); INSERT INTO kinds (item) VALUES ('one')");
is(drawers('orders', 'one') . drawers('kinds', 'one'), '22', 'also a worker, and for a reference table');
sql($workers[1], "COPY orders (item) FROM PROGRAM 'yes copied | head -n 1000'");
is(drawers('orders', 'copied'), '3', 'COPY: so it is there');
like(sql($coordinator, "EXPLAIN INSERT INTO orders (item) SELECT 'again' FROM seeds"),
	qr/INSERT\/SELECT method: repartition/, 'INSERT ... SELECT repartitions');
sql($coordinator, "INSERT INTO orders (item) SELECT 'again' FROM seeds");
is(drawers('orders', 'again'), '2 3', 'then the workers draw');
sql($coordinator, "INSERT INTO lines (customer, item) SELECT customer, 'same' FROM seeds");
is(fails($coordinator, "INSERT INTO lines (customer, item) SELECT customer, 'again' FROM seeds; SELECT snowflake_currval()")->{sqlstate}, '55000', 'then snowflake_currval() knows nothing of them');
is(drawers('lines', 'same'), '2 3', 'also where the rows stay with their customer');
sql($coordinator, "INSERT INTO orders (item) SELECT 'few' FROM seeds ORDER BY customer LIMIT 10");
is(drawers('orders', 'few'), '2 3', 'and where a part of the rows is taken');
like(sql($coordinator, 'SELECT snowflake_nextval() = snowflake_currval()'), qr/t/, 'snowflake_currval() is of the session');

#
# Rights, and formats of keys
#
sql($coordinator, <<'SQL');
CREATE ROLE app;
GRANT EXECUTE ON FUNCTION snowflake_backfill(timestamptz) TO app;
SELECT snowflake_key_format_create('order', 'UD', 4, 8);
SQL
my $may = "SELECT has_function_privilege('app', 'snowflake_backfill(timestamptz)', 'EXECUTE')";
is(join(' ', everywhere($may)), 't f f', 'GRANT is for one node');
sql($coordinator, 'SELECT run_command_on_all_nodes($$GRANT EXECUTE ON FUNCTION snowflake_backfill(timestamptz) TO app$$)');
is(join(' ', everywhere($may)), 't t t', 'run on all nodes it is for all');
sql($coordinator, 'SELECT run_command_on_all_nodes($$REVOKE EXECUTE ON FUNCTION snowflake_backfill(timestamptz) FROM app$$)');
is(join(' ', everywhere($may)), 'f f f', 'so is REVOKE');
is(join(' ', everywhere('SELECT count(*) FROM snowflake_key_formats()')), '1 0 0', 'formats of keys are of one node');

#
# Read by period
#
my $plan = sql($coordinator, "EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_in(id, '2026-01-01', '2027-01-01')");
like($plan, qr/Index Cond: \(\(id >= '794354201395200000'::bigint\) AND \(id < '926625772339200000'::bigint\)\)/,
	'a period is a condition on the index of a shard');
like($plan, qr/Task Count: 32/, 'all shards are asked, where rows are distributed by id');
like(sql($coordinator, "EXPLAIN (COSTS OFF) SELECT * FROM lines WHERE customer = 7 AND snowflake_in(id, '2026-01-01', '2027-01-01')"),
	qr/Task Count: 1\n/, 'one is, where they are distributed by another column that is given');
is(sql($coordinator, "SELECT count(*) FROM orders WHERE snowflake_in(id, now() - interval '1 hour', 'infinity')"),
	sql($coordinator, 'SELECT count(*) FROM orders'), 'a period to now() finds all');

#
# Change by period
#
my $stable = 'STABLE functions used in UPDATE queries cannot be called with column references';
foreach my $statement ('UPDATE orders SET item = item', 'DELETE FROM orders', 'UPDATE kinds SET item = item', 'DELETE FROM lines')
{
	is(fails($coordinator, "$statement WHERE snowflake_in(id, '2026-01-01', '2027-01-01')")->{message}, $stable, "$statement: not by snowflake_in()");
}
is(fails($coordinator, "UPDATE lines SET item = item WHERE customer = 7 AND snowflake_in(id, '2026-01-01', '2027-01-01')")->{message},
	$stable, 'neither in one shard');
like(fails($coordinator, <<'SQL')->{message}, qr/^non-IMMUTABLE functions are not yet supported in MERGE/, 'nor MERGE');
MERGE INTO orders AS o USING (SELECT 1::bigint AS id) AS s ON o.id = s.id AND snowflake_in(o.id, '2026-01-01', '2027-01-01')
WHEN MATCHED THEN DELETE
SQL
my $all = sql($coordinator, 'SELECT count(*) FROM orders');
my $bounds = 'id >= snowflake_first_id(%1$s) AND id <= snowflake_last_id(%1$s)';
my $in = sprintf $bounds, q{now() - interval '1 hour', 'infinity'};
like(fails($coordinator, "MERGE INTO orders AS o USING (SELECT 1::bigint AS n) AS s ON o.id = s.n AND $in WHEN MATCHED THEN DELETE")->{message}, qr/^non-IMMUTABLE functions are not yet supported in MERGE/, 'MERGE does not take bounds either');
is(sql($coordinator, "WITH u AS (UPDATE kinds SET item = item WHERE $in RETURNING id) SELECT count(*) FROM u"), 1, 'by bounds of a period: a reference table');
is(sql($coordinator, "WITH u AS (UPDATE orders SET item = item WHERE $in RETURNING id) SELECT count(*) FROM u"), $all, 'by the bounds of a period it is');
like(sql($coordinator, "EXPLAIN (COSTS OFF) UPDATE orders SET item = item WHERE $in"),
	qr/Index Cond: \(\(id >= '\d+'::bigint\) AND \(id <= '\d+'::bigint\)\)/, 'which are constants in the shards, by the index');
sql($coordinator, 'PREPARE u(timestamptz, timestamptz) AS UPDATE orders SET item = item WHERE '
	  . sprintf($bounds, '$1, $2') . ";\n" . "EXECUTE u('2026-01-01', '2027-01-01');\n" x 7);
pass('so it is with parameters');
sql($coordinator, 'DELETE FROM orders WHERE ' . sprintf $bounds, q{'2025-01-01', '2026-01-01'});
is(sql($coordinator, 'SELECT count(*) FROM orders'), $all, 'DELETE of another year deletes nothing');
is(sql($coordinator, 'WITH d AS (DELETE FROM lines WHERE customer = 7 AND ' . sprintf($bounds, q{now() - interval '1 hour', now()}) . ' RETURNING 1) SELECT count(*) FROM d'),
	'2', 'and of the last hour what there is');

#
# Partitions
#
sql($coordinator, <<'SQL');
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text) PARTITION BY RANGE (id);
SELECT create_distributed_table('events', 'id');
SELECT snowflake_create_partitions('events', now() - interval '1 month', now() + interval '1 month', '1 month');
INSERT INTO events (item) SELECT 'now' FROM generate_series(1, 500);
INSERT INTO events (id) SELECT snowflake_backfill(now() - interval '1 month') FROM generate_series(1, 50);
SQL
is(join(' ', everywhere("SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass")), '3 3 3', 'partitions are on all nodes');
is(sql($coordinator, "SELECT string_agg(rows::text, ' ' ORDER BY starts) FROM snowflake_partitions('events', exact => true)"),
	'50 500 0', 'rows of distributed partitions are counted');
is(sql($coordinator, "SELECT count(rows), count(bytes) FROM snowflake_partitions('events')"), '0|0', 'not guessed by the empty tables');
cmp_ok(sql($coordinator, "SELECT sum(citus_total_relation_size(partition)) FROM snowflake_partitions('events')"), '>', 1_000_000, 'Citus knows their size');
like(sql($coordinator, "EXPLAIN (COSTS OFF) SELECT * FROM events WHERE snowflake_in(id, now() - interval '1 hour', 'infinity')"),
	qr/Subplans Removed: 1/, 'others are skipped in each shard');
sql($coordinator, <<'SQL');
CREATE EXTENSION citus_columnar;
SELECT alter_table_set_access_method(partition, 'columnar') FROM snowflake_partitions('events') ORDER BY starts LIMIT 1;
CREATE TABLE local_events (id bigint DEFAULT snowflake_nextval(), item text) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('local_events', now(), now(), '1 day');
SELECT snowflake_create_partitions('local_events', now(), now() + interval '1 day', '1 day');
INSERT INTO local_events (item) SELECT 'now' FROM generate_series(1, 500);
SELECT alter_table_set_access_method(partition, 'columnar') FROM snowflake_partitions('local_events') ORDER BY starts LIMIT 1;
SQL
is(sql($coordinator, "SELECT string_agg(rows::text, ' ' ORDER BY starts) FROM snowflake_partitions('events', exact => true)"),
	'50 500 0', 'also those of columnar partitions');
is(sql($coordinator, "SELECT string_agg(rows::text, ' ' ORDER BY starts) FROM snowflake_partitions('local_events', exact => true)"), '500 0', 'and of local ones');
sql($coordinator, 'ANALYZE local_events');
is(sql($coordinator, "SELECT string_agg(rows::text, ' ' ORDER BY starts) FROM snowflake_partitions('local_events')"), '500 0', 'whose number is known without counting after ANALYZE');
is(fails($coordinator, <<'SQL')->{message}, 'ALTER TABLE .. DETACH PARTITION .. CONCURRENTLY commands are currently unsupported.', 'Citus detaches none concurrently');
\set ON_ERROR_STOP on
SELECT command FROM snowflake_drop_partitions('events', now(), dry_run => true, concurrently => true) \gexec
SQL
sql($coordinator, "SELECT snowflake_drop_partitions('events', now())");
is(join(' ', everywhere("SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass")), '2 2 2', 'they are dropped on all nodes');

#
# The doctor
#
my $looked = sql($coordinator, q{SELECT string_agg(status || ' ' || detail, '; ') FROM snowflake_check() WHERE name = 'tables'});
like($looked, qr/^ok .*Not looked at: .*public\.orders\.id \(distributed by Citus\)/, 'snowflake_check(): distributed tables are not looked at');
like($looked, qr/public\.kinds\.id \(distributed by Citus\)/, 'nor are reference tables');
like(join("\n", everywhere(q{SELECT string_agg(name, ' ') FROM snowflake_check() WHERE status = 'error'})), qr/^-\n-\n-$/, 'it has no error on any node');

#
# Convert
#
sub plan_of { return sql($coordinator, "SELECT string_agg(kind || ': ' || detail, E'\\n') FROM snowflake_convert('$_[0]', 'id'" . ($_[1] // '') . ')'); }
sub convert { return sql($coordinator, "SELECT snowflake_convert('$_[0]', 'id', dry_run => false" . ($_[1] // '') . ')'); }

sql($coordinator, <<'SQL');
CREATE TABLE by_id (id bigserial PRIMARY KEY, item text);
INSERT INTO by_id (item) SELECT 'old' FROM generate_series(1, 50);
SELECT create_distributed_table('by_id', 'id');
CREATE TABLE by_customer (customer integer, id bigserial, PRIMARY KEY (customer, id));
SELECT create_distributed_table('by_customer', 'customer');
CREATE TABLE small (customer integer, id serial, PRIMARY KEY (customer, id));
SELECT create_distributed_table('small', 'customer');
CREATE TABLE plain (customer integer, id integer, PRIMARY KEY (customer, id));
SELECT create_distributed_table('plain', 'customer');
CREATE TABLE identity (customer integer, id bigint GENERATED BY DEFAULT AS IDENTITY, PRIMARY KEY (customer, id));
SELECT create_distributed_table('identity', 'customer');
CREATE TABLE kind (id serial PRIMARY KEY);
SELECT create_reference_table('kind');
CREATE TABLE of_kind (id bigint PRIMARY KEY, kind integer REFERENCES kind);
SELECT create_distributed_table('of_kind', 'id');
SQL
my %refused = (
	by_id => [ 'Citus distributes the rows by it', 'cannot execute ALTER TABLE command involving partition column' ],
	small => [ 'Citus does not change the type of a column that draws from a sequence', 'cannot execute ALTER COLUMN TYPE .. command because the column involves a default coming from a sequence' ],
	kind => [ 'Citus does not change the type of a column that draws from a sequence', 'cannot execute ALTER COLUMN TYPE .. command because the column involves a default coming from a sequence' ],
	identity => [ 'Citus alters no identity column', 'alter table command is currently unsupported' ]);
foreach my $table (sort keys %refused)
{
	like(plan_of($table), qr/^error: column public\.$table\.id cannot be altered: $refused{$table}[0]/, "$table: the dry run says that Citus refuses it");
	like(fails($coordinator, "SELECT snowflake_convert('$table', 'id', dry_run => false)")->{message}, qr/cannot be altered: Citus/, 'so does the real run');

	# its own error, for the statement of the plan
	my $alter = sql($coordinator, "SELECT command FROM snowflake_convert('$table', 'id') WHERE command LIKE 'ALTER TABLE public.$table %'");
	is(fails($coordinator, $alter)->{message}, $refused{$table}[1], 'and Citus');
}
convert('by_customer');
sql($coordinator, 'INSERT INTO by_customer (customer) SELECT generate_series(1, 20)');
is(sql($coordinator, 'SELECT count(*) FROM by_customer WHERE (snowflake_parse(id)).node = 1'), '20', 'a bigserial that is not the distribution column is converted');
like(plan_of('plain'), qr/warning: Citus stores the rows of public\.plain: the estimate does not count them/, 'an integer without a sequence: the estimate does not count');
convert('plain');
pass('it is converted');
like(plan_of('by_customer', ", target => 'bigserial'"), qr/^error: column public\.by_customer\.id cannot be altered: Citus gives no sequence to a distributed table/, 'there is no way back to a sequence');
foreach my $table (qw(by_id small kind))
{
	my ($hint) = plan_of($table) =~ /^Hint: Run (SELECT undistribute_table\(.*?\))/m;

	sql($coordinator, $hint);
	convert($table);
}
sql($coordinator, <<'SQL');
SELECT create_distributed_table('by_id', 'id');
SELECT create_distributed_table('small', 'customer');
SELECT create_reference_table('kind');
SELECT create_distributed_table('of_kind', 'id');
INSERT INTO by_id (item) VALUES ('new');
INSERT INTO small VALUES (1);
INSERT INTO kind DEFAULT VALUES;
INSERT INTO of_kind SELECT id, id FROM kind;
SQL
is(sql($coordinator, 'SELECT count(*), count(*) FILTER (WHERE id > 900000000000000000) FROM by_id'), '51|1', 'undistributed, converted and distributed again: old rows keep their numbers');

#
# A new column
#
is(fails($coordinator, "SELECT undistribute_table('identity')")->{message}, 'cannot complete operation on a table with identity column', 'a table with identity is not undistributed');
sql($coordinator, <<'SQL');
CREATE TABLE moved (customer integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (customer, id));
SELECT create_distributed_table('moved', 'customer');
INSERT INTO identity (customer) VALUES (1), (2);
INSERT INTO moved SELECT * FROM identity;
SQL
is(sql($coordinator, 'SELECT count(*) FROM moved WHERE id < 10'), '2', 'its rows are moved to another one');
my $same = 'SELECT md5(string_agg(n::text, $$ $$ ORDER BY n)) FROM kinds';
sql($coordinator, 'ALTER TABLE kinds ADD COLUMN n bigint DEFAULT snowflake_nextval()');
is(scalar uniq(everywhere($same)), 3, 'ADD COLUMN gives each replica of a reference table other IDs');
sql($coordinator, 'ALTER TABLE kinds DROP COLUMN n, ADD COLUMN n uuid DEFAULT gen_random_uuid()');
is(scalar uniq(everywhere($same)), 3, 'as gen_random_uuid() does');
is(fails($coordinator, 'UPDATE kinds SET id = snowflake_nextval()')->{message}, 'functions used in UPDATE queries on distributed tables must not be VOLATILE', 'UPDATE draws none');
sql($coordinator, <<'SQL');
ALTER TABLE kinds DROP COLUMN n;
SELECT undistribute_table('kinds');
ALTER TABLE kinds ADD COLUMN n bigint DEFAULT snowflake_nextval();
SELECT create_reference_table('kinds');
INSERT INTO kinds (item) SELECT 'more' FROM generate_series(1, 10);
SQL
is(scalar uniq(everywhere($same)), 1, 'added while it is undistributed, the column is the same everywhere');
sql($coordinator, 'ALTER TABLE seeds ADD COLUMN n bigint DEFAULT snowflake_nextval()');
is(sql($coordinator, q{SELECT count(*), count(DISTINCT n), string_agg(DISTINCT (snowflake_parse(n)).node::text, ' ') FROM seeds}), '200|200|2 3', 'in a distributed table the workers draw');

#
# Segments without a registry
#
my $error = fails($workers[0], "SELECT snowflake_segment_nextval('ticket')");
is("$error->{message}: $error->{hint}", 'segment tag "ticket" does not exist: To share its numbers with other servers, set "snowflake.registry" on all of them, and create the tag with a start above the numbers in use. Without a registry, each server counts for itself.',
	'segments without a registry: the hint is to set one');
sql($_, "SELECT snowflake_segment_create('ticket', start => 10001)") foreach @nodes;
is(join(' ', everywhere("SELECT snowflake_segment_nextval('ticket')")), '10001 10001 10001', 'else each server gives the same numbers');
is(join(' ', everywhere(q{SELECT count(*) FROM snowflake_check() WHERE name = 'segments' AND status = 'warning' AND detail LIKE '%snowflake.registry%'})),
	'1 1 1', 'and the doctor warns of it');

#
# All draw at once, and a worker crashes
#
my $ledger = new_ledger();
sql($_, 'CREATE TABLE own (id bigint PRIMARY KEY DEFAULT snowflake_nextval())') foreach @nodes;
my @draws = map {
	my $node = $_;
	map { start_draw($node, dbname => $db, sessions => 2, delay => 50, sql => $_) }
	  "WITH drawn AS (INSERT INTO orders (item) SELECT 'drawn' FROM generate_series(1, 20) RETURNING id) SELECT id FROM drawn ORDER BY id",
	  "INSERT INTO kinds (item) VALUES ('drawn') RETURNING id",
	  'INSERT INTO own SELECT FROM generate_series(1, 20) RETURNING id'
} @nodes;
my @scripts = map { start_sql($_, <<'SQL' x 20, $db) } @nodes;
\set ON_ERROR_STOP off
INSERT INTO orders (item) SELECT 'moved' FROM seeds;
INSERT INTO lines (customer, item) SELECT customer + 1, 'moved' FROM seeds;
COPY orders (item) FROM PROGRAM 'yes copied | head -n 500';
SQL
wait_drawn($_, 200) foreach @draws;
$workers[1]->stop('immediate');
$workers[1]->start;
wait_drawn($_, 200) foreach @draws;
finish_sql($_) foreach @scripts;
$ledger->add($_) foreach @draws;
sql($coordinator, 'SELECT recover_prepared_transactions()');
is($ledger->duplicates, 0, 'no ID that a client received came twice');
is($ledger->disorder, 0, 'each session received them in order');
$ledger->report(1);
my $tables = 'SELECT id FROM orders UNION ALL SELECT id FROM lines UNION ALL SELECT id FROM kinds';
my ($count, $distinct, $moved) = split /\|/, sql($coordinator, "SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM lines WHERE item = 'moved') FROM ($tables) AS t");
cmp_ok($moved, '>', 1000, 'INSERT ... SELECT repartitioned meanwhile');
my @own = map { split /\n/, sql($_, 'SELECT id FROM own') } @nodes;
is($distinct, $count, "none is in the tables twice ($count)");
is(scalar(uniq(@own, split /\n/, sql($coordinator, $tables))), @own + $count, 'nor in those and the local tables');

#
# A node that is added later
#
my $late = server('late', 5);
add_node($coordinator, $late);
is(numbers(), '1 2 3 5', 'a node that is added later gets the extension, and draws');
push @nodes, $late;

#
# Clones that are promoted beside their primaries, and the registry
#
sub clone
{
	my ($of, $name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	# what Citus leaves of statements that failed may not fit into a backup; a start removes it
	$of->restart;
	$of->backup($name);
	$node->init_from_backup($of, $name, has_streaming => 1);
	$node->append_conf('postgresql.conf', $conf);

	# Citus knows it by its host
	$node->append_conf('postgresql.conf', sprintf "primary_conninfo = 'host=%1\$s port=%2\$d application_name=%1\$s'\n", $of->host, $of->port);
	chmod 0600, $node->data_dir . '/server.key';    # Citus made it
	$node->start;
	return $node;
}

sub promote_clone
{
	my ($clone, $of) = @_;
	my $id;

	$of->wait_for_catchup($clone->host);
	$id = sql($coordinator, sprintf "SELECT citus_add_clone_node('%s', %d, '%s', %d)", map { ($_->host, $_->port) } $clone, $of);
	sql($coordinator, "SELECT citus_promote_clone_and_rebalance($id)");
	return;
}

sub promotion_of { return sql($_[0], q{SELECT status FROM snowflake_check() WHERE name = 'node_id'}); }

SKIP:
{
	skip 'Citus before 13.2 has no clones', 5
	  if sql($coordinator, q{SELECT count(*) FROM pg_proc WHERE proname = 'citus_promote_clone_and_rebalance'}) eq '0';

	my $clone = clone($workers[0], 'clone1', "snowflake.node_id = 4\n");
	promote_clone($clone, $workers[0]);
	is(numbers(), '1 2 3 5 4', 'a clone with a number of its own, set before the promotion');
	push @nodes, $clone;

	my $twin = clone($workers[1], 'twin', '');
	promote_clone($twin, $workers[1]);
	is(numbers(), '1 2 3 5 4 3', 'one without has the number of its primary');
	ok(poll(sub { promotion_of($twin) eq 'warning' }), 'of which it warns');
	is(promotion_of($clone), 'ok', 'and the other does not');
	push @nodes, $twin;
}

# Until all have one
sub await_numbers { return poll(sub { numbers() !~ /ERROR/ }); }

my $registry = new_registry('registry');
foreach my $node (@nodes)
{
	$node->append_conf('postgresql.conf', sprintf "snowflake.node_id = -1\nsnowflake.registry = '%s'\nsnowflake.lease_ttl = '1min'\n", registry_conninfo($registry));
	$node->restart;
}
await_numbers();
is(scalar(uniq split / /, numbers()), scalar @nodes, 'a registry leases each node a number of its own');
sql($nodes[-1], "SELECT snowflake_segment_create('invoice', start => 10001)");
is(scalar(uniq everywhere("SELECT snowflake_segment_nextval('invoice')")), scalar @nodes, 'and gives out segments to all');
is(join(' ', uniq everywhere(q{SELECT count(*) FROM snowflake_check() WHERE name = 'segments' AND status <> 'ok'})), '0', 'of which the doctor has nothing to say');

if (@nodes > 3)
{
	my $clone = clone($workers[0], 'clone2', '');
	promote_clone($clone, $workers[0]);
	push @nodes, $clone;
	await_numbers();
	is(scalar(uniq split / /, numbers()), scalar @nodes, 'a clone leases one of its own');
}

$_->stop foreach @nodes;

#
# Where the home database is the one that Citus has
#
$db = 'postgres';
@nodes = map { server("home$_", $_) } 1 .. 3;
$coordinator = $nodes[0];
add_node($coordinator, $_) foreach @nodes[ 0, 1 ];
sql($coordinator, 'CREATE EXTENSION snowflake');
is(numbers(), '1 2', 'Citus in the home database: the nodes draw');
is(join(' ', everywhere('SELECT node FROM snowflake_home.recorded')), '1 2', 'each has its own record');
await_pointer($_) foreach @nodes[ 0, 1 ];
is(join(' ', map { /as node (\d+)/ } everywhere("SELECT setconfig FROM pg_db_role_setting WHERE setconfig::text LIKE '%recorded%'")), '1 2', 'and its own pointer to the mark');

# Citus copies the settings of its database to a node that is added: also what the
# coordinator's has of its mark, which is of another system there.
add_node($coordinator, $nodes[2]);
is(numbers(), '1 2 3', 'one that is added draws');
is(join(' ', everywhere('SELECT node FROM snowflake_home.recorded')), '1 2 3', 'and has its own record');

$_->stop foreach @nodes;
done_testing();
