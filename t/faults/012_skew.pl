# IDs drawn one by one, hardly ever two in a millisecond and slot, are spread
# evenly over id % n, so that n shards, partitions or hash buckets get as much
# each.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my @moduli = (2, 3, 4, 7, 8, 10, 16, 64, 256, 1024);
my $sessions = 24;    # most of the time asleep

my $node = snowflake_node('skew', <<'CONF');
autovacuum = off
log_statement = none
synchronous_commit = off
CONF

# Sleep between two IDs for 1 to 15 ms.  With sleeps of the same length the
# time in an ID, which is above 22 other bits, would go up in equal steps, and
# might make a pattern of its own for an odd n, whatever the sequence does.
# All lengths from 1 to 15 alike are even modulo 3 and 5, and nearly so modulo
# 7, so that what is measured is what the sequence number adds.
$node->safe_psql('postgres', <<'SQL');
CREATE UNLOGGED TABLE drawn (id bigint);
CREATE PROCEDURE draw(count int, items int DEFAULT 0) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. count LOOP
        PERFORM pg_sleep((1 + floor(random() * 15)) / 1000);
        INSERT INTO drawn VALUES (snowflake_nextval());
        PERFORM snowflake_nextval() FROM generate_series(1, items);
    END LOOP;
END
$$;
SQL

# Draw so many IDs with these settings, in several sessions; after each so many
# items, whose IDs are not kept.
sub draw
{
	my ($count, %settings) = @_;
	my $what = join ', ', map { "$_ = $settings{$_}" } sort keys %settings;
	my $items = delete $settings{items} // 0;

	foreach my $name (sort keys %settings)
	{
		$node->safe_psql('postgres',
			"ALTER SYSTEM SET snowflake.$name = '$settings{$name}'");
	}
	$node->safe_psql('postgres', 'TRUNCATE drawn');
	reload_node($node);
	foreach my $name (keys %settings)
	{
		$node->poll_query_until('postgres',
			"SELECT current_setting('snowflake.$name') = '$settings{$name}'")
		  or die "$name was not set";
	}

	my @psqls =
	  map { start_sql($node, "CALL draw($count / $sessions, $items)") } 1 .. $sessions;
	is(join('', map { (finish_sql($_))[1] } @psqls),
		'', "$what: IDs are drawn");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM drawn'), $count, "$what: all are there");
	return $what;
}

# Of these, leave those that began their millisecond in a slot: what one session
# draws that is alone.
sub leave_first
{
	my ($what) = @_;

	my $left = $node->safe_psql('postgres', <<'SQL');
DELETE FROM drawn AS d USING drawn AS e WHERE e.id >> 12 = d.id >> 12 AND e.id < d.id;
SELECT count(*) FROM drawn;
SQL
	note "$what: $left began a millisecond";
	return $what;
}

# Pearson's chi-square of an expression that takes $n values.
sub chi_square
{
	my ($expression, $n) = @_;
	return $node->safe_psql('postgres', <<SQL);
SELECT sum((coalesce(seen, 0) - expected) ^ 2 / expected)
FROM generate_series(0, $n - 1) AS value
     LEFT JOIN (SELECT $expression AS value, count(*) AS seen
                FROM drawn GROUP BY 1) AS s USING (value)
     CROSS JOIN (SELECT count(*)::float8 / $n AS expected FROM drawn) AS e
SQL
}

# The bound.  Even numbers give a chi-square with n - 1 degrees of freedom.
# The formula is that of Wilson and Hilferty for the value that is exceeded
# with the probability that a normal variable is 6 standard deviations above
# its mean, 1e-9; for few degrees of freedom, where it is not exact, it gives
# more than that (46.9 for one, where 37.3 would do).  Below there is no bound:
# "continue" takes the numbers in turn, which is more even than chance.
sub bound
{
	my ($n) = @_;
	my $df = $n - 1;
	return $df * (1 - 2 / (9 * $df) + 6 * sqrt(2 / (9 * $df)))**3;
}

sub check_even
{
	my ($what) = @_;
	for my $n (@moduli)
	{
		my $chi_square = chi_square("id % $n", $n);
		note sprintf '%s: id %% %d: chi-square %.1f, bound %.1f',
		  $what, $n, $chi_square, bound($n);
		cmp_ok($chi_square, '<', bound($n), "$what: id % $n is even");
	}
	return;
}

# In "continue" the shared slot goes through its sequence numbers, so the sessions
# together draw a multiple of the largest n.
check_even(draw($sessions * 1024, sequence_start => 'continue'));
check_even(leave_first(draw($sessions * 1024, sequence_start => 'random')));
check_even(leave_first(draw($sessions * 1024, sequence_start => 'random', items => 3)));

# A smaller range of first numbers, as Leaf has: all of it is used, no more.
{
	my $what = leave_first(
		draw($sessions * 500,
			sequence_start => 'random',
			sequence_start_max => 99));
	is( $node->safe_psql('postgres', <<'SQL'),
SELECT min(sequence), max(sequence) FROM drawn, snowflake_parse(id)
SQL
		'0|99', "$what: the first number of a millisecond is 0 to 99");
	my $chi_square = chi_square('(snowflake_parse(id)).sequence', 100);
	note sprintf '%s: sequence: chi-square %.1f, bound %.1f',
	  $what, $chi_square, bound(100);
	cmp_ok($chi_square, '<', bound(100), "$what: all alike");
}

# With "zero" the same measure finds the skew, for each even n.  (Modulo an odd
# n the time in the ID spreads it.)
{
	my $what = leave_first(draw($sessions * 167, sequence_start => 'zero'));
	for my $n (grep { $_ % 2 == 0 } @moduli)
	{
		my $chi_square = chi_square("id % $n", $n);
		note sprintf '%s: id %% %d: chi-square %.1f, bound %.1f',
		  $what, $n, $chi_square, bound($n);
		cmp_ok($chi_square, '>', 10 * bound($n), "$what: id % $n is not even");
	}
}

$node->stop;
done_testing();
