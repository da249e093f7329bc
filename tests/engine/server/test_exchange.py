"""One request and one answer on plain ASGI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.server.errors import ApiError
from engine.server.exchange import Exchange, watch_in_background


def exchange(messages: list[dict[str, Any]], sent: list[Any], **scope: Any) -> Exchange:
    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    full = {"method": "POST", "path": "/", "query_string": b"", "headers": [], **scope}
    return Exchange(full, receive, send)


async def test_body_comes_in_pieces() -> None:
    pieces = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c"},
    ]
    assert await exchange(pieces, []).body() == b"abc"


async def test_caller_gone_before_the_body_is_complete() -> None:
    pieces = [{"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.disconnect"}]
    broken = exchange(pieces, [])
    with pytest.raises(ConnectionResetError):
        await broken.body()
    assert broken.disconnected


async def test_disconnect_is_noticed_once() -> None:
    calls: list[int] = []
    watched = exchange([{"type": "http.request"}, {"type": "http.disconnect"}], [])
    await watch_in_background(watched, lambda: calls.append(1))
    assert (watched.disconnected, calls) == (True, [1])


async def test_events() -> None:
    sent: list[Any] = []
    streaming = exchange([], sent)
    streaming.reply_headers["x-a"] = "b"
    await streaming.start_events()
    await streaming.send_events(b"1")
    await streaming.send_events(b"2", last=True)
    headers = dict(sent[0]["headers"])
    assert headers[b"x-a"] == b"b"
    assert headers[b"x-accel-buffering"] == b"no"
    assert headers[b"cache-control"] == b"no-cache"
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert [(m["body"], m["more_body"]) for m in sent[1:]] == [(b"1", True), (b"2", False)]


async def test_answered_once() -> None:
    answered = exchange([], [])
    await answered.reply(200, b"{}")
    with pytest.raises(AssertionError):
        await answered.reply(200, b"{}")


def test_headers_and_query() -> None:
    found = exchange([], [], headers=[(b"a", b"1"), (b"a", b"2")], query_string=b"x=1&y=%20&x=3")
    assert (found.header("a"), found.header("b")) == ("1", None)
    assert found.query() == {"x": "3", "y": " "}


@pytest.mark.parametrize(
    ("raw", "query"),
    [(b"x=", {"x": ""}), (b"x", {"x": ""}), (b"=1", {"": "1"}), (b"x=1&x=", {"x": ""}), (b"", {})],
)
def test_blank_values_of_a_query_are_seen(raw: bytes, query: dict[str, str]) -> None:
    assert exchange([], [], query_string=raw).query() == query


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"identity, gzip", b"\xff", b"x" * 99])
async def test_an_encoded_body_is_refused_in_a_sentence(encoding: bytes) -> None:
    packed = exchange(
        [{"type": "http.request", "body": b"ab"}], [], headers=[(b"content-encoding", encoding)]
    )
    with pytest.raises(ApiError, match="send it as it is") as caught:
        await packed.body()
    assert caught.value.status == 415
    assert caught.value.message.isascii()


async def test_a_body_as_it_is_may_say_so() -> None:
    for encoding in (b"identity", b"Identity", b""):
        plain = exchange(
            [{"type": "http.request", "body": b"ab"}], [], headers=[(b"content-encoding", encoding)]
        )
        assert await plain.body() == b"ab"
