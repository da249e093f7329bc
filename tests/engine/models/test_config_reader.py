"""config.json in its published spellings, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.models.config_reader import from_hf, read_config
from engine.models.model_config import ModelConfigError, RopeScaling
from tests.models import GEMMA3_CONFIG, LLAMA_CONFIG, write_tiny_llama

LLAMA: dict[str, Any] = LLAMA_CONFIG | {"vocab_size": 512}
GEMMA3: dict[str, Any] = GEMMA3_CONFIG | {"vocab_size": 512}


def test_llama() -> None:
    config = from_hf(LLAMA, {})
    assert (config.family, config.num_layers, config.head_dim) == ("llama", 4, 16)
    assert config.rope_scaling == RopeScaling("llama3", 8.0, 1.0, 4.0, 64)
    assert config.eos_token_ids == (1, 4)
    assert config.attention_scale == 0.25
    assert config.layer_windows == (None,) * 4
    assert config.qkv_bias
    assert config.out_bias
    assert not config.tie_embeddings


def test_llama_defaults() -> None:
    names = ("head_dim", "num_key_value_heads", "rms_norm_eps", "rope_theta", "rope_scaling", "eos_token_id")
    config = from_hf({key: value for key, value in LLAMA.items() if key not in names}, {})
    assert (config.head_dim, config.num_kv_heads, config.norm_eps) == (16, 4, 1e-6)
    assert (config.rope_base, config.rope_scaling) == (10_000.0, RopeScaling())
    assert config.eos_token_ids == (2,)


def test_gemma3() -> None:
    config = from_hf(GEMMA3, {"eos_token_id": [1, 106]})
    assert config.layer_windows == (24, 24, None, 24, 24, None, 24, 24)
    assert (config.rope_base, config.rope_base_local) == (100_000.0, 1000.0)
    assert config.rope_scaling == RopeScaling("linear", 8.0)
    assert config.embedding_scale == 8.0
    assert config.attention_scale == 24**-0.5
    assert config.act == "gelu_tanh"
    assert config.eos_token_ids == (1, 106)


def test_gemma3_inside_a_multimodal_configuration_takes_the_familys_defaults() -> None:
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    outer = {"model_type": "gemma3", "text_config": text, "eos_token_id": [1, 106], "torch_dtype": "bfloat16"}
    config = from_hf(outer, {})
    assert (config.vocab_size, config.num_heads, config.num_kv_heads, config.head_dim) == (262_208, 8, 4, 256)
    assert (config.rope_base, config.rope_base_local) == (1_000_000.0, 10_000.0)
    assert config.layer_windows.count(None) == 5
    assert config.eos_token_ids == (1, 106)
    assert config.tie_embeddings


def test_both_spellings_of_rope_agree() -> None:
    newer = {
        k: v for k, v in GEMMA3.items() if k not in ("rope_theta", "rope_local_base_freq", "rope_scaling")
    }
    newer["rope_parameters"] = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 100_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
    }
    newer["layer_types"] = [
        "full_attention" if layer in (2, 5) else "sliding_attention" for layer in range(8)
    ]
    assert from_hf(newer, {}) == from_hf(GEMMA3, {})
    flat = {k: v for k, v in LLAMA.items() if k not in ("rope_theta", "rope_scaling")}
    flat["rope_parameters"] = LLAMA["rope_scaling"] | {"rope_theta": 10_000.0}
    assert from_hf(flat, {}) == from_hf(LLAMA, {})


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (LLAMA, {"model_type": "mamba"}, "model_type 'mamba' is not served"),
        (LLAMA, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "rope scaling 'dynamic'"),
        (LLAMA, {"rope_scaling": {"rope_type": "linear"}}, "factor must be a number"),
        (LLAMA, {"hidden_act": "relu"}, "activation 'relu'"),
        (LLAMA, {"hidden_size": None}, "hidden_size must be an integer"),
        (LLAMA, {"num_key_value_heads": 3}, "cannot share 3 kv heads"),
        (LLAMA, {"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary"),
        (GEMMA3, {"layer_types": ["chunked_attention"] * 8}, "chunked_attention"),
        (GEMMA3, {"layer_types": ["full_attention"] * 3}, "3 layer kinds for 8 layers"),
        (GEMMA3, {"use_bidirectional_attention": True}, "only decoders"),
        (
            GEMMA3,
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "sliding layers is not supported",
        ),
    ],
)
def test_what_would_change_the_answer_is_refused(
    base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelConfigError, match=message):
        from_hf(base | changes, {})


def test_reads_a_directory_with_its_generation_config(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4]}))
    assert read_config(tmp_path).eos_token_ids == (3, 4)


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"is no checkpoint: config\.json is missing"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelConfigError, match=r"config\.json is not JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelConfigError, match="does not hold an object"):
        read_config(tmp_path)
