"""Attention of a step's new tokens over paged keys and values, any mix of prefill and decode.

    out[t, h] = softmax_j(cap(scale · q[t, h] · k[j, g])) · v[j, g],   j in the window of t's position, g = h // G

Place in the path: layers → here. CPU tensors go to `kernels/host_attention.py`, CUDA tensors to Triton. Knows no
model. The G = Hq / Hk query heads of a key head and several query tokens are packed as the rows of one tile
(m = token · G + head), so that a page is read once for all of them. `kernels/attention_plan.py` says which
program does what. Decode rows that begin with the same pages are packed like that too: their shared keys are parts of
the answers of all of them. Where an answer has several parts, the last program to arrive adds them up in the order of
the keys, so that the sum does not depend on timing. Sums are fp32; P · V is accumulated in fp32 too.

Bytes of a decode row and layer: 4·Hk·L·D in bf16, half of it in e4m3, shared keys counted once. Operations of a prefill tile: 4·Hq·D a query and key.
Measured (H200, 32/8 heads of 128, bf16): 256 rows of 1,536 keys 369 µs = 97 % of the read bandwidth, 64 rows of 576
83 %; 4,096-token prefill 369 µs = 50 % of the matmul rate.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.attention_parts import end_shared, end_split, store
from kernels.attention_plan import KEY_STEP, NARROW_ROWS, AttentionPlan, allocate_plan, build_plan
from kernels.attention_tile import attend, pages_of, scales, whole, zeros
from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front
from kernels.fresh_keys import FreshKeys, load_rotated, write_fresh
from kernels.host_attention import paged_attention_host
from kernels.host_plan import HostPlan, PageShape, build_host_plans
from kernels.invariant_attention import InvariantPlan, invariant_attention

__all__ = ["paged_attention", "paged_attention_triton"]

_LOG2E = 1.4426950408889634
_NARROW_LAUNCH = {"STEP": KEY_STEP, "num_warps": 4, "num_stages": 2}
NARROW_LAUNCH_MANY_FP8 = {"STEP": KEY_STEP, "num_warps": 2, "num_stages": 3}
"""For steps of more than MANY_ROWS tokens over e4m3 pages, which widening keeps busy: 297 µs instead of 360 for 256 rows of
1,536 keys, but 39 instead of 36 for 64 rows of 512."""
MANY_ROWS = 128
_WIDE_LAUNCH = {"STEP": 64, "num_warps": 4, "num_stages": 3}
MANY_TOKENS = 512
WIDE_LAUNCH_MANY = {"STEP": 32, "num_warps": 4, "num_stages": 3}
"""For steps of more than MANY_TOKENS tokens: two programs a multiprocessor do more than a deeper pipeline in one."""
_WIDE_LAUNCH_SMALL = {"STEP": 32, "num_warps": 4, "num_stages": 2}
"""For fp32 or heads above 128: tiles that fit shared memory. For heads of at most 64 over e4m3 pages too: there Triton's
code for tiles of 64 keys (3.6, sm_90) multiplied wrong values and read past the pages."""


def paged_attention(
    q: Tensor,
    kv: Tensor,
    block_table: Tensor,
    query_start: Tensor,
    seq_lens: Tensor,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    plan: AttentionPlan | HostPlan | InvariantPlan | None = None,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """[T, Hq, D] in q's dtype; arguments as `kernels.reference.paged_attention` defines them.

    `plan` is the work list of this step and window, shared by all layers of a KV group; without one (tests,
    one-off calls) it is made here. With the Triton path's it runs on any device, and the outputs of padding
    tokens are undefined.
    """
    if not q.is_cuda and plan is None:
        lens = seq_lens.tolist()
        (plan,) = build_host_plans(PageShape.of(kv), block_table[None], query_start.tolist(), lens, [window])
    if isinstance(plan, HostPlan):
        return paged_attention_host(q, kv, scale, soft_cap, plan, kv_scale)
    if isinstance(plan, InvariantPlan):
        return invariant_attention(q, kv, scale, soft_cap, plan, kv_scale)
    if plan is None:
        plan = allocate_plan(
            seq_lens.shape[0], q.shape[0], q.shape[1], kv.shape[2], q.shape[2], q.device, window
        )
        build_plan(plan, query_start, seq_lens, block_table=block_table, page_size=kv.shape[3])
    return paged_attention_triton(q, kv, block_table, scale, soft_cap, plan, kv_scale)


def paged_attention_triton(
    q: Tensor,
    kv: Tensor,
    block_table: Tensor,
    scale: float,
    soft_cap: float | None,
    plan: AttentionPlan,
    kv_scale: Tensor | None = None,
    fresh: FreshKeys | None = None,
    narrow_launch: dict[str, int] | None = None,
    wide_launch: dict[str, int] | None = None,
) -> Tensor:
    """The Triton path; `plan` was built for this step and window. The launch arguments are for tuning.

    With `fresh`, all rows are narrow, the queries come as the projection left them, and the step's keys are not in
    the pages yet.
    """
    assert fresh is None or not plan.has_wide
    heads, dim = q.shape[1], q.shape[2]
    kv_heads, group = kv.shape[2], q.shape[1] // kv.shape[2]
    assert q.stride(2) == block_table.stride(1) == 1
    assert kv.stride()[3:] == (dim, 1)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    strides = (q.stride(0), q.stride(1), heads * dim, *kv.stride()[:3], block_table.stride(0))
    shape = {
        "HEADS_PER_KV": group,
        "DIM": dim,
        "DIM_PADDED": max(16, triton.next_power_of_2(dim)),
        "PAGE": kv.shape[3],
        "WINDOW": plan.window or 0,
        "SOFT_CAP": soft_cap or 0.0,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
    }
    if narrow_launch is None:
        is_many = kv.element_size() == 1 and q.shape[0] > MANY_ROWS
        narrow_launch = NARROW_LAUNCH_MANY_FP8 if is_many else _NARROW_LAUNCH
    wide_rows = triton.next_power_of_2(plan.wide_tokens * group)
    if wide_launch is None:
        is_small = kv.element_size() == 1 and dim <= 64
        fits = q.element_size() == 2 and dim <= 128 and not is_small
        wide_launch = WIDE_LAUNCH_MANY if q.shape[0] > MANY_TOKENS else _WIDE_LAUNCH
        wide_launch = wide_launch if fits else _WIDE_LAUNCH_SMALL
    _narrow[(plan.narrow.shape[0], kv_heads)](
        q, kv, kv_scale, block_table, out, plan.narrow, plan.counts, plan.prefixes.order if plan.prefixes else None,
        plan.parts, plan.partial, plan.stats, plan.arrived, *_fresh_arguments(fresh), scale * _LOG2E, *strides,
        **shape, KV_HEADS=kv_heads, ROWS=NARROW_ROWS, FIXED=plan.is_fixed, PDL=q.is_cuda, **narrow_launch, **pdl_options(q),
    )  # fmt: skip
    if not plan.has_wide:
        return out
    _wide[(plan.wide.shape[0], kv_heads)](
        q, kv, kv_scale, block_table, out, plan.wide, plan.counts,
        scale * _LOG2E, *strides, **shape, ROWS=wide_rows, **wide_launch,
    )  # fmt: skip
    return out


def _fresh_arguments(fresh: FreshKeys | None) -> tuple[object, ...]:
    if fresh is None:
        return None, None, None, None, None, None, 0.0, 0, 0
    k, v = fresh.k, fresh.v
    assert k.stride() == v.stride()
    assert k.stride(2) == 1
    weights = fresh.q_weight, fresh.k_weight
    return k, v, fresh.slots, fresh.cos_sin, *weights, fresh.eps, k.stride(0), k.stride(1)


@triton.jit
def _narrow(
    q, kv, kv_scale, block_table, out, items, counts, order, parts, partial, stats, arrived,
    fresh_k, fresh_v, slots, cos_sin, q_weight, k_weight, eps, k_token, k_head, scale,
    q_token, q_head, out_token, page_stride, v_stride, head_stride, table_stride,
    HEADS_PER_KV: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr, PAGE: tl.constexpr,
    WINDOW: tl.constexpr, SOFT_CAP: tl.constexpr, PRECISION: tl.constexpr,
    KV_HEADS: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, FIXED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    item, kv_head = tl.program_id(0), tl.program_id(1)
    launch_dependents(PDL)
    wait_for_front(PDL)
    if item >= tl.load(counts):
        return
    at = items + item * 8
    row, first, count, position = tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)
    key_start, key_end = tl.load(at + 4), tl.load(at + 5)
    # In a fixed plan this many places at the front of the tile are empty.
    skip = tl.load(at + 6) if FIXED else 0
    key_low = key_start
    if WINDOW > 0:
        key_low = tl.maximum(key_start, position + skip - WINDOW + 1)

    m = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM_PADDED)
    token, head = m // HEADS_PER_KV, kv_head * HEADS_PER_KV + m % HEADS_PER_KV
    lane = token < count
    if FIXED:
        lane = lane & (token >= skip)
    cell = lane[:, None] & (dim < DIM)[None, :]
    index, query = first + token, position + token
    if order is not None:
        # A shared item: each of its tokens is another row's.
        place, elsewhere = order + index * 2, lane & (query < token)
        index, query = tl.load(place, elsewhere, index), tl.load(place + 1, elsewhere, query)
    q_at = q + index.to(tl.int64)[:, None] * q_token + head[:, None] * q_head
    if fresh_k is None:
        q_tile = tl.load(q_at + dim[None, :], cell, 0)
    else:
        angle = cos_sin + query.to(tl.int64)[:, None] * DIM
        q_tile = load_rotated(q_at, q_weight, eps, angle, dim, cell, DIM).to(q.dtype.element_ty)
        if (key_end > position) & (position >= 0):
            write_fresh(
                fresh_k, fresh_v, slots, cos_sin, k_weight, eps, kv + kv_head * head_stride, kv_scale, first, count,
                position, key_start, key_end, kv_head, k_token, k_head, page_stride, v_stride, dim, ROWS, DIM, PAGE,
            )  # fmt: skip
            tl.debug_barrier()  # the new keys are read by other threads than wrote them
    q_tile, scale, v_scale = scales(q_tile, scale, kv, kv_scale, kv_head)
    acc, odd = zeros(kv, ROWS, DIM_PADDED)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    table = block_table + row.to(tl.int64) * table_stride
    coming = pages_of(table, key_start, key_end, PAGE, STEP, True)
    for start in tl.range(key_start, key_end, STEP):
        page = coming
        coming = pages_of(table, start + STEP, key_end, PAGE, STEP, True)
        acc, odd, peak, total = attend(
            q_tile, acc, odd, peak, total, kv + kv_head * head_stride, page, start, key_low, key_end,
            query, scale, page_stride, v_stride, dim,
            True, DIM, DIM_PADDED, PAGE, STEP, WINDOW, SOFT_CAP, PRECISION,
        )  # fmt: skip
    acc = whole(acc, odd, kv, ROWS, DIM_PADDED)
    out_at = out + index.to(tl.int64)[:, None] * out_token + head[:, None] * DIM + dim[None, :]
    splits = tl.load(at + 7)
    if splits == 1:
        store(out_at, acc, total, v_scale, cell)
    elif splits > 1:
        end_split(
            acc, peak, total, partial, stats, arrived, out_at, v_scale, cell, item, tl.load(at + 6), splits, first, kv_head,
            m, dim, HEADS_PER_KV, KV_HEADS, ROWS, DIM, DIM_PADDED,
        )  # fmt: skip
    elif order is not None:
        end_shared(
            acc, peak, total, partial, stats, parts, arrived, out_at, v_scale, cell, lane, item, index, position < 0,
            kv_head, m, dim, HEADS_PER_KV, KV_HEADS, ROWS, DIM, DIM_PADDED,
        )  # fmt: skip


@triton.jit
def _wide(
    q, kv, kv_scale, block_table, out, items, counts, scale,
    q_token, q_head, out_token, page_stride, v_stride, head_stride, table_stride,
    HEADS_PER_KV: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr, PAGE: tl.constexpr,
    WINDOW: tl.constexpr, SOFT_CAP: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    item, kv_head = tl.program_id(0), tl.program_id(1)
    if item >= tl.load(counts + 1):
        return
    at = items + item * 4
    row, first, count, position = tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)

    m = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM_PADDED)
    token, head = m // HEADS_PER_KV, kv_head * HEADS_PER_KV + m % HEADS_PER_KV
    cell = (token < count)[:, None] & (dim < DIM)[None, :]
    index = (first + token).to(tl.int64)[:, None]
    q_tile = tl.load(q + index * q_token + head[:, None] * q_head + dim[None, :], cell, 0)
    q_tile, scale, v_scale = scales(q_tile, scale, kv, kv_scale, kv_head)
    query = position + token
    acc, odd = zeros(kv, ROWS, DIM_PADDED)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    kv_at = kv + kv_head * head_stride
    table = block_table + row.to(tl.int64) * table_stride

    # Keys that every query of the tile reaches need no mask; under a window all tiles are masked.
    key_low, key_end = 0, position + count
    if WINDOW > 0:
        key_low = tl.maximum(position - WINDOW + 1, 0)
    first_step = key_low // STEP * STEP
    plain_end = first_step if WINDOW > 0 else (position + 1) // STEP * STEP
    coming = pages_of(table, first_step, plain_end, PAGE, STEP, False)
    for start in tl.range(first_step, plain_end, STEP):
        page = coming
        coming = pages_of(table, start + STEP, plain_end, PAGE, STEP, False)
        acc, odd, peak, total = attend(
            q_tile, acc, odd, peak, total, kv_at, page, start, key_low, key_end, query, scale, page_stride, v_stride,
            dim, False, DIM, DIM_PADDED, PAGE, STEP, WINDOW, SOFT_CAP, PRECISION,
        )  # fmt: skip
    coming = pages_of(table, plain_end, key_end, PAGE, STEP, True)
    for start in tl.range(plain_end, key_end, STEP):
        page = coming
        coming = pages_of(table, start + STEP, key_end, PAGE, STEP, True)
        acc, odd, peak, total = attend(
            q_tile, acc, odd, peak, total, kv_at, page, start, key_low, key_end, query, scale, page_stride, v_stride,
            dim, True, DIM, DIM_PADDED, PAGE, STEP, WINDOW, SOFT_CAP, PRECISION,
        )  # fmt: skip
    acc = whole(acc, odd, kv, ROWS, DIM_PADDED)
    store(out + index * out_token + head[:, None] * DIM + dim[None, :], acc, total, v_scale, cell)
