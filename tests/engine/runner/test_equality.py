"""The engine's equality pairs on the tiny llama and gemma3, through the real scheduler and runner.

A request's tokens do not depend on its company, on chunks, on the prefix cache or on preemption: equal, or
first different where the two best scores lie within 1e-3 (fp32) or 0.1 (bf16; fp8 weights and cache, where what is
left of the order of sums may push a number to its neighbour in e4m3). Two steps in flight give the
same bits as one at the same batch composition. Prompts are longer than three windows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from engine.layers.batch import CausalLM
from engine.messages import SamplingParams
from engine.models.loader import load_model
from engine.models.quantization import Fp8Parts
from kernels.e4m3 import E4M3
from tests.engine.runner.driver import Driver, layout_of, make_runner
from tests.engine.runner.equality import assert_same_tokens
from tests.engine.runner.real_core import Finished, Requests, run_waves
from tests.models import write_tiny_gemma3, write_tiny_llama

WRITERS = {"llama": write_tiny_llama, "gemma3": write_tiny_gemma3}
LENGTHS = (1, 15, 16, 33, 60, 100, 130)
NUM_OUTPUTS = 24


@pytest.fixture(scope="module", params=WRITERS)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WRITERS[request.param](tmp_path_factory.mktemp("tiny") / request.param)


@dataclass(frozen=True)
class Tiny:
    """A tiny model, and the type of its pages."""

    model: CausalLM
    dtype: torch.dtype
    margin: float

    def run(self, *waves: Requests, **changes: object) -> Finished:
        return run_waves(self.model, list(waves), self.dtype, **changes)


@pytest.fixture(scope="module", params=["fp32", "bf16", "fp8"])
def tiny(request: pytest.FixtureRequest, checkpoint: Path) -> Tiny:
    if request.param == "fp8":
        fp8 = Fp8Parts(weights=True, kv_cache=True)
        return Tiny(load_model(checkpoint, dtype=torch.float32, fp8=fp8), E4M3, 0.1)
    dtype, margin = (torch.float32, 1e-3) if request.param == "fp32" else (torch.bfloat16, 0.1)
    return Tiny(load_model(checkpoint, dtype=dtype), dtype, margin)


def _sampling(index: int, vocab_size: int, max_tokens: int = NUM_OUTPUTS) -> SamplingParams:
    kinds = ({"temperature": 0.0}, {"temperature": 0.9}, {"temperature": 0.7, "presence_penalty": 0.4})
    return SamplingParams(
        seed=index,
        max_tokens=max_tokens,
        ignore_eos=True,
        num_logprobs=vocab_size,
        **kinds[index % len(kinds)],  # type: ignore[arg-type]  # test shorthand
    )


def _requests(tiny: Tiny, seed: int, shared: int = 0) -> Requests:
    """Prompts of all lengths; `shared` tokens at the front of each are the same."""
    draw, vocab = random.Random(seed), tiny.model.config.vocab_size
    front = [draw.randrange(vocab) for _ in range(shared)]
    return {
        f"r{index}": (front + [draw.randrange(vocab) for _ in range(length)], _sampling(index, vocab))
        for index, length in enumerate(LENGTHS)
    }


def _assert_equal(one: Finished, other: Finished, margin: float) -> None:
    assert one.rows.keys() == other.rows.keys()
    for name, row in one.rows.items():
        assert row.error is None
        assert len(row.outputs) == row.sampling.max_tokens
        assert_same_tokens(row, other.rows[name], margin)


def test_batched_equals_alone(tiny: Tiny, seed: int) -> None:
    requests = _requests(tiny, seed)
    alone = tiny.run(*({name: request} for name, request in requests.items()), enable_prefix_caching=False)
    _assert_equal(tiny.run(requests), alone, tiny.margin)


@pytest.mark.parametrize("budget", [16, 37])
def test_chunked_equals_whole(tiny: Tiny, seed: int, budget: int) -> None:
    requests = _requests(tiny, seed)
    chunked = tiny.run(requests, max_num_batched_tokens=budget)
    _assert_equal(tiny.run(requests), chunked, tiny.margin)


def test_cached_equals_not_cached(tiny: Tiny, seed: int) -> None:
    requests = _requests(tiny, seed, shared=75)
    first = {"r0": requests["r0"]}
    rest = {name: request for name, request in requests.items() if name != "r0"}
    cached = tiny.run(first, rest)
    assert all(cached.cached[name] >= 64 for name in rest), cached.cached
    plain = tiny.run(first, rest, enable_prefix_caching=False)
    assert not any(plain.cached.values())
    _assert_equal(plain, cached, tiny.margin)


def test_a_second_turn_hits_the_pages_of_the_first_answer(tiny: Tiny, seed: int) -> None:
    first = {"r5": _requests(tiny, seed)["r5"]}
    answer = tiny.run(first).rows["r5"].tokens
    second = {"r6": ([*answer, 7, 8, 9], _sampling(6, tiny.model.config.vocab_size))}
    cached = tiny.run(first, second)
    assert cached.cached["r6"] >= len(answer) // 16 * 16 - 16
    _assert_equal(tiny.run(second), Finished({"r6": cached.rows["r6"]}, {}, cached.load), tiny.margin)


def test_preempted_equals_not_preempted(tiny: Tiny, seed: int) -> None:
    draw, vocab = random.Random(seed), tiny.model.config.vocab_size
    requests = {
        f"r{index}": ([draw.randrange(vocab) for _ in range(13)], _sampling(index, vocab, max_tokens=80))
        for index in range(8)
    }
    # All are let in with a page or two a group, and each grows to six.
    num_blocks = 16 * len(tiny.model.kv_groups)
    crowded = tiny.run(requests, num_blocks=num_blocks, enable_prefix_caching=False)
    assert crowded.load.num_preemptions > 0
    _assert_equal(tiny.run(requests), crowded, tiny.margin)


def test_swapped_equals_not_swapped(tiny: Tiny, seed: int) -> None:
    """Duty engine-16: Pages that waited in host memory, also half-full ones, are what they were: all of them, or in fp32 those that
    the pool does not have any more."""
    draw, vocab = random.Random(seed), tiny.model.config.vocab_size
    requests = {
        f"r{index}": ([draw.randrange(vocab) for _ in range(13)], _sampling(index, vocab, max_tokens=80))
        for index in range(8)
    }
    num_blocks = 16 * len(tiny.model.kv_groups)
    swapped = tiny.run(
        requests,
        num_blocks=num_blocks,
        num_host_blocks=400,
        swaps=True,
        enable_prefix_caching=tiny.dtype is torch.float32,
    )
    assert swapped.load.num_preemptions > 0
    assert swapped.load.num_pages_restored > 0
    _assert_equal(tiny.run(requests), swapped, tiny.margin)


def test_pages_found_in_the_hosts_tier_equal_fresh_ones(tiny: Tiny, seed: int) -> None:
    first, others = _requests(tiny, seed), _requests(tiny, seed + 1)
    num_blocks = 40 * len(tiny.model.kv_groups)
    again = tiny.run(
        {f"first-{name}": one for name, one in first.items()},
        {f"other-{name}": one for name, one in others.items()},
        first,
        num_blocks=num_blocks,
        num_host_blocks=1000,
    )
    assert again.load.num_pages_restored > 0
    assert again.cached["r6"] > 0
    _assert_equal(
        tiny.run(first), Finished({name: again.rows[name] for name in first}, {}, again.load), tiny.margin
    )


def test_one_step_in_flight_equals_two(tiny: Tiny, seed: int) -> None:
    requests = _requests(tiny, seed)
    _assert_equal(tiny.run(requests), tiny.run(requests, steps_in_flight=1), tiny.margin)


def test_async_equals_sync_bitwise(tiny: Tiny, seed: int) -> None:
    layout = layout_of(tiny.model)
    drivers = []
    for depth in (1, 2):
        runner = make_runner(tiny.model, layout, dtype=tiny.dtype)
        driver = Driver(runner, layout, seed)
        for row, (prompt, sampling) in enumerate(_requests(tiny, seed).values()):
            driver.add(row, prompt, sampling)
        driver.run(num_outputs=NUM_OUTPUTS, chunk=50, depth=depth)
        runner.close()
        drivers.append(driver)
    for row in range(len(LENGTHS)):
        one, two = (driver.rows[row] for driver in drivers)
        assert one.outputs == two.outputs
        assert one.logprobs == two.logprobs
