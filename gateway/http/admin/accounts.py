"""A project's service accounts. A key of an account that is deleted works no more."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import ReadSession, WriteSession
from gateway.errors import InvalidValue, NotFound
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
from gateway.ids import ServiceAccountId, TenantId
from gateway.tenancy import IssuedKey, KeyOptions
from gateway.tenancy.principal import MODEL_SCOPE
from gateway.tenancy.projects.repository import AccountView, KeyView, ProjectRepository

__all__ = ["AccountRoutes"]


class AccountBody(Body):
    name: Name
    create_service_account_only: bool | None = None
    expires_in_seconds: Lifetime | None = None


class AccountChange(Body):
    name: Name | None = None
    role: Literal["owner", "member"] | None = None


class AccountKeyBody(Body):
    """A key without a name has its account's."""

    name: Name | None = None
    scopes: list[str] = Field(default=[MODEL_SCOPE], max_length=20)
    expires_in_seconds: Lifetime | None = None


class AccountRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        all_ = "/projects/{project_id}/service_accounts"
        one = f"{all_}/{{account_id}}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route(f"{one}/api_keys", self.create_key, methods=["POST"])

    async def create(self, request: Request, project_id: str, body: AccountBody) -> Json:
        """As at OpenAI, the account comes with its first key, whose value is shown here and never again."""
        is_bare = bool(body.create_service_account_only)
        if is_bare and body.expires_in_seconds is not None:
            raise InvalidValue("There is no key that could expire.", "expires_in_seconds")
        tenant_id, actor, key = TenantId(project_id), actor_of(request), None
        async with self._p.database.write() as session:
            account_id = await self._p.tenancy.create_service_account(
                session, actor, tenant_id, body.name, "none" if is_bare else "member"
            )
            if not is_bare:
                options = KeyOptions(expires_at=instant_in(self._p, body.expires_in_seconds))
                key = await self._p.tenancy.create_key(
                    session, actor, tenant_id, body.name, account_id, options
                )
        account = await self.retrieve(project_id, account_id)
        return {**account, "api_key": await self._new_key(project_id, key) if key is not None else None}

    async def list(self, project_id: str, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._projects.accounts(session, TenantId(project_id), after, limit + 1)
        return page_of([_account(row) for row in rows], limit)

    async def retrieve(self, project_id: str, account_id: str) -> Json:
        async with self._p.database.read() as session:
            return _account(await self._found(session, project_id, account_id))

    async def update(self, request: Request, project_id: str, account_id: str, body: AccountChange) -> Json:
        async with self._p.database.write() as session:
            await self._p.projects.update_account(
                session, actor_of(request), TenantId(project_id), account_id, body.name, body.role
            )
        return await self.retrieve(project_id, account_id)

    async def delete(self, request: Request, project_id: str, account_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._p.projects.delete_account(
                session, actor_of(request), TenantId(project_id), account_id
            )
        deleted = "organization.project.service_account.deleted"
        return {"object": deleted, "id": account_id, "deleted": True}

    async def create_key(
        self, request: Request, project_id: str, account_id: str, body: AccountKeyBody
    ) -> Json:
        """`value` is in this answer and nowhere else."""
        tenant_id = TenantId(project_id)
        options = KeyOptions(frozenset(body.scopes), instant_in(self._p, body.expires_in_seconds))
        async with self._p.database.write() as session:
            account = await self._found(session, project_id, account_id)
            issued = await self._p.tenancy.create_key(
                session,
                actor_of(request),
                tenant_id,
                account.name if body.name is None else body.name,
                ServiceAccountId(account_id),
                options,
            )
        return await self._new_key(project_id, issued)

    async def _found(
        self, session: ReadSession | WriteSession, project_id: str, account_id: str
    ) -> AccountView:
        found = await self._projects.account(session, TenantId(project_id), account_id)
        if found is None:
            raise NotFound("No such service account.")
        return found

    async def _new_key(self, project_id: str, issued: IssuedKey) -> Json:
        async with self._p.database.read() as session:
            view = await self._projects.key(session, TenantId(project_id), issued.id)
        assert view is not None, "it was made just now"
        return _key(view, issued)


def _account(view: AccountView) -> Json:
    return {
        "object": "organization.project.service_account",
        "id": view.id,
        "name": view.name,
        "role": view.role,
        "created_at": unix(view.created_at),
    }


def _key(view: KeyView, issued: IssuedKey) -> Json:
    return {
        "object": "organization.project.service_account.api_key",
        "id": view.id,
        "name": view.name,
        "created_at": unix(view.created_at),
        "expires_at": unix(view.expires_at),
        "value": issued.value,
    }
