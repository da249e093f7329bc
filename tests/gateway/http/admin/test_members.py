"""A project's users with the stock client."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.gateway.http.admin.people import user
from tests.harness import Gateway


async def test_members(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    tenant, members = await gateway.tenant("mine"), organization.projects.users
    made = [await user(gateway, "member", f"u{number}") for number in range(5)]
    for user_id in made:
        await members.create(tenant.id, role="member", user_id=user_id)
    assert [found.id async for found in members.list(tenant.id, limit=2)] == list(reversed(made))
    assert (await members.update(made[0], project_id=tenant.id, role="owner")).role == "owner"
    assert (await members.retrieve(made[0], project_id=tenant.id)).email == "u0@example.com"
    shown = await organization.users.retrieve(made[0])
    assert shown.projects is not None
    assert [(one.id, one.name, one.role) for one in shown.projects.data] == [(tenant.id, "mine", "owner")]
    with pytest.raises(openai.ConflictError):
        await members.create(tenant.id, role="member", email="U0@example.com")
    assert (await members.delete(made[0], project_id=tenant.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await members.retrieve(made[0], project_id=tenant.id)
    with pytest.raises(openai.NotFoundError):
        await members.create(tenant.id, role="member", email="nobody@example.com")
    with pytest.raises(openai.BadRequestError):
        await members.create(tenant.id, role="member")
