"""kernels.reference: what only the plain torch version does. The ops' formulas are in test_<op>.py."""

from __future__ import annotations

import torch

from kernels.reference import _gather_pages, _length_buckets


def test_buckets_hold_every_row_once_and_bound_the_padding(seed: int) -> None:
    lens = torch.randint(1, 5000, (60,)).tolist()
    rows = list(range(0, 60, 2))
    for window in (None, 512):
        buckets = _length_buckets(rows, lens, window)
        assert sorted(row for bucket in buckets for row in bucket) == rows
        for bucket in buckets:
            visible = [min(lens[row], window or lens[row]) for row in bucket]
            assert max(visible) <= max(64, 2 * min(visible))


def test_gathered_pages_are_dense_and_in_table_order() -> None:
    pool = torch.randn(6, 3, 2, 2, 16, 4)
    pages = torch.tensor([[5, 0], [2, 2]], dtype=torch.int32)
    gathered = _gather_pages(pool[:, 1], pages)
    assert gathered.shape == (2, 2, 2, 32, 4)
    for row in range(2):
        for place in range(2):
            page = pool[pages[row, place], 1]
            assert torch.equal(gathered[:, row, :, place * 16 : place * 16 + 16], page)
