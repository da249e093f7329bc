"""The Gemma 3 text decoder: sliding and full layers in turn, norms before and after each block."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.layers.attention import Attention
from engine.layers.batch import ForwardBatch
from engine.layers.mlp import MLP
from engine.layers.norm import RMSNorm
from engine.models.build import Parts, decoder_shapes
from engine.models.decoder import Decoder
from engine.models.model_config import ModelConfig, RopeScaling
from engine.models.weights import Shape

_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def tensor_shapes(config: ModelConfig) -> dict[str, Shape]:
    return decoder_shapes(config, _NORMS)


@dataclass(slots=True)
class Gemma3Layer:
    input_norm: RMSNorm
    attention: Attention
    attention_out_norm: RMSNorm
    mlp_norm: RMSNorm
    mlp: MLP
    mlp_out_norm: RMSNorm

    def __call__(self, x: Tensor, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        attended = self.attention.out(self.attention(x, self.input_norm, batch, kv_pool))
        x = x + self.attention_out_norm(attended)
        return x + self.mlp_out_norm(self.mlp(x, self.mlp_norm))


class Gemma3(Decoder):
    """Sliding layers turn by the local rope base, full ones by the global base and its scaling."""

    def __init__(self, parts: Parts) -> None:
        config = parts.config
        assert config.rope_base_local is not None, config
        full = parts.rope(config.rope_base, config.rope_scaling, config.rope_freq_divisors)
        local = parts.rope(config.rope_base_local, RopeScaling())
        ropes = (full if window is None else local for window in config.layer_windows)
        super().__init__(parts, [_layer(parts, index, rope) for index, rope in enumerate(ropes)])


def _layer(parts: Parts, index: int, rope: Tensor) -> Gemma3Layer:
    prefix = f"model.layers.{index}."
    return Gemma3Layer(
        input_norm=parts.norm(f"{prefix}input_layernorm.weight"),
        attention=parts.attention(index, rope),
        attention_out_norm=parts.norm(f"{prefix}post_attention_layernorm.weight"),
        mlp_norm=parts.norm(f"{prefix}pre_feedforward_layernorm.weight"),
        mlp=parts.mlp(index),
        mlp_out_norm=parts.norm(f"{prefix}post_feedforward_layernorm.weight"),
    )
