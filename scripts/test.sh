#!/usr/bin/env bash
# Run the tests on throwaway servers.
#
#   scripts/test.sh              before each commit: the build, pg_regress,
#                                isolation and t/*.pl.  2 to 6 minutes.
#   scripts/test.sh --full       everything, with faults, models, fuzzer and
#                                clients.  Half an hour to an hour.
#   scripts/test.sh TEST ...     the build, and these tests: t/002_slots.pl,
#                                sql/codec.sql, specs/sessions.spec
#
#   --accept         write the output of the named tests in sql/ and specs/ into
#                    expected/; then read it with git diff
#   --servers=17,18  test on these server versions as well, at the same time, each
#                    in a throwaway root of the Debian release that has it (needs
#                    root).  With --full, each test with faults or clients runs
#                    on one released version, chosen anew at each commit; one that
#                    is not released gets the quick tests.  On 18 and newer as
#                    with --image.
#   --image          install the extension not among the server's files, but in a
#                    folder that only root can write, as its image is mounted
#                    (18 or newer, needs root)
#   --packages       also build, install and test the Debian packages
#   --checks         also compilers, sanitizer, assertions, valgrind (an hour)
#   --jobs=N         so many TAP tests at the same time on a server version; the
#                    default is 4, with --full 2, with --servers 1
#   --keep           keep the work folder with all logs, and print its name
#
# PG_MAJOR=17 scripts/test.sh uses that server version of this machine.
# Times are for 2 idle cores, fast or slow, once the packages are installed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/roots.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

full=
servers=()
packages=
checks=
keep=
image=
jobs=
share=
accept=
named=()
tap=()
regress=()
isolation=()
for arg in "$@"; do
	case $arg in
		--full) full=yes ;;
		--servers=*) IFS=, read -r -a servers <<<"${arg#*=}" ;;
		--packages) packages=yes ;;
		--checks) checks=yes ;;
		--jobs=*) jobs=${arg#*=} ;;
		--share=*) share=${arg#*=} ;;
		--keep) keep=yes ;;
		--image) image=image ;;
		--accept) accept=yes ;;
		-h | --help) usage; exit ;;
		-*) die "unknown option $arg; see --help" ;;
		*) [ -f "$repo/$arg" ] || die "there is no test $arg"; named+=("$arg") ;;
	esac
	case $arg in
		-*) ;;
		sql/setup.sql) regress[0]=setup ;;
		sql/*.sql) regress[0]=setup regress+=("$(basename "$arg" .sql)") ;;	# which needs what setup makes
		specs/*.spec) isolation+=("$(basename "$arg" .spec)") ;;
		*.pl) tap+=("$arg") ;;
		*) die "$arg is not a test" ;;
	esac
done
[ -z "$accept" ] || {
	accept=$(printf '%s\n' "${named[@]}" | sed -nE 's/^(sql|specs)\/(.*)\..*/\2/p')
	[ -n "$accept" ] || die "--accept is for tests in sql/ and specs/ that are named"
}
if [ -z "$jobs" ]; then
	jobs=4
	[ -z "$full" ] || jobs=2
	[ ${#servers[@]} -eq 0 ] || jobs=1
fi
[[ $jobs =~ ^[1-9][0-9]?$ ]] || die "--jobs takes a number from 1 to 99"
[ -z "$share" ] || [[ $share =~ ^[1-9]/[1-9]$ ]] || die "--share takes two numbers, as in 1/3"

find_major
[ -z "$image" ] || { [ "$pg_major" -ge 18 ] && [ "$(id -u)" -eq 0 ]; } ||
	die "--image needs PostgreSQL 18 or newer, and root"
for i in "${!servers[@]}"; do
	suite_of "${servers[i]}" >/dev/null ||
		die "no release of Debian has PostgreSQL ${servers[i]}"
	[ "${servers[i]}" != "$pg_major" ] || unset "servers[i]"
done

# Versions side by side deal tests out: with --share=K/N, as versions elsewhere are
# told, each N-th is for this one, from the K-th on.  Those not yet released get
# none, since their packages may not install.
sharing=1
for major in "${servers[@]}"; do
	[ "$(suite_of "$major")" = experimental ] || sharing=$((sharing + 1))
done
turn=$(git -C "$repo" rev-list --count HEAD 2>/dev/null || echo 0)
share_of() { say "$((($1 + turn) % sharing + 1))/$sharing"; }

# The TAP tests to run: the largest files first, as they take longest.
models=()
if [ ${#named[@]} -eq 0 ]; then
	kinds=(t)
	[ -z "$full" ] || kinds+=(t/faults t/clients)
	[ -z "$full" ] || [ -n "$share" ] || {
		kinds+=(t/fuzz)
		mapfile -t models < <(cd "$repo" && ls t/models/*.pl)
	}
	mine=${share:-$(share_of 0)}
	mapfile -t tap < <(cd "$repo" && ls -S $(printf '%s/*.pl ' "${kinds[@]}") |
		awk -v elsewhere="$share" -v k="${mine%/*}" -v n="${mine#*/}" '
			/_(bench|beside|demo)\.pl$/ { if (!elsewhere) print; next }
			!/^t\/(faults|clients)\// || ++i % n == k % n')
fi
wanted() { [[ " ${tap[*]} ${models[*]}" == *"_$1.pl"* ]]; }

# What the tests need.  What is done beside needs mmdebstrap and git, and
# cannot wait for apt's lock.
needed=(gcc libc6-dev make procps "postgresql-$pg_major"
	"postgresql-server-dev-$pg_major" libpq-dev libipc-run-perl faketime)
[ ${#servers[@]} -eq 0 ] || needed+=(mmdebstrap)
[ -z "$packages" ] || needed+=(mmdebstrap git)
! wanted model || needed+=(spin)
! wanted patroni_hook || needed+=(python3-yaml openssl)
! wanted bench || needed+=(gnuplot-nox)
! wanted horizon || needed+=(gdb)
install_packages "${needed[@]}"

# libFuzzer and the sanitizers, for the clang that the server was built with.
clang=$(dpkg-query -W -f '${Depends}' "postgresql-server-dev-$pg_major" |
	sed -n 's/.*clang-\([0-9][0-9]*\).*/\1/p')
! wanted fuzz || [ -z "$clang" ] || install_packages "libclang-rt-$clang-dev"

finish() {
	set +e
	trap '' INT TERM HUP
	end_jobs
	if [ -n "$keep" ]; then
		stop_roots "$work/roots"
	else
		remove_roots "$work/roots"
	fi
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
# The quick test makes and removes the files of 150 databases: in memory, if there
# is plenty.
in_memory() {
	local free

	[ -z "$full$packages$checks$share$keep" ] && [ ${#servers[@]} -eq 0 ] && [ ${#named[@]} -eq 0 ] &&
		grep -q ' /dev/shm tmpfs ' /proc/mounts && ! grep -q ' /dev/shm .*noexec' /proc/mounts &&
		free=$(df -k --output=avail /dev/shm | tail -n 1) && [ "$free" -gt 6000000 ] &&
		free=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo) && [ "$free" -gt 8000000 ]
}
[ -n "${TMPDIR:-}" ] || ! in_memory || export TMPDIR=/dev/shm
make_work
trap finish EXIT
trap 'exit 130' INT TERM HUP

if [ ${#named[@]} -gt 0 ]; then
	say "# PostgreSQL $pg_major: the build, and ${named[*]}"
else
	takes='2 to 6 minutes'
	[ -z "$full" ] || takes='half an hour to an hour'
	[ ${#servers[@]} -eq 0 ] || takes='an hour or two'
	[ -z "$checks" ] || takes='90 minutes or more'
	say "# PostgreSQL $pg_major${servers:+ (and ${servers[*]})}: the build, pg_regress, isolation, and ${#tap[@]} TAP"
	say "# tests, $jobs at a time.  This takes about $takes on 2 idle cores."
fi

# All of this on another server version, in a root of its own.
run_elsewhere() {
	local major=$1 share=$2 root=$work/roots/$1 full=$full image=

	[ "$major" -lt 18 ] || image=image
	make_root "$root" "$(suite_of "$major")" || return
	if [ "$(suite_of "$major")" = experimental ]; then
		full=
		in_root "$root" apt-get install -s -qq "postgresql-$major" \
			"postgresql-server-dev-$major" >/dev/null || {
			say "SKIPPED: the packages of PostgreSQL $major do not install"
			return 0
		}
	fi
	copy_sources as_root "$root/snowflake" &&
		in_root "$root" PG_MAJOR="$major" /snowflake/scripts/test.sh ${full:+--full} \
			${image:+--image} --jobs="$jobs" --share="$share" "${named[@]}"
}

# What runs beside; the last line of each says how many passed.
beside=()
n=0
for major in "${servers[@]}"; do
	n=$((n + 1))
	begin "PostgreSQL $major" run_elsewhere "$major" "$(share_of "$n")"
	beside+=("PostgreSQL $major")
done
[ -z "$packages" ] || {
	begin packages "$repo/scripts/package.sh" --work="$work/roots/packages"
	beside+=(packages)
}
[ -z "$checks" ] || {
	begin checks "$repo/scripts/checks.sh"
	beside+=(checks)
}

make_server_tree
cd "$work"
pgbouncer=
monitoring=
patroni=
node_path=
hibernate=
no_package=
! wanted pooler && ! wanted clients || find_pgbouncer
! wanted clients || find_clients
! wanted monitoring || find_monitoring
! wanted patroni && ! wanted patroni_registry || find_patroni
! wanted partman || find_extension partman
! wanted cron && ! wanted beside || find_extension cron
! wanted beside || {
	find_extension repack
	find_extension pg-stat-kcache pg_stat_kcache
	for extension in hypopg pgaudit pglogical; do find_extension "$extension" "$extension"; done
}

build_"${image:-extension}" COPT="$warnings -g0"
for name in $accept; do as_user touch "$source/expected/$name.out"; done
find_pgxs
say "$(now)  the build has no warning"

# What is begun here, in the order in which it is waited for
here=()
if [ ${#named[@]} -eq 0 ] || [ ${#regress[@]} -gt 0 ] || [ ${#isolation[@]} -gt 0 ]; then
	start_server <<-'CONF'
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 24
		fsync = off
		jit = off
	CONF
	here+=('pg_regress and isolation')
	begin 'pg_regress and isolation' run_suites "${regress[*]}" "${isolation[*]}"
	unset PGHOST PGPORT PGUSER
fi

tap_env=(SNOWFLAKE_PGBOUNCER="$pgbouncer" SNOWFLAKE_MONITORING="$monitoring" SNOWFLAKE_PATRONI="$patroni"
	SNOWFLAKE_NODE_PATH="$node_path" SNOWFLAKE_HIBERNATE="$hibernate" SNOWFLAKE_NO_PACKAGE="$no_package"
	${image:+SNOWFLAKE_IMAGE="$work/image"})
[ ${#tap[@]} -eq 0 ] || {
	here+=('TAP tests')
	begin 'TAP tests' run_tap_alone "${tap[@]}"
}
[ ${#models[@]} -eq 0 ] || {
	begin models run_models "${models[@]}"
	beside+=(models)
}

for what in "${here[@]}" "${beside[@]}"; do
	await "$what"
done
show_failed
accept_outputs $accept
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
