"""Called by Patroni before and after a promotion; see docs/patroni.md.

    pre_promote: python3 patroni_hook.py [OPTIONS] pre_promote
    callbacks:
      on_role_change: python3 patroni_hook.py [OPTIONS]

Before it, look whether this member could draw IDs as the primary.  If not, it says
why, and refuses where another member can be promoted instead: not in synchronous
mode, and not again within ten minutes, so that a cluster gets a primary whatever is
wrong.

With --registry, also note whether the promotion can lose a transaction of that
database.  In strict synchronous mode each commit has waited for a standby.  So this
member has them all if all other standbys answer, and none has received more than this
one has replayed.  After such a promotion open the registry, if it was open before.  In
any other case, and in any doubt, leave it as it is.
"""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request

IS_HERE = "SELECT extname FROM pg_extension WHERE extname = 'snowflake'"
# What keeps a server from drawing.  Not what is the same on every member.
WOULD_FAIL = """SELECT "check" || ': ' || detail FROM snowflake_check()
WHERE status = 'error' AND "check" IN ('preload', 'node_id', 'layout', 'lifetime', 'clock', 'worker')
   OR status = 'warning' AND ("check" = 'node_id' OR detail LIKE '%draw no ID%')"""
REPLAYED = "SELECT pg_last_wal_replay_lsn()"
# of a standby that has come to the end of its own WAL, as it has streamed since its start
HAS_NO_MORE = """SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) <= '{}'
WHERE pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NOT NULL"""
KINDS = "SELECT substr(extname, 11) FROM pg_extension WHERE extname IN ('snowflake_nodes', 'snowflake_segments')"
OPEN_ON = """SELECT split_part(place, '/', 2) FROM snowflake_{}_place
WHERE closed_until < now() AND guarded_until < now()"""
# the timeline that the present one came from, as in OPEN_ON
PARENT = """SELECT lpad(upper(to_hex(split_part(line, E'\\t', 1)::int)), 8, '0')
FROM regexp_split_to_table(pg_read_file(format('pg_wal/%s.history', left(pg_walfile_name(pg_current_wal_lsn()), 8))), '\\n')
     WITH ORDINALITY AS history (line, n)
WHERE line ~ '^\\d' ORDER BY n DESC LIMIT 1"""


def say(text):
    print("snowflake:", text, file=sys.stderr, flush=True)


def ask(conninfo, sql, seconds):
    """What psql prints, a line a row, or None if it fails."""
    environment = dict(os.environ, PGCONNECT_TIMEOUT="2", PGAPPNAME="patroni_hook")
    try:
        return subprocess.run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-c", sql],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=seconds, check=True,
            universal_newlines=True).stdout.splitlines()
    except subprocess.CalledProcessError:  # psql has said why
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        say(error)
        return None


def wait_for(function, seconds):
    for _ in range(seconds * 5):
        if function():
            return True
        time.sleep(0.2)
    return False


def has_all(options):
    """All others answer, but one, which may be the primary that failed, and none has more."""
    replayed = ask(options.registry, REPLAYED, 5)
    answers = replayed and [ask(f"{options.registry} host={host}", HAS_NO_MORE.format(replayed[0]), 2)
                            for host in options.others]
    return options.others and replayed and answers.count(["t"]) >= len(options.others) - 1 and ["f"] not in answers


def kinds(options):
    return ask(options.registry, KINDS, 5) or []


def patroni(options, path):
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(options.api + path, timeout=2) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:
        say(f"Patroni does not answer: {error}")
        return None


class Note:
    """What is remembered in the data directory, where no backup takes it along."""

    def __init__(self, options):
        directory = ask(options.dbname, "SHOW data_directory", 5)
        self.file = directory and os.path.join(directory[0], "pg_stat_tmp", "patroni_hook.json")

    def take(self, what, seconds):
        """Forget it, and return it if it is not older than this."""
        try:
            with open(self.file, encoding="utf-8") as file:
                note = json.load(file)
            os.unlink(self.file)
            return note.get(what) if 0 <= time.time() - note["at"] <= seconds else None
        except (OSError, TypeError, ValueError):
            return None

    def leave(self, **what):
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(dict(what, at=time.time()), file)


def pre_promote(options):
    config = patroni(options, "/config") or {}
    note = Note(options)
    refused = note.take("refused", 600)
    wrong = ask(options.dbname, IS_HERE, 5) and ask(options.dbname, WOULD_FAIL, 10) or []

    for row in wrong:
        say(f"promoted, this server could draw no ID: {row}")
    if wrong and note.file and config and not config.get("synchronous_mode") and not refused:
        note.leave(refused=True)
        say("it is not promoted now")
        return 1
    # not quorum: another standby could go on confirming commits of a primary that lives
    is_strict = config.get("synchronous_mode") in (True, "on", "true") and config.get("synchronous_mode_strict")
    if options.registry and note.file and is_strict and wait_for(lambda: has_all(options), 2):
        note.leave(open_on={kind: ask(options.registry, OPEN_ON.format(kind[:-1]), 5) for kind in kinds(options)})
    return 0


def on_role_change(options):
    open_on = Note(options).take("open_on", 300) or {}
    is_primary = wait_for(lambda: ask(options.registry, "SELECT pg_is_in_recovery()", 5) == ["f"], 60)
    parent = is_primary and ask(options.registry, PARENT, 5)
    for kind in kinds(options):
        if parent and open_on.get(kind) == parent and ask(options.registry, f"SELECT snowflake_open_{kind}()", 60):
            say(f"snowflake_{kind} is open: the promotion has lost nothing")
        else:
            say(f"snowflake_{kind} opens by itself: the promotion may have lost something")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", default="http://127.0.0.1:8008", help="Patroni's REST API on this member")
    parser.add_argument("--dbname", default="dbname=postgres", help="the home database, as psql connects to it")
    parser.add_argument("--registry", help="the registry's database, if this cluster has one")
    parser.add_argument("--others", type=lambda hosts: hosts.split(","), default=[], help="the hosts of all other members")
    parser.add_argument("action", choices=("pre_promote", "on_role_change"))
    parser.add_argument("role", nargs="?")
    parser.add_argument("cluster", nargs="?")
    options = parser.parse_args()

    if options.action == "pre_promote":
        sys.exit(pre_promote(options))
    if options.role in ("primary", "master", "promoted") and options.registry:
        on_role_change(options)


main()
