"""The first schema: tenants, keys, routes, pools, the ledger, and who may do what to them."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SQL = Path(__file__).resolve().parent.parent / "sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for name in ("0001_tables.sql", "0001_rules.sql"):
        for statement in (_SQL / name).read_text(encoding="utf-8").split(";\n\n"):
            connection.exec_driver_sql(statement)
