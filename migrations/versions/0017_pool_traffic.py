"""How a pool's requests are spread, and how long they may take, becomes the pool's own to say.

The policy moves out of the engine's specification, which says what runs, not who is asked: changing it must not
replace replicas. A null time means the gateway's setting.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql(
        "ALTER TABLE pool"
        " ADD COLUMN strategy text NOT NULL DEFAULT 'prefix',"
        " ADD COLUMN connect_timeout_s double precision,"
        " ADD COLUMN first_token_timeout_s double precision,"
        " ADD COLUMN between_tokens_timeout_s double precision,"
        " ADD COLUMN total_timeout_s double precision,"
        " ADD COLUMN keep_alive_s double precision,"
        " ADD CONSTRAINT ck_pool_strategy CHECK"
        " (strategy IN ('prefix', 'least_loaded', 'round_robin', 'consistent_hash')),"
        " ADD CONSTRAINT ck_pool_timeouts CHECK (connect_timeout_s > 0 AND first_token_timeout_s > 0"
        " AND between_tokens_timeout_s > 0 AND total_timeout_s > 0 AND keep_alive_s > 0)"
    )
    connection.exec_driver_sql(
        "UPDATE pool SET strategy = spec ->> 'routing_policy' WHERE spec ? 'routing_policy'"
    )
    connection.exec_driver_sql("UPDATE pool SET spec = spec - 'routing_policy' WHERE spec ? 'routing_policy'")
