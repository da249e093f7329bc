"""kernels.peaks against torch's own argmax and topk, with ties, infinities and shapes that do not divide."""

from __future__ import annotations

import pytest
import torch

from kernels.peaks import argmax, top_ids

pytestmark = pytest.mark.usefixtures("seed")

SHAPES = [(0, 4096), (1, 4096), (3, 65_536), (2, 65_535), (2, 100), (5, 2048)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [3, 100_000])
def test_argmax_takes_the_lowest_of_equal_ids(shape: tuple[int, int], levels: int) -> None:
    logits = torch.randint(levels, shape).float()
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert argmax(logits).tolist() == expected


def test_argmax_finds_what_is_not_a_number_as_torch_does() -> None:
    logits = torch.randn(2, 8192)
    logits[0, 5000] = float("nan")
    logits[1] = float("-inf")
    assert torch.equal(argmax(logits), logits.argmax(dim=-1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [3, 100_000])
@pytest.mark.parametrize("count", [1, 2, 20])
def test_top_ids_are_distinct_and_the_highest(shape: tuple[int, int], levels: int, count: int) -> None:
    logits = torch.randint(levels, shape).float()
    logits[:, ::3] = float("-inf")
    found = top_ids(logits, count)
    assert found.shape == (shape[0], count)
    assert all(len(set(row)) == count for row in found.tolist())
    values = logits.gather(1, found).sort(dim=-1, descending=True).values
    assert torch.equal(values, logits.topk(count, dim=-1).values)


def test_a_slice_of_wider_rows_is_searched_too() -> None:
    logits = torch.randn(3, 8192)[:, :4096]
    assert torch.equal(argmax(logits), logits.contiguous().argmax(dim=-1))
    assert torch.equal(top_ids(logits, 4).sort().values, logits.topk(4).indices.sort().values)
