# shellcheck shell=bash
# The tests, run on a server tree: pg_regress, isolation, TAP; and their
# counts.  Sourced after common.sh.

passed=0
failed=0
jobs=1
tap_env=()
tap_name=tap

# While the output of a job goes to its log, this is for whoever waits.
exec 9>&1

#
# Jobs: what runs at the same time, each with a log whose last line says how
# many passed, as "N passed, N failed", or SKIPPED.  Each is a process group, so
# that it ends with all that it started.
#
declare -A job_pid
with_failures=()

now() { printf '%(%T)T' -1; }

# Begin one: its name, and the command.
begin() {
	local what=$1

	shift
	set -m
	(passed=0 failed=0 && "$@") >"$work/job-$what.log" 2>&1 </dev/null &
	set +m
	job_pid[$what]=$!
	say "$(now)  $what: begun"
}

# Show what one said.
show() {
	say "# $1"
	cat "$work/job-$1.log"
}

# Wait for one, and add up what it counted.  What it said is shown now if all
# passed, and else by show_failed: whoever keeps a part of a long output keeps
# the end.
await() {
	local what=$1 status=0 failed_before=$failed ended

	wait "${job_pid[$what]}" || status=$?
	unset "job_pid[$what]"
	ended=$(tail -n 1 "$work/job-$what.log")
	if [[ $ended =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		[ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
	elif [ "$status" -ne 0 ] || [[ $ended != SKIPPED* ]]; then
		failed=$((failed + 1))
	fi
	if [ "$failed" -eq "$failed_before" ]; then
		show "$what"
	else
		with_failures+=("$what")
	fi
}

show_failed() {
	local what

	for what in "${with_failures[@]}"; do show "$what"; done
}

# End all that still run.
end_jobs() {
	local what

	for what in "${!job_pid[@]}"; do
		kill -TERM -- "-${job_pid[$what]}"
	done 2>/dev/null
}

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

	(cd "$source" && as_user "$pgxs/src/test/$program" --bindir="$bin" \
		--inputdir="$source" --dbname=contrib_regression $tests) \
		>"$work/$what.log" 2>&1 || status=$?
	cat "$work/$what.log"
	[ "$status" -eq 0 ] || cat "$source/regression.diffs" "$source/output_iso/regression.diffs" 2>/dev/null || true
	count "$work/$what.log" '(^ok |\.\.\. ok)' '(^not ok |\.\.\. FAILED)' "$status"
}

# All tests, or these
run_regress() { run_suite regress regress/pg_regress "${1:-$(make_variable REGRESS)}"; }

run_isolation() {
	as_user mkdir -p "$source/output_iso"
	run_suite isolation isolation/pg_isolation_regress \
		"--outputdir=output_iso $(make_variable ISOLATION_OPTS) ${1:-$(make_variable ISOLATION)}"
}

# All of both, or these of the first and those of the second
run_suites() {
	[ -z "$1" ] && [ -n "$2" ] || run_regress "$1"
	[ -n "$1" ] && [ -z "$2" ] || run_isolation "$2"
	say "$passed passed, $failed failed"
}

# Make what came out of these tests what is expected, where it differs.
accept_outputs() {
	local name result

	for name in "$@"; do
		for result in "$source"/{,output_iso/}results/"$name.out"; do
			[ -e "$result" ] && ! cmp -s "$result" "$repo/expected/$name.out" || continue
			cat "$result" >"$repo/expected/$name.out"
			say "Written anew: expected/$name.out"
		done
	done
}

# TAP tests, by their paths, with the further environment tap_env; $jobs at a
# time.  One that hangs is ended: the longest takes a few minutes, and twenty times
# that where all of CI has half a processor.  (The model checker has limits of its
# own.)  Standard output says which begins and ends, while they run, and then what
# failed and how many IDs were drawn.
run_tap() {
	local status=0 files=$work/$tap_name

	# Servers are killed, and not all are started again: what they share stays in
	# their data directories.
	echo "dynamic_shared_memory_type = mmap" | as_user tee "$files.conf" >/dev/null
	# what new servers are a copy of; see t/lib/SnowflakeTest.pm.  With the locale
	# that PostgreSQL::Test::Utils gives to initdb.
	as_user rm -rf "$files-template"
	as_user env -u LANGUAGE -u LC_ALL LC_MESSAGES=C "$bin/initdb" -D "$files-template" \
		-U snowflake_tester -A trust --no-sync --no-instructions >"$files-template.log" 2>&1 || cat "$files-template.log"
	as_user tee "$files-run" >/dev/null <<-'WRAPPER'
		#!/usr/bin/env bash
		printf '%(%T)T  %s begins\n' -1 "$1" >&9
		status=0
		limit=5400
		[[ $1 != t/models/* ]] || limit=0
		[ -z "${SNOWFLAKE_FAULT_ROUNDS:-}${SNOWFLAKE_FAULT_NUMBERS:-}${SNOWFLAKE_PATRONI_ROUNDS:-}" ] || limit=0
		timeout --foreground -k 60 "$limit" perl "$@" 9>&- || status=$?
		printf '%(%T)T  %s: %d s%s\n' -1 "$1" "$SECONDS" "$([ "$status" -eq 0 ] || echo ', FAILED')" >&9
		exit "$status"
	WRAPPER
	as_user chmod +x "$files-run"
	(cd "$source" && as_user env PATH="$bin:$PATH" TMPDIR="$work" TESTDIR="$work" \
		TESTDATADIR="$work/tmp_check" TESTLOGDIR="$work/tmp_check/log" \
		PG_REGRESS="$pgxs/src/test/regress/pg_regress" TEMP_CONFIG="$files.conf" \
		PERL5LIB="$pgxs/src/test/perl:t/lib" SNOWFLAKE_TEMPLATE="$files-template" "${tap_env[@]}" \
		prove -v --timer -j "$jobs" --exec "$files-run" "$@") >"$files.log" 2>&1 || status=$?
	perl -ne '$test = $1 if /^\[[\d:]+\] (\S+) \.+/; s/^ *#/$test:/ and print if /^ *# \d+ (IDs|numbers) drawn/' "$files.log"
	[ "$status" -eq 0 ] || {
		grep -A 12 '^ *not ok' "$files.log" || true
		sed -n '/^Test Summary Report/,$p' "$files.log"
		# what was found in place of what, and what a test that died said last
		sed -n 's|^[^ ]*/\([^ /]*\)\.pl  *(Wstat: .*|\1|p' "$files.log" | while read -r test; do
			log=$work/tmp_check/log/regress_log_$test
			say "## failures in $test.pl's log, and its end"
			grep -A 9 '#   Failed test' "$log" 2>/dev/null | head -n 100 || true
			tail -n 20 "$log" 2>/dev/null || true
		done
	}
	count "$files.log" '^ok [0-9]+( - |$)' '^not ok ' "$status"
}

run_tap_alone() {
	run_tap "$@"
	say "$passed passed, $failed failed"
}

# The models need no server, and both processors for minutes: beside the rest,
# with what it leaves.
run_models() {
	renice -n 10 "$BASHPID" >/dev/null
	tap_name=models
	run_tap_alone "$@"
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
