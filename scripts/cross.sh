#!/usr/bin/env bash
# Run the regression and isolation tests on servers of other architectures.
#
#   scripts/cross.sh [--keep] ARCHITECTURE ...
#
# An architecture has its name in Debian: arm64, or s390x, which is big-endian.
# Debian's cross compiler builds the extension for a server of that architecture.
# The server is unpacked in the work folder, and qemu runs it.  The kernel learns
# of no foreign programs (binfmt_misc): each program is a script that calls qemu.
# Programs see the files of that root first, and then those of the machine.
#
# --keep keeps the work folder.  PG_MAJOR=17 scripts/cross.sh uses that server
# version, which this machine's release of Debian must have.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

keep=
archs=()
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		-h | --help) usage; exit ;;
		-*) die "unknown option $arg; see --help" ;;
		*) archs+=("$arg") ;;
	esac
done
[ ${#archs[@]} -gt 0 ] || die "which architecture? arm64 and s390x, for example"

find_major
install_packages dpkg-dev make qemu-user postgresql-common # which makes the user

finish() {
	set +e
	stop_server immediate
	if [ -n "$keep" ]; then
		say "Kept: $top"
	else
		rm -rf "$top"
	fi
}
make_work
top=$work
trap finish EXIT
trap 'exit 130' INT TERM
cd "$top"

# A root of an architecture: its server with what this needs, and what a build
# needs.  Of the server's development package, files alone: it depends on clang.
make_arch_root() {
	local arch=$1 qemu=$2 dir program

	server=$work/root
	as_user mkdir -p "$server"
	as_user touch "$work/no-packages"
	make_apt deb -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
		-o Dir::State::status="$work/no-packages"
	unpack_package "$server" "${apt_options[@]}" install --download-only \
		--no-install-recommends base-files libc6-dev libpq-dev "postgresql-$pg_major"
	unpack_package "$server" "${apt_options[@]}" download "postgresql-server-dev-$pg_major"

	bin=$server/usr/lib/postgresql/$pg_major/bin
	for program in "$bin"/{initdb,pg_config,pg_ctl,postgres,psql} \
		"$bin"/../lib/pgxs/src/test/{regress/pg_regress,isolation/{pg_isolation_regress,isolationtester}}; do
		as_user mv "$program" "$program.$arch"
		as_user tee "$program" >/dev/null <<-WRAPPER
			#!/bin/sh
			exec $qemu -L $server -0 "\$0" $program.$arch "\$@"
		WRAPPER
		as_user chmod +x "$program"
	done
	pg_config=$bin/pg_config
}

run_arch() {
	local arch=$1 gnu cpu

	gnu=$(dpkg-architecture -f -a"$arch" -qDEB_HOST_GNU_TYPE 2>/dev/null) ||
		die "Debian has no architecture $arch"
	cpu=${gnu%%-*}
	install_packages "gcc-${gnu//_/-}"
	work=$top/$arch
	passed=0
	failed=0
	as_user mkdir "$work"
	make_arch_root "$arch" "qemu-${cpu/powerpc/ppc}"
	find_pgxs
	build_extension CC="$gnu-gcc --sysroot=$server" COPT="$warnings"
	start_server <<-'CONF'
		shared_preload_libraries = 'snowflake'
		snowflake.node_id = 24
		fsync = off
	CONF
	run_regress
	run_isolation
	stop_server
	unset PGHOST PGPORT PGUSER
}

status=0
for arch in "${archs[@]}"; do
	say "## $arch"
	SECONDS=0
	run_arch "$arch"
	say "## $arch: $SECONDS s, $passed passed, $failed failed"
	[ "$failed" -eq 0 ] || status=1
done
exit "$status"
