# Installing the extensions changes the meaning of no query that ran before.
#
# Of each operator of the server, beside a column of each type, the other operand
# is left without a type, as a literal and as a parameter.  All these queries mean
# in a database with the extensions what they mean in one without: the same
# operator, the same types, or the same error.  Nor is anything else in the
# extensions that a query of others comes to use by itself: operators, casts, and
# functions and types with a name of the server's.
#
# At the end such things are put in, one after the other, and are found.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

my $node = snowflake_node('polite', "autovacuum = off\n");

# The queries, and what they mean in this database.
my $probe = <<'SQL';
SET client_min_messages = error;
CREATE SCHEMA probe;
CREATE TABLE probe.type AS
SELECT oid, typname FROM pg_type t
WHERE oid < 16384 AND (typtype IN ('r', 'm')
    OR typtype = 'b' AND EXISTS (SELECT FROM pg_operator o WHERE o.oid < 16384 AND t.oid IN (oprleft, oprright))
    OR typname IN ('varchar', '_bool', '_int2', '_int4', '_int8', '_float8', '_numeric', '_text', '_varchar', '_date', '_timestamptz',
                   '_uuid', '_inet', '_jsonb', '_tstzrange', '_int8range', '_point'));
DO $$ BEGIN
    EXECUTE (SELECT format('CREATE TABLE probe.operand (%s)', string_agg(format('%1$I pg_catalog.%1$I', typname), ', ' ORDER BY oid)) FROM probe.type);
END $$;

-- $1 is the operand without a type
CREATE TABLE probe.query AS
WITH op (op) AS (SELECT DISTINCT oprname FROM pg_operator WHERE oid < 16384)
SELECT row_number() OVER (ORDER BY op, expression) AS n, expression
FROM (SELECT op, format(form, op, typname) FROM op, probe.type, unnest('{"$1 %1$s %2$I","%2$I %1$s $1"}'::text[]) AS form
      UNION ALL SELECT op, format(form, op) FROM op, unnest('{"$1 %s $2","%s $1"}'::text[]) AS form) AS q (op, expression);

-- as parameter: the type that it gets, or the error
CREATE FUNCTION probe.parameter(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    meaning text;
BEGIN
    EXECUTE 'PREPARE probe AS SELECT ' || expression || ' FROM probe.operand';
    SELECT parameter_types::text INTO meaning FROM pg_prepared_statements WHERE name = 'probe';
    DEALLOCATE probe;
    RETURN meaning;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS meaning = RETURNED_SQLSTATE;
    RETURN 'error ' || meaning;
END $$;

-- As literal: a view, in which all types, and operators of others than the
-- server, are written out.  NULL is to the parser as any literal, but no type
-- has to read it.
CREATE FUNCTION probe.literals(ns bigint[]) RETURNS TABLE (n bigint, meaning text) LANGUAGE plpgsql AS $$
DECLARE
    path text = current_setting('search_path');
BEGIN
    FOR i IN 1 .. cardinality(ns) BY 500 LOOP
        EXECUTE (SELECT format('CREATE VIEW probe.view AS SELECT %s FROM probe.operand',
                               string_agg(format('%s AS "%s"', regexp_replace(q.expression, '\$\d', 'NULL', 'g'), q.n), ', ' ORDER BY q.n))
                 FROM probe.query q WHERE q.n = ANY (ns[i : i + 499]));
        SET LOCAL search_path = probe;
        RETURN QUERY SELECT m[2]::bigint, m[1] FROM regexp_matches(pg_get_viewdef('probe.view', true), '^ *(?:SELECT )?(.*) AS "(\d+)",?$', 'gn') m;
        PERFORM set_config('search_path', path, true);
        DROP VIEW probe.view;
    END LOOP;
END $$;

CREATE FUNCTION probe.meanings(ns bigint[]) RETURNS TABLE (n bigint, expression text, parameter text, literal text) LANGUAGE sql AS $$
    WITH p AS MATERIALIZED (SELECT q.n, q.expression, probe.parameter(q.expression) AS parameter FROM probe.query q WHERE q.n = ANY (ns))
    SELECT p.*, l.meaning
    FROM p LEFT JOIN probe.literals((SELECT array_agg(p.n) FROM p WHERE p.parameter !~ '^error')) AS l ON l.n = p.n
    ORDER BY p.n
$$;
SQL

# What the extensions have that others' queries may come to use by themselves.
my $rude = <<'SQL';
SELECT e.extname || ': ' || pg_describe_object(classid, objid, 0)
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
LEFT JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
WHERE e.extname ~ '^snowflake' AND d.deptype = 'e' AND (
    coalesce(p.oid, c.oid, t.oid) IS NULL AND d.classid <> 'pg_namespace'::regclass
    OR EXISTS (SELECT FROM pg_proc AS o WHERE o.oid < 16384 AND o.proname = p.proname)
    OR EXISTS (SELECT FROM pg_class AS o WHERE o.oid < 16384 AND o.relname IN (c.relname, t.typname))
    OR EXISTS (SELECT FROM pg_type AS o WHERE o.oid < 16384 AND o.typname IN (c.relname, t.typname)))
SQL

# What the queries mean after some statements, which are undone: n => text.
sub meanings
{
	my ($dbname, $ns, @statements) = @_;
	my $sql = join '', map { "$_;\n" } 'BEGIN', @statements, "SELECT concat_ws(E'\t', n, expression, parameter, coalesce(literal, '')) FROM probe.meanings($ns)", 'ROLLBACK';

	return { map { split /\t/, $_, 2 } split /\n/, $node->safe_psql($dbname, $sql) };
}
sub differences
{
	my ($before, $after) = @_;

	return [ map { "$before->{$_} => " . ($after->{$_} // '') } grep { $before->{$_} ne ($after->{$_} // '') } sort { $a <=> $b } keys %$before ];
}

$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'plain', 'extended';
$node->safe_psql('extended', join ';', map { "CREATE EXTENSION $_" } qw(snowflake snowflake_registry));
$node->safe_psql($_, $probe) foreach 'plain', 'extended';

my $all = '(SELECT array_agg(n) FROM probe.query)';
my $before = meanings('plain', $all);
my @ran = grep { $before->{$_} !~ /\terror \w+\t$/ } keys %$before;
cmp_ok(scalar(@ran), '>', 1500, 'queries that run, in a database without the extensions');
is(scalar(grep { $before->{$_} =~ /\t$/ } @ran), 0, 'each as a literal too');
is_deeply(differences($before, meanings('extended', $all)), [], 'all mean the same in a database with them');

# the first ID takes a home
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_home'"), '1', 'the server has a home');
foreach my $dbname (qw(extended postgres))
{
	is($node->safe_psql($dbname, $rude), '', "nothing is in the extensions that others' queries use: $dbname");
}

# What must be found
my $ran = "'{@{[ join ',', @ran ]}}'";
my $function = 'CREATE FUNCTION public.rude(bigint, tstzrange) RETURNS boolean LANGUAGE sql AS \'SELECT true\'';
foreach my $put (
	[ 'an operator', 'OPERATOR public.<@ (bigint, tstzrange)', qr/^\$1 <@ tstzrange\t\{tstzrange\}\t.* => .*\t\{bigint\}\t/,
		$function, 'CREATE OPERATOR public.<@ (LEFTARG = bigint, RIGHTARG = tstzrange, FUNCTION = public.rude)' ],
	[ 'its commutator', 'OPERATOR public.@> (tstzrange, bigint)', qr/^tstzrange @> \$1\t.* => .*\t\{bigint\}\t/,
		$function =~ s/bigint, tstzrange/tstzrange, bigint/r, 'CREATE OPERATOR public.@> (LEFTARG = tstzrange, RIGHTARG = bigint, FUNCTION = public.rude)' ],
	[ 'a cast', 'CAST (text AS bigint)', undef, 'CREATE CAST (text AS bigint) WITH INOUT AS IMPLICIT' ],
	[ 'a function with a name of the server', 'FUNCTION public.lower(bigint)', undef,
		$function =~ s/rude\(.*?\)/lower(bigint)/r ],
	[ 'a table with a name of the server', 'TABLE public.pg_class', undef, 'CREATE TABLE public.pg_class ()' ])
{
	my ($what, $object, $difference, @statements) = @{$put};

	isnt($node->safe_psql('extended', join(";\n", 'BEGIN', @statements, "ALTER EXTENSION snowflake ADD $object", $rude)), '', "$what is found: $object");
	next unless $difference;
	my $differences = differences({ map { $_ => $before->{$_} } @ran }, meanings('extended', $ran, @statements));
	ok((grep { /$difference/ } @$differences) > 0, "$what changes what queries mean: $object") or diag(join "\n", @$differences);
}


# Where somebody has a function of a name, calls of it mean what they meant.
foreach my $theirs ('id_range_for(timestamp)', 'snowflake_nextval(regclass)')
{
	$node->safe_psql('postgres', 'CREATE DATABASE taken');
	$node->safe_psql('taken', "CREATE FUNCTION $theirs RETURNS text LANGUAGE sql AS \$\$SELECT 'theirs'\$\$; CREATE SEQUENCE s");
	my (undef, undef, $stderr) = $node->psql('taken', "\\set VERBOSITY verbose\nCREATE EXTENSION snowflake");
	my $error = psql_error($stderr);
	is($error->{sqlstate}, '42723', "$theirs of somebody's: refused");
	like($error->{hint}, qr/^Rename that function, or create the extension in another schema/, 'and why');
	$node->safe_psql('taken', 'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext');
	is($node->safe_psql('taken', "SELECT id_range_for('2025-06-01')"), 'theirs', 'in another schema: it means the same') if $theirs =~ /^id/;
	$node->safe_psql('postgres', 'DROP DATABASE taken');
}

$node->stop;
done_testing();
