"""What a narrow attention program does to a step's new tokens itself: rotate its queries, write its keys and values.

    (a, b) → (a·cos − b·sin, b·cos + a·sin) for each pair (i, i + D/2) of q and k; k and v go to their page

Place in the path: `kernels/paged_attention.py`, for steps in which every row is narrow → here. Does for the few tokens
of a narrow item what `kernels/rope_and_cache.py` does for all tokens of a step, which costs such a step one launch a
layer less. A program writes exactly those new keys of its key head that lie in its own range of keys: they are the
only new ones that it reads, so it waits for nobody. Knows no work list.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from kernels.rope_and_cache import store_in_pool

__all__ = ["FreshKeys", "load_rotated", "write_fresh"]


@dataclass(frozen=True, slots=True)
class FreshKeys:
    """The step's keys and values as the projection left them, and where they go."""

    k: Tensor
    """[T, Hk, D], not rotated; may be a slice of one fused projection, as `v` and the queries may."""
    v: Tensor
    slots: Tensor
    """[T] int64: page · block + offset, or −1 for "do not write"."""
    cos_sin: Tensor
    """[positions, D] fp32 = cos | sin halves."""
    q_weight: Tensor | None = None
    """fp32 [D]: each query head is RMS-normalised first."""
    k_weight: Tensor | None = None
    eps: float = 0.0


@triton.jit
def load_rotated(at, weight, eps, angle, dim, cell, DIM: tl.constexpr):
    """The heads at `at` [n, 1], normalised if there is a weight, rotated by the angles at `angle` [n, 1] (rows of cos
    | sin): [n, padded dim] fp32."""
    HALF: tl.constexpr = DIM // 2
    partner = tl.where(dim < HALF, dim + HALF, dim - HALF)[None, :]
    turn = tl.where(dim < HALF, dim, dim - HALF)[None, :]
    own = tl.load(at + dim[None, :], cell, 0).to(tl.float32)
    other = tl.load(at + partner, cell, 0).to(tl.float32)
    if weight is not None:
        scale = 1 / tl.sqrt_rn(tl.sum(own * own, 1) / DIM + eps)[:, None]
        inside = dim[None, :] < DIM
        own = own * scale * tl.load(weight + dim[None, :], inside, 0)
        other = other * scale * tl.load(weight + partner, inside, 0)
    cos, sin = tl.load(angle + turn, cell, 0), tl.load(angle + HALF + turn, cell, 0)
    return own * cos + tl.where(dim < HALF, -other, other) * sin


@triton.jit
def write_fresh(
    k, v, slots, cos_sin, weight, eps, kv, kv_scale, first, count, position, key_start, key_end, kv_head,
    k_token, k_head, page_stride, v_stride, dim,
    TOKENS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Write those of an item's new keys and values that stand in [key_start, key_end); `kv` is at the key head."""
    token = tl.arange(0, TOKENS)
    key = position + token
    mine = (token < count) & (key >= key_start) & (key < key_end)
    slot = tl.load(slots + first + token, mine, -1)
    cell = (mine & (slot >= 0))[:, None] & (dim < DIM)[None, :]
    at = (first + token).to(tl.int64)[:, None] * k_token + kv_head * k_head
    page_at = kv + (slot // PAGE)[:, None] * page_stride + (slot % PAGE)[:, None] * DIM + dim[None, :]
    rotated = load_rotated(k + at, weight, eps, cos_sin + key.to(tl.int64)[:, None] * DIM, dim, cell, DIM)
    k_scale, v_scale = 1.0, 1.0
    if kv_scale is not None:
        k_scale, v_scale = tl.load(kv_scale + kv_head), tl.load(kv_scale + tl.num_programs(1) + kv_head)
    store_in_pool(page_at, rotated, k_scale, cell)
    store_in_pool(page_at + v_stride, tl.load(v + at + dim[None, :], cell, 0), v_scale, cell)
