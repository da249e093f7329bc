"""The OpenID provider that people may sign in to the console through, and whom it knows."""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE identity_provider (
        id TEXT NOT NULL,
        issuer TEXT NOT NULL,
        client_id TEXT NOT NULL,
        client_secret_sealed BYTEA,
        name TEXT NOT NULL,
        origin TEXT NOT NULL,
        scopes TEXT[] NOT NULL,
        role_claim TEXT,
        role_map JSONB NOT NULL,
        registers BOOLEAN NOT NULL,
        default_role TEXT NOT NULL,
        is_enabled BOOLEAN NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_identity_provider PRIMARY KEY (id),
        CONSTRAINT ck_identity_provider_default_role
            CHECK (default_role IN ('owner', 'admin', 'billing', 'viewer', 'member'))
    )
    """,
    """
    CREATE TABLE user_identity (
        issuer TEXT NOT NULL,
        subject TEXT NOT NULL,
        user_id TEXT NOT NULL,
        linked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_user_identity PRIMARY KEY (issuer, subject),
        CONSTRAINT fk_user_identity_user_id_organization_user FOREIGN KEY(user_id) REFERENCES organization_user (id)
    )
    """,
    "CREATE INDEX ix_user_identity_user_id ON user_identity (user_id)",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON identity_provider, user_identity TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
