"""The request path as a whole: nobody to ask, and what it is made of.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import json

from tests.fakes.engine import FakeEngine
from tests.gateway.asking import BODY, STREAM, ask
from tests.harness import Gateway


async def test_no_replica_at_all(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("UPDATE replica SET state = 'stopped'")
    await gateway.refresh()
    status, raw = await ask(gateway, tenant, BODY)
    error = json.loads(raw)["error"]
    assert (status, error["code"]) == (503, "server_is_overloaded")
    assert error["message"].startswith("No replica of this model is ready.")
    assert engine.requests == []


async def test_connections_to_the_engine_are_reused(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for _ in range(5):
        await ask(gateway, tenant, STREAM)
    assert engine.connections_made == 1


def test_the_path_is_one_short_file() -> None:
    from gateway import pipeline

    assert pipeline.__file__ is not None
    with open(pipeline.__file__, encoding="utf-8") as source:
        assert sum(1 for _ in source) <= 300
