#!/usr/bin/env bash
# Measure how costs grow with the work, on a throwaway server: partitions of a
# table (creating, listing and planning), tables in snowflake_check(), sessions
# that draw their first ID, and tags of segments.  It prints tables and writes
# them to bench/out/scale.md.  bench/scale.md shows the results of a run.
#
#   bench/scale.sh [--quick] [--only SECTION] [--rounds N]
#
#   --only partitions|check|sessions|tags   only that section; may be repeated
#   --rounds N    rounds of planning in one session (default 41)
#   --quick       a trial of a minute: its figures mean nothing
#
# It takes about 12 minutes.  PG_MAJOR=17 bench/scale.sh uses that server version.
# The exit status is 0 if it could measure.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
report=$bench/out/scale.md

own_option() { false; }
read_options 'partitions check sessions tags' 1 "$@"

if [ -n "$quick" ]; then
	rounds=${rounds:-3} partitions='20 40 80' batch=20 new_sessions=3 most_ms=200
	tables='20 100' children='0 20' sessions=40 rate=100 session_rounds=1
	tags='50 100 200' usable_tags=100
else
	rounds=${rounds:-41} partitions='100 2000 10000' batch=500 new_sessions=15 most_ms=8000
	tables='2000 20000' children='0 200 2000' sessions=2000 rate=400 session_rounds=2
	tags='1000 10000 100000' usable_tags=10000
fi
first_day='2020-01-02 00:00:00+00'

find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"

finish() {
	set +e
	stop_server immediate
	rm -rf "$work"
}
make_bench_tree
settings+="
max_connections = 5000
snowflake.max_segment_tags = $usable_tags"
start_bench_server
sql -f "$bench/setup.sql" -f "$bench/scale.sql"
export PGOPTIONS="$PGOPTIONS -c timezone=UTC"

note() { sql -c "INSERT INTO grown VALUES ('$1', $2, '$3', 1, $4)"; }

# Milliseconds of a statement in a new session, and of the same once more.
measure_ms() {
	local section=$1 size=$2 what=$3 statement=$4 first again

	{ read -r first && read -r again; } < <(
		sql -d "${5:-postgres}" <<-SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
			SELECT FROM pg_class LIMIT 1;
			\\timing on
			$statement;
			$statement;
		SQL
	)
	note "$section" "$size" "$what, first" "$first"
	note "$section" "$size" "$what" "$again"
}

#
# Partitions
#

create_partitions() {
	local n=$1 from size ms

	sql -c "CREATE TABLE days_$n (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer) PARTITION BY RANGE (id)"
	for ((from = 0; from < n; from += batch)); do
		size=$((n - from < batch ? n - from : batch))
		ms=$(sql <<-SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
			\\timing on
			SELECT count(*) FROM snowflake_create_partitions('days_$n',
				timestamptz '$first_day' + interval '$from days',
				timestamptz '$first_day' + interval '$((from + size)) days', '1 day', 'UTC');
		SQL
		)
		note creating $((from + size)) "$n" "$ms / $size"
	done

	# the same by hand, without keeping them
	for form in like partition_of; do
		ms=$(sql <<-SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sed -n 2p
			\\timing on
			BEGIN;
			DO \$\$
			DECLARE
			    r int8range;
			BEGIN
			    FOR i IN 0 .. 19 LOOP
			        r := id_range_for(timestamptz '$first_day' + ($n + i) * interval '1 day',
			                          timestamptz '$first_day' + ($n + i + 1) * interval '1 day');
			        IF '$form' = 'like' THEN
			            EXECUTE format('CREATE TABLE by_hand_%s (LIKE days_$n INCLUDING DEFAULTS)', i);
			            EXECUTE format('ALTER TABLE days_$n ATTACH PARTITION by_hand_%s FOR VALUES FROM (%s) TO (%s)', i, lower(r), upper(r));
			        ELSE
			            EXECUTE format('CREATE TABLE by_hand_%s PARTITION OF days_$n FOR VALUES FROM (%s) TO (%s)', i, lower(r), upper(r));
			        END IF;
			    END LOOP;
			END
			\$\$;
			ROLLBACK;
		SQL
		)
		note listing "$n" "$form" "$ms / 20"
	done
	ms=$(sql <<-SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sed -n 2p
		\\timing on
		BEGIN;
		SELECT count(*) FROM snowflake_create_partitions('days_$n', timestamptz '$first_day' + interval '$n days',
			timestamptz '$first_day' + interval '$((n + 20)) days', '1 day', 'UTC');
		ROLLBACK;
	SQL
	)
	note listing "$n" create "$ms / 20"
	measure_ms listing "$n" list "SELECT count(*) FROM snowflake_partitions('days_$n')"
	measure_ms listing "$n" exact "SELECT count(*) FROM snowflake_partitions('days_$n', exact => true)"
	measure_ms listing "$n" drop "SELECT count(*) FROM snowflake_drop_partitions('days_$n', now() + interval '100 years', dry_run => true)"
}

# In new sessions: what the first plan takes, and the second of the same.
plan_first() {
	local n=$1 shape=$2 times=$3 i form query

	sql -F $'\t' -c "SELECT form, query FROM conditions('days_$n', '$first_day', $n) WHERE shape = '$shape'" >"$work/queries"
	for ((i = 0; i < times; i++)); do
		while IFS=$'\t' read -r -u 3 form query; do
			{ read -r first && read -r again; } < <(
				sql -c "SELECT FROM pg_class LIMIT 1" -c "EXPLAIN (SUMMARY) $query" -c "EXPLAIN (SUMMARY) $query" |
					sed -n 's/^Planning Time: \([0-9.]*\) ms/\1/p'
			)
			echo "planning,$n,\"$shape, $form, first\",1,$first" >>"$work/first.csv"
			echo "planning,$n,\"$shape, $form, second\",1,$again" >>"$work/first.csv"
		done 3< <(shuf "$work/queries")
	done
}

measure_partitions() {
	local n

	: >"$work/first.csv"
	for n in $partitions; do
		say "# partitions: $n"
		create_partitions "$n"
		sql -c "CALL measure_planning('days_$n', '$first_day', $n, $rounds, $most_ms)"
		plan_first "$n" 'an hour' $new_sessions
		plan_first "$n" 'all days' $((new_sessions / 5 + 1))
	done
	sql -c "COPY grown FROM STDIN (FORMAT csv)" <"$work/first.csv"
}

#
# snowflake_check()
#

measure_check() {
	local n c what

	for n in $tables; do
		say "# check: $n tables"
		sql -c "CREATE DATABASE tables_$n"
		sql -d "tables_$n" -f "$bench/setup.sql" -f "$bench/scale.sql" -c "CALL make_tables($n, 3)"
		what=0
		for c in $children; do
			[ "$c" -eq 0 ] || sql -d "tables_$n" -c "CREATE TABLE days_$c (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)" \
				-c "SELECT FROM snowflake_create_partitions('days_$c', '$first_day', timestamptz '$first_day' + interval '$c days', '1 day', 'UTC')" >/dev/null
			sql -d "tables_$n" -c "VACUUM ANALYZE pg_catalog.pg_depend, pg_catalog.pg_inherits, pg_catalog.pg_class, pg_catalog.pg_attribute, pg_catalog.pg_attrdef, pg_catalog.pg_index"
			what=$((what + c))
			measure_ms check "$n" "$what" "SELECT count(*) FROM snowflake_check()" "tables_$n"
			note check "$n" "$what, memory" "$(sql -d "tables_$n" -c "SELECT count(*) FROM snowflake_check()" \
				-c "SELECT regexp_replace(pg_read_file('/proc/self/status'), '.*RssAnon:\s*([0-9]+) kB.*', '\1')" | tail -n 1) / 1024.0"
		done
	done
}

#
# The first call of idle sessions
#

# So many clients that have connected make one call each, at a rate or all at once.
first_calls() {
	local call=$1 name=$2 when=$3 at=() round

	[ "$when" = 'at once' ] || at=(-R "$rate")
	for ((round = 1; round <= session_rounds; round++)); do
		sleep 3.5	# so that the durable mark is behind the clock
		sql -c "TRUNCATE called, latency"
		rm -f "$work"/latency.*
		run_pgbench "$sessions" 1 "${at[@]}" -l --log-prefix="$work/latency" \
			<<<"INSERT INTO called SELECT clock_timestamp(), $call, clock_timestamp();"
		awk '{print $1, $2, $3, $4, $5, $6, $7 + 0}' "$work"/latency.* | sql -c "COPY latency FROM STDIN (DELIMITER ' ')"
		sql -c "INSERT INTO grown
			SELECT 'sessions', $sessions, '$when, $name, ' || measure, $round, value
			FROM (VALUES ('call', ARRAY(SELECT 1e6 * extract(epoch FROM done - begun) FROM called)),
			             ('client', ARRAY(SELECT (us - lag) / 1e3 FROM latency))) AS d (what, v),
			     (VALUES ('p50', 0.5), ('p99', 0.99), ('max', 1)) AS p (share_name, share),
			     LATERAL (SELECT what || ' ' || share_name, percentile_disc(share) WITHIN GROUP (ORDER BY x)
			              FROM unnest(v) AS x) AS m (measure, value)"
	done
}

measure_sessions() {
	local when

	say "# sessions: $sessions, of 5000"
	note sessions "$sessions" memory "(SELECT allocated_size / 1024.0 FROM pg_shmem_allocations WHERE name = 'snowflake')"
	for when in 'at a rate' 'at once'; do
		first_calls 'snowflake_nextval()' snowflake "$when"
		first_calls "nextval('one')" sequence "$when"
		first_calls 'extract(epoch FROM clock_timestamp())::bigint' clock "$when"
	done
}

#
# Tags
#

measure_tags() {
	local n from=0 last

	for n in $tags; do
		say "# tags: $n"
		measure_once "$n" create "SELECT count(snowflake_segment_create('tag ' || i)) FROM generate_series($((from + 1)), $n) AS i"
		note tags "$n" 'create, each' "(SELECT value FROM grown WHERE section = 'tags' AND size = $n AND what = 'create') / $((n - from))"
		if [ "$n" -le "$usable_tags" ]; then
			measure_once "$n" draw "SELECT count(snowflake_segment_nextval('tag ' || i)) FROM generate_series($((from + 1)), $n) AS i"
			note tags "$n" 'draw, each' "(SELECT value FROM grown WHERE section = 'tags' AND size = $n AND what = 'draw') / $((n - from))"
			measure_ms tags "$n" all "SELECT count(snowflake_segment_nextval('tag ' || i)) FROM generate_series(1, $n) AS i"
			measure_ms tags "$n" view "SELECT count(*) FROM pg_stat_snowflake_segments"
		fi
		from=$n
	done
	last=$(sql -c "SELECT snowflake_segment_nextval('tag $n')" 2>&1 || true)
	over="A draw from one more tag than \`snowflake.max_segment_tags\` allows fails: ${last%%$'\n'*}"
	from=$(date +%s%N)
	as_user "$bin/pg_ctl" -D "$data" -l "$work/server.log" -w restart >/dev/null
	sql -c "SELECT snowflake_segment_nextval('tag 1')" >/dev/null
	note tags "$usable_tags" restart "($(date +%s%N) - $from) / 1e6"
}

measure_once() {
	note tags "$1" "$2" "$(printf '%s\n' '\timing on' "$3;" | sql | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p')"
}

for section in "${sections[@]}"; do
	"measure_$section"
done

#
# The report
#

{
	cat <<-TEXT
		# How costs grow with the work

		$(run_conditions)
	TEXT
	if wanted partitions; then
		printf '\n## Creating and listing partitions\n'
		printf 'A partition a day, %s in a call. ms for each partition of a call, by the number of partitions after it:\n\n' "$batch"
		sql_table -c "SELECT readable(size) AS partitions, readable(value) AS \"ms a partition\" FROM grown
			WHERE section = 'creating' AND what = '${partitions##* }' AND size % (SELECT greatest(max(size) / 10, 1) FROM grown WHERE section = 'creating') = 0
			ORDER BY size"
		printf '\n20 more partitions, ms each: by the function, by hand in the same way (LIKE and ATTACH PARTITION), and by PARTITION OF, which locks the table. Then ms of a call that lists all partitions:\n\n'
		sql_table -c "SELECT readable(size) AS partitions, figure('listing', size, 'create') AS \"function\",
				figure('listing', size, 'like') AS \"by hand\", figure('listing', size, 'partition_of') AS \"PARTITION OF\",
				figure('listing', size, 'list, first') AS \"snowflake_partitions(), first in a session\", figure('listing', size, 'list') AS again,
				figure('listing', size, 'exact') AS \"exact\", figure('listing', size, 'drop') AS \"drop, dry run\"
			FROM (SELECT DISTINCT size FROM grown WHERE section = 'listing') AS s ORDER BY size"
		printf '\n## Planning a period\n'
		printf 'Medians in ms; the forms take turns. "constants" is id >= constant AND id < constant. "functions" is the same with lower(id_range_for(a, b)) and upper(id_range_for(a, b)).\n\n'
		sql_table -c "SELECT readable(s.size) AS partitions, shape, (SELECT count(*) FROM grown AS g WHERE g.section = 'planning' AND g.size = s.size AND g.what = shape || ', snowflake_in') AS rounds,
				figure('planning', s.size, shape || ', snowflake_in') AS snowflake_in,
				figure('planning', s.size, shape || ', constants') AS constants, figure('planning', s.size, shape || ', functions') AS functions
			FROM (SELECT DISTINCT size FROM grown WHERE section = 'planning') AS s,
			     (VALUES ('an hour'), ('all days'), ('until now')) AS c (shape) ORDER BY s.size, shape = 'until now', shape = 'all days'"
		printf '\nThe first plan in a new session, and the second, ms:\n\n'
		sql_table -c "SELECT readable(s.size) AS partitions, shape,
				figure('planning', s.size, shape || ', snowflake_in, first') AS \"snowflake_in, first\",
				figure('planning', s.size, shape || ', constants, first') AS \"constants, first\",
				figure('planning', s.size, shape || ', snowflake_in, second') AS \"snowflake_in, second\",
				figure('planning', s.size, shape || ', constants, second') AS \"constants, second\"
			FROM (SELECT DISTINCT size FROM grown WHERE section = 'planning') AS s,
			     (VALUES ('an hour'), ('all days')) AS c (shape) ORDER BY s.size, shape DESC"
	fi
	if wanted check; then
		printf '\n## snowflake_check()\n'
		printf 'Each table draws IDs by default and has 3 rows. Beside them are tables with so many partitions in all. Memory is that of the session after one call.\n\n'
		sql_table -c "SELECT readable(size) AS tables, readable(what::integer) AS partitions, figure('check', size, what || ', first') AS \"ms, first in a session\",
				figure('check', size, what) AS \"ms, again\", figure('check', size, what || ', memory') AS \"memory, MB\"
			FROM (SELECT DISTINCT size, what FROM grown WHERE section = 'check' AND what ~ '^[0-9]+$') AS s ORDER BY size, what::integer"
	fi
	if wanted sessions; then
		printf '\n## The first call of a session\n'
		printf '%s connected sessions make one call each: %s of them a second, or all at once. "call" is the call as the server sees it, "client" the whole INSERT as the client sees it. %s rounds; before each the server draws nothing for 3.5 s.\n\n' "$sessions" "$rate" "$session_rounds"
		sql_table -c "SELECT w AS \"when\", name AS call,
				figure('sessions', $sessions, w || ', ' || name || ', call p50') AS \"call p50, us\", figure('sessions', $sessions, w || ', ' || name || ', call p99') AS \"call p99, us\",
				figure('sessions', $sessions, w || ', ' || name || ', call max') AS \"call max, us\",
				figure('sessions', $sessions, w || ', ' || name || ', client p50') AS \"client p50, ms\", figure('sessions', $sessions, w || ', ' || name || ', client p99') AS \"client p99, ms\"
			FROM (VALUES ('at a rate'), ('at once')) AS a (w), (VALUES (1, 'snowflake'), (2, 'sequence'), (3, 'clock')) AS c (ord, name)
			ORDER BY w, ord"
		printf '\nShared memory of the extension with max_connections = 5000 and room for %s tags: %s kB.\n' "$usable_tags" \
			"$(sql -c "SELECT figure('sessions', $sessions, 'memory')")"
	fi
	if wanted tags; then
		printf '\n## Tags of segments\n'
		printf 'Segments come from the home database. All figures are ms: creating a tag and the first draw from it, for each added tag; a draw from every tag, in a new session and again; reading the view.\n\n'
		sql_table -c "SELECT readable(size) AS tags, figure('tags', size, 'create, each') AS \"create, each\", figure('tags', size, 'draw, each') AS \"first draw, each\",
				figure('tags', size, 'all, first') AS \"a draw from all, new session\", figure('tags', size, 'all') AS again, figure('tags', size, 'view') AS \"view\"
			FROM (SELECT DISTINCT size FROM grown WHERE section = 'tags' AND what = 'create') AS s ORDER BY size"
		printf '\nA clean restart of the server with %s tags in use takes %s ms until the first number. %s\n' "$usable_tags" \
			"$(sql -c "SELECT figure('tags', $usable_tags, 'restart')")" "$over"
	fi
} >"$report"

say
cat "$report"
say
say "Written to ${report#"$repo"/}."
