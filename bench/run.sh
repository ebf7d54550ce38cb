#!/usr/bin/env bash
# Show the speed: snowflake_nextval() beside what else makes a key, on a
# throwaway server.  Prints tables and writes them to bench/out/report.md.
#
#   bench/run.sh [--quick] [--only SECTION] [--rounds N] [--rows N] [--profile]
#
#   --only calls|batch|limit|parallel|ranges|fill   only that section; may be repeated
#   --rounds N    rounds of each section (default 15; 3 of the fills)
#   --rows N      rows that a fill puts into a table (default 5000000; the
#                 partitioned table of "ranges" has four times as many)
#   --quick       a smoke run of seconds: its figures mean nothing
#   --profile     profile with perf; done anyway where an aim is missed
#
# PG_MAJOR=17 bench/run.sh takes that server version.  The exit status says
# whether it could measure, not what came out.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/report.md

profile=
own_option() { [ "$1" = --profile ] && profile=yes; }
read_options 'calls batch limit parallel ranges fill' 10000 "$@"

if [ -n "$quick" ]; then
	call_rounds=${rounds:-3} call_rows=2000 seconds=0.2 profile_seconds=1
	fill_rounds=${rounds:-1} rows=${rows:-20000} range_ms=20
else
	call_rounds=${rounds:-15} call_rows=40000 seconds=1 profile_seconds=3
	fill_rounds=${rounds:-3} rows=${rows:-5000000} range_ms=400
fi
clients=8

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
sql -f "$bench/setup.sql"

#
# Measuring.  The figures go into the table "sample".
#

measure_calls() {
	say "# $1: $call_rounds rounds"
	sql -c "CALL measure_calls('$1', $call_rounds, $call_rows)"
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

	say "# parallel: $call_rounds rounds"
	for ((round = 1; round <= call_rounds; round++)); do
		while read -r -u 3 backends call; do
			call_at_once "$call" "$backends" "$round"
		done 3< <(shuf -e "${calls[@]/#/1 }" "${calls[@]/#/2 }")
	done
}

# The same build but for the limit check, in a server of its own: sets without,
# its socket folder.
start_without_limit() {
	local header=$work/without/repo/src/reserve.h

	without=$work/without
	as_user mkdir -p "$without/repo"
	tar -C "$repo" --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . |
		as_user tar -C "$without/repo" --no-same-owner -xf -
	as_user sed -i 's/^\treturn time < pg_atomic_read.*limit);/\treturn true;/
		s/^\treturn time >= pg_atomic_read.*renew_at);/\treturn false;/' "$header"
	[ "$(grep -cE '^\sreturn (true|false);' "$header")" -eq 2 ] ||
		die "reserve.h has no limit check to leave out"
	(
		repo=$without/repo work=$without
		make_server_tree
		build_extension
		start_bench_server
		sql -f "$bench/setup.sql"
	)
}

measure_limit() {
	local round build host

	start_without_limit
	say "# limit: $call_rounds rounds"
	for ((round = 0; round <= call_rounds; round++)); do
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
	say "# ranges: $((4 * rows)) rows"
	sql -v rows=$((4 * rows)) -f "$bench/ranges.sql"
	say "# ranges: $call_rounds rounds"
	sql -c "CALL measure_ranges($call_rounds, $range_ms)"
}

declare -A key=(
	[bigserial]='bigserial'
	[snowflake]='bigint DEFAULT snowflake_nextval()'
	['gen_random_uuid()']='uuid DEFAULT gen_random_uuid()'
	['uuidv7()']='uuid DEFAULT uuidv7()'
	['bigserial and created_at']='bigserial'
)
keys=(bigserial snowflake 'bigserial and created_at' 'gen_random_uuid()')
has_uuidv7=$(sql -c "SELECT to_regproc('uuidv7') IS NOT NULL")
[ "$has_uuidv7" = f ] || keys+=('uuidv7()')

make_table() {
	sql -c "DROP TABLE IF EXISTS fill" -c "CHECKPOINT" \
		-c "CREATE TABLE fill (id ${key[$1]} PRIMARY KEY, n integer NOT NULL)"
	[ "$1" != 'bigserial and created_at' ] ||
		sql -c "ALTER TABLE fill ADD created_at timestamptz NOT NULL DEFAULT clock_timestamp()" \
			-c "CREATE INDEX ON fill (created_at)"
}

insert_statement() { echo "INSERT INTO fill (n) SELECT generate_series(1, $1);"; }

# Fill the table in one of the ways; round 0 is not noted.
fill() {
	local how=$1 kind=$2 round=$3 from to

	make_table "$kind"
	from=$(sql -c "SELECT clock_timestamp(), pg_current_wal_insert_lsn()")
	case $how in
		insert) sql -c "$(insert_statement "$rows")" ;;
		copy) sql -c "COPY fill (n) FROM '$work/copy.txt'" ;;
		'pgbench 1') run_pgbench $clients $((rows / 10 / clients)) <<<"INSERT INTO fill (n) VALUES (1);" ;;
		'pgbench 100') run_pgbench $clients $((rows / 100 / clients)) <<<"$(insert_statement 100)" ;;
	esac
	to=$(sql -c "SELECT clock_timestamp(), pg_current_wal_insert_lsn()")
	[ "$round" -gt 0 ] || return 0
	sql <<-SQL
		INSERT INTO sample
		SELECT '$how', '$kind, ' || measure, $round, value
		FROM (SELECT count(*)::float8 AS rows FROM fill) AS f,
		     pgstatindex('fill_pkey') AS i,
		     LATERAL (VALUES
		         ('rows a second', rows / extract(epoch FROM '${to%|*}'::timestamptz - '${from%|*}')),
		         ('WAL bytes a row', pg_wal_lsn_diff('${to#*|}', '${from#*|}') / rows),
		         ('index bytes a row', pg_indexes_size('fill') / rows),
		         ('leaf density, %', i.avg_leaf_density)) AS m (measure, value);
	SQL
}

measure_fill() {
	local round how kind

	say "# fill: $fill_rounds rounds of $rows rows"
	seq 1 "$rows" | as_user tee "$work/copy.txt" >/dev/null
	fill insert 'gen_random_uuid()' 0	# makes the files of the WAL
	for ((round = 1; round <= fill_rounds; round++)); do
		for how in "${fills[@]}"; do
			while read -r -u 3 kind; do
				fill "$how" "$kind" "$round"
			done 3< <(shuf -e "${keys[@]}")
		done
	done
}

#
# The report
#

fills=(insert copy 'pgbench 1' 'pgbench 100')
declare -A title=(
	[calls]="Cost of a call
25 calls a row, $call_rows rows; $call_rounds rounds. empty_call() is a C function
that does next to nothing: what the executor costs."
	[batch]="Cost of an ID in batches
As many IDs each way as above; $call_rounds rounds."
	[limit]="Cost of the limit check
snowflake_nextval(), 25 calls a row, $call_rows rows, beside a build without the check on a
server of its own; $call_rounds rounds."
	[parallel]="One backend and two at once
25 calls a row for $seconds s from a common instant; $call_rounds rounds. In the same loop the
last ID of each row, one in 25, is compared with clock_timestamp() right after it was drawn
(its cost is in the rate); these counts are of all rounds together. clock_timestamp()
shares nothing between backends: its ratio is what the machine gives two processes."
	[ranges]="Time ranges: id <@ period beside the condition on bigint written by hand
$((4 * rows)) rows in 100 partitions, one a day. The two forms take turns for $range_ms ms; $call_rounds rounds.
Planning is in it, but for the generic plan. By hand is id >= constant AND id < constant for the first
four, id >= lower(id_range_for(period)) AND id < upper(id_range_for(period)) for the others."
	[insert]="Fill: INSERT INTO t (n) SELECT generate_series(...)
$rows rows; $fill_rounds rounds."
	[copy]="Fill: COPY t (n) FROM a file
$rows rows; $fill_rounds rounds."
	['pgbench 1']="Fill: pgbench, 1 row a transaction
$clients clients, $((rows / 10)) rows; $fill_rounds rounds."
	['pgbench 100']="Fill: pgbench, 100 rows a transaction
$clients clients, $rows rows, each by one INSERT; $fill_rounds rounds."
)

heading() {
	cat <<-TEXT
		# Speed of snowflake

		$(run_conditions)
		- All candidates take turns in each round, in changing order. Values and ratios are medians
		  over the rounds, a ratio being that within a round.
		- Tables of a fill: (id KEY PRIMARY KEY, n integer NOT NULL); a checkpoint before each. Leaf
		  density is how full the pages of the key's index are: 90% where rows come in order.
		  "bigserial and created_at" has a column created_at timestamptz DEFAULT clock_timestamp()
		  with an index, which a snowflake key makes unnecessary.
		$([ "$has_uuidv7" = t ] || echo "- uuidv7(): not on this server.")
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
	local call kind

	printf '\n## Where the time goes\n'
	if ! command -v perf >/dev/null; then
		printf '\nNo perf on this machine.\n'
		return
	fi
	if [[ " ${sections[*]} " =~ \ (calls|batch|limit|parallel)\  ]]; then
		for call in 'snowflake_nextval()' 'clock_timestamp()' 'snowflake_nextval(1000)'; do
			profile "$call, 25 a row" "$(sql -c "SELECT calls_query('$call', 10000)")"
		done
	fi
	if wanted fill; then
		for kind in snowflake bigserial; do
			make_table "$kind"
			profile "INSERT, $kind" "$(insert_statement 100000)"
			make_table "$kind"
			profile "COPY, $kind" "COPY fill (n) FROM '$work/copy.txt'"
		done
	fi
}

for section in "${sections[@]}"; do
	case $section in
		calls | batch) measure_calls "$section" ;;
		*) "measure_$section" ;;
	esac
done

{
	heading
	for section in "${sections[@]}"; do
		if [ "$section" = fill ]; then
			for how in "${fills[@]}"; do
				table "$how"
			done
		else
			table "$section"
		fi
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
