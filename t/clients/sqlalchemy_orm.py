# SQLAlchemy 1.4 and 2.0, ORM and core.  It connects to where PGHOST,
# PGDATABASE and so on say.

from datetime import timedelta

import sqlalchemy
from sqlalchemy import (BigInteger, Column, ForeignKey, MetaData, Table, Text,
                        create_engine, event, func, inspect, select, text)
from sqlalchemy.orm import Session, declarative_base

from checks import check, check_keys, done, now

version = tuple(int(part) for part in sqlalchemy.__version__.split(".")[:2])
driver = "psycopg" if version >= (2, 0) else "psycopg2"
engine = create_engine(f"postgresql+{driver}://", future=True)

print("# SQLAlchemy", sqlalchemy.__version__, "with", driver)

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"

    # BigInteger, since IDs do not fit an Integer.  With a server_default it is a
    # bigint, and not a bigserial.
    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_nextval()"))
    item = Column(Text, nullable=False)


class Line(Base):
    __tablename__ = "lines"

    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_nextval()"))
    order_id = Column(ForeignKey(Order.id), nullable=False)


with engine.begin() as conn:
    conn.execute(text("CREATE EXTENSION IF NOT EXISTS snowflake"))
Base.metadata.create_all(engine)
began = now()

# The statements that insert orders, to see how many there are.
inserts = []


@event.listens_for(engine, "before_cursor_execute")
def see(conn, cursor, statement, parameters, context, executemany):
    if statement.startswith("INSERT INTO orders"):
        inserts.append(statement)


with Session(engine, future=True) as session:
    cursor = session.connection().connection.cursor()

    since = now()
    order = Order(item="tea")
    session.add(order)
    session.flush()
    check_keys(cursor, "flush of an object", [order.id], 1, since)

    line = Line(order_id=order.id)
    session.add(line)
    session.flush()
    check("a foreign key has the key", line.order_id == order.id)

    # Many objects.  They have their keys after the flush.
    since = now()
    inserts.clear()
    orders = [Order(item=f"item {n}") for n in range(1000)]
    session.add_all(orders)
    session.flush()
    check_keys(cursor, "flush of many objects", [o.id for o in orders], 1000, since)
    print(f"# by {len(inserts)} statements as SQLAlchemy counts them")

    # The keys belong to the rows of these objects.
    session.commit()
    items = [o.item for o in orders]
    check("each has the key of its own row",
          items == [f"item {n}" for n in range(1000)], items)

    # The same in few statements: draw the keys before.
    cursor = session.connection().connection.cursor()
    since = now()
    inserts.clear()
    keys = session.scalars(select(func.snowflake_nextval(1000))).all()
    session.add_all(Order(id=key, item="milk") for key in keys)
    session.flush()
    check_keys(cursor, "keys drawn before the flush", keys, 1000, since)
    check("in few statements", len(inserts) <= 2, len(inserts))
    print(f"# by {len(inserts)} statements as SQLAlchemy counts them")

    # Without objects, in few statements as well.
    since = now()
    inserts.clear()
    rows = [{"item": f"core {n}"} for n in range(1000)]
    if version >= (2, 0):
        # ORM style: session.scalars(insert(Order).returning(Order), rows)
        keys = session.scalars(sqlalchemy.insert(Order).returning(Order.id), rows).all()
    else:
        # 1.4 has no keys of a list of parameters, but of a list of VALUES.
        keys = session.execute(
            sqlalchemy.insert(Order.__table__).values(rows).returning(Order.id)).scalars().all()
    check_keys(cursor, "insert().returning()", keys, 1000, since)
    check("in few statements", len(inserts) <= 2, len(inserts))
    print(f"# by {len(inserts)} statements as SQLAlchemy counts them")
    session.commit()

    # The time range
    total = session.scalar(select(func.count()).select_from(Order))
    until = now() + timedelta(seconds=1)
    from_ts, to_ts = began, until
    rows = session.scalars(select(Order).where(func.snowflake_in(Order.id, from_ts, to_ts))).all()
    check("snowflake_in() finds the rows", len(rows) == total == 3001, (len(rows), total))
    found = session.scalars(
        select(Order.id).where(func.snowflake_in(Order.id, began - timedelta(days=1), began))).all()
    check("and none where there are none", found == [], found)
    lo, hi = session.execute(
        select(func.lower(func.id_range_for(began, until)),
               func.upper(func.id_range_for(began, until)))).one()
    found = session.scalars(select(Order.id).where(Order.id >= lo, Order.id < hi)).all()
    check("id_range_for() finds the rows", len(found) == total, len(found))

    # One argument, of Python's types or a text, is a day or an instant.
    def id_range_for(*args):
        ids = func.id_range_for(*args)
        return session.execute(select(func.lower(ids), func.upper(ids))).one()

    day = began.date()
    ids = id_range_for(day, day + timedelta(days=1))
    check("id_range_for() of a date is the day", id_range_for(day) == id_range_for(str(day)) == ids, ids)
    ids = id_range_for(began, began + timedelta(milliseconds=1))
    check("id_range_for() of a time is the millisecond",
          id_range_for(began) == id_range_for(str(began)) == ids, ids)

# Reflection: the default is there, and a table made from it draws IDs, too.
reflected = Table("orders", MetaData(), autoload_with=engine)
check("reflected: the default",
      reflected.c.id.server_default.arg.text == "snowflake_nextval()",
      reflected.c.id.server_default)
check("reflected: the type", isinstance(reflected.c.id.type, BigInteger),
      reflected.c.id.type)
Base.metadata.drop_all(engine)
reflected.create(engine)
with engine.begin() as conn:
    since = now()
    result = conn.execute(reflected.insert().values(item="reflected"))
    check_keys(conn.connection.cursor(), "created from the reflection",
               list(result.inserted_primary_key), 1, since)
sequences = inspect(engine).get_sequence_names()
check("there are no sequences", sequences == [], sequences)

done()
