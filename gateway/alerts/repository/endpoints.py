"""Endpoints as rows. A tenant's queries name the tenant; the operator's reach them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, text, true, update

from gateway.alerts.models import AlertRecord, Delivery, DeliveryAttempt, WebhookEndpoint
from gateway.alerts.webhooks.types import Endpoint
from gateway.db import ReadSession, WriteConnection, WriteSession
from gateway.ids import TenantId

__all__ = [
    "CHANNEL",
    "EVERYBODY",
    "OPERATOR",
    "AttemptView",
    "EndpointRepository",
    "Owner",
    "SentView",
    "disable",
    "listeners",
    "pause",
    "reseal_secrets",
    "sealed_secrets",
]

CHANNEL = "webhook"
_COLUMNS = tuple(Endpoint.__slots__)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose endpoints are meant: a tenant's; without one, the operator's own; or everybody's."""

    tenant_id: TenantId | None = None
    is_everybody: bool = False

    def condition(self) -> ColumnElement[bool]:
        if self.is_everybody:
            return true()
        return WebhookEndpoint.tenant_id.is_not_distinct_from(self.tenant_id)


OPERATOR = Owner()
EVERYBODY = Owner(None, is_everybody=True)


@dataclass(frozen=True, slots=True)
class SentView:
    """A delivery to an endpoint, with its event."""

    id: str
    event_id: str
    event_type: str
    tenant_id: str | None
    occurred_at: datetime
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class AttemptView:
    number: int
    started_at: datetime
    duration_ms: int
    status_code: int | None
    error: str | None
    answer: str | None


class EndpointRepository:
    async def insert(self, session: WriteSession, endpoint: Endpoint) -> None:
        values = {name: getattr(endpoint, name) for name in _COLUMNS}
        await session.execute(
            insert(WebhookEndpoint).values({**values, "event_types": [*endpoint.event_types]})
        )

    async def replace(self, session: WriteSession, endpoint: Endpoint) -> None:
        values = {name: getattr(endpoint, name) for name in _COLUMNS if name != "id"}
        values["event_types"] = [*endpoint.event_types]
        await session.execute(update(WebhookEndpoint).where(WebhookEndpoint.id == endpoint.id).values(values))

    async def delete(self, session: WriteSession, endpoint_id: str) -> None:
        """What is on its way to it goes with it."""
        ours = (Delivery.channel == CHANNEL) & (Delivery.target_key == endpoint_id)
        await session.execute(delete(Delivery).where(ours))
        await session.execute(delete(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id))

    async def endpoint(
        self, session: ReadSession | WriteSession, owner: Owner, endpoint_id: str, *, locked: bool = False
    ) -> Endpoint | None:
        query = select(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id, owner.condition())
        row = await session.scalar(query.with_for_update() if locked else query)
        return _endpoint(row) if row is not None else None

    async def count(self, session: WriteSession, owner: Owner) -> int:
        query = select(func.count()).select_from(WebhookEndpoint).where(owner.condition())
        return int(await session.scalar(query) or 0)

    async def page(self, session: ReadSession, owner: Owner, after: str | None, limit: int) -> list[Endpoint]:
        """Newest first: ids are ordered by time. After an id that is nobody's there is nothing."""
        query = select(WebhookEndpoint).where(owner.condition())
        if after is not None:
            known = select(WebhookEndpoint.id).where(WebhookEndpoint.id == after, owner.condition())
            query = query.where(WebhookEndpoint.id < known.scalar_subquery())
        query = query.order_by(WebhookEndpoint.id.desc()).limit(limit)
        return [_endpoint(row) for row in await session.scalars(query)]

    async def deliveries(
        self, session: ReadSession, endpoint_id: str, state: str | None, after: str | None, limit: int
    ) -> list[SentView]:
        """Newest first. `state`: pending, delivered or failed."""
        query = _sent(endpoint_id).order_by(Delivery.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Delivery.id < after)
        if state is not None:
            query = query.where(_STATES[state])
        return [SentView(*row) for row in await session.execute(query)]

    async def delivery(
        self, session: ReadSession | WriteSession, endpoint_id: str, delivery_id: str
    ) -> tuple[SentView, list[AttemptView]] | None:
        row = (await session.execute(_sent(endpoint_id).where(Delivery.id == delivery_id))).one_or_none()
        if row is None:
            return None
        columns = [getattr(DeliveryAttempt, name) for name in AttemptView.__slots__]
        query = select(*columns).where(DeliveryAttempt.delivery_id == delivery_id)
        attempts = await session.execute(query.order_by(DeliveryAttempt.number))
        return SentView(*row), [AttemptView(*one) for one in attempts]


_STATES = {
    "pending": Delivery.next_attempt_at.is_not(None),
    "delivered": Delivery.delivered_at.is_not(None),
    "failed": Delivery.next_attempt_at.is_(None) & Delivery.delivered_at.is_(None),
}
_LISTENERS = text(
    """
    SELECT id FROM webhook_endpoint
    WHERE disabled_at IS NULL AND :event_type = ANY(event_types) AND (tenant_id IS NULL OR tenant_id = :tenant_id)
    ORDER BY id
    """
)
_DISABLE = text(
    """
    UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = :reason
    WHERE id = :id AND disabled_at IS NULL AND NOT (:unless_heard AND EXISTS (
        SELECT FROM delivery d, delivery mine WHERE mine.id = :delivery_id AND d.channel = mine.channel
            AND d.target_key = mine.target_key AND d.delivered_at > mine.created_at))
    RETURNING tenant_id, name, disabled_at
    """
)
_END_ALL = text(
    """
    UPDATE delivery SET next_attempt_at = NULL, last_error = coalesce(last_error, :error)
    WHERE channel = :channel AND target_key = :id AND next_attempt_at IS NOT NULL
    """
)
_PAUSE = text(
    """
    UPDATE webhook_endpoint SET paused_until = greatest(paused_until, now() + make_interval(secs => :pause_s))
    WHERE id = :id
    """
)
_SEALED = text(
    "SELECT id, secrets_sealed FROM webhook_endpoint WHERE id > :after ORDER BY id LIMIT :limit FOR UPDATE"
)
_RESEAL = text(
    "UPDATE webhook_endpoint SET secrets_sealed = :fresh WHERE id = :id AND secrets_sealed = :sealed"
)


async def listeners(connection: WriteConnection, event_type: str, tenant_id: str | None) -> list[str]:
    """The endpoints that want an event: the operator's, and those of its tenant."""
    rows = await connection.execute(_LISTENERS, {"event_type": event_type, "tenant_id": tenant_id})
    return list(rows.scalars())


async def disable(
    connection: WriteConnection, endpoint_id: str, reason: str, delivery_id: str, *, unless_heard: bool
) -> tuple[TenantId | None, str, datetime] | None:
    """Tenant, name and time. None if it is disabled already, or, `unless_heard`, has taken something else since the
    delivery was made. What is still on its way to a disabled endpoint is over."""
    values = {"id": endpoint_id, "reason": reason, "delivery_id": delivery_id, "unless_heard": unless_heard}
    row = (await connection.execute(_DISABLE, values)).one_or_none()
    if row is None:
        return None
    ended = {"channel": CHANNEL, "id": endpoint_id, "error": "the endpoint was disabled"}
    await connection.execute(_END_ALL, ended)
    return row.tenant_id, row.name, row.disabled_at


async def pause(connection: WriteConnection, endpoint_id: str, pause_s: float) -> None:
    await connection.execute(_PAUSE, {"id": endpoint_id, "pause_s": pause_s})


async def sealed_secrets(connection: WriteConnection, after: str, limit: int) -> Sequence[tuple[str, bytes]]:
    """In the order of their endpoints; nobody rotates them until the transaction ends."""
    rows = await connection.execute(_SEALED, {"after": after, "limit": limit})
    return [(row[0], row[1]) for row in rows]


async def reseal_secrets(connection: WriteConnection, endpoint_id: str, sealed: bytes, fresh: bytes) -> None:
    await connection.execute(_RESEAL, {"id": endpoint_id, "sealed": sealed, "fresh": fresh})


def _sent(endpoint_id: str) -> Any:
    columns = (
        *(Delivery.id, AlertRecord.id, AlertRecord.type, AlertRecord.tenant_id, AlertRecord.occurred_at),
        *(Delivery.created_at, Delivery.attempts, Delivery.next_attempt_at, Delivery.delivered_at),
        Delivery.last_error,
    )
    return (
        select(*columns)
        .join(AlertRecord, AlertRecord.id == Delivery.record_id)
        .where(Delivery.channel == CHANNEL, Delivery.target_key == endpoint_id)
    )


def _endpoint(row: WebhookEndpoint) -> Endpoint:
    values = {name: getattr(row, name) for name in _COLUMNS}
    return Endpoint(**{**values, "event_types": tuple(row.event_types)})
