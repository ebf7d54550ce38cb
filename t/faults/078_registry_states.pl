# Histories of a registry: what becomes of node numbers and segments when it
# crashes and loses what it has committed last, is promoted, restored or started
# again, its members' clocks differ, answers are lost, servers are cut off, and
# somebody who has the servers' password asks for anything.
#
# The registry is the real one: its functions take the time, the place, and when the
# server was started as arguments.  All around it is made up: what the servers do
# and remember is as in src/lease.c, lease_fetch.c, segment.c and segment_fetch.c.
#
# First there is a short history for each way in which this has failed before.  Then
# there are random ones.
#
# What no registry can know is not counted, and docs/registry.md says so: of what was
# lost nobody reported anything to a registry that takes itself for the same
# (excused()), or its holder did not and the clock of the member that gave it out was
# ahead of the next one's.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many histories, SNOWFLAKE_FAULT_SEED the first: each
# has the next seed, so one that fails comes again alone.

use strict;
use warnings FATAL => 'all';

use IO::Socket::UNIX;
use List::Util qw(any first max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 3000;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || int rand 2**30;

# Times are in microseconds since 1970, spans in microseconds.
use constant {
	SECOND => 1_000_000,
	HOUR => 3600 * 1_000_000,
	START => 1_893_456_000 * 1_000_000,
	ATTEMPT => 5 * 1_000_000,      # the longest that a request takes
	JUMP => 1_000_000_000,          # the most that can have been lost of a count
	NEVER => 9_000_000_000_000_000_000,
};

sub pick { return $_[ rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub between { return int($_[0] + rand() * ($_[1] - $_[0])); }

#
# The database
#
my $node = PostgreSQL::Test::Cluster->new('registry');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nsynchronous_commit = off\njit = off\nautovacuum = off\nlog_statement = none\n");
$node->start;

# A connection without a client, as there are a hundred requests in each history.
my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port)
  or die "cannot connect: $!";
my $startup = pack('N', 196608) . "user\0$ENV{PGUSER}\0database\0postgres\0\0";
my $received = '';

sub receive
{
	my ($size) = @_;

	while (length $received < $size)
	{
		sysread($socket, $received, 65536, length $received) or die "the server is gone\n";
	}
	return substr $received, 0, $size, '';
}

# Send a message, and return all rows of the answer.
sub exchange
{
	my ($message, $sql) = @_;
	my (@rows, $error);

	syswrite($socket, $message) == length $message or die "cannot send: $!";
	while (1)
	{
		my ($type, $length) = unpack 'aN', receive(5);
		my $body = receive($length - 4);

		if ($type eq 'D')
		{
			my ($at, @row) = (2);

			while ($at < length $body)
			{
				my $size = unpack 'l>', substr $body, $at, 4;
				push @row, $size < 0 ? undef : substr $body, $at + 4, $size;
				$at += 4 + max($size, 0);
			}
			push @rows, \@row;
		}
		$error = $body =~ tr/\0/ /r if $type eq 'E';
		last if $type eq 'Z';
	}
	die "$error\n$sql" if defined $error;
	return @rows;
}

sub query { return exchange(pack('aNa*x', 'Q', 5 + length $_[0], $_[0]), $_[0]); }

sub literal { return defined $_[0] ? "'$_[0]'" : 'NULL'; }
sub execute { my $name = shift; return "EXECUTE $name(" . join(', ', map { literal($_) } @_) . ')'; }

exchange(pack('Na*', 4 + length $startup, $startup), 'startup');

#
# The adapter: all that knows what the extension is like
#
my @tables = qw(snowflake_registry_place snowflake_node_lease snowflake_segment_server snowflake_segment_tag);

query(<<'SQL');
CREATE EXTENSION snowflake_registry;
CREATE FUNCTION t(bigint) RETURNS timestamptz RETURN timestamptz 'epoch' + $1 * interval '1 us';
CREATE FUNCTION span(bigint) RETURNS interval RETURN $1 * interval '1 us';
CREATE FUNCTION us(interval) RETURNS bigint RETURN (extract(epoch FROM $1) * 1000000)::bigint;
CREATE FUNCTION us(timestamptz) RETURNS bigint
RETURN CASE $1 WHEN '-infinity' THEN 0 WHEN 'infinity' THEN 9000000000000000000 ELSE (extract(epoch FROM $1) * 1000000)::bigint END;
UPDATE snowflake_registry_place SET place = '7000/00000001/5/6', started_at = t(1893456000000000);
INSERT INTO snowflake_segment_tag VALUES ('a', 'aaaaaaaa-0000-0000-0000-000000000000', 0, 10, 1, 0, NULL, NULL, '2029-01-01'),
                                         ('b', 'bbbbbbbb-0000-0000-0000-000000000000', 0, 1000, 1, 0, NULL, NULL, '2029-01-01');

PREPARE node (bigint, text, bigint, uuid, integer, integer, uuid, bigint, text, integer, bigint, bigint, bigint, bigint, text, bigint, bigint, boolean) AS
SELECT a.node, a.floor, a.granted, us(a.lease_ttl), us(a.registry_clock), a.peers, us(a.peers_offset), a.timeline, a.changes, a.renewals,
       concat_ws(': ', a.refusal, a.refusal_detail)
FROM snowflake_nodes_serve(t($1), $2, t($3), ROW(1, $4, $5, $6, $7, span($8), $9, $10, span($11), $12, t($13), span($14), $15,
                                                 'host', 5432, 1, $16, $17, $18)::snowflake_node_request) AS a;

PREPARE segments (bigint, text, bigint, text[], uuid[], bigint[], bigint[], bigint, uuid, bigint, text) AS
SELECT a.asked, a.incarnation, a.first, a.last, a.max_id, us(a.closed_until), us(a.hold), a.place, a.reports
FROM snowflake_segments_serve(t($1), $2, t($3), ROW(1, $4, $5, $6, $7, span($8), $9, $10, $11)::snowflake_segment_request) AS a;

PREPARE open (bigint, text, bigint, boolean) AS SELECT snowflake_registry_open(t($1), $2, t($3), $4);
PREPARE release (bigint, integer, bigint) AS SELECT snowflake_nodes_release(t($1), $2, t($3));
PREPARE longest (bigint) AS UPDATE snowflake_registry_place SET longest_lease = span($1);

PREPARE state AS
SELECT (SELECT array_agg(p) FROM snowflake_registry_place AS p), (SELECT array_agg(l) FROM snowflake_node_lease AS l),
       (SELECT array_agg(s) FROM snowflake_segment_server AS s), (SELECT array_agg(s) FROM snowflake_segment_tag AS s),
       (SELECT us(max(greatest(p.closed_until, p.guarded_until))) FROM snowflake_registry_place AS p),
       (SELECT max(p.changes) FROM snowflake_registry_place AS p),
       (SELECT us(max(t.told_at)) FROM snowflake_registry_told AS t),
       (SELECT string_agg(concat_ws(',', l.node, coalesce(l.token::text, 'none'), us(l.expires_at), us(t.runs_until), l.mark, l.renewals), ' ')
        FROM snowflake_node_lease AS l JOIN snowflake_registry_told AS t ON t.who IS NOT DISTINCT FROM l.token AND t.told_at = l.renewed_at),
       (SELECT string_agg(concat_ws(',', s.reporter, us(t.runs_until), s.reports), ' ')
        FROM snowflake_segment_server AS s JOIN snowflake_registry_told AS t ON t.who = s.reporter),
       (SELECT string_agg(concat_ws(',', s.tag, s.max_id), ' ') FROM snowflake_segment_tag AS s);
SQL

sub node_statement
{
	my ($ask) = @_;

	return execute('node', where(), @$ask{qw(token number held held_token remaining instance max_node lease_ttl mark clock clock_offset layout seen renewals wants_peers)});
}

sub node_answer
{
	my ($row) = @_;
	my %answer;

	@answer{qw(node floor granted lease_ttl clock peers peers_offset timeline changes renewals refusal)} = @{$row};
	return \%answer;
}

sub segment_statement
{
	my ($ask) = @_;

	return execute('segments', where(), (map { '{' . join(',', map { $_ // 'NULL' } @{$_}) . '}' } @$ask{qw(tags incarnations seen lengths)}),
		@$ask{qw(hold reporter reports place)});
}

sub segment_answer
{
	my ($row) = @_;
	my %answer;

	@answer{qw(tag incarnation first last max_id closed_until hold place reports)} = @{$row};
	return \%answer;
}

sub state_answer
{
	my @row = @_;
	my %state = (tables => [ splice @row, 0, scalar @tables ]);

	@state{qw(until changes told_at)} = map { $_ // 0 } splice @row, 0, 3;
	$state{leases} = [ map { fields($_, qw(node token expires_at runs_until mark renewals)) } split / /, $row[0] // '' ];
	$state{reporters} = [ map { fields($_, qw(reporter runs_until reports)) } split / /, $row[1] // '' ];
	$state{tags} = { map { split /,/ } split / /, $row[2] };
	return \%state;
}

sub fields
{
	my ($text, @names) = @_;
	my %row = (text => $text);

	@row{@names} = split /,/, $text;
	return \%row;
}

my ($empty) = map { state_answer(@{$_}) } query('EXECUTE state');

#
# The world
#
my %w;
my @memory = qw(token node floor mark deadline known_token recalled_token recalled_node recalled_floor
  timeline changes renewals has_offset reporter tags valid_until place reports connection);

sub begin
{
	my (%set) = @_;

	%w = (now => START, ttl => 60 * SECOND, offset => 0, timeline => 1, database => 5, started => START, tx => 0,
		uuids => 0, connection => 0, max_node => 1000, layout => 'layout', longest => HOUR, servers => [], tenures => [], spans => [], late => [],
		losses => [], heard => {}, trace => [], found => {}, %set);
	restore($empty);
	query(execute('longest', $w{longest})) if $w{longest} != HOUR;
	$w{states} = [ { %{ state_answer(@{ (query('EXECUTE state'))[0] }) }, tx => 0, at => START, where => place() } ];
	return;
}

sub uuid { return sprintf '00000000-0000-4000-8000-%012x', ++$w{uuids}; }
sub clock { return $w{now} + $w{offset}; }
sub place { return sprintf '7000/%08X/%d/6', @w{qw(timeline database)}; }
sub where { return (clock(), place(), $w{started}); }
sub state { return $w{states}[-1]; }
sub seconds { return sprintf '%.6g', ($_[0] - START) / SECOND; }
sub trace { push @{ $w{trace} }, join ' ', map { $_ // '-' } seconds($w{now}) . ':', @_; return; }

sub found
{
	my ($what, @text) = @_;

	trace('FOUND', $what . ':', @text);
	$w{found}{$what} //= join "\n", @{ $w{trace} };
	return;
}

sub restore
{
	my ($state) = @_;

	query(join '; ', map {
		my ($table, $rows) = ($tables[$_], $state->{tables}[$_]);
		("DELETE FROM $table",
			defined $rows ? "INSERT INTO $table SELECT * FROM unnest('" . $rows =~ s/'/''/gr . "'::$table\[])" : ())
	} 0 .. $#tables);
	return;
}

# One transaction of the registry.  The state after each is kept, since the registry may
# come back to it.
sub request
{
	my ($statement, $is_committed) = @_;
	my @rows = query($is_committed ? "$statement; EXECUTE state" : "BEGIN; $statement; ROLLBACK");

	if ($is_committed)
	{
		my $state = state_answer(@{ pop @rows });

		@$state{qw(tx at where)} = (++$w{tx}, $w{now}, place());
		push @{ $w{states} }, $state;
		$_->{noticed} //= $w{tx} foreach @{ $w{losses} };
	}
	return @rows;
}

# Somebody was heard, who may be alive for so long by the registry's clock.  It is not
# shut for longer than the longest of these, as of the end of its record.
sub heard
{
	my ($who, $kind, $span, $before) = @_;
	my $after = state();

	my $since = min(clock(), $before->{told_at});
	my $is_empty = !grep { $_->{runs_until} >= $since } @{ $before->{leases} }, @{ $before->{reporters} };

	$w{heard}{$who}{$kind} = { at => clock(), span => min($span, $w{longest}) };
	my $most = $is_empty ? $w{longest} : max(map { $_->{span} } grep { $_->{at} + 1.05 * $_->{span} >= $since } map { values %{$_} } values %{ $w{heard} });
	found('it is shut for too long', 'until', seconds($after->{until})) if $after->{until} > max($before->{until}, clock() + $most);
	return;
}

#
# Servers, and what they draw with
#
sub new_server
{
	my (%set) = @_;
	my $s = { name => 'S' . @{ $w{servers} }, offset => 0, ttl => $w{ttl}, last => 0, boot => 0, %set };

	push @{ $w{servers} }, $s;
	start($s);
	return $s;
}

# It goes on with the lease that it remembers, if that is of this boot of the machine.
sub start
{
	my ($s) = @_;
	my $disk = $s->{disk};

	@$s{@memory} = ();
	$disk = $s->{disk} = { node => $s->{number}, known_token => uuid(), floor => 0, deadline => 0, boot => $s->{boot} } if !$disk && defined $s->{number};
	%{$s} = (%{$s}, is_up => 1, token => defined $s->{number} ? $disk->{known_token} : uuid(), reporter => uuid(), node => -1, floor => 0, mark => 0, deadline => 0,
		recalled_node => -1, recalled_floor => 0, tags => {}, valid_until => 0, connection => -1);
	return if !$disk;
	%{$s} = (%{$s}, recalled_token => $disk->{known_token}, recalled_node => $disk->{node}, recalled_floor => $disk->{floor},
		map { $_ => $disk->{$_} } qw(timeline changes renewals));
	take($s, @$disk{qw(node floor mark deadline known_token)}) if $w{now} < $disk->{deadline} && ($disk->{boot} == $s->{boot} || defined $s->{number});
	return;
}

sub remember
{
	my ($s) = @_;

	$s->{disk} = { map { $_ => $s->{$_} } qw(node floor mark deadline known_token boot timeline changes renewals) };
	return;
}

sub stop
{
	my ($s, $is_crash) = @_;

	trace($s->{name}, $is_crash ? 'crashes' : 'stops');
	remember($s) if !$is_crash && $s->{node} >= 0 && $s->{deadline};
	$s->{is_up} = 0;
	$s->{stopped_at} = $w{now} + $s->{offset};

	# what it knew it may have forgotten; its reports are awaited all the same
	foreach my $loss (@{ $w{losses} })
	{
		delete $loss->{witnesses}{nodes}{ $s->{name} } if !$s->{disk} || !is_ahead($s->{disk}, $loss, $s->{name});
	}
	return;
}

# Does it know more of leases than the registry after a loss?
sub is_ahead
{
	my ($knows, $loss, $name) = @_;

	return ($knows->{changes} // 0) > $loss->{changes} || ($knows->{renewals} // 0) > ($loss->{rows}{$name} // NEVER);
}

# What was given out, and what the registry has since lost of that.  Is it only what no
# registry can know?
sub excused
{
	my ($had) = @_;
	my $loss = $had->{lost} or return 0;

	return 1 if $loss->{kind} eq 'restart' && !%{ $loss->{witnesses}{ $had->{kind} } };
	return 1 if $had->{ttl} > min($w{ttl}, $w{longest}) || $had->{is_registered};
	return $had->{kind} eq 'nodes' ? $had->{offset} > $loss->{least_offset} : $w{offset} > $loss->{offset};
}

# The server may draw with the number, at times from the floor up to the mark.  No
# other may ever have had any of that.
sub allow
{
	my ($s, $granted) = @_;
	my $mine = first { $_->{server} == $s && $_->{node} == $s->{node} && $_->{from} == $s->{floor} } @{ $w{tenures} };

	push @{ $w{tenures} }, $mine = { kind => 'nodes', server => $s, node => $s->{node}, from => $s->{floor}, to => 0 } if !$mine;
	@$mine{qw(tx lost offset)} = ($w{tx}, undef, $w{offset}) if $mine->{to} <= $granted;
	%{$mine} = (%{$mine}, to => max($mine->{to}, $s->{mark}), ttl => min($s->{ttl}, $w{longest}), is_registered => defined $s->{number});
	foreach my $had (grep { $_->{node} == $s->{node} && $_->{server} != $s } @{ $w{tenures} })
	{
		next if $had->{to} <= $mine->{from} || $mine->{to} <= $had->{from} || excused($had) || excused($mine);
		found('a node number twice' . ($had->{lost} ? '' : ', though it was on record or reported'),
			"$s->{name} has $s->{node} for", seconds($mine->{from}), 'to', seconds($mine->{to}),
			"and $had->{server}{name} for", seconds($had->{from}), 'to', seconds($had->{to}));
	}
	return;
}

sub take
{
	my ($s, $number, $floor, $mark, $deadline, $token) = @_;

	$s->{known_token} = $token;
	if ($number != $s->{node} || $floor > $s->{floor})
	{
		$floor = max($floor, $s->{recalled_floor}) if $number == $s->{recalled_node};
		@$s{qw(node floor mark deadline)} = ($number, $floor, $mark, $deadline);
		remember($s);
	}
	else
	{
		$s->{mark} = max($s->{mark}, $mark);
		$s->{deadline} = $deadline;
	}
	return;
}

#
# Requests for node numbers
#
sub lease_request
{
	my ($s) = @_;
	my $clock = $w{now} + $s->{offset};
	my $valid_until = $s->{deadline} > $w{now} ? $s->{deadline} : 0;

	$s->{last} = max($s->{last}, $clock) if $valid_until && $s->{floor} <= $clock && $clock < $s->{mark} && chance(0.5);
	return {
		server => $s, sent => $w{now}, valid_until => $valid_until, token => $s->{token}, number => $s->{number}, held_token => $s->{recalled_token},
		held => (first { $_ >= 0 } $s->{node}, $s->{recalled_node}), remaining => $valid_until == NEVER ? $s->{ttl} : max($valid_until - $w{now} - ATTEMPT, 0),
		instance => "$s->{name}, boot $s->{boot}", max_node => $w{max_node}, lease_ttl => $s->{ttl}, clock => $clock,
		mark => max($clock, $s->{last}) + $s->{ttl}, clock_offset => $s->{has_offset}, layout => $w{layout},
		seen => $s->{changes}, renewals => $s->{renewals}, wants_peers => $w{wants_peers} // pick(0, 1)
	};
}

sub serve_number
{
	my ($ask, $is_committed) = @_;
	my $s = $ask->{server};
	my $before = state();
	my $answer = node_answer(request(node_statement($ask), $is_committed));

	trace($s->{name}, 'asks for a number, holding', $ask->{held}, "for $ask->{remaining}, seen", $ask->{seen}, $ask->{renewals}, 'at', seconds(clock()),
		$is_committed ? () : '(not committed)', 'and is told', @$answer{qw(node floor granted changes renewals refusal)});
	return $answer if !$is_committed;
	heard($ask->{token}, 'nodes', $ask->{lease_ttl}, $before);
	check_peers($ask, $answer) if defined $answer->{peers} && !$w{has_lost} && !$w{members_off};
	$w{renewed}{ $ask->{token} } = { at => clock(), offset => $ask->{clock_offset} // $ask->{clock} - clock() } if any { my $row = $_; $row->{token} eq $ask->{token} && !grep { $_->{text} eq $row->{text} } @{ $before->{leases} } } @{ state()->{leases} };
	if ($s->{is_honest} // 1)
	{
		my $is_running = $ask->{remaining} > 0 && !grep { $_->{node} == $ask->{held} && $_->{expires_at} >= clock()
			  && $_->{token} ne $ask->{token} && $_->{token} ne ($ask->{held_token} // '') } @{ $before->{leases} };

		@$_{qw(tx lost)} = ($w{tx}, undef)
		  foreach grep { $_->{server} == $s && $_->{node} == $ask->{held} && ($_->{to} <= $ask->{mark} || $_->{to} == NEVER) } $is_running ? @{ $w{tenures} } : ();
	}
	return $answer;
}

# Only those are compared with that have renewed lately.
sub check_peers
{
	my ($ask, $answer) = @_;
	my @fresh = map { $_->{offset} } grep { $_->{at} >= clock() - 30 * SECOND } map { $w{renewed}{$_} } grep { $_ ne $ask->{token} } keys %{ $w{renewed} };

	found('clocks of servers that are gone', "$answer->{peers} in place of", scalar @fresh)
	  if $answer->{peers} > @fresh
	  || $answer->{peers} > 0 && ($answer->{peers_offset} < min(@fresh) - ATTEMPT - SECOND || $answer->{peers_offset} > max(@fresh) + ATTEMPT + SECOND);
	return;
}

sub heed_number
{
	my ($ask, $answer) = @_;
	my $s = $ask->{server};

	return if $ask->{valid_until} && $w{now} >= $ask->{valid_until};
	return if is_outdated($s->{timeline}, $answer->{timeline}) || $answer->{changes} < ($s->{changes} // 0);
	@$s{qw(timeline changes renewals)} = @$answer{qw(timeline changes renewals)} if defined $answer->{node};
	$s->{has_offset} = $ask->{clock} - $answer->{clock};
	@{ $s->{disk} }{qw(timeline changes renewals)} = @$s{qw(timeline changes renewals)} if $s->{disk} && ($s->{disk}{timeline} // '') ne ($s->{timeline} // '');
	if (!defined $answer->{node})
	{
		lose_number($s);
		return;
	}
	take($s, @$answer{qw(node floor)}, defined $s->{number} ? (NEVER, NEVER) : ($answer->{granted}, $ask->{sent} + min($s->{ttl}, $answer->{lease_ttl})), $s->{token});
	allow($s, defined $s->{number} ? NEVER : $answer->{granted});
	remember($s)
	  if !$s->{disk}{deadline} || $s->{disk}{node} != $s->{node} || $s->{disk}{known_token} ne $s->{token} || chance(0.5) && $s->{deadline} - $s->{disk}{deadline} >= $s->{ttl} / 4;
	return;
}

# Refused.  One that was registered has drawn up to now.
sub lose_number
{
	my ($s) = @_;
	my $until = max($s->{last}, $w{now} + $s->{offset});

	$s->{deadline} = 0;
	return if !defined $s->{number};
	$s->{disk}{deadline} = 0;
	$_->{to} = min($_->{to}, $until) foreach grep { $_->{server} == $s } @{ $w{tenures} };
	return;
}

sub is_outdated
{
	my ($before, $now) = map { [ split m{/}, $_ // '' ] } @_;

	return @{$before} && $now->[0] eq $before->[0] && $now->[1] lt $before->[1];
}

#
# Requests for segments
#
sub known { return $_[0]{tags}{ $_[1] } // { seen => 0, spans => [] }; }

sub segment_request
{
	my ($s, @wanted) = @_;
	my $is_full = $s->{connection} != $w{connection} || chance(0.7);
	my %length = map { $_ => pick(1, 1, 25) } @wanted;
	my @tags = sort keys %{ { %length, $is_full ? %{ $s->{tags} } : () } };

	return {
		server => $s, sent => $w{now}, is_full => $is_full, tags => \@tags, incarnations => [ map { known($s, $_)->{incarnation} } @tags ],
		seen => [ map { known($s, $_)->{seen} } @tags ], lengths => [ map { $length{$_} // 0 } @tags ],
		hold => $s->{ttl}, reporter => $s->{reporter}, reports => $w{now} < $s->{valid_until} ? $s->{reports} : undef, place => $s->{place}
	};
}

sub serve_segments
{
	my ($ask, $is_committed) = @_;
	my $s = $ask->{server};
	my $before = state();
	my @rows = map { segment_answer($_) } request(segment_statement($ask), $is_committed);

	trace($s->{name}, "asks for segments of @{ $ask->{tags} }, seen @{ $ask->{seen} } and", $ask->{reports}, 'at', seconds(clock()),
		$is_committed ? () : '(not committed)', 'and is told', map { join '/', map { $_ // '-' } @$_{qw(tag first last max_id closed_until place reports)} } @rows);
	return @rows if !$is_committed;
	heard($ask->{reporter}, 'segments', $ask->{hold}, $before);
	foreach my $n (keys @rows)
	{
		@$_{qw(tx lost)} = ($w{tx}, undef)
		  foreach grep { $_->{reporter} eq $ask->{reporter} && $_->{last} <= $ask->{seen}[$n] } @{ known($s, $rows[$n]{tag})->{spans} };
	}
	return @rows;
}

sub heed_segments
{
	my ($ask, @rows) = @_;
	my $s = $ask->{server};

	return if !@rows || is_outdated($s->{place}, $rows[0]{place});
	my $is_elsewhere = defined $s->{place} && $s->{place} ne $rows[0]{place};
	return if !$ask->{is_full} && $is_elsewhere;
	$s->{connection} = $w{connection};
	$s->{tags} = {} if $is_elsewhere && $w{now} >= $s->{valid_until};
	@$s{qw(place reports)} = @{ $rows[0] }{qw(place reports)};
	$s->{valid_until} = $ask->{sent} + $rows[0]{hold};
	foreach my $row (@rows)
	{
		my $tag = $s->{tags}{ $row->{tag} } = known($s, $row->{tag});

		$tag->{incarnation} = $row->{incarnation};
		draw_from($s, $tag, $row) if defined $row->{first};
	}

	# it goes on with these
	foreach my $span (grep { $_->{given_to} } map { @{ $_->{spans} } } values %{ $s->{tags} })
	{
		found('a segment twice, its holder goes on with it', "$s->{name} and $span->{given_to}{name}");
	}
	return;
}

# All of a segment counts as drawn at once; of one that is lost, and that its server did not
# report before it was given to another, what that can still draw.
sub draw_from
{
	my ($s, $tag, $row) = @_;
	my $mine = { kind => 'segments', server => $s, reporter => $s->{reporter}, tx => $w{tx}, ttl => min($s->{ttl}, $w{longest}), offset => $w{offset}, map { $_ => $row->{$_} } qw(tag first last) };

	foreach my $had (grep { $_->{tag} eq $row->{tag} && $_->{first} <= $row->{last} && $row->{first} <= $_->{last} } @{ $w{spans} })
	{
		my $is_held = $had->{server}{is_up} && $had->{server}{reporter} eq $had->{reporter} && any { $_ == $had } @{ known($had->{server}, $had->{tag})->{spans} };

		next if excused($had);
		$had->{given_to} = $s;
		next if $had->{lost} && !($is_held && $w{now} < $had->{server}{valid_until});
		found('a segment twice' . ($had->{lost} ? '' : ', though it was on record or reported'),
			"$s->{name} has $row->{first} to $row->{last} of $row->{tag}, and $had->{server}{name} has $had->{first} to $had->{last}");
	}
	push @{ $w{spans} }, $mine;
	push @{ $tag->{spans} }, $mine;
	$tag->{seen} = max($tag->{seen}, $row->{last});
	return;
}

# What becomes of a request: it is answered; or the answer is lost; or it is not
# committed; or it was given up, and comes later.
sub ask
{
	my ($s, $fate, @tags) = @_;
	my $ask = @tags ? segment_request($s, grep { $_ ne '' } @tags) : lease_request($s);
	my $serve = @tags ? \&serve_segments : \&serve_number;

	if ($fate eq 'late')
	{
		push @{ $w{late} }, { at => $w{now} + between(0, ATTEMPT), serve => sub { $serve->($ask, 1) } };
		return;
	}
	elapse(between(0, SECOND / 10));
	my @answer = $serve->($ask, $fate ne 'rolled back');
	elapse(between(0, SECOND / 10));
	return if $fate ne 'answered';
	@tags ? heed_segments($ask, @answer) : heed_number($ask, @answer);
	return @answer;
}

sub elapse
{
	my ($span) = @_;
	my $until = $w{now} + $span;

	foreach my $late (sort { $a->{at} <=> $b->{at} } grep { $_->{at} <= $until } @{ $w{late} })
	{
		$w{now} = max($w{now}, $late->{at});
		$late->{serve}->();
	}
	$w{late} = [ grep { $_->{at} > $until } @{ $w{late} } ];
	$w{now} = $until;
	return;
}

#
# What happens to the registry
#

# It comes back to a state of before: started again in the same place, promoted, recovered
# (also a new timeline), or as a dump in another database.
sub lose
{
	my ($kind, $state, $offset) = @_;
	my $is_lossless = $state == state();

	$kind = 'promotion' if $kind eq 'restart' && $state->{where} ne place();
	pop @{ $w{states} } while state() != $state;
	restore($state) if !$is_lossless;
	$w{timeline}++ if $kind eq 'promotion';
	$w{database}++ if $kind eq 'dump';
	$w{offset} = $offset // $w{offset};
	$w{started} = clock() - 1;
	$w{connection}++;
	trace($kind, 'to', seconds($state->{at}), 'of', seconds($w{now}), "clock $w{offset}", place());
	$_->{least_offset} = min($_->{least_offset}, $w{offset}) foreach @{ $w{losses} };
	return if $is_lossless;

	$w{has_lost} = 1;
	push @{ $w{losses} }, my $loss = { kind => $kind, offset => $w{offset}, least_offset => $w{offset}, changes => $state->{changes} };
	foreach my $had (@{ $w{tenures} }, @{ $w{spans} })
	{
		my $before = $had->{lost};

		# one that was not noticed, or no more is, is as this one
		$had->{lost} = $loss
		  if !$before && $had->{tx} > $state->{tx}
		  || $before && $kind eq 'restart' && $before->{kind} eq 'restart' && ($before->{noticed} // $w{tx}) >= $state->{tx};
	}
	find_witnesses($loss) if $kind eq 'restart';
	return;
}

# Whose reports a guard waits for, by the record, and who knows more than that.  A lease that
# is on record is awaited itself.
sub find_witnesses
{
	my ($loss) = @_;

	$loss->{witnesses} = { nodes => {}, segments => {} };
	foreach my $s (grep { $_->{is_up} } @{ $w{servers} })
	{
		my ($lease) = grep { $_->{token} eq $s->{token} || $_->{token} eq ($s->{recalled_token} // '') } grep { $_->{runs_until} >= $w{started} } @{ state()->{leases} };
		my ($report) = grep { $_->{reporter} eq $s->{reporter} && $_->{runs_until} >= $w{started} } @{ state()->{reporters} };

		$loss->{rows}{ $s->{name} } = $lease->{renewals} if $lease;
		$loss->{witnesses}{nodes}{ $s->{name} } = 1 if $lease && is_ahead($s, $loss, $s->{name});
		$loss->{witnesses}{segments}{ $s->{name} } = 1 if $report && ($s->{reports} // 0) > $report->{reports};
	}
	return;
}

# The operator, after a restart or promotion that lost nothing.
sub open_registry
{
	my ($always) = @_;

	trace('the operator opens it', $always);
	request(execute('open', where(), $always), 1);
	return;
}

# The operator, of a server that is stopped for good.
sub release
{
	my ($s) = @_;
	my $until = max($s->{last}, $s->{stopped_at});

	trace("the operator releases $s->{node} of $s->{name}, issued until", seconds($until));
	request(execute('release', clock(), $s->{node}, $until), 1);
	$_->{to} = min($_->{to}, $until) foreach grep { $_->{server} == $s && $_->{node} == $s->{node} } @{ $w{tenures} };
	return;
}

#
# Somebody who has the servers' password, and nothing else
#
sub attack
{
	my (%set) = @_;
	my $before = state();
	my $stranger = { name => 'stranger' . uuid(), is_honest => 0 };
	my $any = sub { return pick(undef, 0, 1, 2, 60, 1000, 1e6, min(JUMP + $before->{changes}, NEVER), 2 * JUMP, '9223372036854775807') };
	my $clock = clock() + pick(0, 0, 0, 9 * SECOND, HOUR, -24 * HOUR);
	my @tags = grep { chance(0.5) } qw(a b);

	if ($set{segments} // chance(0.4))
	{
		serve_segments({
			server => $stranger, tags => \@tags, incarnations => [ map { my $tag = $_; pick(undef, $tag x 8 . '-0000-0000-0000-000000000000') } @tags ],
			seen => [ map { pick(0, 0, 1, 100, 1000, 100 * JUMP, '9223372036854775807') } @tags ], lengths => [ map { pick(0, 0, 1, 1000) } @tags ],
			hold => pick(1, 10 * SECOND, $w{ttl}, 24 * HOUR, 1000 * 360 * 24 * HOUR), reporter => uuid(), reports => $any->(),
			place => pick(undef, place() . '/0', 'somewhere'), %set }, 1);
	}
	else
	{
		serve_number({
			server => $stranger, token => uuid(), number => pick((undef) x 5, 0 .. 4), held => pick(undef, 0 .. 4), held_token => pick(undef, uuid()),
			remaining => pick(0, SECOND, HOUR, 1000 * HOUR), instance => pick('', 'S0, boot 0', 'x'), max_node => pick(0, 3, $w{max_node}, 2147483647),
			lease_ttl => pick(10 * SECOND, 10 * SECOND, $w{ttl}, 24 * HOUR), clock => $clock, mark => pick(0, $clock, $clock + $w{ttl}, $clock + 876_600 * HOUR, '9223372036854775807'),
			clock_offset => pick(undef, undef, HOUR), layout => pick('layout', 'layout', 'layout', 'another'), seen => $any->(), renewals => $any->(), wants_peers => 0, %set }, 1);
	}
	check_attack($before);
	return;
}

# What was somebody's is still so, and no count is beyond what can have been.
sub check_attack
{
	my ($before) = @_;
	my %lease = map { $_->{node} => $_->{text} } @{ state()->{leases} };
	my %tag = %{ state()->{tags} };

	found('a stranger takes a lease', $_->{text}) foreach grep { $_->{expires_at} >= clock() && $lease{ $_->{node} } ne $_->{text} } @{ $before->{leases} };
	found('a stranger raises the count', $before->{changes}, state()->{changes}) if state()->{changes} > $before->{changes} + JUMP + 2;
	found('a stranger uses up a tag', $_, $tag{$_}) foreach grep { $tag{$_} > $before->{tags}{$_} + 2000 * JUMP } keys %tag;
	return;
}

# At the end, when all leases there can be are over: a new server gets a number, and a
# segment.
sub check_end
{
	$w{late} = [];
	$_->{is_up} = 0 foreach @{ $w{servers} };
	elapse(HOUR + max(0, -$w{offset}) + SECOND);
	$w{offset} = 0;
	$w{max_node} = grep { $_->{expires_at} == NEVER } @{ state()->{leases} };
	my $s = new_server();
	foreach (1, 2)
	{
		ask($s, 'answered');
		ask($s, 'answered', 'a');
		elapse(HOUR + SECOND);
	}
	my ($answer) = ask($s, 'answered');
	found('it gives out no numbers any more', $answer->{refusal}) if !defined $answer->{node};
	($answer) = ask($s, 'answered', 'a');
	found('it gives out no segments any more') if !defined $answer->{first};
	return;
}

#
# Random histories
#
sub happen
{
	my $s = pick(grep { $_->{is_up} } @{ $w{servers} });
	my $what = rand 100;
	my @states = @{ $w{states} };

	if ($what < 15) { ask_all(); }
	elsif ($what < 35 && $s && !$s->{is_cut}) { ask($s, fate()); }
	elsif ($what < 55 && $s && !$s->{is_cut}) { ask($s, fate(), pick('', 'a', 'a', 'b')); }
	elsif ($what < 70) { elapse(pick(between(0, 5 * SECOND), $w{ttl} / 4, $w{ttl}, $w{ttl} + between(0, SECOND), 2 * $w{ttl}, chance(0.05) ? 30 * HOUR : SECOND)); }
	elsif ($what < 75 && $s) { $s->{is_cut} = !$s->{is_cut}; trace($s->{name}, $s->{is_cut} ? 'is cut off' : 'is back'); }
	elsif ($what < 80 && $s)
	{
		stop($s, chance(0.7));
		$s->{boot}++ if chance(0.2);
		elapse(between(0, 2 * SECOND));
		start($s) if chance(0.7);
	}
	elsif ($what < 83) { new_server(number => chance($w{registers}) ? pick(0 .. 3) : undef, offset => $w{servers_off} ? pick(0, 0, 9 * SECOND, HOUR, -HOUR) : 0, chance(0.1) && $w{has_long} ? (ttl => 24 * HOUR) : ()) if @{ $w{servers} } < 8; }
	elsif ($what < 93)
	{
		my $state = $w{is_sync} || chance(0.3) ? $states[-1] : chance(0.7) ? $states[ -min(between(1, 8), scalar @states) ] : chance(0.2) ? $states[0] : pick(@states);
		lose(pick('restart', 'restart', 'promotion', 'promotion', $w{is_sync} ? () : 'dump'), $state, $w{members_off} ? pick(0, 0, HOUR, -HOUR, 20 * SECOND) : 0);
		open_registry(undef) if !$w{has_lost} && chance(0.5);
	}
	elsif ($what < 95)
	{
		my $gone = pick(grep { !$_->{is_up} && $_->{node} >= 0 && !$_->{released} } @{ $w{servers} }) or return;
		release($gone) if grep { $_->{node} == $gone->{node} && $_->{token} eq $gone->{known_token} } @{ state()->{leases} };
		$gone->{released} = 1;
	}
	elsif ($w{has_strangers}) { attack(); }
	return;
}

sub fate { return pick(('answered') x 7, 'lost', 'rolled back', 'late'); }

# All that can ask, as they do every 3 seconds.
sub ask_all
{
	foreach my $s (sort { rand() <=> 0.5 } grep { $_->{is_up} && !$_->{is_cut} } @{ $w{servers} })
	{
		ask($s, fate());
		ask($s, fate(), pick('', 'a', 'b')) if chance(0.6);
	}
	elapse(between(0, 3 * SECOND));
	return;
}

sub history
{
	my ($number) = @_;

	srand $number;
	begin(ttl => pick(10, 60, 600) * SECOND, is_sync => chance(0.15), servers_off => chance(0.3), members_off => chance(0.2),
		registers => pick(0, 0, 0.4), longest => pick(HOUR, HOUR, 30 * SECOND), has_strangers => chance(0.4), has_long => chance(0.2));
	open_registry(1) if $w{is_sync};
	new_server(offset => $w{servers_off} ? pick(0, HOUR) : 0, number => chance($w{registers}) ? pick(0 .. 3) : undef) foreach 0 .. rand 3;
	happen() foreach 1 .. 20 + rand 40;
	check_end();
	return;
}


#
# What has failed before, each by itself
#
sub is_sound
{
	my ($name, $happens, %set) = @_;

	srand 1;
	begin(%set);
	$happens->();
	is(join('; ', sort keys %{ $w{found} }), '', $name) or diag join "\n", @{ $w{trace} };
	return;
}

is_sound('the first claim is lost with the primary', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	ask($s, 'answered');
	lose('promotion', $w{states}[0]);
	ask($other, 'answered');
});

is_sound('a holder reports to a member whose clock is an hour behind', sub {
	my ($first, $s, $other) = map { new_server(offset => $_) } HOUR, HOUR, 0;

	ask($first, 'answered');
	my $state = state();
	ask($s, 'answered');
	lose('promotion', $state, 0);
	foreach (1 .. 30)
	{
		ask($_, 'answered') foreach $first, $s;
		elapse(3 * SECOND);
	}
	ask($first, 'answered');
	ask($other, 'answered');
}, offset => HOUR);

is_sound('a stranger has seen very much', sub {
	ask(new_server(), 'answered');
	attack(segments => 0, seen => '9223372036854775807', renewals => undef, lease_ttl => 24 * HOUR);
	check_end();
});

is_sound('a stranger goes on for a thousand years', sub {
	ask(new_server(), 'answered', 'a');
	attack(segments => 1, hold => 1000 * 360 * 24 * HOUR, seen => [], tags => [], incarnations => [], lengths => [], reports => undef);
	lose('promotion', state());
	ask($w{servers}[0], 'answered', 'a');
	check_end();
});

is_sound('a server had a lease of a day, a month ago', sub {
	my ($long, $s) = map { new_server(ttl => $_) } 24 * HOUR, 60 * SECOND;

	ask($long, 'answered', @{$_}) foreach [], ['a'];
	elapse(SECOND);
	ask($s, 'answered', @{$_}) foreach [], ['a'];
	elapse(30 * 24 * HOUR);
	ask($s, 'answered', @{$_}) foreach [], ['a'];
	lose('promotion', state());
	ask($s, 'answered', @{$_}) foreach [], ['a'];
});

is_sound('the clock of a server that was killed', sub {
	my $s = new_server();

	ask($s, 'answered');
	$s->{offset} = HOUR;
	ask($s, 'answered');
	elapse(40 * SECOND);
	ask(new_server(), 'answered');
}, wants_peers => 1);

is_sound('a stranger asks first where the first claim was lost, for a moment', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	ask($s, 'answered');
	lose('promotion', $w{states}[0]);
	attack(segments => 1, hold => 1, tags => [], incarnations => [], seen => [], lengths => [], reports => undef);
	ask($other, 'answered');
});

is_sound('a stranger was there before, and asks first, for a moment', sub {
	my ($s, $other) = map { new_server() } 1, 2;
	my @moment = (segments => 1, hold => 1, tags => ['a'], incarnations => [undef], seen => [0], lengths => [0], reports => undef);

	attack(@moment);
	my $state = state();
	ask($s, 'answered');
	lose('promotion', $state);
	attack(@moment);
	ask($other, 'answered');
});

is_sound('a stranger reports a number with a mark without an end', sub {
	attack(segments => 0, number => undef, held => 0, remaining => SECOND, mark => clock() + 876_600 * HOUR, lease_ttl => 10 * SECOND,
		clock => clock(), clock_offset => undef, layout => 'layout', max_node => 3, seen => undef, renewals => undef);
	check_end();
});

is_sound('all servers have another layout now', sub {
	my @servers = map { new_server(number => $_) } 1, 2;

	ask($_, 'answered') foreach @servers;
	stop($_) foreach @servers;
	$w{layout} = 'another';
	elapse(HOUR);
	start($_) foreach @servers;
	foreach my $s (@servers)
	{
		my ($answer) = ask($s, 'answered');
		found('it registers no number', $answer->{refusal}) if !defined $answer->{node};
	}
});

is_sound('a registered server is stopped that was cut off for long', sub {
	my ($s, $other) = (new_server(number => 0), new_server(offset => -HOUR));

	ask($s, 'answered');
	elapse(2 * HOUR);
	stop($s);
	release($s);
	ask($other, 'answered');
});

is_sound('a restart that lost nothing, and all have asked', sub {
	my @servers = map { new_server(number => $_) } undef, undef, 5;

	foreach my $alive ([ @servers[ 0, 1 ] ], \@servers, [ $servers[0] ], [ $servers[2] ])
	{
		ask($_, 'answered', 'a'), ask($_, 'answered') foreach @{$alive};
		lose('restart', state());
		ask($_, 'answered', ''), ask($_, 'answered') foreach @{$alive}, @{$alive};
		found('it is still on its guard', seconds(state()->{until}), 'with', scalar @{$alive}) if state()->{until} > clock();
		elapse(HOUR);
	}
});

my %count;
foreach my $number ($seed .. $seed + $rounds - 1)
{
	history($number);
	query("VACUUM $_") foreach $number % 20 ? () : @tables;
	foreach my $what (keys %{ $w{found} })
	{
		diag "SNOWFLAKE_FAULT_SEED=$number SNOWFLAKE_FAULT_ROUNDS=1: $what\n$w{found}{$what}" if !$count{$what}++;
	}
}
diag "$rounds histories from $seed on: ", join ', ', map { "$_ $count{$_}" } sort keys %count;
is(join(', ', sort keys %count), '', "nothing is found in $rounds histories");
done_testing();
