"""Pools can be deleted: their rows stay, for the journals of their replicas."""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("ALTER TABLE pool ADD COLUMN deleted_at TIMESTAMP WITH TIME ZONE")
