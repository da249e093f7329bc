"""kernels.paged_attention against a per-query float64 softmax, on pools full of NaN."""

from __future__ import annotations

import pytest
import torch

from kernels.paged_attention import paged_attention
from tests.kernels import oracles
from tests.kernels.oracles import PagedCase, paged_case

pytestmark = pytest.mark.usefixtures("seed")

MIXED = [(1, 1), (1, 16), (1, 17), (1, 131), (1, 300), (3, 3), (7, 40), (33, 33), (20, 97)]


def _check(case: PagedCase, scale: float, window: int | None, soft_cap: float | None) -> None:
    out = paged_attention(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, scale, window, soft_cap
    )
    assert out.dtype == case.q.dtype
    starts = case.query_start.tolist()
    for row, (keys, values) in enumerate(zip(case.keys, case.values, strict=True)):
        span = slice(starts[row], starts[row + 1])
        expected = oracles.attention_row(case.q[span], keys, values, scale, window, soft_cap)
        oracles.assert_close(out[span], expected)


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("window", [None, 1, 5, 16, 32, 1000])
def test_mixed_rows(dtype: torch.dtype, window: int | None) -> None:
    case = paged_case(MIXED, heads=(6, 2), dim=24, dtype=dtype, window=window)
    _check(case, 24**-0.5, window, None)


@pytest.mark.parametrize("window", [None, 20])
def test_soft_cap(window: int | None) -> None:
    case = paged_case(MIXED, heads=(4, 4), dim=16, dtype=torch.float32, window=window)
    _check(case, 1.0, window, 3.0)


@pytest.mark.parametrize("heads", [(4, 1), (5, 5), (8, 2)])
def test_head_groups(heads: tuple[int, int]) -> None:
    case = paged_case([(1, 50), (1, 9), (11, 30)], heads=heads, dim=40, dtype=torch.float32)
    _check(case, 0.3, None, None)


def test_layer_inside_a_page() -> None:
    case = paged_case([(1, 50), (18, 35)], heads=(4, 2), dim=8, dtype=torch.float32, layer=(2, 4))
    _check(case, 0.5, None, None)


def test_padding_tokens_and_empty_rows_are_left_alone() -> None:
    case = paged_case([(1, 20), (4, 9)], heads=(2, 1), dim=8, dtype=torch.float32)
    padded = torch.cat((case.q, torch.full((3, 2, 8), float("nan"))))
    starts = torch.cat((case.query_start, case.query_start[-1:]))
    lens = torch.cat((case.seq_lens, torch.zeros(1, dtype=torch.int32)))
    table = torch.cat((case.block_table, torch.full_like(case.block_table[:1], -1)))
    out = paged_attention(padded, case.kv, table, starts, lens, 0.4)
    assert not out[5:].any()
    plain = paged_attention(case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.4)
    assert torch.equal(out[:5], plain)


def test_very_different_lengths_of_single_queries() -> None:
    case = paged_case([(1, 1), (1, 2000), (1, 70), (1, 513)], heads=(4, 1), dim=16, dtype=torch.float32)
    _check(case, 0.25, None, None)
