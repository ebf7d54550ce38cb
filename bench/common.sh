# shellcheck shell=bash
# What the benchmarks share beside scripts/common.sh: values of options, settings
# of the server, pgbench, parts of a report.  Sourced, not run.

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
bench=$repo/bench
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
revision=$(git -C "$repo" describe --always --dirty 2>/dev/null || echo unknown)

# The value of an option: a whole number, $3 or more.
number() {
	if ! [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || [ "$2" -lt "$3" ]; then
		die "$1 needs a whole number, $3 to 999999999, not \"$2\""
	fi
	echo "$2"
}

# Is it one of the sections to do?
wanted() { [[ " ${sections[*]} " == *" $1 "* ]]; }

# Read the command line into sections, rounds, rows, seconds and quick.  $1: all
# sections, $2: the fewest rows, then the command line.  Other options go to the
# command's own_option.
read_options() {
	local all=$1 fewest=$2

	shift 2
	sections=()
	rounds=
	rows=
	seconds=
	quick=
	while [ $# -gt 0 ]; do
		case $1 in
			--only | --rounds | --rows | --seconds) [ $# -ge 2 ] || die "$1 needs a value" ;;
		esac
		case $1 in
			--only)
				[[ " $all " == *" $2 "* ]] || die "--only needs one of $all, not \"$2\""
				wanted "$2" || sections+=("$2")
				shift
				;;
			--rounds)
				rounds=$(number "$1" "$2" 1)
				shift
				;;
			--rows)
				rows=$(number "$1" "$2" "$fewest")
				shift
				;;
			--seconds)
				seconds=$(number "$1" "$2" 1)
				shift
				;;
			--quick) quick=yes ;;
			-h | --help) usage && exit ;;
			*) own_option "$1" || die "unknown option $1; see --help" ;;
		esac
		shift
	done
	[ ${#sections[@]} -gt 0 ] || read -r -a sections <<<"$all"
}

settings="fsync = off
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
shared_buffers = 1GB
min_wal_size = 4GB
max_wal_size = 16GB
checkpoint_timeout = 1h"

# The server tree with the extension, in a work folder that goes away with the
# command.  The command's own finish() ends what it started.
make_bench_tree() {
	make_work
	trap finish EXIT
	trap 'exit 130' INT TERM HUP
	make_server_tree
	cd "$work"
	mkdir -p "$bench/out"

	say "# build, PostgreSQL $pg_major"
	build_extension
}

start_bench_server() {
	start_server <<-CONF
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 1
		$settings
	CONF
}

export PGDATABASE=postgres PGOPTIONS='-c client_min_messages=warning'

sql() { "$bin/psql" -XqAt -v ON_ERROR_STOP=1 "$@"; }

# The same, as a Markdown table.
sql_table() {
	sql -P tuples_only=off -P format=aligned -P border=2 -P footer=off "$@" |
		sed '/^$/d' | sed '1d;$d;/^+/s/+/|/g'
}

# So many clients run a script, standard input, so many times each, or for so
# long ("3s").  More arguments go to pgbench.  Where other programs left it no time
# for a single transaction, it runs again.
run_pgbench() {
	local until=(-t "$2")

	[[ $2 != *s ]] || until=(-T "${2%s}")
	cat >"$work/pgbench.sql"
	for _ in {1..20}; do
		"$bin/pgbench" -n -M prepared -c "$1" -j "$(nproc)" -f "$work/pgbench.sql" \
			"${until[@]}" "${@:3}" >"$work/pgbench.log" 2>&1 || break
		grep -q '^number of transactions actually processed: 0' "$work/pgbench.log" || return 0
	done
	cat "$work/pgbench.log" >&2
	die "pgbench failed"
}

# How many transactions a second the last pgbench had.
pgbench_tps() { sed -n 's/^tps = \([0-9.]*\) .*/\1/p' "$work/pgbench.log"; }

# The first lines of a report: when, on what.
run_conditions() {
	cat <<-TEXT
		- $(date -u '+%Y-%m-%d %H:%M UTC')${quick:+, a trial: its figures mean nothing}
		- $({ sed -n 's/^model name[^:]*: //p' /proc/cpuinfo; lscpu 2>/dev/null | sed -n 's/^ *Model name: *//p'; } | sed -n 1p), $(nproc) cores, $(awk '/^MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo) GB of memory; load average at the start $load$(
			awk -v load="$load" 'BEGIN {if (load + 0 > 0.5) printf ": other programs were at work, so speeds are too low"}')
		- $(uname -sr | cut -d - -f 1), $(gcc --version | sed -n 1p)
		- PostgreSQL $(sql -c "SHOW server_version"), snowflake $(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'snowflake'"), revision $revision; $(echo "$settings" | paste -sd ';' | sed 's/;/; /g'); other settings at their defaults
	TEXT
}
