# What others put in the way, and who may do what.
#
# In the schema "hostile" somebody has made operators, functions, domains, and
# views of the names that the extensions use, for all types that they use them
# with.  Each says so in the server's log when it runs.  The extensions are
# created there, and all that is in them is run by a superuser whose search path
# begins there: nothing of that somebody's may run, nor be what ours is made of.
#
# Each function has its line in the lists below, by which it is called, and
# which say who may.  One that has none fails the test.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

#
# What is expected
#

# For everybody
my %open = (
	'snowflake_nextval()' => [],
	'snowflake_next()' => [],
	'snowflake_nextval(bigint)' => [ 3 ],
	'snowflake_currval()' => [],
	'snowflake_compose(timestamp with time zone,bigint,bigint,bigint)' => [ '2024-05-01 10:00+00', 1, 2, 3 ],
	'snowflake_id(timestamp with time zone,bigint)' => [ '2024-05-01 10:00+00', 17 ],
	'snowflake_parse(bigint)' => [ '152075078181383514' ],
	'snowflake_parse(bigint,text)' => [ '152075078181383514', 'twitter' ],
	'snowflake_parse(bigint,text,timestamp with time zone)' => [ '152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00' ],
	'snowflake_explain(bigint)' => [ '152075078181383514' ],
	'snowflake_explain(bigint,text)' => [ '152075078181383514', 'twitter' ],
	'snowflake_explain(bigint,text,timestamp with time zone)' => [ '152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00' ],
	'snowflake_horizon()' => [],
	'snowflake_dialects()' => [],
	'snowflake_timestamp(bigint)' => [ '152075078181383514' ],
	'snowflake_timestamp(bigint,text,timestamp with time zone)' => [ '152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00' ],
	'id_range_for(timestamp with time zone)' => [ '2024-05-01 10:00+00' ],
	'id_range_for(timestamp with time zone,timestamp with time zone)' => [ '2024-05-01 10:00+00', '2024-05-01 11:00+00' ],
	'id_range_for(date)' => [ '2024-05-01' ],
	'id_range_for(text)' => [ '2024-05-01' ],
	'snowflake_first_id(tstzrange)' => [ '[2024-05-01 10:00+00,2024-05-01 11:00+00)' ],
	'snowflake_first_id(timestamp with time zone,timestamp with time zone)' => [ '2024-05-01 10:00+00', '2024-05-01 11:00+00' ],
	'snowflake_last_id(tstzrange)' => [ '[2024-05-01 10:00+00,2024-05-01 11:00+00)' ],
	'snowflake_last_id(timestamp with time zone,timestamp with time zone)' => [ '2024-05-01 10:00+00', '2024-05-01 11:00+00' ],
	'snowflake_in(bigint,tstzrange)' => [ '152075078181383514', '[2024-05-01 10:00+00,2024-05-01 11:00+00)' ],
	'snowflake_in(bigint,timestamp with time zone,timestamp with time zone)' => [ '152075078181383514', '2024-05-01 10:00+00', '2024-05-01 11:00+00' ],
	'snowflake_encode(bigint,text)' => [ '152075078181383514', 'base32' ],
	'snowflake_decode(text,text)' => [ '04727F9B31VAT', 'base32' ],
	'snowflake_key(text,bigint)' => [ 'order', 42 ],
	'snowflake_key(text,text)' => [ 'order', 'abc' ],
	'snowflake_key(text,bigint,bigint)' => [ 'order', 42, '152075078181383514' ],
	'snowflake_key(text,text,bigint)' => [ 'order', 'abc', '152075078181383514' ],
	'snowflake_key_parse(text)' => [ 'OR000000012402261230103350100002' ],
	'snowflake_key_formats()' => [],
	'snowflake_route(bigint,bigint,bigint)' => [ 42, 2, 2 ],
	'snowflake_route(text,bigint,bigint,text)' => [ 'abc', 2, 2, 'hash' ],
	'snowflake_create_partitions(regclass,timestamp with time zone,timestamp with time zone,interval,text)' => [ 'tables.log', '2024-05-01 00:00+00', '2024-05-04 00:00+00', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,text,text,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,text,timestamp with time zone,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,timestamp with time zone,text,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,timestamp without time zone,timestamp without time zone,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,date,date,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,text,date,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,date,text,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,text,timestamp without time zone,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_create_partitions(regclass,timestamp without time zone,text,interval,text)' => [ 'tables.log', '2024-05-01', '2024-05-04', '1 day', 'UTC' ],
	'snowflake_catalog.lock_table(regclass,integer)' => [ 'tables.log', 4 ],
	'snowflake_catalog.require_change(text)' => [ 'this' ],
	'snowflake_catalog.require_layout()' => [],
	'snowflake_catalog.table_name(oid)' => [ 1259 ],
	'snowflake_catalog.bound_at(timestamp with time zone)' => [ '2024-05-01 10:00+00' ],
	'snowflake_catalog.bound_time(numeric)' => [ '152075078181383514' ],
	'snowflake_catalog.bound_text(numeric,boolean)' => [ '152075078181383514', 'true' ],
	'snowflake_catalog.partitions(oid)' => [ 1259 ],
	'snowflake_catalog.require_partitioned(regclass)' => [ 'tables.log' ],
	'snowflake_catalog.start_of(text,timestamp with time zone,text)' => [ 'day', '2024-05-01 10:00+00', 'UTC' ],
	'snowflake_catalog.require_midnights(regclass,timestamp with time zone,timestamp with time zone,text)' => [ 'tables.log', '2024-05-01 00:00+00', '2024-05-04 00:00+00', 'UTC' ],
	'snowflake_catalog.instant(text,text)' => [ 'today', 'UTC' ],
	'snowflake_catalog.layout()' => [],
	'snowflake_catalog.id_range(timestamp with time zone,timestamp with time zone)' => [ '2024-05-01 10:00+00', '2024-05-01 11:00+00' ],
	'snowflake_catalog.time_of(bigint)' => [ '152075078181383514' ],
	'snowflake_catalog.time_of(bigint,text,timestamp with time zone)' => [ '152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00' ],
	'snowflake_catalog.compose(timestamp with time zone,bigint,bigint,bigint)' => [ '2024-05-01 10:00+00', 1, 2, 3 ],
	'snowflake_catalog.encoded(bigint,text)' => [ '152075078181383514', 'base32' ],
	'snowflake_catalog.functions()' => [],
	'snowflake_catalog.check_extension(text)' => [ '1.0' ],
	'snowflake_catalog.check_other_extension(text)' => [ '1.0' ],
	'snowflake_catalog.check_partitions(bigint)' => [ '152075078181383514' ],
	'snowflake_catalog.check_replication(text,boolean,text)' => [ 'victim', 'false', 'so' ],
	'snowflake_catalog.drawing_columns()' => [],
	'snowflake_catalog.explain(bigint,text,timestamp with time zone,text,boolean,bigint)' => [ '152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00', undef, 'false', undef ],
	'snowflake_partitions(regclass,boolean)' => [ 'tables.log', 'true' ],
	'snowflake_drop_partitions(regclass,timestamp with time zone,boolean,boolean)' => [ 'tables.log', '2024-05-02 00:00+00' ],
	'snowflake_layout()' => [],
	'snowflake_check()' => [],
	'snowflake_can_draw()' => [],
	'pg_stat_get_snowflake()' => [],
	'pg_stat_get_snowflake_slots()' => [],
	'pg_stat_get_snowflake_segments()' => [],
	'snowflake_convert(regclass,name,boolean,text,boolean)' => [ 'tables.customer', 'id', 'false' ],
	'snowflake_catalog.convert_above(oid,name,bigint[])' => [ 1, 'id', '{1}' ],
	'snowflake_catalog.convert_below(oid,name,bigint[])' => [ 1, 'id', '{1}' ],
	'snowflake_catalog.convert_blockers(snowflake_catalog.convert_member[])' => [ '{}' ],
	'snowflake_catalog.convert_checks(snowflake_catalog.convert_column)' => [ undef ],
	'snowflake_catalog.convert_column(oid,name,boolean)' => [ undef, 'id', 'false' ],
	'snowflake_catalog.convert_members(oid,smallint,oid[],boolean)' => [ 1, 1, '{1}', 'false' ],
	'snowflake_catalog.convert_plan(oid,name,boolean,boolean,boolean)' => [ undef, 'id', 'false', 'false', 'true' ],
	'snowflake_catalog.convert_raise(snowflake_catalog.convert_row[])' => [ '{}' ],
	'snowflake_catalog.convert_refusals(snowflake_catalog.convert_column,boolean)' => [ undef, 'false' ],
	'snowflake_catalog.convert_route(oid,name,bigint[],oid)' => [ 1, 'id', '{1}', undef ],
	'snowflake_catalog.convert_sequence(snowflake_catalog.convert_column,bigint)' => [ undef, 1 ],
	'snowflake_catalog.descendants(oid)' => [ 1 ],
	'snowflake_catalog.domains(oid)' => [ 23 ],
	'snowflake_catalog.drawing(bigint)' => [ 1 ],
	'snowflake_catalog.is_immutable(pg_node_tree)' => [ undef ],
	'snowflake_catalog.is_locked(oid)' => [ 1259 ],
	'snowflake_catalog.partition_key(oid)' => [ 1 ],
	'snowflake_catalog.raise_mark(bigint)' => [ 1 ],
	'snowflake_catalog.require_change(text)' => [ 'this' ],
	'snowflake_catalog.table_name(oid)' => [ 1259 ],
	'snowflake_catalog.show(timestamp with time zone)' => [ '2024-05-01 10:00+00' ],
	'snowflake_catalog.table_size(oid)' => [ 1 ],
);

# For the owner of the extension, and whom the owner lets
my $asks = '(1,aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa,,,,,i,9,00:10:00,0,"2024-05-01 10:00+00",,layout,host,1,1,,,t)';
my $here = '(here,1,-infinity,"2024-05-01 09:00+00","2024-05-01 09:00+00","2024-05-01 10:01+00",t,f,01:00:00)';
my $takes = '(1,"{invoice,ticket}","{null,null}","{0,0}","{1,1}",00:01:00,aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa,1,here)';
my $reported = '(aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa,1,"2024-05-01 09:00+00",00:01:00,"2024-05-01 08:00+00")';
my %closed = (
	'snowflake_backfill(timestamp with time zone)' => [ '2024-05-01 10:00+00' ],
	'snowflake_segment_create(text,bigint,bigint,bigint,bigint,bigint,text)' => [ 'ticket' ],
	'snowflake_segment_nextval(text)' => [ 'ticket' ],
	'snowflake_segment_next(text)' => [ 'ticket' ],
	'snowflake_segment_nextval(text,bigint)' => [ 'ticket', 3 ],
	'snowflake_segment_alter(text,bigint,bigint,bigint,text)' => [ 'ticket', 500 ],
	'snowflake_segment_drop(text,boolean)' => [ 'ticket' ],
	'snowflake_key_format_create(text,text,integer,integer,integer,text,text,integer,integer,integer,integer,integer)' => [ 'new', 'NW', 2, 2, 1, 'Asia/Tokyo', 'codes', 2, 4, 2, 2, 5 ],
	'snowflake_key_format_rename(text,text)' => [ 'new', 'other' ],
	'snowflake_key_format_drop(text)' => [ 'other' ],
	'snowflake_advance(bigint,boolean)' => [ '152075078181383514', 'false' ],
	'snowflake_accept_layout()' => [],
	'snowflake_confirm_node()' => [],
	'snowflake_forget_registry()' => [],
	'pg_stat_snowflake_reset()' => [],
);

# Likewise, in a registry
my %served = (
	'snowflake_registry_site()' => [],
	'snowflake_registry_here()' => [],
	'snowflake_registry_durable()' => [],
	'snowflake_registry_exact(interval)' => [ '1 min' ],
	'snowflake_registry_admit(integer,interval)' => [ 1, '1 min' ],
	'snowflake_registry_longest(timestamp with time zone,interval,boolean)' => [ '2024-05-01 10:00+00', '1 min', 'true' ],
	'snowflake_registry_awaited(snowflake_registry_place,uuid)' => [ $here, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa' ],
	'snowflake_registry_arrive(timestamp with time zone,text,timestamp with time zone,interval,snowflake_registry_place)' => [ '2024-05-01 10:00+00', 'here', '2024-05-01 09:00+00', '1 min', undef ],
	'snowflake_registry_compare(timestamp with time zone,snowflake_registry_place,uuid,interval,bigint,boolean,boolean)' => [ '2024-05-01 10:00+00', $here, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', '1 min', 1, 'true', 'true' ],
	'snowflake_registry_open(timestamp with time zone,text,timestamp with time zone,boolean)' => [ '2024-05-01 10:00+00', 'here', '2024-05-01 09:00+00', undef ],
	'snowflake_open_registry(boolean)' => [ undef ],
	'snowflake_nodes_fault(snowflake_node_request,bigint,bigint)' => [ $asks, 1, undef ],
	'snowflake_nodes_limit(timestamp with time zone)' => [ '2024-05-01 10:00+00' ],
	'snowflake_nodes_peers(timestamp with time zone,uuid,integer)' => [ '2024-05-01 10:00+00', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', 9 ],
	'snowflake_nodes_conflicts(timestamp with time zone,snowflake_node_request,snowflake_node_lease)' => [ '2024-05-01 10:00+00', $asks, undef ],
	'snowflake_nodes_own(snowflake_node_request)' => [ $asks ],
	'snowflake_nodes_stranger(timestamp with time zone,snowflake_node_request,text)' => [ '2024-05-01 10:00+00', $asks, 'asks' ],
	'snowflake_nodes_claim(timestamp with time zone,snowflake_node_request,snowflake_registry_place)' => [ '2024-05-01 10:00+00', $asks, $here ],
	'snowflake_nodes_holders(timestamp with time zone,snowflake_node_request,boolean)' => [ '2024-05-01 10:00+00', $asks, 'true' ],
	'snowflake_nodes_refuse(timestamp with time zone,snowflake_node_request,snowflake_registry_place,snowflake_node_lease)' => [ '2024-05-01 10:00+00', $asks, $here, undef ],
	'snowflake_nodes_serve(timestamp with time zone,text,timestamp with time zone,snowflake_node_request)' => [ '2024-05-01 10:00+00', 'here', '2024-05-01 09:00+00', $asks ],
	'snowflake_nodes_release(timestamp with time zone,integer,timestamp with time zone)' => [ '2024-05-01 10:00+00', 31, '2024-05-01 10:00+00' ],
	'snowflake_lease_node(integer,uuid,integer,integer,uuid,interval,text,integer,interval,bigint,timestamp with time zone,interval,text,text,integer,bigint,bigint,bigint,boolean)' => [ 1, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', undef, undef, undef, undef, 'i', 9, '10 min', 0, '2024-05-01 10:00+00', undef, 'layout', 'host', 1, 1, undef, undef, 'true' ],
	'snowflake_release_node(integer,timestamp with time zone)' => [ 0, '2024-05-01 10:00+00' ],
	'snowflake_segments_stay(text,timestamp with time zone)' => [ 'here', '2024-05-01 09:00+00' ],
	'snowflake_create_tag(text,bigint,integer,integer,integer,bigint,text)' => [ 'invoice', 1, 10, 1, 0, undef, undef ],
	'snowflake_alter_tag(text,bigint,integer,bigint,text)' => [ 'invoice', 100, 20, 1000, 'bills' ],
	'snowflake_drop_tag(text,boolean)' => [ 'invoice', 'false' ],
	'snowflake_segments_valid(snowflake_segment_request,snowflake_segment_server)' => [ $takes, $reported ],
	'snowflake_segments_due(snowflake_segment_request)' => [ $takes ],
	'snowflake_segments_give(timestamp with time zone,snowflake_segment_request,integer,boolean)' => [ '2024-05-01 10:00+00', $takes, 1, 'true' ],
	'snowflake_segments_report(timestamp with time zone,snowflake_segment_request,snowflake_segment_server,boolean,snowflake_registry_place)' => [ '2024-05-01 10:00+00', $takes, $reported, 'true', $here ],
	'snowflake_segments_serve(timestamp with time zone,text,timestamp with time zone,snowflake_segment_request)' => [ '2024-05-01 10:00+00', 'here', '2024-05-01 09:00+00', $takes ],
	'snowflake_take_segments(integer,text[],uuid[],bigint[],bigint[],interval,uuid,bigint,text)' => [ 1, '{invoice,ticket}', '{null,null}', '{0,0}', '{1,1}', '1 min', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', 1, 'here' ],
);

# Not to be called: triggers, what the planner asks, and what it puts in
my %uncalled = (
	'snowflake_catalog.refuse(text,text,text,text)' => 'open',
	'snowflake_catalog.check_key_format()' => 'closed',
	'snowflake_catalog.refuse_truncate()' => 'closed',
	'snowflake_catalog.restore_mark()' => 'closed',
	'snowflake_catalog.keep_mark()' => 'closed',
	'snowflake_catalog.lock_key_format(text)' => 'closed',
	'snowflake_catalog.require_key_format(text)' => 'closed',
	'snowflake_catalog.write_key_format(text,snowflake_catalog.key_formats)' => 'closed',
	'snowflake_home.discard()' => 'closed',
	'snowflake_settings_support(internal)' => 'open',
	'snowflake_copy_support(internal)' => 'open',
	'snowflake_copy_nextval(internal)' => 'open',
	'snowflake_in_support(internal)' => 'open',
	'snowflake_horizon_support(internal)' => 'open',
);

# With the rights of the extension's owner: the tables are not for the callers.
my @definers = qw(
  snowflake_alter_tag snowflake_create_tag snowflake_drop_tag
  snowflake_key_format_create snowflake_key_format_drop snowflake_key_format_rename
  snowflake_lease_node snowflake_open_registry snowflake_release_node snowflake_take_segments);

my @extensions = qw(snowflake snowflake_home snowflake_registry);

# All members of ours, as (extname, classid, objid).
my $members = <<'SQL';
SELECT e.extname, d.classid, d.objid
FROM pg_extension e
JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
WHERE e.extname ~ '^snowflake'
SQL

#
# The words that the extensions use, where they are names of the server's
#
my %words;
foreach my $file (glob('install/*.sql'), glob('src/*.c'))
{
	my $text = slurp_file($file);

	# of C, what is in quotes: SQL is somewhere there
	$text = join ' ', $text =~ /"((?:[^"\\\n]|\\.)*)"/g if $file =~ /\.c$/;
	$words{ lc $_ }++ foreach $text =~ /\b([A-Za-z_]\w*)\b/g;
}
cmp_ok(scalar(keys %words), '>', 1000, 'words are found') or die 'where are the sources?';

#
# What somebody makes
#
my $operators = "'{=,<>,<,<=,>,>=,+,-,*,/,%,||,~,!~,~~,!~~,<@,@>,&&,->}'";
my $types = "'{bool,int2,int4,int8,numeric,float8,text,name,oid,regclass,uuid,inet,interval,timestamptz,"
  . "tstzrange,int8range,_text,_name,_int8,_int2,_uuid,_oid,_aclitem}'";

# A body that says in the log that it ran, and fails.
sub attack
{
	my ($what) = @_;

	return "'BEGIN RAISE LOG ''HOSTILE: ' || $what || '''; RAISE ''HOSTILE: ' || $what || '''; END'";
}

my $hostile = <<'SQL' . <<"SQL";
CREATE ROLE somebody LOGIN;
CREATE ROLE server LOGIN;
CREATE SCHEMA hostile AUTHORIZATION somebody;
GRANT USAGE, CREATE ON SCHEMA hostile TO PUBLIC;
SET ROLE somebody;
SQL
SET search_path = pg_catalog;
CREATE FUNCTION hostile.fire(what pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql AS
'BEGIN RAISE LOG ''HOSTILE: %'', what; RAISE ''HOSTILE: %'', what; END';

DO \$do\$
DECLARE
    words text[] := '{@{[ join ',', sort keys %words ]}}';
    statement text;
BEGIN
    -- operators, of all pairs of types
    FOR statement IN
        SELECT format('CREATE FUNCTION hostile.%s(pg_catalog.%I, pg_catalog.%I) RETURNS pg_catalog.%I LANGUAGE plpgsql AS %L',
            'op_' || kind, a, b, CASE kind WHEN 'test' THEN 'bool' ELSE a END, @{[ attack("format('operator (%s, %s)', a, b)") ]})
        FROM unnest($types\::text[]) a, unnest($types\::text[]) b, unnest('{test,math}'::text[]) kind
        UNION ALL
        SELECT format('CREATE OPERATOR hostile.%s (LEFTARG = pg_catalog.%I, RIGHTARG = pg_catalog.%I, FUNCTION = hostile.%s)',
            op, a, b, 'op_' || CASE WHEN op IN ('+', '-', '*', '/', '%', '||') THEN 'math' ELSE 'test' END)
        FROM unnest($types\::text[]) a, unnest($types\::text[]) b, unnest($operators\::text[]) op
    LOOP
        EXECUTE statement;
    END LOOP;

    -- functions of the server: with the arguments that they have, with any one or
    -- two, and with any number of texts
    FOR statement IN
        WITH name (name) AS (
            SELECT DISTINCT proname FROM pg_proc
            WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (words)
        ), signature (name, args, result) AS (
            SELECT p.proname,
                coalesce((SELECT string_agg(format('%I.%I', 'pg_catalog', t.typname), ', ' ORDER BY a.n)
                 FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n) JOIN pg_type t ON t.oid = a.type), ''),
                format('%I.%I', 'pg_catalog', r.typname)
            FROM pg_proc p JOIN pg_type r ON r.oid = p.prorettype JOIN name ON name.name = p.proname
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND r.typtype <> 'p'
              AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (p.proargtypes) AND t.typtype = 'p')
            UNION ALL
            SELECT name, format('pg_catalog.%I', a), 'pg_catalog.text' FROM name, unnest($types\::text[]) a
            UNION ALL
            SELECT name, format('pg_catalog.%I, pg_catalog.%I', a, b), 'pg_catalog.text'
            FROM name, unnest($types\::text[]) a, unnest(ARRAY[a, 'int4', 'text']) b
            UNION ALL
            SELECT name, args, 'pg_catalog.text' FROM name,
                unnest('{"VARIADIC pg_catalog._text","pg_catalog.text, VARIADIC pg_catalog._text"}'::text[]) args
        )
        SELECT format('CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
            name, args, min(result), @{[ attack("format('function %s(%s)', name, args)") ]})
        FROM signature GROUP BY name, args
    LOOP
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN duplicate_function THEN
        END;
    END LOOP;

    -- domains and views
    FOR statement IN
        SELECT format('CREATE DOMAIN hostile.%I AS pg_catalog.%I CHECK (hostile.fire(%L))', typname, typname, 'type ' || typname)
        FROM pg_type
        WHERE typnamespace = 'pg_catalog'::regnamespace AND typname = ANY (words) AND typtype IN ('b', 'r') AND typelem = 0
    LOOP
        EXECUTE statement;
    END LOOP;
    FOR statement IN
        SELECT format('CREATE VIEW hostile.%I AS SELECT %s FROM pg_catalog.%I WHERE hostile.fire(%L)', relname,
            (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
             WHERE attrelid = c.oid AND attnum > 0 AND t.typtype <> 'p'), relname, 'relation ' || relname)
        FROM pg_class c
        WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND relname = ANY (words)
    LOOP
        EXECUTE statement;
    END LOOP;

    -- functions of ours, with a text in place of an argument, or of all
    FOR statement IN
        WITH ours (name, types) AS (
            SELECT * FROM jsonb_to_recordset('\@ours\@') AS o (name text, types text[])
        ), other (name, types) AS (
            SELECT DISTINCT name, ARRAY(SELECT CASE WHEN k IN (0, n) THEN 'text' ELSE type END
                                        FROM unnest(types) WITH ORDINALITY a (type, n) ORDER BY n)
            FROM ours, generate_series(0, cardinality(types)) k
        )
        SELECT format('CREATE FUNCTION hostile.%I(%s) RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', name,
            'pg_catalog.' || array_to_string(types, ', pg_catalog.'), @{[ attack("'function ' || name") ]})
        FROM (SELECT * FROM other EXCEPT SELECT * FROM ours) o
    LOOP
        EXECUTE statement;
    END LOOP;
END \$do\$;
SQL

# What is in the log since the last time.
my $log_at = 0;

sub ran
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile, $log_at);
	my %ran;

	$log_at = -s $node->logfile;
	$ran{$_}++ foreach $log =~ /LOG:  HOSTILE: (.*)/g;
	return join "\n", sort keys %ran;
}

sub error_of
{
	my ($node, $dbname, $sql, %opts) = @_;
	my (undef, undef, $stderr) = $node->psql($dbname, "\\set VERBOSITY verbose\n$sql", %opts);

	return psql_error($stderr);
}

# What snowflake_check() says to a role.
sub seen_by
{
	my ($node, $role, $check) = @_;

	return $node->safe_psql('postgres', qq(SELECT status, detail FROM snowflake_check() WHERE name = '$check'), extra_params => [ '-U', $role ]);
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
snowflake.database = 'victim'
snowflake.max_wait = '1min'
max_locks_per_transaction = 256
autovacuum = off
log_statement = none
fsync = off
CONF
$node->start;

#
# Who may do what
#
$node->safe_psql('postgres', "CREATE EXTENSION $_") foreach @extensions;

is($node->safe_psql('postgres', <<SQL), join("\n", map { "$_|open" } sort(keys %open, grep { $uncalled{$_} eq 'open' } keys %uncalled)), 'functions that everybody may call');
SELECT p.oid::regprocedure || '|open' FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE has_function_privilege(0, p.oid, 'EXECUTE') ORDER BY p.oid::regprocedure::text COLLATE "C"
SQL
is($node->safe_psql('postgres', <<SQL), join("\n", sort(keys %closed, keys %served, grep { $uncalled{$_} eq 'closed' } keys %uncalled)), 'functions that only the owner of the extension may');
SELECT p.oid::regprocedure FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE NOT has_function_privilege(0, p.oid, 'EXECUTE')
  AND NOT EXISTS (SELECT FROM aclexplode(p.proacl) WHERE grantee <> p.proowner)
ORDER BY p.oid::regprocedure::text COLLATE "C"
SQL
is($node->safe_psql('postgres', <<SQL), <<'EXPECTED' =~ s/\n\z//r, 'rights to tables, views and sequences');
SELECT m.extname, c.relname, c.relkind,
    string_agg(CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END || ' ' || a.privilege_type, ', '
               ORDER BY a.grantee, a.privilege_type) FILTER (WHERE a.grantee <> c.relowner)
FROM ($members) m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
LEFT JOIN LATERAL aclexplode(c.relacl) a ON true
GROUP BY 1, 2, 3 ORDER BY 1, 2
SQL
snowflake|dumped_mark|r|PUBLIC INSERT, PUBLIC SELECT
snowflake|key_formats|r|PUBLIC SELECT
snowflake|pg_stat_snowflake|v|PUBLIC SELECT
snowflake|pg_stat_snowflake_segments|v|PUBLIC SELECT
snowflake|pg_stat_snowflake_slots|v|PUBLIC SELECT
snowflake_home|backfill|r|
snowflake_home|lease|r|
snowflake_home|mark|S|
snowflake_home|recorded|r|
snowflake_registry|snowflake_node_counts|v|pg_monitor SELECT
snowflake_registry|snowflake_node_lease|r|
snowflake_registry|snowflake_node_warning|r|
snowflake_registry|snowflake_nodes|v|pg_monitor SELECT
snowflake_registry|snowflake_registry|v|pg_monitor SELECT
snowflake_registry|snowflake_registry_place|r|
snowflake_registry|snowflake_registry_told|v|
snowflake_registry|snowflake_segment_server|r|
snowflake_registry|snowflake_segment_tag|r|
snowflake_registry|snowflake_segments|v|PUBLIC SELECT
EXPECTED
is($node->safe_psql('postgres', <<SQL) =~ s/\{.*?,//r, 'snowflake_catalog|=U/' . $node->safe_psql('postgres', 'SELECT 10::oid::regrole') . '}', 'and to schemas');
SELECT n.nspname, n.nspacl FROM ($members) m
JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid WHERE n.nspacl IS NOT NULL
SQL

is($node->safe_psql('postgres', <<SQL), join("\n", @definers), 'SECURITY DEFINER');
SELECT p.proname FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE p.prosecdef ORDER BY p.proname COLLATE "C"
SQL
is($node->safe_psql('postgres', <<SQL), '', 'functions in SQL are bound when they are created, those in PL/pgSQL find what they name; no other language but C; none is leakproof');
SELECT p.oid::regprocedure FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
JOIN pg_language l ON l.oid = p.prolang
WHERE l.lanname NOT IN ('c', 'sql', 'plpgsql') OR l.lanname = 'sql' AND p.prosqlbody IS NULL OR p.proleakproof
   OR l.lanname = 'plpgsql' AND ('search_path=pg_catalog, pg_temp' = ANY (p.proconfig)) IS NOT TRUE
   -- whose schema may be renamed
   OR m.extname = 'snowflake' AND p.prosrc LIKE '%public.%'
SQL
is($node->safe_psql('postgres', <<SQL), '0', 'no table has row-level security');
SELECT count(*) FROM ($members) m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
WHERE c.relrowsecurity OR c.relforcerowsecurity
SQL
foreach my $script (grep { !/--/ } glob 'install/*.sql')
{
	unlike(slurp_file($script), qr/\bOR\s+REPLACE\b|\bIF\s+NOT\s+EXISTS\b/i,
		"$script takes nothing over that is there");
}

# Settings that a role may change for itself
is($node->safe_psql('postgres', "SELECT name FROM pg_settings WHERE name ~ '^snowflake' AND context IN ('user', 'superuser', 'backend', 'superuser-backend') ORDER BY 1"),
	'snowflake.max_wait', 'the settings that can be changed in a session and are shown');
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN; CREATE DATABASE his OWNER nobody');
is(error_of($node, 'his', $_, extra_params => [ '-U', 'nobody' ])->{sqlstate}, '42501', "not by nobody: $_")
  foreach ("SET snowflake.recorded = 'x'", "SET snowflake.backfilled = '4096'",
	"ALTER DATABASE his SET snowflake.recorded = 'x'", "ALTER DATABASE his SET snowflake.backfilled = '4096'",
	"ALTER ROLE nobody SET snowflake.recorded = 'x'");
is(error_of($node, 'his', $_, extra_params => [ '-U', 'nobody' ])->{sqlstate}, '55P02', "at no time: $_")
  foreach ("SET snowflake.node_id = 2", "SET snowflake.max_drift = '1h'", "SET snowflake.issued_until = '2000-01-01'",
	"ALTER DATABASE his SET snowflake.node_id = 2");

#
# Installed by others than superusers
#
{
	my $superuser = $node->safe_psql('his', 'SELECT 10::oid::regrole');

	foreach my $extension (@extensions)
	{
		my $error = error_of($node, 'his', "CREATE EXTENSION $extension", extra_params => [ '-U', 'nobody' ]);

		if ($extension eq 'snowflake_home')
		{
			is("$error->{sqlstate}: $error->{message}", '42501: permission denied to create extension "snowflake_home"',
				"$extension: not by the owner of a database");
			is($error->{hint}, 'Must be superuser to create this extension.', "$extension: it takes a superuser");
			next;
		}
		is($error->{sqlstate}, '', "$extension: by the owner of a database");
		is($node->safe_psql('his', "SELECT DISTINCT p.proowner::regrole FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid WHERE m.extname = '$extension'"),
			$extension eq 'snowflake' ? $superuser : 'nobody', "$extension: its functions belong to the right one");
		is(error_of($node, 'postgres', "DROP EXTENSION IF EXISTS $extension; CREATE EXTENSION $extension", extra_params => [ '-U', 'nobody' ])->{sqlstate},
			'42501', "$extension: not by another");
	}
	is(error_of($node, 'his', $_, extra_params => [ '-U', 'nobody' ])->{sqlstate}, '42501', "the owner of a database may not: $_")
	  foreach ('SELECT snowflake_advance(snowflake_nextval())', 'SELECT snowflake_accept_layout()', 'SELECT pg_stat_snowflake_reset()',
		"SELECT snowflake_segment_create('t')", "SELECT snowflake_segment_nextval('t')", 'SELECT snowflake_backfill(now())',
		'CREATE OR REPLACE FUNCTION snowflake_nextval() RETURNS bigint RETURN 1', 'DROP TRIGGER check_format ON snowflake_catalog.key_formats',
		'ALTER TABLE snowflake_catalog.key_formats OWNER TO nobody', 'CREATE TABLE snowflake_catalog.mine ()',
		'DROP SCHEMA snowflake_catalog CASCADE', 'UPDATE snowflake_catalog.key_formats SET version = 2', 'ALTER FUNCTION snowflake_nextval() OWNER TO nobody',
		'CREATE TRIGGER mine BEFORE INSERT ON snowflake_catalog.dumped_mark EXECUTE FUNCTION suppress_redundant_updates_trigger()');
	is(error_of($node, 'his', "SELECT snowflake_key_format_create('order', 'OR', 2, 2); SELECT * FROM snowflake_key_formats()",
			extra_params => [ '-U', 'nobody' ])->{sqlstate}, '', 'the owner of a database has formats of keys');
	$node->safe_psql('his', 'DROP EXTENSION snowflake CASCADE', extra_params => [ '-U', 'nobody' ]);

	# in a schema, by a role that may create such and no more
	$node->safe_psql('postgres', 'CREATE ROLE maker LOGIN; GRANT CREATE ON DATABASE his TO maker');
	is($node->safe_psql('his', <<'SQL', extra_params => [ '-U', 'maker' ]), 'ext|1|f', 'in a schema, by a role with CREATE on the database');
CREATE SCHEMA ext;
CREATE EXTENSION snowflake SCHEMA ext;
SELECT ext.snowflake_key_format_create('order', 'OR', 2, 2) \g /dev/null
SELECT extnamespace::regnamespace, (SELECT count(*) FROM ext.snowflake_key_formats()), (SELECT can_draw FROM ext.snowflake_can_draw())
FROM pg_extension WHERE extname = 'snowflake';
SQL
	is(error_of($node, 'his', 'ALTER EXTENSION snowflake SET SCHEMA public', extra_params => [ '-U', 'maker' ])->{sqlstate}, '42501', 'not to be moved where that role may not create');
	is(error_of($node, 'his', 'CREATE SCHEMA other; ALTER EXTENSION snowflake SET SCHEMA other', extra_params => [ '-U', 'maker' ])->{sqlstate}, '0A000', 'nor to another');
	$node->safe_psql('his', 'DROP EXTENSION snowflake; DROP SCHEMA ext', extra_params => [ '-U', 'maker' ]);
	$node->safe_psql('postgres', 'DROP DATABASE his');
}

#
# Default privileges give nobody anything, and take nothing
#
my %rights;
foreach my $dbname ('plain', 'generous', 'hardened')
{
	$node->safe_psql('postgres', "CREATE DATABASE $dbname TEMPLATE template0");
	foreach my $what ($dbname ne 'plain' ? qw(TABLES SEQUENCES FUNCTIONS SCHEMAS) : ())
	{
		my $change = $dbname eq 'generous' ? "GRANT ALL ON $what TO PUBLIC, maker, pg_monitor" : "REVOKE ALL ON $what FROM PUBLIC";

		$node->safe_psql($dbname, "ALTER DEFAULT PRIVILEGES $change");
	}
	$node->safe_psql($dbname, 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry; CREATE EXTENSION snowflake_home');
	$rights{$dbname} = $node->safe_psql($dbname, <<SQL);
SELECT pg_describe_object(m.classid, m.objid, 0), a.grantee::regrole, a.privilege_type, a.is_grantable
FROM ($members) m
LEFT JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
LEFT JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
LEFT JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid
CROSS JOIN aclexplode(CASE WHEN p.oid IS NULL THEN coalesce(c.relacl, n.nspacl) ELSE coalesce(p.proacl, acldefault('f', p.proowner)) END) a
WHERE a.grantee <> coalesce(c.relowner, p.proowner, n.nspowner)
ORDER BY 1, 2, 3
SQL
}
is($rights{$_}, $rights{plain}, "rights do not depend on default privileges: $_") foreach qw(generous hardened);
like($rights{plain}, qr/^table snowflake_catalog\.key_formats\|-\|SELECT\|f$/m, 'such as these');

#
# In the way
#
my $ours = $node->safe_psql('postgres', <<SQL);
SELECT replace(json_agg(json_build_object('name', p.proname, 'types',
    (SELECT array_agg(t.typname ORDER BY a.n) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n) JOIN pg_type t ON t.oid = a.type)))::text, chr(10), ' ')
FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE p.pronargs > 0 AND NOT 'internal'::regtype = ANY (p.proargtypes)
  -- whose types are there before
  AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (p.proargtypes) AND t.typnamespace <> 'pg_catalog'::regnamespace)
SQL
# the names of functions in its schema, by extension
my %names = map { split /\|/ } split /\n/, $node->safe_psql('postgres', <<SQL);
SELECT m.extname, array_agg(DISTINCT p.proname)
FROM ($members) m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE p.pronamespace = 'public'::regnamespace GROUP BY m.extname
SQL
$node->safe_psql('postgres', 'DROP EXTENSION snowflake, snowflake_registry, snowflake_home');
# under another name, as the workers would connect to the home database meanwhile
$node->safe_psql('postgres', 'CREATE DATABASE unready');
$hostile =~ s/\@ours\@/$ours/;
$node->safe_psql('unready', $hostile);
cmp_ok($node->safe_psql('unready', "SELECT count(*) FROM pg_proc WHERE proowner = 'somebody'::regrole"), '>', 5000, 'functions are in the way');
$node->safe_psql('unready', <<'SQL');
CREATE SCHEMA tables;
CREATE TABLE tables.log (id bigint PRIMARY KEY, text text) PARTITION BY RANGE (id);
CREATE TABLE tables.rest PARTITION OF tables.log DEFAULT;
CREATE TABLE tables.customer (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
CREATE TABLE tables.invoice (id serial PRIMARY KEY, customer integer REFERENCES tables.customer);
INSERT INTO tables.log VALUES (1, 'one'), (2, 'two');
INSERT INTO tables.customer (name) VALUES ('Ann'), ('Bob');
INSERT INTO tables.invoice (customer) VALUES (1), (2), (2);
CREATE DATABASE before TEMPLATE unready;
CREATE DATABASE registry TEMPLATE unready;
ALTER DATABASE unready SET search_path = hostile, pg_catalog;
ALTER DATABASE registry SET search_path = hostile, pg_catalog;
SQL
$node->safe_psql('postgres', 'ALTER DATABASE unready RENAME TO victim');
ran($node);

# They are found where they are looked for.
foreach my $sql ('SELECT 1 = 1', 'SELECT count(1)', "SELECT 'a'::text", 'SELECT relname FROM pg_class', "SELECT 1::numeric / 1::bigint",
	"SELECT hostile.snowflake_segments_stay(NULL, NULL)")
{
	error_of($node, 'victim', $sql);
	like(ran($node), qr/^(operator|function|type|relation) /, "in the way of: $sql");
}

# What ours is made of: nothing of somebody's.
sub made_of
{
	my ($dbname) = @_;

	return $node->safe_psql($dbname, <<'SQL');
SET search_path = pg_catalog;
WITH theirs (classid, objid) AS (
    SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proowner = 'somebody'::regrole
    UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oprowner = 'somebody'::regrole
    UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typowner = 'somebody'::regrole
    UNION ALL SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relowner = 'somebody'::regrole
    UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relowner = 'somebody'::regrole
    UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c JOIN pg_type t ON t.oid = c.contypid WHERE t.typowner = 'somebody'::regrole)
SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) || ' uses ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
FROM pg_depend d
WHERE (d.refclassid, d.refobjid) IN (SELECT * FROM theirs) AND (d.classid, d.objid) NOT IN (SELECT * FROM theirs)
ORDER BY 1
SQL
}

# With functions of its names in the way, an extension is not created.  These are
# away while it is, and then there as before; other sessions see them all the time.
sub create
{
	my ($extension, $dbname, $by, %opts) = @_;
	my $theirs = "FROM pg_proc WHERE proowner = 'somebody'::regrole AND pronamespace = 'hostile'::regnamespace AND proname = ANY ('$names{$extension}')";
	my $create = "SET search_path = hostile, pg_catalog; CREATE EXTENSION $extension SCHEMA hostile";
	my $error = error_of($node, $dbname, $create, %opts);

	like("$error->{sqlstate}: $error->{message}", qr/^42723: function \S+\(.*\) exists already$/, "$extension, created by $by in $dbname: refused");
	is(ran($node), '', "$extension, created by $by in $dbname: nothing ran when it was refused");
	is($node->safe_psql($dbname, <<SQL, %opts), 't', "$extension, created by $by in $dbname: functions of its names are in the way again");
BEGIN;
SET ROLE somebody;
SET search_path = pg_catalog;
SELECT string_agg(pg_get_functiondef(oid), ';' ORDER BY oid::regprocedure::text) AS theirs, string_agg(oid::regprocedure::text, ', ') AS names
$theirs \\gset
DROP FUNCTION :names;
RESET ROLE;
$create;
SET ROLE somebody;
SET search_path = pg_catalog;
:theirs;
SELECT string_agg(pg_get_functiondef(oid), ';' ORDER BY oid::regprocedure::text) = :'theirs' $theirs;
COMMIT;
SQL
	is(ran($node), '', "$extension, created by $by in $dbname: nothing ran");
	is(made_of($dbname), '', "$extension, created by $by in $dbname: nothing is in it");
	return;
}

# Created by a superuser, and for the trusted one by the owner of the database,
# whose schema it is.
$node->safe_psql('postgres', 'ALTER DATABASE before OWNER TO somebody');
create('snowflake', 'before', 'the owner of the database', extra_params => [ '-U', 'somebody' ]);
create(@{$_}, 'a superuser') foreach ([ 'snowflake', 'victim' ], [ 'snowflake_registry', 'victim' ], [ 'snowflake_registry', 'registry' ]);

# Likewise with functions of ours whose types are there only now.
foreach my $dbname ('victim', 'registry')
{
	cmp_ok($node->safe_psql($dbname, <<SQL, extra_params => [ '-U', 'somebody' ]), '>', 30, "functions are in the way of those with types of ours in $dbname");
SET search_path = pg_catalog;
DO \$do\$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT DISTINCT format('CREATE FUNCTION hostile.%I(%s) RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', p.proname,
            (SELECT string_agg(CASE n WHEN k THEN 'pg_catalog.text' ELSE format_type(type, NULL) END, ', ' ORDER BY n)
             FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n)), @{[ attack("'function ' || p.proname") ]})
        FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'snowflake_registry'
        JOIN pg_proc p ON p.oid = d.objid, generate_series(1, p.pronargs) k
        WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND p.proargtypes[k - 1] <> 'text'::regtype
          AND EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (p.proargtypes) AND t.typnamespace = 'hostile'::regnamespace)
    LOOP
        EXECUTE statement;
    END LOOP;
END
\$do\$;
SELECT count(*) FROM pg_proc p
WHERE proowner = 'somebody'::regrole AND EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (p.proargtypes) AND t.typnamespace = 'hostile'::regnamespace);
SQL
}

# The worker sets up the home database, whose search path is that.
# They may just have tried in vain, as there was no such database, and try again after 5 s.
is($node->safe_psql('victim', "SET snowflake.max_wait = '1min'; SELECT hostile.snowflake_nextval() IS NULL"), 'f', 'an ID, the first');
is(ran($node), '', 'the worker: nothing ran');
is(made_of('victim'), '', 'made by the worker: nothing is in it');
is(error_of($node, 'before', 'SELECT hostile.snowflake_nextval()', extra_params => [ '-U', 'somebody' ])->{message}, '', 'the owner of a database draws');

# The owner of a database and of the extension's schema renames that, and makes one of the former
# name, with functions of the same names and arguments.
$node->safe_psql('postgres', 'CREATE DATABASE his OWNER nobody');
$node->safe_psql('his', <<'SQL', extra_params => [ '-U', 'nobody' ]);
CREATE SCHEMA ext;
CREATE EXTENSION snowflake SCHEMA ext;
ALTER SCHEMA ext RENAME TO "ext 2";
CREATE SCHEMA ext;
GRANT USAGE ON SCHEMA ext, "ext 2" TO PUBLIC;
DO $do$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('CREATE FUNCTION ext.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', proname, pg_get_function_arguments(oid),
            pg_get_function_result(oid), format('BEGIN RAISE LOG %L; RAISE %L; END', 'HOSTILE: ' || proname, 'HOSTILE'))
        FROM pg_proc WHERE pronamespace = '"ext 2"'::regnamespace AND prorettype <> 'internal'::regtype
          AND 'internal'::regtype <> ALL (proargtypes)
    LOOP
        EXECUTE statement;
    END LOOP;
END
$do$;
CREATE TABLE log (id bigint DEFAULT "ext 2".snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE rest PARTITION OF log DEFAULT;
SQL
error_of($node, 'his', 'SELECT ext.snowflake_layout()');
is(ran($node), 'snowflake_layout', 'an impostor under the former name of the schema: runs when it is called');
foreach my $sql ('snowflake_check()', "snowflake_explain('152075078181383514')", "snowflake_explain('152075078181383514', 'twitter')",
	"snowflake_explain('152075078181383514', 'time:41 node:10 sequence:12', '2020-01-01 00:00+00')",
	"snowflake_create_partitions('log', '2024-05-01', '2024-05-04', '1 day')", "snowflake_partitions('log', true)",
	"snowflake_drop_partitions('log', '2024-05-02')", "snowflake_convert('his', 'id')", "snowflake_convert('his', 'id', false)",
	"snowflake_convert('his', 'id', false, 'bigserial')")
{
	is(error_of($node, 'his', qq(CREATE TABLE IF NOT EXISTS his (id bigserial CHECK (id > 0)); SELECT * FROM "ext 2".$sql))->{message}, '', "an impostor: $sql");
	is(ran($node), '', "an impostor: nothing ran: $sql");
}
is($node->safe_psql('his', <<'SQL'), <<'EXPECTED' =~ s/\n\z//r, 'an impostor: what is found, and what is written');
SELECT status, detail FROM "ext 2".snowflake_check() WHERE name = 'partitions';
INSERT INTO his VALUES ("ext 2".snowflake_compose(now(), 1, 0, 0));
SELECT regexp_replace(command, '[0-9]{18}', 'ID') FROM "ext 2".snowflake_convert('his', 'id', false) WHERE command <> '';
SQL
ok|Tables that are partitioned by the IDs that they draw by default: 1.
LOCK TABLE public.his IN ACCESS EXCLUSIVE MODE
SELECT "ext 2".snowflake_advance(ID::bigint, false)
ALTER TABLE public.his ALTER COLUMN id SET DEFAULT "ext 2".snowflake_nextval()
DROP SEQUENCE public.his_id_seq
EXPECTED
is(ran($node), '', 'an impostor: nothing ran');
$node->safe_psql('postgres', 'DROP DATABASE his');

# A table of somebody's, with functions that are silent for the owner alone:
# snowflake_check() reads what is in it, and runs none of them.
$node->safe_psql('victim', <<'SQL', extra_params => [ '-U', 'somebody' ]);
SET search_path = pg_catalog;
CREATE FUNCTION hostile.bait(what text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_user OPERATOR(pg_catalog.<>) 'somebody' THEN
        RAISE LOG 'HOSTILE: % of a table', what;
    END IF;
    RETURN true;
END $$;
CREATE TABLE hostile.baits (id bigint PRIMARY KEY DEFAULT hostile.snowflake_nextval(), n integer, CHECK (hostile.bait('check')));
CREATE INDEX ON hostile.baits (hostile.bait('index'));
CREATE INDEX ON hostile.baits (n) WHERE hostile.bait('predicate');
INSERT INTO hostile.baits (n) SELECT generate_series(1, 1000);
SQL
ran($node);
$node->safe_psql('victim', 'SELECT FROM hostile.baits');
like(ran($node), qr/ of a table$/, 'a table of somebody: a query runs them');
is($node->safe_psql('victim', q(SELECT detail FROM hostile.snowflake_check() WHERE name OPERATOR(pg_catalog.=) 'tables')),
	'Columns of this database that draw snowflake IDs by default: 1. The last 100 IDs of each were looked at.',
	'a table of somebody: snowflake_check() reads it');
is(ran($node), '', 'a table of somebody: and runs nothing');

# All functions, and all tables and views
$node->safe_psql('victim', <<'SQL');
SELECT hostile.snowflake_key_format_create('bill', 'OR', 2, 2);
SELECT hostile.snowflake_key_format_rename('bill', 'order');
INSERT INTO snowflake_catalog.dumped_mark (mark, layout, epoch, backfilled)
VALUES (pg_catalog.clock_timestamp(), 'time:41 node:5 worker:5 sequence:12', '2020-01-01 00:00:00+00', 8);
SQL
is(ran($node), '', 'triggers: nothing ran');
sub statement
{
	my ($function, @args) = @_;
	my ($callee, $types) = $function =~ /^([\w.]+)\((.*)\)$/;
	my @types = map { s/^(date|name|oid|pg_node_tree|regclass|text|tstzrange|uuid)\b/pg_catalog.$1/r } split /,/, $types;

	$callee = "hostile.$callee" unless $callee =~ /\./;
	return "SELECT * FROM $callee("
	  . join(', ', map { 'CAST(' . (defined $args[$_] ? "'$args[$_]'" : 'NULL') . " AS $types[$_])" } 0 .. $#args) . ')';
}
sub call
{
	my ($function, $args) = @_;

	# where the registry is open
	$node->safe_psql('registry', "UPDATE hostile.snowflake_registry_place SET closed_until = '-infinity'") if $function =~ /^snowflake_drop_tag/;
	my $error = $served{$function} ? error_of($node, 'registry', statement($function, @{$args})) :
	  error_of($node, 'victim', 'SELECT hostile.snowflake_nextval(); ' . statement($function, @{$args}));

	is("$error->{sqlstate} $error->{message}", ' ', "called: $function");
	is(ran($node), '', "called: $function: nothing ran");
	return;
}
# in this order, as tags are created first and dropped last
call($_, $open{$_}) foreach sort keys %open;
call($_, $closed{$_} // $served{$_})
  foreach sort { $b =~ /_create|_make/ <=> $a =~ /_create|_make/ || $a =~ /_drop|_remove/ <=> $b =~ /_drop|_remove/ || $a cmp $b } keys %closed, keys %served;
foreach my $relation (split /\n/, $node->safe_psql('victim', <<SQL))
SET search_path = pg_catalog;
SELECT c.oid::regclass FROM ($members) m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid WHERE c.relkind <> 'i'
SQL
{
	is(error_of($node, 'victim', "TABLE $relation")->{sqlstate}, '', "read: $relation");
	is(ran($node), '', "read: $relation: nothing ran");
}
foreach my $sql (
	"SELECT FROM tables.log WHERE hostile.snowflake_in(id, '[2024-05-01 10:00+00,2024-05-01 11:00+00)'::pg_catalog.tstzrange)",
	"SELECT FROM tables.log WHERE hostile.snowflake_in(id, pg_catalog.now(), 'infinity'::pg_catalog.timestamptz)",
	"SELECT * FROM hostile.snowflake_convert('tables.invoice'::pg_catalog.regclass, 'id'::pg_catalog.name)",
	"SELECT * FROM hostile.snowflake_convert('tables.invoice'::pg_catalog.regclass, 'id'::pg_catalog.name, false)",
	"SELECT * FROM hostile.snowflake_convert('tables.invoice'::pg_catalog.regclass, 'id'::pg_catalog.name, false, 'bigserial'::pg_catalog.text)",
	"INSERT INTO tables.customer (name) VALUES ('Cid') RETURNING id",
	'SELECT * FROM hostile.snowflake_check()')
{
	is(error_of($node, 'victim', $sql)->{message}, '', $sql);
	is(ran($node), '', "nothing ran: $sql");
}

# What a server calls in its registry, in an order in which it works
my @served = map {
	my $name = $_;
	grep { /^$name\b/ } keys %served
} qw(snowflake_lease_node snowflake_create_tag snowflake_take_segments snowflake_alter_tag snowflake_drop_tag);

# A server that has its number and its segments from there, as a role whose
# search path is that schema, before "public".
{
	$node->safe_psql('registry', <<'SQL');
ALTER ROLE server IN DATABASE registry SET search_path = hostile, public;
SELECT hostile.snowflake_open_registry();
SQL
	$node->safe_psql('registry', "SET search_path = pg_catalog; GRANT EXECUTE ON FUNCTION hostile.$_ TO server") foreach @served;
	my $other = PostgreSQL::Test::Cluster->new('other');
	$other->init(force_initdb => 1);
	$other->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'snowflake'
snowflake.registry = '@{[ $node->connstr('registry') =~ s/'//gr ]} user=server'
snowflake.max_wait = '20s'
fsync = off
CONF
	$other->start;
	$other->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	is(error_of($other, 'postgres', $_)->{message}, '', "served: $_")
	  foreach ('SELECT snowflake_nextval()', "SELECT snowflake_segment_create('other')", "SELECT snowflake_segment_nextval('other', 5)",
		"SELECT snowflake_segment_alter('other', step => 10)", "SELECT snowflake_segment_drop('other')", "SELECT snowflake_segment_create('rest')",
		"SELECT snowflake_segment_nextval('rest')");
	$other->stop;
	is(ran($node), '', 'served: nothing ran');
}

# Temporary tables of who calls what is SECURITY DEFINER come before all others
# in its search path.
is(error_of($node, 'registry', join(';', 'SET search_path = pg_temp, hostile, public',
		(map { "CREATE TEMP TABLE $_ ()" } qw(snowflake_registry_place snowflake_node_lease snowflake_node_warning snowflake_segment_tag snowflake_segment_server snowflake_registry_told pg_database pg_extension)),
		map { statement($_, @{ $served{$_} }) } @served), extra_params => [ '-U', 'server' ])->{message},
	'', 'called with temporary tables in the way');
is(ran($node), '', 'called with temporary tables in the way: nothing ran');

# Objects of the same names that were there before are not taken over.
foreach my $premade (
	'FUNCTION snowflake_nextval() RETURNS bigint RETURN 1',
	'FUNCTION snowflake_key_formats() RETURNS bigint RETURN 1',
	'VIEW pg_stat_snowflake AS SELECT 1')
{
	my ($kind, $name) = $premade =~ /^(\w+) (\S+)/;

	$node->safe_psql('postgres', 'CREATE SCHEMA premade; CREATE ' . $premade =~ s/^(\w+) /$1 premade./r);
	like(error_of($node, 'postgres', 'CREATE EXTENSION snowflake SCHEMA premade')->{sqlstate}, qr/^42(723|P07|710)$/,
		"there before, and not taken over: $kind $name");
}
continue
{
	$node->safe_psql('postgres', 'DROP EXTENSION IF EXISTS snowflake; DROP SCHEMA premade CASCADE');
}
$node->safe_psql('postgres', 'CREATE SCHEMA snowflake_catalog');
is(error_of($node, 'postgres', 'CREATE EXTENSION snowflake')->{sqlstate}, '42P06', 'there before, and not taken over: SCHEMA snowflake_catalog');
$node->safe_psql('postgres', 'DROP SCHEMA snowflake_catalog');
is(error_of($node, 'victim', 'ALTER EXTENSION snowflake UPDATE')->{sqlstate}, '', 'ALTER EXTENSION UPDATE');
is(ran($node), '', 'ALTER EXTENSION UPDATE: nothing ran');
is(error_of($node, 'victim', 'CREATE SCHEMA quiet; ALTER EXTENSION snowflake SET SCHEMA quiet')->{sqlstate}, '0A000', 'ALTER EXTENSION SET SCHEMA: not done');
is(ran($node), '', 'ALTER EXTENSION SET SCHEMA: nothing ran');
$node->stop;

# Where the registry is, and as whom it is asked, is for roles that see the
# statistics of others; what is wrong is for all.
{
	my $private = PostgreSQL::Test::Cluster->new('private');
	my $user = 'hidden';
	$private->init;
	$private->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = 'snowflake'
snowflake.registry = 'host=/$user/host port=4711 user=$user dbname=$user'
snowflake.max_wait = '100ms'
fsync = off
CONF
	$private->start;
	$private->safe_psql('postgres', <<'SQL');
CREATE EXTENSION snowflake;
CREATE ROLE nobody LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_segment_create, snowflake_segment_nextval(text) TO nobody, monitor;
SQL
	foreach my $sql ('SELECT snowflake_nextval()', "SELECT snowflake_segment_nextval('a')", "SELECT snowflake_segment_create('a')")
	{
		my %error;

		foreach (1 .. 100)
		{
			$error{monitor} = error_of($private, 'postgres', $sql, extra_params => [ '-U', 'monitor' ]);
			# it may not have come so far
			last if $error{monitor}{detail} =~ /^The registry could not be asked: .*hidden/;
		}
		like($error{monitor}{detail}, qr/^The registry could not be asked: .*hidden/, "$sql: where, to roles that may see it");
		foreach (1 .. 100)
		{
			$error{nobody} = error_of($private, 'postgres', $sql, extra_params => [ '-U', 'nobody' ]);
			last if $error{nobody}{detail} =~ /^The registry could/;
		}
		like($error{nobody}{detail}, qr/^The registry could not be asked\.(?: Waited for "snowflake\.max_wait", 100 ms\.)?$/, "$sql: what, to others");
		unlike(join(' ', values %{ $error{nobody} }), qr/hidden|4711/, "$sql: and not where");
		is($error{nobody}{sqlstate}, $error{monitor}{sqlstate}, "$sql: the same error");
	}
	foreach my $check (qw(registry segments))
	{
		like(seen_by($private, 'monitor', $check), qr/The registry could not be asked: .*hidden/, "$check: where");
		like(seen_by($private, 'nobody', $check), qr/The registry could not be asked\./, "$check: what");
		unlike(seen_by($private, 'nobody', $check), qr/hidden|4711/, "$check: and not where");
	}
	my $log = slurp_file($private->logfile);
	unlike($log, qr/DETAIL:  The registry could not be asked\./, 'the log says where');
	like($log, qr/ERROR:  $_\N*\n\N*DETAIL:  The registry could not be asked: \N*hidden/, "that of: $_")
	  foreach 'cannot generate a snowflake ID', 'cannot draw a number', '(?:cannot|could not) create segment tag';
	$private->stop;
}

# A schema that is there before the worker makes its own: no IDs, and nothing of it runs.
{
	my $first = PostgreSQL::Test::Cluster->new('first');
	$first->init;
	$first->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.node_id = 1\nsnowflake.max_wait = '500ms'\nfsync = off\n");
	$first->start;
	$first->safe_psql('postgres', <<'SQL');
CREATE ROLE somebody LOGIN;
GRANT CREATE ON DATABASE postgres TO somebody;
CREATE EXTENSION snowflake;
SQL
	$first->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'somebody' ]);
CREATE SCHEMA snowflake_home;
CREATE FUNCTION snowflake_home.fire() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''HOSTILE: mark''; RETURN 0; END';
CREATE VIEW snowflake_home.mark AS SELECT snowflake_home.fire() AS last_value;
CREATE TABLE snowflake_home.backfill (stretch bigint, used bigint);
SQL
	$log_at = 0;
	my $error;
	foreach (1 .. 20)
	{
		$error = error_of($first, 'postgres', 'SELECT snowflake_nextval()');

		# it may not have come so far
		last if $error->{detail} =~ /worker failed/;
	}
	is($error->{sqlstate}, '55000', 'a schema in the way of the worker: no ID');
	like($error->{detail}, qr/schema "snowflake_home" already exists/, 'a schema in the way of the worker: that is what is said');
	$error = error_of($first, 'postgres', 'SELECT snowflake_nextval()', extra_params => [ '-U', 'somebody' ]);
	like($error->{detail}, qr/^The background worker failed in database "postgres"\. Waited for "snowflake\.max_wait", 500 ms\.$/, 'to others, that it failed');
	like($error->{hint}, qr/^The server's log says why, /, 'and who knows why');
	is(seen_by($first, 'somebody', 'mark'), q(error|The background worker failed in database "postgres". ) . $error->{hint}, 'snowflake_check() says the same');
	like(seen_by($first, $first->safe_psql('postgres', 'SELECT current_user'), 'mark'), qr/schema "snowflake_home" already exists/, 'and why, to roles that may see it');
	is(ran($first), '', 'a schema in the way of the worker: nothing ran');
	$first->safe_psql('postgres', 'SET client_min_messages = warning; DROP SCHEMA snowflake_home CASCADE');
	is($first->safe_psql('postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_nextval() > 0"), 't', 'when it is gone, IDs flow');

	# segments that somebody serves at home
	$first->safe_psql('postgres', 'CREATE SCHEMA theirs; CREATE EXTENSION snowflake_registry SCHEMA theirs', extra_params => [ '-U', 'somebody' ]);
	$error = error_of($first, 'postgres', "SET snowflake.max_wait = '1min'; SELECT snowflake_segment_create('a')");
	like("$error->{message} $error->{detail}", qr/does not belong to a superuser/, 'segments of somebody in the home database are not used');
	like($error->{hint}, qr/^If it has tags, the database is a registry: name it in "snowflake\.registry"\. If it has none, drop the extension/, 'and nobody is told to drop tags that are in use');
	$first->stop;
}

done_testing();
