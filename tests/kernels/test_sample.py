"""kernels.sample: the race by chi-square, greedy rows, independence of the batch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.sample import sample
from tests.kernels.filters import FILTERS, Filter, survivors_oracle, tensors

RARE = 10


def _draw(logits: Tensor, row: Filter, count: int, seed: int, position: int = 0) -> Tensor:
    """`count` samples of one logit row, from consecutive seeds."""
    batch = logits.expand(count, -1)
    seeds = torch.arange(seed, seed + count)
    return sample(batch, *tensors([row] * count), seeds, torch.full((count,), position))


@pytest.mark.parametrize(
    "row", [Filter(), Filter(temperature=0.6), Filter(top_k=9), Filter(top_p=0.8), Filter(min_p=0.1)]
)
def test_race_draws_the_softmax(seed: int, row: Filter) -> None:
    vocab, count = 21, 20_000
    logits = torch.randn(vocab) * 1.5
    allowed = sorted(survivors_oracle(logits, row))
    probabilities = torch.zeros(vocab, dtype=torch.float64)
    probabilities[allowed] = torch.softmax(logits[allowed].double() / row.temperature, 0)
    drawn = torch.bincount(_draw(logits, row, count, seed), minlength=vocab).double()
    assert not drawn[probabilities == 0].any()
    if len(allowed) == 1:
        assert drawn[allowed[0]] == count
        return
    expected, found = probabilities[allowed] * count, drawn[allowed]
    chi_square, freedom = _chi_square(expected, found)
    # Wilson-Hilferty's normal approximation; 4.5 deviations is one false alarm in 300,000.
    assert freedom > 0
    deviation = ((chi_square / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert deviation < 4.5, (chi_square, freedom)


def _chi_square(expected: Tensor, found: Tensor) -> tuple[float, int]:
    """With its degrees of freedom. What is expected a few times only is counted together with the next likelier: one draw
    more would be many deviations of its own."""
    order = expected.argsort()
    num_pooled = int((expected < RARE).sum()) + 1
    expected, found = expected[order], found[order]
    expected = torch.cat((expected[:num_pooled].sum().view(1), expected[num_pooled:]))
    found = torch.cat((found[:num_pooled].sum().view(1), found[num_pooled:]))
    return float(((found - expected) ** 2 / expected).sum()), len(expected) - 1


def test_positions_are_independent(seed: int) -> None:
    logits, count = torch.zeros(4), 20_000
    first, second = _draw(logits, Filter(), count, seed, 3), _draw(logits, Filter(), count, seed, 4)
    pairs = torch.bincount(first * 4 + second, minlength=16).double()
    chi_square = float(((pairs - count / 16) ** 2 / (count / 16)).sum())
    assert chi_square < 60, "15 degrees of freedom: one false alarm in a million"


def test_a_row_does_not_depend_on_its_batch(seed: int) -> None:
    logits = torch.randn(len(FILTERS), 700) * 2
    seeds, positions = torch.randint(0, 2**62, (len(FILTERS),)), torch.randint(0, 1000, (len(FILTERS),))
    together = sample(logits, *tensors(FILTERS), seeds, positions)
    for r, row in enumerate(FILTERS):
        one = slice(r, r + 1)
        assert sample(logits[one], *tensors([row]), seeds[one], positions[one]) == together[r]


def test_temperature_zero_takes_the_highest_logit_lowest_id(seed: int) -> None:
    logits = torch.randn(3, 50)
    logits[1, [7, 30]] = 9.0
    rows = [Filter(temperature=0.0, top_k=5, top_p=0.3), Filter(temperature=0.0), Filter()]
    out = sample(logits, *tensors(rows), torch.arange(3), torch.arange(3))
    assert out[0] == logits[0].argmax()
    assert out[1] == 7
