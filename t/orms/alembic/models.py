from sqlalchemy import BigInteger, Column, ForeignKey, Text, text
from sqlalchemy.orm import declarative_base

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"

    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_nextval()"))
    item = Column(Text, nullable=False)


class Line(Base):
    __tablename__ = "lines"

    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_nextval()"))
    order_id = Column(ForeignKey(Order.id), nullable=False)
