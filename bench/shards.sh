#!/usr/bin/env bash
# Measure how evenly id % n spreads rows, on a throwaway server.  Each transaction
# draws an order and its items in turn, with sequence_start at continue and at
# random; random numbers stand beside them.  It prints a table and writes it to
# bench/out/shards.md.
#
#   bench/shards.sh [--quick] [--only SESSIONS] [--rows N]
#
#   --only 1|8    only with 1 or 8 sessions; may be repeated
#   --rows N      orders of each kind (default 100000)
#   --quick       a trial of a minute: its figures mean little
#
# It takes 40 minutes.  PG_MAJOR=17 bench/shards.sh uses that server version.  The
# exit status is 0 if it could measure, whatever the figures are.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/shards.md

own_option() { false; }
read_options '1 8' 1000 "$@"
if [ -n "$quick" ]; then
	rows=${rows:-5000} counts='1 3'
else
	rows=${rows:-100000} counts='0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15'
fi

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	rm -rf "$work"
}
make_bench_tree
start_bench_server
sql -f "$bench/setup.sql" -f "$bench/shards.sql"

for start in continue random; do
	sql -c "ALTER SYSTEM SET snowflake.sequence_start = $start" -c 'SELECT pg_reload_conf()' >/dev/null
	until [ "$(sql -c 'SHOW snowflake.sequence_start')" = "$start" ]; do sleep 0.1; done
	for sessions in "${sections[@]}"; do
		say "# $start, sessions: $sessions"
		for items in $counts; do
			sql -c 'TRUNCATE orders, items'
			# so that 100000 orders fall into more than 20000 milliseconds
			pace='5, 1'
			[ "$sessions" -eq 1 ] || pace='1, 3'
			run_pgbench "$sessions" 1 <<<"CALL put_orders($((rows / sessions)), $items, $pace)"
			sql -c "CALL note_evenness('$start', $sessions, $items)"
		done
	done
done

{
	say "# How evenly id % n spreads rows"
	say
	run_conditions
	say "- $rows orders in each case. Figures are how many percent the fullest of n classes of id % n is above its share, at the worst n from 2 to 64."
	say '- continue and random are values of snowflake.sequence_start; chance is the same for random numbers.'
	say
	sql_table -c 'TABLE evenness_report'
} >"$bench/out/shards.tmp"
mv "$bench/out/shards.tmp" "$report"
cat "$report"
