"""Adjustments, credits and top-ups: money events that are no requests, and the entries that explain them."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SQL = Path(__file__).resolve().parent.parent / "sql" / "0003_ledger_entries.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _SQL.read_text(encoding="utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)
