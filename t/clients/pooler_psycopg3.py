# Psycopg 3 through pgbouncer in transaction mode, where each transaction may go
# to another server connection.  PGHOST is pgbouncer's.

from datetime import timedelta
from threading import Thread

import psycopg

from checks import check, check_keys, done, now


# pgbouncer before 1.21 knows nothing of prepared statements.
def connect():
    return psycopg.connect(autocommit=True, prepare_threshold=None)


conn = connect()
cur = conn.cursor()
cur.execute("""
    CREATE TABLE orders (
        id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        item text NOT NULL
    )""")
began = now()


def insert(conn):
    return conn.execute("INSERT INTO orders (item) VALUES ('tea')"
                        " RETURNING id, pg_backend_pid()").fetchone()


# A client draws on one server connection, and then on the other, since the
# first is held by another client's transaction.
since = now()
with connect() as first, connect() as second, connect() as third:
    drawn = [insert(first)]
    second.execute("BEGIN")
    drawn.append(insert(second))
    if drawn[1][1] != drawn[0][1]:
        third.execute("BEGIN")
        drawn.append(insert(third))
        second.execute("COMMIT")
    drawn.append(insert(first))
check("a client goes to the other server connection", drawn[0][1] != drawn[-1][1], drawn)
check_keys(cur, "on both", [key for key, pid in drawn], len(drawn), since, ascending=False)

# Many at once
single = {}         # the keys that each client got, one in a transaction
together = {}       # ten in a transaction, and snowflake_currval() after them
pids = set()


def client(number):
    single[number], together[number] = [], []
    with connect() as conn:
        for n in range(100):
            # Take the key from RETURNING.  snowflake_currval() in a transaction of
            # its own may be another client's.
            key, pid = insert(conn)
            single[number].append(key)
            pids.add(pid)

            if n % 10 == 0:
                with conn.transaction():
                    keys = [conn.execute("INSERT INTO orders (item) VALUES ('both') RETURNING id")
                            .fetchone()[0] for _ in range(10)]
                    own = conn.execute("SELECT snowflake_currval()").fetchone()[0]
                together[number].append((keys, own))


since = now()
threads = [Thread(target=client, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

check("8 clients share 2 server connections", 1 <= len(pids) <= 2, pids)
keys = [key for number in single for key in single[number]]
for number in together:
    keys += [key for ten, _ in together[number] for key in ten]
check_keys(cur, "all clients", keys, 8 * 200, since, ascending=False)
check("those of a transaction ascend",
      all(ten == sorted(ten) for number in together for ten, _ in together[number]))
check("snowflake_currval() in the same transaction is one's own",
      all(ten[-1] == own for number in together for ten, own in together[number]))
found = cur.execute("SELECT count(*) FROM orders WHERE snowflake_in(id, %s, %s)",
                    (began, now() + timedelta(seconds=1))).fetchone()[0]
check("snowflake_in() finds the rows", found == 1600 + len(drawn), found)
falls = sum(a > b for number in single for a, b in zip(single[number], single[number][1:]))
print(f"# across transactions, {falls} of {8 * 99} keys were below the client's one before")

done()
