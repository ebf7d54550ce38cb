#!/usr/bin/env bash
# Measure what the parts of snowflake cost, on a throwaway server: IDs in batches,
# the test against the durable mark, sessions at once, time ranges.  It prints
# tables and writes them to bench/out/parts.md.  bench/run.sh compares snowflake
# with other keys.
#
#   bench/parts.sh [--quick] [--only SECTION] [--rounds N] [--rows N] [--profile]
#
#   --only batch|limit|parallel|ranges   only that section; may be repeated
#   --rounds N    rounds of each section (default 15)
#   --rows N      rows of the partitioned table of "ranges" (default 20000000)
#   --quick       a trial of seconds: its figures mean nothing
#   --profile     profile with perf, also if no aim is missed
#
# PG_MAJOR=17 bench/parts.sh uses that server version.  The exit status is 0 if it
# could measure, whatever the figures are.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/parts.md

profile=
own_option() { [ "$1" = --profile ] && profile=yes; }
read_options 'batch limit parallel ranges' 10000 "$@"

if [ -n "$quick" ]; then
	rounds=${rounds:-3} call_rows=2000 seconds=0.2 profile_seconds=1
	rows=${rows:-80000} range_ms=20
else
	rounds=${rounds:-15} call_rows=40000 seconds=1 profile_seconds=3
	rows=${rows:-20000000} range_ms=400
fi

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	work=$work/without stop_server immediate
	rm -rf "$work"
}
make_bench_tree
start_bench_server
sql -f "$bench/setup.sql" -f "$bench/parts.sql"

#
# Measuring.  The figures go into the table "sample".
#

measure_batch() {
	say "# batch: $rounds rounds"
	sql -c "CALL measure_calls('batch', $rounds, $call_rows)"
}

# Call in so many backends at once.
call_at_once() {
	local call=$1 backends=$2 round=$3 begin_at pids=() pid i

	begin_at=$(sql -c "SELECT clock_timestamp() + '200 ms'")
	for ((i = 0; i < backends; i++)); do
		sql -c "CALL measure_rate(\$\$$call\$\$, $backends, $round, '$begin_at', $seconds)" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || die "a backend failed"
	done
}

measure_parallel() {
	local round calls=('snowflake_nextval()' 'clock_timestamp()' "nextval('a_sequence')") backends call

	say "# parallel: $rounds rounds"
	for ((round = 1; round <= rounds; round++)); do
		while read -r -u 3 backends call; do
			call_at_once "$call" "$backends" "$round"
		done 3< <(shuf -e "${calls[@]/#/1 }" "${calls[@]/#/2 }")
	done
}

# The same build but for the limit check, in a server of its own: sets without,
# its socket folder.
start_without_limit() {
	local header=$work/without/repo/src/mark.h

	without=$work/without
	as_user mkdir -p "$without/repo"
	tar -C "$repo" --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . |
		as_user tar -C "$without/repo" --no-same-owner -xf -
	as_user sed -i 's/^\treturn unit < pg_atomic_read.*limit_unit);/\treturn true;/
		s/^\treturn unit >= pg_atomic_read.*renew_unit);/\treturn false;/' "$header"
	[ "$(grep -cE '^\sreturn (true|false);' "$header")" -eq 2 ] ||
		die "mark.h has no limit check to leave out"
	(
		repo=$without/repo work=$without
		make_server_tree
		build_extension
		start_bench_server
		sql -f "$bench/setup.sql" -f "$bench/parts.sql"
	)
}

measure_limit() {
	local round build host

	start_without_limit
	say "# limit: $rounds rounds"
	for ((round = 0; round <= rounds; round++)); do
		while read -r -u 3 build; do
			host=$work
			[ "$build" = with ] || host=$without
			PGHOST=$host sql -c "SELECT time_calls('snowflake_nextval()', $call_rows)" >"$work/ns"
			[ "$round" -eq 0 ] ||
				sql -c "INSERT INTO sample VALUES ('limit', '$build the limit check, ns a call', $round, $(cat "$work/ns"))"
		done 3< <(shuf -e with without)
	done
}

measure_ranges() {
	say "# ranges: $rows rows"
	sql -v rows="$rows" -f "$bench/ranges.sql"
	say "# ranges: $rounds rounds"
	sql -c "CALL measure_ranges($rounds, $range_ms)"
}

#
# The report
#

declare -A title=(
	[batch]="Cost of an ID in batches
25 calls a row and $call_rows rows; the other ways draw as many IDs. $rounds rounds."
	[limit]="Cost of the limit check
snowflake_nextval(), 25 calls a row and $call_rows rows, beside a build without the check in a
server of its own. $rounds rounds."
	[parallel]="One backend and two at once
Backends begin at the same moment and make 25 calls a row for $seconds s. $rounds rounds. Right after the
last ID of each row, one in 25, the loop compares it with clock_timestamp(). The rate includes
this, and the counts are of all rounds together. clock_timestamp() shares nothing between
backends, so its ratio shows what the machine gives two processes."
	[ranges]="Time ranges: snowflake_in(id, a, b) beside the condition on bigint written by hand
$rows rows in 100 partitions, one a day. The two forms take turns for $range_ms ms; $rounds rounds.
Times include planning, except for the generic plan. The condition by hand is id >= constant AND id < constant
for the first four, and id >= lower(id_range_for(a, b)) AND id < upper(id_range_for(a, b)) for the others."
)

heading() {
	cat <<-TEXT
		# What parts of snowflake cost

		$(run_conditions)
		- In each round all candidates take turns, in changing order. Values are medians over the rounds. A ratio
		  is the median of the ratios within each round.
	TEXT
}

# A section's table, as Markdown.
table() {
	printf '\n## %s\n%s\n\n' "${title[$1]%%$'\n'*}" "${title[$1]#*$'\n'}"
	sql_table -v section="$1" -f "$bench/report.sql"
}

# Where a backend spends its time in a statement, repeated until it is seen.
profile() {
	local client pid sort

	PGAPPNAME=profiled sql -c "DO \$\$BEGIN LOOP EXECUTE '${2//\'/\'\'}'; END LOOP; END\$\$" \
		>/dev/null 2>&1 &
	client=$!
	sleep 0.5
	pid=$(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'profiled'")
	printf '\n%s\n\n```\n' "$1"
	if [ -n "$pid" ] && perf record -q -o "$work/perf.data" -p "$pid" -- \
		sleep "$profile_seconds" >"$work/perf.log" 2>&1; then
		for sort in dso symbol,dso; do
			perf report -f -i "$work/perf.data" --stdio --sort $sort --percent-limit 1.5 2>/dev/null |
				sed '/^#/d; /^ *$/d; s/[ -]*$//'
			echo
		done
	else
		echo "perf could not record."
	fi
	printf '```\n'
	sql -c "SELECT pg_cancel_backend(${pid:-0})" >/dev/null
	wait "$client" || true
}

profiles() {
	local call

	printf '\n## Where the time goes\n'
	if ! command -v perf >/dev/null; then
		printf '\nThis machine has no perf.\n'
		return
	fi
	for call in 'snowflake_nextval()' 'clock_timestamp()' 'snowflake_nextval(1000)'; do
		profile "$call, 25 a row" "$(sql -c "SELECT calls_query('$call', 10000)")"
	done
}

for section in "${sections[@]}"; do
	"measure_$section"
done

{
	heading
	for section in "${sections[@]}"; do
		table "$section"
	done
} >"$report"
met=$(grep -c '| met' "$report" || true)
missed=$(grep -c '| MISSED' "$report" || true)
if [ "${sections[*]}" != ranges ] &&
	{ [ -n "$profile" ] || { [ -z "$quick" ] && [ "$missed" -gt 0 ]; }; }; then
	say "# profile"
	profiles >>"$report"
fi
printf '\nAims: %s met, %s missed.\n' "$met" "$missed" >>"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
