"""Hard budgets that refuse for what is spent: the end of a budget that never reaches its limit exactly."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE budget_refusal (
        budget_id TEXT NOT NULL,
        period_key TEXT NOT NULL,
        limit_nanousd BIGINT NOT NULL,
        refused_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_budget_refusal PRIMARY KEY (budget_id, period_key, limit_nanousd)
    )
    """,
    "GRANT SELECT, INSERT, DELETE ON budget_refusal TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
