
# A publication FOR ALL TABLES in the home database has the tables that a server
# keeps its state in.  A subscriber has state of its own in them: it takes none
# of the other's, with the rows that there are or without, and neither server
# gives an ID or a number twice.  A server with a leased number writes to its
# tables also where they are published.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $faults = 0;
my %ids;    # of a server, all that it has given out
my %numbers;

sub error_of
{
	my ($node, $sql) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return psql_error($stderr);
}

# A server whose home database can be published
sub new_server
{
	my ($name, $number) = @_;

	return snowflake_node($name, "snowflake.node_id = $number\nmax_connections = 40\n",
		allows_streaming => 'logical');
}

sub subscribe
{
	my ($from, $to, $copy) = @_;
	my $connstr = $from->connstr('postgres') =~ s/'/''/gr;

	$from->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
	$to->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connstr' PUBLICATION everything WITH (copy_data = $copy)");
	$to->wait_for_subscription_sync($from, 's');
	return;
}

# So many backfilled IDs of one time
sub backfill
{
	my ($node, $count, $ts) = @_;

	push @{ $ids{ $node->name } }, split /\n/,
	  $node->safe_psql('postgres', "SELECT snowflake_backfill('$ts') FROM generate_series(1, $count)");
	return;
}

sub draw_numbers
{
	my ($node, $count) = @_;

	push @{ $numbers{ $node->name } }, split /\n/,
	  $node->safe_psql('postgres', "SELECT snowflake_segment_nextval('x') FROM generate_series(1, $count)");

	# the segment that is fetched beside is no change of a later time
	$node->poll_query_until('postgres', q(SELECT next_first IS NOT NULL OR used * 10 < used + unused FROM pg_stat_snowflake_segments WHERE tag = 'x'))
	  or die 'no next segment';
	return;
}

sub twice
{
	my %times;

	$times{$_}++ foreach @_;
	return scalar grep { $_ > 1 } values %times;
}

# The state of a server
sub state_of
{
	my ($node) = @_;

	return $node->safe_psql('postgres', <<'SQL');
SELECT 'backfill', b::text FROM snowflake_home.backfill b
UNION ALL SELECT 'lease', l::text FROM snowflake_home.lease l
UNION ALL SELECT 'place', p::text FROM snowflake_registry.snowflake_registry_place p
UNION ALL SELECT 'tag', t::text FROM snowflake_registry.snowflake_segment_tag t
ORDER BY 1, 2
SQL
}

# The rows of snowflake_check() on replication
sub doctor
{
	my ($node, $dbname) = @_;

	return $node->safe_psql($dbname // 'postgres', q(SELECT status, detail FROM snowflake_check() WHERE name = 'replication'));
}

# What a transaction of the publisher did has come, and left no trace
my $beats = 0;
sub caught_up
{
	my ($from, $to) = @_;

	$beats++;
	$from->safe_psql('postgres', 'INSERT INTO beat DEFAULT VALUES');
	return $to->poll_query_until('postgres', "SELECT count(*) >= $beats FROM beat");
}

my ($A, $B) = ('2024-05-01 10:00:00+00', '2024-06-01 10:00:00+00');

foreach my $copy ('off', 'on')
{
	my ($s1, $s2) = map { new_server("copy_${copy}_$_", $_) } 1, 2;
	my $state;

	$beats = 0;
	$_->safe_psql('postgres', 'CREATE TABLE beat (n bigserial PRIMARY KEY)') foreach $s1, $s2;

	# both have state, of the same times and the same tag
	$_->safe_psql('postgres', "SELECT snowflake_nextval(); SELECT snowflake_segment_create('x', step => 1000)")
	  foreach $s1, $s2;
	backfill($s1, 1, $A);
	draw_numbers($s1, 10);
	if ($copy eq 'on')
	{
		backfill($s2, 20, $A);
		draw_numbers($s2, 2500);
	}
	$state = state_of($s2);
	subscribe($s1, $s2, $copy);
	is(state_of($s2), $state, "copy $copy: what the subscriber has is what it had");
	is(doctor($s1), 'ok|A publication includes tables in which this server keeps its state: everything. Subscribers need these tables, too, and discard the changes that arrive.',
		"copy $copy: snowflake_check() says that they are published");
	{
		# tables that are published are not its business
		my $holder = session($s1);

		$holder->query_safe('BEGIN; LOCK TABLE beat');
		local $ENV{PGOPTIONS} = '-c statement_timeout=60s';
		like(doctor($s1), qr/^ok\|A publication includes/, "copy $copy: while somebody holds a published table");
		$holder->quit;
	}
	is(doctor($s2), 'ok|A subscription includes tables in which this server keeps its state: s. The server discards the changes that arrive for them.',
		"copy $copy: and subscribed to");

	# the subscriber is ahead of the publisher
	backfill($s2, 100, $A);
	backfill($s2, 600, $B);
	draw_numbers($s2, 10000);
	$state = state_of($s2);
	draw_numbers($s1, 3000);
	backfill($s1, 1, $A);
	backfill($s1, 1, $B);
	$s1->safe_psql('postgres', "SELECT snowflake_segment_alter('x', step => 2000); SELECT snowflake_segment_create('of the publisher')");
	ok(caught_up($s1, $s2), "copy $copy: the subscription goes on");
	is(state_of($s2), $state, "copy $copy: and the subscriber's state is its own");

	draw_numbers($s2, 12000);
	$s2->restart;
	$faults++;
	backfill($s2, 100, $A);
	backfill($s2, 100, $B);
	draw_numbers($s2, 2500);

	# Kept numbers come and go with restarts of the publisher, too.
	$s1->restart;
	$faults++;
	backfill($s1, 100, $A);
	draw_numbers($s1, 2500);
	ok(caught_up($s1, $s2), "copy $copy: also after the publisher was restarted");
	draw_numbers($s2, 2500);
	backfill($s2, 100, $A);

	foreach my $node ($s1, $s2)
	{
		my $name = $node->name;

		is(twice(@{ $ids{$name} }), 0, "$name: none of " . @{ $ids{$name} } . ' IDs twice');
		is(twice(@{ $numbers{$name} }), 0, "$name: none of " . @{ $numbers{$name} } . ' numbers twice');
	}

	#
	# TRUNCATE, which a trigger cannot discard
	#
	my $home = 'snowflake_home.backfill';
	my $tags = 'snowflake_registry.snowflake_segment_tag';
	foreach my $table ($home, $tags)
	{
		my $error = error_of($s1, "TRUNCATE $table");

		is("$error->{sqlstate} $error->{message}", '55000 cannot truncate "' . ($table =~ s/.*\.//r) . '"',
			"copy $copy: $table cannot be truncated");
	}
	if ($copy eq 'off')
	{
		my $log = -s $s2->logfile;

		$state = state_of($s2);
		$s1->safe_psql('postgres', "SET session_replication_role = replica; ALTER TABLE $home DISABLE TRIGGER refuse_truncate; TRUNCATE $home");
		ok($s2->wait_for_log(qr/ERROR:  cannot truncate "backfill"\n.*HINT:  Remove the table from the publication\. ALTER SUBSCRIPTION \.\.\. SKIP skips this transaction with all/s, $log),
			'where it comes nevertheless, the subscriber refuses it');
		is(state_of($s2), $state, 'and has what it had');
	}

	#
	# What lets triggers fire, or not, by other means is not replication
	#
	if ($copy eq 'on')
	{
		$s2->safe_psql('postgres', "DROP SUBSCRIPTION s; ALTER DATABASE postgres SET session_replication_role = replica; ALTER TABLE $tags DISABLE TRIGGER ALL; ALTER TABLE $tags ENABLE TRIGGER ALL; ALTER TABLE $home ENABLE TRIGGER ALL");
		$s2->restart;
		$faults++;
		like(doctor($s2), qr/^error\|The triggers of table $home were changed\. .* Run (ALTER TABLE .*)\.$/,
			'triggers that were changed are an error of snowflake_check()');
		backfill($s2, 100, $A);
		draw_numbers($s2, 3000);
		$s2->restart;
		backfill($s2, 100, $A);
		draw_numbers($s2, 3000);
		my $name = $s2->name;
		is(twice(@{ $ids{$name} }), 0, 'with session_replication_role = replica: no ID twice');
		is(twice(@{ $numbers{$name} }), 0, 'and no number');
		is($s2->safe_psql('postgres', "SELECT string_agg(format('%s %s', tgname, tgenabled), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = '$tags'::regclass"),
			'discard_replicated R, refuse_truncate A', 'the worker mends triggers on the tables of segments');
		my ($mend) = doctor($s2) =~ /Run (.*)\.$/;
		$s2->safe_psql('postgres', $mend);
		is(doctor($s2), 'ok|No publication or subscription includes the state that this server keeps in its home database.',
			'and what snowflake_check() says mends the others');
		my ($dump) = run_command([ 'pg_dump', '-d', $s2->connstr('postgres') ]);
		like($dump, qr/CREATE EXTENSION .*snowflake_registry/, 'a dump has the extension');
		unlike($dump, qr/discard/, 'and no triggers, nor their function');
		is(error_of($s2, "SELECT $_()")->{sqlstate}, '39P01', "$_() is a trigger's function")
		  foreach 'snowflake_home.discard', 'snowflake_registry.snowflake_registry_discard';
		$s2->safe_psql('postgres', 'CREATE DATABASE other');
		$s2->safe_psql('other', 'CREATE EXTENSION snowflake');
		is(doctor($s2, 'other'), 'ok|Publications and subscriptions of the home database, "postgres", can be seen only there.',
			'which only a session in the home database can see');
	}
	$_->stop foreach $s2, $s1;
}

#
# A subscriber that has not drawn, and does not preload the library
#
{
	my $s1 = new_server('publisher', 1);
	my $s2 = PostgreSQL::Test::Cluster->new('plain');

	$s2->init(allows_streaming => 'logical');
	$s2->start;
	$_->safe_psql('postgres', 'CREATE TABLE beat (n bigserial PRIMARY KEY)') foreach $s1, $s2;
	backfill($s1, 100, $A);
	my $connstr = $s1->connstr('postgres') =~ s/'/''/gr;
	$s1->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
	my $error = error_of($s2, "CREATE SUBSCRIPTION s CONNECTION '$connstr' PUBLICATION everything");
	# of the table or of the schema, whichever comes first
	like("$error->{sqlstate}: $error->{message}", qr/^(?:42P01: relation "\S*snowflake\S*"|3F000: schema "snowflake_(?:home|catalog)") does not exist$/,
		'a subscriber without the tables: an error');
	$s2->safe_psql('postgres', "CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_home; CREATE SUBSCRIPTION s CONNECTION '$connstr' PUBLICATION everything");
	$s2->wait_for_subscription_sync($s1, 's');
	$beats = 0;
	backfill($s1, 100, $B);
	ok(caught_up($s1, $s2), 'with the extensions it subscribes');
	is($s2->safe_psql('postgres', 'SELECT count(*) FROM snowflake_home.backfill'), '0', 'and discards what is not its own');
	$s2->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.node_id = 2\n");
	$s2->restart;
	$s2->safe_psql('postgres', 'SELECT snowflake_nextval()');
	backfill($s2, 100, $A);
	is(twice(@{ $ids{plain} }), 0, 'before it draws IDs itself');
	$_->stop foreach $s2, $s1;
}

#
# The mark, which can be published from PostgreSQL 19 on
#
SKIP:
{
	my ($s1, $s2) = map { new_server("mark$_", $_) } 1, 2;
	if ($s1->safe_psql('postgres', 'SHOW server_version_num') < 190000)
	{
		$_->stop foreach $s2, $s1;
		skip 'sequences cannot be published before 19', 1;
	}

	my $mark = 'SELECT last_value FROM snowflake_home.mark';
	my $start = "SELECT seqstart FROM pg_sequence WHERE seqrelid = 'snowflake_home.mark'::regclass";
	my $connstr = $s1->connstr('postgres') =~ s/'/''/gr;

	foreach my $node ($s1, $s2)
	{
		$node->safe_psql('postgres', 'CREATE TABLE beat (n bigserial PRIMARY KEY); SELECT snowflake_nextval()');
		$node->safe_psql('postgres', 'INSERT INTO beat SELECT FROM generate_series(1, 10 * ' . $node->safe_psql('postgres', 'SHOW snowflake.node_id') . ')');
	}
	$s1->safe_psql('postgres', 'CREATE PUBLICATION sequences FOR ALL SEQUENCES');
	$s2->safe_psql('postgres', q(SELECT snowflake_advance(snowflake_compose(now() + interval '1 hour', 2, 0, 0))));
	my $before = $s2->safe_psql('postgres', $mark);
	my $log = -s $s2->logfile;
	$s2->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connstr' PUBLICATION sequences");
	ok($s2->poll_query_until('postgres', 'SELECT last_value = 10 FROM beat_n_seq'), 'a subscription writes sequences');
	ok($s2->wait_for_log(qr/mismatched or renamed sequence on subscriber \("snowflake_home\.mark"\)/, $log),
		'but not the mark');
	like(doctor($s2), qr/^warning\|A subscription includes the durable mark, .*: s\. /, 'as snowflake_check() says');
	$log = -s $s2->logfile;
	$s2->safe_psql('postgres', 'ALTER SUBSCRIPTION s REFRESH SEQUENCES');
	ok($s2->wait_for_log(qr/mismatched or renamed sequence on subscriber \("snowflake_home\.mark"\)/, $log),
		'nor does a refresh');
	is($s2->safe_psql('postgres', $mark), $before, 'the mark is what it was');
	foreach my $mode ('immediate', 'fast')
	{
		my $same = $s2->safe_psql('postgres', $start);

		$log = -s $s2->logfile;
		$s2->stop($mode);
		$s2->start;
		$faults++;
		ok($s2->wait_for_log(qr/mismatched or renamed sequence on subscriber \("snowflake_home\.mark"\)/, $log),
			"stopped ($mode) and started: not then either");
		cmp_ok($s2->safe_psql('postgres', $mark), '>=', $before, 'the mark is not lower');
		is($s2->safe_psql('postgres', $start), $same, 'and START as it was, in the same place');
	}
	is(error_of($s2, "SET snowflake.max_wait = '100ms'; SELECT snowflake_nextval()")->{sqlstate}, '55P03', 'so nothing is drawn below it');

	# a copy of the data directory
	$s1->stop;
	my $copy = PostgreSQL::Test::Cluster->new('copy_of_mark1');
	PostgreSQL::Test::RecursiveCopy::copypath($s1->data_dir, $copy->data_dir);
	chmod 0700, $copy->data_dir;
	$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\nunix_socket_directories = '" . $copy->host . "'\n");
	$_->start foreach $s1, $copy;
	$_->safe_psql('postgres', 'SELECT snowflake_nextval()') foreach $s1, $copy;
	isnt($copy->safe_psql('postgres', $start), $s1->safe_psql('postgres', $start), 'a copy has another START than its original');
	is($s1->safe_psql('postgres', "SELECT $_ FROM pg_sequence WHERE seqrelid = 'snowflake_home.mark'::regclass"), $copy->safe_psql('postgres', "SELECT $_ FROM pg_sequence WHERE seqrelid = 'snowflake_home.mark'::regclass"),
		"and the same $_")
	  foreach 'seqmin', 'seqmax', 'seqincrement';
	$_->stop foreach $copy, $s2, $s1;
}

#
# A server that leases its number, and is published
#
{
	my $registry = new_registry('registry');
	my $node = leasing_node('leased', registry_conninfo($registry), '', allows_streaming => 'logical');

	$node->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
	wait_number($node);
	push @{ $ids{leased} }, split /\n/, $node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() FROM generate_series(1, 1000)");
	foreach my $mode ('fast', 'immediate')
	{
		$node->stop($mode);
		$node->start;
		$faults++;
		wait_number($node);
		push @{ $ids{leased} }, split /\n/,
		  $node->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() FROM generate_series(1, 1000)");
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_home.lease'), '1', 'published: the lease is remembered');
	unlike(slurp_file($node->logfile), qr/replica identity/, 'and nothing fails for want of a key');
	is(twice(@{ $ids{leased} }), 0, 'and none of ' . @{ $ids{leased} } . ' IDs is there twice');
	$node->stop;
	$registry->stop;
}

my $all = 0;
$all += @$_ foreach values %ids, values %numbers;
my $twice = 0;
$twice += twice(@$_) foreach values %ids, values %numbers;
note "$all IDs drawn, $faults faults survived, $twice duplicates";

done_testing();
