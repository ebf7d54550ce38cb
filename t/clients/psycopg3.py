# Psycopg 3.  It connects to where PGHOST, PGDATABASE and so on say.

import time
from datetime import timedelta

import psycopg
from psycopg.types.range import TimestamptzRange

from checks import check, check_keys, done, now

print("# psycopg", psycopg.__version__)
conn = psycopg.connect(autocommit=True)
cur = conn.cursor()

cur.execute("CREATE EXTENSION IF NOT EXISTS snowflake")
cur.execute("""
    CREATE TABLE orders (
        id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        item text NOT NULL
    )""")
began = now()

# One row: the key comes back as a Python int.
since = now()
key = conn.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", ["tea"]).fetchone()[0]
check_keys(cur, "INSERT", [key], 1, since)

# Many rows: executemany() has a result for each, in the order of the parameters.
items = [[f"item {n}"] for n in range(1000)]
since = now()
cur.executemany("INSERT INTO orders (item) VALUES (%s) RETURNING id", items, returning=True)
keys = [cur.fetchone()[0]]
while cur.nextset():
    keys.append(cur.fetchone()[0])
check_keys(cur, "executemany", keys, 1000, since)

# In a single statement, where the number of rows allows it.
since = now()
cur.execute(
    "INSERT INTO orders (item) SELECT unnest(%s::text[]) RETURNING id",
    ([f"item {n}" for n in range(1000)],))
keys = [key for (key,) in cur]
check_keys(cur, "one INSERT of many rows", keys, 1000, since)

# A pipeline sends them all before it waits for the first result.
since = now()
with conn.pipeline():
    cursors = [conn.execute("INSERT INTO orders (item) VALUES ('milk') RETURNING id")
               for _ in range(100)]
    keys = [c.fetchone()[0] for c in cursors]
check_keys(cur, "pipeline", keys, 100, since)

# COPY without the key: the default draws it.
since = now()
before = cur.execute("SELECT snowflake_nextval()").fetchone()[0]
with cur.copy("COPY orders (item) FROM STDIN") as copy:
    for n in range(1000):
        copy.write_row((f"copied {n}",))
keys = [key for (key,) in cur.execute(
    "SELECT id FROM orders WHERE id > %s ORDER BY id", (before,))]
check_keys(cur, "COPY", keys, 1000, since)

# COPY does not return keys.  Where they are needed, draw them before.
since = now()
keys = [key for (key,) in cur.execute("SELECT snowflake_nextval(%s)", (1000,))]
with cur.copy("COPY orders (id, item) FROM STDIN") as copy:
    for key in keys:
        copy.write_row((key, "copied with its key"))
check_keys(cur, "keys drawn for COPY", keys, 1000, since)

# Rows of a period, by the primary key.
total = cur.execute("SELECT count(*) FROM orders").fetchone()[0]
in_period = "SELECT count(*) FROM orders WHERE snowflake_in(id, %s, %s)"
until = now() + timedelta(minutes=1)
check("snowflake_in() with two times finds the rows",
      cur.execute(in_period, (began, until)).fetchone()[0] == total == 4101, total)
from_ts, to_ts = began, until
rows = conn.execute("SELECT * FROM orders WHERE snowflake_in(id, %s, %s)", [from_ts, to_ts]).fetchall()
check("and returns them", len(rows) == total, len(rows))
check("and none where there are none",
      cur.execute(in_period, (began - timedelta(days=1), began)).fetchone()[0] == 0)
check("snowflake_in() with a range finds the rows", cur.execute(
    "SELECT count(*) FROM orders WHERE snowflake_in(id, %s)",
    (TimestamptzRange(began, until),)).fetchone()[0] == total)
ids = cur.execute("SELECT id_range_for(%s, %s)", (began, until)).fetchone()[0]
check("id_range_for() is a range of two int",
      type(ids.lower) is int and type(ids.upper) is int
      and ids.lower_inc and not ids.upper_inc, ids)
check("and finds the rows", cur.execute(
    "SELECT count(*) FROM orders WHERE id >= %s AND id < %s",
    (ids.lower, ids.upper)).fetchone()[0] == total)


# One argument, of Python's types or a text, is a day or an instant.
def id_range_for(*args):
    return cur.execute(f"SELECT id_range_for({', '.join(['%s'] * len(args))})", args).fetchone()[0]


day = began.date()
ids = id_range_for(day, day + timedelta(days=1))
check("id_range_for() of a date is the day", id_range_for(day) == id_range_for(str(day)) == ids, ids)
ids = id_range_for(began, began + timedelta(milliseconds=1))
check("id_range_for() of a time is the millisecond",
      id_range_for(began) == id_range_for(str(began)) == ids, ids)

# Statements are prepared when they are run for the sixth time.
since = now()
keys = []
for n in range(20):
    keys.append(cur.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", (f"prepared {n}",)).fetchone()[0])
    total += 1
    found = cur.execute(in_period, (began, until)).fetchone()[0]
    if found != total:
        break
check("snowflake_in() in a prepared statement finds the rows each time", found == total, (found, total))
check_keys(cur, "prepared statements", keys, 20, since)
prepared = [s for (s,) in cur.execute("SELECT statement FROM pg_prepared_statements")]
check("both were prepared", sum("snowflake_in" in s for s in prepared) == 1
      and sum("INSERT" in s and "VALUES ($1)" in s for s in prepared) == 1, prepared)

# Where a pool resets its connections by DISCARD ALL, let it prepare nothing:
# before 3.3 psycopg does not see that its statements are gone.  IDs ascend across that, and
# nobody sees the last one that another client drew.
since = now()
with psycopg.connect(autocommit=True, prepare_threshold=None) as pooled:
    keys = [pooled.execute("SELECT snowflake_nextval()").fetchone()[0]]
    pooled.execute("DISCARD ALL")
    try:
        found = pooled.execute("SELECT snowflake_currval()").fetchone()
    except psycopg.errors.ObjectNotInPrerequisiteState:
        found = None
    keys += pooled.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", ("reset",)).fetchone()
check("DISCARD ALL: snowflake_currval() is forgotten", found is None, found)
check_keys(cur, "DISCARD ALL", keys, 2, since)

# Readers that poll: below the horizon, each row once.
with psycopg.connect() as conn:
    conn.autocommit = True
    conn.execute(
        "CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), message text)")
    last = 0
    seen = []
    for n in range(20):
        conn.execute("INSERT INTO outbox (message) VALUES (%s)", [str(n)])
        horizon = conn.execute("SELECT snowflake_horizon()").fetchone()[0]
        rows = conn.execute(
            "SELECT id, message FROM outbox WHERE id > %s AND id < %s"
            " ORDER BY id LIMIT 1000", [last, horizon]).fetchall()
        last = rows[-1][0] if rows else last
        seen += rows
    newest = conn.execute("SELECT max(id) FROM outbox").fetchone()[0]
    until = time.monotonic() + 60
    while horizon <= newest and time.monotonic() < until:
        horizon = conn.execute("SELECT snowflake_horizon()").fetchone()[0]
    seen += conn.execute("SELECT id, message FROM outbox WHERE id > %s AND id < %s ORDER BY id",
                         [last, horizon]).fetchall()
check("snowflake_horizon(): each row is read once, in order",
      [m for _, m in seen] == [str(n) for n in range(20)], seen)

done()
