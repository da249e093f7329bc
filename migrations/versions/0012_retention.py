"""Retention: guards, attempts and months of events go through functions that check what makes it safe."""

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_SQL = Path(__file__).resolve().parent.parent / "sql" / "0012_retention.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _SQL.read_text(encoding="utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)
