
# A server that leases its node number, where the boot of the machine, the path, the
# device number and the inode of its data directory are those of the server before:
# in containers, and on volumes.  It goes on with its number while the registry is
# away, if it is the same server.  What was set back to a copy, or is a clone on
# another disk or in another pod, draws nothing until it gets another number.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(append_to_file system_or_bail);
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $registry = new_registry('registry');
my $proxy = start_proxy($registry);

# no lease ends by itself
my $node = leasing_node('node', proxy_conninfo($proxy), "snowflake.lease_ttl = '600s'\n");
my $data = $node->data_dir;
my $copy = $node->basedir . '/copy';
my $disk = $node->basedir . '/disk';
my %env = (
	LD_PRELOAD => compile($node, 'container.c', qw(-shared -fPIC), '-ldl'),
	CONTAINER_DISK => $disk);

# Without the registry, in this pod, and on a disk that the kernel counts so, and
# this file system.
sub start_in
{
	my ($host, $count, $fsid) = @_;

	set_proxy($proxy, 'hole');
	unlink $disk;
	append_to_file($disk, "$count\n") if $count ne '';
	local %ENV = (%ENV, %env, CONTAINER_HOST => $host, CONTAINER_FSID => $fsid // 1);
	$node->start;
	return;
}

# Reconnect it, and wait until a crash does not cost the number; see
# 074_restart_in_place.pl.
my $remembered = '';
sub reconnect
{
	my $token;

	set_proxy($proxy, 'pass');
	poll(sub { $token = $node->safe_psql('postgres', 'SELECT token FROM snowflake_home.lease'); return $token ne $remembered; })
	  or die 'the lease is not remembered';
	$remembered = $token;
	return wait_number($node);
}

sub is_same
{
	my ($what, $number) = @_;

	is(wait_number($node), $number, "$what: the number is the same without the registry");
	is(reconnect(), $number, 'and with it');
	return;
}

sub is_another
{
	my ($what, $number) = @_;
	my $is_known = q(SELECT instance = '' FROM snowflake_home.lease);

	poll(sub { number_of($node) ne '' || (try_sql($node, $is_known) // '') eq 't' })
	  or die 'it does not look at what is remembered';
	is(number_of($node), '', "$what: there is no number without the registry");
	isnt(reconnect(), $number, 'and another one with it');
	return number_of($node);
}

sub place { return join ' ', (stat $data)[ 0, 1 ]; }

#
# The same pod, on the same volume
#
is(wait_number($node), 0, 'the server has number 0');
$node->stop;
start_in('pod-a', 7);
my $number = is_another('a host of another name', 0);
$node->stop;
start_in('pod-a', 7);
is_same('a restart', $number);
kill9_postmaster($node, all => 1);
start_in('pod-a', 7);
is_same('a crash', $number);

#
# The data directory is set back
#
my $place = place();
$node->stop;
system_or_bail('cp', '-a', $data, $copy);
start_in('pod-a', 7);
is_same('a copy was made', $number);
kill9_postmaster($node, all => 1);

# its contents, so that it has its inode for sure
system_or_bail('sh', '-c', 'rm -rf "$1"/* && cp -a "$2"/. "$1"', 'sh', $data, $copy);
is(place(), $place, 'set back: device and inode are the same');
start_in('pod-a', 7);
$number = is_another('set back to the copy', $number);

#
# Another disk, another pod
#
$node->stop;
start_in('pod-a', 8);
$number = is_another('a clone on a disk that got the device number', $number);
$node->stop;
start_in('pod-b', 8);
$number = is_another('a clone in another pod', $number);
$node->stop;
start_in('pod-b', '');
$number = is_another('the disk is not known', $number);
$node->stop;
start_in('pod-b', '');
is_same('it is not known again', $number);
$node->stop;
start_in('pod-b', '', 2);
is_another('a clone of the file system', $number);

$node->stop;
$registry->stop;
done_testing();
