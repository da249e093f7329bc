"""The sink between a chat and a response."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.errors import EngineFailed
from gateway.exchange.responses import ResponseSink
from gateway.wire.responses import parse_response
from tests.fakes import replies

HEAD = {"id": "c", "created": 7, "model": "m"}


class Taken:
    def __init__(self) -> None:
        self.parts: list[tuple[bytes, bool]] = []

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        self.parts.append((body, True))

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        self.parts.append((data, last))


def sink() -> tuple[Taken, ResponseSink]:
    taken = Taken()
    return taken, ResponseSink(taken, parse_response(b'{"model": "m", "input": "x"}'), "req_abc")


async def test_nothing_is_sent_for_nothing_and_the_end_is_told() -> None:
    taken, between = sink()
    first = replies.chunk(True, HEAD, "a", True)
    await between.stream({}, first[:10], last=False)
    assert taken.parts == []
    await between.stream({}, first[10:], last=False)
    await between.stream({}, replies.DONE, last=True)
    assert [last for _, last in taken.parts] == [False, True]
    assert b"response.completed" in taken.parts[-1][0]


async def test_a_whole_answer_and_a_failure() -> None:
    taken, between = sink()
    await between.whole({}, json.dumps(replies.whole(True, HEAD, "a", "stop", None)).encode())
    assert json.loads(taken.parts[0][0])["id"] == "resp_abc"
    await taken.stream({}, between.error_event(EngineFailed()), last=True)
    assert taken.parts[1][1]
    assert b"response.failed" in taken.parts[1][0]
