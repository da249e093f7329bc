"""config.json or GGUF metadata → ModelConfig.

`read_config` is the one entry: the engine's configuration, the loader and the server call it. Imports no
torch. Unknown values that would change the answer are errors; everything else is ignored.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.gguf import GGUFFile
from engine.models import gguf_config
from engine.models.model_config import (
    Family,
    GatedAct,
    ModelConfig,
    ModelConfigError,
    RopeScaling,
    yarn_attention_factor,
)
from engine.models.quantization import stored_quantization

_FAMILIES: dict[str, Family] = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "mistral": "mistral",
    "gemma3_text": "gemma3",
}
_ACTS: dict[str, GatedAct] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_GEMMA3_DEFAULTS: dict[str, Any] = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
"""What published text configurations leave out."""
_LLAMA_DEFAULTS: dict[str, Any] = {
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
    "rope_theta": 10_000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
_QWEN_DEFAULTS: dict[str, Any] = {
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32_768,
    "rope_theta": 10_000.0,
    "hidden_act": "silu",
    "sliding_window": 4096,
    "max_window_layers": 28,
}
_DEFAULTS: dict[Family, dict[str, Any]] = {
    "llama": _LLAMA_DEFAULTS,
    "qwen2": _QWEN_DEFAULTS,
    "qwen3": _QWEN_DEFAULTS | {"head_dim": 128},
    "mistral": _LLAMA_DEFAULTS | {"max_position_embeddings": 131_072, "sliding_window": 4096},
    "gemma3": _GEMMA3_DEFAULTS,
}


def read_config(path: Path) -> ModelConfig:
    """From a checkpoint directory (config.json, generation_config.json) or a .gguf file."""
    if path.is_file():
        return gguf_config.from_gguf(GGUFFile(path))
    config = _read_json(path / "config.json")
    generation = path / "generation_config.json"
    return from_hf(config, _read_json(generation) if generation.exists() else {})


def from_hf(config: Mapping[str, Any], generation: Mapping[str, Any]) -> ModelConfig:
    """A decoded config.json, and generation_config.json for its list of end tokens ({} if there is none)."""
    text = config.get("text_config", config)
    model_type = text.get("model_type", "gemma3_text" if config.get("model_type") == "gemma3" else None)
    if model_type not in _FAMILIES:
        raise ModelConfigError(f"model_type {model_type!r} is not served; {sorted(_FAMILIES)} are")
    eos = generation.get("eos_token_id") or config.get("eos_token_id")
    top = {"eos_token_id": eos} if eos is not None else {}
    dtype = text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype")
    family = _FAMILIES[model_type]
    fields = _Fields(_DEFAULTS[family] | dict(text) | top)
    read = _gemma3 if family == "gemma3" else _llama
    model = read(fields, family, dtype or "bfloat16")
    return dataclasses.replace(model, quantization=stored_quantization(config))


class _Fields:
    """Typed look-ups in a decoded config.json; null counts as absent."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def get(self, name: str) -> Any:
        return self._values.get(name)

    def integer(self, name: str) -> int:
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ModelConfigError(f"config.json: {name} must be an integer, not {value!r}")
        return value

    def number(self, name: str) -> float:
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelConfigError(f"config.json: {name} must be a number, not {value!r}")
        return float(value)

    def flag(self, name: str) -> bool:
        return bool(self._values.get(name))


def _llama(fields: _Fields, family: Family, dtype: str) -> ModelConfig:
    """Llama, and the families that its decoder serves."""
    base, scaling = _rope(fields, _rope_parameters(fields), "rope_theta")
    num_layers, heads = fields.integer("num_hidden_layers"), fields.integer("num_attention_heads")
    head_dim = fields.get("head_dim") or fields.integer("hidden_size") // heads
    return ModelConfig(
        family=family,
        num_layers=num_layers,
        hidden_size=fields.integer("hidden_size"),
        num_heads=heads,
        num_kv_heads=fields.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        ffn_size=fields.integer("intermediate_size"),
        vocab_size=fields.integer("vocab_size"),
        norm_eps=fields.number("rms_norm_eps"),
        rope_base=base,
        rope_scaling=scaling,
        max_positions=scaling.reach(fields.integer("max_position_embeddings")),
        eos_token_ids=_token_ids(fields.get("eos_token_id")),
        bos_token_id=fields.get("bos_token_id"),
        act=_act(fields.get("hidden_act")),
        tie_embeddings=fields.flag("tie_word_embeddings"),
        qkv_bias=family == "qwen2" or (family != "mistral" and fields.flag("attention_bias")),
        out_bias=family in ("llama", "qwen3") and fields.flag("attention_bias"),
        qk_norm=family == "qwen3",
        mlp_bias=family == "llama" and fields.flag("mlp_bias"),
        layer_windows=_llama_windows(fields, family, num_layers),
        attention_scale=head_dim**-0.5,
        dtype=dtype,
    )


def _llama_windows(fields: _Fields, family: Family, num_layers: int) -> tuple[int | None, ...]:
    if family == "llama":
        return (None,) * num_layers
    if family == "mistral":
        return (fields.get("sliding_window"),) * num_layers
    if not fields.flag("use_sliding_window"):
        return (None,) * num_layers
    window = fields.integer("sliding_window")
    if fields.get("layer_types") is not None:
        return _typed_windows(fields.get("layer_types"), window)
    first = fields.integer("max_window_layers")
    return tuple(window if layer >= first else None for layer in range(num_layers))


def _gemma3(fields: _Fields, family: Family, dtype: str) -> ModelConfig:
    if fields.flag("use_bidirectional_attention"):
        raise ModelConfigError(
            "config.json: use_bidirectional_attention is an encoder's; only decoders are served"
        )
    parameters = _rope_parameters(fields)
    base, scaling = _rope(fields, parameters.get("full_attention", parameters), "rope_theta")
    local_base, local_scaling = _rope(fields, parameters.get("sliding_attention", {}), "rope_local_base_freq")
    if local_scaling != RopeScaling():
        raise ModelConfigError("config.json: rope scaling of the sliding layers is not supported")
    num_layers, hidden = fields.integer("num_hidden_layers"), fields.integer("hidden_size")
    return ModelConfig(
        family=family,
        num_layers=num_layers,
        hidden_size=hidden,
        num_heads=fields.integer("num_attention_heads"),
        num_kv_heads=fields.integer("num_key_value_heads"),
        head_dim=fields.integer("head_dim"),
        ffn_size=fields.integer("intermediate_size"),
        vocab_size=fields.integer("vocab_size"),
        norm_eps=fields.number("rms_norm_eps"),
        rope_base=base,
        rope_base_local=local_base,
        rope_scaling=scaling,
        max_positions=fields.integer("max_position_embeddings"),
        eos_token_ids=_token_ids(fields.get("eos_token_id")),
        bos_token_id=fields.get("bos_token_id"),
        act=_act(fields.get("hidden_activation")),
        tie_embeddings=fields.flag("tie_word_embeddings"),
        qkv_bias=fields.flag("attention_bias"),
        out_bias=fields.flag("attention_bias"),
        qk_norm=True,
        sliding_window=fields.integer("sliding_window"),
        layer_windows=_gemma3_windows(fields, num_layers),
        embedding_scale=hidden**0.5,
        attention_scale=fields.number("query_pre_attn_scalar") ** -0.5,
        attention_soft_cap=fields.get("attn_logit_softcapping"),
        final_soft_cap=fields.get("final_logit_softcapping"),
        dtype=dtype,
    )


def _gemma3_windows(fields: _Fields, num_layers: int) -> tuple[int | None, ...]:
    window, kinds = fields.integer("sliding_window"), fields.get("layer_types")
    if kinds is None:
        pattern = fields.integer("sliding_window_pattern")
        return gguf_config.patterned_windows(num_layers, window, pattern)
    return _typed_windows(kinds, window)


def _typed_windows(kinds: Sequence[str], window: int) -> tuple[int | None, ...]:
    known = {"sliding_attention": window, "full_attention": None}
    unknown = set(kinds) - set(known)
    if unknown:
        raise ModelConfigError(f"config.json: layer_types {sorted(unknown)} are not supported")
    return tuple(known[kind] for kind in kinds)


def _rope_parameters(fields: _Fields) -> Mapping[str, Any]:
    """`rope_parameters` is the newer spelling; older files have `rope_scaling` beside `rope_theta`."""
    return fields.get("rope_parameters") or fields.get("rope_scaling") or {}


def _rope(fields: _Fields, parameters: Mapping[str, Any], base_field: str) -> tuple[float, RopeScaling]:
    base = float(parameters.get("rope_theta") or fields.number(base_field))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelConfigError("config.json: partial_rotary_factor is not supported")
    numbers = _Fields(parameters)
    if kind == "default":
        return base, RopeScaling()
    if kind == "linear":
        return base, RopeScaling(kind="linear", factor=numbers.number("factor"))
    if kind == "llama3":
        return base, RopeScaling(
            kind="llama3",
            factor=numbers.number("factor"),
            low_freq_factor=numbers.number("low_freq_factor"),
            high_freq_factor=numbers.number("high_freq_factor"),
            original_max_positions=numbers.integer("original_max_position_embeddings"),
        )
    if kind == "yarn":
        return base, _yarn(numbers, fields.integer("max_position_embeddings"))
    raise ModelConfigError(
        f"config.json: rope scaling {kind!r} is not supported (default, linear, llama3, yarn are)"
    )


def _yarn(numbers: _Fields, max_positions: int) -> RopeScaling:
    original = numbers.get("original_max_position_embeddings") or max_positions
    factor = numbers.number("factor")
    given, weights = numbers.get("attention_factor"), (numbers.get("mscale"), numbers.get("mscale_all_dim"))
    if given is None and all(weights):
        given = yarn_attention_factor(factor, weights[0]) / yarn_attention_factor(factor, weights[1])
    truncate = numbers.get("truncate")
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_positions=original,
        beta_fast=float(numbers.get("beta_fast") or 32),
        beta_slow=float(numbers.get("beta_slow") or 1),
        attention_factor=yarn_attention_factor(factor) if given is None else float(given),
        truncate=truncate is None or bool(truncate),
    )


def _act(name: Any) -> GatedAct:
    if name not in _ACTS:
        raise ModelConfigError(f"config.json: activation {name!r} is not supported; {sorted(_ACTS)} are")
    return _ACTS[name]


def _token_ids(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelConfigError(f"{path.parent} is no checkpoint: {path.name} is missing") from error
    except json.JSONDecodeError as error:
        raise ModelConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelConfigError(f"{path} does not hold an object")
    return value
