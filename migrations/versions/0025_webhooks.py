"""Webhooks: endpoints, and each attempt to deliver to one."""

from pathlib import Path

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_SQL = Path(__file__).resolve().parent.parent / "sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in (_SQL / "0025_webhooks.sql").read_text(encoding="utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)
