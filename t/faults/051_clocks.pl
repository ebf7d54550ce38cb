# snowflake.clock: the same steps of the machine's clock with each of the clocks
# that there are, while backends draw, and at restarts.  With "system" IDs wait
# for the clock, as in t/faults/011_clock.pl; the others do not notice before the next
# start.  Whatever the clock, no ID comes twice and those of a session ascend.
# And what is particular to the others: a suspended machine, a counter that is
# ahead of the clock or behind it, and how that is shown.
#
# The groups run at the same time.  SNOWFLAKE_CLOCK_TESTS chooses some.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $hour = 3600;
my %tests;

sub view
{
	my ($node, $what) = @_;
	return $node->safe_psql('postgres', "SELECT $what FROM pg_stat_snowflake");
}

# How far the time of new IDs is ahead of the server's clock, in seconds.
sub drift { return view($_[0], 'extract(epoch FROM drift)'); }

# A query that returns t when it is about that.
sub drift_is
{
	my ($seconds) = @_;
	return "SELECT abs(extract(epoch FROM drift) - ($seconds)) < 0.1 FROM pg_stat_snowflake";
}

sub clock_name
{
	return $_[0] eq 'system' ? 'clock' : 'monotonic clock';
}

# Draw so many IDs, one by one, each between two looks at the clock that IDs are
# drawn by.  Returns how many of the IDs have a time that is not between these.
my $functions = <<'SQL';
CREATE FUNCTION dishonest(count int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    before timestamptz;
    ts timestamptz;
    bad int := 0;
BEGIN
    FOR i IN 1 .. count LOOP
        before := (pg_stat_get_snowflake()).clock_ts;
        ts := snowflake_timestamp(snowflake_nextval());
        IF ts < date_trunc('milliseconds', before)
           OR ts > (pg_stat_get_snowflake()).clock_ts THEN
            bad := bad + 1;
        END IF;
    END LOOP;
    RETURN bad;
END
$$;
SQL

# Steps of each kind, at work and over restarts
sub test_steps
{
	my ($clock) = @_;
	my $system = $clock eq 'system';
	my $node = snowflake_node(
		$clock, <<CONF,
snowflake.clock = $clock
snowflake.max_drift = 100ms
snowflake.max_wait = 300ms
restart_after_crash = on
autovacuum = off
log_statement = none
CONF
		clock => 0);
	my $ledger = new_ledger();
	my ($base, $restarted) = (0, 0);

	$node->safe_psql('postgres', $functions);
	is(view($node, 'clock'), $clock, "clock = $clock");

	# with the clock set to so many seconds from where it was at the start; the
	# counter is somewhere behind it
	my $shows_step = sub {
		my ($seconds, $name) = @_;
		my $drift = $system ? 0 : -$seconds;

		# a clock that was set back is catching up
		return if $clock eq 'logical' || ($system && $name =~ /back/);
		ok($node->poll_query_until('postgres', drift_is($drift)),
			"$name: the drift is $drift s");
	};
	my $goes_on = sub {
		my ($draw, $name) = @_;
		my $session = session($node);
		my $honest = sub {
			return $session->query_safe('SELECT dishonest(500)') eq '0';
		};

		wait_drawn($draw, 1000);
		$session->query_safe("SET snowflake.max_wait = '1min'");
		# Where steps count, those back leave IDs ahead for a while, and so does
		# a mark that was ahead of the clock.
		ok($system || $restarted ? wait_for($honest) : $honest->(),
			"$name: IDs go on, at the time of the clock");
		$session->quit;
	};

	#
	# Steps while sessions draw
	#
	my $draw = start_draw($node, sessions => 6, delay => 1,
		max_wait => $system ? undef : '1min');
	my $session = session($node);
	$goes_on->($draw, "$clock: at the start");
	my $waits = view($node, 'clock_waits');

	# (10 min less a tenth is also left where a look takes some seconds)
	foreach my $step (1, 600, $hour, 24 * $hour)
	{
		my $name = "$clock, $step s back";

		wait_drawn($draw, 100);
		draw_one($session);
		set_clock($node, $base - $step);
		$shows_step->($base - $step, $name);
		if (!$system)
		{
			$goes_on->($draw, $name);
		}
		elsif ($step >= 600)
		{
			# this session has drawn, so it is behind
			my ($id, $error) = draw_one($session);
			is("$id$error->{sqlstate}", '55P03', "$name: an error");
			is(view($node, "drift BETWEEN '$step s'::interval * 0.9 AND '$step s'"), 't',
				"$name: IDs are ahead of the clock");
			wait_statements($node, $draw);
		}
		set_clock($node, $base);
		$goes_on->($draw, "$name, and back") if $step != 1;

		$base += $step;
		set_clock($node, $base);
		$shows_step->($base, "$clock, $step s forward");
		$goes_on->($draw, "$clock, $step s forward");
	}
	foreach my $n (1 .. 10)
	{
		$base -= 0.07;
		set_clock($node, $base);
		wait_drawn($draw, 100);
	}
	$goes_on->($draw, "$clock, small steps back");
	is(sqlstates($draw), $system ? '55P03' : '',
		$system ? "$clock: errors while the clock was behind" : "$clock: no errors at all");
	is(view($node, 'clock_waits'), $waits, "$clock: nobody waits for the clock") if !$system;
	$ledger->add($draw);
	$session->quit;

	#
	# A restart with the clock set back.  They all read the clock then, so all
	# of them wait for it; and those that read it only then need another one.
	#
	if (!$system)
	{
		# the steps have not shown in the IDs
		$base = 0;
		set_clock($node, $base);
	}
	$restarted = 1;
	foreach my $how (qw(kill9 fast))
	{
		my $name = "$clock, an hour back, $how";

		$draw = start_draw($node, sessions => 6, delay => 1);
		wait_drawn($draw, 500);
		set_clock($node, $base - $hour);
		if ($how eq 'kill9')
		{
			kill9_postmaster($node, all => 1);
		}
		else
		{
			$node->stop('fast');
		}
		$ledger->add($draw);
		start_node($node);
		$session = session($node);
		issues_nothing($node, $session, $ledger, $name);
		my (undef, $error) = draw_one($session);
		like($error->{detail}, qr/^The ${\clock_name($clock)} shows/,
			"$name: which names the clock");
		like($error->{hint}, $system ? qr/^Set the server's clock\. If it is right, wait until it has caught up, or/
			: qr/^Set the server's clock and restart the server\. If it is right, wait until it has caught up, or/,
			'and what to do');

		set_clock($node, $base);
		if (!$system)
		{
			issues_nothing($node, $session, $ledger, "$name, and set right");
			$node->stop('fast');
			start_node($node);
		}
		$session->quit;
		$draw = start_draw($node, sessions => 6, delay => 1);
		$goes_on->($draw, "$name, and set right");
		$ledger->add($draw);
	}

	#
	# A restart with the clock a little behind: IDs go on where they were.
	#
	$node->append_conf('postgresql.conf', "snowflake.max_drift = '10min'");
	my $patient = "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval()";
	my $last = $node->safe_psql('postgres', $patient);
	$node->stop('fast');
	set_clock($node, $base - 300);
	start_node($node);
	my $next = $node->safe_psql('postgres', $patient);
	cmp_ok($next >> 22, '==', ($last >> 22) + 1,
		"$clock, restarted 5 min back: IDs go on in the next millisecond");
	$ledger->add_ids("$clock psql", $last, $next);

	#
	# The server starts anew after a crash of a backend, and reads the clock.
	# (Up to PostgreSQL 15 the postmaster does it where libfaketime does not
	# reach, and sees the real one, so it is set to that.)
	#
	set_clock($node, $base);
	my $drift = $system ? 0 : -300;
	ok($node->poll_query_until('postgres',
			"SELECT abs(extract(epoch FROM clock_ts - wall_ts) - ($drift)) < 0.1 FROM pg_stat_snowflake"),
		"$clock, set right: it is $drift s from the server's clock")
	  if $clock ne 'logical';
	$draw = start_draw($node, sessions => 6, delay => 1);
	wait_drawn($draw, 100);
	my $log = -s $node->logfile;
	kill 'KILL', busy_backend($node);
	ok( wait_for(
			sub {
				slurp_file($node->logfile, $log) =~
				  /database system is ready to accept connections/;
			}),
		"$clock, kill -9 of a backend: the server starts anew");
	ok($node->poll_query_until('postgres', drift_is(0)), 'and reads the clock')
	  if $clock ne 'logical';
	$goes_on->($draw, "$clock, after it");
	$ledger->add($draw);

	is($ledger->duplicates, 0, "$clock: no ID came twice");
	is($ledger->disorder, 0, "$clock: the IDs of a session increase");
	$ledger->report(22);
	$node->stop;
	return;
}
foreach my $clock (qw(system monotonic logical))
{
	$tests{$clock} = sub { test_steps($clock) };
}

#
# Before the epoch, and after it has come
#
$tests{epoch} = sub {
	foreach my $clock (qw(monotonic logical))
	{
		my $node = snowflake_node("epoch_$clock", "snowflake.clock = $clock\n",
			clock => 1577836800 - $hour - time);
		my $session = session($node);
		my ($id, $error) = draw_one($session);

		is("$error->{sqlstate}: $error->{message}",
			'55000: cannot generate snowflake IDs before their epoch',
			"$clock, started before the epoch: an error");
		like($error->{detail}, qr/^The monotonic clock shows 2019-12-31 23:\S+\+00, "snowflake\.epoch" is/,
			'which says so');
		is($error->{hint}, q{Set the server's clock and restart the server. If it is right, set "snowflake.epoch" to an instant that is past, and restart the server.},
			'and what to do');
		set_clock($node, 0);
		($id, $error) = draw_one($session);
		is($error->{sqlstate}, '55000', 'to set the clock is not enough');
		$session->quit;
		$node->stop;
		start_node($node);
		like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'),
			qr/^\d+$/, 'a restart is');
		$node->stop;
	}
};

#
# The machine is suspended: the monotonic clock goes on.
#
$tests{suspend} = sub {
	my $node = snowflake_node('suspend', "snowflake.clock = monotonic\n");
	my $file = $node->basedir . '/suspended';
	my $suspend = sub {
		append_to_file("$file.new", $_[0]);
		rename "$file.new", $file or die "$file: $!";
	};

	$node->stop;
	$suspend->(0);
	{
		local %ENV = (
			%ENV,
			LD_PRELOAD => compile($node, 'suspend.c', qw(-shared -fPIC)),
			SUSPENDED_FILE => $file);
		$node->start;
	}
	my $session = session($node);
	my $first = $session->query_safe('SELECT snowflake_nextval()');
	$suspend->(10 * $hour);
	my $result = $session->query_safe(<<SQL);
SELECT ts - snowflake_timestamp($first) BETWEEN '10 h' AND '11 h',
       clock_timestamp() - ts BETWEEN '-1 min' AND '1 min'
FROM snowflake_timestamp(snowflake_nextval()) ts
SQL
	is($result, 't|t', 'resumed after 10 h: IDs are of now');
	cmp_ok(abs(drift($node)), '<', 60, 'and no drift is shown');
	$session->quit;
	$node->stop;
};

#
# The logical clock: the time goes on when all numbers of a time unit are used
# up.
#
$tests{counter} = sub {
	my $node = snowflake_node(
		'counter', <<'CONF',
snowflake.clock = logical
# 12 IDs in 10 ms: any machine draws faster than that
snowflake.layout = 'time:41@10ms node:5 worker:2 sequence:2'
snowflake.sequence_start = zero
snowflake.max_drift = 10min
snowflake.reserve_window = 1h
CONF
		clock => 0);
	my ($a, $b) = map { session($node) } 1 .. 2;

	# the time units after the first ID's, with how many IDs each
	my $first;
	my $draw = sub {
		my ($session, $count) = @_;
		my $result = $session->query_safe(<<SQL);
SELECT string_agg(unit || ':' || ids, ' ' ORDER BY unit)
FROM (SELECT (id >> 9) - ($first >> 9) AS unit, count(*) AS ids
      FROM (SELECT snowflake_nextval() AS id, pg_sleep(0.002)
            FROM generate_series(1, $count) OFFSET 0) AS d
      GROUP BY 1) AS u
SQL
		return $result;
	};

	$first = $a->query_safe('SELECT snowflake_nextval()');
	is($draw->($a, 11), '0:11', 'slowly drawn: one time unit, over all slots');
	is($draw->($a, 14), '1:12 2:2', 'then the next, and the next');
	is($draw->($b, 1), '2:1', 'another backend joins in');
	is($draw->($b, 10), '2:9 3:1', 'and goes on when there is none left');
	is($draw->($a, 1), '3:1', 'the first goes along');
	is($draw->(session($node), 1), '3:1', 'as does a new one');

	# behind the clock
	ok( $node->poll_query_until('postgres',
			"SELECT drift < '-2 s' AND clock_ts - wall_ts = drift FROM pg_stat_snowflake"),
		'nobody draws: the drift is shown, behind the clock');
	is($draw->($a, 1), '3:1', 'which does not matter');
	is( view($node, "last_ts = clock_ts AND last_ts = snowflake_timestamp($first) + interval '30 ms'"),
		't', 'IDs stay where they are');

	# ahead of it
	$a->query_safe('SELECT count(*) FROM snowflake_nextval(12 * 30000)');
	cmp_ok(drift($node), '>', 100, 'a burst: the drift is shown, ahead of the clock');
	$a->query_safe('SET snowflake.max_wait = 0');
	my $error = session_error($a, 'SELECT count(*) FROM snowflake_nextval(12 * 60000)');
	is("$error->{sqlstate}: $error->{message}",
		'55P03: cannot generate a snowflake ID: all sequence numbers are in use',
		'no further than max_drift');
	like($error->{detail}, qr/^The monotonic clock shows .* which is 6000(?:0[1-9]|10) ms ahead; /,
		'by the monotonic clock');
	is( view($node, "drift BETWEEN '9 min' AND '10 min'"), 't', 'which the view shows');

	# set back, the clock is further behind, and that is all
	set_clock($node, -$hour);
	is( view($node, "drift BETWEEN '69 min' AND '70 min'"), 't', 'the clock set back an hour: as far more ahead');
	ok( wait_for(sub { (draw_one($a))[0] ne '' }), 'IDs come as time goes by');
	is( view($node, "drift > '69 min'"), 't', 'where they were');
	is( $node->safe_psql('postgres', <<'SQL'),
SELECT issued = (SELECT sum(issued) FROM pg_stat_snowflake_slots),
       last_ts = (SELECT max(last_ts) FROM pg_stat_snowflake_slots),
       last_ts < reserved_until, node, layout, epoch = '2020-01-01+00',
       lifetime_end = '2020-01-01+00'::timestamptz + interval '21990232555.52 s'
FROM pg_stat_snowflake
SQL
		't|t|t|1|time:41@10ms node:5 worker:2 sequence:2|t|t', 'and the rest of the view');

	# raised marks are in the future by the monotonic clock
	my ($ret, $stdout, $stderr) = $node->psql('postgres', <<'SQL');
SELECT snowflake_advance(snowflake_compose(now() + interval '1 day', 1, 0, 0))
SQL
	like($stderr, qr/WARNING:  the durable mark is ahead of the clock\nDETAIL:  The monotonic clock shows/,
		'a mark in the future: a warning');
	$_->quit foreach $a, $b;
	$node->stop;
};

#
# A standby has read the clock when it was started, and goes on above the mark.
#
$tests{standby} = sub {
	my $primary = snowflake_node('primary', "snowflake.clock = logical\n",
		allows_streaming => 1);
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	is( view($standby, "clock, issued, last_ts, reserved_until, drift < '0'"),
		'logical|0|||t', 'a standby shows its clock, and draws nothing');
	my $last = $primary->safe_psql('postgres',
		'SELECT max(id) FROM snowflake_nextval(1000000) AS id');
	$primary->wait_for_catchup($standby);
	$primary->stop('immediate');
	$standby->promote;
	cmp_ok(
		$standby->safe_psql('postgres',
			"SET snowflake.max_wait = '1min'; SELECT snowflake_nextval()"),
		'>', $last, 'promoted, it goes on above the IDs of the primary');
	$standby->stop;
};

in_parallel(
	map { $_ => $tests{$_} // die "there is no test $_\n" }
	  split /,/, $ENV{SNOWFLAKE_CLOCK_TESTS} // join ',', sort keys %tests);
done_testing();
