
# A server that leases its node number, and comes back in its own data directory
# after a crash on another timeline, as Patroni lets it: started as a standby, and
# promoted.  It has lost nothing, so it keeps its number, also while the registry
# is away.  What did lose something, in the same directory, gets another number.
# And a registry that goes on on an older timeline, or knows less than it did, is
# refused until somebody says that the other one is gone; but not where all that it
# had said was a refusal.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $ttl = 600;    # no lease ends by itself
my $registry = new_registry('registry', '', allows_streaming => 1);

sub timeline
{
	my ($node) = @_;

	return $node->safe_psql('postgres', q(SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int));
}

# What a failover program does with a primary that has crashed.
sub restart_in_place
{
	my ($node) = @_;

	kill9_postmaster($node, all => 1);
	$node->set_standby_mode;
	start_node($node);
	$node->promote;
	return;
}

# Since when the registry knows the server by this start: what that had before it
# is what the registry gives the number back for.  A crash before this is
# remembered may cost the number.
my $remembered = '';

sub wait_remembered
{
	my ($node) = @_;
	my $token;

	poll(sub { $token = $node->safe_psql('postgres', 'SELECT token FROM snowflake_home.lease'); return $token ne $remembered; })
	  or die 'the lease is not remembered';
	$remembered = $token;
	return;
}

# A few IDs, in the ledger of all.
my %seen;
my $twice = 0;
sub draw_some
{
	my ($node) = @_;
	my $ids;

	poll(sub { $ids = try_sql($node, 'SELECT snowflake_nextval() FROM generate_series(1, 1000)'); return defined $ids && $ids ne ''; })
	  or die 'no IDs';
	$twice += $seen{$_}++ ? 1 : 0 foreach split /\n/, $ids;
	return;
}

sub forget
{
	$_[0]->safe_psql('postgres', 'SELECT snowflake_forget_registry()');
	return;
}

#
# A crash, and a promotion in place
#
my $proxy = start_proxy($registry);
my $node = leasing_node('node', proxy_conninfo($proxy), "snowflake.lease_ttl = '${ttl}s'\nwal_keep_size = 512MB\n", allows_streaming => 1);

is(wait_number($node), 0, 'the server has number 0');
draw_some($node);
wait_remembered($node);
$node->backup('before');
foreach my $n (1 .. 6)
{
	restart_in_place($node);
	is(wait_number($node), 0, "crash $n: the number is the same");
	draw_some($node);
	wait_remembered($node);
}
cmp_ok(timeline($node), '>', 6, 'on another timeline each time');
is_deeply(holders($registry), { 0 => $node->port }, 'it used one number');

set_proxy($proxy, 'hole');
restart_in_place($node);
is(wait_number($node), 0, 'without the registry: the number is the same');
draw_some($node);
set_proxy($proxy, 'pass');
is(wait_number($node), 0, 'and with it again');
is_deeply(holders($registry), { 0 => $node->port }, 'one number still');

#
# The same directory, which has lost something
#

# Its contents are those of a base backup now: on the timeline of that, and on
# another.
my $number = 0;
foreach my $what ('a base backup', 'a base backup that is promoted')
{
	my $from = $node->backup_dir . '/before';

	kill9_postmaster($node, all => 1);
	foreach my $entry (slurp_dir($node->data_dir))
	{
		next if $entry =~ /^\.\.?$/;
		PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $node->data_dir . "/$entry");
	}
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', "$from/.", $node->data_dir);
	$node->append_conf('postgresql.conf', 'port = ' . $node->port);
	$node->set_standby_mode if $what =~ /promoted/;
	start_node($node);
	$node->promote if $what =~ /promoted/;
	isnt(wait_number($node), $number, "$what in the same directory: another number");
	$number = number_of($node);
	draw_some($node);
}

# A crash in place of that one: it keeps the new number.
wait_remembered($node);
restart_in_place($node);
is(wait_number($node), $number, 'a crash of it: the number is the same');
draw_some($node);
wait_remembered($node);

# One that was primary, is rewound to its standby that was promoted, and promoted
# again: it may have lost what it wrote last.
$node->append_conf('postgresql.conf', "wal_log_hints = on\n");
$node->restart;
is(wait_number($node), $number, 'a restart: the number is the same');
my $other = PostgreSQL::Test::Cluster->new('other');
$node->backup('standby');
$other->init_from_backup($node, 'standby', has_streaming => 1);
$other->start;
$node->wait_for_catchup($other, 'replay');
$other->promote;
isnt(wait_number($other), $number, 'a promoted standby: another number');
draw_some($other);
draw_some($node);
$node->stop;
$other->safe_psql('postgres', 'CHECKPOINT');
copy_conf($node, sub {
		command_ok([ 'pg_rewind', '--source-server', $other->connstr('postgres'), '--target-pgdata', $node->data_dir ],
			'it is rewound');
	});
# what the other has written meanwhile is needed, too
$node->enable_streaming($other);
start_node($node);
$node->promote;
my $rewound = wait_number($node);
isnt($rewound, $number, 'rewound and promoted: another number');
isnt($rewound, number_of($other), 'and not that of the other');
draw_some($node);
$other->stop;

# One that follows the timeline of its standby, and is promoted after that: what
# it had is the other's too.
my $third = PostgreSQL::Test::Cluster->new('third');
$node->backup('third');
$third->init_from_backup($node, 'third', has_streaming => 1);
$third->start;
$node->wait_for_catchup($third, 'replay');
$node->stop;
$third->promote;
my $follows = timeline($third);
$node->enable_streaming($third);
start_node($node);
ok(poll(sub { try_sql($node, 'SELECT received_tli FROM pg_stat_wal_receiver') eq $follows }), 'it follows its standby');
$node->promote;
cmp_ok(timeline($node), '>', $follows, 'and is promoted');
isnt(wait_number($node), $rewound, 'followed and promoted: another number');
$rewound = number_of($node);
draw_some($_) foreach $node, $third;
$third->stop;
is($twice, 0, 'no ID came twice');

# pg_rewind copies the configuration too.
sub copy_conf
{
	my ($target, $function) = @_;
	my $conf = slurp_file($target->data_dir . '/postgresql.conf');

	$function->();
	open my $fh, '>', $target->data_dir . '/postgresql.conf' or die $!;
	print $fh $conf;
	close $fh;
	return;
}

#
# A registry that is not the one of before
#
my $copy = PostgreSQL::Test::Cluster->new('registry_copy');
$registry->stop;
PostgreSQL::Test::RecursiveCopy::copypath($registry->data_dir, $copy->data_dir);
chmod 0700, $copy->data_dir;
$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\nunix_socket_directories = '" . $copy->host . "'\n");

# promoted, and the old one comes back
$registry->set_standby_mode;
$registry->start;
$registry->promote;
my $seen_timeline = q(SELECT registry FROM snowflake_home.lease);
ok(poll(sub { ($node->safe_psql('postgres', $seen_timeline) // '') =~ m{/00000002$} }), 'the timeline of the registry is remembered');

# A server that the promoted one has only refused.
my $young = leasing_node('young', registry_conninfo($registry));
my $make_tag = q(SELECT snowflake_create_tag('tag', 1, 10, 1, 0, NULL, NULL));
my $draws = sub { return psql_error(($young->psql('postgres', "\\set VERBOSITY verbose\nSET snowflake.max_wait = '3s'; SELECT $_[0]"))[2]) };
my $error;
$registry->safe_psql('postgres', $make_tag);
ok(poll(sub { $error = $draws->('snowflake_nextval()'); return $error->{detail} =~ /the registry gives out no node numbers until/; }), 'promoted, it refuses numbers')
  or diag($error->{detail});
ok(poll(sub { $error = $draws->(q(snowflake_segment_nextval('tag'))); return $error->{detail} =~ /gives out no segments until/; }), 'and segments')
  or diag($error->{detail});

$copy->start;
$copy->safe_psql('postgres', "$make_tag; SELECT snowflake_open_registry()");
$young->safe_psql('postgres', sprintf(q(ALTER SYSTEM SET snowflake.registry = '%s'), registry_conninfo($copy)));
reload_node($young);
isnt(wait_number($young), $rewound, 'a server that it has refused takes a number of the one on the older timeline');
ok(poll(sub { $draws->(q(snowflake_segment_nextval('tag')))->{sqlstate} eq ''; }), 'and segments');
$young->stop;

$node->safe_psql('postgres', sprintf(q(ALTER SYSTEM SET snowflake.registry = '%s'), registry_conninfo($copy)));
reload_node($node);
my $refused = qr/The registry could not be asked: it is on timeline \d+\/00000001, and was on \d+\/00000002 before\./;
my $check = sub { return $node->safe_psql('postgres', q(SELECT status, detail FROM snowflake_check() WHERE name = 'registry')); };
my $detail;
ok(poll(sub { ($detail = $check->()) =~ $refused }), 'an older timeline is refused') or diag($detail);
like($detail, qr/close the present one, as docs\/registry\.md says under "Backups"\. Then call snowflake_forget_registry\(\) on this server/, 'and the doctor names the way out');

# whatever is killed
my $services = $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake services'));
$node->safe_psql('postgres', "SELECT pg_terminate_backend($services)");
ok(poll(sub { (try_sql($node, q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake services')) // '') =~ /^(?!$services$)\d+$/ }), 'the services are started again');
my $log = -s $node->logfile;
kill9_postmaster($node, all => 1);
start_node($node);
ok(poll(sub { ($detail = $check->()) =~ $refused }), 'and the server: an older timeline is refused still') or diag($detail);
is(number_of($node), $rewound, 'the number stays');

forget($node);
my $renewed_at = $copy->safe_psql('postgres', 'SELECT now()');
ok(poll(sub { $copy->safe_psql('postgres', "SELECT renewed_at > '$renewed_at' FROM snowflake_nodes WHERE node = $rewound") eq 't' }),
	'accepted when somebody says so');
ok(poll(sub { $check->() =~ /^ok\|This server is node $rewound until / }), 'and all is well');
ok(poll(sub { $node->safe_psql('postgres', $seen_timeline) =~ m{/00000001$} }), 'which is remembered');

$node->stop;
$copy->stop;
$registry->stop;
done_testing();
