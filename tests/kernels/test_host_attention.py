"""kernels.host_attention: pools full of former owners' NaN, and one batch or several. Values are compared with
float64 in test_paged_attention."""

from __future__ import annotations

import pytest
import torch

from kernels.host_attention import paged_attention_host
from kernels.host_plan import PageShape, build_host_plans
from tests.kernels.oracles import paged_case

pytestmark = pytest.mark.usefixtures("seed")


@pytest.mark.parametrize("soft_cap", [None, 5.0])
def test_a_row_gives_the_same_alone_and_beside_others(soft_cap: float | None) -> None:
    case = paged_case([(1, 17), (1, 40), (1, 300), (6, 33)], heads=(4, 2), dim=16, dtype=torch.float32)
    starts, lens = case.query_start.tolist(), case.seq_lens.tolist()
    shape = PageShape.of(case.kv)
    (plan,) = build_host_plans(shape, case.block_table[None], starts, lens, [None])
    together = paged_attention_host(case.q, case.kv, 0.3, soft_cap, plan)
    assert together.isfinite().all()
    for row in range(4):
        span = slice(starts[row], starts[row + 1])
        table, count = case.block_table[None, row : row + 1], span.stop - span.start
        (alone,) = build_host_plans(shape, table, [0, count], lens[row : row + 1], [None])
        found = paged_attention_host(case.q[span], case.kv, 0.3, soft_cap, alone)
        assert torch.allclose(found, together[span], atol=1e-5)
