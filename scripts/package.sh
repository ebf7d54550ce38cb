#!/usr/bin/env bash
# Build the Debian packages of the last commit, and test them as a user gets them.
#
#   scripts/package.sh [--keep] [--work=DIR] [SUITE]
#
# SUITE is a release of Debian; the default is this machine's own.  A throwaway
# root of it unpacks and builds the archive of "make dist".  A second root, without
# compiler and headers, installs the packages and sets up a cluster as the README
# says.  On another cluster there, debian/tests/installcheck runs the regression
# and isolation tests.  It also builds the RPM packages and the extension's image.
# It needs root.
# --keep keeps the work folder with the roots and logs, and prints its name.
# --work names that folder, which it makes.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/roots.sh"

keep=
work=
suite=
for arg in "$@"; do
	case $arg in
		--keep) keep=yes ;;
		--work=*) work=${arg#*=} ;;
		-h | --help) usage; exit ;;
		-*) die "unknown option $arg; see --help" ;;
		*) suite=$arg ;;
	esac
done
[ -n "$suite" ] || suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
install_packages mmdebstrap git

finish() {
	set +e
	if [ -n "$keep" ]; then
		say "Kept: $work"
	else
		remove_roots "$work"
	fi
}
[ -n "$work" ] || work=$(mktemp -d "${TMPDIR:-/tmp}/snowflake.XXXXXX")
mkdir -p "$work"
chmod 755 "$work"
trap finish EXIT
trap 'exit 130' INT TERM

passed=0
failed=0

# A command that has to succeed, with a line for it; else what it printed.
check() {
	local what=$1

	shift
	if "$@" >"$work/check.log" 2>&1 </dev/null; then
		say "ok - $what"
		passed=$((passed + 1))
	else
		say "not ok - $what"
		cat "$work/check.log"
		failed=$((failed + 1))
		return 1
	fi
}

done_testing() {
	say "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}

in_build() { in_root "$work/build" DEBIAN_FRONTEND=noninteractive "$@"; }
in_clean() { in_root "$work/clean" DEBIAN_FRONTEND=noninteractive "$@"; }
install="apt-get install -y -qq --no-install-recommends"

# The last commit as an archive, and that unpacked
unpack_archive() {
	git -c safe.directory='*' clone -q --no-local "$repo" "$work/build/build/repo" &&
		in_build sh -ec '
			cd /build/repo
			make -s dist
			unzip -q snowflake-*.zip -d ..
			mv ../snowflake-*/ ../snowflake
			cd ../snowflake
			ls $(sed -nE "s/^ *\"(docfile|file)\": \"(.*)\",$/\2/p" META.json)'
}

# For the server versions of this release, as the README says: without running
# the tests, for which this root has no server
build_packages() {
	in_build sh -ec '
		cd /build/snowflake
		pg_buildext updatecontrol
		tested=$(DEB_BUILD_PROFILES=nocheck make -s -f debian/rules override_dh_pgxs_test)
		[ -z "$tested" ]
		dpkg-buildpackage -b -us -uc -Pnocheck'
}

# As far as that goes without the packages that RPM knows
build_rpms() {
	in_build sh -ec '
		cd /build
		rpmspec -P repo/packaging/snowflake.spec >/dev/null
		rpmlint repo/packaging/snowflake.spec
		rpmbuild -bb --nodeps --define "_topdir /build/rpm" \
			--define "_sourcedir /build/repo" --define "pgmajorversion $0" \
			--define "pginstdir /usr/lib/postgresql/$0" \
			--define "pgsharedir /usr/share/postgresql/$0" \
			repo/packaging/snowflake.spec
		ls rpm/RPMS/*/snowflake_$0-1*.rpm rpm/RPMS/*/snowflake_$0-llvmjit-*.rpm' "$1"
}

has_bitcode() {
	dpkg-deb -c "$1" | grep 'lib/bitcode/snowflake\.index\.bc$'
}

# The image, of a build and of the package: what is in it, and that it is the same
build_images() {
	in_build STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot sh -ec '
		cd /build/snowflake
		version=$(make -s print-EXTVERSION)
		for deb in "" /build/postgresql-$0-snowflake_*.deb; do
			make image PG_CONFIG="/usr/lib/postgresql/$0/bin/pg_config" DEB="$deb"
			buildah build -f packaging/Containerfile -t snowflake image
			mounted=$(buildah mount "$(buildah from snowflake)")
			cd "$mounted"
			find * ! -type d | LC_ALL=C sort >"/build/files${deb:+_deb}"
			[ -z "$(find . ! -user root -o ! -perm -444 -o -perm /022)" ]
			cd -
		done
		printf "%s\n" lib/snowflake.so licenses/snowflake \
			share/extension/snowflake--$version.sql share/extension/snowflake.control \
			share/extension/snowflake_home--$version.sql share/extension/snowflake_home.control \
			share/extension/snowflake_registry--$version.sql share/extension/snowflake_registry.control |
			diff - /build/files
		diff /build/files /build/files_deb' "$1"
}

# Are there still only the packages that a user installs?
nothing_to_build() {
	in_clean sh -c '! command -v gcc && ! ls /usr/include/postgresql'
}

# As in "Start" of the README, but on no port, which another server may take
draw_id() {
	in_clean sh -ec '
		pg_createcluster $0 test
		pg_conftool $0 test set listen_addresses ""
		pg_conftool $0 test set shared_preload_libraries snowflake
		pg_conftool $0 test set snowflake.node_id 5
		pg_ctlcluster $0 test start
		set -- runuser -u postgres -- psql -XAt -v ON_ERROR_STOP=1
		"$@" -c "CREATE EXTENSION snowflake"
		node=$("$@" -c "SELECT (snowflake_parse(snowflake_nextval())).node")
		pg_ctlcluster $0 test stop
		pg_dropcluster $0 test
		[ "$node" = 5 ]' "$1"
}

# The package of pgEdge's extension is refused: one of that name, and empty.
conflicts() {
	in_clean sh -c '
		mkdir -p /other/DEBIAN
		printf "%s\n" "Package: pgedge-postgresql-$0-snowflake" "Version: 2" \
			"Architecture: all" "Maintainer: nobody <nobody@example.org>" \
			"Description: a stand-in" >/other/DEBIAN/control
		dpkg-deb -b /other /other.deb || exit 0
		! dpkg -i /other.deb' "$1" >"$work/conflict.log" 2>&1 &&
		grep 'conflicts with postgresql-[0-9]*-snowflake\|postgresql-[0-9]*-snowflake conflicts' "$work/conflict.log"
}

purge() {
	in_clean sh -ec '
		apt-get purge -y -qq "postgresql-*-snowflake"
		[ -z "$(find /usr /etc /var/lib/postgresql -name "*snowflake*")" ]'
}

say "# roots of $suite"
check "a root of $suite" make_root "$work/clean" "$suite" || done_testing
as_root mkdir -p "$work/clean/etc/postgresql-common/createcluster.d"
as_root tee "$work/clean/etc/postgresql-common/createcluster.d/none.conf" \
	>/dev/null <<<'create_main_cluster = false'
as_root cp -a "$work/clean" "$work/build"
as_root mkdir "$work/build/build"

say "# build"
check 'tools to build packages' \
	in_build $install dpkg-dev fakeroot git lintian make postgresql-common \
	rpm elfutils rpmlint unzip buildah netavark || done_testing
as_root cp -r "$repo/debian" "$work/build/build/debian"
check 'what the packages need to be built' \
	in_build sh -c 'cd /build && apt-get build-dep -y -qq --no-install-recommends -P nocheck .' || done_testing
check 'make dist, and its archive unpacked' unpack_archive || done_testing
check 'dpkg-buildpackage' build_packages || done_testing
check 'lintian' in_build sh -c 'lintian --fail-on error,warning /build/*.changes' || true

as_root cp "$work"/build/build/*.deb "$work/clean/"
as_root cp -r "$work/build/build/repo" "$work/clean/snowflake"
majors=$(printf '%s\n' "$work"/clean/postgresql-*-snowflake_*.deb |
	sed 's/.*postgresql-\([0-9]*\)-snowflake_.*/\1/')
for major in $majors; do
	deb=$(echo "$work"/clean/postgresql-"$major"-snowflake_*.deb)
	check "postgresql-$major-snowflake has bitcode" has_bitcode "$deb" || true
	check "RPM packages for PostgreSQL $major" build_rpms "$major" || true
	check "the extension's image for PostgreSQL $major" build_images "$major" || true
done

say "# installed, in a root without what it was built with"
check 'packages install' \
	in_clean sh -c "$install /postgresql-*-snowflake_*.deb" || done_testing
for major in $majors; do
	check "PostgreSQL $major draws an ID" draw_id "$major" || true
	check "PostgreSQL $major: pgEdge's package is refused" conflicts "$major" || true
done
check 'what the tests need' in_clean sh -c "
	$install iproute2 make && { $install postgresql-common-dev || true; }" || true
check 'there is no compiler and no header' nothing_to_build || true

say "# installcheck"
status=0
in_clean sh -c 'cd /snowflake && PG_VIRTUALENV_UNSHARE=-n debian/tests/installcheck' \
	>"$work/installcheck.log" 2>&1 </dev/null || status=$?
grep -E '^###|^(not )?ok |\.\.\. (ok|FAILED)|^# using|tests passed' "$work/installcheck.log" || true
ok=$(grep -cE '^ok |\.\.\. ok' "$work/installcheck.log" || true)
not_ok=$(grep -cE '^not ok |\.\.\. FAILED' "$work/installcheck.log" || true)
if [ "$status" -ne 0 ] || [ "$ok" -eq 0 ]; then
	cat "$work/installcheck.log"
	[ "$not_ok" -gt 0 ] || not_ok=1
fi
passed=$((passed + ok))
failed=$((failed + not_ok))

check 'purge leaves nothing' purge || true
done_testing
