"""Budgets of keys."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway

SPEC = {"model": "/models/m.gguf", "served_names": ["m"]}


async def test_a_keys_budget_outlives_its_rotation(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    path = f"/projects/{tenant.id}/api_keys/{tenant.key_id}/rotate"
    rotated = await gateway.admin("POST", path, {"grace_s": 0, "idempotency_key": "x"})
    budget = {"project_id": tenant.id, "key_id": rotated["id"], "period": "daily", "limit_nanousd": 10}
    await gateway.admin("POST", "/budgets", budget)
    await gateway.refresh()
    body = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    answer = await gateway.request("POST", "/v1/chat/completions", body, rotated["value"])
    assert answer.status == 429
    unknown = budget | {"key_id": "key_none"}
    await gateway.admin("POST", "/budgets", unknown, 404)
