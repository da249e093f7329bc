"""Tiny models that can tell: complete checkpoints small enough for a test and sensitive to every mistake.

Weights, norm weights and biases are all random, and scaled so that attention is neither flat nor one-hot
and greedy decoding does not repeat: with a default initialisation a model without rope would pass for
right. The default seeds give ≥ 30 distinct tokens in 64.
`write_tiny_llama` and `write_tiny_gemma3` write config.json, generation_config.json,
model.safetensors and a real tokenizer; the result loads in `transformers` and in the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.tiny_tokenizer import write_gemma_tokenizer, write_llama_tokenizer

LLAMA_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 1024,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "attention_bias": True,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": [1, 4],
    "dtype": "float32",
}

_YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
QWEN2_CONFIG = LLAMA_CONFIG | {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "rope_scaling": _YARN,
    "use_sliding_window": True,
    "sliding_window": 24,
    "max_window_layers": 2,
}
QWEN3_CONFIG = LLAMA_CONFIG | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 32,
    "rope_scaling": _YARN,
    "use_sliding_window": False,
}
MISTRAL_CONFIG = LLAMA_CONFIG | {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "rope_scaling": None,
    "sliding_window": 24,
}
LLAMA_LIKE = {
    "llama": LLAMA_CONFIG,
    "qwen2": QWEN2_CONFIG,
    "qwen3": QWEN3_CONFIG,
    "mistral": MISTRAL_CONFIG,
}
"""Families that the llama decoder serves: tiny configurations, of the same size."""

GEMMA3_CONFIG: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 1024,
    "rope_theta": 100000.0,
    "rope_local_base_freq": 1000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "query_pre_attn_scalar": 24,
    "sliding_window": 24,
    "sliding_window_pattern": 3,
    "attention_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "dtype": "float32",
}


def write_tiny_llama(
    directory: Path,
    *,
    family: str = "llama",
    seed: int = 7,
    vocab_size: int = 512,
    shards: int = 1,
    drop: str = "",
    **overrides: Any,
) -> Path:
    """A 4-layer llama with llama3 rope scaling, grouped heads and attention biases, or a model of another family
    that its decoder serves. Tensors whose name ends in `drop` are written as zeros."""
    directory.mkdir(parents=True, exist_ok=True)
    config = LLAMA_LIKE[family] | overrides | {"vocab_size": write_llama_tokenizer(directory, vocab_size)}
    _write_json(directory / "config.json", config)
    eos = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    _write_json(directory / "generation_config.json", eos)
    weights = llama_weights(config, seed)
    for name in weights:
        if drop and name.endswith(drop):
            weights[name].zero_()
    _write_weights(directory, weights, shards)
    return directory


def write_tiny_gemma3(
    directory: Path, *, seed: int = 2, vocab_size: int = 512, shards: int = 1, **overrides: Any
) -> Path:
    """An 8-layer Gemma 3: two local layers to a global one, both rope bases, linear factor on global ones."""
    directory.mkdir(parents=True, exist_ok=True)
    config = GEMMA3_CONFIG | overrides | {"vocab_size": write_gemma_tokenizer(directory, vocab_size)}
    _write_json(directory / "config.json", config)
    eos = {"bos_token_id": config["bos_token_id"], "eos_token_id": [config["eos_token_id"], 5]}
    _write_json(directory / "generation_config.json", eos)
    _write_weights(directory, gemma3_weights(config, seed), shards)
    return directory


def llama_weights(config: Mapping[str, Any], seed: int) -> dict[str, Tensor]:
    """Hugging Face name → fp32 tensor."""
    draw = _Draw(seed)
    weights = _decoder_weights(config, draw, norms=("input_layernorm", "post_attention_layernorm"))
    if config["model_type"] == "qwen3":
        for layer in range(config["num_hidden_layers"]):
            for which in ("q_norm", "k_norm"):
                name = f"model.layers.{layer}.self_attn.{which}.weight"
                weights[name] = draw.around(1.85, config["head_dim"])
    weights["model.embed_tokens.weight"] = draw.normal(config["vocab_size"], config["hidden_size"], std=1.0)
    weights["model.norm.weight"] = draw.around(1.0, config["hidden_size"])
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = draw.matrix(config["vocab_size"], config["hidden_size"], gain=0.45)
    return weights


def gemma3_weights(config: Mapping[str, Any], seed: int) -> dict[str, Tensor]:
    """Hugging Face name → fp32 tensor. Norm weights are stored without the 1, as Gemma does."""
    draw = _Draw(seed)
    norms = (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
    weights = _decoder_weights(config, draw, norms=norms)
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] -= 1.0
    for layer in range(config["num_hidden_layers"]):
        for which in ("q_norm", "k_norm"):
            name = f"model.layers.{layer}.self_attn.{which}.weight"
            weights[name] = draw.around(1.5, config["head_dim"]) - 1.0
    weights["model.embed_tokens.weight"] = draw.matrix(config["vocab_size"], config["hidden_size"], gain=1.0)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = draw.matrix(config["vocab_size"], config["hidden_size"], gain=1.0)
    # Signs at random: with a tied head a positive final norm would favour repeating the last token.
    weights["model.norm.weight"] = draw.normal(config["hidden_size"], std=0.6) - 1.0
    return weights


def _decoder_weights(config: Mapping[str, Any], draw: _Draw, *, norms: tuple[str, ...]) -> dict[str, Tensor]:
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    value = config["num_key_value_heads"] * config["head_dim"]
    weights: dict[str, Tensor] = {}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        # Gain 1.9 on q and k spreads the attention scores to a few units, enough to prefer some keys.
        for name, out, width, gain in (
            ("self_attn.q_proj", query, hidden, 1.9),
            ("self_attn.k_proj", value, hidden, 1.9),
            ("self_attn.v_proj", value, hidden, 2.0),
            ("self_attn.o_proj", hidden, query, 3.0),
            ("mlp.gate_proj", ffn, hidden, 1.0),
            ("mlp.up_proj", ffn, hidden, 1.0),
            ("mlp.down_proj", hidden, ffn, 1.0),
        ):
            weights[f"{prefix}{name}.weight"] = draw.matrix(out, width, gain=gain)
            if name.startswith("self_attn") and _has_bias(config, name):
                weights[f"{prefix}{name}.bias"] = draw.normal(out, std=0.3)
            if config.get("mlp_bias") and name.startswith("mlp"):
                weights[f"{prefix}{name}.bias"] = draw.normal(out, std=0.3)
        for name in norms:
            weights[f"{prefix}{name}.weight"] = draw.around(1.0, hidden)
    return weights


def _has_bias(config: Mapping[str, Any], projection: str) -> bool:
    """As `transformers` builds the families: Qwen 2's are not in its configuration, Mistral has none."""
    if config["model_type"] == "qwen2":
        return not projection.endswith("o_proj")
    return bool(config["attention_bias"]) and config["model_type"] != "mistral"


class _Draw:
    """Seeded random tensors."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, std: float) -> Tensor:
        return torch.randn(*shape, generator=self._generator) * std

    def matrix(self, out: int, width: int, *, gain: float) -> Tensor:
        return self.normal(out, width, std=gain * width**-0.5)

    def around(self, centre: float, size: int) -> Tensor:
        return centre + self.normal(size, std=0.3)


def _write_weights(directory: Path, weights: dict[str, Tensor], shards: int) -> None:
    if shards == 1:
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(weights)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        part = names[shard::shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: weights[name] for name in part}, directory / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    _write_json(directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))
