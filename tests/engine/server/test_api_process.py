"""The life of an API process: drain, grace, abort, and what happens when the supervisor is gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from engine.server import api_process, journal
from engine.server.acknowledged import is_acknowledged
from engine.server.control import Abort, CoreUp, Drain
from engine.server.journal_reader import read_page
from engine.server.services import Phase
from tests.engine.server.conftest import MODEL, Server, running_server
from tests.fakes.core import Script, ready

CHAT: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "max_tokens": 900,
}


async def open_stream(server: Server, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
    server.core.hold()
    server.core.script(Script((70, 71) * 20))
    opening = asyncio.create_task(session.post("/v1/chat/completions", json=CHAT))
    await server.core_until(lambda: server.core.num_live == 1)
    server.core.release(2)
    return await opening


async def exit_status(server: Server) -> int:
    assert server.exit_status is not None
    return await asyncio.wait_for(asyncio.shield(server.exit_status), 60)


async def test_drain(model_dir: Path, tmp_path: Path) -> None:
    """Duty engine-7: Not ready at once; served during the grace, refused after it; the stream finishes; exit 0."""
    over = asyncio.Event()
    async with running_server(model_dir, tmp_path) as server, server.session() as session:
        server.process._grace = over.wait  # type: ignore[method-assign]  # it ends when the test says so
        stream = await open_stream(server, session)
        server.tell(Drain())
        await server.until(lambda: server.services.phase is Phase.GRACE)
        async with session.get("/ready") as answer:
            assert answer.status == 503
        async with session.get("/internal/status") as answer:
            assert (await answer.json())["state"] == "draining"
        server.core.script(Script((70,)))
        second = asyncio.create_task(session.post("/v1/chat/completions", json={**CHAT, "stream": False}))
        await server.core_until(lambda: server.core.num_live == 2)
        over.set()
        await server.until(lambda: server.services.phase is Phase.CLOSED)
        async with session.post("/v1/chat/completions", json=CHAT) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"], answer.headers["retry-after"]) == (503, "draining", "1")
        server.core.release(100)
        assert (await stream.text()).endswith("data: [DONE]\n\n")
        assert (await second).status == 200
        assert await exit_status(server) == 0
        ends = [r.finish_reason for r in read_page(tmp_path, "", 99).records if r.kind == "end"]
        assert ends == ["stop", "stop"]


async def test_a_drained_process_stays_until_its_journal_is_acknowledged(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that has paged through the journal before gets the rest before the address is gone; meanwhile all of it
    is on disk."""
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(journal, "SYNC_S", 3600.0)  # not by the way
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), sync(descriptor)))
    async with running_server(model_dir, tmp_path) as server, server.session() as session:
        await _one_request(session)
        await _page(session, (await _page(session, ""))["cursor"])
        await _one_request(session)
        server.tell(Drain())
        await server.until(lambda: server.services.phase is Phase.CLOSED)
        await server.until(lambda: len(synced) > 0)
        page = await _page(session, "")
        assert [record["kind"] for record in page["records"]].count("end") >= 1
        await asyncio.sleep(3 * api_process._ACKNOWLEDGE_POLL_S)
        assert server.exit_status is not None
        assert not server.exit_status.done(), "what was read is not yet kept"
        await _page(session, page["cursor"])
        assert await exit_status(server) == 0


async def test_a_reader_that_is_gone_is_not_waited_for_for_ever(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_process, "ACKNOWLEDGE_S", 0.2)
    async with running_server(model_dir, tmp_path) as server, server.session() as session:
        await _one_request(session)
        await _page(session, (await _page(session, ""))["cursor"])
        await _one_request(session)
        server.tell(Drain())
        assert await exit_status(server) == 0
        assert not is_acknowledged(tmp_path)


async def _page(session: aiohttp.ClientSession, after: str) -> dict[str, Any]:
    async with session.get("/internal/usage", params={"after": after}) as answer:
        assert answer.status == 200
        document: dict[str, Any] = await answer.json()
        return document


async def _one_request(session: aiohttp.ClientSession) -> None:
    body = {**CHAT, "stream": False, "max_tokens": 2}
    async with session.post(
        "/v1/chat/completions", json=body, headers={"x-gateway-request-id": "gw"}
    ) as answer:
        assert answer.status == 200


async def test_drain_timeout_aborts(model_dir: Path, tmp_path: Path) -> None:
    async with (
        running_server(model_dir, tmp_path, drain_timeout_s=0.2) as server,
        server.session() as session,
    ):
        stream = await open_stream(server, session)
        server.tell(Drain())
        text = await stream.text()
        assert '"finish_reason":"abort"' in text
        assert text.endswith("data: [DONE]\n\n")
        assert await exit_status(server) == 0


async def test_abort_ends_the_grace(model_dir: Path, tmp_path: Path) -> None:
    async with (
        running_server(model_dir, tmp_path, drain_grace_s=3600.0) as server,
        server.session() as session,
    ):
        stream = await open_stream(server, session)
        server.tell(Drain())
        await server.until(lambda: server.services.phase is Phase.GRACE)
        server.tell(Abort())
        assert (await stream.text()).endswith("data: [DONE]\n\n")
        assert await exit_status(server) == 0


async def test_supervisor_gone(model_dir: Path, tmp_path: Path) -> None:
    """Requests in flight get their error, then the process ends with a status that says so."""
    async with running_server(model_dir, tmp_path) as server, server.session() as session:
        stream = await open_stream(server, session)
        server.control.close()
        assert '"engine_error"' in (await stream.text()).split("\n\n")[-2]
        assert await exit_status(server) == 1


async def test_a_broken_control_task_ends_the_process(model_dir: Path, tmp_path: Path) -> None:
    async with running_server(model_dir, tmp_path) as server:
        server.tell(CoreUp(9, 1, ready()))  # while a core is up: a bug of the supervisor
        assert await exit_status(server) == 1
