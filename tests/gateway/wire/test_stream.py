"""StreamScanner: any chunking of the same bytes passes the same bytes and finds the same facts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.answer import Rename
from gateway.wire.stream import EVENT_BYTES_MAX, EventTooLarge, StreamScanner
from gateway.wire.usage import Usage

USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
}
CHUNK = b'data: {"id":"c","model":"up","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
TRICKY = (
    b'data: {"id":"c","model":"up","choices":[{"index":0,"delta":{"content":"usage"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"say \\"usage\\" and [DONE] and \\"error\\""}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"error"}}],"system_fingerprint":"\\u00e4"}\n\n',
    b'data: {"choices":[{"delta":{"content":"data: x"}}]}\r\n\r\n',
    b": keep-alive\n\n",
    b"event: x\ndata: {}\n\n",
    b"\n\n",
    'data: {"choices":[{"delta":{"content":"ü€😀"}}]}\n\n'.encode(),
    b'data: not json with "usage"\n\n',
)
USAGE_EVENT = b"data: " + json.dumps({"id": "c", "choices": [], "usage": USAGE}).encode() + b"\n\n"
DONE = b"data: [DONE]\n\n"
EXPECTED = Usage(7, 3, cached_tokens=4)


def scan(pieces: list[bytes], hide: bool, rename: Rename | None = None) -> tuple[bytes, StreamScanner]:
    scanner = StreamScanner(hide, rename)
    passed = b"".join([scanner.feed(piece) for piece in pieces])
    return passed + scanner.finish(), scanner


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(
    st.lists(st.sampled_from((CHUNK, *TRICKY)), max_size=8),
    st.sampled_from((b"", USAGE_EVENT)),
    st.sampled_from((b"", DONE)),
    st.lists(st.integers(0, 2000), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_any_chunking_is_the_same(
    events: list[bytes], usage: bytes, done: bytes, places: list[int], hide: bool, renamed: bool
) -> None:
    rename = Rename.between("up", "served") if renamed else None
    data = b"".join(events) + usage + done
    whole, one = scan([data], hide, rename)
    pieced, many = scan(cut(data, places), hide, rename)
    assert pieced == whole
    assert (many.usage, many.error, many.done, many.events) == (one.usage, one.error, one.done, one.events)
    assert one.usage == (EXPECTED if usage else None)
    assert one.done is bool(done)


@given(st.lists(st.integers(0, 2000), max_size=30))
def test_everything_else_passes_byte_for_byte(places: list[int]) -> None:
    data = CHUNK + b"".join(TRICKY) + USAGE_EVENT + DONE
    passed, scanner = scan(cut(data, places), hide=False)
    assert passed == data
    hidden, _ = scan(cut(data, places), hide=True)
    assert hidden == data.replace(USAGE_EVENT, b"")
    assert scanner.usage == EXPECTED


@pytest.mark.parametrize("blank", [b"\n\n\n\n", b"\n\r\n\n", b"\r\n\n\n"])
@pytest.mark.parametrize("place", range(1, 5))
def test_blank_lines_are_cut_like_anything_else(blank: bytes, place: int) -> None:
    data = CHUNK + blank + USAGE_EVENT
    place += len(CHUNK)
    assert scan([data[:place], data[place:]], hide=True)[0] == scan([data], hide=True)[0]


def test_null_usage_is_removed_without_touching_the_rest() -> None:
    event = (
        b'data: {"id": "c", "choices": [{"delta": {"content": "a"}, "p": 1e-05}], "usage": null, "x": 1}\n\n'
    )
    passed, scanner = scan([event], hide=True)
    assert passed == event.replace(b', "usage": null', b"")
    assert scanner.usage is None
    assert scan([event], hide=False)[0] == event


def test_usage_on_a_chunk_with_choices_is_read_and_hidden() -> None:
    event = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}], "usage": USAGE}
    passed, scanner = scan([b"data: " + json.dumps(event).encode() + b"\n\n"], hide=True)
    del event["usage"]
    assert json.loads(passed.removeprefix(b"data: ")) == event
    assert scanner.usage == EXPECTED


def test_continuous_usage_keeps_the_last_figure() -> None:
    first = {"choices": [{"delta": {}}], "usage": USAGE | {"completion_tokens": 1}}
    second = {"choices": [{"delta": {}}], "usage": USAGE}
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (first, second))
    assert scan([data], hide=False)[1].usage == EXPECTED


def test_error_event_is_kept_back_with_its_usage() -> None:
    error = {
        "error": {"message": "boom", "type": "server_error", "param": None, "code": None},
        "usage": USAGE,
    }
    event = b"data: " + json.dumps(error).encode() + b"\n\n"
    passed, scanner = scan([CHUNK, event, CHUNK, DONE], hide=False)
    assert passed == CHUNK
    assert scanner.error is not None
    assert (scanner.error.message, scanner.error.usage) == ("boom", EXPECTED)
    assert scanner.done is False


def test_nothing_passes_after_done() -> None:
    passed, scanner = scan([CHUNK + DONE + CHUNK, CHUNK], hide=False)
    assert passed == CHUNK + DONE
    assert scanner.done


def test_an_unclosed_last_event_still_counts() -> None:
    passed, scanner = scan([USAGE_EVENT.rstrip(b"\n")], hide=False)
    assert scanner.usage == EXPECTED
    assert passed.rstrip(b"\n") == USAGE_EVENT.rstrip(b"\n")


def test_renames_only_the_model() -> None:
    said = b'data: {"model":"up","choices":[{"delta":{"content":"\\"model\\":\\"up\\""}}]}\n\n'
    passed, _ = scan([said], True, Rename.between("up", 'my "name"'))
    event = json.loads(passed.removeprefix(b"data: "))
    assert event == {"model": 'my "name"', "choices": [{"delta": {"content": '"model":"up"'}}]}


def test_an_endless_event_is_refused() -> None:
    scanner = StreamScanner(False, None)
    with pytest.raises(EventTooLarge):
        scanner.feed(b"x" * (EVENT_BYTES_MAX + 1))
