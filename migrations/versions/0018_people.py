"""Who administers: users, memberships of projects, invites; admin keys have a role, an owner and an IP allow-list."""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_ROLES = "role IN ('owner', 'admin', 'billing', 'viewer', 'member')"
_BUMP = "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy')"
_STATEMENTS = (
    f"""
    CREATE TABLE organization_user (
        id TEXT NOT NULL,
        email TEXT,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        deleted_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT pk_organization_user PRIMARY KEY (id),
        CONSTRAINT ck_organization_user_role CHECK ({_ROLES})
    )
    """,
    "CREATE UNIQUE INDEX uq_organization_user_email ON organization_user (email) WHERE deleted_at IS NULL",
    """
    CREATE TABLE project_member (
        tenant_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        role TEXT NOT NULL,
        added_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_project_member PRIMARY KEY (tenant_id, user_id),
        CONSTRAINT ck_project_member_role CHECK (role IN ('owner', 'member')),
        CONSTRAINT fk_project_member_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id),
        CONSTRAINT fk_project_member_user_id_organization_user FOREIGN KEY(user_id) REFERENCES organization_user (id)
    )
    """,
    "CREATE INDEX ix_project_member_user_id ON project_member (user_id)",
    f"""
    CREATE TABLE invite (
        id TEXT NOT NULL,
        email TEXT NOT NULL,
        role TEXT NOT NULL,
        projects JSONB DEFAULT '{{}}' NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        accepted_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT pk_invite PRIMARY KEY (id),
        CONSTRAINT ck_invite_role CHECK ({_ROLES})
    )
    """,
    "ALTER TABLE admin_api_key ADD COLUMN role TEXT DEFAULT 'owner' NOT NULL",
    "ALTER TABLE admin_api_key ADD COLUMN user_id TEXT",
    "ALTER TABLE admin_api_key ADD COLUMN ip_allow_list TEXT[] DEFAULT '{}' NOT NULL",
    f"ALTER TABLE admin_api_key ADD CONSTRAINT ck_admin_api_key_role CHECK ({_ROLES})",
    "ALTER TABLE admin_api_key ADD CONSTRAINT fk_admin_api_key_user_id_organization_user"
    " FOREIGN KEY(user_id) REFERENCES organization_user (id)",
    "ALTER TABLE service_account DROP CONSTRAINT ck_service_account_role",
    "ALTER TABLE service_account ADD CONSTRAINT ck_service_account_role CHECK (role IN ('owner', 'member', 'none'))",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON organization_user, project_member, invite TO tollway_app",
    "DROP TRIGGER bump_config_revision ON admin_api_key",
    "CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR DELETE OR UPDATE OF name, public_id, secret_hmac,"
    " pepper_id, scopes, role, user_id, ip_allow_list, expires_at, revoked_at"
    f" ON admin_api_key {_BUMP}",
    f"CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON organization_user {_BUMP}",
    f"CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON project_member {_BUMP}",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
