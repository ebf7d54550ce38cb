# What is in monitoring/: the queries for postgres_exporter, Prometheus' alerts
# and Grafana's dashboard fit together and fit the views; and the real programs
# take them.  (There is no Debian package of Grafana.)

use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use Cwd qw(abs_path);
use HTTP::Tiny;
use JSON::PP;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $exporter = find_program('prometheus-postgres-exporter');
my $prometheus = find_program('prometheus');
my $promtool = find_program('promtool');

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my %queries = map { $_ => yaml("monitoring/${_}_exporter.yml") } qw(postgres registry);
my $queries = { map { %$_ } values %queries };
my $alerts = yaml('monitoring/alerts.yml');
my $dashboard = decode_json(slurp_file('monitoring/grafana.json'));
my $http = HTTP::Tiny->new(timeout => 30, no_proxy => '127.0.0.1');

# scripts/test.sh says where they are.
sub find_program
{
	my ($name) = @_;
	my ($found) = grep { -x } map { "$_/$name" } $ENV{SNOWFLAKE_MONITORING} // '',
	  split(/:/, $ENV{PATH});

	die "$name is missing: set SNOWFLAKE_MONITORING to the folder that has it, "
	  . "or install the package of that name\n"
	  unless defined $found;
	return $found;
}

sub yaml { return CPAN::Meta::YAML->read_string(slurp_file($_[0]))->[0]; }

# A server with something to show: IDs from several slots, backfilled ones, and
# IDs that could not be drawn, since the worker failed, and since the clock was
# set back.
my $node = snowflake_node(
	'monitored', <<'CONF',
snowflake.max_wait = 100ms
log_statement = none
CONF
	clock => 0,
	allows_streaming => 1);
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE monitor LOGIN;
GRANT pg_monitor TO monitor;
CREATE ROLE plain LOGIN;
SET snowflake.max_wait = '1min';
SELECT count(*) FROM snowflake_nextval(100000);
SELECT snowflake_backfill('2021-02-23') FROM generate_series(1, 5);
SQL
my @stay = map { session($node) } 1 .. 3;
$_->query_safe("SET snowflake.max_wait = '1min'; SELECT snowflake_nextval(); RESET snowflake.max_wait")
  foreach @stay;
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.mark RENAME TO other');
ok(wait_for(sub { session_error($stay[0], 'SELECT snowflake_nextval()')->{detail} =~ /does not exist/ }),
	'the worker fails');
$node->safe_psql('postgres', 'ALTER SEQUENCE snowflake_home.other RENAME TO mark');
ok(wait_for(sub { session_error($stay[0], 'SELECT snowflake_nextval()')->{sqlstate} eq '' }),
	'and no longer');
set_clock($node, -3600);
isnt(session_error($stay[0], 'SELECT snowflake_nextval()')->{sqlstate}, '', 'the clock is set back');
is($node->safe_psql('postgres', 'SELECT mark_waits > 0, clock_waits > 0, timeouts > 1, clock_regressions, last_error IS NOT NULL FROM pg_stat_snowflake'),
	't|t|t|1|t', 'all that is in the statistics');

# A registry, of which a server has a number.
my $registry = new_registry('registry');
$registry->safe_psql('postgres', 'CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
my $leasing = leasing_node('leasing', registry_conninfo($registry), "snowflake.lease_ttl = '10min'\n");
wait_number($leasing);

# Whom to ask, by the file with the queries: name, server, role.
my %asked = (
	postgres => [ map { my $role = $_; [ primary => $node, $role ], [ standby => $standby, $role ] } qw(monitor plain) ],
	registry => [ [ registry => $registry, 'monitor' ] ]);

sub query
{
	my ($server, $role, $sql) = @_;
	my ($ret, $stdout, $stderr) = $server->psql('postgres', $sql,
		connstr => $server->connstr('postgres') . " user=$role");

	return ($stdout, $stderr);
}

#
# The queries
#
my %usage;      # of each metric
my %labels;     # of each query
foreach my $name (sort keys %$queries)
{
	my $query = $queries->{$name};
	my %columns;

	like($name, qr/^pg_snowflake(_[a-z]+)*$/, "$name: the name");
	is($query->{master}, 'true', "$name: not in each database of the server");
	foreach my $metric (@{ $query->{metrics} })
	{
		my ($column) = keys %$metric;
		my $usage = $metric->{$column}{usage};

		ok(!exists $columns{$column}, "$name: $column is there once");
		like($usage, qr/^(LABEL|COUNTER|GAUGE)$/, "$name: usage of $column");
		like($metric->{$column}{description}, qr/^[A-Z0-9].*[^.]$/, "$name: $column is described");
		$columns{$column} = $usage;
		$usage{"${name}_$column"} = $usage if $usage ne 'LABEL';
		push @{ $labels{$name} }, $column if $usage eq 'LABEL';
	}

	my ($file) = grep { exists $queries{$_}{$name} } keys %queries;
	foreach my $where (@{ $asked{$file} })
	{
		my (undef, $server, $role) = @$where;
		my $as = "$name: as $role on the $where->[0]";
		my ($rows, $error) = query($server, $role, "$query->{query} \\gdesc");
		my %types = map { split /\|/ } split(/\n/, $rows);

		is($error, '', "$as: a query");
		is_deeply(
			[ sort keys %types ], [ sort keys %columns ],
			"$as: has the columns");
		foreach my $column (sort keys %types)
		{
			my $type = $columns{$column} eq 'LABEL'
			  ? qr/^(text|integer)$/
			  : qr/^(bigint|integer|double precision)$/;

			like($types{$column}, $type, "$as: type of $column");
		}
		($rows, $error) = query($server, $role, $query->{query});
		is($error, '', "$as: it runs");

		# One with the labels of another ends the whole scrape.
		my $by = join(', ', map { qq("$_") } @{ $labels{$name} // [] });
		is( (query($server, $role, "SELECT count(*) FROM (SELECT FROM ($query->{query}) AS q GROUP BY ($by) HAVING count(*) > 1) AS twice"))[0],
			'0', "$as: no labels twice");
	}
}

#
# The dashboard
#
my %named;      # metrics in expressions
my %exprs;      # of all panels, by panel and target

# The metrics of an expression: they are there, and rates are of counters.
sub look_at
{
	my ($what, $expr) = @_;
	my @names = $expr =~ /\b(pg_\w+)/g;

	cmp_ok(scalar(@names), '>', 0, "$what: names a metric");
	foreach my $name (@names)
	{
		my $usage = $usage{$name} // 'missing';
		my $is_rate = $expr =~ /\b(rate|increase|last_over_time)\($name[{[]/ ? 1 : 0;

		$named{$name} = 1;
		isnt($usage, 'missing', "$what: $name is in the queries");
		is($is_rate, $usage eq 'COUNTER' ? 1 : 0, "$what: $name is used as a $usage");
	}
	return;
}

cmp_ok($dashboard->{schemaVersion}, '>=', 36, 'dashboard: schemaVersion');
like($dashboard->{uid}, qr/^[a-zA-Z0-9_-]{1,40}$/, 'dashboard: uid');
is($dashboard->{title}, 'snowflake', 'dashboard: title');
ok(!exists $dashboard->{id}, 'dashboard: has no id, which is of one Grafana');
my %variables = map { $_->{name} => $_ } @{ $dashboard->{templating}{list} };
is_deeply([ sort keys %variables ], [qw(datasource instance)], 'dashboard: variables');
is($variables{datasource}{type}, 'datasource', 'dashboard: the first is a data source');
my ($of) = $variables{instance}{query}{query} =~ /^label_values\((\{__name__=~"[\w|]+"\}), instance\)$/;
is(join(' ', map { s/_[a-z]+$//r } grep { exists $usage{$_} } ($of // '') =~ /pg_\w+/g),
	'pg_snowflake_issued pg_snowflake_registry', 'dashboard: the other has the instances of metrics');

my (%ids, %titles, @cells);
foreach my $panel (@{ $dashboard->{panels} })
{
	my $what = "panel \"$panel->{title}\"";
	my $pos = $panel->{gridPos};

	ok(!$ids{ $panel->{id} }++, "$what: id");
	ok($panel->{title} ne '' && !$titles{ $panel->{title} }++, "$what: title");
	like($panel->{description}, qr/^[A-Z].*\.$/, "$what: description");
	like($panel->{fieldConfig}{defaults}{unit}, qr/^(short|s|d|dateTimeAsIso)$/, "$what: unit");
	cmp_ok($pos->{x} + $pos->{w}, '<=', 24, "$what: within the width");
	foreach my $x ($pos->{x} .. $pos->{x} + $pos->{w} - 1)
	{
		$cells[$_][$x]++ foreach $pos->{y} .. $pos->{y} + $pos->{h} - 1;
	}
	my %refs;
	foreach my $part ($panel, @{ $panel->{targets} }, $variables{instance})
	{
		is_deeply(
			$part->{datasource},
			{ type => 'prometheus', uid => '${datasource}' },
			"$what: data source");
	}
	foreach my $target (@{ $panel->{targets} })
	{
		ok(!$refs{ $target->{refId} }++, "$what: refId");
		is( scalar(() = $target->{expr} =~ /pg_\w+/g),
			scalar(() = $target->{expr} =~ /pg_\w+\{instance=~"\$instance"/g),
			"$what: all metrics are of the chosen instances");
		look_at($what, $target->{expr});
		$exprs{"$panel->{title} $target->{refId}"} = $target->{expr};
	}
}
is(max(map { map { $_ // 0 } @$_ } @cells), 1, 'dashboard: no panel is above another');
is(min(map { sum0(map { $_ // 0 } @$_) } @cells), 24, 'dashboard: and there are no holes');

#
# The alerts
#
my @rules = map { @{ $_->{rules} } } @{ $alerts->{groups} };
my %severity = map { $_->{alert} => $_->{labels}{severity} } @rules;
is(scalar(keys %severity), scalar(@rules), 'alerts: each has a name of its own');
foreach my $rule (@rules)
{
	look_at("alert $rule->{alert}", $rule->{expr});
	like($rule->{labels}{severity}, qr/^(critical|warning|info)$/, "alert $rule->{alert}: severity");
}
is(join(' ', grep { !$named{$_} } sort keys %usage), '', 'no metric is there for nothing');

# Prometheus' own opinion; the dashboard's expressions as rules, for that
sub grafana { return $_[0] =~ s/\$instance/.*/gr =~ s/\$__(rate_interval|range)/1m/gr; }

my $n = 0;
append_to_file("$dir/dashboard.yml", encode_json({ groups => [ {
	name => 'dashboard',
	rules => [ map { { record => 'e' . ++$n, expr => grafana($exprs{$_}) } } sort keys %exprs ] } ] }));
command_ok([ $promtool, 'check', 'rules', 'monitoring/alerts.yml', "$dir/dashboard.yml" ],
	'promtool: the rules are good');

# Each alert on its own signs, and none on a good server, on a standby, or when
# something was before the time that it looks at.
my %good = (
	issued_total => '0+1000x120',
	timeouts_total => '3x120',
	worker_running => '1x120',
	in_recovery => '0x120',
	drift_seconds => '0.5x120',
	max_drift_seconds => '1x120',
	clock_regressions_total => '1x120',
	lifetime_end_seconds => '40000000x120',
	stats_reset_seconds => '100x120',
	'waits_seconds_total{cause="mark"}' => '0+20x120',
	'waits_seconds_total{cause="clock"}' => '0+30x120',
	registry_numbers => '32x120',
	registry_free => '4x120',
	registry_closed_seconds => '0x62 30 0x56',
	'check_findings{check="mark", status="ok"}' => '1x120',
	'check_findings{check="lifetime", status="warning"}' => '1x120');
my %bad = (
	SnowflakeIDsRefused => [ timeouts_total => '3x60 4x60' ],
	SnowflakeWorkerNotRunning => [ worker_running => '0x120' ],
	SnowflakeCheckError => [ 'check_findings{check="node_id", status="error"}' => '1x120' ],
	SnowflakeWaiting => [ 'waits_seconds_total{cause="time unit"}' => '0+20x120' ],
	SnowflakeDrift => [ drift_seconds => '0.51x120' ],
	SnowflakeClockSetBack => [ clock_regressions_total => '1x60 2x60' ],
	SnowflakeLifetime => [ lifetime_end_seconds => '31536000x120' ],
	SnowflakePartitionsEnd => [ 'check_findings{check="partitions", status="warning"}' => '1x120' ],
	SnowflakeNodeNumbers => [ registry_free => '3x120' ],
	SnowflakeRegistryClosed => [ registry_closed_seconds => '600-5x120' ],
	SnowflakeRestarted => [ stats_reset_seconds => '100x60 4000x60' ],
	SnowflakeMetricsGone => [ issued_total => '0+1000x50' ]);
is_deeply([ sort keys %bad ], [ sort keys %severity ], 'each alert is tested');

sub series
{
	my ($instance, %values) = @_;

	return map {
		my ($name, $other) = /^(\w+)(?:\{(.*)\})?$/;
		{
			series => "pg_snowflake_$name\{instance=\"$instance\""
			  . ($other ? ", $other" : '') . '}',
			values => $values{$_}
		}
	} sort keys %values;
}

# What fires, in the order of alerts: of the last number of a small layout, too
sub firing
{
	return [
		{
			labels => 'ALERTS{alertname="SnowflakeNodeNumbers", alertstate="firing", instance="last", severity="warning"}',
			value => 1
		},
		map { {
			labels => "ALERTS{alertname=\"$_\", alertstate=\"firing\", instance=\"$_\", severity=\"$severity{$_}\""
			  . ($_ eq 'SnowflakeCheckError' ? ', check="node_id", status="error"}' : '}'),
			value => 1 } } @_ ];
}

append_to_file("$dir/test.yml", encode_json({
	rule_files => [ abs_path('monitoring/alerts.yml') ],
	tests => [ {
		interval => '1m',
		input_series => [
			series('good', %good),
			series('standby', %good, issued_total => '0x120', worker_running => '0x120', in_recovery => '1x120'),
			series('few', registry_numbers => '4x120', registry_free => '2x120'),
			series('last', registry_numbers => '4x120', registry_free => '1x120'),
			map { series($_, %good, @{ $bad{$_} }) } sort keys %bad ],
		promql_expr_test => [
			{
				expr => 'ALERTS{alertstate="firing"}',
				eval_time => '63m',
				exp_samples => firing(sort keys %bad)
			},
			{
				expr => 'ALERTS{alertstate="firing"}',
				eval_time => '100m',
				exp_samples => firing(grep { !/Refused|SetBack|Restarted/ } sort keys %bad)
			} ] } ] }));
command_ok([ $promtool, 'test', 'rules', "$dir/test.yml" ], 'promtool: the alerts fire when they should');

#
# The exporter
#
# It takes a port that was free a moment ago, and another one where that no
# longer is.
sub start_exporter
{
	my ($server, $role, $file) = @_;

	local $ENV{DATA_SOURCE_NAME} = $server->connstr('postgres') . " user=$role";
	foreach (1 .. 3)
	{
		my $scraped = '127.0.0.1:' . PostgreSQL::Test::Cluster::get_free_port();
		my $process = start_process("$dir/exporter_$file", $exporter,
			"--web.listen-address=$scraped",
			"--extend.query-path=monitoring/${file}_exporter.yml");
		my $taken = 0;
		my $answers = wait_for(sub {
			$taken = slurp_file("$dir/exporter_$file.err") =~ /address already in use/;
			return $taken || $http->get("http://$scraped/")->{success};
		});

		$process->{scraped} = $scraped;
		return $process if $answers && !$taken;
		stop_process($process);
		last unless $taken;
	}
	die 'the exporter does not start: ' . slurp_file("$dir/exporter_$file.err");
}

# Metrics as the exporter shows them: name and labels, but for that which it
# adds, with the value.
sub scrape
{
	my ($process) = @_;
	my $answer = $http->get("http://$process->{scraped}/metrics");
	my %values;

	die "$answer->{status}: $answer->{content}" unless $answer->{success};
	foreach (split /\n/, $answer->{content})
	{
		my ($name, $list, $value) = /^(pg_snowflake\w*)\{(.*)\} (\S+)$/ or next;
		my %label = $list =~ /(\w+)="((?:[^"\\]|\\.)*)"/g;

		delete $label{server};
		$values{ join(' ', $name, map { "$_=$label{$_}" } sort keys %label) } = $value;
	}
	return \%values;
}

# The same from the queries.
sub expected
{
	my ($server, $role, $file) = @_;
	my %values;

	foreach my $name (keys %{ $queries{$file} })
	{
		my ($rows) = query($server, $role, "SELECT to_json(q) FROM ($queries->{$name}{query}) AS q");

		foreach my $row (map { decode_json($_) } split(/\n/, $rows))
		{
			my @of = map { "$_=" . ($row->{$_} // '') =~ s/(["\\])/\\$1/gr } sort @{ $labels{$name} // [] };

			$values{ join(' ', "${name}_$_", @of) } = $row->{$_} // 'NaN'
			  foreach grep { exists $usage{"${name}_$_"} } keys %$row;
		}
	}
	return \%values;
}

foreach my $where (
	[ primary => $node, 'monitor', 'postgres' ],
	[ primary => $node, 'plain', 'postgres' ],
	[ standby => $standby, 'monitor', 'postgres' ],
	[ registry => $registry, 'monitor', 'registry' ])
{
	my ($name, $server, $role, $file) = @$where;
	my $as = "exporter, $role on the $name";
	my $process = start_exporter($server, $role, $file);
	my $before = expected($server, $role, $file);
	my $found = scrape($process);
	my $after = expected($server, $role, $file);
	my @wrong;

	is_deeply([ sort keys %$found ], [ sort keys %$before ], "$as: has all metrics and no others");
	foreach my $metric (sort keys %$found)
	{
		my ($value, $from, $to) = map { $_->{$metric} } $found, $before, $after;

		push @wrong, "$metric is $value, not $from"
		  unless $value eq 'NaN' ? $from eq 'NaN' : $value >= min($from, $to) && $value <= max($from, $to);
	}
	is(join("\n", @wrong), '', "$as: the values are those of the queries");
	is(join('', slurp_file("$dir/exporter_$file.err") =~ /.*pg_snowflake.*/g), '', "$as: it has nothing to complain of");
	cmp_ok($found->{pg_snowflake_worker_running}, '==',
		$role eq 'monitor' && $name eq 'primary' ? 1 : 0,
		"$as: sees whether the worker runs")
	  if $file eq 'postgres';
	stop_process($process);
}

# and these, once more, as the views have them
my @processes = map { start_exporter(@$_) } [ $node, 'monitor', 'postgres' ], [ $registry, 'monitor', 'registry' ];
my @scraped = map { $_->{scraped} } @processes;
my ($found, $counts) = map { scrape($_) } @processes;
my %column = (
	issued => 'issued_total',
	backfilled => 'backfilled_total',
	hops => 'hops_total',
	timeouts => 'timeouts_total',
	backends => 'backends',
	slots_used => 'slots_used',
	clock_regressions => 'clock_regressions_total',
	clock_jumps => 'clock_jumps_total',
	mark_waits => 'waits_total cause=mark',
	clock_waits => 'waits_total cause=clock',
	unit_waits => 'waits_total cause=time unit',
	'mark_wait_time / 1000' => 'waits_seconds_total cause=mark',
	'clock_wait_time / 1000' => 'waits_seconds_total cause=clock',
	'unit_wait_time / 1000' => 'waits_seconds_total cause=time unit',
	'extract(epoch FROM drift_max)' => 'drift_max_seconds',
	'extract(epoch FROM clock_regression_max)' => 'clock_regression_max_seconds',
	'extract(epoch FROM lifetime_end)' => 'lifetime_end_seconds');
foreach my $column (sort keys %column)
{
	cmp_ok($found->{"pg_snowflake_$column{$column}"}, '==',
		$node->safe_psql('postgres', "SELECT $column FROM pg_stat_snowflake"),
		"exporter: $column");
}
cmp_ok($found->{pg_snowflake_issued_total}, '==',
	sum0(map { $found->{$_} } grep { /^pg_snowflake_slot_issued_total / } keys %$found),
	'exporter: the slots have as many IDs as the server');
cmp_ok($found->{pg_snowflake_issued_total}, '>=', 100_003, 'exporter: which is what was drawn');
cmp_ok($found->{pg_snowflake_backfilled_total}, '==', 5, 'exporter: and backfilled');
cmp_ok($found->{pg_snowflake_max_drift_seconds}, '==', 1, 'exporter: the setting max_drift');
cmp_ok($found->{pg_snowflake_clock_regression_max_seconds}, '>', 3000, 'exporter: the clock was set back');
cmp_ok($found->{pg_snowflake_timeouts_total}, '>', 0, 'exporter: and there was an error');
is(join(' ', map { $counts->{"pg_snowflake_registry_$_"} } qw(numbers live expired free closed_seconds)),
	'32 1 0 31 0', 'exporter: the node numbers of the registry');

#
# Prometheus, which asks the exporter.  It answers each panel of the dashboard.
#
my $port = PostgreSQL::Test::Cluster::get_free_port();
append_to_file("$dir/prometheus.yml", encode_json({
	global => { scrape_interval => '1s', evaluation_interval => '1s' },
	rule_files => [ abs_path('monitoring/alerts.yml') ],
	scrape_configs => [ {
		job_name => 'postgres',
		static_configs => [ { targets => \@scraped } ] } ] }));
my $server = start_process("$dir/prometheus", $prometheus,
	"--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/tsdb",
	"--web.listen-address=127.0.0.1:$port");

sub answer
{
	my ($what, %params) = @_;
	my $answer = $http->get("http://127.0.0.1:$port/api/v1/$what?" . $http->www_form_urlencode(\%params));

	return undef if $answer->{status} >= 500;
	my $content = decode_json($answer->{content});
	die "$what: $content->{error}" if $content->{status} ne 'success';
	return $content->{data};
}

ok(wait_for(sub { @{ (answer('query', query => grafana('rate(pg_snowflake_issued_total[$__rate_interval])')) // {})->{result} // [] } }),
	'Prometheus gets the metrics');
$stay[1]->query('SELECT snowflake_nextval()');
ok(wait_for(sub { @{ answer('query', query => 'changes(pg_snowflake_timeouts_total[1m]) > 0')->{result} } }),
	'and their changes');
ok(wait_for(sub { @{ answer('label/instance/values', 'match[]' => $of) } == 2 }), 'Prometheus gets those of both exporters');
is_deeply(answer('label/instance/values', 'match[]' => $of), [ sort @scraped ],
	'dashboard: the instances to choose from');
foreach my $what (sort keys %exprs)
{
	my $result;
	my $shows = sub {
		$result = answer('query', query => grafana($exprs{$what}))->{result};
		return @$result > 0;
	};

	# after a scrape that took too long there is nothing until the next one
	$what =~ /finds wrong/ ? $shows->()
	  : ok(wait_for($shows), "dashboard: $what shows something");
	my $from = $scraped[ $exprs{$what} =~ /registry/ ? 1 : 0 ];
	is(scalar(grep { $_->{metric}{instance} ne $from } @$result), 0, "dashboard: $what says of what server");
}

# The alerts, with all that they say
ok(wait_for(sub { grep { $_->{labels}{alertname} eq 'SnowflakeIDsRefused' && $_->{state} eq 'firing' } @{ answer('alerts')->{alerts} } }),
	'the alert fires');
foreach my $alert (@{ answer('alerts')->{alerts} })
{
	like($alert->{annotations}{summary}, qr/^\Q$scraped[0]\E: [^<]+$/, "alert: $alert->{annotations}{summary}");
}

stop_process($server);
stop_process($_) foreach @processes;
$_->quit foreach @stay;
$_->stop foreach $leasing, $registry, $standby, $node;
done_testing();
