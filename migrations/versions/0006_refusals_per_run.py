"""Refusals are counted per run of a gateway, so that a row that is written twice counts once."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Nothing has written to the table before this revision.
_STATEMENTS = (
    "ALTER TABLE refusal_minute ADD COLUMN instance_id TEXT NOT NULL",
    "ALTER TABLE refusal_minute DROP CONSTRAINT pk_refusal_minute",
    """
    ALTER TABLE refusal_minute ADD CONSTRAINT pk_refusal_minute
    PRIMARY KEY (bucket, gateway_id, instance_id, tenant_id, key_id, served_model, reason)
    """,
    "CREATE INDEX ix_refusal_minute_tenant_id_bucket ON refusal_minute (tenant_id, bucket)",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
