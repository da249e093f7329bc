"""Head norm, rotary embedding and the KV write on the CPU.

    (a, b) → (a·cos − b·sin, b·cos + a·sin) for each pair (i, i + D/2) of q and k; k and v go to their page

Place in the path: `kernels/rope_and_cache.py` → here for CPU tensors. Queries and keys that lie side by side, as one
fused projection leaves them, are normalised and turned together: a step of a few tokens costs what its number of
operations costs. Knows no model. Bytes: 4·T·(Hq + 2·Hk)·D in bf16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import reference
from kernels.e4m3 import E4M3
from kernels.host_plan import PageShape, run_matrix, write_runs


def rope_and_cache_host(
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
    runs: Tensor | None = None,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """The rotated q, as `kernels.reference.rope_and_cache` defines it. `runs` [T, 2 · Hk]: `write_runs` of slots
    none of which is −1, looked up once for the layers of a group."""
    num_heads = q.shape[1]
    heads = _side_by_side(q, k).float()
    if q_weight is not None and k_weight is not None:
        heads = heads * _inverse_rms(heads, eps)
        heads[:, :num_heads] *= q_weight
        heads[:, num_heads:] *= k_weight
    elif q_weight is not None or k_weight is not None:
        pairs = ((heads[:, :num_heads], q_weight), (heads[:, num_heads:], k_weight))
        heads = torch.cat([x if w is None else x * _inverse_rms(x, eps) * w for x, w in pairs], dim=1)
    turned = _rotate(heads, cos_sin.index_select(0, positions).unsqueeze(1)).to(q.dtype)
    entries = torch.cat((turned[:, num_heads:], v), dim=1)
    if kv.dtype == E4M3:
        entries = reference.to_pool(entries.view(v.shape[0], 2, *v.shape[1:]), E4M3, kv_scale)
    entries = reference.as_bytes(entries.to(kv.dtype)).view(-1, 2 * v.shape[1], v.shape[2])
    if runs is None:
        written = slots >= 0
        slots, entries = slots[written], entries[written]
        runs = write_runs(PageShape.of(kv), slots)
    run_matrix(reference.as_bytes(kv)).index_copy_(0, runs.view(-1), entries.view(-1, kv.shape[4]))
    return turned[:, :num_heads]


def _side_by_side(q: Tensor, k: Tensor) -> Tensor:
    """[T, Hq + Hk, D], without a copy where they are slices of one tensor."""
    tokens, num_heads, dim = q.shape
    follows = k.data_ptr() == q.data_ptr() + num_heads * q.stride(1) * q.element_size()
    if follows and q.stride() == k.stride():
        return q.as_strided((tokens, num_heads + k.shape[1], dim), q.stride())
    return torch.cat((q, k), dim=1)


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    """1 / sqrt(mean(x²) + eps) over the last dimension, [..., 1]."""
    square: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    return square.div_(x.shape[-1]).add_(eps).rsqrt_()


def _rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos_sin.chunk(2, dim=-1)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    low, high = out.chunk(2, dim=-1)
    torch.mul(a, cos, out=low).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=high).addcmul_(a, sin)
    return out
