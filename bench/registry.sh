#!/usr/bin/env bash
# Show what renewing leases costs a registry: 1000 servers that renew their
# lease of a node number every 3 s, as they do, and the CPU time that the
# registry's backends take for it.  On a throwaway server.  Prints a table and
# writes it to bench/out/registry.md.
#
#   bench/registry.sh [--quick] [--rounds N] [--seconds N]
#
#   --rounds N    rounds (default 5)
#   --seconds N   of each (default 15)
#   --quick       a smoke run: its figures mean nothing
#
# PG_MAJOR=17 bench/registry.sh takes that server version.  The exit status says
# whether it could measure.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/registry.md

own_option() { false; }
read_options 'renewals' 1 "$@"

if [ -n "$quick" ]; then
	rounds=${rounds:-1} seconds=${seconds:-2}
else
	rounds=${rounds:-5} seconds=${seconds:-15}
fi
leases=1000
every=3
clients=10

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	rm -rf "$work"
}
make_bench_tree
settings+="
max_connections = 50"
start_bench_server
sql -c "CREATE EXTENSION snowflake" -c "CREATE EXTENSION snowflake_nodes" \
	-c "CREATE TABLE sample (rate float8, ms float8)"

# How server $1 renews, or claims at first.
request() {
	cat <<-SQL
		SELECT * FROM snowflake_lease_node(token => md5($1::text)::uuid, held => $1::integer, held_token => NULL,
		    remaining => '500 s', instance => 'i', max_node => 1023, lease_ttl => '10 min',
		    mark => (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 600000000,
		    clock => clock_timestamp(), clock_offset => '1 ms', layout => 'layout', host => 'server',
		    port => 5432, system_identifier => 1)
	SQL
}

# CPU time so far of backends that have ended, in ms: those that the postmaster has
# waited for.
cpu_ms() {
	local postmaster ticks

	postmaster=$(sed -n 1p "$data/postmaster.pid")
	ticks=$(sed "s/.*) //" "/proc/$postmaster/stat" | awk '{print $14 + $15}')
	echo $((ticks * 1000 / $(getconf CLK_TCK)))
}

say "# $leases leases, renewed every $every s: $rounds rounds of $seconds s"
request n | sed 's/^SELECT \* FROM/SELECT count(*) FROM generate_series(0, '$((leases - 1))') AS n,/' | sql >/dev/null
[ "$(sql -c "SELECT count(*) FROM snowflake_nodes WHERE state = 'live'")" -eq $leases ] || die "not all have a number"
sql -c "VACUUM ANALYZE"
for ((round = 0; round <= rounds; round++)); do
	before=$(cpu_ms)
	{
		echo "\\set n random(0, $((leases - 1)))"
		request ':n' | tr '\n' ' '
		echo ';'
	} | run_pgbench $clients "${seconds}s" -R $((leases / every))
	count=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/pgbench.log")
	# a backend is waited for when it ends
	until [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" -eq 0 ]; do
		sleep 0.1
	done
	[ "$round" -eq 0 ] ||
		sql -c "INSERT INTO sample VALUES ($(pgbench_tps), ($(cpu_ms) - $before) / $count.0)"
done

{
	cat <<-TEXT
		# Renewals of leases

		$(run_conditions)
		- Medians over $rounds rounds of $seconds s; in brackets the lowest and the highest.

	TEXT
	sql_table -c "SELECT round(percentile_disc(0.5) WITHIN GROUP (ORDER BY rate)) AS \"renewals a second\",
		format('%s (%s to %s)', round(percentile_disc(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 2),
		       round(min(ms)::numeric, 2), round(max(ms)::numeric, 2)) AS \"CPU ms a renewal\",
		round((percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) * $leases / $every / 10)::numeric, 1) AS \"% of a core for $leases servers\"
		FROM sample"
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
