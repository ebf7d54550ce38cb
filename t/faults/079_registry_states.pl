# Histories of a registry: what becomes of node numbers and segments when it
# crashes and loses what it committed last, is promoted, restored or started again,
# its members' clocks differ, answers are lost, servers are cut off, and somebody
# who has the servers' password asks for anything.
#
# The registry is the real one: its functions take the time, the place, and when the
# server was started as arguments.  All around it is made up.  Servers do and remember
# what they do in src/lease.c, lease_fetch.c, segment.c and segment_fetch.c.
#
# First there is a short history of each way in which it has failed before, then
# there are random ones.  A number may be drawn with at times from a floor up to a
# mark, and all of a segment counts as drawn: no two servers ever have the same.  What
# no registry can know is excused(), as docs/registry.md says.  And it is not shut for
# longer than it must be, nor for good.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many histories, SNOWFLAKE_FAULT_SEED the first.  Each
# has the next seed, so that one that fails comes again alone.

use strict;
use warnings FATAL => 'all';

use IO::Socket::UNIX;
use List::Util qw(any first max min shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 500;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || 1;

# Times are in microseconds since 1970, as marks are.
use constant {
	SECOND => 1_000_000,
	HOUR => 3600 * 1_000_000,
	CENTURY => 876_600 * 3600 * 1_000_000,
	START => 1_893_456_000 * 1_000_000,
	ATTEMPT => 5 * 1_000_000,    # the longest that a request takes
	JUMP => 1_000_000_000,       # the most that can have been lost of a count
	NEVER => 9_000_000_000_000_000_000,
	MOST => '9223372036854775807',
};

sub pick { return $_[ rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub between { return int($_[0] + rand() * ($_[1] - $_[0])); }

#
# The database: a connection without a client, as a history has a hundred requests
#
my $node = PostgreSQL::Test::Cluster->new('registry');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
fsync = off
synchronous_commit = off
jit = off
log_statement = none
CONF
$node->start;
my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port)
  or die "cannot connect: $!";
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
	my ($message) = @_;
	my (@rows, $error);

	syswrite($socket, $message) == length $message or die "cannot send: $!";
	while (1)
	{
		my ($type, $length) = unpack 'aN', receive(5);
		my $body = receive($length - 4);

		$error = $body if $type eq 'E';
		last if $type eq 'Z';
		next if $type ne 'D';
		my ($at, @row) = (2);
		while ($at < length $body)
		{
			my $size = unpack 'l>', substr $body, $at, 4;

			push @row, $size < 0 ? undef : substr $body, $at + 4, $size;
			$at += 4 + max($size, 0);
		}
		push @rows, \@row;
	}
	die $error =~ tr/\0/ /r . "\n" . substr($message, 5) . "\n" if defined $error;
	return @rows;
}

sub query { return exchange(pack('aNa*x', 'Q', 5 + length $_[0], $_[0])); }

sub execute
{
	my ($name, @values) = @_;

	return "EXECUTE $name(" . join(', ', map { defined $_ ? "'$_'" : 'NULL' } @values) . ')';
}

my $startup = pack('N', 196608) . "user\0$ENV{PGUSER}\0database\0postgres\0\0";
exchange(pack('Na*', 4 + length $startup, $startup));

# What the extension is like.  The columns of "state" have names below.
my @tables = qw(snowflake_registry_place snowflake_node_lease snowflake_segment_server snowflake_segment_tag);
my @node_columns = qw(node floor granted lease_ttl clock peers peers_offset timeline changes renewals refusal);
my @segment_columns = qw(tag incarnation first last max_id closed_until hold place reports);
query(<<'SQL');
CREATE EXTENSION snowflake_registry;
CREATE FUNCTION t(bigint) RETURNS timestamptz RETURN timestamptz 'epoch' + $1 * interval '1 us';
CREATE FUNCTION span(bigint) RETURNS interval RETURN $1 * interval '1 us';
CREATE FUNCTION span(text) RETURNS interval RETURN CASE WHEN $1 ~ '^\d+$' THEN span($1::bigint) ELSE $1::interval END;
CREATE FUNCTION us(interval) RETURNS bigint RETURN (extract(epoch FROM $1) * 1000000)::bigint;
CREATE FUNCTION us(timestamptz) RETURNS bigint
RETURN CASE $1 WHEN '-infinity' THEN 0 WHEN 'infinity' THEN 9000000000000000000
               ELSE (extract(epoch FROM $1) * 1000000)::bigint END;
-- what is more than a loss can explain is an error, and changes nothing
CREATE FUNCTION serve_segments(timestamptz, text, timestamptz, snowflake_segment_request)
RETURNS SETOF snowflake_segment_answer LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM snowflake_segments_serve($1, $2, $3, $4);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    ASSERT sqlerrm LIKE 'the registry does not know of numbers up to %';
END $$;
UPDATE snowflake_registry_place SET place = '7000/00000001/5/6', started_at = t(1893456000000000);
INSERT INTO snowflake_segment_tag (tag, incarnation, max_id, step, delta, remainder, created_at)
VALUES ('a', 'aaaaaaaa-0000-0000-0000-000000000000', 0, 10, 1, 0, '2029-01-01'),
       ('b', 'bbbbbbbb-0000-0000-0000-000000000000', 0, 1000, 1, 0, '2029-01-01');

PREPARE node (bigint, text, bigint, uuid, integer, integer, uuid, bigint, text, integer, text, bigint, bigint,
              bigint, text, bigint, bigint, boolean) AS
SELECT a.node, a.floor, a.granted, us(a.lease_ttl), us(a.registry_clock), a.peers, us(a.peers_offset), a.timeline,
       a.changes, a.renewals, concat_ws(': ', a.refusal, a.refusal_detail)
FROM snowflake_nodes_serve(t($1), $2, t($3),
         ROW(1, $4, $5, $6, $7, span($8), $9, $10, span($11), $12, t($13), span($14), $15, 'host', 5432, 1,
             $16, $17, $18)::snowflake_node_request) AS a;
PREPARE segments (bigint, text, bigint, text[], uuid[], bigint[], bigint[], text, uuid, bigint, text) AS
SELECT a.asked, a.incarnation, a.first, a.last, a.max_id, us(a.closed_until), us(a.hold), a.place, a.reports
FROM serve_segments(t($1), $2, t($3),
         ROW(1, $4, $5, $6, $7, span($8), $9, $10, $11)::snowflake_segment_request) AS a;
PREPARE open (bigint, text, bigint, boolean) AS SELECT snowflake_registry_open(t($1), $2, t($3), $4);
PREPARE release (bigint, integer, bigint) AS SELECT snowflake_nodes_release(t($1), $2, t($3));
PREPARE longest (bigint) AS UPDATE snowflake_registry_place SET longest_lease = span($1);

PREPARE state AS
SELECT (SELECT array_agg(p) FROM snowflake_registry_place AS p),
       (SELECT array_agg(l) FROM snowflake_node_lease AS l),
       (SELECT array_agg(s) FROM snowflake_segment_server AS s),
       (SELECT array_agg(s) FROM snowflake_segment_tag AS s),
       (SELECT us(max(greatest(p.closed_until, p.guarded_until))) FROM snowflake_registry_place AS p),
       (SELECT max(p.changes) FROM snowflake_registry_place AS p),
       coalesce((SELECT us(max(t.told_at)) FROM snowflake_registry_told AS t), 0),
       (SELECT string_agg(concat_ws(',', l.node, coalesce(l.token::text, 'none'), us(l.expires_at),
                                    us(t.runs_until), l.mark, l.renewals), ' ')
        FROM snowflake_node_lease AS l
        JOIN snowflake_registry_told AS t ON t.who IS NOT DISTINCT FROM l.token AND t.told_at = l.renewed_at
             -- of leases that were refused, which have no token
             AND t.runs_until IN (l.expires_at, l.renewed_at + l.lease_ttl)),
       (SELECT string_agg(concat_ws(',', s.reporter, us(t.runs_until), s.reports), ' ')
        FROM snowflake_segment_server AS s JOIN snowflake_registry_told AS t ON t.who = s.reporter),
       (SELECT string_agg(concat_ws(',', s.tag, s.max_id), ' ') FROM snowflake_segment_tag AS s);
SQL

# A row of values, or a text of them, by their names.
sub named
{
	my ($row, @names) = @_;
	my %row = (text => $row);

	@row{@names} = ref $row ? @{$row} : split /,/, $row;
	return \%row;
}

sub state_of
{
	my (@row) = @_;
	my %state = (tables => [ splice @row, 0, scalar @tables ]);

	@state{qw(until changes told_at)} = splice @row, 0, 3;
	$state{leases} = [ map { named($_, qw(node token expires_at runs_until mark renewals)) } split / /, $row[0] // '' ];
	$state{reporters} = [ map { named($_, qw(reporter runs_until reports)) } split / /, $row[1] // '' ];
	$state{tags} = { map { split /,/ } split / /, $row[2] };
	return \%state;
}

my ($empty) = map { state_of(@{$_}) } query('EXECUTE state');

#
# The world
#
my %w;

sub begin
{
	my (%set) = @_;

	%w = (now => START, offset => 0, timeline => 1, database => 5, started => START, connection => 0, tx => 0, uuids => 0,
		ttl => 60 * SECOND, longest => HOUR, max_node => 1000, layout => 'layout', %set,
		map { $_ => [] } qw(servers tenures spans late losses trace));
	restore($empty);
	query(execute('longest', $w{longest}));
	request('SELECT', 1);
	return;
}

sub uuid { return sprintf '00000000-0000-4000-8000-%012x', ++$w{uuids}; }
sub clock { return $w{now} + $w{offset}; }
sub place { return sprintf '7000/%08X/%d/6', @w{qw(timeline database)}; }
sub where { return (clock(), place(), $w{started}); }
sub state { return $w{states}[-1]; }
sub seconds { return $_[0] ? sprintf '%.7g', ($_[0] - START) / SECOND : '-'; }

sub trace
{
	my ($who, @what) = @_;

	push @{ $w{trace} }, join ' ', seconds($w{now}) . ':', ref $who ? $who->{name} : $who, map { $_ // '-' } @what;
	return;
}

sub found
{
	my ($what, @text) = @_;

	trace('FOUND', "$what:", @text);
	$w{found}{$what} //= join "\n", @{ $w{trace} };
	return;
}

sub restore
{
	my ($state) = @_;

	foreach my $n (keys @tables)
	{
		my $rows = $state->{tables}[$n] // '{}';

		query("DELETE FROM $tables[$n]; INSERT INTO $tables[$n] SELECT * FROM unnest('" . $rows =~ s/'/''/gr . "'::$tables[$n]\[])");
	}
	return;
}

# One transaction of the registry.  The state after each is kept, since the registry may
# come back to it.
sub request
{
	my ($statement, $is_committed) = @_;
	my @rows = query($is_committed ? "$statement; EXECUTE state" : "BEGIN; $statement; ROLLBACK");

	return @rows if !$is_committed;
	push @{ $w{states} }, { %{ state_of(@{ pop @rows }) }, tx => ++$w{tx}, at => $w{now}, place => place(), connection => $w{connection} };
	$_->{noticed} //= $w{tx} foreach @{ $w{losses} };
	return @rows;
}

# Somebody was heard, who may be alive for so long by the registry's clock.  It is not
# shut for longer than the longest of these, as of the end of its record, if there is one.
sub note_heard
{
	my ($who, $span, $before) = @_;
	my $end = min(clock(), $before->{told_at});
	my $has_record = grep { $_->{runs_until} >= $end } @{ $before->{leases} }, @{ $before->{reporters} };

	$w{heard}{$who} = { at => clock(), span => min($span, $w{longest}) };
	my $most = $has_record ? max(map { $_->{span} } grep { $_->{at} + 1.05 * $_->{span} >= $end } values %{ $w{heard} }) : $w{longest};
	# what is closed stays closed, whatever the clock of the next member
	found('it is shut for too long', 'until', seconds(state()->{until}))
	  if !$w{members_off} && state()->{until} > max($before->{until}, clock() + $most);
	return;
}

#
# Servers
#
sub new_server
{
	my (%set) = @_;
	my $s = { name => 'S' . @{ $w{servers} }, offset => 0, ttl => $w{ttl}, last => 0, boot => 0, %set };

	# its token is written down before it registers its number
	$s->{disk} = { node => $s->{number}, known_token => uuid(), floor => 0, deadline => 0, boot => 0 } if defined $s->{number};
	push @{ $w{servers} }, $s;
	start($s);
	return $s;
}

# It goes on with what it remembers: with a lease on the same boot of the machine.
sub start
{
	my ($s) = @_;
	my $disk = $s->{disk} // { node => -1, floor => 0 };
	my $is_registration = defined $s->{number};

	%{$s} = (%{$s}, is_up => 1, token => $is_registration ? $disk->{known_token} : uuid(), node => -1, floor => 0, mark => 0, deadline => 0,
		recalled_token => $disk->{known_token}, recalled_node => $disk->{node}, recalled_floor => $disk->{floor},
		(map { $_ => $disk->{$_} } qw(timeline changes renewals)), skew => undef,
		reporter => uuid(), tags => {}, valid_until => 0, place => undef, reports => undef, connection => -1);
	take($s, @$disk{qw(node floor mark deadline known_token)})
	  if $w{now} < ($disk->{deadline} // 0) && ($is_registration || $disk->{boot} == $s->{boot});
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

	trace($s, $is_crash ? 'crashes' : 'stops');
	remember($s) if !$is_crash && $s->{node} >= 0 && $s->{deadline};
	$s->{is_up} = 0;
	$s->{last} = max($s->{last}, $w{now} + $s->{offset});

	# what it knew it may have forgotten; its reports are awaited all the same
	foreach my $loss (@{ $w{losses} })
	{
		delete $loss->{witnesses}{nodes}{ $s->{name} } if !is_ahead($s->{disk}, $loss, $s);
	}
	return;
}

# Does it know more of leases than the registry after a loss?
sub is_ahead
{
	my ($knows, $loss, $s) = @_;

	return ($knows->{changes} // 0) > $loss->{changes} || ($knows->{renewals} // 0) > ($loss->{renewals}{ $s->{name} } // NEVER);
}

# Was this lost, and can no registry know?  So when one that takes itself for the same has
# nobody to wait for who knows of the loss; when the holder did not report it, and the clock
# of the member that gave it out was ahead, or for a segment the clock is now; when its lease
# was longer than those of others; or when it is registered, and was not reported.
sub excused
{
	my ($had) = @_;
	my $loss = $had->{lost} or return 0;

	return 1 if $loss->{kind} eq 'restart' && !%{ $loss->{witnesses}{ $had->{kind} } // {} };
	return 1 if $had->{ttl} > min($w{ttl}, $w{longest}) || $had->{is_registered};
	return $had->{kind} eq 'nodes' ? $had->{offset} > $loss->{least_offset} : $w{offset} > $loss->{offset};
}

#
# Node numbers
#
sub take
{
	my ($s, $number, $floor, $mark, $deadline, $token) = @_;

	$s->{known_token} = $token;
	$s->{deadline} = $deadline;
	$s->{mark} = max($s->{mark}, $mark);
	return if $number == $s->{node} && $floor <= $s->{floor};
	$floor = max($floor, $s->{recalled_floor}) if $number == $s->{recalled_node};
	@$s{qw(node floor mark)} = ($number, $floor, $mark);
	remember($s);
	return;
}

# The server may draw with the number from its floor up to its mark, of which so much is on
# record.  No other may ever have had any of that.
sub allow
{
	my ($s, $granted) = @_;
	my $mine = first { $_->{server} == $s && $_->{node} == $s->{node} && $_->{from} == $s->{floor} } @{ $w{tenures} };

	push @{ $w{tenures} }, $mine = { kind => 'nodes', server => $s, node => $s->{node}, from => $s->{floor}, to => 0 } if !$mine;
	@$mine{qw(tx lost offset)} = ($w{tx}, undef, max($mine->{offset} // $w{offset}, $w{offset})) if $mine->{to} <= $granted;
	@$mine{qw(to ttl is_registered)} = (max($mine->{to}, $s->{mark}), min($s->{ttl}, $w{longest}), defined $s->{number});
	foreach my $had (grep { $_->{node} == $s->{node} && $_->{server} != $s } @{ $w{tenures} })
	{
		# for as long as both have it
		my $both = join ' ', $s->{node}, sort map { $_->{server}{name} } $mine, $had;
		next if $had->{to} <= $mine->{from} || $mine->{to} <= $had->{from} || ($w{excused}{$both} ||= excused($had) || excused($mine));
		found('a node number twice' . ($had->{lost} ? '' : ', though it was on record or reported'),
			$s->{node}, map { ($_->{server}{name}, 'from', seconds($_->{from}), 'to', seconds($_->{to})) } $mine, $had);
	}
	return;
}

sub lease_request
{
	my ($s) = @_;
	my $clock = $w{now} + $s->{offset};
	my $valid_until = $s->{deadline} > $w{now} ? $s->{deadline} : 0;

	$s->{last} = max($s->{last}, $clock) if $valid_until && $s->{floor} <= $clock && $clock < $s->{mark} && chance(0.5);
	return {
		server => $s, sent => $w{now}, valid_until => $valid_until, token => $s->{token}, number => $s->{number},
		held => (first { $_ >= 0 } @$s{qw(node recalled_node)}), held_token => $s->{recalled_token},
		remaining => $valid_until == NEVER ? $s->{ttl} : max($valid_until - $w{now} - ATTEMPT, 0),
		instance => "$s->{name}, boot $s->{boot}", max_node => $w{max_node}, lease_ttl => $s->{ttl},
		mark => max($clock, $s->{last}) + $s->{ttl}, clock => $clock, clock_offset => $s->{skew}, layout => $w{layout},
		seen => $s->{changes}, renewals => $s->{renewals}, wants_peers => $w{wants_peers} // pick(0, 1) };
}

sub serve_number
{
	my ($ask, $is_committed) = @_;
	my $before = state();
	my ($answer) = map { named($_, @node_columns) } request(
		execute('node', where(), @$ask{qw(token number held held_token remaining instance max_node)}, $ask->{interval} // $ask->{lease_ttl},
			@$ask{qw(mark clock clock_offset layout seen renewals wants_peers)}), $is_committed);

	trace($ask->{server}, "asks for a number, holding", $ask->{held}, 'for', $ask->{remaining} / SECOND, 'seen', @$ask{qw(seen renewals)},
		'at', seconds(clock()), ('(not committed)') x !$is_committed, 'and is told', $answer->{node},
		(map { seconds($answer->{$_} // 0) } qw(floor granted)), @$answer{qw(changes renewals refusal)});
	return $answer if !$is_committed;
	note_heard($ask->{token}, $ask->{lease_ttl}, $before);
	check_peers($ask, $answer, $before);

	# what it holds is on record now, if nobody else was given it meanwhile
	if (defined $ask->{held} && $ask->{remaining} > 0 && !any { $_->{node} == $ask->{held} && $_->{expires_at} >= clock()
			  && $_->{token} ne $ask->{token} && $_->{token} ne ($ask->{held_token} // '') } @{ $before->{leases} })
	{
		@$_{qw(tx lost)} = ($w{tx}, undef)
		  foreach grep { $_->{server} == $ask->{server} && $_->{node} == $ask->{held} && ($_->{to} <= $ask->{mark} || $_->{to} == NEVER) } @{ $w{tenures} };
	}
	return $answer;
}

# Its clock is compared with those only that have renewed lately.  Not where the registry's
# clock was another one, or has lost some.
sub check_peers
{
	my ($ask, $answer, $before) = @_;
	my @fresh = map { $_->{skew} } grep { $_->{at} >= clock() - 30 * SECOND } map { $w{renewed}{$_} } grep { $_ ne $ask->{token} } keys %{ $w{renewed} };
	my %was = map { $_->{text} => 1 } @{ $before->{leases} };

	$w{renewed}{ $ask->{token} } = { at => clock(), skew => $ask->{clock_offset} // $ask->{clock} - clock() }
	  if any { $_->{token} eq $ask->{token} && !$was{ $_->{text} } } @{ state()->{leases} };
	return if !$answer->{peers} || $w{has_lost} || $w{members_off};
	found('clocks of servers that are gone', "$answer->{peers} in place of", scalar @fresh)
	  if $answer->{peers} > @fresh || $answer->{peers_offset} < min(@fresh) - ATTEMPT - SECOND || $answer->{peers_offset} > max(@fresh) + ATTEMPT + SECOND;
	return;
}

sub heed_number
{
	my ($ask, $answer) = @_;
	my $s = $ask->{server};
	my $is_registration = defined $s->{number};

	return if $ask->{valid_until} && $w{now} >= $ask->{valid_until} || is_outdated($s->{timeline}, $answer->{timeline})
	  || $answer->{changes} < ($s->{changes} // 0);
	$s->{skew} = $ask->{clock} - $answer->{clock};
	if (!defined $answer->{node})
	{
		$s->{deadline} = 0;
		return if !$is_registration;

		# it has drawn up to now
		$s->{disk}{deadline} = 0;
		$_->{to} = min($_->{to}, max($s->{last}, $w{now} + $s->{offset})) foreach grep { $_->{server} == $s } @{ $w{tenures} };
		return;
	}
	my $is_elsewhere = ($s->{timeline} // '') ne $answer->{timeline};
	@$s{qw(timeline changes renewals)} = @$answer{qw(timeline changes renewals)};
	@{ $s->{disk} }{qw(timeline changes renewals)} = @$s{qw(timeline changes renewals)} if $s->{disk} && $is_elsewhere;
	take($s, @$answer{qw(node floor)}, $is_registration ? (NEVER, NEVER) :
		  ($answer->{granted}, $ask->{sent} + min($s->{ttl}, $answer->{lease_ttl})), $s->{token});
	allow($s, $is_registration ? NEVER : $answer->{granted});
	remember($s)
	  if !$s->{disk}{deadline} || $s->{disk}{node} != $s->{node} || $s->{disk}{known_token} ne $s->{token}
	  || chance(0.5) && $s->{deadline} - $s->{disk}{deadline} >= $s->{ttl} / 4;
	return;
}

# Places and timelines begin with the system, and then the timeline.
sub is_outdated
{
	my ($before, $now) = map { [ split m{/}, $_ // '' ] } @_;

	return @{$before} && $now->[0] eq $before->[0] && $now->[1] lt $before->[1];
}

#
# Segments
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
		seen => [ map { known($s, $_)->{seen} } @tags ], lengths => [ map { $length{$_} // 0 } @tags ], hold => $s->{ttl},
		reporter => $s->{reporter}, reports => $w{now} < $s->{valid_until} ? $s->{reports} : undef, place => $s->{place} };
}

sub serve_segments
{
	my ($ask, $is_committed) = @_;
	my $before = state();
	my @arrays = map { '{' . join(',', map { $_ // 'NULL' } @{$_}) . '}' } @$ask{qw(tags incarnations seen lengths)};
	my @rows = map { named($_, @segment_columns) } request(execute('segments', where(), @arrays, $ask->{interval} // $ask->{hold}, @$ask{qw(reporter reports place)}), $is_committed);

	trace($ask->{server}, "asks for segments of @{ $ask->{tags} }, seen @{ $ask->{seen} } and", $ask->{reports}, 'at', seconds(clock()),
		('(not committed)') x !$is_committed, 'and is told', map { my $row = $_; join '/', map { $_ // '-' } @$row{qw(tag first last max_id place reports)} } @rows);
	return @rows if !$is_committed;
	note_heard($ask->{reporter}, $ask->{hold}, $before);
	foreach my $n (keys @rows)
	{
		@$_{qw(tx lost)} = ($w{tx}, undef)
		  foreach grep { $_->{reporter} eq $ask->{reporter} && $_->{last} <= $ask->{seen}[$n] } @{ known($ask->{server}, $rows[$n]{tag})->{spans} };
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
	$s->{tags} = {} if $is_elsewhere && $w{now} >= $s->{valid_until};
	@$s{qw(connection place reports)} = ($w{connection}, @{ $rows[0] }{qw(place reports)});
	$s->{valid_until} = $ask->{sent} + $rows[0]{hold};
	foreach my $row (@rows)
	{
		my $tag = $s->{tags}{ $row->{tag} } = known($s, $row->{tag});

		$tag->{incarnation} = $row->{incarnation};
		draw_from($s, $tag, $row) if defined $row->{first};
	}
	foreach my $span (grep { $_->{given_to} } map { @{ $_->{spans} } } values %{ $s->{tags} })
	{
		found('a segment twice, its holder goes on with it', "$s->{name} and $span->{given_to}{name}");
	}
	return;
}

# All of a segment counts as drawn at once; of one that is lost, and that its server did not
# report before another got it, what that can still draw.
sub draw_from
{
	my ($s, $tag, $row) = @_;

	foreach my $had (grep { $_->{tag} eq $row->{tag} && $_->{first} <= $row->{last} && $row->{first} <= $_->{last} && !excused($_) } @{ $w{spans} })
	{
		my $holder = $had->{server};
		my $is_held = $holder->{is_up} && $w{now} < $holder->{valid_until} && any { $_ == $had } @{ known($holder, $had->{tag})->{spans} };

		$had->{given_to} = $s;
		found('a segment twice' . ($had->{lost} ? '' : ', though it was on record or reported'),
			$row->{tag}, map { ($_->{server}{name}, 'from', $_->{first}, 'to', $_->{last}) } { server => $s, %{$row} }, $had)
		  if !$had->{lost} || $is_held;
	}
	push @{ $w{spans} }, my $mine = { kind => 'segments', server => $s, reporter => $s->{reporter}, tx => $w{tx}, ttl => min($s->{ttl}, $w{longest}),
		map { $_ => $row->{$_} } qw(tag first last) };
	push @{ $tag->{spans} }, $mine;
	$tag->{seen} = max($tag->{seen}, $row->{last});
	return;
}

# Ask for a number, or for segments of tags, '' for none.  What becomes of the request: it
# is answered, or the answer is lost, or it is not committed, or it was given up and comes
# later.
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
	my @answer = $serve->($ask, $fate ne 'not committed');
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

# It comes back to a state of before: started again in the same place ("restart"), promoted or
# recovered, or restored from a dump, in another database.
sub lose
{
	my ($kind, $state, $offset) = @_;
	my $is_lossless = $state == state();

	$kind = 'promotion' if $kind eq 'restart' && $state->{place} ne place();
	pop @{ $w{states} } while state() != $state;
	restore($state) if !$is_lossless;
	$w{timeline}++ if $kind eq 'promotion';
	$w{database}++ if $kind eq 'dump';
	$w{connection}++;
	$w{offset} = $offset // $w{offset};
	$w{started} = clock() - 1;
	trace($kind, 'to', seconds($state->{at}), 'the clock is off by', $w{offset} / SECOND, place());
	$_->{least_offset} = min($_->{least_offset}, $w{offset}) foreach @{ $w{losses} };
	return if $is_lossless;

	$w{has_lost} = 1;
	push @{ $w{losses} }, my $loss = { kind => $kind, changes => $state->{changes}, offset => $w{offset}, least_offset => $w{offset} };
	foreach my $had (@{ $w{tenures} }, @{ $w{spans} })
	{
		my $before = $had->{lost};

		# a loss that was not noticed, or is so no more, is this one
		$had->{lost} = $loss
		  if !$before && $had->{tx} > $state->{tx}
		  || $before && "$kind $before->{kind}" eq 'restart restart' && ($before->{noticed} // $w{tx}) >= $state->{tx};
	}

	# for whom a guard waits, by the record, and who knows more than that
	foreach my $s (grep { $_->{is_up} } @{ $w{servers} })
	{
		my $lease = first { $_->{runs_until} >= $w{started} && ($_->{token} eq $s->{token} || $_->{token} eq ($s->{recalled_token} // '')) } @{ $state->{leases} };
		my $report = first { $_->{runs_until} >= $w{started} && $_->{reporter} eq $s->{reporter} } @{ $state->{reporters} };

		$loss->{renewals}{ $s->{name} } = $lease->{renewals} if $lease;
		$loss->{witnesses}{nodes}{ $s->{name} } = 1 if $lease && is_ahead($s, $loss, $s);
		$loss->{witnesses}{segments}{ $s->{name} } = 1 if $report && ($s->{reports} // 0) > $report->{reports};
	}
	return;
}

# The operator knows that nothing was lost.
sub open_registry
{
	my ($always) = @_;

	trace('the operator', 'opens it', $always);
	request(execute('open', where(), $always), 1);
	return;
}

# The operator knows that a server is stopped for good.
sub release
{
	my ($s) = @_;

	trace('the operator', "releases $s->{node} of $s->{name}, issued until", seconds($s->{last}));
	request(execute('release', clock(), $s->{node}, $s->{last}), 1);
	$_->{to} = min($_->{to}, $s->{last}) foreach grep { $_->{server} == $s && $_->{node} == $s->{node} } @{ $w{tenures} };
	return;
}

#
# Somebody who has the servers' password, and nothing else
#
sub attack
{
	my ($what, %set) = @_;
	my $before = state();
	my $clock = clock() + pick(0, 0, 0, 9 * SECOND, HOUR, -24 * HOUR);
	my @tags = grep { chance(0.5) } qw(a b);
	my @counts = (undef, 0, 1, 2, 60, 1000, 1e6, min(JUMP + $before->{changes}, MOST), 2 * JUMP, MOST);
	my $stranger = { name => 'a stranger' };

	serve_segments({
		server => $stranger, tags => \@tags, incarnations => [ map { pick(undef, $_ x 8 . '-0000-0000-0000-000000000000') } @tags ],
		seen => [ map { pick(0, 0, 1, 100, 1000, 100 * JUMP, MOST) } @tags ], lengths => [ map { pick(0, 0, 1, 1000) } @tags ],
		hold => pick(1, 10 * SECOND, $w{ttl}, 24 * HOUR, 9 * CENTURY), reporter => uuid(), reports => pick(@counts),
		place => pick(undef, place() . '/0', 'somewhere'), %set }, 1) if $what eq 'segments';
	serve_number({
		server => $stranger, token => uuid(), number => pick((undef) x 5, 0 .. 4), held => pick(undef, 0 .. 4), held_token => pick(undef, uuid()),
		remaining => pick(0, SECOND, HOUR, 1000 * HOUR), instance => pick('', 'S0, boot 0', 'x'), max_node => pick(0, 3, $w{max_node}, 2147483647),
		lease_ttl => pick(10 * SECOND, 10 * SECOND, $w{ttl}, 24 * HOUR), clock => $clock, clock_offset => pick(undef, undef, HOUR),
		mark => pick(0, $clock, $clock + $w{ttl}, $clock + CENTURY, MOST), layout => pick(('layout') x 3, 'another'),
		seen => pick(@counts), renewals => pick(@counts), wants_peers => 0, %set }, 1) if $what eq 'number';

	# what was somebody's is still so, and no count is beyond what can have been
	my %lease = map { $_->{node} => $_->{text} } @{ state()->{leases} };
	my %tag = %{ state()->{tags} };

	found('a stranger takes a lease', $_->{text}) foreach grep { $_->{expires_at} >= clock() && $lease{ $_->{node} } ne $_->{text} } @{ $before->{leases} };
	found('a stranger extends a closing', 'to', seconds(state()->{until}))
	  if $before->{until} > clock() && $before->{until} < state()->{until} && $before->{connection} == $w{connection};
	found('a stranger raises the count', $before->{changes}, state()->{changes}) if state()->{changes} > $before->{changes} + JUMP + 2;
	found('a stranger uses up a tag', $_, $tag{$_}) foreach grep { $tag{$_} > $before->{tags}{$_} + 2000 * JUMP } keys %tag;
	return;
}

# At the end, when all leases there can be are over, and the operator has released what a stranger
# has used up: a new server gets a number, the only one that is not registered, and a segment.
sub check_end
{
	$w{late} = [];
	$_->{is_up} = 0 foreach @{ $w{servers} };
	elapse(HOUR + max(0, -$w{offset}) + SECOND);
	$w{offset} = 0;
	$w{max_node} = grep { $_->{expires_at} == NEVER } @{ state()->{leases} };
	my $last = max(clock(), map { $_->{last} } @{ $w{servers} });
	request(execute('release', clock(), $_->{node}, $last), 1) foreach grep { $_->{expires_at} != NEVER } @{ state()->{leases} };
	$_->{to} = min($_->{to}, $last) foreach @{ $w{tenures} };
	my $s = new_server();
	foreach (1, 2)
	{
		ask($s, 'answered', @{$_}) foreach [], ['a'];
		elapse(HOUR + SECOND);
	}
	my ($answer) = ask($s, 'answered');
	my ($row) = ask($s, 'answered', 'a');
	found('it gives out no numbers any more', $answer->{refusal}) if !defined $answer->{node};
	found('it gives out no segments any more') if !defined $row->{first};
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

my @moment = (tags => ['a'], incarnations => [undef], seen => [0], lengths => [0], hold => 10 * SECOND, reports => undef);

is_sound('the first claim is lost with the primary', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	ask($s, 'answered');
	lose('promotion', $w{states}[0]);
	ask($other, 'answered');
});

is_sound('it is lost, and a stranger asks first, for a moment', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	ask($s, 'answered');
	lose('promotion', $w{states}[0]);
	attack('segments', @moment);
	ask($other, 'answered');
});

is_sound('the stranger was there before', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	attack('segments', @moment);
	my $state = state();
	ask($s, 'answered');
	lose('promotion', $state);
	attack('segments', @moment);
	ask($other, 'answered');
});

# Intervals that are as long as an hour, and over long ago, or in years; the last one
# ends beyond all times.
foreach my $interval ('-1000 mon 30000 days 1 hour', '1000 mon -30000 days 1 hour', '3507001 mon -105210030 days 1 hour')
{
	my @number = (number => undef, held => undef, remaining => 0, max_node => 3, layout => 'layout', mark => 0, lease_ttl => HOUR, clock => START,
		clock_offset => undef, seen => undef, renewals => undef, interval => $interval);

	foreach my $attack ([ 'number', @number ], [ 'segments', @moment, interval => $interval ])
	{
		is_sound("a stranger asks first, $attack->[0] for $interval", sub {
			my ($s, $other) = map { new_server() } 1, 2;

			ask($s, 'answered', @{$_}) foreach [], ['a'];
			lose('promotion', $w{states}[0]);
			attack(@{$attack});
			ask($other, 'answered', @{$_}) foreach [], ['a'];
		});
	}
	is_sound("a stranger has seen more, for $interval", sub {
		ask(new_server(), 'answered');
		attack('number', @number, $_ => 1000) foreach qw(max_node seen);
		ask(new_server(), 'answered');
		check_end();
	});
}

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
	ask($_, 'answered') foreach $first, $other;
}, offset => HOUR);

is_sound('it is on record, and what was lost is its last renewal', sub {
	my ($s, $other) = map { new_server(offset => $_) } 0, -HOUR;

	ask($s, 'answered');
	my $state = state();
	elapse(3 * SECOND);
	ask($s, 'answered');
	lose('promotion', $state, -HOUR);
	ask($s, 'answered');
	elapse(2 * HOUR);
	ask($other, 'answered');
});

is_sound('a stranger has seen very much', sub {
	ask(new_server(), 'answered');
	attack('number', seen => MOST, renewals => undef, lease_ttl => 24 * HOUR);
	check_end();
});

is_sound('a stranger has raised the count twice, and that is lost', sub {
	my ($s, $other) = map { new_server() } 1, 2;
	my $state = state();

	foreach (1, 2)
	{
		attack('number', seen => JUMP + state()->{changes}, renewals => undef, number => undef, max_node => 3, mark => 0, clock => clock(), clock_offset => undef);
		elapse(HOUR + SECOND);
	}
	ask($s, 'answered');
	lose('promotion', $state);
	foreach my $pause (3 * SECOND, HOUR, 0)
	{
		ask($_, 'answered') foreach $s, $other;
		elapse($pause);
	}
});

is_sound('a stranger has raised it, a number was registered, and that is lost', sub {
	my ($s, $other) = map { new_server(number => $_) } 0, undef;
	my $state = state();

	attack('number', seen => JUMP, renewals => undef, number => undef, max_node => 3, mark => 0, clock => clock(), clock_offset => undef);
	elapse(HOUR + SECOND);
	ask($s, 'answered');
	lose('promotion', $state);
	foreach my $pause (3 * SECOND, HOUR, 0)
	{
		ask($_, 'answered') foreach $s, $other;
		elapse($pause);
	}
});

is_sound('a stranger goes on for centuries', sub {
	my $s = new_server();

	ask($s, 'answered', 'a');
	attack('segments', @moment, hold => 9 * CENTURY);
	lose('promotion', state());
	ask($s, 'answered', 'a');
	check_end();
});

is_sound('a stranger reports a number with a mark of the next century', sub {
	attack('number', number => undef, held => 0, remaining => SECOND, mark => clock() + CENTURY, lease_ttl => 10 * SECOND, clock => clock(),
		clock_offset => undef, layout => 'layout', max_node => 3, seen => undef, renewals => undef);
	check_end();
});

is_sound('a server had a lease of a day, a month ago', sub {
	my ($long, $s) = map { new_server(ttl => $_) } 24 * HOUR, 60 * SECOND;

	ask($long, 'answered', @{$_}) foreach [], ['a'];
	foreach my $pause (SECOND, 30 * 24 * HOUR)
	{
		elapse($pause);
		ask($s, 'answered', @{$_}) foreach [], ['a'];
	}
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

is_sound('registered servers have another layout now', sub {
	my @servers = map { new_server(number => $_) } 1, 2;

	ask($_, 'answered') foreach @servers;
	stop($_) foreach @servers;
	$w{layout} = 'another';
	elapse(HOUR);
	foreach my $s (@servers)
	{
		start($s);
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

is_sound('after a restart that lost nothing it is open when all have asked', sub {
	my @servers = map { new_server(number => $_) } undef, undef, 5;

	foreach my $alive ([ @servers[ 0, 1 ] ], \@servers, [ $servers[0] ], [ $servers[2] ])
	{
		ask($_, 'answered', 'a'), ask($_, 'answered') foreach @{$alive};
		lose('restart', state());
		ask($_, 'answered', ''), ask($_, 'answered') foreach @{$alive}, @{$alive};
		found('it is still on its guard', 'until', seconds(state()->{until}), 'with', scalar @{$alive}) if state()->{until} > clock();
		elapse(HOUR);
	}
});

is_sound('what is restored is from before a server changed its number', sub {
	my ($s, $other) = map { new_server() } 1, 2;

	ask($s, 'answered');
	my $state = state();
	elapse(150 * SECOND);
	ask($_, 'answered') foreach $other, $s;
	lose('promotion', $state);
	elapse(3 * SECOND);
	my ($answer) = ask($s, 'answered');
	found('it loses the number that it holds', $answer->{refusal}) if !defined $answer->{node};
});
is_sound('the same, and clocks of the registry differ', sub {
	my ($s, $other) = map { new_server(offset => HOUR) } 1, 2;

	ask($s, 'answered');
	my $state = state();
	elapse(150 * SECOND);
	ask($_, 'answered') foreach $other, $s;
	lose('promotion', $state, 0);
	elapse(3 * SECOND);
	ask($_, 'answered') foreach $s, $other;
	elapse(61 * SECOND);
	my @new = map { new_server() } 1 .. 3;
	foreach (1 .. 140)
	{
		ask($_, 'answered') foreach @new;
		elapse(30 * SECOND);
	}
}, offset => HOUR);

#
# Random histories
#
sub random_server
{
	return if @{ $w{servers} } > 7;
	return new_server(offset => $w{servers_off} ? pick(0, 0, 9 * SECOND, HOUR, -HOUR) : 0, number => chance($w{registers}) ? pick(0 .. 3) : undef,
		chance($w{has_long}) ? (ttl => 24 * HOUR) : ());
}

sub fate { return pick(('answered') x 7, 'lost', 'not committed', 'late'); }

sub happen
{
	my @up = grep { $_->{is_up} } @{ $w{servers} };
	my $s = pick(@up);
	my $what = rand 100;

	if ($what < 15)
	{
		# as all do every 3 seconds
		foreach my $each (shuffle grep { !$_->{is_cut} } @up)
		{
			ask($each, fate());
			ask($each, fate(), pick('', 'a', 'b')) if chance(0.6);
		}
		elapse(between(0, 3 * SECOND));
	}
	elsif ($what < 30)
	{
		elapse($w{is_brisk} ? between(0, 5 * SECOND) : pick($w{ttl} / 4, $w{ttl}, $w{ttl} + between(0, SECOND), 2 * $w{ttl}));
		elapse(30 * HOUR) if !$w{is_brisk} && chance(0.01);
	}
	elsif ($what < 33) { random_server(); }
	elsif ($what < 43)
	{
		my @states = @{ $w{states} };
		my $state = $w{is_sync} || chance(0.3) ? $states[-1] : pick($states[0], pick(@states), (@states)[ map { -min($_, scalar @states) } 2 .. 8 ]);

		lose(pick(qw(restart restart promotion promotion), ('dump') x !$w{is_sync}), $state, $w{members_off} ? pick(0, 0, HOUR, -HOUR, 20 * SECOND) : 0);
		open_registry(undef) if !$w{has_lost} && chance(0.5);

		# some are soon there, and a new one
		ask($_, 'answered', @{ pick([], ['a']) }) foreach shuffle grep { chance(0.5) } map { ($_) x 3 } grep { !$_->{is_cut} } @up;
		ask($_, 'answered', @{ pick([], ['a']) }) foreach grep { defined } random_server();
	}
	elsif ($what < 45)
	{
		my ($gone) = shuffle grep { !$_->{is_up} && $_->{node} >= 0 && !$_->{is_released}++ } @{ $w{servers} };

		release($gone) if $gone && any { $_->{node} == $gone->{node} && $_->{token} eq $gone->{known_token} } @{ state()->{leases} };
	}
	elsif ($what < 50) { attack(pick('number', 'segments')) if $w{has_strangers}; }
	elsif (!$s) { return; }
	elsif ($what < 55)
	{
		$s->{is_cut} = !$s->{is_cut};
		trace($s, $s->{is_cut} ? 'is cut off' : 'is back');
	}
	elsif ($what < 60)
	{
		stop($s, chance(0.7));
		$s->{boot}++ if chance(0.2);
		elapse(between(0, 2 * SECOND));
		start($s) if chance(0.7);
	}
	elsif (!$s->{is_cut}) { ask($s, fate(), chance(0.5) ? () : pick('', 'a', 'a', 'b')); }
	return;
}

note "SNOWFLAKE_FAULT_SEED=$seed SNOWFLAKE_FAULT_ROUNDS=$rounds";
my %count;
foreach my $number ($seed .. $seed + $rounds - 1)
{
	srand $number;
	begin(ttl => pick(10, 60, 600) * SECOND, longest => pick(HOUR, HOUR, 30 * SECOND), registers => pick(0, 0, 0.4), has_long => pick((0) x 4, 0.1),
		map { $_->[0] => chance($_->[1]) } [ is_sync => 0.15 ], [ is_brisk => 0.5 ], [ servers_off => 0.3 ], [ members_off => 0.2 ], [ has_strangers => 0.4 ]);
	open_registry(1) if $w{is_sync};
	random_server() foreach 0 .. rand 3;
	happen() foreach 1 .. 20 + rand 40;
	check_end();
	foreach my $what (grep { !$count{$_}++ } sort keys %{ $w{found} })
	{
		diag "SNOWFLAKE_FAULT_SEED=$number SNOWFLAKE_FAULT_ROUNDS=1: $what\n$w{found}{$what}";
	}
	query("VACUUM $_") foreach $number % 20 ? () : @tables;
}
is(join(', ', map { "$_: $count{$_}" } sort keys %count), '', "$rounds histories");
done_testing();
