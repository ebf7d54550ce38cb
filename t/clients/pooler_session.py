# Psycopg 3 through pgbouncer in session mode, with one server connection: it is
# reset by DISCARD ALL (server_reset_query) when a client leaves, and then given to
# the next.  PGHOST is pgbouncer's.

import psycopg

from checks import check, check_keys, done, now

since = now()
keys, pids = [], set()
for n in range(5):
    with psycopg.connect(autocommit=True) as conn:
        cur = conn.cursor()
        try:
            last = cur.execute("SELECT snowflake_currval()").fetchone()
        except psycopg.errors.ObjectNotInPrerequisiteState:
            last = None
        check(f"client {n} sees no key of another", last is None, last)
        for _ in range(10):     # prepared, too
            key, pid = cur.execute("SELECT snowflake_nextval(), pg_backend_pid()").fetchone()
            keys.append(key)
            pids.add(pid)
check("all had the same server connection", len(pids) == 1, pids)
with psycopg.connect(autocommit=True) as conn:
    check_keys(conn.cursor(), "all clients", keys, 50, since)

done()
