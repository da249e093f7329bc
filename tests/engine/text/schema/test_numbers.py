"""Bounds of numbers, compared with arithmetic."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest

from engine.text.schema.numbers import INTEGER, NUMBER, integer_between, number_between
from tests.grammars import accepts, bound, walk
from tests.seeds import seed_of_test


def _bounds(draw: random.Random) -> tuple[int, int]:
    low = draw.choice((-1, 1)) * draw.randrange(10 ** draw.randrange(1, 5))
    return low, low + draw.randrange(10 ** draw.randrange(1, 4))


def test_integers() -> None:
    seed = seed_of_test()
    draw = random.Random(seed)
    for _ in range(15):
        low, high = _bounds(draw)
        body = integer_between(low, high)
        assert body is not None
        grammar = bound("ebnf", f"root ::= {body}")
        near = {edge + step for edge in (low, high, 0) for step in range(-2, 3)} | {
            draw.randint(low, high) for _ in range(20)
        }
        wrong = [value for value in near if accepts(grammar, str(value)) != (low <= value <= high)]
        assert not wrong, (low, high)
        assert not accepts(grammar, "-0")
        assert not accepts(grammar, f"0{high}")


@pytest.mark.parametrize(("low", "high"), [(None, 7), (-3, None), (None, -12), (500, None)])
def test_one_bound(low: int | None, high: int | None) -> None:
    body = integer_between(low, high)
    assert body is not None
    grammar = bound("ebnf", f"root ::= {body}")
    for value in (-(10**17), -1000, -13, -12, -4, -3, -1, 0, 1, 7, 8, 499, 500, 10**17):
        inside = (low is None or value >= low) and (high is None or value <= high)
        assert accepts(grammar, str(value)) == inside, value


def test_decimals() -> None:
    seed = seed_of_test()
    draw = random.Random(seed)
    for _ in range(15):
        scale = 10 ** draw.randrange(4)
        low, high = sorted(Decimal(value) / scale for value in _bounds(draw))
        above, below = draw.random() < 0.5, draw.random() < 0.5
        body = number_between(float(low), float(high), above=above, below=below)
        if body is None:
            assert low == high
            continue
        grammar = bound("ebnf", f"root ::= {body}")
        step = Decimal(1) / (scale * 10)
        for edge in (low, high):
            for count in range(-2, 3):
                value = edge + count * step
                inside = (low < value or (low == value and not above)) and (
                    value < high or (value == high and not below)
                )
                text = f"{value:f}"
                if value != 0 or not text.startswith("-"):
                    assert accepts(grammar, text) == inside, (low, high, above, below, text)
        for _ in range(5):
            found = Decimal(walk(grammar, draw))
            assert low <= found <= high
            assert not (above and found == low)
            assert not (below and found == high)


def test_short_decimals_are_not_lengthened() -> None:
    body = number_between(0.0, 2.5, above=True)
    grammar = bound("ebnf", f"root ::= {body}")
    assert [
        text for text in ("0.1", "1", "1.25", "2", "2.4", "2.5", "2.50") if not accepts(grammar, text)
    ] == []
    assert [text for text in ("0", "0.0", "2.51", "3", "-1", "1e0") if accepts(grammar, text)] == []


def test_nothing_between() -> None:
    assert integer_between(3, 2) is None
    assert number_between(3.0, 2.0) is None
    assert number_between(2.0, 2.0, above=True) is None
    assert integer_between(10**30, None) is None


@pytest.mark.parametrize("body", [INTEGER, NUMBER])
def test_unbounded(body: str) -> None:
    grammar = bound("ebnf", f"root ::= {body}")
    for value in (0, -1, 10**17, 12345):
        assert accepts(grammar, json.dumps(value))
    for text in ("01", "+1", "-", "1.", ".5", "1e", "1" * 19):
        assert not accepts(grammar, text)
    assert accepts(grammar, "-1.5e+3") == accepts(grammar, "2E9") == (body == NUMBER)
