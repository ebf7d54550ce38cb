
# What packages say of themselves: META.json by PGXN's specification (1.0.0),
# and the same names and versions in the Makefile, the control files, and what
# the packages for Debian and RPM are made of.  What is installed names no source
# file.

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::SHA;
use File::Basename qw(basename dirname);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use InstallTest;

my $top = dirname(dirname(abs_path(__FILE__)));

# A semantic version, and one of the specification's terms
my $number = qr/(?:0|[1-9]\d*)/;
my $semver = qr/\A$number\.$number\.$number(?:-[0-9A-Za-z.-]+)?\z/;
my $term = qr/\A[^\s\/\\\p{Cntrl}]{2,}\z/;

sub file { return slurp_file("$top/$_[0]"); }

# What a pattern finds in a file
sub found
{
	my ($name, $pattern) = @_;

	return file($name) =~ $pattern ? $1 : "nothing in $name";
}

my $meta = eval { decode_json(file('META.json')) };
ok($meta, 'META.json is JSON') or BAIL_OUT($@);

#
# Fields that have to be there
#
foreach my $field (qw(name version abstract maintainer license provides meta-spec))
{
	ok(defined $meta->{$field} && length $meta->{$field}, "there is $field");
}
my $known = join '|', qw(abstract description generated_by license maintainer
  meta-spec name no_index prereqs provides release_status resources tags version);
like($meta->{name}, $term, 'name');
like($meta->{version}, $semver, 'version');
is($meta->{'meta-spec'}{version}, '1.0.0', 'version of the specification');
like($meta->{license}, qr/\A(?:postgresql|bsd|mit|apache_2_0|gpl_[23]|open_source)\z/,
	'license is one of its words');
like($meta->{release_status}, qr/\A(?:stable|testing|unstable)\z/,
	'release status');
is(ref $meta->{tags}, 'ARRAY', 'tags are a list');
like($_, qr/\A[^\/\\\p{Cntrl}]{2,255}\z/, "tag $_") foreach @{ $meta->{tags} };
is_deeply(
	[
		grep { !/\A(?:$known|x_\w+)\z/i } keys %$meta
	],
	[],
	'no field is unknown');

my $requires = $meta->{prereqs}{runtime}{requires};
is_deeply([ keys %{ $meta->{prereqs} } ], ['runtime'], 'prerequisites to run');
like($requires->{PostgreSQL}, $semver, 'of PostgreSQL');

#
# The extensions
#
my @controls = map { basename($_, '.control') } sort glob "$top/*.control";
is_deeply([ sort keys %{ $meta->{provides} } ],
	\@controls, 'there is a control file for each extension');
is(found('Makefile', qr/^EXTENSION = (.*)$/m),
	"@controls", 'and all are in the Makefile');
foreach my $name (@controls)
{
	my $provided = $meta->{provides}{$name};
	my $version = found("$name.control", qr/^default_version = '(.*)'$/m);

	like($name, $term, 'name of an extension');
	like($provided->{version}, $semver, "$name: version");

	# PostgreSQL's own versions may do without the last part.
	is($provided->{version}, $version =~ /\A\d+\.\d+\z/ ? "$version.0" : $version,
		"$name: it is that of the control file");

	# in the archive too, which has nothing that make builds
	ok(-f "$top/$provided->{$_}" && $provided->{$_} !~ /^[^\/]*--/, "$name: $provided->{$_} is there")
	  foreach qw(file docfile);
	is($version, found('snowflake.control', qr/^default_version = '(.*)'$/m), "$name: one version for all");
	ok(length $provided->{abstract}, "$name: abstract");
}

#
# The parts of each install script
#
my %parts = (
	snowflake => [ split(/ /, found('Makefile', qr/^SUBJECTS = (.*)$/m)), 'names', 'rights', 'grants' ],
	snowflake_home => [ 'snowflake_home', 'names', 'rights' ],
	snowflake_registry => [ (map { "registry_$_" } split / /, found('Makefile', qr/^REGISTRY_SUBJECTS = (.*)$/m)), 'names', 'rights', 'registry_grants' ]);
is_deeply(
	[ sort map { basename($_, '.sql') } grep { !/--/ } glob "$top/install/*.sql" ],
	[ sort qw(names rights), grep { !/^(?:names|rights)$/ } map { @$_ } values %parts ],
	'each file of install/ is in the Makefile, once, but for names and rights, which all have');

#
# Scripts of a released version stay as they were: what is made of the parts until
# there is a next version, and then what was kept in install/.
#
my $installed = install_tree()->{extdir};
my %sum = map { reverse split } grep { !/^#/ } split /\n/, file('t/released.sha256');
my %kept = map { basename($_) => $_ } grep { !/--.*--/ } glob "$top/install/*--*.sql";
my $this = found('snowflake.control', qr/^default_version = '(.*)'$/m);

$kept{$_} = "$installed/$_" foreach grep { /--\Q$this\E\.sql$/ } keys %sum;
foreach my $script (sort keys %{ { %kept, %sum } })
{
	is($kept{$script} && Digest::SHA->new(256)->addfile($kept{$script})->hexdigest,
		$sum{$script} // 'a line in t/released.sha256',
		"$script is as it was released: what is new needs a next version");
}

#
# What is installed stays as it is released, so it names no file of the source,
# which may move.  Nor do the scripts name a page.
#
foreach my $name (map { s/^\Q$top\E\///r } sort glob "$top/install/*.sql $top/*.control $top/monitoring/*")
{
	my $pages = $name =~ /^monitoring/ ? '' : '|README|\bdocs/|\w\.md\b';

	is(join("\n", grep { m{\w\.(?:c|h|pl|pm|spec)\b|\b(?:src|sql|expected|specs|t|scripts|bench)/\w$pages} } split /\n/, file($name)),
		'', "$name names no file of the source");
}

#
# Sessions may have standard_conforming_strings = off: in SQL a backslash is only in E'' strings.
#
foreach my $name (map { s/^\Q$top\E\///r } grep { !/--/ } sort glob "$top/install/*.sql $top/src/*.c")
{
	my $backslash = $name =~ /c$/ ? qr/\\\\(?!')/ : qr/\\/;

	is(join("\n", grep { $_ =~ $backslash } split /\n/, file($name) =~ s/\bE(?:'(?:[^'\\]|\\.)*'\s*)+//gsr),
		'', "$name: no pattern with a backslash");
}

#
# The packages
#
is(found('debian/changelog', qr/\Asnowflake \((.*)-\d+\)/),
	$meta->{version}, "version of Debian's packages");
is(found('packaging/snowflake.spec', qr/^Version:\s+(.*)$/m),
	$meta->{version}, 'version of RPM packages');
is(found('packaging/snowflake.spec', qr/^%changelog\n.* - (.*)-/m),
	$meta->{version}, 'and of the last change in them');
is($requires->{PostgreSQL},
	found('debian/pgversions', qr/^(\d+)\+$/m) . '.0.0', 'oldest server');

# debian/control is of the server version in Debian's development.
my $control = file('debian/control');
my ($major) = $control =~ /^Package: postgresql-(\d+)-snowflake$/m;
is($control, file('debian/control.in') =~ s/PGVERSION/$major/gr,
	'debian/control is up to date with debian/control.in');

my $names_other = qr/pgEdge's\s+extension\s+of\s+the\s+same\s+name/;
like($meta->{description}, $names_other, 'META.json names the other extension');
like(file('packaging/snowflake.spec'), qr/^Conflicts:\s+pgedge-snowflake_/m,
	'RPM packages are in conflict with it');
like($control, qr/^Conflicts:\n pgedge-postgresql-$major-snowflake,$/m,
	"Debian's packages too");

done_testing();
