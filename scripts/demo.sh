#!/usr/bin/env bash
# Show snowflake at work on a throwaway server: pgbench's TPC-B-like load with
# snowflake IDs as the primary key of its history, and a look at the result.
#
#   scripts/demo.sh [--clients N] [--seconds N]    run; the server stays up
#   scripts/demo.sh stop                           stop it and delete its files
#
# The default is 8 clients and 10 seconds.  Takes 2 GB of disk space.
# PG_MAJOR=17 scripts/demo.sh uses that server version.
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

demo=$repo/.demo
script=$repo/scripts/$(basename "$0")
scale=10
bulk=4000000
clients=8
seconds=10
command=run
work=
sleeper=

# A whole number from $2 to $3.
check_number() {
	if ! [[ $4 =~ ^[1-9][0-9]{0,5}$ ]] || [ "$4" -lt "$2" ] || [ "$4" -gt "$3" ]; then
		die "$1 takes a number from $2 to $3"
	fi
}

while [ $# -gt 0 ]; do
	case $1 in
		--clients) check_number "$1" 1 200 "${2:-}"; clients=$2; shift ;;
		--seconds) check_number "$1" 3 3600 "${2:-}"; seconds=$2; shift ;;
		stop | --stop | --clean) command=stop ;;
		-h | --help) usage; exit ;;
		*) die "unknown argument $1; see --help" ;;
	esac
	shift
done

heading() { printf '\n== %s ==\n\n' "$*"; }

# The process number of the server in the work folder, if there is one.
server_pid() {
	local pid

	pid=$(head -n 1 "$work/data/postmaster.pid" 2>/dev/null) &&
		[[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *" -D $work/data "* ]] &&
		printf '%s\n' "$pid"
} 2>/dev/null

# Stop the server, however far it got, and delete its files.  They are not
# needed again, so it need not write down what it has in memory.
remove_demo() {
	local pid

	if [ -n "$work" ]; then
		if pid=$(server_pid); then
			kill -QUIT "$pid"
			while server_pid >/dev/null; do sleep 0.1; done
		fi
		rm -rf "$work"
	fi
	[ ! -L "$demo" ] || rm -f "$demo"
}

# What an earlier run left: the work folder, or a link to it.
find_demo() {
	if [ -L "$demo" ]; then
		work=$(readlink "$demo")
		[[ $work == */snowflake.?????? ]] ||
			die "$demo is a link to $work, which this script did not make"
	elif [ -e "$demo" ]; then
		work=$demo
	fi
	[ ! -e "$work" ] || [ -O "$work" ] || [ "$(id -u)" -eq 0 ] ||
		die "the demo server belongs to $(stat -c %U "$work"); stop it with: sudo $script stop"
}

how_to_use() {
	local psql=("$work"/server/usr/lib/postgresql/*/bin/psql)

	say "Connect:"
	printf '  %q \\\n    -h %q -U postgres demo\n' "${psql[0]}" "$work"
	say "Stop it and delete its files (the installed packages stay):"
	printf '  %q stop\n' "$script"
}

# One run at a time.  The lock goes when all that hold it have ended, which the
# server, below, must not be one of.
exec 9<"$script"
flock -n 9 || [ $? -ne 1 ] || die "another $(basename "$0") is at work here; wait, or end it with Ctrl-C there"

find_demo
if [ "$command" = stop ]; then
	[ -n "$work" ] || { say "There is no demo server here."; exit; }
	remove_demo
	say "Stopped the demo server and deleted its files.  Installed packages stay."
	exit
fi
if [ -n "$work" ] && server_pid >/dev/null; then
	say "A demo server is already here."
	how_to_use
	exit 1
fi
remove_demo
work=

# However the run ends before its end.  A signal may find standard error sent
# elsewhere, so this has one of its own.
exec 8>&2
give_up() {
	local status=$?

	trap '' INT TERM HUP
	set +e
	[ -n "$work" ] || return
	if [ "$status" -ne 130 ] && [ -s "$work/server.log" ]; then
		say "The server's log ends with:"
		tail -n 10 "$work/server.log"
	fi
	say "Not finished: deleting the demo server."
	[ -z "$sleeper" ] || kill "$sleeper"
	remove_demo
	wait
} >&8 2>&8
trap give_up EXIT
trap 'exit 130' INT TERM HUP

sql() { as_user "$bin/psql" -X -q -v ON_ERROR_STOP=1 -P pager=off -d demo "$@"; }
value() { sql -A -t -c "$1"; }
# Statements from standard input, each shown above its result, in 80 columns.
show() { sql -e -P format=wrapped -P columns=80 -f - "$@"; }
# Their results alone.
show_plain() { sql -A -t -f -; }
# 4000000 as 4,000,000
grouped() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

# Each second of the load, how many IDs the sessions draw.
watch_load() {
	local ms issued last_ms='' last_issued='' sample

	while kill -0 "$load" 2>/dev/null; do
		sample=$(sql -A -t -F ' ' -c 'SELECT (extract(epoch FROM wall_ts) * 1000)::bigint, issued FROM pg_stat_snowflake') ||
			return 0
		read -r ms issued <<<"$sample"
		[ -z "$last_ms" ] || [ "$ms" -le "$last_ms" ] ||
			printf '%7d IDs a second\n' $(((issued - last_issued) * 1000 / (ms - last_ms)))
		last_ms=$ms last_issued=$issued
		sleep 1 &
		sleeper=$!
		wait "$sleeper"
		sleeper=
	done
}

heading "A server of its own"
find_major
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major"
TMPDIR=${TMPDIR:-/var/tmp} make_work "$demo"
cd "$work"
say "Building snowflake for PostgreSQL $pg_major ..."
make_server_tree
# shellcheck disable=SC2119
build_extension
say "Starting a server in $work ..."
(start_server 8>&- 9<&- <<-CONF
	shared_preload_libraries = 'snowflake'
	snowflake.node_id = 7
	max_connections = $((clients + 20))
CONF
)
export PGHOST=$work PGPORT=5432 PGUSER=postgres
as_user "$bin/createdb" demo
say "It listens on a Unix socket in that folder and nowhere else."

heading "A key that the server draws"
show <<-'SQL'
	CREATE EXTENSION snowflake;

	CREATE TABLE orders (
	    id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	    item text);

	INSERT INTO orders (item) VALUES ('tea'), ('coffee') RETURNING id;

	SELECT id, snowflake_timestamp(id) AS drawn_at, item FROM orders;

	SELECT * FROM orders
	WHERE snowflake_in(id, now() - interval '1 hour', 'infinity');
SQL
say "The key has the time in it, so the primary key finds the rows of a period."
say "What its 64 bits mean:"
say
show_plain <<-'SQL'
	SELECT snowflake_explain(max(id)) FROM orders;
SQL

heading "The load: $clients sessions insert for $seconds seconds"
say "pgbench's own load, TPC-B, with a snowflake ID as the key of its history table."
say "No session waits for another one to draw an ID."
say
as_user "$bin/pgbench" -i -q -s "$scale" demo >"$work/pgbench.log" 2>&1 || {
	cat "$work/pgbench.log" >&2
	die "pgbench could not make its tables"
}
sql -c 'ALTER TABLE pgbench_history ADD COLUMN id bigint PRIMARY KEY DEFAULT snowflake_nextval()'
# All in the background, so that a signal ends it at once.
as_user "$bin/pgbench" -b tpcb-like -c "$clients" -j 2 -T "$seconds" demo >"$work/pgbench.log" 2>&1 &
load=$!
watch_load
wait "$load" || {
	cat "$work/pgbench.log" >&2
	die "pgbench failed"
}
say
grep -E '^(number of transactions actually|latency|tps)' "$work/pgbench.log"
# Eight sessions fill the few pages of a slow machine in no order of keys.
sql -c 'CLUSTER pgbench_history USING pgbench_history_pkey'
sql -c 'VACUUM ANALYZE pgbench_history'

heading "The last second, by the primary key alone"
to=$(value 'SELECT snowflake_timestamp(max(id)) FROM pgbench_history')
from=$(value "SELECT timestamptz '$to' - interval '1 second'")
rows="FROM pgbench_history
WHERE snowflake_in(id, '$from',
                       '$to')"
show <<SQL
SELECT count(*)
$rows;

SELECT id, snowflake_timestamp(id) AS drawn_at, aid, delta
$rows
ORDER BY id LIMIT 3;
SQL
# Its condition in two lines, for 80 columns; a slow machine's few pages would be read whole.
PGOPTIONS='-c enable_seqscan=off' sql -e -A -t -f - <<SQL | sed 's/ AND (id </\n              AND (id </'
EXPLAIN (COSTS OFF) SELECT *
$rows;
SQL

heading "A crash"
last=$(value 'SELECT snowflake_nextval()')
say "The server stops as in a crash, and starts again.  The next ID is above the"
say "last one, $last, even if the clock was set back: the server"
say "has stored a time that is later than all IDs before the crash."
say
(as_user "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -w -m immediate restart >/dev/null 8>&- 9<&-)
show <<-SQL
	SELECT id, id > $last AS above FROM snowflake_nextval() AS id;
SQL

heading "No ID twice"
say "$clients sessions at once draw $(grouped $((bulk / clients * clients))) more IDs as fast as they can ..."
sql -c 'CREATE UNLOGGED TABLE bulk (session integer, n integer, id bigint)'
as_user "$bin/pgbench" -n -c "$clients" -j 2 -t 1 -f - demo >"$work/pgbench.log" 2>&1 <<-SQL ||
	INSERT INTO bulk SELECT :client_id, n, snowflake_nextval() FROM generate_series(1, $((bulk / clients))) n;
SQL
	{ cat "$work/pgbench.log" >&2; die "pgbench failed"; }
read -r ids twice <<<"$(sql -A -t -F ' ' <<-'SQL'
	SELECT count(*), count(*) - count(DISTINCT id)
	FROM (SELECT id FROM orders UNION ALL
	      SELECT id FROM pgbench_history UNION ALL
	      SELECT id FROM bulk) AS drawn;
SQL
)"
disorder=$(value 'SELECT count(*) FILTER (WHERE id <= previous)
	FROM (SELECT id, lag(id) OVER (PARTITION BY session ORDER BY n) AS previous FROM bulk) AS drawn')
say
say "$(grouped "$ids") IDs, $twice twice, $disorder below one that their session drew before."
[ "$twice" -eq 0 ] && [ "$disorder" -eq 0 ] || die "that is a fault of snowflake"

trap - EXIT
heading "The server stays up"
how_to_use
