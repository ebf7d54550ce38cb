# Beside other libraries: they are all preloaded, in one server before snowflake
# and in another one behind it, so that hooks are called in both orders.

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
track_functions = all
compute_query_id = regress
max_connections = 100
max_worker_processes = 20
pg_stat_statements.track = all
auto_explain.log_min_duration = 0
auto_explain.log_nested_statements = on
auto_explain.log_analyze = on
auto_explain.log_verbose = on
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

# The supervisor of pglogical before 2.4.4 lets no database be dropped.
my %remedy;
foreach my $name (keys %node)
{
	my $file = $node{$name}->basedir . '/remedy';
	append_to_file("$file.sql", <<'SQL');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pglogical supervisor'
AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'ProcSignalBarrier') \watch 0.1
SQL
	$remedy{$name} = start_process($file, 'psql', '-Xq', '-d', $node{$name}->connstr('postgres'), '-f', "$file.sql");
}

#
# pg_regress
#
my @extensions = grep { $_ ne 'auto_explain' && $_ ne 'pg_cron' && $_ ne 'pglogical' } @libraries, 'pg_repack';
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
	  or diag slurp_file("$run{$name}{dir}/out"), -e "$run{$name}{dir}/regression.diffs" ? slurp_file("$run{$name}{dir}/regression.diffs") : '';
	note slurp_file("$run{$name}{dir}/out");
}

$_->stop foreach values %node;
done_testing();
