"""What sets the families of decoders apart, as far as their size goes: one row each.

`config_source` reads a config.json by these rows. Data only; tests/workbench/capacity count the parameters of each
against the model that `transformers` builds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Windows = Literal["none", "all", "qwen", "alternate", "pattern"]
"""Which layers `sliding_window` holds for: all; from `max_window_layers` on, if `use_sliding_window`; every other;
all but every `sliding_window_pattern`-th. `layer_types` wins wherever it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A row. Names in strings are keys of the config.json."""

    norms_per_layer: int = 2
    qk_norm: Literal["no", "head", "all heads"] = "no"
    """A norm's vector for one head's queries and one for its keys, or for those of all heads."""
    qkv_bias: str | bool = False
    out_bias: str | bool = False
    mlp_bias: str | bool = False
    norm_bias: bool = False
    gated: bool = True
    """Three matrices of an MLP, not two."""
    experts: bool = False
    """A mixture: `num_experts` of them, or `num_local_experts`."""
    expert_size: str = "moe_intermediate_size"
    expert_bias: bool = False
    shared_expert: str | None = None
    sinks: bool = False
    """A learned number per head and layer."""
    windows: Windows = "none"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What published configurations leave out."""


_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "vocab_size": 256_000}
_GEMMA3 = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True,
    "vocab_size": 262_208, "sliding_window": 4096, "sliding_window_pattern": 6, "max_position_embeddings": 131_072,
}  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    "llama": Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "mistral": Family(windows="all"),
    "qwen2": Family(qkv_bias=True, windows="qwen"),
    "qwen3": Family(
        qk_norm="head", qkv_bias="attention_bias", out_bias="attention_bias", windows="qwen",
        defaults={"head_dim": 128},
    ),
    "gemma": Family(qkv_bias="attention_bias", out_bias="attention_bias", defaults=_GEMMA),
    "gemma2": Family(
        norms_per_layer=4, qkv_bias="attention_bias", out_bias="attention_bias", windows="alternate",
        defaults=_GEMMA | {"sliding_window": 4096},
    ),
    "gemma3_text": Family(
        norms_per_layer=4, qk_norm="head", qkv_bias="attention_bias", out_bias="attention_bias", windows="pattern",
        defaults=_GEMMA3,
    ),
    "mixtral": Family(experts=True, expert_size="intermediate_size", windows="all"),
    "qwen2_moe": Family(
        qkv_bias=True, experts=True, shared_expert="shared_expert_intermediate_size", windows="qwen"
    ),
    "qwen3_moe": Family(
        qk_norm="head", qkv_bias="attention_bias", out_bias="attention_bias", experts=True, windows="qwen",
        defaults={"head_dim": 128},
    ),
    "gpt_oss": Family(
        qkv_bias=True, out_bias=True, experts=True, expert_size="intermediate_size", expert_bias=True,
        sinks=True, windows="alternate", defaults={"head_dim": 64, "sliding_window": 128},
    ),
    "phi3": Family(windows="all"),
    "granite": Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "olmo2": Family(qk_norm="all heads", qkv_bias="attention_bias", out_bias="attention_bias"),
    "smollm3": Family(
        qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", windows="qwen",
        defaults={"tie_word_embeddings": True},
    ),
    "starcoder2": Family(
        norm_bias=True, gated=False, qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", windows="all",
        defaults={"tie_word_embeddings": True, "use_bias": True},
    ),
}  # fmt: skip
