# Beside other extensions: all that Debian has are preloaded, behind snowflake in
# one server and before it in another one, so that hooks are called in both orders.
# pg_regress passes on both, and each of them does there what it is for.

use strict;
use warnings FATAL => 'all';

use Cwd qw(getcwd);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

# Those of the server itself, and those that Debian has for it
my %package = (
	pg_cron => 'cron',
	pg_repack => 'repack',
	pg_stat_kcache => 'pg-stat-kcache',
	hypopg => 'hypopg',
	pgaudit => 'pgaudit',
	pglogical => 'pglogical');
my %there = map { $_ => has_extension($_, $package{$_}) } keys %package;

# pg_stat_kcache has to be behind pg_stat_statements; pg_repack is not preloaded.
my @libraries = (
	'pg_stat_statements',
	'auto_explain',
	grep { $there{$_} } qw(pg_stat_kcache pgaudit hypopg pg_cron pglogical));

sub beside_node
{
	my ($name, @preloaded) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 'logical', extra => [qw(-E UTF8 --locale=C)]);
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = '@{[ join ',', @preloaded ]}'
snowflake.node_id = 24
snowflake.max_wait = '1min'
track_functions = all
compute_query_id = regress
max_connections = 100
max_worker_processes = 20
pg_stat_statements.track = all
auto_explain.log_min_duration = 10ms
auto_explain.log_nested_statements = on
auto_explain.log_analyze = on
pgaudit.log = all
pgaudit.log_relation = on
fsync = off
log_statement = none
CONF
	$node->start;
	note "$name: @preloaded";
	return $node;
}

my %node = (
	first => beside_node('first', 'snowflake', @libraries),
	last => beside_node('last', @libraries, 'snowflake'));

# pglogical 2.4.2 lets no database be dropped, until its supervisor is ended.  It
# then starts nothing before a restart.
my %remedy;
foreach my $name ($there{pglogical} ? keys %node : ())
{
	my $file = $node{$name}->basedir . '/remedy';
	append_to_file("$file.sql", <<'SQL');
\o /dev/null
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pglogical supervisor'
AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'ProcSignalBarrier') \watch 0.1
SQL
	$remedy{$name} = start_process($file, 'psql', '-Xq', '-d', $node{$name}->connstr('postgres'), '-f', "$file.sql");
}

#
# pg_regress, at the same time on both
#
my @extensions = grep { $there{$_} // $_ eq 'pg_stat_statements' } qw(pg_stat_statements pg_stat_kcache pgaudit hypopg pg_repack);
my @tests = split / /, (slurp_file('Makefile') =~ /^REGRESS = (.*)$/m)[0];
my %run;
foreach my $name (sort keys %node)
{
	my $dir = $node{$name}->basedir . '/regress';
	mkdir $dir;
	$run{$name} = {
		dir => $dir,
		run => IPC::Run::start(
			[
				$ENV{PG_REGRESS},
				'--bindir=' . $node{$name}->config_data('--bindir'),
				'--inputdir=' . getcwd(),
				'--host=' . $node{$name}->host,
				'--port=' . $node{$name}->port,
				'--user=' . $node{$name}->safe_psql('postgres', 'SELECT current_user'),
				'--dbname=contrib_regression',
				(map { "--load-extension=$_" } @extensions),
				@tests
			],
			'<', '/dev/null', '>', "$dir/out", '2>&1', init => sub { chdir $dir or die "$dir: $!" })
	};
}
foreach my $name (sort keys %run)
{
	$run{$name}{run}->finish;
	is($?, 0, "snowflake $name: pg_regress")
	  or diag map { slurp_file($_) } grep { -e } map { "$run{$name}{dir}/$_" } qw(out regression.diffs);
}
stop_process($_) foreach values %remedy;

#
# What each of them is there for.  From here on the servers have a number each.
#
my $rows = 1000;
my %file = map { $_ => $node{$_}->basedir . '/rows' } keys %node;

$node{last}->append_conf('postgresql.conf', 'snowflake.node_id = 25');
$_->restart foreach values %node;

sub query
{
	my ($name, $sql) = @_;

	return $node{$name}->safe_psql('beside', $sql);
}

foreach my $name (sort keys %node)
{
	my $node = $node{$name};
	my $what = "snowflake $name";
	my $log = -s $node->logfile;

	$node->safe_psql('postgres', 'CREATE DATABASE beside');
	append_to_file($file{$name}, join '', map { "row $_\n" } 1 .. $rows);
	query($name, join ";\n", map { "CREATE EXTENSION $_" } @extensions, 'snowflake');
	query($name, <<SQL);
SET auto_explain.log_min_duration = 0;
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
SELECT pg_stat_statements_reset(), pg_stat_reset();
SELECT snowflake_nextval();
SELECT snowflake_nextval();
INSERT INTO events (note) VALUES ('one'), ('two'), ('three');
COPY events (note) FROM '$file{$name}';
CREATE TABLE converted (id serial PRIMARY KEY);
DO 'BEGIN PERFORM snowflake_convert(''converted'', ''id'', dry_run => false); END';
SELECT pg_stat_force_next_flush();
SQL

	is( query($name, <<'SQL'), "COPY|1|$rows\nINSERT|1|3\nSELECT|2|2", "$what: pg_stat_statements counts");
SELECT split_part(query, ' ', 1) AS command, calls, rows FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
AND query ~ '^(SELECT snowflake_nextval|INSERT INTO events|COPY events)' ORDER BY 1
SQL
	is( query($name, <<'SQL'), "snowflake_copy_nextval|$rows\nsnowflake_nextval|5", "$what: COPY writes rows in groups");
SELECT funcname, calls FROM pg_stat_user_functions WHERE funcname ~ 'nextval' ORDER BY 1
SQL
	is( query($name, <<"SQL"), 'INSERT|t', "$what: pg_stat_kcache counts") if $there{pg_stat_kcache};
SELECT split_part(query, ' ', 1), exec_user_time >= 0 FROM pg_stat_kcache_detail WHERE query ~ '^INSERT INTO events' AND datname = 'beside'
SQL

	my $logged = slurp_file($node->logfile, $log);
	like($logged, qr/Query Text: INSERT INTO events.*\n\s*Insert on events .*\n.*\n?\s*->  Values Scan/,
		"$what: auto_explain shows plans");
	if ($there{pgaudit})
	{
		like($logged, qr/AUDIT: SESSION,\d+,\d+,$_/, "$what: pgaudit logs $_")
		  foreach 'FUNCTION,EXECUTE,FUNCTION,public.snowflake_nextval,SELECT snowflake_nextval',
		  'WRITE,INSERT,TABLE,public.events,', 'WRITE,\w+,TABLE,public.events,COPY events',
		  'DDL,CREATE TABLE,TABLE,public.events,', 'DDL,ALTER TABLE,TABLE,public.converted,';
	}

	if ($there{hypopg})
	{
		query($name, 'CREATE TABLE plain AS SELECT snowflake_nextval() AS id FROM generate_series(1, 10000); ANALYZE plain');
		my $plan = q{EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE snowflake_in(id, now() - interval '1 hour', now() - interval '59 minutes')};
		like(query($name, "SELECT FROM hypopg_create_index('CREATE INDEX ON plain (id)'); $plan"),
			qr/Index Only Scan using "<\d+>btree_plain_id" on plain\n  Index Cond: \(\(id >= /,
			"$what: a hypothetical index of hypopg is used");
		like(query($name, $plan), qr/^Seq Scan/, 'and it is hypothetical');
	}
	is(query($name, q{SELECT name, status, detail FROM snowflake_check() WHERE status <> 'ok' AND name <> 'time_sync'}), '', "$what: snowflake_check()");
}

my $ledger = new_ledger();

#
# pg_repack writes a table anew while rows are inserted
#
foreach my $name ($there{pg_repack} ? sort keys %node : ())
{
	my $file_of = q{SELECT pg_relation_filepath('events')};
	my $before = query($name, $file_of);
	my $draw = start_draw($node{$name}, dbname => 'beside', sessions => 4, delay => 1, sql => 'INSERT INTO events (note) SELECT generate_series(1, 5) RETURNING id');

	foreach my $round (1 .. 3)
	{
		wait_drawn($draw, 200);
		command_ok([ 'pg_repack', '--no-order', '-h', $node{$name}->host, '-p', $node{$name}->port, '-d', 'beside', '-t', 'events' ], "snowflake $name: pg_repack, $round");
	}
	wait_drawn($draw, 200);
	is(sqlstates($draw), '', 'sessions that insert meet no error');
	$ledger->add($draw);
	isnt(query($name, $file_of), $before, 'the table is in another file');
	is( query($name, 'SELECT count(*), count(DISTINCT id) FROM events'),
		join('|', ($rows + 3 + stop_draw($draw)->{ids}) x 2), 'and has all rows, each with an ID of its own');
}

#
# pglogical, in both directions
#
if ($there{pglogical})
{
	my %other = (first => 'last', last => 'first');
	my %draw;

	foreach my $name (sort keys %node)
	{
		$node{$name}->safe_psql('postgres', 'CREATE DATABASE mutual');

		# a server that has this setting loads only the output plugins in it
		if ($node{$name}->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}))
		{
			$node{$name}->append_conf('postgresql.conf', q{output_plugin_libraries = 'pgoutput, pglogical_output'});
			reload_node($node{$name});
		}
		$node{$name}->safe_psql('mutual', <<SQL);
CREATE EXTENSION snowflake;
CREATE EXTENSION pglogical;
CREATE TABLE shared (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text DEFAULT '$name');
SELECT pglogical.create_node('$name', \$\$@{[ $node{$name}->connstr('mutual') ]}\$\$);
SELECT pglogical.replication_set_add_table('default', 'shared');
SQL
	}
	foreach my $name (sort keys %node)
	{
		$node{$name}->safe_psql('mutual', <<SQL);
SELECT pglogical.create_subscription('from_$other{$name}', \$\$@{[ $node{ $other{$name} }->connstr('mutual') ]}\$\$,
	synchronize_data := false, forward_origins := '{}');
SQL
		$node{$name}->poll_query_until('mutual', 'SELECT status FROM pglogical.show_subscription_status()', 'replicating')
		  or die "pglogical does not replicate";
	}
	$draw{$_} = start_draw($node{$_}, dbname => 'mutual', sessions => 4, delay => 1, sql => 'INSERT INTO shared DEFAULT VALUES RETURNING id')
	  foreach sort keys %node;
	wait_drawn($draw{$_}, 500) foreach sort keys %node;
	foreach my $name (sort keys %node)
	{
		is(sqlstates($draw{$name}), '', "snowflake $name: pglogical: sessions that insert meet no error");
		$ledger->add($draw{$name});
	}
	foreach my $name (sort keys %node)
	{
		ok( $node{$name}->poll_query_until('mutual', q{SELECT string_agg(note || ' ' || n, ',' ORDER BY note) FROM (SELECT note, count(*) AS n FROM shared GROUP BY 1) AS s},
				join ',', map { "$_ " . stop_draw($draw{$_})->{ids} } sort keys %node),
			"snowflake $name: pglogical brings all rows of the other");
	}
}

is($ledger->duplicates, 0, 'no ID came twice');
is($ledger->disorder, 0, 'the IDs of a session increase');
$ledger->report(0);

$_->stop foreach values %node;
done_testing();
