"""How the answer of a narrow item of `kernels.paged_attention` ends: stored, or left as a part of a sum.

Place in the path: the narrow kernel → here. Knows parts of an answer and where they lie, no query and no key. The last
program to arrive adds an answer's parts up in the order of the keys, so that the sum does not depend on timing. Parts are
fp32 and not normalised; their maxima are of base 2.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["end_shared", "end_split", "store"]


@triton.jit
def store(out_at, acc, total, v_scale, cell):
    # Rows of the tile that belong to no query have a total of 0; they are not stored.
    tl.store(
        out_at, (acc * (v_scale / tl.where(total > 0, total, 1.0))[:, None]).to(out_at.dtype.element_ty), cell
    )


@triton.jit
def end_split(
    acc, peak, total, partial, stats, arrived, out_at, v_scale, cell, item, split, splits, first, kv_head, m, dim,
    HEADS_PER_KV: tl.constexpr, KV_HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr,
):  # fmt: skip
    """Of a row that shares nothing, which is the usual one: its parts lie side by side, and have one end."""
    inside = (dim < DIM)[None, :]
    tile = (item * KV_HEADS + kv_head).to(tl.int64)
    part = m[:, None] * DIM + dim[None, :]
    tl.store(partial + tile * ROWS * DIM + part, acc, inside)
    tl.store(stats + tile * 2 * ROWS + m, peak)
    tl.store(stats + tile * 2 * ROWS + ROWS + m, total)
    tl.debug_barrier()  # all of this program's stores come before its arrival
    seat = arrived + (first * KV_HEADS + kv_head) * HEADS_PER_KV
    if tl.atomic_add(seat, 1, sem="acq_rel") == splits - 1:
        tl.store(seat, 0)
        acc, total = _sum_splits(
            partial, stats, item - split, splits, kv_head, m, part, inside, KV_HEADS, ROWS, DIM, DIM_PADDED
        )
        store(out_at, acc, total, v_scale, cell)


@triton.jit
def end_shared(
    acc, peak, total, partial, stats, parts, arrived, out_at, v_scale, cell, lane, item, index, is_shared, kv_head, m, dim,
    HEADS_PER_KV: tl.constexpr, KV_HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr,
):  # fmt: skip
    """Of rows that share: every row of the tile finds out for itself whether this was the last of its parts."""
    last = _arrive(
        acc, peak, total, partial, stats, parts, arrived, item, index, m, lane, cell, kv_head, dim, HEADS_PER_KV, KV_HEADS,
        ROWS, DIM,
    )  # fmt: skip
    if tl.max(last.to(tl.int32), 0) > 0:
        acc, total = _sum_parts(
            partial, stats, parts, index, m, last, is_shared, kv_head, dim, HEADS_PER_KV, KV_HEADS, ROWS, DIM, DIM_PADDED
        )  # fmt: skip
        store(out_at, acc, total, v_scale, cell & last[:, None])


@triton.jit
def _arrive(
    acc, peak, total, partial, stats, parts, arrived, item, index, m, lane, cell, kv_head, dim,
    HEADS_PER_KV: tl.constexpr, KV_HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Leave this item's part of its rows' answers; says which rows it was the last of."""
    tile = item * KV_HEADS + kv_head
    tl.store(partial + (tile * ROWS + m).to(tl.int64)[:, None] * DIM + dim[None, :], acc, cell)
    tl.store(stats + tile * 2 * ROWS + m, peak, lane)
    tl.store(stats + tile * 2 * ROWS + ROWS + m, total, lane)
    all_parts = tl.load(parts + index * 8 + 1, lane, 0) + tl.load(parts + index * 8 + 3, lane, 0)
    tl.debug_barrier()  # all of this program's stores come before its arrivals
    seat = arrived + index * KV_HEADS * HEADS_PER_KV + kv_head * HEADS_PER_KV + m % HEADS_PER_KV
    last = (tl.atomic_add(seat, 1, lane, sem="acq_rel") == all_parts - 1) & lane
    tl.store(seat, 0, last)
    return last


@triton.jit
def _sum_splits(
    partial, stats, first, splits, kv_head, m, part, inside,
    KV_HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr,
):  # fmt: skip
    """A row's sums over its items, the first of which is `first`, in their order."""
    # .cg: other programs wrote these; this multiprocessor's L1 may be stale.
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    for number in tl.range(0, splits, loop_unroll_factor=4):
        other = ((first + number) * KV_HEADS + kv_head).to(tl.int64)
        peak = tl.maximum(peak, tl.load(stats + other * 2 * ROWS + m, cache_modifier=".cg"))
    safe = tl.where(peak == -float("inf"), 0.0, peak)
    acc = tl.zeros([ROWS, DIM_PADDED], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for number in tl.range(0, splits, loop_unroll_factor=4):
        other = ((first + number) * KV_HEADS + kv_head).to(tl.int64)
        share = tl.exp2(tl.load(stats + other * 2 * ROWS + m, cache_modifier=".cg") - safe)
        total += tl.load(stats + other * 2 * ROWS + ROWS + m, cache_modifier=".cg") * share
        other_acc = tl.load(partial + other * ROWS * DIM + part, inside, 0, cache_modifier=".cg")
        acc += other_acc * share[:, None]
    return acc, total


@triton.jit
def _sum_parts(
    partial, stats, parts, index, m, last, is_shared, kv_head, dim,
    HEADS_PER_KV: tl.constexpr, KV_HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr,
):  # fmt: skip
    """Sums over the parts of the `last` rows' answers in their order: shared ones, then own ones."""
    own, shared = tl.load(parts + index * 8, last, 0), tl.load(parts + index * 8 + 2, last, 0)
    own_parts, shared_parts = tl.load(parts + index * 8 + 1, last, 0), tl.load(parts + index * 8 + 3, last, 0)
    # The row of an item's tile that holds this query and head: rows that share have one token.
    shared_m = tl.load(parts + index * 8 + 4, last, 0) * HEADS_PER_KV + m % HEADS_PER_KV
    own_m = tl.where(is_shared, m % HEADS_PER_KV, m)
    all_parts = own_parts + shared_parts
    most = tl.max(all_parts, 0)
    # .cg: other programs wrote these; this multiprocessor's L1 may be stale.
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    for number in tl.range(0, most):
        item = tl.where(number < shared_parts, shared + number, own + number - shared_parts)
        at = stats + (item * KV_HEADS + kv_head) * 2 * ROWS + tl.where(number < shared_parts, shared_m, own_m)
        peak = tl.maximum(peak, tl.load(at, number < all_parts, -float("inf"), cache_modifier=".cg"))
    safe = tl.where(peak == -float("inf"), 0.0, peak)
    acc = tl.zeros([ROWS, DIM_PADDED], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for number in tl.range(0, most, loop_unroll_factor=4):
        there = number < all_parts
        item = tl.where(number < shared_parts, shared + number, own + number - shared_parts)
        tile, row = item * KV_HEADS + kv_head, tl.where(number < shared_parts, shared_m, own_m)
        at = stats + tile * 2 * ROWS + row
        share = tl.exp2(tl.load(at, there, -float("inf"), cache_modifier=".cg") - safe)
        total += tl.load(at + ROWS, there, 0, cache_modifier=".cg") * share
        part = partial + (tile * ROWS + row).to(tl.int64)[:, None] * DIM + dim[None, :]
        cell = there[:, None] & (dim < DIM)[None, :]
        acc += tl.load(part, cell, 0, cache_modifier=".cg") * share[:, None]
    return acc, total
