"""The life of the process: what is under way at SIGTERM is settled."""

from __future__ import annotations

import asyncio

from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import STREAM, ask
from tests.harness import Gateway


async def test_sigterm_settles_what_is_under_way(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(token_delay_s=0.02)
    running = [asyncio.create_task(ask(gateway, tenant, STREAM)) for _ in range(10)]
    await engine.wait_for(lambda: engine.running == 10, within_s=10)
    await gateway.stop()
    answers = await asyncio.gather(*running)
    assert [status for status, _ in answers] == [200] * 10
    assert all(raw.endswith(b"[DONE]\n\n") for _, raw in answers)
    assert len(await gateway.events(10)) == 10
