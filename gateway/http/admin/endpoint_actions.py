"""What may be done with webhook endpoints, whoever their owner is: the operator's routes and a project's share it.

`owner` is whose endpoints are meant; to anybody else's the answer is that there is none. Place: between the two sets of
routes and alerts/webhooks/service.py. It does not know who may do what.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Request
from pydantic import Field

from gateway.alerts.repository.endpoints import AttemptView, EndpointRepository, Owner, SentView
from gateway.alerts.webhooks.types import Change, Endpoint, Format, NewEndpoint
from gateway.errors import NotFound
from gateway.http.admin.common import AdminParts, Body, Json, Name, Page, actor_of, page_of, unix
from gateway.http.webhook_routes import endpoint_json, test_json
from gateway.ids import TenantId

__all__ = ["EndpointActions", "EndpointBody", "EndpointChange", "SampleWanted", "SecretRotation"]

EventTypes = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)]
Text = Annotated[str, Field(max_length=4096)]
Key = Annotated[str, Field(max_length=100)]


class EndpointBody(Body):
    """PagerDuty's URL is known; its routing key is the secret that a service has there."""

    name: Name
    url: Text = ""
    event_types: EventTypes
    format: Format = "standard"
    routing_key: Key | None = None


class EndpointChange(Body):
    """What is not given stays. A disabled endpoint is enabled by any change."""

    name: Name | None = None
    url: Text | None = None
    event_types: EventTypes | None = None
    routing_key: Key | None = None


class SecretRotation(Body):
    keep_old_secret_active_for_24_hours: bool = False


class SampleWanted(Body):
    event_type: Annotated[str, Field(max_length=100)]


class EndpointActions:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._rows = EndpointRepository()

    async def create(self, request: Request, tenant_id: TenantId | None, body: EndpointBody) -> Json:
        """`signing_secret` is in this answer and nowhere else, and so is the whole address of Slack's."""
        new = NewEndpoint(
            tenant_id, body.name, body.url, tuple(body.event_types), body.format, body.routing_key
        )
        async with self._p.database.write() as session:
            made, secret = await self._p.endpoints.create(session, actor_of(request), new)
        return {**self._json(made), "url": made.url, "signing_secret": secret}

    async def list(self, owner: Owner, limit: int, after: str | None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._rows.page(session, owner, after, limit + 1)
        return page_of([self._json(row) for row in rows], limit)

    async def retrieve(self, owner: Owner, endpoint_id: str) -> Json:
        return self._json(await self._found(owner, endpoint_id))

    async def update(self, request: Request, owner: Owner, endpoint_id: str, body: EndpointChange) -> Json:
        types = tuple(body.event_types) if body.event_types is not None else None
        change = Change(body.name, body.url, types, body.routing_key)
        async with self._p.database.write() as session:
            changed = await self._p.endpoints.update(session, actor_of(request), owner, endpoint_id, change)
        return self._json(changed)

    async def delete(self, request: Request, owner: Owner, endpoint_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._p.endpoints.delete(session, actor_of(request), owner, endpoint_id)
        return {"object": "webhook_endpoint.deleted", "id": endpoint_id, "deleted": True}

    async def rotate_secret(
        self, request: Request, owner: Owner, endpoint_id: str, body: SecretRotation
    ) -> Json:
        """`signing_secret` is in this answer and nowhere else."""
        keeps_old = body.keep_old_secret_active_for_24_hours
        async with self._p.database.write() as session:
            changed, secret = await self._p.endpoints.rotate(
                session, actor_of(request), owner, endpoint_id, keeps_old=keeps_old
            )
        return {**self._json(changed), "signing_secret": secret}

    async def test(self, owner: Owner, endpoint_id: str, event_type: str) -> Json:
        """Sends a sample now, and says what was answered."""
        answer = await self._p.endpoints.test(owner, endpoint_id, event_type)
        return {**test_json(endpoint_id, event_type, answer.status), "answer": answer.text}

    async def enable(self, request: Request, owner: Owner, endpoint_id: str) -> Json:
        async with self._p.database.write() as session:
            changed = await self._p.endpoints.enable(session, actor_of(request), owner, endpoint_id)
        return self._json(changed)

    async def deliveries(
        self, owner: Owner, endpoint_id: str, status: str | None, limit: int, after: str | None
    ) -> Page:
        await self._found(owner, endpoint_id)
        async with self._p.database.read() as session:
            rows = await self._rows.deliveries(session, endpoint_id, status, after, limit + 1)
        return page_of([_delivery(row) for row in rows], limit)

    async def delivery(self, owner: Owner, endpoint_id: str, delivery_id: str) -> Json:
        """With each attempt that ended."""
        await self._found(owner, endpoint_id)
        async with self._p.database.read() as session:
            found = await self._rows.delivery(session, endpoint_id, delivery_id)
        if found is None:
            raise NotFound("No such delivery.")
        return {**_delivery(found[0]), "log": [_attempt(one) for one in found[1]]}

    async def replay(self, request: Request, owner: Owner, endpoint_id: str, delivery_id: str) -> Json:
        """Sent again under the same webhook-id, from the start of the schedule."""
        async with self._p.database.write() as session:
            await self._p.endpoints.replay(session, actor_of(request), owner, endpoint_id, delivery_id)
        return await self.delivery(owner, endpoint_id, delivery_id)

    async def _found(self, owner: Owner, endpoint_id: str) -> Endpoint:
        async with self._p.database.read() as session:
            found = await self._rows.endpoint(session, owner, endpoint_id)
        if found is None:
            raise NotFound("No such webhook endpoint.")
        return found

    def _json(self, endpoint: Endpoint) -> Json:
        return {
            **endpoint_json(endpoint),
            "project_id": endpoint.tenant_id,
            "format": endpoint.format,
            "status": _status(endpoint, self._p.clock.now()),
            "paused_until": unix(endpoint.paused_until),
            "disabled_at": unix(endpoint.disabled_at),
            "disabled_reason": endpoint.disabled_reason,
        }


def _status(endpoint: Endpoint, now: datetime) -> str:
    if endpoint.disabled_at is not None:
        return "disabled"
    return "paused" if endpoint.paused_until is not None and endpoint.paused_until > now else "enabled"


def _delivery(view: SentView) -> Json:
    is_over = view.next_attempt_at is None
    return {
        "object": "webhook_endpoint.delivery",
        "id": view.id,
        "event_id": view.event_id,
        "event_type": view.event_type,
        "project_id": view.tenant_id,
        "status": "delivered" if view.delivered_at is not None else "failed" if is_over else "pending",
        "attempts": view.attempts,
        "next_attempt_at": unix(view.next_attempt_at),
        "delivered_at": unix(view.delivered_at),
        "last_error": view.last_error,
        "occurred_at": unix(view.occurred_at),
        "created_at": unix(view.created_at),
    }


def _attempt(view: AttemptView) -> Json:
    return {
        "number": view.number,
        "started_at": unix(view.started_at),
        "duration_ms": view.duration_ms,
        "status_code": view.status_code,
        "error": view.error,
        "answer": view.answer,
    }
