#!/usr/bin/env bash
# Test what docs/orms.md says about ORMs and schema tools: each with its project
# in t/orms/NAME, on one throwaway server.
#
#   scripts/orms.sh [NAME ...] [--keep]
#
#   NAME     a folder in t/orms; without a name, all of them
#   --keep   keep the work folder with all logs, and print its name
#
# It installs Debian packages, and downloads packages of the npm registry into
# the work folder.  PG_MAJOR=17 scripts/orms.sh uses that server version.
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

keep=
names=()
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		-*) usage; exit ;;
		*) names+=("$(basename "$arg")") ;;
	esac
done
[ ${#names[@]} -gt 0 ] || names=($(cd "$repo/t/orms" && ls -d -- */ | tr -d /))
for name in "${names[@]}"; do
	[ -f "$repo/t/orms/$name/run" ] || die "there is no t/orms/$name/run"
done

finish() {
	set +e
	trap '' INT TERM HUP
	stop_server immediate
	if [ -n "$keep" ]; then
		say "Kept: $work"
	else
		rm -rf "$work"
	fi
}

# Tools that know only TCP get a port that is free, and one role there.
free_port() {
	local port

	while port=$((RANDOM % 16384 + 32768)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	say "$port"
}

# Install what the folder here needs, and run it.  Nothing that a package has
# runs while it is installed.
run_tool() {
	if [ -f package.json ]; then
		as_user npm install --ignore-scripts --no-audit --no-fund --no-package-lock \
			--no-update-notifier --loglevel=error || return
	fi
	as_user env PATH="$PWD/node_modules/.bin:$bin:$PATH" PGHOST=127.0.0.1 PGUSER=app PGPASSWORD="$password" \
		PGDATABASE="$1" DATABASE_URL="postgres://app:$password@127.0.0.1:$PGPORT/$1" DO_NOT_TRACK=1 \
		SUPERUSER_HOST="$work" timeout 900 bash run
}

find_major
packages=$(for name in "${names[@]}"; do cat "$repo/t/orms/$name/packages" 2>/dev/null || true; done)
# Another Node.js than Debian's brings its own npm
compgen -G "$repo/t/orms/*/package.json" >/dev/null && ! type -P npm >/dev/null && packages+=' nodejs npm'
install_packages gcc libc6-dev make "postgresql-$pg_major" "postgresql-server-dev-$pg_major" $packages

make_work
trap finish EXIT
trap 'exit 130' INT TERM HUP
make_server_tree
build_extension
password=$(od -An -N16 -tx8 /dev/urandom | tr -d ' \n')
port=$(free_port)
printf '%s\n' 'local all all trust' 'host all app 127.0.0.1/32 scram-sha-256' |
	as_user tee "$work/hba.conf" >/dev/null
start_server <<CONF
listen_addresses = '127.0.0.1'
port = $port
hba_file = '$work/hba.conf'
shared_preload_libraries = 'snowflake'
snowflake.node_id = 7
CONF
export PGPORT=$port
as_user "$bin/psql" -Xq -c "CREATE ROLE app LOGIN CREATEDB PASSWORD '$password'"

passed=0
failed=0
for name in "${names[@]}"; do
	log=$work/$name.log
	as_user "$bin/createdb" -O app "$name"
	status=0
	(cd "$source/t/orms/$name" && run_tool "$name") >"$log" 2>&1 </dev/null || status=$?
	ok=$(grep -c '^ok ' "$log" || true)
	bad=$(grep -c '^not ok ' "$log" || true)
	# What ended early said no plan
	[ "$status" -eq 0 ] && grep -qx "1..$((ok + bad))" "$log" || bad=$((bad + 1))
	say "# $name: $(sed -n 's/^# version: //p' "$log"): $ok passed, $bad failed"
	[ "$bad" -eq 0 ] || cat "$log"
	passed=$((passed + ok)) failed=$((failed + bad))
done
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
