"""One call over bare ASGI: bodies within a limit, one answer, and a client that goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.http.call import Call, ClientLeft, Disconnect


def make(
    messages: list[dict[str, Any]], headers: list[tuple[bytes, bytes]] | None = None
) -> tuple[Call, list[Any]]:
    sent: list[Any] = []
    waiting = list(messages)

    async def receive() -> Any:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "headers": headers or [],
        "client": ("1.2.3.4", 5),
    }
    return Call(scope, receive, send, "req_1", lambda: 1.0), sent


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_body_in_pieces() -> None:
    call, _ = make([part(b"ab", True), part(b"c")])
    assert await call.body(3) == b"abc"


@pytest.mark.parametrize(
    ("messages", "headers"),
    [([part(b"abcd")], []), ([part(b"ab", True), part(b"cd")], []), ([], [(b"content-length", b"4")])],
)
async def test_body_above_the_limit(
    messages: list[dict[str, Any]], headers: list[tuple[bytes, bytes]]
) -> None:
    call, _ = make(messages, headers)
    with pytest.raises(BodyTooLarge):
        await call.body(3)


async def test_pieces_above_the_limit() -> None:
    """Nothing of the piece that is too much is handed on."""
    call, _ = make([part(b"ab", True), part(b"cd")])
    pieces = call.body_pieces(3)
    assert await anext(pieces) == b"ab"
    with pytest.raises(BodyTooLarge):
        await anext(pieces)
    call, _ = make([part(b"ab", True), part(b"c")])
    assert [piece async for piece in call.body_pieces(3)] == [b"ab", b"c"]


@pytest.mark.parametrize("begun", [[], [part(b"a", True)]])
async def test_a_body_that_never_comes(begun: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.http.call.BODY_TIMEOUT_S", 0.01)
    call, _ = make(begun)
    async with asyncio.timeout(60):
        with pytest.raises(InvalidRequest):
            await call.body(3)


async def test_a_client_that_goes_in_the_middle_of_its_body() -> None:
    call, _ = make([part(b"ab", True), {"type": "http.disconnect"}])
    with pytest.raises(ClientLeft):
        await call.body(100)


async def test_headers_of_every_answer() -> None:
    call, sent = make([])
    await call.answer(200, {"a": "b"}, b"xy")
    start, body = sent
    assert dict(start["headers"]) == {
        b"a": b"b",
        b"content-length": b"2",
        b"x-request-id": b"req_1",
        b"openai-processing-ms": b"0",
    }
    assert body["body"] == b"xy"
    with pytest.raises(AssertionError):
        await call.answer(200, {}, b"")


async def test_the_first_of_two_headers_counts() -> None:
    call, _ = make([], [(b"authorization", b"one"), (b"authorization", b"two")])
    assert call.header(b"authorization") == "one"
    assert call.header(b"other") is None
    assert call.peer == "1.2.3.4"


async def test_disconnect_cancels_the_block_and_only_it() -> None:
    call, _ = make([{"type": "http.disconnect"}])
    reached = False
    async with Disconnect(call) as watch:
        await asyncio.Event().wait()
        reached = True
    assert watch.happened
    assert not reached
    await asyncio.sleep(0)  # the task itself goes on


async def test_no_disconnect_no_effect() -> None:
    call, _ = make([])
    async with Disconnect(call) as watch:
        await asyncio.sleep(0)
    assert not watch.happened
