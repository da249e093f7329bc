"""GGUF metadata → ModelConfig. Called by `config_reader`. Imports no torch."""

from __future__ import annotations

import numpy as np

from engine.gguf import GGUFFile, Metadata, TensorType
from engine.models.model_config import (
    Family,
    ModelConfig,
    ModelConfigError,
    RopeScaling,
    yarn_attention_factor,
)

_END_TOKENS = ("<end_of_turn>", "<|eot_id|>", "<|end_of_text|>", "<|im_end|>")
"""Turn ends that end an answer though the file names another token as its eos."""
_GEMMA3_PATTERN = 6
_GEMMA3_LOCAL_BASE = 10_000.0
_GEMMA3_27B_LAYERS = 62
"""The one Gemma 3 whose queries are scaled by width / heads instead of the head's size; the format has
no key for it."""
_CONTROL_TOKEN = 3
_YARN = RopeScaling()
"""What a file that does not state YaRN's bounds means."""
_LLAMA_LIKE: dict[str, Family] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}


def from_gguf(file: GGUFFile) -> ModelConfig:
    architecture = file.metadata.str_of("general.architecture")
    keys = _Keys(file.metadata, architecture)
    if architecture in _LLAMA_LIKE:
        return _llama(file, keys, _LLAMA_LIKE[architecture])
    if architecture == "gemma3":
        return _gemma3(file, keys)
    served = ", ".join([*_LLAMA_LIKE, "gemma3"])
    raise ModelConfigError(f"{file.path}: architecture {architecture!r} is not served; {served} are")


def patterned_windows(num_layers: int, window: int, pattern: int) -> tuple[int | None, ...]:
    """Every `pattern`-th layer attends to everything, the others over `window`."""
    return tuple(None if (layer + 1) % pattern == 0 else window for layer in range(num_layers))


class _Keys:
    """The metadata keys under the architecture's prefix."""

    def __init__(self, metadata: Metadata, prefix: str) -> None:
        self._metadata, self._prefix = metadata, prefix

    def integer(self, name: str, default: int | None = None) -> int:
        return self._metadata.int_of(f"{self._prefix}.{name}", default)

    def number(self, name: str, default: float | None = None) -> float:
        return self._metadata.float_of(f"{self._prefix}.{name}", default)

    def optional_integer(self, name: str) -> int | None:
        """Zero means that there is none."""
        return self.integer(name, 0) or None

    def optional_number(self, name: str) -> float | None:
        return self.number(name) if f"{self._prefix}.{name}" in self._metadata else None

    def token(self, name: str, default: int | None) -> int | None:
        key = f"tokenizer.ggml.{name}"
        return self._metadata.int_of(key) if key in self._metadata else default

    def scaling(self) -> RopeScaling:
        older = "linear" if f"{self._prefix}.rope.scale_linear" in self._metadata else "none"
        kind = self._metadata.str_of(f"{self._prefix}.rope.scaling.type", older)
        if kind == "none":
            return RopeScaling()
        if kind == "linear":
            return RopeScaling(kind="linear", factor=self._factor())
        if kind == "yarn":
            factor, stated = self._factor(), self.number("rope.scaling.attn_factor", 1.0)
            return RopeScaling(
                kind="yarn",
                factor=factor,
                original_max_positions=self.integer(
                    "rope.scaling.original_context_length", self.integer("context_length")
                ),
                beta_fast=self.number("rope.scaling.yarn_beta_fast", _YARN.beta_fast),
                beta_slow=self.number("rope.scaling.yarn_beta_slow", _YARN.beta_slow),
                attention_factor=stated * yarn_attention_factor(factor),
            )
        raise ModelConfigError(f"rope scaling {kind!r} is not supported (none, linear and yarn are)")

    def _factor(self) -> float:
        older = self.optional_number("rope.scale_linear")
        return self.number("rope.scaling.factor", older)


def _llama(file: GGUFFile, keys: _Keys, family: Family) -> ModelConfig:
    if keys.integer("expert_count", 0):
        raise ModelConfigError(f"{file.path}: mixtures of experts are not supported")
    num_layers, heads, hidden = (
        keys.integer("block_count"),
        keys.integer("attention.head_count"),
        keys.integer("embedding_length"),
    )
    head_dim, scaling = keys.integer("attention.key_length", hidden // heads), keys.scaling()
    bos = keys.token("bos_token_id", 1 if family == "llama" else None)
    # Mistral's files call themselves llama, and state its window. Qwen's may state one that the model does not use.
    window = keys.optional_integer("attention.sliding_window") if family == "llama" else None
    return ModelConfig(
        family=family,
        num_layers=num_layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn_size=keys.integer("feed_forward_length"),
        vocab_size=_vocab_size(file),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        rope_base=keys.number("rope.freq_base", 10_000.0),
        rope_scaling=scaling,
        rope_freq_divisors=_freq_divisors(file),
        max_positions=scaling.reach(keys.integer("context_length")),
        eos_token_ids=_end_tokens(file.metadata),
        bos_token_id=bos,
        tie_embeddings="output.weight" not in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        out_bias="blk.0.attn_output.bias" in file.tensors,
        qk_norm=family == "qwen3",
        mlp_bias="blk.0.ffn_gate.bias" in file.tensors,
        layer_windows=(window,) * num_layers,
        attention_scale=head_dim**-0.5,
    )


def _gemma3(file: GGUFFile, keys: _Keys) -> ModelConfig:
    num_layers, heads, hidden = (
        keys.integer("block_count"),
        keys.integer("attention.head_count"),
        keys.integer("embedding_length"),
    )
    head_dim, window = keys.integer("attention.key_length", 256), keys.integer("attention.sliding_window")
    query_size = hidden // heads if num_layers == _GEMMA3_27B_LAYERS else head_dim
    pattern = keys.integer("attention.sliding_window_pattern", _GEMMA3_PATTERN)
    return ModelConfig(
        family="gemma3",
        num_layers=num_layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=keys.integer("attention.head_count_kv"),
        head_dim=head_dim,
        ffn_size=keys.integer("feed_forward_length"),
        vocab_size=_vocab_size(file),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        rope_base=keys.number("rope.freq_base", 1_000_000.0),
        rope_base_local=keys.number("rope.freq_base_swa", _GEMMA3_LOCAL_BASE),
        rope_scaling=keys.scaling(),
        max_positions=keys.integer("context_length"),
        eos_token_ids=_end_tokens(file.metadata),
        bos_token_id=file.metadata.int_of("tokenizer.ggml.bos_token_id", 2),
        act="gelu_tanh",
        qk_norm=True,
        tie_embeddings="output.weight" not in file.tensors,
        sliding_window=window,
        layer_windows=patterned_windows(num_layers, window, pattern),
        embedding_scale=hidden**0.5,
        attention_scale=query_size**-0.5,
        final_soft_cap=keys.optional_number("final_logit_softcapping"),
    )


def _vocab_size(file: GGUFFile) -> int:
    if "token_embd.weight" not in file.tensors:
        raise ModelConfigError(f"{file.path}: tensor token_embd.weight is missing")
    return file.tensors["token_embd.weight"].shape[0]


def _freq_divisors(file: GGUFFile) -> tuple[float, ...]:
    """Llama 3.1 and later: converters store the rope scaling as one divisor per frequency."""
    tensor = file.tensors.get("rope_freqs.weight")
    if tensor is None:
        return ()
    if tensor.type is not TensorType.F32:
        raise ModelConfigError(f"{file.path}: rope_freqs.weight is {tensor.type.name}, not F32")
    return tuple(tensor.data.view(np.float32).tolist())


def _end_tokens(metadata: Metadata) -> tuple[int, ...]:
    """The file's eos and end-of-turn ids, and the control tokens that are known to end a turn."""
    found = []
    for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"):
        if key in metadata:
            found.append(metadata.int_of(key))
    if "tokenizer.ggml.token_type" in metadata:
        tokens = metadata.strings_of("tokenizer.ggml.tokens")
        control = np.flatnonzero(metadata.numbers_of("tokenizer.ggml.token_type") == _CONTROL_TOKEN)
        found += [int(token) for token in control if tokens[token] in _END_TOKENS]
    return tuple(dict.fromkeys(found))
