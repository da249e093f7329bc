"""Files of tenants, and batches of requests with the results that they have so far."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE stored_file (
        tenant_id TEXT NOT NULL,
        id TEXT NOT NULL,
        purpose TEXT NOT NULL,
        filename TEXT NOT NULL,
        bytes BIGINT DEFAULT 0 NOT NULL,
        state TEXT DEFAULT 'uploading' NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT pk_stored_file PRIMARY KEY (tenant_id, id),
        CONSTRAINT uq_stored_file_id UNIQUE (id),
        CONSTRAINT ck_stored_file_purpose CHECK (purpose IN ('batch', 'batch_output')),
        CONSTRAINT ck_stored_file_state CHECK (state IN ('uploading', 'ready', 'deleted')),
        CONSTRAINT ck_stored_file_bytes CHECK (bytes >= 0),
        CONSTRAINT fk_stored_file_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
    )
    """,
    "CREATE INDEX ix_stored_file_tenant_id_created_at_id ON stored_file (tenant_id, created_at, id)",
    "CREATE INDEX ix_stored_file_expires_at ON stored_file (expires_at)",
    """
    CREATE TABLE batch (
        tenant_id TEXT NOT NULL,
        id TEXT NOT NULL,
        key_id TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        input_file_id TEXT NOT NULL,
        completion_window TEXT NOT NULL,
        metadata JSONB,
        model TEXT,
        state TEXT DEFAULT 'validating' NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        in_progress_at TIMESTAMP WITH TIME ZONE,
        finalizing_at TIMESTAMP WITH TIME ZONE,
        completed_at TIMESTAMP WITH TIME ZONE,
        failed_at TIMESTAMP WITH TIME ZONE,
        expired_at TIMESTAMP WITH TIME ZONE,
        cancelling_at TIMESTAMP WITH TIME ZONE,
        cancelled_at TIMESTAMP WITH TIME ZONE,
        output_file_id TEXT,
        error_file_id TEXT,
        output_expires_after_s BIGINT,
        errors JSONB,
        total BIGINT DEFAULT 0 NOT NULL,
        completed BIGINT DEFAULT 0 NOT NULL,
        failed BIGINT DEFAULT 0 NOT NULL,
        input_tokens BIGINT DEFAULT 0 NOT NULL,
        cached_tokens BIGINT DEFAULT 0 NOT NULL,
        output_tokens BIGINT DEFAULT 0 NOT NULL,
        reasoning_tokens BIGINT DEFAULT 0 NOT NULL,
        next_line BIGINT DEFAULT 0 NOT NULL,
        next_offset BIGINT DEFAULT 0 NOT NULL,
        lease_owner TEXT,
        run_after TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        lease_epoch BIGINT DEFAULT 0 NOT NULL,
        takeovers INTEGER DEFAULT 0 NOT NULL,
        CONSTRAINT pk_batch PRIMARY KEY (tenant_id, id),
        CONSTRAINT uq_batch_id UNIQUE (id),
        CONSTRAINT ck_batch_state CHECK (state IN ('validating', 'failed', 'in_progress', 'finalizing', 'completed',
            'expired', 'cancelling', 'cancelled')),
        CONSTRAINT ck_batch_counts CHECK (least(total, completed, failed) >= 0),
        CONSTRAINT fk_batch_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
    )
    """,
    "CREATE INDEX ix_batch_tenant_id_created_at_id ON batch (tenant_id, created_at, id)",
    """
    CREATE INDEX ix_batch_active ON batch (tenant_id, run_after)
        WHERE state IN ('validating', 'in_progress', 'finalizing', 'cancelling')
    """,
    """
    CREATE TABLE batch_result (
        tenant_id TEXT NOT NULL,
        batch_id TEXT NOT NULL,
        line BIGINT NOT NULL,
        is_error BOOLEAN NOT NULL,
        content TEXT NOT NULL,
        CONSTRAINT pk_batch_result PRIMARY KEY (tenant_id, batch_id, line),
        CONSTRAINT fk_batch_result_tenant_id_batch_id_batch FOREIGN KEY(tenant_id, batch_id)
            REFERENCES batch (tenant_id, id) ON DELETE CASCADE
    )
    """,
    "GRANT SELECT, INSERT, UPDATE, DELETE ON stored_file, batch, batch_result TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
