"""The data of one tenant: read whole, from one snapshot, or deleted but for the money."""

from collections.abc import AsyncIterator, Sequence

from sqlalchemy import text

import gateway.alerts.models
import gateway.audit.models
import gateway.batches.models
import gateway.exports.models
import gateway.idempotency.models
import gateway.ledger.models
import gateway.routing.models
import gateway.slo.models
import gateway.tenancy.models  # noqa: F401  (each import registers its tables, which are read by name)
from gateway.db import Base, WriteConnection
from gateway.retention.policy import HANDLING, HIDDEN_COLUMNS, Handling

__all__ = [
    "begin_snapshot",
    "delete_tenant_rows",
    "file_ids",
    "open_batch_count",
    "open_hold_count",
    "tenant_rows",
    "tenant_status",
    "tenant_tables",
]

FETCH_ROWS = 1_000

_ANONYMOUS = text(
    """
    UPDATE tenant SET name = 'deleted', cache_sharing_group = NULL, updated_at = now() WHERE id = :tenant_id
    """
)


def tenant_tables() -> list[str]:
    """What a tenant's own copy holds; what is on its way or follows from facts is not in it."""
    passed_over = (Handling.PASSING, Handling.DERIVED)
    return ["tenant", *sorted(name for name, handling in HANDLING.items() if handling not in passed_over)]


async def begin_snapshot(connection: WriteConnection) -> None:
    """First in its transaction: all that is read in it is of one moment."""
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    await connection.execute(text("SET LOCAL statement_timeout = '10min'"))
    await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '10min'"))


async def tenant_rows(
    connection: WriteConnection, table: str, tenant_id: str
) -> AsyncIterator[Sequence[str]]:
    """Rows as JSON objects, in the order of their primary key, through a server-side cursor."""
    model = Base.metadata.tables[table]
    columns = ", ".join(column.name for column in model.columns if column.name not in HIDDEN_COLUMNS)
    order = ", ".join(column.name for column in model.primary_key)
    owner = "id" if table == "tenant" else "tenant_id"
    query = text(
        f"SELECT CAST(row_to_json(t) AS text) FROM (SELECT {columns} FROM {table} WHERE {owner} = :tenant_id"
        f" ORDER BY {order}) t"
    )
    result = await connection.stream(query, {"tenant_id": tenant_id})
    async for rows in result.partitions(FETCH_ROWS):
        yield [row[0] for row in rows]


async def file_ids(connection: WriteConnection, tenant_id: str) -> list[str]:
    """Of files whose content is whole."""
    query = text("SELECT id FROM stored_file WHERE tenant_id = :tenant_id AND state = 'ready' ORDER BY id")
    return [row[0] for row in await connection.execute(query, {"tenant_id": tenant_id})]


async def tenant_status(connection: WriteConnection, tenant_id: str) -> str | None:
    """Locks the tenant's row. None if there is no such tenant."""
    query = text("SELECT status FROM tenant WHERE id = :tenant_id FOR UPDATE")
    status: str | None = (await connection.execute(query, {"tenant_id": tenant_id})).scalar_one_or_none()
    return status


async def open_hold_count(connection: WriteConnection, tenant_id: str) -> int:
    """Of requests. A lease of an outage allowance ends by itself once the allowance is gone."""
    query = text("SELECT count(*) FROM hold WHERE tenant_id = :tenant_id AND NOT is_lease")
    return int((await connection.execute(query, {"tenant_id": tenant_id})).scalar_one())


async def open_batch_count(connection: WriteConnection, tenant_id: str) -> int:
    """They end by themselves once their tenant is archived, and write files until then."""
    query = text(
        "SELECT count(*) FROM batch WHERE tenant_id = :tenant_id"
        " AND state IN ('validating', 'in_progress', 'finalizing', 'cancelling')"
    )
    return int((await connection.execute(query, {"tenant_id": tenant_id})).scalar_one())


async def delete_tenant_rows(connection: WriteConnection, tenant_id: str) -> dict[str, int]:
    """How many rows went, by table. The tenant's own row stays without its name: facts refer to its id."""
    gone = {}
    for table in (name for name, handling in HANDLING.items() if handling is Handling.DELETED):
        statement = text(f"DELETE FROM {table} WHERE tenant_id = :tenant_id")
        gone[table] = (await connection.execute(statement, {"tenant_id": tenant_id})).rowcount
    await connection.execute(_ANONYMOUS, {"tenant_id": tenant_id})
    return gone
