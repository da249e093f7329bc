"""A one-layer-per-group decoder with random weights, for tests of the runner that need no checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.core.contract import KVGroup
from engine.layers.batch import ForwardBatch
from engine.models.model_config import ModelConfig, RopeScaling
from kernels.paged_attention import paged_attention
from kernels.rope_and_cache import rope_and_cache

HIDDEN, HEADS, KV_HEADS, DIM = 32, 4, 2, 8


def toy_config(vocab_size: int = 97, max_positions: int = 256) -> ModelConfig:
    return ModelConfig(
        family="llama",
        num_layers=2,
        hidden_size=HIDDEN,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        ffn_size=64,
        vocab_size=vocab_size,
        norm_eps=1e-5,
        rope_base=1e4,
        rope_scaling=RopeScaling(),
        max_positions=max_positions,
        eos_token_ids=(1, 2),
        layer_windows=(None, 20),
    )


class ToyLM:
    """A `CausalLM` with a full and a windowed layer. `broken` maps a token id to what its logits become."""

    def __init__(self, vocab_size: int = 97, max_positions: int = 256, seed: int = 0) -> None:
        self.config = toy_config(vocab_size, max_positions)
        self.kv_groups = (KVGroup((0,), None), KVGroup((1,), 20))
        self.broken: dict[int, float] = {}
        self.raises: Exception | None = None
        draw = torch.Generator().manual_seed(seed)
        width = (HEADS + 2 * KV_HEADS) * DIM
        self._embedding = torch.randn(vocab_size, HIDDEN, generator=draw)
        self._qkv = [torch.randn(HIDDEN, width, generator=draw) * 0.3 for _ in range(2)]
        self._out = [torch.randn(HEADS * DIM, HIDDEN, generator=draw) * 0.3 for _ in range(2)]
        self._head = torch.randn(HIDDEN, vocab_size, generator=draw) * 0.4
        angles = torch.outer(torch.arange(max_positions), 100.0 ** -(torch.arange(DIM // 2) / (DIM // 2)))
        self._cos_sin = torch.cat((angles.cos(), angles.sin()), dim=-1)

    def forward(self, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        if self.raises is not None:
            raise self.raises
        hidden = self._embedding[batch.token_ids]
        for layer, (group, kv_group) in enumerate(zip(batch.groups, self.kv_groups, strict=True)):
            widths = [HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM]
            q, k, v = torch.split(hidden @ self._qkv[layer], widths, dim=-1)
            q, k, v = q.view(-1, HEADS, DIM), k.view(-1, KV_HEADS, DIM), v.view(-1, KV_HEADS, DIM)
            kv = kv_pool[:, 0]
            q = rope_and_cache(q, k, v, batch.positions, self._cos_sin, kv, group.slots)
            mixed = paged_attention(
                q, kv, group.block_table, batch.query_start, batch.seq_lens, 0.5, kv_group.window
            )
            hidden = hidden + mixed.flatten(1) @ self._out[layer]
        for token_id, value in self.broken.items():
            hidden = torch.where((batch.token_ids == token_id)[:, None], value, hidden)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self._head
