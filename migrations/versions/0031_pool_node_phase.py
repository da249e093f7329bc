"""The check of pool_node's phases compares TEXT, as its column does now."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_PHASES = "'settled', 'starting', 'rolling', 'blocked', 'crashing', 'stopping', 'stopped'"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("ALTER TABLE pool_node DROP CONSTRAINT ck_pool_node_phase")
    connection.exec_driver_sql(
        f"ALTER TABLE pool_node ADD CONSTRAINT ck_pool_node_phase CHECK (phase IN ({_PHASES}))"
    )
