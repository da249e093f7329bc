"""The marks by which a change is known: small queries over indexes, a few rows each. Nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import func, select

from gateway.alerts.models import AlertRecord
from gateway.audit.models import AuditLog
from gateway.db import ReadSession
from gateway.ledger.models import RollupMinute
from gateway.pool.models import Replica, ReplicaSample
from gateway.slo.models import ObjectiveState

__all__ = ["Marks", "read_marks"]

LOOKS_BACK = timedelta(minutes=5)
"""Longer than a page is without a stream, and than any transaction."""
ROWS_MAX = 500


@dataclass(frozen=True, slots=True)
class Marks:
    """Each is the same as long as nothing has changed. By tenant, where a change concerns one."""

    usage: frozenset[tuple[str, datetime, int]] = frozenset()
    """Tenant, minute, requests."""
    alerts: frozenset[tuple[str | None, str]] = frozenset()
    audit: frozenset[tuple[str | None, str]] = frozenset()
    slo: datetime | None = None
    pools: tuple[object, ...] = field(default=())


async def read_marks(session: ReadSession, now: datetime) -> Marks:
    since = now - LOOKS_BACK
    usage = await session.execute(
        select(RollupMinute.tenant_id, RollupMinute.bucket, func.sum(RollupMinute.requests))
        .where(RollupMinute.bucket >= since)
        .group_by(RollupMinute.tenant_id, RollupMinute.bucket)
    )
    alerts = await session.execute(
        select(AlertRecord.tenant_id, AlertRecord.id)
        .where(AlertRecord.occurred_at >= since)
        .order_by(AlertRecord.occurred_at.desc(), AlertRecord.id.desc())
        .limit(ROWS_MAX)
    )
    audit = await session.execute(
        select(AuditLog.tenant_id, AuditLog.id)
        .where(AuditLog.occurred_at >= since)
        .order_by(AuditLog.occurred_at.desc(), AuditLog.id.desc())
        .limit(ROWS_MAX)
    )
    replicas = (
        await session.execute(select(func.count(), func.max(Replica.updated_at), func.max(Replica.ready_at)))
    ).one()
    return Marks(
        frozenset((tenant, bucket, int(requests)) for tenant, bucket, requests in usage),
        frozenset((tenant, id_) for tenant, id_ in alerts),
        frozenset((tenant, id_.hex) for tenant, id_ in audit),
        await session.scalar(select(func.max(ObjectiveState.evaluated_at))),
        (*replicas, await session.scalar(select(func.max(ReplicaSample.at)))),
    )
