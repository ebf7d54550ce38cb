# pandas, with SQLAlchemy.  It connects to where PGHOST, PGDATABASE and so on say.

import io
import json
import sys
from pathlib import Path

import pandas
import sqlalchemy
from sqlalchemy import text

sys.path.append(str(Path(__file__).parent.parent.parent / "clients"))
from checks import check, done

driver = "psycopg" if sqlalchemy.__version__ >= "2" else "psycopg2"
engine = sqlalchemy.create_engine(f"postgresql+{driver}://")
version = int(pandas.__version__.split(".")[0])
print("# version: pandas", pandas.__version__, "with SQLAlchemy", sqlalchemy.__version__)

# Five orders, and a line of each; and a line without an order.
with engine.begin() as conn:
    conn.execute(text("""
        CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
        CREATE TABLE lines (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), order_id bigint)"""))
    conn.execute(text("INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, 5) AS n"))
    conn.execute(text("INSERT INTO lines (order_id) SELECT id FROM orders ORDER BY id"))
    conn.execute(text("INSERT INTO lines (order_id) VALUES (NULL)"))
    ids = [int(row[0]) for row in conn.execute(text("SELECT id::text FROM orders ORDER BY id"))]
query = "SELECT id, order_id FROM lines ORDER BY id"


# How many of the five are wrong
def changed(column):
    values = [int(value) for value in column if not pandas.isna(value)]
    return sum(value != key for value, key in zip(values, ids)) if len(values) == 5 else values


# Without NULL a bigint is an int64.
orders = pandas.read_sql("SELECT id, item FROM orders ORDER BY id", engine)
check("without NULL: exact", orders.dtypes["id"] == "int64" and changed(orders["id"]) == 0, orders)

# With NULL it is a float64, before dtype makes something else of it.
lines = pandas.read_sql(query, engine)
check("with NULL: float64, and another number", lines.dtypes["order_id"] == "float64" and changed(lines["order_id"]) > 0)
print("# with NULL:", changed(lines["order_id"]), "of 5 were changed")
lines = pandas.read_sql_query(query, engine, dtype={"order_id": "Int64"})
check("dtype='Int64': another number, and it looks exact",
      lines.dtypes["order_id"] == "Int64" and changed(lines["order_id"]) > 0, lines)
print("# dtype='Int64':", changed(lines["order_id"]), "of 5 were changed")

# As a text it is exact, in all versions.
lines = pandas.read_sql("SELECT id, order_id::text FROM lines ORDER BY id", engine).astype({"order_id": "Int64"})
check("as a text, then Int64: exact", lines.dtypes["order_id"] == "Int64" and changed(lines["order_id"]) == 0, lines)
if version >= 2:
    lines = pandas.read_sql("SELECT id, order_id FROM lines", engine, dtype_backend="numpy_nullable")
    check("dtype_backend='numpy_nullable': exact",
          lines.dtypes["order_id"] == "Int64" and changed(lines["order_id"]) == 0, lines)

# A row that a merge does not find is missing, too.
days = pandas.DataFrame({"item": ["item 1", "item 2", "item 3", "item 4", "item 5", "item 6"]})
merged = days.merge(orders, on="item", how="left")
check("merge() of an int64: float64, and another number",
      merged.dtypes["id"] == "float64" and changed(merged["id"]) > 0, merged)
orders = orders.astype({"id": "Int64"})
merged = days.merge(orders, on="item", how="left")
check("merge() of an Int64: exact", merged.dtypes["id"] == "Int64" and changed(merged["id"]) == 0, merged)

# A file
csv = "id\n" + "\n".join(map(str, ids)) + '\n""\n'
table = pandas.read_csv(io.StringIO(csv), dtype={"id": "string"}).astype({"id": "Int64"})
check("read_csv() of a string, then Int64: exact", table.dtypes["id"] == "Int64" and changed(table["id"]) == 0, table)
table = pandas.read_csv(io.StringIO(csv), dtype={"id": "Int64"})
print("# read_csv() of Int64:", changed(table["id"]), "of 5 were changed")

# Rows without the key: the default draws it.
pandas.DataFrame({"item": ["tea", "milk"]}).to_sql("orders", engine, if_exists="append", index=False)
drawn = pandas.read_sql("SELECT id FROM orders WHERE snowflake_in(id, now() - interval '1 minute', 'infinity')", engine)
check("to_sql() without the key draws it", len(drawn) == 7, drawn)

# JSON: a number
written = json.loads(orders.to_json(orient="records"))
check("to_json() writes all digits", [row["id"] for row in written] == ids, written)
written = json.loads(orders.astype({"id": str}).to_json(orient="records"))
check("as a text, too", [row["id"] for row in written] == list(map(str, ids)), written)

done()
