# Orders on two servers, partitioned by the shard in their keys: the keys are
# drawn on both, and each row is on the server that its key says.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my @servers = map { snowflake_node("shard$_", "snowflake.node_id = $_\nautovacuum = off\n") } 0 .. 1;

sub sql { return $servers[ $_[0] ]->safe_psql('postgres', $_[1]); }

sub plan_of
{
	my ($server, $where) = @_;
	my $plan = sql($server, "EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE $where");

	return [ $plan =~ /(?:Scan.* on|->|^) ?(orders_\d)/mg ];
}

# Each server has one partition, and sees that of the other as a foreign table.
foreach my $i (0 .. 1)
{
	sql($i, <<SQL);
CREATE EXTENSION postgres_fdw;
SELECT snowflake_key_format_create('user', 'US', 2, 8), snowflake_key_format_create('order', 'UD', 2, 8);
CREATE TABLE orders (order_no text COLLATE "C" NOT NULL, user_no text) PARTITION BY RANGE (order_no);
CREATE TABLE orders_$i PARTITION OF orders (PRIMARY KEY (order_no)) FOR VALUES FROM ('UD0@{[$i]}') TO ('UD0@{[$i + 1]}');
SQL
}
foreach my $i (0 .. 1)
{
	my $other = 1 - $i;
	my ($host, $port) = ($servers[$other]->host, $servers[$other]->port);

	sql($i, <<SQL);
CREATE SERVER shard$other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER shard$other;
CREATE FOREIGN TABLE orders_$other PARTITION OF orders FOR VALUES FROM ('UD0$other') TO ('UD0@{[$other + 1]}') SERVER shard$other;
SQL
}

# Orders of 16 users, each on the shard of its user, from both servers.
sql($_, <<'SQL') foreach 0 .. 1;
INSERT INTO orders
SELECT snowflake_key('order', user_no), user_no
FROM (SELECT snowflake_key('user', n) AS user_no FROM generate_series(0, 15) AS n OFFSET 0) AS users, generate_series(1, 50);
SQL
foreach my $i (0 .. 1)
{
	is( sql($i, "SELECT count(*), bool_and((p).database = $i), bool_and((p).\"table\" = (u).\"table\"), string_agg(DISTINCT (p).node::text, ' ') FROM (SELECT snowflake_key_parse(order_no) AS p, snowflake_key_parse(user_no) AS u FROM ONLY orders_$i) AS o"),
		'800|t|t|0 1', "server $i has the orders of its users, from both servers");
	is(sql($i, 'SELECT count(*), count(DISTINCT order_no) FROM orders'), '1600|1600', "server $i sees all of them, and no key twice");
	my $own = sql($i, "SELECT min(order_no) FROM orders_$i");
	my $others = sql($i, "SELECT max(order_no) FROM orders_@{[1 - $i]}");
	is_deeply(plan_of($i, "order_no = '$own'"), ["orders_$i"], "server $i looks for an order of its own at home only");
	is_deeply(plan_of($i, "order_no = '$others'"), [ 'orders_' . (1 - $i) ], "and for one of the other there only");
	is(sql($i, "SELECT count(*) FROM orders WHERE order_no IN ('$own', '$others')"), 2, 'and finds both');
}

done_testing();
