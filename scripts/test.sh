#!/usr/bin/env bash
# Run all tests on throwaway servers: pg_regress, isolation, TAP.
#
#   scripts/test.sh [--keep] [--servers=17,18] [--packages] [TAP test ...]
#
# --keep leaves the work folder, with logs and differences, and says where.
# --servers runs all of it on further server versions too, at the same time,
# each in a throwaway root of the Debian release that has it (needs root).
# --no-models leaves out t/030_model.pl, which is the same on each version.
# --packages builds, installs and tests the Debian packages (package.sh).
# With TAP tests named (t/001_settings.pl ...), runs only those.
# PG_MAJOR=17 scripts/test.sh takes that server version of this machine.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/roots.sh"

keep=
servers=()
packages=
models=yes
beside=()
beside_pid=()
tap=()
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		--no-models) models= ;;
		--packages) packages=yes ;;
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
[ ${#servers[@]} -eq 0 ] || install_packages debootstrap
install_packages gcc libc6-dev make procps "postgresql-$pg_major" \
	"postgresql-server-dev-$pg_major" libpq-dev libipc-run-perl faketime spin gnuplot-nox

# libFuzzer and the sanitizers, for the clang that the server was built with.
clang=$(dpkg-query -W -f '${Depends}' "postgresql-server-dev-$pg_major" |
	sed -n 's/.*clang-\([0-9][0-9]*\).*/\1/p')
[ -z "$clang" ] || install_packages "libclang-rt-$clang-dev"

# Servers that were killed and not started again, and libfaketime in them,
# leave shared memory behind.  Remove what is the user's, was made since the
# start, and nobody is attached to.
remove_shared_memory() {
	local uid file id

	uid=$(as_user id -u)
	awk -v uid="$uid" -v since="$started" \
		'NR > 1 && $4 < 4096 && $7 == 0 && $8 == uid && $14 >= since {print $2}' \
		/proc/sysvipc/shm | while read -r id; do as_user ipcrm -m "$id"; done
	find /dev/shm -maxdepth 1 -type f -uid "$uid" -newermt "@$started" \
		\( -name 'PostgreSQL.*' -o -name 'faketime_shm_*' -o -name 'sem.faketime_sem_*' \) |
		while read -r file; do
			grep -qsF "$file" /proc/[0-9]*/maps || rm -f "$file"
		done
}

# Is this TAP test among those to run?
wanted() { [ ${#tap[@]} -eq 0 ] || [[ ${tap[*]} == *"$1"* ]]; }

finish() {
	set +e
	if [ -n "$keep" ]; then
		stop_roots "$work/roots"
	else
		remove_roots "$work/roots"
	fi
	stop_server immediate
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
	local major=$1 root=$work/roots/$1

	make_root "$root" "$(suite_of "$major")" || return
	if [ "$(suite_of "$major")" = experimental ] &&
		! in_root "$root" apt-get install -s -qq "postgresql-server-dev-$major"; then
		say "SKIPPED: the packages of PostgreSQL $major do not install"
		return 0
	fi
	copy_sources "$root/snowflake" &&
		in_root "$root" PG_MAJOR="$major" /snowflake/scripts/test.sh --no-models "${tap[@]}"
}
for major in "${servers[@]}"; do
	begin "PostgreSQL $major" run_elsewhere "$major"
done
[ -z "$packages" ] || begin packages "$repo/scripts/package.sh" --work="$work/roots/packages"
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
build_extension COPT='-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers'

passed=0
failed=0
pgxs=$(dirname "$("$pg_config" --pgxs)")/../..

# Add up what a log says; a run that failed without saying so counts as one.
count() {
	local log=$1 ok=$2 not_ok=$3 status=$4 p f

	p=$(grep -cE "$ok" "$log" || true)
	f=$(grep -cE "$not_ok" "$log" || true)
	[ "$status" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	[ "$status" -ne 0 ] || [ "$p" -gt 0 ] || f=1
	passed=$((passed + p))
	failed=$((failed + f))
}

# pg_regress and isolation, on one server
run_regress() {
	local what=$1 program=$2 tests=$3 status=0

	say "# $what"
	(cd "$source" && as_user "$pgxs/src/test/$program" --bindir="$bin" \
		--inputdir="$source" --dbname=contrib_regression $tests) \
		>"$work/$what.log" 2>&1 || status=$?
	cat "$work/$what.log"
	[ "$status" -eq 0 ] || cat "$source/regression.diffs" "$source/output_iso/regression.diffs" 2>/dev/null || true
	count "$work/$what.log" '(^ok |\.\.\. ok)' '(^not ok |\.\.\. FAILED)' "$status"
}

if [ ${#tap[@]} -eq 0 ]; then
	start_server <<-'CONF'
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 24
		fsync = off
	CONF
	run_regress regress regress/pg_regress "$(make -s -C "$source" PG_CONFIG="$pg_config" print-REGRESS)"
	as_user mkdir -p "$source/output_iso"
	run_regress isolation isolation/pg_isolation_regress "--outputdir=output_iso $(make -s -C "$source" PG_CONFIG="$pg_config" print-ISOLATION_OPTS print-ISOLATION)"
	stop_server
	unset PGHOST PGPORT PGUSER
fi

say "# TAP"
if [ ${#tap[@]} -eq 0 ]; then
	for test in "$source"/t/*.pl; do
		[[ -z $models && $test == */030_model.pl ]] || tap+=("$test")
	done
fi
{
	status=0
	(cd "$source" && as_user env PATH="$bin:$PATH" TMPDIR="$work" TESTDIR="$work" \
		TESTDATADIR="$work/tmp_check" TESTLOGDIR="$work/tmp_check/log" \
		PG_REGRESS="$pgxs/src/test/regress/pg_regress" \
		SNOWFLAKE_PGBOUNCER="$pgbouncer" SNOWFLAKE_MONITORING="$monitoring" \
		SNOWFLAKE_NODE_PATH="$node_path" SNOWFLAKE_NO_PACKAGE="$no_package" \
		prove -v --timer -I "$pgxs/src/test/perl" -I t "${tap[@]}") 2>&1 || status=$?
	echo "$status" >"$work/tap.status"
} | tee "$work/tap.log" |
	perl -ne 'BEGIN { $| = 1 } print if /^# \d+ (IDs|numbers) drawn/ || /^ok +\d+ ms/ ||
		!/^(ok|#|\d+\.\.) ?|^$/' || true
status=$(cat "$work/tap.status")
[ "$status" -eq 0 ] || grep -A 12 '^ *not ok' "$work/tap.log" || true
count "$work/tap.log" '^ok [0-9]+( - |$)' '^not ok ' "$status"

for i in "${!beside[@]}"; do
	status=0
	wait "${beside_pid[i]}" || status=$?
	say "# ${beside[i]}"
	cat "$work/beside-${beside[i]}.log"
	ended=$(tail -n 1 "$work/beside-${beside[i]}.log")
	if [[ $ended =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
	elif [ "$status" -ne 0 ] || [[ $ended != SKIPPED* ]]; then
		failed=$((failed + 1))
	fi
done

[ ${#beside[@]} -eq 0 ] || say "# all"
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
