"""Idempotency keys with their sealed answers, for tenants that opt in."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE tenant ADD COLUMN is_idempotent BOOLEAN DEFAULT false NOT NULL",
    """
    CREATE TABLE idempotent_request (
        tenant_id TEXT NOT NULL,
        key_hash BYTEA NOT NULL,
        body_hash BYTEA NOT NULL,
        request_id TEXT NOT NULL,
        instance_id TEXT NOT NULL,
        answer_sealed BYTEA,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        CONSTRAINT pk_idempotent_request PRIMARY KEY (tenant_id, key_hash),
        CONSTRAINT ck_idempotent_request_hashes CHECK (octet_length(key_hash) = 32 AND octet_length(body_hash) = 32),
        CONSTRAINT fk_idempotent_request_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
    )
    """,
    "CREATE INDEX ix_idempotent_request_expires_at ON idempotent_request (expires_at)",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotent_request TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
