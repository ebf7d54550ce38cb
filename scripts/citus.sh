#!/usr/bin/env bash
# Test what docs/citus.md says about Citus: a coordinator, two workers, and
# clones of these.
#
#   scripts/citus.sh DIR [--keep]
#
#   DIR      a source tree of https://github.com/citusdata/citus, 13.0 or newer
#   --keep   keep the work folder with all logs, and print its name
#
# It builds a copy of the source into a server tree of its own, and runs
# t/citus/*.pl there.  PG_MAJOR=17 scripts/citus.sh DIR uses that server version
# of this machine, which this Citus must support.  Takes 5 minutes on 2 idle cores.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

keep=
citus=
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		-*) usage; exit ;;
		*) citus=$(realpath "$arg") ;;
	esac
done
[ -f "$citus/src/backend/distributed/citus.control" ] || die "the first argument must be a source tree of Citus; see --help"

find_major
install_packages gcc libc6-dev make procps "postgresql-$pg_major" "postgresql-server-dev-$pg_major" \
	libpq-dev libipc-run-perl libicu-dev libkrb5-dev liblz4-dev libssl-dev libzstd-dev

finish() {
	set +e
	trap '' INT TERM HUP
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
trap 'exit 130' INT TERM HUP

# From 15.15 on the server has a function that Citus has for itself on 15.
build_citus() (
	cd "$work/citus" &&
		as_user sed -i 's/^have_createdb_privilege(void)$/citus_&/' src/include/pg_version_compat.h &&
		as_user ./configure PG_CONFIG="$pg_config" --without-libcurl with_llvm=no &&
		as_user nice make -s -j2 with_llvm=no extension &&
		as_user make -s with_llvm=no install-extension
)

say "# Citus $(sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" "$citus/configure"), PostgreSQL $pg_major"
make_server_tree
copy_sources as_user "$work/citus" "$citus"
build_citus >"$work/citus.log" 2>&1 || {
	tail -n 50 "$work/citus.log" >&2
	die "the build of Citus failed"
}
say "$(now)  Citus is built"

cd "$work"
build_extension
find_pgxs
run_tap $(cd "$repo" && echo t/citus/*.pl)
grep -E '^(not )?ok ' "$work/tap.log"
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
