"""Closed billing periods, and when an event that came too late for its own really happened."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE usage_event ADD COLUMN late_from TIMESTAMP WITH TIME ZONE",
    """
    CREATE TABLE billing_period (
        period_key TEXT NOT NULL,
        starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
        ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
        requests BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        amount_nanousd BIGINT NOT NULL,
        closed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_billing_period PRIMARY KEY (period_key),
        CONSTRAINT ck_billing_period_bounds CHECK (starts_at < ends_at),
        CONSTRAINT uq_billing_period_ends_at UNIQUE (ends_at)
    )
    """,
    "GRANT SELECT, INSERT ON billing_period TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
