"""What engines are told of the objectives, and what they say of their line in return."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}


async def told(gateway: Gateway, engine: FakeEngine, tenant: Tenant) -> tuple[str | None, str | None]:
    assert (await gateway.request("POST", CHAT, ASK, tenant.key)).status == 200
    headers = engine.requests[-1].headers
    return headers.get("x-slo-ttft-ms"), headers.get("x-slo-tpot-ms")


async def objective(gateway: Gateway, tenant: Tenant, **fields: Any) -> str:
    body = {"project_id": tenant.id, "model": SERVED, "target": 0.95, **fields}
    made = await gateway.admin("POST", "/objectives", body)
    await gateway.refresh()
    return str(made["id"])


async def test_the_objective_that_holds_is_told(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    other = await gateway.tenant("other")
    await gateway.refresh()
    assert await told(gateway, engine, tenant) == ("800", "40")
    own = await objective(gateway, tenant, sli="ttft", threshold_ms=250)
    assert await told(gateway, engine, tenant) == ("250", "40")
    assert await told(gateway, engine, other) == ("800", "40")
    await gateway.admin("DELETE", f"/objectives/{own}")
    await gateway.admin("DELETE", "/objectives/objective_interactive_tpot")
    await gateway.refresh()
    assert await told(gateway, engine, tenant) == ("800", None)


async def test_the_wait_in_the_engines_line_is_kept(gateway: Gateway, engine: FakeEngine) -> None:
    """As the engine's reply says it, whole and streamed; the request list shows it."""
    tenant = await gateway.serve(engine)
    for more in ({}, {"stream": True}):
        answer = await gateway.request("POST", CHAT, ASK | more, tenant.key)
        assert answer.status == 200
        await answer.read()
        assert "x-engine-queue-ms" not in answer.headers
    events = await gateway.events(2)
    assert [event["queue_ms"] for event in events] == [7, 7]
    shown = (await gateway.admin("GET", "/requests"))["data"]
    assert [row["queue_ms"] for row in shown] == [7, 7]
