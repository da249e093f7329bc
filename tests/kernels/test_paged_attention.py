"""kernels.paged_attention against a per-query float64 softmax, on pools full of NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.attention_plan import allocate_plan, build_plan
from kernels.e4m3 import E4M3
from kernels.paged_attention import paged_attention as dispatched_attention
from kernels.paged_attention import paged_attention_triton
from tests.kernels import oracles
from tests.kernels.oracles import PagedCase, paged_case

pytestmark = pytest.mark.usefixtures("seed")

MIXED = [(1, 1), (1, 16), (1, 17), (1, 131), (1, 300), (3, 3), (7, 40), (33, 33), (20, 97)]


Op = Callable[..., Tensor]


@pytest.fixture(params=["reference", "host", "triton"])
def paged_attention(request: pytest.FixtureRequest) -> Op:
    ops = {"reference": reference.paged_attention, "host": dispatched_attention, "triton": _planned}
    return ops[request.param]


def _planned(
    q: Tensor,
    kv: Tensor,
    block_table: Tensor,
    query_start: Tensor,
    seq_lens: Tensor,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    kv_scale: Tensor | None = None,
    *,
    is_fixed: bool = False,
) -> Tensor:
    """The Triton path with tiles so small that short rows split; twice, to see that scratch is left clean."""
    if q.dtype == kv.dtype == torch.bfloat16 and not q.is_cuda:
        # Triton's interpreter multiplies bf16 tiles as if they were integers: it gets the same values as fp32.
        wide = _planned(
            q.float(), kv.float(), block_table, query_start, seq_lens, scale, window, soft_cap, is_fixed=is_fixed
        )  # fmt: skip
        return wide.to(q.dtype)
    plan = allocate_plan(
        seq_lens.shape[0] + 2, q.shape[0], q.shape[1], kv.shape[2], q.shape[2], q.device, window,
        programs=16, wide_rows=32, min_split=64, is_fixed=is_fixed,
    )  # fmt: skip
    plan.partial.fill_(float("nan"))
    plan.stats.fill_(float("nan"))
    for _ in range(2):
        build_plan(plan, query_start, seq_lens, block_table=block_table, page_size=kv.shape[3])
        out = paged_attention_triton(q, kv, block_table, scale, soft_cap, plan, kv_scale)
    assert not plan.arrived.any()
    return out


def _check(attend: Op, case: PagedCase, scale: float, window: int | None, soft_cap: float | None) -> None:
    out = attend(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, scale, window, soft_cap,
        kv_scale=case.kv_scale,
    )  # fmt: skip
    assert out.dtype == case.q.dtype
    oracles.check_attention(out, case, scale, window, soft_cap)


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("window", [None, 1, 5, 16, 32, 1000])
def test_mixed_rows(paged_attention: Op, dtype: torch.dtype, window: int | None) -> None:
    case = paged_case(MIXED, heads=(6, 2), dim=24, dtype=dtype, window=window)
    _check(paged_attention, case, 24**-0.5, window, None)


@pytest.mark.parametrize("window", [None, 20])
def test_soft_cap(paged_attention: Op, window: int | None) -> None:
    case = paged_case(MIXED, heads=(4, 4), dim=16, dtype=torch.float32, window=window)
    _check(paged_attention, case, 1.0, window, 3.0)


@pytest.mark.parametrize("heads", [(4, 1), (5, 5), (8, 2)])
def test_head_groups(paged_attention: Op, heads: tuple[int, int]) -> None:
    case = paged_case([(1, 50), (1, 9), (11, 30)], heads=heads, dim=40, dtype=torch.float32)
    _check(paged_attention, case, 0.3, None, None)


def test_layer_inside_a_page(paged_attention: Op) -> None:
    case = paged_case([(1, 50), (18, 35)], heads=(4, 2), dim=8, dtype=torch.float32, layer=(2, 4))
    _check(paged_attention, case, 0.5, None, None)


def test_padding_tokens_and_empty_rows_change_nothing(paged_attention: Op) -> None:
    case = paged_case([(1, 20), (4, 9)], heads=(2, 1), dim=8, dtype=torch.float32)
    padded = torch.cat((case.q, torch.full((3, 2, 8), float("nan"))))
    starts = torch.cat((case.query_start, case.query_start[-1:]))
    lens = torch.cat((case.seq_lens, torch.zeros(1, dtype=torch.int32)))
    table = torch.cat((case.block_table, torch.full_like(case.block_table[:1], -1)))
    out = paged_attention(padded, case.kv, table, starts, lens, 0.4)
    plain = paged_attention(case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.4)
    assert torch.equal(out[:5], plain)


def test_very_different_lengths_of_single_queries(paged_attention: Op) -> None:
    case = paged_case([(1, 1), (1, 2000), (1, 70), (1, 513)], heads=(4, 1), dim=16, dtype=torch.float32)
    _check(paged_attention, case, 0.25, None, None)


@pytest.mark.parametrize("length", [1, 16, 40, 129])
@pytest.mark.parametrize("window", [None, 1, 17, 64])
def test_one_query_alone(paged_attention: Op, length: int, window: int | None) -> None:
    case = paged_case([(1, length)], heads=(4, 2), dim=16, dtype=torch.float32, window=window)
    _check(paged_attention, case, 0.25, window, None)


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (20, 3.0)])
def test_fp8_pool(
    paged_attention: Op, dtype: torch.dtype, window: int | None, soft_cap: float | None
) -> None:
    case = paged_case(MIXED, heads=(6, 2), dim=24, dtype=dtype, window=window, kv_dtype=E4M3)
    _check(paged_attention, case, 24**-0.5, window, soft_cap)


def test_needle_among_65536_keys(paged_attention: Op) -> None:
    """Duty engine-19: One key takes half of the weight, the others 65,535 parts of the rest: an eight-bit weight could hold
    nothing as small, and a sum in less than fp32 would lose it."""
    length, dim, needle = 65536, 16, 40_007
    case = paged_case([(1, length)], heads=(2, 1), dim=dim, dtype=torch.bfloat16, kv_dtype=E4M3)
    assert case.kv_scale is not None
    page = int(case.block_table[0, needle // 16])
    case.kv[:, 0] = (case.kv[:, 0].float() / 32).to(E4M3)
    case.kv[:, 1] = (case.kv[:, 1].float().abs()).to(E4M3)
    # Along the query, as long as gives the needle half among keys whose scores are near 0.
    wanted = math.log(length)
    for head in range(2):
        case.q[0, head] = torch.full((dim,), 4.0)
    stored = wanted / (4.0 * dim * float(case.kv_scale[0, 0]) * 0.25)
    case.kv[page, 0, 0, needle % 16] = stored
    case.kv[page, 1, 0, needle % 16] = torch.full((dim,), -200.0)
    table = case.block_table[0, : length // 16].long()
    pool = case.kv[table].double() * case.kv_scale.double()[None, :, :, None, None]
    keys, values = (pool[:, which, 0].reshape(length, 1, dim) for which in (0, 1))
    expected = oracles.attention_row(case.q, keys, values, 0.25, None, None)
    found = paged_attention(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.25, kv_scale=case.kv_scale
    )
    assert float(expected.mean()) < 0, "the needle is not seen"
    error = (found.double() - expected).abs().max() / expected.abs().max()
    assert error < 2**-7, error


@pytest.mark.parametrize("window", [None, 20])
def test_a_fixed_plan_gives_a_query_the_same_bits_whatever_is_beside_it(window: int | None) -> None:
    """Alone, in a shorter chunk, and among other rows."""
    case = paged_case(MIXED, heads=(6, 2), dim=24, dtype=torch.float32, window=window)

    def attend(q: Tensor, table: Tensor, counts: list[int], lens: Tensor) -> Tensor:
        starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        return _planned(q, case.kv, table, starts, lens, 0.3, window, is_fixed=True)

    counts = [count for count, _ in MIXED]
    together = attend(case.q, case.block_table, counts, case.seq_lens)
    expected = reference.paged_attention(
        case.q, case.kv, case.block_table, case.query_start, case.seq_lens, 0.3, window
    )
    assert torch.allclose(together, expected, atol=1e-5)
    for row, count in enumerate(counts):
        end = int(case.query_start[row + 1])
        line, length = case.block_table[row : row + 1], case.seq_lens[row : row + 1]
        for fewer in {1, count // 2 or 1}:
            alone = attend(case.q[end - fewer : end], line, [fewer], length)
            assert torch.equal(alone, together[end - fewer : end]), (row, fewer)
