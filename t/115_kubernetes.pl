# The manifests in packaging/kubernetes, as far as that can be tried without a
# cluster, and docs/kubernetes.md, whose blocks of YAML stand in them.
#
# Whether the operators' schemas have the fields is not tested here: docs/kubernetes.md
# says with which versions that was tried.

use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use List::Util qw(uniq);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Page;
use SnowflakeTest;

my $folder = 'packaging/kubernetes';
my (@objects, %content);

foreach my $file (glob "$folder/*.yaml")
{
	my $text = slurp_file($file);
	my $documents = eval { CPAN::Meta::YAML->read_string($text) };

	ok($documents && @$documents, "$file: is YAML") or diag $@;
	$content{$file} = $text;
	foreach my $object (@{ $documents // [] })
	{
		ok(!(grep { !defined } @$object{qw(apiVersion kind)}, $object->{metadata}{name}), "$file: an object has a name");
		push @objects, { %$object, file => $file };
	}
}
cmp_ok(scalar @objects, '>', 10, 'there are objects');

sub objects { return grep { $_->{kind} eq $_[0] } @objects; }

sub object
{
	my ($kind, $name) = @_;
	my @found = grep { $_->{metadata}{name} eq $name } objects($kind);

	is(scalar @found, 1, "there is one $kind $name");
	return $found[0];
}

#
# What objects name is there
#

my @clusters = objects('Cluster');
cmp_ok(scalar @clusters, '>=', 3, 'there are clusters');
foreach my $cluster (@clusters)
{
	my $spec = $cluster->{spec};
	my $catalog = object('ImageCatalog', $spec->{imageCatalogRef}{name});
	my ($images) = grep { $_->{major} == $spec->{imageCatalogRef}{major} } @{ $catalog->{spec}{images} };

	is_deeply([ map { $_->{name} } @{ $images->{extensions} } ], [ map { $_->{name} } @{ $spec->{postgresql}{extensions} } ],
		"$cluster->{file}: the catalog has its extensions");
	foreach my $ref (@{ $spec->{monitoring}{customQueriesConfigMap} })
	{
		ok(object('ConfigMap', $ref->{name})->{data}{ $ref->{key} }, "$cluster->{file}: its queries are there");
	}
}
object('Cluster', $_->{spec}{cluster}{name}) foreach objects('Database'), objects('DatabaseRole');

# The secrets are those that the operator makes of the registry, and of the role
my ($role) = objects('DatabaseRole');
my ($leased) = grep { $_->{spec}{projectedVolumeTemplate} } @clusters;
my @secrets = map { $_->{secret} } @{ $leased->{spec}{projectedVolumeTemplate}{sources} };
is_deeply([ map { $_->{name} } @secrets ], [ "$role->{spec}{cluster}{name}-ca", "$role->{metadata}{name}-client-cert" ],
	'the secrets are there');
my $conninfo = $leased->{spec}{postgresql}{parameters}{'snowflake.registry'};
is_deeply([ sort $conninfo =~ m{=/projected/(\S+)}g ], [ sort map { $_->{path} } map { @{ $_->{items} } } @secrets ],
	'the registry is asked with all that they have');
like($conninfo, qr/\bhost=$role->{spec}{cluster}{name}-rw dbname=registry user=$role->{spec}{name} /, 'at its address');

#
# Settings.  Their values are checked when they are set, as at the server's start.
#

my $node = snowflake_node('kubernetes', '');
my @settings;
foreach my $object (@objects)
{
	my $postgresql = $object->{spec}{postgresql} or next;
	my %parameters = %{ $postgresql->{parameters} // {} };
	my @own = grep { /^snowflake\./ } keys %parameters;
	my @libraries = (@{ $postgresql->{shared_preload_libraries} // [] }, split /,/, $parameters{shared_preload_libraries} // '');

	push @settings, map { "ALTER SYSTEM SET $_ = '$parameters{$_}'" } @own;
	is(scalar(grep { $_ eq 'snowflake' } @libraries), @own ? 1 : 0, "$object->{file}: preloads the library if it has settings");
}
cmp_ok(scalar @settings, '>=', 3, 'settings are there');
foreach my $command (@settings)
{
	my ($status, $out, $err) = $node->psql('postgres', $command);

	is($err, '', $command);
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');

#
# What is run when a cluster is made
#

my %first = map { $_->{metadata}{name} => $_->{spec}{bootstrap}{initdb} } @clusters;
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach uniq map { $_->{database} } values %first;
foreach my $cluster (sort keys %first)
{
	my $initdb = $first{$cluster};

	$node->safe_psql('postgres', 'DROP EXTENSION IF EXISTS snowflake') if $initdb->{postInitSQL};
	$node->safe_psql('postgres', $_) foreach @{ $initdb->{postInitSQL} // [] };
	$node->safe_psql($initdb->{database}, $_) foreach @{ $initdb->{postInitApplicationSQL} // [] };
}
foreach my $database (objects('Database'))
{
	my $spec = $database->{spec};

	is($first{ $spec->{cluster}{name} }{database}, $spec->{name}, "$database->{file}: the database is that of the cluster");
	$node->safe_psql($spec->{name}, "CREATE EXTENSION IF NOT EXISTS $_->{name}") foreach @{ $spec->{extensions} };
}
is($node->safe_psql('registry',
	"SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE proname ~ '^snowflake_' AND has_function_privilege('$role->{spec}{name}', oid, 'EXECUTE') AND prosecdef"),
	'snowflake_lease_node snowflake_take_segments', 'the role may do what servers do');

#
# Monitoring: the queries are those of monitoring/, in the operator's form, and run
# as it runs them
#

my %from = (
	'snowflake-monitoring' => [ 'monitoring/postgres_exporter.yml', 'postgres' ],
	'registry-monitoring' => [ 'monitoring/registry_exporter.yml', 'registry' ]);

$node->safe_psql('postgres', 'CREATE ROLE cnpg_metrics_exporter IN ROLE pg_monitor');
foreach my $name (sort keys %from)
{
	my ($file, $database) = @{ $from{$name} };
	my $object = object('ConfigMap', $name);
	my ($document) = grep { /^  name: $name$/m } split /^---$/m, $content{ $object->{file} };

	# CPAN::Meta::YAML takes the indentation off
	my ($queries) = $document =~ /^  queries: \|\n((?:    .*\n)+)/m;
	$queries =~ s/^    //gm;
	my $text = slurp_file($file);

	# "master" means only the primary to the operator, and standbys are asked, too;
	# it caches all answers alike
	$text =~ s/^(?:#.*)?\n//gm;
	$text =~ s/^  master: true$/  target_databases:\n    - $database/gm;
	$text =~ s/^  cache_seconds: .*\n//gm;
	is($queries, $text, "$name: is $file in the operator's form");

	my $parsed = CPAN::Meta::YAML->read_string($queries)->[0];
	foreach my $metric (sort keys %$parsed)
	{
		my %usage = map { %$_ } @{ $parsed->{$metric}{metrics} };
		my ($status, $out, $err) = $node->psql($parsed->{$metric}{target_databases}[0], <<SQL);
\\pset tuples_only off
SET SESSION AUTHORIZATION cnpg_metrics_exporter;
BEGIN READ ONLY;
SET LOCAL search_path = pg_catalog, public, pg_temp;
$parsed->{$metric}{query};
SQL

		is($err, '', "$metric: the query runs");
		is_deeply([ sort split /\|/, (split /\n/, $out)[0] ], [ sort keys %usage ], "$metric: each column is used");
	}
}

# The names are then those of the alerts and the dashboard
my ($monitor) = objects('PodMonitor');
my ($relabel) = @{ $monitor->{spec}{podMetricsEndpoints}[0]{metricRelabelings} };
(my $replacement = $relabel->{replacement}) =~ s/^\$1$/pg_snowflake_issued_total/;
like('cnpg_pg_snowflake_issued_total', qr/^(?:$relabel->{regex})$/, 'the metrics are relabeled');
'cnpg_pg_snowflake_issued_total' =~ /^(?:$relabel->{regex})$/;
is($1, $replacement, 'to the names without the prefix');

#
# The servers without an operator: the command and the probe of a pod
#

my ($set) = objects('StatefulSet');
my ($container) = @{ $set->{spec}{template}{spec}{containers} };
my $bin = PostgreSQL::Test::Utils::tempdir;

append_to_file("$bin/docker-entrypoint.sh", qq{#!/bin/sh\nprintf '%s\\n' "\$@"\n});
chmod 0755, "$bin/docker-entrypoint.sh";
{
	local $ENV{PATH} = "$bin:" . $node->config_data('--bindir') . ":$ENV{PATH}";
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;

	foreach my $pod (0, 31)
	{
		local $ENV{HOSTNAME} = "eu-$set->{metadata}{name}-$pod";
		my ($out, $err) = run_command($container->{command});

		is_deeply([ split /\n/, $out ], [
			'postgres',
			map { ('-c', $_) } 'shared_preload_libraries=snowflake', "snowflake.node_id=$pod",
			'extension_control_path=$system:/extensions/snowflake/share',
			'dynamic_library_path=$libdir:/extensions/snowflake/lib' ], "pod $pod: how the server is started");
	}

	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my @probe = @{ $container->{readinessProbe}{exec}{command} };
	s/-U postgres // foreach @probe;    # the tests' superuser has another name
	is(system(@probe), 0, 'a server that can draw is ready');
	$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.mark RENAME TO gone');
	$node->restart;
	isnt(system(@probe), 0, 'one that cannot is not');
	$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.gone RENAME TO mark');
	$node->stop;
	isnt(system(@probe), 0, 'nor is one that is down');
}
my %configmap = map { $_->{metadata}{name} => $_->{data} } objects('ConfigMap');
is($configmap{shard}{'snowflake.sql'}, "CREATE EXTENSION snowflake;\n", 'a new server has the extension');

#
# Each block of YAML in the page stands in one file
#

my @blocks = grep { $_->{mark} eq 'yaml' } @{ Page->new('docs/kubernetes.md')->{blocks} };
cmp_ok(scalar @blocks, '>', 2, 'docs/kubernetes.md: there are blocks');
foreach my $block (@blocks)
{
	my @lines = @{ $block->{lines} };
	my $found = grep {
		my $text = $_;
		grep {
			my $indent = ' ' x $_;
			index("\n$text", join '', "\n", map { $_ eq '' ? "\n" : "$indent$_\n" } @lines) >= 0
		} 0 .. 16
	} values %content;

	cmp_ok($found, '>', 0, "docs/kubernetes.md:$block->{line}: stands in a file");
}

done_testing();
