"""kernels.paged_attention of rows that begin with the same pages, against a float64 softmax of each row alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from triton.runtime import interpreter

from kernels import reference
from kernels.attention_plan import AttentionPlan, allocate_plan, build_plan
from kernels.e4m3 import E4M3
from kernels.fresh_keys import FreshKeys
from kernels.paged_attention import paged_attention_triton
from tests.kernels import oracles
from tests.kernels.oracles import PagedCase, paged_case

pytestmark = pytest.mark.usefixtures("seed")

PAGE = 16
ROWS = [
    (1, 300),
    (3, 5),
    (1, 289),
    (1, 330),
    (20, 290),
    (1, 17),
    (1, 512),
    (1, 273),
    (1, 305),
    (2, 310),
    (1, 400),
]
SHARING = (0, 2, 3, 6, 7, 8, 10)


def _shared_case(
    heads: tuple[int, int], dim: int, dtype: torch.dtype, kv_dtype: torch.dtype | None = None
) -> PagedCase:
    """The rows SHARING begin with the first one's 16 pages, two of them with four more."""
    case = paged_case(ROWS, heads=heads, dim=dim, dtype=dtype, kv_dtype=kv_dtype)
    for row in SHARING[1:]:
        source, pages = (6, 20) if row == 10 else (0, 16)
        case.block_table[row, :pages] = case.block_table[source, :pages]
        for stored in (case.keys, case.values):
            stored[row][: pages * PAGE] = stored[source][: pages * PAGE]
    return case


def _plan(case: PagedCase, *, wide: bool = True) -> AttentionPlan:
    rows, tokens, device = case.seq_lens.shape[0], case.q.shape[0], case.q.device
    shape = case.q.shape[1], case.kv.shape[2], case.q.shape[2]
    plan = allocate_plan(rows + 2, tokens, *shape, device, programs=16, wide_rows=32, min_split=64)
    plan = plan.sized(rows, tokens, wide=wide)
    plan.partial.fill_(float("nan"))
    plan.stats.fill_(float("nan"))
    build_plan(plan, case.query_start, case.seq_lens, None, case.block_table, PAGE)
    return plan


def _attend(case: PagedCase, plan: AttentionPlan, soft_cap: float | None = None) -> Tensor:
    out = paged_attention_triton(case.q, case.kv, case.block_table, 0.3, soft_cap, plan, case.kv_scale)
    assert not plan.arrived.any()
    return out


def _is_shared(plan: AttentionPlan) -> bool:
    return bool((plan.narrow[: int(plan.counts[0]), 3] < 0).any())


@pytest.mark.parametrize(
    ("heads", "dim"), [((8, 2), 16), ((6, 2), 24), ((7, 1), 40), ((10, 2), 8), ((2, 2), 16)]
)
@pytest.mark.parametrize("kv_dtype", [None, E4M3])
def test_equals_each_row_alone(heads: tuple[int, int], dim: int, kv_dtype: torch.dtype | None) -> None:
    case = _shared_case(heads, dim, torch.float32, kv_dtype)
    plan = _plan(case)
    assert _is_shared(plan)
    soft_cap = 3.0 if heads == (8, 2) else None
    oracles.check_attention(_attend(case, plan, soft_cap), case, 0.3, None, soft_cap)


def test_the_result_does_not_depend_on_who_arrives_last(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _shared_case((8, 2), 16, torch.float32)
    plan = _plan(case)
    expected = _attend(case, plan)
    for _ in range(3):
        order = torch.randperm(plan.narrow.shape[0]).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(interpreter.interpreter_builder, "set_grid_idx", _in_order(order))
            found = _attend(case, plan)
        assert torch.equal(found, expected)


def _in_order(order: list[int]) -> Callable[[int, int, int], None]:
    """The interpreter runs programs by number: another numbering is another order. (A device has its own.)"""
    set_grid_idx = interpreter.interpreter_builder.set_grid_idx

    def set_another(x: int, y: int, z: int) -> None:
        is_narrow = interpreter.interpreter_builder.grid_dim[0] == len(order)
        set_grid_idx(order[x] if is_narrow else x, y, z)

    return set_another


@pytest.mark.parametrize("normed", [False, True])
def test_rotates_each_rows_query_by_its_own_position(normed: bool) -> None:
    rows = [(count, length) for count, length in ROWS if count < 4]
    case = _shared_case((6, 2), 24, torch.float32)
    keep = [row for row, (count, _) in enumerate(ROWS) if count < 4]
    lens = torch.tensor([length for _, length in rows], dtype=torch.int32)
    starts = torch.tensor([0, *[count for count, _ in rows]]).cumsum(0).to(torch.int32)
    table, pool = case.block_table[keep], case.kv.nan_to_num(0.0)
    positions = torch.cat([torch.arange(length - count, length) for count, length in rows])
    owner = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([count for count, _ in rows]))
    slots = table[owner, positions // PAGE].long() * PAGE + positions % PAGE
    q, k, v = torch.randn(len(positions), 10, 24).split((6, 2, 2), 1)
    angles = torch.rand(600, 12) * 6
    weights = (torch.rand(24) + 0.5, torch.rand(24) + 0.5) if normed else (None, None)
    fresh = FreshKeys(k, v, slots, torch.cat((angles.cos(), angles.sin()), -1), *weights, eps=1e-5)
    plan = _plan(PagedCase(q, pool, table, starts, lens, keys=[], values=[]), wide=False)
    assert _is_shared(plan)
    expected_pool = pool.clone()
    rotated = reference.rope_and_cache(
        q, k, v, positions, fresh.cos_sin, expected_pool, slots, *weights, 1e-5
    )
    expected = reference.paged_attention(rotated, expected_pool, table, starts, lens, 0.3)
    found = paged_attention_triton(q, pool, table, 0.3, None, plan, fresh=fresh)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(pool, expected_pool, atol=2e-6, rtol=2e-6)
