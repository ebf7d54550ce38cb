
# What servers may cost their registry, and what they say of one that they cannot
# use: never more than two connections each for the lease and for segments, no
# request that is carried out after it was given up, fewer and fewer attempts,
# and no errors in its log of what can be looked at first.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use LeaseTest;
use SnowflakeTest;

my $registry = new_registry('registry', <<'CONF', allows_streaming => 1);
log_connections = on
log_line_prefix = '%m [%p] %q[%a] '
log_statement = none
CONF
my $lease = 'snowflake lease %';
my $segments = 'snowflake segments %';

# How many sessions the registry has whose name is like this; in a database of its
# own, which a test may break.
sub sessions
{
	my ($name, $state) = @_;

	return $registry->safe_psql('template1',
		"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '$name'" . ($state ? " AND $state" : ''));
}

sub log_of
{
	my ($node, $from) = @_;

	return slurp_file($node->logfile, $from // 0);
}

sub wait_log
{
	my ($node, $pattern, $from) = @_;

	return wait_for(sub { log_of($node, $from) =~ $pattern });
}

sub count_of
{
	my ($pattern, $text) = @_;

	return scalar(() = $text =~ /$pattern/g);
}

sub set_registry
{
	my ($node, $conninfo) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET snowflake.registry = '$conninfo'");
	reload_node($node);
	return;
}

# What a session is told that draws an ID.
sub drawing
{
	my ($node) = @_;
	my ($code, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_nextval()");

	return psql_error($stderr // '');
}

# The server comes to say why it has no number, to sessions; with this SQLSTATE,
# and this to do.
sub says
{
	my ($node, $name, $sqlstate, $detail, $hint) = @_;
	my $error;

	ok(poll(sub { $error = drawing($node); return $error->{detail} =~ $detail && $error->{sqlstate} eq $sqlstate; }),
		"$name: what is wrong")
	  or diag("$error->{sqlstate} $error->{detail}");
	like($error->{hint}, $hint, "$name: what to do");
	unlike("$error->{detail} $error->{hint}", qr/node_id|HINT/, "$name: and nothing else");
	return;
}

# A row is locked: what waits for it is ended by the registry, or by the server's
# next connection.
my $node = leasing_node('locked', registry_conninfo($registry, application_name => 'mine'), "snowflake.lease_ttl = '1min'\n");
my $number = wait_number($node);
my ($name) = $registry->safe_psql('postgres', "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE '$lease'");
like($name, qr/^snowflake lease \S+:@{[ $node->port ]} [0-9a-f]{8}$/, 'the session has a name');
is($registry->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mine'"), '0', 'whatever the setting says');
$node->safe_psql('postgres', "SET snowflake.max_wait = '30s'; SELECT snowflake_segment_create('locked', step => 10); SELECT snowflake_segment_nextval('locked')");
my $lock = session($registry);
my $max_id = "SELECT max_id FROM snowflake_segment_tag WHERE tag = 'locked'";
$lock->query_safe("BEGIN; SELECT FROM snowflake_segment_tag WHERE tag = 'locked' FOR UPDATE; SELECT FROM snowflake_node_lease FOR UPDATE");
my $before = $lock->query_safe($max_id);
my $from = -s $registry->logfile;

# (sessions want segments all the while)
my $draw = start_draw($node, sessions => 2, delay => 20, sql => q(SELECT snowflake_segment_nextval('locked')));
my ($most_lease, $most_segments) = (0, 0);
ok( poll(
		sub {
			my ($of_lease, $of_segments) = (sessions($lease), sessions($segments));

			$most_lease = $of_lease if $of_lease > $most_lease;
			$most_segments = $of_segments if $of_segments > $most_segments;
			return count_of(qr/\[$name\] ERROR:  canceling statement due to lock timeout/, log_of($registry, $from)) >= 3
			  && count_of(qr/\[snowflake segments [^]]*\] ERROR:  canceling statement due to lock timeout/, log_of($registry, $from)) >= 3;
		}),
	'rows that are locked: the registry ends what waits for them');
cmp_ok($most_lease, '<=', 2, 'rows that are locked: never more than two connections for the lease');
cmp_ok($most_segments, '<=', 2, 'rows that are locked: nor for segments');
stop_draw($draw);
$lock->query_safe('ROLLBACK');
is(wait_number($node), $number, 'unlocked: it still has its number');
ok(poll(sub { ($node->psql('postgres', q(SELECT snowflake_segment_nextval('locked'))))[0] == 0 }), 'unlocked: numbers flow');
cmp_ok($registry->safe_psql('postgres', $max_id), '<=', $before + 30, 'unlocked: nothing was carried out that had been given up');

# What no timeout ends: the session of a link that got lost, which waits for a
# standby.  The next connection ends it.
$registry->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'missing'");
reload_node($registry);
my $waits;
ok(poll(sub { $waits = $registry->safe_psql('template1', "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '$lease' AND wait_event = 'SyncRep' LIMIT 1") }), 'a missing standby: renewals wait');
ok( poll(
		sub {
			my $of_lease = sessions($lease);

			$most_lease = $of_lease if $of_lease > $most_lease;
			return $registry->safe_psql('template1', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $waits)") eq 't'
			  && sessions($lease, "wait_event = 'SyncRep' AND pid <> $waits") >= 1;
		}),
	'a missing standby: what was given up is ended, and asked again');
cmp_ok($most_lease, '<=', 2, 'a missing standby: never more than two connections');

# A claim whose wait is cancelled is no claim: it may be lost with the registry.
my $claimer = leasing_node('claimer', registry_conninfo($registry), "snowflake.lease_ttl = '1min'\n");
my $cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%:" . $claimer->port . " %' AND wait_event = 'SyncRep'";
my $cancelled = 0;
ok( poll(
		sub {
			$cancelled += count_of(qr/t/, $registry->safe_psql('template1', $cancel));
			return $cancelled >= 2 && log_of($claimer) =~ /could not be asked: it does not confirm its answer, but says "canceling wait for synchronous replication due to user request"/;
		}),
	'a cancelled wait: no answer, and the log says why');
is(number_of($claimer), '', 'a cancelled wait: no number');
is(drawing($claimer)->{sqlstate}, '55P03', 'a cancelled wait: no ID');

# The same of segments, which have a number of their own here.
my $taker = leasing_node('taker', registry_conninfo($registry), "snowflake.node_id = 30\nsnowflake.max_wait = '1s'\n");
$draw = start_draw($taker, sessions => 1, delay => 20, sql => q(SELECT snowflake_segment_nextval('locked')));
$cancel =~ s/@{[ $claimer->port ]}/@{[ $taker->port ]}/;
ok( poll(
		sub {
			$registry->safe_psql('template1', $cancel);
			return log_of($taker) =~ /could not be asked: it does not confirm its answer/;
		}),
	'a cancelled wait: no segment');
is($taker->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake_segments WHERE unused > 0 OR next_first IS NOT NULL'), '0', 'a cancelled wait: no numbers');
is(drawn($draw), 0, 'a cancelled wait: nor was one drawn');
stop_draw($draw);
$registry->safe_psql('template1', 'ALTER SYSTEM RESET synchronous_standby_names');
reload_node($registry);
isnt(wait_number($claimer), $number, 'no standby is asked for: a number');
$_->stop foreach $claimer, $taker;

# What somebody has to mend.  The registry's log has no errors of it, and fewer
# and fewer connections.
$from = -s $registry->logfile;
my $poor = leasing_node('poor', registry_conninfo($registry, dbname => 'template1'), "snowflake.lease_ttl = '40s'\n");
says($poor, 'no extension', '55000',
	qr/^The registry could not be asked: there is no extension "snowflake_registry" in database "template1" of host ".*"\. Waited/,
	qr/^Run CREATE EXTENSION snowflake_registry in that database\.$/);
ok(wait_log($poor, qr/WARNING:  could not lease a snowflake node number\n.*DETAIL:  The registry could not be asked: there is no extension "snowflake_registry" in database "template1"[^\n]*\n.*HINT:  Run CREATE EXTENSION snowflake_registry in that database\.\n/),
	'no extension: the log says the same');

# When it has connected there, in seconds of a day or two.
sub attempts
{
	my @times = map { my ($h, $m, $s) = split /:/; $h * 3600 + $m * 60 + $s }
	  log_of($registry, $from) =~ /^\S+ (\S+) .*connection authorized: user=snowflake_server database=template1 /gm;

	return map { $_ < $times[0] ? $_ + 86400 : $_ } @times;
}

my @attempts;
ok( poll(
		sub {
			@attempts = attempts();
			return grep { $attempts[$_] - $attempts[ $_ - 1 ] > 3.5 } 1 .. $#attempts;
		}),
	'no extension: attempts become fewer');
cmp_ok(scalar(@attempts), '<=', 8, 'no extension: soon');
is(count_of(qr/ERROR:|FATAL:/, join "\n", grep { /snowflake lease \S+:@{[ $poor->port ]} / } split /\n/, log_of($registry, $from)), 0,
	'no extension: no errors in the registry');
is(count_of(qr/WARNING:  could not lease/, log_of($poor)), 1, 'no extension: one line in the log of the server');

# The setting is changed: it tries at once.
$registry->safe_psql('postgres', 'CREATE DATABASE changed');
$registry->safe_psql('changed', <<'SQL');
CREATE SCHEMA "An other";
CREATE EXTENSION snowflake_registry SCHEMA "An other";
GRANT USAGE ON SCHEMA "An other" TO snowflake_server;
GRANT EXECUTE ON FUNCTION "An other".snowflake_lease_node TO snowflake_server;
SQL
set_registry($poor, registry_conninfo($registry, dbname => 'changed'));
my $had = wait_number($poor);
my $schema = q("An other");
my $version = $registry->safe_psql('changed', q(SELECT extversion FROM pg_extension WHERE extname = 'snowflake_registry'));
my $set_version = q(UPDATE pg_extension SET extversion = '%s' WHERE extname = 'snowflake_registry');
my $disconnect = q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'changed' AND usename = 'snowflake_server');
foreach (
	[ 'no right', qq(REVOKE EXECUTE ON FUNCTION $schema.snowflake_lease_node FROM snowflake_server), qq(GRANT EXECUTE ON FUNCTION $schema.snowflake_lease_node TO snowflake_server),
		qr/role "snowflake_server" may not execute function $schema\.snowflake_lease_node\(\) in database "changed" of host.*Run GRANT EXECUTE ON FUNCTION $schema\.snowflake_lease_node TO that role/ ],
	[ 'no schema', "REVOKE USAGE ON SCHEMA $schema FROM snowflake_server; $disconnect", "GRANT USAGE ON SCHEMA $schema TO snowflake_server",
		qr/role "snowflake_server" may not use schema $schema in database.*Run GRANT USAGE ON SCHEMA $schema TO that role/ ],
	[ 'too far apart', sprintf("$set_version; ALTER FUNCTION $schema.snowflake_lease_node RENAME TO snowflake_lease_node_9; $disconnect", '9.0'),
		sprintf("$set_version; ALTER FUNCTION $schema.snowflake_lease_node_9 RENAME TO snowflake_lease_node", $version),
		qr/extension "snowflake_registry" in database "changed" of host "[^"]*" is of version 9\.0, and has no function snowflake_lease_node\(\) with 19 arguments, which this server calls.*Update the older of the two/ ])
{
	my ($what, $break, $mend, $pattern) = @{$_};
	my $check = q(SELECT * FROM snowflake_check());
	my $said;

	$from = -s $registry->logfile;
	$registry->safe_psql('changed', $break);
	ok(poll(sub { ($said) = $poor->safe_psql('postgres', $check) =~ /^(registry.*)/m; return $said =~ $pattern; }), "$what: what is wrong, and what to do")
	  or diag($said);
	$registry->safe_psql('changed', $mend);
	reload_node($poor);
	is(wait_number($poor), $had, "$what: mended, it still has its number");
	ok(poll(sub { $poor->safe_psql('postgres', $check) =~ /^registry\|ok/m }), "$what: and renews its lease");

	# one where it finds out
	cmp_ok(count_of(qr/\[snowflake lease [^]]*\] ERROR:/, log_of($registry, $from)), '<=', 1, "$what: no flood of errors in the registry");
}

# Of another version of the protocol: each says so of the other.
my $replace = sub {
	my ($function, $returns, $body) = @_;

	$registry->safe_psql('changed', <<"SQL");
SELECT format('ALTER FUNCTION $schema.$function(%s) RENAME TO ${function}_real', pg_get_function_identity_arguments(oid)),
       format('CREATE FUNCTION $schema.$function(%s) RETURNS $returns LANGUAGE plpgsql AS %L', pg_get_function_arguments(oid), \$\$$body\$\$),
       format('GRANT EXECUTE ON FUNCTION $schema.$function TO snowflake_server')
FROM pg_proc WHERE proname = '$function' \\gexec
SQL
};
my $restore = sub {
	$registry->safe_psql('changed', "DROP FUNCTION $schema.$_[0]; ALTER FUNCTION $schema.$_[0]_real RENAME TO $_[0]");
};
foreach ([ 2, qr/Update the older of the two: the files of this server, followed by a restart\./ ],
	[ 0, qr/Update the older of the two: the registry's files, followed by ALTER EXTENSION snowflake_registry UPDATE in that database\./ ])
{
	my ($protocol, $hint) = @{$_};
	my $says = qr/The registry could not be asked: it speaks version $protocol of the protocol, and this server version 1\./;

	$replace->('snowflake_lease_node', "$schema.snowflake_node_answer", "DECLARE a $schema.snowflake_node_answer; BEGIN a.protocol := $protocol; a.node := 0; RETURN a; END");
	ok(poll(sub { $poor->safe_psql('postgres', 'SELECT * FROM snowflake_check()') =~ /^registry\|warning\|This server is node $had until [^|]*$says $hint/m; }), "protocol $protocol: what is wrong, and what to do")
	  or diag($poor->safe_psql('postgres', 'SELECT * FROM snowflake_check()'));
	$restore->('snowflake_lease_node');
	reload_node($poor);
	is(wait_number($poor), $had, "protocol $protocol: mended, it still has its number");

	$replace->('snowflake_take_segments', "SETOF $schema.snowflake_segment_answer", "DECLARE a $schema.snowflake_segment_answer; BEGIN a.protocol := $protocol; a.asked := tags[1]; RETURN NEXT a; END");
	my $error;
	ok(poll(sub { $error = psql_error(($poor->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_segment_nextval('protocol')"))[2]); return $error->{detail} =~ $says; }), "protocol $protocol: nor are there segments");
	is($error->{sqlstate}, '55000', "protocol $protocol: somebody has to mend that");
	ok(wait_log($poor, qr/WARNING:  could not fetch segments of numbers\n.*DETAIL:  $says[^\n]*\n.*HINT:  $hint/), "protocol $protocol: as the log says");
	$restore->('snowflake_take_segments');
}
foreach my $call ('snowflake_take_segments(2, NULL, NULL, NULL, NULL, NULL)',
	'snowflake_lease_node(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)')
{
	my (undef, undef, $stderr) = $registry->psql('changed', "\\set VERBOSITY verbose\nSELECT $schema.$call");
	my $error = psql_error($stderr);

	is("$error->{sqlstate} $error->{message}", '0A000 the registry speaks version 1 of the protocol, and the server version 2', "asked by another version: $call");
	like($error->{hint}, qr/^Update the older one: /, 'and what to do');
}

# The registry has a longest lease, whatever servers ask for.
$registry->safe_psql('changed', <<"SQL");
UPDATE $schema.snowflake_registry_place SET longest_lease = '10 s';
SELECT $schema.snowflake_create_tag('short', 1, 1000, 1, 0, NULL, NULL);
SELECT format('GRANT EXECUTE ON FUNCTION %s TO snowflake_server', oid::regprocedure) FROM pg_proc WHERE proname = 'snowflake_take_segments' \\gexec
SQL
my $proxy = start_proxy($registry);
my $short = leasing_node('short', proxy_conninfo($proxy, dbname => 'changed'), "snowflake.lease_ttl = '1h'\n");
my $ends = q(SELECT lease_end < clock_timestamp() + interval '10 s' FROM pg_stat_snowflake);
wait_number($short);
is($short->safe_psql('postgres', $ends), 't', 'a longest lease: a shorter one is given');
ok(poll(sub { ($short->psql('postgres', q(SELECT snowflake_nextval())))[0] == 0 }), 'a longest lease: IDs flow');
ok(poll(sub { ($short->psql('postgres', q(SELECT snowflake_segment_nextval('short'))))[0] == 0 }), 'a longest lease: numbers flow');
set_proxy($proxy, 'hole');
says($short, 'a longest lease', '55P03', qr/^The lease of node number \d+ ended at /, qr/./);
my $stopped;
ok(poll(sub { $stopped = psql_error(($short->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_segment_nextval('short')"))[2]); return $stopped->{sqlstate} eq '55P03'; }), 'a longest lease: numbers in memory count no longer either');
$short->stop;

# No connection.
$registry->safe_psql('postgres', q(CREATE ROLE secret LOGIN PASSWORD 'x'));
my $hba = $registry->data_dir . '/pg_hba.conf';
my $rest = slurp_file($hba);
open my $fh, '>', $hba or die $!;
print $fh "local all secret scram-sha-256\n$rest";
close $fh;
reload_node($registry);
$poor->safe_psql('postgres', q(ALTER SYSTEM SET snowflake.lease_ttl = '10s'));
reload_node($poor);
my $nowhere = PostgreSQL::Test::Utils::tempdir() . '/nowhere';
set_registry($poor, registry_conninfo($registry, user => 'secret', passfile => $nowhere));
says($poor, 'no password', '55000', qr/The registry could not be asked: .*no password supplied\. Waited/, qr/^Put the password into the password file of the operating system user that runs this server/);
set_registry($poor, registry_conninfo($registry, dbname => 'nowhere'));
says($poor, 'no database', '55000', qr/The registry could not be asked: .*database "nowhere" does not exist\. Waited/, qr/^Check host, dbname and user in "snowflake\.registry"/);
foreach (
	[ 'hots=db', qr/DETAIL:  It is not a connection string: invalid connection option "hots"\./ ],
	[ 'host=db hidden', qr/DETAIL:  It is not a connection string: missing "=" after "\.\.\." in connection info string\./ ],
	[ 'postgresql://a:hidden@[db', qr/DETAIL:  It is not a connection string: .*"\.\.\."/ ],
	[ 'password=a hidden=', qr/DETAIL:  It is not a connection string: invalid connection option "\.\.\."/ ])
{
	my ($value, $detail) = @{$_};
	my (undef, undef, $stderr) = $poor->psql('postgres', "ALTER SYSTEM SET snowflake.registry = '$value'");

	like($stderr, $detail, "$value: what is wrong with it");
	unlike($stderr =~ s/^LINE.*//msr, qr/hidden/, "$value: but no secret");
}

$_->stop foreach $poor, $node, $registry;

# A registry that runs out of transaction IDs, which a slot keeps from being frozen,
# warns of each that it assigns.
my $aged = new_registry('aged', "wal_level = logical\n");
my $next = 2**31 - 20_000_000;
my $transactions = sprintf '%s/pg_xact/%04X', $aged->data_dir, $next / 2**20;
$aged->safe_psql('postgres', q(SELECT pg_create_logical_replication_slot('keeps', 'pgoutput')));
$aged->stop;
run_log([ 'pg_resetwal', '-x', $next, $aged->data_dir ]) or die 'pg_resetwal fails';
append_to_file($transactions, "\0" x 2**18);
$aged->start;
like(($aged->psql('postgres', 'SELECT pg_current_xact_id()'))[2], qr/WARNING:  database "\w+" must be vacuumed/, 'the last transaction IDs: a warning');
my $leaser = leasing_node('leaser', registry_conninfo($aged));
ok(poll(sub { number_of($leaser) ne '' }), 'the last transaction IDs: a number is leased');
$leaser->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_segment_create('aged')));
is($leaser->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_segment_nextval('aged'))), '1', 'the last transaction IDs: numbers flow');
unlike(log_of($leaser), qr/does not confirm its answer/, 'the last transaction IDs: each answer counts');

$_->stop foreach $leaser, $aged;
done_testing();
