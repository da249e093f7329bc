"""One attention layer over pages against dense attention, in its own place of the page."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.layers.attention import Attention
from engine.layers.batch import ForwardBatch, GroupBatch
from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from engine.layers.rope import rope_table

HEADS, KV_HEADS, DIM, HIDDEN, TOKENS = 4, 2, 8, 24, 21


def test_writes_to_its_layer_of_its_group_and_equals_dense_attention() -> None:
    generator = torch.Generator().manual_seed(1)
    qkv = torch.randn((HEADS + 2 * KV_HEADS) * DIM, HIDDEN, generator=generator)
    out = torch.randn(HIDDEN, HEADS * DIM, generator=generator)
    q_norm = RMSNorm(torch.rand(DIM, generator=generator) + 0.5, 1e-6)
    k_norm = RMSNorm(torch.rand(DIM, generator=generator) + 0.5, 1e-6)
    rope = rope_table(torch.tensor([1.0, 0.5, 0.1, 0.01]), 64)
    x = torch.randn(TOKENS, HIDDEN, generator=generator)
    layer = Attention(
        qkv=Linear(qkv), out=Linear(out), num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=DIM, rope=rope,
        group=1, index=2, scale=0.3, window=7, q_norm=q_norm, k_norm=k_norm,
    )  # fmt: skip
    pool = torch.full((6, 3, 2, KV_HEADS, 16, DIM), float("nan"))
    input_norm = RMSNorm(torch.rand(HIDDEN, generator=generator) + 0.5, 1e-6)
    found = layer.out(layer(x, input_norm, _batch(pages=[4, 1]), pool))
    expected = _dense(input_norm(x), qkv, out, rope, q_norm, k_norm)
    assert torch.allclose(found, expected, atol=1e-3)
    assert torch.isfinite(pool[4, 2]).all()
    assert torch.isfinite(pool[1, 2, :, :, : TOKENS - 16]).all()
    untouched = torch.ones(pool.shape, dtype=torch.bool)
    untouched[4, 2] = untouched[1, 2] = False
    assert torch.isnan(pool[untouched]).all()


def _batch(pages: list[int]) -> ForwardBatch:
    slots = torch.tensor([pages[position // 16] * 16 + position % 16 for position in range(TOKENS)])
    mine = GroupBatch(torch.tensor([pages], dtype=torch.int32), slots)
    other = GroupBatch(torch.tensor([[0, 5]], dtype=torch.int32), torch.full((TOKENS,), -1))
    return ForwardBatch(
        token_ids=torch.zeros(TOKENS, dtype=torch.int64),
        positions=torch.arange(TOKENS),
        query_start=torch.tensor([0, TOKENS], dtype=torch.int32),
        seq_lens=torch.tensor([TOKENS], dtype=torch.int32),
        sampled=torch.tensor([TOKENS - 1]),
        groups=(other, mine),
    )


def _dense(x: Tensor, qkv: Tensor, out: Tensor, rope: Tensor, q_norm: RMSNorm, k_norm: RMSNorm) -> Tensor:
    heads = (x @ qkv.T).view(TOKENS, -1, DIM)
    q = _turn(q_norm(heads[:, :HEADS].contiguous()), rope)
    k = _turn(k_norm(heads[:, HEADS : HEADS + KV_HEADS].contiguous()), rope).repeat_interleave(2, dim=1)
    v = heads[:, HEADS + KV_HEADS :].repeat_interleave(2, dim=1)
    distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    mask = (distance >= 0) & (distance < 7)
    attended = functional.scaled_dot_product_attention(
        q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), mask, scale=0.3
    )
    return attended.transpose(0, 1).reshape(TOKENS, -1) @ out.T


def _turn(x: Tensor, rope: Tensor) -> Tensor:
    cos, sin = rope[:TOKENS, None, : DIM // 2], rope[:TOKENS, None, DIM // 2 :]
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
