#!/usr/bin/env bash
# Show what a business key costs, beside snowflake_nextval() and the same in
# PL/pgSQL, on a throwaway server.  Prints a table and writes it to
# bench/out/keys.md.
#
#   bench/keys.sh [--quick] [--rounds N]
#
#   --rounds N    rounds (default 15)
#   --quick       a smoke run of seconds: its figures mean nothing
#
# It takes about a minute.  PG_MAJOR=17 bench/keys.sh takes that server version.
# The exit status says whether it could measure, not what came out.

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
		- 25 calls a row, $call_rows rows (of the function in PL/pgSQL $((call_rows / 20))), executor included; $rounds rounds.
		  All candidates take turns in each round, in changing order. Medians over the rounds.

	TEXT
	sql_table -v section=keys -f "$bench/report.sql"
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
