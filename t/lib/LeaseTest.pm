
# What the tests share whose servers lease their node numbers: a registry,
# servers, ways to cut them off from it, and who had which number.

package LeaseTest;

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use SnowflakeTest;

our @EXPORT = qw(
  new_registry
  make_registry
  MAKE_REGISTRY
  registry_conninfo
  leasing_node
  wait_number
  number_of
  holders
  poll
  start_proxy
  set_proxy
  proxy_conninfo
  ids_by_number
  time_of_id
  in_parallel
);

# 256 IDs a millisecond, that begin with the same ones: two servers with one
# number that draw in the same millisecond draw the same IDs.
our $layout = 'time:41 node:5 worker:2 sequence:6';
our $epoch = 1577836800;    # 2020-01-01, seconds since 1970

our $ttl = 10;              # seconds

our $conf = <<CONF;
snowflake.layout = '$layout'
snowflake.sequence_start = zero
snowflake.lease_ttl = '${ttl}s'
snowflake.reserve_window = '400ms'
snowflake.max_wait = '300ms'
max_connections = 40
shared_buffers = 16MB
autovacuum = off
log_statement = none
restart_after_crash = on
CONF

# A running registry, in the database "postgres": a server that need not have
# the library preloaded, and a role that may do nothing but lease a number, and
# take segments and make tags.  It has room for the sessions that servers leave
# behind proxies that hold them: one in 6 seconds each, and for minutes.
sub new_registry
{
	my ($name, $conf, %init) = @_;
	my $registry = PostgreSQL::Test::Cluster->new($name);

	$registry->init(%init);
	$registry->append_conf('postgresql.conf', <<CONF . ($conf // ''));
fsync = off
shared_buffers = 16MB
max_connections = 300
CONF
	$registry->start;
	$registry->safe_psql('postgres', 'CREATE ROLE snowflake_server LOGIN');
	make_registry($registry, 'postgres');
	return $registry;
}

# In psql: make the database a registry.
use constant MAKE_REGISTRY => <<'SQL';
CREATE EXTENSION snowflake_registry;
SELECT format('GRANT EXECUTE ON FUNCTION %s TO snowflake_server', p.oid::regprocedure)
FROM pg_proc AS p
WHERE p.proname IN ('snowflake_lease_node', 'snowflake_take_segments',
                    'snowflake_create_tag', 'snowflake_alter_tag', 'snowflake_drop_tag') \gexec
SQL

# Let another database of it be one too, which knows nothing of the first; but of
# no fewer changes, as it would close when a server comes that has seen more.
sub make_registry
{
	my ($registry, $dbname) = @_;

	$registry->safe_psql('postgres', "CREATE DATABASE $dbname")
	  if $dbname ne 'postgres';
	$registry->safe_psql($dbname, MAKE_REGISTRY);
	$registry->safe_psql($dbname, 'UPDATE snowflake_registry_place SET changes = 1000')
	  if $dbname ne 'postgres';
	return;
}

# Where a server finds it.
sub registry_conninfo
{
	my ($registry, %other) = @_;

	return conninfo(host => $registry->host, port => $registry->port, %other);
}

sub conninfo
{
	my %option = (dbname => 'postgres', user => 'snowflake_server', @_);

	return join ' ', map { "$_=$option{$_}" } sort keys %option;
}

# A running server that leases its number, with the extension in the database
# "postgres"; see snowflake_node().
sub leasing_node
{
	my ($name, $conninfo, $more_conf, %init) = @_;

	return snowflake_node($name, <<CONF . $conf . ($more_conf // ''), %init);
snowflake.node_id = -1
snowflake.registry = '$conninfo'
CONF
}

# The number that a server has now, '' for none.
sub number_of
{
	my ($node) = @_;

	return try_sql($node, <<'SQL') // '';
SELECT node FROM pg_stat_snowflake WHERE lease_end > clock_timestamp()
SQL
}

# Like wait_for(), where looking takes a psql: not as often.
sub poll
{
	my ($function) = @_;

	return wait_for(
		sub {
			my $result = $function->();
			usleep(200_000) unless $result;
			return $result;
		});
}

# Wait until it has one, another one than $not if that is given.  Returns it.
sub wait_number
{
	my ($node, $not) = @_;
	my $number;

	poll(
		sub {
			$number = number_of($node);
			return $number ne '' && $number ne ($not // '');
		}) or die $node->name . " has no number, or still $number\n";
	return $number;
}

# Who holds what, as the registry says: number => port of the live lease.
sub holders
{
	my ($registry) = @_;

	return { map { split /\|/ } split /\n/,
		$registry->safe_psql('postgres',
			q(SELECT node, port FROM snowflake_nodes WHERE state = 'live')) };
}

#
# Networks
#

# A proxy before a server; see Proxy.pm.  It listens on a Unix socket, or where
# tcp => 1 is given on a port of 127.0.0.1.
sub start_proxy
{
	my ($server, %opts) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $proxy = start_process(
		"$dir/proxy", $^X,
		dirname(abs_path(__FILE__)) . '/Proxy.pm',
		$opts{tcp} ? $port : "$dir/.s.PGSQL.$port",
		$server->host . '/.s.PGSQL.' . $server->port,
		"$dir/control");

	@{$proxy}{qw(dir host port)} =
	  ($dir, $opts{tcp} ? '127.0.0.1' : $dir, $port);
	set_proxy($proxy, 'pass');
	return $proxy;
}

# Tell it what to do, and wait until it does.
sub set_proxy
{
	my ($proxy, $mode) = @_;
	my $file = "$proxy->{dir}/control";

	return if ($proxy->{mode} // '') eq $mode;
	PostgreSQL::Test::Utils::append_to_file("$file.new", "$mode\n");
	rename "$file.new", $file or die "$file: $!";
	wait_for(sub { !-e $file }) or die "the proxy does not listen\n";
	$proxy->{mode} = $mode;
	return;
}

# Where a server finds the one behind it.
sub proxy_conninfo
{
	my ($proxy, %other) = @_;

	return conninfo(host => $proxy->{host}, port => $proxy->{port}, %other);
}

#
# IDs of $layout, or with so many bits for the number
#

# The IDs of a draw, or a list of them, by number: number => [ ID, ... ].
sub ids_by_number
{
	my ($ids, $bits) = @_;
	my $mask = (1 << ($bits // 5)) - 1;
	my %by_number;

	if (ref $ids eq 'HASH')
	{
		stop_draw($ids);
		$ids = [ map { (split / /)[1] } split /\n/,
			PostgreSQL::Test::Utils::slurp_file($ids->{ids}) ];
	}
	push @{ $by_number{ $_ >> 8 & $mask } }, $_ foreach @{$ids};
	return \%by_number;
}

# The time of an ID, in seconds since 1970.
sub time_of_id
{
	my ($id, $bits) = @_;

	return ($id >> 8 + ($bits // 5)) / 1000 + $epoch;
}

#
# Processes
#

# Run tests in processes of their own, at the same time, as most of what they do
# is to wait: name => function, ...  To be called before a server is there.
sub in_parallel
{
	my @groups = @_;
	my $builder = Test::More->builder;
	my @running;

	while (my ($name, $function) = splice @groups, 0, 2)
	{
		my $file = PostgreSQL::Test::Utils::tempdir('group') . '/tap';
		my $pid = fork // die "fork: $!";

		if ($pid == 0)
		{
			my $began = time();

			FaultTest::adopt_orphans(1);
			$builder->reset;
			$builder->output($file);
			$builder->todo_output($file);
			eval { $function->(); 1 }
			  or ok(0, "$name came to its end: $@");
			note sprintf '%s: %.1f s', $name, time() - $began;
			done_testing();
			exit($builder->is_passing ? 0 : 1);
		}
		push @running, [ $name, $pid, $file ];
	}
	foreach (@running)
	{
		my ($name, $pid, $file) = @{$_};

		waitpid $pid, 0;
		my $status = $?;
		my $fh = $builder->output;
		print $fh "# Subtest: $name\n";
		print $fh "    $_\n" foreach split /\n/, PostgreSQL::Test::Utils::slurp_file($file);
		is($status, 0, $name);
	}
	return;
}

1;
