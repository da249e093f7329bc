"""API keys: shown once, their project's own, rotated."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.test_projects import admin
from tests.harness import Gateway


async def test_keys_are_their_projects(gateway: Gateway) -> None:
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    api_keys = admin(gateway).admin.organization.projects.api_keys
    for call in (api_keys.retrieve, api_keys.delete):
        with pytest.raises(openai.NotFoundError):
            await call(mine.key_id, project_id=other.id)
    assert (await api_keys.retrieve(mine.key_id, project_id=mine.id)).id == mine.key_id


async def test_rotation_shows_the_value_once(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    path = f"/projects/{tenant.id}/api_keys/{tenant.key_id}/rotate"
    body = {"grace_s": 60, "idempotency_key": "once"}
    first = await gateway.admin("POST", path, body)
    again = await gateway.admin("POST", path, body)
    assert first["id"] == again["id"] != tenant.key_id
    assert first["value"].startswith("tw-")
    assert again["value"] is None
    await gateway.refresh()
    for key in (tenant.key, first["value"]):
        assert (await gateway.request("GET", "/v1/models", key=key)).status == 200
