"""Alert episodes, silences, and what replicas say of themselves every few seconds."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE alert_episode (
        id TEXT NOT NULL,
        source TEXT NOT NULL,
        scope TEXT NOT NULL,
        severity TEXT NOT NULL,
        tenant_id TEXT,
        values JSONB NOT NULL,
        last_values JSONB NOT NULL,
        fired_at TIMESTAMP WITH TIME ZONE NOT NULL,
        quiet_since TIMESTAMP WITH TIME ZONE,
        resolved_at TIMESTAMP WITH TIME ZONE,
        announced_at TIMESTAMP WITH TIME ZONE,
        silence_id TEXT,
        CONSTRAINT pk_alert_episode PRIMARY KEY (id),
        CONSTRAINT ck_alert_episode_severity CHECK (severity IN ('page', 'ticket', 'info')),
        CONSTRAINT ck_alert_episode_order CHECK (resolved_at >= fired_at)
    )
    """,
    "CREATE UNIQUE INDEX uq_alert_episode_open ON alert_episode (source, scope) WHERE resolved_at IS NULL",
    "CREATE INDEX ix_alert_episode_fired_at_id ON alert_episode (fired_at, id)",
    "CREATE INDEX ix_alert_episode_tenant_id_fired_at_id ON alert_episode (tenant_id, fired_at, id)",
    "CREATE INDEX ix_alert_episode_source_scope_fired_at ON alert_episode (source, scope, fired_at)",
    """
    CREATE TABLE alert_silence (
        id TEXT NOT NULL,
        source TEXT,
        scope TEXT,
        tenant_id TEXT,
        reason TEXT NOT NULL,
        created_by TEXT NOT NULL,
        starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
        ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_alert_silence PRIMARY KEY (id),
        CONSTRAINT ck_alert_silence_order CHECK (starts_at <= ends_at),
        CONSTRAINT fk_alert_silence_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
    )
    """,
    "CREATE INDEX ix_alert_silence_ends_at ON alert_silence (ends_at)",
    """
    CREATE TABLE replica_sample (
        at TIMESTAMP WITH TIME ZONE NOT NULL,
        replica_id TEXT NOT NULL,
        pool_id TEXT NOT NULL,
        running INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        kv_usage DOUBLE PRECISION NOT NULL,
        preemptions BIGINT,
        tokens BIGINT,
        CONSTRAINT pk_replica_sample PRIMARY KEY (at, replica_id)
    )
    """,
    "CREATE INDEX ix_replica_sample_pool_id_at ON replica_sample (pool_id, at)",
    # Keys that will expire are looked for every minute, those without an end are not.
    "CREATE INDEX ix_api_key_expires_at ON api_key (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL",
    "GRANT SELECT, INSERT, UPDATE ON alert_episode TO tollway_app",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON alert_silence TO tollway_app",
    "GRANT SELECT, INSERT, DELETE ON replica_sample TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
