
# Hostile but legal administration: whatever those who may do that do to the
# objects and settings of the databases, while IDs are drawn and backfilled on two
# servers, and the servers are killed, stopped and started again with the clock
# set back.  IDs may stop meanwhile, where it is about the mark itself, and flow
# again by themselves when what was done is undone.  None comes twice.
#
# The home databases have an encoding of their own, and a disk that can be full.
#
# SNOWFLAKE_FAULT_ROUNDS sets how many rounds, SNOWFLAKE_FAULT_SEED repeats
# their order.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use FaultTest;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_FAULT_ROUNDS} || 40;
my $seed = $ENV{SNOWFLAKE_FAULT_SEED} || int rand 2**31;

my $replayed = 0.3;    # how much of the time before a hit comes again, s
my $far_back = 60;     # where the clock is while a server starts, s

my (@servers, %done, %errors, @problems);
my ($round, $faults, $tags, $gids) = (0, 0, 0, 0);
my $ledger = new_ledger();

sub pick { return $_[ rand @_ ]; }
sub chance { return rand() < $_[0]; }

#
# The servers
#
sub new_server
{
	my ($name, $node_id) = @_;
	my $dir = abs_path(PostgreSQL::Test::Utils::tempdir("small_$name"));
	my %disk = (FULL_DIR => $dir, FULL_FILE => "$dir.full");

	local %ENV = (%ENV, %disk);
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	my $server = { name => $name, node => $node, disk => \%disk };
	$disk{LD_PRELOAD} = compile($node, 'full.c', qw(-shared -fPIC), '-ldl');
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'snowflake'
snowflake.node_id = $node_id
snowflake.database = 'home'
snowflake.layout = 'time:41 node:5 worker:2 sequence:8'
snowflake.sequence_start = zero
snowflake.reserve_window = '300ms'
snowflake.max_drift = '150ms'
snowflake.max_wait = '300ms'
max_prepared_transactions = 10
max_connections = 40
restart_after_crash = on
autovacuum = off
log_statement = none
fsync = off
CONF
	set_clock($node, 0);
	start($server);

	# Without the characters of all languages
	$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$dir'");
	$node->safe_psql('postgres', 'CREATE ROLE landlord LOGIN');
	$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE home TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C' TABLESPACE small OWNER landlord
SQL
	$node->safe_psql('postgres', "CREATE DATABASE korean TEMPLATE template0 ENCODING 'EUC_KR' LOCALE 'C'");
	$node->safe_psql($_, 'CREATE EXTENSION snowflake') foreach 'postgres', 'korean';
	$node->safe_psql('postgres', q(SET snowflake.max_wait = '1min'; SELECT snowflake_segment_create('first')));

	# which no client could do without either
	$server->{settings} = [ grep { $_->[0] ne 'client_encoding' } hostile_settings($node) ];
	return $server;
}

sub start
{
	my ($server) = @_;
	local %ENV = (%ENV, %{ $server->{disk} });

	start_node($server->{node});
	return;
}

# In the home database, or in another, whatever is set there
sub sql
{
	my ($server, $sql, $dbname) = @_;
	my @settings = qw(role=none statement_timeout=0 lock_timeout=5s idle_session_timeout=0
	  idle_in_transaction_session_timeout=0 default_transaction_read_only=off default_transaction_deferrable=off
	  search_path=public exit_on_error=off max_stack_depth=2MB
	  temp_file_limit=-1 work_mem=4MB synchronous_commit=local);

	push @settings, 'transaction_timeout=0' if $server->{node}->pg_version >= 17;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } @settings;
	return $server->{node}->safe_psql($dbname // 'home', "SET client_encoding = 'UTF8'; $sql");
}

# In the time of the round, and in that of the one before: what was made durable
# then counts.
sub begin_draws
{
	my ($server) = @_;
	my $node = $server->{node};

	$server->{draws} = [
		start_draw($node, sessions => 4, delay => 4),
		start_draw(
			$node,
			sessions => 3,
			ids => 1,
			delay => 2,
			by_statement => 1,
			sql => "SELECT snowflake_backfill(timestamptz '2021-01-01+00'"
			  . " + ($round - (random() < 0.5)::int) * interval '1 day' + random() * interval '30 s')")
	];
	return;
}

sub end_draws
{
	my ($server) = @_;

	foreach my $draw (@{ delete $server->{draws} })
	{
		my $report = stop_draw($draw);

		$ledger->add($draw);
		while (my ($sqlstate, $error) = each %{ $report->{errors} })
		{
			my $all = $errors{$sqlstate} //= [ 0, $error->[1] ];
			$all->[0] += $error->[0];
		}
	}
	return;
}

#
# What an administrator does.  Each returns how it is undone.
#
#	side	it is about nothing that the mark needs: IDs flow all the while
#	read	except that it is read at the start: none flow when the server is
#			started so
#	last	DDL fails from then on
#	alone	not with another one at the same server: what is known twice would be
#			lost twice, another error be seen, or a slot wait for a transaction
#			that is left
#
my %kinds = (
	'publication' => { side => 1, alone => 1, do => \&publish },
	'settings of the database' => { side => 1, do => sub { return set_all($_[0], 'DATABASE home') } },
	'settings of the role' => {
		side => 1,
		do => sub { return set_all($_[0], 'ROLE ' . superuser($_[0]) . ' IN DATABASE home') }
	},
	'another role' => { side => 1, do => \&set_role },
	'event triggers that fail' =>
	  { side => 1, last => 1, do => sub { return event_triggers($_[0], q(RAISE 'no')) } },
	'event triggers that take long' => {
		side => 1,
		last => 1,
		do => sub { return event_triggers($_[0], 'PERFORM pg_sleep(0.2)') }
	},
	'tables locked' => {
		side => 1,
		do => sub { return hold($_[0], map { "LOCK TABLE $_" } state_tables($_[0])) }
	},
	'record locked' =>
	  { side => 1, read => 1, do => sub { return hold($_[0], 'LOCK TABLE snowflake_home.recorded') } },
	'mark locked' =>
	  { do => sub { return hold($_[0], 'ALTER SEQUENCE snowflake_home.mark OWNED BY NONE') } },
	'database locked' =>
	  { side => 1, do => sub { return hold($_[0], q(ALTER DATABASE home SET work_mem = '5MB')) } },
	'all else locked' => {
		side => 1,
		do => sub {
			return hold($_[0],
				q(COMMENT ON SCHEMA snowflake_home IS ''),
				q(COMMENT ON EXTENSION snowflake_home IS ''),
				q(COMMENT ON DATABASE home IS ''),
				'ALTER TABLE snowflake_home.backfill SET (fillfactor = 50)',
				'LOCK TABLE pg_db_role_setting IN EXCLUSIVE MODE');
		}
	},
	'settings reset' => {
		side => 1,
		alone => 1,
		do => sub { sql($_[0], 'ALTER DATABASE home RESET ALL', 'postgres'); return sub { return } }
	},
	'tables renamed' => { side => 1, do => \&rename_tables },
	'record renamed' => {
		side => 1,
		read => 1,
		do => sub {
			return there_and_back($_[0],
				'ALTER TABLE snowflake_home.recorded RENAME TO gone',
				'ALTER TABLE snowflake_home.gone RENAME TO recorded');
		}
	},
	'columns renamed' => {
		side => 1,
		do => sub {
			return there_and_back($_[0],
				'ALTER TABLE snowflake_home.backfill RENAME used TO was_used',
				'ALTER TABLE snowflake_home.backfill RENAME was_used TO used');
		}
	},
	'tables elsewhere' => {
		side => 1,
		do => sub {
			return there_and_back($_[0],
				'ALTER TABLE snowflake_home.backfill SET SCHEMA public',
				'ALTER TABLE public.backfill SET SCHEMA snowflake_home');
		}
	},
	'mark renamed' => {
		do => sub {
			return there_and_back($_[0],
				'ALTER SEQUENCE snowflake_home.mark RENAME TO gone',
				'ALTER SEQUENCE snowflake_home.gone RENAME TO mark');
		}
	},
	'schema renamed' => {
		do => sub {
			return there_and_back($_[0],
				'ALTER SCHEMA snowflake_home RENAME TO gone',
				'ALTER SCHEMA gone RENAME TO snowflake_home');
		}
	},
	'mark set back' => { do => \&set_mark_back },
	'other owners' => {
		side => 1,
		do => sub {
			return there_and_back($_[0],
				'REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_home FROM PUBLIC; ALTER TABLE snowflake_home.backfill OWNER TO landlord',
				'ALTER TABLE snowflake_home.backfill OWNER TO ' . superuser($_[0]));
		}
	},
	'row security' => {
		side => 1,
		do => sub {
			return there_and_back($_[0],
				'ALTER TABLE snowflake_home.backfill ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
				'ALTER TABLE snowflake_home.backfill DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY');
		}
	},
	'triggers that discard' =>
	  { side => 1, do => sub { return trigger($_[0], 'RETURN NULL') } },
	'triggers that change' =>
	  { side => 1, do => sub { return trigger($_[0], 'NEW.used = 1; RETURN NEW') } },
	'triggers that fail' =>
	  { side => 1, do => sub { return trigger($_[0], q(RAISE 'no')) } },
	'a rule that discards' => {
		side => 1,
		do => sub {
			return there_and_back($_[0], <<'SQL', 'DROP RULE nothing ON snowflake_home.backfill');
CREATE RULE nothing AS ON INSERT TO snowflake_home.backfill DO INSTEAD NOTHING;
ALTER TABLE snowflake_home.backfill ENABLE ALWAYS RULE nothing
SQL
		}
	},
	'errors in another encoding' => { side => 1, alone => 1, do => \&fail_with_umlaut },
	'disk full' => { side => 1, alone => 1, do => \&fill_disk },
	'table dropped' => { side => 1, alone => 1, do => \&drop_table });

sub superuser
{
	my ($server) = @_;
	return $server->{superuser} //= sql($server, 'SELECT quote_ident(current_user)');
}

# Those that the process beside the mark alone reads and writes
sub state_tables
{
	my ($server) = @_;

	return split /\n/, sql($server, <<'SQL');
SELECT c.oid::regclass FROM pg_class AS c
WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('snowflake_home', 'snowflake_registry'))
  AND relkind IN ('r', 'p') AND relname <> 'recorded'
ORDER BY 1
SQL
}

sub all_or_nothing
{
	my ($server, @sql) = @_;

	sql($server, join ";\n", 'BEGIN', @sql, 'COMMIT');
	return;
}

sub there_and_back
{
	my ($server, $there, $back) = @_;

	all_or_nothing($server, $there);
	return sub { all_or_nothing($server, $back); return };
}

# A transaction that is left, over a restart too
sub hold
{
	my ($server, @sql) = @_;
	my $gid = 'held ' . ++$gids;

	sql($server, join ";\n", 'BEGIN', @sql, "PREPARE TRANSACTION '$gid'");
	return sub { sql($server, "ROLLBACK PREPARED '$gid'"); return };
}

sub terminate_ours
{
	my ($server) = @_;

	sql($server, <<'SQL', 'postgres');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type IN ('snowflake mark writer', 'snowflake services')
SQL
	return;
}

# All at once, for new processes
sub set_all
{
	my ($server, $where) = @_;
	my @chosen = grep { chance(0.7) } @{ $server->{settings} };
	my @values = map { $_->[0] eq 'search_path' ? 'SET search_path = hostile, pg_catalog' : "SET $_->[0] = '$_->[1]'" } @chosen;

	all_or_nothing($server, <<'SQL', map { "ALTER $where $_" } @values);
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.setval(regclass, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $2';
CREATE AGGREGATE hostile.max(bigint) (SFUNC = int8smaller, STYPE = bigint)
SQL
	terminate_ours($server);
	return sub {
		all_or_nothing($server, map({ "ALTER $where RESET $_->[0]" } @chosen), 'DROP SCHEMA hostile CASCADE');
		return;
	};
}

# By the owner of the database, who is no superuser
sub set_role
{
	my ($server) = @_;
	my $name = pick('role', 'session_authorization');

	sql($server, "SET ROLE landlord; ALTER DATABASE home SET $name = landlord", 'postgres');
	terminate_ours($server);
	return sub { sql($server, "ALTER DATABASE home RESET $name", 'postgres'); return };
}

# And somebody asks for something that begins with DDL of the worker.
sub event_triggers
{
	my ($server, $body) = @_;
	my @events = qw(ddl_command_start ddl_command_end sql_drop);

	all_or_nothing(
		$server,
		"CREATE FUNCTION public.hostile() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN "
		  . ($body =~ s/'/''/gr) . '; END\'',
		map({ "CREATE EVENT TRIGGER hostile_$_ ON $_ EXECUTE FUNCTION public.hostile()" } reverse @events),
		map { "ALTER EVENT TRIGGER hostile_$_ ENABLE ALWAYS" } @events);
	terminate_ours($server);
	$server->{node}->psql('postgres', "SELECT snowflake_segment_create('tag " . ++$tags . "')");
	return sub {
		all_or_nothing($server, map({ "DROP EVENT TRIGGER hostile_$_" } @events), 'DROP FUNCTION public.hostile()');
		return;
	};
}

# The other server gets all there is, of this one's state too.
sub publish
{
	my ($server) = @_;
	my ($other) = grep { $_ != $server } @servers;
	my $has_sequences = sql($server, 'SHOW server_version_num') >= 190000;
	my $sequences = $has_sequences ? ', ALL SEQUENCES' : '';
	my $copy = pick('true', 'false');
	my $name = "everything_$round";

	sql($server, "CREATE PUBLICATION $name FOR ALL TABLES$sequences");
	sql($other, "CREATE SUBSCRIPTION $name CONNECTION '" . ($server->{node}->connstr('home') =~ s/'/''/gr)
		  . "' PUBLICATION $name WITH (copy_data = $copy)");
	sql($other, "ALTER SUBSCRIPTION $name REFRESH SEQUENCES") if $has_sequences;
	return sub {
		sql($other, "ALTER SUBSCRIPTION $name REFRESH SEQUENCES") if $has_sequences;
		sql($other, "DROP SUBSCRIPTION $name");
		sql($server, "DROP PUBLICATION $name");
		return;
	};
}

# One name for another, and back
sub rename_tables
{
	my ($server) = @_;
	my @tables = state_tables($server);

	my @there = map { "ALTER TABLE $_ RENAME TO " . (s/.*\.//r) . '_gone' } @tables;
	my @back = map { "ALTER TABLE ${_}_gone RENAME TO " . s/.*\.//r } @tables;
	return there_and_back($server, join(';', @there), join ';', @back);
}

# Lower than it may be.  The next one is not.
sub set_mark_back
{
	my ($server) = @_;

	sql($server, q(SELECT setval('snowflake_home.mark', last_value - 60000000) FROM snowflake_home.mark));
	wait_drawn($server->{draws}[0], 2000);
	return sub { return };
}

sub trigger
{
	my ($server, $body) = @_;

	$body =~ s/'/''/g;
	return there_and_back($server, <<SQL, 'DROP FUNCTION public.hostile_row() CASCADE');
CREATE FUNCTION public.hostile_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN $body; END';
CREATE TRIGGER a_hostile BEFORE INSERT OR UPDATE ON snowflake_home.backfill
FOR EACH ROW EXECUTE FUNCTION public.hostile_row();
ALTER TABLE snowflake_home.backfill ENABLE ALWAYS TRIGGER a_hostile
SQL
}

# What is said of it can be read in all databases.
sub fail_with_umlaut
{
	my ($server) = @_;
	my $node = $server->{node};
	my $name = "k\x{c3}\x{b6}nnte";
	my $log = -s $node->logfile;
	my $heal = there_and_back($server,
		qq(ALTER TABLE snowflake_home.backfill ADD CONSTRAINT "$name" CHECK (stretch < -1) NOT VALID),
		qq(ALTER TABLE snowflake_home.backfill DROP CONSTRAINT "$name"));

	my @where = (
		[ 'postgres', 'LATIN1' ], [ 'postgres', 'UTF8' ],
		[ 'korean', 'UTF8' ], [ 'korean', 'EUC_KR' ]);
	wait_for(
		sub {
			usleep(50_000);
			return slurp_file($node->logfile, $log) =~ /violates check constraint/
			  || draw_fails($server);
		}) or push @problems, 'nothing has failed';
	foreach my $query (
		'SELECT s, length(s::text) FROM pg_stat_snowflake AS s',
		'SELECT c, length(c::text) FROM snowflake_check() AS c',
		q(SELECT snowflake_backfill('2020-01-03+00')))
	{
		foreach (@where)
		{
			my ($dbname, $encoding) = @{$_};
			my (undef, undef, $stderr) = $node->psql($dbname,
				"\\set VERBOSITY verbose\nSET client_encoding = '$encoding'; $query");

			push @problems, "in $dbname, $encoding: $stderr"
			  if $stderr =~ /\b(?:22P05|22021|character with byte|invalid byte)/;
		}
	}
	return $heal;
}

# Is an error of the process to be seen?
sub draw_fails
{
	my ($server) = @_;
	my (undef, undef, $stderr) = $server->{node}->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT snowflake_backfill('2020-01-02+00')");

	return psql_error($stderr)->{detail} =~ /violates/;
}

# Many new stretches, so that a table has to grow
sub fill_disk
{
	my ($server) = @_;
	my $node = $server->{node};
	my $file = $server->{disk}{FULL_FILE};
	my $log = -s $node->logfile;

	open my $fh, '>', $file or die "$file: $!";
	close $fh;
	my $many = start_draw($node, sessions => 2, ids => 1, delay => 0, by_statement => 1,
		sql => q(SELECT snowflake_backfill(timestamptz '2022-01-01+00' + random() * interval '4 years')));
	wait_for(
		sub {
			usleep(50_000);
			return slurp_file($node->logfile, $log) =~ /No space left on device/;
		}) or push @problems, 'the disk is not full';
	push @{ $server->{draws} }, $many;
	return sub { unlink $file; return };
}

# Without what was in it
sub drop_table
{
	my ($server) = @_;
	my $node = $server->{node};
	my $table = 'snowflake_home.backfill';

	sql($server, "ALTER EXTENSION snowflake_home DROP TABLE $table");
	my ($definition) = run_command([ 'pg_dump', '-s', '-t', $table, '-d', $node->connstr('home') ]);
	sql($server, "DROP TABLE $table CASCADE");
	return sub {
		sql($server, $definition);
		sql($server, "ALTER EXTENSION snowflake_home ADD TABLE $table");
		return;
	};
}

#
# What happens to a server meanwhile.  True: it was down, and came up with the
# clock set back.
#
my %hits = (
	'nothing' => sub { return 0 },
	'both processes terminated' => sub { terminate_ours($_[0]); return 0 },
	'kill -9 of a backend' => sub {
		return crash($_[0], sub { kill 'KILL', busy_backend($_[0]{node}) });
	},
	'kill -9 of a process of ours' => sub {
		return crash($_[0],
			sub { kill 'KILL', chance(0.5) ? worker_pid($_[0]{node}) : services_pid($_[0]{node}) });
	},
	'kill -9 of the postmaster' =>
	  sub { return restart($_[0], sub { kill9_postmaster($_[0]{node}, all => 1) }) },
	'immediate shutdown' => sub { return restart($_[0], sub { $_[0]{node}->stop('immediate') }) },
	'fast shutdown' => sub { return restart($_[0], sub { $_[0]{node}->stop('fast') }) });

# With room on the disk, which recovery may not go without
sub restart
{
	my ($server, $stop) = @_;
	my $at = time();

	unlink $server->{disk}{FULL_FILE};
	$stop->($server);
	set_clock($server->{node}, -$far_back);
	start($server);
	set_clock($server->{node}, -(time() - $at + $replayed));
	return 1;
}

sub crash
{
	my ($server, $kill) = @_;
	my $log = -s $server->{node}->logfile;
	my $at = time();

	unlink $server->{disk}{FULL_FILE};
	$kill->($server);
	wait_for(
		sub {
			return slurp_file($server->{node}->logfile, $log) =~
			  /database system is ready to accept connections/;
		}) or die "$server->{name} does not start again\n";
	set_clock($server->{node}, -(time() - $at + $replayed));
	return 1;
}

#
# The plan: each kind, and each hit, as often as any other.
#
my %queue;

sub next_of
{
	my ($name, $of) = @_;
	my $queue = $queue{$name} //= [];

	push @{$queue}, shuffle sort keys %{$of} if !@{$queue};
	return shift @{$queue};
}

sub run_round
{
	my @applied;
	my $began = time();

	$round++;
	begin_draws($_) foreach @servers;
	wait_drawn($_, 20) foreach map { @{ $_->{draws} } } @servers;

	my %kinds_of = map { $_->{name} => [ map { next_of('kinds', \%kinds) } 1 .. 1 + int rand 2 ] } @servers;
	foreach my $server (@servers)
	{
		my @names = sort { ($kinds{$a}{last} // 0) <=> ($kinds{$b}{last} // 0) } @{ $kinds_of{ $server->{name} } };

		$server->{stops} = grep { !$kinds{$_}{side} } @names;
		$server->{stops_at_start} = $server->{stops} || grep { $kinds{$_}{read} } @names;
		foreach my $name (@names)
		{
			my $is_possible = @names == 1 || !$kinds{$name}{alone};
			my $heal = $is_possible && eval { $kinds{$name}{do}->($server) };

			# where it is at odds with another one
			if (!$heal)
			{
				note "$server->{name}, $name: $@" if $is_possible;
				push @{ $queue{kinds} }, $name;
				next;
			}
			push @applied, [ $server, $name, $heal ];
			$done{$name}++;
			$faults++;
		}
	}
	note "round $round: ", join ', ', map { "$_->[0]{name}: $_->[1]" } @applied;
	flow('with it', grep { !$_->{stops} } @servers);
	usleep(rand 500_000);

	my @hits;
	foreach my $server (@servers)
	{
		my $hit = next_of('hits', \%hits);

		$server->{back} = $hits{$hit}->($server);
		push @hits, $hit;
		$done{$hit}++;
		$faults++ if $hit ne 'nothing';
	}
	flow('after the hit', grep { !$_->{ $_->{back} ? 'stops_at_start' : 'stops' } } @servers);

	foreach (reverse @applied)
	{
		my ($server, $name, $heal) = @{$_};

		eval { $heal->(); 1 } or die "$server->{name}, $name, to be undone: $@";
	}
	flow('undone', @servers);
	foreach my $server (@servers)
	{
		wait_drawn($server->{draws}[1], 50);
		set_clock($server->{node}, 0) if $server->{back};
		wait_drawn($_, 20) foreach @{ $server->{draws} };
		end_draws($server);
	}
	is(join('; ', @problems), '', "round $round: " . join ', ',
		map { "$_->[0]{name}: $_->[1]" } @applied);
	note sprintf 'then %s; %.1f s', join(', ', @hits), time() - $began;
	@problems = ();
	return;
}

# IDs are drawn.
sub flow
{
	my ($when, @at) = @_;

	foreach my $server (@at)
	{
		eval { wait_drawn($server->{draws}[0], 100); 1 }
		  or die "$server->{name}, $when: $@";
	}
	return;
}

note "SNOWFLAKE_FAULT_SEED=$seed SNOWFLAKE_FAULT_ROUNDS=$rounds";
srand $seed;
@servers = (new_server('s1', 1), new_server('s2', 2));
my $least = $rounds || 1;

# One that could not be applied beside another one comes again later.
while ($round < $least || grep { !$done{$_} } keys %kinds, keys %hits)
{
	die "some are never done\n" if $round > $least + keys %kinds;
	run_round();
}
is($ledger->duplicates, 0, 'no ID came twice');
is($ledger->disorder, 0, 'the IDs of a session increase');
note sprintf '%3d times %s', $done{$_}, $_ foreach sort keys %done;
note "error $_: $errors{$_}[0] times: $errors{$_}[1]" foreach sort keys %errors;
$ledger->report($faults);

# What passes by itself, and what somebody has to mend; 57P0x, 08...: the server is
# down.
my @other = grep { !/^(?:55000|55P03|53000|57P0[123]|08...)$/ } sort keys %errors;
is("@other", '', 'clients met no other errors');
$_->{node}->stop foreach @servers;

done_testing();
