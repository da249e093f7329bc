"""The Gemma 3 decoder against `transformers`, and against mutants of itself that must not pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.config_reader import read_config
from engine.models.gemma3 import Gemma3, Gemma3Layer
from engine.models.loader import load_model
from engine.models.model_config import ModelConfig, RopeScaling
from tests.engine.models.oracle import FP32_MAX, largest_error, oracle_logprobs, random_prompt, top_errors
from tests.engine.models.paged import PagedModel, greedy, teacher_forced
from tests.models import GEMMA3_CONFIG, write_tiny_gemma3

LENGTH = 200
PROMPT = random_prompt(LENGTH, 512)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gemma3(tmp_path_factory.mktemp("gemma3"))


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Tensor:
    assert 3 * GEMMA3_CONFIG["sliding_window"] < LENGTH
    return oracle_logprobs(checkpoint, PROMPT)


def _load(path: Path, config: ModelConfig | None = None, dtype: torch.dtype = torch.float32) -> Gemma3:
    model = load_model(path, dtype=dtype, config=config)
    assert isinstance(model, Gemma3)
    return model


@pytest.mark.parametrize("chunk", [None, 1, 7, 33])
def test_equals_transformers_at_every_position(checkpoint: Path, expected: Tensor, chunk: int | None) -> None:
    assert largest_error(teacher_forced(_load(checkpoint), PROMPT, chunk=chunk), expected) < FP32_MAX


def test_bf16_stays_close_on_likely_tokens(checkpoint: Path, expected: Tensor) -> None:
    model = _load(checkpoint, dtype=torch.bfloat16)
    mean, worst = top_errors(teacher_forced(model, PROMPT, dtype=torch.bfloat16), expected)
    assert mean < 0.02
    assert worst < 0.25


def test_sequences_of_a_mixed_batch_do_not_touch_each_other(checkpoint: Path, expected: Tensor) -> None:
    paged = PagedModel(_load(checkpoint))
    first = paged.step([(0, PROMPT[:50]), (1, PROMPT[:30])])
    second = paged.step([(2, PROMPT[:17]), (0, PROMPT[50:51]), (1, PROMPT[30:])])
    assert largest_error(first, torch.cat((expected[:50], expected[:30]))) < FP32_MAX
    assert largest_error(second, torch.cat((expected[:17], expected[50:51], expected[30:]))) < FP32_MAX


def test_pages_behind_the_window_are_never_read(checkpoint: Path, expected: Tensor) -> None:
    """The core takes those pages away: their table entries become -1 and others write there."""
    paged = PagedModel(_load(checkpoint))
    paged.step([(0, PROMPT[:150])])
    paged.forget_behind_windows(0)
    found = paged.step([(0, PROMPT[150:])])
    assert largest_error(found, expected[150:]) < FP32_MAX


def test_greedy_text_is_varied_enough_to_tell(checkpoint: Path) -> None:
    assert len(set(greedy(_load(checkpoint), PROMPT[:30], 64))) >= 30


@pytest.mark.parametrize(
    "overrides",
    [
        {"rope_scaling": None, "num_hidden_layers": 7},
        {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "num_hidden_layers": 3},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 20_000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            },
            "sliding_window": 5,
        },
        {"tie_word_embeddings": False, "num_key_value_heads": 2, "final_logit_softcapping": 3.0},
    ],
)
def test_other_shapes_equal_transformers(tmp_path: Path, overrides: dict[str, object]) -> None:
    write_tiny_gemma3(tmp_path, **overrides)
    prompt = PROMPT[:90]
    found = teacher_forced(_load(tmp_path), prompt, chunk=41)
    assert largest_error(found, oracle_logprobs(tmp_path, prompt)) < FP32_MAX


CONFIG_MUTANTS: dict[str, Callable[[ModelConfig], ModelConfig]] = {
    "wrong global rope base": lambda c: dataclasses.replace(c, rope_base=c.rope_base * 2),
    "wrong local rope base": lambda c: dataclasses.replace(c, rope_base_local=c.rope_base),
    "local rope base everywhere": lambda c: dataclasses.replace(c, rope_base=c.rope_base_local or 0.0),
    "no rope scaling": lambda c: dataclasses.replace(c, rope_scaling=RopeScaling()),
    "wrong rope scaling factor": lambda c: dataclasses.replace(c, rope_scaling=RopeScaling("linear", 4.0)),
    "no window": lambda c: _with_windows(c, lambda _: None),
    "window one too wide": lambda c: _with_windows(c, lambda window: window + 1),
    "window one too narrow": lambda c: _with_windows(c, lambda window: window - 1),
    "pattern shifted": lambda c: dataclasses.replace(
        c, layer_windows=c.layer_windows[1:] + c.layer_windows[:1]
    ),
    "wrong softmax scale": lambda c: dataclasses.replace(c, attention_scale=c.head_dim**-0.5),
    "no embedding scale": lambda c: dataclasses.replace(c, embedding_scale=1.0),
    "wrong activation": lambda c: dataclasses.replace(c, act="silu"),
    "a final soft cap": lambda c: dataclasses.replace(c, final_soft_cap=3.0),
    "an attention soft cap": lambda c: dataclasses.replace(c, attention_soft_cap=5.0),
}
NORMS = ("input_norm", "attention_out_norm", "mlp_norm", "mlp_out_norm")
MODEL_MUTANTS: dict[str, Callable[[Gemma3], object]] = {
    "no rope": lambda m: [_unturned(layer.attention.rope) for layer in m.layers],
    "scaling on local layers": lambda m: _share_rope(m, m.layers[2]),
    "no q norm": lambda m: _set_qk_norm(m, q=False),
    "no k norm": lambda m: _set_qk_norm(m, k=False),
    "q norm without 1 + w": lambda m: m.layers[0].attention.q_norm.weight.sub_(1.0),  # type: ignore[union-attr]  # Gemma has one
    "k norm without 1 + w": lambda m: m.layers[0].attention.k_norm.weight.sub_(1.0),  # type: ignore[union-attr]  # Gemma has one
    "final norm without 1 + w": lambda m: m.norm.weight.sub_(1.0),
}


@pytest.mark.parametrize("name", CONFIG_MUTANTS)
def test_a_model_configured_wrongly_fails(checkpoint: Path, expected: Tensor, name: str) -> None:
    mutant = _load(checkpoint, CONFIG_MUTANTS[name](read_config(checkpoint)))
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


@pytest.mark.parametrize("name", MODEL_MUTANTS)
def test_a_model_computed_wrongly_fails(checkpoint: Path, expected: Tensor, name: str) -> None:
    mutant = _load(checkpoint)
    MODEL_MUTANTS[name](mutant)
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_without_one_plus_fails(checkpoint: Path, expected: Tensor, norm: str) -> None:
    mutant = _load(checkpoint)
    getattr(mutant.layers[0], norm).weight.sub_(1.0)
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


@pytest.mark.parametrize("norm", NORMS)
def test_a_missing_norm_weight_fails(checkpoint: Path, expected: Tensor, norm: str) -> None:
    mutant = _load(checkpoint)
    getattr(mutant.layers[-1], norm).weight.fill_(1.0)
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


def _with_windows(config: ModelConfig, change: Callable[[int], int | None]) -> ModelConfig:
    windows = tuple(None if window is None else change(window) for window in config.layer_windows)
    return dataclasses.replace(config, layer_windows=windows)


def _unturned(rope: Tensor) -> None:
    half = rope.shape[1] // 2
    rope[:, :half] = 1.0
    rope[:, half:] = 0.0


def _share_rope(model: Gemma3, layer: Gemma3Layer) -> None:
    for other in model.layers:
        other.attention.rope = layer.attention.rope


def _set_qk_norm(model: Gemma3, *, q: bool = True, k: bool = True) -> None:
    for layer in model.layers:
        attention = layer.attention
        attention.q_norm = attention.q_norm if q else None
        attention.k_norm = attention.k_norm if k else None
