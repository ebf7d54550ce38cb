
# A library of the next version, which is made here from the source: it
# works with the objects of this version until ALTER EXTENSION UPDATE, and so do
# the two sides of a registry, where either is a version ahead.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use InstallTest;
use LeaseTest;
use SnowflakeTest;

my $top = dirname(dirname(abs_path(__FILE__)));
my ($old) = slurp_file("$top/snowflake.control") =~ /^default_version = '(.*)'/m;
# the last file of each install script
my %last = (snowflake_home => 'snowflake_home');
@last{qw(snowflake snowflake_registry)} = slurp_file("$top/Makefile") =~ /^SUBJECTS = .*?(\w+)\nREGISTRY_SUBJECTS = .*?(\w+)$/m;
$last{snowflake_registry} = "registry_$last{snowflake_registry}";
my @extensions = map { basename($_, '.control') } sort glob "$top/*.control";

# The first version after it that has no script
my $new = $old;
do { $new =~ s/(\d+)\z/$1 + 1/e } while (my @taken = glob "$top/install/*--$new*.sql");

my $added = <<"SQL";
CREATE FUNCTION %s_added() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT ''$new''';
COMMENT ON FUNCTION %s_added() IS 'is new';
SQL

# In C, of the extension snowflake; and a setting
my $added_in_c = <<'SQL';
CREATE FUNCTION snowflake_added_in_c() RETURNS boolean AS 'MODULE_PATHNAME', 'snowflake_added_in_c' LANGUAGE C STRICT STABLE;
COMMENT ON FUNCTION snowflake_added_in_c() IS 'is new';
SQL
my $function = <<'C';
#include "fmgr.h"

static bool added;

PG_FUNCTION_INFO_V1(snowflake_added_in_c);

Datum
snowflake_added_in_c(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(added);
}

C
my $setting = 'DefineCustomBoolVariable("snowflake.added", "Is new.", NULL, &added, false, PGC_USERSET, 0, NULL, NULL, NULL);';

# The source of the next version, built
sub build_next
{
	my $source = PostgreSQL::Test::Utils::tempdir('next');

	# with their times, as what was built from them is there too
	system_or_bail('cp', '-rp', map({ "$top/$_" } 'Makefile', 'src', 'install', map { "$_.control" } @extensions), $source);
	foreach my $extension (@extensions)
	{
		my $sql = ($added =~ s/%s/$extension/gr) . ($extension eq 'snowflake' ? $added_in_c : '');
		my $control = slurp_file("$source/$extension.control");

		put_file("$source/$extension.control", $control =~ s/^(default_version = ).*/$1'$new'/mr);
		my $script = $last{$extension};

		put_file("$source/install/$script.sql", slurp_file("$source/install/$script.sql") . $sql);
		put_file("$source/install/$extension--$old--$new.sql", $sql);
	}
	put_file("$source/src/settings.c",
		slurp_file("$source/src/settings.c") =~ s/(?=static const char \*const setting_names)/$function/r =~ s/(?=MarkGUCPrefixReserved)/$setting\n\t/r);
	system_or_bail('make', '-s', '-C', $source, 'with_llvm=no');
	return $source;
}

# Put it into a tree.
sub install_next
{
	my ($source, $tree) = @_;

	put_file("$tree->{extdir}/" . basename($_), slurp_file($_)) foreach glob "$source/*.sql $source/install/*--*.sql $source/*.control";
	unlink "$tree->{libdir}/snowflake.so";
	system_or_bail('cp', "$source/snowflake.so", "$tree->{libdir}/snowflake.so");
	return;
}

# A server in a tree of its own.  Returns both.
sub server
{
	my ($name, $conf) = @_;
	my $tree = install_tree();
	my $node = tree_node($name, $tree);

	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\n$conf");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	return ($node, $tree);
}

sub check { return $_[0]->safe_psql('postgres', qq(SELECT status, detail FROM snowflake_check() WHERE name = '$_[1]')); }
sub versions { return $_[0]->safe_psql($_[1] // 'postgres', 'SELECT string_agg(extname || extversion, $$ $$ ORDER BY extname) FROM pg_extension WHERE extname ~ $$^snowflake$$'); }

my $next = build_next();
my ($registry, $registry_tree) = server('registry', 'snowflake.node_id = 9');
$registry->safe_psql('postgres', 'CREATE ROLE snowflake_server LOGIN');
make_registry($registry, 'numbers');
my $leasing = $LeaseTest::conf . "snowflake.max_wait = '1min'\nsnowflake.registry = '" . registry_conninfo($registry, dbname => 'numbers') . "'\n";
my ($stays, $older) = server('stays', $leasing);
my ($server, $tree) = server('server', $leasing);
my %number = map { $_->name => wait_number($_) } $stays, $server;

sub draws_with
{
	my ($node, $what) = @_;

	is($node->safe_psql('postgres', 'SELECT (snowflake_parse(snowflake_nextval())).node'), $number{ $node->name }, "$what: draws with its number");
	cmp_ok($node->safe_psql('postgres', "SELECT snowflake_segment_nextval('tag')"), '>', 0, "$what: takes numbers of segments");
	return;
}

# Each lease is renewed, from now on.
sub renews
{
	my ($node, $what) = @_;
	my $end = $node->safe_psql('postgres', 'SELECT lease_end FROM pg_stat_snowflake');

	ok($node->poll_query_until('postgres', "SELECT lease_end > '$end' FROM pg_stat_snowflake"), "$what: renews its lease");
	is(number_of($node), $number{ $node->name }, "$what: has its number");
	return;
}

$stays->safe_psql('postgres', "SELECT snowflake_segment_create('tag')");
$server->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO t DEFAULT VALUES');
draws_with($_, 'both sides of this version') foreach $stays, $server;

# A server first
install_next($next, $tree);
draws_with($server, 'before the restart');
$server->restart;
wait_number($server);
renews($server, 'the next library, the registry of this version');
draws_with($server, 'the next library, with the objects of this version');
is(check($server, 'extension'), "warning|This database has version $old of the extension, and the server has loaded version $new of its library. If the library is newer, run ALTER EXTENSION snowflake UPDATE. If it is older, install the newer one and restart the server.",
	'which snowflake_check() says');
like(check($server, 'other_extension'), qr/^ok\|/, 'the scripts of this version, which the next one leaves in the folder, are not of another extension');
cmp_ok($server->safe_psql('postgres', q(SELECT count(fmgr_c_validator(objid)) FROM pg_depend JOIN pg_extension e ON e.oid = refobjid
	JOIN pg_proc p ON p.oid = objid JOIN pg_language l ON l.oid = prolang
	WHERE refclassid = 'pg_extension'::regclass AND classid = 'pg_proc'::regclass AND extname ~ '^snowflake' AND lanname = 'c')),
	'>', 50, 'all of its functions are in the library');
is($server->safe_psql('postgres', 'INSERT INTO t DEFAULT VALUES; SELECT count(*) FROM t; SELECT count(*) FROM pg_stat_snowflake'), "2\n1", 'tables and views work');
$server->safe_psql('postgres', 'ALTER EXTENSION snowflake UPDATE');
is($server->safe_psql('postgres', 'SELECT snowflake_added()'), $new, 'ALTER EXTENSION UPDATE');
$server->safe_psql('postgres', 'ALTER SYSTEM SET snowflake.added = on');
$server->safe_psql('postgres', 'ALTER ROLE CURRENT_USER SET snowflake.added = on');
is($server->safe_psql('postgres', 'SELECT snowflake_added_in_c()'), 't', 'a function in C, and a setting');
$server->safe_psql('postgres', 'ALTER EXTENSION snowflake_home UPDATE');
like(check($server, 'extension'), qr/^ok\|/, 'which snowflake_check() says, too');
draws_with($server, 'the next version, the registry of this one');

# The registry next, while its server is of either version
install_next($next, $registry_tree);
$registry->safe_psql('numbers', 'ALTER EXTENSION snowflake_registry UPDATE');
is(versions($registry, 'numbers'), "snowflake_registry$new", 'the registry of the next version');
foreach my $node ($stays, $server)
{
	renews($node, $node->name . ': the registry of the next version');
	draws_with($node, $node->name . ': the registry of the next version');
}
$stays->restart;
is(wait_number($stays), $number{stays}, 'a server of this version finds it after a restart');
draws_with($stays, 'the registry of the next version, after a restart');
like(check($stays, 'registry'), qr/^ok\|/, 'which snowflake_check() says');

# Back to this version's library, with the objects of the next version
system_or_bail('cp', '--remove-destination', "$older->{libdir}/snowflake.so", "$tree->{libdir}/snowflake.so");
$server->restart;
wait_number($server);
draws_with($server, 'back to this library, with the objects of the next version');
is(refused($server, 'postgres', 'SELECT snowflake_added_in_c();')->{message} =~ s/ in file .*//r, 'could not find function "snowflake_added_in_c"',
	'a function that it does not have');
like(slurp_file($server->logfile), qr/WARNING:  invalid configuration parameter name "snowflake\.added", removing it/, 'a setting that it does not have');
like(check($server, 'extension'), qr/^warning\|.* version $new .* version $old of its library\. .* If it is older, install the newer one/,
	'which snowflake_check() says');

$_->stop foreach $stays, $server, $registry;
done_testing();
