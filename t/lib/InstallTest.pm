# What the tests share that change what is installed: a server tree of their own,
# in which files of the extension can be put, changed and removed.

package InstallTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils
  qw(run_command system_or_bail);
use SnowflakeTest;

our @EXPORT = qw(
  install_tree
  tree_node
  put_file
  refused
);

# A server tree: links to the files of the installed one, and to those of the
# extension where scripts/test.sh has them in a folder of their own, SNOWFLAKE_IMAGE;
# and copies of its programs, which find the rest from where they are.  Returns a
# hash with the folders bindir, libdir (libraries), extdir (control files and
# scripts), and includedir (that of the installed server).
sub install_tree
{
	my $root = PostgreSQL::Test::Utils::tempdir('tree');
	my ($bindir, $libdir, $sharedir, $includedir) = map {
		my ($dir) = run_command([ 'pg_config', "--$_" ]);
		$dir
	} qw(bindir pkglibdir sharedir includedir-server);

	make_path("$root$_") foreach ($bindir, $libdir, $sharedir);
	system_or_bail('cp', '-as', "$_/.", "$root$_") foreach ($libdir, $sharedir);
	system_or_bail('cp', '-rL', "$bindir/.", "$root$bindir");
	if (my $image = $ENV{SNOWFLAKE_IMAGE})
	{
		system_or_bail('cp', '-as', glob("$image/lib/*"), "$root$libdir");
		system_or_bail('cp', '-as', glob("$image/share/extension/*"), "$root$sharedir/extension");
	}
	return {
		bindir => "$root$bindir",
		libdir => "$root$libdir",
		extdir => "$root$sharedir/extension",
		includedir => $includedir,
	};
}

# A node that runs from such a tree, not started.
sub tree_node
{
	my ($name, $tree) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name,
		install_path => dirname($tree->{bindir}));

	$node->init;
	$node->append_conf('postgresql.conf', "fsync = off\n");
	# all that it needs is in the tree
	$node->append_conf('postgresql.conf', "extension_control_path = '\$system'\ndynamic_library_path = '\$libdir'\n")
	  if $ENV{SNOWFLAKE_IMAGE};
	return $node;
}

# Write a file into a tree; not through a link.
sub put_file
{
	my ($file, $content) = @_;

	unlink $file;
	open my $fh, '>', $file or die "$file: $!";
	print $fh $content;
	close $fh or die "$file: $!";
	return;
}

# What a statement fails with, after warnings perhaps; as psql_error().
sub refused
{
	my ($node, $dbname, $sql) = @_;
	my ($ret, $stdout, $stderr) =
	  $node->psql($dbname, "\\set VERBOSITY verbose\n$sql");

	return psql_error($stderr =~ s/\A.*?^(?=psql:\S+ ERROR:)//msr);
}

1;
