"""engine.config: groups, validation that names field and allowed values, resolution."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import get_args

import pytest

from engine.config import (
    GROUPS,
    ConfigError,
    EngineConfig,
    ModelSettings,
    ReasoningParser,
    SchedulerSettings,
    ToolCallParser,
    field_groups,
    resolve,
)
from engine.models.model_config import ModelConfig, RopeScaling
from engine.text.reasoning import UNOPENED
from engine.text.tools.formats import FORMATS


def _model(dtype: str = "bfloat16") -> ModelConfig:
    return ModelConfig(
        family="llama",
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        num_kv_heads=1,
        head_dim=4,
        ffn_size=16,
        vocab_size=32,
        norm_eps=1e-5,
        rope_base=1e4,
        rope_scaling=RopeScaling(),
        max_positions=4096,
        eos_token_ids=(1,),
        layer_windows=(None,),
        dtype=dtype,
    )


def test_field_names_are_unique_and_few() -> None:
    names = [entry.name for group in GROUPS.values() for entry in dataclasses.fields(group)]
    assert len(names) == len(set(names)) == len(field_groups())
    assert len(names) <= 45


def test_parsers_are_named_as_they_are() -> None:
    assert set(get_args(ToolCallParser)) == {"auto", "none", *FORMATS}
    assert set(get_args(ReasoningParser)) == {"auto", "none", *UNOPENED}


def test_from_flags_sorts_fields_into_groups() -> None:
    config = EngineConfig.from_flags(
        {"model": "m", "served_model_name": ("a", "b"), "max_num_seqs": 3, "port": 0, "queue_deadline_s": 5}
    )
    assert config.model == ModelSettings(model="m", served_model_name=("a", "b"))
    assert config.scheduler == SchedulerSettings(max_num_seqs=3, queue_deadline_s=5)
    assert config.server.port == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"max_num_seq": 3}, "unknown setting max_num_seq; did you mean max_num_seqs?"),
        ({"zzz": 3}, "unknown setting zzz"),
        ({"max_num_seqs": 0}, "max_num_seqs must be between 1 and 4,096, got 0"),
        ({"max_num_seqs": True}, "max_num_seqs must be int or None, got True"),
        ({"max_num_seqs": "8"}, "max_num_seqs must be int or None, got '8'"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization must be between 0.01 and 1.0, got 1.5"),
        ({"load_format": "pt"}, "load_format must be one of auto, safetensors, gguf, dummy, got 'pt'"),
        ({"served_model_name": "a"}, "served_model_name must be a tuple of strings, got 'a'"),
        ({"enforce_eager": 1}, "enforce_eager must be bool, got 1"),
        ({"max_num_seqs": 32, "max_num_batched_tokens": 16}, "at least max_num_seqs (32)"),
        ({"model": ""}, "model is required"),
        ({"api_key": ("a", "")}, "must not be empty"),
        ({"internal_key": ""}, "must not be empty"),
    ],
)
def test_errors_name_the_field_and_what_is_allowed(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EngineConfig.from_flags({"model": "m"} | flags)
    assert message in str(caught.value)


def test_groups_are_frozen() -> None:
    config = EngineConfig.from_flags({"model": "m"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.server.port = 1  # type: ignore[misc]  # that it fails is the point


@pytest.mark.parametrize(
    ("device", "limits", "dtype"),
    [("cpu", (16, 512, None), "float32"), ("cuda", (256, 2048, 512), "bfloat16")],
)
def test_defaults_follow_the_device(device: str, limits: tuple[int, int, int | None], dtype: str) -> None:
    resolved = resolve(EngineConfig.from_flags({"model": "m"}), _model(), device)  # type: ignore[arg-type]  # parametrised literal
    limited = (resolved.max_num_seqs, resolved.max_num_batched_tokens, resolved.max_num_mixed_tokens)
    assert limited == limits
    assert resolved.max_model_len == 4096
    assert (resolved.dtype, resolved.kv_dtype) == (dtype, dtype)


def test_one_limit_set_leaves_the_other_consistent() -> None:
    many = resolve(EngineConfig.from_flags({"model": "m", "max_num_seqs": 2000}), _model(), "cpu")
    assert many.max_num_batched_tokens == 2000
    narrow = EngineConfig.from_flags({"model": "m", "max_num_batched_tokens": 100})
    assert resolve(narrow, _model(), "cuda").max_num_seqs == 100


def test_settings_win_over_defaults() -> None:
    flags = {"model": "m", "dtype": "float16", "kv_cache_dtype": "bfloat16", "max_model_len": 128}
    resolved = resolve(EngineConfig.from_flags(flags), _model(), "cpu")
    assert (resolved.dtype, resolved.kv_dtype, resolved.max_model_len) == ("float16", "bfloat16", 128)
    assert resolve(EngineConfig.from_flags({"model": "m"}), _model("float16"), "cuda").dtype == "float16"


def test_contradictions_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_model_len must be at most 4096"):
        resolve(EngineConfig.from_flags({"model": "m", "max_model_len": 5000}), _model(), "cpu")
    with pytest.raises(ConfigError, match="device is cuda"):
        resolve(EngineConfig.from_flags({"model": "m", "device": "cuda"}), _model(), "cpu")


def test_fp8_is_the_checkpoints_or_asked_for() -> None:
    plain, stored = _model(), dataclasses.replace(_model(), quantization="fp8")
    by_default, asked = EngineConfig.from_flags({"model": "m"}), {"model": "m", "quantization": "fp8"}
    assert resolve(by_default, plain, "cuda").quantization is None
    assert resolve(by_default, stored, "cuda").quantization == "fp8"
    assert resolve(EngineConfig.from_flags(asked), plain, "cuda").quantization == "fp8"
    with pytest.raises(ConfigError, match="quantize_head belongs to fp8 weights"):
        resolve(EngineConfig.from_flags({"model": "m", "quantize_head": True}), plain, "cuda")


def test_importing_loads_no_torch() -> None:
    code = "import sys, engine.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_swapping_needs_memory_to_swap_to() -> None:
    with pytest.raises(ConfigError, match="kv_offload_gib"):
        EngineConfig.from_flags({"model": "m", "preemption_mode": "swap"})
    config = EngineConfig.from_flags({"model": "m", "preemption_mode": "swap", "kv_offload_gib": 0.5})
    assert (config.scheduler.preemption_mode, config.cache.kv_offload_gib) == ("swap", 0.5)
