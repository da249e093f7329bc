"""kernels.survivors: the same sets as a float64 sort, whatever the row's shape and the sizes of the search."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.survivors import allocate_survivors, find_survivors
from tests.kernels.filters import FILTERS, Filter, close_enough, table

FILTERED = [row for row in FILTERS if row != Filter()]
TIGHT = {"piece": 64, "chunk": 64, "small": 16}
"""Several pieces and chunks, and the second histogram, in a small vocabulary."""


def _keys(logits: Tensor) -> Tensor:
    bits = torch.where(logits == 0, 0.0, logits).view(torch.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _survivor_sets(logits: Tensor, rows: list[Filter], piece: int = 8192, **sizes: int) -> list[set[int]]:
    count, vocab = logits.shape
    out = allocate_survivors(count, vocab, logits.device, piece=piece)
    order = torch.arange(count, dtype=torch.int32)
    # What the step before left behind.
    out.num_listed.fill_(5)
    find_survivors(out, logits, order, table(rows), **sizes)
    keys, ids = _keys(logits), torch.arange(vocab)
    kept = (keys > out.cut[:, None]) | ((keys == out.cut[:, None]) & (ids <= out.last[:, None]))
    return [set(row.nonzero()[:, 0].tolist()) for row in kept]


def _check(logits: Tensor, rows: list[Filter], **sizes: int) -> None:
    for row, found, line in zip(rows, _survivor_sets(logits, rows, **sizes), logits, strict=True):
        assert close_enough(found, line, row), (row, len(found))


def _banned(count: int, vocab: int) -> Tensor:
    return torch.where(torch.arange(vocab) < 2, torch.randn(count, vocab), -math.inf)


SHAPES: dict[str, Callable[[int, int], Tensor]] = {
    "flat": lambda count, vocab: torch.randn(count, vocab) * 0.2,
    "peaked": lambda count, vocab: torch.randn(count, vocab) * 4,
    "rounded": lambda count, vocab: torch.randn(count, vocab).bfloat16().float(),
    "ties": lambda count, vocab: torch.randint(-3, 4, (count, vocab)).float(),
    "equal": lambda count, vocab: torch.zeros(count, vocab),
    "banned": _banned,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_a_float64_sort(seed: int, shape: str) -> None:
    rows = [row for row in FILTERED if row.top_k < 100]
    _check(SHAPES[shape](len(rows), 110), rows, **TIGHT)


@pytest.mark.parametrize("shape", ["flat", "peaked"])
def test_equal_a_float64_sort_at_the_sizes_in_use(seed: int, shape: str) -> None:
    rows = [
        Filter(top_k=1500, top_p=0.7),
        Filter(top_p=0.98),
        Filter(top_k=3000),
        Filter(top_k=50, top_p=0.95),
    ]
    _check(SHAPES[shape](len(rows), 9000), rows)


def test_extremes(seed: int) -> None:
    rows = [
        Filter(top_k=1),
        Filter(top_k=1, top_p=0.5, min_p=0.5),
        Filter(top_k=98),
        Filter(top_k=98, temperature=0.001),
        Filter(top_p=0.0),
        Filter(top_p=1e-9, temperature=2.0),
        Filter(top_p=1 - 1e-12),
        Filter(min_p=1.0),
        Filter(min_p=1e-30, top_p=0.5),
        Filter(top_k=5, temperature=0.01),
        Filter(top_p=0.9, temperature=0.01),
    ]
    _check(torch.randn(len(rows), 99) * 3, rows, **TIGHT)
    _check(torch.full((len(rows), 99), -7.5), rows, **TIGHT)
    lonely = torch.full((len(rows), 99), -math.inf)
    lonely[:, 70] = -3.0
    assert _survivor_sets(lonely, rows, **TIGHT) == [{70}] * len(rows)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_row_with_an_unusable_logit_has_no_survivor(seed: int, poison: float) -> None:
    rows = [Filter(top_k=3), Filter(top_p=0.5), Filter(min_p=0.1)]
    logits = torch.randn(3, 100)
    logits[:, 77] = poison
    out = _survivor_sets(torch.where(logits.isfinite(), logits, poison), rows, **TIGHT)
    # What is not a number is above every cut, and left to the race to refuse.
    assert all(not found - {77} for found in out)
    assert _survivor_sets(torch.full((3, 100), -math.inf), rows, **TIGHT) == [set()] * 3


def test_a_row_depends_on_nothing_but_itself(seed: int) -> None:
    logits = torch.randn(len(FILTERED), 80)
    together = _survivor_sets(logits, FILTERED, **TIGHT)
    out = allocate_survivors(3, 80, logits.device, piece=64)
    settings = table(FILTERED)
    for row in (3, 9):
        out.cut.fill_(7)
        find_survivors(
            out, logits[[0, row, 0]], torch.tensor([-1, row, -1], dtype=torch.int32), settings, small=16
        )
        assert out.cut[0] == out.cut[2] == 7, "rows that are none stay as they are"
        kept = (_keys(logits[row]) > out.cut[1]) | (
            (_keys(logits[row]) == out.cut[1]) & (torch.arange(80) <= out.last[1])
        )
        assert set(kept.nonzero()[:, 0].tolist()) == together[row]
