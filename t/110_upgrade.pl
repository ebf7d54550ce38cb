
# A database whose extensions were updated from an older version is the same as
# one with fresh ones: what pg_dump writes, also of the extensions' own objects,
# and what is in the catalogs beside that.  From every version that has an
# install script, and, as long as there is one version only and so that the
# comparison is known to find something, to a next version that is made here.
# In a server tree of its own.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use InstallTest;
use SnowflakeTest;

my $tree = install_tree();
my $node = tree_node('upgrade', $tree);
my @extensions =
  map { basename($_, '.control') } sort glob "$tree->{extdir}/snowflake*.control";
my $databases = 0;

# Install scripts of older versions, which are not installed any more
foreach my $script (glob dirname(dirname(abs_path(__FILE__))) . '/install/*--*.sql')
{
	my $there = "$tree->{extdir}/" . basename($script);

	put_file($there, slurp_file($script)) if !-e $there;
}

$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.max_wait = '1min'
CONF
$node->start;

# A new database with an extension, which comes to a version by way of others.
sub database_with
{
	my ($extension, @versions) = @_;
	my $dbname = 'upgrade_' . ++$databases;
	my $first = shift @versions;

	$node->safe_psql('postgres', "CREATE DATABASE $dbname STRATEGY file_copy");
	$node->safe_psql($dbname, join ';',
		"CREATE EXTENSION $extension VERSION '$first'",
		map { "ALTER EXTENSION $extension UPDATE TO '$_'" } @versions);
	return $dbname;
}

# What a database is, as text, without its numbers.
sub state
{
	my ($dbname) = @_;
	my $text = '';

	# As for pg_upgrade, a dump has the objects of extensions too.
	foreach my $options ([], [qw(--binary-upgrade --schema-only)])
	{
		my ($stdout, $stderr) = run_command(
			[
				"$tree->{bindir}/pg_dump", @$options,
				'-d', $node->connstr($dbname)
			]);
		die $stderr if $stderr ne '';
		$text .= $stdout;
	}
	# by lines, as a pattern over all of it takes long
	$text = join '', grep { !/^\\(?:un)?restrict |binary_upgrade_set_next_/ } split /^/, $text;
	$text =~ s/\b(relfrozenxid|relminmxid|oid) = '\d+'/$1/g;
	$text =~ s/'\{\d+(,\d+)*\}'/oids/g;

	# where a registry is, and since when
	$text =~ s{^\d+/[0-9A-F]{8}/\d+/\d+\t.*}{place}mg;

	# the durable mark in the data of snowflake_catalog.dumped_mark
	$text =~ s/^\d{4}-\d\d-\d\d [^\t\n]+(?=\t)/mark/mg;

	return $text . $node->safe_psql($dbname, <<'SQL');
SELECT extname, extversion, extnamespace::regnamespace, extrelocatable, c::regclass, condition
FROM pg_extension LEFT JOIN LATERAL unnest(extconfig, extcondition) AS u (c, condition) ON true
ORDER BY extname, c::regclass::text;
SELECT extname, pg_describe_object(classid, objid, objsubid) AS member
FROM pg_depend JOIN pg_extension e ON e.oid = refobjid
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
ORDER BY extname, member;
SELECT pg_describe_object(classoid, objoid, objsubid) AS object, privtype, a::text AS privilege
FROM pg_init_privs, unnest(initprivs) AS a
WHERE (classoid, objoid) IN (SELECT classid, objid FROM pg_depend WHERE deptype = 'e')
ORDER BY object, privilege;
SELECT pg_describe_object(classoid, objoid, objsubid) AS object, description
FROM pg_description
WHERE (classoid, objoid) IN (SELECT classid, objid FROM pg_depend WHERE deptype = 'e')
ORDER BY object;
SQL
}

# The lines that two states do not share.
sub differences
{
	my ($left, $right) = @_;
	my (%seen, @lines);

	$seen{$_}++ foreach split /\n/, $left;
	$seen{$_}-- foreach split /\n/, $right;
	return sort grep { $seen{$_} } keys %seen;
}

sub default_version
{
	my ($extension) = @_;

	return $node->safe_psql('postgres',
		"SELECT default_version FROM pg_available_extensions WHERE name = '$extension'"
	);
}

# The versions from which there is a path to another one.
sub older_versions
{
	my ($extension, $to) = @_;

	return split /\n/,
	  $node->safe_psql('postgres', <<SQL);
SELECT source FROM pg_extension_update_paths('$extension')
JOIN pg_available_extension_versions ON name = '$extension' AND version = source
WHERE target = '$to' AND path IS NOT NULL ORDER BY source;
SQL
}

#
# What is installed
#
is_deeply(
	\@extensions,
	[qw(snowflake snowflake_home snowflake_registry)],
	'the extensions');
foreach my $extension (@extensions)
{
	my $version = default_version($extension);
	my $fresh = state(database_with($extension, $version));

	foreach my $from (older_versions($extension, $version))
	{
		is_deeply(
			[
				differences(
					state(database_with($extension, $from, $version)), $fresh)
			],
			[],
			"$extension from $from to $version");
	}
	is_deeply([ differences(state(database_with($extension, $version)), $fresh) ],
		[], "$extension $version twice");
}

#
# A next version of each, with something new of each kind
#
my %schema = (snowflake_home => 'snowflake_home.');

# Scripts that install a version "next", by adding to that of before, and that
# update to it.
sub next_version
{
	my ($extension, $install, $update) = @_;
	my $version = default_version($extension);
	my $script = slurp_file("$tree->{extdir}/$extension--$version.sql");

	put_file("$tree->{extdir}/$extension--next.sql", $script . $install);
	put_file("$tree->{extdir}/$extension--$version--next.sql", $update);
	return $version;
}

sub additions
{
	my ($extension) = @_;
	my $schema = $schema{$extension} // '';

	return <<SQL;
CREATE FUNCTION ${schema}snowflake_added(id bigint, again boolean DEFAULT false) RETURNS bigint LANGUAGE sql STABLE STRICT PARALLEL SAFE AS 'SELECT id';
COMMENT ON FUNCTION ${schema}snowflake_added(bigint, boolean) IS 'is new';
REVOKE ALL ON FUNCTION ${schema}snowflake_added(bigint, boolean) FROM PUBLIC;
CREATE TABLE ${schema}snowflake_new (id bigint PRIMARY KEY, name text NOT NULL DEFAULT 'new');
GRANT SELECT ON ${schema}snowflake_new TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('${schema}snowflake_new', 'WHERE id > 0');
SQL
}

foreach my $extension (@extensions)
{
	my $added = additions($extension);
	my $version = next_version($extension, $added, $added);

	ok( (grep { $_ eq $version } older_versions($extension, 'next')),
		"$extension has a next version");
	is_deeply(
		[
			differences(
				state(database_with($extension, $version, 'next')),
				state(database_with($extension, 'next')))
		],
		[],
		"$extension from $version to the next one");
}

#
# Upgrade scripts with a mistake are found.
#
my $added = additions('snowflake');
my $version = default_version('snowflake');
my $fresh = state(database_with('snowflake', 'next'));
my $before = database_with('snowflake', $version);
my @mistakes = (
	[ 'no function', sub { s/^(CREATE|COMMENT ON|REVOKE ALL ON) FUNCTION.*\n//mg } ],
	[ 'volatility', sub { s/STABLE/VOLATILE/ } ],
	[ 'strictness', sub { s/ STRICT// } ],
	[ 'parallel safety', sub { s/ PARALLEL SAFE// } ],
	[ 'body', sub { s/SELECT id'/SELECT id + 1'/ } ],
	[ 'default of an argument', sub { s/DEFAULT false/DEFAULT true/ } ],
	[ 'name of an argument', sub { s/again/twice/ } ],
	[ 'no comment', sub { s/^COMMENT.*\n//m } ],
	[ 'other comment', sub { s/is new/is old/ } ],
	[ 'no REVOKE', sub { s/^REVOKE.*\n//m } ],
	[ 'no GRANT', sub { s/^GRANT.*\n//m } ],
	[ 'no table for dumps', sub { s/^SELECT.*\n//m } ],
	[ 'other rows for dumps', sub { s/id > 0/id > 1/ } ],
	[ 'no constraint', sub { s/ NOT NULL// } ],
	[ 'order of columns', sub { s/\((id bigint PRIMARY KEY), (name.*'new')\)/($2, $1)/ } ],
	[ 'something more', sub { s/\z/CREATE VIEW snowflake_more AS SELECT 1 AS one;\n/ } ],
	[ 'not a member', sub { s/\z/ALTER EXTENSION snowflake DROP TABLE snowflake_new;\n/ } ],
);
foreach my $mistake ([ 'none', sub { 1 } ], @mistakes)
{
	my ($what, $change) = @$mistake;

	local $_ = $added;
	$change->() or die $what;
	next_version('snowflake', $added, $_);
	$node->safe_psql('postgres', "CREATE DATABASE mistake TEMPLATE $before STRATEGY file_copy");
	$node->safe_psql('mistake', "ALTER EXTENSION snowflake UPDATE TO 'next'");
	my @found = differences(state('mistake'), $fresh);
	$node->safe_psql('postgres', 'DROP DATABASE mistake');
	cmp_ok(scalar @found, $what eq 'none' ? '==' : '>', 0, "a mistake is found: $what");
	note $_ foreach grep { /\S/ } @found;
}

#
# A library and a script of different versions.  After an upgrade of the
# package, the server has the old library until it is restarted: an update that
# needs the new one fails as a whole, and IDs are drawn on.
#
next_version('snowflake', '', <<'SQL');
CREATE FUNCTION snowflake_added() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION snowflake_gone() RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_gone' LANGUAGE C;
SQL
my $dbname = database_with('snowflake', $version);
is( refused($node, $dbname, "ALTER EXTENSION snowflake UPDATE TO 'next'")
	  ->{sqlstate},
	'42883', 'an update that the library has no function for fails');
is( $node->safe_psql($dbname,
		"SELECT extversion, to_regproc('snowflake_added') IS NULL FROM pg_extension WHERE extname = 'snowflake'"
	),
	"$version|t",
	'and leaves all as it was');

# A script of before, with a function that the library has no more
$node->safe_psql($dbname,
	"UPDATE pg_proc SET prosrc = 'snowflake_gone' WHERE proname = 'snowflake_timestamp'"
);
is(refused($node, $dbname, 'SELECT snowflake_timestamp(1)')->{sqlstate},
	'42883', 'a call of a function that the library has no more fails');
is($node->safe_psql($dbname, 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	1, 'the others work');
$node->stop;

done_testing();
