"""Indexes in the order of the request list: by key, by end user, and the requests that did not end well.

Each is built partition by partition without holding up writers, then attached to the parent's; run again, it goes on
where it was interrupted. The last two are partial and cost an ordinary request nothing.
"""

from alembic import op
from sqlalchemy import Connection

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# Longer than anybody's statement timeout: a build waits for the transactions that began before it.
_LOCK_TIMEOUT = "60s"
_INDEXES = (
    ("key_id_occurred_at_event_id", "(key_id, occurred_at, event_id)"),
    ("user_ref_occurred_at_event_id", "(user_ref, occurred_at, event_id) WHERE user_ref IS NOT NULL"),
    ("not_ok", "(occurred_at, event_id) WHERE status <> 'ok'"),
    ("tenant_id_not_ok", "(tenant_id, occurred_at, event_id) WHERE status <> 'ok'"),
)
_PARTITIONS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'usage_event'::regclass ORDER BY c.relname
"""
_ATTACHED = """
    SELECT 1 FROM pg_inherits i
    JOIN pg_index x ON x.indexrelid = i.inhrelid
    WHERE i.inhparent = '{parent}'::regclass AND x.indrelid = '{partition}'::regclass
"""


def upgrade() -> None:
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        connection.exec_driver_sql(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        for name, definition in _INDEXES:
            parent = f"ix_usage_event_{name}"
            connection.exec_driver_sql(
                f"CREATE INDEX IF NOT EXISTS {parent} ON ONLY usage_event {definition}"
            )
            for (partition,) in connection.exec_driver_sql(_PARTITIONS).all():
                _build(connection, parent, partition, f"{partition}_{name}", definition)
        connection.exec_driver_sql("RESET lock_timeout")


def _build(connection: Connection, parent: str, partition: str, name: str, definition: str) -> None:
    attached = _ATTACHED.format(parent=parent, partition=partition)
    if connection.exec_driver_sql(attached).one_or_none() is not None:
        return
    connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    connection.exec_driver_sql(f"CREATE INDEX CONCURRENTLY {name} ON {partition} {definition}")
    connection.exec_driver_sql(f"ALTER INDEX {parent} ATTACH PARTITION {name}")
