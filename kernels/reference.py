"""The ops of a forward pass in plain torch: the oracle of the fast paths, and the CPU path of the simple ops.

Called through `kernels/<op>.py`, which picks a Triton kernel on a GPU and, on a CPU, this file or, for attention and
rope, `kernels/host_*.py`. Works on any device and for fp32, bf16 and fp16 inputs: sums are taken in fp32 and results have the input's dtype. Shapes:
T tokens of a step, R rows (sequences) of a step, Hq / Hk query / key-value heads, D head size, B pages
of a block table. Knows nothing of models, requests or the layout of a page pool beyond the strides of
the one layer it is handed. The ops of sampling are in `kernels/reference_sampling.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.e4m3 import E4M3, to_e4m3


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """h = x + residual; y = h / sqrt(mean(h²) + eps) · weight, over the last dimension. Returns (y, h).

    `weight` is fp32 and final (a Gemma checkpoint's 1 + w is folded by its loader). h is rounded to the
    input's dtype before it is normalised, so that y depends only on what the next layer adds to.
    Bytes: x, residual, h and y once each, 8·T·H in bf16 with a residual, 4·T·H without.
    """
    h = x if residual is None else (x.float() + residual.float()).to(x.dtype)
    if h.dtype == torch.float32:
        return functional.rms_norm(h, (h.shape[-1],), weight, eps), h
    wide = h.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight).to(h.dtype), h


def rope_and_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    cos_sin: Tensor,
    kv: Tensor,
    slots: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    eps: float = 1e-6,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """Rotates q and k to their positions and writes k, v into the page pool. Returns the rotated q.

    With q_weight / k_weight (fp32 [D]) each head is RMS-normalised first. The rotation pairs dimension i
    with i + D/2: (a, b) → (a·cos − b·sin, b·cos + a·sin), cos and sin from `cos_sin[position]`, fp32
    [max_position, D] = cos | sin halves.
    q [T, Hq, D], k and v [T, Hk, D], positions [T], kv [num_blocks, 2, Hk, block, D] (k is 0, v is 1; any
    stride between blocks), slots [T] int64 = page · block + offset, or −1 for "do not write". An e4m3 pool takes
    k / kv_scale[0] and v / kv_scale[1], clamped; kv_scale fp32 [2, Hk].
    Bytes: q read and written, k and v read and written: 4·T·(Hq + 2·Hk)·D in bf16, and cos_sin rows.
    """
    cos, sin = cos_sin[positions.long()].unsqueeze(1).chunk(2, dim=-1)
    rotated_q = _norm_and_rotate(q, q_weight, eps, cos, sin)
    rotated_k = _norm_and_rotate(k, k_weight, eps, cos, sin)
    _write_pages(kv, slots, rotated_k, v, kv_scale)
    return rotated_q


def paged_attention(
    q: Tensor,
    kv: Tensor,
    block_table: Tensor,
    query_start: Tensor,
    seq_lens: Tensor,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """softmax(cap(scale · q kᵀ) + mask) v per row, keys and values read from pages.

    Row r owns queries query_start[r] … query_start[r+1] − 1, the last of which stands at position
    seq_lens[r] − 1. A query at p sees keys max(0, p − window + 1) … p. cap(s) = soft_cap · tanh(s /
    soft_cap). Query head h reads key head h // (Hq / Hk).
    q [T, Hq, D], kv [num_blocks, 2, Hk, block, D], block_table [R, B] int32 (entries behind the window or
    past the end may be −1), query_start [R + 1], seq_lens [R]. Tokens past query_start[R] are padding and
    give zeros. kv_scale fp32 [2, Hk]: what an e4m3 pool's keys and values are to be multiplied by.
    Bytes: the visible pages of every row once per step, 4·Hk·D per position in bf16; q and the output.
    """
    if kv_scale is not None:
        scales = per_query_head(kv_scale, q.shape[1])
        wide = paged_attention(
            q.float() * scales[0], kv, block_table, query_start, seq_lens, scale, window, soft_cap
        )
        return (wide * scales[1]).to(q.dtype)
    out = torch.zeros_like(q)
    starts = query_start.tolist()
    for row, length in enumerate(seq_lens.tolist()):
        first, end = starts[row], starts[row + 1]
        if end > first:
            keys, values, key_start = _gather_row(kv, block_table, row, length, end - first, window)
            mask = _chunk_mask(end - first, length, key_start, window, q.device)
            out[first:end] = _attend_row(q[first:end], keys, values, mask, scale, soft_cap)
    return out


def gated_act(x: Tensor, kind: str) -> Tensor:
    """act(gate) · up for x [T, 2F] = gate | up. kind: "silu" or "gelu_tanh". Returns [T, F].

    Bytes: 4·T·F read and 2·T·F written in bf16.
    """
    gate, up = x.chunk(2, dim=-1)
    if kind == "silu":
        return (functional.silu(gate.float()) * up.float()).to(x.dtype)
    assert kind == "gelu_tanh", kind
    return (functional.gelu(gate.float(), approximate="tanh") * up.float()).to(x.dtype)


def per_query_head(kv_scale: Tensor, num_heads: int) -> Tensor:
    """[2, Hk] → [2, Hq, 1]: a key's scale may as well be its queries', a value's the answer's."""
    return kv_scale.repeat_interleave(num_heads // kv_scale.shape[1], dim=1)[:, :, None]


def to_pool(entries: Tensor, dtype: torch.dtype, kv_scale: Tensor | None) -> Tensor:
    """Keys and values [T, 2, Hk, D] as the pool stores them."""
    if dtype != E4M3:
        return entries.to(dtype)
    return to_e4m3(entries.float() if kv_scale is None else entries / kv_scale[:, :, None])


def as_bytes(x: Tensor) -> Tensor:
    """The same memory in a type that torch can copy by index on any device: it cannot for 8-bit floats."""
    return x.view(torch.uint8) if x.dtype == E4M3 else x


def _norm_and_rotate(x: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x.float()
    if weight is not None:
        wide = functional.rms_norm(wide, (x.shape[-1],), weight, eps)
    a, b = wide.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def _write_pages(kv: Tensor, slots: Tensor, k: Tensor, v: Tensor, kv_scale: Tensor | None) -> None:
    entries = to_pool(torch.stack((k, v), dim=1), kv.dtype, kv_scale)
    written = slots >= 0
    if not bool(written.all()):
        slots, entries = slots[written], entries[written]
    block = kv.shape[3]
    as_bytes(kv)[slots // block, :, :, slots % block] = as_bytes(entries)


def _gather_row(
    kv: Tensor, block_table: Tensor, row: int, length: int, num_queries: int, window: int | None
) -> tuple[Tensor, Tensor, int]:
    """Keys and values [Hk, S, D] that the row's queries may see, and the first one's position."""
    _, _, heads, block, dim = kv.shape
    oldest = 0 if window is None else max(0, length - num_queries - window + 1)
    first_page, end_page = oldest // block, -(-length // block)
    pages = kv[block_table[row, first_page:end_page].long().clamp_min(0)]
    keys, values = pages.permute(1, 2, 0, 3, 4).reshape(2, heads, -1, dim)
    visible = length - first_page * block
    return keys[:, :visible], values[:, :visible], first_page * block


def _chunk_mask(
    num_queries: int, length: int, key_start: int, window: int | None, device: torch.device
) -> Tensor:
    """[num_queries, S] bool, True where the query may see the key."""
    queries = torch.arange(length - num_queries, length, device=device)[:, None]
    keys = torch.arange(key_start, length, device=device)[None, :]
    mask = keys <= queries
    if window is not None:
        mask &= keys > queries - window
    return mask


def _attend_row(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float, soft_cap: float | None
) -> Tensor:
    """One row's queries [n, Hq, D] against its keys [Hk, S, D]; returns [n, Hq, D]."""
    num_queries, num_heads, dim = q.shape
    kv_heads = keys.shape[0]
    packed = q.float().view(num_queries, kv_heads, num_heads // kv_heads, dim).permute(1, 2, 0, 3)
    scores = torch.matmul(packed, keys.float()[:, None].transpose(-1, -2)) * scale
    if soft_cap is not None:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    # A key that none of the queries sees may be a former owner's NaN, and 0 · NaN is NaN.
    seen = torch.where(mask.any(0)[:, None], values.float(), 0.0)
    out = torch.matmul(weights, seen[:, None])
    return out.permute(2, 0, 1, 3).reshape(num_queries, num_heads, dim).to(q.dtype)
