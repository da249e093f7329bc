"""Allowances for the time when the database is away: who has one, and the holds that lease it to a gateway."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE hold ADD COLUMN is_lease BOOLEAN DEFAULT false NOT NULL",
    """
    CREATE TABLE outage_allowance (
        tenant_id TEXT NOT NULL,
        amount_nanousd BIGINT NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT pk_outage_allowance PRIMARY KEY (tenant_id),
        CONSTRAINT ck_outage_allowance_positive CHECK (amount_nanousd > 0),
        CONSTRAINT fk_outage_allowance_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
    )
    """,
    "GRANT SELECT, INSERT, UPDATE, DELETE ON outage_allowance TO tollway_app",
    """
    CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON outage_allowance
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('budget')
    """,
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
