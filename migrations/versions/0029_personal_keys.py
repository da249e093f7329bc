"""Keys that stand for a person's requests from the console."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE api_key ADD COLUMN user_id TEXT"
    " CONSTRAINT fk_api_key_user_id_organization_user REFERENCES organization_user (id)",
    "CREATE UNIQUE INDEX uq_api_key_user_id ON api_key (tenant_id, user_id)"
    " WHERE user_id IS NOT NULL AND revoked_at IS NULL",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
