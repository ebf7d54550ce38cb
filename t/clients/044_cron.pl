# pg_cron makes and drops partitions, as the owner of the table and at the
# minute that is set: by its background workers, and by connections.  The servers
# believe that it will soon be noon, so that nobody waits for long, and no day
# ends while the test counts them.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

need_extension('pg_cron', 'cron');

# What docs/partitions.md says, but for the time of the day.
my %jobs = (
	create => q{SELECT snowflake_create_partitions('events', }
	  . q{now(), now() + interval '7 days', '1 day', 'UTC')},
	drop => q{SELECT snowflake_drop_partitions('events', now() - interval '5 days')},
	draw => 'INSERT INTO events DEFAULT VALUES');

# A noon to come, an hour from now at least: the servers are ahead of the real
# clock.  And how many seconds before it they hear of their jobs.
my $noon = 86400 * int((time + 43200 + 3600) / 86400) + 43200;
my $before = 20;

# Let the server believe that it is so many seconds before noon.  All its
# processes, from the first moment, which libfaketime cannot do.
sub set_before_noon
{
	my ($node, $seconds) = @_;
	my $file = $node->basedir . '/ahead';

	append_to_file("$file.new", $noon - $seconds - time);
	rename "$file.new", $file or die "$file: $!";
	return $file;
}

# A server with a table that has partitions from eight days ago to today.
sub cron_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$conf =~ s/HOST/$node->host/e;
	$node->init;
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'snowflake,pg_cron'
snowflake.node_id = 1
snowflake.max_wait = '1min'
cron.database_name = 'postgres'
$conf
fsync = off
log_statement = none
CONF
	{
		local %ENV = (
			%ENV,
			LD_PRELOAD => compile($node, 'suspend.c', qw(-shared -fPIC)),
			SUSPENDED_FILE => set_before_noon($node, 1800));
		$node->start;
	}
	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION snowflake;
CREATE EXTENSION pg_cron;
CREATE ROLE app LOGIN;
GRANT USAGE ON SCHEMA cron TO app;
GRANT CREATE ON SCHEMA public TO app;

SET ROLE app;
CREATE TABLE events (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	note text
) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('events',
	now() - interval '8 days', now(), '1 day', 'UTC');
SQL
	note "$name: pg_cron " . $node->safe_psql('postgres',
		q{SELECT extversion FROM pg_extension WHERE extname = 'pg_cron'});
	return $node;
}

# Let the jobs run at noon.
sub schedule
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<SQL) foreach sort keys %jobs;
SET ROLE app;
SELECT cron.schedule('$_', '0 12 * * *', \$\$$jobs{$_}\$\$)
SQL
	set_before_noon($node, $before);
	return;
}

# The partitions of "events", in days from today.
sub days
{
	my ($node) = @_;

	return $node->safe_psql('postgres', <<'SQL');
SELECT string_agg(day::text, ' ' ORDER BY day)
FROM (SELECT (starts AT TIME ZONE 'UTC')::date - (now() AT TIME ZONE 'UTC')::date
	FROM snowflake_partitions('events')) AS s (day)
SQL
}

my @nodes = (
	cron_node('workers', 'cron.use_background_workers = on'),
	cron_node('connections', "cron.host = 'HOST'"));

foreach my $node (@nodes)
{
	is(days($node), '-8 -7 -6 -5 -4 -3 -2 -1 0', $node->name . ': at first');
	schedule($node);
}

foreach my $node (@nodes)
{
	my $name = $node->name;

	ok( $node->poll_query_until('postgres', <<'SQL', '3'), "$name: all jobs run");
SELECT count(*) FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')
SQL
	is($node->safe_psql('postgres', <<'SQL'),
SELECT string_agg(concat_ws(' ', jobname, r.username, status), ', ' ORDER BY jobname)
FROM cron.job_run_details AS r JOIN cron.job USING (jobid)
SQL
		'create app succeeded, draw app succeeded, drop app succeeded',
		"$name: they succeed, as the owner");
	is(days($node), '-5 -4 -3 -2 -1 0 1 2 3 4 5 6 7',
		"$name: partitions ahead are made, those behind are dropped");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM events'), 1,
		"$name: a job draws an ID");
}

#
# DETACH CONCURRENTLY is not for pg_cron: psql runs each command by itself
#
my $node = $nodes[0];

$node->safe_psql('postgres', <<'SQL');
SET ROLE app;
SELECT command FROM snowflake_drop_partitions('events', now() - interval '4 days',
	dry_run => true, concurrently => true) \gexec
SQL
is(days($node), '-4 -3 -2 -1 0 1 2 3 4 5 6 7',
	'psql detaches and drops the next one');

$_->stop foreach @nodes;
done_testing();
