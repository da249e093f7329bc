"""Alerts: spend thresholds, what has fired, and deliveries."""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SQL = Path(__file__).resolve().parent.parent / "sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in (_SQL / "0009_alerts.sql").read_text(encoding="utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)
