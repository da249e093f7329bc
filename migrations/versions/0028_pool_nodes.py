"""What each node's supervisor makes of a pool, and devices by names that outlive a reboot."""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """CREATE TABLE pool_node (
        pool_id TEXT NOT NULL,
        node TEXT NOT NULL,
        phase TEXT DEFAULT 'settled' NOT NULL,
        reason TEXT DEFAULT '' NOT NULL,
        since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        replicas INTEGER,
        scaled_at TIMESTAMP WITH TIME ZONE,
        scaled_for TEXT,
        CONSTRAINT pk_pool_node PRIMARY KEY (pool_id, node),
        CONSTRAINT fk_pool_node_pool_id_pool FOREIGN KEY(pool_id) REFERENCES pool (id),
        CONSTRAINT ck_pool_node_phase CHECK (
            phase IN ('settled', 'starting', 'rolling', 'blocked', 'crashing', 'stopping', 'stopped')),
        CONSTRAINT ck_pool_node_replicas CHECK (replicas >= 0)
    )""",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON pool_node TO tollway_app",
    "ALTER TABLE replica ADD COLUMN devices TEXT[] DEFAULT '{}' NOT NULL",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
