"""Called by Patroni before and after a promotion; see docs/patroni.md.

    pre_promote: python3 patroni_hook.py [OPTIONS] pre_promote
    callbacks:
      on_role_change: python3 patroni_hook.py [OPTIONS]

Before a promotion it checks whether this member could draw IDs as the primary.  If
not, it says why, and refuses if another member can be promoted instead.  It does not
refuse in synchronous mode, nor again within ten minutes, so the cluster gets a primary
in any case.

With --registry, it also notes whether the promotion can lose a transaction of that
database.  In strict synchronous mode each commit has waited for a standby.  So this
member has all commits if all other standbys answer, and none has received more than
this one has replayed.  After such a promotion it opens the registry, if the registry
was open before.  In any other case, and in any doubt, it leaves the registry as it is
and says why.
"""
import argparse
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request

SCHEMA = """SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
WHERE extname = 'snowflake'"""
# whose owner could put anything there: not for a superuser, if the owner is none
REGISTRY_SCHEMA = SCHEMA.replace("'snowflake'", """'snowflake_registry'
AND (pg_get_userbyid(extowner) = current_user OR (SELECT rolsuper FROM pg_roles r WHERE r.oid = extowner))""")
# What keeps a server from drawing.  Not what is the same on every member.
WOULD_FAIL = """SELECT name || ': ' || detail FROM {}.snowflake_check()
WHERE status = 'error' AND name IN ('preload', 'node_id', 'layout', 'lifetime', 'clock', 'worker')
   OR status = 'warning' AND (name = 'node_id' OR detail LIKE '%draw no ID%')"""
REPLAYED = "SELECT pg_last_wal_replay_lsn()"
# of a standby that has come to the end of its own WAL, as it has streamed since its start
HAS_NO_MORE = """SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) <= '{}'
WHERE pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NOT NULL"""
# the timeline on which it is open, or its state
OPEN_ON = "SELECT CASE state WHEN 'open' THEN split_part(place, '/', 2) ELSE state END FROM {}.snowflake_registry"
OPEN = "SELECT {}.snowflake_open_registry()"
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
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-c", "SET search_path = pg_catalog", "-c", sql],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=seconds, check=True,
            universal_newlines=True).stdout.splitlines()
    except subprocess.CalledProcessError:  # psql has said why
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        say(error)
        return None


def ask_extension(conninfo, schema_sql, sql, seconds):
    """The same of the extension whose schema that is.  None if there is none."""
    schema = ask(conninfo, schema_sql, 5)
    return ask(conninfo, sql.format(schema[0]), seconds) if schema else None


def wait_for(wanted, function, seconds):
    """What it returns, as soon as that is wanted, or at the end."""
    end = time.monotonic() + seconds
    while True:
        result = function()
        if result == wanted or time.monotonic() >= end:
            return result
        time.sleep(0.2)


def is_on(value):
    """As Patroni reads it, who takes texts too."""
    return str(value).lower() in ("true", "on", "yes", "1")


def doubt(options):
    """Why the promotion may lose something.  None if all others answer, but one, which
    may be the primary that failed, and none has more."""
    replayed = ask(options.registry, REPLAYED, 5)
    if not replayed or not replayed[0]:
        return "its database does not answer as a standby"
    answers = {host: ask(f"{options.registry} host={host}", HAS_NO_MORE.format(replayed[0]), 2)
               for host in options.others}
    ahead = [host for host in answers if answers[host] == ["f"]]
    silent = [host for host in answers if answers[host] not in (["t"], ["f"])]
    if ahead:
        return f"{', '.join(ahead)} had received more than this member had replayed"
    if len(silent) > 1:
        return f"{', '.join(silent)} did not answer as streaming standbys, and only one may be missing"
    return None


def look_at_registry(options, config):
    """What to note: the timeline on which to open it, or why not to."""
    if config is None:
        return {"doubt": "Patroni could not be asked for its mode"}
    # not quorum: another standby could go on confirming commits of a primary that lives
    for name in ("synchronous_mode", "synchronous_mode_strict"):
        if not is_on(config.get(name)):
            return {"doubt": f"{name} is {config.get(name, 'off')}"}
    if not options.others:
        return {"doubt": "--others names no member"}
    why = wait_for(None, lambda: doubt(options), 2)
    if why:
        return {"doubt": why}
    state = ask_extension(options.registry, REGISTRY_SCHEMA, OPEN_ON, 5)
    if state in (["closed"], ["guarded"]):
        return {"doubt": f"it was {state[0]} before"}
    return {"open_on": state[0]} if state else {"doubt": "its state could not be read, "
                                                          "or its owner is neither a superuser nor the role of --registry"}


def rest_api(options):
    """Patroni's address, and how to connect to it.  That is in the file with which
    Patroni was started, which has started this."""
    # Many certificates are signed by nobody.  This is the member's own address, where
    # nobody else answers, and nothing secret is sent.
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    if options.api:
        return options.api, tls

    import yaml  # which Patroni has
    with open(f"/proc/{os.getppid()}/cmdline", encoding="utf-8") as arguments:
        name = arguments.read().split("\0")[-2]
    try:
        with open(name, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        rest, ctl = config["restapi"], config.get("ctl") or {}
        address = rest.get("connect_address") or rest["listen"]
    except Exception as error:
        raise ValueError(f"{name} does not have its address: {error!r}") from error
    if ctl.get("certfile"):  # Patroni may ask for one
        tls.load_cert_chain(ctl["certfile"], ctl.get("keyfile"), ctl.get("keyfile_password"))
    return ("https://" if rest.get("certfile") else "http://") + address, tls


def dynamic_configuration(options):
    """That of Patroni, or None."""
    url = "Patroni"
    try:
        url, tls = rest_api(options)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        with direct.open(url + "/config", timeout=2) as answer:
            return json.load(answer)
    except Exception as error:  # of many libraries
        say(f"{url} could not be asked for its mode: {error}. "
            "Without it this script refuses no promotion and opens no registry. See --api.")
        return None


class Note:
    """What is remembered in the data directory, where no backup takes it along."""

    def __init__(self, options):
        directory = ask(options.dbname, "SHOW data_directory", 5)
        self.file = directory and os.path.join(directory[0], "pg_stat_tmp", "patroni_hook.json")

    def take(self, seconds):
        """Forget it, and return it if it is not older than this."""
        try:
            with open(self.file, encoding="utf-8") as file:
                note = json.load(file)
            os.unlink(self.file)
            return note if 0 <= time.time() - note["at"] <= seconds else {}
        except (OSError, TypeError, ValueError):
            return {}

    def leave(self, **what):
        """Returns whether it could."""
        try:
            with open(self.file, "w", encoding="utf-8") as file:
                json.dump(dict(what, at=time.time()), file)
            return True
        except (OSError, TypeError) as error:
            say(f"could not write its notes: {error}")
            return False


def pre_promote(options):
    config = dynamic_configuration(options)
    note = Note(options)
    refused = note.take(600).get("refused")
    wrong = ask_extension(options.dbname, SCHEMA, WOULD_FAIL, 10) or []

    for row in wrong:
        say(f"after a promotion this server could draw no ID: {row}")
    mode = "unknown" if config is None else config.get("synchronous_mode")
    if wrong and not is_on(mode) and mode not in ("unknown", "quorum") and not refused and note.leave(refused=True):
        say("this promotion is refused")
        return 1
    if options.registry:
        note.leave(**look_at_registry(options, config))
    return 0


def on_role_change(options):
    note = Note(options).take(300)
    if "open_on" not in note:
        why = note.get("doubt", "pre_promote has noted nothing in the last 5 minutes")
    elif wait_for(["f"], lambda: ask(options.registry, "SELECT pg_is_in_recovery()", 5), 60) != ["f"]:
        why = "its database does not answer as a primary"
    elif ask(options.dbname, PARENT, 5) != [note["open_on"]]:
        why = f"it was open on timeline {note['open_on']}, which is not the parent of the present one"
    elif not ask_extension(options.registry, REGISTRY_SCHEMA, OPEN, 60):
        why = "it could not be opened"
    else:
        say("the registry is open: the promotion has lost nothing")
        return
    say(f"the registry opens by itself: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", help="Patroni's REST API on this member, if its file does not have the address; "
                        "for example http://10.0.0.1:8008")
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
