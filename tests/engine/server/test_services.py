"""The state of life as the gateway sees it, waiting for the last request, and work that is not done in the loop."""

from __future__ import annotations

import asyncio
import io
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import orjson
import pytest

from engine.server.control import CoreDown
from engine.server.services import InFlight, Phase
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.fakes.core import ready


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


class HeldThreads(ThreadPoolExecutor):
    """Its work begins, and waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(1)
        self.begun, self.may_go_on = 0, threading.Semaphore(0)

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def held() -> Any:
            self.begun += 1
            assert self.may_go_on.acquire(timeout=120), "nobody looked"
            return work(*args, **kwargs)

        return super().submit(held)


TEXT = "The lamps at dusk. " * 20_000


@pytest.mark.parametrize(
    ("path", "body", "steps"),
    [
        ("/tokenize", {"prompt": TEXT, "return_token_strs": True}, "parse, encode, spell"),
        ("/tokenize", {"messages": [{"role": "user", "content": TEXT}]}, "parse, render, encode"),
        ("/detokenize", {"tokens": [300] * 100_000}, "parse, join"),
        ("/v1/completions", {"model": MODEL, "prompt": [TEXT] * 2, "max_tokens": 1}, "parse, encode"),
        (
            "/v1/chat/completions",
            {"model": MODEL, "messages": [{"role": "user", "content": TEXT}], "max_tokens": 1},
            "parse, render, encode",
        ),
        ("/v1/embeddings", {"model": MODEL, "input": [TEXT] * 2}, "parse, encode"),
    ],
)
async def test_long_work_leaves_the_loop_free(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], steps: str
) -> None:
    """Others are answered while a large body is parsed, rendered and tokenised, however long that takes."""
    server.tell(CoreDown("for one with a longer context"))
    await server.until(lambda: server.services.bridge.ready is None)
    await server.new_core(ready("epoch-2", max_model_len=1 << 20))
    with HeldThreads() as threads:
        monkeypatch.setattr(server.services, "text_threads", threads)
        async with server.session(API_KEY) as session:
            asking = asyncio.ensure_future(session.post(path, data=io.BytesIO(orjson.dumps(body))))
            for number, step in enumerate(steps.split(", "), 1):
                await server.until(lambda number=number: threads.begun == number or asking.done())
                assert threads.begun == number, f"the loop itself had to {step}"
                async with session.get("/version") as other:
                    assert other.status == 200
                threads.may_go_on.release()
            async with await asking as answer:
                assert answer.status == 200, await answer.text()
        assert threads.begun == number
