"""The last line of defence."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any
from urllib.parse import quote

import pytest

from gateway.clock import SystemClock
from gateway.errors import Overloaded
from gateway.http.call import Call
from gateway.http.middleware import Edge
from gateway.ids import IdSource
from gateway.obs.logging import configure_logging
from gateway.obs.metrics import Metrics
from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused
from tests.harness import Gateway


async def test_our_own_bug_tells_the_request_id_and_nothing_else(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("ALTER TABLE hold ADD COLUMN surprise int NOT NULL")
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert error["status"] in (500, 503)
    assert "surprise" not in json.dumps({k: v for k, v in error.items() if k != "headers"})
    assert engine.requests == []


@pytest.mark.parametrize("name", ["x" * 1_000_000, "a\n\x1b[31m\u202eb"], ids=["long", "unseen"])
async def test_what_a_caller_makes_up_is_neither_logged_nor_given_back_whole(
    gateway: Gateway, engine: FakeEngine, name: str
) -> None:
    tenant = await gateway.serve(engine)
    lines = io.StringIO()
    configure_logging("info", lines)
    error = await refused(gateway, "POST", CHAT, BODY | {"model": name}, key=tenant.key)
    assert (error["status"], error["code"]) == (404, "model_not_found")
    assert len(error["message"]) < 400
    assert error["message"].isprintable()
    for method, path in (
        ("GET", "/v1/models/"),
        ("GET", "/"),
        ("PUT", "/v1/models/"),
        ("GET", "/v1/organization/"),
    ):
        asked = path + quote(name[:10_000])
        error = await refused(gateway, method, asked, key=gateway.admin_key if "org" in path else tenant.key)
        assert error["status"] in (404, 405)
        assert len(error["message"]) < 400
        assert error["message"].isprintable()
    await refused(gateway, "GET", CHAT, key=tenant.key)
    assert (await gateway.request("POST", CHAT, BODY, tenant.key)).status == 200
    configure_logging("warning")
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    models = [line["model"] for line in written if line["event"] == "request"]
    assert models.count("(unknown)") == 1
    assert models.count(BODY["model"]) == 1
    assert len(lines.getvalue()) < 20_000


async def test_the_last_event_does_not_wait_for_ever_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a broken stream that nobody reads would hold up a shutdown."""
    monkeypatch.setattr("gateway.http.middleware.LAST_WORD_S", 0.01)
    sent: list[Any] = []

    async def fails_in_the_middle(call: Call) -> None:
        await call.stream({}, b"data: {}\n\n", last=False)
        raise Overloaded

    async def send(message: Any) -> None:
        if len(sent) == 2:
            await asyncio.Event().wait()
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    edge = Edge(fails_in_the_middle, IdSource(), SystemClock(), Metrics())
    scope = {"type": "http", "method": "POST", "path": "/x", "headers": [], "client": None}
    async with asyncio.timeout(60):
        await edge(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
