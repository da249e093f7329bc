"""The words of pool_node are TEXT, as everywhere: its file of before had made them VARCHAR."""

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_COLUMNS = ("pool_id", "node", "phase", "reason", "scaled_for")


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for column in _COLUMNS:
        connection.exec_driver_sql(f"ALTER TABLE pool_node ALTER COLUMN {column} TYPE TEXT")
