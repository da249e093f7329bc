"""Prices of batch requests, and no publishing of a route whose prices are still to come."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COMPONENTS = "'input', 'cached_input', 'output', 'batch_input', 'batch_cached_input', 'batch_output'"

# A minute of difference between the gateways' clocks and the database's: the gateway decides, this is the second line.
_REQUIRE_PRICE = """
CREATE OR REPLACE FUNCTION require_price_of_route() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT count(DISTINCT component) FROM price
        WHERE sku = NEW.sku AND component IN ('input', 'cached_input', 'output')
            AND valid_from <= clock_timestamp() + interval '1 minute') < 3 THEN
        RAISE EXCEPTION 'route % cannot be published: sku % lacks a price for input, cached_input or output',
            NEW.id, NEW.sku USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_route_published_has_price';
    END IF;
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql("ALTER TABLE price DROP CONSTRAINT ck_price_component")
    connection.exec_driver_sql(
        f"ALTER TABLE price ADD CONSTRAINT ck_price_component CHECK (component IN ({_COMPONENTS}))"
    )
    connection.exec_driver_sql(_REQUIRE_PRICE)
