"""The rows that a single-machine installation starts with: one pool, one route for everybody, its prices.

Place: called by `tollway up` before the supervisor starts. Repeating it changes nothing; a changed
specification becomes a new generation of the pool, unless an operator has changed it since. Knows no tenants.
"""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.audit.models import AuditLog
from gateway.clock import Clock
from gateway.db import Database, WriteSession
from gateway.ids import IdSource
from gateway.pool.models import Pool
from gateway.pool.spec import EngineSpec
from gateway.routing.models import Price, Route

__all__ = ["Offer", "seed"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A served model and what a token of it costs."""

    pool_name: str
    served_model: str
    default_max_output: int
    nanousd_per_token: dict[str, Decimal]


async def seed(
    database: Database, spec: EngineSpec, offer: Offer, clock: Clock, *, is_asked: bool = True
) -> None:
    """`is_asked`: somebody named the model just now, which is more than what was changed by hand earlier."""
    ids = IdSource(clock)
    async with database.write() as session:
        pool_id = await _pool(session, spec, offer, ids, is_asked=is_asked)
        await _prices(session, offer, clock)
        route = insert(Route).values(
            id=ids.new("route"),
            tenant_id=None,
            served_model=offer.served_model,
            pool_id=pool_id,
            sku=offer.served_model,
            default_max_output=offer.default_max_output,
        )
        await session.execute(route.on_conflict_do_nothing(index_elements=["tenant_id", "served_model"]))


async def _pool(
    session: WriteSession, spec: EngineSpec, offer: Offer, ids: IdSource, *, is_asked: bool
) -> str:
    wanted = spec.model_dump(mode="json", exclude_defaults=True)
    row = await session.scalar(select(Pool).where(Pool.name == offer.pool_name).with_for_update())
    if row is None:
        row = Pool(id=ids.new("pool"), name=offer.pool_name, spec=wanted)
        session.add(row)
        await session.flush()
    elif row.spec != wanted and (is_asked or not await _is_an_operators(session, row.id)):
        changed = {"spec": wanted, "generation": row.generation + 1}
        await session.execute(update(Pool).where(Pool.id == row.id).values(**changed))
    return row.id


async def _is_an_operators(session: WriteSession, pool_id: str) -> bool:
    """Whether the specification was changed through the admin API: then it stays what it is."""
    before, after = (AuditLog.details[name]["spec"].astext for name in ("before", "after"))
    changes = select(AuditLog.id).where(
        AuditLog.resource_kind == "pool",
        AuditLog.resource_id == pool_id,
        AuditLog.action == "pool.updated",
        before.is_distinct_from(after),
    )
    return await session.scalar(changes.limit(1)) is not None


async def _prices(session: WriteSession, offer: Offer, clock: Clock) -> None:
    """Only for a sku that has none: a price that the operator changed stays."""
    if await session.scalar(select(Price.id).where(Price.sku == offer.served_model).limit(1)) is None:
        session.add_all(
            Price(
                sku=offer.served_model, component=component, valid_from=clock.now(), nanousd_per_token=price
            )
            for component, price in offer.nanousd_per_token.items()
        )
        await session.flush()
