"""kernels.last_survivor: the last survivor of a list in any order, with tokens and weight outside the list."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.last_survivor import cut_listed
from tests.kernels.filters import Filter, survivors_oracle, table


def _keys(logits: Tensor) -> Tensor:
    bits = logits.view(torch.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _last(logits: Tensor, row: Filter, hidden_above: int, hidden_below: int) -> int:
    """The last survivor, when the first and the last ranks are not listed."""
    ranks = logits.sort(descending=True, stable=True).indices
    listed = ranks[hidden_above : len(ranks) - hidden_below]
    weights = ((logits - logits.max()).double() / row.temperature).exp()
    ends = torch.tensor([[0, 0, hidden_above, 0]], dtype=torch.int32)
    ends[0, 0], ends[0, 1] = _keys(logits)[listed].min(), _keys(logits)[listed].max()
    outside = torch.stack(
        (weights[ranks[:hidden_above]].sum(), weights[ranks[len(ranks) - hidden_below :]].sum())
    )
    padded = torch.zeros(1, len(logits), dtype=torch.int32)
    padded[0, : len(listed)] = listed[torch.randperm(len(listed))].int()
    cut, last = torch.zeros(2, 1, dtype=torch.int32)
    cut_listed(
        logits[None], torch.zeros(1, dtype=torch.int32), table([row]), logits.max()[None, None], ends, outside[None],
        padded, torch.tensor([len(listed)], dtype=torch.int32), cut, last, chunk=16,
    )  # fmt: skip
    assert _keys(logits)[last[0]] == cut[0]
    return int(last[0])


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("by_weight", [False, True])
@pytest.mark.parametrize("all_listed", [False, True])
def test_equals_a_sort(seed: int, all_listed: bool, by_weight: bool, temperature: float, tied: bool) -> None:
    logits = torch.cat((torch.arange(-2.0, 2.0), torch.randint(-2, 2, (56,)))) if tied else torch.randn(60)
    logits = logits[torch.randperm(60)]
    values, ranks = logits.sort(descending=True, stable=True)
    # Whole groups of ties are listed or not.
    above, below = int((values == values[0]).sum()), int((values == values[-1]).sum())
    place = int(torch.randint(above, 60 - below, ()))
    row = Filter(top_k=place + 1)
    if by_weight:
        weights = ((values - values[0]).double() / temperature).exp()
        share = (weights[:place].sum() + weights[place] / 2) / weights.sum()
        row = Filter(top_p=float(share), temperature=temperature)
    assert len(survivors_oracle(logits, row)) == place + 1
    assert _last(logits, row, *((0, 0) if all_listed else (above, below))) == ranks[place]


def test_a_lone_token_is_the_last() -> None:
    logits = torch.tensor([-math.inf, -5.0, -math.inf])
    ends = torch.tensor([[0, 0, 0, 0]], dtype=torch.int32)
    ends[0, :2] = _keys(logits)[1]
    cut, last = torch.zeros(2, 1, dtype=torch.int32)
    cut_listed(
        logits[None], torch.zeros(1, dtype=torch.int32), table([Filter(top_p=0.0)]), logits.max()[None, None], ends,
        torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 3, dtype=torch.int32),
        torch.ones(1, dtype=torch.int32), cut, last, chunk=16,
    )  # fmt: skip
    assert (cut[0], last[0]) == (_keys(logits)[1], 1)
