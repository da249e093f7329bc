"""The figures of the overview: pools as they are, and what happened last. Small tables, and the newest end of two
indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select

from gateway.alerts.models import AlertRecord
from gateway.audit.models import AuditLog
from gateway.db import ReadSession
from gateway.pool.models import Pool, Replica, ReplicaSample
from gateway.tenancy.models import AdminApiKey, OrganizationUser

__all__ = ["NEWEST", "Figures", "Overview", "PoolFigures", "ReplicaFigures"]

NEWEST = 10
SAMPLES_OF = timedelta(minutes=1)
"""A figure that is older says nothing about now."""
SHOWN_STATES = ("starting", "ready", "draining", "failed", "lost")
POOLS_MAX = 200


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """`tokens_per_second`: between the last two samples; null without two of one engine run."""

    id: str
    state: str
    node: str
    restarts: int
    last_error: str | None
    is_outdated: bool
    sampled_at: datetime | None = None
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class PoolFigures:
    id: str
    name: str
    desired_state: str
    replicas: Sequence[ReplicaFigures]


@dataclass(frozen=True, slots=True)
class Figures:
    """`alerts` and `changes` None: they were not asked for. `emails`: of the actors that are, or belong to, users."""

    pools: Sequence[PoolFigures]
    alerts: Sequence[AlertRecord] | None
    changes: Sequence[AuditLog] | None
    emails: Mapping[str, str] = field(default_factory=dict)


class Overview:
    async def read(self, session: ReadSession, now: datetime, *, alerts: bool, changes: bool) -> Figures:
        pools = await self._pools(session, now)
        newest = select(AlertRecord).order_by(AlertRecord.occurred_at.desc(), AlertRecord.id.desc())
        fired = (await session.scalars(newest.limit(NEWEST))).all() if alerts else None
        last = select(AuditLog).order_by(AuditLog.occurred_at.desc(), AuditLog.id.desc())
        done = (await session.scalars(last.limit(NEWEST))).all() if changes else None
        emails = await _emails(session, [row.actor_id for row in done or ()])
        return Figures(pools, fired, done, emails)

    async def _pools(self, session: ReadSession, now: datetime) -> list[PoolFigures]:
        pools = (
            await session.scalars(
                select(Pool).where(Pool.deleted_at.is_(None)).order_by(Pool.name).limit(POOLS_MAX)
            )
        ).all()
        replicas = (
            await session.scalars(
                select(Replica)
                .where(Replica.state.in_(SHOWN_STATES), Replica.pool_id.in_([pool.id for pool in pools]))
                .order_by(Replica.id)
            )
        ).all()
        samples: dict[str, list[ReplicaSample]] = {}
        recent = select(ReplicaSample).where(ReplicaSample.at >= now - SAMPLES_OF)
        for sample in await session.scalars(recent.order_by(ReplicaSample.at.desc())):
            samples.setdefault(sample.replica_id, []).append(sample)
        return [
            PoolFigures(
                pool.id,
                pool.name,
                pool.desired_state,
                [
                    _figures(one, samples.get(one.id, ()), pool.generation)
                    for one in replicas
                    if one.pool_id == pool.id
                ],
            )
            for pool in pools
        ]


def _figures(replica: Replica, samples: Sequence[ReplicaSample], generation: int) -> ReplicaFigures:
    outdated = replica.pool_generation != generation
    facts = (replica.id, replica.state, replica.node, replica.restarts, replica.last_error, outdated)
    if not samples:
        return ReplicaFigures(*facts)
    last = samples[0]
    return ReplicaFigures(*facts, last.at, last.running, last.waiting, last.kv_usage, _speed(samples[:2]))


def _speed(samples: Sequence[ReplicaSample]) -> float | None:
    """A counter that went back is of another run of the engine."""
    if len(samples) < 2 or samples[0].tokens is None or samples[1].tokens is None:
        return None
    passed_s = (samples[0].at - samples[1].at).total_seconds()
    made = samples[0].tokens - samples[1].tokens
    return round(made / passed_s, 1) if passed_s > 0 and made >= 0 else None


async def _emails(session: ReadSession, actors: Sequence[str]) -> Mapping[str, str]:
    users = select(OrganizationUser.id, OrganizationUser.email).where(OrganizationUser.id.in_(actors))
    keys = (
        select(AdminApiKey.id, OrganizationUser.email)
        .join(OrganizationUser, OrganizationUser.id == AdminApiKey.user_id)
        .where(AdminApiKey.id.in_(actors))
    )
    rows = [*await session.execute(users), *await session.execute(keys)]
    return {id_: email for id_, email in rows if email is not None}
