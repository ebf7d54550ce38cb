# snowflake_explain(id) draws with the layout of the server, whatever that is;
# what it draws is tested in sql/explain.sql.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $epoch = '2024-02-29 12:00:00+00';
my $node = snowflake_node('explain', "snowflake.node_id = 0\n");

foreach my $layout (
	'sonyflake',
	'time:41 sequence:22',
	'worker:2 time:45 sequence:3',
	'time:40@1ms worker:1 node:1')
{
	forget_mark($node);
	$node->append_conf('postgresql.conf',
		"snowflake.layout = '$layout'\nsnowflake.epoch = '$epoch'\n");
	$node->restart;

	is($node->safe_psql('postgres', <<SQL), 't', "$layout: an ID drawn here");
SELECT snowflake_explain(id) = snowflake_explain(id, layout, '$epoch')
FROM snowflake_nextval() AS id, snowflake_layout()
SQL

	# all worker numbers, all bits set below and above
	is($node->safe_psql('postgres', <<SQL), 't', "$layout: the backfill worker is named, no other");
SELECT bool_and((snowflake_explain(id) ~ 'snowflake_backfill') = (worker IS NOT DISTINCT FROM backfill_worker)
                AND replace(snowflake_explain(id), ', drawn by snowflake_backfill()', '') = snowflake_explain(id, layout, '$epoch'))
FROM snowflake_layout(), generate_series(0, workers::int - 1) AS w,
     snowflake_compose(last_ts, nodes::int - 1, w, sequences::int - 1) AS id, snowflake_parse(id)
SQL
}

# It needs nothing of the server but the settings.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
like($node->safe_psql('postgres', 'SELECT snowflake_explain(7)'),
	qr/^layout   time:40\@1ms worker:1 node:1\nepoch    \Q$epoch\E$/m, 'without preload');

$node->stop;
done_testing();
