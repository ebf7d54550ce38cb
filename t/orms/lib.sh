# shellcheck shell=bash
# What the tests in t/orms share; scripts/orms.sh runs them.  A test is a file
# "run" that sources this, prints TAP, and ends with done_testing.  It runs as an
# unprivileged user in a copy of its folder, and connects as the role "app",
# which owns the database $PGDATABASE and may create others.  On the socket in
# $SUPERUSER_HOST, "postgres" may log in too.

set -euo pipefail

tests=0

# The tool and its version, for the report
version() { printf '# version: %s\n' "$*"; }

# The version of a package in node_modules
npm_version() { node -p "JSON.parse(fs.readFileSync('node_modules/$1/package.json')).version"; }

# One line of TAP: 0 if it passed, its name, and what there is to see if not
report() {
	tests=$((tests + 1))
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s\n' "$tests" "$2"
	else
		printf 'not ok %d - %s\n' "$tests" "$2"
		printf '%s\n' "$3" | sed 's/^/#   /'
	fi
}

done_testing() { printf '1..%d\n' "$tests"; }

# check NAME COMMAND ...: it succeeds.  $output keeps what it printed.
check() {
	local name=$1 status=0

	shift
	output=$("$@" 2>&1) || status=1
	report "$status" "$name" "$output"
}

# fails NAME PATTERN COMMAND ...: it fails, and says that (an extended regular
# expression)
fails() {
	local name=$1 pattern=$2

	shift 2
	if output=$("$@" 2>&1); then
		report 1 "$name" "succeeded: $output"
	else
		like "$name" "$output" "$pattern"
	fi
}

# is NAME GOT EXPECTED
is() {
	[ "$2" = "$3" ] && report 0 "$1" || report 1 "$1" "got:
$2
expected:
$3"
}

# like NAME GOT PATTERN, unlike NAME GOT PATTERN: extended regular expressions
like() { grep -qE -e "$3" <<<"$2" && report 0 "$1" || report 1 "$1" "no match for $3 in:
$2"; }
unlike() { grep -qE -e "$3" <<<"$2" && report 1 "$1" "a match for $3 in:
$2" || report 0 "$1"; }

sql() { psql -XAtq -v ON_ERROR_STOP=1 -c "$1"; }

# Another database, in place of the one before
new_database() {
	createdb "$1"
	export DATABASE_URL=${DATABASE_URL%/*}/$1 PGDATABASE=$1
}

# The members of the extension, in each schema
members() {
	sql "SELECT count(*), md5(string_agg(o, ' ' ORDER BY o)) FROM pg_depend d
		JOIN pg_extension e ON d.refobjid = e.oid, LATERAL pg_describe_object(d.classid, d.objid, 0) o
		WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'snowflake'"
}

# make_extension [SCHEMA]: as the role that owns the database.  Another schema than
# public comes last in the search_path of new sessions.
make_extension() {
	if [ $# -gt 0 ]; then
		sql "CREATE SCHEMA $1"
		sql "ALTER DATABASE $PGDATABASE SET search_path = public, $1"
	fi
	sql "CREATE EXTENSION snowflake ${1:+SCHEMA $1}"
	extension_is_in "${1:-public}"
}

# From now on its members must stay as they are
extension_is_in() {
	extension_schema=$1
	made=$(members)
}

# whole NAME: no member of the extension is gone, changed its name or its schema,
# and it draws.
whole() {
	local ids

	ids=$(sql "SELECT $extension_schema.snowflake_nextval() > 0" 2>&1) || true
	is "$1: the extension is whole" "$(members 2>&1) $ids" "$made t"
}

# An order of 2020, with a key that no double holds
old=100000000000000001
old_order() { sql "INSERT INTO orders (id, item) VALUES ($old, 'old')"; }

# works NAME COMMAND ...: a program that inserts an order with two lines and leaves
# their keys to the server, reads them back, and finds the orders of the last
# minute.  It prints all keys as it has them.
works() {
	check "$1: a program inserts and reads" "${@:2}"
	is "$1: it has the keys as they are, and the period" "$output" \
		"$(sql "SELECT format(E'order %s\nlines %s\nperiod %s', o.id, string_agg(l.id::text, ' ' ORDER BY l.id), o.id)
			FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.id ORDER BY o.id DESC LIMIT 1")"
}

# emptied NAME COMMAND ...: a program that truncates the tables, as suites of tests do
emptied() {
	check "$1: a program truncates its tables" "${@:2}"
	is "$1: they are empty" "$(sql 'SELECT count(*) FROM (SELECT id FROM orders UNION ALL SELECT id FROM lines) r')" 0
}

# page_shows SECTION FILE ...: what code docs/orms.md has in that section stands
# in these files.  Blank lines part pieces that may stand apart.
page_shows() {
	local section=$1

	shift
	check "what docs/orms.md shows of $section stands in $*" perl -0777 -e '
		my ($section, $page, @files) = @ARGV;
		sub slurp { open my $f, "<", $_[0] or die "$_[0]: $!\n"; local $/; <$f> }
		sub flat { join "\n", map { s/^\s+|\s+$//gr } split /\n/, $_[0] }
		my @texts = map { flat(slurp($_)) } @files;
		my ($text) = slurp($page) =~ /^## \Q$section\E\n(.*?)(?=^## |\z)/ms or die "no section $section\n";
		my ($count, $bad) = (0, 0);
		while ($text =~ /^ *```\w+[^\n]*\n(.*?)^ *```$/msg)
		{
			foreach my $piece (grep { /\S/ } split /\n\s*\n/, $1)
			{
				$count++;
				next if grep { index("\n$_\n", "\n" . flat($piece) . "\n") >= 0 } @texts;
				print "not there:\n$piece\n";
				$bad = 1;
			}
		}
		exit($bad || !$count);' "$section" ../../../docs/orms.md "$@"
}
