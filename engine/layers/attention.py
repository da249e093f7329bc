"""Self-attention over the page pool.

One instance per layer, made by `engine.models.build`; calls `kernels.rope_and_cache` and
`kernels.paged_attention` on the tables of the layer's KV group. Knows where its keys and values lie in a
page, not who else uses the page.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layers.batch import ForwardBatch
from engine.layers.fp8_linear import Projection
from engine.layers.norm import RMSNorm
from kernels.attention_plan import AttentionPlan
from kernels.fresh_keys import FreshKeys
from kernels.paged_attention import paged_attention, paged_attention_triton
from kernels.rope_and_cache import rope_and_cache


@dataclass(slots=True)
class Attention:
    qkv: Projection
    """Query, key and value heads in one product, in this order."""
    out: Projection
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: Tensor
    """[positions, head_dim] fp32, cos | sin."""
    group: int
    """Which KV group's tables the layer uses."""
    index: int
    """The layer's place in the group's pages."""
    scale: float
    window: int | None = None
    soft_cap: float | None = None
    q_norm: RMSNorm | None = None
    k_norm: RMSNorm | None = None
    kv_scale: Tensor | None = None
    """[2, num_kv_heads] fp32: what the keys and values of an fp8 pool are to be multiplied by."""

    def __call__(self, x: Tensor, norm: RMSNorm, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        """What `out` takes, [T, heads · head_dim], from the residual stream x [T, H]."""
        tables = batch.groups[self.group]
        kv = kv_pool[:, self.index]
        heads = self.qkv(x, norm).view(x.shape[0], -1, self.head_dim)
        q, k, v = torch.split(heads, [self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        q_weight = self.q_norm.weight if self.q_norm else None
        k_weight = self.k_norm.weight if self.k_norm else None
        eps = self.q_norm.eps if self.q_norm else 0.0
        if isinstance(tables.plan, AttentionPlan) and not (tables.plan.has_wide or tables.plan.is_fixed):
            fresh = FreshKeys(k, v, tables.slots, self.rope, q_weight, k_weight, eps)
            table, plan = tables.block_table, tables.plan
            attended = paged_attention_triton(
                q, kv, table, self.scale, self.soft_cap, plan, self.kv_scale, fresh
            )
            return attended.flatten(1)
        q = rope_and_cache(
            q,
            k,
            v,
            batch.positions,
            self.rope,
            kv,
            tables.slots,
            q_weight=q_weight,
            k_weight=k_weight,
            eps=eps,
            runs=tables.runs,
            kv_scale=self.kv_scale,
        )
        attended = paged_attention(
            q,
            kv,
            tables.block_table,
            batch.query_start,
            batch.seq_lens,
            self.scale,
            window=self.window,
            soft_cap=self.soft_cap,
            plan=tables.plan,
            kv_scale=self.kv_scale,
        )
        return attended.flatten(1)
