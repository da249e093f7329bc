"""The list of tensors a decoder consists of."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from safetensors.torch import load_file

from engine.models import gemma3, llama
from engine.models.build import decoder_shapes
from engine.models.config_reader import from_hf, read_config
from engine.models.registry import ARCHITECTURES
from tests.models import LLAMA_CONFIG, write_tiny_gemma3, write_tiny_llama


def test_the_list_is_what_checkpoints_hold(tmp_path: Path) -> None:
    for family, write in (("llama", write_tiny_llama), ("gemma3", write_tiny_gemma3)):
        path = write(tmp_path / family)
        stored = {name: tuple(t.shape) for name, t in load_file(path / "model.safetensors").items()}
        assert ARCHITECTURES[read_config(path).family].tensor_shapes(read_config(path)) == stored


def test_biases_and_head_follow_the_configuration() -> None:
    config = from_hf(
        LLAMA_CONFIG
        | {"vocab_size": 8, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": True},
        {},
    )
    shapes = decoder_shapes(dataclasses.replace(config, qk_norm=True), ("input_layernorm",))
    assert "lm_head.weight" not in shapes
    assert "model.layers.0.self_attn.q_proj.bias" not in shapes
    assert shapes["model.layers.3.mlp.gate_proj.bias"] == (160,)
    assert shapes["model.layers.0.self_attn.k_norm.weight"] == (16,)


def test_every_family_is_registered() -> None:
    for family in ("llama", "qwen2", "qwen3", "mistral"):
        assert ARCHITECTURES[family].build is llama.Llama
    assert ARCHITECTURES["gemma3"].build is gemma3.Gemma3
