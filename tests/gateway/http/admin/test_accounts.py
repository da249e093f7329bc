"""Service accounts with the stock client: what happens to their keys."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.harness import Gateway


async def test_an_account_takes_its_keys_along(gateway: Gateway) -> None:
    projects = admin_client(gateway).admin.organization.projects
    project = await projects.create(name="p")
    accounts = projects.service_accounts
    bare = await accounts.create(project.id, name="bare", create_service_account_only=True)
    assert (bare.role, bare.api_key) == ("none", None)
    assert (await accounts.retrieve(bare.id, project_id=project.id)).role == "none"
    with pytest.raises(openai.BadRequestError):
        await accounts.create(project.id, name="x", create_service_account_only=True, expires_in_seconds=5)
    key = await accounts.api_keys.create(bare.id, project_id=project.id, name="k", expires_in_seconds=60)
    assert key.expires_at is not None
    await gateway.refresh()
    models = gateway.client(key.value).models
    assert [model.id async for model in models.list()] == []
    changed = await accounts.update(bare.id, project_id=project.id, name="robot", role="owner")
    assert (changed.name, changed.role) == ("robot", "owner")
    assert (await accounts.delete(bare.id, project_id=project.id)).deleted
    await gateway.refresh()
    with pytest.raises(openai.AuthenticationError):
        _ = [model async for model in models.list()]
    keys = projects.api_keys
    assert [found.id async for found in keys.list(project.id)] == []
    [lost] = [found async for found in keys.list(project.id, owner_project_access="inactive")]
    assert (lost.id, lost.owner_project_access) == (key.id, "inactive")
    assert [found.id async for found in keys.list(project.id, owner_project_access="any")] == [key.id]
    with pytest.raises(openai.NotFoundError):
        await accounts.retrieve(bare.id, project_id=project.id)


async def test_pages(gateway: Gateway) -> None:
    projects = admin_client(gateway).admin.organization.projects
    project = await projects.create(name="p")
    made = [(await projects.service_accounts.create(project.id, name=f"a{number}")).id for number in range(5)]
    assert [one.id async for one in projects.service_accounts.list(project.id, limit=2)] == made[::-1]
