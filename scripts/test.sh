#!/usr/bin/env bash
# Run all tests on throwaway servers: pg_regress, isolation, TAP.
#
#   scripts/test.sh [--keep] [--servers=17,18] [--short] [--packages] [--checks]
#                   [TAP test ...]
#
# --keep leaves the work folder, with logs and differences, and says where.
# --servers runs all of it on further server versions too, at the same time,
# each in a throwaway root of the Debian release that has it (needs root).
# There the models, the fuzzer and the benchmark, which are the same on each
# version, are left out (--leave-out=REGEX), of one not yet released and with
# --short also the tests that take long, and the order is another one
# (--rotate=1/3: begin after a third), so that what needs the whole machine does
# not coincide.
# --packages builds, installs and tests the Debian packages (package.sh).
# --checks looks with compilers, sanitizer, assertions and valgrind (checks.sh).
# With TAP tests named (t/001_settings.pl ...), runs only those.
# PG_MAJOR=17 scripts/test.sh takes that server version of this machine.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/roots.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

keep=
servers=()
packages=
apart='030_model|054_fuzz|120_bench'
long='003|01.|02[0236]|05[013]|06[023]|07.|08.|100'
short=
left_out=
rotate=0/1
checks=
beside=()
beside_pid=()
tap=()
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		--short) short=yes ;;
		--leave-out=*) left_out=${arg#*=} ;;
		--rotate=*) rotate=${arg#*=} ;;
		--packages) packages=yes ;;
		--checks) checks=yes ;;
		--servers=*) IFS=, read -r -a servers <<<"${arg#*=}" ;;
		-*) die "unknown option $arg" ;;
		*) tap+=("$arg") ;;
	esac
done

find_major
for i in "${!servers[@]}"; do
	suite_of "${servers[i]}" >/dev/null ||
		die "no release of Debian has PostgreSQL ${servers[i]}"
	[ "${servers[i]}" != "$pg_major" ] || unset "servers[i]"
done

# Is this TAP test among those to run?
wanted() {
	if [ ${#tap[@]} -eq 0 ]; then
		[[ -z $left_out || ! $(basename "$repo"/t/*_"$1".pl) =~ ^($left_out) ]]
	else
		[[ ${tap[*]} == *"$1"* ]]
	fi
}

# what is done beside needs these, too, and cannot wait for apt's lock
[ ${#servers[@]} -eq 0 ] || install_packages debootstrap
[ -z "$packages" ] || install_packages debootstrap git
needed=(gcc libc6-dev make procps "postgresql-$pg_major"
	"postgresql-server-dev-$pg_major" libpq-dev libipc-run-perl faketime)
! wanted model || needed+=(spin)
! wanted bench || needed+=(gnuplot-nox)
install_packages "${needed[@]}"

# libFuzzer and the sanitizers, for the clang that the server was built with.
clang=$(dpkg-query -W -f '${Depends}' "postgresql-server-dev-$pg_major" |
	sed -n 's/.*clang-\([0-9][0-9]*\).*/\1/p')
! wanted fuzz || [ -z "$clang" ] || install_packages "libclang-rt-$clang-dev"

finish() {
	set +e
	kill $(jobs -pr) 2>/dev/null
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
make_work
trap finish EXIT
trap 'exit 130' INT TERM

# Begin to run what has tests of its own beside these; its last line says how
# many.
begin() {
	local what=$1

	shift
	"$@" >"$work/beside-$what.log" 2>&1 </dev/null &
	beside+=("$what")
	beside_pid+=($!)
}

# All of this on another server version, in a root of its own.
run_elsewhere() {
	local major=$1 rotate=$2 root=$work/roots/$1 leave_out=$apart

	make_root "$root" "$(suite_of "$major")" || return
	[ -z "$short" ] || leave_out+="|$long"
	if [ "$(suite_of "$major")" = experimental ]; then
		leave_out="$apart|$long"
		in_root "$root" apt-get install -s -qq "postgresql-$major" \
			"postgresql-server-dev-$major" >/dev/null || {
			say "SKIPPED: the packages of PostgreSQL $major do not install"
			return 0
		}
	fi
	copy_sources as_root "$root/snowflake" &&
		in_root "$root" PG_MAJOR="$major" /snowflake/scripts/test.sh \
			--leave-out="$leave_out" --rotate="$rotate" "${tap[@]}"
}
for major in "${servers[@]}"; do
	begin "PostgreSQL $major" run_elsewhere "$major" \
		"$((${#beside[@]} + 1))/${#servers[@]}"
done
[ -z "$packages" ] || begin packages "$repo/scripts/package.sh" --work="$work/roots/packages"
[ -z "$checks" ] || begin checks "$repo/scripts/checks.sh"
make_server_tree
cd "$work"
pgbouncer=
monitoring=
node_path=
no_package=
{ wanted pooler || wanted clients; } && find_pgbouncer
wanted clients && find_clients
wanted monitoring && find_monitoring
wanted partman && find_extension partman
wanted cron && find_extension cron

say "# build, PostgreSQL $pg_major, all warnings as errors"
build_extension COPT="$warnings"
find_pgxs

if [ ${#tap[@]} -eq 0 ]; then
	start_server <<-'CONF'
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 24
		fsync = off
	CONF
	run_regress
	run_isolation
	stop_server
	unset PGHOST PGPORT PGUSER
fi

if [ ${#tap[@]} -eq 0 ]; then
	for test in "$source"/t/*.pl; do
		[[ -n $left_out && ${test##*/} =~ ^($left_out) ]] || tap+=("$test")
	done
	begin_at=$((${#tap[@]} * $rotate))
	tap=("${tap[@]:begin_at}" "${tap[@]:0:begin_at}")
fi
tap_env=(SNOWFLAKE_PGBOUNCER="$pgbouncer" SNOWFLAKE_MONITORING="$monitoring"
	SNOWFLAKE_NODE_PATH="$node_path" SNOWFLAKE_NO_PACKAGE="$no_package")
run_tap "${tap[@]}"

for i in "${!beside[@]}"; do
	status=0
	wait "${beside_pid[i]}" || status=$?
	say "# ${beside[i]}"
	cat "$work/beside-${beside[i]}.log"
	ended=$(tail -n 1 "$work/beside-${beside[i]}.log")
	if [[ $ended =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		[ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
	elif [ "$status" -ne 0 ] || [[ $ended != SKIPPED* ]]; then
		failed=$((failed + 1))
	fi
done

[ ${#beside[@]} -eq 0 ] || say "# all"
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
