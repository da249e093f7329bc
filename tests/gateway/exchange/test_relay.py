"""The relay of one stream: what it writes by itself, and where it stops."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.exchange.relay import Relay
from gateway.upstream import Deadlines, Timeouts
from gateway.wire import StreamScanner

CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"no"}}\n\n'


class Reader:
    """A caller's end that takes what it is given, unless it is slow."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_slow = False

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        raise AssertionError("this is a stream")

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        raise AssertionError("a relay does not wait")

    def write(self, data: bytes) -> bool:
        if not self.is_slow:
            self.written.append(data)
        return not self.is_slow


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
async def relay(reader: Reader) -> Relay:
    deadlines = Deadlines(Timeouts(1, 60, 60, 60), streaming=True)
    return Relay(StreamScanner(True, None), reader, deadlines)


async def test_the_first_data_is_somebody_elses(relay: Relay, reader: Reader) -> None:
    assert not relay.take(CHUNK)
    assert (relay.unsent, reader.written) == (CHUNK, [])
    relay.has_begun = True
    assert relay.take(CHUNK)
    assert reader.written == [CHUNK]


async def test_half_an_event_waits_for_its_end(relay: Relay, reader: Reader) -> None:
    relay.has_begun = True
    assert relay.take(CHUNK[:20])
    assert relay.take(CHUNK[20:] + CHUNK[:5])
    assert b"".join(reader.written) == CHUNK


async def test_a_slow_reader_is_waited_for_by_somebody_else(relay: Relay, reader: Reader) -> None:
    relay.has_begun = reader.is_slow = True
    assert not relay.take(CHUNK)
    assert (relay.unsent, reader.written) == (CHUNK, [])


@pytest.mark.parametrize(
    ("last", "unsent"), [(USAGE + DONE, DONE), (ERROR, b""), (CHUNK + DONE, CHUNK + DONE)]
)
async def test_the_end_is_somebody_elses(relay: Relay, reader: Reader, last: bytes, unsent: bytes) -> None:
    relay.has_begun = True
    assert relay.take(CHUNK)
    assert not relay.take(last)
    assert (relay.unsent, reader.written) == (unsent, [CHUNK])
