
# scripts/demo.sh, the first command of the README, at work for a few seconds.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use List::Util qw(sum);
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my ($version) = run_command([ 'pg_config', '--version' ]);
my ($major) = $version =~ /(\d+)/;

sub demo
{
	my ($out, $err);

	IPC::Run::run([ 'scripts/demo.sh', @_ ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($?, $out, $err);
}

SKIP:
{
	skip "scripts/demo.sh needs Debian's server", 1
	  unless -x "/usr/lib/postgresql/$major/bin/postgres";

	local %ENV = (%ENV, PG_MAJOR => $major, TMPDIR => PostgreSQL::Test::Utils::tempdir_short());
	my ($status, $out, $err) = demo('--seconds', 4);
	is($status, 0, 'it runs') or diag($out, $err);
	is($err, '', 'and has no error');
	my @rates = $out =~ /^ *(\d+) IDs a second$/mg;
	my ($transactions) = $out =~ /^number of transactions actually processed: (\d+)/m;
	cmp_ok(scalar(@rates), '>', 0, 'it shows how many IDs are drawn a second');
	cmp_ok(sum(@rates), '>', 0, 'some are');
	cmp_ok(sum(@rates), '<=', $transactions, 'and no more than one a transaction');
	like($out, qr/^  Index Cond: \(\(id >= '\d+'::bigint\)\n +AND \(id < '\d+'::bigint\)\)$/m,
		'the plan, in lines of 80 columns');
	like($out, qr/^ *\d+ \| t$/m, 'after the crash, an ID above the last one');
	like($out, qr/^[\d,]{9,} IDs, 0 twice, 0 below one that their session drew before\.$/m, 'no ID twice');

	($status, $out) = demo();
	isnt($status, 0, 'once more');
	like($out, qr/A demo server is already here/, 'it says that it is there');
	($status, $out) = demo('stop');
	is($status, 0, 'it stops');
	is_deeply([ glob "$ENV{TMPDIR}/*" ], [], 'and leaves nothing behind');
}

done_testing();
