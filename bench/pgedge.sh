#!/usr/bin/env bash
# Compare this extension with pgEdge's of the same name: cost of a call, 8 clients,
# insert rate, WAL, index.  Each runs in a server of its own, with the same
# settings.  It prints a table and writes it to bench/out/pgedge.md.
#
#   bench/pgedge.sh DIR [--quick] [--rounds N] [--seconds S] [--rows N] [--fsync]
#
#   DIR           a source tree of https://github.com/pgEdge/snowflake
#   the others    as in bench/run.sh

[ $# -gt 0 ] || set -- --help
[[ $1 == -* ]] || { pgedge=$(realpath "$1") && shift; }
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
out=$bench/out
report=$out/pgedge.md

own_option() { [ "$1" = --fsync ] && settings=${settings/fsync = off/fsync = on}; }
read_options all 10000 "$@"
[ -f "${pgedge:-}/snowflake.c" ] || die "the first argument must be a source tree of pgEdge's extension"
if [ -n "$quick" ]; then
	rounds=${rounds:-1} seconds=${seconds:-1} rows=${rows:-20000} call_rows=2000
else
	rounds=${rounds:-5} seconds=${seconds:-2} rows=${rows:-1000000} call_rows=160000
fi
rows=$((rows / 3200 * 3200))	# what 8 and 32 clients insert by the hundred
ids_at_once=2000

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	for work in "$own/pgedge" "$own"; do
		stop_server immediate
	done
	rm -rf "$own"
}

make_work
own=$work
trap finish EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$out"

say "# build, PostgreSQL $pg_major"
make_server_tree
cd "$work"
build_extension
start_bench_server
sql -f "$bench/setup.sql"

work=$own/pgedge
as_user mkdir "$work"
make_server_tree
copy_sources as_user "$work/source" "$pgedge"
as_user make -s -C "$work/source" USE_PGXS=1 PG_CONFIG="$pg_config" with_llvm=no install >"$work/build.log" 2>&1 || {
	cat "$work/build.log" >&2
	die "the build of pgEdge's extension failed"
}
start_server <<-CONF
	shared_preload_libraries = 'snowflake'
	snowflake.node = 1
	$settings
CONF
sql -f "$bench/setup.sql"
work=$own

seq 1 "$rows" | as_user tee "$own/copy.txt" >/dev/null

# Go to the server of a candidate, and say how it makes an ID.
go_to() {
	case $1 in
		snowflake) PGHOST=$own call="snowflake_nextval()" ;;
		pgEdge) PGHOST=$own/pgedge call="snowflake.nextval('snowflake.id_seq')" ;;
	esac
}

note() {
	local value

	value=$(sql -c "SELECT $3")
	PGHOST=$own sql -c "INSERT INTO sample VALUES ('$name', '$1', $2, $value)"
}

fill() {
	local way=$1 round=$2 in_one=$rows from

	sql -c "DROP TABLE IF EXISTS fill" \
		-c "CREATE TABLE fill (id bigint PRIMARY KEY DEFAULT $call, n integer NOT NULL)" -c "CHECKPOINT"
	from=$(sql -c "SELECT pg_current_wal_insert_lsn()")
	case $way in
		'INSERT SELECT') run_pgbench 1 1 <<<"INSERT INTO fill (n) SELECT generate_series(1, $rows);" ;;
		COPY) run_pgbench 1 1 <<<"COPY fill (n) FROM '$own/copy.txt';" ;;
		*' x 100')
			in_one=100
			run_pgbench "${way%% *}" $((rows / 100 / ${way%% *})) <<<"INSERT INTO fill (n) SELECT generate_series(1, 100);"
			;;
	esac
	note "$way: WAL bytes a row" "$round" "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$from') / $rows"
	note "$way: rows a second" "$round" "$(pgbench_tps) * $in_one"
	note "$way: index bytes a row" "$round" "pg_indexes_size('fill')::float8 / $rows"
	note "$way: density of the index, %" "$round" "avg_leaf_density FROM pgstatindex('fill_pkey')"
}

# Both in turn, the other one first in each round.
each() {
	local order='snowflake pgEdge' name

	[ $(($1 % 2)) -eq 0 ] || order='pgEdge snowflake'
	for name in $order; do
		go_to "$name"
		"${@:2}"
	done
}

draw() {
	sql -c "SELECT calls_query(\$\$$call\$\$, $ids_at_once / 25)" | run_pgbench 8 "${seconds}s"
	note '8 clients: million IDs a second' "$round" "$(pgbench_tps) * $ids_at_once / 1e6"
}

call_time() {
	sql <<-SQL
		CREATE OR REPLACE FUNCTION candidates(section text, nrows integer)
		RETURNS TABLE (figure text, query text, calls integer) LANGUAGE sql AS \$f\$
		    SELECT 'a call', calls_query(\$q\$$call\$q\$, nrows), 25 * nrows
		\$f\$;
		DELETE FROM sample WHERE section = 'calls';
		CALL measure_calls('calls', 1, $call_rows);
	SQL
	note 'a call, ns' "$round" "value FROM sample WHERE section = 'calls'"
}

for ((round = 1; round <= rounds; round++)); do
	say "# round $round of $rounds"
	each "$round" call_time
	each "$round" draw
	for way in 'INSERT SELECT' COPY '8 clients x 100' '32 clients x 100'; do
		each "$round" fill "$way" "$round"
	done
done

PGHOST=$own/pgedge
version=$(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'snowflake'")
PGHOST=$own
{
	cat <<-TEXT
		# Snowflake beside pgEdge's

		$(run_conditions)
		- pgEdge snowflake $version, \`snowflake.nextval()\`, runs in a server of its own with the same settings.
		- $rounds rounds, in which the two take turns; $rows rows; 8 clients draw for $seconds s. Figures are medians, in brackets
		  the lowest and the highest. The ratio is pgEdge's figure by snowflake's, the median of the ratios within each round.

	TEXT
	sql_table <<-'SQL'
		WITH pair AS (
		    SELECT figure, a.value AS ours, b.value AS theirs, min(a.ctid) OVER (PARTITION BY figure) AS ord
		    FROM sample AS a JOIN sample AS b USING (figure, round)
		    WHERE a.section = 'snowflake' AND b.section = 'pgEdge')
		SELECT figure AS measure,
		       format('%s (%s - %s)', readable(percentile_cont(0.5) WITHIN GROUP (ORDER BY ours)),
		              readable(min(ours)), readable(max(ours))) AS snowflake,
		       format('%s (%s - %s)', readable(percentile_cont(0.5) WITHIN GROUP (ORDER BY theirs)),
		              readable(min(theirs)), readable(max(theirs))) AS "pgEdge snowflake",
		       readable(percentile_cont(0.5) WITHIN GROUP (ORDER BY theirs / ours)) AS ratio
		FROM pair GROUP BY figure, ord ORDER BY ord;
	SQL
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
