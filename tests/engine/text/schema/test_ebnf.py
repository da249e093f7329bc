"""Literals and sets of characters."""

from __future__ import annotations

import random

import pytest

from engine.text.schema.ebnf import (
    LAST,
    alternatives,
    char_class,
    complement,
    literal,
    of_chars,
    union,
    without,
)
from tests.grammars import accepts, bound
from tests.seeds import seed_of_test


@pytest.mark.parametrize(
    "text", ["", "a", '"', "\\", "\n", "a]b[c^-d", "é😀", "\x00\x7f", '" | root', "\\u0041"]
)
def test_a_literal_is_itself_and_no_syntax(text: str) -> None:
    grammar = bound("ebnf", f'root ::= "<" {literal(text)} ">"')
    assert accepts(grammar, f"<{text}>")
    assert not accepts(grammar, f"<{text}x>")


@pytest.mark.parametrize("chars", ["a", "abc", '"\\', "^-]", "é\n", "az09"])
def test_a_set_and_what_it_leaves_out(chars: str) -> None:
    inside = bound("ebnf", f"root ::= {char_class(of_chars(chars))}")
    outside = bound("ebnf", f"root ::= {char_class(complement(of_chars(chars)))}")
    for char in {*chars, *'abcxyz"\\^-]é😀\n '}:
        assert accepts(inside, char) == (char in chars)
        assert accepts(outside, char) == (char not in chars)


def test_large_sets_are_written_by_what_they_leave_out() -> None:
    assert char_class(complement(of_chars("a"))) == "[^a]"
    assert char_class(((0x61, 0x7A),)) == "[a-z]"


def test_sets_behave_like_sets() -> None:
    seed = seed_of_test()
    draw = random.Random(seed)

    def some() -> tuple[tuple[int, int], ...]:
        starts = [draw.randrange(60) for _ in range(draw.randrange(5))]
        return union((start, start + draw.randrange(8)) for start in starts)

    def members(ranges: tuple[tuple[int, int], ...]) -> set[int]:
        return {code for first, last in ranges for code in range(first, min(last, 99) + 1)}

    for _ in range(200):
        one, other = some(), some()
        assert members(union([*one, *other])) == members(one) | members(other)
        assert members(complement(one)) == set(range(100)) - members(one)
        assert members(without(one, other)) == members(one) - members(other)
        assert complement(complement(one)) == one
    assert complement(()) == ((0, LAST),)


def test_alternatives() -> None:
    assert alternatives(["a"]) == alternatives(["a", "a"]) == "a"
    assert alternatives(["a", "b"]) == "(a | b)"
