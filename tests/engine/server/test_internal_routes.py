"""What the gateway and the pool ask: status, usage, abort, drain."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from engine.server.control import DrainWanted
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import Script

CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


async def test_status(server: Server) -> None:
    server.core.script(Script(silent=True))
    async with server.session() as session:
        headers = {"x-gateway-request-id": "gw-7"}
        waiting = asyncio.create_task(session.post("/v1/chat/completions", json=CHAT, headers=headers))
        await server.until(lambda: server.services.bridge.load.num_running == 1)
        async with session.get("/internal/status") as answer:
            status = await answer.json()
        assert status == {
            "epoch": "epoch-1",
            "state": "ready",
            "model": server.services.model_path,
            "served_model_names": [MODEL, "alias"],
            "max_model_len": 1024,
            "pid": os.getpid(),
            "core_pid": 4711,
            "running": 1,
            "waiting": 2,
            "kv_usage": 0.25,
            "request_ids": ["gw-7"],
        }
        async with session.post("/internal/abort", json={"request_id": "gw-7"}) as answer:
            assert await answer.json() == {"aborted": True}
        document = await (await waiting).json()
        assert document["choices"][0]["finish_reason"] == "abort"
        assert document["usage"]["completion_tokens"] == 0


async def test_status_without_a_core(server: Server) -> None:
    await server.kill_core()
    await server.until(lambda: server.services.bridge.ready is None)
    async with server.session() as session, session.get("/internal/status") as answer:
        status = await answer.json()
    assert (status["state"], status["epoch"], status["core_pid"]) == ("starting", None, None)


async def test_usage_pages(server: Server) -> None:
    async with server.session() as session:
        for number in range(3):
            headers = {"x-gateway-request-id": f"gw-{number}"}
            async with session.post("/v1/chat/completions", json=CHAT, headers=headers) as answer:
                assert answer.status == 200
        cursor, kinds = "", []
        complete = False
        while not complete:
            async with session.get("/internal/usage", params={"after": cursor, "limit": "2"}) as answer:
                page = await answer.json()
            kinds += [(record["request_id"], record["kind"]) for record in page["records"]]
            cursor, complete = page["cursor"], page["complete"]
        assert len(kinds) == len(set(kinds))
        assert {kind for kind in kinds if kind[1] == "end"} == {(f"gw-{n}", "end") for n in range(3)}
        async with session.get("/internal/usage", params={"request_id": "gw-1"}) as answer:
            assert {r["request_id"] for r in (await answer.json())["records"]} == {"gw-1"}


async def test_usage_parameters(server: Server) -> None:
    async with server.session() as session:
        for query, param in (
            ({"limit": "0"}, "limit"),
            ({"limit": ""}, "limit"),
            ({"limit": " "}, "limit"),
            ({"request_id": ""}, "request_id"),
            ({"": ""}, ""),
            ({"limit": "x"}, "limit"),
            ({"limit": "99999"}, "limit"),
            ({"limit": "000000123456789"}, "limit"),
            ({"after": "nonsense"}, "after"),
            ({"afer": "nonsense"}, "afer"),
        ):
            async with session.get("/internal/usage", params=query) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, error["param"]) == (400, param)
                assert param in error["message"]


async def test_an_empty_cursor_is_the_beginning(server: Server) -> None:
    async with server.session() as session:
        async with session.post("/v1/chat/completions", json=CHAT) as answer:
            assert answer.status == 200
        pages = []
        for query in ({}, {"after": ""}):
            async with session.get("/internal/usage", params=query) as answer:
                pages.append((await answer.json())["records"])
    assert pages[0] == pages[1] != []


async def test_abort_of_the_unknown(server: Server) -> None:
    async with server.session() as session:
        async with session.post("/internal/abort", json={"request_id": "nobody"}) as answer:
            assert (answer.status, await answer.json()) == (200, {"aborted": False})
        async with session.post("/internal/abort", json={}) as answer:
            assert answer.status == 400


async def test_a_drain_begins_here_and_is_asked_of_the_supervisor(server: Server) -> None:
    async with server.session() as session, session.post("/internal/drain") as answer:
        assert answer.status == 202
    await server.until(lambda: DrainWanted() in server.said)
    assert server.services.state == "draining", "/ready must not wait for the supervisor to come back"
