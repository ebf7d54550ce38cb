
# Segments of numbers from a registry that servers share, fault by fault: the
# registry is slow, hangs, goes away, is promoted or set back and loses what it
# gave out last; servers are stopped, killed, copied, cut off, sent to another
# registry.  All the while numbers are drawn.  Where no segment can be had there
# is an error that says why, and no number of a tag comes twice.

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $away = qr/The registry could not be asked: /;
my $lower = qr/^The home database gave numbers up to \d+, and the registry goes on at \d+\. Run /;

#
# Servers, with what was drawn there
#

# A running one, with the node number that is given, or a leased one.  Options:
# proxy => 1 for a proxy of its own before the registry, dbname and user there,
# or conninfo, and conf.
sub new_server
{
	my ($registry, $name, $number, %opts) = @_;
	my %where = map { $_ => $opts{$_} } grep { defined $opts{$_} } qw(dbname user);
	my $proxy = $opts{proxy} ? start_proxy($registry) : undef;
	my $conninfo = $opts{conninfo}
	  // ($proxy ? proxy_conninfo($proxy, %where) : registry_conninfo($registry, %where));
	my $node = leasing_node($name, $conninfo,
		"snowflake.max_wait = '1s'\n"
		  . (defined $number ? "snowflake.node_id = $number\n" : '')
		  . ($opts{conf} // ''));

	return server($name, $node, $proxy);
}

sub server
{
	my ($name, $node, $proxy) = @_;

	return {
		name => $name,
		node => $node,
		proxy => $proxy,
		draws => {},    # of a tag
		numbers => {}    # of a tag, one by one
	};
}

# One statement in a session of its own.  Returns what it prints, or '', and the
# error.
sub call
{
	my ($server, $sql) = @_;
	my (undef, $stdout, $stderr) = eval {
		$server->{node}->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	};

	return ($stdout // '', psql_error($stderr // ''));
}

# How long what is to succeed may take, on a machine that has much else to do.
# What is to fail, or to be done at once, has the server's setting.  A registry
# that was promoted or set back may close once more, for 80 s, when a server tells it
# later what it had forgotten; that server may come to it a minute later.
my $patient = q(SET snowflake.max_wait = '5min');

# snowflake_segment_create() and the others.  Returns "sqlstate: message" of the
# error, ': ' when there is none, and the error.
sub command
{
	my ($server, $what) = @_;

	return try_command($server, $what, $patient);
}

sub try_command
{
	my ($server, $what, $setting) = @_;
	my (undef, $error) = call($server, join '; ', $setting // (), "SELECT snowflake_segment_$what");

	return wantarray ? ("$error->{sqlstate}: $error->{message}", $error)
	  : "$error->{sqlstate}: $error->{message}";
}

# Create a tag, and go on trying until it is there.  Where an answer has not come
# in time, an earlier try may have made it.
sub new_tag
{
	my ($server, $options, $name) = @_;
	my ($said, $error, $unsure);

	ok( poll(
			sub {
				($said, $error) = try_command($server, "create($options)");
				return 1 if $said eq ': ' || ($unsure && $error->{sqlstate} eq '42710');
				$unsure ||= $error->{hint} =~ /^The command may have been carried out/;
				return 0;
			}),
		$name)
	  or diag("$said: $error->{detail} $error->{hint}");
	return;
}

# A command that comes to the registry, whose answer is lost: it waits there, until
# the answers do.  Where it came too late for its session, try again.  Returns what
# command() does, and the tag that it was to create.
sub lose_answer
{
	my ($registry, $server, $name, $setting) = @_;
	my $beside = session($registry);
	my ($error, $tag);
	my $try = 0;

	poll(
		sub {
			set_proxy($server->{proxy}, 'pass');
			$tag = $name . ++$try;
			$beside->query_safe(<<SQL);
BEGIN;
INSERT INTO snowflake_segment_tag (tag, incarnation, max_id, step, delta, remainder, created_at)
VALUES ('$tag', gen_random_uuid(), 0, 1, 1, 0, now());
SQL
			my $psql = start_sql($server->{node}, "$setting; SELECT snowflake_segment_create('$tag')");
			wait_for(
				sub {
					return !$psql->{run}->pumpable
					  || $beside->query_safe('SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))') > 0;
				});
			set_proxy($server->{proxy}, 'hold answers');
			$beside->query_safe('ROLLBACK');
			$error = psql_error((finish_sql($psql))[1]);
			return $error->{hint} =~ /may/;
		}) or die "no answer is lost: $error->{message}\n";
	$beside->quit;
	return ("$error->{sqlstate}: $error->{message}", $error, $tag);
}

# Numbers in a session of its own.  Returns them in a list, and leaves the error
# in the server.
sub take
{
	my ($server, $tag, $count) = @_;

	return try_take($server, $tag, $count, $patient);
}

sub try_take
{
	my ($server, $tag, $count, $setting) = @_;
	my ($stdout, $error) = call($server, join '; ', $setting // (), "SELECT snowflake_segment_nextval('$tag', " . ($count // 1) . ')');
	my @numbers = split /\n/, $stdout;

	$server->{error} = $error;
	push @{ $server->{numbers}{$tag} }, @numbers;
	return @numbers;
}

# Draw there until check().
sub draw_on
{
	my ($server, $tag, %opts) = @_;
	my $draw = start_draw(
		$server->{node},
		sessions => 2,
		delay => 5,
		sql => "SELECT snowflake_segment_nextval('$tag')",
		%opts);

	push @{ $server->{draws}{$tag} }, $draw;
	return $draw;
}

# Numbers flow, by themselves.  Returns the first.
sub flows
{
	my ($server, $tag, $name) = @_;
	my $number;

	ok(poll(sub { ($number) = take($server, $tag); return defined $number }), "$name: numbers flow")
	  or diag("$server->{error}{message}: $server->{error}{detail}");
	return $number // 0;
}

# There come to be none, with an error that says why.
sub stops
{
	my ($server, $tag, $name, $detail, $sqlstate) = @_;
	my $error;

	ok( poll(
			sub {
				my @none = try_take($server, $tag);
				$error = $server->{error};
				return !@none && $error->{detail} =~ $detail;
			}),
		"$name: no numbers, and an error that says why")
	  or diag("$error->{message}: $error->{detail}");
	is( "$error->{sqlstate}: $error->{message}",
		($sqlstate // '55P03') . qq(: cannot draw a number of segment tag "$tag": no segment came in time),
		"$name: the error");
	return $error;
}

# The spans that a server has numbers left of: [ first, last ], ...
sub held
{
	my ($server, $tag) = @_;

	return map { [ split /\|/ ] } split /\n/, $server->{node}->safe_psql('postgres', <<SQL);
SELECT last - unused * delta + 1, last FROM pg_stat_snowflake_segments WHERE tag = '$tag' AND unused > 0
UNION ALL
SELECT next_first, next_last FROM pg_stat_snowflake_segments WHERE tag = '$tag' AND next_first IS NOT NULL
ORDER BY 1
SQL
}

# Both buffers are there.
sub wait_held
{
	my ($server, $tag) = @_;

	poll(sub { held($server, $tag) == 2 }) or die "$server->{name} has no two segments of $tag\n";
	return held($server, $tag);
}

# CPU time that the services have used, in ticks of 10 ms.
sub ticks
{
	my ($server) = @_;
	my $pid = services_pid($server->{node});
	my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //r;

	return $stat[11] + $stat[12];
}

sub how_many
{
	return sum0(map { $_->[1] - $_->[0] + 1 } @_);
}

sub max_id
{
	my ($registry, $tag, $dbname) = @_;

	return $registry->safe_psql($dbname // 'postgres', "SELECT max_id FROM snowflake_segment_tag WHERE tag = '$tag'");
}

sub set_registry
{
	my ($server, $conninfo) = @_;

	$server->{node}->safe_psql('postgres', "ALTER SYSTEM SET snowflake.registry = '$conninfo'");
	reload_node($server->{node});
	return;
}

# A tag that is there goes on at a number.
sub new_start
{
	my ($server, $tag, $start) = @_;

	is(command($server, "alter('$tag', start => $start)"), ': ', "$tag goes on at $start");
	return;
}

# All numbers of a tag that servers have drawn.  Stops their draws.
sub all_numbers
{
	my ($tag, @servers) = @_;

	return map {
		my $server = $_;
		stop_draw($_) foreach @{ $server->{draws}{$tag} // [] };
		@{ $server->{numbers}{$tag} // [] },
		  map { map { (split / /)[1] } split /\n/, slurp_file($_->{ids}) } @{ $server->{draws}{$tag} // [] }
	} @servers;
}

# At the end: no number of a tag came twice on any of them, and in no session one
# before another.
sub check
{
	my ($faults, @servers) = @_;
	my %tags = map { %{ $_->{numbers} }, %{ $_->{draws} } } @servers;
	my (%other, %duplicates, %disorder);

	foreach my $tag (sort keys %tags)
	{
		my $ledger = new_ledger();

		foreach my $server (@servers)
		{
			foreach my $draw (@{ $server->{draws}{$tag} // [] })
			{
				$ledger->add($draw);
				$other{"$_ $tag"} = 1 foreach grep { !/^(55000|55P03|57P0[123])$/ } keys %{ stop_draw($draw)->{errors} };
			}
			$ledger->add_ids("$server->{name}, $tag", @{ $server->{numbers}{$tag} // [] });
		}
		$duplicates{$tag} = $ledger->duplicates if $ledger->duplicates;
		$disorder{$tag} = $ledger->disorder if $ledger->disorder;
		$ledger->report($faults);
	}
	is_deeply(\%duplicates, {}, 'no number of a tag came twice');
	is_deeply(\%disorder, {}, 'the numbers of a session increase');
	is_deeply(\%other, {}, 'no other errors');
	return;
}

#
# Two servers and one registry
#
sub test_together
{
	my $registry = new_registry('registry_together');
	make_registry($registry, $_) foreach qw(odd even);
	my %patient = (conf => "snowflake.max_wait = '1min'\n");
	my $one = new_server($registry, 'one', undef, proxy => 1, %patient);
	my $two = new_server($registry, 'two', 5, %patient);

	wait_number($one->{node});
	is(command($one, q|create('together', step => 10)|), ': ', 'a tag is created with a leased node number');
	my @draws = map { draw_on($_, 'together', delay => 0) } $one, $two;
	wait_drawn($_, 2000) foreach @draws;

	# The worker is ended while it is at it, again and again.
	foreach (1 .. 3)
	{
		set_proxy($one->{proxy}, 'delay 200');
		my $worker = services_pid($one->{node});
		take($one, 'together', 1000);
		my $psql = start_sql($one->{node}, "SET snowflake.max_wait = '1min'; SELECT snowflake_segment_create('made$_')");
		usleep(100_000);
		$one->{node}->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
		services_pid($one->{node}, $worker);
		my $error = psql_error((finish_sql($psql))[1]);
		like("$error->{sqlstate}: $error->{message}", qr/^: $|^57P01: could not create segment tag "made$_": the background worker has ended$/,
			'the worker is ended: a command');
		is($error->{hint}, $error->{sqlstate} eq '' ? '' : 'The command may have been carried out anyway.', 'of which is said what can be');
		set_proxy($one->{proxy}, 'pass');
		wait_drawn($_, 1000) foreach @draws;
	}
	is(sqlstates($_), '', 'no errors') foreach @draws;

	# Dense: what was not drawn is still there, but for what was on its way to
	# the worker that was ended.
	my @numbers = all_numbers('together', $one, $two);
	my @held = map { held($_, 'together') } $one, $two;
	my $end = max_id($registry, 'together');
	is(scalar(grep { $_ < 1 || $_ > $end } @numbers), 0, 'only numbers that were given out');
	my $drawn_too = grep { my $n = $_; grep { $n >= $_->[0] && $n <= $_->[1] } @held } @numbers;
	is($drawn_too, 0, 'none is left that was drawn');

	# and with nothing ended all are accounted for
	command($two, q|create('dense', step => 10)|);
	@draws = map { draw_on($_, 'dense', sessions => 4, delay => 0, max_wait => '1min', finish => 60_000) } $one, $two;
	wait_drawn($_, 1500) foreach @draws;
	@numbers = all_numbers('dense', $one, $two);
	ok( poll(sub {
				@numbers + how_many(map { held($_, 'dense') } $one, $two) == max_id($registry, 'dense');
			}),
		'dense');

	# at first use, in many sessions at once
	command($one, q|create('first', step => 5)|);
	@draws = map { draw_on($_, 'first', sessions => 15, delay => 0) } $one, $two;
	wait_drawn($_, 500) foreach @draws;
	is(sqlstates($_), '', 'many sessions at first use') foreach @draws;

	# A tag exists for all once it was created, whoever has looked before.
	my @missing;
	foreach my $n (1 .. 5)
	{
		is((call($two, "SELECT snowflake_segment_nextval('new$n')"))[1]{sqlstate}, '42704', "new$n: there is none");
		my $draw = draw_on($two, "new$n", delay => 0);

		wait_statements($two->{node}, $draw);
		command($one, "create('new$n')");
		push @missing, "new$n: $two->{error}{message}" unless try_take($two, "new$n") == 1;
		wait_drawn($draw, 10);
		is(sqlstates($draw), '42704', "new$n: before it was created there was an error");
		delete stop_draw($draw)->{errors}{42704};
	}
	is_deeply(\@missing, [], 'a tag is there at once when it was created elsewhere');

	# Two registries that know nothing of each other: odd numbers and even ones.
	my %remainder = (odd => 1, even => 0);
	foreach ([ $one, 'odd' ], [ $two, 'even' ])
	{
		my ($server, $dbname) = @{$_};

		set_registry($server, registry_conninfo($registry, dbname => $dbname));
		new_tag($server, "'parity', step => 20, delta => 2, remainder => $remainder{$dbname}", "another registry: a tag in $dbname");
		draw_on($server, 'parity', delay => 0, finish => 60_000);
	}
	wait_drawn($_->{draws}{parity}[0], 1000) foreach $one, $two;
	is(scalar(grep { $_ % 2 != 1 } all_numbers('parity', $one)), 0, 'one registry: odd numbers');
	is(scalar(grep { $_ % 2 != 0 } all_numbers('parity', $two)), 0, 'the other: even ones');
	@numbers = sort { $a <=> $b } all_numbers('parity', $one);
	is($numbers[-1], 2 * @numbers - 1, 'all of them');

	check(3, $one, $two);
	$_->{node}->stop foreach $one, $two;
	return;
}

#
# What is done on one server, and another
#
sub test_commands
{
	my $registry = new_registry('registry_commands');
	$registry->safe_psql('postgres', <<'SQL');
CREATE DATABASE bare;
CREATE DATABASE latin ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;
CREATE ROLE drawer LOGIN;
SELECT format('GRANT EXECUTE ON FUNCTION %s TO drawer', p.oid::regprocedure)
FROM pg_proc AS p WHERE p.proname = 'snowflake_take_segments' \gexec
SQL
	make_registry($registry, 'other');
	my %patient = (conf => "snowflake.max_wait = '4s'\n");
	my $a = new_server($registry, 'a', 1, %patient);
	my $b = new_server($registry, 'b', 2, %patient);
	my ($said, $error);

	# dropped, and created again
	command($a, q|create('dropped', step => 10)|);
	take($_, 'dropped', 3) foreach $a, $b;
	my $before = max map { $_->[1] } wait_held($b, 'dropped');
	is(command($a, q|drop('dropped')|), ': ', 'a tag is dropped');
	is(scalar(take($a, 'dropped')), 0, 'there are no numbers of it any more');
	is("$a->{error}{sqlstate}: $a->{error}{message}", '42704: segment tag "dropped" does not exist', 'the error');
	ok(poll(sub { !take($b, 'dropped') && $b->{error}{sqlstate} eq '42704' }), 'nor on the other server, soon');
	is(command($a, q|drop('dropped')|), '42704: segment tag "dropped" does not exist', 'it is not dropped twice');
	$before = max_id($registry, 'dropped');
	my (undef, undef, $stderr) = $b->{node}->psql('postgres', qq|$patient; SELECT snowflake_segment_create('dropped', step => 10)|);
	like($stderr, qr/NOTICE:  segment tag "dropped" goes on at @{[ $before + 1 ]}\n/, 'created again: it goes on above');
	cmp_ok(flows($_, 'dropped', 'created again'), '>', $before, 'created again: above all that were given out') foreach $a, $b;

	# created again before the other server hears of it
	command($a, q|drop('dropped')|);
	command($a, q|create('dropped', step => 10)|);
	my $draw = draw_on($b, 'dropped', delay => 0);
	wait_drawn($draw, 100);
	take($a, 'dropped', 50);
	my $incarnation = q|SELECT incarnation FROM snowflake_segment_tag WHERE tag = 'dropped'|;
	ok(poll(sub { max(all_numbers('dropped', $b)) > $before + 20 && take($b, 'dropped') }), 'created again at once: numbers flow');

	# the same while sessions keep the worker busy with what there is not
	command($a, q|create('idle')|);
	take($b, 'idle');
	$draw = start_draw($b->{node}, sessions => 4, delay => 0, max_wait => '1min', sql => q|SELECT snowflake_segment_nextval('nowhere')|);
	command($a, q|drop('idle')|);
	ok(poll(sub { !take($b, 'idle') && $b->{error}{sqlstate} eq '42704' }), 'a busy server, too, learns what was dropped');
	is(sqlstates($draw), '42704', 'a tag that is not there');

	# forgotten
	command($a, q|create('forgotten', start => 500)|);
	is((call($a, qq|$patient; SELECT snowflake_segment_nextval('forgotten')|))[0], 500, 'a tag with a start');
	is(command($a, q|drop('forgotten', forget => true)|), ': ', 'it is dropped and forgotten');
	is(max_id($registry, 'forgotten'), '', 'the registry has no trace of it');
	is(command($b, q|create('forgotten', step => 10)|), ': ', 'created again');
	is((call($b, qq|$patient; SELECT snowflake_segment_nextval('forgotten')|))[0], 1, 'forgotten: it begins anywhere');

	# altered
	command($a, q|create('altered', step => 10, max_value => 20)|);
	take($a, 'altered', 1);
	take($b, 'altered', 10);
	poll(sub { take($a, 'altered'); return $a->{error}{sqlstate} ne '' }) or die;
	foreach ($a, $b)
	{
		is(scalar(take($_, 'altered')), 0, "$_->{name}: all numbers are gone");
		is("$_->{error}{sqlstate}: $_->{error}{message}", '2200H: segment tag "altered" has no numbers left', "$_->{name}: the error");
	}
	is(command($a, q|alter('altered', max_value => 19)|), '22023: segment tag "altered" cannot have the maximum value 19', 'a maximum value that is too low');
	is(command($a, q|alter('altered', max_value => 4000, step => 100, description => 'more')|), ': ', 'altered');
	my @more = take($b, 'altered', 100);
	is("@more[0, -1]", '21 120', 'at once, the other server has a segment, of the new length');
	ok( poll(sub {
				$a->{node}->safe_psql('postgres', q|SELECT max_value, min_step FROM pg_stat_snowflake_segments WHERE tag = 'altered'|) eq '4000|100';
			}),
		'both servers know of it');
	poll(sub { held($b, 'altered') }) or die;
	is(command($b, q|alter('altered', start => 1000)|), ': ', 'a new start');
	my $most = max_id($registry, 'altered');
	is($most, 999, 'which the registry has');
	take($b, 'altered', 500);
	cmp_ok(max(all_numbers('altered', $b)), '>=', 1000, 'the next segment begins there');

	# rights
	$registry->safe_psql('postgres', q|SELECT snowflake_create_tag('given', 1, 10, 1, 0, NULL, NULL)|);
	set_registry($b, registry_conninfo($registry, user => 'drawer'));
	flows($b, 'given', 'a role that may draw, a tag with no maximum value');
	poll(sub { ($said, $error) = command($b, q|create('mine')|); return $said =~ /^42501/ });
	is($said, '42501: could not create segment tag "mine": permission denied for function snowflake_create_tag', 'it may not create');
	is(command($b, q|drop('given')|), '42501: could not drop segment tag "given": permission denied for function snowflake_drop_tag', 'nor drop');
	flows($b, 'given', 'after that');
	my ($out) = call($a, qq|$patient; CREATE ROLE somebody; GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO somebody; SET ROLE somebody; SELECT snowflake_segment_nextval('given') > 0|);
	is($out, 't', 'who is granted it may draw');
	(undef, $error) = call($a, q|SET ROLE somebody; SELECT snowflake_segment_create('given2')|);
	is($error->{sqlstate}, '42501', 'not anybody may create');

	# no extension
	set_registry($b, registry_conninfo($registry, dbname => 'bare'));
	$error = stops($b, 'bare', 'no extension', qr/^The registry could not be asked: there is no extension "snowflake_registry" in database "bare" of host .*Waited/, '55000');
	($said, $error) = try_command($b, q|create('bare')|);
	is($said, '55000: cannot create segment tag "bare": no answer came in time', 'no extension: not created');
	like($error->{detail}, qr/^The registry could not be asked: there is no extension "snowflake_registry" in database "bare"/, 'no extension: which is why');
	is($error->{hint}, 'The command was not carried out.', 'no extension: as it says');

	# a tag that the registry cannot store
	make_registry_of($registry, 'latin');
	my $latin = registry_conninfo($registry, dbname => 'latin');
	$b->{node}->safe_psql('postgres', q|CREATE DATABASE utf8 ENCODING UTF8 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0|);
	$b->{node}->safe_psql('utf8', 'CREATE EXTENSION snowflake');
	set_registry($b, $latin);
	new_tag($b, q|'known', step => 20|, 'a registry in LATIN1: a tag');
	flows($b, 'known', 'in LATIN1');
	my $japanese = q|E'\u65e5\u672c'|;
	$draw = start_draw($b->{node}, dbname => 'utf8', sessions => 4, delay => 0, sql => "SELECT snowflake_segment_nextval($japanese)");
	poll(
		sub {
			(undef, undef, $stderr) = $b->{node}->psql('utf8', "\\set VERBOSITY verbose\nSELECT snowflake_segment_nextval($japanese)");
			$error = psql_error($stderr);
			return $error->{detail} =~ /no equivalent/;
		});
	is($error->{sqlstate}, '55000', 'a tag that the registry cannot store');
	like($error->{detail}, qr/^The registry cannot give segments: character with byte sequence 0xe6 0x97 0xa5 in encoding "UTF8" has no equivalent in encoding "LATIN1"\./, 'the reason');
	(undef, undef, $stderr) = $b->{node}->psql('utf8', "\\set VERBOSITY verbose\n$patient; SELECT snowflake_segment_create($japanese)");
	is(psql_error($stderr)->{sqlstate}, '22P05', 'nor is it created');
	my $known = draw_on($b, 'known');
	wait_drawn($known, 300);
	foreach my $n (1 .. 3)
	{
		is(scalar(command($b, "create('after$n')")), ': ', "meanwhile others are created: after$n");
		flows($b, "after$n", "after$n");
	}
	is((call($b, qq|$patient; SELECT snowflake_segment_nextval('none')|))[1]{sqlstate}, '42704', 'and not found');
	command($b, q|drop('known')|);
	ok(poll(sub { !take($b, 'known') && $b->{error}{sqlstate} eq '42704' }), 'and dropped');
	is(stop_draw($draw)->{ids}, 0, 'none of what cannot be stored');
	like(sqlstates($draw), qr/^55000(?: 55P03)?$/, 'but errors');
	delete stop_draw($known)->{errors}{42704};

	check(6, $a, $b);

	# the first that is asked for
	$b->{node}->restart;
	poll(
		sub {
			(undef, undef, $stderr) = $b->{node}->psql('utf8', "\\set VERBOSITY verbose\nSELECT snowflake_segment_nextval($japanese)");
			return psql_error($stderr)->{detail} =~ /no equivalent/;
		});
	is(psql_error($stderr)->{sqlstate}, '55000', 'a tag that the registry cannot store, after a start');
	flows($b, 'after1', 'after it');
	$_->{node}->stop foreach $a, $b;
	return;
}

# As make_registry(), where the database is there.
sub make_registry_of
{
	my ($registry, $dbname) = @_;

	$registry->safe_psql($dbname, <<'SQL');
CREATE EXTENSION snowflake_registry;
UPDATE snowflake_registry_place SET changes = 1000;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO snowflake_server;
SQL
	return;
}

#
# The registry is away
#
sub test_away
{
	my $registry = new_registry('registry_away');
	my @ways = (
		[ 'a black hole', qr/no (?:answer|connection) in 5000 ms/, 'hole' ],
		[ 'refused', qr/Connection refused/, 'refuse' ],
		[ 'cut', qr/server closed the connection unexpectedly/, 'cut 30' ],
		[ 'answers lost', qr/no (?:answer|connection) in 5000 ms/, 'hold answers' ]);
	my $ttl = 30;    # for which what a server has is good
	my @servers;

	foreach my $i (0 .. $#ways)
	{
		my $server = new_server($registry, "away$i", $i == 1 ? undef : $i, proxy => 1, conf => "snowflake.lease_ttl = '$ttl s'\n");

		@{$server}{qw(what why mode)} = @{ $ways[$i] };
		push @servers, $server;
	}
	my ($slow, $locked) = @servers;
	wait_number($locked->{node});
	command($slow, q|create('small', step => 20)|);
	command($slow, q|create('big', step => 1000000)|);

	# slow
	set_proxy($_->{proxy}, 'delay 200') foreach @servers;
	my @draws = map {
		draw_on($_, 'small', delay => 0, max_wait => '1min')
	} @servers;
	wait_drawn($_, 200) foreach @draws;
	is(join('', map { sqlstates($_) } @draws), '', 'slow answers: no errors');
	set_proxy($_->{proxy}, 'pass') foreach @servers;

	# A tag's row is locked in the registry: that is no reason for the lease to
	# end, which is renewed beside.
	my $node_waits = 'SELECT node_waits FROM pg_stat_snowflake';
	my $waits = $locked->{node}->safe_psql('postgres', $node_waits);
	my $ids = start_draw($locked->{node}, sessions => 2, delay => 5, max_wait => '1min');
	command($slow, "create('$_', step => 10)") foreach qw(locked beside);
	my $beside = draw_on($locked, 'beside', max_wait => '20s');
	wait_drawn($beside, 200);
	wait_held($locked, 'locked') if take($locked, 'locked', 2);
	my $lock = session($registry);
	$lock->query_safe(q|BEGIN; SELECT FROM snowflake_segment_tag WHERE tag = 'locked' FOR UPDATE|);
	my $lease_end = 'SELECT extract(epoch FROM lease_end) FROM pg_stat_snowflake';
	my $end = $locked->{node}->safe_psql('postgres', $lease_end);
	take($locked, 'locked', how_many(held($locked, 'locked')));
	stops($locked, 'locked', 'a row that is locked', qr/^The registry cannot give segments: canceling statement due to lock timeout\./);
	ok(poll(sub { $locked->{node}->safe_psql('postgres', $lease_end) > $end + 1.5 * $ttl }), 'the lease is renewed');
	wait_drawn($beside, 200);
	is(sqlstates($beside), '', 'for longer than the lease lasts: the numbers of another tag flow');
	ok($registry->poll_query_until('postgres', q|SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'snowflake_server' AND state = 'active' AND clock_timestamp() > state_change + '20 s')|),
		'nor do requests pile up there');
	$lock->query_safe('ROLLBACK');
	$lock->quit;
	flows($locked, 'locked', 'a row that is no more locked');

	# A tag that has numbers left is asked for again when nobody waits.
	command($slow, q|create('spare', step => 100)|);
	wait_held($locked, 'spare') if take($locked, 'spare', 20);
	$lock = session($registry);
	$lock->query_safe(q|BEGIN; SELECT FROM snowflake_segment_tag WHERE tag = 'spare' FOR UPDATE|);
	take($locked, 'spare', 120);
	ok($locked->{node}->poll_query_until('postgres', q|SELECT last_error LIKE '%lock timeout.' AND clock_timestamp() > last_error_ts + '10 s' FROM pg_stat_snowflake_segments WHERE tag = 'spare'|),
		'a tag that is locked and has numbers is not asked for again at once');
	$lock->query_safe('ROLLBACK');
	$lock->quit;
	wait_held($locked, 'spare');
	is(sqlstates($ids), '', 'all the while there are IDs');
	is($locked->{node}->safe_psql('postgres', $node_waits), $waits, 'and nobody waits for a node number');

	# All at once, each in its way.
	foreach my $server (@servers)
	{
		flows($server, 'small', $server->{what});
		poll(sub { take($server, 'small', 20); return held($server, 'small') == 2 }) or die "no two segments\n";
		draw_on($server, 'big', delay => 50);
	}
	wait_drawn($_->{draws}{big}[0], 10) foreach @servers;
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		set_proxy($server->{proxy}, $server->{mode});
		my $left = how_many(held($server, 'small'));
		is(scalar(take($server, 'small', $left)), $left, "$name: numbers go on");
	}
	foreach my $server (@servers)
	{
		my $name = $server->{what};

		stops($server, 'small', $name, qr/^$away.*$server->{why}/s);
		my $error = (call($server, q|SET snowflake.max_wait = '60s'; SET statement_timeout = '200ms'; SELECT snowflake_segment_nextval('small')|))[1];
		is($error->{sqlstate}, '57014', "$name: the wait can be interrupted");
	}

	# Without a connection nothing can have been done.
	my ($refused) = grep { $_->{what} eq 'refused' } @servers;
	my ($said, $error);
	poll(sub { ($said, $error) = try_command($refused, q|create('small')|); return $error->{detail} =~ $away });
	is($said, '55P03: cannot create segment tag "small": no answer came in time', 'refused: a command, an error');
	is($error->{hint}, 'The command was not carried out.', 'which says that it was not done');

	# Past the deadline what there is is not given out.
	foreach my $server (@servers)
	{
		stops($server, 'big', "$server->{what}, past the deadline", qr/^$away.*$server->{why}/s);
		$server->{count} = drawn_before($server->{node}, $server->{draws}{big}[0]);
	}
	sleep 1;
	foreach my $server (@servers)
	{
		is(drawn_before($server->{node}, $server->{draws}{big}[0]), $server->{count}, "$server->{what}, past the deadline: nothing is issued");
		is(sqlstates($server->{draws}{big}[0]), '55P03', "$server->{what}, past the deadline: errors");
		like($server->{node}->safe_psql('postgres', q|SELECT status, detail FROM snowflake_check() WHERE name = 'segments'|),
			qr/^error\|Sessions cannot draw numbers: the registry has not answered for longer than "snowflake\.lease_ttl", or than its own maximum\. $away.*$server->{why}/m,
			"$server->{what}, past the deadline: the check says so");

		# what those still under way draw then would be nobody's
		$server->{node}->poll_query_until('postgres', q(SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'draw')))
		  or die "statements do not end\n";
		set_proxy($server->{proxy}, 'pass');
	}
	foreach my $server (@servers)
	{
		my $last = max(all_numbers('big', $server));
		is(flows($server, 'big', "$server->{what}, and back"), $last + 1, "$server->{what}, and back: it goes on where it was");
		flows($server, 'small', "$server->{what}, and back");
	}

	# A command whose answer does not come.
	my $tag;
	($said, $error, $tag) = lose_answer($registry, $slow, 'flying', q(SET snowflake.max_wait = '2s'));
	is("$said / $error->{hint}", qq(55P03: cannot create segment tag "$tag": no answer came in time / The command may have been carried out, or may still be.),
		'a command under way: an error says that it may have been done');
	($said, $error) = try_command($slow, q|create('second')|);
	like($said, qr/^55P03: cannot create segment tag "second": no answer came in time$/, 'another command waits for it');
	is($error->{hint}, 'The command was not carried out.', 'and was not done');
	set_proxy($slow->{proxy}, 'pass');
	new_tag($slow, q|'second'|, 'and is done when that is possible');
	is(max_id($registry, $tag), 0, 'the first one was done');

	# one that waits for longer than the worker
	($said, $error, $tag) = lose_answer($registry, $slow, 'far', $patient);
	is($said, qq(08006: could not create segment tag "$tag": the registry did not answer), 'no answer: an error');
	is($error->{hint}, 'The command may have been carried out anyway.', 'no answer: it may have been done');
	set_proxy($slow->{proxy}, 'pass');
	new_tag($slow, q|'third'|, 'the next one works');

	# Killed and started again: nothing is lost, and it is where it was.
	take($_, 'small', 20) foreach @servers;
	my @before = (max_id($registry, 'small'), map { held($_, 'small') } @servers);
	kill9_postmaster($registry, all => 1);
	$registry->start;
	my ($state, $guard);
	poll(
		sub {
			($state, $guard) = split /\|/, $registry->safe_psql('postgres', <<'SQL');
SELECT state, greatest(closed_until, guarded_until) FROM snowflake_registry, snowflake_registry_place
WHERE started_at = pg_postmaster_start_time()
SQL
			return defined $guard;
		}) or die "nobody asks the registry\n";
	isnt($state, 'closed', 'the registry was killed: it is on its guard');
	poll(sub { $state = $registry->safe_psql('postgres', 'SELECT state FROM snowflake_registry'); return $state ne 'guarded' });
	is($state, 'open', 'and then open');
	flows($_, 'small', 'the registry was killed') foreach @servers;
	ok(poll(sub { max_id($registry, 'small') >= $before[0] }), 'nothing that it gave out is lost');
	ok(poll(sub { my $was = max_id($registry, 'small'); take($slow, 'small', 100); return max_id($registry, 'small') > $was }), 'more is given out');
	like($registry->safe_psql('postgres', 'SELECT closed_until FROM snowflake_registry_place'), qr/^(?:-infinity|\Q$guard\E)$/,
		'it was never closed, but that a guard may have run for its full time');

	# and down, with nothing left
	$registry->stop;
	try_take($slow, 'small', how_many(held($slow, 'small')));
	stops($slow, 'small', 'the registry is down', qr/^$away/);
	$registry->start;
	flows($slow, 'small', 'the registry is up');

	check(8, @servers);
	$_->{node}->stop foreach @servers;
	return;
}

#
# The registry is promoted, and has lost what it gave out last
#
sub test_promoted
{
	my $old = new_registry('registry_old', '', allows_streaming => 1);
	my $new = PostgreSQL::Test::Cluster->new('registry_new');

	$old->backup('standby');
	$new->init_from_backup($old, 'standby', has_streaming => 1);
	$new->start;

	# Each server has its own way to both.
	my $closed = 120;
	my $make = sub {
		my ($name, $number) = @_;
		my @proxies = map { start_proxy($_) } $old, $new;
		my $server = new_server(undef, $name, $number,
			conf => "snowflake.max_wait = '3s'\n"
			  # so long the new one is closed
			  . ($name eq 'second' ? "snowflake.lease_ttl = '$closed s'\n" : ''),
			conninfo => LeaseTest::conninfo(
				host => join(',', map { $_->{host} } @proxies),
				port => join(',', map { $_->{port} } @proxies)));

		@{$server}{qw(old new)} = @proxies;
		return $server;
	};
	my $number = 1;
	my ($a, $c, $cut, $stopped) = map { $make->($_, $number++) } qw(first second cut stopped);
	my @servers = ($a, $c, $cut, $stopped);

	command($a, "create('$_', step => 100)") foreach qw(all rest last);

	# What the standby knows of.
	take($a, 'all', 5);
	take($c, 'all', 5);
	take($a, 'rest', 5);
	take($cut, 'rest', 5);
	take($a, 'last', 5);
	take($stopped, 'last', 5);
	$old->wait_for_catchup($new, 'replay');
	$new->append_conf('postgresql.conf', "primary_conninfo = ''\n");
	reload_node($new);
	$old->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM pg_stat_replication)') or die 'still a standby';

	# What it does not.
	take($a, 'all', 150);
	take($_->[0], $_->[1], 15) foreach [ $cut, 'rest' ], [ $stopped, 'last' ];
	my %lost = map { $_->[1] => (wait_held($_->[0], $_->[1]))[1] } [ $cut, 'rest' ], [ $stopped, 'last' ];
	wait_held($a, 'all');
	my $all = max_id($old, 'all');

	set_proxy($_->{new}, 'refuse') foreach $cut, $stopped;
	kill9_postmaster($old, all => 1);
	$new->promote;

	# Those that are connected report.
	ok(poll(sub { max_id($new, 'all') >= $all }), 'what was lost is reported');
	$c->{node}->stop('immediate');
	start_node($c->{node});
	take($a, 'all', how_many(held($a, 'all')));
	my $error = stops($a, 'all', 'after the promotion', qr/^The registry was promoted or restored, and gives out no segments until \d{4}-\d\d-\d\d \S+\. Waited/);
	stops($c, 'all', 'started after the promotion', qr/^The registry was promoted or restored, and gives out no segments until /);
	is(max_id($new, 'all'), $all, 'nothing is given out');
	cmp_ok(flows($a, 'all', 'later'), '>', $all, 'later: above what was reported');
	cmp_ok(flows($c, 'all', 'later'), '>', $all, 'later: also where it was started meanwhile');

	# Those that are not stop, and what they have is given out again.
	stops($cut, 'rest', 'a server that is cut off', qr/^$away/);
	foreach my $tag (qw(rest last))
	{
		take($a, $tag, 300);
		is(scalar(grep { $_ >= $lost{$tag}[0] && $_ <= $lost{$tag}[1] } all_numbers($tag, $a)), 100, "$tag: what was lost is given out again");
	}
	set_proxy($_, 'pass') foreach @{$cut}{qw(old new)};
	cmp_ok(flows($cut, 'rest', 'a server that comes back'), '>', $lost{rest}[1], 'a server that comes back: not what is another one\'s by now');
	is(scalar(take($cut, 'rest', 200)), 200, 'and go on');

	# One that is stopped meanwhile begins with others.
	$stopped->{node}->stop;
	set_proxy($_, 'pass') foreach @{$stopped}{qw(old new)};
	start_node($stopped->{node});
	flows($stopped, 'last', 'a server that stopped');
	is(scalar(take($stopped, 'last', 200)), 200, 'and go on');

	# The old primary is there again, and the new one is not.
	$old->start;
	set_proxy($a->{new}, 'refuse');
	set_proxy($c->{new}, 'refuse');
	my ($said);
	try_take($a, 'all', how_many(held($a, 'all')));
	stops($a, 'all', 'the old primary', qr{^$away.*it is at \d+/00000001/\S+, and was at \d+/00000002/});
	poll(sub { ($said, $error) = try_command($a, q|create('old')|); return $said =~ /^:|^08006/ || $error->{detail} =~ /it is at/ });
	isnt($said, ': ', 'the old primary: no command is done there');
	is(max_id($old, 'old'), '', 'the old primary: it has no such tag');
	$old->stop;
	set_proxy($_->{new}, 'pass') foreach $a, $c;
	flows($a, 'all', 'the new primary again');

	# Restored, and nothing is lost: it can be told so.
	$new->safe_psql('postgres', q|UPDATE snowflake_registry_place SET place = 'elsewhere', closed_until = now() + '1 h'|);
	poll(sub { $new->safe_psql('postgres', q|SELECT place <> 'elsewhere' FROM snowflake_registry_place|) eq 't' })
	  or die 'it is not closed';
	take($a, 'all', how_many(held($a, 'all')));
	stops($a, 'all', 'restored', qr/^The registry was promoted or restored, and gives out no segments until /);
	is($new->safe_psql('postgres', 'SELECT snowflake_open_registry()'), 't', 'it is opened');
	flows($a, 'all', 'opened');
	is($new->safe_psql('postgres', 'SELECT snowflake_open_registry()'), 'f', 'once');

	check(4, @servers);
	$_->{node}->stop foreach @servers;
	return;
}

# A copy of a server that is stopped: it has the same system identifier.
sub copy_node
{
	my ($node, $name) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $copy->data_dir);
	chmod 0700, $copy->data_dir;
	$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\n");
	return $copy;
}

#
# The registry was set back: a plain base backup of it, without recovery.signal,
# so that its timeline is the same
#
sub test_set_back
{
	my $registry = new_registry('registry_set_back', '', allows_streaming => 1);

	# so long it is closed
	my $closed = 80;
	my $number = 1;
	my ($told, $lost, $late, $new) = map {
		new_server($registry, "back_$_", $number++, proxy => 1,
			conf => "snowflake.max_wait = '3s'\n" . (/told|lost/ ? "snowflake.lease_ttl = '$closed s'\n" : ''))
	} qw(told lost late new);
	my @servers = ($told, $lost, $late, $new);
	my $state = q(SELECT closed_until > now(), guarded_until > now() FROM snowflake_registry_place);

	# Two buffers each: what is drawn is known at the backup.
	command($told, q|create('t', step => 100)|);
	take($told, 't', 1);
	my $reports = "SELECT reports FROM snowflake_segment_server WHERE reporter = '"
	  . $registry->safe_psql('postgres', 'SELECT reporter FROM snowflake_segment_server') . "'";
	foreach my $server ($told, $lost, $late)
	{
		take($server, 't', 15);
		wait_held($server, 't');
	}
	$registry->backup('before');
	my %given;
	foreach my $server ($lost, $late)
	{
		take($server, 't', 150);
		$given{ $server->{name} } = (wait_held($server, 't'))[1][1];
	}
	my $before = max_id($registry, 't');
	is($given{back_late}, $before, 'set back: the last segment is of the server that will be late');

	# They are cut off, and another server reports.
	set_proxy($_->{proxy}, 'refuse') foreach $lost, $late;
	my $written = $registry->safe_psql('postgres', $reports);
	ok(poll(sub { $registry->safe_psql('postgres', $reports) > $written }), 'set back: a report after that is written');
	$registry->stop('immediate');
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $registry->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($registry->backup_dir . '/before', $registry->data_dir);
	chmod 0700, $registry->data_dir;
	$registry->start;
	cmp_ok(max_id($registry, 't'), '<', $given{back_lost}, 'set back: the registry does not know of what it gave out');

	# Others get nothing of what it has forgotten, which goes on.
	stops($new, 't', 'set back', qr/^The registry was (?:started again|promoted or restored), and gives out no segments until /);
	try_take($lost, 't', 100);
	ok(poll(sub { return $registry->safe_psql('postgres', $state) eq 't|f' }), 'set back: it has closed');
	set_proxy($lost->{proxy}, 'pass');
	ok(poll(sub { max_id($registry, 't') >= $given{back_lost} }), 'set back: it learns of what it had forgotten');
	cmp_ok(flows($new, 't', 'set back'), '>', $given{back_lost}, 'set back: others get what is above that');

	# One that comes back so late that others may have what it had, has it no more,
	# also where it was told to take the registry for a new one.
	is(scalar(take($new, 't', 500)), 500, 'set back: all flows');
	cmp_ok(max(all_numbers('t', $new)), '>', $given{back_late}, 'set back: what was not reported is given out again');
	$late->{node}->safe_psql('postgres', 'SELECT snowflake_forget_registry()');
	set_proxy($late->{proxy}, 'pass');
	flows($late, 't', 'set back, and back late');
	is(scalar(take($late, 't', 300)), 300, 'set back, and back late: and go on');

	# Started again, with nothing lost: open as soon as all have reported.
	poll(sub { return $registry->safe_psql('postgres', $state) eq 'f|f' }) or die "it does not open\n";
	my $last = max(all_numbers('t', $told));
	# and keep what they have for as long as that may take
	$told->{node}->safe_psql('postgres', q(ALTER SYSTEM SET snowflake.lease_ttl = '10min'));
	reload_node($told->{node});
	ok(poll(sub { $registry->safe_psql('postgres', $reports =~ s/reports/hold >= '10min'/r) eq 't' }), 'started again: it has numbers for 10 minutes');
	$registry->stop;
	$registry->start;
	ok( poll(sub {
				return $registry->safe_psql('postgres', 'SELECT started_at = pg_postmaster_start_time() FROM snowflake_registry_place') eq 't';
			}),
		'started again: it is noticed');
	ok(poll(sub { return $registry->safe_psql('postgres', $state) eq 'f|f' }), 'started again: it opens');
	is(flows($told, 't', 'started again'), $last + 1, 'started again: who has numbers goes on with them');

	# Where no commit is confirmed, a server reports again and again, and takes no
	# more in vain.
	my $fetches = q(SELECT fetches FROM snowflake_segment_tag WHERE tag = 'vain');
	command($told, q|create('vain', step => 10)|);
	wait_held($told, 'vain') if take($told, 'vain', 2);
	$registry->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
	reload_node($registry);
	$written = $registry->safe_psql('postgres', $reports);
	take($told, 'vain', how_many(held($told, 'vain')));
	ok(poll(sub { $registry->safe_psql('postgres', $reports) > $written }), 'not confirmed: a segment is taken in vain');
	my $taken;
	($written, $taken) = map { $registry->safe_psql('postgres', $_) } $reports, $fetches;
	ok(poll(sub { $registry->safe_psql('postgres', $reports) >= $written + 3 }), 'not confirmed: it reports again and again');
	is($registry->safe_psql('postgres', $fetches), $taken, 'not confirmed: and takes nothing');
	$registry->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
	reload_node($registry);
	flows($told, 'vain', 'confirmed again');

	check(3, @servers);
	$_->{node}->stop foreach @servers;
	return;
}

#
# Servers are stopped
#
sub test_stops
{
	my $registry = new_registry('registry_stops');
	my %patient = (conf => "snowflake.max_wait = '4s'\n");
	my $a = new_server($registry, 'stops_a', 1, proxy => 1, %patient);
	my $b = new_server($registry, 'stops_b', 2, %patient);
	my @all = ($a, $b);

	# what it had is lost, and no more; others go on
	command($a, q|create('rare')|);
	take($_, 'rare', 1) foreach $b, $a;
	foreach my $stop (
		sub { $a->{node}->stop('fast') }, sub { $a->{node}->stop('smart') },
		sub { kill9_postmaster($a->{node}, all => 1) })
	{
		my @held = wait_held($a, 'rare');
		is(how_many(@held), 19, 'drawn once: 19 numbers are in memory');
		$stop->();
		start_node($a->{node});
		is(flows($a, 'rare', 'started'), $held[1][1] + 1, 'stopped: what it had is lost, and no more');
	}
	is((take($b, 'rare', 1))[0], 2, 'the other server goes on with what it has');

	# a copy of a server
	command($a, q|create('t', step => 100)|);
	take($a, 't', 5);
	$a->{node}->stop;
	my $copy = copy_node($a->{node}, 'stops_copy');
	start_node($_) foreach $copy, $a->{node};
	push @all, server('stops_copy', $copy);
	my @draws = map { draw_on($_, 't', delay => 0, max_wait => '1min') } @all;
	wait_drawn($_, 500) foreach @draws;
	is(join('', map { sqlstates($_) } @draws), '', 'a copy: all draw');

	# stopped and started in turn
	foreach my $server (@all[ 2, 0, 2 ])
	{
		$server->{node}->stop;
		start_node($server->{node});
		flows($server, 't', 'a copy is stopped and started');
	}
	$copy->stop;
	is(scalar(take($_, 't', 500)), 500, "$_->{name}: numbers flow") foreach $a, $b;

	check(6, @all);
	$_->{node}->stop foreach $a, $b;
	return;
}

#
# A registry in the cluster that it serves: it stops with its server
#
sub test_own
{
	my $node = leasing_node('own', 'dbname=nowhere');
	my $own = server('own', $node);

	$node->safe_psql('postgres', 'CREATE ROLE snowflake_server LOGIN');
	make_registry($node, 'registry');
	set_registry($own, registry_conninfo($node, dbname => 'registry'));
	wait_number($node);
	command($own, q|create('t', step => 100)|);
	take($own, 't');
	# its own connections do not keep it from stopping
	foreach my $mode ('smart', 'fast')
	{
		poll(sub { take($own, 't'); return held($own, 't') == 2 }) or die "no two segments\n";
		my @left = held($own, 't');
		$node->stop($mode);
		start_node($node);
		cmp_ok(flows($own, 't', "own: after a $mode shutdown"), '>', $left[1][1], "own, $mode: what it held is lost");
	}

	# with a number of its own as well
	$node->append_conf('postgresql.conf', "snowflake.node_id = 7\n");
	$node->stop;
	start_node($node);
	flows($own, 't', 'own: with snowflake.node_id');
	check(3, $own);
	$node->stop;
	return;
}

#
# The setting changes
#
sub test_settings
{
	my $registry = new_registry('registry_settings');
	make_registry($registry, 'other');
	my $server = new_server($registry, 'settings', 3, proxy => 1);
	my $node = $server->{node};
	my $proxy = $server->{proxy};
	my $last;

	# The same tag in three places, which can be told by its numbers.
	command($server, q|create('t', step => 50)|);
	$registry->safe_psql('other', q|SELECT snowflake_create_tag('t', 100001, 50, 1, 0, 9223372036854775807, NULL)|);
	take($server, 't', 10);
	wait_held($server, 't');

	# by another way
	set_registry($server, registry_conninfo($registry));
	set_proxy($proxy, 'refuse');
	is((take($server, 't'))[0], 11, 'by another way: it goes on');
	take($server, 't', 100);
	is((take($server, 't'))[0], 112, 'by another way: segments come');

	# to another one, and back
	set_registry($server, registry_conninfo($registry, dbname => 'other'));
	ok(poll(sub { my ($n) = take($server, 't'); return $n && $n > 100000 }), 'another registry: its numbers come');
	is(command($server, q|create('u')|), ': ', 'another registry: a tag is created there');
	is(max_id($registry, 'u', 'other'), 0, 'where it is');
	$registry->safe_psql('postgres', 'UPDATE snowflake_registry_place SET changes = 5000');
	set_registry($server, registry_conninfo($registry));
	push @{ $server->{numbers}{back} }, @{ delete $server->{numbers}{t} };
	ok(poll(sub { my ($n) = take($server, 't'); return $n && $n < 100000 }), 'and back');
	push @{ $server->{numbers}{first} }, grep { $_ < 100000 } @{ $server->{numbers}{back} };
	push @{ $server->{numbers}{first} }, grep { $_ < 100000 } @{ $server->{numbers}{t} };
	delete @{ $server->{numbers} }{qw(t back)};

	# home
	set_registry($server, '');
	ok(poll(sub { command($server, q|create('t', start => 200001, step => 1000)|) =~ /^: / }), 'no registry: a tag at home');
	ok(poll(sub { my ($n) = take($server, 't'); return $n && $n > 200000 }), 'no registry: the numbers of the home database');
	my @home = grep { $_ > 200000 } @{ $server->{numbers}{t} };

	# from which other servers may have what it holds
	set_registry($server, 'host=/nowhere');
	stops($server, 't', 'a registry that is not there', $away);
	set_registry($server, '');
	ok(poll(sub { my ($n) = take($server, 't'); return $n && $n > 200000 }), 'no registry once more: the numbers of the home database');
	@home = grep { $_ > 200000 } @{ $server->{numbers}{t} };
	push @{ $server->{numbers}{first} }, grep { $_ < 100000 } @{ delete $server->{numbers}{t} };
	set_registry($server, registry_conninfo($registry));
	stops($server, 't', 'a registry again, with lower numbers', $lower, '55000');
	new_start($server, 't', 300001);
	ok(poll(sub { my ($n) = take($server, 't'); return $n && $n > 300000 }), 'a registry again');
	push @home, grep { $_ > 200000 && $_ < 300000 } @{ $server->{numbers}{t} };
	push @{ $server->{numbers}{first} }, grep { $_ > 300000 } @{ delete $server->{numbers}{t} };
	$server->{numbers}{home} = \@home;

	# while a command is under way
	set_proxy($proxy, 'pass');
	set_registry($server, proxy_conninfo($proxy));
	lose_answer($registry, $server, 'w', q(SET snowflake.max_wait = '2s'));
	set_registry($server, registry_conninfo($registry));
	new_tag($server, q|'x'|, 'the setting changed with a command under way: the next one works');
	set_proxy($proxy, 'pass');

	# The database has another name: it is the same place.
	my ($before) = take($server, 't');
	push @{ $server->{numbers}{first} }, @{ delete $server->{numbers}{t} };
	$registry->safe_psql('postgres', 'CREATE DATABASE beside');
	$registry->safe_psql('beside', <<'SQL');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'snowflake_server';
ALTER DATABASE postgres ALLOW_CONNECTIONS false;
SQL
	$registry->safe_psql('beside', q|SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'|);
	$registry->poll_query_until('beside', q|SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'postgres')|);
	$registry->safe_psql('beside', 'ALTER DATABASE postgres RENAME TO renamed; ALTER DATABASE renamed ALLOW_CONNECTIONS true');
	set_registry($server, registry_conninfo($registry, dbname => 'renamed'));
	my $now = flows($server, 't', 'renamed');
	is($now, $before + 1, 'renamed: it goes on where it was');
	my $was = max_id($registry, 't', 'renamed');
	ok(poll(sub { take($server, 't', 50); return max_id($registry, 't', 'renamed') > $was }), 'renamed: segments come');
	is($registry->safe_psql('renamed', 'SELECT closed_until FROM snowflake_registry_place'), '-infinity', 'renamed: it is the same place');
	push @{ $server->{numbers}{first} }, @{ delete $server->{numbers}{t} };

	# Functions that only have these names: numbers to divide by 0, no place.
	$registry->safe_psql('renamed', 'CREATE DATABASE nonsense');
	$registry->safe_psql('nonsense', <<'SQL');
CREATE EXTENSION snowflake_registry;
SELECT format('ALTER FUNCTION %s RENAME TO the_real_one', oid::regprocedure)
FROM pg_proc WHERE proname = 'snowflake_take_segments' \gexec
SQL
	foreach my $columns (q(1, 10, 1, 0, 0, NULL::bigint, 10, NULL::timestamptz, false, hold, '1/00000001/1', 1),
		'1, 10, 1, 1, 0, NULL::bigint, 10, NULL::timestamptz, false, hold, NULL, 1')
	{
		$registry->safe_psql('nonsense', <<SQL);
CREATE OR REPLACE FUNCTION snowflake_take_segments(protocol integer, tags text[], incarnations uuid[], seen bigint[], lengths bigint[], hold interval,
    reporter uuid, reports bigint, place text)
RETURNS SETOF snowflake_segment_answer
LANGUAGE sql AS \$\$ SELECT 1, t, gen_random_uuid(), $columns FROM unnest(tags) AS t \$\$;
SQL
		set_registry($server, registry_conninfo($registry, dbname => 'nonsense'));
		stops($server, 'none', "nonsense, $columns", qr/it did not understand the request/);
	}
	unlike(slurp_file($node->logfile), qr/terminated by signal/, 'nonsense: no more comes of it');

	check(6, $server);
	$node->stop;
	return;
}

#
# From the home database to a registry, and back
#
sub test_home
{
	my $registry = new_registry('registry_home');
	my $server = new_server($registry, 'home', 4);
	my $node = $server->{node};
	my $home = 'FROM snowflake_registry.snowflake_segment_tag WHERE tag';
	my $there = registry_conninfo($registry);
	my $create = sub {
		$registry->safe_psql('postgres', "SELECT snowflake_create_tag('$_[0]', $_[1], 10, 1, 0, 9223372036854775807, NULL)");
	};

	# A tag is created there above the numbers in use, as the manual says.
	set_registry($server, '');
	new_tag($server, q|'customer', start => 10001|, 'home: a tag');
	take($server, 'customer', 20);
	set_registry($server, $there);
	new_tag($server, q|'customer', start => 10031|, 'registry: the tag');
	take($server, 'customer', 20);
	set_registry($server, '');
	ok(poll(sub { !try_take($server, 'customer', 30) && $server->{error}{sqlstate} eq '42704' }), 'home again: the tag is not there');

	# Of a registry's numbers only the first ones are known here.
	like((command($server, q|create('customer')|))[0], qr/^55000: segment tag "customer" cannot start at 1$/, 'not created anew without a start');
	my ($said, $refusal) = command($server, q|create('customer', start => 10031)|);
	is($said, '55000: segment tag "customer" cannot start at 10031', 'nor with one that the registry gave');
	like($refusal->{detail}, qr/^A registry gave numbers of this tag\.$/, 'as the error says');
	new_tag($server, q|'customer', start => 10101|, 'created with a higher one');
	is((take($server, 'customer', 30))[0], 10101, 'where it begins');
	set_registry($server, $there);
	new_start($server, 'customer', 10501);
	cmp_ok(flows($server, 'customer', 'registry again'), '>', 10500, 'above what the home database gave');
	set_registry($server, '');

	# It was made there by another server, and its numbers are lower.
	new_tag($server, "'order'", 'home: another tag');
	take($server, 'order', 30);
	my $max_id = $node->safe_psql('postgres', "SELECT max_id $home = 'order'");
	$create->('order', 1);
	set_registry($server, $there);
	stops($server, 'order', 'registry: lower numbers', $lower, '55000');
	is(max_id($registry, 'order'), 0, 'none is given out in vain');
	is($node->safe_psql('postgres', "SELECT dropped_at IS NULL AND max_id = $max_id $home = 'order'"), 't', 'home still has the tag');
	$node->stop;
	start_node($node);
	my $error = stops($server, 'order', 'started again: lower numbers', $lower, '55000');
	cmp_ok(max_id($registry, 'order'), '<=', 10, 'one segment is given out in vain at most');
	my ($statement) = $error->{detail} =~ /Run (SELECT .*?\))\. /;
	is($statement, "SELECT snowflake_segment_alter('order', start => @{[ $max_id + 1 ]})", 'the error says what to do');
	is((call($server, "$patient; $statement"))[1]{sqlstate}, '', 'which is done');
	cmp_ok(flows($server, 'order', 'higher numbers'), '>', $max_id, 'higher numbers');
	is($node->safe_psql('postgres', "SELECT dropped_at IS NOT NULL AND max_id > $max_id $home = 'order'"), 't', 'home has dropped the tag');

	# Where the home database cannot be looked at, other tags go on.
	new_tag($server, "'known', step => 1", 'registry: a tag');
	take($server, 'known', 1);
	my $locker = session($node);
	$locker->query_safe('BEGIN; LOCK snowflake_registry.snowflake_segment_tag');
	$create->('new', 1);
	stops($server, 'new', 'home is locked', qr/^The home database cannot say which numbers it has given out: .*lock timeout\. /);
	my @known = take($server, 'known', 20);
	is("@known", join(' ', 2 .. 21), 'home is locked: a known tag goes on');
	cmp_ok(max_id($registry, 'new'), '<=', 10, 'one segment is given out in vain at most');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	flows($server, 'new', 'home is not locked any more');

	# Only the row of a tag is locked: that harms no other, and no numbers are given
	# out in vain while it lasts.
	set_registry($server, '');
	foreach my $tag (qw(mine yours))
	{
		new_tag($server, "'$tag'", 'home: two tags');
		take($server, $tag, 5);
		$create->($tag, 101);
	}
	$locker = session($node);
	$locker->query_safe(q|BEGIN; SELECT FROM snowflake_registry.snowflake_segment_tag WHERE tag = 'mine' FOR UPDATE|);
	set_registry($server, $there);
	my $mine = draw_on($server, 'mine', sessions => 2, max_wait => '1s');
	is(flows($server, 'yours', 'home has locked another tag'), 101, 'with the first number');
	my $ticks = ticks($server);
	my $asked = $node->safe_psql('postgres', q|SELECT last_error_ts FROM pg_stat_snowflake_segments WHERE tag = 'mine'|);
	ok($node->poll_query_until('postgres', "SELECT last_error_ts > '$asked'::timestamptz + '5 s' FROM pg_stat_snowflake_segments WHERE tag = 'mine'"), 'it is asked for again');
	cmp_ok(ticks($server) - $ticks, '<', 100, 'with pauses');
	stops($server, 'mine', 'home has locked it', qr/^The home database cannot say which numbers it has given out: the tag is locked there\. /);
	cmp_ok(max_id($registry, 'mine'), '<=', 110, 'one segment is given out in vain at most');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	wait_drawn($mine, 20);
	stop_draw($mine);

	# A registry in the same cluster is another database.
	set_registry($server, '');
	new_tag($server, q|'beside'|, 'home: a third tag');
	take($server, 'beside', 25);
	$node->safe_psql('postgres', 'CREATE ROLE snowflake_server LOGIN');
	make_registry($node, 'registry');
	$node->safe_psql('registry', q|SELECT snowflake_create_tag('beside', 1, 10, 1, 0, 9223372036854775807, NULL)|);
	set_registry($server, registry_conninfo($node, dbname => 'registry'));
	stops($server, 'beside', 'a registry beside it: lower numbers', $lower, '55000');
	new_start($server, 'beside', 1001);
	cmp_ok(flows($server, 'beside', 'a registry beside it'), '>', 1000, 'higher numbers');

	check(5, $server);
	$node->stop;
	return;
}

# SNOWFLAKE_SEGMENT_TESTS='away,stops' runs some only.
my %tests = (
	'together' => \&test_together,
	'commands' => \&test_commands,
	'away' => \&test_away,
	'promoted' => \&test_promoted,
	'set back' => \&test_set_back,
	'stops' => \&test_stops,
	'own' => \&test_own,
	'home' => \&test_home,
	'settings' => \&test_settings);
in_parallel(
	map { $_ => $tests{$_} // die "there is no test $_\n" }
	  split /,/, $ENV{SNOWFLAKE_SEGMENT_TESTS} // join ',', sort keys %tests);
done_testing();
