"""The organisation's users with the stock client."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.gateway.http.admin.people import user
from tests.harness import Gateway


async def test_users(gateway: Gateway) -> None:
    users = admin_client(gateway).admin.organization.users
    [owner] = [found async for found in users.list()]
    made = [await user(gateway, "viewer", f"u{number}") for number in range(5)]
    assert [found.id async for found in users.list(limit=2)] == [*reversed(made), owner.id]
    assert [found.id async for found in users.list(emails=["U3@example.com", "none@example.com"])] == [
        made[3]
    ]
    changed = await users.update(made[0], role="reader")
    assert changed.role == "viewer", "OpenAI's name for it is taken, ours is shown"
    assert (await users.update(made[0], role="billing")).role == "billing"
    with pytest.raises(openai.BadRequestError):
        await users.update(made[0], role="emperor")
    assert (await users.delete(made[0])).deleted
    with pytest.raises(openai.NotFoundError):
        await users.retrieve(made[0])
    with pytest.raises(openai.ConflictError):
        await users.delete(owner.id)
    same = {"email": "u1@EXAMPLE.com", "name": "again", "role": "viewer"}
    await gateway.admin("POST", "/users", same, 409)
    assert await user(gateway, "viewer", "u0") not in made, "an address is free again with its user gone"
