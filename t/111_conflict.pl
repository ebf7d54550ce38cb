
# Another extension of the same name, as pgEdge's: whichever of the two takes the
# place of the other, the databases that have that one are told so, and none
# gets numbers from the wrong library.  In a server tree of its own, with a
# stand-in for the other one (other.c).

use strict;
use warnings;

use File::Basename qw(basename);
use File::Copy qw(move);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use InstallTest;
use SnowflakeTest;

my %args = (
	nextval => 'regclass',
	currval => 'regclass',
	get_epoch => 'bigint',
	get_count => 'bigint',
	get_node => 'bigint');
my $tree = install_tree();
my ($libdir, $extdir) = @{$tree}{qw(libdir extdir)};
my $node = tree_node('conflict', $tree);
my $ours = PostgreSQL::Test::Utils::tempdir('ours');
my $other = PostgreSQL::Test::Utils::tempdir('other');
my $moving = qr/Coming from pgEdge's extension of the same name/;

# Theirs beside ours, to be put in place.
mkdir "$ours/lib";
mkdir "$other/lib";
move("$libdir/snowflake.so", "$ours/lib/snowflake.so") or die $!;
move("$extdir/$_", "$ours/$_") or die "$_: $!"
  foreach 'snowflake.control', map { basename($_) } glob "$extdir/snowflake--*.sql";
move(
	compile(
		$node, 'other.c', '-Wno-unused-parameter', '-shared',
		'-fPIC', "-I$tree->{includedir}"),
	"$other/lib/snowflake.so") or die $!;
put_file("$other/snowflake.control", <<'CONTROL');
default_version = '2.6.0'
module_pathname = '$libdir/snowflake'
relocatable = false
schema = snowflake
CONTROL
put_file(
	"$other/snowflake--2.6.0.sql",
	join '',
	map {
		"CREATE FUNCTION $_($args{$_}) RETURNS bigint AS 'MODULE_PATHNAME', 'snowflake_$_' LANGUAGE C;\n"
	} sort keys %args);

# Install a library and the control file and script of one of them.
sub place
{
	my ($library, $files) = @_;

	unlink "$libdir/snowflake.so", glob("$extdir/snowflake{.control,--*}");
	symlink "$library/lib/snowflake.so", "$libdir/snowflake.so" or die $!;
	foreach (glob "$files/snowflake*")
	{
		symlink $_, "$extdir/" . basename($_) or die "$_: $!";
	}
	return;
}

# A failure with its SQLSTATE and texts.
sub fails
{
	my ($dbname, $sql, $sqlstate, $message, $detail, $hint) = @_;
	my $error = refused($node, $dbname, $sql);

	is($error->{sqlstate}, $sqlstate, "$dbname: $sql");
	like($error->{message}, $message, 'and says what is wrong');
	like($error->{detail}, $detail, 'and why');
	like($error->{hint}, $hint, 'and what to do');
	return;
}

# Calls of all of theirs.
sub theirs_fail
{
	foreach my $name (sort keys %args)
	{
		fails(
			'theirs',
			"SELECT snowflake.$name(NULL)",
			'55000',
			qr/function snowflake\.$name\($args{$name}\) is of pgEdge's extension "snowflake", whose library is gone/,
			qr/another extension of the same name/,
			$moving);
	}
	return;
}

#
# Only theirs.
#
place($other, $other);
$node->append_conf('postgresql.conf', "snowflake.node = 5\n");
$node->start;
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(theirs new);
$node->safe_psql('theirs',
	'CREATE SCHEMA snowflake; CREATE EXTENSION snowflake');
is($node->safe_psql('theirs', 'SELECT snowflake.nextval(NULL)'),
	5, 'the other extension works');

#
# Our script, and their library: loaded on demand, then preloaded.
#
place($other, $ours);
foreach my $preload ('', 'snowflake')
{
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = '$preload'\n");
	$node->restart;
	fails(
		'new',
		'CREATE EXTENSION snowflake',
		'55000',
		qr/^the library "snowflake" is not of this extension "snowflake"$/,
		qr/could not find function "snowflake_next" in file/,
		qr/pgEdge's\. Remove its package/);
	is( $node->safe_psql(
			'new',
			"SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'"),
		0,
		'nothing is left');
}

#
# Our library, and a database that has theirs.
#
place($ours, $ours);
$node->append_conf('postgresql.conf', "snowflake.node_id = 1\nsnowflake.max_wait = '1min'\n");
my $offset = -s $node->logfile;
$node->restart;
like(
	slurp_file($node->logfile, $offset),
	qr/WARNING:  "snowflake\.node" is a setting of pgEdge's extension of the same name, and is not read\n.*HINT:  .*"snowflake\.node_id"/,
	'the log names the setting that is not read');

theirs_fail();
foreach my $sql (
	'CREATE EXTENSION snowflake',
	'CREATE EXTENSION IF NOT EXISTS snowflake',
	'ALTER EXTENSION snowflake UPDATE',
	"ALTER EXTENSION snowflake UPDATE TO '1.0'")
{
	fails(
		'theirs', $sql, '42710',
		qr/this database has another extension "snowflake", pgEdge's/,
		qr/not an older version/, $moving);
}
is(refused($node, 'theirs', 'SET snowflake.node = 5')->{sqlstate},
	'42602', 'their setting cannot be set in a session');
$node->safe_psql('theirs',
	'CREATE EXTENSION snowflake_registry; ALTER EXTENSION snowflake_registry UPDATE; CREATE EXTENSION IF NOT EXISTS plpgsql'
);
pass('other extensions are not meant');

# In a database without it, ours can be had, draws, and is left alone.
$node->safe_psql('new', 'CREATE EXTENSION snowflake');
$node->safe_psql('new',
	'CREATE EXTENSION IF NOT EXISTS snowflake; ALTER EXTENSION snowflake UPDATE'
);
is($node->safe_psql('new', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	1, 'a database without the other extension draws');
$node->safe_psql('new', <<'SQL');
CREATE SCHEMA snowflake;
CREATE FUNCTION snowflake.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT public.snowflake_nextval()';
CREATE EXTENSION IF NOT EXISTS snowflake;
ALTER EXTENSION snowflake UPDATE;
SQL
pass("a function of theirs that is not of the extension is not the extension");

#
# The same without preload.
#
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
theirs_fail();
is(refused($node, 'theirs', 'CREATE EXTENSION snowflake')->{sqlstate},
	'42710', 'the server itself refuses a second one');
like(refused($node, 'new', 'SELECT snowflake_nextval()')->{hint},
	qr/shared_preload_libraries/, 'ours does not draw, and says why');

#
# Moved over in place, as docs/converting.md has it.
#
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'snowflake'\n");
$node->restart;
$node->safe_psql('theirs',
	'DROP EXTENSION snowflake; DROP SCHEMA snowflake; CREATE EXTENSION snowflake'
);
is( $node->safe_psql('theirs', 'SELECT (snowflake_parse(snowflake_nextval())).node'),
	1, 'after DROP EXTENSION and CREATE EXTENSION it draws');
$node->stop;

done_testing();
