# Perl's DBI with DBD::Pg.  It connects to where PGHOST, PGDATABASE and so on say.

use strict;
use warnings FATAL => 'all';

use B;
use DBI;
use JSON::PP;
use Test::More;
use Time::HiRes;

my $db = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1, PrintError => 0 });
note "DBD::Pg $DBD::Pg::VERSION, Perl $^V";
$db->do('SET client_min_messages = warning');
$db->do('CREATE EXTENSION IF NOT EXISTS snowflake');
$db->do(<<'SQL');
CREATE TABLE orders (
    id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    item text NOT NULL
)
SQL

# IDs have milliseconds.  This is a text with the time zone.
sub at
{
	my ($seconds) = @_;
	my ($s, $min, $h, $day, $month, $year) = gmtime $seconds;

	return sprintf '%04d-%02d-%02d %02d:%02d:%02d.%03d+00', $year + 1900, $month + 1, $day,
	  $h, $min, $s, int(($seconds - int $seconds) * 1000);
}
sub now { return at(Time::HiRes::time()); }

# Is it stored as an integer, which Perl has with 64 bits?
sub is_integer { return B::svref_2object(\$_[0])->FLAGS & B::SVf_IOK; }

# keys are those in the order in which the driver returned them, and since is
# now() before they were drawn.
sub check_keys
{
	my ($what, $keys, $count, $since) = @_;
	my %different = map { $_ => 1 } @$keys;

	ok(@$keys == $count && !grep({ !is_integer($_) || $_ <= 2**53 } @$keys), "$what: $count exact keys")
	  or diag explain $keys;
	is(scalar keys %different, $count, "$what: all of them different");
	is_deeply([ sort { $a <=> $b } @$keys ], $keys, "$what: ascending");
	my ($times, $nodes) = $db->selectrow_array(<<'SQL', undef, $since, $keys);
SELECT count(*) FILTER (WHERE p.ts BETWEEN ? AND clock_timestamp()),
  count(*) FILTER (WHERE p.node = current_setting('snowflake.node_id')::int)
FROM unnest(?::bigint[]) AS id, snowflake_parse(id) AS p
SQL
	is($times, $count, "$what: with the time at which they were drawn");
	is($nodes, $count, "$what: with the server's node number");
	return;
}

# The message of an error
sub error_of
{
	my ($call) = @_;
	my $result = eval { $call->() };

	return $@ || "no error, but " . ($result // 'undef');
}

my $from = now();

# One row
my $since = now();
my ($id) = $db->selectrow_array('INSERT INTO orders (item) VALUES (?) RETURNING id', undef, 'tea');
check_keys('INSERT', [$id], 1, $since);
is_deeply($db->selectcol_arrayref('SELECT item FROM orders WHERE id = ?', undef, $id), ['tea'], 'a key finds its row');

# Many rows in one statement
my @items = map { "item $_" } 1 .. 1000;
$since = now();
my $ids = $db->selectcol_arrayref('INSERT INTO orders (item) SELECT unnest(?::text[]) RETURNING id', undef, \@items);
check_keys('one INSERT of many rows', $ids, 1000, $since);

# A prepared statement
$since = now();
my $insert = $db->prepare('INSERT INTO orders (item) VALUES (?) RETURNING id');
$ids = [];
foreach (1 .. 20)
{
	$insert->execute("prepared $_");
	push @$ids, $insert->fetchrow_array;
}
check_keys('a prepared statement', $ids, 20, $since);

# execute_array() runs it for each of the items, and has the last key only.
$insert->execute_array({}, [ map { "item $_" } 1 .. 10 ]);
is(scalar @{ $insert->fetchall_arrayref }, 1, 'execute_array() has one key of ten');

# COPY does not return keys.  Where they are needed, draw them before.
$since = now();
$ids = $db->selectcol_arrayref('SELECT snowflake_nextval(?)', undef, 1000);
$db->do('COPY orders (id, item) FROM STDIN');
$db->pg_putcopydata("$_\tcopied with its key\n") foreach @$ids;
$db->pg_putcopyend;
check_keys('keys drawn for COPY', $ids, 1000, $since);

# Rows of a period, by the primary key
my $till = at(Time::HiRes::time() + 1);
my $rows = $db->selectall_arrayref('SELECT * FROM orders WHERE snowflake_in(id, ?, ?)', { Slice => {} }, $from, $till);
is(scalar @$rows, 2031, 'snowflake_in() finds the rows');
$rows = $db->selectall_arrayref('SELECT * FROM orders WHERE snowflake_in(id, ?, ?)', undef, '2026-01-01', $from);
is_deeply($rows, [], 'and none where there are none');

# One argument is a day or an instant.
sub id_range_for
{
	return $db->selectrow_array('SELECT id_range_for(' . join(', ', ('?') x @_) . ')', undef, @_);
}
is(id_range_for('2026-11-20'), id_range_for('2026-11-20', '2026-11-21'), 'id_range_for() of a date is the day');
is(id_range_for('2026-11-20 10:00:00.001+00'), id_range_for('2026-11-20 10:00:00.001+00', '2026-11-20 10:00:00.002+00'),
	'id_range_for() of a time is the millisecond');

# last_insert_id() looks for a sequence.
like(error_of(sub { $db->last_insert_id(undef, undef, 'orders', undef) }),
	qr/No suitable column found for last_insert_id of table "orders"/, 'last_insert_id() is an error');
$db->do('CREATE TABLE tickets (id bigserial PRIMARY KEY, item text)');
$db->do(q{INSERT INTO tickets (item) VALUES ('before')});
is($db->last_insert_id(undef, undef, 'tickets', undef), 1, 'last_insert_id() of a sequence');
$db->do(q{SELECT snowflake_convert('tickets', 'id', dry_run => false)});
$db->do(q{INSERT INTO tickets (item) VALUES ('after')});
like(error_of(sub { $db->last_insert_id(undef, undef, 'tickets', undef) }),
	qr/relation "public.tickets_id_seq" does not exist/, 'after a conversion it looks for the former sequence');

# Numbers and JSON
ok($id + 1 - 1 == $id && $id / 1 == $id, 'arithmetic keeps the digits');
is(JSON::PP->new->decode("{\"id\": $id}")->{id}, $id, 'JSON keeps the digits');
is(JSON::PP->new->encode({ id => $id }), "{\"id\":$id}", 'JSON: a number');
is(JSON::PP->new->encode({ id => "$id" }), "{\"id\":\"$id\"}", 'JSON: a text');

$db->disconnect;
done_testing();
