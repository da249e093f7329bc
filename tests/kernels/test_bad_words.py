"""kernels.bad_words against a loop over the words."""

from __future__ import annotations

import random

import pytest
import torch

from kernels.bad_words import MAX_WORD_TOKENS, MAX_WORDS, forbid_words, pack_words
from kernels.sampling_table import pack_row, pack_rows

VOCAB, POSITIONS, PROMPT = 61, 50, 7


def _expected(word: list[int], answer: list[int]) -> bool:
    return len(word) == 1 or answer[1 - len(word) :] == word[:-1]


@pytest.mark.parametrize("length", [PROMPT, PROMPT + 1, PROMPT + 3, PROMPT + 30])
def test_matches_a_loop(seed: int, length: int) -> None:
    """A line full of words, one with few, one with none and a padded one. A word begun in the prompt does not count."""
    draw = random.Random(seed)
    tokens = torch.tensor(
        [[draw.randrange(4) for _ in range(POSITIONS)] for _ in range(3)], dtype=torch.int32
    )
    words = [
        [
            [*(draw.randrange(4) for _ in range(draw.randrange(size))), draw.randrange(VOCAB)]
            for size in (1, 2, 3, MAX_WORD_TOKENS) * (count // 4)
        ]
        for count in (MAX_WORDS, 8, 0)
    ]
    before = tokens[1, length - 3 : length].tolist()
    words[1] += [[*before, 17], [*before[1:], 18], [*before[2:], 19], [20]]
    table = pack_rows([pack_row(prompt_len=PROMPT, num_bad_words=len(row)) for row in words])
    lines = torch.full((3, MAX_WORDS, MAX_WORD_TOKENS), 7, dtype=torch.int32)
    for line, row in zip(lines, words, strict=True):
        if row:
            line[: len(row)] = pack_words(row)
    order = [1, 0, -1, 2]
    raw = torch.randn(len(order), VOCAB)
    logits = raw.clone()
    device = torch.get_default_device()
    forbid_words(
        logits, torch.tensor(order, dtype=torch.int32), torch.full((4,), length, dtype=torch.int32),
        table.to(device), lines.to(device), tokens,
    )  # fmt: skip
    for place, row in enumerate(order):
        answer = tokens[row, PROMPT:length].tolist()
        banned = {word[-1] for word in words[row] if _expected(word, answer)} if row >= 0 else set()
        found = {index for index in range(VOCAB) if logits[place, index] == -torch.inf}
        assert found == banned, (place, row, seed)
        kept = [index for index in range(VOCAB) if index not in banned]
        assert torch.equal(logits[place, kept], raw[place, kept])
    if length >= PROMPT + 3:
        assert {17, 18, 19, 20} <= {index for index in range(VOCAB) if logits[0, index] == -torch.inf}
