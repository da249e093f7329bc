"""The frame all decoder families share: embedding, layers in order, final norm, head.

A family's file defines its layer and how its layers are made; this one runs them. Implements
`engine.layers.batch.CausalLM`. Knows no family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.core.contract import KVGroup
from engine.layers.batch import ForwardBatch
from engine.models.build import FINAL_NORM, Parts

Layer = Callable[[Tensor, ForwardBatch, Tensor], Tensor]
"""(residual stream [T, H], batch, page pool) → residual stream."""


class Decoder:
    """Stateless but for its weights."""

    def __init__(self, parts: Parts, layers: Sequence[Layer]) -> None:
        self.config = parts.config
        self.kv_groups: tuple[KVGroup, ...] = parts.groups
        self.embedding = parts.embedding()
        self.layers = layers
        self.norm = parts.norm(FINAL_NORM)
        self.head = parts.head()

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        x = self.embedding(batch.token_ids)
        for layer in self.layers:
            x = layer(x, batch, kv_pool)
        return self.norm(x)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        return self.head(hidden)
