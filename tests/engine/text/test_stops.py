"""Stop strings: never leaked, released when they do not complete, independent of the chunking."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.stops import StopChecker

LETTERS = st.text(alphabet="abc", max_size=40)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=5), min_size=1, max_size=4)


def _run(stops: list[str], pieces: list[str], include: bool = False) -> tuple[str, str | None]:
    checker = StopChecker(stops, include_in_output=include)
    shown = ""
    for piece in pieces:
        shown += checker.push(piece)
        if checker.matched is not None:
            return shown, checker.matched
    return shown + checker.finish(), None


def _oracle(stops: list[str], text: str, include: bool = False) -> tuple[str, str | None]:
    """Character by character: the first end of any stop, the longest that ends there."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end if include else end - len(stop)], stop
    return text, None


@settings(max_examples=500, deadline=None)
@given(text=LETTERS, stops=STOPS, cuts=st.lists(st.integers(0, 40), max_size=8), include=st.booleans())
def test_any_chunking(text: str, stops: list[str], cuts: list[int], include: bool) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert _run(stops, pieces, include) == _oracle(stops, text, include)


@settings(max_examples=300, deadline=None)
@given(text=LETTERS, stops=STOPS)
def test_holds_back_no_more_than_needed(text: str, stops: list[str]) -> None:
    checker = StopChecker(stops)
    shown = ""
    for seen, char in enumerate(text, 1):
        shown += checker.push(char)
        if checker.matched is not None:
            return
        held = text[len(shown) : seen]
        assert text[:seen].startswith(shown)
        assert not held or any(stop.startswith(held) for stop in stops)


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        ([], ["any", "thing"], ("anything", None)),
        (["\n\n"], ["a\n", "\nb"], ("a", "\n\n")),
        (["END"], ["aEN", "d"], ("aENd", None)),
        (["aab"], ["a", "a", "a", "b", "x"], ("a", "aab")),
        (["b", "ab"], ["xa", "b"], ("x", "ab")),
    ],
)
def test_examples(stops: list[str], pieces: list[str], expected: tuple[str, str | None]) -> None:
    assert _run(stops, pieces) == expected


def test_stop_is_shown_when_asked() -> None:
    assert _run(["END"], ["say EN", "D now"], include=True) == ("say END", "END")


def test_empty_stop_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        StopChecker([""])
