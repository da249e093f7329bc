"""Tiny GGUF models of every element type, written with the `gguf` package.

`write_gguf` (for Mistral, whose files call themselves so, of family llama) converts the weights of `tests.models` as public converters do: other names, llama's query and
key rows reordered, Gemma's norms stored with the 1. It returns what the file says after quantisation,
under Hugging Face's names and conventions, so that a test can compare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from numpy.typing import NDArray
from torch import Tensor

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LLAMA_NAMES = {"post_attention_layernorm": "ffn_norm"}
_FAMILY_NAMES = {
    "llama": _LLAMA_NAMES,
    "qwen2": _LLAMA_NAMES,
    "qwen3": _LLAMA_NAMES,
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
}
K_BLOCKS = {
    # type: (bytes a block, {byte: (mean, spread) of the fp16 there})
    "Q4_K": (144, {0: (3e-4, 5e-5), 2: (2.2e-3, 2e-4)}),
    "Q5_K": (176, {0: (1.5e-4, 3e-5), 2: (2.3e-3, 2e-4)}),
    "Q6_K": (210, {208: (5e-5, 1e-5)}),
}
"""The package cannot quantise to these: blocks are drawn, with scales that give weights of about 0.06."""


def write_gguf(
    path: Path,
    family: str,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    kind: str,
    *,
    vocabulary: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """Matrices become `kind` (a GGMLQuantizationType name), vectors stay F32. `vocabulary`: a tokenizer.json to go
    into the file."""
    writer = gguf.GGUFWriter(str(path), family)
    _write_metadata(writer, family, config)
    if vocabulary is not None:
        _write_vocabulary(writer, vocabulary)
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        values = _to_file_order(family, config, name, weight)
        tensor_type = GGMLQuantizationType[kind] if weight.dim() == 2 else GGMLQuantizationType.F32
        raw = _quantize(values.numpy(), tensor_type)
        writer.add_tensor(_gguf_name(family, name), raw, raw_dtype=tensor_type)
        back = torch.from_numpy(_dequantize(raw, tensor_type).copy()).view(weight.shape)
        stored[name] = _from_file_order(family, config, name, back)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def random_blocks(kind: str, count: int, seed: int = 0) -> NDArray[np.uint8]:
    """[count, bytes] valid blocks of a K type."""
    num_bytes, scales = K_BLOCKS[kind]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    for at, (mean, spread) in scales.items():
        values = generator.normal(mean, spread, (count, 1)).astype(np.float16)
        blocks[:, at : at + 2] = values.view(np.uint8)
    return blocks


def _write_metadata(writer: gguf.GGUFWriter, family: str, config: Mapping[str, Any]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if family == "gemma3" or config["model_type"] == "mistral":
        writer.add_sliding_window(config["sliding_window"] or 0)
    if family == "gemma3":
        writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
        writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
    scaling = config["rope_scaling"]
    if scaling and scaling["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling and scaling["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(1)


def _write_vocabulary(writer: gguf.GGUFWriter, state: Mapping[str, Any]) -> None:
    """Byte-level with its merges, whatever the model has: who compares ids needs no more."""
    tokens = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
    specials = {token["content"] for token in state["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in specials else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])


def _gguf_name(family: str, name: str) -> str:
    stem, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    if layer is None:
        return f"{_NAMES[stem]}.{kind}"
    return f"blk.{layer[1]}.{(_NAMES | _FAMILY_NAMES[family])[layer[2]]}.{kind}"


def _heads(family: str, config: Mapping[str, Any], name: str) -> int | None:
    """Heads of a tensor whose rows llama's converters reorder."""
    if family == "llama" and ".q_proj." in name:
        return int(config["num_attention_heads"])
    if family == "llama" and ".k_proj." in name:
        return int(config["num_key_value_heads"])
    return None


def _to_file_order(family: str, config: Mapping[str, Any], name: str, weight: Tensor) -> Tensor:
    heads = _heads(family, config, name)
    if heads is not None:
        weight = weight.view(heads, 2, -1, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
    return weight + 1.0 if family == "gemma3" and name.endswith("norm.weight") else weight


def _from_file_order(family: str, config: Mapping[str, Any], name: str, weight: Tensor) -> Tensor:
    heads = _heads(family, config, name)
    if heads is not None:
        weight = weight.view(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
    return weight - 1.0 if family == "gemma3" and name.endswith("norm.weight") else weight


def _quantize(values: NDArray[np.float32], kind: GGMLQuantizationType) -> NDArray[Any]:
    if kind.name in K_BLOCKS:
        rows, width = values.shape
        blocks = random_blocks(kind.name, rows * width // 256, seed=rows + width)
        return blocks.reshape(rows, -1)
    if kind is GGMLQuantizationType.F32:
        return np.ascontiguousarray(values, dtype=np.float32)
    return np.ascontiguousarray(gguf.quants.quantize(values, kind))


def _dequantize(raw: NDArray[Any], kind: GGMLQuantizationType) -> NDArray[np.float32]:
    if kind is GGMLQuantizationType.F32:
        return raw
    return np.asarray(gguf.quants.dequantize(raw, kind), dtype=np.float32)
