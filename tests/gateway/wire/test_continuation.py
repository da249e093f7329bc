"""Comment lines: taken out whatever the chunking, kept as they were, and given to the next engine."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import Continuation, StreamScanner
from gateway.wire.continuation import IDS_MAX

START = b'{"version":1,"path":"/v1/completions","note":"\\n\\n: ids 0 9 \\"error\\" [DONE]"}'
PLAIN = [
    b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":": ids 0 7"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"b"}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
LINES = [b": resume " + START + b"\n", b": ids 0 5 6\n", b": ids 0 7\n", b": end 0\n", b""]
MARKED = b"".join(line + block for line, block in zip(LINES, PLAIN, strict=True))


@given(st.lists(st.integers(0, len(MARKED)), max_size=12))
def test_any_chunking_gives_the_plain_stream_and_the_same_ids(cuts: list[int]) -> None:
    answer = Continuation()
    scanner = StreamScanner(True, None, answer)
    ends = [*sorted(cuts), len(MARKED)]
    passed = b"".join(scanner.feed(MARKED[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))
    assert passed == b"".join(PLAIN)
    assert (list(answer.ids), answer.has_ended, scanner.done, scanner.events) == ([5, 6, 7], True, True, 4)
    assert answer.is_possible


@given(st.integers(0, len(MARKED)))
def test_the_ids_are_those_of_what_was_passed_on(cut: int) -> None:
    answer = Continuation()
    scanner = StreamScanner(True, None, answer)
    passed = scanner.feed(MARKED[:cut]) + scanner.finish()
    assert b"".join(PLAIN).startswith(passed)
    blocks = passed.count(b"\n\n")
    assert passed == b"".join(PLAIN[:blocks])
    assert list(answer.ids) == [[], [], [5, 6], [5, 6, 7], [5, 6, 7], [5, 6, 7]][blocks]


def test_the_next_engine_is_told_all_of_it() -> None:
    answer = Continuation()
    assert not answer.is_possible
    StreamScanner(True, None, answer).feed(MARKED)
    body = json.loads(answer.body(b'{"model":"m","stream":true}', 3))
    assert body == {
        "start": json.loads(START),
        "outputs": [[5, 6, 7]],
        "ended": [0],
        "resumed_from": 3,
        "request": {"model": "m", "stream": True},
    }


def test_one_answer_keeps_so_many_ids_and_no_more() -> None:
    answer = Continuation()
    scanner = StreamScanner(True, None, answer)
    scanner.feed(LINES[0] + PLAIN[0])
    for _ in range(IDS_MAX // 64 + 1):
        scanner.feed(b": ids 0" + b" 3" * 64 + b"\n" + PLAIN[2])
    assert len(answer.ids) == IDS_MAX
    assert not answer.is_possible


def test_what_comes_after_somebody_else_took_over_counts_for_nothing() -> None:
    answer = Continuation()
    scanner = StreamScanner(True, None, answer)
    scanner.feed(LINES[0] + PLAIN[0])
    scanner.detach()
    scanner.feed(LINES[1] + PLAIN[1])
    assert list(answer.ids) == []


def test_keep_alives_of_an_engine_vanish() -> None:
    answer = Continuation()
    assert StreamScanner(True, None, answer).feed(b": still here\n\n" + PLAIN[0]) == PLAIN[0]
    assert answer.strip(b": still here\n\n") == b""
