"""Changes of a project that exists: its name, its service accounts, which served names it may use, its limits.

The caller opens the transaction and commits it; each change has its audit row in it. What makes projects, keys and
limits is tenancy/service.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import WriteSession
from gateway.errors import Conflict, NotFound
from gateway.ids import TenantId
from gateway.tenancy.projects.repository import AccountView, PermissionView, ProjectRepository
from gateway.tenancy.service import check_name

__all__ = ["ProjectService"]


class ProjectService:
    def __init__(self, audit: AuditRepository, clock: Clock) -> None:
        self._projects = ProjectRepository()
        self._audit = audit
        self._clock = clock

    async def update(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, name: str | None, weight: int | None
    ) -> None:
        before = await self._projects.locked(session, tenant_id)
        if before is None:
            raise NotFound("No such project.")
        if before.status != "active":
            raise Conflict("The project is archived.")
        if name is not None:
            check_name(name)
        after = replace(before, name=name or before.name, fairness_weight=weight or before.fairness_weight)
        if after == before:
            return
        await self._projects.set_project(session, tenant_id, after.name, after.fairness_weight)
        details = {
            side: {"name": view.name, "fairness_weight": view.fairness_weight}
            for side, view in (("before", before), ("after", after))
        }
        await self._record(session, actor, "project.updated", ("project", tenant_id), tenant_id, details)

    async def update_account(
        self,
        session: WriteSession,
        actor: Actor,
        tenant_id: TenantId,
        account_id: str,
        name: str | None,
        role: Literal["owner", "member"] | None,
    ) -> None:
        before = await self._require_account(session, tenant_id, account_id)
        if name is not None:
            check_name(name)
        after = replace(before, name=name or before.name, role=role or before.role)
        if after == before:
            return
        await self._projects.set_account(session, tenant_id, after)
        details = {
            side: {"name": view.name, "role": view.role}
            for side, view in (("before", before), ("after", after))
        }
        resource = ("service_account", account_id)
        await self._record(session, actor, "service_account.updated", resource, tenant_id, details)

    async def delete_account(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, account_id: str
    ) -> None:
        """Its keys stop working within 2 s."""
        before = await self._require_account(session, tenant_id, account_id)
        await self._projects.delete_account(session, tenant_id, account_id, self._clock.now())
        details = {"before": {"name": before.name, "role": before.role}}
        resource = ("service_account", account_id)
        await self._record(session, actor, "service_account.deleted", resource, tenant_id, details)

    async def set_permission(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, wanted: PermissionView | None
    ) -> bool:
        """None takes the permission away: then every route that matches is allowed. Whether there was a change."""
        before = await self._projects.locked_permission(session, tenant_id)
        if wanted is not None:
            wanted = replace(wanted, model_ids=tuple(sorted(set(wanted.model_ids))))
            await self._projects.put_permission(session, tenant_id, wanted.mode, wanted.model_ids)
        else:
            await self._projects.delete_permission(session, tenant_id)
        if wanted == before:
            return False
        details = {
            "before": _permission(before) if before is not None else None,
            "after": _permission(wanted) if wanted is not None else None,
        }
        action = "model_permissions.deleted" if wanted is None else "model_permissions.updated"
        await self._record(session, actor, action, ("model_permissions", tenant_id), tenant_id, details)
        return True

    async def delete_limits(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, limit_id: str
    ) -> None:
        gone = await self._projects.delete_limits(session, tenant_id, limit_id)
        if gone is None:
            raise NotFound("No such limits.")
        details = {
            "key_id": gone.scoped.key_id,
            "served_model": gone.scoped.served_model,
            "before": asdict(gone.scoped.limits),
        }
        await self._record(session, actor, "rate_limit.deleted", ("rate_limit", limit_id), tenant_id, details)

    async def _require_account(
        self, session: WriteSession, tenant_id: TenantId, account_id: str
    ) -> AccountView:
        found = await self._projects.account(session, tenant_id, account_id)
        if found is None:
            raise NotFound("No such service account.")
        return found

    async def _record(
        self,
        session: WriteSession,
        actor: Actor,
        action: str,
        resource: tuple[str, str],
        tenant_id: TenantId,
        details: Mapping[str, Any],
    ) -> None:
        await self._audit.append(session, actor, AuditEntry(action, *resource, tenant_id, details))


def _permission(view: PermissionView) -> dict[str, Any]:
    return {"mode": view.mode, "model_ids": list(view.model_ids)}
