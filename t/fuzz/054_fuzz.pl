# What is pure C, with inputs that libFuzzer makes (fuzz.c), for some seconds:
# nothing of what must hold is broken, and no sanitizer has anything to report.
# Broken sources must be found out.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use PostgreSQL::Test::Utils ();
use Test::More;

use SnowflakeTest;

my $top = abs_path(dirname(__FILE__) . '/../..');

# All of these, except on a machine so slow that the time is over before.  (One that
# was very busy made 150,000 in 20 seconds, and no valid name of a codec in them.)
my $runs = 5_000_000;
my $seconds = 150;

# A broken source is mostly found in 500,000 runs.  Where one seed has bad luck,
# the next one is tried.
my $runs_to_find = 2_000_000;
my $seeds = 3;

# Each part must have been tried so often at least, and with valid inputs.
my $least = 1000;

# To look for leaks takes a right to trace, which containers may not give, and
# what is fuzzed allocates nothing.  Memory that was freed is kept only a while.
$ENV{ASAN_OPTIONS} = 'detect_leaks=0:quarantine_size_mb=16';

# The same seed does the same things only where all addresses are the same in
# each run, and the environment, which is on the stack.  A container may refuse
# the first.
my @same = ('env', '-i', "ASAN_OPTIONS=$ENV{ASAN_OPTIONS}");
if ((run_in('/', 'setarch', '-R', 'true'))[0])
{
	push @same, 'setarch', '-R';
}
else
{
	note('addresses cannot be kept the same: each run is another one');
}

# Run a program.  Returns whether it succeeded, and what it printed.
sub run_in
{
	my ($dir, @command) = @_;
	my $output = '';
	my $success = IPC::Run::run(
		\@command, '<', '/dev/null', '>', \$output, '2>&1',
		init => sub { chdir $dir or die "$dir: $!" },
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));

	return ($success, $output);
}

# Build the target from a copy of the sources.  Returns where it is.
sub build
{
	my ($file, $from, $to) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir('fuzz');

	system('cp', '-r', (map { "$top/$_" } qw(Makefile snowflake.control src t)), $dir) == 0
	  or die "$top cannot be copied\n";
	if (defined $file)
	{
		my $text = PostgreSQL::Test::Utils::slurp_file("$dir/$file");

		$text =~ s/\Q$from\E/$to/ or die "no \"$from\" in $file\n";
		open my $fh, '>', "$dir/$file" or die "$dir/$file: $!";
		print $fh $text;
		close $fh or die "$dir/$file: $!";
	}

	# Not skipped: without this, nothing shows what these do with bad input.
	my ($built, $output) = run_in($dir, 'make', '-s', 'fuzz');
	if (!$built)
	{
		fail('fuzz.c is built');
		diag("Are the packages clang-N and libclang-rt-N-dev installed? "
			  . "N is that of CLANG in pg_config --configure.\n$output");
		done_testing();
		exit 1;
	}
	return $dir;
}

# Break something in a source file.  It is found, by an assertion of fuzz.c or
# by a sanitizer.
sub found
{
	my ($name, @change) = @_;
	my $dir = build(@change);
	my ($success, $output, $what);

	foreach my $seed (1 .. $seeds)
	{
		($success, $output) = run_in($dir, @same, "$dir/fuzz", "-seed=$seed", "-runs=$runs_to_find");
		($what) = $output =~ /(not true: .*|runtime error: .*|AddressSanitizer: \S+)/;
		last if !$success;
	}
	ok(!$success && defined $what, "found: $name") or diag($output);
	note("$what, after some $1 runs") if defined $what && $output =~ /.*^#(\d+)/ms;
	return;
}

my $dir = build();
my ($success, $output) = run_in($dir, @same, "$dir/fuzz", '-seed=1', "-runs=$runs",
	"-max_total_time=$seconds", '-print_final_stats=1');
ok($success, 'nothing is found') or diag($output);

my ($executed) = $output =~ /^stat::number_of_executed_units: (\d+)$/m;
cmp_ok($executed // 0, '>=', 20 * $least, 'inputs were tried');
note($1) while $output =~ /^(Done .*)$/mg;

my $text = PostgreSQL::Test::Utils::slurp_file("$top/t/fuzz/fuzz.c");
my @targets = $text =~ /^\t\{"(\w+)", \g1\},$/mg;
cmp_ok(scalar @targets, '>', 0, 'there are targets');
foreach my $target (@targets)
{
	my ($tried, $valid) = $output =~ /^$target: (\d+) runs, (\d+) valid$/m;

	cmp_ok($tried // 0, '>=', $least, "$target: $tried inputs");
	cmp_ok($valid // 0, '>', 0, "$target: $valid of them valid");
}

found('a layout of more than 63 bits',
	'src/layout.c', 'if (layout->total_bits > LAYOUT_MAX_BITS)', 'if (0)');
found('a message that shows what is behind the text',
	'src/layout.c', 'i < len && i < 40', 'i < 40');
found('time units rounded towards zero',
	'src/layout.c', 'since_epoch_us % layout->unit_us < 0', '0');
found('a text that is too long',
	'src/codec.c', 'if (i == codec->max_length)', 'if (0)');
found('a number past 2^63 - 1',
	'src/codec.c', 'number > (INT64_MAX - value) / codec->base', '0');
found('two texts of one ID',
	'src/codec.c', 'value == 0 && i == 0 && len > 1', '0');
found('a key of the month 13',
	'src/key.c', '{"month", 2, 1, 12}', '{"month", 2, 1, 13}');
found('a key of the 29th of February in all years',
	'src/key.c', 'days[month - 1] + (month == 2 && year % 4 == 0)', 'days[month - 1] + (month == 2)');
found('a key with more behind it',
	'src/key.c', 'if (reader.pos < len)', 'if (0)');
found('a key that ends in a field',
	'src/key.c', 'if (reader->pos >= reader->len)', 'if (0)');
found('a key of another database than its table',
	'src/key.c', 'f == KEY_TABLE &&', 'f == KEY_FIELDS &&');

done_testing();
