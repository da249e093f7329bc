"""Invites with the stock client, and how one is accepted."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.harness import Gateway


async def test_invites(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    tenant, invites = await gateway.tenant(), organization.invites
    made = [
        await invites.create(
            email=f"u{number}@example.com", role="reader", projects=[{"id": tenant.id, "role": "owner"}]
        )
        for number in range(5)
    ]
    assert [found.id async for found in invites.list(limit=2)] == [one.id for one in reversed(made)]
    first = made[0]
    assert (first.status, first.accepted_at) == ("pending", None)
    assert [(project.id, project.role) for project in first.projects] == [(tenant.id, "owner")]
    user = await gateway.admin("POST", f"/invites/{first.id}/accept", {"name": "Anna"})
    assert (user["email"], user["role"]) == ("u0@example.com", "viewer")
    assert [project["role"] for project in user["projects"]["data"]] == ["owner"]
    accepted = await invites.retrieve(first.id)
    assert accepted.status == "accepted"
    assert accepted.accepted_at is not None
    with pytest.raises(openai.ConflictError):
        await invites.delete(first.id)
    assert (await invites.delete(made[1].id)).deleted
    with pytest.raises(openai.NotFoundError):
        await invites.retrieve(made[1].id)
    await gateway.sql("UPDATE invite SET expires_at = now() WHERE id = $1", made[2].id)
    assert (await invites.retrieve(made[2].id)).status == "expired"
