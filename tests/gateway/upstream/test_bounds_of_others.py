"""Servers that take no bound from us but the body's: what a tenant asks of them is bounded, held for and kept apart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused
from tests.harness import PRICES, Gateway, Tenant

OTHERS = ("external", "vllm", "sglang")
LONG = {**BODY, "messages": [{"role": "user", "content": "x" * 4000}], "max_tokens": 1}


async def _ask(gateway: Gateway, tenant: Tenant, **fields: Any) -> None:
    answer = await gateway.request("POST", CHAT, BODY | fields, tenant.key)
    assert answer.status == 200, await answer.text()


async def _cap(gateway: Gateway, tenant: Tenant, tokens: int) -> None:
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"max_prompt_tokens": tokens})
    await gateway.refresh()


@pytest.mark.parametrize("kind", OTHERS)
async def test_one_output_bound_and_text_only(gateway: Gateway, engine: FakeEngine, kind: str) -> None:
    engine.api_key = None  # an external one is never shown ours
    tenant = await gateway.serve(engine, kind=kind)
    image = [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/"}}]
    error = await refused(
        gateway, "POST", CHAT, BODY | {"messages": [{"role": "user", "content": image}]}, key=tenant.key
    )
    assert (error["status"], error["code"]) == (400, "unsupported_parameter")
    assert error["param"] == "messages[0].content[0].type"
    await _ask(gateway, tenant, max_completion_tokens=1, max_tokens=9000, n_predict=5000, min_tokens=7)
    [seen] = engine.requests
    assert (seen.body["max_completion_tokens"], seen.body["min_tokens"]) == (1, 1)
    assert not {"max_tokens", "n_predict"} & set(seen.body)


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_cap_of_the_prompt_makes_no_hold_smaller(
    gateway: Gateway, engine: FakeEngine, kind: str
) -> None:
    """A budget for 3,000 tokens of prompt, a cap of 2,000, and a prompt of 4,000 bytes."""
    engine.api_key = None  # an external one is never shown ours
    tenant = await gateway.serve(engine, kind=kind)
    await _cap(gateway, tenant, 2000)
    await gateway.sql(
        "INSERT INTO budget (id, scope, tenant_id, period, limit_nanousd) VALUES ('b', 'tenant', $1, 'daily', $2)",
        tenant.id,
        3000 * int(PRICES["input_nanousd_per_token"]),
    )
    error = await refused(gateway, "POST", CHAT, LONG, key=tenant.key)
    assert (error["status"], error["code"]) == (429, "project_spend_limit_exceeded")
    assert engine.requests == []


@pytest.mark.parametrize("kind", OTHERS)
async def test_the_gateway_applies_the_cap_itself(gateway: Gateway, engine: FakeEngine, kind: str) -> None:
    engine.api_key = None  # an external one is never shown ours
    tenant = await gateway.serve(engine, kind=kind)
    await _cap(gateway, tenant, 500)
    error = await refused(gateway, "POST", CHAT, LONG, key=tenant.key)
    assert (error["status"], error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert engine.requests == []


async def test_two_tenants_of_a_vllm_pool_share_no_prefix(gateway: Gateway, engine: FakeEngine) -> None:
    first = await gateway.serve(engine, kind="vllm")
    second = await gateway.tenant("second")
    await gateway.refresh()
    for tenant in (first, second, first):
        await _ask(gateway, tenant, cache_salt="chosen")
    salts = [seen.body["cache_salt"] for seen in engine.requests]
    assert salts[0] == salts[2] != salts[1]
    assert "chosen" not in salts
