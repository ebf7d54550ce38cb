#!/usr/bin/env bash
# Find errors that tests alone do not show: run them with a sanitizer, assertions
# and valgrind.
#
#   scripts/checks.sh [--keep] [--source DIR] [CHECK ...]
#
# compile   gcc and clang, all warnings as errors, for every installed server
# ubsan     the extension with gcc's sanitizer of undefined behaviour
# assert    a server built with assertions: regress, isolation, some TAP tests
# valgrind  that server under valgrind's memcheck: regress, isolation
#
# Without CHECK it runs all of them.  It builds the server with assertions from
# the source of Debian's package, or from --source DIR, the source of any
# supported PostgreSQL.  --keep keeps the work folder.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

# Short ones, that have something of every part of src/
tap=(t/001_settings.pl t/faults/021_worker.pl t/042_convert.pl t/faults/050_layouts.pl
	t/061_explain.pl t/faults/063_stats.pl t/faults/070_registry.pl t/faults/080_segments.pl)

keep=
tree=
checks=()
while [ $# -gt 0 ]; do
	case $1 in
		--keep) keep=yes ;;
		--source) tree=${2:?--source needs a folder} && shift ;;
		--source=*) tree=${1#*=} ;;
		compile | ubsan | assert | valgrind) checks+=("$1") ;;
		-h | --help) usage; exit ;;
		*) die "unknown argument $1; see --help" ;;
	esac
	shift
done
[ ${#checks[@]} -gt 0 ] || checks=(compile ubsan assert valgrind)
[ -z "$tree" ] || tree=$(cd "$tree" && pwd -P)

find_major
install_packages gcc libc6-dev make procps "postgresql-$pg_major" \
	"postgresql-server-dev-$pg_major" libpq-dev libipc-run-perl faketime

finish() {
	set +e
	stop_server immediate
	end_servers
	remove_shared_memory
	if [ -n "$keep" ]; then
		say "Kept: $work"
	else
		rm -rf "$work"
	fi
}
started=$(date +%s)
make_work
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

# Count what was looked at as passed, where the logs say nothing against it.
report() {
	local what=$1 logs=$2

	if [ -z "$logs" ]; then
		say "ok - $what"
		passed=$((passed + 1))
	else
		say "not ok - $what"
		printf '%s\n' "$logs"
		failed=$((failed + 1))
	fi
}

# pg_regress and isolation on a new server of the tree, with its log in the
# work folder.  Arguments go to pg_ctl.
run_on_server() {
	as_user rm -rf "$work/data" "$work/server.log"
	start_server "$@" <<-'CONF'
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 24
		fsync = off
	CONF
	run_regress
	run_isolation
}
stop_and_forget() {
	stop_server
	unset PGHOST PGPORT PGUSER
}

# What compilers say, over all of src/.
check_compile() {
	local config compiler cc major flags
	local not_clangs='-Wno-unknown-warning-option -Wno-ignored-attributes -Wno-cast-function-type-strict'

	compiler=$(dpkg-query -W -f '${Depends}' "postgresql-server-dev-$pg_major" |
		sed -n 's/.*\(clang-[0-9][0-9]*\).*/\1/p')
	[ -n "$compiler" ] || compiler=clang
	install_packages "$compiler"
	for config in /usr/lib/postgresql/*/bin/pg_config; do
		major=$(cut -d/ -f5 <<<"$config")
		[ -e "$(dirname "$("$config" --pgxs)")" ] || continue
		for cc in gcc "$compiler"; do
			flags=COPT=$warnings
			# The server's flags are gcc's, as are its macros.
			[ "$cc" = gcc ] || flags="CFLAGS=-std=gnu11 -O2 -fPIC $warnings $not_clangs"
			copy_sources as_user "$work/$cc-$major"
			as_user make -s -k -C "$work/$cc-$major" PG_CONFIG="$config" \
				with_llvm=no CC="$cc" "$flags" >"$work/$cc-$major.log" 2>&1 || true
			[ -e "$work/$cc-$major/snowflake.so" ] || echo "no library was made" >>"$work/$cc-$major.log"
			report "$cc, PostgreSQL $major: no warning" "$(cat "$work/$cc-$major.log")"
		done
	done
}

# Undefined behaviour.  The server's flags have -fwrapv, with which gcc does
# not look for signed overflow: what the extension computes does not need it.
# What is found is a line on standard error, which is the server's log.
check_ubsan() {
	make_server_tree
	find_pgxs
	build_extension COPT='-fno-wrapv -fsanitize=undefined,float-cast-overflow,float-divide-by-zero'
	nm -D "$source/snowflake.so" | grep __ubsan_handle >/dev/null ||
		report 'the sanitizer is built in' 'no __ubsan_handle in snowflake.so'

	run_on_server
	stop_and_forget
	run_tap "${tap[@]}"
	report 'no undefined behaviour' \
		"$(grep -rh 'runtime error: ' "$work/server.log" "$work/tmp_check/log" | sort | uniq -c)"
	as_user rm -rf "$source" "$server" "$work/tmp_check"
}

# Build the server with assertions, which knows of valgrind, once.
make_assert_server() {
	local build=$work/assert-build

	[ ! -e "$work/assert/bin/postgres" ] || return 0
	install_packages bison flex pkg-config libxml2-dev valgrind
	find_tree
	say "Building a server with assertions (this takes some minutes) ..."
	as_user mkdir -p "$build"
	tar -C "$tree" --exclude=./.git -cf - . | as_user tar -C "$build" --no-same-owner -xf -
	(
		cd "$build" &&
			{ [ ! -e GNUmakefile ] || as_user make -s distclean; } &&
			as_user ./configure -q --prefix="$work/assert" --enable-cassert --enable-debug \
				--enable-tap-tests --with-libxml --without-readline --without-zlib --without-icu \
				CPPFLAGS=-DUSE_VALGRIND CFLAGS=-Og &&
			as_user make -s -j "$(nproc)" &&
			as_user make -s install
	) >"$work/assert.log" 2>&1 || {
		tail -n 40 "$work/assert.log" >&2
		die "the server could not be built"
	}
	suppressions=$build/src/tools/valgrind.supp
	bin=$work/assert/bin
	pg_config=$bin/pg_config
	find_pgxs
	build_extension COPT="-Og $warnings"
}

# A failed assertion is a crash of the server, so the tests see it.
check_assert() {
	make_assert_server
	run_on_server
	stop_and_forget
	run_tap "${tap[@]}"
	report 'no assertion failed' \
		"$(grep -rh '^TRAP: ' "$work/server.log" "$work/tmp_check/log")"
}

# Reads of what nobody wrote, and accesses to what is not there.  The server
# tells valgrind what its memory contexts do.  Each process has its own log,
# which is empty where nothing was found.
check_valgrind() {
	local logs=$work/valgrind worker

	make_assert_server
	as_user mkdir -p "$logs"
	as_user tee "$work/valgrind-postgres" >/dev/null <<-WRAPPER
		#!/bin/sh
		exec valgrind --quiet --leak-check=no --trace-children=yes \\
			--suppressions=$suppressions --log-file=$logs/%p.log \\
			$bin/postgres "\$@"
	WRAPPER
	as_user chmod +x "$work/valgrind-postgres"
	# Ten million IDs take it minutes, and are a million times the same.
	as_user sed -i '/nextval(10000000)/d' "$source/sql/nextval.sql"
	as_user sed -i '/nextval(10000000)/,/^$/d' "$source/expected/nextval.out"
	run_on_server -t 300 -p "$work/valgrind-postgres"
	worker=$(as_user "$bin/psql" -XAt -d contrib_regression -c 'SELECT mark_writer_pid FROM pg_stat_snowflake') || true
	stop_and_forget
	report 'the worker ran under valgrind' \
		"$([ -e "$logs/$worker.log" ] || echo "there is no $logs/$worker.log")"
	report 'no error of memory' "$(cat "$logs"/*.log)"
}

for check in "${checks[@]}"; do
	say "## $check"
	SECONDS=0
	"check_$check"
	say "## $check: $SECONDS s, $passed passed, $failed failed so far"
done
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
