"""Rows of what the supervisors say of pools: one for each pool and node. Whoever writes has checked its lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import PoolId
from gateway.pool.models import PoolNode
from gateway.pool.views import Stage

__all__ = ["NodeState", "node_states", "write_stage"]

REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class NodeState:
    """`since`: the phase began then."""

    pool_id: PoolId
    node: str
    phase: str
    reason: str
    since: datetime


async def node_states(session: ReadSession, pool_ids: Sequence[PoolId]) -> list[NodeState]:
    query = select(PoolNode).where(PoolNode.pool_id.in_(pool_ids)).order_by(PoolNode.pool_id, PoolNode.node)
    return [
        NodeState(PoolId(row.pool_id), row.node, row.phase, row.reason, row.since)
        for row in await session.scalars(query)
    ]


async def write_stage(session: WriteSession, node: str, pool_id: PoolId, stage: Stage) -> None:
    """The moment that a phase began stays while only its reason changes."""
    said = {"phase": stage.phase, "reason": stage.reason[:REASON_CHARS_MAX]}
    fresh = insert(PoolNode).values(pool_id=pool_id, node=node, **said)
    began = func.coalesce(
        select(PoolNode.since)
        .where(PoolNode.pool_id == pool_id, PoolNode.node == node, PoolNode.phase == stage.phase)
        .scalar_subquery(),
        func.now(),
    )
    await session.execute(
        fresh.on_conflict_do_update(index_elements=["pool_id", "node"], set_={**said, "since": began})
    )
