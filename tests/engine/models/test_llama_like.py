"""Qwen 2, Qwen 3 and Mistral, which the llama decoder serves, against `transformers` and against mutants.

From GGUF files: test_gguf_families.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.config_reader import read_config
from engine.models.llama import Llama
from engine.models.loader import load_model
from engine.models.model_config import ModelConfig, ModelConfigError, RopeScaling
from tests.engine.models.oracle import FP32_MAX, largest_error, oracle_logprobs, random_prompt, top_errors
from tests.engine.models.paged import greedy, teacher_forced
from tests.models import write_tiny_llama

FAMILIES = ("qwen2", "qwen3", "mistral")
LENGTH = 200  # over three windows, and three times the length that YaRN stretches
PROMPT = random_prompt(LENGTH, 512)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: write_tiny_llama(root / family, family=family) for family in FAMILIES}


@pytest.fixture(scope="module")
def expected(checkpoints: dict[str, Path]) -> dict[str, Tensor]:
    return {family: oracle_logprobs(path, PROMPT) for family, path in checkpoints.items()}


def _load(path: Path, config: ModelConfig | None = None, dtype: torch.dtype = torch.float32) -> Llama:
    model = load_model(path, dtype=dtype, config=config)
    assert isinstance(model, Llama)
    return model


@pytest.mark.parametrize("chunk", [None, 7, 33])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_transformers_at_every_position(
    checkpoints: dict[str, Path], expected: dict[str, Tensor], family: str, chunk: int | None
) -> None:
    found = teacher_forced(_load(checkpoints[family]), PROMPT, chunk=chunk)
    assert largest_error(found, expected[family]) < FP32_MAX


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_stays_close_on_likely_tokens(
    checkpoints: dict[str, Path], expected: dict[str, Tensor], family: str
) -> None:
    model = _load(checkpoints[family], dtype=torch.bfloat16)
    mean, worst = top_errors(teacher_forced(model, PROMPT, dtype=torch.bfloat16), expected[family])
    assert mean < 0.02
    assert worst < 0.25


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_varied_enough_to_tell(checkpoints: dict[str, Path], family: str) -> None:
    assert len(set(greedy(_load(checkpoints[family]), PROMPT[:30], 64))) >= 30


@pytest.mark.parametrize(
    ("family", "overrides"),
    [
        ("qwen2", {"use_sliding_window": False, "rope_scaling": None, "tie_word_embeddings": True}),
        ("qwen2", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("qwen3", {"attention_bias": False, "tie_word_embeddings": True, "rope_scaling": {"type": "linear", "factor": 4.0}}),
        ("qwen3", {"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16, "beta_slow": 2,
                                    "attention_factor": 1.3, "original_max_position_embeddings": 64}}),
        ("mistral", {"sliding_window": None, "num_key_value_heads": 4}),
    ],
)  # fmt: skip
def test_other_shapes_equal_transformers(tmp_path: Path, family: str, overrides: dict[str, object]) -> None:
    write_tiny_llama(tmp_path, family=family, **overrides)
    prompt = PROMPT[:80]
    found = teacher_forced(_load(tmp_path), prompt, chunk=41)
    assert largest_error(found, oracle_logprobs(tmp_path, prompt)) < FP32_MAX


def _scaled(**changes: object) -> Callable[[ModelConfig], ModelConfig]:
    return lambda c: dataclasses.replace(c, rope_scaling=dataclasses.replace(c.rope_scaling, **changes))  # type: ignore[arg-type]  # by name


def _windowed(change: Callable[[int], int | None]) -> Callable[[ModelConfig], ModelConfig]:
    return lambda c: dataclasses.replace(
        c, layer_windows=tuple(None if size is None else change(size) for size in c.layer_windows)
    )


MUTANTS: dict[str, tuple[tuple[str, ...], Callable[[ModelConfig], ModelConfig]]] = {
    "no rope": (FAMILIES, lambda c: dataclasses.replace(c, rope_freq_divisors=(1e30,) * (c.head_dim // 2))),
    "wrong rope base": (FAMILIES, lambda c: dataclasses.replace(c, rope_base=c.rope_base * 2)),
    "wrong softmax scale": (FAMILIES, lambda c: dataclasses.replace(c, attention_scale=c.attention_scale * 1.4)),
    "no yarn": (("qwen2", "qwen3"), lambda c: dataclasses.replace(c, rope_scaling=RopeScaling())),
    "yarn without its attention factor": (("qwen2", "qwen3"), _scaled(attention_factor=1.0)),
    "yarn of another factor": (("qwen2", "qwen3"), _scaled(factor=4.0)),
    "yarn of another length": (("qwen2", "qwen3"), _scaled(original_max_positions=512)),
    "yarn with other bounds": (("qwen2", "qwen3"), _scaled(beta_fast=2.0)),
    "no window": (("qwen2", "mistral"), _windowed(lambda size: None)),
    "a window off by one": (("qwen2", "mistral"), _windowed(lambda size: size + 1)),
    "a window in the wrong layers": (
        ("qwen2",), lambda c: dataclasses.replace(c, layer_windows=c.layer_windows[::-1])
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for name, (families, _) in MUTANTS.items() for family in families]
)
def test_a_model_configured_wrongly_fails(
    checkpoints: dict[str, Path], expected: dict[str, Tensor], family: str, name: str
) -> None:
    path = checkpoints[family]
    mutant = _load(path, MUTANTS[name][1](read_config(path)))
    assert largest_error(teacher_forced(mutant, PROMPT), expected[family]) > FP32_MAX


@pytest.mark.parametrize(
    ("family", "which"),
    [("qwen2", f"{name}_proj.bias") for name in "qkv"] + [("qwen3", f"{name}_proj.bias") for name in "qkvo"],
)
def test_a_model_without_a_bias_fails(
    tmp_path: Path, expected: dict[str, Tensor], family: str, which: str
) -> None:
    write_tiny_llama(tmp_path, family=family, drop=f"self_attn.{which}")
    assert largest_error(teacher_forced(_load(tmp_path), PROMPT), expected[family]) > FP32_MAX


@pytest.mark.parametrize("which", ["q_norm", "k_norm"])
def test_qwen3_without_a_norm_weight_fails(
    checkpoints: dict[str, Path], expected: dict[str, Tensor], which: str
) -> None:
    model = _load(checkpoints["qwen3"])
    for layer in model.layers:
        norm = getattr(layer.attention, which)  # type: ignore[attr-defined]  # every layer is a LlamaLayer
        norm.weight.fill_(1.0)
    assert largest_error(teacher_forced(model, PROMPT), expected["qwen3"]) > FP32_MAX


def test_yarn_tells_how_far_positions_reach(tmp_path: Path) -> None:
    """Checkpoints whose YaRN was switched on by hand often still state the length it starts from."""
    path = write_tiny_llama(tmp_path, family="qwen2", max_position_embeddings=64)
    assert read_config(path).max_positions == 2 * 64


def test_an_unknown_scaling_is_refused_by_name(tmp_path: Path) -> None:
    path = write_tiny_llama(
        tmp_path, family="qwen3", rope_scaling={"rope_type": "longrope", "long_factor": [1.0]}
    )
    with pytest.raises(ModelConfigError, match=r"longrope.*yarn"):
        read_config(path)
