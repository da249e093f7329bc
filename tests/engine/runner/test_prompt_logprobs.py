"""engine.runner.prompt_logprobs through both runners, against `transformers`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.layers.batch import CausalLM
from engine.messages import SamplingParams
from engine.models.loader import load_model
from engine.runner.gpu import GPURunner
from engine.runner.prompt_logprobs import CHUNK_ROWS
from tests.engine.models.oracle import FP32_MAX, oracle_logprobs, random_prompt
from tests.engine.runner.driver import Driver, Running, layout_of, make_runner
from tests.models import write_tiny_gemma3

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LENGTH, MAX_LEN, TOP = 2 * CHUNK_ROWS + 15, 120, 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Windows of 24, so that the prompt is longer than three of them."""
    return write_tiny_gemma3(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Tensor:
    return oracle_logprobs(checkpoint, random_prompt(LENGTH, 512))


def gpu_runner(model: CausalLM) -> GPURunner:
    layout, config = layout_of(model), model.config
    shape = (layout.num_blocks, len(layout.groups[0].layer_ids), 2, config.num_kv_heads, 16, config.head_dim)
    runner = GPURunner(
        model,
        torch.full(shape, float("nan"), device=DEVICE),
        layout,
        max_num_seqs=4,
        max_model_len=MAX_LEN,
        max_num_batched_tokens=96,
        dtype=torch.float32,
    )
    if DEVICE.type == "cuda":
        runner.capture()
    return runner


def wanting(num_prompt_logprobs: int | None, **fields: object) -> SamplingParams:
    return SamplingParams(
        seed=1,
        max_tokens=9,
        temperature=0.0,
        num_prompt_logprobs=num_prompt_logprobs,
        **fields,  # type: ignore[arg-type]  # by name
    )


def assert_equal(row: Running, expected: Tensor) -> None:
    prompt = row.tokens[: row.num_prompt]
    assert len(row.prompt_logprobs) == row.num_prompt - 1
    for position, found in enumerate(row.prompt_logprobs):
        oracle, token = expected[position], prompt[position + 1]
        assert found.token_logprob == pytest.approx(float(oracle[token]), abs=FP32_MAX)
        assert len(found.top_ids) == len(found.top_logprobs) == row.sampling.num_prompt_logprobs
        assert found.top_logprobs == pytest.approx(oracle[found.top_ids].tolist(), abs=FP32_MAX)
        assert found.top_logprobs == pytest.approx(oracle.topk(len(found.top_ids)).values.tolist(), abs=1e-3)
        assert abs(found.rank - 1 - int((oracle > oracle[token]).sum())) <= 1


@pytest.mark.parametrize("chunk", [33, 96])
def test_equals_the_oracle_at_every_position(
    checkpoint: Path, expected: Tensor, seed: int, chunk: int
) -> None:
    """Beside rows that do not ask, with and without alternatives, and not changed by a penalty or a mask."""
    prompt = random_prompt(LENGTH, 512)
    model = load_model(checkpoint, dtype=torch.float32, device=torch.device("cpu"))
    driver = Driver(make_runner(model, layout_of(model)), layout_of(model), seed)
    asking = driver.add(0, prompt, wanting(TOP, repetition_penalty=3.0, logit_bias={5: 9.0}))
    driver.run(num_outputs=3, chunk=chunk)
    assert_equal(asking, expected)
    silent = driver.add(1, prompt[:20], wanting(None))
    bare = driver.add(2, prompt[:30], wanting(0))
    single = driver.add(3, prompt[:1], wanting(TOP))
    driver.run(num_outputs=5, chunk=17, depth=2)
    assert_equal(bare, expected)
    assert silent.prompt_logprobs == single.prompt_logprobs == []
    assert [len(row.outputs) for row in (asking, silent, bare, single)] == [5] * 4


def test_the_gpus_runner_finds_the_same(checkpoint: Path, expected: Tensor, seed: int) -> None:
    """In two steps, of which the first samples nothing for the row. Too many alternatives fail their row only."""
    prompt = random_prompt(LENGTH, 512)
    model = load_model(checkpoint, dtype=torch.float32, device=DEVICE, max_positions=MAX_LEN + 1)
    driver = Driver(gpu_runner(model), layout_of(model), seed)  # type: ignore[arg-type]  # the same contract
    asking = driver.add(0, prompt[: CHUNK_ROWS + 9], wanting(TOP))
    silent = driver.add(1, prompt[:4], wanting(None))
    greedy_one = driver.add(2, prompt[:2], wanting(21))
    driver.launch({0: CHUNK_ROWS + 5, 1: 9, 2: 9})
    driver.launch({0: 9})
    driver.collect()
    driver.collect()
    assert_equal(asking, expected)
    assert len(asking.outputs) == len(silent.outputs) == 1
    assert silent.prompt_logprobs == []
    assert "num_prompt_logprobs" in str(greedy_one.error)


def test_a_prompt_computed_again_is_looked_at_again(checkpoint: Path, expected: Tensor, seed: int) -> None:
    """A preempted request comes back with outputs: those are not prompt."""
    prompt = random_prompt(LENGTH, 512)
    model = load_model(checkpoint, dtype=torch.float32, device=torch.device("cpu"))
    driver = Driver(make_runner(model, layout_of(model)), layout_of(model), seed)
    again = driver.add(0, prompt, wanting(0), outputs=[7, 8, 9])
    driver.run(num_outputs=4)
    assert_equal(again, expected)
