# shellcheck shell=bash
# What the commands share: packages, an unprivileged user, and a server tree
# of their own.  Sourced, not run.
#
# PostgreSQL refuses to run as root, and a command may leave nothing behind on
# the machine.  So root (or sudo) only installs Debian packages.  All else
# happens in one work folder, as the user "postgres" if the caller is root and
# as the caller otherwise.  The work folder gets a copy of the installed server,
# made of links.  PostgreSQL finds its files relative to its programs, so the
# extension is installed into that copy.  The command touches neither the
# machine's own server nor its databases.

set -euo pipefail

# Nothing of the caller's may change what happens: its locale, umask and
# PostgreSQL variables, nor root's temporary folder, which others may not reach.
export LC_ALL=C
umask 022
for name in "${!PG@}"; do
	[[ $name == PG_* ]] || unset "$name"
done
[ "$(id -u)" -ne 0 ] || unset TMPDIR

# Seconds that pg_ctl waits, on a machine that is busy.
export PGCTLTIMEOUT=180

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# The comment at the top of the command.
usage() { sed -n '2,/^\([^#]\|$\)/{/^# shellcheck/d; s/^# \{0,1\}//p}' "$0"; }

# Run a command that downloads, again if need be: a mirror may be away for a
# moment.
persist() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

# As root, or through sudo.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "only root can do this, and there is no sudo: $*"
	fi
}

# As the unprivileged user that runs the server.
as_user() {
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u postgres -- env HOME="$work" "$@"
	else
		"$@"
	fi
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The server version: PG_MAJOR, else the newest on this machine, else the one
# that Debian's own "postgresql" package stands for.
find_major() {
	local newest

	if [ -n "${PG_MAJOR:-}" ]; then
		pg_major=$PG_MAJOR
		installed "postgresql-$pg_major" && return
		[ -n "$(apt-cache madison "postgresql-$pg_major")" ] || apt_update
		[ -n "$(apt-cache madison "postgresql-$pg_major")" ] ||
			die "this machine has no PostgreSQL $pg_major, and its release of Debian has none either; it has: $(apt-cache pkgnames postgresql- | sed -n 's/^postgresql-\([0-9]*\)$/\1/p' | sort -n | paste -sd' ')"
		return
	fi
	newest=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres |
		cut -d/ -f5 | sed '/[^0-9]/d' | sort -n | tail -n 1)
	if [ -z "$newest" ]; then
		apt_update
		newest=$(apt-cache depends postgresql 2>/dev/null |
			sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | sed -n 1p)
	fi
	[ -n "$newest" ] || die "apt knows no PostgreSQL server"
	pg_major=$newest
}

apt_update() {
	[ -z "${apt_updated:-}" ] || return 0
	say "Updating the package lists ..."
	persist as_root apt-get update -qq -o APT::Update::Error-Mode=any ||
		as_root apt-get update -qq # another source than Debian may be gone
	apt_updated=yes
}

# Install those of the packages that are missing.
install_packages() {
	local package missing=()

	for package in "$@"; do
		installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
		die "these packages are missing, and only root or sudo can install them: ${missing[*]}"

	apt_update
	say "Installing ${missing[*]} (this can take some minutes) ..."
	install_missing "${missing[@]}"
}

# A server package makes a database cluster and starts it; that is told not to
# happen.  In a subshell, so that the telling is taken back however it ends.
install_missing() (
	no_cluster=/etc/postgresql-common/createcluster.d/zz-snowflake.conf
	log=$(mktemp "${TMPDIR:-/tmp}/snowflake-apt.XXXXXX")
	trap 'set +e; rm -f "$log"; as_root rm -f "$no_cluster"
		as_root rmdir "$(dirname "$no_cluster")" 2>/dev/null' EXIT
	trap 'exit 130' INT TERM HUP
	as_root mkdir -p "$(dirname "$no_cluster")"
	printf 'create_main_cluster = false\n' | as_root tee "$no_cluster" >/dev/null
	persist as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		-o DPkg::Lock::Timeout=120 --no-install-recommends "$@" \
		</dev/null >"$log" 2>&1 || {
		cat "$log" >&2
		die "apt-get could not install $*"
	}
)

# Unpack a package that a test is about into a folder: the apt-get command that
# downloads it, with the package as its last word.  Such packages are not
# installed, since they start services, or would be left behind.
unpack_package() {
	local into=$1 archives deb

	shift
	say "Downloading ${*: -1} ..."
	archives=$(as_user mktemp -d "$work/apt.XXXXXX")
	as_user mkdir "$archives/partial"
	download "$archives" "$@" ||
		{ [ -z "${apt_updated:-}" ] && (apt_update) && apt_updated=yes &&
			download "$archives" "$@"; } || {
		cat "$archives/log" >&2
		return 1
	}
	as_user mkdir -p "$into"
	for deb in "$archives"/*.deb; do
		as_user dpkg-deb -x "$deb" "$into"
	done
}

# As the user, into a folder of its own, so that root and apt's locks are not
# needed.
download() (
	cd "$1"
	shift
	as_user apt-get -qq -y -o Debug::NoLocking=true \
		-o Dir::Cache::archives="$PWD" "$@" 2>&1 | as_user tee log >/dev/null
)

# Find pgbouncer, which a test draws through: the installed one, else an
# unpacked one with the libraries that are missing.  Without it that one test
# fails, and says why.
find_pgbouncer() {
	local dir=$work/pgbouncer

	pgbouncer=$(PATH=$PATH:/usr/sbin type -P pgbouncer || true)
	[ -z "$pgbouncer" ] || return 0

	unpack_package "$dir" install --download-only --no-install-recommends \
		pgbouncer || return 0
	as_user tee "$dir/pgbouncer" >/dev/null <<-WRAPPER
		#!/bin/sh
		LD_LIBRARY_PATH=$(find "$dir" -name 'lib*.so.*' -printf '%h\n' | sort -u | paste -sd:)
		export LD_LIBRARY_PATH
		exec $dir/usr/sbin/pgbouncer "\$@"
	WRAPPER
	as_user chmod +x "$dir/pgbouncer"
	if as_user "$dir/pgbouncer" --version >/dev/null; then
		pgbouncer=$dir/pgbouncer
	fi
}

# Find Patroni, etcd and haproxy, which tests run: unpacked, with what they need, since
# their packages start services.  Without them those tests fail, and say why.
find_patroni() {
	install_packages python3
	patroni=$work/patroni
	unpack_package "$patroni" install --download-only --no-install-recommends \
		python3-etcd patroni etcd-server haproxy || true
}

# Find Prometheus and its exporter for PostgreSQL, which a test runs: the
# installed ones, else unpacked ones, which need no more than the C library.
# Before Debian 13 promtool is in the package prometheus.  Without them that one
# test fails, and says why.
find_monitoring() {
	local program

	monitoring=$work/monitoring/usr/bin
	for program in prometheus promtool prometheus-postgres-exporter; do
		[ -x "$monitoring/$program" ] || type -P "$program" >/dev/null ||
			unpack_package "$work/monitoring" download "$program" || return 0
	done
}

# Install the drivers and ORMs that a test uses, and the languages.  Unpack
# node-postgres: Debian's package goes with Debian's Node.js only, and another
# may be installed.  Unpack Hibernate, which brings many others.
find_clients() {
	install_packages python3-psycopg python3-psycopg2 python3-sqlalchemy python3-asyncpg \
		python3-django default-jdk-headless libpostgresql-jdbc-java ruby ruby-pg \
		libdbd-pg-perl php-cli php-pgsql
	type -P node >/dev/null || install_packages nodejs
	node_path=$work/node/usr/share/nodejs
	unpack_package "$work/node" download node-split2 node-xtend node-pg || true
	hibernate=$work/hibernate/usr/share/java
	unpack_package "$work/hibernate" download libhibernate3-java libhibernate-commons-annotations-java \
		libantlr-java libcommons-collections3-java libdom4j-java libgeronimo-jpa-2.0-spec-java \
		libgeronimo-jta-1.2-spec-java libjavassist-java libslf4j-java || true
}

# Find another extension of the package postgresql-MAJOR-$1, whose name is $2 or
# else pg_$1: the installed one, else one unpacked into the server tree.  Without
# it its test fails, except where apt has its lists and knows no such package:
# then it is skipped.
find_extension() {
	local package=postgresql-$pg_major-$1 extension=${2:-pg_$1}

	if [ -e "$server/usr/share/postgresql/$pg_major/extension/$extension.control" ] ||
		unpack_package "$server" download "$package"; then
		return 0
	elif [ -n "$(apt-cache madison postgresql)" ] &&
		[ -z "$(apt-cache madison "$package")" ]; then
		say "SKIPPED: apt knows no package $package"
		no_package+=" $1"
	fi
}

# Apt with lists and downloads of the user's own, made from apt's configuration,
# so that nothing of the machine changes: for packages of the kind $1, deb or
# deb-src, with further options.
make_apt() {
	local kind=$1

	shift
	apt=$work/apt
	apt_options=(-qq -o Debug::NoLocking=true -o Dir::Etc::sourcelist="$apt/sources.list"
		-o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" "$@")
	as_user mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
		sort -u | sed "s/.*/$kind & main/" | as_user tee "$apt/sources.list" >/dev/null
	(cd "$apt" && as_user apt-get "${apt_options[@]}" update) >"$apt/log" 2>&1 || cat "$apt/log" >&2
}

# The source of the server, in the folder $tree.  What a mirror has listed it may
# not have: the newest version that it has.
find_tree() {
	local version

	[ -z "$tree" ] || return 0
	say "Downloading the source of postgresql-$pg_major ..."
	make_apt deb-src
	for version in $(apt-cache "${apt_options[@]}" showsrc --only-source "postgresql-$pg_major" |
		sed -n 's/^Version: //p' | sort -Vru); do
		(cd "$apt" && as_user apt-get "${apt_options[@]}" source --download-only \
			"postgresql-$pg_major=$version") >>"$apt/log" 2>&1 || continue
		as_user mkdir "$work/postgresql"
		as_user tar -C "$work/postgresql" --strip-components=1 -xf "$apt"/*.orig.tar.*
		tree=$work/postgresql
		return
	done
	cat "$apt/log" >&2
	die "there is no source of postgresql-$pg_major; give one by --source DIR"
}

# Make the work folder: the given one where the unprivileged user can reach it
# and make and a socket take its path, else a new one in the temporary
# folder, with a link to it in the given place.
make_work() {
	local wanted=${1:-}

	work=
	if [[ $wanted =~ ^[[:alnum:]/._+-]{1,70}$ ]]; then
		mkdir -p "$wanted"
		if [ "$(id -u)" -ne 0 ] || runuser -u postgres -- test -x "$wanted" 2>/dev/null; then
			work=$wanted
		else
			rmdir "$wanted"
		fi
	fi
	if [ -z "$work" ]; then
		work=$(mktemp -d "${TMPDIR:-/tmp}/snowflake.XXXXXX")
		chmod 755 "$work"
		[ -z "$wanted" ] || ln -sfn "$work" "$wanted"
	fi
	[ "$(id -u)" -ne 0 ] || chown postgres: "$work"
}

# Copy the installed server into the work folder: links for its files, real
# copies of its programs, since those find the rest from where they are.
make_server_tree() {
	local lib=usr/lib/postgresql/$pg_major share=usr/share/postgresql/$pg_major

	server=$work/server
	as_user mkdir -p "$server/usr/lib/postgresql" "$server/usr/share/postgresql" \
		"$server/usr/include"
	as_user cp -as "/$lib" "$server/usr/lib/postgresql/"
	as_user cp -as "/$share" "$server/usr/share/postgresql/"
	as_user ln -s /usr/include/postgresql "$server/usr/include/postgresql"
	as_user rm -rf "$server/$lib/bin"
	as_user cp -r "/$lib/bin" "$server/$lib/bin"
	as_user rm -f "$server/$lib/lib/snowflake.so" \
		"$server/$share/extension"/snowflake{,_home,_registry}.control
	bin=$server/$lib/bin
	pg_config=$bin/pg_config
}

# What tar leaves out of a copy of the sources
not_sources=(--exclude=./.git --exclude=./.demo '--exclude=*.o' '--exclude=*.so'
	'--exclude=*.bc' --exclude=./results --exclude=./tmp_check)

# Put the sources into a new folder: as_user or as_root, and the folder; or those
# in the folder $3.
copy_sources() {
	"$1" mkdir -p "$2"
	tar -C "${3:-$repo}" "${not_sources[@]}" -cf - . | "$1" tar -C "$2" --no-same-owner -xf -
}

# Build the extension from a copy of the sources and install it there.
# More arguments go to make.
build_extension() {
	make_extension install "$@"
}

make_extension() {
	source=$work/source
	rm -rf "$source" # an earlier build may have had other flags
	copy_sources as_user "$source"
	as_user make -s -C "$source" PG_CONFIG="$pg_config" with_llvm=no "${@:2}" \
		"$1" >"$work/build.log" 2>&1 || {
		cat "$work/build.log" >&2
		die "the build failed"
	}
}

# The same, but put the files into a folder of root's, as an image of the extension
# is mounted.  New data directories have the settings to find them there.
build_image() {
	local sample=$server/usr/share/postgresql/$pg_major/postgresql.conf.sample

	make_extension image "$@"
	cp -r "$source/image" "$work/image"
	chmod -R a-w "$work/image"
	as_user cp --remove-destination "$(readlink -f "$sample")" "$sample"
	as_user tee -a "$sample" >/dev/null <<-CONF
		extension_control_path = '\$system:$work/image/share'
		dynamic_library_path = '\$libdir:$work/image/lib'
	CONF
}

# Start a server in the work folder: init, settings from standard input, start.
# More arguments go to pg_ctl.  It listens on a Unix socket only, which trusts
# its user and root, and whose permissions keep all others away.
start_server() {
	data=$work/data
	as_user "$bin/initdb" -D "$data" -U postgres -A trust --no-sync -E UTF8 \
		--locale=C >"$work/initdb.log" 2>&1 || {
		cat "$work/initdb.log" >&2
		die "initdb failed"
	}
	{
		printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$work'" \
			"unix_socket_permissions = 0700" "port = 5432"
		cat
	} | as_user tee -a "$data/postgresql.conf" >/dev/null
	as_user "$bin/pg_ctl" -D "$data" -l "$work/server.log" -w "$@" start >/dev/null || {
		cat "$work/server.log" >&2
		die "the server did not start"
	}
	export PGHOST=$work PGPORT=5432 PGUSER=postgres
}

stop_server() {
	[ ! -f "$work/data/postmaster.pid" ] ||
		as_user "$bin/pg_ctl" -D "$work/data" -m "${1:-fast}" -w stop >/dev/null
}
