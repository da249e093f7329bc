"""The rows that a single-machine installation starts with: one pool, one route for everybody, its prices.

Place: called by `tollway up` before the supervisor starts. Repeating it changes nothing; a changed
specification becomes a new generation of the pool. Knows no tenants.
"""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

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


async def seed(database: Database, spec: EngineSpec, offer: Offer, clock: Clock) -> None:
    ids = IdSource(clock)
    async with database.write() as session:
        pool_id = await _pool(session, spec, offer, ids)
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


async def _pool(session: WriteSession, spec: EngineSpec, offer: Offer, ids: IdSource) -> str:
    wanted = spec.model_dump(mode="json", exclude_defaults=True)
    row = await session.scalar(select(Pool).where(Pool.name == offer.pool_name).with_for_update())
    if row is None:
        row = Pool(id=ids.new("pool"), name=offer.pool_name, spec=wanted)
        session.add(row)
        await session.flush()
    elif row.spec != wanted:
        changed = {"spec": wanted, "generation": row.generation + 1}
        await session.execute(update(Pool).where(Pool.id == row.id).values(**changed))
    return row.id


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
