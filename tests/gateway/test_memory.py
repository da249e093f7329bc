"""What a gateway keeps of the requests that it has served: nothing, however they ended.

`python -m tests.bench.hot_path --soak 100000` measures the process; here it is the objects that are counted.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from gateway.exchange.state import Attempt, Exchange
from gateway.http.call import Call
from gateway.limits import Ticket
from gateway.upstream import UpstreamReply
from gateway.wire import StreamScanner
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import BODY, STREAM
from tests.harness import Gateway, Tenant

OF_A_REQUEST = {Attempt, Call, Exchange, StreamScanner, Ticket, UpstreamReply}
ENDS: tuple[tuple[str, dict[str, Any], Script], ...] = (
    ("complete", BODY, Script()),
    ("streamed", STREAM, Script()),
    ("failed", BODY, Script(fail_after=1)),
    ("broken", STREAM, Script(die_after=1)),
    ("abandoned", STREAM, Script(hang_after=1)),
    ("unknown", {**BODY, "model": "nothing"}, Script()),
    ("refused", {**BODY, "max_tokens": -1}, Script()),
)
EACH = 12
"""Far more than what a gateway at rest makes between two looks: timers, a place in a cache."""


async def _serve(gateway: Gateway, engine: FakeEngine, tenant: Tenant) -> None:
    for end, body, script in ENDS:
        engine.default = script
        for _ in range(EACH):
            answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
            if end == "abandoned":
                await answer.content.readuntil(b"\n\n")
                answer.close()
            else:
                await answer.read()
    engine.requests.clear()


def _left() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in OF_A_REQUEST)


async def _nothing_left(gateway: Gateway, tenant: Tenant) -> None:
    """Once what follows a request has been done. Of the ledger's last batch something stays until the next one comes:
    so that it is of one request."""
    await gateway.events()
    await (await gateway.request("POST", "/v1/chat/completions", BODY, tenant.key)).read()
    await gateway.events()
    async with asyncio.timeout(120):
        while left := _left():
            print(left)
            await asyncio.sleep(0.2)


async def test_nothing_of_a_request_is_kept(
    gateway: Gateway, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty I43: after requests of every end not one object of theirs is left, and as many of others as before."""
    monkeypatch.setattr("gateway.upstream.connection.RUN_OUT_S", 0.05)
    monkeypatch.setattr("gateway.exchange.closer.FINAL_FIGURE_S", 0.5)
    tenant = await gateway.serve(engine)
    limits = {"requests_per_min": 100_000, "tokens_per_min": 10**9, "concurrent_requests": 100}
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", limits)
    await gateway.refresh()
    counts = []
    for _ in range(4):  # in the first ones, caches and connections are made
        await _serve(gateway, engine, tenant)
        engine.default = Script()
        await _nothing_left(gateway, tenant)
        counts.append(len(gc.get_objects()))
    print(counts)
    grown = [later - earlier for earlier, later in pairwise(counts)]
    assert min(grown) < EACH * len(ENDS), "what keeps one object a request does so in every round"
