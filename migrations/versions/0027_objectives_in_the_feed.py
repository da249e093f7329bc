"""A change of an objective reaches the gateways, which tell it the engines."""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql(
        "CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR DELETE OR UPDATE OF threshold_us ON objective"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('routing')"
    )
