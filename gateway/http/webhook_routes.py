"""`/v1/webhook_endpoints` and `/v1/webhook_event_types`: a tenant's own endpoints, as OpenAI's client asks for them."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.alerts.repository.endpoints import EndpointRepository, Owner
from gateway.alerts.webhooks.service import EndpointService, WebhookParts, event_types_of
from gateway.alerts.webhooks.types import Change, Endpoint, NewEndpoint, shown_url
from gateway.audit.repository import Actor
from gateway.errors import InvalidRequest, MissingParameter, NotFound
from gateway.http.auth import Authenticator
from gateway.http.call import Call
from gateway.http.storage import JSON, Json, database_may_be_away, limit_of, page_of, query_of
from gateway.tenancy.principal import WEBHOOKS_READ_SCOPE, WEBHOOKS_WRITE_SCOPE, Principal
from gateway.wire.request import read_object

__all__ = ["WebhookRoutes", "endpoint_json", "test_json"]

BODY_BYTES_MAX = 64 * 1024
KEEP_OLD = "keep_old_secret_active_for_24_hours"


class WebhookRoutes:
    def __init__(self, auth: Authenticator, parts: WebhookParts, service: EndpointService) -> None:
        self._auth = auth
        self._p = parts
        self._service = service
        self._rows = EndpointRepository()

    async def create(self, call: Call) -> None:
        principal = await self._caller(call, WEBHOOKS_WRITE_SCOPE)
        fields = await _fields(call, ("event_types", "name", "url"))
        for name in ("event_types", "name", "url"):
            if fields.get(name) is None:
                raise MissingParameter(name)
        new = NewEndpoint(
            principal.tenant_id, _text(fields, "name"), _text(fields, "url"), _texts(fields, "event_types")
        )
        with database_may_be_away():
            async with self._p.database.write() as session:
                made, secret = await self._service.create(session, self._actor(call, principal), new)
        await _answer(call, {**endpoint_json(made), "signing_secret": secret})

    async def list(self, call: Call) -> None:
        principal = await self._caller(call, WEBHOOKS_READ_SCOPE)
        query = query_of(call, ("after", "limit"))
        limit, owner = limit_of(query, 20, 100), Owner(principal.tenant_id)
        with database_may_be_away():
            async with self._p.database.read() as session:
                rows = await self._rows.page(session, owner, query.get("after"), limit + 1)
        await call.answer(200, JSON, page_of([endpoint_json(row) for row in rows], limit))

    async def retrieve(self, call: Call, endpoint_id: str) -> None:
        principal = await self._caller(call, WEBHOOKS_READ_SCOPE)
        with database_may_be_away():
            async with self._p.database.read() as session:
                found = await self._rows.endpoint(session, Owner(principal.tenant_id), endpoint_id)
        if found is None:
            raise NotFound("No such webhook endpoint.")
        await _answer(call, endpoint_json(found))

    async def update(self, call: Call, endpoint_id: str) -> None:
        principal = await self._caller(call, WEBHOOKS_WRITE_SCOPE)
        fields = await _fields(call, ("event_types", "name", "url"))
        change = Change(
            _text(fields, "name") if fields.get("name") is not None else None,
            _text(fields, "url") if fields.get("url") is not None else None,
            _texts(fields, "event_types") if fields.get("event_types") is not None else None,
        )
        actor, owner = self._actor(call, principal), Owner(principal.tenant_id)
        with database_may_be_away():
            async with self._p.database.write() as session:
                changed = await self._service.update(session, actor, owner, endpoint_id, change)
        await _answer(call, endpoint_json(changed))

    async def delete(self, call: Call, endpoint_id: str) -> None:
        principal = await self._caller(call, WEBHOOKS_WRITE_SCOPE)
        actor, owner = self._actor(call, principal), Owner(principal.tenant_id)
        with database_may_be_away():
            async with self._p.database.write() as session:
                await self._service.delete(session, actor, owner, endpoint_id)
        await _answer(call, {"id": endpoint_id, "object": "webhook_endpoint.deleted", "deleted": True})

    async def rotate_secret(self, call: Call, endpoint_id: str) -> None:
        principal = await self._caller(call, WEBHOOKS_WRITE_SCOPE)
        keeps_old = (await _fields(call, (KEEP_OLD,))).get(KEEP_OLD)
        if not isinstance(keeps_old, bool | None):
            raise InvalidRequest(f"'{KEEP_OLD}' must be true or false.", KEEP_OLD)
        actor, owner = self._actor(call, principal), Owner(principal.tenant_id)
        with database_may_be_away():
            async with self._p.database.write() as session:
                changed, secret = await self._service.rotate(
                    session, actor, owner, endpoint_id, keeps_old=bool(keeps_old)
                )
        await _answer(call, {**endpoint_json(changed), "signing_secret": secret})

    async def test(self, call: Call, endpoint_id: str) -> None:
        principal = await self._caller(call, WEBHOOKS_WRITE_SCOPE)
        fields = await _fields(call, ("event_type",))
        if fields.get("event_type") is None:
            raise MissingParameter("event_type")
        event_type = _text(fields, "event_type")
        with database_may_be_away():
            answer = await self._service.test(Owner(principal.tenant_id), endpoint_id, event_type)
        await _answer(call, test_json(endpoint_id, event_type, answer.status))

    async def event_types(self, call: Call) -> None:
        principal = await self._caller(call, WEBHOOKS_READ_SCOPE)
        query_of(call, ())
        await _answer(call, {"object": "list", "data": [*event_types_of(Owner(principal.tenant_id))]})

    async def _caller(self, call: Call, scope: str) -> Principal:
        """Whoever may change endpoints may read them."""
        call.endpoint = "webhooks"
        principal = await self._auth.tenant(call)
        if scope != WEBHOOKS_READ_SCOPE or WEBHOOKS_WRITE_SCOPE not in principal.scopes:
            principal.require(scope)
        return principal

    def _actor(self, call: Call, principal: Principal) -> Actor:
        return Actor("api_key", principal.key_id, call.request_id, self._auth.address(call))


def endpoint_json(endpoint: Endpoint) -> Json:
    return {
        "id": endpoint.id,
        "object": "webhook_endpoint",
        "created_at": int(endpoint.created_at.timestamp()),
        "updated_at": int(endpoint.updated_at.timestamp()),
        "name": endpoint.name,
        "url": shown_url(endpoint),
        "event_types": [*endpoint.event_types],
        "signing_secret_hint": endpoint.secret_hint,
    }


def test_json(endpoint_id: str, event_type: str, status: int) -> Json:
    return {
        "object": "webhook_endpoint.test",
        "webhook_endpoint_id": endpoint_id,
        "event_type": event_type,
        "status_code": status,
        "success": True,
    }


async def _fields(call: Call, known: tuple[str, ...]) -> Json:
    """Without a body: no fields."""
    raw = await call.body(BODY_BYTES_MAX)
    fields = read_object(raw) if raw else {}
    for name in fields:
        if name not in known:
            raise InvalidRequest(f"Unknown parameter: '{name}'.", name)
    return fields


def _text(fields: Json, name: str) -> str:
    value: Any = fields[name]
    if not isinstance(value, str) or "\0" in value:
        raise InvalidRequest(f"'{name}' must be a string.", name)
    return value


def _texts(fields: Json, name: str) -> tuple[str, ...]:
    values: Any = fields[name]
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise InvalidRequest(f"'{name}' must be a list of strings.", name)
    return tuple(values)


async def _answer(call: Call, answer: Json) -> None:
    await call.answer(200, JSON, orjson.dumps(answer))
