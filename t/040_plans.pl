# What the planner makes of snowflake_in(): the plan of the condition on bigint
# that a person would write.  Both are explained and run, and their plans
# compared node by node.  A query with snowflake_in(id, tstzrange(a, b)) is
# compared once more with snowflake_in(id, a, b) in its place.

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $node = snowflake_node('plans', <<'CONF');
autovacuum = off
max_parallel_workers_per_gather = 0
timezone = 'UTC'
CONF

# 20 days up to now, one row a minute: in one table, and in a partition a day.
my $rows = 20 * 24 * 60;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE event (
    id bigint PRIMARY KEY,
    tenant int NOT NULL,
    note text);
CREATE TABLE part (LIKE event) PARTITION BY RANGE (id);
ALTER TABLE part ADD PRIMARY KEY (id);
SELECT format('CREATE TABLE part_%s PARTITION OF part FOR VALUES FROM (%s) TO (%s)',
              20 - n, snowflake_compose(now() - n * interval '1 day', 0, 0, 0),
              snowflake_compose(now() - (n - 1) * interval '1 day', 0, 0, 0))
FROM generate_series(0, 20) n \\gexec
INSERT INTO event
SELECT snowflake_compose(now() - n * interval '1 minute', 1, 0, 0), n % 50, 'note ' || n
FROM generate_series(0, $rows - 1) n;
INSERT INTO part SELECT * FROM event;
CREATE INDEX event_tenant ON event (tenant, id);
CREATE TABLE tag (event_id bigint NOT NULL, tag int);
INSERT INTO tag SELECT id, tenant % 7 FROM event;
CREATE INDEX tag_event ON tag (event_id);
CREATE TABLE shift (name text, period tstzrange);
INSERT INTO shift VALUES ('night', tstzrange(now() - interval '2 hours', now() - interval '1 hour')),
    ('none', 'empty'), ('null', NULL);
CREATE VIEW part_view AS SELECT id, tenant FROM part WHERE tenant < 25;
VACUUM ANALYZE;
SQL

# A fixed period of the data, and its bounds as IDs.
my ($from, $to, $lo, $hi) = split /\|/, $node->safe_psql('postgres', <<'SQL');
SELECT f, t, lower(id_range_for(f, t)), upper(id_range_for(f, t))
FROM (SELECT date_trunc('minute', now() - interval '5 days 3 hours') AS f,
             date_trunc('minute', now() - interval '5 days 1 hour') AS t) x
SQL
my ($two_days, $two_days_lo) = split /\|/, $node->safe_psql('postgres',
	"SELECT t, lower(id_range_for(t)) FROM (VALUES (timestamptz '$from' - interval '36 hours')) v(t)");

my $known = "tstzrange('$from', '$to')";
my $by_hand = "id >= $lo AND id < $hi";
my $last_hour = "tstzrange(now() - interval '1 hour', now())";
my $params = 'tstzrange($1, $2)';

# tstzrange(a, b), as two instants
my $arg = qr/(?:[^,()]|\([^()]*\))+/;
my $two_args = qr/\btstzrange\(($arg), ($arg)\)/;
sub instants
{
	my ($from, $to) = @_;

	return ($from =~ s/^NULL$/'-infinity'/r) . ', ' . ($to =~ s/^NULL$/'infinity'/r);
}

# the hand-written form where the bounds come from a period that is not known
# to the planner
sub bounds_of
{
	my ($period) = @_;

	return "id >= snowflake_first_id($period) AND id <= snowflake_last_id($period)" unless $period =~ /^$two_args$/;
	my $range = 'id_range_for(' . instants($1, $2) . ')';
	return "id >= lower($range) AND id < upper($range)";
}

# The plans of statements, for which now() is the same; with what came out when
# they were run.  In one session for all.
my $planner;
sub plans_of
{
	my ($statements, $options, %shape) = @_;
	my $sql = join ' ', 'BEGIN;', map { "SET LOCAL $_;" } @{ $shape{set} // [] };

	foreach my $statement (@{$statements})
	{
		my $explain = "EXPLAIN ($options, FORMAT JSON)";

		$sql .= 'SAVEPOINT before; ';
		$sql .= $shape{execute}
		  ? "PREPARE p$shape{types} AS $statement; $explain EXECUTE p$shape{execute}; DEALLOCATE p; "
		  : "$explain $statement; ";
		$sql .= 'ROLLBACK TO before; ';
	}
	$planner //= session($node);
	return map { JSON::PP->new->utf8->decode($_)->[0]{Plan} } $planner->query_safe("$sql ROLLBACK;") =~ /^\[\n.*?^\]$/msg;
}

# All nodes of a plan, from the top down, each a flat list of properties.
sub nodes
{
	my ($plan, %shape) = @_;
	my %node = %$plan;
	my $children = delete $node{Plans};

	delete @node{ grep { ref $node{$_} } keys %node };
	delete @node{ 'Peak Memory Usage', 'Heap Fetches', 'Index Searches' };
	for (values %node)
	{
		# the names of a bound that is not known when planned
		s/lower\(id_range_for\(/first((/g;
		s/< upper\(id_range_for\(/<= last((/g;
		s/snowflake_(first|last)_id\(/$1((/g;
		s/((?:first|last)\(\()tstzrange/$1/g;
		s/(?:NULL|'-?infinity')::timestamp/open::timestamp/g;
		tr/()//d unless $shape{known};
		s/ AND \S+ <= last.*// if $shape{open};
	}

	# Calls cost something, and there is one less.
	delete @node{ 'Startup Cost', 'Total Cost' } unless $shape{known};
	return ({%node}, map { nodes($_, %shape) } @{ $children // [] });
}

# Do both statements have the same plan, and does it have what it should?
# First planned only, since running a statement may change what the next one
# costs, then run.
sub same_plan
{
	my ($name, $ours, $hand, %shape) = @_;

	compare_plans($name, $ours, $hand, %shape);
	compare_plans("$name, two instants", $ours, $hand, %shape)
	  if $ours =~ s/\bsnowflake_in\(id, $two_args\)/'snowflake_in(id, ' . instants($1, $2) . ')'/ge;
	return;
}

sub compare_plans
{
	my ($name, $ours, $hand, %shape) = @_;
	my @same;
	my @has;

	for my $options ('COSTS ON', 'COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF')
	{
		my ($plan, $by_hand) = plans_of([ $ours, $hand ], $options, %shape);
		my @ours = nodes($plan, %shape);
		my @hand = nodes($by_hand, %shape);

		# "<= last" is taken for one row more than "< end"
		for my $n ($shape{known} ? () : 0 .. $#ours)
		{
			my ($o, $h) = ($ours[$n]{'Plan Rows'}, $hand[$n]{'Plan Rows'});
			$ours[$n]{'Plan Rows'} = $h
			  if defined $o && defined $h && abs($o - $h) <= 1;
		}
		is_deeply(\@ours, \@hand, "$name: same plan, $options")
		  or diag(JSON::PP->new->pretty->canonical->encode($plan));
		@has = sort map {
			my $node = $_;
			map { "$_=$node->{$_}" } keys %$node
		} @ours;
	}
	for my $wanted (@{ $shape{has} // [] })
	{
		ok((grep { /$wanted/ } @has) > 0, "$name: has $wanted")
		  or diag(join "\n", @has);
	}
	for my $unwanted (@{ $shape{lacks} // [] })
	{
		ok((grep { /$unwanted/ } @has) == 0, "$name: lacks $unwanted")
		  or diag(join "\n", @has);
	}
	return;
}

my $index_scan = 'Node Type=Index Scan';
my @generic = (set => ['plan_cache_mode = force_generic_plan']);
my @two_times = (types => '(timestamptz, timestamptz)', execute => "('$from', '$to')");

#
# A period that is known when planned: everything is the same, costs too.
#
same_plan('index scan',
	"SELECT * FROM event WHERE snowflake_in(id, $known)",
	"SELECT * FROM event WHERE $by_hand",
	known => 1, has => [$index_scan, 'Actual Rows=120', "Index Cond=.*id >= '$lo'.*id < '$hi'"]);
same_plan('index-only scan',
	"SELECT count(*) FROM event WHERE snowflake_in(id, $known)",
	"SELECT count(*) FROM event WHERE $by_hand",
	known => 1, has => ['Node Type=Index Only Scan']);
same_plan('most of the table',
	"SELECT * FROM event WHERE snowflake_in(id, tstzrange('2020-01-01', '$to'))",
	"SELECT * FROM event WHERE id >= 0::bigint AND id < $hi",
	known => 1, has => ['Node Type=Seq Scan', 'Filter=']);
same_plan('one partition',
	"SELECT * FROM part WHERE snowflake_in(id, $known)",
	"SELECT * FROM part WHERE $by_hand",
	known => 1, has => [$index_scan, 'Relation Name=part_1'], lacks => ['Append']);
same_plan('some partitions',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange('$two_days', '$to'))",
	"SELECT * FROM part WHERE id >= $two_days_lo AND id < $hi",
	known => 1, has => ['Node Type=Append', 'Actual Rows=2280']);
same_plan('inclusive and exclusive bounds',
	"SELECT * FROM event WHERE snowflake_in(id, tstzrange('$from', '$to', '(]'))",
	"SELECT * FROM event WHERE id >= $lo + (1::bigint << 22) AND id < $hi + (1::bigint << 22)",
	known => 1, has => [$index_scan, 'Actual Rows=12[01]']);
same_plan('no lower bound',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange(NULL, '$two_days'))",
	"SELECT * FROM part WHERE id >= 0::bigint AND id < $two_days_lo",
	known => 1);
same_plan('no upper bound',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange('$to', NULL))",
	"SELECT * FROM part WHERE id >= $hi",
	known => 1, lacks => ['id <']);
same_plan('infinity',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange('$to', 'infinity'))",
	"SELECT * FROM part WHERE id >= $hi",
	known => 1, lacks => ['id <']);
same_plan('no bound at all',
	'SELECT count(*) FROM event WHERE snowflake_in(id, tstzrange(NULL, NULL))',
	'SELECT count(*) FROM event WHERE id >= 0::bigint',
	known => 1);
same_plan('empty',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange 'empty')",
	"SELECT * FROM part WHERE id >= lower(int8range 'empty') AND id < upper(int8range 'empty')",
	known => 1, has => ['Node Type=Result', 'One-Time Filter=false']);
same_plan('no time unit in it',
	"SELECT * FROM event WHERE snowflake_in(id, tstzrange('2026-01-01 00:00:00.0001', '2026-01-01 00:00:00.0009'))",
	"SELECT * FROM event WHERE id >= lower(int8range 'empty') AND id < upper(int8range 'empty')",
	known => 1, has => ['Node Type=Result', 'One-Time Filter=false']);
same_plan('NULL',
	'SELECT * FROM part WHERE snowflake_in(id, NULL::tstzrange)',
	'SELECT * FROM part WHERE id >= NULL AND id < NULL',
	known => 1, has => ['Node Type=Result', 'One-Time Filter=false']);
same_plan('newest first',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange('$two_days', '$to')) ORDER BY id DESC LIMIT 10",
	"SELECT * FROM part WHERE id >= $two_days_lo AND id < $hi ORDER BY id DESC LIMIT 10",
	known => 1, has => ['Scan Direction=Backward'], lacks => ['Sort']);
same_plan('second column of an index',
	"SELECT id FROM event WHERE tenant = 7 AND snowflake_in(id, tstzrange('$two_days', '$to'))",
	"SELECT id FROM event WHERE tenant = 7 AND id >= $two_days_lo AND id < $hi",
	known => 1, has => ['Index Name=event_tenant', 'Index Cond=.*tenant = 7.*id >=.*id <']);
same_plan('one of two periods',
	"SELECT * FROM event WHERE snowflake_in(id, $known) OR snowflake_in(id, tstzrange('2021-01-01', '2021-01-02'))",
	"SELECT * FROM event WHERE ($by_hand) OR (id >= lower(id_range_for('2021-01-01', '2021-01-02')) AND id < upper(id_range_for('2021-01-01', '2021-01-02')))",
	known => 1, has => ['Node Type=BitmapOr']);
same_plan('not in a period',
	"SELECT * FROM part WHERE NOT snowflake_in(id, tstzrange('2020-01-01', '$to'))",
	"SELECT * FROM part WHERE NOT (id >= 0::bigint AND id < $hi)",
	known => 1, has => ['Node Type=Append']);
same_plan('a view',
	"SELECT tenant, count(*) FROM part_view WHERE snowflake_in(id, $known) GROUP BY tenant",
	"SELECT tenant, count(*) FROM part_view WHERE $by_hand GROUP BY tenant",
	known => 1, has => ['Relation Name=part_1'], lacks => ['Append']);
same_plan('a subquery',
	"SELECT * FROM tag WHERE tag = 1 AND event_id IN (SELECT id FROM part WHERE snowflake_in(id, $known))",
	"SELECT * FROM tag WHERE tag = 1 AND event_id IN (SELECT id FROM part WHERE $by_hand)",
	known => 1, has => ['Relation Name=part_1']);
same_plan('join',
	"SELECT * FROM event JOIN tag ON event_id = id WHERE snowflake_in(id, $known)",
	"SELECT * FROM event JOIN tag ON event_id = id WHERE $by_hand",
	known => 1, has => ['Index Name=event_pkey']);
same_plan('outer join',
	"SELECT * FROM tag LEFT JOIN event ON event_id = id AND snowflake_in(id, $known)",
	"SELECT * FROM tag LEFT JOIN event ON event_id = id AND $by_hand",
	known => 1, has => ['Join Type=(Left|Right)', 'Index Name=event_pkey']);
same_plan('UNION ALL',
	"SELECT * FROM (SELECT id FROM event UNION ALL SELECT event_id FROM tag) u WHERE snowflake_in(id, $known)",
	"SELECT * FROM (SELECT id FROM event UNION ALL SELECT event_id FROM tag) u WHERE $by_hand",
	known => 1, has => ['Index Name=tag_event']);
same_plan('DELETE',
	"DELETE FROM part WHERE snowflake_in(id, $known)",
	"DELETE FROM part WHERE $by_hand",
	known => 1, has => ['Operation=Delete', $index_scan], lacks => ['Append']);
same_plan('UPDATE',
	"UPDATE part SET note = 'x' WHERE snowflake_in(id, $known) RETURNING id",
	"UPDATE part SET note = 'x' WHERE $by_hand RETURNING id",
	known => 1, has => ['Operation=Update', $index_scan], lacks => ['Append']);
same_plan('MERGE',
	"MERGE INTO event USING (SELECT * FROM part WHERE snowflake_in(id, $known)) p ON p.id = event.id WHEN MATCHED THEN UPDATE SET note = p.note",
	"MERGE INTO event USING (SELECT * FROM part WHERE $by_hand) p ON p.id = event.id WHEN MATCHED THEN UPDATE SET note = p.note",
	known => 1, lacks => ['Append']);
same_plan('parallel workers',
	"SELECT count(note) FROM event WHERE snowflake_in(id, tstzrange('2020-01-01', '$to'))",
	"SELECT count(note) FROM event WHERE id >= 0::bigint AND id < $hi",
	set => [
		'max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0',
		'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0',
		'parallel_leader_participation = off'],
	has => ['Node Type=Gather']);
same_plan('parameters, planned for their values',
	"SELECT * FROM part WHERE snowflake_in(id, $params)",
	"SELECT * FROM part WHERE $by_hand AND \$1 < \$2",
	@two_times, set => ['plan_cache_mode = force_custom_plan'],
	known => 1, has => [$index_scan], lacks => ['Append']);

#
# Proofs: a partial index, a constraint
#
$node->safe_psql('postgres', <<SQL);
CREATE TABLE proof (id bigint CHECK (id >= $two_days_lo), n int);
INSERT INTO proof SELECT id, 1 FROM event WHERE id >= $two_days_lo;
CREATE INDEX proof_part ON proof (n) WHERE id >= $two_days_lo AND id < $hi;
CREATE TABLE check_of_ours (id bigint CHECK (snowflake_in(id, tstzrange('$two_days', NULL))));
ANALYZE proof;
SQL
same_plan('partial index',
	"SELECT n FROM proof WHERE n = 2 AND snowflake_in(id, $known)",
	"SELECT n FROM proof WHERE n = 2 AND $by_hand",
	known => 1, has => ['Index Name=proof_part']);
same_plan('constraint',
	"SELECT * FROM proof WHERE snowflake_in(id, tstzrange('2021-01-01', '2022-01-01'))",
	"SELECT * FROM proof WHERE id >= lower(id_range_for('2021-01-01', '2022-01-01')) AND id < upper(id_range_for('2021-01-01', '2022-01-01'))",
	known => 1, set => ['constraint_exclusion = on'], has => ['One-Time Filter=false']);
same_plan('constraint that is a period itself',
	"SELECT * FROM check_of_ours WHERE snowflake_in(id, tstzrange('2021-01-01', '2022-01-01'))",
	"SELECT * FROM check_of_ours WHERE id >= lower(id_range_for('2021-01-01', '2022-01-01')) AND id < upper(id_range_for('2021-01-01', '2022-01-01'))",
	known => 1, set => ['constraint_exclusion = on'], has => ['One-Time Filter=false']);

#
# A period that is known when the query starts: nodes and estimates are the
# same.
#
same_plan('the last hour',
	"SELECT * FROM event WHERE snowflake_in(id, $last_hour)",
	'SELECT * FROM event WHERE ' . bounds_of($last_hour),
	has => [$index_scan, 'Index Cond=.*id >= first.*id <= last', 'Actual Rows=[56]']);
same_plan('the last hour of a partitioned table',
	"SELECT * FROM part WHERE snowflake_in(id, $last_hour)",
	'SELECT * FROM part WHERE ' . bounds_of($last_hour),
	has => ['Subplans Removed=(19|20)']);
same_plan('from an hour ago',
	"SELECT * FROM part WHERE snowflake_in(id, tstzrange(now() - interval '1 hour', NULL))",
	"SELECT * FROM part WHERE id >= lower(id_range_for(now() - interval '1 hour', 'infinity'))",
	open => 1, has => ['Subplans Removed=(19|20)']);
same_plan('DELETE before a time',
	"DELETE FROM part WHERE snowflake_in(id, tstzrange(NULL, now() - interval '19 days 20 hours'))",
	'DELETE FROM part WHERE ' . bounds_of("tstzrange(NULL, now() - interval '19 days 20 hours')"),
	has => ['Operation=Delete', 'Subplans Removed=']);
same_plan('parameters, generic plan',
	"SELECT * FROM part WHERE snowflake_in(id, $params)",
	'SELECT * FROM part WHERE ' . bounds_of($params),
	@generic, @two_times, has => ['Subplans Removed=20', 'Actual Rows=120']);
same_plan('a period as parameter, generic plan',
	'SELECT * FROM part WHERE snowflake_in(id, $1)',
	'SELECT * FROM part WHERE ' . bounds_of('$1'),
	@generic, types => '(tstzrange)', execute => "($known)",
	has => ['Subplans Removed=20', 'Actual Rows=120']);
foreach my $nothing (q('empty'), 'NULL')
{
	same_plan("$nothing as parameter, generic plan",
		'SELECT * FROM part WHERE snowflake_in(id, $1)',
		'SELECT * FROM part WHERE ' . bounds_of('$1'),
		@generic, types => '(tstzrange)', execute => "($nothing)",
		has => ['Subplans Removed=21', 'Actual Rows=0']);
}
same_plan('UPDATE, generic plan',
	"UPDATE part SET note = 'x' WHERE snowflake_in(id, $params)",
	"UPDATE part SET note = 'x' WHERE " . bounds_of($params),
	@generic, @two_times, has => ['Operation=Update', 'Subplans Removed=20']);
same_plan('index-only scan, generic plan',
	"SELECT count(*) FROM event WHERE snowflake_in(id, $params)",
	'SELECT count(*) FROM event WHERE ' . bounds_of($params),
	@generic, @two_times, has => ['Node Type=Index Only Scan']);
same_plan('join with periods',
	'SELECT * FROM shift JOIN event ON snowflake_in(id, period)',
	'SELECT * FROM shift JOIN event ON ' . bounds_of('period'),
	set => ['enable_memoize = off'],
	has => ['Node Type=Nested Loop', 'Index Cond=.*id >= first.*id <= last', 'Actual Loops=3']);
same_plan('join of a partitioned table with periods',
	"SELECT * FROM shift JOIN part ON snowflake_in(id, period) WHERE name = 'night'",
	'SELECT * FROM shift JOIN part ON ' . bounds_of('period') . " WHERE name = 'night'",
	has => ['Node Type=Nested Loop', 'Actual Loops=0']);
same_plan('LATERAL',
	'SELECT name, n FROM shift, LATERAL (SELECT count(*) AS n FROM event WHERE snowflake_in(id, period)) c',
	'SELECT name, n FROM shift, LATERAL (SELECT count(*) AS n FROM event WHERE '
	  . bounds_of('period') . ') c',
	set => ['enable_memoize = off'],
	has => ['Index Cond=.*id >= first.*id <= last']);
same_plan('a period from a subquery',
	"SELECT * FROM part WHERE snowflake_in(id, (SELECT period FROM shift WHERE name = 'night'))",
	'SELECT * FROM part WHERE ' . bounds_of("(SELECT period FROM shift WHERE name = 'night')"),
	has => ['Subplan Name=InitPlan', 'Actual Loops=0', 'Actual Rows=[56][0-9]']);

#
# Where the condition must stay as it is written
#
sub error_of
{
	my ($sql) = @_;
	my $stderr = '';

	$node->psql('postgres', $sql, stderr => \$stderr,
		on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return psql_error($stderr);
}

sub conditions
{
	return join ' ', map {
		my $n = $_;
		map { $n->{$_} // '' } grep { /Cond|Filter/ } keys %$n
	} nodes(plans_of([ $_[0] ], 'COSTS OFF'));
}

like(conditions("SELECT FROM shift WHERE snowflake_in(snowflake_nextval(), period)"),
	qr/snowflake_in/, 'a volatile ID is not evaluated twice');
like(conditions("SELECT FROM event WHERE snowflake_in(id, tstzrange(clock_timestamp() - interval '1 hour', NULL))"),
	qr/snowflake_in/, 'nor a volatile period');
like(conditions("SELECT FROM event WHERE snowflake_in(id, now() - interval '1 hour', clock_timestamp())"),
	qr/snowflake_in/, 'nor a volatile bound');
like(conditions("SELECT FROM shift s WHERE snowflake_in(911580412239806465, (SELECT t.period FROM shift t WHERE t.name = s.name))"),
	qr/snowflake_in/, 'nor a correlated subquery');
foreach my $query (
	(map { "period FROM shift $_" } 'TABLESAMPLE BERNOULLI (50)', 'LIMIT 1', 'OFFSET 1', 'ORDER BY period LIMIT 1 FOR UPDATE SKIP LOCKED', 'ORDER BY name LIMIT 1'),
	'(array_agg(period))[1] FROM shift',
	'(array_agg(period ORDER BY name))[1] FROM shift',
	'DISTINCT ON (name > $$$$) period FROM shift',
	'period FROM (SELECT period, row_number() OVER () AS n FROM shift) AS s WHERE n = 1')
{
	like(conditions("SELECT FROM event WHERE snowflake_in(id, (SELECT $query))"),
		qr/snowflake_in/, "nor one that may give another period: $query");
}
unlike(conditions("SELECT FROM event WHERE snowflake_in(id, (SELECT $_ FROM shift), now())"), qr/snowflake_in/, "but $_")
  foreach 'max(lower(period))', 'now() - count(*) * interval $$1 h$$', '(array_agg(lower(period) ORDER BY lower(period)))[1]';
unlike(conditions("SELECT FROM event WHERE snowflake_in(id, (SELECT period FROM shift ORDER BY name, period LIMIT 1))"),
	qr/snowflake_in/, 'but the first one');

# A function that costs more than the rest of the condition, in its default of 100
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION period_of(shift text) RETURNS tstzrange STABLE LANGUAGE plpgsql
AS 'BEGIN RETURN (SELECT period FROM shift WHERE name = $1); END';
SQL
like(conditions("SELECT FROM event WHERE snowflake_in(id, period_of('night'))"),
	qr/^id >= first.* AND id <= last/, 'a costly period is evaluated once for an index scan');
like(conditions('SELECT FROM shift JOIN event ON snowflake_in(id, period_of(name))'),
	qr/snowflake_in/, 'but not twice for each row');

# A day, by two dates or by a text, begins where the session has its midnight:
# that is known when the query starts.
foreach my $condition (
	"snowflake_in(id, '$from'::timestamptz::date, '$from'::timestamptz::date + 1)",
	"snowflake_in(id, date '2026-01-01', date '2026-01-02')",
	"snowflake_in(id, '[2026-01-01,2026-01-02)'::daterange::text::tstzrange)",
	"id >= lower(id_range_for('2026-01-01')) AND id < upper(id_range_for('2026-01-01'))",
	"id >= lower(id_range_for(date '2026-01-01')) AND id < upper(id_range_for(date '2026-01-01'))")
{
	my ($plan) = nodes(plans_of([ "SELECT * FROM event WHERE $condition" ], 'COSTS OFF'));

	like($plan->{'Index Cond'}, qr/^id >= first'\[?20.* AND id <= last'\[?20.*/, "by index when the query starts: $condition");
}
like(conditions("SELECT * FROM event WHERE snowflake_in(id, '$from', '$to')"),
	qr/id >= '$lo'::bigint AND .*id < '$hi'::bigint/, 'texts without a type are instants');

# The other forms that docs/time-ranges.md shows.
like(conditions("SELECT * FROM event WHERE id <@ id_range_for('$from', '$to')"),
	$node->pg_version >= 17 ? qr/id >= '$lo'::bigint AND .*id < '$hi'::bigint/ : qr/id <@ '\[$lo,$hi'::int8range/,
	'the range of constants is a constant');
like(conditions("SELECT * FROM event WHERE id <@ id_range_for(now(), now())"),
	qr/id <@ id_range_for/, 'the range of others is not');
like(conditions("SELECT * FROM event WHERE id BETWEEN lower(id_range_for('$from', '$to')) AND upper(id_range_for('$from', '$to')) - 1"),
	qr/id >= '$lo'::bigint AND .*id <= '@{[$hi - 1]}'::bigint/, 'BETWEEN');
# The server does not look into IS TRUE for a condition of an index; from 19 on it may leave it out.
like(conditions("SELECT * FROM event WHERE snowflake_in(id, '$from', '$to') IS TRUE"),
	$node->pg_version >= 19 ? qr/id >= '$lo'::bigint AND id < '$hi'::bigint/ : qr/id >= '$lo'::bigint AND id < '$hi'::bigint IS TRUE/,
	'IS TRUE');
like(conditions("SELECT * FROM event WHERE snowflake_in(id, tstzrange(snowflake_timestamp($lo), NULL))"),
	qr/id >= '$lo'::bigint/, 'the time of a known ID is known');
like(conditions("SELECT * FROM event WHERE id >= snowflake_compose('$from', 0, 0, 0)"),
	qr/id >= '$lo'::bigint/, 'so is an ID that is put together');

# A view with the time, as docs/beside.md has it, with an index on it and without
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION time_of(id bigint) RETURNS timestamptz IMMUTABLE PARALLEL SAFE
RETURN snowflake_timestamp(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00');
CREATE VIEW timed AS SELECT *, time_of(id) AS created_at FROM event;
SQL
foreach my $indexed (0, 1)
{
	$node->safe_psql('postgres', 'CREATE INDEX event_time ON event (time_of(id)); ANALYZE event') if $indexed;
	foreach my $query (
		[ "WHERE created_at BETWEEN '$from' AND '$to'", 'event_time' ],
		[ "WHERE created_at >= now() - interval '1 hour'", 'event_time' ],
		[ 'ORDER BY created_at DESC LIMIT 10', 'event_time' ],
		[ "WHERE snowflake_in(id, '$from', '$to')", 'event_pkey', 'event_pkey' ],
		[ 'ORDER BY id DESC LIMIT 10', 'event_pkey', 'event_pkey' ],
		[ "WHERE created_at::date = '$from'" ])
	{
		my ($condition, $with, $without) = @$query;
		my @index = map { $_->{'Index Name'} // () } nodes(plans_of([ "SELECT * FROM timed $condition" ], 'COSTS OFF'));

		is("@index", ($indexed ? $with : $without) // '', "of a view, $indexed indexes on the time: $condition");
	}
}
$node->safe_psql('postgres', 'DROP INDEX event_time');

# What would outlive the settings may not depend on them.
like(error_of("CREATE INDEX ON event (tenant) WHERE snowflake_in(id, $known)")->{message},
	qr/functions in index predicate must be marked IMMUTABLE/, 'no index predicate');
like(error_of("CREATE INDEX ON event ((id_range_for('2026-01-01', '2026-01-02') @> id))")->{message},
	qr/functions in index expression must be marked IMMUTABLE/, 'no index expression');
like(error_of("CREATE TABLE g (id bigint, t timestamptz GENERATED ALWAYS AS (snowflake_timestamp(911580412239806465)) STORED)")->{message},
	qr/generation expression is not immutable/, 'no generated column');

# In another schema too, and where someone made functions of the same names.
$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
$node->safe_psql('elsewhere', <<'SQL');
CREATE SCHEMA elsewhere;
CREATE EXTENSION snowflake SCHEMA elsewhere;
CREATE TABLE part (id bigint PRIMARY KEY);
INSERT INTO part SELECT elsewhere.snowflake_nextval() FROM generate_series(1, 100);
CREATE FUNCTION public.snowflake_first_id(tstzrange) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0::bigint';
CREATE FUNCTION public.snowflake_first_id(timestamptz, timestamptz) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0::bigint';
SQL
foreach my $period ($last_hour, $last_hour =~ s/$two_args/instants($1, $2)/er)
{
	is($node->safe_psql('elsewhere', <<SQL), 't|t', "the extension in another schema: $period");
SELECT found > 0, found = (SELECT count(*) FROM part, elsewhere.id_range_for(now() - interval '1 hour', now()) r
                           WHERE id >= lower(r) AND id < upper(r))
FROM (SELECT count(*) FROM part WHERE elsewhere.snowflake_in(id, $period)) AS s (found)
SQL
}

# A policy is no reason to call a function for each row: the condition is of
# operators that leak nothing.
$node->safe_psql('postgres', <<SQL);
CREATE ROLE reader;
GRANT SELECT ON part TO reader;
ALTER TABLE part ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON part USING (note LIKE 'note%');
SQL
same_plan('row level security',
	"SELECT * FROM part WHERE snowflake_in(id, $known)",
	"SELECT * FROM part WHERE $by_hand",
	known => 1, set => ['ROLE reader'], has => [$index_scan, 'Index Cond'], lacks => ['Append']);

$planner->quit;
$node->stop;

#
# IDs that do not sort by time, and an ID of fewer bits
#
$node->start;
forget_mark($node);
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'node:10 time:41 sequence:12'");
$node->start;
for my $period ($known, $last_hour, "'$from', '$to'", "now() - interval '1 hour', now()")
{
	my $error = error_of("SELECT * FROM event WHERE snowflake_in(id, $period)");

	is($error->{sqlstate}, '55000', "refused: $period");
	is($error->{message}, 'snowflake IDs of this server do not sort by time', "says why: $period");
	is($error->{hint}, 'Compare snowflake_timestamp(id) instead.', "with a hint: $period");
}
like(error_of("SELECT snowflake_in(1::bigint, period) FROM shift")->{message},
	qr/do not sort by time/, 'refused for periods of a table');

$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'time:31\@1s node:5 sequence:7'");
$node->start;
is($node->safe_psql('postgres', <<'SQL'), "0|8796093022208\n0|8796093022207", 'the end of the ID space of a shorter layout');
SELECT lower(r), upper(r) FROM id_range_for('-infinity', 'infinity') r;
SELECT snowflake_first_id(p), snowflake_last_id(p) FROM (SELECT tstzrange(NULL, NULL) AS p) x;
SQL
$node->stop;

done_testing();
