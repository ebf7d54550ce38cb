#!/usr/bin/env bash
# Measure what a key does to the pages of its index: page splits, size and density
# of the B-tree under snowflake IDs of several layouts, bigserial and UUIDs, with
# 1, 8 and 64 writers, and again with rows deleted.  It prints tables and writes
# them to bench/out/pages.md, with plots and all samples beside it.  bench/pages.md
# shows the results of a run, and explains them.
#
#   bench/pages.sh [--quick] [--only SECTION] [--rounds N] [--rows N]
#
#   --only inserts|slow|queue|random   only that section; may be repeated
#   --rounds N    rounds (default 3)
#   --rows N      rows of a fill with 100 rows a transaction (default 384000);
#                 with 1 row a quarter of it, in a slow fill and in a cycle
#                 with deletes a twentieth
#   --quick       a trial of two minutes: its figures mean nothing
#
# It takes about 25 minutes.  PG_MAJOR=17 bench/pages.sh uses that server version.
# The exit status is 0 if it could measure.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/pages.md

own_option() { false; }
read_options 'inserts slow queue random' 128000 "$@"

# Rows are a multiple of what 64 writers insert in a transaction each.
if [ -n "$quick" ]; then
	rounds=${rounds:-1} rows=${rows:-128000} cycles=4 writers="1, 8"
else
	rounds=${rounds:-3} rows=${rows:-384000} cycles=8 writers="1, 8, 64"
fi
declare -A fill_rows=(
	[1]=$((rows / 4 / 64 * 64))
	[100]=$((rows / 6400 * 6400))
	[cycle]=$((rows / 20 / 6400 * 6400))
)
slow_rate=2000

find_major
install_packages gcc libc6-dev make gnuplot-nox "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	rm -rf "$work"
}
make_bench_tree
settings+="
full_page_writes = off"
start_bench_server
sql -f "$bench/pages.sql"

# Go on with another layout.
use_layout() {
	sql -c "ALTER SYSTEM SET snowflake.layout = '$1'"
	as_user "$bin/pg_ctl" -D "$data" -l "$work/server.log" -w restart >/dev/null
	sql -c "SELECT snowflake_accept_layout()" -c "SELECT snowflake_nextval()" >/dev/null
}

# Fill a table: as fast as the writers can, or slowly, or in cycles where rows
# are deleted: in a queue the oldest, so that those of three cycles stay; else
# half of all.
fill() {
	local name=$1 writers=$2 nrows=$3 section=$4 round=$5
	local cycles=$cycles inserted=${fill_rows[cycle]} rate=() cycle before

	case $section in
		inserts) cycles=1 inserted=${fill_rows[$nrows]} ;;
		slow) cycles=1 rate=(-R $((slow_rate / nrows))) ;;
	esac
	sql -v name="$name" <<-'SQL'
		DROP TABLE IF EXISTS fill;
		SELECT format('CREATE TABLE fill (%s, n integer NOT NULL)', columns) FROM key WHERE name = :'name' \gexec
		CHECKPOINT;
	SQL
	for ((cycle = 1; cycle <= cycles; cycle++)); do
		before=$(sql -c "SELECT clock_timestamp(), pg_current_wal_flush_lsn()")
		case $section in
			queue) sql -c "DELETE FROM fill WHERE n <= $cycle - 3" -c "VACUUM fill" ;;
			random) sql -c "DELETE FROM fill WHERE random() < 0.5" -c "VACUUM fill" ;;
		esac
		sql -c "SELECT writer_script(key, $nrows, $cycle) FROM key WHERE name = '$name'" |
			run_pgbench "$writers" $((inserted / nrows / writers)) "${rate[@]}"
		sql -c "CALL note('$section', '$name', $writers, $nrows, $round, $cycle, $inserted,
			'${before%|*}', '${before#*|}')"
	done
}

for ((round = 1; round <= rounds; round++)); do
	say "# round $round of $rounds"
	while read -r -u 3 layout; do
		use_layout "$layout"
		while IFS='|' read -r -u 4 name writer nrows section; do
			fill "$name" "$writer" "$nrows" "$section" "$round"
		done 4< <(sql -c "
			SELECT name, writers, nrows, section
			FROM key, unnest(ARRAY[$writers]) AS writers, unnest(ARRAY[1, 100]) AS nrows, unnest(key.sections) AS section
			WHERE layout = '$layout' AND section = ANY (string_to_array('${sections[*]}', ' '))
			  AND (nrows = 100 OR section IN ('inserts', 'slow')) AND (writers = ${writers##* } OR section <> 'slow')
			ORDER BY random()")
	done 3< <(sql -c "SELECT layout FROM (SELECT DISTINCT layout FROM key) AS k ORDER BY random()")
done

disagreements=$(sql -c "SELECT * FROM disagreements()")
[ -z "$disagreements" ] || die "measures that should agree do not:
$disagreements"

#
# The report
#

# A table of measures by number of writers.  $1: section, $2: rows a transaction,
# then pairs of measure and heading.
by_writers() {
	local section=$1 nrows=$2 columns='' n

	shift 2
	while [ $# -gt 0 ]; do
		for n in ${writers//,/}; do
			columns+=", max(shown) FILTER (WHERE measure = '$1' AND writers = $n) AS \"$2, $n\""
		done
		shift 2
	done
	sql_table -c "SELECT name AS key$columns FROM result
		WHERE section = '$section' AND nrows = $nrows GROUP BY ord, name ORDER BY ord"
}

{
	cat <<-TEXT
		# Pages of an index, by its key

		$(run_conditions)
		- $rounds rounds, each with all fills in changing order. Figures are medians, with the spread in brackets if it is
		  more than 2% of the median.
		- $(sql -c "SELECT count(DISTINCT (section, name, writers, nrows, round)) FROM page_sample") fills. In all of them the splits, new roots and reused pages in the WAL add up to the size of the index, and
		  pgstatindex and bt_page_stats show the same density. Without deletes this is also the number of rows times their size.
	TEXT
	for section in "${sections[@]}"; do
		case $section in
			inserts)
				for nrows in 1 100; do
					printf '\n## Inserts, %s a transaction: %s rows\n\n' "$nrows" "${fill_rows[$nrows]}"
					by_writers "$section" "$nrows" density 'leaf density, %' splits 'splits per 1000 rows' bytes 'index bytes a row'
					printf '\nHow many leaf pages, in %%, are up to 60%%, 60 to 80%% and over 80%% full; leaf fragmentation:\n\n'
					by_writers "$section" "$nrows" half 'up to 60' most '60 to 80' full 'over 80' fragmentation fragmentation
					printf '\nWAL without full page images, and rows a second:\n\n'
					by_writers "$section" "$nrows" 'index WAL' 'index WAL bytes a row' WAL 'WAL bytes a row' 'rows a second' 'rows a second'
				done
				;;
			slow)
				for nrows in 1 100; do
					printf '\n## Inserts at %s rows a second, %s a transaction: %s rows\n\n' "$slow_rate" "$nrows" "${fill_rows[cycle]}"
					writers=${writers##* } by_writers "$section" "$nrows" density 'leaf density, %' splits 'splits per 1000 rows' bytes 'index bytes a row'
				done
				;;
			*)
				printf '\n## Deletes, %s: %s cycles of %s rows\n\n' "$section" "$cycles" "${fill_rows[cycle]}"
				by_writers "$section" 100 bytes 'index bytes a live row' density 'leaf density, %' splits 'splits per 1000 rows'
				;;
		esac
	done
} >"$report"

# The bars of a measure, a group for each key, in a panel for each number of
# rows a transaction.  $1: the measure, $2: what to call it, $3: the highest value.
plot_bars() {
	local nrows n

	for nrows in 1 100; do
		for n in ${writers//,/}; do
			sql -F $'\t' -c "SELECT replace(name, ' ', E'\\\\n'), value, least, most FROM result
				WHERE section = 'inserts' AND nrows = $nrows AND measure = '$1' AND writers = $n ORDER BY ord" >"$work/$nrows.$n"
		done
	done
	gnuplot <<-PLOT
		set terminal svg size 1000,800 font "sans-serif,12" background "white"
		set output "$bench/out/pages-$1.svg"
		set multiplot layout 2,1
		set style data histogram
		set style histogram errorbars gap 1 lw 1
		set style fill solid 0.9 border -1
		set boxwidth 0.9
		set bmargin 5.5
		set grid ytics
		set xtics scale 0
		set ytics nomirror
		set datafile separator "\t"
		set yrange [0:$3]
		set ylabel "$2"
		many = $(sql -c "SELECT count(*) - 0.5 FROM key WHERE draw IS NULL")
		set arrow from many, graph 0 to many, graph 1 nohead dashtype 2
		set key at screen 0.98, screen 0.99 horizontal
		do for [nrows in "1 100"] {
			set title nrows." row".(nrows eq "1" ? "" : "s")." a transaction"
			plot for [n in "${writers//,/}"] "$work/".nrows.".".n using 2:3:4:xtic(1) title n." writer".(n eq "1" ? "" : "s") \
				linecolor rgb (n eq "1" ? "#bdd7e7" : n eq "8" ? "#6baed6" : "#08519c")
			unset key
		}
	PLOT
}

# The size of the index by cycle, with 8 writers.
plot_cycles() {
	local section name

	for section in queue random; do
		sql -c "SELECT name FROM key WHERE '$section' = ANY (sections) ORDER BY ord" | while read -r name; do
			printf '"%s"\n' "$name"
			sql -F ' ' -c "SELECT cycle, percentile_cont(0.5) WITHIN GROUP (ORDER BY (pages + 1) * current_setting('block_size')::integer / live)
				FROM page_sample WHERE section = '$section' AND name = '$name' AND writers = 8 GROUP BY 1 ORDER BY 1"
			printf '\n\n'
		done >"$work/$section"
	done
	gnuplot <<-PLOT
		set terminal svg size 1000,460 font "sans-serif,12" background "white"
		set output "$bench/out/pages-deletes.svg"
		set multiplot layout 1,2 margins 0.07,0.79,0.12,0.92 spacing 0.07
		set grid
		set xlabel "cycle"
		set xtics 1
		set ylabel "index bytes a live row, 8 writers"
		set yrange [0:*]
		unset key
		color(i) = word("#c0c0c0 #d62728 #ff7f0e #6baed6 #08306b #2ca02c #9467bd #8c564b", i)
		# Curves that lie on each other: the wider one shows beside the other.
		width(i) = word("10 2 2 5 1.5 2 2 2", i) + 0
		do for [section in "queue random"] {
			set title (section eq "queue" ? "Queue: the oldest deleted, from cycle 4 on" : "Half of all rows deleted, from cycle 2 on")
			plot for [i = 1:$(sql -c "SELECT count(*) FROM key WHERE 'queue' = ANY (sections)")] "$work/".section index i - 1 \
				using 1:2 with linespoints lw width(i) pt i + 3 ps 0.8 linecolor rgb color(i) title columnheader(1)
			unset ylabel
			set key at screen 0.99, screen 0.9 samplen 2
		}
	PLOT
}

sql -c "COPY page_sample TO STDOUT (FORMAT csv, HEADER)" >"${report%.md}.csv"
if wanted inserts; then
	plot_bars density 'leaf density, %' 100
	plot_bars splits 'page splits per 1000 rows' 7
fi
if wanted queue && wanted random; then
	plot_cycles
fi

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
