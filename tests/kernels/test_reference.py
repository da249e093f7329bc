"""kernels.reference: what only the plain torch version does. The ops' formulas are in test_<op>.py."""

from __future__ import annotations

import torch

from kernels.reference import _gather_row


def test_gathered_keys_are_dense_and_in_table_order() -> None:
    pool = torch.randn(6, 3, 2, 2, 16, 4)
    table = torch.tensor([[-1, 5, 0], [2, 3, 1]], dtype=torch.int32)
    keys, values, first = _gather_row(pool[:, 1], table, row=0, length=39, num_queries=2, window=20)
    assert first == 16
    assert keys.shape == values.shape == (2, 23, 4)
    assert torch.equal(keys[:, :16], pool[5, 1, 0])
    assert torch.equal(values[:, 16:], pool[0, 1, 1, :, :7])
