#!/usr/bin/env bash
# Measure what numbers out of segments cost beside sequences, snowflake_nextval()
# and a clock read: the time of a call, the rate of 16 clients, their gaps and
# disorder, and the time of calls while the registry answers late.  One throwaway
# server gets its segments from its home database.  The second one uses the first
# as its registry.  It prints tables and writes them to bench/out/segments.md.
# bench/segments.md shows the results of a run.
#
#   bench/segments.sh [--quick] [--only SECTION] [--rounds N] [--rows N]
#
#   --only calls|clients|inserts|late|order   only that section; may be repeated
#   --rounds N    rounds of each section (default 15 of calls, 5 of clients and
#                 inserts, 3 of late and order)
#   --rows N      rows inserted, and numbers drawn to check their order (default
#                 160000)
#   --quick       a trial of a minute: its figures mean nothing
#
# It takes about 6 minutes.  PG_MAJOR=17 bench/segments.sh uses that server
# version.  The exit status is 0 if it could measure.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/segments.md

own_option() { false; }
read_options 'calls clients inserts late order' 16000 "$@"

if [ -n "$quick" ]; then
	call_rounds=${rounds:-2} rate_rounds=${rounds:-1} rounds=${rounds:-1} rows=${rows:-16000}
	call_rows=2000 statements=4 first_s=1 then_s=1
else
	call_rounds=${rounds:-15} rate_rounds=${rounds:-5} rounds=${rounds:-3} rows=${rows:-160000}
	call_rows=40000 statements=40 first_s=3 then_s=7
fi
clients=16
draws_at_once=10000

# For "order", where client c draws c + 1 numbers in each of so many transactions:
# odd, so that clients end with caches that differ in how full they are.
transactions=$((rows / (clients * (clients + 1) / 2) | 1))
drawn=$((transactions * clients * (clients + 1) / 2))
calls_a_second=2000

find_major
install_packages gcc libc6-dev make perl "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	work=$work/leaf stop_server immediate
	stop_server immediate
	[ -z "${proxy_PID:-}" ] || { eval "exec ${proxy[1]}>&-" && wait "$proxy_PID"; }
	rm -rf "$work"
}
make_bench_tree

#
# The servers: one is $PGHOST, the other $leaf, with a proxy between them.
#

# Let the registry's answers come at once ("pass") or so much later ("delay MS").
set_proxy() {
	[ "$1" != "${proxy_mode:-}" ] || return 0
	proxy_mode=$1
	echo "$1" >"$work/control.new"
	mv "$work/control.new" "$work/control"
	while [ -e "$work/control" ]; do
		kill -0 "$proxy_PID" || die "the proxy has ended"
		sleep 0.01
	done
}

start_servers() {
	settings+="
max_connections = 50"
	start_bench_server
	sql -f "$bench/setup.sql" -f "$bench/segments.sql" >/dev/null
	sql -c "CREATE DATABASE registry"
	PGDATABASE=registry sql -c "CREATE EXTENSION snowflake_registry"

	leaf=$work/leaf
	as_user mkdir -p "$leaf" "$work/proxy"
	coproc proxy { as_user perl "$source/t/lib/Proxy.pm" "$work/proxy/.s.PGSQL.5432" "$work/.s.PGSQL.5432" "$work/control"; }
	set_proxy pass
	(
		settings+="
snowflake.registry = 'host=$work/proxy port=5432 dbname=registry user=postgres'"
		work=$leaf
		start_bench_server
		sql -f "$bench/setup.sql" -f "$bench/segments.sql" >/dev/null
	)
}

#
# Measuring.  The figures go into the table "sample" of the first server, as
# "source, measure".
#

note() { sql -c "INSERT INTO sample VALUES ('$1', '$2, $3', $4, $5)"; }

# What is compared in a section, in another order each time.
sources() { sql -c "SELECT name FROM source WHERE ${1:-true} ORDER BY random()"; }

draw_of() { sql -c "SELECT draw FROM source WHERE name = '$1'"; }

declare -A waited
waited_query="SELECT format('%s of %s fetches came late, and calls waited %s ms for them.',
	waits, fetches, round(wait_time)) FROM pg_stat_snowflake_segments"

measure_calls() {
	say "# calls: $call_rounds rounds"
	sql -c "CALL measure_calls('home', $call_rounds, $call_rows)"
	PGHOST=$leaf sql -c "CALL measure_calls('registry', $call_rounds, $call_rows)"
	waited[home]=$(sql -c "$waited_query")
	waited[registry]=$(PGHOST=$leaf sql -c "$waited_query")
	PGHOST=$leaf sql -c "COPY sample TO STDOUT" | sql -c "COPY sample FROM STDIN"
}

# All clients do the same, with a source of numbers; $3 gives in one of its
# transactions so many of what "rate" tells.  Round 0 is not noted.
measure_rate() {
	local section=$1 times=$2 in_one=$3 rate=$4 round=$5 name=$6 from

	from=$(sql -c "SELECT pg_current_wal_insert_lsn()")
	run_pgbench "$clients" "$times"
	[ "$round" -gt 0 ] || return 0
	note "$section" "$name" "$rate" "$round" "$(pgbench_tps) * $in_one"
	note "$section" "$name" WAL "$round" \
		"pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$from') / ($clients * $times * $in_one)"
}

measure_clients() {
	local round name draw

	say "# clients: $rate_rounds rounds"
	for ((round = 0; round <= rate_rounds; round++)); do
		while read -r -u 3 name; do
			draw=$(draw_of "$name")
			sql -c "SELECT calls_query('${draw//\'/\'\'}', $draws_at_once / 25)" |
				measure_rate clients "$statements" "$draws_at_once" numbers "$round" "$name"
		done 3< <(sources)
	done
}

measure_inserts() {
	local round name

	say "# inserts: $rate_rounds rounds"
	for ((round = 0; round <= rate_rounds; round++)); do
		while read -r -u 3 name; do
			sql -c "DROP TABLE IF EXISTS fill" -c "CHECKPOINT" \
				-c "CREATE TABLE fill (id bigint PRIMARY KEY DEFAULT $(draw_of "$name"), n integer NOT NULL)"
			measure_rate inserts $((rows / clients / 4)) 1 rows "$round" "$name" \
				<<<"INSERT INTO fill (n) VALUES (1);"
		done 3< <(sources)
	done
}

# How many numbers below the next one nobody has got, now that the clients have
# gone, the server was stopped and started, or has crashed.
draw_into_table() {
	local name=$1 ending=$2 round=$3 draw insert pid i status=0

	draw=$(draw_of "$name")
	insert="INSERT INTO drawn SELECT clock_timestamp(), $draw, clock_timestamp() FROM generate_series(1, :client_id + 1);"
	sql -c "TRUNCATE drawn" -c "CALL begin_again('$name')"
	if [ "$ending" = crash ]; then
		# all numbers that were drawn are there, and all clients
		run_pgbench $clients $((transactions + 1)) -D done=0 2>/dev/null <<-SCRIPT &
			\\if :done < $transactions
			$insert
			\\set done :done + 1
			\\else
			SELECT pg_sleep(600);
			\\endif
		SCRIPT
		pid=$!
		until [ "$(sql -c "SELECT count(*) FROM drawn")" -eq $drawn ]; do
			kill -0 $pid || die "the clients have ended"
			sleep 0.1
		done
		as_user kill -9 "$(sql -c "SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'")"
		wait $pid 2>/dev/null || status=$?
		[ $status -ne 0 ] || die "the server did not crash"
		for ((i = 0; i < 600; i++)); do
			! "$bin/pg_isready" -q || break
			sleep 0.1
		done
	else
		run_pgbench $clients $transactions <<<"$insert"
	fi
	[ "$ending" != restart ] ||
		as_user "$bin/pg_ctl" -D "$data" -l "$work/server.log" -w restart >/dev/null
	note order "$name" "$ending" "$round" "$draw - 1 - (SELECT count(*) FROM drawn)"
	note order "$name" share "$round" "(SELECT share FROM disorder())"
	note order "$name" furthest "$round" "(SELECT furthest FROM disorder())"
}

measure_order() {
	local round name ending

	say "# order: $rounds rounds of $drawn numbers"
	for ((round = 1; round <= rounds; round++)); do
		for ending in gone restart crash; do
			while read -r -u 3 name; do
				draw_into_table "$name" $ending "$round"
			done 3< <(sources "name <> 'snowflake'")
		done
	done
}

# Calls at a rate: how long each took in the server, and for the client, from
# when it was due.
measure_latency() {
	local name=$1 seconds=$2 round=$3 waits
	local waits_query="SELECT waits FROM pg_stat_snowflake_segments WHERE tag = 'late'"

	waits=$(PGHOST=$leaf sql -c "$waits_query")
	rm -f "$work"/latency.*
	PGHOST=$leaf sql -c "TRUNCATE drawn"
	PGHOST=$leaf run_pgbench $clients $((calls_a_second * seconds / clients)) -R $calls_a_second \
		-l --log-prefix="$work/latency" \
		<<<"INSERT INTO drawn SELECT clock_timestamp(), snowflake_segment_nextval('late'), clock_timestamp();"
	waits=$(($(PGHOST=$leaf sql -c "$waits_query") - waits))
	sql -c "TRUNCATE latency, drawn"
	cat "$work"/latency.* | sql -c "COPY latency FROM STDIN (DELIMITER ' ')"
	PGHOST=$leaf sql -c "COPY drawn TO STDOUT" | sql -c "COPY drawn FROM STDIN"
	note late "$name" waits "$round" "$waits"
	sql -c "INSERT INTO sample
		SELECT 'late', '$name, ' || measure, $round, value
		FROM (VALUES ('due', ARRAY(SELECT us / 1000.0 FROM latency)),
		             ('call', ARRAY(SELECT 1000 * extract(epoch FROM done - begun) FROM drawn))) AS d (what, ms),
		     (VALUES ('p50', 0.5), ('p99', 0.99), ('p99.9', 0.999), ('max', 1)) AS p (share_name, share),
		     LATERAL (SELECT what || ' ' || share_name, percentile_disc(share) WITHIN GROUP (ORDER BY v)
		              FROM unnest(ms) AS v) AS m (measure, value)"
}

measure_late() {
	local round step late name

	say "# late: $rounds rounds"
	for ((round = 1; round <= rounds; round++)); do
		while read -r -u 3 step late; do
			name="step $step; $late ms"
			set_proxy pass
			PGHOST=$leaf sql -c "SELECT snowflake_segment_create('late', step => $step)" >/dev/null
			set_proxy "delay $late"
			PGHOST=$leaf sql -c "SELECT snowflake_segment_nextval('late')" >/dev/null
			measure_latency "$name; first" $first_s "$round"
			measure_latency "$name; then" $then_s "$round"
			set_proxy pass
			PGHOST=$leaf sql -c "SELECT snowflake_segment_drop('late', true)" >/dev/null
		done 3< <(shuf -e '2000 0' '2000 200' '100 0' '100 200')
	done
}

start_servers

# The order comes last: the servers do not go on as they were.
for section in calls clients inserts late order; do
	! wanted $section || "measure_$section"
done

#
# The report
#

# A section's table with a line a source: pairs of measure and heading.
by_source() {
	local section=$1 columns=''

	shift
	while [ $# -gt 0 ]; do
		columns+=", cell(VARIADIC array_agg(value) FILTER (WHERE measure = '$1')) AS \"$2\""
		shift 2
	done
	sql_table -c "SELECT s.name AS \" \"$columns
		FROM (SELECT *, substring(figure FROM '^(.*), ') AS name, substring(figure FROM ', ([^,]*)$') AS measure
		      FROM sample) AS s LEFT JOIN source USING (name)
		WHERE section = '$section' GROUP BY ord, s.name ORDER BY ord, s.name"
}

{
	cat <<-TEXT
		# Numbers out of segments

		$(run_conditions)
		- In each round all candidates take turns, in changing order. Figures are medians over the rounds, in
		  brackets the lowest and the highest.
	TEXT
	if wanted calls; then
		for section in home registry; do
			printf '\n## Cost of a call, segments from the %s\n' "${section/home/home database}"
			printf '25 calls a row and %s rows; the time of the executor is included. %s rounds.\n\n' "$call_rows" "$call_rounds"
			sql_table -v section="$section" -f "$bench/report.sql"
			printf '\n%s\n' "${waited[$section]}"
		done
	fi
	if wanted clients; then
		printf '\n## %s clients at once\n%s numbers a statement and %s statements a client; %s rounds.\n\n' \
			"$clients" "$draws_at_once" "$statements" "$rate_rounds"
		by_source clients numbers 'numbers a second' WAL 'WAL bytes a number'
	fi
	if wanted inserts; then
		printf '\n## %s clients insert one row a transaction\n%s rows; %s rounds.\n\n' \
			"$clients" $((rows / clients / 4 * clients)) "$rate_rounds"
		by_source inserts rows 'rows a second' WAL 'WAL bytes a row'
	fi
	if wanted late; then
		printf '\n## Calls while the registry answers late\n%s calls a second by %s clients, in the first %s s and the next %s s of a tag; ms; %s rounds.\n\n' \
			"$calls_a_second" "$clients" "$first_s" "$then_s" "$rounds"
		printf 'The call, as the server sees it:\n\n'
		by_source late 'call p50' p50 'call p99' p99 'call p99.9' p99.9 'call max' max waits 'calls that waited'
		printf '\nThe transaction, an INSERT, as the client sees it, from the moment when it was due:\n\n'
		by_source late 'due p50' p50 'due p99' p99 'due p99.9' p99.9 'due max' max
	fi
	if wanted order; then
		printf '\n## Order and gaps\n%s numbers drawn by %s clients, 1 to %s in a transaction; %s rounds.\n\n' \
			"$drawn" "$clients" "$clients" "$rounds"
		by_source order share 'out of order, %' furthest 'furthest behind' \
			gone 'lost when the clients disconnect' restart 'lost with a restart' crash 'lost in a crash'
	fi
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
