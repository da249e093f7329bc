"""Characters are pushed in pieces and pulled one by one; what is not settled can be read again."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from engine.text.tools.feed import UNSETTLED_MAX, Feed, Malformed, Steps


def run(feed: Feed, steps: Generator[None, None, object], pieces: list[str]) -> object:
    """The result of a parser over the pieces; the text ends behind them."""
    for piece in [*pieces, None]:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        if piece is None:
            feed.ended = True
        else:
            feed.push(piece)
    with pytest.raises(StopIteration) as done:
        next(steps)
    return done.value.value


def test_literals_span_pieces() -> None:
    feed = Feed()
    run(feed, feed.expect("</tool_call>"), ["<", "/tool", "_call>x"])
    assert feed.settle() == "</tool_call>"
    assert run(feed, feed.peek(), []) == "x"


def test_the_wrong_character_is_not_taken() -> None:
    feed = Feed()
    feed.push("abX")
    with pytest.raises(Malformed):
        run(feed, feed.expect("abc"), [])
    assert feed.text[feed.at] == "X"
    feed.take_back()
    assert run(feed, feed.word("ab", 9), []) == "ab"


def test_the_end_is_no_character() -> None:
    feed = Feed()
    assert run(feed, feed.peek(), []) == ""
    with pytest.raises(Malformed):
        next(feed.take())
    assert run(feed, feed.accept("a"), []) == ""


def test_settled_text_is_forgotten() -> None:
    feed = Feed()
    feed.push("  ab")
    run(feed, feed.skip_blanks(), [])
    assert feed.settle() == "  "
    feed.push("c")
    assert feed.text == "abc"


def test_words_have_a_longest_length() -> None:
    feed = Feed()
    feed.push("aaaa")
    with pytest.raises(Malformed):
        run(feed, feed.word("a", 3), [])


@pytest.mark.parametrize("size", [1, 1000, UNSETTLED_MAX + 2])
def test_what_is_unsettled_has_a_bound(size: int) -> None:
    feed = Feed()

    def read() -> Steps[None]:
        while True:
            yield from feed.take()

    def push() -> None:
        feed.push(" " * size)
        next(steps)

    steps = read()
    next(steps)
    with pytest.raises(Malformed):
        list(iter(push, "never"))
    assert feed.at == UNSETTLED_MAX + 1
