# The README says what is there: each function, view, setting, error, wait
# event and metric is in its reference as the server has it, what it names
# exists, its links lead somewhere, and its examples run, in the order of the
# page, with the output shown.
#
# An example is a block that is marked as sql, or one in which a line begins
# with psql's prompt.  A block without a mark right below the first kind is its
# output, from the end; the second kind has its outputs in it.  "..." in an
# output stands for any lines.  A comment in the first line says where an
# example does not run in the database postgres:
#
#   -- in the database NAME     there; "in a new database" is one of its own
#   -- with NAME                not here, as that is another extension

use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use IPC::Run;
use List::Util qw(uniq);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SnowflakeTest;

# Other extensions, which have tests of their own or none.
my %other = map { $_ => 1 } 'pg_cron', 'pg_partman', "pgEdge's snowflake";

# Names of pgEdge's extension, of a role in the examples, and of a package.
my %foreign = map { $_ => 1 } qw(snowflake.nextval snowflake.node snowflake_server snowflake_17);

# Errors that the server itself raises.
my @by_server = qw(23514 42883 57014);

# An output that is not the same twice, so that only its shape is compared.
my $varies = qr/now\(\)|nextval|snowflake_key\(|snowflake_check|pg_stat_|item\)\ VALUES|
  snowflake_partitions|snowflake_convert|snowflake_nodes/x;

#
# The page: its headings, tables and blocks
#

my @lines = split /\n/, slurp_file('README.md');
my (@headings, @tables, @blocks, @prose);
{
	my ($block, $table);
	my $heading = '';

	foreach my $n (1 .. @lines)
	{
		my $line = $lines[ $n - 1 ];

		if ($block)
		{
			if ($line =~ /^\s*```$/)
			{
				$block->{end} = $n;
				push @blocks, $block;
				undef $block;
			}
			else
			{
				push @{ $block->{lines} }, $line =~ s/^\s{0,$block->{indent}}//r;
			}
			next;
		}
		if ($line =~ /^(\s*)```(\w*)$/)
		{
			$block = { indent => length $1, mark => $2, line => $n, lines => [] };
			next;
		}
		undef $table if $line !~ /^\|/;
		if ($line =~ /^(#+) (.*)$/)
		{
			$heading = $2;
			push @headings, { level => length $1, text => $2, anchor => anchor($2) };
		}
		elsif ($line =~ /^\|(.*)\|$/)
		{
			my @cells = map { s/^\s+|\s+$//gr } split /\|/, $1, -1;

			if (!$table)
			{
				$table = { heading => $heading, line => $n, head => \@cells, rows => [] };
				push @tables, $table;
			}
			elsif ($line !~ /^[|\s-]+$/)
			{
				is(scalar @cells, scalar @{ $table->{head} }, "line $n: as many cells as columns")
				  if @cells != @{ $table->{head} };
				push @{ $table->{rows} }, \@cells;
			}
		}
		push @prose, [ $n, $line ];
	}
	is($block, undef, 'each block is closed');
	is_deeply([ map { $_->{line} } grep { !@{ $_->{lines} } } @blocks ], [], 'no block is empty');
}

# GitHub's rule.
sub anchor { return lc($_[0]) =~ s/[^\w\- ]//gr =~ s/ /-/gr; }

# The tables below a heading.
sub tables
{
	my ($heading) = @_;
	my @found = grep { $_->{heading} eq $heading } @tables;

	die "no table below $heading\n" unless @found;
	return @found;
}

# What is in code quotes.
sub quoted { return $_[0] =~ /`([^`]+)`/g; }

# The headings below one, of the next level.
sub below
{
	my ($heading) = @_;
	my ($level, @found);

	foreach my $h (@headings)
	{
		if (defined $level)
		{
			last if $h->{level} <= $level;
			push @found, $h->{text} if $h->{level} == $level + 1;
		}
		$level = $h->{level} if $h->{text} eq $heading;
	}
	return @found;
}

#
# Links, files, width
#

my %anchor;
$anchor{ $_->{anchor} }++ foreach @headings;
is_deeply([ grep { $anchor{$_} > 1 } sort keys %anchor ], [], 'no two headings have one anchor');

my @links;
foreach my $paragraph (@prose)
{
	push @links, map { [ $paragraph->[0], $_ ] } $paragraph->[1] =~ /\]\(([^)]+)\)/g;
}
cmp_ok(scalar @links, '>', 100, 'there are links');
is_deeply(
	[
		map { "line $_->[0]: $_->[1]" }
		grep { $_->[1] =~ /^#(.*)/ ? !$anchor{$1} : $_->[1] !~ /^https:/ && !-e $_->[1] } @links
	],
	[], 'all links lead somewhere');

# The contents are the last list before the first section.
my ($first) = grep { $lines[$_] =~ /^## / } 0 .. $#lines;
my $contents = (split /\n\n/, join "\n", @lines[ 0 .. $first - 1 ])[-1];
my @contents = $contents =~ /\]\(#([^)]+)\)/g;
is_deeply(\@contents, [ map { $_->{anchor} } grep { $_->{level} > 1 } @headings ],
	'the table of contents has all headings, in their order');

my $folder = qr/(?:bench|debian|expected|monitoring|packaging|scripts|specs|sql|src|t)/;
my @files = uniq(map { /(?<![\w\/.])($folder\/[\w.*-]*\w)/g } @lines);
cmp_ok(scalar @files, '>', 10, 'files are named');
is_deeply([ grep { my ($file) = glob; !defined $file || !-e $file } @files ], [], 'all files that are named exist');

is_deeply(
	[
		map { $_->[0] }
		grep { length $_->[1] > 100 && $_->[1] =~ /^\s*\S+\s/ && $_->[1] !~ /^\|/ }
		map { [ $_->[0], $_->[1] =~ s/(\[[^\]]*\]\([^)]*\)|`[^`]*`)/'x' x length $1/ger ] } @prose
	],
	[], 'prose is wrapped at 100 columns');

#
# Examples
#

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake'
snowflake.node_id = 1
timezone = 'UTC'
fsync = off
CONF
$node->start;

sub run_psql
{
	my ($database, $sql) = @_;
	my $out;

	IPC::Run::run(
		[
			$node->installed_command('psql'), '-Xq', '-P', 'footer=off',
			'-v', 'VERBOSITY=default', '-d', $node->connstr($database)
		],
		'<', \$sql, '>', \$out, '2>&1',
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return [ grep { $_ ne '' } map { s/\s+$//r } split /\n/, $out ];
}

# What is left of an output when numbers, times and widths are taken away.
sub shape
{
	return map {
		s/\d[\d.:+]*(?:-[\d.:+-]+)?(?: \d+:[\d.:+-]+)?/N/gr
		  =~ s/-(?=N)//gr =~ s/N ?(?:bytes|kB|MB)/SIZE/gr =~ s/(?<=\])-+$//r =~ s/-{2,}/--/gr =~ s/#+/#/gr =~ s/\s+/ /gr =~ s/^ | $//gr
	} @_;
}

# The same lines, but for "..." in the expected ones.
sub same_lines
{
	my ($got, $expected) = @_;
	my $pattern = join '', map { $_ eq '...' ? '(?:.*\n)*' : quotemeta($_) . '\n' } @$expected;

	return join('', map { "$_\n" } @$got) =~ /\A$pattern\z/;
}

my %compared = (exactly => 0, 'in shape' => 0);

sub compare
{
	my ($block, $sql, $got, $expected) = @_;
	my @expected = grep { $_ ne '' } map { s/\s+$//r } @$expected;
	my $last = (split /;\n/, $sql)[-1];
	my $how = 'exactly';
	my $same = same_lines($got, \@expected);

	if (!$same && $last =~ $varies)
	{
		$how = 'in shape';
		$same = same_lines([ shape(@$got) ], [ shape(@expected) ]);
	}
	$compared{$how}++;
	ok($same, "line $block->{line}: the output is that shown")
	  or diag(join "\n", $sql, 'got:', @$got, 'shown:', @expected);
	return;
}

my ($new, @left_out) = (0);
foreach my $i (0 .. $#blocks)
{
	my $block = $blocks[$i];
	my @text = @{ $block->{lines} };

	if ($block->{mark} eq 'sql')
	{
		my $database = 'postgres';
		my $sql = join "\n", @text, '';

		if ($text[0] =~ /^-- with ([^,:]+)/)
		{
			ok($other{$1}, "line $block->{line}: $1 is another extension");
			push @left_out, $block->{line};
			next;
		}
		$database = $1 if $text[0] =~ /^-- in the database (\w+)/;
		$database = 'new' . ++$new if $text[0] =~ /^-- in a new database/;
		$node->safe_psql('postgres',
			"SELECT 'CREATE DATABASE $database' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '$database') \\gexec");
		my @got = @{ run_psql($database, $sql =~ s/\\watch \d+/\\g/gr) };
		my $next = $blocks[ $i + 1 ];
		my $output = $next->{mark} eq '' && $next->{line} == $block->{end} + 1
		  && !grep({ /^=# / } @{ $next->{lines} }) ? $next->{lines} : [];
		is_deeply(
			[ grep { /^(?:ERROR|FATAL|PANIC|psql:|invalid)/ } @got ],
			[ grep { /^ERROR/ } @$output ],
			"line $block->{line}: the example runs");
		next unless @$output;
		splice @got, 0, -@$output unless @got <= @$output || grep { $_ eq '...' } @$output;
		compare($block, $sql, \@got, $output);
	}
	elsif (grep { /^=# / } @text)
	{
		my (@statements, @outputs);
		my $open = 0;

		foreach my $line (@text)
		{
			if ($line =~ s/^=# //)
			{
				push @statements, $line;
				push @outputs, [];
				$open = 1;
			}
			elsif ($open)
			{
				$statements[-1] .= "\n$line";
			}
			else
			{
				push @{ $outputs[-1] }, $line;
			}
			$open = 0 if $line =~ /;$|\\gx$|\\g \(.*\)$|\\watch \d+$/;
		}
		my $got = run_psql('postgres', join "\\echo --8<--\n", map { s/\\watch \d+/\\g/r . "\n" } @statements);
		my @got = ([]);
		foreach my $line (@$got)
		{
			if ($line eq '--8<--') { push @got, []; }
			else { push @{ $got[-1] }, $line; }
		}
		compare($block, $statements[$_], $got[$_] // [], $outputs[$_]) foreach 0 .. $#statements;
	}
}
cmp_ok($compared{exactly}, '>', 15, 'outputs are compared');
note "$compared{exactly} outputs are as shown, $compared{'in shape'} in shape; left out: lines @left_out";

# Settings in examples of postgresql.conf: their values are checked when they are
# set, as at the server's start.
my @configured =
  grep { @$_ } map { [ /^(snowflake\.\w+) *= *'?((?<=')[^']*|[^\s']+)/ ] }
  map { @{ $_->{lines} } } grep { $_->{mark} eq 'ini' } @blocks;
cmp_ok(scalar @configured, '>', 5, 'settings are configured');
foreach my $setting (@configured)
{
	my ($status, $out, $err) =
	  $node->psql('postgres', "ALTER SYSTEM SET $setting->[0] = '$setting->[1]'");

	is($err, '', "$setting->[0] can be $setting->[1]");
}

#
# Objects
#

$node->safe_psql('postgres', 'CREATE DATABASE reference');
$node->safe_psql('reference',
	"CREATE EXTENSION $_") foreach qw(snowflake snowflake_registry snowflake_segments);

my $objects = <<'SQL';
SELECT e.extname, d.classid::regclass,
  CASE WHEN d.classid = 'pg_proc'::regclass THEN (SELECT proname FROM pg_proc WHERE oid = d.objid)
       WHEN d.classid = 'pg_class'::regclass THEN
         (SELECT regexp_replace(relnamespace::regnamespace::text, '^(public|pg_catalog)$', '') || '.' || relname
          FROM pg_class WHERE oid = d.objid AND relkind IN ('r', 'v', 'S')) END,
  d.objid
FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname LIKE 'snowflake%'
SQL
my (%functions, %relations);
foreach my $database ('reference', 'postgres')
{
	foreach my $row (split /\n/, $node->safe_psql($database, $objects))
	{
		my ($extension, $class, $name, $oid) = split /\|/, $row;

		next if $database eq 'postgres' && $extension ne 'snowflake_home';
		$functions{$name} = $extension if $class eq 'pg_proc';
		$relations{ $name =~ s/^\.//r } = $extension if $class eq 'pg_class' && $name ne '';
	}
}
cmp_ok(scalar keys %functions, '>', 50, 'the server has functions');
cmp_ok(scalar keys %relations, '>', 15, 'the server has tables and views');

my @groups = below('Functions');
my %internal = map { s/\(\)$//r => 1 }
  map { quoted($_->[0]) } map { @{ $_->{rows} } } tables('What is not called by people');

# As the page writes them.
sub plain
{
	return $_[0] =~ s/timestamp with time zone/timestamptz/gr =~ s/::[\w ]+?(?=,|\)|$)//gr
	  =~ s/'(\d+)'/$1/gr =~ s/"//gr;
}

my (%documented, %granted);
foreach my $table (map { tables($_) } grep { $_ ne 'What is not called by people' } @groups)
{
	next unless $table->{head}[0] =~ /function/;
	foreach my $row (@{ $table->{rows} })
	{
		my ($signature) = quoted($row->[0]);
		my ($result) = quoted($row->[1]);

		next unless $signature =~ /\(/;
		$documented{ plain($signature) } = plain($result);
		$granted{ plain($signature) } = $row->[0] !~ /¹/ if $table->{heading} ne 'Functions of the registry';
	}
}

my (%there, %public);
foreach my $row (
	split /\n/,
	$node->safe_psql('reference', <<'SQL'))
SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid), proretset,
  has_function_privilege('public', oid, 'EXECUTE')
FROM pg_proc WHERE oid IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_proc'::regclass
  AND refobjid IN (SELECT oid FROM pg_extension WHERE extname LIKE 'snowflake%'))
SQL
{
	my ($name, $arguments, $result, $set, $public) = split /\|/, $row;

	next if $internal{$name} && !grep { /^\Q$name\E\(/ } keys %documented;
	my @in = grep { !/^OUT / } split /, /, $arguments;
	my @out = map { s/^OUT //r } grep { /^OUT / } split /, /, $arguments;
	$result = ($set eq 't' ? 'setof ' : '') . '(' . join(', ', @out) . ')' if @out;
	my $signature = plain("$name(" . join(', ', @in) . ')');
	next if $internal{$name} && @in == 0 && $relations{$name};    # under the view
	$there{$signature} = plain($result =~ s/^SETOF/setof/r);
	$public{$signature} = $public eq 't' if exists $granted{$signature};
}
is_deeply(\%documented, \%there, 'all functions are in the reference, with arguments and result');
is_deeply(\%granted, \%public, 'those are marked that PUBLIC may not call');

my %views = map { $_ => 1 } below('Views and tables');
is_deeply(
	[ grep { !$views{$_} && !$internal{$_} } sort keys %relations ],
	[], 'all tables and views are in the reference');
is_deeply(
	[ grep { !$relations{$_} } sort keys %views ], [], 'and those in it exist');
is_deeply([ grep { !$relations{$_} && !$functions{$_} } sort keys %internal ],
	[], 'so does what people do not call');

foreach my $view (sort keys %views)
{
	my ($table) = tables($view);
	my @columns;

	foreach my $row (@{ $table->{rows} })
	{
		my @names = quoted($row->[0]);
		my @types = quoted($row->[1]);

		@types = (@types) x @names if @types == 1;
		push @columns, map { "$names[$_] $types[$_]" } 0 .. $#names;
	}
	is( join("\n", @columns),
		plain($node->safe_psql('reference', <<SQL)), "columns of $view");
SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = '$view'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
SQL
}

my ($formats) = tables('snowflake_key_formats');
is( join(
		"\n",
		map { my $row = $_; map { "$_ $row->[2]" =~ s/`//gr } quoted($row->[0]) }
		  @{ $formats->{rows} }),
	$node->safe_psql('reference', <<'SQL') =~ s/'|::text//gr, 'defaults of formats');
SELECT attname || ' ' || coalesce(pg_get_expr(adbin, adrelid), '') FROM pg_attribute
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = 'snowflake_key_formats'::regclass AND attnum > 0 ORDER BY attnum
SQL

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

	return $text =~ /^(\d+)(ms|s|min|h|d)$/ ? $1 * $unit{$2} : $text;
}

my ($settings) = tables('Settings');
my @settings;
foreach my $row (@{ $settings->{rows} })
{
	my ($name) = quoted($row->[0]);
	my ($default, $values, $by) = map { s/`//gr } @$row[ 1 .. 3 ];

	$default = '' if $default eq 'empty';
	$values =
	    $values =~ /^(\S+) to (\S+)$/ ? number($1) . ' to ' . number($2)
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

is_deeply(
	[ sort map { quoted($_->[0]) } @{ (tables('Wait events'))[0]{rows} } ],
	[ sort(slurp_file('src/waits.c') =~ /"(Snowflake\w+)"/g) ],
	'all wait events are in the reference');

my ($checks) = grep { $_->{head}[0] eq 'check' } tables('Checks');
is( join("\n", map { quoted($_->[0]) } @{ $checks->{rows} }),
	$node->safe_psql('reference', 'SELECT "check" FROM snowflake_check() WITH ORDINALITY GROUP BY "check" ORDER BY min(ordinality)'),
	'all checks are in the reference');

my ($dialects) = tables('IDs of other systems');
my (@dialects, @examples);
foreach my $row (@{ $dialects->{rows} })
{
	my ($name, $layout) = map { s/`//gr } @$row[ 0, 1 ];
	my ($id, $time) = $row->[3] =~ /^(\d+): (.*)$/;

	push @dialects, "$name|$layout|$row->[2]";
	push @examples, "($id, '$name', timestamptz '$time+00')";
}
is( join("\n", @dialects),
	$node->safe_psql('reference', 'SELECT name, layout, epoch FROM snowflake_dialects') =~ s/( 00:00:00|(?<=16:00):00)?\+00$//gmr,
	'all dialects are on the page, with layout and epoch');
is( $node->safe_psql('reference', <<SQL), '', 'and an ID of each has the time shown');
SELECT * FROM (VALUES @{[join ', ', @examples]}) AS e (id, dialect, ts)
WHERE (snowflake_parse(id, dialect)).ts IS DISTINCT FROM ts
SQL

my ($include) = run_command([ 'pg_config', '--includedir-server' ]);
my %sqlstate = slurp_file("$include/utils/errcodes.h") =~ /^#define ERRCODE_(\w+) MAKE_SQLSTATE\(([^)]*)\)/mg;
s/[', ]//g foreach values %sqlstate;
my @raised = uniq sort @by_server, map { $sqlstate{$_} } map { /(?<!== )ERRCODE_(\w+)/g } split /\n/, $source;
is_deeply([ uniq sort map { split /, /, $_->[0] } map { @{ $_->{rows} } } tables('Errors') ],
	\@raised, 'all SQLSTATEs are in the reference');

# Messages are quoted with numbers and names in them: look for what is between.
my $strings = $source =~ s/" HOME_EXTENSION "/snowflake_home/gr =~ s/\\"/"/gr;
my @messages = grep { / / && !/SELECT|\(/ }
  (map { quoted($_->[1]) } @{ (tables('Log messages'))[0]{rows} }),
  (map { quoted($_->[0]) } @{ (tables('Runbook'))[0]{rows} });
cmp_ok(scalar @messages, '>', 15, 'messages are quoted');
is_deeply(
	[
		grep {
			grep { /\w/ && index($strings, $_) < 0 && !/^(?:permission|duplicate) / }
			  split /\.\.\.|-?\d[\d.]*|"(?!snowflake\.|shared)[^"]+"|(?<=a)(?= database)/, $_
		} @messages
	],
	[], 'messages that the page quotes are in the source');

# And all that the server's log can have must be quoted.
my @logged;
foreach my $report ($source =~ /\bereport\((.*?)\);\n/gs)
{
	next unless $report =~ /^[^,]*\b(?:LOG|WARNING)\b/;
	push @logged, $report =~ /errmsg\("((?:[^"\\]|\\.)*)"/g;
}
cmp_ok(scalar @logged, '>', 15, 'the server logs messages');
my $quoted = join "\n", map { quoted($_->[1]) } @{ (tables('Log messages'))[0]{rows} };
is_deeply(
	[
		grep {
			grep { index($quoted, $_) < 0 } split /%\w+/, s/\\"/"/gr
		} @logged
	],
	[], 'messages that the server logs are in the reference');

my @sections = $source =~ /in README\.md, under \\"([^"\\]+)/g;
cmp_ok(scalar @sections, '>', 0, 'a message sends its reader here');
is_deeply([ grep { my $name = $_; !grep { $_->{text} eq $name } @headings } @sections ],
	[], 'to sections that there are');

my $queries = CPAN::Meta::YAML->read_string(slurp_file('monitoring/postgres_exporter.yml'))->[0];
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
my ($metrics) = grep { $_->{head}[0] eq 'metric' } tables('Metrics and alerts');
is_deeply(
	[ sort map { join '|', map { s/`//gr } @$_[ 0 .. 2 ] } @{ $metrics->{rows} } ],
	[ sort @metrics ],
	'all metrics are in the reference, with type and labels');

my $alerts = CPAN::Meta::YAML->read_string(slurp_file('monitoring/alerts.yml'))->[0];
my ($table) = grep { $_->{head}[0] eq 'alert' } tables('Metrics and alerts');
is_deeply(
	[ sort map { "$_->[0]|$_->[1]" =~ s/`//gr } @{ $table->{rows} } ],
	[
		sort map { "$_->{alert}|$_->{labels}{severity}" }
		  map { @{ $_->{rules} } } @{ $alerts->{groups} }
	],
	'all alerts are in the reference, with severity');

#
# What is named
#

my %settings = map { $_ => 1 } split /\n/,
  $node->safe_psql('reference', q{SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%'});
$settings{$_} = 1 foreach $source =~ /DefineCustomStringVariable\("(snowflake\.\w+)"/g;
my %extensions = map { s/\.control$//r => 1 } glob '*.control';
my (@called, @named);
foreach my $n (1 .. @lines)
{
	my $line = $lines[ $n - 1 ] =~ s/\]\([^)]*\)/]/gr;

	push @called, map { [ $n, $_ ] } $line =~ /(?<![\w.])((?:\w*snowflake_\w+|id_range_for))\(/g;
	push @named, map { [ $n, $_ ] } $line =~ /(?<![\w.\/-])((?:pg_stat_)?snowflake[_.]\w+(?:\.\w+)?)(?![\w(*])/g;
}
cmp_ok(scalar @called, '>', 200, 'functions are named');
is_deeply(
	[ map { "line $_->[0]: $_->[1]" } grep { !$functions{ $_->[1] } && !$foreign{ $_->[1] } } @called ],
	[], 'all functions that are named exist');
is_deeply(
	[
		map { "line $_->[0]: $_->[1]" } grep {
			my $name = $_->[1];
			!grep { $_->{$name} } \%functions, \%relations, \%settings, \%extensions, \%foreign, \%anchor
		} @named
	],
	[], 'so do all settings, tables and views');

$node->stop;
done_testing();
