"""An answer that is not streamed, put together."""

from __future__ import annotations

import tracemalloc

from engine.messages import TokenLogprobs
from engine.server.choice import CallDelta, Delta
from engine.server.gathered import Gathered
from tests.engine.server.streams import joined


def test_news_of_one_choice() -> None:
    entry = TokenLogprobs(-1.0, 1, [], [])
    first = Delta(0, "a", [1], prompt_logprobs=[entry], logprobs=[(1, entry)])
    last = Delta(0, "\r\nb", [2, 3], finish_reason="length", stop_reason=7)
    assert joined([first, last, Delta(0)]) == Delta(
        *(0, "a\r\nb", [1, 2, 3], [(1, entry)], [entry]), finish_reason="length", stop_reason=7
    )
    assert (first.text, first.token_ids, first.logprobs) == ("a", [1], [(1, entry)]), "news stay as they were"


def test_choices_come_in_the_order_of_their_index() -> None:
    gathered = Gathered()
    for delta in (Delta(2, "c"), Delta(0, "a"), Delta(2, "C"), Delta(0, "A", embedding=b"x"), Delta(0)):
        gathered.add([delta])
    assert gathered.whole() == [Delta(0, "aA", embedding=b"x"), Delta(2, "cC")]
    assert gathered.whole()[1] == Delta(2, "cC")


def test_the_bytes_of_all_its_text_are_counted() -> None:
    gathered = Gathered()
    gathered.add([Delta(0, "ab", reasoning="ü"), Delta(1, "€", calls=[CallDelta(0, '{"a"', "call_1", "f")])])
    gathered.add([Delta(0, "", [1, 2])])
    assert gathered.num_bytes == 2 + 2 + 3 + 4


def test_calls_and_reasoning() -> None:
    first = CallDelta(0, '{"a"', "call_1", "f")
    whole = joined(
        [
            Delta(0, "x", reasoning="r", calls=[first]),
            Delta(0, reasoning="s", calls=[CallDelta(0, ": 1}"), CallDelta(1, "", "call_2", "g")]),
        ]
    )
    assert (whole.text, whole.reasoning) == ("x", "rs")
    assert whole.calls == [CallDelta(0, '{"a": 1}', "call_1", "f"), CallDelta(1, "", "call_2", "g")]
    assert first.arguments == '{"a"', "news stay as they were"


def test_what_waits_for_the_end_is_text_and_not_its_news() -> None:
    """100,000 tokens: their news would hold 50 MB."""
    gathered = Gathered()
    tracemalloc.start()
    try:
        for number in range(100_000):
            gathered.add([Delta(number % 8, "word ", [1000])])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(delta.text) for delta in gathered.whole()) == 500_000
    assert held < 4_000_000
