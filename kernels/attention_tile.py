"""One tile of keys of `kernels.paged_attention`: load it by page, score it, fold it into the running softmax.

Place in the path: the kernels of `paged_attention` → here. Knows rows of queries and a range of keys, not whose they are.

An e4m3 pool's keys and values are multiplied as fp16, which holds each of their values, and their scales (one per key
head) join the softmax's and the answer. Its values come in two halves, the even and the odd columns: a product needs
two keys' values of one column side by side, and the hardware transposes 16-bit numbers on their way from shared memory,
while 8-bit ones would be fetched one by one.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["attend", "halves", "pages_of", "scales", "whole", "zeros"]


@triton.jit
def _capped(s, scale, SOFT_CAP: tl.constexpr):
    """Scores times scale (both in base 2), squeezed into ± SOFT_CAP by tanh."""
    # tanh x = sign(x) (1 - e) / (1 + e) with e = exp(-2|x|), which cannot overflow.
    LOG2E: tl.constexpr = 1.4426950408889634
    x = s * (scale / (SOFT_CAP * LOG2E))
    e = tl.exp2(-2 * LOG2E * tl.abs(x))
    t = (1 - e) / (1 + e)
    return tl.where(x < 0, -t, t) * (SOFT_CAP * LOG2E)


@triton.jit
def pages_of(table, start, key_end, PAGE: tl.constexpr, STEP: tl.constexpr, BY_KEY: tl.constexpr):
    """The pages of the tile of keys that begins at `start`: one a key, or one a page.

    Loops carry them from one tile to the next: Triton gives loads whose addresses come from another load of the same
    round one buffer only, whatever `num_stages` says.
    """
    number = start // PAGE + tl.arange(0, STEP // PAGE)
    if BY_KEY:
        number = (start + tl.arange(0, STEP)) // PAGE
    return tl.load(table + number, number * PAGE < key_end, 0)


@triton.jit
def halves(pairs, dtype):
    """The even and the odd columns of e4m3 values that were loaded as 16-bit pairs."""
    even = (pairs & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
    odd = ((pairs >> 8) & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
    return even.to(dtype), odd.to(dtype)


@triton.jit
def zeros(kv, ROWS: tl.constexpr, DIM_PADDED: tl.constexpr):
    """Accumulators of the answer: one, or of an e4m3 pool the even and the odd columns."""
    if kv.dtype.element_ty == tl.float8e4nv:
        acc = tl.zeros([ROWS, DIM_PADDED // 2], tl.float32)
        odd = acc
    else:
        acc = tl.zeros([ROWS, DIM_PADDED], tl.float32)
        odd = 0.0
    return acc, odd


@triton.jit
def whole(acc, odd, kv, ROWS: tl.constexpr, DIM_PADDED: tl.constexpr):
    if kv.dtype.element_ty == tl.float8e4nv:
        acc = tl.reshape(tl.join(acc, odd), (ROWS, DIM_PADDED))
    return acc


@triton.jit
def attend(
    q, acc, odd, peak, total, kv, page, start, key_low, key_end, query, scale, page_stride, v_stride, dim,
    MASKED: tl.constexpr, DIM: tl.constexpr, DIM_PADDED: tl.constexpr, PAGE: tl.constexpr, STEP: tl.constexpr, WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of keys: load by page, score, fold into the running softmax (acc, odd, peak, total). `page`: see `pages_of`.

    MASKED: some key of the tile is out of some query's reach. Keys outside [key_low, key_end) are not loaded:
    their page may be gone, their slot may hold a NaN.
    """
    FP8: tl.constexpr = kv.dtype.element_ty == tl.float8e4nv
    # Values are loaded as `WIDTH` columns of `of_v`'s type.
    WIDTH: tl.constexpr = DIM_PADDED // 2 if FP8 else DIM_PADDED
    of_v = kv.to(tl.pointer_type(tl.int16)) if FP8 else kv
    per_load: tl.constexpr = 2 if FP8 else 1
    column = tl.arange(0, WIDTH)
    if MASKED:
        key = start + tl.arange(0, STEP)
        there = (key >= key_low) & (key < key_end)
        at = page.to(tl.int64) * page_stride + (key % PAGE) * DIM
        k = tl.load(kv + at[None, :] + dim[:, None], there[None, :] & (dim < DIM)[:, None], 0.0)
        v_at = of_v + ((at + v_stride) // per_load)[:, None] + column[None, :]
        v = tl.load(v_at, there[:, None] & (column * per_load < DIM)[None, :], 0)
    else:
        # Whole pages: one address each, and whole lines from there on.
        at = page.to(tl.int64)[:, None, None] * page_stride + tl.arange(0, PAGE)[None, :, None] * DIM
        k = tl.load(kv + at + dim[None, None, :], (dim < DIM)[None, None, :], 0.0)
        k = tl.trans(tl.reshape(k, (STEP, DIM_PADDED)))
        v_at = of_v + (at + v_stride) // per_load + column[None, None, :]
        v = tl.load(v_at, (column * per_load < DIM)[None, None, :], 0)
        v = tl.reshape(v, (STEP, WIDTH))
    s = tl.dot(q, k.to(q.dtype), input_precision=PRECISION)
    if SOFT_CAP != 0:
        s = _capped(s, scale, SOFT_CAP)
        scale = 1.0
    if MASKED:
        reach = there[None, :] & (key[None, :] <= query[:, None])
        if WINDOW > 0:
            reach = reach & (key[None, :] > query[:, None] - WINDOW)
        s = tl.where(reach, s, -float("inf"))
    new_peak = tl.maximum(peak, tl.max(s, 1) * scale)
    safe = new_peak
    if MASKED:
        # A query that has reached no key yet keeps its state: -inf - -inf must not become NaN.
        safe = tl.where(new_peak == -float("inf"), 0.0, new_peak)
    # fp16 has few small numbers: the largest weight is 2¹⁵ there, so that one of 2⁻²⁴ of it is still exact to 0.2 %.
    lift: tl.constexpr = 15.0 if q.dtype == tl.float16 else 0.0
    p = tl.exp2(s * scale - (safe - lift)[:, None])
    shrink = tl.exp2(peak - safe)
    if FP8:
        even_v, odd_v = halves(v, q.dtype)
        acc = acc * shrink[:, None] + tl.dot(p.to(q.dtype), even_v, input_precision=PRECISION)
        odd = odd * shrink[:, None] + tl.dot(p.to(q.dtype), odd_v, input_precision=PRECISION)
    else:
        acc = acc * shrink[:, None] + tl.dot(p.to(q.dtype), v.to(q.dtype), input_precision=PRECISION)
    return acc, odd, new_peak, total * shrink + tl.sum(p, 1)


@triton.jit
def scales(q_tile, scale, kv, kv_scale, kv_head):
    """What to multiply keys with, by what to multiply the scores and the answer."""
    v_scale = 1.0
    if kv_scale is not None:
        scale *= tl.load(kv_scale + kv_head)
        v_scale = tl.load(kv_scale + tl.num_programs(1) + kv_head)
    if kv.dtype.element_ty == tl.float8e4nv and q_tile.dtype == tl.bfloat16:
        # One instruction makes two e4m3 numbers fp16, several make them bf16.
        q_tile = tl.clamp(q_tile.to(tl.float32), -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL).to(
            tl.float16
        )
    return q_tile, scale, v_scale
