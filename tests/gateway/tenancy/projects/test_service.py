"""Changes of a project that exists, each with what was and what is."""

from __future__ import annotations

import pytest

from gateway.audit.repository import AuditRepository
from gateway.errors import Conflict, InvalidApiKey, NotFound
from gateway.tenancy import LimitSet, ScopedLimits
from gateway.tenancy.projects.repository import PermissionView
from gateway.tenancy.projects.service import ProjectService
from tests.gateway.tenancy.support import ADMIN, bearer, world_on


async def test_changes(database_url: str) -> None:
    async with world_on(database_url) as world:
        audit = AuditRepository(world.clock, world.service._ids)
        projects, tenant_id = ProjectService(audit, world.clock), await world.tenant("old")
        async with world.database.write() as session:
            account = await world.service.create_service_account(session, ADMIN, tenant_id, "robot")
            key = await world.service.create_key(session, ADMIN, tenant_id, "k", account)
            limits = ScopedLimits(None, "m", LimitSet(requests_per_min=1))
            limit_id = (await world.service.set_limits(session, ADMIN, tenant_id, limits)).id
            await projects.update(session, ADMIN, tenant_id, "new", None)
            await projects.update(session, ADMIN, tenant_id, "new", None)
            await projects.update_account(session, ADMIN, tenant_id, account, None, "owner")
            allowed = PermissionView("allow_list", ("b", "a", "a"))
            assert await projects.set_permission(session, ADMIN, tenant_id, allowed)
            assert not await projects.set_permission(session, ADMIN, tenant_id, allowed)
            assert await projects.set_permission(session, ADMIN, tenant_id, None)
            assert not await projects.set_permission(session, ADMIN, tenant_id, None)
            await projects.delete_limits(session, ADMIN, tenant_id, limit_id)
            with pytest.raises(NotFound):
                await projects.delete_limits(session, ADMIN, tenant_id, limit_id)
            await world.feed.poll()
        await world.feed.poll()
        assert await world.directory.authenticate(bearer(key), None)
        async with world.database.write() as session:
            await projects.delete_account(session, ADMIN, tenant_id, account)
            await world.service.archive_tenant(session, ADMIN, tenant_id)
            with pytest.raises(Conflict):
                await projects.update(session, ADMIN, tenant_id, "newer", None)
        await world.feed.poll()
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(key), None)
        async with world.database.read() as session:
            entries = [record.entry for record in await audit.page(session)][:7]
    assert [(entry.action, entry.details) for entry in reversed(entries)] == [
        (
            "project.updated",
            {"before": {"name": "old", "fairness_weight": 1}, "after": {"name": "new", "fairness_weight": 1}},
        ),
        (
            "service_account.updated",
            {"before": {"name": "robot", "role": "member"}, "after": {"name": "robot", "role": "owner"}},
        ),
        (
            "model_permissions.updated",
            {"before": None, "after": {"mode": "allow_list", "model_ids": ["a", "b"]}},
        ),
        (
            "model_permissions.deleted",
            {"before": {"mode": "allow_list", "model_ids": ["a", "b"]}, "after": None},
        ),
        (
            "rate_limit.deleted",
            {
                "key_id": None,
                "served_model": "m",
                "before": {
                    "requests_per_min": 1,
                    "requests_burst": None,
                    "tokens_per_min": None,
                    "requests_per_day": None,
                    "concurrent_requests": None,
                    "max_prompt_tokens": None,
                    "max_output_tokens": None,
                },
            },
        ),
        ("service_account.deleted", {"before": {"name": "robot", "role": "owner"}}),
        ("project.archived", {"before": {"status": "active"}, "after": {"status": "archived"}}),
    ]
