from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.execute("CREATE EXTENSION IF NOT EXISTS snowflake")


def downgrade():
    op.execute("DROP EXTENSION IF EXISTS snowflake")
