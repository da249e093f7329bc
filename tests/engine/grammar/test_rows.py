"""Which tokens a row may say next."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from engine.grammar import rows
from engine.grammar.rows import GrammarError, RowGrammar, bits, unpack
from tests.grammars import EOS, VOCAB, bound, ids, text_of, tokenizer
from tests.seeds import seed_of_test


def _row(kind: str, text: str, outputs: list[int] | None = None, **settings: object) -> RowGrammar:
    return RowGrammar(bound(kind, text).compiled, VOCAB, outputs or [], **settings)  # type: ignore[arg-type]


def _possible(row: RowGrammar, length: int = 10) -> set[int]:
    return set(np.flatnonzero(unpack(row.mask(length), VOCAB)).tolist())


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 515])
def test_bits(vocab_size: int) -> None:
    chosen = sorted({0, vocab_size // 2, vocab_size - 1})
    words = bits(vocab_size, chosen)
    assert words.dtype == np.int32
    assert words.shape == (-(-vocab_size // 32),)
    assert np.flatnonzero(unpack(words, vocab_size)).tolist() == chosen


def test_only_what_can_follow() -> None:
    row = _row("regex", "a[bc]")
    spelled = {token: tokenizer().token_bytes(token) for token in _possible(row)}
    assert set(spelled.values()) <= {b"a", b"ab", b"ac"}
    assert b"a" in spelled.values()
    row.accept(ids("a")[0])
    assert {tokenizer().token_bytes(token) for token in _possible(row)} == {b"b", b"c"}
    row.accept(ids("b")[0])
    assert _possible(row) == set(EOS), "the end, and nothing else"
    row.accept(EOS[0])
    row.accept(ids("x")[0])
    assert (row.mask(13) == -1).all(), "what comes after the end does not matter"


def test_an_end_token_is_possible_only_when_the_answer_is_complete() -> None:
    row = _row("regex", "a+")
    assert not _possible(row) & set(EOS)
    row.accept(ids("a")[0])
    assert _possible(row) > set(EOS)


def test_special_tokens_and_padding_are_never_possible() -> None:
    row = _row("regex", "(.|\n)*")
    assert _possible(row) & tokenizer().special_ids == set(EOS)
    assert max(_possible(row)) < tokenizer().vocab_size < VOCAB


def test_outputs_so_far_are_replayed() -> None:
    outputs = ids("harbour-4")
    resumed, row = _row("regex", "[a-z]+-[0-9]{2}", outputs), _row("regex", "[a-z]+-[0-9]{2}")
    for token in outputs:
        row.accept(token)
    assert _possible(resumed) == _possible(row)
    assert {tokenizer().token_bytes(token)[:1].isdigit() for token in _possible(resumed)} == {True}


def test_the_callers_list_narrows_the_mask_and_may_empty_it() -> None:
    digits = [ids(char)[0] for char in "012"]
    row = _row("regex", "[0-9]{2}", allowed=(*digits, ids("x")[0], *EOS))
    assert _possible(row) == set(digits)
    row.accept(digits[0])
    row.accept(digits[1])
    assert _possible(row) == set(EOS)
    without_end = _row("regex", "[0-9]{2}", digits[:2], allowed=digits)
    with pytest.raises(GrammarError, match="no token can follow"):
        without_end.mask(12)


def test_min_tokens_holds_as_long_as_anything_else_can_follow() -> None:
    a, b = ids("a")[0], ids("b")[0]
    row = _row("regex", "a+b?", [a], end_ids={*EOS, b}, min_len=14)
    assert not _possible(row, 13) & {*EOS, b}
    assert _possible(row, 14) >= {*EOS, b}
    done = _row("choice", '["a"]', [a], end_ids=EOS, min_len=14)
    assert _possible(done, 11) == set(EOS)


def test_a_token_outside_the_grammar_fails_the_row() -> None:
    row = _row("regex", "a+", ids("b"))
    with pytest.raises(GrammarError, match="outside its grammar"):
        row.mask(11)


def test_a_grammar_that_takes_too_long_fails_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TOKEN_S", -0.1)
    row = _row("regex", "a+")
    row.mask(11)
    row.accept(ids("a")[0])
    with pytest.raises(GrammarError, match="too long"):
        row.mask(12)


@pytest.mark.parametrize(
    "pattern", ["[a-z]{3,9}@(sea|sky)\\.(com|org)", "(ab|a)*c", "[é€]{2}", "\\d{1,3}(\\.\\d{1,3}){3}"]
)
def test_random_walks_end_inside_the_language(pattern: str) -> None:
    seed = seed_of_test()
    draw = random.Random(seed)
    for _ in range(10):
        row, said = _row("regex", pattern), []
        while not said or said[-1] not in EOS:
            said.append(draw.choice(sorted(_possible(row))))
            row.accept(said[-1])
        assert re.fullmatch(pattern, text_of(said)), said
