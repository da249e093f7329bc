"""engine.runner.gpu against the plain runner, on tiny real models. Without a GPU the kernels are interpreted."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from engine.core.contract import BatchError, RowWork, ScheduleOutput
from engine.layers.batch import CausalLM
from engine.messages import SamplingParams
from engine.models.loader import load_model
from engine.models.quantization import Fp8Parts
from engine.runner.gpu import GPURunner
from engine.runner.graphs import GraphSet
from engine.runner.sampler import NOTHING_TO_CHOOSE
from kernels.e4m3 import E4M3
from tests.engine.runner.driver import Driver, Running, layout_of, make_runner
from tests.engine.runner.equality import assert_same_tokens
from tests.models import write_tiny_gemma3, write_tiny_llama

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MAX_ROWS, MAX_LEN, MAX_TOKENS = 5, 100, 64
LENGTHS = (1, 3, 17, 60)


def _gpu_runner(
    model: CausalLM, pages: torch.dtype = torch.float32, *, batch_invariant: bool = False
) -> GPURunner:
    layout, config = layout_of(model), model.config
    shape = (layout.num_blocks, len(layout.groups[0].layer_ids), 2, config.num_kv_heads, 16, config.head_dim)
    runner = GPURunner(
        model,
        torch.full(shape, float("nan"), dtype=pages, device=DEVICE),
        layout,
        max_num_seqs=MAX_ROWS,
        max_model_len=MAX_LEN,
        max_num_batched_tokens=MAX_TOKENS,
        dtype=torch.float32,
        batch_invariant=batch_invariant,
    )
    if DEVICE.type == "cuda":
        runner.capture()
    return runner


@pytest.fixture(params=[write_tiny_llama, write_tiny_gemma3])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> CausalLM:
    write: Callable[[Path], object] = request.param
    write(tmp_path)
    return _load(tmp_path, DEVICE)


def _load(path: Path, device: torch.device) -> CausalLM:
    return load_model(path, dtype=torch.float32, device=device, max_positions=MAX_LEN + 1)


def _add_rows(driver: Driver, seed: int, sampling: Callable[[int], SamplingParams]) -> None:
    draw = random.Random(seed)
    for row, length in enumerate(LENGTHS):
        driver.add(row, [draw.randrange(3, 90) for _ in range(length)], sampling(row))


def _greedy(row: int) -> SamplingParams:
    return SamplingParams(seed=row, max_tokens=50, temperature=0.0)


def _mixed(row: int) -> SamplingParams:
    kinds = ({"temperature": 0.0}, {"top_p": 0.9, "num_logprobs": 3}, {"presence_penalty": 0.5})
    return SamplingParams(seed=100 + row, max_tokens=50, **kinds[row % 3])


def _filtered(row: int) -> SamplingParams:
    kinds: tuple[dict[str, object], ...] = (
        {},
        {"top_k": 20, "top_p": 0.95, "temperature": 0.8, "num_logprobs": 20, "frequency_penalty": 0.3},
        {"min_p": 0.05, "min_tokens": 9, "logit_bias": {7: 2.0}, "repetition_penalty": 1.1},
        {"allowed_token_ids": tuple(range(3, 300)), "num_logprobs": 0},
    )
    return SamplingParams(seed=200 + row, max_tokens=50, **kinds[row % 4])  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("sampling", [_greedy, _mixed, _filtered])
def test_equals_the_plain_runner(
    model: CausalLM, tmp_path: Path, seed: int, sampling: Callable[[int], SamplingParams]
) -> None:
    oracle = _load(tmp_path, torch.device("cpu"))
    plain = Driver(make_runner(oracle, layout_of(oracle)), layout_of(oracle), seed)
    ours = Driver(_gpu_runner(model), layout_of(model), seed + 1)
    for driver in (plain, ours):
        _add_rows(driver, seed, sampling)
    plain.run(num_outputs=3, chunk=33)
    with _never_waiting():
        ours.run(num_outputs=3, chunk=33, depth=2)
    for row in range(len(LENGTHS)):
        assert plain.rows[row].error is ours.rows[row].error is None
        assert_same_tokens(plain.rows[row], ours.rows[row], 1e-3)
        _assert_same_logprobs(plain.rows[row], ours.rows[row])


def test_batch_invariant_gives_the_same_bits(tmp_path: Path, seed: int) -> None:
    """Alone and whole, or together and in chunks."""
    write_tiny_llama(tmp_path)
    model = load_model(
        tmp_path, dtype=torch.float32, device=DEVICE, max_positions=MAX_LEN + 1, batch_invariant=True
    )
    together = Driver(_gpu_runner(model, batch_invariant=True), layout_of(model), seed)
    _add_rows(together, seed, _filtered)
    together.run(num_outputs=2, chunk=7)
    plain = Driver(_gpu_runner(model, batch_invariant=True), layout_of(model), seed + 1)
    for row, other in together.rows.items():
        alone = plain.add(0, other.tokens[: other.num_prompt], other.sampling)
        plain.run(num_outputs=2)
        assert (alone.error, alone.outputs) == (None, other.outputs)
        assert alone.logprobs == other.logprobs, row
        plain.free(0)


def test_pages_in_fp8_equal_the_plain_runners(tmp_path: Path, seed: int) -> None:
    """Prefill and decode, whose kernels write the pages each in their own way."""
    write_tiny_llama(tmp_path)
    oracle, model = (
        load_model(tmp_path, dtype=torch.float32, device=device, fp8=Fp8Parts(kv_cache=True))
        for device in ("cpu", DEVICE)
    )
    plain = Driver(make_runner(oracle, layout_of(oracle), dtype=E4M3), layout_of(oracle), seed)
    ours = Driver(_gpu_runner(model, E4M3), layout_of(model), seed + 1)
    for driver in (plain, ours):
        _add_rows(driver, seed, _greedy)
    plain.run(num_outputs=4, chunk=33)
    ours.run(num_outputs=4, chunk=33, depth=2)
    for row in range(len(LENGTHS)):
        assert plain.rows[row].error is ours.rows[row].error is None
        assert_same_tokens(plain.rows[row], ours.rows[row], 0.1)


@contextmanager
def _never_waiting() -> Iterator[None]:
    """On a GPU, torch's own calls that wait for the device raise. Waiting for a step's event is none of them."""
    if DEVICE.type != "cuda":
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the mode a prototype, each time it is set
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


def _assert_same_logprobs(plain: Running, ours: Running) -> None:
    assert len(plain.logprobs) == len(ours.logprobs) == (0 if plain.sampling.num_logprobs is None else 3)
    for one, other in zip(plain.logprobs, ours.logprobs, strict=True):
        assert one.token_logprob == pytest.approx(other.token_logprob, abs=1e-3)
        assert one.top_logprobs == pytest.approx(other.top_logprobs, abs=1e-3)
        assert len(one.top_ids) == len(other.top_ids) == plain.sampling.num_logprobs


class _Graphs:
    """As many as are wanted: each runs what it was captured from."""

    def __init__(self, run: Callable[[int], object]) -> None:
        self._run = run

    def replay(self, size: int) -> bool:
        self._run(size)
        return True


def test_graphs_that_were_there_and_that_were_not_are_counted(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step's two halves: the forward pass, and the choice if a row samples."""
    write_tiny_llama(tmp_path)
    model = _load(tmp_path, DEVICE)
    runner = _gpu_runner(model)
    driver = Driver(runner, layout_of(model), seed)
    for name in ("_decode_graphs", "_mixed_graphs", "_greedy_graphs", "_sampling_graphs"):
        monkeypatch.setattr(runner, name, GraphSet([]))
    driver.add(0, [5, 6], _greedy(0))
    driver.launch({0: 1})
    driver.launch({0: 1})
    counted = [(each.graph_hits, each.graph_misses) for each in (driver.collect(), driver.collect())]
    monkeypatch.setattr(runner, "_decode_graphs", _Graphs(lambda size: runner._forward(size, wide=False)))
    monkeypatch.setattr(runner, "_greedy_graphs", _Graphs(runner._choose_greedily))
    driver.launch({0: 1})
    result = driver.collect()
    counted.append((result.graph_hits, result.graph_misses))
    driver.add(1, [5, 6], SamplingParams(seed=0, max_tokens=5, temperature=0.0, num_prompt_logprobs=1))
    driver.launch({1: 9})
    result = driver.collect()
    counted.append((result.graph_hits, result.graph_misses))
    assert counted == [(0, 1), (0, 2), (2, 0), (1, 1)], "the last: prompts are scored without a graph"
    assert len(driver.rows[0].outputs) == 2


def test_a_row_is_reused_without_traces(model: CausalLM, seed: int) -> None:
    driver = Driver(_gpu_runner(model), layout_of(model), seed)
    prompt = [5, 6, 7, 8, 9]
    first = driver.add(2, prompt, _greedy(0))
    driver.run(num_outputs=2)
    driver.free(2)
    driver.add(3, list(range(3, 50)), _greedy(0))
    driver.run(num_outputs=2)
    again = driver.add(2, prompt, _greedy(0))
    driver.run(num_outputs=2)
    assert again.outputs == first.outputs


def test_warm_up_leaves_no_trace(model: CausalLM, seed: int) -> None:
    answers = []
    for warm in (False, True):
        runner = _gpu_runner(model)
        if warm:
            runner.warm_up()
        driver = Driver(runner, layout_of(model), seed)
        driver.add(0, [5, 6, 7], SamplingParams(seed=1, max_tokens=5, top_k=40, frequency_penalty=0.5))
        driver.run(num_outputs=2)
        answers.append(driver.rows[0].outputs)
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2


def test_unusable_settings_fail_their_row_only(model: CausalLM, seed: int) -> None:
    driver = Driver(_gpu_runner(model), layout_of(model), seed)
    driver.add(0, [5, 6, 7], _greedy(0))
    driver.add(1, [5, 6, 7], SamplingParams(seed=0, max_tokens=5, logit_bias={10**6: 1.0}))
    driver.run(num_outputs=2)
    assert len(driver.rows[0].outputs) == 2
    assert "logit_bias" in str(driver.rows[1].error)


def test_a_row_with_nothing_to_choose_fails_alone_two_steps_deep(model: CausalLM, seed: int) -> None:
    end = model.config.eos_token_ids[0]
    driver = Driver(_gpu_runner(model), layout_of(model), seed)
    nothing = SamplingParams(
        seed=0, max_tokens=5, allowed_token_ids=(end,), min_tokens=9, presence_penalty=1.0
    )
    driver.add(0, [5, 6, 7], _greedy(0))
    driver.add(1, [5, 6, 7], nothing)
    for _ in range(2):
        driver.launch({0: 9, 1: 9})
    for _ in range(2):
        assert driver.collect().failures == {1: NOTHING_TO_CHOOSE}
    assert len(driver.rows[0].outputs) == 2


def test_a_row_given_away_while_its_step_runs_keeps_its_own_outcome(model: CausalLM, seed: int) -> None:
    runner = _gpu_runner(model)
    driver = Driver(runner, layout_of(model), seed)
    driver.add(0, [5, 6, 7], _greedy(0))
    driver.launch({0: 9})
    driver.free(0)
    driver.add(0, [5, 6, 7], SamplingParams(seed=0, max_tokens=5, logit_bias={10**6: 1.0}))
    driver.launch({0: 9})
    first, second = driver.collect(), driver.collect()
    assert list(first.tokens) == [0]
    assert not first.failures
    assert "logit_bias" in second.failures[0]


def test_a_failing_step_fails_as_a_batch_and_the_next_one_runs(
    model: CausalLM, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty engine-22: out of memory in one step is no end."""
    runner = _gpu_runner(model)
    driver = Driver(runner, layout_of(model), seed)

    def explode(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_run_forward", explode)
        handle = runner.launch(ScheduleOutput(0, (RowWork(0, 0, 1, samples=True),)))
    with pytest.raises(BatchError, match="no room"):
        runner.collect(handle)
    driver.add(0, [5, 6, 7], _greedy(0))
    driver.run(num_outputs=2)
    assert len(driver.rows[0].outputs) == 2
