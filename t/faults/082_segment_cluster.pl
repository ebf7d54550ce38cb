# Numbers out of segments, on four servers with one registry, while servers, the
# registry and the network between them fail in random order: ten million numbers
# of twenty tags, none of which comes twice, all of which increase on each
# server, and whose gaps are no larger than what a server held when it failed.
#
# The registry logs which server it gave which segment, over which connection.
# So each missing number is accounted for.  It is in a segment that
#
#	- a server had in one of its two buffers when it crashed or was stopped, or
#	  had no answer for lease_ttl while the registry was restarted, or has there
#	  in the end, and of which it gave out nothing above that number;
#	- never arrived, since the connection was lost in that request;
#
# or it was drawn by a statement whose result never arrived, as its connection
# was lost, or ended before: no more than the statement asked for.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many rounds, SNOWFLAKE_FAULT_SEED repeats
# their order, SNOWFLAKE_FAULT_NUMBERS sets how many numbers at least.

use strict;
use warnings FATAL => 'all';

use File::Path qw(rmtree);
use List::Util qw(any max min shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 8;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || int rand 2**31;
my $wanted = $ENV{SNOWFLAKE_FAULT_NUMBERS} || 10_000_000;

my $at_once = 3;    # faults of servers

my $ttl = $LeaseTest::ttl;
my $expired = $ttl + 0.7;    # after so many seconds no number is drawn
my $batch = 400;
my $small = [ '--wal-segsize', 1 ];    # what is copied

# A number n of tag t is recorded as n * 32 + t, as draw.c records one integer.
my @tags = map {
	{
		name => "tag $_",
		step => (50, 200, 1000, 5000)[ $_ % 4 ],
		delta => (1, 1, 1, 2, 3)[ $_ % 5 ],
		remainder => (0, 0, 0, 1, $_ % 3)[ $_ % 5 ],
		seen => ''    # a bit for each number, by its index
	}
} 0 .. 19;

# Which tag a statement draws.  Some are drawn much more than others.
my $some_tag =
  sprintf '(SELECT floor(%d * random() ^ 1.5)::int AS t OFFSET 0) AS r', scalar @tags;
my $same_tag =
  sprintf '(SELECT extract(epoch FROM now())::int %% %d AS t OFFSET 0) AS r', scalar @tags;
my %draws = (
	batches => {
		at_once => $batch,
		options => { sessions => 3, delay => 70 },
		sql => "SELECT snowflake_segment_nextval('tag ' || t, $batch) << 5 | t FROM $some_tag"
	},

	# one by one, and all sessions of the same tag
	crowds => {
		at_once => $batch,
		options => { sessions => 3, delay => 70 },
		sql => "SELECT snowflake_segment_nextval('tag ' || t) << 5 | t "
		  . "FROM $same_tag, generate_series(1, $batch)"
	},

	# one session, so that the order they are drawn in is known
	singles => {
		at_once => 1,
		options => { sessions => 1, delay => 3 },
		sql => "SELECT snowflake_segment_nextval('tag ' || t) << 5 | t FROM $some_tag"
	});

# The faults.  Each returns for how many seconds it lasts, and how it is healed.
my %of_server = (
	'kill -9 of a server' => \&server_killed,
	'kill -9 of a backend' => \&backend_killed,
	'kill -9 of the worker' => \&worker_killed,
	'immediate shutdown of a server' => sub { return server_stopped('immediate') },
	'fast shutdown of a server' => sub { return server_stopped('fast') },
	'kill -9 of a server soon after its start' => \&server_killed_soon,
	'server frozen' => \&server_frozen,
	'server cut off for long' => \&cut_off_for_long,
	'network cut' => sub { return network('refuse') },
	'network a black hole' => sub { return network('hole') },
	'network late' => sub { return network('hold') },
	'answers of the registry late' => sub { return network('delay 500') },
	'answers of the registry lost' => sub { return network('hold answers') });
my %of_registry = (
	'kill -9 of the registry' => \&registry_killed,
	'registry restarted' => \&registry_restarted,
	'registry frozen' => \&registry_frozen);
my $failover = 'failover that loses segments';

my (@servers, %registry, %busy, %queue, %done, %errors, @problems);
my ($numbers, $duplicates, $disorder) = (0, 0, 0);
my $copies = 0;

sub pick { return $_[ rand @_ ]; }

#
# The registry: a primary and, for a failover, a standby that nobody waits for
#

# What it has promised must be durable whatever its settings say.
sub new_segment_registry
{
	my $registry = new_registry('registry_a', <<CONF,
synchronous_commit = off
wal_keep_size = '64MB'
log_statement = none
autovacuum = off
min_wal_size = '2MB'
max_wal_size = '16MB'
max_connections = 100
CONF
		allows_streaming => 1,
		extra => $small);

	# Who gets what, also where that is lost afterwards: to the server's log.
	$registry->safe_psql('postgres', <<'SQL');
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO snowflake_server;

CREATE FUNCTION note(what text, tag text, first bigint, last bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE LOG 'noted % "%" % %, server % pid % since % asked % at % xid %', what, tag, first, last,
		substring(current_setting('application_name'), ':(\d+) '), pg_backend_pid(),
		(SELECT extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()),
		extract(epoch FROM statement_timestamp()),
		extract(epoch FROM clock_timestamp()), pg_current_xact_id();
END$$;

CREATE FUNCTION note_segment() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM note(CASE WHEN new.fetches > old.fetches THEN 'given' ELSE 'reported' END,
		new.tag, old.max_id + 1, new.max_id);
	RETURN NULL;
END$$;
CREATE TRIGGER note AFTER UPDATE ON snowflake_segment_tag
	FOR EACH ROW WHEN (new.max_id > old.max_id) EXECUTE FUNCTION note_segment();

CREATE FUNCTION note_place() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM note('moved', '', 0, 0);
	RETURN NULL;
END$$;
CREATE TRIGGER note AFTER UPDATE ON snowflake_registry_place
	FOR EACH ROW WHEN (new.place <> old.place) EXECUTE FUNCTION note_place();
SQL
	return $registry;
}

# What it has logged, on both sides of each failover: a list in order of time.
sub read_notes
{
	my @notes;
	my %name = map { $_->{node}->port => $_->{name} } @servers;

	foreach my $log (map { slurp_file($_->logfile) } @registry{qw(primary standby)})
	{
		while ($log =~ /noted (\w+) "(?:tag (\d+))?" (\d+) (\d+), server (\w+) pid (\d+) since ([\d.]+) asked ([\d.]+) at ([\d.]+) xid (\d+)/g)
		{
			push @notes,
			  {
				what => $1,
				tag => $2,
				first => $3,
				last => $4,
				server => $name{$5},
				connection => "$6 $7",
				connected => $7,
				asked => $8,
				time => $9,
				request => "$6 $7 $10"
			  };
		}
	}
	return sort { $a->{time} <=> $b->{time} } @notes;
}

sub registry_answers
{
	my ($sql) = @_;

	return map { [ split /\|/ ] } split /\n/,
	  $registry{primary}->safe_psql('postgres', $sql);
}

#
# Servers, each with its own way to the registry
#

sub new_server
{
	my ($name, $number) = @_;
	my @proxies = map { start_proxy($_) } @registry{qw(primary standby)};
	my $conninfo = join ' ', 'dbname=postgres user=snowflake_server',
	  map { my $key = $_; "$key=" . join ',', map { $_->{$key} } @proxies }
	  qw(host port);
	my $node = snowflake_node($name, <<CONF, extra => $small);
snowflake.node_id = $number
snowflake.registry = '$conninfo'
snowflake.lease_ttl = '${ttl}s'
snowflake.max_wait = '500ms'
max_connections = 30
shared_buffers = 16MB
autovacuum = off
log_statement = none
restart_after_crash = on
min_wal_size = '2MB'
max_wal_size = '16MB'
CONF

	return {
		name => $name,
		node => $node,
		proxies => \@proxies,
		drawing => [],
		high => [],       # by tag, the highest number of all starts before
		crashes => [],    # when what it held was lost
		unknown => 0,     # numbers whose statement may have drawn them
		missing => 0      # numbers that only this explains
	};
}

sub set_network
{
	my ($server, $mode) = @_;

	set_proxy($_, $mode) foreach @{ $server->{proxies} };
	return;
}

sub start_server
{
	my ($server) = @_;

	$server->{node}->start;
	begin_draws($server);
	return;
}

sub begin_draws
{
	my ($server) = @_;

	foreach my $kind (sort keys %draws)
	{
		my $draw = start_draw(
			$server->{node},
			%{ $draws{$kind}{options} },
			sql => $draws{$kind}{sql});

		$draw->{kind} = $kind;
		push @{ $server->{drawing} }, $draw;
	}
	return;
}

# When the server is down, or nothing more is to be drawn.
sub end_draws
{
	my ($server) = @_;
	my (@lowest, @highest);

	foreach my $draw (splice @{ $server->{drawing} })
	{
		my $report = stop_draw($draw);
		my $at_once = $draws{ $draw->{kind} }{at_once};

		read_draw($server, $draw, \@lowest, \@highest);
		$numbers += $report->{ids};
		$server->{unknown} += $at_once * ($report->{lost} + $report->{unfinished});
		$errors{$_} //= $report->{errors}{$_}[1] foreach keys %{ $report->{errors} };
		unlink $draw->{ids};
	}
	foreach my $t (0 .. $#tags)
	{
		my $high = $server->{high}[$t];

		next unless defined $lowest[$t];
		push @problems,
		  "$server->{name} drew $lowest[$t] of tag $t, and before its last start $high"
		  if defined $high && $lowest[$t] <= $high;
		$server->{high}[$t] = $highest[$t];
	}
	return;
}

sub read_draw
{
	my ($server, $draw, $lowest, $highest) = @_;
	my $is_one = $draw->{kind} eq 'singles';
	my @last;

	open my $fh, '<', $draw->{ids} or die "$draw->{ids}: $!";
	while (my $line = <$fh>)
	{
		my ($session, $value) = split / /, $line;
		my ($t, $number) = ($value & 31, $value >> 5);
		my $last = \$last[ $is_one ? 0 : $session ][$t];

		if (!defined $$last)
		{
			$lowest->[$t] = $number
			  if !defined $lowest->[$t] || $number < $lowest->[$t];
		}
		elsif ($number <= $$last)
		{
			$disorder++;
			diag "$server->{name} $draw->{kind} session $session: tag $t $number after $$last"
			  if $disorder <= 5;
		}
		$$last = $number;
		note_number($server, $t, $number);
	}
	close $fh;
	foreach my $session (grep { defined } @last)
	{
		foreach my $t (0 .. $#tags)
		{
			my $number = $session->[$t];

			$highest->[$t] = $number
			  if defined $number && $number > ($highest->[$t] // 0);
		}
	}
	return;
}

sub note_number
{
	my ($server, $t, $number) = @_;
	my $tag = $tags[$t];
	my $index = ($number - $tag->{remainder}) / $tag->{delta};

	if ($index != int $index)
	{
		push @problems, "$server->{name}: $number of tag $t is not congruent"
		  if @problems < 5;
		return;
	}
	$tag->{seen} .= "\0" x (1 << 17) while $index >= 8 * length $tag->{seen};
	if (vec $tag->{seen}, $index, 1)
	{
		$duplicates++;
		diag "$server->{name} drew $number of tag $t, which was drawn before"
		  if $duplicates <= 5;
	}
	vec($tag->{seen}, $index, 1) = 1;
	return;
}

sub drawn_by
{
	my ($server) = @_;

	return sum0 map { drawn($_) } @{ $server->{drawing} };
}

sub wait_flow
{
	my ($server) = @_;

	foreach my $draw (@{ $server->{drawing} })
	{
		my $least = drawn($draw) + 2 * $draws{ $draw->{kind} }{at_once};

		wait_for(sub { return drawn($draw) >= $least })
		  or die "$server->{name} draws no numbers\n";
	}
	return;
}

# What it has in its two buffers is lost from now on: what it was given on
# connections up to now.  To be called when it is dead, or before it is killed
# where it starts again by itself.
sub crashes
{
	my ($server) = @_;

	push @{ $server->{crashes} }, time();
	return;
}

# It had no answer since then, and will have one soon: perhaps for so long that it
# forgets what it had, if the registry was started again or has failed over.
sub silent
{
	my ($server, $since) = @_;

	push @{ $server->{crashes} }, $since
	  if $busy{registry} && time() - $since > $ttl - 3;
	return;
}

#
# Faults of servers
#

# A server that has no other fault in this round.
sub choose
{
	my $server = pick(grep { !$busy{ $_->{name} } } @servers);

	$busy{ $server->{name} } = 1;
	return $server;
}

sub server_killed
{
	my $server = choose();

	kill9_postmaster($server->{node}, all => rand() < 0.5);
	crashes($server);
	end_draws($server);
	return (rand 1, sub { start_server($server) });
}

# The server starts anew by itself, in both.
sub backend_killed
{
	my $server = choose();
	my $worker = services_pid($server->{node});
	my $pid = busy_backend($server->{node});

	crashes($server);
	kill 'KILL', $pid;
	services_pid($server->{node}, $worker);
	return (0, sub { });
}

sub worker_killed
{
	my $server = choose();
	my $pid = services_pid($server->{node});

	crashes($server);
	kill 'KILL', $pid;
	services_pid($server->{node}, $pid);
	return (0, sub { });
}

sub server_stopped
{
	my ($mode) = @_;
	my $server = choose();

	$server->{node}->stop($mode);
	crashes($server);
	end_draws($server);
	return (rand 1, sub { start_server($server) });
}

# What it was given first has hardly been drawn from, and the registry was not told.
sub server_killed_soon
{
	my $server = choose();

	$server->{node}->stop('fast');
	crashes($server);
	end_draws($server);
	return (
		rand 1,
		sub {
			start_server($server);
			usleep(1_000_000);
			kill9_postmaster($server->{node}, all => 1);
			crashes($server);
			end_draws($server);
			start_server($server);
		});
}

my @frozen;

sub freeze
{
	my ($node) = @_;
	my @pids = server_processes($node);

	kill 'STOP', @pids;
	push @frozen, @pids;
	return sub { kill 'CONT', @pids; return; };
}

END
{
	kill 'CONT', @frozen;
}

# For longer than lease_ttl, or not.
sub server_frozen
{
	my $server = choose();
	my $since = time();
	my $thaw = freeze($server->{node});

	return (pick(3, $expired), sub { silent($server, $since); $thaw->(); });
}

# It goes on with what it has, for lease_ttl and no longer.
sub cut_off_for_long
{
	my $server = choose();
	my $since = time();

	set_network($server, pick('refuse', 'hole', 'hold', 'hold answers'));
	return (
		$expired,
		sub {
			my @drawing = ($server->{node}, @{ $server->{drawing} });

			# one of each tag, now
			my (undef, $now) = $server->{node}->psql('postgres',
				join('', 'SET snowflake.max_wait = 0;',
					map { "SELECT snowflake_segment_nextval('$_->{name}');" } @tags),
				on_error_stop => 0);
			push @problems, "$server->{name}, cut off for long, draws $now"
			  if $now ne '';

			my $before = drawn_before(@drawing);

			usleep(500_000);
			my $more = drawn_before(@drawing) - $before;
			push @problems, "$server->{name}, cut off for long, draws $more numbers"
			  if $more > 0;
			silent($server, $since);
			set_network($server, 'pass');
		});
}

sub network
{
	my ($mode) = @_;
	my $server = choose();
	my $since = time();

	set_network($server, $mode);
	return (2 + rand 3, sub { silent($server, $since); set_network($server, 'pass'); });
}

#
# Faults of the registry
#

sub registry_killed
{
	my $since = time();

	kill9_postmaster($registry{primary}, all => 1);
	return (rand 2, sub { start_registry($since) });
}

sub registry_restarted
{
	my $since = time();

	$registry{primary}->stop(pick(qw(fast immediate)));
	return (rand 2, sub { start_registry($since) });
}

sub start_registry
{
	my ($since) = @_;

	$registry{primary}->start;
	silent($_, $since) foreach @servers;
	return;
}

sub registry_frozen
{
	return (2 + rand 3, freeze($registry{primary}));
}

# The standby is away for a while.  So it does not know which segments were
# given out last, and gives none until all servers have reported what they have,
# or are silent for lease_ttl.  Meanwhile they go on with that.
sub failover
{
	my ($primary, $standby) = @registry{qw(primary standby)};
	my $backup = 'backup' . ++$copies;

	$primary->backup($backup);
	rmtree($standby->data_dir);
	$standby->init_from_backup($primary, $backup, has_streaming => 1);
	rmtree($primary->backup_dir . "/$backup");
	$standby->start;
	$primary->wait_for_catchup($standby);
	$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
	reload_node($standby);
	$primary->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM pg_stat_replication)')
	  or die "still a standby\n";

	# what it will not know of
	my $least = fetches() + 20;
	wait_for(sub { return fetches() >= $least }) or die "no segments are fetched\n";
	my $since = time();
	kill9_postmaster($primary, all => 1);

	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
	  or die "no promotion\n";
	@registry{qw(primary standby)} = ($standby, $primary);
	silent($_, $since) foreach @servers;
	return;
}

sub fetches
{
	return (registry_answers('SELECT sum(fetches) FROM snowflake_segment_tag'))[0][0];
}

#
# The plan: in each round several faults of servers at once, and in each second
# one of the registry too.  Now and then a failover instead.
#

sub next_of
{
	my ($faults) = @_;
	my $queue = $queue{$faults} //= [];

	push @{$queue}, shuffle sort keys %{$faults} if !@{$queue};
	return shift @{$queue};
}

sub plan_round
{
	my ($round) = @_;

	return ($failover) if $round % 4 == 2;
	return ((map { next_of(\%of_server) } 1 .. $at_once),
		$round % 2 ? next_of(\%of_registry) : ());
}

#
# One round: some faults at once, or a failover and nothing else.  A server that
# crashes or is cut off before it has reported what a failover lost leaves nobody
# who knows of that: then numbers may come twice, if the standby is not
# synchronous.
#
sub run_round
{
	my ($round, @names) = @_;
	my $began = time();
	my @applied;

	%busy = (registry => any { $of_registry{$_} || $_ eq $failover } @names);
	foreach my $name (@names)
	{
		$done{$name}++;
		if ($name eq $failover)
		{
			failover();
			next;
		}
		my ($seconds, $heal) = ($of_server{$name} // $of_registry{$name})->();
		push @applied, { until => time() + $seconds, heal => $heal };
		usleep(rand 500_000);
	}
	foreach my $fault (sort { $a->{until} <=> $b->{until} } @applied)
	{
		usleep(1_000_000 * max(0, $fault->{until} - time()));
		$fault->{heal}->();
	}

	# The registry opens, and gives some out.  All servers have reached it.
	my $least = fetches() + 8;
	my $healed = time();
	my $requests = <<SQL;
SELECT count(DISTINCT application_name) FROM pg_stat_activity
WHERE application_name LIKE 'snowflake segments %' AND query_start > to_timestamp($healed)
SQL
	wait_for(
		sub {
			usleep(200_000);
			return fetches() >= $least && (registry_answers($requests))[0][0] == @servers;
		}) or die "no segments are fetched\n";
	wait_flow($_) foreach @servers;

	is(join('; ', @problems), '', "round $round: " . join ', ', @names);
	@problems = ();
	note sprintf '%.1f s', time() - $began;
	return;
}

#
# Accounting for what is missing
#

# The spans of indexes of a tag that were not drawn, up to one.
sub missing_spans
{
	my ($tag, $from, $to) = @_;
	my $bits = substr unpack('b*', $tag->{seen}), 0, $to + 1;
	my @spans;

	$bits .= '0' x ($to + 1 - length $bits);
	pos($bits) = $from;
	while ($bits =~ /0+/g)
	{
		push @spans, [ $-[0], $+[0] - 1 ];
	}
	return @spans;
}

# First and last index in a span of numbers.
sub indexes
{
	my ($tag, $first, $last) = @_;
	my ($delta, $remainder) = @{$tag}{qw(delta remainder)};

	return (int(($first - $remainder + $delta - 1) / $delta),
		int(($last - $remainder) / $delta));
}

# Were the numbers of a note given out anew?  Then they did not arrive, and the
# registry has lost that it gave them, or had not committed it.
sub given_anew
{
	my ($note, @later) = @_;

	return any { $_->{first} <= $note->{last} && $_->{last} >= $note->{first} } @later;
}

# What servers were given of one tag: a segment of which all numbers above the
# last that was drawn may be missing gets a reason.  A server that crashed had
# two buffers.
sub find_reasons
{
	my ($t, $notes, $last_on, $missing) = @_;
	my @own = grep { $_->{what} eq 'given' && $_->{tag} == $t } @{$notes};
	my %given;

	while (my $note = shift @own)
	{
		my $is_last = $last_on->{ $note->{connection} } eq $note->{request};
		next if $is_last && given_anew($note, @own);
		my ($first, $last) = indexes($tags[$t], $note->{first}, $note->{last});
		my $is_whole = any { $_->[0] <= $first && $_->[1] >= $last } @{$missing};

		@{$note}{qw(from to)} = ($first, $last);
		if ($is_whole && $is_last)
		{
			$note->{reason} = 'did not arrive';
		}
		else
		{
			push @{ $given{ $note->{server} } }, $note;
		}
	}
	foreach my $server (@servers)
	{
		my @all = @{ $given{ $server->{name} } // [] };

		foreach my $time (@{ $server->{crashes} })
		{
			my @before = grep { $_->{connected} <= $time } @all;

			$_->{reason} //= 'crash'
			  foreach @before > 2 ? @before[ -2, -1 ] : @before;
		}
	}
	return;
}

# Find a reason for each missing number: that of a segment, if nothing was drawn
# above it there, else that the statement which drew it was lost.  Takes what
# servers hold now: a list of [ server, tag, first, last ], by index.  Returns how
# many are missing in all.
sub account
{
	my @held = @_;
	my @notes = read_notes();
	my %server = map { $_->{name} => $_ } @servers;
	my %last_on = map { $_->{connection} => $_->{request} }
	  grep { $_->{what} eq 'given' } @notes;
	my ($all, %because) = (0);

	foreach my $t (0 .. $#tags)
	{
		my $tag = $tags[$t];
		my (undef, $end) = indexes($tag, 1, $tag->{max_id});
		my ($begin) = indexes($tag, 1, 1);
		my @missing = missing_spans($tag, $begin, $end);

		find_reasons($t, \@notes, \%last_on, \@missing);
		my @given = (
			(map { { server => $_->[0], from => $_->[2], to => $_->[3], reason => 'held' } }
				grep { $_->[1] == $t } @held),
			(grep { defined $_->{from} && $_->{tag} == $t } @notes));

		foreach my $span (@missing)
		{
			my ($next, $to) = @{$span};

			$all += $to - $next + 1;
			my @over = grep { $_->{from} <= $to && $_->{to} >= $next } @given;
			my @known = sort { $a->{from} <=> $b->{from} }
			  grep { defined $_->{reason} && $_->{to} <= $to } @over;

			foreach my $note (@known, { from => $to + 1, to => $to + 1 })
			{
				if ($note->{from} > $next)
				{
					# by the server that was given it last
					my ($by) = grep { $_->{from} <= $next && $_->{to} >= $next } reverse @over;
					my $count = min($note->{from}, $to + 1) - $next;

					push @problems, "$count of tag $t from index $next are nobody's" unless $by;
					$server{ $by->{server} }{missing} += $count if $by;
					$because{'statement lost'} += $count;
					note "$by->{server}: $count of tag $t from index $next" if $by;
				}
				next if $note->{to} < $next || !defined $note->{reason};
				$because{ $note->{reason} } += $note->{to} + 1 - max($next, $note->{from});
				$next = $note->{to} + 1;
			}
		}
	}
	note sprintf '%9d numbers missing: %s', $because{$_}, $_ foreach sort keys %because;
	return $all;
}

#
# What servers have
#

# The rests of buffers that a server has: a list of [ tag, first, last ], by
# index.
sub rests
{
	my ($server) = @_;
	my @rests;
	my $sql = <<'SQL';
SELECT substr(tag, 5), first, last, used, next_first, next_last,
    coalesce(next_first IS NULL AND used * 10 >= used + unused, true) AS is_asked
FROM pg_stat_snowflake_segments ORDER BY tag
SQL

	# until what was asked for has come
	my ($before, $now) = ('');
	wait_for(
		sub {
			$now = $server->{node}->safe_psql('postgres', $sql);
			return 1 if $now eq $before && $now !~ /t$/m;
			$before = $now;
			usleep(1_000_000);
			return 0;
		}) or die "fetching does not come to an end\n";

	foreach (split /\n/, $now)
	{
		my ($t, $first, $last, $used, @next) = (split /\|/)[ 0 .. 5 ];

		if ($first ne '')
		{
			my ($from, $to) = indexes($tags[$t], $first, $last);
			push @rests, [ $t, $from + $used, $to ] if $from + $used <= $to;
		}
		push @rests, [ $t, indexes($tags[$t], @next) ] if $next[0] ne '';
	}
	return sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @rests;
}

# Draw so many in one statement.  Returns the spans that they make, by index.
sub draw_spans
{
	my ($server, $t, $count) = @_;
	my ($delta, $remainder) = @{ $tags[$t] }{qw(delta remainder)};

	return map { [ $t, split /\|/ ] } split /\n/,
	  $server->{node}->safe_psql('postgres', <<SQL);
SET snowflake.max_wait = '30s';
SELECT min(i), max(i)
FROM (SELECT i, i - row_number() OVER () AS island
      FROM (SELECT (n - $remainder) / $delta
            FROM snowflake_segment_nextval('tag $t', $count) AS n) AS drawn (i)) AS numbered
GROUP BY island ORDER BY 1
SQL
}

sub add_spans
{
	my ($server, @spans) = @_;
	my $count = 0;

	foreach (@spans)
	{
		my ($t, $from, $to) = @{$_};

		note_number($server, $t, $tags[$t]{remainder} + $tags[$t]{delta} * $_)
		  foreach $from .. $to;
		$count += $to - $from + 1;
	}
	$numbers += $count;
	return $count;
}

#
# Set up
#
note "SNOWFLAKE_FAULT_SEED=$seed SNOWFLAKE_FAULT_ROUNDS=$rounds "
  . "SNOWFLAKE_FAULT_NUMBERS=$wanted";
srand $seed;
my @plan = map { [ plan_round($_) ] } 1 .. $rounds;

$registry{primary} = new_segment_registry();
$registry{standby} = PostgreSQL::Test::Cluster->new('registry_b');
@servers = map { new_server("server$_", $_) } 1 .. 4;
foreach my $tag (@tags)
{
	$servers[0]{node}->safe_psql('postgres',
		"SET snowflake.max_wait = '30s';"
		  . "SELECT snowflake_segment_create('$tag->{name}', step => $tag->{step},"
		  . " delta => $tag->{delta}, remainder => $tag->{remainder})");
}
begin_draws($_) foreach @servers;
wait_flow($_) foreach @servers;

#
# The faults
#
run_round($_, @{ $plan[ $_ - 1 ] }) foreach 1 .. $rounds;

# as long as it takes, if some come all the time
my ($more, $drawn) = ($wanted - $numbers - 500_000, 0);
while ($drawn < $more)
{
	my $before = $drawn;

	wait_for(sub { usleep(100_000); return $before < ($drawn = sum0 map { drawn_by($_) } @servers) })
	  or die "the numbers are not drawn\n";
}

#
# The end: a clean restart loses what a server has, and nothing else
#
end_draws($_) foreach @servers;
$_->{node}->poll_query_until('postgres',
	q(SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'draw')))
  or die "statements do not end\n"
  foreach @servers;
rests($_) foreach @servers;
foreach my $server (@servers)
{
	$server->{node}->stop('fast');
	crashes($server);
	$server->{node}->start;
}
my %max_id = map { @{$_} } registry_answers('SELECT substr(tag, 5), max_id FROM snowflake_segment_tag');
foreach my $server (@servers)
{
	my @got = map { draw_spans($server, $_, 500) } 0 .. $#tags;

	is(add_spans($server, @got), 500 * @tags, "$server->{name}: it draws after a restart");
	is(scalar(grep { $_->[1] <= (indexes($tags[ $_->[0] ], 1, $max_id{ $_->[0] }))[1] } @got), 0,
		"$server->{name}: above all that were given out");
}

#
# All numbers
#
foreach (registry_answers('SELECT substr(tag, 5), max_id FROM snowflake_segment_tag'))
{
	my ($t, $max_id) = @{$_};
	my (undef, $end) = indexes($tags[$t], 1, $max_id);

	$tags[$t]{max_id} = $max_id;
	push @problems, "tag $t has numbers above $max_id"
	  if rindex(unpack('b*', $tags[$t]{seen}), '1') > $end;
}
is($duplicates, 0, 'no number came twice');
is($disorder, 0, 'the numbers of a session increase, and those of a server');

my @held = map {
	my $server = $_;
	map { [ $server->{name}, @{$_} ] } rests($server)
} @servers;
my $missing = account(@held);
foreach my $server (@servers)
{
	cmp_ok($server->{missing}, '<=', $server->{unknown},
		"$server->{name}: all else that is missing was drawn by a statement that was lost");
}
is(join('; ', @problems), '', 'no other problems');

# A registry that lost some waits until all servers have reported.
my @early;
my @notes = read_notes();
foreach my $moved (grep { $_->{what} eq 'moved' } @notes)
{
	push @early, grep {
		     $_->{what} eq 'given'
		  && $_->{request} ne $moved->{request}
		  && $_->{time} > $moved->{time}
		  && $_->{asked} < $moved->{asked} + $ttl
	} @notes;
}
is(scalar(@early), 0, 'after a failover no segment is given too early');

note sprintf '%3d times %s', $done{$_}, $_ foreach sort keys %done;
note "error $_: $errors{$_}" foreach sort keys %errors;
note sprintf '%d segments given', scalar grep { $_->{what} eq 'given' } @notes;
note sprintf '%d numbers drawn, %d faults survived, %d duplicates, %d missing',
  $numbers, sum0(values %done), $duplicates, $missing;

# 55P03: no segment came.  57P0x, 08...: the server is down.
my @other = grep { !/^(?:55P03|57P0[123]|08...)$/ } sort keys %errors;
is("@other", '', 'clients met no other errors');

done_testing();
