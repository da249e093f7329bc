"""Rows read from journals are found by their age; by epoch nobody looks them up any more."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("DROP INDEX ix_journal_attempt_epoch")
    connection.exec_driver_sql(
        "CREATE INDEX ix_journal_attempt_read_at_brin ON journal_attempt USING brin (read_at)"
    )
