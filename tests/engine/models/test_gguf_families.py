"""Qwen 2, Qwen 3 and Mistral from GGUF files, plain and quantised, against `transformers` and against mutants.

The oracle has the weights that the file's say after quantisation. (From safetensors: test_llama_like.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.messages import SamplingParams
from engine.models.config_reader import read_config
from engine.models.llama import Llama
from engine.models.loader import load_model
from engine.models.model_config import ModelConfig, RopeScaling
from tests.engine.models.oracle import FP32_MAX, largest_error, oracle_logprobs, random_prompt, top_errors
from tests.engine.models.paged import teacher_forced
from tests.engine.runner.equality import assert_same_tokens
from tests.engine.runner.real_core import run_waves
from tests.gguf_models import write_gguf
from tests.models import LLAMA_LIKE, llama_weights, write_tiny_llama

ARCHITECTURES = {"qwen2": "qwen2", "qwen3": "qwen3", "mistral": "llama"}
"""What a family's files call it."""
KINDS = ("F32", "Q4_0", "Q5_1", "Q8_0")
LENGTH = 200  # over three windows, and three times the length that YaRN stretches
PROMPT = random_prompt(LENGTH, 512)
Mutant = Callable[[ModelConfig], ModelConfig]


@dataclass(frozen=True)
class Tiny:
    """A file, and what `transformers` says of the weights in it: log-probabilities [T, V]."""

    family: str
    kind: str
    path: Path
    expected: Tensor

    def fits(self, model: Llama, chunk: int | None = None) -> bool:
        """By the bar of its kind: an int8 head is exact for likely tokens only."""
        found = teacher_forced(model, PROMPT, chunk=chunk)
        if self.kind == "Q8_0":
            return top_errors(found, self.expected)[1] < FP32_MAX
        return largest_error(found, self.expected) < FP32_MAX


def config_of(family: str, **overrides: Any) -> dict[str, Any]:
    return LLAMA_LIKE[family] | {"vocab_size": 512, "use_sliding_window": False} | overrides


def write(directory: Path, family: str, kind: str, **overrides: Any) -> tuple[Path, Path]:
    """(file, checkpoint of the same weights)."""
    config = config_of(family, **overrides)
    checkpoint = write_tiny_llama(directory / "hf", family=family, **config)
    path = directory / "m.gguf"
    stored = write_gguf(path, ARCHITECTURES[family], config, llama_weights(config, seed=7), kind)
    save_file(stored, checkpoint / "model.safetensors", metadata={"format": "pt"})
    return path, checkpoint


@pytest.fixture(
    scope="module", params=[(family, kind) for family in ARCHITECTURES for kind in KINDS], ids="-".join
)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    family, kind = request.param
    path, checkpoint = write(tmp_path_factory.mktemp(f"{family}-{kind}"), family, kind)
    return Tiny(family, kind, path, oracle_logprobs(checkpoint, PROMPT))


def load(path: Path, config: ModelConfig | None = None) -> Llama:
    model = load_model(path, dtype=torch.float32, config=config)
    assert isinstance(model, Llama)
    return model


@pytest.mark.parametrize("chunk", [None, 33])
def test_equals_transformers(tiny: Tiny, chunk: int | None) -> None:
    assert tiny.fits(load(tiny.path), chunk)


def scaled(**changes: Any) -> Mutant:
    return lambda c: dataclasses.replace(c, rope_scaling=dataclasses.replace(c.rope_scaling, **changes))


def windowed(change: Callable[[int], int | None]) -> Mutant:
    return lambda c: dataclasses.replace(
        c, layer_windows=tuple(None if size is None else change(size) for size in c.layer_windows)
    )


def unturned(c: ModelConfig) -> ModelConfig:
    """So slowly that nothing turns."""
    return dataclasses.replace(c, rope_freq_divisors=(1e30,) * (c.head_dim // 2))


YARN = ("qwen2", "qwen3")
MUTANTS: dict[str, tuple[tuple[str, ...], Mutant]] = {
    "wrong rope base": (tuple(ARCHITECTURES), lambda c: dataclasses.replace(c, rope_base=c.rope_base * 2)),
    "no rope": (tuple(ARCHITECTURES), unturned),
    "wrong softmax scale": (
        tuple(ARCHITECTURES), lambda c: dataclasses.replace(c, attention_scale=c.attention_scale * 1.4)
    ),
    "no yarn": (YARN, lambda c: dataclasses.replace(c, rope_scaling=RopeScaling())),
    "yarn without its attention factor": (YARN, scaled(attention_factor=1.0)),
    "yarn of another factor": (YARN, scaled(factor=4.0)),
    "yarn of another length": (YARN, scaled(original_max_positions=512)),
    "no window": (("mistral",), windowed(lambda size: None)),
    "a window off by one": (("mistral",), windowed(lambda size: size + 1)),
}  # fmt: skip


def test_a_model_configured_wrongly_fails(tiny: Tiny) -> None:
    found = read_config(tiny.path)
    passing = [
        name
        for name, (families, mutate) in MUTANTS.items()
        if tiny.family in families and tiny.fits(load(tiny.path, mutate(found)))
    ]
    assert passing == []


def test_a_file_without_a_bias_or_a_norm_fails(tiny: Tiny, tmp_path: Path) -> None:
    """Each projection's bias and each norm of heads that the family has, in all layers."""
    found = read_config(tiny.path)
    assert (found.qkv_bias, found.qk_norm) == (tiny.family != "mistral", tiny.family == "qwen3")
    config = config_of(tiny.family)
    weights = llama_weights(config, seed=7)
    ends = {
        name.split("self_attn.")[1]
        for name in weights
        if name.endswith((".bias", "q_norm.weight", "k_norm.weight"))
    }
    passing = []
    for end in sorted(ends):
        neutral = 0.0 if end.endswith("bias") else 1.0
        changed = {
            name: torch.full_like(weight, neutral) if name.endswith(f"self_attn.{end}") else weight
            for name, weight in weights.items()
        }
        path = tmp_path / f"{end}.gguf"
        write_gguf(path, ARCHITECTURES[tiny.family], config, changed, tiny.kind)
        passing += [end] * tiny.fits(load(path))
    assert passing == []
    assert len(ends) == {"qwen2": 3, "qwen3": 6, "mistral": 0}[tiny.family]


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("scaling", [{"rope_type": "linear", "factor": 4.0}, None], ids=["linear", "plain"])
def test_other_scalings_of_the_metadata(tmp_path: Path, family: str, scaling: dict[str, Any] | None) -> None:
    path, checkpoint = write(tmp_path, family, "F32", rope_scaling=scaling, sliding_window=None)
    kind = "default" if scaling is None else "linear"
    assert read_config(path).rope_scaling == RopeScaling(kind, 1.0 if scaling is None else 4.0)  # type: ignore[arg-type]
    found = teacher_forced(load(path), PROMPT, chunk=41)
    assert largest_error(found, oracle_logprobs(checkpoint, PROMPT)) < FP32_MAX


@pytest.mark.parametrize("form", ["file", "checkpoint"])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_second_turn_hits_the_pages_of_the_first_answer(tmp_path: Path, family: str, form: str) -> None:
    """Pages that decode has filled are found by the next turn, and hold what computing them again would give."""
    model = load(write(tmp_path, family, "Q5_1")[form == "checkpoint"])
    sampling = SamplingParams(
        seed=5, max_tokens=70, ignore_eos=True, temperature=0.8, num_logprobs=model.config.vocab_size
    )
    first = {"first": (PROMPT[:40], sampling)}
    answer = run_waves(model, [first]).rows["first"].tokens
    assert len(answer) == 40 + 70
    turn = [*answer, *PROMPT[:9]]
    second = {"second": (turn, sampling)}
    hit = run_waves(model, [first, second])
    assert hit.cached["second"] == (len(answer) - 1) // 16 * 16, "all full pages, though decode wrote them"
    alone = run_waves(model, [second], enable_prefix_caching=False)
    assert not alone.cached["second"]
    assert_same_tokens(alone.rows["second"], hit.rows["second"], 1e-3)
