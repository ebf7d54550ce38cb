# snowflake_accept_layout(): what the server says before it, and that after it
# neither snowflake_nextval() nor snowflake_backfill() issues an ID again: with an
# older epoch, and with other fields, also after a dump.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $conf = <<'CONF';
snowflake.node_id = 3
snowflake.sequence_start = zero
snowflake.max_wait = 60s
autovacuum = off
timezone = 'UTC'
CONF

# Live IDs, of all workers there are; and IDs backfilled at the same times.
my $issue = <<'SQL';
INSERT INTO issued SELECT id, 'drawn' FROM snowflake_nextval(20000) AS id;
INSERT INTO issued SELECT snowflake_backfill(ts), 'backfilled'
FROM (SELECT DISTINCT snowflake_timestamp(id) FROM issued) AS t (ts), generate_series(1, 3)
WHERE ts <= now();
SQL

my $node;

sub new_server
{
	my ($name, $layout, $sql) = @_;

	$sql //= $issue;
	$node = snowflake_node($name, $conf . "snowflake.layout = '$layout'\ninclude_if_exists 'test.conf'\n", clock => 0);
	$node->safe_psql('postgres', "CREATE TABLE issued (id bigint PRIMARY KEY, how text); $sql");
	return;
}

sub error_of
{
	my ($sql) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql;");

	return psql_error($stderr);
}

# Restart with other settings.  Returns what the error says of the IDs.
sub change
{
	my ($settings) = @_;

	restart_with_conf($node, $settings);
	my $error = error_of('SELECT snowflake_nextval()');
	is($error->{sqlstate}, '55000', $settings =~ s/\n/ /gr . ': an error');
	$error->{detail} =~ /is now configured with .*? and epoch [^.]+(?:\.\d+\S*)?\. (.*)$/ or die $error->{detail};
	return $1;
}

sub accept_change
{
	$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
	return;
}

# Do something on a new server with a dump of this one.
sub in_restored
{
	my ($name, $settings, $do) = @_;
	my $dump = PostgreSQL::Test::Utils::tempdir('dump') . '/dump.sql';
	my $source = $node;

	command_ok([ 'pg_dump', '--no-owner', '-f', $dump, $node->connstr('postgres') ], "$name: dump");
	$node = snowflake_node($name, "$conf${settings}include_if_exists 'test.conf'\n", clock => 5 * 3600);
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake');
	command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('postgres') ], "$name: restored");
	$do->();
	$node->stop;
	$node = $source;
	return;
}

# The instant that a text names, after those of the query's.
sub is_after
{
	my ($said, $times, $name) = @_;
	my ($ts) = $said =~ /for times before (.+) could equal former ones\.$/ or die $said;

	is($node->safe_psql('postgres', "SELECT '$ts'::timestamptz > ($times)"), 't', "$name, which ends at $ts");
	return;
}

my $larger = qr/New IDs are larger than all former ones\./;

#
# An older epoch before the first ID
#
$node = snowflake_node('unused', "${conf}include_if_exists 'test.conf'\n");
my $compose = "SELECT snowflake_compose('2015-01-01 00:00+00', 3, 0, 0)";
my $error = error_of($compose);
is("$error->{sqlstate} $error->{message}", '22008 time 2015-01-01 00:00:00+00 is out of range', 'history from before the epoch: an error');
is($error->{hint}, 'Set an older "snowflake.epoch" and restart the server, before it draws its first ID.', 'and what to do');
restart_with_conf($node, "snowflake.epoch = '2010-01-01 00:00:00+00'\n");
is($node->safe_psql('postgres', "$compose > 0; SELECT snowflake_nextval() > 0"), "t\nt", 'which helps, with nothing to accept');
$error = error_of($compose =~ s/2015/2009/r);
like($error->{hint}, qr/^If you set an older "snowflake\.epoch", restart the server and call snowflake_accept_layout\(\), the IDs drawn so far are read as IDs of earlier times\.$/,
	'a server that has drawn');
$node->stop;

#
# An older epoch
#
new_server('older', 'time:41 node:5 worker:2 sequence:6');
my $last = $node->safe_psql('postgres', 'SELECT max(id) FROM issued');
my $said = change("snowflake.epoch = '2010-01-01 00:00:00+00'\n");
like($said, $larger, 'an older epoch: drawing goes on above');
is_after($said, 'SELECT max(snowflake_timestamp(id)) FROM issued', 'the time for which IDs could be equal');
like(error_of("SELECT snowflake_backfill('2016-01-01+00')")->{detail}, $larger, 'the same where it is backfilled');
accept_change();
is($node->safe_psql('postgres', "SELECT count(*) FROM issued, snowflake_parse(id) p WHERE snowflake_compose(p.ts, p.node, p.worker, p.sequence) <> id"), '0',
	'IDs put together for those times are equal');
is(error_of($issue)->{sqlstate}, '', 'drawn, and backfilled at the times at which old IDs are read: none again');
is($node->safe_psql('postgres', "SELECT count(*) = 20000 AND min(id) > $last FROM (SELECT id FROM issued WHERE how = 'drawn' ORDER BY id DESC LIMIT 20000) i"),
	't', 'new ones are larger');
$node->stop;

#
# A newer one, and one between
#
new_server('twice', 'time:41 node:5 worker:2 sequence:6', 'SELECT snowflake_nextval()');
unlike(change("snowflake.epoch = '2025-01-01 00:00:00+00'\n"), $larger, 'a newer epoch: IDs are smaller');
accept_change();
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
unlike(change("snowflake.epoch = '2022-01-01 00:00:00+00'\n"), $larger, 'one between: larger than the last ones, and not than the first');
$node->stop;

#
# Other fields: worker numbers that were drawn from are kept for backfilling
#
new_server('fields', 'time:41 node:5 worker:2 sequence:6');
like(change("snowflake.layout = 'time:41 node:5 worker:1 sequence:7'\n"), qr/^New IDs could equal former ones\. /, 'other fields, soon after IDs were backfilled');
restart_with_conf($node, '');

# what was backfilled is known to an hour and ten minutes
set_clock($node, 2 * 3600);
$node->safe_psql('postgres', "INSERT INTO issued SELECT id, 'drawn' FROM snowflake_nextval(20000) AS id");
my ($first, $end) = split /\|/, $node->safe_psql('postgres', 'SELECT min(ts), max(ts) FROM issued, snowflake_parse(id)');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT worker) FROM issued, snowflake_parse(id)'), '4', 'IDs of all worker numbers');
$said = change("snowflake.layout = 'time:41 node:5 worker:1 sequence:7'\n");
like($said, $larger, 'later: larger');
is_after($said, 'SELECT max(snowflake_timestamp(id)) FROM issued', 'the time for which IDs could be equal');
accept_change();
my $again = "INSERT INTO issued SELECT snowflake_backfill('%s'), 'again' FROM generate_series(1, 20)";
foreach my $ts ($first, $end, '2020-01-01+00')
{
	$error = error_of(sprintf $again, $ts);
	is($error->{sqlstate}, '2200H', "nothing is backfilled at $ts");
	like($error->{detail}, qr/ Units whose IDs could equal IDs of a former layout have none\.$/, 'and why');
}
is(error_of("INSERT INTO issued SELECT snowflake_nextval(20000), 'other fields'")->{sqlstate}, '', 'drawn: none again');
set_clock($node, 5 * 3600);
is(error_of("INSERT INTO issued SELECT snowflake_backfill(clock_timestamp() - interval '1s' * g), 'later' FROM generate_series(1, 100) g")->{sqlstate},
	'', 'backfilled at later times');
$node->stop;
start_node($node);
is(error_of(sprintf $again, $end)->{sqlstate}, '2200H', 'after a restart as before');

# a dump takes it along
in_restored('restored', "snowflake.layout = 'time:41 node:5 worker:1 sequence:7'\n", sub
{
	is(error_of(sprintf $again, $end)->{sqlstate}, '2200H', 'nothing is backfilled there either');
});

# and back again
$node->safe_psql('postgres', "INSERT INTO issued SELECT id, 'drawn' FROM snowflake_nextval(20000) AS id");
set_clock($node, 8 * 3600);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
$said = change("snowflake.layout = 'time:41 node:5 worker:2 sequence:6'\n");
like($said, $larger, 'the former fields');
accept_change();
is(error_of(sprintf $again, $_)->{sqlstate}, '2200H', "nothing is backfilled at $_") foreach $end, '2020-01-01+00';
is(error_of("INSERT INTO issued SELECT snowflake_nextval(20000), 'former fields'")->{sqlstate}, '', 'drawn: none again');
$node->stop;

#
# A later epoch, in whose time no ID is drawn, and then other fields
#
new_server('chain', 'time:41 node:5 worker:2 sequence:6', "INSERT INTO issued SELECT id, 'drawn' FROM snowflake_nextval(20000) AS id");
$end = $node->safe_psql('postgres', 'SELECT max(snowflake_timestamp(id)) FROM issued');
my $other_epoch = "snowflake.epoch = '2025-01-01 00:00:00+00'\n";
change($other_epoch);
accept_change();
in_restored('chain_restored', "snowflake.layout = 'time:41 node:5 worker:2 sequence:6'\n$other_epoch", sub
{
	change("snowflake.layout = 'time:41 node:5 worker:1 sequence:7'\nsnowflake.epoch = '2020-01-01 00:00:00+00'\n");
	accept_change();
	is(error_of(sprintf $again, $end)->{sqlstate}, '2200H', 'nor do they on a server with a dump');
});
change("snowflake.layout = 'time:41 node:5 worker:1 sequence:7'\n");
accept_change();
is(error_of(sprintf $again, $end)->{sqlstate}, '2200H', 'the IDs before the last ones do not come again either');
$node->stop;

#
# What may come again
#
new_server('later', 'time:41 node:5 worker:2 sequence:6');
$said = change("snowflake.epoch = '2021-01-01 00:00:00+00'\n");
like($said, qr/^New IDs could equal former ones of the same node number\. /, 'a later epoch');
is_after($said, 'SELECT max(snowflake_timestamp(id)) FROM issued', 'and IDs put together');
accept_change();
is(error_of($issue =~ s/.*?;//sr)->{sqlstate}, '', 'what was backfilled does not come again even so');
$said = change("snowflake.layout = 'node:5 time:41 worker:2 sequence:6'\n");
like($said, qr/^New IDs could equal former ones\. /, 'the time below the node');
accept_change();
is(error_of("SELECT snowflake_backfill(now())")->{sqlstate}, '2200H', 'nothing is backfilled');
$said = change("snowflake.layout = 'node:5 time:41\@2ms worker:2 sequence:6'\n");
like($said, qr/^New IDs could equal former ones of the same node number\. /, 'another time unit');
$said = change("snowflake.layout = 'node:5 time:41 worker:2 sequence:6'\nsnowflake.epoch = '2015-01-01 00:00:00+00'\n");
like($said, qr/^New IDs could equal former ones /, 'an older epoch, the time below the node: larger than the last ones, but the first ones had the time above it');
$node->stop;

done_testing();
