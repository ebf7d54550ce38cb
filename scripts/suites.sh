# shellcheck shell=bash
# The tests, run on a server tree: pg_regress, isolation, TAP; and their
# counts.  Sourced after common.sh.

passed=0
failed=0
tap_env=()

# The warnings that a build may not have
warnings='-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers'

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

# What PGXS installs beside the server of pg_config
find_pgxs() { pgxs=$(dirname "$("$pg_config" --pgxs)")/../..; }

# A variable of the Makefile
make_variable() { make -s -C "$source" PG_CONFIG="$pg_config" "print-$1"; }

# pg_regress and isolation, on one server
run_suite() {
	local what=$1 program=$2 tests=$3 status=0

	say "# $what"
	(cd "$source" && as_user "$pgxs/src/test/$program" --bindir="$bin" \
		--inputdir="$source" --dbname=contrib_regression $tests) \
		>"$work/$what.log" 2>&1 || status=$?
	cat "$work/$what.log"
	[ "$status" -eq 0 ] || cat "$source/regression.diffs" "$source/output_iso/regression.diffs" 2>/dev/null || true
	count "$work/$what.log" '(^ok |\.\.\. ok)' '(^not ok |\.\.\. FAILED)' "$status"
}

run_regress() { run_suite regress regress/pg_regress "$(make_variable REGRESS)"; }

run_isolation() {
	as_user mkdir -p "$source/output_iso"
	run_suite isolation isolation/pg_isolation_regress \
		"--outputdir=output_iso $(make_variable ISOLATION_OPTS) $(make_variable ISOLATION)"
}

# TAP tests, by their paths, with the further environment tap_env.  One that
# hangs is ended; the longest takes a few minutes.
run_tap() {
	local status=0 limit='timeout --foreground -k 60 1200'

	say "# TAP"

	# Servers are killed, and not all are started again: what they share stays in
	# their data directories.
	echo "dynamic_shared_memory_type = mmap" | as_user tee "$work/tap.conf" >/dev/null
	{
		(cd "$source" && as_user env PATH="$bin:$PATH" TMPDIR="$work" TESTDIR="$work" \
			TESTDATADIR="$work/tmp_check" TESTLOGDIR="$work/tmp_check/log" \
			PG_REGRESS="$pgxs/src/test/regress/pg_regress" TEMP_CONFIG="$work/tap.conf" \
			PERL5LIB="$pgxs/src/test/perl:t" "${tap_env[@]}" \
			prove -v --timer --exec "$limit perl" "$@") 2>&1 || status=$?
		echo "$status" >"$work/tap.status"
	} | tee "$work/tap.log" |
		perl -ne 'BEGIN { $| = 1 } print if /^# \d+ (IDs|numbers) drawn/ || /^ok +\d+ ms/ ||
			!/^(ok|#|\d+\.\.) ?|^$/' || true
	status=$(cat "$work/tap.status")
	[ "$status" -eq 0 ] || {
		grep -A 12 '^ *not ok' "$work/tap.log" || true
		# what was found in place of what, and what a test that died said last
		sed -n 's|^[^ ]*t/\([^ /]*\)\.pl  *(Wstat: .*|\1|p' "$work/tap.log" | while read -r test; do
			log=$work/tmp_check/log/regress_log_$test
			say "## failures in t/$test.pl's log, and its end"
			grep -A 9 '#   Failed test' "$log" 2>/dev/null | head -n 100 || true
			tail -n 20 "$log" 2>/dev/null || true
		done
	}
	count "$work/tap.log" '^ok [0-9]+( - |$)' '^not ok ' "$status"
}

# End the servers of tests that were ended.  They work in their data directories.
end_servers() {
	local process data

	data=$(cd "$work" && pwd -P)/tmp_check
	for process in /proc/[0-9]*; do
		[[ $(readlink "$process/cwd") != "$data"/* ]] || kill -KILL "${process#/proc/}"
	done
}

# Servers that were killed and not started again, and libfaketime in them,
# leave shared memory behind.  Remove what is the user's, was made since the
# start, and nobody is attached to.  Not PostgreSQL.*: the user may have another
# server, some of whose files have nobody attached.
remove_shared_memory() {
	local uid file id

	uid=$(as_user id -u)
	awk -v uid="$uid" -v since="$started" \
		'NR > 1 && $4 < 4096 && $7 == 0 && $8 == uid && $14 >= since {print $2}' \
		/proc/sysvipc/shm | while read -r id; do as_user ipcrm -m "$id"; done
	find /dev/shm -maxdepth 1 -type f -uid "$uid" -newermt "@$started" \
		\( -name 'faketime_shm_*' -o -name 'sem.faketime_sem_*' \) |
		while read -r file; do
			grep -qsF "$file" /proc/[0-9]*/maps || rm -f "$file"
		done
}
