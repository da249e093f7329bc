"""Console sessions: passwords, sessions that end everywhere at once, attempts to sign in, links of invites."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE user_password (
        user_id TEXT NOT NULL,
        hash TEXT NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_user_password PRIMARY KEY (user_id),
        CONSTRAINT fk_user_password_user_id_organization_user FOREIGN KEY(user_id) REFERENCES organization_user (id)
    )
    """,
    """
    CREATE TABLE console_session (
        id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        method TEXT NOT NULL,
        salt BYTEA NOT NULL,
        generation INTEGER DEFAULT 0 NOT NULL,
        address TEXT,
        user_agent TEXT,
        created_at TIMESTAMP WITH TIME ZONE NOT NULL,
        rotated_at TIMESTAMP WITH TIME ZONE NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        ended_at TIMESTAMP WITH TIME ZONE,
        end_reason TEXT,
        CONSTRAINT pk_console_session PRIMARY KEY (id),
        CONSTRAINT fk_console_session_user_id_organization_user FOREIGN KEY(user_id) REFERENCES organization_user (id),
        CONSTRAINT ck_console_session_method CHECK (method IN ('password', 'invite', 'oidc')),
        CONSTRAINT ck_console_session_end CHECK ((ended_at IS NULL) = (end_reason IS NULL))
    )
    """,
    "CREATE INDEX ix_console_session_user_id_id ON console_session (user_id, id)",
    "CREATE INDEX ix_console_session_expires_at ON console_session (expires_at)",
    """
    CREATE TABLE login_attempts (
        subject BYTEA NOT NULL,
        failures INTEGER NOT NULL,
        last_at TIMESTAMP WITH TIME ZONE NOT NULL,
        blocked_until TIMESTAMP WITH TIME ZONE NOT NULL,
        CONSTRAINT pk_login_attempts PRIMARY KEY (subject)
    )
    """,
    "CREATE INDEX ix_login_attempts_last_at ON login_attempts (last_at)",
    "ALTER TABLE invite ADD COLUMN token_hash BYTEA",
    "ALTER TABLE invite ADD CONSTRAINT uq_invite_token_hash UNIQUE (token_hash)",
    "ALTER TABLE config_revision DROP CONSTRAINT ck_config_revision_topic",
    "ALTER TABLE config_revision ADD CONSTRAINT ck_config_revision_topic"
    " CHECK (topic IN ('tenancy', 'routing', 'budget', 'sessions'))",
    "INSERT INTO config_revision (topic, revision) VALUES ('sessions', 1)",
    # A session that begins or is refreshed changes nothing for anybody; one that ends does.
    "CREATE CONSTRAINT TRIGGER bump_config_revision AFTER UPDATE OF ended_at ON console_session"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('sessions')",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON user_password, console_session, login_attempts TO tollway_app",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
