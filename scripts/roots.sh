# shellcheck shell=bash
# Throwaway Debian roots: other releases of Debian, with the server versions
# that they carry, in folders of this machine.  Sourced after common.sh.
#
# A root is made by debootstrap, from the mirror that apt is configured with.
# What runs in it has its own processes, mounts and shared memory (unshare), so
# that all of it ends with the command, and nothing is mounted on the machine.
# Only root can make one.

# The Debian release that carries a server version.
suite_of() {
	case $1 in
		15) echo bookworm ;;
		17) echo trixie ;;
		18) echo forky ;;
		19) echo experimental ;;
		*) return 1 ;;
	esac
}

# The mirror that apt takes this machine's own release from.
find_mirror() {
	apt-get indextargets --format '$(LABEL) $(SITE)' | sed -n 's/^Debian //p' | sed -n 1p
}

# The base of a root: release $2 from mirror $3 by debootstrap's script $4 in
# the folder $1, without what an earlier try left there.  A download that hangs
# is given up, for which wget alone takes a quarter of an hour each time.
make_base() {
	as_root rm -rf --one-file-system "$1"
	printf '%s\n' 'timeout = 30' 'tries = 3' 'retry_connrefused = on' >"$1.wgetrc"
	as_root env WGETRC="$1.wgetrc" timeout -s KILL 900 \
		unshare --mount --pid --fork --kill-child \
		debootstrap --variant=minbase "$2" "$1" "$3" "$4" >"$1.log" 2>&1
}

# Make a root in the new folder $1, of release $2; its log is $1.log.
make_root() {
	local dir=$1 suite=$2 script mirror

	script=/usr/share/debootstrap/scripts/$suite
	mirror=$(find_mirror)
	[ -n "$mirror" ] || die "apt is configured with no mirror of Debian"
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid

	mkdir -p "$(dirname "$dir")"

	# Experimental is not a whole release, but lies on top of sid.
	persist make_base "$dir" "${suite/experimental/sid}" "$mirror" "$script" || {
		cat "$dir.log"
		say "debootstrap could not make a root with $suite"
		return 1
	}
	# what is thrown away need not be on disk
	as_root tee "$dir/etc/dpkg/dpkg.cfg.d/90throwaway" >/dev/null <<<force-unsafe-io
	if [ "$suite" = experimental ]; then
		as_root tee "$dir/etc/apt/sources.list.d/experimental.list" >/dev/null \
			<<<"deb $mirror experimental main"
		as_root tee "$dir/etc/apt/preferences.d/experimental" >/dev/null <<-'PIN'
			Package: src:postgresql-19
			Pin: release a=experimental
			Pin-Priority: 600
		PIN
	fi

	# As this machine reaches the mirror
	apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date) ' |
		as_root tee "$dir/etc/apt/apt.conf.d/90machine" >/dev/null || true
	[ ! -e /etc/resolv.conf ] || as_root cp -L /etc/resolv.conf "$dir/etc/"
	persist in_root "$dir" apt-get update -qq -o APT::Update::Error-Mode=any
}

# Run a command in the root $1, as its root user, with no other environment.
in_root() {
	local dir=$1

	shift
	as_root unshare --mount --pid --ipc --fork --kill-child /bin/sh -c '
		dir=$1
		shift
		mount --rbind /dev "$dir/dev" &&
			mount -t tmpfs -o mode=1777 tmpfs "$dir/dev/shm" &&
			mount -t proc proc "$dir/proc" &&
			exec chroot "$dir" /usr/bin/env -i HOME=/root \
				PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
	' in_root "$dir" "$@"
}

# End what still runs in the roots in a folder.  With unshare ends all that it
# started, and the mounts.
stop_roots() { as_root pkill -9 -f "^unshare .* $1/" || true; }

# The same, and remove the folder.  What was ended is not gone in that moment.
remove_roots() {
	local dir=$1 try

	stop_roots "$dir"
	for try in 1 2 3 4 5; do
		! as_root rm -rf --one-file-system "$dir" 2>/dev/null || return 0
		sleep "$try"
	done
	say "$dir could not be removed"
}
