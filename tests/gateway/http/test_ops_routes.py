"""Alive, ready, metrics."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway


async def test_health_and_metrics(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    assert (await gateway.request("GET", "/healthz")).status == 200
    assert (await gateway.request("GET", "/readyz")).status == 200
    await gateway.client(tenant).chat.completions.create(
        model=SERVED, messages=[{"role": "user", "content": "hi"}]
    )
    assert (await gateway.request("GET", "/metrics")).status == 401
    assert (await gateway.request("GET", "/metrics", key=tenant.key)).status == 401
    answer = await gateway.request("GET", "/metrics", key=gateway.admin_key)
    text = await answer.text()
    line = f'tollway_requests_total{{code="200",endpoint="chat.completions",model="{SERVED}",tenant="{tenant.id}"}} 1.0'
    assert line in text
    assert 'tollway_upstream_attempts_total{outcome="answered"' in text


async def test_not_ready_without_its_database(cache_url: str, tmp_path: Path) -> None:
    """Duty C21: liveness depends on neither database nor cache; without either it starts, answers
    503 and never 401, and is alive all the time."""
    nowhere = "postgresql://nobody@127.0.0.1:9/none"
    gateway = Gateway(nowhere, cache_url, tmp_path)
    gateway.admin_key = "none"
    async with gateway.without_database():
        assert (await gateway.request("GET", "/healthz")).status == 200
        ready = await gateway.request("GET", "/readyz")
        assert ready.status == 503
        key = "tw-abcdefgh-" + "A" * 43
        answer = await gateway.request(
            "POST", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user"}]}, key
        )
        assert answer.status == 503
        assert (await answer.json())["error"]["code"] == "server_is_overloaded"
