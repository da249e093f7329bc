"""What the matched attempts of an engine's epoch come to, by its journal and by the ledger."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    ALTER TABLE engine_epoch
        ADD COLUMN journalled_tokens BIGINT DEFAULT 0 NOT NULL,
        ADD COLUMN billed_tokens BIGINT DEFAULT 0 NOT NULL,
        ADD COLUMN unbilled_tokens BIGINT DEFAULT 0 NOT NULL
    """,
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
