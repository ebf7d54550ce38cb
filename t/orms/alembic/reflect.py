# Reads the schema back and drops it, as test suites do.

import sys

from sqlalchemy import MetaData, create_engine, inspect

engine = create_engine("postgresql+psycopg2://")
views = {} if sys.argv[1] == "tables" else {"views": True}
if sys.argv[1] == "filtered":
    views["only"] = lambda name, metadata: not name.startswith("pg_stat_")
metadata = MetaData()
metadata.reflect(engine, **views)
metadata.drop_all(engine)
print(*inspect(engine).get_table_names())
