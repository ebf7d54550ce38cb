from alembic import context
from sqlalchemy import engine_from_config

from models import Base

# What `alembic -x NAME` switches on
options = context.get_x_argument()


def include_name(name, type_, parent_names):
    return type_ != "schema" or name != "snowflake_catalog"


with engine_from_config(context.config.get_section("alembic")).connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        compare_server_default=True,
        include_schemas="all_schemas" in options,
        include_name=include_name if "include_name" in options else None,
    )
    with context.begin_transaction():
        context.run_migrations()
