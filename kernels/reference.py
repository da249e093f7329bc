"""The ops of a forward pass in plain torch: the CPU path, and the oracle of the Triton kernels.

Called through `kernels/<op>.py`, which picks this file or a Triton kernel by device. Works on any device
and for fp32, bf16 and fp16 inputs: sums are taken in fp32 and results have the input's dtype. Shapes:
T tokens of a step, R rows (sequences) of a step, Hq / Hk query / key-value heads, D head size, B pages
of a block table. Knows nothing of models, requests or the layout of a page pool beyond the strides of
the one layer it is handed. The ops of sampling are in `kernels/reference_sampling.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_DECODE_BUCKET_RATIO = 2
"""One-query rows share a padded batch when their lengths differ by at most this factor."""


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
) -> Tensor:
    """Rotates q and k to their positions and writes k, v into the page pool. Returns the rotated q.

    With q_weight / k_weight (fp32 [D]) each head is RMS-normalised first. The rotation pairs dimension i
    with i + D/2: (a, b) → (a·cos − b·sin, b·cos + a·sin), cos and sin from `cos_sin[position]`, fp32
    [max_position, D] = cos | sin halves.
    q [T, Hq, D], k and v [T, Hk, D], positions [T], kv [num_blocks, 2, Hk, block, D] (k is 0, v is 1; any
    stride between blocks), slots [T] int64 = page · block + offset, or −1 for "do not write".
    Bytes: q read and written, k and v read and written: 4·T·(Hq + 2·Hk)·D in bf16, and cos_sin rows.
    """
    cos, sin = cos_sin[positions.long()].unsqueeze(1).chunk(2, dim=-1)
    rotated_q = _norm_and_rotate(q, q_weight, eps, cos, sin)
    rotated_k = _norm_and_rotate(k, k_weight, eps, cos, sin)
    _write_pages(kv, slots, rotated_k, v)
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
) -> Tensor:
    """softmax(cap(scale · q kᵀ) + mask) v per row, keys and values read from pages.

    Row r owns queries query_start[r] … query_start[r+1] − 1, the last of which stands at position
    seq_lens[r] − 1. A query at p sees keys max(0, p − window + 1) … p. cap(s) = soft_cap · tanh(s /
    soft_cap). Query head h reads key head h // (Hq / Hk).
    q [T, Hq, D], kv [num_blocks, 2, Hk, block, D], block_table [R, B] int32 (entries behind the window or
    past the end may be −1), query_start [R + 1], seq_lens [R]. Tokens past query_start[R] are padding and
    give zeros.
    Bytes: the visible pages of every row once per step, 4·Hk·D per position in bf16; q and the output.
    """
    out = torch.zeros_like(q)
    starts, lens = query_start.tolist(), seq_lens.tolist()
    singles: list[int] = []
    for row, length in enumerate(lens):
        first, end = starts[row], starts[row + 1]
        if end - first == 1:
            singles.append(row)
        elif end > first:
            keys, values, key_start = _gather_row(kv, block_table, row, length, end - first, window)
            mask = _chunk_mask(end - first, length, key_start, window, q.device)
            out[first:end] = _attend_chunk(q[first:end], keys, values, mask, scale, soft_cap)
    for bucket in _length_buckets(singles, lens, window):
        if len(bucket) == 1:
            row, length = bucket[0], lens[bucket[0]]
            keys, values, key_start = _gather_row(kv, block_table, row, length, 1, window)
            hidden = 0 if window is None else max(0, length - window - key_start)
            visible = (q[starts[row]], keys[:, hidden:], values[:, hidden:])
            out[starts[row]] = _attend_one(*visible, scale, soft_cap)
            continue
        tokens = torch.tensor([starts[row] for row in bucket], device=q.device)
        rows = torch.tensor(bucket, device=q.device)
        out[tokens] = _attend_singles(
            q[tokens], kv, block_table[rows], seq_lens[rows], scale, window, soft_cap
        )
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


def _norm_and_rotate(x: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x.float()
    if weight is not None:
        wide = functional.rms_norm(wide, (x.shape[-1],), weight, eps)
    a, b = wide.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def _write_pages(kv: Tensor, slots: Tensor, k: Tensor, v: Tensor) -> None:
    entries = torch.stack((k, v), dim=1).to(kv.dtype)
    written = slots >= 0
    if not bool(written.all()):
        slots, entries = slots[written], entries[written]
    block = kv.shape[3]
    kv[slots // block, :, :, slots % block] = entries


def _gather_pages(kv: Tensor, pages: Tensor) -> Tensor:
    """Keys and values of `pages` [n, b] as one dense [2, n, Hk, b · block, D] tensor, by one row copy.

    A (page, k or v, head) is a run of block · D elements, and all strides of the pool are multiples of it,
    so the pool is viewed as a matrix of such runs and the runs are picked in the order of the result.
    """
    _, _, heads, block, dim = kv.shape
    run = block * dim
    assert kv.stride()[1:3] == (heads * run, run), kv.stride()
    assert kv.stride(0) % run == 0, kv.stride()
    per_page = kv.stride(0) // run
    matrix = kv.as_strided(((kv.shape[0] - 1) * per_page + 2 * heads, run), (run, 1))
    offsets = torch.arange(2 * heads, device=kv.device).view(2, 1, heads, 1)
    runs = pages.long().clamp_min(0)[None, :, None, :] * per_page + offsets
    gathered = matrix.index_select(0, runs.flatten())
    return gathered.view(2, pages.shape[0], heads, pages.shape[1] * block, dim)


def _gather_row(
    kv: Tensor, block_table: Tensor, row: int, length: int, num_queries: int, window: int | None
) -> tuple[Tensor, Tensor, int]:
    """Keys and values [Hk, S, D] that the row's queries may see, and the first one's position."""
    block = kv.shape[3]
    oldest = 0 if window is None else max(0, length - num_queries - window + 1)
    first_page, end_page = oldest // block, -(-length // block)
    keys, values = _gather_pages(kv, block_table[row : row + 1, first_page:end_page])[:, 0]
    visible = length - first_page * block
    return keys[:, :visible], values[:, :visible], first_page * block


def _chunk_mask(
    num_queries: int, length: int, key_start: int, window: int | None, device: torch.device
) -> Tensor | None:
    """[num_queries, S] bool, True where the query may see the key. None: plainly causal."""
    if num_queries == length and (window is None or window >= length):
        return None
    queries = torch.arange(length - num_queries, length, device=device)[:, None]
    keys = torch.arange(key_start, length, device=device)[None, :]
    mask = keys <= queries
    if window is not None:
        mask &= keys > queries - window
    return mask


def _attend_chunk(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, soft_cap: float | None
) -> Tensor:
    """One row's queries [n, Hq, D] against its keys [Hk, S, D]; returns [n, Hq, D]."""
    num_queries, num_heads, dim = q.shape
    kv_heads = keys.shape[0]
    group = num_heads // kv_heads
    packed = q.view(num_queries, kv_heads, group, dim).permute(1, 2, 0, 3)
    spread = (kv_heads, group, keys.shape[1], dim)
    out = _softmax_attention(
        packed, keys[:, None].expand(spread), values[:, None].expand(spread), mask, scale, soft_cap
    )
    return out.permute(2, 0, 1, 3).reshape(num_queries, num_heads, dim)


def _attend_one(q: Tensor, keys: Tensor, values: Tensor, scale: float, soft_cap: float | None) -> Tensor:
    """One query [Hq, D] that sees all of keys [Hk, S, D]: a group's heads are its queries. Returns [Hq, D]."""
    packed = q.view(keys.shape[0], -1, q.shape[1])
    everything = torch.ones(1, 1, 1, dtype=torch.bool, device=q.device)
    return _softmax_attention(packed, keys, values, everything, scale, soft_cap).view(q.shape)


def _length_buckets(rows: list[int], lens: list[int], window: int | None) -> list[list[int]]:
    """Groups rows whose visible lengths are alike, so that padding stays below the bucket's ratio."""

    def visible(row: int) -> int:
        return lens[row] if window is None else min(lens[row], window)

    buckets: list[list[int]] = []
    for row in sorted(rows, key=visible):
        if buckets and visible(row) <= max(64, _DECODE_BUCKET_RATIO * visible(buckets[-1][0])):
            buckets[-1].append(row)
        else:
            buckets.append([row])
    return buckets


def _attend_singles(
    q: Tensor,
    kv: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> Tensor:
    """One query per row, q [n, Hq, D]: all rows as one padded batch, a group's heads as its queries."""
    num_rows, num_heads, dim = q.shape
    kv_heads, block = kv.shape[2], kv.shape[3]
    lens = seq_lens.long()
    oldest = torch.zeros_like(lens) if window is None else (lens - window).clamp_min(0)
    first_page = oldest // block
    num_pages = int(((lens + block - 1) // block - first_page).max())
    columns = first_page[:, None] + torch.arange(num_pages, device=q.device)
    pages = block_table.gather(1, columns.clamp_max(block_table.shape[1] - 1))
    gathered = _gather_pages(kv, pages)
    key_positions = first_page[:, None] * block + torch.arange(num_pages * block, device=q.device)
    mask = (key_positions < lens[:, None]) & (key_positions >= oldest[:, None])
    # A masked slot may hold a former owner's NaN, and 0 · NaN is NaN: empty it, a zero weight will not do.
    hidden_rows, hidden_keys = (~mask).nonzero(as_tuple=True)
    gathered[:, hidden_rows, :, hidden_keys] = 0
    keys, values = gathered
    packed = q.view(num_rows, kv_heads, num_heads // kv_heads, dim)
    out = _softmax_attention(packed, keys, values, mask[:, None, None], scale, soft_cap)
    return out.reshape(num_rows, num_heads, dim)


def _softmax_attention(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, soft_cap: float | None
) -> Tensor:
    """Batched attention over [..., queries, D] and [..., S, D]; a bool mask, or None for causal."""
    keys, values = keys.to(q.dtype), values.to(q.dtype)
    if soft_cap is None:
        return functional.scaled_dot_product_attention(
            q, keys, values, mask, is_causal=mask is None, scale=scale
        )
    if mask is None:
        mask = torch.ones(q.shape[-2], keys.shape[-2], dtype=torch.bool, device=q.device).tril()
    scores = torch.matmul(q.float(), keys.float().transpose(-1, -2)) * scale
    scores = soft_cap * torch.tanh(scores / soft_cap)
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return torch.matmul(weights, values.float()).to(q.dtype)
