
# How src/ is laid out, as src/README lists it: each file is there, includes
# only headers of files above it, and is not too large.  And what is installed,
# and so frozen with a release, names no source file, and has no long lines.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = dirname(dirname(abs_path(__FILE__)));
my $max_file = 950;
my $max_function = 100;
my $max_sql = 100;    # columns

my %text = map { basename($_) => slurp_file($_) } glob "$top/src/*.[ch]";

# A header belongs to the file of the same name, where there is one.
sub owner
{
	my ($file) = @_;
	my $source = $file =~ s/h\z/c/r;

	return exists $text{$source} ? $source : $file;
}

#
# The list
#
my ($section) = slurp_file("$top/src/README") =~
  /^(Files, each calling only those above it\n.*?)^Where state lives\n/ms;
ok($section, 'src/README has the list') or BAIL_OUT('there is no list');

my @listed = map { split /, / } $section =~ /^ {4}(\w+\.[ch](?:, \w+\.[ch])*)  +\S/mg;
my %times;
$times{$_}++ foreach @listed;
my @owners = grep { $_ eq owner($_) } sort keys %text;
is_deeply([ grep { !$times{$_} } @owners ], [], 'all files of src/ are in the list');
is_deeply([ grep { !exists $text{$_} } @listed ], [], 'all files of the list are in src/');
is_deeply([ grep { $times{$_} > 1 } sort keys %times ], [], 'each is there once');

#
# The order
#
my %position;
$position{ $listed[$_] } //= $_ foreach 0 .. $#listed;
my (@upwards, $includes);
foreach my $file (sort keys %text)
{
	my $own = owner($file);

	foreach my $header ($text{$file} =~ /^#\s*include "(\w+\.h)"/mg)
	{
		# or a header of the server
		next unless exists $text{$header};
		$includes++;
		my $from = owner($header);
		next if $from eq $own;
		push @upwards, "$file includes $header"
		  unless ($position{$from} // @listed) < ($position{$own} // -1);
	}
}
is_deeply(\@upwards, [], 'files include headers of files above them');
cmp_ok($includes, '>', 100, 'and includes were found');

#
# What a file has
#
is_deeply([ grep { $_ ne 'compat.h' && $text{$_} =~ /\bPG_VERSION_NUM\b/ } sort keys %text ],
	[], 'server versions are told apart in compat.h alone');

# With a wrong value of a setting in the list, a server does not start.
my ($names) = $text{'settings.c'} =~ /setting_names\[\] = \{(.*?)\}/s;
is_deeply(
	[ sort $names =~ /"(\S+)"/g ],
	[
		sort map { /"(\S+)"/ }
		grep { !/GUC_DISALLOW_IN_FILE/ } $text{'settings.c'} =~ /^\tDefineCustom\w+\(.*?\);/gms
	],
	'all settings are in setting_names[]');

my (@large, @long, $functions);
foreach my $file (sort keys %text)
{
	my @lines = split /\n/, $text{$file};
	my ($name, $begin);

	push @large, "$file: " . @lines . ' lines' if @lines > $max_file;
	foreach my $n (0 .. $#lines)
	{
		$name = $1 if $lines[$n] =~ /^(\w+)\(/;
		if ($lines[$n] eq '{')
		{
			$begin = $n;
		}
		elsif ($lines[$n] =~ /^}/ && defined $begin)
		{
			# or a struct
			if ($lines[$n] eq '}')
			{
				my $length = $n - $begin + 1;

				$functions++;
				push @long, "$file, $name(): $length lines" if $length > $max_function;
			}
			undef $begin;
		}
	}
}
is_deeply(\@large, [], "no file has more than $max_file lines");
is_deeply(\@long, [], "no function has more than $max_function lines");
cmp_ok($functions, '>', 300, 'and functions were found');

#
# What is installed
#
my @installed = (glob("$top/install/*.sql"), glob("$top/*.control"));
my (@names, @wide);
foreach my $path (@installed)
{
	my $file = basename($path);
	my $n = 0;

	foreach my $line (split /\n/, slurp_file($path))
	{
		$n++;
		push @wide, "$file:$n" if $file =~ /\.sql$/ && length($line) > $max_sql;
	}
	push @names, map { "$file names $_" } slurp_file($path) =~ /(\bsrc\/\w*|\b\w{3,}\.[ch]\b)/g;
}
cmp_ok(@installed, '>=', 8, 'there are scripts and control files');
is_deeply(\@names, [], 'no script or control file names a source file');
is_deeply(\@wide, [], "no script has a line of more than $max_sql columns");

done_testing();
