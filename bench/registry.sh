#!/usr/bin/env bash
# Measure what it costs a registry to renew leases, on a throwaway server.  1000
# servers renew their lease of a node number every 3 s, with the statement that
# servers send.  The figure is the CPU time of the registry's backends.  One
# request in 40 asks about the other servers, as each server does every two
# minutes.  It prints a table and writes it to bench/out/registry.md.
#
#   bench/registry.sh [--quick] [--rounds N] [--seconds N]
#
#   --rounds N    rounds (default 5)
#   --seconds N   how long a round takes (default 15)
#   --quick       a trial: its figures mean nothing
#
# PG_MAJOR=17 bench/registry.sh uses that server version.  The exit status is 0 if
# it could measure.

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
sql -c "CREATE EXTENSION snowflake" -c "CREATE EXTENSION snowflake_registry" \
	-c "CREATE TABLE sample (rate float8, ms float8)"

# What a server sends, with :p1 for the first parameter and so on.
statement() {
	sed -n '/^#define REQUEST /,/^$/{s/LINK_PROTOCOL_ARGUMENT "/"protocol => 1,/; s/^[^"]*"\(.*\)"[^"]*$/\1/p}' \
		"$repo/src/lease_fetch.c" | tr -d '\n' | sed 's/%s//; s/\$\([0-9]\)/:p\1/g'
}

# What it sends there, but for the token and what changes from one request to the
# next.  It was granted the mark before, and its clock is near enough.
parameters() {
	local now

	now=$(date +%s)
	printf -- '-D\n%s\n' p3=0 p4=00000000-0000-0000-0000-00000000ffff p5=595000000 \
		p6=2f64b9e2-3f0b-4a07-9b1f-5d1d3f0a9c11 p7=1023 p8=600000000 "p9=$((now + 600))000000" \
		"p10=$(date -u -d "@$now" '+%Y-%m-%d %H:%M:%S.123456+00')" p11=1000 \
		'p12=reserved 1, time 41 ms, node 10, sequence 12 since 2024-01-01 00:00:00+00' \
		p13=server.example.com p14=5432 p15=7300000000000000000 p16=$leases p17=1
}

# How many renewals there were, and the CPU time in ns of pgbench's backends, which
# have to be there.
renewals() { sql -c "SELECT sum(renewals) FROM snowflake_node_lease"; }
cpu_ns() {
	local pid

	for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'"); do
		cat "/proc/$pid/schedstat"
	done | awk -v backends=$clients '{ns += $1} END {printf "%.0f", ns; exit NR != backends}'
}

say "# $leases leases, renewed every $every s: $rounds rounds of $seconds s"
mapfile -t parameters < <(parameters)
sql -c "SELECT count(snowflake_lease_node(1, lpad(n::text, 32, '0')::uuid, NULL, n, NULL, NULL, 'i', 1023, '10 min', 0, now(), NULL,
		'reserved 1, time 41 ms, node 10, sequence 12 since 2024-01-01 00:00:00+00', 'server', 5432, 1))
	FROM generate_series(0, $((leases - 1))) AS n" >/dev/null
[ "$(sql -c "SELECT count(*) FROM snowflake_nodes WHERE state = 'live'")" -eq $leases ] || die "not all have a number"
sql -c "VACUUM ANALYZE"
for ((round = 0; round < rounds; round++)); do
	{
		echo "\\set n random(0, $((leases - 1)))"
		echo "\\set p18 random(1, 40) = 1"
		echo "$(statement | sed "s/:p1::/lpad(:n::text, 32, '0')::/; s/:p2::/NULL::/");"
	} | run_pgbench $clients "$((seconds + 10))s" -R $((leases / every)) "${parameters[@]}" &
	# by then they have connected, and have planned for the last time
	sleep 3
	before=$(cpu_ns) || die "pgbench has not connected"
	renewed=$(renewals)
	sleep "$seconds"
	after=$(cpu_ns) || die "pgbench has ended too early"
	renewed=$(($(renewals) - renewed))
	wait $! || die "pgbench failed"
	sql -c "INSERT INTO sample VALUES ($renewed / $seconds.0, ($after - $before) / 1000000.0 / $renewed)"
done

{
	cat <<-TEXT
		# Renewals of leases

		$(run_conditions)
		- Figures are medians over $rounds rounds of $seconds s, in brackets the lowest and the highest.

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
