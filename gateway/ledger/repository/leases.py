"""Leased allowances in the database: who gets one, what is drawn from one, and those that nobody draws from any more."""

from collections.abc import Mapping

from sqlalchemy import delete, func, text
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteConnection, WriteSession
from gateway.ids import RequestId, TenantId
from gateway.ledger.models import OutageAllowance

__all__ = ["allowance_of", "allowances", "draw_leases", "put_allowance", "stale_leases"]

_ALLOWANCES = text("SELECT tenant_id, amount_nanousd FROM outage_allowance")
# All parts of a lease are equal: it took the same amount from each of its rows.
_DRAW = text(
    """
    WITH drawn AS (
        SELECT * FROM unnest(CAST(:lease_ids AS text[]), CAST(:amounts AS bigint[])) AS d (request_id, amount)
        ORDER BY request_id COLLATE "C"
    ), reduced AS (
        UPDATE hold h SET amount_nanousd = h.amount_nanousd - drawn.amount, takes = (
            SELECT coalesce(jsonb_agg(take || jsonb_build_object(
                'amount_nanousd', CAST(take ->> 'amount_nanousd' AS bigint) - drawn.amount)), '[]')
            FROM jsonb_array_elements(h.takes) AS take)
        FROM drawn WHERE h.request_id = drawn.request_id AND h.is_lease
        RETURNING h.takes, drawn.amount
    ), change AS (
        SELECT take.budget_id, take.period_key, CAST(sum(reduced.amount) AS bigint) AS held
        FROM reduced, jsonb_to_recordset(reduced.takes) AS take (budget_id text, period_key text) GROUP BY 1, 2
    ), locked AS (
        SELECT row.budget_id, row.period_key, change.held
        FROM budget_period row JOIN change USING (budget_id, period_key)
        ORDER BY row.budget_id COLLATE "C", row.period_key COLLATE "C" FOR UPDATE OF row
    )
    UPDATE budget_period row SET held_nanousd = row.held_nanousd - locked.held FROM locked
    WHERE row.budget_id = locked.budget_id AND row.period_key = locked.period_key
    """
)
_STALE = text(
    """
    SELECT h.request_id FROM hold h WHERE h.is_lease AND h.expires_at < now()
    UNION ALL
    SELECT h.request_id FROM hold h JOIN gateway_instance g ON g.instance_id = h.instance_id
    WHERE CAST(:of_earlier_runs AS boolean) AND h.is_lease AND h.expires_at >= now()
        AND g.gateway_id = :gateway_id AND g.instance_id <> :instance_id
    """
)


async def allowances(connection: WriteConnection) -> dict[TenantId, int]:
    """What each tenant may spend at each gateway in an outage; only those who have an allowance."""
    return {TenantId(row[0]): row[1] for row in await connection.execute(_ALLOWANCES)}


async def allowance_of(session: ReadSession, tenant_id: TenantId) -> int:
    row = await session.get(OutageAllowance, tenant_id)
    return row.amount_nanousd if row is not None else 0


async def put_allowance(session: WriteSession, tenant_id: TenantId, amount_nanousd: int) -> None:
    """Zero takes it away."""
    if not amount_nanousd:
        await session.execute(delete(OutageAllowance).where(OutageAllowance.tenant_id == tenant_id))
        return
    changed = {"amount_nanousd": amount_nanousd, "updated_at": func.now()}
    statement = insert(OutageAllowance).values(tenant_id=tenant_id, **changed)
    await session.execute(statement.on_conflict_do_update(index_elements=["tenant_id"], set_=changed))


async def draw_leases(connection: WriteConnection, amounts: Mapping[RequestId, int]) -> None:
    """Take out of leases what requests that are charged in this transaction had drawn. A lease that is gone gives
    nothing."""
    if amounts:
        values = {"lease_ids": list(amounts), "amounts": list(amounts.values())}
        await connection.execute(_DRAW, values)


async def stale_leases(
    connection: WriteConnection, instance_id: str, gateway_id: str, *, of_earlier_runs: bool
) -> list[RequestId]:
    """Expired ones of anybody's; with `of_earlier_runs`, also those of dead runs of this gateway."""
    values = {"instance_id": instance_id, "gateway_id": gateway_id, "of_earlier_runs": of_earlier_runs}
    return [RequestId(row[0]) for row in await connection.execute(_STALE, values)]
