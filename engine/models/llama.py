"""The llama decoder, and the families that differ from it by configuration alone: Qwen 2 and 2.5 (biases on q, k and
v), Qwen 3 (norms on q and k), Mistral (a window)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.layers.attention import Attention
from engine.layers.batch import ForwardBatch
from engine.layers.mlp import MLP
from engine.layers.norm import RMSNorm
from engine.models.build import Parts, decoder_shapes
from engine.models.decoder import Decoder
from engine.models.model_config import ModelConfig
from engine.models.weights import Shape

_NORMS = ("input_layernorm", "post_attention_layernorm")


def tensor_shapes(config: ModelConfig) -> dict[str, Shape]:
    return decoder_shapes(config, _NORMS)


@dataclass(slots=True)
class LlamaLayer:
    input_norm: RMSNorm
    attention: Attention
    mlp_norm: RMSNorm
    mlp: MLP

    def __call__(self, x: Tensor, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        x = self.attention.out.add_to(x, self.attention(x, self.input_norm, batch, kv_pool))
        return self.mlp.add_to(x, self.mlp_norm)


class Llama(Decoder):
    """Pre-norm blocks, rotary positions in every layer."""

    def __init__(self, parts: Parts) -> None:
        config = parts.config
        rope = parts.rope(config.rope_base, config.rope_scaling, config.rope_freq_divisors)
        super().__init__(parts, [_layer(parts, index, rope) for index in range(config.num_layers)])


def _layer(parts: Parts, index: int, rope: Tensor) -> LlamaLayer:
    prefix = f"model.layers.{index}."
    return LlamaLayer(
        input_norm=parts.norm(f"{prefix}input_layernorm.weight"),
        attention=parts.attention(index, rope),
        mlp_norm=parts.norm(f"{prefix}post_attention_layernorm.weight"),
        mlp=parts.mlp(index),
    )
