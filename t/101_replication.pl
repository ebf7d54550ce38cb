# Rows with IDs go to other servers: by logical replication, one way, both ways
# and to a server that takes over; by dumps of a database that has all that the
# extension keeps in one; and by pg_upgrade, which takes the numbers along that
# were backfilled or are of segments.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $hour = 3600;
my $dir = PostgreSQL::Test::Utils::tempdir('dumps');

# The same rows on two servers, when all has arrived
sub same_rows
{
	my ($a, $b, $table) = @_;
	my $all = "SELECT count(*) || ' ' || coalesce(md5(string_agg(r::text, ' ' ORDER BY id)), '') FROM $table r";

	return wait_for(sub { $a->safe_psql('postgres', $all) eq $b->safe_psql('postgres', $all) });
}

sub error_of
{
	my ($node, $dbname, $sql, %opts) = @_;
	my (undef, undef, $stderr) = $node->psql($dbname, "\\set VERBOSITY verbose\n$sql", %opts);

	return psql_error($stderr);
}

#
# Logical replication
#
{
	my $table = <<'SQL';
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), server text DEFAULT current_setting('cluster_name')) PARTITION BY RANGE (id);
CREATE TABLE orders_all PARTITION OF orders DEFAULT;
SQL
	my $insert = 'INSERT INTO orders DEFAULT VALUES RETURNING id';
	my ($a, $b) = map {
		my $node = snowflake_node("logical$_", "snowflake.node_id = $_\ncluster_name = 'logical$_'\nmax_connections = 50\n",
			allows_streaming => 'logical', clock => 0);
		$node->safe_psql('postgres', "$table CREATE PUBLICATION orders FOR TABLE orders");
		$node;
	} 1, 2;
	my $ledger = new_ledger();
	my $subscribe = sub {
		my ($from, $to, $table, $options) = @_;
		my ($name, $connstr) = ($from->name, $from->connstr('postgres') =~ s/'/''/gr);

		$to->safe_psql('postgres', "CREATE SUBSCRIPTION ${table}_from_$name CONNECTION '$connstr' PUBLICATION $table " . ($options // ''));
		return;
	};

	# One way.  Both draw while the rows that there are are copied, and after it.
	$a->safe_psql('postgres', "INSERT INTO orders (server) SELECT 'before' FROM generate_series(1, 20000)");
	my @draws = map { start_draw($_, sessions => 3, sql => $insert, delay => 1) } $a, $b;
	wait_drawn($_, 100) foreach @draws;
	$subscribe->($a, $b, 'orders');
	ok($b->poll_query_until('postgres', "SELECT count(*) = 20000 FROM orders WHERE server = 'before'"), 'one way: the rows are copied');
	wait_drawn($_, 300) foreach @draws;
	$ledger->add($_) foreach @draws;
	ok( wait_for(sub {
			$a->safe_psql('postgres', 'SELECT md5(string_agg(id::text, chr(32) ORDER BY id)) FROM orders')
			  eq $b->safe_psql('postgres', "SELECT md5(string_agg(id::text, chr(32) ORDER BY id)) FROM orders WHERE server <> 'logical2'");
		}),
		'one way: the rows arrive, with the IDs that they have');
	is($b->safe_psql('postgres', "SELECT DISTINCT server, (snowflake_parse(id)).node FROM orders ORDER BY 1"),
		"before|1\nlogical1|1\nlogical2|2", 'one way: each has the number of the server that drew it');
	is($b->safe_psql('postgres', "SELECT DISTINCT status FROM snowflake_check() WHERE name = 'tables'"), 'ok', 'one way: snowflake_check() finds that right');

	# Formats of keys, too, where they are published; sessions that have read them
	# learn of it
	$a->safe_psql('postgres', 'CREATE PUBLICATION formats FOR TABLE snowflake_catalog.key_formats');
	$subscribe->($a, $b, 'formats');
	ok($b->poll_query_until('postgres', q(SELECT srsubstate = 'r' FROM pg_subscription_rel WHERE srrelid = 'snowflake_catalog.key_formats'::regclass)),
		'formats: copied');
	my $session = session($b);
	my $drawn = sub { return ($session->query("SELECT 'drawn: ' || left(snowflake_key('order', 7), 4)"))[0] =~ /^drawn: (.*)/ ? $1 : '' };
	is($drawn->(), '', 'formats: there is none');
	$a->safe_psql('postgres', "SELECT snowflake_key_format_create('order', 'OR', 2, 4)");
	ok(wait_for(sub { $drawn->() eq 'OR01' }), 'formats: a new one');
	$a->safe_psql('postgres', "SELECT snowflake_key_format_rename('order', 'bill')");
	ok(wait_for(sub { $drawn->() eq '' }), 'formats: one that is renamed');
	$a->safe_psql('postgres', "SELECT snowflake_key_format_rename('bill', 'order')");
	ok(wait_for(sub { $drawn->() eq 'OR01' }), 'formats: and renamed back');
	$a->safe_psql('postgres', "SELECT snowflake_key_format_drop('order')");
	ok(wait_for(sub { $drawn->() eq '' }), 'formats: one that is dropped');
	$session->quit;
	$b->safe_psql('postgres', 'DROP SUBSCRIPTION formats_from_logical1');

	# Both ways at once, of rows that have not come from there
  SKIP:
	{
		skip 'origin = none is there from 16 on', 3 if $a->pg_version < 16;
		$_->safe_psql('postgres', 'CREATE TABLE cart (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), server text DEFAULT current_setting($$cluster_name$$)); CREATE PUBLICATION cart FOR TABLE cart')
		  foreach $a, $b;
		# no copy, which would begin at some time, and bring back what has come
		$subscribe->($a, $b, 'cart', 'WITH (origin = none, copy_data = off)');
		$subscribe->($b, $a, 'cart', 'WITH (origin = none, copy_data = off)');
		@draws = map { start_draw($_, sessions => 3, sql => $insert =~ s/orders/cart/r, delay => 1) } $a, $b;
		wait_drawn($_, 500) foreach @draws;
		$ledger->add($_) foreach @draws;
		ok(same_rows($a, $b, 'cart'), 'both ways: the same rows on both');
		foreach my $node ($a, $b)
		{
			unlike(slurp_file($node->logfile), qr/duplicate key|conflict/, 'both ways: no conflict on ' . $node->name);
		}
		$a->safe_psql('postgres', 'DROP SUBSCRIPTION cart_from_logical2');
		$b->safe_psql('postgres', 'DROP SUBSCRIPTION cart_from_logical1');
	}

	# One that takes over, with the number of the other, and a clock that is an
	# hour behind.  The mark has not come with the rows: it is told.
	$b->safe_psql('postgres', 'DROP SUBSCRIPTION orders_from_logical1');
	my $draw = start_draw($a, sessions => 3, sql => $insert, delay => 1);
	wait_drawn($draw, 100);
	my $c = snowflake_node('successor', "cluster_name = 'successor'\nsnowflake.max_wait = '500ms'\n", allows_streaming => 'logical', clock => -$hour);
	$c->safe_psql('postgres', $table);
	$subscribe->($a, $c, 'orders');
	wait_drawn($draw, 300);
	$ledger->add($draw);
	ok(same_rows($a, $c, 'orders'), 'taking over: all rows are there');
	my $max = $c->safe_psql('postgres', 'SELECT max(id) FROM orders WHERE (snowflake_parse(id)).node = 1');
	$a->stop;
	$c->safe_psql('postgres', 'ALTER SUBSCRIPTION orders_from_logical1 DISABLE; ALTER SUBSCRIPTION orders_from_logical1 SET (slot_name = NONE); DROP SUBSCRIPTION orders_from_logical1');
	$c->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_advance(max(id)) FROM orders WHERE (snowflake_parse(id)).node = 1));
	is(error_of($c, 'postgres', $insert)->{sqlstate}, '55P03', 'taking over: nothing is issued while the clock is behind');
	set_clock($c, 0);
	$draw = start_draw($c, sessions => 3, sql => $insert, max_wait => '30s');
	wait_drawn($draw, 500);
	is(sqlstates($draw), '', 'taking over: IDs flow');
	$ledger->add($draw);
	is($c->safe_psql('postgres', "SELECT min(id) > $max FROM orders WHERE server = 'successor'"), 't', 'taking over: above all that were there');

	is($ledger->duplicates, 0, 'no ID came twice');
	is($ledger->disorder, 0, 'the IDs of each session increase');
	$ledger->report(0);
	$_->stop foreach $b, $c;
}

#
# Dumps
#
sub run_ok
{
	my ($name, @command) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run(\@command, '<', '/dev/null', '>', \$stdout, '2>', \$stderr,
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	is(($? >> 8) . $stderr, '0', $name);
	return;
}

# What a database is made of, as pg_dump has it
sub schema_of
{
	my ($node, $dbname) = @_;
	my ($stdout, $stderr) = run_command([ 'pg_dump', '--schema-only', '-d', $node->connstr($dbname) ]);

	is($stderr, '', "$dbname: the schema is dumped");
	return $stdout =~ s/^\\(un)?restrict .*$//mgr;
}

my $contents = <<'SQL';
SELECT count(*), md5(string_agg(id::text || name, ' ' ORDER BY id)) FROM shop.orders;
SELECT count(*), md5(string_agg(id::text || name, ' ' ORDER BY id)) FROM shop.item;
SELECT * FROM ids.snowflake_key_formats();
SELECT count(*) FROM shop.latest;
SQL

{
	my ($source, $target) = map { snowflake_node("dump_$_", "snowflake.node_id = " . ($_ eq 'from' ? 1 : 2) . "\n", force_initdb => 1) } 'from', 'to';

	$source->safe_psql('postgres', <<'SQL');
CREATE ROLE app LOGIN;
ALTER ROLE app SET snowflake.max_wait = '7s';
CREATE DATABASE shop;
ALTER DATABASE shop SET snowflake.max_wait = '11s';
ALTER ROLE app IN DATABASE shop SET snowflake.max_wait = '13s';
SQL
	$source->safe_psql('shop', <<'SQL');
CREATE SCHEMA ids;
CREATE EXTENSION snowflake SCHEMA ids;
GRANT USAGE ON SCHEMA ids TO app;
GRANT EXECUTE ON FUNCTION ids.snowflake_backfill TO app;
REVOKE EXECUTE ON FUNCTION ids.snowflake_explain(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ids.snowflake_key_format_create TO app;
SELECT ids.snowflake_key_format_create('order', 'OR', 2, 4);
SELECT ids.snowflake_key_format_create('item', 'IT', 1, 1, time_zone => 'Europe/Berlin');
CREATE SCHEMA shop AUTHORIZATION app;
GRANT USAGE ON SCHEMA ids TO app;
SET ROLE app;
CREATE DOMAIN shop.order_id AS bigint DEFAULT ids.snowflake_nextval();
CREATE TABLE shop.orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), name text DEFAULT ids.snowflake_key('order', 1::bigint))
    PARTITION BY RANGE (id);
SELECT count(*) FROM ids.snowflake_create_partitions('shop.orders', now() - interval '1 day', now() + interval '1 day', '1 day');
CREATE TABLE shop.item (id shop.order_id PRIMARY KEY, name text, ref bigint REFERENCES shop.orders,
    ts timestamptz GENERATED ALWAYS AS ((ids.snowflake_parse(id, 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00+00')).ts) STORED);
CREATE VIEW shop.latest AS SELECT * FROM shop.orders WHERE ids.snowflake_in(id, now() - interval '1 hour', 'infinity');
ALTER VIEW shop.latest ALTER COLUMN id SET DEFAULT ids.snowflake_nextval();
CREATE FUNCTION shop.order_now(name text, id bigint DEFAULT ids.snowflake_nextval()) RETURNS bigint
BEGIN ATOMIC
    INSERT INTO shop.orders (id, name) VALUES (id, name) RETURNING id;
END;
CREATE INDEX ON shop.item (ts);
INSERT INTO shop.orders SELECT FROM generate_series(1, 1000);
INSERT INTO shop.item (name, ref) SELECT 'item ' || name, id FROM shop.orders;
SQL
	$source->safe_psql('shop', "SELECT ids.snowflake_backfill('2024-05-01 10:00+00')", extra_params => [ '-U', 'app' ]);
	my $schema = schema_of($source, 'shop');
	my $all = $source->safe_psql('shop', $contents);

	run_ok('pg_dump -Fd -j4', 'pg_dump', '-Fd', '-j4', '--no-sync', '-f', "$dir/shop", '-d', $source->connstr('shop'));
	run_ok('pg_dumpall --globals-only', 'pg_dumpall', '--globals-only', '--no-sync', '-f', "$dir/globals.sql", '-d', $source->connstr('postgres'));
	$target->psql('postgres', slurp_file("$dir/globals.sql"), on_error_stop => 0);    # the user who restores is there already
	is($target->safe_psql('postgres', q(SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'app'::regrole AND setdatabase = 0)),
		'{snowflake.max_wait=7s}', 'settings of roles come with pg_dumpall --globals-only');

	# -C takes the settings of the database along
	run_ok('pg_restore -j4 -C', 'pg_restore', '-j4', '-C', '-d', $target->connstr('postgres'), "$dir/shop");
	is($target->safe_psql('shop', $contents), $all, 'all rows are there');
	is(schema_of($target, 'shop'), $schema, 'and all else');
	is($target->safe_psql('shop', 'SHOW snowflake.max_wait'), '11s', 'and the settings of the database');
	is($target->safe_psql('shop', 'SHOW snowflake.max_wait', extra_params => [ '-U', 'app' ]), '13s', 'and of a role in it');

	# over what is there, and into a database with another name
	$target->safe_psql('postgres', 'CREATE DATABASE copy; CREATE DATABASE steps');
	my ($stdout, $stderr) = run_command([ 'pg_restore', '-j4', '--clean', '--if-exists', '-d', $target->connstr('shop'), "$dir/shop" ]);
	# before it drops the tables, pg_restore tries the keys of partitions
	unlike($stderr, qr/ERROR: (?!.*cannot drop inherited constraint)/, 'pg_restore -j4 --clean --if-exists, over what is there');
	run_ok('pg_restore -j4 --clean --if-exists, over nothing', 'pg_restore', '-j4', '--clean', '--if-exists', '-d', $target->connstr('copy'), "$dir/shop");
	run_ok("pg_restore -j4 --section=$_", 'pg_restore', '-j4', "--section=$_", '-d', $target->connstr('steps'), "$dir/shop")
	  foreach 'pre-data', 'data', 'post-data';
	# the data alone, over an empty schema
	run_ok('pg_dump --data-only', 'pg_dump', '--data-only', '-Fc', '--no-sync', '-f', "$dir/data", '-d', $source->connstr('shop'));
	$target->safe_psql('postgres', 'CREATE DATABASE data');
	run_ok('pg_restore --schema-only', 'pg_restore', '--schema-only', '-d', $target->connstr('data'), "$dir/shop");
	# orders come after the items that have a key to them, as always without a schema
	$target->safe_psql('data', 'ALTER TABLE shop.item DROP CONSTRAINT item_ref_fkey');
	run_ok('pg_restore of --data-only', 'pg_restore', '-d', $target->connstr('data'), "$dir/data");
	$target->safe_psql('data', 'ALTER TABLE shop.item ADD CONSTRAINT item_ref_fkey FOREIGN KEY (ref) REFERENCES shop.orders');
	my $ledger = new_ledger();
	$ledger->add_ids('source', split /\n/, $source->safe_psql('shop', 'SELECT id FROM shop.orders UNION SELECT id FROM shop.item ORDER BY 1'));
	foreach my $dbname (qw(shop copy steps data))
	{
		is($target->safe_psql($dbname, $contents), $all, "$dbname: all rows are there");
		is(schema_of($target, $dbname), $schema, "$dbname: and all else");
		is($target->safe_psql($dbname, 'SELECT count(*) FROM snowflake_catalog.dumped_mark'), '0', "$dbname: but no row of the mark");

		# and draws
		$ledger->add_ids($dbname, split /\n/, $target->safe_psql($dbname, <<'SQL', extra_params => [ '-U', 'app' ]));
INSERT INTO shop.orders SELECT FROM generate_series(1, 100) RETURNING id;
INSERT INTO shop.latest (name) VALUES ('view') RETURNING id;
INSERT INTO shop.item (name) VALUES ('item') RETURNING id;
SELECT shop.order_now('function');
SQL
		is(error_of($target, $dbname, 'SELECT ids.snowflake_explain(1)', extra_params => [ '-U', 'app' ])->{sqlstate}, '42501', "$dbname: what was revoked");
		isnt($target->safe_psql($dbname, "SELECT ids.snowflake_backfill('2024-05-01 10:00+00')", extra_params => [ '-U', 'app' ]), '', "$dbname: and granted");
		is(error_of($target, $dbname, "SELECT ids.snowflake_key_format_create('app', 'AP', 1, 1)", extra_params => [ '-U', 'app' ])->{sqlstate}, '', "$dbname: also to make formats of keys");
	}
	is($ledger->duplicates, 0, 'no ID came twice');

	# single schemas: the extension's tables come with the extension, if it is named
	foreach my $options ([ '-n', 'shop' ], [ '-n', 'ids', '-n', 'shop' ], [ '-n', 'shop', '-e', 'snowflake' ])
	{
		my ($dump) = run_command([ 'pg_dump', @$options, '-d', $source->connstr('shop') ]);

		is(join(' ', sort $dump =~ /^COPY snowflake_catalog\.(\w+)/mg), $options->[-2] eq '-e' ? 'dumped_mark key_formats' : '', "pg_dump @$options");
	}
	$_->stop foreach $source, $target;
}

#
# pg_upgrade, from the server to itself
#
foreach my $mode ('--copy', '--link')
{
	my $old = snowflake_node("old$mode", <<'CONF');
snowflake.layout = 'time:41 node:5 worker:5 sequence:4'
CONF
	my $new = PostgreSQL::Test::Cluster->new("new$mode");
	my $full = "SELECT snowflake_backfill('2024-05-01 10:00+00')";
	my $half = "SELECT snowflake_backfill('2024-05-02 10:00+00') FROM generate_series(1, 8)";
	my @ids;

	push @ids, split /\n/, $old->safe_psql('postgres', 'SELECT snowflake_nextval() FROM generate_series(1, 1000)');
	$old->safe_psql('postgres', "$full FROM generate_series(1, 16)");
	my @half = split /\n/, $old->safe_psql('postgres', $half);
	$old->safe_psql('postgres', <<'SQL');
SELECT snowflake_segment_create('customer', start => 10001, step => 100);
SELECT snowflake_key_format_create('order', 'OR', 2, 4);
CREATE ROLE app LOGIN;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO app;
SQL
	my @numbers = split /\n/, $old->safe_psql('postgres', "SELECT snowflake_segment_nextval('customer') FROM generate_series(1, 150)");
	my $given = $old->safe_psql('postgres', 'SELECT max_id FROM snowflake_registry.snowflake_segments');
	$old->stop;

	$new->init(force_initdb => 1);
	$new->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.max_wait = '1min'
snowflake.layout = 'time:41 node:5 worker:5 sequence:4'
fsync = off
CONF
	my $tmp = PostgreSQL::Test::Utils::tempdir_short();
	my $bindir = $new->config_data('--bindir');
	my $output = '';
	IPC::Run::run(
		[
			'pg_upgrade', '--no-sync', $mode eq '--link' ? '--link' : (),
			'-b', $bindir, '-B', $bindir, '-d', $old->data_dir, '-D', $new->data_dir,
			'-p', $old->port, '-P', $new->port, '-s', $tmp
		],
		'<', '/dev/null', '>&', \$output,
		init => sub { chdir $tmp or die "$tmp: $!" },
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
	is($?, 0, "$mode: done") or diag $output;
	$new->start;

	is(error_of($new, 'postgres', $full)->{sqlstate}, '2200H', "$mode: what was backfilled in full stays full");
	push @half, split /\n/, $new->safe_psql('postgres', $half);
	my %half = map { $_ => 1 } @half;
	is(scalar(keys %half), 16, "$mode: what was not goes on");
	push @ids, split /\n/, $new->safe_psql('postgres', 'SELECT snowflake_nextval() FROM generate_series(1, 1000)');
	is(scalar(grep { $ids[$_] <= $ids[ $_ - 1 ] } 1 .. $#ids), 0, "$mode: IDs go on above those of before");

	push @numbers, split /\n/, $new->safe_psql('postgres', "SELECT snowflake_segment_nextval('customer') FROM generate_series(1, 150)",
		extra_params => [ '-U', 'app' ]);
	is(scalar(grep { $numbers[$_] <= $numbers[ $_ - 1 ] } 1 .. $#numbers), 0, "$mode: so do numbers of segments, also with a right that was granted");
	is($new->safe_psql('postgres', 'SELECT name, prefix FROM snowflake_key_formats()'), 'order|OR', "$mode: and formats of keys");
	is($new->safe_psql('postgres', "SELECT string_agg(name, ' ') FROM snowflake_check() WHERE status = 'error'"), '', "$mode: snowflake_check() finds no error");
	note "$mode: numbers go on at $numbers[150], with max_id $given before";
	$new->stop;
}

done_testing();
