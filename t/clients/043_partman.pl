# pg_partman keeps the partitions of a table by range of its IDs: days, as an
# interval of so many IDs.  What works, and how each version refuses the rest.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

need_extension('pg_partman', 'partman');

my $premake = 4;

# The IDs of a day: what a partition is wide, and where today's begins.
my $step = <<'SQL';
SELECT upper(r) - lower(r)
FROM id_range_for(timestamptz '2020-01-01 00:00+00', '2020-01-02 00:00+00') AS r
SQL
my $today = 'SELECT lower(id_range_for(now()))::text';

my $maintain = q{SELECT partman.run_maintenance('public.events')};

my $node = snowflake_node('partman', undef, clock => 0);
my $version = query(<<'SQL');
SET client_min_messages = warning;
CREATE SCHEMA partman;
CREATE EXTENSION pg_partman SCHEMA partman;
SELECT extversion FROM pg_extension WHERE extname = 'pg_partman';
SQL
note "pg_partman $version";

# From 5.0 on all is native.
my $native = since('5.0') ? '' : ", p_type := 'native'";

# Is pg_partman that version, or newer?
sub since
{
	my ($have, $want) =
	  map { join '.', map { sprintf '%04d', $_ } split /\./ } $version, shift;

	return $have ge $want;
}

sub query { return $node->safe_psql('postgres', shift); }

# How a statement fails: the first line of the message, or nothing.
sub error
{
	my ($status, $out, $err) = $node->psql('postgres', shift);

	return $status ? $err =~ s/^psql:\S+ ERROR:  (.*?)(?:\n.*|\z)/$1/sr : '';
}

# So many days go by.
my $clock = 0;

sub sleep_days
{
	$clock += 24 * 60 * 60 * shift;
	set_clock($node, $clock);
	return;
}

# The days from one number of days after today to another.
sub days
{
	my ($from, $to) = @_;

	return query(<<SQL);
SELECT date_trunc('day', now() AT TIME ZONE 'UTC') + n * interval '1 day'
FROM generate_series($from, $to) AS n
SQL
}

# Where the partitions of a table begin, by UTC, and whether it has a default.
# They are not locked, as pg_partition_tree() does, since others drop them.
sub partitions
{
	my ($table) = @_;

	return query(<<SQL);
SELECT coalesce((snowflake_timestamp(low) AT TIME ZONE 'UTC')::text, 'default')
FROM pg_inherits AS i, pg_class AS c,
	LATERAL (SELECT (regexp_match(pg_get_expr(relpartbound, c.oid),
		'FROM \\(''(\\d+)''\\)'))[1]::bigint) AS bound (low)
WHERE i.inhparent = '$table'::regclass AND c.oid = i.inhrelid
ORDER BY low
SQL
}

# Draw an ID.  Returns the partition that it is in.
sub insert
{
	my ($table) = @_;

	return query(
		"INSERT INTO $table DEFAULT VALUES RETURNING tableoid::regclass");
}

# Make the other table anew, without partitions.
sub drop_other
{
	return query(<<'SQL');
DELETE FROM partman.part_config WHERE parent_table = 'public.other';
DROP TABLE other, partman.template_public_other;
CREATE TABLE other (LIKE events INCLUDING ALL) PARTITION BY RANGE (id);
SQL
}

# These tests are about days, so they do not begin just before midnight.
$clock = -3600
  if query(q{SELECT date_part('hour', now() AT TIME ZONE 'UTC')}) == 23;
sleep_days(0);

query(<<'SQL');
CREATE TABLE events (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	note text
) PARTITION BY RANGE (id);
CREATE TABLE other (LIKE events INCLUDING ALL) PARTITION BY RANGE (id);
CREATE FUNCTION encoder(timestamptz) RETURNS text
	RETURN lower(id_range_for($1))::text;
CREATE FUNCTION decoder(text) RETURNS timestamptz
	RETURN snowflake_timestamp($1::bigint);
SQL

#
# What cannot be
#
my $create_other = "SELECT partman.create_parent('public.other', 'id'$native";
is( error("$create_other, p_interval := '1 day')"),
	'invalid input syntax for type bigint: "1 day"',
	'an interval of time is refused');

my $other_error = error(<<SQL);
$create_other, p_interval := '1 day',
	p_time_encoder := 'public.encoder', p_time_decoder := 'public.decoder')
SQL
if (since('5.2'))
{
	is( $other_error,
		'p_time_encoder and p_time_decoder can only be used '
		  . 'with text/uuid type control column.',
		'an encoder and a decoder are refused');
}
else
{
	like(
		$other_error,
		qr/^function partman.create_parent\(.*\) does not exist$/,
		'an encoder and a decoder are not known');
}

# This takes the IDs themselves for times since 1970.
foreach my $unit (qw(seconds milliseconds nanoseconds))
{
	is( query("$create_other, p_interval := '1 month', p_epoch := '$unit')"),
		't', "p_epoch := '$unit' is accepted");
	is(insert('other'), 'other_default', 'but no ID falls into a partition');
	drop_other();
}

#
# Create: an interval of IDs, from today's on
#
is(query(<<SQL), 't', 'an interval of so many IDs is accepted');
SELECT partman.create_parent('public.events', 'id'$native,
	p_interval := ($step)::text, p_premake := $premake, p_start_partition := ($today))
SQL
is(partitions('events'), days(0, $premake) . "\ndefault",
	'the partitions are the days of UTC from today on');
is(query(<<'SQL'), 2 + $premake, 'each has the primary key');
SELECT count(*) FROM pg_index, pg_partition_tree('events')
WHERE indrelid = relid AND isleaf AND indisprimary
SQL

my $first = insert('events');
is( $first,
	query("SELECT 'events_p' || id - id % ($step) FROM events"),
	q{an ID goes to today's partition, named by its first ID});

my $plan = query(<<'SQL');
EXPLAIN (COSTS OFF)
SELECT count(*)
FROM events, (SELECT id_range_for(now() - interval '1 minute', now()) AS r) AS last
WHERE id >= lower(r) AND id < upper(r)
SQL
like($plan, qr/Scan .*on $first/, q{a query by time reads today's partition});
like($plan, qr/Subplans Removed: @{[ $premake + 1 ]}\n/, 'and no other');

#
# Maintain: days ahead of the largest ID
#
query($maintain);
is(partitions('events'), days(0, $premake) . "\ndefault",
	'nothing to do today');

sleep_days(1);
query($maintain);
is(partitions('events'), days(-1, $premake - 1) . "\ndefault",
	'nor the next day, without a new ID');
insert('events');
query($maintain);
is(partitions('events'), days(-1, $premake) . "\ndefault",
	'with one, the next partition is made');

#
# Idle for longer than is made ahead
#
sleep_days(7);
query($maintain);
my $behind = days(-8, $premake - 7);
is(partitions('events'), "$behind\ndefault", 'no partition for today');
is(insert('events'), 'events_default', 'so an ID goes to the default');
is( error($maintain),
	since('5.0')
	? ''
	: 'updated partition constraint for default partition '
	  . '"events_default" would be violated by some row',
	'maintenance is stuck, before 5.0 with an error');
is(partitions('events'), "$behind\ndefault", 'it makes no partition');

query(q{CALL partman.partition_data_proc('public.events')});
query($maintain);
is( partitions('events'),
	"$behind\n" . days(0, $premake) . "\ndefault",
	'partition_data_proc() makes it go on');
is( query('SELECT count(*), count(DISTINCT tableoid) FROM events'),
	'3|3', 'the rows are where they belong');

#
# By the clock: the partitions that are missing from today on
#
my $ahead = <<'SQL';
SELECT partman.create_partition_id(parent_table, ARRAY(
    SELECT id - id % step + n * step FROM generate_series(0, premake) AS n))
FROM partman.part_config,
    LATERAL (SELECT lower(id_range_for(now())), partition_interval::bigint) AS now (id, step)
WHERE parent_table = 'public.events'
SQL

sleep_days(2);
is(query($ahead), 't', 'create_partition_id() from the clock');
is( partitions('events'),
	days(-10, $premake - 9) . "\n" . days(-2, $premake) . "\ndefault",
	'makes what is missing');
is(query($ahead), 'f', 'and nothing twice');
sleep_days(28);
query($ahead);
like(insert('events'), qr/^events_p/, 'then an idle time does no harm');

#
# Retention: so many IDs behind the largest one
#
query(<<SQL);
UPDATE partman.part_config
SET retention = 7 * ($step), retention_keep_table = false
WHERE parent_table = 'public.events'
SQL
query($maintain);
is(partitions('events'), days(0, $premake) . "\ndefault",
	'the days before the retention are dropped');

sleep_days(10);
query($maintain);
is(partitions('events'), days(-10, $premake - 10) . "\ndefault",
	'none is dropped without a new ID');
query($ahead);
insert('events');
query($maintain);
is(partitions('events'), days(-7, -6) . "\n" . days(0, $premake) . "\ndefault",
	'some are with one');

#
# From 5.0 on there need not be a default
#
if (since('5.0'))
{
	query("$create_other, p_interval := ($step)::text, p_premake := 1, "
		  . "p_start_partition := ($today), p_default_table := false)");
	sleep_days(2);
	is( error('INSERT INTO other DEFAULT VALUES'),
		'no partition of relation "other" found for row',
		'without a default, the ID after an idle time is an error');
	drop_other();
}

#
# Weeks
#
my $weekly =
  "$create_other, p_interval := (7 * ($step))::text, p_start_partition := ($today)";
my $weekday = <<'SQL';
SELECT DISTINCT to_char(snowflake_timestamp(
	(regexp_match(relname, '_p(\d+)$'))[1]::bigint) AT TIME ZONE 'UTC', 'FMDay HH24:MI')
FROM pg_class WHERE relname ~ '^other_p\d+$'
SQL

query("$weekly)");
is(query($weekday), 'Wednesday 00:00', 'weeks begin on the weekday of the epoch');
drop_other();
if (since('5.3'))
{
	query("$weekly, p_offset_id := 5 * ($step))");
	is(query($weekday), 'Monday 00:00', 'or, with an offset, on another');
	drop_other();
}

#
# Its background worker, beside ours
#
my $user = query('SELECT current_user');
$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'snowflake,pg_partman_bgw'
pg_partman_bgw.interval = 1
pg_partman_bgw.dbname = 'postgres'
pg_partman_bgw.role = '$user'
CONF
$node->stop;

my $log = -s $node->logfile;
start_node($node);
sleep_days(1);
insert('events');
my $next = days($premake, $premake);
ok( wait_for(
		sub {
			return 1 if partitions('events') =~ /^$next$/m;

			# where a run ends before it was seen to begin, the next one would
			# come in 10 minutes
			if (slurp_file($node->logfile, $log) =~
				/Could not start dynamic pg_partman background process/)
			{
				$node->stop;
				$log = -s $node->logfile;
				start_node($node);
			}
			return 0;
		}),
	'its background worker makes the next partition');

#
# Over to ours: the partitions that there are stay
#
# it may be at them, with this lock
query(<<'SQL');
DELETE FROM partman.part_config WHERE parent_table = 'public.events';
SELECT pg_advisory_xact_lock(hashtext('pg_partman run_maintenance'));
SQL
my $before = partitions('events') =~ s/\ndefault$//r;
query(<<'SQL');
DROP TABLE events_default;
SELECT snowflake_create_partitions('events', now(), now() + interval '7 days', '1 day', 'UTC');
SQL
is( partitions('events'),
	"$before\n" . days($premake + 1, 7),
	'snowflake_create_partitions() goes on from there');

$node->stop;
done_testing();
