"""Admin API keys: OpenAI's, with a role of their own, an IP allow-list and a user whose key it is."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.errors import NotFound
from gateway.http.admin.alert_books import Order
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Lifetime,
    Limit,
    Name,
    Page,
    actor_of,
    instant_in,
    page_of,
    unix,
)
from gateway.ids import KeyId, UserId
from gateway.tenancy.people.service import AdminKeyOptions
from gateway.tenancy.people.types import AdminKey
from gateway.tenancy.principal import Role

__all__ = ["AdminKeyRoutes"]


class AdminKeyBody(Body):
    """Without a user the key is its creator's, and may do no more than its creator."""

    name: Name
    expires_in_seconds: Lifetime | None = None
    role: Role = "owner"
    user_id: str | None = None
    ip_allow_list: list[str] = Field(default=[], max_length=100)


class AdminKeyRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._people = parts.people

    def register(self, router: APIRouter) -> None:
        all_, one = "/admin_api_keys", "/admin_api_keys/{key_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.delete, methods=["DELETE"])

    async def create(self, request: Request, body: AdminKeyBody) -> Json:
        """`value` is in this answer and nowhere else."""
        actor, expires_at = actor_of(request), instant_in(self._p, body.expires_in_seconds)
        async with self._p.database.write() as session:
            user_id = UserId(body.user_id) if body.user_id is not None else None
            if user_id is None:
                own = await self._people.repository.admin_key(session, KeyId(actor.id))
                user_id = own.user.id if own is not None and own.user is not None else None
            options = AdminKeyOptions(body.role, user_id, expires_at, tuple(body.ip_allow_list))
            issued = await self._people.create_admin_key(session, actor, body.name, options)
        return {**await self.retrieve(issued.id), "value": issued.value}

    async def list(self, limit: Limit = 20, after: After = None, order: Order = "desc") -> Page:
        async with self._p.database.read() as session:
            rows = await self._people.repository.admin_keys(
                session, after, limit + 1, ascending=order == "asc"
            )
        return page_of([_key(row) for row in rows], limit)

    async def retrieve(self, key_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._people.repository.admin_key(session, KeyId(key_id))
        if found is None:
            raise NotFound("No such admin API key.")
        return _key(found)

    async def delete(self, request: Request, key_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._people.delete_admin_key(session, actor_of(request), KeyId(key_id))
        return {"object": "organization.admin_api_key.deleted", "id": key_id, "deleted": True}


def _key(key: AdminKey) -> Json:
    user = key.user
    return {
        "object": "organization.admin_api_key",
        "id": key.id,
        "name": key.name,
        "redacted_value": f"tw-{key.public_id}-***",
        "created_at": unix(key.created_at),
        "expires_at": unix(key.expires_at),
        "last_used_at": unix(key.last_used_at),
        "owner": {
            "type": "user",
            "object": "organization.user",
            "id": user.id if user is not None else None,
            "name": user.name if user is not None else None,
            "created_at": unix(user.created_at) if user is not None else None,
            "role": user.role if user is not None else None,
        },
        "role": key.role,
        "ip_allow_list": [*key.ip_allow_list],
    }
