"""The llama decoder against `transformers`, and against mutants of itself that must not pass."""

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
from engine.models.model_config import ModelConfig, RopeScaling
from tests.engine.models.oracle import FP32_MAX, largest_error, oracle_logprobs, random_prompt, top_errors
from tests.engine.models.paged import PagedModel, greedy, teacher_forced
from tests.models import LLAMA_CONFIG, write_tiny_llama

LENGTH = 200  # three times the length that the rope scaling says the model was first trained on
PROMPT = random_prompt(LENGTH, 512)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Tensor:
    assert 3 * LLAMA_CONFIG["rope_scaling"]["original_max_position_embeddings"] < LENGTH
    return oracle_logprobs(checkpoint, PROMPT)


def _load(path: Path, config: ModelConfig | None = None, dtype: torch.dtype = torch.float32) -> Llama:
    model = load_model(path, dtype=dtype, config=config)
    assert isinstance(model, Llama)
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


def test_greedy_text_is_varied_enough_to_tell(checkpoint: Path) -> None:
    assert len(set(greedy(_load(checkpoint), PROMPT[:30], 64))) >= 30


@pytest.mark.parametrize(
    "overrides",
    [
        {"rope_scaling": None, "attention_bias": False},
        {"rope_scaling": {"type": "linear", "factor": 4.0}, "tie_word_embeddings": True},
        {"num_key_value_heads": 4, "mlp_bias": True, "rope_theta": 500_000.0},
        {"num_key_value_heads": 1, "head_dim": 32},
    ],
)
def test_other_shapes_equal_transformers(tmp_path: Path, overrides: dict[str, object]) -> None:
    write_tiny_llama(tmp_path, **overrides)
    prompt = PROMPT[:80]
    found = teacher_forced(_load(tmp_path), prompt, chunk=41)
    assert largest_error(found, oracle_logprobs(tmp_path, prompt)) < FP32_MAX


ConfigMutant = Callable[[ModelConfig], ModelConfig]
ModelMutant = Callable[[Llama], object]

CONFIG_MUTANTS: dict[str, ConfigMutant] = {
    "wrong rope base": lambda c: dataclasses.replace(c, rope_base=c.rope_base * 2),
    "no rope scaling": lambda c: dataclasses.replace(c, rope_scaling=RopeScaling()),
    "rope scaling of the wrong kind": lambda c: dataclasses.replace(
        c, rope_scaling=dataclasses.replace(c.rope_scaling, kind="linear")
    ),
    "wrong rope scaling factor": lambda c: dataclasses.replace(
        c, rope_scaling=dataclasses.replace(c.rope_scaling, factor=4.0)
    ),
    "wrong original length": lambda c: dataclasses.replace(
        c, rope_scaling=dataclasses.replace(c.rope_scaling, original_max_positions=128)
    ),
    "wrong softmax scale": lambda c: dataclasses.replace(c, attention_scale=c.hidden_size**-0.5),
    "a window": lambda c: dataclasses.replace(c, layer_windows=(64,) * c.num_layers),
    "wrong activation": lambda c: dataclasses.replace(c, act="gelu_tanh"),
    "wrong epsilon": lambda c: dataclasses.replace(c, norm_eps=1e-2),
}
MODEL_MUTANTS: dict[str, ModelMutant] = {
    "no rope": lambda m: [_unturned(layer.attention.rope) for layer in m.layers],
    "positions off by one": lambda m: [layer.attention.rope.copy_(layer.attention.rope.roll(1, 0))
                                       for layer in m.layers[:1]],
    "no final norm weight": lambda m: m.norm.weight.fill_(1.0),
    "no norm weight": lambda m: m.layers[1].input_norm.weight.fill_(1.0),
    "norms swapped": lambda m: _swap_norms(m),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIG_MUTANTS)
def test_a_model_configured_wrongly_fails(checkpoint: Path, expected: Tensor, name: str) -> None:
    mutant = _load(checkpoint, CONFIG_MUTANTS[name](read_config(checkpoint)))
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


@pytest.mark.parametrize("name", MODEL_MUTANTS)
def test_a_model_computed_wrongly_fails(checkpoint: Path, expected: Tensor, name: str) -> None:
    mutant = _load(checkpoint)
    MODEL_MUTANTS[name](mutant)
    assert largest_error(teacher_forced(mutant, PROMPT), expected) > FP32_MAX


@pytest.mark.parametrize("which", ["q_proj", "k_proj", "v_proj", "o_proj"])
def test_a_model_without_a_bias_fails(tmp_path: Path, expected: Tensor, which: str) -> None:
    write_tiny_llama(tmp_path, drop=f"self_attn.{which}.bias")
    found = teacher_forced(_load(tmp_path), PROMPT)
    # A bias on keys adds the same to all scores of a query but for the rope: the hardest one to see.
    assert largest_error(found, expected) > FP32_MAX


def _unturned(rope: Tensor) -> None:
    half = rope.shape[1] // 2
    rope[:, :half] = 1.0
    rope[:, half:] = 0.0


def _swap_norms(model: Llama) -> None:
    layer = model.layers[0]
    layer.input_norm, layer.mlp_norm = layer.mlp_norm, layer.input_norm
