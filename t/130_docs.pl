# The pages for users say what is there: README.md, CONTRIBUTING.md,
# bench/README.md and docs/*.md.
#
#   1. Form: tables, width and length of pages, links, files that are named.
#   2. Examples run, and their outputs are those shown.  Those of other languages
#      stand in programs that are tested (drivers.md, orms.md).
#   3. The reference (docs/ref-*.md, formats.md, monitoring.md, operations.md)
#      has each function, view, setting, wait event, check, dialect, SQLSTATE,
#      log message, metric and alert as the server has it.
#   4. Each function, setting, table, view and type that any page names exists.
#
# An example is a block that is marked as sql, or one in which a line begins
# with psql's prompt.  A block without a mark right below the first kind is its
# output, from the end; the second kind has its outputs in it.  "..." in an
# output stands for any lines.  Each page has a database of its own with the
# extension in it (README.md creates it there itself).  A comment in the first
# line says where else an example runs:
#
#   -- in the database NAME     there; "in a new database" is one of its own,
#                               without the extension
#   -- with NAME                not here, as that is another extension or server

use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use File::Find;
use IPC::Run;
use List::Util qw(uniq);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Page;
use SnowflakeTest;

# Lines of a page, at most
my %longest = ('README.md' => 220, 'CONTRIBUTING.md' => 170);
my $longest = 290;

# What examples are left out with
my %other = map { $_ => 1 } 'Citus', 'pg_cron', 'pg_partman', 'pgaudit', "pgEdge's snowflake", 'an older epoch';

# Names of pgEdge's extension, of roles in the examples, of a package, and a wrong one
my %foreign = map { $_ => 1 } qw(snowflake.nextval snowflake.node snowflake_server snowflake_17 snowflake.nodeid);

# SQLSTATEs and messages that the server itself raises
my @by_server = qw(22021 23514 42883 57014);
my $message_by_server = qr/^(?:permission denied|no partition of relation|canceling statement|duplicate key|function \S+ does not exist|unrecognized configuration parameter|could not access file|invalid value for parameter)/;

# An output that is not the same twice, so that only its shape is compared
my $varies = qr/now\(\)|nextval|snowflake_key\(|snowflake_check|pg_stat_|(?:item|name)\)\ VALUES|
  snowflake_partitions|snowflake_convert|snowflake_nodes/x;

my %page = map { $_ => Page->new($_) } 'README.md', 'CONTRIBUTING.md', 'bench/README.md', glob 'docs/*.md';
my @pages = map { $page{$_} } sort keys %page;

# The tables of pages, by names with wildcards, whose first column has this
# head; at least one.
sub tables
{
	my ($names, $head) = @_;
	my @found =
	  grep { $_->{head}[0] =~ /^$head$/i } map { @{ $page{$_}{tables} } } grep { exists $page{$_} } glob $names;

	ok(scalar @found, "$names: there is a table of each \"$head\"");
	return @found;
}

sub rows { return map { @{ $_->{rows} } } @_; }

# What is in code quotes
sub quoted { return map { /`([^`]+)`/g } @_; }

# A list is empty.  Otherwise it says what is wrong, and where.
sub none
{
	my ($faults, $name) = @_;

	return is(join("\n", @$faults), '', $name);
}

#
# 1. Form
#

foreach my $page (@pages)
{
	my $name = $page->{name};
	my %anchors;

	none($page->{faults}, "$name: tables and blocks");

	cmp_ok(scalar @{ $page->{lines} }, '<=', $longest{$name} // $longest, "$name: lines");
	is(scalar grep({ $_->{level} == 1 } @{ $page->{headings} }), 1, "$name: one title");

	$anchors{ $_->{anchor} }++ foreach @{ $page->{headings} };
	none([ grep { $anchors{$_} > 1 } sort keys %anchors ], "$name: each heading has an anchor of its own");

	# Links and code count, but one that is longer than a line stands alone.
	none(
		[
			map { "$name:$_->[0]" }
			grep { $_->[1] !~ /^\|/ && length $_->[1] > 100 && $_->[1] =~ /^\s*\S+\s/ }
			map { [ $_->[0], $_->[1] =~ s/(\[[^\]]*\]\([^)]*\)|`[^`]*`)/'x' x length $1/ger ] } @{ $page->{prose} }
		],
		"$name: lines of at most 100 columns");

	none(
		[
			map { my $what = $page->broken($_->[1], \%page); $what ? "$name:$_->[0]: $_->[1]: $what" : () } $page->links
		],
		"$name: links lead somewhere");

	my $folder = qr/(?:bench|debian|docs|expected|install|monitoring|packaging|scripts|specs|sql|src|t)/;
	none(
		[
			map { my ($file) = glob; defined $file && -e $file ? () : "$name: $_" }
			uniq map { /(?<![\w\/.\$}])($folder\/[\w.*\/-]*\w)/g } @{ $page->{lines} }
		],
		"$name: files that are named exist");
}

# The README's last section is the index.
{
	my @lines = @{ $page{'README.md'}{lines} };
	my ($begin) = grep { $lines[$_] eq '## Pages' } 0 .. $#lines;
	my %indexed = map { $_ => 1 } map { /\]\(([^)#]+)\)/g } @lines[ ($begin // 0) .. $#lines ];

	ok(defined $begin, 'README.md: has an index of the pages');
	none([ grep { $_ ne 'README.md' && !$indexed{$_} } sort keys %page ], 'README.md: all pages are in its index');
}

#
# 2. Examples
#

my $node = PostgreSQL::Test::Cluster->new('docs');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
timezone = 'UTC'
fsync = off
# for a busy machine
snowflake.max_wait = '1min'
CONF
$node->start;

# A statement's lines, as psql shows them
sub run_psql
{
	my ($database, $sql) = @_;
	my $out;

	IPC::Run::run(
		[
			$node->installed_command('psql'), '-Xq', '-P', 'footer=off',
			'-v', 'VERBOSITY=default', '-v', 'SHOW_CONTEXT=never', '-d', $node->connstr($database)
		],
		'<', \($sql =~ s/\\watch [\d.]+/\\g/gr), '>', \$out, '2>&1',
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return [ without_blanks(split /\n/, $out) ];
}

sub without_blanks { return grep { $_ ne '' } map { s/\s+$//r } @_; }

# An output without its numbers, times and widths
sub shape
{
	my @lines = @_;

	foreach (@lines)
	{
		s/\d[\d.:+]*(?:-[\d.:+-]+)?(?: \d+:[\d.:+-]+)?/N/g;
		s/-(?=N)//g;
		s/N ?(?:bytes|kB|MB)/SIZE/g;
		s/(?<=\])-+$//;
		s/-{2,}/--/g;
		s/#+/#/g;
		s/\s+/ /g;
		s/^ | $//g;
	}
	return @lines;
}

# The same lines, but for "..." in the expected ones?
sub same_lines
{
	my ($got, $expected) = @_;
	my $pattern = join '', map { $_ eq '...' ? '(?:.*\n)*' : quotemeta($_) . '\n' } @$expected;

	return join('', map { "$_\n" } @$got) =~ /\A$pattern\z/;
}

my %compared = (exactly => 0, 'in shape' => 0);

sub compare
{
	my ($where, $sql, $got, $expected) = @_;
	my @expected = without_blanks(@$expected);
	my $last = (split /;\n/, $sql)[-1];
	my $how = 'exactly';
	my $same = same_lines($got, \@expected);

	if (!$same && $last =~ $varies)
	{
		$how = 'in shape';
		$same = same_lines([ shape(@$got) ], [ shape(@expected) ]);
	}
	$compared{$how}++;
	ok($same, "$where: the output is that shown")
	  or diag(join "\n", $sql, 'got:', @$got, 'shown:', @expected);
	return;
}

my %created;

# Databases with the extension are copies of one, as it takes longer to create it.
$node->safe_psql('postgres', 'CREATE DATABASE extended');
$node->safe_psql('extended', 'CREATE EXTENSION snowflake');

sub create_database
{
	my ($database, $template) = @_;

	return if $created{$database}++;
	$template //= 'template1';
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE $template STRATEGY file_copy") if $database ne 'postgres';
	return;
}

# A block marked as sql, whose output may be the next block
sub run_script
{
	my ($where, $database, $block, $next) = @_;
	my $sql = join "\n", @{ $block->{lines} }, '';
	my @got = @{ run_psql($database, $sql) };
	my $output =
	  $next && $next->{mark} eq '' && $next->{line} == $block->{end} + 1 && !is_session($next)
	  ? $next->{lines}
	  : [];

	is( join("\n", grep { /^(?:ERROR|FATAL|PANIC|psql:|invalid)/ } @got),
		join("\n", grep { /^ERROR/ } @$output), "$where: the example runs");
	return unless @$output;
	$next->{is_compared} = 1;
	splice @got, 0, -without_blanks(@$output) unless @got <= @$output || grep { $_ eq '...' } @$output;
	compare($where, $sql, \@got, $output);
	return;
}

sub is_session { return scalar grep { /^=# / } @{ $_[0]{lines} }; }

# A block of statements after psql's prompt and their outputs
sub run_session
{
	my ($where, $database, $block) = @_;
	my (@statements, @outputs);
	my $open = 0;

	$block->{is_compared} = 1;
	foreach my $line (@{ $block->{lines} })
	{
		next if $line =~ /^-- / && !@statements;
		if ($line =~ /^=# (.*)/)
		{
			push @statements, $1;
			push @outputs, [];
			$open = 1;
		}
		elsif ($open) { $statements[-1] .= "\n$line"; }
		else { push @{ $outputs[-1] }, $line; }
		$open = 0 if $line =~ /;\s*(?:--.*)?$|\\g(?:x|set)?(?: \S+)?$|\\g \(.*\)$|\\watch [\d.]+$|^(?:=# )?\\/;
	}

	my @got = ([]);
	foreach my $line (@{ run_psql($database, join "\\echo --8<--\n", map { "$_\n" } @statements) })
	{
		if ($line eq '--8<--') { push @got, []; }
		else { push @{ $got[-1] }, $line; }
	}
	compare($where, $statements[$_], $got[$_] // [], $outputs[$_]) foreach 0 .. $#statements;
	return;
}

# Leave nothing of a page to the next one.
sub clean_up
{
	$node->safe_psql('postgres', <<'SQL');
SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database
WHERE datname NOT IN ('postgres', 'template0', 'template1', 'extended') \gexec
SELECT format('DROP OWNED BY %1$I; DROP ROLE %1$I', rolname) FROM pg_roles
WHERE rolname !~ '^pg_' AND oid <> 10 \gexec
ALTER SYSTEM RESET ALL;
SELECT pg_reload_conf();
SQL

	# Tags are the server's, and in the home database.
	my $view = $node->safe_psql('postgres', q{SELECT oid::regclass FROM pg_class WHERE relname = 'snowflake_segments'});
	my $drop = $view && $node->safe_psql('postgres',
		qq{SELECT format('SELECT snowflake_segment_drop(%L, forget => true);', tag) FROM $view});
	if ($drop)
	{
		create_database('cleaning', 'extended');
		$node->safe_psql('cleaning', $drop);
		$node->safe_psql('postgres', 'DROP DATABASE cleaning');
	}
	%created = ();
	return;
}

my (@left_out, $new);
foreach my $page (@pages)
{
	my @blocks = @{ $page->{blocks} };
	my @examples =
	  grep { $blocks[$_]{mark} eq 'sql' || ($blocks[$_]{mark} eq '' && is_session($blocks[$_])) } 0 .. $#blocks;

	next unless @examples;
	my $own = 'page_' . lc $page->{name} =~ s/\.md$//r =~ s/\W+/_/gr;
	create_database($own, $page->{name} eq 'README.md' ? undef : 'extended');
	foreach my $i (@examples)
	{
		my $block = $blocks[$i];
		my $where = "$page->{name}:$block->{line}";
		my $first = $block->{lines}[0];
		my $database = $own;

		if ($first =~ /^-- with ([^,:]+)/)
		{
			ok($other{$1}, "$where: $1 is another extension");
			push @left_out, $where;
			next;
		}
		$database = $1 if $first =~ /^-- in the database (\w+)/;
		$database = 'new' . ++$new if $first =~ /^-- in a new database/;
		create_database($database);
		if ($block->{mark} eq 'sql') { run_script($where, $database, $block, $blocks[ $i + 1 ]); }
		else { run_session($where, $database, $block); }
	}
	clean_up();
}
cmp_ok($compared{exactly}, '>', 15, 'outputs are compared');
note "$compared{exactly} outputs are as shown, $compared{'in shape'} in shape; left out: @left_out";

# Settings in examples of postgresql.conf: their values are checked when they are
# set, as at the server's start.
my @configured =
  uniq map { /^(snowflake\.\w+) *= *'?((?<=')[^']*|[^\s'#]+)/ ? "ALTER SYSTEM SET $1 = '$2'" : () }
  map { @{ $_->{lines} } } grep { $_->{mark} eq 'ini' } map { @{ $_->{blocks} } } @pages;
cmp_ok(scalar @configured, '>', 5, 'settings are configured');
foreach my $command (@configured)
{
	my ($status, $out, $err) = $node->psql('postgres', $command);

	is($err, '', $command);
}
clean_up();

# Code of other languages stands, line by line, in the programs that are tested.
# Blanks around it, comments and lines of "..." do not count.
sub code { return grep { $_ ne '' && $_ ne '...' } map { s{(?:^|\s+)(?:#|//)\s.*}{}r =~ s/^\s+|\s+$//gr } @_; }

my %in_program;
find({
		no_chdir => 1,
		wanted => sub { $in_program{$_} = 1 foreach -f ? code(split /\n/, slurp_file($_)) : () }
	}, 't/clients', 't/orms');
foreach my $page (map { $page{"docs/$_.md"} } 'drivers', 'orms', 'reading-changes')
{
	my @blocks = grep { $_->{mark} =~ /^(?:java|js|ts|php|perl|python|go|r|ruby)$/ } @{ $page->{blocks} };

	ok(scalar @blocks, "$page->{name}: there is code");
	none(
		[ map { my $line = $_->{line}; map { "$page->{name}:$line: $_" } grep { !$in_program{$_} } code(@{ $_->{lines} }) } @blocks ],
		"$page->{name}: the code stands in tested programs");
}

#
# 3. The reference: functions, tables and views
#

create_database('reference');
$node->safe_psql('reference',
	"CREATE EXTENSION $_") foreach qw(snowflake snowflake_registry);

my $members = <<'SQL';
SELECT e.extname, d.classid::regclass,
  CASE WHEN d.classid = 'pg_proc'::regclass THEN (SELECT proname FROM pg_proc WHERE oid = d.objid)
       WHEN d.classid = 'pg_class'::regclass THEN
         (SELECT regexp_replace(relnamespace::regnamespace::text, '^(public|pg_catalog)$', '') || '.' || relname
          FROM pg_class WHERE oid = d.objid AND relkind IN ('r', 'v', 'S'))
       -- those that are not of a table: from 19 on these are members, too; and of what is listed
       WHEN d.classid = 'pg_type'::regclass THEN
         (SELECT '.' || relname FROM pg_class
          WHERE reltype = d.objid AND relkind = 'c' AND relnamespace::regnamespace::text <> 'snowflake_catalog') END
FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname LIKE 'snowflake%'
SQL
my (%functions, %relations);
foreach my $database ('reference', 'postgres')
{
	foreach my $row (split /\n/, $node->safe_psql($database, $members))
	{
		my ($extension, $class, $name) = split /\|/, $row;

		next if $database eq 'postgres' && $extension ne 'snowflake_home';
		$functions{$name} = $extension if $class eq 'pg_proc';
		$relations{ $name =~ s/^\.//r } = $extension if $class =~ /^pg_(?:class|type)$/ && $name ne '';
	}
}
cmp_ok(scalar keys %functions, '>', 50, 'the server has functions');
cmp_ok(scalar keys %relations, '>', 15, 'the server has tables and views');

# A name with parentheses is a function only: a view may have the same name.
my %internal = map { s/\(.*\)$//r => (/\(/ ? 'function' : 'object') }
  quoted(map { $_->[0] } rows(tables('docs/ref-*.md', 'internal object')));
none([ grep { !$relations{$_} && !$functions{$_} } sort keys %internal ], 'internal objects of the reference exist');

# As the page writes them
sub plain
{
	return $_[0] =~ s/timestamp with time zone/timestamptz/gr =~ s/timestamp without time zone/timestamp/gr
	  =~ s/::[\w ]+?(?=,|\)|$)//gr =~ s/'(\d+)'/$1/gr =~ s/"//gr;
}

# signature => [result, whether PUBLIC may call it].  Nobody but its owner may
# call any function of a registry, so these have no mark.
my (%documented, %there);
foreach my $row (rows(tables('docs/ref-*.md', 'function')))
{
	my @signatures = grep { /\(/ } quoted($row->[0]);
	my ($result) = quoted($row->[1]);

	fail("function without signature: @$row") unless @signatures;
	$documented{ plain($_) } = [ plain($result), $row->[0] =~ /¹/ ? 'f' : 't' ] foreach @signatures;
}
foreach my $row (
	split /\n/,
	$node->safe_psql('reference', <<'SQL'))
SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid), proretset,
  has_function_privilege('public', oid, 'EXECUTE')
FROM pg_proc WHERE oid IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_proc'::regclass
  AND refobjid IN (SELECT oid FROM pg_extension WHERE extname LIKE 'snowflake%'))
  AND pronamespace <> 'snowflake_catalog'::regnamespace
SQL
{
	my ($name, $arguments, $result, $set, $public) = split /\|/, $row;
	my @in = grep { !/^OUT / } split /, /, $arguments;
	my @out = map { s/^OUT //r } grep { /^OUT / } split /, /, $arguments;
	my $signature = plain("$name(" . join(', ', @in) . ')');

	# One name may be an internal object, and a function for users besides.
	next if $internal{$name} && !grep { /^\Q$name\E\(/ } keys %documented;
	next if $internal{$name} && @in == 0 && $relations{$name};    # under the view
	$result = ($set eq 't' ? 'setof ' : '') . '(' . join(', ', @out) . ')' if @out;
	$public = $documented{$signature}[1]
	  if $documented{$signature} && $functions{$name} =~ /_registry$/;
	$there{$signature} = [ plain($result =~ s/^SETOF/setof/r), $public ];
}

sub listing
{
	my ($of) = @_;

	return join "\n", map { "$_ returns $of->{$_}[0]" . ($of->{$_}[1] eq 't' ? '' : ', not for PUBLIC') } sort keys %$of;
}
is(listing(\%documented), listing(\%there),
	'all functions are in the reference, with arguments and result, and the mark of those that PUBLIC may not call');

# Each table and view has a heading of its name, and a table of its columns.
my %view = map {
	my $page = $_;
	map { $_->{text} =~ s/`//gr => $page }
	  grep { $_->{text} =~ /^`?(?:\w+_snowflake|snowflake_\w+)\w*`?$/ } @{ $page->{headings} }
} grep { $_->{name} =~ /^docs\/ref-/ } @pages;
none([ grep { !$view{$_} && ($internal{$_} // '') ne 'object' } sort keys %relations ],
	'all tables and views are in the reference');
none([ grep { !$relations{$_} && !$functions{$_} } sort keys %view ], 'and those in it exist');
foreach my $view (sort keys %view)
{
	my ($table) = grep { $_->{head}[0] eq 'column' } map { $view{$view}->below($_) } $view, "`$view`";
	my @columns;

	# a function, which returns the same rows
	$node->safe_psql('reference', "CREATE VIEW $view AS SELECT * FROM $view()") unless $relations{$view};
	foreach my $row (@{ $table->{rows} })
	{
		my @names = quoted($row->[0]);
		my @types = quoted($row->[1]);

		@types = (@types) x @names if @types == 1;
		push @columns, map { "$names[$_] $types[$_]" } 0 .. $#names;
	}
	is( join("\n", @columns), plain($node->safe_psql('reference', <<SQL)), "columns of $view");
SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = '$view'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
SQL
	$node->safe_psql('reference', "DROP VIEW $view") unless $relations{$view};

	next if $view ne 'snowflake_key_formats';
	my ($create) = grep { /^snowflake_key_format_create/ } keys %there;
	is( join(', ', map { my $row = $_; map { "$_ $row->[1]" . ($row->[2] =~ /\S/ ? " DEFAULT $row->[2]" : '') } quoted($row->[0]) } @{ $table->{rows} })
		  =~ s/`(\w+)`/$1/gr =~ s/DEFAULT ([a-z]\w*)/DEFAULT '$1'/gir,
		$create =~ s/.*\(|\)//gr, 'defaults of a format');
}

#
# Settings
#

my %set_by = (
	'server start' => 'postmaster',
	reload => 'sighup',
	session => 'user',
	'shown only' => 'internal');
my %unit = (ms => 1, s => 1000, min => 60 * 1000, h => 3600 * 1000, d => 86400 * 1000);

sub number
{
	my ($text) = @_;

	return $text =~ /^(\d+) ?(ms|s|min|h|d)$/ ? $1 * $unit{$2} : $text;
}

my @settings;
foreach my $row (rows(tables('docs/ref-settings.md', 'setting')))
{
	my ($name) = quoted($row->[0]);
	my ($default, $values, $by) = map { s/`//gr } @$row[ 1 .. 3 ];

	$default = '' if $default eq 'empty';
	$values =
	    $values =~ /^(.+) to (.+)$/ ? number($1) . ' to ' . number($2)
	  : $values =~ /^(\S+) and up$/ ? "$1 to 2147483647"
	  : $values;
	push @settings, join '|', $name, number($default), $values, $set_by{$by} // "by $by";
}
is( join("\n", sort @settings),
	$node->safe_psql('reference', <<'SQL'), 'all settings are in the reference, with default, values and context');
SELECT name, boot_val,
  CASE vartype WHEN 'integer' THEN min_val || ' to ' || max_val WHEN 'enum' THEN array_to_string(enumvals, ', ')
    WHEN 'bool' THEN 'on, off' ELSE 'text' END, context
FROM pg_settings WHERE name LIKE 'snowflake.%' ORDER BY (name || '|') COLLATE "C"
SQL

#
# Wait events, checks, dialects, errors, messages, metrics
#

# But for what is the server's own, for older versions.
my $source = join '', map { slurp_file($_) } grep { !/compat/ } glob 'src/*.[ch]';

is( join("\n", sort(quoted(map { $_->[0] } rows(tables('docs/ref-messages.md', '(?:wait )?event'))))),
	join("\n", sort(slurp_file('src/waits.c') =~ /"(Snowflake\w+)"/g)),
	'all wait events are in the reference');

is( join("\n", quoted(map { $_->[0] } rows(tables('docs/ref-messages.md', 'check')))),
	$node->safe_psql('reference', <<'SQL'),
SELECT name FROM snowflake_check() WITH ORDINALITY GROUP BY name ORDER BY min(ordinality)
SQL
	'all checks are in the reference');

my (@dialects, @examples);
foreach my $row (rows(tables('docs/formats.md', '(?:name|dialect)')))
{
	my ($name, $layout) = map { s/`//gr } @$row[ 0, 1 ];
	my ($id, $time) = $row->[3] =~ /^`?(\d+)`?: (.*)$/;

	push @dialects, "$name|$layout|$row->[2]";
	push @examples, "($id, '$name', timestamptz '$time+00')";
}
is( join("\n", @dialects),
	$node->safe_psql('reference', 'SELECT name, layout, epoch FROM snowflake_dialects()')
	  =~ s/( 00:00:00|(?<=16:00):00)?\+00$//gmr,
	'all dialects are on their page, with layout and epoch');
is( $node->safe_psql('reference', <<SQL), '', 'and an ID of each has the time shown');
SELECT * FROM (VALUES @{[join ', ', @examples]}) AS e (id, dialect, ts)
WHERE (snowflake_parse(id, dialect)).ts IS DISTINCT FROM ts
SQL

my ($include) = run_command([ 'pg_config', '--includedir-server' ]);
my %sqlstate = slurp_file("$include/utils/errcodes.h") =~ /^#define ERRCODE_(\w+) MAKE_SQLSTATE\(([^)]*)\)/mg;
s/[', ]//g foreach values %sqlstate;
is( join("\n", uniq sort map { /\b([0-9A-Z]{5})\b/g } map { $_->[0] } rows(tables('docs/ref-messages.md', 'SQLSTATE'))),
	join("\n", uniq sort @by_server, map({ $sqlstate{$_} } map { /(?<!== )ERRCODE_(?!TO_)(\w+)/g } split /\n/, $source),
		# in SQL by the names of conditions, or as they are
		grep { defined && $_ ne '01000' } map { /^[0-9]/ ? $_ : $sqlstate{ uc $_ } } grep { defined } map { slurp_file($_) =~ /'([a-z_]+|\d[0-9A-Z]{4})'|\bRAISE ([a-z_]+)/g } grep { !/snowflake_/ } glob 'install/*.sql'),
	'all SQLSTATEs are in the reference');

# What the server's log can have is quoted there, with numbers and names in it.
my $log_messages = join "\n",
  quoted(map { @$_ } rows(map { $_->below('Log messages') } grep { $_->{name} eq 'docs/ref-messages.md' } @pages));
my @logged;
foreach my $report ($source =~ /\bereport\((.*?)\);\n/gs)
{
	next unless $report =~ /^[^,]*\b(?:LOG|WARNING)\b/;
	push @logged, $report =~ /errmsg\("((?:[^"\\]|\\.)*)"/g;
}
cmp_ok(scalar @logged, '>', 15, 'the server logs messages');
none(
	[
		grep {
			grep { index($log_messages, $_) < 0 } split /%\w+/, s/\\"/"/gr
		} @logged
	],
	'messages that the server logs are in the reference');

# And what pages quote or show is in the source: look for what is between names and numbers.
my $strings = join '', $source =~ s/" HOME_EXTENSION "/snowflake_home/gr =~ s/\\"/"/gr, map { slurp_file($_) } glob 'install/*.sql';
my @messages = grep { / / && !/SELECT|\(/ } split(/\n/, $log_messages),
  quoted(map { $_->[0] } rows(tables('docs/operations.md', '(?:you see|message)'), tables('README.md', 'error')));
cmp_ok(scalar @messages, '>', 25, 'messages are quoted');
my @shown =
  map { /^(?:ERROR|LOG|WARNING|FATAL): +(.*)$/ } map { @{ $_->{lines} } }
  grep { $_->{mark} eq '' && !$_->{is_compared} } map { @{ $_->{blocks} } } @pages;
cmp_ok(scalar @shown, '>', 3, 'and shown, where no example raises them');
none(
	[
		grep {
			grep { /\w/ && $_ !~ $message_by_server && index($strings, $_) < 0 }
			  split /(?<=still waits for |not start again: )|(?= after \d)|\.\.\.|-?\d[\d.]*|"(?!snowflake\.|shared)[^"]+"|(?<=a)(?= database)|(?<=libraries") to /
		} uniq @messages, @shown
	],
	'messages that pages quote are in the source');

# Messages that send their reader to a page
my @sent = map { [ m{(docs/[\w-]+\.md|README\.md)}, m{\\"([^"\\]+)} ] }
  ("$source\n" . slurp_file('monitoring/alerts.yml')) =~ m{(\w[\w/-]*\.md, under \\"[^"]+|\\"[^"]+" in \w[\w/-]*\.md)}g;
cmp_ok(scalar @sent, '>=', 2, 'messages send their reader to a page');
none(
	[
		map { "$_->[0]: $_->[1]" } grep {
			my ($name, $heading) = @$_;
			!grep { $_->{text} eq $heading } map { @{ $_->{headings} } } grep { $_->{name} eq $name } @pages
		} @sent
	],
	'which has that heading');
my @named_pages = map { m{\b(docs/[\w-]+\.md|README\.md)}g } $source,
  map { slurp_file($_) }
  grep { -f } glob('*.control install/*.sql monitoring/* packaging/* packaging/*/* debian/control* META.json scripts/*');
cmp_ok(scalar @named_pages, '>', 3, 'other files name pages');
none([ uniq sort grep { !$page{$_} } @named_pages ], 'which exist');

my $queries = { map { %{ CPAN::Meta::YAML->read_string(slurp_file($_))->[0] } } glob 'monitoring/*_exporter.yml' };
my @metrics;
foreach my $query (sort keys %$queries)
{
	my (@labels, @values);

	foreach my $metric (@{ $queries->{$query}{metrics} })
	{
		my ($name) = keys %$metric;
		my $usage = $metric->{$name}{usage};

		if ($usage eq 'LABEL') { push @labels, $name; }
		else { push @values, [ "${query}_$name", lc $usage ]; }
	}
	push @metrics, map { join '|', @$_, join ', ', @labels } @values;
}
is( join("\n", sort map { join '|', map { s/`//gr } @$_[ 0 .. 2 ] } rows(tables('docs/monitoring.md', 'metric'))),
	join("\n", sort @metrics),
	'all metrics are in the reference, with type and labels');

my $alerts = CPAN::Meta::YAML->read_string(slurp_file('monitoring/alerts.yml'))->[0];
is( join("\n", sort map { "$_->[0]|$_->[1]" =~ s/`//gr } rows(tables('docs/monitoring.md', 'alert'))),
	join("\n", sort map { "$_->{alert}|$_->{labels}{severity}" } map { @{ $_->{rules} } } @{ $alerts->{groups} }),
	'all alerts are in the reference, with severity');

#
# 4. What is named
#

my %settings = map { $_ => 1 } split /\n/,
  $node->safe_psql('reference', q{SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%'});
$settings{$_} = 1 foreach $source =~ /DefineCustomStringVariable\("(snowflake\.\w+)"/g;
my %extensions = ((map { s/\.control$//r => 1 } glob '*.control'), snowflake_catalog => 1);
my (@called, @named);
foreach my $page (@pages)
{
	foreach my $n (1 .. @{ $page->{lines} })
	{
		my $line = $page->{lines}[ $n - 1 ] =~ s/\]\([^)]*\)/]/gr;

		push @called, map { [ "$page->{name}:$n", $_ ] } $line =~ /(?<![\w.])((?:\w*snowflake_\w+|id_range_for))\(/g;
		push @named, map { [ "$page->{name}:$n", $_ ] }
		  $line =~ /(?<![\w.\/-])((?:pg_stat_)?snowflake[_.]\w+(?:\.\w+)?)(?![\w(*])/g;
	}
}
cmp_ok(scalar @called, '>', 200, 'functions are named');
none(
	[ map { "$_->[0]: $_->[1]" } grep { !$functions{ $_->[1] } && !$foreign{ $_->[1] } } @called ],
	'all functions that are named exist');
none(
	[
		map { "$_->[0]: $_->[1]" } grep {
			my $name = $_->[1];
			!grep { $_->{$name} } \%functions, \%relations, \%settings, \%extensions, \%foreign
		} @named
	],
	'so do all settings, tables and views');

$node->stop;
done_testing();
