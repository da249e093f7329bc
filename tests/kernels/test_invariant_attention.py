"""kernels.invariant_attention: the values of the reference, and the same bits whatever else is in the step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.host_plan import PageShape
from kernels.invariant_attention import TILE, build_invariant_plans, invariant_attention
from tests.kernels.oracles import PagedCase, paged_case

pytestmark = pytest.mark.usefixtures("seed")
ROWS = [(1, 17), (1, 1), (23, 300), (9, 64), (1, 65), (130, 130), (6, 33)]
"""(queries, keys) of each row."""


def _attend(
    case: PagedCase, rows: list[int], counts: list[int], window: int | None, soft_cap: float | None
) -> list[Tensor]:
    """The last `counts` queries of some rows in one step."""
    starts, lens = case.query_start.tolist(), case.seq_lens.tolist()
    q = torch.cat(
        [case.q[starts[row + 1] - count : starts[row + 1]] for row, count in zip(rows, counts, strict=True)]
    )
    begins = [sum(counts[:index]) for index in range(len(counts) + 1)]
    (plan,) = build_invariant_plans(
        PageShape.of(case.kv), case.block_table[None, rows], begins, [lens[row] for row in rows], [window]
    )
    out = invariant_attention(q, case.kv, 0.3, soft_cap, plan)
    return [out[begin : begin + count] for begin, count in zip(begins, counts, strict=False)]


@pytest.mark.parametrize("soft_cap", [None, 5.0])
@pytest.mark.parametrize("window", [None, 1, 20, 100])
@pytest.mark.parametrize("heads", [(4, 2), (3, 1)])
def test_values_and_bits(heads: tuple[int, int], window: int | None, soft_cap: float | None) -> None:
    case = paged_case(ROWS, heads=heads, dim=16, dtype=torch.float32, window=window)
    counts = [count for count, _ in ROWS]
    together = _attend(case, list(range(len(ROWS))), counts, window, soft_cap)
    expected = reference.paged_attention(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.3, window, soft_cap
    )
    assert torch.allclose(torch.cat(together), expected, atol=1e-5)
    for row, count in enumerate(counts):
        for fewer in {1, count // 2 or 1, min(count, TILE + 1)}:
            (alone,) = _attend(case, [row], [fewer], window, soft_cap)
            assert torch.equal(alone, together[row][-fewer:]), (row, fewer)


def test_an_fp8_pool_is_scaled() -> None:
    case = paged_case([(3, 40)], heads=(4, 2), dim=16, dtype=torch.float32)
    scales = torch.tensor([[0.5, 2.0], [3.0, 0.25]])
    (plan,) = build_invariant_plans(PageShape.of(case.kv), case.block_table[None], [0, 3], [40], [None])
    found = invariant_attention(case.q, case.kv, 0.3, None, plan, scales)
    expected = reference.paged_attention(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.3, kv_scale=scales
    )
    assert torch.allclose(found, expected, atol=1e-5)
