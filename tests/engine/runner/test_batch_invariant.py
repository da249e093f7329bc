"""With `--batch-invariant` a request's tokens and log-probabilities do not depend, in any bit, on its company, on
chunks, on the prefix cache, on preemption or on the host's tier. Prompts are longer than three windows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from engine.layers.batch import CausalLM
from engine.messages import SamplingParams
from engine.models.loader import load_model
from engine.models.quantization import Fp8Parts
from kernels.e4m3 import E4M3
from tests.engine.runner.real_core import Finished, Requests, run_waves
from tests.models import write_tiny_gemma3, write_tiny_llama

LENGTHS = (1, 7, 8, 15, 16, 33, 60, 64, 65, 100, 130)
KINDS: Mapping[str, Mapping[str, object]] = {
    "greedy": {"temperature": 0.0},
    "hot": {"temperature": 0.9},
    "penalised": {"temperature": 0.7, "presence_penalty": 0.4, "repetition_penalty": 1.2, "top_p": 0.9},
    "filtered": {"temperature": 1.1, "top_k": 30, "min_p": 0.02, "logit_bias": {5: 3.0}},
}


@dataclass(frozen=True)
class Tiny:
    """A tiny model built to be invariant, and the type of its pages."""

    model: CausalLM
    dtype: torch.dtype

    def run(self, *waves: Requests, **changes: object) -> Finished:
        return run_waves(self.model, list(waves), self.dtype, batch_invariant=True, **changes)

    def alone(self, requests: Requests) -> Finished:
        return self.run(*({name: each} for name, each in requests.items()), enable_prefix_caching=False)


def _write(kind: str, folder: Path) -> Path:
    if kind == "gemma3":
        return write_tiny_gemma3(folder)
    return write_tiny_llama(folder, family=kind)


@pytest.fixture(
    scope="module", params=["llama fp32", "gemma3 fp32", "qwen3 fp32", "llama bf16", "gemma3 fp8"]
)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    family, dtype = request.param.split()
    checkpoint = _write(family, tmp_path_factory.mktemp("invariant") / family)
    if dtype == "fp8":
        fp8 = Fp8Parts(weights=True, kv_cache=True)
        return Tiny(load_model(checkpoint, dtype=torch.float32, fp8=fp8, batch_invariant=True), E4M3)
    kind = torch.float32 if dtype == "fp32" else torch.bfloat16
    return Tiny(load_model(checkpoint, dtype=kind, batch_invariant=True), kind)


def _requests(tiny: Tiny, seed: int, shared: int = 0, max_tokens: int = 10) -> Requests:
    """Prompts of all lengths; `shared` tokens at the front of each are the same."""
    draw, vocab = random.Random(seed), tiny.model.config.vocab_size
    front = [draw.randrange(vocab) for _ in range(shared)]
    kinds = list(KINDS.values())
    return {
        f"r{index}": (
            front + [draw.randrange(vocab) for _ in range(length)],
            SamplingParams(
                seed=index,
                max_tokens=max_tokens,
                ignore_eos=True,
                num_logprobs=20,
                **kinds[index % len(kinds)],  # type: ignore[arg-type]  # test shorthand
            ),
        )
        for index, length in enumerate(LENGTHS)
    }


def _assert_same_bits(one: Finished, other: Finished) -> None:
    assert one.rows.keys() == other.rows.keys()
    for name, row in one.rows.items():
        assert row.error is None
        assert len(row.outputs) == row.sampling.max_tokens
        assert row.outputs == other.rows[name].outputs, name
        assert row.logprobs == other.rows[name].logprobs, name


def test_batched_and_chunked_equal_alone(tiny: Tiny, seed: int) -> None:
    requests = _requests(tiny, seed)
    alone = tiny.alone(requests)
    _assert_same_bits(tiny.run(requests), alone)
    for budget in (16, 37):
        _assert_same_bits(tiny.run(requests, max_num_batched_tokens=budget), alone)


def test_cached_equals_not_cached(tiny: Tiny, seed: int) -> None:
    requests = _requests(tiny, seed, shared=75, max_tokens=8)
    first = {"r0": requests["r0"]}
    rest = {name: request for name, request in requests.items() if name != "r0"}
    cached = tiny.run(first, rest)
    assert all(cached.cached[name] >= 64 for name in rest), cached.cached
    _assert_same_bits(cached, tiny.alone(requests))


def test_a_second_turn_equals_one_that_finds_nothing(tiny: Tiny, seed: int) -> None:
    """Pages that decode wrote hold the bits that prefill would have written."""
    name = "r10"
    first = {name: _requests(tiny, seed, max_tokens=40)[name]}
    answer = tiny.run(first).rows[name].tokens
    second = {"second": ([*answer, 7, 8, 9], first[name][1])}
    cached = tiny.run(first, second)
    assert cached.cached["second"] >= len(answer) // 16 * 16 - 16
    cached.rows.pop(name)
    _assert_same_bits(cached, tiny.alone(second))


def _crowd(tiny: Tiny, seed: int) -> Requests:
    """Let in with a page or two a group; each grows to four."""
    draw, vocab = random.Random(seed), tiny.model.config.vocab_size
    return {
        f"r{index}": (
            [draw.randrange(vocab) for _ in range(13)],
            SamplingParams(seed=index, max_tokens=50, ignore_eos=True, num_logprobs=3),
        )
        for index in range(5)
    }


def test_preempted_or_swapped_equals_neither(tiny: Tiny, seed: int) -> None:
    requests, alone = _crowd(tiny, seed), tiny.alone(_crowd(tiny, seed))
    num_blocks = 11 * len(tiny.model.kv_groups)
    crowded = tiny.run(requests, num_blocks=num_blocks, enable_prefix_caching=False)
    assert crowded.load.num_preemptions > 0
    _assert_same_bits(crowded, alone)
    swapped = tiny.run(
        requests, num_blocks=num_blocks, num_host_blocks=400, swaps=True, enable_prefix_caching=False
    )
    assert swapped.load.num_pages_restored > 0
    _assert_same_bits(swapped, alone)
