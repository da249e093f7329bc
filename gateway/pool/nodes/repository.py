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

__all__ = ["NodeState", "node_states", "states_of_node", "write_scale", "write_stage"]

REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class NodeState:
    """`since`: the phase began then."""

    pool_id: PoolId
    node: str
    phase: str
    reason: str
    since: datetime
    replicas: int | None
    """The autoscaler's number, when and why it was chosen."""
    scaled_at: datetime | None
    scaled_for: str | None


async def node_states(session: ReadSession, pool_ids: Sequence[PoolId]) -> list[NodeState]:
    """On all nodes."""
    query = select(PoolNode).where(PoolNode.pool_id.in_(pool_ids)).order_by(PoolNode.pool_id, PoolNode.node)
    return [_state(row) for row in await session.scalars(query)]


async def states_of_node(session: ReadSession, node: str) -> dict[PoolId, NodeState]:
    rows = await session.scalars(select(PoolNode).where(PoolNode.node == node))
    return {PoolId(row.pool_id): _state(row) for row in rows}


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


async def write_scale(session: WriteSession, node: str, pool_id: PoolId, replicas: int, reason: str) -> None:
    said = {"replicas": replicas, "scaled_at": func.now(), "scaled_for": reason[:REASON_CHARS_MAX]}
    fresh = insert(PoolNode).values(pool_id=pool_id, node=node, **said)
    await session.execute(fresh.on_conflict_do_update(index_elements=["pool_id", "node"], set_=said))


def _state(row: PoolNode) -> NodeState:
    return NodeState(
        PoolId(row.pool_id),
        row.node,
        row.phase,
        row.reason,
        row.since,
        row.replicas,
        row.scaled_at,
        row.scaled_for,
    )
