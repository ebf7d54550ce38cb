#!/usr/bin/env bash
# Measure what a business key costs, beside snowflake_nextval() and the same key
# in PL/pgSQL, on a throwaway server.  It prints a table and writes it to
# bench/out/keys.md.
#
#   bench/keys.sh [--quick] [--rounds N]
#
#   --rounds N    rounds (default 15)
#   --quick       a trial of seconds: its figures mean nothing
#
# It takes about a minute.  PG_MAJOR=17 bench/keys.sh uses that server version.
# The exit status is 0 if it could measure, whatever the figures are.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/keys.md

own_option() { false; }
read_options 'keys' 1 "$@"

if [ -n "$quick" ]; then
	rounds=${rounds:-3} call_rows=2000
else
	rounds=${rounds:-15} call_rows=40000
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
sql -f "$bench/setup.sql" -f "$bench/keys.sql"

say "# keys: $rounds rounds"
sql -c "CALL measure_calls('keys', $rounds, $call_rows)"

{
	cat <<-TEXT
		# Business keys

		$(run_conditions)
		- 25 calls a row and $call_rows rows ($((call_rows / 20)) for the function in PL/pgSQL); the time of the executor is included.
		  In each of $rounds rounds all candidates take turns, in changing order. Values are medians over the rounds.

	TEXT
	sql_table -v section=keys -f "$bench/report.sql"
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
