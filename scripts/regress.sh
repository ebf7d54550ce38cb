#!/usr/bin/env bash
# Run PostgreSQL's own regression tests twice, in databases without the extensions
# and in databases with them, and show the differences.
#
#   scripts/regress.sh [--keep] [--source DIR]
#
# In the second run the library is preloaded, and template1 has the extensions, so
# each database of the tests has them.  Only lists of the catalogs may differ.
# A test that fails in both runs belongs to another version than the server.
#
# The tests come from the source of Debian's package, or from --source DIR.
# --keep keeps the work folder.  PG_MAJOR=17 scripts/regress.sh uses that
# server version.  The exit status says whether the tests ran.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

keep=
tree=
while [ $# -gt 0 ]; do
	case $1 in
		--keep) keep=yes ;;
		--source) tree=${2:?--source needs a folder} && shift ;;
		--source=*) tree=${1#*=} ;;
		-h | --help) usage; exit ;;
		*) die "unknown argument $1; see --help" ;;
	esac
	shift
done
[ -z "$tree" ] || tree=$(cd "$tree" && pwd -P)

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major" libpq-dev

finish() {
	set +e
	stop_server immediate
	if [ -n "$keep" ]; then
		say "Kept: $work"
	else
		rm -rf "$work"
	fi
}
make_work
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

make_server_tree
find_pgxs
build_extension
find_tree

# The tests' own library, which no package has, beside those that they load too.
as_user mkdir "$work/lib"
as_user cp "$tree/src/test/regress/"regress.[ch] "$work/lib"
as_user tee "$work/lib/Makefile" >/dev/null <<-'MAKEFILE'
	MODULES = regress
	PGXS := $(shell $(PG_CONFIG) --pgxs)
	include $(PGXS)
MAKEFILE
as_user make -s -C "$work/lib" PG_CONFIG="$pg_config" with_llvm=no >"$work/lib.log" 2>&1 || {
	cat "$work/lib.log" >&2
	die "regress.so was not built"
}
as_user ln -s "$bin"/../lib/{refint,autoinc}.so "$work/lib"

# Run the tests on a server with settings from standard input and, in each new
# database, these extensions.  What they write comes into a folder of that name.
run_core() {
	local name=$1 extensions=$2 extension

	say "# $name ..."
	start_server
	for extension in $extensions; do
		as_user "$bin/psql" -Xq -d template1 -c "CREATE EXTENSION $extension"
	done
	as_user "$bin/psql" -Xq -d template1 -v ON_ERROR_STOP=1 <<-'SQL'
		CREATE DATABASE regression TEMPLATE template1;
		ALTER DATABASE regression SET bytea_output = 'hex';
		ALTER DATABASE regression SET timezone_abbreviations = 'Default';
	SQL
	as_user mkdir "$work/output"
	(cd "$work/output" && as_user "$pgxs/src/test/regress/pg_regress" --use-existing \
		--dbname=regression --bindir="$bin" --dlpath="$work/lib" --outputdir="$work/output" \
		--inputdir="$tree/src/test/regress" --schedule="$tree/src/test/regress/parallel_schedule") \
		>"$work/$name.log" 2>&1 || true
	[ -d "$work/output/results" ] || {
		cat "$work/$name.log" >&2
		die "the tests did not run"
	}
	grep -E '^(not ok |.*\.\.\. FAILED)' "$work/$name.log" || true
	grep -E ' tests (passed|failed)' "$work/$name.log"
	stop_server
	unset PGHOST PGPORT PGUSER
	as_user mv "$work/output/results" "$work/$name"
	as_user rm -rf "$work/data" "$work/output"
}

run_core without '' </dev/null
run_core with 'snowflake snowflake_registry' <<-'CONF'
	shared_preload_libraries = 'snowflake'
	snowflake.node_id = 24
CONF

say "# What differs"
if diff -r -U 3 without with; then
	say "Nothing."
fi
