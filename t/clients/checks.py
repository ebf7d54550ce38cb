# What the Python clients check about the keys that they were given, as TAP.
# It has nothing to do with how the extension is used.

import sys
from datetime import datetime, timezone

ran = failed = 0


# IDs have milliseconds: one drawn now is before a period that begins now, but
# for the start of a millisecond.
def now():
    ts = datetime.now(timezone.utc)
    return ts.replace(microsecond=ts.microsecond // 1000 * 1000)


def check(name, passed, found=""):
    global ran, failed
    ran += 1
    print(f"{'ok' if passed else 'not ok'} {ran} - {name}", flush=True)
    if not passed:
        failed += 1
        print(f"# found {found!r}")


# cursor is one of DB-API, keys are those in the order in which the driver
# returned them, and since is now() before they were drawn.
def check_keys(cursor, what, keys, count, since, ascending=True):
    check(f"{what}: {count} exact keys", len(keys) == count
          and all(type(key) is int and 2**53 < key < 2**63 for key in keys), keys)
    check(f"{what}: all of them different", len(set(keys)) == count, keys)
    if ascending:
        check(f"{what}: ascending", keys == sorted(keys), keys)

    cursor.execute(
        "SELECT p.ts, p.node, current_setting('snowflake.node_id')::int"
        " FROM unnest(%s::bigint[]) AS id, snowflake_parse(id) AS p", (keys,))
    fields = cursor.fetchall()
    last = now()
    check(f"{what}: with the time at which they were drawn",
          all(since <= ts <= last for ts, node, own in fields), (since, fields, last))
    check(f"{what}: with the server's node number",
          len(fields) == count and all(node == own for ts, node, own in fields), fields)


def done():
    print(f"1..{ran}")
    sys.exit(failed > 0)
