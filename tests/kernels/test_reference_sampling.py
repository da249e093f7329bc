"""kernels.reference_sampling: survivors equal, as sets, those of a float64 sort; the race over pieces."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels import reference_sampling
from kernels.sample import sample, survivors
from tests.kernels.filters import FILTERS, Filter, survivors_oracle, tensors


def _survivor_sets(logits: Tensor, rows: list[Filter]) -> list[set[int]]:
    ids, x = survivors(logits, *tensors(rows))
    return [
        {int(i) for i, value in zip(ids[r], x[r], strict=True) if value > -math.inf} for r in range(len(rows))
    ]


@pytest.mark.parametrize("vocab", [5, 257, 5003])
@pytest.mark.parametrize("spread", [0.2, 3.0])
def test_survivors_equal_a_float64_sort(seed: int, vocab: int, spread: float) -> None:
    logits = torch.randn(len(FILTERS), vocab) * spread
    expected = [survivors_oracle(logits[r], row) for r, row in enumerate(FILTERS)]
    assert _survivor_sets(logits, FILTERS) == expected


@pytest.mark.parametrize("vocab", [40, 1500])
def test_survivors_among_ties_go_by_lower_id(seed: int, vocab: int) -> None:
    logits = torch.randint(-3, 4, (len(FILTERS), vocab)).float()
    expected = [survivors_oracle(logits[r], row) for r, row in enumerate(FILTERS)]
    assert _survivor_sets(logits, FILTERS) == expected
    flat = torch.zeros(2, vocab)
    assert _survivor_sets(flat, [Filter(top_k=3), Filter(top_p=4 / vocab)])[0] == {0, 1, 2}


def test_banned_tokens_never_survive(seed: int) -> None:
    logits = torch.randn(len(FILTERS), 600)
    logits[:, 2:] = -math.inf
    expected = [survivors_oracle(logits[r], row) for r, row in enumerate(FILTERS)]
    assert _survivor_sets(logits, FILTERS) == expected
    assert all(row <= {0, 1} for row in expected)


def test_race_over_pieces_equals_race_over_survivors(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_sampling, "_RACE_PIECE", 64)
    logits = torch.randn(5, 501)
    seeds, positions = torch.arange(5), torch.arange(5)
    plain = sample(logits, *tensors([Filter()] * 5), seeds, positions)
    assert torch.equal(plain, sample(logits, *tensors([Filter(top_k=501)] * 5), seeds, positions))
