"""Admin keys: shown once, their creator's unless said otherwise, gone when deleted."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.gateway.http.admin.people import admin_key, user
from tests.harness import Gateway


async def test_a_key_lives_until_it_is_deleted(gateway: Gateway) -> None:
    keys = admin_client(gateway).admin.organization.admin_api_keys
    made = await keys.create(name="second", expires_in_seconds=3600)
    assert made.expires_at is not None
    assert abs(made.expires_at - made.created_at - 3600) <= 2
    assert made.value not in (await keys.retrieve(made.id)).to_json()
    await gateway.refresh()
    second = admin_client(gateway, made.value).admin.organization
    assert [project.id async for project in second.projects.list()] == []
    assert (await second.admin_api_keys.delete(made.id)).deleted
    await gateway.refresh()
    with pytest.raises(openai.AuthenticationError):
        await second.projects.list()
    with pytest.raises(openai.NotFoundError):
        await keys.delete(made.id)


async def test_lists_go_both_ways(gateway: Gateway) -> None:
    keys = admin_client(gateway).admin.organization.admin_api_keys
    made = [(await keys.create(name=f"k{number}")).id for number in range(5)]
    newest = [key.id async for key in keys.list(limit=2)]
    oldest = [key.id async for key in keys.list(limit=2, order="asc")]
    assert newest[:5] == list(reversed(made))
    assert oldest == list(reversed(newest))


async def test_the_last_owners_key_cannot_be_deleted(gateway: Gateway) -> None:
    keys = admin_client(gateway).admin.organization.admin_api_keys
    [only] = [key async for key in keys.list()]
    await admin_key(gateway, "admin")
    with pytest.raises(openai.ConflictError, match="last"):
        await keys.delete(only.id)


async def test_only_an_owner_makes_keys_and_users(gateway: Gateway) -> None:
    key = await admin_key(gateway, "admin")
    await gateway.refresh()
    organization = admin_client(gateway, key).admin.organization
    for call in (
        organization.admin_api_keys.create(name="x"),
        organization.invites.create(email="a@example.com", role="owner"),
        organization.users.delete(await user(gateway, "viewer")),
    ):
        with pytest.raises(openai.PermissionDeniedError, match="role: owner"):
            await call
