"""Limits as they are, and OpenAI's view of them."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from gateway.http.admin.limits import UNLIMITED
from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.clients import admin_client
from tests.harness import SERVED, Gateway

ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}


async def test_rate_limits_are_a_view(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    rates = admin_client(gateway).admin.organization.projects.rate_limits
    [rate] = [found async for found in rates.list_rate_limits(tenant.id)]
    assert (rate.model, rate.max_requests_per_1_minute) == (SERVED, UNLIMITED)
    path = f"/projects/{tenant.id}/limits"
    await gateway.admin("POST", path, {"requests_per_min": 50, "requests_per_day": 500})
    own = {"served_model": SERVED, "requests_burst": 1, "concurrent_requests": 9}
    await gateway.admin("POST", path, own)
    changed = await rates.update_rate_limit(rate.id, project_id=tenant.id, max_requests_per_1_minute=1)
    assert (changed.max_requests_per_1_minute, changed.max_tokens_per_1_minute) == (1, UNLIMITED)
    assert changed.max_requests_per_1_day == 500, "the project's, where the model has none"
    [kept] = [row for row in (await gateway.admin("GET", path))["data"] if row["served_model"]]
    assert kept | own | {"requests_per_min": 1} == kept, "what the view does not show stays"
    await gateway.refresh()
    url = "/v1/chat/completions"
    assert (await gateway.request("POST", url, ASK, tenant.key)).status == 200
    refused = await gateway.request("POST", url, ASK, tenant.key)
    assert refused.status == 429
    await gateway.admin("DELETE", f"{path}/{kept['id']}")
    await gateway.refresh()
    assert (await gateway.request("POST", url, ASK, tenant.key)).status == 200
    await gateway.admin("DELETE", f"{path}/{kept['id']}", status=404)


async def test_rate_limits_have_pages_both_ways(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id, names = await gateway.pool(engine), [f"m{number}/x" for number in range(7)]
    for name in names:
        await gateway.route(pool_id, name)
    tenant = await gateway.tenant()
    rates = admin_client(gateway).admin.organization.projects.rate_limits
    found = [rate async for rate in rates.list_rate_limits(tenant.id, limit=3)]
    assert [rate.model for rate in found] == names
    before = await rates.list_rate_limits(tenant.id, limit=2, before=found[4].id)
    assert ([rate.model for rate in before.data], before.has_more) == (names[2:4], True)
    await gateway.admin(
        "POST", f"/projects/{tenant.id}/model_permissions", {"mode": "deny_list", "model_ids": names[1:]}
    )
    assert [rate.model async for rate in rates.list_rate_limits(tenant.id)] == names[:1]
    with pytest.raises(openai.NotFoundError):
        await rates.update_rate_limit(found[1].id, project_id=tenant.id, max_requests_per_1_minute=1)
    for nonsense in ("rl-\u00e9", "none", "rl-_"):
        with pytest.raises(openai.NotFoundError):
            await rates.update_rate_limit(nonsense, project_id=tenant.id)
    with pytest.raises(openai.BadRequestError) as refused:
        await rates.update_rate_limit(found[0].id, project_id=tenant.id, max_images_per_1_minute=1)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "max_images_per_1_minute")


async def test_limits_of_a_key_are_its_whole_chains(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    path = f"/projects/{tenant.id}"
    body = {"grace_s": 60, "idempotency_key": "once"}
    rotated = await gateway.admin("POST", f"{path}/api_keys/{tenant.key_id}/rotate", body)
    made = await gateway.admin("POST", f"{path}/limits", {"key_id": rotated["id"], "requests_per_min": 5})
    again = await gateway.admin("POST", f"{path}/limits", {"key_id": tenant.key_id, "requests_per_min": 6})
    assert made["id"] == again["id"]
    assert (made["key_id"], again["key_id"]) == (tenant.key_id, tenant.key_id)
    rows = await gateway.admin("GET", f"{path}/limits?limit=1")
    assert rows["data"] == [again], "what a later reading says: the key that the chain began with"
    assert [(row["key_id"], row["requests_per_min"]) for row in rows["data"]] == [(tenant.key_id, 6)]
