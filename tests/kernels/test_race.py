"""kernels.race: the same tokens as the plain sampler, by chi-square and by name; rows that have nothing to choose."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.race import allocate_race, run_race
from kernels.sample import sample
from kernels.survivors import allocate_survivors, find_survivors
from tests.kernels.filters import FILTERS, Filter, table, tensors

GREEDY = Filter(temperature=0.0)


def _draw(
    logits: Tensor, rows: list[Filter], seeds: Tensor, positions: Tensor, piece: int = 64, group: int = 32
) -> Tensor:
    count, vocab = logits.shape
    lines = torch.arange(count, dtype=torch.int32)
    settings = table(rows, seed=seeds.tolist())
    cuts = allocate_survivors(count, vocab, logits.device, piece=piece)
    find_survivors(cuts, logits, lines, settings, chunk=32)
    out = torch.full((count,), -7, dtype=torch.int32)
    race = allocate_race(count, vocab, logits.device, piece=piece)
    run_race(race, logits, lines, positions.int(), settings, cuts.cut, cuts.last, out, group=group)
    return out


def test_equals_the_plain_sampler(seed: int) -> None:
    rows = [*FILTERS, GREEDY, Filter(temperature=1.3), Filter(temperature=0.2)]
    logits = torch.randn(len(rows), 201) * 2
    seeds, positions = torch.randint(-(2**63), 2**63 - 1, (len(rows),)), torch.randint(0, 5000, (len(rows),))
    expected = sample(logits, *tensors(rows), seeds, positions)
    assert torch.equal(_draw(logits, rows, seeds, positions).long(), expected)


def test_equals_the_plain_sampler_at_the_sizes_in_use(seed: int) -> None:
    rows = [Filter(), Filter(top_k=30), GREEDY]
    logits = torch.randn(3, 9001)
    seeds, positions = torch.randint(0, 2**62, (3,)), torch.randint(0, 5000, (3,))
    drawn = _draw(logits, rows, seeds, positions, piece=8192, group=1024)
    assert torch.equal(drawn.long(), sample(logits, *tensors(rows), seeds, positions))


@pytest.mark.parametrize("row", [Filter(temperature=0.8), Filter(top_k=4)])
def test_draws_the_softmax(seed: int, row: Filter) -> None:
    count = 250
    logits = torch.tensor([[1.0, 0.5, 0.0, 1.2, -0.3, -9.0]])
    kept = logits[0].sort(descending=True).indices[: row.top_k or 5]
    expected = torch.softmax(logits[0, kept].double() / row.temperature, 0) * count
    cuts = allocate_survivors(1, 6, logits.device)
    find_survivors(cuts, logits, torch.zeros(1, dtype=torch.int32), table([row]))
    drawn, places = torch.zeros(count, dtype=torch.int32), torch.arange(count, dtype=torch.int32)
    run_race(
        allocate_race(count, 6, logits.device), logits.expand(count, -1).contiguous(), places, places,
        table([row] * count, seed=range(seed, seed + count)), cuts.cut.expand(count).contiguous(),
        cuts.last.expand(count).contiguous(), drawn, group=8,
    )  # fmt: skip
    counted = torch.bincount(drawn, minlength=6)[kept].double()
    # A token of probability 2e-5 may turn up; the others fill the draws.
    assert counted.sum() >= count - 2
    chi_square = float(((counted - expected) ** 2 / expected).sum())
    assert chi_square < 37, "at most 4 degrees of freedom: one false alarm in five million"


def test_greedy_takes_the_highest_and_of_equals_the_first() -> None:
    logits = torch.zeros(2, 150)
    logits[0, [60, 100, 140]] = 3.0
    assert _draw(logits, [GREEDY, GREEDY], torch.zeros(2), torch.zeros(2)).tolist() == [60, 0]


@pytest.mark.parametrize("poison", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("row", [GREEDY, Filter(), Filter(top_k=5), Filter(top_p=0.5), Filter(min_p=0.1)])
def test_a_row_without_a_usable_logit_gives_none(seed: int, row: Filter, poison: float) -> None:
    logits = torch.randn(3, 100)
    logits[1] = poison
    drawn = _draw(logits, [row] * 3, torch.arange(3), torch.arange(3))
    assert (drawn >= 0).tolist() == [True, False, True]
    if not poison < 0:
        logits = torch.randn(1, 100)
        logits[0, 80] = poison
        assert _draw(logits, [row], torch.arange(1), torch.arange(1)).tolist() == [-1]


def test_padding_is_left_alone(seed: int) -> None:
    logits = torch.randn(2, 100)
    settings, out = table([GREEDY]), torch.full((2,), -7, dtype=torch.int32)
    lines, zeros = torch.tensor([-1, 0], dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    run_race(allocate_race(2, 100, logits.device), logits, lines, zeros, settings, zeros, zeros, out)
    assert out.tolist() == [-7, int(logits[1].argmax())]
