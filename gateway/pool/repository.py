"""All SQL of the pools: leases, pools, replicas.

Place: under the supervisor, which alone writes replicas. Every write carries the supervisor's lease and
checks it in the same transaction, so that one that was paused past its lease changes nothing. Knows no
processes; times are the database's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Assignment
from gateway.pool.models import Pool, Replica, SupervisorLease
from gateway.pool.process import ProcessMark
from gateway.pool.spec import EngineSpec
from gateway.pool.traffic import DEFAULT_TRAFFIC, TrafficPolicy
from gateway.pool.views import PoolView, ReplicaState, ReplicaView

__all__ = ["Lease", "LeaseLost", "PoolRepository", "ReplicaCondition"]

LEASE_S = 15.0
_GONE = "stopped"
_BOOKED = ("starting", "ready", "draining", "lost", "failed")
_ERROR_CHARS_MAX = 500
_TRAFFIC = tuple(TrafficPolicy.model_fields)


class LeaseLost(Exception):
    """Another supervisor may start this node's replicas now."""


@dataclass(frozen=True, slots=True)
class Lease:
    node: str
    owner: str
    generation: int


@dataclass(frozen=True, slots=True)
class ReplicaCondition:
    """How a replica is, for a person who waits for it."""

    pool_id: PoolId
    id: ReplicaId
    node: str
    url: str | None
    state: str
    restarts: int
    """In a row, without having been stable between them."""
    last_error: str | None
    ready_at: datetime | None
    gpus: tuple[int, ...]
    devices: tuple[str, ...]
    """By UUID where the node can tell."""
    generation: int
    """Of the pool's specification, with which it was started."""
    created_at: datetime


class PoolRepository:
    async def acquire(
        self, session: WriteSession, node: str, owner: str, is_dead: Callable[[str], bool]
    ) -> Lease | None:
        """Take or keep the node's lease; None while another owner, not known to be dead, holds it."""
        fresh = insert(SupervisorLease).values(node=node, owner=owner, generation=0, expires_at=func.now())
        await session.execute(fresh.on_conflict_do_nothing())
        row = (
            await session.execute(
                select(SupervisorLease, (SupervisorLease.expires_at <= func.now()).label("expired"))
                .where(SupervisorLease.node == node)
                .with_for_update()
            )
        ).one()
        held, expired = row[0], row[1]
        if held.owner != owner and not expired and not is_dead(held.owner):
            return None
        generation = held.generation + (held.owner != owner or expired)
        await session.execute(
            update(SupervisorLease)
            .where(SupervisorLease.node == node)
            .values(owner=owner, generation=generation, expires_at=func.now() + timedelta(seconds=LEASE_S))
        )
        return Lease(node, owner, generation)

    async def release(self, session: WriteSession, lease: Lease) -> None:
        """Let the next supervisor begin at once."""
        await session.execute(
            update(SupervisorLease)
            .where(SupervisorLease.node == lease.node, SupervisorLease.generation == lease.generation)
            .values(expires_at=func.now())
        )

    async def now(self, session: ReadSession) -> datetime:
        now: datetime = (await session.execute(select(func.now()))).scalar_one()
        return now

    async def pools(self, session: ReadSession) -> list[PoolView]:
        """Raises pydantic's ValidationError for a specification that this version cannot read."""
        rows = await session.scalars(select(Pool).order_by(Pool.id))
        return [_pool(row) for row in rows]

    async def pool_page(
        self, session: ReadSession, after: str | None, limit: int
    ) -> list[tuple[PoolView, tuple[str, ...]]]:
        """Newest first, each with the tenants that it is reserved to; without those that are deleted."""
        query = select(Pool).where(Pool.deleted_at.is_(None)).order_by(Pool.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Pool.id < after)
        return [(_pool(row), tuple(row.reserved_tenants)) for row in await session.scalars(query)]

    async def pool(
        self, session: ReadSession | WriteSession, pool_id: PoolId, *, lock: bool = False
    ) -> tuple[PoolView, tuple[str, ...]] | None:
        """With the tenants that it is reserved to. Locked: until the transaction ends, against routes too."""
        query = select(Pool).where(Pool.id == pool_id, Pool.deleted_at.is_(None))
        row = await session.scalar(query.with_for_update() if lock else query)
        return (_pool(row), tuple(row.reserved_tenants)) if row is not None else None

    async def set_pool(self, session: WriteSession, pool: PoolView, reserved_tenants: Sequence[str]) -> None:
        """As `pool` says; raises IntegrityError for a name that is taken."""
        await session.execute(
            update(Pool)
            .where(Pool.id == pool.id)
            .values(
                name=pool.name,
                spec=pool.spec.model_dump(mode="json", exclude_defaults=True),
                generation=pool.generation,
                desired_state="running" if pool.wanted else "stopped",
                reserved_tenants=sorted(set(reserved_tenants)),
                sealed_api_key=pool.sealed_api_key,
                updated_at=func.now(),
                **pool.traffic.model_dump(),
            )
        )

    async def has_name(self, session: WriteSession, name: str) -> bool:
        return await session.scalar(select(Pool.id).where(Pool.name == name)) is not None

    async def delete_pool(self, session: WriteSession, pool_id: PoolId) -> None:
        """Its replicas drain, and its name is free."""
        name = Pool.name + f" (deleted {pool_id})"
        await session.execute(
            update(Pool)
            .where(Pool.id == pool_id)
            .values(
                name=name,
                desired_state="stopped",
                sealed_api_key=None,
                deleted_at=func.now(),
                updated_at=func.now(),
            )
        )

    async def insert_pool(
        self,
        session: WriteSession,
        pool_id: PoolId,
        name: str,
        spec: EngineSpec,
        reserved_tenants: Sequence[str],
        traffic: TrafficPolicy = DEFAULT_TRAFFIC,
        sealed_api_key: bytes | None = None,
    ) -> bool:
        """False if the name is taken."""
        written = await session.execute(
            insert(Pool)
            .values(
                id=pool_id,
                name=name,
                spec=spec.model_dump(mode="json", exclude_defaults=True),
                reserved_tenants=sorted(set(reserved_tenants)),
                sealed_api_key=sealed_api_key,
                **traffic.model_dump(),
            )
            .on_conflict_do_nothing(index_elements=[Pool.name])
            .returning(Pool.id)
        )
        return written.first() is not None

    async def sealed_keys(self, session: WriteSession) -> list[tuple[PoolId, bytes]]:
        """Of all pools, those that are deleted too; locked until the transaction ends."""
        query = select(Pool.id, Pool.sealed_api_key).where(Pool.sealed_api_key.is_not(None))
        rows = await session.execute(query.order_by(Pool.id).with_for_update())
        return [(PoolId(pool_id), sealed) for pool_id, sealed in rows if sealed is not None]

    async def reseal(self, session: WriteSession, pool_id: PoolId, fresh: bytes) -> None:
        await session.execute(update(Pool).where(Pool.id == pool_id).values(sealed_api_key=fresh))

    async def replicas(self, session: ReadSession, node: str) -> list[ReplicaView]:
        """The node's replicas that are not stopped for good, oldest first."""
        rows = await session.scalars(
            select(Replica).where(Replica.node == node, Replica.state != _GONE).order_by(Replica.id)
        )
        return [_view(row) for row in rows]

    async def conditions(
        self, session: ReadSession | WriteSession, pool_ids: Sequence[PoolId]
    ) -> list[ReplicaCondition]:
        """On all nodes, oldest first; those that are stopped for good are left out."""
        rows = await session.scalars(
            select(Replica).where(Replica.pool_id.in_(pool_ids), Replica.state != _GONE).order_by(Replica.id)
        )
        return [_condition(row) for row in rows]

    async def replica_page(
        self, session: ReadSession, pool_id: str | None, after: str | None, limit: int
    ) -> list[ReplicaCondition]:
        """Newest first, those that are stopped for good too."""
        query = select(Replica).order_by(Replica.id.desc()).limit(limit)
        if pool_id is not None:
            query = query.where(Replica.pool_id == pool_id)
        if after is not None:
            query = query.where(Replica.id < after)
        return [_condition(row) for row in await session.scalars(query)]

    async def replica(self, session: ReadSession, replica_id: str) -> ReplicaCondition | None:
        row = await session.get(Replica, replica_id)
        return _condition(row) if row is not None else None

    async def create(self, session: WriteSession, lease: Lease, fresh_id: ReplicaId, pool: PoolView) -> None:
        """One more replica: the last stopped one again, with its address and journal, else a new row."""
        await self.fence(session, lease)
        last = await session.scalar(
            select(Replica.id)
            .where(Replica.pool_id == pool.id, Replica.node == lease.node, Replica.state == _GONE)
            .order_by(Replica.updated_at.desc())
            .limit(1)
        )
        if last is None:
            session.add(
                Replica(id=fresh_id, pool_id=pool.id, node=lease.node, pool_generation=pool.generation)
            )
            return
        await self._update(
            session, ReplicaId(last), state="starting", pool_generation=pool.generation, restarts=0,
            last_error=None, gpus=[], devices=[],
        )  # fmt: skip

    async def book(
        self,
        session: WriteSession,
        lease: Lease,
        replica: ReplicaView,
        assign: Callable[[Sequence[Assignment], str | None], Assignment],
        journal_dir: str | None,
    ) -> Assignment:
        """Reserve an address and devices for a launch, under the lease, against all others of the node."""
        await self.fence(session, lease)
        others = await session.execute(
            select(Replica.url, Replica.gpus, Replica.devices).where(
                Replica.node == lease.node, Replica.state.in_(_BOOKED), Replica.id != replica.id
            )
        )
        taken = [
            Assignment(url, tuple(gpus), tuple(devices)) for url, gpus, devices in others if url is not None
        ]
        assignment = assign(taken, replica.url)
        await self._update(
            session, replica.id, state="starting", url=assignment.url, gpus=list(assignment.gpus),
            devices=list(assignment.devices), journal_dir=journal_dir, lease_generation=lease.generation,
            pid=None, pid_started_ticks=None, ready_at=None,
        )  # fmt: skip
        return assignment

    async def launched(
        self, session: WriteSession, lease: Lease, replica_id: ReplicaId, mark: ProcessMark | None
    ) -> None:
        await self.fence(session, lease)
        pid, ticks = (mark.pid, mark.start_ticks) if mark is not None else (None, None)
        await self._update(session, replica_id, pid=pid, pid_started_ticks=ticks)

    async def move(
        self, session: WriteSession, lease: Lease, replica: ReplicaView, state: ReplicaState, reason: str = ""
    ) -> None:
        """Change the state; what no longer holds in the new state is cleared."""
        await self.fence(session, lease)
        gone = (
            {"pid": None, "pid_started_ticks": None, "ready_at": None} if state in ("failed", _GONE) else {}
        )
        restarts = {"restarts": replica.restarts + 1} if state == "failed" else {}
        error = {"last_error": reason[:_ERROR_CHARS_MAX]} if reason else {}
        await self._update(session, replica.id, state=state, **gone, **restarts, **error)

    async def publish(
        self, session: WriteSession, lease: Lease, replica_id: ReplicaId, epoch: str | None
    ) -> None:
        await self.fence(session, lease)
        await self._update(session, replica_id, state="ready", epoch=epoch, ready_at=func.now())

    async def forgive(self, session: WriteSession, lease: Lease, replica_id: ReplicaId) -> None:
        """It has been stable: its next crash counts as the first."""
        await self.fence(session, lease)
        await session.execute(update(Replica).where(Replica.id == replica_id).values(restarts=0))

    async def fence(self, session: WriteSession, lease: Lease) -> None:
        """Raises LeaseLost unless the lease is held till the transaction ends."""
        held = await session.execute(
            select(SupervisorLease.node)
            .where(
                SupervisorLease.node == lease.node,
                SupervisorLease.owner == lease.owner,
                SupervisorLease.generation == lease.generation,
                SupervisorLease.expires_at > func.now(),
            )
            .with_for_update()
        )
        if held.first() is None:
            raise LeaseLost(lease.node)

    async def keep(self, session: WriteSession, lease: Lease, replica_id: ReplicaId, generation: int) -> None:
        """It runs as the specification of that generation says, without having been started anew."""
        await self.fence(session, lease)
        await session.execute(
            update(Replica).where(Replica.id == replica_id).values(pool_generation=generation)
        )

    async def _update(self, session: WriteSession, replica_id: ReplicaId, **values: object) -> None:
        await session.execute(
            update(Replica).where(Replica.id == replica_id).values(updated_at=func.now(), **values)
        )


def _pool(row: Pool) -> PoolView:
    return PoolView(
        id=PoolId(row.id),
        name=row.name,
        spec=EngineSpec.model_validate(row.spec),
        generation=row.generation,
        wanted=row.desired_state == "running",
        traffic=TrafficPolicy.model_validate({name: getattr(row, name) for name in _TRAFFIC}),
        sealed_api_key=row.sealed_api_key,
    )


def _condition(row: Replica) -> ReplicaCondition:
    return ReplicaCondition(
        pool_id=PoolId(row.pool_id),
        id=ReplicaId(row.id),
        node=row.node,
        url=row.url,
        state=row.state,
        restarts=row.restarts,
        last_error=row.last_error,
        ready_at=row.ready_at,
        gpus=tuple(row.gpus),
        devices=tuple(row.devices),
        generation=row.pool_generation,
        created_at=row.created_at,
    )


def _view(row: Replica) -> ReplicaView:
    pid, ticks = row.pid, row.pid_started_ticks
    return ReplicaView(
        id=ReplicaId(row.id),
        pool_id=PoolId(row.pool_id),
        state=row.state,  # type: ignore[arg-type]  # the table's check constraint lists the same values
        url=row.url,
        gpus=tuple(row.gpus),
        devices=tuple(row.devices),
        mark=ProcessMark(pid, ticks) if pid is not None and ticks is not None else None,
        epoch=row.epoch,
        pool_generation=row.pool_generation,
        restarts=row.restarts,
        ready_at=row.ready_at,
        changed_at=row.updated_at,
        last_error=row.last_error,
    )
