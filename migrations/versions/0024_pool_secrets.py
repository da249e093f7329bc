"""Engines of external pools may ask for an API key: it is kept sealed."""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("ALTER TABLE pool ADD COLUMN sealed_api_key BYTEA")
