#!/usr/bin/env bash
# Compare snowflake with the other ways to make a key, on a throwaway server:
# bigserial, cached sequences, UUIDv4, UUIDv7 and a snowflake in PL/pgSQL.  It
# measures the cost of a call, clients at once, insert rate, WAL, index, a table
# larger than shared_buffers, and the rows of a period.  It prints tables and
# writes them to bench/out/report.md, with plots and all figures beside it.
# bench/report.md is the report of a run.
#
#   bench/run.sh [--quick] [--only SECTION] [--rounds N] [--seconds S] [--rows N] [--fsync]
#
#   --only calls|clients|inserts|large|times   only that section; may be repeated
#   --rounds N    rounds (default 5)
#   --seconds S   how long each run of pgbench takes (default 2)
#   --rows N      rows of a table that is filled (default 1000000)
#   --fsync       wait for the disk, as a real server does; without it the disk
#                 does not hide the differences
#   --quick       a trial of a minute or two: its figures mean nothing
#
# It takes 25 minutes, more on a busy machine.  PG_MAJOR=17 bench/run.sh uses
# that server version.  The exit status is 0 if no figure is missing, whatever
# the figures are.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
out=$bench/out
report=$out/report.md

own_option() { [ "$1" = --fsync ] && settings=${settings/fsync = off/fsync = on}; }
read_options 'calls clients inserts large times' 10000 "$@"

if [ -n "$quick" ]; then
	rounds=${rounds:-1} seconds=${seconds:-1} rows=${rows:-20000}
	call_rows=2000 clients='1 8' large_buffers=2MB
else
	rounds=${rounds:-5} seconds=${seconds:-2} rows=${rows:-1000000}
	call_rows=160000 clients='1 2 4 8 16 32' large_buffers=8MB
fi
rows=$((rows / 3200 * 3200))	# what 8 and 32 clients insert by the hundred
ids_at_once=2000

find_major
install_packages gcc libc6-dev make gnuplot-nox "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	rm -rf "$work"
}

# A server that has no uuidv7() may get the extension for it, if there is a package.
find_uuidv7() {
	local package=postgresql-$pg_major-pg-uuidv7

	if [ "$pg_major" -lt 18 ] && [ -n "$(apt-cache madison "$package" 2>/dev/null)" ] &&
		[ ! -e "$server/usr/share/postgresql/$pg_major/extension/pg_uuidv7.control" ]; then
		unpack_package "$server" download "$package" || say "Going on without it."
	fi
}

make_bench_tree
find_uuidv7
start_bench_server
sql -f "$bench/setup.sql" -v clients="$clients" -f "$bench/compare.sql"

#
# Measuring.  The figures go into the table "sample".
#

note() { sql -c "INSERT INTO sample VALUES ('$1', '$2, $3', $4, $5)"; }

wal_position() { sql -c "SELECT pg_current_wal_insert_lsn()"; }

wal_since() { echo "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$1')"; }

# What is compared in a section, each round beginning with another one.
candidates() {
	sql -c "SELECT name FROM candidate WHERE '$1' = ANY (sections)
		ORDER BY (row_number() OVER (ORDER BY ord) + $2) % count(*) OVER ()"
}

measure_calls() {
	sql -c "CALL measure_calls('calls', $rounds, $call_rows)"
}

measure_clients() {
	local round n name from

	for ((round = 1; round <= rounds; round++)); do
		for n in $clients; do
			while read -r -u 3 name; do
				from=$(wal_position)
				sql -c "SELECT calls_query(call, $ids_at_once / 25) FROM candidate WHERE name = '$name'" |
					run_pgbench "$n" "${seconds}s"
				note clients "$name" "$n" "$round" "$(pgbench_tps) * $ids_at_once / 1e6"
				[ "$n" -gt 1 ] ||
					note ids "$name" 'WAL bytes an ID' "$round" "$(wal_since "$from") / ($ids_at_once * $(
						sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/pgbench.log"))"
			done 3< <(candidates clients "$round")
		done
	done
}

make_table() {
	sql -v name="$1" <<-'SQL'
		DROP TABLE IF EXISTS fill;
		SELECT format('CREATE TABLE fill (id %s NOT NULL DEFAULT %s, n integer NOT NULL)', type, call),
		       CASE WHEN repeats THEN 'CREATE INDEX fill_pkey ON fill (id)' ELSE 'ALTER TABLE fill ADD PRIMARY KEY (id)' END
		FROM candidate WHERE name = :'name' \gexec
		SELECT 'ALTER TABLE fill ADD created_at timestamptz NOT NULL DEFAULT now()',
		       format('CREATE INDEX ON fill USING %s (created_at)', created)
		FROM candidate WHERE name = :'name' AND created IS NOT NULL \gexec
		CHECKPOINT;
	SQL
}

insert_statement() { echo "INSERT INTO fill (n) SELECT generate_series(1, $1);"; }

# Fill a table in one of the ways.
fill() {
	local way=$1 name=$2 round=$3 in_one=1 from

	make_table "$name"
	from=$(wal_position)
	case $way in
		'INSERT SELECT')
			in_one=$rows
			run_pgbench 1 1 <<<"$(insert_statement "$rows")"
			;;
		COPY)
			in_one=$rows
			run_pgbench 1 1 <<<"COPY fill (n) FROM '$work/copy.txt';"
			;;
		'1 client') run_pgbench 1 "${seconds}s" <<<"INSERT INTO fill (n) VALUES (1);" ;;
		'8 clients') run_pgbench 8 "${seconds}s" <<<"INSERT INTO fill (n) VALUES (1);" ;;
		*' x 100')
			in_one=100
			run_pgbench "${way%% *}" $((rows / 100 / ${way%% *})) <<<"$(insert_statement 100)"
			;;
	esac
	note wal "$name" "$way" "$round" "$(wal_since "$from") / (SELECT count(*) FROM fill)"
	note rate "$name" "$way" "$round" "$(pgbench_tps) * $in_one"
	case $way in
		'INSERT SELECT' | *' x 100')
			note index "$name" "$way: bytes a row" "$round" "(SELECT pg_indexes_size('fill')::float8 / count(*) FROM fill)"
			note index "$name" "$way: density %" "$round" "(SELECT avg_leaf_density FROM pgstatindex('fill_pkey'))"
			;;
	esac
	if [ "$way" = '8 clients x 100' ]; then
		note repeats "$name" 'keys made twice' "$round" "(SELECT count(*) - count(DISTINCT id) FROM fill)"
	fi
	if [ "$way" = 'INSERT SELECT' ]; then
		sql -c "CHECKPOINT"
		from=$(wal_position)
		sql -c "$(insert_statement $((rows / 100)))"
		note wal "$name" 'after a checkpoint' "$round" "$(wal_since "$from") / ($rows / 100)"
	fi
}

measure_inserts() {
	local round way name

	seq 1 "$rows" | as_user tee "$work/copy.txt" >/dev/null
	fill 'INSERT SELECT' UUIDv4 0	# makes the files of the WAL
	sql -c "DELETE FROM sample WHERE round = 0"
	for ((round = 1; round <= rounds; round++)); do
		for way in 'INSERT SELECT' COPY '1 client' '8 clients' '8 clients x 100' '32 clients x 100'; do
			while read -r -u 3 name; do
				fill "$way" "$name" "$round"
			done 3< <(candidates inserts "$round")
		done
	done
}

# With shared_buffers of another size, if one is given.
restart_server() {
	stop_server
	as_user "$bin/pg_ctl" -D "$data" -l "$work/server.log" -w ${1:+-o "-c shared_buffers=$1"} start >/dev/null
}

# A table whose heap and whose index on the key are each larger than shared_buffers, before
# the first row is counted.
measure_large() {
	local round name from more=$((rows / 2 / 3200 * 3200))

	restart_server "$large_buffers"
	for ((round = 1; round <= rounds; round++)); do
		while read -r -u 3 name; do
			make_table "$name"
			sql -c "$(insert_statement "$more")" -c "CHECKPOINT"
			sql -c "CALL wait_for_statistics()" -c "SELECT reset_blocks()" >/dev/null
			from=$(wal_position)
			run_pgbench 32 $((more / 3200)) <<<"$(insert_statement 100)"
			note large "$name" 'WAL bytes a row' "$round" "$(wal_since "$from") / $more"
			note large "$name" 'rows a second' "$round" "$(pgbench_tps) * 100"
			sql -c "CHECKPOINT" -c "CALL wait_for_statistics()"
			note large "$name" 'blocks written a row' "$round" "blocks_written() / $more"
			note large "$name" 'blocks read a row' "$round" "blocks_read() / $more"
			note large "$name" 'index bytes a row' "$round" "(SELECT pg_indexes_size('fill')::float8 / count(*) FROM fill)"
			look_up "$name" "$round"
		done 3< <(candidates large "$round")
	done
	restart_server
}

# Each of the newest rows once, in random order, when the newest fill a quarter of shared_buffers
# at most.  A warm-up first.
look_up() {
	local lookups=$((rows / 20))

	sql >/dev/null <<-SQL
		CREATE TABLE newest AS SELECT id FROM
			(SELECT id FROM fill WHERE ctid >= format('(%s,0)', pg_relation_size('fill') / 8192 * 19 / 20)::tid LIMIT $lookups) AS f
			ORDER BY random();
		CALL wait_for_statistics();
		SET enable_hashjoin = off;
		SET enable_mergejoin = off;
		SET enable_material = off;
		SET enable_memoize = off;
		SELECT count(f.n) FROM newest JOIN fill AS f USING (id);
		SELECT pg_stat_force_next_flush();
		SELECT reset_blocks();
		SELECT count(f.n) FROM newest JOIN fill AS f USING (id);
	SQL
	sql -c "CALL wait_for_statistics()"
	note large "$1" 'blocks read a lookup' "$2" "blocks_read() / (SELECT count(*) FROM newest)"
	sql -c "DROP TABLE newest"
}

measure_times() {
	sql -v rows="$rows" -v rounds="$rounds" -f "$bench/times.sql"
}

for section in "${sections[@]}"; do
	say "# $section, rounds: $rounds"
	"measure_$section"
done

gaps=$(sql -c "SELECT * FROM gaps(string_to_array('${sections[*]}', ' '), $rounds)")
[ -z "$gaps" ] || die "figures are missing:
$gaps"

#
# The report
#

# A table of the report: its figures, and its ratios to snowflake.
table() {
	local section=$1 ratios

	printf '\n## %s\n\n' "$2"
	[ ! -f "$out/report-$section.svg" ] || printf '![%s](report-%s.svg)\n\n' "$2" "$section"
	printf '%s\n\n' "$3"
	sql_table -c "$(sql -c "SELECT table_query('$section', 'values')")"
	ratios=$(sql -c "SELECT table_query('$section', 'ratios')")
	if [ -n "$ratios" ]; then
		printf '\nAs a multiple of snowflake:\n\n'
		sql_table -c "$ratios"
	fi
}

tables() {
	if wanted calls && wanted clients && wanted inserts; then
		printf '\n## At a glance\n\nMedians. Speeds are multiples of snowflake. The sections below explain each column.\n\n'
		sql_table -c "TABLE glance"
	fi
	if wanted calls; then
		table calls 'Cost of a call' "Nanoseconds a call in one session: 25 calls a row and $call_rows rows, a tenth of these for UUIDs and
PL/pgSQL. The time of the executor is included. bigserial is \`nextval()\` of its sequence."
	fi
	if wanted clients; then
		table clients 'Scaling over clients' "Million IDs a second by number of pgbench clients. Each client draws $ids_at_once IDs a SELECT, for $seconds s."
		table ids 'WAL of drawing an ID' "With one client. While IDs are drawn, snowflake writes a record of its mark every second or two,
however many IDs there are. A sequence writes a record for 32 numbers more than its cache holds, and the
transaction that draws them waits for the disk at its commit. UUIDs write nothing."
	fi
	if wanted inserts; then
		table rate 'Inserting rows' "Rows a second into \`(id KEY PRIMARY KEY, n integer)\`, where the default makes the key. One INSERT ... SELECT
and one COPY insert $rows rows. 1 and 8 pgbench clients insert one row a transaction for $seconds s. 8 and 32 clients
insert $rows rows, 100 a transaction. Wider rows make the differences smaller."
		table repeats 'Keys made twice' "Among $rows rows that 8 clients inserted, 100 a transaction. If a key can repeat, its table has a plain index here,
because a primary key would end the run with an error."
		table wal 'WAL of a row' "Bytes a row of the same inserts. The last column: $((rows / 100)) more rows by INSERT ... SELECT right after a
checkpoint. PostgreSQL then writes each page to the WAL as a whole when it first changes."
		table index 'Index' "Bytes a row of all indexes, and how full the leaf pages of the primary key are (\`fillfactor\` is 90%)."
	fi
	if wanted large; then
		table large 'A table larger than shared_buffers' "32 clients insert $((rows / 2 / 3200 * 3200)) rows, 100 a transaction, into a table that has as many, with
\`shared_buffers = $large_buffers\`. The heap and the key's index are each larger. Blocks read are blocks of 8 kB that were not in
shared_buffers. Blocks written include a checkpoint at the end; PostgreSQL 15 also counts the blocks that the table
grows by. The last column: the newest rows (5%) are looked up by key for the second time, each once. The system
keeps these blocks in memory; with a real disk the rates differ more."
	fi
	if wanted times; then
		table times 'Rows of a period' "\`SELECT count(*), sum(n)\` of the last hour and of the last day. The table has $rows rows of 30 days, in the order of
time and all in memory. ms are execution time, the median of 21 in each round; buffers are pages read.
The condition is \`snowflake_in(id, ...)\` for snowflake, \`id >= ... AND id < ...\` with bounds made by hand for UUIDv7, and on
\`created_at\` for the others. If the key has the time, the table has no column \`created_at\`."
	fi
	cat <<-TEXT

		## Where another key is better

		These keys were better in every round, and by 2% or more in the median. "Why" gives the reason that lies
		in the kind of key, if one is known:

	TEXT
	sql_table -c "SELECT candidate AS key, section, measure, readable(value) AS figure, readable(base) AS snowflake, readable(ratio) AS ratio, why
		FROM loss ORDER BY measure_ord, ord"
}

sql -c "COPY (SELECT section, measure, unit, candidate, rounds, value AS median, value_q1 AS q1, value_q3 AS q3,
		value_min AS min, value_max AS max, ratio AS ratio_to_snowflake, ratio_q1, ratio_q3, ratio_min, ratio_max
	FROM summary ORDER BY measure_ord, ord) TO STDOUT (FORMAT csv, HEADER)" >"$out/report.csv"
sql -c "COPY sample TO STDOUT (FORMAT csv, HEADER)" >"$out/samples.csv"

#
# The plots
#

# The figures of a table, for gnuplot: candidate, measure, then median, least
# and most of its "value" or "ratio".
plot_data() {
	sql -F $'\t' -c "SELECT candidate, measure, $2, $2_min, $2_max FROM summary
		WHERE section = '$1' ORDER BY ord, measure_ord" >"$work/$1.plot"
}

# Draw report-$1.svg, $2 pixels high, by the commands of standard input.  There
# names is a list of the candidates, and figures(NAME, MEASURE) the data of one.
plot() {
	local section=$1

	{
		cat <<-PLOT
			set terminal svg noenhanced size 800,$2 font "sans-serif,13" background "white"
			set output "$out/report-$section.svg"
			set datafile separator "\t"
			set grid linecolor rgb "#dddddd"
			set tics nomirror
			set border 3
			names = "$(cut -f 1 "$work/$section.plot" | uniq | sed 's/.*/'\''&'\''/' | paste -sd ' ')"
			figures(name, measure) = sprintf("< awk -F '\t' -v n='%s' -v m='%s' '\$1 == n && (m == \"\" || \$2 == m)' $work/$section.plot", name, measure)
			color(name) = name eq "snowflake" ? "#0072b2" : name eq "bigserial" ? "#000000" : name eq "sequence CACHE 32" ? "#777777" : \
				name eq "sequence CACHE 1000" ? "#aaaaaa" : name eq "UUIDv4" ? "#d55e00" : name[1:6] eq "UUIDv7" ? "#e69f00" : \
				name eq "plpgsql snowflake" ? "#cc79a7" : name eq "bigserial + created_at" ? "#009e73" : \
				name eq "bigserial + created_at BRIN" ? "#56b4e9" : "#8b4513"
			set style line 1 pointsize 0.8 linewidth 1.5
		PLOT
		cat
	} | gnuplot || die "gnuplot failed"
	sed -zi 's/<g [^>]*>\n<\/g>\n//g' "$out/report-$section.svg"	# empty groups
}

rm -f "$out"/report-*.svg
if wanted calls; then
	plot_data calls value
	plot calls 360 <<-'PLOT'
		set logscale x
		set xlabel "ns a call, executor included (logarithmic)"
		set yrange [-words(names) + 0.3:0.7]
		unset key
		plot for [i = 1:words(names)] figures(word(names, i), "") using 3:(1 - i):4:5:ytic(1) with xerrorbars \
				ls 1 pt 7 lc rgb color(word(names, i)), \
			for [i = 1:words(names)] figures(word(names, i), "") using 3:(1 - i):(sprintf("%.0f", $3)) with labels offset 0, 0.8
	PLOT
fi
if wanted clients; then
	plot_data clients value
	plot clients 440 <<-'PLOT'
		set logscale x 2
		set xrange [0.9:*]
		set logscale y
		set xlabel "clients"
		set ylabel "million IDs a second (logarithmic)"
		set key outside right center Left reverse samplen 2
		plot for [i = 1:words(names)] figures(word(names, i), "") using 2:3:4:5 with yerrorlines \
			ls 1 pt i + 3 lc rgb color(word(names, i)) title word(names, i)
	PLOT
fi
if wanted inserts; then
	plot_data rate ratio
	plot rate 440 <<-'PLOT'
		ways = "'INSERT SELECT' 'COPY' '1 client' '8 clients' '8 clients x 100' '32 clients x 100'"
		at(way) = strstrt(way, " x ") + (way eq "INSERT SELECT" ? 7 : 0)
		label(way) = at(way) ? way[1:at(way) - 1]."\n".way[at(way) + 1:] : way
		set xrange [0.5:words(ways) + 0.5]
		set yrange [0:*]
		set ylabel "rows a second, snowflake = 1"
		set xlabel "way to insert (x 100: rows a transaction)" offset 0, -1
		do for [w = 1:words(ways)] { set xtics add (label(word(ways, w)) w) }
		set arrow from graph 0, first 1 to graph 1, first 1 nohead lw 2 lc rgb color("snowflake")
		set key outside right center Left reverse samplen 1
		shift(i) = (i - 1.5 - words(names) / 2.0) * 0.08
		plot for [i = 2:words(names)] for [w = 1:words(ways)] figures(word(names, i), word(ways, w)) \
			using (w + shift(i)):3:4:5 with yerrorbars ls 1 pt i + 3 lc rgb color(word(names, i)) title w == 1 ? word(names, i) : ""
	PLOT
	plot_data index value
	plot index 480 <<-'PLOT'
		ways = "'INSERT SELECT' '8 clients x 100' '32 clients x 100'"
		ways_color = "#0072b2 #d55e00 #009e73"
		set xrange [0:*]
		set xlabel "bytes of index a row (x 100: rows a transaction)"
		set yrange [-words(names) + 0.3:0.7]
		do for [i = 1:words(names)] { set ytics add (word(names, i) 1 - i) }
		set key outside top center horizontal samplen 1
		plot for [w = 1:words(ways)] for [i = 1:words(names)] figures(word(names, i), word(ways, w).": bytes a row") \
			using 3:(1 - i + 0.22 * (2 - w)):4:5 with xerrorbars ls 1 pt w * 2 + 3 lc rgb word(ways_color, w) \
			title i == 1 ? word(ways, w) : ""
	PLOT
fi

{
	cat <<-TEXT
		# Keys compared

		$(run_conditions)
		- Data checksums $(sql -c "SHOW data_checksums"); load average at the end $(cut -d ' ' -f 1-3 /proc/loadavg).
		- $rounds rounds. In each round all keys take turns, in changing order. Figures are medians over the rounds.
		  Brackets, and bars in the plots, show the lowest and the highest. A ratio is the median of the ratios
		  within each round.

		The keys:

	TEXT
	sql -c "SELECT format('- **%s**: %s', name, what) FROM candidate ORDER BY ord"
	tables
} >"$report"
! grep -qE '\|  *\||\|\|' "$report" || die "a table of ${report#"$repo"/} has an empty cell"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
