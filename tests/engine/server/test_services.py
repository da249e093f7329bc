"""The state of life as the gateway sees it, and waiting for the last request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from engine.server.services import InFlight, Phase
from tests.engine.server.conftest import Server


async def test_states(server: Server) -> None:
    assert server.services.state == "ready"
    for phase in (Phase.GRACE, Phase.CLOSED):
        server.services.phase = phase
        assert server.services.state == "draining"


async def test_load_headers(server: Server) -> None:
    await server.until(lambda: server.services.bridge.load.num_waiting == 2)
    assert server.services.load_headers() == {
        "x-engine-epoch": "epoch-1",
        "x-engine-running": "0",
        "x-engine-waiting": "2",
        "x-engine-kv-usage": "0.2500",
        "x-engine-predicted-delay-ms": "1500",
        "x-engine-predicted-ttft-ms": "1750",
    }


async def test_waiting_until_nothing_is_in_flight() -> None:
    flights = InFlight()
    await flights.wait_empty()
    one, two = cast(Any, object()), cast(Any, object())
    flights.add(one)
    flights.add(two)
    waiting = asyncio.create_task(flights.wait_empty())
    flights.remove(one)
    await asyncio.sleep(0)
    assert (waiting.done(), len(flights)) == (False, 1)
    flights.remove(two)
    await asyncio.wait_for(waiting, 60)
