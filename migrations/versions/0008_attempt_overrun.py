"""The application may write how far an engine ran on after an answer's end, which only its journal says."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("GRANT UPDATE (overrun_tokens) ON attempt TO tollway_app")
