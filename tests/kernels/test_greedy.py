"""kernels.greedy against a loop over the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.greedy import choose_greedily_triton
from kernels.reference_sampling import choose_greedily

pytestmark = pytest.mark.usefixtures("seed")

Op = Callable[..., None]


def _in_small_pieces(*tensors: Tensor) -> None:
    choose_greedily_triton(*tensors, piece=64)


@pytest.fixture(params=[choose_greedily, choose_greedily_triton, _in_small_pieces])
def choose(request: pytest.FixtureRequest) -> Op:
    op: Op = request.param
    return op


def _expected(row: list[float]) -> int:
    best = max(range(len(row)), key=lambda token: (row[token], -token))
    return best if all(not math.isnan(value) for value in row) and math.isfinite(row[best]) else -1


@pytest.mark.parametrize("vocab", [5, 1000, 3333])
def test_finds_the_first_of_the_highest(choose: Op, vocab: int) -> None:
    # Few different values, so that the highest is there more than once.
    logits = torch.randint(-9, 9, (6, vocab)).float()
    logits[2] = -float("inf")
    logits[3, 1] = float("nan")
    logits[4, 3] = float("inf")
    logits[5, :-1] = -float("inf")
    token_ids = torch.full((6,), -77, dtype=torch.int32)
    tokens = torch.zeros(9, 40, dtype=torch.int32)
    rows = torch.tensor([3, 8, 0, 1, 5, -1], dtype=torch.int32)
    positions = torch.tensor([39, 0, 7, 7, 7, 0], dtype=torch.int32)
    expected = [_expected(row) for row in logits.tolist()]
    table = tokens.clone()
    for row, position, token in zip(rows.tolist(), positions.tolist(), expected, strict=True):
        if row >= 0:
            table[row, position] = max(token, 0)
    choose(logits, token_ids, tokens, rows, positions)
    assert token_ids.tolist() == expected
    assert expected[2:] == [-1, -1, -1, vocab - 1]
    assert torch.equal(tokens, table)
