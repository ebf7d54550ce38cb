# asyncpg.  It connects to where PGHOST, PGDATABASE and so on say.

import asyncio
import json
from datetime import timedelta

import asyncpg
import psycopg

from checks import check, check_keys, done, now


# What an error says, or what came instead of it
async def error_of(awaitable):
    try:
        return ("no error", await awaitable)
    except asyncpg.PostgresError as e:
        return f"{e.sqlstate} {e}"
    except asyncpg.InterfaceError as e:
        return str(e)


async def main():
    print("# asyncpg", asyncpg.__version__)
    conn = await asyncpg.connect()
    cur = psycopg.connect(autocommit=True).cursor()     # for check_keys()
    await conn.execute("CREATE EXTENSION IF NOT EXISTS snowflake")
    await conn.execute("""
        CREATE TABLE orders (
            id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
            item text NOT NULL
        )""")
    from_ts = now()

    # One row: the key comes back as a Python int.
    since = now()
    key = await conn.fetchval("INSERT INTO orders (item) VALUES ($1) RETURNING id", "tea")
    check_keys(cur, "INSERT", [key], 1, since)

    # Many rows in one statement
    items = [f"item {n}" for n in range(1000)]
    since = now()
    keys = await conn.fetch("INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id", items)
    check_keys(cur, "one INSERT of many rows", [row["id"] for row in keys], 1000, since)

    # A statement for each of many rows.  executemany() has no keys.
    found = await conn.executemany(
        "INSERT INTO orders (item) VALUES ($1) RETURNING id", [(item,) for item in items[:10]])
    check("executemany() has no keys", found is None, found)
    insert = await conn.prepare("INSERT INTO orders (item) VALUES ($1) RETURNING id")
    since = now()
    keys = [await insert.fetchval(item) for item in items[:20]]
    check_keys(cur, "a prepared statement", keys, 20, since)

    # COPY does not return keys.  Where they are needed, draw them before.
    since = now()
    keys = [row[0] for row in await conn.fetch("SELECT snowflake_nextval($1)", 1000)]
    await conn.copy_records_to_table(
        "orders", records=[(key, "copied with its key") for key in keys], columns=["id", "item"])
    check_keys(cur, "keys drawn for COPY", keys, 1000, since)

    # Rows of a period, by the primary key
    to_ts = now() + timedelta(seconds=1)
    rows = await conn.fetch("SELECT * FROM orders WHERE snowflake_in(id, $1, $2)", from_ts, to_ts)
    check("snowflake_in() finds the rows", len(rows) == 2031, len(rows))
    rows = await conn.fetch(
        "SELECT * FROM orders WHERE snowflake_in(id, $1, $2)", from_ts - timedelta(days=1), from_ts)
    check("and none where there are none", rows == [], rows)
    rows = await conn.fetch(
        "SELECT * FROM orders WHERE snowflake_in(id, $1)", asyncpg.Range(from_ts, to_ts))
    check("snowflake_in() with a range finds the rows", len(rows) == 2031, len(rows))

    # One argument is a day or an instant.  asyncpg asks the server for its type,
    # which is a text unless there is a cast.
    day = from_ts.date()
    ids = await conn.fetchval("SELECT id_range_for($1::date)", day)
    whole = await conn.fetchval(f"SELECT id_range_for('{day}', '{day + timedelta(days=1)}')")
    check("id_range_for() of a date is the day", ids == whole, (ids, whole))
    check("id_range_for() of a text is the day",
          await conn.fetchval("SELECT id_range_for($1)", str(day)) == ids)
    ids = await conn.fetchval("SELECT id_range_for($1::timestamptz)", from_ts)
    whole = await conn.fetchval("SELECT id_range_for($1, $2)", from_ts, from_ts + timedelta(milliseconds=1))
    check("id_range_for() of a time is the millisecond", ids == whole, (ids, whole))
    for value in (day, from_ts):
        error = await error_of(conn.fetchval("SELECT id_range_for($1)", value))
        check(f"without a cast a {type(value).__name__} is an error",
              f"expected str, got {type(value).__name__}" in error, error)

    # A key is an int, also as a parameter.
    error = await error_of(conn.fetchval("SELECT item FROM orders WHERE id = $1", str(key)))
    check("a text as a key is an error", "cannot be interpreted as an integer" in error, error)
    check("int() of it finds its row",
          await conn.fetchval("SELECT item FROM orders WHERE id = $1", int(str(key))) == "tea")

    # JSON in Python keeps all digits.
    text = await conn.fetchval("SELECT row_to_json(orders) FROM orders WHERE id = $1", key)
    check("JSON keeps the digits", json.loads(text)["id"] == key, text)

    await conn.close()
    done()


asyncio.run(main())
