
# What a new user runs into in the first hour, one after the other: each error
# names the setting, its value, and the line or statement that mends it.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $node = PostgreSQL::Test::Cluster->new('first_hour');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "timezone = 'UTC'\nsnowflake.max_wait = '1min'\nfsync = off\ninclude 'test.conf'\n");

my $file = $node->data_dir . '/test.conf';
my $number = 'to a number from 0 to 31 that no other server has';
my $both = "shared_preload_libraries = 'snowflake' and snowflake.node_id = 1";
my $into = 'into postgresql.conf, with a number from 0 to 31 that no other server has, and restart the server.';
my $not_preloaded = 'snowflake must be loaded via "shared_preload_libraries" to generate IDs';
my $former_layout = 'time:41 node:5 worker:5 sequence:12';

sub configure
{
	open my $fh, '>', $file or die "$file: $!";
	print $fh map { "$_\n" } @_;
	close $fh;
	return;
}

sub restart
{
	configure(@_);
	$node->restart;
	return;
}

# What a statement says, an error or a warning: "SQLSTATE message", DETAIL, HINT.
sub said
{
	my ($sql, $on, $dbname) = @_;
	my (undef, undef, $stderr) = ($on // $node)->psql($dbname // 'postgres', $sql,
		on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my ($what) = $stderr =~ /(?:ERROR|WARNING):  (\w{5}: .*)$/m;
	my ($detail) = $stderr =~ /^DETAIL:  (.*)$/m;
	my ($hint) = $stderr =~ /^HINT:  (.*)$/m;

	return [ $what // "nothing: $stderr", $detail // '', $hint // '' ];
}

sub says
{
	my ($name, $sql, @expected) = @_;

	is_deeply(said($sql), [ map { $_ // '' } @expected[ 0 .. 2 ] ], $name);
	return;
}

# The line that is logged from an offset on, with DETAIL and HINT, perhaps a
# moment later.
sub logs
{
	my ($name, $offset, $message, $detail, $hint) = @_;
	my $lines = join '\n[^\n]*', map { quotemeta } $message,
	  $detail ? "DETAIL:  $detail" : (), $hint ? "HINT:  $hint" : ();

	ok($node->wait_for_log(qr/$lines\n/, $offset), $name);
	return;
}

sub check
{
	my ($check, $on) = @_;

	return ($on // $node)->safe_psql('postgres',
		qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check'));
}

#
# Not preloaded
#
configure();
$node->start;
is(said('SELECT snowflake_nextval()')->[0], '42883: function snowflake_nextval() does not exist', 'no extension in this database');
if ($node->pg_version < 17)
{
	says('a setting of ours is none yet', 'ALTER SYSTEM SET snowflake.node_id = 1',
		'42704: unrecognized configuration parameter "snowflake.node_id"');
}
else
{
	$node->safe_psql('postgres', 'ALTER SYSTEM SET snowflake.node_id = 1');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET snowflake.node_id');
	pass('newer servers take a setting that is none yet');
}
says('CREATE EXTENSION: what is missing', 'CREATE EXTENSION snowflake',
	'01000: this server cannot draw snowflake IDs yet',
	qq(snowflake is not loaded via "shared_preload_libraries": IDs can be read, but not drawn. "shared_preload_libraries" is empty. Write $both $into));
says('not preloaded: both lines', 'SELECT snowflake_nextval()',
	"55000: $not_preloaded", '"shared_preload_libraries" is empty.', "Write $both $into");
is(check('preload'), qq(error|snowflake is not loaded via "shared_preload_libraries": IDs can be read, but not drawn. "shared_preload_libraries" is empty. Write $both $into),
	'the doctor says so, too');
$node->safe_psql('postgres', 'CREATE ROLE app');
says('to one who may not see what is preloaded', 'SET ROLE app; SELECT snowflake_nextval()',
	"55000: $not_preloaded", '"shared_preload_libraries" does not name "snowflake".',
	"Write shared_preload_libraries = 'snowflake' (after the libraries that it has already) and snowflake.node_id = 1 $into");

restart("shared_preload_libraries = 'plpgsql'");
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION draw() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT snowflake_nextval()';
ALTER FUNCTION draw() OWNER TO app;
SQL
says('nor to a function of theirs', 'SELECT draw()', "55000: $not_preloaded", '"shared_preload_libraries" does not name "snowflake".',
	"Write shared_preload_libraries = 'snowflake' (after the libraries that it has already) and snowflake.node_id = 1 $into");
says('another library is: it stays', 'SELECT snowflake_nextval()',
	"55000: $not_preloaded", '"shared_preload_libraries" is "plpgsql".',
	"Write shared_preload_libraries = 'plpgsql, snowflake' and snowflake.node_id = 1 $into");
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE owned OWNER owner');
my (undef, undef, $stderr) = $node->psql('owned', 'CREATE EXTENSION snowflake', extra_params => [ '-U', 'owner' ]);
like($stderr, qr/WARNING:  this server cannot draw.*does not name "snowflake"/s, 'CREATE EXTENSION says what is missing');
unlike($stderr, qr/plpgsql/, "and not what the extension's owner may not see");

restart("snowflake.node_id = 1");
says('with the number: the other line', 'SELECT snowflake_nextval()',
	"55000: $not_preloaded", '"shared_preload_libraries" is empty.',
	"Write shared_preload_libraries = 'snowflake' into postgresql.conf, and restart the server.");

restart();
configure("shared_preload_libraries = 'snowflake'", 'snowflake.node_id = 1');
reload_node($node);
$node->poll_query_until('postgres', "SELECT pending_restart FROM pg_settings WHERE name = 'shared_preload_libraries'");
says('a reload and no restart', 'SELECT snowflake_nextval()',
	"55000: $not_preloaded",
	q(The running server's "shared_preload_libraries" is empty. The configuration has another value, which takes effect at a restart.),
	"Restart the server: a reload is not enough. postgresql.conf needs shared_preload_libraries = 'snowflake'.");

#
# No number
#
my $offset = -s $node->logfile;
restart("shared_preload_libraries = 'snowflake'");
my $hint = qq(Set "snowflake.node_id" $number, and restart the server. To lease a number instead, set "snowflake.registry".);
logs('no number: the log says so', $offset, 'WARNING:  "snowflake.node_id" is not set', 'This server draws no snowflake IDs.', $hint);
says('no number', 'SELECT snowflake_nextval()',
	'55000: "snowflake.node_id" is not set', 'Without a number of its own, this server could issue the same IDs as another server.', $hint);
says('CREATE EXTENSION says so', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake',
	'01000: this server cannot draw snowflake IDs yet', qq("snowflake.node_id" is not set. $hint));
$node->safe_psql('postgres', 'ALTER SYSTEM SET snowflake.node_id = 1');
reload_node($node);
$node->poll_query_until('postgres', "SELECT pending_restart FROM pg_settings WHERE name = 'snowflake.node_id'");
$hint = 'The configuration has a value, which takes effect at a restart. Restart the server: a reload is not enough.';
says('a number, a reload and no restart', 'SELECT snowflake_nextval()',
	'55000: "snowflake.node_id" is not set', 'Without a number of its own, this server could issue the same IDs as another server.', $hint);
is(check('node_id'), qq(error|"snowflake.node_id" is not set. $hint), 'the doctor says so, too');
$node->restart;
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), qr/^\d+$/, 'after the restart there is an ID');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET snowflake.node_id');

#
# A number that the layout does not have
#
my $detail = 'The field "node" of snowflake.layout has 5 bits, so the largest number is 31.';
$hint = 'Set "snowflake.node_id" to a number from 0 to 31. For a larger one, first set "snowflake.layout" to a layout with more bits for the field "node", and restart the server.';
says('ALTER SYSTEM to a number that is out of range', 'ALTER SYSTEM SET snowflake.node_id = 32',
	'22023: invalid value for parameter "snowflake.node_id": 32', $detail, $hint);
says('a number where there is none', 'ALTER SYSTEM SET snowflake.node_id = -2',
	'22023: -2 is outside the valid range for parameter "snowflake.node_id" (-1 .. 2147483647)');
$node->stop;
$offset = -s $node->logfile;
configure("shared_preload_libraries = 'snowflake'", 'snowflake.node_id = 32');
ok(!$node->start(fail_ok => 1), 'no start with a number that is out of range');
logs('and the same reason and hint', $offset, 'FATAL:  invalid value for parameter "snowflake.node_id": 32', $detail, $hint);
$offset = -s $node->logfile;
configure("shared_preload_libraries = 'snowflake'", 'snowflake.node_id = 1', "snowflake.layout = 'time:41 sequence:22'");
ok(!$node->start(fail_ok => 1), 'no start with a number that the layout has no field for');
logs('why, and what to do', $offset, 'FATAL:  invalid value for parameter "snowflake.node_id": 1',
	'The field "node" of snowflake.layout has 0 bits, so the largest number is 0.',
	'Remove "snowflake.node_id", or first set "snowflake.layout" to a layout with the field "node" and restart the server.');

#
# Wrong values that a reload brings, as from a configuration that many servers
# share: it does not harm now, and no server would start again
#
my @right = ("shared_preload_libraries = 'snowflake'", 'snowflake.node_id = 1');
configure(@right);
$node->start;
is(check('settings'), 'ok|The server will start with its present configuration files.', 'all is right');
foreach my $case (
	[ [ 'snowflake.node_id = 32' ], 3, 'invalid value for parameter "snowflake.node_id": 32', $detail, $hint ],
	[ [ "snowflake.layout = 'time:41 node:3 worker:7 sequence:12'", 'snowflake.node_id = 9' ], 4,
		'invalid value for parameter "snowflake.node_id": 9', $detail =~ s/5 bits/3 bits/r =~ s/31/7/r, $hint =~ s/31/7/r ],
	[ [ 'snowflake.node_id = -2' ], 3, '-2 is outside the valid range for parameter "snowflake.node_id" (-1 .. 2147483647)' ],
	[ [ "snowflake.layout = 'twiter'" ], 3, 'invalid value for parameter "snowflake.layout": "twiter"',
		'Unknown field in "twiter": the fields are "time", "node", "worker" and "sequence".',
		"A layout lists its fields from the highest bit to the lowest, as in \"$former_layout\", or is the name of a dialect, as in \"twitter\"." ],
	[ [ "SNOWFLAKE.max_wait = 'never'" ], 3, 'invalid value for parameter "snowflake.max_wait": "never"' ],
	[ [ "snowflake.registry = 'host=x password=geheim'" ], 3, 'invalid value for parameter "snowflake.registry"',
		'It has the option "password", which everybody who can read the configuration could read.',
		'Put the password into a password file (option "passfile") or a service file (option "service").' ])
{
	my ($lines, $line, $message, $why, $right) = @$case;
	my ($name) = lc($lines->[-1]) =~ /^(\S+)/;
	my $what = qq($message, in file "$file", line $line);
	my $mend = qq(Correct "$name" before the next restart. If a program such as Patroni writes the file, change the configuration of that program.) . ($right ? " $right" : '');

	$offset = -s $node->logfile;
	configure(@right, @$lines);
	reload_node($node);
	logs("reloaded: $lines->[-1]", $offset, "WARNING:  the server will not start again: $what", $why, $mend);
	is(check('settings'), join(' ', "error|The server will not start again: $what.", $why // (), $mend), 'the doctor says so, too');
	unlike(slurp_file($node->logfile, $offset), qr/geheim/, 'and no secret');
}
like($node->safe_psql('postgres', 'SET ROLE app; SELECT detail FROM snowflake_check() WHERE name = \'settings\''),
	qr/^The configuration files are only read for roles/, 'to one who may see them');

# it keeps its word
$node->stop;
ok(!$node->start(fail_ok => 1), 'nor does it');
configure(@right);
$node->start;

# A number that is right for the layout that comes with it; the later line; a name
# that is none, which the server says itself
$offset = -s $node->logfile;
configure(@right, "snowflake.layout = 'time:41 node:10 sequence:12'", 'snowflake.node_id = 99999', 'snowflake.node_id = 900', 'snowflake.nodeid = 1');
reload_node($node);
logs('a name that is none', $offset, 'LOG:  invalid configuration parameter name "snowflake.nodeid"', '"snowflake" is a reserved prefix.');
is(check('settings'), 'ok|The server will start with its present configuration files.', 'another layout and its number: it would start');
configure(@right);
reload_node($node);
my $log = slurp_file($node->logfile, $offset);
unlike($log, qr/will not start again/, 'and nothing else is said');

#
# The wrong database, the wrong type, the wrong transaction
#
$node->safe_psql('postgres', 'CREATE DATABASE other');
is(said('CREATE TABLE t (id bigint DEFAULT snowflake_nextval())', $node, 'other')->[0],
	'42883: function snowflake_nextval() does not exist', 'another database, without the extension');
says('an integer', 'CREATE TABLE narrow (id int DEFAULT snowflake_nextval()); INSERT INTO narrow DEFAULT VALUES',
	'22003: integer out of range');
is(check('tables') =~ s/\n.*//sr,
	q(error|public.narrow.id is of type integer, which is too small for an ID: inserts fail. To see what it takes to make it a bigint, run SELECT * FROM public.snowflake_convert('public.narrow', 'id').),
	'the doctor names the column, and what mends it');
$node->safe_psql('postgres', "SELECT FROM snowflake_convert('public.narrow', 'id', dry_run => false); INSERT INTO narrow DEFAULT VALUES");
pass('which does');
says('a read-only transaction', 'BEGIN READ ONLY; INSERT INTO narrow DEFAULT VALUES', '25006: cannot execute INSERT in a read-only transaction');
says('which raises no mark', 'BEGIN READ ONLY; SELECT snowflake_advance(1)', '25006: cannot execute snowflake_advance() in a read-only transaction');
like($node->safe_psql('postgres', 'BEGIN READ ONLY; SELECT snowflake_nextval()'), qr/^\d+$/, 'an ID alone is no write');

#
# A standby
#
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
is_deeply(said('SELECT snowflake_nextval()', $standby),
	[ '25006: cannot generate snowflake IDs during recovery', 'A standby would issue the same IDs as its primary.',
		'Generate IDs on the primary server. The connection option target_session_attrs=read-write finds it among several hosts.' ], 'a standby');
$standby->append_conf('postgresql.conf', 'snowflake.node_id = 77');
reload_node($standby);
like(check('settings', $standby), qr/^error\|The server will not start again: invalid value for parameter "snowflake\.node_id": 77, in file/,
	'there too the doctor looks at the configuration');
$standby->stop;

#
# Another layout than that of the IDs drawn
#
$offset = -s $node->logfile;
restart(@right, "snowflake.layout = 'time:41 node:10 sequence:12'");
my $differs = qq(this server has issued IDs with layout "$former_layout" and epoch 2020-01-01 00:00:00+00, and is now configured with layout "time:41 node:10 sequence:12" and epoch 2020-01-01 00:00:00+00);
$hint = "Set snowflake.layout = '$former_layout' and snowflake.epoch = '2020-01-01 00:00:00+00' in postgresql.conf and restart the server. Or, if no ID of the one can equal an ID of the other, call snowflake_accept_layout().";
my $other = said('SELECT snowflake_nextval()');
my ($means) = $other->[1] =~ /\. (New IDs .*)$/;
is_deeply($other, [ '55000: cannot generate a snowflake ID: the durable mark could not be raised',
		qq(The background worker failed in database "postgres": $differs. $means), $hint ], 'another layout');
like($means, qr/^New IDs are larger than all former ones\. IDs that snowflake_compose\(\) or snowflake_id\(\) make for times before \S+ \S+\+00 could equal former ones\.$/,
	'and what it means');
logs('the log says so', $offset, "ERROR:  $differs", $means, $hint);
like(check('layout'), qr/^error\|This server has issued IDs with layout "\Q$former_layout\E".* \Q$hint\E$/, 'and the doctor');
restart(@right, "snowflake.layout = '$former_layout'", "snowflake.epoch = '2020-01-01 00:00:00+00'");
like($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), qr/^\d+$/, 'the lines of the hint mend it');
$node->stop;

#
# The clock is before the epoch
#
my $early = snowflake_node('early', "timezone = 'UTC'\n", clock => 1577836800 - 3000 - time);
my ($what, $why, $mend) = @{ said('SELECT snowflake_nextval()', $early) };
is($what, '55000: cannot generate snowflake IDs before their epoch', 'the clock is before the epoch');
like($why, qr/^The clock shows 2019-12-31 23:\S+, "snowflake\.epoch" is 2020-01-01 00:00:00\+00\.$/, 'both are shown');
is($mend, q(Set the server's clock. If it is right, set "snowflake.epoch" to an instant that is past, and restart the server.), 'and what to do');
like(check('clock', $early), qr/^error\|The clock shows 2019-12-31 \S+, which is before "snowflake\.epoch", 2020-01-01 00:00:00\+00\. Set the server's clock\.$/,
	'the doctor says so, too');
$early->stop;

done_testing();
