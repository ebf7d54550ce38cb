# shellcheck shell=bash
# Throwaway Debian roots: other releases of Debian, with the server versions
# that they carry, in folders of this machine.  Sourced after common.sh.
#
# mmdebstrap makes a root, from the mirror that apt is configured with.  Programs
# in it have their own processes, mounts and shared memory (unshare).  So all of
# them end with the command, and nothing is mounted on the machine.  Only root can
# make one.

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

# Run a command as root in namespaces of its own, all of which ends with one
# process.  The file $1 gets the number of that, and when it began, since numbers
# are used again.
apart() {
	as_root sh -c 'cut -d " " -f 1,22 "/proc/$$/stat" >>"$1" && shift &&
		exec unshare --mount --pid --ipc --fork --kill-child "$@"' apart "$@"
}

# The base of a root: the folder $1, by mmdebstrap with the other arguments,
# without what an earlier try left there.
make_base() {
	local dir=$1

	shift
	as_root rm -rf --one-file-system "$dir"
	apart "$dir.pids" timeout -s KILL 900 mmdebstrap --mode=root --variant=apt \
		--skip=cleanup/apt/lists --aptopt="$dir.apt" --dpkgopt=force-unsafe-io \
		"$1" "$dir" "${@:2}" >"$dir.log" 2>&1
}

# Make a root in the new folder $1, of release $2; its log is $1.log.
make_root() {
	local dir=$1 suite=$2 mirror

	mirror=$(find_mirror)
	[ -n "$mirror" ] || die "apt is configured with no mirror of Debian"
	mkdir -p "$(dirname "$dir")"

	# As this machine reaches the mirror; and what hangs is given up.
	{
		printf 'Acquire::%s;\n' 'Retries "3"' 'http::Timeout "30"' 'https::Timeout "30"'
		apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date) ' || true
	} >"$dir.apt"

	# Experimental is not a whole release, but lies on top of sid.
	set -- "deb $mirror $suite main"
	[ "$suite" != experimental ] || set -- "deb $mirror sid main" "$@"
	persist make_base "$dir" "${suite/experimental/sid}" "$@" || {
		cat "$dir.log"
		say "mmdebstrap could not make a root with $suite"
		return 1
	}
	[ "$suite" != experimental ] || as_root tee "$dir/etc/apt/preferences.d/experimental" >/dev/null <<-'PIN'
		Package: src:postgresql-19
		Pin: release a=experimental
		Pin-Priority: 600
	PIN
}

# Run a command in the root $1, as its root user, with no other environment.  The
# root is a mount, as programs that build images want one at "/".
in_root() {
	local dir=$1

	shift
	apart "$dir.pids" /bin/sh -c '
		dir=$1
		shift
		mount --bind "$dir" "$dir" &&
			mount --rbind /dev "$dir/dev" &&
			mount -t tmpfs -o mode=1777 tmpfs "$dir/dev/shm" &&
			mount -t proc proc "$dir/proc" &&
			exec chroot "$dir" /usr/bin/env -i HOME=/root \
				PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
	' in_root "$dir" "$@"
}

# End what still runs in the roots in a folder, or in one of its folders.
stop_roots() {
	local file pid began

	for file in "$1"/{,*/}*.pids; do
		[ -e "$file" ] || continue
		while read -r pid began; do
			[ "$(cut -d ' ' -f 22 "/proc/$pid/stat" 2>/dev/null)" != "$began" ] ||
				as_root kill -KILL "$pid" || true
		done <"$file"
	done
}

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
