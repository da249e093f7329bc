"""Health is the loop's heartbeat, ready is the wish for traffic."""

from __future__ import annotations

from engine import __version__
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
    assert (await get(server, "/ready"))[0] == 503
    await server.new_core(ready("epoch-2"))
    assert (await get(server, "/ready"))[0] == 200


async def test_draining_is_not_ready(server: Server) -> None:
    server.services.phase = Phase.GRACE
    status, document = await get(server, "/ready")
    assert (status, document["error"]["code"]) == (503, "draining")  # type: ignore[index]  # the error document
    assert (await get(server, "/health"))[0] == 200
