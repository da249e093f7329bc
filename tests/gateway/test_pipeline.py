"""The request path as a whole: nobody to ask, and what it is made of.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.asking import BODY, STREAM, ask
from tests.harness import SERVED, Gateway


async def test_no_replica_at_all(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("UPDATE replica SET state = 'stopped'")
    await gateway.refresh()
    status, raw = await ask(gateway, tenant, BODY)
    error = json.loads(raw)["error"]
    assert (status, error["code"]) == (503, "server_is_overloaded")
    assert error["message"].startswith("No replica of this model is ready.")
    assert engine.requests == []
    await gateway.app.notebook.flush()
    rows = await gateway.sql("SELECT tenant_id, served_model, reason, requests FROM refusal_minute")
    refused = (tenant.id, SERVED, "server_is_overloaded", 1)
    assert [tuple(row.values()) for row in rows] == [refused], (
        "it was admitted, but it has no event to count by"
    )


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize("is_met", [False, True], ids=["at once", "after an answer"])
async def test_the_only_replica_died(
    gateway: Gateway, engine: FakeEngine, body: dict[str, Any], is_met: bool
) -> None:
    """Before anybody has noticed: the next request finds nobody at the address, and holds nothing afterwards."""
    tenant = await gateway.serve(engine)
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 1 << 40}
    await gateway.admin("POST", "/budgets", budget)
    if is_met:
        assert (await ask(gateway, tenant, body))[0] == 200
    await engine.stop()
    for _ in range(3):
        answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (503, "server_is_overloaded")
        assert error["message"].startswith("No replica of this model is ready.")
        assert int(answer.headers["retry-after"]) >= 1
    events = await gateway.events(within_s=60)
    assert [event["amount_nanousd"] > 0 for event in events] == [True] * is_met + [False] * (
        len(events) - is_met
    )
    assert await gateway.sql("SELECT 1 FROM budget_period WHERE held_nanousd <> 0") == []


async def test_connections_to_the_engine_are_reused(gateway: Gateway, engine: FakeEngine) -> None:
    """A request that comes before the end of the last answer was read may open another connection."""
    tenant = await gateway.serve(engine)
    for _ in range(20):
        await ask(gateway, tenant, STREAM)
    assert engine.connections_made <= 5


def test_the_path_is_one_short_file() -> None:
    from gateway import pipeline

    assert pipeline.__file__ is not None
    with open(pipeline.__file__, encoding="utf-8") as source:
        assert sum(1 for _ in source) <= 300
