# COPY into a table whose key is left out.
#
# Rows are written in groups, as with a sequence, and each has an ID of its own;
# the table is the same as by INSERT.  What COPY calls for that,
# snowflake_copy_nextval(), is in nothing else: a table that is altered meanwhile
# gets an ID for each row.  The server counts its calls, so that it is seen where
# it is used and where not.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

need_extension($_, 'postgresql-contrib') foreach qw(pg_walinspect postgres_fdw);

my $rows = 1000;
my $node = snowflake_node('copy', "autovacuum = off\ntrack_functions = all\nwal_level = replica\n");
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $file = $node->basedir . '/rows';
append_to_file("$file.txt", join('', map { "$_\n" } 1 .. $rows));
append_to_file("$file.bad", join('', map { "$_\n" } 1 .. $rows, 'x'));

# In one session for all, which draws nothing.
my $session = session($node);
sub sql { return $session->query_safe($_[0]); }

sql(<<SQL);
CREATE EXTENSION pg_walinspect;
CREATE EXTENSION postgres_fdw;
COPY (SELECT n FROM generate_series(1, $rows) AS n) TO '$file.binary' (FORMAT binary);
CREATE TABLE plain (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
CREATE TABLE other (n integer, id bigint);
INSERT INTO other SELECT generate_series(1, $rows);
SQL

# Statements in a session of their own, with any error.  Then in %did: how many
# records of groups of rows the WAL has got, and of single ones, in other tables
# than the catalogs (a few may be those of the home database); and how often both functions were called.
my %did;

sub run
{
	my ($statements) = @_;
	my $before = sql('SELECT pg_stat_reset(); SELECT pg_current_wal_insert_lsn()') =~ s/\s//gr;
	my ($status, $output, $error) = $node->psql('postgres', $statements, on_error_stop => 1);

	# its session counts the calls when it ends, after psql
	@did{qw(groups single copy nextval)} = split /\|/, (split /\n/, sql(<<SQL))[-1];
DO \$\$ BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END \$\$;
SELECT pg_logical_emit_message(true, '', '');
SELECT count(*) FILTER (WHERE record_type LIKE 'MULTI_INSERT%'), count(*) FILTER (WHERE record_type LIKE 'INSERT%'),
       coalesce(pg_stat_get_function_calls('snowflake_copy_nextval'::regproc), 0), coalesce(pg_stat_get_function_calls('snowflake_nextval()'::regprocedure), 0) + coalesce(pg_stat_get_function_calls('snowflake_next()'::regprocedure), 0)
FROM pg_get_wal_records_info('$before', pg_current_wal_flush_lsn())
WHERE resource_manager IN ('Heap', 'Heap2') AND block_ref ~ 'rel \\d+/\\d+/\\d{5,}'
SQL
	return $error;
}

# A table has the rows of the file, each with an ID of its own, drawn in their order
# and of the last seconds.
sub is_filled
{
	my ($table, $name) = @_;

	is( sql("SELECT count(*), sum(n), count(DISTINCT id), bool_and(ascends), min(snowflake_timestamp(id)) > now() - interval '1 minute' FROM (SELECT *, id > lag(id, 1, 0::bigint) OVER (ORDER BY n) AS ascends FROM $table) AS t"),
		"$rows|500500|$rows|t|t", "$name: each row has an ID of its own, in their order");
}

# COPY the rows into a table, and see how they are written: in groups, one by one,
# or elsewhere.
sub copies
{
	my ($name, $how, %with) = @_;
	my $table = $with{table} // 'plain';
	my $before = $with{before} // "TRUNCATE $table;";
	my $copy = $with{copy} // "COPY $table (n) FROM '$file.txt';";

	is(run("$before\n$copy"), $with{error} // '', "$name: errors");
	is_filled($table, $name);
	is($did{copy}, $with{copy_calls} // $rows, "$name: calls by COPY");
	is($did{nextval}, $with{other_calls} // 0, "$name: calls by others");
	return if $how eq 'elsewhere';
	cmp_ok($did{groups}, $how eq 'groups' ? '>' : '==', 0, "$name: groups of rows");
	cmp_ok($did{single}, $how eq 'groups' ? '<' : '>=', $how eq 'groups' ? $rows / 10 : $rows, "$name: single rows");
}

#
# What COPY can do
#
copies('text', 'groups');
sql('ALTER TABLE plain ALTER id SET DEFAULT snowflake_next()');
copies('the other name', 'groups');
sql('ALTER TABLE plain ALTER id SET DEFAULT snowflake_nextval()');
copies('CSV', 'groups', copy => "COPY plain (n) FROM '$file.txt' (FORMAT csv)");
copies('binary', 'groups', copy => "COPY plain (n) FROM '$file.binary' (FORMAT binary)");
copies('freeze', 'groups', before => 'BEGIN; TRUNCATE plain;', copy => "COPY plain (n) FROM '$file.txt' (FREEZE); COMMIT");
copies('from the client', 'groups', copy => "\\copy plain (n) from '$file.txt'");
copies('within a function', 'groups', copy => "DO \$\$ BEGIN EXECUTE \$c\$COPY plain (n) FROM '$file.txt'\$c\$; END \$\$");
copies('WHERE', 'groups', copy => "COPY plain (n) FROM PROGRAM 'cat $file.txt; seq 2000 3000' WHERE n <= $rows", copy_calls => 2 * $rows + 1);
copies('the word for the default among the values', 'groups',
	copy => "COPY plain FROM PROGRAM 'sed \"s/^/default,/\" $file.txt' (FORMAT csv, DEFAULT 'default')")
  if $version >= 160000;

is(run("TRUNCATE plain; COPY plain FROM PROGRAM 'sed \"s/.*/&,&/\" $file.txt' (FORMAT csv)"), '', 'keys are given');
is(sql('SELECT count(*), bool_and(id = n) FROM plain'), "$rows|t", 'they are as given');
is($did{copy} + $did{nextval}, 0, 'and nothing is drawn');

like(run("TRUNCATE plain; COPY plain (n) FROM '$file.bad'"), qr/invalid input syntax for type integer: "x"/, 'an error in the last row');
is(sql('SELECT count(*) FROM plain'), 0, 'no row is left');
is($did{copy}, $rows, 'though IDs were drawn');
is(run(<<"SQL"), '', 'an error, and again in the same transaction');
BEGIN;
DO \$\$ BEGIN EXECUTE \$c\$COPY plain (n) FROM '$file.bad'\$c\$; EXCEPTION WHEN invalid_text_representation THEN END \$\$;
COPY plain (n) FROM '$file.txt';
COMMIT;
SQL
is_filled('plain', 'after an error');

#
# Tables of all kinds
#
sql(<<'SQL');
CREATE TABLE two (id bigint DEFAULT snowflake_nextval(), second bigint DEFAULT snowflake_nextval() + 0, n integer);
CREATE TABLE random (LIKE plain INCLUDING ALL, r double precision DEFAULT random());
CREATE TABLE checked (LIKE plain INCLUDING ALL, CHECK (id < snowflake_nextval()), g bigint GENERATED ALWAYS AS (id % 1000) STORED);

CREATE TABLE parts (id bigint DEFAULT snowflake_nextval(), n integer, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (500);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
CREATE TABLE days (LIKE plain INCLUDING ALL) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('days', current_date - 1, current_date + 2, '1 day');

CREATE VIEW view AS SELECT * FROM plain;
ALTER VIEW view ALTER id SET DEFAULT snowflake_nextval();
CREATE FUNCTION insert_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO plain VALUES (NEW.id, NEW.n);
    RETURN NEW;
END $$;
CREATE TRIGGER insert_it INSTEAD OF INSERT ON view FOR EACH ROW EXECUTE FUNCTION insert_it();
SQL
sql("CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[$node->host]}', port '@{[$node->port]}', dbname 'postgres', batch_size '100');
	CREATE USER MAPPING FOR CURRENT_USER SERVER loop;
	CREATE FOREIGN TABLE remote (id bigint DEFAULT snowflake_nextval(), n integer) SERVER loop OPTIONS (table_name 'plain')");

my $both_columns = 'SELECT count(DISTINCT x) FROM two, unnest(ARRAY[id, second]) AS x';
copies('two columns', 'groups', table => 'two', copy_calls => 2 * $rows);
is(sql($both_columns), 2 * $rows, 'two columns: all IDs differ');
copies('beside random()', 'single', table => 'random');
copies('a CHECK with the function, and a generated column', 'groups', table => 'checked', other_calls => $rows);
is(sql('SELECT bool_and(g = id % 1000) FROM checked'), 't', 'the generated column has its value');
copies('WHERE with the function', 'groups', copy => "COPY plain (n) FROM '$file.txt' WHERE snowflake_nextval() > 0", copy_calls => 2 * $rows);
copies('partitions', 'groups', table => 'parts');
copies('partitions by ID', 'groups', table => 'days');
copies('a view', 'single', copy => "COPY view (n) FROM '$file.txt'");
copies('a foreign table', 'elsewhere', copy => "COPY remote (n) FROM '$file.txt'");

# The session has the condition of the domain from a COPY, and goes on with it.
sql('CREATE DOMAIN snowflake AS bigint CHECK (VALUE < snowflake_nextval());
	CREATE TABLE of_domain (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer)');
is(run("COPY of_domain (n) FROM '$file.txt'; TRUNCATE of_domain; INSERT INTO of_domain (n) SELECT n FROM other ORDER BY n"), '', 'a domain');
is_filled('of_domain', 'a domain, INSERT after COPY');

#
# What runs within COPY
#
sql(<<"SQL");
CREATE FUNCTION alter_other() RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    ALTER TABLE other DROP COLUMN id, ADD COLUMN id bigint DEFAULT snowflake_nextval();
END \$\$;
CREATE FUNCTION alters() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
    ALTER TABLE other DROP COLUMN id, ADD COLUMN id bigint DEFAULT snowflake_nextval();
    RETURN NEW;
END \$\$;
CREATE FUNCTION alters_once(n integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN IF n = 1 THEN PERFORM alter_other(); END IF; RETURN true; END';
CREATE FUNCTION alters_planned(n integer) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM alter_other(); RETURN true; END';
CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
    TRUNCATE two;
    COPY two (n) FROM '$file.txt';
    RETURN NEW;
END \$\$;
CREATE FUNCTION inserts() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
    DELETE FROM checked;
    INSERT INTO checked (id, n) SELECT n, n FROM other;
    RETURN NEW;
END \$\$;
CREATE FUNCTION draws() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM snowflake_nextval(); RETURN NEW; END';

-- an event trigger, by way of a table that a trigger of COPY makes
CREATE FUNCTION makes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN CREATE TABLE made (); DROP TABLE made; RETURN NEW; END';
CREATE FUNCTION on_event() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM alter_other(); END';
SQL

# A trigger on the table that COPY fills: when and for what, and its function.
sub with_trigger
{
	my ($name, $trigger, $function, $how, %with) = @_;

	sql("CREATE TRIGGER t $trigger EXECUTE FUNCTION $function()");
	copies($name, $how, %with);
	sql('DROP TRIGGER t ON plain');
}

my @moments = (
	[ 'before the statement', 'BEFORE INSERT ON plain FOR EACH STATEMENT' ],
	[ 'before a row', 'BEFORE INSERT ON plain FOR EACH ROW WHEN (NEW.n = 1)' ],
	[ 'after a row', 'AFTER INSERT ON plain FOR EACH ROW WHEN (NEW.n = 1)' ],
	[ 'after the statement', 'AFTER INSERT ON plain FOR EACH STATEMENT' ]);
my $altered = 'SELECT count(*), count(id), count(DISTINCT id) FROM other';

foreach my $moment (@moments)
{
	my ($when, $trigger) = @$moment;

	with_trigger("ALTER TABLE $when", $trigger, 'alters', 'elsewhere', other_calls => $rows);
	is(sql($altered), "$rows|$rows|$rows", "ALTER TABLE $when: an ID for each row");
	with_trigger("COPY $when", $trigger, 'copies', 'elsewhere', copy_calls => 3 * $rows);
	is(sql($both_columns), 2 * $rows, "COPY $when: an ID for each column and row");
	with_trigger("INSERT $when", $trigger, 'inserts', 'elsewhere', other_calls => $rows);
	with_trigger("snowflake_nextval() $when", $trigger, 'draws', $when eq 'before a row' ? 'single' : 'groups', other_calls => 1);
}
sql(q{CREATE EVENT TRIGGER e ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION on_event()});
with_trigger('an event trigger', $moments[0][1], 'makes', 'elsewhere', other_calls => $rows);
is(sql($altered), "$rows|$rows|$rows", 'an event trigger: an ID for each row');
sql('DROP EVENT TRIGGER e');

foreach my $call ('alters_once(n)', 'alters_planned(1)')
{
	is(run("TRUNCATE plain; COPY plain (n) FROM '$file.txt' WHERE $call"), '', "WHERE $call");
	is_filled('plain', "WHERE $call");
	is(sql($altered), "$rows|$rows|$rows", "WHERE $call: an ID for each row of the other table");
	is($did{copy} + $did{nextval}, 2 * $rows, "WHERE $call: that many were drawn");
}
sql('CREATE TABLE altering (LIKE plain INCLUDING ALL, a boolean DEFAULT alters_planned(1))');
is(run("COPY altering (n) FROM '$file.txt'"), '', 'a function in another default');
is_filled('altering', 'a function in another default');
is(sql($altered), "$rows|$rows|$rows", 'a function in another default: an ID for each row of the other table');

# After an error between the defaults and the first row.
is(run(<<"SQL"), '', 'an error that is caught');
CREATE DOMAIN later AS bigint CHECK (VALUE < snowflake_nextval());
DO \$\$
BEGIN
    BEGIN
        COPY plain (n) FROM '$file.missing';
    EXCEPTION WHEN undefined_file THEN
    END;
    DECLARE
        d later := 5;
    BEGIN
    END;
END \$\$;
SQL
is("$did{copy} $did{nextval}", '0 1', 'after it, what is prepared is not a default of COPY');

# Two sessions at once
run('TRUNCATE plain');
my @sessions = map { start_sql($node, "COPY plain (n) FROM PROGRAM 'seq 100000';") } 1 .. 2;
finish_sql($_) foreach @sessions;
is(sql('SELECT count(*), count(DISTINCT id) FROM plain'), '200000|200000', 'two sessions: each row has an ID of its own');

#
# Who may, and by name
#
sql('TRUNCATE plain; CREATE ROLE app; GRANT INSERT ON plain TO app');
my $by_app = "SET ROLE app;\n\\copy plain (n) from '$file.txt'";
is(run($by_app), '', 'another role');
cmp_ok($did{groups}, '>', 0, 'another role: in groups');
sql('REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC');
like(run($by_app), qr/permission denied for function snowflake_nextval/, 'without the right to draw');
sql('GRANT EXECUTE ON FUNCTION snowflake_nextval() TO app; REVOKE EXECUTE ON FUNCTION snowflake_copy_nextval(internal) FROM PUBLIC');
is(run("TRUNCATE plain;\n$by_app"), '', 'with it, but without the right to what COPY calls');
is("$did{groups} $did{nextval}", "0 $rows", 'then it calls the function itself');
sql('GRANT EXECUTE ON FUNCTION snowflake_copy_nextval(internal) TO PUBLIC');

# No SQL can give it what it wants: minor versions refuse it in words of their own.
foreach ('', '1', 'NULL', 'NULL::internal', '1::internal')
{
	my ($ours, $of_server) = map { (split /\n/, run("SELECT $_"))[0] } "snowflake_copy_nextval($_)", "boolrecv($_)";

	like($ours, qr/ERROR:  /, "by name: ($_)");
	is($ours, $of_server =~ s/\bboolrecv\b/snowflake_copy_nextval/r, 'as any function of the server that takes this type');
}

# A superuser can make it the end of an aggregate.
sql('CREATE AGGREGATE public.misuse(anynonarray) (SFUNC = array_agg_transfn, STYPE = internal, FINALFUNC = snowflake_copy_nextval)');
is_deeply(
	psql_error(run("\\set VERBOSITY verbose\nSELECT misuse(n) FROM other WHERE $_")),
	{ sqlstate => '0A000', message => 'snowflake_copy_nextval() can be called by COPY only', detail => '', hint => 'Call snowflake_nextval().' },
	"by an aggregate, with rows: $_")
  foreach qw(true false);
sql('DROP AGGREGATE misuse(anynonarray)');
is(sql("SELECT count(*) FROM pg_depend WHERE refobjid = 'snowflake_copy_nextval'::regproc AND deptype <> 'e'"), 0, 'nothing that is stored calls it');

$session->quit;
done_testing();
