"""Health is the loop's heartbeat, ready is the wish for traffic."""

from __future__ import annotations

from typing import Any

import orjson

from engine import __version__
from engine.messages import LoadStats
from engine.server.caller import Caller
from engine.server.exchange import Exchange
from engine.server.ops_routes import load
from engine.server.services import HEARTBEAT_LIMIT_S, Phase
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import ready


async def get(server: Server, path: str) -> tuple[int, dict[str, object]]:
    async with server.session() as session, session.get(path) as answer:
        return answer.status, await answer.json()


async def test_healthy_and_ready(server: Server) -> None:
    assert (await get(server, "/health"))[0] == 200
    assert (await get(server, "/ready"))[0] == 200
    assert await get(server, "/version") == (200, {"version": __version__})


async def test_load(server: Server) -> None:
    await server.until(lambda: server.services.bridge.load.num_waiting == 2)
    status, load = await get(server, "/load")
    assert (status, load["waiting"], load["server_load"], load["kv_usage"]) == (200, 2, 2, 0.25)
    assert (load["predicted_queue_delay_s"], load["predicted_ttft_s"]) == (1.5, 1.75)
    assert load["batch"] == {"rows": 0, "tokens": 0, "prompt_tokens": 0}


async def test_every_figure_of_the_load_is_its_own(server: Server) -> None:
    """Asked without the wire, so that no news of the core comes between."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"method": "GET", "path": "/load", "query_string": b"", "headers": []}
    exchange = Exchange(scope, None, send)  # type: ignore[arg-type]  # nothing is received
    server.services.bridge.load = LoadStats(
        num_running=1,
        num_waiting=2,
        num_waiting_tokens=4,
        kv_usage=0.5,
        predicted_queue_delay_s=6.5,
        predicted_ttft_s=7.5,
        sustainable_rps=8.5,
        step_ms=9500,
        batch_rows=10,
        batch_tokens=11,
        batch_prompt_tokens=12,
        num_refused=13,
    )
    await load(server.services, exchange, Caller(request_id="r"))
    assert orjson.loads(sent[1]["body"]) == {
        "server_load": 3,
        "running": 1,
        "waiting": 2,
        "waiting_tokens": 4,
        "kv_usage": 0.5,
        "predicted_queue_delay_s": 6.5,
        "predicted_ttft_s": 7.5,
        "sustainable_rps": 8.5,
        "step_s": 9.5,
        "batch": {"rows": 10, "tokens": 11, "prompt_tokens": 12},
        "refused": 13,
    }


async def test_probes_need_no_key_and_what_tells_something_does(server: Server) -> None:
    async with server.session(None) as session:
        for path, status in (("/health", 200), ("/ready", 200), ("/version", 401), ("/load", 401)):
            async with session.get(path) as answer:
                assert answer.status == status, path
            async with session.head(path) as answer:
                assert (answer.status, await answer.read()) == (status, b""), path


async def test_a_silent_core_is_unhealthy(server: Server) -> None:
    assert HEARTBEAT_LIMIT_S >= 60
    server.services.clock = lambda: server.services.bridge.last_step_at + HEARTBEAT_LIMIT_S + 1
    status, document = await get(server, "/health")
    assert (status, document["error"]["code"]) == (503, "engine_hung")  # type: ignore[index]  # the error document
    assert (await get(server, "/ready"))[0] == 503
    body = {"model": MODEL, "prompt": "x"}
    async with server.session() as session, session.post("/v1/completions", json=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (503, "engine_unavailable")
    assert server.core.seen == []


async def test_without_a_core_healthy_but_not_ready(server: Server) -> None:
    await server.kill_core()
    await server.until(lambda: server.services.bridge.ready is None)
    assert (await get(server, "/health"))[0] == 200
    long_ago = server.services.bridge.last_step_at + HEARTBEAT_LIMIT_S + 1
    server.services.clock = lambda: long_ago
    assert (await get(server, "/health"))[0] == 200, (
        "loading takes as long as it takes, and no restart would help"
    )
    asked = ("/ready", "/v1/models", f"/v1/models/{MODEL}")
    assert [(await get(server, path))[0] for path in asked] == [503] * 3
    await server.new_core(ready("epoch-2"))
    server.services.clock = lambda: server.services.bridge.last_step_at
    assert [(await get(server, path))[0] for path in asked] == [200] * 3


async def test_draining_is_not_ready(server: Server) -> None:
    server.services.phase = Phase.GRACE
    status, document = await get(server, "/ready")
    assert (status, document["error"]["code"]) == (503, "draining")  # type: ignore[index]  # the error document
    assert (await get(server, "/health"))[0] == 200
