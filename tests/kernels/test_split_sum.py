"""The last program to arrive has the sum of all parts, in their order."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.split_sum import sum_parts

TILES, SPLITS, ROWS, COLUMNS = 3, 4, 16, 8


@triton.jit
def _sum_all(x, partial, arrived, y, count, SPLITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    tile, part, tiles = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    inner = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    acc = tl.load(x + (part * tiles + tile) * ROWS * COLUMNS + inner)
    acc, last = sum_parts(acc, partial, arrived, tile, part, tiles, SPLITS)
    if last:
        tl.store(y + tile * ROWS * COLUMNS + inner, acc)
        tl.atomic_add(count, 1)


def test_one_program_of_a_tile_has_the_sum_in_the_order_of_the_parts(seed: int) -> None:
    x = torch.randn(SPLITS, TILES, ROWS, COLUMNS)
    partial = torch.full_like(x, float("nan"))
    arrived, count = torch.zeros(TILES, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    expected = torch.zeros(TILES, ROWS, COLUMNS)
    for part in x:
        expected = expected + part
    for _ in range(2):  # the counters are left as they were found
        y = torch.full((TILES, ROWS, COLUMNS), float("nan"))
        _sum_all[(TILES, SPLITS)](x, partial, arrived, y, count, SPLITS=SPLITS, ROWS=ROWS, COLUMNS=COLUMNS)
        assert torch.equal(y, expected)
        assert arrived.tolist() == [0] * TILES
    assert count.item() == 2 * TILES
