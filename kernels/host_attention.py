"""Paged attention on the CPU, from a work list.

    out[t, h] = softmax_j(cap(scale · q[t, h] · k[j, g])) · v[j, g],   j in the window of t's position, g = h // G

Place in the path: `kernels/paged_attention.py` → here for CPU tensors. Few and small operations, since each costs a
microsecond whatever its size, and none that torch would split over threads when it is small: waking a thread costs
more than the rows of a decode step. Sums are fp32. Bytes: the visible keys and values three times (read, copied,
read), 8·Hk·D a position and copy in fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.host_plan import Chunk, HostPlan, Singles, run_matrix
from kernels.reference import per_query_head


def paged_attention_host(
    q: Tensor,
    kv: Tensor,
    scale: float,
    soft_cap: float | None,
    plan: HostPlan,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """[T, Hq, D] in q's dtype; q [T, Hq, D], kv [num_blocks, 2, Hk, block, D], kv_scale [2, Hk] of an e4m3 pool.
    Padding tokens give zeros."""
    if kv_scale is not None:
        scales = per_query_head(kv_scale, q.shape[1])
        wide = paged_attention_host(q.float() * scales[0], kv, scale, soft_cap, plan)
        return (wide * scales[1]).to(q.dtype)
    matrix = run_matrix(kv)
    kv_heads = kv.shape[2]
    if len(plan.singles) == 1 and not plan.chunks and plan.num_tokens == q.shape[0]:
        return _attend_singles(q, matrix, kv_heads, plan.singles[0], scale, soft_cap)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    out[plan.num_tokens :] = 0
    for singles in plan.singles:
        out[singles.tokens] = _attend_singles(q[singles.tokens], matrix, kv_heads, singles, scale, soft_cap)
    for chunk in plan.chunks:
        out[chunk.tokens] = _attend_chunk(q[chunk.tokens], matrix, kv_heads, chunk, scale, soft_cap)
    return out


def _attend_singles(
    q: Tensor, matrix: Tensor, kv_heads: int, singles: Singles, scale: float, soft_cap: float | None
) -> Tensor:
    """q [n, Hq, D] → [n, Hq, D]: a group's heads are the queries of its key head."""
    num_rows, num_heads, dim = q.shape
    gathered = matrix.index_select(0, singles.runs).view(2, num_rows * kv_heads, -1, dim).float()
    packed = q.reshape(num_rows * kv_heads, num_heads // kv_heads, dim).float()
    keys, values = gathered[0], gathered[1]
    if soft_cap is None:
        scores = torch.baddbmm(singles.hidden, packed, keys.transpose(1, 2), alpha=scale)
    else:
        scores = torch.bmm(packed, keys.transpose(1, 2)).mul_(scale / soft_cap).tanh_().mul_(soft_cap)
        scores += singles.hidden
    out = torch.bmm(torch.softmax(scores, dim=-1), values)
    return out.view(num_rows, num_heads, dim).to(q.dtype)


def _attend_chunk(
    q: Tensor, matrix: Tensor, kv_heads: int, chunk: Chunk, scale: float, soft_cap: float | None
) -> Tensor:
    """One row's queries [n, Hq, D] → [n, Hq, D]."""
    num_queries, num_heads, dim = q.shape
    group = num_heads // kv_heads
    gathered = matrix.index_select(0, chunk.runs).view(2, kv_heads, 1, -1, dim).float()
    keys, values = gathered.expand(2, kv_heads, group, -1, dim)
    packed = q.view(num_queries, kv_heads, group, dim).permute(1, 2, 0, 3).float()
    if soft_cap is None:
        out = functional.scaled_dot_product_attention(
            packed, keys, values, chunk.visible, is_causal=chunk.visible is None, scale=scale
        )
    else:
        out = _capped_attention(packed, keys, values, chunk.visible, scale, soft_cap)
    return out.permute(2, 0, 1, 3).reshape(num_queries, num_heads, dim).to(q.dtype)


def _capped_attention(
    q: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, scale: float, soft_cap: float
) -> Tensor:
    if visible is None:
        visible = torch.ones(q.shape[-2], keys.shape[-2], dtype=torch.bool).tril()
    scores = torch.matmul(q, keys.transpose(-1, -2)).mul_(scale / soft_cap).tanh_().mul_(soft_cap)
    return torch.matmul(torch.softmax(scores.masked_fill_(~visible, float("-inf")), dim=-1), values)
