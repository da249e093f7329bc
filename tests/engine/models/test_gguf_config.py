"""GGUF metadata → ModelConfig."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine.gguf import GGUFError
from engine.models.config_reader import read_config
from engine.models.gguf_config import patterned_windows
from engine.models.model_config import ModelConfigError, RopeScaling, yarn_attention_factor
from tests.gguf_models import write_gguf
from tests.models import (
    GEMMA3_CONFIG,
    LLAMA_CONFIG,
    gemma3_weights,
    llama_weights,
    write_tiny_gemma3,
    write_tiny_llama,
)

BASE: dict[str, int | float | str] = {
    "block_count": 6,
    "context_length": 2048,
    "embedding_length": 64,
    "feed_forward_length": 128,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 0.5,
}
YARN_4 = yarn_attention_factor(4.0)
TOKENS = ["<pad>", "<eos>", "<end_of_turn>", "word", "<|eot_id|>"]


def _write(
    path: Path,
    architecture: str,
    changes: Mapping[str, int | float | str] = {},
    *,
    tensors: Mapping[str, Any] | None = None,
) -> Path:
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in (BASE | dict(changes)).items():
        key = f"{architecture}.{name}"
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_float32(key, value)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1])
    writer.add_eos_token_id(1)
    for name, data in (tensors or {"token_embd.weight": np.zeros((5, 64), np.float32)}).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_llama(tmp_path: Path) -> None:
    tensors = {
        "token_embd.weight": np.zeros((5, 64), np.float32),
        "output.weight": np.zeros((5, 64), np.float32),
        "rope_freqs.weight": np.array([1, 1, 2, 4, 8, 8, 8, 8], np.float32),
        "blk.0.attn_q.bias": np.zeros(64, np.float32),
    }
    config = read_config(_write(tmp_path / "m.gguf", "llama", {"rope.freq_base": 500_000.0}, tensors=tensors))
    assert (config.family, config.num_layers, config.hidden_size, config.vocab_size) == ("llama", 6, 64, 5)
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (4, 2, 16)
    assert (config.norm_eps, config.rope_base, config.max_positions) == (0.5, 500_000.0, 2048)
    assert config.rope_freq_divisors == (1, 1, 2, 4, 8, 8, 8, 8)
    assert config.qkv_bias
    assert not config.tie_embeddings
    assert config.layer_windows == (None,) * 6


def test_end_tokens_are_the_files_own_and_control_tokens_that_end_a_turn(tmp_path: Path) -> None:
    """`<|eot_id|>` is an ordinary token in this file."""
    assert read_config(_write(tmp_path / "m.gguf", "llama")).eos_token_ids == (1, 2)


def test_gemma3(tmp_path: Path) -> None:
    changes = {
        "attention.key_length": 32,
        "attention.sliding_window": 512,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0,
    }
    config = read_config(_write(tmp_path / "m.gguf", "gemma3", changes))
    assert config.layer_windows == (512, 512, 512, 512, 512, None)
    assert (config.rope_base, config.rope_base_local) == (1_000_000.0, 10_000.0)
    assert config.rope_scaling == RopeScaling("linear", 8.0)
    assert (config.attention_scale, config.embedding_scale) == (32**-0.5, 8.0)
    assert config.tie_embeddings
    assert config.act == "gelu_tanh"


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}


@pytest.mark.parametrize(
    ("changes", "expected", "max_positions"),
    [
        ({"rope.scaling.original_context_length": 512}, {"original_max_positions": 512}, 2048),
        # Switched on by hand: the context is stated as it was, or nothing else is.
        ({"rope.scaling.original_context_length": 2048}, {"original_max_positions": 2048}, 8192),
        ({}, {"original_max_positions": 2048}, 8192),
        (
            {"rope.scaling.attn_factor": 0.5, "rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_beta_slow": 2.0},
            {"original_max_positions": 2048, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 0.5 * YARN_4},
            8192,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_yarn_and_how_far_it_reaches(
    tmp_path: Path, architecture: str, changes: dict[str, Any], expected: dict[str, Any], max_positions: int
) -> None:
    config = read_config(_write(tmp_path / "m.gguf", architecture, YARN | changes))
    assert config.rope_scaling == RopeScaling("yarn", 4.0, **{"attention_factor": YARN_4, **expected})
    assert config.max_positions == max_positions


@pytest.mark.parametrize(
    "changes",
    [{"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {"rope.scale_linear": 2.0}],
    ids=["now", "older"],
)
def test_linear_scaling(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = read_config(_write(tmp_path / "m.gguf", "qwen2", changes))
    assert config.rope_scaling == RopeScaling("linear", 2.0)
    assert config.max_positions == 2048, "the file states the stretched length"


def test_a_window_is_mistrals_and_nobody_elses(tmp_path: Path) -> None:
    """A Qwen states one that it does not use; 0 is none."""
    for architecture, window, expected in (("llama", 64, 64), ("llama", 0, None), ("qwen2", 64, None)):
        path = _write(
            tmp_path / f"{architecture}{window}.gguf", architecture, {"attention.sliding_window": window}
        )
        assert read_config(path).layer_windows == (expected,) * 6


def test_gemma3_of_62_layers_scales_queries_by_width_over_heads(tmp_path: Path) -> None:
    changes = {"attention.key_length": 32, "attention.sliding_window": 512, "block_count": 62}
    assert read_config(_write(tmp_path / "m.gguf", "gemma3", changes)).attention_scale == 0.25


@pytest.mark.parametrize(
    ("architecture", "changes", "message"),
    [
        ("falcon", {}, "architecture 'falcon' is not served"),
        ("llama", {"expert_count": 8}, "mixtures of experts"),
        ("llama", {"rope.scaling.type": "longrope"}, "rope scaling 'longrope'"),
    ],
)
def test_what_would_change_the_answer_is_refused(
    tmp_path: Path, architecture: str, changes: dict[str, int | str], message: str
) -> None:
    with pytest.raises(ModelConfigError, match=message):
        read_config(_write(tmp_path / "m.gguf", architecture, changes))


def test_missing_keys_and_tensors_are_named(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match=r"gemma3\.attention\.sliding_window.*missing"):
        read_config(_write(tmp_path / "a.gguf", "gemma3"))
    other = {"output_norm.weight": np.zeros(64, np.float32)}
    with pytest.raises(ModelConfigError, match=r"token_embd\.weight is missing"):
        read_config(_write(tmp_path / "b.gguf", "llama", tensors=other))


def test_patterned_windows() -> None:
    assert patterned_windows(5, 8, 2) == (8, None, 8, None, 8)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_file_says_of_its_shape_what_its_checkpoint_says(tmp_path: Path, family: str) -> None:
    """So that what is tried of a family's checkpoints, mutants included, holds for its files too; from the same
    weights both make the same model (test_weights). Qwen's and Mistral's files: test_gguf_families."""
    if family == "gemma3":
        config = GEMMA3_CONFIG | {"vocab_size": 512, "query_pre_attn_scalar": GEMMA3_CONFIG["head_dim"]}
        checkpoint, weights = write_tiny_gemma3(tmp_path / "hf", **config), gemma3_weights(config, 7)
    else:
        config = LLAMA_CONFIG | {"vocab_size": 512, "rope_scaling": None}
        checkpoint, weights = write_tiny_llama(tmp_path / "hf", **config), llama_weights(config, 7)
    write_gguf(tmp_path / "m.gguf", family, config, weights, "F32")
    said, meant = read_config(tmp_path / "m.gguf"), read_config(checkpoint)
    assert said.norm_eps == pytest.approx(meant.norm_eps)
    # A file names one end token, and no type to compute in.
    own: dict[str, Any] = {"norm_eps": 1.0, "eos_token_ids": (), "dtype": ""}
    assert dataclasses.replace(said, **own) == dataclasses.replace(meant, **own)
