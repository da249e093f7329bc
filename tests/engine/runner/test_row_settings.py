"""engine.runner.row_settings: flags, seeds and edits of one row. Errors are in test_sampler.py."""

from __future__ import annotations

import math

import pytest
import torch

from engine.messages import SamplingParams
from engine.runner.row_settings import RowSettings

TOKENS = torch.arange(40, dtype=torch.int32)
"""The row's tokens: a prompt of 10, then 10, 11, 12 …"""


def _of(**settings: object) -> RowSettings:
    params = SamplingParams(**({"seed": 1, "max_tokens": 9} | settings))  # type: ignore[arg-type]  # test shorthand
    return RowSettings.of(params, 10, 20, (1,), torch.device("cpu"))


def test_flags() -> None:
    plain = _of(temperature=0)
    assert (plain.greedy, plain.penalised, plain.has_edits) == (True, False, False)
    assert not _of().greedy
    for name, value in (("repetition_penalty", 1.1), ("presence_penalty", -1), ("frequency_penalty", 0.1)):
        assert _of(**{name: value}).penalised
    for settings in (
        {"logit_bias": {1: 1.0}},
        {"allowed_token_ids": (1,)},
        {"min_tokens": 1},
        {"bad_words": ((1,),)},
    ):
        assert _of(**settings).has_edits


@pytest.mark.parametrize(
    ("seed", "signed"), [(0, 0), (7, 7), (2**63, -(2**63)), (2**64 - 1, -1), (2**64 + 5, 5), (-3, -3)]
)
def test_seed_is_a_signed_64_bit_word(seed: int, signed: int) -> None:
    assert _of(seed=seed).seed == signed


def test_edit_leaves_only_what_is_allowed() -> None:
    logits = torch.arange(20.0)
    _of(allowed_token_ids=(2, 5), logit_bias={5: -1.5, 9: 3.0}, min_tokens=2).edit(logits, 12, TOKENS)
    assert logits[2] == 2
    assert logits[5] == 3.5
    assert [i for i, value in enumerate(logits.tolist()) if value > -math.inf] == [2, 5]


def test_end_tokens_are_banned_up_to_the_last_needed_token() -> None:
    settings = _of(min_tokens=2)
    for length, banned in ((10, True), (11, True), (12, False)):
        logits = torch.zeros(20)
        settings.edit(logits, length, TOKENS)
        assert (logits[1] == -math.inf) == banned
        assert (logits == -math.inf).sum() == banned


@pytest.mark.parametrize(
    ("word", "banned"),
    [
        ((3,), True),
        ((12, 3), True),
        ((11, 12, 3), True),
        ((10, 11, 12, 3), True),
        ((11, 3), False),
        ((12, 12, 3), False),
        ((9, 10, 11, 12, 3), False),  # 9 stands in the prompt
    ],
)
def test_a_bad_word_loses_its_last_token_where_the_answer_ends_with_the_others(
    word: tuple[int, ...], banned: bool
) -> None:
    logits = torch.zeros(20)
    _of(bad_words=((7, 8, 9), word)).edit(logits, 13, TOKENS)
    assert (logits[3] == -math.inf) == banned
    assert (logits == -math.inf).sum() == banned
